//! Tunables: the kernel's, and the switches for quirks of the reference (specs/bfq.md sections 9, 10).

use super::Bfq;
use super::budget::SLOT;
use crate::tunable::{Tunable, TunableError, Unit, check};
use crate::unit::Nanos;

/// What the tunables say, in the units of the decisions.
#[derive(Clone, Debug)]
pub(super) struct Conf {
    pub slice_idle: Nanos,
    pub strict_guarantees: bool,
    /// Sectors; 0 = automatic.
    pub user_max_budget: u64,
    pub timeout: Nanos,
    pub fifo_expire_sync: Nanos,
    pub fifo_expire_async: Nanos,
    pub back_seek_max_kib: u64,
    pub back_seek_penalty: u64,
    pub async_charge_factor: u64,
    pub first_think_long: bool,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            slice_idle: Nanos::ms(8),
            strict_guarantees: false,
            user_max_budget: 0,
            timeout: SLOT,
            fifo_expire_sync: Nanos::ms(125),
            fifo_expire_async: Nanos::ms(250),
            back_seek_max_kib: 16_384,
            back_seek_penalty: 2,
            async_charge_factor: 3,
            first_think_long: false,
        }
    }
}

const fn tunable(
    name: &'static str,
    unit: Unit,
    default: u64,
    range: (u64, u64),
    doc: &'static str,
) -> Tunable {
    Tunable { name, unit, default, min: range.0, max: range.1, doc }
}

/// Ten minutes: longer waits make no sense and shorter ones cannot overflow.
const MS_MAX: u64 = 600_000;

pub(super) static TUNABLES: &[Tunable] = &[
    tunable(
        "slice_idle",
        Unit::Millis,
        8,
        (0, MS_MAX),
        "How long the device is kept idle for the next request of a queue. 0: never.",
    ),
    tunable(
        "slice_idle_us",
        Unit::Micros,
        8_000,
        (0, 1_000 * MS_MAX),
        "The same in microseconds; the last one written counts.",
    ),
    tunable(
        "strict_guarantees",
        Unit::Switch,
        0,
        (0, 1),
        "Always idle, and only one request in the device. Raises slice_idle to 8 ms.",
    ),
    tunable(
        "max_budget",
        Unit::Sectors,
        0,
        (0, i32::MAX as u64),
        "Largest service of a slot. 0: what the device serves in timeout_sync at its peak rate.",
    ),
    tunable("timeout_sync", Unit::Millis, 125, (1, MS_MAX), "Time limit of a slot."),
    tunable(
        "fifo_expire_sync",
        Unit::Millis,
        125,
        (1, MS_MAX),
        "A sync request older than this may be served before the sorted order, once per slot.",
    ),
    tunable("fifo_expire_async", Unit::Millis, 250, (1, MS_MAX), "The same for async requests."),
    tunable(
        "back_seek_max",
        Unit::Kib,
        16_384,
        (0, 1 << 40),
        "Requests at most this far behind the head compete with those ahead of it.",
    ),
    tunable(
        "back_seek_penalty",
        Unit::Factor,
        2,
        (1, 1_000),
        "Distances behind the head count this many times.",
    ),
    tunable(
        "async_charge_factor",
        Unit::Factor,
        3,
        (1, 1_000),
        "An async request of an unraised queue costs this many times its size, if all weigh alike.",
    ),
    tunable(
        "class_idle_period",
        Unit::Millis,
        200,
        (1, MS_MAX),
        "How often the idle class is offered a slot while others are busy.",
    ),
    tunable(
        "exact_pick",
        Unit::Switch,
        1,
        (0, 1),
        "1: the eligible queue with the smallest finish. 0: the reference's tree descent (quirk Q1).",
    ),
    tunable(
        "exact_candidate",
        Unit::Switch,
        0,
        (0, 1),
        "1: the next queue is looked up at every activation. 0: it is compared with the cached one (Q15).",
    ),
    tunable(
        "first_think",
        Unit::Choice(&["zero", "long"]),
        0,
        (0, 1),
        "First think-time sample of a queue when no time passes between creation and insertion (Q18).",
    ),
];

impl Bfq {
    pub(super) fn set_tunable(&mut self, name: &str, value: u64) -> Result<(), TunableError> {
        check(TUNABLES, "bfq", name, value)?;
        let on = value != 0;
        match name {
            "slice_idle" => self.conf.slice_idle = Nanos::ms(value),
            "slice_idle_us" => self.conf.slice_idle = Nanos::us(value),
            "strict_guarantees" => {
                if on && !self.conf.strict_guarantees {
                    self.conf.slice_idle = self.conf.slice_idle.max(STRICT_SLICE_IDLE);
                }
                self.conf.strict_guarantees = on;
            }
            "max_budget" => {
                self.conf.user_max_budget = value;
                self.recompute_max_budget();
            }
            "timeout_sync" => {
                self.conf.timeout = Nanos::ms(value);
                self.recompute_max_budget();
            }
            "fifo_expire_sync" => self.conf.fifo_expire_sync = Nanos::ms(value),
            "fifo_expire_async" => self.conf.fifo_expire_async = Nanos::ms(value),
            "back_seek_max" => self.conf.back_seek_max_kib = value,
            "back_seek_penalty" => self.conf.back_seek_penalty = value,
            "async_charge_factor" => self.conf.async_charge_factor = value,
            "class_idle_period" => self.fair.idle_class_period = Nanos::ms(value),
            "exact_pick" => self.fair.exact_pick = on,
            "exact_candidate" => self.fair.exact_candidate = on,
            "first_think" => self.conf.first_think_long = on,
            _ => unreachable!("every name of the table is handled"),
        }
        Ok(())
    }

    pub(super) fn tunable(&self, name: &str) -> Option<u64> {
        let conf = &self.conf;
        Some(match name {
            "slice_idle" => conf.slice_idle.as_ms(),
            "slice_idle_us" => conf.slice_idle.as_us(),
            "strict_guarantees" => conf.strict_guarantees.into(),
            "max_budget" => conf.user_max_budget,
            "timeout_sync" => conf.timeout.as_ms(),
            "fifo_expire_sync" => conf.fifo_expire_sync.as_ms(),
            "fifo_expire_async" => conf.fifo_expire_async.as_ms(),
            "back_seek_max" => conf.back_seek_max_kib,
            "back_seek_penalty" => conf.back_seek_penalty,
            "async_charge_factor" => conf.async_charge_factor,
            "class_idle_period" => self.fair.idle_class_period.as_ms(),
            "exact_pick" => self.fair.exact_pick.into(),
            "exact_candidate" => self.fair.exact_candidate.into(),
            "first_think" => conf.first_think_long.into(),
            _ => return None,
        })
    }
}

/// `strict_guarantees` needs idling at least this long (9).
const STRICT_SLICE_IDLE: Nanos = Nanos::ms(8);
