//! fio jobs as experiments: job files, and fio's command line.
//!
//! Three steps, each a module: `source` has the sections, from a file (`ini`: `[global]`, `include`, comments,
//! environment) or from words (`words`); `read` gives every key a meaning or a [`Note`] that says why it has none;
//! [`experiment`] writes the jobs as an experiment file. Which keys there are, and what becomes of each, is one
//! table ([`keys`]); a test holds it against the installed fio.
//!
//! The grammar follows fio's own manual (fio 3.33, HOWTO) and what fio was seen to do; no code of fio was used.
#![forbid(unsafe_code)]

mod calc;
mod experiment;
mod ini;
mod job;
pub mod keys;
mod notes;
mod process;
mod read;
mod value;
mod words;

pub use experiment::{Experiment, experiment};
pub use job::{Amount, Direction, Exits, Hint, Job, Service};
pub use notes::{Note, Weight};
pub use words::shell_words;

use hoistway_files::input::{self, Limit};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where jobs come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// Words of fio's command line.
    Words,
}

/// A line of a file, or a word of a command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub origin: Arc<Origin>,
    /// Its line, or the word, from 1.
    pub number: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.origin {
            Origin::File(path) => write!(f, "{}:{}", path.display(), self.number),
            Origin::Words => write!(f, "--fio, word {}", self.number),
        }
    }
}

/// Jobs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where, if it is a line or a word.
    pub place: Option<Place>,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Error {}

/// What a job file or a command line comes to.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// The jobs in order.
    pub jobs: Vec<Job>,
    /// Keys that are not carried out, in the order of the file, each key and reason once.
    pub notes: Vec<Note>,
}

/// Where files, variables and figures of the machine come from.
pub trait Source {
    /// The bytes of a file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, with its name.
    fn file(&mut self, path: &Path) -> Result<Vec<u8>, String>;

    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// What a keyword of fio's stands for: `pagesize`, `mb_memory`, `ncpus`.
    fn keyword(&self, name: &str) -> Option<u64>;
}

/// Reads a job file.
///
/// # Errors
///
/// Files that cannot be read, lines that say nothing, values out of their ranges, and what a job cannot be
/// without.
pub fn read(path: &Path, source: &mut dyn Source) -> Result<JobFile, Error> {
    let mut reader = ini::Reader::new(source);
    reader.file(path)?;
    read::jobs(reader)
}

/// Reads what stands behind `fio` on a command line, in the syntax of a shell.
///
/// # Errors
///
/// As [`read`]; quotes without an end; options of fio that make it do something else than run jobs.
pub fn command_line(text: &str, source: &mut dyn Source) -> Result<JobFile, Error> {
    let mut reader = ini::Reader::new(source);
    words::read(text, &mut reader)?;
    read::jobs(reader)
}

/// Job files are written by hand.
const JOB_FILE: Limit = Limit { what: "a job file", bytes: 4 << 20 };

/// The machine's files, environment and figures.
#[derive(Debug)]
pub struct Machine;

impl Source for Machine {
    fn file(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        input::bytes(path, JOB_FILE).map_err(|e| e.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        match name {
            "pagesize" => Some(4096),
            "ncpus" => std::thread::available_parallelism().ok().map(|n| n.get() as u64),
            "mb_memory" => {
                let limit = Limit { what: "a table of memory", bytes: 1 << 20 };
                let text = input::text(Path::new("/proc/meminfo"), limit).ok()?;
                let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
                let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
                Some(kib / 1024)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
