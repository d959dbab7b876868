//! A workload without a target: what the device moves under each configuration, and how evenly the
//! processes share it.

use super::chart::{Bar, Line, Panel, Spots, Stack, bars, panels, spots, stacks};
use super::figures::{Beside, CellFigures};
use super::section::{Chart, dash_cell, gain_text, mean_cell, references, rows_and_flags};
use super::svg::{AxisUnit, esc, number};
use crate::result::{DriveInfo, Run, WorkloadInfo};
use crate::stats::Bound;

/// One sentence from the data. Marked up for the page, plain otherwise.
pub(super) fn headline(run: &Run, all: &[CellFigures<'_>], html: bool) -> String {
    let name = |f: &CellFigures<'_>| {
        let id = &run.manifest.configs[f.key].id;
        if html { esc(id) } else { id.clone() }
    };
    let bold = |text: String| if html { format!("<b>{text}</b>") } else { format!("**{text}**") };
    let rate = |f: &CellFigures<'_>| bold(AxisUnit::Rate.value(mean(f)));
    let Some(first) = all.first() else { return "Nothing was run.".into() };
    let start = format!("The device moves {} under {}", rate(first), name(first));
    let (most, least) = extremes(all);
    let of = |f: &CellFigures<'_>| format!("{} under {}", rate(f), name(f));
    match (most, least) {
        _ if all.len() == 1 => format!("{start}."),
        (None, None) => {
            format!("{start}; no other configuration differs beyond the spread of the repetitions.")
        }
        (Some(most), None) => format!("{start}, most with {}, and none moves less.", of(most)),
        (None, Some(least)) => format!("{start}; none moves more, and the least is {}.", of(least)),
        (Some(most), Some(least)) => format!("{start}, {} and {}.", of(most), of(least)),
    }
}

/// The configurations that move the most and the least, if more and less than the first beyond the spread.
pub(super) fn extremes<'a, 'b>(
    all: &'b [CellFigures<'a>],
) -> (Option<&'b CellFigures<'a>>, Option<&'b CellFigures<'a>>) {
    let Some(first) = all.first() else { return (None, None) };
    let differ = |f: &&CellFigures<'_>| f.more.as_ref().is_some_and(Beside::differs);
    let others = || all[1..].iter().filter(differ);
    let most = others().max_by(|a, b| mean(a).total_cmp(&mean(b)));
    let least = others().min_by(|a, b| mean(a).total_cmp(&mean(b)));
    (most.filter(|f| mean(f) > mean(first)), least.filter(|f| mean(f) < mean(first)))
}

/// MB/s of the device.
pub(super) fn mean(f: &CellFigures<'_>) -> f64 {
    f.moved.map_or(0.0, |s| s.mean)
}

pub(super) fn charts(
    run: &Run,
    id: &str,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> Vec<Chart> {
    let name = |f: &CellFigures<'_>| run.manifest.configs[f.key].id.clone();
    let of = format!("{}, {}", drive.name, workload.id);
    let mut out = Vec::new();

    let bar = |f: &CellFigures<'_>| Bar {
        key: f.key,
        label: name(f),
        value: f.moved,
        bound: Bound::Exact,
        published: references(run, f.cell)
            .find(|m| m.metric == "throughput_total" && m.unit == "MB/s")
            .and_then(|m| m.value),
    };
    let rows: Vec<Bar> = all.iter().map(bar).collect();
    let note = match (run.manifest.reps, rows.iter().any(|r| r.published.is_some())) {
        (0..=2, false) => "mean; no interval below three repetitions",
        (0..=2, true) => "mean; dashed stroke: published value",
        (_, false) => "mean and 99 % interval over repetitions",
        (_, true) => "mean and 99 % interval over repetitions; dashed stroke: published value",
    };
    let title = format!("Throughput of the device: {of}");
    let svg = bars(&format!("{id}a"), &title, "MB/s", AxisUnit::Rate, &rows);
    out.push(Chart::new("throughput", "Throughput of the device", note, svg));

    let spot = |f: &CellFigures<'_>| Spots {
        key: f.key,
        label: name(f),
        values: f.each().into_iter().map(|(who, v)| (who.to_string(), v)).collect(),
        note: f.jain.map_or_else(String::new, |j| number(j.mean)),
    };
    let rows: Vec<Spots> = all.iter().map(spot).collect();
    let svg = spots(&format!("{id}b"), &format!("Throughput of each process: {of}"), &rows);
    let note = "a stroke per process; behind it Jain's index, 1 = equal shares";
    out.push(Chart::new("processes", "Who gets how much", note, svg));

    if all.iter().any(|f| f.written.is_some_and(|w| w.mean > 0.0)) {
        let rate = |s: Option<crate::result::Spread>| s.map_or(0.0, |s| s.mean);
        let row = |f: &CellFigures<'_>| Stack {
            key: f.key,
            label: name(f),
            target: rate(f.read),
            others: rate(f.written),
        };
        let rows: Vec<Stack> = all.iter().map(row).collect();
        let title = format!("Reads and writes: {of}");
        let svg = stacks(&format!("{id}c"), &title, ["read", "written"], &rows);
        let note = "<i class=\"swatch s-mine\"></i><em>read</em><i class=\"swatch s-rest\"></i>\
                    <em>written</em>";
        out.push(Chart::new("reads-and-writes", "Reads and writes", note, svg));
    }

    let line = |f: &CellFigures<'_>| Line { key: f.key, tip: name(f), points: f.device_series() };
    let lines: Vec<Line> = all.iter().map(line).filter(|l| l.points.len() > 1).collect();
    if !lines.is_empty() {
        out.push(over_time(id, &of, lines));
    }
    out
}

fn over_time(id: &str, of: &str, lines: Vec<Line>) -> Chart {
    let title = format!("Throughput over time: {of}");
    let about = "one line per configuration; the means are in the table";
    let panel = Panel { name: "device".into(), unit: "MB/s".into(), lines };
    let svg = panels(&format!("{id}d"), &title, about, &[panel]);
    let note = "mean over repetitions per interval";
    Chart::new("over-time", "Throughput over time", note, svg)
}

pub(super) fn table(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> String {
    let title = format!("{}, {}: every figure", drive.name, workload.id);
    let over = "<th></th><th scope=\"colgroup\" colspan=\"4\">device, MB/s</th>\
                <th scope=\"colgroup\" colspan=\"4\">of a process, MB/s</th>";
    rows_and_flags(run, &title, over, &HEADS, all, |f| cells(f).to_vec())
}

const HEADS: [&str; 9] = [
    "configuration",
    "all",
    "times the first",
    "read",
    "written",
    "slowest",
    "mean",
    "fastest",
    "Jain's index",
];

fn cells(f: &CellFigures<'_>) -> [String; 8] {
    let each: Vec<f64> = f.each().iter().map(|e| e.1).collect();
    let show = |v: Option<f64>| v.map_or_else(dash_cell, number);
    let total: f64 = each.iter().sum();
    [
        mean_cell(f.moved, 1.0),
        gain_text(f.more).unwrap_or_else(dash_cell),
        mean_cell(f.read, 1.0),
        mean_cell(f.written, 1.0),
        show(each.iter().copied().reduce(f64::min)),
        show((!each.is_empty()).then(|| total / each.len() as f64)),
        show(each.iter().copied().reduce(f64::max)),
        mean_cell(f.jain, 1.0),
    ]
}
