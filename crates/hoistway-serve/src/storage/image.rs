//! The file that holds an emulated drive's data.

use crate::error::{ServeError, os};
use hoistway_files::Place;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Opens the file, for this program alone. It is made where there is none; an empty one gets the drive's size. One of
/// another size is somebody's data: it would be cut, or written on beyond its end. `admit` is asked before anything
/// stays changed.
///
/// # Errors
///
/// When it cannot be had, is no file, has another size, or another server holds it; what `admit` returns.
pub fn open(
    path: &Path,
    size: u64,
    admit: impl FnOnce() -> Result<(), ServeError>,
) -> Result<File, ServeError> {
    let place = Place::of(path)?;
    if place.what()?.is_some() {
        let file = place.open_writable()?;
        return prepare(&file, path, size, admit).map(|()| file);
    }
    let file = place.create(0o666)?;
    prepare(&file, path, size, admit).map(|()| file).inspect_err(|_| {
        // What was not there before is not there after; the error that led here is the one to report.
        let _ = place.remove_file();
    })
}

fn prepare(
    file: &File,
    path: &Path,
    size: u64,
    admit: impl FnOnce() -> Result<(), ServeError>,
) -> Result<(), ServeError> {
    let name = || path.display().to_string();
    let refused = |why: String| Err(ServeError::Refused(format!("{}: {why}", name())));
    let before = file.metadata().map_err(os(name()))?;
    if before.len() > size {
        return refused(format!(
            "has {} bytes, more than the {size} of the drive; it would be cut off",
            before.len()
        ));
    }
    if before.len() != size && before.len() != 0 {
        return refused(format!(
            "has {} bytes, and the drive {size}: it is no store of this drive; name another, or give it that size \
             (`truncate -s {size}`) if its data may be overwritten",
            before.len()
        ));
    }
    if before.nlink() != 1 {
        return refused(format!("has {} names (hard links); name another", before.nlink()));
    }
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return refused("another program has locked it".into()),
        locked => locked.map_err(os(name()))?,
    }
    admit()?;
    file.set_len(size).map_err(os(name()))
}
