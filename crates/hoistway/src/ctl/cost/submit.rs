//! The path of an I/O: activation, price, passing or waiting, release, completion (specs/io-cost.md 5.1, 6
//! and 7).

use super::IoCost;
use super::held::BioNo;
use super::model::{ONE, cost_of};
use super::vrate::Now;
use super::weights::ceil_of;
use crate::ctl::{Verdict, tick_of};
use crate::env::Cx;
use crate::group::GroupId;
use crate::request::{BioId, Dir, Io, Op, ReqId};
use crate::rows::Id;
use crate::unit::Instant;
use alloc::vec::Vec;

impl IoCost {
    /// 6: may this bio pass?
    pub(super) fn arrive(&mut self, at: Instant, bio: BioId, cx: &Cx<'_>) -> Verdict {
        self.bios.forget(bio);
        let io = *cx.requests.bio(bio);
        let Some(dir) = self.costs(&io) else { return Verdict::Pass };
        let now = self.clock.at(at);
        let n = self.payer(io.group, &now, cx);
        if n == GroupId::ROOT {
            // The root's own.
            return Verdict::Pass;
        }
        let (start, cursor) = (io.start.0, self.shares[n].cursor);
        let c = self.params.model.cost(dir, start, io.sectors.0, cursor, self.conf.random_pages);
        if c == 0 || !self.activate(n, &now) {
            return Verdict::Pass;
        }
        self.shares[n].cursor = io.end().0;
        let k = self.price(n, c, &now);
        let node = &self.shares[n];
        let fits = reached(now.v, node.time.after(k).charged);
        if node.waiters.is_empty() && node.debt == 0 && fits {
            self.commit(n, bio, c, k);
            return if self.shares[n].ready == 0 { Verdict::Pass } else { self.follow(bio) };
        }
        // Metadata and swap: holding it would make *others* wait for a group without credit (priority
        // inversion). It goes now and is paid later.
        if io.flags.issue_as_root() {
            self.incur(n, c, &now);
            self.check_delay_of(n, &io, &now);
            return Verdict::Pass;
        }
        self.hold(n, bio, c, &now)
    }

    /// Steps 7 and 8: the bio waits, unless this very call finds that it may go.
    fn hold(&mut self, n: GroupId, bio: BioId, c: u64, now: &Now) -> Verdict {
        let node = &self.shares[n];
        let (debt, active) = (node.debt, node.weights.active);
        if debt == 0 && node.weights.inuse != active {
            self.shares.set(n, active, active, Some(now.v));
            self.shares.commit();
        }
        let state = self.bios.state(bio);
        (state.cost, state.node) = (c, n);
        let node = &mut self.shares[n];
        self.bios.hold(node, bio);
        node.times.waiting.get_or_insert(now.us);
        node.timed = true;
        self.kick_waiters(n, debt != 0, now);
        if self.bios.ready.head() == bio.0.slot {
            self.bios.take_ready();
            self.shares[n].ready -= 1;
            return Verdict::Pass;
        }
        self.stats.held += 1;
        Verdict::Hold
    }

    /// A bio that might pass goes behind those of its group that were released and are still here.
    fn follow(&mut self, bio: BioId) -> Verdict {
        let n = self.bios.state(bio).node;
        self.bios.follow(&mut self.shares[n], bio);
        Verdict::Hold
    }

    /// The controller is disabled and held I/O drains: what is new passes uncharged, behind that of its
    /// group.
    ///
    /// Deviation: in Linux it overtakes what still waits; a controller here never reorders.
    pub(super) fn pass_behind_waiters(&mut self, bio: BioId, cx: &Cx<'_>) -> Verdict {
        let io = *cx.requests.bio(bio);
        let Some(node) = self.shares.get(io.group).filter(|_| !io.flags.issue_as_root()) else {
            return Verdict::Pass;
        };
        if self.costs(&io).is_none() || (node.waiters.is_empty() && node.ready == 0) {
            return Verdict::Pass;
        }
        self.bios.forget(bio);
        self.bios.state(bio).node = io.group;
        if self.shares[io.group].waiters.is_empty() {
            return self.follow(bio);
        }
        self.bios.hold(&mut self.shares[io.group], bio);
        self.stats.held += 1;
        Verdict::Hold
    }

    /// 5.1: the group has I/O. False if it must not be charged: it is not a leaf of the active tree.
    ///
    /// It begins with the target's credit: enough to start without a wait, while idling earns nothing more.
    pub(super) fn activate(&mut self, n: GroupId, now: &Now) -> bool {
        let period = self.period.number;
        let node = &mut self.shares[n];
        if node.listed {
            node.active_period = period;
            return true;
        }
        if node.sums.active != 0 || self.shares.ancestors(n).any(|up| self.shares[up].listed) {
            return false;
        }
        let target = now.v.wrapping_sub(self.clock.margins.target as u64);
        let node = &mut self.shares[n];
        node.time.move_to(target);
        node.active_period = period;
        node.listed = true;
        node.given.in_force = node.given.configured();
        let (weight, inuse) = (node.given.in_force, node.last_inuse);
        self.active.add(n);
        self.shares.set(n, weight, if inuse == 0 { weight } else { inuse }, Some(now.v));
        self.shares.commit();
        self.shares[n].period.activated_at_us = now.us;
        if !self.period.running {
            self.period.running = true;
            self.forgiveness.begin(now.us);
            self.start_period(now, false);
        }
        true
    }

    /// A period begins, maybe with the timer that has ended the one before: its timer is set for a tick and fires by the
    /// kernel's rules.
    pub(super) fn start_period(&mut self, now: &Now, by_timer: bool) {
        self.clock.start_period(now);
        self.period.timer = Some(self.period_end(now.at, by_timer));
    }

    /// When a period that begins now ends.
    fn period_end(&self, now: Instant, by_timer: bool) -> Instant {
        let tick = self.params.tick;
        let ticks = (self.params.period_us * 1000).div_ceil(tick.0);
        self.conf.timers().fires_at(now, tick, tick_of(now, tick) + ticks, by_timer)
    }

    /// Settings have changed: the period under way, which looks at everybody who waits, ends no later than
    /// one that began now (`reprice`).
    pub(super) fn hasten(&mut self, now: Instant) {
        if self.conf.reprice == 0 {
            return;
        }
        let latest = self.period_end(now, false);
        self.period.timer = self.period.timer.map(|end| end.min(latest));
    }

    /// 6.1: what the cost is for the group now. A donor whose credit runs low takes weight back, step by
    /// step, until the I/O fits.
    ///
    /// A donor must not suffer for having given: it takes weight back in the middle of a period, by itself.
    /// In steps, since taking all back for one I/O would starve those who received.
    pub(super) fn price(&mut self, n: GroupId, c: u64, now: &Now) -> u64 {
        let (_, hwi) = self.shares.of(n);
        let mut k = cost_of(c, hwi);
        let node = &self.shares[n];
        let margin = node.time.after(k).credit(now.v);
        if node.debt != 0
            || node.weights.inuse == node.weights.active
            || margin >= node.saved_margin
            || margin >= self.clock.margins.low
        {
            return k;
        }
        let (v, active, mut inuse) = (node.time.charged, node.weights.active, node.weights.inuse);
        let mut step = active * self.conf.inuse_step_pct;
        if self.conf.inuse_step_32bit != 0 {
            step &= u64::from(u32::MAX);
        }
        let step = step.div_ceil(100).max(1);
        // In 64 bits four turns with Linux's step of 25 %. In 32 bits the step of a few weights is tiny
        // (worst: 5243, of which 25 times 2^16 is 3 * 2^16 above a multiple of 2^32): 175,000 turns.
        loop {
            inuse = (inuse + step).min(active);
            self.shares.set(n, active, inuse, Some(now.v));
            self.shares.commit();
            k = cost_of(c, self.shares.of(n).1);
            if inuse == active || reached(now.v, v.wrapping_add(k)) {
                return k;
            }
        }
    }

    /// The group is charged; the bio remembers by how much.
    fn commit(&mut self, n: GroupId, bio: BioId, c: u64, k: u64) {
        let node = &mut self.shares[n];
        node.time.charge(k);
        node.usage += c;
        let state = self.bios.state(bio);
        state.charged = k;
        state.node = n;
    }

    /// 6.2: a bio has joined a request.
    pub(super) fn join(&mut self, at: Instant, bio: BioId, into: ReqId, cx: &Cx<'_>) {
        self.bios.forget(bio);
        let io = *cx.requests.bio(bio);
        let (Some(dir), now) = (self.costs(&io), self.clock.at(at)) else { return };
        let n = self.payer(io.group, &now, cx);
        let c = self.params.model.bytes_cost(dir, io.sectors.0);
        if n == GroupId::ROOT || c == 0 {
            return;
        }
        let k = self.price(n, c, &now);
        let request = &cx.requests[into];
        let node = &mut self.shares[n];
        if request.last_io == Some(bio) && node.cursor == io.start.0 {
            node.cursor = io.end().0;
        }
        let fits = reached(now.v, node.time.after(k).charged);
        let paid = (cx.requests.bios(into).map(|(id, _)| id).find(|&id| id != bio))
            .is_some_and(|first| self.bios.charged(first) != 0);
        if (paid && fits) || !self.shares[n].listed {
            self.commit(n, bio, c, k);
        } else {
            self.incur(n, c, &now);
            self.check_delay_of(n, &io, &now);
        }
    }

    /// 6.3 and 6.4: the request is over.
    pub(super) fn served(&mut self, at: Instant, id: ReqId, cx: &Cx<'_>) {
        for (bio, _) in cx.requests.bios(id) {
            let k = self.bios.charged(bio);
            if k != 0 {
                let state = self.bios.state(bio);
                state.charged = 0;
                let n = state.node;
                let node = &mut self.shares[n];
                node.time.complete(k);
                if node.life.leaving {
                    self.leave_when_idle(n, at);
                }
            }
        }
        let r = &cx.requests[id];
        let dir = match r.op {
            Op::Read => Dir::Read,
            Op::Write | Op::Flush => Dir::Write,
            Op::Discard | Op::WriteZeroes => return,
        };
        if !self.enabled {
            return;
        }
        let total = at.since(r.alloc).0;
        let size = self.params.model.size_ns(dir, r.sectors.0);
        let limit = self.params.qos.lat_us[dir as usize].saturating_mul(1000);
        let met = total <= size || total - size <= limit;
        self.served.count(dir, met, r.began.since(r.alloc).0);
    }

    /// The direction under which an I/O is charged; `None`: it costs nothing. An empty flush is carried by a
    /// write of a page; newer kernels charge nothing for it (`charge_flushes`).
    pub(super) fn costs(&self, io: &Io) -> Option<Dir> {
        match io.op {
            Op::Read => Some(Dir::Read),
            Op::Write => Some(Dir::Write),
            Op::Flush => (self.conf.charge_flushes != 0).then_some(Dir::Write),
            Op::Discard | Op::WriteZeroes => None,
        }
    }

    /// 7: pays debt if asked to, then releases what the credit allows and sets the timer for the rest.
    pub(super) fn kick_waiters(&mut self, n: GroupId, pay: bool, now: &Now) {
        let mut credit = self.shares[n].time.credit(now.v);
        let (hwa, _) = self.shares.of(n);
        if pay && self.shares[n].debt > 0 && credit > 0 {
            credit -= self.pay(n, credit as u64, hwa, now);
        }
        if self.shares[n].owes_or_is_delayed() {
            self.kick_delay(n, now);
        }
        let debt = self.shares[n].debt;
        if debt > 0 {
            credit = (credit.saturating_sub(debt_in_vtime(debt, hwa))).min(0);
        }
        let (_, hwi) = self.shares.of(n);
        let Some(short) = self.release_within(n, credit, hwi) else {
            self.waiting_ended(n, now);
            return;
        };
        let us = short.div_ceil(self.clock.base_rate);
        let wake = now.at.as_nanos() + us.saturating_mul(1000) + self.params.slack_ns;
        self.set_wake(n, wake);
    }

    /// Releases waiters in order while the credit lasts; what the next one is short of, `None` if none is
    /// left.
    fn release_within(&mut self, n: GroupId, credit: i64, hwi: u64) -> Option<u64> {
        let mut credit = credit;
        while let Some(no) = self.bios.first_waiter(&self.shares[n]).some() {
            let k = cost_of(self.bios.of(no).cost, hwi);
            credit = credit.saturating_sub(k as i64);
            if credit < 0 {
                return Some(credit.unsigned_abs());
            }
            self.commit_waiter(n, no, hwi);
        }
        None
    }

    /// Charges the first waiter, which this is, and hands it to the stack.
    pub(super) fn commit_waiter(&mut self, n: GroupId, no: BioNo, hwi: u64) {
        let state = *self.bios.of(no);
        self.commit(n, state.id, state.cost, cost_of(state.cost, hwi));
        self.bios.ready(&mut self.shares[n], no);
    }

    /// Sets the wake timer of a node, unless it is set for nearly the same time.
    ///
    /// The slack lets one interrupt serve several groups; re-arming for less would cost more than it gains.
    fn set_wake(&mut self, n: GroupId, wake_ns: u64) {
        let near = self.shares[n].wake_at_ns.abs_diff(wake_ns) <= self.params.slack_ns;
        if near && self.wakes.armed(n) {
            return;
        }
        self.shares[n].wake_at_ns = wake_ns;
        let fires = if self.wakes_told {
            wake_ns + self.params.slack_ns
        } else if self.conf.kernel_wakes() {
            // Anywhere in its slack: at the first interrupt. The tick is one; its own is at the end.
            let tick = wake_ns.div_ceil(self.params.tick.0) * self.params.tick.0;
            tick.min(wake_ns + self.params.slack_ns)
        } else {
            wake_ns
        };
        self.wakes.arm(n, fires);
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        if self.wakes_told {
            return None;
        }
        self.wakes.first().map(|(_, at)| Instant::from_nanos(at))
    }

    /// The earliest wake timer fires.
    pub(super) fn wake_first(&mut self, at: Instant, cx: &mut Cx<'_>) {
        if let Some((n, _)) = self.wakes.first() {
            self.wake(at, n, cx);
        }
    }

    /// From now on wake timers fire when [`IoCost::wake`] says so and not by the clock: for comparisons with a kernel,
    /// whose interrupts decide when within their span they do.
    pub fn tell_wakes(&mut self) {
        self.wakes_told = true;
    }

    /// The groups whose wake timers are set, each with the span in which the kernel's may fire.
    pub fn wakes(&self) -> Vec<(GroupId, [Instant; 2])> {
        let span = |n: GroupId, end| [self.shares[n].wake_at_ns, end].map(Instant::from_nanos);
        let set = self.shares.ids().filter_map(|n| Some((n, self.wakes.at(n)?)));
        set.map(|(n, end)| (n, span(n, end))).collect()
    }

    /// The wake timer of a group fires.
    pub fn wake(&mut self, at: Instant, n: GroupId, cx: &mut Cx<'_>) {
        self.see_off(at);
        self.wakes.cancel(n);
        let now = self.clock.at(at);
        let debt = self.shares[n].debt;
        self.kick_waiters(n, debt != 0, &now);
        cx.trace.why(
            at,
            "wake timer of group",
            n.0,
            self.shares[n].waiters.len().into(),
            debt as i64,
        );
    }
}

/// True when `now` is at or behind `v` (both wrap).
#[inline]
pub(super) fn reached(now: u64, v: u64) -> bool {
    now.wrapping_sub(v) as i64 >= 0
}

/// Debt in vtime, as a signed length.
pub(super) fn debt_in_vtime(debt: u64, hwa: u64) -> i64 {
    ceil_of(debt, ONE, hwa).min(i64::MAX as u64) as i64
}
