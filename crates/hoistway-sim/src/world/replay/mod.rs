//! Replay: I/Os as somebody recorded them, straight into the block layer; no load, no page cache, no file system.
//!
//! **Problem.** What a scheduler does to a load is only known of that very load. A block trace has it, as the block
//! layer saw it: who asked for what, where and when. **Idea.** The recorded I/Os are submitted again, to a stack
//! with another scheduler and a drive model behind it.
//!
//! **When.** *Open loop*: at the recorded times, whatever the drive does. A load that the drive cannot carry then
//! piles up without bound; so the backlog is bounded, and a run that reaches the bound is stopped and says so.
//! *Closed loop* (`pace`): an I/O waits for what it had waited for in the recording, so that a faster drive is
//! asked sooner and a slower one later.
//!
//! **Who.** Each recorded process is one of the stack. A process whose submission is not accepted (no tag, held by a
//! controller) sleeps, as its task would; what it does next waits in its own backlog, in order. Latency counts from
//! the moment an I/O was to be submitted, so it has that wait in it.
//!
//! **Order at one instant**: what the drive has served, the stack's timers, processes that may go on, recorded steps in
//! the order of the recording. That is the order of the simulator ([`super::Step`]); a recording of the simulator's
//! own steps, replayed in open loop under the same settings, therefore makes the same run.
//!
//! **Weaknesses.** A trace knows nothing of why: open loop keeps the think times of the recorded machine, closed loop
//! guesses dependencies. What a page cache would have absorbed on the other machine is in neither. A trace of a
//! loaded device has that device's congestion in its arrival times.
//!
//! Not through [`super::Machine`]: an event per I/O and a heap that is hardly used are all that a replay needs, and
//! recordings have many millions of I/Os.

mod core;
mod finish;
mod pace;
#[cfg(test)]
mod tests;

use self::core::{Core, Owner};
pub use self::finish::ALL;
use self::pace::Pacer;
pub use self::pace::{Follow, LOOK_BACK, Pace};
use super::Job;
use super::record::ProcStats;
use super::setup::stack_of;
use super::step::{Recorder, Step};
use hoistway::stack::IoError;
use hoistway::stage::Change;
use hoistway::{Flags, GroupId, Input, Instant, Io, IoId, IoPrio, Nanos, Op, ProcId, Sectors};
use hoistway_run::{JobError, Outcome, ProcSpec, Role};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deed {
    /// It submits an I/O.
    #[default]
    Submit,
    /// It opens a plug section.
    Plug,
    /// It closes it.
    Unplug,
    /// It sleeps for I/O.
    Sleep,
    /// It exits.
    Exit,
    /// It sleeps on the dirty limit.
    DirtySlept,
    /// The recording ends here, whoever does this: plug sections that are open are closed, since nobody will.
    End,
}

/// One recorded step of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When, in time of the replay.
    pub at: Instant,
    /// Who: a number that the feed gave, counted up from 0.
    pub proc: u32,
    /// What.
    pub deed: Deed,
    /// Of a submission: what it does,
    pub op: Op,
    /// its flags,
    pub flags: Flags,
    /// its priority; [`IoPrio::NONE`]: the process's,
    pub prio: IoPrio,
    /// who pays; `None`: the process's group,
    pub group: Option<GroupId>,
    /// where; `None`: the process's CPU,
    pub cpu: Option<u32>,
    /// its segments; 0: one per 4 KiB,
    pub segments: u32,
    /// its first sector,
    pub start: u64,
    /// and its length in sectors.
    pub sectors: u64,
    /// Closed loop: it follows the I/O of the same process that was submitted so many before it; 0: none is known.
    pub after: u32,
    /// Closed loop: so long after that one's end, or after the submission before it if none is known.
    pub think: Nanos,
}

/// A process as the feed introduces it.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its place in [`Job::groups`]; `None`: the root.
    pub group: Option<usize>,
    /// The priority set on it.
    pub prio: IoPrio,
    /// Its latencies and bytes are counted.
    pub counted: bool,
}

/// Where recorded steps come from.
pub trait Feed {
    /// The next step, not earlier than the one before.
    ///
    /// # Errors
    ///
    /// What cannot be read.
    fn next(&mut self) -> Result<Option<Arrival>, JobError>;

    /// Who process `number` is; asked once, before its first step.
    fn introduce(&mut self, number: u32) -> Member;

    /// How far the feed is, in whatever unit [`replay`]'s `watch` is to hear.
    fn progress(&self) -> u64;

    /// Processes that exist from the beginning on.
    fn at_once(&self) -> u32 {
        0
    }
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When I/Os are submitted.
    pub pace: Pace,
    /// Open loop: so many steps may wait; with more the replay stops. Closed loop: so many are looked ahead.
    pub backlog: usize,
    /// Processes keep to what controllers say about their next step. False for a recording of the simulator itself,
    /// in whose times that is already.
    pub delays: bool,
}

/// How a replay ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// I/Os submitted.
    pub submitted: u64,
    /// Discards that the drive does not support, left out.
    pub unsupported: u64,
    /// The last recorded time.
    pub last: Instant,
    /// Steps that waited, and I/Os that were not finished, at the last recorded time.
    pub backlog: u64,
    /// Most steps that waited.
    pub backlog_max: u64,
    /// The bound was reached, and the rest was left out.
    pub stopped: bool,
    /// Closed loop: a process had nothing to do because others were too far behind to look further ahead.
    pub ran_dry: u64,
    /// When all was over.
    pub end: Instant,
    /// Digest of what the drive was given and gave back, and when.
    pub timeline: u64,
}

/// Never, for a process or the feed.
const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// How often `watch` is asked, in events.
const WATCH: u32 = 20_000;

/// So long at most without the end of any I/O, once the recording is over.
const PATIENCE: Nanos = Nanos::secs(10_000);

/// A step that waits, or a piece of an I/O.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrival: Arrival,
    /// The flight of whose I/O it is a further piece.
    piece_of: Option<u32>,
}

/// A recorded process.
#[derive(Debug)]
struct RecordedProc {
    id: ProcId,
    group: GroupId,
    prio: IoPrio,
    cpu: u32,
    spec: ProcSpec,
    counted: bool,
    stats: ProcStats,
    /// What it will do next, in order.
    queue: VecDeque<Waiting>,
    /// Its submission is not accepted yet.
    blocked: bool,
    /// It stands in the heap of those that go on.
    armed: bool,
    /// A controller has it wait until then.
    not_before: Instant,
    pacer: Pacer,
}

impl RecordedProc {
    fn idle(&self, now: Instant) -> bool {
        self.queue.is_empty() && !self.blocked && self.not_before <= now
    }
}

/// An I/O under way.
#[derive(Clone, Copy, Debug, Default)]
struct ReplayedIo {
    since: Instant,
    proc: u32,
    bytes: u64,
    /// Pieces not finished.
    left: u32,
    /// Number among the process's I/Os.
    number: u64,
}

/// Everything but the core.
#[derive(Debug)]
struct Actors {
    all: Vec<RecordedProc>,
    flights: Vec<ReplayedIo>,
    free: Vec<u32>,
    /// Who goes on, and when; ties go to the lower number.
    ready: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Steps in all queues.
    waiting: usize,
    /// The submission under way, and whether it is over.
    submission: u32,
    accepted: bool,
    closed: bool,
    delays: bool,
    /// The last end of an I/O, and the longest time without one.
    last_end: Instant,
    starved: Nanos,
    finished: u64,
    fault: Option<IoError>,
}

impl Owner for Actors {
    #[inline]
    fn accepted(&mut self, now: Instant, io: IoId) {
        if io.0 == u64::from(self.submission) {
            self.accepted = true;
            return;
        }
        let proc = self.flights[io.0 as usize].proc;
        self.all[proc as usize].blocked = false;
        self.arm(now, proc);
    }

    #[inline]
    fn finished(&mut self, now: Instant, io: IoId, error: Option<IoError>) {
        let slot = io.0 as usize;
        let flight = &mut self.flights[slot];
        if error.is_some() {
            self.fault = self.fault.or(error);
        }
        flight.left -= 1;
        if flight.left > 0 {
            return;
        }
        let ReplayedIo { since, proc, bytes, number, .. } = *flight;
        self.free.push(slot as u32);
        self.finished += 1;
        let gap = now - since.max(self.last_end);
        self.starved = self.starved.max(gap);
        self.last_end = now;
        let actor = &mut self.all[proc as usize];
        if actor.counted {
            actor.stats.one(now, now - since, bytes);
        }
        if self.closed {
            actor.pacer.finished(now, number);
            self.arm(now, proc);
        }
    }

    fn delayed(&mut self, proc: ProcId, until: Instant) {
        if let Some(actor) = self.all.get_mut(proc.index()).filter(|_| self.delays) {
            actor.not_before = actor.not_before.max(until);
        }
    }
}

impl Actors {
    /// Process `p` goes on when it may, if it has anything to do.
    fn arm(&mut self, now: Instant, p: u32) {
        let actor = &mut self.all[p as usize];
        if actor.armed || actor.blocked {
            return;
        }
        let Some(head) = actor.queue.front() else { return };
        let due = match self.closed && head.piece_of.is_none() {
            true => actor.pacer.due(&head.arrival),
            false => Some(head.arrival.at),
        };
        if let Some(due) = due {
            actor.armed = true;
            self.ready.push(Reverse((due.max(now).max(actor.not_before), p)));
        }
    }

    fn push(&mut self, waiting: Waiting) {
        self.waiting += 1;
        self.all[waiting.arrival.proc as usize].queue.push_back(waiting);
    }

    fn take_flight(&mut self, flight: ReplayedIo) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.flights[slot as usize] = flight;
                slot
            }
            None => {
                self.flights.push(flight);
                (self.flights.len() - 1) as u32
            }
        }
    }
}

/// What a step of a process changes. Apart from what the feed has read, so that a step is done where it lies.
struct Scene<R> {
    core: Core<R>,
    actors: Actors,
    ended: Ended,
}

/// A replay under way.
struct Replay<'a, F, R> {
    job: &'a Job<'a>,
    options: Options,
    feed: &'a mut F,
    scene: Scene<R>,
    groups: Vec<GroupId>,
    /// The next recorded step, read already.
    coming: Option<Arrival>,
    /// When it is due by itself.
    arrival: Instant,
    at_end: bool,
}

/// Replays what `feed` has under the job's scheduler, controllers and groups, on its drive. The job's processes and
/// window are not used. `watch` hears now and then of [`Feed::progress`]; `false` interrupts the replay.
///
/// # Errors
///
/// Settings that are refused, what the feed cannot read, I/Os that the stack refuses, an interruption.
pub fn replay<F: Feed, R: Recorder>(
    job: &Job<'_>,
    options: Options,
    feed: &mut F,
    recorder: R,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<(Outcome, Ended), JobError> {
    let mut replay = Replay::new(job, options, feed, recorder)?;
    replay.run(watch)?;
    replay.outcome()
}

impl<'a, F: Feed, R: Recorder> Replay<'a, F, R> {
    fn new(
        job: &'a Job<'a>,
        options: Options,
        feed: &'a mut F,
        recorder: R,
    ) -> Result<Replay<'a, F, R>, JobError> {
        let stack = stack_of(job, job.drive.device())?;
        let (core, groups) = Core::new(job, stack, recorder)?;
        let closed = options.pace != Pace::Open;
        let actors = Actors {
            all: Vec::new(),
            flights: Vec::with_capacity(4096),
            free: Vec::with_capacity(4096),
            ready: BinaryHeap::new(),
            waiting: 0,
            submission: u32::MAX,
            accepted: true,
            closed,
            delays: options.delays,
            last_end: Instant::ZERO,
            starved: Nanos::ZERO,
            finished: 0,
            fault: None,
        };
        let ended = Ended::default();
        let (coming, arrival, at_end) = (None, NEVER, false);
        let scene = Scene { core, actors, ended };
        let mut replay = Replay { job, options, feed, scene, groups, coming, arrival, at_end };
        let many = replay.feed.at_once();
        replay.know(many);
        Ok(replay)
    }

    /// The first `many` processes exist.
    fn know(&mut self, many: u32) {
        while (self.scene.actors.all.len() as u32) < many {
            let number = self.scene.actors.all.len() as u32;
            let Member { name, group, prio, counted } = self.feed.introduce(number);
            let root = GroupId::ROOT;
            let id = group.map_or(root, |g| self.groups[g]);
            let spec = ProcSpec {
                name,
                role: Role::Interferer,
                group,
                prio,
                start: Nanos::ZERO,
                load: String::new(),
                params: toml::Table::new(),
            };
            let stats = ProcStats::open_ended(&spec, &self.job.window);
            let proc = self.scene.core.add_proc(id, prio, &spec.name);
            let effective = self.scene.core.stack.env().procs.prio(proc);
            assert_eq!(proc.index(), number as usize, "a replay's processes are all there are");
            self.scene.actors.all.push(RecordedProc {
                id: proc,
                group: id,
                prio: effective,
                // Process i runs on CPU i mod 8, as in the simulator.
                cpu: number % 8,
                spec,
                counted,
                stats,
                queue: VecDeque::new(),
                blocked: false,
                armed: false,
                not_before: Instant::ZERO,
                pacer: Pacer::new(self.options.pace),
            });
        }
    }

    /// Reads the next step.
    #[inline]
    fn read(&mut self) -> Result<(), JobError> {
        self.coming = self.feed.next()?;
        match &self.coming {
            None => {
                self.arrival = NEVER;
                self.at_end = true;
            }
            Some(arrival) => {
                if !self.scene.actors.closed {
                    self.arrival = arrival.at;
                }
                self.scene.ended.last = arrival.at;
                let proc = arrival.proc;
                if proc as usize >= self.scene.actors.all.len() {
                    self.know(proc + 1);
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, watch: &mut dyn FnMut(u64) -> bool) -> Result<(), JobError> {
        self.read()?;
        let mut events = 0;
        loop {
            if self.scene.core.touched {
                self.scene.core.ask_drive(&mut self.scene.actors);
            }
            if self.scene.actors.closed {
                self.look_ahead()?;
            }
            let ready = self.scene.actors.ready.peek().map_or(NEVER, |r| r.0.0);
            let at = self.scene.core.next().min(ready).min(self.arrival);
            if at == NEVER {
                return Ok(());
            }
            if self.at_end {
                // Timers of controllers go on for ever.
                if self.open() == 0 {
                    return Ok(());
                }
                self.check_end(at)?;
            }
            events += 1;
            if events >= WATCH {
                events = 0;
                if !watch(self.feed.progress()) {
                    return Err(JobError::Interrupted);
                }
            }
            self.scene.core.advance(at);
            if self.scene.core.due(at, &mut self.scene.actors) {
            } else if ready == at {
                self.go_on()?;
            } else {
                self.arrive()?;
                if self.scene.ended.stopped {
                    return Ok(());
                }
            }
            if let Some(error) = self.scene.actors.fault {
                let what = format!("an I/O of the replay failed: {error:?}");
                return Err(JobError::Storage { what });
            }
        }
    }

    /// Open loop: a recorded step is due.
    #[inline]
    fn arrive(&mut self) -> Result<(), JobError> {
        let arrival = self.coming.as_ref().expect("it was looked at");
        let now = self.scene.core.now;
        let p = arrival.proc;
        if self.scene.actors.all[p as usize].idle(now) {
            self.scene.perform(arrival, None)?;
        } else {
            self.scene.actors.push(Waiting { arrival: *arrival, piece_of: None });
            self.scene.ended.backlog_max =
                self.scene.ended.backlog_max.max(self.scene.actors.waiting as u64);
            self.scene.ended.stopped = self.scene.actors.waiting > self.options.backlog;
            self.scene.actors.arm(now, p);
        }
        self.read()?;
        if self.at_end || self.scene.ended.stopped {
            self.scene.ended.backlog = self.open();
        }
        Ok(())
    }

    /// What is under way at the end of the recording ends.
    fn check_end(&self, at: Instant) -> Result<(), JobError> {
        let last = self.scene.actors.last_end.max(self.scene.ended.last);
        if at < last || at - last < PATIENCE {
            return Ok(());
        }
        let what = format!(
            "{} I/Os have not ended {} s after the end of the recording; a controller or a limit holds \
             them for ever",
            self.open(),
            PATIENCE.0 / 1_000_000_000
        );
        Err(JobError::Parameter { of: "trace".into(), message: what })
    }

    /// Steps that wait, and I/Os under way.
    fn open(&self) -> u64 {
        let flights = self.scene.actors.flights.len() - self.scene.actors.free.len();
        (self.scene.actors.waiting + flights) as u64
    }

    /// Closed loop: reads as far ahead as it may.
    fn look_ahead(&mut self) -> Result<(), JobError> {
        while self.scene.actors.waiting < self.options.backlog {
            let Some(arrival) = self.coming.take() else { return Ok(()) };
            let p = arrival.proc;
            self.scene.actors.push(Waiting { arrival, piece_of: None });
            self.scene.actors.arm(self.scene.core.now, p);
            self.read()?;
        }
        Ok(())
    }

    /// The process that is next does what it was about to do.
    fn go_on(&mut self) -> Result<(), JobError> {
        let Reverse((_, p)) = self.scene.actors.ready.pop().expect("it was looked at");
        let now = self.scene.core.now;
        let actor = &mut self.scene.actors.all[p as usize];
        actor.armed = false;
        if actor.not_before > now {
            self.scene.actors.arm(now, p);
            return Ok(());
        }
        let Some(waiting) = actor.queue.pop_front() else { return Ok(()) };
        self.scene.actors.waiting -= 1;
        if self.scene.actors.closed && actor.queue.is_empty() && !self.at_end {
            self.scene.ended.ran_dry += 1;
        }
        self.scene.perform(&waiting.arrival, waiting.piece_of)?;
        self.scene.actors.arm(now, p);
        Ok(())
    }
}

impl<R: Recorder> Scene<R> {
    /// A process does a step.
    #[inline]
    fn perform(&mut self, arrival: &Arrival, piece_of: Option<u32>) -> Result<(), JobError> {
        let id = self.actors.all[arrival.proc as usize].id;
        let core = &mut self.core;
        match arrival.deed {
            Deed::Submit => return self.submit(arrival, piece_of),
            Deed::Plug => {
                core.recorder.step(core.now, Step::Plug(id));
                core.input(Input::Plug(id), &mut self.actors);
            }
            Deed::Unplug => {
                core.recorder.step(core.now, Step::Unplug(id));
                core.input(Input::Unplug(id), &mut self.actors);
            }
            Deed::Sleep => {
                core.recorder.step(core.now, Step::Sleep(id));
                core.input(Input::Sleep(id), &mut self.actors);
            }
            Deed::Exit => {
                core.recorder.step(core.now, Step::Exit(id));
                core.exit(id, &mut self.actors);
            }
            Deed::DirtySlept => {
                core.recorder.step(core.now, Step::DirtySlept(id));
                core.change(Change::DirtySlept(id), &mut self.actors);
            }
            Deed::End => {
                for number in 0..self.actors.all.len() {
                    let id = self.actors.all[number].id;
                    core.input(Input::Unplug(id), &mut self.actors);
                }
            }
        }
        Ok(())
    }

    fn submit(&mut self, arrival: &Arrival, piece_of: Option<u32>) -> Result<(), JobError> {
        let now = self.core.now;
        if arrival.op == Op::Discard && !self.core.discards {
            self.ended.unsupported += 1;
            if self.actors.closed {
                let pacer = &mut self.actors.all[arrival.proc as usize].pacer;
                let number = pacer.submitted(now);
                pacer.finished(now, number);
            }
            return Ok(());
        }
        let actor = &mut self.actors.all[arrival.proc as usize];
        // The legacy layer takes bios of the size of a request; whoever makes them cuts before.
        let most = self.core.most_sectors(arrival.op);
        let sectors = arrival.sectors.min(most);
        let slot = match piece_of {
            Some(slot) => slot,
            None => {
                let number = actor.pacer.submitted(now);
                let since = if self.actors.closed { now } else { arrival.at };
                self.ended.submitted += 1;
                // A division is dear.
                let whole = arrival.sectors <= most;
                let left = if whole { 1 } else { arrival.sectors.div_ceil(most) as u32 };
                let (proc, bytes) = (arrival.proc, arrival.sectors * 512);
                self.actors.take_flight(ReplayedIo { since, proc, bytes, left, number })
            }
        };
        let actor = &mut self.actors.all[arrival.proc as usize];
        if sectors < arrival.sectors {
            let (start, rest) = (arrival.start + sectors, arrival.sectors - sectors);
            let rest = Arrival { start, sectors: rest, ..*arrival };
            actor.queue.push_front(Waiting { arrival: rest, piece_of: Some(slot) });
            self.actors.waiting += 1;
        }
        let io = Io {
            id: IoId(u64::from(slot)),
            proc: actor.id,
            group: arrival.group.unwrap_or(actor.group),
            cpu: arrival.cpu.unwrap_or(actor.cpu),
            op: arrival.op,
            start: Sectors(arrival.start),
            sectors: Sectors(sectors),
            segments: match arrival.segments {
                0 => sectors.div_ceil(8) as u32,
                n => n,
            },
            flags: arrival.flags,
            prio: if arrival.prio == IoPrio::NONE { actor.prio } else { arrival.prio },
        };
        let more = sectors < arrival.sectors;
        let mut accepted = self.core.submit(&io);
        if !accepted {
            self.actors.submission = slot;
            self.actors.accepted = false;
            self.core.submit_whole(io, &mut self.actors)?;
            self.actors.submission = u32::MAX;
            accepted = self.actors.accepted;
        }
        if !accepted {
            self.actors.all[arrival.proc as usize].blocked = true;
        } else if more {
            self.actors.arm(now, arrival.proc);
        }
        Ok(())
    }
}
