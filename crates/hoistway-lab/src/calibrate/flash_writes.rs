//! Writes and flushes of a flash drive (specs/drives.md 10.3, F6 to F11).

use super::candidate::{Candidate, Origin};
use super::fit::{Fit, REACTION, REACTIONS};
use super::flash::flag;
use super::search::{Parameter, Space};
use toml::Value;

const TIME: Space = Space::Between(0.05, 100_000.0);

/// Order: controller, acknowledgement, program, its unit (the rate stays), flush, buffer, the asking machine's reaction,
/// suspension.
const PARAMETERS: &[Parameter<Candidate>] = &[
    Parameter { space: TIME, apply: |c, v| c.set("flash", "cmd_write_us", v) },
    Parameter { space: TIME, apply: |c, v| c.set("flash", "write_ack_us", v) },
    Parameter { space: TIME, apply: |c, v| c.set("flash", "program_us", v) },
    Parameter { space: Space::Between(4.0, 4096.0), apply: set_unit },
    Parameter { space: TIME, apply: |c, v| c.set("flash", "flush_us", v) },
    Parameter { space: Space::OneOf(BUFFERS), apply: set_buffer },
    REACTION,
    Parameter {
        space: Space::Between(1.0, 20_000.0),
        apply: |c, v| c.set("flash", "suspend_us", v),
    },
];
/// Those that are there when programs are never suspended.
const WITHOUT_SUSPENSION: usize = 7;
/// KiB; what a burst fills before it waits for programs (F9), and what a flush after 8 MiB finds.
const BUFFERS: &[f64] =
    &[256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0];

/// The rate of programs stays: the parameter before it is the time of a program of the unit there was, so this one
/// changes both.
fn set_unit(c: &mut Candidate, v: f64) {
    let (unit, time) = (c.get("flash", "program_unit_kib"), c.get("flash", "program_us"));
    let v = v.round();
    c.set("flash", "program_us", time * v / unit);
    c.set("flash", "program_unit_kib", v);
    let buffer = c.get("flash", "write_buffer_kib").max(2.0 * v);
    c.set("flash", "write_buffer_kib", buffer);
}

/// Two units at least, or nothing is programmed while the next is taken.
fn set_buffer(c: &mut Candidate, v: f64) {
    let least = 2.0 * c.get("flash", "program_unit_kib");
    c.set("flash", "write_buffer_kib", v.max(least));
}

/// Tests of a fresh drive that say how it writes and flushes.
const WRITES: &[&str] = &["F7/depth 1", "F7/sequential", "F6/rate", "F9", "F8", "F10"];
const ROUNDS_FIRST: usize = 7;
const ROUNDS_LAST: usize = 40;
const KEPT: usize = 2;

/// Fits what the tests of writes tell.
pub fn fit(fit: &Fit<'_>, c: &mut Candidate) {
    c.set("flash", "slc_cache_mib", 0.0);
    writes(fit, c);
    plateaus(fit, c);
    discards(fit, c);
}

/// What a flush waits for, and who waits for it or for programs, cannot be read off a figure: every alternative is fitted
/// for a while, the most alike to the end.
fn writes(fit: &Fit<'_>, c: &mut Candidate) {
    let mut starts = Vec::new();
    for blocks in ["none", "all"] {
        for plp in [false, true] {
            for suspend in [0.0, 100.0] {
                let mut tried = c.clone();
                tried.put("flash", "flush_blocks", Value::String(blocks.into()));
                flag(&mut tried, "plp", plp);
                tried.set("flash", "suspend_us", suspend);
                for (alone, reaction) in machines(&tried) {
                    let mut tried = tried.clone();
                    tried.put("host", "flush_nonqueued", alone.into());
                    tried.reaction_us = reaction;
                    let start = start(fit, &tried, plp);
                    let error = search(fit, &mut tried, start, ROUNDS_FIRST);
                    starts.push((error, tried));
                }
            }
        }
    }
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let refined = starts.into_iter().take(KEPT).map(|(_, mut tried)| {
        let now = ["cmd_write_us", "write_ack_us", "program_us", "program_unit_kib", "flush_us"];
        let [command, ack, program, unit, flush] = now.map(|key| tried.get("flash", key));
        let suspend = tried.get("flash", "suspend_us");
        let buffer = tried.get("flash", "write_buffer_kib");
        let start = [command, ack, program, unit, flush, buffer, tried.reaction_us, suspend];
        let error = search(fit, &mut tried, start, ROUNDS_LAST);
        (error, tried)
    });
    *c = refined.min_by(|a, b| a.0.total_cmp(&b.0)).expect("alternatives were tried").1;
    let keys = [
        "cmd_write_us",
        "write_ack_us",
        "program_us",
        "program_unit_kib",
        "flush_us",
        "flush_blocks",
        "plp",
        "suspend_us",
        "write_buffer_kib",
    ];
    c.mark("flash", &keys, Origin::Measured("F6 to F10".into()));
}

/// Whether flushes run alone: the transport says so; where it is unknown (a loop device, a virtual disk) the tests do.
pub(super) fn transports(c: &Candidate) -> Vec<bool> {
    let told = c.is("host", "flush_nonqueued");
    if c.text_of("host", "bus") == "virtual" { vec![false, true] } else { vec![told] }
}

/// Ways in which flushes may run and the machine that asks may react.
fn machines(c: &Candidate) -> Vec<(bool, f64)> {
    transports(c).into_iter().flat_map(|alone| REACTIONS.map(|us| (alone, us))).collect()
}

/// The unit of the start is written into the candidate first, because the parameters refer to it.
fn search(fit: &Fit<'_>, c: &mut Candidate, start: [f64; 8], rounds: usize) -> f64 {
    c.set("flash", "program_unit_kib", start[3]);
    let count = if start[7] == 0.0 { WITHOUT_SUSPENSION } else { PARAMETERS.len() };
    fit.search(c, &PARAMETERS[..count], &start[..count], WRITES, rounds)
}

/// Starting values by the formulas of 10.3.
fn start(fit: &Fit<'_>, c: &Candidate, plp: bool) -> [f64; 8] {
    let lone = fit.answer("F7/depth 1").map_or(50.0, |o| o.first().commands.mean_ns / 1e3);
    let most = fit.answer("F7/sequential").map_or(20_000.0, |o| o.iops(0));
    let rate = fit.answer("F6/rate").map_or(100e6, |o| o.rate(0));
    let lasts = fit.answer("F8/alone").map_or(1000.0, |o| o.first().flushes.mean_ns / 1e3);
    let command = (1e6 / most).min(0.8 * lone);
    let acknowledged = (lone - command - c.get("flash", "pipeline_us")).max(0.5);
    // A flush is a program and the tables; half and half is as good a start as any.
    let program = if plp { c.get("flash", "program_us") } else { 0.5 * lasts };
    let unit = (rate * program / 1e6 / c.get("flash", "dies") / 1024.0).clamp(4.0, 4096.0).round();
    let program = unit * 1024.0 * c.get("flash", "dies") / rate * 1e6;
    let flush = if plp { lasts } else { (lasts - program).max(0.1 * lasts) };
    let suspend = c.get("flash", "suspend_us");
    let buffer = c.get("flash", "write_buffer_kib");
    [command, acknowledged, program, unit, flush, buffer, c.reaction_us, suspend]
}

/// The long sequential write: does its rate fall, where, to what?
fn plateaus(fit: &Fit<'_>, c: &mut Candidate) {
    let Some(o) = fit.answer("F6") else { return };
    let bins = &o.first().bins;
    let Some(fall) = fall(bins) else {
        // It never left its first plateau: caches and clean blocks are at least what was written.
        let written = bins.iter().sum::<u64>() as f64 / 1_048_576.0;
        let pool = c.get("flash", "clean_pool_mib").max(written);
        c.set("flash", "clean_pool_mib", pool);
        c.set("flash", "slc_cache_mib", 0.0);
        c.mark(
            "flash",
            &["slc_cache_mib"],
            Origin::Measured("F6: none within the bytes written".into()),
        );
        return;
    };
    let before = bins[..fall].iter().sum::<u64>();
    let rate = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let slower = rate(&bins[..fall]) / rate(&bins[(fall + 1).min(bins.len() - 1)..]);
    // Above a factor of a drive's own garbage collection the first plateau was a cache, or a write buffer that was
    // filled as fast as the link goes: what answers more alike.
    let mut cached = c.clone();
    cached.set("flash", "slc_cache_mib", before as f64 / 1_048_576.0);
    let fast = c.get("flash", "program_us");
    cached.set("flash", "slc_program_us", fast);
    cached.set("flash", "program_us", fast * slower);
    let (long, keys) = (fit.tests(&["F6", "F9"]), ["slc_cache_mib", "slc_program_us"]);
    if fit.error_of(&cached, &long) < fit.error_of(c, &long) {
        *c = cached;
    } else {
        c.set("flash", "slc_cache_mib", 0.0);
    }
    c.mark("flash", &keys, Origin::Measured("F6".into()));
}

/// The part of the time in which the rate falls for good by more than a fifth.
fn fall(bins: &[u64]) -> Option<usize> {
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
    let (_, at) = (4..bins.len().checked_sub(8)?)
        .map(|at| (mean(&bins[..at]) / mean(&bins[at + 1..]).max(1.0), at))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (mean(&bins[..at]) > 1.25 * mean(&bins[at + 1..])).then_some(at)
}

/// A discard's fixed part and its part by size, from two sizes.
fn discards(fit: &Fit<'_>, c: &mut Candidate) {
    let (Some(small), Some(large)) = (fit.answer("F11/64M"), fit.answer("F11/1G")) else { return };
    let of = |o: &hoistway_sim::probe::Outcome| o.first().commands.mean_ns / 1e3;
    let per_gib = ((of(large) - of(small)) / (15.0 / 16.0)).max(0.0);
    c.set("flash", "discard_us_per_gib", per_gib);
    c.set("flash", "discard_base_us", (of(small) - per_gib / 16.0).max(0.0));
    let keys = ["discard_us_per_gib", "discard_base_us"];
    c.mark("flash", &keys, Origin::Measured("F11".into()));
}
