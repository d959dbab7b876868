//! Experiments, statistics, results and reports.
#![forbid(unsafe_code)]

pub mod report;
pub mod result;
pub mod stats;
