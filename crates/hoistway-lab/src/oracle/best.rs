//! The choice of the best setting, what a configuration is worth beside it, and the bound.

use super::FixedSetting;
use crate::bounds::{Measures, others_loss};
use crate::experiment::ProcTemplate;
use crate::population::Figures;
use hoistway_sim::load::params;

/// What of none's throughput must be left, in percent: of all, and of the others.
const KEPT: [f64; 2] = [97.0, 94.0];
/// Less than this is no difference of throughput, in points.
const SAME: f64 = 1.0;

/// What one run gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OraclePoint {
    /// The target's mean latency in ns; `None`: it had no I/O.
    pub mean: Option<f64>,
    /// What the drive moved, in percent of none's.
    pub all: f64,
    /// What the others received, in percent of none's.
    pub others: f64,
}

impl OraclePoint {
    pub(super) fn of(run: &Figures, none: &Figures) -> OraclePoint {
        let percent = |a: f64, b: f64| if b > 0.0 { 100.0 * a / b } else { 100.0 };
        let (all, others) = (percent(run.total, none.total), percent(run.others, none.others));
        OraclePoint { mean: run.mean, all, others }
    }

    fn keeps(&self, [all, others]: [f64; 2]) -> bool {
        self.all >= all && self.others >= others
    }
}

/// The best of the settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Which.
    pub setting: FixedSetting,
    /// What it gave.
    pub point: OraclePoint,
    /// None keeps the throughput: it is the one with the most.
    pub max: bool,
}

/// The fastest of those that are good enough; the first of equals.
fn fastest(
    fixed: &[(FixedSetting, OraclePoint)],
    least: [f64; 2],
) -> Option<(FixedSetting, OraclePoint, f64)> {
    let enough = fixed.iter().filter(|(_, point)| point.keeps(least));
    let known = enough.filter_map(|&(setting, point)| Some((setting, point, point.mean?)));
    known.min_by(|a, b| a.2.total_cmp(&b.2))
}

/// The setting with the least mean latency of those that leave 97 % of all and 94 % of the others; where none does, the one
/// with the most throughput. `None`: the target had no I/O under any.
pub fn best(fixed: &[(FixedSetting, OraclePoint)]) -> Option<Best> {
    if let Some((setting, point, _)) = fastest(fixed, KEPT) {
        return Some(Best { setting, point, max: false });
    }
    let known = fixed.iter().filter(|(_, point)| point.mean.is_some());
    // Of equals the first, as above.
    let most = known.rev().max_by(|a, b| a.1.all.total_cmp(&b.1.all));
    most.map(|&(setting, point)| Best { setting, point, max: true })
}

/// Mean latency over that of the fastest setting with no less throughput: of all, and of the others as far as it is not above
/// none's (programs that write into the page cache may receive more than the drive moves). `None`: there is no such
/// setting.
pub fn over(of: &OraclePoint, fixed: &[(FixedSetting, OraclePoint)]) -> Option<f64> {
    let (_, _, least) = fastest(fixed, [of.all - SAME, of.others.min(100.0) - SAME])?;
    Some(of.mean? / least)
}

/// Bound B1: the least mean latency in ns of a target whose mean is `lone` on the idle drive, if the others keep all but
/// [`others_loss`] of `total`, what the drive moves without control in bytes per second. `None`: the target is no reader,
/// and may have done with the page cache or a schedule.
pub fn bound(target: &ProcTemplate, lone: f64, total: f64) -> Option<f64> {
    if target.load != "reader" || total <= 0.0 {
        return None;
    }
    let number = |name: &str, usual: u64| match target.params.get(name) {
        None => Some(usual as f64),
        Some(value) => params::quantity(value).ok().map(|n| n as f64),
    };
    let (count, block) = (f64::from(target.count), number("bs", 4096)?);
    let (depth, rate) = (number("depth", 1)?, number("rate", 0)?);
    let (seconds, loss) = (lone / 1e9, others_loss());
    // Who asks for more than is left falls behind its rate, and thinks no longer.
    let paced = rate > 0.0 && count * rate <= loss * total;
    let ios = if paced { count * rate / block } else { count * depth / seconds };
    let of = Measures { rate: total, lone: seconds, block, ios };
    Some(of.least_factor(loss) * lone)
}
