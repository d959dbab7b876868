//! What can go wrong outside an I/O: opening, configuring, serving.

use crate::storage::{OverlayError, TargetError};
use hoistway::stack::StackError;
use hoistway_files::PlaceError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a device or server could not be set up.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// A file, device or socket could not be used.
    Os {
        /// What was tried, with its name.
        what: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The file is empty, or neither a file nor a block device.
    NotADisk(PathBuf),
    /// The stack refused a setting.
    Stack(StackError),
    /// A controller of that name does not exist.
    NoSuchController(String),
    /// Two tenants or exports have the same name, or a name is empty.
    BadName(String),
    /// A drive model serves more than this machine can carry.
    TooFast {
        /// The drive.
        drive: String,
        /// What the drive does, with unit.
        drive_figure: String,
        /// What this machine does, with unit.
        machine_figure: String,
    },
    /// A target cannot be what was written.
    Target(TargetError),
    /// An overlay is not taken.
    Overlay {
        /// Its file.
        path: PathBuf,
        /// Why.
        error: OverlayError,
    },
    /// What is asked for contradicts itself, or does not fit the device; the message says how.
    Refused(String),
    /// A device was closed, but what was written since its last flush may be lost.
    NotFlushed {
        /// Which.
        device: String,
        /// What went wrong.
        why: String,
    },
    /// The thread that owns the device is gone.
    Closed,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Os { what, error } => write!(f, "{what}: {error}"),
            ServeError::NotADisk(path) => write!(
                f,
                "{}: is empty, or neither a file nor a block device; make a file with \
                 `truncate -s SIZE`",
                path.display()
            ),
            ServeError::Stack(error) => error.fmt(f),
            ServeError::NoSuchController(name) => {
                write!(f, "no controller '{name}'; `hoistway list controllers` lists them")
            }
            ServeError::BadName(name) => {
                write!(f, "the name '{name}' is empty or taken; names are unique")
            }
            ServeError::TooFast { drive, drive_figure, machine_figure } => write!(
                f,
                "{drive} does {drive_figure}, but this machine can carry {machine_figure}; choose a \
                 slower drive"
            ),
            ServeError::Target(error) => error.fmt(f),
            ServeError::Overlay { path, error } => write!(f, "{}: {error}", path.display()),
            ServeError::Refused(message) => f.write_str(message),
            ServeError::NotFlushed { device, why } => write!(
                f,
                "{device}: {why}; what was written since the last successful flush may be lost"
            ),
            ServeError::Closed => f.write_str("the device was closed"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Os { error, .. } => Some(error),
            ServeError::Stack(error) => Some(error),
            ServeError::Target(error) => Some(error),
            ServeError::Overlay { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<TargetError> for ServeError {
    fn from(error: TargetError) -> ServeError {
        ServeError::Target(error)
    }
}

impl From<PlaceError> for ServeError {
    fn from(error: PlaceError) -> ServeError {
        match error {
            PlaceError::Io { path, error } => {
                ServeError::Os { what: path.display().to_string(), error }
            }
            error => ServeError::Refused(error.to_string()),
        }
    }
}

impl From<StackError> for ServeError {
    fn from(error: StackError) -> ServeError {
        ServeError::Stack(error)
    }
}

/// Names what was tried when the system said no.
pub(crate) fn os<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ServeError {
    let what = what.into();
    move |error| ServeError::Os { what, error: error.into() }
}
