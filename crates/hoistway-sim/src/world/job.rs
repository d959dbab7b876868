//! A run: everything that decides its result.

use crate::drive::DriveFile;
use crate::host::HostConfig;
use hoistway::Instant;
use hoistway_run::{ControlSpec, GroupSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One run: everything that decides its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job<'a> {
    /// The drive.
    pub drive: Cow<'a, DriveFile>,
    /// Host parameters: the era's profile and what differs from it.
    pub host: HostConfig,
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// The controllers.
    pub control: ControlSpec,
    /// Groups, parents before their children.
    pub groups: Vec<GroupSpec>,
    /// Processes in order of `ProcId`; files are laid out target first (experiments.md 3.1).
    pub procs: Vec<ProcSpec>,
    /// When measuring begins and ends.
    pub window: Window,
    /// The seed.
    pub seed: u64,
    /// How much of the trace is kept; not written down.
    #[serde(skip)]
    pub trace: TraceMode,
}

impl Job<'_> {
    /// Measuring begins when the first target has run for the ramp.
    pub fn measuring_begins(&self) -> Instant {
        let start = self.procs.iter().filter(|p| p.role == Role::Target).map(|p| p.start).min();
        Instant::ZERO + start.unwrap_or_default() + self.window.ramp
    }
}
