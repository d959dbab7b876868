//! Repeating the reference documents: their experiments, their configurations, published values beside
//! ours.
//!
//! Every experiment file with a table `[document]` takes part ([`crate::experiment::Document`]). There are
//! two procedures. The sound one settles until the load is steady, repeats with seeds 1 to N and gives 99 %
//! intervals. The other is the document's own, faults included (specs/experiments.md section 8): its
//! durations, its few repetitions, its statistics.
//!
//! [`plan`] makes the runs, [`ReproducePlan::run`] carries them out in one pool of threads ([`pool`]) and keeps
//! every finished run, so that the same command continues; [`rows`] puts published values beside ours,
//! [`agreement`] counts how far they agree. What is written from all of this is in [`tables`] and
//! [`crate::report`].
//!
//! Nothing here knows an experiment by name except `derived`, which calculates published factors and
//! extremes from several of our cells.

pub mod agreement;
mod derived;
mod figures;
pub mod pool;
pub mod rows;
pub mod tables;
mod value;

pub use figures::{Figure, Results};
pub use value::Value;

use crate::config::Config;
use crate::experiment::{Experiment, ExperimentError, Options, Procedure, Source};
use crate::report;
use crate::result::kept::Kept;
use crate::result::{DirectoryError, Run, holds_runs};
use crate::run::{Grid, RunError};
use crate::world::Sim;
use hoistway_files::input::{self, Limit};
use hoistway_files::{Dir, Kind};
use hoistway_sim::drive::DriveFile;
use pool::{PoolCallbacks, PoolEntry};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Repetitions of a quick reproduction, at most: the fewest that have an interval.
pub const QUICK_REPS: u32 = 3;

/// What is to be reproduced.
#[derive(Debug)]
pub struct ReproducePlan {
    /// How.
    pub procedure: Procedure,
    /// A quarter of all times, few repetitions.
    pub quick: bool,
    /// The command.
    pub command: String,
    /// The experiments.
    pub experiments: Vec<PlannedExperiment>,
}

/// One experiment of a plan.
#[derive(Debug)]
pub struct PlannedExperiment {
    /// Its runs.
    pub grid: Grid,
    /// The document it repeats.
    pub source: &'static Source,
}

/// Where results go, and what may be reused of those that are there.
#[derive(Clone, Copy, Debug)]
pub struct ReproducePlace<'a> {
    /// The folder.
    pub out: &'a Path,
    /// Names the build: what another one has finished is not reused.
    pub program: &'a str,
    /// Reuse nothing.
    pub fresh: bool,
}

impl ReproducePlace<'_> {
    /// Whether the folder may be written into: it is new, empty or ours.
    fn check(&self) -> Result<(), DirectoryError> {
        match hoistway_files::Place::of(self.out) {
            // It is made with those above it.
            Err(e) if e.kind() == Some(std::io::ErrorKind::NotFound) => Ok(()),
            place => Ok(place?.may_fill(is_ours)?),
        }
    }

    /// The folder, made where it is missing.
    ///
    /// # Errors
    ///
    /// What stands there instead, or what the system says.
    pub fn folder(&self) -> Result<Dir, DirectoryError> {
        Ok(hoistway_files::Place::make(self.out)?.fill(is_ours)?)
    }
}

/// Whether an earlier version has written a reproduction into a folder, or has begun to.
fn is_ours(dir: &Dir) -> bool {
    dir.holds("reproduction.md", Kind::Marked) || holds_runs(dir, false)
}

/// What came of a plan.
#[derive(Debug)]
pub struct Reproduction {
    /// Of each experiment that was carried out, in the order of the plan.
    pub results: Vec<Results>,
    /// Experiments without results, and why.
    pub failed: Vec<(String, String)>,
}

/// Ids of all experiments that belong to a document.
pub fn ids() -> Vec<&'static str> {
    let documented = |id: &&str| Experiment::load(id).is_ok_and(|e| e.document.is_some());
    Experiment::ids().filter(documented).collect()
}

/// The runs of these experiments.
///
/// # Errors
///
/// An experiment that does not exist or belongs to no document.
pub fn plan(
    ids: &[String],
    procedure: Procedure,
    quick: bool,
    reps: Option<u32>,
    command: &str,
) -> Result<ReproducePlan, ExperimentError> {
    let mut experiments = Vec::new();
    for id in ids {
        let experiment = Experiment::load(id)?;
        let (Some(e), Some(document)) = (experiment.of_document(procedure), &experiment.document)
        else {
            return Err(ExperimentError(format!(
                "{id} repeats no document (its file has no table [document]); run it with `hoistway compare {id}`"
            )));
        };
        let wrong = |e: &dyn std::fmt::Display| ExperimentError(format!("{id}: {e}"));
        let drive = |d: &String| e.on(&DriveFile::load(d).map_err(|error| wrong(&error))?);
        let drives: Result<Vec<DriveFile>, _> = e.drives.iter().map(drive).collect();
        let configs: Result<Vec<Config>, _> = e.configs.iter().map(|c| Config::parse(c)).collect();
        let usual = if quick { e.reps.min(QUICK_REPS) } else { e.reps };
        let grid = Grid {
            drives: drives?,
            workloads: e.default_workloads.clone(),
            configs: configs.map_err(|e| wrong(&e))?,
            reps: reps.unwrap_or(usual),
            seed: 1,
            options: Options { quick, ..Options::default() },
            command: one_command(id, procedure, quick, reps),
            experiment: e,
        };
        if let Some(what) = grid.too_large() {
            return Err(ExperimentError(what));
        }
        experiments.push(PlannedExperiment { grid, source: document.source });
    }
    Ok(ReproducePlan { procedure, quick, command: command.into(), experiments })
}

/// The command that repeats one experiment of a plan.
fn one_command(id: &str, procedure: Procedure, quick: bool, reps: Option<u32>) -> String {
    let mut text = format!("hoistway reproduce {id}");
    if procedure == Procedure::AsPublished {
        text.push_str(" --as-published");
    }
    if quick {
        text.push_str(" --quick");
    }
    if let Some(reps) = reps {
        text.push_str(&format!(" --reps {reps}"));
    }
    text
}

impl ReproducePlan {
    /// Runs everything that is not there yet. An experiment that fails does not keep the others from
    /// ending. Each writes its run directory as soon as its last run is over. `told` hears of what is
    /// reused and what has failed.
    ///
    /// # Errors
    ///
    /// Interrupted: how many runs are kept, and the number of all. Or the place cannot be written.
    pub fn run(
        &self,
        place: &ReproducePlace<'_>,
        threads: usize,
        stop: &AtomicBool,
        callbacks: &PoolCallbacks<'_>,
        told: &(dyn Fn(&str) + Sync),
    ) -> Result<Reproduction, RunError> {
        place.check()?;
        let mut slots: Vec<Slot> = Vec::new();
        for planned in &self.experiments {
            slots.push(planned.slot(place, self.procedure)?);
        }
        let slots: Vec<Mutex<Slot>> = slots.into_iter().map(Mutex::new).collect();
        let lock = |i: usize| slots[i].lock().expect("no thread panics while it holds the lock");
        let missing: Vec<usize> = (0..slots.len()).filter(|&i| lock(i).outcome.is_none()).collect();
        let reused: usize = slots.len() - missing.len();
        if reused > 0 {
            let of = slots.len();
            told(&format!(
                "{reused} of {of} experiments are there already; --fresh runs them again"
            ));
        }
        let kept: Vec<Kept> = missing
            .iter()
            .map(|&i| lock(i).kept.take())
            .collect::<Option<_>>()
            .expect("what is missing has a place");
        let count: usize = kept.iter().map(Kept::count).sum();
        if count > 0 {
            told(&format!("{count} finished runs of an interrupted command are reused"));
        }
        let grid = |i: &usize| &self.experiments[*i].grid;
        let entries: Vec<PoolEntry<'_>> =
            missing.iter().zip(&kept).map(|(i, kept)| PoolEntry { grid: grid(i), kept }).collect();
        let over = |n: usize, run: Result<Run, RunError>| {
            let planned = &self.experiments[missing[n]];
            let written = run.map_err(|e| e.to_string()).and_then(|run| {
                planned.write(place, &kept[n], &run).map_err(|e| e.to_string())?;
                Ok(planned.results(&run, self.procedure))
            });
            if let Err(what) = &written {
                told(&format!("{}: {what}", planned.grid.experiment.id));
            }
            lock(missing[n]).outcome = Some(written);
        };
        let callbacks = PoolCallbacks { over: &over, ..*callbacks };
        if !pool::run(&entries, &Sim, threads, stop, &callbacks) {
            let kept = kept.iter().map(Kept::count).sum();
            let total = entries.iter().map(|e| e.grid.len()).sum();
            return Err(RunError::Interrupted { kept, total });
        }
        let mut done = Reproduction { results: Vec::new(), failed: Vec::new() };
        for (planned, slot) in self.experiments.iter().zip(slots) {
            let slot = slot.into_inner().expect("no thread panicked");
            match slot.outcome.expect("every experiment is over") {
                Ok(results) => done.results.push(results),
                Err(what) => done.failed.push((planned.grid.experiment.id.clone(), what)),
            }
        }
        Ok(done)
    }
}

/// What is known of an experiment.
#[derive(Debug)]
struct Slot {
    kept: Option<Kept>,
    outcome: Option<Result<Results, String>>,
}

/// The key of a run directory: its grid in words.
const KEY: Limit = Limit { what: "the key of a run", bytes: 16 << 20 };

impl PlannedExperiment {
    fn dir(&self, place: &ReproducePlace<'_>) -> PathBuf {
        place.out.join(&self.grid.experiment.id)
    }

    /// What a run directory is of: grid, command, program.
    fn key(&self, place: &ReproducePlace<'_>) -> String {
        self.grid.key(&Sim, place.program)
    }

    /// The file that names it.
    fn key_name(&self) -> String {
        format!(".{}.key", self.grid.experiment.id)
    }

    /// Reads the results that are there, or opens the place for finished runs.
    fn slot(&self, place: &ReproducePlace<'_>, procedure: Procedure) -> Result<Slot, RunError> {
        let (dir, key) = (self.dir(place), self.key(place));
        Run::may_write(&dir)?;
        let same = input::text(&place.out.join(self.key_name()), KEY).is_ok_and(|k| k == key);
        if same
            && !place.fresh
            && let Ok(run) = Run::read(&dir)
        {
            return Ok(Slot { kept: None, outcome: Some(Ok(self.results(&run, procedure))) });
        }
        let (kept, _) = Kept::open(&dir, &key, place.fresh)?;
        Ok(Slot { kept: Some(kept), outcome: None })
    }

    /// Writes the run directory and forgets the single runs.
    fn write(
        &self,
        place: &ReproducePlace<'_>,
        kept: &Kept,
        run: &Run,
    ) -> Result<(), DirectoryError> {
        place.folder()?;
        run.write(&self.dir(place), &report::html::render(run))?;
        let dir = place.folder()?;
        dir.place(self.key_name())?.replace(self.key(place).as_bytes(), Kind::Named)?;
        kept.remove()
    }

    fn results(&self, run: &Run, procedure: Procedure) -> Results {
        let section = report::reproduction::section(run);
        Results::of(run, self.source, procedure, section)
    }
}

#[cfg(test)]
mod tests;
