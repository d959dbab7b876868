//! The core of one request queue: a scheduler, its surroundings, and which of the kernel's requests is which.
//!
//! The order of the calls into the scheduler is that of `hoistway::stack`. What blk-mq does otherwise than that stack:
//!
//! - A request of which the device does not want to hear is not always inserted again: behind SCSI it waits in a list of
//!   blk-mq. The shim says [`Queue::requeue`] when it has come back, so that "a requeue is an insertion" holds; for the
//!   scheduler a request in that list is still with the device.
//! - Two processors read the clock and then take the lock in the other order: `now` is the larger of both.
//! - Processes come and go for years, and `Procs` counts up: the number of one that has exited is used again.

use crate::view::View;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use hoistway::knob::KnobError;
use hoistway::request::{Flags, Side, Told};
use hoistway::sched::{
    At, Depth, Dispatch, Entrance, Entry, FlushCommand, Merged, Open, Scheduler, Search, Setup,
    Wish,
};
use hoistway::stage::Change;
use hoistway::table::Handle;
use hoistway::{Device, Env, GroupId, Instant, Io, IoPrio, Op, ProcId, QueueId, ReqId, Sectors};

/// The file of latency targets.
const LATENCY: &str = "io.latency";

/// The kernel's request, a number to this crate; 0: none.
pub type Rq = usize;

/// What has become of a request that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its handle.
    pub id: u64,
    /// Which merges it is open to.
    pub open: Open,
    /// The scheduler has taken it in.
    pub inserted: bool,
}

/// What `dispatch` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This goes to the device.
    Issue(Rq),
    /// This is inserted again, as `arrive` says; then `dispatch` is asked once more.
    Again(u64, Rq),
    /// Nothing, now.
    Nothing,
}

/// The core of one request queue.
#[derive(Debug)]
pub struct Queue<'v> {
    view: &'v View,
    entry: &'static Entry,
    now: Instant,
    /// A bit for each hardware queue.
    all: u64,
    env: Env,
    sched: Box<dyn Scheduler>,
    /// The kernel's request of each slot.
    of: Vec<Rq>,
    /// Numbers of processes that have exited.
    free_procs: Vec<ProcId>,
    procs_alive: u32,
    /// `dispatch` has answered `Idle`: what waits apart comes back before it is asked again.
    bringing_back: bool,
}

/// A handle as a number that is never 0.
fn word(id: ReqId) -> u64 {
    (u64::from(id.0.generation) << 32 | u64::from(id.0.slot)) + 1
}

fn id_of(word: u64) -> ReqId {
    let word = word - 1;
    ReqId(Handle { slot: word as u32, generation: (word >> 32) as u32 })
}

#[inline(never)]
fn build(entry: &Entry, setup: &Setup<'_>) -> Box<dyn Scheduler> {
    (entry.build)(setup)
}

impl<'v> Queue<'v> {
    /// The core of a queue with room for `slots` requests; sleeps where memory is short.
    // In a core of one scheduler all that is built here would be inlined into one frame.
    #[inline(never)]
    pub fn new(
        entry: &'static Entry,
        mut device: Device,
        slots: usize,
        now: Instant,
        view: &'v View,
    ) -> Queue<'v> {
        // Their words stay as they are made now when there are to be fewer.
        device.tags_made_for = device.nr_requests;
        let all = match device.hw_queues {
            n @ 0..64 => (1 << n.max(1)) - 1,
            _ => u64::MAX,
        };
        // The bios are the kernel's.
        let mut env = Env::new(device, slots, 0);
        // Nobody, for I/O without a context.
        env.procs.add(GroupId::ROOT, IoPrio::NONE);
        let sched = build(entry, &Setup { device: &env.device, requests: slots, now });
        view.fresh.store(all, Relaxed);
        let of = vec![0; slots];
        let mut queue = Queue {
            view,
            entry,
            now,
            all,
            env,
            sched,
            of,
            free_procs: Vec::new(),
            procs_alive: 0,
            bringing_back: false,
        };
        queue.settle();
        queue.settle_size();
        queue
    }

    /// The scheduler's entry in the registry.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    fn clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Something has happened: each hardware queue may be asked again.
    fn freshen(&mut self) {
        self.view.fresh.store(self.all, Relaxed);
    }

    /// What the shim is to see after a call.
    fn settle(&mut self) {
        let wish = self.sched.wish(&mut self.env);
        self.show(self.view, wish);
    }

    #[inline]
    fn show(&mut self, view: &View, wish: Wish) {
        view.next_timer.store(wish.timer, Relaxed);
        view.limits_reads.store(wish.limits_reads.into(), Relaxed);
        if self.env.runs.any() {
            self.show_runs();
        }
    }

    #[inline(never)]
    fn show_runs(&mut self) {
        let mut runs = 0;
        while let Some(queue) = self.env.runs.take() {
            runs |= 1 << (queue.0 & 63);
        }
        self.view.runs.store(self.view.runs.load(Relaxed) | runs, Relaxed);
        self.freshen();
    }

    fn settle_size(&mut self) {
        self.view.max_sectors.store(self.sched.size(&self.env), Relaxed);
    }

    fn wait(&mut self, by: i32) {
        let n = self.view.waiting.load(Relaxed);
        self.view.waiting.store(n.wrapping_add_signed(by), Relaxed);
    }

    // --- requests ---------------------------------------------------------------------------------

    /// A request that the core does not know: its handle, and which merges it is open to. Inserted is it at once, unless it
    /// could be merged before that: then `insert` follows. `alone`: it finds nothing to join, as the caller knows. `None`:
    /// there is no room for it.
    pub fn arrive(
        &mut self,
        now: Instant,
        told: impl FnOnce() -> Told,
        at: At,
        alone: bool,
        rq: Rq,
    ) -> Option<Arrived> {
        let now = self.clock(now);
        let id = self.env.requests.add_bare(told)?;
        self.of[id.index()] = rq;
        let how = Entrance {
            at,
            // The elevator's merge tables are not for a scheduler that searches itself.
            tables: self.entry.search == Search::Elevator,
            // Only what waits can be joined.
            alone: alone || self.view.waiting() == 0,
        };
        let entered = self.sched.enter(now, id, how, &mut self.env);
        if entered.inserted {
            self.came(entered.wish);
        }
        Some(Arrived { id: word(id), open: entered.open, inserted: entered.inserted })
    }

    /// The scheduler takes it in.
    pub fn insert(&mut self, now: Instant, id: u64, at: At) {
        let now = self.clock(now);
        let wish = self.sched.take_in(now, id_of(id), at, &mut self.env);
        self.came(wish);
    }

    #[inline]
    fn came(&mut self, wish: Wish) {
        let view = self.view;
        view.waiting.store(view.waiting.load(Relaxed).wrapping_add(1), Relaxed);
        view.fresh.store(self.all, Relaxed);
        self.show(view, wish);
    }

    /// What a run of hardware queue `queue` sends to the device; asked again after `Again`.
    pub fn dispatch(&mut self, now: Instant, queue: QueueId) -> Found {
        let now = self.clock(now);
        if self.bringing_back {
            if let Some(found) = self.bring_back(now) {
                return found;
            }
            self.bringing_back = false;
        }
        let (found, wish) = self.sched.give(now, queue, &mut self.env);
        let found = match found {
            Dispatch::Issue(id) => {
                self.env.requests.get_mut(id).issued = now;
                self.wait(-1);
                Found::Issue(self.of[id.index()])
            }
            Dispatch::Idle => return self.idle(now, queue),
            Dispatch::Empty => {
                self.nothing_new(queue);
                Found::Nothing
            }
        };
        self.show(self.view, wish);
        found
    }

    #[inline(never)]
    fn idle(&mut self, now: Instant, queue: QueueId) -> Found {
        let found = self.bring_back(now);
        self.bringing_back = found.is_some();
        if found.is_none() && !self.sched.has_work() {
            self.nothing_new(queue);
        }
        self.settle();
        found.unwrap_or(Found::Nothing)
    }

    fn bring_back(&mut self, now: Instant) -> Option<Found> {
        let id = self.sched.reinsert(now, &mut self.env.cx())?;
        self.wait(-1);
        Some(Found::Again(word(id), self.of[id.index()]))
    }

    /// Which merges a request is open to that comes back from where it has waited apart.
    pub fn open_again(&mut self, id: u64) -> Open {
        match self.entry.search {
            Search::Own => Open::Closed,
            Search::Elevator => self.sched.open(id_of(id), &self.env.cx()),
        }
    }

    fn nothing_new(&mut self, queue: QueueId) {
        let fresh = self.view.fresh.load(Relaxed) & !(1 << (queue.0 & 63));
        self.view.fresh.store(fresh, Relaxed);
    }

    /// Requests that nothing may join any more, one by one.
    pub fn closed(&mut self) -> Option<Rq> {
        self.env.closed.pop().map(|slot| self.of[slot as usize])
    }

    /// Whether there are such.
    pub fn has_closed(&self) -> bool {
        !self.env.closed.is_empty()
    }

    /// The device has served it; it is forgotten.
    pub fn complete(&mut self, now: Instant, id: u64) {
        let (now, id) = (self.clock(now), id_of(id));
        let (size, wish) = self.sched.end(now, id, &mut self.env);
        self.of[id.index()] = 0;
        let view = self.view;
        view.fresh.store(self.all, Relaxed);
        view.max_sectors.store(size, Relaxed);
        self.show(view, wish);
    }

    /// A request with a scheduler's tag that has passed the scheduler by is over: a flush command or the data of a flush
    /// sequence (`issued` says when it went to the device), or, unissued, what a process asked for by a flush.
    pub fn bypassed(&mut self, now: Instant, told: Told, issued: Option<Instant>) {
        let now = self.clock(now);
        // Only the scheduler's statistics want it: one that finds no room is left out.
        let added = self.env.requests.add_bare(|| told);
        let Some(id) = added else { return };
        self.env.requests.get_mut(id).issued = issued.unwrap_or(Instant::ZERO);
        match issued {
            Some(_) => self.sched.complete_bypassed(now, id, &mut self.env.cx()),
            None => self.sched.complete_unsent(now, id, &mut self.env.cx()),
        }
        self.env.requests.remove_bare(id);
        self.freshen();
        self.settle();
    }

    /// It goes away without having been served.
    pub fn forget(&mut self, id: u64) {
        let id = id_of(id);
        self.of[id.index()] = 0;
        self.env.requests.remove_bare(id);
    }

    /// The kernel has found it at a limit, and lets nothing join it any more.
    pub fn unmergeable(&mut self, id: u64) {
        self.env.requests.get_mut(id_of(id)).flags |= Flags::NOMERGE;
    }

    /// The device gave it back, and here it is again.
    pub fn requeue(&mut self, now: Instant, id: u64) {
        let (now, id) = (self.clock(now), id_of(id));
        self.sched.requeue(now, id, &mut self.env.cx());
        self.sched.prepare(now, id, &mut self.env.cx());
        self.sched.insert(now, id, At::Head, &mut self.env.cx());
        self.wait(1);
        self.freshen();
        self.settle();
    }

    /// The scheduler wants to hear of flush commands; it decides by who asks; whatever comes may join what waits.
    pub fn wants(&self) -> [bool; 3] {
        let opens_all = self.entry.search == Search::Elevator && self.sched.opens_all();
        [self.sched.hears_flushes(), self.sched.knows_procs(), opens_all]
    }

    /// A flush command goes to the device or is over.
    pub fn flush(&mut self, now: Instant, what: FlushCommand) {
        let now = self.clock(now);
        self.sched.flush(now, what, &mut self.env.cx());
        self.freshen();
        self.settle();
    }

    // --- merges -----------------------------------------------------------------------------------

    /// The kernel's request has become another.
    pub fn update(&mut self, id: u64, start: Sectors, sectors: Sectors, segments: u32) {
        let r = self.env.requests.get_mut(id_of(id));
        (r.start, r.sectors, r.segments) = (start, sectors, segments);
    }

    /// May this bio join that request?
    pub fn may_merge(&mut self, now: Instant, io: &Io, into: u64) -> bool {
        let now = self.clock(now);
        let may = self.sched.may_merge(now, io, id_of(into), &mut self.env.cx());
        self.settle();
        may
    }

    /// The scheduler's own search.
    pub fn find_merge(&mut self, now: Instant, io: &Io) -> Option<(Rq, Side)> {
        let now = self.clock(now);
        let found = self.sched.find_merge(now, io, &mut self.env.cx());
        // Who looks may have moved to another group, and then nobody waits for him any more.
        self.settle();
        let (id, side) = found?;
        Some((self.of[id.index()], side))
    }

    /// The request next to a queued one.
    pub fn neighbour(&mut self, id: u64, side: Side) -> Option<Rq> {
        let id = self.sched.neighbour(id_of(id), side, &self.env.cx())?;
        Some(self.of[id.index()])
    }

    /// A bio has joined it; the table shows what has become of it ([`Queue::update`]).
    pub fn merged_bio(&mut self, now: Instant, id: u64, side: Side) {
        let now = self.clock(now);
        self.sched.merged(now, id_of(id), Merged::Bio(side), &mut self.env.cx());
        self.settle();
    }

    /// `gone` has joined `kept`; both are in the table as they were. `waited`: it had been inserted.
    pub fn merged(&mut self, now: Instant, kept: u64, gone: u64, waited: bool) {
        let (now, kept, gone) = (self.clock(now), id_of(kept), id_of(gone));
        self.sched.merged(now, kept, Merged::Request(gone), &mut self.env.cx());
        self.env.requests.join(kept, gone);
        self.of[gone.index()] = 0;
        if waited {
            self.wait(-1);
        }
        self.settle();
    }

    // --- processes and groups ---------------------------------------------------------------------

    /// A process that is new here.
    pub fn add_proc(&mut self, prio: IoPrio) -> ProcId {
        self.procs_alive += 1;
        if let Some(id) = self.free_procs.pop() {
            let p = self.env.procs.get_mut(id).expect("it was given out before");
            (p.alive, p.prio, p.group) = (true, prio, GroupId::ROOT);
            return id;
        }
        self.env.procs.add(GroupId::ROOT, prio)
    }

    /// A process has this priority and is in this group from now on.
    pub fn proc_is(&mut self, now: Instant, id: ProcId, prio: IoPrio, to: GroupId) {
        let now = self.clock(now);
        let Some(p) = self.env.procs.get_mut(id) else { return };
        let (was, from) = (p.prio, p.group);
        (p.prio, p.group) = (prio, to);
        if was != prio {
            self.sched.changed(now, &Change::ProcPriority(id), &mut self.env.cx());
        }
        if from != to {
            self.sched.changed(now, &Change::ProcMoved { proc: id, from, to }, &mut self.env.cx());
        }
        self.settle();
    }

    /// It has exited, and nothing of it is left.
    pub fn proc_exits(&mut self, now: Instant, id: ProcId) {
        let now = self.clock(now);
        let Some(p) = self.env.procs.get_mut(id) else { return };
        p.alive = false;
        self.sched.changed(now, &Change::ProcExited(id), &mut self.env.cx());
        self.free_procs.push(id);
        self.procs_alive -= 1;
        self.settle();
    }

    /// A group below `parent`.
    pub fn add_group(&mut self, now: Instant, parent: GroupId) -> GroupId {
        let now = self.clock(now);
        let group = self.env.groups.add(parent, "");
        self.sched.changed(now, &Change::GroupAdded(group), &mut self.env.cx());
        self.settle();
        group
    }

    /// A group is going away. Processes that had I/O in it, and none since they left it, are its parent's from now on.
    pub fn remove_group(&mut self, now: Instant, group: GroupId) {
        let now = self.clock(now);
        let parent = self.env.groups.parent(group).unwrap_or(GroupId::ROOT);
        for proc in (0..self.env.procs.len() as u32).map(ProcId) {
            let left = self.env.procs.get(proc).is_some_and(|p| p.alive && p.group == group);
            if left {
                let prio = self.env.procs.get(proc).map_or(IoPrio::NONE, |p| p.prio);
                self.proc_is(now, proc, prio, parent);
            }
        }
        self.sched.changed(now, &Change::GroupRemoved(group), &mut self.env.cx());
        self.env.groups.remove(group);
        self.settle();
    }

    /// The weight of a group, 0: the scheduler's own for those that none was written for; false: this scheduler has none, or
    /// not that.
    pub fn set_weight(&mut self, now: Instant, group: GroupId, weight: u64) -> bool {
        let now = self.clock(now);
        let Some(tunable) = self.entry.group_tunables.iter().find(|t| t.name == "weight") else {
            return false;
        };
        let weight = (weight != 0).then_some(weight);
        let done = weight.is_none_or(|weight| tunable.check(weight).is_ok())
            && self.sched.set_group(now, group, "weight", weight, &mut self.env.cx()).is_ok();
        self.settle();
        done
    }

    /// The latency target of a group, as a line of `io.latency` has it behind the device number; whatever of it is refused
    /// changes nothing.
    pub fn set_target(
        &mut self,
        now: Instant,
        group: GroupId,
        setting: &str,
    ) -> Result<(), KnobError> {
        let now = self.clock(now);
        if !self.entry.knobs.iter().any(|knob| knob.file == LATENCY) {
            return Err(KnobError::unsupported("this scheduler takes no latency targets"));
        }
        let line = format!("{} {setting}", self.env.device.number);
        let done = self.sched.write_knob(now, group, LATENCY, &line, &mut self.env.cx());
        // What was held back for the others, or for this group, may go now.
        self.freshen();
        self.settle();
        self.settle_size();
        done
    }

    /// The target of a group in the same form; `None`: it has none.
    pub fn target(&mut self, group: GroupId) -> Option<String> {
        let mut line = String::new();
        self.sched.read_knob(group, LATENCY, &self.env.cx(), &mut line);
        let (_, setting) = line.trim_end().split_once(' ')?;
        Some(setting.into())
    }

    // --- the rest ---------------------------------------------------------------------------------

    /// Places of each word of tags, or of all where they are plain, that this I/O may have; `None`: no limit.
    pub fn depth(&mut self, now: Instant, io: &Io) -> Option<u32> {
        let now = self.clock(now);
        match self.sched.depth_limit(now, io, &mut self.env.cx()) {
            Depth::Usual | Depth::Insist => None,
            Depth::Word(n) => Some(n.max(1)),
        }
    }

    /// The time of `next_timer` has come, or not yet.
    pub fn timer(&mut self, now: Instant) {
        let now = self.clock(now);
        if self.sched.next_timer().is_some_and(|at| at <= now) {
            self.sched.timer(now, &mut self.env.cx());
            self.freshen();
        }
        self.settle();
    }

    /// The value of tunable number `t`.
    pub fn value(&self, t: usize) -> Option<u64> {
        self.sched.value(self.entry.tunables.get(t)?.name)
    }

    /// Sets it; false: refused.
    pub fn set(&mut self, now: Instant, t: usize, value: u64) -> bool {
        let now = self.clock(now);
        let Some(tunable) = self.entry.tunables.get(t) else { return false };
        let done = tunable.check(value).is_ok()
            && self.sched.set(now, tunable.name, value, &mut self.env.cx()).is_ok();
        self.freshen();
        self.settle();
        self.settle_size();
        done
    }

    /// `nr_requests` has changed.
    pub fn resized(&mut self, now: Instant, nr_requests: u32) {
        let now = self.clock(now);
        let device = &mut self.env.device;
        device.nr_requests = nr_requests;
        device.tags_made_for = device.tags_made_for.max(nr_requests);
        self.sched.changed(now, &Change::Device, &mut self.env.cx());
        self.settle();
    }

    /// Processes alive, processes numbered, groups numbered, requests known.
    pub fn sizes(&self) -> [u32; 4] {
        let env = &self.env;
        [
            self.procs_alive,
            env.procs.len() as u32,
            env.groups.len() as u32,
            env.requests.len() as u32,
        ]
    }
}

/// The kernel's operation as the shim numbers it.
pub fn op_of(op: u8) -> Op {
    match op {
        0 => Op::Read,
        2 => Op::Discard,
        3 => Op::Flush,
        4 => Op::WriteZeroes,
        _ => Op::Write,
    }
}
