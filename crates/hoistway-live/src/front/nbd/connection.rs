//! One client after the handshake: a guest on the owner thread of its export's device.
//!
//! Requests are taken from the socket in as large pieces as there are and submitted in one batch;
//! answers of a turn leave in one `sendmsg`. In steady state nothing is allocated.
//!
//! Memory is bounded: a connection that owes [`REQUESTS_MAX`] answers, or [`BYTES_MAX`] bytes, or finds
//! the buffers of the whole device beyond [`BUFFERS_MAX`], reads no further until it has sent some, or
//! there are some again; one that owes nothing may have one request of [`SMALL_MAX`] meanwhile. What it
//! had read by then waits in `carry`.

use super::handshake::{ALLOCATION_ID, Choice};
use super::lobby::Seat;
use super::wire::{self, HEADER, Head, Kind, PAYLOAD_MAX, Request, command_flags};
use crate::buffer::Buffer;
use crate::engine::{BUFFERS_MAX, Core, Guest, Label, Order, Origin, Standing, TenantId, WRITE};
use crate::front::View;
use crate::slots::Slots;
use hoistway::{Flags, Instant, Op};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Its place among the connections the server takes.
    _seat: Seat,
    view: View,
    choice: Choice,
    /// Until it has arrived.
    label: Option<Label>,
    guest: u64,
    tenant: Option<TenantId>,

    /// Bytes that were read and not looked at yet.
    carry: Vec<u8>,
    /// A write whose data is still coming.
    partial: Option<Partial>,
    /// Requests whose answer is owed, by slot.
    owed: Slots<Request>,
    /// Bytes of their buffers.
    bytes: usize,
    answers: VecDeque<Answer>,
    /// Bytes of the first answer that were sent.
    sent: usize,

    /// Parsing stopped for want of room, not of bytes.
    paused: bool,
    /// It stopped at a request that has to wait for buffers of the device.
    starved: bool,
    /// When a byte was last read from the socket or sent, or it arrived.
    moved: Instant,
    /// No further requests: the client said so, its side is closed, or we are stopping.
    closing: bool,
    /// The socket is of no use any more.
    dead: bool,
}

#[derive(Debug)]
struct Partial {
    request: Request,
    buffer: Buffer,
    filled: usize,
}

#[derive(Debug)]
struct Answer {
    head: Head,
    body: Buffer,
}

impl Answer {
    fn len(&self) -> usize {
        self.head.bytes().len() + self.body.len()
    }
}

/// Answers a connection may owe.
const REQUESTS_MAX: usize = 256;
/// Bytes of their buffers, beyond the first request.
const BYTES_MAX: usize = 64 << 20;
/// Largest data of the one request that may be taken although the buffers are used up.
const SMALL_MAX: u32 = 256 << 10;
/// Answers sent at once.
const SEND_BATCH: usize = 64;
/// Looks for the data of a write whose header has come.
const DATA_LOOKS: u32 = 4;
/// Extents per block status.
const EXTENTS_MAX: usize = 1024;

impl Connection {
    /// `carry`: what came behind the handshake.
    pub fn new(
        socket: OwnedFd,
        view: View,
        choice: Choice,
        carry: Vec<u8>,
        seat: Seat,
        label: Label,
    ) -> Connection {
        Connection {
            socket,
            _seat: seat,
            view,
            choice,
            label: Some(label),
            guest: 0,
            tenant: None,
            carry,
            partial: None,
            owed: Slots::with_capacity(64),
            bytes: 0,
            answers: VecDeque::with_capacity(64),
            sent: 0,
            paused: false,
            starved: false,
            moved: Instant::ZERO,
            closing: false,
            dead: false,
        }
    }

    fn willing(&self, core: &Core) -> bool {
        let owes = self.owes();
        let room = owes < REQUESTS_MAX && self.bytes < BYTES_MAX && core.pool.used() < BUFFERS_MAX;
        !self.closing && !self.dead && (owes == 0 || room)
    }

    /// Takes what there is from the socket, into the buffer of a waiting write first.
    fn receive(&mut self, core: &mut Core, scratch: &mut [u8]) {
        let carried = self.carry.len();
        debug_assert!(carried < HEADER || self.partial.is_none());
        scratch[..carried].copy_from_slice(&self.carry);
        self.carry.clear();
        let mut none = RecvAncillaryBuffer::default();
        let got = match &mut self.partial {
            None => {
                let mut into = [IoSliceMut::new(&mut scratch[carried..])];
                recvmsg(&self.socket, &mut into, &mut none, RecvFlags::DONTWAIT)
            }
            Some(partial) => {
                let rest = &mut partial.buffer[partial.filled..];
                let mut into = [IoSliceMut::new(rest), IoSliceMut::new(scratch)];
                recvmsg(&self.socket, &mut into, &mut none, RecvFlags::DONTWAIT)
            }
        };
        let got = match got {
            Ok(message) if message.bytes == 0 => return self.ended(),
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => {
                self.carry.extend_from_slice(&scratch[..carried]);
                return;
            }
            Err(_) => return self.dead = true,
        };
        self.moved = core.now();
        let mut unread = carried + got;
        if let Some(partial) = &mut self.partial {
            let took = got.min(partial.buffer.len() - partial.filled);
            partial.filled += took;
            unread = got - took;
        }
        self.look_at(core, &scratch[..unread]);
    }

    /// The client will send no more. What it has asked for is still answered, but a request that is
    /// only half there is no request.
    fn ended(&mut self) {
        self.closing = true;
    }

    /// Works off bytes; keeps what it cannot use yet.
    fn look_at(&mut self, core: &mut Core, bytes: &[u8]) {
        let Some(tenant) = self.tenant else { return };
        core.begin_batch(tenant);
        if self.partial.as_ref().is_some_and(|p| p.filled == p.buffer.len())
            && let Some(Partial { request, buffer, .. }) = self.partial.take()
        {
            self.write(core, request, buffer);
        }
        let mut at = 0;
        (self.paused, self.starved) = (false, false);
        while !self.closing && !self.dead && self.partial.is_none() {
            let Some(header) = bytes[at..].first_chunk::<HEADER>() else { break };
            if !self.willing(core) {
                self.paused = true;
                break;
            }
            let Some(request) = Request::decode(header) else {
                self.dead = true;
                break;
            };
            let data = matches!(request.kind, Kind::Read | Kind::Write);
            if data && request.len > SMALL_MAX && core.pool.used() >= BUFFERS_MAX {
                (self.paused, self.starved) = (true, true);
                break;
            }
            at += HEADER;
            at += self.take(core, request, &bytes[at..]);
        }
        core.end_batch(tenant);
        if !self.closing && !self.dead {
            self.carry.extend_from_slice(&bytes[at..]);
        }
    }

    /// Takes one request; returns how many bytes of its data were there.
    fn take(&mut self, core: &mut Core, request: Request, behind: &[u8]) -> usize {
        match request.kind {
            Kind::Write => {
                if request.len > PAYLOAD_MAX {
                    // Too much to swallow only to refuse it.
                    self.dead = true;
                    return 0;
                }
                let mut buffer = self.take_buffer(core, request.len as usize);
                let there = behind.len().min(buffer.len());
                buffer[..there].copy_from_slice(&behind[..there]);
                if there == buffer.len() {
                    self.write(core, request, buffer);
                } else {
                    self.partial = Some(Partial { request, buffer, filled: there });
                }
                return there;
            }
            Kind::Disconnect => self.closing = true,
            Kind::BlockStatus => self.block_status(core, request),
            Kind::Read if request.len > PAYLOAD_MAX => self.refuse(&request, Errno::INVAL),
            Kind::Other(_) => self.refuse(&request, Errno::INVAL),
            Kind::Read => {
                let buffer = self.take_buffer(core, request.len as usize);
                self.order(core, request, Op::Read, Flags::NONE, buffer);
            }
            Kind::Flush => {
                self.order(core, request, Op::Flush, Flags::PREFLUSH, Buffer::empty());
            }
            Kind::Trim if !self.view.trim => self.refuse(&request, Errno::OPNOTSUPP),
            Kind::Trim => self.order(core, request, Op::Discard, Flags::NONE, Buffer::empty()),
            Kind::WriteZeroes => {
                let hole = request.flags & command_flags::NO_HOLE == 0;
                self.order(core, request, self.view.zeroing(hole), WRITE, Buffer::empty());
            }
        }
        0
    }

    /// A write whose data is complete.
    fn write(&mut self, core: &mut Core, request: Request, buffer: Buffer) {
        self.order(core, request, Op::Write, WRITE, buffer);
    }

    fn order(&mut self, core: &mut Core, request: Request, op: Op, flags: Flags, buffer: Buffer) {
        let view = self.view;
        if let Some(errno) = self.refusal(&request, op) {
            self.give_buffer(core, buffer);
            return self.refuse(&request, errno);
        }
        let slot = self.owed.insert(request);
        let fua = request.flags & command_flags::FUA != 0 && op != Op::Read && op != Op::Flush;
        let order = Order {
            op,
            offset: if op == Op::Flush { 0 } else { view.offset + request.offset },
            len: if op == Op::Flush { 0 } else { request.len.into() },
            flags: if fua { flags | Flags::FUA } else { flags },
            buffer,
            origin: Origin::Guest { guest: self.guest, cookie: slot.into() },
        };
        if let Some(tenant) = self.tenant {
            core.submit(tenant, order);
        }
    }

    /// Why this request is not carried out.
    fn refusal(&self, request: &Request, op: Op) -> Option<Errno> {
        let end = request.offset.checked_add(request.len.into());
        let known = command_flags::FUA | command_flags::NO_HOLE | command_flags::DF;
        if op == Op::Flush {
            None
        } else if self.view.read_only && op != Op::Read {
            Some(Errno::PERM)
        } else if end.is_none_or(|end| end > self.view.size) {
            Some(if op == Op::Read { Errno::INVAL } else { Errno::NOSPC })
        } else if request.flags & !known != 0 {
            Some(Errno::INVAL)
        } else {
            None
        }
    }

    fn block_status(&mut self, core: &mut Core, request: Request) {
        let end = request.offset.checked_add(request.len.into());
        let inside = end.is_some_and(|end| end <= self.view.size);
        if !self.choice.allocation || request.len == 0 || !inside {
            return self.refuse(&request, Errno::INVAL);
        }
        let one = request.flags & command_flags::REQ_ONE != 0;
        let (at, most) = (self.view.offset + request.offset, if one { 1 } else { EXTENTS_MAX });
        let extents = match core.backend_mut().extents(at, request.len.into(), most) {
            Ok(extents) => extents,
            Err(errno) => return self.refuse(&request, errno),
        };
        let mut body = self.take_buffer(core, 8 * extents.len());
        for (place, extent) in body.chunks_exact_mut(8).zip(&extents) {
            // A part of the request: its length fits. HOLE is 1, ZERO is 2.
            place[..4].copy_from_slice(&(extent.len as u32).to_be_bytes());
            place[4..].copy_from_slice(&(if extent.hole { 3u32 } else { 0 }).to_be_bytes());
        }
        let head = Head::block_status(request.cookie, ALLOCATION_ID, extents.len() as u32);
        self.answers.push_back(Answer { head, body });
    }

    fn refuse(&mut self, request: &Request, errno: Errno) {
        let head = self.error_head(request, errno);
        self.answers.push_back(Answer { head, body: Buffer::empty() });
    }

    fn error_head(&self, request: &Request, errno: Errno) -> Head {
        let error = wire::error_number(errno);
        let chunks = matches!(request.kind, Kind::Read | Kind::BlockStatus);
        if self.choice.structured && chunks {
            Head::error(request.cookie, error)
        } else {
            Head::simple(request.cookie, error)
        }
    }

    fn owes(&self) -> usize {
        self.owed.len() + self.answers.len()
    }

    fn take_buffer(&mut self, core: &mut Core, len: usize) -> Buffer {
        let buffer = core.pool.take(len);
        self.bytes += buffer.room();
        buffer
    }

    fn give_buffer(&mut self, core: &mut Core, buffer: Buffer) {
        self.bytes -= buffer.room();
        core.pool.give(buffer);
    }

    /// Sends answers until there are none or the socket is full.
    fn send(&mut self, core: &mut Core) {
        while !self.answers.is_empty() && !self.dead {
            let mut slices = [IoSlice::new(&[]); 2 * SEND_BATCH];
            let batch = self.answers.iter().take(SEND_BATCH);
            let (mut used, mut asked, mut skip) = (0, 0, self.sent);
            for piece in batch.flat_map(|a| [a.head.bytes(), &a.body[..]]) {
                let gone = skip.min(piece.len());
                skip -= gone;
                if gone < piece.len() {
                    slices[used] = IoSlice::new(&piece[gone..]);
                    used += 1;
                    asked += piece.len() - gone;
                }
            }
            let mut none = SendAncillaryBuffer::default();
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match sendmsg(&self.socket, &slices[..used], &mut none, flags) {
                Ok(sent) => {
                    self.moved = core.now();
                    self.sent += sent;
                    self.forget_sent(core);
                    if sent < asked {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.dead = true,
            }
        }
    }

    fn forget_sent(&mut self, core: &mut Core) {
        while self.answers.front().is_some_and(|a| a.len() <= self.sent) {
            let answer = self.answers.pop_front().expect("looked at just now");
            self.sent -= answer.len();
            self.give_buffer(core, answer.body);
        }
    }
}

impl Guest for Connection {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn arrived(&mut self, guest: u64, core: &mut Core) {
        self.guest = guest;
        self.tenant = Some(self.view.admit(core, self.label.take()));
        self.moved = core.now();
        // What came behind the handshake is looked at in the first `read`.
        self.paused = !self.carry.is_empty();
    }

    fn read(&mut self, core: &mut Core, scratch: &mut [u8]) {
        if !self.willing(core) {
            return;
        }
        if self.paused {
            let mut carry = std::mem::take(&mut self.carry);
            self.look_at(core, &carry);
            if self.carry.capacity() == 0 {
                carry.clear();
                self.carry = carry;
            }
            return;
        }
        self.receive(core, scratch);
        // Clients send a write's data right behind its header, in a call of its own: looking once more
        // is cheaper than going to sleep for a microsecond.
        for _ in 0..DATA_LOOKS {
            if self.partial.is_none() || self.closing || self.dead {
                break;
            }
            self.receive(core, scratch);
        }
    }

    fn finished(
        &mut self,
        core: &mut Core,
        cookie: u64,
        result: Result<(), Errno>,
        buffer: Buffer,
    ) {
        let request = self.owed.remove(cookie as u32).expect("an order is over once");
        let data = request.kind == Kind::Read && result.is_ok();
        let body = if data {
            buffer
        } else {
            self.give_buffer(core, buffer);
            Buffer::empty()
        };
        let head = match result {
            Err(errno) => self.error_head(&request, errno),
            Ok(()) if data && self.choice.structured => {
                Head::data(request.cookie, request.offset, request.len)
            }
            Ok(()) => Head::simple(request.cookie, 0),
        };
        self.answers.push_back(Answer { head, body });
    }

    fn holds_since(&self) -> Option<Instant> {
        // Not what the device has in hand: that is not the client's fault.
        let waits = self.partial.is_some() || !self.answers.is_empty();
        (self.bytes > 0 && waits).then_some(self.moved)
    }

    fn hung_up(&mut self) {
        self.dead = true;
    }

    fn settle(&mut self, core: &mut Core) -> Standing {
        self.send(core);
        if self.dead || (self.closing && self.owes() == 0) {
            return Standing::Gone;
        }
        let willing = self.willing(core) && !self.starved;
        if willing && self.paused {
            return Standing::Ready;
        }
        Standing::Waits { read: willing, write: !self.answers.is_empty() }
    }

    fn close_down(&mut self) {
        self.closing = true;
    }

    fn left(&mut self, core: &mut Core) {
        if let Some(tenant) = self.tenant.take() {
            core.close_tenant(tenant);
        }
        for answer in self.answers.drain(..) {
            core.pool.give(answer.body);
        }
        if let Some(partial) = self.partial.take() {
            core.pool.give(partial.buffer);
        }
    }
}
