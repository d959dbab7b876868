//! Drives that do not keep their promise: pauses, slow phases, spent credit, full write caches.
//!
//! **Problem.** A scheduler that learns what a drive delivers must live with a drive that changes under it: a flash
//! drive collects garbage or throttles because it is hot, a volume of a cloud machine has spent its burst credit, an
//! SLC cache is full, firmware stops for a quarter of a second. None of this belongs to one model of drives.
//!
//! **Idea.** A wrapper around any model, [`Faulty`], made where a drive file has a table `[faults]`. It has three parts
//! on the way of a command:
//!
//! 1. *Admission*: a token bucket for all commands (credit), one for written bytes (cache), and read-only phases decide
//!    when a command enters the drive. Commands that wait for credit keep their order; writes that wait for room in
//!    the cache keep theirs, and reads pass them.
//! 2. *Drive time* (`clock.rs`): the model below lives in a time of its own, which runs at 1/factor in a slow phase and
//!    stands still in a pause. So everything in the drive (controller, dies, link, platters) slows down alike, and what
//!    is queued inside stays queued, whatever the model.
//! 3. *Noise*: a completion comes later by a random part of the command's service.
//!
//! **Guarantees.** Every command is completed exactly once, not before the model below completes it in its own time,
//! and completions come in order of time; asking more often changes nothing. Everything is drawn from the streams
//! `drive/ID/faults/...` of the run's seed and none of it depends on the commands, so two schedulers with the same seed
//! meet the same pauses at the same times. Without `[faults]` there is no wrapper: the same bytes as ever.
//!
//! **Weaknesses.** No command fails (errors are not modelled), and pauses do not depend on what was written. In a pause
//! a disk's platters stand still as well. Slow phases slow the link too. A flush does not wait for the cache to drain,
//! as the SLC region of a drive is not volatile.

mod clock;
mod wrapper;

pub use wrapper::Faulty;

use super::keys::Key;
use super::rate::us;
use super::{DriveFile, Wrong};

/// The table of drive files and experiments.
pub const TABLE: &str = "faults";

/// Keys of `[faults]`.
pub const FAULT_KEYS: &[Key] = &[
    event("pause_every_ms", "Mean time between pauses, in which the drive does nothing; 0: none."),
    event("pause_ms", "Mean length of a pause; each is 0.5 to 1.5 times as long."),
    event("slow_every_ms", "Mean time between slow phases; 0: none."),
    event("slow_ms", "Mean length of a slow phase; each is 0.5 to 1.5 times as long."),
    Key::num("slow_factor", 1.0, 1e6, "In a slow phase all takes so many times as long.").or("1"),
    event("start_ms", "The run begins with a slow phase of this length; 0: with none."),
    Key::num("start_factor", 1.0, 1e6, "In it all takes so many times as long.").or("1"),
    Key::int("credit_ios", 0, 1 << 40, "Commands saved up as burst credit; 0: no limit.").or("0"),
    Key::off("credit_iops", 1e-3, 1e9, "Commands per second when it is spent.").or("0"),
    Key::mib("credit_mib", "Bytes saved up as burst credit; 0: no limit.").or("0"),
    Key::rate0("credit_mb_s", "Bytes per second when it is spent.").or("0"),
    Key::mib("cache_mib", "Write cache: bytes that are written at full rate; 0: no limit.").or("0"),
    Key::rate0("cache_mb_s", "Rate at which it drains, and of writes when it is full.").or("0"),
    event("readonly_every_ms", "Mean time between phases in which only reads are done; 0: none."),
    event("readonly_ms", "Mean length of such a phase; each is 0.5 to 1.5 times as long."),
    Key::num(
        "noise_sigma",
        0.0,
        10.0,
        "A service takes exp(sigma abs(n)) times as long, n standard normal; 0: none.",
    )
    .or("0"),
];

/// A time in ms that may be missing.
const fn event(name: &'static str, doc: &'static str) -> Key {
    Key::event_ms(name, doc).or("0")
}

/// Keys that belong together. The first switches the fault on, if it is not 0; then all others must be given.
const FAULTS: &[&[&str]] = &[
    &["pause_every_ms", "pause_ms"],
    &["slow_every_ms", "slow_ms", "slow_factor"],
    &["start_ms", "start_factor"],
    &["credit_ios", "credit_iops"],
    &["credit_mib", "credit_mb_s"],
    &["cache_mib", "cache_mb_s"],
    &["readonly_every_ms", "readonly_ms"],
    &["noise_sigma"],
];

/// `[faults]` in ns, bytes and per second; `None`: not that fault.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the keys of the table, see FAULT_KEYS")]
pub struct Faults {
    pub pause: Option<Recurring>,
    pub slow: Option<(Recurring, Slowness)>,
    pub start: Option<(u64, Slowness)>,
    pub credit_ios: Option<Saved>,
    pub credit_bytes: Option<Saved>,
    pub cache: Option<Saved>,
    pub readonly: Option<Recurring>,
    pub noise: Option<f64>,
}

/// Something that comes again and again: means of the time between and of the length, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurring {
    /// From the end of one to the begin of the next.
    pub every: f64,
    /// Of one.
    pub length: f64,
}

/// How many thousandths of its usual time a thing takes; at least 1000.
pub type Slowness = u64;

/// A token bucket: what can be saved up, and what comes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saved {
    /// Most tokens.
    pub depth: f64,
    /// Per second.
    pub rate: f64,
}

impl Faults {
    /// Of a checked file; `None` if it has none.
    pub fn from_file(file: &DriveFile) -> Option<Faults> {
        let num = |key: &str| file.opt_f64(TABLE, key).unwrap_or(0.0);
        let on = |key: &str| num(key) > 0.0;
        let time = |key: &str| num(key) * 1e6;
        let slowness = |key: &str| (num(key) * 1e3 + 0.5) as Slowness;
        let recurring =
            |every: &str, length: &str| Recurring { every: time(every), length: time(length) };
        let saved = |depth: &str, unit: f64, rate: &str, per: f64| {
            on(depth).then(|| Saved { depth: num(depth) * unit, rate: num(rate) * per })
        };
        const MIB: f64 = 1_048_576.0;
        let faults = Faults {
            pause: on("pause_every_ms").then(|| recurring("pause_every_ms", "pause_ms")),
            slow: on("slow_every_ms")
                .then(|| (recurring("slow_every_ms", "slow_ms"), slowness("slow_factor"))),
            start: on("start_ms").then(|| (us(num("start_ms") * 1e3), slowness("start_factor"))),
            credit_ios: saved("credit_ios", 1.0, "credit_iops", 1.0),
            credit_bytes: saved("credit_mib", MIB, "credit_mb_s", 1e6),
            cache: saved("cache_mib", MIB, "cache_mb_s", 1e6),
            readonly: on("readonly_every_ms")
                .then(|| recurring("readonly_every_ms", "readonly_ms")),
            noise: on("noise_sigma").then(|| num("noise_sigma")),
        };
        (faults != Faults::default()).then_some(faults)
    }
}

/// What the keys alone cannot say: a fault that is on needs all of its keys.
pub(super) fn check(file: &DriveFile) -> Result<(), Wrong> {
    let given = |key: &str| file.opt_f64(TABLE, key);
    for &keys in FAULTS {
        let (switch, others) = (keys[0], &keys[1..]);
        let on = given(switch).is_some_and(|v| v > 0.0);
        if on && let Some(key) = others.iter().find(|k| given(k).is_none_or(|v| v <= 0.0)) {
            let what = format!("= {} needs {key} above 0", given(switch).unwrap_or(0.0));
            return Err(Wrong { table: TABLE, key: switch, what });
        }
        if let (None, Some(key)) = (given(switch), others.iter().find(|k| given(k).is_some())) {
            let what = format!("does nothing without {switch}; give both, or {switch} = 0");
            return Err(Wrong { table: TABLE, key, what });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
