//! The delay of a group's tasks on their way back from a system call, for work that had to be let
//! through (specs/groups-and-priorities.md section 7). One [`Delay`] per group and controller.

use crate::unit::{Instant, Nanos};

/// Longest sleep that a counted delay causes.
const SLEEP_MAX: Nanos = Nanos::ms(250);
/// A counted delay decays once it is this old.
const DECAY_AFTER: Nanos = Nanos::secs(1);

/// State of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Users (io.latency); -1: set by io.cost.
    uses: i64,
    ns: u64,
    start: Instant,
    last: u64,
    last_uses: i64,
}

impl Delay {
    /// One more user.
    pub fn use_more(&mut self) {
        self.uses += 1;
    }

    /// One user less; false if there was none.
    pub fn use_less(&mut self) -> bool {
        let some = self.uses > 0;
        self.uses -= i64::from(some);
        some
    }

    /// Adds to the counted delay.
    pub fn add(&mut self, now: Instant, more: Nanos) {
        self.scale(now);
        // io.latency adds its target each time, which may be "never".
        self.ns = self.ns.saturating_add(more.0);
    }

    /// Sets the delay without decay (io.cost).
    pub fn set(&mut self, delay: Nanos) {
        if self.uses == 0 {
            self.uses = -1;
        }
        self.ns = delay.0;
    }

    /// No delay.
    pub fn clear(&mut self) {
        self.uses = 0;
    }

    /// The number of users; -1 if the delay is set, 0 if there is none. A group with another value than
    /// 0 is congested.
    pub fn uses(&self) -> i64 {
        self.uses
    }

    /// The delay accumulated or set.
    pub fn nanos(&self) -> Nanos {
        Nanos(self.ns)
    }

    /// This group's part of the sleep of a task.
    pub fn sleep(&mut self, now: Instant) -> Nanos {
        if self.uses == 0 {
            return Nanos::ZERO;
        }
        self.scale(now);
        let ns = Nanos(self.ns);
        if self.uses > 0 { ns.min(SLEEP_MAX) } else { ns }
    }

    fn scale(&mut self, now: Instant) {
        if self.uses < 0 {
            return;
        }
        let age = now.since(self.start);
        if age <= DECAY_AFTER {
            return;
        }
        let mut sub = self.last.min(age.0);
        if self.uses < self.last_uses {
            sub = sub.max(self.last / 2);
        }
        if self.ns < sub {
            self.ns = 0;
            self.last = 0;
        } else {
            self.last = self.ns - sub;
            self.ns -= sub;
        }
        self.last_uses = self.uses;
        self.start = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario 18 of specs/groups-and-priorities.md.
    #[test]
    fn a_counted_delay_is_cut_to_250_ms_and_a_set_one_is_not() {
        let now = Instant::ZERO + Nanos::ms(1);
        let mut counted = Delay::default();
        counted.use_more();
        counted.add(now, Nanos::ms(400));
        assert_eq!(counted.sleep(now), Nanos::ms(250));
        let mut set = Delay::default();
        set.set(Nanos::ms(40));
        assert_eq!((set.uses(), set.sleep(now)), (-1, Nanos::ms(40)));
        set.clear();
        assert_eq!(set.sleep(now), Nanos::ZERO);
    }

    #[test]
    fn a_counted_delay_decays_by_what_was_there_a_second_before() {
        let at = |ms| Instant::ZERO + Nanos::ms(ms);
        let mut d = Delay::default();
        d.use_more();
        d.add(at(0), Nanos::ms(100));
        // First look after a second: nothing was remembered yet, so nothing is taken off.
        assert_eq!(d.sleep(at(1001)), Nanos::ms(100));
        // Next one: all of what was there then.
        assert_eq!(d.sleep(at(2003)), Nanos::ZERO);
    }
}
