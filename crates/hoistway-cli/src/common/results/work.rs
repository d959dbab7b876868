//! The tables of what loads do beside calls: phases they go through, things they count.

use super::{Of, bounded, versus};
use crate::common::table::Table;
use hoistway_lab::result::{Cell, Run, counts, phases};
use hoistway_lab::stats::Bounded;

/// What goes first where the lines would be too long.
pub const SPARE_PHASES: &[&str] =
    &["published MB/s", "+-99%", ">10s %", ">2s %", "max ms", "avg ms", "published s", "each s"];
pub const SPARE_COUNTS: &[&str] = &["+-99%", "+-99%", "+-99%", "+-99%"];

/// One row per phase; `>2s %`: share of the calls that took longer. None without phases.
pub fn phase_table(run: &Run) -> Option<Table> {
    let mut rows: Vec<(&Cell, String, String)> = Vec::new();
    for cell in &run.cells {
        for phase in phases::names(cell) {
            rows.push((cell, phases::row_name(&run.cells, cell, &phase), phase));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let vs = versus(run);
    let singles: Vec<String> = rows.iter().map(|(cell, row, _)| singles(run, cell, row)).collect();
    let each = singles.iter().any(|text| !text.is_empty());
    let mut headings = vec!["drive", "workload", "phase", "config", "s", "+-99%", &vs, "MB/s"];
    if each {
        headings.push("each s");
    }
    headings.extend(["avg ms", "max ms", ">2s %", ">10s %", "published s", "published MB/s"]);
    let mut table = Table::new(&headings, 4);
    // Phases of one drive and workload stand together, configurations below each other.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let first = |i: usize| {
        let (cell, _, phase) = &rows[i];
        rows.iter()
            .position(|r| (&r.0.drive, &r.0.workload, &r.2) == (&cell.drive, &cell.workload, phase))
    };
    order.sort_by_key(|&i| first(i));
    for i in order {
        let (cell, row, phase) = &rows[i];
        let of = Of::new(run, cell, row);
        let mut cells = vec![
            cell.drive.clone(),
            cell.workload.clone(),
            phase.clone(),
            cell.config.clone(),
            of.shown("phase_time"),
            of.interval("phase_time"),
            of.against("phase_time"),
            of.shown("throughput_total"),
        ];
        if each {
            cells.push(singles[i].clone());
        }
        cells.extend(
            ["latency_avg", "latency_max", "latency_share_over_2s", "latency_share_over_10s"]
                .map(|metric| of.shown(metric)),
        );
        cells.extend(["phase_time", "throughput_total"].map(|metric| of.published(metric)));
        table.row(cells);
    }
    Some(table)
}

/// `light 2.1, heavy 2.3`: the time of each process, where the phase has such figures.
fn singles(run: &Run, cell: &Cell, row: &str) -> String {
    let mut each = Vec::new();
    for x in Of::new(run, cell, row).rows {
        let name = x.metric.strip_prefix("phase_time:").filter(|name| !name.ends_with("_ci99"));
        if let (Some(name), Some(value)) = (name, x.value) {
            each.push(format!("{name} {}", bounded(Bounded { value, bound: x.bound })));
        }
    }
    each.join(", ")
}

/// One column per count of these cells, in percent beside it if it is a part of another. None without counts.
pub fn count_table(run: &Run, cells: &[&Cell]) -> Option<Table> {
    let mut names: Vec<&str> = Vec::new();
    for name in cells.iter().flat_map(|c| counts::names(c)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut columns: Vec<(String, String)> = Vec::new();
    for name in names {
        columns.push((name.to_string(), name.to_string()));
        if counts::of_name(name).2.is_some_and(|doc| doc.of.is_some()) {
            columns.push((format!("{name} %"), format!("{name}_share")));
        }
    }
    let headings = ["drive", "workload", "config"].into_iter();
    let headings: Vec<&str> =
        headings.chain(columns.iter().flat_map(|c| [c.0.as_str(), "+-99%"])).collect();
    let mut table = Table::new(&headings, 3);
    for cell in cells {
        let of = Of::new(run, cell, &cell.workload);
        let mut row = vec![cell.drive.clone(), cell.workload.clone(), cell.config.clone()];
        for (_, metric) in &columns {
            row.extend([of.shown(metric), of.interval(metric)]);
        }
        table.row(row);
    }
    Some(table)
}
