//! W1, the greedy reader: a closed loop over its own file, without think time.

use super::params::ParamDoc;
use super::{BS, Blocks, Build, DIRECT, Load, LoadEntry, PATTERN, RATE, SIZE, Turn};
use crate::host::{Advice, FileId, Operation};
use crate::world::JobError;
use hoistway::Instant;

pub(super) const ENTRY: LoadEntry = LoadEntry {
    name: "reader",
    summary: "reads its file over and over, each call after the last one, cached pages dropped before \
              each pass (W1)",
    params: &[
        PATTERN,
        BS,
        DIRECT,
        ParamDoc {
            name: "depth",
            default: "1",
            doc: "Calls in flight at a time. Only 1 is modelled so far.",
        },
        SIZE,
        RATE,
    ],
    build: |build| Ok(Box::new(Reader::new(build)?)),
};

#[derive(Debug)]
struct Reader {
    file: FileId,
    direct: bool,
    blocks: Blocks,
    /// The file has been dropped from the cache and is to be opened for the next pass.
    opens: bool,
}

impl Reader {
    fn new(build: &mut Build<'_>) -> Result<Reader, JobError> {
        let depth = build.params.number("depth")?.unwrap_or(1);
        if depth != 1 {
            let message =
                format!("depth = {depth}: asynchronous readers are not modelled; choose 1");
            return Err(build.params.wrong(message));
        }
        let direct = build.params.flag("direct")?.unwrap_or(false);
        let bs = build.block_size(if direct { build.host.sector() } else { 512 })?;
        let size = build.size(bs)?;
        // The file first: a permutation is made only of blocks that exist.
        let file = build.host.add_file(size)?;
        let blocks = Blocks::new(build, bs, size)?;
        Ok(Reader { file, direct, blocks, opens: false })
    }
}

impl Load for Reader {
    fn next(&mut self, now: Instant) -> Operation {
        if self.opens {
            self.opens = false;
            let advice = if self.blocks.random() { Advice::Random } else { Advice::Sequential };
            return Operation::Open { file: self.file, advice };
        }
        let bs = self.blocks.bs;
        match self.blocks.turn(now, if self.direct { 1 } else { u64::MAX }) {
            Turn::Pass => {
                self.opens = true;
                Operation::DontNeed(self.file)
            }
            Turn::Wait(until) => Operation::Sleep(until),
            Turn::Calls { offset, .. } if self.direct => {
                Operation::Direct { write: false, offset, len: bs, since: None, sync: false }
            }
            Turn::Calls { offset, calls } => Operation::Read { offset, bs, count: calls },
        }
    }
}
