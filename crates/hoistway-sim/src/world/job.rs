//! What a run is made of, and what it yields. The same types serve every world.

use crate::hist::Histogram;
use hoistway::sched::Entry;
use hoistway::setting::nearest;
use hoistway::target::Answer;
use hoistway::{Instant, IoPrio, Nanos, ProcId};
use std::fmt;

/// Who a process is in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is measured.
    Target,
    /// It makes the load.
    Interferer,
}

/// One process: a name, a place, a priority and a load.
#[derive(Clone, Debug)]
pub struct ProcSpec {
    /// Unique in the job, such as `target` or `reader3`.
    pub name: String,
    /// Measured, or part of the load.
    pub role: Role,
    /// Index into [`Job::groups`]; `None`: the root group.
    pub group: Option<usize>,
    /// I/O priority; [`IoPrio::NONE`] if never set.
    pub prio: IoPrio,
    /// When it starts.
    pub start: Nanos,
    /// Name of the load in the registry (`reader`, `writer`, `sporadic_probe`).
    pub load: String,
    /// Its parameters, as in the experiment file.
    pub params: toml::Table,
}

/// A group.
#[derive(Clone, Debug, Default)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// Index of its parent in [`Job::groups`], which must be smaller than its own; `None`: the root.
    pub parent: Option<usize>,
    /// What is set on it at the scheduler, in order (such as `weight` of bfq).
    pub set: Vec<(String, u64)>,
    /// Lines written to its cgroup files, in order: file and line. The device is 8:0.
    pub write: Vec<(String, String)>,
}

/// A controller and what is set on it, in order.
#[derive(Clone, Debug)]
pub struct ControllerSpec {
    /// Registry name.
    pub name: String,
    /// Tunables.
    pub set: Vec<(String, u64)>,
}

/// The controllers, and what is written to the root's files.
#[derive(Clone, Debug, Default)]
pub struct ControlSpec {
    /// Controllers, in any order: they stand in that of the registry.
    pub controllers: Vec<ControllerSpec>,
    /// Lines written to the cgroup files of the root, in order: file and line. The device is 8:0.
    pub root: Vec<(String, String)>,
    /// How often gauges are recorded, over the whole run; `None`: never.
    pub monitor: Option<Nanos>,
}

/// The scheduler and what is set on it, in order.
#[derive(Clone, Debug)]
pub struct SchedulerSpec {
    /// Its registry entry; one from outside the tree will do.
    pub entry: &'static Entry,
    /// Tunables.
    pub set: Vec<(String, u64)>,
    /// Tunables of the block layer (`nr_requests`, `nomerges`, `max_sectors_kb`).
    pub queue: Vec<(String, u64)>,
}

/// When measuring begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Measuring begins so long after the target's start (the ramp).
    pub ramp: Nanos,
    /// Length of the measured window.
    pub measured: Nanos,
    /// The target's last I/O runs to its end with the load still on, at most this long
    /// (statistics.md 1.4); then it is censored.
    pub grace: Nanos,
    /// Interval of the target's throughput series (0.5 s) and of the device's (1 s).
    pub target_interval: Nanos,
    /// The device's interval.
    pub device_interval: Nanos,
}

/// How much of the trace a run keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceMode {
    /// Nothing.
    Off,
    /// The digest.
    Digest,
    /// The digest and the first so many records.
    Keep(usize),
}

/// One run: everything that decides its result.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The drive.
    pub drive: &'a crate::drive::DriveFile,
    /// Host parameters: the era's profile and what differs from it.
    pub host: crate::host::HostConfig,
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// The controllers.
    pub control: ControlSpec,
    /// Groups, parents before their children.
    pub groups: Vec<GroupSpec>,
    /// Processes in order of `ProcId`; files are laid out target first (experiments.md 3.1).
    pub procs: Vec<ProcSpec>,
    /// When measuring begins and ends.
    pub window: Window,
    /// The seed.
    pub seed: u64,
    /// How much of the trace is kept.
    pub trace: TraceMode,
}

impl Job<'_> {
    /// Measuring begins when the first target has run for the ramp.
    pub fn measuring_begins(&self) -> Instant {
        let start = self.procs.iter().filter(|p| p.role == Role::Target).map(|p| p.start).min();
        Instant::ZERO + start.unwrap_or_default() + self.window.ramp
    }
}

/// Bytes and I/Os completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Begin, relative to the beginning of measuring.
    pub at: Nanos,
    /// Bytes completed in it.
    pub bytes: u64,
    /// I/Os completed in it.
    pub ios: u64,
}

/// What one process did inside the measured window.
#[derive(Clone, Debug)]
pub struct ProcRecord {
    /// Its name in the job.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Latency of every I/O (system call, or I/O of the probe) in the window: from the instant it was
    /// meant to be issued to its completion. The target's last one counts although it ends later.
    pub latency: Histogram,
    /// Bytes of I/Os that completed in the window.
    pub bytes: u64,
    /// I/Os that completed in the window.
    pub ios: u64,
    /// Throughput series.
    pub intervals: Vec<Interval>,
    /// Time already waited by an I/O that was still unfinished at the end of the grace.
    pub censored: Option<Nanos>,
    /// Longest gap between completions while an I/O was outstanding.
    pub starved: Nanos,
    /// What its load counted in the window, in order of first appearance.
    pub counts: Vec<(String, u64)>,
    /// Phases of its load that lay in the window, in order of their beginnings.
    pub phases: Vec<PhaseRecord>,
}

/// A phase of a process's load, as far as it lay in the measured window. A phase that comes several times is
/// one record with several turns.
#[derive(Clone, Debug)]
pub struct PhaseRecord {
    /// Its name.
    pub name: String,
    /// When its first turn began, since the beginning of measuring; `None`: before it.
    pub begin: Option<Nanos>,
    /// When its last turn ended; `None`: not before the end of measuring.
    pub end: Option<Nanos>,
    /// Turns that both began and ended in the window.
    pub turns: u64,
    /// The time of these together.
    pub spent: Nanos,
    /// Latency of every call that completed in it.
    pub latency: Histogram,
    /// Bytes of these calls.
    pub bytes: u64,
    /// Their number.
    pub ios: u64,
}

/// What the device did inside the measured window.
#[derive(Clone, Debug, Default)]
pub struct DeviceRecord {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands completed (flushes included).
    pub commands: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Commands that began where an earlier one had ended.
    pub sequential: u64,
    /// Bios that joined a waiting request.
    pub merges: u64,
    /// Share of the window with at least one request outstanding, 0 to 1.
    pub utilisation: f64,
    /// Time average of requests outstanding at the device.
    pub depth: f64,
    /// Throughput series (reads and writes together).
    pub intervals: Vec<Interval>,
    /// Device time of reads and writes (issue to completion).
    pub device_time: Histogram,
}

/// A named figure of the host or scheduler, for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedFigure {
    /// Name with its unit.
    pub name: String,
    /// Whose figure it is, if not the whole's.
    pub of: Option<u32>,
    /// The value.
    pub value: i64,
}

/// A gauge over time.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorSeries {
    /// The stage: the registry name of a controller or scheduler.
    pub stage: &'static str,
    /// What it is.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Whose it is; `None`: the device's.
    pub group: Option<String>,
    /// Time since the beginning of the run, and value. A gauge may be absent at some times.
    pub points: Vec<(Nanos, i64)>,
}

/// How a latency target of a group stands at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRecord {
    /// Path of the group.
    pub group: String,
    /// What was asked for; `None`: as low as goes without loss.
    pub target: Option<Nanos>,
    /// The scheduler's own 99th percentile lately.
    pub p99: Nanos,
    /// Its own mean lately.
    pub mean: Nanos,
    /// Part of the device's service that the group has had lately, in thousandths.
    pub share_permille: u32,
    /// Whether it is kept, and why not.
    pub answer: Answer,
}

/// How the text of a mark begins that ends a start-up without success.
pub const UNFINISHED: &str = "unfinished after";

/// A mark that a load has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When: time since the beginning of measuring; zero before it.
    pub at: Nanos,
    /// The process, by its name in the job.
    pub process: String,
    /// What: `start` or `done` of a start-up, or [`UNFINISHED`] with the limit that it exceeded in ns
    /// (`unfinished after 60000000000ns`).
    pub text: String,
    /// Bytes that the device had moved by then since the beginning of measuring.
    pub moved: u64,
}

/// What a run yields.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Per process, in the job's order.
    pub procs: Vec<ProcRecord>,
    /// The device.
    pub device: DeviceRecord,
    /// Length of the measured window; shorter than the job's if the last target, or without targets the last
    /// process, exited before its end.
    pub measured: Nanos,
    /// Marks of the loads, in order of time.
    pub marks: Vec<Mark>,
    /// Processes of the block layer that loads made while the run went on, in order of their ids, with
    /// their names (`target/xterm`, the second of its kind `target/xterm#2`).
    pub made: Vec<(ProcId, String)>,
    /// The scheduler's tunables in force at the end.
    pub tunables: Vec<(String, u64)>,
    /// The host's parameters in force.
    pub host_parameters: Vec<(String, String)>,
    /// Figures of the host.
    pub host_figures: Vec<NamedFigure>,
    /// Figures of the scheduler.
    pub scheduler_figures: Vec<NamedFigure>,
    /// Figures of the controllers: their names and figures.
    pub controller_figures: Vec<(&'static str, NamedFigure)>,
    /// The controllers' tunables in force at the end: controller, tunable, value.
    pub controller_tunables: Vec<(&'static str, &'static str, u64)>,
    /// What the files of the root and of the groups print at the end: path of the group, file, text.
    pub files: Vec<(String, &'static str, String)>,
    /// How the latency targets stand at the end that the scheduler takes.
    pub targets: Vec<TargetRecord>,
    /// Gauges over time.
    pub monitor: Vec<MonitorSeries>,
    /// When measuring began.
    pub begin: Instant,
    /// When the run ended.
    pub end: Instant,
    /// Commands issued to the device over the whole run.
    pub commands_total: u64,
    /// Digest of every step of the stack; 0 when the trace is off.
    pub trace_digest: u64,
    /// Kept trace records.
    pub trace: Vec<hoistway::trace::Record>,
}

/// Why a job cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobError {
    /// No scheduler, load or profile of that name.
    Unknown {
        /// What kind of thing.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A parameter of a load, or of the host, is wrong.
    Parameter {
        /// Whose parameter.
        of: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// A tunable was refused.
    Tunable(hoistway::setting::TunableError),
    /// The files do not fit on the drive.
    DoesNotFit {
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// The storage under a run failed, or gave back other data than was written to it.
    Storage {
        /// What happened.
        what: String,
    },
    /// `watch` said stop.
    Interrupted,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Unknown { kind, name, known } => {
                match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => write!(f, "no {kind} '{name}'; did you mean '{near}'?"),
                    None => write!(f, "no {kind} '{name}'; there are: {}", known.join(", ")),
                }
            }
            JobError::Parameter { of, message } => write!(f, "{of}: {message}"),
            JobError::Tunable(error) => error.fmt(f),
            JobError::DoesNotFit { needed, available } => write!(
                f,
                "the files need {} MB, the drive has {} MB for them; use smaller files or a larger \
                 drive",
                needed / 1_000_000,
                available / 1_000_000
            ),
            JobError::Storage { what } => f.write_str(what),
            JobError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for JobError {}
