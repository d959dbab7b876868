//! Rotational drives: the same tags, lane, price and pacing, with slices, and time as the unit of service.
//!
//! *Problem.* On a disk a change between streams costs as much as a megabyte, so fairness by requests means seeking
//! all the time; and a request of a stream costs a tenth of a random one, so service is not size.
//!
//! *Idea.* A leaf that streams is served for a *slice* of time. What the disk took is charged at completion. The
//! lane interrupts a slice when it has paid for the way there and back, or when its deadline comes.
//!
//! *Rule.* A slice is 20 services long, 400 to 800 ms, times weight over mean weight; four requests of it are
//! inside; when it runs dry the disk stays idle for twice its think time, at most 8 ms. It drains before the next is
//! chosen. While a request of the lane is inside, nothing of a stream is sent. Random requests go 31 at a time while
//! no stream waits, so that the drive can order them.
//!
//! *Weaknesses.* The drive reorders what is inside, so weights of random processes hold only roughly; a target without
//! a number waits up to 500 ms beside streams.
//!
//! Source: specs/paternoster.md 8.

use super::fair::LeafId;
use super::lane::Waiting;
use super::valve::UNIT;
use super::{Paternoster, Slot};
use crate::env::Cx;
use crate::sched::Dispatch;
use crate::unit::{Instant, Nanos};

/// One unit of service, in ns of disk time.
const UNIT_TIME: u64 = 64_000;
const SLICE_LEAST: Nanos = Nanos::ms(400);
const SLICE_MOST: Nanos = Nanos::ms(800);
const SLICE_SERVICES: u64 = 20;
/// Requests of a stream inside.
const STREAM_DEPTH: u32 = 4;
/// Random requests inside while no stream waits: one less than a disk's queue.
const RANDOM_DEPTH: u32 = 31;
/// Units of random requests beside one of the lane: 29 of 4 KiB. With 21 of them a disk that orders what is inside
/// delivers 93 % of what it can, with these 95 to 96 %, and the lane waits as long (32 random readers and a target).
const BESIDE_LANE: u64 = 44 * UNIT;
/// Whoever thinks longer is not waited for.
const THINK_LONG: Nanos = Nanos::ms(3);
const WAIT_MOST: Nanos = Nanos::ms(8);
const WAIT_SLACK: Nanos = Nanos::us(200);
/// What a change of place is taken to cost.
const CHANGE: u64 = 128 * UNIT;
/// A visit of the lane costs three times its own time: the way there and the way back.
const VISIT_COST: u64 = 3;

/// The turn of a leaf that streams.
#[derive(Clone, Copy, Debug)]
struct Slice {
    leaf: LeafId,
    budget: Nanos,
    used: Nanos,
    began: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    slice: Option<Slice>,
    /// Requests of the lane that still go in this visit.
    visit: u32,
}

impl Disk {
    pub fn is_slicing(&self) -> bool {
        self.slice.is_some()
    }

    pub fn reset(&mut self) {
        self.slice = None;
        self.visit = 0;
    }
}

impl Paternoster {
    pub(super) fn dispatch_disk(&mut self, now: Instant, cx: &mut Cx<'_>) -> Dispatch {
        self.end_slice(now);
        if let Some(slot) = self.lane.first()
            && self.lane_goes(now, slot)
        {
            self.disk.visit = match self.disk.visit {
                0 => self.lane.waiting() - 1,
                n => n - 1,
            };
            return self.issue_lane(slot, cx);
        }
        if self.fair.waiting() > 0
            && !self.leader_holds(now)
            && let Some((leaf, chosen)) = self.disk_choice(now, cx)
        {
            return self.issue_greedy(leaf, chosen, cx);
        }
        Dispatch::Idle
    }

    /// May the first request of the lane go now? If not, a time is named at which it may.
    fn lane_goes(&mut self, now: Instant, slot: u32) -> bool {
        if self.slots[slot as usize].leads {
            return true;
        }
        let streams = self.disk.is_slicing() || self.fair.streams() > 0;
        if !streams || self.disk.visit > 0 {
            self.disk.visit = if streams { self.disk.visit } else { 0 };
            return true;
        }
        let w = self.waiting_of(slot);
        match self.disk_wait(now, slot, &w) {
            Some(until) if self.inside > 0 || self.fair.waiting() > 0 || self.disk.is_slicing() => {
                self.wake_by(until);
                false
            }
            _ => true,
        }
    }

    fn disk_wait(&self, now: Instant, slot: u32, w: &Waiting) -> Option<Instant> {
        if w.number {
            let ahead = self.lane.service_peak + self.lane.service;
            let due = self.lane.deadline(slot).as_nanos().saturating_sub(ahead.0);
            let due = Instant::from_nanos(due);
            return (due > now).then_some(due);
        }
        self.lane.paced_beyond(now, w, CHANGE)
    }

    /// Which leaf's request goes; `None`: nothing for now.
    fn disk_choice(&mut self, now: Instant, cx: &Cx<'_>) -> Option<(LeafId, bool)> {
        if let Some(slice) = self.disk.slice {
            if self.lane.inside > 0 {
                return None;
            }
            let leaf = self.fair.leaf(slice.leaf);
            let spent = slice.used >= slice.budget;
            if spent || leaf.inside >= STREAM_DEPTH {
                return None;
            }
            if !leaf.fifo.is_empty() {
                return Some((slice.leaf, false));
            }
            return None;
        }
        let leaf = self.fair.smallest()?;
        let greedy_inside = self.inside - self.lane.inside;
        if self.fair.leaf(leaf).is_stream() {
            if self.inside > 0 {
                return None;
            }
            self.begin_slice(now, leaf);
            return Some((leaf, true));
        }
        let depth = if self.fair.streams() > 0 { STREAM_DEPTH } else { RANDOM_DEPTH };
        if greedy_inside >= depth {
            return None;
        }
        let units = self.units_of(self.fair.head(leaf), cx);
        let crowded = self.lane.inside > 0 && self.w + units > BESIDE_LANE && self.w > 0;
        (!crowded).then_some((leaf, true))
    }

    fn begin_slice(&mut self, now: Instant, leaf: LeafId) {
        let base = (self.lane.service * SLICE_SERVICES).clamp(SLICE_LEAST, SLICE_MOST);
        let (weight, mean) = self.fair.share_of(leaf);
        let budget = u128::from(base.0) * u128::from(weight) / u128::from(mean);
        let budget = Nanos(budget as u64).max(base / 8).min(base * 4);
        self.disk.slice = Some(Slice { leaf, budget, used: Nanos::ZERO, began: now });
    }

    /// Ends the slice when it is used up and drained, or nobody is worth waiting for; names the time of the wait.
    fn end_slice(&mut self, now: Instant) {
        let Some(slice) = &mut self.disk.slice else { return };
        let leaf = self.fair.leaf(slice.leaf);
        if leaf.inside > 0 {
            return;
        }
        if !leaf.fifo.is_empty() {
            if slice.used >= slice.budget {
                if self.fair.others_wait(slice.leaf) {
                    self.disk.slice = None;
                } else {
                    slice.used = Nanos::ZERO;
                }
            }
            return;
        }
        let until =
            leaf.idle_since().unwrap_or(slice.began) + (leaf.think * 2 + WAIT_SLACK).min(WAIT_MOST);
        if slice.used >= slice.budget || leaf.think >= THINK_LONG || until <= now || !leaf.sync {
            self.disk.slice = None;
        } else {
            self.wake_by(until);
        }
    }

    /// Time is the service here: what the disk took since the last completion, or since the request was sent.
    pub(super) fn completed_disk(&mut self, took: Nanos, s: &Slot) {
        let time_units = took.0 * UNIT / UNIT_TIME;
        self.fair.charge(s.leaf, time_units.saturating_sub(u64::from(s.units)), false);
        if s.lane {
            if self.disk.is_slicing() && !s.leads {
                self.lane.owes(time_units * VISIT_COST);
            }
            return;
        }
        self.lane.pays(time_units);
        if let Some(slice) = &mut self.disk.slice
            && slice.leaf == s.leaf
        {
            slice.used += took;
        }
    }
}
