//! Debt of I/O that could not wait, delay of the tasks that make it, and forgiveness (specs/io-cost.md
//! section 8).

use super::model::{abs_of, cost_of};
use super::{IoCost, Now};
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::request::Io;
use crate::table::NIL;
use crate::unit::{Instant, Nanos};

impl IoCost {
    /// 8.1: the group owes the cost. A debtor keeps the least share and gives the rest away.
    ///
    /// Debt is kept in absolute cost: as vtime it would be priced at the share of the moment, which for a
    /// debtor is tiny. A debtor cannot issue, so all but the least of its share is worth more to others.
    pub(super) fn incur(&mut self, n: u32, c: u64, now: &Now) {
        let node = &self.shares[n];
        if node.debt == 0 && c > 0 {
            let active = node.active;
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
    pub(super) fn pay(&mut self, n: u32, credit: u64, hwa: u64, now: &Now) -> i64 {
        let node = &mut self.shares[n];
        let paid = abs_of(credit, hwa).min(node.debt);
        let v = cost_of(paid, hwa);
        node.vtime = node.vtime.wrapping_add(v);
        node.done_vtime = node.done_vtime.wrapping_add(v);
        node.debt -= paid;
        if node.debt == 0 {
            let (active, inuse) = (node.active, node.last_inuse);
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
    pub(super) fn kick_delay(&mut self, n: u32, now: &Now) -> bool {
        if now.us < self.shares[n].delay_at_us {
            return false;
        }
        let (hwa, _) = self.shares.of(n);
        let node = &self.shares[n];
        let seconds = (now.us - node.delay_at_us) / 1_000_000;
        let mut current = if seconds > 63 { 0 } else { node.delay_us >> seconds };
        let owed = super::submit::debt_in_vtime(node.debt, hwa);
        let over = (node.vtime.wrapping_sub(now.v) as i64).saturating_add(owed);
        let new = self.delay_for(over);
        if new > current {
            let node = &mut self.shares[n];
            node.delay_us = new;
            node.delay_at_us = now.us;
            current = new;
        }
        let least = self.set.delay_min_us;
        let node = &mut self.shares[n];
        if current >= least {
            node.delay.set(Nanos::us(current));
            node.times.delayed.get_or_insert(now.us);
            node.timed = true;
            return true;
        }
        node.delay_us = 0;
        node.delay.clear();
        self.delay_ended(n, now);
        false
    }

    /// The delay in us for so much overuse in vtime.
    ///
    /// Linear between two bounds; Linux's own authors call the result harsh and choppy.
    pub(super) fn delay_for(&self, over: i64) -> u64 {
        let s = &self.set;
        let period = (self.period_us * self.base_rate).max(1);
        let pct = i128::from(over) * 100 / i128::from(period);
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

    /// After I/O that could not wait: is its task to be delayed on its way back?
    pub(super) fn check_delay_of(&mut self, n: u32, io: &Io, now: &Now) {
        if !self.kick_delay(n, now) || io.proc == ProcId::NONE {
            return;
        }
        let at = io.proc.index();
        if at >= self.checks.len() {
            self.checks.resize((at + 1).next_power_of_two(), false);
        }
        if !core::mem::replace(&mut self.checks[at], true) {
            self.checks_set += 1;
        }
    }

    /// The longest delay on the way from the task's group to below the root, if its check was asked for.
    pub(super) fn sleep_of(&mut self, at: Instant, proc: ProcId, cx: &Cx<'_>) -> Nanos {
        let asked = proc != ProcId::NONE && self.checks.get(proc.index()).copied() == Some(true);
        if !asked {
            return Nanos::ZERO;
        }
        self.checks[proc.index()] = false;
        self.checks_set -= 1;
        let group = cx.procs.group(proc);
        let mut longest = Nanos::ZERO;
        let mut n = group.0;
        while n != NIL && n != 0 && (n as usize) < self.shares.len() {
            let node = &mut self.shares[n];
            longest = longest.max(node.delay.sleep(at));
            n = node.parent;
        }
        longest
    }

    /// Does a task of this group meet a delay?
    pub(super) fn is_congested(&self, group: GroupId) -> bool {
        let own = self.shares.get(group.0).map(|_| group.0);
        let met = |n: u32| self.shares[n].delay.uses() != 0;
        own.is_some_and(|n| met(n) || self.shares.ancestors(n).any(met))
    }

    /// 8.3, at the end of a period: `debtors` nodes have debt or delay, `usage_us` was used. While the
    /// device is little used, debts and delays are halved once per forgiveness time.
    ///
    /// A group of low weight could pay for seconds on a device nobody else uses. Not on a busy one: low use
    /// may also mean that the device chokes.
    pub(super) fn forgive(&mut self, debtors: u64, usage_us: u64, now: &Now) {
        let f = &mut self.forgiveness;
        if debtors == 0 {
            *f = super::Forgiveness { at_us: now.us, rest_us: 0, usage_us: 0 };
            return;
        }
        // A saturated device is not little used, whatever the model says.
        f.usage_us += if self.busy_level > 0 { usage_us.max(self.period_us) } else { usage_us };
        let time = self.set.forgive_ms * 1000;
        if now.us < f.at_us + time {
            return;
        }
        let passed = now.us - f.at_us;
        let pct = 100 * f.usage_us / passed;
        f.at_us = now.us;
        f.usage_us = 0;
        if pct > self.set.forgive_usage_pct {
            f.rest_us = 0;
            return;
        }
        let halvings = ((passed + f.rest_us) / time).min(63);
        f.rest_us = (passed + f.rest_us) % time;
        let mut n = self.active.head();
        while n != NIL {
            let next = self.links.next(n);
            let node = &mut self.shares[n];
            if node.owes_or_is_delayed() {
                for owed in [&mut node.debt, &mut node.delay_us] {
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
