//! What the formats print, computed from the raw records of a run (specs/statistics.md).

use super::section::mean_cell;
use super::svg::{esc, number};
use super::verdict::percent;
use crate::judge::{self, Comparison, Side};
use crate::result::share::Shares;
use crate::result::startup::Startups;
use crate::result::{Cell, Judge, Rep, Run, Spread, counts, pooled, reference};
use crate::stats::{self, Bound, Bounded, Percentile, Ratio};
use hoistway::Nanos;
use hoistway_run::{Histogram, Interval, Monitor, ProcRecord, Role};
use hoistway_sim::load::{Better, CountDoc};

/// One cell, reduced.
pub(super) struct CellFigures<'a> {
    /// The records.
    pub(super) cell: &'a Cell,
    /// Place of its configuration in the manifest.
    pub(super) key: usize,
    /// What it is judged by.
    pub(super) judge: Judge,
    /// It is what the others are compared with.
    pub(super) reference: bool,
    /// The target's latencies of all repetitions.
    pub(super) hist: Histogram,
    /// The target's mean latency per repetition, ns; with unfinished I/Os a lower bound.
    pub(super) latency: Option<Spread>,
    /// Unfinished I/Os of the target, with the time they had waited.
    pub(super) censored: Vec<Nanos>,
    /// Longest the target waited, ns; a bound if an I/O was cut off by the end of the run.
    pub(super) longest: Option<Bounded>,
    /// Time-average latency (sum of squares over sum), ns: what a random instant waits through.
    pub(super) time_weighted: Option<Bounded>,
    /// MB/s of the target's calls and of the interferers'.
    pub(super) target: Option<Spread>,
    pub(super) others: Option<Spread>,
    /// The starts of an application, if that is what the target does.
    pub(super) starts: Option<Startups>,
    /// What each process receives of what it is entitled to, where that is judged.
    pub(super) shares: Option<Shares>,
    /// What the worst served process has of its part, mean of the repetitions' worst.
    pub(super) worst_served: Option<Spread>,
    /// MB/s of the device: all, read, written.
    pub(super) moved: Option<Spread>,
    pub(super) read: Option<Spread>,
    pub(super) written: Option<Spread>,
    /// Jain's index of the interferers' bytes.
    pub(super) jain: Option<Spread>,
    /// What its load counts, and its part of another count, where that is judged.
    pub(super) counted: Option<Counted>,
    /// What is judged, beside that of the reference; `None` for the reference.
    pub(super) judged: Option<Beside>,
    /// MB/s of the device, beside those under the reference.
    pub(super) more: Option<Beside>,
    /// MB/s of the interferers' calls, in the same way.
    pub(super) others_more: Option<Beside>,
    /// Texts of the flags on this cell.
    pub(super) flags: Vec<&'a str>,
}

/// What a load counted.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) doc: &'static CountDoc,
    /// Its number.
    pub(super) number: Spread,
    /// What part it is of another count, 0 to 1.
    pub(super) share: Option<Spread>,
}

impl Counted {
    fn of(side: Side<'_>, name: &str) -> Option<Counted> {
        let doc = counts::of_name(name).2?;
        let share = spread(side.cell.reps.iter().filter_map(|rep| counts::share(rep, doc)));
        Some(Counted { doc, number: summary(side, name)?, share })
    }

    /// `12.3 frames dropped (4.1 %)`.
    pub(super) fn text(&self) -> String {
        let share = self.share.map_or_else(String::new, |s| format!(" ({})", percent(s.mean)));
        format!("{} {}{share}", number(self.number.mean), counts::words(self.doc))
    }
}

/// A quantity beside the reference's, and which way it is better.
#[derive(Clone, Copy)]
pub(super) struct Beside {
    pub(super) comparison: Comparison,
    pub(super) better: Better,
}

impl Beside {
    /// How many times better than the reference.
    pub(super) fn gain(&self) -> Option<Ratio> {
        self.comparison.gain(self.better)
    }

    /// It is known to be better.
    pub(super) fn is_better(&self) -> bool {
        self.comparison.is_better(self.better)
    }

    /// It is known to differ.
    pub(super) fn differs(&self) -> bool {
        self.comparison.finding.differs()
    }
}

impl<'a> CellFigures<'a> {
    /// Figures of the cells of one drive and workload, in the order of configurations.
    pub(super) fn of(run: &'a Run, drive: &str, workload: &str) -> Vec<CellFigures<'a>> {
        let here = |c: &&Cell| c.drive == drive && c.workload == workload;
        let cells: Vec<&Cell> = run.cells.iter().filter(here).collect();
        let judge = Judge::of(&run.manifest, cells.iter().copied());
        let decisive = judge::decisive(judge, &cells);
        let reference = reference(&run.manifest);
        let mut out: Vec<CellFigures<'a>> = Vec::new();
        for (key, config) in run.manifest.configs.iter().enumerate() {
            let found = cells.iter().find(|c| c.config == config.id);
            let Some(cell) = found.copied() else { continue };
            let mut f = CellFigures::of_cell(run, cell, key, judge, decisive);
            f.reference = Some(config.id.as_str()) == reference;
            let beside = |metric: &str| {
                let comparison = *run.compared(cell, &cell.workload, metric)?;
                Some(Beside { comparison, better: judge::better(metric) })
            };
            f.judged = decisive.and_then(beside);
            f.more = beside("throughput_total");
            f.others_more = beside("throughput_interferers");
            out.push(f);
        }
        out
    }

    /// Gauges of the first repetition.
    pub(super) fn monitor(&self) -> &'a [Monitor] {
        self.cell.reps.first().map_or(&[], |r| &r.monitor)
    }

    fn of_cell(
        run: &'a Run,
        cell: &'a Cell,
        key: usize,
        judge: Judge,
        decisive: Option<&str>,
    ) -> CellFigures<'a> {
        let (hist, censored) = pooled(&cell.reps);
        let name = format!("{}/{}/{}", cell.drive, cell.config, cell.workload);
        let flags = run.flags.iter().filter(|f| f.0 == name).map(|f| f.1.as_str()).collect();
        let side = Side { manifest: &run.manifest, cell };
        let of = |metric| summary(side, metric);
        let in_ns = |s: Spread| Spread {
            mean: s.mean * 1e6,
            half_width: s.half_width.map(|h| h * 1e6),
            min: s.min * 1e6,
            max: s.max * 1e6,
            ..s
        };
        let counted = decisive.filter(|_| judge == Judge::Count);
        CellFigures {
            cell,
            key,
            judge,
            reference: false,
            latency: of("latency_avg").map(in_ns),
            longest: stats::latency_max(&hist, &censored),
            time_weighted: stats::time_weighted(&hist, &censored),
            target: of("throughput_target"),
            others: of("throughput_interferers"),
            starts: Startups::of(&cell.reps),
            worst_served: of("share_met_worst").filter(|_| judge == Judge::Share),
            shares: (judge == Judge::Share).then(|| Shares::of_cell(&run.manifest, cell)).flatten(),
            moved: of("throughput_total"),
            read: of("throughput_read"),
            written: of("throughput_written"),
            jain: of("jain_interferers"),
            counted: counted.and_then(|name| Counted::of(side, name)),
            judged: None,
            more: None,
            others_more: None,
            flags,
            hist,
            censored,
        }
    }

    /// The target's mean latency in ns.
    pub(super) fn wait(&self) -> Option<Bounded> {
        let bound = if self.censored.is_empty() { Bound::Exact } else { Bound::Above };
        self.latency.map(|s| Bounded { value: s.mean, bound })
    }

    /// The mean latency in ms with its interval, which a bound does not have.
    pub(super) fn wait_cell(&self) -> String {
        let cut = self.wait().filter(|w| w.bound != Bound::Exact);
        cut.map_or_else(
            || mean_cell(self.latency, 1e6),
            |w| esc(&bounded(w, |ns| number(ns / 1e6))),
        )
    }

    /// The longest wait in words.
    pub(super) fn longest_text(&self, text: impl Fn(f64) -> String) -> Option<String> {
        self.longest.map(|max| bounded(max, text))
    }

    /// A percentile in ns, with `per_mille` of 1000; `None` unless ten samples lie above it.
    pub(super) fn percentile(&self, per_mille: u64) -> Option<u64> {
        let name = "of a report";
        let p = Percentile { name, numerator: per_mille, denominator: 1000 };
        p.of(&self.hist, &self.censored)
    }

    /// MB/s of each process, mean over the repetitions.
    pub(super) fn each(&self) -> Vec<(&'a str, f64)> {
        let reps = &self.cell.reps;
        let Some(first) = reps.first() else { return Vec::new() };
        // Repetitions of one cell have the same processes in the same order.
        let of = |i: usize| reps.iter().map(move |r| mb_s(r.procs[i].bytes, r.measured.0));
        let mean = |i| stats::sum(of(i)) / reps.len() as f64;
        first.procs.iter().enumerate().map(|(i, p)| (p.name.as_str(), mean(i))).collect()
    }

    /// MB/s of the device over time, averaged over the repetitions: (end of interval in s, MB/s).
    pub(super) fn device_series(&self) -> Vec<(f64, f64)> {
        self.averaged(|r| vec![&r.device.intervals])
    }

    /// MB/s of processes over time, in the same way.
    pub(super) fn series(&self, role: Option<Role>) -> Vec<(f64, f64)> {
        self.averaged(|r| of_role(r, role).map(|p| &p.intervals).collect())
    }

    fn averaged(&self, of: impl Fn(&'a Rep) -> Vec<&'a Vec<Interval>>) -> Vec<(f64, f64)> {
        let reps = &self.cell.reps;
        let Some(length) = reps.iter().find_map(|r| interval(&of(r))) else { return Vec::new() };
        // Repetitions of one cell have one window; the last, partial interval is dropped.
        let whole = reps.iter().map(|r| r.measured.0 / length).min().unwrap_or(0);
        let seconds = length as f64 / 1e9;
        let mut bytes = vec![0u64; usize::try_from(whole).expect("a window has few intervals")];
        for i in reps.iter().flat_map(of).flatten() {
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

/// The same of a metric; what is only bounded has no interval. `None` if a repetition has no value.
fn summary(of: Side<'_>, metric: &str) -> Option<Spread> {
    let column = judge::column(of, metric)?;
    let cut = column.iter().any(|v| v.bound != Bound::Exact);
    let all = spread(column.iter().map(|v| v.value))?;
    Some(Spread { half_width: all.half_width.filter(|_| !cut), ..all })
}

fn of_role(rep: &Rep, role: Option<Role>) -> impl Iterator<Item = &ProcRecord> {
    rep.procs.iter().filter(move |p| role.is_none_or(|r| r == p.role))
}

/// Bytes per microsecond are MB/s.
fn mb_s(bytes: u64, window: u64) -> f64 {
    if window == 0 { 0.0 } else { bytes as f64 * 1e3 / window as f64 }
}

/// Length of the intervals of series.
fn interval(all: &[&Vec<Interval>]) -> Option<u64> {
    let starts = all.iter().flat_map(|p| p.windows(2));
    starts.map(|w| w[1].at.0.saturating_sub(w[0].at.0)).find(|&l| l > 0)
}

/// A number in words, with a sign in front of a bound.
pub(super) fn bounded(value: Bounded, text: impl Fn(f64) -> String) -> String {
    let sign = match value.bound {
        Bound::Exact => return text(value.value),
        Bound::Above => ">",
        Bound::AtLeast => "≥",
        Bound::Below => "<",
    };
    format!("{sign} {}", text(value.three()))
}
