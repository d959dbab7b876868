//! Lines: distributions and series. Letters on the lines name them; colour and dash only help.

use super::super::svg::{AxisUnit, Scale, Svg, WIDTH, dash, letter, px};
use hoistway_run::{Histogram, highest_of};
use std::fmt::Write;

/// A line of one configuration.
pub(in super::super) struct Line {
    /// Configuration's place in the manifest.
    pub(in super::super) key: usize,
    /// Its name, shown on hover.
    pub(in super::super) tip: String,
    /// Points: seconds, MB/s.
    pub(in super::super) points: Vec<(f64, f64)>,
}

/// One of the panels that share a time axis.
pub(in super::super) struct Panel {
    /// What it shows.
    pub(in super::super) name: String,
    /// Unit of the values; empty: none.
    pub(in super::super) unit: String,
    /// Its lines.
    pub(in super::super) lines: Vec<Line>,
}

/// Share of I/Os at most so long, one line per configuration, logarithmic time.
pub(in super::super) fn ecdf(
    id: &str,
    title: &str,
    about: &str,
    all: &[(usize, String, &Histogram)],
) -> String {
    let all: Vec<_> = all.iter().filter(|(_, _, h)| h.count() > 0).collect();
    let least = all.iter().filter_map(|(_, _, h)| h.min()).min().unwrap_or(1).max(1) as f64;
    let most = all.iter().filter_map(|(_, _, h)| h.max()).max().unwrap_or(10).max(2) as f64;
    let (top, bottom) = (8.0, 232.0);
    let x = Scale::log(least, most, AxisUnit::Time, LEFT, RIGHT);
    let y = Scale::linear(1.0, AxisUnit::Share, bottom, top);
    let mut svg = Svg::open(id, bottom + 40.0, title, about);
    frame(&mut svg, &x, &y, top, bottom);
    svg.text("t mid name", (LEFT + RIGHT) / 2.0, bottom + 34.0, "latency of the target, log scale");
    let mut badges = Vec::new();
    for (i, (key, label, hist)) in all.iter().enumerate() {
        let points = steps(hist, &x, &y, bottom);
        svg.group(*key, &format!("{} {label}", letter(*key)));
        svg.line_path(*key, &points, true);
        svg.end();
        // Not on the flat end, where all lines meet.
        let points = points[..points.len() - 1].to_vec();
        badges.push(Badge { key: *key, share: share_of(i, all.len()), points });
    }
    put_badges(&mut svg, &badges);
    svg.close()
}

/// Panels of series above each other.
pub(in super::super) fn panels(id: &str, title: &str, about: &str, all: &[Panel]) -> String {
    const EACH: f64 = 84.0;
    const BETWEEN: f64 = 48.0;
    let end = all
        .iter()
        .flat_map(|p| &p.lines)
        .filter_map(|l| l.points.last())
        .map(|p| p.0)
        .fold(0.0, f64::max);
    let x = Scale::linear(end, AxisUnit::Seconds, LEFT, RIGHT);
    let height = all.len() as f64 * (EACH + BETWEEN) + 14.0;
    let mut svg = Svg::open(id, height, title, about);
    for (n, panel) in all.iter().enumerate() {
        let top = 20.0 + n as f64 * (EACH + BETWEEN);
        let bottom = top + EACH;
        let values: Vec<f64> = panel.lines.iter().flat_map(|l| &l.points).map(|p| p.1).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        // Intervals without a completion are real and have no place on a logarithmic axis.
        let y = if values.iter().all(|&v| v > 0.0) {
            Scale::fitting(&values, most, AxisUnit::Rate, bottom, top)
        } else {
            Scale::spanning(&values, AxisUnit::Rate, bottom, top)
        };
        frame(&mut svg, &x, &y, top, bottom);
        let log = if y.log { ", log scale" } else { "" };
        let unit = if panel.unit.is_empty() { String::new() } else { format!(", {}", panel.unit) };
        svg.text("t name", LEFT, top - 7.0, &format!("{}{unit}{log}", panel.name));
        let mut badges = Vec::new();
        for (i, line) in panel.lines.iter().enumerate() {
            let points: Vec<_> = line.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
            svg.group(line.key, &format!("{} {}", letter(line.key), line.tip));
            svg.line_path(line.key, &points, false);
            svg.end();
            if !points.is_empty() {
                badges.push(Badge { key: line.key, share: share_of(i, panel.lines.len()), points });
            }
        }
        put_badges(&mut svg, &badges);
    }
    svg.text("t mid name", (LEFT + RIGHT) / 2.0, height - 6.0, "seconds");
    svg.close()
}

impl Svg {
    fn line_path(&mut self, key: usize, points: &[(f64, f64)], step: bool) {
        let mut d = String::new();
        for (i, &(x, y)) in points.iter().enumerate() {
            let _ = match (i, step) {
                (0, _) => write!(d, "M{} {}", px(x), px(y)),
                (_, true) => write!(d, "H{}V{}", px(x), px(y)),
                (_, false) => write!(d, "L{} {}", px(x), px(y)),
            };
        }
        let _ = write!(self.out, "<path class=\"line {}\" d=\"{d}\"/>", dash(key));
    }
}

fn frame(svg: &mut Svg, x: &Scale, y: &Scale, top: f64, bottom: f64) {
    for (at, label) in y.ticks() {
        svg.line("grid", LEFT, at, RIGHT, at);
        svg.text("t end", LEFT - 6.0, at + 4.0, &label);
    }
    for (at, label) in x.ticks() {
        svg.line("grid", at, top, at, bottom);
        svg.text("t mid", at, bottom + 16.0, &label);
    }
    svg.line("axis", LEFT, bottom, RIGHT, bottom);
}

/// The curve as corners of steps. A rising curve is at most width + height long in the L1 sense,
/// so a corner every 1/190 of that leaves fewer than [`POINTS`].
fn steps(hist: &Histogram, x: &Scale, y: &Scale, bottom: f64) -> Vec<(f64, f64)> {
    let stride = (RIGHT - LEFT + bottom) / (POINTS - 10) as f64;
    let (n, cap) = (hist.count() as f64, hist.max().unwrap_or(0));
    let mut last = (x.at(hist.min().unwrap_or(1) as f64), bottom);
    let mut out = vec![last];
    let mut seen = 0u64;
    for (slot, count) in hist.slots() {
        seen += count;
        let here = (x.at(highest_of(slot).min(cap) as f64), y.at(seen as f64 / n));
        if (here.0 - last.0).abs() + (here.1 - last.1).abs() >= stride || seen == hist.count() {
            out.push(here);
            last = here;
        }
    }
    // All I/Os are done from here on.
    out.push((RIGHT, last.1));
    out
}

/// The letter of a line: where it should stand, and on which path.
struct Badge {
    key: usize,
    /// Share of the path's length in front of it.
    share: f64,
    points: Vec<(f64, f64)>,
}

/// Another share of the length for each line, so that letters of equal lines stand side by side.
fn share_of(i: usize, n: usize) -> f64 {
    if n < 2 { 0.5 } else { 0.16 + 0.62 * i as f64 / (n - 1) as f64 }
}

/// The place on a path behind this share of its length.
fn on_path(points: &[(f64, f64)], share: f64) -> (f64, f64) {
    let length = |a: (f64, f64), b: (f64, f64)| (b.0 - a.0).abs() + (b.1 - a.1).abs();
    let total: f64 = points.windows(2).map(|w| length(w[0], w[1])).sum();
    let mut left = total * share;
    for w in points.windows(2) {
        let step = length(w[0], w[1]);
        if step >= left && step > 0.0 {
            let f = left / step;
            return (w[0].0 + (w[1].0 - w[0].0) * f, w[0].1 + (w[1].1 - w[0].1) * f);
        }
        left -= step;
    }
    points[0]
}

/// Letters last, above all lines. Each moves along its line until it covers no other; where there is no
/// such place it stands where the others are farthest.
fn put_badges(svg: &mut Svg, badges: &[Badge]) {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for badge in badges {
        let room = |p: (f64, f64)| {
            let far = |t: &(f64, f64)| libm::hypot(t.0 - p.0, t.1 - p.1);
            taken.iter().map(far).fold(f64::INFINITY, f64::min)
        };
        // 0, +1, -1, +2, -2 ... steps of a fortieth, inside the path.
        let steps = (0..80).map(|n| if n % 2 == 0 { -(n / 2) } else { n / 2 + 1 });
        let places = steps
            .map(|n| badge.share + f64::from(n) / 40.0)
            .filter(|s| (0.02..=0.98).contains(s))
            .map(|s| on_path(&badge.points, s));
        let mut best = on_path(&badge.points, badge.share);
        for place in places {
            if room(place) >= APART {
                best = place;
                break;
            }
            if room(place) > room(best) {
                best = place;
            }
        }
        taken.push(best);
        let _ = write!(
            svg.out,
            "<g class=\"k k{}\" data-k=\"{}\">",
            badge.key % super::super::svg::PALETTE,
            badge.key
        );
        svg.badge(badge.key, best.0, best.1);
        svg.end();
    }
}

/// Least distance of two letters: their rings have a radius of 7 and a stroke of 1.7.
const APART: f64 = 15.5;
/// Most points of a distribution.
const POINTS: usize = 200;
const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_thinned_and_still_reaches_one() {
        let mut h = Histogram::new();
        let mut v = 1000u64;
        for _ in 0..20_000 {
            v = v * 48_271 % 0x7fff_ffff;
            h.record(10_000 + v % 90_000_000);
        }
        let x = Scale::log(10_000.0, 90_010_000.0, AxisUnit::Time, LEFT, RIGHT);
        let y = Scale::linear(1.0, AxisUnit::Share, 232.0, 8.0);
        let points = steps(&h, &x, &y, 232.0);
        assert!((100..=POINTS).contains(&points.len()), "{}", points.len());
        assert!(points.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 >= w[1].1));
        assert_eq!(points.last().unwrap().1, 8.0);
    }

    #[test]
    fn letters_of_equal_lines_do_not_cover_each_other() {
        // Ten lines on one steep path, the most there is in the distribution of equal configurations.
        let points = vec![(100.0, 232.0), (101.0, 232.0), (101.0, 8.0)];
        let badge = |i| Badge { key: i, share: share_of(i, 10), points: points.clone() };
        let mut svg = Svg::open("x", 240.0, "", "");
        put_badges(&mut svg, &(0..10).map(badge).collect::<Vec<_>>());
        let rings = svg.out.split("<text class=\"letter\" ").skip(1).map(|c| {
            let of = |name: &str| {
                let at = c.find(name).unwrap() + name.len() + 2;
                c[at..].split('"').next().unwrap().parse::<f64>().unwrap()
            };
            (of("x"), of("y"))
        });
        let rings: Vec<_> = rings.collect();
        assert_eq!(rings.len(), 10);
        for (i, a) in rings.iter().enumerate() {
            for b in &rings[..i] {
                assert!(libm::hypot(a.0 - b.0, a.1 - b.1) >= 15.0, "{a:?} {b:?}");
            }
        }
    }
}
