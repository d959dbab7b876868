//! Writing where there are no users to guard against, or none that this crate knows.

use crate::mark::Kind;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Why something was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// The system refused.
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something stands there that hoistway did not write.
    Foreign {
        /// Where.
        path: PathBuf,
    },
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            PlaceError::Foreign { path } => write!(
                f,
                "{}: is a file that hoistway did not write; choose another name, or remove it first",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PlaceError {}

/// Writes a file. What stands there is replaced if hoistway wrote it.
///
/// # Errors
///
/// [`PlaceError`].
pub fn write(path: &Path, bytes: &[u8], ours: Kind) -> Result<(), PlaceError> {
    match fs::read(path) {
        Ok(there) if !ours.is(&there) => return Err(PlaceError::Foreign { path: path.into() }),
        _ => {}
    }
    fs::write(path, bytes).map_err(|error| PlaceError::Io { path: path.into(), error })
}
