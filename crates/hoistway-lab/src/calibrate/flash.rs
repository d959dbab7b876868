//! A flash drive from its answers (specs/drives.md 10.3).
//!
//! What the tests show, in the order of dependence:
//!
//! 1. The most random reads per second is the controller's time per read (F2). A lone read's latency is the sum of
//!    controller, array, channel, link and pipeline (F1); how it grows with the size tells channel and link (F3, F4); how
//!    reads at depth get in each other's way tells how much of the sum occupies a die, and how many dies there are (F2).
//!    The parts share all these figures, so they are searched together, from several layouts of channels and dies.
//!    Sequential reads hide array time (F4), which tells it from the rest.
//! 2. A reader beside sequential streams waits for bytes in flight, or for a round of quanta (F5).
//! 3. Writes: controller time, program rate, flush (F6 to F8); whether reads wait for flushes or programs (F8, F10). What
//!    a flush is made of cannot be told from it alone: the alternatives are tried, each fitted, the best kept.
//!
//! What a test cannot tell on this drive (a write buffer that never fills) stays as in the shipped class.

use super::candidate::{Candidate, Origin};
use super::fit::Fit;
use super::search::{Parameter, Space};
use toml::Value;

/// Fits all that the answers tell.
pub fn fit(fit: &Fit<'_>, c: &mut Candidate) {
    reads(fit, c);
    if fit.answer("F7/depth 1").is_some() {
        super::flash_writes::fit(fit, c);
    }
}

/// All reads that no other stream disturbs. The small sequential ones matter: what they take is what no array time hides.
const READS: &[&str] = &["F1", "F2", "F3", "F4"];

const TIME: Space = Space::Between(0.05, 100_000.0);
const RATE: Space = Space::Between(1.0, 20_000.0);
const POWERS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Order: controller, array, pipeline, channel rate, link rate, hidden time, channels, dies of a channel, page.
const READ_PARAMETERS: &[Parameter<Candidate>] = &[
    Parameter { space: TIME, apply: |c, v| c.set("flash", "cmd_read_us", v) },
    Parameter { space: TIME, apply: |c, v| c.set("flash", "read_us", v) },
    Parameter { space: TIME, apply: set_pipeline },
    Parameter { space: RATE, apply: |c, v| c.set("flash", "channel_mb_s", v) },
    Parameter { space: RATE, apply: |c, v| set_link(c, v) },
    Parameter { space: TIME, apply: |c, v| c.set("flash", "prefetch_us", v) },
    Parameter { space: Space::OneOf(POWERS), apply: set_channels },
    Parameter { space: Space::OneOf(POWERS), apply: set_dies },
    Parameter { space: Space::OneOf(&[4.0, 8.0, 16.0, 32.0]), apply: set_page },
];

fn set_link(c: &mut Candidate, v: f64) {
    let read = c.get("link", "rate_mb_s");
    // The write direction keeps its relation until a test of writes says otherwise.
    c.scale_if_there("link", "write_rate_mb_s", v / read);
    c.set("link", "rate_mb_s", v);
}

fn set_pipeline(c: &mut Candidate, v: f64) {
    c.set("flash", "pipeline_us", v.min(c.pipeline_most));
}

/// What of a lone write's time is neither the controller's nor the link's, in us: reads and writes have the pipeline in
/// common, and reads alone cannot tell it from what else they wait for.
fn pipeline_most(fit: &Fit<'_>, rate: f64) -> f64 {
    let (Some(lone), Some(deep)) = (fit.answer("F7/depth 1"), fit.answer("F7/sequential")) else {
        return f64::INFINITY;
    };
    let lone = lone.first().commands.mean_ns / 1e3;
    let command = (1e6 / deep.iops(0)).min(0.8 * lone);
    (lone - command - 4096.0 / rate).max(0.1 * lone)
}

/// The dies of a channel stay.
fn set_channels(c: &mut Candidate, v: f64) {
    let each = c.get("flash", "dies") / c.get("flash", "channels");
    c.set("flash", "channels", v);
    c.set("flash", "dies", v * each);
}

fn set_dies(c: &mut Candidate, v: f64) {
    c.set("flash", "dies", v * c.get("flash", "channels"));
}

fn set_page(c: &mut Candidate, v: f64) {
    c.set("flash", "page_kib", v);
    c.set("flash", "stripe_kib", v);
}

/// Layouts from which the search starts: channels, dies of a channel, page in KiB.
const LAYOUTS: &[(f64, f64, f64)] = &[
    (2.0, 2.0, 16.0),
    (4.0, 4.0, 8.0),
    (8.0, 1.0, 16.0),
    (8.0, 4.0, 8.0),
    (8.0, 4.0, 16.0),
    (8.0, 16.0, 16.0),
    (4.0, 8.0, 4.0),
];
/// Parts of a lone read's latency that are the array's, at the start.
const ARRAY_PARTS: &[f64] = &[0.4, 0.75];
/// Passes for every start, and for the best of them.
const ROUNDS_FIRST: usize = 6;
const ROUNDS_LAST: usize = 40;
const KEPT: usize = 3;

/// Controller, array, channels, dies, pages, link.
fn reads(fit: &Fit<'_>, c: &mut Candidate) {
    let most = fit.tests(&["F1", "F2"]).iter().map(|(_, o)| o.iops(0)).fold(0.0, f64::max);
    let lone = fit.answer("F1").map_or(100.0, |o| o.first().commands.mean_ns / 1e3);
    let sequential = fit.answer("F4/4k").map_or(lone, |o| o.first().commands.mean_ns / 1e3);
    let rate = fit.tests(&["F4/1M", "F3"]).iter().map(|(_, o)| o.rate(0) / 1e6).fold(0.0, f64::max);
    c.pipeline_most = pipeline_most(fit, rate);
    let mut starts = Vec::new();
    for &(channels, dies, page) in LAYOUTS {
        for part in ARRAY_PARTS {
            let command = (1e6 / most).min(0.5 * lone);
            let rest = (lone - command) * (1.0 - part);
            // What a small sequential read takes is not the array's, unless nothing is hidden.
            let pipeline = (sequential - command).clamp(0.1 * rest, 0.4 * rest);
            // A channel moves a read's 4 KiB in a part of the rest, but all of them at least the drive's rate.
            let channel = (4096.0 / (0.5 * rest)).max(rate / channels);
            let hidden = lone * part;
            let start =
                [command, lone * part, pipeline, channel, rate, hidden, channels, dies, page];
            let mut tried = c.clone();
            let error = fit.search(&mut tried, READ_PARAMETERS, &start, READS, ROUNDS_FIRST);
            starts.push((error, tried));
        }
    }
    // A reader beside streams tells what undisturbed reads do not: whether the link is what all wait for, or the
    // channels, where a turn of streams has no effect. So it decides among the layouts, and one of each kind is there.
    let judged = fit.tests(&[READS, &["F5"]].concat());
    let refined = kept(starts).into_iter().map(|mut tried| {
        // With the spread that there is: of several pieces the last decides.
        spread(fit, &mut tried);
        let start = read_values(&tried);
        fit.search(&mut tried, READ_PARAMETERS, &start, READS, ROUNDS_LAST);
        if let Some((deepest, _)) = fit.tests(&["F2"]).last() {
            fit.correct(&mut tried, ("flash", "cmd_read_us"), &deepest.name.clone());
        }
        spread(fit, &mut tried);
        preference(fit, &mut tried);
        (fit.error_of(&tried, &judged), tried)
    });
    let best = refined.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are layouts");
    *c = best.1;
    let keys = [
        "cmd_read_us",
        "read_us",
        "pipeline_us",
        "prefetch_us",
        "channel_mb_s",
        "channels",
        "dies",
        "page_kib",
        "stripe_kib",
    ];
    c.mark("flash", &keys, Origin::Measured("F1 to F4".into()));
    c.mark("link", &["rate_mb_s"], Origin::Measured("F3, F4".into()));
}

/// The best starts, and the best of those that wait for the link or for channels if none of that kind is among them.
fn kept(mut starts: Vec<(f64, Candidate)>) -> Vec<Candidate> {
    let by_link = |c: &Candidate| {
        c.get("flash", "channels") * c.get("flash", "channel_mb_s") > c.get("link", "rate_mb_s")
    };
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first: Vec<bool> = starts.iter().take(KEPT).map(|(_, c)| by_link(c)).collect();
    let other = first.iter().all(|&kind| kind == first[0]);
    let (mut kept, rest): (Vec<_>, Vec<_>) =
        starts.into_iter().enumerate().partition(|(at, _)| *at < KEPT);
    if other {
        kept.extend(rest.into_iter().find(|(_, (_, c))| by_link(c) != first[0]));
    }
    kept.into_iter().map(|(_, (_, c))| c).collect()
}

fn read_values(c: &Candidate) -> [f64; 9] {
    let (channels, dies) = (c.get("flash", "channels"), c.get("flash", "dies"));
    [
        c.get("flash", "cmd_read_us"),
        c.get("flash", "read_us"),
        c.get("flash", "pipeline_us"),
        c.get("flash", "channel_mb_s"),
        c.get("link", "rate_mb_s"),
        c.get("flash", "prefetch_us"),
        channels,
        dies / channels,
        c.get("flash", "page_kib"),
    ]
}

/// Spread of lone reads.
fn spread(fit: &Fit<'_>, c: &mut Candidate) {
    if let Some(o) = fit.answer("F1") {
        // Uniform in 1 - j to 1 + j: nine tenths of the width lie between the quantiles.
        let q = &o.first().commands;
        let width = (q.quantile_ns(0.95) - q.quantile_ns(0.05)) / 1e3;
        let jitter = width / 1.8 / c.get("flash", "read_us").max(0.1);
        c.set("flash", "read_jitter", jitter.clamp(0.0, 0.9));
        c.mark("flash", &["read_jitter"], Origin::Measured("F1".into()));
    }
}

const QUANTA: &[f64] = &[
    16.0, 32.0, 64.0, 128.0, 256.0, 384.0, 512.0, 768.0, 1024.0, 1280.0, 1536.0, 2048.0, 3072.0,
    4096.0, 8192.0,
];
const QUANTUM: &[Parameter<Candidate>] = &[
    Parameter { space: Space::OneOf(QUANTA), apply: |c, v| c.set("flash", "seq_quantum_kib", v) },
    Parameter {
        space: Space::Between(20.0, 2_000.0),
        apply: |c, v| c.set("flash", "dispatch_window_us", v),
    },
];
const WINDOW: &[Parameter<Candidate>] = &[Parameter {
    space: Space::Between(20.0, 2_000.0),
    apply: |c, v| c.set("flash", "dispatch_window_us", v),
}];

/// Whether sequential streams have turns, and how long.
fn preference(fit: &Fit<'_>, c: &mut Candidate) {
    let Some((slope, rate)) = slope(fit) else { return };
    let window = c.get("flash", "dispatch_window_us");
    let mut arrival = c.clone();
    arrival.set("flash", "seq_quantum_kib", 0.0);
    arrival.set("flash", "quantum_jitter", 0.0);
    let without = fit.search(&mut arrival, WINDOW, &[window], &["F5"], 12);
    let mut turns = c.clone();
    turns.set("flash", "quantum_jitter", 0.3);
    let quantum = (slope * rate / 1024.0).clamp(16.0, 8192.0);
    let with = fit.search(&mut turns, QUANTUM, &[quantum, window], &["F5"], 12);
    *c = if with < without { turns } else { arrival };
    let keys = ["seq_quantum_kib", "dispatch_window_us"];
    c.mark("flash", &keys, Origin::Measured("F5".into()));
    if with >= without {
        c.mark("flash", &["quantum_jitter"], Origin::Measured("F5".into()));
    }
}

/// Seconds that each further stream adds, and the streams' bytes per second.
fn slope(fit: &Fit<'_>) -> Option<(f64, f64)> {
    let (few, many) = (fit.answer("F5/4 readers")?, fit.answer("F5/15 readers")?);
    let mean = |o: &hoistway_sim::probe::Outcome| o.first().commands.mean_ns / 1e9;
    Some(((mean(many) - mean(few)).max(1e-9) / 11.0, many.rate(1)))
}

/// A switch as a value.
pub(super) fn flag(c: &mut Candidate, key: &str, on: bool) {
    c.put("flash", key, Value::Boolean(on));
}
