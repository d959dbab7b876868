//! I/O intensity: is the issuer of a queue nearly always waiting for I/O (specs/bfq.md 5.8)?
//!
//! A process that computes most of the time leaves the device idle if it is waited for, whatever its think times
//! look like one by one. Older versions counted quick arrivals, which misjudged mixed patterns; what is meant is
//! the part of the time in which the process has I/O (since 5.12).

use crate::unit::{Instant, Nanos};

/// Active and idle time of a queue over a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Intensity {
    /// Start of the window.
    pub start: Instant,
    /// Idle time in it, in nanoseconds; wraps around with quirk Q18.
    pub idle: u64,
    /// It was idle for at most a fifth of the window. True until something is known.
    pub bound: bool,
}

impl Intensity {
    pub fn new(now: Instant) -> Intensity {
        Intensity { start: now, idle: 0, bound: true }
    }

    /// A sync request arrives. `gap`: how long the queue had been idle (0 if it was not).
    #[inline]
    pub fn arrival(&mut self, gap: u64) {
        self.idle = self.idle.wrapping_add(gap);
    }

    /// Judges the window, and shortens it if it is long: both lengths are halved, not cleared, so that there is
    /// always something to judge by.
    #[inline]
    pub fn judge(&mut self, now: Instant) {
        let window = now.since(self.start);
        self.bound = self.idle.wrapping_mul(5) <= window.0;
        if window > WINDOW {
            self.start = Instant::from_nanos(now.as_nanos() - window.0 / 2);
            self.idle /= 2;
        }
    }
}

/// Long enough to hold several turns of a busy device, short enough to follow a change of phase (5.8).
const WINDOW: Nanos = Nanos::ms(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    #[test]
    fn a_fifth_of_idle_time_is_the_limit() {
        for (idle, bound) in [(20, true), (21, false)] {
            let mut intensity = Intensity::new(ms(0));
            intensity.arrival(Nanos::ms(idle).0);
            intensity.judge(ms(100));
            assert_eq!(intensity.bound, bound, "{idle}");
        }
    }

    #[test]
    fn a_window_above_200_ms_is_halved() {
        let mut intensity = Intensity::new(ms(0));
        intensity.arrival(Nanos::ms(30).0);
        intensity.judge(ms(200));
        assert_eq!((intensity.start, intensity.idle), (ms(0), Nanos::ms(30).0));
        intensity.judge(ms(202));
        assert_eq!((intensity.start, intensity.idle), (ms(101), Nanos::ms(15).0));
    }
}
