//! Wakers: queues whose completions make another one go on (specs/bfq.md 4.8).
//!
//! A process that waits for another one's I/O (fsync for the journal thread) is empty *because* of that other;
//! to keep the device idle for it is a deadlock that only the idle timer breaks. Who its waker is shows in the
//! order of events: it gets its next request shortly after the other's was completed, again and again.

use super::super::ids::{Id, QueueNo};
use crate::list::List;
use crate::unit::{Instant, Nanos};

/// Who wakes a queue, and whom it wakes.
#[derive(Clone, Debug)]
pub(in super::super) struct Waker {
    /// The queue whose completions wake it; `NONE` if none is known.
    pub queue: QueueNo,
    /// The one that is suspected to, how often it did so in a row, and since when.
    pub suspect: QueueNo,
    pub hits: u8,
    since: Instant,
    /// The queues it wakes, the latest to become busy first.
    pub woken: List,
}

impl Waker {
    pub fn new(now: Instant) -> Waker {
        let none = QueueNo::NONE;
        Waker { queue: none, suspect: none, hits: 0, since: now, woken: List::new() }
    }

    /// The queue gets a request shortly after one of `last` was completed. True: that has now happened `needed`
    /// times in a row, and `last` is the waker.
    ///
    /// A false waker steals bandwidth for as long as it is believed, so one coincidence is not enough; and pairs
    /// so rare that they do not come again within 128 waits cost less than a part in 64 of the idle time, not
    /// worth the risk.
    pub fn follows(&mut self, last: QueueNo, now: Instant, slice_idle: Nanos, needed: u8) -> bool {
        if last != self.suspect || now > self.since + slice_idle * WINDOW {
            self.suspect = last;
            self.hits = 1;
            self.since = now;
        } else {
            self.hits += 1;
        }
        let found = self.hits >= needed;
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
    const A: QueueNo = QueueNo(1);
    const B: QueueNo = QueueNo(2);

    #[test]
    fn three_in_a_row_make_a_waker() {
        let now = Instant::ZERO;
        let mut waker = Waker::new(now);
        assert!(!waker.follows(A, now, IDLE, 3));
        assert!(!waker.follows(A, now, IDLE, 3));
        assert!(!waker.follows(B, now, IDLE, 3), "another one breaks the row");
        assert!(!waker.follows(A, now, IDLE, 3));
        assert!(!waker.follows(A, now, IDLE, 3));
        assert!(waker.follows(A, now, IDLE, 3));
        assert!(waker.suspect.is_none() && waker.hits == 0);
    }

    #[test]
    fn a_row_that_takes_longer_than_the_window_begins_anew() {
        let mut waker = Waker::new(Instant::ZERO);
        waker.follows(A, Instant::ZERO, IDLE, 3);
        waker.follows(A, Instant::ZERO + IDLE * 128, IDLE, 3);
        assert_eq!(waker.hits, 2);
        waker.follows(A, Instant::ZERO + IDLE * 128 + Nanos(1), IDLE, 3);
        assert_eq!(waker.hits, 1);
    }
}
