//! The description for a terminal.

use super::{Described, bytes, percent, short, size_rows, time};
use crate::common::table::Table;
use hoistway_trace::Op;
use hoistway_trace::describe::sketch::Histogram;
use hoistway_trace::describe::{Description, Party};
use hoistway_trace::format::Completions;
use std::fmt::Write;

/// Characters of a plot.
const WIDTH: usize = 64;

pub(super) fn text(d: &Described<'_>) -> String {
    let load = d.load;
    let n = load.requests();
    let mut out = format!("{}: {}\n{}\n\n", d.trace, d.format.summary, d.how_many());
    mix(load, &mut out);
    sizes(load, &mut out);
    places(d, &mut out);
    arrivals(d, &mut out);
    depth(d, &mut out);
    for (what, parties, table) in [
        ("process", &load.processes, &d.names.processes),
        ("device", &load.devices, &d.names.devices),
    ] {
        let (rows, more) = d.most(parties, table);
        // One party that has no name is the whole load again.
        if rows.len() > 1 || rows.iter().any(|(name, _)| *name != "-") {
            out.push_str(&party_table(what, &rows, n));
            if more > 0 {
                let _ = writeln!(out, "({more} more; --top shows them)");
            }
            out.push('\n');
        }
    }
    out.push_str("Next:\n");
    for line in d.next() {
        let _ = writeln!(out, "  {line}");
    }
    out
}

fn mix(load: &Description, out: &mut String) {
    let n = load.requests();
    let mut table = Table::new(&["operation", "requests", "share", "data", "mean size"], 1);
    for (op, counts) in Op::ALL.iter().zip(&load.ops).filter(|(_, c)| c.requests > 0) {
        let mean =
            if counts.bytes > 0 { bytes(counts.bytes / counts.requests) } else { "-".into() };
        let (requests, share) = (counts.requests.to_string(), percent(counts.requests, n));
        table.row(vec![op.to_string(), requests, share, bytes(counts.bytes), mean]);
    }
    out.push_str(&table.render());
    let marks = load.marks.iter().filter(|(_, c)| *c > 0);
    let marks: Vec<String> = marks.map(|(m, c)| format!("{m} {}", percent(*c, n))).collect();
    if !marks.is_empty() {
        let _ = writeln!(out, "marks: {}", marks.join(", "));
    }
    out.push('\n');
}

fn sizes(load: &Description, out: &mut String) {
    let rows = size_rows(load);
    let most = rows.iter().map(|(_, r, w)| r + w).max().unwrap_or(0).max(1);
    let mut table = Table::new(&["size", "reads", "writes", "all"], 1);
    for (label, r, w) in &rows {
        let bar = "#".repeat(((r + w) * 24).div_ceil(most) as usize);
        table.row(vec![label.clone(), r.to_string(), w.to_string(), format!("{bar:<24}")]);
    }
    out.push_str(&table.render());
    let data = load.sequence.looked;
    if load.unaligned > 0 {
        let _ = writeln!(out, "not aligned to 4 KiB: {}", percent(load.unaligned, data));
    }
    out.push('\n');
}

fn places(d: &Described<'_>, out: &mut String) {
    let load = d.load;
    let s = &load.sequence;
    let _ = writeln!(
        out,
        "sequential: {} continue the device's last request, {} their process's, {} one of 32 streams",
        percent(s.of_device, s.looked),
        percent(s.of_process, s.looked),
        percent(s.of_streams, s.looked)
    );
    if let (Some(half), Some(most), Some(max)) =
        (s.runs.percentile(50.0), s.runs.percentile(90.0), s.runs.max())
    {
        let (half, most, max) = (bytes(half), bytes(most), bytes(max));
        let _ = writeln!(out, "runs: {half} (median), {most} (90 %), {max} (longest)");
    }
    let blocks = load.blocks.each_ref().map(|b| b.estimate() << 12);
    let _ = writeln!(
        out,
        "working set: about {} in 4 KiB blocks (read {}, written {}), {} in 1 MiB regions; the device has at \
         least {}",
        bytes(blocks[2]),
        bytes(blocks[0]),
        bytes(blocks[1]),
        bytes(blocks[3] << 8),
        bytes(load.end)
    );
    if let (Some(one), Some(ten)) = (load.concentration(1.0), load.concentration(10.0)) {
        let _ = writeln!(
            out,
            "hot spots: the busiest 1 % of the touched places take {} % of the requests, 10 % take {} % (places of \
             {})",
            short(100.0 * one),
            short(100.0 * ten),
            bytes(load.places.width())
        );
    }
    let counts: Vec<u64> = load.places.bins().iter().map(|b| b[0]).collect();
    let end = load.places.width() * counts.len() as u64;
    let _ = writeln!(out, "where, 0 to {}:\n  |{}|", bytes(end), plot(&counts));
    let hot = load.hot.top(d.top.min(3));
    let (n, error) = (s.looked, load.hot.error());
    // A count that may be off by itself says nothing.
    for ((device, region), count) in hot.into_iter().filter(|(_, c)| *c > error.max(1) * 2) {
        let name = match d.names.devices.name(device) {
            "-" => String::new(),
            name => format!(" of {name}"),
        };
        let _ = writeln!(
            out,
            "  1 MiB at {}{name}: {count} requests, {}",
            bytes(region << 20),
            percent(count, n)
        );
    }
    out.push('\n');
}

fn arrivals(d: &Described<'_>, out: &mut String) {
    let load = d.load;
    if !d.timed {
        out.push_str("arrivals: unknown, since the trace has no times\n\n");
        return;
    }
    if load.requests() == 1 {
        return;
    }
    let a = &load.arrivals;
    let at = |p: f64| time(a.between.percentile(p).unwrap_or(0));
    let _ = writeln!(
        out,
        "between arrivals: {} (1 %), {} (median), {} (99 %), {} (longest)",
        at(1.0),
        at(50.0),
        at(99.0),
        time(a.between.max().unwrap_or(0))
    );
    let known: Vec<String> = a
        .windows
        .iter()
        .filter_map(|w| w.dispersion().map(|d| format!("{} in {}", short(d), time(w.length))))
        .collect();
    if !known.is_empty() {
        let _ = writeln!(
            out,
            "burstiness (variance / mean of counts; 1 is Poisson): {}",
            known.join(", ")
        );
    }
    let (most, begins) = a.peak();
    let _ = writeln!(out, "busiest second: {most} requests, {} after the first", time(begins));
    let series = a.series.bins();
    let counts: Vec<u64> = series.iter().map(|b| b[0]).collect();
    let width = a.series.width();
    let _ = writeln!(
        out,
        "requests over time, 0 to {}, highest {} per second:\n  |{}|\n",
        time(width * counts.len() as u64),
        short(counts.iter().copied().max().unwrap_or(0) as f64 * 1e9 / width as f64),
        plot(&counts)
    );
}

fn depth(d: &Described<'_>, out: &mut String) {
    let load = d.load;
    if !load.has_completions() {
        let why = match d.format.completions {
            Completions::No => "the format has no completions",
            _ => "the trace has no completions",
        };
        let _ = writeln!(out, "depth: unknown, since {why}\n");
        return;
    }
    let at = |p: f64| load.depth.at_arrival.percentile(p).unwrap_or(0);
    if d.has_rate() {
        let _ = writeln!(
            out,
            "depth: {} outstanding on average over time; an arrival meets {} (median), {} (99 %), {} (most)",
            short(load.depth.mean(load.span())),
            at(50.0),
            at(99.0),
            load.depth.at_arrival.max().unwrap_or(0)
        );
    } else if !d.timed {
        let _ = writeln!(out, "depth: unknown, since the trace has no times");
    }
    for (what, h) in ["reads", "other requests"].iter().zip(&load.depth.responses) {
        if let Some(line) = responses(h) {
            let _ = writeln!(out, "response of {what} on the recorded device: {line}");
        }
    }
    if load.depth.unmatched + load.depth.lost > 0 {
        let (u, l) = (load.depth.unmatched, load.depth.lost);
        let _ = writeln!(
            out,
            "({u} completions without an arrival, {l} arrivals without a completion)"
        );
    }
    out.push('\n');
}

fn responses(h: &Histogram) -> Option<String> {
    let mean = h.mean()?;
    let at = |p: f64| time(h.percentile(p).unwrap_or(0));
    Some(format!(
        "{} (mean), {} (median), {} (99 %), {} (longest)",
        time(mean as u64),
        at(50.0),
        at(99.0),
        time(h.max()?)
    ))
}

fn party_table(what: &str, rows: &[(&str, &Party)], all: u64) -> String {
    let headings =
        [what, "requests", "share", "reads", "read", "written", "mean size", "sequential"];
    let mut table = Table::new(&headings, 1);
    for (name, p) in rows {
        let (n, data) = (p.requests(), p.reads.requests + p.writes.requests);
        let sum = p.reads.bytes + p.writes.bytes;
        table.row(vec![
            name.chars().take(40).collect(),
            n.to_string(),
            percent(n, all),
            percent(p.reads.requests, n),
            bytes(p.reads.bytes),
            bytes(p.writes.bytes),
            sum.checked_div(data).map_or("-".into(), bytes),
            percent(p.sequential, data),
        ]);
    }
    table.render()
}

/// Counts as a line of bars; each character is the sum of its part. Anything that is not nothing is visible.
fn plot(counts: &[u64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = WIDTH.min(counts.len()).max(1);
    let sum = |c: usize| {
        let (from, to) = (c * counts.len() / columns, (c + 1) * counts.len() / columns);
        counts[from..to].iter().sum::<u64>() as f64 / (to - from).max(1) as f64
    };
    let sums: Vec<f64> = (0..columns).map(sum).collect();
    let most = sums.iter().copied().fold(0.0, f64::max);
    if most == 0.0 {
        return " ".repeat(columns);
    }
    sums.iter().map(|s| BARS[(8.0 * s / most).ceil() as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_shows_the_least_and_ends_with_the_most() {
        assert_eq!(plot(&[0, 1, 100, 50]), " ▁█▄");
        assert_eq!(plot(&[]), " ");
        assert_eq!(plot(&[0, 0]), "  ");
        let wide = plot(&(0..1000).collect::<Vec<_>>());
        assert_eq!(wide.chars().count(), WIDTH);
        assert!(wide.starts_with('▁') && wide.ends_with('█'));
    }
}
