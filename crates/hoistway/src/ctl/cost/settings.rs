//! What is fixed in Linux, as named settings with Linux's values (specs/io-cost.md sections 2 and 11).

use crate::ctl::TickTimers;
use crate::setting::{self, OnChange, Tunable, TunableError, Unit};

/// One field per tunable of the same name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Percentages of a period that a group holds as credit.
    pub margin_min_pct: u64,
    pub margin_low_pct: u64,
    pub margin_target_pct: u64,
    /// A step of inuse in percent of the active weight.
    pub inuse_step_pct: u64,
    /// Slack of the wake timers in percent of a period.
    pub timer_slack_pct: u64,
    pub period_min_us: u64,
    pub period_max_us: u64,
    /// Farther than this is random.
    pub random_pages: u64,
    pub vrate_clamp_pct: u64,
    pub busy_wait_pct: u64,
    pub unbusy_pct: u64,
    pub lagging_periods: u64,
    pub busy_level_max: u64,
    /// Overuse in percent of a period at which delays begin and are largest.
    pub delay_from_pct: u64,
    pub delay_to_pct: u64,
    pub delay_min_us: u64,
    pub delay_max_us: u64,
    pub forgive_usage_pct: u64,
    pub forgive_ms: u64,
    pub class_switch_ms: u64,
    pub tick_timers: u64,
    pub wake: u64,
    pub donation_32bit: u64,
    pub inuse_step_32bit: u64,
}

impl Settings {
    pub fn new() -> Settings {
        let mut s = Settings {
            margin_min_pct: 0,
            margin_low_pct: 0,
            margin_target_pct: 0,
            inuse_step_pct: 0,
            timer_slack_pct: 0,
            period_min_us: 0,
            period_max_us: 0,
            random_pages: 0,
            vrate_clamp_pct: 0,
            busy_wait_pct: 0,
            unbusy_pct: 0,
            lagging_periods: 0,
            busy_level_max: 0,
            delay_from_pct: 0,
            delay_to_pct: 0,
            delay_min_us: 0,
            delay_max_us: 0,
            forgive_usage_pct: 0,
            forgive_ms: 0,
            class_switch_ms: 0,
            tick_timers: 0,
            wake: 0,
            donation_32bit: 0,
            inuse_step_32bit: 0,
        };
        for t in TUNABLES {
            *s.field(t.name).expect("every tunable has its field") = t.default;
        }
        s
    }

    fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "margin_min_pct" => &mut self.margin_min_pct,
            "margin_low_pct" => &mut self.margin_low_pct,
            "margin_target_pct" => &mut self.margin_target_pct,
            "inuse_step_pct" => &mut self.inuse_step_pct,
            "timer_slack_pct" => &mut self.timer_slack_pct,
            "period_min" => &mut self.period_min_us,
            "period_max" => &mut self.period_max_us,
            "random_pages" => &mut self.random_pages,
            "vrate_clamp_pct" => &mut self.vrate_clamp_pct,
            "busy_wait_pct" => &mut self.busy_wait_pct,
            "unbusy_pct" => &mut self.unbusy_pct,
            "lagging_periods" => &mut self.lagging_periods,
            "busy_level_max" => &mut self.busy_level_max,
            "delay_from_pct" => &mut self.delay_from_pct,
            "delay_to_pct" => &mut self.delay_to_pct,
            "delay_min" => &mut self.delay_min_us,
            "delay_max" => &mut self.delay_max_us,
            "forgive_usage_pct" => &mut self.forgive_usage_pct,
            "forgive_time" => &mut self.forgive_ms,
            "class_switch_time" => &mut self.class_switch_ms,
            "tick_timers" => &mut self.tick_timers,
            "wake" => &mut self.wake,
            "donation_32bit" => &mut self.donation_32bit,
            "inuse_step_32bit" => &mut self.inuse_step_32bit,
            _ => return None,
        })
    }

    pub fn value(&self, name: &str) -> Option<u64> {
        // A copy of 24 words: asked for by people only.
        let mut copy = *self;
        copy.field(name).map(|v| *v)
    }

    /// Sets one. Any value in its range is taken: nothing below relies on one being above another.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), TunableError> {
        let tunable = setting::check(TUNABLES, super::NAME, name, value)?;
        *self.field(tunable.name).expect("every tunable has its field") = value;
        Ok(())
    }

    pub fn timers(&self) -> TickTimers {
        TickTimers::from_value(self.tick_timers)
    }

    /// Wake timers as in Linux: at the end of their span, or at a tick inside it.
    pub fn kernel_wakes(&self) -> bool {
        self.wake == 1
    }
}

const fn tunable(
    name: &'static str,
    unit: Unit,
    default: u64,
    [min, max]: [u64; 2],
    doc: &'static str,
) -> Tunable {
    Tunable::new(name, unit, default, (min, max), doc)
}

/// The tunables of a device, with the values that are fixed in Linux 6.1.
pub(super) static TUNABLES: &[Tunable] = &[
    tunable(
        "margin_min_pct",
        Unit::Count,
        10,
        [0, 100],
        "A group with less credit than this percentage of a period donates nothing.",
    ),
    tunable(
        "margin_low_pct",
        Unit::Count,
        20,
        [0, 100],
        "A donor whose credit falls below this percentage of a period takes its weight back.",
    ),
    tunable(
        "margin_target_pct",
        Unit::Count,
        50,
        [0, 100],
        "Credit in percent of a period that a group begins with and that donations aim at.",
    ),
    tunable(
        "inuse_step_pct",
        Unit::Count,
        25,
        [1, 100],
        "Step in which a donor takes its weight back, in percent of its weight.",
    ),
    tunable(
        "timer_slack_pct",
        Unit::Count,
        1,
        [0, 100],
        "Slack of the timers that wake waiting I/O, in percent of a period.",
    ).on_change(OnChange::Waits),
    tunable("period_min", Unit::Micros, 1_000, [1_000, 1_000_000], "Shortest period.").on_change(OnChange::Waits),
    tunable("period_max", Unit::Micros, 1_000_000, [1_000, 60_000_000], "Longest period.").on_change(OnChange::Waits),
    tunable(
        "random_pages",
        Unit::Count,
        4096,
        [0, 1 << 32],
        "An I/O farther than this many 4 KiB pages from the end of the group's last one is random.",
    ),
    tunable(
        "vrate_clamp_pct",
        Unit::Count,
        4,
        [1, 100],
        "Step per period with which vrate comes back into its bounds, in percent.",
    ),
    tunable(
        "busy_wait_pct",
        Unit::Count,
        5,
        [1, 100],
        "The device is saturated if requests wait for tags longer than this percentage of a period.",
    ),
    tunable(
        "unbusy_pct",
        Unit::Count,
        75,
        [0, 100],
        "vrate may rise below this percentage of what counts as saturated.",
    ),
    tunable(
        "lagging_periods",
        Unit::Count,
        10,
        [1, 1000],
        "An I/O in flight for longer than a period keeps vrate from rising, for so many periods.",
    ),
    tunable("busy_level_max", Unit::Count, 1000, [1, 1_000_000], "Bound of the busy level."),
    tunable(
        "delay_from_pct",
        Unit::Count,
        500,
        [0, 1_000_000],
        "Overuse in percent of a period at which tasks begin to be delayed.",
    ),
    tunable(
        "delay_to_pct",
        Unit::Count,
        25_000,
        [1, 1_000_000],
        "Overuse in percent of a period at which the delay is largest.",
    ),
    tunable("delay_min", Unit::Micros, 250, [1, 1_000_000], "Smallest delay of a task."),
    tunable("delay_max", Unit::Micros, 250_000, [1, 10_000_000], "Largest delay of a task."),
    tunable(
        "forgive_usage_pct",
        Unit::Count,
        50,
        [0, 100],
        "Debts are forgiven while the device is used for at most this percentage of the time.",
    ),
    tunable(
        "forgive_time",
        Unit::Millis,
        100,
        [1, 60_000],
        "Debts are halved once per this time of little use.",
    ),
    tunable(
        "class_switch_time",
        Unit::Millis,
        10_000,
        [0, 3_600_000],
        "How long vrate must be far off before another built-in device class is taken.",
    ),
    tunable(
        "tick_timers",
        Unit::Choice(TickTimers::WORDS),
        0,
        [0, 1],
        "When the period timer fires: as on the kernel's timer wheel, at least a tick late, or at the \
         tick it is set for.",
    ).on_change(OnChange::Waits),
    tunable(
        "wake",
        Unit::Choice(&["prompt", "kernel"]),
        0,
        [0, 1],
        "When a timer that wakes waiting I/O fires: at its time, or as Linux may let it, at the end of \
         its slack or at a tick before that.",
    ).on_change(OnChange::Waits),
    tunable(
        "donation_32bit",
        Unit::Switch,
        1,
        [0, 1],
        "The share a donor keeps is computed in 32 bits, as in Linux: a group that used a whole period \
         gives nearly everything away.",
    ),
    tunable(
        "inuse_step_32bit",
        Unit::Switch,
        1,
        [0, 1],
        "The step in which a donor takes its weight back is computed in 32 bits, as in Linux: it is too \
         small for weights above 2621.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_has_its_field_and_linuxs_value() {
        let s = Settings::new();
        for t in TUNABLES {
            assert_eq!(s.value(t.name), Some(t.default), "{}", t.name);
            assert!(t.min <= t.default && t.default <= t.max, "{}", t.name);
        }
        assert_eq!(s.value("margin"), None);
    }
}
