//! The active set of a service tree: who waits for a slot, and who of them is next (specs/bfq.md 2.2).
//!
//! *The question.* The smallest finish among those whose start virtual time V has reached; if it has reached
//! none, among those with the least start. Equal ones go in the order in which they came.
//!
//! *Why two heaps.* The textbook's answer, and the reference's, is a balanced tree by finish with the least
//! start of every subtree: each change is a descent, a rebalancing and a walk up, each question a descent.
//! But V does not go back while the set has somebody, so whoever it has reached stays reached. Those wait in
//! a heap by finish, the others in one by start until V comes by: the answer is a top, and an entity that
//! joins has usually the latest finish and stays at the bottom. Four children per parent: half the levels of
//! a binary heap, and the four lie side by side. Nothing walks the set in order but the removal of a group.
//!
//! *The reference's choice* (quirk Q1) is a walk over the shape of its tree, so with `exact_pick` off the set
//! is that tree.
//!
//! Both heaps grow to the most that ever waited at once.

use super::ids::{EntityNo, Id, Rows};
use super::wf2q::VTime;
use crate::tree::{Augment, Nodes, Tree};
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// Least start of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MinStart(VTime);

impl Augment for MinStart {
    fn join(self, other: MinStart) -> MinStart {
        if self.0.after(other.0) { other } else { self }
    }
}

/// Children of a parent in a heap.
const ARITY: usize = 4;
/// Room of each heap of a set that is used for the first time. Both have room for everybody in the set: how many of them V
/// has reached varies for long, and a heap that grew to its own largest number would still grow after a million requests.
const ROOM: usize = 16;
/// In a place: it is in the heap of those that V has not reached.
const LATER: u32 = 1 << 31;

/// One that waits.
#[derive(Clone, Copy, Debug)]
struct WaitingEntity {
    /// Key of its heap.
    key: VTime,
    /// The other one of start and finish.
    other: VTime,
    /// The order of coming.
    turn: u64,
    who: EntityNo,
}

impl WaitingEntity {
    /// For the other heap.
    fn turned(self) -> WaitingEntity {
        WaitingEntity { key: self.other, other: self.key, ..self }
    }

    /// By key, of equal ones by turn: a difference of twice the width, since whether keys are equal is hard
    /// to guess where budgets are.
    #[inline]
    fn sooner(&self, than: &WaitingEntity) -> bool {
        let word = |w: &WaitingEntity| u128::from(w.key.0) << 64 | u128::from(w.turn);
        (word(self).wrapping_sub(word(than)) as i128) < 0
    }
}

/// Where everybody is, for all sets of a device: an entity is in at most one.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Place in the heap it is in, with `LATER`.
    of: Rows<EntityNo, u32>,
    turn: u64,
    /// Nodes of the trees, if there are any.
    shape: Nodes<VTime, MinStart>,
    /// Heaps, or the reference's trees.
    exact: bool,
}

impl Places {
    pub fn new(exact: bool) -> Places {
        Places { of: Rows::new(), turn: 0, shape: Nodes::new(0), exact }
    }

    /// Makes room for so many entities.
    pub fn grow(&mut self, entities: usize) {
        self.of.resize(entities, 0);
        if !self.exact {
            self.shape.grow(entities);
        }
    }
}

/// A heap by finish, or by start and of equal ones by finish.
#[derive(Clone, Debug, Default)]
struct Heap<const BY_START: bool>(Vec<WaitingEntity>);

impl<const BY_START: bool> Heap<BY_START> {
    #[inline]
    fn before(a: &WaitingEntity, b: &WaitingEntity) -> bool {
        if BY_START && a.key == b.key && a.other != b.other {
            return b.other.after(a.other);
        }
        a.sooner(b)
    }

    #[inline]
    fn put(&mut self, places: &mut Places, at: usize, one: WaitingEntity) {
        places.of[one.who] = at as u32 | if BY_START { LATER } else { 0 };
        self.0[at] = one;
    }

    #[inline]
    fn push(&mut self, places: &mut Places, one: WaitingEntity) {
        self.0.push(one);
        self.rise(places, self.0.len() - 1, one);
    }

    /// Takes out what is at that place. The place sinks to the bottom along the least children, and the last
    /// one, which was at the bottom and mostly belongs there, rises from it.
    fn remove(&mut self, places: &mut Places, mut at: usize) -> WaitingEntity {
        let gone = self.0[at];
        let last = self.0.pop().unwrap_or(gone);
        if at < self.0.len() {
            while let Some(child) = self.least_child(at) {
                self.put(places, at, self.0[child]);
                at = child;
            }
            self.rise(places, at, last);
        }
        gone
    }

    #[inline]
    fn least_child(&self, at: usize) -> Option<usize> {
        let first = ARITY * at + 1;
        let children = self.0.get(first..)?;
        let least = |a: usize, b: usize| {
            let second = Self::before(&children[b], &children[a]);
            select_unpredictable(second, b, a)
        };
        match children.len() {
            0 => None,
            1 => Some(first),
            2 => Some(first + least(0, 1)),
            3 => Some(first + least(least(0, 1), 2)),
            _ => Some(first + least(least(0, 1), least(2, 3))),
        }
    }

    /// Puts `one` at the vacant place `at` or above.
    #[inline]
    fn rise(&mut self, places: &mut Places, mut at: usize, one: WaitingEntity) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.0[parent];
            if !Self::before(&one, &above) {
                break;
            }
            self.put(places, at, above);
            at = parent;
        }
        self.put(places, at, one);
    }
}

/// Everybody of one service tree that waits for a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct ActiveSet {
    /// Those that V has reached.
    eligible: Heap<false>,
    /// Those that it had not when somebody last asked.
    later: Heap<true>,
    /// Instead of both, without `exact_pick`.
    tree: Tree,
}

impl ActiveSet {
    pub fn len(&self) -> u32 {
        (self.eligible.0.len() + self.later.0.len()) as u32 + self.tree.len()
    }

    pub fn is_empty(&self) -> bool {
        self.eligible.0.is_empty() && self.later.0.is_empty() && self.tree.is_empty()
    }

    /// Adds `who`, who is in no set; `v` is virtual time.
    #[inline]
    pub fn insert(
        &mut self,
        places: &mut Places,
        who: EntityNo,
        [start, finish]: [VTime; 2],
        v: VTime,
    ) {
        if places.exact {
            self.enter(places, who, [start, finish], v);
        } else {
            self.tree.insert(&mut places.shape, who.0, finish, MinStart(start));
        }
    }

    /// Makes room in both heaps for more than `all`.
    #[cold]
    fn grow(&mut self, all: usize) {
        let room = (2 * all).max(ROOM);
        self.eligible.0.reserve(room - self.eligible.0.len());
        self.later.0.reserve(room - self.later.0.len());
    }

    fn enter(&mut self, places: &mut Places, who: EntityNo, [start, finish]: [VTime; 2], v: VTime) {
        // Whoever is in one heap may come to be in the other.
        let all = self.eligible.0.len() + self.later.0.len();
        if all >= self.eligible.0.capacity().min(self.later.0.capacity()) {
            self.grow(all);
        }
        let turn = places.turn;
        places.turn += 1;
        let one = WaitingEntity { key: start, other: finish, turn, who };
        if start.after(v) {
            self.later.push(places, one);
        } else {
            self.eligible.push(places, one.turned());
        }
    }

    /// Takes out `who`, who is in this set.
    pub fn remove(&mut self, places: &mut Places, who: EntityNo) {
        if !places.exact {
            self.tree.remove(&mut places.shape, who.0);
            return;
        }
        let place = places.of[who];
        let at = (place & !LATER) as usize;
        let gone = if place & LATER == 0 {
            self.eligible.remove(places, at)
        } else {
            self.later.remove(places, at)
        };
        debug_assert_eq!(gone.who, who);
    }

    /// Who is next at virtual time `v`, and how far V has to be for that, `v` at least. The set must not be
    /// empty; V must not go back until it is.
    pub fn next(&mut self, places: &mut Places, v: VTime) -> (EntityNo, VTime) {
        if !places.exact {
            let v = v.later(places.shape.sum(self.tree.root()).0);
            return (self.walk(places, v), v);
        }
        while let Some(&one) = self.later.0.first()
            && !one.key.after(v)
        {
            self.later.remove(places, 0);
            self.eligible.push(places, one.turned());
        }
        match (self.eligible.0.first(), self.later.0.first()) {
            (Some(one), _) => (one.who, v),
            (None, Some(one)) => (one.who, one.key),
            (None, None) => (EntityNo::NONE, v),
        }
    }

    /// Quirk Q1: once an eligible node has been met, right subtrees are never entered.
    fn walk(&self, places: &Places, v: VTime) -> EntityNo {
        let (links, mut at) = (&places.shape, self.tree.root());
        let mut found = EntityNo::NONE;
        loop {
            if !links.own(at).0.after(v) {
                found = EntityNo(at);
            }
            let left = EntityNo(links.left(at));
            if left.is_some() && !links.sum(left.0).0.after(v) {
                at = left.0;
            } else if found.is_some() {
                return found;
            } else {
                at = links.right(at);
            }
        }
    }

    /// The smallest finish, eligible or not; `NONE` if the set is empty. Linear in those that V has not
    /// reached: only the removal of a group asks.
    pub fn first(&self) -> EntityNo {
        let later = self.later.0.iter().map(|one| one.turned());
        let least = later.chain(self.eligible.0.first().copied());
        let least = least.reduce(|a, b| if b.sooner(&a) { b } else { a });
        least.map_or(EntityNo(self.tree.first()), |one| one.who)
    }

    /// The tree of the reference becomes heaps.
    fn heap_up(&mut self, places: &mut Places, v: VTime) {
        while !self.tree.is_empty() {
            let at = self.tree.first();
            let (start, finish) = (places.shape.own(at).0, places.shape.key(at));
            self.tree.remove(&mut places.shape, at);
            self.enter(places, EntityNo(at), [start, finish], v);
        }
    }

    /// The heaps become a tree of the reference: one as if all had come just now, in their order.
    fn plant(&mut self, places: &mut Places) {
        let later = self.later.0.drain(..).map(WaitingEntity::turned);
        let mut all: Vec<WaitingEntity> = self.eligible.0.drain(..).chain(later).collect();
        all.sort_unstable_by_key(|one| one.turn);
        for WaitingEntity { key: finish, other: start, who, .. } in all {
            self.tree.insert(&mut places.shape, who.0, finish, MinStart(start));
        }
    }
}

/// All sets, each with its virtual time, become heaps or the reference's trees.
pub(super) fn set_exact<'a>(
    places: &mut Places,
    sets: impl Iterator<Item = (&'a mut ActiveSet, VTime)>,
    exact: bool,
) {
    if core::mem::replace(&mut places.exact, exact) == exact {
        return;
    }
    places.grow(places.of.len());
    for (set, v) in sets {
        if exact { set.heap_up(places, v) } else { set.plant(places) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start, finish, who; in the order of coming.
    type Model = Vec<(u64, u64, u32)>;

    /// Smallest finish among the eligible, the first of equal ones.
    fn walk(model: &Model, v: u64) -> (u32, u64) {
        let v = model.iter().map(|m| m.0).min().unwrap().max(v);
        let least = model.iter().filter(|m| m.0 <= v).min_by_key(|m| m.1).unwrap();
        (least.2, v)
    }

    #[test]
    fn a_set_says_what_a_walk_over_all_says_also_after_a_change_of_kind() {
        const WHO: u32 = 300;
        let mut places = Places::new(true);
        places.grow(WHO as usize);
        let (mut set, mut model, mut v) = (ActiveSet::default(), Model::new(), 0);
        let mut x = 11u64;
        for round in 0..30_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let who = (x >> 40) as u32 % WHO;
            // Almost empty at times. Few different times, so that many are equal.
            let most = if round / 3000 % 2 == 0 { WHO as usize } else { 4 };
            if let Some(at) = model.iter().position(|m| m.2 == who) {
                model.remove(at);
                set.remove(&mut places, EntityNo(who));
            } else if model.len() < most {
                let start = (v + (x >> 20) % 9).saturating_sub(3);
                let finish = start + 1 + (x >> 28) % 7;
                model.push((start, finish, who));
                set.insert(&mut places, EntityNo(who), [VTime(start), VTime(finish)], VTime(v));
            }
            assert_eq!(set.len() as usize, model.len());
            if model.is_empty() {
                continue;
            }
            let (next, least) = walk(&model, v);
            if places.exact {
                assert_eq!(set.next(&mut places, VTime(v)), (EntityNo(next), VTime(least)));
            } else {
                // The reference's choice is eligible, and need not be the best.
                let (next, at) = set.next(&mut places, VTime(v));
                assert_eq!(at, VTime(least));
                assert!(model.iter().any(|m| m.2 == next.0 && m.0 <= least));
            }
            let first = model.iter().min_by_key(|m| m.1).unwrap();
            assert_eq!(set.first(), EntityNo(first.2));
            // Not each question moves V.
            if x & 4 == 0 {
                v = least + (x >> 60) % 2;
            }
            if round % 997 == 0 {
                let exact = !places.exact;
                set_exact(&mut places, core::iter::once((&mut set, VTime(v))), exact);
                // Equal finishes came in this order as far as a tree tells.
                if exact {
                    model.sort_by_key(|m| m.1);
                }
            }
        }
    }
}
