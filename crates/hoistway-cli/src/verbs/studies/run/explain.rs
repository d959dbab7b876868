//! `hoistway run ... --explain PROCESS`: the timeline of one process in one run.

use crate::common::grid::grid;
use crate::common::options::Common;
use crate::common::output::print;
use crate::common::process::stop_flag;
use crate::common::worlds;
use crate::failure::{Failure, run_failure};
use hoistway::setting::nearest;
use hoistway_lab::explain::{Subject, story};
use hoistway_lab::grid::Plan;
use hoistway_lab::run::{Grid, RunError};
use hoistway_lab::world::World;
use hoistway_run::{JobError, NamedFigure, Outcome};
use hoistway_sim::world::Job;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// Records kept of a run: about 250 MB.
pub const RECORDS: usize = 4_000_000;
/// Schedulers with this tunable count by queue.
const STATISTICS: &str = "queue_statistics";
/// Lines told if not asked otherwise.
const LINES: u32 = 200;

/// The grid of one run.
pub fn grid_of(plan: &Plan, common: &Common, flag: &str) -> Result<Grid, Failure> {
    let mut grid = grid(plan)?;
    if common.reps.is_none() {
        grid.reps = 1;
    }
    grid.options.trace = Some(RECORDS);
    let several = [
        (grid.drives.len(), "drives", "--drive"),
        (grid.workloads.len(), "workloads", "--workload"),
        (grid.reps as usize, "repetitions", "--reps 1"),
    ];
    match several.iter().find(|(n, ..)| *n != 1) {
        Some((n, what, choose)) => Err(Failure::Usage(format!(
            "{flag} shows one run, but {n} {what} are chosen; choose one with {choose}"
        ))),
        None => Ok(grid),
    }
}

pub fn explain(
    grid: &Grid,
    world: &dyn World,
    process: &str,
    limit: Option<u32>,
) -> Result<(), Failure> {
    worlds::check(world, grid)?;
    let mut jobs: Vec<_> = grid.preview().collect::<Result<_, _>>().map_err(run_failure)?;
    let [(cell, job)] = &mut jobs[..] else {
        unreachable!("a grid of one run has one job");
    };
    // Counting changes no decision.
    let counts = job.scheduler.entry.tunables.iter().any(|t| t.name == STATISTICS);
    if counts {
        job.scheduler.set.push((STATISTICS.into(), 1));
    }
    let job = &*job;
    // Processes that a load makes are named after their maker: `target/xterm`.
    let maker = process.split('/').next().unwrap_or(process);
    if !job.procs.iter().any(|p| p.name == maker) {
        return Err(unknown(cell, process, job.procs.iter().map(|p| p.name.as_str())));
    }
    let outcome = traced(cell, job, world)?;
    let made = outcome.made.iter().map(|(_, name)| name.as_str());
    let subject = Subject::of(job, &outcome.made, process)
        .ok_or_else(|| unknown(cell, process, made.clone()))?;
    let limit = limit.unwrap_or(LINES);
    let told = story(&outcome.trace, &subject, limit as usize);
    let mut out = format!("{cell}, seed {}: timeline of {process}\n", grid.seed);
    out.push_str("times since measuring began; queues and requests by their numbers\n\n");
    for line in &told.lines {
        let _ = writeln!(out, "{line}");
    }
    if !told.own {
        let _ = writeln!(out, "no I/O of {process} itself, and no decision about it");
    }
    let started: Vec<&str> = made.filter(|m| m.split('/').next() == Some(process)).collect();
    if !started.is_empty() {
        let _ = writeln!(
            out,
            "\n{process} started {}; --explain {} tells of one of them",
            started.join(", "),
            started[0]
        );
    }
    if told.left_out > 0 {
        let _ = writeln!(out, "\n{} more lines were left out; --limit N shows more", told.left_out);
    }
    if let Some(last) = outcome.trace.last()
        && outcome.trace.len() == RECORDS
        && last.at < subject.end
    {
        let told = last.at.as_nanos() as f64 / 1e6 - subject.begin.as_nanos() as f64 / 1e6;
        let _ = writeln!(
            out,
            "\nthe trace was full ({RECORDS} records) {told:.3} ms after measuring began; what came \
             later is not shown"
        );
    }
    out.push_str(&figures(&outcome.scheduler_figures, &subject.procs));
    print(&out)
}

/// The run with its trace.
pub fn traced(cell: &str, job: &Job<'_>, world: &dyn World) -> Result<Outcome, Failure> {
    let stop = stop_flag()?;
    world.run(job, &mut |_| !stop.load(Ordering::Relaxed)).map_err(|error| match error {
        JobError::Interrupted => Failure::Interrupted("interrupted; nothing was written".into()),
        error => run_failure(RunError::Job { cell: cell.into(), error }),
    })
}

/// What the scheduler counted of the queues that were the process's at the end.
fn figures(all: &[NamedFigure], procs: &BTreeSet<u32>) -> String {
    let owner = |value: i64| u32::try_from(value).is_ok_and(|p| procs.contains(&p));
    let mine = all.iter().filter(|f| f.name == "queue_process" && owner(f.value));
    let mut out = String::new();
    for queue in mine.map(|f| f.of) {
        let number = queue.map_or(String::new(), |q| q.to_string());
        let _ = writeln!(out, "\nqueue {number} in the whole run:");
        let own = all.iter().filter(|f| f.of == queue);
        for f in own.filter_map(|f| Some((f.name.strip_prefix("queue_")?, f.value))) {
            let _ = writeln!(out, "{:>16}  {}", f.1, f.0);
        }
    }
    out
}

/// No such process; these there are.
fn unknown<'a>(cell: &str, process: &str, known: impl Iterator<Item = &'a str> + Clone) -> Failure {
    let hint = match nearest(process, known.clone()) {
        Some(n) => format!("did you mean '{n}'?"),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Failure::Usage(format!("{cell} has no process '{process}'; {hint}"))
}
