//! What is learnt of the device: does it queue, and how much do writes hurt reads (specs/cfq.md 8.3, 9).

/// Requests in the driver that prove queueing, and samples before anything is believed. A disk without queueing has
/// one under way; more than four cannot be chance of a hand-over.
const QUEUEING: u32 = 5;
const SAMPLES: u32 = 50;

/// Does the device take more than one request at a time? From behaviour, not from what the device says of itself:
/// many claimed a queue and served one at a time. It decides whether idling keeps a head in place or only keeps a
/// queue empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    /// `None`: not known yet.
    pub answer: Option<bool>,
    deepest: u32,
    samples: u32,
}

impl Queueing {
    /// 2.6.30 begins with a guess.
    pub fn new(answer: Option<bool>) -> Queueing {
        Queueing { answer, deepest: 0, samples: 0 }
    }

    /// Possibly: known to, or not known. "Unknown" errs toward not idling.
    pub fn possible(&self) -> bool {
        self.answer != Some(false)
    }

    /// -1 unknown, 0, 1: as it is reported.
    pub fn figure(&self) -> i64 {
        self.answer.map_or(-1, i64::from)
    }

    /// A request completes; `lone`: the queue in service is idled for and had issued little, which says nothing about
    /// the device. `again`: a new verdict after each round of samples (2.6.30), not the first one for good.
    pub fn watch(&mut self, in_driver: u32, queued: u32, lone: impl FnOnce() -> bool, again: bool) {
        self.deepest = self.deepest.max(in_driver);
        // A light load cannot show a queue, so it never decides.
        let light = queued <= QUEUEING && in_driver <= QUEUEING;
        if light || (self.answer == Some(true) && !again) || lone() {
            return;
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            return;
        }
        self.answer = Some(self.deepest >= QUEUEING);
        if again {
            self.samples = 0;
            self.deepest = 0;
        }
    }

    /// So many requests of the queue in service, and so many in the driver, are too few to tell.
    pub fn too_few(own: u32, in_driver: u32) -> bool {
        own < QUEUEING && in_driver < QUEUEING
    }
}

/// How long ago a sync request was late when the scheduler starts, in ticks: long enough for ten async requests.
const LATE_AT_START: i64 = 1000;

/// How deep async queues may go. After a late sync request they start again at depth 1 and gain one per base slice:
/// the write cache of a disk keeps hurting reads long after the writes were dispatched (ML "cfq-iosched: implement
/// slower async initiate and queue ramp up", 2.6.32).
#[derive(Clone, Copy, Debug)]
pub(super) struct AsyncRamp {
    pub last_late: i64,
}

impl AsyncRamp {
    pub fn new(t: i64) -> AsyncRamp {
        AsyncRamp { last_late: t - LATE_AT_START }
    }

    /// A sync request that exists since `began` is over; it was late if that took `expire`.
    pub fn sync_ended(&mut self, t: i64, began: i64, expire: i64) {
        if t >= began + expire {
            self.last_late = t;
        }
    }

    /// Requests a queue may have with the device that has `dispatched` there; always a first one, or writes would
    /// never move.
    pub fn depth(&self, t: i64, slice_sync: i64, dispatched: i64) -> i64 {
        let depth = (t - self.last_late) / slice_sync;
        if depth == 0 && dispatched == 0 { 1 } else { depth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(q: &mut Queueing, times: u32, in_driver: u32, queued: u32, again: bool) {
        (0..times).for_each(|_| q.watch(in_driver, queued, || false, again));
    }

    #[test]
    fn fifty_samples_under_load_are_needed_for_a_verdict() {
        let mut q = Queueing::new(None);
        feed(&mut q, 1000, QUEUEING, QUEUEING, false);
        assert_eq!((q.answer, q.figure()), (None, -1), "a light load decides nothing");
        feed(&mut q, SAMPLES, QUEUEING + 1, 0, false);
        assert!(q.answer.is_none() && q.possible());
        feed(&mut q, 1, QUEUEING + 1, 0, false);
        assert_eq!((q.answer, q.figure()), (Some(true), 1));
        feed(&mut q, 1000, 1, 100, false);
        assert_eq!(q.answer, Some(true), "it does not unlearn it");
    }

    #[test]
    fn a_device_with_much_to_do_that_takes_four_does_not_queue() {
        let mut q = Queueing::new(None);
        feed(&mut q, SAMPLES + 1, QUEUEING - 1, 100, false);
        assert_eq!((q.answer, q.possible(), q.figure()), (Some(false), false, 0));
        q.watch(QUEUEING, 100, || true, false);
        assert_eq!(q.answer, Some(false), "the load of one process says nothing");
        q.watch(QUEUEING, 100, || false, false);
        assert_eq!(q.answer, Some(true), "the deepest ever counts");
    }

    #[test]
    fn the_early_version_judges_each_round_anew() {
        let mut q = Queueing::new(Some(true));
        feed(&mut q, SAMPLES + 1, 1, 100, true);
        assert_eq!(q.answer, Some(false));
        feed(&mut q, SAMPLES + 1, QUEUEING, 100, true);
        assert_eq!(q.answer, Some(true));
    }

    #[test]
    fn four_of_a_queue_are_too_few_five_anywhere_are_not() {
        assert!(Queueing::too_few(4, 4));
        assert!(!Queueing::too_few(5, 4) && !Queueing::too_few(4, 5));
    }

    #[test]
    fn writes_start_slowly_after_a_late_read() {
        let mut ramp = AsyncRamp::new(0);
        assert_eq!(ramp.depth(0, 100, 3), 10);
        ramp.sync_ended(500, 376, 125);
        assert_eq!(ramp.depth(500, 100, 0), 15, "124 ticks are in time");
        ramp.sync_ended(500, 375, 125);
        assert_eq!([0, 1].map(|d| ramp.depth(599, 100, d)), [1, 0], "one, and no second");
        assert_eq!([0, 1].map(|d| ramp.depth(700, 100, d)), [2, 2]);
    }
}
