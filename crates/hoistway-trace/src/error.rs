//! What can be wrong with a trace, and where.

use std::fmt;
use std::path::Path;

/// Why a record cannot be read. Small, since it is made in the inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The column or field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Fault {
    pub(crate) const fn new(field: &'static str, problem: &'static str) -> Fault {
        Fault { field, problem }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

/// The place and the text of a record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The file, if the trace has several.
    pub file: Option<String>,
    /// Line number from 1; `None` for binary formats.
    pub line: Option<u64>,
    /// Offset of the record in the (decompressed) trace.
    pub byte: u64,
    /// Why.
    pub fault: Fault,
    /// The beginning of the line; empty if it is no text, or the file perhaps no trace at all, so that nobody asked to see it.
    pub text: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        match self.line {
            Some(line) if self.text.is_empty() => write!(f, "line {line}: {}", self.fault),
            Some(line) => write!(f, "line {line}: {}: {:?}", self.fault, self.text),
            None => write!(f, "byte {}: {}", self.byte, self.fault),
        }
    }
}

/// Characters of a line that are shown.
const SHOWN: usize = 80;

/// The beginning of a line, for a message. Nothing of a line that is no text: it would say nothing.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let start = &line[..line.len().min(4 * SHOWN)];
    let text = String::from_utf8_lossy(start);
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.chars().any(|c| c.is_control() && c != '\t') {
        return String::new();
    }
    if shown.len() < line.len() {
        shown.push_str("...");
    }
    shown
}

/// Why reading a trace ends.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or the decompressor says so.
    #[allow(missing_docs)]
    Io { name: String, error: std::io::Error },
    /// It is no file.
    NotAFile(hoistway_files::ReadError),
    /// No reader fits, or several do.
    #[allow(missing_docs)]
    Unrecognised { name: String, problem: String },
    /// A format that is known and cannot be read.
    #[allow(missing_docs)]
    Unsupported { name: String, what: &'static str, instead: &'static str },
    /// A malformed record, in strict mode.
    #[allow(missing_docs)]
    Malformed { name: String, what: Box<Malformed> },
    /// Nothing but malformed records: the wrong format, or the wrong order of columns.
    #[allow(missing_docs)]
    Hopeless { name: String, format: &'static str, count: u64, first: Box<Malformed> },
    /// Options that cannot be.
    Options(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { name, error } => write!(f, "{name}: {error}"),
            Error::NotAFile(error) => error.fmt(f),
            Error::Unrecognised { name, problem } => write!(f, "{name}: {problem}"),
            Error::Unsupported { name, what, instead } => {
                write!(f, "{name}: {what} cannot be read; {instead}")
            }
            Error::Malformed { name, what } => {
                write!(f, "{name}: {what}; without --strict such records are counted and left out")
            }
            Error::Hopeless { name, format, count, first } => write!(
                f,
                "{name}: none of the first {count} records is a record of format {format}; the first: \
                 {first}; `--format` chooses another format"
            ),
            Error::Options(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// The name a trace has in messages.
pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}
