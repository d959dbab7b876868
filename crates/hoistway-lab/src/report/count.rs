//! A workload whose target counts something: frames it dropped, files it compiled; and what the device moves meanwhile.

use super::chart::{Bar, bars};
use super::figures::{CellFigures, Counted};
use super::section::{Chart, dash_cell, gain_text, mean_cell, references, rows_and_flags};
use super::svg::{AxisUnit, esc};
use crate::result::{DriveInfo, Run, Spread, WorkloadInfo, counts};
use crate::stats::Bound;
use hoistway_sim::load::Better;

pub(super) fn charts(
    run: &Run,
    id: &str,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> Vec<Chart> {
    let Some(counted) = all.iter().find_map(|f| f.counted) else { return Vec::new() };
    let bar = |f: &CellFigures<'_>| {
        let config = &run.manifest.configs[f.key].id;
        Bar {
            key: f.key,
            label: config.clone(),
            value: f.counted.map(|c| c.number),
            bound: Bound::Exact,
            published: references(run, f.cell)
                .find(|m| m.metric == counted.doc.name)
                .and_then(|m| m.value),
        }
    };
    let rows: Vec<Bar> = all.iter().map(bar).collect();
    let words = counts::words(counted.doc);
    let title = format!("{}: {}, {}", capital(&words), drive.name, workload.id);
    let svg = bars(&format!("{id}a"), &title, &words, AxisUnit::Number, &rows);
    let which = if counted.doc.better == Better::Lower { "less" } else { "more" };
    let note = format!(
        "mean over repetitions, with its 99 % interval from three on; {which} is better; dashed stroke: published value"
    );
    vec![Chart::new("counted", &capital(&words), &note, svg)]
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

pub(super) fn table(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> String {
    let title = format!("{}, {}: every figure", drive.name, workload.id);
    let words =
        all.iter().find_map(|f| f.counted).map_or_else(|| "count".into(), |c| counts::words(c.doc));
    let over = format!(
        "<th></th><th scope=\"colgroup\" colspan=\"5\">{}</th>\
         <th scope=\"colgroup\" colspan=\"2\">MB/s</th>",
        esc(&words)
    );
    rows_and_flags(run, &title, &over, &HEADS, all, |f| cells(f, " <small>± ", "</small>").to_vec())
}

const HEADS: [&str; 8] =
    ["configuration", "mean", "part, %", "better by", "least", "most", "device", "target"];

/// The columns after the name.
pub(super) fn cells(f: &CellFigures<'_>, open: &str, close: &str) -> [String; 7] {
    let mean = |spread: Option<Spread>, scale: f64| {
        mean_cell(spread, scale).replace(" <small>± ", open).replace("</small>", close)
    };
    let of = |value: fn(&Counted) -> f64| {
        f.counted.map_or_else(dash_cell, |c| super::svg::number(value(&c)))
    };
    [
        mean(f.counted.map(|c| c.number), 1.0),
        mean(f.counted.and_then(|c| c.share), 0.01),
        gain_text(f.judged).unwrap_or_else(dash_cell),
        of(|c| c.number.min),
        of(|c| c.number.max),
        mean(f.moved, 1.0),
        mean(f.target, 1.0),
    ]
}

/// The head of the table in Markdown.
pub(super) fn markdown_head(all: &[CellFigures<'_>]) -> String {
    let words =
        all.iter().find_map(|f| f.counted).map_or_else(|| "count".into(), |c| counts::words(c.doc));
    format!(
        "| configuration | {words} | part, % | better by | least | most | all, MB/s | target, MB/s |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n"
    )
}
