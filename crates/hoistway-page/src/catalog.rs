//! What can be chosen: experiments with their workloads, drives, configurations with their settings.
//!
//! To read all experiments and drives takes longer than the first runs. So the catalog has their names, and each is told
//! when somebody chooses it.

use hoistway::sched::SCHEDULERS;
use hoistway::setting::{Tunable, Unit};
use hoistway::stack::QUEUE_TUNABLES;
use hoistway_lab::config::{Config, NAMED};
use hoistway_lab::experiment::Experiment;
use hoistway_lab::grid::{PlanError, USUAL};
use hoistway_sim::drive::DriveFile;
use serde::Serialize;

/// Everything.
#[derive(Debug, Serialize)]
pub struct Catalog {
    version: &'static str,
    /// Chosen at first.
    usual: &'static str,
    /// Configurations chosen at first.
    first: &'static [&'static str],
    experiments: Vec<&'static str>,
    drives: Vec<&'static str>,
    configs: Vec<ConfigEntry>,
}

/// What people choose between, and what a latency target brings.
const FIRST: &[&str] = &["none", "mq-deadline", "bfq", "slo-paternoster"];

/// An experiment.
#[derive(Debug, Serialize)]
pub struct ExperimentEntry {
    id: String,
    title: String,
    about: String,
    drives: Vec<String>,
    workloads: Vec<WorkloadEntry>,
    /// Of the workloads, the one that runs when nothing is said.
    usual: Option<String>,
    /// Measured time of a run where no case says another, in seconds.
    measured_s: f64,
}

#[derive(Debug, Serialize)]
struct WorkloadEntry {
    id: String,
    summary: String,
}

/// A drive.
#[derive(Debug, Serialize)]
pub struct DriveEntry {
    id: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct ConfigEntry {
    name: &'static str,
    summary: String,
    settings: Vec<SettingEntry>,
}

/// A row of settings. Numbers are texts: not all of them fit into a number of JavaScript.
#[derive(Debug, Serialize)]
struct SettingEntry {
    name: &'static str,
    /// Whose it is.
    of: &'static str,
    unit: &'static str,
    default: String,
    min: String,
    max: String,
    /// Of a choice, by value.
    words: &'static [&'static str],
    text: &'static str,
}

impl Catalog {
    /// What this build has.
    pub fn new() -> Catalog {
        let names = SCHEDULERS.iter().map(|e| e.name).chain(NAMED.iter().map(|n| n.name));
        Catalog {
            version: env!("CARGO_PKG_VERSION"),
            usual: USUAL,
            first: FIRST,
            experiments: Experiment::ids().collect(),
            drives: DriveFile::ids(),
            configs: names.map(config).collect(),
        }
    }
}

/// An experiment by its id.
pub fn experiment(id: &str) -> Result<ExperimentEntry, PlanError> {
    let e = Experiment::load(id)?;
    let entry = |w: &hoistway_lab::experiment::Workload| WorkloadEntry {
        id: w.id.clone(),
        summary: w.summary.clone(),
    };
    Ok(ExperimentEntry {
        workloads: e.workloads.iter().map(entry).collect(),
        usual: e.default_workloads.first().cloned(),
        measured_s: e.window.measured.0 as f64 / 1e9,
        id: e.id,
        title: e.title,
        about: e.about,
        drives: e.drives,
    })
}

/// A drive by its id.
pub fn drive(id: &str) -> Result<DriveEntry, PlanError> {
    let drive = DriveFile::load(id)?;
    Ok(DriveEntry { id: drive.id, name: drive.name })
}

fn config(name: &'static str) -> ConfigEntry {
    let config = Config::parse(name).expect("the registry's own names");
    let policy = config.policy.map_or(&[][..], |p| p.options);
    // In the order in which braces are read: the first that knows a name has it.
    let mut tables = vec![("policy", policy)];
    for spec in &config.controllers {
        let entry = hoistway::ctl::find(&spec.name).expect("policies name controllers");
        tables.push((entry.name, entry.tunables));
    }
    tables.push(("block layer", QUEUE_TUNABLES));
    tables.push((config.scheduler.name, config.scheduler.tunables));
    let mut settings: Vec<SettingEntry> = Vec::new();
    for (of, table) in tables {
        let known: Vec<&str> = settings.iter().map(|s| s.name).collect();
        let rows = table.iter().filter(|t| !known.contains(&t.name));
        settings.extend(rows.map(|t| setting(of, t, &config)));
    }
    // People look for the scheduler's own first.
    settings.sort_by_key(|s| s.of != config.scheduler.name);
    ConfigEntry { name, summary: config.summary, settings }
}

fn setting(of: &'static str, t: &Tunable, config: &Config) -> SettingEntry {
    // A policy may set some for its scheduler.
    let set = config.set.iter().find(|(name, _)| name == t.name && of == config.scheduler.name);
    let words = match t.unit {
        Unit::Choice(words) => words,
        Unit::Switch => &["off", "on"],
        _ => &[],
    };
    SettingEntry {
        name: t.name,
        of,
        unit: t.unit.suffix(),
        default: set.map_or(t.default, |s| s.1).to_string(),
        min: t.min.to_string(),
        max: t.max.to_string(),
        words,
        text: t.doc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_names_drives_and_a_workload_of_the_catalog() {
        let catalog = Catalog::new();
        for id in catalog.experiments {
            let e = experiment(id).unwrap_or_else(|e| panic!("{e}"));
            assert!(e.drives.iter().all(|d| catalog.drives.contains(&d.as_str())), "{id}");
            let known = |usual: &String| e.workloads.iter().any(|w| w.id == *usual);
            assert!(e.usual.iter().all(known) && !e.workloads.is_empty(), "{id}");
        }
        for id in catalog.drives {
            assert_eq!(drive(id).unwrap_or_else(|e| panic!("{e}")).id, id);
        }
    }

    /// A default is not written, and may lie outside the range: 0 that stands for what the drive has.
    #[test]
    fn every_row_is_a_setting_of_its_configuration() {
        for c in Catalog::new().configs {
            for s in c.settings {
                for value in [&s.min, &s.max] {
                    let text = format!("{}{{{}={value}}}", c.name, s.name);
                    Config::parse(&text).unwrap_or_else(|e| panic!("{e}"));
                }
            }
        }
    }
}
