//! A drive's model acted out on the wall clock, without a stack in front of it.
//!
//! **Problem.** The model says when a command that came at a time is done. Between the block layer that sends a
//! command and this process lies a path (loop device, FUSE, the waking of threads) that takes tens of
//! microseconds in each direction, which a real drive has not: a drive of 100 us would answer after 150.
//!
//! **Idea.** The path is measured when the emulator starts ([`Path`]), and taken off: a command is told to the
//! model at the time it was sent, its arrival less the way in; its answer leaves before the model says it is done,
//! earlier by the way out. What depends on the length of the data (copies) counts in the direction in which the data goes.
//! After milliseconds without a command the way is longer, although no processor sleeps: nothing of what it needs is
//! left in their caches ([`PathTime::cold`]).
//!
//! The timer wakes the thread that answers late by a time that is measured, too ([`PathTime::wake`]). It is
//! set so much earlier, and the rest is waited for at the processor, for at most a quarter of one.
//!
//! **State.** The adapter of the drive; the time it was last told; commands in it; answers that wait for
//! their time, in order of it. The model's time goes from event to event and never back. It is at most one way
//! out ahead of the clock, and behind it when nothing happens in the drive.
//!
//! **Guarantees.** A command alone in the drive takes the time of the model, whatever the path, if that is longer
//! than the path; else it takes the path's, and counts as late by the difference. No command is answered before
//! it came. **Weaknesses.** What arrives within a path's time before another command is done is told to the
//! model behind that event, so the drive chooses what is next without it: one path too late. The path's own
//! scatter is not taken off, nor seen in the figures of lateness, which are this process's alone.

use super::store::Store;
use crate::kernel::Lateness as Late;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use hoistway::{Instant, Nanos, Op};
use hoistway_run::Histogram;
use hoistway_serve::storage::EmulationFigures;
use hoistway_serve::system::Clock;
use hoistway_serve::system::Slab;
use hoistway_sim::drive::{Adapter, Command, Completion, DriveFile, DriveOutput};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Most time at the processor that is saved up for waiting.
const CREDIT: Nanos = Nanos::ms(2);

/// The path grows with the pause before a command, from the first to the second of these. Measured on a virtual machine,
/// over the usual path: 4 us more after 2 ms, 20 to 40 after 4 ms, 40 to 50 after 8, 15 and 50 ms.
pub(super) const COLD: (Nanos, Nanos) = (Nanos::ms(2), Nanos::ms(8));

/// How long the path between the block layer and this process takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathTime {
    /// Both ways together, for a read of 4 KiB that is answered at once.
    pub fixed: Nanos,
    /// What comes on top of it after a pause of 8 ms or more; less after 2 to 8 ms, in proportion.
    pub cold: Nanos,
    /// How late the timer wakes a thread.
    pub wake: Nanos,
    /// Nanoseconds for each KiB of data beyond that.
    pub per_kib: f64,
}

impl PathTime {
    /// The way in and the way out of a command.
    fn of(&self, op: Op, len: u64, pause: Nanos) -> (Nanos, Nanos) {
        let half = Nanos(self.fixed.0 / 2);
        let data = Nanos((self.per_kib * (len.saturating_sub(4096) as f64 / 1024.0)) as u64);
        // All of what a pause costs counts on the way in, where most of it arises: the answer is this thread's.
        let (none, whole) = (COLD.0.0, COLD.1.0);
        let grown = pause.0.clamp(none, whole) - none;
        let way_in = half + Nanos(self.cold.0 * grown / (whole - none));
        match op {
            Op::Read => (way_in, half + data),
            Op::Write => (way_in + data, half),
            Op::Flush | Op::Discard | Op::WriteZeroes => (way_in, half),
        }
    }
}

/// How commands are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Service {
    /// As the drive's model says.
    Model,
    /// All in the same time, as many at once as come: how the path is measured.
    Fixed(Nanos),
}

/// What is owed to the kernel.
#[derive(Debug)]
pub(super) enum Reply {
    Data(ReplyData),
    Written(ReplyWrite),
    Empty(ReplyEmpty),
}

/// A command as it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// When this process got it, before anything was done for it: see [`Acting::now`].
    pub came: Instant,
    pub op: Op,
    pub at: u64,
    pub len: u64,
    pub fua: bool,
    /// Its data could not be stored.
    pub failed: bool,
}

/// One drive.
#[derive(Debug)]
pub(super) struct Acting {
    clock: Clock,
    state: Mutex<DriveState>,
    /// The next event is earlier than it was.
    sooner: Condvar,
    store: Store,
    late: Mutex<CommandLateness>,
}

#[derive(Debug)]
struct DriveState {
    adapter: Adapter,
    service: Service,
    path: PathTime,
    flights: Slab<CommandUnderWay>,
    /// Commands for which the drive has no room yet.
    backlog: VecDeque<Command>,
    /// What the model was told last.
    told: Instant,
    /// When a command came last.
    came: Instant,
    /// The model's next event.
    wake: Option<Instant>,
    /// Ways out of the commands in the drive, with how many have it.
    outs: BTreeMap<Nanos, u32>,
    /// Answers, by the time they leave.
    ready: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Until when the thread that waits sleeps.
    asleep_until: Option<Instant>,
    /// Time at the processor that may be waited for, as of then.
    credit: (Nanos, Instant),
    /// Commands in the drive and waiting for it, and the most there were.
    under_way: u32,
    most: u32,
    taken: u64,
    closing: bool,
}

/// A command on its way through the drive.
#[derive(Debug)]
struct CommandUnderWay {
    reply: Reply,
    op: Op,
    at: u64,
    len: u64,
    sent: Instant,
    out: Nanos,
    /// The part of the way out that goes by the length.
    copy: Nanos,
    modelled: Nanos,
    failed: bool,
}

#[derive(Debug, Default)]
struct CommandLateness {
    modelled: u128,
    late: Histogram,
}

/// An answer whose time has come.
struct Due {
    flight: CommandUnderWay,
    at: Instant,
}

impl Acting {
    pub fn new(drive: &DriveFile, seed: u64, store: Store) -> Acting {
        Acting {
            clock: Clock::new(),
            state: Mutex::new(DriveState {
                adapter: Adapter::new(drive, drive.build(seed)),
                service: Service::Model,
                path: PathTime::default(),
                flights: Slab::with_capacity(256),
                backlog: VecDeque::new(),
                told: Instant::ZERO,
                came: Instant::ZERO,
                wake: None,
                outs: BTreeMap::new(),
                ready: BinaryHeap::new(),
                asleep_until: None,
                credit: (Nanos::ZERO, Instant::ZERO),
                under_way: 0,
                most: 0,
                taken: 0,
                closing: false,
            }),
            sooner: Condvar::new(),
            store,
            late: Mutex::new(CommandLateness { modelled: 0, late: Histogram::new() }),
        }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Changes how commands are served from now on. The drive is to be idle.
    pub fn serve(&self, service: Service, path: PathTime) {
        let mut state = self.lock();
        (state.service, state.path) = (service, path);
        *self.lateness() = CommandLateness { modelled: 0, late: Histogram::new() };
        state.most = 0;
    }

    /// The time by the drive's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Takes a command; the data of a write is stored already, or could not be. That is done while the model serves
    /// it: memory that is written for the first time costs the machine tens of microseconds, and the drive none.
    pub fn take(&self, arrival: Arrival, reply: Reply) {
        let Arrival { came, op, at, len, fua, failed } = arrival;
        if op == Op::Read {
            self.store.expect(at, len);
        }
        let mut state = self.lock();
        state.admit(
            came,
            CommandUnderWay {
                reply,
                op,
                at,
                len,
                sent: came,
                out: Nanos::ZERO,
                copy: Nanos::ZERO,
                modelled: Nanos::ZERO,
                failed,
            },
            fua,
        );
        // What is due already need not wait until the other thread wakes.
        let due = state.due(self.clock.now());
        let until = state.asleep_until;
        let sooner = state.next().filter(|&at| until.is_none_or(|until| at < until));
        if sooner.is_some() {
            state.asleep_until = sooner;
        }
        drop(state);
        if sooner.is_some() {
            self.sooner.notify_one();
        }
        if !due.is_empty() {
            self.answer(due, &mut Vec::new());
        }
    }

    /// Answers commands when their time has come, until the drive is closed.
    pub fn run(&self) {
        let mut scratch = Vec::new();
        let mut state = self.lock();
        while !state.closing {
            let now = self.clock.now();
            let due = state.due(now);
            if !due.is_empty() {
                drop(state);
                self.answer(due, &mut scratch);
                state = self.lock();
                continue;
            }
            state = self.wait(state, now);
        }
    }

    /// Waits until something is to be done.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, DriveState>,
        now: Instant,
    ) -> MutexGuard<'a, DriveState> {
        let next = state.next();
        state.asleep_until = next;
        let Some(at) = next else {
            return self.sooner.wait(state).expect("nobody panics while holding the lock");
        };
        let patience = state.credit(now).min(state.path.wake);
        let nap = at.since(now).0.saturating_sub(patience.0);
        if nap > 0 {
            let woken = self.sooner.wait_timeout(state, Duration::from_nanos(nap));
            state = woken.expect("nobody panics while holding the lock").0;
        }
        // Until it sleeps again it looks at everything by itself.
        state.asleep_until = Some(Instant::ZERO);
        let woken = self.clock.now();
        if woken + patience < at || woken >= at {
            // Woken by something new, or late.
            return state;
        }
        drop(state);
        let mut now = woken;
        while now < at {
            std::hint::spin_loop();
            now = self.clock.now();
        }
        state = self.lock();
        state.credit.0 = Nanos(state.credit.0.0.saturating_sub(now.since(woken).0));
        state
    }

    /// No further waiting; what is in the drive is not answered.
    pub fn close(&self) {
        self.lock().closing = true;
        self.sooner.notify_all();
    }

    pub fn figures(&self) -> EmulationFigures {
        let late = self.lateness();
        let commands = late.late.count();
        let mean = |sum: u128| Nanos((sum / u128::from(commands.max(1))) as u64);
        EmulationFigures {
            commands,
            modelled_mean: mean(late.modelled),
            achieved_mean: mean(late.modelled + late.late.sum()),
            late_p50: Nanos(late.late.quantile(1, 2).unwrap_or(0)),
            late_p99: Nanos(late.late.quantile(99, 100).unwrap_or(0)),
        }
    }

    /// How late commands were, since the self-test.
    pub fn told(&self) -> Late {
        let late = self.lateness();
        Late {
            modelled_ns: u64::try_from(late.modelled).unwrap_or(u64::MAX),
            late_ns: u64::try_from(late.late.sum()).unwrap_or(u64::MAX),
        }
    }

    /// How many commands came, since the drive began.
    pub fn taken(&self) -> u64 {
        self.lock().taken
    }

    /// Most commands that were in the drive, or waited for it, at a time.
    pub fn most_under_way(&self) -> u32 {
        self.lock().most
    }

    fn answer(&self, due: Vec<Due>, scratch: &mut Vec<u8>) {
        for Due { flight, at } in due {
            let modelled = flight.modelled;
            // The way out begins when it leaves; what of it goes by the length is the copy made here.
            let copied = at + flight.copy;
            self.reply(flight, scratch);
            let late = self.clock.now().since(copied);
            let mut figures = self.lateness();
            figures.modelled += u128::from(modelled.0);
            figures.late.record(late.0);
        }
    }

    fn reply(&self, flight: CommandUnderWay, scratch: &mut Vec<u8>) {
        let CommandUnderWay { reply, at, len, failed, .. } = flight;
        match reply {
            Reply::Data(reply) => self.store.read(at, len, scratch, |bytes| match bytes {
                Ok(bytes) => reply.data(bytes),
                Err(_) => reply.error(Errno::EIO),
            }),
            // The drive was busy with it, and its memory or file is full all the same.
            Reply::Written(reply) if failed => reply.error(Errno::ENOSPC),
            Reply::Written(reply) => reply.written(len as u32),
            Reply::Empty(reply) if failed => reply.error(Errno::EIO),
            Reply::Empty(reply) => reply.ok(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DriveState> {
        self.state.lock().expect("nobody panics while holding the lock")
    }

    fn lateness(&self) -> MutexGuard<'_, CommandLateness> {
        self.late.lock().expect("nobody panics while holding the lock")
    }
}

impl DriveState {
    /// A command that arrived at that time.
    fn admit(&mut self, came: Instant, mut flight: CommandUnderWay, fua: bool) {
        self.under_way += 1;
        self.taken += 1;
        self.most = self.most.max(self.under_way);
        if let Service::Fixed(time) = self.service {
            flight.modelled = time;
            let slot = self.flights.insert(flight);
            return self.ready.push(Reverse((came + time, slot)));
        }
        let pause = came.since(self.came);
        self.came = self.came.max(came);
        let (way_in, out) = self.path.of(flight.op, flight.len, pause);
        flight.out = out;
        flight.copy = Nanos(out.0 - (self.path.fixed.0 / 2).min(out.0));
        flight.sent = before(came, way_in).max(self.told);
        let (sent, op, start, len) = (flight.sent, flight.op, flight.at, flight.len);
        *self.outs.entry(out).or_default() += 1;
        let tag = u64::from(self.flights.insert(flight));
        self.advance(sent);
        self.told = self.told.max(sent);
        self.backlog.push_back(Command { tag, op, start, len, fua });
        self.work();
    }

    /// Works off the model's events up to a time.
    fn advance(&mut self, until: Instant) {
        while let Some(at) = self.wake.filter(|&at| at <= until) {
            self.told = self.told.max(at);
            self.work();
        }
    }

    /// Gives the drive what it has room for, and takes what it is done with, at the time it was told last.
    fn work(&mut self) {
        loop {
            while let Some(&command) = self.backlog.front()
                && (self.adapter.room() || self.adapter.runs_alone(&command))
            {
                self.backlog.pop_front();
                self.adapter.handle(self.told, command);
            }
            match self.adapter.poll(self.told) {
                DriveOutput::Done(done) => self.finished(done),
                DriveOutput::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    fn finished(&mut self, done: Completion) {
        let slot = done.tag as u32;
        let flight = self.flights.get_mut(slot).expect("a drive answers what it was given");
        flight.modelled = done.at - flight.sent;
        let out = flight.out;
        if let Some(count) = self.outs.get_mut(&out) {
            *count -= 1;
            if *count == 0 {
                self.outs.remove(&out);
            }
        }
        self.ready.push(Reverse((before(done.at, out), slot)));
    }

    /// Answers that are due.
    fn due(&mut self, now: Instant) -> Vec<Due> {
        let ahead = self.outs.last_key_value().map_or(Nanos::ZERO, |(&out, _)| out);
        self.advance(now + ahead);
        let mut due = Vec::new();
        while let Some(&Reverse((at, slot))) = self.ready.peek()
            && at <= now
        {
            self.ready.pop();
            self.under_way -= 1;
            let flight = self.flights.remove(slot).expect("each is answered once");
            due.push(Due { flight, at });
        }
        due
    }

    /// Time at the processor that may be waited for: a quarter of what passes.
    fn credit(&mut self, now: Instant) -> Nanos {
        let earned = now.since(self.credit.1).0 / 4;
        self.credit = (Nanos((self.credit.0.0 + earned).min(CREDIT.0)), now);
        self.credit.0
    }

    /// When to look again.
    fn next(&self) -> Option<Instant> {
        let ahead = self.outs.last_key_value().map_or(Nanos::ZERO, |(&out, _)| out);
        let event = self.wake.map(|at| before(at, ahead));
        let answer = self.ready.peek().map(|&Reverse((at, _))| at);
        event.into_iter().chain(answer).min()
    }
}

/// That much earlier, but not before the clock began.
fn before(at: Instant, span: Nanos) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_sub(span.0))
}
