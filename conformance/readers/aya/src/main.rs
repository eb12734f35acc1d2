//! The adapter of aya: PerfEventArray and RingBuf, which leave waiting to their user: here, poll(2) over all of them and stdin.
mod wire;

use aya::maps::{perf::PerfEventArrayBuffer, Map, MapData, PerfEventArray, RingBuf};
use aya::util::online_cpus;
use bytes::BytesMut;
use std::error::Error;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;
use wire::{Settings, Type, Wire};

enum Buffer {
    Perf { buffer: PerfEventArrayBuffer<MapData>, cpu: i32 },
    Ring(RingBuf<MapData>),
}

struct Reader {
    settings: Settings,
    wire: Wire,
    buffers: Vec<(u16, Buffer)>,
    arrays: Vec<PerfEventArray<MapData>>,
    out: Vec<BytesMut>,
    slow: Duration,
    keep: bool,
    kept: Option<(u16, i32, BytesMut)>,
    close: bool, // at the next event
}

impl Reader {
    fn open(&mut self) -> Result<(), Box<dyn Error>> {
        for (i, (fd, ringbuf)) in self.settings.maps.iter().enumerate() {
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) }.try_clone_to_owned()?; // inherited, and open until the end
            let (source, data) = (i as u16, MapData::from_fd(fd)?);
            if *ringbuf {
                self.buffers.push((source, Buffer::Ring(RingBuf::try_from(Map::RingBuf(data))?)));
                continue;
            }
            let mut array = PerfEventArray::try_from(Map::PerfEventArray(data))?;
            for cpu in online_cpus().map_err(|(_, err)| err)? {
                let buffer = array.open(cpu, self.settings.pages)?;
                self.buffers.push((source, Buffer::Perf { buffer, cpu: cpu as i32 }));
            }
            self.arrays.push(array);
        }
        Ok(())
    }

    fn shut(&mut self) {
        self.buffers.clear();
        self.arrays.clear();
    }

    fn fds(&self) -> Vec<RawFd> {
        let fd = |b: &Buffer| match b {
            Buffer::Perf { buffer, .. } => buffer.as_raw_fd(),
            Buffer::Ring(ring) => ring.as_raw_fd(),
        };
        self.buffers.iter().map(|(_, b)| fd(b)).collect()
    }

    /// Reads from the buffers at these places until there is no more, or so many events of each. Says which may have more.
    fn read(&mut self, which: impl Iterator<Item = usize>, most: usize) -> Vec<usize> {
        let (mut more, mut closed) = (vec![], false);
        for i in which {
            let (source, buffer) = &mut self.buffers[i];
            let mut n = 0;
            while n < most && !closed {
                match buffer {
                    Buffer::Perf { buffer, cpu } => {
                        let events = match buffer.read_events(&mut self.out) {
                            Ok(events) => events,
                            Err(err) => {
                                self.wire.text(Type::Error, &err.to_string());
                                break;
                            }
                        };
                        if events.lost > 0 {
                            self.wire.frame(Type::Lost, *source, *cpu, &(events.lost as u64).to_le_bytes());
                        }
                        if events.read == 0 {
                            break;
                        }
                        let event = &mut self.out[0];
                        self.wire.event(*source, *cpu, event, self.slow);
                        if std::mem::take(&mut self.keep) {
                            self.kept = Some((*source, *cpu, std::mem::take(event)));
                        }
                    }
                    Buffer::Ring(ring) => {
                        let Some(item) = ring.next() else { break };
                        self.wire.event(*source, -1, &item, self.slow);
                    }
                }
                closed = self.close;
                n += 1;
            }
            if n == most {
                more.push(i);
            }
            if closed {
                break;
            }
        }
        if closed {
            self.close = false;
            self.shut();
            more.clear();
            self.wire.text(Type::Done, "closein");
        }
        self.wire.flush();
        more
    }

    /// Waits for buffers, for this time, and reads them.
    fn wait(&mut self, timeout: i32) {
        let (_, ready) = wire::poll(&[], &self.fds(), timeout);
        self.read(ready.into_iter(), usize::MAX);
    }

    /// Carries out a command; says why if aya cannot.
    fn command(&mut self, name: &str, n: u64, reading: &mut bool) -> Result<(), &'static str> {
        match name {
            "flush" | "drain" => drop(self.read(0..self.buffers.len(), usize::MAX)),
            "stop" => *reading = false,
            "go" => *reading = true,
            "slow" => self.slow = Duration::from_micros(n),
            "deadline" => self.wait(n as i32),
            "keep" if self.settings.maps.iter().any(|(_, ringbuf)| *ringbuf) => {
                return Err("a RingBufItem is borrowed, and to be dropped before the next one")
            }
            "keep" => self.keep = true,
            "kept" => match &self.kept {
                Some((source, cpu, event)) => self.wire.frame(Type::Event, *source, *cpu, event),
                None => self.wire.text(Type::Error, "no event was kept"),
            },
            "allocations" => self.wire.frame(Type::Number, 0, -1, &wire::ALLOCATIONS.count().to_le_bytes()),
            "close" => self.shut(),
            "reopen" => {
                if let Err(err) = self.open() {
                    self.wire.text(Type::Error, &err.to_string());
                }
            }
            "pause" | "resume" => return Err("there is no way to pause a PerfEventArray or RingBuf"),
            "close2" => return Err("a reader is closed by dropping it: the compiler refuses to do so twice"),
            _ => return Err("unknown command"),
        }
        Ok(())
    }

    fn run(mut self) {
        if let Err(err) = self.open() {
            return self.wire.text(Type::Error, &err.to_string());
        }
        self.wire.text(Type::Ready, "");
        let (mut commands, mut reading, mut more) = (wire::Commands::default(), true, vec![]);
        loop {
            let fds = if reading { self.fds() } else { vec![] };
            let (stdin, mut ready) = wire::poll(&[0], &fds, if reading && !more.is_empty() { 0 } else { -1 });
            if reading {
                ready.retain(|i| !more.contains(i));
                more.append(&mut ready); // so much of each at a time that commands are heard
                more = self.read(more.into_iter(), 1000);
            }
            if !stdin {
                continue;
            }
            let Some(lines) = commands.read() else { return };
            for line in lines {
                let (name, n) = line.split_once(' ').unwrap_or((&line, "0"));
                match name {
                    "quit" => return,
                    "closein" => self.close = true,
                    _ => match self.command(name, n.parse().unwrap_or(0), &mut reading) {
                        Ok(()) => self.wire.text(Type::Done, name),
                        Err(why) => self.wire.text(Type::Cannot, why),
                    },
                }
                if self.buffers.is_empty() {
                    more.clear();
                }
            }
        }
    }
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("describe") {
        return println!("reader=aya version={}", env!("AYA_VERSION"));
    }
    let (settings, mut wire) = (Settings::from_args(), Wire::new());
    if let Some(why) = settings.refused {
        return wire.text(Type::Cannot, why);
    }
    // One buffer, as in its documentation: what a call says was lost was lost before that event.
    let out = vec![BytesMut::with_capacity(1024)];
    let slow = Duration::ZERO;
    Reader { settings, wire, buffers: vec![], arrays: vec![], out, slow, keep: false, kept: None, close: false }.run()
}
