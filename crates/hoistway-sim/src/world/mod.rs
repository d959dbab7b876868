//! The virtual-time loop: loads, host, stack and drive turned by one clock.

mod control;
mod job;
mod made;
mod record;
mod sim;
#[cfg(test)]
mod tests;
mod wheel;

pub use job::*;
pub use sim::run;
