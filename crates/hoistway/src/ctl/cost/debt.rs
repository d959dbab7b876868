//! Debt of I/O that could not wait, delay of the tasks that make it, and forgiveness (specs/io-cost.md
//! section 8).

use super::IoCost;
use super::model::{abs_of, cost_of};
use super::settings::CostConf;
use super::vrate::Now;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::request::Io;
use crate::rows::Id;
use crate::unit::{Instant, Nanos};

/// When debts were last looked at (8.3).
///
/// A group of low weight could pay for seconds on a device nobody else uses. Not on a busy one: low use
/// may also mean that the device chokes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forgiveness {
    pub at_us: u64,
    /// Rest of whole forgiveness times.
    pub rest_us: u64,
    pub usage_us: u64,
}

impl Forgiveness {
    /// Somebody is active again.
    pub fn begin(&mut self, now_us: u64) {
        self.at_us = now_us;
        self.rest_us = 0;
    }

    /// At the end of a period in which `usage_us` was used, with so many debtors: how often debts and delays are
    /// halved now; `None`: not yet, or not at all.
    pub fn halvings(
        &mut self,
        debtors: u64,
        usage_us: u64,
        now_us: u64,
        s: &CostConf,
    ) -> Option<u64> {
        if debtors == 0 {
            *self = Forgiveness { at_us: now_us, rest_us: 0, usage_us: 0 };
            return None;
        }
        self.usage_us += usage_us;
        let time = s.forgive_ms * 1000;
        if now_us < self.at_us + time {
            return None;
        }
        let passed = now_us - self.at_us;
        let pct = 100 * self.usage_us / passed;
        self.at_us = now_us;
        self.usage_us = 0;
        if pct > s.forgive_usage_pct {
            self.rest_us = 0;
            return None;
        }
        let halvings = ((passed + self.rest_us) / time).min(63);
        self.rest_us = (passed + self.rest_us) % time;
        Some(halvings)
    }
}

/// 8.2: the delay in us for so much overuse in vtime, in a period of so much vtime.
///
/// Linear between two bounds; Linux's own authors call the result harsh and choppy.
pub(super) fn delay_for(over: i64, period_v: u64, s: &CostConf) -> u64 {
    let pct = i128::from(over) * 100 / i128::from(period_v.max(1));
    if pct <= i128::from(s.delay_from_pct) {
        return 0;
    }
    if pct >= i128::from(s.delay_to_pct) {
        return s.delay_max_us;
    }
    // Between the two bounds, which therefore differ.
    let part = (pct as u64) - s.delay_from_pct;
    let range = s.delay_max_us.saturating_sub(s.delay_min_us);
    s.delay_min_us + range * part / (s.delay_to_pct - s.delay_from_pct)
}

impl IoCost {
    /// 8.1: the group owes the cost. A debtor keeps the least share and gives the rest away.
    ///
    /// Debt is kept in absolute cost: as vtime it would be priced at the share of the moment, which for a
    /// debtor is tiny. A debtor cannot issue, so all but the least of its share is worth more to others.
    pub(super) fn incur(&mut self, n: GroupId, c: u64, now: &Now) {
        let node = &self.shares[n];
        if node.debt == 0 && c > 0 {
            let active = node.weights.active;
            self.shares.set(n, active, 0, None);
            self.shares.commit();
            self.shares[n].times.indebted = Some(now.us);
            self.shares[n].timed = true;
        }
        let node = &mut self.shares[n];
        node.debt = node.debt.saturating_add(c);
        node.usage += c;
    }

    /// 7 step 2: pays from a positive credit; the vtime it took.
    ///
    /// At the share of its active weight: at the debtor's own inuse it would pay for ever.
    pub(super) fn pay(&mut self, n: GroupId, credit: u64, hwa: u64, now: &Now) -> i64 {
        let node = &mut self.shares[n];
        let paid = abs_of(credit, hwa).min(node.debt);
        let v = cost_of(paid, hwa);
        node.time.shift(v);
        node.debt -= paid;
        if node.debt == 0 {
            let (active, inuse) = (node.weights.active, node.last_inuse);
            self.shares.set(n, active, inuse, None);
            self.shares.commit();
            self.debt_ended(n, now);
        }
        v as i64
    }

    /// 8.2: sets, keeps or ends the delay of a group's tasks. True while there is one.
    ///
    /// Not the I/O creates the debt but the memory allocated behind it, so the *task* is slowed. The delay
    /// grows with the overuse and halves by itself each second.
    pub(super) fn kick_delay(&mut self, n: GroupId, now: &Now) -> bool {
        if now.us < self.shares[n].slow.at_us {
            return false;
        }
        let (hwa, _) = self.shares.of(n);
        let node = &self.shares[n];
        let seconds = (now.us - node.slow.at_us) / 1_000_000;
        let mut current = if seconds > 63 { 0 } else { node.slow.us >> seconds };
        let owed = super::submit::debt_in_vtime(node.debt, hwa);
        let over = node.time.ahead_of(now.v).saturating_add(owed);
        let new = delay_for(over, self.params.period_us * self.clock.base_rate, &self.conf);
        if new > current {
            let node = &mut self.shares[n];
            node.slow.us = new;
            node.slow.at_us = now.us;
            current = new;
        }
        let least = self.conf.delay_min_us;
        let node = &mut self.shares[n];
        if current >= least {
            node.slow.tasks.set(Nanos::us(current));
            node.times.delayed.get_or_insert(now.us);
            node.timed = true;
            return true;
        }
        node.slow.us = 0;
        node.slow.tasks.clear();
        self.delay_ended(n, now);
        false
    }

    /// After I/O that could not wait: is its task to be delayed on its way back?
    pub(super) fn check_delay_of(&mut self, n: GroupId, io: &Io, now: &Now) {
        if !self.kick_delay(n, now) || io.proc == ProcId::NONE {
            return;
        }
        self.checks.ask(io.proc.index());
    }

    /// The longest delay on the way from the task's group to below the root, if its check was asked for.
    pub(super) fn sleep_of(&mut self, at: Instant, proc: ProcId, cx: &Cx<'_>) -> Nanos {
        if proc == ProcId::NONE || !self.checks.take(proc.index()) {
            return Nanos::ZERO;
        }
        let mut longest = Nanos::ZERO;
        let mut n = cx.procs.group(proc);
        while n != GroupId::ROOT && self.shares.get(n).is_some() {
            let node = &mut self.shares[n];
            longest = longest.max(node.slow.tasks.sleep(at));
            n = node.parent;
        }
        longest
    }

    /// Does a task of this group meet a delay?
    pub(super) fn is_congested(&self, group: GroupId) -> bool {
        let met = |n: GroupId| self.shares[n].slow.tasks.uses() != 0;
        self.shares.get(group).is_some() && (met(group) || self.shares.ancestors(group).any(met))
    }

    /// 8.3, at the end of a period: `debtors` nodes have debt or delay, `usage_us` was used. While the
    /// device is little used, debts and delays are halved once per forgiveness time.
    pub(super) fn forgive(&mut self, debtors: u64, usage_us: u64, now: &Now) {
        // A saturated device is not little used, whatever the model says.
        let saturated = self.clock.busy_level > 0;
        let used = if saturated { usage_us.max(self.params.period_us) } else { usage_us };
        let Some(halvings) = self.forgiveness.halvings(debtors, used, now.us, &self.conf) else {
            return;
        };
        let mut n = self.active.first();
        while n.is_some() {
            let next = self.active.next(n);
            let node = &mut self.shares[n];
            if node.owes_or_is_delayed() {
                for owed in [&mut node.debt, &mut node.slow.us] {
                    if *owed != 0 {
                        *owed = (*owed >> halvings).max(1);
                    }
                }
                self.kick_waiters(n, true, now);
            }
            n = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::cost::settings::SETTINGS;

    /// 100 ms, 50 %.
    fn after(us: u64, usage_us: u64) -> (Option<u64>, u64) {
        let mut f = Forgiveness::default();
        f.begin(1000);
        (f.halvings(1, usage_us, 1000 + us, &SETTINGS.defaults()), f.rest_us)
    }

    #[test]
    fn debts_are_halved_per_hundred_ms_of_little_use() {
        assert_eq!(after(99_999, 0), (None, 0));
        assert_eq!(after(100_000, 0), (Some(1), 0));
        assert_eq!(after(350_000, 0), (Some(3), 50_000), "the rest counts next time");
        assert_eq!(after(100_000_000, 0), (Some(63), 0));
    }

    #[test]
    fn above_half_of_use_nothing_is_forgiven() {
        assert_eq!(after(100_000, 50_000), (Some(1), 0));
        assert_eq!(after(100_000, 50_999), (Some(1), 0), "whole percents");
        assert_eq!(after(100_000, 51_000), (None, 0));
    }

    #[test]
    fn use_adds_up_over_periods_and_without_debtors_all_begins_anew() {
        let s = SETTINGS.defaults();
        let mut f = Forgiveness::default();
        assert_eq!(f.halvings(1, 60_000, 50_000, &s), None);
        assert_eq!(f.halvings(1, 0, 100_000, &s), None, "60 %");
        assert_eq!(f.halvings(1, 0, 250_000, &s), Some(1));
        assert_eq!(f.halvings(0, 0, 300_000, &s), None);
        assert_eq!((f.at_us, f.rest_us), (300_000, 0));
    }

    #[test]
    fn delays_grow_between_two_bounds() {
        let s = SETTINGS.defaults();
        let delay = |pct: i64| delay_for(pct * 1000, 100_000, &s);
        let [from, to] = [s.delay_from_pct, s.delay_to_pct].map(|p| p as i64);
        assert_eq!([-5, 0, from].map(delay), [0; 3]);
        assert!(delay(from + 1) >= s.delay_min_us && delay(from + 1) < delay(to - 1));
        assert_eq!([to, 100 * to].map(delay), [s.delay_max_us; 2]);
        assert_eq!(delay_for(5, 0, &s), 0, "a period of no time divides nothing by 0");
    }
}
