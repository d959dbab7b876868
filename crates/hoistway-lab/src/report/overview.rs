//! One page over several experiments: per drive, what each configuration gives the target and what it
//! costs, with loss of control marked. The reports of the runs have everything else.

use super::figures::Figures;
use super::html;
use super::section::open_table;
use super::svg::{duration, esc, number};
use crate::result::{LOSS_OF_CONTROL, Run, Spread};
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

const READING: &str = "Mean and longest latency of the target, its throughput and that of all processes, per \
configuration; a dash where no process is measured. <b>Lost</b>: the target waits at least 80 % of the \
uncontrolled time although another configuration of the run halves it.";

/// One experiment on one drive: a row per workload and configuration.
fn table(run: &Run, address: &str, drive: &str) -> String {
    let m = &run.manifest;
    let mut out = format!(
        "<h3><a href=\"{}\">{}</a></h3>\n<p class=\"mute\">{}</p>\n",
        esc(address),
        esc(&m.experiment),
        esc(&m.title)
    );
    out.push_str(&open_table(&format!("{} on {drive}", m.experiment)));
    out.push_str(
        "<thead><tr><th scope=\"col\" class=\"l\">workload</th>\
         <th scope=\"col\" class=\"l\">configuration</th><th scope=\"col\">mean latency</th>\
         <th scope=\"col\">longest</th><th scope=\"col\">target MB/s</th>\
         <th scope=\"col\">all MB/s</th><th scope=\"col\" class=\"l\">control</th></tr></thead>\n<tbody>\n",
    );
    for workload in &m.workloads {
        for f in Figures::of(run, drive, &workload.id) {
            let rate = |s: Option<Spread>| s.map_or_else(|| "\u{2013}".into(), |s| number(s.mean));
            let lost = f.flags.iter().find(|t| t.starts_with(LOSS_OF_CONTROL));
            let control = match lost {
                Some(text) => format!("<b title=\"{}\">lost</b>", esc(text)),
                None => String::new(),
            };
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td class=\"l\">{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{}</td><td class=\"l\">{control}</td></tr>",
                esc(&workload.id),
                esc(&m.configs[f.key].id),
                f.latency.map_or_else(
                    || "\u{2013}".into(),
                    |l| esc(&format!("{}{}", f.longer(), duration(l.mean)))
                ),
                f.longest.map_or_else(
                    || "\u{2013}".into(),
                    |(ns, cut)| {
                        format!("{}{}", if cut { "\u{2265} " } else { "" }, duration(ns as f64))
                    }
                ),
                rate(f.target),
                rate(f.total),
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
    out
}
