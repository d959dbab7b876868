//! Wakers: queues whose completions make another one go on (specs/bfq.md 4.8).
//!
//! A process that waits for another one's I/O (fsync for the journal thread) is empty *because* of that other;
//! to keep the device idle for it is a deadlock that only the idle timer breaks. Who its waker is shows in the
//! order of events: it gets its next request shortly after the other's was completed, again and again.

use super::super::ids::{Id, QueueNo};
use crate::list::List;
use crate::unit::{Instant, Nanos};

/// The waker of a queue, and the queues that it wakes.
#[derive(Clone, Debug)]
pub(in super::super) struct Waker {
    /// The queue whose completions wake it; `NONE` if none is known.
    pub queue: QueueNo,
    /// The one that is suspected to, with its generation, since the number of a queue that is gone is given to
    /// another; how often it did so in a row, and since when.
    pub suspect: QueueNo,
    generation: u16,
    pub hits: u8,
    since: Instant,
    /// The row, or what was found by it, goes over two queues that had the same number one after the other.
    pub by_place: bool,
    /// The queues it wakes, the latest to become busy first.
    pub woken: List,
}

/// Conditions for a waker.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct WakerRules {
    pub slice_idle: Nanos,
    /// So many times in a row.
    pub needed: u8,
    /// Quirk Q26: another queue with the number of one that is gone passes for that.
    pub by_place: bool,
}

impl Waker {
    pub fn new(now: Instant) -> Waker {
        let none = QueueNo::NONE;
        Waker {
            queue: none,
            suspect: none,
            generation: 0,
            hits: 0,
            since: now,
            by_place: false,
            woken: List::new(),
        }
    }

    /// The queue gets a request shortly after one of `last`, of that generation, was completed. True: that has now
    /// happened `needed` times in a row, and `last` is the waker.
    ///
    /// A false waker steals bandwidth for as long as it is believed, so one coincidence is not enough; and pairs
    /// so rare that they do not come again within 128 waits cost less than a part in 64 of the idle time, not
    /// worth the risk.
    pub fn follows(&mut self, last: (QueueNo, u16), now: Instant, rules: WakerRules) -> bool {
        let (number, generation) = last;
        let same = number == self.suspect;
        let other = same && generation != self.generation;
        if !same || (other && !rules.by_place) || now > self.since + rules.slice_idle * WINDOW {
            self.hits = 1;
            self.since = now;
            self.by_place = false;
        } else {
            self.hits += 1;
            self.by_place |= other;
        }
        (self.suspect, self.generation) = last;
        let found = self.hits >= rules.needed;
        if found {
            self.suspect = QueueNo::NONE;
            self.hits = 0;
        }
        found
    }
}

/// In waits of `slice_idle`: 1.024 s (4.8).
const WINDOW: u64 = 128;
/// A request that comes later after a completion has not been woken by it: the time a slow machine needs to wake
/// a process (4.8; raised in 5.12, because slow machines missed it).
pub(in super::super) const WAKE_GAP: Nanos = Nanos::ms(4);

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Nanos = Nanos::ms(8);
    const RULES: WakerRules = WakerRules { slice_idle: IDLE, needed: 3, by_place: false };
    const A: (QueueNo, u16) = (QueueNo(1), 0);
    const B: (QueueNo, u16) = (QueueNo(2), 0);

    #[test]
    fn three_in_a_row_make_a_waker() {
        let now = Instant::ZERO;
        let mut waker = Waker::new(now);
        assert!(!waker.follows(A, now, RULES));
        assert!(!waker.follows(A, now, RULES));
        assert!(!waker.follows(B, now, RULES), "another one breaks the row");
        assert!(!waker.follows(A, now, RULES));
        assert!(!waker.follows((A.0, 1), now, RULES), "so does another one of the same number");
        assert!(!waker.follows(A, now, RULES));
        assert!(!waker.follows(A, now, RULES));
        assert!(waker.follows(A, now, RULES));
        assert!(waker.suspect.is_none() && waker.hits == 0);
    }

    #[test]
    fn with_quirk_q26_another_queue_of_the_same_number_goes_on_with_the_row() {
        let (now, rules) = (Instant::ZERO, WakerRules { by_place: true, ..RULES });
        let mut waker = Waker::new(now);
        waker.follows(A, now, rules);
        assert!(!waker.follows((A.0, 1), now, rules) && waker.hits == 2 && waker.by_place);
        assert!(waker.follows((A.0, 1), now, rules) && waker.by_place);
        assert!(!waker.follows(B, now, rules) && !waker.by_place);
    }

    #[test]
    fn a_row_that_takes_longer_than_the_window_begins_anew() {
        let mut waker = Waker::new(Instant::ZERO);
        waker.follows(A, Instant::ZERO, RULES);
        waker.follows(A, Instant::ZERO + IDLE * 128, RULES);
        assert_eq!(waker.hits, 2);
        waker.follows(A, Instant::ZERO + IDLE * 128 + Nanos(1), RULES);
        assert_eq!(waker.hits, 1);
    }
}
