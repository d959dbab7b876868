//! The loads of a job on its host, before anything runs: every world lays out the same files and draws the same
//! random choices, because all of them build here.

use super::Job;
use crate::host::Host;
use crate::load::params::Params;
use crate::load::{self, Build, Load};
use hoistway::{Instant, Sectors};
use hoistway_run::{JobError, Role};

/// A host with the files of a job, and its loads in the order of the processes.
#[derive(Debug)]
pub struct Built {
    /// The host: files are laid out, no process exists.
    pub host: Host,
    /// One load per process.
    pub loads: Vec<Box<dyn Load>>,
    /// Whose load laid each file out, by the number of the process.
    pub owners: Vec<usize>,
    /// Processes that have memory in common, beside files.
    pub sharers: Vec<usize>,
}

/// Builds the loads of a job whose block layer makes requests of at most `max_request`.
///
/// # Errors
///
/// An unknown load, a wrong parameter, files that do not fit.
pub fn build(job: &Job<'_>, max_request: Sectors) -> Result<Built, JobError> {
    let mut host = Host::new(job.host.clone(), &job.drive, max_request, job.seed);
    // Files are laid out in order of creation, the target's before the interferers'.
    let mut loads: Vec<Option<Box<dyn Load>>> = job.procs.iter().map(|_| None).collect();
    let (mut owners, mut sharers) = (Vec::new(), Vec::new());
    for role in [Role::Target, Role::Interferer] {
        for (index, spec) in job.procs.iter().enumerate().filter(|(_, p)| p.role == role) {
            let entry = load::find(&spec.load)?;
            let params = Params::new(&spec.name, &spec.params, entry.params)?;
            let start = Instant::ZERO + spec.start;
            let mut build = Build { params, host: &mut host, index, seed: job.seed, start };
            loads[index] = Some((entry.build)(&mut build)?);
            owners.resize(host.files(), index);
            sharers.extend(host.asked_for_memory().then_some(index));
        }
    }
    let loads = loads.into_iter().map(|l| l.expect("every process has one of the two roles"));
    Ok(Built { host, loads: loads.collect(), owners, sharers })
}
