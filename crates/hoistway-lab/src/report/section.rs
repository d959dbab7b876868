//! The section of one drive: verdict, charts, tables; what the kinds of judging have in common.

use super::figures::{Beside, CellFigures, bounded};
use super::svg::{PALETTE, Svg, dash, esc, letter, number, plus_minus};
use super::{count, latency, monitor, share, startup, target, throughput, verdict};
use crate::experiment::Source;
use crate::result::{
    Cell, DriveInfo, Judge, Metric, Run, Spread, WorkloadInfo, published as beside,
};
use crate::stats::{Bound, Finding, Ratio};
use std::fmt::Write;

/// A drawing with what stands above it.
pub(super) struct Chart {
    /// Name of its file when it is saved.
    pub(super) slug: String,
    pub(super) title: String,
    /// Markup of this crate.
    pub(super) note: String,
    pub(super) svg: String,
}

impl Chart {
    pub(super) fn new(slug: &str, title: &str, note: &str, svg: String) -> Chart {
        Chart { slug: slug.into(), title: title.into(), note: note.into(), svg }
    }
}

/// What is done with a chart once it is in the page; first the name of what it belongs to.
pub(super) type Keep<'a> = &'a mut dyn FnMut(&str, Chart);

/// Everything about the `n`th drive.
pub(super) fn drive(run: &Run, n: usize, drive: &DriveInfo, out: &mut String, keep: Keep<'_>) {
    let _ = writeln!(out, "<section id=\"d{n}\">\n<h2>{}</h2>", esc(&drive.name));
    let _ = writeln!(
        out,
        "<p class=\"mute\"><code>{}</code>, model {}</p>",
        esc(&drive.id),
        esc(&drive.model)
    );
    for (w, workload) in run.manifest.workloads.iter().enumerate() {
        let all = CellFigures::of(run, &drive.id, &workload.id);
        let Some(judge) = all.first().map(|f| f.judge) else { continue };
        let id = format!("d{n}w{w}");
        let name = format!("{}.{}", drive.id, workload.id);
        let _ = writeln!(
            out,
            "<div class=\"work\" id=\"{id}\">\n<h3>{}</h3>\n<p class=\"mute\">{}</p>\n\
             <p class=\"head\">{}</p>",
            esc(&workload.id),
            esc(&workload.summary),
            verdict::words(run, drive, workload, &all, true)
        );
        out.push_str(&legend(run, &all));
        let (drawn, table) = match judge {
            Judge::Latency => (latency::charts as Charts, latency::table as MakeTable),
            Judge::Share => (share::charts as Charts, share::table as MakeTable),
            Judge::Throughput => (throughput::charts as Charts, throughput::table as MakeTable),
            Judge::Startup => (startup::charts as Charts, startup::table as MakeTable),
            Judge::Count => (count::charts as Charts, count::table as MakeTable),
        };
        let drawn = drawn(run, &id, drive, workload, &all);
        out.push_str("<div class=\"charts\">\n");
        drawn.iter().for_each(|chart| out.push_str(&figure(chart)));
        out.push_str("</div>\n");
        drawn.into_iter().for_each(|chart| keep(&name, chart));
        out.push_str(&table(run, drive, workload, &all));
        let title = format!("{}, {}: latency targets", drive.name, workload.id);
        out.push_str(&target::table(run, &title, &all));
        out.push_str(&published(run, drive, workload, &all));
        let (text, drawn) = monitor::section(run, &id, &all);
        out.push_str(&text);
        drawn.into_iter().for_each(|chart| keep(&name, chart));
        out.push_str("</div>\n");
    }
    out.push_str("</section>\n");
}

/// What a judge draws, and its table.
type Charts = fn(&Run, &str, &DriveInfo, &WorkloadInfo, &[CellFigures<'_>]) -> Vec<Chart>;
type MakeTable = fn(&Run, &DriveInfo, &WorkloadInfo, &[CellFigures<'_>]) -> String;

/// The chart in the page. The script adds what saves it.
pub(super) fn figure(chart: &Chart) -> String {
    format!(
        "<figure data-name=\"{}\"><figcaption><h4>{}</h4><span>{}</span></figcaption>{}</figure>\n",
        esc(&chart.slug),
        esc(&chart.title),
        chart.note,
        chart.svg
    )
}

fn legend(run: &Run, all: &[CellFigures<'_>]) -> String {
    let mut out = String::from("<ul class=\"legend\" aria-label=\"Configurations\">");
    for f in all {
        let config = &run.manifest.configs[f.key];
        let mut badge = Svg { out: String::new() };
        badge.badge(f.key, 23.0, 9.0);
        let _ = write!(
            out,
            "<li class=\"k k{}\" data-k=\"{}\" title=\"{}\"><svg viewBox=\"0 0 46 18\" \
             aria-hidden=\"true\"><path class=\"line {}\" d=\"M0 9H46\"/>{}</svg>{}</li>",
            f.key % PALETTE,
            f.key,
            esc(&config.summary),
            dash(f.key),
            badge.out,
            esc(&config.id)
        );
    }
    out.push_str("</ul>\n");
    out
}

/// A table with a row per configuration, and the flags below it.
pub(super) fn rows_and_flags(
    run: &Run,
    title: &str,
    over: &str,
    heads: &[&str],
    all: &[CellFigures<'_>],
    cells: impl Fn(&CellFigures<'_>) -> Vec<String>,
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

/// How many times better than the reference the configuration is, as far as the repetitions tell: `same` for no
/// difference, a question mark where they do not, a dash where nothing is known.
pub(super) fn gain_text(beside: Option<Beside>) -> Option<String> {
    let beside = beside?;
    let doubt = match beside.comparison.finding {
        Finding::Same => return Some("same".into()),
        Finding::Unsure | Finding::Unknown => "?",
        Finding::Less | Finding::More => "",
    };
    Some(match beside.gain() {
        Some(gain) => format!("{}{doubt}", times_text(&gain)),
        None if beside.is_better() => "better".into(),
        None if beside.differs() => "worse".into(),
        None if beside.comparison.finding == Finding::Unsure => doubt.into(),
        None => dash_cell(),
    })
}

/// `1.21 ×`, `> 3 ×`.
pub(super) fn times_text(gain: &Ratio) -> String {
    let text = |mean: f64| if mean.is_finite() { number(mean) } else { "∞".into() };
    format!("{} ×", bounded(gain.bounded(), text))
}

pub(super) fn mean_cell(s: Option<Spread>, scale: f64) -> String {
    let Some(s) = s else { return dash_cell() };
    let (mean, half) = plus_minus(s.mean / scale, s.half_width.unwrap_or(0.0) / scale);
    if s.half_width.is_none() { mean } else { format!("{mean} <small>± {}</small>", esc(&half)) }
}

pub(super) fn dash_cell() -> String {
    "–".into()
}

/// Published values for a cell.
pub(super) fn references<'a>(run: &'a Run, cell: &'a Cell) -> impl Iterator<Item = &'a Metric> {
    let published =
        move |m: &&Metric| m.source != run.manifest.world && m.workload == cell.workload;
    run.totals_of(cell).filter(published)
}

fn published(
    run: &Run,
    drive: &DriveInfo,
    workload: &WorkloadInfo,
    all: &[CellFigures<'_>],
) -> String {
    let mut rows = String::new();
    for f in all {
        let config = &run.manifest.configs[f.key].id;
        for m in references(run, f.cell) {
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
                esc(m.unit),
                beside::bound_of(m).map_or_else(|| show(m.value), |b| format!("&gt;{}", number(b))),
                show(ours),
                show(ratio),
                esc(Source::of_file(&m.source).map_or(&m.source, |document| document.title))
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
fn ours(run: &Run, m: &Metric, f: &CellFigures<'_>) -> Option<f64> {
    let derived = run.totals_of(f.cell).find(|o| {
        o.source == run.manifest.world
            && o.rep.is_none()
            && (&o.workload, &o.metric, &o.unit) == (&m.workload, &m.metric, &m.unit)
    });
    // A bound is no value to compare.
    if derived.is_some_and(|o| o.bound != Bound::Exact) {
        return None;
    }
    let mean = |s: Option<Spread>| s.map(|s| s.mean);
    derived.and_then(|o| o.value).or_else(|| match (&*m.metric, m.unit) {
        ("latency_avg", "ms") => mean(f.latency).map(|ns| ns / 1e6),
        ("throughput_total", "MB/s") => mean(f.moved),
        ("throughput_target", "MB/s") => mean(f.target),
        ("throughput_interferers", "MB/s") => mean(f.others),
        _ => None,
    })
}
