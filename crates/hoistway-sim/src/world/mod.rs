//! Loads, host and stack as one machine ([`Machine`]), and the loop that turns it in virtual time ([`run`]).

mod built;
mod control;
mod events;
mod job;
mod machine;
mod phases;
mod record;
mod recording;
pub mod replay;
mod setup;
mod sim;
mod spawned;
mod step;
mod survey;
#[cfg(test)]
mod tests;

pub use built::{Built, build};
pub use job::Job;
pub use machine::{Machine, Platform, command_of, request_of, tag_of};
pub use recording::Recording;
pub use sim::{run, run_recorded};
pub use step::{NoRecorder, Recorder, Step};
pub use survey::{Survey, survey};
