//! Tunables of `deadline-zoccolo`: every part of the patch is a switch, and a preset sets them all
//! (specs/deadline.md B4, B7).

use super::super::tick::{COUNT_MAX, EXPIRE_MS_MAX};
use super::{ASYNC, LEVELS, RT, SYNC};
use crate::setting::{OnChange, Tunable, Unit};

/// Words of `classify`, in the order of [`Classify`].
const CLASSIFY: &[&str] = &["direction", "sync", "full"];
/// Words of `preset`, in the order of [`Settings::preset`].
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
pub(super) const PATCH_FULL: u64 = 5;

/// How requests are divided into levels (B2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Classify {
    /// Reads and writes, as in `deadline`.
    Direction,
    /// Sync and async.
    Sync,
    /// Real-time reads, sync, and async or idle.
    Full,
}

/// All settings. Times are in ticks, which are ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
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

impl Settings {
    /// The table of B7.
    pub fn preset(preset: u64) -> Settings {
        let original = Settings {
            preset,
            classify: Classify::Direction,
            expire: [125, 500, 5000],
            async_starved: 2,
            fifo_batch: 16,
            front_merges: true,
            continue_if_more_important: false,
            nonrot_fifo_reads: false,
            batch_min_time: 0,
            back_jump: false,
            short_sweep: false,
            expired_sweep: false,
            async_delay: 0,
            nonrot_fifo_batch_one: false,
        };
        let continued = Settings { continue_if_more_important: true, ..original };
        let sync_async = Settings { classify: Classify::Sync, ..continued };
        let patch_full = Settings {
            classify: Classify::Full,
            nonrot_fifo_reads: true,
            batch_min_time: 20,
            back_jump: true,
            ..continued
        };
        match preset {
            0 | 1 => original,
            2 => continued,
            3 => sync_async,
            4 => Settings { async_starved: 3, ..sync_async },
            PATCH_FULL => patch_full,
            6 => Settings {
                short_sweep: true,
                expired_sweep: true,
                async_starved: 3,
                async_delay: 3,
                ..patch_full
            },
            _ => unreachable!("the table of tunables knows no preset {preset}"),
        }
    }

    /// `value` is in the range of the table.
    pub fn set(&mut self, name: &str, value: u64) {
        let (ticks, on) = (value as i64, value != 0);
        match name {
            "preset" => *self = Settings::preset(value),
            "classify" => {
                self.classify =
                    [Classify::Direction, Classify::Sync, Classify::Full][value as usize];
            }
            "rt_expire" => self.expire[RT] = ticks,
            "sync_expire" => self.expire[SYNC] = ticks,
            "async_expire" => self.expire[ASYNC] = ticks,
            "async_starved" => self.async_starved = value,
            "fifo_batch" => self.fifo_batch = value,
            "front_merges" => self.front_merges = on,
            "continue_if_more_important" => self.continue_if_more_important = on,
            "nonrot_fifo_reads" => self.nonrot_fifo_reads = on,
            "batch_min_time" => self.batch_min_time = ticks,
            "back_jump" => self.back_jump = on,
            "short_sweep" => self.short_sweep = on,
            "expired_sweep" => self.expired_sweep = on,
            "async_delay" => self.async_delay = ticks,
            "nonrot_fifo_batch_one" => self.nonrot_fifo_batch_one = on,
            other => unreachable!("{other} is in the table of tunables but not read"),
        }
    }

    pub fn value(&self, name: &str) -> Option<u64> {
        Some(match name {
            "preset" => self.preset,
            "classify" => self.classify as u64,
            "rt_expire" => self.expire[RT] as u64,
            "sync_expire" => self.expire[SYNC] as u64,
            "async_expire" => self.expire[ASYNC] as u64,
            "async_starved" => self.async_starved,
            "fifo_batch" => self.fifo_batch,
            "front_merges" => self.front_merges.into(),
            "continue_if_more_important" => self.continue_if_more_important.into(),
            "nonrot_fifo_reads" => self.nonrot_fifo_reads.into(),
            "batch_min_time" => self.batch_min_time as u64,
            "back_jump" => self.back_jump.into(),
            "short_sweep" => self.short_sweep.into(),
            "expired_sweep" => self.expired_sweep.into(),
            "async_delay" => self.async_delay as u64,
            "nonrot_fifo_batch_one" => self.nonrot_fifo_batch_one.into(),
            _ => return None,
        })
    }
}

/// The table; defaults are those of `patch-full`.
pub(super) const TUNABLES: &[Tunable] = &[
    choice(
        "preset",
        PRESETS,
        PATCH_FULL,
        "A stage of the thread: sets all other tunables. Those given after it win.",
    )
    .on_change(OnChange::Resets),
    choice(
        "classify",
        CLASSIFY,
        Classify::Full as u64,
        "What is more important: reads (direction), sync requests (sync), or real-time reads, then \
         sync, then async and idle requests (full). Affects later insertions.",
    )
    .on_change(OnChange::LaterRequests),
    millis("rt_expire", 125, "Deadline of real-time reads. Affects later insertions.")
        .on_change(OnChange::LaterRequests),
    millis("sync_expire", 500, "Deadline of sync requests (or reads). Affects later insertions.")
        .on_change(OnChange::LaterRequests),
    millis("async_expire", 5000, "Deadline of async requests (or writes), as above.")
        .on_change(OnChange::LaterRequests),
    count(
        "async_starved",
        Unit::Count,
        2,
        "Sync batches that may go before waiting async requests.",
    ),
    count("fifo_batch", Unit::Requests, 16, "Usual length of a batch; 0 behaves as 1."),
    switch("front_merges", 1, "Look for requests that begin where a bio ends."),
    switch(
        "continue_if_more_important",
        1,
        "A sweep of a more important level goes on although a less important one was chosen.",
    ),
    switch("nonrot_fifo_reads", 1, "Without a spindle reads go in order of arrival."),
    millis("batch_min_time", 20, "A batch that can go on lasts at least so long; 0 = off."),
    switch(
        "back_jump",
        1,
        "A batch for an expired request begins a third of a batch before it in sector order.",
    ),
    switch(
        "short_sweep",
        0,
        "A batch begins at the lowest sector if fewer requests than a batch wait.",
    ),
    switch(
        "expired_sweep",
        0,
        "When even the newest request has expired the level is swept from the lowest sector.",
    ),
    millis("async_delay", 0, "Async requests younger than this are not chosen; 0 = off.")
        .on_change(OnChange::Waits),
    switch("nonrot_fifo_batch_one", 0, "Without a spindle every batch is one request."),
];

const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    default: u64,
    doc: &'static str,
) -> Tunable {
    let max = words.len() as u64 - 1;
    Tunable::new(name, Unit::Choice(words), default, (0, max), doc)
}

const fn millis(name: &'static str, default: u64, doc: &'static str) -> Tunable {
    Tunable::new(name, Unit::Millis, default, (0, EXPIRE_MS_MAX), doc)
}

const fn count(name: &'static str, unit: Unit, default: u64, doc: &'static str) -> Tunable {
    Tunable::new(name, unit, default, (0, COUNT_MAX), doc)
}

const fn switch(name: &'static str, default: u64, doc: &'static str) -> Tunable {
    Tunable::new(name, Unit::Switch, default, (0, 1), doc)
}
