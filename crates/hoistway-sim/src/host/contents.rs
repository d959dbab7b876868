//! For worlds in which pages have contents: the model itself knows only which pages there are.

use super::submit::Kind;
use super::{FileId, Host, PAGE};
use hoistway::IoId;

/// What happened to pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The page is no longer cached.
    Dropped {
        /// Its file.
        file: FileId,
        /// Its number in the file.
        page: u64,
    },
    /// A process has written pages.
    Dirtied {
        /// The process, by its number at the host.
        p: usize,
        /// The file.
        file: FileId,
        /// The first page.
        from: u64,
        /// The page behind the last.
        to: u64,
    },
}

/// What a bio moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bio {
    /// Pages of a file's cache.
    Cached {
        /// The file.
        file: FileId,
        /// The first page.
        first: u64,
        /// How many.
        pages: u64,
    },
    /// Data of a process's own, past the cache: by its number at the host.
    Own(usize),
}

impl Host {
    /// From now on [`Host::changes`] tells what happens to pages.
    pub fn watch_pages(&mut self) {
        self.dirtied.get_or_insert_default();
        self.memory.dropped.get_or_insert_default();
    }

    /// What has happened to pages since the last call: what was dropped, then what was written, each in
    /// order. In one step of a process no page is written and dropped behind it.
    pub fn changes(&mut self, mut each: impl FnMut(Change)) {
        for (file, first, mut mask) in self.memory.dropped.iter_mut().flat_map(|d| d.drain(..)) {
            while mask != 0 {
                let page = first + u64::from(mask.trailing_zeros());
                each(Change::Dropped { file: FileId(file), page });
                mask &= mask - 1;
            }
        }
        for (p, file, from, to) in self.dirtied.iter_mut().flat_map(|d| d.drain(..)) {
            each(Change::Dirtied { p, file, from, to });
        }
    }

    /// What an I/O that is in flight moves.
    pub fn bio(&self, io: IoId) -> Bio {
        let flight = self.flight(io);
        match flight.kind {
            Kind::Own => Bio::Own(flight.proc as usize),
            Kind::Read | Kind::Write => Bio::Cached {
                file: FileId(flight.file),
                first: flight.first,
                pages: u64::from(flight.pages),
            },
        }
    }

    /// The file that process `p` has open.
    pub fn opened(&self, p: usize) -> Option<FileId> {
        self.procs[p].open.map(|open| FileId(open.file))
    }

    /// The device as a file, if somebody reads it as one.
    pub fn whole_device(&self) -> Option<FileId> {
        self.device
    }

    /// Places on the device that files occupy, and the journal: first byte and length. The device as a
    /// file is all of it.
    pub fn places(&self) -> Vec<(u64, u64)> {
        let files = self.files.iter().map(|f| (f.start, f.bytes.next_multiple_of(PAGE)));
        files.chain([(self.layout.journal, super::layout::JOURNAL)]).collect()
    }
}
