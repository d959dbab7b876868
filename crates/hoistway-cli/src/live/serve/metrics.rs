//! Metrics in Prometheus' text format 0.0.4 (docs/guide/observe.md lists them).
//!
//! Counters are sums over all clients of an export in a group, those that left included: they never
//! go back. Only connected clients have series of their own, and at most [`CLIENTS_MAX`] of them.

use hoistway::Nanos;
use hoistway_live::device::{
    ClientReport, ClientStats, DeviceStats, GroupSum, IoCounters, LatencyHistogram, OPS,
};
use std::fmt::Write as _;

/// `Content-Type` of the text.
pub const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Clients of a device with series of their own: those that came first.
pub const CLIENTS_MAX: usize = 64;
/// Bounds of the buckets are the powers of two from 2^11 ns (2.048 us) to 2^35 ns (34.4 s): the
/// engine counts them exactly.
const BOUNDS: std::ops::RangeInclusive<u32> = 11..=35;

/// A device as the metrics know it.
#[derive(Debug)]
pub struct Named {
    /// The name of its first export.
    pub device: String,
    /// What it is.
    pub target: String,
    /// Its exports, with the group of each.
    pub exports: Vec<(String, String)>,
    /// What it has done.
    pub stats: DeviceStats,
}

/// All metrics.
pub fn text(devices: &[Named]) -> String {
    let mut out = Out(String::new());
    out.family("hoistway_build_info", "gauge", "Version of the server; always 1.");
    out.sample("hoistway_build_info", &[("version", env!("CARGO_PKG_VERSION"))], "1");
    about_devices(&mut out, devices);
    let groups: Vec<Series> = devices.iter().flat_map(group_series).collect();
    by_group(&mut out, &groups);
    by_client(&mut out, devices);
    figures(&mut out, devices);
    out.0
}

/// One line of labels with what is measured under it.
struct Series<'a> {
    labels: Vec<(&'static str, &'a str)>,
    clients: u32,
    counters: &'a IoCounters,
}

/// Sums by export and group; exports nobody has used yet have their zeroes.
fn group_series(named: &Named) -> Vec<Series<'_>> {
    static NOTHING: std::sync::LazyLock<IoCounters> = std::sync::LazyLock::new(IoCounters::default);
    let labels =
        |export, group| vec![("device", &named.device[..]), ("export", export), ("group", group)];
    let sums = &named.stats.sums;
    let known = |e: &str, g: &str| sums.iter().any(|s| s.export == e && s.group == g);
    // Clients of this process, such as the flush at the end, belong to no export.
    let mut all = Vec::new();
    for GroupSum { export, group, clients, counters } in
        sums.iter().filter(|s| !s.export.is_empty())
    {
        all.push(Series { labels: labels(export, group), clients: *clients, counters });
    }
    for (export, group) in named.exports.iter().filter(|(e, g)| !known(e, g)) {
        all.push(Series { labels: labels(export, group), clients: 0, counters: &NOTHING });
    }
    all
}

fn about_devices(out: &mut Out, devices: &[Named]) {
    out.family("hoistway_device_info", "gauge", "What a device is; always 1.");
    for d in devices {
        out.sample("hoistway_device_info", &[("device", &d.device), ("target", &d.target)], "1");
    }
    out.family(
        "hoistway_scheduler_info",
        "gauge",
        "The scheduler and the controllers in force; always 1.",
    );
    for d in devices {
        let report = &d.stats.report;
        let controllers = report.controllers.join(",");
        let labels = [
            ("device", &d.device[..]),
            ("scheduler", report.scheduler),
            ("controllers", &controllers),
        ];
        out.sample("hoistway_scheduler_info", &labels, "1");
    }
    type Value = fn(&DeviceStats) -> u64;
    let gauges: [(&str, &str, Value); 4] = [
        (
            "hoistway_stalled",
            "1: I/O waits and the device has had nothing to do for as long as the stall limit allows.",
            |s| s.stall.is_some().into(),
        ),
        ("hoistway_inflight_requests", "Requests with the device.", |s| s.in_flight.into()),
        ("hoistway_scheduler_requests", "Requests that exist and are not with the device.", |s| {
            s.requests.saturating_sub(s.in_flight).into()
        }),
        ("hoistway_request_limit", "Requests that may exist (nr_requests).", |s| {
            s.report.nr_requests.into()
        }),
    ];
    let counters: [(&str, &str, Value); 5] = [
        ("hoistway_stalls_total", "How often that happened.", |s| s.stalls),
        ("hoistway_device_issued_total", "Requests handed to the device.", |s| s.counters.issued),
        ("hoistway_device_completed_total", "Requests the device has completed.", |s| {
            s.counters.completed
        }),
        ("hoistway_merged_total", "I/Os and requests that joined another request.", |s| {
            s.counters.merged + s.counters.joined
        }),
        (
            "hoistway_tag_waits_total",
            "Times a client had to wait because all requests were in use.",
            |s| s.counters.tag_waits,
        ),
    ];
    let with = |kind: &'static str| move |(name, help, value)| (kind, name, help, value);
    let all =
        gauges.into_iter().map(with("gauge")).chain(counters.into_iter().map(with("counter")));
    for (kind, name, help, value) in all {
        out.family(name, kind, help);
        for d in devices {
            out.sample(name, &[("device", &d.device)], &value(&d.stats).to_string());
        }
    }
}

fn by_group(out: &mut Out, groups: &[Series]) {
    let by_op = |out: &mut Out, name, help, value: fn(&IoCounters, usize) -> Option<u64>| {
        out.family(name, "counter", help);
        for s in groups {
            for (n, (_, op)) in OPS.iter().enumerate() {
                if let Some(value) = value(s.counters, n) {
                    out.sample(name, &with(&s.labels, ("op", op)), &value.to_string());
                }
            }
        }
    };
    by_op(out, "hoistway_requests_total", "I/Os that are over, failed ones included.", |m, n| {
        Some(m.ops[n].count)
    });
    by_op(out, "hoistway_request_errors_total", "I/Os that failed.", |m, n| Some(m.ops[n].errors));
    by_op(out, "hoistway_bytes_total", "Bytes of I/Os that did not fail.", |m, n| {
        (OPS[n].1 != "flush").then_some(m.ops[n].bytes)
    });
    let name = "hoistway_request_duration_seconds";
    out.family(name, "histogram", "Time from taking an I/O to its answer.");
    for s in groups {
        for (of, (_, op)) in s.counters.ops.iter().zip(OPS) {
            if of.count > 0 || matches!(op, "read" | "write") {
                out.histogram(name, &with(&s.labels, ("op", op)), &of.times, of.time);
            }
        }
    }
    let name = "hoistway_queue_wait_seconds";
    out.family(
        name,
        "histogram",
        "Part of it that reads and writes waited to be handed to the device.",
    );
    for s in groups {
        out.histogram(name, &s.labels, &s.counters.waits, s.counters.wait);
    }
    let name = "hoistway_outstanding_seconds_total";
    out.family(
        name,
        "counter",
        "Integral of the queue depth over time: its rate is the mean depth.",
    );
    for s in groups {
        out.sample(name, &s.labels, &seconds(s.counters.depth.0));
    }
    out.family("hoistway_queue_depth", "gauge", "I/Os taken that are not over.");
    for s in groups {
        out.sample("hoistway_queue_depth", &s.labels, &s.counters.outstanding.to_string());
    }
    out.family("hoistway_clients", "gauge", "Connections.");
    for s in groups {
        out.sample("hoistway_clients", &s.labels, &s.clients.to_string());
    }
}

fn by_client(out: &mut Out, devices: &[Named]) {
    let mut clients = Vec::new();
    for d in devices {
        let of: Vec<_> = d.stats.report.clients.iter().zip(&d.stats.client_stats).collect();
        for (client, stats) in of.into_iter().take(CLIENTS_MAX) {
            clients.push((&d.device[..], client.connection.to_string(), client, stats));
        }
    }
    type Value = fn(&IoCounters) -> String;
    let all: [(&str, &str, &str, Value); 4] = [
        ("hoistway_client_requests_total", "counter", "I/Os of a connection that are over.", |m| {
            m.ops.iter().map(|of| of.count).sum::<u64>().to_string()
        }),
        (
            "hoistway_client_bytes_total",
            "counter",
            "Bytes a connection has read and written.",
            |m| m.ops[..2].iter().map(|of| of.bytes).sum::<u64>().to_string(),
        ),
        (
            "hoistway_client_duration_seconds_total",
            "counter",
            "GroupSum of the times of its I/Os.",
            |m| seconds(m.ops.iter().map(|of| of.time.0).sum()),
        ),
        ("hoistway_client_queue_depth", "gauge", "Its I/Os that are not over.", |m| {
            m.outstanding.to_string()
        }),
    ];
    for (name, kind, help, value) in all {
        out.family(name, kind, help);
        for (device, number, client, stats) in &clients {
            let (client, stats): (&ClientReport, &ClientStats) = (client, stats);
            let labels = [
                ("device", *device),
                ("export", &client.export),
                ("group", &client.group),
                ("client", number),
            ];
            out.sample(name, &labels, &value(&stats.counters));
        }
    }
}

fn figures(out: &mut Out, devices: &[Named]) {
    out.family(
        "hoistway_group_weight",
        "gauge",
        "Weight in force of a group, where weights are known.",
    );
    for d in devices {
        for (group, weight) in d.stats.report.groups.iter().zip(&d.stats.weights) {
            if let Some(weight) = weight {
                let labels = [("device", &d.device[..]), ("group", &group.name)];
                out.sample("hoistway_group_weight", &labels, &weight.to_string());
            }
        }
    }
    let name = "hoistway_class_share_ratio";
    out.family(
        name,
        "gauge",
        "Share of a group in the bytes its device has moved since the start.",
    );
    for d in devices {
        let moved = |m: &IoCounters| m.ops[..2].iter().map(|of| of.bytes).sum::<u64>();
        let mut groups: Vec<(&str, u64)> = Vec::new();
        for sum in &d.stats.sums {
            match groups.iter_mut().find(|(name, _)| *name == sum.group) {
                Some((_, bytes)) => *bytes += moved(&sum.counters),
                None => groups.push((&sum.group, moved(&sum.counters))),
            }
        }
        let all = groups.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
        for (group, bytes) in groups {
            let labels = [("device", &d.device[..]), ("group", group)];
            out.sample(name, &labels, &format!("{:.6}", bytes as f64 / all as f64));
        }
    }
    let name = "hoistway_scheduler_state";
    out.family(
        name,
        "gauge",
        "Figures of the scheduler and gauges of the controllers, as they are.",
    );
    for d in devices {
        for f in &d.stats.state {
            let of = f.of.map_or_else(String::new, |n| n.to_string());
            let labels = [
                ("device", &d.device[..]),
                ("stage", f.stage),
                ("name", f.name),
                ("unit", f.unit),
                ("group", f.group.as_deref().unwrap_or_default()),
                ("of", &of),
            ];
            out.sample(name, &labels, &f.value.to_string());
        }
    }
    let name = "hoistway_emulation_lateness_seconds";
    out.family(
        name,
        "gauge",
        "How much later than the model an emulated drive answers, by quantile.",
    );
    for d in devices {
        if let Some(f) = &d.stats.emulation {
            for (quantile, late) in [("0.5", f.late_p50), ("0.99", f.late_p99)] {
                let labels = [("device", &d.device[..]), ("quantile", quantile)];
                out.sample(name, &labels, &seconds(late.0));
            }
        }
    }
}

fn with<'a>(
    labels: &[(&'static str, &'a str)],
    more: (&'static str, &'a str),
) -> Vec<(&'static str, &'a str)> {
    [labels, &[more]].concat()
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

struct Out(String);

impl Out {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if n == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { " " } else { "} " };
        let _ = writeln!(self.0, "{end}{value}");
    }

    fn histogram(
        &mut self,
        name: &str,
        labels: &[(&'static str, &str)],
        spread: &LatencyHistogram,
        sum: Nanos,
    ) {
        let mut slots = spread.slots().peekable();
        let mut seen = 0;
        let bucket = format!("{name}_bucket");
        for bound in BOUNDS.map(|bits| 1u64 << bits) {
            while let Some((_, n)) = slots.next_if(|(top, _)| *top <= bound) {
                seen += n;
            }
            let le = seconds(bound);
            self.sample(&bucket, &with(labels, ("le", &le)), &seen.to_string());
        }
        let all = (seen + slots.map(|(_, n)| n).sum::<u64>()).to_string();
        self.sample(&bucket, &with(labels, ("le", "+Inf")), &all);
        self.sample(&format!("{name}_sum"), labels, &seconds(sum.0));
        self.sample(&format!("{name}_count"), labels, &all);
    }
}
