//! Why the stack refuses an input.

use super::IoId;
use crate::group::{GroupId, ProcId};
use crate::knob::KnobError;
use crate::request::ReqId;
use crate::setting::TunableError;
use crate::unit::Instant;
use alloc::string::String;
use core::fmt;

/// Why an input was refused. Nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// A tunable was refused.
    Tunable(TunableError),
    /// A line for a cgroup file was refused; the setting before it stays.
    Knob {
        /// The file.
        file: String,
        /// The line.
        line: String,
        /// The accepted form; empty for an unknown file.
        form: &'static str,
        /// The error.
        error: KnobError,
    },
    /// No such controller is installed, or the stage has no settings of groups.
    NoSuchStage(String),
    /// A request id that is not in the device's hands.
    StaleRequest(ReqId),
    /// Empty, beyond the device, a discard on a device that knows none, above the limits in the legacy
    /// profile (where nothing is split), or a barrier in the multi-queue profile (which has none).
    BadIo(IoId),
    /// The process was never added.
    NoSuchProcess(ProcId),
    /// The group was never added, or (settings) was removed.
    NoSuchGroup(GroupId),
    /// This scheduler does not exist in the profile of the device.
    WrongProfile(&'static str),
    /// Outputs of the call before wait ([`Stack::ready`](super::Stack::ready)).
    Undrained,
    /// The time is earlier than that of the call before ([`Stack::ready`](super::Stack::ready)).
    TimeWentBack {
        /// The time.
        now: Instant,
        /// That of the call before.
        before: Instant,
    },
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackError::Tunable(error) => error.fmt(f),
            StackError::Knob { file, line, form, error } => {
                write!(f, "{file}: '{line}': {error}")?;
                if form.is_empty() { Ok(()) } else { write!(f, "; the form is: {form}") }
            }
            StackError::NoSuchStage(name) => {
                write!(f, "no stage '{name}' takes this setting; install that controller first")
            }
            StackError::StaleRequest(id) => write!(
                f,
                "request {} (generation {}) is not with the device; answer each Issue once, by Done \
                 or Requeue",
                id.slot(),
                id.0.generation
            ),
            StackError::BadIo(io) => write!(
                f,
                "I/O {} is empty, ends beyond the device or is of a kind or size the device does not \
                 take; check its range, operation and flags against the device's limits",
                io.0
            ),
            StackError::NoSuchProcess(proc) => {
                write!(f, "process {} is unknown; add it with add_proc first", proc.0)
            }
            StackError::NoSuchGroup(group) => {
                write!(f, "group {} does not exist; add it with add_group first", group.0)
            }
            StackError::WrongProfile(name) => write!(
                f,
                "'{name}' exists in the multi-queue profile only; choose another scheduler or profile"
            ),
            StackError::Undrained => {
                f.write_str("outputs wait; drain poll() until WaitUntil before the next input")
            }
            StackError::TimeWentBack { now, before } => write!(
                f,
                "{} ns is earlier than {} ns, the time of the call before; time never goes back",
                now.as_nanos(),
                before.as_nanos()
            ),
        }
    }
}

impl core::error::Error for StackError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            StackError::Tunable(error) => Some(error),
            StackError::Knob { error, .. } => Some(error),
            _ => None,
        }
    }
}
