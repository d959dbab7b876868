//! The settings of ADIOS (specs/adios.md section 3).
//!
//! Deviation: the original's files of two numbers are two settings here, the base and the slope of a model.

use super::{Adios, DISCARD, READ, WRITE};
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};
use crate::unit::Instant;

const PRIORITIES: &[&str] = &[
    "-20", "-19", "-18", "-17", "-16", "-15", "-14", "-13", "-12", "-11", "-10", "-9", "-8", "-7",
    "-6", "-5", "-4", "-3", "-2", "-1", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
    "11", "12", "13", "14", "15", "16", "17", "18", "19",
];

/// Largest batch limit: the original keeps 32 bits.
const LIMIT_MAX: u64 = u32::MAX as u64;

const fn ns(name: &'static str, default: u64, doc: &'static str) -> Tunable {
    Tunable::new(name, Unit::Nanos, default, (0, u64::MAX), doc)
}

/// The base of a model, or its slope: writing one loads the model with both.
const fn model(name: &'static str, doc: &'static str) -> Tunable {
    ns(name, 0, doc).on_change(OnChange::Resets)
}

const BASE: &str = "Latency of a request of at most 4 KiB as learned; 0: not known. \
         Writing it loads the model: what it was learned from is forgotten.";
const SLOPE: &str = "Latency of each KiB beyond 4, as learned. Writing it loads the model.";
const TARGET: &str = "Added to the start of a request that does not carry the SYNC flag, \
         which makes its deadline. Writing it also forgets the model of that \
         kind (Q9).";
const LIMIT: &str = "Most requests of this kind in one batch.";

/// Makes what a row says of its change true.
type AdiosEffect = fn(&mut Adios, Instant);

const ROWS: &[Setting<Adios, AdiosEffect>] = &[
    ns(
        "global_latency_window",
        0,
        "Predicted time that a batch may fill, with what is in flight; 0: 22 ms \
         on rotational drives, 16 ms on others.",
    )
    .field(|a| a.conf.window_ns, |a, v| a.conf.window_ns = v),
    Tunable::new(
        "bq_refill_below_ratio",
        Unit::Count,
        20,
        (0, 100),
        "Percent of the window: the next batch is drawn when less than this is \
         predicted to be in flight.",
    )
    .field(|a| a.conf.refill_percent, |a, v| a.conf.refill_percent = v),
    Tunable::new(
        "lat_model_latency_limit",
        Unit::Nanos,
        500_000_000,
        (0, 2_000_000_000),
        "Completions that took longer teach nothing. Version 3.2.0 also cuts \
         predictions to it.",
    )
    .on_change(OnChange::LaterSamples)
    .field(|a| a.conf.latency_limit_ns, |a, v| a.conf.latency_limit_ns = v),
    Tunable::choice(
        "batch_order",
        &["optype", "elevator"],
        0,
        "Order in a batch: by kind of request, or by sector. elevator acts on \
         rotational drives only.",
    )
    .field(|a| a.conf.batch_order, |a, v| a.conf.batch_order = v),
    Tunable::new(
        "compliance_flags",
        Unit::Count,
        0,
        (0, u64::MAX),
        "Bit 0: deadlines without the predicted latency. Other bits mean \
         nothing.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|a| a.conf.compliance, |a, v| a.conf.compliance = v),
    Tunable::new("batch_limit_read", Unit::Requests, 36, (1, LIMIT_MAX), LIMIT)
        .field(|a| a.conf.batch_limit[READ], |a, v| a.conf.batch_limit[READ] = v),
    Tunable::new("batch_limit_write", Unit::Requests, 72, (1, LIMIT_MAX), LIMIT)
        .field(|a| a.conf.batch_limit[WRITE], |a, v| a.conf.batch_limit[WRITE] = v),
    Tunable::new("batch_limit_discard", Unit::Requests, 1, (1, LIMIT_MAX), LIMIT)
        .field(|a| a.conf.batch_limit[DISCARD], |a, v| a.conf.batch_limit[DISCARD] = v),
    ns("lat_target_read", 2_000_000, TARGET).on_change(OnChange::LaterRequests).field_then(
        |a| a.conf.target_ns[READ],
        |a, v| a.conf.target_ns[READ] = v,
        |a, now| a.load(now, READ, 0, 0),
    ),
    ns("lat_target_write", 2_000_000_000, TARGET).on_change(OnChange::LaterRequests).field_then(
        |a| a.conf.target_ns[WRITE],
        |a, v| a.conf.target_ns[WRITE] = v,
        |a, now| a.load(now, WRITE, 0, 0),
    ),
    ns("lat_target_discard", 8_000_000_000, TARGET).on_change(OnChange::LaterRequests).field_then(
        |a| a.conf.target_ns[DISCARD],
        |a, v| a.conf.target_ns[DISCARD] = v,
        |a, now| a.load(now, DISCARD, 0, 0),
    ),
    model("lat_model_read", BASE).field_then(
        |a| a.models.of[READ].base,
        |a, v| a.models.of[READ].base = v,
        |a, now| a.load_as_it_stands(now, READ),
    ),
    model("lat_model_read_slope", SLOPE).field_then(
        |a| a.models.of[READ].slope,
        |a, v| a.models.of[READ].slope = v,
        |a, now| a.load_as_it_stands(now, READ),
    ),
    model("lat_model_write", BASE).field_then(
        |a| a.models.of[WRITE].base,
        |a, v| a.models.of[WRITE].base = v,
        |a, now| a.load_as_it_stands(now, WRITE),
    ),
    model("lat_model_write_slope", SLOPE).field_then(
        |a| a.models.of[WRITE].slope,
        |a, v| a.models.of[WRITE].slope = v,
        |a, now| a.load_as_it_stands(now, WRITE),
    ),
    model("lat_model_discard", BASE).field_then(
        |a| a.models.of[DISCARD].base,
        |a, v| a.models.of[DISCARD].base = v,
        |a, now| a.load_as_it_stands(now, DISCARD),
    ),
    model("lat_model_discard_slope", SLOPE).field_then(
        |a| a.models.of[DISCARD].slope,
        |a, v| a.models.of[DISCARD].slope = v,
        |a, now| a.load_as_it_stands(now, DISCARD),
    ),
    Tunable::new(
        "shrink_at_kreqs",
        Unit::Count,
        5000,
        (1, 100_000),
        "A mean over so many thousand small samples forgets.",
    )
    .on_change(OnChange::LaterSamples)
    .field(|a| a.conf.shrink.kreqs, |a, v| a.conf.shrink.kreqs = v),
    Tunable::new(
        "shrink_at_gbytes",
        Unit::Count,
        50,
        (1, 1000),
        "A mean over so many GiB of large samples forgets.",
    )
    .on_change(OnChange::LaterSamples)
    .field(|a| a.conf.shrink.gbytes, |a, v| a.conf.shrink.gbytes = v),
    Tunable::new(
        "shrink_resist",
        Unit::Count,
        2,
        (1, 3),
        "How much it forgets then: its 2^-shrink_resist.",
    )
    .on_change(OnChange::LaterSamples)
    .field(|a| a.conf.shrink.resist, |a, v| a.conf.shrink.resist = v),
    Tunable::choice(
        "read_priority",
        PRIORITIES,
        28,
        "How dear it is to the bias to serve reads before a more urgent write, \
         as a nice level: writes have 0. Writing it clears the bias.",
    )
    .field_then(|a| a.conf.read_priority, |a, v| a.conf.read_priority = v, |a, _| a.bias = 0),
    Tunable::switch("reset_bq_stats", false, "Writing 1 forgets the largest batches.")
        .on_change(OnChange::Resets)
        .field(
            |a| a.conf.reset.into(),
            |a, v| {
                a.conf.reset = v == 1;
                if v == 1 {
                    a.counters.forget_largest();
                }
            },
        ),
    Tunable::choice(
        "adios_version",
        &["3.1.9", "3.2.0"],
        0,
        "Whose rules: 3.2.0 has no barriers but flushes, cuts predictions to \
         the limit, and counts far samples in the last bucket.",
    )
    .on_change(OnChange::LaterRequests)
    .field(|a| a.conf.newer.into(), |a, v| a.conf.newer = v == 1),
];
pub(super) static SETTINGS: Settings<Adios, AdiosEffect> = Settings::new("adios", ROWS);
pub(super) static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);
