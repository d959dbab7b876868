//! How what goes wrong is told in Python: the text is that of the command line.

use hoistway_lab::result::DirectoryError;
use hoistway_lab::run::RunError;
use hoistway_run::JobError;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError,
};
use std::fmt::Display;
use std::io::ErrorKind;

/// What was asked for in a wrong way.
pub fn wrong(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A run directory that cannot be read or written.
pub fn directory(error: DirectoryError) -> PyErr {
    let what = error.to_string();
    match error {
        DirectoryError::Io { error, .. } if error.kind() == ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(what)
        }
        DirectoryError::Io { .. } => PyOSError::new_err(what),
        _ => PyValueError::new_err(what),
    }
}

/// Runs that did not end.
pub fn run(error: RunError) -> PyErr {
    let what = error.to_string();
    match error {
        RunError::Interrupted { .. } => PyKeyboardInterrupt::new_err(()),
        RunError::Broken { .. }
        | RunError::Scheduler { .. }
        | RunError::Job { error: JobError::Storage { .. }, .. } => PyRuntimeError::new_err(what),
        RunError::Keep { .. } => PyOSError::new_err(what),
        _ => PyValueError::new_err(what),
    }
}
