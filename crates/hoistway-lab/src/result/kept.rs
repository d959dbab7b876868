//! Finished runs of a grid that is not finished: one file each in a folder beside the place of the run
//! directory, so that the same command goes on where an interrupted one ended.
//!
//! ```text
//! .NAME.partial/key              what the runs belong to: grid, command, program
//! .NAME.partial/000017.json.gz   the records of run 17 of the grid
//! ```
//!
//! Every run goes through this form, whether it is kept or not: results are the same bytes with and without
//! an interruption.

use super::directory::{DirectoryError, beside_name};
use super::{Rep, histograms};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hoistway_files::input::{self, Limit};
use hoistway_files::{Dir, Kind, Place, PlaceError};
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// Its records.
    pub rep: Rep,
    /// The scheduler's tunables in force at its end.
    pub tunables: Vec<(String, u64)>,
    /// The host's parameters in force.
    pub host: Vec<(String, String)>,
}

impl FinishedRun {
    /// Compressed, exact.
    pub fn encode(&self) -> Vec<u8> {
        // It is read once, when the grid is put together.
        plain(|all| {
            compress_as(Compression::fast(), all, |out| histograms::finished_json(self, out))
        })
    }

    /// What was encoded.
    pub fn decode(bytes: &[u8]) -> Result<FinishedRun, String> {
        histograms::read_finished(GzDecoder::new(bytes))
    }
}

/// Compresses as gzip does, without a time stamp: the same text gives the same bytes, however it comes.
pub(super) fn compress(
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    compress_as(Compression::default(), out, write)
}

/// What is written, as it is.
pub(super) fn plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).expect("a vector takes every byte");
    out
}

fn compress_as(
    level: Compression,
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // JSON comes in words.
    let mut out = BufWriter::new(GzEncoder::new(out, level));
    write(&mut out)?;
    out.into_inner()?.finish().map(drop)
}

/// The folder of a grid's finished runs. It comes into being with the first of them.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    /// What is in its file.
    key: String,
    /// The folder, once it and its key are there. Threads finish at the same time.
    dir: Mutex<Option<Arc<Dir>>>,
}

/// Finished runs that another command has left, perhaps on another machine: a folder that was a [`Kept`] one.
#[derive(Debug)]
pub struct KeptElsewhere {
    dir: Dir,
    key: String,
}

impl KeptElsewhere {
    /// The runs in a folder; `None` if it is no folder of finished runs.
    ///
    /// # Errors
    ///
    /// What cannot be read.
    pub fn open(folder: &Path) -> Result<Option<KeptElsewhere>, DirectoryError> {
        if !folder.join(KEY).is_file() {
            return Ok(None);
        }
        let dir = Dir::open(folder)?;
        if !is_kept(&dir) {
            return Ok(None);
        }
        let text = read(&dir, OsStr::new(KEY), KEY_FILE).and_then(|b| String::from_utf8(b).ok());
        let key = text.and_then(|text| Some(text.strip_prefix(HEAD)?.to_string()));
        Ok(key.map(|key| KeptElsewhere { dir, key }))
    }

    /// What the runs belong to ([`Grid::key`](crate::run::Grid::key)).
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The command of their grid: the last line of the key.
    pub fn command(&self) -> &str {
        self.key.lines().last().unwrap_or_default()
    }

    /// Copies the runs into a folder of the same key: `count` of them has the grid. Damaged ones are left out. The
    /// number of a run that is there already with other bytes ends it: one of the two machines does not compute right.
    ///
    /// # Errors
    ///
    /// What cannot be written; in `Ok`, the number of such a run.
    pub fn copy_to(&self, kept: &Kept, count: usize) -> Result<Option<usize>, DirectoryError> {
        for index in 0..count {
            let Some(bytes) = read(&self.dir, OsStr::new(&name_of(index)), RECORD) else {
                continue;
            };
            if FinishedRun::decode(&bytes).is_err() {
                continue;
            }
            match kept.bytes(index) {
                Some(there) if there == bytes => {}
                Some(there) if FinishedRun::decode(&there).is_ok() => return Ok(Some(index)),
                _ => kept.save(index, &bytes)?,
            }
        }
        Ok(None)
    }
}

/// What was found in the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// Runs of this grid.
    Ours,
    /// Runs of another command or program; they are gone.
    Others,
}

impl Kept {
    /// The folder for the run directory `dir`. `key`: equal for runs that may be put together. Runs of
    /// another key are removed, and with `fresh` those of this one.
    ///
    /// # Errors
    ///
    /// What cannot be read or removed.
    pub fn open(dir: &Path, key: &str, fresh: bool) -> Result<(Kept, Found), DirectoryError> {
        let folder = beside_name(dir, "partial");
        let kept = Kept { folder, key: format!("{HEAD}{key}"), dir: Mutex::new(None) };
        let Some(there) = kept.there()? else { return Ok((kept, Found::Nothing)) };
        let same =
            read(&there, OsStr::new(KEY), KEY_FILE).is_some_and(|text| text == kept.key.as_bytes());
        *kept.lock() = Some(Arc::new(there));
        if same && !fresh {
            return Ok((kept, Found::Ours));
        }
        kept.remove()?;
        Ok((kept, if same { Found::Nothing } else { Found::Others }))
    }

    /// Whether [`Kept::open`] would find its way free.
    ///
    /// # Errors
    ///
    /// Something of others in the place of the folder.
    pub fn check(dir: &Path) -> Result<(), DirectoryError> {
        let (folder, key) = (beside_name(dir, "partial"), String::new());
        Kept { folder, key, dir: Mutex::new(None) }.there()?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Dir>>> {
        self.dir.lock().expect("no thread panics while it holds the lock")
    }

    /// The folder, if there is one with something in it. One that is not ours is an error: nothing in it may be lost.
    fn there(&self) -> Result<Option<Dir>, PlaceError> {
        let place = match Place::of(&self.folder) {
            Err(e) if e.kind() == Some(io::ErrorKind::NotFound) => return Ok(None),
            place => place?,
        };
        place.may_hold(is_kept)?;
        if place.identity()?.is_none() {
            return Ok(None);
        }
        let dir = place.open_dir()?;
        Ok(if dir.names()?.is_empty() { None } else { Some(dir) })
    }

    /// The folder, made where it is missing.
    fn made(&self) -> Result<Arc<Dir>, PlaceError> {
        let mut dir = self.lock();
        if let Some(dir) = &*dir {
            return Ok(Arc::clone(dir));
        }
        let place = Place::make(&self.folder)?;
        place.may_hold(is_kept)?;
        let there = place.identity()?.is_some();
        let made = if there { place.open_dir() } else { place.make_dir(0o777) }?;
        made.place(KEY)?.replace(self.key.as_bytes(), Kind::Named)?;
        Ok(Arc::clone(dir.insert(Arc::new(made))))
    }

    fn dir(&self) -> Option<Arc<Dir>> {
        self.lock().clone()
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many runs are kept.
    pub fn count(&self) -> usize {
        let names = self.dir().and_then(|dir| dir.names().ok()).unwrap_or_default();
        names.iter().filter(|name| is_run(name)).count()
    }

    /// Keeps the record of run `index`. The file appears as a whole.
    ///
    /// # Errors
    ///
    /// What cannot be written.
    pub fn save(&self, index: usize, record: &[u8]) -> Result<(), DirectoryError> {
        Ok(self.made()?.place(name_of(index))?.replace(record, Kind::Named)?)
    }

    /// Run `index` is there; [`forget_damaged`](Kept::forget_damaged) has seen to it that it can be read.
    pub fn holds(&self, index: usize) -> bool {
        self.dir().is_some_and(|dir| dir.holds(&name_of(index), Kind::Named))
    }

    /// Run `index`; `None` if it was not kept, or is damaged.
    pub fn load(&self, index: usize) -> Option<FinishedRun> {
        self.read(index).ok()
    }

    /// The same.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn read(&self, index: usize) -> Result<FinishedRun, String> {
        let bytes = self.bytes(index).ok_or("its file cannot be read")?;
        FinishedRun::decode(&bytes)
    }

    fn bytes(&self, index: usize) -> Option<Vec<u8>> {
        read(&*self.dir()?, OsStr::new(&name_of(index)), RECORD)
    }

    /// Forgets those that are damaged: a file that appeared as a whole may be empty once the power was gone.
    ///
    /// # Errors
    ///
    /// What cannot be removed.
    pub fn forget_damaged(&self) -> Result<(), DirectoryError> {
        let Some(dir) = self.dir() else { return Ok(()) };
        for name in dir.names()?.iter().filter(|name| is_run(name)) {
            if read(&dir, name, RECORD).is_none_or(|bytes| FinishedRun::decode(&bytes).is_err()) {
                dir.place(name)?.remove_file()?;
            }
        }
        Ok(())
    }

    /// Forgets all of them.
    ///
    /// # Errors
    ///
    /// What cannot be removed.
    pub fn remove(&self) -> Result<(), DirectoryError> {
        let Some(dir) = self.lock().take() else { return Ok(()) };
        for name in dir.names()?.iter().filter(|name| is_run(name) || is_part(name)) {
            dir.place(name)?.remove_file()?;
        }
        // Somebody's file keeps the folder, which stays ours by its key.
        if dir.names()?.iter().all(|name| name == KEY) {
            dir.place(KEY)?.remove_file()?;
            Place::of(&self.folder)?.remove_dir()?;
        }
        Ok(())
    }
}

/// What a file of the folder holds, within a limit.
fn read(dir: &Dir, name: &OsStr, limit: Limit) -> Option<Vec<u8>> {
    input::bounded(dir.place(name).ok()?.open().ok()?, limit.bytes).ok()?
}

/// Whether a folder is one of finished runs, by its key.
pub(super) fn is_kept(dir: &Dir) -> bool {
    dir.holds(KEY, Kind::Begins(&[const { HEAD.as_bytes() }]))
}

fn name_of(index: usize) -> String {
    format!("{index:06}.json.gz")
}

fn is_run(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_suffix(".json.gz"));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a killed command has left a file of that name half written.
fn is_part(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with('.') && name.contains(".part-"))
}

const KEY: &str = "key";
const KEY_FILE: Limit = Limit { what: "the key of kept runs", bytes: 16 << 20 };
const RECORD: Limit = Limit { what: "the record of a run", bytes: 64 << 20 };

/// The first line of the key says whose the folder is.
const HEAD: &str = "Made by hoistway: finished runs\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::phases::tests::part;
    use crate::result::tests::{Folder, rep};

    fn finished() -> FinishedRun {
        let mut rep = rep(3, 10, "stuck");
        rep.procs[1].counts = vec![("frames_dropped".into(), 3)];
        rep.procs[1].phases =
            vec![part("write", (None, Some(5)), &[1, 2], 1), part("read", (Some(5), None), &[], 0)];
        FinishedRun {
            rep,
            tunables: vec![("fifo_batch".into(), 16)],
            host: vec![("ram".into(), "8589934592".into())],
        }
    }

    #[test]
    fn a_finished_run_is_read_back_exactly() {
        let run = finished();
        let back = FinishedRun::decode(&run.encode()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{run:?}"));
        assert_eq!(run.encode(), back.encode());
    }

    #[test]
    fn runs_are_kept_for_the_same_key_alone() {
        let folder = Folder::new("kept");
        let dir = folder.0.join("runs/x");
        let open = |key: &str, fresh| Kept::open(&dir, key, fresh).unwrap();
        let (kept, found) = open("a", false);
        assert_eq!((found, kept.load(0).is_none()), (Found::Nothing, true));
        assert!(!folder.0.join("runs").exists(), "nothing is made before it is needed");
        let record = finished().encode();
        kept.save(0, &record).unwrap();
        kept.save(1, b"damaged").unwrap();
        let (kept, found) = open("a", false);
        assert_eq!((found, kept.load(1).is_none()), (Found::Ours, true));
        assert_eq!(kept.load(0).unwrap().encode(), record);
        assert_eq!((kept.holds(1), kept.count()), (true, 2));
        kept.forget_damaged().unwrap();
        assert_eq!((kept.holds(0), kept.holds(1), kept.count()), (true, false, 1));
        let (kept, found) = open("b", false);
        assert_eq!((found, kept.load(0).is_none()), (Found::Others, true));
        kept.save(0, &record).unwrap();
        let (kept, found) = open("b", true);
        assert_eq!((found, kept.load(0).is_none()), (Found::Nothing, true));
    }
}
