//! The virtual-time loop: loads, host, stack and drive turned by one clock.

mod job;
pub use job::*;

use hoistway::Instant;

/// Runs a job to its end. `watch` is called about every 10 ms of simulated time or 50,000 events with
/// the simulated time; `false` interrupts the run.
pub fn run(_job: &Job<'_>, _watch: &mut dyn FnMut(Instant) -> bool) -> Result<Outcome, JobError> {
    todo!()
}
