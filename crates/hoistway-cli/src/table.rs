//! Aligned tables for people.

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
        self.rows.push(cells);
    }

    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let lines = || std::iter::once(&self.headings).chain(&self.rows);
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|c| lines().map(|line| width(&line[c])).max().unwrap_or(0))
            .collect();
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
    fn three_significant_digits() {
        let texts: Vec<String> =
            [4500.4, 39.04, 2.999, 0.1234, 0.01239, 0.0].into_iter().map(three).collect();
        assert_eq!(texts, ["4500", "39.0", "3.00", "0.123", "0.0124", "0"]);
    }
}
