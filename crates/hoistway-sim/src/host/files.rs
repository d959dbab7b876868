//! Files that come and go, and the blocks they get (specs/host.md 3 and 7).
//!
//! A file has its place reserved when it is declared, and a block's place in it follows from its page:
//! files that grow at the same time do not interleave. Which blocks are allocated is a bit per page.

use super::flusher::Listed;
use super::journal::Change;
use super::{FileId, Host, PAGE};
use crate::world::JobError;
use hoistway::Instant;

impl Host {
    /// Reserves the place of a file that does not exist yet: [`super::Operation::Create`] makes it. Places
    /// lie in the order of these calls and of [`Host::add_file`], and a file that is unlinked and made
    /// again gets its place back.
    pub fn declare_file(&mut self, bytes: u64) -> Result<FileId, JobError> {
        let id = self.add_file(bytes)?;
        let f = &mut self.files[id.0 as usize];
        f.size = 0;
        f.sparse = true;
        f.cache.unmap();
        Ok(id)
    }

    /// The file loses its pages, dirty ones too, and its blocks: it is unlinked, truncated to nothing, or
    /// created empty.
    pub(super) fn empty(&mut self, now: Instant, file: u32) {
        let f = &mut self.files[file as usize];
        let dirty = f.cache.dirty;
        f.cache.discard_dirty();
        let pages = f.cache.pages();
        self.memory.drop_clean(&mut f.cache, 0, pages);
        f.cache.unmap();
        f.size = 0;
        f.sparse = true;
        f.stamped = None;
        self.dirty -= dirty;
        self.flushers[f.flusher as usize].held -= dirty;
        if f.listed != Listed::Turn {
            self.unlist(file);
        }
        self.join(now, file, Change::Name);
    }

    /// Pages [a, b) of a file get their blocks, where they have none; the transaction that knows of them.
    pub(super) fn allocate(&mut self, now: Instant, file: u32, a: u64, b: u64) -> Option<u64> {
        let f = &mut self.files[file as usize];
        if !f.sparse {
            return None;
        }
        let fresh = f.cache.map(a, b);
        f.sparse = !f.cache.whole();
        (fresh > 0).then(|| self.join(now, file, Change::Mapping(fresh * PAGE)))
    }

    /// A write up to byte `end` may make the file longer.
    pub(super) fn extend(&mut self, now: Instant, file: u32, end: u64) {
        let f = &mut self.files[file as usize];
        if end > f.size {
            f.size = end;
            self.join(now, file, Change::Size);
        }
    }
}
