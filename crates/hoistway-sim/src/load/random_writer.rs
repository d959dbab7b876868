//! W6, the second process of the fsync tester's later edition: buffered writes of 4 KiB at uniformly random places of a
//! file, without pause and without sync.
//!
//! Unlike a random `writer`, which visits every block once a pass and drops the file's pages between two passes, it
//! hits a block again before others have been hit at all, and drops nothing. The page cache slows it down when it has
//! made too much dirty (specs/host.md 8).

use super::params::ParamDoc;
use super::{BS, Build, Load, LoadEntry};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use crate::rng::Rng;
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "random_writer",
    summary: "buffered writes at uniformly random places of its file, without pause or sync (W6)",
    writes: true,
    params: &[
        BS,
        ParamDoc { name: "size", default: "256 MiB", doc: "Bytes of its file, which exists." },
    ],
    build: |build| Ok(Box::new(RandomWriter::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct RandomWriter {
    file: FileId,
    bs: u64,
    blocks: u64,
    rng: Rng,
    opened: bool,
}

impl RandomWriter {
    fn new(build: &mut Build<'_>) -> Result<RandomWriter, JobError> {
        let bs = build.block_size(PAGE)?;
        let size = build.params.bytes("size")?.unwrap_or(256 << 20);
        if size < bs {
            let message = format!("size = {size}: choose at least one block of {bs}");
            return Err(build.params.wrong(message));
        }
        let (blocks, rng) = (size / bs, build.rng());
        let file = build.host.add_file(blocks * bs)?;
        Ok(RandomWriter { file, bs, blocks, rng, opened: false })
    }
}

impl Load for RandomWriter {
    fn next(&mut self, _now: Instant) -> Operation {
        if !core::mem::replace(&mut self.opened, true) {
            return Operation::Open { file: self.file, advice: Advice::Normal };
        }
        let offset = self.rng.below(self.blocks) * self.bs;
        Operation::Write { offset, bs: self.bs, count: 1, sync: SyncKind::No }
    }
}
