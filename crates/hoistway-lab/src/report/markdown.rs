//! The tables as Markdown, to paste into an issue or a document.

use super::figures::Figures;
use super::section::{gain_text, headline};
use super::svg::{number, plus_minus};
use crate::result::{Run, Spread};
use std::fmt::Write;

/// The whole text. The same run gives the same bytes.
pub fn render(run: &Run) -> String {
    let m = &run.manifest;
    let mut out = format!("# {}\n\n{}\n", plain(&m.title), plain(&m.about));
    for drive in &m.drives {
        let _ = write!(out, "\n## {} (`{}`)\n", plain(&drive.name), code(&drive.id));
        for workload in &m.workloads {
            let all = Figures::of(run, &drive.id, &workload.id);
            if all.is_empty() {
                continue;
            }
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n{}\n\n{HEAD}",
                plain(&workload.id),
                plain(&workload.summary),
                headline(run, &all, false).replace('|', "\\|").replace('<', "&lt;")
            );
            for f in &all {
                let _ =
                    writeln!(out, "| {} | {} |", plain(&m.configs[f.key].id), row(f).join(" | "));
            }
            for f in &all {
                for flag in &f.flags {
                    let _ = write!(out, "\n{}: {}\n", plain(&m.configs[f.key].id), plain(flag));
                }
            }
        }
    }
    let _ = write!(
        out,
        "\n{} repetitions from seed {}, world {}, hoistway {}{}.\n\n    {}\n",
        m.reps,
        m.seed,
        plain(&m.world),
        plain(&m.version),
        if m.quick { ", quick run: durations were cut" } else { "" },
        m.command.replace(['\n', '\r'], " ")
    );
    out
}

fn row(f: &Figures<'_>) -> [String; 9] {
    let p = |per_mille| f.percentile(per_mille).map_or("–".into(), |v| number(v as f64 / 1e6));
    [
        spread(f.latency, 1e6),
        gain_text(f.gain).unwrap_or("–".into()),
        p(500),
        p(950),
        p(990),
        f.longest.map_or("–".into(), |(ns, cut)| {
            format!("{}{}", if cut { "≥ " } else { "" }, number(ns as f64 / 1e6))
        }),
        spread(f.total, 1.0),
        spread(f.target, 1.0),
        spread(f.others, 1.0),
    ]
}

fn spread(s: Option<Spread>, scale: f64) -> String {
    let Some(s) = s else { return "–".into() };
    let (mean, half) = plus_minus(s.mean / scale, s.half_width.unwrap_or(0.0) / scale);
    if s.half_width.is_none() { mean } else { format!("{mean} ± {half}") }
}

/// One line that no character of a name can break out of.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

fn code(text: &str) -> String {
    text.replace(['`', '\n', '\r'], "'")
}

const HEAD: &str = "| configuration | mean, ms | shorter by | p50, ms | p95, ms | p99, ms | max, ms \
| all, MB/s | target, MB/s | interferers, MB/s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
