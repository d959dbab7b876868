//! One pool of threads over the runs of several experiments.
//!
//! The runs with the longest guess go first, so that the threads end together: longest processing time
//! first (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969) is within 4/3 of the best schedule.
//! The guess is the run's simulated time, weighted by the kind of drive. The experiment whose last run
//! is over is put together at once, by the thread that finished it, so that no more experiments are in
//! memory than there are threads. Results depend on none of this: every run depends on its own job alone.

use crate::result::Run;
use crate::result::kept::Kept;
use crate::run::{Grid, RunError, guarded};
use crate::world::World;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// An experiment that is to run.
#[derive(Debug)]
pub struct PoolEntry<'a> {
    /// Its runs.
    pub grid: &'a Grid,
    /// Where finished ones are.
    pub kept: &'a Kept,
}

/// How far the whole is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolProgress {
    /// Runs that are over.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// Seconds left, as far as finished runs tell.
    pub left: Option<f64>,
}

/// What hears of the pool.
pub struct PoolCallbacks<'a> {
    /// Seconds since some moment.
    pub clock: &'a (dyn Fn() -> f64 + Sync),
    /// After every run.
    pub progress: &'a (dyn Fn(PoolProgress) + Sync),
    /// After every experiment: its place in the list, and what came of it.
    pub over: &'a (dyn Fn(usize, Result<Run, RunError>) + Sync),
}

impl std::fmt::Debug for PoolCallbacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolCallbacks").finish_non_exhaustive()
    }
}

/// Requests of a flash drive per second of simulated time, over those of a disk.
const FLASH: u64 = 20;

/// One run.
#[derive(Clone, Copy, Debug)]
struct Assignment {
    entry: usize,
    index: usize,
    /// Weighted simulated nanoseconds.
    guess: u64,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    /// The longest last.
    waiting: Vec<Assignment>,
    /// Experiments that wait to be put together although no run of them is missing.
    complete: Vec<usize>,
    /// Runs of each experiment that are not over.
    open: Vec<usize>,
    failed: Vec<bool>,
    costs: Vec<Spent>,
    done: usize,
}

/// What runs have taken in fact.
#[derive(Clone, Debug, Default)]
struct Spent {
    /// Per cell: seconds, and runs that took them.
    cells: Vec<(f64, u32)>,
    /// Of the experiment: seconds, and the guesses of those runs.
    seconds: f64,
    guessed: f64,
}

/// Runs everything; `false` if it was stopped.
pub fn run(
    entries: &[PoolEntry<'_>],
    world: &dyn World,
    threads: usize,
    stop: &AtomicBool,
    callbacks: &PoolCallbacks<'_>,
) -> bool {
    let total = entries.iter().map(|e| e.grid.len()).sum();
    let state = Mutex::new(Shared::new(entries, callbacks));
    let lock = || state.lock().expect("no thread panics while it holds the lock");
    let tell = |state: &Shared, threads: usize| {
        (callbacks.progress)(PoolProgress {
            done: state.done,
            total,
            left: state.left(entries, threads),
        });
    };
    tell(&lock(), threads);
    let put_together = |entry: usize| {
        let e = &entries[entry];
        let run = guarded(|| e.grid.experiment.id.clone(), || e.grid.together(world, e.kept));
        (callbacks.over)(entry, run.unwrap_or_else(Err));
    };
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let complete = lock().complete.pop();
            if let Some(entry) = complete {
                put_together(entry);
                continue;
            }
            let Some(task) = lock().next() else { return };
            let e = &entries[task.entry];
            let begun = (callbacks.clock)();
            let record = e.grid.encoded(world, task.index, stop);
            let took = (callbacks.clock)() - begun;
            let saved = record.and_then(|record| Ok(e.kept.save(task.index, &record)?));
            if matches!(saved, Err(RunError::Interrupted { .. })) {
                return;
            }
            let mut state = lock();
            let (first_error, last) = state.over(task, took, saved.is_err(), entries);
            tell(&state, threads);
            drop(state);
            match saved {
                Err(error) if first_error => (callbacks.over)(task.entry, Err(error)),
                Ok(()) if last => put_together(task.entry),
                _ => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, total.max(1)) {
            scope.spawn(work);
        }
    });
    !stop.load(Ordering::Relaxed)
}

impl Shared {
    fn new(entries: &[PoolEntry<'_>], callbacks: &PoolCallbacks<'_>) -> Shared {
        let mut state = Shared {
            waiting: Vec::new(),
            complete: Vec::new(),
            open: vec![0; entries.len()],
            failed: vec![false; entries.len()],
            costs: vec![Spent::default(); entries.len()],
            done: 0,
        };
        for (entry, e) in entries.iter().enumerate() {
            let lengths = match e.grid.lengths() {
                Ok(lengths) => lengths,
                Err(error) => {
                    state.failed[entry] = true;
                    state.done += e.grid.len();
                    (callbacks.over)(entry, Err(error));
                    continue;
                }
            };
            let per_drive = lengths.len() / e.grid.drives.len().max(1);
            state.costs[entry].cells = vec![(0.0, 0); lengths.len()];
            for (index, length) in lengths.iter().enumerate() {
                if e.kept.holds(index) {
                    state.done += 1;
                    continue;
                }
                let drive = &e.grid.drives[index / per_drive.max(1)];
                let weight = if drive.identity.rotational { 1 } else { FLASH };
                let guess = length.0.saturating_mul(weight);
                state.waiting.push(Assignment { entry, index, guess });
                state.open[entry] += 1;
            }
            if state.open[entry] == 0 {
                state.complete.push(entry);
            }
        }
        // Of equal guesses the first of the list first.
        state.waiting.sort_by_key(|t| (t.guess, std::cmp::Reverse((t.entry, t.index))));
        state
    }

    fn next(&mut self) -> Option<Assignment> {
        loop {
            let task = self.waiting.pop()?;
            if !self.failed[task.entry] {
                return Some(task);
            }
            self.done += 1;
        }
    }

    /// Notes the end of a run: whether it is the first of its experiment that failed, and whether it was
    /// the last.
    fn over(
        &mut self,
        task: Assignment,
        took: f64,
        failed: bool,
        entries: &[PoolEntry<'_>],
    ) -> (bool, bool) {
        self.done += 1;
        self.open[task.entry] -= 1;
        let cost = &mut self.costs[task.entry];
        let cell = &mut cost.cells[task.index / entries[task.entry].grid.reps as usize];
        *cell = (cell.0 + took, cell.1 + 1);
        cost.seconds += took;
        cost.guessed += task.guess as f64;
        let first = failed && !self.failed[task.entry];
        self.failed[task.entry] |= failed;
        (first, self.open[task.entry] == 0 && !self.failed[task.entry])
    }

    /// Seconds that the waiting runs will take: as their cell's, or as the guess says by the experiment's
    /// runs, or by all.
    fn left(&self, entries: &[PoolEntry<'_>], threads: usize) -> Option<f64> {
        let (seconds, guessed) =
            self.costs.iter().fold((0.0, 0.0), |(s, g), cost| (s + cost.seconds, g + cost.guessed));
        if guessed == 0.0 {
            return None;
        }
        let all = seconds / guessed;
        let of = |task: &Assignment| {
            let cost = &self.costs[task.entry];
            match cost.cells[task.index / entries[task.entry].grid.reps as usize] {
                (taken, runs) if runs > 0 => taken / f64::from(runs),
                _ if cost.guessed > 0.0 => task.guess as f64 * cost.seconds / cost.guessed,
                _ => task.guess as f64 * all,
            }
        };
        let waiting = self.waiting.iter().filter(|t| !self.failed[t.entry]);
        Some(crate::stats::sum(waiting.map(of)) / threads.max(1) as f64)
    }
}
