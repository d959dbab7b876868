//! Columns by the names in a header.
//!
//! Traces in columns come with a header line or without, as they were published or as a program passed them on: in
//! another order, with columns more. Columns that a header names are read by name. A header that contradicts the format (a
//! needed column is missing and another stands in its place, a unit is another) makes every line after it an error: read by
//! position its numbers would be other numbers.

use super::text::{self, Found};
use crate::error::Fault;
use std::cmp::Ordering;

/// A column of a format.
pub(crate) struct Column {
    /// As the trace's description has it.
    pub name: &'static str,
    /// In small letters and without blanks and underscores: what it is called, the name above first.
    pub called: &'static [&'static str],
    /// In the same form: the unit, if a header says one in brackets. None: any.
    pub units: &'static [&'static str],
}

/// What headers write for bytes,
pub(crate) const BYTES: &[&str] = &["bytes", "byte", "b"];
/// and for sectors of 512 bytes.
pub(crate) const SECTORS: &[&str] =
    &["sectors", "sector", "512byte", "512byteblocks", "512bytesectors"];

/// The order of the columns: the format's own, until a header says another.
#[derive(Debug, Default)]
pub(crate) enum Columns<const N: usize> {
    #[default]
    Own,
    /// By the format's order: where each stands; and how many there are in all.
    Named {
        places: [usize; N],
        cells: usize,
    },
    Contradicted(Fault),
}

/// Most columns of a header that is taken for one.
const CELLS_MAX: usize = 64;

impl<const N: usize> Columns<N> {
    /// The format's columns of a line with commas.
    #[inline]
    pub fn commas<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; N], Fault> {
        match self {
            Columns::Own => text::columns::<N>(line, b','),
            _ => self.picked(line.split(|b| *b == b',')),
        }
    }

    /// The format's columns of a line with blanks.
    #[inline]
    pub fn words<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; N], Fault> {
        match self {
            Columns::Own => match text::words::<N>(line) {
                Some((words, n)) if n == N => Ok(words),
                Some(_) => Err(TOO_FEW),
                None => Err(TOO_MANY),
            },
            _ => self.picked(text::split_words(line)),
        }
    }

    /// The format's columns out of a line's cells.
    #[cold]
    fn picked<'a>(&self, cells: impl Iterator<Item = &'a [u8]>) -> Result<[&'a [u8]; N], Fault> {
        let (places, all) = match self {
            Columns::Own => (std::array::from_fn(|c| c), N),
            Columns::Named { places, cells } => (*places, *cells),
            Columns::Contradicted(fault) => return Err(*fault),
        };
        let mut out: [&[u8]; N] = [&[]; N];
        let mut n = 0;
        for cell in cells {
            if let Some(c) = places.iter().position(|at| *at == n) {
                out[c] = cell;
            }
            n += 1;
        }
        match n.cmp(&all) {
            Ordering::Less => Err(TOO_FEW),
            Ordering::Greater => Err(TOO_MANY),
            Ordering::Equal => Ok(out),
        }
    }

    /// [`Columns::header`] of a line with commas.
    #[cold]
    pub fn header_of_commas(
        &mut self,
        of: &[Column; N],
        line: &[u8],
        fault: Fault,
    ) -> Result<Found, Fault> {
        self.header(of, line.split(|b| *b == b','), fault)
    }

    /// [`Columns::header`] of a line with blanks; units that stand apart are passed over.
    #[cold]
    pub fn header_of_words(
        &mut self,
        of: &[Column; N],
        line: &[u8],
        fault: Fault,
    ) -> Result<Found, Fault> {
        let unit = |w: &[u8]| w[0] == b'(' || (w.ends_with(b")") && !w.contains(&b'('));
        self.header(of, text::split_words(line).filter(|w| !unit(w)), fault)
    }

    /// What a line says of the columns that could not be read for `fault`: that again, if it is no header.
    fn header<'a>(
        &mut self,
        of: &[Column; N],
        cells: impl Iterator<Item = &'a [u8]>,
        fault: Fault,
    ) -> Result<Found, Fault> {
        let mut places = [None; N];
        let (mut all, mut plain, mut other_unit) = (0, true, None);
        for (at, cell) in cells.enumerate() {
            let Some((name, unit)) = heading(cell).filter(|_| at < CELLS_MAX) else {
                return Err(fault);
            };
            all = at + 1;
            let called = |c: &Column| c.called.contains(&name.as_str());
            match of.iter().position(called).filter(|c| places[*c].is_none()) {
                Some(c) => {
                    let column = &of[c];
                    if !(unit.is_empty() || column.units.is_empty() || column.has_unit(&unit)) {
                        other_unit.get_or_insert(column.name);
                    }
                    plain &= name == column.called[0];
                    places[c] = Some(at);
                }
                None => plain = false,
            }
        }
        if places.iter().flatten().count() * 2 < N {
            return Err(fault);
        }
        if let Some(name) = other_unit {
            return self.contradicted(Fault::new(name, "is in another unit, by the header"));
        }
        let taken = places;
        for (c, place) in places.iter_mut().enumerate() {
            // A name that is not known, where the format has this column.
            if place.is_none() && c < all && !taken.contains(&Some(c)) {
                *place = Some(c);
            }
            if place.is_none() {
                return self.contradicted(Fault::new(of[c].name, "is missing in the header"));
            }
        }
        let places = places.map(|place| place.expect("all were found"));
        let own = all == N && places.iter().enumerate().all(|(c, at)| c == *at);
        *self = if own { Columns::Own } else { Columns::Named { places, cells: all } };
        Ok(if own && plain { Found::Mark } else { Found::Nothing })
    }

    fn contradicted(&mut self, fault: Fault) -> Result<Found, Fault> {
        *self = Columns::Contradicted(fault);
        Err(fault)
    }
}

impl Column {
    fn has_unit(&self, unit: &str) -> bool {
        let unit = unit.split("since").next().unwrap_or(unit);
        self.units.contains(&unit)
    }
}

const TOO_FEW: Fault = Fault::new("line", "has too few columns");
const TOO_MANY: Fault = Fault::new("line", "has too many columns");

/// Name and unit of a cell of a header, in the form of [`Column`]; `None` if it holds no name.
fn heading(cell: &[u8]) -> Option<(String, String)> {
    let cell =
        std::str::from_utf8(cell).ok()?.trim_matches(['"', '\'', '#', ' ', '\t', '\u{feff}']);
    let (name, unit) = cell.split_once(['(', '[']).unwrap_or((cell, ""));
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let plain = |text: &str| -> String {
        let kept = text.chars().filter(|c| !c.is_whitespace() && !"_-.)]".contains(*c));
        kept.map(|c| c.to_ascii_lowercase()).collect()
    };
    Some((plain(name), plain(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: [Column; 3] = [
        Column { name: "Time", called: &["time", "timestamp"], units: &["us"] },
        Column { name: "Offset", called: &["offset"], units: &["bytes", "b"] },
        Column { name: "Op", called: &["op", "rw"], units: &[] },
    ];
    const FAULT: Fault = Fault::new("x", "y");

    /// What the header says, and the columns of the line `1,2,3,4` cut to as many cells.
    fn told(header: &str) -> (Result<Found, Fault>, String) {
        let mut columns = Columns::<3>::default();
        let found = columns.header_of_commas(&OF, header.as_bytes(), FAULT);
        let line = if header.split(',').count() == 4 { "1,2,3,4" } else { "1,2,3" };
        let shown = match columns.commas(line.as_bytes()) {
            Ok(_) if matches!(columns, Columns::Own) => "own".to_string(),
            Ok(picked) => picked.map(|c| String::from_utf8_lossy(c).into_owned()).join(" "),
            Err(fault) => fault.to_string(),
        };
        (found, shown)
    }

    #[test]
    fn columns_are_read_by_name_and_contradictions_are_errors() {
        assert_eq!(told("Time,Offset,Op"), (Ok(Found::Mark), "own".into()));
        assert_eq!(
            told("\u{feff}\"TIME (us)\", Off_Set [bytes] ,Op"),
            (Ok(Found::Mark), "own".into())
        );
        assert_eq!(told("timestamp,offset,rw"), (Ok(Found::Nothing), "own".into()));
        assert_eq!(told("op,time,offset"), (Ok(Found::Nothing), "2 3 1".into()));
        // The index that pandas writes, and a column more.
        assert_eq!(told(",time,offset,op"), (Ok(Found::Nothing), "2 3 4".into()));
        assert_eq!(told("offset,op,size,time"), (Ok(Found::Nothing), "4 1 2".into()));
        // A name that is not known, in its own place; in another's place it cannot be guessed.
        assert_eq!(told("when,offset,op"), (Ok(Found::Nothing), "own".into()));
        let (found, then) = told("offset,when,op");
        assert_eq!(
            (found.unwrap_err().to_string(), then.as_str()),
            (then.clone(), "Time is missing in the header")
        );
        let (found, then) = told("time,offset (sectors),op");
        assert_eq!(
            (found.unwrap_err().to_string(), then.as_str()),
            (then.clone(), "Offset is in another unit, by the header")
        );
        for none in ["1,2,3", "12,offset,op", "hello,world,op", "", "a", "time"] {
            assert_eq!(told(none), (Err(FAULT), "own".into()), "{none}");
        }
    }
}
