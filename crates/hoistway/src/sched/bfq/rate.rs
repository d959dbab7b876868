//! The peak-rate estimator: how much the device can serve in one slot (specs/bfq.md 3.3).
//!
//! Nobody outside a drive knows when it serves a command. But the queues inside are finite and lose nothing, so over a
//! long interval the rate of dispatches tends to that of service. The *peak* is wanted, for budgets and for the length
//! of raising; random I/O says nothing about it and would shrink the budgets of streams, so only sequential intervals
//! may lower the estimate, while a rate above it is always evidence.

use super::queue::seek::is_far;
use crate::unit::{Instant, Nanos};

/// Estimator state. Rates are in 2^16 sectors per microsecond, lengths and positions in sectors.
#[derive(Clone, Debug)]
pub(super) struct PeakRate {
    samples: u64,
    seq_samples: u64,
    sectors: u64,
    first_disp: Instant,
    last_disp: Instant,
    delta: Nanos,
    max_len: u64,
    /// The estimate.
    pub peak: u64,
    /// End of the last dispatched request.
    pub last_pos: u64,
    pub last_completion: Instant,
    /// Which reference the estimate started from.
    rotational: bool,
    /// Intervals that moved the estimate.
    pub accepted: u64,
    /// Intervals that did not.
    pub rejected: u64,
}

/// Facts for the estimator when a request is dispatched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dispatched {
    pub pos: u64,
    pub len: u64,
    /// Requests in the device, without this one.
    pub inflight: u32,
    pub rotational: bool,
}

impl PeakRate {
    pub fn new(rotational: bool) -> PeakRate {
        let reference = if rotational { REF_RATE_ROT } else { REF_RATE_NONROT };
        PeakRate {
            samples: 0,
            seq_samples: 0,
            sectors: 0,
            first_disp: Instant::ZERO,
            last_disp: Instant::ZERO,
            delta: Nanos::ZERO,
            max_len: 0,
            peak: reference * 2 / 3,
            last_pos: 0,
            last_completion: Instant::ZERO,
            rotational,
            accepted: 0,
            rejected: 0,
        }
    }

    /// The reference device of 6.1: its peak rate, and how long raising lasts on it.
    pub fn reference(&self) -> (u64, Nanos) {
        if self.rotational {
            (REF_RATE_ROT, Nanos::secs(7))
        } else {
            (REF_RATE_NONROT, Nanos::ms(2500))
        }
    }

    /// A request leaves its queue. True: the estimate has changed.
    #[inline(always)]
    pub fn dispatched(&mut self, now: Instant, r: Dispatched) -> bool {
        let mut changed = false;
        if self.samples == 0 {
            self.reset(now, r.len);
        } else if now.since(self.last_disp) > IDLE_GAP && r.inflight == 0 {
            changed = self.close(Some((now, r.len)));
        } else {
            self.samples += 1;
            let busy = r.inflight > 0 || now.since(self.last_completion) < IMMEDIATE;
            if busy && !is_far(self.last_pos, r.pos, r.len, r.rotational) {
                self.seq_samples += 1;
            }
            self.sectors += r.len;
            let keep = if self.samples.is_multiple_of(MIN_SAMPLES) { 0 } else { self.max_len };
            self.max_len = keep.max(r.len);
            self.delta = now.since(self.first_disp);
            if self.delta >= REF_INTERVAL {
                changed = self.close(Some((now, r.len)));
            }
        }
        self.last_pos = r.pos + r.len;
        self.last_disp = now;
        changed
    }

    /// A request is done. True: the estimate has changed.
    #[inline]
    pub fn completed(&mut self, now: Instant) -> bool {
        let gap = now.since(self.last_completion).as_us();
        // The device was nearly idle: the interval must not count it (quirk Q9).
        let idle = gap > IMMEDIATE.as_us() && (self.max_len << RATE_SHIFT) / gap < GAP_RATE;
        let changed = idle && self.close(None);
        self.last_completion = now;
        changed
    }

    /// The estimate as a slot's worth of sectors.
    pub fn max_budget(&self, timeout_ms: u64) -> u64 {
        (self.peak * 1000 * timeout_ms) >> RATE_SHIFT
    }

    fn reset(&mut self, now: Instant, len: u64) {
        self.first_disp = now;
        self.last_disp = now;
        self.samples = 1;
        self.seq_samples = 0;
        self.sectors = len;
        self.max_len = len;
    }

    /// Ends the observation interval; the next one begins with the request given.
    #[inline(never)]
    fn close(&mut self, next: Option<(Instant, u64)>) -> bool {
        let changed = self.samples >= MIN_SAMPLES && self.delta >= MIN_INTERVAL && self.update();
        match next {
            Some((now, len)) => self.reset(now, len),
            None => self.samples = 0,
        }
        changed
    }

    fn update(&mut self) -> bool {
        self.delta = self.delta.max(self.last_completion.since(self.first_disp));
        let rate = (self.sectors << RATE_SHIFT) / self.delta.as_us();
        let few_sequential = self.seq_samples < 3 * self.samples / 4;
        if (few_sequential && rate <= self.peak) || rate > MAX_RATE {
            self.rejected += 1;
            return false;
        }
        // The more sequential and the longer, the more the interval weighs: 1/10 to 1/2.
        let weight = 9 * self.seq_samples / self.samples;
        let weight = (weight * self.delta.0 / REF_INTERVAL.0).min(8);
        let k = 10 - weight;
        self.peak = (self.peak * (k - 1) / k + rate / k).max(1);
        self.accepted += 1;
        true
    }
}

/// Fraction bits of a rate (3.1).
const RATE_SHIFT: u32 = 16;
/// Reference peak rates (3.1), about 109 MB/s and 258 MB/s: below true peaks, because the estimator comes out low.
const REF_RATE_ROT: u64 = 14_000;
const REF_RATE_NONROT: u64 = 33_000;
/// 20 sectors per microsecond, 10 GB/s: above it the figures are not believed (3.3); a cache has swallowed the requests.
const MAX_RATE: u64 = 20 << RATE_SHIFT;
/// Fewer requests, or a shorter time, measure what the drive takes in and not what it serves (3.1).
const MIN_SAMPLES: u64 = 32;
const MIN_INTERVAL: Nanos = Nanos::ms(300);
/// An interval this long is judged, and counts in full.
const REF_INTERVAL: Nanos = Nanos::secs(1);
/// A pause this long with an idle device ends the interval (3.3): an idle drive inside it would look slow.
const IDLE_GAP: Nanos = Nanos::ms(100);
/// Immediate think time (3.1).
const IMMEDIATE: Nanos = Nanos::ms(2);
/// Below this rate over the gap between two completions the device counts as idle (3.3).
const GAP_RATE: u64 = 64;
