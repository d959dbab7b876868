//! Stack, backend and the I/Os between them: everything of a device that runs on its owner thread,
//! but for waiting.
//!
//! Submitters appear as *tenants*: a process of the stack with its group and priority. As in the kernel,
//! a tenant whose I/O has to wait for a tag or a controller is stopped ([`Output::Accepted`]); what it
//! submits meanwhile waits in its own backlog, not in the shared queue of the tag.

use super::counters::{Departed, IoCounters, IoTimes};
use super::pending::Reply;
use super::report::ConnectionInfo;
use super::settings::{DeviceOptions, GroupRecord};
use super::watchdog::Watchdog;
use crate::buffer::{Buffer, Part, Pool};
use crate::clock::Clock;
use crate::error::LiveError;
use crate::storage::{Backend, Command, Done, Facts, Opened};
use hoistway::stack::{IoError, StackError};
use hoistway::stage::Change;
use hoistway::table::{Handle, Table};
use hoistway::{Flags, GroupId, Input, Instant, Io, IoId, IoPrio, Op, Output, ProcId, ReqId};
use hoistway::{Sectors, Stack};
use rustix::io::Errno;
use std::collections::VecDeque;

/// What a tenant wants done.
#[derive(Debug)]
pub(crate) struct IoRequest {
    pub op: Op,
    /// First byte; a multiple of the device's block, as is the length.
    pub offset: u64,
    pub len: u64,
    pub flags: Flags,
    /// The data of a write, or room for that of a read.
    pub buffer: Buffer,
    pub reply_to: ReplyTo,
}

/// Who is to be told.
#[derive(Debug)]
pub(crate) enum ReplyTo {
    /// Somebody in another thread.
    Caller(Reply),
    /// A session of the owner thread; the cookie is its own.
    Session { session: u64, cookie: u64 },
}

/// An I/O under way.
#[derive(Debug)]
struct Live {
    op: Op,
    start: Sectors,
    len: u64,
    buffer: Buffer,
    reply_to: ReplyTo,
    tenant: TenantId,
    taken: Instant,
    /// When its first bio went to the device; [`Instant::ZERO`]: not yet.
    issued: Instant,
    /// The first error the backend reported for this very I/O.
    errno: Option<Errno>,
}

/// An I/O that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub reply_to: ReplyTo,
    pub buffer: Buffer,
    pub result: Result<(), Errno>,
}

/// A submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TenantId(Handle);

#[derive(Debug)]
pub(super) struct Tenant {
    pub proc: ProcId,
    pub group: GroupId,
    pub prio: IoPrio,
    /// Who it is, if it came from outside.
    pub info: Option<ConnectionInfo>,
    /// Its last I/O is not accepted yet.
    blocked: Option<IoId>,
    /// A controller's wish: nothing before then.
    delay: Instant,
    /// Requests and when they were taken.
    pub backlog: VecDeque<(Instant, IoRequest)>,
    pub in_flight: u32,
    closing: bool,
    /// Failed flushes it knows of, or that were before its time.
    sync_failures: u64,
    pub measure: IoCounters,
}

/// A request that failed: its bios are tried one by one, so that each I/O gets its own result. A durable
/// write is tried as a plain write with a flush behind it: only so can be told whether the write failed,
/// which is its own misfortune, or the sync behind it, which concerns everybody.
#[derive(Debug)]
struct Retry {
    tag: u64,
    pieces: Vec<(IoId, Sectors, Sectors)>,
    /// Counts to one beyond the pieces while the flush behind durable ones is under way.
    next: usize,
    durable: bool,
    /// Pieces that failed again.
    failed: usize,
    /// What the request failed with.
    errno: Errno,
}

/// Failed flushes. The kernel tells each of them once and then takes what it could not write for
/// written; all tenants share one file, so they are remembered here until each tenant has been told.
#[derive(Clone, Copy, Debug)]
struct SyncFailures {
    count: u64,
    last: Errno,
    /// Somebody who is still there has been told of the last one. Until then a tenant that comes anew
    /// is told too: it may be the client whose connection broke over it.
    told: bool,
}

#[derive(Debug)]
pub(crate) struct Core {
    // First, so that nothing is under way any more when the buffers are freed.
    backend: Box<dyn Backend>,
    pub facts: Facts,
    pub pool: Pool,
    clock: Clock,
    now: Instant,
    /// When the commands that are done were looked for last: their I/Os are over then.
    answered: Instant,
    pub(super) stack: Stack,
    pub(super) groups: Vec<GroupRecord>,
    /// A change of scheduler waits until the stack is empty; settings of groups follow it.
    pub(super) switching: Option<Vec<(String, u64)>>,

    ios: Table<Live>,
    tenants: Table<Tenant>,
    /// Process ids of tenants that left, by group and priority.
    procs: Vec<(GroupId, IoPrio, ProcId)>,
    /// Tenants that may go on.
    ready: VecDeque<TenantId>,
    /// Tenants a controller delays.
    delayed: Vec<TenantId>,
    finished: VecDeque<Finished>,
    retries: Vec<Retry>,
    syncs: SyncFailures,
    pub(super) departed: Departed,
    pub(super) watchdog: Watchdog,
    wake: Option<Instant>,
    /// The last turn left something to do.
    more: bool,

    done: Vec<Done>,
    parts: Vec<Part>,
}

/// Answers that end a turn.
const ANSWERS: usize = 32;

impl Core {
    pub fn new(opened: Opened, options: &DeviceOptions) -> Result<Core, LiveError> {
        let Opened { backend, device, facts } = opened;
        let mut stack = Stack::new(device, options.scheduler, 4096);
        options.apply(&mut stack)?;
        Ok(Core {
            backend,
            facts,
            pool: Pool::new(),
            clock: Clock::new(),
            now: Instant::ZERO,
            answered: Instant::ZERO,
            stack,
            groups: Vec::new(),
            switching: None,
            ios: Table::with_capacity(1024),
            tenants: Table::with_capacity(16),
            procs: Vec::new(),
            ready: VecDeque::new(),
            delayed: Vec::new(),
            finished: VecDeque::with_capacity(1024),
            retries: Vec::new(),
            syncs: SyncFailures { count: 0, last: Errno::IO, told: true },
            departed: Departed::default(),
            watchdog: Watchdog::new(options.stall_limit, options.tell),
            wake: None,
            more: false,
            done: Vec::with_capacity(256),
            parts: Vec::with_capacity(128),
        })
    }

    /// Reads the clock: once per turn.
    pub fn read_clock(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub fn backend_mut(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }

    /// Leaves behind what the storage may still work on; whoever waits for it hears ESHUTDOWN.
    pub fn give_up(self) {
        let Core { backend, mut ios, .. } = self;
        // Closing it would wait for what does not come.
        std::mem::forget(backend);
        for slot in 0..ios.capacity() as u32 {
            if let Some(live) = ios.handle(slot).and_then(|at| ios.remove(at)) {
                std::mem::forget(live.buffer);
            }
        }
    }

    /// The device has that many bytes from now on.
    pub fn resize(&mut self, size: u64) {
        self.facts.size = size;
        let capacity = Sectors(size / 512);
        self.stack.change(self.now, Change::Device, |env| env.device.capacity = capacity);
        self.drain();
    }

    // Tenants.

    pub fn add_tenant(&mut self, group: GroupId, prio: IoPrio) -> TenantId {
        let known = self.procs.iter().position(|&(g, p, _)| (g, p) == (group, prio));
        let proc = match known {
            Some(at) => self.procs.swap_remove(at).2,
            None => self.stack.add_proc(group, prio),
        };
        if self.tenants.len() == self.tenants.capacity() {
            self.tenants.grow(2 * self.tenants.capacity());
        }
        let tenant = Tenant {
            proc,
            group,
            prio,
            info: None,
            blocked: None,
            delay: Instant::ZERO,
            backlog: VecDeque::new(),
            in_flight: 0,
            closing: false,
            sync_failures: self.syncs.count - u64::from(!self.syncs.told),
            measure: IoCounters::default(),
        };
        TenantId(self.tenants.insert(tenant).expect("the table has just grown"))
    }

    pub(super) fn tenant_mut(&mut self, id: TenantId) -> Option<&mut Tenant> {
        self.tenants.get_mut(id.0)
    }

    pub(super) fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        let slots = 0..self.tenants.capacity() as u32;
        slots.filter_map(|slot| self.tenants.get(self.tenants.handle(slot)?))
    }

    pub(super) fn tenants_mut(&mut self) -> impl Iterator<Item = &mut Tenant> {
        self.tenants.iter_mut()
    }

    /// The tenant submits no more; it is forgotten when its last I/O is over.
    pub fn close_tenant(&mut self, id: TenantId) {
        if let Some(tenant) = self.tenants.get_mut(id.0) {
            tenant.closing = true;
        }
        self.forget_if_over(id);
    }

    fn forget_if_over(&mut self, id: TenantId) {
        let over = |t: &Tenant| t.closing && t.in_flight == 0 && t.backlog.is_empty();
        if self.tenants.get(id.0).is_some_and(over)
            && let Some(t) = self.tenants.remove(id.0)
        {
            let export = t.info.as_ref().map_or("", |l| &l.export);
            self.departed.add(export, t.group, &t.measure);
            self.procs.push((t.group, t.prio, t.proc));
        }
    }

    /// What `id` submits until `end_batch` belongs together: neighbours may merge.
    pub fn begin_batch(&mut self, id: TenantId) {
        if let Some(t) = self.tenants.get(id.0) {
            self.input(Input::Plug(t.proc));
        }
    }

    pub fn end_batch(&mut self, id: TenantId) {
        if let Some(t) = self.tenants.get(id.0) {
            self.input(Input::Unplug(t.proc));
        }
    }

    /// Takes an order: now, or when the tenant may go on.
    pub fn submit(&mut self, id: TenantId, order: IoRequest) {
        let now = self.now;
        let Some(tenant) = self.tenants.get_mut(id.0) else {
            let IoRequest { reply_to, buffer, .. } = order;
            self.finished.push_back(Finished { reply_to, buffer, result: Err(Errno::SHUTDOWN) });
            return;
        };
        tenant.measure.take(now);
        if tenant.blocked.is_some() || tenant.delay > now || !tenant.backlog.is_empty() {
            tenant.backlog.push_back((now, order));
        } else {
            self.start(id, now, order);
        }
    }

    fn start(&mut self, id: TenantId, taken: Instant, order: IoRequest) {
        let IoRequest { op, offset, len, flags, buffer, reply_to } = order;
        if let Err(error) = self.check(op, offset, len) {
            let tenant = self.tenants.get_mut(id.0).expect("the caller has looked it up");
            let over = self.answered.max(self.now);
            tenant.measure.over(op, len, IoTimes { taken, issued: Instant::ZERO, over }, false);
            self.finished.push_back(Finished { reply_to, buffer, result: Err(error) });
            return self.forget_if_over(id);
        }
        let start = Sectors(offset / 512);
        if self.ios.len() == self.ios.capacity() {
            self.ios.grow(2 * self.ios.capacity());
        }
        let issued = Instant::ZERO;
        let live =
            Live { op, start, len, buffer, reply_to, tenant: id, taken, issued, errno: None };
        let at = self.ios.insert(live).expect("the table has just grown");
        let io_id = IoId(u64::from(at.generation) << 32 | u64::from(at.slot));
        let tenant = self.tenants.get_mut(id.0).expect("the caller has looked it up");
        tenant.in_flight += 1;
        tenant.blocked = Some(io_id);
        let io = Io {
            id: io_id,
            proc: tenant.proc,
            group: tenant.group,
            cpu: id.0.slot,
            op,
            start,
            sectors: Sectors(len / 512),
            // One piece of memory.
            segments: 1,
            flags,
            prio: self.stack.env().procs.prio(tenant.proc),
        };
        if let Err(error) = self.try_input(Input::Submit(io)) {
            debug_assert!(matches!(error, StackError::BadIo(_)), "{error}");
            self.finish(io_id, Err(IoError::Invalid));
        }
    }

    fn check(&self, op: Op, offset: u64, len: u64) -> Result<(), Errno> {
        let grain = u64::from(self.facts.block);
        let aligned = offset.is_multiple_of(grain) && len.is_multiple_of(grain);
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.facts.size);
        match op {
            Op::Flush => Ok(()),
            Op::Discard if !self.facts.discard => Err(Errno::OPNOTSUPP),
            Op::Write | Op::WriteZeroes | Op::Discard if self.facts.read_only => Err(Errno::PERM),
            _ if !inside && op != Op::Read => Err(Errno::NOSPC),
            _ if !inside || !aligned || len == 0 => Err(Errno::INVAL),
            _ => Ok(()),
        }
    }

    // The stack.

    /// Tells the stack something it cannot refuse.
    fn input(&mut self, input: Input) {
        if let Err(error) = self.try_input(input) {
            panic!("the stack refuses what the engine must never say: {error}");
        }
    }

    /// The end has come: nothing but the storage holds I/O up any more.
    pub(super) fn end(&mut self) {
        self.try_input(Input::End).expect("the end is always accepted");
    }

    pub(super) fn try_input(&mut self, input: Input) -> Result<(), StackError> {
        let result = self.stack.handle(self.now, input);
        self.drain();
        result
    }

    pub(super) fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.issue(req),
                Output::Accepted { io } => self.accepted(io),
                Output::Finished { io, result } => self.finish(io, result),
                Output::Delay { proc, until } => self.delay(proc, until),
                Output::WaitUntil(at) => break self.wake = at,
            }
        }
    }

    fn issue(&mut self, id: ReqId) {
        let request = self.stack.request(id);
        let command = Command {
            tag: tag_of(id),
            op: request.op,
            start: request.start.bytes().0,
            len: request.sectors.bytes().0,
            fua: request.flags.any(Flags::FUA),
        };
        self.parts.clear();
        if matches!(command.op, Op::Read | Op::Write) {
            for (_, bio) in self.stack.env().requests.bios(id) {
                self.parts.push(part(&mut self.ios, self.now, bio.id, bio.start, bio.sectors));
            }
        }
        self.backend.issue(self.now, command, &self.parts);
    }

    fn accepted(&mut self, io: IoId) {
        // The I/O itself may be over already.
        let tenant = self.ios.get(handle_of(io)).map(|live| live.tenant);
        let Some(id) = tenant else { return };
        if let Some(t) = self.tenants.get_mut(id.0)
            && t.blocked == Some(io)
        {
            t.blocked = None;
            if !t.backlog.is_empty() {
                self.ready.push_back(id);
            }
        }
    }

    fn finish(&mut self, io: IoId, result: Result<(), IoError>) {
        let live = self.ios.remove(handle_of(io)).expect("the stack finishes an I/O once");
        let id = live.tenant;
        let tenant = self.tenants.get_mut(id.0).expect("a tenant stays while it has I/O");
        tenant.in_flight -= 1;
        if tenant.blocked == Some(io) {
            tenant.blocked = None;
            if !tenant.backlog.is_empty() {
                self.ready.push_back(id);
            }
        }
        let result = match (live.errno, result) {
            (Some(errno), _) => Err(errno),
            (None, Ok(())) if live.op == Op::Flush && tenant.sync_failures != self.syncs.count => {
                Err(self.syncs.last)
            }
            (None, Ok(())) => Ok(()),
            // Nobody was blamed for it: the flush before or behind it failed.
            (None, Err(IoError::Io)) => Err(self.syncs.last),
            (None, Err(error)) => Err(errno_of(error)),
        };
        if live.op == Op::Flush && result.is_err() {
            tenant.sync_failures = self.syncs.count;
            self.syncs.told |= !tenant.closing;
        }
        let over = self.answered.max(self.now);
        let times = IoTimes { taken: live.taken, issued: live.issued, over };
        tenant.measure.over(live.op, live.len, times, result.is_ok());
        self.finished.push_back(Finished { reply_to: live.reply_to, buffer: live.buffer, result });
        self.forget_if_over(id);
    }

    fn delay(&mut self, proc: ProcId, until: Instant) {
        // Rare: a controller does not delay every I/O.
        for slot in 0..self.tenants.capacity() as u32 {
            if let Some(at) = self.tenants.handle(slot)
                && let Some(tenant) = self.tenants.get_mut(at)
                && tenant.proc == proc
            {
                tenant.delay = until;
                self.delayed.push(TenantId(at));
            }
        }
    }

    // A turn.

    /// Works off what is due: commands that are done, timers, tenants that may go on. When it has many
    /// answers it leaves the rest for the next turn: they are best handed out while their data is in the
    /// processor's cache.
    pub fn turn(&mut self) {
        loop {
            if self.wake.is_some_and(|at| at <= self.now) {
                self.input(Input::Tick);
            }
            self.wake_delayed();
            let mut done = std::mem::take(&mut self.done);
            self.backend.poll(self.now, &mut done);
            let idle = done.is_empty() && self.ready.is_empty();
            if !done.is_empty() {
                self.answered = self.clock.now();
            }
            for done in done.drain(..) {
                self.completed(done);
            }
            self.done = done;
            while let Some(id) = self.ready.pop_front() {
                self.go_on(id);
            }
            self.more = !idle && self.finished.len() >= ANSWERS;
            if idle || self.more {
                break;
            }
        }
        if self.switching.is_some() {
            self.settle_switch();
        }
        self.watch();
    }

    /// Starts the commands of the turn.
    pub fn kick(&mut self) {
        self.backend.kick();
    }

    pub fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// When there is something to do although nothing comes in.
    pub fn wake_at(&self) -> Option<Instant> {
        let more = self.more.then_some(Instant::ZERO);
        let all = [self.next_deadline(), self.backend.wake_at(), more, self.watch_again_at()];
        all.into_iter().flatten().min()
    }

    /// A command is with the backend.
    pub(super) fn at_the_device(&self) -> bool {
        self.stack.in_flight() > 0 || !self.retries.is_empty()
    }

    /// Somebody waits for an I/O. Who has a backlog also has one under way, or is delayed.
    pub(super) fn has_waiting(&self) -> bool {
        !self.ios.is_empty() || !self.delayed.is_empty()
    }

    /// I/Os that wait for a request, and those behind them.
    pub(super) fn held(&self) -> usize {
        self.tenants().map(|t| t.backlog.len() + usize::from(t.blocked.is_some())).sum()
    }

    /// When stack or a delayed tenant goes on by itself.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let delays = self.delayed.iter().filter_map(|id| self.tenants.get(id.0)).map(|t| t.delay);
        self.wake.into_iter().chain(delays).min()
    }

    /// I/Os that are not over, those in backlogs included.
    pub fn unfinished(&self) -> usize {
        self.ios.len() + self.tenants().map(|t| t.backlog.len()).sum::<usize>()
    }

    /// Nothing is under way, and nothing that is over waits to be handed out.
    pub fn is_idle(&self) -> bool {
        self.ios.is_empty() && self.finished.is_empty() && self.ready.is_empty()
    }

    fn wake_delayed(&mut self) {
        if self.delayed.is_empty() {
            return;
        }
        let (now, tenants, ready) = (self.now, &self.tenants, &mut self.ready);
        self.delayed.retain(|id| match tenants.get(id.0) {
            Some(t) if t.delay > now => true,
            Some(_) => {
                ready.push_back(*id);
                false
            }
            None => false,
        });
    }

    fn go_on(&mut self, id: TenantId) {
        let proc = match self.tenants.get(id.0) {
            Some(t) if t.backlog.len() > 1 => Some(t.proc),
            _ => None,
        };
        if let Some(proc) = proc {
            self.input(Input::Plug(proc));
        }
        loop {
            let now = self.now;
            let Some(t) = self.tenants.get_mut(id.0) else { break };
            if t.blocked.is_some() || t.delay > now {
                break;
            }
            let Some((taken, order)) = t.backlog.pop_front() else { break };
            self.start(id, taken, order);
        }
        if let Some(proc) = proc {
            self.input(Input::Unplug(proc));
        }
    }

    fn completed(&mut self, done: Done) {
        let req = req_of(done.tag);
        if self.retries.is_empty() && done.result.is_ok() {
            return self.input(Input::Done { req, error: None });
        }
        if let Some(at) = self.retries.iter().position(|r| r.tag == done.tag) {
            return self.piece_completed(at, done.result);
        }
        let Err(errno) = done.result else {
            return self.input(Input::Done { req, error: None });
        };
        let request = self.stack.request(req);
        let durable = request.flags.any(Flags::FUA);
        if request.op == Op::Flush {
            self.sync_failed(errno);
        }
        let pieces: Vec<_> = (self.stack.env().requests.bios(req))
            .map(|(_, bio)| (bio.id, bio.start, bio.sectors))
            .collect();
        if pieces.len() > 1 || (durable && !pieces.is_empty()) {
            let tag = done.tag;
            self.retries.push(Retry { tag, pieces, next: 0, durable, failed: 0, errno });
            return self.issue_piece(self.retries.len() - 1);
        }
        for (io, ..) in pieces {
            self.blame(io, errno);
        }
        self.input(Input::Done { req, error: Some(error_of(errno)) });
    }

    fn piece_completed(&mut self, at: usize, result: Result<(), Errno>) {
        let retry = &mut self.retries[at];
        let pieces = retry.pieces.len();
        let (piece, tag) = (retry.pieces.get(retry.next).copied(), retry.tag);
        retry.next += 1;
        match (piece, result) {
            (Some(_), Ok(())) => {}
            (Some((io, ..)), Err(errno)) => {
                retry.failed += 1;
                self.blame(io, errno);
            }
            // The flush behind durable pieces.
            (None, Ok(())) => {
                if retry.failed == 0 {
                    // All could be written after all: what failed was a sync.
                    let errno = retry.errno;
                    self.sync_failed(errno);
                }
            }
            (None, Err(errno)) => {
                self.sync_failed(errno);
                for n in 0..pieces {
                    self.blame(self.retries[at].pieces[n].0, errno);
                }
            }
        }
        let retry = &self.retries[at];
        if retry.next < pieces {
            self.issue_piece(at);
        } else if retry.next == pieces && retry.durable && retry.failed < pieces {
            self.parts.clear();
            let command = Command { tag, op: Op::Flush, start: 0, len: 0, fua: false };
            self.backend.issue(self.now, command, &self.parts);
        } else {
            self.retries.swap_remove(at);
            // Each I/O has its own result by now.
            self.input(Input::Done { req: req_of(tag), error: None });
        }
    }

    fn issue_piece(&mut self, at: usize) {
        let retry = &self.retries[at];
        let (tag, (io, start, sectors)) = (retry.tag, retry.pieces[retry.next]);
        let op = self.stack.request(req_of(tag)).op;
        let (start_bytes, len) = (start.bytes().0, sectors.bytes().0);
        self.parts.clear();
        if matches!(op, Op::Read | Op::Write) {
            self.parts.push(part(&mut self.ios, self.now, io, start, sectors));
        }
        let command = Command { tag, op, start: start_bytes, len, fua: false };
        self.backend.issue(self.now, command, &self.parts);
    }

    /// What was written before may be lost: every tenant is to hear of it at its next flush.
    fn sync_failed(&mut self, errno: Errno) {
        self.syncs = SyncFailures { count: self.syncs.count + 1, last: errno, told: false };
    }

    fn blame(&mut self, io: IoId, errno: Errno) {
        let live = self.ios.get_mut(handle_of(io)).expect("an I/O lives until it is finished");
        live.errno.get_or_insert(errno);
    }
}

/// The memory of a bio that goes to the device: the piece of its I/O's buffer that belongs to those
/// sectors.
fn part(ios: &mut Table<Live>, now: Instant, io: IoId, start: Sectors, sectors: Sectors) -> Part {
    let live = ios.get_mut(handle_of(io)).expect("an I/O lives until it is finished");
    if live.issued == Instant::ZERO {
        live.issued = now;
    }
    let from = (start - live.start).bytes().0 as usize;
    // SAFETY: the buffer stays in the table, untouched, until the stack says `Finished`, which it does
    // after the backend has reported the command done; on drop the backend goes first and waits.
    unsafe { Part::new(&mut live.buffer, from, sectors.bytes().0 as usize) }
}

fn tag_of(id: ReqId) -> u64 {
    u64::from(id.0.generation) << 32 | u64::from(id.0.slot)
}

fn req_of(tag: u64) -> ReqId {
    ReqId(Handle { slot: (tag & 0xffff_ffff) as u32, generation: (tag >> 32) as u32 })
}

fn handle_of(io: IoId) -> Handle {
    Handle { slot: (io.0 & 0xffff_ffff) as u32, generation: (io.0 >> 32) as u32 }
}

/// As the stack sees it; the I/O itself gets the exact number.
fn error_of(errno: Errno) -> IoError {
    match errno {
        Errno::INVAL => IoError::Invalid,
        Errno::OPNOTSUPP => IoError::NotSupported,
        _ => IoError::Io,
    }
}

fn errno_of(error: IoError) -> Errno {
    match error {
        IoError::Invalid => Errno::INVAL,
        IoError::NotSupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    }
}
