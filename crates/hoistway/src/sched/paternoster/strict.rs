//! `strict`: a numeric target is kept though it costs throughput.
//!
//! *Problem.* The valve stands where the drive is just saturated. A target may ask for less than the drive then
//! takes; what it would have to give for it is not the scheduler's to decide, so by default the target is missed and
//! the scheduler says so. Who sets `strict` has decided.
//!
//! *Idea.* A second, smaller valve and cut, in force only while a numeric target is missed at the first ones.
//!
//! *Rule.* The requests of numeric targets are judged by windows of 128. More than one in a hundred late: a quarter
//! less inside, at the least valve half the cut. Four windows in a row with none late and all within three quarters
//! of the target: a quarter more, until the first valve is reached; twice as many windows each time that was too much. While the second valve binds, the first learns
//! nothing: what it would measure is what was given away.
//!
//! *Guarantee.* At the end of the way one greedy request of 16 KiB is inside at a time: what is missed then, the
//! device alone takes. The price is told: the rate against the ceiling as last measured.
//!
//! *Weaknesses.* A window of a seldom target is long. The way up is slow, so a load that changes keeps paying for a
//! while. On disks, where the valve counts nothing, it does nothing.

use super::measure::UNIT;
use crate::unit::{Instant, Nanos, Sectors};

/// Requests of a window: one late of them is still one in a hundred.
const WINDOW: u32 = 128;
/// Late ones that a window may have.
const LATE: u32 = 1;
const CALM_WINDOWS: u32 = 4;
const PATIENCE_MOST: u32 = 256;
const LEAST: u64 = 3 * UNIT;
const CUT_LEAST: u64 = 32;
/// The rate is taken over at least so long.
const RATE_WINDOW: Nanos = Nanos::ms(50);

#[derive(Debug, Default)]
pub(super) struct Strict {
    pub on: bool,
    /// In force; `None`: the first valve is small enough.
    limit: Option<StrictLimit>,
    requests: u32,
    late: u32,
    /// Those beyond three quarters of their target.
    close: u32,
    calm: u32,
    /// Calm windows that it takes to open again, and whether it was opened last.
    patience: u32,
    opened: bool,
    rate_from: Instant,
    rate_sectors: u64,
    /// Sectors per second while the limit was in force.
    rate: u64,
}

#[derive(Clone, Copy, Debug)]
struct StrictLimit {
    k: u64,
    cut: Sectors,
}

impl Strict {
    /// The second valve is smaller than the first.
    pub fn binds(&self) -> bool {
        self.limit.is_some()
    }

    /// The valve in force.
    pub fn valve(&self, k: u64) -> u64 {
        self.limit.map_or(k, |l| l.k.min(k))
    }

    /// The cut in force.
    pub fn cut(&self, cut: Sectors) -> Sectors {
        self.limit.map_or(cut, |l| l.cut.min(cut))
    }

    pub fn set(&mut self, on: bool) {
        if !on {
            self.release();
        }
        self.on = on;
    }

    /// No numeric target any more, or none that is to be kept at a price.
    pub fn release(&mut self) {
        *self = Strict { on: self.on, ..Strict::default() };
    }

    /// Cost of keeping the targets, in thousandths of `ceiling`; `None`: nothing, or not known yet.
    pub fn cost_permille(&self, ceiling: u64) -> Option<u32> {
        if self.limit.is_none() || self.rate == 0 || ceiling == 0 {
            return None;
        }
        Some((ceiling.saturating_sub(self.rate) * 1000 / ceiling) as u32)
    }

    /// The drive has moved so much.
    pub fn moved(&mut self, now: Instant, sectors: Sectors) {
        if self.limit.is_none() {
            return;
        }
        self.rate_sectors += sectors.0;
        let time = now.since(self.rate_from);
        if time >= RATE_WINDOW {
            let per_s = u128::from(self.rate_sectors) * 1_000_000_000 / u128::from(time.0);
            let fresh = per_s as u64;
            self.rate = if self.rate == 0 { fresh } else { (7 * self.rate + fresh) / 8 };
            (self.rate_from, self.rate_sectors) = (now, 0);
        }
    }

    /// A request with a numeric target is over, under the first valve `k` and the cut `cut`.
    pub fn completed(&mut self, now: Instant, latency: Nanos, target: Nanos, k: u64, cut: Sectors) {
        if !self.on {
            return;
        }
        self.requests += 1;
        self.late += u32::from(latency > target);
        self.close += u32::from(latency.0 > target.0 - target.0 / 4);
        if self.requests < WINDOW {
            return;
        }
        let (late, close) = (self.late, self.close);
        (self.requests, self.late, self.close) = (0, 0, 0);
        if late > LATE {
            self.calm = 0;
            if core::mem::take(&mut self.opened) {
                // One step too many: trying it again as often would itself cost the target.
                self.patience = (2 * self.patience.max(CALM_WINDOWS)).min(PATIENCE_MOST);
            }
            self.tighten(now, k, cut);
        } else if close == 0 {
            self.calm += 1;
            if self.calm >= self.patience.max(CALM_WINDOWS) {
                self.calm = 0;
                self.opened = self.limit.is_some();
                self.loosen(k, cut);
            }
        } else {
            self.calm = 0;
        }
    }

    fn tighten(&mut self, now: Instant, k: u64, cut: Sectors) {
        let Some(l) = &mut self.limit else {
            self.limit = Some(StrictLimit { k: (k * 3 / 4).max(LEAST), cut });
            (self.rate_from, self.rate_sectors, self.rate) = (now, 0, 0);
            return;
        };
        // The first valve may have come below.
        l.k = l.k.min(k);
        if l.k > LEAST {
            l.k = (l.k * 3 / 4).max(LEAST);
        } else {
            // Wide open, the first halving is from the valve itself.
            let whole = l.cut.min(cut).0.min(2 * l.k.max(CUT_LEAST));
            l.cut = Sectors((whole / 2).max(CUT_LEAST));
        }
    }

    fn loosen(&mut self, k: u64, cut: Sectors) {
        let Some(l) = &mut self.limit else { return };
        if l.cut < cut && l.k <= LEAST && l.cut.0 < 256 {
            l.cut = Sectors(2 * l.cut.0);
            return;
        }
        l.cut = cut;
        l.k = l.k * 5 / 4 + 1;
        if l.k >= k {
            self.limit = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Sectors = Sectors(256);

    fn strict() -> Strict {
        let mut s = Strict::default();
        s.set(true);
        s
    }

    fn windows(s: &mut Strict, n: u32, latency: u64, target: u64) {
        for _ in 0..n * WINDOW {
            s.completed(Instant::ZERO, Nanos::us(latency), Nanos::us(target), 64 * UNIT, CUT);
        }
    }

    #[test]
    fn a_missed_target_closes_the_valve_down_to_one_small_request() {
        let mut s = strict();
        windows(&mut s, 1, 500, 400);
        assert_eq!((s.valve(64 * UNIT), s.cut(CUT)), (48 * UNIT, CUT));
        windows(&mut s, 40, 500, 400);
        assert_eq!((s.valve(64 * UNIT), s.cut(CUT)), (LEAST, Sectors(CUT_LEAST)));
    }

    #[test]
    fn a_target_kept_with_room_opens_it_again_and_one_just_kept_does_not() {
        let mut s = strict();
        windows(&mut s, 40, 500, 400);
        windows(&mut s, 40, 390, 400);
        assert_eq!(s.valve(64 * UNIT), LEAST, "no room");
        windows(&mut s, 200, 200, 400);
        assert!(!s.binds());
    }

    #[test]
    fn one_late_request_in_a_window_is_within_the_target() {
        let mut s = strict();
        s.completed(Instant::ZERO, Nanos::us(900), Nanos::us(400), 64 * UNIT, CUT);
        windows(&mut s, 1, 100, 400);
        assert!(!s.binds());
    }

    #[test]
    fn without_strict_nothing_is_given_away() {
        let mut s = Strict::default();
        windows(&mut s, 10, 500, 400);
        assert!(!s.binds());
    }

    #[test]
    fn the_price_is_what_the_rate_lacks_of_the_ceiling() {
        let mut s = strict();
        windows(&mut s, 1, 500, 400);
        assert_eq!(s.cost_permille(1000), None, "no rate yet");
        s.moved(Instant::ZERO + Nanos::ms(50), Sectors(45));
        assert_eq!(s.cost_permille(1000), Some(100), "45 sectors in 50 ms are 900 a second");
    }
}
