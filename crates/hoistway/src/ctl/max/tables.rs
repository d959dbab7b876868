//! Registry entries, tunables and files.

use super::slice::{BPS_MAX, IOPS_MAX};
use super::{Entry, Gate, IoMax, TickTimers};
use crate::knob::{Knob, KnobOf};
use crate::setting::{Setting, Settings, Tunable, Unit, listed};
use crate::stage::StageInfo;
use alloc::boxed::Box;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "io.max",
        summary: "limits on bytes and I/Os per second, enforced on time slices",
        source: "specs/io-max-throttling.md",
        tunables: &TUNABLES,
        group_tunables: GROUP_TUNABLES,
        knobs: &[KNOB],
        figures: &[],
        decisions: &[],
    },
    gate: Gate::BeforeMerge,
    build: &|device| Box::new(IoMax::new(device)),
};

/// The registry entry of `io.low`, which has the file `io.max` too.
pub static ENTRY_LOW: Entry = Entry {
    stage: StageInfo {
        name: "io.low",
        summary: "best-effort lower limits: everybody is held to them until all have theirs",
        source: "specs/io-max-throttling.md B",
        tunables: &TUNABLES_LOW,
        group_tunables: GROUP_TUNABLES,
        knobs: &[KNOB, KNOB_LOW],
        figures: &[],
        decisions: &[],
    },
    gate: Gate::BeforeMerge,
    build: &|device| Box::new(IoMax::with_low(device)),
};

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxConf {
    pub slice_ms: u64,
    pub quantum: u32,
    pub select_quantum: u32,
    pub sleep_slices: u64,
    pub tick_timers: TickTimers,
    /// The version whose rules hold: 6.1 or 6.12.
    pub base: u64,
}

/// Makes what a row says of its change true.
pub(super) type MaxEffect = fn(&mut IoMax);

/// Default slice of a kernel with `io.low` on a rotational device, in ms.
pub(super) const SLICE_ROTATIONAL: u64 = 100;

const ROWS: [Setting<MaxConf, MaxEffect>; 6] =
    rows(100, "Length of a slice, rounded down to whole ticks of the device, at least one.");
const ROWS_LOW: [Setting<MaxConf, MaxEffect>; 6] = rows(
    20,
    "Length of a slice, rounded down to whole ticks of the device, at least one. On a rotational \
     device the default is 100.",
);
pub(super) static SETTINGS: Settings<MaxConf, MaxEffect> = Settings::new("io.max", &ROWS);
pub(super) static SETTINGS_LOW: Settings<MaxConf, MaxEffect> = Settings::new("io.low", &ROWS_LOW);
static TUNABLES: [Tunable; ROWS.len()] = listed(&ROWS);
static TUNABLES_LOW: [Tunable; ROWS_LOW.len()] = listed(&ROWS_LOW);

const fn rows(slice: u64, slice_doc: &'static str) -> [Setting<MaxConf, MaxEffect>; 6] {
    [
        Tunable::new("slice", Unit::Millis, slice, (1, 1000), slice_doc)
            .field_then(|c| c.slice_ms, |c, v| c.slice_ms = v, IoMax::slice_changed),
        Tunable::new(
            "quantum",
            Unit::Count,
            8,
            (4, 1024),
            "I/Os a node passes in its turn: three quarters reads, then the rest writes.",
        )
        .field(|c| c.quantum.into(), |c, v| c.quantum = v as u32),
        Tunable::new(
            "select_quantum",
            Unit::Count,
            32,
            (1, 65_536),
            "I/Os after which a pass over the due nodes begins anew.",
        )
        .field(|c| c.select_quantum.into(), |c, v| c.select_quantum = v as u32),
        Tunable::new(
            "sleep_slices",
            Unit::Count,
            8,
            (1, 1000),
            "The longest a timer sleeps, in slices.",
        )
        .field(|c| c.sleep_slices, |c, v| c.sleep_slices = v),
        Tunable::choice(
            "tick_timers",
            TickTimers::WORDS,
            0,
            "kernel: timers fire as on Linux's timer wheel, a tick late; ideal: at their tick.",
        )
        .field(|c| c.tick_timers.value(), |c, v| c.tick_timers = TickTimers::from_value(v)),
        Tunable::choice(
            "base",
            &["6.1", "6.12"],
            0,
            "Whose rules. 6.1: what a group has passed beyond its limits when they change lets everything \
             pass for a slice, if it is more than the new limits allow. 6.12: it is waited for, and an I/O \
             above a rate of I/Os waits until one is allowed, not slice by slice.",
        )
        .field(|c| c.base, |c, v| c.base = v),
    ]
}

macro_rules! rate {
    ($name:literal, $max:expr, $doc:literal) => {
        Tunable::new($name, Unit::Count, $max, (2, $max), $doc)
    };
}

pub(super) static GROUP_TUNABLES: &[Tunable] = &[
    rate!("rbps", BPS_MAX, "Most bytes read per second."),
    rate!("wbps", BPS_MAX, "Most bytes written per second; a discard counts as 512."),
    rate!("riops", IOPS_MAX, "Most reads per second."),
    rate!("wiops", IOPS_MAX, "Most writes, discards and flushes per second."),
];

pub(super) const KNOB: Knob = Knob {
    file: "io.max",
    of: KnobOf::Groups,
    form: "MAJ:MIN [rbps=N|max] [wbps=N|max] [riops=N|max] [wiops=N|max]",
    doc: "Most bytes and I/Os per second of the group and its descendants, reads and writes apart; \
          N is 2 or more. Keys that a line does not name keep their value \
          (specs/groups-and-priorities.md 6.3).",
};

pub(super) const KNOB_LOW: Knob = Knob {
    file: "io.low",
    of: KnobOf::Groups,
    form: "MAJ:MIN [rbps=N|max] [wbps=N|max] [riops=N|max] [wiops=N|max] [idle=US|max] \
           [latency=US|max]",
    doc: "What the group is to get if the device can: in force only with a rate, idle and latency. A \
          group that thinks longer than idle, or of whose I/O at most a fifth is slower than usual by \
          more than latency, does not need it (specs/groups-and-priorities.md 6.4).",
};

/// "max"; 0, which no check passes, for a name that does not exist.
pub(super) fn group_default(name: &str) -> u64 {
    GROUP_TUNABLES.iter().find(|t| t.name == name).map_or(0, |t| t.default)
}
