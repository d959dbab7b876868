//! What the formats print, computed from the raw records of a run (specs/statistics.md).

use super::svg::number;
use super::verdict::percent;
use crate::result::share::Shares;
use crate::result::startup::{self, Startups};
use crate::result::{Cell, Judge, Monitor, Rep, Run, Spread, WorkloadInfo, counts, reference};
use crate::stats::{self, Bound, Percentile, UNSURE_BEYOND};
use hoistway::Nanos;
use hoistway_sim::hist::Histogram;
use hoistway_sim::load::{Better, CountDoc};
use hoistway_sim::world::{DeviceRecord, Interval, ProcRecord, Role};

/// One cell, reduced.
pub(super) struct Figures<'a> {
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
    /// Longest the target waited, ns, and whether it may be longer: an I/O was cut off by the end of the
    /// run.
    pub(super) longest: Option<(u64, bool)>,
    /// Time-average latency (sum of squares over sum), ns: what a random instant waits through.
    pub(super) time_weighted: Option<f64>,
    /// MB/s of everybody, the target, the interferers.
    pub(super) total: Option<Spread>,
    pub(super) target: Option<Spread>,
    pub(super) others: Option<Spread>,
    /// The starts of an application, if that is what the target does.
    pub(super) starts: Option<Startups>,
    /// What each process receives of what it is entitled to, where that is judged.
    pub(super) shares: Option<Shares>,
    /// MB/s of the device: all, read, written.
    pub(super) moved: Option<Spread>,
    pub(super) read: Option<Spread>,
    pub(super) written: Option<Spread>,
    /// Jain's index of the processes' bytes.
    pub(super) jain: Option<Spread>,
    /// What its load counts, and its part of another count, where that is judged.
    pub(super) counted: Option<Counted>,
    /// How many times better than the reference in what is judged; `None` for the reference and where one of
    /// the two has no value.
    pub(super) gain: Option<Gain>,
    /// This over reference, MB/s of the device; `None` for the reference.
    pub(super) more: Option<Gain>,
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
    fn of(cell: &Cell) -> Option<Counted> {
        let doc = counts::decisive(cell)?;
        let number = spread(cell.reps.iter().filter_map(|rep| counts::value(rep, doc.name)))?;
        let share = spread(cell.reps.iter().filter_map(|rep| counts::share(rep, doc)));
        Some(Counted { doc, number, share })
    }

    /// Of the cells of a workload.
    fn decisive(run: &Run, workload: &WorkloadInfo) -> Option<&'static CountDoc> {
        let mut cells = run.cells.iter().filter(|c| c.workload == workload.id);
        cells.find_map(counts::decisive)
    }

    /// `12.3 frames dropped (4.1 %)`.
    pub(super) fn text(&self) -> String {
        let share = self.share.map_or_else(String::new, |s| format!(" ({})", percent(s.mean)));
        format!("{} {}{share}", number(self.number.mean), counts::words(self.doc))
    }
}

/// How many times better than the reference configuration: shorter waits, more throughput.
#[derive(Clone, Copy)]
pub(super) struct Gain {
    /// Geometric mean over the pairs of repetitions.
    pub(super) factor: f64,
    /// Whether the 99 % interval excludes 1 and the factor is beyond 3 %; `None` below three pairs.
    pub(super) differs: Option<bool>,
    /// It does not differ, but the interval also holds a half or double.
    pub(super) unsure: bool,
}

impl<'a> Figures<'a> {
    /// Figures of the cells of one drive and workload, in the order of configurations.
    pub(super) fn of(run: &'a Run, drive: &str, workload: &str) -> Vec<Figures<'a>> {
        let here = |c: &&Cell| c.drive == drive && c.workload == workload;
        let judge = Judge::of(&run.manifest, run.cells.iter().filter(here));
        let reference = reference(&run.manifest);
        let first = run.cells.iter().filter(here).find(|c| Some(c.config.as_str()) == reference);
        let info = run.manifest.workloads.iter().find(|w| w.id == workload);
        let mut out: Vec<Figures<'a>> = Vec::new();
        for (key, config) in run.manifest.configs.iter().enumerate() {
            let found = run.cells.iter().filter(here).find(|c| c.config == config.id);
            if let Some(cell) = found {
                let mut f = Figures::of_cell(run, cell, key, judge);
                f.reference = Some(config.id.as_str()) == reference;
                if let Some(first) = first.filter(|_| !f.reference) {
                    f.gain = gain(first, cell, |a, b| better(run, info, judge, a, b));
                    f.more = gain(first, cell, |a, b| Some(moved(b) / moved(a)));
                }
                out.push(f);
            }
        }
        out
    }

    /// Gauges of the first repetition.
    pub(super) fn monitor(&self) -> &'a [Monitor] {
        self.cell.reps.first().map_or(&[], |r| &r.monitor)
    }

    fn of_cell(run: &'a Run, cell: &'a Cell, key: usize, judge: Judge) -> Figures<'a> {
        let mut hist = Histogram::new();
        let mut censored = Vec::new();
        for p in cell.reps.iter().flat_map(targets) {
            hist.merge(&p.latency);
            censored.extend(p.censored);
        }
        let longest = stats::latency_max(&hist, &censored);
        let longest = longest.map(|max| (max.value as u64, max.bound != Bound::Exact));
        let name = format!("{}/{}/{}", cell.drive, cell.config, cell.workload);
        let flags = run.flags.iter().filter(|f| f.0 == name).map(|f| f.1.as_str()).collect();
        let rate = |role| spread(cell.reps.iter().map(|r| rate(r, role)));
        let device = |bytes: fn(&DeviceRecord) -> u64| {
            spread(cell.reps.iter().map(|r| mb_s(bytes(&r.device), r.measured.0)))
        };
        let shares = |r: &Rep| r.procs.iter().map(|p| p.bytes as f64).collect::<Vec<_>>();
        Figures {
            cell,
            key,
            judge,
            reference: false,
            latency: spread(cell.reps.iter().filter_map(wait))
                .map(|s| Spread { half_width: s.half_width.filter(|_| censored.is_empty()), ..s }),
            longest,
            time_weighted: stats::time_weighted(&hist, &censored).map(|mean| mean.value),
            total: rate(None),
            target: rate(Some(Role::Target)),
            others: rate(Some(Role::Interferer)),
            starts: Startups::of(&cell.reps),
            shares: (judge == Judge::Share).then(|| Shares::of_cell(&run.manifest, cell)).flatten(),
            moved: device(|d| d.read_bytes + d.written_bytes),
            read: device(|d| d.read_bytes),
            written: device(|d| d.written_bytes),
            jain: spread(cell.reps.iter().filter_map(|r| stats::jain(&shares(r)))),
            counted: Counted::of(cell).filter(|_| judge == Judge::Count),
            gain: None,
            more: None,
            flags,
            hist,
            censored,
        }
    }

    /// Before a mean latency: nothing, or that it is longer.
    pub(super) fn longer(&self) -> &'static str {
        if self.censored.is_empty() { "" } else { "> " }
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

fn targets(rep: &Rep) -> impl Iterator<Item = &ProcRecord> {
    of_role(rep, Some(Role::Target))
}

fn of_role(rep: &Rep, role: Option<Role>) -> impl Iterator<Item = &ProcRecord> {
    rep.procs.iter().filter(move |p| role.is_none_or(|r| r == p.role))
}

/// Mean latency; an unfinished I/O counts with the time it had waited.
fn wait(rep: &Rep) -> Option<f64> {
    let of = |p: &ProcRecord| {
        let cut = p.censored.map_or(0, |c| u128::from(c.0));
        (p.latency.sum() + cut, p.latency.count() + u64::from(p.censored.is_some()))
    };
    let (sum, n) = targets(rep).map(of).fold((0, 0), |(s, n), (time, ios)| (s + time, n + ios));
    (n > 0).then(|| sum as f64 / n as f64)
}

fn rate(rep: &Rep, role: Option<Role>) -> f64 {
    let bytes: u64 = of_role(rep, role).map(|p| p.bytes).sum();
    mb_s(bytes, rep.measured.0)
}

/// What the device moved.
fn moved(rep: &Rep) -> f64 {
    mb_s(rep.device.read_bytes + rep.device.written_bytes, rep.measured.0)
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

/// How many times better `b` is than `a` in what is judged.
fn better(
    run: &Run,
    workload: Option<&WorkloadInfo>,
    judge: Judge,
    a: &Rep,
    b: &Rep,
) -> Option<f64> {
    match judge {
        Judge::Latency => Some(wait(a)? / wait(b)?),
        Judge::Throughput => Some(moved(b) / moved(a)),
        Judge::Startup => {
            let time = |rep| startup::mean_time(&startup::starts(rep))?.exact();
            Some(time(a)? / time(b)?)
        }
        Judge::Count => {
            let doc = Counted::decisive(run, workload?)?;
            let value = |rep| counts::value(rep, doc.name);
            Some(if doc.better == Better::Lower {
                value(a)? / value(b)?
            } else {
                value(b)? / value(a)?
            })
        }
        Judge::Share => {
            let met =
                |rep| Shares::of(&run.manifest, workload?, std::slice::from_ref(rep))?.worst_met();
            Some(met(b)? / met(a)?)
        }
    }
}

/// Common seeds pair the repetitions (statistics.md 4); `factor` of (reference, this).
fn gain(reference: &Cell, cell: &Cell, factor: impl Fn(&Rep, &Rep) -> Option<f64>) -> Option<Gain> {
    let pairs = reference.reps.iter().zip(&cell.reps).filter(|(a, b)| a.seed == b.seed);
    let logs = pairs.filter_map(|(a, b)| Some(factor(a, b)?.ln()));
    let s = spread(logs.filter(|l| l.is_finite()))?;
    let factor = s.mean.exp();
    let far = !(0.97..=1.03).contains(&factor);
    let differs = s.half_width.map(|h| far && s.mean.abs() > h);
    let most = s.half_width.unwrap_or(0.0) + s.mean.abs();
    Some(Gain { factor, differs, unsure: differs == Some(false) && most > UNSURE_BEYOND.ln() })
}
