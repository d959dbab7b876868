//! Stream sockets by io_uring: received into buffers that the kernel chooses, sent in one submission per turn.
//!
//! One call submits what was pushed, sends it, and waits for what comes. Requests run on the thread that makes
//! that call, and within it (DEFER_TASKRUN). Sends do not wait for room in a socket: they are over when the call
//! that submits them returns, with what the socket took, so that the kernel keeps nothing of theirs.

use super::{Buffer, timespec};
use hoistway::Nanos;
use io_uring::types::{BufRingEntry, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Buffers to receive into, a power of two. Clients beyond that number that send at once wait for the next turn.
const BUFFERS: u16 = 64;
/// Bytes of one: four writes of 4 KiB with their headers, or hundreds of requests without data.
const BUFFER_LEN: usize = 16512;
/// Their group, the only one of a ring.
const GROUP: u16 = 0;
/// Entries that are submitted at once.
const SUBMISSIONS: u32 = 256;
/// Completions that fit; the kernel keeps further ones until they do.
const COMPLETIONS: u32 = 2048;
/// Messages that are sent at once.
const MESSAGES: usize = 128;
/// Pieces of memory of all these messages.
const SLICES: usize = 4096;
/// Pieces of one message at most.
const SLICES_MAX: usize = 512;

/// What an entry is, in the two upper bits of the lower half of its number; numbers leave them free.
const KIND: u64 = 3 << 30;
const RECEIVE: u64 = 0;
const SEND: u64 = 1 << 30;
const WATCH: u64 = 2 << 30;
const CANCEL: u64 = 3 << 30;

/// Something that is over, by the number it was begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// Bytes came, or (`Ok(0)`) none will come any more.
    Received {
        /// Of the socket.
        number: u64,
        /// How many.
        result: Result<usize, Errno>,
        /// Where they are, to be [given back](SocketRing::give_back).
        buffer: Option<u16>,
        /// Further ones are received.
        more: bool,
    },
    /// So many bytes of a message were taken.
    Sent {
        /// Of the socket.
        number: u64,
        /// How many; short of the message, or `AGAIN`: the socket is full.
        result: Result<usize, Errno>,
    },
    /// A receive was not found when it was to end: it is over, or goes on.
    NotCancelled {
        /// Of the socket.
        number: u64,
    },
    /// A watched descriptor can be read.
    Readable {
        /// Of the descriptor.
        number: u64,
    },
}

/// A ring for the sockets of one thread.
pub struct SocketRing {
    ring: IoUring,
    /// What is received into. Not freed before `drop` has taken it from the kernel.
    memory: Buffer,
    /// The buffers that the kernel may choose: entries, and in the first of them where the next one comes.
    offered: Buffer,
    tail: u16,
    messages: Vec<libc::msghdr>,
    slices: Vec<libc::iovec>,
    /// Sockets whose messages were submitted, and are sent unless a completion says otherwise.
    submitted: Vec<u64>,
    /// Those that are not submitted yet.
    quiet: Vec<u64>,
    completed: Vec<cqueue::Entry>,
}

// SAFETY: the pointers in `messages` and `slices` lead to memory of the caller of `send`, and are followed by the
// kernel alone, on behalf of the one thread that enters the ring.
unsafe impl Send for SocketRing {}

impl SocketRing {
    /// A ring of this thread, which alone may use it.
    ///
    /// # Errors
    ///
    /// The kernel forbids it, or is older than what it needs.
    pub fn new() -> io::Result<SocketRing> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let entries = usize::from(BUFFERS) * size_of::<BufRingEntry>();
        let mut ring = SocketRing {
            ring,
            memory: Buffer::zeroed(usize::from(BUFFERS) * BUFFER_LEN),
            offered: Buffer::zeroed(entries),
            tail: 0,
            messages: Vec::with_capacity(MESSAGES),
            slices: Vec::with_capacity(SLICES),
            submitted: Vec::with_capacity(MESSAGES),
            quiet: Vec::with_capacity(MESSAGES),
            completed: Vec::with_capacity(COMPLETIONS as usize),
        };
        (0..BUFFERS).for_each(|id| ring.give_back(id));
        let place = ring.offered.as_ptr() as u64;
        // SAFETY: the entries are page-aligned, as many as said, and live until `drop` has unregistered them.
        unsafe { ring.ring.submitter().register_buf_ring_with_flags(place, BUFFERS, GROUP, 0)? };
        Ok(ring)
    }

    /// Whether a ring works here: what this module relies on is tried once per process.
    pub fn works() -> bool {
        static WORKS: OnceLock<bool> = OnceLock::new();
        *WORKS.get_or_init(|| try_out().unwrap_or(false))
    }

    fn push(&mut self, entry: &squeue::Entry) {
        if self.ring.submission().is_full() {
            self.enter(0, None);
        }
        // SAFETY: receives go to buffers that live until `drop` has taken them from the kernel; messages are the
        // promise of `send`; nothing else points anywhere. Descriptors are looked up when the entry is submitted.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("there is room after everything was submitted");
    }

    /// Receives from a socket until it is cancelled, fails, or the buffers run out.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, number: u64) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP);
        self.push(&entry.build().user_data(number | RECEIVE));
    }

    /// Ends a receive. It completes for the last time, without `more`; or an event says that it was not found, which a
    /// receive is not either while it waits for its turn to go on.
    pub fn cancel(&mut self, number: u64) {
        let entry = opcode::AsyncCancel::new(number | RECEIVE).build();
        let quiet = squeue::Flags::SKIP_SUCCESS;
        self.push(&entry.flags(quiet).user_data(number | CANCEL));
    }

    /// Says once that a descriptor can be read.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, number: u64) {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32);
        self.push(&entry.build().user_data(number | WATCH));
    }

    /// Sends a message of the first `SLICES_MAX` pieces; returns their bytes. When all of it was sent the socket is
    /// among those that [`take_sent`](SocketRing::take_sent) tells, which ends no waiting; or, if it is `heard`, an event
    /// says so. When less was sent an event says so in any case.
    ///
    /// # Safety
    ///
    /// The bytes must stay where they are until [`submit`](SocketRing::submit) or [`wait`](SocketRing::wait)
    /// returns.
    pub unsafe fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        number: u64,
        pieces: impl Iterator<Item = &'a [u8]>,
        heard: bool,
    ) -> usize {
        // Neither list grows beyond its room, so that what points into them stays right; nor is anything submitted,
        // and the lists emptied, between here and the push below.
        let room = self.messages.len() < MESSAGES && self.slices.len() + SLICES_MAX <= SLICES;
        if !room || self.ring.submission().is_full() {
            self.submit();
        }
        let first = self.slices.len();
        let vector = |piece: &[u8]| libc::iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        };
        self.slices.extend(pieces.take(SLICES_MAX).map(vector));
        // SAFETY: all zeroes are a message without anything.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.slices[first..].as_mut_ptr();
        message.msg_iovlen = (self.slices.len() - first) as _;
        self.messages.push(message);
        // Of all that there is room for, and an error (so that the completion is not skipped) if that is not all.
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL) as u32;
        let message: *const libc::msghdr = &raw const self.messages[self.messages.len() - 1];
        let entry = opcode::SendMsg::new(Fd(socket.as_raw_fd()), message).flags(flags).build();
        let entry = entry.user_data(number | SEND);
        if heard {
            self.push(&entry);
        } else {
            self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS));
            self.quiet.push(number);
        }
        self.slices[first..].iter().map(|slice| slice.iov_len).sum()
    }

    /// Submits what was pushed; all messages are over then.
    pub fn submit(&mut self) {
        self.enter(0, Some(Nanos::ZERO));
    }

    /// Submits what was pushed, and waits for an event, at most so long.
    pub fn wait(&mut self, limit: Option<Nanos>) {
        let at_once = limit == Some(Nanos::ZERO) || !self.completed.is_empty();
        let want = usize::from(!at_once);
        self.enter(want, limit);
    }

    /// Until everything that was pushed is the kernel's.
    fn enter(&mut self, mut want: usize, limit: Option<Nanos>) {
        let span = limit.map(timespec).map(|t| {
            Timespec::new().sec(t.tv_sec.unsigned_abs()).nsec(t.tv_nsec.unsigned_abs() as u32)
        });
        let mut arguments = SubmitArgs::new();
        if let Some(span) = span.as_ref().filter(|_| want > 0) {
            arguments = arguments.timespec(span);
        }
        // Requests that were deferred run only with GETEVENTS.
        let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
        loop {
            let pushed = self.ring.submission().len();
            // SAFETY: the arguments are of the kind that EXT_ARG announces, and outlive the call; what was
            // pushed is right by `push`.
            let taken = unsafe {
                self.ring.submitter().enter(pushed as u32, want as u32, flags, Some(&arguments))
            };
            match taken.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO)) {
                Ok(_) | Err(Errno::TIME | Errno::INTR) => {}
                // No memory for a request now, or completions are to be taken first.
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => std::thread::yield_now(),
                Err(error) => panic!("io_uring_enter on a ring of our own: {error}"),
            }
            self.completed.extend(self.ring.completion());
            // What did not fit is there as well when this returns: a message that was cut must not pass for sent.
            let submission = self.ring.submission();
            if submission.is_empty() && !submission.cq_overflow() {
                break;
            }
            want = 0;
        }
        self.messages.clear();
        self.slices.clear();
        self.submitted.append(&mut self.quiet);
    }

    /// Sockets whose message was sent as a whole, unless an event among those that are taken says otherwise.
    pub fn take_sent(&mut self) -> Option<u64> {
        self.submitted.pop()
    }

    /// What is over, in its order; the list is to be [brought back](SocketRing::put_back).
    pub fn take_completed(&mut self) -> Vec<cqueue::Entry> {
        std::mem::take(&mut self.completed)
    }

    /// An empty list, so that the next one needs no memory.
    pub fn put_back(&mut self, list: Vec<cqueue::Entry>) {
        debug_assert!(list.is_empty());
        if self.completed.is_empty() {
            self.completed = list;
        }
    }

    /// What a completion says; `None`: nothing of interest.
    pub fn event(entry: &cqueue::Entry) -> Option<SocketEvent> {
        let (kind, number) = (entry.user_data() & KIND, entry.user_data() & !KIND);
        let result = usize::try_from(entry.result());
        let result = result.map_err(|_| Errno::from_raw_os_error(-entry.result()));
        match kind {
            RECEIVE => {
                let buffer = cqueue::buffer_select(entry.flags());
                let more = cqueue::more(entry.flags());
                Some(SocketEvent::Received { number, result, buffer, more })
            }
            SEND => Some(SocketEvent::Sent { number, result }),
            WATCH => Some(SocketEvent::Readable { number }),
            _ => result.is_err().then_some(SocketEvent::NotCancelled { number }),
        }
    }

    /// The first bytes of a buffer that a completion named.
    pub fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(buffer < BUFFERS && len <= BUFFER_LEN, "the kernel names buffers it was given");
        // By the pointer: the kernel may write into the other buffers meanwhile.
        // SAFETY: within the memory, and the kernel does not touch this buffer until it is given back, for which
        // the ring must be borrowed anew.
        unsafe {
            let place = self.memory.as_ptr().add(usize::from(buffer) * BUFFER_LEN);
            std::slice::from_raw_parts(place, len)
        }
    }

    /// The kernel may receive into that buffer again.
    pub fn give_back(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS, "the kernel names buffers it was given");
        let at = usize::from(self.tail % BUFFERS);
        let entries: *mut BufRingEntry = self.offered.as_mut_ptr().cast();
        let place = self.memory.as_ptr() as u64 + (usize::from(buffer) * BUFFER_LEN) as u64;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the entry lies within the list, and the kernel does not read it before the tail says so; the
        // tail is a number of the first entry that no field of an entry overlaps.
        unsafe {
            let entry = &mut *entries.add(at);
            entry.set_addr(place);
            entry.set_len(BUFFER_LEN as u32);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for SocketRing {
    fn drop(&mut self) {
        // Requests run within calls of this thread only, and after this none finds a buffer.
        if self.ring.submitter().unregister_buf_ring(GROUP).is_err() {
            // The kernel may still write there.
            std::mem::forget(std::mem::take(&mut self.memory));
            std::mem::forget(std::mem::take(&mut self.offered));
        }
    }
}

impl fmt::Debug for SocketRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SocketRing({} entries at once)", self.ring.params().sq_entries())
    }
}

/// Whether bytes come through, a full socket is told at once, and a receive that is cancelled ends.
fn try_out() -> io::Result<bool> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A host may give sockets more room by default than a message here is long.
    sockopt::set_socket_send_buffer_size(&near, 64 << 10)?;
    let mut ring = SocketRing::new()?;
    let limit = Some(Nanos::ms(500));
    let mut events = Vec::new();
    let look = |ring: &mut SocketRing, events: &mut Vec<SocketEvent>| {
        ring.wait(limit);
        let mut list = ring.take_completed();
        events.clear();
        events.extend(list.drain(..).filter_map(|entry| SocketRing::event(&entry)));
        ring.put_back(list);
    };
    ring.receive(far.as_fd(), 1);
    // SAFETY: constants.
    unsafe { ring.send(near.as_fd(), 2, [&b"hoist"[..], b"way"].into_iter(), false) };
    look(&mut ring, &mut events);
    let [SocketEvent::Received { number: 1, result: Ok(8), buffer: Some(buffer), more: true }] =
        events[..]
    else {
        return Ok(false);
    };
    if ring.bytes(buffer, 8) != b"hoistway" {
        return Ok(false);
    }
    ring.give_back(buffer);
    ring.cancel(1);
    look(&mut ring, &mut events);
    let ended = matches!(events[..], [SocketEvent::Received { result: Err(_), more: false, .. }]);
    // More than the socket holds, until it takes nothing.
    let much = vec![0; 1 << 20];
    let (mut cut, mut full) = (false, false);
    while !full {
        // SAFETY: the bytes live beyond the call of `submit`.
        unsafe { ring.send(near.as_fd(), 2, std::iter::once(&much[..]), false) };
        ring.submit();
        let mut list = ring.take_completed();
        let last = list.drain(..).filter_map(|entry| SocketRing::event(&entry)).next_back();
        ring.put_back(list);
        match last {
            Some(SocketEvent::Sent { number: 2, result: Ok(sent) }) if sent < much.len() => {
                cut = true
            }
            Some(SocketEvent::Sent { number: 2, result: Err(Errno::AGAIN) }) => full = true,
            _ => return Ok(false),
        }
    }
    Ok(ended && cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn events(ring: &mut SocketRing) -> Vec<SocketEvent> {
        let mut list = ring.take_completed();
        let events = list.drain(..).filter_map(|entry| SocketRing::event(&entry)).collect();
        ring.put_back(list);
        events
    }

    #[test]
    fn what_comes_when_the_buffers_are_used_up_comes_later() {
        if !SocketRing::works() {
            return println!("skipped: no ring for sockets here");
        }
        const SOCKETS: u64 = BUFFERS as u64 + 50;
        let mut ring = SocketRing::new().unwrap();
        let mut pairs: Vec<_> = (0..SOCKETS).map(|_| UnixStream::pair().unwrap()).collect();
        for (n, (near, far)) in pairs.iter_mut().enumerate() {
            near.write_all(&(n as u64).to_ne_bytes()).unwrap();
            ring.receive(far.as_fd(), n as u64);
        }
        let mut seen = vec![false; SOCKETS as usize];
        let mut without = 0;
        while seen.iter().any(|seen| !seen) {
            ring.wait(Some(Nanos::secs(20)));
            let list = events(&mut ring);
            assert!(!list.is_empty(), "something is lost");
            for event in list {
                let SocketEvent::Received { number, result, buffer, more } = event else {
                    panic!("{event:?}")
                };
                match (result, buffer) {
                    (Ok(8), Some(buffer)) => {
                        assert_eq!(ring.bytes(buffer, 8), number.to_ne_bytes());
                        assert!(!std::mem::replace(&mut seen[number as usize], true));
                        ring.give_back(buffer);
                    }
                    (Err(Errno::NOBUFS), None) => {
                        assert!(!more);
                        without += 1;
                        ring.receive(pairs[number as usize].1.as_fd(), number);
                    }
                    other => panic!("{number}: {other:?}"),
                }
            }
        }
        assert!(without >= 50, "{without} had to wait");
    }

    #[test]
    fn a_message_goes_as_far_as_there_is_room_and_waits_for_nothing() {
        if !SocketRing::works() {
            return println!("skipped: no ring for sockets here");
        }
        let mut ring = SocketRing::new().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        let all: Vec<u8> = (0..3u32 << 20).map(|n| (n / 251 + n % 251) as u8).collect();
        let (mut sent, mut got, mut cut) = (0, Vec::new(), 0);
        while got.len() < all.len() {
            // SAFETY: the pieces live beyond the call of `submit`.
            let asked = unsafe { ring.send(near.as_fd(), 3, all[sent..].chunks(1000), true) };
            ring.submit();
            let [SocketEvent::Sent { number: 3, result }] = events(&mut ring)[..] else {
                panic!("a send is over when it is submitted")
            };
            let taken = result.unwrap();
            assert!(0 < taken && taken <= asked);
            cut += u32::from(taken < asked);
            sent += taken;
            let mut piece = vec![0; taken];
            far.read_exact(&mut piece).unwrap();
            got.extend(piece);
        }
        assert!(got == all && cut > 0, "{cut} messages were cut");
    }

    #[test]
    fn a_receive_that_is_not_found_is_told() {
        if !SocketRing::works() {
            return println!("skipped: no ring for sockets here");
        }
        let mut ring = SocketRing::new().unwrap();
        let (_near, far) = UnixStream::pair().unwrap();
        ring.receive(far.as_fd(), 5);
        ring.cancel(6);
        ring.submit();
        assert_eq!(events(&mut ring), [SocketEvent::NotCancelled { number: 6 }]);
        ring.cancel(5);
        ring.submit();
        let [SocketEvent::Received { number: 5, result, more: false, .. }] = events(&mut ring)[..]
        else {
            panic!("a receive that is found ends")
        };
        assert_eq!(result, Err(Errno::CANCELED));
    }

    #[test]
    fn a_ring_waits_as_long_as_it_is_told_and_for_what_it_watches() {
        if !SocketRing::works() {
            return println!("skipped: no ring for sockets here");
        }
        let mut ring = SocketRing::new().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        ring.watch(far.as_fd(), 5);
        ring.wait(Some(Nanos::ms(1)));
        assert_eq!(events(&mut ring), []);
        near.write_all(b"x").unwrap();
        ring.wait(None);
        assert_eq!(events(&mut ring), [SocketEvent::Readable { number: 5 }]);
        // A message that was sent as a whole ends no waiting, one that is heard does.
        // SAFETY: constants.
        unsafe { ring.send(far.as_fd(), 6, std::iter::once(&b"y"[..]), false) };
        ring.wait(Some(Nanos::ms(1)));
        assert_eq!((events(&mut ring), ring.take_sent()), (Vec::new(), Some(6)));
        // SAFETY: constants.
        unsafe { ring.send(far.as_fd(), 7, std::iter::once(&b"z"[..]), true) };
        ring.wait(None);
        assert_eq!(events(&mut ring), [SocketEvent::Sent { number: 7, result: Ok(1) }]);
        // So does one that was cut, heard or not.
        let much = vec![0; 4 << 20];
        // SAFETY: the bytes live beyond the call of `wait`.
        unsafe { ring.send(far.as_fd(), 8, std::iter::once(&much[..]), false) };
        ring.wait(None);
        let list = events(&mut ring);
        let [SocketEvent::Sent { number: 8, result: Ok(sent) }] = list[..] else {
            panic!("{list:?}")
        };
        assert!(0 < sent && sent < much.len());
    }
}
