//! The letters by which Linux's traces tell what a request is: `WS`, `RA`, `FWFS`, `DS`.
//!
//! An `F` before the operation: the cache is flushed first. The operation: `R` read, `W` write, `D` discard (`DE` secure
//! erase), `N` none, `F` again a flush alone. Then `F` forced unit access, `A` read-ahead, `S` synchronous, `M` metadata
//! and `U` atomic.

use crate::error::Fault;
use crate::{Flags, Op, Record};

const UNKNOWN: Fault = Fault::new("rwbs", "has letters of no known operation");

/// The operation and marks of these letters. `None` for what is no read, write, flush or discard (zone management).
pub(crate) fn parse(letters: &[u8]) -> Result<Option<(Op, Flags)>, Fault> {
    let (preflush, rest) = match letters {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (op, rest) = match rest {
        [b'R', rest @ ..] => (Some(Op::Read), rest),
        [b'W', rest @ ..] => (Some(Op::Write), rest),
        [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (Some(Op::Discard), rest),
        [b'N' | b'F', rest @ ..] if preflush => (Some(Op::Flush), rest),
        rest if preflush => (Some(Op::Flush), rest),
        [b'N', rest @ ..] => (None, rest),
        [b'Z', ..] => return Ok(None),
        _ => return Err(UNKNOWN),
    };
    let mut flags = Flags::NONE.with_if(preflush && op == Some(Op::Write), Flags::PREFLUSH);
    for letter in rest {
        flags = flags.with(match letter {
            b'F' => Flags::FUA,
            b'A' => Flags::AHEAD,
            b'S' => Flags::SYNC,
            b'M' => Flags::META,
            b'U' | b'B' => Flags::NONE,
            _ => return Err(UNKNOWN),
        });
    }
    Ok(op.map(|op| (op, flags)))
}

/// Sets operation, marks, offset and length; a write without data that flushes is a flush. False: not an operation on
/// data.
pub(crate) fn fill(
    record: &mut Record,
    letters: &[u8],
    sector: u64,
    bytes: Option<u64>,
) -> Result<bool, Fault> {
    let Some((op, flags)) = parse(letters)? else { return Ok(false) };
    record.len = super::text::length(bytes, "length")?;
    record.op = op;
    record.flags = flags;
    if record.len == 0 && (op == Op::Flush || flags.has(Flags::PREFLUSH)) {
        record.op = Op::Flush;
        record.flags = Flags(flags.0 & !Flags::PREFLUSH.0);
        // The kernel says -1.
        record.offset = 0;
        return Ok(true);
    }
    record.offset = super::text::offset(sector.checked_mul(512), "sector")?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_told_apart_by_their_place() {
        let flags = |f: &[Flags]| f.iter().fold(Flags::NONE, |a, b| a.with(*b));
        let (s, m, a) = (Flags::SYNC, Flags::META, Flags::AHEAD);
        let cases: [(&str, Op, Flags); 9] = [
            ("R", Op::Read, Flags::NONE),
            ("RAM", Op::Read, flags(&[a, m])),
            ("WS", Op::Write, s),
            ("FWFS", Op::Write, flags(&[Flags::PREFLUSH, Flags::FUA, s])),
            ("WFSM", Op::Write, flags(&[Flags::FUA, s, m])),
            ("D", Op::Discard, Flags::NONE),
            ("DES", Op::Discard, s),
            ("FF", Op::Flush, Flags::NONE),
            ("FN", Op::Flush, Flags::NONE),
        ];
        for (letters, op, flags) in cases {
            assert_eq!(parse(letters.as_bytes()).unwrap(), Some((op, flags)), "{letters}");
        }
        assert_eq!(parse(b"N").unwrap(), None);
        assert!(parse(b"X").is_err());
        assert!(parse(b"").is_err());
    }

    #[test]
    fn a_write_without_data_that_flushes_is_a_flush() {
        let mut record = Record::default();
        assert!(fill(&mut record, b"FWS", u64::MAX, Some(0)).unwrap());
        assert_eq!((record.op, record.offset, record.flags), (Op::Flush, 0, Flags::SYNC));
        assert!(fill(&mut record, b"FWS", 8, Some(512)).unwrap());
        assert_eq!((record.op, record.offset), (Op::Write, 4096));
        assert!(fill(&mut record, b"R", u64::MAX, Some(512)).is_err());
    }
}
