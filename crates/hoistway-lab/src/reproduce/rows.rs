//! Published figures with ours beside them.
//!
//! A published figure is told in the words and the unit of its document. Ours is looked up by the table of
//! names ([`published::join`]), or calculated from several of our cells (`derived`). A figure that
//! has no counterpart says why (`data/published-notes.csv`).

use super::derived;
use super::figures::Results;
use super::value::Value;
use crate::result::published;
use std::sync::OnceLock;

/// The figures measured without I/O control: what the models were calibrated to.
const UNCONTROLLED: &str = include_str!("../../data/published-uncontrolled.csv");
/// Why a figure has no counterpart, and by which mechanism one lies beyond the tolerance.
const NOTES: &str = include_str!("../../data/published-notes.csv");

/// Ours may lie so far from a figure measured without control (specs/drives.md 9).
pub const TOLERANCE: f64 = 0.25;

/// What a line of the notes is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Why there is nothing of ours beside it.
    Unjoined,
    /// Why ours lies beyond the tolerance.
    Mechanism,
}

/// A line of the notes: the first five columns of the published table, empty ones fit all.
#[derive(Clone, Debug)]
pub struct Note {
    /// Experiment, drive, configuration, workload, metric.
    pub of: [String; 5],
    /// What it is about.
    pub kind: NoteKind,
    /// The text.
    pub text: String,
}

/// Every line of the notes.
pub fn notes() -> &'static [Note] {
    static ALL: OnceLock<Vec<Note>> = OnceLock::new();
    ALL.get_or_init(|| read_notes(NOTES).expect("data/published-notes.csv is well-formed (tested)"))
}

fn read_notes(text: &str) -> Result<Vec<Note>, String> {
    let mut all = Vec::new();
    for (i, words) in crate::result::csv::parse(text)?.into_iter().enumerate().skip(1) {
        let [of @ .., kind, text] = &words[..] else {
            return Err(format!("line {}: empty", i + 1));
        };
        let kind = match kind.as_str() {
            "unjoined" => NoteKind::Unjoined,
            "mechanism" => NoteKind::Mechanism,
            other => return Err(format!("line {}: no kind of note '{other}'", i + 1)),
        };
        let of: [String; 5] =
            of.to_vec().try_into().map_err(|_| format!("line {}: 7 fields are expected", i + 1))?;
        all.push(Note { of, kind, text: text.clone() });
    }
    Ok(all)
}

/// The note of that kind about a row; a pattern in the table is a word, a beginning with `*`, or nothing.
pub fn note(row: &[String], kind: NoteKind) -> Option<&'static str> {
    let fits = |n: &&Note| {
        n.kind == kind
            && n.of.iter().zip(row).all(|(pattern, word)| match pattern.strip_suffix('*') {
                Some(begin) => word.starts_with(begin),
                None => pattern.is_empty() || pattern == word,
            })
    };
    notes().iter().find(fits).map(|n| n.text.as_str())
}

/// Was it measured without I/O control?
pub fn is_uncontrolled(row: &[String]) -> bool {
    static ALL: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        crate::result::csv::parse(UNCONTROLLED).expect("the table is well-formed (tested)")
    });
    all.iter().any(|other| other == row)
}

/// A published figure, and ours.
#[derive(Clone, Debug)]
pub struct PublishedRow {
    /// In the document's words: experiment, drive, configuration, workload, metric, unit, value, document.
    pub words: Vec<String>,
    /// The published value.
    pub published: Value,
    /// Ours, in the document's unit.
    pub ours: Option<Value>,
    /// How ours came about; or why there is none.
    pub note: String,
    /// It was measured without I/O control.
    pub uncontrolled: bool,
    /// Our names: drive, configuration, workload, metric; `None` of what is calculated from several cells.
    pub cell: Option<[&'static str; 4]>,
}

impl PublishedRow {
    /// Ours over the published value, if both are known exactly.
    pub fn ratio(&self) -> Option<f64> {
        let ours = self.ours?;
        let known = !ours.beyond && !self.published.beyond && self.published.is != 0.0;
        known.then(|| ours.is / self.published.is)
    }

    /// By what factor the two differ: 1 if they are the same; `None` if one of them was given up, or has
    /// another sign, or is 0 alone.
    pub fn factor(&self) -> Option<f64> {
        let ours = self.ours?;
        if self.published.beyond && ours.beyond || self.published == ours {
            return Some(1.0);
        }
        self.ratio().filter(|r| *r > 0.0).map(|r| r.max(1.0 / r))
    }

    /// Within the tolerance of figures without control.
    pub fn within_tolerance(&self) -> bool {
        let same = self.ours == Some(self.published);
        same || self.ratio().is_some_and(|r| (r - 1.0).abs() <= TOLERANCE)
    }

    /// The ratio as a text.
    pub fn ratio_text(&self) -> String {
        let Some(ours) = self.ours else { return "-".into() };
        // Three decimals, as long as something is left of it.
        let three = |x: f64| match (x * 1000.0).round() / 1000.0 {
            0.0 => Value::exactly(x).text(),
            rounded => Value::exactly(rounded).text(),
        };
        let ratio = three(ours.is / self.published.is);
        match (self.published.beyond, ours.beyond) {
            (true, true) => "both given up".into(),
            (true, false) => format!("{ratio} of {}", self.published.text()),
            (false, true) => format!(">{ratio}"),
            (false, false) if self.published.is == 0.0 && ours.is == 0.0 => "both 0".into(),
            (false, false) if self.published.is == 0.0 => "-".into(),
            (false, false) => ratio,
        }
    }
}

/// Every published figure of these experiments, in the order of the table.
pub fn rows(results: &[Results]) -> Vec<PublishedRow> {
    published::documents().iter().filter_map(|words| row(words, results)).collect()
}

/// `None`: its experiment is not among them.
fn row(words: &[String], results: &[Results]) -> Option<PublishedRow> {
    let experiment = derived::experiment_of(&words[0]);
    let results = results.iter().find(|r| r.id == experiment)?;
    let published = Value::parse(&words[6]).expect("a published value is a number (tested)");
    let mut row = PublishedRow {
        words: words.to_vec(),
        published,
        ours: None,
        note: String::new(),
        uncontrolled: is_uncontrolled(words),
        cell: None,
    };
    if let Some(reason) = note(words, NoteKind::Unjoined) {
        row.note = reason.into();
        return Some(row);
    }
    match derived::of(words, results) {
        Some(Ok((ours, note))) => {
            row.ours = Some(ours);
            row.note = note.into();
        }
        Some(Err(missing)) => row.note = missing,
        None => look_up(&mut row, results),
    }
    Some(row)
}

/// The same runs, told of once more with other words.
pub fn plain(words: &[String]) -> Vec<String> {
    let mut words = words.to_vec();
    words[2] = words[2].replace(" (with printks)", "");
    words[3] = words[3].replace(" (low_latency-off paragraph)", "");
    words
}

fn look_up(row: &mut PublishedRow, results: &Results) {
    let words = plain(&row.words);
    let Some(joined) = published::join(&words) else {
        row.note = "has no counterpart among our names".into();
        return;
    };
    row.cell = Some([joined.drive, joined.config, joined.workload, joined.metric]);
    let found = results.find(joined.drive, joined.config, joined.workload, joined.metric);
    let value = found.and_then(|f| match joined.metric {
        // A published maximum is that of one run; the maximum of ten is another thing.
        "latency_max" if !f.reps.is_empty() => f.spread().map(|s| Value::exactly(s.mean)),
        _ => f.value.map(Value::from),
    });
    let Some(value) = value else {
        row.note = match found {
            Some(_) => "too few samples".into(),
            None => format!("no {} of {}, {}", joined.metric, joined.config, joined.workload),
        };
        return;
    };
    let factor = if row.words[5] == joined.unit { 1.0 } else { joined.factor };
    row.ours = Some(Value { is: value.is / factor, ..value });
    let today = joined.config == "bfq" && row.words[2] == "bfq" && row.words[0].ends_with("-2012");
    if today {
        row.note = "bfq of today; published bfq-v4".into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(published: &str, ours: Option<&str>) -> PublishedRow {
        PublishedRow {
            words: vec![String::new(); 8],
            published: Value::parse(published).unwrap(),
            ours: ours.and_then(Value::parse),
            note: String::new(),
            uncontrolled: true,
            cell: None,
        }
    }

    #[test]
    fn ratios_of_bounds_and_of_nothing_are_told_as_such() {
        let told = |p, o| {
            let row = with(p, o);
            (row.ratio_text(), row.factor(), row.within_tolerance())
        };
        assert_eq!(told("2", Some("2.5")), ("1.25".into(), Some(1.25), true));
        assert!(!told("2", Some("1.4")).2);
        assert_eq!(told(">60", Some(">60")), ("both given up".into(), Some(1.0), true));
        assert_eq!(told(">60", Some("15")), ("0.25 of >60".into(), None, false));
        assert_eq!(told("15", Some(">60")), (">4".into(), None, false));
        assert_eq!(told("0.000", Some("0")), ("both 0".into(), Some(1.0), true));
        assert_eq!(told("0", Some("3")), ("-".into(), None, false));
        assert_eq!(told("-1.6", Some("3")).1, None, "another sign");
        assert_eq!(told("2", None), ("-".into(), None, false));
    }

    #[test]
    fn what_was_measured_without_control_is_published_too() {
        let all = published::documents();
        let lines = crate::result::csv::parse(UNCONTROLLED).unwrap();
        for line in &lines[1..] {
            assert!(all.contains(line), "{line:?} is not in data/published.csv");
        }
        assert_eq!(all.iter().filter(|row| is_uncontrolled(row)).count(), lines.len() - 1);
    }

    #[test]
    fn notes_are_about_rows_that_exist() {
        let all = published::documents();
        for n in notes() {
            let fits = |row: &&Vec<String>| note(row, n.kind) == Some(n.text.as_str());
            assert!(all.iter().any(|row| fits(&row)), "{n:?} fits no row, or one before it does");
            assert!(n.text.len() > 10, "{n:?}");
        }
        assert!(read_notes("a\nx,,,,,because,\n").is_err());
    }

    #[test]
    fn every_published_figure_is_a_number() {
        for row in published::documents() {
            assert!(Value::parse(&row[6]).is_some(), "{row:?}");
        }
    }
}
