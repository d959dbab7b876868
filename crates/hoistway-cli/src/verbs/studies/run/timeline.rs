//! `hoistway run ... --timeline FILE`: one run for the viewers of traces.

use super::explain::{RECORDS, traced};
use crate::common::output::{check, failure, print};
use crate::common::worlds;
use crate::failure::{Failure, run_failure};
use hoistway_files::{Kind, Output};
use hoistway_lab::run::Grid;
use hoistway_lab::timeline::{About, write};
use hoistway_lab::words::shell_quoted;
use hoistway_lab::world::World;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

const FLAG: &str = "--timeline";

pub fn timeline(grid: &Grid, world: &dyn World, path: Option<&Path>) -> Result<(), Failure> {
    let path = path.expect("somebody asked for a timeline");
    check(FLAG, Some(path), Kind::Marked)?;
    worlds::check(world, grid)?;
    let jobs: Vec<_> = grid.preview().collect::<Result<_, _>>().map_err(run_failure)?;
    let [(cell, job)] = &jobs[..] else {
        unreachable!("a grid of one run has one job");
    };
    let outcome = traced(cell, job, world)?;
    let own = (0..).zip(&job.procs).map(|(id, p)| (id, p.name.clone()));
    let made = outcome.made.iter().map(|(id, name)| (id.0, name.clone()));
    let names: BTreeMap<u32, String> = own.chain(made).collect();
    let begin = job.measuring_begins();
    let window = (begin, begin + job.window.measured);
    let command = format!("{} {FLAG} {}", grid.command, shell_quoted(&path.display().to_string()));
    let about = About { command: &command, names, scheduler: job.scheduler.entry, window };
    let mut out = Output::begin(path, Kind::Marked).map_err(|e| failure(FLAG, e))?;
    let written = {
        let mut out = BufWriter::with_capacity(1 << 16, &mut out);
        write(&outcome.trace, &about, &mut out).and_then(|()| out.flush())
    };
    written.map_err(|e| Failure::Environment(format!("{FLAG} {}: {e}", path.display())))?;
    out.finish().map_err(|e| failure(FLAG, e))?;
    if outcome.trace.len() == RECORDS {
        eprintln!("the trace was full: {RECORDS} records; what came later is not in the timeline");
    }
    print(&format!(
        "{cell}, seed {}\ntimeline: {} (open it in https://ui.perfetto.dev or chrome://tracing)\n",
        grid.seed,
        path.display()
    ))
}
