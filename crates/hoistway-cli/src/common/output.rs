//! What a command writes: to stdout, and into files and folders that options name.
//!
//! Nothing of others is replaced, and no link is followed in the last component: the rules are those of `hoistway-files`. What
//! an option names is looked at before long work begins, so that its results are not lost at the end.

use crate::failure::Failure;
use hoistway_files::{Dir, Kind, Place, PlaceError, shown};
use std::io::Write as _;
use std::path::Path;

/// Data goes to stdout, shown as on every terminal ([`crate::common::terminal`]). A reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let text = shown::text(text);
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("stdout: {e}")))
        }
        _ => Ok(()),
    }
}

/// What stands there is the caller's mistake; what the system refuses is the environment's.
pub fn failure(flag: &str, error: PlaceError) -> Failure {
    match error {
        PlaceError::Io { .. } => {
            Failure::Environment(format!("{flag} {error}; choose a place that can be written"))
        }
        error => Failure::Usage(format!("{flag} {error}")),
    }
}

/// Whether a file may be written, for whoever asks before the work.
pub fn check(flag: &str, path: Option<&Path>, ours: Kind) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    hoistway_files::may_write(path, ours).map_err(|e| failure(flag, e))
}

/// Writes a file, as a whole.
pub fn write(flag: &str, path: &Path, text: &str, ours: Kind) -> Result<(), Failure> {
    hoistway_files::write(path, text.as_bytes(), ours).map_err(|e| failure(flag, e))
}

/// Whether a folder may be written into, for whoever asks before the work. `known`: how an earlier version's is told.
pub fn check_folder(
    flag: &str,
    path: Option<&Path>,
    known: impl FnOnce(&Dir) -> bool,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    match Place::of(path).and_then(|place| place.may_fill(known)) {
        // It is made with those above it.
        Err(e) if e.kind() == Some(std::io::ErrorKind::NotFound) => Ok(()),
        other => other.map_err(|e| failure(flag, e)),
    }
}

/// A folder of output, made where it is missing.
#[derive(Debug)]
pub struct Folder<'a> {
    flag: &'a str,
    dir: Dir,
}

impl<'a> Folder<'a> {
    /// Opens or makes it, with those above it.
    pub fn open(
        flag: &'a str,
        path: &Path,
        known: impl FnOnce(&Dir) -> bool,
    ) -> Result<Folder<'a>, Failure> {
        let dir = Place::make(path).and_then(|place| place.fill(known));
        Ok(Folder { flag, dir: dir.map_err(|e| failure(flag, e))? })
    }

    /// A folder in it.
    pub fn folder(&self, name: impl AsRef<Path>) -> Result<Folder<'a>, Failure> {
        let dir = self.dir.place(name.as_ref()).and_then(|place| place.fill(|_| false));
        Ok(Folder { flag: self.flag, dir: dir.map_err(|e| failure(self.flag, e))? })
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, bytes: &[u8], ours: Kind) -> Result<(), Failure> {
        let written = self.dir.place(name).and_then(|place| place.replace(bytes, ours));
        written.map_err(|e| failure(self.flag, e))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}
