//! What is gained against what is paid: every configuration a labelled point, the frontier marked.

use super::super::svg::{AxisUnit, Scale, Svg, WIDTH, letter, px};
use super::shorten;
use std::fmt::Write;
use std::ops::Range;

/// A configuration in the plane.
pub(in super::super) struct TradeoffPoint {
    /// Configuration's place in the manifest.
    pub(in super::super) key: usize,
    /// Its name.
    pub(in super::super) label: String,
    /// Everything about it, shown on hover.
    pub(in super::super) tip: String,
    /// Throughput, 1 = the reference's.
    pub(in super::super) kept: f64,
    /// What is judged.
    pub(in super::super) value: f64,
    /// The value is only known to lie beyond.
    pub(in super::super) beyond: bool,
    /// No other configuration is better in one and no worse in the other.
    pub(in super::super) frontier: bool,
}

/// What stands at the axes.
pub(in super::super) struct Axes<'a> {
    /// Name of the axis of throughput.
    pub(in super::super) kept: &'a str,
    /// Name of the axis of what is judged.
    pub(in super::super) value: &'a str,
    /// Its unit; times are logarithmic.
    pub(in super::super) unit: AxisUnit,
    /// Less of it is better.
    pub(in super::super) less: bool,
}

/// The plot. It grows with the number of configurations, so that every name has its place.
pub(in super::super) fn tradeoff(
    id: &str,
    title: &str,
    axes: &Axes<'_>,
    points: &[TradeoffPoint],
) -> String {
    let bottom = TOP + 232.0 + 12.0 * points.len().saturating_sub(8) as f64;
    let times = axes.unit == AxisUnit::Time;
    let values = || points.iter().map(|p| p.value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let x = Scale::linear(
        points.iter().map(|p| p.kept).fold(1.0, f64::max),
        AxisUnit::Share,
        LEFT,
        RIGHT,
    );
    // A little room below and above, so that no point lies on the frame.
    let y = match times {
        true => Scale::log((least / 1.3).max(1.0), (most * 1.3).max(2.0), axes.unit, bottom, TOP),
        false => Scale::linear(most.max(1.0), axes.unit, bottom, TOP),
    };
    let about = points.iter().map(|p| p.tip.as_str()).collect::<Vec<_>>().join("; ");
    let mut svg = Svg::open(id, bottom + 40.0, title, &about);
    for (at, label) in y.ticks() {
        svg.line("grid", LEFT, at, RIGHT, at);
        svg.text("t end", LEFT - 6.0, at + 4.0, &label);
    }
    for (at, label) in x.ticks() {
        svg.line("grid", at, TOP, at, bottom);
        svg.text("t mid", at, bottom + 16.0, &label);
    }
    svg.line("axis", LEFT, TOP, LEFT, bottom);
    svg.line("axis", LEFT, bottom, RIGHT, bottom);
    let log = if y.log { ", log scale" } else { "" };
    svg.text("t name", LEFT - 44.0, 11.0, &format!("{}{log}", axes.value));
    svg.text("t mid name", (LEFT + RIGHT) / 2.0 - 20.0, bottom + 33.0, axes.kept);
    // In the margin at the corner that it names.
    let (better, line) =
        if axes.less { ("better ↘", bottom + 33.0) } else { ("better ↗", 11.0) };
    svg.text("t end name", RIGHT, line, better);
    let at = |p: &TradeoffPoint| (x.at(p.kept), y.at(p.value));
    let steps = frontier(points, &at, axes.less, bottom);
    draw_frontier(&mut svg, &steps);
    let places: Vec<(f64, f64)> = points.iter().map(at).collect();
    let frame = Rect { left: LEFT + 2.0, top: TOP, right: RIGHT + 18.0, bottom: bottom - 2.0 };
    let labels = place(points, &places, &steps, &frame);
    for ((point, place), label) in points.iter().zip(&places).zip(&labels) {
        svg.group(point.key, &point.tip);
        if let Some(PlotLine { from, to, .. }) = leader(*place, &label.1) {
            svg.line("leader", from.0, from.1, to.0, to.1);
        }
        let class = if point.frontier { "dot" } else { "dot open" };
        svg.marker(class, point.key, place.0, place.1, MARK);
        if point.beyond {
            // The true value lies that way.
            let (x, y) = (place.0, place.1 - MARK - 2.0);
            svg.line("err", x, y, x, y - 9.0);
            svg.line("err", x, y - 9.0, x - 3.0, y - 5.0);
            svg.line("err", x, y - 9.0, x + 3.0, y - 5.0);
        }
        let class = if point.frontier { "t lab front" } else { "t lab" };
        svg.text(class, label.1.left, label.1.bottom - 3.5, &label.0);
        svg.end();
    }
    svg.close()
}

/// The border of what some configuration reaches: corners of a step line through those that nothing beats.
fn frontier(
    points: &[TradeoffPoint],
    at: &dyn Fn(&TradeoffPoint) -> (f64, f64),
    less: bool,
    bottom: f64,
) -> Vec<(f64, f64)> {
    let mut steps: Vec<(f64, f64)> =
        points.iter().filter(|p| p.frontier && !p.beyond).map(at).collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let better = |a: f64, b: f64| if less { a > b } else { a < b };
    let mut level = if less { TOP } else { bottom };
    let mut line = Vec::new();
    // From the right, each next one strictly better in what is judged.
    for step in steps.into_iter().rev() {
        if line.is_empty() || better(step.1, level) {
            line.extend([(step.0, level), step]);
            level = step.1;
        }
    }
    line.extend((!line.is_empty()).then_some((LEFT, level)));
    line
}

fn draw_frontier(svg: &mut Svg, steps: &[(f64, f64)]) {
    let mut d = String::new();
    for (i, &(x, y)) in steps.iter().enumerate() {
        let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { "L" }, px(x), px(y));
    }
    if !d.is_empty() {
        let _ = write!(svg.out, "<path class=\"frontier\" d=\"{d}\"/>");
    }
}

/// A box on the plot.
#[derive(Clone, Copy, Debug)]
struct Rect {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Rect {
    fn around(x: f64, y: f64, r: f64) -> Rect {
        Rect { left: x - r, top: y - r, right: x + r, bottom: y + r }
    }

    fn meets(&self, o: &Rect) -> bool {
        self.left < o.right && o.left < self.right && self.top < o.bottom && o.top < self.bottom
    }

    fn within(&self, o: &Rect) -> bool {
        self.left >= o.left && self.right <= o.right && self.top >= o.top && self.bottom <= o.bottom
    }

    /// A line passes through it, or nearly.
    fn crossed(&self, line: &PlotLine) -> bool {
        let PlotLine { from, to, steps } = *line;
        let apart =
            |range: &Range<f64>, a: f64, b: f64| a.max(b) < range.start || a.min(b) > range.end;
        let across = self.left - 1.0..self.right + 1.0;
        let down = self.top - 1.0..self.bottom + 1.0;
        if apart(&across, from.0, to.0) || apart(&down, from.1, to.1) {
            return false;
        }
        // All corners on the same side of it, by more than rounding: no point of it lies in the box.
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let middle = ((across.start + across.end) / 2.0, (down.start + down.end) / 2.0);
        let side = dx * (middle.1 - from.1) - dy * (middle.0 - from.0);
        let (wide, high) = (across.end - across.start, down.end - down.start);
        if side.abs() > (dx.abs() * high + dy.abs() * wide) / 2.0 + 1e-3 {
            return false;
        }
        // Of hundreds of points those that may lie in it, and one more on each side.
        let x = steps_within(&across, from.0, to.0, steps);
        let y = steps_within(&down, from.1, to.1, steps);
        let (first, last) = (x.0.max(y.0).max(0.0), x.1.min(y.1).min(steps));
        first <= last
            && (first as usize..=last as usize).any(|i| {
                let f = i as f64 / steps;
                let at = |from: f64, to: f64| from + (to - from) * f;
                across.contains(&at(from.0, to.0)) && down.contains(&at(from.1, to.1))
            })
    }

    /// The place in it that is nearest to another.
    fn nearest(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (x.clamp(self.left, self.right), y.clamp(self.top + 2.0, self.bottom - 2.0))
    }
}

/// A straight line, seen as points a few units apart: the lines are short.
#[derive(Clone, Copy, Debug)]
struct PlotLine {
    from: (f64, f64),
    to: (f64, f64),
    steps: f64,
}

impl PlotLine {
    fn new(from: (f64, f64), to: (f64, f64)) -> PlotLine {
        let steps = (libm::hypot(from.0 - to.0, from.1 - to.1) / 3.0).ceil().max(1.0);
        PlotLine { from, to, steps }
    }
}

/// Between which of so many steps from `from` to `to` one is in a range, at most.
fn steps_within(range: &Range<f64>, from: f64, to: f64, steps: f64) -> (f64, f64) {
    let step = (to - from) / steps;
    if step.abs() < 1e-6 {
        return (0.0, steps);
    }
    let (a, b) = ((range.start - from) / step, (range.end - from) / step);
    (a.min(b) - 1.0, a.max(b) + 1.0)
}

/// What lies on the plot, by bands as high as a name: of hundreds of things a box is held against those of its own bands.
#[derive(Debug)]
struct Occupied {
    top: f64,
    /// Marks and names, which no other name may cover.
    taken: Bands<Rect>,
    /// Names alone.
    names: Bands<Rect>,
    lines: Bands<PlotLine>,
}

impl Occupied {
    fn new(frame: &Rect) -> Occupied {
        let count = 1 + Bands::<Rect>::of(frame.top, frame.bottom);
        let [taken, names] = std::array::from_fn(|_| Bands::new(count));
        Occupied { top: frame.top, taken, names, lines: Bands::new(count) }
    }

    /// The bands of a range, and of what is a unit away from it.
    fn bands(&self, a: f64, b: f64) -> (usize, usize) {
        let of = |y: f64| Bands::<Rect>::of(self.top, y);
        (of(a.min(b) - 1.0), of(a.max(b) + 1.0))
    }

    fn add_mark(&mut self, mark: Rect) {
        self.taken.add(self.bands(mark.top, mark.bottom), mark);
    }

    fn add_name(&mut self, name: Rect) {
        self.add_mark(name);
        self.names.add(self.bands(name.top, name.bottom), name);
    }

    fn add_line(&mut self, line: PlotLine) {
        self.lines.add(self.bands(line.from.1, line.to.1), line);
    }

    fn is_free(&self, r: &Rect) -> bool {
        !self.taken.among(self.bands(r.top, r.bottom)).any(|t| t.meets(r))
    }

    /// One for each line through a box, and for each name that the box's own line goes through.
    fn crossings(&self, r: &Rect, own: Option<PlotLine>) -> impl Iterator<Item = ()> {
        let lines = self.lines.among(self.bands(r.top, r.bottom)).filter(|l| r.crossed(l));
        let over = own.into_iter().flat_map(|l| {
            self.names.among(self.bands(l.from.1, l.to.1)).filter(move |n| n.crossed(&l))
        });
        lines.map(|_| ()).chain(over.map(|_| ()))
    }
}

/// Things by the bands that they lie in.
#[derive(Debug)]
struct Bands<T>(Vec<Vec<(usize, T)>>);

impl<T: Copy> Bands<T> {
    fn new(count: usize) -> Bands<T> {
        Bands((0..count).map(|_| Vec::new()).collect())
    }

    /// What lies above all of them is in the first.
    fn of(top: f64, y: f64) -> usize {
        ((y - top) / LINE).max(0.0) as usize
    }

    fn within(&self, (first, last): (usize, usize)) -> (usize, usize) {
        let end = self.0.len() - 1;
        (first.min(end), last.min(end))
    }

    fn add(&mut self, bands: (usize, usize), thing: T) {
        let (first, last) = self.within(bands);
        self.0[first..=last].iter_mut().for_each(|band| band.push((first, thing)));
    }

    /// What lies in some of the bands, each once: in the first of its own that is among them.
    fn among(&self, bands: (usize, usize)) -> impl Iterator<Item = &T> {
        let (first, last) = self.within(bands);
        (first..=last).flat_map(move |band| {
            let begins = move |begin: usize| begin.max(first) == band;
            self.0[band].iter().filter(move |(begin, _)| begins(*begin)).map(|(_, thing)| thing)
        })
    }
}

/// A text and a box for each point's name: beside it where there is room, else near by with a line to it.
fn place(
    points: &[TradeoffPoint],
    places: &[(f64, f64)],
    steps: &[(f64, f64)],
    frame: &Rect,
) -> Vec<(String, Rect)> {
    let mut drawn = Occupied::new(frame);
    places.iter().for_each(|&(x, y)| drawn.add_mark(Rect::around(x, y, MARK + 1.5)));
    steps.windows(2).for_each(|w| drawn.add_line(PlotLine::new(w[0], w[1])));
    let mut out: Vec<Option<(String, Rect)>> = points.iter().map(|_| None).collect();
    // The frontier first: its names stand nearest.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&i| !points[i].frontier);
    for i in order {
        let text = format!("{} {}", letter(points[i].key), shorten(&points[i].label, LONGEST));
        let width = text.chars().count() as f64 * CHAR;
        let rect = spot(places[i], width, &drawn, frame);
        leader(places[i], &rect).into_iter().for_each(|line| drawn.add_line(line));
        drawn.add_name(rect);
        out[i] = Some((text, rect));
    }
    out.into_iter().map(|l| l.expect("every point was placed")).collect()
}

/// Left and top of a box of a width beside a point, the better places first.
fn places_beside((x, y): (f64, f64), width: f64) -> [(f64, f64); 8] {
    let gap = MARK + 3.0;
    [
        (x + gap, y - LINE / 2.0),
        (x - gap - width, y - LINE / 2.0),
        (x - width / 2.0, y - gap - LINE),
        (x - width / 2.0, y + gap),
        (x + gap / 2.0, y - gap - LINE),
        (x + gap / 2.0, y + gap),
        (x - gap / 2.0 - width, y - gap - LINE),
        (x - gap / 2.0 - width, y + gap),
    ]
}

/// The free box of a width that costs least: near its point, not crossed by a line, and its own line not
/// through another name.
fn spot((x, y): (f64, f64), width: f64, drawn: &Occupied, frame: &Rect) -> Rect {
    let of = |left: f64, top: f64| Rect { left, top, right: left + width, bottom: top + LINE };
    let free = |r: &Rect| r.within(frame) && drawn.is_free(r);
    let away = |r: &Rect| {
        let near = r.nearest((x, y));
        libm::hypot(near.0 - x, (near.1 - y) * 1.4)
    };
    // `None` as soon as it is more than `most`.
    let cost = |r: &Rect, most: f64| {
        let away = away(r);
        let mut crossings = 0;
        let cost = |crossings: i32| away + CROSSED * f64::from(crossings);
        for () in drawn.crossings(r, leader((x, y), r)) {
            crossings += 1;
            if cost(crossings) > most {
                return None;
            }
        }
        Some(cost(crossings))
    };
    let beside = places_beside((x, y), width);
    let (columns, rows) = ((frame.right - frame.left) / 6.0, (frame.bottom - frame.top) / 4.0);
    let (columns, rows) = (columns as usize, rows as usize);
    // Cost, place in the order of beside and grid, which decides between equal costs, and box.
    let mut best: Option<(f64, usize, Rect)> = None;
    let mut consider = |order: usize, r: Rect| {
        let most = best.map_or(f64::INFINITY, |b| b.0);
        if away(&r) <= most
            && free(&r)
            && let Some(cost) = cost(&r, most)
            && best.is_none_or(|b| (cost, order) < (b.0, b.1))
        {
            best = Some((cost, order, r));
        }
        best.map_or(f64::INFINITY, |b| b.0)
    };
    let mut least = f64::INFINITY;
    for (order, (left, top)) in beside.into_iter().enumerate() {
        least = consider(order, of(left, top));
    }
    // Near columns first: no box costs less than its distance.
    let left = |column: usize| frame.left + column as f64 * 6.0;
    let mut near: Vec<(f64, usize)> =
        (0..columns).map(|c| (away(&of(left(c), y - LINE / 2.0)), c)).collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (distance, column) in near {
        if distance > least {
            break;
        }
        for row in 0..rows {
            let r = of(left(column), frame.top + row as f64 * 4.0);
            // As above, by a part of the distance that is cheap to compute.
            if (r.nearest((x, y)).1 - y).abs() * 1.4 <= least + 1e-6 {
                least = consider(beside.len() + column * rows + row, r);
            }
        }
    }
    // The plot grows with the configurations; only hundreds of them could fill it.
    best.map_or_else(|| of(x.min(frame.right - width), y), |b| b.2)
}

/// A line from a point to its name, where the name is not beside it.
fn leader(point: (f64, f64), label: &Rect) -> Option<PlotLine> {
    let to = label.nearest(point);
    let length = libm::hypot(to.0 - point.0, to.1 - point.1);
    (length > MARK + 5.0).then(|| PlotLine::new(point, to))
}

/// A crossing costs as much as so many units of distance.
const CROSSED: f64 = 60.0;
/// Radius of a point.
const MARK: f64 = 5.0;
/// Longest name in characters.
const LONGEST: usize = 24;
/// Width of a character and height of a line at the size of a phone, with room for wide fonts.
const CHAR: f64 = 7.3;
const LINE: f64 = 14.5;
const TOP: f64 = 20.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 22.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(key: usize, kept: f64, value: f64) -> TradeoffPoint {
        let label = format!("configuration-{key}");
        TradeoffPoint {
            key,
            tip: label.clone(),
            label,
            kept,
            value,
            beyond: false,
            frontier: key.is_multiple_of(2),
        }
    }

    #[test]
    fn names_keep_clear_of_each_other_even_where_all_points_are_one() {
        for n in [1, 6, 12, 30] {
            let points: Vec<TradeoffPoint> = (0..n).map(|k| point(k, 1.0, 4e7)).collect();
            let places: Vec<(f64, f64)> = points.iter().map(|_| (380.0, 60.0)).collect();
            let height = TOP + 232.0 + 12.0 * n.saturating_sub(8) as f64;
            let frame = Rect { left: LEFT, top: TOP, right: RIGHT + 18.0, bottom: height };
            let labels = place(&points, &places, &[], &frame);
            for (i, a) in labels.iter().enumerate() {
                assert!(a.1.within(&frame), "{n}: {:?}", a.1);
                assert!(labels[..i].iter().all(|b| !a.1.meets(&b.1)), "{n}: {}", a.0);
            }
        }
    }

    #[test]
    fn the_frontier_steps_through_its_points() {
        let points = [point(0, 0.1, 1e6), point(2, 0.9, 5e6), point(1, 0.5, 9e6)];
        // Larger coordinates are lower on the page, so less time is further down.
        let at = |p: &TradeoffPoint| (LEFT + p.kept * 100.0, 100.0 - p.value / 1e5);
        let line = frontier(&points, &at, true, 200.0);
        let wanted = [(142.0, TOP), (142.0, 50.0), (62.0, 50.0), (62.0, 90.0), (LEFT, 90.0)];
        assert_eq!(line, wanted);
        assert!(frontier(&[point(1, 0.5, 9e6)], &at, true, 200.0).is_empty());
    }
}
