//! Crashes at any point over a device that loses what was not flushed, in any part and order.

use super::overlay::MAP;
use super::*;
use crate::storage::Target;
use crate::system::Buffer;
use hoistway_sim::rng::{Rng, stream};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const BLOCK: u64 = 512;
/// Three pages of the map.
const SIZE: u64 = 3 * 32768 * BLOCK;
const DATA: u64 = 1 << 20;

/// Sectors by number; zeroes where there is none.
type Sectors512 = BTreeMap<u64, Vec<u8>>;

/// A file whose cache is lost in a crash.
#[derive(Debug, Default)]
struct Disk {
    stable: Sectors512,
    /// Written in this order, and not flushed.
    cached: Vec<(u64, Vec<u8>)>,
    /// Sectors that were flushed since the beginning.
    flushed: usize,
    /// With the number of sectors that had been written when each came.
    commands: Vec<(Command, Vec<Part>, usize)>,
    seed: u64,
    /// Commands to fail, of those that change something.
    fail: u64,
    /// When it wants to be asked whatever happens.
    wake: Option<Instant>,
}

impl Disk {
    fn sector(&self, at: u64) -> Vec<u8> {
        let cached = self.cached.iter().rev().find(|(sector, _)| *sector == at);
        let known = cached.map(|(_, bytes)| bytes).or(self.stable.get(&at));
        known.cloned().unwrap_or_else(|| vec![0; 512])
    }

    fn carry_out(&mut self, command: &Command, parts: &[Part], written: usize) {
        let first = command.start / 512;
        let count = command.len / 512;
        match command.op {
            Op::Flush => {
                // No more than it must: what came meanwhile stays in the cache.
                let count = written.saturating_sub(self.flushed);
                self.flushed += count;
                self.stable.extend(self.cached.drain(..count));
            }
            Op::Read => {
                let bytes: Vec<u8> = (first..first + count).flat_map(|s| self.sector(s)).collect();
                let mut at = 0;
                for mut part in parts.iter().copied() {
                    let len = part.len();
                    part.bytes_mut().copy_from_slice(&bytes[at..at + len]);
                    at += len;
                }
            }
            Op::Write => {
                let bytes: Vec<u8> = parts.iter().flat_map(|p| p.bytes().to_vec()).collect();
                for (n, sector) in bytes.chunks(512).enumerate() {
                    self.cached.push((first + n as u64, sector.to_vec()));
                }
            }
            Op::Discard | Op::WriteZeroes => {
                self.cached.extend((first..first + count).map(|s| (s, vec![0; 512])));
            }
        }
    }

    /// What is left if the power goes now: any of the cached sectors may have reached the disk.
    fn crashed(&self, random: &mut Rng) -> Sectors512 {
        let mut left = self.stable.clone();
        let odds = random.below(5);
        for (sector, bytes) in &self.cached {
            if random.below(4) < odds {
                left.insert(*sector, bytes.clone());
            }
        }
        left
    }
}

#[derive(Debug)]
struct Volatile(Arc<Mutex<Disk>>);

impl Backend for Volatile {
    fn issue(&mut self, _now: Instant, command: Command, parts: &[Part]) {
        let mut disk = self.0.lock().unwrap();
        let written = disk.flushed + disk.cached.len();
        disk.commands.push((command, parts.to_vec(), written));
    }

    /// One command is done, any of them.
    fn poll(&mut self, _now: Instant, done: &mut Vec<Done>) {
        let mut disk = self.0.lock().unwrap();
        if disk.commands.is_empty() {
            return;
        }
        let mut random = stream(disk.seed, "disk");
        let at = random.below(disk.commands.len() as u64) as usize;
        let fails = disk.fail > 0 && random.below(disk.fail) == 0;
        disk.seed = random.bits();
        let (command, parts, written) = disk.commands.swap_remove(at);
        if fails && command.op != Op::Read {
            done.push(Done { tag: command.tag, result: Err(Errno::IO) });
            return;
        }
        disk.carry_out(&command, &parts, written);
        done.push(Done { tag: command.tag, result: Ok(()) });
    }

    fn wake_at(&self) -> Option<Instant> {
        self.0.lock().unwrap().wake
    }

    fn extents(&self, _: u64, len: u64, _: usize) -> ExtentsAnswer {
        ExtentsAnswer::Now(Ok(vec![Extent { len, hole: false }]))
    }
}

fn cow(disk: &Arc<Mutex<Disk>>) -> Cow {
    let Opened { backend, .. } = Target::Null { size: SIZE }.open().unwrap();
    let below = Lower::new(Box::new(Volatile(Arc::clone(disk))), 8);
    let overlay = FileOverlay { below, data: DATA, punches: true, sync: Sync::default() };
    Cow {
        base: Lower::new(backend, 256),
        overlay: Overlay::File(Box::new(overlay)),
        bits: Bits::new(SIZE / BLOCK),
        block: BLOCK,
        works: Slab::with_capacity(0),
        done: Vec::new(),
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
        results: Vec::new(),
    }
}

/// What is known of a block: the versions written to it, and which one is flushed or beyond.
#[derive(Clone, Debug, Default)]
struct History {
    versions: Vec<u64>,
    /// Versions that are done.
    done: usize,
    /// Versions that a flush covers.
    flushed: usize,
    busy: bool,
}

/// What a command under way will have done.
#[derive(Debug)]
enum Promise {
    Write {
        block: u64,
        fua: bool,
    },
    /// The versions that were done when it was asked for.
    Flush(Vec<(u64, usize)>),
}

struct Trial {
    cow: Cow,
    blocks: BTreeMap<u64, History>,
    under_way: BTreeMap<u64, (Promise, Buffer)>,
    next: u64,
}

fn version_of(sector: &[u8]) -> u64 {
    u64::from_le_bytes(sector[..8].try_into().unwrap())
}

impl Trial {
    fn issue(&mut self, random: &mut Rng) {
        // Blocks at the borders of pages, a few that are written often, and many that are not.
        let page = random.below(3) * 32768;
        let block = page
            + match random.below(4) {
                0 => [0, 1, 63, 64, 4095, 32767][random.below(6) as usize],
                _ => 100 + random.below(3000),
            };
        let tag = self.next;
        self.next += 1;
        if random.below(6) == 0 {
            let covered = self.blocks.iter().map(|(b, h)| (*b, h.done)).collect();
            self.under_way.insert(tag, (Promise::Flush(covered), Buffer::empty()));
            let flush = Command { tag, op: Op::Flush, start: 0, len: 0, fua: false };
            return self.cow.issue(Instant::ZERO, flush, &[]);
        }
        let history = self.blocks.entry(block).or_default();
        if std::mem::replace(&mut history.busy, true) {
            return;
        }
        let zero = random.below(4) == 0;
        history.versions.push(if zero { 0 } else { tag });
        let fua = random.below(5) == 0;
        let mut buffer = Buffer::zeroed(if zero { 0 } else { BLOCK as usize });
        buffer.chunks_exact_mut(8).for_each(|c| c.copy_from_slice(&tag.to_le_bytes()));
        // SAFETY: the buffer is kept until the command is done, and the backend is dropped before it.
        let part = (!zero).then(|| unsafe { Part::new(&mut buffer, 0, BLOCK as usize) });
        self.under_way.insert(tag, (Promise::Write { block, fua }, buffer));
        let op = match (zero, random.below(2)) {
            (false, _) => Op::Write,
            (true, 0) => Op::Discard,
            (true, _) => Op::WriteZeroes,
        };
        let command = Command { tag, op, start: block * BLOCK, len: BLOCK, fua };
        self.cow.issue(Instant::ZERO, command, part.as_slice());
    }

    fn poll(&mut self) {
        let mut done = Vec::new();
        self.cow.poll(Instant::ZERO, &mut done);
        for Done { tag, result } in done {
            let (promise, _) = self.under_way.remove(&tag).expect("answered once");
            match promise {
                Promise::Write { block, fua } => {
                    let history = self.blocks.get_mut(&block).unwrap();
                    history.busy = false;
                    if result.is_ok() {
                        history.done = history.versions.len();
                        history.flushed = if fua { history.done } else { history.flushed };
                    }
                }
                Promise::Flush(covered) if result.is_ok() => {
                    for (block, done) in covered {
                        let history = self.blocks.get_mut(&block).unwrap();
                        history.flushed = history.flushed.max(done);
                    }
                }
                Promise::Flush(_) => {}
            }
        }
    }

    /// Every block holds what was flushed, or something written after it.
    fn check(&self, left: &Sectors512, what: &str) {
        let is_stored = |block: u64| {
            let (byte, bit) = (MAP + block / 8, block % 8);
            left.get(&(byte / 512)).is_some_and(|s| s[(byte % 512) as usize] >> bit & 1 == 1)
        };
        let ones = left.range(..DATA / 512).flat_map(|(_, sector)| sector);
        let ones: u32 = ones.map(|byte| byte.count_ones()).sum();
        let known = self.blocks.keys().filter(|block| is_stored(**block)).count();
        assert_eq!(ones as usize, known, "{what}: blocks are stored that were never written");
        for (&block, history) in &self.blocks {
            let unflushed = &history.versions[history.flushed.saturating_sub(1)..];
            let sector = left.get(&((DATA + block * BLOCK) / 512));
            let version = sector.map_or(0, |s| version_of(s));
            let right = match is_stored(block) {
                true => unflushed.contains(&version),
                // The base is in view.
                false => history.flushed == 0,
            };
            assert!(right, "{what}: block {block} holds {version}: {history:?}");
        }
    }
}

#[test]
fn a_crash_at_any_point_leaves_what_was_flushed() {
    for (seed, fail) in (1..=12).map(|n| (n, 0)).chain((13..=18).map(|n| (n, 10))) {
        let disk = Arc::new(Mutex::new(Disk { seed, fail, ..Disk::default() }));
        let mut trial =
            Trial { cow: cow(&disk), blocks: BTreeMap::new(), under_way: BTreeMap::new(), next: 1 };
        let mut random = stream(seed, "disk");
        for step in 0..400 {
            if random.below(3) > 0 && trial.under_way.len() < 20 {
                trial.issue(&mut random);
            } else {
                trial.poll();
            }
            if step % 2 == 0 {
                let left = disk.lock().unwrap().crashed(&mut random);
                trial.check(&left, &format!("seed {seed}, step {step}"));
            }
        }
        for _ in 0..10_000 {
            trial.poll();
        }
        assert!(trial.under_way.is_empty(), "seed {seed}: everything is answered");
        let flushed = trial.blocks.values().filter(|h| h.flushed > 0).count();
        assert!(flushed > 5, "seed {seed}: {flushed} blocks were flushed at all");
    }
}

#[test]
fn a_flush_that_failed_is_made_good_by_the_next() {
    let disk = Arc::new(Mutex::new(Disk { seed: 1, fail: 1, ..Disk::default() }));
    let mut cow = cow(&disk);
    let run = |cow: &mut Cow, op, len| {
        let mut buffer = Buffer::from_slice(&[7; 512]);
        // SAFETY: the command is over before the buffer is dropped.
        let part = unsafe { Part::new(&mut buffer, 0, 512) };
        let parts = if op == Op::Write { vec![part] } else { Vec::new() };
        let command = Command { tag: 9, op, start: 0, len, fua: false };
        cow.issue(Instant::ZERO, command, &parts);
        let mut done = Vec::new();
        (0..100).for_each(|_| cow.poll(Instant::ZERO, &mut done));
        assert_eq!(done.len(), 1);
        done[0].result
    };
    let map =
        |disk: &Arc<Mutex<Disk>>| disk.lock().unwrap().stable.get(&(MAP / 512)).map_or(0, |s| s[0]);
    assert_eq!(run(&mut cow, Op::Write, 512), Err(Errno::IO));
    assert_eq!(cow.bits.run(0, 1), (false, 1), "a write that failed leaves the base in view");
    disk.lock().unwrap().fail = 0;
    assert_eq!(run(&mut cow, Op::Write, 512), Ok(()));
    disk.lock().unwrap().fail = 1;
    assert_eq!(run(&mut cow, Op::Flush, 0), Err(Errno::IO));
    assert_eq!(map(&disk), 0);
    disk.lock().unwrap().fail = 0;
    assert_eq!(run(&mut cow, Op::Flush, 0), Ok(()));
    assert_eq!(map(&disk), 1);
}

#[test]
fn an_overlay_that_wants_to_be_asked_again_is() {
    let disk = Arc::new(Mutex::new(Disk::default()));
    let cow = cow(&disk);
    assert_eq!(cow.wake_at(), None);
    disk.lock().unwrap().wake = Some(Instant::ZERO);
    assert_eq!(cow.wake_at(), Some(Instant::ZERO));
}
