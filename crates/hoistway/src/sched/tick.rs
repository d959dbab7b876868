//! The tick of the legacy elevators: they compare whole kernel ticks, of 1 ms here
//! (specs/deadline.md, head; specs/sio.md section 1). Expiries in ms are ticks.

use crate::unit::Instant;

/// Length of a tick: 1 ms, the default of the specifications.
pub(super) const TICK_NS: u64 = 1_000_000;
/// Largest expiry: ten minutes, beyond which nothing expires in practice (chosen).
pub(super) const EXPIRE_MS_MAX: u64 = 600_000;
/// Largest count: the kernel's `int`.
pub(super) const COUNT_MAX: u64 = i32::MAX as u64;

/// The tick `now` lies in.
pub(super) fn ticks(now: Instant) -> i64 {
    (now.as_nanos() / TICK_NS) as i64
}
