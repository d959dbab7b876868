//! The background reader of `video-s` (specs/experiments.md 7.2): every few seconds it reads a small file that nobody
//! has cached, as fast as it can. Each reading is one turn of the phase `bulk-read`: the time it takes is what somebody
//! feels who opens a picture while a film is playing.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Notice, Operation, PAGE};
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "interval_reader",
    summary: "reads a file that is not cached at every multiple of `interval`, and tells how long each time took (7.2)",
    params: &[
        ParamDoc {
            name: "interval",
            default: "4 s",
            doc: "Time from one beginning to the next; a long reading makes others fall out, and shifts none.",
        },
        ParamDoc { name: "size", default: "15 MiB", doc: "Bytes read each time." },
        ParamDoc { name: "bs", default: "1 MiB", doc: "Bytes of a call." },
    ],
    build: |build| Ok(Box::new(IntervalReader::new(build)?)),
    ..LoadEntry::USUAL
};

/// The phase that a reading is a turn of.
const PHASE: &str = "bulk-read";

#[derive(Clone, Copy, Debug)]
enum IntervalStep {
    Wait,
    Begin,
    Open,
    Read,
    End,
}

#[derive(Debug)]
struct IntervalReader {
    file: FileId,
    bs: u64,
    calls: u64,
    interval: Nanos,
    due: Instant,
    step: IntervalStep,
}

impl IntervalReader {
    fn new(build: &mut Build<'_>) -> Result<IntervalReader, JobError> {
        let interval = build.params.time("interval")?.unwrap_or(4_000_000_000);
        if interval == 0 {
            return Err(build.params.wrong("interval = 0: choose a time above 0".into()));
        }
        let bs = build.params.bytes("bs")?.unwrap_or(1 << 20);
        let size = build.params.bytes("size")?.unwrap_or(15 << 20);
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 1 << 30 {
            return Err(build
                .params
                .wrong(format!("bs = {bs}: choose a multiple of {PAGE} up to 1 GiB")));
        }
        if size < bs {
            return Err(build
                .params
                .wrong(format!("size = {size}: choose at least one call of {bs}")));
        }
        let calls = size / bs;
        let file = build.host.add_file(calls * bs)?;
        Ok(IntervalReader {
            file,
            bs,
            calls,
            interval: Nanos(interval),
            due: build.start,
            step: IntervalStep::Wait,
        })
    }
}

impl Load for IntervalReader {
    fn next(&mut self, now: Instant) -> Operation {
        match self.step {
            IntervalStep::Wait if now < self.due => Operation::Sleep(self.due),
            IntervalStep::Wait => {
                self.due += self.interval;
                if self.due <= now {
                    // Readings that were missed are not made up for.
                    let missed = now.since(self.due).0 / self.interval.0;
                    self.due += self.interval * (missed + 1);
                }
                self.step = IntervalStep::Begin;
                Operation::DontNeed(self.file)
            }
            IntervalStep::Begin => {
                self.step = IntervalStep::Open;
                Operation::Tell(Notice::Phase(PHASE))
            }
            IntervalStep::Open => {
                self.step = IntervalStep::Read;
                Operation::Open { file: self.file, advice: Advice::Normal }
            }
            IntervalStep::Read => {
                self.step = IntervalStep::End;
                Operation::Read { offset: 0, bs: self.bs, count: self.calls }
            }
            IntervalStep::End => {
                self.step = IntervalStep::Wait;
                Operation::Tell(Notice::PhaseEnd)
            }
        }
    }
}
