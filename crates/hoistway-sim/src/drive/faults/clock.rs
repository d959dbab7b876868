//! Drive time: the time in which a faulty drive's model lives.
//!
//! Real time is cut into *segments* in which the factor between both is constant: 1, the product of the slow phases that
//! are on, or nothing at all in a pause. In a segment that begins at b, drive time i, with f thousandths:
//! inner(t) = i + floor((t - b) 1000 / f), and the first real time at which drive time has reached τ is
//! b + ceil((τ - i) f / 1000). The second undoes the first: floor(ceil(x f / 1000) 1000 / f) >= x, and one nanosecond
//! earlier it is below x.

use super::{Faults, Recurring, Slowness};
use crate::rng::{self, Rng};

/// Thousandths.
const ONE: u64 = 1000;

/// Phases that come and go: exponential times between them, lengths uniform in 0.5 to 1.5 of the mean.
#[derive(Clone, Debug)]
pub(super) struct RandomPhases {
    rng: Rng,
    of: Recurring,
    /// One is on.
    pub on: bool,
    /// Until then.
    pub until: u64,
}

impl RandomPhases {
    pub fn new(of: Recurring, seed: u64, name: &str, what: &str) -> RandomPhases {
        let mut rng = rng::stream(seed, &format!("drive/{name}/faults/{what}"));
        let until = 1 + rng.exponential(of.every) as u64;
        RandomPhases { rng, of, on: false, until }
    }

    /// The next begins where this one ends; each lasts at least 1 ns.
    pub fn next(&mut self) {
        let length = match self.on {
            true => self.rng.exponential(self.of.every),
            false => self.of.length * self.rng.range(0.5, 1.5),
        };
        self.on = !self.on;
        self.until += 1 + length as u64;
    }
}

/// A stretch of real time with one factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    begin: u64,
    /// Behind its last instant.
    pub end: u64,
    /// Drive time at its begin.
    inner: u64,
    /// Thousandths of real time per drive time; `None`: a pause.
    factor: Option<Slowness>,
}

impl Segment {
    #[cfg(test)]
    pub fn is_pause(&self) -> bool {
        self.factor.is_none()
    }

    /// Drive time at `t`, which lies in the segment or at its end.
    pub fn inner_at(&self, t: u64) -> u64 {
        match self.factor {
            None => self.inner,
            Some(ONE) => self.inner + (t - self.begin),
            Some(f) => {
                let passed = u128::from(t - self.begin) * u128::from(ONE) / u128::from(f);
                self.inner + passed as u64
            }
        }
    }

    /// When drive time reaches `inner`, if that is in the segment; else its end.
    pub fn outer_of(&self, inner: u64) -> u64 {
        let left = inner.saturating_sub(self.inner);
        match self.factor {
            None => self.end,
            Some(f) => {
                let takes = (u128::from(left) * u128::from(f)).div_ceil(u128::from(ONE));
                let at = u128::from(self.begin) + takes;
                u64::try_from(at).unwrap_or(u64::MAX).min(self.end)
            }
        }
    }
}

/// What decides the factor.
#[derive(Debug)]
pub(super) struct Clock {
    start: Option<(u64, Slowness)>,
    pauses: Option<RandomPhases>,
    slow: Option<(RandomPhases, Slowness)>,
    /// The current segment.
    pub now: Segment,
}

impl Clock {
    pub fn new(faults: &Faults, seed: u64, name: &str) -> Clock {
        let mut clock = Clock {
            start: faults.start,
            pauses: faults.pause.map(|of| RandomPhases::new(of, seed, name, "pause")),
            slow: faults.slow.map(|(of, f)| (RandomPhases::new(of, seed, name, "slow"), f)),
            now: Segment { begin: 0, end: 0, inner: 0, factor: Some(ONE) },
        };
        clock.next();
        clock
    }

    /// The segment behind the current one.
    pub fn next(&mut self) {
        let begin = self.now.end;
        let inner = self.now.inner_at(begin);
        let (mut end, mut factor) = (u64::MAX, ONE);
        if let Some((until, slowness)) = self.start.filter(|&(until, _)| begin < until) {
            end = end.min(until);
            factor = factor * slowness / ONE;
        }
        if let Some((phases, slowness)) = &mut self.slow {
            while phases.until <= begin {
                phases.next();
            }
            end = end.min(phases.until);
            factor = if phases.on { factor * *slowness / ONE } else { factor };
        }
        let mut factor = Some(factor);
        if let Some(pauses) = &mut self.pauses {
            while pauses.until <= begin {
                pauses.next();
            }
            end = end.min(pauses.until);
            factor = if pauses.on { None } else { factor };
        }
        self.now = Segment { begin, end, inner, factor };
    }
}
