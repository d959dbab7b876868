//! The way of an I/O that meets nobody where there is no scheduler: to the device in one step, and back in one. What it
//! leaves behind is what the whole path would leave; only the queue of outputs has no part in it.

use super::*;
use crate::request::Flags;
use crate::trace::Event;

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
        let sequence = io.op == Op::Flush || io.flags.any(Flags::PREFLUSH | Flags::FUA);
        if sequence || !self.room() {
            return None;
        }
        let id = self.take_in(now, io)?;
        let queue = self.hand_over(id);
        self.env.runs.sent(queue, true);
        Some(id)
    }

    /// What [`Input::Submit`] does with a flush that joins others which wait for the next command: it is accepted. False:
    /// it may begin one, or has more to do, and nothing was done.
    #[inline]
    pub fn pass_flush(&mut self, now: Instant, io: &Io) -> bool {
        let pure = io.op == Op::Flush && io.sectors.0 == 0 && io.flags.any(Flags::PREFLUSH);
        if !pure || !self.env.device.write_cache || !self.flush.next_is_to_come() {
            return false;
        }
        let id = self.take_in(now, io);
        id.is_some_and(|id| {
            self.begin_sequence(id);
            true
        })
    }

    /// The request of an I/O that meets nobody on its way to a tag.
    #[inline(always)]
    fn take_in(&mut self, now: Instant, io: &Io) -> Option<ReqId> {
        if !self.rests_beside_flushes(now) || self.ending || !self.prio_classes.is_empty() {
            return None;
        }
        let io =
            Io { segments: io.segments.clamp(1, io.sectors.0.clamp(1, 1 << 30) as u32), ..*io };
        if self.plugged(io.proc) || self.check(&io).is_err() || !self.is_plain(&io) {
            return None;
        }
        let tag = self.tag_sets[0].take(io.cpu, None)?;
        self.advance(now);
        self.queued(&io);
        self.count(&io, true);
        let bio = self.env.requests.store_bio(io, now);
        self.env.requests.bio_mut(bio).accepted = true;
        let queue = self.env.device.queue_of(io.cpu);
        let sync = self.env.device.is_sync(io.op, io.flags);
        let id = self.env.requests.add(bio, now, now, sync, queue);
        let id = id.expect("there are at least as many slots as tags");
        self.state[id.index()] = State { tag, ..State::default() };
        Some(id)
    }

    /// What [`Input::Submit`] alone does with an I/O outside of plug sections, as [`Stack::pass`].
    #[inline]
    pub fn pass_alone(&mut self, now: Instant, io: &Io) -> Option<ReqId> {
        let device = &self.env.device;
        let (queue, sync) = (device.queue_of(io.cpu), device.is_sync(io.op, io.flags));
        // Of a queue that was full it goes behind those that wait, as `Stack::insert_mq` has it.
        if self.env.runs.busy(queue) && !(sync && device.hw_queues > 1) {
            return None;
        }
        self.pass(now, io)
    }

    /// What [`Input::Done`] does with a request that was served and is one whole I/O, which is finished. `None`: somebody
    /// may wait for it, and nothing was done.
    #[inline]
    pub fn pass_back(&mut self, now: Instant, id: ReqId) -> Option<IoId> {
        if !self.rests_beside_flushes(now) || self.ending || self.room.starved || self.room.alone {
            return None;
        }
        let r = self.env.requests.get(id)?;
        let (op, queue, cpu, bio) = (r.op, r.queue, r.cpu, r.first_io?);
        let State { place, scheduled, steps, tag, .. } = self.state[id.index()];
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
        self.advance(now);
        self.counters.completed += 1;
        self.env.trace.emit(now, Event::Done { req: id.slot() });
        self.room.give_back(op, &self.env.device);
        self.state[id.index()].place = RequestPlace::Nowhere;
        self.env.requests.remove_keeping_bios(id);
        let io = self.env.requests.end_bio(bio).0;
        self.free_scheduler_tag(queue, cpu, tag);
        self.counters.finished += 1;
        self.env.trace.emit(now, Event::Finished { io: io.0 });
        Some(io)
    }
}
