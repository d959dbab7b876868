//! What is fixed in Linux, as named settings with Linux's values (specs/io-cost.md sections 2 and 11).

use crate::ctl::TickTimers;
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};

/// Settings in force. Any value in its range is taken: nothing relies on one being above another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostConf {
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
    pub reprice: u64,
    pub charge_flushes: u64,
}

impl CostConf {
    pub fn timers(&self) -> TickTimers {
        TickTimers::from_value(self.tick_timers)
    }

    /// Wake timers as in Linux: at the end of their span, or at a tick inside it.
    pub fn kernel_wakes(&self) -> bool {
        self.wake == 1
    }
}

/// The tunables of a device, with the values that are fixed in Linux 6.1.
const ROWS: &[Setting<CostConf>] = &[
    Tunable::new(
        "margin_min_pct",
        Unit::Count,
        10,
        (0, 100),
        "A group with less credit than this percentage of a period donates nothing.",
    )
    .field(|c| c.margin_min_pct, |c, v| c.margin_min_pct = v),
    Tunable::new(
        "margin_low_pct",
        Unit::Count,
        20,
        (0, 100),
        "A donor whose credit falls below this percentage of a period takes its weight \
         back.",
    )
    .field(|c| c.margin_low_pct, |c, v| c.margin_low_pct = v),
    Tunable::new(
        "margin_target_pct",
        Unit::Count,
        50,
        (0, 100),
        "Credit in percent of a period that a group begins with and that donations aim \
         at.",
    )
    .field(|c| c.margin_target_pct, |c, v| c.margin_target_pct = v),
    Tunable::new(
        "inuse_step_pct",
        Unit::Count,
        25,
        (1, 100),
        "Step in which a donor takes its weight back, in percent of its weight.",
    )
    .field(|c| c.inuse_step_pct, |c, v| c.inuse_step_pct = v),
    Tunable::new(
        "timer_slack_pct",
        Unit::Count,
        1,
        (0, 100),
        "Slack of the timers that wake waiting I/O, in percent of a period.",
    )
    .on_change(OnChange::Waits)
    .field(|c| c.timer_slack_pct, |c, v| c.timer_slack_pct = v),
    Tunable::new("period_min", Unit::Micros, 1_000, (1_000, 1_000_000), "Shortest period.")
        .on_change(OnChange::Waits)
        .field(|c| c.period_min_us, |c, v| c.period_min_us = v),
    Tunable::new("period_max", Unit::Micros, 1_000_000, (1_000, 60_000_000), "Longest period.")
        .on_change(OnChange::Waits)
        .field(|c| c.period_max_us, |c, v| c.period_max_us = v),
    Tunable::new(
        "random_pages",
        Unit::Count,
        4096,
        (0, 1 << 32),
        "An I/O farther than this many 4 KiB pages from the end of the group's last one \
         is random.",
    )
    .field(|c| c.random_pages, |c, v| c.random_pages = v),
    Tunable::new(
        "vrate_clamp_pct",
        Unit::Count,
        4,
        (1, 100),
        "Step per period with which vrate comes back into its bounds, in percent.",
    )
    .field(|c| c.vrate_clamp_pct, |c, v| c.vrate_clamp_pct = v),
    Tunable::new(
        "busy_wait_pct",
        Unit::Count,
        5,
        (1, 100),
        "The device is saturated if requests wait for tags longer than this percentage \
         of a period.",
    )
    .field(|c| c.busy_wait_pct, |c, v| c.busy_wait_pct = v),
    Tunable::new(
        "unbusy_pct",
        Unit::Count,
        75,
        (0, 100),
        "vrate may rise below this percentage of what counts as saturated.",
    )
    .field(|c| c.unbusy_pct, |c, v| c.unbusy_pct = v),
    Tunable::new(
        "lagging_periods",
        Unit::Count,
        10,
        (1, 1000),
        "An I/O in flight for longer than a period keeps vrate from rising, for so many \
         periods.",
    )
    .field(|c| c.lagging_periods, |c, v| c.lagging_periods = v),
    Tunable::new("busy_level_max", Unit::Count, 1000, (1, 1_000_000), "Bound of the busy level.")
        .field(|c| c.busy_level_max, |c, v| c.busy_level_max = v),
    Tunable::new(
        "delay_from_pct",
        Unit::Count,
        500,
        (0, 1_000_000),
        "Overuse in percent of a period at which tasks begin to be delayed.",
    )
    .field(|c| c.delay_from_pct, |c, v| c.delay_from_pct = v),
    Tunable::new(
        "delay_to_pct",
        Unit::Count,
        25_000,
        (1, 1_000_000),
        "Overuse in percent of a period at which the delay is largest.",
    )
    .field(|c| c.delay_to_pct, |c, v| c.delay_to_pct = v),
    Tunable::new("delay_min", Unit::Micros, 250, (1, 1_000_000), "Smallest delay of a task.")
        .field(|c| c.delay_min_us, |c, v| c.delay_min_us = v),
    Tunable::new("delay_max", Unit::Micros, 250_000, (1, 10_000_000), "Largest delay of a task.")
        .field(|c| c.delay_max_us, |c, v| c.delay_max_us = v),
    Tunable::new(
        "forgive_usage_pct",
        Unit::Count,
        50,
        (0, 100),
        "Debts are forgiven while the device is used for at most this percentage of the \
         time.",
    )
    .field(|c| c.forgive_usage_pct, |c, v| c.forgive_usage_pct = v),
    Tunable::new(
        "forgive_time",
        Unit::Millis,
        100,
        (1, 60_000),
        "Debts are halved once per this time of little use.",
    )
    .field(|c| c.forgive_ms, |c, v| c.forgive_ms = v),
    Tunable::new(
        "class_switch_time",
        Unit::Millis,
        10_000,
        (0, 3_600_000),
        "How long vrate must be far off before another built-in device class is taken.",
    )
    .field(|c| c.class_switch_ms, |c, v| c.class_switch_ms = v),
    Tunable::choice(
        "tick_timers",
        TickTimers::WORDS,
        0,
        "When the period timer fires: as on the kernel's timer wheel, at least a tick \
         late, or at the tick it is set for.",
    )
    .on_change(OnChange::Waits)
    .field(|c| c.tick_timers, |c, v| c.tick_timers = v),
    Tunable::choice(
        "wake",
        &["prompt", "kernel"],
        0,
        "When a timer that wakes waiting I/O fires: at its time, or as Linux may let it, \
         at the end of its slack or at a tick before that.",
    )
    .on_change(OnChange::Waits)
    .field(|c| c.wake, |c, v| c.wake = v),
    Tunable::switch(
        "donation_32bit",
        true,
        "The share a donor keeps is computed in 32 bits, as in Linux: a group that used \
         a whole period gives nearly everything away.",
    )
    .field(|c| c.donation_32bit, |c, v| c.donation_32bit = v),
    Tunable::switch(
        "inuse_step_32bit",
        true,
        "The step in which a donor takes its weight back is computed in 32 bits, as in \
         Linux: it is too small for weights above 2621.",
    )
    .field(|c| c.inuse_step_32bit, |c, v| c.inuse_step_32bit = v),
    Tunable::switch(
        "reprice",
        true,
        "Another model or other latency targets hold at once: I/O that waits gets its \
         new price, and the period under way ends no later than one that began now. \
         Linux leaves both (0).",
    )
    .field(|c| c.reprice, |c, v| c.reprice = v),
    Tunable::switch(
        "charge_flushes",
        true,
        "An empty flush costs a write of a page, and the next I/O of the group counts as \
         sequential, as in Linux 6.1. Linux 6.12 charges nothing (0).",
    )
    .field(|c| c.charge_flushes, |c, v| c.charge_flushes = v),
];
pub(super) static SETTINGS: Settings<CostConf> = Settings::new(super::NAME, ROWS);
pub(super) static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_has_its_field_and_linuxs_value() {
        let s = SETTINGS.defaults();
        for t in &TUNABLES {
            assert_eq!(SETTINGS.value(&s, t.name), Some(t.default), "{}", t.name);
            assert!(t.min <= t.default && t.default <= t.max, "{}", t.name);
        }
        assert_eq!(SETTINGS.value(&s, "margin"), None);
    }
}
