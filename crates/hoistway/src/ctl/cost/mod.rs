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
mod knobs;
mod model;
mod plan;
mod report;
mod reprice;
mod settings;
mod submit;
#[cfg(test)]
mod tests;
mod weights;

use self::donate::Donor;
pub use self::model::Rates;
use self::model::{Class, Model, Qos, VUS};
use self::settings::{Settings, TUNABLES};
use self::weights::Shares;
use super::{Controller, Entry, Gate, Verdict};
use crate::device::Device;
use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::knob::KnobError;
use crate::list::{Links, List};
use crate::request::{BioId, ReqId};
use crate::setting::{Tunable, TunableError, Unit};
use crate::stage::{Change, Figure, Gauge, Stage, StageInfo};
use crate::table::NIL;
use crate::tree::{Nodes, Tree};
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
        tunables: TUNABLES,
        group_tunables: &[Tunable::new(
            "weight",
            Unit::Weight,
            weights::WEIGHT_DEFAULT as u64,
            (knobs::WEIGHT_MIN as u64, knobs::WEIGHT_MAX as u64),
            "Weight of the group among its siblings on this device, as `MAJ:MIN N` in io.weight.",
        )],
        knobs: knobs::KNOBS,
        figures: &[],
    },
    gate: Gate::BeforeTag,
    build: |device| Box::new(IoCost::new(device)),
};

/// One moment, as the controller sees it.
#[derive(Clone, Copy, Debug)]
struct Now {
    at: Instant,
    /// Microseconds, rounded down.
    us: u64,
    /// Device vtime.
    v: u64,
}

/// Lengths of credit in vtime (4.5).
#[derive(Clone, Copy, Debug, Default)]
struct Margins {
    min: i64,
    low: i64,
    target: i64,
}

/// When debts were last looked at (8.3).
#[derive(Clone, Copy, Debug, Default)]
struct Forgiveness {
    at_us: u64,
    rest_us: u64,
    usage_us: u64,
}

/// What the requests of a period met, by direction (6.4).
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    met: [u64; 2],
    missed: [u64; 2],
    wait_ns: u64,
}

/// What is known of the bio in one slot.
#[derive(Clone, Copy, Debug)]
struct BioState {
    id: BioId,
    /// The node it belongs to.
    node: u32,
    /// Absolute cost, while it waits.
    cost: u64,
    /// vtime it was charged.
    charged: u64,
}

/// The controller.
#[derive(Debug)]
pub struct IoCost {
    set: Settings,
    tick: Nanos,
    rotational: bool,
    queue_depth: u32,
    /// A root knob was written.
    created: bool,
    enabled: bool,
    user_qos: bool,
    user_model: bool,
    class: Option<Class>,
    qos: Qos,
    rates: Rates,
    model: Model,
    period_us: u64,
    slack_ns: u64,
    vrate_min: u64,
    vrate_max: u64,
    margins: Margins,

    /// vtime per us: what the planner steers, and what is in force now.
    base_rate: u64,
    rate: u64,
    /// vtime that came or went outside the plan and is yet to be made up for.
    vtime_err: i64,
    running: bool,
    period_at_us: u64,
    period_at_vtime: u64,
    period_timer: Option<Instant>,
    cur_period: u64,
    busy_level: i64,
    forgiveness: Forgiveness,
    too_fast_at: Option<u64>,
    too_slow_at: Option<u64>,
    served: Served,

    shares: Shares,
    /// Active nodes, the latest first.
    active: List,
    links: Links,
    /// Wake timers of nodes, by time and order of being set.
    wakes: Tree,
    wake_nodes: Nodes<(u64, u64)>,
    wakes_set: u64,

    bios: Vec<BioState>,
    bio_links: Links,
    /// Released bios that the stack has not asked for yet.
    ready: List,
    /// Bios that wait or are ready.
    waiting: u32,
    /// Tasks that are to be delayed on their way back.
    checks: Vec<bool>,
    checks_set: u32,

    donors: Vec<Donor>,
    inner: Vec<u32>,

    /// Statistics.
    periods: u64,
    held: u64,
}

impl IoCost {
    /// For `device`; nothing is done before a root knob is written.
    pub fn new(device: &Device) -> IoCost {
        IoCost {
            set: Settings::new(),
            tick: device.tick,
            rotational: device.rotational,
            queue_depth: device.queue_depth,
            created: false,
            enabled: false,
            user_qos: false,
            user_model: false,
            class: None,
            qos: Qos::default(),
            rates: Rates::default(),
            model: Model::default(),
            period_us: 0,
            slack_ns: 0,
            vrate_min: VUS,
            vrate_max: VUS,
            margins: Margins::default(),
            base_rate: VUS,
            rate: VUS,
            vtime_err: 0,
            running: false,
            period_at_us: 0,
            period_at_vtime: 0,
            period_timer: None,
            cur_period: 0,
            busy_level: 0,
            forgiveness: Forgiveness::default(),
            too_fast_at: None,
            too_slow_at: None,
            served: Served::default(),
            shares: Shares::new(),
            active: List::new(),
            links: Links::new(1),
            wakes: Tree::new(),
            wake_nodes: Nodes::new(1),
            wakes_set: 0,
            bios: Vec::new(),
            bio_links: Links::new(0),
            ready: List::new(),
            waiting: 0,
            checks: Vec::new(),
            checks_set: 0,
            donors: Vec::new(),
            inner: Vec::new(),
            periods: 0,
            held: 0,
        }
    }

    fn now(&self, at: Instant) -> Now {
        let us = at.as_nanos() / 1000;
        let passed = us.wrapping_sub(self.period_at_us);
        Now { at, us, v: self.period_at_vtime.wrapping_add(passed.wrapping_mul(self.rate)) }
    }

    /// The first root knob: the controller comes into being, disabled.
    fn create(&mut self, now: Instant) {
        if !self.created {
            self.created = true;
            self.period_at_us = now.as_nanos() / 1000;
            self.refresh(true, self.period_at_us);
        }
    }

    /// 4.4: parameters from the class and what the user set.
    fn refresh(&mut self, force: bool, now_us: u64) {
        let class = self.class_now(now_us);
        let changed = self.class != Some(class);
        if !changed && !force {
            return;
        }
        if changed {
            // Without a lasting effect: base_rate stays and the planner sets the rate from it.
            self.rate = VUS;
        }
        self.class = Some(class);
        self.too_fast_at = None;
        self.too_slow_at = None;
        if !self.user_qos {
            self.qos = class.qos();
        }
        if !self.user_model {
            self.rates = class.rates();
        }
        self.model = Model::of(&self.rates);
        self.vrate_min = (u64::from(self.qos.min_ppm) * VUS).div_ceil(1_000_000);
        self.vrate_max = u64::from(self.qos.max_ppm) * VUS / 1_000_000;
        self.period_us = self.qos.period_us(self.set.period_min_us, self.set.period_max_us);
        self.slack_ns = self.period_us * 1000 * self.set.timer_slack_pct / 100;
        self.refresh_margins();
    }

    /// 4.5, whenever base_rate changes.
    fn refresh_margins(&mut self) {
        let of = |pct: u64| (self.period_us * pct / 100 * self.base_rate) as i64;
        let s = &self.set;
        self.margins = Margins {
            min: of(s.margin_min_pct),
            low: of(s.margin_low_pct),
            target: of(s.margin_target_pct),
        };
    }

    /// The class the device is in now; runs the clocks of the switches between the two SSD classes.
    ///
    /// A class changes after ten seconds of a clear sign, so that it does not flap.
    fn class_now(&mut self, now_us: u64) -> Class {
        if self.rotational {
            return Class::Hdd;
        }
        if self.queue_depth == 1 {
            return Class::SsdQd1;
        }
        let class = match self.class {
            Some(class @ (Class::SsdDefault | Class::SsdFast)) => class,
            None | Some(Class::Hdd | Class::SsdQd1) => return Class::SsdDefault,
        };
        if self.user_qos || self.user_model {
            return class;
        }
        let vrate_pct = 100 * self.base_rate / VUS;
        let (off, clock, other) = match class {
            Class::SsdFast => (vrate_pct <= TOO_SLOW_PCT, &mut self.too_slow_at, Class::SsdDefault),
            _ => (vrate_pct >= TOO_FAST_PCT, &mut self.too_fast_at, Class::SsdFast),
        };
        if !off {
            *clock = None;
            return class;
        }
        let since = *clock.get_or_insert(now_us);
        if now_us - since >= self.set.class_switch_ms * 1000 { other } else { class }
    }

    /// A node for every group of the tree, and existing ones up to `n`.
    fn grow(&mut self, cx: &Cx<'_>) {
        while self.shares.len() < cx.groups.len() {
            let group = GroupId(self.shares.len() as u32);
            let parent = cx.groups.parent(group).map_or(NIL, |p| p.0);
            self.shares.push(parent);
            self.shares[group.0].dead = !cx.groups.alive(group);
        }
        self.links.grow(self.shares.len());
        self.wake_nodes.grow(self.shares.len());
    }

    /// The node that pays for a group's I/O: of the group, or of its nearest living ancestor.
    #[inline]
    fn payer(&mut self, group: GroupId, now: &Now, cx: &Cx<'_>) -> u32 {
        if group.index() >= self.shares.len() {
            self.grow(cx);
        }
        let mut n = group.0;
        // The root is never removed.
        while self.shares[n].dead {
            n = self.shares[n].parent;
        }
        if !self.shares[n].exists {
            self.exist(n, now);
        }
        n
    }

    /// The node comes into being, and its ancestors.
    fn exist(&mut self, n: u32, now: &Now) {
        let mut at = n;
        while at != NIL && !self.shares[at].exists {
            let node = &mut self.shares[at];
            node.exists = true;
            node.vtime = now.v;
            node.done_vtime = now.v;
            at = node.parent;
        }
    }
}

/// A group is removed: what it held goes on, and it leaves the tree of weights.
///
/// Deviation: the text does not say what becomes of I/O that waits in a group that is removed (Linux keeps
/// the node until it has left). It is let through, charged as if it had been its turn.
impl IoCost {
    fn let_waiters_go(&mut self, n: u32) {
        while let Some(slot) = self.first_waiter(n) {
            let (_, hwi) = self.shares.of(n);
            self.commit_waiter(n, slot, hwi);
        }
    }

    fn removed(&mut self, n: u32, now: &Now) {
        self.let_waiters_go(n);
        self.waiting_ended(n, now);
        self.retire(n);
        // Deviation: the text leaves the inuse of 1 that a retired node keeps in its parent's sum for ever;
        // with every group that is removed the sum would grow.
        if self.shares[n].sum_active == 0 {
            let parent = self.shares[n].parent;
            let rest = core::mem::take(&mut self.shares[n].inuse);
            self.shares[parent].sum_inuse -= rest;
        }
        self.shares.commit();
        if self.wake_nodes.linked(n) {
            self.wakes.remove(&mut self.wake_nodes, n);
        }
        let node = &mut self.shares[n];
        node.dead = true;
        node.debt = 0;
        node.delay_us = 0;
        node.delay.clear();
    }
}

impl Controller for IoCost {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        if self.enabled {
            self.arrive(now, bio, cx)
        } else if self.waiting != 0 {
            self.pass_behind_waiters(bio, cx)
        } else {
            Verdict::Pass
        }
    }

    fn release(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<BioId> {
        let slot = self.ready.pop_front(&mut self.bio_links)?;
        let state = self.bios[slot as usize];
        self.shares[state.node].ready -= 1;
        self.waiting -= 1;
        Some(state.id)
    }

    /// What waits is charged as if it had been its turn.
    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<BioId> {
        if self.waiting > 0 && self.ready.is_empty() {
            let at = self.now(now);
            for n in 0..self.shares.len() as u32 {
                if self.first_waiter(n).is_some() {
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
        if self.checks_set == 0 { Nanos::ZERO } else { self.sleep_of(now, proc, cx) }
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
                let now = self.now(now);
                self.removed(group.0, &now);
            }
            Change::Device => {
                self.rotational = cx.device.rotational;
                self.queue_depth = cx.device.queue_depth;
                self.tick = cx.device.tick;
                if self.created {
                    self.refresh(false, now.as_nanos() / 1000);
                }
            }
            _ => {}
        }
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        while let Some(due) = self.next_timer().filter(|&due| due <= now) {
            // At the same instant wakes come first: the period timer runs after the ns timers of its tick.
            if self.period_timer == Some(due) && self.next_wake() != Some(due) {
                self.period_timer = None;
                self.plan(now, cx);
            } else {
                self.wake_first(now, cx);
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        match (self.period_timer, self.next_wake()) {
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
        self.set.set(name, value)?;
        if self.created {
            self.refresh(true, now.as_nanos() / 1000);
            self.hasten(now);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.set.value(name)
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

/// vrates in percent beyond which the built-in model of the SSD classes is taken to be the wrong one.
const TOO_FAST_PCT: u64 = 500;
const TOO_SLOW_PCT: u64 = 10;
