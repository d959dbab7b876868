//! Why a module is not loaded.

use hoistway_files::ReadError;
use hoistway_files::shown;
use std::fmt;
use std::path::PathBuf;

/// Why a module is not loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum PluginError {
    /// Its file was not read.
    Read(ReadError),
    /// The interface does not allow it.
    Wrong {
        /// The file, or the name of a scheduler of the program.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PluginError::Read(error) => error.fmt(f),
            PluginError::Wrong { path, what } => {
                // Names in a module are a stranger's.
                write!(f, "{}: {}", path.display(), shown::line(what))
            }
        }
    }
}

impl std::error::Error for PluginError {}
