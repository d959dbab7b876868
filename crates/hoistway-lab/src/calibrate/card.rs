//! An SD card or USB stick from its answers (specs/drives.md 10.3, C1).
//!
//! Reads: two sizes at random give the rate and the fixed part, reads in sequence how much of that is access. Writes: what
//! a small write far from the last one costs is the copying of an allocation unit; how many sequential writers keep the
//! full rate is the number of open units. The parameters share these figures and are searched together from several sizes.

use super::candidate::{Candidate, Origin};
use super::fit::Fit;
use super::search::{Parameter, Space};
use hoistway_sim::probe::Outcome;

fn mean_us(o: &Outcome) -> f64 {
    o.first().commands.mean_ns / 1e3
}

/// Fits all that the answers tell.
pub fn fit(fit: &Fit<'_>, c: &mut Candidate) {
    reads(fit, c);
    if fit.answer("F7/depth 1").is_some() {
        writes(fit, c);
    }
}

const TIME: Space = Space::Between(0.05, 1_000_000.0);
const RATE: Space = Space::Between(0.05, 10_000.0);

/// Order: command, access, rate.
const READS: &[Parameter<Candidate>] = &[
    Parameter { space: TIME, apply: |c, v| c.set("card", "cmd_us", v) },
    Parameter { space: TIME, apply: |c, v| c.set("card", "read_access_us", v) },
    Parameter { space: RATE, apply: |c, v| c.set("card", "read_mb_s", v) },
];

fn reads(fit: &Fit<'_>, c: &mut Candidate) {
    let (Some(small), Some(large)) = (fit.answer("F1"), fit.answer("F3/512k")) else { return };
    let rate = (508.0 * 1024.0) / (mean_us(large) - mean_us(small)).max(1.0);
    let fixed = (mean_us(small) - 4096.0 / rate).max(1.0);
    let sequential = fit.answer("F4/4k").map_or(0.5 * fixed, |o| mean_us(o) - 4096.0 / rate);
    let command = sequential.clamp(0.02 * fixed, 0.98 * fixed);
    let start = [command, fixed - command, rate];
    fit.search(c, READS, &start, &["F1", "F3", "F4"], 30);
    // Uniform in 1 - j to 1 + j, as of flash.
    let q = &small.first().commands;
    let width = q.quantile_ns(0.95) - q.quantile_ns(0.05);
    c.set("card", "jitter", (width / 1.8 / q.mean_ns.max(1.0)).clamp(0.0, 0.9));
    let keys = ["cmd_us", "read_access_us", "read_mb_s", "jitter"];
    c.mark("card", &keys, Origin::Measured("F1, F3, F4".into()));
}

const UNITS: &[f64] = &[512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0];
/// Order: rate, copying, opening, allocation unit, open units, write unit.
const WRITES: &[Parameter<Candidate>] = &[
    Parameter { space: RATE, apply: |c, v| c.set("card", "write_mb_s", v) },
    Parameter { space: RATE, apply: |c, v| c.set("card", "copy_mb_s", v) },
    Parameter { space: Space::Between(0.01, 1000.0), apply: |c, v| c.set("card", "erase_ms", v) },
    Parameter { space: Space::OneOf(UNITS), apply: |c, v| c.set("card", "allocation_unit_kib", v) },
    Parameter {
        space: Space::OneOf(&[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0]),
        apply: |c, v| c.set("card", "open_units", v),
    },
    Parameter {
        space: Space::OneOf(&[4.0, 8.0, 16.0, 32.0, 64.0, 128.0]),
        apply: |c, v| c.set("card", "write_unit_kib", v),
    },
];
const ROUNDS: usize = 24;

fn writes(fit: &Fit<'_>, c: &mut Candidate) {
    if let Some(o) = fit.answer("F8/alone").filter(|o| o.first().flushes.count > 0) {
        c.set("card", "flush_us", o.first().flushes.mean_ns / 1e3);
        c.mark("card", &["flush_us"], Origin::Measured("F8".into()));
    }
    let rate = fit.answer("F6/rate").map_or(10.0, |o| o.rate(0) / 1e6).max(0.05);
    let random = fit.answer("F7/depth 1").map_or(100_000.0, mean_us);
    let erase = c.get("card", "erase_ms").max(0.1);
    let mut best: Option<(f64, Candidate)> = None;
    for unit in [1024.0, 4096.0, 16_384.0] {
        for open in [1.0, 4.0] {
            let mut tried = c.clone();
            // A random write copies a unit.
            let copy = (unit * 1024.0 / random).max(0.05);
            let start = [rate, copy, erase, unit, open, 32.0];
            let error =
                fit.search(&mut tried, WRITES, &start, &["F6/rate", "F7", "F8", "C1"], ROUNDS);
            if best.as_ref().is_none_or(|(e, _)| error < *e) {
                best = Some((error, tried));
            }
        }
    }
    *c = best.expect("there are starts").1;
    let keys = [
        "write_mb_s",
        "copy_mb_s",
        "erase_ms",
        "allocation_unit_kib",
        "open_units",
        "write_unit_kib",
    ];
    c.mark("card", &keys, Origin::Measured("C1, F6 to F8".into()));
}
