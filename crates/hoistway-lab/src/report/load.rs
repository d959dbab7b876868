//! A page about one load: series over time, bars of shares, tables. What `hoistway describe --html` writes.
//!
//! The caller brings the figures; the drawing and the style are the report's.

use super::chart::{Bar, Line, Panel, bars, panels};
use super::html;
use super::section::{Chart, figure, open_table};
use super::svg::{AxisUnit, esc};
use crate::result::Spread;
use crate::stats::Bound;
use std::fmt::Write;

/// What the page shows.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// One paragraph below it.
    pub lead: String,
    /// Short facts.
    pub facts: Vec<String>,
    /// Series that share a time axis, in seconds.
    pub series: Vec<Series>,
    /// Distributions: shares of a whole.
    pub shares: Vec<LoadShares>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What to do next; a line each, the commands in it as they are typed.
    pub next: Vec<String>,
}

/// A series over time.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it shows.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Lines: name and points of (seconds, value).
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// How something is distributed.
#[derive(Clone, Debug)]
pub struct LoadShares {
    /// What.
    pub title: String,
    /// Of what the shares are.
    pub axis: String,
    /// Label and share, 0 to 1.
    pub rows: Vec<(String, f64)>,
}

/// A table of text.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its caption.
    pub title: String,
    /// Headings.
    pub headings: Vec<String>,
    /// Rows of as many cells; the first is text, the others are numbers.
    pub rows: Vec<Vec<String>>,
}

/// The page. The same content gives the same bytes.
pub fn page(content: &Page) -> String {
    let mut out = html::head(&content.title);
    let _ = write!(
        out,
        "<main>\n<header id=\"top\">\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n<ul class=\"chips\">",
        esc(&content.title),
        esc(&content.lead)
    );
    for fact in &content.facts {
        let _ = write!(out, "<li>{}</li>", esc(fact));
    }
    out.push_str("</ul></header>\n<section>\n");
    if !content.series.is_empty() {
        out.push_str(&figure(&series(&content.series)));
    }
    for (n, shares) in content.shares.iter().enumerate() {
        out.push_str(&figure(&distribution(n, shares)));
    }
    for table in &content.tables {
        out.push_str(&open_table(&table.title));
        let cells = |tag: &str, row: &[String]| -> String {
            row.iter().map(|c| format!("<{tag}>{}</{tag}>", esc(c))).collect()
        };
        let _ = writeln!(out, "<thead><tr>{}</tr></thead><tbody>", cells("th", &table.headings));
        for row in &table.rows {
            let _ = writeln!(out, "<tr>{}</tr>", cells("td", row));
        }
        out.push_str("</tbody></table></div>\n");
    }
    if !content.next.is_empty() {
        out.push_str("<h2>What to do next</h2>\n");
        for line in &content.next {
            let _ = writeln!(out, "<pre>{}</pre>", esc(line));
        }
    }
    out.push_str("</section>\n</main>\n</body>\n</html>\n");
    out
}

fn series(all: &[Series]) -> Chart {
    let panel = |s: &Series| Panel {
        name: s.name.clone(),
        unit: s.unit.clone(),
        lines: s
            .lines
            .iter()
            .enumerate()
            .map(|(key, (tip, points))| Line { key, tip: tip.clone(), points: points.clone() })
            .collect(),
    };
    let shown: Vec<Panel> = all.iter().map(panel).collect();
    let about: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
    let svg = panels("time", "Over time", &about.join(", "), &shown);
    Chart::new("time", "Over time", "seconds since the first record", svg)
}

fn distribution(n: usize, shares: &LoadShares) -> Chart {
    let exact = |v: f64| Spread { mean: v, half_width: None, min: v, max: v, n: 1 };
    let bar = |(label, share): &(String, f64)| Bar {
        key: 0,
        label: label.clone(),
        value: Some(exact(*share)),
        bound: Bound::Exact,
        published: None,
    };
    let rows: Vec<Bar> = shares.rows.iter().map(bar).collect();
    let slug = format!("shares-{n}");
    let svg = bars(&slug, &shares.title, &shares.axis, AxisUnit::Share, &rows);
    Chart::new(&slug, &shares.title, &esc(&shares.axis), svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_what_it_is_given_and_escapes_it() {
        let points = vec![(0.0, 1.0), (1.0, 5.0)];
        let content = Page {
            title: "a<b".into(),
            series: vec![Series {
                name: "requests".into(),
                unit: "1/s".into(),
                lines: vec![("all".into(), points)],
            }],
            shares: vec![LoadShares {
                title: "sizes".into(),
                axis: "share of requests".into(),
                rows: vec![("4 KiB".into(), 0.25), ("8 KiB".into(), 0.75)],
            }],
            tables: vec![Table {
                title: "who".into(),
                headings: vec!["process".into(), "requests".into()],
                rows: vec![vec!["fio & co".into(), "7".into()]],
            }],
            next: vec!["hoistway replay x".into()],
            ..Page::default()
        };
        let html = page(&content);
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.contains("<h1>a&lt;b</h1>") && html.contains("<td>fio &amp; co</td>"));
        assert!(html.contains("<pre>hoistway replay x</pre>") && html.ends_with("</html>\n"));
    }
}
