//! What can go wrong with a world, an emulated drive, a probe or a kernel.

use hoistway_files::PlaceError;
use hoistway_run::Lack;
use hoistway_serve::ServeError;
use hoistway_serve::storage::TargetError;
use std::fmt;
use std::io;

/// Why something of this machine could not be used, changed or carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum MachineError {
    /// A file, device or program could not be used.
    Os {
        /// What was tried, with its name.
        what: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The machine lacks something.
    Lack(Lack),
    /// What is asked for contradicts itself, or does not fit the place; the message says how.
    Refused(String),
    /// A program that was run for it failed, or another one is at the same work; the message says which and how.
    Program(String),
    /// A kernel in virtual time died, hung, or left no answer. The host may have caused it: another attempt is worth it.
    Guest(String),
    /// The storage under it could not be set up.
    Serve(ServeError),
}

impl MachineError {
    /// It is the machine that lacks something, and not what was asked for that is wrong.
    pub fn is_of_environment(&self) -> bool {
        let too_fast = |e: &ServeError| matches!(e, ServeError::TooFast { .. });
        match self {
            MachineError::Os { .. } | MachineError::Lack(_) => true,
            MachineError::Serve(error) => too_fast(error),
            _ => false,
        }
    }
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::Os { what, error } => write!(f, "{what}: {error}"),
            MachineError::Lack(lack) => lack.fmt(f),
            MachineError::Refused(message)
            | MachineError::Program(message)
            | MachineError::Guest(message) => f.write_str(message),
            MachineError::Serve(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MachineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MachineError::Os { error, .. } => Some(error),
            MachineError::Serve(error) => error.source(),
            _ => None,
        }
    }
}

/// What both crates have is one thing to whoever asks which it is.
impl From<ServeError> for MachineError {
    fn from(error: ServeError) -> MachineError {
        match error {
            ServeError::Os { what, error } => MachineError::Os { what, error },
            ServeError::Refused(message) => MachineError::Refused(message),
            error => MachineError::Serve(error),
        }
    }
}

impl From<TargetError> for MachineError {
    fn from(error: TargetError) -> MachineError {
        ServeError::from(error).into()
    }
}

impl From<PlaceError> for MachineError {
    fn from(error: PlaceError) -> MachineError {
        ServeError::from(error).into()
    }
}

/// Names what was tried when the system said no.
pub(crate) fn os<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> MachineError {
    let what = what.into();
    move |error| MachineError::Os { what, error: error.into() }
}
