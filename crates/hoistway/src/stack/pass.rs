//! The way of an I/O that meets nobody where there is no scheduler: to the device in one step, and back in one. What it
//! leaves behind is what the whole path would leave; only the queue of outputs has no part in it.

use super::*;
use crate::request::Flags;
use crate::trace::Event;
use crate::unit::Sectors;

impl Stack {
    /// Nothing waits here, and nothing but the flush machine and merging could hold an I/O up: a plug section of one
    /// I/O needs not be opened before [`Stack::pass`] is asked.
    pub fn passes(&self) -> bool {
        self.entry.direct && self.controllers.is_empty() && self.is_mq()
    }

    /// What [`Input::Plug`], [`Input::Submit`] and [`Input::Unplug`] do with the only I/O of a plug section: it is
    /// accepted, and this request is to be handed to the device. `None`: it may meet somebody, and nothing was done.
    #[inline]
    pub fn pass(&mut self, now: Instant, io: &Io) -> Option<ReqId> {
        self.pass_behind(now, io, false)
    }

    /// What [`Input::Submit`] alone does with an I/O outside of plug sections, as [`Stack::pass`].
    #[inline]
    pub fn pass_alone(&mut self, now: Instant, io: &Io) -> Option<ReqId> {
        self.pass_behind(now, io, true)
    }

    /// `behind`: of a queue that was full the I/O goes behind those that wait, as `Stack::insert_mq` has it.
    #[inline(always)]
    fn pass_behind(&mut self, now: Instant, io: &Io, behind: bool) -> Option<ReqId> {
        if !self.clear_at(now) {
            return None;
        }
        let device = &self.env.device;
        let (queue, sync) = (device.queue_of(io.cpu), device.is_sync(io.op, io.flags));
        if behind && self.env.runs.busy(queue) && !(sync && device.hw_queues > 1) {
            return None;
        }
        if io.op == Op::Flush || io.flags.any(Flags::PREFLUSH | Flags::FUA) || !self.room() {
            return None;
        }
        let state = State { place: RequestPlace::Device, started: true, ..State::default() };
        let id = self.take_in(now, io, (queue, sync), state, now)?;
        self.room.take(io.op, &self.env.device);
        self.counters.issued += 1;
        self.env.runs.sent(queue, true);
        if self.env.trace.is_on() {
            self.trace_queued(io);
            let Io { proc, op, start, sectors, .. } = *io;
            let event = Event::Issued { req: id.slot(), queue, proc, op, start, sectors };
            self.env.trace.emit(now, event);
        }
        Some(id)
    }

    /// What [`Input::Submit`] does with a flush that joins others which wait for the next command: it is accepted. False:
    /// it may begin one, or has more to do, and nothing was done.
    #[inline]
    pub fn pass_flush(&mut self, now: Instant, io: &Io) -> bool {
        let pure = io.op == Op::Flush && io.sectors.0 == 0 && io.flags.any(Flags::PREFLUSH);
        if !self.clear_at(now)
            || !pure
            || !self.env.device.write_cache
            || !self.flush.next_is_to_come()
        {
            return false;
        }
        let io = Io { segments: 1, ..*io };
        let device = &self.env.device;
        let way = (device.queue_of(io.cpu), device.is_sync(io.op, io.flags));
        let id = self.take_in(now, &io, way, State::default(), Instant::ZERO);
        id.is_some_and(|id| {
            self.trace_queued(&io);
            self.begin_sequence(id);
            true
        })
    }

    /// The request of an I/O that meets nobody on its way to a tag, for the way is clear: with queue, whether it is sync, and
    /// when it is issued.
    #[inline(always)]
    fn take_in(
        &mut self,
        now: Instant,
        io: &Io,
        (queue, sync): (QueueId, bool),
        state: State,
        issued: Instant,
    ) -> Option<ReqId> {
        // The scheduler, there being none, has no say in the size.
        let most = self.env.device.max_sectors.max(Sectors(1));
        if self.plugged(io.proc) || !self.fits_alone(io, most) {
            return None;
        }
        let tag = self.tag_sets[0].take(io.cpu, None)?;
        // No timer is due.
        self.check_turn(now);
        self.now = now;
        self.counters.submitted += 1;
        self.count(io, true);
        let id = self.env.requests.add_alone(io, now, sync, queue, issued);
        let id = id.expect("there are at least as many slots as tags");
        self.state[id.index()] = State { tag, ..state };
        Some(id)
    }

    /// What [`Input::Done`] does with a request that was served and is one whole I/O, which is finished. `None`: somebody
    /// may wait for it, and nothing was done.
    #[inline]
    pub fn pass_back(&mut self, now: Instant, id: ReqId) -> Option<IoId> {
        if !self.clear_at(now) || self.room.starved || self.room.alone {
            return None;
        }
        let r = self.env.requests.get(id)?;
        let (queue, cpu, bio) = (r.queue, r.cpu, r.first_io?);
        let state = &mut self.state[id.index()];
        let State { place, scheduled, steps, tag, .. } = *state;
        if r.last_io != Some(bio)
            || place != RequestPlace::Device
            || scheduled
            || steps != 0
            || self.env.requests.bio_ref(bio).account.is_some()
            || self.queues[queue].restart
            || self.tag_sets[0].has_waiters()
        {
            return None;
        }
        // Whoever runs a queue now finds nothing.
        debug_assert!(self.queues.iter().all(|q| q.residual_tail() == NIL));
        state.place = RequestPlace::Nowhere;
        // No timer is due.
        self.check_turn(now);
        self.now = now;
        self.counters.completed += 1;
        self.counters.finished += 1;
        // No command that runs alone is with the device (`room.alone` above), so this is none.
        self.room.used -= 1;
        self.env.requests.remove_keeping_bios(id);
        let io = self.env.requests.end_bio(bio).0;
        self.tag_sets[0].free_unawaited(cpu, tag);
        if self.env.trace.is_on() {
            self.env.trace.emit(now, Event::Done { req: id.slot() });
            self.env.trace.emit(now, Event::Finished { io: io.0 });
        }
        Some(io)
    }
}
