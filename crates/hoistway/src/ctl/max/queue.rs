//! Where held I/O waits: one FIFO per source, the sources of a node and direction in a ring
//! (specs/io-max-throttling.md A.2). A group has two sources per direction: its own I/O, queued at itself,
//! and what it has passed up, queued at its parent. All lists are links between slot numbers.

use super::slice::Size;
use crate::list::{Links, List};
use crate::request::{BioId, Dir};
use crate::table::{Handle, NIL};
use alloc::vec::Vec;

/// A held bio.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldBio {
    pub bio: BioId,
    pub size: Size,
}

/// A source of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Its own I/O, at itself.
    Own,
    /// I/O that it has passed, at its parent.
    Up,
}

/// All sources.
#[derive(Debug)]
pub(super) struct SourceQueues {
    /// By slot of the bio.
    held: Vec<HeldBio>,
    bios: Links,
    /// By source.
    lists: Vec<List>,
    rings: Links,
}

impl SourceQueues {
    /// No group, no bio.
    pub fn new() -> SourceQueues {
        SourceQueues {
            held: Vec::new(),
            bios: Links::new(0),
            lists: Vec::new(),
            rings: Links::new(0),
        }
    }

    /// Makes room for the sources of so many groups.
    pub fn grow(&mut self, groups: usize) {
        self.lists.resize(groups * 4, List::new());
        self.rings.grow(groups * 4);
    }

    /// The number of a source.
    pub fn source(group: u32, dir: Dir, which: Source) -> u32 {
        group * 4 + dir as u32 * 2 + u32::from(which == Source::Up)
    }

    /// Appends a bio to a source, and the source to the ring if it had none.
    pub fn push(&mut self, ring: &mut List, source: u32, bio: HeldBio) {
        let slot = bio.bio.0.slot;
        if self.held.len() <= slot as usize {
            let nothing = BioId(Handle { slot: NIL, generation: 0 });
            let empty = HeldBio { bio: nothing, size: Size { bytes: 0, charged: false } };
            // The table of bios grows by doubling, and so does this.
            let room = (slot as usize + 1).next_power_of_two();
            self.held.resize(room, empty);
            self.bios.grow(room);
        }
        self.held[slot as usize] = bio;
        let list = &mut self.lists[source as usize];
        if list.is_empty() {
            ring.push_back(&mut self.rings, source);
        }
        list.push_back(&mut self.bios, slot);
    }

    /// The bio that is next in the ring.
    pub fn head(&self, ring: &List) -> Option<HeldBio> {
        let source = ring.head();
        if source == NIL {
            return None;
        }
        Some(self.held[self.lists[source as usize].head() as usize])
    }

    /// Takes it; its source goes to the end of the ring.
    pub fn pop(&mut self, ring: &mut List) -> Option<HeldBio> {
        let source = ring.pop_front(&mut self.rings)?;
        let list = &mut self.lists[source as usize];
        let slot = list.pop_front(&mut self.bios).expect("a source in a ring has a bio");
        if !list.is_empty() {
            ring.push_back(&mut self.rings, source);
        }
        Some(self.held[slot as usize])
    }
}
