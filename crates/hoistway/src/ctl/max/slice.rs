//! The arithmetic of one direction of one node: how much of a time slice is used, how long the next I/O
//! must wait (specs/io-max-throttling.md A.2 to A.6). Times are ticks.

use crate::list::List;
use crate::unit::{Instant, Nanos};

/// "max" of a rate in bytes.
pub(super) const BPS_MAX: u64 = u64::MAX;
/// "max" of a rate in I/Os.
pub(super) const IOPS_MAX: u64 = u32::MAX as u64;

/// The present in ticks, and how long a slice is.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceClock {
    /// Length of a tick.
    tick: Nanos,
    /// Ticks per second.
    hz: u64,
    /// Ticks per slice.
    pub slice: u64,
    /// The present.
    pub instant: Instant,
    /// The tick it lies in.
    pub now: u64,
    /// Where a slice ends that is extended now: the next multiple of a slice that is a slice away.
    reach: u64,
    /// The present stays in this tick until then.
    until: u64,
    /// The rules of Linux 6.12 and not of 6.1.
    pub newer: bool,
}

impl SliceClock {
    /// Ticks of that length, slices of so many milliseconds.
    pub fn new(tick: Nanos, slice_ms: u64) -> SliceClock {
        // A tick of 3 333 333 ns is the kernel's 300 Hz.
        let tick = Nanos(tick.0.max(1));
        let hz = ((1_000_000_000 + tick.0 / 2) / tick.0).max(1);
        let mut clock = SliceClock {
            tick,
            hz,
            slice: 1,
            instant: Instant::ZERO,
            now: 0,
            reach: 0,
            until: 0,
            newer: false,
        };
        clock.set_slice(slice_ms);
        clock
    }

    /// Slices of so many milliseconds, at least a tick.
    pub fn set_slice(&mut self, slice_ms: u64) {
        self.slice = (slice_ms * self.hz / 1000).max(1);
        self.reach = roundup(self.now + self.slice, self.slice);
    }

    /// Time has passed.
    pub fn set(&mut self, now: Instant) {
        self.instant = now;
        let ns = now.as_nanos();
        if ns >= self.until {
            self.now = ns / self.tick.0;
            self.until = (self.now + 1).saturating_mul(self.tick.0);
            self.reach = roundup(self.now + self.slice, self.slice);
        }
    }

    /// The instant at which a tick begins.
    pub fn edge(&self, tick: u64) -> Instant {
        Instant::from_nanos(tick.saturating_mul(self.tick.0))
    }

    /// Amount that a rate per second allows in so many ticks, rounded down.
    pub fn allowed(&self, rate: u64, ticks: u64) -> u64 {
        match rate.checked_mul(ticks) {
            Some(product) => product / self.hz,
            None => {
                let wide = u128::from(rate) * u128::from(ticks) / u128::from(self.hz);
                u64::try_from(wide).unwrap_or(u64::MAX)
            }
        }
    }

    /// The limit with what it allows in a slice.
    ///
    /// A budget per slice makes the check one comparison; exact pacing would need a timer per I/O.
    pub fn limit(&self, rate: Rate) -> Limit {
        Limit {
            rate,
            slice_bytes: self.allowed(rate.bps, self.slice),
            slice_ios: self.allowed(rate.iops, self.slice),
        }
    }
}

/// Bytes and I/Os per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// Bytes per second; [`BPS_MAX`]: no limit.
    pub bps: u64,
    /// I/Os per second; [`IOPS_MAX`]: no limit.
    pub iops: u64,
}

impl Rate {
    /// No limit.
    pub const MAX: Rate = Rate { bps: BPS_MAX, iops: IOPS_MAX };
}

/// A rate, and what it allows in one slice (most checks need no more).
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub rate: Rate,
    slice_bytes: u64,
    slice_ios: u64,
}

impl Limit {
    /// No limit.
    pub const MAX: Limit = Limit { rate: Rate::MAX, slice_bytes: u64::MAX, slice_ios: u64::MAX };
}

/// Amounts that an I/O counts for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Bytes; 512 for a discard.
    pub bytes: u64,
    /// Its bytes were counted before.
    pub charged: bool,
}

/// One direction of one node: all that an I/O which passes looks at, in two cache lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct DirLane {
    /// `io.max`.
    pub limit: Limit,
    /// The slice: first and last tick.
    pub start: u64,
    end: u64,
    /// Passed in the slice.
    bytes: u64,
    ios: u64,
    /// Amount that a change of the limit left over, or overdrew.
    carry_bytes: i64,
    carry_ios: i64,
    /// I/Os queued here.
    pub queued: u32,
    /// The sources that have I/O, in turn.
    pub ring: List,
    /// Passed so far.
    pub passed_bytes: u64,
    pub passed_ios: u64,
    /// Every I/O that passed: tick and bytes.
    #[cfg(test)]
    pub log: alloc::vec::Vec<(u64, u64)>,
}

impl DirLane {
    /// Without a limit.
    pub const fn new() -> DirLane {
        DirLane {
            limit: Limit::MAX,
            start: 0,
            end: 0,
            bytes: 0,
            ios: 0,
            carry_bytes: 0,
            carry_ios: 0,
            queued: 0,
            ring: List::new(),
            passed_bytes: 0,
            passed_ios: 0,
            #[cfg(test)]
            log: alloc::vec::Vec::new(),
        }
    }

    /// The slice is over.
    pub fn used(&self, clock: &SliceClock) -> bool {
        !(self.start <= clock.now && clock.now <= self.end)
    }

    /// A new slice that keeps the carries.
    fn restart(&mut self, clock: &SliceClock) {
        (self.bytes, self.ios) = (0, 0);
        (self.start, self.end) = (clock.now, clock.now + clock.slice);
    }

    /// May an I/O pass (A.4)? 0, or so many ticks to wait.
    ///
    /// Linux 6.1 adds what a change of limits has left over without a sign: what is overdrawn by more than is allowed
    /// allows all. In 6.12 (`base`) it has its sign, and an I/O waits for as long as it takes to allow one at least.
    pub fn wait(&mut self, limit: &Limit, size: Size, clock: &SliceClock) -> u64 {
        if limit.rate == Rate::MAX {
            return 0;
        }
        let (now, slice) = (clock.now, clock.slice);
        if self.used(clock) && self.queued == 0 {
            self.restart(clock);
            (self.carry_bytes, self.carry_ios) = (0, 0);
        } else if self.end < now + slice {
            self.end = clock.reach;
        }
        let mut wait = 0;
        if limit.rate.bps != BPS_MAX && !size.charged {
            wait = self.wait_for_bytes(limit, size.bytes, clock);
        }
        if (wait == 0 || clock.newer) && limit.rate.iops != IOPS_MAX {
            wait = wait.max(self.wait_for_ios(limit, clock));
        }
        if wait > 0 && self.end < now.saturating_add(wait) {
            self.end = roundup(now.saturating_add(wait), slice);
        }
        wait
    }

    fn wait_for_bytes(&self, limit: &Limit, size: u64, clock: &SliceClock) -> u64 {
        let elapsed = clock.now - self.start;
        let (until, allowed) = if elapsed <= clock.slice {
            // A fresh slice grants all of it at once.
            (clock.slice, limit.slice_bytes)
        } else {
            let until = roundup(elapsed, clock.slice);
            (until, clock.allowed(limit.rate.bps, until))
        };
        let allowed = match clock.newer {
            true => i128::from(allowed) + i128::from(self.carry_bytes),
            false => i128::from(allowed.wrapping_add(self.carry_bytes as u64)),
        };
        let extra = i128::from(self.bytes) + i128::from(size) - allowed;
        if extra <= 0 {
            return 0;
        }
        let ticks = extra * i128::from(clock.hz) / i128::from(limit.rate.bps);
        u64::try_from(ticks).unwrap_or(u64::MAX / 2).clamp(1, u64::MAX / 2) + (until - elapsed)
    }

    fn wait_for_ios(&self, limit: &Limit, clock: &SliceClock) -> u64 {
        let elapsed = clock.now - self.start;
        let (until, allowed) = if elapsed < clock.slice {
            (clock.slice, limit.slice_ios)
        } else {
            let until = roundup(elapsed + 1, clock.slice);
            (until, clock.allowed(limit.rate.iops, until))
        };
        let allowed = match clock.newer {
            true => i128::from(allowed) + i128::from(self.carry_ios),
            false => i128::from((allowed as u32).wrapping_add(self.carry_ios as u32)),
        };
        if i128::from(self.ios) < allowed {
            return 0;
        }
        let rest = until - elapsed;
        if clock.newer { rest.max(clock.hz / limit.rate.iops + 1) } else { rest }
    }

    /// An I/O passes (A.5).
    pub fn charge(&mut self, size: Size, _now: u64) {
        #[cfg(test)]
        self.log.push((_now, if size.charged { 0 } else { size.bytes }));
        if !size.charged {
            self.bytes = self.bytes.saturating_add(size.bytes);
            self.passed_bytes += size.bytes;
        }
        self.ios += 1;
        self.passed_ios += 1;
    }

    /// Forgets whole slices that have passed with what they allowed (A.6).
    pub fn trim(&mut self, limit: &Limit, clock: &SliceClock) {
        if self.used(clock) {
            return;
        }
        self.end = clock.reach;
        let elapsed = clock.now - self.start;
        if elapsed < clock.slice {
            return;
        }
        let whole = elapsed / clock.slice * clock.slice;
        let of = |rate, carry| i128::from(clock.allowed(rate, whole)) + i128::from(carry);
        let bytes = of(limit.rate.bps, self.carry_bytes);
        let ios = of(limit.rate.iops, self.carry_ios);
        // To Linux 6.12 a number of 64 bits with a sign: what no limit allows in more than half a second is below 0.
        let none = bytes <= 0 || (clock.newer && (bytes as i64) < 0);
        if none && ios <= 0 {
            return;
        }
        (self.carry_bytes, self.carry_ios) = (0, 0);
        self.bytes = less(self.bytes, bytes);
        self.ios = less(self.ios, ios);
        self.start += whole;
    }

    /// A child hands an I/O up. If the slice is over, a new one begins, as early as the child's: credit
    /// for the time the I/O waited below (A.8.3).
    pub fn credit(&mut self, child_start: u64, clock: &SliceClock) {
        if !self.used(clock) {
            return;
        }
        let start = self.start;
        self.restart(clock);
        (self.carry_bytes, self.carry_ios) = (0, 0);
        self.start = child_start.max(start);
    }

    /// The limit is about to change: what it allowed and was not used, or the other way round, carries
    /// over (A.9).
    pub fn carry(&mut self, limit: &Limit, clock: &SliceClock) {
        if self.queued == 0 {
            return;
        }
        let elapsed = clock.now - self.start;
        let left = |rate, used, carry| {
            let allowed = i128::from(clock.allowed(rate, elapsed));
            clamp(i128::from(carry) + allowed - i128::from(used))
        };
        if limit.rate.bps != BPS_MAX {
            self.carry_bytes = left(limit.rate.bps, self.bytes, self.carry_bytes);
        }
        if limit.rate.iops != IOPS_MAX {
            self.carry_ios = left(limit.rate.iops, self.ios, self.carry_ios);
        }
    }

    /// The limit has changed: a new slice that keeps the carries (A.9).
    pub fn limit_changed(&mut self, clock: &SliceClock) {
        self.restart(clock);
    }
}

/// The next multiple of `unit` that is not below `x`.
fn roundup(x: u64, unit: u64) -> u64 {
    x.div_ceil(unit).saturating_mul(unit)
}

/// `from` less what is allowed, not below 0 nor above `from` plus what is overdrawn.
fn less(from: u64, allowed: i128) -> u64 {
    u64::try_from((i128::from(from) - allowed).max(0)).unwrap_or(u64::MAX)
}

fn clamp(x: i128) -> i64 {
    x.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
