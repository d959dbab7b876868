//! The end of a period: statistics, retirement, donors and shortages, vrate, forgiveness, the next period
//! (specs/io-cost.md section 9).

use super::model::{ONE, abs_of};
use super::{IoCost, Now};
use crate::env::Cx;
use crate::request::Dir;
use crate::table::NIL;
use crate::unit::Instant;

/// What a period's requests met, in the terms in which saturation is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality {
    /// Requests over their latency by direction, in ppm.
    pub missed_ppm: [u64; 2],
    /// Time that requests waited for tags, in percent of the period; their sum, so it may exceed 100.
    pub wait_pct: u64,
}

/// What the active groups needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    pub lagging: u64,
    pub shortages: u64,
    pub usage_us: u64,
}

/// Percent of vrate that it moves by, for a busy level whose absolute value is below the first number.
///
/// Four periods must agree before anything moves by 1 %, so that noise moves nothing; 52 in a row move it
/// by 16 % a period, so that a wrong model is escaped from.
const STEPS: [(u64, u64); 6] = [(4, 0), (20, 1), (36, 2), (44, 4), (52, 8), (u64::MAX, 16)];

impl IoCost {
    /// The period timer has fired.
    pub(super) fn plan(&mut self, at: Instant, cx: &mut Cx<'_>) {
        self.periods += 1;
        let quality = self.take_quality();
        let now = self.now(at);
        let passed_v = now.v.wrapping_sub(self.period_at_vtime);
        if passed_v == 0 {
            // No time has passed (an `ideal` timer at the edge it was set at): try again.
            return self.start_period(&now);
        }
        let debtors = self.settle_nodes(&now);
        self.donors.clear();
        let demand = self.look_for_donors(passed_v, &now);
        if !self.donors.is_empty() && demand.shortages > 0 {
            self.transfer(&now);
        }
        self.shares.commit();
        self.move_busy_level(&quality, &demand);
        self.move_base_rate(&demand);
        cx.trace.why(at, "period: busy level, vrate", 0, self.busy_level, self.base_rate as i64);
        let class = self.class;
        self.refresh(false, now.us);
        if let Some(class) = self.class.filter(|&c| Some(c) != class) {
            cx.trace.why(at, class.name(), 0, self.period_us as i64, self.base_rate as i64);
        }
        self.forgive(debtors, demand.usage_us, &now);
        self.cur_period += 1;
        if self.active.is_empty() {
            self.busy_level = 0;
            self.vtime_err = 0;
            self.running = false;
        } else {
            self.start_period(&now);
        }
        self.compensate(&now);
    }

    /// Step 0.
    pub(super) fn take_quality(&mut self) -> Quality {
        let served = core::mem::take(&mut self.served);
        let missed = |dir: Dir| {
            let (met, missed) = (served.met[dir as usize], served.missed[dir as usize]);
            if missed == 0 { 0 } else { (missed * 1_000_000).div_ceil(met + missed) }
        };
        Quality {
            missed_ppm: [missed(Dir::Read), missed(Dir::Write)],
            wait_pct: served.wait_ns.saturating_mul(100) / (self.period_us * 1000),
        }
    }

    /// Steps 2 and 3: releases what may go, retires the idle, adds up the usage of the others.
    /// The number of nodes with debt or delay left.
    fn settle_nodes(&mut self, now: &Now) -> u64 {
        let mut debtors = 0;
        let mut n = self.active.head();
        while n != NIL {
            let next = self.links.next(n);
            self.note_times(n, now);
            let node = &self.shares[n];
            if !node.waiters.is_empty() || node.owes_or_is_delayed() {
                self.kick_waiters(n, true, now);
                debtors += u64::from(self.shares[n].owes_or_is_delayed());
            } else if node.active_period != self.cur_period && node.done_vtime == node.vtime {
                self.give_back_credit(n, now);
                self.retire(n);
                self.publish_node(n);
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
    fn give_back_credit(&mut self, n: u32, now: &Now) {
        let (_, hwi) = self.shares.of(n);
        let excess = (now.v.wrapping_sub(self.shares[n].vtime) as i64) - self.margins.target;
        if excess > 0 {
            self.vtime_err -= share_of(excess, hwi);
        }
    }

    /// The group leaves the active tree.
    pub(super) fn retire(&mut self, n: u32) {
        if self.shares[n].listed {
            self.shares.set(n, 0, 0, None);
            self.shares[n].listed = false;
            self.active.remove(&mut self.links, n);
        }
    }

    /// Step 4.
    pub(super) fn look_for_donors(&mut self, passed_v: u64, now: &Now) -> Demand {
        let mut demand = Demand::default();
        let latency_counts = self.qos.pct_ppm != [0, 0];
        let mut n = self.active.head();
        while n != NIL {
            demand.lagging += u64::from(latency_counts && self.lags(n, passed_v, now));
            demand.usage_us += self.shares[n].usage_us;
            if !self.may_donate(n, now) {
                demand.shortages += 1;
            } else if !self.donate(n, passed_v, now) && self.shares[n].debt == 0 {
                let active = self.shares[n].active;
                self.shares.set(n, active, active, Some(now.v));
                demand.shortages += 1;
            }
            n = self.links.next(n);
        }
        demand
    }

    /// 4a: it has had I/O in flight for longer than a period, but not for very long.
    ///
    /// Such an I/O is invisible to percentiles, which see completions only. The horizon keeps one stuck
    /// command from freezing vrate.
    pub(super) fn lags(&self, n: u32, passed_v: u64, now: &Now) -> bool {
        let node = &self.shares[n];
        let after = |a: u64, b: u64| a.wrapping_sub(b) as i64 > 0;
        let horizon = passed_v.wrapping_mul(self.set.lagging_periods);
        node.delay.uses() == 0
            && after(node.vtime, node.done_vtime)
            && after(node.vtime, now.v.wrapping_sub(horizon))
            && after(now.v.wrapping_sub(passed_v), node.done_vtime)
    }

    /// 4c: it donates already, or nothing waits and its credit is above the low margin.
    fn may_donate(&mut self, n: u32, now: &Now) -> bool {
        let (hwa, hwi) = self.shares.of(n);
        let node = &self.shares[n];
        let credit = now.v.wrapping_sub(node.vtime) as i64;
        hwi < hwa || (node.waiters.is_empty() && credit > self.margins.low)
    }

    /// Step 6.
    ///
    /// Between "saturated" and "fine" lies a band (`unbusy_pct`) in which nothing is concluded. vrate rises
    /// only if somebody was short: capacity that nobody wants says nothing about the limit.
    pub(super) fn move_busy_level(&mut self, quality: &Quality, demand: &Demand) {
        let s = &self.set;
        let allowed = self.qos.pct_ppm.map(|ppm| 1_000_000 - u64::from(ppm));
        let [read, write] = quality.missed_ppm;
        let saturated =
            quality.wait_pct > s.busy_wait_pct || read > allowed[0] || write > allowed[1];
        let fine = |value: u64, limit: u64| value <= limit * s.unbusy_pct / 100;
        let level = self.busy_level;
        self.busy_level = if saturated {
            level.max(0) + 1
        } else if fine(quality.wait_pct, s.busy_wait_pct)
            && fine(read, allowed[0])
            && fine(write, allowed[1])
            && demand.shortages > 0
        {
            level.min(0) - i64::from(demand.lagging == 0)
        } else {
            0
        };
        let most = s.busy_level_max as i64;
        self.busy_level = self.busy_level.clamp(-most, most);
    }

    /// Step 7.
    pub(super) fn move_base_rate(&mut self, demand: &Demand) {
        let (level, base) = (self.busy_level, self.base_rate);
        if level == 0 || (level < 0 && demand.lagging > 0) {
            return;
        }
        let (min, max, clamp) = (self.vrate_min, self.vrate_max, self.set.vrate_clamp_pct);
        self.base_rate = if base < min {
            (base * (100 + clamp) / 100).min(min)
        } else if base > max {
            // At least 1: a rate of 0 would stop the clock.
            (base * (100 - clamp) / 100).max(max).max(1)
        } else {
            let step = step_pct(level.unsigned_abs());
            let pct = if level > 0 { 100 - step } else { 100 + step };
            (base * pct).div_ceil(100).max(min).min(max)
        };
        self.refresh_margins();
    }

    /// Step 12: credit that was lost or won is spread over the rest of the period.
    ///
    /// The amount is known, so the clock of this period runs faster or slower by just that.
    pub(super) fn compensate(&mut self, now: &Now) {
        let base = self.base_rate as i64;
        let left = (self.period_at_us + self.period_us) as i64 - now.us as i64;
        if left > 0 {
            let more = (-(self.vtime_err / left)).clamp(-(base / 2), base);
            self.vtime_err += more * left;
            self.rate = (base + more) as u64;
        }
        let most = (self.period_us * self.base_rate) as i64;
        self.vtime_err = self.vtime_err.clamp(-most, most);
    }

    /// Used device time in us: what was charged, or is in flight, whichever is more (4c).
    pub(super) fn used_us(&mut self, n: u32) -> u64 {
        let (_, hwi) = self.shares.of(n);
        let node = &self.shares[n];
        let flying = node.vtime.wrapping_sub(node.done_vtime);
        if flying == 0 {
            return node.usage_us;
        }
        node.usage_us.max(abs_of(flying, hwi).div_ceil(self.base_rate))
    }
}

/// Percent by which vrate moves at this busy level.
pub(super) fn step_pct(level: u64) -> u64 {
    STEPS.iter().find(|&&(below, _)| level < below).map_or(16, |&(_, pct)| pct)
}

/// The part of a positive length of vtime that a share is, rounded down.
pub(super) fn share_of(v: i64, share: u64) -> i64 {
    (i128::from(v) * i128::from(share) / i128::from(ONE)) as i64
}
