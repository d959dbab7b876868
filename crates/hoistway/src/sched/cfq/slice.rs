//! The time slice of one queue (specs/cfq.md 7). Times are ticks.
//!
//! A slice has two beginnings: the queue is chosen, and its first request completes. Only the second one starts the
//! clock, or the seek to where the queue reads would be paid by it.

/// No such time: the slice has not begun.
const UNSET: i64 = i64::MIN;

/// The slice a queue has, or had last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// When the queue was chosen.
    chosen: i64,
    start: i64,
    pub end: i64,
    pub len: i64,
    /// What the queue has left of its slice, or has overrun it by (negative), when others made it stop: it comes
    /// back that much earlier or later.
    pub resid: i64,
    /// Requests dispatched in it.
    pub sent: i64,
    /// Chosen, and nothing of it completed yet.
    pub fresh: bool,
    /// The device is kept idle for it.
    pub wait_request: bool,
    /// It was prolonged until its group gets busy again.
    pub wait_busy: bool,
    /// A small request came while the device was kept idle: it is dispatched before the slice ends.
    pub must_dispatch: bool,
    /// It has passed the limit of the pool once.
    pub must_alloc: bool,
    fifo_checked: bool,
}

impl Slice {
    pub const NONE: Slice = Slice {
        chosen: 0,
        start: UNSET,
        end: 0,
        len: 0,
        resid: 0,
        sent: 0,
        fresh: false,
        wait_request: false,
        wait_busy: false,
        must_dispatch: false,
        must_alloc: false,
        fifo_checked: false,
    };

    /// The queue is served from now on (7.2).
    pub fn choose(&mut self, t: i64) {
        self.chosen = t;
        self.start = UNSET;
        (self.end, self.len, self.sent) = (0, 0, 0);
        self.fresh = true;
        (self.wait_request, self.must_dispatch, self.must_alloc) = (false, false, false);
        self.fifo_checked = false;
    }

    /// The slice proper (7.3).
    pub fn begin(&mut self, t: i64, len: i64) {
        self.start = t;
        self.len = len;
        self.end = t + len;
        self.fresh = false;
    }

    pub fn used(&self, t: i64) -> bool {
        !self.fresh && t >= self.end
    }

    /// The queue is served no longer; `timed_out`: others made it stop (7.1).
    pub fn stop(&mut self, t: i64, timed_out: bool) {
        (self.wait_request, self.wait_busy) = (false, false);
        if timed_out && !self.fresh {
            self.resid = self.end - t;
        }
    }

    /// What the group pays for it. A slice that has not begun cost at least a tick: a group must not be served for
    /// nothing.
    pub fn used_time(&self, t: i64) -> i64 {
        if self.start == UNSET || self.start == t {
            (t - self.chosen).max(1)
        } else {
            (t - self.start).min(self.len)
        }
    }

    /// Time for the next request of the only queue of a group, which would lose its place if it ran empty (9).
    pub fn prolong(&mut self, t: i64, idle: i64) {
        self.end = t + idle;
        self.wait_busy = true;
    }

    /// It ends with the next tick: the queue has sent enough.
    pub fn close(&mut self, t: i64) {
        self.end = t + 1;
    }

    /// A queue that preempts starts afresh (6.2).
    pub fn renew(&mut self) {
        self.end = 0;
        self.fresh = true;
    }

    /// Slices have become shorter: none is longer than that.
    pub fn cut(&mut self, most: i64) {
        self.resid = self.resid.min(most);
        if self.start != UNSET {
            self.len = self.len.min(most);
            self.end = self.end.min(self.start + most);
        }
    }

    /// True once per slice: the time to look at the oldest request.
    pub fn first_look(&mut self) -> bool {
        !core::mem::replace(&mut self.fifo_checked, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chosen at 10, begun at 20 with 100 ticks.
    fn begun() -> Slice {
        let mut slice = Slice::NONE;
        slice.choose(10);
        slice.begin(20, 100);
        slice
    }

    #[test]
    fn a_slice_is_not_used_before_its_first_completion() {
        let mut slice = Slice::NONE;
        slice.choose(10);
        assert!(!slice.used(10_000));
        slice.begin(20, 100);
        assert!(!slice.used(119) && slice.used(120));
        slice.renew();
        assert!(!slice.used(120));
    }

    #[test]
    fn what_is_left_or_overrun_is_remembered_if_others_ended_it() {
        let mut early = begun();
        early.stop(70, true);
        assert_eq!(early.resid, 50);
        let mut late = begun();
        late.stop(130, true);
        assert_eq!(late.resid, -10);
        let mut by_itself = begun();
        by_itself.stop(70, false);
        let mut unbegun = Slice::NONE;
        unbegun.choose(10);
        unbegun.stop(70, true);
        assert_eq!((by_itself.resid, unbegun.resid), (0, 0));
        early.choose(80);
        assert_eq!(early.resid, 50, "until it is used for the next key");
    }

    #[test]
    fn time_is_paid_from_the_beginning_or_else_from_the_choice() {
        assert_eq!([20, 21, 119, 500].map(|t| begun().used_time(t)), [10, 1, 99, 100]);
        let mut slice = Slice::NONE;
        slice.choose(10);
        assert_eq!([10, 11, 15].map(|t| slice.used_time(t)), [1, 1, 5]);
    }

    #[test]
    fn shorter_slices_cut_what_was_given_and_lengthen_nothing() {
        let mut slice = begun();
        slice.resid = 70;
        slice.cut(40);
        assert_eq!((slice.len, slice.end, slice.resid), (40, 60, 40));
        slice.cut(1000);
        assert_eq!((slice.len, slice.end, slice.resid), (40, 60, 40));
        let mut unbegun = Slice::NONE;
        unbegun.cut(5);
        assert_eq!((unbegun.len, unbegun.end), (0, 0));
    }

    #[test]
    fn each_slice_looks_at_the_oldest_request_once() {
        let mut slice = begun();
        assert!(slice.first_look() && !slice.first_look());
        slice.choose(200);
        assert!(slice.first_look());
    }

    #[test]
    fn a_group_waited_for_and_a_queue_that_sent_enough_end_where_told() {
        let mut slice = begun();
        slice.prolong(50, 8);
        assert!(slice.wait_busy && !slice.used(57) && slice.used(58));
        slice.stop(58, false);
        assert!(!slice.wait_busy);
        let mut slice = begun();
        slice.close(50);
        assert!(!slice.used(50) && slice.used(51));
    }
}
