//! What keeps a job from its next call: a rate, and think time.

use crate::rng::Rng;
use hoistway::{Instant, Nanos};

/// A rate of one direction: bytes or calls per second.
#[derive(Debug)]
pub(super) struct CallRate {
    bytes: u64,
    calls: u64,
    /// Gaps between calls are exponential, as of independent arrivals, and not even.
    poisson: bool,
    due: Instant,
}

impl CallRate {
    /// `None` without a limit.
    pub fn new(bytes: u64, calls: u64, poisson: bool) -> Option<CallRate> {
        (bytes > 0 || calls > 0).then_some(CallRate { bytes, calls, poisson, due: Instant::ZERO })
    }

    /// The process begins.
    pub fn start(&mut self, now: Instant) {
        self.due = now;
    }

    pub fn due(&self) -> Instant {
        self.due
    }

    /// The schedule moves.
    pub fn shift(&mut self, by: Nanos) {
        self.due += by;
    }

    /// A call of `len` bytes is made. The schedule is kept on average: a late call does not shift those
    /// behind it.
    pub fn spent(&mut self, len: u64, rng: &mut Rng) {
        let second = 1_000_000_000u128;
        let of_bytes = (u128::from(len) * second).checked_div(u128::from(self.bytes)).unwrap_or(0);
        let of_calls = second.checked_div(u128::from(self.calls)).unwrap_or(0);
        let gap = of_bytes.max(of_calls) as u64;
        let gap = if self.poisson { rng.exponential(gap as f64) as u64 } else { gap };
        self.due += Nanos(gap);
    }
}

/// Pauses after every so many calls, or so much time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThinkTime {
    time: Nanos,
    /// The first part of it, in which the process computes.
    spin: Nanos,
    blocks: u64,
    every: Option<Nanos>,
    /// Calls until the next one, and since when time counts.
    left: u64,
    since: Instant,
}

impl ThinkTime {
    /// `first`: calls before the first pause.
    pub fn new(
        time: Nanos,
        spin: Nanos,
        blocks: u64,
        first: u64,
        every: Option<Nanos>,
    ) -> ThinkTime {
        let since = Instant::ZERO;
        ThinkTime { time, spin: spin.min(time), blocks, every, left: first, since }
    }

    /// The process begins.
    pub fn start(&mut self, now: Instant) {
        self.since = now;
    }

    /// So many calls were made.
    pub fn made(&mut self, calls: u64) {
        self.left = self.left.saturating_sub(calls);
    }

    /// The two parts of a pause that is due.
    pub fn due(&mut self, now: Instant) -> Option<(Nanos, Nanos)> {
        let time = self.every.is_some_and(|every| self.since + every <= now);
        if self.left > 0 && !time {
            return None;
        }
        self.left = self.blocks;
        self.since = now + self.time;
        Some((self.spin, Nanos(self.time.0 - self.spin.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn the_slower_limit_rules_and_poisson_keeps_the_mean() {
        let mut rng = stream(1, "pace");
        let mut even = CallRate::new(4096, 10, false).unwrap();
        even.start(Instant::ZERO);
        even.spent(4096, &mut rng);
        assert_eq!(even.due(), Instant::ZERO + Nanos::secs(1));
        let mut poisson = CallRate::new(0, 1000, true).unwrap();
        (0..100_000).for_each(|_| poisson.spent(1, &mut rng));
        // Standard deviation of the sum: sqrt(100000) ms = 0.3 s.
        assert!((98.5..101.5).contains(&(poisson.due().as_nanos() as f64 / 1e9)));
        assert!(CallRate::new(0, 0, false).is_none());
    }

    #[test]
    fn pauses_come_after_calls_or_time_whichever_is_first() {
        let at = |ms| Instant::ZERO + Nanos::ms(ms);
        let mut think = ThinkTime::new(Nanos::ms(50), Nanos::ms(10), 4, 8, None);
        let parts = Some((Nanos::ms(10), Nanos::ms(40)));
        think.made(7);
        assert_eq!(think.due(at(1)), None);
        think.made(1);
        assert_eq!((think.due(at(2)), think.due(at(2))), (parts, None));
        think.made(4);
        assert_eq!(think.due(at(60)), parts);
        let every = Some(Nanos::ms(100));
        let mut timed = ThinkTime::new(Nanos::ms(50), Nanos::ZERO, u64::MAX, u64::MAX, every);
        timed.start(at(0));
        timed.made(1000);
        let whole = Some((Nanos::ZERO, Nanos::ms(50)));
        let dues = [99, 100, 249, 250].map(|ms| timed.due(at(ms)));
        assert_eq!(dues, [None, whole, None, whole]);
    }
}
