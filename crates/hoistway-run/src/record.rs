//! What a run yields.

use crate::{DecodeError, Histogram, Role};
use hoistway::target::Answer;
use hoistway::{Instant, Nanos, ProcId};
use serde::{Deserialize, Serialize};

/// Bytes and I/Os completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Interval {
    /// Begin, relative to the beginning of measuring.
    pub at: Nanos,
    /// Bytes completed in it.
    pub bytes: u64,
    /// I/Os completed in it.
    pub ios: u64,
}

impl From<(u64, u64, u64)> for Interval {
    fn from((at, bytes, ios): (u64, u64, u64)) -> Interval {
        Interval { at: Nanos(at), bytes, ios }
    }
}

impl From<Interval> for (u64, u64, u64) {
    fn from(i: Interval) -> (u64, u64, u64) {
        (i.at.0, i.bytes, i.ios)
    }
}

/// What one process did inside the measured window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcRecord {
    /// Its name in the job.
    pub name: String,
    /// Its role.
    #[serde(rename = "target")]
    pub role: Role,
    /// Bytes of I/Os that completed in the window.
    pub bytes: u64,
    /// I/Os that completed in the window.
    pub ios: u64,
    /// Time already waited by an I/O that was still unfinished at the end of the grace.
    #[serde(rename = "censored_ns", with = "crate::plain", default)]
    pub censored: Option<Nanos>,
    /// Longest gap between completions while an I/O was outstanding.
    #[serde(rename = "starved_ns", with = "crate::plain")]
    pub starved: Nanos,
    /// Latency of every I/O (system call, or I/O of the probe) in the window: from the instant it was
    /// meant to be issued to its completion. The target's last one counts although it ends later.
    #[serde(rename = "latency_ns")]
    pub latency: Histogram,
    /// What its load counted in the window, in order of first appearance. Absent in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<(String, u64)>,
    /// Phases of its load that lay in the window, in order of their beginnings. Absent in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseRecord>,
    /// Throughput series, which is written apart ([`series`]).
    #[serde(skip)]
    pub intervals: Vec<Interval>,
}

/// A phase of a process's load, as far as it lay in the measured window. A phase that comes several times is
/// one record with several turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Its name.
    pub name: String,
    /// When its first turn began, since the beginning of measuring; `None`: before it.
    #[serde(rename = "begin_ns", with = "crate::plain", default)]
    pub begin: Option<Nanos>,
    /// When its last turn ended; `None`: not before the end of measuring.
    #[serde(rename = "end_ns", with = "crate::plain", default)]
    pub end: Option<Nanos>,
    /// Turns that both began and ended in the window.
    pub turns: u64,
    /// The time of these together.
    #[serde(rename = "spent_ns", with = "crate::plain")]
    pub spent: Nanos,
    /// Bytes of the calls that completed in it.
    pub bytes: u64,
    /// Their number.
    pub ios: u64,
    /// Latency of each.
    #[serde(rename = "latency_ns")]
    pub latency: Histogram,
}

/// What the device did inside the measured window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
    /// Device time of reads and writes (issue to completion).
    #[serde(rename = "device_time_ns")]
    pub device_time: Histogram,
    /// Throughput series (reads and writes together), which is written apart ([`series`]).
    #[serde(skip)]
    pub intervals: Vec<Interval>,
}

/// A named figure of the host or scheduler, for the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedFigure {
    /// Name with its unit.
    pub name: String,
    /// Whose figure it is, if not the whole's.
    pub of: Option<u32>,
    /// The value.
    pub value: i64,
}

/// A gauge of a scheduler or controller over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Monitor {
    /// Registry name of the stage.
    pub stage: String,
    /// What it is.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Path of the group; `None`: the device's.
    pub group: Option<String>,
    /// Nanoseconds since the beginning of measuring, negative before it, and value. A gauge may be absent at some
    /// times.
    pub points: Vec<(i64, i64)>,
}

impl Monitor {
    /// Stage and name, with the group behind a colon.
    pub fn key(&self) -> String {
        match &self.group {
            Some(group) => format!("{}.{}:{group}", self.stage, self.name),
            None => format!("{}.{}", self.stage, self.name),
        }
    }
}

/// How a latency target of a group stands at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// Path of the group.
    pub group: String,
    /// What was asked for; `None`: as low as goes without loss.
    #[serde(
        rename = "target_ns",
        with = "crate::plain",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub target: Option<Nanos>,
    /// The scheduler's own 99th percentile lately.
    #[serde(rename = "p99_ns", with = "crate::plain")]
    pub p99: Nanos,
    /// Its own mean lately.
    #[serde(rename = "mean_ns", with = "crate::plain")]
    pub mean: Nanos,
    /// Part of the device's service that the group has had lately, in thousandths.
    pub share_permille: u32,
    /// Whether it is kept, and why not.
    #[serde(flatten, with = "answer")]
    pub answer: Answer,
}

/// An answer about a target: its name, and its figures with theirs.
mod answer {
    use super::Answer;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Text {
        answer: String,
        figures: Vec<(String, u64)>,
    }

    pub fn serialize<S: Serializer>(answer: &Answer, to: S) -> Result<S::Ok, S::Error> {
        let figures = answer.figures().into_iter().map(|(name, n)| (name.into(), n)).collect();
        Text { answer: answer.name().into(), figures }.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Answer, D::Error> {
        let text = Text::deserialize(from)?;
        let figure = |name: &str| text.figures.iter().find(|f| f.0 == name).map(|f| f.1);
        let what = || D::Error::custom(format!("'{}' is no answer about a target", text.answer));
        Answer::read(&text.answer, figure).ok_or_else(what)
    }
}

/// How the text of a mark begins that ends a start-up without success.
pub const UNFINISHED: &str = "unfinished after";

/// A mark that a load has set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, String, String, u64)", into = "(u64, String, String, u64)")]
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

impl From<(u64, String, String, u64)> for Mark {
    fn from((at, process, text, moved): (u64, String, String, u64)) -> Mark {
        Mark { at: Nanos(at), process, text, moved }
    }
}

impl From<Mark> for (u64, String, String, u64) {
    fn from(m: Mark) -> (u64, String, String, u64) {
        (m.at.0, m.process, m.text, m.moved)
    }
}

/// What a run yields.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Per process, in the job's order.
    pub procs: Vec<ProcRecord>,
    /// The device.
    pub device: DeviceRecord,
    /// Length of the measured window; shorter than the job's if the last target, or without targets the last
    /// process, exited before its end.
    #[serde(with = "crate::plain")]
    pub measured: Nanos,
    /// Marks of the loads, in order of time.
    pub marks: Vec<Mark>,
    /// Processes of the block layer that loads made while the run went on, in order of their ids, with
    /// their names (`target/xterm`, the second of its kind `target/xterm#2`).
    #[serde(skip)]
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
    pub controller_figures: Vec<(String, NamedFigure)>,
    /// What the files of the root and of the groups print at the end: path of the group, file, text.
    pub files: Vec<(String, String, String)>,
    /// How the latency targets stand at the end that the scheduler takes.
    pub targets: Vec<TargetRecord>,
    /// Gauges over time.
    pub monitor: Vec<Monitor>,
    /// When measuring began.
    #[serde(with = "crate::plain")]
    pub begin: Instant,
    /// When the run ended.
    #[serde(with = "crate::plain")]
    pub end: Instant,
    /// Commands issued to the device over the whole run.
    pub commands_total: u64,
    /// Digest of every step of the stack; 0 when the trace is off.
    pub trace_digest: u64,
    /// Kept trace records.
    #[serde(skip)]
    pub trace: Vec<hoistway::trace::Record>,
}

/// The throughput series of a run: the device's, then each process's. They are written apart from their records, in a
/// file or a list of their own.
pub fn series<'a>(device: &'a DeviceRecord, procs: &'a [ProcRecord]) -> Vec<&'a [Interval]> {
    let procs = procs.iter().map(|p| p.intervals.as_slice());
    std::iter::once(device.intervals.as_slice()).chain(procs).collect()
}

/// Puts [`series`] that were read back into their records.
///
/// # Errors
///
/// There is none for one of the records.
pub fn put_series(
    series: Vec<Vec<Interval>>,
    device: &mut DeviceRecord,
    procs: &mut [ProcRecord],
) -> Result<(), DecodeError> {
    let mut series = series.into_iter();
    let none = |what: &str| DecodeError(what.into());
    device.intervals = series.next().ok_or_else(|| none("no series of the device"))?;
    for proc in procs {
        proc.intervals = series.next().ok_or_else(|| none("a process without its series"))?;
    }
    Ok(())
}
