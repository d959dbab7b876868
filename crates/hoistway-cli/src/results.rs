//! The tables of a run on the terminal: start-up times, latency of the target, or throughput where nobody
//! is the target.

use crate::table::{Table, three};
use hoistway_lab::result::startup::Startups;
use hoistway_lab::result::{
    Cell, LOSS_OF_CONTROL, Metric, Run, number_text, published, ratio, reference, target,
};
use hoistway_lab::stats::Verdict;
use std::fmt::Write as _;

/// The tables of a run and its warnings.
pub fn results(run: &Run) -> String {
    let mut out = format!("{}\n", run.manifest.title);
    let quick = if run.manifest.quick { ", quick: a quarter of the time" } else { "" };
    let with = |cell: &&Cell| cell.reps.iter().any(|rep| target(rep).is_some());
    let (targeted, free): (Vec<&Cell>, Vec<&Cell>) = run.cells.iter().partition(with);
    let (starting, targeted): (Vec<&Cell>, Vec<&Cell>) =
        targeted.into_iter().partition(|cell| Startups::of(&cell.reps).is_some());
    for (what, cells, table) in [
        ("start-up times", starting, startups as fn(&Run, &[&Cell]) -> Table),
        ("latency of the target", targeted, latency),
        ("throughput of the device and of its processes", free, throughput),
    ] {
        if !cells.is_empty() {
            let _ = writeln!(out, "{what}; {} repetitions{quick}\n", run.manifest.reps);
            out.push_str(&table(run, &cells).render());
        }
    }
    for (cell, text) in run.flags.iter().filter(|(_, text)| !text.starts_with(LOSS_OF_CONTROL)) {
        let _ = writeln!(out, "! {cell}: {text}");
    }
    out.push_str(&lost(run));
    out
}

/// One line per drive and configuration that loses control, with the workloads.
fn lost(run: &Run) -> String {
    let mut out = String::new();
    for drive in &run.manifest.drives {
        for config in &run.manifest.configs {
            let of = |w: &&str| {
                let name = format!("{}/{}/{w}", drive.id, config.id);
                run.flags
                    .iter()
                    .any(|(cell, text)| *cell == name && text.starts_with(LOSS_OF_CONTROL))
            };
            let workloads = run.manifest.workloads.iter().map(|w| w.id.as_str());
            let workloads: Vec<&str> = workloads.filter(of).collect();
            if !workloads.is_empty() {
                let workloads = workloads.join(", ");
                let _ =
                    writeln!(out, "! {LOSS_OF_CONTROL}: {}/{}: {workloads}", drive.id, config.id);
            }
        }
    }
    if !out.is_empty() {
        out.push_str(
            "  (the target waits at least 80 % of the uncontrolled time, although another \
             configuration halves it)\n",
        );
    }
    out
}

fn latency(run: &Run, cells: &[&Cell]) -> Table {
    let vs = versus(run);
    let mixed = cells.iter().any(|cell| {
        let of = Of { run, cell };
        ["throughput_read", "throughput_written"].iter().all(|m| of.value(m) > Some(0.0))
    });
    let mut headings =
        vec!["drive", "workload", "config", "avg ms", "+-99%", "p99 ms", "max ms", &vs, "MB/s all"];
    if mixed {
        headings.extend(["read", "written"]);
    }
    headings.extend(["MB/s target", "published ms"]);
    let mut table = Table::new(&headings, 3);
    for cell in cells {
        let of = Of { run, cell };
        let mut row = vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            of.shown("latency_avg"),
            of.shown("latency_avg_ci99"),
            of.shown("latency_p99"),
            of.shown("latency_max"),
            of.against("latency_avg"),
            of.shown("throughput_total"),
        ];
        if mixed {
            row.extend([of.shown("throughput_read"), of.shown("throughput_written")]);
        }
        row.extend([of.shown("throughput_target"), of.published("latency_avg")]);
        table.row(row);
    }
    table
}

/// `x idle`: over the same start-up without the load. `MB/s starting`: of the device, while the application
/// was starting.
fn startups(run: &Run, cells: &[&Cell]) -> Table {
    let vs = versus(run);
    let mut table = Table::new(
        &[
            "drive",
            "workload",
            "config",
            "start-up s",
            "+-99%",
            "min s",
            "max s",
            "unfinished",
            &vs,
            "x idle",
            "MB/s all",
            "MB/s starting",
            "published s",
        ],
        3,
    );
    for cell in cells {
        let of = Of { run, cell };
        let Some(all) = Startups::of(&cell.reps) else { continue };
        // Without a mean the median, while it exists.
        let time = match (all.mean, all.median) {
            (Some(_), _) => of.shown("startup_time"),
            (None, Some(median)) => format!("median {}", three(median)),
            (None, None) => all.beyond().unwrap_or_else(|| "-".into()),
        };
        let max = all.beyond().unwrap_or_else(|| three(all.max));
        let min = if all.unfinished == all.count { "-".into() } else { three(all.min) };
        let unfinished = match all.unfinished {
            0 => String::new(),
            n => format!("{n} of {}", all.count),
        };
        table.row(vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            time,
            of.shown("startup_time_ci99"),
            min,
            max,
            unfinished,
            of.against("startup_time"),
            of.shown("startup_slowdown"),
            of.shown("throughput_total"),
            of.shown("throughput_startup"),
            of.published("startup_time"),
        ]);
    }
    table
}

/// `slowest`, `fastest`: MB/s of single processes.
fn throughput(run: &Run, cells: &[&Cell]) -> Table {
    let vs = versus(run);
    let written = cells.iter().any(|cell| {
        let moved = Of { run, cell }.value("throughput_written");
        moved.is_some_and(|v| v > 0.0)
    });
    let mut headings = vec!["drive", "workload", "config", "MB/s", "+-99%", &vs];
    if written {
        headings.extend(["read", "written"]);
    }
    headings.extend(["IOPS", "KiB/request", "slowest", "fastest", "Jain", "published MB/s"]);
    let mut table = Table::new(&headings, 3);
    for cell in cells {
        let of = Of { run, cell };
        let mut row = vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            of.shown("throughput_total"),
            of.shown("throughput_total_ci99"),
            of.against("throughput_total"),
        ];
        if written {
            row.extend([of.shown("throughput_read"), of.shown("throughput_written")]);
        }
        row.extend([
            of.shown("iops"),
            of.shown("request_size_avg"),
            of.shown("throughput_interferer_min"),
            of.shown("throughput_interferer_max"),
            of.shown("jain_interferers"),
            of.published("throughput_total"),
        ]);
        table.row(row);
    }
    table
}

/// Heading of the column with the ratios.
fn versus(run: &Run) -> String {
    format!("vs {}", reference(&run.manifest).unwrap_or_default())
}

/// The metrics of one cell.
struct Of<'a> {
    run: &'a Run,
    cell: &'a Cell,
}

impl Of<'_> {
    fn find(&self, metric: &str, published: bool) -> Option<&Metric> {
        let cell = self.cell;
        self.run.metrics.iter().find(|x| {
            (&x.drive, &x.config, &x.workload) == (&cell.drive, &cell.config, &cell.workload)
                && x.metric == metric
                && x.rep.is_none()
                && (x.source != self.run.manifest.world) == published
        })
    }

    fn value(&self, metric: &str) -> Option<f64> {
        self.find(metric, false).and_then(|x| x.value)
    }

    fn shown(&self, metric: &str) -> String {
        self.value(metric).map_or_else(|| "-".into(), three)
    }

    /// Over the same of the reference configuration.
    fn against(&self, metric: &str) -> String {
        let cell = self.cell;
        let reference = reference(&self.run.manifest).unwrap_or_default();
        let other = self.run.cells.iter().find(|c| {
            (&c.drive, &c.workload, c.config.as_str()) == (&cell.drive, &cell.workload, reference)
        });
        match other.filter(|c| c.config != cell.config) {
            None => String::new(),
            Some(other) => match ratio(cell, other, metric) {
                None => "-".into(),
                Some(r) if r.verdict == Verdict::Same => "same".into(),
                Some(r) => format!("x{}", three(r.mean)),
            },
        }
    }

    fn published(&self, metric: &str) -> String {
        let Some(row) = self.find(metric, true) else { return String::new() };
        match (row.value, self.value(metric)) {
            (Some(p), Some(ours)) => {
                format!("{} ({:+.0}%)", number_text(p), (ours / p - 1.0) * 100.0)
            }
            (Some(p), None) => number_text(p),
            (None, _) => published::bound_of(row)
                .map_or_else(String::new, |b| format!(">{}", number_text(b))),
        }
    }
}
