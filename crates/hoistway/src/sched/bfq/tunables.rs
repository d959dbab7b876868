//! Tunables: the kernel's, and the switches for quirks of the reference (specs/bfq.md sections 9, 10).

use super::Bfq;
use super::follow::BfqEffect;
use super::wf2q::FairRules;
use crate::sched::seek::Arm;
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};
use crate::unit::Nanos;

/// Settings in force, in the units of the decisions.
#[derive(Clone, Debug, Default)]
pub(super) struct BfqConf {
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
    /// Rules of the fair queue.
    pub fair: FairRules,
}

/// The version whose decisions hold: one of the reference with its quirks, or the newer one mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Base {
    V61,
    V62,
    #[default]
    Hoistway,
    /// August 2019, before the last changes to injection (11.7).
    V53,
    V612,
    V73,
}

impl Base {
    const WORDS: &'static [&'static str] = &["6.1", "6.2+", "hoistway", "5.3", "6.12", "7.3"];
    const ALL: [Base; 6] = [Base::V61, Base::V62, Base::Hoistway, Base::V53, Base::V612, Base::V73];

    /// What `hoistway differ` found in 6.1 and 6.12 holds (quirks Q22 to Q24); of 5.3 there are no recordings.
    pub fn as_recorded(self) -> bool {
        matches!(self, Base::V61 | Base::V62 | Base::V612 | Base::V73)
    }

    /// Rules of 6.12 that 6.2 does not have, or that were not looked for there.
    pub fn has_rules_of_6_12(self) -> bool {
        matches!(self, Base::V612 | Base::V73)
    }

    /// A queue that moves is taken off the count of its group before its slot ends (quirk Q27): recorded of 6.12, whose
    /// count of groups is that of 6.2.
    pub fn leaves_count_first(self) -> bool {
        matches!(self, Base::V62 | Base::V612 | Base::V73)
    }

    /// The rules before 6.2, where versions differ.
    pub fn before_6_2(self) -> bool {
        matches!(self, Base::V53 | Base::V61)
    }
}

/// Ten minutes: longer waits make no sense and shorter ones cannot overflow.
pub(super) const MS_MAX: u64 = 600_000;

/// The values of a switch that mends a quirk: off with every version of the reference.
const MENDED: &[u64] = &[0, 0, 1, 0, 0, 0];
const HOISTWAY: u64 = Base::Hoistway as u64;

const ROWS: &[Setting<BfqConf, BfqEffect>] = &[
    Tunable::new(
        "slice_idle",
        Unit::Millis,
        8,
        (0, MS_MAX),
        "How long the device is kept idle for the next request of a queue. 0: never.",
    )
    .on_change(OnChange::Waits)
    .only_with("base", HOISTWAY, OnChange::LaterWaits)
    .field_then(
        |c| c.slice_idle.as_ms(),
        |c, v| c.slice_idle = Nanos::ms(v),
        Bfq::idling_changed,
    ),
    Tunable::new(
        "slice_idle_us",
        Unit::Micros,
        8_000,
        (0, 1_000 * MS_MAX),
        "The same in microseconds; the last one written counts.",
    )
    .on_change(OnChange::Waits)
    .only_with("base", HOISTWAY, OnChange::LaterWaits)
    .field_then(
        |c| c.slice_idle.as_us(),
        |c, v| c.slice_idle = Nanos::us(v),
        Bfq::idling_changed,
    ),
    Tunable::switch(
        "strict_guarantees",
        false,
        "Always idle, and only one request in the device. Raises slice_idle to 8 ms.",
    )
    .on_change(OnChange::Waits)
    .only_with("base", HOISTWAY, OnChange::LaterWaits)
    .field_then(
        |c| c.strict_guarantees.into(),
        |c, v| c.set_strict(v != 0),
        Bfq::idling_changed,
    ),
    Tunable::new(
        "max_budget",
        Unit::Sectors,
        0,
        (0, i32::MAX as u64),
        "Largest service of a slot. 0: what the device serves in timeout_sync at its \
         peak rate.",
    )
    .on_change(OnChange::Limits)
    .only_with("base", HOISTWAY, OnChange::LaterLimits)
    .field_then(|c| c.user_max_budget, |c, v| c.user_max_budget = v, Bfq::budgets_changed),
    Tunable::new("timeout_sync", Unit::Millis, 125, (1, MS_MAX), "Time limit of a slot.")
        .on_change(OnChange::Limits)
        .only_with("base", HOISTWAY, OnChange::LaterLimits)
        .field_then(|c| c.timeout.as_ms(), |c, v| c.timeout = Nanos::ms(v), Bfq::timeout_changed),
    Tunable::new(
        "fifo_expire_sync",
        Unit::Millis,
        125,
        (1, MS_MAX),
        "A sync request older than this may be served before the sorted order, once per \
         slot.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|c| c.fifo_expire_sync.as_ms(), |c, v| c.fifo_expire_sync = Nanos::ms(v)),
    Tunable::new(
        "fifo_expire_async",
        Unit::Millis,
        250,
        (1, MS_MAX),
        "The same for async requests.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|c| c.fifo_expire_async.as_ms(), |c, v| c.fifo_expire_async = Nanos::ms(v)),
    Tunable::new(
        "back_seek_max",
        Unit::Kib,
        16_384,
        (0, 1 << 40),
        "Requests at most this far behind the head compete with those ahead of it.",
    )
    .field(|c| c.back_seek_max_kib, |c, v| c.back_seek_max_kib = v),
    Tunable::new(
        "back_seek_penalty",
        Unit::Factor,
        2,
        (1, 1_000),
        "Distances behind the head count this many times.",
    )
    .field(|c| c.back_seek_penalty, |c, v| c.back_seek_penalty = v),
    Tunable::new(
        "async_charge_factor",
        Unit::Factor,
        3,
        (1, 1_000),
        "An async request of an unraised queue costs this many times its size, if all \
         weigh alike.",
    )
    .field(|c| c.async_charge_factor, |c, v| c.async_charge_factor = v),
    Tunable::new(
        "class_idle_period",
        Unit::Millis,
        200,
        (1, MS_MAX),
        "How often the idle class is offered a slot while others are busy.",
    )
    .field_then(
        |c| c.fair.idle_class_period.as_ms(),
        |c, v| c.fair.idle_class_period = Nanos::ms(v),
        Bfq::rules_changed,
    ),
    Tunable::switch(
        "exact_pick",
        true,
        "1: the eligible queue with the smallest finish. 0: the reference's tree descent \
         (quirk Q1).",
    )
    .presets(MENDED, HOISTWAY)
    .field_then(
        |c| c.fair.exact_pick.into(),
        |c, v| c.fair.exact_pick = v != 0,
        Bfq::rules_changed,
    ),
    Tunable::switch(
        "exact_candidate",
        true,
        "1: the next queue is looked up at every activation. 0: it is compared with the \
         cached one (Q15).",
    )
    .presets(MENDED, HOISTWAY)
    .field_then(
        |c| c.fair.exact_candidate.into(),
        |c, v| c.fair.exact_candidate = v != 0,
        Bfq::rules_changed,
    ),
    Tunable::choice(
        "first_think",
        &["zero", "long"],
        0,
        "First think-time sample of a queue when no time passes between creation and \
         insertion (Q18).",
    )
    .on_change(OnChange::LaterSamples)
    .field(|c| c.first_think_long.into(), |c, v| c.first_think_long = v != 0),
    Tunable::switch(
        "low_latency",
        true,
        "Raises the weight of interactive and soft real-time queues for a while.",
    )
    .on_change(OnChange::Resets)
    .field_then(
        |c| c.low_latency.into(),
        |c, v| c.low_latency = v != 0,
        Bfq::low_latency_changed,
    ),
    Tunable::choice(
        "base",
        Base::WORDS,
        Base::Hoistway as u64,
        "Whose decisions. 5.3, 6.1, 6.2+, 6.12 or 7.3: those of that version of the reference, \
         its quirks included; writing it turns tick_rounding on and every switch that mends \
         a quirk off, and 5.3 sets what changed since: injection, wakers, think times, \
         stable_merge. hoistway: the rules of 6.2+, all mended.",
    )
    .on_change(OnChange::Resets)
    .field(|c| c.base as u64, |c, v| c.set_base(v)),
    Tunable::switch(
        "tick_rounding",
        false,
        "Instants that the reference keeps in clock ticks are rounded to the device's \
         tick (Q12).",
    )
    .presets(&[1, 1, 0, 1, 1, 1], HOISTWAY)
    .on_change(OnChange::LaterSamples)
    .field_then(
        |c| c.tick_rounding.into(),
        |c, v| c.tick_rounding = v != 0,
        Bfq::rounding_changed,
    ),
    Tunable::switch(
        "inject_after_long_idle",
        true,
        "One request is injected once idling has lasted slice_idle, whatever was learnt \
         (Q4).",
    )
    .presets(MENDED, HOISTWAY)
    .field(|c| c.inject_after_long_idle.into(), |c, v| c.inject_after_long_idle = v != 0),
    Tunable::switch(
        "fix_group_double_charge",
        true,
        "1: a group that is repositioned while in service is not charged twice (Q3).",
    )
    .presets(MENDED, HOISTWAY)
    .field_then(
        |c| c.fair.fix_double_charge.into(),
        |c, v| c.fair.fix_double_charge = v != 0,
        Bfq::rules_changed,
    ),
    Tunable::switch(
        "charge_as_tuned",
        true,
        "1: a slow slot is charged for its part of timeout_sync as set. 0: of 125 ms \
         (Q5).",
    )
    .presets(MENDED, HOISTWAY)
    .field(|c| c.charge_as_tuned.into(), |c, v| c.charge_as_tuned = v != 0),
    Tunable::switch(
        "raised_budget_fits",
        true,
        "1: the small budget of a queue that is raised holds its first request. 0: it \
         may not (Q6).",
    )
    .presets(MENDED, HOISTWAY)
    .field(|c| c.raised_budget_fits.into(), |c, v| c.raised_budget_fits = v != 0),
    Tunable::switch(
        "keep_device_weight",
        true,
        "1: a group's weight for the device outlives a write of the general one, and \
         taking it away restores that one. 0: neither (Q16).",
    )
    .presets(MENDED, HOISTWAY)
    .field(|c| c.keep_device_weight.into(), |c, v| c.keep_device_weight = v != 0),
    Tunable::switch(
        "keep_idle_ticket",
        true,
        "1: the idle class keeps its turn of class_idle_period until it is served. 0: \
         until it is chosen (Q10).",
    )
    .presets(MENDED, HOISTWAY)
    .field_then(
        |c| c.fair.keep_idle_ticket.into(),
        |c, v| c.fair.keep_idle_ticket = v != 0,
        Bfq::rules_changed,
    ),
    Tunable::switch(
        "fix_group_ticket",
        true,
        "1: the idle class of a new group waits class_idle_period for its first turn. 0: \
         it has it at once (Q22).",
    )
    .presets(&[0, 0, 1, 1, 0, 0], HOISTWAY)
    .field_then(
        |c| c.fair.fix_group_ticket.into(),
        |c, v| c.fair.fix_group_ticket = v != 0,
        Bfq::rules_changed,
    ),
    Tunable::switch(
        "fix_class_count",
        true,
        "1: a busy queue whose class changes is counted in the new one. 0: in the old \
         one for good (Q19).",
    )
    .presets(MENDED, HOISTWAY)
    .on_change(OnChange::Resets)
    .field_then(
        |c| c.fair.fix_class_count.into(),
        |c, v| c.fair.fix_class_count = v != 0,
        Bfq::rules_changed,
    ),
    Tunable::switch(
        "move_counts",
        true,
        "1: the requests of a queue that moves to another group count there. 0: in the \
         old one (Q20).",
    )
    .presets(MENDED, HOISTWAY)
    .on_change(OnChange::Resets)
    .field_then(|c| c.move_counts.into(), |c, v| c.move_counts = v != 0, Bfq::counting_changed),
    Tunable::switch(
        "fix_exit_charge",
        true,
        "1: what a slot received that ends because a process exits is charged once. 0: \
         twice (Q21).",
    )
    .presets(MENDED, HOISTWAY)
    .field(|c| c.fix_exit_charge.into(), |c, v| c.fix_exit_charge = v != 0),
    Tunable::new(
        "wr_coeff",
        Unit::Factor,
        30,
        (2, 100),
        "Weight of an interactive queue, times its own.",
    )
    .field(|c| c.wr_coeff.into(), |c, v| c.wr_coeff = v as u32),
    Tunable::new(
        "wr_rt_max_time",
        Unit::Millis,
        300,
        (1, MS_MAX),
        "Raising of a soft real-time queue.",
    )
    .on_change(OnChange::Limits)
    .only_with("base", HOISTWAY, OnChange::LaterLimits)
    .field_then(
        |c| c.wr_rt_max_time.as_ms(),
        |c, v| c.wr_rt_max_time = Nanos::ms(v),
        Bfq::raising_changed,
    ),
    Tunable::new(
        "wr_max_time",
        Unit::Millis,
        0,
        (0, MS_MAX),
        "Raising of an interactive queue. 0: 3 to 25 s, by the peak rate of the device.",
    )
    .on_change(OnChange::Limits)
    .only_with("base", HOISTWAY, OnChange::LaterLimits)
    .field_then(
        |c| c.wr_max_time.as_ms(),
        |c, v| c.wr_max_time = Nanos::ms(v),
        Bfq::raising_changed,
    ),
    Tunable::new(
        "wr_min_idle_time",
        Unit::Millis,
        2_000,
        (0, MS_MAX),
        "A queue idle for longer counts as interactive when it comes back.",
    )
    .field(|c| c.wr_min_idle.as_ms(), |c, v| c.wr_min_idle = Nanos::ms(v)),
    Tunable::new(
        "wr_min_inter_arr_async",
        Unit::Millis,
        500,
        (0, MS_MAX),
        "A busy async queue without arrivals for longer is raised.",
    )
    .field(|c| c.wr_min_inter_arr_async.as_ms(), |c, v| c.wr_min_inter_arr_async = Nanos::ms(v)),
    Tunable::new(
        "wr_max_softrt_rate",
        Unit::Sectors,
        7_000,
        (0, 1 << 30),
        "Sectors per second up to which a periodic queue is soft real-time. 0: none is.",
    )
    .field(|c| c.wr_max_softrt_rate, |c, v| c.wr_max_softrt_rate = v),
    Tunable::new(
        "large_burst_thresh",
        Unit::Count,
        8,
        (2, 1 << 20),
        "From so many queues created at once on they are not raised.",
    )
    .field(|c| c.large_burst_thresh.into(), |c, v| c.large_burst_thresh = v as u32),
    Tunable::new("burst_interval", Unit::Millis, 180, (0, MS_MAX), "Pause that ends such a burst.")
        .field(|c| c.burst_interval.as_ms(), |c, v| c.burst_interval = Nanos::ms(v)),
    Tunable::new(
        "actuator_load_threshold",
        Unit::Requests,
        4,
        (1, 1_000),
        "An actuator with fewer requests in it may be kept busy by a queue out of turn.",
    )
    .field(|c| c.actuator_load.into(), |c, v| c.actuator_load = v as u32),
    Tunable::switch("injection", true, "Others fill the gaps while a queue is waited for.")
        .field(|c| c.injection.into(), |c, v| c.injection = v != 0),
    Tunable::new(
        "inject_sample_pause",
        Unit::Millis,
        10,
        (0, MS_MAX),
        "Pause in measuring what injection costs after the limit was lowered; 100 ms in \
         5.3.",
    )
    .presets_if_different(&[10, 10, 10, 100, 10, 10], HOISTWAY)
    .field(|c| c.inject_sample_pause.as_ms(), |c, v| c.inject_sample_pause = Nanos::ms(v)),
    Tunable::switch(
        "inject_up_to_twice",
        false,
        "1: the limit of injection grows to twice the most requests seen in the device \
         (5.3). 0: to one more.",
    )
    .presets_if_different(&[0, 0, 0, 1, 0, 0], HOISTWAY)
    .field(|c| c.inject_up_to_twice.into(), |c, v| c.inject_up_to_twice = v != 0),
    Tunable::switch(
        "inject_on_new_base",
        false,
        "1: every new base service time lifts a limit of 0 to 1 (5.3). 0: only the first.",
    )
    .presets_if_different(&[0, 0, 0, 1, 0, 0], HOISTWAY)
    .field(|c| c.inject_on_new_base.into(), |c, v| c.inject_on_new_base = v != 0),
    Tunable::switch(
        "inject_flag_kept",
        false,
        "1: the limit moves whether or not anything was injected (5.3). 0: only if \
         something was.",
    )
    .presets_if_different(&[0, 0, 0, 1, 0, 0], HOISTWAY)
    .field(|c| c.inject_flag_kept.into(), |c, v| c.inject_flag_kept = v != 0),
    Tunable::switch(
        "think_margin",
        true,
        "1: think times are short up to half of slice_idle. 0: up to slice_idle (5.3).",
    )
    .presets_if_different(&[1, 1, 1, 0, 1, 1], HOISTWAY)
    .field(|c| c.think_margin.into(), |c, v| c.think_margin = v != 0),
    Tunable::new(
        "waker_detections",
        Unit::Count,
        3,
        (1, 100),
        "So many times in a row a queue must go on after another's completion for that \
         to be its waker; 1 in 5.3.",
    )
    .presets_if_different(&[3, 3, 3, 1, 3, 3], HOISTWAY)
    .field(|c| c.waker_detections.into(), |c, v| c.waker_detections = v as u8),
    Tunable::switch(
        "io_intensity",
        true,
        "1: throughput is no reason to wait for a queue that is idle a fifth of the \
         time. 0: it may be (5.3).",
    )
    .presets_if_different(&[1, 1, 1, 0, 1, 1], HOISTWAY)
    .field(|c| c.io_intensity.into(), |c, v| c.io_intensity = v != 0),
    Tunable::switch(
        "inherit_waker",
        true,
        "1: a shared queue takes over the waker of a queue merged into it. 0: it does \
         not (5.3).",
    )
    .presets_if_different(&[1, 1, 1, 0, 1, 1], HOISTWAY)
    .field(|c| c.inherit_waker.into(), |c, v| c.inherit_waker = v != 0),
    Tunable::switch("preemption", true, "A queue that becomes busy may end a slot.")
        .field(|c| c.preemption.into(), |c, v| c.preemption = v != 0),
    Tunable::switch(
        "queue_merge",
        true,
        "Queues with interleaved positions are merged (rotational or non-queueing \
         devices).",
    )
    .field(|c| c.queue_merge.into(), |c, v| c.queue_merge = v != 0),
    Tunable::switch("stable_merge", true, "Queues created within 180 ms are merged.")
        .presets_if_different(&[1, 1, 1, 0, 1, 1], HOISTWAY)
        .field(|c| c.stable_merge.into(), |c, v| c.stable_merge = v != 0),
    Tunable::switch(
        "queue_statistics",
        false,
        "1: figures of every queue too, at 144 bytes a queue; they begin when it is \
         written.",
    )
    .on_change(OnChange::LaterSamples)
    .field_then(
        |c| c.queue_statistics.into(),
        |c, v| c.queue_statistics = v != 0,
        Bfq::statistics_changed,
    ),
];

/// The table.
pub(super) static SETTINGS: Settings<BfqConf, BfqEffect> = Settings::new("bfq", ROWS);
/// The same for the registry.
pub(super) static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

impl BfqConf {
    /// How requests are told apart by distance (5.2).
    #[inline]
    pub fn arm(&self) -> Arm {
        Arm { back_max: 2 * self.back_seek_max_kib, back_penalty: self.back_seek_penalty }
    }

    /// Takes over every decision of a version of the reference, or mends all that is to be mended
    /// (section 10).
    fn set_base(&mut self, value: u64) {
        let old = core::mem::replace(&mut self.base, Base::ALL[value as usize]);
        SETTINGS.select(self, old as u64, value);
    }

    /// Turned on, it needs a wait long enough to guarantee anything.
    fn set_strict(&mut self, on: bool) {
        if on && !self.strict_guarantees {
            self.slice_idle = self.slice_idle.max(STRICT_SLICE_IDLE);
        }
        self.strict_guarantees = on;
    }
}

/// `strict_guarantees` needs idling at least this long (9).
const STRICT_SLICE_IDLE: Nanos = Nanos::ms(8);
