//! A small host for tests of drives alone: a queue in order of arrival above the adapter, coalesced
//! flushes (specs/drives.md 1.2), and the loads of section 7. No page cache, no CPU but what is
//! stated.

use hoistway::{Instant, Nanos, Op};
use hoistway_sim::drive::{Adapter, Command, Completion, DriveFile, DriveOutput};
use hoistway_sim::rng::{self, Rng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The next flush is issued so long after the last (specs/drives.md 1.2).
const KICK: Nanos = Nanos::us(20);
/// A reader consumes a window (specs/drives.md section 7).
const CONSUME: Nanos = Nanos::us(100);

/// What a process does.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Buffered sequential reader: the window after the one being consumed is always requested.
    Reader { window: u64 },
    /// 4 KiB write and flush, sequential in its file.
    Syncer,
    /// Reads or writes of `len` at random multiples of it, so many at once.
    Random { op: Op, len: u64, depth: u32 },
    /// Sequential reads or writes of `len`, so many at once.
    Sequential { op: Op, len: u64, depth: u32 },
}

/// One process and its file.
#[derive(Debug)]
struct Proc {
    load: Load,
    start: u64,
    len: u64,
    cursor: u64,
    rng: Rng,
    /// Windows that have arrived, by number.
    arrived: Vec<u64>,
    needed: u64,
    consuming: bool,
    result: Figures,
}

/// What a process got.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub ios: u64,
    pub bytes: u64,
    pub latency_sum: u128,
}

impl Figures {
    pub fn mean_ms(&self) -> f64 {
        assert!(self.ios > 0, "no I/O ended");
        self.latency_sum as f64 / self.ios as f64 / 1e6
    }
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    proc: usize,
    at: Instant,
    window: u64,
    len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Kick,
    Consumed(usize),
}

/// The host.
#[derive(Debug)]
pub struct Raw {
    adapter: Adapter,
    now: Instant,
    fifo: VecDeque<Command>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    number: u64,
    procs: Vec<Proc>,
    issued: Vec<Issued>,
    spare: Vec<usize>,
    flushing: bool,
    kick_set: bool,
    running: Vec<usize>,
    collected: Vec<usize>,
    until: Instant,
    pub commands: u64,
    pub completions: Vec<Completion>,
    pub keep: bool,
    pub max_in_flight: u32,
}

/// Tag of the flush in flight.
const FLUSH: u64 = u64::MAX;

impl Raw {
    /// Processes with files of `len` bytes, in order from `frac` of the capacity, each followed by
    /// a random gap (specs/host.md section 3).
    pub fn new(file: &DriveFile, seed: u64, frac: f64, len: u64, loads: &[Load]) -> Raw {
        let mut layout = rng::stream(seed, "layout");
        let mut at = (file.identity.capacity_bytes as f64 * frac) as u64 / 4096 * 4096;
        let mut procs = Vec::new();
        for (n, &load) in loads.iter().enumerate() {
            let rng = rng::stream(seed, &format!("proc{n}"));
            procs.push(Proc {
                load,
                start: at,
                len,
                cursor: 0,
                rng,
                arrived: Vec::new(),
                needed: 0,
                consuming: false,
                result: Figures::default(),
            });
            at += len + layout.below(2048) * 4096;
        }
        Raw {
            adapter: Adapter::new(file, file.build(seed)),
            now: Instant::ZERO,
            fifo: VecDeque::new(),
            events: BinaryHeap::new(),
            number: 0,
            procs,
            issued: Vec::new(),
            spare: Vec::new(),
            flushing: false,
            kick_set: false,
            running: Vec::new(),
            collected: Vec::new(),
            until: Instant::ZERO,
            commands: 0,
            completions: Vec::new(),
            keep: false,
            max_in_flight: 0,
        }
    }

    /// Runs for `length`; then the first process's I/Os that were begun come to their end.
    pub fn run(&mut self, length: Nanos) -> Vec<Figures> {
        self.until = self.now + length;
        for p in 0..self.procs.len() {
            self.begin(p);
        }
        loop {
            match self.adapter.poll(self.now) {
                DriveOutput::Done(c) => self.done(c),
                DriveOutput::WaitUntil(at) => {
                    self.dispatch();
                    // What was dispatched may have moved the drive's next event.
                    let DriveOutput::WaitUntil(at2) = self.adapter.poll(self.now) else {
                        panic!("a command took no time (before: {at:?})");
                    };
                    let event = self.events.peek().map(|Reverse((at, _, _))| *at);
                    let Some(next) = at2.into_iter().chain(event).min() else { break };
                    let target_open = self
                        .issued
                        .iter()
                        .enumerate()
                        .any(|(n, i)| i.proc == 0 && !self.spare.contains(&n));
                    if next > self.until && !target_open {
                        break;
                    }
                    self.now = next;
                    while let Some(&Reverse((at, _, event))) = self.events.peek() {
                        if at > self.now {
                            break;
                        }
                        self.events.pop();
                        self.event(event);
                    }
                }
            }
        }
        self.procs.iter().map(|p| p.result.clone()).collect()
    }

    /// Commands that have not ended.
    pub fn open(&self) -> u64 {
        (self.issued.len() - self.spare.len()) as u64 + u64::from(self.flushing)
    }

    fn dispatch(&mut self) {
        while self.adapter.room()
            && let Some(command) = self.fifo.pop_front()
        {
            self.adapter.handle(self.now, command);
            self.max_in_flight = self.max_in_flight.max(self.adapter.in_flight());
        }
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn begin(&mut self, p: usize) {
        match self.procs[p].load {
            Load::Reader { window } => {
                self.sequential(p, Op::Read, window);
                self.sequential(p, Op::Read, window);
            }
            Load::Syncer => self.sequential(p, Op::Write, 4096),
            Load::Random { op, len, depth } => (0..depth).for_each(|_| self.random(p, op, len)),
            Load::Sequential { op, len, depth } => {
                (0..depth).for_each(|_| self.sequential(p, op, len));
            }
        }
    }

    fn sequential(&mut self, p: usize, op: Op, len: u64) {
        let proc = &mut self.procs[p];
        let window = proc.cursor;
        proc.cursor += 1;
        let windows = proc.len / len;
        let start = proc.start + window % windows * len;
        self.submit(p, op, start, len, window);
    }

    fn random(&mut self, p: usize, op: Op, len: u64) {
        let proc = &mut self.procs[p];
        let start = proc.start + proc.rng.below(proc.len / len) * len;
        self.submit(p, op, start, len, 0);
    }

    fn submit(&mut self, proc: usize, op: Op, start: u64, len: u64, window: u64) {
        let issued = Issued { proc, at: self.now, window, len };
        let slot = match self.spare.pop() {
            Some(slot) => {
                self.issued[slot] = issued;
                slot
            }
            None => {
                self.issued.push(issued);
                self.issued.len() - 1
            }
        };
        self.commands += 1;
        self.fifo.push_back(Command { tag: slot as u64, op, start, len, fua: false });
    }

    fn done(&mut self, c: Completion) {
        assert!(c.at == self.now, "told at {:?}, done at {:?}", self.now, c.at);
        if self.keep {
            self.completions.push(c);
        }
        if c.tag == FLUSH {
            self.flushing = false;
            for p in std::mem::take(&mut self.running) {
                self.count(p, self.procs[p].arrived[0], 4096);
                self.procs[p].arrived.clear();
                self.sequential(p, Op::Write, 4096);
            }
            if !self.collected.is_empty() {
                self.kick_set = true;
                self.at(self.now + KICK, Event::Kick);
            }
            return;
        }
        let Issued { proc: p, at, window, len } = self.issued[c.tag as usize];
        self.spare.push(c.tag as usize);
        match self.procs[p].load {
            Load::Reader { .. } => {
                self.count(p, at.as_nanos(), len);
                self.procs[p].arrived.push(window);
                self.consume(p);
            }
            Load::Syncer => {
                self.procs[p].arrived.push(at.as_nanos());
                self.collected.push(p);
                if !self.flushing && !self.kick_set {
                    self.event(Event::Kick);
                }
            }
            Load::Random { op, len, .. } => {
                self.count(p, at.as_nanos(), len);
                if self.now <= self.until {
                    self.random(p, op, len);
                }
            }
            Load::Sequential { op, len, .. } => {
                self.count(p, at.as_nanos(), len);
                if self.now <= self.until {
                    self.sequential(p, op, len);
                }
            }
        }
    }

    fn count(&mut self, p: usize, since: u64, bytes: u64) {
        let result = &mut self.procs[p].result;
        // Throughput is of the time measured; the first process's latencies run to their end.
        if self.now <= self.until {
            result.bytes += bytes;
        }
        result.ios += 1;
        result.latency_sum += u128::from(self.now.as_nanos() - since);
    }

    fn consume(&mut self, p: usize) {
        let proc = &mut self.procs[p];
        let Some(n) = proc.arrived.iter().position(|&w| w == proc.needed) else { return };
        if !proc.consuming {
            proc.arrived.swap_remove(n);
            proc.consuming = true;
            self.at(self.now + CONSUME, Event::Consumed(p));
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Kick => {
                self.kick_set = false;
                self.flushing = true;
                self.running = std::mem::take(&mut self.collected);
                let flush = Command { tag: FLUSH, op: Op::Flush, start: 0, len: 0, fua: false };
                self.commands += 1;
                self.adapter.handle(self.now, flush);
            }
            Event::Consumed(p) => {
                self.procs[p].consuming = false;
                self.procs[p].needed += 1;
                let Load::Reader { window } = self.procs[p].load else { unreachable!() };
                // The load stays on until the first process's last I/O has ended.
                if p > 0 || self.now <= self.until {
                    self.sequential(p, Op::Read, window);
                }
                self.consume(p);
            }
        }
    }
}
