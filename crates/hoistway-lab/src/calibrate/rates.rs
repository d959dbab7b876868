//! io.cost's six rates and proposed latency targets from the same answers (specs/drives.md 10.4).

use super::Raw;
use super::candidate::{Candidate, Origin};
use hoistway_sim::probe::Outcome;

/// Proposals; nothing was tried with them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Targets {
    /// Latency target of reads, µs.
    pub read_us: Option<f64>,
    /// Latency target of writes, µs.
    pub write_us: Option<f64>,
}

fn answer<'a>(raw: &'a Raw, name: &str) -> Option<&'a Outcome> {
    raw.answers.iter().find(|a| a.test.name == name).map(|a| &a.outcome)
}

fn most_iops(raw: &Raw, prefixes: &[&str]) -> Option<f64> {
    let of = raw.answers.iter().filter(|a| prefixes.iter().any(|p| a.test.name.starts_with(p)));
    of.map(|a| a.outcome.iops(0)).max_by(f64::total_cmp)
}

/// Bytes per second in the last fifth: past bursts and caches, if the test was long enough.
fn sustained(o: &Outcome) -> f64 {
    let bins = &o.first().bins;
    let last = &bins[bins.len() - bins.len().div_ceil(5)..];
    let seconds = o.counted_ns as f64 / 1e9 * last.len() as f64 / bins.len().max(1) as f64;
    last.iter().sum::<u64>() as f64 / seconds.max(1e-9)
}

/// Puts the six rates that were measured into the file; the others are scaled from the class.
pub(super) fn fill(raw: &Raw, c: &mut Candidate) {
    let rate = |name: &str| answer(raw, name).map(|o| o.rate(0));
    let iops = |name: &str| answer(raw, name).map(|o| o.iops(0));
    let over = |name: &str, unit: f64| answer(raw, name).map(|o| sustained(o) / unit);
    let found = [
        ("rbps", rate("F4/1M").or_else(|| rate("H1/0 %")), "F4, H1"),
        ("rseqiops", iops("F4/4k deep").or_else(|| iops("H4/sequential 4k")), "F4, H4"),
        ("rrandiops", most_iops(raw, &["F1", "F2", "H6/depth"]), "F2, H6"),
        ("wbps", over("F6", 1.0).or_else(|| rate("H8/sequential")), "F6, H8"),
        ("wseqiops", iops("F7/sequential").or_else(|| iops("H8/sequential 4k")), "F7, H8"),
        ("wrandiops", over("F7/random", 4096.0).or_else(|| over("H8", 4096.0)), "F7, H8"),
    ];
    for (key, value, tests) in found {
        if let Some(value) = value {
            c.put("iocost", key, toml::Value::Integer(value.round().max(1.0) as i64));
            c.mark("iocost", &[key], Origin::Measured(tests.into()));
        }
    }
}

/// Factor from the 95th percentile of a lone access to a target.
const SLACK: f64 = 4.0;

/// Proposed targets: 4 times the 95th percentile of a lone access; on a disk the 95th percentile at depth 8.
pub fn targets(raw: &Raw) -> Targets {
    let p95 = |name: &str| {
        let commands = &answer(raw, name)?.first().commands;
        (commands.count > 0).then(|| commands.quantile_ns(0.95) / 1e3)
    };
    if raw.subject.rotational {
        // Writes go into the drive's cache; the target of reads is the only one that a disk can be held to.
        let read_us = p95("H6/depth 8");
        return Targets { read_us, write_us: p95("H8/sequential 4k").and(read_us) };
    }
    let of = |name| p95(name).map(|us| SLACK * us);
    Targets { read_us: of("F1"), write_us: of("F7/depth 1") }
}
