//! W2, the greedy writer: overwrites the blocks of its own, allocated file, with an fdatasync after
//! every so many writes.
//!
//! The latency of a write that is followed by an fdatasync includes it: it is the time until the data
//! is safe.

use super::params::ParamDoc;
use super::{BS, Blocks, Build, DIRECT, Load, LoadEntry, PATTERN, RATE, SIZE, Turn};
use crate::host::{Advice, FileId, Operation, PAGE, SyncKind};
use crate::world::JobError;
use hoistway::Instant;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "writer",
    summary: "overwrites its allocated file over and over, fdatasync after every `dsync` writes (W2)",
    params: &[
        PATTERN,
        BS,
        DIRECT,
        ParamDoc {
            name: "dsync",
            default: "1",
            doc: "fdatasync after every so many writes; 0: never (only while the host's write-back \
                  does not have to begin).",
        },
        SIZE,
        RATE,
    ],
    build: |build| Ok(Box::new(Writer::new(build)?)),
};

#[derive(Debug)]
struct Writer {
    file: FileId,
    direct: bool,
    dsync: u64,
    /// Writes since the last fdatasync.
    unsynced: u64,
    blocks: Blocks,
    opens: bool,
}

impl Writer {
    fn new(build: &mut Build<'_>) -> Result<Writer, JobError> {
        let direct = build.params.flag("direct")?.unwrap_or(false);
        let bs = build.block_size(if direct { build.host.sector() } else { PAGE })?;
        let size = build.size(bs)?;
        let dsync = build.params.number("dsync")?.unwrap_or(1);
        // The file first: a permutation is made only of blocks that exist.
        let file = build.host.add_file(size)?;
        let blocks = Blocks::new(build, bs, size)?;
        Ok(Writer { file, direct, dsync, unsynced: 0, blocks, opens: false })
    }
}

impl Load for Writer {
    fn next(&mut self, now: Instant) -> Operation {
        if self.opens {
            self.opens = false;
            return Operation::Open { file: self.file, advice: Advice::Normal };
        }
        let bs = self.blocks.bs;
        let most = match (self.direct, self.dsync) {
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
                if self.direct {
                    return Operation::Direct { write: true, offset, len: bs, since: None, sync };
                }
                let sync = if sync { SyncKind::Data } else { SyncKind::No };
                Operation::Write { offset, bs, count: calls, sync }
            }
        }
    }
}
