//! A priority queue for keys that mostly come in order: a heap of sorted lists.
//!
//! *Problem.* Virtual times are monotone up to few kinds of queues: of those with one budget and one weight the next
//! has a later start and a later finish than the last. A heap of all sorts them anew, level by level, at every
//! removal.
//!
//! *Idea.* Patience sorting. An entity joins the end of a run if it belongs behind it, of several the one with the
//! latest end; else it begins one. A heap holds the firsts of the runs, so a removal costs the logarithm of the number
//! of runs. With 10,000 queues that come back in order there are three; in the worst order each entity is a run, and
//! what is left is the heap. Only the newest runs are open at their ends: where an entity fits behind one of the
//! others, it mostly fits behind an open one, whose end is earlier.

use super::ids::{EntityNo, Id, Rows};
use super::wf2q::VTime;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// Children of a parent in the heap: half the levels of a binary one, and the four lie side by side.
const ARITY: usize = 4;
/// Runs that are open.
const OPEN: usize = 4;

/// One that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingEntity {
    /// What it waits by: start or finish.
    pub key: VTime,
    /// The other one of start and finish.
    pub other: VTime,
    /// The order of coming.
    pub turn: u64,
    pub who: EntityNo,
}

impl WaitingEntity {
    /// By the other key.
    pub fn turned(self) -> WaitingEntity {
        WaitingEntity { key: self.other, other: self.key, ..self }
    }

    /// By key, of equal ones by turn: a difference of twice the width, since whether keys are equal is hard
    /// to guess where budgets are.
    #[inline]
    pub fn sooner(&self, than: &WaitingEntity) -> bool {
        let word = |w: &WaitingEntity| u128::from(w.key.0) << 64 | u128::from(w.turn);
        (word(self).wrapping_sub(word(than)) as i128) < 0
    }
}

/// Where an entity waits. It is in at most one run of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunPlace {
    key: VTime,
    other: VTime,
    turn: u64,
    /// Neighbours in its run.
    next: EntityNo,
    prev: EntityNo,
    /// Of the first of a run: its place in the heap.
    place: u32,
    /// It waits by start.
    by_start: bool,
}

impl RunPlace {
    pub const VACANT: RunPlace = RunPlace {
        key: VTime(0),
        other: VTime(0),
        turn: 0,
        next: EntityNo::NONE,
        prev: EntityNo::NONE,
        place: 0,
        by_start: false,
    };

    #[inline]
    fn of(self, who: EntityNo) -> WaitingEntity {
        WaitingEntity { key: self.key, other: self.other, turn: self.turn, who }
    }

    /// It is in one of the runs by start.
    pub fn by_start(&self) -> bool {
        self.by_start
    }
}

type RunPlaces = Rows<EntityNo, RunPlace>;

/// The last of a run.
#[derive(Clone, Copy, Debug)]
struct RunEnd {
    key: VTime,
    who: EntityNo,
}

/// Who waits, by finish, or by start and of equal ones by finish.
#[derive(Clone, Debug)]
pub(super) struct WaitingRuns<const BY_START: bool> {
    /// The first of each run.
    heap: Vec<WaitingEntity>,
    /// Ends of the open runs, the latest first.
    ends: [RunEnd; OPEN],
    open: usize,
}

impl<const BY_START: bool> Default for WaitingRuns<BY_START> {
    fn default() -> Self {
        let nobody = RunEnd { key: VTime(0), who: EntityNo::NONE };
        WaitingRuns { heap: Vec::new(), ends: [nobody; OPEN], open: 0 }
    }
}

impl<const BY_START: bool> WaitingRuns<BY_START> {
    /// Makes room for so many in all.
    pub fn reserve(&mut self, all: usize) {
        self.heap.reserve(all - self.heap.len());
    }

    #[inline]
    pub fn first(&self) -> Option<&WaitingEntity> {
        self.heap.first()
    }

    #[inline]
    fn before(a: &WaitingEntity, b: &WaitingEntity) -> bool {
        if BY_START && a.key == b.key && a.other != b.other {
            return b.other.after(a.other);
        }
        a.sooner(b)
    }

    /// Everybody, run by run.
    pub fn iter<'a>(
        &'a self,
        run_places: &'a RunPlaces,
    ) -> impl Iterator<Item = WaitingEntity> + 'a {
        let next = |one: &WaitingEntity| {
            let next = run_places[one.who].next;
            next.some().map(|next| run_places[next].of(next))
        };
        self.heap.iter().flat_map(move |&first| core::iter::successors(Some(first), next))
    }

    /// Forgets everybody.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.open = 0;
    }

    #[inline]
    pub fn push(&mut self, run_places: &mut RunPlaces, one: WaitingEntity) {
        let mut prev = EntityNo::NONE;
        for end in &mut self.ends[..self.open] {
            let behind = if one.key == end.key {
                !Self::before(&one, &run_places[end.who].of(end.who))
            } else {
                one.key.after(end.key)
            };
            if behind {
                prev = core::mem::replace(&mut end.who, one.who);
                end.key = one.key;
                break;
            }
        }
        let WaitingEntity { key, other, turn, .. } = one;
        let (next, place, by_start) = (EntityNo::NONE, 0, BY_START);
        run_places[one.who] = RunPlace { key, other, turn, next, prev, place, by_start };
        if prev.is_some() {
            run_places[prev].next = one.who;
        } else {
            self.begin(run_places, one);
        }
    }

    /// Begins a run, which is open: it is before the ends of all that are.
    fn begin(&mut self, run_places: &mut RunPlaces, one: WaitingEntity) {
        if self.open == OPEN {
            self.ends.copy_within(1.., 0);
        } else {
            self.open += 1;
        }
        self.ends[self.open - 1] = RunEnd { key: one.key, who: one.who };
        self.heap.push(one);
        self.rise(run_places, self.heap.len() - 1, one);
    }

    /// Takes out the first of all; there must be one.
    #[inline]
    pub fn pop(&mut self, run_places: &mut RunPlaces) {
        let who = self.heap[0].who;
        let next = run_places[who].next;
        if next.is_none() {
            self.finish(run_places, who, 0);
        } else {
            self.advance(run_places, 0, next);
        }
    }

    /// Takes out `who`, who waits here.
    #[inline]
    pub fn remove(&mut self, run_places: &mut RunPlaces, who: EntityNo) {
        let RunPlace { next, prev, place, .. } = run_places[who];
        match (prev.is_some(), next.is_some()) {
            (false, true) => self.advance(run_places, place as usize, next),
            (false, false) => self.finish(run_places, who, place as usize),
            (true, true) => {
                run_places[prev].next = next;
                run_places[next].prev = prev;
            }
            (true, false) => {
                run_places[prev].next = EntityNo::NONE;
                self.shorten(run_places, who, prev);
            }
        }
    }

    /// The run at that place goes on with `next`.
    #[inline]
    fn advance(&mut self, run_places: &mut RunPlaces, mut at: usize, next: EntityNo) {
        let place_in_run = &mut run_places[next];
        place_in_run.prev = EntityNo::NONE;
        let one = place_in_run.of(next);
        while let Some(child) = self.least_child(at) {
            let below = self.heap[child];
            if Self::before(&one, &below) {
                break;
            }
            self.put(run_places, at, below);
            at = child;
        }
        self.put(run_places, at, one);
    }

    /// The run at that place, of which `who` was the last, is over.
    fn finish(&mut self, run_places: &mut RunPlaces, who: EntityNo, mut at: usize) {
        if let Some(end) = self.ends[..self.open].iter().position(|end| end.who == who) {
            self.ends.copy_within(end + 1..self.open, end);
            self.open -= 1;
        }
        // The place sinks to the bottom along the least children, and the last run of the heap, which was at the
        // bottom and mostly belongs there, rises from it.
        let Some(last) = self.heap.pop() else { return };
        if at < self.heap.len() {
            while let Some(child) = self.least_child(at) {
                self.put(run_places, at, self.heap[child]);
                at = child;
            }
            self.rise(run_places, at, last);
        }
    }

    /// A run of which `who` was the last ends with `prev` now. The ends stay in order.
    fn shorten(&mut self, run_places: &RunPlaces, who: EntityNo, prev: EntityNo) {
        let ends = &mut self.ends[..self.open];
        let Some(mut at) = ends.iter().position(|end| end.who == who) else { return };
        let one = run_places[prev].of(prev);
        while let Some(&next) = ends.get(at + 1)
            && Self::before(&one, &run_places[next.who].of(next.who))
        {
            ends[at] = next;
            at += 1;
        }
        ends[at] = RunEnd { key: one.key, who: prev };
    }

    #[inline]
    fn put(&mut self, run_places: &mut RunPlaces, at: usize, one: WaitingEntity) {
        run_places[one.who].place = at as u32;
        self.heap[at] = one;
    }

    #[inline]
    fn least_child(&self, at: usize) -> Option<usize> {
        let first = ARITY * at + 1;
        let children = self.heap.get(first..)?;
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
    fn rise(&mut self, run_places: &mut RunPlaces, mut at: usize, one: WaitingEntity) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.heap[parent];
            if !Self::before(&one, &above) {
                break;
            }
            self.put(run_places, at, above);
            at = parent;
        }
        self.put(run_places, at, one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entities `0..who` join and leave for `turns` turns; `key` says by what the next one waits. The most runs there
    /// were.
    fn most_runs(who: u32, turns: u64, mut key: impl FnMut(u64) -> u64) -> usize {
        let mut run_places: RunPlaces = alloc::vec![RunPlace::VACANT; who as usize].into();
        let mut runs = WaitingRuns::<false>::default();
        let (mut waiting, mut most) = (alloc::collections::BTreeSet::new(), 0);
        for turn in 0..turns {
            let who = if turn < who.into() {
                EntityNo(turn as u32)
            } else {
                let who = runs.first().expect("all wait").who;
                assert_eq!(waiting.pop_first().map(|(_, _, first)| first), Some(who.0));
                runs.pop(&mut run_places);
                who
            };
            let key = key(turn);
            waiting.insert((key, turn, who.0));
            runs.push(
                &mut run_places,
                WaitingEntity { key: VTime(key), other: VTime(0), turn, who },
            );
            most = most.max(runs.heap.len());
        }
        assert_eq!(runs.iter(&run_places).count(), who as usize);
        most
    }

    #[test]
    fn what_comes_in_order_up_to_three_kinds_makes_three_runs() {
        assert_eq!(most_runs(200, 5_000, |turn| turn), 1);
        assert_eq!(most_runs(200, 5_000, |turn| turn + [400, 0, 90][turn as usize % 3]), 3);
    }

    #[test]
    fn what_comes_backwards_is_a_heap() {
        assert_eq!(most_runs(200, 200, |turn| 1_000 - turn), 200);
        // In no order at all: nobody is lost, and open runs take some.
        let mut x = 7u64;
        let most = most_runs(200, 5_000, |turn| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            turn + (x >> 33) % 200
        });
        assert!((5..100).contains(&most), "{most}");
    }
}
