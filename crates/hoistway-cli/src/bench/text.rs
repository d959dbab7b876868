//! Plans and results for people and programs.

use super::Setting;
use crate::table::{Table, three};
use hoistway::Nanos;
use hoistway_lab::bench::plan::{Plan, Planned, duration, size};
use hoistway_lab::bench::run::{Ended, Outcome};
use hoistway_lab::bench::suite;
use hoistway_lab::bench::summary::{Row, Summary, summary};
use hoistway_lab::result::Run;
use hoistway_lab::stats::Bound;
use hoistway_lab::words::counted;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Version of the JSON that `--json` prints.
const JSON_SCHEMA: u32 = 1;

/// What would run, how long it takes, what it reads, writes and changes.
pub fn plan(plan: &Plan, setting: &Setting) -> String {
    let mut out = String::new();
    for line in &setting.about {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\nbench {}, suite {}\n", plan.level.name(), suite::name());
    let mut table = Table::new(&["workload", "what it asks", "configurations", "a run, about"], 2);
    for planned in &plan.parts {
        let Planned { part, configs, run, .. } = planned;
        table.row(vec![
            format!("{}/{}", part.experiment, part.workload),
            part.question.into(),
            configs.to_string(),
            format!("{:.1} s", run.0 as f64 / 1e9),
        ]);
    }
    out.push_str(&table.render());
    for (part, why) in &plan.left_out {
        let _ = writeln!(out, "left out: {}/{}: {why}", part.experiment, part.workload);
    }
    let all = suite::SUITE.len();
    if plan.parts.len() < all {
        let _ = writeln!(
            out,
            "{} of the suite's {all} workloads, {} a run; --standard, --full or a longer --time has more",
            plan.parts.len(),
            duration(plan.measured)
        );
    }
    for (grid, parts) in configs(plan) {
        let _ = writeln!(out, "configurations of {parts}: {grid}");
    }
    for (config, why) in &setting.lacks {
        let _ = writeln!(out, "not here: {config}: {why}");
    }
    let runs: usize = plan.parts.iter().map(|p| p.configs).sum();
    let e = &plan.estimate;
    let _ = writeln!(
        out,
        "{} of {}, in random order: {} of at most {}{}",
        counted(plan.rounds, "round"),
        counted(runs, "run"),
        duration(Nanos(e.time_ns)),
        duration(plan.limit),
        if plan.most > plan.rounds { ", then more rounds while there is time" } else { "" }
    );
    let _ = writeln!(
        out,
        "files {}; read up to {}, written up to {}",
        size(e.files),
        size(e.read),
        size(e.written)
    );
    out
}

/// Lists of configurations, and the experiments that have each.
fn configs(plan: &Plan) -> Vec<(String, String)> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for grid in &plan.grids {
        let ids: Vec<&str> = grid.configs.iter().map(|c| c.id.as_str()).collect();
        let list = ids.join(", ");
        match all.iter_mut().find(|(known, _)| *known == list) {
            Some((_, experiments)) => experiments.push(&grid.experiment.id),
            None => all.push((list, vec![&grid.experiment.id])),
        }
    }
    all.into_iter().map(|(list, experiments)| (list, experiments.join(", "))).collect()
}

/// Everything about it.
pub fn plan_json(plan: &Plan, setting: &Setting) -> Value {
    let part = |p: &Planned| {
        let ids: Vec<&str> = plan.grids[p.grid].configs.iter().map(|c| c.id.as_str()).collect();
        json!({
            "experiment": p.part.experiment, "workload": p.part.workload, "question": p.part.question,
            "configs": ids, "run_ns": p.run.0,
        })
    };
    let left = plan.left_out.iter();
    let left = left
        .map(|(p, why)| json!({ "experiment": p.experiment, "workload": p.workload, "why": why }));
    let lack = |(config, why): &(String, String)| json!({ "config": config, "why": why });
    json!({
        "schema": JSON_SCHEMA,
        "suite": suite::name(),
        "level": plan.level.name(),
        "place": setting.about,
        "rounds": plan.rounds,
        "parts": plan.parts.iter().map(part).collect::<Vec<_>>(),
        "left_out": left.collect::<Vec<_>>(),
        "lacks": setting.lacks.iter().map(lack).collect::<Vec<_>>(),
        "limit_ns": plan.limit.0,
        "estimate": plan.estimate,
    })
}

/// What was found.
pub fn outcome(plan: &Plan, outcome: &Outcome, out: &Path, limit: Option<usize>) -> String {
    let mut text = String::new();
    let runs: Vec<&Run> = outcome.runs.iter().map(|(_, run)| run).collect();
    let found = summary(&runs);
    if !found.rows.is_empty() {
        let rounds = outcome.rounds;
        let _ = writeln!(
            text,
            "{}; means, for shares what the worst served gets of its share\n",
            counted(rounds, "round")
        );
        text.push_str(&table(&found, limit));
    }
    for (part, why) in &outcome.given_up {
        let _ = writeln!(text, "not in it: {}/{}: {why}", part.experiment, part.workload);
    }
    match outcome.ended {
        Ended::Whole | Ended::Interrupted => {}
        Ended::Time => {
            let _ = writeln!(text, "no time for more of the {} rounds", plan.rounds);
        }
        Ended::Writes => {
            let _ = writeln!(text, "no bytes left to write for more of the {} rounds", plan.rounds);
        }
    }
    for (dir, run) in &outcome.runs {
        for (cell, flag) in flags(run) {
            let _ = writeln!(text, "! {}: {cell}: {flag}", name(dir));
        }
    }
    let _ = writeln!(text, "\nresults: {}", out.display());
    text
}

/// Of the flags of a run those that say more than that runs are short.
fn flags(run: &Run) -> impl Iterator<Item = &(String, String)> {
    let expected = ["few samples", "censored I/Os", "loss of control"];
    let usual = move |text: &str| {
        expected.iter().any(|e| text.starts_with(e))
            || text.contains("starts were")
            || text.contains("changed its level")
    };
    run.flags.iter().filter(move |(_, text)| !usual(text))
}

fn name(dir: &Path) -> String {
    dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

fn table(found: &Summary, limit: Option<usize>) -> String {
    let mut heads = vec!["what".to_string(), String::new()];
    heads.extend(found.configs.iter().cloned());
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads, 1);
    for row in &found.rows {
        let (unit, factor) = match row.unit {
            "1" => ("%", 100.0),
            unit => (unit, 1.0),
        };
        let mut cells = vec![row.part.question.to_string(), unit.to_string()];
        cells.extend(row.values.iter().map(|v| cell(*v, factor)));
        table.row(cells);
    }
    table.fit(limit, &[])
}

fn cell(value: Option<(f64, Bound)>, factor: f64) -> String {
    match value {
        Some((value, bound)) => format!("{}{}", bound.sign(), three(value * factor)),
        None => "-".into(),
    }
}

/// Everything about it.
pub fn outcome_json(plan: &Plan, outcome: &Outcome, out: &Path) -> Value {
    let runs: Vec<&Run> = outcome.runs.iter().map(|(_, run)| run).collect();
    let found = summary(&runs);
    let row = |r: &Row| {
        let values: Vec<Value> = found
            .configs
            .iter()
            .zip(&r.values)
            .filter_map(|(config, value)| {
                let (value, bound) = (*value)?;
                Some(json!({ "config": config, "value": value, "bound": bound.sign() }))
            })
            .collect();
        json!({
            "experiment": r.part.experiment, "workload": r.part.workload, "question": r.part.question,
            "metric": r.metric, "unit": r.unit, "less_is_better": r.less, "values": values,
        })
    };
    let part = |(p, why): &(suite::Part, String)| json!({ "experiment": p.experiment, "workload": p.workload, "why": why });
    let ended = match outcome.ended {
        Ended::Whole => "whole",
        Ended::Time => "time",
        Ended::Writes => "writes",
        Ended::Interrupted => "interrupted",
    };
    json!({
        "schema": JSON_SCHEMA,
        "suite": suite::name(),
        "level": plan.level.name(),
        "rounds": outcome.rounds,
        "planned_rounds": plan.rounds,
        "ended": ended,
        "results": found.rows.iter().map(row).collect::<Vec<_>>(),
        "given_up": outcome.given_up.iter().map(part).collect::<Vec<_>>(),
        "directory": out.display().to_string(),
        "runs": outcome.runs.iter().map(|(dir, _)| dir.display().to_string()).collect::<Vec<_>>(),
    })
}
