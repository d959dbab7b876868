//! Tests of a drive: what is submitted, and what came of it (specs/drives.md section 10).
//!
//! A drive file is found by asking the same questions of a real drive and of a simulated one. A [`Test`] is such a
//! question: *streams* of commands in closed loops, each with a pattern, a size and a depth. A [`Probe`] answers it:
//! [`SimProbe`] with a drive model in virtual time, without host and scheduler; real devices have one in the live crate.
//! Because the question is data and the answer is of one form, "measured against simulated" compares like with like:
//! both leave out the same warm-up, both cut off what was under way at the end.
//!
//! What an answer keeps of the latencies is their mean, extremes and a row of quantiles, which is what the fit and the
//! demerit figure need, and small enough to be stored for every test.

mod sim;

pub use sim::SimProbe;

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Discards.
    Discard,
}

/// Where it does it, within its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Uniform, in multiples of the size or of 4 KiB, whichever is less.
    Random,
    /// Upwards from the start of the area, again from there at its end. Several copies begin evenly spaced, each
    /// shifted by a random gap below 8 MiB, since equal angles would be no layout of files.
    Sequential,
    /// The same place again and again.
    Same,
    /// A random place, then the one `delta` bytes behind it; only the second counts.
    Pairs {
        /// Bytes from the first to the second.
        delta: u64,
    },
    /// Every `step` bytes, again from the start at the end of the area.
    Stride {
        /// Bytes from one to the next.
        step: u64,
    },
    /// `places` sequential streams in turn, one command each, evenly spaced over the area.
    Interleaved {
        /// How many.
        places: u64,
    },
}

/// A stream of commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// What.
    pub action: Action,
    /// Where.
    pub pattern: Pattern,
    /// Bytes of a command; longer ones than the drive takes are split as the block layer does.
    pub bytes: u64,
    /// Submitters of this kind; each has its own places.
    pub copies: u32,
    /// Commands that each of them keeps under way.
    pub depth: u32,
    /// From a completion to the next submission, ns.
    #[serde(default)]
    pub pause_ns: u64,
    /// Submissions of one place of the depth are at least this far apart, ns.
    #[serde(default)]
    pub interval_ns: u64,
    /// After so many writes a flush, before the next; 0: none.
    #[serde(default)]
    pub flush_every: u32,
    /// First byte and length of its area.
    pub area: (u64, u64),
}

impl Stream {
    /// One submitter with one command under way.
    pub fn new(action: Action, pattern: Pattern, bytes: u64, area: (u64, u64)) -> Stream {
        let (copies, depth) = (1, 1);
        let (pause_ns, interval_ns, flush_every) = (0, 0, 0);
        Stream { action, pattern, bytes, copies, depth, pause_ns, interval_ns, flush_every, area }
    }

    /// With so many commands under way.
    pub fn depth(self, depth: u32) -> Stream {
        Stream { depth, ..self }
    }

    /// With so many submitters.
    pub fn copies(self, copies: u32) -> Stream {
        Stream { copies, ..self }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Its name, such as `F2/depth 8`.
    pub name: String,
    /// What is submitted; the first is the one that is looked at.
    pub streams: Vec<Stream>,
    /// Not counted, ns.
    pub warm_up_ns: u64,
    /// Counted, ns.
    pub duration_ns: u64,
    /// It ends earlier after so many counted commands of all streams; 0: no limit.
    pub commands_max: u64,
}

impl Test {
    /// The bytes it may write at most per second of its length are not known beforehand; that it writes is.
    pub fn writes(&self) -> bool {
        self.streams.iter().any(|s| s.action != Action::Read)
    }
}

/// Quantiles that are kept: the middles of so many equal parts.
pub const QUANTILES: usize = 40;
/// Parts of the time of a test whose bytes are kept.
pub const BINS: usize = 100;

/// Latencies of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// How many.
    pub count: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Shortest, ns.
    pub min_ns: f64,
    /// Longest, ns.
    pub max_ns: f64,
    /// At (i + 1/2) / [`QUANTILES`], ns; empty if there are none.
    pub quantiles_ns: Vec<f64>,
}

impl Latencies {
    /// Of these; they are sorted.
    pub fn of(latencies: &mut [u64]) -> Latencies {
        let (Some(&_), n) = (latencies.first(), latencies.len()) else {
            return Latencies::default();
        };
        latencies.sort_unstable();
        let sum: f64 = latencies.iter().map(|&l| l as f64).sum();
        let at = |i: usize| latencies[((2 * i + 1) * n / (2 * QUANTILES)).min(n - 1)] as f64;
        Latencies {
            count: n as u64,
            mean_ns: sum / n as f64,
            min_ns: latencies[0] as f64,
            max_ns: latencies[n - 1] as f64,
            quantiles_ns: (0..QUANTILES).map(at).collect(),
        }
    }

    /// A quantile, 0 to 1.
    pub fn quantile_ns(&self, q: f64) -> f64 {
        let last = self.quantiles_ns.len().saturating_sub(1);
        let at = (q * QUANTILES as f64) as usize;
        self.quantiles_ns.get(at.min(last)).copied().unwrap_or(0.0)
    }

    /// Root mean square horizontal distance of the distributions, relative to the mean of this one.
    pub fn demerit(&self, other: &Latencies) -> f64 {
        if self.count == 0 || other.count == 0 || self.mean_ns <= 0.0 {
            return f64::INFINITY;
        }
        let pairs = self.quantiles_ns.iter().zip(&other.quantiles_ns);
        let sum: f64 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
        (sum / QUANTILES as f64).sqrt() / self.mean_ns
    }
}

/// What came of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// Latencies of its commands.
    pub commands: Latencies,
    /// Latencies of its flushes.
    pub flushes: Latencies,
    /// Bytes of commands that ended in the counted time.
    pub bytes: u64,
    /// Bytes that ended in each of [`BINS`] equal parts of the whole time, warm-up included; fewer parts if the test
    /// ended early.
    pub bins: Vec<u64>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Length of the counted time, ns.
    pub counted_ns: u64,
    /// By stream.
    pub streams: Vec<StreamOutcome>,
}

impl Outcome {
    /// The stream that is looked at.
    pub fn first(&self) -> &StreamOutcome {
        &self.streams[0]
    }

    /// Bytes per second of a stream.
    pub fn rate(&self, stream: usize) -> f64 {
        self.streams[stream].bytes as f64 * 1e9 / self.counted_ns.max(1) as f64
    }

    /// Commands per second of a stream.
    pub fn iops(&self, stream: usize) -> f64 {
        self.streams[stream].commands.count as f64 * 1e9 / self.counted_ns.max(1) as f64
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeError {
    /// The user wants to stop.
    Interrupted,
    /// The drive or the machine says no.
    Failed(String),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Interrupted => f.write_str("interrupted"),
            ProbeError::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ProbeError {}

/// What can be known of a drive without a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Model name for people.
    pub title: String,
    /// Size of the drive in bytes.
    pub capacity: u64,
    /// First byte and length of what tests may use: all of it, or a scratch file.
    pub area: (u64, u64),
    /// 512 or 4096.
    pub sector: u64,
    /// A spinning disk, as the kernel says.
    pub rotational: bool,
    /// As in drive files.
    pub bus: String,
    /// Commands the device takes at once.
    pub queue_depth: u32,
    /// Dispatch contexts.
    pub hw_queues: u16,
    /// Longest command, KiB.
    pub max_request_kib: u64,
    /// Forced unit access.
    pub fua: bool,
    /// It has a volatile write cache.
    pub write_cache: bool,
    /// It takes discards.
    pub discard: bool,
}

/// Something that can be asked.
pub trait Probe {
    /// Runs a test.
    ///
    /// # Errors
    ///
    /// The drive or the machine refused, or the user wants to stop.
    fn run(&mut self, test: &Test) -> Result<Outcome, ProbeError>;
}

/// The parts of the time that a test which ended at `ended` of `length` went through as a whole.
pub fn whole_bins(mut bins: Vec<u64>, ended: u64, length: u64) -> Vec<u64> {
    let whole = u128::from(ended) * BINS as u128 / u128::from(length.max(1));
    bins.truncate(whole as usize);
    bins
}

/// Where submitter `copy` of a stream begins: evenly spaced and shifted by less than 8 MiB.
pub fn sequential_start(stream: &Stream, copy: u32, random: u64) -> u64 {
    let (start, len) = stream.area;
    let share = len / u64::from(stream.copies.max(1));
    let gap = (random % (8 << 20)).min(share / 4) / 4096 * 4096;
    start + u64::from(copy) * share / 4096 * 4096 + gap
}

/// The places of one submitter in order: the same for every probe, since the seed and the names are.
#[derive(Clone, Debug)]
pub struct Places {
    stream: Stream,
    rng: crate::rng::Rng,
    /// Bounds of sequential places.
    span: (u64, u64),
    next: u64,
    turn: u64,
    second: Option<u64>,
    each: Vec<u64>,
}

impl Places {
    /// Of submitter `copy` of stream number `index` in the test called `name`.
    pub fn new(name: &str, index: usize, stream: &Stream, copy: u32, seed: u64) -> Places {
        let mut rng = crate::rng::stream(seed, &format!("probe/{name}/{index}/{copy}"));
        let (start, len) = stream.area;
        let first = match stream.copies {
            1 => start,
            _ => sequential_start(stream, copy, rng.bits()),
        };
        let share = len / u64::from(stream.copies.max(1));
        let end = (start + (u64::from(copy) + 1) * share).max(first + stream.bytes);
        let each = match stream.pattern {
            Pattern::Interleaved { places } => {
                (0..places).map(|i| start + i * (len / places) / 4096 * 4096).collect()
            }
            _ => Vec::new(),
        };
        let span = (first, end.min(start + len));
        Places { stream: stream.clone(), rng, span, next: first, turn: 0, second: None, each }
    }

    fn random(&mut self, room: u64) -> u64 {
        let (start, len) = self.stream.area;
        let step = self.stream.bytes.clamp(1, 4096);
        let count = (len.saturating_sub(room) / step).max(1);
        start + self.rng.below(count) * step
    }

    /// The next place, and whether its latency counts.
    pub fn draw(&mut self) -> (u64, bool) {
        let bytes = self.stream.bytes;
        match self.stream.pattern {
            Pattern::Random => (self.random(bytes), true),
            Pattern::Same => (self.span.0, true),
            Pattern::Sequential => (self.upwards(bytes), true),
            Pattern::Stride { step } => (self.upwards(step), true),
            Pattern::Pairs { delta } => match self.second.take() {
                Some(place) => (place, true),
                None => {
                    let first = self.random(delta + bytes);
                    self.second = Some(first + delta);
                    (first, false)
                }
            },
            Pattern::Interleaved { places } => {
                let at = (self.turn % places) as usize;
                self.turn += 1;
                let (start, len) = self.stream.area;
                let place = self.each[at];
                let next = place + bytes;
                let wraps = next + bytes > start + len;
                self.each[at] = if wraps { start } else { next };
                (place, true)
            }
        }
    }

    fn upwards(&mut self, step: u64) -> u64 {
        if self.next + self.stream.bytes > self.span.1 {
            self.next = self.span.0;
        }
        self.next += step;
        self.next - step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveFile;

    const AREA: (u64, u64) = (1 << 30, 1 << 30);

    fn ask(id: &str, streams: Vec<Stream>) -> Outcome {
        let (warm_up_ns, duration_ns, commands_max) = (50_000_000, 200_000_000, 0);
        let test = Test { name: "t".into(), streams, warm_up_ns, duration_ns, commands_max };
        let file = DriveFile::load(id).unwrap();
        let once = SimProbe::new(&file, 1).run(&test).unwrap();
        assert_eq!(once, SimProbe::new(&file, 1).run(&test).unwrap(), "the same seed");
        once
    }

    fn read(pattern: Pattern) -> Stream {
        Stream::new(Action::Read, pattern, 4096, AREA)
    }

    #[test]
    fn a_fixed_latency_is_what_comes_out_at_every_depth() {
        for depth in [1, 7] {
            let o = ask("fixed-100us", vec![read(Pattern::Random).depth(depth)]);
            assert_eq!((o.first().commands.min_ns, o.first().commands.max_ns), (100e3, 100e3));
            assert_eq!(o.first().commands.count, 2000 * u64::from(depth));
            assert_eq!(o.first().bytes, 4096 * o.first().commands.count);
        }
    }

    #[test]
    fn a_test_that_ends_before_its_warm_up_is_over_has_the_rate_of_what_it_counted() {
        let streams = vec![read(Pattern::Random).depth(4)];
        let (warm_up_ns, duration_ns, commands_max) = (50_000_000, 200_000_000, 100);
        let test = Test { name: "t".into(), streams, warm_up_ns, duration_ns, commands_max };
        let file = DriveFile::load("fixed-100us").unwrap();
        let o = SimProbe::new(&file, 1).run(&test).unwrap();
        assert!(o.first().commands.count >= 100);
        assert!((o.iops(0) / 40_000.0 - 1.0).abs() < 0.05, "{} per second", o.iops(0));
    }

    #[test]
    fn pauses_intervals_and_splitting_are_kept() {
        let paused = Stream { pause_ns: 100_000, ..read(Pattern::Sequential) };
        assert_eq!(ask("fixed-100us", vec![paused]).first().commands.count, 1000);
        let paced = Stream { interval_ns: 1_000_000, ..read(Pattern::Same) };
        assert_eq!(ask("fixed-100us", vec![paced]).first().commands.count, 200);
        // Ten megabytes are eight commands of 1280 KiB at once.
        let long = Stream { bytes: 10 << 20, ..read(Pattern::Sequential) };
        assert_eq!(ask("fixed-100us", vec![long]).first().commands.mean_ns, 100e3);
    }

    #[test]
    fn writers_that_a_machine_lets_go_on_late_wait_for_the_next_flush() {
        let file = DriveFile::load("plextor-px-256m5s").unwrap();
        let writer = Stream::new(Action::Write, Pattern::Sequential, 4096, AREA);
        let streams = vec![Stream { flush_every: 1, ..writer }.copies(15)];
        let (warm_up_ns, duration_ns, commands_max) = (50_000_000, 200_000_000, 0);
        let test = Test { name: "t".into(), streams, warm_up_ns, duration_ns, commands_max };
        let mean = |reaction| {
            let o = SimProbe::new(&file, 1).with_reaction(reaction).run(&test).unwrap();
            (o.first().commands.mean_ns, o.first().flushes.mean_ns)
        };
        // A flush takes 2.7 ms, a write 0.05 ms.
        let (at_once, late) = (mean(0), mean(50_000));
        assert!(at_once.0 < 0.3e6 && late.0 > 1.5e6, "{at_once:?} {late:?}");
        assert!((late.1 / at_once.1 - 1.0).abs() < 0.2, "the flushes are the drive's");
    }

    #[test]
    fn flushes_that_come_while_one_runs_share_the_next() {
        let writer = Stream::new(Action::Write, Pattern::Sequential, 4096, AREA);
        let writer = Stream { flush_every: 1, ..writer };
        let alone = ask("plextor-px-256m5s", vec![writer.clone()]);
        let fifteen = ask("plextor-px-256m5s", vec![writer.copies(15)]);
        let (one, all) = (&alone.first().flushes, &fifteen.first().flushes);
        assert!(one.mean_ns > 2e6 && all.mean_ns < 2.5 * one.mean_ns, "{one:?} {all:?}");
        assert!(all.count > 6 * one.count);
    }

    #[test]
    fn places_stay_in_their_area_and_pairs_are_that_far_apart() {
        let patterns = [
            Pattern::Random,
            Pattern::Sequential,
            Pattern::Pairs { delta: 1 << 29 },
            Pattern::Stride { step: 300 << 20 },
            Pattern::Interleaved { places: 5 },
        ];
        for pattern in patterns {
            for copies in [1, 3] {
                let stream = Stream { bytes: 65_536, ..read(pattern) }.copies(copies);
                let mut places = Places::new("t", 0, &stream, copies - 1, 1);
                let drawn: Vec<_> = (0..20_000).map(|_| places.draw()).collect();
                for &(at, _) in &drawn {
                    assert!(at >= AREA.0 && at + 65_536 <= AREA.0 + AREA.1, "{pattern:?} {at}");
                }
                if let Pattern::Pairs { delta } = pattern {
                    let pairs = drawn.chunks(2);
                    assert!(pairs.into_iter().all(|p| p[1].0 - p[0].0 == delta && p[1].1));
                }
            }
        }
    }

    #[test]
    fn a_demerit_is_the_distance_of_distributions_over_the_mean() {
        let of = |from: u64| Latencies::of(&mut (0..1000).map(|i| from + i).collect::<Vec<_>>());
        assert_eq!(of(0).demerit(&of(0)), 0.0);
        let apart = of(10_000).demerit(&of(12_000));
        assert!((apart - 2000.0 / 10_499.5).abs() < 1e-9, "{apart}");
    }
}
