//! What the formats print, computed from the raw records of a run (specs/statistics.md).

use crate::result::{Cell, Rep, Run, Spread};
use crate::stats;
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
        let mut censored = Vec::new();
        for p in cell.reps.iter().flat_map(targets) {
            hist.merge(&p.latency);
            censored.extend(p.censored);
        }
        let longest = match (hist.max(), censored.iter().max()) {
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
            time_weighted: stats::time_weighted(&hist, &censored),
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

/// Mean, range and 99 % interval; `None` of nothing.
fn spread(values: impl Iterator<Item = f64>) -> Option<Spread> {
    stats::spread(&values.collect::<Vec<_>>())
}

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
