//! The tests, in the order in which they run (specs/drives.md 10.2 and 10.3).
//!
//! Disks have the tests H1 to H9, everything else F1 to F11, C1 and B1: which model fits is decided afterwards, and
//! the tests of cards and volumes do flash drives no harm. Reads come before writes, gentle writes before those that
//! fill a drive. A test that writes is in the list only if the user allows writing.

use hoistway_sim::probe::{Action, Pattern, Stream, Subject, Test};

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteOptions {
    /// Short tests.
    pub quick: bool,
    /// Tests that write may run.
    pub write: bool,
    /// Bytes that the tests may write in all.
    pub write_budget: u64,
    /// Seed of random places.
    pub seed: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
/// Size of a file of the reference experiment (specs/drives.md 7).
const FILE: u64 = 500 * MIB;
/// Interferers of the reference experiment, and fewer.
const INTERFERERS: [u32; 5] = [1, 2, 4, 8, 15];
/// Parts of the write budget that one test may use; and those that last until a drive is steady.
const PART: u64 = 40;
const PART_COLD: u64 = 3;
/// Counted commands after which a test knows enough.
const COMMANDS_MAX: u64 = 60_000;

/// The tests of a device.
pub fn suite(subject: &Subject, options: &SuiteOptions) -> Vec<Test> {
    let make = Make { subject, options, tests: Vec::new() };
    if subject.rotational { make.disk() } else { make.solid() }
}

struct Make<'a> {
    subject: &'a Subject,
    options: &'a SuiteOptions,
    tests: Vec<Test>,
}

impl Make<'_> {
    /// Places that look like the files of an experiment: from 5 % of the area on, of the usual size or a thirtieth.
    fn files(&self, from: u64, count: u64) -> (u64, u64) {
        let (start, len) = self.subject.area;
        let file = FILE.min(len / 30) / 4096 * 4096;
        let first = start + len / 20 / 4096 * 4096;
        (first + from * file, count * file)
    }

    fn test(&mut self, name: &str, seconds: f64, streams: Vec<Stream>) {
        let duration_ns = (seconds * SECOND as f64) as u64;
        let warm_up_ns = duration_ns / 10;
        let commands_max = self.most(&streams, PART).unwrap_or(COMMANDS_MAX).min(COMMANDS_MAX);
        self.tests.push(Test { name: name.into(), streams, warm_up_ns, duration_ns, commands_max });
    }

    /// From the first command on: what a drive does at first is the question.
    fn test_cold(&mut self, name: &str, seconds: f64, streams: Vec<Stream>) {
        self.test(name, seconds, streams);
        let most = self.tests.last().and_then(|t| self.most(&t.streams, PART_COLD)).unwrap_or(0);
        let test = self.tests.last_mut().expect("it was just made");
        (test.warm_up_ns, test.commands_max) = (0, most);
    }

    /// Commands that make up a part of the write budget; `None` if nothing is written.
    fn most(&self, streams: &[Stream], part: u64) -> Option<u64> {
        let writes = streams.iter().filter(|s| s.action == Action::Write);
        let bytes = writes.map(|s| s.bytes).max()?;
        Some((self.options.write_budget / part / bytes).max(1))
    }

    /// Depths that the device takes, ending with its own.
    fn depths(&self, most: u32) -> Vec<u32> {
        let own = self.subject.queue_depth.clamp(1, most);
        let mut depths: Vec<u32> = (0..16).map(|n| 1 << n).take_while(|&d| d < own).collect();
        depths.push(own);
        depths
    }

    fn seconds(&self, quick: f64, usual: f64) -> f64 {
        if self.options.quick { quick } else { usual }
    }

    fn solid(mut self) -> Vec<Test> {
        let area = self.subject.area;
        let second = self.seconds(1.0, 5.0);
        let read = |pattern, bytes| Stream::new(Action::Read, pattern, bytes, area);
        for depth in self.depths(256) {
            let name = if depth == 1 { "F1".into() } else { format!("F2/depth {depth}") };
            self.test(&name, second, vec![read(Pattern::Random, 4 * KIB).depth(depth)]);
        }
        for kib in [8, 16, 32, 64, 128, 256, 512] {
            let name = format!("F3/{kib}k");
            self.test(&name, second, vec![read(Pattern::Random, kib * KIB)]);
        }
        let deep = self.subject.queue_depth.min(8);
        for kib in [32, 128] {
            let name = format!("F3/{kib}k deep");
            self.test(&name, second, vec![read(Pattern::Random, kib * KIB).depth(deep)]);
        }
        self.test("F4/1M", second, vec![read(Pattern::Sequential, MIB).depth(deep)]);
        self.test("F4/128k", second, vec![read(Pattern::Sequential, 128 * KIB)]);
        self.test("F4/4k", second, vec![read(Pattern::Sequential, 4 * KIB)]);
        let full = self.subject.queue_depth.min(64);
        self.test("F4/4k deep", second, vec![read(Pattern::Sequential, 4 * KIB).depth(full)]);
        let (mine, theirs) = (self.files(0, 1), self.files(1, 15));
        for k in INTERFERERS {
            let target = Stream::new(Action::Read, Pattern::Random, 4 * KIB, mine);
            let others = Stream::new(Action::Read, Pattern::Sequential, 256 * KIB, theirs);
            let streams = vec![target, others.copies(k).depth(2)];
            self.test(&format!("F5/{k} readers"), self.seconds(2.0, 10.0), streams);
        }
        self.test_cold(
            "B1/4k",
            self.seconds(4.0, 60.0),
            vec![read(Pattern::Random, 4 * KIB).depth(full)],
        );
        self.test_cold(
            "B1/256k",
            self.seconds(4.0, 60.0),
            vec![read(Pattern::Random, 256 * KIB).depth(full)],
        );
        if self.options.write {
            self.solid_writes();
        }
        self.tests
    }

    fn solid_writes(&mut self) {
        let area = self.subject.area;
        let second = self.seconds(1.0, 5.0);
        let full = self.subject.queue_depth.min(64);
        let deep = self.subject.queue_depth.min(8);
        let write = |pattern, bytes| Stream::new(Action::Write, pattern, bytes, area);
        self.test("F7/depth 1", second, vec![write(Pattern::Random, 4 * KIB)]);
        self.test("F7/sequential", second, vec![write(Pattern::Sequential, 4 * KIB).depth(full)]);
        let (mine, theirs) = (self.files(0, 1), self.files(1, 15));
        let synced = |copies| {
            let writer = Stream::new(Action::Write, Pattern::Sequential, 4 * KIB, theirs);
            Stream { flush_every: 1, ..writer.copies(copies) }
        };
        let target = || Stream::new(Action::Read, Pattern::Random, 4 * KIB, mine);
        self.test("F8/alone", second, vec![synced(1)]);
        self.test("F8/15 writers", second, vec![synced(15)]);
        let burst = Stream::new(Action::Write, Pattern::Sequential, 128 * KIB, theirs).depth(1);
        let burst = Stream { flush_every: 64, ..burst };
        self.test("F8/after 8 MiB", self.seconds(2.0, 5.0), vec![burst]);
        self.test("F8/reader, 1 writer", second, vec![target(), synced(1)]);
        let longer = self.seconds(2.0, 10.0);
        self.test("F8/reader, 15 writers", longer, vec![target(), synced(15)]);
        self.test("F6/rate", second, vec![write(Pattern::Sequential, MIB).depth(deep)]);
        let burst = write(Pattern::Sequential, 128 * KIB).depth(deep);
        self.test_cold("F9", 0.4, vec![burst]);
        for (name, interval) in [("F10/slow", 8 * SECOND / 1000), ("F10/fast", SECOND / 1000)] {
            let paced = Stream::new(Action::Write, Pattern::Sequential, 128 * KIB, theirs);
            let paced = Stream { interval_ns: interval, ..paced };
            self.test(name, second, vec![target(), paced]);
        }
        for (name, step) in [("C1/1M", MIB), ("C1/4M", 4 * MIB), ("C1/16M", 16 * MIB)] {
            self.test(name, second, vec![write(Pattern::Stride { step }, 4 * KIB)]);
        }
        for k in [1, 2, 4, 8, 16] {
            let name = format!("C1/{k} writers");
            self.test(&name, second, vec![write(Pattern::Interleaved { places: k }, 64 * KIB)]);
        }
        if self.subject.discard {
            for (name, bytes) in [("F11/64M", 64 * MIB), ("F11/1G", 1 << 30)] {
                if bytes <= area.1 {
                    let discard = Stream::new(Action::Discard, Pattern::Same, bytes, area);
                    self.test(name, self.seconds(0.2, 1.0), vec![discard]);
                }
            }
        }
        self.test_cold(
            "F7/random",
            self.seconds(4.0, 60.0),
            vec![write(Pattern::Random, 4 * KIB).depth(full)],
        );
        self.test_cold(
            "F6",
            self.seconds(4.0, 120.0),
            vec![write(Pattern::Sequential, MIB).depth(deep)],
        );
    }

    fn disk(mut self) -> Vec<Test> {
        let (start, len) = self.subject.area;
        let area = self.subject.area;
        let read = |pattern, bytes| Stream::new(Action::Read, pattern, bytes, area);
        let positions = if self.options.quick { 9 } else { 33 };
        for n in 0..positions {
            let room = (256 * MIB).min(len / 64) / 4096 * 4096;
            let from = start + (len - room) / (positions - 1) * n / 4096 * 4096;
            let stream = Stream::new(Action::Read, Pattern::Sequential, MIB, (from, room));
            let percent = 100.0 * n as f64 / (positions - 1) as f64;
            let name = format!("H1/{percent:.0} %");
            self.test(&name, self.seconds(0.6, 1.0), vec![stream.depth(2)]);
        }
        for bytes in [4 * KIB, 64 * KIB] {
            let name = format!("H4/same {}k", bytes / KIB);
            self.test(&name, 1.0, vec![read(Pattern::Same, bytes)]);
        }
        self.test("H4/sequential 4k", 1.0, vec![read(Pattern::Sequential, 4 * KIB)]);
        let deltas: &[u64] = if self.options.quick {
            &[1, 8, 64, 512, 4096, 20_000, 60_000, 100_000]
        } else {
            &[
                1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 10_000, 20_000, 40_000,
                60_000, 80_000, 90_000, 100_000,
            ]
        };
        for &delta in deltas {
            // From 10,000 on hundred-thousandths of the area, below it MiB.
            let bytes = match delta {
                ..10_000 => delta * MIB,
                _ => (len as u128 * u128::from(delta) / 102_000) as u64 / 4096 * 4096,
            };
            if bytes < len / 12 || delta >= 10_000 {
                let name = format!("H3/{} MiB", bytes / MIB);
                let stream = read(Pattern::Pairs { delta: bytes }, 4 * KIB);
                self.test(&name, self.seconds(3.0, 8.0), vec![stream]);
            }
        }
        for places in [1, 2, 4, 8, 12, 16, 24, 32, 64] {
            let stream = read(Pattern::Interleaved { places }, 64 * KIB);
            let stream = Stream { pause_ns: 15_000_000, ..stream };
            self.test(&format!("H5/{places} streams"), self.seconds(2.0, 6.0), vec![stream]);
        }
        for gap in [16, 32, 128, 512] {
            let stream = read(Pattern::Stride { step: (64 + gap) * KIB }, 64 * KIB);
            self.test(&format!("H5/gap {gap}k"), self.seconds(1.0, 3.0), vec![stream]);
        }
        for depth in self.depths(64) {
            let name = format!("H6/depth {depth}");
            let stream = read(Pattern::Random, 4 * KIB).depth(depth);
            self.test(&name, self.seconds(8.0, 30.0), vec![stream]);
        }
        let (mine, theirs) = (self.files(0, 1), self.files(1, 15));
        let target = || Stream::new(Action::Read, Pattern::Random, 4 * KIB, mine);
        self.test("H6/file", self.seconds(5.0, 15.0), vec![target()]);
        let deep = self.subject.queue_depth.min(8);
        if deep > 1 {
            self.test("H6/file deep", self.seconds(5.0, 15.0), vec![target().depth(deep)]);
        }
        let counts: &[u32] = if self.options.quick { &[4, 15] } else { &[1, 4, 8, 15] };
        for &k in counts {
            let others = Stream::new(Action::Read, Pattern::Sequential, 256 * KIB, theirs);
            let streams = vec![target(), others.copies(k).depth(2)];
            self.test(&format!("H7/{k} readers"), self.seconds(60.0, 120.0), streams);
        }
        if self.options.write {
            self.disk_writes();
        }
        self.tests
    }

    fn disk_writes(&mut self) {
        let area = self.subject.area;
        let (mine, theirs) = (self.files(0, 1), self.files(1, 15));
        let write = |pattern, bytes| Stream::new(Action::Write, pattern, bytes, area);
        let same = Stream { flush_every: 1, ..write(Pattern::Same, 4 * KIB) };
        self.test("H2", self.seconds(3.0, 6.0), vec![same]);
        for n in [1, 2, 4, 8, 16, 64] {
            let stream = Stream { flush_every: n, ..write(Pattern::Random, 4 * KIB) };
            self.test(&format!("H9/{n} writes"), self.seconds(3.0, 10.0), vec![stream]);
        }
        let synced = Stream::new(Action::Write, Pattern::Sequential, 4 * KIB, theirs);
        let synced = Stream { flush_every: 1, ..synced };
        for k in [1, 4, 15] {
            let target = Stream::new(Action::Read, Pattern::Random, 4 * KIB, mine);
            let streams = vec![target, synced.clone().copies(k)];
            self.test(&format!("H9/reader, {k} writers"), self.seconds(6.0, 30.0), streams);
        }
        let target = Stream::new(Action::Read, Pattern::Random, 4 * KIB, mine);
        let writer = Stream { pause_ns: 2_000_000, ..write(Pattern::Random, 4 * KIB) };
        self.test("H9/reader, unsynced", self.seconds(6.0, 30.0), vec![target, writer]);
        let full = self.subject.queue_depth.min(64);
        self.test(
            "H8/sequential",
            self.seconds(3.0, 10.0),
            vec![write(Pattern::Sequential, MIB).depth(2)],
        );
        self.test(
            "H8/sequential 4k",
            self.seconds(2.0, 5.0),
            vec![write(Pattern::Sequential, 4 * KIB).depth(full)],
        );
        self.test_cold(
            "H8",
            self.seconds(15.0, 60.0),
            vec![write(Pattern::Random, 4 * KIB).depth(full)],
        );
    }
}
