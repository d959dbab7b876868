//! A new run directory in the place of an older one: what hoistway wrote goes, what somebody has put beside it stays.

use super::{DERIVED, MANIFEST_FILE, OLD_SERIES, RECORDS};
use crate::result::kept::is_kept;
use hoistway_files::{Dir, Kind, Place, PlaceError};
use std::ffi::OsStr;
use std::io::{self, Read};

/// The folder with fio's documents (`--output-format fio-json`).
const FIO: &str = "fio";
/// Files of the records, with and without `.gz`.
const OF_RECORDS: [&str; 5] =
    ["histograms.json", "intervals.csv", "marks.csv", "monitor.csv", "files.csv"];

/// Refuses a place where a run directory cannot stand: something else than a folder, a folder of others, or an older run
/// in which a link or a folder bears the name of a file.
pub(super) fn check(place: &Place) -> Result<(), PlaceError> {
    place.may_hold(is_run)?;
    if place.identity()?.is_none() {
        return Ok(());
    }
    let dir = place.open_dir()?;
    for name in dir.names()? {
        let is_folder = name == RECORDS || name == FIO;
        if is_folder {
            dir.place(&name)?.may_hold(|_| true)?;
        } else if is_ours(None, &name) {
            dir.place(&name)?.may_replace(Kind::Named)?;
        }
    }
    Ok(())
}

/// Whether a folder is a run directory: its manifest is one of hoistway's.
fn is_run(dir: &Dir) -> bool {
    let manifest = dir.place(MANIFEST_FILE).and_then(|place| place.open());
    let Ok(manifest) = manifest else { return false };
    let mut head = Vec::new();
    if manifest.take(HEAD).read_to_end(&mut head).is_err() {
        return false;
    }
    // The first lines of every version; a long description follows them.
    let mut lines = head.split(|byte| *byte == b'\n');
    ["schema = ", "experiment = ", "title = "]
        .iter()
        .all(|key| lines.next().is_some_and(|line| line.starts_with(key.as_bytes())))
}

/// Whether a folder holds run directories, or finished runs of one that is not whole yet; `deep`: or folders of such.
pub fn holds_runs(dir: &Dir, deep: bool) -> bool {
    let names = dir.names().unwrap_or_default();
    let below = names.iter().take(LOOKS).filter_map(|name| dir.place(name).ok()?.open_dir().ok());
    let mut below = below.filter(|dir| !dir.names().unwrap_or_default().is_empty());
    below.any(|dir| is_run(&dir) || is_kept(&dir) || (deep && holds_runs(&dir, false)))
}

/// Whether hoistway writes a file of that name into a run directory, or into one of its folders.
fn is_ours(folder: Option<&str>, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    match folder {
        None => name == MANIFEST_FILE || name == OLD_SERIES || DERIVED.contains(&name),
        Some(RECORDS) => OF_RECORDS.contains(&name.strip_suffix(".gz").unwrap_or(name)),
        Some(_) => name.ends_with(".json"),
    }
}

/// Puts the folder at `part`, which is `new`, in the place of what stands at `place`.
pub(super) fn exchange(place: &Place, part: &Place, new: &Dir) -> Result<(), PlaceError> {
    if place.identity()?.is_none() {
        return part.rename_new(place);
    }
    let old_dir = place.open_dir()?;
    let (old, ()) = place.new_beside("old", |old| place.rename_new(old))?;
    if let Err(error) = part.rename_new(place) {
        // The old one back; the error that led here is the one to report.
        let _ = old.rename_new(place);
        return Err(error);
    }
    clear(&old_dir, Some(new), None)?;
    match old.remove_dir() {
        // Somebody's file has the name of one of ours, in another form.
        Err(e) if e.kind() == Some(io::ErrorKind::DirectoryNotEmpty) => Ok(()),
        removed => removed,
    }
}

/// Removes what is ours from an older folder, and moves what is not into the new one.
fn clear(old: &Dir, new: Option<&Dir>, folder: Option<&str>) -> Result<(), PlaceError> {
    for name in old.names()? {
        let place = old.place(&name)?;
        if folder.is_none() && (name == RECORDS || name == FIO) {
            let inner = place.open_dir()?;
            let beside = new.and_then(|new| new.place(&name).ok()?.open_dir().ok());
            clear(&inner, beside.as_ref(), name.to_str())?;
            if inner.names()?.is_empty() {
                place.remove_dir()?;
                continue;
            }
        } else if is_ours(folder, &name) && place.may_replace(Kind::Named).is_ok() {
            place.remove_file()?;
            continue;
        }
        let Some(new) = new else { continue };
        match place.rename_new(&new.place(&name)?) {
            Err(e) if e.kind() == Some(io::ErrorKind::AlreadyExists) => {}
            moved => moved?,
        }
    }
    Ok(())
}

/// Names that are looked at in a folder that may be anybody's.
const LOOKS: usize = 10_000;

/// More than the first lines of a manifest.
const HEAD: u64 = 4096;
