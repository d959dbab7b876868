//! Metrics in Prometheus' text format 0.0.4 (docs/guide/observe.md lists them).
//!
//! A metric is a row of [`METRICS`]: name, kind, help and how it is read; the text and the answer to `stats`
//! follow the table. Counters are sums over all clients of an export in a group, those that left included: they never
//! go back. Only connected clients have series of their own, and at most [`CLIENTS_MAX`] of them.

use hoistway::Nanos;
use hoistway::target::Answer;
use hoistway_serve::device::{
    ClientReport, DeviceStats, GroupSum, IoCounters, LatencyHistogram, OPS, OpCounters,
    TargetReport,
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
pub struct DeviceSnapshot {
    /// The name of its first export.
    pub device: String,
    /// What it is.
    pub target: String,
    /// Its exports, with the group of each.
    pub exports: Vec<(String, String)>,
    /// What it has done.
    pub stats: DeviceStats,
}

/// A metric: one row per name.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `gauge`, `counter` or `histogram`.
    pub kind: &'static str,
    /// What it is.
    pub help: &'static str,
    /// What it is read from.
    pub read: Read,
}

/// What a metric is read from; each sample has the labels of that.
pub enum Read {
    /// The server.
    Server(fn(&mut Samples<'_>)),
    /// A device: one number, and the field of `stats` that has it (`a.b`: the field `b` of `a`; empty: none).
    Device(&'static str, fn(&DeviceStats) -> u64),
    /// A device, with further labels.
    DeviceLabels(fn(&DeviceSnapshot, &mut Samples<'_>)),
    /// The clients of an export in a group.
    Group(fn(&Series<'_>) -> String),
    /// The same by kind of I/O, numbered as in [`OPS`].
    GroupOp(fn(&IoCounters, usize) -> Option<u64>),
    /// The same as a histogram.
    GroupOpTimes(fn(&OpCounters) -> Times<'_>),
    /// A histogram of the clients of an export in a group.
    GroupTimes(fn(&IoCounters) -> Times<'_>),
    /// A connection.
    Client(fn(&IoCounters) -> String),
}

/// A histogram with the sum of its times.
pub type Times<'a> = (&'a LatencyHistogram, Nanos);

const fn metric(kind: &'static str, name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, kind, help, read }
}

/// The metrics, in the order of the text.
pub static METRICS: &[Metric] = &[
    metric(
        "gauge",
        "hoistway_build_info",
        "Version of the server; always 1.",
        Read::Server(|out| {
            out.put(&[("version", env!("CARGO_PKG_VERSION"))], "1");
        }),
    ),
    metric(
        "gauge",
        "hoistway_device_info",
        "What a device is; always 1.",
        Read::DeviceLabels(|d, out| {
            out.put(&[("device", &d.device), ("target", &d.target)], "1");
        }),
    ),
    metric(
        "gauge",
        "hoistway_scheduler_info",
        "The scheduler and the controllers in force; always 1.",
        Read::DeviceLabels(|d, out| {
            let report = &d.stats.report;
            let controllers = report.controllers.join(",");
            let scheduler = ("scheduler", report.scheduler);
            out.put(&[("device", &d.device), scheduler, ("controllers", &controllers)], "1");
        }),
    ),
    metric(
        "gauge",
        "hoistway_stalled",
        "1: I/O waits and the device has had nothing to do for as long as the stall limit allows.",
        Read::Device("", |s| s.stall.is_some().into()),
    ),
    metric(
        "gauge",
        "hoistway_inflight_requests",
        "Requests with the device.",
        Read::Device("in_flight", |s| s.in_flight.into()),
    ),
    metric(
        "gauge",
        "hoistway_scheduler_requests",
        "Requests that exist and are not with the device.",
        Read::Device("", |s| s.requests.saturating_sub(s.in_flight).into()),
    ),
    metric(
        "gauge",
        "hoistway_request_limit",
        "Requests that may exist (nr_requests).",
        Read::Device("nr_requests", |s| s.report.nr_requests.into()),
    ),
    metric(
        "counter",
        "hoistway_stalls_total",
        "How often that happened.",
        Read::Device("stalls", |s| s.stalls),
    ),
    metric(
        "counter",
        "hoistway_device_issued_total",
        "Requests handed to the device.",
        Read::Device("counters.issued", |s| s.counters.issued),
    ),
    metric(
        "counter",
        "hoistway_device_completed_total",
        "Requests the device has completed.",
        Read::Device("counters.completed", |s| s.counters.completed),
    ),
    metric(
        "counter",
        "hoistway_merged_total",
        "I/Os and requests that joined another request.",
        Read::Device("counters.merged", |s| s.counters.merged + s.counters.joined),
    ),
    metric(
        "counter",
        "hoistway_tag_waits_total",
        "Times a client had to wait because all requests were in use.",
        Read::Device("counters.tag_waits", |s| s.counters.tag_waits),
    ),
    metric(
        "counter",
        "hoistway_requests_total",
        "I/Os that are over, failed ones included.",
        Read::GroupOp(|m, n| Some(m.ops[n].count)),
    ),
    metric(
        "counter",
        "hoistway_request_errors_total",
        "I/Os that failed.",
        Read::GroupOp(|m, n| Some(m.ops[n].errors)),
    ),
    metric(
        "counter",
        "hoistway_bytes_total",
        "Bytes of I/Os that did not fail.",
        Read::GroupOp(|m, n| (OPS[n].1 != "flush").then_some(m.ops[n].bytes)),
    ),
    metric(
        "histogram",
        "hoistway_request_duration_seconds",
        "Time from taking an I/O to its answer.",
        Read::GroupOpTimes(|of| (&of.times, of.time)),
    ),
    metric(
        "histogram",
        "hoistway_queue_wait_seconds",
        "Part of it that reads and writes waited to be handed to the device.",
        Read::GroupTimes(|m| (&m.waits, m.wait)),
    ),
    metric(
        "counter",
        "hoistway_outstanding_seconds_total",
        "Integral of the queue depth over time: its rate is the mean depth.",
        Read::Group(|s| seconds(s.counters.depth.0)),
    ),
    metric(
        "gauge",
        "hoistway_queue_depth",
        "I/Os taken that are not over.",
        Read::Group(|s| s.counters.outstanding.to_string()),
    ),
    metric("gauge", "hoistway_clients", "Connections.", Read::Group(|s| s.clients.to_string())),
    metric(
        "counter",
        "hoistway_client_requests_total",
        "I/Os of a connection that are over.",
        Read::Client(|m| m.ops.iter().map(|of| of.count).sum::<u64>().to_string()),
    ),
    metric(
        "counter",
        "hoistway_client_bytes_total",
        "Bytes a connection has read and written.",
        Read::Client(|m| moved(m).to_string()),
    ),
    metric(
        "counter",
        "hoistway_client_duration_seconds_total",
        "Sum of the times of its I/Os.",
        Read::Client(|m| seconds(m.ops.iter().map(|of| of.time.0).sum())),
    ),
    metric(
        "gauge",
        "hoistway_client_queue_depth",
        "Its I/Os that are not over.",
        Read::Client(|m| m.outstanding.to_string()),
    ),
    metric(
        "gauge",
        "hoistway_group_weight",
        "Weight in force of a group, where weights are known.",
        Read::DeviceLabels(|d, out| {
            for (group, weight) in d.stats.report.groups.iter().zip(&d.stats.weights) {
                if let Some(weight) = weight {
                    out.put(&[("device", &d.device), ("group", &group.name)], &weight.to_string());
                }
            }
        }),
    ),
    metric(
        "gauge",
        "hoistway_class_share_ratio",
        "Share of a group in the bytes its device has moved since the start.",
        Read::DeviceLabels(shares),
    ),
    metric(
        "gauge",
        "hoistway_scheduler_state",
        "Figures of the scheduler and gauges of the controllers, as they are.",
        Read::DeviceLabels(state),
    ),
    metric(
        "gauge",
        "hoistway_target_seconds",
        "Latency target of a group; of one without a number there is none.",
        Read::DeviceLabels(|d, out| {
            targets(d, out, |t| t.state.target);
        }),
    ),
    metric(
        "gauge",
        "hoistway_target_p99_seconds",
        "The 99th percentile lately of a group with a target, as its scheduler counts it.",
        Read::DeviceLabels(|d, out| targets(d, out, |t| Some(t.state.p99).filter(|p| p.0 > 0))),
    ),
    metric(
        "gauge",
        "hoistway_target_answer",
        "1 for how a target stands (met, or what stands in its way), 0 for the others.",
        Read::DeviceLabels(|d, out| {
            for t in &d.stats.report.targets {
                for answer in Answer::NAMES {
                    let labels =
                        [("device", &d.device[..]), ("group", &t.group), ("answer", answer)];
                    let is = if t.state.answer.name() == answer { "1" } else { "0" };
                    out.put(&labels, is);
                }
            }
        }),
    ),
    metric(
        "gauge",
        "hoistway_emulation_lateness_seconds",
        "How much later than the model an emulated drive answers, by quantile.",
        Read::DeviceLabels(|d, out| {
            let Some(f) = &d.stats.emulation else { return };
            for (quantile, late) in [("0.5", f.late_p50), ("0.99", f.late_p99)] {
                out.put(&[("device", &d.device), ("quantile", quantile)], &seconds(late.0));
            }
        }),
    ),
];

/// All metrics.
pub fn text(devices: &[DeviceSnapshot]) -> String {
    let groups: Vec<Series> = devices.iter().flat_map(group_series).collect();
    let clients: Vec<_> = devices.iter().flat_map(client_series).collect();
    let mut out = String::new();
    for Metric { name, kind, help, read } in METRICS {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        let samples = &mut Samples { name, out: &mut out };
        match read {
            Read::Server(put) => put(samples),
            Read::Device(_, value) => devices
                .iter()
                .for_each(|d| samples.put(&[("device", &d.device)], &value(&d.stats).to_string())),
            Read::DeviceLabels(put) => devices.iter().for_each(|d| put(d, samples)),
            Read::Group(value) => groups.iter().for_each(|s| samples.put(&s.labels, &value(s))),
            Read::GroupOp(value) => {
                for (s, (n, (_, op))) in
                    groups.iter().flat_map(|s| OPS.iter().enumerate().map(move |o| (s, o)))
                {
                    if let Some(value) = value(s.counters, n) {
                        samples.put(&with(&s.labels, ("op", op)), &value.to_string());
                    }
                }
            }
            Read::GroupOpTimes(times) => {
                for s in &groups {
                    for (of, (_, op)) in s.counters.ops.iter().zip(OPS) {
                        if of.count > 0 || matches!(op, "read" | "write") {
                            samples.histogram(&with(&s.labels, ("op", op)), times(of));
                        }
                    }
                }
            }
            Read::GroupTimes(times) => {
                groups.iter().for_each(|s| samples.histogram(&s.labels, times(s.counters)));
            }
            Read::Client(value) => {
                for (device, number, client, counters) in &clients {
                    let (export, group) = (&client.export[..], &client.group[..]);
                    let labels = [
                        ("device", *device),
                        ("export", export),
                        ("group", group),
                        ("client", number),
                    ];
                    samples.put(&labels, &value(counters));
                }
            }
        }
    }
    out
}

/// One line of labels with what is counted under it.
pub struct Series<'a> {
    labels: Vec<(&'static str, &'a str)>,
    clients: u32,
    counters: &'a IoCounters,
}

/// Sums by export and group; exports nobody has used yet have their zeroes.
fn group_series(of: &DeviceSnapshot) -> Vec<Series<'_>> {
    static NOTHING: std::sync::LazyLock<IoCounters> = std::sync::LazyLock::new(IoCounters::default);
    let labels =
        |export, group| vec![("device", &of.device[..]), ("export", export), ("group", group)];
    let sums = &of.stats.sums;
    let known = |e: &str, g: &str| sums.iter().any(|s| s.export == e && s.group == g);
    // Clients of this process, such as the flush at the end, belong to no export.
    let mut all = Vec::new();
    for GroupSum { export, group, clients, counters } in
        sums.iter().filter(|s| !s.export.is_empty())
    {
        all.push(Series { labels: labels(export, group), clients: *clients, counters });
    }
    for (export, group) in of.exports.iter().filter(|(e, g)| !known(e, g)) {
        all.push(Series { labels: labels(export, group), clients: 0, counters: &NOTHING });
    }
    all
}

/// A device's connections: its name, their number, who they are and what they have had done.
fn client_series(
    of: &DeviceSnapshot,
) -> impl Iterator<Item = (&str, String, &ClientReport, &IoCounters)> {
    let clients = of.stats.report.clients.iter().zip(&of.stats.client_stats).take(CLIENTS_MAX);
    clients.map(|(client, stats)| {
        (&of.device[..], client.connection.to_string(), client, &stats.counters)
    })
}

/// Bytes read and written.
fn moved(counters: &IoCounters) -> u64 {
    counters.ops[..2].iter().map(|of| of.bytes).sum()
}

fn shares(d: &DeviceSnapshot, out: &mut Samples<'_>) {
    let mut groups: Vec<(&str, u64)> = Vec::new();
    for sum in &d.stats.sums {
        match groups.iter_mut().find(|(name, _)| *name == sum.group) {
            Some((_, bytes)) => *bytes += moved(&sum.counters),
            None => groups.push((&sum.group, moved(&sum.counters))),
        }
    }
    let all = groups.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
    for (group, bytes) in groups {
        let share = format!("{:.6}", bytes as f64 / all as f64);
        out.put(&[("device", &d.device), ("group", group)], &share);
    }
}

fn targets(d: &DeviceSnapshot, out: &mut Samples<'_>, value: fn(&TargetReport) -> Option<Nanos>) {
    for t in &d.stats.report.targets {
        if let Some(value) = value(t) {
            out.put(&[("device", &d.device), ("group", &t.group)], &seconds(value.0));
        }
    }
}

fn state(d: &DeviceSnapshot, out: &mut Samples<'_>) {
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
        out.put(&labels, &f.value.to_string());
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

/// Where the samples of one metric go.
pub struct Samples<'a> {
    name: &'static str,
    out: &'a mut String,
}

impl Samples<'_> {
    /// One sample.
    fn put(&mut self, labels: &[(&str, &str)], value: &str) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: &str) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{}{label}=\"{text}\"", if n == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { " " } else { "} " };
        let _ = writeln!(self.out, "{end}{value}");
    }

    fn histogram(&mut self, labels: &[(&'static str, &str)], (spread, sum): Times<'_>) {
        let mut slots = spread.slots().peekable();
        let mut seen = 0;
        for bound in BOUNDS.map(|bits| 1u64 << bits) {
            while let Some((_, n)) = slots.next_if(|(top, _)| *top <= bound) {
                seen += n;
            }
            let le = seconds(bound);
            self.line("_bucket", &with(labels, ("le", &le)), &seen.to_string());
        }
        let all = (seen + slots.map(|(_, n)| n).sum::<u64>()).to_string();
        self.line("_bucket", &with(labels, ("le", "+Inf")), &all);
        self.line("_sum", labels, &seconds(sum.0));
        self.line("_count", labels, &all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_one_row_and_is_described() {
        let guide = include_str!("../../../../../docs/guide/observe.md");
        for (at, metric) in METRICS.iter().enumerate() {
            let name = metric.name;
            assert!(!METRICS[..at].iter().any(|other| other.name == name), "{name} twice");
            // Those of clients are listed by what follows the first one's name.
            let shown = name.strip_prefix("hoistway_client").filter(|rest| rest.starts_with('_'));
            assert!(guide.contains(name) || shown.is_some_and(|n| guide.contains(n)), "{name}");
            assert_eq!(metric.kind == "counter", name.ends_with("_total"), "{name}");
        }
    }
}
