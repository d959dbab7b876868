//! What a run is told and what it yields: the language that every world speaks, the simulator as the kernel.
//!
//! A job names processes ([`ProcSpec`]), groups, a scheduler and controllers. An [`Outcome`] has what each process and
//! the device did. Each type is described once, here: its fields are those of the records in run directories, by
//! `serde`, with the unit in the name where it is written. The drive and the host of a job are the simulator's.
//!
//! To add a figure to a process's record, add a field to [`ProcRecord`] with `#[serde(default)]`, so that older runs can
//! be read, and count it where the record is made (`hoistway-sim/src/world/record.rs`).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod codec;
mod ended;
mod error;
mod hist;
mod job;
mod lack;
pub mod plain;
mod record;
#[cfg(test)]
mod tests;

pub use codec::{DecodeError, decode, encode};
pub use ended::{SchedulerFault, end_run};
pub use error::JobError;
pub use hist::{Histogram, Slots, highest_of, lowest_of};
pub use job::{
    ControlSpec, ControllerSpec, GroupSpec, ProcSpec, Role, SchedulerSpec, TraceMode, Window,
};
pub use lack::Lack;
pub use record::{
    DeviceRecord, Interval, Mark, Monitor, NamedFigure, Outcome, PhaseRecord, ProcRecord,
    TargetRecord, UNFINISHED, put_series, series,
};
