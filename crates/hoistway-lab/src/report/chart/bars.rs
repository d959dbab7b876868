//! Horizontal bars: one row per configuration, labelled directly. On a logarithmic axis, which has no zero
//! for a bar to begin at, they are dots.

use super::super::figures::bounded;
use super::super::svg::{AxisUnit, FINEST, Scale, Svg, WIDTH, letter, number};
use super::shorten;
use crate::result::Spread;
use crate::stats::{Bound, Bounded};
use std::collections::BTreeSet;

/// A bar with its error bar.
pub(in super::super) struct Bar {
    /// Configuration's place in the manifest.
    pub(in super::super) key: usize,
    /// Its name.
    pub(in super::super) label: String,
    /// The value; `None` prints a dash.
    pub(in super::super) value: Option<Spread>,
    /// Whether the value is only a bound.
    pub(in super::super) bound: Bound,
    /// A published value to compare with.
    pub(in super::super) published: Option<f64>,
}

/// Two quantities that add up.
pub(in super::super) struct Stack {
    /// Configuration's place in the manifest.
    pub(in super::super) key: usize,
    /// Its name.
    pub(in super::super) label: String,
    /// The first quantity (the target's), MB/s.
    pub(in super::super) target: f64,
    /// The second (the interferers'), MB/s.
    pub(in super::super) others: f64,
}

/// Several values beside each other.
pub(in super::super) struct Spots {
    /// Configuration's place in the manifest.
    pub(in super::super) key: usize,
    /// Its name.
    pub(in super::super) label: String,
    /// Who, MB/s.
    pub(in super::super) values: Vec<(String, f64)>,
    /// Behind the row.
    pub(in super::super) note: String,
}

/// Parts of a whole.
pub(in super::super) struct Parts {
    /// Configuration's place in the manifest.
    pub(in super::super) key: usize,
    /// Its name.
    pub(in super::super) label: String,
    /// Who, and its part of the whole, 0 to 1.
    pub(in super::super) values: Vec<(String, f64)>,
    /// The first part is the target's.
    pub(in super::super) first: bool,
    /// The part that the first is entitled to.
    pub(in super::super) due: Option<f64>,
    /// Behind the row.
    pub(in super::super) note: String,
}

/// Bars with 99 % intervals; the axis turns logarithmic where the values need it.
pub(in super::super) fn bars(
    id: &str,
    title: &str,
    axis: &str,
    unit: AxisUnit,
    rows: &[Bar],
) -> String {
    let layout = Layout::of(rows.iter().map(|r| r.label.as_str()), rows.len());
    let means: Vec<f64> =
        rows.iter().flat_map(|r| r.value.map(|s| s.mean).into_iter().chain(r.published)).collect();
    let most = rows
        .iter()
        .filter_map(|r| r.value.map(|s| s.mean + s.half_width.unwrap_or(0.0)))
        .chain(means.iter().copied())
        .fold(0.0, f64::max);
    let x = Scale::fitting(&means, most, unit, layout.left, RIGHT);
    let about = rows.iter().map(|r| tip(r, unit)).collect::<Vec<_>>().join("; ");
    let mut svg = Svg::open(id, layout.height(), title, &about);
    let name = if x.log { format!("{axis}, log scale") } else { axis.to_string() };
    layout.frame(&mut svg, &x, &name);
    for (i, row) in rows.iter().enumerate() {
        let y = layout.bar_top(i);
        svg.group(row.key, &tip(row, unit));
        layout.label(&mut svg, i, row.key, &row.label);
        let Some(value) = row.value else {
            svg.text("t mute", layout.left + 6.0, y + layout.bar / 2.0 + 4.0, "no mean");
            svg.end();
            continue;
        };
        let end = x.at(value.mean);
        if x.log {
            let mid = y + layout.bar / 2.0;
            svg.line("grid", layout.left, mid, RIGHT, mid);
        } else {
            svg.rect("bar", layout.left, y, end - layout.left, layout.bar);
        }
        let mut clear = end;
        if let Some(half) = value.half_width {
            let (a, b) = (x.at((value.mean - half).max(0.0)), x.at(value.mean + half));
            let mid = y + layout.bar / 2.0;
            // An interval thinner than its own caps says nothing a stroke could show.
            if b - a >= 1.0 {
                svg.line("err", a, mid, b, mid);
                svg.line("err", a, mid - 3.5, a, mid + 3.5);
                svg.line("err", b, mid - 3.5, b, mid + 3.5);
            }
            clear = b;
        }
        if x.log {
            svg.marker("dot", row.key, end, y + layout.bar / 2.0, DOT);
            clear = clear.max(end + DOT);
        }
        if let Some(published) = row.published {
            let p = x.at(published);
            svg.line("pub", p, y - 2.5, p, y + layout.bar + 2.5);
            if p > clear && p - clear < 60.0 {
                clear = p;
            }
        }
        svg.text("t val", clear + 6.0, y + layout.bar / 2.0 + 4.0, &row.mean(value.mean, unit));
        svg.end();
    }
    svg.close()
}

impl Bar {
    fn mean(&self, mean: f64, unit: AxisUnit) -> String {
        bounded(Bounded { value: mean, bound: self.bound }, |v| unit.value(v))
    }
}

/// Two quantities of these names laid end to end, MB/s.
pub(in super::super) fn stacks(id: &str, title: &str, names: [&str; 2], rows: &[Stack]) -> String {
    let layout = Layout::of(rows.iter().map(|r| r.label.as_str()), rows.len());
    let most = rows.iter().map(|r| r.target + r.others).fold(0.0, f64::max);
    let x = Scale::linear(most, AxisUnit::Rate, layout.left, RIGHT);
    let tip = |r: &Stack| {
        format!(
            "{}: {} {}, {} {}",
            r.label,
            names[0],
            AxisUnit::Rate.value(r.target),
            names[1],
            AxisUnit::Rate.value(r.others)
        )
    };
    let about = rows.iter().map(tip).collect::<Vec<_>>().join("; ");
    let mut svg = Svg::open(id, layout.height(), title, &about);
    layout.frame(&mut svg, &x, "MB/s");
    for (i, row) in rows.iter().enumerate() {
        let y = layout.bar_top(i);
        svg.group(row.key, &tip(row));
        layout.label(&mut svg, i, row.key, &row.label);
        let (a, b) = (x.at(row.target), x.at(row.target + row.others));
        svg.rect("rest", a, y, b - a, layout.bar);
        if row.target > 0.0 {
            svg.rect("mine", layout.left, y, (a - layout.left).max(1.0), layout.bar);
        }
        let text = number(row.target + row.others);
        svg.text("t val", b + 6.0, y + layout.bar / 2.0 + 4.0, &text);
        svg.end();
    }
    svg.close()
}

/// Parts of a whole, one after another, and where the first one is entitled to end. Behind the row a note.
pub(in super::super) fn parts(id: &str, title: &str, rows: &[Parts]) -> String {
    let layout = Layout::of(rows.iter().map(|r| r.label.as_str()), rows.len());
    let x = Scale::linear(1.0, AxisUnit::Share, layout.left, RIGHT);
    let tip = |r: &Parts| {
        let each = named(&r.values, |v| AxisUnit::Share.value(round(v)));
        format!("{} {}: {each}", letter(r.key), r.label)
    };
    let about = rows.iter().map(tip).collect::<Vec<_>>().join("; ");
    let mut svg = Svg::open(id, layout.height(), title, &about);
    layout.frame(&mut svg, &x, "share of all bytes");
    for (i, row) in rows.iter().enumerate() {
        let y = layout.bar_top(i);
        svg.group(row.key, &tip(row));
        layout.label(&mut svg, i, row.key, &row.label);
        let mut from = 0.0;
        for (n, (_, part)) in row.values.iter().enumerate() {
            let (a, b) = (x.at(from), x.at(from + part));
            let class = match (n, row.first) {
                (0, true) => "mine",
                (n, _) if n % 2 == 1 => "rest",
                _ => "rest2",
            };
            // A sliver is drawn at its width, or it would stand for more than it is.
            if b - a > 0.05 {
                svg.rect(class, a, y, b - a, layout.bar);
            }
            from += part;
        }
        if let Some(due) = row.due {
            svg.line("due", x.at(due), y - 2.5, x.at(due), y + layout.bar + 2.5);
        }
        svg.text("t val", RIGHT + 6.0, y + layout.bar / 2.0 + 4.0, &row.note);
        svg.end();
    }
    svg.close()
}

/// Most values that are named each: a page with a hundred thousand names is of no use to anybody.
const NAMED: usize = 256;

/// Names and values; of many the first ones.
fn named(values: &[(String, f64)], text: impl Fn(f64) -> String) -> String {
    let each = values.iter().take(NAMED).map(|(who, v)| format!("{who} {}", text(*v)));
    let more = values.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("and {more} more"));
    each.chain(rest).collect::<Vec<_>>().join(", ")
}

/// To a tenth of a percent.
fn round(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

/// A stroke per value, MB/s.
pub(in super::super) fn spots(id: &str, title: &str, rows: &[Spots]) -> String {
    let layout = Layout::of(rows.iter().map(|r| r.label.as_str()), rows.len());
    let values: Vec<f64> = rows.iter().flat_map(|r| &r.values).map(|v| v.1).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let x = match values.iter().all(|&v| v > 0.0) {
        true => Scale::fitting(&values, most, AxisUnit::Rate, layout.left, RIGHT),
        false => Scale::linear(most, AxisUnit::Rate, layout.left, RIGHT),
    };
    let tip = |r: &Spots| format!("{}: {}", r.label, named(&r.values, |v| AxisUnit::Rate.value(v)));
    let span = |r: &Spots| {
        let of = || r.values.iter().map(|v| v.1);
        let (least, most) = (of().fold(f64::INFINITY, f64::min), of().fold(0.0, f64::max));
        (least.min(most), most)
    };
    let about = |r: &Spots| {
        let (least, most) = span(r);
        format!("{}: {} to {}", r.label, number(least), AxisUnit::Rate.value(most))
    };
    let about = rows.iter().map(about).collect::<Vec<_>>().join("; ");
    let mut svg = Svg::open(id, layout.height(), title, &about);
    let log = if x.log { ", log scale" } else { "" };
    layout.frame(&mut svg, &x, &format!("MB/s of one process{log}"));
    for (i, row) in rows.iter().enumerate() {
        let y = layout.bar_top(i);
        let mid = y + layout.bar / 2.0;
        svg.group(row.key, &tip(row));
        layout.label(&mut svg, i, row.key, &row.label);
        let (least, most) = span(row);
        svg.line("grid", x.at(least), mid, x.at(most), mid);
        let many = row.values.len() > NAMED;
        let mut drawn = BTreeSet::new();
        for at in row.values.iter().map(|v| x.at(v.1)) {
            // Coordinates have one digit behind the point.
            if !many || drawn.insert((at * 10.0).round() as i64) {
                svg.line("spot", at, y, at, y + layout.bar);
            }
        }
        svg.text("t val", x.at(most) + 6.0, mid + 4.0, &row.note);
        svg.end();
    }
    svg.close()
}

/// Where rows lie. Names stand left of the bars while short, above them otherwise.
struct Layout {
    left: f64,
    above: f64,
    /// Height of a bar: few rows fill the figure.
    bar: f64,
    rows: usize,
}

impl Layout {
    fn of<'a>(labels: impl Iterator<Item = &'a str>, rows: usize) -> Layout {
        let bar = (180.0 / rows.max(1) as f64 - GAP).clamp(BAR, 30.0);
        let longest = labels.map(|l| l.chars().count()).max().unwrap_or(0);
        if longest <= SHORT {
            Layout { left: 26.0 + 6.6 * longest as f64, above: 0.0, bar, rows }
        } else {
            Layout { left: 24.0, above: 15.0, bar: bar.min(20.0), rows }
        }
    }

    fn pitch(&self) -> f64 {
        self.bar + GAP + self.above
    }

    fn bar_top(&self, row: usize) -> f64 {
        TOP + row as f64 * self.pitch() + self.above + GAP / 2.0
    }

    fn bottom(&self) -> f64 {
        TOP + self.rows as f64 * self.pitch() + 2.0
    }

    fn height(&self) -> f64 {
        self.bottom() + 38.0
    }

    fn frame(&self, svg: &mut Svg, x: &Scale, name: &str) {
        let bottom = self.bottom();
        for (at, label) in x.ticks() {
            svg.line("grid", at, TOP, at, bottom);
            svg.text("t mid", at, bottom + 15.0, &label);
        }
        svg.line("axis", self.left, TOP, self.left, bottom);
        svg.text("t mid name", (self.left + RIGHT) / 2.0, bottom + 32.0, name);
    }

    fn label(&self, svg: &mut Svg, row: usize, key: usize, label: &str) {
        let y = self.bar_top(row);
        let cut = shorten(label, if self.above > 0.0 { 58 } else { SHORT });
        if self.above > 0.0 {
            svg.badge(key, 9.0, y + self.bar / 2.0);
            svg.text("t", self.left + 1.0, y - 4.5, &cut);
        } else {
            svg.badge(key, 9.0, y + self.bar / 2.0);
            svg.text("t", 20.0, y + self.bar / 2.0 + 4.0, &cut);
        }
    }
}

fn tip(row: &Bar, unit: AxisUnit) -> String {
    let mut tip = format!("{} {}: ", letter(row.key), row.label);
    match row.value {
        None => tip.push_str("no mean"),
        Some(s) => {
            tip.push_str(&row.mean(s.mean, unit));
            if let Some(half) = s.half_width {
                match half < s.mean.abs() * FINEST {
                    true => tip.push_str(" ± <1 %"),
                    false => tip.push_str(&format!(" ± {}", unit.value(half))),
                }
            }
            let span = format!(" (runs {} to {})", unit.value(s.min), unit.value(s.max));
            if s.n > 1 {
                tip.push_str(&span);
            }
        }
    }
    if let Some(p) = row.published {
        tip.push_str(&format!(", published {}", unit.value(p)));
    }
    tip
}

/// Longest name, in characters, that stands left of its bar.
const SHORT: usize = 16;
/// Least height of a bar.
const BAR: f64 = 15.0;
const GAP: f64 = 9.0;
/// Radius of a dot.
const DOT: f64 = 5.0;
const TOP: f64 = 6.0;
/// Where the axis ends: the rest is for the values behind the bars.
const RIGHT: f64 = WIDTH - 72.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_processes_strokes_are_drawn_once_and_the_first_are_named() {
        let chart = |n: u32| {
            let values = (0..n).map(|i| (format!("p{i}"), 1.0 + f64::from(i % 7)));
            let row = Spots {
                key: 0,
                label: "bfq".into(),
                values: values.collect(),
                note: String::new(),
            };
            spots("id", "title", &[row])
        };
        let (few, many) = (chart(200), chart(100_000));
        assert_eq!((few.matches("\"spot\"").count(), few.contains(" more")), (200, false));
        assert!(few.contains("p199 4") && many.contains("p255 4") && !many.contains("p256 "));
        assert!(many.contains("and 99744 more"));
        assert_eq!(many.matches("\"spot\"").count(), 7);
    }
}
