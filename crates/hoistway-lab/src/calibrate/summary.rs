//! How good a fit is (specs/drives.md 10.3, end).

use super::FitRow;

/// Mean error and demerit up to which a fit is good.
pub const ERROR_MAX: f64 = 0.15;
pub const DEMERIT_MAX: f64 = 0.5;
/// The tests that decide: lone and queued accesses, a reader beside streams, and beside flushes.
const DECIDING: &[&str] = &["H6/", "H7/", "H9/", "F1", "F2/", "F5/", "F8/"];

/// A mean of fewer latencies is uncertain by more than what a fit may be off: shown, but it decides nothing.
const ENOUGH: u64 = 20;

/// Why a figure is shown but decides nothing; `None` if it decides.
pub fn undecided(row: &FitRow) -> Option<String> {
    match row.count {
        _ if !DECIDING.iter().any(|p| row.test.starts_with(p)) => Some("other test".into()),
        Some(n) if n < ENOUGH => Some(format!("{n} latencies")),
        _ => None,
    }
}

/// The judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// No deciding figure is beyond the limits.
    pub good: bool,
    /// Figures beyond the limits: test, what, relative error, demerit.
    pub beyond: Vec<(String, &'static str, f64, Option<f64>)>,
    /// How many figures decide.
    pub deciding: usize,
    /// Mean of the absolute relative errors over the whole table, and the largest.
    pub mean_error: f64,
    /// The largest.
    pub worst: f64,
    /// Rows.
    pub rows: usize,
    /// Figures beyond 15 % that decide nothing: test, what, relative error.
    pub others: Vec<(String, &'static str, f64)>,
}

/// Judges a fit table.
pub fn quality(rows: &[FitRow]) -> Quality {
    let deciding = |r: &&FitRow| undecided(r).is_none();
    let bad =
        |r: &&FitRow| r.error().abs() > ERROR_MAX || r.demerit.is_some_and(|d| d > DEMERIT_MAX);
    let beyond: Vec<_> = rows
        .iter()
        .filter(deciding)
        .filter(bad)
        .map(|r| (r.test.clone(), r.what, r.error(), r.demerit))
        .collect();
    let errors = rows.iter().map(|r| r.error().abs());
    let others = rows.iter().filter(|r| !deciding(r) && r.error().abs() > ERROR_MAX);
    Quality {
        good: beyond.is_empty(),
        beyond,
        deciding: rows.iter().filter(deciding).count(),
        others: others.map(|r| (r.test.clone(), r.what, r.error())).collect(),
        mean_error: errors.clone().sum::<f64>() / rows.len().max(1) as f64,
        worst: errors.fold(0.0, f64::max),
        rows: rows.len(),
    }
}

impl Quality {
    /// Two sentences for people: what decides, and the whole table.
    pub fn sentence(&self) -> String {
        let named =
            |test: &str, what: &str, error: f64| format!("{test} {what} {:+.0} %", 100.0 * error);
        let beyond = self.beyond.iter().map(|(test, what, error, demerit)| {
            let demerit = demerit.map_or_else(String::new, |d| format!(", demerit {d:.2}"));
            named(test, what, *error) + &demerit
        });
        let beyond: Vec<String> = beyond.collect();
        let judged = if self.good {
            format!(
                "Fit: good ({} figures decide, all within 15 % and a demerit of 0.5).",
                self.deciding
            )
        } else {
            let (bad, all) = (beyond.len(), self.deciding);
            let list = beyond.join("; ");
            format!(
                "Fit: poor ({bad} of {all} figures that decide are beyond 15 % or a demerit of 0.5: {list})."
            )
        };
        let (mean, worst) = (100.0 * self.mean_error, 100.0 * self.worst);
        let table = format!(
            "Whole table: {} figures, mean error {mean:.1} %, largest {worst:.0} %",
            self.rows
        );
        let others: Vec<String> =
            self.others.iter().map(|(test, what, error)| named(test, what, *error)).collect();
        match others.is_empty() {
            true => format!("{judged} {table}."),
            false => {
                format!("{judged} {table}; beyond 15 % but not deciding: {}.", others.join("; "))
            }
        }
    }
}
