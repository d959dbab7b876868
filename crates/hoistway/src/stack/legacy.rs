//! The legacy profile: two request pools with batchers, the device plug, the dispatch list and drain
//! barriers (specs/blk-mq-and-noop.md sections 4, 5, 7.1 to 7.3 and 8.3).

use super::*;
use crate::request::Flags;
use crate::sched::{At, Depth, Dispatch, Run};
use crate::unit::{Nanos, Sectors};

/// The device plug is released by itself after 3 ms. An idle device waits for the neighbours of its first request, as a
/// task's plug does later, only that here the device guesses for the task; the time bounds what a wrong guess costs.
const PLUG_TIME: Nanos = Nanos::ms(3);
/// ... or when so many requests wait: they can be sorted and merged by then.
const PLUG_REQUESTS: u32 = 4;
/// A batcher may allocate so many requests ... When the pool is empty and each freed request goes to the next task in
/// line, every stream is cut into single requests; a task that got one may take some more beyond the limit, which keeps
/// its run whole.
const BATCH_REQUESTS: u32 = 32;
/// ... or for so long (HZ/50).
const BATCH_TIME: Nanos = Nanos::ms(20);

/// Right of a process to allocate although its pool is full.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    left: u32,
    since: Instant,
}

/// A barrier on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Barrier {
    /// Earlier requests are still with the device.
    Draining,
    /// The flush before it is with the device.
    PreFlush,
    /// The barrier write is with the device.
    Write,
    /// The flush behind it is with the device.
    PostFlush,
}

/// State of the legacy surroundings.
#[derive(Debug)]
pub(super) struct Legacy {
    nr: u32,
    /// Allocated requests, async and sync.
    count: [u32; 2],
    full: [bool; 2],
    waiters: [VecDeque<BioId>; 2],
    batches: Vec<Batch>,
    unplug_at: Option<Instant>,
    barrier: Option<(ReqId, Barrier)>,
    /// Barriers that exist, the one on its way included.
    barriers: u32,
    /// Boundary and holder of the sorted insertion (7.2).
    boundary: Sectors,
    holder: Option<ReqId>,
}

impl Legacy {
    pub fn new(nr: u32) -> Legacy {
        Legacy {
            nr,
            count: [0; 2],
            full: [false; 2],
            waiters: [VecDeque::with_capacity(64), VecDeque::with_capacity(64)],
            batches: Vec::new(),
            unplug_at: None,
            barrier: None,
            barriers: 0,
            boundary: Sectors(0),
            holder: None,
        }
    }

    pub fn unplug_at(&self) -> Option<Instant> {
        self.unplug_at
    }

    pub fn unplug(&mut self) {
        self.unplug_at = None;
    }

    /// The marks that write-back and read-ahead look at: congestion goes on, and off.
    #[cfg(test)]
    pub fn congestion_marks(nr: u32) -> (u32, u32) {
        let on = (nr - nr / 8 + 1).min(nr);
        let off = (nr - nr / 8).saturating_sub(nr / 16 + 1).max(1);
        (on, off)
    }

    fn batch(&mut self, proc: ProcId) -> Option<&mut Batch> {
        if proc == ProcId::NONE {
            return None;
        }
        if self.batches.len() <= proc.index() {
            self.batches.resize(proc.index() + 1, Batch::default());
        }
        Some(&mut self.batches[proc.index()])
    }

    fn start_batch(&mut self, proc: ProcId, now: Instant) {
        if let Some(b) = self.batch(proc) {
            *b = Batch { left: BATCH_REQUESTS, since: now };
        }
    }

    /// A fresh batcher may always allocate one.
    fn is_batcher(&mut self, proc: ProcId, now: Instant) -> bool {
        self.batch(proc)
            .is_some_and(|b| b.left == BATCH_REQUESTS || (b.left > 0 && now < b.since + BATCH_TIME))
    }

    /// Section 5: takes a request of pool `s`, if the caller may.
    fn take(&mut self, s: usize, proc: ProcId, depth: Depth, now: Instant) -> bool {
        if let Depth::Word(n) = depth
            && self.count[s] >= n
        {
            return false;
        }
        if self.count[s] + 1 >= self.nr {
            if !self.full[s] {
                self.full[s] = true;
                self.start_batch(proc, now);
            } else if depth != Depth::Insist && !self.is_batcher(proc, now) {
                return false;
            }
        }
        if self.count[s] >= 3 * self.nr / 2 {
            return false;
        }
        self.count[s] += 1;
        if self.is_batcher(proc, now)
            && let Some(b) = self.batch(proc)
        {
            b.left -= 1;
        }
        true
    }
}

impl Stack {
    pub(super) fn ask_legacy_run(&mut self) {
        if !self.is_mq() {
            self.env.runs.ask(QueueId(0));
        }
    }

    /// Somebody goes to sleep: the device is unplugged for it.
    pub(super) fn legacy_unplug_for_sleeper(&mut self) {
        if !self.is_mq() && self.legacy.unplug_at.take().is_some() {
            self.ask_legacy_run();
        }
    }

    pub(super) fn get_legacy_request(&mut self, bio: BioId) {
        let io = *self.env.requests.bio(bio);
        let s = usize::from(self.env.device.is_sync(io.op, io.flags));
        let depth = self.depth_limit(&io);
        if self.legacy.take(s, io.proc, depth, self.now) {
            return self.start(bio, QueueId(0), 0);
        }
        self.counters.tag_waits += 1;
        self.legacy.waiters[s].push_back(bio);
        self.legacy_unplug_for_sleeper();
    }

    pub(super) fn free_legacy_request(&mut self, sync: bool) {
        let s = usize::from(sync);
        let now = self.now;
        let pool = &mut self.legacy;
        pool.count[s] -= 1;
        if pool.count[s] < pool.nr {
            pool.full[s] = false;
            if let Some(bio) = pool.waiters[s].pop_front() {
                let proc = self.env.requests.bio(bio).proc;
                pool.start_batch(proc, now);
                self.agenda.woken.push_back(Waiter { bio, queue: QueueId(0), depth: None });
            }
        }
    }

    /// A new request of the legacy profile: barrier, flush sequence, or the scheduler.
    pub(super) fn insert_legacy(&mut self, id: ReqId) {
        let flags = self.env.requests[id].flags;
        if flags.any(Flags::BARRIER) {
            // Everything submitted before leaves the scheduler first.
            self.legacy.barriers += 1;
            self.drain_legacy();
            self.append(id);
            self.legacy.unplug();
            return self.ask_legacy_run();
        }
        if flags.any(Flags::PREFLUSH | Flags::FUA) {
            return self.begin_sequence(id);
        }
        let empty = self.legacy.count[0] + self.legacy.count[1] <= self.room.used + 1
            && self.residual_head(QueueId(0)).is_none();
        let plugs = self.device_is_plugged_when_empty() && !self.ending;
        if empty && plugs && self.legacy.unplug_at.is_none() {
            self.legacy.unplug_at = Some(self.now + PLUG_TIME);
        }
        let run = self.give_to_scheduler(id, At::Tail);
        let waiting = self.legacy.count[0] + self.legacy.count[1] - self.room.used;
        if run == Run::Now || flags.any(Flags::UNPLUG) || waiting >= PLUG_REQUESTS {
            self.legacy.unplug();
        }
        if self.legacy.unplug_at.is_none() {
            self.ask_legacy_run();
        }
    }

    /// A non-rotational device with tags is never plugged.
    fn device_is_plugged_when_empty(&self) -> bool {
        self.env.device.rotational || self.env.device.queue_depth <= 1
    }

    /// A bio has joined a waiting request: no request is added, but UNPLUG holds all the same.
    pub(super) fn unplug_after_merge(&mut self, flags: Flags) {
        if !self.is_mq() && (flags.any(Flags::UNPLUG) || !self.device_is_plugged_when_empty()) {
            self.legacy.unplug();
            self.ask_legacy_run();
        }
    }

    /// The driver's queue run: dispatch list first, then the scheduler, while there is room.
    pub(super) fn run_legacy(&mut self) {
        self.legacy.unplug();
        while self.room() {
            if let Some((_, phase)) = self.legacy.barrier {
                if phase == Barrier::Draining && self.room.used == 0 {
                    self.barrier_next();
                    continue;
                }
                return;
            }
            if let Some(id) = self.residual_head(QueueId(0)) {
                if self.is_barrier(id) {
                    self.residual_pop(QueueId(0));
                    self.peeked(id);
                    self.legacy.barrier = Some((id, Barrier::Draining));
                    continue;
                }
                self.residual_pop(QueueId(0));
                self.peeked(id);
                self.issue(id);
                continue;
            }
            match self.ask_scheduler(QueueId(0)) {
                Dispatch::Issue(id) => {
                    self.peeked(id);
                    self.issue(id);
                }
                Dispatch::Idle => {
                    // A completion runs the queue here, so most withholding ends by itself. What
                    // schedulers of the other profile leave to its delayed rerun (mq-deadline behind a
                    // busier level) has it here too: else nothing would ever ask again.
                    if self.room.used == 0 && self.scheduler.next_timer().is_none() {
                        self.arm_rerun(QueueId(0));
                    }
                    return;
                }
                Dispatch::Empty => return,
            }
        }
    }

    /// Bios that wait for a place in a pool leave: they wait for something else.
    pub(super) fn take_pool_waiters(&mut self, out: &mut Vec<BioId>) {
        self.legacy.waiters.iter_mut().for_each(|w| out.extend(w.drain(..)));
    }

    /// 7.2: the boundary moves with what is handed to the driver.
    fn peeked(&mut self, id: ReqId) {
        if self.legacy.holder.is_none_or(|h| h == id) {
            self.legacy.boundary = self.env.requests[id].end();
            self.legacy.holder = None;
        }
    }

    /// Appends to the dispatch list.
    fn append(&mut self, id: ReqId) {
        self.legacy.boundary = self.env.requests[id].end();
        self.legacy.holder = Some(id);
        self.residual_push(id, false);
    }

    /// 7.3: everything leaves the scheduler for the dispatch list, idling and limits ignored.
    pub(super) fn drain_legacy(&mut self) {
        while let Some(id) = self.drain_one() {
            self.left_scheduler(id);
            if self.entry.sorted {
                self.insert_sorted(id);
            } else {
                self.append(id);
            }
        }
    }

    /// 7.2: a one-way elevator from the boundary, with wrap-around.
    fn insert_sorted(&mut self, id: ReqId) {
        let new = self.env.requests[id];
        let boundary = self.legacy.boundary;
        // Walk from the tail past those the new one goes before.
        let mut at = self.queues[QueueId(0)].residual_tail();
        while at != NIL {
            let e = self.env.requests.at(at);
            let other = e.dir() != new.dir() || (e.op == Op::Discard) != (new.op == Op::Discard);
            let state = self.state[at as usize];
            let fixed = self.is_barrier(e.id) || state.steps != 0 || state.own_command();
            let stop = if new.start >= boundary {
                e.start >= boundary && new.start >= e.start
            } else {
                e.start >= boundary || new.start >= e.start
            };
            if other || fixed || stop {
                break;
            }
            at = self.links.prev(at);
        }
        self.state[id.index()].place = RequestPlace::Residual;
        self.queues[QueueId(0)].residual_insert_behind(&mut self.links, at, id.slot());
    }

    pub(super) fn is_barrier(&self, id: ReqId) -> bool {
        !self.is_mq() && self.env.requests[id].flags.any(Flags::BARRIER)
    }

    /// Some barrier exists whose commands have not begun.
    pub(super) fn barrier_waits(&self) -> bool {
        self.legacy.barriers > 0 && !self.barrier_is_out()
    }

    /// What is with the device while a barrier waits was submitted before it and must stay before it:
    /// it returns to the dispatch list, not to the scheduler, which may hold later ones.
    pub(super) fn requeue_before_barrier(&mut self, id: ReqId) {
        if let Some((barrier, _)) = self.legacy.barrier.take() {
            self.residual_push(barrier, true);
        }
        self.residual_push(id, true);
    }

    /// A command of a barrier is with the device, and no other is.
    pub(super) fn barrier_is_out(&self) -> bool {
        self.legacy.barrier.is_some_and(|(_, phase)| phase != Barrier::Draining)
    }

    /// The barrier goes to its next phase: drain, flush, write (with FUA if supported), flush.
    fn barrier_next(&mut self) {
        let Some((id, phase)) = self.legacy.barrier else { return };
        let cached = self.env.device.write_cache;
        let empty = self.env.requests[id].op == Op::Flush;
        let next = match phase {
            Barrier::Draining if cached => Barrier::PreFlush,
            // An empty barrier is drain and flush.
            Barrier::Draining | Barrier::PreFlush if empty => return self.barrier_over(id, None),
            Barrier::Draining | Barrier::PreFlush => Barrier::Write,
            Barrier::Write => Barrier::PostFlush,
            Barrier::PostFlush => unreachable!("the barrier is over after its second flush"),
        };
        self.legacy.barrier = Some((id, next));
        match next {
            Barrier::Write => {
                if cached && self.env.device.fua {
                    self.env.requests.get_mut(id).flags |= Flags::FUA;
                }
                self.issue(id);
            }
            _ => {
                let now = self.now;
                let flush = self
                    .env
                    .requests
                    .add_flush(now, QueueId(0))
                    .expect("one slot is kept for the barrier's flush");
                self.state[flush.index()] = State { barrier_flush: true, ..State::default() };
                self.issue(flush);
            }
        }
    }

    /// Some barrier is on its way.
    #[inline(always)]
    pub(super) fn barrier_exists(&self) -> bool {
        self.legacy.barrier.is_some()
    }

    /// A completion that belongs to a barrier; true if it did (and the request is taken care of).
    pub(super) fn barrier_step_done(&mut self, id: ReqId, error: Option<IoError>) -> bool {
        let Some((barrier, phase)) = self.legacy.barrier else { return false };
        if phase == Barrier::Draining {
            return false;
        }
        if self.state[id.index()].barrier_flush {
            self.env.requests.remove(id);
        }
        let fua = self.env.device.fua || !self.env.device.write_cache;
        let over =
            error.is_some() || phase == Barrier::PostFlush || (phase == Barrier::Write && fua);
        if over {
            self.barrier_over(barrier, error);
        } else {
            self.barrier_next();
        }
        true
    }

    fn barrier_over(&mut self, barrier: ReqId, error: Option<IoError>) {
        self.legacy.barrier = None;
        self.legacy.barriers -= 1;
        self.finish(barrier, error);
    }
}
