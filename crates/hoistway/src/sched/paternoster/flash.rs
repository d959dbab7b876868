//! Flash: one request after another past a valve.
//!
//! *Rule.* The lane goes first unless it is paced, spent or over its part. Nobody greedy goes while a process that has just
//! begun holds the others. Then sync writes that wait together, if their time has come; then the greedy request with
//! the smallest tags, if it fits into the valve or nothing greedy is inside. A completion asks again.
//!
//! Source: specs/paternoster.md 3.

use super::answer::HeldBy;
use super::issue::Next;
use super::lane::TRIAL_MOST;
use super::{ASYNC_ROW, LOOK_BEHIND, LeafId, Paternoster, SlotPlace, units};
use crate::env::Cx;
use crate::group::GroupId;
use crate::request::{Op, Request};
use crate::rows::Id;
use crate::unit::Instant;

impl Paternoster {
    /// Until when the first request of the lane is held; greedy ones wait too.
    #[inline(never)]
    fn paced(&self, now: Instant, slot: u32) -> Option<Instant> {
        let w = self.waiting_of(slot);
        if self.valve.tries_rows() {
            let until = w.arrived + TRIAL_MOST;
            if until > now {
                return Some(until);
            }
        }
        self.lane.paced(now, &w, self.valve.change().0)
    }

    /// The leaf whose row goes on, or the one with the smallest tags; and whether it is that.
    fn choose(&self) -> Option<(LeafId, bool)> {
        if self.run_leaf.is_some() && self.valve.row().0 > 0 {
            let leaf = self.fair.leaf(self.run_leaf);
            let row = if leaf.sync { self.valve.row().0 } else { ASYNC_ROW };
            if !leaf.fifo.is_empty() && self.run_units < row {
                return Some((self.run_leaf, false));
            }
        }
        self.fair.smallest().map(|leaf| (leaf, true))
    }

    #[inline]
    pub(super) fn next_of_flash<'a>(&mut self, now: Instant, cx: &Cx<'a>) -> Option<Next<'a>> {
        let greedy = self.fair.waiting() > 0;
        let first = self.lane.first();
        let mut paced = None;
        let mut spent = false;
        if let Some(slot) = first {
            let brakes = greedy && self.slots[slot as usize].lead.is_none();
            paced = if brakes { self.paced(now, slot) } else { None };
            let over = brakes && self.lane.over(self.valve.k().0);
            spent = brakes && self.spent(slot, cx);
            if paced.is_none() && !spent && !over {
                return Some(Next::Lane(slot));
            }
            if (paced.is_some() || spent)
                && let Some(slot) = self.number_behind(slot)
            {
                return Some(Next::Lane(slot));
            }
            let by = if over {
                HeldBy::Part
            } else if spent {
                HeldBy::Budget
            } else {
                HeldBy::Price
            };
            self.note_held(now, slot, by, cx);
        }
        let leader = self.leader_holds(now);
        if !leader && !self.syncs.list.is_empty() && self.syncs_go(now) {
            return Some(Next::Sync);
        }
        if !leader && let Some((leaf, chosen)) = self.choose() {
            let requests = cx.requests;
            let r = requests.at(self.fair.head(leaf));
            let hold = if r.sync && r.op == Op::Write { self.flushes.hold(now) } else { None };
            if let Some(until) = hold {
                self.wake_by(until);
            } else if self.w == 0 || self.w + units(r) <= self.strict.valve(self.valve.k().0) {
                return Some(Next::Greedy { leaf, r, chosen });
            } else {
                self.valve.held();
            }
        }
        if let Some(slot) = first {
            let over = greedy && self.lane.over(self.valve.k().0);
            match paced {
                Some(until) if self.inside > 0 => self.wake_by(until),
                None if over && !self.fits_beside(slot, cx) => {}
                // The next completion asks again.
                None if spent && self.inside > 0 => {}
                _ => return Some(Next::Lane(slot)),
            }
        }
        None
    }

    /// A lane that is over its part has a valve like the others': with as much of each inside, each has half of the
    /// drive, whatever waits.
    fn fits_beside(&self, slot: u32, cx: &Cx<'_>) -> bool {
        self.lane_w == 0 || self.lane_w + self.units_of(slot, cx) <= self.valve.k().0
    }

    /// A request of the lane is held back: an answer about its target names that.
    #[inline(never)]
    pub(super) fn note_held(&mut self, now: Instant, slot: u32, by: HeldBy, cx: &Cx<'_>) {
        if let Some(owner) = self.owner(cx.requests.at(slot)) {
            self.notes.held(now, owner, by);
        }
    }

    /// The target of this request has taken from the others what it may, and its share too.
    pub(super) fn spent(&self, slot: u32, cx: &Cx<'_>) -> bool {
        let s = &self.slots[slot as usize];
        s.auto
            && self.owner(cx.requests.at(slot)).is_some_and(|owner| self.budget.is_spent(owner))
            && self.fair.is_ahead(s.leaf)
    }

    /// The group whose target holds for the request.
    fn owner(&self, r: &Request) -> Option<GroupId> {
        self.lane.target(r.group).map(|t| t.owner)
    }

    /// Does a request of that leaf wait with other sync writes?
    pub(super) fn joins(&self, now: Instant, leaf: LeafId) -> bool {
        let (l, price) = (self.fair.leaf(leaf), &self.flushes.price);
        l.sync_write
            && l.fifo.is_empty()
            && !self.media.is_disk()
            && (price.is_dear() || price.looks(now).is_some())
            && !self.fair.is_weighted(leaf)
    }

    /// Has the time come of the sync writes that wait together?
    #[inline(never)]
    fn syncs_go(&mut self, now: Instant) -> bool {
        if self.syncs.going == 0 {
            let price = &self.flushes.price;
            let oldest = self.slots[self.syncs.list.head() as usize].arrived;
            let most = oldest + price.wait_most();
            let until = match price.looks(now) {
                _ if price.is_owed() => Some(most),
                look => look.map(|until| until.min(most)),
            };
            let held = until.filter(|&until| until > now && self.others_go_on());
            if let Some(until) = held.or(self.flushes.hold(now)) {
                self.wake_by(until);
                return false;
            }
            self.syncs.going = self.syncs.list.len();
        }
        true
    }

    /// Does greedy work wait, or is some of it inside, other than the sync writes that wait together?
    fn others_go_on(&self) -> bool {
        self.fair.waiting() > 0 || self.w > self.sync_w
    }

    /// Sync writes wait with everybody else from now on.
    pub(super) fn part_syncs(&mut self) {
        while let Some(slot) = self.syncs.list.pop_front(&mut self.links) {
            let s = &mut self.slots[slot as usize];
            s.place = SlotPlace::Greedy;
            self.fair.push(&mut self.links, s.leaf, slot);
        }
        self.syncs.going = 0;
    }

    /// A request with a numeric target close behind one that is held; it is not held with it.
    pub(super) fn number_behind(&self, slot: u32) -> Option<u32> {
        let behind = core::iter::successors(self.lane.after(slot), |&s| self.lane.after(s));
        behind.take(LOOK_BEHIND).find(|&s| self.slots[s as usize].number)
    }
}
