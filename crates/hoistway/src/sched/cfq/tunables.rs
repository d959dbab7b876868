//! Tunables: the kernel's, and the switches for what later kernels changed (specs/cfq.md 2 and 12).

use super::{Cfq, Version};
use crate::setting::{OnChange, Tunable, TunableError, Unit, check};

/// What the tunables say, in the units of the decisions: times in ticks of 1 ms.
#[derive(Clone, Debug)]
pub(super) struct Conf {
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

impl Conf {
    pub fn new(version: Version) -> Conf {
        let later = version == Version::V38;
        let early = version == Version::V30;
        Conf {
            slice: [40, 100],
            slice_async_rq: 2,
            slice_idle: 8,
            group_idle: if later { 8 } else { 0 },
            quantum: if early { 4 } else { 8 },
            fifo_expire: [250, 125],
            back_max_kib: 16_384,
            back_penalty: 2,
            low_latency: !early,
            group_isolation: later,
            preempt_switches_workload: later,
            iops_mode: later,
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

/// Ten minutes: longer slices and waits make no sense, and nothing overflows.
const MS_MAX: u64 = 600_000;
/// Largest count: the kernel's `int`.
const COUNT_MAX: u64 = i32::MAX as u64;

const SLICE_SYNC: Tunable = tunable(
    "slice_sync",
    Unit::Millis,
    100,
    (1, MS_MAX),
    "Base slice of a sync queue at priority level 4; a level is worth a fifth of it.",
)
.on_change(OnChange::Limits);
const SLICE_ASYNC: Tunable = tunable(
    "slice_async",
    Unit::Millis,
    40,
    (1, MS_MAX),
    "Base slice of an async queue at priority level 4.",
)
.on_change(OnChange::Limits);
const SLICE_ASYNC_RQ: Tunable = tunable(
    "slice_async_rq",
    Unit::Requests,
    2,
    (1, COUNT_MAX),
    "Base of the number of requests an async queue may dispatch in a slice.",
);
const SLICE_IDLE: Tunable = tunable(
    "slice_idle",
    Unit::Millis,
    8,
    (0, MS_MAX),
    "How long the device is kept idle for the next request of a sync queue. 0: never.",
)
.on_change(OnChange::Waits);
const FIFO_EXPIRE_SYNC: Tunable = tunable(
    "fifo_expire_sync",
    Unit::Millis,
    125,
    (1, MS_MAX),
    "A sync request older than this is the first of its queue's next slice.",
)
.on_change(OnChange::LaterRequests);
const FIFO_EXPIRE_ASYNC: Tunable =
    tunable("fifo_expire_async", Unit::Millis, 250, (1, MS_MAX), "The same for async requests.")
        .on_change(OnChange::LaterRequests);
const BACK_SEEK_MAX: Tunable = tunable(
    "back_seek_max",
    Unit::Kib,
    16_384,
    (0, COUNT_MAX),
    "A request further behind the head than this waits for the next sweep.",
);
const BACK_SEEK_PENALTY: Tunable = tunable(
    "back_seek_penalty",
    Unit::Factor,
    2,
    (1, COUNT_MAX),
    "How much farther a request behind the head counts.",
);

const fn quantum(default: u64) -> Tunable {
    tunable(
        "quantum",
        Unit::Requests,
        default,
        (1, COUNT_MAX),
        "Most requests of one queue with the device while others wait.",
    )
}

const fn low_latency(default: u64) -> Tunable {
    tunable(
        "low_latency",
        Unit::Switch,
        default,
        (0, 1),
        "Slices shrink with the number of queues (not in 2.6.30), and async queues start slowly \
         after a late sync request.",
    )
}

const fn group_isolation(default: u64) -> Tunable {
    tunable(
        "group_isolation",
        Unit::Switch,
        default,
        (0, 1),
        "Seeky queues stay in their group; 0 moves them to the root.",
    )
}

const fn group_idle(default: u64) -> Tunable {
    tunable(
        "group_idle",
        Unit::Millis,
        default,
        (0, MS_MAX),
        "Keep the device idle for the last queue of a group (2.6.36 and later). 0: never.",
    )
    .on_change(OnChange::Waits)
}

const fn iops_mode(default: u64) -> Tunable {
    tunable(
        "iops_mode",
        Unit::Switch,
        default,
        (0, 1),
        "With slice_idle 0 and a queueing device, groups pay by request instead of by time \
         (2.6.36 and later).",
    )
}

const fn preempt_switches_workload(default: u64) -> Tunable {
    tunable(
        "preempt_switches_workload",
        Unit::Switch,
        default,
        (0, 1),
        "A queue of another type that preempts ends the workload slice too (about 2.6.38 and \
         later).",
    )
}

pub(super) static TUNABLES_30: &[Tunable] = &[
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    quantum(4),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    low_latency(0),
];

pub(super) static TUNABLES_34: &[Tunable] = &[
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    quantum(8),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    low_latency(1),
    group_isolation(0),
    group_idle(0),
    iops_mode(0),
    preempt_switches_workload(0),
];

pub(super) static TUNABLES_38: &[Tunable] = &[
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    quantum(8),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    low_latency(1),
    group_isolation(1),
    group_idle(8),
    iops_mode(1),
    preempt_switches_workload(1),
];

/// Weight of a group (specs/cfq.md 2). The root starts at 1000.
pub(super) static GROUP_TUNABLES: &[Tunable] = &[tunable(
    "weight",
    Unit::Weight,
    500,
    (100, 1000),
    "Share of the group among the groups with requests, by time; the root's default is 1000.",
)];

impl Cfq {
    pub(super) fn set_tunable(&mut self, name: &str, value: u64) -> Result<(), TunableError> {
        let entry = self.version.entry();
        let conf = &mut self.conf;
        match check(entry.tunables, entry.name, name, value)?.name {
            "slice_sync" => conf.slice[1] = value as i64,
            "slice_async" => conf.slice[0] = value as i64,
            "slice_async_rq" => conf.slice_async_rq = value as i64,
            "slice_idle" => conf.slice_idle = value as i64,
            "group_idle" => conf.group_idle = value as i64,
            "quantum" => conf.quantum = value as i64,
            "fifo_expire_sync" => conf.fifo_expire[1] = value as i64,
            "fifo_expire_async" => conf.fifo_expire[0] = value as i64,
            "back_seek_max" => conf.back_max_kib = value,
            "back_seek_penalty" => conf.back_penalty = value,
            "low_latency" => conf.low_latency = value != 0,
            "group_isolation" => conf.group_isolation = value != 0,
            "preempt_switches_workload" => conf.preempt_switches_workload = value != 0,
            "iops_mode" => conf.iops_mode = value != 0,
            other => unreachable!("{other} is in the table of tunables but not read"),
        }
        Ok(())
    }

    pub(super) fn tunable(&self, name: &str) -> Option<u64> {
        let conf = &self.conf;
        self.version.entry().tunables.iter().find(|t| t.name == name)?;
        Some(match name {
            "slice_sync" => conf.slice[1] as u64,
            "slice_async" => conf.slice[0] as u64,
            "slice_async_rq" => conf.slice_async_rq as u64,
            "slice_idle" => conf.slice_idle as u64,
            "group_idle" => conf.group_idle as u64,
            "quantum" => conf.quantum as u64,
            "fifo_expire_sync" => conf.fifo_expire[1] as u64,
            "fifo_expire_async" => conf.fifo_expire[0] as u64,
            "back_seek_max" => conf.back_max_kib,
            "back_seek_penalty" => conf.back_penalty,
            "low_latency" => conf.low_latency.into(),
            "group_isolation" => conf.group_isolation.into(),
            "preempt_switches_workload" => conf.preempt_switches_workload.into(),
            "iops_mode" => conf.iops_mode.into(),
            other => unreachable!("{other} is in the table of tunables but not kept"),
        })
    }
}
