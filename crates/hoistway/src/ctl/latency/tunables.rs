//! The constants of Linux as settings of the device (specs/io-latency.md section 9).

use crate::ctl::TickTimers;
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};
use crate::unit::{Instant, Nanos};

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LatencyConf {
    window_factor: u64,
    window_min_ms: u64,
    window_max_ms: u64,
    decision_distance_ms: u64,
    pub good_samples: u64,
    pub miss_percent: u64,
    pub small_group_percent: u64,
    give_up_s: u64,
    timer_ms: u64,
    pub true_mean: bool,
    from_boot: bool,
    pub tick_timers: TickTimers,
}

impl LatencyConf {
    /// The judging interval of a target (3.1). Where both bounds contradict, the upper one holds.
    pub fn window(&self, target: Nanos) -> Nanos {
        let wanted = Nanos(target.0.saturating_mul(self.window_factor));
        wanted.max(Nanos::ms(self.window_min_ms)).min(Nanos::ms(self.window_max_ms))
    }

    pub fn decision_distance(&self) -> Nanos {
        Nanos::ms(self.decision_distance_ms)
    }

    pub fn give_up(&self) -> Nanos {
        Nanos::secs(self.give_up_s)
    }

    pub fn timer(&self) -> Nanos {
        Nanos::ms(self.timer_ms)
    }

    /// When a parent's last decision was that has made none.
    pub fn last_scale(&self) -> Option<Instant> {
        self.from_boot.then_some(Instant::ZERO)
    }
}

/// Tunables of the device. All but the last three are fixed in Linux.
const ROWS: &[Setting<LatencyConf>] = &[
    Tunable::new(
        "window_factor",
        Unit::Factor,
        16,
        (1, 1000),
        "A group is judged over so many times its target, within the next two.",
    )
    .field(|c| c.window_factor, |c, v| c.window_factor = v),
    Tunable::new("window_min", Unit::Millis, 100, (1, 60_000), "Shortest judging interval.")
        .field(|c| c.window_min_ms, |c, v| c.window_min_ms = v),
    Tunable::new("window_max", Unit::Millis, 1000, (1, 60_000), "Longest judging interval.")
        .field(|c| c.window_max_ms, |c, v| c.window_max_ms = v),
    Tunable::new(
        "decision_distance",
        Unit::Millis,
        500,
        (0, 60_000),
        "Children of one parent are scaled up or down no more often than that.",
    )
    .field(|c| c.decision_distance_ms, |c, v| c.decision_distance_ms = v),
    Tunable::new(
        "good_samples",
        Unit::Count,
        5,
        (0, 1_000_000),
        "I/Os that a group that meets its target again must have had before its siblings \
         get more.",
    )
    .field(|c| c.good_samples, |c, v| c.good_samples = v),
    Tunable::new(
        "miss_percent",
        Unit::Count,
        10,
        (0, 100),
        "Percentage of I/Os at or above the target that makes a miss; devices that do \
         not rotate.",
    )
    .field(|c| c.miss_percent, |c, v| c.miss_percent = v),
    Tunable::new(
        "small_group_percent",
        Unit::Count,
        5,
        (0, 100),
        "A group with a target and no larger share of its siblings' I/Os, in percent, is \
         spared.",
    )
    .field(|c| c.small_group_percent, |c, v| c.small_group_percent = v),
    Tunable::new(
        "give_up",
        Unit::Secs,
        5,
        (0, 3600),
        "A group for whose sake nothing was decided for so long is forgotten.",
    )
    .field(|c| c.give_up_s, |c, v| c.give_up_s = v),
    Tunable::new(
        "timer",
        Unit::Millis,
        1000,
        (1, 60_000),
        "Time from an I/O to the look at parents whose victim is quiet.",
    )
    .on_change(OnChange::Waits)
    .field(|c| c.timer_ms, |c, v| c.timer_ms = v),
    Tunable::choice(
        "tick_timers",
        TickTimers::WORDS,
        0,
        "When the timer fires: as the kernel's (up to 8 ticks late), or at the edge of \
         its tick.",
    )
    .on_change(OnChange::Waits)
    .field(|c| c.tick_timers.value(), |c, v| c.tick_timers = TickTimers::from_value(v)),
    Tunable::switch(
        "true_mean",
        false,
        "Rotational devices: 0, the mean since the last decision counts as 0 as in \
         Linux, so that the last window alone decides; 1, it is what it is \
         (specs/io-latency.md 8.1).",
    )
    .field(|c| c.true_mean.into(), |c, v| c.true_mean = v == 1),
    Tunable::switch(
        "from_boot",
        false,
        "1: the clock starts with the machine, so nothing is decided in its first 500 ms.",
    )
    .field(|c| c.from_boot.into(), |c, v| c.from_boot = v == 1),
];
pub(super) static SETTINGS: Settings<LatencyConf> = Settings::new("io.latency", ROWS);
pub(super) static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

/// Tunables of a group.
pub(super) static GROUP_TUNABLES: &[Tunable] = &[Tunable::new(
    "target",
    Unit::Micros,
    0,
    (0, u64::MAX / 1000),
    "Latency that is to be kept, from behind io.max to completion; 0: none.",
)];
