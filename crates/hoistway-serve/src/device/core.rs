//! Stack, backend and the I/Os between them: everything of a device that runs on its owner thread,
//! but for waiting.
//!
//! The core passes on what its parts say to each other. Each part keeps its own state: who submits
//! ([`Tenants`]), what is under way ([`InFlightTable`]), requests that failed ([`Retries`]), failed flushes
//! ([`SyncFailures`]), requests for extents ([`Lookups`]), I/O that stands still ([`Watchdog`]).

use super::counters::{Departed, IoTimes};
use super::flush::SyncFailures;
use super::in_flight::{InFlight, InFlightTable, Lookup};
use super::lookups::{Answered, Lookups};
use super::pending::Reply;
use super::report::ConnectionInfo;
use super::retry::{Piece, Retries, RetryStep};
use super::settings::{DeviceOptions, GroupRecord};
use super::stats::stall;
use super::streams::Carried;
use super::tenants::{Tenant, Tenants};
use super::watchdog::{Stall, Watchdog};
use crate::error::{ServeError, os};
use crate::storage::{Backend, Command, Done, Extent, ExtentsAnswer, Facts, Opened};
use crate::system::Clock;
use crate::system::{Buffer, Part, Pool};
use hoistway::stack::{IoError, StackError};
use hoistway::stage::Change;
use hoistway::table::Handle;
use hoistway::{Flags, GroupId, Input, Instant, Io, IoId, IoPrio, Op, Output, ReqId};
use hoistway::{Sectors, Stack};
use hoistway_sim::world::{command_of, request_of, tag_of};
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

/// What a tenant wants to know: what is stored in a range. It waits its turn as a read of one block
/// does: in the tenant's backlog, for a tag, at the controllers, in the scheduler.
#[derive(Debug)]
pub(crate) struct ExtentsRequest {
    /// First byte; any.
    pub offset: u64,
    pub len: u64,
    /// Extents at most.
    pub most: usize,
    pub reply_to: ReplyTo,
}

/// What a tenant submits.
#[derive(Debug)]
pub(super) enum TenantRequest {
    Io(IoRequest),
    Extents(ExtentsRequest),
}

/// An I/O that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    pub reply_to: ReplyTo,
    pub buffer: Buffer,
    pub result: Result<(), Errno>,
    /// What is stored, for who asked; together at least one byte and at most what was asked about.
    pub extents: Vec<Extent>,
}

/// A submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TenantId(pub(super) Handle);

#[derive(Debug)]
pub(crate) struct Core {
    // First, so that nothing is under way any more when the buffers are freed.
    backend: Box<dyn Backend>,
    pub facts: Facts,
    pub pool: Pool,
    /// Clients' sockets are served by a ring.
    pub socket_ring: bool,
    pub carried: Carried,
    clock: Clock,
    now: Instant,
    /// When the commands that are done were looked for last: their I/Os are over then.
    answered: Instant,
    pub(super) stack: Stack,
    pub(super) groups: Vec<GroupRecord>,
    /// A change of scheduler waits until the stack is empty; settings of groups follow it.
    pub(super) switching: Option<Vec<(String, u64)>>,

    pub(super) tenants: Tenants,
    ios: InFlightTable,
    retries: Retries,
    syncs: SyncFailures,
    lookups: Lookups,
    finished: VecDeque<Finished>,
    pub(super) departed: Departed,
    pub(super) watchdog: Watchdog,
    /// Who is told of a stall.
    tell: fn(&str),
    wake: Option<Instant>,
    /// The last turn left something to do.
    more: bool,

    done: Vec<Done>,
    known: Vec<Answered>,
    parts: Vec<Part>,
}

/// Answers that end a turn.
const ANSWERS: usize = 32;

impl Core {
    pub fn new(opened: Opened, options: &DeviceOptions) -> Result<Core, ServeError> {
        let Opened { backend, device, facts } = opened;
        let mut stack = Stack::new(device, options.scheduler, 4096);
        options.apply(&mut stack)?;
        Ok(Core {
            backend,
            facts,
            pool: Pool::new(),
            socket_ring: false,
            carried: Carried::default(),
            clock: Clock::new(),
            now: Instant::ZERO,
            answered: Instant::ZERO,
            stack,
            groups: Vec::new(),
            switching: None,
            tenants: Tenants::new(),
            ios: InFlightTable::new(),
            retries: Retries::default(),
            syncs: SyncFailures::none(),
            lookups: Lookups::new().map_err(os("eventfd"))?,
            finished: VecDeque::with_capacity(1024),
            departed: Departed::default(),
            watchdog: Watchdog::new(options.stall_limit),
            tell: options.tell,
            wake: None,
            more: false,
            done: Vec::with_capacity(256),
            known: Vec::new(),
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

    /// Leaves behind what the storage may still work on; whoever waits for it hears ESHUTDOWN.
    pub fn give_up(self) {
        let Core { backend, ios, .. } = self;
        // Closing it would wait for what does not come.
        std::mem::forget(backend);
        ios.leak_buffers();
    }

    /// Readable when requests for extents were answered.
    pub fn lookups_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.lookups.fd()
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
        let proc = self.tenants.spare_proc(group, prio);
        let proc = proc.unwrap_or_else(|| self.stack.add_proc(group, prio));
        self.tenants.add(Tenant::new(proc, group, prio, self.syncs.known_to_newcomer()))
    }

    /// The tenant is a connection from outside.
    pub fn identify(&mut self, id: TenantId, info: ConnectionInfo) {
        if let Some(tenant) = self.tenants.get_mut(id) {
            tenant.info = Some(info);
        }
    }

    /// The tenant submits no more; it is forgotten when its last I/O is over.
    pub fn close_tenant(&mut self, id: TenantId) {
        if let Some(tenant) = self.tenants.get_mut(id) {
            tenant.closing = true;
        }
        self.forget_if_over(id);
    }

    fn forget_if_over(&mut self, id: TenantId) {
        if let Some(t) = self.tenants.remove_if_over(id) {
            self.departed.add(t.export(), t.group, &t.counters);
        }
    }

    /// What `id` submits until `end_batch` belongs together: neighbours may merge.
    pub fn begin_batch(&mut self, id: TenantId) {
        if let Some(t) = self.tenants.get(id) {
            self.input(Input::Plug(t.proc));
        }
    }

    pub fn end_batch(&mut self, id: TenantId) {
        if let Some(t) = self.tenants.get(id) {
            self.input(Input::Unplug(t.proc));
        }
    }

    /// Takes a request: now, or when the tenant may go on.
    pub fn submit(&mut self, id: TenantId, request: IoRequest) {
        let now = self.now;
        let Some(tenant) = self.tenants.get_mut(id) else {
            return self.refuse(request.reply_to, request.buffer, Errno::SHUTDOWN);
        };
        tenant.counters.take(now);
        if let Some(request) = tenant.take(now, TenantRequest::Io(request)) {
            self.start(id, now, request);
        }
    }

    /// Asks what is stored: now, or when the tenant may go on.
    pub fn submit_lookup(&mut self, id: TenantId, request: ExtentsRequest) {
        let now = self.now;
        let Some(tenant) = self.tenants.get_mut(id) else {
            return self.refuse(request.reply_to, Buffer::empty(), Errno::SHUTDOWN);
        };
        if let Some(request) = tenant.take(now, TenantRequest::Extents(request)) {
            self.start(id, now, request);
        }
    }

    fn refuse(&mut self, reply_to: ReplyTo, buffer: Buffer, errno: Errno) {
        let result = Err(errno);
        self.finished.push_back(Finished { reply_to, buffer, result, extents: Vec::new() });
    }

    fn start(&mut self, id: TenantId, taken: Instant, request: TenantRequest) {
        match request {
            TenantRequest::Io(request) => self.start_io(id, taken, request),
            TenantRequest::Extents(request) => self.start_lookup(id, taken, request),
        }
    }

    fn start_io(&mut self, id: TenantId, taken: Instant, request: IoRequest) {
        let IoRequest { op, offset, len, flags, buffer, reply_to } = request;
        if let Err(error) = self.check(op, offset, len) {
            let tenant = self.tenants.get_mut(id).expect("the caller has looked it up");
            let over = self.answered.max(self.now);
            tenant.counters.over(op, len, IoTimes { taken, issued: Instant::ZERO, over }, false);
            self.refuse(reply_to, buffer, error);
            return self.forget_if_over(id);
        }
        let start = Sectors(offset / 512);
        let (issued, lookup) = (Instant::ZERO, None);
        let (tenant, errno) = (id, None);
        let live =
            InFlight { op, start, len, buffer, reply_to, tenant, taken, issued, errno, lookup };
        self.enter_stack(live, Sectors(len / 512), flags);
    }

    /// For the stack it is a read of the first block that joins no other.
    fn start_lookup(&mut self, id: TenantId, taken: Instant, request: ExtentsRequest) {
        let ExtentsRequest { offset, len, most, reply_to } = request;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.facts.size);
        if !inside || len == 0 {
            self.refuse(reply_to, Buffer::empty(), Errno::INVAL);
            return self.forget_if_over(id);
        }
        let block = u64::from(self.facts.block);
        let lookup = Some(Box::new(Lookup { offset, len, most, extents: Vec::new() }));
        let live = InFlight {
            op: Op::Read,
            start: Sectors(offset / block * block / 512),
            len: block,
            buffer: Buffer::empty(),
            reply_to,
            tenant: id,
            taken,
            issued: Instant::ZERO,
            errno: None,
            lookup,
        };
        self.enter_stack(live, Sectors(block / 512), Flags::NOMERGE);
    }

    fn enter_stack(&mut self, live: InFlight, sectors: Sectors, flags: Flags) {
        let (id, op, start) = (live.tenant, live.op, live.start);
        let io_id = self.ios.insert(live);
        let tenant = self.tenants.get_mut(id).expect("the caller has looked it up");
        tenant.in_flight += 1;
        tenant.blocked = Some(io_id);
        let io = Io {
            id: io_id,
            proc: tenant.proc,
            group: tenant.group,
            cpu: id.0.slot,
            op,
            start,
            sectors,
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
                Output::Delay { proc, until } => self.tenants.delay(proc, until),
                Output::WaitUntil(at) => break self.wake = at,
            }
        }
    }

    fn issue(&mut self, id: ReqId) {
        let request = self.stack.request(id);
        let command = command_of(request);
        // Pieces of split I/Os do not merge either.
        if request.flags.any(Flags::NOMERGE) && self.look_up(id) {
            return;
        }
        self.parts.clear();
        if matches!(command.op, Op::Read | Op::Write) {
            for (_, bio) in self.stack.env().requests.bios(id) {
                self.parts.push(self.ios.part(self.now, bio.id, bio.start, bio.sectors));
            }
        }
        self.backend.issue(self.now, command, &self.parts);
    }

    /// Asks the backend what is stored, if that is what the request is; false: it is none such.
    fn look_up(&mut self, id: ReqId) -> bool {
        let Some((_, bio)) = self.stack.env().requests.bios(id).next() else { return false };
        let io = bio.id;
        let live = self.ios.get_mut(io).expect("an I/O lives until it is finished");
        let Some(lookup) = &live.lookup else { return false };
        let (offset, len, most) = (lookup.offset, lookup.len, lookup.most);
        live.mark_issued(self.now);
        match self.backend.extents(offset, len, most) {
            ExtentsAnswer::Now(result) => self.lookups.known(tag_of(id), io, result),
            ExtentsAnswer::Later(lookup) => self.lookups.defer(tag_of(id), io, lookup),
        }
        true
    }

    fn accepted(&mut self, io: IoId) {
        // The I/O itself may be over already.
        if let Some(live) = self.ios.get(io) {
            self.tenants.unblock(live.tenant, io);
        }
    }

    fn finish(&mut self, io: IoId, result: Result<(), IoError>) {
        let live = self.ios.remove(io);
        let id = live.tenant;
        self.tenants.unblock(id, io);
        let tenant = self.tenants.get_mut(id).expect("a tenant stays while it has I/O");
        tenant.in_flight -= 1;
        let untold = self.syncs.untold(tenant.sync_failures).filter(|_| live.op == Op::Flush);
        let result = match (live.errno, result) {
            (Some(errno), _) => Err(errno),
            (None, Ok(())) => untold.map_or(Ok(()), Err),
            // Nobody was blamed for it: the flush before or behind it failed.
            (None, Err(IoError::Io)) => Err(self.syncs.last()),
            (None, Err(error)) => Err(errno_of(error)),
        };
        if live.op == Op::Flush && result.is_err() {
            tenant.sync_failures = self.syncs.tell(tenant.closing);
        }
        let InFlight { op, len, taken, issued, reply_to, buffer, lookup, .. } = live;
        if lookup.is_none() {
            let times = IoTimes { taken, issued, over: self.answered.max(self.now) };
            tenant.counters.over(op, len, times, result.is_ok());
        }
        let extents = lookup.map_or_else(Vec::new, |lookup| lookup.extents);
        self.finished.push_back(Finished { reply_to, buffer, result, extents });
        self.forget_if_over(id);
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
            self.tenants.end_delays(self.now);
            let mut done = std::mem::take(&mut self.done);
            self.backend.poll(self.now, &mut done);
            if !self.lookups.is_idle() {
                self.take_lookups(&mut done);
            }
            let idle = done.is_empty() && !self.tenants.any_ready();
            if !done.is_empty() {
                self.answered = self.clock.now();
            }
            for done in done.drain(..) {
                self.completed(done);
            }
            self.done = done;
            while let Some(id) = self.tenants.next_ready() {
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

    /// Says once when I/O stands still.
    fn watch(&mut self) {
        let moves = self.at_the_device() || !self.has_waiting();
        if !self.watchdog.look(self.now, moves, self.stack.counters().finished) {
            return;
        }
        if let Some(Stall { lasts, unfinished, reason }) = stall(self) {
            self.watchdog.count();
            let (summary, seconds) = (&self.facts.summary, lasts.0 as f64 / 1e9);
            (self.tell)(&format!(
                "{summary}: {unfinished} I/Os wait and the device has had nothing to do for \
                 {seconds:.1} s: {reason}"
            ));
        }
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
        let more = (self.more || self.lookups.is_ready()).then_some(Instant::ZERO);
        let all = [self.next_deadline(), self.backend.wake_at(), more, self.watchdog.due()];
        all.into_iter().flatten().min()
    }

    /// A command is with the backend.
    pub(super) fn at_the_device(&self) -> bool {
        self.stack.in_flight() > 0 || !self.retries.is_empty()
    }

    /// Somebody waits for an I/O. Who has a backlog also has one under way, or is delayed.
    pub(super) fn has_waiting(&self) -> bool {
        !self.ios.is_empty() || self.tenants.any_delayed()
    }

    /// When stack or a delayed tenant goes on by itself.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.wake.into_iter().chain(self.tenants.next_delay()).min()
    }

    /// I/Os that are not over, those in backlogs included.
    pub fn unfinished(&self) -> usize {
        self.ios.len() + self.tenants.backlogs()
    }

    /// Nothing is under way, and nothing that is over waits to be handed out.
    pub fn is_idle(&self) -> bool {
        self.ios.is_empty() && self.finished.is_empty() && !self.tenants.any_ready()
    }

    fn take_lookups(&mut self, done: &mut Vec<Done>) {
        let mut known = std::mem::take(&mut self.known);
        self.lookups.take(&mut known);
        for Answered { tag, io, result } in known.drain(..) {
            let live = self.ios.get_mut(io).expect("an I/O lives until it is finished");
            let lookup = live.lookup.as_mut().expect("it was answered because it asked");
            let result = result.map(|extents| lookup.extents = extents);
            done.push(Done { tag, result });
        }
        self.known = known;
    }

    fn go_on(&mut self, id: TenantId) {
        let proc = match self.tenants.get(id) {
            Some(t) if t.backlog() > 1 => Some(t.proc),
            _ => None,
        };
        if let Some(proc) = proc {
            self.input(Input::Plug(proc));
        }
        loop {
            let now = self.now;
            let next = self.tenants.get_mut(id).and_then(|t| t.next(now));
            let Some((taken, request)) = next else { break };
            self.start(id, taken, request);
        }
        if let Some(proc) = proc {
            self.input(Input::Unplug(proc));
        }
    }

    fn completed(&mut self, done: Done) {
        let req = request_of(done.tag);
        if self.retries.is_empty() && done.result.is_ok() {
            return self.input(Input::Done { req, error: None });
        }
        if self.retries.contains(done.tag) {
            let Done { tag, result } = done;
            let step = self.retries.completed(tag, result, &mut self.ios, &mut self.syncs);
            return self.retry(tag, step);
        }
        let Err(errno) = done.result else {
            return self.input(Input::Done { req, error: None });
        };
        let request = self.stack.request(req);
        let durable = request.flags.any(Flags::FUA);
        if request.op == Op::Flush {
            self.syncs.record(errno);
        }
        let pieces: Vec<_> = (self.stack.env().requests.bios(req))
            .map(|(_, bio)| Piece { io: bio.id, start: bio.start, sectors: bio.sectors })
            .collect();
        if pieces.len() > 1 || (durable && !pieces.is_empty()) {
            let first = self.retries.begin(done.tag, pieces, durable, errno);
            return self.retry(done.tag, first);
        }
        for piece in pieces {
            self.ios.blame(piece.io, errno);
        }
        self.input(Input::Done { req, error: Some(error_of(errno)) });
    }

    /// The next step of a request that failed.
    fn retry(&mut self, tag: u64, step: RetryStep) {
        self.parts.clear();
        let command = match step {
            RetryStep::Piece(Piece { io, start, sectors }) => {
                let op = self.stack.request(request_of(tag)).op;
                if matches!(op, Op::Read | Op::Write) {
                    self.parts.push(self.ios.part(self.now, io, start, sectors));
                }
                let (start, len) = (start.bytes().0, sectors.bytes().0);
                Command { tag, op, start, len, fua: false }
            }
            RetryStep::Flush => Command { tag, op: Op::Flush, start: 0, len: 0, fua: false },
            RetryStep::Over => {
                return self.input(Input::Done { req: request_of(tag), error: None });
            }
        };
        self.backend.issue(self.now, command, &self.parts);
    }
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
