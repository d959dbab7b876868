//! The oracle: what a configuration is worth beside the best fixed setting, found by trying.
//!
//! **Problem.** A scheduler that learns is compared with others that learn, and nobody knows how much all of them leave.
//!
//! **Method.** A case is a drive and a load with a target. The target runs alone and everything without control, and then
//! everything under each configuration and under the scheduler of targets with each of 16 settings that stay as they
//! are ([`FixedSetting`]), all with the same seed. The *oracle* is the best of these: the fastest target of those that keep
//! the throughput ([`best()`]). It knows what no scheduler can know, as it has seen the run; it is no bound all the same: who
//! orders flushes or learns within the run may beat it.
//!
//! **Bound B1** ([`bound`]): that of [`crate::bounds`], if the others keep 95 % of what the drive moves without control. No
//! scheduler is below it without taking more from the others or making the drive faster.
//!
//! **Weaknesses.** One run each: differences of latency below 20 % and of throughput below one point are chance.

mod best;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub use best::{Best, OraclePoint, best, bound, over};
pub use settings::FixedSetting;
pub use table::{Row, csv, json};

use crate::config::{Config, ConfigError};
use crate::experiment::{Experiment, Options, ProcTemplate};
use crate::population::{Case, Figures, Question, REFERENCE, keep, load};
use crate::report::export::file_name;
use crate::run::{RunError, guarded, in_order};
use hoistway_files::{Dir, Place};
use hoistway_run::{JobError, Role};
use hoistway_sim::drive::DriveFile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The target alone, under the reference.
const ALONE: &str = "alone";

/// A drive under a load.
#[derive(Clone, Debug)]
pub struct OracleSubject {
    drive: DriveFile,
    experiment: Arc<Experiment>,
    workload: String,
    /// What tables call the load.
    load: String,
}

/// A load that asks for no latency beside others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoQuestion {
    /// Experiment and workload.
    pub load: String,
    /// What is missing.
    pub lacks: &'static str,
}

impl fmt::Display for NoQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} has {}; name a workload with a target and others beside it",
            self.load, self.lacks
        )
    }
}

impl std::error::Error for NoQuestion {}

impl OracleSubject {
    /// A drive with its faults, and a workload of an experiment, which exists.
    ///
    /// # Errors
    ///
    /// A workload without a target, or with nobody beside it.
    pub fn named(
        drive: DriveFile,
        experiment: &Arc<Experiment>,
        workload: &str,
    ) -> Result<OracleSubject, NoQuestion> {
        let (experiment, workload) = (Arc::clone(experiment), workload.to_string());
        let subject = OracleSubject { drive, experiment, load: workload.clone(), workload };
        let lacks = match (subject.target(), subject.workload().procs.is_empty()) {
            (None, _) => "no target",
            (_, true) => "nobody beside the target",
            (Some(_), false) => return Ok(subject),
        };
        Err(NoQuestion { load: format!("{}/{}", subject.experiment.id, subject.workload), lacks })
    }

    /// Those of the population of `seed` with these numbers that ask for a latency.
    pub fn drawn(
        seed: u64,
        numbers: &[u32],
        threads: usize,
        stop: &AtomicBool,
    ) -> Vec<OracleSubject> {
        let draw = |index: usize| -> Result<Option<OracleSubject>, ()> {
            let case = Case::draw(seed, numbers[index]);
            Ok((case.question == Question::Latency).then(|| OracleSubject {
                drive: case.drive,
                load: case.experiment.id.clone(),
                experiment: Arc::new(case.experiment),
                workload: load::WORKLOAD.into(),
            }))
        };
        let drawn = in_order(numbers.len(), threads, stop, &draw);
        drawn.into_iter().filter_map(|case| case?.ok()?).collect()
    }

    fn workload(&self) -> &crate::experiment::Workload {
        self.experiment.workload(&self.workload).expect("whoever names a workload has seen it")
    }

    fn target(&self) -> Option<&ProcTemplate> {
        self.workload().target.as_ref().or(self.experiment.target.as_ref())
    }

    /// The fixed settings that are tried on its drive.
    pub fn settings(&self) -> &'static [FixedSetting] {
        settings::of(self.drive.identity.rotational)
    }

    /// What decides its runs beside seed and program: a kept case of the same names may be of an older file.
    fn inputs(&self, options: &Options) -> String {
        format!("{}\n{}\n{options:?}", self.drive.table, self.experiment.text)
    }

    /// One run; under [`ALONE`] without the others.
    fn run(
        &self,
        way: &OracleRun,
        plan: &OraclePlan,
        stop: &AtomicBool,
    ) -> Result<Figures, JobError> {
        let (workload, options) = (self.workload(), &plan.options);
        let job = self.experiment.job(&self.drive, workload, &way.config, plan.seed, options);
        let mut job = job?;
        if way.name == ALONE {
            job.procs.retain(|p| p.role == Role::Target);
        }
        let outcome = hoistway_sim::world::run(&job, &mut |_| !stop.load(Ordering::Relaxed))?;
        Ok(Figures::of(&outcome))
    }
}

/// What one run is under.
#[derive(Clone, Debug)]
struct OracleRun {
    /// Its name among the runs of a case.
    name: String,
    config: Config,
}

/// A case with all its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OracleCase {
    drive: String,
    load: String,
    inputs: String,
    /// By configuration; `alone` is the target without load.
    runs: BTreeMap<String, Figures>,
}

/// What is to run.
#[derive(Debug)]
pub struct OraclePlan {
    /// Of every run.
    pub seed: u64,
    /// Drives under loads.
    pub subjects: Vec<OracleSubject>,
    /// Configurations that are told against the oracle.
    pub configs: Vec<Config>,
    /// What is changed about every run.
    pub options: Options,
    /// Where finished cases are kept, and what they must have in common to be used again.
    pub keep: Option<(PathBuf, String)>,
}

/// A case in the making.
struct OpenCase {
    case: OracleCase,
    place: Option<Place>,
    missing: usize,
}

impl OraclePlan {
    /// Runs everything on `threads` threads: a row for each drive, load and configuration, in the order given,
    /// whatever the threads do. `progress` hears how many of how many runs are done.
    ///
    /// # Errors
    ///
    /// The first run that failed, what cannot be kept, or that it was stopped.
    pub fn run(
        &self,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Row>, RunError> {
        let keep = self.keep.as_ref().map(|(dir, key)| keep::open(dir, key)).transpose()?;
        let (mut open, mut turns, mut total) = (Vec::new(), Vec::new(), 0);
        for (index, subject) in self.subjects.iter().enumerate() {
            let mut of = self.open(subject, keep.as_ref())?;
            let mut ways = self.ways(subject).map_err(|e| broken(&e))?;
            total += ways.len();
            ways.retain(|way| !of.case.runs.contains_key(&way.name));
            of.missing = ways.len();
            turns.extend(ways.into_iter().map(|way| (index, way)));
            open.push(Mutex::new(of));
        }
        let kept = total - turns.len();
        let (done, whole) = (AtomicUsize::new(kept), AtomicUsize::new(kept));
        progress(kept, total);
        let work = |turn: usize| {
            let (index, way) = &turns[turn];
            let figures = self.one(&self.subjects[*index], way, stop)?;
            let mut of = open[*index].lock().expect("no thread panics while it holds the lock");
            of.case.runs.insert(way.name.clone(), figures);
            of.missing -= 1;
            if let (0, Some(place)) = (of.missing, &of.place) {
                keep::write(place, &of.case)?;
                whole.fetch_add(turns.iter().filter(|t| t.0 == *index).count(), Ordering::Relaxed);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            Ok::<(), RunError>(())
        };
        let ran = in_order(turns.len(), threads, stop, &work);
        let interrupted = || {
            let kept = keep.as_ref().map_or(0, |_| whole.load(Ordering::Relaxed));
            RunError::Interrupted { kept, total }
        };
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        // A run is missing only behind one that failed, whose error comes first.
        ran.into_iter().try_for_each(|run| run.unwrap_or_else(|| Err(interrupted())))?;
        let done = open.into_iter().map(|of| of.into_inner().expect("no thread panicked").case);
        Ok(self.subjects.iter().zip(done).flat_map(|(s, case)| self.rows(s, &case)).collect())
    }

    /// What is kept of a case.
    fn open(&self, subject: &OracleSubject, keep: Option<&Dir>) -> Result<OpenCase, RunError> {
        let (drive, load) = (subject.drive.id.clone(), subject.load.clone());
        let place = keep
            .map(|dir| keep::place(dir, &format!("{}.json", file_name(&format!("{drive}.{load}")))))
            .transpose()?;
        let inputs = subject.inputs(&self.options);
        let fresh = OracleCase { drive, load, inputs, runs: BTreeMap::new() };
        let kept = place.as_ref().map(keep::read::<OracleCase>).transpose()?.flatten();
        let case = match (kept, &place) {
            (None, _) | (_, None) => fresh,
            (Some(kept), Some(place)) => {
                let same = OracleCase { runs: BTreeMap::new(), ..kept.clone() } == fresh;
                if !same {
                    let path = place.path();
                    let what = format!(
                        "{} is of another drive file, experiment or measured time; choose another folder or \
                         delete it",
                        path.display()
                    );
                    return Err(RunError::InTheWay { what });
                }
                kept
            }
        };
        Ok(OpenCase { case, place, missing: 0 })
    }

    /// Everything that runs of a case, each once.
    fn ways(&self, subject: &OracleSubject) -> Result<Vec<OracleRun>, ConfigError> {
        let reference = Config::parse(REFERENCE)?;
        let mut ways = vec![
            OracleRun { name: ALONE.into(), config: reference.clone() },
            OracleRun { name: reference.id.clone(), config: reference },
        ];
        let fixed: Result<Vec<Config>, ConfigError> =
            subject.settings().iter().map(|s| Config::parse(&s.config())).collect();
        for config in self.configs.iter().cloned().chain(fixed?) {
            if ways.iter().all(|way| way.name != config.id) {
                ways.push(OracleRun { name: config.id.clone(), config });
            }
        }
        Ok(ways)
    }

    fn one(
        &self,
        subject: &OracleSubject,
        way: &OracleRun,
        stop: &AtomicBool,
    ) -> Result<Figures, RunError> {
        let cell = || format!("{}/{}/{}", subject.drive.id, way.name, subject.load);
        match guarded(cell, || subject.run(way, self, stop))? {
            Ok(figures) => Ok(figures),
            Err(JobError::Interrupted) => Err(RunError::Interrupted { kept: 0, total: 1 }),
            Err(error) => Err(RunError::Job { cell: cell(), error }),
        }
    }

    /// What a finished case says of each configuration.
    fn rows(&self, subject: &OracleSubject, case: &OracleCase) -> Vec<Row> {
        let none = &case.runs[REFERENCE];
        let point = |name: String| OraclePoint::of(&case.runs[&name], none);
        let fixed: Vec<(FixedSetting, OraclePoint)> =
            subject.settings().iter().map(|s| (*s, point(s.config()))).collect();
        let best = best(&fixed);
        let row = |config: &Config| {
            let of = point(config.id.clone());
            Row {
                drive: case.drive.clone(),
                load: case.load.clone(),
                alone: case.runs[ALONE].mean,
                none: none.mean,
                bound: subject
                    .target()
                    .zip(case.runs[ALONE].mean)
                    .and_then(|(t, l)| bound(t, l, none.total)),
                config: config.id.clone(),
                over: over(&of, &fixed),
                of,
                best,
            }
        };
        self.configs.iter().map(row).collect()
    }
}

/// A setting that the scheduler refuses is an error of this program.
fn broken(error: &ConfigError) -> RunError {
    RunError::Broken { cell: "the oracle".into(), what: error.to_string() }
}
