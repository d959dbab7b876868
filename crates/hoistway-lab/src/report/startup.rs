//! A workload that starts an application: how long each start takes under each configuration, and what the
//! device moves meanwhile.

use super::chart::{Bar, bars};
use super::figures::CellFigures;
use super::section::{Chart, dash_cell, mean_cell, references, rows_and_flags};
use super::svg::{AxisUnit, duration, esc, number};
use crate::result::startup::Startups;
use crate::result::{DriveInfo, Run, Spread, WorkloadInfo};
use crate::stats::{Bound, Bounded};

/// The mean, or what it is longer than with the median beside it.
pub(super) fn time(s: &Startups) -> String {
    match (s.mean, s.median) {
        (Some(mean), _) => duration(mean.mean * 1e9),
        (None, Some(median)) => format!("{} s (median {})", s.time, duration(median * 1e9)),
        (None, None) => format!("{} s", s.time),
    }
}

/// The mean in ns, whether it is a lower bound because some start did not finish, and its text.
pub(super) fn point(f: &CellFigures<'_>) -> Option<(f64, bool, String)> {
    let s = f.starts.as_ref()?;
    Some((s.time.value * 1e9, s.mean.is_none(), time(s)))
}

pub(super) fn charts(
    run: &Run,
    id: &str,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> Vec<Chart> {
    let ns = |s: Spread| Spread {
        mean: s.mean * 1e9,
        half_width: s.half_width.map(|h| h * 1e9),
        min: s.min * 1e9,
        max: s.max * 1e9,
        ..s
    };
    let bar = |f: &CellFigures<'_>| {
        let config = &run.manifest.configs[f.key].id;
        let given_up = f.starts.filter(|s| s.mean.is_none());
        Bar {
            key: f.key,
            label: given_up.map_or_else(|| config.clone(), |s| format!("{config}: {}", time(&s))),
            value: f.starts.and_then(|s| s.mean).map(ns),
            bound: Bound::Exact,
            published: references(run, f.cell)
                .find(|m| m.metric == "startup_time" && m.unit == "s")
                .and_then(|m| m.value)
                .map(|s| s * 1e9),
        }
    };
    let rows: Vec<Bar> = all.iter().map(bar).collect();
    let title = format!("Start-up time: {}, {}", drive.name, workload.id);
    let svg = bars(&format!("{id}a"), &title, "start-up time", AxisUnit::Time, &rows);
    let note = "mean over repetitions, with its 99 % interval from three on; dashed stroke: published value";
    vec![Chart::new("start-up-time", "Start-up time", note, svg)]
}

pub(super) fn table(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> String {
    let title = format!("{}, {}: every figure", drive.name, workload.id);
    let over = "<th></th><th scope=\"colgroup\" colspan=\"6\">start-up, s</th>\
                <th scope=\"colgroup\" colspan=\"2\">device, MB/s</th>";
    rows_and_flags(run, &title, over, &HEADS, all, |f| {
        cells(run, f, " <small>± ", "</small>").map(|c| esc_but_small(&c)).to_vec()
    })
}

/// The sign of a bound; the markup of [`mean_cell`] stays.
fn esc_but_small(text: &str) -> String {
    match text.chars().next() {
        Some('>' | '<') if !text.starts_with("<small>") => {
            format!("{}{}", esc(&text[..1]), &text[1..])
        }
        _ => text.to_string(),
    }
}

const HEADS: [&str; 9] = [
    "configuration",
    "mean",
    "times the idle",
    "median",
    "shortest",
    "longest",
    "not finished",
    "all the time",
    "during starts",
];

/// The columns after the name.
pub(super) fn cells(run: &Run, f: &CellFigures<'_>, open: &str, close: &str) -> [String; 8] {
    let metric = |name: &str| {
        let cell = f.cell;
        let found = run.totals_of(cell).find(|m| {
            m.workload == cell.workload
                && m.metric == name
                && m.rep.is_none()
                && m.source == run.manifest.world
        });
        found.and_then(|m| Some(Bounded { value: m.value?, bound: m.bound }))
    };
    let show = |v: Option<Bounded>| match v.map(|b| (b, b.exact())) {
        None => dash_cell(),
        Some((_, Some(exact))) => number(exact),
        Some((bound, None)) => bound.to_string().replace(">=", "≥ "),
    };
    let Some(s) = f.starts else { return std::array::from_fn(|_| dash_cell()) };
    let mean = |spread: Option<Spread>| {
        mean_cell(spread, 1.0).replace(" <small>± ", open).replace("</small>", close)
    };
    [
        if s.mean.is_some() { mean(s.mean) } else { s.time.to_string() },
        show(metric("startup_slowdown")),
        show(s.median.map(Bounded::from)),
        show(s.min.map(Bounded::from)),
        show(Some(s.max)),
        if s.unfinished > 0 { format!("{} of {}", s.unfinished, s.count) } else { "0".into() },
        mean(f.moved),
        show(metric("throughput_startup")),
    ]
}
