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

    /// Takes an extent out.
    pub fn remove(&mut self, slot: u32) -> Extent {
        self.tree.remove(&mut self.nodes, slot);
        self.spare.push(slot);
        self.slots[slot as usize]
    }

    /// An extent begins behind its start from now on, at `start`, which lies at `from`.
    pub fn cut(&mut self, slot: u32, start: u64, from: MediaPos) {
        self.nodes.rekey(slot, start);
        let extent = &mut self.slots[slot as usize];
        (extent.start, extent.from) = (start, from);
    }

    /// An extent.
    pub fn get(&self, slot: u32) -> &Extent {
        &self.slots[slot as usize]
    }

    /// The same, of which anything but the start may be changed.
    pub fn get_mut(&mut self, slot: u32) -> &mut Extent {
        &mut self.slots[slot as usize]
    }

    /// True when an extent starts at `start`.
    pub fn starts_at(&self, start: u64) -> bool {
        self.at_or_below(start).is_some_and(|slot| self.get(slot).start == start)
    }

    /// The extent with the highest start that is not above `at`.
    pub fn at_or_below(&self, at: u64) -> Option<u32> {
        let slot = self.tree.floor(&self.nodes, at);
        (slot != NIL).then_some(slot)
    }

    /// The extents that start at `at` or above, upwards, and those below, downwards; at most `most` of each.
    pub fn around(&self, at: u64, most: usize) -> impl Iterator<Item = u32> {
        let above = self.tree.lower_bound(&self.nodes, at);
        let below = match above {
            NIL => self.tree.last(&self.nodes),
            above => self.nodes.prev(above),
        };
        self.walk(above, most, Nodes::next).chain(self.walk(below, most, Nodes::prev))
    }

    /// The first extents, upwards.
    pub fn first(&self, most: usize) -> impl Iterator<Item = u32> {
        self.walk(self.tree.first(), most, Nodes::next)
    }

    fn walk(
        &self,
        from: u32,
        most: usize,
        step: impl Fn(&Nodes<u64>, u32) -> u32,
    ) -> impl Iterator<Item = u32> {
        let mut slot = from;
        let all = core::iter::from_fn(move || {
            let here = slot;
            (here != NIL).then(|| {
                slot = step(&self.nodes, here);
                here
            })
        });
        all.take(most)
    }
}
