//! Whoever unpacks an archive or fills a cache (specs/experiments.md 7.4): writes a new file in sequence at a steady
//! rate, nothing synced, and exits.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use hoistway::{Instant, Nanos};
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "unpacker",
    summary: "writes a new file once at a steady rate, buffered, and exits (7.4)",
    writes: true,
    params: &[
        ParamDoc { name: "size", default: "8 MiB", doc: "Bytes it writes in all." },
        ParamDoc { name: "rate", default: "2 MiB", doc: "Bytes per second; 0: as fast as it can." },
        ParamDoc { name: "bs", default: "64 KiB", doc: "Bytes of a call, a multiple of 4 KiB." },
    ],
    work: &["size"],
    build: |build| Ok(Box::new(Unpacker::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Clone, Copy, Debug)]
enum UnpackStep {
    Create,
    Open,
    Write,
}

#[derive(Debug)]
struct Unpacker {
    file: FileId,
    bs: u64,
    calls: u64,
    done: u64,
    gap: Nanos,
    begin: Instant,
    step: UnpackStep,
}

impl Unpacker {
    fn new(build: &mut Build<'_>) -> Result<Unpacker, JobError> {
        let bs = build.params.bytes("bs")?.unwrap_or(64 << 10);
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 1 << 30 {
            return Err(build
                .params
                .wrong(format!("bs = {bs}: choose a multiple of {PAGE} up to 1 GiB")));
        }
        let calls = build.params.bytes("size")?.unwrap_or(8 << 20) / bs;
        if calls == 0 {
            return Err(build.params.wrong(format!("size: choose at least one call of {bs}")));
        }
        let gap = match build.params.bytes("rate")?.unwrap_or(2 << 20) {
            0 => Nanos::ZERO,
            rate => Nanos((u128::from(bs) * 1_000_000_000 / u128::from(rate)) as u64),
        };
        let file = build.host.declare_file(calls * bs)?;
        let (begin, step) = (build.start, UnpackStep::Create);
        Ok(Unpacker { file, bs, calls, done: 0, gap, begin, step })
    }
}

impl Load for Unpacker {
    fn next(&mut self, now: Instant) -> Operation {
        match self.step {
            UnpackStep::Create => {
                self.step = UnpackStep::Open;
                Operation::Create(self.file)
            }
            UnpackStep::Open => {
                self.step = UnpackStep::Write;
                Operation::Open { file: self.file, advice: Advice::Normal }
            }
            UnpackStep::Write if self.done == self.calls => Operation::Exit,
            UnpackStep::Write => {
                let due = self.begin + self.gap * self.done;
                if now < due {
                    return Operation::Sleep(due);
                }
                let count = if self.gap == Nanos::ZERO { self.calls } else { 1 };
                let offset = self.done * self.bs;
                self.done += count;
                Operation::Write { offset, bs: self.bs, count, sync: SyncKind::No }
            }
        }
    }
}
