//! A request goes to the drive: it is taken from where it waits, and who sent it pays.

use super::disk::service;
use super::lane::InForce;
use super::measure::Units;
use super::{LeafId, Paternoster, SlotPlace, units};
use crate::env::Cx;
use crate::request::{ReqId, Request};
use crate::unit::{Nanos, Sectors};

/// Of a budget, where time is counted: the burst is 8 ms then.
const SECTOR_TIME: Nanos = Nanos::us(64);

/// What goes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next<'a> {
    /// The first that the device gave back: it has been paid for.
    Returned,
    /// A request of the lane, by its slot.
    Lane(u32),
    /// The first of the sync writes that wait together.
    Sync,
    /// The oldest of a leaf, which is `r`; `chosen`: because its tags are smallest.
    Greedy { leaf: LeafId, r: &'a Request, chosen: bool },
}

impl Paternoster {
    // One call matters, the other is that of a drain.
    #[inline(always)]
    pub(super) fn issue(&mut self, next: Next<'_>, cx: &Cx<'_>) -> ReqId {
        let r = match next {
            Next::Returned => cx.requests.at(self.returned.take_first(&mut self.links)),
            Next::Lane(slot) => {
                self.lane.remove(slot);
                cx.requests.at(slot)
            }
            Next::Sync => {
                self.syncs.going = self.syncs.going.saturating_sub(1);
                cx.requests.at(self.syncs.list.take_first(&mut self.links))
            }
            Next::Greedy { r, leaf, chosen } => {
                self.fair.take_first(&mut self.links, leaf);
                if chosen {
                    (self.run_leaf, self.run_units) = (leaf, 0);
                }
                self.run_units += units(r);
                r
            }
        };
        let units = units(r);
        let s = &mut self.slots[r.id.index()];
        (s.place, s.units, s.lone) = (SlotPlace::Inside, units as u32, self.inside == 0);
        s.far = self.media.sent(r.start, r.end());
        let (leaf, lane, auto, sync_write) = (s.leaf, s.lane, s.auto, s.sync_write);
        self.fair.sent(leaf);
        if !matches!(next, Next::Returned) {
            let cost = if self.is_serial(cx) { 0 } else { units };
            self.fair.charge(leaf, cost, matches!(next, Next::Greedy { chosen: true, .. }));
        }
        self.waiting -= 1;
        self.inside += 1;
        if lane {
            self.lane_sent(units, auto, r, cx);
        } else {
            self.greedy_sent(units, sync_write, r, cx);
        }
        self.valve.issued(r.start, r.end(), Units(self.w));
        r.id
    }

    #[inline]
    fn lane_sent(&mut self, units: u64, auto: bool, r: &Request, cx: &Cx<'_>) {
        let greedy = self.fair.waiting() > 0;
        self.lane.issued(units, self.valve.change().0, greedy);
        self.lane_w += units;
        self.counts.lane += 1;
        if auto
            && greedy
            && !self.is_serial(cx)
            && let Some(InForce { owner, .. }) = self.lane.target(r.group)
        {
            self.budget.take(owner, r.sectors, self.spare());
        }
    }

    #[inline]
    fn greedy_sent(&mut self, units: u64, sync_write: bool, r: &Request, cx: &Cx<'_>) {
        self.lane.greedy_issued(units);
        self.w += units;
        self.counts.greedy += 1;
        if self.budget.is_used() && !self.is_serial(cx) {
            self.budget.pay(r.sectors, self.spare());
        }
        if sync_write {
            self.sync_w += units;
        } else {
            self.flushes.price.pay(Units(units));
        }
    }

    /// Who had a drive that serves one request at a time pays for the time, and a target's budget too: what the others
    /// lose is that, whatever it moved.
    #[cold]
    pub(super) fn completed_serial(&mut self, took: Nanos, id: ReqId, cx: &Cx<'_>) {
        let (s, r) = (self.slots[id.index()], &cx.requests[id]);
        self.fair.charge(s.leaf, service(took), false);
        let time = Sectors(took.0.div_ceil(SECTOR_TIME.0));
        if !s.lane {
            if self.budget.is_used() {
                self.budget.pay(time, self.spare());
            }
        } else if s.auto
            && self.fair.waiting() > 0
            && let Some(InForce { owner, .. }) = self.lane.target(r.group)
        {
            self.budget.take(owner, time, self.spare());
        }
    }

    fn spare(&self) -> u64 {
        self.budget.spare(self.valve.short().0)
    }
}
