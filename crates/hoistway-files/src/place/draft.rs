//! Files that are written piece by piece, and appear at the end.

use super::{Identity, Place, PlaceError};
use crate::input::is_descriptor;
use crate::mark::Kind;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that appears under its name as a whole, by [`Draft::finish`]. Without that it is gone.
#[derive(Debug)]
pub struct Draft {
    place: Place,
    ours: Kind,
    part: Place,
    file: File,
    made: Identity,
}

impl Place {
    /// Begins a file that is to stand here, beside what does so far.
    ///
    /// # Errors
    ///
    /// As [`Place::may_replace`].
    pub fn draft(&self, ours: Kind) -> Result<Draft, PlaceError> {
        self.may_replace(ours)?;
        let place = self.dir.place(&self.name)?;
        let (part, file) = self.new_beside("part", |part| part.create(0o666))?;
        let made = Identity::of(&file).map_err(|e| part.io(e))?;
        Ok(Draft { place, ours, part, file, made })
    }

    /// Makes something beside it, under a hidden name that nothing has: `.NAME.WHAT-PID`, or one with a number. Numbers of
    /// processes come again, and a killed process leaves what it had begun.
    ///
    /// # Errors
    ///
    /// What `make` says, which is asked again where something stands already.
    pub fn new_beside<T>(
        &self,
        what: &str,
        make: impl Fn(&Place) -> Result<T, PlaceError>,
    ) -> Result<(Place, T), PlaceError> {
        let mut number = 0;
        loop {
            let mut name = OsString::from(".");
            name.push(&self.name);
            name.push(format!(".{what}-{}", std::process::id()));
            if number > 0 {
                name.push(format!("-{number}"));
            }
            let place = self.dir.place(name)?;
            match make(&place) {
                Ok(made) => return Ok((place, made)),
                Err(e) if e.kind() == Some(io::ErrorKind::AlreadyExists) && number < BESIDE => {
                    number += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Renames what stands here to another name, under which nothing may stand.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`] with `AlreadyExists`, and what else the system says.
    pub fn rename_new(&self, to: &Place) -> Result<(), PlaceError> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            let new = RenameFlags::NOREPLACE;
            match renameat_with(&self.dir.fd, &self.name, &to.dir.fd, &to.name, new) {
                // A file system that does not know it.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                Err(Errno::EXIST) => return Err(to.io(Errno::EXIST)),
                renamed => return renamed.map_err(|e| self.io(e)),
            }
        }
        match to.stat()? {
            Some(_) => Err(to.io(Errno::EXIST)),
            None => self.rename(to),
        }
    }
}

impl Draft {
    /// Gives the file its name.
    ///
    /// # Errors
    ///
    /// As [`Place::may_replace`], since something else may stand there by now.
    pub fn finish(self) -> Result<(), PlaceError> {
        self.place.may_replace(self.ours)?;
        self.part.rename(&self.place)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Where it was finished nothing stands under this name any more.
        let _ = self.part.remove_made(self.made);
    }
}

/// What a person has named to be written: a [`Draft`], or a descriptor or `/dev/null`, into which it goes straight.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    Straight(File),
    Draft(Draft),
}

impl Output {
    /// Begins to write.
    ///
    /// # Errors
    ///
    /// As [`Place::of`] and [`Place::may_replace`].
    pub fn begin(path: &Path, ours: Kind) -> Result<Output, PlaceError> {
        let to = if is_straight(path) {
            let file = File::options().append(true).open(path);
            To::Straight(file.map_err(|error| PlaceError::Io { path: path.into(), error })?)
        } else {
            To::Draft(Place::of(path)?.draft(ours)?)
        };
        Ok(Output { path: path.into(), to })
    }

    /// Ends it: the file has its name.
    ///
    /// # Errors
    ///
    /// As [`Draft::finish`].
    pub fn finish(self) -> Result<(), PlaceError> {
        match self.to {
            To::Straight(_) => Ok(()),
            To::Draft(draft) => draft.finish(),
        }
    }

    /// What a person has named.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Straight(file) => file.write(bytes),
            To::Draft(draft) => draft.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Straight(file) => file.flush(),
            To::Draft(draft) => draft.flush(),
        }
    }
}

/// Writes a file that a person has named: as [`Place::replace`], or straight into what is no file at all, such as
/// `/dev/stdout` and `/dev/null`.
///
/// # Errors
///
/// As [`Place::replace`].
pub fn write(path: &Path, bytes: &[u8], ours: Kind) -> Result<(), PlaceError> {
    let mut output = Output::begin(path, ours)?;
    output.write_all(bytes).map_err(|error| PlaceError::Io { path: path.into(), error })?;
    output.finish()
}

/// Whether [`write()`] would find its way free: for whoever asks before long work.
///
/// # Errors
///
/// As [`write()`].
pub fn may_write(path: &Path, ours: Kind) -> Result<(), PlaceError> {
    if is_straight(path) {
        return Ok(());
    }
    let place = Place::of(path)?;
    place.may_replace(ours)?;
    place.dir.may_change()
}

fn is_straight(path: &Path) -> bool {
    is_descriptor(path) || path == Path::new("/dev/null")
}

/// Names that are tried beside a place.
const BESIDE: u32 = 100;
