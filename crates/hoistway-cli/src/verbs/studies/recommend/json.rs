//! Answers for programs.

use hoistway_lab::recommend::choose::ChoiceReason;
use hoistway_lab::recommend::compare::{ScoreDifference, Verdict};
use hoistway_lab::recommend::doubt::DoubtKind;
use hoistway_lab::recommend::install::{Lines, Step};
use hoistway_lab::recommend::{Advice, Match, Recommendation};
use serde_json::{Value, json as object};

pub fn json(all: &[Advice], by: Match) -> String {
    format!("{:#}\n", object!({ "schema": 1, "drives": value(all, by) }))
}

/// Of each goal the answers for all drives.
pub fn goals<'a>(each: impl Iterator<Item = (&'a str, Value)>) -> String {
    let goals: serde_json::Map<String, Value> =
        each.map(|(name, drives)| (name.to_string(), drives)).collect();
    format!("{:#}\n", object!({ "schema": 1, "goals": goals }))
}

/// An answer for each drive.
pub fn value(all: &[Advice], by: Match) -> Value {
    all.iter().map(|a| one(a, by)).collect()
}

fn one(a: &Advice, by: Match) -> Value {
    let id = &a.field.identity;
    let name = |c: usize| a.field.configs[c].clone();
    let config = a.answer.config();
    let (more, why) = match &a.answer {
        Recommendation::NotEnough { more, why } => (Some(*more), Some(why.clone())),
        Recommendation::Processors => {
            (None, Some("the processors were measured, not the drive".into()))
        }
        _ => (None, None),
    };
    object!({
        "drive": id.drive, "model": id.model, "class": id.class, "kernel": id.kernel, "world": id.world,
        "simulated": id.is_simulated(),
        "goal": a.goal.name,
        "answer": a.answer.word(),
        "config": config.map(name),
        "so_far": a.choice.config.map(name),
        "rounds": a.plan.rounds, "rounds_more": more, "why": why,
        "present": name(a.base),
        "sureness": a.sureness.word(),
        "same_in_draws": a.same(),
        "runner_up": a.runner_up.map(|(c, reason)| object!({ "config": name(c), "lost": word(a, reason) })),
        "configs": (0..a.field.configs.len()).map(|c| row(a, c)).collect::<Vec<_>>(),
        "warnings": a.field.warnings.iter().map(|(text, runs)| object!({ "text": text, "runs": runs })).collect::<Vec<_>>(),
        "processor_bound": a.processor_bound().iter().map(|b| object!({
            "workload": b.place, "config": b.config, "busy": b.busy,
        })).collect::<Vec<_>>(),
        "decisions": a.decisions().map(|d| object!({
            "requests_per_second": d.requests, "matter": d.matter(),
            "schedulers": d.costs.iter().map(|c| object!({
                "scheduler": c.scheduler, "instructions": c.instructions, "busy_at": c.busy_at(),
            })).collect::<Vec<_>>(),
        })),
        "not_judged": a.not_judged().iter().map(|q| object!({
            "workload": q.place, "what": q.aspect.words(),
        })).collect::<Vec<_>>(),
        "hangs_by": a.hangs_by.iter().map(|d| object!({
            "kind": kind(&d.kind), "instead": d.instead.map(name),
        })).collect::<Vec<_>>(),
        "rejected": a.rejected.iter().map(|&(c, i)| object!({
            "config": name(c), "limit": word(a, ChoiceReason::Limit(i)), "keeps": a.kept(c, i),
        })).collect::<Vec<_>>(),
        "for_good": config.is_some() && a.not_for_good().is_none(),
        "next": more.map(|more| super::words::commands(a, more)),
        "lines": config.map(|c| lines(&a.lines(c, by))),
    })
}

fn kind(kind: &DoubtKind) -> &'static str {
    match kind {
        DoubtKind::Limit(_) => "limit",
        DoubtKind::Tolerance(..) => "tolerance",
        DoubtKind::Half(false) => "first half",
        DoubtKind::Half(true) => "second half",
        DoubtKind::Short(_) => "short runs",
        DoubtKind::Untried(_) => "not tried",
        DoubtKind::NoDisk(_) => "no disk",
        DoubtKind::LeftOut(_) => "left out",
    }
}

fn word(a: &Advice, reason: ChoiceReason) -> String {
    match reason {
        ChoiceReason::Chosen => "chosen".into(),
        ChoiceReason::Incomplete => "incomplete".into(),
        ChoiceReason::Limit(i) => match &a.plan.limits[i].limit {
            hoistway_lab::recommend::goal::Limit::Keeps { aspect, .. } => {
                format!("limit: {}", aspect.words())
            }
            hoistway_lab::recommend::goal::Limit::Below(_) => "limit: latency".into(),
            hoistway_lab::recommend::goal::Limit::Others { .. } => "limit: others".into(),
        },
        ChoiceReason::Criterion(i) => format!("criterion: {}", a.plan.criteria[i].name),
        ChoiceReason::Tie => "tie".into(),
    }
}

fn row(a: &Advice, c: usize) -> Value {
    let effects = a.effects(c).into_iter().map(|(aspect, x)| {
        let part = aspect.is_part();
        let (ratio, low, high) = figures(part, aspect.rises(), &x);
        object!({
            "what": aspect.words(), "of_present": ratio, "low": low, "high": high,
            "difference": part,
            "verdict": verdict(x.verdict(a.margin(aspect))),
        })
    });
    object!({
        "config": a.field.configs[c],
        "why": word(a, a.choice.reasons[c]),
        "in_draws": a.stability[c],
        "effects": effects.collect::<Vec<_>>(),
    })
}

/// The ratio (of shares: the difference) and its interval.
fn figures(part: bool, rises: bool, x: &ScoreDifference) -> (f64, Option<f64>, Option<f64>) {
    let of = |d: f64| match (part, rises) {
        (true, _) => d,
        (_, true) => libm::exp(-d),
        _ => libm::exp(d),
    };
    let interval = x.interval().map(|(low, high)| (of(low).min(of(high)), of(low).max(of(high))));
    (of(x.mean), interval.map(|i| i.0), interval.map(|i| i.1))
}

fn verdict(v: Verdict) -> &'static str {
    match v {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
    }
}

fn lines(l: &Lines) -> Value {
    let step = |s: &Step| object!({ "title": s.title, "lines": s.lines, "undo": s.undo });
    object!({
        "matched": l.matched,
        "now": l.now.as_ref().map(step),
        "service": l.steps.iter().map(step).collect::<Vec<_>>(),
        "files": l.files.iter().map(|f| object!({ "path": f.path, "text": f.text })).collect::<Vec<_>>(),
        "cannot": l.cannot, "notes": l.notes,
    })
}
