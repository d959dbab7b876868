//! W6, the fsync tester: how long does it take until 1 MiB is safe, once a second?

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "fsync_tester",
    summary: "writes 1 MiB at the start of its new file, then fsync, then a pause; the time of each \
              fsync is a sample (W6)",
    writes: true,
    params: &[
        ParamDoc { name: "bs", default: "1 MiB", doc: "Bytes written before each fsync." },
        ParamDoc {
            name: "variant",
            default: "\"original\"",
            doc: "Edition of the program: \"original\", or \"random-writer\", the later one: another pause and \
                  number of samples, and a `random_writer` belongs beside it. (Its time of the write call \
                  is not told.)",
        },
        ParamDoc {
            name: "pause",
            default: "1 s; random-writer: 4 s",
            doc: "Time from one fsync to the next write.",
        },
        ParamDoc {
            name: "samples",
            default: "25; random-writer: 60",
            doc: "It exits after so many fsyncs.",
        },
        ParamDoc { name: "limit", default: "60 s", doc: "It exits after so much time." },
        ParamDoc {
            name: "within",
            default: "0 s",
            doc: "It begins at a random moment of this time, another one with every seed: beside a load \
                  that goes in cycles every repetition meets another part of the cycle.",
        },
    ],
    build: |build| Ok(Box::new(FsyncTester::new(build)?)),
    ..LoadEntry::USUAL
};

/// Editions of the program.
const VARIANTS: &[&str] = &["original", "random-writer"];

#[derive(Debug)]
struct FsyncTester {
    file: FileId,
    bs: u64,
    pause: Nanos,
    samples: u64,
    begin: Instant,
    end: Instant,
    step: FsyncStep,
}

#[derive(Clone, Copy, Debug)]
enum FsyncStep {
    Delay,
    Create,
    Open,
    Write,
    Pause,
}

impl FsyncTester {
    fn new(build: &mut Build<'_>) -> Result<FsyncTester, JobError> {
        let bs = build.params.bytes("bs")?.unwrap_or(1 << 20);
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 1 << 30 {
            return Err(build.params.wrong(format!("bs = {bs}: choose a multiple of {PAGE}")));
        }
        let later = build.params.choice("variant", VARIANTS)?.is_some_and(|i| i == 1);
        let (pause, samples) = if later { (4_000_000_000, 60) } else { (1_000_000_000, 25) };
        let limit = build.params.time("limit")?.unwrap_or(60_000_000_000);
        let within = build.params.time("within")?.unwrap_or(0);
        let delay = if within == 0 { 0 } else { build.rng().below(within) };
        let begin = Instant::from_nanos(build.start.as_nanos().saturating_add(delay));
        Ok(FsyncTester {
            file: build.host.declare_file(bs)?,
            bs,
            pause: Nanos(build.params.time("pause")?.unwrap_or(pause)),
            samples: build.params.number("samples")?.unwrap_or(samples),
            begin,
            end: Instant::from_nanos(begin.as_nanos().saturating_add(limit)),
            step: if delay == 0 { FsyncStep::Create } else { FsyncStep::Delay },
        })
    }
}

impl Load for FsyncTester {
    fn next(&mut self, now: Instant) -> Operation {
        match self.step {
            FsyncStep::Delay => {
                self.step = FsyncStep::Create;
                Operation::Sleep(self.begin)
            }
            FsyncStep::Create => {
                self.step = FsyncStep::Open;
                Operation::Create(self.file)
            }
            FsyncStep::Open => {
                self.step = FsyncStep::Write;
                Operation::Open { file: self.file, advice: Advice::Normal }
            }
            FsyncStep::Write if self.samples == 0 || now >= self.end => Operation::Exit,
            FsyncStep::Write => {
                self.samples -= 1;
                self.step = FsyncStep::Pause;
                let sync = SyncKind::FullAlone;
                Operation::Write { offset: 0, bs: self.bs, count: 1, sync }
            }
            FsyncStep::Pause => {
                self.step = FsyncStep::Write;
                Operation::Sleep(now + self.pause)
            }
        }
    }
}
