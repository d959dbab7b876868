//! Tunables of the early releases (specs/bfq.md 9 and 11). Those of raising are v4's alone.

use super::{Early, Release};
use crate::env::Cx;
use crate::sched::bfq::tunables::MS_MAX;
use crate::setting::{OnChange, Setting, Settings, Tunable, Unit, listed};
use crate::unit::{Instant, Nanos};

/// Rows that v1 has: those before raising's.
const IN_V1: usize = 15;

/// The rows of a release.
const fn rows(release: Release) -> [Setting<Early, EarlyEffect>; 22] {
    let v4 = matches!(release, Release::V4);
    [
        Tunable::new(
            "slice_idle",
            Unit::Millis,
            8,
            (0, MS_MAX),
            "Longest wait for a sync queue. 0: none.",
        )
        .on_change(OnChange::Waits)
        .field_then(
            |s| s.b.conf.slice_idle.as_ms(),
            |s, v| s.b.conf.slice_idle = Nanos::ms(v),
            |s, now, _| s.b.shorten_wait(now),
        ),
        Tunable::switch(
            "low_latency",
            true,
            if v4 {
                "Raises queues that come back after 2 s or that are soft real-time."
            } else {
                "Boosts queues that come back after 20 s."
            },
        )
        .on_change(OnChange::Resets)
        .field_then(
            |s| s.low_latency.into(),
            |s, v| s.set_low_latency(v != 0),
            Early::low_latency_changed,
        ),
        Tunable::new(
            "max_budget",
            Unit::Sectors,
            0,
            (0, i32::MAX as u64),
            "Largest service of a slot. 0: what the device serves in timeout_sync at its \
         peak rate.",
        )
        .on_change(OnChange::Limits)
        .field_then(
            |s| s.b.conf.user_max_budget,
            |s, v| s.b.conf.user_max_budget = v,
            Early::budgets_changed,
        ),
        Tunable::new("timeout_sync", Unit::Millis, 125, (1, MS_MAX), "Time limit of a sync slot.")
            .on_change(OnChange::Limits)
            .field_then(
                |s| s.b.conf.timeout.as_ms(),
                |s, v| s.b.conf.timeout = Nanos::ms(v),
                Early::budgets_changed,
            ),
        Tunable::new(
            "timeout_async",
            Unit::Millis,
            40,
            (1, MS_MAX),
            "Time limit of an async slot.",
        )
        .on_change(OnChange::Limits)
        .field_then(
            |s| s.timeout_async.as_ms(),
            |s, v| s.timeout_async = Nanos::ms(v),
            |s, _, _| s.shorten_slot(),
        ),
        Tunable::new(
            "fifo_expire_sync",
            Unit::Millis,
            125,
            (1, MS_MAX),
            "Age that breaks the sorted order.",
        )
        .on_change(OnChange::LaterRequests)
        .field(
            |s| s.b.conf.fifo_expire_sync.as_ms(),
            |s, v| s.b.conf.fifo_expire_sync = Nanos::ms(v),
        ),
        Tunable::new(
            "fifo_expire_async",
            Unit::Millis,
            250,
            (1, MS_MAX),
            "The same for async requests.",
        )
        .on_change(OnChange::LaterRequests)
        .field(
            |s| s.b.conf.fifo_expire_async.as_ms(),
            |s, v| s.b.conf.fifo_expire_async = Nanos::ms(v),
        ),
        Tunable::new("back_seek_max", Unit::Kib, 16_384, (0, 1 << 40), "Reach behind the head.")
            .field(|s| s.b.conf.back_seek_max_kib, |s, v| s.b.conf.back_seek_max_kib = v),
        Tunable::new("back_seek_penalty", Unit::Factor, 2, (1, 1_000), "Cost of a way back.")
            .field(|s| s.b.conf.back_seek_penalty, |s, v| s.b.conf.back_seek_penalty = v),
        Tunable::new(
            "quantum",
            Unit::Requests,
            4,
            (1, 1_000),
            "Requests of a sync queue per batch.",
        )
        .field(|s| s.quantum, |s, v| s.quantum = v),
        Tunable::new(
            "max_budget_async_rq",
            Unit::Requests,
            4,
            (1, 1_000),
            "The same of an async queue.",
        )
        .field(|s| s.async_batch, |s, v| s.async_batch = v),
        Tunable::new(
            "class_idle_period",
            Unit::Millis,
            200,
            (1, MS_MAX),
            "Look-in of the idle class.",
        )
        .field_then(
            |s| s.b.conf.fair.idle_class_period.as_ms(),
            |s, v| s.b.conf.fair.idle_class_period = Nanos::ms(v),
            Early::rules_changed,
        ),
        Tunable::switch(
            "exact_pick",
            true,
            "1: the eligible queue with the smallest finish. 0: the reference's tree descent \
         (Q1).",
        )
        .field_then(
            |s| s.b.conf.fair.exact_pick.into(),
            |s, v| s.b.conf.fair.exact_pick = v != 0,
            Early::rules_changed,
        ),
        Tunable::switch("exact_candidate", false, "1: a look-up at every activation (Q15).")
            .field_then(
                |s| s.b.conf.fair.exact_candidate.into(),
                |s, v| s.b.conf.fair.exact_candidate = v != 0,
                Early::rules_changed,
            ),
        Tunable::choice(
            "v1_rules",
            &["shipped", "described"],
            0,
            "What was released, or what its page says, where they differ: slow queues, age \
         of a boost.",
        )
        .field(|s| s.described.into(), |s, v| s.described = v != 0),
        Tunable::new(
            "wr_coeff",
            Unit::Factor,
            20,
            (2, 100),
            "Weight of a raised queue, times its own.",
        )
        .field(|s| s.b.conf.wr_coeff.into(), |s, v| s.b.conf.wr_coeff = v as u32),
        Tunable::new(
            "wr_max_time",
            Unit::Millis,
            7_500,
            (1, MS_MAX),
            "Raising of an interactive queue.",
        )
        .on_change(OnChange::Limits)
        .field_then(
            |s| s.b.conf.wr_max_time.as_ms(),
            |s, v| s.b.conf.wr_max_time = Nanos::ms(v),
            Early::raising_changed,
        ),
        Tunable::new(
            "wr_rt_max_time",
            Unit::Millis,
            300,
            (1, MS_MAX),
            "Raising of a soft real-time queue.",
        )
        .on_change(OnChange::Limits)
        .field_then(
            |s| s.b.conf.wr_rt_max_time.as_ms(),
            |s, v| s.b.conf.wr_rt_max_time = Nanos::ms(v),
            Early::raising_changed,
        ),
        Tunable::new(
            "wr_min_idle_time",
            Unit::Millis,
            2_000,
            (0, MS_MAX),
            "A queue idle for so long counts as interactive when it comes back.",
        )
        .field(|s| s.b.conf.wr_min_idle.as_ms(), |s, v| s.b.conf.wr_min_idle = Nanos::ms(v)),
        Tunable::new(
            "wr_min_inter_arr_async",
            Unit::Millis,
            500,
            (0, MS_MAX),
            "A busy async queue without arrivals for longer is raised.",
        )
        .field(
            |s| s.b.conf.wr_min_inter_arr_async.as_ms(),
            |s, v| s.b.conf.wr_min_inter_arr_async = Nanos::ms(v),
        ),
        Tunable::new(
            "wr_max_softrt_rate",
            Unit::Sectors,
            7_000,
            (0, 1 << 30),
            "Sectors per second up to which a queue that comes back is soft real-time. 0: none is.",
        )
        .field(|s| s.b.conf.wr_max_softrt_rate, |s, v| s.b.conf.wr_max_softrt_rate = v),
        Tunable::switch("queue_merge", true, "Queues with interleaved positions are merged.")
            .field(
                |s| s.b.rules.merges_at_selection.into(),
                |s, v| s.b.rules.merges_at_selection = v != 0,
            ),
    ]
}

const ROWS_V1: [Setting<Early, EarlyEffect>; 22] = rows(Release::V1);
const ROWS_V4: [Setting<Early, EarlyEffect>; 22] = rows(Release::V4);
static SETTINGS_V1: Settings<Early, EarlyEffect> =
    Settings::new("bfq-v1", ROWS_V1.split_at(IN_V1).0);
static SETTINGS_V4: Settings<Early, EarlyEffect> = Settings::new("bfq-v4", &ROWS_V4);
pub(super) static TUNABLES_V1: [Tunable; IN_V1] = listed(ROWS_V1.split_at(IN_V1).0);
pub(super) static TUNABLES_V4: [Tunable; ROWS_V4.len()] = listed(&ROWS_V4);
/// Makes what a row says of its change true.
pub(super) type EarlyEffect = fn(&mut Early, Instant, &mut Cx<'_>);

impl Early {
    fn budgets_changed(&mut self, _now: Instant, _cx: &mut Cx<'_>) {
        self.b.cut_budgets();
        self.recompute_max_budget();
        self.shorten_slot();
    }

    /// Nobody is raised any more.
    fn low_latency_changed(&mut self, now: Instant, cx: &mut Cx<'_>) {
        if !self.b.conf.low_latency {
            self.b.end_all_raising(now, cx);
        }
    }

    fn rules_changed(&mut self, _now: Instant, _cx: &mut Cx<'_>) {
        self.b.fair.set_rules(self.b.conf.fair);
    }

    /// How long queues stay raised.
    fn raising_changed(&mut self, _now: Instant, _cx: &mut Cx<'_>) {
        self.b.recompute_wr_duration();
        self.b.shorten_raising();
    }
}

impl Release {
    pub(super) fn settings(self) -> &'static Settings<Early, EarlyEffect> {
        match self {
            Release::V1 => &SETTINGS_V1,
            Release::V4 => &SETTINGS_V4,
        }
    }
}
