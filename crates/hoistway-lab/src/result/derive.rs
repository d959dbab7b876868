//! From raw records to metrics (docs/reference/metrics.md).

use super::replayed;
use super::share::Shares;
use super::startup::{self, Startups};
use super::{Cell, Judge, Manifest, Metric, Rep, Run, control, counts, published};
use crate::stats::{self, Bound, Bounded, PERCENTILES};
use hoistway::Nanos;
use hoistway_sim::hist::Histogram;
use hoistway_sim::load::Better;
use hoistway_sim::world::{ProcRecord, Role};

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

/// Metrics and flags of raw records: the only way a [`Run`] comes into being.
pub fn derive(manifest: Manifest, cells: Vec<Cell>) -> Run {
    let reference = reference(&manifest).map(str::to_string);
    let (mut metrics, mut warnings) = (Vec::new(), Vec::new());
    for cell in &cells {
        let (world, experiment) = (&manifest.world, &manifest.experiment);
        let mut sink = Sink { world, experiment, cell, metrics: &mut metrics };
        for (i, rep) in cell.reps.iter().enumerate() {
            sink.repetition(i as u32 + 1, rep);
        }
        sink.over_repetitions();
        let other = cells.iter().find(|c| {
            Some(&c.config) == reference.as_ref()
                && (&c.drive, &c.workload) == (&cell.drive, &cell.workload)
        });
        if let Some(other) = other.filter(|o| o.config != cell.config) {
            sink.ratios(other);
        }
        sink.slowdown(&cells);
        sink.over_alone(&manifest, &cells);
        let beside = beside(&cells, cell);
        let judge = Judge::of(&manifest, beside.iter().copied());
        if judge == Judge::Share {
            sink.shares(&manifest);
        }
        sink.published(&cell.workload);
        sink.counts();
        sink.phases(&cells);
        warnings.extend(flags(cell));
        if let Some(reference) = &reference {
            warnings.extend(loss_of_control(&manifest, judge, cell, &beside, reference));
        }
    }
    Run { manifest, cells, metrics, flags: warnings }
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

/// The measured process of a repetition.
pub fn target(rep: &Rep) -> Option<&ProcRecord> {
    rep.procs.iter().find(|p| p.role == Role::Target)
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
type Quantity = (&'static str, &'static str, Option<Bounded>);

/// The quantities of one repetition of which means over repetitions are taken.
fn values(rep: &Rep) -> Vec<Quantity> {
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
        all.push(("latency_avg", "ms", stats::latency_mean(target).map(|m| m.times(1e-6))));
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
    all
}

/// Writes the metrics of one cell.
pub(super) struct Sink<'a> {
    world: &'a str,
    experiment: &'a str,
    pub(super) cell: &'a Cell,
    metrics: &'a mut Vec<Metric>,
}

impl Sink<'_> {
    fn put(
        &mut self,
        metric: &str,
        unit: &str,
        value: Option<impl Into<Bounded>>,
        rep: Option<u32>,
    ) {
        self.put_in(&self.cell.workload, metric, unit, value, rep);
    }

    /// A row of the cell that stands under another workload's name.
    pub(super) fn put_in(
        &mut self,
        workload: &str,
        metric: &str,
        unit: &str,
        value: Option<impl Into<Bounded>>,
        rep: Option<u32>,
    ) {
        let value = value.map(Into::into);
        self.metrics.push(Metric {
            experiment: self.experiment.to_string(),
            drive: self.cell.drive.clone(),
            config: self.cell.config.clone(),
            workload: workload.to_string(),
            metric: metric.to_string(),
            unit: unit.to_string(),
            value: value.map(|v| v.value),
            bound: value.map_or(Bound::Exact, |v| v.bound),
            rep,
            source: self.world.to_string(),
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
            let censored: Vec<Nanos> = target.censored.into_iter().collect();
            self.samples(&target.latency, &censored, rep.measured, Some(number));
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
        let targets: Vec<&ProcRecord> = cell.reps.iter().filter_map(target).collect();
        if targets.is_empty() {
            return;
        }
        let all = stats::merged(targets.iter().map(|t| &t.latency));
        let censored: Vec<Nanos> = targets.iter().filter_map(|t| t.censored).collect();
        let window = Nanos(cell.reps.iter().map(|r| r.measured.0).sum());
        self.samples(&all, &censored, window, None);
    }

    /// Mean over repetitions and its interval, if every repetition has a value.
    pub(super) fn put_means(
        &mut self,
        workload: &str,
        metric: &str,
        unit: &str,
        column: Option<Vec<Bounded>>,
    ) {
        let exact: Option<Vec<f64>> =
            column.as_ref().and_then(|c| c.iter().map(|v| v.exact()).collect());
        let spread = exact.and_then(|c| stats::spread(&c));
        let mean = spread.map(|s| s.mean.into());
        self.put_in(workload, metric, unit, mean.or_else(|| Bounded::mean(&column?)), None);
        // What is only bounded has none.
        let interval = spread.and_then(|s| s.half_width);
        self.put_in(workload, &format!("{metric}_ci99"), unit, interval, None);
    }

    /// This configuration over the reference, paired by seed.
    fn ratios(&mut self, reference: &Cell) {
        let targeted = self.cell.reps.iter().any(|rep| target(rep).is_some());
        let of_target = ["latency_avg", "throughput_target"].into_iter().filter(|_| targeted);
        let starts = self.cell.reps.iter().any(|rep| !startup::starts(rep).is_empty());
        let of_starts = ["startup_time"].into_iter().filter(|_| starts);
        for metric in ["throughput_total"].into_iter().chain(of_target).chain(of_starts) {
            self.ratio_of(&format!("{metric}_ratio"), metric, reference);
        }
    }

    fn ratio_of(&mut self, name: &str, metric: &str, reference: &Cell) {
        let ratio = ratio(self.cell, reference, metric);
        let mean = ratio.map(|r| Bounded { value: r.mean, bound: r.bound });
        self.put(name, "1", mean, None);
        let bounds = ratio.and_then(|r| r.interval);
        self.put(&format!("{name}_low"), "1", bounds.map(|b| b.0), None);
        self.put(&format!("{name}_high"), "1", bounds.map(|b| b.1), None);
    }

    /// A start-up with a load over the same without.
    fn slowdown(&mut self, cells: &[Cell]) {
        let cell = self.cell;
        let Some(idle) = startup::idle_workload(&cell.workload) else { return };
        let idle = cells
            .iter()
            .find(|c| (&c.drive, &c.config, &c.workload) == (&cell.drive, &cell.config, &idle));
        if let Some(idle) = idle {
            self.ratio_of("startup_slowdown", "startup_time", idle);
        }
    }

    /// A target beside others over the same alone, and what the others keep of their throughput.
    fn over_alone(&mut self, manifest: &Manifest, cells: &[Cell]) {
        let cell = self.cell;
        let Some(alone) = control::alone(manifest, cells, cell) else { return };
        self.ratio_of("latency_avg_over_alone", "latency_avg", alone);
        let p99 = control::p99(cell).zip(control::p99(alone)).map(|(mine, alone)| mine / alone);
        self.put("latency_p99_over_alone", "1", p99, None);
        let free = control::uncontrolled(manifest, cells, cell);
        if let Some(free) = free.filter(|f| f.config != cell.config) {
            let kept = control::kept(cell, free, "throughput_interferers");
            self.put("throughput_interferers_ratio", "1", kept, None);
        }
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
        for (number, values) in (1..).zip(&each) {
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
        let (experiment, cell) = (self.experiment, self.cell);
        for row in published::rows_of(experiment, &cell.drive, &cell.config, workload) {
            let source = row.source.to_string();
            self.put_in(workload, row.metric, row.unit, row.exactly(), None);
            self.metrics.last_mut().expect("one was just put").source = source;
        }
    }
}

/// One of the per-repetition quantities, by its name in `metrics.csv`.
pub fn rep_value(rep: &Rep, metric: &str) -> Option<Bounded> {
    let found = values(rep).into_iter().find(|v| v.0 == metric);
    found.map_or_else(|| counts::value(rep, metric).map(Bounded::from), |v| v.2)
}

/// One of the per-repetition quantities of `cell` over the same of `reference`, paired by seed.
pub fn ratio(cell: &Cell, reference: &Cell, metric: &str) -> Option<stats::Ratio> {
    let column = |cell: &Cell| -> Option<Vec<Bounded>> {
        cell.reps.iter().map(|rep| rep_value(rep, metric)).collect()
    };
    let seeds = |cell: &Cell| cell.reps.iter().map(|r| r.seed).collect::<Vec<_>>();
    if seeds(cell) != seeds(reference) {
        return None;
    }
    stats::paired_ratio_bounded(&column(cell)?, &column(reference)?)
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
            _ => stats::latency_mean(target(rep)?).map(|ns| ns.times(1e-9)),
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
    let target = || s.and_then(Shares::target);
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
    let targets: Vec<&ProcRecord> = cell.reps.iter().filter_map(target).collect();
    let censored = targets
        .iter()
        .filter(|t| stats::censored_too_many(t.latency.count(), t.censored.iter().count() as u64))
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
