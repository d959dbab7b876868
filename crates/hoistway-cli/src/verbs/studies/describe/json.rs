//! The description for programs: times in ns, sizes in bytes.

use super::Described;
use hoistway_trace::Op;
use hoistway_trace::describe::Party;
use hoistway_trace::describe::sketch::Histogram;
use serde_json::{Value, json};

/// Version of the form. A new key does not change it.
const SCHEMA: u32 = 1;

pub(super) fn json(d: &Described<'_>) -> String {
    let load = d.load;
    let (s, a) = (&load.sequence, &load.arrivals);
    let ops: serde_json::Map<String, Value> = Op::ALL
        .iter()
        .zip(&load.ops)
        .map(|(op, c)| (op.to_string(), json!({ "requests": c.requests, "bytes": c.bytes })))
        .collect();
    let marks: serde_json::Map<String, Value> =
        load.marks.iter().map(|(name, n)| (name.to_string(), json!(n))).collect();
    let depth = load.has_completions().then(|| {
        json!({
            "mean": d.has_rate().then(|| load.depth.mean(load.span())),
            "at_arrival": if d.timed { histogram(&load.depth.at_arrival) } else { Value::Null },
            "response_read_ns": histogram(&load.depth.responses[0]),
            "response_other_ns": histogram(&load.depth.responses[1]),
            "completions_unmatched": load.depth.unmatched,
            "arrivals_lost": load.depth.lost,
        })
    });
    let dispersion =
        a.windows.iter().map(|w| json!({ "window_ns": w.length, "index": w.dispersion() }));
    let arrivals = d.timed.then(|| {
        let (peak, peak_at) = a.peak();
        let series: Vec<Value> = a.series.bins().iter().map(|b| json!(b)).collect();
        json!({
            "between_ns": histogram(&a.between),
            "dispersion": dispersion.collect::<Vec<_>>(),
            "peak_second": { "requests": peak, "at_ns": peak_at },
            "series": { "width_ns": a.series.width(), "columns": ["requests", "read_bytes", "write_bytes"],
                        "rows": series },
        })
    });
    let hot = load.hot.top(d.top).into_iter().map(|((device, region), n)| {
        json!({ "device": d.names.devices.name(device), "offset": region << 20, "requests": n })
    });
    let blocks = load.blocks.each_ref().map(|b| b.estimate());
    let value = json!({
        "schema": SCHEMA,
        "trace": d.trace,
        "format": d.format.name,
        "requests": load.requests(),
        "times_known": d.timed,
        "span_ns": d.timed.then(|| load.span()),
        "per_second": d.has_rate().then(|| load.requests() as f64 * 1e9 / load.span() as f64),
        "malformed": d.malformed,
        "late": d.late,
        "operations": ops,
        "marks": marks,
        "size_read": histogram(&load.sizes[0]),
        "size_write": histogram(&load.sizes[1]),
        "unaligned_4k": load.unaligned,
        "device_bytes_min": load.end,
        "sequential": {
            "requests": s.looked, "of_device": s.of_device, "of_process": s.of_process,
            "of_streams": s.of_streams, "run_bytes": histogram(&s.runs),
        },
        "arrivals": arrivals,
        "depth": depth,
        "working_set": {
            "read_bytes": blocks[0] << 12, "written_bytes": blocks[1] << 12, "bytes": blocks[2] << 12,
            "regions_1m": blocks[3], "relative_error": 0.008,
        },
        "concentration": {
            "place_bytes": load.places.width(), "top_1_percent": load.concentration(1.0),
            "top_10_percent": load.concentration(10.0),
        },
        "hot": { "regions_1m": hot.collect::<Vec<_>>(), "requests_too_low_by": load.hot.error() },
        "processes": parties(d, &load.processes, &d.names.processes),
        "devices": parties(d, &load.devices, &d.names.devices),
        "next": d.next(),
    });
    format!("{value:#}\n")
}

fn parties(d: &Described<'_>, all: &[Party], table: &hoistway_trace::Table) -> Value {
    let (rows, more) = d.most(all, table);
    let row = |(name, p): &(&str, &Party)| {
        json!({
            "name": name, "requests": p.requests(), "sequential": p.sequential,
            "reads": p.reads.requests, "read_bytes": p.reads.bytes,
            "writes": p.writes.requests, "written_bytes": p.writes.bytes,
        })
    };
    json!({ "top": rows.iter().map(row).collect::<Vec<_>>(), "more": more })
}

fn histogram(h: &Histogram) -> Value {
    if h.count() == 0 {
        return Value::Null;
    }
    let mut out = json!({ "count": h.count(), "mean": h.mean(), "max": h.max() });
    for percent in [1.0, 10.0, 50.0, 90.0, 99.0, 99.9] {
        out[format!("p{percent}")] = json!(h.percentile(percent));
    }
    out
}
