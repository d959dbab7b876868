//! The queue of one block device: a session on the owner thread of the export's device.
//!
//! Each tag has a buffer that the driver knows the address of, and goes round: its *fetch* waits with the
//! driver; a completion brings a request (of a write, the data is in the buffer); the request becomes
//! an I/O; its result is *committed* (of a read, the driver takes the data out of the buffer), which is
//! the fetch of the next request as well. A completion of [`GONE`] ends a tag: the device is
//! being stopped.
//!
//! Memory is bounded by the number of tags times the longest request.

use super::wire::{QueueCommand, UblkRequest};
use crate::device::{
    ConnectionInfo, Core, Finished, IoRequest, ReplyTo, Session, SessionState, TenantId, WRITE,
};
use crate::front::View;
use crate::system::thread::io_flusher;
use crate::system::{Buffer, SocketRing};
use hoistway::{Flags, Op};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The way to the driver: io_uring and shared memory, or a test.
pub(super) trait Ring: fmt::Debug + Send {
    /// Readable when there are completions.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Adds a command to the next submission. There is room for one per tag.
    fn push(&mut self, command: QueueCommand);

    /// Submits what was pushed.
    ///
    /// # Errors
    ///
    /// When the ring is of no use any more.
    fn submit(&mut self) -> Result<(), Errno>;

    /// The next completion: tag and result.
    fn completion(&mut self) -> Option<(u16, i32)>;

    /// The request of a tag whose fetch has completed with 0.
    fn request(&self, tag: u16) -> Result<UblkRequest, Errno>;
}

/// Result of a fetch that will bring no request: ENODEV.
pub(super) const GONE: i32 = -19;
/// Completions per turn, so that a busy disk does not starve the other sessions.
const COMPLETIONS: usize = 256;

#[derive(Debug)]
pub(super) struct Queue<R> {
    ring: R,
    view: View,
    info: Option<ConnectionInfo>,
    session: u64,
    tenant: Option<TenantId>,

    tags: Vec<Tag>,
    /// Requests that are I/Os now.
    busy: usize,
    /// Tags whose end was reported.
    gone: usize,
    /// What the driver said to a fetch that it did not take; 0: it took all.
    refusal: Arc<AtomicI32>,
    /// There is something to do although nothing comes in.
    hurry: bool,
    /// Something was pushed.
    pushed: bool,
    closing: bool,
    dead: bool,
}

/// Where a tag is on its round.
#[derive(Debug)]
enum Tag {
    /// A fetch waits with the driver.
    Fetching(Buffer),
    /// Its request is an I/O that has no use for the buffer.
    WithoutData(UblkRequest, Buffer),
    /// Its request is an I/O that has the buffer.
    WithData(UblkRequest),
    Gone,
}

impl<R: Ring> Queue<R> {
    /// `request_max`: bytes of the longest request.
    pub fn new(
        ring: R,
        depth: u16,
        request_max: u32,
        view: View,
        info: ConnectionInfo,
    ) -> Queue<R> {
        let tags = (0..depth).map(|_| Tag::Fetching(Buffer::zeroed(request_max as usize)));
        Queue {
            ring,
            view,
            info: Some(info),
            session: 0,
            tenant: None,
            tags: tags.collect(),
            busy: 0,
            gone: 0,
            refusal: Arc::default(),
            hurry: false,
            pushed: false,
            closing: false,
            dead: false,
        }
    }

    /// Where it says that the driver did not take its fetches; told when it has arrived.
    pub fn refusal(&self) -> Arc<AtomicI32> {
        Arc::clone(&self.refusal)
    }

    fn push(&mut self, command: QueueCommand) {
        self.ring.push(command);
        self.pushed = true;
    }

    /// A fetch is over: a request has come, or the end.
    fn fetched(&mut self, core: &mut Core, tag: u16, result: i32) {
        let at = usize::from(tag);
        let Some(Tag::Fetching(buffer)) = self.tags.get_mut(at) else {
            // A driver that says so speaks another language.
            self.dead = true;
            return;
        };
        let mut buffer = std::mem::take(buffer);
        if result != 0 {
            if result != GONE {
                self.refusal.store(result, Ordering::SeqCst);
            }
            self.tags[at] = Tag::Gone;
            self.gone += 1;
            return;
        }
        let checked = self.ring.request(tag).and_then(|r| self.check(&r, &buffer).map(|()| r));
        let request = match checked {
            Ok(request) => request,
            Err(errno) => return self.commit(tag, -errno.raw_os_error(), buffer),
        };
        let len = u64::from(request.sectors) * 512;
        let room = buffer.len();
        let data = matches!(request.op, Op::Read | Op::Write);
        let mine = if data {
            buffer.set_len(len as usize);
            self.tags[at] = Tag::WithData(request);
            buffer
        } else {
            debug_assert_eq!(room, buffer.len());
            self.tags[at] = Tag::WithoutData(request, buffer);
            Buffer::empty()
        };
        self.busy += 1;
        let order = IoRequest {
            op: self.op(&request),
            offset: if request.op == Op::Flush { 0 } else { self.offset(&request) },
            len: if request.op == Op::Flush { 0 } else { len },
            flags: flags(&request),
            buffer: mine,
            reply_to: ReplyTo::Session { session: self.session, cookie: tag.into() },
        };
        if let Some(tenant) = self.tenant {
            core.submit(tenant, order);
            self.hurry = true;
        }
    }

    /// The driver keeps to what we told it; who does not gets an error, and nobody else's bytes.
    fn check(&self, request: &UblkRequest, buffer: &Buffer) -> Result<(), Errno> {
        let len = u64::from(request.sectors) * 512;
        let end = request.start.checked_mul(512).and_then(|at| at.checked_add(len));
        let data = matches!(request.op, Op::Read | Op::Write);
        if request.op == Op::Flush {
            Ok(())
        } else if self.closing {
            Err(Errno::SHUTDOWN)
        } else if self.view.read_only && request.op != Op::Read {
            Err(Errno::ROFS)
        } else if len == 0
            || end.is_none_or(|end| end > self.view.size)
            || (data && len > buffer.len() as u64)
        {
            Err(Errno::INVAL)
        } else {
            Ok(())
        }
    }

    fn offset(&self, request: &UblkRequest) -> u64 {
        self.view.offset + request.start * 512
    }

    fn op(&self, request: &UblkRequest) -> Op {
        match request.op {
            Op::WriteZeroes => self.view.zeroing(!request.keep),
            other => other,
        }
    }

    /// Gives a result to the driver; the tag then waits for its next request.
    fn commit(&mut self, tag: u16, result: i32, mut buffer: Buffer) {
        let room = buffer.room();
        buffer.set_len(room);
        let address = buffer.as_ptr() as u64;
        self.tags[usize::from(tag)] = Tag::Fetching(buffer);
        self.push(QueueCommand::Commit { tag, result, address });
    }
}

/// A driver that was not stopped may copy a request into the buffer of a tag until it has noticed that the
/// ring is closed, which happens later and elsewhere: such buffers are left to it.
impl<R> Drop for Queue<R> {
    fn drop(&mut self) {
        for tag in self.tags.drain(..) {
            if let Tag::Fetching(buffer) = tag {
                std::mem::forget(buffer);
            }
        }
    }
}

fn flags(request: &UblkRequest) -> Flags {
    let flags = match request.op {
        Op::Read | Op::Discard => Flags::NONE,
        Op::Flush => Flags::PREFLUSH,
        Op::Write | Op::WriteZeroes => WRITE,
    };
    let durable = request.durable && matches!(request.op, Op::Write | Op::WriteZeroes);
    if durable { flags | Flags::FUA } else { flags }
}

impl<R: Ring> Session for Queue<R> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// All fetches are sent: the device can be started.
    fn arrived(&mut self, session: u64, core: &mut Core) {
        self.session = session;
        self.tenant = Some(self.view.admit(core, self.info.take()));
        // The kernel above may need this thread to get memory back.
        io_flusher();
        for (number, tag) in (0..).zip(&self.tags) {
            if let Tag::Fetching(buffer) = tag {
                let address = buffer.as_ptr() as u64;
                self.ring.push(QueueCommand::Fetch { tag: number, address });
            }
        }
        if let Err(errno) = self.ring.submit() {
            self.refusal.store(-errno.raw_os_error(), Ordering::SeqCst);
            self.dead = true;
        }
        // A fetch that is refused is over at once.
        while let Some((tag, result)) = self.ring.completion() {
            self.fetched(core, tag, result);
        }
    }

    fn read(&mut self, core: &mut Core, _scratch: Option<&mut [u8]>) {
        let Some(tenant) = self.tenant else { return };
        let mut left = COMPLETIONS;
        core.begin_batch(tenant);
        while left > 0
            && let Some((tag, result)) = self.ring.completion()
        {
            self.fetched(core, tag, result);
            left -= 1;
        }
        core.end_batch(tenant);
        // The turn goes on with what was submitted here; completions that are left wait for the next.
        self.hurry = left == 0;
    }

    fn finished(&mut self, _core: &mut Core, cookie: u64, io: Finished) {
        let Finished { result, buffer, .. } = io;
        let tag = &mut self.tags[cookie as usize];
        let (request, buffer) = match std::mem::replace(tag, Tag::Gone) {
            Tag::WithData(request) => (request, buffer),
            Tag::WithoutData(request, kept) => (request, kept),
            other => panic!("an I/O of tag {cookie} finished, which is {other:?}"),
        };
        self.busy -= 1;
        let result = match result {
            // As much as was asked for: at most the 2^32 sectors of a discard, which count as done.
            Ok(()) => i32::try_from(u64::from(request.sectors) * 512).unwrap_or(i32::MAX),
            Err(errno) => -errno.raw_os_error(),
        };
        self.commit(cookie as u16, result, buffer);
    }

    fn hung_up(&mut self) {
        self.dead = true;
    }

    fn settle(&mut self, _core: &mut Core, _ring: Option<&mut SocketRing>) -> SessionState {
        if std::mem::take(&mut self.pushed) && self.ring.submit().is_err() {
            self.dead = true;
        }
        let over = self.gone == self.tags.len() || self.dead || self.closing;
        if over && self.busy == 0 {
            return SessionState::Gone;
        }
        if std::mem::take(&mut self.hurry) {
            return SessionState::Ready;
        }
        SessionState::Waits { read: true, write: false }
    }

    /// The device ought to have been stopped before. If not, what is under way is finished; the driver
    /// fails the rest when the ring closes.
    fn close_down(&mut self) {
        self.closing = true;
    }

    fn left(&mut self, core: &mut Core) {
        if let Some(tenant) = self.tenant.take() {
            core.close_tenant(tenant);
        }
    }
}

#[cfg(test)]
mod tests;
