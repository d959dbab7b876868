//! W6, the fsync tester: how long does it take until 1 MiB is safe, once a second?

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use crate::world::JobError;
use hoistway::{Instant, Nanos};

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "fsync_tester",
    summary: "writes 1 MiB at the start of its new file, then fsync, then a pause; the time of each \
              fsync is a sample (W6)",
    writes: true,
    params: &[
        ParamDoc { name: "bs", default: "1 MiB", doc: "Bytes written before each fsync." },
        ParamDoc { name: "pause", default: "1 s", doc: "Time from one fsync to the next write." },
        ParamDoc {
            name: "samples",
            default: "25",
            doc: "It exits after so many fsyncs. The program's later edition: 60, with a pause of 4 s \
                  and a random `writer` of a 256 MiB file beside it.",
        },
        ParamDoc { name: "limit", default: "60 s", doc: "It exits after so much time." },
    ],
    build: |build| Ok(Box::new(FsyncTester::new(build)?)),
};

#[derive(Debug)]
struct FsyncTester {
    file: FileId,
    bs: u64,
    pause: Nanos,
    samples: u64,
    end: Instant,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Step {
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
        let limit = build.params.time("limit")?.unwrap_or(60_000_000_000);
        Ok(FsyncTester {
            file: build.host.declare_file(bs)?,
            bs,
            pause: Nanos(build.params.time("pause")?.unwrap_or(1_000_000_000)),
            samples: build.params.number("samples")?.unwrap_or(25),
            end: Instant::from_nanos(build.start.as_nanos().saturating_add(limit)),
            step: Step::Create,
        })
    }
}

impl Load for FsyncTester {
    fn next(&mut self, now: Instant) -> Operation {
        match self.step {
            Step::Create => {
                self.step = Step::Open;
                Operation::Create(self.file)
            }
            Step::Open => {
                self.step = Step::Write;
                Operation::Open { file: self.file, advice: Advice::Normal }
            }
            Step::Write if self.samples == 0 || now >= self.end => Operation::Exit,
            Step::Write => {
                self.samples -= 1;
                self.step = Step::Pause;
                let sync = SyncKind::FullAlone;
                Operation::Write { offset: 0, bs: self.bs, count: 1, sync }
            }
            Step::Pause => {
                self.step = Step::Write;
                Operation::Sleep(now + self.pause)
            }
        }
    }
}
