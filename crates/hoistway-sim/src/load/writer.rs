//! W2, the greedy writer: overwrites the blocks of its own file, or fills a new one, with an fdatasync
//! after every so many writes or none at all.
//!
//! The latency of a write that is followed by an fdatasync includes it: it is the time until the data
//! is safe.

use super::params::ParamDoc;
use super::{BS, Blocks, Build, Calls, DEPTH, DIRECT, Load, LoadEntry, PATTERN, RATE, SIZE, Turn};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use hoistway::Instant;
use hoistway_run::JobError;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "writer",
    summary: "writes its file over and over, fdatasync after every `dsync` writes (W2)",
    writes: true,
    params: &[
        PATTERN,
        BS,
        DIRECT,
        DEPTH,
        ParamDoc {
            name: "dsync",
            default: "1",
            doc: "fdatasync after every so many writes; 0: never.",
        },
        ParamDoc { name: "fsync", default: "false", doc: "fsync in place of fdatasync." },
        ParamDoc {
            name: "new_file",
            default: "false",
            doc: "The file is created when the writer starts, so that the first pass allocates blocks; \
                  otherwise it exists and is overwritten in place.",
        },
        SIZE,
        RATE,
    ],
    build: |build| Ok(Box::new(Writer::new(build)?)),
    ..LoadEntry::USUAL
};

#[derive(Debug)]
struct Writer {
    file: FileId,
    /// Past the page cache.
    direct: Option<Calls>,
    /// Its queue is to be followed by an fdatasync.
    behind: bool,
    dsync: u64,
    sync: SyncKind,
    /// The file is to be created first.
    creates: bool,
    /// Writes since the last fdatasync.
    unsynced: u64,
    blocks: Blocks,
    opens: bool,
}

impl Writer {
    fn new(build: &mut Build<'_>) -> Result<Writer, JobError> {
        let direct = build.params.flag("direct")?.unwrap_or(false);
        let depth = build.depth(direct)?;
        let bs = build.block_size(if direct { build.host.sector() } else { PAGE })?;
        let size = build.size(bs)?;
        let dsync = build.params.number("dsync")?.unwrap_or(1);
        // The file first: a permutation is made only of blocks that exist.
        let creates = build.params.flag("new_file")?.unwrap_or(false);
        let file =
            if creates { build.host.declare_file(size)? } else { build.host.add_file(size)? };
        let full = build.params.flag("fsync")?.unwrap_or(false);
        if direct && full {
            return Err(build.params.wrong("direct writes are followed by fdatasync only".into()));
        }
        let sync = if full { SyncKind::Full } else { SyncKind::Data };
        let blocks = Blocks::new(build, bs, size)?;
        let direct = direct.then(|| Calls::new(true, depth));
        let behind = false;
        Ok(Writer { file, direct, behind, dsync, sync, creates, unsynced: 0, blocks, opens: false })
    }
}

impl Load for Writer {
    fn next(&mut self, now: Instant) -> Operation {
        if self.creates {
            self.creates = false;
            return Operation::Create(self.file);
        }
        if self.opens {
            self.opens = false;
            return Operation::Open { file: self.file, advice: Advice::Normal };
        }
        if let Some(calls) = &mut self.direct
            && (self.behind || self.blocks.pauses(now))
            && let Some(operation) = calls.settle()
        {
            return operation;
        }
        if std::mem::take(&mut self.behind) {
            return Operation::Fdatasync(self.file);
        }
        let bs = self.blocks.bs;
        let most = match (self.direct.is_some(), self.dsync) {
            (true, _) => 1,
            (false, 0) => u64::MAX,
            (false, dsync) => dsync - self.unsynced,
        };
        match self.blocks.turn(now, most) {
            Turn::Pass => {
                self.opens = true;
                Operation::DontNeed(self.file)
            }
            Turn::Wait(until) => Operation::Sleep(until),
            Turn::Calls { offset, calls } => {
                self.unsynced += calls;
                let sync = self.dsync > 0 && self.unsynced >= self.dsync;
                if sync {
                    self.unsynced = 0;
                }
                if let Some(direct) = &mut self.direct {
                    // What an asynchronous write is followed by is a call of its own.
                    self.behind = sync && direct.depth > 1;
                    return direct.call(offset, bs, sync);
                }
                let sync = if sync { self.sync } else { SyncKind::No };
                Operation::Write { offset, bs, count: calls, sync }
            }
        }
    }
}
