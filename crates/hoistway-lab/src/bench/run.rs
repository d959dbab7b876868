//! Carrying a plan out: round after round, every workload under every configuration in each, in an order of its own.
//!
//! A drive drifts (its cache fills, it warms up, its free blocks run out, somebody else wakes up), and drift that falls
//! on one configuration alone looks like a difference. So a round mixes everything, in an order drawn from the seed,
//! and what is compared are runs of the same round. After any round there is a whole, paired result; what is finished is
//! kept, and the same command goes on after Ctrl-C, a crash or a reboot.
//!
//! In worlds on the wall clock the limits of time and of bytes are kept by what the runs have taken in fact: after each
//! round, workloads that no longer fit in three rounds are given up, the least important first, and no round begins that
//! would end too late.

use super::plan::{self, BenchPlan, PlannedPart, ROUNDS_MAX, ROUNDS_MIN};
use super::record::{self, Record, State};
use super::suite::Part;
use crate::report::html;
use crate::result::Run;
use crate::result::kept::{FinishedRun, Found, Kept};
use crate::run::RunError;
use crate::world::World;
use hoistway_sim::rng::stream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Part of the limit of time that rounds may fill.
const ROOM: f64 = 0.95;
/// Most configurations of a part; the numbers of kept runs leave room for so many.
const CONFIGS_MAX: usize = 64;

/// Where a bench keeps its results, and what may be reused of those that are there.
#[derive(Clone, Copy, Debug)]
pub struct BenchPlace<'a> {
    /// The folder.
    pub out: &'a Path,
    /// Names the build: what another one has finished is not reused.
    pub program: &'a str,
    /// Names what is measured: the drive, the directory.
    pub target: &'a str,
    /// Reuse nothing.
    pub fresh: bool,
    /// Rows for the manifests beside those of the world.
    pub rows: &'a [(String, String)],
}

/// How far a bench is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchProgress {
    /// Runs that are over.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// The round that is under way, from 1.
    pub round: u32,
    /// All rounds.
    pub rounds: u32,
    /// Seconds left, as far as finished runs tell.
    pub left: Option<f64>,
}

/// What hears of a bench.
pub struct BenchCallbacks<'a> {
    /// Seconds since the command began.
    pub clock: &'a (dyn Fn() -> f64 + Sync),
    /// After every run.
    pub progress: &'a (dyn Fn(BenchProgress) + Sync),
    /// What people should know at once.
    pub told: &'a (dyn Fn(&str) + Sync),
}

impl std::fmt::Debug for BenchCallbacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BenchCallbacks").finish_non_exhaustive()
    }
}

/// Why a bench ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All its rounds are there.
    Whole,
    /// No time for another round.
    Time,
    /// Another round would write too much.
    Writes,
    /// Stopped from outside.
    Interrupted,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Complete rounds.
    pub rounds: u32,
    /// Run directories, one for each experiment.
    pub runs: Vec<(PathBuf, Run)>,
    /// Parts that were given up on the way, and why.
    pub given_up: Vec<(Part, String)>,
    /// Why it ended.
    pub ended: Ended,
    /// Runs that are kept, and all.
    pub kept: (usize, usize),
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// Index of its part in the plan.
    part: usize,
    config: usize,
    round: u32,
}

/// A bench under way.
struct Session<'a> {
    plan: &'a BenchPlan,
    world: &'a dyn World,
    place: &'a BenchPlace<'a>,
    stop: &'a AtomicBool,
    callbacks: &'a BenchCallbacks<'a>,
    /// Of each grid.
    kept: Vec<Kept>,
    /// Of each part: seconds and bytes written, and runs that took them.
    taken: Mutex<Vec<Taken>>,
    done: AtomicUsize,
    /// Rounds, if there is time.
    most: u32,
    /// Index of each part that is not given up.
    active: Vec<usize>,
    given_up: Vec<(Part, String)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    seconds: f64,
    written: u64,
    runs: u32,
}

/// Carries the plan out, or what is left of it, and writes the run directories.
///
/// # Errors
///
/// A run that cannot be carried out, or a place that cannot be written. What is finished is kept.
pub fn run(
    plan: &BenchPlan,
    world: &dyn World,
    threads: usize,
    place: &BenchPlace<'_>,
    stop: &AtomicBool,
    callbacks: &BenchCallbacks<'_>,
) -> Result<Outcome, RunError> {
    record::may_write(place.out)?;
    let key = plan::key(plan, world.name(), place.program, place.target);
    let old = Record::read(place.out).filter(|r| r.key == key && !place.fresh);
    let mut bench = Session::open(plan, world, place, stop, callbacks, &key)?;
    for (experiment, workload) in old.iter().flat_map(|r| &r.given_up) {
        let is = |p: &&PlannedPart| p.part.experiment == experiment && p.part.workload == workload;
        if let Some(at) = plan.parts.iter().find(is).and_then(|p| bench.index_of(&p.part)) {
            bench.give_up(at, "given up when this bench began");
        }
    }
    // What is whole is not made longer unasked.
    if let Some(old) = old.filter(|r| r.state == State::Done) {
        bench.most = plan.rounds.max(old.rounds_done);
    }
    bench.record(&key, State::Running, bench.complete())?;
    let ended = match world.alone() {
        true => bench.one_by_one(&key)?,
        false => bench.together(threads)?,
    };
    let rounds = bench.complete();
    let runs = bench.write(rounds)?;
    let state = if ended == Ended::Whole { State::Done } else { State::Stopped };
    bench.record(&key, state, rounds)?;
    let all = bench.total(plan.rounds.max(rounds));
    let kept = (bench.kept.iter().map(Kept::count).sum(), all);
    Ok(Outcome { rounds, runs, given_up: bench.given_up, ended, kept })
}

impl<'a> Session<'a> {
    fn open(
        plan: &'a BenchPlan,
        world: &'a dyn World,
        place: &'a BenchPlace<'a>,
        stop: &'a AtomicBool,
        callbacks: &'a BenchCallbacks<'a>,
        key: &str,
    ) -> Result<Session<'a>, RunError> {
        let mut kept = Vec::new();
        let mut ours = 0;
        for grid in &plan.grids {
            assert!(grid.configs.len() <= CONFIGS_MAX, "the numbers of kept runs have room");
            let dir = place.out.join(&grid.experiment.id);
            Run::may_write(&dir)?;
            let (runs, found) = Kept::open(&dir, key, place.fresh)?;
            runs.forget_damaged()?;
            match found {
                Found::Ours => ours += runs.count(),
                Found::Others => (callbacks.told)(&format!(
                    "{}: the finished runs there are of another command or build and are not reused",
                    runs.folder().display()
                )),
                Found::Nothing => {}
            }
            kept.push(runs);
        }
        if ours > 0 {
            (callbacks.told)(&format!(
                "{ours} finished runs are there already; --fresh runs them again"
            ));
        }
        let taken = Mutex::new(vec![Taken::default(); plan.parts.len()]);
        let active = (0..plan.parts.len()).collect();
        let (done, given_up) = (AtomicUsize::new(0), Vec::new());
        let most = plan.most;
        Ok(Session {
            plan,
            world,
            place,
            stop,
            callbacks,
            kept,
            taken,
            done,
            most,
            active,
            given_up,
        })
    }

    fn index_of(&self, part: &Part) -> Option<usize> {
        self.active.iter().copied().find(|&at| self.plan.parts[at].part == *part)
    }

    fn give_up(&mut self, part: usize, why: &str) {
        self.active.retain(|&at| at != part);
        self.given_up.push((self.plan.parts[part].part, why.into()));
    }

    /// Runs of so many rounds.
    fn total(&self, rounds: u32) -> usize {
        let runs: usize = self.active.iter().map(|&at| self.plan.parts[at].configs).sum();
        runs * rounds as usize
    }

    /// The runs of a round in the order of their turns.
    fn round(&self, round: u32) -> Vec<Task> {
        let of = |&part: &usize| {
            (0..self.plan.parts[part].configs).map(move |config| Task { part, config, round })
        };
        let mut tasks: Vec<Task> = self.active.iter().flat_map(of).collect();
        // Fisher and Yates.
        let mut random = stream(self.plan.seed + u64::from(round), "bench/order");
        for last in (1..tasks.len()).rev() {
            tasks.swap(last, random.below(last as u64 + 1) as usize);
        }
        tasks
    }

    /// The number under which a run is kept: the same whatever else the plan has.
    fn number(&self, part: usize, config: usize, round: u32) -> usize {
        let planned = &self.plan.parts[part];
        let ids = &self.plan.grids[planned.grid].experiment.workloads;
        let workload = ids.iter().position(|w| w.id == planned.part.workload);
        let workload = workload.expect("the part is a workload of its experiment");
        (workload * CONFIGS_MAX + config) * ROUNDS_MAX as usize + round as usize
    }

    fn holds(&self, task: Task) -> bool {
        let kept = &self.kept[self.plan.parts[task.part].grid];
        kept.holds(self.number(task.part, task.config, task.round))
    }

    fn load(&self, task: Task) -> Option<FinishedRun> {
        let kept = &self.kept[self.plan.parts[task.part].grid];
        kept.load(self.number(task.part, task.config, task.round))
    }

    /// Carries one run out and keeps it.
    fn one(&self, task: Task) -> Result<(), RunError> {
        let planned = &self.plan.parts[task.part];
        let grid = &self.plan.grids[planned.grid];
        let cell = planned.workload * grid.configs.len() + task.config;
        let index = cell * grid.reps as usize + task.round as usize;
        let begun = (self.callbacks.clock)();
        let record = grid.encoded(self.world, index, self.stop)?;
        let seconds = (self.callbacks.clock)() - begun;
        let number = self.number(task.part, task.config, task.round);
        self.kept[planned.grid].save(number, &record)?;
        let written = FinishedRun::decode(&record).map_or(0, |f| f.rep.device.written_bytes);
        let mut taken = self.taken.lock().expect("no thread panics while it holds the lock");
        let of = &mut taken[task.part];
        *of = Taken {
            seconds: of.seconds + seconds,
            written: of.written + written,
            runs: of.runs + 1,
        };
        Ok(())
    }

    fn tell(&self, round: u32, threads: usize) {
        let rounds = self.plan.rounds.max(round + 1);
        let left: f64 = (round..rounds)
            .flat_map(|r| self.round(r))
            .filter(|&t| !self.holds(t))
            .map(|t| self.seconds_of(t.part))
            .fold(0.0, |all, s| all + s);
        let some = self.taken.lock().expect("no thread panics").iter().any(|t| t.runs > 0);
        (self.callbacks.progress)(BenchProgress {
            done: self.done.load(Ordering::Relaxed),
            total: self.total(rounds),
            round: round + 1,
            rounds,
            left: (some || self.world.alone()).then_some(left / threads as f64),
        });
    }

    /// What a run of the part takes: as those that are over, or as planned.
    fn seconds_of(&self, part: usize) -> f64 {
        let taken = self.taken.lock().expect("no thread panics while it holds the lock")[part];
        match taken.runs {
            0 if self.world.alone() => self.plan.parts[part].run.0 as f64 / 1e9,
            0 => 0.0,
            n => taken.seconds / f64::from(n),
        }
    }

    /// Worlds in virtual time: all rounds, on several threads.
    fn together(&mut self, threads: usize) -> Result<Ended, RunError> {
        let rounds = (0..self.plan.rounds).flat_map(|r| self.round(r));
        let (there, missing): (Vec<Task>, Vec<Task>) = rounds.partition(|&t| self.holds(t));
        self.done.store(there.len(), Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<(usize, RunError)>> = Mutex::new(None);
        let lock = || failed.lock().expect("no thread panics while it holds the lock");
        let bench = &*self;
        let work = || {
            while !bench.stop.load(Ordering::Relaxed) && lock().is_none() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&task) = missing.get(at) else { return };
                match bench.one(task) {
                    Ok(()) => {
                        bench.done.fetch_add(1, Ordering::Relaxed);
                        bench.tell(task.round, threads);
                    }
                    Err(RunError::Interrupted { .. }) => return,
                    Err(error) => {
                        // The first of the order, whatever the threads do.
                        let mut failed = lock();
                        if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                            *failed = Some((at, error));
                        }
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, missing.len().max(1)) {
                scope.spawn(work);
            }
        });
        match failed.into_inner().expect("no thread panicked") {
            Some((_, error)) => Err(error),
            None if self.stop.load(Ordering::Relaxed) => Ok(Ended::Interrupted),
            None => Ok(Ended::Whole),
        }
    }

    /// Worlds on the wall clock: one run at a time, within the limits.
    fn one_by_one(&mut self, key: &str) -> Result<Ended, RunError> {
        for round in 0..self.most {
            let missing = self.round(round).iter().any(|&t| !self.holds(t));
            if missing && round > 0 {
                self.fit(round);
                if let Some(ended) = self.no_room(round) {
                    let whole = round >= self.plan.rounds;
                    return Ok(if whole { Ended::Whole } else { ended });
                }
            }
            for task in self.round(round) {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(Ended::Interrupted);
                }
                if !self.holds(task) {
                    match self.one(task) {
                        Err(RunError::Interrupted { .. }) => return Ok(Ended::Interrupted),
                        other => other?,
                    }
                }
                self.done.fetch_add(1, Ordering::Relaxed);
                self.tell(round, 1);
            }
            self.record(key, State::Running, round + 1)?;
        }
        Ok(Ended::Whole)
    }

    /// Gives up what does not fit in the fewest rounds, the least important first.
    fn fit(&mut self, round: u32) {
        while round < ROUNDS_MIN && self.active.len() > 1 {
            let why = match self.over(ROUNDS_MIN - round) {
                None => return,
                Some(Ended::Writes) => {
                    "it writes more than was foreseen; allow more with --write-budget"
                }
                Some(_) => "it takes longer than was foreseen; allow more with --time",
            };
            // Of bytes only those who write are guilty.
            let writes = why.starts_with("it writes");
            let guilty = |at: &&usize| !writes || self.plan.parts[**at].part.writes;
            let Some(&last) = self.active.iter().rev().find(guilty) else { return };
            let part = self.plan.parts[last].part;
            (self.callbacks.told)(&format!(
                "{}/{} is given up: {why}",
                part.experiment, part.workload
            ));
            self.give_up(last, why);
        }
    }

    /// Which limit does not leave room for another round?
    fn no_room(&self, round: u32) -> Option<Ended> {
        if round < ROUNDS_MIN { None } else { self.over(1) }
    }

    /// Which limit would be exceeded by so many rounds more?
    fn over(&self, rounds: u32) -> Option<Ended> {
        let configs = |at: usize| self.plan.parts[at].configs as f64;
        let more: f64 = self
            .active
            .iter()
            .map(|&at| configs(at) * self.seconds_of(at) * f64::from(rounds))
            .fold(0.0, |all, s| all + s);
        // Some runs take longer than the mean of their kind, and results have to be written.
        if (self.callbacks.clock)() + more > self.plan.limit.0 as f64 / 1e9 * ROOM {
            return Some(Ended::Time);
        }
        let taken = self.taken.lock().expect("no thread panics while it holds the lock");
        let written: u64 = taken.iter().map(|t| t.written).sum();
        let of = |&at: &usize| {
            let runs = configs(at) * f64::from(rounds);
            runs * taken[at].written as f64 / f64::from(taken[at].runs.max(1))
        };
        let more: f64 = self.active.iter().map(of).fold(0.0, |all, b| all + b);
        let made = self.plan.estimate.files as f64;
        (made + written as f64 + more > self.plan.writes_limit as f64).then_some(Ended::Writes)
    }

    /// Rounds of which every run is there.
    fn complete(&self) -> u32 {
        let whole = |round: &u32| self.round(*round).into_iter().all(|t| self.load(t).is_some());
        (0..self.most).take_while(whole).count() as u32
    }

    /// Writes a run directory for each experiment, of the complete rounds.
    fn write(&self, rounds: u32) -> Result<Vec<(PathBuf, Run)>, RunError> {
        let mut all = Vec::new();
        if rounds == 0 {
            return Ok(all);
        }
        for (at, grid) in self.plan.grids.iter().enumerate() {
            let parts = self.active.iter().map(|&p| (p, &self.plan.parts[p]));
            let parts: Vec<(usize, &PlannedPart)> = parts.filter(|(_, p)| p.grid == at).collect();
            if parts.is_empty() {
                continue;
            }
            let workloads = parts.iter().map(|(_, p)| p.part.workload.to_string()).collect();
            let grid = grid.with(workloads, rounds);
            let load = |workload: &str, config: &str, round: u32| {
                let part = parts.iter().find(|(_, p)| p.part.workload == workload)?.0;
                let config = grid.configs.iter().position(|c| c.id == config)?;
                self.load(Task { part, config, round })
            };
            let mut run = grid.gathered(self.world, &load)?;
            for (name, value) in self.place.rows {
                if !run.manifest.machine.iter().any(|(known, _)| known == name) {
                    run.manifest.machine.push((name.clone(), value.clone()));
                }
            }
            let dir = self.place.out.join(&grid.experiment.id);
            run.write(&dir, &html::render(&run))?;
            all.push((dir, run));
        }
        Ok(all)
    }

    fn record(&self, key: &str, state: State, rounds: u32) -> Result<(), RunError> {
        let name = |p: &Part| (p.experiment.to_string(), p.workload.to_string());
        let given_up = self.given_up.iter().map(|(p, _)| name(p)).collect();
        let record = Record::of(self.plan, key, self.world.name(), self.place.rows, given_up);
        Ok(record.with(state, rounds).write(self.place.out)?)
    }
}
