//! Policies: who decides above the scheduler (specs/experiments.md 2). A policy names its controllers,
//! and writes the files of the root and of the groups, in the kernel's own lines.

use hoistway::setting::{Tunable, Unit};
use hoistway_sim::drive::DriveFile;

/// The device of a simulated machine in the lines of cgroup files.
pub const DEVICE: &str = "8:0";

/// Whose files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The root of the tree.
    Root,
    /// The group of a process that is measured.
    Target,
    /// The group of a process of the load.
    Interferer,
}

/// What was given in braces for a policy: name and value.
pub type Given = [(String, u64)];

/// A file of a group and a line for it.
pub type FileLine = (String, String);

/// One policy.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The part of a configuration's name before the first dash.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The controllers it installs.
    pub controllers: &'static [&'static str],
    /// Every process is alone in a group below the root, unless the experiment says otherwise.
    pub groups: bool,
    /// The target is in the real-time class.
    pub target_rt: bool,
    /// The scheduler must share by the weights of groups.
    pub weights: bool,
    /// The scheduler must have this file of groups.
    pub file: Option<&'static str>,
    /// What may be given in braces. The default 0 means: as the policy's own rule says.
    pub options: &'static [Tunable],
    /// The lines written to a member's files.
    pub lines: fn(&Given, &DriveFile, Member) -> Vec<FileLine>,
}

/// Every policy.
pub static POLICIES: &[Policy] = &[
    Policy {
        name: "none",
        summary: "no I/O policy, no groups",
        controllers: &[],
        groups: false,
        target_rt: true,
        weights: false,
        file: None,
        options: &[],
        lines: |_, _, _| Vec::new(),
    },
    Policy {
        name: "lat",
        summary: "io.latency: the target's group has a latency target of 10 us",
        controllers: &["io.latency"],
        groups: true,
        target_rt: false,
        weights: false,
        file: None,
        options: LATENCY,
        lines: latency,
    },
    Policy {
        name: "cost",
        summary: "io.cost: a group per process, equal weights, QoS by kind of drive",
        controllers: &["io.cost"],
        groups: true,
        target_rt: false,
        weights: false,
        file: None,
        options: COST,
        lines: cost,
    },
    Policy {
        name: "max",
        summary: "io.max: a fixed limit per group, a sixteenth of the drive each",
        controllers: &["io.max"],
        groups: true,
        target_rt: false,
        weights: false,
        file: None,
        options: MAX,
        lines: max,
    },
    Policy {
        name: "low",
        summary: "io.low: a best-effort lower limit per group, a sixteenth of the drive each",
        controllers: &["io.low"],
        groups: true,
        target_rt: false,
        weights: false,
        file: None,
        options: LOW,
        lines: low,
    },
    Policy {
        name: "prop",
        summary: "groups with weights, shared by the scheduler itself",
        controllers: &[],
        groups: true,
        target_rt: true,
        weights: true,
        file: None,
        options: &[],
        lines: |_, _, _| Vec::new(),
    },
    Policy {
        name: "slo",
        summary: "a group per process, the target's with a latency target of the scheduler itself",
        controllers: &[],
        groups: true,
        target_rt: false,
        weights: false,
        file: Some("io.latency"),
        options: SLO,
        lines: slo,
    },
];

const fn option(
    name: &'static str,
    unit: Unit,
    default: u64,
    min: u64,
    doc: &'static str,
) -> Tunable {
    Tunable::new(name, unit, default, (min, 1 << 60), doc)
}

const LATENCY: &[Tunable] =
    &[option("target", Unit::Micros, 10, 1, "Latency target of the target's group.")];

const SLO: &[Tunable] = &[option(
    "target",
    Unit::Micros,
    0,
    0,
    "Latency target of the target's group; 0: as low as goes without loss of throughput.",
)];

/// Options of io.cost; the default 0 stands for the suite's line for the kind of drive.
const COST: &[Tunable] = &[
    Tunable::new(
        "model",
        Unit::Choice(&["class", "drive"]),
        0,
        (0, 1),
        "Coefficients of the kernel's device class, or of the drive file's [iocost].",
    ),
    Tunable { max: 100, ..option("rpct", Unit::Count, 0, 0, "Percentile of reads.") },
    option("rlat", Unit::Micros, 0, 0, "Latency that percentile must meet."),
    Tunable { max: 100, ..option("wpct", Unit::Count, 0, 0, "Percentile of writes.") },
    option("wlat", Unit::Micros, 0, 0, "Latency that percentile must meet."),
    Tunable { max: 10_000, ..option("min", Unit::Count, 0, 0, "Lower bound of vrate in percent.") },
    Tunable { max: 10_000, ..option("max", Unit::Count, 0, 0, "Upper bound of vrate in percent.") },
];

const MAX: &[Tunable] = &[
    option("rbps", Unit::BytesPerSec, 0, 0, "Limit of reads; 0: a sixteenth of the drive."),
    option("wbps", Unit::BytesPerSec, 0, 0, "Limit of writes; 0: a sixteenth of the drive."),
    option("riops", Unit::Count, 0, 0, "Limit of reads per second; 0: none."),
    option("wiops", Unit::Count, 0, 0, "Limit of writes per second; 0: none."),
];

const LOW: &[Tunable] = &[
    option("rbps", Unit::BytesPerSec, 0, 0, "Limit of reads; 0: a sixteenth of the drive."),
    option("wbps", Unit::BytesPerSec, 0, 0, "Limit of writes; 0: a sixteenth of the drive."),
    option("latency", Unit::Micros, 100, 0, "Latency above the base latency that an I/O may have."),
    option("idle", Unit::Micros, 1000, 0, "Think time above which a group counts as idle."),
];

/// The value given, or the default of the table.
fn value(options: &[Tunable], given: &Given, name: &str) -> u64 {
    let default = options.iter().find(|t| t.name == name).map_or(0, |t| t.default);
    given.iter().rev().find(|(n, _)| n == name).map_or(default, |&(_, v)| v)
}

fn line(file: &str, body: &str) -> FileLine {
    (file.to_string(), format!("{DEVICE} {body}"))
}

fn latency(given: &Given, _drive: &DriveFile, member: Member) -> Vec<FileLine> {
    let target = value(LATENCY, given, "target");
    match member {
        Member::Target => vec![line("io.latency", &format!("target={target}"))],
        Member::Root | Member::Interferer => Vec::new(),
    }
}

fn slo(given: &Given, _drive: &DriveFile, member: Member) -> Vec<FileLine> {
    let target = match value(SLO, given, "target") {
        0 => "auto".to_string(),
        us => us.to_string(),
    };
    match member {
        Member::Target => vec![line("io.latency", &format!("target={target}"))],
        Member::Root | Member::Interferer => Vec::new(),
    }
}

/// The suite's QoS lines (specs/experiments.md 2).
fn cost(given: &Given, drive: &DriveFile, member: Member) -> Vec<FileLine> {
    if member != Member::Root {
        return Vec::new();
    }
    let (lat_us, bounds) = match (drive.identity.rotational, drive.host.bus.as_str()) {
        (true, _) => ((40_000, 40_000), Some((25, 200))),
        (_, "nvme") => ((5_000, 5_000), Some((1, 10_000))),
        _ => ((2_500, 5_000), None),
    };
    let or = |name: &str, own: u64| match value(COST, given, name) {
        0 => own,
        v => v,
    };
    let (rpct, rlat) = (or("rpct", 95), or("rlat", lat_us.0));
    let (wpct, wlat) = (or("wpct", 95), or("wlat", lat_us.1));
    let mut qos = format!("enable=1 ctrl=user rpct={rpct} rlat={rlat} wpct={wpct} wlat={wlat}");
    let (min, max) = bounds.unwrap_or((0, 0));
    for (name, v) in [("min", or("min", min)), ("max", or("max", max))] {
        if v > 0 {
            qos.push_str(&format!(" {name}={v}"));
        }
    }
    let mut lines = Vec::new();
    if value(COST, given, "model") == 1 {
        let c = &drive.iocost;
        let model = format!(
            "ctrl=user model=linear rbps={} rseqiops={} rrandiops={} wbps={} wseqiops={} \
             wrandiops={}",
            c.rbps, c.rseqiops, c.rrandiops, c.wbps, c.wseqiops, c.wrandiops
        );
        lines.push(line("io.cost.model", &model));
    }
    lines.push(line("io.cost.qos", &qos));
    lines
}

/// A sixteenth of the drive's sequential rate in whole MB/s, at least 1 (specs/experiments.md 2,
/// recommended there: the documents give no limits).
fn sixteenth(drive: &DriveFile) -> u64 {
    (drive.iocost.rbps / 1_000_000 / 16).max(1) * 1_000_000
}

/// `rbps` and `wbps` as given, or a sixteenth of the drive each.
fn rates(options: &[Tunable], given: &Given, drive: &DriveFile) -> String {
    let rate = |name| match value(options, given, name) {
        0 => sixteenth(drive),
        v => v,
    };
    format!("rbps={} wbps={}", rate("rbps"), rate("wbps"))
}

fn max(given: &Given, drive: &DriveFile, member: Member) -> Vec<FileLine> {
    if member == Member::Root {
        return Vec::new();
    }
    let mut body = rates(MAX, given, drive);
    for name in ["riops", "wiops"] {
        let v = value(MAX, given, name);
        if v > 0 {
            body.push_str(&format!(" {name}={v}"));
        }
    }
    vec![line("io.max", &body)]
}

fn low(given: &Given, drive: &DriveFile, member: Member) -> Vec<FileLine> {
    if member == Member::Root {
        return Vec::new();
    }
    let (latency, idle) = (value(LOW, given, "latency"), value(LOW, given, "idle"));
    let body = format!("{} latency={latency} idle={idle}", rates(LOW, given, drive));
    vec![line("io.low", &body)]
}
