//! Tunables: the kernel's, and the switches for quirks of the reference (specs/bfq.md sections 9, 10).

use super::Bfq;
use super::slot::SLOT;
use crate::env::Cx;
use crate::setting::{OnChange, Tunable, TunableError, Unit, check};
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
    /// No measurement for this long after the limit was lowered (4.7.1).
    pub inject_sample_pause: Nanos,
    /// The limit may grow to twice the most requests seen in the device, not to one more (11.7 item 2).
    pub inject_up_to_twice: bool,
    /// Every new base lifts a limit of 0, not only the first (11.7 item 3).
    pub inject_on_new_base: bool,
    /// The limit moves whether or not anything was injected (11.7 item 4).
    pub inject_flag_kept: bool,
    /// Think time is short up to half of `slice_idle`, not up to all of it (11.7 item 5).
    pub think_margin: bool,
    /// Detections until a queue counts as the waker of another.
    pub waker_detections: u8,
    /// A queue that is often idle counts as not bound by I/O (5.8).
    pub io_intensity: bool,
    /// A shared queue takes over the waker of a queue merged into it (7.4).
    pub inherit_waker: bool,
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
    /// August 2019, before the last changes to injection (11.7).
    V53,
}

impl Base {
    const WORDS: &'static [&'static str] = &["6.1", "6.2+", "hoistway", "5.3"];
    const ALL: [Base; 4] = [Base::V61, Base::V62, Base::Hoistway, Base::V53];

    /// The rules before 6.2, where versions differ.
    pub fn before_6_2(self) -> bool {
        matches!(self, Base::V53 | Base::V61)
    }
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
            inject_sample_pause: SAMPLE_PAUSE,
            inject_up_to_twice: false,
            inject_on_new_base: false,
            inject_flag_kept: false,
            think_margin: true,
            waker_detections: WAKER_DETECTIONS,
            io_intensity: true,
            inherit_waker: true,
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
    Tunable::new(name, unit, default, (range.0, range.1), doc)
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
    ).on_change(OnChange::Waits),
    tunable(
        "slice_idle_us",
        Unit::Micros,
        8_000,
        (0, 1_000 * MS_MAX),
        "The same in microseconds; the last one written counts.",
    ).on_change(OnChange::Waits),
    tunable(
        "strict_guarantees",
        Unit::Switch,
        0,
        (0, 1),
        "Always idle, and only one request in the device. Raises slice_idle to 8 ms.",
    ).on_change(OnChange::Waits),
    tunable(
        "max_budget",
        Unit::Sectors,
        0,
        (0, i32::MAX as u64),
        "Largest service of a slot. 0: what the device serves in timeout_sync at its peak rate.",
    ).on_change(OnChange::Limits),
    tunable("timeout_sync", Unit::Millis, 125, (1, MS_MAX), "Time limit of a slot.").on_change(OnChange::Limits),
    tunable(
        "fifo_expire_sync",
        Unit::Millis,
        125,
        (1, MS_MAX),
        "A sync request older than this may be served before the sorted order, once per slot.",
    ).on_change(OnChange::LaterRequests),
    tunable("fifo_expire_async", Unit::Millis, 250, (1, MS_MAX), "The same for async requests.").on_change(OnChange::LaterRequests),
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
    ).on_change(OnChange::LaterSamples),
    tunable(
        "low_latency",
        Unit::Switch,
        1,
        (0, 1),
        "Raises the weight of interactive and soft real-time queues for a while.",
    ).on_change(OnChange::Resets),
    tunable(
        "base",
        Unit::Choice(Base::WORDS),
        Base::Hoistway as u64,
        (0, Base::V53 as u64),
        "Whose decisions. 5.3, 6.1 or 6.2+: those of that version of the reference, its quirks included; \
         writing it turns tick_rounding on and every switch that mends a quirk off, and 5.3 sets what changed \
         since: injection, wakers, think times, stable_merge. hoistway: the rules of 6.2+, all mended.",
    ).on_change(OnChange::Resets),
    tunable(
        "tick_rounding",
        Unit::Switch,
        0,
        (0, 1),
        "Instants that the reference keeps in clock ticks are rounded to the device's tick (Q12).",
    ).on_change(OnChange::LaterSamples),
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
    ).on_change(OnChange::Resets),
    tunable(
        "move_counts",
        Unit::Switch,
        1,
        (0, 1),
        "1: the requests of a queue that moves to another group count there. 0: in the old one (Q20).",
    ).on_change(OnChange::Resets),
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
    tunable("wr_rt_max_time", Unit::Millis, 300, (1, MS_MAX), "Raising of a soft real-time queue.").on_change(OnChange::Limits),
    tunable(
        "wr_max_time",
        Unit::Millis,
        0,
        (0, MS_MAX),
        "Raising of an interactive queue. 0: 3 to 25 s, by the peak rate of the device.",
    ).on_change(OnChange::Limits),
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
    tunable(
        "inject_sample_pause",
        Unit::Millis,
        10,
        (0, MS_MAX),
        "Pause in measuring what injection costs after the limit was lowered; 100 ms in 5.3.",
    ),
    tunable(
        "inject_up_to_twice",
        Unit::Switch,
        0,
        (0, 1),
        "1: the limit of injection grows to twice the most requests seen in the device (5.3). 0: to one more.",
    ),
    tunable(
        "inject_on_new_base",
        Unit::Switch,
        0,
        (0, 1),
        "1: every new base service time lifts a limit of 0 to 1 (5.3). 0: only the first.",
    ),
    tunable(
        "inject_flag_kept",
        Unit::Switch,
        0,
        (0, 1),
        "1: the limit moves whether or not anything was injected (5.3). 0: only if something was.",
    ),
    tunable(
        "think_margin",
        Unit::Switch,
        1,
        (0, 1),
        "1: think times are short up to half of slice_idle. 0: up to slice_idle (5.3).",
    ),
    tunable(
        "waker_detections",
        Unit::Count,
        3,
        (1, 100),
        "So many times in a row a queue must go on after another's completion for that to be its waker; 1 in 5.3.",
    ),
    tunable(
        "io_intensity",
        Unit::Switch,
        1,
        (0, 1),
        "1: throughput is no reason to wait for a queue that is idle a fifth of the time. 0: it may be (5.3).",
    ),
    tunable(
        "inherit_waker",
        Unit::Switch,
        1,
        (0, 1),
        "1: a shared queue takes over the waker of a queue merged into it. 0: it does not (5.3).",
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
    ).on_change(OnChange::LaterSamples),
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
            "inject_sample_pause" => self.conf.inject_sample_pause = Nanos::ms(value),
            "inject_up_to_twice" => self.conf.inject_up_to_twice = on,
            "inject_on_new_base" => self.conf.inject_on_new_base = on,
            "inject_flag_kept" => self.conf.inject_flag_kept = on,
            "think_margin" => self.conf.think_margin = on,
            "waker_detections" => self.conf.waker_detections = value as u8,
            "io_intensity" => self.conf.io_intensity = on,
            "inherit_waker" => self.conf.inherit_waker = on,
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
        if (base == Base::V53) != (self.conf.base == Base::V53) {
            self.set_2019(base == Base::V53);
        }
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

    /// What changed from 5.3 to 6.1 is as it was in 5.3, or as it is (11.7).
    fn set_2019(&mut self, on: bool) {
        let conf = &mut self.conf;
        conf.inject_sample_pause = if on { SAMPLE_PAUSE_5_3 } else { SAMPLE_PAUSE };
        conf.inject_up_to_twice = on;
        conf.inject_on_new_base = on;
        conf.inject_flag_kept = on;
        conf.stable_merge = !on;
        conf.think_margin = !on;
        conf.waker_detections = if on { 1 } else { WAKER_DETECTIONS };
        conf.io_intensity = !on;
        conf.inherit_waker = !on;
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
            "inject_sample_pause" => conf.inject_sample_pause.as_ms(),
            "inject_up_to_twice" => conf.inject_up_to_twice.into(),
            "inject_on_new_base" => conf.inject_on_new_base.into(),
            "inject_flag_kept" => conf.inject_flag_kept.into(),
            "think_margin" => conf.think_margin.into(),
            "waker_detections" => conf.waker_detections.into(),
            "io_intensity" => conf.io_intensity.into(),
            "inherit_waker" => conf.inherit_waker.into(),
            "preemption" => conf.preemption.into(),
            "queue_merge" => conf.queue_merge.into(),
            "stable_merge" => conf.stable_merge.into(),
            "queue_statistics" => conf.queue_statistics.into(),
            _ => return None,
        })
    }
}

/// 4.7.1 and 11.7 item 1.
const SAMPLE_PAUSE: Nanos = Nanos::ms(10);
const SAMPLE_PAUSE_5_3: Nanos = Nanos::ms(100);
/// 4.8.
const WAKER_DETECTIONS: u8 = 3;
/// `strict_guarantees` needs idling at least this long (9).
const STRICT_SLICE_IDLE: Nanos = Nanos::ms(8);
