//! What a module says of itself: a text in TOML.

use crate::limits;
use hoistway::setting::{Tunable, Unit};
use hoistway_files::input::Lines;
use serde::Deserialize;

/// The interface that this program speaks.
const INTERFACE: u64 = 1;

/// Letters of a summary or a text.
const LINE: usize = 200;

/// Units by their words; without one, a number counts.
const UNITS: &[(&str, Unit)] = &[
    ("ns", Unit::Nanos),
    ("us", Unit::Micros),
    ("ms", Unit::Millis),
    ("s", Unit::Secs),
    ("sectors", Unit::Sectors),
    ("B", Unit::Bytes),
    ("KiB", Unit::Kib),
    ("B/s", Unit::BytesPerSec),
    ("requests", Unit::Requests),
    ("x", Unit::Factor),
    ("weight", Unit::Weight),
    ("switch", Unit::Switch),
];

/// What is said, and it holds.
#[derive(Debug)]
pub struct About {
    text: Text,
    /// The unit of each row.
    units: Vec<Unit>,
}

/// The text of version 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(rename = "interface")]
    _interface: u64,
    summary: String,
    #[serde(default)]
    tunable: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    default: u64,
    min: u64,
    max: u64,
    text: String,
    unit: Option<String>,
}

/// What every version begins with.
#[derive(Deserialize)]
struct Version {
    interface: u64,
}

impl About {
    pub fn parse(text: &str) -> Result<About, String> {
        let line = |e: toml::de::Error| {
            let line = e.span().map(|span| Lines::of(text).at(span.start));
            let place = line.map_or_else(String::new, |line| format!(", line {line}"));
            format!("about{place}: {}", e.message())
        };
        let Version { interface } = toml::from_str(text).map_err(line)?;
        if interface != INTERFACE {
            return Err(format!(
                "about: it is made for interface {interface}, and this program has {INTERFACE}; use a newer one, or build the \
                 module for interface {INTERFACE}"
            ));
        }
        let text: Text = toml::from_str(text).map_err(line)?;
        let wrong = |what: String| Err(format!("about: {what}"));
        if !is_line(&text.summary) {
            return wrong(format!("summary: write one line of at most {LINE} letters"));
        }
        if text.tunable.len() > limits::SETTINGS {
            return wrong(format!("more than {} settings", limits::SETTINGS));
        }
        let mut units = Vec::new();
        for (at, row) in text.tunable.iter().enumerate() {
            if text.tunable[..at].iter().any(|other| other.name == row.name) {
                return wrong(format!("tunable '{}' stands there twice", row.name));
            }
            let unit = row.unit().map_err(|what| format!("about: tunable '{}': {what}", row.name));
            units.push(unit?);
        }
        Ok(About { text, units })
    }

    /// The default of each setting.
    #[cfg(feature = "wasm")]
    pub fn defaults(&self) -> Vec<u64> {
        self.text.tunable.iter().map(|row| row.default).collect()
    }

    /// The summary, and the rows of a registry entry, which lives as long as the process.
    pub fn rows(self) -> (String, Vec<Tunable>) {
        let row = |(row, unit): (Row, Unit)| {
            let range = (row.min, row.max);
            Tunable::new(row.name.leak(), unit, row.default, range, row.text.leak())
        };
        let rows = self.text.tunable.into_iter().zip(self.units).map(row);
        (self.text.summary, rows.collect())
    }
}

impl Row {
    /// Its unit, if the row can be a setting.
    fn unit(&self) -> Result<Unit, String> {
        let Row { name, default, min, max, text, unit } = self;
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(fits) {
            return Err("a name has small letters, digits and _, a letter first".into());
        }
        if !(min <= default && default <= max) {
            return Err(format!("default = {default} is outside {min}..={max}"));
        }
        if !is_line(text) {
            return Err(format!("text: write one line of at most {LINE} letters"));
        }
        let Some(word) = unit else { return Ok(Unit::Count) };
        match UNITS.iter().find(|(known, _)| known == word) {
            Some((_, Unit::Switch)) if *max != 1 || *min != 0 => {
                Err("a switch has min = 0 and max = 1".into())
            }
            Some((_, unit)) => Ok(*unit),
            None => {
                let words: Vec<&str> = UNITS.iter().map(|(word, _)| *word).collect();
                Err(format!("unit = '{word}': choose one of {}", words.join(", ")))
            }
        }
    }
}

/// It is printed in tables and on terminals.
fn is_line(text: &str) -> bool {
    let shown = hoistway_files::shown::line(text);
    !text.is_empty() && text.chars().count() <= LINE && shown == text
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "interface = 1\nsummary = \"s\"\n[[tunable]]\nname = \"quantum\"\ndefault = 4\nmin = 1\nmax = 9\n\
                        text = \"t\"\nunit = \"requests\"\n";

    #[test]
    fn rows_become_settings() {
        let about = About::parse(GOOD).unwrap();
        let (summary, rows) = about.rows();
        assert_eq!((summary.as_str(), rows.len()), ("s", 1));
        let row = &rows[0];
        assert_eq!((row.name, row.default, row.min, row.max), ("quantum", 4, 1, 9));
        assert_eq!(row.unit, Unit::Requests);
    }

    #[test]
    fn each_error_says_what_to_write() {
        let second = &GOOD[GOOD.find("[[").unwrap()..];
        let cases = [
            ("interface = 1", "interface = 2", "made for interface 2, and this program has 1"),
            ("interface = 1", "", "missing field `interface`"),
            ("\"s\"", "\"\"", "summary: write one line"),
            ("\"s\"", "\"a\\u001b[2Jb\"", "summary: write one line"),
            ("summary", "summry", "line 2: unknown field `summry`"),
            ("default = 4", "default = 10", "tunable 'quantum': default = 10 is outside 1..=9"),
            ("default = 4", "default = -4", "line 5: "),
            ("\"quantum\"", "\"Quantum\"", "a name has small letters"),
            ("\"requests\"", "\"parsecs\"", "unit = 'parsecs': choose one of ns, us"),
            ("\"requests\"", "\"switch\"", "a switch has min = 0 and max = 1"),
        ];
        for (from, to, told) in cases {
            let error = About::parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        let error = About::parse(&format!("{GOOD}{second}")).unwrap_err();
        assert!(error.contains("'quantum' stands there twice"), "{error}");
    }
}
