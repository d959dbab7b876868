//! Which format a trace is.
//!
//! Every format reads the beginning, with the parser that will read the trace, so recognition tolerates what reading
//! tolerates: headers, comments, what tools print beside the records, damaged lines. The format that reads most lines is
//! taken if it reads at least as many as it leaves out. A second format that reads a quarter as many is a doubt, and the
//! text is refused with both names, since a guess would read one's numbers as the other's. Formats of numbers
//! only may leave out one in eight of the lines that have their columns: a table of other numbers looks much like them.
//!
//! Where none is taken, the error names the format that came nearest and its first line that does not fit.

use super::text::{Found, LineParser, read_line};
use super::{Context, FORMATS, Format, looks};
use crate::error::{Error, Fault, Malformed};
use crate::input::{BOM, Input, LINE_MAX};
use crate::{Options, Record};

/// Bytes that are looked at.
pub(crate) const HEAD: usize = 128 * 1024;
/// Lines of them that are tried.
const LINES: usize = 1000;
/// A second format that reads this fraction of the best one's lines is a doubt.
const DOUBT: u64 = 4;
/// Of numbers only: lines read for each one that has the columns and cannot be read.
const STRICTER: u64 = 8;

/// What a trace is that is known and cannot be read, and what to do instead.
pub(crate) type Refusal = (&'static str, &'static str);

/// The beginning of a trace.
pub(crate) struct Head<'a> {
    pub bytes: &'a [u8],
    /// It is all of it.
    pub whole: bool,
}

impl<'a> Head<'a> {
    /// The first lines with their numbers. The last one is left out if it may be cut off.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let bytes = self.bytes;
        let end = match self.whole {
            true => bytes.len(),
            false => memchr::memrchr(b'\n', bytes).unwrap_or(bytes.len()),
        };
        let lines = bytes[..end].split(|b| *b == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        (1..).zip(lines).take(LINES)
    }
}

/// How a format read the beginning of a trace.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Lines (events) that it reads.
    pub read: u64,
    /// Lines of this format only that are no records.
    pub marks: u64,
    /// Lines that it cannot read.
    pub left_out: u64,
    /// Of them, those that have its columns.
    pub contrary: u64,
    /// The first that has its columns, else the first.
    pub misfit: Option<Malformed>,
    /// So many of them are a doubt already.
    pub numbers_only: bool,
}

impl Trial {
    pub fn misfit(&mut self, shaped: bool, what: impl FnOnce() -> Malformed) {
        if self.left_out == 0 || (shaped && self.contrary == 0) {
            self.misfit = Some(what());
        }
        self.left_out += 1;
        self.contrary += u64::from(shaped);
    }

    /// Whether it may be taken, if it is the only one.
    fn is_sound(&self) -> bool {
        match self.read {
            0 => self.marks > 0 && self.left_out == 0,
            n => n >= self.left_out && (!self.numbers_only || n >= STRICTER * self.contrary),
        }
    }
}

/// How the format of these lines reads the beginning.
pub(crate) fn trial<P: LineParser>(head: &Head<'_>) -> Trial {
    let mut parser = P::default();
    let all = Options { completions: true, plugs: true, ..Options::default() };
    let mut context = Context::new(&all);
    parser.begin(head.bytes);
    let mut trial = Trial { numbers_only: P::NUMBERS_ONLY, ..Trial::default() };
    for (number, line) in head.lines() {
        let found = match line.len() {
            0..=LINE_MAX => read_line(&mut parser, line, &mut context, &mut Record::default()),
            _ => Err(crate::input::TOO_LONG),
        };
        match found {
            Ok(Found::Record | Found::Unwanted | Found::LeftOut(_)) => {
                trial.read += u64::from(P::telling(line));
            }
            Ok(Found::Mark) => trial.marks += 1,
            Ok(Found::Nothing) => {}
            Err(fault) => trial.misfit(P::shaped(line), || malformed(number, line, fault)),
        }
    }
    trial
}

fn malformed(number: u64, line: &[u8], fault: Fault) -> Malformed {
    Malformed { file: None, line: Some(number), byte: 0, fault, text: crate::error::excerpt(line) }
}

/// The format of a trace.
pub(crate) fn recognise(input: &mut Input) -> Result<&'static Format, Error> {
    let name = input.name.clone();
    let (bytes, whole) = input.head(HEAD)?;
    let head = Head { bytes: bytes.strip_prefix(BOM).unwrap_or(bytes), whole };
    let trials: Vec<(&Format, Trial)> = FORMATS.iter().map(|f| (*f, (f.trial)(&head))).collect();
    let best = trials.iter().max_by_key(|(_, t)| (t.read, t.is_sound()));
    let (format, trial) = best.expect("there are formats");
    let rivals = trials.iter().filter(|(_, t)| match trial.read {
        0 => t.is_sound(),
        n => t.read * DOUBT >= n,
    });
    let rivals: Vec<&(&Format, Trial)> = rivals.collect();
    if rivals.len() > 1 {
        let fits = |(f, t): &&(&Format, Trial)| format!("{} ({} lines)", f.name, t.read + t.marks);
        let fits: Vec<String> = rivals.iter().map(fits).collect();
        let problem = format!("fits the formats {}; choose with `--format`", fits.join(" and "));
        return Err(Error::Unrecognised { name, problem });
    }
    if trial.is_sound() {
        return Ok(format);
    }
    if let Some((what, instead)) = FORMATS.iter().find_map(|f| f.refusal.and_then(|r| r(&head))) {
        return Err(Error::Unsupported { name, what, instead });
    }
    let problem = match looks::like(&head).filter(|_| trial.read == 0) {
        Some(what) => what.into(),
        None => format!("is no trace of a known format; {}", nearest(&trials)),
    };
    Err(Error::Unrecognised { name, problem })
}

/// What came nearest, and where it does not fit.
fn nearest(trials: &[(&Format, Trial)]) -> String {
    let most = trials.iter().map(|(_, t)| (t.read, t.contrary)).max().unwrap_or_default();
    if most == (0, 0) {
        let known: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
        let known = known.join(", ");
        return format!("`--format` names one of {known} and says where it differs");
    }
    let near = trials.iter().filter(|(_, t)| (t.read, t.contrary) == most);
    let said = near.map(|(format, t)| {
        let reads = match t.read {
            0 => "has its columns".to_string(),
            n => format!("reads {n} of {} lines", n + t.left_out),
        };
        let misfit = t.misfit.as_ref().map_or_else(String::new, |m| match t.read {
            // Perhaps it is no trace at all: nobody asked to see it.
            0 => format!("; {}", Malformed { text: String::new(), ..m.clone() }),
            _ => format!("; {m}"),
        });
        format!("{} ({reads}{misfit})", format.name)
    });
    let said: Vec<String> = said.collect();
    format!("nearest is {}; `--format` chooses one all the same", said.join(", then "))
}
