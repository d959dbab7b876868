//! Why there is no plan, and amounts as people read and write them.

use super::ROUNDS_MIN;
use crate::run::RunError;
use hoistway::Nanos;
use std::fmt;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BenchPlanError {
    /// The time does not suffice for three rounds of one part.
    Time {
        /// What was given.
        given: Nanos,
        /// What is needed.
        least: Nanos,
    },
    /// The bytes do not suffice for the files.
    Writes {
        /// What was given.
        given: u64,
        /// What is needed.
        least: u64,
    },
    /// No configuration to compare.
    Configs,
    /// An experiment cannot run.
    Run(RunError),
    /// The place allows none of the workloads.
    Nothing {
        /// The first reason.
        why: String,
    },
    /// The machine lacks something that every run needs.
    Environment(String),
}

impl fmt::Display for BenchPlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchPlanError::Time { given, least } => write!(
                f,
                "--time {} does not suffice: {ROUNDS_MIN} rounds of the shortest suite take {} here; give more time, or \
                 fewer configurations with --config",
                duration(*given),
                duration(*least)
            ),
            BenchPlanError::Writes { given, least } => write!(
                f,
                "--write-budget {} does not suffice: the files alone are {}",
                size(*given),
                size(*least)
            ),
            BenchPlanError::Configs => f.write_str(
                "fewer than two configurations are left to compare; name others with --config",
            ),
            BenchPlanError::Run(error) => error.fmt(f),
            BenchPlanError::Nothing { why } => {
                write!(f, "nothing of the suite can run here: {why}")
            }
            BenchPlanError::Environment(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for BenchPlanError {}

impl From<RunError> for BenchPlanError {
    fn from(error: RunError) -> BenchPlanError {
        BenchPlanError::Run(error)
    }
}

/// `20 ms`, `45 s`, `4 min 05 s`, `2 h 03 min`.
pub fn duration(t: Nanos) -> String {
    if t < Nanos::secs(1) {
        return format!("{} ms", t.0.div_ceil(1_000_000));
    }
    let s = t.0.div_ceil(1_000_000_000);
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

/// `384 MB`, `1.2 GB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// A time as `--time` takes it, rounded up.
pub fn as_flag(t: Nanos) -> String {
    let s = t.0.div_ceil(1_000_000_000);
    match s {
        _ if t < Nanos::secs(1) => format!("{}ms", t.0.div_ceil(1_000_000)),
        0..600 => format!("{s}s"),
        _ => format!("{}min", s.div_ceil(60)),
    }
}

/// Bytes as `--write-budget` takes them, rounded up.
pub fn as_budget(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{}MB", bytes.div_ceil(1_000_000)),
        _ => format!("{}GB", bytes.div_ceil(1_000_000_000)),
    }
}
