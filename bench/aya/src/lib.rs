//! Readers by aya, for peers_aya.go: a PerfEventArray, polled by epoll, as its documentation has it, or a RingBuf.
//! What is done with an event is what event() of ../../peers.c does.
use aya::maps::{perf::PerfEventArrayBuffer, Map, MapData, PerfEventArray, RingBuf};
use aya::util::online_cpus;
use bytes::BytesMut;
use std::error::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// What peers_aya.h calls struct aya_counts: read while the loop runs.
#[repr(C)]
pub struct Counts {
    events: AtomicU64,
    lost: AtomicU64,
    overtaken: AtomicU64,
    stop: AtomicBool,
    delays: *mut u32,
    most: u64,
}

/// Where payloads have their time: internal/workload.
const TIME_OFFSET: usize = 16;

/// What is done with events: read their first word, and count them.
struct Sink<'a> {
    counts: &'a Counts,
    looping: bool,
    events: u64,
    sum: u64,
    latest: u64,
}

impl Sink<'_> {
    #[inline]
    fn event(&mut self, data: &[u8]) {
        let word = u64::from_ne_bytes(data[..8].try_into().unwrap());
        self.sum = self.sum.wrapping_add(word);
        if !self.looping {
            self.events += 1;
            return;
        }
        if !self.counts.delays.is_null() {
            let word = u64::from_ne_bytes(data[TIME_OFFSET..TIME_OFFSET + 8].try_into().unwrap());
            let n = self.counts.events.load(SeqCst);
            if n < self.counts.most {
                let delay = now().wrapping_sub(word).min(u32::MAX as u64) as u32;
                // The array has `most` elements, and lives longer than the peer.
                unsafe { *self.counts.delays.add(n as usize) = delay };
            }
            if word < self.latest {
                self.counts.overtaken.fetch_add(1, SeqCst);
            }
            self.latest = self.latest.max(word);
        }
        self.counts.events.fetch_add(1, SeqCst);
    }
}

fn now() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

enum Source {
    Perf(PerfEventArrayBuffer<MapData>),
    Ring(RingBuf<MapData>),
}

impl Source {
    fn fd(&self) -> RawFd {
        match self {
            Source::Perf(b) => b.as_raw_fd(),
            Source::Ring(r) => r.as_raw_fd(),
        }
    }

    /// Reads until there is no more.
    fn read(&mut self, out: &mut [BytesMut], sink: &mut Sink) -> Result<(), Box<dyn Error>> {
        match self {
            Source::Perf(b) => loop {
                let events = b.read_events(out)?;
                sink.counts.lost.fetch_add(events.lost as u64, SeqCst);
                for buf in &out[..events.read] {
                    sink.event(buf);
                }
                if events.read < out.len() {
                    return Ok(());
                }
            },
            Source::Ring(r) => {
                while let Some(item) = r.next() {
                    sink.event(&item);
                }
                Ok(())
            }
        }
    }
}

pub struct Peer {
    sources: Vec<Source>,
    _array: Option<PerfEventArray<MapData>>, // its descriptor of the map holds the entries
    out: Vec<BytesMut>,
}

fn open(fd: OwnedFd, pages: usize) -> Result<Peer, Box<dyn Error>> {
    let data = MapData::from_fd(fd)?;
    // As many buffers, of that size, as the documentation of AsyncPerfEventArray takes.
    let mut peer = Peer { sources: vec![], _array: None, out: (0..10).map(|_| BytesMut::with_capacity(1024)).collect() };
    if pages == 0 {
        peer.sources.push(Source::Ring(RingBuf::try_from(Map::RingBuf(data))?));
        return Ok(peer);
    }
    let mut array = PerfEventArray::try_from(Map::PerfEventArray(data))?;
    for cpu in online_cpus().map_err(|(_, err)| err)? {
        peer.sources.push(Source::Perf(array.open(cpu, Some(pages))?));
    }
    peer._array = Some(array);
    Ok(peer)
}

impl Peer {
    fn poll(&mut self, sink: &mut Sink) -> Result<(), Box<dyn Error>> {
        let epoll = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        for (i, source) in self.sources.iter().enumerate() {
            let mut ev = libc::epoll_event { events: libc::EPOLLIN as u32, u64: i as u64 };
            check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, source.fd(), &mut ev) })?;
        }
        let mut ready = vec![libc::epoll_event { events: 0, u64: 0 }; self.sources.len()];
        while !sink.counts.stop.load(SeqCst) {
            // 100 ms is what the other readers' loops wait too.
            let n = unsafe { libc::epoll_wait(epoll.as_raw_fd(), ready.as_mut_ptr(), ready.len() as i32, 100) };
            for ev in &ready[..n.max(0) as usize] {
                let i = ev.u64 as usize;
                self.sources[i].read(&mut self.out, sink)?;
            }
        }
        Ok(())
    }
}

fn check(ret: i32) -> std::io::Result<i32> {
    if ret < 0 { Err(std::io::Error::last_os_error()) } else { Ok(ret) }
}

fn report<T>(what: &str, result: Result<T, Box<dyn Error>>) -> Option<T> {
    result.map_err(|err| eprintln!("aya: {what}: {err}")).ok()
}

/// Opens a reader of a perf event array, or, with 0 pages, of a ring buffer, and takes the descriptor. NULL if it fails.
#[no_mangle]
pub extern "C" fn aya_open(fd: RawFd, pages: usize) -> *mut Peer {
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    report("open", open(fd, pages)).map_or(std::ptr::null_mut(), |p| Box::into_raw(Box::new(p)))
}

/// Drains all rings once, and returns how many events there were; negative if it fails.
#[no_mangle]
pub extern "C" fn aya_drain(peer: &mut Peer, counts: &Counts) -> i64 {
    let mut sink = Sink { counts, looping: false, events: 0, sum: 0, latest: 0 };
    for source in &mut peer.sources {
        if report("read_events", source.read(&mut peer.out, &mut sink)).is_none() {
            return -1;
        }
    }
    std::hint::black_box(sink.sum);
    sink.events as i64
}

/// Reads until counts.stop. Returns 0, or a negative number if it fails.
#[no_mangle]
pub extern "C" fn aya_poll(peer: &mut Peer, counts: &Counts) -> i32 {
    let mut sink = Sink { counts, looping: true, events: 0, sum: 0, latest: 0 };
    let done = report("poll", peer.poll(&mut sink));
    std::hint::black_box(sink.sum);
    done.map_or(-1, |()| 0)
}

/// Closes it.
#[no_mangle]
pub extern "C" fn aya_close(peer: *mut Peer) {
    drop(unsafe { Box::from_raw(peer) }); // from aya_open, and not used again
}
