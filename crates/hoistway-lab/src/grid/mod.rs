//! A grid in the making: an experiment, and what a command line or a program changes about it.
//!
//! [`Plan`] takes what is asked for as people write it, names, lists and quantities in words, and looks at all of it before
//! anything runs or is written. Out comes a [`Grid`] with the command that repeats it: every default is spelled out, so that
//! a run directory can be made again when defaults have changed.
//!
//! ```
//! use hoistway_lab::experiment::Experiment;
//! use hoistway_lab::grid::Plan;
//!
//! let plan = Plan::of(Experiment::load("latency-2019")?);
//! let plan = plan.configs(["none", "bfq{low_latency=0}"]).workloads(["reader"]).reps(2);
//! let grid = plan.grid(&mut |warning| eprintln!("warning: {warning}"));
//! assert_eq!(
//!     grid.unwrap_err().to_string(),
//!     "latency-2019 has no workload 'reader'; did you mean 'readers'?"
//! );
//! # Ok::<(), hoistway_lab::experiment::ExperimentError>(())
//! ```

mod error;
mod list;
#[cfg(test)]
mod tests;

pub use error::PlanError;
pub use list::{ListError, chosen, only, parts};

use crate::config::{Config, WBT};
use crate::experiment::{Experiment, Idle, Options, idle_files, read_directory, who_heeds};
use crate::registry::Registry;
use crate::run::Grid;
use crate::words::{shell_quoted, shell_word};
use hoistway::{Nanos, quantity};
use hoistway_sim::drive::DriveFile;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The experiment of a comparison that names none.
pub const USUAL: &str = "latency-2019";

/// What is compared in the simulator where nothing is named: what people choose between, and what a latency target
/// brings. So few repetitions, that five take no longer than two did.
const FIRST: &[&str] = &["none", "mq-deadline", "kyber", "bfq", "slo-paternoster"];
const FIRST_REPS: u32 = 4;

/// Longest measured time: a day.
const DURATION_MAX_S: u64 = 86_400;

/// What is to run. What nothing is said of is as the experiment has it.
#[derive(Clone, Debug)]
pub struct Plan {
    experiment: Experiment,
    /// What the command begins with: a verb, and the experiment as it was named.
    verb: String,
    name: String,
    configs: Vec<String>,
    /// Schedulers that are compared, too.
    beside: Vec<String>,
    drives: Vec<String>,
    workloads: Vec<String>,
    faults: Vec<String>,
    reps: Option<u32>,
    seed: u64,
    duration: Option<String>,
    quick: bool,
    wbt: bool,
    groups: Option<PathBuf>,
    /// The flags that name the world and its place again.
    place: String,
    /// The only drive there is, in place of those that are named.
    only: Option<DriveFile>,
    /// What names stand for.
    registry: Registry,
}

fn owned<T: Into<String>>(list: impl IntoIterator<Item = T>) -> Vec<String> {
    list.into_iter().map(Into::into).collect()
}

impl Plan {
    /// The experiment as it is, from seed 1 on, in the simulator.
    pub fn of(experiment: Experiment) -> Plan {
        Plan {
            verb: "compare".into(),
            name: experiment.id.clone(),
            experiment,
            configs: Vec::new(),
            beside: Vec::new(),
            drives: Vec::new(),
            workloads: Vec::new(),
            faults: Vec::new(),
            reps: None,
            seed: 1,
            duration: None,
            quick: false,
            wbt: false,
            groups: None,
            place: String::new(),
            only: None,
            registry: Registry::default(),
        }
    }

    /// What the command begins with: `compare` or another verb, and the experiment as it was named (a path, flags)
    /// [default: `compare`, and its id].
    pub fn named(mut self, verb: &str, name: &str) -> Plan {
        (self.verb, self.name) = (verb.into(), name.into());
        self
    }

    /// For whoever named neither experiment nor configurations: what people choose between, a few times each.
    pub fn first_look(mut self) -> Plan {
        self.experiment.configs = owned(FIRST.iter().copied());
        self.experiment.reps = FIRST_REPS;
        self
    }

    /// Configurations, as of [`Config::parse`]; a text may hold several with commas between.
    pub fn configs<T: Into<String>>(mut self, list: impl IntoIterator<Item = T>) -> Plan {
        self.configs = owned(list);
        self
    }

    /// Schedulers of the registry that are compared with the others, unless a configuration has one of them already.
    pub fn beside<T: Into<String>>(mut self, list: impl IntoIterator<Item = T>) -> Plan {
        self.beside = owned(list);
        self
    }

    /// Drives: names or paths of drive files; a text may hold several with commas between.
    pub fn drives<T: Into<String>>(mut self, list: impl IntoIterator<Item = T>) -> Plan {
        self.drives = owned(list);
        self
    }

    /// Workloads of the experiment; a text may hold several with commas between.
    pub fn workloads<T: Into<String>>(mut self, list: impl IntoIterator<Item = T>) -> Plan {
        self.workloads = owned(list);
        self
    }

    /// Faults of the drives as `KEY=VALUE`, before those of the experiment and of the drive files.
    pub fn faults<T: Into<String>>(mut self, list: impl IntoIterator<Item = T>) -> Plan {
        self.faults = owned(list);
        self
    }

    /// Repetitions, at least 1 [default: the experiment's].
    pub fn reps(mut self, reps: impl Into<Option<u32>>) -> Plan {
        self.reps = reps.into();
        self
    }

    /// First seed; repetition r, counted from 0, uses `seed + r`.
    pub fn seed(mut self, seed: u64) -> Plan {
        self.seed = seed;
        self
    }

    /// Measured time of every run with its unit, such as `60s` [default: the experiment's].
    pub fn duration(mut self, text: Option<&str>) -> Plan {
        self.duration = text.map(Into::into);
        self
    }

    /// Measure for a quarter of the time, at least 1 s.
    pub fn quick(mut self, quick: bool) -> Plan {
        self.quick = quick;
        self
    }

    /// Write-back throttling, as if every configuration ended in `+wbt`.
    pub fn wbt(mut self, on: bool) -> Plan {
        self.wbt = on;
        self
    }

    /// A directory of cgroups, in place of the experiment's groups.
    pub fn groups(mut self, dir: Option<PathBuf>) -> Plan {
        self.groups = dir;
        self
    }

    /// Another world than the simulator: the flags that name it and its place again, each with a blank before it, and
    /// the only drive it has, if it brings its own.
    pub fn world(mut self, flags: String, drive: Option<DriveFile>) -> Plan {
        (self.place, self.only) = (flags, drive);
        self
    }

    /// What names stand for [default: what the program ships].
    pub fn registry(mut self, registry: &Registry) -> Plan {
        self.registry = registry.clone();
        self
    }

    /// The grid. `warn` hears what of it has no effect.
    ///
    /// # Errors
    ///
    /// A name that is not known or stands there twice, a quantity out of its range, a grid that is too large.
    pub fn grid(&self, warn: &mut dyn FnMut(&str)) -> Result<Grid, PlanError> {
        let duration = self.measured()?;
        let mut experiment = self.experiment.clone();
        if let Some(dir) = &self.groups {
            experiment.set_groups(read_directory(dir, &self.registry)?)?;
        }
        let drives = self.drives_of(&experiment)?;
        let workloads = self.workloads_of(&experiment)?;
        let configs = self.configs_of(&experiment)?;
        for Idle { path, file, configs } in idle_files(&experiment.tree, &configs) {
            let (under, heeds) = (configs.join(", "), who_heeds(&file));
            warn(&format!("{file} of group {path} does nothing under {under}; it takes {heeds}"));
        }
        let mut grid = Grid {
            reps: self.reps.unwrap_or(experiment.reps),
            experiment,
            drives,
            workloads,
            configs,
            seed: self.seed,
            options: Options { quick: self.quick, duration, trace: None },
            command: String::new(),
        };
        if let Some(what) = grid.too_large() {
            return Err(PlanError::TooLarge { what });
        }
        grid.command = self.command(&grid);
        Ok(grid)
    }

    fn measured(&self) -> Result<Option<Nanos>, PlanError> {
        let Some(text) = &self.duration else { return Ok(None) };
        let wrong = |what: String| PlanError::Value { option: "duration", what };
        let d = quantity::duration(text).map_err(|e| wrong(e.to_string()))?;
        if d.0 == 0 || d.0 > DURATION_MAX_S * 1_000_000_000 {
            return Err(wrong(format!("{text} must be above 0 and at most 24h")));
        }
        Ok(Some(d))
    }

    /// The drives with the faults of the experiment and of the plan.
    fn drives_of(&self, experiment: &Experiment) -> Result<Vec<DriveFile>, PlanError> {
        let mut drives: Vec<DriveFile> = self.only.iter().cloned().collect();
        let named = match drives.is_empty() {
            true => chosen(&self.drives, &experiment.drives, "drive")?,
            false => Vec::new(),
        };
        for name in named {
            let drive = self.registry.drive(&name)?;
            if drives.iter().any(|d| d.id == drive.id) {
                return Err(PlanError::SameDrive { id: drive.id });
            }
            drives.push(drive);
        }
        let given = self.given_faults()?;
        if self.only.is_some() && !(given.is_empty() && experiment.faults.is_empty()) {
            return Err(PlanError::RealFaults);
        }
        for drive in &mut drives {
            *drive = experiment.on(drive)?;
            if !given.is_empty() {
                *drive = drive.with_faults(&given).map_err(|e| wrong_fault(e.to_string()))?;
            }
        }
        Ok(drives)
    }

    fn given_faults(&self) -> Result<Vec<(String, toml::Value)>, PlanError> {
        let pair = |part: String| match part.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_string(), fault_value(value.trim()))),
            None => Err(wrong_fault(format!("'{part}' has no '='; write pause_every_ms=2s"))),
        };
        parts(&self.faults).into_iter().map(pair).collect()
    }

    fn workloads_of(&self, experiment: &Experiment) -> Result<Vec<String>, PlanError> {
        let workloads = chosen(&self.workloads, &experiment.default_workloads, "workload")?;
        match workloads.iter().find(|name| experiment.workload(name).is_none()) {
            None => Ok(workloads),
            Some(name) => Err(PlanError::NoWorkload {
                experiment: experiment.id.clone(),
                name: name.clone(),
                known: experiment.workloads.iter().map(|w| w.id.clone()).collect(),
            }),
        }
    }

    fn configs_of(&self, experiment: &Experiment) -> Result<Vec<Config>, PlanError> {
        let given = match self.configs.is_empty() {
            true => &experiment.configs,
            false => &self.configs,
        };
        let with_wbt = |text: &str| match self.wbt && !text.ends_with(WBT) {
            true => format!("{text}{WBT}"),
            false => text.into(),
        };
        let mut parsed: Vec<Config> = Vec::new();
        for text in chosen(given, &[], "configuration")? {
            let config = self.registry.config(&with_wbt(&text))?;
            if parsed.iter().any(|c| c.id == config.id) {
                return Err(PlanError::SameConfig { id: config.id });
            }
            parsed.push(config);
        }
        for name in &self.beside {
            if !parsed.iter().any(|c| c.scheduler.name == name) {
                parsed.push(self.registry.config(&with_wbt(name))?);
            }
        }
        Ok(parsed)
    }

    /// The command that repeats the grid, with every default spelled out and nothing that does not matter.
    pub fn command(&self, grid: &Grid) -> String {
        let join = |items: Vec<&str>| items.join(",");
        let configs = join(grid.configs.iter().map(|c| c.id.as_str()).collect());
        let configs = shell_word(&configs);
        let option = if self.verb == "run" { "" } else { "--config " };
        let mut text = format!("hoistway {} {} {option}{configs}", self.verb, self.name);
        if self.only.is_none() {
            let drives = match parts(&self.drives) {
                given if given.is_empty() => {
                    join(grid.drives.iter().map(|d| d.id.as_str()).collect())
                }
                given => given.join(","),
            };
            let _ = write!(text, " --drive {}", shell_word(&drives));
        }
        text.push_str(&self.place);
        if !self.faults.is_empty() {
            let _ = write!(text, " --faults {}", shell_word(&parts(&self.faults).join(",")));
        }
        let _ = write!(text, " --workload {}", shell_word(&grid.workloads.join(",")));
        let _ = write!(text, " --reps {} --seed {}", grid.reps, grid.seed);
        if let Some(duration) = &self.duration {
            let _ = write!(text, " --duration {}", shell_quoted(duration));
        }
        if grid.options.quick {
            text.push_str(" --quick");
        }
        if let Some(dir) = &self.groups {
            let _ = write!(text, " --groups {}", shell_quoted(&dir.display().to_string()));
        }
        text
    }
}

fn wrong_fault(what: String) -> PlanError {
    PlanError::Value { option: "faults", what }
}

/// A number in the unit of the key, or a quantity with a unit of its own.
fn fault_value(text: &str) -> toml::Value {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(n), _) => toml::Value::Integer(n),
        (_, Ok(x)) => toml::Value::Float(x),
        _ => toml::Value::String(text.into()),
    }
}
