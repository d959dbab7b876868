//! What decides: throughput kept against what the experiment judges by. The Pareto frontier of the
//! configurations, a verdict in words, and the plot and the matrix that show it.

use super::chart::{Axes, Matrix, MatrixCell, TradeoffPoint, matrix, tradeoff};
use super::figures::{CellFigures, bounded};
use super::section::{self, Chart, Keep};
use super::svg::{AxisUnit, duration, esc, letter, number};
use super::{startup, throughput};
use crate::config::{Config, RAISING};
use crate::result::{
    Cell, DriveInfo, Judge, LOSS_OF_CONTROL, Run, WorkloadInfo, counts, number_text,
};
use crate::stats::{Bound, Finding, Ratio, SAME_WITHIN};
use hoistway_sim::load::Better;

/// A configuration as the verdict sees it.
pub(super) struct JudgedConfig<'a> {
    /// Its figures.
    pub(super) of: &'a CellFigures<'a>,
    /// Its name.
    pub(super) name: &'a str,
    /// Throughput of the device over that under the reference.
    pub(super) kept: f64,
    /// What is judged: nanoseconds for times, 0 to 1 otherwise.
    pub(super) value: f64,
    /// The value is a lower bound: starts were given up, I/Os cut off.
    pub(super) beyond: bool,
    /// The value as text.
    pub(super) shown: String,
    /// Nothing is better in one and no worse in the other.
    pub(super) frontier: bool,
}

/// All configurations of one drive and workload of which there is something to judge.
pub(super) struct JudgedGroup<'a> {
    pub(super) judge: Judge,
    /// Less of what is judged is better.
    pub(super) less: bool,
    /// Name of the configuration that the others are compared with.
    pub(super) reference: &'a str,
    pub(super) all: Vec<JudgedConfig<'a>>,
}

impl<'a> JudgedGroup<'a> {
    /// `None` where the reference moved nothing or took no part: then nothing can be kept of it.
    pub(super) fn of(run: &'a Run, all: &'a [CellFigures<'a>]) -> Option<JudgedGroup<'a>> {
        let judge = all.first()?.judge;
        let first = all.iter().find(|f| f.reference)?;
        first.moved.filter(|s| s.mean > 0.0)?;
        let name = |f: &CellFigures<'_>| run.manifest.configs[f.key].id.as_str();
        let outcome = |f: &'a CellFigures<'a>| {
            let (value, beyond, shown) = judged(judge, f)?;
            let kept = match f.reference {
                true => 1.0,
                false => f.more?.comparison.ratio?.mean,
            };
            Some(JudgedConfig { of: f, name: name(f), kept, value, beyond, shown, frontier: false })
        };
        let less = match judge {
            Judge::Latency | Judge::Startup => true,
            Judge::Share | Judge::Throughput => false,
            Judge::Count => {
                let counted = all.iter().find_map(|f| f.counted);
                counted.is_some_and(|c| c.doc.better == Better::Lower)
            }
        };
        let mut field = JudgedGroup {
            judge,
            less,
            reference: name(first),
            all: all.iter().filter_map(outcome).collect(),
        };
        let frontier: Vec<bool> =
            (0..field.all.len()).map(|i| !field.all.iter().any(|o| field.beats(o, i))).collect();
        field.all.iter_mut().zip(frontier).for_each(|(o, f)| o.frontier = f);
        Some(field)
    }

    /// `a` is better than the `b`th in one and no worse in the other, both beyond 3 %. Of what is only known to wait
    /// longer than some time, nothing is known to be no worse than another.
    fn beats(&self, a: &JudgedConfig<'_>, b: usize) -> bool {
        let b = &self.all[b];
        let (qa, qb) = (self.quality(a), self.quality(b));
        let no_worse = |a: f64, b: f64| a * (1.0 + SAME_WITHIN) >= b;
        let better = |a: f64, b: f64| a > b * (1.0 + SAME_WITHIN);
        !a.beyond
            && no_worse(qa, qb)
            && no_worse(a.kept, b.kept)
            && (better(qa, qb) || better(a.kept, b.kept))
    }

    /// More is better; at most this of what is a bound.
    fn quality(&self, o: &JudgedConfig<'_>) -> f64 {
        match self.judge {
            Judge::Latency | Judge::Startup => 1.0 / o.value.max(1.0),
            Judge::Share | Judge::Throughput => o.value,
            // One thing lost in a hundred times the measured time is none.
            Judge::Count if self.less => 1.0 / o.value.max(0.01),
            Judge::Count => o.value,
        }
    }

    /// Of what the others moved under the reference; where a target's latency is judged. The target's own
    /// bytes are part of the total: a reader that is served at last can hide what the others lost.
    fn others_kept(&self, o: &JudgedConfig<'_>) -> Option<f64> {
        let kept = o.of.others_more?.comparison.ratio?.mean;
        (self.judge == Judge::Latency).then_some(kept)
    }

    fn reference(&self) -> Option<&JudgedConfig<'a>> {
        self.all.iter().find(|o| o.of.reference)
    }

    /// Known to be better than the reference: beyond the spread of the repetitions and 3 %. Where the reference has no
    /// value everything that has one is.
    fn gains(&self, o: &JudgedConfig<'_>) -> bool {
        let known = self.reference().is_none() && !o.beyond;
        !o.of.reference && (known || o.of.judged.is_some_and(|j| j.is_better()))
    }

    /// The configuration that is best in what is judged, if it gains anything. Under `throughput` that is
    /// the one that moves most.
    pub(super) fn best(&self) -> Option<&JudgedConfig<'a>> {
        if self.judge == Judge::Throughput {
            let gaining = self.all.iter().filter(|o| o.of.more.is_some_and(|m| m.is_better()));
            return gaining.max_by(|a, b| a.kept.total_cmp(&b.kept));
        }
        let gaining = self.all.iter().filter(|o| self.gains(o));
        gaining.max_by(|a, b| self.quality(a).total_cmp(&self.quality(b)))
    }

    /// The best of those that keep [`MOST`] of the throughput, where the best of all does not.
    pub(super) fn compromise(&self) -> Option<&JudgedConfig<'a>> {
        if self.judge == Judge::Throughput || self.best()?.kept >= MOST {
            return None;
        }
        let cheap = self.all.iter().filter(|o| o.kept >= MOST && self.gains(o));
        cheap.max_by(|a, b| self.quality(a).total_cmp(&self.quality(b)))
    }

    /// Names of those that lose control.
    fn lost(&self) -> Vec<&'a str> {
        let lost =
            |o: &&JudgedConfig<'_>| o.of.flags.iter().any(|f| f.starts_with(LOSS_OF_CONTROL));
        self.all.iter().filter(lost).map(|o| o.name).collect()
    }

    /// How many times better than the reference; of the throughput, where that is judged.
    fn times(&self, o: &JudgedConfig<'_>) -> Option<Ratio> {
        let gain = if self.judge == Judge::Throughput { o.of.more } else { o.of.judged }?.gain()?;
        gain.mean.is_finite().then_some(gain)
    }
}

/// So near is the same.
const ALL: f64 = 0.005;

/// Who keeps this part of the throughput keeps most of it.
const MOST: f64 = 0.8;

/// Value, whether it is a lower bound, and its text.
fn judged(judge: Judge, f: &CellFigures<'_>) -> Option<(f64, bool, String)> {
    match judge {
        Judge::Latency => {
            f.wait().map(|wait| (wait.value, wait.bound != Bound::Exact, bounded(wait, duration)))
        }
        Judge::Startup => startup::point(f),
        Judge::Count => f.counted.map(|c| (c.number.mean, false, c.text())),
        Judge::Share => f.worst_served.map(|s| (s.mean, false, percent(s.mean))),
        Judge::Throughput => f.jain.map(|j| (j.mean, false, number(j.mean))),
    }
}

/// `6 %`, `0.3 %`; nothing at all is `0 %`.
pub(super) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        0.0 => "0 %".into(),
        p if p < 0.1 => "<0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// `keeps 6 % of the throughput`, as a clause with the number marked.
fn keeps(kept: f64, bold: &dyn Fn(String) -> String) -> String {
    match kept {
        k if (k - 1.0).abs() < ALL => format!("keeps {} of the throughput", bold("all".into())),
        k if k < 1.0 => format!("keeps {} of the throughput", bold(percent(k))),
        k => format!("brings {} of the throughput", bold(percent(k))),
    }
}

/// Drive without its parenthesis, and the workload.
fn place(judge: Judge, drive: &DriveInfo, workload: &WorkloadInfo) -> String {
    let drive = drive.name.split(" (").next().unwrap_or(&drive.name);
    let preposition = if judge == Judge::Latency { "beside" } else { "with" };
    format!("On {drive} {preposition} {}", workload.id)
}

/// BFQ raises the weight of what has just started, and a target has just started: windows that end before that does show
/// nothing else, and a verdict that names it is about those first seconds.
pub fn raising(run: &Run) -> Option<String> {
    let same = |a: &Cell, b: &Cell| (&a.drive, &a.workload) == (&b.drive, &b.workload);
    let judge =
        |cell: &Cell| Judge::of(&run.manifest, run.cells.iter().filter(|other| same(other, cell)));
    // A target that is not set apart, by class or by group.
    let raises =
        |cell: &&Cell| Config::parse(&cell.config).is_ok_and(|c| c.raises() && c.policy.is_none());
    let judged = run.cells.iter().filter(|cell| judge(cell) == Judge::Latency);
    let windows = judged.filter(raises).flat_map(|cell| cell.reps.iter().map(|rep| rep.measured));
    let window = windows.min().filter(|&window| window < RAISING)?;
    Some(format!(
        "bfq raises what has just started, for up to {} s: the measured {} s show little else; --duration 60s has what \
         follows",
        RAISING.0 / 1_000_000_000,
        number_text(window.0 as f64 / 1e9),
    ))
}

/// The verdict in words. Marked up for the page (`html`) or as Markdown.
pub(super) fn words(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
    html: bool,
) -> String {
    let text = |t: &str| if html { esc(t) } else { t.to_string() };
    let bold = |t: String| match html {
        // A value stays on the line of its unit.
        true => format!("<b>{}</b>", esc(&t).replace(' ', "\u{a0}")),
        false => format!("**{t}**"),
    };
    let judge = all.first().map_or(Judge::Latency, |f| f.judge);
    let place = text(&place(judge, drive, workload));
    let Some(field) = JudgedGroup::of(run, all) else {
        return format!(
            "{place}: nothing to compare with, the reference is missing or moved nothing."
        );
    };
    if judge == Judge::Throughput {
        let what = throughput::headline(run, all, html).replacen("The device", "the device", 1);
        return format!("{place}, {what}");
    }
    let Some(first) = field.reference() else {
        let what = match judge {
            Judge::Startup => "no start was finished",
            Judge::Count => "nothing was counted",
            _ => "the target completed no I/O",
        };
        return format!("{place}, {what} under {}.", text(field.reference));
    };
    let (value, reference) = (bold(first.shown.clone()), text(first.name));
    if all.len() == 1 {
        let rate = text(&AxisUnit::Rate.value(first.of.moved.map_or(0.0, |s| s.mean)));
        return match judge {
            Judge::Share => format!(
                "{place}, {reference} leaves nobody below {value} of its part, at {rate} in all; nothing to compare with."
            ),
            Judge::Latency => format!(
                "{place}, {reference} serves the target in {value} at {rate} in all; nothing to compare with."
            ),
            _ => format!(
                "{place}, {reference} gives {value} at {rate} in all; nothing to compare with."
            ),
        };
    }
    let lost = field.lost();
    let lost = match lost.len() {
        0 => String::new(),
        n if n > NAMED => format!(" Loss of control: {n} of {} configurations.", all.len()),
        _ => format!(" Loss of control: {}.", text(&lost.join(", "))),
    };
    let Some(best) = field.best() else {
        let what = match judge {
            Judge::Share => format!("nobody falls below {value} of its part under {reference}"),
            Judge::Startup => format!("a start takes {value} under {reference}"),
            Judge::Count => format!("{reference} gives {value}"),
            _ => format!("the target waits {value} under {reference}"),
        };
        let open = |o: &JudgedConfig<'_>| {
            o.of.judged.is_some_and(|j| j.comparison.finding == Finding::Unknown)
        };
        let none = match field.all.iter().any(open) {
            true => {
                "no configuration is known to do better: of what was cut off only a bound is known"
            }
            false => "no configuration does better beyond the spread of the repetitions",
        };
        return format!("{place}, {what}; {none}.{lost}");
    };
    let gives = |o: &JudgedConfig<'_>| match judge {
        Judge::Share => format!("leaves nobody below {} of its part", bold(o.shown.clone())),
        Judge::Latency => format!("serves the target in {}", bold(o.shown.clone())),
        Judge::Startup => format!("lets a start take {}", bold(o.shown.clone())),
        _ => format!("gives {}", bold(o.shown.clone())),
    };
    let others = |o: &JudgedConfig<'_>| match field.others_kept(o) {
        Some(part) if percent(part) != percent(o.kept) => {
            format!(" (the other processes {})", text(&percent(part)))
        }
        _ => String::new(),
    };
    let start = format!(
        "{place}, {} {} (instead of {} under {reference}) and {}",
        bold(best.name.into()),
        gives(best),
        text(&first.shown),
        keeps(best.kept, &bold)
    ) + &others(best);
    let other = field.compromise().map_or_else(String::new, |o| {
        format!(
            "; {} {} and {}",
            bold(o.name.into()),
            gives(o),
            keeps(o.kept, &bold).replace(" of the throughput", "")
        ) + &others(o)
    });
    format!("{start}{other}.{lost}")
}

/// The plot of one drive and workload.
pub(super) fn chart(
    run: &Run,
    id: &str,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> Option<Chart> {
    let field = JudgedGroup::of(run, all)?;
    let names = short_names(&field.all.iter().map(|o| o.name).collect::<Vec<_>>());
    let reference = field.all.iter().zip(&names).find(|(o, _)| o.of.reference).map(|(_, n)| n);
    let kept = reference.map_or_else(
        || "throughput kept".to_string(),
        |name| format!("throughput kept, of {name}’s"),
    );
    let point = |(o, label): (&JudgedConfig<'_>, String)| TradeoffPoint {
        key: o.of.key,
        tip: format!(
            "{} {}: {}, {} of the throughput{}",
            letter(o.of.key),
            o.name,
            o.shown,
            percent(o.kept),
            if o.frontier { ", on the frontier" } else { "" }
        ),
        label,
        kept: o.kept,
        value: o.value,
        beyond: o.beyond,
        frontier: o.frontier,
    };
    let points: Vec<TradeoffPoint> = field.all.iter().zip(names).map(point).collect();
    if points.is_empty() {
        return None;
    }
    let counted = all.iter().find_map(|f| f.counted);
    let counted = counted.map_or_else(String::new, |c| counts::words(c.doc));
    let (value, unit) = match field.judge {
        Judge::Latency => ("mean latency of the target", AxisUnit::Time),
        Judge::Startup => ("start-up time", AxisUnit::Time),
        Judge::Count => (counted.as_str(), AxisUnit::Number),
        Judge::Share => ("what the worst served has of its part", AxisUnit::Share),
        Judge::Throughput => ("Jain’s index of the processes", AxisUnit::Share),
    };
    let axes = Axes { kept: &kept, value, unit, less: field.less };
    let title = format!("Trade-off: {}, {}", drive.name, workload.id);
    let svg = tradeoff(&format!("{id}v"), &title, &axes, &points);
    let note =
        "filled: nothing else is better in one and no worse in the other; the line is the frontier";
    Some(Chart::new("trade-off", "Trade-off", note, svg))
}

/// The section at the top of the report: the verdicts as a picture, in words, and as plots.
pub(super) fn section(run: &Run, keep: Keep<'_>) -> String {
    let mut out = String::from("<section id=\"verdict\">\n<h2>Verdict</h2>\n");
    let has = |drive: &DriveInfo, workload: &WorkloadInfo| {
        run.cells.iter().any(|c| c.drive == drive.id && c.workload == workload.id)
    };
    let each = run.manifest.drives.iter().enumerate().flat_map(|(n, drive)| {
        run.manifest.workloads.iter().enumerate().map(move |(w, workload)| (n, drive, w, workload))
    });
    let shown: Vec<_> = each.filter(|(_, drive, _, workload)| has(drive, workload)).collect();
    if shown.len() > 1 {
        let chart = glance(run);
        out.push_str("<div class=\"work glance\">\n");
        out.push_str(&section::figure(&chart));
        out.push_str("</div>\n");
        keep("all", chart);
    }
    out.push_str("<div class=\"verdicts\">\n");
    for (n, drive, w, workload) in shown {
        let all = CellFigures::of(run, &drive.id, &workload.id);
        let id = format!("d{n}w{w}");
        let words = words(run, drive, workload, &all, true);
        out.push_str(&format!(
            "<div class=\"work verdict\">\n<h3><a href=\"#{id}\">{}, {}</a></h3>\n<p class=\"say\">{words}</p>\n",
            esc(&drive.name),
            esc(&workload.id)
        ));
        if let Some(chart) = chart(run, &id, drive, workload, &all) {
            out.push_str(&section::figure(&chart));
            keep(&format!("{}.{}", drive.id, workload.id), chart);
        }
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n</section>\n");
    out
}

/// Drives by workloads.
fn glance(run: &Run) -> Chart {
    let m = &run.manifest;
    let short = |d: &DriveInfo| d.name.split(" (").next().unwrap_or(&d.name).to_string();
    let cell = |n: usize, w: usize| {
        let all = CellFigures::of(run, &m.drives[n].id, &m.workloads[w].id);
        let field = JudgedGroup::of(run, &all)?;
        Some(matrix_cell(&field, &m.drives[n], &m.workloads[w], format!("d{n}w{w}")))
    };
    let workloads = || m.workloads.iter().enumerate();
    let all = match m.drives.as_slice() {
        // One row of workloads rather than one column.
        [drive] => Matrix {
            columns: m.workloads.iter().map(|w| w.id.clone()).collect(),
            rows: vec![(short(drive), workloads().map(|(w, _)| cell(0, w)).collect())],
        },
        drives => Matrix {
            columns: drives.iter().map(short).collect(),
            rows: workloads()
                .map(|(w, l)| (l.id.clone(), (0..drives.len()).map(|n| cell(n, w)).collect()))
                .collect(),
        },
    };
    let svg =
        matrix("glance-v", "At a glance: the best configuration per drive and workload", &all);
    let note = "the best configuration by what is judged; how many times better than the reference (the darker, \
                the more); the throughput it keeps (bar); last, its value, or the best one that keeps 80 % of the throughput";
    Chart::new("at-a-glance", "At a glance", note, svg)
}

fn matrix_cell(
    field: &JudgedGroup<'_>,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    link: String,
) -> MatrixCell {
    let place = place(field.judge, drive, workload);
    let Some(best) = field.best() else {
        let moved = |f: &JudgedConfig<'_>| AxisUnit::Rate.value(f.of.moved.map_or(0.0, |s| s.mean));
        let shown = field.reference().map_or("–".into(), |f| match field.judge {
            Judge::Throughput => moved(f),
            _ => f.shown.clone(),
        });
        return MatrixCell {
            winner: None,
            strength: 0,
            lines: [format!("{}: {shown}", field.reference), String::new()],
            kept: None,
            tip: format!("{place}: no configuration is better than {} ({shown})", field.reference),
            link,
        };
    };
    let times = field.times(best);
    let strength = match times {
        // From nothing, or from starts that never ended.
        None => 4,
        Some(t) => [1.5, 3.0, 10.0].iter().filter(|&&limit| t.mean >= limit).count() + 1,
    };
    let gained = |o: &JudgedConfig<'_>| match field.times(o) {
        Some(t) => section::times_text(&t),
        None => o.shown.clone(),
    };
    let keeps = |o: &JudgedConfig<'_>| match (o.kept - 1.0).abs() < ALL {
        true => format!("{}, keeps all", gained(o)),
        false => format!("{}, keeps {}", gained(o), percent(o.kept)),
    };
    let lines = match (field.judge, field.compromise()) {
        (Judge::Throughput, _) => {
            [format!("{} throughput", gained(best)), format!("Jain {}", best.shown)]
        }
        (_, Some(other)) => [keeps(best), format!("{}: {}", other.name, gained(other))],
        (Judge::Share, None) => [keeps(best), format!("worst served {}", best.shown)],
        (_, None) if times.is_none() => {
            let from = field.reference().map_or("–", |f| f.shown.as_str());
            [keeps(best), format!("of {from}")]
        }
        (_, None) => [keeps(best), best.shown.clone()],
    };
    let tip = format!(
        "{place}: {} gives {}, {} of the throughput",
        best.name,
        best.shown,
        percent(best.kept)
    );
    let winner = Some((best.of.key, best.name.to_string()));
    MatrixCell { winner, strength, lines, kept: Some(best.kept), tip, link }
}

/// Names for a plot: of long ones of the same scheduler, only the tunables in which they differ.
fn short_names(names: &[&str]) -> Vec<String> {
    fn parts(name: &str) -> (&str, Vec<&str>) {
        match name.split_once('{') {
            Some((base, rest)) => (base, rest.trim_end_matches('}').split(',').collect()),
            None => (name, Vec::new()),
        }
    }
    let short = |name: &&str| {
        let (base, own) = parts(name);
        if name.chars().count() <= SHORT || own.is_empty() {
            return name.to_string();
        }
        let same: Vec<Vec<&str>> =
            names.iter().map(|n| parts(n)).filter(|(b, _)| *b == base).map(|(_, p)| p).collect();
        let common = |p: &&str| same.len() > 1 && same.iter().all(|o| o.contains(p));
        let rest: Vec<&str> = own.iter().copied().filter(|p| !common(p)).collect();
        match rest.len() {
            0 => base.to_string(),
            _ => format!("{{{}}}", rest.join(",")),
        }
    };
    names.iter().map(short).collect()
}

/// More lost configurations than this are counted, not named.
const NAMED: usize = 4;
/// Names up to this length stay whole.
const SHORT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_what_tells_them_apart() {
        let names = [
            "cfq",
            "deadline-zoccolo{preset=original}",
            "deadline-zoccolo{preset=original,classify=sync}",
            "bfq{nr_requests=128}",
            "mq-deadline{fifo_batch=8,read_expire=250 ms}",
        ];
        let short = short_names(&names);
        let wanted = ["cfq", "deadline-zoccolo", "{classify=sync}", "bfq{nr_requests=128}"];
        assert_eq!(short[..4], wanted);
        assert_eq!(short[4], "{fifo_batch=8,read_expire=250 ms}");
    }

    #[test]
    fn parts_of_a_whole_are_told_as_finely_as_they_matter() {
        let of = |v| percent(v);
        assert_eq!(
            [of(0.0), of(0.0004), of(0.064), of(0.94), of(1.83)],
            ["0 %", "<0.1 %", "6.4 %", "94 %", "183 %"]
        );
    }
}
