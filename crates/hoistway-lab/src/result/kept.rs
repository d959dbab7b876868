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

use super::directory::{DirectoryError, beside_name, io_error};
use super::{Rep, records};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its records.
    pub rep: Rep,
    /// The scheduler's tunables in force at its end.
    pub tunables: Vec<(String, u64)>,
    /// The host's parameters in force.
    pub host: Vec<(String, String)>,
}

impl Finished {
    /// Compressed, exact.
    pub fn encode(&self) -> Vec<u8> {
        compressed(records::finished_json(self).as_bytes())
    }

    /// What was encoded.
    pub fn decode(bytes: &[u8]) -> Result<Finished, String> {
        records::read_finished(&expanded(bytes).map_err(|e| e.to_string())?)
    }
}

/// Compressed as gzip does, without a time stamp: the same text gives the same bytes.
pub(super) fn compressed(text: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written = out.write_all(text).and_then(|()| out.finish());
    written.expect("a vector takes every byte")
}

/// The text in compressed bytes.
pub(super) fn expanded(bytes: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text)?;
    Ok(text)
}

/// The folder of a grid's finished runs. It comes into being with the first of them.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    key: String,
    /// The folder and its key are there. Threads finish at the same time.
    made: Mutex<bool>,
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
        let kept = Kept { folder, key: key.to_string(), made: Mutex::new(false) };
        let found = match fs::read_to_string(kept.folder.join(KEY)) {
            Ok(text) if text == key && !fresh => Found::Ours,
            Ok(text) if text == key => Found::Nothing,
            Ok(_) => Found::Others,
            Err(_) if kept.folder.exists() => Found::Others,
            Err(_) => return Ok((kept, Found::Nothing)),
        };
        if found != Found::Ours {
            kept.remove()?;
        }
        Ok((kept, found))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many runs are kept.
    pub fn count(&self) -> usize {
        let Ok(entries) = fs::read_dir(&self.folder) else { return 0 };
        let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        names.filter(|name| name.ends_with(".json.gz")).count()
    }

    /// Keeps the record of run `index`. The file appears as a whole.
    ///
    /// # Errors
    ///
    /// What cannot be written.
    pub fn save(&self, index: usize, record: &[u8]) -> Result<(), DirectoryError> {
        let put = |path: &Path, bytes: &[u8]| {
            let part = path.with_extension(format!("part-{}", std::process::id()));
            fs::write(&part, bytes)
                .and_then(|()| fs::rename(&part, path))
                .map_err(|e| io_error(path, e))
        };
        let mut made = self.made.lock().expect("no thread panics while it holds the lock");
        if !*made {
            fs::create_dir_all(&self.folder).map_err(|e| io_error(&self.folder, e))?;
            put(&self.folder.join(KEY), self.key.as_bytes())?;
            *made = true;
        }
        drop(made);
        put(&self.file(index), record)
    }

    /// Run `index` is there; [`forget_damaged`](Kept::forget_damaged) has seen to it that it can be read.
    pub fn holds(&self, index: usize) -> bool {
        self.file(index).is_file()
    }

    /// Run `index`; `None` if it was not kept, or is damaged.
    pub fn load(&self, index: usize) -> Option<Finished> {
        Finished::decode(&fs::read(self.file(index)).ok()?).ok()
    }

    /// Forgets those that are damaged: a file that appeared as a whole may be empty once the power was gone.
    ///
    /// # Errors
    ///
    /// What cannot be removed.
    pub fn forget_damaged(&self) -> Result<(), DirectoryError> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for path in entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "gz")) {
            let whole = fs::read(&path).is_ok_and(|bytes| Finished::decode(&bytes).is_ok());
            if !whole {
                fs::remove_file(&path).map_err(|e| io_error(&path, e))?;
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
        match fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error(&self.folder, e)),
            _ => Ok(()),
        }
    }

    fn file(&self, index: usize) -> PathBuf {
        self.folder.join(format!("{index:06}.json.gz"))
    }
}

const KEY: &str = "key";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::phases::tests::part;
    use crate::result::tests::{Folder, rep};

    fn finished() -> Finished {
        let mut rep = rep(3, 10, "stuck");
        rep.procs[1].counts = vec![("frames_dropped".into(), 3)];
        rep.procs[1].phases =
            vec![part("write", (None, Some(5)), &[1, 2], 1), part("read", (Some(5), None), &[], 0)];
        Finished {
            rep,
            tunables: vec![("fifo_batch".into(), 16)],
            host: vec![("ram".into(), "8589934592".into())],
        }
    }

    #[test]
    fn a_finished_run_is_read_back_exactly() {
        let run = finished();
        let back = Finished::decode(&run.encode()).unwrap();
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
