//! The section of one drive: headline, charts, tables.

use super::chart::{Bar, Line, Panel, Stack, bars, ecdf, panels, stacks};
use super::figures::{Figures, Gain};
use super::monitor;
use super::svg::{PALETTE, Unit, dash, duration, esc, letter, number, plus_minus};
use super::{startup, throughput};
use crate::result::{DriveInfo, Metric, Run, Spread, WorkloadInfo, published as beside};
use crate::stats::Bound;
use hoistway_sim::world::Role;
use std::fmt::Write;

/// Everything about the `n`th drive.
pub(super) fn drive(run: &Run, n: usize, drive: &DriveInfo) -> String {
    let mut out = format!("<section id=\"d{n}\">\n<h2>{}</h2>\n", esc(&drive.name));
    let _ = writeln!(
        out,
        "<p class=\"mute\"><code>{}</code>, model {}</p>",
        esc(&drive.id),
        esc(&drive.model)
    );
    for (w, workload) in run.manifest.workloads.iter().enumerate() {
        let all = Figures::of(run, &drive.id, &workload.id);
        if all.is_empty() {
            continue;
        }
        let id = format!("d{n}w{w}");
        let _ = writeln!(out, "<div class=\"work\" id=\"{id}\">");
        let _ = writeln!(
            out,
            "<h3>{}</h3>\n<p class=\"mute\">{}</p>\n<p class=\"head\">{}</p>",
            esc(&workload.id),
            esc(&workload.summary),
            headline(run, &all, true)
        );
        out.push_str(&legend(run, &all));
        if startup::starting(&all) {
            out.push_str(&startup::charts(run, &id, drive, workload, &all));
            out.push_str(&startup::table(run, drive, workload, &all));
        } else if free(&all) {
            out.push_str(&throughput::charts(run, &id, drive, workload, &all));
            out.push_str(&throughput::table(run, drive, workload, &all));
        } else {
            out.push_str(&charts(run, &id, drive, workload, &all));
            out.push_str(&table(run, drive, workload, &all));
        }
        out.push_str(&published(run, drive, workload, &all));
        out.push_str(&monitor::section(run, &id, &all));
        out.push_str("</div>\n");
    }
    out.push_str("</section>\n");
    out
}

/// Nobody is the target: measured is what all move together.
pub(super) fn free(all: &[Figures<'_>]) -> bool {
    all.iter().all(|f| !f.targeted)
}

/// One sentence from the data. Marked up for the page, plain otherwise.
pub(super) fn headline(run: &Run, all: &[Figures<'_>], html: bool) -> String {
    if startup::starting(all) {
        return startup::headline(run, all, html);
    }
    if free(all) {
        return throughput::headline(run, all, html);
    }
    let name = |f: &Figures<'_>| {
        let id = &run.manifest.configs[f.key].id;
        if html { esc(id) } else { id.clone() }
    };
    let bold = |text: String| if html { format!("<b>{text}</b>") } else { format!("**{text}**") };
    let waits = |f: &Figures<'_>| {
        let time = |l: Spread| format!("{}{}", f.longer(), duration(l.mean));
        let text = f.latency.map(time).map(|t| if html { esc(&t) } else { t });
        text.map(bold)
    };
    let Some((reference, wait)) = all.first().and_then(|f| Some((f, waits(f)?))) else {
        return "The target completed no I/O under the reference configuration.".into();
    };
    let mean = |f: &Figures<'_>| f.latency.map_or(f64::INFINITY, |l| l.mean);
    let best =
        all[1..].iter().filter(|f| f.latency.is_some()).min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let Some((best, other)) = best.and_then(|b| Some((b, waits(b)?))) else {
        return format!("The target waits {wait} on average under {}.", name(reference));
    };
    let start =
        format!("The target waits {wait} under {}, {other} under {}", name(reference), name(best));
    match best.gain {
        Some(Gain { differs: Some(false), .. }) | None => {
            let same = "no difference beyond the spread of the repetitions";
            let differs =
                |f: &&Figures<'_>| matches!(f.gain, Some(Gain { differs: Some(true), .. }));
            let longest =
                all[1..].iter().filter(differs).max_by(|a, b| mean(a).total_cmp(&mean(b)));
            match longest.and_then(|f| Some((f, waits(f)?))) {
                Some((f, wait)) => format!("{start}: {same}. Longest is {wait} under {}.", name(f)),
                None => format!("{start}: {same}."),
            }
        }
        Some(gain) => {
            let times = if gain.factor >= 1.0 {
                bold(format!("{} less", times(gain.factor)))
            } else {
                format!("{} more (and no other configuration waits less)", times(1.0 / gain.factor))
            };
            format!("{start}: {times}, {}.", price(reference.total, best.total))
        }
    }
}

fn times(factor: f64) -> String {
    if factor >= 1.95 {
        let digits = usize::from(factor < 9.95);
        format!("{factor:.digits$} times")
    } else {
        format!("{} %", number((1.0 - 1.0 / factor) * 100.0))
    }
}

/// What it costs in total throughput.
fn price(reference: Option<Spread>, this: Option<Spread>) -> String {
    match (reference, this) {
        (Some(a), Some(b)) if a.mean > 0.0 => {
            let lost = (1.0 - b.mean / a.mean) * 100.0;
            match lost.abs() {
                s if s < 0.5 => "at the same total throughput".into(),
                s if lost > 0.0 => format!("for {s:.0} % of the total throughput"),
                s => format!("with {s:.0} % more total throughput"),
            }
        }
        _ => "throughput unknown".into(),
    }
}

fn legend(run: &Run, all: &[Figures<'_>]) -> String {
    let mut out = String::from("<ul class=\"legend\" aria-label=\"Configurations\">");
    for f in all {
        let config = &run.manifest.configs[f.key];
        let _ = write!(
            out,
            "<li class=\"k k{}\" data-k=\"{}\" title=\"{}\"><svg viewBox=\"0 0 46 18\" \
             aria-hidden=\"true\"><path class=\"line {}\" d=\"M0 9H46\"/>\
             <circle class=\"badge\" cx=\"23\" cy=\"9\" r=\"7\"/>\
             <text class=\"letter\" x=\"23\" y=\"12.2\">{}</text></svg>{}</li>",
            f.key % PALETTE,
            f.key,
            esc(&config.summary),
            dash(f.key),
            letter(f.key),
            esc(&config.id)
        );
    }
    out.push_str("</ul>\n");
    out
}

fn charts(
    run: &Run,
    id: &str,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[Figures<'_>],
) -> String {
    let name = |f: &Figures<'_>| run.manifest.configs[f.key].id.clone();
    let rows: Vec<Bar> = all
        .iter()
        .map(|f| Bar {
            key: f.key,
            label: name(f),
            value: f.latency,
            published: references(run, drive, workload, &name(f))
                .find(|m| m.metric == "latency_avg" && m.unit == "ms")
                .and_then(|m| m.value)
                .map(|ms| ms * 1e6),
        })
        .collect();
    let marked = rows.iter().any(|r| r.published.is_some());
    let of = format!("{}, {}", drive.name, workload.id);
    let mut out = String::from("<div class=\"charts\">\n");
    let note = match (run.manifest.reps, marked) {
        (0..=2, false) => "mean; no interval below three repetitions",
        (0..=2, true) => "mean; dashed stroke: published value",
        (_, false) => "mean and 99 % interval over repetitions",
        (_, true) => "mean and 99 % interval over repetitions; dashed stroke: published value",
    };
    let svg = bars(&format!("{id}a"), &format!("Latency of the target: {of}"), Unit::Time, &rows);
    figure(&mut out, "Latency of the target", note, &svg);

    let hists: Vec<_> = all.iter().map(|f| (f.key, name(f), &f.hist)).collect();
    let about = all
        .iter()
        .filter_map(|f| {
            Some(format!("{}: median {}", name(f), duration(f.hist.quantile(1, 2)? as f64)))
        })
        .collect::<Vec<_>>()
        .join("; ");
    let title = format!("Distribution of the target's latency: {of}");
    let svg = ecdf(&format!("{id}b"), &title, &about, &hists);
    figure(&mut out, "Distribution", "share of the target's I/Os done within a time", &svg);

    let rows: Vec<Stack> = all
        .iter()
        .map(|f| Stack {
            key: f.key,
            label: name(f),
            target: f.target.map_or(0.0, |s| s.mean),
            others: f.others.map_or(0.0, |s| s.mean),
        })
        .collect();
    let title = format!("Who gets the throughput: {of}");
    let svg = stacks(&format!("{id}c"), &title, ["target", "interferers"], &rows);
    let note = "<i class=\"swatch s-mine\"></i><em>target</em><i class=\"swatch s-rest\"></i>\
                <em>interferers</em>";
    figure(&mut out, "Who gets the throughput", note, &svg);

    let series = |role| {
        let line = |f: &Figures<'_>| Line { key: f.key, tip: name(f), points: f.series(role) };
        all.iter().map(line).filter(|l| l.points.len() > 1).collect::<Vec<_>>()
    };
    let panel = |name: &str, lines| Panel { name: name.into(), unit: "MB/s".into(), lines };
    let both = [panel("all processes", series(None)), panel("target", series(Some(Role::Target)))];
    if both.iter().all(|p| !p.lines.is_empty()) {
        let title = format!("Throughput over time: {of}");
        let about = "one line per configuration; the means are in the table";
        let svg = panels(&format!("{id}d"), &title, about, &both);
        figure(&mut out, "Throughput over time", "mean over repetitions per interval", &svg);
    }
    out.push_str("</div>\n");
    out
}

/// `note` is markup of this file.
pub(super) fn figure(out: &mut String, title: &str, note: &str, svg: &str) {
    let _ = writeln!(
        out,
        "<figure><figcaption><h4>{title}</h4><span>{note}</span></figcaption>{svg}</figure>"
    );
}

fn table(run: &Run, drive: &DriveInfo, workload: &WorkloadInfo, all: &[Figures<'_>]) -> String {
    let title = format!("{}, {}: every figure", drive.name, workload.id);
    let over = "<th></th><th scope=\"colgroup\" colspan=\"9\">latency of the target, ms</th>\
                <th></th><th scope=\"colgroup\" colspan=\"3\">throughput, MB/s</th>";
    rows_and_flags(run, &title, over, &HEADS, all, |f| cells(f).to_vec())
}

/// A table with a row per configuration, and the flags below it.
pub(super) fn rows_and_flags(
    run: &Run,
    title: &str,
    over: &str,
    heads: &[&str],
    all: &[Figures<'_>],
    cells: impl Fn(&Figures<'_>) -> Vec<String>,
) -> String {
    let mut out = open_table(title);
    let _ = write!(out, "<thead><tr class=\"over\">{over}</tr><tr>");
    for (i, head) in heads.iter().enumerate() {
        let class = if i == 0 { " class=\"l\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut flags: Vec<&str> = Vec::new();
    for f in all {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{} {}",
            letter(f.key),
            esc(&run.manifest.configs[f.key].id)
        );
        for flag in &f.flags {
            let at = flags.iter().position(|g| g == flag).unwrap_or_else(|| {
                flags.push(flag);
                flags.len() - 1
            });
            let _ = write!(out, "<sup>{}</sup>", at + 1);
        }
        out.push_str("</th>");
        for (i, cell) in cells(f).iter().enumerate() {
            let class = if i == 0 { " class=\"b\"" } else { "" };
            let _ = write!(out, "<td{class}>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if !flags.is_empty() {
        out.push_str("<ol class=\"flags\" aria-label=\"Flags\">");
        flags.iter().for_each(|flag| {
            let _ = write!(out, "<li>{}</li>", esc(flag));
        });
        out.push_str("</ol>\n");
    }
    out
}

/// Opens a table in a box of its own that scrolls and can be reached by keyboard.
pub(super) fn open_table(title: &str) -> String {
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><table>\
         <caption>{0}</caption>\n",
        esc(title)
    )
}

const HEADS: [&str; 14] = [
    "configuration",
    "mean",
    "shorter by",
    "sd",
    "p50",
    "p95",
    "p99",
    "p99.9",
    "max",
    "time-weighted",
    "I/Os",
    "all",
    "target",
    "interferers",
];

/// The columns after the name, as markup of this file and numbers.
fn cells(f: &Figures<'_>) -> [String; 13] {
    let ms = |ns: Option<f64>| ns.map_or_else(dash_cell, |v| number(v / 1e6));
    let p = |per_mille| ms(f.percentile(per_mille).map(|v| v as f64));
    [
        format!("{}{}", esc(f.longer()), mean_cell(f.latency, 1e6)),
        gain_text(f.gain).unwrap_or_else(dash_cell),
        ms(f.hist.sd()),
        p(500),
        p(950),
        p(990),
        p(999),
        f.longest.map_or_else(dash_cell, |(ns, cut)| {
            format!("{}{}", if cut { "≥ " } else { "" }, number(ns as f64 / 1e6))
        }),
        ms(f.time_weighted),
        number(f.hist.count() as f64).replace(".00", "").replace(".0", ""),
        mean_cell(f.total, 1.0),
        mean_cell(f.target, 1.0),
        mean_cell(f.others, 1.0),
    ]
}

/// How the configuration compares with the reference, in one word.
pub(super) fn gain_text(gain: Option<Gain>) -> Option<String> {
    gain.map(|g| match g.differs {
        Some(false) => "same".into(),
        _ => format!("{} ×", number(g.factor)),
    })
}

pub(super) fn mean_cell(s: Option<Spread>, scale: f64) -> String {
    let Some(s) = s else { return dash_cell() };
    let (mean, half) = plus_minus(s.mean / scale, s.half_width.unwrap_or(0.0) / scale);
    if s.half_width.is_none() { mean } else { format!("{mean} <small>± {half}</small>") }
}

pub(super) fn dash_cell() -> String {
    "–".into()
}

/// Published values for a cell.
pub(super) fn references<'a>(
    run: &'a Run,
    drive: &'a DriveInfo,
    workload: &'a WorkloadInfo,
    config: &'a str,
) -> impl Iterator<Item = &'a Metric> {
    run.metrics.iter().filter(move |m| {
        m.source != run.manifest.world
            && m.drive == drive.id
            && m.workload == workload.id
            && m.config == config
    })
}

fn published(run: &Run, drive: &DriveInfo, workload: &WorkloadInfo, all: &[Figures<'_>]) -> String {
    let mut rows = String::new();
    for f in all {
        let config = &run.manifest.configs[f.key].id;
        for m in references(run, drive, workload, config) {
            let ours = ours(run, m, f);
            let ratio = ours.zip(m.value).filter(|(_, v)| *v > 0.0).map(|(a, b)| a / b);
            let show = |v: Option<f64>| v.map_or_else(dash_cell, number);
            let _ = writeln!(
                rows,
                "<tr><th scope=\"row\">{} {}</th><td class=\"l\">{}, {}</td><td>{}</td>\
                 <td>{}</td><td>{}</td><td class=\"l\">{}</td></tr>",
                letter(f.key),
                esc(config),
                esc(&m.metric),
                esc(&m.unit),
                beside::bound_of(m).map_or_else(|| show(m.value), |b| format!("&gt;{}", number(b))),
                show(ours),
                show(ratio),
                esc(&m.source)
            );
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let title = format!("{}, {}: beside published values", drive.name, workload.id);
    let head = "<thead><tr><th scope=\"col\" class=\"l\">configuration</th>\
                <th scope=\"col\" class=\"l\">metric</th><th scope=\"col\">published</th>\
                <th scope=\"col\">here</th><th scope=\"col\">here / published</th>\
                <th scope=\"col\" class=\"l\">source</th></tr></thead>";
    format!("{}{head}\n<tbody>\n{rows}</tbody></table></div>\n", open_table(&title))
}

/// Our value of a published metric: the derived metric of the run, else the records.
fn ours(run: &Run, m: &Metric, f: &Figures<'_>) -> Option<f64> {
    let derived = run.metrics.iter().find(|o| {
        o.source == run.manifest.world
            && o.rep.is_none()
            && (&o.drive, &o.config, &o.workload, &o.metric, &o.unit)
                == (&m.drive, &m.config, &m.workload, &m.metric, &m.unit)
    });
    // A bound is no value to compare.
    if derived.is_some_and(|o| o.bound != Bound::Exact) {
        return None;
    }
    let mean = |s: Option<Spread>| s.map(|s| s.mean);
    derived.and_then(|o| o.value).or_else(|| match (m.metric.as_str(), m.unit.as_str()) {
        ("latency_avg", "ms") => mean(f.latency).map(|ns| ns / 1e6),
        ("throughput_total", "MB/s") => mean(f.total),
        ("throughput_target", "MB/s") => mean(f.target),
        ("throughput_interferers", "MB/s") => mean(f.others),
        _ => None,
    })
}
