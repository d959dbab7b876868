//! A hard disk from its answers (specs/drives.md 10.2).
//!
//! 1. Rates of the zones are read off (H1); overhead and link off two sizes of a read that the buffer holds (H4).
//! 2. One revolution and the seek curve share the latencies of random reads (H3, H6): each usual speed is tried, the
//!    seek times fitted to it, the best kept. The distributions count too, because their width is the revolution.
//! 3. Read buffer: how many slow streams it serves, and how much it read on in a pause (H5).
//! 4. The credit for waiting: a lone reader beside streams (H7), by bisection; or a hard limit, if that is more alike.
//! 5. Writes: size of the buffer (H8), settling and what destaging may cost others (H2, H9).
//!
//! The number of zones changes no figure of these tests by more than a few per cent: it stays as in the shipped class and
//! is marked so. Heads and track switch decide a few tests of short distances only: the values found need not be the
//! disk's, they answer alike.

use super::candidate::{Candidate, Origin};
use super::fit::{Fit, REACTIONS};
use super::search::{self, Parameter, Space};
use hoistway_sim::probe::Outcome;

/// Fits all that the answers tell.
pub fn fit(fit: &Fit<'_>, c: &mut Candidate) {
    rates(fit, c);
    positioning(fit, c);
    buffer(fit, c);
    ageing(fit, c);
    if fit.answer("H2").is_some() {
        writes(fit, c);
        // What waits beside destaging waits by its age too.
        ageing(fit, c);
    }
}

fn mean_us(o: &Outcome) -> f64 {
    o.first().commands.mean_ns / 1e3
}

/// A read of the buffer takes less than this, µs; else there is no buffer for it.
const BUFFERED_US: f64 = 2_500.0;
const KIB_60: f64 = 61_440.0;

/// Zones, link, overhead.
fn rates(fit: &Fit<'_>, c: &mut Candidate) {
    let zones = fit.tests(&["H1/"]);
    if let (Some((_, first)), Some((_, last))) = (zones.first(), zones.last()) {
        let share = c.get("hdd", "actuators");
        let (outer, inner) = (first.rate(0) / 1e6, last.rate(0) / 1e6);
        c.set("hdd", "outer_mb_s", outer);
        // A file of a part of the disk does not tell the inner rate.
        let whole = fit.raw.subject.area.1 as f64 > 0.9 * fit.raw.subject.capacity as f64;
        if whole && share < 2.0 {
            c.set("hdd", "inner_mb_s", inner);
            c.mark("hdd", &["outer_mb_s", "inner_mb_s"], Origin::Measured("H1".into()));
        } else {
            let ratio = c.get("hdd", "inner_mb_s") / c.get("hdd", "outer_mb_s");
            c.set("hdd", "inner_mb_s", outer * ratio.min(1.0));
            c.mark("hdd", &["outer_mb_s"], Origin::Measured("H1".into()));
        }
    }
    let (Some(small), Some(large)) = (fit.answer("H4/same 4k"), fit.answer("H4/same 64k")) else {
        return;
    };
    let (small, large) = (mean_us(small), mean_us(large));
    if large < BUFFERED_US && large > small {
        let rate = KIB_60 / (large - small);
        c.set("link", "rate_mb_s", rate);
        c.remove("link", "write_rate_mb_s");
        c.set("hdd", "cmd_overhead_us", (small - 4096.0 / rate).max(1.0));
        c.mark("link", &["rate_mb_s"], Origin::Measured("H4".into()));
        c.mark("hdd", &["cmd_overhead_us"], Origin::Measured("H4".into()));
    }
}

const TIME: Space = Space::Between(0.05, 200.0);
/// Order: over one cylinder, mean, over all, track switch, heads.
const SEEKS: &[Parameter<Candidate>] = &[
    Parameter { space: TIME, apply: |c, v| c.set("hdd", "seek_track_ms", v) },
    Parameter { space: TIME, apply: |c, v| c.set("hdd", "seek_avg_ms", v) },
    Parameter { space: TIME, apply: |c, v| c.set("hdd", "seek_full_ms", v) },
    Parameter { space: Space::Between(0.1, 5.0), apply: |c, v| c.set("hdd", "track_switch_ms", v) },
    Parameter {
        space: Space::OneOf(&[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0]),
        apply: |c, v| c.set("hdd", "heads", v),
    },
];
const POSITIONED: &[&str] = &["H3", "H6/depth 1", "H6/file", "H2"];
const ROUNDS_FIRST: usize = 15;
const ROUNDS_LAST: usize = 40;
const KEPT: usize = 2;
const SPEEDS: &[f64] = &[4200.0, 5400.0, 5900.0, 7200.0, 10_000.0, 15_000.0];

/// Speed and seek curve.
fn positioning(fit: &Fit<'_>, c: &mut Candidate) {
    c.remove("hdd", "seek_knots");
    let overhead = c.get("hdd", "cmd_overhead_us") / 1e3;
    let far = fit.tests(&["H3"]).last().map_or(25.0, |(_, o)| mean_us(o) / 1e3);
    let random = fit.answer("H6/depth 1").map_or(15.0, |o| mean_us(o) / 1e3);
    let mut starts = Vec::new();
    for &rpm in SPEEDS {
        let half = 30_000.0 / rpm;
        let least = |ms: f64| (ms - overhead - half).max(0.3);
        let mut tried = c.clone();
        tried.set("hdd", "rpm", rpm);
        // From one track to the next takes a tenth of the mean on all drives known.
        let (mean, full) = (least(random), least(far));
        let start = [0.1 * mean, mean, full, 0.1 * mean, c.get("hdd", "heads")];
        let error = fit.search(&mut tried, SEEKS, &start, POSITIONED, ROUNDS_FIRST);
        starts.push((error, tried));
    }
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let refined = starts.into_iter().take(KEPT).map(|(_, mut tried)| {
        let keys = ["seek_track_ms", "seek_avg_ms", "seek_full_ms", "track_switch_ms", "heads"];
        let start = keys.map(|key| tried.get("hdd", key));
        let error = fit.search(&mut tried, SEEKS, &start, POSITIONED, ROUNDS_LAST);
        (error, tried)
    });
    *c = refined.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are speeds").1;
    let keys = ["rpm", "seek_track_ms", "seek_avg_ms", "seek_full_ms", "track_switch_ms", "heads"];
    c.mark("hdd", &keys, Origin::Measured("H3, H6".into()));
}

const SIZES: &[f64] = &[
    64.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 1536.0, 2048.0, 3072.0, 4096.0, 8192.0,
];
const SEGMENTS: &[f64] = &[
    1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0, 32.0, 48.0, 64.0, 96.0,
    128.0,
];
/// Order: segments, read-ahead and their size, gap that a read may leave.
const BUFFER: &[Parameter<Candidate>] = &[
    Parameter { space: Space::OneOf(SEGMENTS), apply: |c, v| c.set("hdd", "segments", v) },
    Parameter {
        space: Space::OneOf(SIZES),
        apply: |c, v| {
            // What a segment does not hold was not worth reading: only the lesser of the two shows.
            c.set("hdd", "readahead_kib", v);
            c.set("hdd", "segment_kib", v);
        },
    },
    Parameter {
        space: Space::OneOf(&[8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]),
        apply: |c, v| c.set("hdd", "skip_gap_kib", v),
    },
];

/// The read buffer.
fn buffer(fit: &Fit<'_>, c: &mut Candidate) {
    let mut best: Option<(f64, Candidate)> = None;
    for segments in [4.0, 16.0, 64.0] {
        for size in [256.0, 1024.0] {
            let start = [segments, size, c.get("hdd", "skip_gap_kib").max(8.0)];
            let mut tried = c.clone();
            let error = fit.search(&mut tried, BUFFER, &start, &["H5"], 12);
            if best.as_ref().is_none_or(|(e, _)| error < *e) {
                best = Some((error, tried));
            }
        }
    }
    *c = best.expect("there are starts").1;
    let keys = ["segments", "segment_kib", "readahead_kib", "skip_gap_kib"];
    c.mark("hdd", &keys, Origin::Measured("H5".into()));
}

/// The credit for waiting, or a limit of it.
///
/// A test holds a few dozen of the reads that it is about, so one alone would be chance: the mean of the logarithms over
/// all numbers of readers decides, and the tests run in full length.
fn ageing(fit: &Fit<'_>, c: &mut Candidate) {
    let tests = fit.tests(&["H7"]);
    let tests: Vec<_> =
        tests.into_iter().filter(|(_, o)| o.first().commands.count >= SERVED).collect();
    if tests.is_empty() {
        return;
    }
    // A read that did not end waited longer than the test.
    let waited = |o: &Outcome| match o.first().commands.count {
        0 => libm::log(o.counted_ns as f64),
        _ => libm::log(o.first().commands.mean_ns),
    };
    let wanted: f64 = tests.iter().map(|(_, o)| waited(o)).sum();
    let simulated = |c: &Candidate| {
        let Ok(file) = c.file() else { return 0.0 };
        tests.iter().map(|(test, _)| waited(&fit.simulate(&file, 0, test, true))).sum::<f64>()
    };
    let (mut credit, mut limit) = (c.clone(), c.clone());
    credit.set("hdd", "age_limit_ms", 0.0);
    let weight = search::bisect(0.005, 50.0, -wanted, &mut |weight| {
        credit.set("hdd", "age_weight_ms_per_s", weight);
        -simulated(&credit)
    });
    credit.set("hdd", "age_weight_ms_per_s", weight);
    limit.set("hdd", "age_weight_ms_per_s", 0.0);
    let most = search::bisect(10.0, 60_000.0, wanted, &mut |most| {
        limit.set("hdd", "age_limit_ms", most);
        simulated(&limit)
    });
    limit.set("hdd", "age_limit_ms", most);
    // A few dozen reads: where both are as near as their mean is certain, the credit is the usual rule.
    let certain = tests.iter().map(|(_, o)| uncertainty(o)).sum::<f64>() / tests.len() as f64;
    let limited = fit.error_of(&limit, &tests) + certain < fit.error_of(&credit, &tests);
    *c = if limited { limit } else { credit };
    let keys = ["age_weight_ms_per_s", "age_limit_ms"];
    c.mark("hdd", &keys, Origin::Measured("H7".into()));
}

/// Squared relative error of a mean: the variance of the latencies over their number, relative to the mean.
fn uncertainty(o: &Outcome) -> f64 {
    let c = &o.first().commands;
    let apart = c.quantiles_ns.iter().map(|q| (q / c.mean_ns - 1.0) * (q / c.mean_ns - 1.0));
    apart.sum::<f64>() / c.quantiles_ns.len().max(1) as f64 / c.count as f64
}

/// Reads of the target below this number are no mean.
const SERVED: u64 = 4;

/// Order: settling, what destaging must save to go before a read, the asking machine's reaction.
const WRITES: &[Parameter<Candidate>] = &[
    Parameter {
        space: Space::Between(0.02, 20.0),
        apply: |c, v| c.set("hdd", "write_settle_ms", v),
    },
    Parameter {
        space: Space::Between(0.5, 200.0),
        apply: |c, v| c.set("hdd", "destage_penalty_ms", v),
    },
    super::fit::REACTION,
];

/// Buffer, settling, destaging. What settling costs depends on when the buffer is full, and the other way round: the
/// buffer comes first and last.
fn writes(fit: &Fit<'_>, c: &mut Candidate) {
    let transports = super::flash_writes::transports(c);
    let both = transports.into_iter().flat_map(|alone| REACTIONS.map(|us| (alone, us)));
    let alternatives = both.map(|(alone, reaction)| {
        let mut tried = c.clone();
        tried.put("host", "flush_nonqueued", alone.into());
        tried.reaction_us = reaction;
        writes_of(fit, &mut tried);
        (fit.error_of(&tried, &fit.tests(&["H2", "H9"])), tried)
    });
    *c = alternatives.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a transport").1;
}

fn writes_of(fit: &Fit<'_>, c: &mut Candidate) {
    write_buffer(fit, c);
    let settle = c.get("hdd", "write_settle_ms").max(0.05);
    let penalty = c.get("hdd", "destage_penalty_ms").max(1.0);
    let start = [settle, penalty, c.reaction_us];
    fit.search(c, WRITES, &start, &["H2", "H9", "H8/"], 20);
    c.mark("hdd", &["write_settle_ms", "destage_penalty_ms"], Origin::Measured("H2, H9".into()));
    write_buffer(fit, c);
}

/// The first part of the time takes what the buffer holds besides what goes to the medium meanwhile.
fn write_buffer(fit: &Fit<'_>, c: &mut Candidate) {
    let Some(answer) = fit.raw.answers.iter().find(|a| a.test.name == "H8") else { return };
    if answer.outcome.first().commands.count == 0 {
        return;
    }
    let early = |o: &Outcome| o.first().bins.iter().take(EARLY).sum::<u64>() as f64;
    let wanted = early(&answer.outcome);
    let found = search::bisect(64.0, 1_048_576.0, wanted, &mut |kib| {
        let mut tried = c.clone();
        tried.set("hdd", "write_buffer_kib", kib);
        tried.file().map_or(0.0, |file| early(&fit.simulate(&file, 0, &answer.test, true)))
    });
    c.set("hdd", "write_buffer_kib", found);
    c.mark("hdd", &["write_buffer_kib"], Origin::Measured("H8".into()));
}

/// Parts of a hundred of the test in which the buffer fills.
const EARLY: usize = 10;
