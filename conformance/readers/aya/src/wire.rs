//! PROTOCOL.md: settings, frames, commands.
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{stdout, BufWriter, Stdout, Write};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

pub struct Settings {
    pub maps: Vec<(RawFd, bool)>, // and whether it is a ring buffer
    pub pages: Option<usize>,
    pub refused: Option<&'static str>, // what aya has no setting for
}

impl Settings {
    pub fn from_args() -> Self {
        let (mut maps, mut kinds) = (vec![], vec![]);
        let (mut pages, mut refused) = (Some(64), None);
        for arg in std::env::args().skip(1) {
            match arg.split_once('=').unwrap_or((&arg, "")) {
                ("maps", list) => maps = list.split(',').map(|fd| fd.parse().expect("maps=")).collect(),
                ("kind", list) => kinds = list.split(',').map(|kind| kind == "ringbuf").collect(),
                ("pages", n) => pages = n.parse().ok(),
                ("order", "time") => refused = Some("each buffer is read by itself, and events have no kernel time"),
                ("wakeup_events", n) if n != "1" => refused = Some("PerfEventArray::open wakes for each event"),
                ("wakeup_bytes", n) if n != "0" => refused = Some("PerfEventArray::open has no watermark"),
                ("poll", n) if n != "0" => refused = Some("there is no such setting, as there is no watermark"),
                _ => (),
            }
        }
        let ringbuf = |i: usize| *kinds.get(i).or(kinds.last()).unwrap_or(&false);
        Settings { maps: maps.into_iter().enumerate().map(|(i, fd)| (fd, ringbuf(i))).collect(), pages, refused }
    }
}

#[derive(Clone, Copy)]
pub enum Type {
    Event = 1,
    Lost,
    Ready,
    Done,
    Error,
    Cannot,
    Number = 8,
}

/// The allocator, which counts.
pub struct Counting(AtomicU64);

#[global_allocator]
pub static ALLOCATIONS: Counting = Counting(AtomicU64::new(0));

impl Counting {
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

// Safe as the system's is, to which all goes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(1, Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        System.dealloc(p, layout)
    }
}

pub struct Wire(BufWriter<Stdout>);

impl Wire {
    pub fn new() -> Self {
        Wire(BufWriter::with_capacity(1 << 16, stdout()))
    }

    pub fn frame(&mut self, kind: Type, source: u16, cpu: i32, data: &[u8]) {
        let mut header = [0; 24];
        header[..2].copy_from_slice(&(kind as u16).to_le_bytes());
        header[2..4].copy_from_slice(&source.to_le_bytes());
        header[4..8].copy_from_slice(&cpu.to_le_bytes());
        header[8..12].copy_from_slice(&(data.len() as u32).to_le_bytes());
        // Without the suite there is nothing left to do.
        self.0.write_all(&header).and_then(|()| self.0.write_all(data)).unwrap_or_else(|_| std::process::exit(1));
    }

    /// The user's function: takes some time, and hands the event on.
    pub fn event(&mut self, source: u16, cpu: i32, data: &[u8], slow: Duration) {
        self.frame(Type::Event, source, cpu, data);
        if !slow.is_zero() {
            self.flush();
            std::thread::sleep(slow);
        }
    }

    pub fn text(&mut self, kind: Type, text: &str) {
        self.frame(kind, 0, -1, text.as_bytes());
        self.flush();
    }

    pub fn flush(&mut self) {
        self.0.flush().unwrap_or_else(|_| std::process::exit(1));
    }
}

/// Complete lines of stdin.
#[derive(Default)]
pub struct Commands(Vec<u8>);

impl Commands {
    /// Blocks, unless poll says that there is something. None at the end.
    pub fn read(&mut self) -> Option<Vec<String>> {
        let mut chunk = [0; 1024];
        let n = unsafe { libc::read(0, chunk.as_mut_ptr().cast(), chunk.len()) };
        if n <= 0 {
            return None;
        }
        self.0.extend_from_slice(&chunk[..n as usize]);
        let end = self.0.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        let lines: Vec<u8> = self.0.drain(..end).collect();
        Some(String::from_utf8_lossy(&lines).lines().map(str::to_string).collect())
    }
}

/// Waits for one of these descriptors; says whether the first list has one that is ready, and which of the second are.
pub fn poll(first: &[RawFd], second: &[RawFd], timeout: i32) -> (bool, Vec<usize>) {
    let event = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut fds: Vec<_> = first.iter().chain(second).map(event).collect();
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout) };
    let (a, b) = fds.split_at(first.len());
    (a.iter().any(|fd| fd.revents != 0), (0..b.len()).filter(|i| b[*i].revents != 0).collect())
}
