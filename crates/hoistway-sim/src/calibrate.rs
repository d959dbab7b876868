//! The six rates of io.cost's linear model, measured on a drive (specs/io-cost.md 4.6).
//!
//! The generator's method: on the idle raw device, without a scheduler and without merging, direct I/O,
//! each test for a fixed time: sequential I/O of 128 MiB with one under way gives bytes per second;
//! sequential and random 4 KiB I/O with 64 under way give the I/Os per second. First reads, then writes.
//! The kernel's script takes 120 s per test; a simulated drive that keeps no long memory needs less.
//!
//! A fresh flash drive writes into its SLC cache and without garbage collection, a fresh volume spends its
//! burst credit: rates that do not last. In the *steady state* (the usual plan) the whole drive is written
//! once in sequence before the write tests, which leaves caches behind whatever their size, and each test is
//! repeated in rounds until it changes no more (SNIA SSS PTS 2.0.2; specs/statistics.md 3).

use crate::drive::{Adapter, Command, Completion, DriveFile, DriveOutput};
use crate::rng::{self, Rng};
use hoistway::ctl::cost::Rates;
use hoistway::{Instant, Nanos, Op};
use std::collections::BTreeMap;

/// Sequential block of the tests for bytes per second.
const BLOCK_BYTES: u64 = 128 << 20;
/// I/O of the tests for I/Os per second, and how many are under way.
const SMALL_BYTES: u64 = 4096;
const SMALL_DEPTH: usize = 64;
/// A test is repeated at most so often ...
const ROUNDS_MAX: usize = 25;
/// ... until over this many rounds, of writes and of reads, ...
const WINDOW_WRITES: usize = 5;
const WINDOW_READS: usize = 2;
/// ... the range is at most this part of the average, and the straight line through them rises or falls by at
/// most this part.
const RANGE: f64 = 0.2;
const RISE: f64 = 0.1;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of one round; the kernel's script has one of 120 s.
    pub duration: Nanos,
    /// In the steady state; else one round of each test on a new drive.
    pub steady: bool,
    /// For the drive and the random places.
    pub seed: u64,
}

/// One test.
#[derive(Clone, Copy, Debug)]
struct RateTest {
    /// Its rate, as in `io.cost.model`.
    name: &'static str,
    op: Op,
    random: bool,
    /// Bytes of an I/O and I/Os under way.
    bytes: u64,
    depth: usize,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The six rates.
    pub rates: Rates,
    /// How each came about.
    pub checks: Vec<Check>,
    /// How long the whole drive was written before the write tests.
    pub filled: Option<Nanos>,
}

/// The rounds of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Its rate, as in `io.cost.model`.
    pub name: &'static str,
    /// Rounds that were run.
    pub rounds: usize,
    /// Rate of the first, in the unit of the result.
    pub first: f64,
    /// Of the rounds that the result is the mean of: smallest and largest.
    pub range: (f64, f64),
    /// They hold the limits; `None`: a single round cannot tell.
    pub steady: Option<bool>,
}

impl Measured {
    /// Tests that did not become steady.
    pub fn unsteady(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| c.steady == Some(false))
    }
}

/// Measures a drive that was built anew. `progress` hears of every test before it begins.
pub fn measure(file: &DriveFile, plan: &Plan, progress: &mut dyn FnMut(&str)) -> Measured {
    let mut bench = Bench::new(file, plan);
    let (mut values, mut checks, mut filled) = ([0; 6], Vec::new(), None);
    for (value, test) in values.iter_mut().zip(tests()) {
        if plan.steady && filled.is_none() && test.op == Op::Write {
            progress("fill");
            filled = Some(bench.fill());
        }
        progress(test.name);
        let window = match (plan.steady, test.op) {
            (false, _) => 1,
            (true, Op::Read) => WINDOW_READS,
            (true, _) => WINDOW_WRITES,
        };
        let per_io = if test.bytes == SMALL_BYTES { SMALL_BYTES as f64 } else { 1.0 };
        let mut rounds: Vec<f64> = Vec::new();
        while rounds.len() < window
            || rounds.len() < ROUNDS_MAX && !steady(&rounds[rounds.len() - window..])
        {
            rounds.push(bench.run(&test, plan.duration) / per_io);
            if window == 1 {
                break;
            }
        }
        let last = &rounds[rounds.len() - window..];
        *value = (last.iter().sum::<f64>() / window as f64).round() as u64;
        checks.push(Check {
            name: test.name,
            rounds: rounds.len(),
            first: rounds[0],
            range: range(last),
            steady: plan.steady.then(|| steady(last)),
        });
    }
    Measured { rates: Rates::from_values(values), checks, filled }
}

fn range(rounds: &[f64]) -> (f64, f64) {
    rounds.iter().fold((f64::INFINITY, 0.0), |(low, high), &r| (r.min(low), r.max(high)))
}

/// Neither range nor trend of the rounds is too large.
fn steady(rounds: &[f64]) -> bool {
    let n = rounds.len() as f64;
    let mean = rounds.iter().sum::<f64>() / n;
    let (low, high) = range(rounds);
    let middle = (n - 1.0) / 2.0;
    let moments = rounds.iter().enumerate().map(|(i, r)| (i as f64 - middle, r - mean));
    let (xy, xx) = moments.fold((0.0, 0.0), |(xy, xx), (x, y)| (xy + x * y, xx + x * x));
    let rise = if xx > 0.0 { xy / xx * (n - 1.0) } else { 0.0 };
    // Of two rounds the rise is the range.
    let trend = rounds.len() <= 2 || rise.abs() <= RISE * mean;
    high - low <= RANGE * mean && trend
}

fn tests() -> impl Iterator<Item = RateTest> {
    Rates::NAMES.into_iter().enumerate().map(|(i, name)| {
        let op = if i < 3 { Op::Read } else { Op::Write };
        let (bytes, depth) = if i % 3 == 0 { (BLOCK_BYTES, 1) } else { (SMALL_BYTES, SMALL_DEPTH) };
        RateTest { name, op, random: i % 3 == 2, bytes, depth }
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

    /// Writes the whole drive once in sequence; how long that took.
    fn fill(&mut self) -> Nanos {
        let (begin, mut next) = (self.now, 0);
        while next < self.capacity || !self.flying.is_empty() {
            while next < self.capacity && self.drive.room() && self.flying.len() < SMALL_DEPTH {
                let len = self.command_max.min(self.capacity - next);
                self.send(Op::Write, next, len);
                next += len;
            }
            if let Some(c) = self.step() {
                self.flying.remove(&c.tag).expect("a drive completes what it got");
            }
        }
        self.now.since(begin)
    }

    fn send(&mut self, op: Op, start: u64, len: u64) {
        self.tag += 1;
        self.flying.insert(self.tag, len);
        self.drive.handle(self.now, Command { tag: self.tag, op, start, len, fua: false });
    }

    /// The next completion, or none yet: time has gone on.
    fn step(&mut self) -> Option<Completion> {
        match self.drive.poll(self.now) {
            DriveOutput::Done(c) => return Some(c),
            DriveOutput::WaitUntil(Some(at)) => self.now = self.now.max(at),
            DriveOutput::WaitUntil(None) => {
                assert!(self.flying.is_empty(), "a drive with work says when");
            }
        }
        None
    }

    /// Bytes per second over the duration; afterwards the drive is idle.
    fn run(&mut self, test: &RateTest, duration: Nanos) -> f64 {
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
                self.send(test.op, start, len);
                rest = (left > len).then_some((start + len, left - len));
            }
            if let Some(c) = self.step() {
                let len = self.flying.remove(&c.tag).expect("a drive completes what it got");
                done += if c.at <= end { len } else { 0 };
            }
        }
        done as f64 / duration.0 as f64 * 1e9
    }

    fn under_way(&self, test: &RateTest) -> usize {
        if test.depth == 1 { usize::from(!self.flying.is_empty()) } else { self.flying.len() }
    }

    /// First byte and length of the next I/O.
    fn place(&mut self, test: &RateTest, next: &mut u64) -> (u64, u64) {
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
        names.retain(|n| n != "fill");
        assert_eq!(names, Rates::NAMES);
        rates.rates.values()
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

    /// An SLC cache of 42 GB, written at 530 MB/s; behind it 160 at most.
    #[test]
    fn the_steady_state_is_that_behind_an_slc_cache() {
        let plan = Plan { duration: Nanos::ms(200), steady: true, seed: 1 };
        let new = measure(&drive("sata-qlc-1tb"), &SHORT, &mut |_| {});
        let steady = measure(&drive("sata-qlc-1tb"), &plan, &mut |_| {});
        let wrand = |m: &Measured| m.rates.values()[5];
        assert!(wrand(&new) > 3 * wrand(&steady), "{new:?} {steady:?}");
        assert!(steady.filled.is_some() && steady.unsteady().count() == 0, "{steady:?}");
        assert!(steady.checks[3..].iter().all(|c| c.rounds >= WINDOW_WRITES), "{steady:?}");
        assert!(new.filled.is_none() && new.checks.iter().all(|c| c.steady.is_none()));
    }

    #[test]
    fn rounds_are_steady_without_range_and_trend() {
        assert!(steady(&[100.0, 105.0, 95.0, 102.0, 100.0]));
        assert!(!steady(&[100.0, 105.0, 80.0, 102.0, 100.0]), "range");
        assert!(!steady(&[100.0, 103.0, 106.0, 110.0, 113.0]), "trend");
        assert!(steady(&[100.0, 115.0]) && !steady(&[100.0, 130.0]));
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
