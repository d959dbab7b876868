//! Plans and results for people and programs.

use super::{Done, Setting};
use crate::common::table::{Table, three};
use hoistway::Nanos;
use hoistway_lab::bench::pace::{Pace, REQUEST, SECOND};
use hoistway_lab::bench::plan::{BenchPlan, Depends, PlannedPart, Range, duration, size};
use hoistway_lab::bench::run::{Ended, Outcome};
use hoistway_lab::bench::suite::{self, Time};
use hoistway_lab::bench::summary::{Summary, summary};
use hoistway_lab::result::Run;
use hoistway_lab::stats::Bound;
use hoistway_lab::words::counted;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Version of the JSON that `--json` prints.
const JSON_SCHEMA: u32 = 1;

/// What would run, how long it takes, what it reads, writes and changes.
pub fn plan(plan: &BenchPlan, depends: &[Depends], setting: &Setting) -> String {
    let mut out = String::new();
    for line in &setting.about {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\nbench {}, suite {}\n", plan.level.name(), suite::name());
    let processor = matches!(plan.pace, Pace::Processor { .. });
    let takes = if processor { "processor time, about" } else { "a run, about" };
    let heads = ["workload", "what it asks", "configurations", "measured", takes];
    let mut table = Table::new(&heads, 2);
    for planned in &plan.parts {
        let PlannedPart { part, configs, run, measured, .. } = planned;
        let until = if matches!(part.time, Time::Limit(..)) { "at most " } else { "" };
        table.row(vec![
            format!("{}/{}", part.experiment, part.workload),
            part.question.into(),
            configs.to_string(),
            format!("{until}{}", seconds(*measured)),
            seconds(*run),
        ]);
    }
    out.push_str(&table.render());
    for (part, why) in &plan.left_out {
        let _ = writeln!(out, "left out: {}/{}: {why}", part.experiment, part.workload);
    }
    for d in depends {
        let _ = writeln!(out, "depends: {}", depends_on(d));
    }
    let all = suite::SUITE.len();
    if plan.parts.len() < all {
        let _ = writeln!(
            out,
            "{} of the suite's {all} workloads; --standard, --full or a longer --time has more",
            plan.parts.len(),
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
    let more = match (processor, plan.most > plan.rounds) {
        (true, _) => format!(
            " of processor time, by an estimate: {} us a request and {} ms a simulated second",
            REQUEST.0 / 1000,
            SECOND.as_ms()
        ),
        (_, true) => ", then more rounds while there is time".into(),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "{} of {}, in random order: {} of at most {}{more}",
        counted(plan.rounds, "round"),
        counted(runs, "run"),
        duration(Nanos(e.time_ns)),
        duration(plan.limit),
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

/// On which rates of writing it depends whether a part runs.
fn depends_on(d: &Depends) -> String {
    let mb = |rate: u64| format!("{} MB/s", rate.div_ceil(1_000_000));
    let when = |range: &Range| match *range {
        (Some(from), Some(to)) => format!("at {} to {}", mb(from), mb(to)),
        (Some(from), None) => format!("at {} or more", mb(from)),
        (None, Some(to)) => format!("at no more than {}", mb(to)),
        (None, None) => "at any rate".into(),
    };
    let when: Vec<String> = d.rates.iter().map(when).collect();
    let (experiment, workload) = (d.part.experiment, d.part.workload);
    format!(
        "{experiment}/{workload} runs if the drive writes {}, which a run measures first",
        when.join(", or ")
    )
}

/// The answers of several drives, a line for each.
pub fn answers(all: &[Done]) -> String {
    let mut table = Table::new(&["drive", "answer", "instead of", "how sure"], 4);
    for done in all {
        if done.advice.is_empty() {
            table.row(vec![done.name.clone(), "none".into(), "-".into(), "-".into()]);
        }
        for a in &done.advice {
            let name = |c: usize| a.field.configs[c].clone();
            let config = a.answer.config();
            let answer = config.map_or_else(|| a.answer.word().to_string(), name);
            let (instead, sure) = match config {
                Some(c) if c != a.base => (name(a.base), a.sureness.word()),
                Some(_) => ("-".into(), a.sureness.word()),
                None => ("-".into(), "-"),
            };
            table.row(vec![done.name.clone(), answer, instead, sure.into()]);
        }
    }
    table.render()
}

/// `1.5 s`.
fn seconds(t: Nanos) -> String {
    format!("{} s", three(t.0 as f64 / 1e9))
}

/// Lists of configurations, and the experiments that have each.
fn configs(plan: &BenchPlan) -> Vec<(String, String)> {
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
pub fn plan_json(plan: &BenchPlan, depends: &[Depends], setting: &Setting) -> Value {
    let part = |p: &PlannedPart| {
        let ids: Vec<&str> = plan.grids[p.grid].configs.iter().map(|c| c.id.as_str()).collect();
        json!({
            "experiment": p.part.experiment, "workload": p.part.workload, "question": p.part.question,
            "configs": ids, "measured_ns": p.measured.0, "run_ns": p.run.0,
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
        "depends": depends.iter().map(|d| json!({
            "experiment": d.part.experiment, "workload": d.part.workload, "write_rates": d.rates,
        })).collect::<Vec<_>>(),
        "lacks": setting.lacks.iter().map(lack).collect::<Vec<_>>(),
        "limit_ns": plan.limit.0,
        "limit_is": match plan.pace { Pace::Wall { .. } => "wall clock", Pace::Processor { .. } => "processor time" },
        "estimate": plan.estimate,
    })
}

/// What was found.
pub fn outcome(plan: &BenchPlan, outcome: &Outcome, out: &Path, limit: Option<usize>) -> String {
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
