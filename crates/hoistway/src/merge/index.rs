//! The elevator's merge index: the one-hit cache and the back-merge hash
//! (specs/blk-mq-and-noop.md 3.3 and 3.6).
//!
//! Neighbours in time are neighbours on disk, so one look at the request of the latest merge finds most partners; the hash
//! finds the rest of those in front. Both cost O(1) per I/O, whatever waits.

use crate::rows::{Rows, ids};
use crate::table::NIL;
use crate::unit::Sectors;
use alloc::vec;
use alloc::vec::Vec;

ids! {
    /// A request, by its slot in the request table.
    Slot;
}

#[derive(Clone, Copy, Debug)]
struct IndexLink {
    prev: u32,
    next: u32,
    end: u64,
    hashed: bool,
}

/// Requests by the sector behind their end, newest first, and the request of the latest merge.
#[derive(Debug)]
pub struct Elevator {
    buckets: Vec<u32>,
    links: Rows<Slot, IndexLink>,
    one_hit: u32,
}

impl Elevator {
    /// An empty one for request slots below `requests`.
    pub fn new(requests: usize) -> Elevator {
        let buckets = (2 * requests).next_power_of_two();
        Elevator {
            buckets: vec![NIL; buckets],
            links: Rows::from(vec![
                IndexLink { prev: NIL, next: NIL, end: 0, hashed: false };
                requests
            ]),
            one_hit: NIL,
        }
    }

    fn bucket(&self, end: u64) -> usize {
        let mixed = end.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        mixed as usize & (self.buckets.len() - 1)
    }

    /// The one-hit cache, `NIL` when empty.
    pub fn one_hit(&self) -> u32 {
        self.one_hit
    }

    /// The request of the latest merge.
    pub fn set_one_hit(&mut self, slot: u32) {
        self.one_hit = slot;
    }

    /// Insertion into the scheduler: becomes the one-hit cache only if that is empty.
    pub fn add(&mut self, slot: u32, end: Sectors) {
        self.link(slot, end.0);
        if self.one_hit == NIL {
            self.one_hit = slot;
        }
    }

    /// Dispatch, or absorbed by another.
    pub fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        if self.one_hit == slot {
            self.one_hit = NIL;
        }
    }

    /// The end has moved.
    pub fn rehash(&mut self, slot: u32, end: Sectors) {
        if self.links[Slot(slot)].hashed {
            self.unlink(slot);
            self.link(slot, end.0);
        }
    }

    /// It will never merge again: leaves the hash and the cache.
    pub fn forget(&mut self, slot: u32) {
        self.remove(slot);
    }

    /// The newest request that ends at `start`, `NIL` if none.
    pub fn find(&self, start: Sectors) -> u32 {
        let mut at = self.buckets[self.bucket(start.0)];
        while at != NIL && self.links[Slot(at)].end != start.0 {
            at = self.links[Slot(at)].next;
        }
        at
    }

    fn link(&mut self, slot: u32, end: u64) {
        let bucket = self.bucket(end);
        let head = self.buckets[bucket];
        self.links[Slot(slot)] = IndexLink { prev: NIL, next: head, end, hashed: true };
        if head != NIL {
            self.links[Slot(head)].prev = slot;
        }
        self.buckets[bucket] = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let IndexLink { prev, next, end, hashed } = self.links[Slot(slot)];
        if !hashed {
            return;
        }
        if prev == NIL {
            let bucket = self.bucket(end);
            self.buckets[bucket] = next;
        } else {
            self.links[Slot(prev)].next = next;
        }
        if next != NIL {
            self.links[Slot(next)].prev = prev;
        }
        self.links[Slot(slot)].hashed = false;
    }
}
