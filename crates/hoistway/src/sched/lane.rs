//! What the deadline family shares: requests of one kind in sector order and in order of arrival.
//!
//! A [`Lane`] is the requests in sector order, a FIFO of the same requests with a soft deadline each, and
//! the request to continue a sweep with. All lanes of a scheduler keep what they know in one [`Pool`],
//! indexed by request slot.
//!
//! *Sector order.* Sorted chunks of up to fifteen requests (`chunk.rs`); the chunks are in a tree by where
//! their range begins. A request is sorted in with one look if it belongs where its process was last sorted
//! in, and taken out without a look at any other chunk; the tree changes only when a chunk is split or
//! given back. A sweep empties one chunk after the other, and they fill again behind it: so the last few
//! that became empty are kept (`IDLE`), and in the steady state the tree does not change at all. Equal
//! starts keep the order of arrival.

use super::chunk::Chunks;
use crate::group::ProcId;
use crate::list::{Link, Linked, Links, List};
use crate::request::ReqId;
use crate::table::{Handle, NIL};
use crate::tree::{Nodes, Tree};
use crate::unit::Sectors;
use alloc::vec;
use alloc::vec::Vec;

/// Empty chunks that a lane keeps. More than a device of usual depth empties before the requests that
/// follow fill them again; few enough to be stepped over.
const IDLE: usize = 8;

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

/// What a scheduler of this family knows of the request in one slot: 32 bytes, aligned so that they lie in
/// one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct LaneSlot {
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
    /// Its chunk of the sector order and its place in that, if it is in one.
    home: Home,
}

/// A chunk and a place in it, in one word: a slot has room for no more.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Home(u32);

impl Home {
    #[inline]
    fn new(chunk: u32, place: usize) -> Home {
        Home(chunk << 4 | place as u32)
    }

    #[inline]
    fn chunk(self) -> u32 {
        self.0 >> 4
    }

    #[inline]
    fn place(self) -> usize {
        self.0 as usize % 16
    }
}

impl Linked for LaneSlot {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl LaneSlot {
    /// True for the request the slot was last taken for.
    pub fn is(&self, id: ReqId) -> bool {
        self.generation == id.0.generation
    }

    /// The entry is this request's from now on.
    pub fn take(&mut self, id: ReqId) {
        self.generation = id.0.generation;
    }
}

/// Links and facts of all slots.
#[derive(Debug)]
pub(super) struct Pool {
    chunks: Chunks,
    /// The order of the chunks.
    nodes: Nodes<u64>,
    pub links: Links<LaneSlot>,
    /// The chunk last sorted into for the processes of equal low bits, by their lane's. The requests of a
    /// process tend to lie close together: a guess where the next one goes, which decides nothing.
    newest: Vec<u32>,
}

impl Pool {
    /// For so many requests in so many lanes.
    pub fn new(requests: usize, lanes: usize) -> Pool {
        let vacant = LaneSlot {
            link: Link::OFF,
            deadline: 0,
            generation: 0,
            sectors: 0,
            lane: 0,
            place: Place::Nowhere,
            counted: false,
            read: false,
            home: Home(0),
        };
        // A chunk has a request, is one of the empty ones a lane keeps, or begins a lane.
        let chunks = requests + lanes * (IDLE + 1);
        Pool {
            nodes: Nodes::new(chunks),
            chunks: Chunks::new(chunks),
            links: Links::of(requests, vacant),
            newest: vec![0; 2 * requests.next_power_of_two()],
        }
    }

    /// The next lane, empty.
    pub fn lane(&mut self) -> Lane {
        let first = self.chunks.take(None);
        let mut by_start = Tree::new();
        by_start.insert(&mut self.nodes, first, 0, ());
        Lane { first, by_start, idle: [NIL; IDLE], fifo: List::new(), next: NIL }
    }

    pub fn slot(&self, slot: u32) -> &LaneSlot {
        self.links.item(slot)
    }

    pub fn slot_mut(&mut self, slot: u32) -> &mut LaneSlot {
        self.links.item_mut(slot)
    }

    /// Where this very request is: a slot may still tell of an earlier tenant.
    pub fn place(&self, id: ReqId) -> Place {
        let s = self.slot(id.slot());
        if s.is(id) { s.place } else { Place::Nowhere }
    }

    /// The entry of a slot that is this request's from now on.
    pub fn take(&mut self, id: ReqId) -> &mut LaneSlot {
        let entry = self.slot_mut(id.slot());
        entry.take(id);
        entry
    }

    /// The request in `slot`.
    pub fn id(&self, slot: u32) -> ReqId {
        ReqId(Handle { slot, generation: self.slot(slot).generation })
    }

    /// The first slot from a chunk on, `NIL` if all that follow are empty.
    #[inline]
    fn first_from(&self, mut chunk: u32) -> u32 {
        while chunk != NIL {
            let c = self.chunks.at(chunk);
            let slot = c.slot(0);
            if slot != NIL {
                return slot;
            }
            chunk = c.next;
        }
        NIL
    }

    /// The slot after `slot` in sector order, `NIL` after the last.
    pub fn after(&self, slot: u32) -> u32 {
        let home = self.slot(slot).home;
        let chunk = self.chunks.at(home.chunk());
        let after = chunk.slot(chunk.rank(home.place()) + 1);
        if after == NIL { self.first_from(chunk.next) } else { after }
    }

    /// The slot before `slot` in sector order, `NIL` before the first.
    pub fn before(&self, slot: u32) -> u32 {
        let home = self.slot(slot).home;
        let mut chunk = self.chunks.at(home.chunk());
        let mut rank = chunk.rank(home.place());
        while rank == 0 {
            if chunk.prev == NIL {
                return NIL;
            }
            chunk = self.chunks.at(chunk.prev);
            rank = chunk.len();
        }
        chunk.slot(rank - 1)
    }

    /// Where the request in `slot` starts.
    pub fn start(&self, slot: u32) -> Sectors {
        let home = self.slot(slot).home;
        Sectors(self.chunks.at(home.chunk()).key_at(home.place()))
    }

    /// Another request that starts at the same sector and came before `slot`.
    pub fn alias(&self, slot: u32) -> Option<u32> {
        let home = self.slot(slot).home;
        let chunk = self.chunks.at(home.chunk());
        let (rank, start) = (chunk.rank(home.place()), chunk.key_at(home.place()));
        if rank > 0 {
            return (chunk.key(rank - 1) == start).then(|| chunk.slot(rank - 1));
        }
        let before = self.before(slot);
        (before != NIL && self.start(before).0 == start).then_some(before)
    }

    /// Where the request in `slot`, which is in the sector order, ends, if its length is kept up to date.
    pub fn end(&self, slot: u32) -> Sectors {
        Sectors(self.start(slot).0 + u64::from(self.slot(slot).sectors))
    }

    /// The requests of `chunk` learn where they are.
    fn settle(&mut self, chunk: u32) {
        for (slot, place) in self.chunks.at(chunk).iter() {
            self.links.item_mut(slot).home = Home::new(chunk, place);
        }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// The first chunk, which is never given back: its range begins at sector 0.
    first: u32,
    /// All its chunks, by the start of their ranges.
    by_start: Tree,
    /// Chunks that became empty, in this order; they may have been filled since. Every empty one but the
    /// first is in here.
    idle: [u32; IDLE],
    pub fifo: List,
    /// The request to continue with in ascending order, or `NIL`.
    pub next: u32,
}

impl Lane {
    pub fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    /// Puts `slot` into the sector order only, behind those that start at the same sector.
    #[inline(always)]
    pub fn sort(&mut self, pool: &mut Pool, slot: u32, start: Sectors, proc: ProcId) {
        // Reads and writes of a process, if they have lanes of their own, are apart.
        let guess = proc.0.wrapping_mul(2) + self.first % 2;
        let guess = guess as usize & (pool.newest.len() - 1);
        let key = start.0;
        let mut at = pool.newest[guess];
        let chunk = pool.chunks.at(at);
        if !chunk.takes(self.first, key) | chunk.is_full() {
            at = self.room(pool, key);
        }
        let place = pool.chunks.at_mut(at).insert(key, slot);
        pool.newest[guess] = at;
        pool.slot_mut(slot).home = Home::new(at, place);
    }

    /// A chunk with room for a request that starts at `key`.
    #[inline(never)]
    fn room(&mut self, pool: &mut Pool, key: u64) -> u32 {
        let at = self.find(pool, key);
        if pool.chunks.at(at).is_full() { self.split(pool, at, key) } else { at }
    }

    /// The chunk that takes a request which starts at `key`.
    fn find(&self, pool: &Pool, key: u64) -> u32 {
        self.by_start.floor(&pool.nodes, key)
    }

    /// Makes two chunks of a full one. The answer is the one that takes `key`.
    #[inline(never)]
    fn split(&mut self, pool: &mut Pool, full: u32, key: u64) -> u32 {
        let new = pool.chunks.take(Some(self.first));
        let [lower, upper] = pool.chunks.pair(full, new);
        lower.split(upper);
        let low = upper.key(0);
        upper.low = low;
        upper.high = core::mem::replace(&mut lower.high, low);
        upper.prev = full;
        upper.next = core::mem::replace(&mut lower.next, new);
        let behind = upper.next;
        if behind != NIL {
            pool.chunks.at_mut(behind).prev = new;
        }
        // Not by its key: where many start at the same sector, several chunks begin there.
        self.by_start.insert_after(&mut pool.nodes, full, new, low, ());
        pool.settle(new);
        if key >= low { new } else { full }
    }

    /// Takes `slot` out of the sector order only; `next` may still name it. The answer is what
    /// followed it.
    #[inline(always)]
    pub fn unsort(&mut self, pool: &mut Pool, slot: u32) -> u32 {
        let home = pool.slot(slot).home;
        let chunk = pool.chunks.at_mut(home.chunk());
        let after = chunk.remove(home.place());
        if after != NIL {
            return after;
        }
        let (next, empty) = (chunk.next, chunk.is_empty());
        let after = pool.first_from(next);
        if empty && home.chunk() != self.first {
            self.retire(pool, home.chunk());
        }
        after
    }

    /// A chunk, not the first, has become empty: it stays, but the one that has been so for longest goes. Bounds the
    /// number of chunks by that of the requests, and the steps from one request to the next.
    #[inline(never)]
    fn retire(&mut self, pool: &mut Pool, chunk: u32) {
        let oldest = self.idle[0];
        self.idle.copy_within(1.., 0);
        self.idle[IDLE - 1] = chunk;
        // It may have been filled since, or become empty again, or be another lane's by now.
        if oldest != NIL && !self.idle.contains(&oldest) {
            let c = pool.chunks.at(oldest);
            if c.lane == self.first && c.is_empty() {
                self.give_back(pool, oldest);
            }
        }
    }

    /// The chunk before an empty one takes what would have been sorted into that.
    #[inline(never)]
    fn give_back(&mut self, pool: &mut Pool, gone: u32) {
        let chunk = pool.chunks.at(gone);
        let (high, prev, next) = (chunk.high, chunk.prev, chunk.next);
        let before = pool.chunks.at_mut(prev);
        before.high = high;
        before.next = next;
        if next != NIL {
            pool.chunks.at_mut(next).prev = prev;
        }
        self.by_start.remove(&mut pool.nodes, gone);
        pool.chunks.give_back(gone);
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
        let after = self.unsort(pool, slot);
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
    pub fn lowest(&self, pool: &Pool) -> u32 {
        pool.first_from(self.first)
    }

    /// The first request that starts at `start`, `NIL` if there is none.
    pub fn starting_at(&self, pool: &Pool, start: Sectors) -> u32 {
        let slot = self.from(pool, start);
        if slot != NIL && pool.start(slot) == start { slot } else { NIL }
    }

    /// The first request that starts at `start` or behind it, `NIL` if there is none.
    pub fn from(&self, pool: &Pool, start: Sectors) -> u32 {
        let mut chunk = pool.chunks.at(self.find(pool, start.0));
        // Those before may hold older ones that start where this one begins.
        while chunk.low == start.0 && chunk.prev != NIL {
            chunk = pool.chunks.at(chunk.prev);
        }
        let rank = chunk.first_at(start.0);
        if rank == chunk.len() { pool.first_from(chunk.next) } else { chunk.slot(rank) }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 200;

    /// Contents of a lane in order: start and request.
    type Model = Vec<(u64, u32)>;

    /// The chunks of a lane as the next search will meet them.
    fn check(pool: &Pool, lane: &Lane, model: &Model) {
        let (mut seen, mut chunks) = (Vec::new(), 0);
        let (mut at, mut prev, mut low) = (lane.first, NIL, 0);
        while at != NIL {
            let chunk = pool.chunks.at(at);
            assert!(!chunk.is_empty() || at == lane.first || lane.idle.contains(&at));
            assert_eq!((chunk.lane, chunk.prev, chunk.low), (lane.first, prev, low));
            assert_eq!(pool.nodes.next(at), chunk.next);
            for (i, (slot, place)) in chunk.iter().enumerate() {
                assert_eq!(pool.slot(slot).home, Home::new(at, place));
                assert_eq!(chunk.rank(place), i);
                assert!((low..=chunk.high).contains(&chunk.key(i)));
                seen.push((chunk.key(i), slot));
            }
            (prev, low, at) = (at, chunk.high, chunk.next);
            chunks += 1;
        }
        assert_eq!((low, lane.by_start.len()), (u64::MAX, chunks));
        assert_eq!(&seen, model);
    }

    /// Neighbours and look-ups say what the model says.
    fn compare(pool: &Pool, lane: &Lane, model: &Model, starts: u64) {
        let slot = |at: Option<&(u64, u32)>| at.map_or(NIL, |&(_, slot)| slot);
        assert_eq!(lane.lowest(pool), slot(model.first()));
        for (i, &(key, at)) in model.iter().enumerate() {
            assert_eq!(pool.after(at), slot(model.get(i + 1)));
            let before = i.checked_sub(1).map(|i| model[i]);
            assert_eq!(pool.before(at), slot(before.as_ref()));
            assert_eq!(pool.alias(at), before.filter(|b| b.0 == key).map(|b| b.1));
        }
        for start in 0..starts {
            let want = slot(model.iter().find(|&&(key, _)| key == start));
            assert_eq!(lane.starting_at(pool, Sectors(start)), want);
            let want = slot(model.iter().find(|&&(key, _)| key >= start));
            assert_eq!(lane.from(pool, Sectors(start)), want);
        }
    }

    #[test]
    fn two_lanes_behave_like_sorted_vectors() {
        // Many at the same sector, few, none.
        for starts in [5, 60, 5000] {
            let mut pool = Pool::new(SLOTS as usize, 2);
            let mut lanes = [(); 2].map(|()| pool.lane());
            let mut models = [Model::new(), Model::new()];
            let mut x = 7u64;
            for round in 0..20_000 {
                x = x
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let slot = (x >> 40) as u32 % SLOTS;
                // The number of requests rises and falls.
                let fill = round / 2000 % 2 == 0;
                if pool.slot(slot).place == Place::Lane {
                    if fill && x & 3 != 0 {
                        continue;
                    }
                    let at = usize::from(pool.slot(slot).lane);
                    let mine = models[at].iter().position(|&(_, s)| s == slot).unwrap();
                    models[at].remove(mine);
                    let after = lanes[at].unlink(&mut pool, slot);
                    assert_eq!(after, models[at].get(mine).map_or(NIL, |&(_, s)| s));
                } else if fill || x & 3 == 0 {
                    let (at, start) = ((x >> 20) as usize % 2, (x >> 21) % starts);
                    let entry = pool.slot_mut(slot);
                    (entry.lane, entry.place) = (at as u8, Place::Lane);
                    lanes[at].sort(&mut pool, slot, Sectors(start), ProcId((x >> 50) as u32 % 9));
                    lanes[at].queue(&mut pool, slot);
                    let behind = models[at].partition_point(|&(key, _)| key <= start);
                    models[at].insert(behind, (start, slot));
                }
                if round % 13 == 0 {
                    for (lane, model) in lanes.iter().zip(&models) {
                        check(&pool, lane, model);
                        compare(&pool, lane, model, starts.min(100));
                    }
                }
            }
        }
    }
}
