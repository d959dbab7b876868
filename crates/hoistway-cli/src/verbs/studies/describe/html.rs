//! The description as a page with charts.

use super::{Described, bytes, percent, short, size_rows};
use hoistway_lab::report::load::{LoadShares, Page, Series, Table};
use hoistway_trace::Op;
use hoistway_trace::describe::Party;

pub(super) fn page(d: &Described<'_>) -> Page {
    let load = d.load;
    let n = load.requests();
    let mut facts: Vec<String> = Op::ALL
        .iter()
        .zip(&load.ops)
        .filter(|(_, c)| c.requests > 0)
        .map(|(op, c)| format!("{op} {}, {}", percent(c.requests, n), bytes(c.bytes)))
        .collect();
    let s = &load.sequence;
    facts.push(format!("sequential by process {}", percent(s.of_process, s.looked)));
    facts.push(format!("working set about {}", bytes(load.blocks[2].estimate() << 12)));
    facts.push(match load.has_completions() && d.has_rate() {
        true => format!("depth {} on average", short(load.depth.mean(load.span()))),
        false => "depth unknown".into(),
    });
    let shares = |title: &str, axis: &str, rows: Vec<(String, u64)>| {
        let all = rows.iter().map(|(_, n)| n).sum::<u64>().max(1);
        let rows = rows.into_iter().map(|(label, n)| (label, n as f64 / all as f64)).collect();
        LoadShares { title: title.into(), axis: axis.into(), rows }
    };
    let sizes = size_rows(load);
    let mut distributions = Vec::new();
    for (what, rows) in [
        ("reads", sizes.iter().map(|(l, r, _)| (l.clone(), *r)).collect::<Vec<_>>()),
        ("writes", sizes.iter().map(|(l, _, w)| (l.clone(), *w)).collect()),
    ] {
        if rows.iter().any(|(_, n)| *n > 0) {
            distributions.push(shares(
                &format!("Sizes of {what}"),
                &format!("share of {what}"),
                rows,
            ));
        }
    }
    distributions.push(shares("Where on the device", "share of reads and writes", places(d)));
    Page {
        title: format!("The load of {}", d.trace),
        lead: format!("{}; {}.", d.format.summary, d.how_many()),
        facts,
        series: series(d),
        shares: distributions,
        tables: vec![
            table(d, "Processes", &load.processes, &d.names.processes),
            table(d, "Devices", &load.devices, &d.names.devices),
        ],
        next: d.next(),
    }
}

fn series(d: &Described<'_>) -> Vec<Series> {
    let all = &d.load.arrivals.series;
    let width = all.width() as f64 / 1e9;
    let points = |of: usize, scale: f64| -> Vec<(f64, f64)> {
        let value =
            |(i, b): (usize, &[u64; 3])| ((i as f64 + 0.5) * width, b[of] as f64 / width / scale);
        all.bins().iter().enumerate().map(value).collect()
    };
    // A line needs two points.
    if all.bins().len() < 2 || !d.timed {
        return Vec::new();
    }
    vec![
        Series {
            name: "requests".into(),
            unit: "1/s".into(),
            lines: vec![("requests".into(), points(0, 1.0))],
        },
        Series {
            name: "data (A read, B written)".into(),
            unit: "MB/s".into(),
            lines: vec![("read".into(), points(1, 1e6)), ("written".into(), points(2, 1e6))],
        },
    ]
}

/// Sixteen parts of the device.
fn places(d: &Described<'_>) -> Vec<(String, u64)> {
    let bins = d.load.places.bins();
    let parts = bins.chunks(bins.len().div_ceil(16).max(1));
    let width = d.load.places.width() * bins.len().div_ceil(16).max(1) as u64;
    let label = |n: usize| format!("from {}", bytes(n as u64 * width));
    parts.enumerate().map(|(n, c)| (label(n), c.iter().map(|b| b[0]).sum())).collect()
}

fn table(d: &Described<'_>, title: &str, all: &[Party], names: &hoistway_trace::Table) -> Table {
    let (rows, more) = d.most(all, names);
    let headings = ["name", "requests", "reads", "read", "written", "sequential"];
    let row = |(name, p): &(&str, &Party)| {
        vec![
            name.to_string(),
            p.requests().to_string(),
            percent(p.reads.requests, p.requests()),
            bytes(p.reads.bytes),
            bytes(p.writes.bytes),
            percent(p.sequential, p.reads.requests + p.writes.requests),
        ]
    };
    let title = if more > 0 { format!("{title} ({more} more)") } else { title.to_string() };
    Table {
        title,
        headings: headings.map(String::from).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}
