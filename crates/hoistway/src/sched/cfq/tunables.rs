//! Tunables: the kernel's, and the switches for what later kernels changed (specs/cfq.md 2 and 12).

use super::{Cfq, Version};
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};

/// Settings in force, in the units of the decisions: times in ticks of 1 ms.
#[derive(Clone, Debug, Default)]
pub(super) struct CfqConf {
    /// Base slices, async and sync.
    pub slice: [i64; 2],
    pub slice_async_rq: i64,
    pub slice_idle: i64,
    pub group_idle: i64,
    pub quantum: i64,
    /// Async and sync.
    pub fifo_expire: [i64; 2],
    pub back_max_kib: u64,
    pub back_penalty: u64,
    pub low_latency: bool,
    pub group_isolation: bool,
    pub preempt_switches_workload: bool,
    pub iops_mode: bool,
}

/// Makes what a row says of its change true, at a tick.
pub(super) type CfqEffect = fn(&mut Cfq, i64);

/// Ten minutes: longer slices and waits make no sense, and nothing overflows.
const MS_MAX: u64 = 600_000;
/// Largest count: the kernel's `int`.
const COUNT_MAX: u64 = i32::MAX as u64;

/// Rows that 2.6.30 and 2.6.32 have: those before the groups'.
const IN_30: usize = 10;

/// The rows of a version; `low_latency`: its default.
const fn rows(version: Version, low_latency: bool) -> [Setting<CfqConf, CfqEffect>; 14] {
    let later = matches!(version, Version::V38);
    let early = matches!(version, Version::V30);
    [
        Tunable::new(
            "slice_sync",
            Unit::Millis,
            100,
            (1, MS_MAX),
            "Base slice of a sync queue at priority level 4; a level is worth a \
         fifth of it.",
        )
        .on_change(OnChange::Limits)
        .field_then(|c| c.slice[1] as u64, |c, v| c.slice[1] = v as i64, Cfq::follow),
        Tunable::new(
            "slice_async",
            Unit::Millis,
            40,
            (1, MS_MAX),
            "Base slice of an async queue at priority level 4.",
        )
        .on_change(OnChange::Limits)
        .field_then(|c| c.slice[0] as u64, |c, v| c.slice[0] = v as i64, Cfq::follow),
        Tunable::new(
            "slice_async_rq",
            Unit::Requests,
            2,
            (1, COUNT_MAX),
            "Base of the number of requests an async queue may dispatch in a slice.",
        )
        .field(|c| c.slice_async_rq as u64, |c, v| c.slice_async_rq = v as i64),
        Tunable::new(
            "slice_idle",
            Unit::Millis,
            8,
            (0, MS_MAX),
            "How long the device is kept idle for the next request of a sync queue. \
         0: never.",
        )
        .on_change(OnChange::Waits)
        .field_then(|c| c.slice_idle as u64, |c, v| c.slice_idle = v as i64, Cfq::follow),
        Tunable::new(
            "quantum",
            Unit::Requests,
            if early { 4 } else { 8 },
            (1, COUNT_MAX),
            "Most requests of one queue with the device while others wait.",
        )
        .field(|c| c.quantum as u64, |c, v| c.quantum = v as i64),
        Tunable::new(
            "fifo_expire_sync",
            Unit::Millis,
            125,
            (1, MS_MAX),
            "A sync request older than this is the first of its queue's next slice.",
        )
        .on_change(OnChange::LaterRequests)
        .field(|c| c.fifo_expire[1] as u64, |c, v| c.fifo_expire[1] = v as i64),
        Tunable::new(
            "fifo_expire_async",
            Unit::Millis,
            250,
            (1, MS_MAX),
            "The same for async requests.",
        )
        .on_change(OnChange::LaterRequests)
        .field(|c| c.fifo_expire[0] as u64, |c, v| c.fifo_expire[0] = v as i64),
        Tunable::new(
            "back_seek_max",
            Unit::Kib,
            16_384,
            (0, COUNT_MAX),
            "A request further behind the head than this waits for the next sweep.",
        )
        .field(|c| c.back_max_kib, |c, v| c.back_max_kib = v),
        Tunable::new(
            "back_seek_penalty",
            Unit::Factor,
            2,
            (1, COUNT_MAX),
            "How much farther a request behind the head counts.",
        )
        .field(|c| c.back_penalty, |c, v| c.back_penalty = v),
        Tunable::switch(
            "low_latency",
            low_latency,
            "Slices shrink with the number of queues (not before 2.6.33), and async \
         queues start slowly after a late sync request.",
        )
        .field(|c| c.low_latency.into(), |c, v| c.low_latency = v != 0),
        Tunable::switch(
            "group_isolation",
            later,
            "Seeky queues stay in their group; 0 moves them to the root.",
        )
        .field(|c| c.group_isolation.into(), |c, v| c.group_isolation = v != 0),
        Tunable::new(
            "group_idle",
            Unit::Millis,
            if later { 8 } else { 0 },
            (0, MS_MAX),
            "Keep the device idle for the last queue of a group (2.6.36 and later). \
         0: never.",
        )
        .on_change(OnChange::Waits)
        .field_then(|c| c.group_idle as u64, |c, v| c.group_idle = v as i64, Cfq::follow),
        Tunable::switch(
            "iops_mode",
            later,
            "With slice_idle 0 and a queueing device, groups pay by request instead \
         of by time (2.6.36 and later).",
        )
        .field(|c| c.iops_mode.into(), |c, v| c.iops_mode = v != 0),
        Tunable::switch(
            "preempt_switches_workload",
            later,
            "A queue of another type that preempts ends the workload slice too \
         (about 2.6.38 and later).",
        )
        .field(|c| c.preempt_switches_workload.into(), |c, v| c.preempt_switches_workload = v != 0),
    ]
}

const ROWS_30: [Setting<CfqConf, CfqEffect>; 14] = rows(Version::V30, false);
const ROWS_32: [Setting<CfqConf, CfqEffect>; 14] = rows(Version::V30, true);
const ROWS_34: [Setting<CfqConf, CfqEffect>; 14] = rows(Version::V34, true);
const ROWS_38: [Setting<CfqConf, CfqEffect>; 14] = rows(Version::V38, true);
pub(super) static SETTINGS_30: Settings<CfqConf, CfqEffect> =
    Settings::new("cfq-2.6.30", ROWS_30.split_at(IN_30).0);
pub(super) static SETTINGS_32: Settings<CfqConf, CfqEffect> =
    Settings::new("cfq-2.6.32", ROWS_32.split_at(IN_30).0);
pub(super) static SETTINGS_34: Settings<CfqConf, CfqEffect> = Settings::new("cfq", &ROWS_34);
pub(super) static SETTINGS_38: Settings<CfqConf, CfqEffect> = Settings::new("cfq-2.6.38", &ROWS_38);
pub(super) static TUNABLES_30: [Tunable; IN_30] = listed(ROWS_30.split_at(IN_30).0);
pub(super) static TUNABLES_32: [Tunable; IN_30] = listed(ROWS_32.split_at(IN_30).0);
pub(super) static TUNABLES_34: [Tunable; ROWS_34.len()] = listed(&ROWS_34);
pub(super) static TUNABLES_38: [Tunable; ROWS_38.len()] = listed(&ROWS_38);

/// Weight of a group (specs/cfq.md 2). The root starts at 1000.
pub(super) static GROUP_TUNABLES: &[Tunable] = &[Tunable::new(
    "weight",
    Unit::Weight,
    500,
    (100, 1000),
    "Share of the group among the groups with requests, by time; the root's default is 1000.",
)];
