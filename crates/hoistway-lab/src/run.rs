//! Running a grid: drives x workloads x configurations x repetitions, on as many threads as wanted.
//!
//! Each run depends on its own job alone and results are put together in the order of the grid, so they
//! do not depend on the number of threads or on which of them was faster.

mod error;
#[cfg(feature = "studies")]
mod pool;
mod settings;
mod share;

pub use error::RunError;
pub(crate) use error::guarded;
#[cfg(feature = "studies")]
pub(crate) use pool::in_order;
use settings::Settings;
pub use share::{Share, ShareError};

use crate::config::Config;
use crate::experiment::bounds::{AT_ONCE_MAX, Size};
use crate::experiment::{Experiment, Options};
use crate::registry::Registry;
use crate::result::kept::{FinishedRun, Kept};
use crate::result::{
    Cell, ConfigInfo, DriveInfo, KnownNames, Manifest, Rep, Run, SCHEMA, WorkloadInfo, derive,
};
use crate::world::{Lack, World};
use hoistway::{Instant, Nanos};
pub use hoistway_run::end_run;
use hoistway_run::{JobError, NamedFigure, Outcome};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::rng::stream;
use hoistway_sim::world::Job;
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

/// Points of a gauge in a run, about.
const MONITOR_POINTS: u64 = 200;
/// Points of one gauge of all groups.
const MONITOR_TOTAL: u64 = 200_000;
/// Time of a run that passes between two calls of `progress`.
const TELL: Nanos = Nanos::ms(200);
/// Gauges are not recorded more often.
const MONITOR_MIN: Nanos = Nanos::ms(10);

/// Where the record of a finished run is.
#[derive(Debug)]
enum Stored {
    /// On disk: a grid of thousands of runs must not hold all of them until the last is over.
    Kept,
    /// Here, encoded: nothing is kept on disk.
    Held(Vec<u8>),
}

/// One run of the grid.
#[derive(Clone, Copy, Debug)]
struct Coordinates {
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

    /// What of the grid is too large to be run and read again, with the numbers that make it so.
    pub fn too_large(&self) -> Option<String> {
        let lengths = [self.drives.len(), self.workloads.len(), self.configs.len()];
        let cells = lengths.iter().fold(1, |all: u64, n| all.saturating_mul(*n as u64));
        let (mut size, reps) = (Size::default(), u64::from(self.reps));
        let (mut procs_max, mut longest) = (0, Nanos::ZERO);
        size.runs = cells.saturating_mul(reps);
        // Beyond that limit there is no need to look at each cell.
        if size.beyond().is_none() {
            size = Size::default();
            for drive in &self.drives {
                for workload in self.workloads.iter().filter_map(|w| self.experiment.workload(w)) {
                    let procs = self.experiment.processes(workload);
                    for config in &self.configs {
                        let w = self.experiment.window(drive, workload, config, &self.options);
                        let intervals = [w.target_interval, w.device_interval];
                        size.add(reps, procs, w.measured, intervals);
                        (procs_max, longest) = (procs_max.max(procs), longest.max(w.measured));
                    }
                }
            }
        }
        let [drives, workloads, configs] = lengths;
        let (_, what) = size.beyond()?;
        Some(format!(
            "{}: {drives} drives x {workloads} workloads x {configs} configurations x {reps} repetitions, of up to \
             {procs_max} processes and {} s measured, come to {what}; ask for less at a time",
            self.experiment.id,
            longest.0 / 1_000_000_000
        ))
    }

    /// The same with other workloads of the experiment and another number of repetitions, each at least one.
    pub fn with(&self, workloads: Vec<String>, reps: u32) -> Grid {
        let (drives, configs) = (self.drives.clone(), self.configs.clone());
        let (experiment, command) = (self.experiment.clone(), self.command.clone());
        let (seed, options) = (self.seed, self.options);
        Grid { experiment, drives, workloads, configs, reps, seed, options, command }
    }

    /// Every run: drive, workload, configuration, repetition.
    fn places(&self) -> Vec<Coordinates> {
        let mut places = Vec::with_capacity(self.len());
        for drive in 0..self.drives.len() {
            for workload in 0..self.workloads.len() {
                for config in 0..self.configs.len() {
                    places.extend((0..self.reps).map(|rep| Coordinates {
                        drive,
                        workload,
                        config,
                        rep,
                    }));
                }
            }
        }
        places
    }

    fn job(&self, place: Coordinates) -> Result<Job<'_>, RunError> {
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
            // Every group has gauges of its own.
            let points = MONITOR_POINTS.min(1 + MONITOR_TOTAL / job.groups.len().max(1) as u64);
            job.control.monitor = Some(Nanos(whole / points).max(MONITOR_MIN));
        }
        Ok(job)
    }

    fn cell_name(&self, place: Coordinates) -> String {
        format!(
            "{}/{}/{}",
            self.drives[place.drive].id,
            self.configs[place.config].id,
            self.workloads[place.workload]
        )
    }

    /// One run, for people.
    fn run_name(&self, place: Coordinates) -> String {
        let cell = self.cell_name(place);
        match self.reps {
            1 => cell,
            _ => format!("{cell}, repetition {}", place.rep + 1),
        }
    }

    /// The first job of every cell, made when it is asked for: those of thousands of cells take tens of MB.
    pub fn preview(&self) -> impl Iterator<Item = Result<(String, Job<'_>), RunError>> {
        let firsts = self.places().into_iter().filter(|p| p.rep == 0);
        firsts.map(move |p| Ok((self.cell_name(p), self.job(p)?)))
    }

    /// Configurations that the world cannot carry out, each with the first reason found.
    ///
    /// # Errors
    ///
    /// A job that cannot be made.
    pub fn lacking(&self, world: &dyn World) -> Result<Vec<(String, Lack)>, RunError> {
        let mut lacking: Vec<(String, Lack)> = Vec::new();
        for place in self.places().into_iter().filter(|p| p.rep == 0) {
            let id = &self.configs[place.config].id;
            if !lacking.iter().any(|(known, _)| known == id) {
                let lack = world.lacks(&self.job(place)?);
                lacking.extend(lack.map(|lack| (id.clone(), lack)));
            }
        }
        Ok(lacking)
    }

    /// The order of the runs in a world on the wall clock: each round has every cell once, in an order of its own, so
    /// that drift (a cache that fills, a neighbour that wakes up) hits all alike.
    fn in_rounds(&self, places: &[Coordinates], runs: &mut [usize]) {
        let mut turn = vec![0; places.len()];
        for rep in 0..self.reps {
            let mut round: Vec<usize> =
                (0..places.len()).filter(|&i| places[i].rep == rep).collect();
            let mut random = stream(self.seed + u64::from(rep), "grid/order");
            // Fisher and Yates.
            for last in (1..round.len()).rev() {
                round.swap(last, random.below(last as u64 + 1) as usize);
            }
            round.into_iter().enumerate().for_each(|(at, i)| turn[i] = at);
        }
        runs.sort_by_key(|&i| (places[i].rep, turn[i]));
    }

    /// How long a run takes in its world's time, but for the end of the target's last call.
    pub fn length(job: &Job<'_>) -> Nanos {
        (job.measuring_begins() + job.window.measured).since(Instant::ZERO)
    }

    /// The same of all runs together.
    pub fn whole(&self) -> Result<Nanos, RunError> {
        let lengths = self.preview().map(|one| Ok(Grid::length(&one?.1).0));
        Ok(Nanos(lengths.sum::<Result<u64, RunError>>()? * u64::from(self.reps)))
    }

    /// The cell of run `index`, as `drive/config/workload`. Runs are numbered from 0, as in [`Kept`]: by drive, then
    /// workload, then configuration; the repetitions of a cell follow each other, so that `index % reps` is the repetition.
    ///
    /// # Panics
    ///
    /// If there is no run of that number.
    pub fn cell_of(&self, index: usize) -> String {
        self.cell_name(self.places()[index])
    }

    /// How long each run takes in its world's time, in the order of their numbers ([`Grid::cell_of`]).
    ///
    /// # Errors
    ///
    /// A job that cannot be made.
    pub fn lengths(&self) -> Result<Vec<Nanos>, RunError> {
        let mut all = Vec::new();
        for one in self.preview() {
            all.extend(std::iter::repeat_n(Grid::length(&one?.1), self.reps as usize));
        }
        Ok(all)
    }

    /// Run `index` alone ([`Grid::cell_of`]), encoded: what one task of many on many machines gives. The same bytes wherever
    /// it runs; [`FinishedRun::decode`] reads them.
    ///
    /// # Errors
    ///
    /// A job that cannot run, a run that breaks off, and `stop`.
    ///
    /// # Panics
    ///
    /// If there is no run of that number.
    pub fn encoded(
        &self,
        world: &dyn World,
        index: usize,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, RunError> {
        self.one(world, self.places()[index], stop, &|_| {})
    }

    /// Puts together what is kept of every run.
    ///
    /// # Errors
    ///
    /// A run that is not kept, or can no longer be read.
    pub fn together(&self, world: &dyn World, kept: &Kept) -> Result<Run, RunError> {
        let places = self.places();
        let load = |index| kept.read(index).map_err(unread);
        self.assemble(world, &places, (0..places.len()).map(load))
    }

    /// Puts together runs that were kept elsewhere; `load` has each by the names of its workload and configuration
    /// and the number of its repetition, from 0.
    ///
    /// # Errors
    ///
    /// A run that `load` does not have.
    pub fn gathered(
        &self,
        world: &dyn World,
        load: &dyn Fn(&str, &str, u32) -> Option<FinishedRun>,
    ) -> Result<Run, RunError> {
        let places = self.places();
        let of = |p: &Coordinates| {
            let run = load(&self.workloads[p.workload], &self.configs[p.config].id, p.rep);
            run.ok_or_else(|| unread("it is gone or damaged".into()))
        };
        self.assemble(world, &places, places.iter().map(of))
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
        self.run_kept(world, threads, stop, progress, None)
    }

    /// The same; with `kept`, finished runs are kept there, and those that are there already are not run
    /// again. With one thread all of it runs on the caller's, but for worlds in real time.
    pub fn run_kept(
        &self,
        world: &dyn World,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(Progress) + Sync),
        kept: Option<&Kept>,
    ) -> Result<Run, RunError> {
        let all: Vec<usize> = (0..self.len()).collect();
        let records = self.work_off(world, threads, stop, progress, kept, &all)?;
        let places = self.places();
        let finished = records.into_iter().zip(all).map(|(record, index)| {
            let run = match record {
                Stored::Held(record) => FinishedRun::decode(&record),
                Stored::Kept => kept.ok_or("there is no folder".into()).and_then(|k| k.read(index)),
            };
            run.map_err(unread)
        });
        self.assemble(world, &places, finished)
    }

    /// The same of a part of the grid: its runs are kept, and nothing is put together. Gives how many they are.
    ///
    /// # Errors
    ///
    /// Those of [`Grid::run_kept`].
    pub fn keep_share(
        &self,
        world: &dyn World,
        share: Share,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(Progress) + Sync),
        kept: &Kept,
    ) -> Result<usize, RunError> {
        let runs = self.runs_of(share);
        Ok(self.work_off(world, threads, stop, progress, Some(kept), &runs)?.len())
    }

    /// Numbers of the runs of a share ([`Grid::cell_of`]).
    pub fn runs_of(&self, share: Share) -> Vec<usize> {
        (0..self.len()).filter(|index| share.has(index / self.reps as usize)).collect()
    }

    /// Makes sure that there is a record of each wanted run, and says where each is. The first error in the order of
    /// turns is the one reported.
    fn work_off(
        &self,
        world: &dyn World,
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(Progress) + Sync),
        kept: Option<&Kept>,
        wanted: &[usize],
    ) -> Result<Vec<Stored>, RunError> {
        let places = self.places();
        let is_kept = |i: &&usize| kept.is_some_and(|k| k.load(**i).is_some());
        let mut missing: Vec<usize> = wanted.iter().filter(|i| !is_kept(i)).copied().collect();
        let lengths = self.lengths()?;
        let time = |runs: &[usize]| runs.iter().map(|&i| lengths[i].0).sum::<u64>();
        let (whole, left, total) = (Nanos(time(wanted)), time(&missing), wanted.len());
        if world.alone() {
            self.in_rounds(&places, &mut missing);
        }
        type Record = Mutex<Option<Result<Stored, RunError>>>;
        let records: Vec<Record> = missing.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(total - missing.len());
        let passed = AtomicU64::new(whole.0 - left);
        let tell = |more: u64| {
            let passed = Nanos(passed.fetch_add(more, Ordering::Relaxed) + more);
            progress(Progress { done: done.load(Ordering::Relaxed), total, passed, whole });
        };
        tell(0);
        // A failed run ends those that have not begun. Those before it in the order of their turns have all begun, so
        // that the first error in this order is the one reported, whatever the threads do. One that breaks off ends
        // none: the fault is in its scheduler, and what the others do can be kept for the next time.
        let failed = AtomicBool::new(false);
        let work = || {
            while !failed.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let Some(&index) = missing.get(turn) else {
                    return;
                };
                let record = self.one(world, places[index], stop, &tell);
                let record = record.and_then(|record| match kept {
                    None => Ok(Stored::Held(record)),
                    Some(kept) => {
                        kept.save(index, &record).map(|()| Stored::Kept).map_err(RunError::from)
                    }
                });
                let of_scheduler = |e: &RunError| {
                    matches!(e, RunError::Broken { .. } | RunError::Scheduler { .. })
                };
                failed
                    .fetch_or(record.as_ref().is_err_and(|e| !of_scheduler(e)), Ordering::Relaxed);
                done.fetch_add(usize::from(record.is_ok()), Ordering::Relaxed);
                *records[turn].lock().expect("no thread panics while it holds the lock") =
                    Some(record);
                tell(0);
            }
        };
        match threads.min(missing.len()).min(self.at_once()) {
            // There may be no threads where this runs (WebAssembly).
            0 | 1 if !world.alone() => work(),
            // What a run in real time asks of the kernel for its thread ends with that thread.
            wanted => std::thread::scope(|scope| {
                let threads = if world.alone() { 1 } else { wanted };
                (0..threads).for_each(|_| drop(scope.spawn(work)));
            }),
        }
        let done = kept.map_or(0, |_| done.load(Ordering::Relaxed));
        // Whoever is stopped by Ctrl-C may fail from it: programs of ours that ran beside have got the signal, too.
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted { kept: done, total });
        }
        let taken = |record: Record| record.into_inner().expect("no thread panicked");
        let mut ran = std::collections::BTreeMap::new();
        for (&index, record) in missing.iter().zip(records) {
            // After an error those without a turn have none.
            if let Some(record) = taken(record) {
                ran.insert(index, record?);
            }
        }
        Ok(wanted.iter().map(|index| ran.remove(index).unwrap_or(Stored::Kept)).collect())
    }

    /// Runs that may be under way at the same time, for the memory that their processes take.
    fn at_once(&self) -> usize {
        let workloads = self.workloads.iter().filter_map(|w| self.experiment.workload(w));
        let most = workloads.map(|w| self.experiment.processes(w)).max().unwrap_or(1);
        (AT_ONCE_MAX / most.max(1)).max(1) as usize
    }

    /// One run, encoded.
    fn one(
        &self,
        world: &dyn World,
        place: Coordinates,
        stop: &AtomicBool,
        tell: &dyn Fn(u64),
    ) -> Result<Vec<u8>, RunError> {
        let job = self.job(place)?;
        let (length, mut told) = (Grid::length(&job).0, 0);
        let mut watch = |now: Instant| {
            let now = now.as_nanos().min(length);
            if now >= told + TELL.0 {
                tell(now - std::mem::replace(&mut told, now));
            }
            !stop.load(Ordering::Relaxed)
        };
        let outcome = guarded(|| self.run_name(place), || world.run(&job, &mut watch))?;
        tell(length - told);
        match outcome {
            Ok(outcome) => Ok(finished(job.seed, place.rep == 0, outcome).encode()),
            Err(JobError::Interrupted) => Err(RunError::Interrupted { kept: 0, total: self.len() }),
            Err(error) => Err(RunError::Job { cell: self.run_name(place), error }),
        }
    }

    /// Takes one run after the other: of each only its records stay.
    fn assemble(
        &self,
        world: &dyn World,
        places: &[Coordinates],
        finished: impl Iterator<Item = Result<FinishedRun, RunError>>,
    ) -> Result<Run, RunError> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut host = Settings::default();
        let mut tunables: Vec<Settings> =
            self.configs.iter().map(|_| Settings::default()).collect();
        let mut names = KnownNames::default();
        for (&place, run) in places.iter().zip(finished) {
            let FinishedRun { mut rep, tunables: set, host: parameters } = run?;
            names.share(&mut rep.figures);
            // The other repetitions of a cell have the same.
            if place.rep == 0 {
                let set = set.into_iter().map(|(name, value)| (name, value.to_string()));
                tunables[place.config].add(place.drive, set);
                host.add(place.drive, parameters);
                cells.push(Cell {
                    drive: self.drives[place.drive].id.clone(),
                    config: self.configs[place.config].id.clone(),
                    workload: self.workloads[place.workload].clone(),
                    reps: Vec::with_capacity(self.reps as usize),
                });
            }
            let cell = cells.last_mut().expect("repetition 0 comes first");
            cell.reps.push(rep);
        }
        Ok(derive(self.manifest(world, &tunables, &host), cells))
    }

    fn manifest(&self, world: &dyn World, tunables: &[Settings], host: &Settings) -> Manifest {
        let drive_name = |drive: usize| self.drives[drive].id.clone();
        let number = |(name, value): (String, String)| {
            (name, value.parse().expect("the value was printed from a number"))
        };
        let configs = self.configs.iter().zip(tunables).map(|(c, set)| ConfigInfo {
            id: c.id.clone(),
            scheduler: c.scheduler.name.to_string(),
            summary: c.summary.clone(),
            tunables: set.united(&drive_name).into_iter().map(number).collect(),
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
            kind: self.experiment.workload(id).and_then(|w| w.kind),
            load: self
                .experiment
                .workload(id)
                .map_or_else(String::new, |w| self.experiment.processes_of(w)),
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
            host: host.united(&drive_name),
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
        // The version above stands for those that are shipped; what others bring may change under its name.
        let shipped = Registry::shipped().schedulers();
        let brought =
            self.configs.iter().filter(|c| !shipped.iter().any(|s| std::ptr::eq(*s, c.scheduler)));
        brought.for_each(|c| add(c.scheduler.source));
        add(&format!("{:?}", self.experiment.tree));
        add(&format!("{} {} {:?}", self.reps, self.seed, self.options));
        if let Some(procedure) = self.experiment.procedure {
            add(procedure.name());
        }
        format!("{:08x}", (hash >> 32) as u32 ^ hash as u32)
    }

    /// What finished runs must have in common to be put together: the grid, the command, and `program`,
    /// which names the build.
    pub fn key(&self, world: &dyn World, program: &str) -> String {
        let (world, build, digest) = (world.name(), world.build(), self.digest());
        format!("{program}\n{world} {digest}{build}\n{}\n", self.command)
    }
}

/// A record that was written cannot be read.
fn unread(why: String) -> RunError {
    RunError::Unread { why }
}

/// `first`: of the first repetition, which also keeps what the cgroup files print.
fn finished(seed: u64, first: bool, mut outcome: Outcome) -> FinishedRun {
    let tunables = std::mem::take(&mut outcome.tunables);
    let host = std::mem::take(&mut outcome.host_parameters);
    FinishedRun { rep: rep_of(seed, first, outcome), tunables, host }
}

fn rep_of(seed: u64, first: bool, outcome: Outcome) -> Rep {
    let mut figures = outcome.host_figures;
    figures.extend(outcome.scheduler_figures);
    figures.extend(
        outcome
            .controller_figures
            .into_iter()
            .map(|(stage, f)| NamedFigure { name: format!("{stage}.{}", f.name), ..f }),
    );
    let told = |file: &str, text: &str| !(file == "io.prio.class" && text == "no-change\n");
    let files = outcome.files.into_iter().filter(|(_, file, text)| first && told(file, text));
    let commands = i64::try_from(outcome.commands_total).unwrap_or(i64::MAX);
    figures.push(NamedFigure { name: "commands_total".into(), of: None, value: commands });
    Rep {
        seed,
        measured: outcome.measured,
        procs: outcome.procs,
        device: outcome.device,
        marks: outcome.marks,
        trace_digest: outcome.trace_digest,
        figures: figures.into(),
        monitor: outcome.monitor,
        files: files.collect(),
        targets: outcome.targets,
    }
}

#[cfg(test)]
pub(crate) mod breaks;
#[cfg(test)]
mod tests;
