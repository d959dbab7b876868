//! The engine under fire: threads write, zero, read and flush neighbouring blocks through queues of
//! their own, while schedulers, weights, limits and tunables change. Every block says whose it is
//! and which version, so that each read can be judged.
//!
//! `HOISTWAY_SECONDS=60 cargo test -p hoistway-serve --test shadow` for more than a second per target.
#![cfg(target_os = "linux")]

use hoistway::stack::StageName;
use hoistway::{IoPrio, sched};
use hoistway_serve::storage::{Emulation, FileOptions, Way};
use hoistway_serve::{
    Buffer, Client, Device, DeviceOptions, GroupSpec, Pending, ServeError, Target,
};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::rng::{Rng, stream};
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const BLOCK: usize = 4096;
const BLOCKS: usize = 1024;
const SIZE: u64 = (BLOCK * BLOCKS) as u64;
const THREADS: usize = 6;
/// Blocks of one owner side by side; the next ones belong to the next thread.
const RUN: usize = 3;
/// I/Os a thread has under way.
const DEPTH: usize = 24;
/// Between two changes of everything.
const PAUSE: Duration = Duration::from_millis(8);

/// What may be in a block: versions that are over and not older than the newest of those, and those
/// under way. Only its owner changes a block, one version at a time.
#[derive(Default)]
struct Shadow {
    over: AtomicU64,
    begun: AtomicU64,
}

/// Every fourth version is zeroes: version 0, and what a discard or write-zeroes leaves.
fn is_zero(version: u64) -> bool {
    version.is_multiple_of(4)
}

fn fill(bytes: &mut [u8], block: usize, version: u64) {
    for (n, word) in bytes.chunks_exact_mut(16).enumerate() {
        word[..4].copy_from_slice(&(block as u32).to_le_bytes());
        word[4..8].copy_from_slice(&(n as u32).to_le_bytes());
        word[8..].copy_from_slice(&version.to_le_bytes());
    }
}

/// Judges the contents of a block. `floor`: the newest version that was over before it was read. A
/// read beside a write may see a part of each: every word is judged by itself.
fn judge(bytes: &[u8], block: usize, floor: u64, begun: u64) {
    for (n, word) in bytes.chunks_exact(16).enumerate() {
        let version = u64::from_le_bytes(word[8..].try_into().unwrap());
        let legal =
            (floor..=begun).contains(&version) || (version == 0 && (floor..=begun).any(is_zero));
        assert!(legal, "block {block}, word {n}: version {version}, legal are {floor} to {begun}");
        let mut expected = [0; 16];
        if version != 0 {
            expected[..4].copy_from_slice(&(block as u32).to_le_bytes());
            expected[4..8].copy_from_slice(&(n as u32).to_le_bytes());
            expected[8..].copy_from_slice(&version.to_le_bytes());
        }
        let whole = version == 0 || !is_zero(version);
        assert!(whole && word == expected, "block {block}, word {n}: {word:x?} was never written");
    }
}

/// Sets a flag when it is dropped, also by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// An I/O under way: what it was, to be judged or noted when it is over.
enum Sent {
    Change { first: usize, count: usize, version: u64, pending: Pending },
    Read { first: usize, floors: Vec<u64>, pending: Pending },
    Flush(Pending),
}

struct Worker<'a> {
    thread: usize,
    client: Client,
    shadow: &'a [Shadow],
    /// Where everybody works just now: neighbours of different threads meet in the queue, and
    /// merge.
    front: &'a AtomicU64,
    random: Rng,
    sent: VecDeque<Sent>,
    discard: bool,
}

impl Worker<'_> {
    fn run(mut self, stop: &AtomicBool) -> u64 {
        let mut ios = 0;
        while !stop.load(SeqCst) {
            for _ in 0..=self.random.below(8) {
                self.send();
                ios += 1;
            }
            while self.sent.len() > DEPTH {
                self.receive();
            }
        }
        while !self.sent.is_empty() {
            self.receive();
        }
        ios
    }

    fn send(&mut self) {
        match self.random.below(20) {
            0..9 => self.read(),
            19 => self.sent.push_back(Sent::Flush(self.client.start_flush())),
            _ => self.change(),
        }
    }

    fn read(&mut self) {
        let count = 1 + self.random.below(12) as usize;
        let most = (BLOCKS - count) as u64;
        let near = self.front.load(SeqCst) * (RUN * THREADS) as u64 % most;
        let first = if self.random.below(2) == 0 { self.random.below(most) } else { near } as usize;
        // In one piece, or in neighbouring ones that may merge again.
        let piece = if self.random.below(2) == 0 { 1 } else { count };
        for first in (first..first + count).step_by(piece) {
            self.read_piece(first, piece);
        }
    }

    fn read_piece(&mut self, first: usize, count: usize) {
        let floors =
            self.shadow[first..first + count].iter().map(|s| s.over.load(SeqCst)).collect();
        let buffer = Buffer::zeroed(count * BLOCK);
        let pending = self.client.start_read((first * BLOCK) as u64, buffer);
        self.sent.push_back(Sent::Read { first, floors, pending });
    }

    /// A new version of a run of our own, or of a part of it; of none that is being changed.
    fn change(&mut self) {
        let runs = BLOCKS / (RUN * THREADS);
        let near =
            self.front.fetch_add(self.random.below(THREADS as u64) / (THREADS as u64 - 1), SeqCst);
        let at = if self.random.below(3) == 0 { self.random.below(runs as u64) } else { near };
        let run = (at as usize % runs) * THREADS + self.thread;
        let count = 1 + self.random.below(RUN as u64) as usize;
        let first = run * RUN + self.random.below((RUN - count + 1) as u64) as usize;
        let shadow = &self.shadow[first..first + count];
        if shadow.iter().any(|s| s.begun.load(SeqCst) != s.over.load(SeqCst)) {
            return;
        }
        // One version for all: the next after every one of theirs.
        let version = 1 + shadow.iter().map(|s| s.begun.load(SeqCst)).max().unwrap();
        shadow.iter().for_each(|s| s.begun.store(version, SeqCst));
        let piece = if self.random.below(2) == 0 { 1 } else { count };
        for first in (first..first + count).step_by(piece) {
            self.change_piece(first, piece, version);
        }
    }

    fn change_piece(&mut self, first: usize, count: usize, version: u64) {
        let (offset, len) = ((first * BLOCK) as u64, count * BLOCK);
        let client = &self.client;
        let pending = if !is_zero(version) {
            let mut buffer = Buffer::zeroed(len);
            for (n, block) in buffer.chunks_exact_mut(BLOCK).enumerate() {
                fill(block, first + n, version);
            }
            match self.random.below(6) {
                0 => client.start_durable_write(offset, buffer),
                _ => client.start_write(offset, buffer),
            }
        } else if self.discard && self.random.below(2) == 0 {
            client.start_discard(offset, len as u64)
        } else {
            client.start_write_zeroes(offset, len as u64)
        };
        self.sent.push_back(Sent::Change { first, count, version, pending });
    }

    fn receive(&mut self) {
        match self.sent.pop_front().unwrap() {
            Sent::Flush(pending) => drop(pending.wait().unwrap()),
            Sent::Change { first, count, version, pending } => {
                pending.wait().unwrap();
                self.shadow[first..first + count]
                    .iter()
                    .for_each(|s| s.over.store(version, SeqCst));
            }
            Sent::Read { first, floors, pending } => {
                let bytes = pending.wait().unwrap();
                for (n, block) in bytes.chunks_exact(BLOCK).enumerate() {
                    let begun = self.shadow[first + n].begun.load(SeqCst);
                    judge(block, first + n, floors[n], begun);
                }
            }
        }
    }
}

/// Changes everything that can be changed, again and again, for about so long; returns how often.
fn disturb(device: &Device, length: Duration) -> u64 {
    let (mut random, mut changes) = (stream(99, "shadow"), 0);
    let rounds = length.as_millis() / (PAUSE.as_millis() * sched::SCHEDULERS.len() as u128);
    for _ in 0..=rounds {
        for entry in sched::SCHEDULERS {
            device.switch_scheduler(entry, &[]).unwrap();
            // A range that every scheduler with weights takes.
            let weight = 100 + random.below(901);
            let (gold, _) = device.set_group(&GroupSpec::new("gold").weight(weight)).unwrap();
            // High enough to be no more than a nuisance, and sometimes none at all.
            let limit = ["max".into(), (20_000 + random.below(20_000)).to_string()];
            let line = format!("8:0 riops={} wiops=max", limit[random.below(2) as usize]);
            device.write_knob(gold, "io.max", &line).unwrap();
            device.set(StageName::Queue, "nomerges", random.below(3)).unwrap();
            device.set(StageName::Queue, "nr_requests", 4 + random.below(28)).unwrap();
            if let (Some(t), false) = (entry.tunables.first(), device.report().unwrap().changing) {
                let value = [t.min, t.max, t.default][random.below(3) as usize];
                // Between the look and the deed another scheduler may not come: nobody else
                // switches.
                device.set(StageName::Scheduler, t.name, value).unwrap();
                device.set(StageName::Scheduler, t.name, t.default).unwrap();
            }
            changes += 1;
            std::thread::sleep(PAUSE);
        }
    }
    changes
}

fn under_fire(target: &Target, path: Option<&PathBuf>) {
    let seconds = std::env::var("HOISTWAY_SECONDS").ok();
    let length = seconds.map_or(Duration::from_millis(1200), |s| {
        Duration::from_secs(s.parse().expect("HOISTWAY_SECONDS is a number of seconds"))
    });
    let mut options = DeviceOptions::new(sched::find("none").unwrap());
    options.controllers.push(("io.max".into(), Vec::new()));
    let device = match Device::open(target, &options) {
        Err(e @ (ServeError::Os { .. } | ServeError::TooFast { .. })) => {
            return println!("skipped: {e}");
        }
        other => other.unwrap(),
    };
    let (gold, _) = device.set_group(&GroupSpec::new("gold")).unwrap();
    let shadow: Vec<Shadow> = (0..BLOCKS).map(|_| Shadow::default()).collect();
    let (stop, front) = (AtomicBool::new(false), AtomicU64::new(0));
    let (ios, changes) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let client = match thread % 2 {
                    0 => device.client_of(gold, IoPrio::be(thread as u8)),
                    _ => device.client(IoPrio::NONE),
                };
                let worker = Worker {
                    thread,
                    client: client.unwrap(),
                    shadow: &shadow,
                    front: &front,
                    random: stream(thread as u64, "shadow"),
                    sent: VecDeque::new(),
                    discard: device.facts().discard_zeroes,
                };
                let stop = &stop;
                scope.spawn(move || worker.run(stop))
            })
            .collect();
        let at_the_end = Stop(&stop);
        let changes = disturb(&device, length);
        drop(at_the_end);
        (workers.into_iter().map(|w| w.join().unwrap()).sum::<u64>(), changes)
    });
    let counters = device.counters().unwrap();
    println!("{}: {ios} I/Os, {changes} changes, {counters:?}", device.facts().summary);
    assert_eq!((counters.submitted, counters.issued), (counters.finished, counters.completed));
    // What is over is what there is: by the device, and after its end in the file itself.
    let client = device.client(IoPrio::NONE).unwrap();
    let mut all = vec![0; SIZE as usize];
    client.read(0, &mut all).unwrap();
    drop(client);
    device.close().unwrap();
    let stored = path.map(|path| {
        let mut stored = vec![0; SIZE as usize];
        std::fs::File::open(path).unwrap().read_exact_at(&mut stored, 0).unwrap();
        stored
    });
    for bytes in [Some(all), stored].into_iter().flatten() {
        for (n, block) in bytes.chunks_exact(BLOCK).enumerate() {
            let version = shadow[n].over.load(SeqCst);
            judge(block, n, version, version);
        }
    }
}

/// A file of this test alone, deleted at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("hoistway-shadow-{}-{name}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn file_under_fire(name: &str, options: FileOptions) {
    let scratch = Scratch::new(name);
    under_fire(&Target::File { path: scratch.0.clone(), options }, Some(&scratch.0));
}

#[test]
fn memory_under_fire() {
    under_fire(&Target::Ram { size: SIZE }, None);
}

#[test]
fn a_file_under_fire() {
    file_under_fire("buffered", FileOptions::default());
}

#[test]
fn a_file_past_the_page_cache_under_fire() {
    file_under_fire("direct", FileOptions { direct: true, ..FileOptions::default() });
}

#[test]
fn a_file_by_threads_under_fire() {
    file_under_fire("threads", FileOptions { way: Way::Threads, ..FileOptions::default() });
}

#[test]
fn an_emulated_drive_under_fire() {
    let scratch = Scratch::new("emulated");
    let mut emulation = Emulation::new(DriveFile::load("plextor-px-256m5s").unwrap());
    (emulation.size, emulation.file) = (Some(SIZE), Some(scratch.0.clone()));
    under_fire(&Target::Emulated(Box::new(emulation)), Some(&scratch.0));
}
