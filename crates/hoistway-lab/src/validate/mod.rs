//! The same experiment in several worlds, compared with one of them: do our schedulers decide as the kernel's?
//!
//! **Method.** The worlds take turns. In each round every cell runs once in every world on the wall clock,
//! in an order drawn from the seed, so that whatever drifts (other load, the hypervisor, temperature) hits
//! all of them alike. A world in virtual time needs no turns and runs for itself. Repetition `r` has the
//! same seed everywhere: the same files, the same order of random reads.
//!
//! **What is compared.** Per cell the mean latency of the target and the throughput of the device; where
//! processes of different ioprio compete, each one's part of what all moved. The figure is the geometric mean of
//! the ratios of two worlds, repetition by repetition, with Student's 99 % interval (docs/specs/statistics.md 4):
//! the seed decides where files lie and in which order they are read, and that moves all worlds alike.
//!
//! **Weaknesses.** A ratio near 1 shows that the results agree, not that each decision does; decisions are
//! compared by `hoistway replay-decisions`. With few rounds the interval is wide: a row *holds* if its ratio
//! is within the limit, and the interval says how much that is worth.

use crate::judge::{self, Comparison};
use crate::result::kept::Kept;
use crate::result::{Cell, Rep, Run, rep_value};
use crate::run::{Grid, RunError};
use crate::stats::{Bound, Bounded};
use crate::world::World;
use hoistway::sched::{self, Entry};
use hoistway_sim::rng::stream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest deviation of schedulers that decide by the order of arrival and by deadlines.
pub const LIMIT: f64 = 0.10;
/// The same of BFQ, which learns from the instants at which requests complete.
pub const LIMIT_BFQ: f64 = 0.15;

/// An experiment in a world.
#[derive(Debug)]
pub struct WorldSide<'a> {
    /// Who runs it.
    pub world: &'a dyn World,
    /// What. The grids of all sides have the same drives, workloads, configurations (by id), repetitions and
    /// seed.
    pub grid: &'a Grid,
    /// Where finished runs are kept.
    pub kept: &'a Kept,
}

/// Runs everything: worlds on the wall clock in rounds, the others on `threads` threads. The results are in the
/// order of `sides`.
///
/// `progress` hears of runs that are over, of all.
///
/// # Errors
///
/// The first run that fails, or that it was stopped: then finished runs are kept.
pub fn carry_out(
    sides: &[WorldSide<'_>],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Run>, RunError> {
    let total: usize = sides.iter().map(|s| s.grid.len()).sum();
    let real: Vec<&WorldSide<'_>> = sides.iter().filter(|s| s.world.alone()).collect();
    let mut done = 0;
    for (side, index) in turns(&real) {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted { kept: done, total });
        }
        if side.kept.load(index).is_none() {
            let record = match side.grid.encoded(side.world, index, stop) {
                Err(RunError::Interrupted { .. }) => {
                    return Err(RunError::Interrupted { kept: done, total });
                }
                record => record?,
            };
            side.kept.save(index, &record)?;
        }
        done += 1;
        progress(done, total);
    }
    let mut runs = Vec::with_capacity(sides.len());
    for side in sides {
        runs.push(match side.world.alone() {
            true => side.grid.together(side.world, side.kept)?,
            false => {
                let before = done;
                let tell = |p: crate::run::Progress| progress(before + p.done, total);
                let run = side.grid.run_kept(side.world, threads, stop, &tell, Some(side.kept))?;
                done += side.grid.len();
                run
            }
        });
    }
    Ok(runs)
}

/// Round by round: each cell in each world, in an order drawn from the seed. Runs are numbered as in a grid,
/// the repetitions of a cell one behind the other.
fn turns<'a>(sides: &[&'a WorldSide<'a>]) -> Vec<(&'a WorldSide<'a>, usize)> {
    let Some(first) = sides.first() else { return Vec::new() };
    let reps = first.grid.reps as usize;
    let cells = first.grid.len() / reps.max(1);
    let mut rng = stream(first.grid.seed, "validate/order");
    let mut all = Vec::new();
    for rep in 0..reps {
        let mut round: Vec<(&WorldSide<'_>, usize)> = Vec::new();
        for cell in 0..cells {
            round.extend(sides.iter().map(|side| (*side, cell * reps + rep)));
        }
        for at in (1..round.len()).rev() {
            round.swap(at, rng.below(at as u64 + 1) as usize);
        }
        all.append(&mut round);
    }
    all
}

/// A quantity of a cell in all worlds.
#[derive(Clone, Debug)]
pub struct ValidationRow {
    /// The drive.
    pub drive: String,
    /// The workload.
    pub workload: String,
    /// The configuration.
    pub config: String,
    /// What: `latency`, `throughput`, or `share of PROCESS`.
    pub quantity: String,
    /// Its unit.
    pub unit: &'static str,
    /// Mean over the repetitions in the world that is compared with.
    pub reference: Option<Bounded>,
    /// The other worlds, in their order.
    pub others: Vec<Comparison>,
    /// Largest deviation of the ratio from 1.
    pub limit: f64,
}

impl ValidationRow {
    /// Whether a world lies within the limit; `None` where there is no ratio, or a bound that allows either.
    pub fn holds(&self, other: usize) -> Option<bool> {
        let ratio = self.others[other].ratio?;
        let within = ratio.mean.max(1.0 / ratio.mean) - 1.0 <= self.limit;
        match ratio.bound {
            Bound::Exact => Some(within),
            Bound::Above | Bound::AtLeast => (!within && ratio.mean > 1.0).then_some(false),
            Bound::Below => (!within && ratio.mean < 1.0).then_some(false),
        }
    }
}

/// Every quantity of every cell that the reference has.
pub fn rows(reference: &Run, others: &[&Run]) -> Vec<ValidationRow> {
    let mut rows = Vec::new();
    for cell in &reference.cells {
        let same = |c: &&Cell| {
            (&c.drive, &c.workload, &c.config) == (&cell.drive, &cell.workload, &cell.config)
        };
        let beside: Vec<Option<&Cell>> =
            others.iter().map(|run| run.cells.iter().find(same)).collect();
        let limit = match cell.config.contains("bfq") {
            true => LIMIT_BFQ,
            false => LIMIT,
        };
        let shares = reference.manifest.configs.iter().any(|c| {
            c.id == cell.config && sched::find(&c.scheduler).is_some_and(Entry::weighs_groups)
        });
        for (quantity, unit, of) in quantities(cell, shares) {
            let values = |c: &Cell| c.reps.iter().map(&of).collect::<Option<Vec<_>>>();
            let base = values(cell);
            let other = |c: &Option<&Cell>| {
                let paired = c.is_some_and(|c| judge::seeds(c) == judge::seeds(cell));
                Comparison::of(c.and_then(values).as_deref(), base.as_deref(), paired)
            };
            rows.push(ValidationRow {
                drive: cell.drive.clone(),
                workload: cell.workload.clone(),
                config: cell.config.clone(),
                quantity,
                unit,
                reference: base.as_ref().and_then(|v| Bounded::mean(v)),
                others: beside.iter().map(other).collect(),
                limit,
            });
        }
    }
    rows
}

type RepMeasure = Box<dyn Fn(&Rep) -> Option<Bounded>>;

/// What is compared of a cell: name, unit, value of a repetition. `shares`: the scheduler divides the device by level
/// and weight; what others give each process is chance.
fn quantities(cell: &Cell, shares: bool) -> Vec<(String, &'static str, RepMeasure)> {
    let mut all: Vec<(String, &'static str, RepMeasure)> = Vec::new();
    let total = |rep: &Rep| rep_value(rep, "throughput_total");
    if cell.workload.starts_with(SHARES) {
        let procs = cell.reps.first().filter(|_| shares);
        let names = procs.map_or(&[][..], |rep| &rep.procs);
        for (at, proc) in names.iter().enumerate() {
            let part = move |rep: &Rep| {
                let whole: u64 = rep.procs.iter().map(|p| p.bytes).sum();
                let own = rep.procs.get(at)?.bytes;
                (whole > 0).then(|| Bounded::from(100.0 * own as f64 / whole as f64))
            };
            all.push((format!("share of {}", proc.name), "%", Box::new(part)));
        }
    } else {
        all.push(("latency".into(), "ms", Box::new(|rep| rep_value(rep, "latency_avg"))));
    }
    all.push(("throughput".into(), "MB/s", Box::new(total)));
    all
}

/// Workloads whose names begin so are about what each process gets.
const SHARES: &str = "shares";

#[cfg(test)]
mod tests;
