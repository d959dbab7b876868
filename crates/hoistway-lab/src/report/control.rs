//! What control brings and what it costs, drives one below the other: two Markdown formats for runs that
//! put many drives or many configurations side by side, where the report's tables per drive are too long
//! to compare.
//!
//! `control` has a row per drive and configuration with every figure; `control-matrix` a row per drive, a
//! column per configuration, and three figures a cell.

use super::figures::{CellFigures, bounded};
use super::markdown::{code, plain};
use super::svg::number;
use crate::judge::Comparison;
use crate::result::control::{self, Control, alone_workload};
use crate::result::share::Shares;
use crate::result::{Cell, Judge, Run, WorkloadInfo, reference};
use std::fmt::Write;

/// A row per drive and configuration. The same run gives the same bytes.
pub fn render(run: &Run) -> String {
    page(run, |run, workload, judge| match judge {
        Judge::Share => (HEAD_SHARES.to_string(), rows(run, workload, share_row)),
        Judge::Startup => (HEAD_STARTS.to_string(), rows(run, workload, start_row)),
        Judge::Latency | Judge::Throughput | Judge::Count => {
            (HEAD.to_string(), rows(run, workload, latency_row))
        }
    })
}

/// A row per drive and a column per configuration. The same run gives the same bytes.
pub fn matrix(run: &Run) -> String {
    page(run, |run, workload, judge| {
        let cell = match judge {
            Judge::Share => share_cell as CellText,
            Judge::Startup => start_cell,
            Judge::Latency | Judge::Throughput | Judge::Count => latency_cell,
        };
        let configs = &run.manifest.configs;
        let names: Vec<String> = configs.iter().map(|c| plain(&c.id)).collect();
        let head =
            format!("| drive | {} |\n|---|{}\n", names.join(" | "), "--:|".repeat(names.len()));
        let mut rows = Vec::new();
        for drive in &run.manifest.drives {
            let all = CellFigures::of(run, &drive.id, &workload.id);
            if all.is_empty() {
                continue;
            }
            let of = |key: usize| all.iter().find(|f| f.key == key);
            let cells =
                (0..configs.len()).map(|key| of(key).map_or(dash(), |f| cell(run, workload, f)));
            rows.push(format!("{} | {}", code(&drive.id), cells.collect::<Vec<_>>().join(" | ")));
        }
        (head, rows)
    })
}

type CellText = fn(&Run, &WorkloadInfo, &CellFigures<'_>) -> String;

/// Title, a table per workload, and where it comes from.
fn page(run: &Run, table: impl Fn(&Run, &WorkloadInfo, Judge) -> (String, Vec<String>)) -> String {
    let m = &run.manifest;
    let mut out = format!("# {}\n\n{}\n", plain(&m.title), plain(&m.about));
    for workload in &m.workloads {
        let here: Vec<&Cell> = run.cells.iter().filter(|c| c.workload == workload.id).collect();
        // A target alone stands in the tables of what it is beside.
        if here.is_empty() || alone_workload(&workload.id).is_none() {
            continue;
        }
        let judge = Judge::of(m, here.iter().copied());
        let (head, rows) = table(run, workload, judge);
        let _ =
            write!(out, "\n### {}\n\n{}\n\n{head}", plain(&workload.id), plain(&workload.summary));
        for row in rows {
            let _ = writeln!(out, "| {} |", row.replace('<', "&lt;").replace('>', "&gt;"));
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

fn rows(
    run: &Run,
    workload: &WorkloadInfo,
    row: fn(&Run, &WorkloadInfo, &CellFigures<'_>) -> Vec<String>,
) -> Vec<String> {
    let mut out = Vec::new();
    for drive in &run.manifest.drives {
        for f in &CellFigures::of(run, &drive.id, &workload.id) {
            let config = plain(&run.manifest.configs[f.key].id);
            let cells = row(run, workload, f).join(" | ");
            out.push(format!("{} | {config} | {cells}", code(&drive.id)));
        }
    }
    out
}

const HEAD: &str = "| drive | configuration | alone, mean / p99, ms | mean, ms | p50 | p99 | max | mean over alone | p99 over alone \
| all, MB/s | all, % of none's | others, % of none's |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

fn latency_row(run: &Run, _: &WorkloadInfo, f: &CellFigures<'_>) -> Vec<String> {
    let c = Control::of(&run.manifest, &run.cells, f.cell);
    let alone = control::alone(&run.manifest, &run.cells, f.cell);
    let alone = alone.and_then(|a| {
        let all = CellFigures::of(run, &a.drive, &a.workload);
        let f = all.into_iter().find(|f| f.cell.config == a.config)?;
        Some(format!("{} / {}", mean_ms(&f), percentile(&f, 990)))
    });
    vec![
        alone.unwrap_or_else(dash),
        mean_ms(f),
        percentile(f, 500),
        percentile(f, 990),
        f.longest_text(|ns| number(ns / 1e6)).unwrap_or_else(dash),
        times(c.latency),
        c.p99.map_or_else(dash, |v| format!("×{}", number(v))),
        f.moved.map_or_else(dash, |s| number(s.mean)),
        percent(c.total),
        percent(c.others),
    ]
}

/// `0.168 (×1.15) 99.7 / 95.1`: mean, over alone, and what all and the others keep in percent.
fn latency_cell(run: &Run, _: &WorkloadInfo, f: &CellFigures<'_>) -> String {
    let c = Control::of(&run.manifest, &run.cells, f.cell);
    let kept = match is_reference(run, f) {
        true => format!("{} MB/s", f.moved.map_or_else(dash, |s| number(s.mean))),
        false => format!("{} / {}", percent(c.total), percent(c.others)),
    };
    format!("{} ({}) {kept}", mean_ms(f), times(c.latency))
}

const HEAD_STARTS: &str = "| drive | configuration | start-up, s | over none's | all, MB/s | all, % of none's | others, % of none's |\n\
|---|---|--:|--:|--:|--:|--:|\n";

fn start_row(run: &Run, _: &WorkloadInfo, f: &CellFigures<'_>) -> Vec<String> {
    let c = Control::of(&run.manifest, &run.cells, f.cell);
    let free = control::uncontrolled(&run.manifest, &run.cells, f.cell);
    let over = free.map(|free| control::over(&run.manifest, f.cell, free, "startup_time"));
    vec![
        start(f),
        times(over),
        f.moved.map_or_else(dash, |s| number(s.mean)),
        percent(c.total),
        percent(c.others),
    ]
}

fn start_cell(run: &Run, _: &WorkloadInfo, f: &CellFigures<'_>) -> String {
    let c = Control::of(&run.manifest, &run.cells, f.cell);
    format!("{} s ({})", start(f), percent(c.others))
}

fn start(f: &CellFigures<'_>) -> String {
    f.starts
        .as_ref()
        .map_or_else(dash, |s| format!("{}{}", s.time.bound.sign(), number(s.time.value)))
}

const HEAD_SHARES: &str = "| drive | configuration | share of each kind, % | entitled, % | largest error, points | largest error, % of the share \
| all, MB/s | all, % of none's |\n|---|---|--:|--:|--:|--:|--:|--:|\n";

fn share_row(run: &Run, workload: &WorkloadInfo, f: &CellFigures<'_>) -> Vec<String> {
    let c = Control::of(&run.manifest, &run.cells, f.cell);
    let kinds = kinds(run, workload, f.cell);
    let list = |of: fn(&KindShare) -> f64| {
        kinds.iter().map(|k| format!("{:.1}", of(k))).collect::<Vec<_>>().join(" / ")
    };
    vec![
        list(|k| k.share),
        list(|k| k.entitled),
        points(&kinds),
        relative(&kinds),
        f.moved.map_or_else(dash, |s| number(s.mean)),
        percent(c.total),
    ]
}

/// `6.7 / 13.3 / 26.7 / 53.3, 99.8 %`.
fn share_cell(run: &Run, workload: &WorkloadInfo, f: &CellFigures<'_>) -> String {
    let c = Control::of(&run.manifest, &run.cells, f.cell);
    let kinds = kinds(run, workload, f.cell);
    let shares: Vec<String> = kinds.iter().map(|k| format!("{:.1}", k.share)).collect();
    let kept = match is_reference(run, f) {
        true => format!("{} MB/s", f.moved.map_or_else(dash, |s| number(s.mean))),
        false => format!("{} %", percent(c.total)),
    };
    format!("{}, {kept}", shares.join(" / "))
}

/// Processes of one kind together: what they receive and are entitled to, percent of everything.
#[derive(Clone, Debug, PartialEq)]
struct KindShare {
    name: String,
    share: f64,
    entitled: f64,
}

fn kinds(run: &Run, workload: &WorkloadInfo, cell: &Cell) -> Vec<KindShare> {
    let mut out: Vec<KindShare> = Vec::new();
    let Some(shares) = Shares::of(&run.manifest, workload, &cell.reps) else { return out };
    for client in &shares.clients {
        let name = client.name.trim_end_matches(|c: char| c.is_ascii_digit());
        // `w1` of one process is a kind of its own.
        let name = if name.is_empty() { client.name.as_str() } else { name };
        let share = 100.0 * shares.share(client);
        let entitled = 100.0 * client.entitled_mb_s.unwrap_or(0.0) / shares.total;
        match out.iter_mut().find(|k| k.name == name) {
            Some(kind) => {
                kind.share += share;
                kind.entitled += entitled;
            }
            None => out.push(KindShare { name: name.to_string(), share, entitled }),
        }
    }
    out
}

fn points(kinds: &[KindShare]) -> String {
    let worst = kinds.iter().map(|k| (k.share - k.entitled).abs()).fold(0.0, f64::max);
    if kinds.is_empty() { dash() } else { format!("{worst:.1}") }
}

fn relative(kinds: &[KindShare]) -> String {
    let error =
        |k: &KindShare| (k.entitled > 0.0).then(|| 100.0 * (k.share / k.entitled - 1.0).abs());
    let worst = kinds.iter().filter_map(error).reduce(f64::max);
    worst.map_or_else(dash, |w| format!("{w:.1}"))
}

fn is_reference(run: &Run, f: &CellFigures<'_>) -> bool {
    Some(f.cell.config.as_str()) == reference(&run.manifest)
}

fn mean_ms(f: &CellFigures<'_>) -> String {
    f.wait().map_or_else(dash, |wait| bounded(wait, |ns| number(ns / 1e6)))
}

fn percentile(f: &CellFigures<'_>, per_mille: u64) -> String {
    f.percentile(per_mille).map_or_else(dash, |ns| number(ns as f64 / 1e6))
}

fn times(over: Option<Comparison>) -> String {
    let ratio = over.and_then(|c| c.ratio);
    ratio.map_or_else(dash, |r| format!("{}×{}", r.bound.sign(), number(r.mean)))
}

/// One decimal: a tenth of a percent is what the bounds of a promise are told in.
fn percent(kept: Option<Comparison>) -> String {
    let kept = kept.and_then(|c| c.ratio);
    kept.map_or_else(dash, |k| format!("{}{:.1}", k.bound.sign(), 100.0 * k.mean))
}

fn dash() -> String {
    "–".into()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::result::derive;
    use crate::result::tests::{manifest, rep};

    /// Two configurations, a target that waits `ms` and two others that move so many bytes.
    fn run(judge: Judge, cells: [(&str, &str, u64, [u64; 2]); 3]) -> Run {
        let mut m = manifest();
        m.judge = Some(judge);
        m.configs[1].id = "slo".into();
        let readers = m.workloads[0].clone();
        m.workloads.insert(0, WorkloadInfo { id: "alone".into(), ..readers });
        m.workloads[1].weights = vec![("reader0".into(), 300)];
        let cell = |(config, workload, ms, bytes): (&str, &str, u64, [u64; 2])| Cell {
            drive: m.drives[0].id.clone(),
            config: config.into(),
            workload: workload.into(),
            reps: (1..=3)
                .map(|seed| {
                    let mut rep = rep(seed, ms * (10 + seed), "target");
                    rep.procs[0].bytes = 0;
                    rep.procs[1..].iter_mut().zip(bytes).for_each(|(p, b)| p.bytes = b);
                    rep.device.read_bytes = bytes.iter().sum();
                    rep
                })
                .collect(),
        };
        let cells = cells.map(cell).to_vec();
        derive(m, cells)
    }

    pub(in crate::report) fn latency_run() -> Run {
        run(
            Judge::Latency,
            [
                ("none-none", "alone", 1, [0, 0]),
                ("none-none", "readers", 40, [60_000_000, 40_000_000]),
                ("slo", "readers", 2, [50_000_000, 45_000_000]),
            ],
        )
    }

    pub(in crate::report) fn share_run() -> Run {
        run(
            Judge::Share,
            [
                ("none-none", "alone", 1, [0, 0]),
                ("none-none", "readers", 1, [50_000_000, 50_000_000]),
                ("slo", "readers", 1, [60_000_000, 20_000_000]),
            ],
        )
    }

    #[test]
    fn latency_stands_over_that_alone_and_throughput_beside_that_without_control() {
        let run = latency_run();
        let text = render(&run);
        let line = |config: &str| {
            let found = text.lines().find(|l| l.contains(&format!("| {config} |")));
            found.unwrap_or_else(|| panic!("{text}")).to_string()
        };
        assert!(
            line("slo")
                .contains("| 24.0 / – | 48.0 | – | – | 78.0 | ×2.00 | – | 95.0 | 95.0 | 95.0 |"),
            "{text}"
        );
        assert!(line("none-none").contains("| ×40.0 | – | 100 | 100.0 | 100.0 |"), "{text}");
        assert!(!text.contains("### alone"), "{text}");
        let text = matrix(&run);
        assert!(text.contains("| 960 (×40.0) 100 MB/s | 48.0 (×2.00) 95.0 / 95.0 |"), "{text}");
    }

    #[test]
    fn shares_stand_by_kind_with_their_error() {
        let run = share_run();
        let text = render(&run);
        let line = text.lines().find(|l| l.contains("| slo |")).unwrap_or_else(|| panic!("{text}"));
        // Target 100, readers 300 and 100: the kind `reader` is entitled to 80 %.
        assert!(
            line.contains("| 0.0 / 100.0 | 20.0 / 80.0 | 20.0 | 100.0 | 80.0 | 80.0 |"),
            "{line}"
        );
        assert!(matrix(&run).contains("| 0.0 / 100.0, 80.0 % |"), "{}", matrix(&run));
    }
}
