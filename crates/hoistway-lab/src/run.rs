//! Running a grid: drives x workloads x configurations x repetitions, on as many threads as wanted.
//!
//! Each run depends on its own job alone and results are put together in the order of the grid, so they
//! do not depend on the number of threads or on which of them was faster.

use crate::config::Config;
use crate::experiment::{Experiment, Options};
use crate::result::{
    Cell, ConfigInfo, DriveInfo, Manifest, Monitor, Rep, Run, SCHEMA, WorkloadInfo, derive,
};
use crate::world::World;
use hoistway::{Instant, Nanos};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::{Job, JobError, NamedFigure, Outcome};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Everything that is to run.
#[derive(Debug)]
pub struct Grid {
    /// The experiment.
    pub experiment: Experiment,
    /// Drives, in the order asked for.
    pub drives: Vec<DriveFile>,
    /// Workload ids, in the order asked for; all exist in the experiment.
    pub workloads: Vec<String>,
    /// Configurations, in the order asked for.
    pub configs: Vec<Config>,
    /// Repetitions.
    pub reps: u32,
    /// First seed; repetition r, counted from 0, uses `seed + r`.
    pub seed: u64,
    /// What is changed about every run.
    pub options: Options,
    /// The command that repeats it, for the manifest.
    pub command: String,
}

/// How far a grid is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs finished.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// Time of the runs that has passed: those finished, and those under way so far.
    pub passed: Nanos,
    /// Time that all runs take, if every target's last read ends with the measured time.
    pub whole: Nanos,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// A job cannot run.
    Job {
        /// `drive/config/workload`.
        cell: String,
        /// Why.
        error: JobError,
    },
    /// Stopped from outside.
    Interrupted,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Job { cell, error } => write!(f, "{cell}: {error}"),
            RunError::Interrupted => f.write_str("interrupted; nothing was written"),
        }
    }
}

impl std::error::Error for RunError {}

/// Points of a gauge in a run, about.
const MONITOR_POINTS: u64 = 200;
/// Time of a run that passes between two calls of `progress`.
const TELL: Nanos = Nanos::ms(200);
/// Gauges are not recorded more often.
const MONITOR_MIN: Nanos = Nanos::ms(10);

/// One run of the grid.
#[derive(Clone, Copy, Debug)]
struct Place {
    drive: usize,
    workload: usize,
    config: usize,
    rep: u32,
}

impl Grid {
    /// Number of runs.
    pub fn len(&self) -> usize {
        self.drives.len() * self.workloads.len() * self.configs.len() * self.reps as usize
    }

    /// Nothing to run?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every run: drive, workload, configuration, repetition.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::with_capacity(self.len());
        for drive in 0..self.drives.len() {
            for workload in 0..self.workloads.len() {
                for config in 0..self.configs.len() {
                    places.extend((0..self.reps).map(|rep| Place { drive, workload, config, rep }));
                }
            }
        }
        places
    }

    fn job(&self, place: Place) -> Result<Job<'_>, RunError> {
        let workload = self
            .experiment
            .workload(&self.workloads[place.workload])
            .expect("the grid names workloads of its experiment");
        let config = &self.configs[place.config];
        let seed = self.seed + u64::from(place.rep);
        let drive = &self.drives[place.drive];
        let mut job = self
            .experiment
            .job(drive, workload, config, seed, &self.options)
            .map_err(|error| RunError::Job { cell: self.cell_name(place), error })?;
        if place.rep == 0 && !config.controllers.is_empty() {
            let whole = job.window.ramp.0 + job.window.measured.0;
            job.control.monitor = Some(Nanos(whole / MONITOR_POINTS).max(MONITOR_MIN));
        }
        Ok(job)
    }

    fn cell_name(&self, place: Place) -> String {
        format!(
            "{}/{}/{}",
            self.drives[place.drive].id,
            self.configs[place.config].id,
            self.workloads[place.workload]
        )
    }

    /// The first job of every cell, for `--dry-run`.
    pub fn preview(&self) -> Result<Vec<(String, Job<'_>)>, RunError> {
        let firsts = self.places().into_iter().filter(|p| p.rep == 0);
        firsts.map(|p| Ok((self.cell_name(p), self.job(p)?))).collect()
    }

    /// How long a run takes in its world's time, but for the end of the target's last call.
    pub fn length(job: &Job<'_>) -> Nanos {
        (job.measuring_begins() + job.window.measured).since(Instant::ZERO)
    }

    /// The same of all runs together.
    pub fn whole(&self) -> Result<Nanos, RunError> {
        let lengths = self.preview()?.into_iter().map(|(_, job)| Grid::length(&job).0);
        Ok(Nanos(lengths.sum::<u64>() * u64::from(self.reps)))
    }

    /// Runs everything on `threads` threads, or on one if the world wants it. `stop` ends it early;
    /// `progress` hears of the time that passes and of every run that is over.
    pub fn run(
        &self,
        world: &dyn World,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Run, RunError> {
        let places = self.places();
        let outcomes: Vec<Mutex<Option<Result<Outcome, RunError>>>> =
            places.iter().map(|_| Mutex::new(None)).collect();
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (whole, total, passed) = (self.whole()?, places.len(), AtomicU64::new(0));
        let tell = |more: u64| {
            let passed = Nanos(passed.fetch_add(more, Ordering::Relaxed) + more);
            progress(Progress { done: done.load(Ordering::Relaxed), total, passed, whole });
        };
        // A failed run ends those that have not begun; those before it in the grid have all begun, so
        // the first error of the grid is the one reported, whatever the threads do.
        let failed = AtomicBool::new(false);
        let work = || {
            while !failed.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(&place) = places.get(index) else { return };
                let outcome = self.job(place).and_then(|job| {
                    let (length, mut told) = (Grid::length(&job).0, 0);
                    let mut watch = |now: Instant| {
                        let now = now.as_nanos().min(length);
                        if now >= told + TELL.0 {
                            tell(now - std::mem::replace(&mut told, now));
                        }
                        !stop.load(Ordering::Relaxed)
                    };
                    let outcome = world.run(&job, &mut watch);
                    tell(length - told);
                    outcome.map_err(|error| match error {
                        JobError::Interrupted => RunError::Interrupted,
                        error => RunError::Job { cell: self.cell_name(place), error },
                    })
                });
                failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                *outcomes[index].lock().expect("no thread panics while it holds the lock") =
                    Some(outcome);
                done.fetch_add(1, Ordering::Relaxed);
                tell(0);
            }
        };
        let threads = if world.alone() { 1 } else { threads.clamp(1, places.len().max(1)) };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let mut results = Vec::with_capacity(places.len());
        for outcome in outcomes {
            let outcome = outcome.into_inner().expect("no thread panicked");
            // A run is missing only behind one that failed.
            results.push(outcome.unwrap_or(Err(RunError::Interrupted))?);
        }
        Ok(self.assemble(world, &places, results))
    }

    fn assemble(&self, world: &dyn World, places: &[Place], outcomes: Vec<Outcome>) -> Run {
        let manifest = self.manifest(world, places, &outcomes);
        let mut cells: Vec<Cell> = Vec::new();
        for (&place, outcome) in places.iter().zip(outcomes) {
            if place.rep == 0 {
                cells.push(Cell {
                    drive: self.drives[place.drive].id.clone(),
                    config: self.configs[place.config].id.clone(),
                    workload: self.workloads[place.workload].clone(),
                    reps: Vec::with_capacity(self.reps as usize),
                });
            }
            let cell = cells.last_mut().expect("repetition 0 comes first");
            let seed = self.seed + u64::from(place.rep);
            cell.reps.push(rep_of(seed, place.rep == 0, outcome));
        }
        derive(manifest, cells)
    }

    fn manifest(&self, world: &dyn World, places: &[Place], outcomes: &[Outcome]) -> Manifest {
        let by_drive = |of: &dyn Fn(&Outcome) -> Vec<(String, String)>, wanted: Option<usize>| {
            let mut rows: Vec<(String, String, String)> = Vec::new();
            for (place, outcome) in places.iter().zip(outcomes) {
                if place.rep == 0 && wanted.is_none_or(|c| c == place.config) {
                    let drive = &self.drives[place.drive].id;
                    rows.extend(of(outcome).into_iter().map(|(n, v)| (drive.clone(), n, v)));
                }
            }
            unite(&rows)
        };
        let configs = self.configs.iter().enumerate().map(|(i, c)| {
            let tunables = |o: &Outcome| {
                o.tunables.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
            };
            let number = |(name, value): (String, String)| {
                (name, value.parse().expect("the value was printed from a number"))
            };
            ConfigInfo {
                id: c.id.clone(),
                scheduler: c.scheduler.name.to_string(),
                summary: c.summary.clone(),
                tunables: by_drive(&tunables, Some(i)).into_iter().map(number).collect(),
            }
        });
        let drives = self.drives.iter().map(|d| DriveInfo {
            id: d.id.clone(),
            name: d.name.clone(),
            model: d.model.clone(),
            parameters: d.table.to_string(),
        });
        let workloads = self.workloads.iter().map(|id| WorkloadInfo {
            id: id.clone(),
            summary: self.experiment.workload(id).map_or_else(String::new, |w| w.summary.clone()),
            weights: self.experiment.weights_of(id),
        });
        Manifest {
            schema: SCHEMA,
            experiment: self.experiment.id.clone(),
            title: self.experiment.title.clone(),
            about: self.experiment.about.clone(),
            world: world.name().into(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: self.command.clone(),
            seed: self.seed,
            reps: self.reps,
            judge: self.experiment.judge,
            guarantee: self.experiment.guarantee,
            drives: drives.collect(),
            configs: configs.collect(),
            workloads: workloads.collect(),
            host: by_drive(&|o| o.host_parameters.clone(), None),
            machine: world.machine(),
            quick: self.options.quick,
        }
    }

    /// Eight hexadecimal digits that differ between grids: part of the name of a run directory.
    pub fn digest(&self) -> String {
        // FNV-1a, 64 bits, folded.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |text: &str| {
            for byte in text.bytes().chain([0]) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        add(env!("CARGO_PKG_VERSION"));
        add(&self.experiment.id);
        add(&self.experiment.text);
        for drive in &self.drives {
            add(&drive.id);
            add(&drive.table.to_string());
        }
        self.workloads.iter().for_each(|w| add(w));
        self.configs.iter().for_each(|c| add(&c.id));
        add(&format!("{:?}", self.experiment.tree));
        add(&format!("{} {} {:?}", self.reps, self.seed, self.options));
        format!("{:08x}", (hash >> 32) as u32 ^ hash as u32)
    }
}

/// `first`: of the first repetition, which also keeps what the cgroup files print.
fn rep_of(seed: u64, first: bool, outcome: Outcome) -> Rep {
    let mut figures = outcome.host_figures;
    figures.extend(outcome.scheduler_figures);
    figures.extend(
        outcome
            .controller_figures
            .into_iter()
            .map(|(stage, f)| NamedFigure { name: format!("{stage}.{}", f.name), ..f }),
    );
    let begin = outcome.begin.as_nanos() as i64;
    let monitor = outcome.monitor.into_iter().map(|m| Monitor {
        stage: m.stage.into(),
        name: m.name.into(),
        unit: m.unit.into(),
        group: m.group,
        points: m.points.iter().map(|&(at, v)| (at.0 as i64 - begin, v)).collect(),
    });
    let monitor = monitor.collect();
    let told = |file: &str, text: &str| !(file == "io.prio.class" && text == "no-change\n");
    let files = outcome.files.into_iter().filter(|(_, file, text)| first && told(file, text));
    let files = files.map(|(group, file, text)| (group, file.to_string(), text)).collect();
    let commands = i64::try_from(outcome.commands_total).unwrap_or(i64::MAX);
    figures.push(NamedFigure { name: "commands_total".into(), of: None, value: commands });
    Rep {
        seed,
        measured: outcome.measured,
        procs: outcome.procs,
        device: outcome.device,
        marks: outcome.marks,
        trace_digest: outcome.trace_digest,
        figures,
        monitor,
        files,
    }
}

/// (drive, name, value) to (name, value): one line for what is the same on every drive, else one per
/// drive as `name[drive]`. Order of first appearance.
fn unite(rows: &[(String, String, String)]) -> Vec<(String, String)> {
    let mut names: Vec<&String> = Vec::new();
    for (_, name, _) in rows {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut all: Vec<(String, String)> = Vec::new();
    for name in names {
        let of_name: Vec<_> = rows.iter().filter(|(_, n, _)| n == name).collect();
        if of_name.iter().all(|r| r.2 == of_name[0].2) {
            all.push((name.clone(), of_name[0].2.clone()));
            continue;
        }
        for (drive, _, value) in of_name {
            let key = format!("{name}[{drive}]");
            if !all.iter().any(|(known, _)| *known == key) {
                all.push((key, value.clone()));
            }
        }
    }
    all
}
