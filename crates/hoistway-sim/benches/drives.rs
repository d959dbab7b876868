//! Speed of the drive models alone: commands per second of wall time, best of three.
//!
//! `cargo bench -p hoistway-sim --bench drives`

use hoistway::{Instant, Op};
use hoistway_sim::drive::{Command, DriveFile, DriveOutput};
use hoistway_sim::rng::{self, Rng};

/// What is kept outstanding.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// This many streams with two reads of so many bytes each, and one random 4 KiB reader.
    Readers { streams: u64, window: u64 },
    /// This many random commands of so many bytes.
    Random { op: Op, depth: u64, len: u64 },
}

/// One case a line: drive, pattern, commands per run.
const CASES: &[(&str, Pattern, u64)] = &[
    ("hitachi-hts727550a9e364", Pattern::Readers { streams: 15, window: 262_144 }, 1_000_000),
    ("hitachi-hts727550a9e364", Pattern::Random { op: Op::Read, depth: 31, len: 4096 }, 500_000),
    ("hitachi-hts727550a9e364", Pattern::Random { op: Op::Write, depth: 31, len: 4096 }, 200_000),
    (
        "hdd-nearline-18tb-dual-actuator",
        Pattern::Random { op: Op::Read, depth: 32, len: 4096 },
        500_000,
    ),
    ("samsung-970-pro", Pattern::Readers { streams: 15, window: 262_144 }, 5_000_000),
    ("samsung-970-pro", Pattern::Random { op: Op::Read, depth: 256, len: 4096 }, 5_000_000),
    ("samsung-970-pro", Pattern::Random { op: Op::Write, depth: 256, len: 4096 }, 5_000_000),
    ("plextor-px-256m5s", Pattern::Readers { streams: 15, window: 262_144 }, 3_000_000),
    ("sd-card-2009", Pattern::Random { op: Op::Write, depth: 1, len: 4096 }, 1_000_000),
    ("cloud-gp3", Pattern::Random { op: Op::Read, depth: 256, len: 4096 }, 2_000_000),
];

const STREAM_BYTES: u64 = 500 << 20;

/// The place of the next command of a tag.
#[derive(Debug)]
struct Source {
    pattern: Pattern,
    cursors: Vec<u64>,
    capacity: u64,
    rng: Rng,
}

impl Source {
    fn outstanding(&self) -> u64 {
        match self.pattern {
            Pattern::Readers { streams, .. } => 2 * streams + 1,
            Pattern::Random { depth, .. } => depth,
        }
    }

    fn next(&mut self, tag: u64) -> Command {
        let (op, start, len) = match self.pattern {
            Pattern::Readers { streams, window } if tag < 2 * streams => {
                let n = tag / 2;
                let cursor = &mut self.cursors[n as usize];
                let offset = *cursor % STREAM_BYTES;
                *cursor += window;
                (Op::Read, (n + 1) * STREAM_BYTES + offset, window)
            }
            Pattern::Readers { .. } => (Op::Read, self.rng.below(STREAM_BYTES / 4096) * 4096, 4096),
            Pattern::Random { op, len, .. } => (op, self.rng.below(self.capacity / len) * len, len),
        };
        Command { tag, op, start, len, fua: false }
    }
}

/// Commands per second.
fn measure(file: &DriveFile, pattern: Pattern, commands: u64) -> f64 {
    let mut drive = file.build(1);
    let mut source = Source {
        pattern,
        cursors: vec![0; 64],
        capacity: file.identity.capacity_bytes,
        rng: rng::stream(1, "bench"),
    };
    #[expect(clippy::disallowed_methods, reason = "a bench measures wall time")]
    let begin = std::time::Instant::now();
    let mut now = Instant::ZERO;
    for tag in 0..source.outstanding() {
        drive.handle(now, source.next(tag));
    }
    let mut done = 0;
    while done < commands {
        match drive.poll(now) {
            DriveOutput::Done(c) => {
                done += 1;
                drive.handle(now, source.next(c.tag));
            }
            DriveOutput::WaitUntil(at) => now = at.expect("commands are outstanding"),
        }
    }
    commands as f64 / begin.elapsed().as_secs_f64()
}

fn main() {
    println!("{:<34} {:<48} commands/s", "drive", "outstanding");
    for &(id, pattern, commands) in CASES {
        let file = DriveFile::load(id).unwrap_or_else(|e| panic!("{e}"));
        let best = (0..3).map(|_| measure(&file, pattern, commands)).fold(0.0, f64::max);
        println!("{id:<34} {:<48} {best:.0}", format!("{pattern:?}"));
    }
}
