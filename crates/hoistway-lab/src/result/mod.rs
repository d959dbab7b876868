//! What a run directory holds. Everything a report shows comes from here.
//!
//! `records/` is raw and never rewritten; metrics and reports are derived from it.

pub mod control;
pub mod counts;
pub mod csv;
mod derive;
mod directory;
mod figures;
mod histograms;
mod judge;
pub mod kept;
mod kind;
pub mod phases;
pub mod published;
mod records;
pub mod replayed;
mod room;
pub mod share;
pub mod startup;
mod target;

pub use derive::{LOSS_OF_CONTROL, REFERENCE, derive, reference, rep_value};
pub use directory::{DirectoryError, METRIC_COLUMNS, holds_runs, metrics_csv, number_text};
pub(crate) use figures::KnownNames;
pub use figures::RepFigures;
pub use judge::Judge;
pub use kind::Kind;
pub use room::Together;
pub use target::{Target, pooled, target};

use crate::judge::Compared;
use crate::stats::Bound;
use hoistway::Nanos;
use hoistway_run::{DeviceRecord, Interval, Mark, Monitor, ProcRecord, TargetRecord};
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// Version of the layout of run directories.
pub const SCHEMA: u32 = 1;

/// The manifest: everything that decided the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Layout version.
    pub schema: u32,
    /// Experiment id, such as `latency-2019`.
    pub experiment: String,
    /// Its title.
    pub title: String,
    /// One paragraph: what is measured and against what.
    pub about: String,
    /// The world: `sim`, `engine`.
    pub world: String,
    /// hoistway version, with git revision where known.
    pub version: String,
    /// The command that repeats the run.
    pub command: String,
    /// First seed; repetition r uses seed + r.
    pub seed: u64,
    /// Repetitions.
    pub reps: u32,
    /// What the experiment judges by, if it says so ([`Judge::of`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
    /// What the target is to receive at least, bytes per second, where that is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<u64>,
    /// Drives by id, in the order asked for.
    pub drives: Vec<DriveInfo>,
    /// Configurations, in the order asked for.
    pub configs: Vec<ConfigInfo>,
    /// Workloads, in the order asked for.
    pub workloads: Vec<WorkloadInfo>,
    /// Host parameters in force, by name.
    pub host: Vec<(String, String)>,
    /// What was measured on: the target and the machine, in worlds where results depend on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<(String, String)>,
    /// Durations were cut (`--quick`).
    pub quick: bool,
}

/// A drive of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveInfo {
    /// Id.
    pub id: String,
    /// Title.
    pub name: String,
    /// Model family.
    pub model: String,
    /// The parameters in force as TOML text.
    pub parameters: String,
}

/// A configuration of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigInfo {
    /// Name as given (`none-bfq`, `deadline{fifo_batch=8}`).
    pub id: String,
    /// Scheduler's registry name.
    pub scheduler: String,
    /// One line about it.
    pub summary: String,
    /// Every tunable in force.
    pub tunables: Vec<(String, u64)>,
}

/// A workload of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadInfo {
    /// Short id, such as `readers`.
    pub id: String,
    /// One line about it.
    pub summary: String,
    /// Processes with another weight than [`share::WEIGHT`], where shares are judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<(String, u64)>,
    /// What it stands for, if the experiment says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Its processes with their loads; empty in runs of before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub load: String,
}

/// One drive under one configuration and workload.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Drive id.
    pub drive: String,
    /// Configuration id.
    pub config: String,
    /// Workload id.
    pub workload: String,
    /// Repetitions in order of their seeds.
    pub reps: Vec<Rep>,
}

/// One repetition: the raw records. What has a file of its own is not written with the others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rep {
    /// Its seed.
    pub seed: u64,
    /// Length of the measured window.
    #[serde(rename = "measured_ns", with = "hoistway_run::plain")]
    pub measured: Nanos,
    /// Digest of the trace.
    #[serde(with = "digest")]
    pub trace_digest: u64,
    /// Per process.
    pub procs: Vec<ProcRecord>,
    /// The device.
    pub device: DeviceRecord,
    /// Figures of host, scheduler and controllers.
    pub figures: RepFigures,
    /// How the latency targets stand at the end. Absent in older runs, and under schedulers that take none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetRecord>,
    /// Marks of the loads.
    #[serde(skip)]
    pub marks: Vec<Mark>,
    /// Gauges over time; recorded for the first repetition only.
    #[serde(skip)]
    pub monitor: Vec<Monitor>,
    /// What the cgroup files print at the end: group, file, text; of the first repetition only.
    #[serde(skip)]
    pub files: Vec<(String, String, String)>,
}

/// A digest in hexadecimal.
mod digest {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(digest: &u64, to: S) -> Result<S::Ok, S::Error> {
        format!("{digest:016x}").serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let text = String::deserialize(from)?;
        let what = |_| D::Error::custom(format!("trace_digest '{text}' is not hexadecimal"));
        u64::from_str_radix(&text, 16).map_err(what)
    }
}

/// A name that many rows have: its letters are kept once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        self
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl<T: AsRef<str> + ?Sized> From<&T> for Name {
    fn from(name: &T) -> Name {
        Name(name.as_ref().into())
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

/// Where rows of `metrics.csv` belong: all of a cell have one place.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPlace {
    /// Experiment id.
    pub experiment: Name,
    /// Drive id.
    pub drive: Name,
    /// Configuration id.
    pub config: Name,
    /// Workload id.
    pub workload: Name,
    /// `sim`, or the published source.
    pub source: Name,
}

/// One line of `metrics.csv`. A grid has some hundred thousand of them, with few different names.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Where it belongs.
    pub place: Arc<MetricPlace>,
    /// One word per quantity (`latency_avg`, `throughput_total`), see docs/reference/metrics.md.
    pub metric: Name,
    /// Its unit.
    pub unit: &'static str,
    /// The value; `None` prints as an empty field (too few samples).
    pub value: Option<f64>,
    /// Whether it is the quantity, or the quantity is larger or smaller.
    pub bound: Bound,
    /// Repetition from 1; `None`: over all repetitions.
    pub rep: Option<u32>,
}

impl Deref for Metric {
    type Target = MetricPlace;

    fn deref(&self) -> &MetricPlace {
        &self.place
    }
}

/// A value over repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean over repetitions.
    pub mean: f64,
    /// Half width of the two-sided 99 % Student interval; `None` below three repetitions.
    pub half_width: Option<f64>,
    /// Smallest repetition.
    pub min: f64,
    /// Largest repetition.
    pub max: f64,
    /// Number of repetitions.
    pub n: u32,
}

/// A whole run directory in memory.
#[derive(Clone, Debug)]
pub struct Run {
    /// The manifest.
    pub manifest: Manifest,
    /// Every cell, in the order drive, workload, configuration of the manifest.
    pub cells: Vec<Cell>,
    /// Derived metrics over all repetitions, and published values; those of each repetition: [`Run::rows_of`].
    pub metrics: Vec<Metric>,
    /// How the cells compare with the reference configuration.
    pub comparisons: Vec<Compared>,
    /// Warnings for the reader: (cell as `drive/config/workload`, text), such as "censored I/Os".
    pub flags: Vec<(String, String)>,
}

/// The throughput series of a repetition by name: `device`, then `proc:NAME` for every process.
pub fn series_of(rep: &Rep) -> Vec<(String, &[Interval])> {
    let device = ("device".to_string(), rep.device.intervals.as_slice());
    let procs = rep.procs.iter().map(|p| (format!("proc:{}", p.name), p.intervals.as_slice()));
    std::iter::once(device).chain(procs).collect()
}

#[cfg(test)]
pub(crate) mod tests;
