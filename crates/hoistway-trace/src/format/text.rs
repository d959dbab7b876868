//! What text formats share: lines, columns, numbers.
//!
//! Numbers are decimal and must fit; each column has bounds of what can be ("a length is at most 1 GiB"), so that
//! columns in another order are errors and not other numbers.

use super::{Bad, Context, HEAD, Parser, Step};
use crate::Record;
use crate::error::{Error, Fault};
use crate::input::{BOM, Input, Line, TOO_LONG};

/// Longest request in bytes. Linux stops at 2^32 - 1 with everything raised; a discard may be as long. More than this
/// is a column read as another.
pub(crate) const LEN_MAX: u64 = 1 << 32;
/// Largest offset in bytes: 2^60, an exbibyte.
pub(crate) const OFFSET_MAX: u64 = 1 << 60;
/// Latest time in ns, since whatever a trace counts from: 2^62, 146 years. What lies beyond is no time, and sums of two
/// such times still fit.
pub(crate) const TIME_MAX: u64 = 1 << 62;

/// What a line was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Record,
    Unwanted,
    /// A comment, or what a tool says beside the trace.
    Nothing,
    /// No record, and a line of this format only: a header, a summary.
    Mark,
    /// A record of this format that cannot be used: left out and told.
    LeftOut(Fault),
}

/// A format of one record a line.
pub(crate) trait LineParser: Send + Default + 'static {
    /// Its lines are numbers and nothing else, so that tables of any kind look like it: recognition is stricter.
    const NUMBERS_ONLY: bool = false;

    /// The beginning of the trace, before its first line.
    fn begin(&mut self, _head: &[u8]) {}

    /// The record of a line that is not blank; its time is absolute. `record` is fresh.
    fn line(
        &mut self,
        line: &[u8],
        context: &mut Context,
        record: &mut Record,
    ) -> Result<Found, Fault>;

    /// Whether a line has the columns of this format, whatever stands in them.
    fn shaped(line: &[u8]) -> bool;

    /// Whether a line that can be read tells this format from those with the same columns.
    fn telling(_line: &[u8]) -> bool {
        true
    }
}

/// What a line is. Beside what its format says: blank lines and comments are nothing, and a byte order mark is no part of
/// a line (`cat` puts the one of its second file in the middle).
#[inline]
pub(crate) fn read_line<P: LineParser>(
    parser: &mut P,
    line: &[u8],
    context: &mut Context,
    record: &mut Record,
) -> Result<Found, Fault> {
    if line.iter().all(|b| b.is_ascii_whitespace()) {
        return Ok(Found::Nothing);
    }
    *record = Record::default();
    match parser.line(line, context, record) {
        Err(fault) => read_odd_line(parser, line, context, record, fault),
        found => found,
    }
}

/// A line that its format cannot read, looked at again.
#[cold]
fn read_odd_line<P: LineParser>(
    parser: &mut P,
    line: &[u8],
    context: &mut Context,
    record: &mut Record,
    mut fault: Fault,
) -> Result<Found, Fault> {
    let mut rest = line;
    while let Some(after) = rest.strip_prefix(BOM) {
        rest = after;
    }
    if rest.len() < line.len() {
        *record = Record::default();
        match parser.line(rest, context, record) {
            Err(again) => fault = again,
            found => return found,
        }
    }
    match rest.trim_ascii_start() {
        [] | [b'#', ..] => Ok(Found::Nothing),
        _ => Err(fault),
    }
}

/// Reads lines for a line parser.
#[derive(Debug, Default)]
pub(crate) struct Lines<P> {
    parser: P,
    begun: bool,
}

impl<P: LineParser> Parser for Lines<P> {
    #[inline]
    fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context,
        record: &mut Record,
    ) -> Result<Step, Error> {
        if !self.begun {
            self.begun = true;
            if input.peek(BOM.len())? == BOM {
                input.take(BOM.len());
            }
            self.parser.begin(input.peek(HEAD)?);
        }
        let byte = input.offset();
        let (from, to, fault, known) = match input.line()? {
            Line::End => return Ok(Step::End),
            Line::TooLong => (0, 0, TOO_LONG, false),
            Line::At(from, to) => {
                match read_line(&mut self.parser, input.text(from, to), context, record) {
                    Ok(Found::Record) => return Ok(Step::Record),
                    Ok(Found::Unwanted) => return Ok(Step::Unwanted),
                    Ok(Found::Nothing | Found::Mark) => return Ok(Step::Nothing),
                    Ok(Found::LeftOut(fault)) => (from, to, fault, true),
                    Err(fault) => (from, to, fault, false),
                }
            }
        };
        Ok(Step::Bad(Bad { line: Some(input.lines), byte, fault, from, to, known }))
    }
}

/// The parser of a text format.
pub(crate) fn lines<P: LineParser>(_name: &str) -> Result<Box<dyn Parser>, Error> {
    Ok(Box::new(Lines { parser: P::default(), begun: false }))
}

/// Whether a line has so many columns, of which at least half begin with a digit.
pub(crate) fn table_row<'a>(
    cells: impl Iterator<Item = &'a [u8]>,
    columns: std::ops::RangeInclusive<usize>,
) -> bool {
    let (mut all, mut numbers) = (0, 0);
    for cell in cells {
        all += 1;
        numbers += usize::from(cell.trim_ascii_start().first().is_some_and(u8::is_ascii_digit));
    }
    columns.contains(&all) && numbers * 2 >= all
}

/// The words of a line.
pub(crate) fn split_words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty())
}

/// The columns of a line separated by `separator`; exactly `N` of them.
#[inline]
pub(crate) fn columns<const N: usize>(line: &[u8], separator: u8) -> Result<[&[u8]; N], Fault> {
    let mut out = [&line[..0]; N];
    let mut n = 0;
    let mut from = 0;
    for (at, byte) in line.iter().enumerate() {
        if *byte == separator {
            if n + 1 >= N {
                return Err(Fault::new("line", "has too many columns"));
            }
            out[n] = &line[from..at];
            n += 1;
            from = at + 1;
        }
    }
    if n + 1 != N {
        return Err(Fault::new("line", "has too few columns"));
    }
    out[n] = &line[from..];
    Ok(out)
}

/// A decimal number.
#[inline]
pub(crate) fn number(text: &[u8], field: &'static str) -> Result<u64, Fault> {
    let fault = || Err(Fault::new(field, "is not a whole number"));
    let text = text.trim_ascii();
    if text.is_empty() || text.len() > 20 {
        return fault();
    }
    let mut value = 0_u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return fault();
        }
        match value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit))) {
            Some(v) => value = v,
            None => return fault(),
        }
    }
    Ok(value)
}

/// A time in decimal seconds (or another unit), in units of 10^-9 of it. Digits after the ninth are cut off.
#[inline]
pub(crate) fn billionths(text: &[u8], field: &'static str) -> Result<u64, Fault> {
    let text = text.trim_ascii();
    let fault = Fault::new(field, "is not a decimal number");
    let point = text.iter().position(|b| *b == b'.').unwrap_or(text.len());
    let (whole, part) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    let whole = number(whole, field).map_err(|_| fault)?;
    let (kept, cut) = part.split_at(part.len().min(9));
    if !cut.iter().all(u8::is_ascii_digit) {
        return Err(fault);
    }
    let mut nanos = 0;
    for byte in kept {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(fault);
        }
        nanos = nanos * 10 + u64::from(digit);
    }
    nanos *= TENS[9 - kept.len()];
    whole.checked_mul(1_000_000_000).and_then(|n| n.checked_add(nanos)).ok_or(fault)
}

/// Powers of ten.
const TENS: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The words of a line, and how many there are; `None` if more than `N`.
#[inline]
pub(crate) fn words<const N: usize>(line: &[u8]) -> Option<([&[u8]; N], usize)> {
    let mut out = [&line[..0]; N];
    let mut n = 0;
    for word in split_words(line) {
        *out.get_mut(n)? = word;
        n += 1;
    }
    Some((out, n))
}

/// A time in ns that can be one.
#[inline]
pub(crate) fn time(ns: Option<u64>, field: &'static str) -> Result<u64, Fault> {
    match ns {
        Some(ns) if ns <= TIME_MAX => Ok(ns),
        _ => Err(Fault::new(field, "is more than 146 years; is it in this unit?")),
    }
}

/// A number of 512-byte sectors, in bytes.
#[inline]
pub(crate) fn sectors(text: &[u8], field: &'static str) -> Result<Option<u64>, Fault> {
    Ok(number(text, field)?.checked_mul(512))
}

/// The value, if it is one that the column can have.
#[inline]
pub(crate) fn within(
    value: u64,
    range: std::ops::RangeInclusive<u64>,
    fault: Fault,
) -> Result<u64, Fault> {
    if range.contains(&value) { Ok(value) } else { Err(fault) }
}

/// A length in bytes that a request can have.
#[inline]
pub(crate) fn length(bytes: Option<u64>, field: &'static str) -> Result<u64, Fault> {
    match bytes {
        Some(n) if n <= LEN_MAX => Ok(n),
        _ => Err(Fault::new(field, "is more than 4 GiB; are the columns in this order?")),
    }
}

/// An offset in bytes that a device can have.
#[inline]
pub(crate) fn offset(bytes: Option<u64>, field: &'static str) -> Result<u64, Fault> {
    match bytes {
        Some(n) if n <= OFFSET_MAX => Ok(n),
        _ => Err(Fault::new(field, "is more than 1 EiB; are the columns in this order?")),
    }
}
