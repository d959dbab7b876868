//! The loop around a device: one thread owns stack and backend, and waits for everything at once.
//!
//! A turn: read the clock, take messages and sessions' sockets that have something, let the core work off
//! what is due, hand out results, start the commands of the turn, wait. Sessions are clients whose sockets
//! live on this thread, so that a request needs no hop between threads.

use super::core::{Core, Finished, IoRequest, ReplyTo};
use super::pending::{Reply, Slot, Window};
use super::ring::{Inbox, Message};
use super::settings::SocketWay;
use super::streams::Receiving;
use crate::system::thread;
use crate::system::timespec;
use crate::system::{Buffer, SocketRing};
use hoistway::{Flags, GroupId, Instant, IoPrio, Nanos, Op};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A client on the owner thread.
pub(crate) trait Session: Send {
    /// Its socket.
    fn fd(&self) -> BorrowedFd<'_>;

    /// It has arrived under that number, which is what [`ReplyTo::Session`] must say.
    fn arrived(&mut self, session: u64, core: &mut Core);

    /// Its socket can be read, or it asked to go on. `scratch` is for whoever is being served; without, the ring
    /// receives for it, and it goes on with what it has.
    fn read(&mut self, core: &mut Core, scratch: Option<&mut [u8]>);

    /// Its socket, if the ring may receive and send there.
    fn stream(&mut self) -> Option<&mut dyn Stream> {
        None
    }

    /// One of its I/Os is over.
    fn finished(&mut self, core: &mut Core, cookie: u64, io: Finished);

    /// It holds buffers, and its client has neither sent nor taken a byte since that instant.
    fn holds_since(&self) -> Option<Instant> {
        None
    }

    /// The other side is gone for good: nothing can be read or sent any more.
    fn hung_up(&mut self);

    /// The end of a turn in which it was touched: send what is to be sent (by the ring, if there is one and it is
    /// a stream), say how it goes on.
    fn settle(&mut self, core: &mut Core, ring: Option<&mut SocketRing>) -> SessionState;

    /// Take no further requests; what was taken is still answered.
    fn close_down(&mut self);

    /// It is being removed.
    fn left(&mut self, core: &mut Core);
}

/// A session whose bytes the ring receives and sends.
pub(crate) trait Stream {
    /// What is received until `end_batch` belongs together.
    fn begin_batch(&mut self, core: &mut Core);

    /// No more was received in this turn.
    fn end_batch(&mut self, core: &mut Core);

    /// Bytes came; none: the other side sends no more.
    fn received(&mut self, core: &mut Core, bytes: &[u8]);

    /// So much was sent of what it gave to the ring; `None`: all, unless it has heard of less.
    fn sent(&mut self, core: &mut Core, result: Option<Result<usize, Errno>>);

    /// What is to come has a place of its own: it wants to read its socket by itself.
    fn reads_by_itself(&self) -> bool;
}

/// How a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// It waits for its socket, for I/O, or both.
    Waits {
        /// It wants to read.
        read: bool,
        /// It wants to write.
        write: bool,
    },
    /// It has work that waits for nothing: call `read` in the next turn.
    Ready,
    /// It is over.
    Gone,
}

pub(crate) struct Reactor {
    pub(super) core: Core,
    pub(super) inbox: Inbox,
    pub(super) epoll: OwnedFd,
    /// How streams are received and sent, if the kernel can and it was not forbidden. Its entries name sockets and
    /// memory of sessions: it is submitted before one of them goes.
    pub(super) ring: Option<SocketRing>,
    by_ring: bool,
    pub(super) sessions: Vec<Option<SessionSlot>>,
    vacant: Vec<usize>,
    /// Slots that were touched in this turn.
    touched: Vec<usize>,
    /// Slots that want to go on in the next turn.
    ready: VecDeque<u64>,
    serial: u32,
    scratch: Vec<u8>,
    /// The buffers were used up in the last turn; who holds some without moving is looked for then.
    tight: Option<Instant>,
    stop: Shutdown,
    stop_limit: Nanos,
}

pub(super) struct SessionSlot {
    pub session: Box<dyn Session>,
    pub serial: u32,
    /// What epoll looks for; `None`: it does not know the socket.
    pub interest: Option<EventFlags>,
    /// What the ring does.
    pub receiving: Receiving,
    touched: bool,
}

/// How far the end is.
#[derive(Debug)]
enum Shutdown {
    No,
    /// Since when sessions finish what they took; those that do not are cut off after a while.
    Draining(Instant),
    Flushing(Instant, Arc<Slot>),
}

/// How a device ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownResult {
    /// Everything that was taken is done, and flushed.
    Clean,
    /// The last flush failed.
    NotFlushed(Errno),
    /// The storage did not answer in time: that many I/Os are under way still.
    Stuck { unfinished: usize, limit: Nanos },
    /// The owner thread itself has not come back from a call.
    Blocked { limit: Nanos },
}

const WAKEUP: u64 = u64::MAX;
const BACKEND: u64 = u64::MAX - 1;
/// Messages per turn, so that a flood of them does not starve the sessions.
const MESSAGES: usize = 512;
/// Sockets that are looked at per turn; the others have their turn after them.
const EVENTS: usize = 256;
/// Bytes read from a socket at once.
const SCRATCH: usize = 256 << 10;
/// Bytes of buffers of all sessions together. Beyond it a session reads only to go on with what it has begun,
/// or one small request if it owes nothing.
pub(crate) const BUFFERS_MAX: usize = 512 << 20;
/// A session that holds buffers while they are used up, and moves nothing for so long, is cut off.
const STALL_LIMIT: Nanos = Nanos::secs(10);
/// How often such sessions are looked for.
const PATROL: Nanos = Nanos::secs(1);
/// How long sessions may take to read their last answers.
const DRAIN_LIMIT: Nanos = Nanos::secs(10);

impl Reactor {
    /// `stop_limit`: how long the end may take.
    pub fn new(
        core: Core,
        inbox: Inbox,
        sockets: SocketWay,
        stop_limit: Nanos,
    ) -> io::Result<Reactor> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, inbox.fd(), EventData::new_u64(WAKEUP), EventFlags::IN)?;
        epoll::add(&epoll, core.lookups_fd(), EventData::new_u64(BACKEND), EventFlags::IN)?;
        if let Some(fd) = core.backend().fd() {
            epoll::add(&epoll, fd, EventData::new_u64(BACKEND), EventFlags::IN)?;
        }
        Ok(Reactor {
            core,
            inbox,
            epoll,
            ring: None,
            by_ring: sockets == SocketWay::Best && SocketRing::works(),
            sessions: Vec::new(),
            vacant: Vec::new(),
            touched: Vec::new(),
            ready: VecDeque::new(),
            serial: 0,
            scratch: vec![0; SCRATCH],
            tight: None,
            stop: Shutdown::No,
            stop_limit,
        })
    }

    /// Runs until stopped.
    pub fn run(mut self) -> ShutdownResult {
        thread::precise_timers();
        thread::errors_instead_of_signals();
        if self.core.backend().is_instant() {
            thread::prefer_batches();
        }
        if self.by_ring {
            self.open_ring();
        }
        let mut sockets = Vec::with_capacity(EVENTS);
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.core.read_clock();
            if self.take_completions() {
                self.look(Some(Nanos::ZERO), &mut events, &mut sockets);
            }
            self.take_messages();
            for (number, flags) in sockets.drain(..) {
                self.socket(number, flags);
            }
            for _ in 0..self.ready.len() {
                let number = self.ready.pop_front().expect("counted just now");
                self.socket(number, EventFlags::IN);
            }
            self.core.turn();
            self.hand_out();
            self.settle_sessions();
            self.core.kick();
            self.watch_buffers();
            self.watch_carried();
            if let Some(end) = self.stopped() {
                if matches!(end, ShutdownResult::Stuck { .. }) {
                    self.core.give_up();
                }
                return end;
            }
            self.wait(&mut events, &mut sockets);
        }
    }

    fn take_messages(&mut self) {
        for _ in 0..MESSAGES {
            match self.inbox.next() {
                Some(message) => self.take(message),
                None => return,
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Submit(tenant, order) => match self.stop {
                Shutdown::No => self.core.submit(tenant, order),
                // Dropped, and answered thereby: else submitters that go on could put off the end.
                _ => drop(order),
            },
            Message::CloseTenant(tenant) => self.core.close_tenant(tenant),
            Message::Control(action) => action(&mut self.core),
            Message::Session(session) => self.slot(session),
            Message::Stop => {
                if matches!(self.stop, Shutdown::No) {
                    self.stop = Shutdown::Draining(self.core.now());
                    self.core.end();
                    for index in 0..self.sessions.len() {
                        if let Some(slot) = &mut self.sessions[index] {
                            slot.session.close_down();
                            self.touch(index);
                        }
                    }
                }
            }
        }
    }

    fn slot(&mut self, mut session: Box<dyn Session>) {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let number = number(index, self.serial);
        session.arrived(number, &mut self.core);
        let by_ring = self.ring.is_some() && session.stream().is_some();
        let interest = (!by_ring).then_some(EventFlags::IN);
        let data = EventData::new_u64(number);
        let added = interest.map(|interest| epoll::add(&self.epoll, session.fd(), data, interest));
        if added.is_some_and(|added| added.is_err()) {
            // Out of memory for one more socket: the client sees its connection closed.
            session.left(&mut self.core);
            self.vacant.push(index);
            return;
        }
        if !matches!(self.stop, Shutdown::No) {
            session.close_down();
        }
        let (serial, receiving) = (self.serial, Receiving::No);
        self.sessions[index] =
            Some(SessionSlot { session, serial, interest, receiving, touched: false });
        // It may have brought requests along.
        self.ready.push_back(number);
    }

    /// Something happened to a session's socket.
    fn socket(&mut self, number: u64, flags: EventFlags) {
        let (index, serial) = slot_of(number);
        let Some(slot) = &mut self.sessions[index] else { return };
        if slot.serial != serial {
            return;
        }
        if flags.contains(EventFlags::IN) {
            let by_itself = slot.receiving == Receiving::No;
            slot.session.read(&mut self.core, by_itself.then_some(&mut self.scratch[..]));
        } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            slot.session.hung_up();
        }
        self.touch(index);
    }

    pub(super) fn touch(&mut self, index: usize) {
        if let Some(slot) = &mut self.sessions[index]
            && !std::mem::replace(&mut slot.touched, true)
        {
            self.touched.push(index);
        }
    }

    fn hand_out(&mut self) {
        while let Some(io) = self.core.next_finished() {
            let (session, cookie) = match io.reply_to {
                ReplyTo::Session { session, cookie } => (session, cookie),
                ReplyTo::Caller(reply) => {
                    reply.finish(io.result, io.buffer);
                    continue;
                }
            };
            let (index, serial) = slot_of(session);
            match &mut self.sessions[index] {
                Some(slot) if slot.serial == serial => {
                    let io = Finished { reply_to: ReplyTo::Session { session, cookie }, ..io };
                    slot.session.finished(&mut self.core, cookie, io);
                    self.touch(index);
                }
                // It left meanwhile.
                _ => self.core.pool.give(io.buffer),
            }
        }
    }

    fn settle_sessions(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for index in touched.drain(..) {
            let Some(slot) = &mut self.sessions[index] else { continue };
            slot.touched = false;
            match slot.session.settle(&mut self.core, self.ring.as_mut()) {
                SessionState::Waits { read, write } => self.watch(index, read, write),
                SessionState::Ready => {
                    self.ready.push_back(number(index, slot.serial));
                    // First it goes on with what it has; else that could become more with each turn.
                    self.receive_by_ring(index, false);
                }
                SessionState::Gone => self.remove(index),
            }
        }
        self.touched = touched;
    }

    /// While the buffers are used up, cuts off who holds some for nothing; afterwards lets all go on.
    fn watch_buffers(&mut self) {
        let now = self.core.now();
        let full = self.core.pool.used() >= BUFFERS_MAX;
        match self.tight {
            None if full => self.tight = Some(now + PATROL),
            Some(at) if full && now >= at => {
                self.tight = Some(now + PATROL);
                for index in 0..self.sessions.len() {
                    let Some(slot) = &mut self.sessions[index] else { continue };
                    if slot.session.holds_since().is_some_and(|since| since + STALL_LIMIT <= now) {
                        slot.session.hung_up();
                        self.ready.push_back(number(index, slot.serial));
                    }
                }
            }
            Some(_) if !full => {
                self.tight = None;
                for (index, slot) in self.sessions.iter().enumerate() {
                    if let Some(slot) = slot {
                        self.ready.push_back(number(index, slot.serial));
                    }
                }
            }
            _ => {}
        }
    }

    /// Looks for what a session waits for: reading by the ring where it can, all else by epoll.
    fn watch(&mut self, index: usize, read: bool, write: bool) {
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, read);
        interest.set(EventFlags::OUT, write);
        let interest = match self.receive_by_ring(index, read) {
            Receiving::No => Some(interest),
            // It tells of the other side's end, too.
            _ => write.then_some(EventFlags::OUT),
        };
        let Some(slot) = &mut self.sessions[index] else { return };
        let before = std::mem::replace(&mut slot.interest, interest);
        if before == interest {
            return;
        }
        let (fd, data) = (slot.session.fd(), EventData::new_u64(number(index, slot.serial)));
        let done = match (before, interest) {
            (Some(_), Some(interest)) => epoll::modify(&self.epoll, fd, data, interest),
            (None, Some(interest)) => epoll::add(&self.epoll, fd, data, interest),
            (_, None) => epoll::delete(&self.epoll, fd),
        };
        if done.is_err() {
            // Out of memory for one more socket: the client sees its connection closed.
            slot.interest = None;
            slot.session.hung_up();
            self.ready.push_back(number(index, slot.serial));
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(mut slot) = self.sessions[index].take() {
            self.leave_ring(number(index, slot.serial), slot.receiving, slot.session.fd());
            slot.session.left(&mut self.core);
            if slot.interest.is_some() {
                // A descriptor may have been duplicated into a child process: closing is not enough.
                let _ = epoll::delete(&self.epoll, slot.session.fd());
            }
            self.vacant.push(index);
        }
    }

    /// Goes through the steps of the end; how it ended when it is reached.
    fn stopped(&mut self) -> Option<ShutdownResult> {
        if let (false, Some(ring)) = (matches!(self.stop, Shutdown::No), &mut self.ring) {
            // Answers that come below move those that are being sent.
            ring.submit();
        }
        if let Shutdown::Draining(since) = self.stop {
            if self.core.now() >= since + DRAIN_LIMIT.min(self.stop_limit) {
                (0..self.sessions.len()).for_each(|index| self.remove(index));
            }
            let empty = self.sessions.iter().all(Option::is_none);
            if empty && self.core.is_idle() {
                if self.core.facts.read_only {
                    return Some(ShutdownResult::Clean);
                }
                let slot = Slot::new(&Window::new(1));
                let tenant = self.core.add_tenant(GroupId::ROOT, IoPrio::NONE);
                self.core.submit(tenant, flush_order(&slot));
                self.stop = Shutdown::Flushing(since, slot);
            }
        }
        let since = match &self.stop {
            Shutdown::No => return None,
            Shutdown::Draining(since) => *since,
            Shutdown::Flushing(since, slot) => {
                let (since, slot) = (*since, Arc::clone(slot));
                // A device without a cache has flushed already.
                self.core.turn();
                self.hand_out();
                self.core.kick();
                match slot.take() {
                    Some(Ok(_)) => return Some(ShutdownResult::Clean),
                    Some(Err(e)) => {
                        let errno = Errno::from_io_error(&e).unwrap_or(Errno::IO);
                        return Some(ShutdownResult::NotFlushed(errno));
                    }
                    None => since,
                }
            }
        };
        let late = self.core.now() >= since + self.stop_limit;
        late.then(|| ShutdownResult::Stuck {
            unfinished: self.core.unfinished(),
            limit: self.stop_limit,
        })
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>, sockets: &mut Vec<(u64, EventFlags)>) {
        let mut wake = self.core.wake_at();
        if !self.ready.is_empty() {
            wake = Some(self.core.now());
        }
        for limit in [self.stop_deadline(), self.tight].into_iter().flatten() {
            wake = Some(wake.map_or(limit, |at| at.min(limit)));
        }
        let message = self.inbox.fall_asleep();
        if message.is_some() {
            // Look at the sockets, but do not sleep.
            wake = Some(self.core.now());
        }
        let limit = wake.map(|at| at.since(self.core.now()));
        let rung = match &mut self.ring {
            Some(ring) => {
                ring.wait(limit);
                // What rang is among the completions.
                false
            }
            None => self.look(limit, events, sockets),
        };
        self.inbox.awake(rung);
        if let Some(message) = message {
            self.take(message);
        }
    }

    /// When the end goes on although nothing happens.
    fn stop_deadline(&self) -> Option<Instant> {
        match self.stop {
            Shutdown::No => None,
            Shutdown::Draining(since) if self.sessions.iter().any(Option::is_some) => {
                Some(since + DRAIN_LIMIT.min(self.stop_limit))
            }
            Shutdown::Draining(since) | Shutdown::Flushing(since, _) => {
                Some(since + self.stop_limit)
            }
        }
    }

    /// Waits at most so long for a descriptor to have something; true if one of them is the eventfd of the ring.
    fn look(
        &self,
        limit: Option<Nanos>,
        events: &mut Vec<epoll::Event>,
        sockets: &mut Vec<(u64, EventFlags)>,
    ) -> bool {
        let timeout = limit.map(timespec);
        events.clear();
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll_wait on descriptors of our own: {error}"),
        }
        let mut rung = false;
        for event in events.iter() {
            match event.data.u64() {
                WAKEUP => rung = true,
                BACKEND => {}
                number => sockets.push((number, event.flags)),
            }
        }
        rung
    }
}

fn flush_order(slot: &Arc<Slot>) -> IoRequest {
    IoRequest {
        op: Op::Flush,
        offset: 0,
        len: 0,
        flags: Flags::PREFLUSH,
        buffer: Buffer::empty(),
        reply_to: ReplyTo::Caller(Reply::to(slot)),
    }
}

pub(super) fn number(index: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | index as u64
}

pub(super) fn slot_of(number: u64) -> (usize, u32) {
    ((number & 0xffff_ffff) as usize, (number >> 32) as u32)
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor").field("core", &self.core).finish_non_exhaustive()
    }
}
