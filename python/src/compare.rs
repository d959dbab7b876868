//! `compare` and `run`: a grid is planned, carried out and put together as on the command line.

use crate::errors;
use crate::experiment::Experiment;
use crate::result::Results;
use crate::scheduler::{is_class, registry};
use crate::work::{Far, carry_out, threads};
use hoistway_lab::experiment;
use hoistway_lab::grid::{Plan, USUAL, only};
use hoistway_lab::run::{Grid, Progress};
use hoistway_lab::words::shell_word;
use hoistway_lab::world::Sim;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use std::path::PathBuf;

/// A text, in which commas separate names, or several.
#[derive(Debug, FromPyObject)]
pub enum Names {
    #[pyo3(transparent, annotation = "str")]
    One(String),
    #[pyo3(transparent, annotation = "list of str")]
    Several(Vec<String>),
}

/// The names of an argument that may be left out.
pub fn names(given: Option<Names>) -> Vec<String> {
    match given {
        None => Vec::new(),
        Some(Names::One(text)) => vec![text],
        Some(Names::Several(list)) => list,
    }
}

/// An experiment as it may be given.
#[derive(FromPyObject)]
pub enum Source<'py> {
    #[pyo3(transparent, annotation = "Experiment")]
    Object(PyRef<'py, Experiment>),
    #[pyo3(transparent, annotation = "str")]
    Name(String),
    #[pyo3(transparent, annotation = "os.PathLike")]
    Path(PathBuf),
}

impl Source<'_> {
    /// The experiment, and how it was named.
    pub fn read(self) -> PyResult<(experiment::Experiment, String)> {
        let name = match self {
            Source::Object(object) => return Ok((object.inner.clone(), object.name.clone())),
            Source::Name(name) => name,
            Source::Path(path) => path.to_string_lossy().into_owned(),
        };
        let experiment = registry().experiment(&name).map_err(errors::wrong)?;
        Ok((experiment, name))
    }
}

/// What `compare` and `run` share.
struct Options {
    drives: Option<Names>,
    workloads: Option<Names>,
    faults: Option<Names>,
    reps: Option<u32>,
    seed: u64,
    duration: Option<String>,
    quick: bool,
    wbt: bool,
    groups: Option<PathBuf>,
}

/// As the command line has it.
const REPS_MAX: u32 = 10_000;
const SEED_MAX: u64 = 1 << 62;

impl Options {
    /// The plan with what the options say of it.
    fn on(self, plan: Plan) -> PyResult<Plan> {
        if let Some(reps) = self.reps.filter(|n| !(1..=REPS_MAX).contains(n)) {
            return Err(errors::wrong(format!("--reps: {reps} is not in 1..={REPS_MAX}")));
        }
        if self.seed > SEED_MAX {
            return Err(errors::wrong(format!("--seed: {} is not in 0..={SEED_MAX}", self.seed)));
        }
        if self.quick && self.duration.is_some() {
            return Err(errors::wrong("--duration cannot be used with --quick; leave one out"));
        }
        Ok(plan
            .drives(names(self.drives))
            .workloads(names(self.workloads))
            .faults(names(self.faults))
            .reps(self.reps)
            .seed(self.seed)
            .duration(self.duration.as_deref())
            .quick(self.quick)
            .wbt(self.wbt)
            .groups(self.groups)
            .registry(&registry()))
    }
}

/// The grid of a plan; what of it has no effect is a warning of Python's.
fn grid(py: Python<'_>, plan: &Plan) -> PyResult<Grid> {
    let mut warnings: Vec<String> = Vec::new();
    let grid = plan.grid(&mut |warning| warnings.push(warning.into())).map_err(errors::wrong)?;
    warned(py, warnings)?;
    Ok(grid)
}

/// Tells each as a warning of Python's.
pub fn warned(py: Python<'_>, warnings: impl IntoIterator<Item = String>) -> PyResult<()> {
    for warning in warnings {
        let text = CString::new(warning).map_err(errors::wrong)?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    Ok(())
}

/// Simulations at a time. Classes of Python would wait for each other: where one schedules, one runs at a time unless jobs
/// says more.
pub fn threads_of(grid: &Grid, jobs: Option<u16>) -> PyResult<usize> {
    match jobs {
        None if grid.configs.iter().any(|c| is_class(c.scheduler)) => Ok(1),
        jobs => threads(jobs),
    }
}

fn execute(
    py: Python<'_>,
    grid: &Grid,
    jobs: Option<u16>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let threads = threads_of(grid, jobs)?;
    let run = carry_out(py, progress, |stop, tell| {
        grid.run(&Sim, threads, stop, &|p: Progress| {
            tell(Far::from(p));
        })
    })?;
    Ok(Results { run })
}

/// Runs an experiment under several configurations, in the simulator.
///
/// experiment: a name of experiments(), a path, or an Experiment. Left out with configs, five configurations that people
/// choose between run latency-2019, four times each.
/// configs, drives, workloads: names; what is left out is the experiment's. A configuration may carry settings:
/// "mq-deadline{fifo_batch=8}".
/// faults: "KEY=VALUE" of the drives. reps: repetitions. seed: of the first repetition; the others follow.
/// duration: measured time with its unit, such as "5s". quick: a quarter of the time. wbt: write-back throttling.
/// groups: a directory of cgroups. jobs: simulations at a time [one per core]; results do not depend on it.
/// progress: called about five times a second with (part of the simulated time from 0 to 1, runs over, runs in all).
///
/// The interpreter's lock is released. Ctrl-C, or an exception in progress, ends the runs.
/// ValueError: wrong usage, in the command line's words. RuntimeError: a run broke off.
#[pyfunction]
#[pyo3(signature = (experiment = None, configs = None, *, drives = None, workloads = None, faults = None, reps = None, seed = 1, duration = None, quick = false, wbt = false, groups = None, jobs = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub fn compare(
    py: Python<'_>,
    experiment: Option<Source<'_>>,
    configs: Option<Names>,
    drives: Option<Names>,
    workloads: Option<Names>,
    faults: Option<Names>,
    reps: Option<u32>,
    seed: u64,
    duration: Option<String>,
    quick: bool,
    wbt: bool,
    groups: Option<PathBuf>,
    jobs: Option<u16>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let options = Options { drives, workloads, faults, reps, seed, duration, quick, wbt, groups };
    let first = experiment.is_none() && configs.is_none();
    let (experiment, name) = experiment.unwrap_or(Source::Name(USUAL.into())).read()?;
    let plan = Plan::of(experiment).named("compare", &shell_word(&name)).configs(names(configs));
    let plan = options.on(if first { plan.first_look() } else { plan })?;
    execute(py, &grid(py, &plan)?, jobs, progress.as_ref())
}

/// Runs an experiment under one configuration [the experiment's first]. The other arguments are those of compare.
#[pyfunction]
#[pyo3(signature = (experiment, config = None, *, drives = None, workloads = None, faults = None, reps = None, seed = 1, duration = None, quick = false, wbt = false, groups = None, jobs = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub fn run(
    py: Python<'_>,
    experiment: Source<'_>,
    config: Option<&str>,
    drives: Option<Names>,
    workloads: Option<Names>,
    faults: Option<Names>,
    reps: Option<u32>,
    seed: u64,
    duration: Option<String>,
    quick: bool,
    wbt: bool,
    groups: Option<PathBuf>,
    jobs: Option<u16>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Results> {
    let options = Options { drives, workloads, faults, reps, seed, duration, quick, wbt, groups };
    let (experiment, name) = experiment.read()?;
    let config = only(config, &experiment).map_err(errors::wrong)?;
    let plan =
        options.on(Plan::of(experiment).named("run", &shell_word(&name)).configs([config]))?;
    execute(py, &grid(py, &plan)?, jobs, progress.as_ref())
}
