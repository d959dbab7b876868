//! What a worker is told: the part of a job that decides what its processes do.
//!
//! A worker builds all loads of the job, as the simulator does, and carries out its own: files and random choices of a
//! load depend on those built before it.

use super::super::files::FileStoreAddress;
use hoistway::sched::SCHEDULERS;
use hoistway_run::{ControlSpec, ProcSpec, SchedulerSpec, TraceMode};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::world::Job;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What a run does, but for schedulers and groups.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Where the shared memory is.
    pub shared: String,
    /// Where files are.
    pub store: FileStoreAddress,
    /// Processors take no time of their own: what the simulated host would have computed is slept.
    pub virtual_time: bool,
    /// The job, as [`of_workers`] leaves it.
    pub job: Job<'static>,
}

/// The job on its drive, with a scheduler that no worker asks for. Who is in which group is settled before a worker
/// begins.
pub fn of_workers(job: &Job<'_>, drive: &DriveFile) -> Job<'static> {
    let procs = job.procs.iter().map(|p| ProcSpec { group: None, ..p.clone() }).collect();
    Job {
        drive: Cow::Owned(drive.clone()),
        host: job.host.clone(),
        scheduler: SchedulerSpec { entry: SCHEDULERS[0], set: Vec::new(), queue: Vec::new() },
        control: ControlSpec::default(),
        groups: Vec::new(),
        procs,
        window: job.window,
        seed: job.seed,
        trace: TraceMode::Off,
    }
}
