//! Worlds: what carries out a job. The experiment does not know which.

use hoistway::Instant;
pub use hoistway_run::Lack;
use hoistway_run::{JobError, Outcome};
use hoistway_sim::world::Job;
use std::fmt;

/// What carries out jobs.
pub trait World: fmt::Debug + Sync {
    /// Its name in [`WORLDS`].
    fn name(&self) -> &'static str;

    /// Runs take real time and would disturb each other: one at a time.
    fn alone(&self) -> bool;

    /// What `watch` is told are parts of the whole that take about the same time, so that the rest can be foretold.
    fn even(&self) -> bool {
        false
    }

    /// Whether [`check`](World::check) and [`writes_first`](World::writes_first) look at the jobs. For one that does not,
    /// nobody keeps those of a whole grid.
    fn looks_at_jobs(&self) -> bool {
        true
    }

    /// Refuses what it cannot carry out, before any of the jobs runs.
    fn check(&self, _jobs: &[Job<'_>]) -> Result<(), WorldError> {
        Ok(())
    }

    /// Bytes that are written before the first of these jobs can run.
    fn writes_first(&self, _jobs: &[Job<'_>]) -> u64 {
        0
    }

    /// Why the configuration of a job cannot run here, whatever else could. Asked before anything runs: those of a
    /// grid that can run do.
    fn lacks(&self, _job: &Job<'_>) -> Option<Lack> {
        None
    }

    /// Runs a job to its end. `watch` is called now and then with the time of the run; `false` interrupts
    /// it.
    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError>;

    /// Which build of the world it is, where runs of several must not be put together.
    fn build(&self) -> String {
        String::new()
    }

    /// What all runs so far have cost, for people: it depends on the machine, and is no result.
    fn cost(&self) -> Option<String> {
        None
    }

    /// What a reader of the results must know about the machine: name and value.
    fn machine(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Why a world cannot carry out what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldError {
    /// It was asked for in a wrong way.
    Usage(String),
    /// The machine lacks something.
    Environment(String),
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorldError::Usage(what) | WorldError::Environment(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for WorldError {}

/// One line of the registry.
#[derive(Clone, Copy, Debug)]
pub struct WorldEntry {
    /// Name on the command line, in names of run directories and in manifests.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
}

/// Every world, in the order of listing.
pub static WORLDS: &[WorldEntry] = &[
    WorldEntry { name: "sim", summary: "drive models in virtual time; the same result every time" },
    WorldEntry {
        name: "engine",
        summary: "real storage, or drives emulated on the wall clock, under hoistway's schedulers",
    },
    WorldEntry {
        name: "kernel",
        summary: "a directory or device of this machine under the kernel's own schedulers and controllers",
    },
    WorldEntry {
        name: "linux",
        summary: "drive models in virtual time under a Linux kernel of its own (`hoistway linux build`); linux:NAME \
                  names one of several",
    },
];

/// The simulator.
#[derive(Clone, Copy, Debug)]
pub struct Sim;

impl World for Sim {
    fn looks_at_jobs(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    fn alone(&self) -> bool {
        false
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        hoistway_sim::world::run(job, watch)
    }
}

/// Real storage under hoistway's schedulers.
#[cfg(all(feature = "live", target_os = "linux"))]
#[derive(Debug)]
pub struct Engine(pub hoistway_machine::engine::Storage);

#[cfg(all(feature = "live", target_os = "linux"))]
impl World for Engine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn alone(&self) -> bool {
        true
    }

    fn check(&self, jobs: &[Job<'_>]) -> Result<(), WorldError> {
        self.0.check(jobs).map_err(WorldError::from)
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        self.0.run(job, watch)
    }

    fn machine(&self) -> Vec<(String, String)> {
        self.0.facts()
    }
}

/// The kernel's own schedulers.
#[cfg(all(feature = "live", target_os = "linux"))]
#[derive(Debug)]
pub struct Kernel(pub hoistway_machine::kernel::Machine);

#[cfg(all(feature = "live", target_os = "linux"))]
impl World for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn alone(&self) -> bool {
        true
    }

    fn check(&self, jobs: &[Job<'_>]) -> Result<(), WorldError> {
        self.0.check(jobs).map_err(WorldError::from)
    }

    fn writes_first(&self, jobs: &[Job<'_>]) -> u64 {
        self.0.writes_first(jobs)
    }

    fn lacks(&self, job: &Job<'_>) -> Option<Lack> {
        self.0.lacks(job)
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        self.0.run(job, watch)
    }

    fn machine(&self) -> Vec<(String, String)> {
        self.0.facts()
    }
}

/// A kernel of its own in virtual time.
#[cfg(all(feature = "live", target_os = "linux"))]
#[derive(Debug)]
pub struct Linux(pub hoistway_machine::linux::Linux);

#[cfg(all(feature = "live", target_os = "linux"))]
impl World for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn alone(&self) -> bool {
        false
    }

    fn check(&self, jobs: &[Job<'_>]) -> Result<(), WorldError> {
        self.0.check(jobs).map_err(WorldError::from)
    }

    fn lacks(&self, job: &Job<'_>) -> Option<Lack> {
        self.0.lacks(job)
    }

    fn run(
        &self,
        job: &Job<'_>,
        watch: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<Outcome, JobError> {
        self.0.run(job, watch)
    }

    fn build(&self) -> String {
        self.0.kernel().digest.clone()
    }

    fn cost(&self) -> Option<String> {
        let spent = self.0.totals();
        if spent.runs == 0 {
            return None;
        }
        let seconds = |time: hoistway::Nanos| time.0 as f64 / 1e9;
        let (inside, outside) = (seconds(spent.virtual_time), seconds(spent.wall_time));
        Some(format!(
            "Linux {}: {} runs, {inside:.1} s of virtual time in {outside:.1} s of processor and wall time ({:.2} s per \
             virtual second); {} requests, {:.0} per second",
            self.0.kernel().release,
            spent.runs,
            outside / inside.max(1e-9),
            spent.requests,
            spent.requests as f64 / outside.max(1e-9)
        ))
    }

    fn machine(&self) -> Vec<(String, String)> {
        self.0.facts()
    }
}

#[cfg(all(feature = "live", target_os = "linux"))]
impl From<hoistway_machine::MachineError> for WorldError {
    fn from(error: hoistway_machine::MachineError) -> WorldError {
        match error.is_of_environment() {
            true => WorldError::Environment(error.to_string()),
            false => WorldError::Usage(error.to_string()),
        }
    }
}
