//! The little SVG the charts need: escaping, numbers, scales and ticks.
//!
//! Colours, strokes and fonts are classes of `style.css`, so that one drawing serves light, dark and
//! print. Everything is in the user units of a view box [`WIDTH`] wide; the page scales it.

use std::fmt::Write;

/// Width of every chart in user units: readable without zoom on a phone, two abreast on a desk.
pub(super) const WIDTH: f64 = 440.0;

/// Text safe inside elements and quoted attributes.
pub(super) fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters have no place in HTML; a user's name may still hold one.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate: one decimal, no trailing zero.
pub(super) fn px(v: f64) -> String {
    let tenths = (v * 10.0).round() as i64;
    if tenths % 10 == 0 {
        return (tenths / 10).to_string();
    }
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{}", tenths.abs() / 10, tenths.abs() % 10)
}

/// Three significant digits, thousands parted by a narrow space.
pub(super) fn number(v: f64) -> String {
    let size = v.abs();
    let decimals = match size {
        s if s == 0.0 || s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s if s >= 0.09995 => 3,
        s if s >= 0.009995 => 4,
        _ => 5,
    };
    let text = format!("{v:.decimals$}");
    if decimals > 0 || size < 9999.5 {
        return text;
    }
    let mut out = String::new();
    let digits = text.trim_start_matches('-');
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    if v < 0.0 { format!("-{out}") } else { out }
}

/// A value and its uncertainty, which gets no more decimals than the value and is not told below
/// [`FINEST`] of it.
pub(super) fn plus_minus(v: f64, half: f64) -> (String, String) {
    let text = number(v);
    let decimals = text.split_once('.').map_or(0, |(_, d)| d.len());
    // Finer than a hundredth the models are not known (docs/reference/metrics.md).
    if half < v.abs() * FINEST {
        return (text, "<1 %".into());
    }
    (text, format!("{half:.decimals$}"))
}

/// Intervals below this part of their mean are not printed: the models reproduce published values within
/// a quarter, and a smaller figure would tell of the arithmetic alone.
pub const FINEST: f64 = 0.01;

/// What an axis counts.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AxisUnit {
    /// Nanoseconds, printed in the unit that fits.
    Time,
    /// MB/s.
    Rate,
    /// Seconds since the run began.
    Seconds,
    /// A share, 0 to 1.
    Share,
    /// A number of things, which the axis names.
    Number,
}

/// A length of time in the unit that fits.
pub(super) fn duration(ns: f64) -> String {
    let (scale, unit) = time_unit(ns);
    format!("{} {unit}", number(ns / scale))
}

fn time_unit(ns: f64) -> (f64, &'static str) {
    match ns {
        n if n >= 999.5e6 => (1e9, "s"),
        n if n >= 999.5e3 => (1e6, "ms"),
        n if n >= 999.5 => (1e3, "µs"),
        _ => (1.0, "ns"),
    }
}

impl AxisUnit {
    /// A value with its unit.
    pub(super) fn value(self, v: f64) -> String {
        match self {
            AxisUnit::Time => duration(v),
            AxisUnit::Rate => format!("{} MB/s", number(v)),
            AxisUnit::Seconds => format!("{} s", short(v)),
            AxisUnit::Share => format!("{} %", short(v * 100.0)),
            AxisUnit::Number => number(v),
        }
    }

    /// A tick: the unit stands in the axis title, except for times, which change theirs.
    fn tick(self, v: f64) -> String {
        match self {
            AxisUnit::Time if v == 0.0 => "0".into(),
            AxisUnit::Time => {
                let (scale, unit) = time_unit(v);
                format!("{} {unit}", short(v / scale))
            }
            AxisUnit::Rate | AxisUnit::Seconds | AxisUnit::Number => short(v),
            AxisUnit::Share => format!("{} %", short(v * 100.0)),
        }
    }
}

/// A round number without trailing zeros.
fn short(v: f64) -> String {
    let text = format!("{v:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Maps values to coordinates.
pub(super) struct Scale {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
    /// Logarithmic.
    pub(super) log: bool,
    unit: AxisUnit,
}

impl Scale {
    /// From 0 to a round number not below `max`.
    pub(super) fn linear(max: f64, unit: AxisUnit, from: f64, to: f64) -> Scale {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = step_of(max);
        let hi = if unit == AxisUnit::Seconds || unit == AxisUnit::Share {
            max
        } else {
            (max / step - 1e-9).ceil() * step
        };
        Scale { lo: 0.0, hi, from, to, log: false, unit }
    }

    /// Between round numbers around all values, zero among them.
    pub(super) fn spanning(values: &[f64], unit: AxisUnit, from: f64, to: f64) -> Scale {
        let least = values.iter().copied().fold(0.0, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        if least == 0.0 {
            return Scale::linear(most, unit, from, to);
        }
        let step = step_of(most.max(-least));
        let (lo, hi) = ((least / step).floor() * step, (most / step).ceil() * step);
        Scale { lo, hi, from, to, log: false, unit }
    }

    /// Between round numbers around `min > 0` and `max`.
    pub(super) fn log(min: f64, max: f64, unit: AxisUnit, from: f64, to: f64) -> Scale {
        let lo = round_down(min);
        let mut hi = round_down(max);
        while hi < max || hi <= lo {
            hi = next_round(hi);
        }
        Scale { lo, hi, from, to, log: true, unit }
    }

    /// Logarithmic where the values span more than a factor of 20, otherwise from zero.
    pub(super) fn fitting(values: &[f64], max: f64, unit: AxisUnit, from: f64, to: f64) -> Scale {
        let positive = values.iter().copied().filter(|&v| v > 0.0);
        let least = positive.clone().fold(f64::INFINITY, f64::min);
        let most = positive.fold(0.0, f64::max);
        if least.is_finite() && most / least > 20.0 {
            // Half the least value, so that its bar has a length.
            Scale::log(least / 2.0, max, unit, from, to)
        } else {
            Scale::linear(max, unit, from, to)
        }
    }

    /// Coordinate of a value, cut to the axis.
    pub(super) fn at(&self, v: f64) -> f64 {
        let share = if self.log {
            libm::log(v.max(self.lo) / self.lo) / libm::log(self.hi / self.lo)
        } else {
            (v - self.lo) / (self.hi - self.lo)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Ticks as (coordinate, label).
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let mut out = Vec::new();
        let mut tick = |v: f64| out.push((self.at(v), self.unit.tick(v)));
        if !self.log {
            let step = step_of(self.hi.max(-self.lo));
            let n = (self.hi / step + 1e-9).floor() as i64;
            let first = (self.lo / step - 1e-9).ceil() as i64;
            (first..=n).for_each(|i| tick(i as f64 * step));
            return out;
        }
        let wide = self.hi / self.lo > 60.0;
        let mut v = self.lo;
        while v <= self.hi * 1.000_001 {
            let decade = power_below(v);
            if !wide || v / decade < 1.5 {
                tick(v);
            }
            v = next_round(v);
        }
        // More than six labels collide on a phone.
        let every = out.len().div_ceil(6);
        out.into_iter().step_by(every.max(1)).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that at most five steps reach `max`.
fn step_of(max: f64) -> f64 {
    let mut step = power_below(max / 5.0);
    while max / step > 5.000_001 {
        step = next_round(step);
    }
    step
}

/// Largest power of ten not above `v > 0`.
fn power_below(v: f64) -> f64 {
    let mut p = libm::pow(10.0, libm::log10(v).floor());
    // log10 may round across the border.
    if p * 9.999_999 <= v {
        p *= 10.0;
    }
    p
}

fn round_down(v: f64) -> f64 {
    let p = power_below(v);
    [5.0, 2.0].into_iter().map(|m| m * p).find(|&c| c <= v).unwrap_or(p)
}

fn next_round(v: f64) -> f64 {
    let p = power_below(v);
    match v / p {
        m if m < 1.5 => 2.0 * p,
        m if m < 3.0 => 5.0 * p,
        _ => 10.0 * p,
    }
}

/// An open `<svg>` with its title and description.
pub(super) struct Svg {
    pub(super) out: String,
}

impl Svg {
    /// `id` is unique in the page.
    pub(super) fn open(id: &str, height: f64, title: &str, about: &str) -> Svg {
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg role=\"img\" viewBox=\"0 0 {} {}\" aria-labelledby=\"{id}t {id}d\">\
             <title id=\"{id}t\">{}</title><desc id=\"{id}d\">{}</desc>",
            px(WIDTH),
            px(height),
            esc(title),
            esc(about)
        );
        Svg { out }
    }

    /// A straight line of a class.
    pub(super) fn line(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        let d = format!("M{} {}L{} {}", px(x1), px(y1), px(x2), px(y2));
        let _ = write!(self.out, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// A box of a class; slivers keep half a unit.
    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, w: f64, h: f64) {
        let _ = write!(
            self.out,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            px(x),
            px(y),
            px(w.max(0.5)),
            px(h)
        );
    }

    /// Text of a class at its baseline.
    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let (x, y) = (px(x), px(y));
        let _ =
            write!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", esc(text));
    }

    /// Opens a group that belongs to a configuration and explains itself.
    pub(super) fn group(&mut self, key: usize, tip: &str) {
        let _ = write!(self.out, "<g class=\"k k{}\" data-k=\"{key}\">", key % PALETTE);
        let _ = write!(self.out, "<title>{}</title>", esc(tip));
    }

    /// The letter of a configuration in its shape and colour.
    pub(super) fn badge(&mut self, key: usize, x: f64, y: f64) {
        let _ = write!(
            self.out,
            "<path class=\"badge\" d=\"{}\"/>\
             <text class=\"letter\" x=\"{}\" y=\"{}\" dy=\"{}\">{}</text>",
            shape(key, x, y, 7.0),
            px(x),
            px(y),
            // A triangle is wide below its middle.
            if shape_of(key) == 3 { "4.6" } else { "3.2" },
            letter(key)
        );
    }

    /// The shape of a configuration, of a class, about as large as a circle of radius `r`.
    pub(super) fn marker(&mut self, class: &str, key: usize, x: f64, y: f64, r: f64) {
        let d = shape(key, x, y, r);
        let _ = write!(self.out, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// Closes a group.
    pub(super) fn end(&mut self) {
        self.out.push_str("</g>");
    }

    /// The finished drawing.
    pub(super) fn close(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

/// Colours of the palette; configurations beyond repeat them.
pub(super) const PALETTE: usize = 12;
/// Shapes, and dash patterns. The three colours that share one stay apart for the colour-blind
/// (`tests/palette.rs`).
pub(super) const SHAPES: usize = 4;

/// Dash pattern of a configuration, as a class.
pub(super) fn dash(key: usize) -> String {
    format!("d{}", shape_of(key))
}

/// Which shape and dash pattern a configuration has.
fn shape_of(key: usize) -> usize {
    (key + key / PALETTE) % SHAPES
}

/// Circle, square, diamond or triangle around a place.
pub(super) fn shape(key: usize, x: f64, y: f64, r: f64) -> String {
    let at = |dx: f64, dy: f64| format!("{} {}", px(x + dx * r), px(y + dy * r));
    match shape_of(key) {
        0 => format!(
            "M{}a{1} {1} 0 1 0 {2} 0a{1} {1} 0 1 0 -{2} 0Z",
            at(-1.0, 0.0),
            px(r),
            px(2.0 * r)
        ),
        1 => format!("M{}L{}L{}L{}Z", at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9), at(-0.9, 0.9)),
        2 => format!("M{}L{}L{}L{}Z", at(0.0, -1.18), at(1.18, 0.0), at(0.0, 1.18), at(-1.18, 0.0)),
        _ => format!("M{}L{}L{}Z", at(0.0, -1.2), at(1.17, 0.9), at(-1.17, 0.9)),
    }
}

/// The letter that stands for a configuration wherever its name is too long.
pub(super) fn letter(key: usize) -> String {
    let c = char::from(b'A' + (key % 26) as u8);
    if key < 26 { c.to_string() } else { format!("{c}{}", key / 26) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_values_below_zero_has_a_few_ticks() {
        for values in [[-3.0, 0.0], [-3.0, 7.0], [-1e9, -1.0], [0.0, 0.0]] {
            let scale = Scale::spanning(&values, AxisUnit::Rate, 100.0, 0.0);
            let ticks = scale.ticks();
            assert!((2..=12).contains(&ticks.len()), "{values:?}: {}", ticks.len());
            assert!(ticks.iter().any(|(_, label)| label == "0"), "zero is on the axis");
            let inside = |v: f64| (0.0..=100.0).contains(&scale.at(v));
            assert!(values.iter().all(|&v| inside(v)));
        }
    }

    #[test]
    fn numbers_keep_three_digits() {
        let of = |v| number(v);
        assert_eq!(of(0.0), "0");
        assert_eq!(of(0.08123), "0.0812");
        assert_eq!(of(0.9999), "1.00");
        assert_eq!(of(41.26), "41.3");
        assert_eq!(of(4512.4), "4512");
        assert_eq!(of(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(duration(999_600.0), "1.00 ms");
        assert_eq!(duration(81_230.0), "81.2 µs");
        assert_eq!(plus_minus(2.1, 0.26), ("2.10".into(), "0.26".into()));
        assert_eq!(plus_minus(2.1, 0.0003), ("2.10".into(), "<1 %".into()));
        assert_eq!(plus_minus(0.147, 0.000_005), ("0.147".into(), "<1 %".into()));
        assert_eq!(plus_minus(0.0, 0.0), ("0".into(), "0".into()));
        assert_eq!((px(-0.04), px(-0.5), px(12.0)), ("0".into(), "-0.5".into(), "12".into()));
    }

    #[test]
    fn a_wide_span_makes_the_axis_logarithmic_and_a_narrow_one_does_not() {
        let s = Scale::fitting(&[0.9e6, 41e6], 41e6, AxisUnit::Time, 0.0, 100.0);
        assert!(s.log);
        let labels: Vec<String> = s.ticks().into_iter().map(|(_, l)| l).collect();
        assert_eq!(labels, ["1 ms", "10 ms"]);
        let s = Scale::fitting(&[3e6, 41e6], 41e6, AxisUnit::Time, 0.0, 100.0);
        assert!(!s.log);
        let labels: Vec<String> = s.ticks().into_iter().map(|(_, l)| l).collect();
        assert_eq!(labels, ["0", "10 ms", "20 ms", "30 ms", "40 ms", "50 ms"]);
        assert_eq!((s.at(0.0), s.at(50e6)), (0.0, 100.0));
    }

    #[test]
    fn scales_end_and_stay_inside_whatever_the_values() {
        for e in -3..13 {
            for m in [1.0, 1.99, 2.0, 4.9, 5.0, 9.99] {
                let v = m * libm::pow(10.0, f64::from(e));
                let s = Scale::log(v, v, AxisUnit::Time, 10.0, 90.0);
                assert!((10.0..=90.0).contains(&s.at(v)) && !s.ticks().is_empty(), "{v}");
                assert!(s.ticks().len() <= 6);
                let s = Scale::linear(v, AxisUnit::Rate, 10.0, 90.0);
                assert!((2..=6).contains(&s.ticks().len()), "{v} {:?}", s.ticks());
            }
        }
    }
}
