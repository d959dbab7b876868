//! From raw records to metrics (docs/reference/metrics.md).

use super::replayed;
use super::share::Shares;
use super::startup::{self, Startups};
use super::{
    Cell, Judge, Manifest, Metric, MetricPlace, Name, Rep, Run, Target, control, counts, pooled,
    published, target,
};
use crate::judge::{self, Compared, Comparison, Side};
use crate::stats::{self, Bound, Bounded, PERCENTILES};
use hoistway::Nanos;
use hoistway_run::{Histogram, ProcRecord, Role};
use hoistway_sim::load::Better;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Id of the configuration that others are compared with, if it takes part.
pub const REFERENCE: &str = "none-none";

/// Limits of the time-weighted view (specs/statistics.md 1.4).
const LIMITS: &[(&str, Nanos)] = &[
    ("time_share_over_10ms", Nanos::ms(10)),
    ("time_share_over_100ms", Nanos::ms(100)),
    ("time_share_over_1s", Nanos::secs(1)),
    ("time_share_over_2s", Nanos::secs(2)),
    ("time_share_over_10s", Nanos::secs(10)),
];

/// A target with fewer I/Os per run than this is flagged.
const FEW_SAMPLES: u64 = 30;

/// Metrics and flags of raw records: the only way a [`Run`] comes into being. Of thousands of repetitions each has some
/// forty rows: they are made when they are asked for ([`Run::rows_of`]), cell by cell.
pub fn derive(manifest: Manifest, cells: Vec<Cell>) -> Run {
    let reference = reference(&manifest).map(str::to_string);
    let (mut rows, mut warnings, mut comparisons) = (MetricRows::default(), Vec::new(), Vec::new());
    for cell in &cells {
        let beside = beside(&cells, cell);
        let judge = Judge::of(&manifest, beside.iter().copied());
        let mut sink = Sink::new(&manifest, cell, Reps::Together, &mut rows);
        comparisons.extend(sink.all(&manifest, &cells, &beside, judge));
        warnings.extend(flags(cell));
        if let Some(reference) = &reference {
            warnings.extend(loss_of_control(&manifest, judge, cell, &beside, reference));
        }
    }
    let mut metrics = rows.metrics;
    metrics.shrink_to_fit();
    Run { manifest, cells, metrics, comparisons, flags: warnings }
}

impl Run {
    /// The rows of [`Run::metrics`] of a cell's drive and configuration, under every workload and phase.
    pub fn totals_of<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Metric> {
        // Rows of one place follow each other: of hundred thousands the names of few are compared.
        let places = self.metrics.chunk_by(|a, b| Arc::ptr_eq(&a.place, &b.place));
        let own = move |rows: &&[Metric]| {
            (&*rows[0].drive, &*rows[0].config) == (&*cell.drive, &*cell.config)
        };
        places.filter(own).flatten()
    }

    /// All rows of a cell in `metrics.csv`, in their order: those of [`Run::metrics`], and of each repetition.
    pub fn rows_of(&self, cell: &Cell) -> Vec<Metric> {
        let beside = beside(&self.cells, cell);
        let judge = Judge::of(&self.manifest, beside.iter().copied());
        let mut rows = MetricRows::default();
        let mut sink = Sink::new(&self.manifest, cell, Reps::Each, &mut rows);
        sink.all(&self.manifest, &self.cells, &beside, judge);
        rows.metrics
    }
}

/// The cells of the same drive and workload, this one among them.
fn beside<'a>(cells: &'a [Cell], cell: &Cell) -> Vec<&'a Cell> {
    let same = |c: &&Cell| (&c.drive, &c.workload) == (&cell.drive, &cell.workload);
    cells.iter().filter(same).collect()
}

/// The configuration others are compared with: `none-none` if it takes part, else the first.
pub fn reference(manifest: &Manifest) -> Option<&str> {
    let ids = || manifest.configs.iter().map(|c| c.id.as_str());
    ids().find(|&id| id == REFERENCE).or_else(|| ids().next())
}

/// The others.
fn interferers(rep: &Rep) -> impl Iterator<Item = &ProcRecord> {
    rep.procs.iter().filter(|p| p.role == Role::Interferer)
}

/// Bytes per window as MB/s (10^6).
fn mb_s(bytes: u64, window: Nanos) -> Option<f64> {
    (window.0 > 0).then(|| bytes as f64 * 1e3 / window.0 as f64)
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

/// Name, unit and value of a quantity of one repetition.
type RepQuantity = (&'static str, &'static str, Option<Bounded>);

/// The quantities of one repetition of which means over repetitions are taken.
fn values(rep: &Rep) -> Vec<RepQuantity> {
    let target = target(rep);
    let window = rep.measured;
    let others: Vec<u64> = interferers(rep).map(|p| p.bytes).collect();
    let shares: Vec<f64> = others.iter().map(|&b| b as f64).collect();
    let device = &rep.device;
    let transfers = device.commands - device.flushes;
    let moved = device.read_bytes + device.written_bytes;
    // The kernel's counters say nothing of single commands.
    let seen_singly = device.device_time.mean().is_some();
    let per = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let least = others.iter().min().and_then(|&b| mb_s(b, window));
    let most = others.iter().max().and_then(|&b| mb_s(b, window));
    let mut all = Vec::new();
    let starts = startup::starts(rep);
    if !starts.is_empty() {
        all.push(("startup_time", "s", startup::mean_time(&starts)));
        all.push(("throughput_startup", "MB/s", startup::rate(&starts).map(Bounded::from)));
    }
    if let Some(target) = target {
        let wait = stats::latency_mean(&target.latency, &target.censored);
        all.push(("latency_avg", "ms", wait.map(|m| m.times(1e-6))));
        all.push(("throughput_target", "MB/s", mb_s(target.bytes, window).map(Bounded::from)));
    }
    let plain = [
        ("throughput_total", "MB/s", mb_s(moved, window)),
        ("throughput_read", "MB/s", mb_s(device.read_bytes, window)),
        ("throughput_written", "MB/s", mb_s(device.written_bytes, window)),
        ("throughput_interferers", "MB/s", mb_s(others.iter().sum(), window)),
        ("throughput_interferer_min", "MB/s", least),
        ("throughput_interferer_max", "MB/s", most),
        ("jain_interferers", "1", stats::jain(&shares)),
        ("iops", "1/s", mb_s(transfers, window).map(|per_us| per_us * 1e6)),
        ("utilisation", "1", Some(device.utilisation)),
        ("depth_avg", "requests", Some(device.depth)),
        ("commands", "1", Some(device.commands as f64)),
        ("request_size_avg", "KiB", per(moved, transfers).map(|b| b / 1024.0)),
        ("sequential_share", "1", per(device.sequential, transfers).filter(|_| seen_singly)),
        ("merges", "1", Some(device.merges as f64)),
        ("device_time_avg", "ms", device.device_time.mean().map(ms)),
        ("starved_max", "ms", rep.procs.iter().map(|p| p.starved.0).max().map(|n| ms(n as f64))),
    ];
    all.extend(plain.map(|(metric, unit, value)| (metric, unit, value.map(Bounded::from))));
    // The kernel does not tell.
    all.extend(choice(rep).map(|part| ("scheduler_choice", "1", Some(Bounded::from(part)))));
    all
}

/// Of the requests sent to the drive the part that the scheduler chose among several; `None` where it is not counted.
fn choice(rep: &Rep) -> Option<f64> {
    let of = |name: &str| rep.figures.get(name).map(|value| value as f64);
    let issued = of("requests_issued").filter(|&n| n > 0.0)?;
    Some(of("requests_chosen")? / issued)
}

/// Which rows are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reps {
    /// Those over all repetitions.
    Together,
    /// Those of each repetition as well.
    Each,
}

/// Writes the metrics of one cell.
pub(super) struct Sink<'a> {
    /// The cell's own.
    place: Arc<MetricPlace>,
    /// That of the last row which named its workload.
    other: Arc<MetricPlace>,
    pub(super) cell: &'a Cell,
    reps: Reps,
    rows: &'a mut MetricRows,
}

/// Rows so far.
#[derive(Default)]
struct MetricRows {
    metrics: Vec<Metric>,
    /// Names of quantities, each kept once.
    names: BTreeSet<Name>,
}

impl MetricRows {
    fn name(&mut self, name: &str) -> Name {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name = Name::from(name);
        self.names.insert(name.clone());
        name
    }
}

impl<'a> Sink<'a> {
    fn new(manifest: &Manifest, cell: &'a Cell, reps: Reps, rows: &'a mut MetricRows) -> Sink<'a> {
        let place = MetricPlace {
            experiment: Name::from(&manifest.experiment),
            drive: Name::from(&cell.drive),
            config: Name::from(&cell.config),
            workload: Name::from(&cell.workload),
            source: Name::from(&manifest.world),
        };
        let place = Arc::new(place);
        Sink { other: place.clone(), place, cell, reps, rows }
    }

    /// Every row of the cell; and how it compares with the reference.
    fn all(
        &mut self,
        manifest: &Manifest,
        cells: &[Cell],
        beside: &[&Cell],
        judge: Judge,
    ) -> Vec<Compared> {
        let (cell, reference) = (self.cell, reference(manifest));
        let mut comparisons = Vec::new();
        for (number, rep) in self.each(&cell.reps) {
            self.repetition(number, rep);
        }
        self.over_repetitions();
        let free = beside.iter().find(|c| Some(c.config.as_str()) == reference);
        if let Some(free) = free.filter(|free| free.config != cell.config) {
            let metrics = judge::quantities(judge, beside);
            comparisons.extend(self.over_reference(manifest, free, &metrics));
        }
        self.slowdown(manifest, cells);
        self.over_alone(manifest, cells);
        if judge == Judge::Share {
            self.shares(manifest);
        }
        self.published(&cell.workload);
        self.counts();
        comparisons.extend(self.phases(cells, reference));
        comparisons
    }

    /// Repetitions that have rows of their own, with their numbers.
    pub(super) fn each<'b, T>(
        &self,
        reps: &'b [T],
    ) -> impl Iterator<Item = (u32, &'b T)> + use<'b, T> {
        let wanted = if self.reps == Reps::Each { reps } else { &[] };
        (1..).zip(wanted)
    }

    fn put(
        &mut self,
        metric: &str,
        unit: &'static str,
        value: Option<impl Into<Bounded>>,
        rep: Option<u32>,
    ) {
        self.put_row(self.place.clone(), metric, unit, value.map(Into::into), rep);
    }

    /// A row of the cell that stands under another workload's name.
    pub(super) fn put_in(
        &mut self,
        workload: &str,
        metric: &str,
        unit: &'static str,
        value: Option<impl Into<Bounded>>,
        rep: Option<u32>,
    ) {
        if self.other.workload != *workload {
            self.other = self.place_in(workload);
        }
        self.put_row(self.other.clone(), metric, unit, value.map(Into::into), rep);
    }

    /// The cell's place under another workload's name.
    fn place_in(&self, workload: &str) -> Arc<MetricPlace> {
        if self.place.workload == *workload {
            return self.place.clone();
        }
        MetricPlace { workload: workload.into(), ..(*self.place).clone() }.into()
    }

    fn put_row(
        &mut self,
        place: Arc<MetricPlace>,
        metric: &str,
        unit: &'static str,
        value: Option<Bounded>,
        rep: Option<u32>,
    ) {
        let metric = self.rows.name(metric);
        self.rows.metrics.push(Metric {
            place,
            metric,
            unit,
            value: value.map(|v| v.value),
            bound: value.map_or(Bound::Exact, |v| v.bound),
            rep,
        });
    }

    /// What describes the target's samples, of one repetition or of all in one.
    fn samples(&mut self, h: &Histogram, censored: &[Nanos], window: Nanos, rep: Option<u32>) {
        let in_ms = |ns: Option<u64>| ns.map(|n| ms(n as f64));
        self.put("latency_sd", "ms", h.sd().map(ms), rep);
        self.put("latency_min", "ms", in_ms(h.min()), rep);
        for p in PERCENTILES {
            self.put(&format!("latency_{}", p.name), "ms", in_ms(p.of(h, censored)), rep);
        }
        let max = stats::latency_max(h, censored).map(|max| max.times(1e-6));
        self.put("latency_max", "ms", max, rep);
        let weighted = stats::time_weighted(h, censored).map(|mean| mean.times(1e-6));
        self.put("latency_time_weighted", "ms", weighted, rep);
        // The last I/O may end behind the window: then the time is that of all I/Os.
        let spent = h.sum() as f64 + censored.iter().map(|c| c.0 as f64).sum::<f64>();
        let time = spent.max(window.0 as f64);
        for &(name, limit) in LIMITS {
            let over = stats::time_over(h, censored, limit);
            let share = (time > 0.0).then(|| over.times(100.0 / time));
            self.put(name, "percent", share, rep);
        }
        self.put("samples", "1", Some(h.count() as f64), rep);
        self.put("censored", "1", Some(censored.len() as f64), rep);
    }

    /// What describes the starts of an application, of one repetition or of all.
    fn startups(&mut self, reps: &[Rep], rep: Option<u32>) {
        let Some(all) = Startups::of(reps) else { return };
        self.put("startup_time_min", "s", all.min, rep);
        self.put("startup_time_p50", "s", all.median, rep);
        self.put("startup_time_max", "s", Some(all.max), rep);
        self.put("startups", "1", Some(all.count as f64), rep);
        self.put("startups_unfinished", "1", Some(all.unfinished as f64), rep);
    }

    fn repetition(&mut self, number: u32, rep: &Rep) {
        self.startups(std::slice::from_ref(rep), Some(number));
        for (metric, unit, value) in values(rep) {
            self.put(metric, unit, value, Some(number));
        }
        if let Some(target) = target(rep) {
            let window = Nanos(rep.measured.0 * target.procs.len() as u64);
            self.samples(&target.latency, &target.censored, window, Some(number));
        }
    }

    fn over_repetitions(&mut self) {
        let cell = self.cell;
        let per_rep: Vec<_> = cell.reps.iter().map(values).collect();
        let Some(first) = per_rep.first() else { return };
        for (i, &(metric, unit, _)) in first.iter().enumerate() {
            let column: Option<Vec<Bounded>> = per_rep.iter().map(|rep| rep.get(i)?.2).collect();
            self.put_means(&cell.workload, metric, unit, column);
        }
        self.startups(&cell.reps, None);
        let targets: Vec<Target<'_>> = cell.reps.iter().filter_map(target).collect();
        if targets.is_empty() {
            return;
        }
        let (all, censored) = pooled(&cell.reps);
        let times = cell.reps.iter().zip(&targets);
        let window = Nanos(times.map(|(r, t)| r.measured.0 * t.procs.len() as u64).sum());
        self.samples(&all, &censored, window, None);
    }

    /// Mean over repetitions and its interval, if every repetition has a value.
    pub(super) fn put_means(
        &mut self,
        workload: &str,
        metric: &str,
        unit: &'static str,
        column: Option<Vec<Bounded>>,
    ) {
        let exact: Option<Vec<f64>> =
            column.as_ref().and_then(|c| c.iter().map(|v| v.exact()).collect());
        let spread = exact.and_then(|c| stats::spread(&c));
        let mean = spread.map(|s| s.mean.into());
        let mean = mean.or_else(|| Bounded::mean(&column?));
        self.put_in(workload, metric, unit, mean, None);
        // What is only bounded has none.
        let interval = spread.and_then(|s| s.half_width);
        self.put_in(workload, &format!("{metric}_ci99"), unit, interval, None);
    }

    /// This configuration over the reference.
    fn over_reference(
        &mut self,
        m: &Manifest,
        free: &Cell,
        metrics: &[&'static str],
    ) -> Vec<Compared> {
        let (cell, row) = (self.cell, &self.cell.workload);
        let mut all = Vec::new();
        for metric in metrics {
            let [value, reference] = [cell, free].map(|cell| Side { manifest: m, cell });
            let comparison = judge::compare(value, reference, metric);
            self.ratio(row, &format!("{metric}_ratio"), &comparison);
            all.push(self.compared(row, metric, &free.config, comparison));
        }
        all
    }

    /// The rows of a ratio and its interval.
    pub(super) fn ratio(&mut self, row: &str, name: &str, comparison: &Comparison) {
        let ratio = comparison.ratio;
        self.put_in(row, name, "1", ratio.map(|r| r.bounded()), None);
        let bounds = ratio.and_then(|r| r.interval);
        self.put_in(row, &format!("{name}_low"), "1", bounds.map(|b| b.0), None);
        self.put_in(row, &format!("{name}_high"), "1", bounds.map(|b| b.1), None);
    }

    pub(super) fn compared(
        &self,
        row: &str,
        metric: &'static str,
        reference: &str,
        comparison: Comparison,
    ) -> Compared {
        let MetricPlace { drive, config, workload, .. } = (*self.place).clone();
        let workload = if workload == *row { workload } else { row.into() };
        Compared { drive, config, workload, metric, reference: reference.into(), comparison }
    }

    /// A start-up with a load over the same without.
    fn slowdown(&mut self, manifest: &Manifest, cells: &[Cell]) {
        let cell = self.cell;
        let Some(idle) = startup::idle_workload(&cell.workload) else { return };
        let idle = cells
            .iter()
            .find(|c| (&c.drive, &c.config, &c.workload) == (&cell.drive, &cell.config, &idle));
        if let Some(idle) = idle {
            let [cell, idle] = [cell, idle].map(|cell| Side { manifest, cell });
            let over = judge::compare(cell, idle, "startup_time");
            self.ratio(&cell.cell.workload, "startup_slowdown", &over);
        }
    }

    /// A target beside others over the same alone.
    fn over_alone(&mut self, manifest: &Manifest, cells: &[Cell]) {
        let cell = self.cell;
        let Some(alone) = control::alone(manifest, cells, cell) else { return };
        let over = control::over(manifest, cell, alone, "latency_avg");
        self.ratio(&cell.workload, "latency_avg_over_alone", &over);
        let p99 = control::p99(cell).zip(control::p99(alone)).map(|(mine, alone)| mine / alone);
        self.put("latency_p99_over_alone", "1", p99, None);
    }

    /// Entitlement against received share, per repetition and over them.
    fn shares(&mut self, manifest: &Manifest) {
        let cell = self.cell;
        let Some(workload) = manifest.workloads.iter().find(|w| w.id == cell.workload) else {
            return;
        };
        let of =
            |rep: &Rep| share_values(&Shares::of(manifest, workload, std::slice::from_ref(rep)));
        let each: Vec<_> = cell.reps.iter().map(of).collect();
        for (number, values) in self.each(&each) {
            for &(metric, unit, value) in values {
                self.put(metric, unit, value, Some(number));
            }
        }
        let Some(first) = each.first() else { return };
        for (i, &(metric, unit, _)) in first.iter().enumerate() {
            let column: Option<Vec<f64>> = each.iter().map(|values| values[i].2).collect();
            let spread = column.and_then(|c| stats::spread(&c));
            self.put(metric, unit, spread.map(|s| s.mean), None);
            let interval = spread.and_then(|s| s.half_width);
            self.put(&format!("{metric}_ci99"), unit, interval, None);
        }
    }

    /// Published values of the same cell, beside ours; `workload`: it, or one of its phases.
    pub(super) fn published(&mut self, workload: &str) {
        let (own, cell) = (self.place.clone(), self.cell);
        for row in published::rows_of(&own.experiment, &cell.drive, &cell.config, workload) {
            let mut place = (*self.place_in(workload)).clone();
            place.source = row.source.into();
            self.put_row(place.into(), row.metric, row.unit, row.exactly().map(Into::into), None);
        }
    }
}

/// One of the per-repetition quantities, by its name in `metrics.csv`.
pub fn rep_value(rep: &Rep, metric: &str) -> Option<Bounded> {
    let found = values(rep).into_iter().find(|v| v.0 == metric);
    found.map_or_else(|| counts::value(rep, metric).map(Bounded::from), |v| v.2)
}

/// How the text of a flag begins that says a configuration does not protect the target.
pub const LOSS_OF_CONTROL: &str = "loss of control";
/// Control is lost where a configuration leaves at least this part of the uncontrolled harm ...
const LOST: f64 = 0.8;
/// ... although some configuration brings it below this part.
const POSSIBLE: f64 = 0.5;
/// Who has at least this part of what it is entitled to has not lost it.
const HALF: f64 = 0.5;

/// Says that a configuration does not protect what the experiment judges by although another one does.
fn loss_of_control(
    manifest: &Manifest,
    judge: Judge,
    cell: &Cell,
    beside: &[&Cell],
    reference: &str,
) -> Option<(String, String)> {
    let free = beside.iter().find(|c| c.config == reference)?;
    if cell.config == reference {
        return None;
    }
    let text = match judge {
        Judge::Latency | Judge::Startup => waits(judge, cell, free, beside),
        Judge::Share => starves(manifest, cell, free, beside),
        Judge::Count => comes_short(cell, free, beside),
        // More or less of it is no matter of control.
        Judge::Throughput => None,
    }?;
    let name = format!("{}/{}/{}", cell.drive, cell.config, cell.workload);
    Some((name, format!("{LOSS_OF_CONTROL}: {text}")))
}

/// By what the target's load counts: with the same two bounds, of the frames lost or of the work done.
fn comes_short(cell: &Cell, free: &Cell, beside: &[&Cell]) -> Option<String> {
    let doc = counts::decisive(cell)?;
    let mean = |c: &Cell| {
        let column: Option<Vec<f64>> =
            c.reps.iter().map(|rep| counts::value(rep, doc.name)).collect();
        column.filter(|c| !c.is_empty()).map(|c| c.iter().sum::<f64>() / c.len() as f64)
    };
    let (reference, free, mine) = (&free.config, mean(free)?, mean(cell)?);
    let others = beside.iter().filter_map(|c| Some((mean(c)?, &c.config)));
    let less = doc.better == Better::Lower;
    let best = |a: &(f64, &String), b: &(f64, &String)| {
        if less { a.0.total_cmp(&b.0) } else { b.0.total_cmp(&a.0) }
    };
    let (best, config) = others.min_by(best)?;
    let lost = match less {
        true => free > 0.0 && mine >= LOST * free && best <= POSSIBLE * free,
        false => mine * LOST <= free && best * POSSIBLE >= free && best > 0.0,
    };
    let shown = |v: f64| format!("{v:.1}");
    lost.then(|| {
        format!(
            "{} {}, {} under {reference}; under {config} {}",
            shown(mine),
            counts::words(doc),
            shown(free),
            shown(best)
        )
    })
}

/// By the time the target waits.
fn waits(judge: Judge, cell: &Cell, free: &Cell, beside: &[&Cell]) -> Option<String> {
    let time = |c: &Cell| {
        let of = |rep: &Rep| match judge {
            Judge::Startup => startup::mean_time(&startup::starts(rep)),
            _ => rep_value(rep, "latency_avg").map(|ms| ms.times(1e-3)),
        };
        let column: Option<Vec<Bounded>> = c.reps.iter().map(of).collect();
        Bounded::mean(&column?)
    };
    let (reference, free) = (&free.config, time(free)?);
    let mine = time(cell)?;
    let part = mine.value / free.value;
    let others = beside.iter().filter_map(|c| Some((time(c)?.exact()?, &c.config)));
    let (best, config) = others.min_by(|a, b| a.0.total_cmp(&b.0))?;
    // Of a reference that is longer than known, nothing known is a certain part.
    let told = mine.exact().is_none() || free.exact().is_some();
    if !told || part < LOST || best / free.value > POSSIBLE {
        return None;
    }
    let what = if judge == Judge::Startup { "a start takes" } else { "the target waits" };
    let short = 100.0 * best / free.value;
    Some(match (mine.exact(), free.exact()) {
        (Some(_), Some(_)) => format!(
            "{what} {:.0} % of the time under {reference}; under {config} {short:.2} %",
            part * 100.0
        ),
        _ => format!(
            "{what} {mine} s, {free} s under {reference}; {} s under {config}",
            Bounded::from(best)
        ),
    })
}

/// By what the worst served process has of its part. Where the reference serves everybody well, a
/// configuration that does not has lost it; the same two bounds hold.
fn starves(manifest: &Manifest, cell: &Cell, free: &Cell, beside: &[&Cell]) -> Option<String> {
    let met = |c: &Cell| Shares::of_cell(manifest, c).and_then(|s| s.worst_met());
    let shares = Shares::of_cell(manifest, cell)?;
    let (worst, has) = (shares.worst()?, shares.worst_met()?);
    let reached = |c: &&Cell| Some((met(c)?, c.config.clone()));
    let (best, config) = beside.iter().filter_map(reached).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let lost = has < HALF && has * LOST <= met(free)? && has <= best * POSSIBLE;
    lost.then(|| {
        format!(
            "{} receives {} of what it is entitled to; under {config} nobody receives less than {}",
            worst.name,
            percent(has),
            percent(best)
        )
    })
}

/// `12 %`, `0.3 %`.
fn percent(part: f64) -> String {
    let percent = part * 100.0;
    let digits = if percent < 10.0 { 1 } else { 0 };
    format!("{percent:.digits$} %")
}

/// The metrics of shares.
fn share_values(shares: &Option<Shares>) -> [(&'static str, &'static str, Option<f64>); 5] {
    let s = shares.as_ref();
    let target = s.and_then(Shares::target);
    let target = || target.as_ref();
    let part = |mb_s: Option<f64>| mb_s.zip(s).map(|(mb_s, s)| 100.0 * mb_s / s.total);
    [
        ("share_target", "percent", part(target().map(|t| t.mb_s))),
        ("share_target_entitled", "percent", part(target().and_then(|t| t.entitled_mb_s))),
        ("share_met_target", "1", target().and_then(|t| t.met())),
        ("share_met_worst", "1", s.and_then(Shares::worst_met)),
        ("jain_weighted", "1", s.and_then(|s| s.jain)),
    ]
}

/// Warnings about one cell.
fn flags(cell: &Cell) -> Vec<(String, String)> {
    let name = format!("{}/{}/{}", cell.drive, cell.config, cell.workload);
    let mut flags = Vec::new();
    let mut flag = |text: String| flags.push((name.clone(), text));
    replayed::flags(cell).into_iter().for_each(&mut flag);
    let targets: Vec<Target<'_>> = cell.reps.iter().filter_map(target).collect();
    let censored = targets
        .iter()
        .filter(|t| stats::censored_too_many(t.latency.count(), t.censored.len() as u64))
        .count();
    if censored > 0 {
        flag(format!("censored I/Os: the target's last one did not end in {censored} runs"));
    }
    let overflow: u64 = targets.iter().map(|t| t.latency.overflow()).sum();
    if overflow > 0 {
        flag(format!("{overflow} latencies lie above the histogram's range of 73 minutes"));
    }
    if let Some(all) = Startups::of(&cell.reps) {
        if let Some(warning) = all.warning() {
            flag(warning);
        }
        // Its measure is the time of the whole, not that of single reads.
        return flags;
    }
    let fewest = targets.iter().map(|t| t.latency.count()).min();
    if let Some(n) = fewest.filter(|&n| n < FEW_SAMPLES) {
        let ios = if n == 1 { "I/O" } else { "I/Os" };
        flag(format!("few samples: a run has only {n} {ios} of the target"));
    }
    let steps = cell.reps.iter().filter(|rep| {
        let series: Vec<f64> = rep.device.intervals.iter().map(|i| i.bytes as f64).collect();
        stats::level_changed(&series)
    });
    let steps = steps.count();
    if steps > 0 {
        flag(format!("the device's throughput changed its level in {steps} runs"));
    }
    flags
}
