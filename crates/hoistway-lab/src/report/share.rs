//! A workload that is judged by shares: what each process receives of what it is entitled to, and what
//! all receive together.

use super::chart::{Bar, Parts, bars, parts};
use super::figures::CellFigures;
use super::section::{Chart, dash_cell, gain_text, mean_cell, references, rows_and_flags};
use super::svg::{AxisUnit, esc, number};
use super::{latency, verdict};
use crate::result::share::Shares;
use crate::result::{DriveInfo, Run, WorkloadInfo};
use crate::stats::Bound;

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

    let row = |f: &CellFigures<'_>| {
        let shares = f.shares.as_ref();
        let target = shares.and_then(Shares::target);
        let target = target.as_ref();
        // The target stands first, whatever its place among the processes.
        let others = shares.map_or(&[][..], |s| &s.clients).iter().filter(|c| !c.target);
        let values = target.into_iter().chain(others);
        let values = values.zip(std::iter::repeat(shares));
        let values = values.filter_map(|(c, s)| Some((c.name.clone(), s?.share(c))));
        let due = target.zip(shares).and_then(|(t, s)| Some((t.entitled_mb_s? / s.total).min(1.0)));
        let note = target.zip(shares).map(|(t, s)| verdict::percent(s.share(t)));
        Parts {
            key: f.key,
            label: name(f),
            values: values.collect(),
            first: target.is_some(),
            due,
            note: note.unwrap_or_default(),
        }
    };
    let rows: Vec<Parts> = all.iter().map(row).collect();
    let note = match rows.iter().any(|r| r.first) {
        true => {
            "<i class=\"swatch s-mine\"></i><em>target, its share behind the row</em>stroke: the share it is \
             entitled to; grey: the others in turn"
        }
        false => "a piece per process",
    };
    let svg = parts(&format!("{id}a"), &format!("Shares of the bandwidth: {of}"), &rows);
    out.push(Chart::new("shares", "Who gets which share", note, svg));

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
    let title = format!("Throughput of the device: {of}");
    let svg = bars(&format!("{id}b"), &title, "MB/s", AxisUnit::Rate, &rows);
    let note = "what is left to share; mean, and 99 % interval from three repetitions on";
    out.push(Chart::new("throughput", "Throughput of the device", note, svg));
    out.extend(latency::over_time(run, id, &of, all));
    out
}

pub(super) fn table(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> String {
    let title = format!("{}, {}: every figure", drive.name, workload.id);
    let over = "<th></th><th scope=\"colgroup\" colspan=\"2\">share of the target</th>\
                <th scope=\"colgroup\" colspan=\"3\">of what each is entitled to</th>\
                <th scope=\"colgroup\" colspan=\"4\">throughput, MB/s</th>\
                <th scope=\"colgroup\" colspan=\"2\">latency, ms</th>";
    rows_and_flags(run, &title, over, &HEADS, all, |f| cells(f).to_vec())
}

const HEADS: [&str; 12] = [
    "configuration",
    "received",
    "entitled",
    "target has",
    "worst served has",
    "Jain's index",
    "all",
    "times the first",
    "target",
    "interferers",
    "mean",
    "p99",
];

/// The columns after the name, as markup of this file and numbers.
fn cells(f: &CellFigures<'_>) -> [String; 11] {
    let [received, entitled, has, worst, jain] = judged(f).map(|c| esc(&c));
    [
        received,
        entitled,
        has,
        worst,
        jain,
        mean_cell(f.moved, 1.0),
        times(f),
        mean_cell(f.target, 1.0),
        mean_cell(f.others, 1.0),
        f.wait_cell(),
        f.percentile(990).map_or_else(dash_cell, |v| number(v as f64 / 1e6)),
    ]
}

/// Throughput over the first configuration's.
fn times(f: &CellFigures<'_>) -> String {
    gain_text(f.more).unwrap_or_else(dash_cell)
}

/// Received and entitled share of the target, what it has of it, what the worst served has, Jain's index.
pub(super) fn judged(f: &CellFigures<'_>) -> [String; 5] {
    let Some(s) = &f.shares else { return std::array::from_fn(|_| dash_cell()) };
    let show = |part: Option<f64>| part.map_or_else(dash_cell, verdict::percent);
    let target = s.target();
    let target = target.as_ref();
    let has = show(f.worst_served.map(|s| s.mean));
    let worst = s.worst().map_or_else(dash_cell, |w| format!("{has} ({})", w.name));
    [
        show(target.map(|t| s.share(t))),
        show(target.and_then(|t| t.entitled_mb_s).map(|e| e / s.total)),
        show(target.and_then(|t| t.met())),
        worst,
        s.jain.map_or_else(dash_cell, number),
    ]
}
