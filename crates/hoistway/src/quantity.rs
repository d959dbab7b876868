//! Quantities with units as people write them: `4k`, `1.5G`, `10KB`, `20ms`, `10MB/s`. One grammar for flags,
//! serve files, experiment files, drive files and the values of settings (docs/reference/quantities.md).

use crate::unit::Nanos;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// The kind of quantity that a text was read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A length of time.
    Time,
    /// A number of bytes.
    Size,
    /// Bytes per second.
    Rate,
    /// A number of things.
    Count,
}

/// A text that is not the quantity it was to be. Its message says what may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantityError {
    /// Text as it was written.
    pub text: String,
    /// The kind that was expected.
    pub kind: Kind,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, how) = match self.kind {
            Kind::Time => {
                ("time", "write a number and ns, us, ms, s, min or h, such as 8ms or 2.5s")
            }
            Kind::Size => (
                "size",
                "write a number of bytes, or one with a unit: k, M, G, T or KiB, MiB, GiB, TiB (powers of 1024), \
                 kB, MB, GB, TB (powers of 1000), such as 4k, 1.5G or 10MB",
            ),
            Kind::Rate => {
                ("rate", "write a size with its unit per second, such as 10MB/s or 4000KiB/s")
            }
            Kind::Count => (
                "count",
                "write a whole number, or one with k or M (powers of 1000), such as 500 or 2k",
            ),
        };
        write!(f, "'{}' is not a {what}; {how}", self.text)
    }
}

impl core::error::Error for QuantityError {}

impl From<QuantityError> for String {
    fn from(error: QuantityError) -> String {
        error.to_string()
    }
}

fn read(text: &str, kind: Kind, value: Option<u64>) -> Result<u64, QuantityError> {
    value.ok_or_else(|| QuantityError { text: text.to_string(), kind })
}

/// A length of time: a number with ns, us, ms, s, min or h. A bare number has no unit and is refused.
pub fn duration(text: &str) -> Result<Nanos, QuantityError> {
    let (number, unit) = parts(text);
    let scale: Option<u64> = match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "min" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    };
    read(text, Kind::Time, scale.and_then(|scale| scaled(number, scale))).map(Nanos)
}

/// A number of bytes. Upper and lower case are the same; with `B` alone behind the prefix it is decimal,
/// otherwise binary.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = parts(text);
    read(text, Kind::Size, size_unit(unit).and_then(|scale| scaled(number, scale)))
}

/// Bytes per second: a size with a unit, and `/s`, which may be left out. A bare number is refused.
pub fn rate(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = parts(text);
    let unit = unit.strip_suffix("/s").unwrap_or(unit).trim_end();
    let scale = size_unit(unit).filter(|_| !unit.is_empty());
    read(text, Kind::Rate, scale.and_then(|scale| scaled(number, scale)))
}

/// A number of things, such as I/Os.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = parts(text);
    let scale = match unit {
        "" => Some(1),
        "k" | "K" => Some(1_000),
        "M" => Some(1_000_000),
        _ => None,
    };
    read(text, Kind::Count, scale.and_then(|scale| scaled(number, scale)))
}

/// Bytes of a unit of size.
fn size_unit(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => return Some(1),
        Some('b') => return letters.next().is_none().then_some(1),
        Some(prefix) => "kmgt".find(prefix)? as u32 + 1,
    };
    match letters.as_str() {
        "" | "ib" => Some(1024u64.pow(power)),
        "b" => Some(1000u64.pow(power)),
        _ => None,
    }
}

/// Number and unit, without the blank between them.
fn parts(text: &str) -> (&str, &str) {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..split], text[split..].trim_start())
}

/// A decimal number times a whole scale, exactly; `None` if malformed, too large or finer than 1.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 12 {
        return None;
    }
    let tenths = 10u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let total = digits.checked_mul(u128::from(scale))?;
    if !total.is_multiple_of(tenths) {
        return None;
    }
    u64::try_from(total / tenths).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and value; `None`: refused.
    type Table<T> = &'static [(&'static str, Option<T>)];

    fn hold(table: Table<u64>, read: impl Fn(&str) -> Result<u64, QuantityError>) {
        for &(text, expected) in table {
            let got = read(text);
            assert_eq!(got.as_ref().ok().copied(), expected, "{text}: {got:?}");
            if let Err(error) = got {
                let message = error.to_string();
                assert!(message.contains(&format!("'{text}'")) && message.contains("such as"));
            }
        }
    }

    #[test]
    fn sizes() {
        hold(
            &[
                ("0", Some(0)),
                ("4096", Some(4096)),
                ("4096B", Some(4096)),
                ("4k", Some(4096)),
                ("4K", Some(4096)),
                ("4KiB", Some(4096)),
                ("4kib", Some(4096)),
                ("10kB", Some(10_000)),
                ("10KB", Some(10_000)),
                ("1g", Some(1 << 30)),
                ("1.5G", Some(3 << 29)),
                ("1.5 GB", Some(1_500_000_000)),
                (" 500 MiB ", Some(500 << 20)),
                ("10m", Some(10 << 20)),
                ("10mb", Some(10_000_000)),
                ("2T", Some(2 << 40)),
                ("2TB", Some(2_000_000_000_000)),
                ("", None),
                ("k", None),
                ("1X", None),
                ("-4k", None),
                ("+4k", None),
                ("4 parsec", None),
                ("4kk", None),
                ("4kbit", None),
                ("1.5", None),
                ("0.3k", None),
                (".5k", None),
                ("5.k", None),
                ("1e3", None),
                ("1,5G", None),
                ("10MB/s", None),
                ("99999999999999T", None),
            ],
            bytes,
        );
    }

    #[test]
    fn times() {
        hold(
            &[
                ("1ns", Some(1)),
                ("8us", Some(8_000)),
                ("8µs", Some(8_000)),
                ("20ms", Some(20_000_000)),
                ("2.5 s", Some(2_500_000_000)),
                ("3min", Some(180_000_000_000)),
                ("1h", Some(3_600_000_000_000)),
                ("8", None),
                ("0", None),
                ("8m", None),
                ("8MS", None),
                ("8 s s", None),
                ("1.5ns", None),
                ("-1s", None),
                ("", None),
                ("9999999999h", None),
            ],
            |text| duration(text).map(|t| t.0),
        );
    }

    #[test]
    fn rates_and_counts() {
        hold(
            &[
                ("10MB/s", Some(10_000_000)),
                ("10MB", Some(10_000_000)),
                ("1.5G/s", Some(3 << 29)),
                ("4000 KiB /s", Some(4_096_000)),
                ("7B/s", Some(7)),
                ("10", None),
                ("10/s", None),
                ("10MB/min", None),
                ("10MB/s/s", None),
                ("/s", None),
            ],
            rate,
        );
        hold(
            &[
                ("500", Some(500)),
                ("2k", Some(2_000)),
                ("1.5K", Some(1_500)),
                ("3M", Some(3_000_000)),
                ("1.5", None),
                ("2m", None),
                ("2 per second", None),
            ],
            count,
        );
    }
}
