//! `hoistway merge`: runs of one suite from many machines in one report: per model and per class of drives which
//! default to set.
//!
//! Problem: one machine says nothing of a class of drives, and whoever sets a default for all of them needs the
//! machines that disagree as much as the mean.
//!
//! Idea: the machine is the unit. What a machine measured in all its rounds becomes one value per
//! quantity and configuration, the geometric mean; the spread between machines is all the chance that counts, so a
//! machine with a hundred rounds weighs no more than one with three (random effects in their plain form, where
//! the spread within a machine is small beside that between them). The rest is [`crate::recommend`] with machines
//! in the place of rounds: the same limits, criteria, intervals and bootstrap, now over machines.
//!
//! Rules:
//! - Put together are runs of one suite, one version of hoistway and one world; others are refused, or shown apart.
//! - A drive is one unit however often it was measured; equal records are copies and count once. It is known by the
//!   hash of its serial number. Drives without one are told apart by model, size, processor and
//!   kernel alone, so that two machines alike may count as one, never one as two.
//! - Fewer than three machines are no evidence.
//! - A configuration counts where at least half of the machines have it; machines that lack one of these are left
//!   out of that group, by name.
//!
//! Weaknesses: machines that people send in are no random sample of those that a default is for.
//!
//! Source: specs/statistics.md 4; DerSimonian and Laird, "Meta-analysis in clinical trials", 1986.

mod group;
mod machine;

pub use group::{Group, Of, Tally};
pub use machine::Machine;

use crate::recommend::compare::ROUNDS_MIN;
use crate::recommend::install::{Lines, SystemFile};
use crate::recommend::{Goal, Match, RunSource};
use std::fmt;

/// Fewer machines than this are no evidence.
pub const MACHINES_MIN: usize = ROUNDS_MIN;

/// What one machine sent: a run directory, or a folder of them.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Where it was read.
    pub name: String,
    /// Its runs.
    pub sources: Vec<RunSource>,
}

/// What runs must have in common to be put together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suite {
    /// World.
    pub world: String,
    /// Name and digest of the suite, or the experiments where runs are of none.
    pub name: String,
    /// Version of hoistway.
    pub version: String,
}

/// Benches of one suite, merged.
#[derive(Clone, Debug)]
pub struct Merged {
    /// What they have in common.
    pub suite: Suite,
    /// The goal.
    pub goal: Goal,
    /// Every drive of every machine.
    pub machines: Vec<Machine>,
    /// Classes first, then models.
    pub groups: Vec<Group>,
}

/// Why benches cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeError(pub String);

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MergeError {}

impl Bench {
    /// What its runs have in common with others that they may be put together with.
    pub fn suite(&self) -> Suite {
        let first = &self.sources[0].run.manifest;
        let row = first.machine.iter().find(|r| r.0 == "suite").map(|r| r.1.clone());
        let name = row.unwrap_or_else(|| {
            let of = |s: &RunSource| {
                let m = &s.run.manifest;
                let loads: Vec<&str> = m.workloads.iter().map(|w| w.id.as_str()).collect();
                let quick = if m.quick { ", quick" } else { "" };
                format!("{} ({}{quick})", m.experiment, loads.join(", "))
            };
            let mut all: Vec<String> = self.sources.iter().map(of).collect();
            all.sort();
            all.join("; ")
        });
        Suite { world: first.world.clone(), name, version: first.version.clone() }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "suite {}, world {}, hoistway {}", self.name, self.world, self.version)
    }
}

/// Merges benches; with `apart`, those of each suite by themselves, else all must be of one.
///
/// # Errors
///
/// Benches of different suites, runs of different suites in one bench, or nothing that the goal is about.
pub fn merge(
    benches: &[Bench],
    goal: &Goal,
    against: Option<&str>,
    apart: bool,
) -> Result<Vec<Merged>, MergeError> {
    let mut suites: Vec<(Suite, Vec<&Bench>)> = Vec::new();
    for bench in benches {
        let suite = one_suite(bench)?;
        match suites.iter_mut().find(|s| s.0 == suite) {
            Some((_, all)) => all.push(bench),
            None => suites.push((suite, vec![bench])),
        }
    }
    if let ([first, second, ..], false) = (suites.as_slice(), apart) {
        return Err(MergeError(format!(
            "{} is of {}, {} of {}; merge them separately, or give --apart",
            second.1[0].name, second.0, first.1[0].name, first.0
        )));
    }
    suites.sort_by(|a, b| a.0.cmp(&b.0));
    let merged = suites.into_iter().map(|(suite, all)| {
        let machines = machine::of(&all);
        let groups = group::of(&machines, goal, against)?;
        Ok(Merged { suite, goal: goal.clone(), machines, groups })
    });
    merged.collect()
}

/// The suite of a bench whose runs agree.
fn one_suite(bench: &Bench) -> Result<Suite, MergeError> {
    let whole = bench.suite();
    for source in &bench.sources {
        let m = &source.run.manifest;
        let row = m.machine.iter().find(|r| r.0 == "suite").map(|r| &r.1);
        let same = row.is_none_or(|r| *r == whole.name);
        if m.world != whole.world || m.version != whole.version || !same {
            let own = Bench { name: String::new(), sources: vec![source.clone()] }.suite();
            return Err(MergeError(format!(
                "{} is of {own}, the other runs in {} of {whole}; it does not belong there",
                source.name, bench.name
            )));
        }
    }
    Ok(whole)
}

impl Merged {
    /// One set of files that sets every default which has evidence: classes first, models behind them where
    /// their own answer is another.
    pub fn files(&self) -> (Vec<SystemFile>, Vec<String>) {
        let mut files: Vec<SystemFile> = Vec::new();
        let mut rules = String::new();
        let mut cannot = Vec::new();
        for group in self.groups.iter().filter(|g| g.is_default(&self.groups)) {
            let Some(advice) = &group.advice else { continue };
            let Some(config) = advice.answer.config() else { continue };
            let name = group.name();
            if let Some(why) = group.no_rule() {
                cannot.push(format!("{name}: {}: {why}", advice.field.configs[config]));
                continue;
            }
            let by = if matches!(group.of, Of::Class(_)) { Match::Class } else { Match::Model };
            let lines: Lines = advice.lines(config, by);
            let lacks = lines.lacks(false);
            if !lacks.is_empty() {
                cannot.extend(lacks.into_iter().map(|why| format!("{name}: {why}")));
                continue;
            }
            for file in lines.files {
                if file.path.ends_with(".rules") {
                    rules.push_str(&file.text);
                } else if !files.iter().any(|f| f.path == file.path) {
                    files.push(file);
                }
            }
        }
        if !rules.is_empty() {
            let path = "/etc/udev/rules.d/90-hoistway-defaults.rules".to_string();
            files.insert(0, SystemFile { path, text: rules });
        }
        (files, cannot)
    }
}

#[cfg(test)]
mod tests;
