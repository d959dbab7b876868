//! The formats: what exists, how one is recognised, and what a parser is.
//!
//! A format is recognised by content (`recognise`): the one that reads most of the beginning.

mod biosnoop;
mod blkparse;
mod blktrace;
mod csv;
mod header;
mod iolog;
pub(crate) mod looks;
mod msr;
mod perf;
pub(crate) mod recognise;
mod rwbs;
mod spaces;
#[cfg(test)]
mod tests;
mod text;

use crate::error::{Error, Fault, shown};
use crate::input::Input;
use crate::{Names, Options, Record};
pub(crate) use recognise::HEAD;
use recognise::{Head, Refusal, Trial};
use std::path::{Path, PathBuf};

/// Every format, in the order in which they are listed.
pub static FORMATS: &[&Format] = &[
    &blktrace::FORMAT,
    &blkparse::FORMAT,
    &iolog::FORMAT,
    &perf::FORMAT,
    &biosnoop::FORMAT,
    &msr::FORMAT,
    &csv::ALIBABA,
    &csv::TENCENT,
    &csv::SYSTOR,
    &csv::SPC,
    &spaces::FIU,
    &spaces::DISKSIM,
    &spaces::MQSIM,
];

/// A trace format.
#[derive(Debug)]
pub struct Format {
    /// As `--format` takes it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Columns or fields with their units, one line.
    pub columns: &'static str,
    /// What it says of a request's end.
    pub completions: Completions,
    /// Records to hold back, so that they come out in order of time.
    pub window: usize,
    /// How it reads the beginning of a trace.
    pub(crate) trial: fn(&Head<'_>) -> Trial,
    /// What a trace like this is that cannot be read.
    pub(crate) refusal: Option<fn(&Head<'_>) -> Option<Refusal>>,
    /// A parser of a file of this name (for messages).
    pub(crate) parser: fn(&str) -> Result<Box<dyn Parser>, Error>,
}

/// What a format says of a request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completions {
    /// Nothing: depth and response times are unknown.
    No,
    /// The response time, in the record itself.
    Response,
    /// Completions are records of their own.
    Records,
}

impl Format {
    /// The format of this name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().copied().find(|f| f.name == name)
    }
}

/// What parsers share.
pub(crate) struct Context {
    pub(crate) names: Names,
    pub(crate) completions: bool,
    pub(crate) plugs: bool,
    /// Arrivals without a time of their own; they have that of the one before.
    pub(crate) untimed: u64,
    /// Further recordings in the same file, each put behind the one before.
    pub(crate) recordings: u64,
}

impl Context {
    pub(crate) fn new(options: &Options) -> Context {
        let (names, untimed, recordings) = (Names::default(), 0, 0);
        let Options { completions, plugs, .. } = *options;
        Context { names, completions, plugs, untimed, recordings }
    }
}

/// What a parser found.
pub(crate) enum Step {
    /// A record; its time is absolute.
    Record,
    /// A good record that was not asked for.
    Unwanted,
    /// A comment, a header.
    Nothing,
    Bad(Bad),
    End,
}

/// A malformed record: its place and its bytes in the input's buffer.
pub(crate) struct Bad {
    pub(crate) line: Option<u64>,
    pub(crate) byte: u64,
    pub(crate) fault: Fault,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// It is of this format, and cannot be used.
    pub(crate) known: bool,
}

/// Turns bytes into records.
pub(crate) trait Parser: Send {
    /// The next step. `record` holds whatever the last call left in it.
    fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context,
        record: &mut Record,
    ) -> Result<Step, Error>;
}

/// The files of a trace: the one named, or `NAME.blktrace.0`, `.1`, ... of blktrace.
pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if path == Path::new("-") || path.exists() {
        return Ok(vec![path.to_path_buf()]);
    }
    let cpu = |n: usize| {
        let mut name = path.as_os_str().to_os_string();
        name.push(format!(".blktrace.{n}"));
        PathBuf::from(name)
    };
    // CPUs that had nothing to say have no file, so numbers may be missing; no machine has more.
    let files: Vec<PathBuf> = (0..4096).map(cpu).filter(|p| p.exists()).collect();
    if files.is_empty() {
        let what = format!("there is no such file, nor {}", cpu(0).display());
        let error = std::io::Error::new(std::io::ErrorKind::NotFound, what);
        return Err(Error::Io { name: shown(path), error });
    }
    Ok(files)
}
