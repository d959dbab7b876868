//! `hoistway recommend`: from runs to one configuration, with what it gains, what it costs, how sure that is, and
//! the lines that install it.
//!
//! Problem: a run directory has hundreds of figures; whoever administers a machine wants one line in a udev
//! rule, or to hear that none is needed. Means of a few repetitions differ always, so the answer must say
//! what is chance.
//!
//! Idea: a [`Goal`] is a list of limits and criteria in plain words, not a score. A choice by estimates
//! ([`choose`]), asked by intervals whether it stands ([`advice`], [`compare`]), asked by the bootstrap how stable
//! it is. What is as good as the present configuration is no reason to change.
//!
//! Guarantees: the same runs give the same bytes. Fewer than three rounds never decide. A configuration is
//! called different from the present one only if its 99 % interval says so and it is off by more than the margin.
//!
//! Weaknesses: the interval of three rounds is wide, and the bootstrap of three rounds knows no more than they do;
//! both say less than they seem to where rounds are not independent. Workloads of one kind weigh the same,
//! however little they have to do with what the machine does. What was not measured is not known. Where the processors were
//! busy all the time, they were the limit; that is said, where the runs tell, and makes the answer less sure. Of an emulated drive such
//! workloads are not judged at all ([`field`]).
//!
//! Source: specs/statistics.md 4 and 7.

pub mod advice;
pub mod choose;
pub mod compare;
pub mod doubt;
pub mod field;
pub mod goal;
pub mod identity;
pub mod install;
pub mod processor;

pub use advice::{Advice, Recommendation, Sureness, recommend};
pub use field::{Field, RunSource};
pub use goal::{GOALS, Goal, GoalError};
pub use identity::Identity;
pub use install::{Lines, Match};

#[cfg(test)]
pub(crate) mod tests;
