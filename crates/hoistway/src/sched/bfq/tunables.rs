//! Tunables: the kernel's, and the switches for quirks of the reference (specs/bfq.md sections 9, 10).

use super::Bfq;
use super::budget::SLOT;
use crate::env::Cx;
use crate::tunable::{Tunable, TunableError, Unit, check};
use crate::unit::{Instant, Nanos};

/// What the tunables say, in the units of the decisions.
#[derive(Clone, Debug)]
pub(super) struct Conf {
    pub slice_idle: Nanos,
    pub strict_guarantees: bool,
    /// Sectors; 0 = automatic.
    pub user_max_budget: u64,
    pub timeout: Nanos,
    /// It was written: ticks round it up, not down (10.1).
    pub timeout_written: bool,
    pub fifo_expire_sync: Nanos,
    pub fifo_expire_async: Nanos,
    pub back_seek_max_kib: u64,
    pub back_seek_penalty: u64,
    pub async_charge_factor: u64,
    pub first_think_long: bool,
    /// The rules of 2010 (11) for weights and costs.
    pub v1: bool,
    pub base: Base,
    /// Instants are kept in ticks (quirk Q12).
    pub tick_rounding: bool,
    /// The "idled too long" test of 4.7.3 works as intended (quirk Q4).
    pub inject_after_long_idle: bool,
    /// Slow slots are charged for their part of the time limit as it is set (quirk Q5).
    pub charge_as_tuned: bool,
    /// The weight of a group for this device and its general one are told apart (quirk Q16).
    pub keep_device_weight: bool,
    /// The small budget of a raised queue holds its first request (quirk Q6).
    pub raised_budget_fits: bool,
    /// The requests of a queue that moves count in its new groups (quirk Q20).
    pub move_counts: bool,
    /// A slot that ends by an exit is not charged twice (quirk Q21).
    pub fix_exit_charge: bool,
    pub low_latency: bool,
    pub wr_coeff: u32,
    pub wr_rt_max_time: Nanos,
    /// Zero: derived from the peak rate.
    pub wr_max_time: Nanos,
    pub wr_min_idle: Nanos,
    pub wr_min_inter_arr_async: Nanos,
    /// Sectors per second.
    pub wr_max_softrt_rate: u64,
    pub large_burst_thresh: u32,
    pub burst_interval: Nanos,
    /// In-flight requests from which an actuator counts as loaded.
    pub actuator_load: u32,
    pub injection: bool,
    pub preemption: bool,
    pub queue_merge: bool,
    pub stable_merge: bool,
    pub queue_statistics: bool,
}

/// Whose decisions: a version of the reference with its quirks, or what we make of the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    V61,
    V62,
    Hoistway,
}

impl Base {
    const WORDS: &'static [&'static str] = &["6.1", "6.2+", "hoistway"];
    const ALL: [Base; 3] = [Base::V61, Base::V62, Base::Hoistway];
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            slice_idle: Nanos::ms(8),
            strict_guarantees: false,
            user_max_budget: 0,
            timeout: SLOT,
            timeout_written: false,
            fifo_expire_sync: Nanos::ms(125),
            fifo_expire_async: Nanos::ms(250),
            back_seek_max_kib: 16_384,
            back_seek_penalty: 2,
            async_charge_factor: 3,
            first_think_long: false,
            v1: false,
            base: Base::Hoistway,
            tick_rounding: false,
            inject_after_long_idle: true,
            charge_as_tuned: true,
            raised_budget_fits: true,
            move_counts: true,
            fix_exit_charge: true,
            keep_device_weight: true,
            low_latency: true,
            wr_coeff: 30,
            wr_rt_max_time: Nanos::ms(300),
            wr_max_time: Nanos::ZERO,
            wr_min_idle: Nanos::secs(2),
            wr_min_inter_arr_async: Nanos::ms(500),
            wr_max_softrt_rate: 7_000,
            large_burst_thresh: 8,
            burst_interval: Nanos::ms(180),
            actuator_load: 4,
            injection: true,
            preemption: true,
            queue_merge: true,
            stable_merge: true,
            queue_statistics: false,
        }
    }
}

const fn tunable(
    name: &'static str,
    unit: Unit,
    default: u64,
    range: (u64, u64),
    doc: &'static str,
) -> Tunable {
    Tunable { name, unit, default, min: range.0, max: range.1, doc }
}

/// Ten minutes: longer waits make no sense and shorter ones cannot overflow.
const MS_MAX: u64 = 600_000;

pub(super) static TUNABLES: &[Tunable] = &[
    tunable(
        "slice_idle",
        Unit::Millis,
        8,
        (0, MS_MAX),
        "How long the device is kept idle for the next request of a queue. 0: never.",
    ),
    tunable(
        "slice_idle_us",
        Unit::Micros,
        8_000,
        (0, 1_000 * MS_MAX),
        "The same in microseconds; the last one written counts.",
    ),
    tunable(
        "strict_guarantees",
        Unit::Switch,
        0,
        (0, 1),
        "Always idle, and only one request in the device. Raises slice_idle to 8 ms.",
    ),
    tunable(
        "max_budget",
        Unit::Sectors,
        0,
        (0, i32::MAX as u64),
        "Largest service of a slot. 0: what the device serves in timeout_sync at its peak rate.",
    ),
    tunable("timeout_sync", Unit::Millis, 125, (1, MS_MAX), "Time limit of a slot."),
    tunable(
        "fifo_expire_sync",
        Unit::Millis,
        125,
        (1, MS_MAX),
        "A sync request older than this may be served before the sorted order, once per slot.",
    ),
    tunable("fifo_expire_async", Unit::Millis, 250, (1, MS_MAX), "The same for async requests."),
    tunable(
        "back_seek_max",
        Unit::Kib,
        16_384,
        (0, 1 << 40),
        "Requests at most this far behind the head compete with those ahead of it.",
    ),
    tunable(
        "back_seek_penalty",
        Unit::Factor,
        2,
        (1, 1_000),
        "Distances behind the head count this many times.",
    ),
    tunable(
        "async_charge_factor",
        Unit::Factor,
        3,
        (1, 1_000),
        "An async request of an unraised queue costs this many times its size, if all weigh alike.",
    ),
    tunable(
        "class_idle_period",
        Unit::Millis,
        200,
        (1, MS_MAX),
        "How often the idle class is offered a slot while others are busy.",
    ),
    tunable(
        "exact_pick",
        Unit::Switch,
        1,
        (0, 1),
        "1: the eligible queue with the smallest finish. 0: the reference's tree descent (quirk Q1).",
    ),
    tunable(
        "exact_candidate",
        Unit::Switch,
        1,
        (0, 1),
        "1: the next queue is looked up at every activation. 0: it is compared with the cached one (Q15).",
    ),
    tunable(
        "first_think",
        Unit::Choice(&["zero", "long"]),
        0,
        (0, 1),
        "First think-time sample of a queue when no time passes between creation and insertion (Q18).",
    ),
    tunable(
        "low_latency",
        Unit::Switch,
        1,
        (0, 1),
        "Raises the weight of interactive and soft real-time queues for a while.",
    ),
    tunable(
        "base",
        Unit::Choice(Base::WORDS),
        Base::Hoistway as u64,
        (0, Base::Hoistway as u64),
        "Whose decisions. 6.1 or 6.2+: those of that version of the reference, its quirks included; writing \
         it turns tick_rounding on and every switch that mends a quirk off. hoistway: the rules of 6.2+, \
         all mended.",
    ),
    tunable(
        "tick_rounding",
        Unit::Switch,
        0,
        (0, 1),
        "Instants that the reference keeps in clock ticks are rounded to the device's tick (Q12).",
    ),
    tunable(
        "inject_after_long_idle",
        Unit::Switch,
        1,
        (0, 1),
        "One request is injected once idling has lasted slice_idle, whatever was learnt (Q4).",
    ),
    tunable(
        "fix_group_double_charge",
        Unit::Switch,
        1,
        (0, 1),
        "1: a group that is repositioned while in service is not charged twice (Q3).",
    ),
    tunable(
        "charge_as_tuned",
        Unit::Switch,
        1,
        (0, 1),
        "1: a slow slot is charged for its part of timeout_sync as set. 0: of 125 ms (Q5).",
    ),
    tunable(
        "raised_budget_fits",
        Unit::Switch,
        1,
        (0, 1),
        "1: the small budget of a queue that is raised holds its first request. 0: it may not (Q6).",
    ),
    tunable(
        "keep_device_weight",
        Unit::Switch,
        1,
        (0, 1),
        "1: a group's weight for the device outlives a write of the general one, and taking it away restores \
         that one. 0: neither (Q16).",
    ),
    tunable(
        "keep_idle_ticket",
        Unit::Switch,
        1,
        (0, 1),
        "1: the idle class keeps its turn of class_idle_period until it is served. 0: until it is chosen (Q10).",
    ),
    tunable(
        "fix_class_count",
        Unit::Switch,
        1,
        (0, 1),
        "1: a busy queue whose class changes is counted in the new one. 0: in the old one for good (Q19).",
    ),
    tunable(
        "move_counts",
        Unit::Switch,
        1,
        (0, 1),
        "1: the requests of a queue that moves to another group count there. 0: in the old one (Q20).",
    ),
    tunable(
        "fix_exit_charge",
        Unit::Switch,
        1,
        (0, 1),
        "1: what a slot received that ends because a process exits is charged once. 0: twice (Q21).",
    ),
    tunable(
        "wr_coeff",
        Unit::Factor,
        30,
        (2, 100),
        "Weight of an interactive queue, times its own.",
    ),
    tunable("wr_rt_max_time", Unit::Millis, 300, (1, MS_MAX), "Raising of a soft real-time queue."),
    tunable(
        "wr_max_time",
        Unit::Millis,
        0,
        (0, MS_MAX),
        "Raising of an interactive queue. 0: 3 to 25 s, by the peak rate of the device.",
    ),
    tunable(
        "wr_min_idle_time",
        Unit::Millis,
        2_000,
        (0, MS_MAX),
        "A queue idle for longer counts as interactive when it comes back.",
    ),
    tunable(
        "wr_min_inter_arr_async",
        Unit::Millis,
        500,
        (0, MS_MAX),
        "A busy async queue without arrivals for longer is raised.",
    ),
    tunable(
        "wr_max_softrt_rate",
        Unit::Sectors,
        7_000,
        (0, 1 << 30),
        "Sectors per second up to which a periodic queue is soft real-time. 0: none is.",
    ),
    tunable(
        "large_burst_thresh",
        Unit::Count,
        8,
        (2, 1 << 20),
        "From so many queues created at once on they are not raised.",
    ),
    tunable("burst_interval", Unit::Millis, 180, (0, MS_MAX), "Pause that ends such a burst."),
    tunable(
        "actuator_load_threshold",
        Unit::Requests,
        4,
        (1, 1_000),
        "An actuator with fewer requests in it may be kept busy by a queue out of turn.",
    ),
    tunable(
        "injection",
        Unit::Switch,
        1,
        (0, 1),
        "Others fill the gaps while a queue is waited for.",
    ),
    tunable("preemption", Unit::Switch, 1, (0, 1), "A queue that becomes busy may end a slot."),
    tunable(
        "queue_merge",
        Unit::Switch,
        1,
        (0, 1),
        "Queues with interleaved positions are merged (rotational or non-queueing devices).",
    ),
    tunable("stable_merge", Unit::Switch, 1, (0, 1), "Queues created within 180 ms are merged."),
    tunable(
        "queue_statistics",
        Unit::Switch,
        0,
        (0, 1),
        "1: figures of every queue too, at 144 bytes a queue; they begin when it is written.",
    ),
];

impl Bfq {
    pub(super) fn set_tunable(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        check(TUNABLES, "bfq", name, value)?;
        let on = value != 0;
        match name {
            "low_latency" => {
                self.conf.low_latency = on;
                if !on {
                    self.end_all_raising(now, cx);
                }
            }
            "base" => self.set_base(Base::ALL[value as usize]),
            // Instants already taken stay what they are.
            "tick_rounding" => self.conf.tick_rounding = on,
            "charge_as_tuned" => self.conf.charge_as_tuned = on,
            "raised_budget_fits" => self.conf.raised_budget_fits = on,
            "keep_device_weight" => self.conf.keep_device_weight = on,
            "keep_idle_ticket" => self.fair.keep_idle_ticket = on,
            "fix_class_count" => self.fair.set_fix_class_count(on),
            "move_counts" => self.set_move_counts(on),
            "fix_exit_charge" => self.conf.fix_exit_charge = on,
            "inject_after_long_idle" => self.conf.inject_after_long_idle = on,
            "fix_group_double_charge" => self.fair.fix_double_charge = on,
            "wr_coeff" => self.conf.wr_coeff = value as u32,
            "wr_rt_max_time" => self.conf.wr_rt_max_time = Nanos::ms(value),
            "wr_max_time" => self.conf.wr_max_time = Nanos::ms(value),
            "wr_min_idle_time" => self.conf.wr_min_idle = Nanos::ms(value),
            "wr_min_inter_arr_async" => self.conf.wr_min_inter_arr_async = Nanos::ms(value),
            "wr_max_softrt_rate" => self.conf.wr_max_softrt_rate = value,
            "large_burst_thresh" => self.conf.large_burst_thresh = value as u32,
            "burst_interval" => self.conf.burst_interval = Nanos::ms(value),
            "actuator_load_threshold" => self.conf.actuator_load = value as u32,
            "injection" => self.conf.injection = on,
            "preemption" => self.conf.preemption = on,
            "queue_merge" => self.conf.queue_merge = on,
            "stable_merge" => self.conf.stable_merge = on,
            "queue_statistics" => self.set_queue_statistics(on),
            "slice_idle" => self.conf.slice_idle = Nanos::ms(value),
            "slice_idle_us" => self.conf.slice_idle = Nanos::us(value),
            "strict_guarantees" => {
                if on && !self.conf.strict_guarantees {
                    self.conf.slice_idle = self.conf.slice_idle.max(STRICT_SLICE_IDLE);
                }
                self.conf.strict_guarantees = on;
            }
            "max_budget" => {
                self.conf.user_max_budget = value;
                self.recompute_max_budget();
            }
            "timeout_sync" => {
                self.conf.timeout = Nanos::ms(value);
                self.conf.timeout_written = true;
                self.recompute_max_budget();
            }
            "fifo_expire_sync" => self.conf.fifo_expire_sync = Nanos::ms(value),
            "fifo_expire_async" => self.conf.fifo_expire_async = Nanos::ms(value),
            "back_seek_max" => self.conf.back_seek_max_kib = value,
            "back_seek_penalty" => self.conf.back_seek_penalty = value,
            "async_charge_factor" => self.conf.async_charge_factor = value,
            "class_idle_period" => self.fair.idle_class_period = Nanos::ms(value),
            "exact_pick" => self.fair.exact_pick = on,
            "exact_candidate" => self.fair.exact_candidate = on,
            "first_think" => self.conf.first_think_long = on,
            _ => unreachable!("every name of the table is handled"),
        }
        Ok(())
    }

    /// Takes over every decision of a version of the reference, or mends all that is to be mended
    /// (section 10).
    pub(super) fn set_base(&mut self, base: Base) {
        let mended = base == Base::Hoistway;
        self.conf.base = base;
        self.conf.tick_rounding = !mended;
        self.conf.inject_after_long_idle = mended;
        self.conf.charge_as_tuned = mended;
        self.conf.raised_budget_fits = mended;
        self.conf.keep_device_weight = mended;
        self.set_move_counts(mended);
        self.conf.fix_exit_charge = mended;
        self.fair.set_mended(mended);
    }

    pub(super) fn tunable(&self, name: &str) -> Option<u64> {
        let conf = &self.conf;
        Some(match name {
            "slice_idle" => conf.slice_idle.as_ms(),
            "slice_idle_us" => conf.slice_idle.as_us(),
            "strict_guarantees" => conf.strict_guarantees.into(),
            "max_budget" => conf.user_max_budget,
            "timeout_sync" => conf.timeout.as_ms(),
            "fifo_expire_sync" => conf.fifo_expire_sync.as_ms(),
            "fifo_expire_async" => conf.fifo_expire_async.as_ms(),
            "back_seek_max" => conf.back_seek_max_kib,
            "back_seek_penalty" => conf.back_seek_penalty,
            "async_charge_factor" => conf.async_charge_factor,
            "class_idle_period" => self.fair.idle_class_period.as_ms(),
            "exact_pick" => self.fair.exact_pick.into(),
            "exact_candidate" => self.fair.exact_candidate.into(),
            "first_think" => conf.first_think_long.into(),
            "low_latency" => conf.low_latency.into(),
            "base" => conf.base as u64,
            "tick_rounding" => conf.tick_rounding.into(),
            "charge_as_tuned" => conf.charge_as_tuned.into(),
            "raised_budget_fits" => conf.raised_budget_fits.into(),
            "keep_device_weight" => conf.keep_device_weight.into(),
            "keep_idle_ticket" => self.fair.keep_idle_ticket.into(),
            "fix_class_count" => self.fair.fix_class_count.into(),
            "move_counts" => conf.move_counts.into(),
            "fix_exit_charge" => conf.fix_exit_charge.into(),
            "inject_after_long_idle" => conf.inject_after_long_idle.into(),
            "fix_group_double_charge" => self.fair.fix_double_charge.into(),
            "wr_coeff" => conf.wr_coeff.into(),
            "wr_rt_max_time" => conf.wr_rt_max_time.as_ms(),
            "wr_max_time" => conf.wr_max_time.as_ms(),
            "wr_min_idle_time" => conf.wr_min_idle.as_ms(),
            "wr_min_inter_arr_async" => conf.wr_min_inter_arr_async.as_ms(),
            "wr_max_softrt_rate" => conf.wr_max_softrt_rate,
            "large_burst_thresh" => conf.large_burst_thresh.into(),
            "burst_interval" => conf.burst_interval.as_ms(),
            "actuator_load_threshold" => conf.actuator_load.into(),
            "injection" => conf.injection.into(),
            "preemption" => conf.preemption.into(),
            "queue_merge" => conf.queue_merge.into(),
            "stable_merge" => conf.stable_merge.into(),
            "queue_statistics" => conf.queue_statistics.into(),
            _ => return None,
        })
    }
}

/// `strict_guarantees` needs idling at least this long (9).
const STRICT_SLICE_IDLE: Nanos = Nanos::ms(8);
