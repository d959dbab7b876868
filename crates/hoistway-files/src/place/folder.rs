//! Folders of output, and folders for a while.

use super::{Dir, Identity, Place, PlaceError, is, kind};
use crate::mark::{FOLDER, FOLDER_TEXT, Kind};
use rustix::fs::{Access, AtFlags, FileType};
use std::path::Path;

impl Place {
    /// Whether a folder may be put here: nothing stands here, or an empty folder, or one that is `ours`.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Foreign`] for whatever else stands here; what the system says where nothing may be made.
    pub fn may_hold(&self, ours: impl FnOnce(&Dir) -> bool) -> Result<(), PlaceError> {
        let Some(stat) = self.stat()? else { return self.dir.may_change() };
        let foreign = |is| Err(PlaceError::Foreign { path: self.path(), is });
        if !is(&stat, FileType::Directory) {
            return foreign(kind(&stat));
        }
        let dir = self.open_dir()?;
        if !dir.names()?.is_empty() && !ours(&dir) {
            return foreign("a folder with something in it");
        }
        dir.may_change()
    }

    /// Whether a folder of output may stand here: as [`Place::may_hold`]. Ours is one that bears the file `.hoistway`, or
    /// that an earlier version wrote, of which `known` says so.
    ///
    /// # Errors
    ///
    /// As [`Place::may_hold`].
    pub fn may_fill(&self, known: impl FnOnce(&Dir) -> bool) -> Result<(), PlaceError> {
        self.may_hold(|dir| dir.holds(FOLDER, Kind::Marked) || known(dir))
    }

    /// Opens the folder of output that stands here, or makes it. From then on it is ours.
    ///
    /// # Errors
    ///
    /// As [`Place::may_fill`].
    pub fn fill(&self, known: impl FnOnce(&Dir) -> bool) -> Result<Dir, PlaceError> {
        self.may_fill(known)?;
        let dir = match self.stat()? {
            Some(_) => self.open_dir()?,
            None => self.make_dir(0o777)?,
        };
        if !dir.holds(FOLDER, Kind::Marked) {
            dir.place(FOLDER)?.replace(FOLDER_TEXT.as_bytes(), Kind::Marked)?;
        }
        Ok(dir)
    }
}

impl Dir {
    /// Whether a file of that name is in it, and is ours.
    pub fn holds(&self, name: &str, ours: Kind) -> bool {
        let place = self.place(name);
        place.is_ok_and(|place| {
            place.stat().is_ok_and(|stat| stat.is_some()) && place.may_replace(ours).is_ok()
        })
    }

    /// Whether this user may make and remove names in it.
    ///
    /// # Errors
    ///
    /// What the system says against it.
    pub fn may_change(&self) -> Result<(), PlaceError> {
        let rights = Access::WRITE_OK | Access::EXEC_OK;
        let told = rustix::fs::accessat(&self.fd, ".", rights, AtFlags::EACCESS);
        told.map_err(|e| self.io(e.into()))
    }
}

/// A folder for what a program needs for a while. It belongs to this user alone, and is gone with this.
#[derive(Debug)]
pub struct Scratch {
    place: Place,
    dir: Dir,
    made: Identity,
}

impl Scratch {
    /// A new one in the system's folder for such: `hoistway-WHAT-PID`, or one with a number.
    ///
    /// # Errors
    ///
    /// As [`Place::of`] and [`Place::make_dir`].
    pub fn new(what: &str) -> Result<Scratch, PlaceError> {
        Scratch::below(&std::env::temp_dir(), what)
    }

    pub(super) fn below(folder: &Path, what: &str) -> Result<Scratch, PlaceError> {
        let folder = Dir::open(folder)?;
        let mut number = 0;
        loop {
            let more = if number == 0 { String::new() } else { format!("-{number}") };
            let place = folder.place(format!("hoistway-{what}-{}{more}", std::process::id()))?;
            match place.make_dir(0o700) {
                Ok(dir) => return Ok(Scratch { made: dir.identity()?, place, dir }),
                // Numbers of processes come again: one of that number was killed and left its folder.
                Err(e)
                    if e.kind() == Some(std::io::ErrorKind::AlreadyExists) && number < OTHERS =>
                {
                    number += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// It, to make something in.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's folder for such.
        let _ = self.place.remove_tree(self.made);
    }
}

/// Folders of others, or of processes that were killed, that are passed over.
const OTHERS: u32 = 10_000;
