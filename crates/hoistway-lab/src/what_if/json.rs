//! An answer for programs, and what to write to get what was simulated.

use super::basis::TargetBounds;
use super::judge::{Report, TargetFinding};
use super::run::{Measured, Point};
use super::{SCHEDULER, WhatIfQuestion, scaled, time_text};
use hoistway::target::Answer;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Version of the JSON.
const JSON_SCHEMA: u32 = 1;

/// What to write to get what was simulated.
#[derive(Clone, Debug)]
pub struct Use {
    /// The command that serves so.
    pub serve: String,
    /// The commands for a server that runs.
    pub running: Vec<String>,
}

/// That of the targets as they are; where it does not keep them, the best that was found: without loss, or, where
/// the drive alone takes longer, as low as goes.
pub fn configuration(question: &WhatIfQuestion, report: &Report) -> Use {
    let way = match report.findings.iter().find_map(|f| f.by) {
        Some(at) => &report.sweep[at].way,
        None => &report.ours.way,
    };
    let scheduler = way.config(question);
    let mut serve = format!("hoistway serve --scheduler '{scheduler}'");
    let mut running = vec![format!("hoistway ctl --control PATH scheduler '{scheduler}'")];
    for finding in &report.findings {
        let w = &finding.wanted;
        let device = matches!(finding.answer, Answer::Device { .. });
        let target = w.target.filter(|_| !device).map(|t| scaled(t, way.permille()));
        let latency = target.map_or_else(|| "auto".into(), time_text);
        let weight = w.weight.map_or_else(String::new, |n| format!(",weight={n}"));
        let _ = write!(serve, " --export {}=TARGET,latency={latency}{weight}", w.name);
        let us = target.map_or_else(|| "auto".into(), |t| t.as_us().to_string());
        running.push(format!(
            "hoistway ctl --control PATH write {} io.latency '8:0 target={us}'",
            w.name
        ));
    }
    serve += " --export OTHERS=TARGET";
    Use { serve, running }
}

/// Everything about an answer.
pub fn json(question: &WhatIfQuestion, report: &Report) -> Value {
    let point = |p: &Point| point_json(question, report, p);
    let points = |all: &[Point]| all.iter().map(point).collect::<Vec<_>>();
    let Use { serve, running } = configuration(question, report);
    let kernel = question.kernel(report);
    json!({
        "schema": JSON_SCHEMA,
        "drive": question.drive.id,
        "load": question.load_name(),
        "seed": question.seed,
        "scheduler": SCHEDULER,
        "strict": question.strict,
        "loss_permille": question.loss_permille,
        "kept": report.kept(),
        "bounds": report.bounds.iter().map(TargetBounds::json).collect::<Vec<_>>(),
        "targets": report.findings.iter().map(|f| finding_json(f, report)).collect::<Vec<_>>(),
        "alone": points(&report.alone),
        "others": points(&report.others),
        "ours": point(&report.ours),
        "sweep": points(&report.sweep),
        "serve": serve,
        "running": running,
        "kernel": {
            "config": kernel.config,
            "kept": kernel.kept,
            "kept_permille": kernel.permille,
            "lines": kernel.lines,
        },
    })
}

fn finding_json(finding: &TargetFinding, report: &Report) -> Value {
    let figures: serde_json::Map<_, _> =
        finding.answer.figures().into_iter().map(|(name, v)| (name.into(), v.into())).collect();
    let also = finding.also.iter();
    let also: Vec<_> =
        also.map(|(name, kept)| json!({ "config": name, "kept_permille": kept })).collect();
    json!({
        "name": finding.wanted.name,
        "target_ns": finding.wanted.target.map(|t| t.0),
        "weight": finding.wanted.weight,
        "kept": finding.kept,
        "answer": finding.answer.name(),
        "figures": figures,
        "words": finding.words,
        "kept_permille": report.kept_permille(finding.by.map_or(&report.ours, |at| &report.sweep[at])),
        "also_kept_by": also,
    })
}

fn point_json(question: &WhatIfQuestion, report: &Report, point: &Point) -> Value {
    let of = |m: &Option<Measured>| {
        m.as_ref().map(
            |m| json!({ "p99_ns": m.p99.0, "mean_ns": m.mean.0, "ios": m.ios, "mb_per_s": m.mb_s }),
        )
    };
    json!({
        "config": point.way.name(question),
        "mb_per_s": point.total,
        "others_mb_per_s": point.others,
        "kept_permille": report.kept_permille(point),
        "targets": point.targets.iter().map(of).collect::<Vec<_>>(),
    })
}
