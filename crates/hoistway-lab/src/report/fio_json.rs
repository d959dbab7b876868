//! A run of fio jobs as the JSON that fio prints, so that tools that plot fio's output take it.
//!
//! Names, nesting and units are those of fio 3.33 with `--output-format=json`. What has no counterpart is what
//! fio prints where it measured nothing: 0, or an empty list. Each process is a job of its own, as without
//! `group_reporting`. Figures:
//!
//! - `clat_ns` is the latency of the lab, from the call to its end; nothing is counted apart as submission, so
//!   `slat_ns` is 0 and `lat_ns` equals `clat_ns`;
//! - percentiles are those of the lab's histogram (0.1 % wide bins);
//! - `bw_min` to `iops_stddev` come from the throughput series of a job with one direction (500 ms samples);
//! - `iodepth_level` is one bin: the mean number of calls in flight, from Little's law.

use crate::result::{Cell, Rep, Run};
use hoistway_run::{Histogram, PhaseRecord, ProcRecord, lowest_of};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What fio says of jobs beside their results.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// By the name of their processes, which are numbered if there are several.
    pub jobs: BTreeMap<String, JobInfo>,
    /// Settings of `[global]`, as they stand there.
    pub global: Vec<(String, String)>,
}

/// A job.
#[derive(Clone, Debug)]
pub struct JobInfo {
    /// Its name, that of all its copies.
    pub name: String,
    /// Its reporting group.
    pub group: u64,
    /// Its settings, as they stand in the job file.
    pub options: Vec<(String, String)>,
}

impl Info {
    fn of(&self, proc: &str) -> Option<&JobInfo> {
        let base = proc.trim_end_matches(|c: char| c.is_ascii_digit());
        self.jobs.get(proc).or_else(|| self.jobs.get(base))
    }
}

/// The document of one repetition of a cell. `time`: seconds since 1970, 0 for runs of a simulator that are to
/// be the same every time.
pub fn document(run: &Run, cell: &Cell, rep: &Rep, info: &Info, time: u64) -> Value {
    let jobs: Vec<Value> = rep.procs.iter().map(|p| job(rep, p, info.of(&p.name))).collect();
    let mut document = json!({
        "fio version": format!("fio-3.33 (hoistway-{})", run.manifest.version),
        "timestamp": time,
        "timestamp_ms": time * 1000,
        "time": format!("{} {} on {}, seed {}", run.manifest.experiment, cell.config, cell.drive, rep.seed),
        "jobs": jobs,
        "disk_util": [],
    });
    if !info.global.is_empty() {
        document["global options"] = settings(&info.global);
    }
    document
}

fn settings(settings: &[(String, String)]) -> Value {
    settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect::<Map<_, _>>().into()
}

fn job(rep: &Rep, proc: &ProcRecord, info: Option<&JobInfo>) -> Value {
    let phase = |name: &str| proc.phases.iter().find(|p| p.name == name && p.ios > 0);
    let (read, write) = (phase("read"), phase("write"));
    let alone = read.is_none() != write.is_none();
    let ms = |p: &PhaseRecord| p.end.unwrap_or(rep.measured).0 / 1_000_000;
    let elapsed = read.map(ms).max(write.map(ms)).unwrap_or(0);
    let syncs = proc.counts.iter().find(|c| c.0 == "syncs").map_or(0, |c| c.1);
    let mut out = json!({
        "jobname": info.map_or(&proc.name, |info| &info.name),
        "groupid": info.map_or(0, |info| info.group), "error": 0, "eta": 0, "elapsed": elapsed.div_ceil(1000),
        "job options": info.map_or(json!({}), |info| settings(&info.options)),
        "read": side(rep, proc, read, alone), "write": side(rep, proc, write, alone),
        "trim": side(rep, proc, None, false),
        "sync": { "total_ios": syncs, "lat_ns": times(None) },
        "job_runtime": elapsed,
        "usr_cpu": 0.0, "sys_cpu": 0.0, "ctx": 0, "majf": 0, "minf": 0,
        "iodepth_level": bins(LEVELS, "1", depth(proc, elapsed)),
        "iodepth_submit": bins(SUBMITS, "4", proc.ios as f64),
        "iodepth_complete": bins(SUBMITS, "4", proc.ios as f64),
        "latency_depth": 1, "latency_target": 0, "latency_percentile": 100.0, "latency_window": 0,
    });
    for (name, unit, edges, last) in LATENCIES {
        out[name] = latencies(&proc.latency, *unit, edges, *last);
    }
    out
}

const LEVELS: &[&str] = &["1", "2", "4", "8", "16", "32", ">=64"];
const SUBMITS: &[&str] = &["0", "4", "8", "16", "32", "64", ">=64"];

/// Percent by bin: all of it where `value` is, in `first` when it is small.
fn bins(names: &[&str], first: &str, value: f64) -> Value {
    let mut hit = first;
    if names == LEVELS {
        let fits = |n: &&&str| {
            n.trim_start_matches(">=").parse::<f64>().is_ok_and(|edge| value >= edge - 0.5)
        };
        hit = names.iter().rev().find(fits).copied().unwrap_or(first);
    }
    let full = if value > 0.0 { 100.0 } else { 0.0 };
    let bin = |name: &&str| (name.to_string(), json!(if *name == hit { full } else { 0.0 }));
    Value::Object(names.iter().map(bin).collect())
}

/// Mean number of calls in flight.
fn depth(proc: &ProcRecord, ms: u64) -> f64 {
    proc.latency.sum() as f64 / 1e6 / (ms.max(1)) as f64
}

/// Name, its unit in ns, upper ends of the bins in it, and whether a last bin is open.
const LATENCIES: &[(&str, u64, &[u64], bool)] = &[
    ("latency_ns", 1, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], false),
    ("latency_us", 1_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], false),
    ("latency_ms", 1_000_000, &[2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000], true),
];

/// Percent of the calls by latency. What is shorter than the unit stands under the next smaller one.
fn latencies(h: &Histogram, unit: u64, edges: &[u64], open: bool) -> Value {
    let mut counts = vec![0u64; edges.len() + 1];
    for (slot, n) in h.slots() {
        let ns = lowest_of(slot);
        if unit > 1 && ns < unit {
            continue;
        }
        if let Some(i) = edges.iter().position(|&edge| ns < edge * unit) {
            counts[i] += n;
        } else if open {
            counts[edges.len()] += n;
        }
    }
    let percent = |n: u64| if h.count() == 0 { 0.0 } else { n as f64 * 100.0 / h.count() as f64 };
    let mut out = Map::new();
    for (edge, n) in edges.iter().zip(&counts) {
        out.insert(edge.to_string(), json!(percent(*n)));
    }
    if open {
        out.insert(format!(">={}", edges[edges.len() - 1]), json!(percent(counts[edges.len()])));
    }
    Value::Object(out)
}

/// One direction of a job; `alone`: the job has no other.
fn side(rep: &Rep, proc: &ProcRecord, phase: Option<&PhaseRecord>, alone: bool) -> Value {
    let begin = phase.and_then(|p| p.begin).unwrap_or_default();
    let end = phase.and_then(|p| p.end).unwrap_or(rep.measured);
    let ns = phase.map_or(0, |p| if p.ios > 0 { end.0.saturating_sub(begin.0).max(1) } else { 0 });
    let (bytes, ios) = phase.map_or((0, 0), |p| (p.bytes, p.ios));
    let rate = |n: u64| if ns == 0 { 0.0 } else { n as f64 * 1e9 / ns as f64 };
    let latency = phase.map(|p| &p.latency);
    let mut clat = times(latency);
    if let Some(latency) = latency {
        clat["percentile"] = percentiles(latency);
    }
    let series = if alone && phase.is_some() { proc.intervals.as_slice() } else { &[] };
    let length = series.get(1).map_or(5e8, |i| i.at.0 as f64);
    let kib: Vec<f64> = series.iter().map(|i| i.bytes as f64 / 1024.0 * 1e9 / length).collect();
    let iops: Vec<f64> = series.iter().map(|i| i.ios as f64 * 1e9 / length).collect();
    let (bw, io) = (Moments::of(&kib), Moments::of(&iops));
    json!({
        "io_bytes": bytes, "io_kbytes": bytes / 1024,
        "bw_bytes": rate(bytes) as u64, "bw": (rate(bytes) / 1024.0) as u64, "iops": rate(ios),
        "runtime": ns / 1_000_000, "total_ios": ios, "short_ios": 0, "drop_ios": 0,
        "slat_ns": times(None), "clat_ns": clat, "lat_ns": times(latency),
        "bw_min": bw.min as u64, "bw_max": bw.max as u64, "bw_agg": if bw.n > 0 { 100.0 } else { 0.0 },
        "bw_mean": bw.mean, "bw_dev": bw.sd, "bw_samples": bw.n,
        "iops_min": io.min as u64, "iops_max": io.max as u64, "iops_mean": io.mean,
        "iops_stddev": io.sd, "iops_samples": io.n,
    })
}

fn times(h: Option<&Histogram>) -> Value {
    let h = h.filter(|h| h.count() > 0);
    json!({
        "min": h.and_then(Histogram::min).unwrap_or(0),
        "max": h.and_then(Histogram::max).unwrap_or(0),
        "mean": h.and_then(Histogram::mean).unwrap_or(0.0),
        "stddev": h.and_then(Histogram::sd).unwrap_or(0.0),
        "N": h.map_or(0, Histogram::count),
    })
}

/// fio's default list, in hundredths of a percent.
const PERCENTILES: &[u64] = &[
    100, 500, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 9500, 9900, 9950, 9990, 9995,
    9999,
];

fn percentiles(h: &Histogram) -> Value {
    let one = |&p: &u64| {
        let ns = h.quantile(p, 10_000).unwrap_or(0);
        (format!("{}.{:02}0000", p / 100, p % 100), json!(ns))
    };
    Value::Object(PERCENTILES.iter().map(one).collect())
}

struct Moments {
    n: usize,
    min: f64,
    max: f64,
    mean: f64,
    sd: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Moments {
        let n = values.len();
        if n == 0 {
            return Moments { n, min: 0.0, max: 0.0, mean: 0.0, sd: 0.0 };
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let sd = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let (min, max) = values.iter().fold((f64::MAX, 0.0f64), |(a, b), &v| (a.min(v), b.max(v)));
        Moments { n, min, max, mean, sd }
    }
}
