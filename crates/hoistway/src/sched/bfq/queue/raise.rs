//! Weight raising of one queue: interactive and soft real-time periods (specs/bfq.md 6.1 to 6.4).
//!
//! Fairness itself is the enemy of a user who waits: beside ten readers, an application that needs two seconds of
//! the disk gets them within twenty. So a queue that was idle for long (somebody has started something) or that
//! issues little at regular times (something is played) weighs a multiple of its weight for a while.

use super::past::Past;
use crate::unit::{Instant, Nanos};

/// Coefficient of a queue that is not raised.
pub(in super::super) const NOT_RAISED: u32 = 1;

/// Most sectors an interactive queue receives while raised (6.1), about 61 MB. No process of the largest start-up
/// known reads more than 110 000; a copy of files passes it in a second or two, and so shows that it is none.
pub(in super::super) const WR_SERVICE: u64 = 120_000;

/// Reasons to raise a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Cause {
    Nothing,
    /// It comes back after a long pause: somebody waits for it.
    Interactive,
    /// It issues at regular times, at a low rate.
    SoftRealTime,
}

/// How long the periods last, and how much they weigh.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Terms {
    /// Coefficient of an interactive queue.
    pub coeff: u32,
    /// Length of an interactive period (6.1).
    pub interactive: Nanos,
    /// Length of a soft real-time one.
    pub soft: Nanos,
    /// A period is soft real-time if its length is that of one, whatever it was begun for: the reference keeps no
    /// cause. After a change of `wr_rt_max_time`, or if both lengths are the same, it takes one for the other.
    pub by_length: bool,
}

/// Soft real-time against interactive coefficient (6.1). A late frame is visible, so it outranks even programs
/// that start. Safe because membership itself means at most 7000 sectors/s: no weight lets such a queue take more
/// than 3.6 MB/s for long.
const SOFT_FACTOR: u32 = 100;

/// Facts about a queue at the moment it becomes busy, before anything changes (4.5 step 1).
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Arrival {
    /// The queue was created in a large burst.
    pub in_burst: bool,
    /// It looks soft real-time.
    pub soft: bool,
    /// It looks interactive.
    pub inter: bool,
    /// It may be raised, or stays so.
    pub deserves: bool,
    /// Idle for at least 10 s.
    pub very_long_idle: bool,
}

impl Terms {
    /// Weight coefficient of a soft real-time queue.
    pub fn soft_coeff(&self) -> u32 {
        self.coeff * SOFT_FACTOR
    }
}

/// Raising of a queue: the period, and what tells whether the next one is due. The coefficient in force is its
/// entity's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Raise {
    pub cause: Cause,
    /// Start of the period, or end of the last one, or an arrival (6.2).
    pub start: Instant,
    /// How long it lasts.
    pub limit: Nanos,
    /// Start of the interactive period that a soft real-time one interrupted (6.3).
    pub interrupted: Past,
    /// Sectors served while raised.
    pub served: u64,
    /// From then on an arrival is soft real-time (6.3).
    pub next_soft: Instant,
    /// That instant must be computed at completion.
    pub soft_pending: bool,
    /// Created in a large burst of queues, hence not raised (6.5).
    pub in_large_burst: bool,
}

/// Facts by which an arrival is judged as soft real-time (6.3).
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Isochrony {
    /// When the service received since the queue became busy is due at the highest rate of such a queue.
    pub due: Instant,
    /// The time a greedy process needs to come back.
    pub pause: Nanos,
    pub tick: Nanos,
}

impl Raise {
    pub fn new(tn: Instant) -> Raise {
        Raise {
            cause: Cause::Nothing,
            start: tn,
            limit: Nanos::ZERO,
            interrupted: Past::LONG_AGO,
            served: 0,
            next_soft: tn,
            soft_pending: false,
            in_large_burst: false,
        }
    }

    /// Is it soft real-time?
    #[inline]
    pub fn soft(&self, terms: &Terms) -> bool {
        match terms.by_length {
            true => self.limit == terms.soft,
            false => self.cause == Cause::SoftRealTime,
        }
    }

    /// From its start on it has lasted longer than it may.
    #[inline]
    pub fn over(&self, tn: Instant) -> bool {
        self.start + self.limit < tn
    }

    /// Nothing else ends the period of a queue that is served.
    #[inline]
    pub fn may_end(&self, tn: Instant) -> bool {
        self.in_large_burst || self.served > WR_SERVICE || self.over(tn)
    }

    /// An interactive period begins at `start`, of a queue that was served so much already; its coefficient.
    pub fn begin_interactive(&mut self, start: Instant, served: u64, terms: &Terms) -> u32 {
        self.interactive(terms);
        self.start = start;
        self.interrupted = Past::LONG_AGO;
        self.served = served;
        terms.coeff
    }

    /// A queue that is not raised goes on with the period of one that is merged into it.
    pub fn take_over(&mut self, from: &Raise) {
        self.cause = from.cause;
        self.start = from.start;
        self.limit = from.limit;
        self.interrupted = from.interrupted;
    }

    pub fn interactive(&mut self, terms: &Terms) {
        self.cause = Cause::Interactive;
        self.limit = terms.interactive;
    }

    pub fn soft_real_time(&mut self, terms: &Terms) {
        self.cause = Cause::SoftRealTime;
        self.limit = terms.soft;
    }

    /// The interactive period that a soft real-time one interrupted would still last; its start.
    ///
    /// A spell of soft real-time must not eat the rest of the time in which an application starts (6.4).
    #[inline]
    pub fn unfinished(&self, terms: &Terms, tn: Instant) -> Option<Instant> {
        self.interrupted.instant().filter(|&start| start + terms.interactive >= tn)
    }

    /// Falls back to the interactive period that began at `start`.
    pub fn resume_interactive(&mut self, start: Instant, terms: &Terms) {
        self.interactive(terms);
        self.start = start;
    }

    /// The queue, of coefficient `old`, becomes busy. Returns its coefficient from here on (6.2).
    pub fn on_busy(&mut self, old: u32, a: Arrival, terms: &Terms, tn: Instant) -> u32 {
        if old == NOT_RAISED {
            if !a.deserves {
                return old;
            }
            if a.inter {
                self.served = 0;
                self.interactive(terms);
                return terms.coeff;
            }
            self.interrupted = Past::LONG_AGO;
            self.soft_real_time(terms);
            return terms.soft_coeff();
        }
        if a.inter {
            self.interactive(terms);
            return terms.coeff;
        }
        if a.in_burst {
            return NOT_RAISED;
        }
        let mut wr = old;
        if a.soft {
            if !self.soft(terms) {
                self.interrupted = Past::at(self.start);
                self.soft_real_time(terms);
                wr = terms.soft_coeff();
            }
            // Each arrival in time begins the period anew.
            self.start = tn;
        }
        wr
    }

    /// The lengths have changed: the period lasts no longer than one that begins now.
    pub fn shorten(&mut self, terms: &Terms) {
        self.limit = match self.soft(terms) {
            true => terms.soft,
            false => self.limit.min(terms.interactive),
        };
    }

    /// The queue is no longer raised; `tn`: nor has it been, as far as later arrivals are concerned.
    pub fn end(&mut self, terms: &Terms, tn: Instant) {
        if !self.soft(terms) {
            // A loading phase must not disqualify the player it started: players load greedily first, and charging
            // that would keep them out for minutes (6.3).
            self.next_soft = tn;
        }
        self.cause = Cause::Nothing;
        self.limit = Nanos::ZERO;
        self.start = tn;
    }

    /// A slot of a raised soft real-time queue begins. The time it waited for it, since `deadline` (when it became
    /// idle, or its last slot's end), does not use up the period: otherwise exactly the congested player would
    /// lose its privilege (6.3).
    pub fn shift(&mut self, deadline: Past, tn: Instant) {
        let start = &mut self.start;
        if *start < tn && deadline.over(Nanos::ZERO, tn) {
            match deadline.instant() {
                Some(at) if at > *start => *start += tn.since(at),
                _ => *start = tn,
            }
        }
    }

    /// When an arrival would next be soft real-time (6.3): not before its service so far is due at the rate of
    /// such a queue, and not within the time in which a greedy process comes back; a player only asks again after
    /// it has decoded. Four ticks cover coarse clocks (8 ms are less than a tick at 100 Hz) and virtual machines
    /// whose tick counter stops and jumps.
    ///
    /// Never earlier than said before: a greedy program looks slow in its slow phases (CPU load, slow disk), and
    /// how far its fast phases have pushed the instant covers these.
    pub fn next_soft(&self, i: Isochrony, tn: Instant) -> Instant {
        self.next_soft.max(i.due).max(tn + i.pause + i.tick * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms =
        Terms { coeff: 30, interactive: Nanos::secs(7), soft: Nanos::ms(300), by_length: false };
    const SOFT: Arrival = Arrival {
        in_burst: false,
        soft: true,
        inter: false,
        deserves: true,
        very_long_idle: false,
    };
    const INTER: Arrival = Arrival { soft: false, inter: true, ..SOFT };

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Nanos::ms(n)
    }

    /// A queue raised by an arrival at 1 s.
    fn raised(a: Arrival) -> (Raise, u32) {
        let mut raise = Raise::new(ms(1_000));
        let wr = raise.on_busy(NOT_RAISED, a, &TERMS, ms(1_000));
        (raise, wr)
    }

    #[test]
    fn soft_real_time_outranks_interactive_a_hundredfold() {
        assert_eq!(raised(INTER).1, 30);
        assert_eq!(raised(SOFT).1, 3_000);
        let no = Arrival { deserves: false, ..SOFT };
        assert_eq!(raised(no).1, NOT_RAISED);
    }

    #[test]
    fn the_cause_says_what_a_period_is_and_in_the_reference_its_length() {
        let (soft, _) = raised(SOFT);
        let changed = Terms { soft: Nanos::ms(200), ..TERMS };
        assert!(soft.soft(&TERMS) && soft.soft(&changed));
        let by_length = |terms: Terms| Terms { by_length: true, ..terms };
        assert!(soft.soft(&by_length(TERMS)));
        assert!(!soft.soft(&by_length(changed)), "it has another length");
        let same = Terms { interactive: Nanos::ms(300), ..TERMS };
        let mut inter = Raise::new(ms(0));
        inter.on_busy(NOT_RAISED, INTER, &same, ms(0));
        assert!(!inter.soft(&same) && inter.soft(&by_length(same)));
    }

    #[test]
    fn a_period_is_over_after_its_limit_not_at_it() {
        let (soft, _) = raised(SOFT);
        assert!(!soft.over(ms(1_300)));
        assert!(soft.over(ms(1_300) + Nanos(1)));
    }

    #[test]
    fn a_soft_real_time_spell_remembers_the_interactive_period_it_interrupts() {
        let (mut raise, wr) = raised(INTER);
        assert_eq!(raise.on_busy(wr, SOFT, &TERMS, ms(2_000)), 3_000);
        assert_eq!(raise.interrupted, Past::at(ms(1_000)));
        assert_eq!(raise.start, ms(2_000));
        // A second arrival prolongs it and remembers the same start.
        assert_eq!(raise.on_busy(3_000, SOFT, &TERMS, ms(2_200)), 3_000);
        assert_eq!((raise.interrupted, raise.start), (Past::at(ms(1_000)), ms(2_200)));
        assert_eq!(raise.unfinished(&TERMS, ms(8_000)), Some(ms(1_000)));
        assert_eq!(raise.unfinished(&TERMS, ms(8_000) + Nanos(1)), None);
        raise.resume_interactive(ms(1_000), &TERMS);
        assert!(!raise.soft(&TERMS));
        assert_eq!((raise.start, raise.limit), (ms(1_000), Nanos::secs(7)));
    }

    #[test]
    fn a_large_burst_ends_raising_unless_the_arrival_is_interactive() {
        let (mut raise, wr) = raised(INTER);
        let burst = |a| Arrival { in_burst: true, ..a };
        assert_eq!(raise.on_busy(wr, burst(SOFT), &TERMS, ms(2_000)), NOT_RAISED);
        assert_eq!(raise.on_busy(wr, burst(INTER), &TERMS, ms(2_000)), 30);
    }

    #[test]
    fn the_end_of_an_interactive_period_forgets_what_was_loaded() {
        for (a, forgets) in [(INTER, true), (SOFT, false)] {
            let (mut raise, _) = raised(a);
            raise.next_soft = ms(60_000);
            raise.end(&TERMS, ms(5_000));
            assert_eq!(raise.next_soft == ms(5_000), forgets);
            assert_eq!((raise.cause, raise.start), (Cause::Nothing, ms(5_000)));
        }
    }

    #[test]
    fn a_change_of_lengths_shortens_what_goes_on() {
        let (mut soft, _) = raised(SOFT);
        let (mut inter, _) = raised(INTER);
        let terms = Terms { interactive: Nanos::secs(3), soft: Nanos::ms(200), ..TERMS };
        soft.shorten(&terms);
        inter.shorten(&terms);
        assert_eq!((soft.limit, inter.limit), (Nanos::ms(200), Nanos::secs(3)));
        inter.shorten(&TERMS);
        assert_eq!(inter.limit, Nanos::secs(3), "nothing is lengthened");
    }

    #[test]
    fn waiting_for_a_slot_does_not_use_up_the_period() {
        let (mut raise, _) = raised(SOFT);
        raise.shift(Past::at(ms(1_100)), ms(1_250));
        assert_eq!(raise.start, ms(1_150), "it waited 150 ms");
        raise.shift(Past::at(ms(1_100)), ms(1_250));
        assert_eq!(raise.start, ms(1_250), "all of it was waiting");
        let (mut raise, _) = raised(SOFT);
        raise.shift(Past::at(ms(1_250)), ms(1_250));
        assert_eq!(raise.start, ms(1_000), "no time has passed");
        raise.shift(Past::LONG_AGO, ms(1_250));
        assert_eq!(raise.start, ms(1_250));
    }

    #[test]
    fn the_next_soft_instant_is_the_latest_of_three() {
        let mut raise = Raise::new(ms(0));
        let i = Isochrony { due: ms(90), pause: Nanos::ms(8), tick: Nanos::ms(4) };
        assert_eq!(raise.next_soft(i, ms(60)), ms(90));
        assert_eq!(raise.next_soft(i, ms(70)), ms(94));
        raise.next_soft = ms(500);
        assert_eq!(raise.next_soft(i, ms(70)), ms(500));
    }
}
