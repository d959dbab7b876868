//! Aligned tables for people.

use hoistway_files::shown;
use hoistway_lab::judge::Comparison;
use hoistway_lab::stats::{Bounded, Finding, Ratio};

/// Rows of cells under headings; the first `left` columns are text, the others right-aligned numbers.
#[derive(Debug)]
pub struct Table {
    headings: Vec<String>,
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[&str], left: usize) -> Table {
        let headings = headings.iter().map(|h| h.to_string()).collect();
        Table { headings, left, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "one cell per heading");
        // A name with a line break in it makes no lines of its own.
        self.rows.push(cells.iter().map(|cell| shown::line(cell).into_owned()).collect());
    }

    /// Within so many columns, if it can be: as many as need be of the columns called `spare` go, the first
    /// of them first, and a line below names them. All columns without a limit.
    pub fn fit(mut self, limit: Option<usize>, spare: &[&str]) -> String {
        let Some(limit) = limit else { return self.render() };
        // A column in which nothing stands is not missed.
        for name in spare {
            let at = self.headings.iter().position(|h| h == name);
            if let Some(at) = at.filter(|&at| self.rows.iter().all(|row| row[at].is_empty())) {
                self.take(at);
            }
        }
        let mut gone = Vec::new();
        for name in spare {
            if self.width() <= limit {
                break;
            }
            if let Some(at) = self.headings.iter().position(|h| h == name) {
                self.take(at);
                gone.push(*name);
            }
        }
        let mut out = self.render();
        if !gone.is_empty() {
            out.push_str(&format!("(--wide adds: {})\n", gone.join(", ")));
        }
        out
    }

    fn take(&mut self, column: usize) {
        self.headings.remove(column);
        self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
    }

    /// Of its longest line.
    fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let lines = || std::iter::once(&self.headings).chain(&self.rows);
        (0..self.headings.len())
            .map(|c| lines().map(|line| line[c].chars().count()).max().unwrap_or(0))
            .collect()
    }

    /// As Markdown prints it. Names of others make no cells or tags.
    pub fn markdown(&self) -> String {
        let cell = |text: &String| text.replace('|', "\\|").replace('<', "&lt;");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rule = |i: usize| if i < self.left { "---" } else { "--:" };
        let mut out = line(self.headings.iter().map(cell).collect());
        out += &line((0..self.headings.len()).map(|i| rule(i).to_string()).collect());
        self.rows.iter().for_each(|row| out += &line(row.iter().map(cell).collect()));
        out
    }

    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let lines = || std::iter::once(&self.headings).chain(&self.rows);
        let widths = self.widths();
        let mut out = String::new();
        for (n, line) in lines().enumerate() {
            let mut text = String::new();
            for (c, cell) in line.iter().enumerate() {
                let pad = " ".repeat(widths[c] - width(cell));
                if c > 0 {
                    text.push_str("  ");
                }
                match c < self.left {
                    true => text.extend([cell.as_str(), &pad]),
                    false => text.extend([pad.as_str(), cell]),
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
            if n == 0 {
                let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
                out.push_str(&rule.join("  "));
                out.push('\n');
            }
        }
        out
    }
}

/// Columns that a table for people may take: those of the terminal, 100 where there is none, all with
/// `--wide`.
pub fn limit(wide: bool) -> Option<usize> {
    let terminal = console::Term::stdout();
    let columns = terminal.size_checked().map(|(_, columns)| usize::from(columns));
    (!wide).then(|| columns.filter(|&c| c > 0).unwrap_or(100))
}

/// Three significant digits, without an exponent.
pub fn three(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s if s >= 0.1 => 3,
        s if s >= 0.01 => 4,
        s if s >= 0.001 => 5,
        0.0 => 0,
        _ => 6,
    };
    format!("{value:.digits$}")
}

/// Three significant digits; of a bound on its safe side.
pub fn bounded(value: Bounded) -> String {
    value.exact().map_or_else(|| value.to_string(), three)
}

/// The same for a cell that may be empty.
pub fn cell(value: Option<Bounded>) -> String {
    value.map_or_else(|| "-".into(), bounded)
}

/// `x1.04`, `x>2.5`.
pub fn times(ratio: &Ratio) -> String {
    format!("x{}", bounded(ratio.bounded()))
}

/// Value over reference as far as the repetitions tell: `same` for no difference, a question mark where they do not,
/// a dash where nothing is known.
pub fn told_apart(comparison: &Comparison) -> String {
    let doubt = match comparison.finding {
        Finding::Same => return "same".into(),
        Finding::Unsure | Finding::Unknown => "?",
        Finding::Less | Finding::More => "",
    };
    match (&comparison.ratio, comparison.finding) {
        (Some(ratio), _) => format!("{}{doubt}", times(ratio)),
        (None, Finding::Unknown) => "-".into(),
        // Over nothing.
        (None, Finding::Unsure) => doubt.into(),
        (None, finding) => finding.name().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut t = Table::new(&["name", "ms"], 1);
        t.row(vec!["a".into(), "10".into()]);
        t.row(vec!["longer".into(), "5".into()]);
        assert_eq!(t.render(), "name    ms\n------  --\na       10\nlonger   5\n");
    }

    #[test]
    fn a_column_in_which_nothing_stands_goes_before_any_other() {
        let mut t = Table::new(&["name", "p99 ms", "published"], 1);
        t.row(vec!["a".into(), "10".into(), String::new()]);
        let spare = ["p99 ms", "published"];
        assert_eq!(t.fit(Some(12), &spare), "name  p99 ms\n----  ------\na         10\n");
    }

    #[test]
    fn columns_that_can_be_spared_go_before_lines_are_too_long() {
        let table = || {
            let mut t = Table::new(&["name", "ms", "MB/s", "+-99%"], 1);
            t.row(vec!["a".into(), "10".into(), "5".into(), "1".into()]);
            t
        };
        assert_eq!(table().fit(Some(21), &["+-99%"]), table().render());
        let fitted = table().fit(Some(20), &["none", "+-99%", "MB/s"]);
        assert_eq!(
            fitted,
            "name  ms  MB/s\n----  --  ----\na     10     5\n(--wide adds: +-99%)\n"
        );
        assert!(table().fit(Some(1), &["MB/s"]).starts_with("name  ms  +-99%\n"), "no more can go");
        assert_eq!(table().fit(None, &["ms"]), table().render());
    }

    #[test]
    fn three_significant_digits() {
        let texts: Vec<String> =
            [4500.4, 39.04, 2.999, 0.1234, 0.01239, 0.0].into_iter().map(three).collect();
        assert_eq!(texts, ["4500", "39.0", "3.00", "0.123", "0.0124", "0"]);
    }
}
