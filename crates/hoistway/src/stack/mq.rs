//! The multi-queue profile: task plugs, tags, runs of hardware queues
//! (specs/blk-mq-and-noop.md sections 4, 6, 7.4 to 7.8 and 11).

use super::*;
use crate::device::{Merging, RunAtCompletion};
use crate::request::Flags;
use crate::sched::{At, Depth, Dispatch};
use crate::unit::{Nanos, Sectors};

/// One hardware queue.
#[derive(Debug, Default)]
pub(super) struct HwQueue {
    /// Requests that left the scheduler but could not be sent, flush commands, data steps.
    residual: List,
    /// Run again when a request of this queue is freed.
    pub restart: bool,
    /// The scheduler withheld everything and no delayed rerun will follow.
    withheld: bool,
    /// The delayed rerun.
    pub rerun_at: Option<Instant>,
}

impl HwQueue {
    pub fn residual_tail(&self) -> u32 {
        self.residual.tail()
    }

    /// Puts a request directly behind `at`, `NIL`: before all others.
    pub fn residual_insert_behind(&mut self, links: &mut Links, at: u32, slot: u32) {
        if at == NIL {
            return self.residual.push_front(links, slot);
        }
        match links.next(at) {
            NIL => self.residual.push_back(links, slot),
            next => self.residual.insert_before(links, next, slot),
        }
    }
}

/// The plug of one process, or of the worker.
#[derive(Debug, Default)]
pub(super) struct Plug {
    pub open: bool,
    list: List,
}

/// A plug is flushed when it holds so many requests at the moment another is added. Small neighbours are kept together
/// long enough to merge; the bound keeps what a task has collected from waiting for a task that goes on collecting.
const PLUG_REQUESTS: u32 = 32;
/// A plug is flushed when its newest request has reached 128 KiB at that moment: it is large enough to be worth a seek,
/// and waiting for more brings little.
const PLUG_SECTORS: Sectors = Sectors(256);
/// The busy indicator is at most 16; so many successful sends bring it to 0. A queue that the device refused takes
/// single requests for a while, and what it leaves with the scheduler can still be merged and chosen.
const FALLS_TO_0: u32 = 16;
/// After a run in which the scheduler withheld everything all queues are run again. Whether a scheduler "has work" is
/// not exact (BFQ may have requests and decline), and another queue may have been sent away empty meanwhile with nobody
/// to come back. At once it would spin, hence the delay (ML "blk-mq: Rerun dispatching in the case of budget
/// contention"; 5.8).
const RERUN_DELAY: Nanos = Nanos::ms(3);

/// The delayed reruns of all hardware queues.
#[derive(Debug, Default)]
pub(super) struct Reruns {
    /// Queues that have one.
    pending: usize,
    /// The earliest, and how many queues have theirs at that time.
    pub next: Option<Instant>,
    at_next: usize,
}

impl Reruns {
    /// The queue has one at `at`, unless it has one already.
    fn arm(&mut self, q: &mut HwQueue, at: Instant) {
        if q.rerun_at.is_none() {
            q.rerun_at = Some(at);
            self.pending += 1;
            self.count(at);
        }
    }

    fn count(&mut self, at: Instant) {
        match self.next {
            Some(next) if next < at => {}
            Some(next) if next == at => self.at_next += 1,
            _ => (self.next, self.at_next) = (Some(at), 1),
        }
    }

    /// The one at `at` is no more; true if the next is to be found.
    fn cleared(&mut self, at: Instant) -> bool {
        self.pending -= 1;
        self.at_next -= usize::from(self.next == Some(at));
        self.at_next == 0
    }

    fn find_next(&mut self, queues: &Rows<QueueId, HwQueue>) {
        (self.next, self.at_next) = (None, 0);
        queues.iter().filter_map(|q| q.rerun_at).for_each(|at| self.count(at));
    }
}

impl Stack {
    pub(super) fn plug(&mut self, proc: ProcId) -> &mut Plug {
        let at = proc.index();
        if self.plugs.len() <= at {
            self.plugs.resize_with(at + 1, Plug::default);
        }
        &mut self.plugs[at]
    }

    #[inline(always)]
    pub(super) fn plug_of(&self, context: Context) -> Option<&Plug> {
        match context {
            Context::Proc(proc) => self.plugs.get(proc.index()),
            Context::Worker => Some(&self.worker.plug),
        }
    }

    /// The process collects requests.
    #[inline(always)]
    pub(super) fn plugged(&self, proc: ProcId) -> bool {
        self.plug_of(Context::Proc(proc)).is_some_and(|plug| plug.open)
    }

    /// The list and the links it uses; the plug must exist.
    fn plug_list(&mut self, context: Context) -> (&mut List, &mut Links) {
        let plug = match context {
            Context::Proc(proc) => &mut self.plugs[proc.index()],
            Context::Worker => &mut self.worker.plug,
        };
        (&mut plug.list, &mut self.links)
    }

    pub(super) fn newest_in_plug(&self, context: Context) -> Option<ReqId> {
        let newest = self.plug_of(context)?.list.tail();
        (newest != NIL).then(|| self.env.requests.at(newest).id)
    }

    pub(super) fn add_to_plug(&mut self, id: ReqId, context: Context) {
        if let Some(newest) = self.newest_in_plug(context) {
            let large = self.env.requests[newest].sectors >= PLUG_SECTORS
                && self.env.device.merging == Merging::All;
            if large || self.plug_list(context).0.len() >= PLUG_REQUESTS {
                self.flush_plug(context, false);
            }
        }
        self.state[id.index()].place = RequestPlace::Plugged;
        let (list, links) = self.plug_list(context);
        list.push_back(links, id.slot());
    }

    /// Hands the plugged requests over, grouped by hardware queue and CPU, in order of submission
    /// within a group; `sleeping`: because the task goes to sleep.
    ///
    /// Without a scheduler they go straight to the device unless the task sleeps; the first that is
    /// refused joins the residual list, the rest the software queues (section 11).
    pub(super) fn flush_plug(&mut self, context: Context, sleeping: bool) {
        if self.plug_of(context).is_none_or(|p| p.list.is_empty()) {
            return;
        }
        let mut direct = self.entry.direct && !sleeping;
        let lifo = direct && self.env.device.none_plug_lifo;
        // A process runs on one CPU, so there is one group unless it moved: take the first one's group
        // until the list is empty.
        while !self.plug_list(context).0.is_empty() {
            let list = self.plug_list(context).0;
            let mut at = if lifo { list.tail() } else { list.head() };
            let first = self.env.requests.at(at);
            let (cpu, queue) = (first.cpu, first.queue);
            while at != NIL {
                let next = if lifo { self.links.prev(at) } else { self.links.next(at) };
                let r = self.env.requests.at(at);
                if r.cpu == cpu {
                    let id = r.id;
                    let (list, links) = self.plug_list(context);
                    list.remove(links, at);
                    self.state[id.index()].place = RequestPlace::Nowhere;
                    if direct {
                        direct = self.issue_directly(id);
                    } else {
                        self.give_to_scheduler(id, At::Tail);
                    }
                }
                at = next;
            }
            if direct {
                continue;
            }
            match self.env.device.plug_keeps_rerun && !sleeping {
                true => self.env.runs.ask_in_place(queue),
                false => self.env.runs.ask(queue),
            }
        }
    }

    /// Puts a new request where it belongs: the scheduler, or (`none`) straight to the device.
    #[inline(always)]
    pub(super) fn insert_mq(&mut self, id: ReqId, queue: QueueId, sync: bool) {
        let several = self.env.device.hw_queues > 1;
        if self.entry.direct && (!self.env.runs.busy(queue) || (sync && several)) {
            self.issue_directly(id);
            return;
        }
        self.give_inlined(id, At::Tail);
        self.env.runs.ask(queue);
    }

    /// From the submitting context; false if the device refused it, then it is on the residual list.
    #[inline(always)]
    fn issue_directly(&mut self, id: ReqId) -> bool {
        if !self.room() {
            self.refused(id);
            return false;
        }
        let queue = self.issue(id);
        self.env.runs.sent(queue, true);
        true
    }

    /// The device could not take it: residual list, busy indicator, restart mark.
    fn refused(&mut self, id: ReqId) {
        let queue = self.env.requests[id].queue;
        self.residual_push(id, false);
        self.env.runs.sent(queue, false);
        self.mark_restart(queue);
    }

    fn mark_restart(&mut self, queue: QueueId) {
        self.queues[queue].restart = true;
        self.room.starved = true;
    }

    /// Puts a request on the residual list of its queue (legacy: the dispatch list).
    pub(super) fn residual_push(&mut self, id: ReqId, front: bool) {
        let queue = self.env.requests[id].queue;
        self.state[id.index()].place = RequestPlace::Residual;
        let list = &mut self.queues[queue].residual;
        if front {
            list.push_front(&mut self.links, id.slot());
        } else {
            list.push_back(&mut self.links, id.slot());
        }
    }

    pub(super) fn residual_head(&self, queue: QueueId) -> Option<ReqId> {
        let head = self.queues[queue].residual.head();
        (head != NIL).then(|| self.env.requests.at(head).id)
    }

    pub(super) fn residual_pop(&mut self, queue: QueueId) -> Option<ReqId> {
        let slot = self.queues[queue].residual.pop_front(&mut self.links)?;
        let id = self.env.requests.at(slot).id;
        self.state[id.index()].place = RequestPlace::Nowhere;
        Some(id)
    }

    /// One run of a hardware queue (7.4).
    pub(super) fn run_queue(&mut self, queue: QueueId) {
        for _ in 0..2 {
            if !self.queues[queue].residual.is_empty() {
                self.queues[queue].restart = true;
                if !self.send_residual(queue) {
                    self.room.starved = true;
                    return;
                }
            }
            if self.entry.direct {
                self.run_direct(queue);
            } else {
                self.run_scheduler(queue);
            }
            if self.queues[queue].residual.is_empty() {
                return;
            }
        }
    }

    /// True when the whole residual list could be sent.
    fn send_residual(&mut self, queue: QueueId) -> bool {
        while let Some(id) = self.residual_head(queue) {
            if !self.room() {
                self.env.runs.sent(queue, false);
                return false;
            }
            self.residual_pop(queue);
            self.issue(id);
            self.env.runs.sent(queue, true);
        }
        true
    }

    fn run_scheduler(&mut self, queue: QueueId) {
        self.queues[queue].withheld = false;
        // A round sends what it collected; rounds go on while each sends all of at least one.
        loop {
            let most =
                if self.env.runs.busy(queue) { 1 } else { self.env.device.nr_requests as usize };
            let mut withheld = false;
            debug_assert!(self.collected.is_empty());
            while self.collected.len() < most {
                let used = self.room.used + self.collected.len() as u32;
                let tag_free = used < self.env.device.queue_depth;
                if self.room.alone || (!tag_free && !self.env.device.overask) {
                    self.mark_restart(queue);
                    break;
                }
                if self.held == 0 && self.entry.profile == Profile::MultiQueue {
                    // It would say `Empty`, and nothing would have changed. What was made for the legacy profile may
                    // count how often it is asked.
                    break;
                }
                match self.ask_scheduler(queue) {
                    Dispatch::Issue(id) => self.collected.push(id),
                    Dispatch::Idle => {
                        withheld = self.scheduler.has_work();
                        break;
                    }
                    Dispatch::Empty => break,
                }
                if !tag_free {
                    break;
                }
            }
            if self.collected.is_empty() {
                if withheld {
                    self.rerun_later(queue);
                }
                return;
            }
            if !self.send_collected() {
                return;
            }
        }
    }

    #[inline(never)]
    fn run_direct(&mut self, queue: QueueId) {
        let busy = self.env.runs.busy(queue);
        if self.held == 0 {
            // As after most completions: nothing waits that could be asked for.
            if busy && !self.room() {
                self.mark_restart(queue);
            }
            return;
        }
        if !busy {
            while let Dispatch::Issue(id) = self.ask_scheduler(queue) {
                self.collected.push(id);
            }
            self.send_collected();
            return;
        }
        // One at a time to the end of this run, though the indicator may fall to 0 on the way: it is
        // moved afterwards.
        let mut sent = 0;
        loop {
            if !self.room() {
                self.mark_restart(queue);
                break;
            }
            let Dispatch::Issue(id) = self.ask_scheduler(queue) else { break };
            self.issue(id);
            sent += 1;
        }
        for _ in 0..sent.min(FALLS_TO_0) {
            self.env.runs.sent(queue, true);
        }
    }

    /// Sends the collected requests in order; what does not go out joins the residual lists. True when
    /// all were sent.
    #[inline(always)]
    fn send_collected(&mut self) -> bool {
        let mut all = true;
        for i in 0..self.collected.len() {
            let id = self.collected[i];
            if all && self.room() {
                let queue = self.issue_inlined(id);
                self.env.runs.sent(queue, true);
            } else if all {
                all = false;
                self.refused(id);
            } else {
                self.residual_push(id, false);
                self.mark_restart(self.env.requests[id].queue);
            }
        }
        self.collected.clear();
        all
    }

    /// The scheduler withheld everything. Without the delayed rerun completions ask again, and its timer;
    /// where there is neither the rerun comes all the same, or nothing would ever ask.
    fn rerun_later(&mut self, queue: QueueId) {
        let asked = self.room.used > 0 || self.scheduler.next_timer().is_some();
        if !self.env.device.delayed_rerun && asked {
            self.queues[queue].withheld = true;
            return;
        }
        self.arm_rerun(queue);
    }

    /// A delay of d kept in ticks fires at the (ceil(d / tick) + 1)-th tick edge after now.
    pub(super) fn arm_rerun(&mut self, first: QueueId) {
        let queues = self.queues.len();
        if self.reruns.pending == queues {
            return;
        }
        let tick = self.env.device.tick.0.max(1);
        let edges = RERUN_DELAY.0.div_ceil(tick) + 1;
        let at = Instant::from_nanos((self.now.as_nanos() / tick + edges) * tick);
        self.reruns.arm(&mut self.queues[first], at);
        if self.reruns.pending < queues {
            self.queues.iter_mut().for_each(|q| self.reruns.arm(q, at));
        }
    }

    /// `queue` has no delayed rerun any more.
    #[inline]
    pub(super) fn clear_rerun(&mut self, queue: QueueId) {
        if let Some(at) = self.queues[queue].rerun_at.take()
            && self.reruns.cleared(at)
        {
            self.reruns.find_next(&self.queues);
        }
    }

    /// A request of `queue` was freed: its mark, and the marks of all if the device was short of room.
    #[inline(always)]
    pub(super) fn restart_queues(&mut self, queue: QueueId) {
        let q = &mut self.queues[queue];
        if core::mem::take(&mut q.restart) {
            self.env.runs.ask(queue);
        }
        if core::mem::take(&mut self.room.starved) {
            self.env.runs.turn();
            for other in self.queues.ids() {
                if core::mem::take(&mut self.queues[other].restart) {
                    self.env.runs.ask(other);
                }
            }
        }
        let d = &self.env.device;
        let every = d.run_at_completion == RunAtCompletion::Scsi && d.scsi;
        // Deviation: kernels without the delayed rerun had no scheduler that needs one. Ours may be
        // younger (mq-deadline's classes), so when the device has run out of work and no timer will ask,
        // what was withheld is asked for again.
        let stuck = !d.delayed_rerun && self.room.used == 0;
        if every || (stuck && self.scheduler.next_timer().is_none()) {
            for (other, q) in self.queues.pairs() {
                if every || q.withheld {
                    self.env.runs.ask(other);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn tag_set(&self, queue: QueueId) -> usize {
        if self.entry.direct { 0 } else { usize::from(queue.0) }
    }

    /// Which tags the bio may have; `None`: any.
    #[inline(always)]
    pub(super) fn depth(&mut self, io: &Io) -> Option<u32> {
        let sequence = io.op == Op::Flush || io.flags.any(Flags::PREFLUSH | Flags::FUA);
        if sequence || self.entry.direct {
            return None;
        }
        match self.depth_limit(io) {
            Depth::Usual | Depth::Insist => None,
            Depth::Word(n) => Some(n.max(1)),
        }
    }

    /// One try for a tag; with it the bio becomes a request.
    fn try_tag(&mut self, waiter: Waiter) -> bool {
        let Waiter { bio, queue, depth } = waiter;
        let (set, cpu) = (self.tag_set(queue), self.env.requests.bio(bio).cpu);
        let Some(tag) = self.tag_sets[set].take(cpu, depth) else { return false };
        self.start(bio, queue, tag);
        true
    }

    /// Takes a tag for the bio, or puts its submitter to sleep (section 6).
    pub(super) fn get_tag(&mut self, bio: BioId, io: &Io) {
        let queue = self.env.device.queue_of(io.cpu);
        let waiter = Waiter { bio, queue, depth: self.depth(io) };
        if !self.try_tag(waiter) {
            self.wait_for_tag(waiter);
        }
    }

    /// Nothing was free: one more try, and sleep.
    pub(super) fn wait_for_tag(&mut self, waiter: Waiter) {
        if self.sleep_unless_freed(waiter) {
            self.carrier_sleeps(waiter.bio);
        }
    }

    /// Runs the hardware queue in the caller's context, tries once more, and sleeps if that fails.
    fn sleep_unless_freed(&mut self, waiter: Waiter) -> bool {
        let set = self.tag_set(waiter.queue);
        let list = self.tag_sets[set].draw_list();
        self.run_queue(waiter.queue);
        if self.try_tag(waiter) {
            return false;
        }
        self.counters.tag_waits += 1;
        self.tag_sets[set].sleep(list, waiter);
        true
    }

    /// A woken waiter tries again.
    pub(super) fn wake(&mut self, waiter: Waiter) {
        if self.is_changing() {
            // A merge freed a tag after the change was asked for.
            return self.freeze(waiter.bio, PathStep::Tag);
        }
        if !self.is_mq() {
            return self.get_legacy_request(waiter.bio);
        }
        let set = self.tag_set(waiter.queue);
        self.tag_sets[set].ran();
        self.sleep_unless_freed(waiter);
    }

    #[inline(always)]
    pub(super) fn free_scheduler_tag(&mut self, queue: QueueId, cpu: u32, tag: Tag) {
        let set = self.tag_set(queue);
        self.tag_sets[set].free(cpu, tag, &mut self.agenda.woken);
        if self.tag_sets[set].is_fifo() && self.tag_sets[set].has_waiters() {
            // Not here: the tag may have become free in the middle of a merge.
            self.agenda.handovers.push_back(set);
        }
    }

    /// Fifo: the oldest waiter whose own limit allows it gets the tag; the list is walked once.
    pub(super) fn hand_over_fifo(&mut self, set: usize) {
        let mut at = 0;
        while let Some(waiter) = self.tag_sets[set].fifo(at) {
            if self.try_tag(waiter) {
                self.tag_sets[set].ran();
                return;
            }
            self.tag_sets[set].fifo_put_back(at, waiter);
            at += 1;
        }
    }
}
