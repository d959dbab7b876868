//! Loads, host and stack on one stage ([`Stage`]), and the loop that turns it in virtual time ([`run`]).

mod control;
mod job;
mod made;
mod record;
mod sim;
mod stage;
mod survey;
#[cfg(test)]
mod tests;
mod wheel;

pub use job::*;
pub use sim::run;
pub use stage::{Ground, Stage, request_of, tag_of};
pub use survey::{Survey, survey};
