//! The formats: what exists, how one is recognised, and what a parser is.
//!
//! A format is recognised by content: its magic number, or its first lines, all of which it must be able to parse. Text
//! that fits two formats is refused with their names, since a guess would read one's numbers as the other's.

mod biosnoop;
mod blkparse;
mod blktrace;
mod csv;
mod iolog;
mod msr;
mod perf;
mod rwbs;
mod spaces;
#[cfg(test)]
mod tests;
mod text;

use crate::error::{Error, Fault, shown};
use crate::input::Input;
use crate::{Names, Options, Record};
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
    /// Whether a trace that begins so is one.
    pub(crate) detect: fn(&[u8]) -> Fit,
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

/// Whether a trace is of a format.
pub(crate) enum Fit {
    No,
    Yes,
    /// It is, and this kind of it cannot be read; what to do instead.
    Refused(&'static str, &'static str),
}

/// What parsers share.
pub(crate) struct Context {
    pub(crate) names: Names,
    pub(crate) completions: bool,
    pub(crate) plugs: bool,
}

impl Context {
    pub(crate) fn new(options: &Options) -> Context {
        Context { names: Names::default(), completions: options.completions, plugs: options.plugs }
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

/// Bytes that detection looks at.
const HEAD: usize = 32 * 1024;

/// The format of a trace.
pub(crate) fn detect(input: &mut Input) -> Result<&'static Format, Error> {
    let name = input.name.clone();
    let head = input.peek(HEAD)?;
    if head.is_empty() {
        return Err(Error::Unrecognised { name, problem: "is empty".into() });
    }
    let mut found = Vec::new();
    for format in FORMATS {
        match (format.detect)(head) {
            Fit::No => {}
            Fit::Yes => found.push(*format),
            Fit::Refused(what, instead) => return Err(Error::Unsupported { name, what, instead }),
        }
    }
    let names: Vec<&str> = found.iter().map(|f| f.name).collect();
    let problem = match found[..] {
        [format] => return Ok(format),
        [] => {
            let known: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
            format!(
                "is no trace of a known format; `--format` names one of {} and says where it differs",
                known.join(", ")
            )
        }
        _ => format!("fits the formats {}; choose with `--format`", names.join(" and ")),
    };
    Err(Error::Unrecognised { name, problem })
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
