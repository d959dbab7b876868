//! The flush machine: cache flushes shared by everybody who waits for one
//! (specs/blk-mq-and-noop.md 8.1; one machine per device, as the drive models were calibrated).
//!
//! A request with PREFLUSH or FUA goes through up to three steps: flush, data, flush. At most one flush
//! command is with the device (C1). Requests that need one collect in a pending list; a command is issued
//! when none is running and no data step is in flight (C2), or the oldest has waited 5 s (C3). Issuing
//! swaps the lists; when the command completes, all that waited for it go on to their next step.
//!
//! A flush writes back everything the device holds, whoever asked for it. So who comes while one is running may share
//! the next: n fsyncs at once cost about one flush, and not n. A command waits for data steps that are under way,
//! because their requests need a flush behind them and so ride along.

use super::*;
use crate::request::Flags;
use crate::unit::Nanos;

const PRE: u8 = 1;
const DATA: u8 = 2;
const POST: u8 = 4;
/// C3. An endless stream of data steps (FUA writes) must not keep off for ever a flush that somebody waits for.
const LONGEST_WAIT: Nanos = Nanos::secs(5);

/// State of the machine.
#[derive(Debug)]
pub(super) struct FlushMachine {
    pending: List,
    running: List,
    command: Option<ReqId>,
    data_in_flight: u32,
    oldest: Instant,
    kick_at: Option<Instant>,
    blocked: bool,
}

impl FlushMachine {
    pub fn new() -> FlushMachine {
        FlushMachine {
            pending: List::new(),
            running: List::new(),
            command: None,
            data_in_flight: 0,
            oldest: Instant::ZERO,
            kick_at: None,
            blocked: false,
        }
    }

    /// When the next flush is to be issued, or C3 comes into force.
    pub fn kick_at(&self) -> Option<Instant> {
        match (self.kick_at, self.blocked) {
            (Some(at), _) => Some(at),
            (None, true) => Some(self.oldest + LONGEST_WAIT),
            (None, false) => None,
        }
    }

    /// [`FlushMachine::kick_at`] is some time.
    #[inline(always)]
    pub fn has_timer(&self) -> bool {
        self.blocked || self.kick_at.is_some()
    }

    /// A command is with the device, or the next one's time is set: who comes now joins those that wait.
    pub fn next_is_to_come(&self) -> bool {
        self.command.is_some() || self.kick_at.is_some()
    }

    pub fn clear_kick(&mut self) {
        self.kick_at = None;
        self.blocked = false;
    }

    /// C1 to C3.
    fn possible(&mut self, now: Instant) -> bool {
        if self.command.is_some() || self.pending.is_empty() {
            return false;
        }
        let waited = self.oldest + LONGEST_WAIT <= now;
        self.blocked = self.data_in_flight > 0 && !waited;
        !self.blocked
    }
}

impl Stack {
    /// A request with PREFLUSH or FUA has its tag. The device has a volatile cache (else the flags are
    /// gone by now).
    pub(super) fn begin_sequence(&mut self, id: ReqId) {
        let r = &self.env.requests[id];
        let (flags, pure, queue) = (r.flags, r.op == Op::Flush, r.queue);
        let fua = self.env.device.fua;
        let mut steps = 0;
        if flags.any(Flags::PREFLUSH) {
            steps |= PRE;
        }
        if !pure {
            steps |= DATA;
            if flags.any(Flags::FUA) && !fua {
                steps |= POST;
            }
        }
        if steps == DATA {
            // Forced unit access by the device itself: past the scheduler, no flush.
            self.residual_push(id, false);
            self.env.runs.ask(queue);
            return;
        }
        // The device must not see a flag it does not know, nor one that others carry out for it.
        let gone = if !fua || pure { Flags::PREFLUSH | Flags::FUA } else { Flags::PREFLUSH };
        let r = self.env.requests.get_mut(id);
        r.flags = r.flags.without(gone);
        self.state[id.index()].steps = steps;
        self.next_step(id, false);
    }

    /// Carries a request to its next step; `completed`: because of a completion.
    fn next_step(&mut self, id: ReqId, completed: bool) {
        let steps = self.state[id.index()].steps;
        if steps & PRE != 0 || (steps & DATA == 0 && steps & POST != 0) {
            self.state[id.index()].place = RequestPlace::Flushing;
            if self.flush.pending.is_empty() {
                self.flush.oldest = self.now;
            }
            self.flush.pending.push_back(&mut self.links, id.slot());
            self.try_flush(completed);
        } else if steps & DATA != 0 {
            self.flush.data_in_flight += 1;
            self.residual_push(id, true);
            let queue = self.env.requests[id].queue;
            self.env.runs.ask(queue);
        } else {
            let unsent = self.env.requests[id].op == Op::Flush;
            if unsent && self.is_mq() && !self.entry.direct {
                self.scheduler.complete_unsent(self.now, id, &mut self.env.cx());
            }
            self.finish(id, None);
        }
    }

    /// Issues a flush command if one is possible: at once after a submission, a little later after a
    /// completion (the kernel's requeue work), so that commands waiting meanwhile go first.
    fn try_flush(&mut self, completed: bool) {
        let now = self.now;
        if self.flush.kick_at.is_some() || !self.flush.possible(now) {
            return;
        }
        if completed && self.env.device.flush_kick_delay > Nanos::ZERO {
            self.flush.kick_at = Some(now + self.env.device.flush_kick_delay);
        } else {
            self.issue_flush();
        }
    }

    /// Swaps the lists and puts the command at the head of the residual list.
    pub(super) fn issue_flush(&mut self) {
        if !self.flush.possible(self.now) {
            return;
        }
        debug_assert!(self.flush.running.is_empty());
        core::mem::swap(&mut self.flush.pending, &mut self.flush.running);
        let queue = self.env.requests.at(self.flush.running.head()).queue;
        let id = self
            .env
            .requests
            .add_flush(self.now, queue)
            .expect("one slot is kept for the flush command");
        self.state[id.index()] = State { flush_command: true, ..State::default() };
        self.flush.command = Some(id);
        self.residual_push(id, true);
        self.env.runs.ask(queue);
    }

    /// Deviation: the text names no order for data steps that shared a flush; they go in order of
    /// submission.
    pub(super) fn flush_command_done(&mut self, error: Option<IoError>) {
        self.flush.command = None;
        let mut done = core::mem::take(&mut self.flush.running);
        let mut data = List::new();
        let (askers, told) = (done.len(), self.is_mq() && !self.entry.direct);
        while let Some(slot) = done.pop_front(&mut self.links) {
            let id = self.env.requests.at(slot).id;
            if error.is_some() {
                self.state[id.index()].steps = 0;
                self.finish(id, error);
                continue;
            }
            if told {
                self.scheduler.flushed(self.now, id, askers, &mut self.env.cx());
            }
            let steps = &mut self.state[id.index()].steps;
            *steps &= if *steps & PRE != 0 { !PRE } else { !POST };
            if *steps & DATA != 0 {
                data.push_back(&mut self.links, slot);
            } else {
                self.next_step(id, true);
            }
        }
        // Each goes to the head of the residual list: from the last to the first, to keep their order.
        while !data.is_empty() {
            let slot = data.tail();
            data.remove(&mut self.links, slot);
            self.next_step(self.env.requests.at(slot).id, true);
        }
        self.try_flush(true);
    }

    pub(super) fn data_step_done(&mut self, id: ReqId, error: Option<IoError>) {
        self.flush.data_in_flight -= 1;
        if error.is_some() {
            self.state[id.index()].steps = 0;
            self.finish(id, error);
        } else {
            self.state[id.index()].steps &= !DATA;
            self.next_step(id, true);
        }
        self.try_flush(true);
    }
}
