//! `hoistway bench`: which scheduler for this drive, measured within a limit of time.
//!
//! *Problem.* Whoever decides about a default decides about one kernel on one kind of drive, and about several questions at
//! once: does a command still start while something is copied, does a save return, what does the drive deliver, what does
//! a request cost? One benchmark answers one of them, in one order, once.
//!
//! *Idea.* A small [`suite`] of workloads, each judged in seconds, under every configuration that the machine offers, in
//! rounds: one run of each in every round, in an order drawn from the seed ([`run`]). What is compared are runs of the same
//! round, so that drift hits all alike. [`plan`] makes all of that fit a limit of time and of bytes written.
//!
//! *Guarantees.* Never fewer than three rounds of what is reported as whole; the same command goes on where an interrupted
//! one ended; in the simulator the same seed gives the same bytes, whatever the number of threads. Worlds differ only in
//! what carries out a run ([`crate::world`]).
//!
//! *Weaknesses.* Short runs see a scheduler's first seconds: BFQ's raising of new processes lasts longer than a run, so a
//! reader that has been there for minutes may be served worse than the one here. Small files favour caches of the drive.

mod files;
pub mod outcome;
pub mod pace;
pub mod plan;
pub mod record;
pub mod run;
pub mod setting;
pub mod subject;
pub mod suite;
pub mod summary;

#[cfg(test)]
mod tests;
