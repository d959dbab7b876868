//! A metered volume or a fixed latency from its answers (specs/drives.md 10.3, B1).
//!
//! The latency and its spread are those of a lone command; the limits are what deep queues of small and of large commands
//! reach at last; the bursts are what they get before. How many commands run at once shows where neither limit holds.

use super::candidate::{Candidate, Origin};
use super::fit::{Fit, REACTION, REACTIONS};
use super::search::{Parameter, Space};
use hoistway_sim::probe::{Outcome, Test};

/// A rate that stays below this part of what the latency would allow at this depth is limited.
const LIMITED: f64 = 0.9;

/// Fits all that the answers tell.
pub fn fit(fit: &Fit<'_>, c: &mut Candidate) {
    latencies(fit, c);
    limits(fit, c);
    bursts(fit, c);
    reaction(fit, c);
    // Longest commands that count once, and whether small ones in sequence count once.
    let unit = c.get("bucket", "io_unit_kib");
    let tests = ["F3", "F4", "B1"];
    let mut best: Option<(f64, Candidate)> = None;
    for merge in [false, true] {
        let mut tried = c.clone();
        tried.put("bucket", "merge_sequential", merge.into());
        let error = fit.search(&mut tried, UNIT, &[unit], &tests, 12);
        if best.as_ref().is_none_or(|(e, _)| error < *e) {
            best = Some((error, tried));
        }
    }
    *c = best.expect("both were tried").1;
    c.mark("bucket", &["io_unit_kib", "merge_sequential"], Origin::Measured("F3, F4".into()));
}

/// Flushes of many at once show how the asking machine reacts after one.
fn reaction(fit: &Fit<'_>, c: &mut Candidate) {
    if fit.answer("F8/15 writers").is_some() {
        let mut late = c.clone();
        let error = fit.search(&mut late, &[REACTION], &REACTIONS[1..], &["F8"], REACTION_ROUNDS);
        if error < CLEARLY * fit.error_of(c, &fit.tests(&["F8"])) {
            *c = late;
        }
    }
}

/// A reaction must lower the error to this part.
const CLEARLY: f64 = 0.8;

/// Passes over the few values there are.
const REACTION_ROUNDS: usize = 8;

const UNIT: &[Parameter<Candidate>] = &[Parameter {
    space: Space::OneOf(&[4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]),
    apply: |c, v| c.set("bucket", "io_unit_kib", v),
}];

/// Lone commands; they take no tokens that are not there.
fn latencies(fit: &Fit<'_>, c: &mut Candidate) {
    if let Some(o) = fit.answer("F1") {
        let q = &o.first().commands;
        c.set("bucket", "read_us", q.mean_ns / 1e3);
        // Log-normal: the logarithms of the quartiles are 1.349 sigma apart.
        let (low, high) = (q.quantile_ns(0.25), q.quantile_ns(0.75));
        c.set("bucket", "sigma", libm::log(high.max(1.0) / low.max(1.0)) / 1.349);
        c.mark("bucket", &["read_us", "sigma"], Origin::Measured("F1".into()));
    }
    if let Some(o) = fit.answer("F7/depth 1") {
        c.set("bucket", "write_us", o.first().commands.mean_ns / 1e3);
        c.mark("bucket", &["write_us"], Origin::Measured("F7".into()));
    }
    if let Some(o) = fit.answer("F8/alone") {
        c.set("bucket", "flush_us", o.first().flushes.mean_ns / 1e3);
        c.mark("bucket", &["flush_us"], Origin::Measured("F8".into()));
    }
    c.remove("link", "write_rate_mb_s");
}

/// Bytes per second in the second half: past the bursts.
fn lasting(o: &Outcome) -> f64 {
    let bins = &o.first().bins;
    let half = &bins[bins.len() / 2..];
    let seconds = o.counted_ns as f64 / 1e9 * half.len() as f64 / bins.len().max(1) as f64;
    half.iter().sum::<u64>() as f64 / seconds.max(1e-9)
}

/// Operations, bytes, commands at once.
fn limits(fit: &Fit<'_>, c: &mut Candidate) {
    let latency = c.get("bucket", "read_us") / 1e6;
    let free = |t: &Test| f64::from(t.streams[0].depth) / latency;
    let small = fit.tests(&["B1/4k"]);
    let large = fit.tests(&["B1/256k"]);
    if let Some((test, o)) = small.first() {
        let iops = lasting(o) / 4096.0;
        let limited = iops < LIMITED * free(test);
        c.set("bucket", "iops", if limited { iops } else { 0.0 });
        c.mark("bucket", &["iops"], Origin::Measured("B1".into()));
    }
    if let Some((test, o)) = large.first() {
        let rate = lasting(o);
        let operations = rate / test.streams[0].bytes as f64;
        let metered = c.get("bucket", "iops");
        let by_operations = metered > 0.0 && operations > LIMITED * metered;
        let limited = operations < LIMITED * free(test) && !by_operations;
        c.set("bucket", "bytes_mb_s", if limited { rate / 1e6 } else { 0.0 });
        c.mark("bucket", &["bytes_mb_s"], Origin::Measured("B1".into()));
    }
    let deepest = fit.tests(&["F1", "F2"]).last().map(|(t, o)| (t.streams[0].depth, o.iops(0)));
    if let Some((depth, iops)) = deepest {
        // Where no limit holds, the commands at once are the rate times the latency.
        let at_once = iops * latency;
        let shows = c.get("bucket", "iops") == 0.0 && at_once < LIMITED * f64::from(depth);
        let parallel =
            if shows { at_once } else { c.get("bucket", "parallel").max(f64::from(depth)) };
        c.set("bucket", "parallel", parallel.max(1.0));
        if shows {
            c.mark("bucket", &["parallel"], Origin::Measured("F2".into()));
        }
    }
}

/// What is served above the lasting rate at first.
fn bursts(fit: &Fit<'_>, c: &mut Candidate) {
    let excess = |name: &str| {
        let o = fit.answer(name)?;
        let bins = &o.first().bins;
        let usual = lasting(o) * o.counted_ns as f64 / 1e9 / bins.len().max(1) as f64;
        let above = bins.iter().take_while(|&&b| b as f64 > 1.02 * usual);
        Some(above.map(|&b| b as f64 - usual).sum::<f64>())
    };
    if c.get("bucket", "iops") > 0.0
        && let Some(bytes) = excess("B1/4k")
    {
        c.set("bucket", "iops_burst", (bytes / 4096.0).max(1.0));
        c.mark("bucket", &["iops_burst"], Origin::Measured("B1".into()));
    }
    if c.get("bucket", "bytes_mb_s") > 0.0
        && let Some(bytes) = excess("B1/256k")
    {
        c.set("bucket", "bytes_burst_kib", bytes / 1024.0);
        c.mark("bucket", &["bytes_burst_kib"], Origin::Measured("B1".into()));
    }
}
