//! fio's I/O logs, as `write_iolog` makes them and `read_iolog` takes them.
//!
//! ```text
//!   fio version 2 iolog                  fio version 3 iolog
//!   FILE add|open|close                  TIME FILE add|open|close
//!   FILE read|write|trim OFFSET LENGTH   TIME FILE read|write|trim OFFSET LENGTH
//!   FILE sync|datasync                   TIME FILE sync|datasync
//!   FILE wait MICROSECONDS
//! ```
//!
//! Bytes; in version 3 the time is in microseconds since the start of the run (fio's manual names no unit; measured with
//! fio 3.33). In version 2 time passes at `wait` only: each is relative to the one before, so the requests between two
//! waits have no time of their own. They are given that of the last wait, and counted: fio submits them one after
//! another, as its queue has room, and most logs of this version have no wait at all. fio drops waits below 100 us; they
//! are kept here, since leaving them out makes a trace end early. A file is a device. A first line in the middle
//! (`cat a b`) begins another recording, which is put behind the one before. Version 1 (`rw, offset, length` without a first
//! line) has no times and is refused.

use super::recognise::{self, Head, Refusal};
use super::text::{self, Found, LineParser, number, words};
use super::{Completions, Context, Format};
use crate::error::Fault;
use crate::{Flags, Op, Record};

pub(crate) static FORMAT: Format = Format {
    name: "iolog",
    summary: "fio iolog, version 2 and 3",
    columns: "first line `fio version 2|3 iolog`; [time (us)] file action [offset length (bytes)]",
    completions: Completions::No,
    window: 0,
    trial: recognise::trial::<Iolog>,
    refusal: Some(refusal),
    parser: text::lines::<Iolog>,
};

fn refusal(head: &Head<'_>) -> Option<Refusal> {
    let first = |l: &[u8]| version(l).is_none() && l.starts_with(b"fio version ");
    if head.lines().any(|(_, line)| first(line.trim_ascii())) {
        return Some((
            "a fio iolog of this version",
            "versions 2 and 3 can be: write it again with a current fio (write_iolog=FILE)",
        ));
    }
    let lines = head.lines().filter(|(_, line)| !line.trim_ascii().is_empty());
    let (all, fit) =
        lines.fold((0, 0), |(all, fit), (_, line)| (all + 1, fit + u32::from(is_version_1(line))));
    (fit > 0 && fit * 2 >= all).then_some((
        "a fio iolog of version 1 (`rw, offset, length`), which has no times,",
        "write it again with a current fio (write_iolog=FILE)",
    ))
}

/// `rw, offset, length` with rw 0, 1 or 2.
fn is_version_1(line: &[u8]) -> bool {
    let Ok(columns) = text::columns::<3>(line, b',') else { return false };
    let [rw, offset, len] = columns.map(<[u8]>::trim_ascii);
    matches!(rw, b"0" | b"1" | b"2")
        && number(offset, "offset").is_ok()
        && number(len, "length").is_ok()
}

#[derive(Default)]
struct Iolog {
    version: u8,
    /// Version 2: the sum of the waits, in us; and whether one stands before this line.
    waited: u64,
    fresh: bool,
    /// Version 3: end of the recordings before in us, and latest time so far.
    before: u64,
    latest: u64,
}

impl LineParser for Iolog {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.action(line, context, r) {
            Err(fault) => match version(line) {
                Some(version) => {
                    context.recordings += u64::from(self.version > 0);
                    self.version = version;
                    (self.before, self.fresh) = (self.latest.max(self.waited), false);
                    (self.latest, self.waited) = (self.before, self.before);
                    Ok(Found::Mark)
                }
                None => Err(fault),
            },
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        let word = |w: &[u8]| ACTIONS.contains(&w);
        text::split_words(line).skip(1).take(2).any(word)
    }
}

const ACTIONS: [&[u8]; 9] =
    [b"add", b"open", b"close", b"read", b"write", b"trim", b"sync", b"datasync", b"wait"];

impl Iolog {
    #[inline]
    fn action(
        &mut self,
        line: &[u8],
        context: &mut Context,
        r: &mut Record,
    ) -> Result<Found, Fault> {
        if self.version == 0 {
            return Err(Fault::new("first line", "is not `fio version 2 iolog` or `... 3 ...`"));
        }
        let (words, n) = words::<5>(line).ok_or(Fault::new("line", "has too many columns"))?;
        let (micros, rest, n) = match self.version {
            3 if n == 0 => return Ok(Found::Nothing),
            3 => {
                let at = number(words[0], "time")?.checked_add(self.before);
                let at = at.ok_or(Fault::new("time", "is too large"))?;
                (at, &words[1..], n - 1)
            }
            _ => (self.waited, &words[..], n),
        };
        if n < 2 {
            return Err(Fault::new("line", "has too few columns"));
        }
        let (file, action) = (rest[0], rest[1]);
        let too_large = Fault::new("time", "is too large");
        match action {
            b"add" | b"open" | b"close" => return Ok(Found::Nothing),
            b"wait" if self.version == 2 => {
                let wait = number(rest[2], "wait")?;
                let waited = self.waited.checked_add(wait).ok_or(too_large)?;
                text::time(waited.checked_mul(1000), "wait")?;
                (self.waited, self.fresh) = (waited, true);
                return Ok(Found::Nothing);
            }
            b"read" => r.op = Op::Read,
            b"write" => r.op = Op::Write,
            b"trim" => r.op = Op::Discard,
            b"sync" | b"datasync" => r.op = Op::Flush,
            _ => return Err(Fault::new("action", "is none that fio writes")),
        }
        r.time = text::time(micros.checked_mul(1000), "time")?;
        if r.op == Op::Flush {
            r.flags = Flags::SYNC;
        } else {
            if n < 4 {
                return Err(Fault::new("line", "has too few columns"));
            }
            r.offset = text::offset(Some(number(rest[2], "offset")?), "offset")?;
            r.len = text::length(Some(number(rest[3], "length")?), "length")?;
        }
        self.latest = self.latest.max(micros);
        if self.version == 2 && !std::mem::take(&mut self.fresh) {
            context.untimed += 1;
        }
        r.device = context.names.devices.intern(file);
        Ok(Found::Record)
    }
}

fn version(line: &[u8]) -> Option<u8> {
    let rest = line.trim_ascii().strip_prefix(b"fio version ")?;
    match rest {
        b"2 iolog" => Some(2),
        b"3 iolog" => Some(3),
        _ => None,
    }
}
