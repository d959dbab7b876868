//! The six rates of io.cost's linear model, measured on a drive (specs/io-cost.md 4.6).
//!
//! The generator's method: on the idle raw device, without a scheduler and without merging, direct I/O,
//! each test for a fixed time: sequential I/O of 128 MiB with one under way gives bytes per second;
//! sequential and random 4 KiB I/O with 64 under way give the I/Os per second. First reads, then writes.
//! The kernel's script takes 120 s per test; a simulated drive that keeps no long memory needs less.
//!
//! Writes on a fresh flash drive miss its later garbage collection; [`Plan::steady`] repeats each write
//! test until it changes no more.

use crate::drive::{Adapter, Command, DriveFile, Said};
use crate::rng::{self, Rng};
use hoistway::ctl::cost::Rates;
use hoistway::{Instant, Nanos, Op};
use std::collections::BTreeMap;

/// Sequential block of the tests for bytes per second.
const BLOCK_BYTES: u64 = 128 << 20;
/// I/O of the tests for I/Os per second, and how many are under way.
const SMALL_BYTES: u64 = 4096;
const SMALL_DEPTH: usize = 64;
/// A write test is repeated at most so often, until it changes by at most this factor.
const STEADY_TURNS: u32 = 20;
const STEADY: f64 = 0.02;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of one test; the kernel's script takes 120 s.
    pub duration: Nanos,
    /// Write tests are repeated until their rate changes by 2 % at most.
    pub steady: bool,
    /// For the drive and the random places.
    pub seed: u64,
}

/// One test.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// Its rate, as in `io.cost.model`.
    name: &'static str,
    op: Op,
    random: bool,
    /// Bytes of an I/O and I/Os under way.
    bytes: u64,
    depth: usize,
}

/// Measures a drive that was built anew. `progress` hears of every test before it begins.
pub fn measure(file: &DriveFile, plan: &Plan, progress: &mut dyn FnMut(&str)) -> Rates {
    let mut bench = Bench::new(file, plan);
    let mut values = [0; 6];
    for (value, test) in values.iter_mut().zip(tests()) {
        progress(test.name);
        let mut rate = bench.run(&test, plan.duration);
        for _ in 1..STEADY_TURNS {
            if !plan.steady || test.op == Op::Read {
                break;
            }
            let before = rate;
            rate = bench.run(&test, plan.duration);
            if (rate / before - 1.0).abs() <= STEADY {
                break;
            }
        }
        let per_io = if test.bytes == SMALL_BYTES { SMALL_BYTES as f64 } else { 1.0 };
        *value = (rate / per_io).round() as u64;
    }
    Rates::from_values(values)
}

fn tests() -> impl Iterator<Item = Test> {
    Rates::NAMES.into_iter().enumerate().map(|(i, name)| {
        let op = if i < 3 { Op::Read } else { Op::Write };
        let (bytes, depth) = if i % 3 == 0 { (BLOCK_BYTES, 1) } else { (SMALL_BYTES, SMALL_DEPTH) };
        Test { name, op, random: i % 3 == 2, bytes, depth }
    })
}

/// The drive and its clock.
struct Bench {
    drive: Adapter,
    now: Instant,
    rng: Rng,
    capacity: u64,
    /// Longest command.
    command_max: u64,
    tag: u64,
    /// Lengths of the commands in the drive.
    flying: BTreeMap<u64, u64>,
}

impl Bench {
    fn new(file: &DriveFile, plan: &Plan) -> Bench {
        Bench {
            drive: Adapter::new(file, file.build(plan.seed)),
            now: Instant::ZERO,
            rng: rng::stream(plan.seed, "calibrate"),
            capacity: file.identity.capacity_bytes / SMALL_BYTES * SMALL_BYTES,
            command_max: file.device().max_sectors.bytes().0,
            tag: 0,
            flying: BTreeMap::new(),
        }
    }

    /// Bytes per second over the duration; afterwards the drive is idle.
    fn run(&mut self, test: &Test, duration: Nanos) -> f64 {
        let end = self.now + duration;
        let mut done = 0;
        // Where the next sequential I/O begins; what was not sent yet of the one under way.
        let (mut next, mut rest) = (0, None);
        while self.now < end || !self.flying.is_empty() {
            while self.now < end && self.drive.room() {
                let (start, left) = match rest.take() {
                    Some(rest) => rest,
                    None if self.under_way(test) >= test.depth => break,
                    None => self.place(test, &mut next),
                };
                let len = left.min(self.command_max);
                self.tag += 1;
                self.flying.insert(self.tag, len);
                let command = Command { tag: self.tag, op: test.op, start, len, fua: false };
                self.drive.handle(self.now, command);
                rest = (left > len).then_some((start + len, left - len));
            }
            match self.drive.poll(self.now) {
                Said::Done(c) => {
                    let len = self.flying.remove(&c.tag).expect("a drive completes what it got");
                    done += if c.at <= end { len } else { 0 };
                }
                Said::WaitUntil(Some(at)) => self.now = self.now.max(at),
                Said::WaitUntil(None) => {
                    assert!(self.flying.is_empty(), "a drive with work says when");
                }
            }
        }
        done as f64 / duration.0 as f64 * 1e9
    }

    fn under_way(&self, test: &Test) -> usize {
        if test.depth == 1 { usize::from(!self.flying.is_empty()) } else { self.flying.len() }
    }

    /// First byte and length of the next I/O.
    fn place(&mut self, test: &Test, next: &mut u64) -> (u64, u64) {
        let len = test.bytes.min(self.capacity);
        if test.random {
            return (self.rng.below(self.capacity / len) * len, len);
        }
        if *next + len > self.capacity {
            *next = 0;
        }
        *next += len;
        (*next - len, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(id: &str) -> DriveFile {
        DriveFile::parse("x.toml", DriveFile::embedded(id).unwrap()).unwrap()
    }

    fn rates(id: &str, plan: Plan) -> [u64; 6] {
        let mut names = Vec::new();
        let rates = measure(&drive(id), &plan, &mut |name| names.push(name.to_string()));
        assert_eq!(names, Rates::NAMES);
        rates.values()
    }

    const SHORT: Plan = Plan { duration: Nanos::ms(500), steady: false, seed: 1 };

    #[test]
    fn a_disk_is_slow_at_random_places_and_an_ssd_is_not() {
        let hdd = rates("hitachi-hts727550a9e364", Plan { duration: Nanos::secs(4), ..SHORT });
        assert!(hdd[0] > 60_000_000 && hdd[0] < 200_000_000, "{hdd:?}");
        assert!(hdd[2] > 50 && hdd[2] < 400 && hdd[1] > 10 * hdd[2], "{hdd:?}");
        let ssd = rates("plextor-px-256m5s", SHORT);
        assert!(ssd[0] > 400_000_000 && ssd[2] > 20_000, "{ssd:?}");
    }

    #[test]
    fn the_same_seed_measures_the_same() {
        let id = "intel-320-160g";
        assert_eq!(rates(id, SHORT), rates(id, SHORT));
    }

    /// The simulated drives were measured for their files: reads agree.
    #[test]
    fn reads_agree_with_the_drive_files() {
        for id in ["plextor-px-256m5s", "intel-dc-s3520-240g", "samsung-970-pro"] {
            let (got, c) =
                (rates(id, Plan { duration: Nanos::secs(1), ..SHORT }), drive(id).iocost);
            for (got, file) in got.into_iter().zip([c.rbps, c.rseqiops, c.rrandiops]) {
                let apart = got as f64 / file as f64 - 1.0;
                assert!(apart.abs() < 0.1, "{id}: {got} measured, {file} in the file");
            }
        }
    }
}
