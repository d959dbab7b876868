//! The constants of Linux as settings of the device (specs/io-latency.md section 9).

use crate::ctl::TickTimers;
use crate::setting::{OnChange, Tunable, Unit};
use crate::unit::{Instant, Nanos};

/// What is set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
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

impl Default for Settings {
    fn default() -> Settings {
        let mut all = Settings {
            window_factor: 0,
            window_min_ms: 0,
            window_max_ms: 0,
            decision_distance_ms: 0,
            good_samples: 0,
            miss_percent: 0,
            small_group_percent: 0,
            give_up_s: 0,
            timer_ms: 0,
            true_mean: false,
            from_boot: false,
            tick_timers: TickTimers::Kernel,
        };
        for t in TUNABLES {
            all.set(t.name, t.default);
        }
        all
    }
}

impl Settings {
    /// Sets a value that was checked against its range.
    pub fn set(&mut self, name: &str, value: u64) {
        match name {
            "window_factor" => self.window_factor = value,
            "window_min" => self.window_min_ms = value,
            "window_max" => self.window_max_ms = value,
            "decision_distance" => self.decision_distance_ms = value,
            "good_samples" => self.good_samples = value,
            "miss_percent" => self.miss_percent = value,
            "small_group_percent" => self.small_group_percent = value,
            "give_up" => self.give_up_s = value,
            "timer" => self.timer_ms = value,
            "true_mean" => self.true_mean = value == 1,
            "from_boot" => self.from_boot = value == 1,
            "tick_timers" => self.tick_timers = TickTimers::from_value(value),
            _ => unreachable!("every name of the table has its arm"),
        }
    }

    pub fn value(&self, name: &str) -> Option<u64> {
        Some(match name {
            "window_factor" => self.window_factor,
            "window_min" => self.window_min_ms,
            "window_max" => self.window_max_ms,
            "decision_distance" => self.decision_distance_ms,
            "good_samples" => self.good_samples,
            "miss_percent" => self.miss_percent,
            "small_group_percent" => self.small_group_percent,
            "give_up" => self.give_up_s,
            "timer" => self.timer_ms,
            "true_mean" => self.true_mean.into(),
            "from_boot" => self.from_boot.into(),
            "tick_timers" => self.tick_timers.value(),
            _ => return None,
        })
    }

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
pub(super) static TUNABLES: &[Tunable] = &[
    Tunable::new(
        "window_factor",
        Unit::Factor,
        16,
        (1, 1000),
        "A group is judged over so many times its target, within the next two.",
    ),
    Tunable::new("window_min", Unit::Millis, 100, (1, 60_000), "Shortest judging interval."),
    Tunable::new("window_max", Unit::Millis, 1000, (1, 60_000), "Longest judging interval."),
    Tunable::new(
        "decision_distance",
        Unit::Millis,
        500,
        (0, 60_000),
        "Children of one parent are scaled up or down no more often than that.",
    ),
    Tunable::new(
        "good_samples",
        Unit::Count,
        5,
        (0, 1_000_000),
        "I/Os that a group that meets its target again must have had before its siblings get more.",
    ),
    Tunable::new(
        "miss_percent",
        Unit::Count,
        10,
        (0, 100),
        "Percentage of I/Os at or above the target that makes a miss; devices that do not rotate.",
    ),
    Tunable::new(
        "small_group_percent",
        Unit::Count,
        5,
        (0, 100),
        "A group with a target and no larger share of its siblings' I/Os, in percent, is spared.",
    ),
    Tunable::new(
        "give_up",
        Unit::Secs,
        5,
        (0, 3600),
        "A group for whose sake nothing was decided for so long is forgotten.",
    ),
    Tunable::new(
        "timer",
        Unit::Millis,
        1000,
        (1, 60_000),
        "Time from an I/O to the look at parents whose victim is quiet.",
    )
    .on_change(OnChange::Waits),
    Tunable::new(
        "tick_timers",
        Unit::Choice(TickTimers::WORDS),
        0,
        (0, 1),
        "When the timer fires: as the kernel's (up to 8 ticks late), or at the edge of its tick.",
    )
    .on_change(OnChange::Waits),
    Tunable::new(
        "true_mean",
        Unit::Switch,
        0,
        (0, 1),
        "Rotational devices: 0, the mean since the last decision counts as 0 as in Linux, so that \
              the last window alone decides; 1, it is what it is (specs/io-latency.md 8.1).",
    ),
    Tunable::new(
        "from_boot",
        Unit::Switch,
        0,
        (0, 1),
        "1: the clock starts with the machine, so nothing is decided in its first 500 ms.",
    ),
];

/// Tunables of a group.
pub(super) static GROUP_TUNABLES: &[Tunable] = &[Tunable::new(
    "target",
    Unit::Micros,
    0,
    (0, u64::MAX / 1000),
    "Latency that is to be kept, from behind io.max to completion; 0: none.",
)];
