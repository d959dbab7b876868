//! blkparse's text, in its default format:
//!
//! ```text
//!   8,0    3    11     0.009507758   697  Q   W 223490 + 8 [kjournald]
//!   8,0    3    14     0.009520000   697  U   N [kjournald] 2
//!   8,0    1    15     0.012000000     0  C   W 223490 + 8 [0]
//! ```
//!
//! device, CPU, sequence, seconds, pid, action, rwbs, sector + sectors, process (of a completion: error). As of the binary
//! files, arrivals are `Q`, completions `C`, plugs `P`, `U` and `UT` (here also called `T`). On a terminal `Input file ... added`
//! stands before the events, and a summary (`CPU0 (8,0):`) behind them. Events that follow these are another recording,
//! whose times begin at 0 again (`cat a.txt b.txt`): it is put behind the one before.

use super::text::{self, Found, LineParser, billionths, number};
use super::{Completions, Context, Format, recognise, rwbs};
use crate::error::Fault;
use crate::{Kind, Record};

pub(crate) static FORMAT: Format = Format {
    name: "blkparse",
    summary: "blkparse text, default format",
    columns: "maj,min cpu sequence time (s) pid action rwbs sector + sectors [process]",
    completions: Completions::Records,
    window: 4096,
    trial: recognise::trial::<Blkparse>,
    refusal: None,
    parser: text::lines::<Blkparse>,
};

#[derive(Default)]
struct Blkparse {
    /// The recording is over: what follows is its summary, or another one.
    over: bool,
    /// End of the recordings before, and latest time so far.
    before: u64,
    latest: Option<u64>,
    name: Vec<u8>,
}

impl LineParser for Blkparse {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let line = line.trim_ascii();
        if self.over && !self.another(line, context) {
            return Ok(Found::Nothing);
        }
        match self.event(line, context, r) {
            Err(fault) => self.around(line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        let mut rest = line;
        next_word(&mut rest).is_some_and(is_device) && text::split_words(rest).count() >= 5
    }
}

impl Blkparse {
    fn event(
        &mut self,
        line: &[u8],
        context: &mut Context,
        r: &mut Record,
    ) -> Result<Found, Fault> {
        let few = Fault::new("line", "has too few columns");
        let mut rest = line;
        let mut word = || next_word(&mut rest).ok_or(few);
        let (device, cpu, sequence, time) = (word()?, word()?, word()?, word()?);
        let (pid, action) = (word()?, word()?);
        if !is_device(device) {
            return Err(Fault::new("device", "is not maj,min"));
        }
        number(cpu, "cpu")?;
        number(sequence, "sequence")?;
        r.time = text::time(billionths(time, "time")?.checked_add(self.before), "time")?;
        number(pid, "pid")?;
        self.latest = self.latest.max(Some(r.time));
        r.kind = match action {
            b"Q" => Kind::Arrival,
            b"C" if context.completions => Kind::Complete,
            b"P" if context.plugs => Kind::Plug,
            b"U" | b"UT" | b"T" if context.plugs => Kind::Unplug,
            b"C" | b"P" | b"U" | b"UT" | b"T" | b"M" | b"F" | b"G" | b"S" | b"R" | b"D" | b"I"
            | b"X" | b"B" | b"A" | b"m" => return Ok(Found::Unwanted),
            _ => return Err(Fault::new("action", "is no letter of blkparse")),
        };
        r.device = context.names.devices.intern(device);
        let letters = next_word(&mut rest).ok_or(few)?;
        if matches!(r.kind, Kind::Plug | Kind::Unplug) {
            let (name, after) = bracketed(rest).ok_or(few)?;
            self.process(name, pid, context, r);
            if r.kind == Kind::Unplug {
                r.len = number(after, "requests")?;
            }
            return Ok(Found::Record);
        }
        let Some(open) = memchr::memrchr(b'[', rest) else { return Err(few) };
        let (range, tail) = rest.split_at(open);
        let (name, _) = bracketed(tail).ok_or(few)?;
        if range.contains(&b'(') {
            // A pass-through command, in hexadecimal.
            return Ok(Found::Unwanted);
        }
        let mut words = text::split_words(range);
        // A flush has no range.
        let sector = words.next().unwrap_or(b"0");
        let plus = words.next().unwrap_or(b"+");
        let count = words.next().unwrap_or(b"0");
        if plus != b"+" || words.next().is_some() {
            return Err(Fault::new("range", "is not sector + sectors"));
        }
        let bytes = text::sectors(count, "sectors")?;
        if !rwbs::fill(r, letters, number(sector, "sector")?, bytes)? {
            return Ok(Found::Unwanted);
        }
        if r.kind == Kind::Arrival {
            self.process(name, pid, context, r);
        }
        Ok(Found::Record)
    }
}

impl Blkparse {
    /// Whether another recording begins with this line.
    #[cold]
    fn another(&mut self, line: &[u8], context: &mut Context) -> bool {
        let mut rest = line;
        if !next_word(&mut rest).is_some_and(is_device) {
            return false;
        }
        self.over = false;
        if let Some(latest) = self.latest {
            self.before = latest;
            context.recordings += 1;
        }
        true
    }

    /// What stands before and behind the events.
    #[cold]
    fn around(&mut self, line: &[u8], fault: Fault) -> Result<Found, Fault> {
        if is_summary(line) {
            self.over = true;
            return Ok(Found::Mark);
        }
        if line.starts_with(b"Input file ") && line.ends_with(b" added") {
            self.over = self.latest.is_some();
            return Ok(Found::Mark);
        }
        Err(fault)
    }

    fn process(&mut self, name: &[u8], pid: &[u8], context: &mut Context, r: &mut Record) {
        self.name.clear();
        self.name.extend_from_slice(name);
        self.name.push(b'/');
        self.name.extend_from_slice(pid);
        r.process = context.names.processes.intern(&self.name);
    }
}

fn is_summary(line: &[u8]) -> bool {
    (line.starts_with(b"CPU") && memchr::memchr(b'(', line).is_some())
        || line.starts_with(b"Total (")
        || line.starts_with(b"Events (")
}

/// `8,0`.
pub(super) fn is_device(text: &[u8]) -> bool {
    match memchr::memchr(b',', text) {
        Some(at) => [&text[..at], &text[at + 1..]]
            .iter()
            .all(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit)),
        None => false,
    }
}

/// Takes the next word of `rest`.
pub(super) fn next_word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_ascii_start();
    if text.is_empty() {
        return None;
    }
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after;
    Some(word)
}

/// What is within the brackets at the beginning, up to the last closing one, and what comes after.
pub(super) fn bracketed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.trim_ascii_start().strip_prefix(b"[")?;
    let close = memchr::memrchr(b']', inner)?;
    Some((&inner[..close], &inner[close + 1..]))
}
