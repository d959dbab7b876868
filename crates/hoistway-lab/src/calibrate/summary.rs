//! How good a fit is (specs/drives.md 10.3, end).

use super::Row;

/// Mean error and demerit up to which a fit is good.
pub const ERROR_MAX: f64 = 0.15;
pub const DEMERIT_MAX: f64 = 0.5;
/// The tests that decide.
const DECIDING: &[&str] = &["H6/", "H7/", "F1", "F2/", "F5/", "F8/"];

/// A mean of fewer latencies is uncertain by more than what a fit may be off: shown, but it decides nothing.
const ENOUGH: u64 = 20;

/// The judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// No deciding figure is beyond the limits.
    pub good: bool,
    /// Figures beyond the limits: test, what, relative error, demerit.
    pub beyond: Vec<(String, &'static str, f64, Option<f64>)>,
    /// Mean of the absolute relative errors over the whole table, and the largest.
    pub mean_error: f64,
    /// The largest.
    pub worst: f64,
    /// Rows.
    pub rows: usize,
}

/// Judges a fit table.
pub fn quality(rows: &[Row]) -> Quality {
    let deciding = |r: &&Row| {
        r.count.is_none_or(|n| n >= ENOUGH) && DECIDING.iter().any(|p| r.test.starts_with(p))
    };
    let bad = |r: &&Row| r.error().abs() > ERROR_MAX || r.demerit.is_some_and(|d| d > DEMERIT_MAX);
    let beyond: Vec<_> = rows
        .iter()
        .filter(deciding)
        .filter(bad)
        .map(|r| (r.test.clone(), r.what, r.error(), r.demerit))
        .collect();
    let errors = rows.iter().map(|r| r.error().abs());
    Quality {
        good: beyond.is_empty(),
        beyond,
        mean_error: errors.clone().sum::<f64>() / rows.len().max(1) as f64,
        worst: errors.fold(0.0, f64::max),
        rows: rows.len(),
    }
}

impl Quality {
    /// One sentence for people.
    pub fn sentence(&self) -> String {
        let mean = 100.0 * self.mean_error;
        let worst = 100.0 * self.worst;
        let table = format!("{} figures, mean error {mean:.1} %, largest {worst:.0} %", self.rows);
        if self.good {
            return format!("Fit: good ({table}).");
        }
        let beyond: Vec<String> = self
            .beyond
            .iter()
            .map(|(test, what, error, demerit)| {
                let demerit = demerit.map_or_else(String::new, |d| format!(", demerit {d:.2}"));
                format!("{test} {what} {:+.0} %{demerit}", 100.0 * error)
            })
            .collect();
        format!("Fit: poor ({table}); beyond 15 % or a demerit of 0.5: {}.", beyond.join("; "))
    }
}
