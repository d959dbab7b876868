//! The clock of the device: vtime, its rate, and how the rate is steered (specs/io-cost.md 4.5, 9 steps 6, 7, 12).

use super::model::VUS;
use super::settings::CostConf;
use crate::request::Dir;
use crate::unit::Instant;

/// Percent of vrate that it moves by, for a busy level whose absolute value is below the first number.
///
/// Four periods must agree before anything moves by 1 %, so that noise moves nothing; 52 in a row move it
/// by 16 % a period, so that a wrong model is escaped from.
const STEPS: [(u64, u64); 6] = [(4, 0), (20, 1), (36, 2), (44, 4), (52, 8), (u64::MAX, 16)];

/// One moment, as the controller sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub at: Instant,
    /// Microseconds, rounded down.
    pub us: u64,
    /// Device vtime.
    pub v: u64,
}

/// Lengths of credit in vtime (4.5).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Margins {
    pub min: i64,
    pub low: i64,
    pub target: i64,
}

/// Latencies of the requests of a period, by direction (6.4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    pub met: [u64; 2],
    pub missed: [u64; 2],
    pub wait_ns: u64,
}

/// Latencies of a period's requests, in the terms in which saturation is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality {
    /// Requests over their latency by direction, in ppm.
    pub missed_ppm: [u64; 2],
    /// Time that requests waited for tags, in percent of the period; their sum, so it may exceed 100.
    pub wait_pct: u64,
}

impl Served {
    /// A request is over: did it meet its latency?
    #[inline]
    pub fn count(&mut self, dir: Dir, met: bool, waited_ns: u64) {
        let count = if met { &mut self.met } else { &mut self.missed };
        count[dir as usize] += 1;
        // Waiting for a tag means that the queues of scheduler and device are full: a sure sign of
        // saturation, though a late one on deep devices, hence the latency percentiles beside it.
        self.wait_ns += waited_ns;
    }

    /// Step 0: the quality of a period that ends.
    pub fn take(&mut self, period_us: u64) -> Quality {
        let served = core::mem::take(self);
        let missed = |dir: Dir| {
            let (met, missed) = (served.met[dir as usize], served.missed[dir as usize]);
            if missed == 0 { 0 } else { (missed * 1_000_000).div_ceil(met + missed) }
        };
        Quality {
            missed_ppm: [missed(Dir::Read), missed(Dir::Write)],
            wait_pct: served.wait_ns.saturating_mul(100) / (period_us * 1000),
        }
    }
}

/// Demand of the active groups.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    pub lagging: u64,
    pub shortages: u64,
    pub usage_us: u64,
}

/// The device's virtual time.
#[derive(Debug)]
pub(super) struct VClock {
    /// vtime per us: what the planner steers, and what is in force now.
    pub base_rate: u64,
    pub rate: u64,
    /// The least and the most that base_rate is steered to.
    pub bounds: [u64; 2],
    /// vtime that came or went outside the plan and is yet to be made up for.
    pub err: i64,
    /// Periods in a row that the device was saturated (positive), or fine while somebody was short.
    pub busy_level: i64,
    pub margins: Margins,
    /// When the period began.
    pub start_us: u64,
    pub start_v: u64,
}

impl VClock {
    pub fn new() -> VClock {
        VClock {
            base_rate: VUS,
            rate: VUS,
            bounds: [VUS; 2],
            err: 0,
            busy_level: 0,
            margins: Margins::default(),
            start_us: 0,
            start_v: 0,
        }
    }

    #[inline]
    pub fn at(&self, at: Instant) -> Now {
        let us = at.as_nanos() / 1000;
        let passed = us.wrapping_sub(self.start_us);
        Now { at, us, v: self.start_v.wrapping_add(passed.wrapping_mul(self.rate)) }
    }

    pub fn start_period(&mut self, now: &Now) {
        self.start_us = now.us;
        self.start_v = now.v;
    }

    /// 4.5, whenever base_rate or the period changes.
    pub fn measure_margins(&mut self, period_us: u64, s: &CostConf) {
        let of = |pct: u64| (period_us * pct / 100 * self.base_rate) as i64;
        self.margins = Margins {
            min: of(s.margin_min_pct),
            low: of(s.margin_low_pct),
            target: of(s.margin_target_pct),
        };
    }

    /// Step 6. `allowed_ppm`: requests that may miss their latency, by direction.
    ///
    /// Between "saturated" and "fine" lies a band (`unbusy_pct`) in which nothing is concluded. vrate rises
    /// only if somebody was short: capacity that nobody wants says nothing about the limit.
    pub fn judge(
        &mut self,
        quality: &Quality,
        demand: &Demand,
        allowed_ppm: [u64; 2],
        s: &CostConf,
    ) {
        let [read, write] = quality.missed_ppm;
        let saturated =
            quality.wait_pct > s.busy_wait_pct || read > allowed_ppm[0] || write > allowed_ppm[1];
        let fine = |value: u64, limit: u64| value <= limit * s.unbusy_pct / 100;
        let level = self.busy_level;
        self.busy_level = if saturated {
            level.max(0) + 1
        } else if fine(quality.wait_pct, s.busy_wait_pct)
            && fine(read, allowed_ppm[0])
            && fine(write, allowed_ppm[1])
            && demand.shortages > 0
        {
            level.min(0) - i64::from(demand.lagging == 0)
        } else {
            0
        };
        let most = s.busy_level_max as i64;
        self.busy_level = self.busy_level.clamp(-most, most);
    }

    /// Step 7. What is outside the bounds comes back by `vrate_clamp_pct` a period: new bounds should not shock. False
    /// if nothing moves.
    pub fn steer(&mut self, demand: &Demand, clamp: u64) -> bool {
        let (level, base, [min, max]) = (self.busy_level, self.base_rate, self.bounds);
        if level == 0 || (level < 0 && demand.lagging > 0) {
            return false;
        }
        self.base_rate = if base < min {
            (base * (100 + clamp) / 100).min(min)
        } else if base > max {
            // At least 1: a rate of 0 would stop the clock.
            (base * (100 - clamp) / 100).max(max).max(1)
        } else {
            let step = step_pct(level.unsigned_abs());
            let pct = if level > 0 { 100 - step } else { 100 + step };
            (base * pct).div_ceil(100).max(min).min(max)
        };
        true
    }

    /// Step 12: credit that was lost or won is spread over the rest of the period.
    ///
    /// The amount is known, so the clock of this period runs faster or slower by just that.
    pub fn compensate(&mut self, now: &Now, period_us: u64) {
        let base = self.base_rate as i64;
        let left = (self.start_us + period_us) as i64 - now.us as i64;
        if left > 0 {
            let more = (-(self.err / left)).clamp(-(base / 2), base);
            self.err += more * left;
            self.rate = (base + more) as u64;
        }
        let most = (period_us * self.base_rate) as i64;
        self.err = self.err.clamp(-most, most);
    }

    /// Nobody is active: nothing is known of the device, and nothing is to be made up for.
    pub fn rest(&mut self) {
        self.busy_level = 0;
        self.err = 0;
    }

    /// The base vrate in 0.01 %, to the nearest.
    pub fn hundredths(&self) -> u64 {
        (self.base_rate * 10_000 + VUS / 2) / VUS
    }
}

/// Percent by which vrate moves at this busy level.
fn step_pct(level: u64) -> u64 {
    STEPS.iter().find(|&&(below, _)| level < below).map_or(16, |&(_, pct)| pct)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::cost::settings::SETTINGS;

    fn clock(level: i64) -> VClock {
        let mut clock = VClock::new();
        (clock.bounds, clock.busy_level) = ([VUS / 2, 2 * VUS], level);
        clock
    }

    fn short(lagging: u64) -> Demand {
        Demand { shortages: 1, lagging, usage_us: 0 }
    }

    #[test]
    fn a_period_is_judged_by_waits_and_misses() {
        let mut served = Served::default();
        served.count(Dir::Read, false, 0);
        (0..2).for_each(|_| served.count(Dir::Read, true, 20_000_000));
        served.count(Dir::Write, true, 10_000_000);
        let quality = served.take(100_000);
        assert_eq!((quality.missed_ppm, quality.wait_pct), ([333_334, 0], 50));
        assert_eq!(served.take(100_000).wait_pct, 0, "each period for itself");
    }

    #[test]
    fn vtime_runs_by_the_rate_from_the_start_of_the_period() {
        let mut clock = VClock::new();
        clock.rate = 7;
        clock.start_period(&Now { at: Instant::ZERO, us: 100, v: 1000 });
        let now = clock.at(Instant::from_nanos(110_999));
        assert_eq!((now.us, now.v), (110, 1070));
    }

    #[test]
    fn levels_count_periods_in_a_row_and_turn_at_once() {
        let s = SETTINGS.defaults();
        let judge = |level, wait_pct, demand: Demand| {
            let mut c = clock(level);
            c.judge(&Quality { missed_ppm: [0; 2], wait_pct }, &demand, [50_000; 2], &s);
            c.busy_level
        };
        assert_eq!(judge(3, 6, short(0)), 4);
        assert_eq!(judge(-3, 6, short(0)), 1);
        assert_eq!(judge(3, 0, short(0)), -1);
        assert_eq!(judge(-3, 0, short(0)), -4);
        assert_eq!(judge(-3, 0, short(1)), -3, "something hangs: no step up");
        assert_eq!(judge(-3, 0, Demand::default()), 0, "nobody was short");
        assert_eq!(judge(-3, 5, short(0)), 0, "neither saturated nor fine");
        assert_eq!(judge(i64::MAX / 2, 6, short(0)), s.busy_level_max as i64);
    }

    #[test]
    fn the_rate_falls_when_saturated_rises_when_short_and_stays_within_its_bounds() {
        let steer = |level, base: u64, lagging| {
            let mut c = clock(level);
            c.base_rate = base;
            (c.steer(&short(lagging), 4), c.base_rate)
        };
        assert_eq!(steer(4, 100_000, 0), (true, 99_000));
        assert_eq!(steer(-4, 100_000, 0), (true, 101_000));
        assert_eq!(steer(-4, 100_000, 1), (false, 100_000));
        assert_eq!(steer(4, 100_000, 1), (true, 99_000), "lagging never holds up a fall");
        assert_eq!(steer(0, 100_000, 0), (false, 100_000));
        assert_eq!(steer(60, VUS / 2, 0).1, VUS / 2);
        assert_eq!(steer(-60, 2 * VUS, 0).1, 2 * VUS);
        assert_eq!(steer(-60, 4 * VUS, 0).1, 4 * VUS * 96 / 100, "from outside by the clamp only");
        assert_eq!(steer(60, VUS / 4, 0).1, VUS / 4 * 104 / 100);
    }

    #[test]
    fn steps_grow_with_the_periods_in_a_row() {
        let at = [0, 3, 4, 19, 20, 35, 36, 43, 44, 51, 52, 1000].map(step_pct);
        assert_eq!(at, [0, 0, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16]);
    }

    #[test]
    fn lost_credit_comes_back_within_the_period_at_twice_the_rate_at_most() {
        let mut c = clock(0);
        (c.base_rate, c.err) = (1000, -100_000);
        c.compensate(&Now { at: Instant::ZERO, us: 800, v: 0 }, 1000);
        assert_eq!((c.rate, c.err), (1500, 0));
        c.err = -10_000_000;
        c.compensate(&Now { at: Instant::ZERO, us: 800, v: 0 }, 1000);
        assert_eq!((c.rate, c.err), (2000, -1_000_000), "a period's worth is remembered");
        c.err = 10_000_000;
        c.compensate(&Now { at: Instant::ZERO, us: 800, v: 0 }, 1000);
        assert_eq!(c.rate, 500, "never below half");
        c.rate = 7;
        c.compensate(&Now { at: Instant::ZERO, us: 1000, v: 0 }, 1000);
        assert_eq!(c.rate, 7, "the period is over");
    }
}
