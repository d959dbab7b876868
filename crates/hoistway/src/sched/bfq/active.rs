//! The active set of a service tree: who waits for a slot, and who of them is next (specs/bfq.md 2.2).
//!
//! *The question.* The smallest finish among those whose start virtual time V has reached; if it has reached
//! none, among those with the least start. Equal ones go in the order in which they came.
//!
//! *Why two orders.* The textbook's answer, and the reference's, is a balanced tree by finish with the least
//! start of every subtree: each change is a descent, a rebalancing and a walk up, each question a descent.
//! But V does not go back while the set has somebody, so whoever it has reached stays reached. Those wait by
//! finish, the others by start until V comes by: the answer is the first of an order, and an entity that joins
//! belongs mostly at the end of one of few [runs](super::runs). Nothing walks the set in order but the removal
//! of a group.
//!
//! *The reference's choice* (quirk Q1) is a walk over the shape of its tree, so with `exact_pick` off the set
//! is that tree.
//!
//! Both orders grow to the most that ever waited at once.

use super::ids::{EntityNo, Id, Rows};
use super::runs::{RunPlace, WaitingEntity, WaitingRuns};
use super::wf2q::VTime;
use crate::tree::{Augment, Nodes, Tree};
use alloc::vec::Vec;

/// Least start of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MinStart(VTime);

impl Augment for MinStart {
    fn join(self, other: MinStart) -> MinStart {
        if self.0.after(other.0) { other } else { self }
    }
}

/// Room of each order of a set that is used for the first time. Both have room for everybody in the set: how many of them V
/// has reached varies for long, and one that grew to its own largest number would still grow after a million requests.
const ROOM: u32 = 16;
/// Where everybody is, for all sets of a device: an entity is in at most one.
#[derive(Clone, Debug)]
pub(super) struct Places {
    run_places: Rows<EntityNo, RunPlace>,
    turn: u64,
    /// Nodes of the trees, if there are any.
    shape: Nodes<VTime, MinStart>,
    /// Orders, or the reference's trees.
    exact: bool,
}

impl Places {
    pub fn new(exact: bool) -> Places {
        Places { run_places: Rows::new(), turn: 0, shape: Nodes::new(0), exact }
    }

    /// Makes room for so many entities.
    pub fn grow(&mut self, entities: usize) {
        self.run_places.resize(entities, RunPlace::VACANT);
        if !self.exact {
            self.shape.grow(entities);
        }
    }
}

/// Everybody of one service tree that waits for a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct ActiveSet {
    /// Those that V has reached.
    eligible: WaitingRuns<false>,
    /// Those that it had not when somebody last asked.
    later: WaitingRuns<true>,
    /// Instead of both, without `exact_pick`.
    tree: Tree,
    /// How many there are.
    len: u32,
    /// How many each order has room for.
    room: u32,
}

impl ActiveSet {
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
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
        self.len += 1;
        if places.exact {
            self.enter(places, who, [start, finish], v);
        } else {
            self.tree.insert(&mut places.shape, who.0, finish, MinStart(start));
        }
    }

    /// Makes room in both orders for more than there are.
    #[cold]
    fn grow(&mut self) {
        self.room = (2 * self.len).max(ROOM);
        self.eligible.reserve(self.room as usize);
        self.later.reserve(self.room as usize);
    }

    #[inline]
    fn enter(&mut self, places: &mut Places, who: EntityNo, [start, finish]: [VTime; 2], v: VTime) {
        // Whoever is in one order may come to be in the other.
        if self.len > self.room {
            self.grow();
        }
        let turn = places.turn;
        places.turn += 1;
        let one = WaitingEntity { key: start, other: finish, turn, who };
        if start.after(v) {
            self.later.push(&mut places.run_places, one);
        } else {
            self.eligible.push(&mut places.run_places, one.turned());
        }
    }

    /// Takes out `who`, who is in this set.
    #[inline]
    pub fn remove(&mut self, places: &mut Places, who: EntityNo) {
        self.len -= 1;
        if !places.exact {
            self.tree.remove(&mut places.shape, who.0);
            return;
        }
        let run_places = &mut places.run_places;
        if run_places[who].by_start() {
            self.later.remove(run_places, who);
        } else {
            self.eligible.remove(run_places, who);
        }
    }

    /// Who is next at virtual time `v`, and how far V has to be for that, `v` at least. The set must not be
    /// empty; V must not go back until it is.
    #[inline]
    pub fn next(&mut self, places: &mut Places, v: VTime) -> (EntityNo, VTime) {
        if !places.exact {
            let v = v.later(places.shape.sum(self.tree.root()).0);
            return (self.walk(places, v), v);
        }
        if self.later.first().is_some_and(|one| !one.key.after(v)) {
            self.reach(places, v);
        }
        match (self.eligible.first(), self.later.first()) {
            (Some(one), _) => (one.who, v),
            (None, Some(one)) => (one.who, one.key),
            (None, None) => (EntityNo::NONE, v),
        }
    }

    /// V has come by somebody.
    #[inline(never)]
    fn reach(&mut self, places: &mut Places, v: VTime) {
        while let Some(&one) = self.later.first()
            && !one.key.after(v)
        {
            self.later.pop(&mut places.run_places);
            self.eligible.push(&mut places.run_places, one.turned());
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
    pub fn first(&self, places: &Places) -> EntityNo {
        let later = self.later.iter(&places.run_places).map(|one| one.turned());
        let least = later.chain(self.eligible.first().copied());
        let least = least.reduce(|a, b| if b.sooner(&a) { b } else { a });
        least.map_or(EntityNo(self.tree.first()), |one| one.who)
    }

    /// The tree of the reference becomes orders.
    fn line_up(&mut self, places: &mut Places, v: VTime) {
        while !self.tree.is_empty() {
            let at = self.tree.first();
            let (start, finish) = (places.shape.own(at).0, places.shape.key(at));
            self.tree.remove(&mut places.shape, at);
            self.enter(places, EntityNo(at), [start, finish], v);
        }
    }

    /// The orders become a tree of the reference: one as if all had come just now, in their order.
    fn plant(&mut self, places: &mut Places) {
        let later = self.later.iter(&places.run_places).map(WaitingEntity::turned);
        let mut all: Vec<WaitingEntity> =
            self.eligible.iter(&places.run_places).chain(later).collect();
        self.eligible.clear();
        self.later.clear();
        all.sort_unstable_by_key(|one| one.turn);
        for WaitingEntity { key: finish, other: start, who, .. } in all {
            self.tree.insert(&mut places.shape, who.0, finish, MinStart(start));
        }
    }
}

/// All sets, each with its virtual time, become orders or the reference's trees.
pub(super) fn set_exact<'a>(
    places: &mut Places,
    sets: impl Iterator<Item = (&'a mut ActiveSet, VTime)>,
    exact: bool,
) {
    if core::mem::replace(&mut places.exact, exact) == exact {
        return;
    }
    places.grow(places.run_places.len());
    for (set, v) in sets {
        if exact { set.line_up(places, v) } else { set.plant(places) }
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
            assert_eq!(set.first(&places), EntityNo(first.2));
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
