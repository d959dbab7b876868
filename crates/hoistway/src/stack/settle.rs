//! What follows from an input in the same instant, and the timers.

use super::*;

/// The earlier of two times, `None` being never.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

impl Stack {
    /// Works off everything that follows from an input in the same instant.
    pub(super) fn settle(&mut self) {
        loop {
            // Every turn consumes a bio, a run, a waiter, a held bio or a timer; each input makes
            // finitely many of them.
            if !self.nothing_follows() && self.follow() {
                continue;
            }
            let now = self.now;
            self.wake = self.next_timer();
            if self.wake.is_none_or(|due| due > now) {
                self.clear = self.is_clear();
                return;
            }
            self.fire_timers(|due| due <= now);
        }
    }

    /// As after most inputs: there is nothing that [`Stack::follow`] could do.
    #[inline(always)]
    fn nothing_follows(&self) -> bool {
        self.agenda.is_empty()
            && !self.env.runs.any()
            && self.controllers.is_empty()
            && !self.is_changing()
    }

    /// One consequence of an input, if there is one: re-entering bios first, then queue runs, then the tasks that
    /// were woken, one at a time, then the worker of gate 1.
    fn follow(&mut self) -> bool {
        if let Some(set) = self.agenda.handovers.pop_front() {
            self.hand_over_fifo(set);
        } else if let Some((bio, stage)) = self.agenda.reenter.pop_front() {
            self.enter(bio, stage);
        } else if let Some(queue) = self.env.runs.take() {
            self.run(queue);
        } else if let Some(waiter) = self.agenda.woken.pop_front() {
            self.wake(waiter);
        } else {
            return self.controllers_step() || self.thaw();
        }
        true
    }

    /// What controllers let go goes on; false: they have nothing.
    #[inline]
    fn controllers_step(&mut self) -> bool {
        !self.controllers.is_empty() && (self.worker_step() || self.release_held())
    }

    fn run(&mut self, queue: QueueId) {
        // A run at once replaces the delayed one of the same work item. A task that waits for a tag runs the queue itself,
        // which nobody has asked for.
        if self.env.runs.take_work(queue) || !self.env.device.plug_keeps_rerun {
            self.clear_rerun(queue);
        }
        if self.is_mq() {
            self.run_queue(queue);
        } else {
            self.run_legacy();
        }
    }

    /// The earliest time at which anything must be done.
    fn next_timer(&self) -> Option<Instant> {
        let mut next = self.scheduler.next_timer();
        for c in &self.controllers {
            next = earlier(next, c.stage.next_timer());
        }
        // Most of the time there is none of these.
        if self.reruns.next.is_some() {
            next = earlier(next, self.reruns.next);
        }
        if self.flush.has_timer() {
            next = earlier(next, self.flush.kick_at());
        }
        if self.legacy.unplug_at().is_some() {
            next = earlier(next, self.legacy.unplug_at());
        }
        next
    }

    /// Fires every timer for which `due` holds.
    pub(super) fn fire_timers(&mut self, due: impl Fn(Instant) -> bool) {
        let now = self.now;
        if self.scheduler.next_timer().is_some_and(&due) {
            self.scheduler.timer(now, &mut self.env.cx());
            assert!(
                self.scheduler.next_timer().is_none_or(|at| at > now),
                "after timer() the next one lies in the future"
            );
            self.ask_legacy_run();
        }
        for c in &mut self.controllers {
            if c.stage.next_timer().is_some_and(&due) {
                c.stage.timer(now, &mut self.env.cx());
                assert!(
                    c.stage.next_timer().is_none_or(|at| at > now),
                    "after timer() the next one of '{}' lies in the future",
                    c.entry.name
                );
            }
        }
        if self.reruns.next.is_some_and(&due) {
            for queue in self.queues.ids() {
                if self.queues[queue].rerun_at.is_some_and(&due) {
                    self.clear_rerun(queue);
                    self.env.runs.ask(queue);
                }
            }
        }
        if self.flush.kick_at().is_some_and(&due) {
            self.flush.clear_kick();
            self.issue_flush();
        }
        if self.legacy.unplug_at().is_some_and(&due) {
            self.legacy.unplug();
            self.ask_legacy_run();
        }
    }

    /// Nothing follows from the input, and there is no timer that could have moved: where there is no scheduler, what
    /// would be its timers moves with what it holds.
    #[inline(always)]
    pub(super) fn rests(&self) -> bool {
        self.entry.direct
            && self.held == 0
            && self.nothing_follows()
            && self.reruns.next.is_none()
            && self.flush.kick_at().is_none()
            && self.wake.is_none()
    }

    /// Nothing but the flush machine, merging and want of room could hold an I/O up that comes at `now`, and no timer is
    /// due before. When the next flush is issued does not move with it.
    #[inline(always)]
    pub(super) fn clear_at(&self, now: Instant) -> bool {
        self.clear && self.wake.is_none_or(|due| due > now)
    }

    /// What [`Stack::clear`] is to be.
    #[inline]
    pub(super) fn is_clear(&self) -> bool {
        self.entry.direct
            && self.plain
            && self.held == 0
            && self.nothing_follows()
            && self.reruns.next.is_none()
    }
}
