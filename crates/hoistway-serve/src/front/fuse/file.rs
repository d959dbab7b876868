//! One export as a file: a session on the owner thread of its device.
//!
//! A file can be read and written at any byte, a device only in blocks. Reads fetch the blocks around
//! them. A write that covers only a part of its first or last block reads that block first; meanwhile
//! nobody else changes it (`range`). Everything else goes to the device at once, as many requests
//! together as the kernel sends.

use super::inbox::{FileRequest, FuseInbox, FuseReply, Operation};
use super::range::{Claims, Span};
use crate::device::{
    ConnectionInfo, Core, ExtentsRequest, Finished, IoRequest, ReplyTo, Session, SessionState,
    TenantId, WRITE,
};
use crate::front::View;
use crate::storage::Extent;
use crate::system::Slab;
use crate::system::thread::io_flusher;
use crate::system::wall_clock;
use crate::system::{Buffer, SocketRing};
use fuser::{FileAttr, FileType, INodeNo};
use hoistway::{Flags, Op};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::SystemTime;

/// What a file looks like from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileIdentity {
    pub ino: u64,
    pub uid: u32,
    pub gid: u32,
    /// Permission bits.
    pub perm: u16,
    pub born: SystemTime,
}

#[derive(Debug)]
pub(super) struct File {
    inbox: Arc<FuseInbox>,
    view: View,
    identity: FileIdentity,
    /// Bytes per block of the device.
    block: u64,
    info: Option<ConnectionInfo>,
    session: u64,
    tenant: Option<TenantId>,

    jobs: Slab<FileJob>,
    claims: Claims,
    /// Asks of this turn.
    requests: Vec<FileRequest>,
    /// Jobs whose claim was granted.
    granted: Vec<u32>,
    changed: SystemTime,

    /// There is something to do although nothing comes in.
    hurry: bool,
    closing: bool,
}

/// A request under way.
#[derive(Debug)]
struct FileJob {
    reply: FuseReply,
    kind: JobKind,
    /// The bytes that were asked for, within the export.
    span: Span,
    /// Requests that are not over.
    steps: u32,
    /// The first error.
    error: Option<Errno>,
}

#[derive(Debug)]
enum JobKind {
    Read,
    /// The buffer covers whole blocks; it is the device's while it is written.
    Write {
        buffer: Buffer,
        flags: Flags,
    },
    Zero(Op),
    Flush,
    /// The next data, or hole.
    Seek {
        hole: bool,
    },
    Attributes,
}

/// What an order does for its job; with the job's number it makes the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileStep {
    /// The whole of it.
    Main,
    /// Reads a block that changes in part.
    Fetch,
    /// Writes such a block back.
    Restore,
}

/// Requests per turn, so that a flood of them does not starve the other sessions.
const REQUESTS: usize = 256;
/// Extents that are counted for the allocated blocks; what lies behind them counts as stored.
const EXTENTS_COUNTED: usize = 1024;

impl File {
    pub fn new(
        inbox: Arc<FuseInbox>,
        view: View,
        block: u32,
        identity: FileIdentity,
        info: ConnectionInfo,
    ) -> File {
        File {
            inbox,
            view,
            identity,
            block: block.into(),
            info: Some(info),
            session: 0,
            tenant: None,
            jobs: Slab::with_capacity(64),
            claims: Claims::default(),
            requests: Vec::with_capacity(REQUESTS),
            granted: Vec::new(),
            changed: identity.born,
            hurry: false,
            closing: false,
        }
    }

    /// Takes one request.
    fn take(&mut self, core: &mut Core, request: FileRequest) {
        let FileRequest { what, reply } = request;
        match what {
            Operation::Attributes => {
                let most = EXTENTS_COUNTED;
                self.look_up(core, reply, JobKind::Attributes, 0, most);
            }
            Operation::Seek { offset, .. } if offset >= self.view.size => {
                reply.error(Errno::NXIO.raw_os_error());
            }
            Operation::Seek { offset, hole } => {
                self.look_up(core, reply, JobKind::Seek { hole }, offset, 1);
            }
            Operation::Flush if self.view.read_only => reply.done(0),
            Operation::Flush => self.admit(core, reply, JobKind::Flush, 0, 0),
            Operation::Read { offset, len } => {
                let end = offset.saturating_add(len).min(self.view.size);
                if offset >= end {
                    return reply.data(&[]);
                }
                self.admit(core, reply, JobKind::Read, offset, end);
            }
            Operation::Write { offset, len, buffer, durable } => {
                if let Some(errno) = self.unwritable(offset, len) {
                    self.inbox.give_back(buffer);
                    return reply.error(errno.raw_os_error());
                }
                let flags = if durable { WRITE | Flags::FUA } else { WRITE };
                self.admit(core, reply, JobKind::Write { buffer, flags }, offset, offset + len);
            }
            Operation::Zero { offset, len, hole } => {
                let end = offset.saturating_add(len).min(self.view.size);
                if self.view.read_only {
                    return reply.error(Errno::ROFS.raw_os_error());
                }
                if offset >= end {
                    // Behind the end of a file there is nothing, before and afterwards.
                    return reply.done(0);
                }
                let zero = JobKind::Zero(self.view.zeroing(hole));
                self.admit(core, reply, zero, offset, end);
            }
        }
    }

    /// Why nothing can be written there. The threads that read requests have cut the range at the end of the file.
    fn unwritable(&self, offset: u64, len: u64) -> Option<Errno> {
        if self.view.read_only {
            Some(Errno::ROFS)
        } else if len == 0 || offset + len > self.view.size {
            Some(Errno::NOSPC)
        } else {
            None
        }
    }

    fn admit(&mut self, core: &mut Core, reply: FuseReply, kind: JobKind, start: u64, end: u64) {
        let span = Span { start, end, block: self.block };
        let changes = matches!(kind, JobKind::Write { .. } | JobKind::Zero(_));
        let slot = self.jobs.insert(FileJob { reply, kind, span, steps: 0, error: None });
        if !changes || self.claims.claim(slot, span, !span.is_aligned()) {
            self.start(core, slot);
        }
    }

    /// Sends the first requests of a job.
    fn start(&mut self, core: &mut Core, slot: u32) {
        let job = self.jobs.get_mut(slot).expect("a job lives until it is answered");
        let span = job.span;
        let whole = (span.outer_start(), span.outer_end() - span.outer_start());
        match &mut job.kind {
            JobKind::Flush => {
                self.order(core, slot, FileStep::Main, Op::Flush, (0, 0), Buffer::empty());
            }
            JobKind::Read => {
                let buffer = core.pool.take(whole.1 as usize);
                self.order(core, slot, FileStep::Main, Op::Read, whole, buffer);
            }
            JobKind::Write { buffer, .. } if span.is_aligned() => {
                let buffer = std::mem::take(buffer);
                self.order(core, slot, FileStep::Main, Op::Write, whole, buffer);
            }
            JobKind::Write { .. } => self.fetch(core, slot, span),
            JobKind::Seek { .. } | JobKind::Attributes => {
                unreachable!("lookups are started where they are asked for")
            }
            JobKind::Zero(op) => {
                let (op, (from, to)) = (*op, span.inner());
                self.fetch(core, slot, span);
                if from < to {
                    self.order(core, slot, FileStep::Main, op, (from, to - from), Buffer::empty());
                }
            }
        }
    }

    /// Reads the blocks that change in part.
    fn fetch(&mut self, core: &mut Core, slot: u32, span: Span) {
        for at in span.partial().into_iter().flatten() {
            let buffer = core.pool.take(self.block as usize);
            self.order(core, slot, FileStep::Fetch, Op::Read, (at, self.block), buffer);
        }
    }

    fn order(
        &mut self,
        core: &mut Core,
        slot: u32,
        step: FileStep,
        op: Op,
        (offset, len): (u64, u64),
        buffer: Buffer,
    ) {
        let job = self.jobs.get_mut(slot).expect("a job lives until it is answered");
        job.steps += 1;
        let flags = match (&job.kind, op) {
            (_, Op::Read) => Flags::NONE,
            (_, Op::Flush) => Flags::PREFLUSH,
            (JobKind::Write { flags, .. }, _) => *flags,
            _ => WRITE,
        };
        let cookie = cookie(slot, step, offset != job.span.outer_start());
        let order = IoRequest {
            op,
            offset: if op == Op::Flush { 0 } else { self.view.offset + offset },
            len,
            flags,
            buffer,
            reply_to: ReplyTo::Session { session: self.session, cookie },
        };
        if let Some(tenant) = self.tenant {
            core.submit(tenant, order);
        }
        self.hurry = true;
    }

    /// A block that changes in part is there, at that place.
    fn fetched(&mut self, core: &mut Core, slot: u32, at: u64, mut block: Buffer) {
        let job = self.jobs.get_mut(slot).expect("a job lives until it is answered");
        let span = job.span;
        // What is asked for, within the block.
        let from = (span.start.max(at) - at) as usize;
        let to = (span.end.min(at + self.block) - at) as usize;
        match &mut job.kind {
            JobKind::Write { buffer, .. } => {
                let place = (at - span.outer_start()) as usize;
                let image = &mut buffer[place..place + block.len()];
                image[..from].copy_from_slice(&block[..from]);
                image[to..].copy_from_slice(&block[to..]);
                core.pool.give(block);
            }
            _ => {
                block[from..to].fill(0);
                let range = (at, self.block);
                self.order(core, slot, FileStep::Restore, Op::Write, range, block);
            }
        }
    }

    /// One step of a job is over; perhaps the job.
    fn step_over(&mut self, core: &mut Core, slot: u32) {
        let job = self.jobs.get_mut(slot).expect("a job lives until it is answered");
        job.steps -= 1;
        if job.steps > 0 {
            return;
        }
        if let (JobKind::Write { buffer, .. }, None) = (&mut job.kind, job.error)
            && !buffer.is_empty()
        {
            // Its last block has been fetched.
            let (buffer, span) = (std::mem::take(buffer), job.span);
            let range = (span.outer_start(), span.outer_end() - span.outer_start());
            return self.order(core, slot, FileStep::Main, Op::Write, range, buffer);
        }
        self.answer(core, slot);
    }

    fn answer(&mut self, core: &mut Core, slot: u32) {
        let job = self.jobs.remove(slot).expect("a job is answered once");
        let FileJob { reply, kind, span, error, .. } = job;
        match error {
            Some(errno) => reply.error(errno.raw_os_error()),
            None => reply.done(span.end - span.start),
        }
        match kind {
            JobKind::Write { buffer, .. } => self.inbox.give_back(buffer),
            JobKind::Zero(_) => {}
            JobKind::Read | JobKind::Flush | JobKind::Seek { .. } | JobKind::Attributes => return,
        }
        self.changed = wall_clock();
        let mut granted = std::mem::take(&mut self.granted);
        self.claims.release(slot, &mut granted);
        for next in granted.drain(..) {
            self.start(core, next);
        }
        self.granted = granted;
    }

    /// Asks what is stored from there to the end.
    fn look_up(
        &mut self,
        core: &mut Core,
        reply: FuseReply,
        kind: JobKind,
        from: u64,
        most: usize,
    ) {
        let (offset, len) = (self.view.offset + from, self.view.size - from);
        let span = Span { start: from, end: self.view.size, block: self.block };
        let slot = self.jobs.insert(FileJob { reply, kind, span, steps: 1, error: None });
        let reply_to =
            ReplyTo::Session { session: self.session, cookie: cookie(slot, FileStep::Main, false) };
        if let Some(tenant) = self.tenant {
            core.submit_lookup(tenant, ExtentsRequest { offset, len, most, reply_to });
        }
        self.hurry = true;
    }

    /// What is stored is known, or why not.
    fn looked_up(&mut self, slot: u32, result: Result<Vec<Extent>, Errno>) {
        let job = self.jobs.remove(slot).expect("a job is answered once");
        match (job.kind, result) {
            (JobKind::Seek { hole }, Ok(extents)) => {
                match next_of_kind(&extents, job.span.start, self.view.size, hole) {
                    Ok(at) => job.reply.done(at),
                    Err(errno) => job.reply.error(errno.raw_os_error()),
                }
            }
            (JobKind::Seek { .. }, Err(errno)) => job.reply.error(errno.raw_os_error()),
            (_, result) => {
                // Without an answer all counts as stored: whoever reads it will see the error.
                let extents = result.unwrap_or_default();
                let holes: u64 = extents.iter().filter(|e| e.hole).map(|e| e.len).sum();
                job.reply.attributes(&self.attributes(self.view.size - holes));
            }
        }
    }

    /// `stored`: bytes that take room.
    fn attributes(&self, stored: u64) -> FileAttr {
        let FileIdentity { ino, uid, gid, perm, born } = self.identity;
        FileAttr {
            ino: INodeNo(ino),
            size: self.view.size,
            blocks: stored.div_ceil(512),
            atime: born,
            mtime: self.changed,
            ctime: self.changed,
            crtime: born,
            kind: FileType::RegularFile,
            perm,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: self.block.max(4096) as u32,
            flags: 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }
}

impl Session for File {
    fn fd(&self) -> BorrowedFd<'_> {
        self.inbox.fd()
    }

    fn arrived(&mut self, session: u64, core: &mut Core) {
        self.session = session;
        self.tenant = Some(self.view.admit(core, self.info.take()));
        // The kernel above may need this thread to get memory back.
        io_flusher();
    }

    fn read(&mut self, core: &mut Core, _scratch: Option<&mut [u8]>) {
        let Some(tenant) = self.tenant else { return };
        let mut requests = std::mem::take(&mut self.requests);
        let more = self.inbox.take(&mut requests, REQUESTS);
        core.begin_batch(tenant);
        for request in requests.drain(..) {
            self.take(core, request);
        }
        core.end_batch(tenant);
        self.requests = requests;
        // The turn goes on with what was submitted here.
        self.hurry = more;
    }

    fn finished(&mut self, core: &mut Core, cookie: u64, io: Finished) {
        let Finished { result, buffer, extents, .. } = io;
        let (slot, step, last) = uncooked(cookie);
        let job = self.jobs.get_mut(slot).expect("a job lives until it is answered");
        if matches!(job.kind, JobKind::Seek { .. } | JobKind::Attributes) {
            return self.looked_up(slot, result.map(|()| extents));
        }
        if let Err(errno) = result {
            job.error.get_or_insert(errno);
        }
        match (step, &mut job.kind) {
            (FileStep::Main, JobKind::Read) if job.error.is_none() => {
                let (job, first) = (self.jobs.remove(slot), buffer);
                let FileJob { reply, span, .. } = job.expect("looked at just now");
                let from = (span.start - span.outer_start()) as usize;
                reply.data(&first[from..from + (span.end - span.start) as usize]);
                return core.pool.give(first);
            }
            (FileStep::Fetch, _) if job.error.is_none() => {
                let span = job.span;
                let at = if last { span.outer_end() - self.block } else { span.outer_start() };
                self.fetched(core, slot, at, buffer);
            }
            (FileStep::Main, JobKind::Write { .. }) => self.inbox.give_back(buffer),
            _ => core.pool.give(buffer),
        }
        self.step_over(core, slot);
    }

    /// An eventfd has no other side.
    fn hung_up(&mut self) {}

    fn settle(&mut self, _core: &mut Core, _ring: Option<&mut SocketRing>) -> SessionState {
        if std::mem::take(&mut self.hurry) {
            return SessionState::Ready;
        }
        if self.closing && self.is_idle() {
            return SessionState::Gone;
        }
        SessionState::Waits { read: true, write: false }
    }

    fn close_down(&mut self) {
        self.closing = true;
        self.inbox.close();
        // Look at what is there once more.
        self.hurry = true;
    }

    fn left(&mut self, core: &mut Core) {
        if let Some(tenant) = self.tenant.take() {
            core.close_tenant(tenant);
        }
    }
}

/// However it ends, nobody waits for ever.
impl Drop for File {
    fn drop(&mut self) {
        self.inbox.shut();
        for job in self.jobs.drain() {
            job.reply.error(libc::ESHUTDOWN);
        }
    }
}

/// The first place of that kind at or behind `offset`, of which the first extent is known; the end of a
/// file of `size` bytes is a hole.
fn next_of_kind(extents: &[Extent], offset: u64, size: u64, hole: bool) -> Result<u64, Errno> {
    let first = extents.first().ok_or(Errno::IO)?;
    match (first.hole == hole, offset + first.len >= size) {
        (true, _) => Ok(offset),
        (false, true) if hole => Ok(size),
        (false, true) => Err(Errno::NXIO),
        (false, false) => Ok(offset + first.len),
    }
}

fn cookie(slot: u32, step: FileStep, last: bool) -> u64 {
    u64::from(slot) << 3 | u64::from(last) << 2 | step as u64
}

fn uncooked(cookie: u64) -> (u32, FileStep, bool) {
    let step = match cookie & 3 {
        0 => FileStep::Main,
        1 => FileStep::Fetch,
        _ => FileStep::Restore,
    };
    ((cookie >> 3) as u32, step, cookie & 4 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::device::{Device, DeviceOptions, Message};
    use crate::front::Export;
    use hoistway::sched;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    type Answer = Receiver<Result<Vec<u8>, i32>>;

    /// A file without a kernel above it.
    struct Site {
        inbox: Arc<FuseInbox>,
        export: Export,
    }

    const SIZE: u64 = 64 << 10;

    fn site(scheduler: &str) -> Site {
        let options = DeviceOptions::new(sched::find(scheduler).unwrap());
        let device = Device::open(&Target::Ram { size: 1 << 20 }, &options).unwrap();
        let mut export = Export::new("disk", device);
        (export.offset, export.size) = (4096, Some(SIZE));
        let inbox = Arc::new(FuseInbox::new().unwrap());
        let identity =
            FileIdentity { ino: 2, uid: 0, gid: 0, perm: 0o600, born: SystemTime::UNIX_EPOCH };
        let info =
            ConnectionInfo { connection: 0, export: "disk".into(), peer: "fuse test".into() };
        let file = File::new(Arc::clone(&inbox), export.view().unwrap(), 512, identity, info);
        export.device.send(Message::Session(Box::new(file))).unwrap();
        Site { inbox, export }
    }

    impl Site {
        fn request(&self, what: Operation) -> Answer {
            let (send, answer) = channel();
            self.inbox.push(FileRequest { what, reply: FuseReply::Test(send) });
            answer
        }

        fn write(&self, offset: u64, bytes: &[u8]) -> Answer {
            let (len, end) = (bytes.len() as u64, offset + bytes.len() as u64);
            let span = Span { start: offset, end, block: 512 };
            let first = span.outer_start();
            let mut buffer = self.inbox.buffer((span.outer_end() - first) as usize);
            let at = (offset - first) as usize;
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            self.request(Operation::Write { offset, len, buffer, durable: false })
        }
    }

    fn answer(from: &Answer) -> Result<Vec<u8>, i32> {
        from.recv_timeout(Duration::from_secs(20)).expect("every request is answered")
    }

    /// Hundreds of requests are laid down before any is answered. Writes interleave in odd stripes, so
    /// that almost each shares its first and last block with others; nobody may lose a byte.
    #[test]
    fn writes_under_way_together_do_not_lose_each_other() {
        for (scheduler, stripe) in [("none", 37u64), ("bfq", 700), ("mq-deadline", 1025)] {
            let site = site(scheduler);
            let mut shadow = vec![0u8; SIZE as usize];
            for round in 0..10u64 {
                let mut answers = Vec::new();
                // Backwards, so that the order of asking is not that of the blocks.
                for n in (0..SIZE / stripe).rev() {
                    let (at, len) = (n * stripe, stripe as usize);
                    let range = at as usize..at as usize + len;
                    if (n + round).is_multiple_of(5) {
                        let hole = n.is_multiple_of(2);
                        shadow[range].fill(0);
                        answers.push(site.request(Operation::Zero {
                            offset: at,
                            len: stripe,
                            hole,
                        }));
                    } else {
                        shadow[range.clone()].fill((1 + n + round) as u8);
                        answers.push(site.write(at, &shadow[range]));
                    }
                }
                answers.push(site.request(Operation::Flush));
                for from in answers {
                    answer(&from).unwrap();
                }
                let all = answer(&site.request(Operation::Read { offset: 0, len: SIZE })).unwrap();
                assert!(all == shadow, "{scheduler}, stripes of {stripe}, round {round}");
            }
            let client = site.export.device.client(hoistway::IoPrio::NONE).unwrap();
            let mut before = vec![9; 4096];
            client.read(0, &mut before).unwrap();
            assert!(before.iter().all(|&b| b == 0), "what is not of the export is left alone");
        }
    }

    #[test]
    fn whoever_comes_too_late_is_told_so() {
        let site = site("none");
        assert_eq!(answer(&site.write(1, b"abc")), Ok(3u64.to_le_bytes().to_vec()));
        let pending: Vec<_> = (0..100).map(|n| site.write(n * 7, b"abcdefg")).collect();
        site.export.device.close().unwrap();
        for from in pending {
            answer(&from).expect("it was taken before the end");
        }
        assert_eq!(answer(&site.write(1, b"abc")), Err(libc::ESHUTDOWN));
        assert_eq!(answer(&site.request(Operation::Attributes)), Err(libc::ESHUTDOWN));
    }

    #[test]
    fn a_part_that_cannot_be_served_is_an_error_and_nothing_else_waits_for_it() {
        let site = site("none");
        let late = Operation::Zero { offset: SIZE, len: 5, hole: true };
        assert!(answer(&site.request(late)).is_ok(), "a hole behind the end is one already");
        let behind = Operation::Read { offset: SIZE - 5, len: 10 };
        assert_eq!(answer(&site.request(behind)), Ok(vec![0; 5]));
        assert_eq!(
            answer(&site.request(Operation::Seek { offset: SIZE, hole: false })),
            Err(libc::ENXIO)
        );
        assert_eq!(answer(&site.write(SIZE - 2, b"abc")), Err(libc::ENOSPC));
        assert!(answer(&site.write(SIZE - 3, b"abc")).is_ok());
    }
}
