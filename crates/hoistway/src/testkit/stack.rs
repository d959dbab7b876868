//! A stack and a device that completes nothing by itself.

use crate::device::Device;
use crate::group::{GroupId, ProcId};
use crate::request::{Flags, Io, Op, ReqId};
use crate::sched;
use crate::stack::{Input, IoError, Output, Stack, StackError};
use crate::stage::Gauge;
use crate::unit::{Instant, IoPrio, Nanos, Sectors};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A command as the device got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// When.
    pub at: Instant,
    /// Its request.
    pub req: ReqId,
    /// Commands to carry out.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// First sector.
    pub start: u64,
    /// Length in sectors.
    pub sectors: u64,
}

/// A stack, a clock, and what came out.
#[derive(Debug)]
pub struct Rig {
    /// Subject of the test.
    pub stack: Stack,
    /// The time of the next input.
    pub now: Instant,
    /// Requests with the device, in order of issue.
    pub device: Vec<ReqId>,
    /// Every command, in order.
    pub issued: Vec<Issued>,
    /// The I/Os of these commands, in order.
    pub sent: Vec<u64>,
    /// I/Os whose submission is over, in order.
    pub accepted: Vec<u64>,
    /// I/Os that were served, in order.
    pub finished: Vec<u64>,
    /// I/Os that failed, in order.
    pub failed: Vec<(u64, IoError)>,
    /// Delays put out.
    pub delays: Vec<(ProcId, Instant)>,
    /// Legacy barriers, by their I/O; while there are any their order is checked.
    pub barriers: Vec<u64>,
    /// When the stack wants to be called next.
    pub wake: Option<Instant>,
    /// The commands as text, until they are taken: `R(100,8)`, with `W`, `WF` (forced unit access), `D`,
    /// `Z` for the other operations, and `F` for a flush.
    pub log: Vec<String>,
    next_io: u64,
}

impl Rig {
    /// A scheduler of the registry with its usual profile and 64 request slots, on a disk of depth 32 that
    /// `edit` may change; no process yet.
    pub fn new(scheduler: &str, edit: impl FnOnce(&mut Device)) -> Rig {
        let entry = sched::find(scheduler).expect("the scheduler is in the registry");
        let mut device = Device::new(Sectors(1 << 30), 32);
        device.profile = entry.profile;
        device.max_sectors = Sectors(1024);
        device.rotational = true;
        device.nr_requests = 0;
        edit(&mut device);
        Rig::of(Stack::new(device, entry, 64))
    }

    /// That stack.
    pub fn of(stack: Stack) -> Rig {
        Rig {
            stack,
            now: Instant::ZERO,
            device: Vec::new(),
            issued: Vec::new(),
            sent: Vec::new(),
            accepted: Vec::new(),
            finished: Vec::new(),
            failed: Vec::new(),
            delays: Vec::new(),
            barriers: Vec::new(),
            wake: None,
            next_io: 0,
            log: Vec::new(),
        }
    }

    /// Processes of a group without a priority of their own.
    pub fn procs(&mut self, group: GroupId, n: usize) {
        for _ in 0..n {
            self.stack.add_proc(group, IoPrio::NONE);
        }
    }

    /// A group below `parent`.
    pub fn group(&mut self, parent: GroupId, name: &str) -> GroupId {
        let group = self.stack.add_group(self.now, parent, name);
        self.poll();
        group
    }

    /// A group goes away.
    pub fn remove(&mut self, group: GroupId) {
        self.stack.remove_group(self.now, group);
        self.poll();
    }

    /// Moves the clock.
    pub fn at(&mut self, since_start: Nanos) -> &mut Rig {
        self.now = Instant::ZERO + since_start;
        self
    }

    /// An input that the stack must take, and all it says to it.
    #[track_caller]
    pub fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).expect("a valid input");
        self.poll();
    }

    /// An input that the stack must refuse.
    #[track_caller]
    pub fn refuse(&mut self, input: Input) -> StackError {
        let error = self.stack.handle(self.now, input).expect_err("this input is refused");
        self.poll();
        error
    }

    /// All the stack says, up to the time it names.
    #[track_caller]
    pub fn poll(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.issue(req),
                Output::Accepted { io } => self.accepted.push(io.0),
                Output::Finished { io, result: Ok(()) } => self.finished.push(io.0),
                Output::Finished { io, result: Err(error) } => self.failed.push((io.0, error)),
                Output::Delay { proc, until } => self.delays.push((proc, until)),
                Output::WaitUntil(at) => return self.wake = at,
            }
        }
    }

    /// What the device must never see: more commands than it has tags, or one beside a command that runs
    /// alone.
    #[track_caller]
    fn issue(&mut self, req: ReqId) {
        let device = &self.stack.env().device;
        assert!(self.device.len() < device.queue_depth as usize, "more commands than tags");
        let alone = |id: &ReqId| matches!(self.stack.request(*id).op, Op::Flush | Op::Discard);
        if device.flush_nonqueued {
            assert!(!self.device.iter().any(alone), "a command beside one that runs alone");
        }
        self.check_barriers(req);
        let r = self.stack.request(req);
        let (op, flags, start, sectors) = (r.op, r.flags, r.start.0, r.sectors.0);
        let name = match op {
            Op::Read => "R",
            Op::Write if flags.any(Flags::FUA) => "WF",
            Op::Write => "W",
            Op::Flush => "F",
            Op::Discard => "D",
            Op::WriteZeroes => "Z",
        };
        self.log.push(match op {
            Op::Flush => name.into(),
            _ => format!("{name}({start},{sectors})"),
        });
        self.issued.push(Issued { at: self.now, req, op, flags, start, sectors });
        self.sent.extend(self.stack.env().requests.bios(req).map(|(_, io)| io.id.0));
        self.device.push(req);
    }

    /// Everything accepted before a barrier is over before it is written, nothing accepted behind it is
    /// issued before it is over.
    #[track_caller]
    fn check_barriers(&self, req: ReqId) {
        if self.barriers.is_empty() || self.stack.request(req).op == Op::Flush {
            return;
        }
        let place = |io: u64| self.accepted.iter().position(|&a| a == io);
        for (_, bio) in self.stack.env().requests.bios(req) {
            let Some(at) = place(bio.id.0) else { continue };
            let (before, is_barrier) = (&self.accepted[..at], self.barriers.contains(&bio.id.0));
            for &io in before {
                if is_barrier || self.barriers.contains(&io) {
                    assert!(self.over(io), "I/O {} passed the barrier with {io}", bio.id.0);
                }
            }
        }
    }

    /// An I/O was served or has failed.
    pub fn over(&self, io: u64) -> bool {
        self.finished.contains(&io) || self.failed.iter().any(|f| f.0 == io)
    }

    /// Takes the commands told in `log`.
    pub fn log(&mut self) -> Vec<String> {
        core::mem::take(&mut self.log)
    }

    /// Submits an I/O of a process in its group: 8 sectors read at 0, unless `edit` changes it.
    #[track_caller]
    pub fn submit(&mut self, proc: ProcId, edit: impl FnOnce(&mut Io)) -> u64 {
        self.next_io += 1;
        let mut io = Io::read(self.next_io, proc, 0, 8);
        io.group = self.stack.env().procs.group(proc);
        edit(&mut io);
        self.input(Input::Submit(io));
        self.next_io
    }

    /// Requests that exist.
    pub fn requests(&self) -> usize {
        self.stack.env().requests.len()
    }

    /// The I/O submitted last.
    pub fn last_io(&self) -> u64 {
        self.next_io
    }

    /// The first process reads.
    #[track_caller]
    pub fn read(&mut self, start: u64, sectors: u64) -> u64 {
        self.submit(ProcId(0), |io| (io.start, io.sectors) = (Sectors(start), Sectors(sectors)))
    }

    /// The first process writes.
    #[track_caller]
    pub fn write(&mut self, start: u64, sectors: u64) -> u64 {
        self.submit(ProcId(0), |io| *io = Io::write(io.id.0, io.proc, start, sectors))
    }

    /// A process asks for a flush.
    #[track_caller]
    pub fn flush(&mut self, proc: ProcId) -> u64 {
        self.submit(proc, |io| (io.op, io.sectors) = (Op::Flush, Sectors(0)))
    }

    /// The device answers the command at that place of its list.
    #[track_caller]
    pub fn answer(&mut self, at: usize, error: Option<IoError>) {
        let req = self.device.remove(at);
        self.input(Input::Done { req, error });
    }

    /// Completes the oldest command.
    #[track_caller]
    pub fn complete(&mut self) {
        self.answer(0, None);
    }

    /// The oldest command fails.
    #[track_caller]
    pub fn fail(&mut self) {
        self.answer(0, Some(IoError::Io));
    }

    /// The device gives the oldest command back.
    #[track_caller]
    pub fn give_back(&mut self) {
        let req = self.device.remove(0);
        self.input(Input::Requeue(req));
    }

    /// Time has passed.
    #[track_caller]
    pub fn tick(&mut self) {
        self.input(Input::Tick);
    }

    /// Lets time pass up to that instant, included.
    #[track_caller]
    pub fn run_until(&mut self, end: Instant) {
        while let Some(at) = self.wake.filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.tick();
        }
        self.now = end;
        self.tick();
    }

    /// Runs until nothing is left; every command takes 1 ms.
    #[track_caller]
    pub fn run_dry(&mut self) {
        self.run_dry_with(Nanos::ms(1));
    }

    /// Runs until nothing is left; every command takes so long.
    #[track_caller]
    pub fn run_dry_with(&mut self, command: Nanos) {
        for _ in 0..100_000 {
            if !self.device.is_empty() {
                self.now += command;
                self.complete();
            } else if let Some(at) = self.wake {
                self.now = self.now.max(at);
                self.tick();
            } else {
                return;
            }
        }
        panic!("the stack does not come to rest");
    }

    /// A figure that a monitor would record; `None` if it is not told now.
    pub fn gauge(&mut self, stage: &str, name: &str, group: Option<GroupId>) -> Option<i64> {
        let mut found = None;
        self.stack.gauges(&mut |of, g: Gauge| {
            if (of, g.name, g.group) == (stage, name, group) {
                found = Some(g.value);
            }
        });
        found
    }
}
