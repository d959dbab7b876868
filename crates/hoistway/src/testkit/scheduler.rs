//! A scheduler alone, with a device and processes around it.

use crate::device::{Device, Profile};
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Io, IoId, Op, ReqId, Side};
use crate::sched::{self, At, Depth, Dispatch, Merged, Run, Scheduler, Setup};
use crate::stage::{Change, Figure};
use crate::trace::{Event, Trace, Why};
use crate::unit::{Instant, IoPrio, Nanos, QueueId, Sectors};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Request slots, unless a test says otherwise.
pub const SLOTS: usize = 256;

/// One scheduler and its surroundings; it answers, the test does the rest.
#[derive(Debug)]
pub struct Rig<S: ?Sized + Scheduler = dyn Scheduler> {
    /// Requests, processes, groups, trace.
    pub env: Env,
    /// Subject of the test.
    pub sched: Box<S>,
    /// The time of the next call.
    pub now: Instant,
    /// The answer to the last insertion.
    pub run: Run,
    /// Recounts what the scheduler counts, and panics where it is wrong; called after each call into it,
    /// seldom in long runs.
    pub check: fn(&mut S),
    calls: u64,
    next_io: u64,
}

impl Rig {
    /// A scheduler of the registry on a single-queue device with 1 ms ticks and one process.
    pub fn named(name: &str) -> Rig {
        Rig::named_on(Device::new(Sectors(1 << 30), 32), name)
    }

    /// The same on that device.
    pub fn named_on(mut device: Device, name: &str) -> Rig {
        let entry = sched::find(name).expect("the test names a registered scheduler");
        device.tick = Nanos::ms(1);
        device.profile = entry.profile;
        if device.profile == Profile::Legacy {
            device.max_sectors = Sectors(1024);
        }
        let mut rig = Rig::new(device, SLOTS, entry.build);
        rig.proc(IoPrio::be(4));
        rig
    }
}

impl<S: ?Sized + Scheduler> Rig<S> {
    /// A device with room for so many requests, no process yet; the trace is kept.
    pub fn new(
        device: Device,
        requests: usize,
        build: impl FnOnce(&Setup<'_>) -> Box<S>,
    ) -> Rig<S> {
        let mut env = Env::new(device, requests, 4 * requests);
        env.trace = Trace::keep(100_000);
        let setup = Setup { device: &env.device, requests, now: Instant::ZERO };
        let sched = build(&setup);
        let (now, run) = (Instant::ZERO, Run::Usual);
        Rig { env, sched, now, run, check: |_| {}, calls: 0, next_io: 0 }
    }

    /// Has the scheduler checked.
    #[track_caller]
    pub fn check(&mut self) {
        self.calls += 1;
        if self.calls < 200 || self.calls.is_multiple_of(257) {
            (self.check)(&mut self.sched);
        }
    }

    /// Moves the clock.
    #[track_caller]
    pub fn at(&mut self, since_start: Nanos) {
        let at = Instant::ZERO + since_start;
        assert!(at >= self.now, "time goes forward");
        self.now = at;
    }

    /// Moves the clock to so many microseconds after the start.
    #[track_caller]
    pub fn at_us(&mut self, us: u64) {
        self.at(Nanos::us(us));
    }

    /// Moves the clock to so many milliseconds after the start.
    #[track_caller]
    pub fn at_ms(&mut self, ms: u64) -> &mut Self {
        self.at(Nanos::ms(ms));
        self
    }

    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        self.now.as_nanos() / 1_000_000
    }

    /// Sets a tunable to a value in its range.
    #[track_caller]
    pub fn set(&mut self, name: &str, value: u64) {
        self.sched.set(self.now, name, value, &mut self.env.cx()).expect("a valid value");
    }

    /// A process of the root.
    pub fn proc(&mut self, prio: IoPrio) -> ProcId {
        self.env.procs.add(GroupId::ROOT, prio)
    }

    /// Processes of best-effort 4.
    pub fn procs<const N: usize>(&mut self) -> [ProcId; N] {
        [(); N].map(|()| self.proc(IoPrio::be(4)))
    }

    /// A group below the root, of that weight.
    pub fn group(&mut self, weight: u64) -> GroupId {
        let group = self.env.groups.add(GroupId::ROOT, "group");
        self.change(Change::GroupAdded(group));
        let cx = &mut self.env.cx();
        self.sched.set_group(self.now, group, "weight", Some(weight), cx).expect("a valid weight");
        group
    }

    /// An I/O of a process in its group.
    pub fn io(&mut self, proc: ProcId, op: Op, start: u64, sectors: u64, flags: Flags) -> Io {
        self.next_io += 1;
        let group = self.env.procs.group(proc);
        Io { op, flags, group, id: IoId(self.next_io), ..Io::read(0, proc, start, sectors) }
    }

    /// Makes a request that the scheduler knows nothing of yet.
    pub fn create(&mut self, io: Io) -> ReqId {
        let sync = self.env.device.is_sync(io.op, io.flags);
        self.create_as(io, sync)
    }

    /// The same, whatever the block layer would call it: somebody waits for it, or nobody does.
    pub fn create_as(&mut self, io: Io, sync: bool) -> ReqId {
        let queue = self.env.device.queue_of(io.cpu);
        self.env.requests.create(io, sync, queue, self.now).expect("room for a request")
    }

    /// Makes a request and inserts it.
    pub fn submit(&mut self, io: Io, at: At) -> ReqId {
        let id = self.create(io);
        self.prepare(id);
        self.insert(id, at);
        id
    }

    /// Submits a read.
    pub fn read(&mut self, proc: ProcId, start: u64, sectors: u64) -> ReqId {
        let io = self.io(proc, Op::Read, start, sectors, Flags::NONE);
        self.submit(io, At::Tail)
    }

    /// Submits an async write.
    pub fn write(&mut self, proc: ProcId, start: u64, sectors: u64) -> ReqId {
        let io = self.io(proc, Op::Write, start, sectors, Flags::NONE);
        self.submit(io, At::Tail)
    }

    /// A request exists.
    pub fn prepare(&mut self, id: ReqId) {
        self.sched.prepare(self.now, id, &mut self.env.cx());
    }

    /// Takes a prepared request in.
    pub fn insert(&mut self, id: ReqId, at: At) {
        self.run = self.sched.insert(self.now, id, at, &mut self.env.cx());
        self.check();
    }

    /// Which tags this I/O may have.
    pub fn depth_limit(&mut self, io: &Io) -> Depth {
        self.sched.depth_limit(self.now, io, &mut self.env.cx())
    }

    /// May this bio join that request?
    pub fn may_merge(&mut self, io: &Io, into: ReqId) -> bool {
        self.sched.may_merge(self.now, io, into, &mut self.env.cx())
    }

    /// The request that this bio can join.
    pub fn find_merge(&mut self, io: &Io) -> Option<(ReqId, Side)> {
        self.sched.find_merge(self.now, io, &mut self.env.cx())
    }

    /// The request next to a queued one.
    pub fn neighbour(&mut self, id: ReqId, side: Side) -> Option<ReqId> {
        self.sched.neighbour(id, side, &self.env.cx())
    }

    /// Hands over one request whatever the rules say.
    pub fn drain(&mut self) -> Option<ReqId> {
        self.sched.drain(self.now, &mut self.env.cx())
    }

    /// Calls the timer, due or not.
    pub fn timer(&mut self) {
        self.sched.timer(self.now, &mut self.env.cx());
        self.check();
    }

    /// Asks for the next request of the first hardware queue.
    pub fn dispatch(&mut self) -> Dispatch {
        self.dispatch_for(QueueId(0))
    }

    /// Asks for the next request of a hardware queue.
    pub fn dispatch_for(&mut self, queue: QueueId) -> Dispatch {
        let answer = self.sched.dispatch(self.now, queue, &mut self.env.cx());
        self.env.closed.clear();
        self.check();
        answer
    }

    /// The request that is dispatched, and its process; panics if there is none.
    #[track_caller]
    pub fn issue(&mut self) -> (ReqId, ProcId) {
        match self.dispatch() {
            Dispatch::Issue(id) => (id, self.env.requests[id].proc),
            other => panic!("a request was to be dispatched, not {other:?}"),
        }
    }

    /// The next request, if one goes now.
    pub fn issue_next(&mut self) -> Option<ReqId> {
        match self.dispatch() {
            Dispatch::Issue(id) => Some(id),
            Dispatch::Idle | Dispatch::Empty => None,
        }
    }

    /// All that is dispatched in this instant.
    pub fn issue_all(&mut self) -> Vec<ReqId> {
        core::iter::from_fn(|| self.issue_next()).collect()
    }

    /// Issues and completes everything of a queue that is alone, at once.
    pub fn serve_all(&mut self) {
        while let Dispatch::Issue(id) = self.dispatch() {
            self.complete(id);
        }
    }

    /// The device has served it.
    pub fn complete(&mut self, id: ReqId) {
        self.sched.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
        self.check();
    }

    /// The device gives it back.
    pub fn requeue(&mut self, id: ReqId) {
        self.sched.requeue(self.now, id, &mut self.env.cx());
    }

    /// The device gives it back; it is inserted at the head again.
    pub fn give_back(&mut self, id: ReqId) {
        self.requeue(id);
        self.prepare(id);
        self.insert(id, At::Head);
    }

    /// `gone` joins `kept` from behind.
    #[track_caller]
    pub fn join(&mut self, kept: ReqId, gone: ReqId) {
        assert_eq!(self.env.requests[kept].end(), self.env.requests[gone].start, "contiguous");
        self.sched.merged(self.now, kept, Merged::Request(gone), &mut self.env.cx());
        self.env.requests.join(kept, gone);
    }

    /// A bio joins `kept` at that side.
    pub fn join_bio(&mut self, kept: ReqId, io: Io, side: Side) {
        let bio = self.env.requests.add_bio(io, self.now).expect("room for a bio");
        self.env.requests.join_bio(kept, bio, side);
        self.sched.merged(self.now, kept, Merged::Bio(side), &mut self.env.cx());
    }

    /// Tells of a change that is in the environment already.
    pub fn change(&mut self, change: Change) {
        self.sched.changed(self.now, &change, &mut self.env.cx());
        self.check();
    }

    /// A process ends.
    pub fn exit(&mut self, proc: ProcId) {
        self.env.procs.get_mut(proc).expect("a process").alive = false;
        self.change(Change::ProcExited(proc));
    }

    /// A process gets another priority.
    pub fn renice(&mut self, proc: ProcId, prio: IoPrio) {
        self.env.procs.get_mut(proc).expect("a process").prio = prio;
        self.change(Change::ProcPriority(proc));
    }

    /// Goes on to the timer, which must be armed.
    #[track_caller]
    pub fn fire_timer(&mut self) {
        self.now = self.sched.next_timer().expect("armed");
        self.fire_timer_if_due();
    }

    /// Fires the timer if it is due at the present time.
    #[track_caller]
    pub fn fire_timer_if_due(&mut self) {
        if self.sched.next_timer().is_some_and(|at| at <= self.now) {
            self.timer();
            assert!(self.sched.next_timer().is_none_or(|at| at > self.now), "in the future");
        }
    }

    /// Goes on to the timer if it is armed.
    #[track_caller]
    pub fn fire_timer_if_armed(&mut self) {
        if self.sched.next_timer().is_some() {
            self.fire_timer();
        }
    }

    /// The scheduler asked for a run since this was last asked.
    pub fn kicked(&mut self) -> bool {
        self.env.runs.take().is_some()
    }

    /// A figure of the scheduler, which must exist.
    #[track_caller]
    pub fn figure(&self, name: &str, of: Option<u32>) -> i64 {
        let mut found = None;
        self.sched.figures(&mut |f: Figure| {
            if f.name == name && f.of == of {
                found = Some(f.value);
            }
        });
        found.unwrap_or_else(|| panic!("no figure {name} of {of:?}"))
    }

    /// The reasons given since the last call.
    pub fn reasons(&mut self) -> Vec<Why> {
        let why = |e: Event| match e {
            Event::Why(why) => Some(why),
            _ => None,
        };
        self.env.trace.take().into_iter().filter_map(|r| why(r.event)).collect()
    }
}
