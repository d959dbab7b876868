//! The tables of a run on the terminal, one per quantity that is judged: start-up times, latency of the
//! target, shares, or throughput.

mod files;
mod work;

pub use files::{all_csv, all_json, comparison_json};

use crate::common::table::{Table, bounded, three, told_apart};
use hoistway_lab::report::raising;
use hoistway_lab::result::startup::Startups;
use hoistway_lab::result::{
    Cell, Judge, LOSS_OF_CONTROL, Metric, Run, counts, number_text, published, reference,
};
use hoistway_lab::stats::{Bound, Bounded};
use std::fmt::Write as _;

/// What goes first from each table where the lines would be too long, in this order.
const SPARE_STARTUPS: &[&str] = &[
    "MB/s starting",
    "+-99%",
    "median s",
    "MB/s all",
    "min s",
    "x idle",
    "published s",
    "unfinished",
];
const SPARE_COUNTED: &[&str] = &["MB/s target", "+-99%", "most", "least", "part %", "published"];
const SPARE_LATENCY: &[&str] =
    &["read", "written", "+-99%", "p99 ms", "MB/s target", "max ms", "published ms"];
const SPARE_SHARES: &[&str] = &["avg ms", "MB/s target", "Jain", "entitled %"];
const SPARE_THROUGHPUT: &[&str] = &[
    "KiB/request",
    "IOPS",
    "read",
    "written",
    "+-99%",
    "Jain",
    "slowest",
    "fastest",
    "published MB/s",
];

/// The tables of a run and its warnings; `limit`: columns that a table may take.
pub fn results(run: &Run, limit: Option<usize>) -> String {
    let mut out = format!("{}\n", run.manifest.title);
    let quick = if run.manifest.quick { ", quick: a quarter of the time" } else { "" };
    type Make = fn(&Run, &[&Cell]) -> Table;
    for (judge, what, table, spare) in [
        (Judge::Startup, "start-up times", startups as Make, SPARE_STARTUPS),
        (Judge::Count, "what the target's load counts", counted, SPARE_COUNTED),
        (Judge::Latency, "latency of the target", latency, SPARE_LATENCY),
        (Judge::Share, "shares of the bandwidth", shares, SPARE_SHARES),
        (
            Judge::Throughput,
            "throughput of the device and of its processes",
            throughput,
            SPARE_THROUGHPUT,
        ),
    ] {
        let judged = |cell: &&Cell| judge_of(run, cell) == judge;
        let cells: Vec<&Cell> = run.cells.iter().filter(judged).collect();
        if !cells.is_empty() {
            let _ = writeln!(out, "{what}; {}{quick}\n", repetitions(run.manifest.reps));
            out.push_str(&table(run, &cells).fit(limit, spare));
        }
    }
    // Where a count decides, it has its table above.
    let beside = |cell: &&Cell| judge_of(run, cell) != Judge::Count;
    let counted: Vec<&Cell> = run.cells.iter().filter(beside).collect();
    for (what, table, spare) in [
        ("what the loads counted", work::count_table(run, &counted), work::SPARE_COUNTS),
        // The processes of a replayed trace have a table with their percentiles.
        ("phases", work::phase_table(run).filter(|_| !is_replay(run)), work::SPARE_PHASES),
    ] {
        if let Some(table) = table {
            let _ = writeln!(out, "{what}; {}{quick}\n", repetitions(run.manifest.reps));
            out.push_str(&table.fit(limit, spare));
        }
    }
    for (cell, text) in run.flags.iter().filter(|(_, text)| !text.starts_with(LOSS_OF_CONTROL)) {
        let _ = writeln!(out, "! {cell}: {text}");
    }
    out.push_str(&lost(run));
    if let Some(text) = raising(run) {
        let _ = writeln!(out, "  ({text})");
    }
    out
}

/// `1 repetition`, `3 repetitions`.
pub fn repetitions(n: u32) -> String {
    if n == 1 { "1 repetition".into() } else { format!("{n} repetitions") }
}

/// A block trace was replayed.
fn is_replay(run: &Run) -> bool {
    run.manifest.host.iter().any(|(name, _)| name == "trace.records")
}

/// What the cells of the same drive and workload are judged by.
fn judge_of(run: &Run, cell: &Cell) -> Judge {
    let same = |c: &&Cell| (&c.drive, &c.workload) == (&cell.drive, &cell.workload);
    Judge::of(&run.manifest, run.cells.iter().filter(same))
}

/// One line per drive and configuration that loses control, with the workloads.
fn lost(run: &Run) -> String {
    let mut out = String::new();
    let mut judges: Vec<Judge> = Vec::new();
    for drive in &run.manifest.drives {
        for config in &run.manifest.configs {
            let flagged = |cell: &&Cell| {
                let name = format!("{}/{}/{}", cell.drive, cell.config, cell.workload);
                (&cell.drive, &cell.config) == (&drive.id, &config.id)
                    && run
                        .flags
                        .iter()
                        .any(|(cell, text)| *cell == name && text.starts_with(LOSS_OF_CONTROL))
            };
            let lost: Vec<&Cell> = run.cells.iter().filter(flagged).collect();
            if lost.is_empty() {
                continue;
            }
            judges.extend(lost.iter().map(|cell| judge_of(run, cell)));
            let workloads: Vec<&str> = lost.iter().map(|cell| cell.workload.as_str()).collect();
            let workloads = workloads.join(", ");
            let _ = writeln!(out, "! {LOSS_OF_CONTROL}: {}/{}: {workloads}", drive.id, config.id);
        }
    }
    if judges.contains(&Judge::Count) {
        out.push_str(
            "  (at least 80 % of what is lost without control is lost, or hardly more done, although \
             another\n  configuration halves or doubles it)\n",
        );
    }
    if judges.iter().any(|j| matches!(j, Judge::Latency | Judge::Startup)) {
        out.push_str(
            "  (the target waits at least 80 % of the uncontrolled time, although another \
             configuration halves it)\n",
        );
    }
    if judges.contains(&Judge::Share) {
        out.push_str(
            "  (a process receives less than half of what it is entitled to, and hardly more than \
             without\n  control, although another configuration at least doubles it)\n",
        );
    }
    out
}

/// `target %`: of all bytes; `entitled %`: what its weight or guarantee promises; `worst %`: what the worst
/// served process has of what it is entitled to.
fn shares(run: &Run, cells: &[&Cell]) -> Table {
    let vs = versus(run);
    let targeted =
        cells.iter().any(|c| Of::new(run, c, &c.workload).value("share_target").is_some());
    let mut headings = vec!["drive", "workload", "config"];
    if targeted {
        headings.extend(["target %", "entitled %"]);
    }
    headings.extend(["worst %", "Jain"]);
    if targeted {
        headings.push("MB/s target");
    }
    headings.extend(["MB/s all", &vs]);
    if targeted {
        headings.push("avg ms");
    }
    let mut table = Table::new(&headings, 3);
    for cell in cells {
        let of = Of::new(run, cell, &cell.workload);
        let worst = of.value("share_met_worst").map_or_else(|| "-".into(), |v| three(v * 100.0));
        let mut row = vec![cell.drive.clone(), cell.workload.clone(), cell.config.clone()];
        if targeted {
            row.extend([of.shown("share_target"), of.shown("share_target_entitled")]);
        }
        row.extend([worst, of.shown("jain_weighted")]);
        if targeted {
            row.push(of.shown("throughput_target"));
        }
        row.extend([of.shown("throughput_total"), of.against("throughput_total")]);
        if targeted {
            row.push(of.shown("latency_avg"));
        }
        table.row(row);
    }
    table
}

/// `part %`: of all frames that were due, of all files that were to be done.
fn counted(run: &Run, cells: &[&Cell]) -> Table {
    let vs = versus(run);
    let parts = cells.iter().any(|c| counts::decisive(c).is_some_and(|d| d.of.is_some()));
    let mut headings = vec!["drive", "workload", "config", "mean", "+-99%"];
    if parts {
        headings.push("part %");
    }
    headings.extend(["of what", "least", "most", &vs, "MB/s all", "MB/s target", "published"]);
    let mut table = Table::new(&headings, 3);
    for cell in cells {
        let of = Of::new(run, cell, &cell.workload);
        let Some(doc) = counts::decisive(cell) else { continue };
        let each: Vec<f64> = cell.reps.iter().filter_map(|r| counts::value(r, doc.name)).collect();
        let show = |v: Option<f64>| v.map_or_else(|| "-".into(), three);
        let mut row = vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            of.shown(doc.name),
            of.interval(doc.name),
        ];
        if parts {
            row.push(of.shown(&format!("{}_share", doc.name)));
        }
        row.extend([
            format!("{} ({} is better)", counts::words(doc), doc.better.name()),
            show(each.iter().copied().reduce(f64::min)),
            show(each.iter().copied().reduce(f64::max)),
            of.against(doc.name),
            of.shown("throughput_total"),
            of.shown("throughput_target"),
            of.published(doc.name),
        ]);
        table.row(row);
    }
    table
}

fn latency(run: &Run, cells: &[&Cell]) -> Table {
    let vs = versus(run);
    let mixed = cells.iter().any(|cell| {
        let of = Of::new(run, cell, &cell.workload);
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
        let of = Of::new(run, cell, &cell.workload);
        let mut row = vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            of.shown("latency_avg"),
            of.interval("latency_avg"),
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
            "median s",
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
        let of = Of::new(run, cell, &cell.workload);
        let Some(all) = Startups::of(&cell.reps) else { continue };
        let min = all.min.map_or_else(|| "-".into(), three);
        let unfinished = match all.unfinished {
            0 => String::new(),
            n => format!("{n} of {}", all.count),
        };
        table.row(vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            of.shown("startup_time"),
            of.interval("startup_time"),
            all.median.map_or_else(|| "-".into(), three),
            min,
            bounded(all.max),
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
        let moved = Of::new(run, cell, &cell.workload).value("throughput_written");
        moved.is_some_and(|v| v > 0.0)
    });
    let mut headings = vec!["drive", "workload", "config", "MB/s", "+-99%", &vs];
    if written {
        headings.extend(["read", "written"]);
    }
    headings.extend(["IOPS", "KiB/request", "slowest", "fastest", "Jain", "published MB/s"]);
    let mut table = Table::new(&headings, 3);
    for cell in cells {
        let of = Of::new(run, cell, &cell.workload);
        let mut row = vec![
            cell.drive.clone(),
            cell.workload.clone(),
            cell.config.clone(),
            of.shown("throughput_total"),
            of.interval("throughput_total"),
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
    /// The workload under which they stand: the cell's, or one of its phases.
    row: &'a str,
    rows: Vec<&'a Metric>,
}

impl<'a> Of<'a> {
    fn new(run: &'a Run, cell: &'a Cell, row: &'a str) -> Of<'a> {
        let rows = run.totals_of(cell).filter(|x| x.workload == *row && x.rep.is_none());
        Of { run, cell, row, rows: rows.collect() }
    }

    fn find(&self, metric: &str, published: bool) -> Option<&Metric> {
        let ours = |x: &Metric| (x.source != self.run.manifest.world) == published;
        self.rows.iter().copied().find(|x| x.metric == metric && ours(x))
    }

    fn value(&self, metric: &str) -> Option<f64> {
        self.find(metric, false).and_then(|x| x.value)
    }

    fn shown(&self, metric: &str) -> String {
        let found = self.find(metric, false);
        let shown = found.and_then(|x| Some(bounded(Bounded { value: x.value?, bound: x.bound })));
        shown.unwrap_or_else(|| "-".into())
    }

    /// Half the 99 % interval, in the digits of the mean and no finer than the models are known
    /// (docs/reference/metrics.md).
    fn interval(&self, metric: &str) -> String {
        let half = self.value(&format!("{metric}_ci99"));
        let Some((mean, half)) = self.value(metric).zip(half) else { return "-".into() };
        if half < mean.abs() * hoistway_lab::report::FINEST {
            return "<1%".into();
        }
        let digits = three(mean).split_once('.').map_or(0, |(_, d)| d.len());
        format!("{half:.digits$}")
    }

    /// Over the same of the reference configuration.
    fn against(&self, metric: &str) -> String {
        if Some(self.cell.config.as_str()) == reference(&self.run.manifest) {
            return String::new();
        }
        let found = self.run.compared(self.cell, self.row, metric);
        found.map_or_else(|| "-".into(), told_apart)
    }

    fn published(&self, metric: &str) -> String {
        let Some(row) = self.find(metric, true) else { return String::new() };
        let ours = self.find(metric, false).filter(|x| x.bound == Bound::Exact);
        match (row.value, ours.and_then(|x| x.value)) {
            (Some(p), Some(ours)) => {
                format!("{} ({:+.0}%)", number_text(p), (ours / p - 1.0) * 100.0)
            }
            (Some(p), None) => number_text(p),
            (None, _) => published::bound_of(row)
                .map_or_else(String::new, |b| format!(">{}", number_text(b))),
        }
    }
}
