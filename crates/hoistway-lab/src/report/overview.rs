//! One page over several experiments: per drive, what each configuration gives the target and what it
//! costs, with loss of control marked. The reports of the runs have everything else.

use super::figures::{CellFigures, Counted, bounded};
use super::section::{self, open_table};
use super::svg::{duration, esc, number};
use super::{html, share, startup, verdict};
use crate::result::startup::Startups;
use crate::result::{Judge, LOSS_OF_CONTROL, Run, Spread, counts};
use std::fmt::Write;

/// The page; with each run goes the address of its report, relative to the page.
pub fn render(runs: &[(&Run, String)]) -> String {
    let mut drives: Vec<(&str, &str)> = Vec::new();
    for drive in runs.iter().flat_map(|(run, _)| &run.manifest.drives) {
        if !drives.iter().any(|d| d.0 == drive.id) {
            drives.push((&drive.id, &drive.name));
        }
    }
    let mut out = html::head("Overview of several experiments");
    out.push_str("<main>\n<header id=\"top\">\n<h1>Overview</h1>\n<ul class=\"chips\">");
    for (run, address) in runs {
        let m = &run.manifest;
        let _ = write!(
            out,
            "<li><a href=\"{}\">{}</a>: {}</li>",
            esc(address),
            esc(&m.experiment),
            esc(&m.title)
        );
    }
    out.push_str("</ul>\n<p class=\"mute\">");
    out.push_str(READING);
    out.push_str("</p>\n</header>\n");
    for (n, (id, name)) in drives.iter().enumerate() {
        let _ = writeln!(out, "<section id=\"d{n}\">\n<h2>{}</h2>", esc(name));
        for (run, address) in runs {
            if run.manifest.drives.iter().any(|d| d.id == *id) {
                out.push_str(&table(run, address, id));
            }
        }
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

const READING: &str = "What each experiment judges by, the throughput of the target and that of the device, per \
configuration; a dash where no process is measured. <b>Lost</b>: loss of control, hardly better than without although \
another configuration is; the reports say of what.";

/// What is judged, and another figure beside it.
fn heads(judge: Judge) -> [&'static str; 2] {
    match judge {
        Judge::Latency => ["mean latency", "longest"],
        Judge::Share => ["target received", "worst served has"],
        Judge::Throughput => ["device MB/s", "Jain's index"],
        Judge::Startup => ["start-up time", "not finished"],
        Judge::Count => ["counted", "part"],
    }
}

fn judged(f: &CellFigures<'_>) -> [String; 2] {
    let dash = section::dash_cell;
    match f.judge {
        Judge::Latency => [
            f.wait().map_or_else(dash, |wait| bounded(wait, duration)),
            f.longest_text(duration).unwrap_or_else(dash),
        ],
        Judge::Share => {
            let [received, _, _, worst, _] = share::judged(f);
            [received, worst]
        }
        Judge::Throughput => [f.moved, f.jain].map(|s| s.map_or_else(dash, |s| number(s.mean))),
        Judge::Count => {
            let part = |c: Counted| c.share.map(|s| verdict::percent(s.mean));
            [
                f.counted.map_or_else(dash, |c| {
                    format!("{} {}", number(c.number.mean), counts::words(c.doc))
                }),
                f.counted.and_then(part).unwrap_or_else(dash),
            ]
        }
        Judge::Startup => {
            let given_up = |s: &Startups| match s.unfinished {
                0 => "0".into(),
                n => format!("{n} of {}", s.count),
            };
            let starts = f.starts.as_ref();
            [starts.map_or_else(dash, startup::time), starts.map_or_else(dash, given_up)]
        }
    }
}

/// One experiment on one drive: a row per workload and configuration.
fn table(run: &Run, address: &str, drive: &str) -> String {
    let m = &run.manifest;
    let mut out = format!(
        "<h3><a href=\"{}\">{}</a></h3>\n<p class=\"mute\">{}</p>\n",
        esc(address),
        esc(&m.experiment),
        esc(&m.title)
    );
    let all: Vec<_> = m.workloads.iter().map(|w| (w, CellFigures::of(run, drive, &w.id))).collect();
    let judge = all.iter().find_map(|(_, f)| f.first()).map_or(Judge::Latency, |f| f.judge);
    let [first, second] = heads(judge);
    out.push_str(&open_table(&format!("{} on {drive}", m.experiment)));
    let _ = writeln!(
        out,
        "<thead><tr><th scope=\"col\" class=\"l\">workload</th>\
         <th scope=\"col\" class=\"l\">configuration</th><th scope=\"col\">{first}</th>\
         <th scope=\"col\">{second}</th><th scope=\"col\">target MB/s</th>\
         <th scope=\"col\">device MB/s</th><th scope=\"col\" class=\"l\">control</th></tr></thead>\n<tbody>",
    );
    for (workload, figures) in &all {
        for f in figures {
            let rate = |s: Option<Spread>| s.map_or_else(section::dash_cell, |s| number(s.mean));
            let lost = f.flags.iter().find(|t| t.starts_with(LOSS_OF_CONTROL));
            let control = match lost {
                Some(text) => format!("<b title=\"{}\">lost</b>", esc(text)),
                None => String::new(),
            };
            let [first, second] = judged(f).map(|t| esc(&t));
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td class=\"l\">{}</td><td>{first}</td><td>{second}</td>\
                 <td>{}</td><td>{}</td><td class=\"l\">{control}</td></tr>",
                esc(&workload.id),
                esc(&m.configs[f.key].id),
                rate(f.target),
                rate(f.moved),
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
    out
}
