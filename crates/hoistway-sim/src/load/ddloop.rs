//! W5, the dd loop: fill a big new file through the cache, sync, delete it, and again.

use super::params::ParamDoc;
use super::{Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "ddloop",
    summary: "creates a big file, writes it in one go, syncs everything, deletes it, over and over (W5)",
    writes: true,
    params: &[
        ParamDoc { name: "bs", default: "8 MiB", doc: "Bytes of a write." },
        ParamDoc { name: "size", default: "2 GiB", doc: "Size of the file." },
    ],
    build: |build| Ok(Box::new(DdLoop::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct DdLoop {
    file: FileId,
    bs: u64,
    calls: u64,
    step: DdStep,
}

#[derive(Clone, Copy, Debug)]
enum DdStep {
    Create,
    Open,
    Write,
    Sync,
    Unlink,
}

impl DdLoop {
    fn new(build: &mut Build<'_>) -> Result<DdLoop, JobError> {
        let bs = build.params.bytes("bs")?.unwrap_or(8 << 20);
        if bs == 0 || !bs.is_multiple_of(PAGE) || bs > 1 << 30 {
            return Err(build.params.wrong(format!("bs = {bs}: choose a multiple of {PAGE}")));
        }
        let size = build.params.bytes("size")?.unwrap_or(2 << 30);
        if size < bs {
            return Err(build.params.wrong(format!("size = {size}: choose at least {bs}")));
        }
        let calls = size / bs;
        let file = build.host.declare_file(calls * bs)?;
        Ok(DdLoop { file, bs, calls, step: DdStep::Create })
    }
}

impl Load for DdLoop {
    fn next(&mut self, _now: Instant) -> Operation {
        let (operation, step) = match self.step {
            DdStep::Create => (Operation::Create(self.file), DdStep::Open),
            DdStep::Open => {
                (Operation::Open { file: self.file, advice: Advice::Normal }, DdStep::Write)
            }
            DdStep::Write => {
                let sync = SyncKind::No;
                let (bs, count) = (self.bs, self.calls);
                (Operation::Write { offset: 0, bs, count, sync }, DdStep::Sync)
            }
            DdStep::Sync => (Operation::Sync, DdStep::Unlink),
            DdStep::Unlink => (Operation::Unlink(self.file), DdStep::Create),
        };
        self.step = step;
        operation
    }
}
