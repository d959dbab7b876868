//! The end of a period: statistics, retirement, donors and shortages, vrate, forgiveness, the next period
//! (specs/io-cost.md section 9).

use super::IoCost;
use super::donate::{Donor, kept_share};
use super::model::{ONE, abs_of};
use super::vrate::{Demand, Now};
use crate::env::Cx;
use crate::group::GroupId;
use crate::rows::Id;
use crate::unit::Instant;

impl IoCost {
    /// The period timer has fired.
    pub(super) fn plan(&mut self, at: Instant, cx: &mut Cx<'_>) {
        self.stats.periods += 1;
        let quality = self.served.take(self.params.period_us);
        let now = self.clock.at(at);
        let passed_v = now.v.wrapping_sub(self.clock.start_v);
        if passed_v == 0 {
            // No time has passed (an `ideal` timer at the edge it was set at): try again.
            return self.start_period(&now, true);
        }
        let debtors = self.settle_nodes(&now);
        self.donation.donors.clear();
        let demand = self.look_for_donors(passed_v, &now);
        if !self.donation.donors.is_empty() && demand.shortages > 0 {
            self.donation.transfer(&mut self.shares, &now);
        }
        self.shares.commit();
        let allowed = self.params.qos.pct_ppm.map(|ppm| 1_000_000 - u64::from(ppm));
        self.clock.judge(&quality, &demand, allowed, &self.conf);
        if self.clock.steer(&demand, self.conf.vrate_clamp_pct) {
            self.clock.measure_margins(self.params.period_us, &self.conf);
        }
        let (level, base) = (self.clock.busy_level, self.clock.base_rate as i64);
        cx.trace.why(at, "period: busy level, vrate", 0, level, base);
        let class = self.params.class;
        self.refresh(false, now.us);
        if let Some(class) = self.params.class.filter(|&c| Some(c) != class) {
            cx.trace.why(at, class.name(), 0, self.params.period_us as i64, base);
        }
        self.forgive(debtors, demand.usage_us, &now);
        self.period.number += 1;
        if self.active.is_empty() {
            self.clock.rest();
            self.period.running = false;
        } else {
            self.start_period(&now, true);
        }
        self.clock.compensate(&now, self.params.period_us);
    }

    /// Steps 2 and 3: releases what may go, retires the idle, adds up the usage of the others.
    /// The number of nodes with debt or delay left.
    fn settle_nodes(&mut self, now: &Now) -> u64 {
        let mut debtors = 0;
        let mut n = self.active.first();
        while n.is_some() {
            let next = self.active.next(n);
            self.note_times(n, now);
            let node = &self.shares[n];
            if !node.waiters.is_empty() || node.owes_or_is_delayed() {
                self.kick_waiters(n, true, now);
                debtors += u64::from(self.shares[n].owes_or_is_delayed());
            } else if node.active_period != self.period.number && node.time.is_idle() {
                // What it waited in its last period is shown when it comes back.
                self.give_back_credit(n, now);
                self.retire(n);
                n = next;
                continue;
            }
            self.publish_usage(n);
            n = next;
        }
        self.shares.commit();
        debtors
    }

    /// An idle group leaves credit above its target to the device.
    ///
    /// Credit above the target is device time that nobody used; a group must not save it up.
    fn give_back_credit(&mut self, n: GroupId, now: &Now) {
        let (_, hwi) = self.shares.of(n);
        let excess = self.shares[n].time.credit(now.v) - self.clock.margins.target;
        if excess > 0 {
            self.clock.err -= share_of(excess, hwi);
        }
    }

    /// The group leaves the active tree.
    pub(super) fn retire(&mut self, n: GroupId) {
        if self.shares[n].listed {
            self.shares.set(n, 0, 0, None);
            self.shares[n].listed = false;
            self.active.remove(n);
        }
    }

    /// Step 4.
    pub(super) fn look_for_donors(&mut self, passed_v: u64, now: &Now) -> Demand {
        let mut demand = Demand::default();
        let latency_counts = self.params.qos.pct_ppm != [0, 0];
        let mut n = self.active.first();
        while n.is_some() {
            demand.lagging += u64::from(latency_counts && self.lags(n, passed_v, now));
            demand.usage_us += self.shares[n].period.usage_us;
            if !self.may_donate(n, now) {
                demand.shortages += 1;
            } else if !self.donate(n, passed_v, now) && self.shares[n].debt == 0 {
                let active = self.shares[n].weights.active;
                self.shares.set(n, active, active, Some(now.v));
                demand.shortages += 1;
            }
            n = self.active.next(n);
        }
        demand
    }

    /// 4a: it has had I/O in flight for longer than a period, but not for very long.
    ///
    /// Such an I/O is invisible to percentiles, which see completions only. The horizon keeps one stuck
    /// command from freezing vrate.
    pub(super) fn lags(&self, n: GroupId, passed_v: u64, now: &Now) -> bool {
        let node = &self.shares[n];
        let after = |a: u64, b: u64| a.wrapping_sub(b) as i64 > 0;
        let horizon = passed_v.wrapping_mul(self.conf.lagging_periods);
        node.slow.tasks.uses() == 0
            && after(node.time.charged, node.time.done)
            && after(node.time.charged, now.v.wrapping_sub(horizon))
            && after(now.v.wrapping_sub(passed_v), node.time.done)
    }

    /// 4c: it donates already, or nothing waits and its credit is above the low margin.
    fn may_donate(&mut self, n: GroupId, now: &Now) -> bool {
        let (hwa, hwi) = self.shares.of(n);
        let node = &self.shares[n];
        let credit = node.time.credit(now.v);
        hwi < hwa || (node.waiters.is_empty() && credit > self.clock.margins.low)
    }

    /// Step 4c of the plan: is this group a donor? If so it is listed.
    fn donate(&mut self, n: GroupId, passed_v: u64, now: &Now) -> bool {
        let used = self.used_us(n);
        let since = self.shares[n].period.activated_at_us.max(self.clock.start_us);
        let dur = now.us.saturating_sub(since).max(1);
        let share = used.saturating_mul(ONE).div_ceil(dur).clamp(1, ONE);
        let most = self.shares.at_most(n);
        let (hwa, hwi) = self.shares.of(n);
        let after = self.after_donation(n, [hwi, most, share], passed_v, now);
        if after < most && hwa >= 2 {
            self.donation.donors.push(Donor { node: n, donating: hwa, after });
            return true;
        }
        false
    }

    /// 9.1: what the group keeps, of `most`. Credit above the target goes back to the device at once.
    pub(super) fn after_donation(
        &mut self,
        n: GroupId,
        [hwi, most, share]: [u64; 3],
        passed_v: u64,
        now: &Now,
    ) -> u64 {
        let margins = self.clock.margins;
        let node = &mut self.shares[n];
        if node.debt != 0 {
            return 1;
        }
        let credit = node.time.credit(now.v);
        if !node.waiters.is_empty() || credit < margins.min {
            return most;
        }
        let excess = credit - margins.target;
        if excess > 0 {
            node.time.shift(excess as u64);
            self.clock.err -= share_of(excess, hwi);
        }
        // Not negative: it was at least the least margin, and was taken down to the target.
        let credit = now.v.wrapping_sub(node.time.charged);
        kept_share(share, credit, passed_v, most, self.conf.donation_32bit != 0)
    }

    /// Used device time in us: what was charged, or is in flight, whichever is more (4c).
    pub(super) fn used_us(&mut self, n: GroupId) -> u64 {
        let (_, hwi) = self.shares.of(n);
        let node = &self.shares[n];
        let flying = node.time.in_flight();
        if flying == 0 {
            return node.period.usage_us;
        }
        node.period.usage_us.max(abs_of(flying, hwi).div_ceil(self.clock.base_rate))
    }
}

/// The part of a positive length of vtime that a share is, rounded down.
pub(super) fn share_of(v: i64, share: u64) -> i64 {
    (i128::from(v) * i128::from(share) / i128::from(ONE)) as i64
}
