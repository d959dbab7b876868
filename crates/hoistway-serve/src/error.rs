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
pub enum LiveError {
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
    /// The machine lacks something.
    Lack(hoistway_run::Lack),
    /// What is asked for contradicts itself, or does not fit the device; the message says how.
    Refused(String),
    /// A program that was run for it failed, or another one is at the same work; the message says which and how.
    Program(String),
    /// A kernel in virtual time died, hung, or left no answer. The host may have caused it: another attempt is worth it.
    Guest(String),
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

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveError::Os { what, error } => write!(f, "{what}: {error}"),
            LiveError::NotADisk(path) => write!(
                f,
                "{}: is empty, or neither a file nor a block device; make a file with \
                 `truncate -s SIZE`",
                path.display()
            ),
            LiveError::Stack(error) => error.fmt(f),
            LiveError::NoSuchController(name) => {
                write!(f, "no controller '{name}'; `hoistway list controllers` lists them")
            }
            LiveError::BadName(name) => {
                write!(f, "the name '{name}' is empty or taken; names are unique")
            }
            LiveError::TooFast { drive, drive_figure, machine_figure } => write!(
                f,
                "{drive} does {drive_figure}, but this machine can carry {machine_figure}; choose a \
                 slower drive"
            ),
            LiveError::Target(error) => error.fmt(f),
            LiveError::Overlay { path, error } => write!(f, "{}: {error}", path.display()),
            LiveError::Lack(lack) => lack.fmt(f),
            LiveError::Refused(message)
            | LiveError::Program(message)
            | LiveError::Guest(message) => f.write_str(message),
            LiveError::NotFlushed { device, why } => write!(
                f,
                "{device}: {why}; what was written since the last successful flush may be lost"
            ),
            LiveError::Closed => f.write_str("the device was closed"),
        }
    }
}

impl std::error::Error for LiveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LiveError::Os { error, .. } => Some(error),
            LiveError::Stack(error) => Some(error),
            LiveError::Target(error) => Some(error),
            LiveError::Overlay { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<TargetError> for LiveError {
    fn from(error: TargetError) -> LiveError {
        LiveError::Target(error)
    }
}

impl From<PlaceError> for LiveError {
    fn from(error: PlaceError) -> LiveError {
        match error {
            PlaceError::Io { path, error } => {
                LiveError::Os { what: path.display().to_string(), error }
            }
            error => LiveError::Refused(error.to_string()),
        }
    }
}

impl From<StackError> for LiveError {
    fn from(error: StackError) -> LiveError {
        LiveError::Stack(error)
    }
}

/// Names what was tried when the system said no.
pub fn os<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> LiveError {
    let what = what.into();
    move |error| LiveError::Os { what, error: error.into() }
}
