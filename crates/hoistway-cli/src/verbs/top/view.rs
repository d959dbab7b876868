//! A frame as text.

use super::frame::{DeviceFrame, Frame, Row, Rows, Sort};
use super::sample::{Figure, Target};
use crate::common::table::{Table, three};

/// Figures of schedulers that are states; counts that only grow say little in a frame.
const STATES: &[&str] = &[
    "queues_busy",
    "queues_busy_raised",
    "busy_queues",
    "max_budget_sectors",
    "peak_rate_sectors_per_s",
    "queued",
    "depth",
    "outstanding",
    "throttled",
    "batching",
    "starved",
    "sync_waiting",
    "async_waiting",
    "reads_waiting",
    "writes_waiting",
    "others_waiting",
    "predicted_in_flight_ns",
    "inflight",
    "sync_reads_waiting",
    "sync_writes_waiting",
    "async_reads_waiting",
    "async_writes_waiting",
];

/// All devices, one below the other.
pub fn text(frame: &Frame, rows: Rows, sort: Sort) -> String {
    let devices: Vec<_> = frame.devices.iter().map(|d| device(d, rows, sort)).collect();
    devices.join("\n")
}

/// The last line of a terminal.
pub fn keys(rows: Rows, sort: Sort) -> String {
    let sorts: Vec<String> = Sort::ALL
        .iter()
        .map(|(name, s)| if *s == sort { format!("[{name}]") } else { (*name).to_string() })
        .collect();
    let other = if rows == Rows::Clients { "groups" } else { "clients" };
    format!("q quit  g by {other}  sort by first letter: {}", sorts.join(" "))
}

fn device(d: &DeviceFrame, rows: Rows, sort: Sort) -> String {
    let mut out = format!("{}: {}\n", d.exports.join(", "), d.target);
    let mut head = d.scheduler.clone();
    for (name, value) in &d.changed {
        head += &format!(" {name}={value}");
    }
    if d.changing {
        head += " (changing)";
    }
    for controller in &d.controllers {
        head += &format!(" + {controller}");
    }
    head += &format!(
        "; requests: {} at the device, {} queued, {} allowed, {} merged",
        d.in_flight, d.queued, d.nr_requests, d.merged
    );
    if let Some(e) = &d.emulation {
        let us = |ns: u64| three(ns as f64 / 1e3);
        head += &format!("; model late by {} us (p99 {})", us(e.late_p50_ns), us(e.late_p99_ns));
    }
    out += &format!("{head}\n");
    if let Some(waits) = &d.waits_for {
        out += &format!("changing: {waits}\n");
    }
    if let Some(stall) = &d.stall {
        let seconds = stall.lasts_ns as f64 / 1e9;
        let (unfinished, reason) = (stall.unfinished, &stall.reason);
        out += &format!("STALLED for {seconds:.1} s, {unfinished} I/Os: {reason}\n");
    }
    for line in state(d) {
        out += &format!("{line}\n");
    }
    for line in targets(d) {
        out += &format!("{line}\n");
    }
    let lines = d.rows(rows, sort);
    if lines.is_empty() {
        return out + "no clients\n";
    }
    let (columns, left) = match rows {
        Rows::Clients => (["client", "export", "group"], 3),
        Rows::Groups => (["group", "clients", "weight"], 1),
    };
    let mut headings = [&columns[..], COLUMNS].concat();
    let aimed = !d.targets.is_empty();
    if aimed {
        headings.insert(AIM, "target ms");
    }
    let mut table = Table::new(&headings, left);
    for row in lines {
        let mut cells = cells(row, rows);
        if aimed {
            cells.insert(AIM, aim(d, &row.group));
        }
        table.row(cells);
    }
    out + &table.render()
}

const COLUMNS: &[&str] = &[
    "IOPS",
    "MB/s read",
    "written",
    "p50 ms",
    "p99 ms",
    "waited %",
    "bytes %",
    "service %",
    "entitled %",
    "depth",
    "now",
    "errors",
];

/// The place behind p99 of the column of targets, which is there if a group has one.
const AIM: usize = 8;

/// The target of a group: a number, `auto`, or none.
fn aim(d: &DeviceFrame, group: &str) -> String {
    match d.targets.iter().find(|t| t.group == group).map(|t| t.target_ns) {
        Some(Some(ns)) => three(ns as f64 / 1e6),
        Some(None) => "auto".into(),
        None => "-".into(),
    }
}

/// How each target stands, as the scheduler says.
fn targets(d: &DeviceFrame) -> Vec<String> {
    let millis = |ns| hoistway::target::millis(hoistway::Nanos(ns));
    let line = |t: &Target| {
        let target = t.target_ns.map_or_else(|| "auto".into(), millis);
        let p99 = if t.p99_ns > 0 { millis(t.p99_ns) } else { "-".into() };
        let share = hoistway::target::percent(t.share_permille);
        format!("  {}: target {target}, p99 {p99}, share {share}: {}", t.group, t.words)
    };
    d.targets.iter().map(line).collect()
}

fn cells(row: &Row, rows: Rows) -> Vec<String> {
    let got = &row.got;
    let shown = |value: Option<f64>| value.map_or_else(|| "-".into(), three);
    let percent =
        |part: Option<f64>| part.map_or_else(|| "-".into(), |p| format!("{:.1}", 100.0 * p));
    let first = match (rows, row.connection) {
        (Rows::Clients, number) => {
            let number = number.map_or_else(String::new, |n| n.to_string());
            [number, row.export.clone(), row.group.clone()]
        }
        (Rows::Groups, _) => {
            let weight = row.weight.map_or_else(|| "-".into(), |w| w.to_string());
            [row.group.clone(), row.clients.to_string(), weight]
        }
    };
    let rest = [
        three(got.per_second(got.count)),
        three(got.per_second(got.read) / 1e6),
        three(got.per_second(got.written) / 1e6),
        shown(got.percentile(50)),
        shown(got.percentile(99)),
        percent(got.waited()),
        percent(row.share_bytes),
        percent(row.share_service),
        percent(row.entitled),
        three(got.depth()),
        got.outstanding.to_string(),
        got.errors.to_string(),
    ];
    first.into_iter().chain(rest).collect()
}

/// What the scheduler and the controllers are at, the device first, then group by group.
fn state(d: &DeviceFrame) -> Vec<String> {
    let shown = |f: &&Figure| f.gauge || STATES.contains(&&f.name[..]);
    let mut lines: Vec<(Option<&str>, Vec<String>)> = Vec::new();
    if !d.in_service.is_empty() {
        let clients: Vec<_> = d.in_service.iter().map(u64::to_string).collect();
        lines.push((None, vec![format!("in service: client {}", clients.join(", "))]));
    }
    let mut last: Option<(&str, Option<&str>)> = None;
    for f in d.state.iter().filter(shown) {
        let group = f.group.as_deref();
        let at = lines.iter().position(|(g, _)| *g == group).unwrap_or_else(|| {
            lines.push((group, Vec::new()));
            lines.len() - 1
        });
        let value = match &f.unit[..] {
            "0.01 %" => format!("{} %", f.value as f64 / 100.0),
            "1/65536" => format!("{:.1} %", f.value as f64 * 100.0 / 65536.0),
            "" => f.value.to_string(),
            // The name says it already.
            unit if f.name.contains(&unit.replace("/s", "_per_s")) => f.value.to_string(),
            unit => format!("{} {unit}", f.value),
        };
        let parts = &mut lines[at].1;
        // Levels and domains of one figure: their values one after the other.
        match parts.last_mut() {
            Some(part) if f.of.is_some() && last == Some((&f.name, group)) => {
                *part += &format!("/{value}");
            }
            _ => parts.push(format!("{} {value}", f.name)),
        }
        last = Some((&f.name, group));
    }
    let line = |(group, parts): (Option<&str>, Vec<String>)| match group {
        None => parts.join(", "),
        Some(name) => format!("  {name}: {}", parts.join(", ")),
    };
    lines.into_iter().map(line).collect()
}
