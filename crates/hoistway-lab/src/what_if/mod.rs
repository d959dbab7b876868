//! What a latency target would cost before anything is deployed: the load is run in the simulator alone, without
//! control, under the usual means of control, and under `paternoster` with the targets.
//!
//! Whether a target is kept is measured here, from the latencies that the processes see, not taken from the
//! scheduler. What stands in its way is found by comparison: alone on the drive it is not kept either (*device*);
//! some fixed setting keeps it, but with less throughput than may be lost (*loss*, with the price of the target and
//! the best latency without the loss); no setting keeps it (then the scheduler's own answer, *share* or *place*,
//! is passed on).
//!
//! Before that the bounds of `bounds` say what no scheduler can do, from the first two runs: the targets alone, and
//! the load without control.
//!
//! A run is one seed. Simulated figures are as good as the drive's file: see docs/limits.md.

mod basis;
mod json;
mod judge;
mod kernel;
mod load;
mod run;

pub use basis::{Basis, NoBound, TargetBounds};
pub use json::{Use, configuration, json};
pub use judge::{Report, Sentence, TargetFinding};
pub use kernel::KernelMeans;
pub use load::{default_load, find_load};
pub use run::{Measured, Point, Way};

use crate::config::Config;
use crate::experiment::{Experiment, Options};
use crate::run::RunError;
use hoistway::setting::nearest;
use hoistway::{IoPrio, Nanos, quantity};
use hoistway_run::{JobError, ProcSpec, Role, TraceMode};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;

/// The scheduler that keeps targets.
pub const SCHEDULER: &str = "paternoster";
/// The usual means beside it, in the order of the table; the first is no control at all.
pub const OTHERS: [&str; 4] = ["none-none", "none-bfq", "lat-none", "cost-none"];

/// A latency target that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// A process of the load, or a kind of processes: one group.
    pub name: String,
    /// `None`: as low as goes without loss.
    pub target: Option<Nanos>,
    /// Weight of the group; 100 if not given.
    pub weight: Option<u64>,
}

impl Wanted {
    /// Reads `NAME=TIME` or `NAME=auto`, with `,weight=N` behind it.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Wanted, String> {
        let how = "write NAME=TIME or NAME=auto, such as gold=1ms or gold=1ms,weight=400";
        let mut parts = text.split(',');
        let (name, target) = (parts.next().and_then(|p| p.split_once('=')))
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| format!("'{text}' is no target; {how}"))?;
        let target = match target.trim() {
            "auto" => None,
            time => {
                let time =
                    quantity::duration(time).map_err(|e| format!("'{text}': {e}, or auto"))?;
                if time.0 == 0 || !time.0.is_multiple_of(1_000) {
                    return Err(format!(
                        "'{text}': write whole microseconds, 1us or more, or auto"
                    ));
                }
                Some(time)
            }
        };
        let mut weight = None;
        for part in parts {
            let number = part.trim().strip_prefix("weight=").and_then(|n| n.parse().ok());
            let number = number.filter(|n| (1..=10_000).contains(n));
            weight = Some(number.ok_or_else(|| {
                format!("'{text}': '{part}' is not weight=N with N in 1..=10000; {how}")
            })?);
        }
        Ok(Wanted { name: name.trim().into(), target, weight })
    }

    /// As it was written.
    pub fn text(&self) -> String {
        let target = self.target.map_or_else(|| "auto".into(), time_text);
        let weight = self.weight.map_or_else(String::new, |w| format!(",weight={w}"));
        format!("{}={target}{weight}", self.name)
    }

    /// The line for `io.latency`, of a stage that knows `auto`.
    fn line(&self) -> String {
        let target = self.target.map_or_else(|| "auto".into(), |t| t.as_us().to_string());
        format!("{} target={target}", crate::config::DEVICE)
    }
}

/// `1ms`, `1500us`.
pub fn time_text(time: Nanos) -> String {
    let us = time.as_us();
    match us {
        _ if us > 0 && us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        _ if us > 0 && us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        _ => format!("{us}us"),
    }
}

/// A target times so many thousandths, in whole microseconds.
pub fn scaled(target: Nanos, permille: u64) -> Nanos {
    Nanos(target.0 / 1000 * permille / 1000 * 1000).max(Nanos::us(1))
}

/// Longest measured time: an hour.
const DURATION_MAX_S: u64 = 3_600;

/// A measured time with its unit.
///
/// # Errors
///
/// What is wrong with the text.
pub fn measured_time(text: Option<&str>) -> Result<Option<Nanos>, String> {
    let Some(text) = text else { return Ok(None) };
    let time = quantity::duration(text).map_err(|e| e.to_string())?;
    if time.0 == 0 || time.0 > DURATION_MAX_S * 1_000_000_000 {
        return Err(format!("{text} must be above 0 and at most 1h"));
    }
    Ok(Some(time))
}

/// Everything that decides an answer.
#[derive(Debug)]
pub struct WhatIfQuestion {
    /// Where the load is from.
    pub experiment: Experiment,
    /// The workload of it.
    pub workload: String,
    /// The drive.
    pub drive: DriveFile,
    /// The targets.
    pub wanted: Vec<Wanted>,
    /// Throughput gives way to the targets.
    pub strict: bool,
    /// Thousandths of the throughput without control that may be lost.
    pub loss_permille: u32,
    /// Measured time; `None`: 3 s, on disks 20 s.
    pub duration: Option<Nanos>,
    /// Of the drive and the load.
    pub seed: u64,
}

/// Before measuring: the valve has settled, caches are full. Disks settle slower.
const RAMP: [Nanos; 2] = [Nanos::secs(2), Nanos::secs(10)];
const GRACE: Nanos = Nanos::secs(60);
/// Measured, where nothing is said.
const MEASURED: [Nanos; 2] = [Nanos::secs(3), Nanos::secs(20)];

impl WhatIfQuestion {
    /// Refuses targets of processes that the load has not, and loads that cannot run on the drive.
    ///
    /// # Errors
    ///
    /// What is wrong and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let job = self.base(OTHERS[0]).map_err(|e| e.to_string())?;
        for (n, wanted) in self.wanted.iter().enumerate() {
            if self.wanted[..n].iter().any(|w| w.name == wanted.name) {
                return Err(format!("two targets for '{}'; give one", wanted.name));
            }
            let among = job.procs.iter().filter(|p| is(p, &wanted.name)).count();
            if among == 0 {
                return Err(self.unknown(&wanted.name, &job));
            }
        }
        let twice = job.procs.iter().find(|p| self.groups_of(p).count() > 1);
        if let Some(proc) = twice {
            let names: Vec<_> = self.groups_of(proc).map(|w| w.name.as_str()).collect();
            let what = format!("process '{}' has two targets: {}", proc.name, names.join(" and "));
            return Err(format!("{what}; give one"));
        }
        match job.procs.iter().all(|p| self.groups_of(p).next().is_some()) {
            true => {
                Err("every process has a target, and nobody is left to give way; leave one out"
                    .into())
            }
            false => Ok(()),
        }
    }

    fn unknown(&self, name: &str, job: &Job<'_>) -> String {
        let mut kinds: Vec<&str> = job.procs.iter().map(|p| kind(&p.name)).collect();
        kinds.dedup();
        let hint = match nearest(name, kinds.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are: {}", kinds.join(", ")),
        };
        format!("the load has no process '{name}'; {hint}")
    }

    fn groups_of(&self, proc: &ProcSpec) -> impl Iterator<Item = &Wanted> {
        self.wanted.iter().filter(|w| is(proc, &w.name))
    }

    /// The load under a configuration, without groups; who has a target is measured.
    fn base(&self, config: &str) -> Result<Job<'_>, JobError> {
        let workload = self.experiment.workload(&self.workload);
        let workload = workload.expect("the workload was found in the experiment");
        // Priorities are given below: the experiment's own target may be somebody else.
        let plain = Config::parse(OTHERS[0]).expect("the reference is a configuration");
        let options = Options { duration: self.duration, ..Options::default() };
        let mut job = self.experiment.job(&self.drive, workload, &plain, self.seed, &options)?;
        let config = Config::parse(config).expect("the names above are configurations");
        job.scheduler = config.scheduler_spec();
        job.control.controllers = config.controllers.clone();
        job.control.root = config.lines(&self.drive, crate::config::Member::Root);
        job.groups.clear();
        let disk = usize::from(self.drive.identity.rotational);
        job.window.ramp = job.window.ramp.max(RAMP[disk]);
        if self.duration.is_none() {
            job.window.measured = MEASURED[disk];
        }
        // An experiment without a target of its own has no grace: the last I/O runs to its end.
        job.window.grace = job.window.grace.max(GRACE);
        job.trace = TraceMode::Off;
        for proc in &mut job.procs {
            let target = self.wanted.iter().any(|w| is(proc, &w.name));
            proc.role = if target { Role::Target } else { Role::Interferer };
            proc.group = None;
            if target && proc.prio == IoPrio::NONE {
                proc.prio = config.target_prio;
            }
        }
        Ok(job)
    }

    /// How the load is called.
    pub fn load_name(&self) -> String {
        format!("{}/{}", self.experiment.id, self.workload)
    }

    /// One line about the load.
    pub fn load_summary(&self) -> &str {
        self.experiment.workload(&self.workload).map_or("", |w| w.summary.as_str())
    }
}

/// Is it that process, or of that kind?
fn is(proc: &ProcSpec, name: &str) -> bool {
    proc.name == name || kind(&proc.name) == name
}

/// The name without the number behind it.
fn kind(name: &str) -> &str {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if kind.is_empty() { name } else { kind }
}

/// Why there is no answer.
pub type Failure = RunError;

#[cfg(test)]
mod tests;
