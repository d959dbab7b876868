//! `replay`: a block trace under several configurations.

use crate::compare::{Names, names, threads_of, warned};
use crate::errors;
use crate::result::Results;
use crate::scheduler::registry;
use crate::work::{Far, carry_out};
use hoistway_lab::replay::{ReplayRequest, Split};
use hoistway_lab::run::Progress;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Replays a block trace on simulated drives, under several configurations.
///
/// trace: a file, also compressed (.gz, .zst), or the common name of blktrace's files.
/// configs [none, mq-deadline, bfq]; drives [samsung-970-pro].
/// closed: submit after what an I/O had waited for in the recording, with at most depth of a process under way; open: at the
/// recorded times even if there are none. speed: so many times as fast. split_by: "process", "group", "lun" or "none".
/// target: the process that is judged. devices: only these of the trace. start, stop: only this part of the trace, times with
/// their unit. limit: only so many records. scale: size of the device that offsets are scaled from. sync_writes: writes
/// without a mark are synchronous. format: of the trace. strict: stop at the first malformed record.
/// reps, seed, groups, jobs, progress and Ctrl-C: as in compare.
///
/// What follows from the trace alone (its loop, its depth) is told as a warning.
#[pyfunction]
#[pyo3(signature = (trace, configs = None, *, drives = None, closed = false, open = false, depth = None, speed = 1.0, split_by = "process", target = None, devices = None, start = None, stop = None, limit = None, scale = None, sync_writes = false, format = None, strict = false, groups = None, reps = 1, seed = None, jobs = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub fn replay(
    py: Python<'_>,
    trace: PathBuf,
    configs: Option<Names>,
    drives: Option<Names>,
    closed: bool,
    open: bool,
    depth: Option<u32>,
    speed: f64,
    split_by: &str,
    target: Option<String>,
    devices: Option<Names>,
    start: Option<String>,
    stop: Option<String>,
    limit: Option<u64>,
    scale: Option<String>,
    sync_writes: bool,
    format: Option<String>,
    strict: bool,
    groups: Option<PathBuf>,
    reps: u32,
    seed: Option<u64>,
    jobs: Option<u16>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Results> {
    if closed && open {
        return Err(errors::wrong("--open cannot be used with --closed; leave one out"));
    }
    if depth.is_some() && !closed {
        return Err(errors::wrong("--depth is of a closed loop; add closed=True"));
    }
    let asked = ReplayRequest {
        configs: names(configs),
        drives: names(drives),
        open,
        closed,
        depth,
        speed,
        split: split(split_by)?,
        target,
        devices: names(devices),
        from: start,
        to: stop,
        limit,
        scale,
        sync_writes,
        format,
        strict,
        groups,
        reps,
        seed,
        registry: registry(),
        ..ReplayRequest::of(trace)
    };
    let mut told: Vec<String> = Vec::new();
    let mut warnings: Vec<String> = Vec::new();
    // A look at the trace takes time.
    let grid = py.detach(|| {
        asked.grid(&mut |note| told.push(note.into()), &mut |warning| warnings.push(warning.into()))
    });
    let (grid, world) = grid.map_err(errors::wrong)?;
    warned(py, told.into_iter().chain(warnings))?;
    let threads = threads_of(&grid, jobs)?;
    let run = carry_out(py, progress.as_ref(), |stop, tell| {
        grid.run(&world, threads, stop, &|p: Progress| {
            tell(Far::from(p));
        })
    })?;
    Ok(Results { run })
}

fn split(word: &str) -> PyResult<Split> {
    match word {
        "process" => Ok(Split::Process),
        "group" => Ok(Split::Group),
        "lun" => Ok(Split::Lun),
        "none" => Ok(Split::None),
        _ => Err(errors::wrong(format!(
            "--split-by {word}: choose one of process, group, lun, none"
        ))),
    }
}
