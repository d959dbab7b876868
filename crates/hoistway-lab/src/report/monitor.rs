//! What the controllers did over time: one panel per gauge, one line per configuration.

use super::chart::{Line, Panel, panels};
use super::figures::CellFigures;
use super::section::Chart;
use super::svg::esc;
use crate::result::Run;
use hoistway_run::Monitor;
use std::fmt::Write;

/// The target's group; others are shown as their mean.
const TARGET: &str = "/target";

/// Whose gauge a panel shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Device,
    Target,
    Others,
}

impl Whose {
    fn fits(self, monitor: &Monitor) -> bool {
        match (self, monitor.group.as_deref()) {
            (Whose::Device, None) => true,
            (Whose::Target, Some(group)) => group == TARGET,
            (Whose::Others, Some(group)) => group != TARGET,
            _ => false,
        }
    }
}

/// The charts of one drive and workload; empty if no controller was at work.
pub(super) fn section(run: &Run, id: &str, all: &[CellFigures<'_>]) -> (String, Vec<Chart>) {
    let mut gauges: Vec<(&str, &str, &str)> = Vec::new();
    for monitor in all.iter().flat_map(|f| f.monitor()) {
        let gauge = (monitor.stage.as_str(), monitor.name.as_str(), monitor.unit.as_str());
        if !gauges.contains(&gauge) {
            gauges.push(gauge);
        }
    }
    let mut stages: Vec<&str> = gauges.iter().map(|g| g.0).collect();
    stages.dedup();
    let (mut out, mut charts) = (String::new(), Vec::new());
    for (n, stage) in stages.iter().enumerate() {
        let mut shown = Vec::new();
        for &(_, name, unit) in gauges.iter().filter(|g| g.0 == *stage) {
            for whose in [Whose::Device, Whose::Target, Whose::Others] {
                shown.extend(panel(run, all, (stage, name, unit), whose));
            }
        }
        if shown.is_empty() {
            continue;
        }
        let title = format!("{stage} over time");
        let about = "one line per configuration, first repetition";
        let _ = write!(
            out,
            "<details><summary>{}: what it did over time</summary><div class=\"charts\">",
            esc(stage)
        );
        // Two columns of charts, each with half of the panels.
        let half = shown.len().div_ceil(2);
        let right = shown.split_off(half);
        for (column, panels_of) in [shown, right].into_iter().enumerate() {
            if !panels_of.is_empty() {
                let svg = panels(&format!("{id}m{n}{column}"), &title, about, &panels_of);
                let slug = format!("{stage}-{}", column + 1);
                let _ = write!(out, "<figure data-name=\"{}\">{svg}</figure>", esc(&slug));
                charts.push(Chart::new(&slug, &title, about, svg));
            }
        }
        out.push_str("</div></details>\n");
    }
    (out, charts)
}

fn panel(
    run: &Run,
    all: &[CellFigures<'_>],
    (stage, name, unit): (&str, &str, &str),
    whose: Whose,
) -> Option<Panel> {
    let mut lines = Vec::new();
    for f in all {
        let fits = |m: &&Monitor| m.stage == stage && m.name == name && whose.fits(m);
        let monitors: Vec<&Monitor> = f.monitor().iter().filter(fits).collect();
        let points = mean_of(&monitors);
        if points.len() > 1 {
            let tip = run.manifest.configs[f.key].id.clone();
            lines.push(Line { key: f.key, tip, points });
        }
    }
    // A gauge that is zero throughout says nothing.
    if lines.iter().flat_map(|l| &l.points).all(|p| p.1 == 0.0) {
        return None;
    }
    let who = match whose {
        Whose::Device => "",
        Whose::Target => " of the target",
        Whose::Others => " of the others, mean",
    };
    Some(Panel { name: format!("{}{who}", name.replace('_', " ")), unit: unit.into(), lines })
}

/// Mean over several gauges at each time of the first, in seconds of the measured window.
fn mean_of(monitors: &[&Monitor]) -> Vec<(f64, f64)> {
    let Some(first) = monitors.first() else { return Vec::new() };
    let mut out = Vec::new();
    for (i, &(at, _)) in first.points.iter().enumerate().filter(|(_, p)| p.0 >= 0) {
        let there = monitors.iter().filter_map(|m| m.points.get(i).filter(|p| p.0 == at));
        let (sum, n) = there.fold((0.0, 0), |(sum, n), p| (sum + p.1 as f64, n + 1));
        if n > 0 {
            out.push((at as f64 / 1e9, sum / f64::from(n)));
        }
    }
    out
}
