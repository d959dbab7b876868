//! What the formats print, computed from the raw records of a run (specs/statistics.md).

use crate::result::{Cell, Rep, Run, Spread};
use hoistway_sim::hist::Histogram;
use hoistway_sim::world::{ProcRecord, Role};

/// One cell, reduced.
pub(super) struct Figures<'a> {
    /// The records.
    pub(super) cell: &'a Cell,
    /// Place of its configuration in the manifest.
    pub(super) key: usize,
    /// The target's latencies of all repetitions.
    pub(super) hist: Histogram,
    /// The target's mean latency per repetition, ns.
    pub(super) latency: Option<Spread>,
    /// Longest the target waited, ns, and whether that wait was cut off by the end of the run.
    pub(super) longest: Option<(u64, bool)>,
    /// Time-average latency (sum of squares over sum), ns: what a random instant waits through.
    pub(super) time_weighted: Option<f64>,
    /// MB/s of everybody, the target, the interferers.
    pub(super) total: Option<Spread>,
    pub(super) target: Option<Spread>,
    pub(super) others: Option<Spread>,
    /// Reference over this, mean latency; `None` for the reference and without I/Os.
    pub(super) gain: Option<Gain>,
    /// Texts of the flags on this cell.
    pub(super) flags: Vec<&'a str>,
}

/// How many times shorter the target waits than under the reference configuration.
#[derive(Clone, Copy)]
pub(super) struct Gain {
    /// Geometric mean over the pairs of repetitions.
    pub(super) factor: f64,
    /// Whether the 99 % interval excludes 1 and the factor is beyond 3 %; `None` below three pairs.
    pub(super) differs: Option<bool>,
}

impl<'a> Figures<'a> {
    /// Figures of the cells of one drive and workload, in the order of configurations.
    pub(super) fn of(run: &'a Run, drive: &str, workload: &str) -> Vec<Figures<'a>> {
        let mut out: Vec<Figures<'a>> = Vec::new();
        for (key, config) in run.manifest.configs.iter().enumerate() {
            let found = run
                .cells
                .iter()
                .find(|c| c.drive == drive && c.workload == workload && c.config == config.id);
            if let Some(cell) = found {
                let mut f = Figures::of_cell(run, cell, key);
                // The reference is the first configuration asked for, and no other.
                f.gain = out.first().filter(|r| r.key == 0).and_then(|r| gain(r.cell, cell));
                out.push(f);
            }
        }
        out
    }

    fn of_cell(run: &'a Run, cell: &'a Cell, key: usize) -> Figures<'a> {
        let mut hist = Histogram::new();
        let mut cut = None;
        for p in cell.reps.iter().flat_map(targets) {
            hist.merge(&p.latency);
            cut = cut.max(p.censored);
        }
        let longest = match (hist.max(), cut) {
            (max, Some(cut)) if max.is_none_or(|m| cut.0 > m) => Some((cut.0, true)),
            (max, _) => max.map(|m| (m, false)),
        };
        let name = format!("{}/{}/{}", cell.drive, cell.config, cell.workload);
        let flags = run.flags.iter().filter(|f| f.0 == name).map(|f| f.1.as_str()).collect();
        let rate = |role| spread(cell.reps.iter().map(|r| rate(r, role)));
        Figures {
            cell,
            key,
            latency: spread(cell.reps.iter().filter_map(mean_latency)),
            longest,
            time_weighted: (hist.sum() > 0).then(|| hist.sum_sq() as f64 / hist.sum() as f64),
            total: rate(None),
            target: rate(Some(Role::Target)),
            others: rate(Some(Role::Interferer)),
            gain: None,
            flags,
            hist,
        }
    }

    /// A percentile in ns, with `per_mille` of 1000; `None` unless ten samples lie above it.
    pub(super) fn percentile(&self, per_mille: u64) -> Option<u64> {
        let above = u128::from(self.hist.count()) * u128::from(1000 - per_mille);
        if above < 10_000 {
            return None;
        }
        self.hist.quantile(per_mille, 1000)
    }

    /// MB/s over time, averaged over the repetitions: (end of interval in s, MB/s).
    pub(super) fn series(&self, role: Option<Role>) -> Vec<(f64, f64)> {
        let reps = &self.cell.reps;
        let Some(length) = reps.iter().find_map(interval) else { return Vec::new() };
        // Repetitions of one cell have one window; the last, partial interval is dropped.
        let whole = reps.iter().map(|r| r.measured.0 / length).min().unwrap_or(0);
        let seconds = length as f64 / 1e9;
        let mut bytes = vec![0u64; usize::try_from(whole).expect("a window has few intervals")];
        for i in reps.iter().flat_map(|r| of_role(r, role)).flat_map(|p| &p.intervals) {
            let slot = usize::try_from(i.at.0 / length).expect("a window has few intervals");
            if let Some(sum) = bytes.get_mut(slot) {
                *sum += i.bytes;
            }
        }
        let per = seconds * reps.len() as f64 * 1e6;
        (1..).zip(bytes).map(|(n, b)| (f64::from(n) * seconds, b as f64 / per)).collect()
    }
}

/// Mean, range and 99 % interval.
pub(super) fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.collect();
    let n = u32::try_from(values.len()).ok().filter(|&n| n > 0)?;
    let mean = values.iter().sum::<f64>() / f64::from(n);
    let half_width = (n >= 3).then(|| {
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let sd = (squares / f64::from(n - 1)).sqrt();
        student_99(n - 1) * sd / f64::from(n).sqrt()
    });
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Spread { mean, half_width, min, max, n })
}

/// Two-sided 99 % point of Student's t.
fn student_99(freedom: u32) -> f64 {
    if let Some(&t) = STUDENT_99.get(freedom.max(1) as usize - 1) {
        return t;
    }
    // Cornish-Fisher around the normal point; off by less than 1e-4 from 30 degrees on.
    let (z, f) = (2.575_829_3_f64, f64::from(freedom));
    let (z3, z5) = (z * z * z, z * z * z * z * z);
    z + (z3 + z) / (4.0 * f) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * f * f)
}

/// By degrees of freedom from 1 (statistics.md 4).
const STUDENT_99: [f64; 29] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012,
    2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779,
    2.771, 2.763, 2.756,
];

fn targets(rep: &Rep) -> impl Iterator<Item = &ProcRecord> {
    of_role(rep, Some(Role::Target))
}

fn of_role(rep: &Rep, role: Option<Role>) -> impl Iterator<Item = &ProcRecord> {
    rep.procs.iter().filter(move |p| role.is_none_or(|r| r == p.role))
}

fn mean_latency(rep: &Rep) -> Option<f64> {
    let (sum, n) =
        targets(rep).fold((0u128, 0u64), |(s, n), p| (s + p.latency.sum(), n + p.latency.count()));
    (n > 0).then(|| sum as f64 / n as f64)
}

fn rate(rep: &Rep, role: Option<Role>) -> f64 {
    let bytes: u64 = of_role(rep, role).map(|p| p.bytes).sum();
    // Bytes per microsecond are MB/s.
    if rep.measured.0 == 0 { 0.0 } else { bytes as f64 * 1e3 / rep.measured.0 as f64 }
}

/// Length of the intervals of a repetition.
fn interval(rep: &Rep) -> Option<u64> {
    let starts = rep.procs.iter().flat_map(|p| p.intervals.windows(2));
    starts.map(|w| w[1].at.0.saturating_sub(w[0].at.0)).find(|&l| l > 0)
}

/// Common seeds pair the repetitions (statistics.md 4).
fn gain(reference: &Cell, cell: &Cell) -> Option<Gain> {
    let pairs = reference.reps.iter().zip(&cell.reps).filter(|(a, b)| a.seed == b.seed);
    let logs = pairs.filter_map(|(a, b)| Some((mean_latency(a)? / mean_latency(b)?).ln()));
    let s = spread(logs.filter(|l| l.is_finite()))?;
    let factor = s.mean.exp();
    let far = !(0.97..=1.03).contains(&factor);
    Some(Gain { factor, differs: s.half_width.map(|h| far && s.mean.abs() > h) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let s = spread([1.0, 2.0, 3.0].into_iter()).unwrap();
        assert_eq!((s.mean, s.min, s.max, s.n), (2.0, 1.0, 3.0, 3));
        assert!((s.half_width.unwrap() - 9.925 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(spread([1.0, 2.0].into_iter()).unwrap().half_width, None);
        assert_eq!(spread(std::iter::empty()), None);
        assert!((student_99(30) - 2.750).abs() < 5e-4);
        assert!((student_99(60) - 2.660).abs() < 5e-4);
    }
}
