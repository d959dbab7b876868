//! `io.cost`, proportional shares of modelled device time (Linux 6.1; specs/io-cost.md).
//!
//! *Problem.* Bytes and I/O counts say little about how busy a device is: a random read of a disk costs a
//! hundred sequential ones. Shares in either are unfair, and a limit in either wastes the device.
//!
//! *Idea.* A linear model predicts for each I/O how long it keeps the device busy, its *absolute cost*
//! (`model`): pages times a price per page, plus a price per I/O that depends on whether it lies behind the
//! group's last one. Device virtual time (vtime) runs at an adjustable rate, the *vrate*. A group of share
//! h pays cost / h of its own vtime per I/O and may issue while its vtime stays behind the device's:
//!
//! ```text
//!   vnow   = vtime of the period's start + (now - start) * rate
//!   passes   while  vtime + cost / h <= vnow
//! ```
//!
//! so it gets the fraction h of the device (`submit`). What has to wait is released in order as vnow grows,
//! by one timer per group.
//!
//! *State.* Per group a weight (*active*), what it makes use of (*inuse*), vtime, debt, delay, held I/O
//! (`weights`). Only leaves of the active tree are active: while a descendant is, an inner group's own I/O
//! passes uncharged. Shares are cached per *generation* of weights.
//!
//! *Planning.* Once per period (`plan`) four things are done:
//! - *vrate*: if requests wait for tags, or too many miss their latency, the device is saturated and vrate
//!   falls; if nothing is missed and a group was short of its share, it rises. The step grows with the
//!   number of periods in a row.
//! - *donation* (`donate`): a group that used less than its share lowers its inuse, so that the others'
//!   shares grow; it takes the weight back by itself as soon as its credit runs low.
//! - *debt* (`debt`): I/O that must not wait (metadata, swap) passes and leaves a debt, which is paid from
//!   credit before anything of the group passes again; tasks that make large debts are delayed. While the
//!   device is little used, debts are halved.
//! - groups without I/O for a whole period *retire*; the credit they leave raises the rate of the next
//!   period.
//!
//! *Guarantees.* Groups that always have I/O waiting are served in proportion to their weights, as far as
//! the model is right. Held I/O of a group leaves in order of arrival. Costs are O(depth) per I/O at worst,
//! O(1) while no weight changes; a period costs O(active groups * depth).
//!
//! *Weaknesses.* All of section 12 of the specification is reproduced; the worst: a wrong model gives wrong
//! shares; without percentiles vrate hardly moves; a burst of half a period is free; several sequential
//! streams of one group look random; a group that used a whole period without waiting counts as a donor
//! (`donation_32bit`).

mod debt;
mod donate;
mod held;
mod knobs;
mod model;
mod params;
mod plan;
mod report;
mod reprice;
mod settings;
mod submit;
#[cfg(test)]
mod tests;
mod vrate;
mod weights;

use self::debt::Forgiveness;
use self::donate::Donation;
use self::held::{Active, Bios, Checks, Wakes};
pub use self::model::Rates;
use self::model::VUS;
use self::params::Params;
use self::settings::{CostConf, SETTINGS, TUNABLES};
use self::vrate::{Now, Served, VClock};
use self::weights::{GroupTime, Shares};
use super::{Controller, Entry, Gate, Verdict};
use crate::device::Device;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::knob::KnobError;
use crate::request::{BioId, ReqId};
use crate::rows::Id;
use crate::setting::{Tunable, TunableError, Unit};
use crate::stage::{Change, Figure, Gauge, Stage, StageInfo};
use crate::unit::{Instant, Nanos};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Name of the stage.
const NAME: &str = "io.cost";

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: NAME,
        summary: "shares of modelled device time, at a rate steered by latency",
        source: "specs/io-cost.md (Linux 6.1)",
        tunables: &TUNABLES,
        group_tunables: &[Tunable::new(
            "weight",
            Unit::Weight,
            weights::WEIGHT_DEFAULT as u64,
            (knobs::WEIGHT_MIN as u64, knobs::WEIGHT_MAX as u64),
            "Weight of the group among its siblings on this device, as `MAJ:MIN N` in io.weight.",
        )],
        knobs: knobs::KNOBS,
        figures: &[],
        decisions: &[],
    },
    gate: Gate::BeforeTag,
    build: &|device| Box::new(IoCost::new(device)),
};

/// The periods of planning.
#[derive(Debug, Default)]
struct Period {
    running: bool,
    timer: Option<Instant>,
    number: u64,
}

/// Counted for reports; nothing is decided by it.
#[derive(Debug, Default)]
struct CostStats {
    periods: u64,
    held: u64,
}

/// The controller.
#[derive(Debug)]
pub struct IoCost {
    conf: CostConf,
    /// A root knob was written.
    created: bool,
    enabled: bool,
    params: Params,
    clock: VClock,
    period: Period,
    served: Served,

    shares: Shares,
    active: Active,
    wakes: Wakes,
    /// Wake timers fire when told to.
    wakes_told: bool,
    bios: Bios,
    checks: Checks,
    /// Removed groups that leave the tree of weights, and since when.
    leavers: Vec<(GroupId, Instant)>,
    forgiveness: Forgiveness,
    donation: Donation,
    stats: CostStats,
}

impl IoCost {
    /// For `device`; nothing is done before a root knob is written.
    pub fn new(device: &Device) -> IoCost {
        IoCost {
            conf: SETTINGS.defaults(),
            created: false,
            enabled: false,
            params: Params::new(device),
            clock: VClock::new(),
            period: Period::default(),
            served: Served::default(),
            shares: Shares::new(),
            active: Active::new(),
            wakes: Wakes::new(),
            wakes_told: false,
            bios: Bios::new(),
            checks: Checks::default(),
            leavers: Vec::new(),
            forgiveness: Forgiveness::default(),
            donation: Donation::default(),
            stats: CostStats::default(),
        }
    }

    /// The first root knob: the controller comes into being, disabled.
    fn create(&mut self, now: Instant) {
        if !self.created {
            self.created = true;
            self.clock.start_us = now.as_nanos() / 1000;
            self.refresh(true, self.clock.start_us);
        }
    }

    fn class_now(&mut self, now_us: u64) -> model::DeviceClass {
        self.params.class_now(now_us, self.clock.base_rate, self.conf.class_switch_ms)
    }

    /// 4.4: parameters from the class and what the user set.
    fn refresh(&mut self, force: bool, now_us: u64) {
        let class = self.class_now(now_us);
        let changed = self.params.class != Some(class);
        if !changed && !force {
            return;
        }
        if changed {
            // Without a lasting effect: base_rate stays and the planner sets the rate from it.
            self.clock.rate = VUS;
        }
        self.params.derive(class, &self.conf);
        self.clock.bounds = self.params.vrate_bounds();
        self.clock.measure_margins(self.params.period_us, &self.conf);
    }

    /// A node for every group of the tree, and existing ones up to `n`.
    fn grow(&mut self, cx: &Cx<'_>) {
        while self.shares.len() < cx.groups.len() {
            let group = GroupId(self.shares.len() as u32);
            let parent = cx.groups.parent(group).unwrap_or(GroupId::NONE);
            self.shares.push(parent);
            self.shares[group].life.dead = !cx.groups.alive(group);
        }
        self.active.grow(self.shares.len());
        self.wakes.grow(self.shares.len());
    }

    /// The node that pays for a group's I/O: of the group, or of its nearest living ancestor.
    #[inline]
    fn payer(&mut self, group: GroupId, now: &Now, cx: &Cx<'_>) -> GroupId {
        if group.index() >= self.shares.len() {
            self.grow(cx);
        }
        let mut n = group;
        // The root is never removed.
        while self.shares[n].life.dead {
            n = self.shares[n].parent;
        }
        if !self.shares[n].life.exists {
            self.exist(n, now);
        }
        n
    }

    /// The node comes into being, and its ancestors.
    fn exist(&mut self, n: GroupId, now: &Now) {
        let mut at = n;
        while at.is_some() && !self.shares[at].life.exists {
            let node = &mut self.shares[at];
            node.life.exists = true;
            node.time = GroupTime::at(now.v);
            at = node.parent;
        }
    }
}

/// A group is removed: it leaves the tree of weights once nothing of it waits or is under way. What is still written of
/// its pages until then is its own.
impl IoCost {
    fn let_waiters_go(&mut self, n: GroupId) {
        while let Some(no) = self.bios.first_waiter(&self.shares[n]).some() {
            let (_, hwi) = self.shares.of(n);
            self.commit_waiter(n, no, hwi);
        }
    }

    fn removed(&mut self, n: GroupId, at: Instant) {
        self.shares[n].life.leaving = true;
        self.leave_when_idle(n, at);
    }

    fn is_idle(&self, n: GroupId) -> bool {
        let node = &self.shares[n];
        node.waiters.is_empty() && node.ready == 0 && node.time.is_idle()
    }

    /// A removed group is kept by its I/O; when the last is over it leaves, behind all else of that moment.
    pub(super) fn leave_when_idle(&mut self, n: GroupId, at: Instant) {
        if self.is_idle(n) {
            self.leavers.push((n, at));
        }
    }

    /// Those leave whose moment is over, unless something came.
    #[cold]
    fn see_off(&mut self, now: Instant) {
        while let Some(&(n, at)) = self.leavers.first()
            && at < now
        {
            self.leavers.remove(0);
            if self.is_idle(n) {
                self.leave(n);
            }
        }
    }

    /// Later I/O is its parent's, whose sum of inuse keeps the 1 of the retired node for ever, as in Linux.
    fn leave(&mut self, n: GroupId) {
        self.retire(n);
        self.shares.commit();
        self.wakes.cancel(n);
        let node = &mut self.shares[n];
        node.life.dead = true;
        node.debt = 0;
        node.slow.us = 0;
        node.slow.tasks.clear();
    }
}

impl Controller for IoCost {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        if !self.leavers.is_empty() {
            self.see_off(now);
        }
        if self.enabled {
            self.arrive(now, bio, cx)
        } else if self.bios.waiting != 0 {
            self.pass_behind_waiters(bio, cx)
        } else {
            Verdict::Pass
        }
    }

    fn release(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<BioId> {
        let no = self.bios.take_ready().some()?;
        let state = *self.bios.of(no);
        self.shares[state.node].ready -= 1;
        Some(state.id)
    }

    /// I/O that waits is charged as if it had been its turn.
    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        if self.bios.waiting > 0 && self.bios.ready.is_empty() {
            let at = self.clock.at(now);
            for n in self.shares.ids() {
                if self.bios.first_waiter(&self.shares[n]).is_some() {
                    self.let_waiters_go(n);
                    self.waiting_ended(n, &at);
                }
            }
        }
        self.release(now, cx)
    }

    fn merged(&mut self, now: Instant, bio: BioId, into: ReqId, cx: &mut Cx<'_>) {
        if self.enabled {
            self.join(now, bio, into, cx);
        }
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if self.created {
            self.served(now, id, cx);
        }
    }

    fn delay(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) -> Nanos {
        if self.checks.count == 0 { Nanos::ZERO } else { self.sleep_of(now, proc, cx) }
    }

    fn stat(&self, now: Instant, group: GroupId, cx: &Cx<'_>, out: &mut String) {
        self.print_stat(now, group, cx, out);
    }

    fn congested(&self, group: GroupId, _cx: &Cx<'_>) -> bool {
        self.is_congested(group)
    }
}

impl Stage for IoCost {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        match change {
            Change::GroupAdded(_) => self.grow(cx),
            Change::GroupRemoved(group) if group.index() < self.shares.len() => {
                self.removed(*group, now);
            }
            Change::Device => {
                self.params.device_changed(cx.device);
                if self.created {
                    self.refresh(false, now.as_nanos() / 1000);
                }
            }
            _ => {}
        }
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        self.see_off(now);
        while let Some(due) = self.next_timer().filter(|&due| due <= now) {
            // At the same instant wakes come first: the period timer runs after the ns timers of its tick.
            if self.period.timer == Some(due) && self.next_wake() != Some(due) {
                self.period.timer = None;
                self.plan(now, cx);
            } else {
                self.wake_first(now, cx);
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        match (self.period.timer, self.next_wake()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        SETTINGS.set(&mut self.conf, name, value)?;
        if self.created {
            self.refresh(true, now.as_nanos() / 1000);
            self.hasten(now);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn set_group(
        &mut self,
        now: Instant,
        group: GroupId,
        name: &str,
        value: Option<u64>,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        self.set_weight(now, group, name, value, cx)
    }

    fn write_knob(
        &mut self,
        now: Instant,
        group: GroupId,
        file: &str,
        line: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        self.write(now, group, file, line, cx)
    }

    fn read_knob(&self, group: GroupId, file: &str, cx: &Cx<'_>, out: &mut String) {
        self.read(group, file, cx, out);
    }

    fn gauges(&self, now: Instant, _cx: &Cx<'_>, sink: &mut dyn FnMut(Gauge)) {
        self.record(now, sink);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        self.report(sink);
    }
}
