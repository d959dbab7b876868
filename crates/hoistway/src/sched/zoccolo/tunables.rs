//! Tunables of `deadline-zoccolo`: every part of the patch is a switch, and a preset sets them all
//! (specs/deadline.md B4, B7).

use super::super::tick::{COUNT_MAX, EXPIRE_MS_MAX};
use super::{ASYNC, LEVELS, RT, SYNC};
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};

/// Words of `classify`, in the order of [`Classify`].
const CLASSIFY: &[&str] = &["direction", "sync", "full"];
/// Words of `preset`, each a row of the table of B7.
const PRESETS: &[&str] = &[
    "original",
    "cleanup",
    "cleanup+continue",
    "sync-async",
    "sync-async.3",
    "patch-full",
    "all-ideas",
];
/// The preset of a fresh instance: the patch of 22 April 2009 with everything in it.
const PATCH_FULL: u64 = 5;

/// How requests are divided into levels (B2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Classify {
    /// Reads and writes, as in `deadline`.
    #[default]
    Direction,
    /// Sync and async.
    Sync,
    /// Real-time reads, sync, and async or idle.
    Full,
}

impl Classify {
    const ALL: [Classify; 3] = [Classify::Direction, Classify::Sync, Classify::Full];
}

/// Settings in force. Times are in ticks, which are ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ZoccoloConf {
    preset: u64,
    pub classify: Classify,
    pub expire: [i64; LEVELS],
    pub async_starved: u64,
    pub fifo_batch: u64,
    pub front_merges: bool,
    pub continue_if_more_important: bool,
    pub nonrot_fifo_reads: bool,
    pub batch_min_time: i64,
    pub back_jump: bool,
    pub short_sweep: bool,
    pub expired_sweep: bool,
    pub async_delay: i64,
    pub nonrot_fifo_batch_one: bool,
}

impl ZoccoloConf {
    fn set_preset(&mut self, preset: u64) {
        SETTINGS.select(self, self.preset, preset);
        self.preset = preset;
    }
}

/// The table; a preset's values are those of B7, in the order of [`PRESETS`].
const ROWS: &[Setting<ZoccoloConf>] = &[
    Tunable::choice(
        "preset",
        PRESETS,
        PATCH_FULL,
        "A stage of the thread: sets all other tunables. Those given after it win.",
    )
    .on_change(OnChange::Resets)
    .field(|c| c.preset, |c, v| c.set_preset(v)),
    Tunable::choice(
        "classify",
        CLASSIFY,
        0,
        "What is more important: reads (direction), sync requests (sync), or real-time \
         reads, then sync, then async and idle requests (full). Affects later insertions.",
    )
    .presets(&[0, 0, 0, 1, 1, 2, 2], PATCH_FULL)
    .on_change(OnChange::LaterRequests)
    .field(|c| c.classify as u64, |c, v| c.classify = Classify::ALL[v as usize]),
    millis("rt_expire", "Deadline of real-time reads. Affects later insertions.")
        .presets(&[125, 125, 125, 125, 125, 125, 125], PATCH_FULL)
        .on_change(OnChange::LaterRequests)
        .field(|c| c.expire[RT] as u64, |c, v| c.expire[RT] = v as i64),
    millis("sync_expire", "Deadline of sync requests (or reads). Affects later insertions.")
        .presets(&[500, 500, 500, 500, 500, 500, 500], PATCH_FULL)
        .on_change(OnChange::LaterRequests)
        .field(|c| c.expire[SYNC] as u64, |c, v| c.expire[SYNC] = v as i64),
    millis("async_expire", "Deadline of async requests (or writes), as above.")
        .presets(&[5000, 5000, 5000, 5000, 5000, 5000, 5000], PATCH_FULL)
        .on_change(OnChange::LaterRequests)
        .field(|c| c.expire[ASYNC] as u64, |c, v| c.expire[ASYNC] = v as i64),
    count("async_starved", Unit::Count, "Sync batches that may go before waiting async requests.")
        .presets(&[2, 2, 2, 2, 3, 2, 3], PATCH_FULL)
        .field(|c| c.async_starved, |c, v| c.async_starved = v),
    count("fifo_batch", Unit::Requests, "Usual length of a batch; 0 behaves as 1.")
        .presets(&[16, 16, 16, 16, 16, 16, 16], PATCH_FULL)
        .field(|c| c.fifo_batch, |c, v| c.fifo_batch = v),
    switch("front_merges", "Look for requests that begin where a bio ends.")
        .presets(&[1, 1, 1, 1, 1, 1, 1], PATCH_FULL)
        .field(|c| c.front_merges.into(), |c, v| c.front_merges = v != 0),
    switch(
        "continue_if_more_important",
        "A sweep of a more important level goes on although a less important one was \
         chosen.",
    )
    .presets(&[0, 0, 1, 1, 1, 1, 1], PATCH_FULL)
    .field(|c| c.continue_if_more_important.into(), |c, v| c.continue_if_more_important = v != 0),
    switch("nonrot_fifo_reads", "Without a spindle reads go in order of arrival.")
        .presets(&[0, 0, 0, 0, 0, 1, 1], PATCH_FULL)
        .field(|c| c.nonrot_fifo_reads.into(), |c, v| c.nonrot_fifo_reads = v != 0),
    millis("batch_min_time", "A batch that can go on lasts at least so long; 0 = off.")
        .presets(&[0, 0, 0, 0, 0, 20, 20], PATCH_FULL)
        .field(|c| c.batch_min_time as u64, |c, v| c.batch_min_time = v as i64),
    switch(
        "back_jump",
        "A batch for an expired request begins a third of a batch before it in sector \
         order.",
    )
    .presets(&[0, 0, 0, 0, 0, 1, 1], PATCH_FULL)
    .field(|c| c.back_jump.into(), |c, v| c.back_jump = v != 0),
    switch(
        "short_sweep",
        "A batch begins at the lowest sector if fewer requests than a batch wait.",
    )
    .presets(&[0, 0, 0, 0, 0, 0, 1], PATCH_FULL)
    .field(|c| c.short_sweep.into(), |c, v| c.short_sweep = v != 0),
    switch(
        "expired_sweep",
        "When even the newest request has expired the level is swept from the lowest \
         sector.",
    )
    .presets(&[0, 0, 0, 0, 0, 0, 1], PATCH_FULL)
    .field(|c| c.expired_sweep.into(), |c, v| c.expired_sweep = v != 0),
    millis("async_delay", "Async requests younger than this are not chosen; 0 = off.")
        .presets(&[0, 0, 0, 0, 0, 0, 3], PATCH_FULL)
        .on_change(OnChange::Waits)
        .field(|c| c.async_delay as u64, |c, v| c.async_delay = v as i64),
    switch("nonrot_fifo_batch_one", "Without a spindle every batch is one request.")
        .presets(&[0, 0, 0, 0, 0, 0, 0], PATCH_FULL)
        .field(|c| c.nonrot_fifo_batch_one.into(), |c, v| c.nonrot_fifo_batch_one = v != 0),
];
pub(super) static SETTINGS: Settings<ZoccoloConf> = Settings::new("deadline-zoccolo", ROWS);
pub(super) static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

// The defaults of these are those of a preset.

const fn millis(name: &'static str, doc: &'static str) -> Tunable {
    Tunable::new(name, Unit::Millis, 0, (0, EXPIRE_MS_MAX), doc)
}

const fn count(name: &'static str, unit: Unit, doc: &'static str) -> Tunable {
    Tunable::new(name, unit, 0, (0, COUNT_MAX), doc)
}

const fn switch(name: &'static str, doc: &'static str) -> Tunable {
    Tunable::switch(name, false, doc)
}
