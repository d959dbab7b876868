//! The tables as Markdown, to paste into an issue or a document.

use super::figures::CellFigures;
use super::section::gain_text;
use super::svg::{number, plus_minus};
use super::{count, share, startup, target, verdict};
use crate::result::{Judge, Run, Spread};
use std::fmt::Write;

/// The whole text. The same run gives the same bytes.
pub fn render(run: &Run) -> String {
    let m = &run.manifest;
    let mut out = format!("# {}\n\n{}\n", plain(&m.title), plain(&m.about));
    if let Some(text) = verdict::raising(run) {
        let _ = write!(out, "\n{}.\n", plain(&text));
    }
    for drive in &m.drives {
        let _ = write!(out, "\n## {} (`{}`)\n", plain(&drive.name), code(&drive.id));
        for workload in &m.workloads {
            let all = CellFigures::of(run, &drive.id, &workload.id);
            let Some(judge) = all.first().map(|f| f.judge) else { continue };
            let head = match judge {
                Judge::Latency => HEAD.to_string(),
                Judge::Share => HEAD_SHARES.to_string(),
                Judge::Throughput => HEAD_RATES.to_string(),
                Judge::Startup => HEAD_STARTS.to_string(),
                Judge::Count => count::markdown_head(&all),
            };
            let words = verdict::words(run, drive, workload, &all, false);
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n{}\n\n{head}",
                plain(&workload.id),
                plain(&workload.summary),
                words.replace('|', "\\|").replace('<', "&lt;").replace('>', "&gt;"),
            );
            for f in &all {
                let row = match judge {
                    Judge::Latency => row(f).join(" | "),
                    Judge::Share => shares(f).join(" | "),
                    Judge::Throughput => rates(f).join(" | "),
                    Judge::Startup => startup::cells(run, f, " ± ", "").join(" | "),
                    Judge::Count => count::cells(f, " ± ", "").join(" | "),
                };
                let row = row.replace('<', "&lt;").replace('>', "&gt;");
                let _ = writeln!(out, "| {} | {row} |", plain(&m.configs[f.key].id));
            }
            out.push_str(&targets(run, &all));
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

/// How the latency targets stood, where there are some.
fn targets(run: &Run, all: &[CellFigures<'_>]) -> String {
    let lines = target::lines(all);
    if lines.is_empty() {
        return String::new();
    }
    let rule = "|---".repeat(target::HEADS.len());
    let mut out = format!("\n| {} |\n{rule}|\n", target::HEADS.join(" | "));
    for line in lines {
        let cells = line.cells.map(|cell| plain(&cell)).join(" | ");
        let _ = writeln!(out, "| {} | {cells} |", plain(&run.manifest.configs[line.key].id));
    }
    out
}

fn row(f: &CellFigures<'_>) -> [String; 9] {
    let p = |per_mille| f.percentile(per_mille).map_or("–".into(), |v| number(v as f64 / 1e6));
    [
        wait(f),
        gain_text(f.judged).unwrap_or("–".into()),
        p(500),
        p(950),
        p(990),
        f.longest_text(|ns| number(ns / 1e6)).unwrap_or("–".into()),
        spread(f.moved, 1.0),
        spread(f.target, 1.0),
        spread(f.others, 1.0),
    ]
}

fn rates(f: &CellFigures<'_>) -> [String; 7] {
    let each: Vec<f64> = f.each().iter().map(|e| e.1).collect();
    let show = |v: Option<f64>| v.map_or("–".into(), number);
    [
        spread(f.moved, 1.0),
        gain_text(f.more).unwrap_or("–".into()),
        spread(f.read, 1.0),
        spread(f.written, 1.0),
        show(each.iter().copied().reduce(f64::min)),
        show(each.iter().copied().reduce(f64::max)),
        show(f.jain.map(|j| j.mean)),
    ]
}

fn shares(f: &CellFigures<'_>) -> [String; 9] {
    let [received, entitled, has, worst, jain] = share::judged(f);
    [
        received,
        entitled,
        has,
        plain(&worst).replace("&lt;", "<"),
        jain,
        spread(f.moved, 1.0),
        spread(f.target, 1.0),
        spread(f.others, 1.0),
        wait(f),
    ]
}

fn wait(f: &CellFigures<'_>) -> String {
    f.wait_cell()
        .replace(" <small>", " ")
        .replace("</small>", "")
        .replace("&gt;", ">")
        .replace("&lt;", "<")
}

fn spread(s: Option<Spread>, scale: f64) -> String {
    let Some(s) = s else { return "–".into() };
    let (mean, half) = plus_minus(s.mean / scale, s.half_width.unwrap_or(0.0) / scale);
    if s.half_width.is_none() { mean } else { format!("{mean} ± {half}") }
}

/// One line that no character of a name can break out of.
pub(super) fn plain(text: &str) -> String {
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

pub(super) fn code(text: &str) -> String {
    text.replace(['`', '\n', '\r'], "'")
}

const HEAD: &str = "| configuration | mean, ms | shorter by | p50, ms | p95, ms | p99, ms | max, ms \
| device, MB/s | target, MB/s | interferers, MB/s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

const HEAD_SHARES: &str = "| configuration | target received | entitled | target has | worst served has | Jain's index \
| device, MB/s | target, MB/s | interferers, MB/s | mean latency, ms |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

const HEAD_RATES: &str = "| configuration | all, MB/s | times the first | read, MB/s | written, MB/s \
| slowest, MB/s | fastest, MB/s | Jain's index |\n|---|--:|--:|--:|--:|--:|--:|--:|\n";

const HEAD_STARTS: &str = "| configuration | start-up, s | times the idle | median, s | shortest, s | longest, s \
| not finished | all, MB/s | during starts, MB/s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
