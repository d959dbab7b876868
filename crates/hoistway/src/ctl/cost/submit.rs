//! The path of an I/O: activation, price, passing or waiting, release, completion (specs/io-cost.md 5.1, 6
//! and 7).

use super::model::{ONE, cost_of};
use super::weights::ceil_of;
use super::{BioState, IoCost, Now};
use crate::ctl::{Verdict, tick_of};
use crate::env::Cx;
use crate::request::{BioId, Dir, Io, Op, ReqId};
use crate::table::{Handle, NIL};
use crate::unit::Instant;

impl IoCost {
    /// 6: may this bio pass?
    pub(super) fn arrive(&mut self, at: Instant, bio: BioId, cx: &Cx<'_>) -> Verdict {
        self.forget(bio);
        let io = *cx.requests.bio(bio);
        let Some(dir) = costs(&io) else { return Verdict::Pass };
        let now = self.now(at);
        let n = self.payer(io.group, &now, cx);
        if n == 0 {
            // The root's own.
            return Verdict::Pass;
        }
        let (start, cursor) = (io.start.0, self.shares[n].cursor);
        let c = self.model.cost(dir, start, io.sectors.0, cursor, self.set.random_pages);
        if c == 0 || !self.activate(n, &now) {
            return Verdict::Pass;
        }
        self.shares[n].cursor = io.end().0;
        let k = self.price(n, c, &now);
        let node = &self.shares[n];
        let fits = reached(now.v, node.vtime.wrapping_add(k));
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
    fn hold(&mut self, n: u32, bio: BioId, c: u64, now: &Now) -> Verdict {
        let node = &self.shares[n];
        let (debt, active) = (node.debt, node.active);
        if debt == 0 && node.inuse != active {
            self.shares.set(n, active, active, Some(now.v));
            self.shares.commit();
        }
        let slot = bio.0.slot;
        self.state(bio).cost = c;
        self.state(bio).node = n;
        let node = &mut self.shares[n];
        node.waiters.push_back(&mut self.bio_links, slot);
        node.times.waiting.get_or_insert(now.us);
        node.timed = true;
        self.waiting += 1;
        self.kick_waiters(n, debt != 0, now);
        if self.ready.head() == slot {
            self.ready.pop_front(&mut self.bio_links);
            self.shares[n].ready -= 1;
            self.waiting -= 1;
            return Verdict::Pass;
        }
        self.held += 1;
        Verdict::Hold
    }

    /// A bio that might pass goes behind those of its group that were released and are still here.
    fn follow(&mut self, bio: BioId) -> Verdict {
        let n = self.state(bio).node;
        self.ready.push_back(&mut self.bio_links, bio.0.slot);
        self.shares[n].ready += 1;
        self.waiting += 1;
        Verdict::Hold
    }

    /// The controller is disabled and held I/O drains: what is new passes uncharged, behind that of its
    /// group.
    ///
    /// Deviation: in Linux it overtakes what still waits; a controller here never reorders.
    pub(super) fn pass_behind_waiters(&mut self, bio: BioId, cx: &Cx<'_>) -> Verdict {
        let io = *cx.requests.bio(bio);
        let Some(node) = self.shares.get(io.group.0).filter(|_| !io.flags.issue_as_root()) else {
            return Verdict::Pass;
        };
        if costs(&io).is_none() || (node.waiters.is_empty() && node.ready == 0) {
            return Verdict::Pass;
        }
        self.forget(bio);
        self.state(bio).node = io.group.0;
        if self.shares[io.group.0].waiters.is_empty() {
            return self.follow(bio);
        }
        self.shares[io.group.0].waiters.push_back(&mut self.bio_links, bio.0.slot);
        self.waiting += 1;
        self.held += 1;
        Verdict::Hold
    }

    /// 5.1: the group has I/O. False if it must not be charged: it is not a leaf of the active tree.
    ///
    /// It begins with the target's credit: enough to start without a wait, while idling earns nothing more.
    pub(super) fn activate(&mut self, n: u32, now: &Now) -> bool {
        let period = self.cur_period;
        let node = &mut self.shares[n];
        if node.listed {
            node.active_period = period;
            return true;
        }
        if node.sum_active != 0 || self.shares.ancestors(n).any(|up| self.shares[up].listed) {
            return false;
        }
        let target = now.v.wrapping_sub(self.margins.target as u64);
        let node = &mut self.shares[n];
        let shift = target.wrapping_sub(node.vtime);
        node.vtime = target;
        node.done_vtime = node.done_vtime.wrapping_add(shift);
        node.active_period = period;
        node.listed = true;
        node.weight = node.configured();
        let (weight, inuse) = (node.weight, node.last_inuse);
        self.active.push_front(&mut self.links, n);
        self.shares.set(n, weight, if inuse == 0 { weight } else { inuse }, Some(now.v));
        self.shares.commit();
        self.shares[n].activated_at_us = now.us;
        if !self.running {
            self.running = true;
            self.forgiveness.at_us = now.us;
            self.forgiveness.rest_us = 0;
            self.start_period(now);
        }
        true
    }

    /// A period begins: its timer is set for a tick and fires by the kernel's rules.
    pub(super) fn start_period(&mut self, now: &Now) {
        self.period_at_us = now.us;
        self.period_at_vtime = now.v;
        self.period_timer = Some(self.period_end(now.at));
    }

    /// When a period that begins now ends.
    fn period_end(&self, now: Instant) -> Instant {
        let ticks = (self.period_us * 1000).div_ceil(self.tick.0);
        self.set.timers().fires_at(now, self.tick, tick_of(now, self.tick) + ticks)
    }

    /// Settings have changed: the period under way, which looks at everybody who waits, ends no later than
    /// one that began now.
    pub(super) fn hasten(&mut self, now: Instant) {
        let latest = self.period_end(now);
        self.period_timer = self.period_timer.map(|end| end.min(latest));
    }

    /// 6.1: what the cost is for the group now. A donor whose credit runs low takes weight back, step by
    /// step, until the I/O fits.
    ///
    /// A donor must not suffer for having given: it takes weight back in the middle of a period, by itself.
    /// In steps, since taking all back for one I/O would starve those who received.
    pub(super) fn price(&mut self, n: u32, c: u64, now: &Now) -> u64 {
        let (_, hwi) = self.shares.of(n);
        let mut k = cost_of(c, hwi);
        let node = &self.shares[n];
        let margin = now.v.wrapping_sub(node.vtime.wrapping_add(k)) as i64;
        if node.debt != 0
            || node.inuse == node.active
            || margin >= node.saved_margin
            || margin >= self.margins.low
        {
            return k;
        }
        let (v, active, mut inuse) = (node.vtime, node.active, node.inuse);
        let mut step = active * self.set.inuse_step_pct;
        if self.set.inuse_step_32bit != 0 {
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
    fn commit(&mut self, n: u32, bio: BioId, c: u64, k: u64) {
        let node = &mut self.shares[n];
        node.vtime = node.vtime.wrapping_add(k);
        node.usage += c;
        let state = self.state(bio);
        state.charged = k;
        state.node = n;
    }

    /// 6.2: a bio has joined a request.
    pub(super) fn join(&mut self, at: Instant, bio: BioId, into: ReqId, cx: &Cx<'_>) {
        self.forget(bio);
        let io = *cx.requests.bio(bio);
        let (Some(dir), now) = (costs(&io), self.now(at)) else { return };
        let n = self.payer(io.group, &now, cx);
        let c = self.model.bytes_cost(dir, io.sectors.0);
        if n == 0 || c == 0 {
            return;
        }
        let k = self.price(n, c, &now);
        let request = &cx.requests[into];
        let node = &mut self.shares[n];
        if request.last_io == Some(bio) && node.cursor == io.start.0 {
            node.cursor = io.end().0;
        }
        let fits = reached(now.v, node.vtime.wrapping_add(k));
        let paid = (cx.requests.bios(into).map(|(id, _)| id).find(|&id| id != bio))
            .is_some_and(|first| self.charged(first) != 0);
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
            let k = self.charged(bio);
            if k != 0 {
                let state = self.state(bio);
                state.charged = 0;
                let n = state.node;
                let node = &mut self.shares[n];
                node.done_vtime = node.done_vtime.wrapping_add(k);
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
        let size = self.model.size_ns(dir, r.sectors.0);
        let limit = self.qos.lat_us[dir as usize].saturating_mul(1000);
        let met = total <= size || total - size <= limit;
        let count = if met { &mut self.served.met } else { &mut self.served.missed };
        count[dir as usize] += 1;
        // Waiting for a tag means that the queues of scheduler and device are full: a sure sign of
        // saturation, though a late one on deep devices, hence the latency percentiles beside it.
        self.served.wait_ns += r.began.since(r.alloc).0;
    }

    /// 7: pays debt if asked to, then releases what the credit allows and sets the timer for the rest.
    pub(super) fn kick_waiters(&mut self, n: u32, pay: bool, now: &Now) {
        let mut credit = now.v.wrapping_sub(self.shares[n].vtime) as i64;
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
        let us = short.div_ceil(self.base_rate);
        let wake = now.at.as_nanos() + us.saturating_mul(1000) + self.slack_ns;
        self.set_wake(n, wake);
    }

    /// Releases waiters in order while the credit lasts; what the next one is short of, `None` if none is
    /// left.
    fn release_within(&mut self, n: u32, credit: i64, hwi: u64) -> Option<u64> {
        let mut credit = credit;
        while let Some(slot) = self.first_waiter(n) {
            let k = cost_of(self.bios[slot as usize].cost, hwi);
            credit = credit.saturating_sub(k as i64);
            if credit < 0 {
                return Some(credit.unsigned_abs());
            }
            self.commit_waiter(n, slot, hwi);
        }
        None
    }

    /// The slot of the bio that has waited longest.
    pub(super) fn first_waiter(&self, n: u32) -> Option<u32> {
        Some(self.shares[n].waiters.head()).filter(|&slot| slot != NIL)
    }

    /// Charges the first waiter, whose slot this is, and hands it to the stack.
    pub(super) fn commit_waiter(&mut self, n: u32, slot: u32, hwi: u64) {
        let state = self.bios[slot as usize];
        self.shares[n].waiters.remove(&mut self.bio_links, slot);
        self.commit(n, state.id, state.cost, cost_of(state.cost, hwi));
        self.ready.push_back(&mut self.bio_links, slot);
        self.shares[n].ready += 1;
    }

    /// Sets the wake timer of a node, unless it is set for nearly the same time.
    ///
    /// The slack lets one interrupt serve several groups; re-arming for less would cost more than it gains.
    fn set_wake(&mut self, n: u32, wake_ns: u64) {
        if self.wake_nodes.linked(n) {
            if self.shares[n].wake_at_ns.abs_diff(wake_ns) <= self.slack_ns {
                return;
            }
            self.wakes.remove(&mut self.wake_nodes, n);
        }
        self.shares[n].wake_at_ns = wake_ns;
        let fires = if self.set.kernel_wakes() {
            // Anywhere in its slack: at the first interrupt. The tick is one; its own is at the end.
            let tick = wake_ns.div_ceil(self.tick.0) * self.tick.0;
            tick.min(wake_ns + self.slack_ns)
        } else {
            wake_ns
        };
        self.wakes_set += 1;
        self.wakes.insert(&mut self.wake_nodes, n, (fires, self.wakes_set), ());
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let n = self.wakes.first();
        (n != NIL).then(|| Instant::from_nanos(self.wake_nodes.key(n).0))
    }

    /// The earliest wake timer fires.
    pub(super) fn wake_first(&mut self, at: Instant, cx: &mut Cx<'_>) {
        let n = self.wakes.first();
        self.wakes.remove(&mut self.wake_nodes, n);
        let now = self.now(at);
        let debt = self.shares[n].debt;
        self.kick_waiters(n, debt != 0, &now);
        cx.trace.why(
            at,
            "wake timer of group",
            n,
            self.shares[n].waiters.len().into(),
            debt as i64,
        );
    }

    /// The cost that a bio was charged.
    fn charged(&self, bio: BioId) -> u64 {
        (self.bios.get(bio.0.slot as usize)).filter(|s| s.id == bio).map_or(0, |s| s.charged)
    }

    /// A bio that is new here: nothing is remembered of it.
    fn forget(&mut self, bio: BioId) {
        let slot = bio.0.slot as usize;
        if slot >= self.bios.len() {
            let nobody = BioId(Handle { slot: NIL, generation: 0 });
            let fresh = BioState { id: nobody, node: 0, cost: 0, charged: 0 };
            let len = (slot + 1).next_power_of_two().max(64);
            self.bios.resize(len, fresh);
            self.bio_links.grow(len);
        }
        self.bios[slot] = BioState { id: bio, node: 0, cost: 0, charged: 0 };
    }

    fn state(&mut self, bio: BioId) -> &mut BioState {
        &mut self.bios[bio.0.slot as usize]
    }
}

/// The direction under which an I/O is charged; `None`: it costs nothing. An empty flush is carried by a
/// write of a page.
pub(super) fn costs(io: &Io) -> Option<Dir> {
    match io.op {
        Op::Read => Some(Dir::Read),
        Op::Write | Op::Flush => Some(Dir::Write),
        Op::Discard | Op::WriteZeroes => None,
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
