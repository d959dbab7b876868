//! What the deadline family shares: requests of one kind in sector order and in order of arrival.
//!
//! A [`Lane`] is a sector-sorted tree, a FIFO of the same requests with a soft deadline each, and
//! the request to continue a sweep with. All lanes of a scheduler keep their links in one [`Pool`],
//! indexed by request slot.

use crate::group::ProcId;
use crate::list::{Link, Linked, Links, List};
use crate::request::ReqId;
use crate::table::{Handle, NIL};
use crate::tree::{Nodes, Tree};
use crate::unit::Sectors;
use alloc::vec;
use alloc::vec::Vec;

/// Where a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// Not in this scheduler: not yet, or with the driver.
    Nowhere,
    /// In tree and FIFO of its lane.
    Lane,
    /// On a list that is served before the lanes.
    Aside,
}

/// What a scheduler of this family knows of the request in one slot. Aligned so that it lies in one
/// cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    /// Neighbours in the FIFO, or on a list of the scheduler's own.
    link: Link,
    /// Soft deadline in ticks.
    pub deadline: i64,
    /// With the slot number its id: dispatching does not touch the request table.
    generation: u32,
    /// Its length, for the same reason (deadline).
    pub sectors: u32,
    /// Index of its lane in the scheduler's own numbering.
    pub lane: u8,
    /// Where it is.
    pub place: Place,
    /// Counted as inserted and not yet as finished (mq-deadline).
    pub counted: bool,
    /// It is a read (deadline-zoccolo, whose lanes are not of one direction).
    pub read: bool,
}

impl Linked for Slot {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Slot {
    /// True for the request the slot was last taken for.
    pub fn is(&self, id: ReqId) -> bool {
        self.generation == id.0.generation
    }
}

/// Links and facts of all slots.
#[derive(Debug)]
pub(super) struct Pool {
    nodes: Nodes<u64>,
    pub links: Links<Slot>,
    /// The slot last sorted in for the processes of equal low bits. The requests of a process tend
    /// to lie close together: a guess where the next one goes, which decides nothing.
    newest: Vec<u32>,
}

impl Pool {
    pub fn new(requests: usize) -> Pool {
        let vacant = Slot {
            link: Link::OFF,
            deadline: 0,
            generation: 0,
            sectors: 0,
            lane: 0,
            place: Place::Nowhere,
            counted: false,
            read: false,
        };
        Pool {
            nodes: Nodes::new(requests),
            links: Links::of(requests, vacant),
            newest: vec![NIL; requests.next_power_of_two()],
        }
    }

    pub fn slot(&self, slot: u32) -> &Slot {
        self.links.item(slot)
    }

    pub fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        self.links.item_mut(slot)
    }

    /// Where this very request is: a slot may still tell of an earlier tenant.
    pub fn place(&self, id: ReqId) -> Place {
        let s = self.slot(id.slot());
        if s.is(id) { s.place } else { Place::Nowhere }
    }

    /// The entry of a slot that is this request's from now on.
    pub fn take(&mut self, id: ReqId) -> &mut Slot {
        let entry = self.slot_mut(id.slot());
        entry.generation = id.0.generation;
        entry
    }

    /// The request in `slot`.
    pub fn id(&self, slot: u32) -> ReqId {
        ReqId(Handle { slot, generation: self.slot(slot).generation })
    }

    /// The slot after `slot` in sector order, `NIL` after the last.
    pub fn after(&self, slot: u32) -> u32 {
        self.nodes.next(slot)
    }

    /// Another request that starts at the same sector and came before `slot`.
    pub fn alias(&self, slot: u32) -> Option<u32> {
        let before = self.nodes.prev(slot);
        (before != NIL && self.nodes.key(before) == self.nodes.key(slot)).then_some(before)
    }

    /// Where the request in `slot` ends, if its length is kept up to date.
    pub fn end(&self, slot: u32) -> Sectors {
        Sectors(self.nodes.key(slot) + u64::from(self.slot(slot).sectors))
    }

    /// The slot before `slot` in sector order, `NIL` before the first.
    pub fn before(&self, slot: u32) -> u32 {
        self.nodes.prev(slot)
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    sorted: Tree,
    pub fifo: List,
    /// The request to continue with in ascending order, or `NIL`.
    pub next: u32,
}

impl Lane {
    pub const fn new() -> Lane {
        Lane { sorted: Tree::new(), fifo: List::new(), next: NIL }
    }

    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Puts `slot` into the sector order only, behind those that start at the same sector.
    #[inline]
    pub fn sort(&mut self, pool: &mut Pool, slot: u32, start: Sectors, proc: ProcId) {
        let mask = pool.newest.len() - 1;
        let near = core::mem::replace(&mut pool.newest[proc.0 as usize & mask], slot);
        let lane = pool.slot(slot).lane;
        // Nobody, if there is no guess, is in no lane.
        let s = pool.slot(near);
        if (near != slot) & (s.place == Place::Lane) & (s.lane == lane) {
            self.sorted.insert_near(&mut pool.nodes, near, slot, start.0, ());
        } else {
            self.sorted.insert(&mut pool.nodes, slot, start.0, ());
        }
    }

    /// Takes `slot` out of the sector order only; `next` may still name it.
    pub fn unsort(&mut self, pool: &mut Pool, slot: u32) {
        self.sorted.remove(&mut pool.nodes, slot);
    }

    /// Appends `slot` to the FIFO.
    #[inline]
    pub fn queue(&mut self, pool: &mut Pool, slot: u32) {
        self.fifo.push_back(&mut pool.links, slot);
    }

    /// Takes `slot` out of both orders; does not look at `next`. The answer is what followed it in
    /// sector order.
    #[inline]
    pub fn unlink(&mut self, pool: &mut Pool, slot: u32) -> u32 {
        let (_, after) = self.sorted.remove(&mut pool.nodes, slot);
        self.fifo.remove(&mut pool.links, slot);
        pool.slot_mut(slot).place = Place::Nowhere;
        after
    }

    /// The same for a request that was merged away: a sweep about to go on with it goes on behind
    /// it.
    pub fn forget(&mut self, pool: &mut Pool, slot: u32) {
        let after = self.unlink(pool, slot);
        if self.next == slot {
            self.next = after;
        }
    }

    /// The request at the lowest sector, `NIL` when empty.
    pub fn lowest(&self) -> u32 {
        self.sorted.first()
    }

    /// The first request that starts at `start`, `NIL` if there is none.
    pub fn starting_at(&self, pool: &Pool, start: Sectors) -> u32 {
        let slot = self.sorted.lower_bound(&pool.nodes, start.0);
        if slot != NIL && pool.nodes.key(slot) == start.0 { slot } else { NIL }
    }

    /// Moves the deadlines of all that wait by so many ticks: their expiry has changed by that.
    pub fn postpone(&self, pool: &mut Pool, ticks: i64) {
        let mut at = self.fifo.head();
        while at != NIL {
            pool.slot_mut(at).deadline += ticks;
            at = pool.links.next(at);
        }
    }

    /// Before `gone` is forgotten: `kept` inherits its FIFO place and deadline if that is the
    /// earlier one (specs/deadline.md A5).
    pub fn hand_over(&mut self, pool: &mut Pool, kept: u32, gone: u32) {
        let deadline = pool.slot(gone).deadline;
        if deadline < pool.slot(kept).deadline {
            self.fifo.remove(&mut pool.links, kept);
            self.fifo.insert_before(&mut pool.links, gone, kept);
            pool.slot_mut(kept).deadline = deadline;
        }
    }
}
