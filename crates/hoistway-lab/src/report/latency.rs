//! A workload with a target whose latency is judged: how long it waits under each configuration, and who
//! gets the throughput meanwhile.

use super::chart::{Bar, Line, Panel, Stack, bars, ecdf, panels, stacks};
use super::figures::{CellFigures, bounded};
use super::section::{Chart, dash_cell, gain_text, mean_cell, references, rows_and_flags};
use super::svg::{AxisUnit, duration, esc, number};
use crate::result::{DriveInfo, Run, WorkloadInfo};
use crate::stats::Bound;
use hoistway_run::Role;

pub(super) fn charts(
    run: &Run,
    id: &str,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> Vec<Chart> {
    let name = |f: &CellFigures<'_>| run.manifest.configs[f.key].id.clone();
    let rows: Vec<Bar> = all
        .iter()
        .map(|f| Bar {
            key: f.key,
            label: name(f),
            value: f.latency,
            bound: f.wait().map_or(Bound::Exact, |w| w.bound),
            published: references(run, f.cell)
                .find(|m| m.metric == "latency_avg" && m.unit == "ms")
                .and_then(|m| m.value)
                .map(|ms| ms * 1e6),
        })
        .collect();
    let marked = rows.iter().any(|r| r.published.is_some());
    let of = format!("{}, {}", drive.name, workload.id);
    let mut out = Vec::new();
    let note = match (run.manifest.reps, marked) {
        (0..=2, false) => "mean; no interval below three repetitions",
        (0..=2, true) => "mean; dashed stroke: published value",
        (_, false) => "mean and 99 % interval over repetitions",
        (_, true) => "mean and 99 % interval over repetitions; dashed stroke: published value",
    };
    let title = format!("Latency of the target: {of}");
    let svg = bars(&format!("{id}a"), &title, "mean latency of the target", AxisUnit::Time, &rows);
    out.push(Chart::new("latency", "Latency of the target", note, svg));

    let hists: Vec<_> = all.iter().map(|f| (f.key, name(f), &f.hist)).collect();
    let about = all
        .iter()
        .filter_map(|f| {
            Some(format!("{}: median {}", name(f), duration(f.hist.quantile(1, 2)? as f64)))
        })
        .collect::<Vec<_>>()
        .join("; ");
    let title = format!("Distribution of the target's latency: {of}");
    let svg = ecdf(&format!("{id}b"), &title, &about, &hists);
    let note = "share of the target's I/Os done within a time";
    out.push(Chart::new("distribution", "Distribution", note, svg));

    let rows: Vec<Stack> = all
        .iter()
        .map(|f| Stack {
            key: f.key,
            label: name(f),
            target: f.target.map_or(0.0, |s| s.mean),
            others: f.others.map_or(0.0, |s| s.mean),
        })
        .collect();
    let title = format!("Who gets the throughput: {of}");
    let svg = stacks(&format!("{id}c"), &title, ["target", "interferers"], &rows);
    let note = "<i class=\"swatch s-mine\"></i><em>target</em><i class=\"swatch s-rest\"></i>\
                <em>interferers</em>";
    out.push(Chart::new("throughput", "Who gets the throughput", note, svg));

    out.extend(over_time(run, id, &of, all));
    out
}

/// Throughput of all and of the target over time, if there is a target with a series.
pub(super) fn over_time(run: &Run, id: &str, of: &str, all: &[CellFigures<'_>]) -> Option<Chart> {
    let name = |f: &CellFigures<'_>| run.manifest.configs[f.key].id.clone();
    let series = |role| {
        let line = |f: &CellFigures<'_>| Line { key: f.key, tip: name(f), points: f.series(role) };
        all.iter().map(line).filter(|l| l.points.len() > 1).collect::<Vec<_>>()
    };
    let panel = |name: &str, lines| Panel { name: name.into(), unit: "MB/s".into(), lines };
    let both = [panel("all processes", series(None)), panel("target", series(Some(Role::Target)))];
    if both.iter().any(|p| p.lines.is_empty()) {
        return None;
    }
    let title = format!("Throughput over time: {of}");
    let about = "one line per configuration; the means are in the table";
    let svg = panels(&format!("{id}d"), &title, about, &both);
    let note = "mean over repetitions per interval";
    Some(Chart::new("over-time", "Throughput over time", note, svg))
}

pub(super) fn table(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> String {
    let title = format!("{}, {}: every figure", drive.name, workload.id);
    let over = "<th></th><th scope=\"colgroup\" colspan=\"9\">latency of the target, ms</th>\
                <th></th><th scope=\"colgroup\" colspan=\"3\">throughput, MB/s</th>";
    rows_and_flags(run, &title, over, &HEADS, all, |f| cells(f).to_vec())
}

const HEADS: [&str; 14] = [
    "configuration",
    "mean",
    "shorter by",
    "sd",
    "p50",
    "p95",
    "p99",
    "p99.9",
    "max",
    "time-weighted",
    "I/Os",
    "device",
    "target",
    "interferers",
];

/// The columns after the name, as markup of this file and numbers.
fn cells(f: &CellFigures<'_>) -> [String; 13] {
    let ms = |ns: Option<f64>| ns.map_or_else(dash_cell, |v| number(v / 1e6));
    let p = |per_mille| ms(f.percentile(per_mille).map(|v| v as f64));
    [
        f.wait_cell(),
        gain_text(f.judged).map_or_else(dash_cell, |t| esc(&t)),
        ms(f.hist.sd()),
        p(500),
        p(950),
        p(990),
        p(999),
        f.longest_text(|ns| number(ns / 1e6)).map_or_else(dash_cell, |t| esc(&t)),
        f.time_weighted.map_or_else(dash_cell, |mean| esc(&bounded(mean, |ns| number(ns / 1e6)))),
        number(f.hist.count() as f64).replace(".00", "").replace(".0", ""),
        mean_cell(f.moved, 1.0),
        mean_cell(f.target, 1.0),
        mean_cell(f.others, 1.0),
    ]
}
