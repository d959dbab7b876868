//! The world of the recorded kernel runs.

pub mod host;
pub mod scenario;
