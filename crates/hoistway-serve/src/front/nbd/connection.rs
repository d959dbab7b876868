//! One client after the handshake: a session on the owner thread of its export's device.
//!
//! Requests are taken from the socket in as large pieces as there are and submitted in one batch;
//! answers of a turn leave in one `sendmsg`. In steady state nothing is allocated.
//!
//! Memory is bounded: a connection that owes [`REQUESTS_MAX`] answers, or [`BYTES_MAX`] bytes, or finds
//! the buffers of the whole device beyond [`BUFFERS_MAX`], reads no further until it has sent some, or
//! there are some again; one that owes nothing may have one request of [`SMALL_MAX`] meanwhile. What it
//! had read by then waits in `carry`.

use super::handshake::{ALLOCATION_ID, Choice};
use super::wire::{self, CommandKind, HEADER_MAX, Head, NbdRequest, PAYLOAD_MAX, command_flags};
use crate::device::{
    BUFFERS_MAX, ConnectionInfo, Core, ExtentsRequest, Finished, IoRequest, ReplyTo, Session,
    SessionState, Stream, TenantId, WRITE,
};
use crate::front::View;
use crate::net::server::Permit;
use crate::storage::Extent;
use crate::system::Buffer;
use crate::system::{Slab, SocketRing};
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
    _permit: Permit,
    view: View,
    choice: Choice,
    /// Until it has arrived.
    info: Option<ConnectionInfo>,
    session: u64,
    tenant: Option<TenantId>,

    /// Bytes that were read, of which those behind `looked_at` are still to be looked at. While there are many they stay
    /// where they are: a client that reads one answer at a time would have all of them moved for each request.
    carry: Vec<u8>,
    looked_at: usize,
    /// Bytes of `carry` that the device knows of.
    counted: usize,
    /// A write whose data is still coming.
    partial: Option<Partial>,
    /// A request that is refused once its data has gone by.
    refused: Option<Refused>,
    /// Requests whose answer is owed, by slot.
    owed: Slab<Owed>,
    /// Bytes of their buffers.
    bytes: usize,
    answers: VecDeque<NbdAnswer>,
    /// Bytes of the first answer that were sent.
    sent: usize,
    /// Bytes that are with the ring, to be sent.
    sending: usize,
    /// The socket did not take all that the ring sent.
    full: bool,

    /// Parsing stopped for want of room, not of bytes.
    paused: bool,
    /// It stopped at a request that has to wait for buffers of the device.
    starved: bool,
    /// When a byte was last read from the socket or sent, or it arrived.
    moved: Instant,
    /// The client sends no more, but not all that it sent was looked at.
    ended: bool,
    /// No further requests: the client said so, its side is closed, or we are stopping.
    closing: bool,
    /// The socket is of no use any more.
    dead: bool,
}

#[derive(Debug)]
struct Partial {
    request: NbdRequest,
    buffer: Buffer,
    filled: usize,
}

#[derive(Debug)]
struct Refused {
    request: NbdRequest,
    /// Bytes of its data that are to come.
    left: u64,
}

#[derive(Debug)]
struct Owed {
    request: NbdRequest,
    /// Bytes of a cache request that were read.
    read: u64,
}

#[derive(Debug)]
struct NbdAnswer {
    head: Head,
    body: Buffer,
}

impl NbdAnswer {
    fn len(&self) -> usize {
        self.head.bytes().len() + self.body.len()
    }
}

/// Answers a connection may owe.
const REQUESTS_MAX: usize = 256;
/// Bytes of their buffers, beyond the first request.
const BYTES_MAX: usize = 64 << 20;
/// Largest data of the one request that may be taken although the buffers are used up.
const SMALL_MAX: u64 = 256 << 10;
/// Bytes that are read at once to bring a range into the page cache.
const CACHE_PIECE: u64 = 256 << 10;
/// Bytes a block status looks at: some backends look at every 64 KiB of them.
const STATUS_MAX: u64 = 64 << 30;
/// Data of a write that is to come and large enough to be read to where it belongs, instead of being copied there.
const LARGE: usize = 64 << 10;
/// Room that is kept for what is carried over.
const CARRY_ROOM: usize = 64 << 10;
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
        permit: Permit,
        info: ConnectionInfo,
    ) -> Connection {
        Connection {
            socket,
            _permit: permit,
            view,
            choice,
            info: Some(info),
            session: 0,
            tenant: None,
            carry,
            looked_at: 0,
            counted: 0,
            partial: None,
            refused: None,
            owed: Slab::with_capacity(64),
            bytes: 0,
            answers: VecDeque::with_capacity(64),
            sent: 0,
            sending: 0,
            full: false,
            paused: false,
            starved: false,
            moved: Instant::ZERO,
            ended: false,
            closing: false,
            dead: false,
        }
    }

    fn willing(&self, core: &Core) -> bool {
        let owes = self.owes();
        let served =
            owes < REQUESTS_MAX && self.bytes < BYTES_MAX && core.pool.used() < BUFFERS_MAX;
        !self.closing && !self.dead && (owes == 0 || served)
    }

    /// Takes what there is from the socket, into the buffer of a waiting write first.
    fn receive(&mut self, core: &mut Core, scratch: &mut [u8]) {
        let carried = self.carry.len();
        debug_assert!(carried < HEADER_MAX || self.partial.is_none());
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
            Ok(message) if message.bytes == 0 => return self.end(),
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
        let at = self.look_at(core, &scratch[..unread]);
        self.carry.extend_from_slice(&scratch[at..unread]);
    }

    /// Clients send a write's data right behind its header, in a call of its own: looking once more is cheaper
    /// than going to sleep for a microsecond.
    fn receive_all(&mut self, core: &mut Core, scratch: &mut [u8]) {
        self.receive(core, scratch);
        for _ in 0..DATA_LOOKS {
            if self.partial.is_none() || self.closing || self.dead {
                break;
            }
            self.receive(core, scratch);
        }
    }

    /// The client will send no more. What it has asked for is still answered, but a request that is
    /// only half there is no request.
    fn end(&mut self) {
        self.ended = self.paused;
        self.closing |= !self.paused;
    }

    /// Works off what was kept.
    fn look_at_carry(&mut self, core: &mut Core) {
        let mut carry = std::mem::take(&mut self.carry);
        self.looked_at += self.look_at(core, &carry[self.looked_at..]);
        if !self.paused {
            // Less than a header is left.
            carry.drain(..self.looked_at);
            carry.shrink_to(CARRY_ROOM);
            self.looked_at = 0;
        }
        self.carry = carry;
    }

    /// Works off bytes; returns how many: the others are of no use yet.
    fn look_at(&mut self, core: &mut Core, bytes: &[u8]) -> usize {
        if self.partial.as_ref().is_some_and(|p| p.filled == p.buffer.len())
            && let Some(Partial { request, buffer, .. }) = self.partial.take()
        {
            self.write(core, request, buffer);
        }
        let mut at = 0;
        (self.paused, self.starved) = (false, false);
        let style = self.choice.style;
        while !self.closing && !self.dead && self.partial.is_none() {
            at += self.skip(bytes.len() - at);
            if self.refused.is_some() {
                break;
            }
            let Some(header) = bytes[at..].get(..style.header()) else { break };
            if !self.willing(core) {
                self.paused = true;
                break;
            }
            let Some(request) = NbdRequest::decode(style, header) else {
                self.dead = true;
                break;
            };
            let data = matches!(request.kind, CommandKind::Read | CommandKind::Write);
            if data && request.len > SMALL_MAX && core.pool.used() >= BUFFERS_MAX {
                (self.paused, self.starved) = (true, true);
                break;
            }
            at += header.len();
            at += self.take(core, request, &bytes[at..]);
        }
        if self.closing || self.dead { bytes.len() } else { at }
    }

    /// Passes over data that nobody wants; returns how many of `there` bytes that were.
    fn skip(&mut self, there: usize) -> usize {
        let Some(refused) = &mut self.refused else { return 0 };
        let skipped = refused.left.min(there as u64);
        refused.left -= skipped;
        if refused.left == 0
            && let Some(Refused { request, .. }) = self.refused.take()
        {
            // A write that is too long would be refused for another reason first.
            let write = request.kind == CommandKind::Write;
            let errno = if write { self.refusal(&request, Op::Write) } else { None };
            self.refuse(&request, errno.unwrap_or(Errno::INVAL));
        }
        skipped as usize
    }

    /// Takes one request; returns how many bytes of its data were there.
    fn take(&mut self, core: &mut Core, request: NbdRequest, behind: &[u8]) -> usize {
        let fits = request.kind == CommandKind::Write && request.payload <= PAYLOAD_MAX.into();
        if request.payload > 0 && !fits {
            if request.payload > u32::MAX.into() {
                // No client means that: what comes would be passed over for ever.
                self.dead = true;
            }
            self.refused = Some(Refused { request, left: request.payload });
            return 0;
        }
        match request.kind {
            CommandKind::Write => {
                // Without data where there must be some, it is refused for its flags.
                let mut buffer = self.take_buffer(core, request.payload as usize);
                let there = behind.len().min(buffer.len());
                buffer[..there].copy_from_slice(&behind[..there]);
                if there == buffer.len() {
                    self.write(core, request, buffer);
                } else {
                    self.partial = Some(Partial { request, buffer, filled: there });
                }
                return there;
            }
            CommandKind::Disconnect => self.closing = true,
            CommandKind::BlockStatus => self.block_status(core, request),
            CommandKind::Read if request.len > PAYLOAD_MAX.into() => {
                self.refuse(&request, Errno::INVAL)
            }
            CommandKind::Other(_) => self.refuse(&request, Errno::INVAL),
            CommandKind::Read => {
                let buffer = self.take_buffer(core, request.len as usize);
                self.order(core, request, Op::Read, Flags::NONE, buffer);
            }
            CommandKind::Flush => {
                self.order(core, request, Op::Flush, Flags::PREFLUSH, Buffer::empty());
            }
            CommandKind::Trim => self.trim(core, request),
            CommandKind::Cache => self.cache(core, request),
            CommandKind::WriteZeroes => self.write_zeroes(core, request),
        }
        0
    }

    fn trim(&mut self, core: &mut Core, request: NbdRequest) {
        match self.refusal(&request, Op::Discard) {
            Some(errno) => self.refuse(&request, errno),
            // It was not offered. ENOTSUP is the answer to fast zeroes alone.
            None if !self.view.trim => self.refuse(&request, Errno::INVAL),
            None => self.order(core, request, Op::Discard, Flags::NONE, Buffer::empty()),
        }
    }

    fn write_zeroes(&mut self, core: &mut Core, request: NbdRequest) {
        let op = self.view.zeroing(request.flags & command_flags::NO_HOLE == 0);
        let fast = request.flags & command_flags::FAST_ZERO != 0;
        match self.refusal(&request, op) {
            Some(errno) => self.refuse(&request, errno),
            // What is not given up may have to be written, and that is no faster than a write.
            None if fast && op != Op::Discard => self.refuse(&request, Errno::OPNOTSUPP),
            None => self.order(core, request, op, WRITE, Buffer::empty()),
        }
    }

    /// The client is going to read the range. Where the kernel has a page cache below us it is brought
    /// there, in reads that are scheduled as the client's own; elsewhere nothing is any nearer.
    fn cache(&mut self, core: &mut Core, request: NbdRequest) {
        if let Some(errno) = self.refusal(&request, Op::Read) {
            return self.refuse(&request, errno);
        }
        if !core.facts.page_cache || request.len == 0 {
            let head = Head::done(self.choice.style, &request);
            return self.answers.push_back(NbdAnswer { head, body: Buffer::empty() });
        }
        let slot = self.owed.insert(Owed { request, read: 0 });
        self.cache_piece(core, slot);
    }

    /// Reads the next piece of a cache request; false: there is none, or the end is near.
    fn cache_piece(&mut self, core: &mut Core, slot: u32) -> bool {
        let owed = self.owed.get_mut(slot).expect("a request stays until it is answered");
        let (at, left) = (owed.request.offset + owed.read, owed.request.len - owed.read);
        if left == 0 || self.closing || self.dead {
            return false;
        }
        let len = left.min(CACHE_PIECE);
        owed.read += len;
        let buffer = self.take_buffer(core, len as usize);
        let reply_to = ReplyTo::Session { session: self.session, cookie: slot.into() };
        let (offset, flags) = (self.view.offset + at, Flags::NONE);
        if let Some(tenant) = self.tenant {
            core.submit(tenant, IoRequest { op: Op::Read, offset, len, flags, buffer, reply_to });
        }
        true
    }

    /// A write whose data is complete.
    fn write(&mut self, core: &mut Core, request: NbdRequest, buffer: Buffer) {
        self.order(core, request, Op::Write, WRITE, buffer);
    }

    fn order(
        &mut self,
        core: &mut Core,
        request: NbdRequest,
        op: Op,
        flags: Flags,
        buffer: Buffer,
    ) {
        let view = self.view;
        if let Some(errno) = self.refusal(&request, op) {
            self.give_buffer(core, buffer);
            return self.refuse(&request, errno);
        }
        let slot = self.owed.insert(Owed { request, read: 0 });
        let fua = request.flags & command_flags::FUA != 0 && op != Op::Read && op != Op::Flush;
        let order = IoRequest {
            op,
            offset: if op == Op::Flush { 0 } else { view.offset + request.offset },
            len: if op == Op::Flush { 0 } else { request.len },
            flags: if fua { flags | Flags::FUA } else { flags },
            buffer,
            reply_to: ReplyTo::Session { session: self.session, cookie: slot.into() },
        };
        if let Some(tenant) = self.tenant {
            core.submit(tenant, order);
        }
    }

    /// Why this request is not carried out.
    fn refusal(&self, request: &NbdRequest, op: Op) -> Option<Errno> {
        let end = request.offset.checked_add(request.len);
        if request.flags & !request.kind.flags() != 0 {
            Some(Errno::INVAL)
        } else if op == Op::Flush {
            None
        } else if self.view.read_only && op != Op::Read {
            Some(Errno::PERM)
        } else if end.is_none_or(|end| end > self.view.size) {
            let needs_room = matches!(request.kind, CommandKind::Write | CommandKind::WriteZeroes);
            Some(if needs_room { Errno::NOSPC } else { Errno::INVAL })
        } else {
            None
        }
    }

    /// What is stored in the range is asked in the order of the client's requests.
    fn block_status(&mut self, core: &mut Core, request: NbdRequest) {
        let end = request.offset.checked_add(request.len);
        let inside = end.is_some_and(|end| end <= self.view.size);
        let known = request.flags & !request.kind.flags() == 0;
        if !self.choice.allocation || request.len == 0 || !inside || !known {
            return self.refuse(&request, Errno::INVAL);
        }
        let one = request.flags & command_flags::REQ_ONE != 0;
        let (offset, most) = (self.view.offset + request.offset, if one { 1 } else { EXTENTS_MAX });
        let len = request.len.min(STATUS_MAX);
        let slot = self.owed.insert(Owed { request, read: 0 });
        let reply_to = ReplyTo::Session { session: self.session, cookie: slot.into() };
        if let Some(tenant) = self.tenant {
            core.submit_lookup(tenant, ExtentsRequest { offset, len, most, reply_to });
        }
    }

    /// The descriptors of a block status.
    fn descriptors(&mut self, core: &mut Core, extents: &[Extent]) -> Buffer {
        let size = Head::descriptor(self.choice.style);
        let mut body = self.take_buffer(core, size * extents.len());
        for (place, extent) in body.chunks_exact_mut(size).zip(extents) {
            // HOLE is 1, ZERO is 2. A part of the request: its length fits where lengths are short.
            let flags = if extent.hole { 3u32 } else { 0 };
            let (len, state) = place.split_at_mut(size / 2);
            len.copy_from_slice(&extent.len.to_be_bytes()[8 - size / 2..]);
            state.copy_from_slice(&u64::from(flags).to_be_bytes()[8 - size / 2..]);
        }
        body
    }

    fn refuse(&mut self, request: &NbdRequest, errno: Errno) {
        let head = Head::error(self.choice.style, request, wire::error_number(errno));
        self.answers.push_back(NbdAnswer { head, body: Buffer::empty() });
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

    /// What is to be sent of the first answers.
    fn unsent(&self, answers: usize) -> impl Iterator<Item = &[u8]> {
        let mut skip = self.sent;
        let pieces = self.answers.iter().take(answers).flat_map(|a| [a.head.bytes(), &a.body[..]]);
        pieces.filter_map(move |piece| {
            let gone = skip.min(piece.len());
            skip -= gone;
            (gone < piece.len()).then(|| &piece[gone..])
        })
    }

    /// Gives answers to the ring to send; it says how many bytes the socket took.
    fn send_by(&mut self, core: &Core, ring: &mut SocketRing) {
        if self.answers.is_empty() || self.dead || self.sending > 0 {
            return;
        }
        // Where something may wait for the end of these answers, it is heard of at once.
        let much = self.owes() >= REQUESTS_MAX / 2
            || self.bytes >= BYTES_MAX / 2
            || core.pool.used() >= BUFFERS_MAX / 2;
        let heard = much || self.paused || self.closing || self.full;
        let unsent = self.unsent(REQUESTS_MAX);
        // SAFETY: the answers stay as they are until the ring has said what was sent: until then nothing is sent
        // again, and the owner submits before it goes on with its sessions, or lets one go.
        self.sending = unsafe { ring.send(self.socket.as_fd(), self.session, unsent, heard) };
    }

    /// Sends answers until there are none or the socket is full.
    fn send(&mut self, core: &mut Core) {
        while !self.answers.is_empty() && !self.dead {
            let mut slices = [IoSlice::new(&[]); 2 * SEND_BATCH];
            let (mut used, mut asked) = (0, 0);
            for piece in self.unsent(SEND_BATCH) {
                slices[used] = IoSlice::new(piece);
                used += 1;
                asked += piece.len();
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

impl Session for Connection {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn arrived(&mut self, session: u64, core: &mut Core) {
        self.session = session;
        self.tenant = Some(self.view.admit(core, self.info.take()));
        self.moved = core.now();
        // What came behind the handshake is looked at in the first `read`.
        self.paused = !self.carry.is_empty();
    }

    fn read(&mut self, core: &mut Core, scratch: Option<&mut [u8]>) {
        if !self.willing(core) {
            return;
        }
        self.begin_batch(core);
        match scratch {
            _ if self.paused => {
                self.look_at_carry(core);
                if self.ended {
                    self.end();
                }
            }
            Some(scratch) => self.receive_all(core, scratch),
            None => {}
        }
        self.end_batch(core);
    }

    fn finished(&mut self, core: &mut Core, cookie: u64, io: Finished) {
        let Finished { result, buffer, extents, .. } = io;
        let (slot, style) = (cookie as u32, self.choice.style);
        let Owed { request, .. } = self.owed.get_mut(slot).expect("an order is over once");
        let (request, mut body) = (*request, Buffer::empty());
        if request.kind == CommandKind::Read && result.is_ok() {
            body = buffer;
        } else {
            self.give_buffer(core, buffer);
        }
        if request.kind == CommandKind::Cache && result.is_ok() && self.cache_piece(core, slot) {
            return;
        }
        self.owed.remove(slot);
        let head = match result {
            // That a storage cannot do something is no answer of the protocol.
            Err(Errno::OPNOTSUPP) => Head::error(style, &request, wire::error_number(Errno::IO)),
            Err(errno) => Head::error(style, &request, wire::error_number(errno)),
            Ok(()) if request.kind == CommandKind::Read => Head::data(style, &request),
            Ok(()) if request.kind == CommandKind::BlockStatus => {
                body = self.descriptors(core, &extents);
                Head::block_status(style, &request, ALLOCATION_ID, extents.len() as u32)
            }
            Ok(()) => Head::done(style, &request),
        };
        self.answers.push_back(NbdAnswer { head, body });
    }

    fn holds_since(&self) -> Option<Instant> {
        // Not what the device has in hand: that is not the client's fault.
        let waits = self.partial.is_some() || !self.answers.is_empty();
        (self.bytes > 0 && waits).then_some(self.moved)
    }

    fn hung_up(&mut self) {
        self.dead = true;
    }

    fn stream(&mut self) -> Option<&mut dyn Stream> {
        Some(self)
    }

    fn settle(&mut self, core: &mut Core, ring: Option<&mut SocketRing>) -> SessionState {
        core.carried.changes(self.counted, self.carry.len());
        self.counted = self.carry.len();
        let write = match ring {
            Some(ring) => {
                self.send_by(core, ring);
                self.full
            }
            None => {
                self.send(core);
                !self.answers.is_empty()
            }
        };
        let over = self.dead || (self.closing && self.owes() == 0);
        if over && self.sending == 0 {
            return SessionState::Gone;
        }
        let willing = self.willing(core) && !self.starved;
        if willing && self.paused {
            return SessionState::Ready;
        }
        SessionState::Waits { read: willing, write }
    }

    fn close_down(&mut self) {
        self.closing = true;
    }

    fn left(&mut self, core: &mut Core) {
        core.carried.changes(self.counted, 0);
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

impl Stream for Connection {
    fn begin_batch(&mut self, core: &mut Core) {
        if let Some(tenant) = self.tenant {
            core.begin_batch(tenant);
        }
    }

    fn end_batch(&mut self, core: &mut Core) {
        if let Some(tenant) = self.tenant {
            core.end_batch(tenant);
        }
    }

    fn received(&mut self, core: &mut Core, bytes: &[u8]) {
        if self.closing || self.dead {
            return;
        }
        if bytes.is_empty() {
            return self.end();
        }
        self.moved = core.now();
        let mut rest = bytes;
        if let Some(Partial { buffer, filled, .. }) = &mut self.partial {
            let (piece, behind) = rest.split_at(rest.len().min(buffer.len() - *filled));
            buffer[*filled..][..piece.len()].copy_from_slice(piece);
            *filled += piece.len();
            rest = behind;
        }
        if self.carry.is_empty() {
            let at = self.look_at(core, rest);
            return self.carry.extend_from_slice(&rest[at..]);
        }
        self.carry.extend_from_slice(rest);
        if !self.paused {
            self.look_at_carry(core);
        }
    }

    fn sent(&mut self, core: &mut Core, result: Option<Result<usize, Errno>>) {
        if self.sending == 0 {
            return;
        }
        let result = result.unwrap_or(Ok(self.sending));
        let asked = std::mem::take(&mut self.sending);
        match result {
            Ok(sent) => {
                self.moved = core.now();
                self.sent += sent;
                self.full = sent < asked;
                self.forget_sent(core);
            }
            Err(Errno::AGAIN) => self.full = true,
            Err(Errno::INTR) => {}
            Err(_) => self.dead = true,
        }
    }

    fn reads_by_itself(&self) -> bool {
        let left = self.partial.as_ref().map(|p| p.buffer.len() - p.filled);
        left.is_some_and(|left| left >= LARGE)
    }
}
