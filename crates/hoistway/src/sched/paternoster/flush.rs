//! What flush commands mean for the others: how often they come, and the pause of the writers behind one.
//!
//! *Problem.* On drives whose flushes run alone, everybody waits for a flush, and programs that sync in turn keep
//! the drive flushing all the time: whoever reads gets in only between two of them.
//!
//! *Rule.* After a flush greedy sync writes are held for 5 % of the time between flushes, at most 8 ms, if the lane was active
//! lately and if one of its requests fits into that. Longer holds would cost throughput, shorter ones gain nothing.
//!
//! *Guarantee.* Writers keep at least 95 % of each flush cycle.
//!
//! Source: specs/paternoster.md 7.

use crate::unit::{Instant, Nanos};

/// Of a cycle.
const HOLD_PERCENT: u64 = 5;
/// Never longer: a cycle is also the idle time between two flushes, and a twentieth of an hour is no moment.
const HOLD_MOST: Nanos = Nanos::ms(8);
/// The lane counts as active for two cycles and this.
const SLACK: Nanos = Nanos::ms(1);

#[derive(Debug, Default)]
pub(super) struct Flushes {
    began: Option<Instant>,
    ended: Option<Instant>,
    /// Moving mean of the time between ends.
    pub cycle: Nanos,
    /// Greedy sync writes are held until then.
    hold: Option<Instant>,
    pub count: u64,
    pub holds: u64,
}

impl Flushes {
    pub fn began(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// One is over. `exclusive`: nothing else runs beside one here. True when writers are held from now on.
    pub fn ended(
        &mut self,
        now: Instant,
        exclusive: bool,
        lane_active: Option<Instant>,
        service_least: Nanos,
    ) -> bool {
        self.began = None;
        self.count += 1;
        if let Some(last) = self.ended.replace(now) {
            let cycle = now.since(last).0;
            self.cycle =
                Nanos(if self.cycle.0 == 0 { cycle } else { (15 * self.cycle.0 + cycle) / 16 });
        }
        let hold = Nanos(self.cycle.0 * HOLD_PERCENT / 100).min(HOLD_MOST);
        let lately = self.cycle * 2 + SLACK;
        let active = lane_active.is_some_and(|at| now.since(at) <= lately);
        let worth = service_least.0 > 0 && hold >= service_least;
        self.hold = (exclusive && active && worth).then(|| now + hold);
        self.holds += u64::from(self.hold.is_some());
        self.hold.is_some()
    }

    /// Until when greedy sync writes are held.
    pub fn hold(&self, now: Instant) -> Option<Instant> {
        self.hold.filter(|&until| until > now)
    }

    /// The hold is over.
    pub fn release(&mut self) {
        self.hold = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_flushes_hold_nobody_for_long() {
        let (mut f, mut now) = (Flushes::default(), Instant::ZERO);
        for _ in 0..3 {
            now += Nanos::secs(3600);
            f.began(now);
            now += Nanos::ms(2);
            assert!(f.ended(now, true, Some(now), Nanos::us(100)) || f.count == 1);
        }
        assert_eq!(f.hold(now), Some(now + HOLD_MOST));
        assert_eq!(f.hold(now + HOLD_MOST), None);
    }
}
