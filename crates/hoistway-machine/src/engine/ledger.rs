//! What every page of the device must hold.

use super::pattern::{MIXED, NONE, Stamp, UNKNOWN};
use std::collections::BTreeMap;

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// Pages of a chunk.
const CHUNK: u64 = 1024;

/// A page on the device: the write it holds, and the one that is on its way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub now: Stamp,
    pub coming: Stamp,
}

/// All pages of a device, by their numbers on it.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Of a page nobody has written.
    blank: Held,
    chunks: BTreeMap<u64, Vec<Held>>,
    /// Stamp of the next write.
    next: Stamp,
}

impl Ledger {
    /// `blank`: what pages hold before anything is written.
    pub fn new(blank: Stamp) -> Ledger {
        let blank = Held { now: blank, coming: NONE };
        Ledger { blank, chunks: BTreeMap::new(), next: super::pattern::FIRST }
    }

    /// Where stamps go on; they are given out by the threads of a run.
    pub fn next_stamp(&self) -> Stamp {
        self.next
    }

    /// A run has used the stamps below.
    pub fn used_stamps(&mut self, next: Stamp) {
        self.next = self.next.max(next);
    }

    pub fn of(&self, page: u64) -> Held {
        let chunk = self.chunks.get(&(page / CHUNK));
        chunk.map_or(self.blank, |chunk| chunk[(page % CHUNK) as usize])
    }

    /// A write goes to the device. What an earlier one left undecided stays so.
    pub fn sends(&mut self, page: u64, stamp: Stamp) {
        let held = self.at(page);
        if held.coming != NONE && held.now != UNKNOWN {
            held.now = MIXED;
        }
        held.coming = stamp;
    }

    /// It has been served; `whole`: all of the page was written.
    pub fn wrote(&mut self, page: u64, stamp: Stamp, whole: bool) {
        let held = self.at(page);
        if whole {
            held.now = stamp;
        } else if held.now != UNKNOWN {
            held.now = MIXED;
        }
        if held.coming == stamp {
            held.coming = NONE;
        }
    }

    /// The page was written beside the runs.
    pub fn holds(&mut self, page: u64, stamp: Stamp) {
        *self.at(page) = Held { now: stamp, coming: NONE };
    }

    fn at(&mut self, page: u64) -> &mut Held {
        let blank = self.blank;
        let chunk = self.chunks.entry(page / CHUNK).or_insert_with(|| vec![blank; CHUNK as usize]);
        &mut chunk[(page % CHUNK) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::ZERO;
    use super::*;

    #[test]
    fn a_page_holds_what_was_served_and_may_hold_what_is_on_its_way() {
        let mut ledger = Ledger::new(ZERO);
        ledger.sends(5000, 20);
        assert_eq!(ledger.of(5000), Held { now: ZERO, coming: 20 });
        ledger.wrote(5000, 20, true);
        assert_eq!(ledger.of(5000), Held { now: 20, coming: NONE });
        assert_eq!(ledger.of(5001), Held { now: ZERO, coming: NONE });
        // One that was never served, and another behind it.
        ledger.sends(5000, 21);
        ledger.sends(5000, 22);
        assert_eq!(ledger.of(5000), Held { now: MIXED, coming: 22 });
        ledger.wrote(5000, 22, true);
        assert_eq!(ledger.of(5000), Held { now: 22, coming: NONE });
        ledger.sends(5000, 23);
        ledger.wrote(5000, 23, false);
        assert_eq!(ledger.of(5000), Held { now: MIXED, coming: NONE });
        // What was unknown stays so until it is written as a whole.
        let mut ledger = Ledger::new(UNKNOWN);
        ledger.sends(1, 20);
        ledger.wrote(1, 20, false);
        assert_eq!(ledger.of(1).now, UNKNOWN);
        ledger.wrote(1, 21, true);
        assert_eq!(ledger.of(1).now, 21);
    }
}
