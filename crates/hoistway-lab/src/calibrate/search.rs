//! Finding values with which the simulated drive answers as the measured one did.
//!
//! Two tools. *Bisection*, where one value decides one figure and the figure grows with it (specs/drives.md 10.1).
//! *Pattern search* (Hooke and Jeeves, "Direct search" solution of numerical and statistical problems, JACM 8(2), 1961),
//! where several values share several figures: each value in turn is tried larger and smaller by a factor; what lowers the
//! error is kept; when nothing does, the factor shrinks. It needs no derivative and bears the steps that whole numbers and
//! random places make in the error. It finds a minimum near its start, not the least: the callers start it from
//! several places.

/// What values a parameter may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Space {
    /// Any between these, by factors.
    Between(f64, f64),
    /// One of these, in order.
    OneOf(&'static [f64]),
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter<C> {
    /// What it may be.
    pub space: Space,
    /// Puts a value into a candidate.
    pub apply: fn(&mut C, f64),
}

/// The first factor by which values are tried, and the last.
const FACTOR: f64 = 1.6;
const FACTOR_LEAST: f64 = 1.012;

/// Lowers `error` from `start`; the values and their error. `rounds` bounds the passes over all parameters.
/// `error` is told the least so far: where it sees that it will be above, it may return anything above.
pub fn pattern<C>(
    parameters: &[Parameter<C>],
    start: &[f64],
    rounds: usize,
    error: &mut dyn FnMut(&[f64], f64) -> f64,
) -> (Vec<f64>, f64) {
    let mut best = start.to_vec();
    let mut least = error(&best, f64::INFINITY);
    let mut factor = FACTOR;
    for _ in 0..rounds {
        let mut better = false;
        for (at, parameter) in parameters.iter().enumerate() {
            for up in [true, false] {
                let Some(value) = step(parameter.space, best[at], factor, up) else { continue };
                let mut tried = best.clone();
                tried[at] = value;
                let e = error(&tried, least);
                if e < least * (1.0 - 1e-6) {
                    (best, least, better) = (tried, e, true);
                    break;
                }
            }
        }
        if !better {
            factor = factor.sqrt();
            if factor < FACTOR_LEAST {
                break;
            }
        }
    }
    (best, least)
}

/// The next value in that direction, if there is one.
fn step(space: Space, value: f64, factor: f64, up: bool) -> Option<f64> {
    match space {
        Space::Between(low, high) => {
            let next = if up { value * factor } else { value / factor }.clamp(low, high);
            (next != value).then_some(next)
        }
        Space::OneOf(values) => {
            let near = |v: &f64| libm::log(v / value).abs();
            let at =
                (0..values.len()).min_by(|&a, &b| near(&values[a]).total_cmp(&near(&values[b])));
            let at = at.expect("a list that is not empty");
            let next = if up { at + 1 } else { at.checked_sub(1)? };
            values.get(next).copied()
        }
    }
}

/// The value in `low..=high`, by its logarithm, at which `figure`, which grows with it, is `wanted`; the nearer end if
/// the figure does not reach it.
pub fn bisect(low: f64, high: f64, wanted: f64, figure: &mut dyn FnMut(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        if figure(middle) < wanted { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// Halvings of the logarithm: from a factor of 10^4 to below 0.1 %.
const BISECTIONS: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    type Two = [f64; 2];

    const BOTH: [Parameter<Two>; 2] = [
        Parameter { space: Space::Between(0.1, 1000.0), apply: |c, v| c[0] = v },
        Parameter { space: Space::OneOf(&[1.0, 2.0, 4.0, 8.0, 16.0]), apply: |c, v| c[1] = v },
    ];

    #[test]
    fn a_minimum_over_a_number_and_a_list_is_found() {
        let squared = |ratio: f64| libm::pow(libm::log(ratio), 2.0);
        let mut error = |x: &[f64], _: f64| squared(x[0] / 37.0) + squared(x[0] * x[1] / 296.0);
        let (found, least) = pattern(&BOTH, &[1.0, 1.0], 200, &mut error);
        assert!((found[0] / 37.0 - 1.0).abs() < 0.02 && found[1] == 8.0, "{found:?}");
        assert!(least < 1e-3);
    }

    #[test]
    fn bisection_finds_where_a_rising_figure_is_reached() {
        let found = bisect(1.0, 10_000.0, 250.0, &mut |x| 2.0 * x);
        assert!((found / 125.0 - 1.0).abs() < 0.002, "{found}");
        assert!(bisect(1.0, 100.0, 1e9, &mut |x| x) > 99.0, "the nearer end");
    }
}
