//! Injection: how many requests of others fit into the gaps in which the device waits for a queue
//! (specs/bfq.md 4.7).
//!
//! Guarantees force the device to wait for the queue in service, and on flash that wastes most of what it could
//! do in parallel. Filling the gap is free *if* the owner's next request is not noticeably later for it. So the
//! total time of the first request after a gap is measured: without injection it is the *base*, with it the price.

use super::super::ids::{Id, RqNo};
use super::past::Past;
use crate::unit::{Instant, Nanos};

/// How much may be injected while a queue is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Injection {
    /// Largest number of requests in the device.
    pub limit: u32,
    /// Total time without injection, zero = unknown.
    pub base: Nanos,
    /// When the limit was last lowered or reset.
    pub lowered: Past,
}

/// One measurement (4.7.2).
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sample {
    /// From the arrival of the request to its completion. Only the whole contains both delays that injection can
    /// cause: waiting for a dispatch, and queueing inside the drive.
    pub total: Nanos,
    /// Requests of others were injected in the gap before it.
    pub injected: bool,
    /// Requests in the device, this one included, and the most seen there.
    pub inflight: u32,
    pub max_inflight: u32,
}

/// Rules of 5.3, where they differ (11.7).
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct InjectRules {
    /// The limit may grow to twice the most requests seen in the device, not to one more (item 2).
    pub up_to_twice: bool,
    /// Every new base lifts a limit of 0, not only the first (item 3).
    pub on_new_base: bool,
    /// The limit moves whether or not anything was injected (item 4).
    pub flag_kept: bool,
}

impl Injection {
    pub const NEW: Injection = Injection { limit: 0, base: Nanos::ZERO, lowered: Past::LONG_AGO };

    /// Nothing is known any more. `short`: the issuer comes back soon.
    ///
    /// After a short pause one injected request may outlast the pause and delay the owner, and measurements come
    /// soon anyway: 0. Into a long one a request fits; and without any, the queue would expire unmeasured each
    /// time and nothing would ever be injected: 1.
    pub fn reset(&mut self, tn: Instant, short: bool) {
        *self = Injection { limit: u32::from(!short), base: Nanos::ZERO, lowered: Past::at(tn) };
    }

    /// The limit has been left alone for `d`.
    #[inline]
    pub fn quiet_for(&self, d: Nanos, tn: Instant) -> bool {
        self.lowered.reached(d, tn)
    }

    /// Moves the limit by one step, or the base. Steps of one without hysteresis oscillate on purpose: they follow
    /// a change of load at once.
    pub fn learn(&mut self, s: Sample, rules: InjectRules, tn: Instant) {
        let old = self.limit;
        let known = self.base > Nanos::ZERO;
        if known && (s.injected || rules.flag_kept) {
            // Half as much again is taken for "not noticed"; it is above the normal scatter.
            let noticed = Nanos(3 * self.base.0 / 2);
            // Steps are of one, so a ceiling beyond the deepest queue seen gains nothing.
            let most = if rules.up_to_twice { 2 * s.max_inflight } else { s.max_inflight + 1 };
            if s.total >= noticed && old > 0 {
                self.limit -= 1;
                self.lowered = Past::at(tn);
            } else if s.total < noticed && old < most {
                self.limit += 1;
            }
        }
        let alone = s.inflight == 1;
        if (!known && alone) || s.total < self.base {
            if !known {
                // The queue can be measured from here on: the first one costs little.
                self.limit = old.max(1);
            } else if rules.on_new_base {
                self.limit = self.limit.max(1);
            }
            self.base = s.total;
        } else if !s.injected && alone {
            self.base = s.total;
        }
    }
}

/// Which request of the queue in service is measured (4.7.1). Only the first after a gap: it suffers most from
/// what was injected.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Measure {
    /// Requests of others were dispatched in the gap.
    pub injected: bool,
    /// The next request dispatched from the queue in service is the one to be measured.
    pub wait_dispatch: bool,
    /// The request that is being measured, `NONE` if none.
    pub waited: RqNo,
    /// It arrived then.
    pub first: Instant,
}

impl Measure {
    pub fn new() -> Measure {
        let first = Instant::ZERO;
        Measure { injected: false, wait_dispatch: false, waited: RqNo::NONE, first }
    }

    /// A slot ended.
    pub fn reset(&mut self) {
        self.injected = false;
        self.wait_dispatch = false;
        self.waited = RqNo::NONE;
    }
}

/// While injection goes on the base cannot be measured again: only starting over shows that the load has become
/// more sensitive. A limit that was not lowered for this long is learnt anew (4.7.1).
pub(in super::super) const LIMIT_LIFE: Nanos = Nanos::ms(1000);
/// A change of think time resets a limit only if that was left alone for this long (5.7). It breaks a loop:
/// injection unblocks a queue, which then looks short of thought, which sets the limit to 0, which blocks it.
pub(in super::super) const LIMIT_REST: Nanos = Nanos::ms(100);
/// A request this large is injected only into an idle device, on flash (4.7.3), in sectors: 32 KiB. Large commands
/// take long and drives like to serve them first; two could ruin the owner's latency, one already gives
/// throughput.
pub(in super::super) const LARGE: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn sample(us: u64, injected: bool, inflight: u32) -> Sample {
        Sample { total: Nanos::us(us), injected, inflight, max_inflight: 2 }
    }

    fn known(limit: u32) -> Injection {
        Injection { limit, base: Nanos::us(100), lowered: Past::LONG_AGO }
    }

    #[test]
    fn the_limit_falls_from_one_and_a_half_of_the_base_on() {
        for (us, limit) in [(149, 2), (150, 0)] {
            let mut i = known(1);
            i.learn(sample(us, true, 2), InjectRules::default(), NOW);
            assert_eq!((i.limit, i.lowered == Past::at(NOW)), (limit, limit == 0), "{us}");
        }
        let mut i = known(0);
        i.learn(sample(1_000, true, 2), InjectRules::default(), NOW);
        assert_eq!((i.limit, i.lowered), (0, Past::LONG_AGO), "never below zero");
    }

    #[test]
    fn it_grows_to_one_more_than_was_seen_or_to_twice_that() {
        for (twice, most) in [(false, 3), (true, 4)] {
            let rules = InjectRules { up_to_twice: twice, ..InjectRules::default() };
            let mut i = known(0);
            (0..9).for_each(|_| i.learn(sample(120, true, 2), rules, NOW));
            assert_eq!(i.limit, most);
        }
    }

    #[test]
    fn without_injection_only_5_3_moves_the_limit() {
        for kept in [false, true] {
            let rules = InjectRules { flag_kept: kept, ..InjectRules::default() };
            let mut i = known(1);
            i.learn(sample(200, false, 2), rules, NOW);
            assert_eq!(i.limit, u32::from(!kept));
        }
    }

    #[test]
    fn the_base_is_taken_alone_or_when_it_is_lower() {
        let rules = InjectRules::default();
        let mut i = Injection::NEW;
        i.learn(sample(100, false, 2), rules, NOW);
        assert_eq!(
            (i.base, i.limit),
            (Nanos::ZERO, 0),
            "with others in the device it says nothing"
        );
        i.learn(sample(100, false, 1), rules, NOW);
        assert_eq!((i.base, i.limit), (Nanos::us(100), 1));
        i.learn(sample(90, true, 3), rules, NOW);
        assert_eq!(i.base, Nanos::us(90));
        i.learn(sample(95, true, 1), rules, NOW);
        assert_eq!(i.base, Nanos::us(90), "dearer, and something was injected");
        i.learn(sample(95, false, 1), rules, NOW);
        assert_eq!(i.base, Nanos::us(95));
    }

    #[test]
    fn a_new_base_lifts_a_limit_of_zero_in_5_3() {
        for lifts in [false, true] {
            let rules = InjectRules { on_new_base: lifts, ..InjectRules::default() };
            let mut i = known(0);
            i.learn(sample(90, false, 1), rules, NOW);
            assert_eq!(i.limit, u32::from(lifts));
        }
    }

    #[test]
    fn a_reset_allows_one_request_into_long_pauses() {
        let mut i = known(5);
        i.reset(NOW, true);
        assert_eq!((i.limit, i.base), (0, Nanos::ZERO));
        i.reset(NOW, false);
        assert_eq!(i.limit, 1);
        assert!(i.quiet_for(Nanos::ms(1), NOW + Nanos::ms(1)));
        assert!(!i.quiet_for(Nanos::ms(1), NOW + Nanos(999_999)));
        assert!(Injection::NEW.quiet_for(Nanos::secs(9), NOW));
    }
}
