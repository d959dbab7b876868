//! The path of one I/O: submission, gates, splitting, tag, and completion.

use super::split::{first_piece, rest_behind, segments};
use super::*;
use crate::ctl::Verdict;
use crate::request::Flags;
use crate::sched::{At, Depth, Dispatch, FlushCommand, Open, Search};
use crate::table::Handle;
use crate::trace::Event;
use crate::unit::Sectors;

/// Where a request's tag or pool place belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    queue: QueueId,
    sync: bool,
    cpu: u32,
    tag: Tag,
}

/// Requests that are closed to merging leave its index.
#[inline(always)]
fn take_closed(cx: &mut Cx<'_>, elevator: &mut Elevator) {
    while let Some(slot) = cx.closed.pop() {
        elevator.remove(slot);
    }
}

impl Stack {
    #[inline(never)]
    pub(super) fn submit(&mut self, io: &Io) -> Result<(), StackError> {
        let data = matches!(io.op, Op::Read | Op::Write);
        if self.plain && data && !io.flags.any(Flags::PREFLUSH | Flags::FUA) {
            let most = self.max_sectors();
            if self.fits_alone(io, most) {
                self.queued(io);
                self.pass_plain(io);
                return Ok(());
            }
        }
        self.submit_any(*io)
    }

    /// The same, whatever has a say in it.
    fn submit_any(&mut self, mut io: Io) -> Result<(), StackError> {
        let barrier = io.flags.any(Flags::BARRIER);
        let empty = io.sectors.0 == 0 && io.flags.any(Flags::PREFLUSH | Flags::BARRIER);
        let pure_flush = io.op == Op::Flush || empty;
        if pure_flush {
            io.op = Op::Flush;
            io.flags |= Flags::PREFLUSH;
            io.sectors = Sectors(0);
        }
        io.segments = match io.op {
            Op::Read | Op::Write => io.segments.clamp(1, io.sectors.0.clamp(1, 1 << 30) as u32),
            // No data: one range.
            Op::Discard | Op::WriteZeroes | Op::Flush => 1,
        };
        self.check(&io)?;
        if !self.prio_classes.is_empty() {
            io.prio = self.prio_class(io.group).apply(io.prio);
        }
        self.queued(&io);
        if !self.env.device.write_cache {
            io.flags = io.flags.without(Flags::PREFLUSH | Flags::FUA);
            if pure_flush && !barrier {
                // Without a volatile cache there is nothing to do; no policy is met.
                self.outputs.push(Output::Accepted { io: io.id });
                self.finished(io.id, None);
                return Ok(());
            }
        }
        let bio = self.env.requests.store_bio(io, self.now);
        self.enter(bio, PathStep::Gate1(0));
        Ok(())
    }

    #[inline(always)]
    fn queued(&mut self, io: &Io) {
        self.counters.submitted += 1;
        if self.env.trace.is_on() {
            self.trace_queued(io);
        }
    }

    pub(super) fn trace_queued(&mut self, io: &Io) {
        let Io { id, proc, group, op, start, sectors, .. } = *io;
        self.env.trace.emit(self.now, Event::Queued { io: id.0, proc, group, op, start, sectors });
    }

    /// What [`Stack::enter`] does with a bio in which nobody has a say ([`Stack::plain`]), which fits and is no flush: with
    /// a tag at hand request and bio are made in one step.
    #[inline(always)]
    fn pass_plain(&mut self, io: &Io) {
        self.count(io, true);
        let context = Context::Proc(io.proc);
        let plugged = self.plugged(io.proc);
        let partner = match plugged.then(|| self.partner_in_plug(context, io)).flatten() {
            Some(partner) => Some((partner, true)),
            None => self.partner_that_waits(io).map(|partner| (partner, false)),
        };
        if let Some((partner, in_plug)) = partner {
            let bio = self.env.requests.store_bio(*io, self.now);
            return self.join(bio, io, partner, in_plug);
        }
        let queue = self.env.device.queue_of(io.cpu);
        let depth = self.depth(io);
        let set = self.tag_set(queue);
        let Some(tag) = self.tag_sets[set].take(io.cpu, depth) else {
            let bio = self.env.requests.store_bio(*io, self.now);
            return self.wait_for_tag(Waiter { bio, queue, depth });
        };
        let sync = self.env.device.is_sync(io.op, io.flags);
        let id = self.env.requests.add_alone(io, self.now, sync, queue, Instant::ZERO);
        let id = id.expect("there are at least as many slots as tags");
        self.state[id.index()] = State { tag, ..State::default() };
        if plugged {
            self.add_to_plug(id, context);
        } else {
            self.insert_mq(id, queue, sync);
        }
        self.outputs.push(Output::Accepted { io: io.id });
    }

    /// [`Stack::check`] has nothing against the I/O, it has the segments that it says, and is one request of at most `most`
    /// sectors if it has data (multi-queue profile).
    #[inline(always)]
    pub(super) fn fits_alone(&self, io: &Io, most: Sectors) -> bool {
        let device = &self.env.device;
        let sectors = io.sectors.0;
        let most = match io.op {
            Op::Read | Op::Write => most.0,
            Op::Flush => u64::MAX,
            Op::Discard | Op::WriteZeroes => return false,
        };
        let (chunk, segments) = (device.chunk_sectors.0, u64::from(io.segments));
        let end = io.start.0.checked_add(sectors);
        (sectors > 0 || io.op == Op::Flush)
            && sectors <= most
            && end.is_some_and(|end| end <= device.capacity.0)
            && segments.wrapping_sub(1) < sectors.clamp(1, 1 << 30)
            && io.segments <= device.max_segments
            && (chunk == 0 || io.op == Op::Flush || sectors <= chunk - io.start.0 % chunk)
            && !io.flags.any(Flags::BARRIER)
            && io.group.index() < self.env.groups.len()
            && (io.proc == ProcId::NONE || self.check_proc(io.proc).is_ok())
    }

    fn check(&self, io: &Io) -> Result<(), StackError> {
        let device = &self.env.device;
        let empty = io.sectors.0 == 0 && io.op != Op::Flush;
        let end = io.start.0.checked_add(io.sectors.0);
        let beyond = end.is_none_or(|end| end > device.capacity.0);
        let unsupported = (io.op == Op::Discard && device.max_discard_sectors.0 == 0)
            || (self.is_mq() && io.flags.any(Flags::BARRIER));
        let too_large = !self.is_mq()
            && io.op != Op::Discard
            && (io.sectors > device.max_sectors || io.segments > device.max_segments);
        if empty || beyond || unsupported || too_large {
            return Err(StackError::BadIo(io.id));
        }
        if io.group.index() >= self.env.groups.len() {
            return Err(StackError::NoSuchGroup(io.group));
        }
        if io.proc == ProcId::NONE { Ok(()) } else { self.check_proc(io.proc) }
    }

    /// In whose context the bio goes on: its submitter's, until gate 1 holds it.
    pub(super) fn context(&self, bio: BioId) -> Context {
        let b = self.env.requests.bio_ref(bio);
        let accepted = match b.account {
            None => b.accepted,
            Some(account) => self.splits.accepted(account),
        };
        if accepted { Context::Worker } else { Context::Proc(b.io.proc) }
    }

    /// Whoever carries the bio has to wait: its plug, or the legacy device plug, must not hold anything
    /// back.
    pub(super) fn carrier_sleeps(&mut self, bio: BioId) {
        self.flush_plug(self.context(bio), true);
        self.legacy_unplug_for_sleeper();
    }

    /// A bio goes on at `stage`.
    pub(super) fn enter(&mut self, bio: BioId, stage: PathStep) {
        let mut stage = stage;
        loop {
            match stage {
                PathStep::Gate1(from) => {
                    if self.gate(bio, from, Gate::BeforeMerge) {
                        self.worker.done_with(bio);
                        self.accept(bio);
                        return;
                    }
                    let b = self.env.requests.bio_mut(bio);
                    b.entered = self.now;
                    let (io, first) = (b.io, b.account.is_none());
                    self.count(&io, first);
                    stage = PathStep::Merge;
                }
                PathStep::Merge => {
                    if self.is_changing() {
                        return self.freeze(bio, PathStep::Merge);
                    }
                    if self.is_mq() {
                        self.split(bio);
                    }
                    let io = *self.env.requests.bio(bio);
                    if self.try_merge(bio, &io) {
                        return;
                    }
                    stage = PathStep::Gate2(0);
                }
                PathStep::Gate2(from) => {
                    if self.gate(bio, from, Gate::BeforeTag) {
                        return self.carrier_sleeps(bio);
                    }
                    self.env.requests.bio_mut(bio).alloc = self.now;
                    stage = PathStep::Tag;
                }
                PathStep::Tag => {
                    if self.is_changing() {
                        return self.freeze(bio, PathStep::Tag);
                    }
                    if self.is_mq() {
                        let io = *self.env.requests.bio(bio);
                        self.get_tag(bio, &io);
                    } else {
                        self.get_legacy_request(bio);
                    }
                    return;
                }
            }
        }
    }

    /// Asks the controllers of `gate` from number `from` on; true if one holds the bio.
    fn gate(&mut self, bio: BioId, from: usize, gate: Gate) -> bool {
        for i in from..self.controllers.len() {
            let c = &mut self.controllers[i];
            if c.entry.gate != gate {
                continue;
            }
            if c.stage.submit(self.now, bio, &mut self.env.cx()) == Verdict::Hold {
                let event = Event::Held { bio: bio.0.slot, stage: i as u8 };
                self.env.trace.emit(self.now, event);
                return true;
            }
        }
        false
    }

    /// Lets one bio that gate 2 held go on; true if there was one.
    pub(super) fn release_held(&mut self) -> bool {
        for i in 0..self.controllers.len() {
            let c = &mut self.controllers[i];
            if c.entry.gate != Gate::BeforeTag {
                continue;
            }
            if let Some(bio) = c.release(self.ending, self.now, &mut self.env.cx()) {
                self.env.trace.emit(self.now, Event::Released { bio: bio.0.slot });
                self.agenda.reenter.push_back((bio, PathStep::Gate2(i + 1)));
                return true;
            }
        }
        false
    }

    /// The largest request to build: the device's limit, or what the scheduler makes of it.
    pub(super) fn max_sectors(&self) -> Sectors {
        let limit = self.env.device.max_sectors;
        self.scheduler.max_sectors(limit).min(limit).max(Sectors(1))
    }

    /// Cuts a bio above the limits: this piece goes on marked NOMERGE, the rest waits in the account
    /// until the piece has passed (specs/blk-mq-and-noop.md section 2).
    fn split(&mut self, bio: BioId) {
        let io = *self.env.requests.bio(bio);
        let piece = first_piece(&io, &self.env.device, self.max_sectors());
        if piece >= io.sectors {
            if io.segments > self.env.device.max_segments {
                // As many as its sectors make of segments of that size, which fits.
                self.env.requests.bio_mut(bio).io.segments = segments(&io, io.sectors);
            }
            return;
        }
        let b = self.env.requests.bio_ref(bio);
        let account = b.account.unwrap_or_else(|| self.splits.open(io.id, b.accepted));
        self.splits.set_rest(account, rest_behind(&io, piece));
        let stored = self.env.requests.bio_mut(bio);
        stored.account = Some(account);
        stored.io.sectors = piece;
        stored.io.segments = segments(&io, piece);
        stored.io.flags |= Flags::NOMERGE;
    }

    /// The bio joined a request or has one of its own: the rest of a split I/O follows, or the
    /// submitter, or the worker, goes on.
    pub(super) fn passed(&mut self, bio: BioId) {
        let account = self.env.requests.bio_ref(bio).account;
        let Some(rest) = account.and_then(|account| self.splits.next_piece(account)) else {
            self.worker.done_with(bio);
            return self.accept(bio);
        };
        let next = self.env.requests.store_bio(rest, self.now);
        self.env.requests.bio_mut(next).account = account;
        self.worker.follow(bio, next);
        self.agenda.reenter.push_front((next, PathStep::Gate1(0)));
    }

    fn accept(&mut self, bio: BioId) {
        let b = self.env.requests.bio_mut(bio);
        let (id, proc) = (b.io.id, b.io.proc);
        let before = match b.account {
            None => core::mem::replace(&mut b.accepted, true),
            Some(account) => self.splits.accept(account),
        };
        if before {
            return;
        }
        self.outputs.push(Output::Accepted { io: id });
        if self.controllers.is_empty() || self.ending {
            return;
        }
        let now = self.now;
        let mut cx = self.env.cx();
        let delay = self.controllers.iter_mut().map(|c| c.stage.delay(now, proc, &mut cx)).max();
        if let Some(delay) = delay.filter(|d| d.0 > 0) {
            self.outputs.push(Output::Delay { proc, until: now + delay });
        }
    }

    #[inline]
    pub(super) fn depth_limit(&mut self, io: &Io) -> Depth {
        if self.ending {
            return Depth::Usual;
        }
        self.scheduler.depth_limit(self.now, io, &mut self.env.cx())
    }

    /// A tag is there: the bio becomes a request.
    pub(super) fn start(&mut self, bio: BioId, queue: QueueId, tag: Tag) {
        let b = self.env.requests.bio_ref(bio);
        let (alloc, flags) = (b.alloc, b.io.flags);
        let sync = self.env.device.is_sync(b.io.op, flags);
        let id = self.env.requests.add(bio, alloc, self.now, sync, queue);
        let id = id.expect("there are at least as many slots as tags");
        self.state[id.index()] = State { tag, ..State::default() };
        if self.is_mq() && flags.any(Flags::PREFLUSH | Flags::FUA) {
            self.begin_sequence(id);
        } else if !self.is_mq() {
            self.insert_legacy(id);
        } else {
            let context = self.context(bio);
            match self.plug_of(context).is_some_and(|p| p.open) && !self.ending {
                true => self.add_to_plug(id, context),
                false => self.insert_mq(id, queue, sync),
            }
        }
        self.passed(bio);
    }

    /// Hands a request to the scheduler; it may be absorbed by one that is there.
    pub(super) fn give_to_scheduler(&mut self, id: ReqId, at: At) -> crate::sched::Run {
        self.give_inlined(id, at)
    }

    /// The same, inlined for the way that most take.
    #[inline(always)]
    pub(super) fn give_inlined(&mut self, id: ReqId, at: At) -> crate::sched::Run {
        self.state[id.index()].scheduled = true;
        self.insert(id, at, true)
    }

    /// Inserts a request that the scheduler does not know yet (`fresh`), or that it has kept apart.
    #[inline(always)]
    fn insert(&mut self, id: ReqId, at: At, fresh: bool) -> crate::sched::Run {
        let now = self.now;
        let mut cx = self.env.cx();
        if fresh {
            self.scheduler.prepare(now, id, &mut cx);
        }
        let open = match self.entry.search {
            Search::Elevator if at == At::Tail => self.scheduler.open(id, &cx),
            Search::Elevator | Search::Own => Open::Closed,
        };
        // Where the scheduler holds nothing there is nobody to meet.
        if open == Open::Full && self.held > 0 && cx.device.profile == Profile::MultiQueue {
            if self.merge_at_insertion(id) {
                return crate::sched::Run::Usual;
            }
            cx = self.env.cx();
        }
        let run = self.scheduler.insert(now, id, at, &mut cx);
        self.held += 1;
        let state = &mut self.state[id.index()];
        state.place = RequestPlace::Queued;
        let waits = super::merge::waits(state);
        let r = &self.env.requests[id];
        if open != Open::Closed && waits && crate::merge::mergeable(r) {
            self.elevator.add(id.slot(), r.end());
        }
        if self.env.trace.is_on() {
            let &Request { proc, start, sectors, .. } = r;
            self.env.trace.emit(now, Event::Inserted { req: id.slot(), proc, start, sectors });
        }
        run
    }

    /// Asks the scheduler for a request; in a hurry for any.
    #[inline(always)]
    pub(super) fn ask_scheduler(&mut self, queue: QueueId) -> Dispatch {
        // `none` holds nothing back, and each of its hardware queues is asked for its own.
        let answer = if self.hurries() && !self.entry.direct {
            self.drain_one().map_or(Dispatch::Empty, Dispatch::Issue)
        } else {
            let now = self.now;
            // Each turn but the last puts requests back, and none twice.
            loop {
                let mut cx = self.env.cx();
                let answer = self.scheduler.dispatch(now, queue, &mut cx);
                take_closed(&mut cx, &mut self.elevator);
                if answer != Dispatch::Idle {
                    break answer;
                }
                let Some(first) = self.scheduler.reinsert(now, &mut cx) else { break answer };
                self.reinsert(first);
            }
        };
        if let Dispatch::Issue(id) = answer {
            self.counters.chosen += u64::from(self.held > 1);
            self.left_scheduler(id);
        }
        answer
    }

    /// A request of those that the scheduler holds, idling and limits ignored.
    #[inline(never)]
    pub(super) fn drain_one(&mut self) -> Option<ReqId> {
        let now = self.now;
        loop {
            let mut cx = self.env.cx();
            let next = self.scheduler.drain(now, &mut cx);
            take_closed(&mut cx, &mut self.elevator);
            if next.is_some() {
                return next;
            }
            let first = self.scheduler.reinsert(now, &mut cx)?;
            self.reinsert(first);
        }
    }

    /// Inserts what the scheduler has kept apart, of which this is the first.
    #[inline(never)]
    fn reinsert(&mut self, first: ReqId) {
        let mut next = Some(first);
        while let Some(id) = next {
            self.held -= 1;
            self.state[id.index()].place = RequestPlace::Nowhere;
            self.insert(id, At::Tail, false);
            next = self.scheduler.reinsert(self.now, &mut self.env.cx());
        }
    }

    #[inline(always)]
    pub(super) fn left_scheduler(&mut self, id: ReqId) {
        let state = &mut self.state[id.index()];
        assert!(state.place == RequestPlace::Queued, "a scheduler issues what it was given, once");
        state.place = RequestPlace::Nowhere;
        state.started = true;
        self.held -= 1;
        if self.entry.search == Search::Elevator {
            self.elevator.remove(id.slot());
        }
    }

    /// Hands a request to the device, of whose queue it is. The caller has checked the room.
    pub(super) fn issue(&mut self, id: ReqId) -> QueueId {
        self.issue_inlined(id)
    }

    /// The same, inlined for the way that most take.
    #[inline(always)]
    pub(super) fn issue_inlined(&mut self, id: ReqId) -> QueueId {
        let now = self.now;
        let r = self.env.requests.get_mut(id);
        r.issued = now;
        let (queue, proc, op, start, sectors) = (r.queue, r.proc, r.op, r.start, r.sectors);
        let state = &mut self.state[id.index()];
        debug_assert!(state.place != RequestPlace::Device);
        state.place = RequestPlace::Device;
        state.started = true;
        let (own, flush) = (state.own_command(), state.flush_command);
        self.room.take(op, &self.env.device);
        self.counters.issued += 1;
        if flush && self.scheduler.hears_flushes() {
            self.scheduler.flush(now, FlushCommand::Began, &mut self.env.cx());
        }
        if !own {
            for c in &mut self.controllers {
                c.stage.issue(now, id, &mut self.env.cx());
            }
        }
        if self.env.trace.is_on() {
            let req = id.slot();
            self.env.trace.emit(now, Event::Issued { req, queue, proc, op, start, sectors });
        }
        self.outputs.push(Output::Issue { req: id, queue });
        queue
    }

    #[inline(always)]
    fn left_device(&mut self, id: ReqId, op: Op) {
        self.room.give_back(op, &self.env.device);
        let state = &mut self.state[id.index()];
        state.place = RequestPlace::Nowhere;
        if state.flush_command && self.scheduler.hears_flushes() {
            self.scheduler.flush(self.now, FlushCommand::Ended, &mut self.env.cx());
        }
    }

    /// The device has served a request, or failed to.
    #[inline(always)]
    pub(super) fn done(&mut self, id: ReqId, error: Option<IoError>) -> Result<(), StackError> {
        let Some(r) = self.env.requests.get(id) else { return Err(StackError::StaleRequest(id)) };
        let state = self.state[id.index()];
        if state.place != RequestPlace::Device {
            return Err(StackError::StaleRequest(id));
        }
        let (op, queue, sync, cpu) = (r.op, r.queue, r.sync, r.cpu);
        let now = self.now;
        self.counters.completed += 1;
        self.env.trace.emit(now, Event::Done { req: id.slot() });
        self.left_device(id, op);
        if !state.scheduled && !self.entry.direct {
            self.scheduler.complete_bypassed(now, id, &mut self.env.cx());
        }
        if state.flush_command {
            self.env.requests.remove(id);
            self.flush_command_done(error);
        } else {
            if state.scheduled {
                self.scheduler.complete(now, id, &mut self.env.cx());
            }
            if state.steps != 0 {
                self.data_step_done(id, error);
            } else if !self.barrier_exists() || !self.barrier_step_done(id, error) {
                self.finish_of(id, Holder { queue, sync, cpu, tag: state.tag }, error);
            }
        }
        if self.is_mq() {
            self.restart_queues(queue);
            if self.hurries() {
                self.ask_all_runs();
            }
        } else {
            self.ask_legacy_run();
        }
        Ok(())
    }

    /// The request is over, flush steps included: controllers hear of it, its bios are finished and its
    /// tag is free.
    pub(super) fn finish(&mut self, id: ReqId, error: Option<IoError>) {
        self.finish_of(id, self.holder(id), error);
    }

    #[inline(always)]
    fn finish_of(&mut self, id: ReqId, holder: Holder, error: Option<IoError>) {
        let now = self.now;
        for c in &mut self.controllers {
            c.stage.complete(now, id, &mut self.env.cx());
        }
        let mut at = self.env.requests.remove_keeping_bios(id);
        while let Some(bio) = at {
            let (io, account, next) = self.env.requests.end_bio(bio);
            at = next;
            self.finish_bio(io, account, error);
        }
        self.free_tag(holder);
    }

    /// Facts that free a request's tag when it is gone.
    #[inline(always)]
    pub(super) fn holder(&self, id: ReqId) -> Holder {
        let r = &self.env.requests[id];
        Holder { queue: r.queue, sync: r.sync, cpu: r.cpu, tag: self.state[id.index()].tag }
    }

    /// A tag or pool place is free again.
    #[inline(always)]
    pub(super) fn free_tag(&mut self, holder: Holder) {
        let Holder { queue, sync, cpu, tag } = holder;
        if self.is_mq() {
            self.free_scheduler_tag(queue, cpu, tag);
        } else {
            self.free_legacy_request(sync);
        }
    }

    #[inline(always)]
    fn finish_bio(&mut self, io: IoId, account: Option<Handle>, error: Option<IoError>) {
        let Some(account) = account else { return self.finished(io, error) };
        if let Some((id, error)) = self.splits.piece_finished(account, error) {
            self.finished(id, error);
        }
    }

    #[inline(always)]
    fn finished(&mut self, io: IoId, error: Option<IoError>) {
        self.counters.finished += 1;
        self.env.trace.emit(self.now, Event::Finished { io: io.0 });
        self.outputs.push(Output::Finished { io, result: error.map_or(Ok(()), Err) });
    }

    /// The device gives a request back unserved: it returns to the head of the scheduler.
    pub(super) fn requeue(&mut self, id: ReqId) -> Result<(), StackError> {
        self.check_issued(id)?;
        let now = self.now;
        self.env.trace.emit(now, Event::Requeued { req: id.slot() });
        self.left_device(id, self.env.requests[id].op);
        let state = self.state[id.index()];
        if !state.own_command() {
            for c in &mut self.controllers {
                c.stage.requeue(now, id, &mut self.env.cx());
            }
        }
        let in_sequence = state.steps != 0 || state.own_command();
        let flagged = self.env.requests[id].flags.any(Flags::FUA | Flags::PREFLUSH);
        if self.barrier_is_out() {
            // The device is empty but for this command; nothing may pass it.
            self.issue(id);
        } else if in_sequence || flagged {
            self.residual_push(id, true);
        } else if self.barrier_waits() {
            self.requeue_before_barrier(id);
        } else {
            if state.scheduled {
                self.scheduler.requeue(now, id, &mut self.env.cx());
            }
            self.give_to_scheduler(id, At::Head);
        }
        self.ask_all_runs();
        Ok(())
    }

    pub(super) fn ask_all_runs(&mut self) {
        for q in 0..self.env.device.hw_queues {
            self.env.runs.ask(QueueId(q));
        }
    }
}
