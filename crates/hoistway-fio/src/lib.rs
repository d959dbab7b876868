//! fio job files as experiments.
//!
//! Three steps, each a module: `ini` reads the file as fio does (sections, `[global]`, `include`, comments,
//! environment), [`read`] gives every key a meaning or a [`Note`] that says why it has none, and
//! [`experiment`] writes the jobs as an experiment file. Which keys there are, and what becomes of each, is one
//! table ([`keys`]); the documentation is made from it.
//!
//! The grammar follows fio's own manual (fio 3.33, HOWTO); no code of fio was used.
#![forbid(unsafe_code)]

mod experiment;
mod ini;
mod jobs;
pub mod keys;
mod value;

pub use experiment::experiment;
pub use jobs::{Direction, Job, read};

use std::fmt;
use std::path::{Path, PathBuf};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// A job file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where, if it is a line.
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

/// How much a [`Note`] matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The key cannot matter here.
    Ignored,
    /// It would matter in fio: the load is another one.
    Unsupported,
}

/// A key that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it stands.
    pub place: Place,
    /// The key.
    pub key: String,
    /// How much it matters.
    pub weight: Weight,
    /// Why.
    pub why: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.weight {
            Weight::Ignored => "is ignored",
            Weight::Unsupported => "is not supported",
        };
        write!(f, "{}: {} {word}: {}", self.place, self.key, self.why)
    }
}

/// What a job file comes to.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// The jobs in order.
    pub jobs: Vec<Job>,
    /// Keys that are not carried out, in the order of the file, each line once.
    pub notes: Vec<Note>,
}

/// Where files and variables come from.
pub trait Source {
    /// The text of a file.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    fn file(&mut self, path: &Path) -> Result<String, String>;

    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The machine's files and environment.
#[derive(Debug)]
pub struct Machine;

impl Source for Machine {
    fn file(&mut self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|e| e.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

#[cfg(test)]
mod tests;
