//! A part of a grid: what one of several machines runs.

use std::fmt;
use std::str::FromStr;

/// Part K of N of the cells of a grid, each with all its repetitions. Cells are dealt out in turns, so that no part has the
/// slow drives alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// From 1.
    number: u32,
    of: u32,
}

/// Most parts.
const PARTS_MAX: u32 = 100_000;

impl Share {
    /// Whether a cell, counted from 0, is in this part.
    pub fn has(self, cell: usize) -> bool {
        cell % self.of as usize == self.number as usize - 1
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// No part of anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareError(String);

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShareError(text) = self;
        write!(f, "'{text}' is not K/N with K from 1 to N, and N at most {PARTS_MAX}; write 3/16")
    }
}

impl std::error::Error for ShareError {}

/// `3/16`.
impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Share, ShareError> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| text.parse::<u32>().ok()).flatten()
        };
        let both = text.split_once('/').and_then(|(k, n)| Some((number(k)?, number(n)?)));
        match both {
            Some((number, of)) if (1..=of).contains(&number) && of <= PARTS_MAX => {
                Ok(Share { number, of })
            }
            _ => Err(ShareError(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_one_part() {
        for of in [1, 2, 3, 16] {
            let parts: Vec<Share> =
                (1..=of).map(|k| format!("{k}/{of}").parse().unwrap()).collect();
            for cell in 0..50 {
                assert_eq!(parts.iter().filter(|part| part.has(cell)).count(), 1, "{cell} of {of}");
            }
        }
        assert_eq!("3/16".parse::<Share>().unwrap().to_string(), "3/16");
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "3", "0/4", "5/4", "1/0", "+1/4", "1/100001", "1/4/4", " 1/4", "a/b"] {
            let error = text.parse::<Share>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not K/N")), "{error}");
        }
    }
}
