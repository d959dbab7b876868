//! The dirty extents of a write buffer, ordered by place. They do not overlap. Nothing is allocated once
//! the buffer has held as many extents as it ever will.

use super::geometry::MediaPos;
use hoistway::table::NIL;
use hoistway::tree::{Nodes, Tree};

/// A dirty range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub start: u64,
    pub end: u64,
    /// Arrival of its oldest byte.
    pub arrival: u64,
    pub number: u64,
    /// Place of its start.
    pub from: MediaPos,
}

/// All dirty extents, by start.
#[derive(Debug)]
pub(super) struct Extents {
    tree: Tree,
    nodes: Nodes<u64>,
    slots: Vec<Extent>,
    spare: Vec<u32>,
}

impl Extents {
    pub fn new() -> Extents {
        Extents { tree: Tree::new(), nodes: Nodes::new(0), slots: Vec::new(), spare: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    pub fn insert(&mut self, extent: Extent) {
        let slot = match self.spare.pop() {
            Some(slot) => {
                self.slots[slot as usize] = extent;
                slot
            }
            None => {
                self.slots.push(extent);
                self.nodes.grow(self.slots.capacity());
                self.slots.len() as u32 - 1
            }
        };
        self.tree.insert(&mut self.nodes, slot, extent.start, ());
    }

    /// Takes out the extent that starts at `start`.
    pub fn remove(&mut self, start: u64) -> Option<Extent> {
        let slot = self.tree.lower_bound(&self.nodes, start);
        if slot == NIL || self.slots[slot as usize].start != start {
            return None;
        }
        self.tree.remove(&mut self.nodes, slot);
        self.spare.push(slot);
        Some(self.slots[slot as usize])
    }

    /// True when an extent starts at `start`.
    pub fn starts_at(&self, start: u64) -> bool {
        self.up_from(start).next().is_some_and(|x| x.start == start)
    }

    /// The extent with the highest start that is not above `at`.
    pub fn at_or_below(&self, at: u64) -> Option<Extent> {
        self.down_from(at + 1).next()
    }

    /// The extents that start at `at` or above, upwards.
    pub fn up_from(&self, at: u64) -> impl Iterator<Item = Extent> {
        let mut slot = self.tree.lower_bound(&self.nodes, at);
        core::iter::from_fn(move || {
            let extent = (slot != NIL).then(|| self.slots[slot as usize])?;
            slot = self.nodes.next(slot);
            Some(extent)
        })
    }

    /// The extents that start below `at`, downwards.
    pub fn down_from(&self, at: u64) -> impl Iterator<Item = Extent> {
        let mut slot = match self.tree.lower_bound(&self.nodes, at) {
            NIL => self.tree.last(&self.nodes),
            above => self.nodes.prev(above),
        };
        core::iter::from_fn(move || {
            let extent = (slot != NIL).then(|| self.slots[slot as usize])?;
            slot = self.nodes.prev(slot);
            Some(extent)
        })
    }
}
