//! What came of a bench, for programs.

use super::plan::BenchPlan;
use super::run::{Ended, Outcome};
use super::suite;
use super::summary::{SummaryRow, summary};
use crate::recommend::Advice;
use crate::result::Run;
use serde_json::{Value, json};
use std::path::Path;

/// Version of the JSON.
const JSON_SCHEMA: u32 = 1;

/// Everything about it.
pub fn outcome_json(
    plan: &BenchPlan,
    outcome: &Outcome,
    out: &Path,
    advice: &[Advice],
    why: Option<&str>,
) -> Value {
    let runs: Vec<&Run> = outcome.runs.iter().map(|(_, run)| run).collect();
    let found = summary(&runs);
    let row = |r: &SummaryRow| {
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
        "answers": advice.iter().map(|a| json!({
            "drive": a.field.identity.drive, "goal": a.goal.name, "answer": a.answer.word(),
            "config": a.answer.config().map(|c| a.field.configs[c].clone()),
            "present": a.field.configs[a.base], "sureness": a.sureness.word(),
        })).collect::<Vec<_>>(),
        "no_recommendation": why,
        "directory": out.display().to_string(),
        "runs": outcome.runs.iter().map(|(dir, _)| dir.display().to_string()).collect::<Vec<_>>(),
    })
}
