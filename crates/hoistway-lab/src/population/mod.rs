//! A population of random drives under random loads: what a configuration is worth where nobody tuned it.
//!
//! **Problem.** A scheduler designed on a dozen drives fits a dozen drives. Whether its rules hold is decided by drives
//! and loads that its author has not seen.
//!
//! **Method.** A *case* is a drive and a load drawn from (seed, number): the drive around the shipped files
//! ([`drive`]), the load from the kinds that occur ([`load`]). Both are complete files, so that every case can be
//! looked at with the other commands. Each case runs the target alone, everything without control
//! (`none-none`), and everything under each configuration, all with the same seed; what is compared is compared within
//! the case. Of the cases the even ones are for design, the odd ones for the report: what was tuned on one half is
//! judged by the other.
//!
//! **What is told.** Distributions over cases: throughput kept (the device's, of none's), others' throughput kept (what
//! the processes beside the target received), the target's mean latency and 99th percentile over its lone ones; in cases of
//! weights the largest distance of a group's share from what its weight entitles it to, in points. And the worst cases by
//! name.
//!
//! **Weaknesses.** Windows are short (one run each, [`load`] says how long), so a single case is a sample and not
//! a figure; the ranges are those of the classes, not of a market.

pub mod drive;
pub(crate) mod keep;
pub mod load;
pub mod summary;

use crate::bounds::{LatencyBounds, LatencyDemand, Measures};
use crate::config::{Config, ConfigError};
use crate::experiment::{Experiment, Options};
use crate::run::{RunError, guarded, in_order};
use crate::stats;
use hoistway_files::Dir;
use hoistway_run::{JobError, Outcome, Role};
use hoistway_sim::drive::DriveFile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Everything is told against it.
pub const REFERENCE: &str = "none-none";
/// The target alone, under the reference.
const ALONE: &str = "alone";

/// Which cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// All numbers.
    All,
    /// Even numbers.
    Design,
    /// Odd numbers.
    Report,
}

impl Half {
    /// The numbers of the first `cases` of this half.
    pub fn numbers(self, cases: u32) -> Vec<u32> {
        let of = |i: u32| match self {
            Half::All => i,
            Half::Design => 2 * i,
            Half::Report => 2 * i + 1,
        };
        (0..cases).map(of).collect()
    }
}

/// What a case asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// The latency of a target.
    Latency,
    /// Shares by weights.
    Weights,
}

/// A drive and a load.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its number.
    pub number: u32,
    /// Class of the drive, such as `sata`.
    pub class: &'static str,
    /// The shipped file it was drawn around.
    pub around: &'static str,
    /// The drive.
    pub drive: DriveFile,
    /// Its file.
    pub drive_text: String,
    /// What it asks.
    pub question: Question,
    /// The load.
    pub experiment: Experiment,
    /// Kinds of processes, such as `7 readers, 2 hogs`.
    pub load: String,
    /// Weights of the processes, in their order, if that is the question.
    pub weights: Vec<u64>,
    seed: u64,
}

impl Case {
    /// Case `number` of the population of `seed`.
    pub fn draw(seed: u64, number: u32) -> Case {
        let drawn = drive::draw(seed, number);
        let load = load::draw(seed, number, &drawn);
        let label = format!("{}.toml", load::id(seed, number));
        let experiment = Experiment::parse(&label, &load.text)
            .unwrap_or_else(|e| panic!("a load that was drawn is valid (tested): {e}"));
        Case {
            number,
            class: drawn.class,
            around: drawn.around,
            drive: drawn.file,
            drive_text: drawn.text,
            question: load.question,
            experiment,
            load: load.summary,
            weights: load.weights,
            seed,
        }
    }

    /// Does this configuration answer the question? Weights need groups that have them.
    pub fn fits(&self, config: &Config) -> bool {
        let weights = || load::WEIGHT_FILES.iter().any(|f| config.has_file(f));
        self.question == Question::Latency || config.id == REFERENCE || (config.groups && weights())
    }

    /// One run.
    fn run(&self, config: &Config, workload: &str, stop: &AtomicBool) -> Result<Figures, JobError> {
        let workload = self.experiment.workload(workload).expect("every load has its workloads");
        let options = Options::default();
        let job = self.experiment.job(&self.drive, workload, config, self.seed, &options)?;
        let outcome = hoistway_sim::world::run(&job, &mut |_| !stop.load(Ordering::Relaxed))?;
        Ok(Figures::of(&outcome))
    }
}

/// What one run yields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes per second of the device, reads and writes.
    pub total: f64,
    /// Bytes per second that the processes beside the target received.
    pub others: f64,
    /// The target's latency in ns: mean and 99th percentile. One that was given up counts as so long as it had waited.
    pub mean: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// The target's I/Os per second.
    pub ios: f64,
    /// Bytes of each process beside the target.
    pub bytes: Vec<u64>,
}

impl Figures {
    pub(crate) fn of(outcome: &Outcome) -> Figures {
        let seconds = (outcome.measured.0 as f64 / 1e9).max(1e-9);
        let device = outcome.device.read_bytes + outcome.device.written_bytes;
        let others = || outcome.procs.iter().filter(|p| p.role == Role::Interferer);
        let target = outcome.procs.iter().find(|p| p.role == Role::Target);
        let mut latency = target.map(|t| t.latency.clone()).unwrap_or_default();
        let ios = latency.count() as f64 / seconds;
        if let Some(waited) = target.and_then(|t| t.censored) {
            latency.record(waited.0);
        }
        Figures {
            total: device as f64 / seconds,
            others: others().map(|p| p.bytes).sum::<u64>() as f64 / seconds,
            mean: latency.mean(),
            p99: latency.quantile(99, 100).map(|v| v as f64),
            max: latency.max().map(|v| v as f64),
            ios,
            bytes: others().map(|p| p.bytes).collect(),
        }
    }
}

/// What a configuration was worth in a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Worth {
    /// Throughput of the device, of none's.
    pub total: f64,
    /// Of the others, of none's.
    pub others: f64,
    /// The target's mean latency over its lone one.
    pub mean: Option<f64>,
    /// Its 99th percentile over the lone one.
    pub p99: Option<f64>,
    /// Largest distance of a process's share from its entitlement, in points (percent of the whole).
    pub share_error: Option<f64>,
}

/// A finished case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Its number.
    pub number: u32,
    /// Class of the drive.
    pub class: String,
    /// The file it was drawn around.
    pub around: String,
    /// The load in words.
    pub load: String,
    /// What it asked.
    pub question: Question,
    /// Weights, if that was the question.
    pub weights: Vec<u64>,
    /// By configuration; `alone` is the target without load.
    pub runs: BTreeMap<String, Figures>,
}

impl Finished {
    /// What `config` was worth; `None` if it did not run here.
    pub fn worth(&self, config: &str) -> Option<Worth> {
        let (run, none) = (self.runs.get(config)?, self.runs.get(REFERENCE)?);
        let alone = self.runs.get(ALONE);
        let over = |of: fn(&Figures) -> Option<f64>| Some(of(run)? / of(alone?)?);
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 1.0 };
        Some(Worth {
            total: ratio(run.total, none.total),
            others: ratio(run.others, none.others),
            mean: over(|f| f.mean),
            p99: over(|f| f.p99),
            share_error: (self.question == Question::Weights)
                .then(|| share_error(&run.bytes, &self.weights)),
        })
    }

    /// Do the bounds B1 and B2 (`bounds.rs`) allow a mean latency of so many lone ones, if the others lose that part of
    /// the rate? `None`: nobody asked for latency.
    pub fn allows(&self, demand: LatencyDemand) -> Option<bool> {
        let (none, alone) = (self.runs.get(REFERENCE)?, self.runs.get(ALONE)?);
        let lone = alone.mean? / 1e9;
        let of =
            Measures { rate: none.total, lone, block: alone.total / alone.ios, ios: alone.ios };
        // The words are made by `load.rs`; the target itself is random.
        let visits = self.class == "disk" && self.load.contains("pattern=seq");
        let bounds = LatencyBounds::new(of, demand, visits);
        Some(bounds.b1.allows && bounds.b2.is_none_or(|b| b.allows))
    }
}

/// In points.
fn share_error(bytes: &[u64], weights: &[u64]) -> f64 {
    let (all, sum) = (bytes.iter().sum::<u64>(), weights.iter().sum::<u64>());
    let apart = |(b, w): (&u64, &u64)| {
        let got = if all > 0 { *b as f64 / all as f64 } else { 0.0 };
        100.0 * (got - *w as f64 / sum as f64).abs()
    };
    bytes.iter().zip(weights).map(apart).fold(0.0, f64::max)
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PopulationError {
    /// A configuration.
    Config(ConfigError),
    /// A run.
    Job {
        /// Which.
        case: u32,
        /// Under what.
        config: String,
        /// Why.
        error: JobError,
    },
    /// A case broke off with a failed assertion: an error of this program.
    Broken(RunError),
    /// What is kept cannot be read or written.
    Keep {
        /// What the file system says.
        what: String,
    },
    /// The folder for what is kept is somebody else's.
    InTheWay {
        /// What stands there.
        what: String,
    },
    /// Stopped from outside.
    Interrupted,
}

impl fmt::Display for PopulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PopulationError::Config(e) => e.fmt(f),
            PopulationError::Job { case, config, error } => {
                write!(f, "case {case} under {config}: {error}")
            }
            PopulationError::Broken(e) => e.fmt(f),
            PopulationError::Keep { what } | PopulationError::InTheWay { what } => {
                f.write_str(what)
            }
            PopulationError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for PopulationError {}

impl From<RunError> for PopulationError {
    fn from(error: RunError) -> PopulationError {
        match error {
            RunError::Keep { what } => PopulationError::Keep { what },
            RunError::InTheWay { what } => PopulationError::InTheWay { what },
            error => PopulationError::Broken(error),
        }
    }
}

/// What is to run.
#[derive(Debug)]
pub struct PopulationPlan {
    /// Of the population and of every run.
    pub seed: u64,
    /// Numbers of the cases.
    pub numbers: Vec<u32>,
    /// Configurations beside the reference.
    pub configs: Vec<Config>,
    /// Where finished cases are kept, and what they must have in common to be used again.
    pub keep: Option<(PathBuf, String)>,
}

impl PopulationPlan {
    /// Runs everything on `threads` threads; cases in the order of their numbers, whatever the threads do.
    pub fn run(
        &self,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Finished>, PopulationError> {
        let reference = Config::parse(REFERENCE).map_err(PopulationError::Config)?;
        let keep = self.keep.as_ref().map(|(dir, key)| keep::open(dir, key)).transpose()?;
        let done = AtomicUsize::new(0);
        let work = |index: usize| {
            let number = self.numbers[index];
            let case = || self.case(number, &reference, keep.as_ref(), stop);
            let finished = guarded(|| format!("case {number}"), case);
            let finished = finished.unwrap_or_else(|e| Err(e.into()));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            finished
        };
        let all = in_order(self.numbers.len(), threads, stop, &work);
        if stop.load(Ordering::Relaxed) {
            return Err(PopulationError::Interrupted);
        }
        // The first failure of the list; cases are missing only behind one.
        all.into_iter().map(|case| case.unwrap_or(Err(PopulationError::Interrupted))).collect()
    }

    /// One case: what is kept of it, and what is missing.
    fn case(
        &self,
        number: u32,
        reference: &Config,
        keep: Option<&Dir>,
        stop: &AtomicBool,
    ) -> Result<Finished, PopulationError> {
        let place =
            keep.map(|dir| keep::place(dir, &format!("case-{number:06}.json"))).transpose()?;
        let kept = place.as_ref().map(keep::read::<Finished>).transpose()?.flatten();
        let mut finished = kept.unwrap_or_else(Finished::empty);
        let fresh = finished.runs.is_empty();
        let wanted = self.configs.iter().filter(|c| !finished.runs.contains_key(&c.id));
        let missing: Vec<&Config> = wanted.collect();
        if !fresh && missing.is_empty() {
            return Ok(finished);
        }
        let case = Case::draw(self.seed, number);
        if fresh {
            finished = Finished::of(&case);
        }
        let mut run = |config: &Config, workload: &str, name: &str| {
            let figures = case.run(config, workload, stop).map_err(|error| match error {
                JobError::Interrupted => PopulationError::Interrupted,
                error => PopulationError::Job { case: number, config: config.id.clone(), error },
            })?;
            finished.runs.insert(name.to_string(), figures);
            Ok::<(), PopulationError>(())
        };
        if fresh {
            run(reference, load::WORKLOAD, REFERENCE)?;
            if case.question == Question::Latency {
                run(reference, load::ALONE, ALONE)?;
            }
        }
        for config in missing {
            if case.fits(config) && config.id != REFERENCE {
                run(config, load::WORKLOAD, &config.id)?;
            }
        }
        if let Some(place) = place {
            keep::write(&place, &finished)?;
        }
        Ok(finished)
    }
}

impl Finished {
    fn empty() -> Finished {
        Finished {
            number: 0,
            class: String::new(),
            around: String::new(),
            load: String::new(),
            question: Question::Latency,
            weights: Vec::new(),
            runs: BTreeMap::new(),
        }
    }

    fn of(case: &Case) -> Finished {
        Finished {
            number: case.number,
            class: case.class.into(),
            around: case.around.into(),
            load: case.load.clone(),
            question: case.question,
            weights: case.weights.clone(),
            runs: BTreeMap::new(),
        }
    }
}

/// The values at these parts of a sorted list, linear between neighbours.
pub fn quantiles(values: &[f64], parts: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let place = part * (sorted.len() - 1) as f64;
        let (low, rest) = (place as usize, place - (place as usize) as f64);
        let next = sorted[(low + 1).min(sorted.len() - 1)];
        sorted[low] + rest * (next - sorted[low])
    };
    if sorted.is_empty() { Vec::new() } else { parts.iter().map(|&p| at(p)).collect() }
}

/// Part of the values that are true; `None` of none.
pub fn part_of(values: impl IntoIterator<Item = bool>) -> Option<f64> {
    let (mut yes, mut all) = (0.0, 0.0);
    for value in values {
        yes += f64::from(u8::from(value));
        all += 1.0;
    }
    (all > 0.0).then(|| stats::sum([yes]) / all)
}

#[cfg(test)]
mod tests;
