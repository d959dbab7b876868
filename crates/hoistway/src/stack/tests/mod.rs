//! Tests of the stack: the rig, the scenarios of the specification, edges, and seeded runs.

mod changes;
mod edges;
mod knobs;
mod random;
mod scenarios;

use super::*;
use crate::request::Flags;
use crate::sched;
use crate::unit::{Nanos, Sectors};
use alloc::format;
use alloc::string::ToString;

/// A stack and a device that never completes anything by itself.
struct Rig {
    stack: Stack,
    now: Instant,
    next_io: u64,
    /// Requests with the device, in order of issue.
    device: Vec<ReqId>,
    accepted: Vec<u64>,
    finished: Vec<u64>,
    failed: Vec<(u64, IoError)>,
    /// Legacy barriers, by their I/O; while there are any their order is checked.
    barriers: Vec<u64>,
    /// What was issued: operation, start, sectors.
    log: Vec<String>,
    wake: Option<Instant>,
}

impl Rig {
    fn new(scheduler: &str, edit: impl FnOnce(&mut Device)) -> Rig {
        let entry = sched::find(scheduler).expect("the scheduler is in the registry");
        let mut device = Device::new(Sectors(1 << 30), 32);
        device.profile = entry.profile;
        device.max_sectors = Sectors(1024);
        device.rotational = true;
        device.nr_requests = 0;
        edit(&mut device);
        let mut stack = Stack::new(device, entry, 64);
        for _ in 0..8 {
            stack.add_proc(GroupId::ROOT, IoPrio::NONE);
        }
        Rig {
            stack,
            now: Instant::ZERO,
            next_io: 0,
            device: Vec::new(),
            accepted: Vec::new(),
            finished: Vec::new(),
            failed: Vec::new(),
            barriers: Vec::new(),
            log: Vec::new(),
            wake: None,
        }
    }

    fn at(&mut self, now: Nanos) -> &mut Rig {
        self.now = Instant::ZERO + now;
        self
    }

    fn input(&mut self, input: Input) {
        self.stack.handle(self.now, input).expect("the scenario gives valid inputs");
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => {
                    self.check_room();
                    self.check_barriers(req);
                    let r = self.stack.request(req);
                    let op = match r.op {
                        Op::Read => "R",
                        Op::Write if r.flags.any(Flags::FUA) => "WF",
                        Op::Write => "W",
                        Op::Flush => "F",
                        Op::Discard => "D",
                        Op::WriteZeroes => "Z",
                    };
                    let text = if r.op == Op::Flush {
                        op.to_string()
                    } else {
                        alloc::format!("{op}({},{})", r.start.0, r.sectors.0)
                    };
                    self.log.push(text);
                    self.device.push(req);
                }
                Output::Accepted { io } => self.accepted.push(io.0),
                Output::Finished { io, result } => match result {
                    Ok(()) => self.finished.push(io.0),
                    Err(error) => self.failed.push((io.0, error)),
                },
                Output::Delay { .. } => {}
                Output::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    /// What the device must never see: more commands than it has tags, anything behind a command that
    /// runs alone.
    fn check_room(&self) {
        let device = &self.stack.env().device;
        assert!(self.device.len() < device.queue_depth as usize, "more commands than tags");
        let alone = |id: &ReqId| matches!(self.stack.request(*id).op, Op::Flush | Op::Discard);
        if device.flush_nonqueued {
            assert!(!self.device.iter().any(alone), "a command beside one that runs alone");
        }
    }

    fn over(&self, io: u64) -> bool {
        self.finished.contains(&io) || self.failed.iter().any(|f| f.0 == io)
    }

    /// Everything accepted before a barrier is over before it is written, nothing accepted behind it is
    /// issued before it is over.
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

    fn refuse(&mut self, input: Input) -> StackError {
        let error = self.stack.handle(self.now, input).expect_err("this input is refused");
        self.drain();
        error
    }

    fn submit_as(&mut self, proc: u32, edit: impl FnOnce(&mut Io)) -> u64 {
        self.next_io += 1;
        let mut io = Io::read(self.next_io, ProcId(proc), 0, 8);
        edit(&mut io);
        self.input(Input::Submit(io));
        self.next_io
    }

    fn read(&mut self, start: u64, sectors: u64) -> u64 {
        self.submit_as(0, |io| *io = Io::read(io.id.0, io.proc, start, sectors))
    }

    fn write(&mut self, start: u64, sectors: u64) -> u64 {
        self.submit_as(0, |io| *io = Io::write(io.id.0, io.proc, start, sectors))
    }

    /// Completes the oldest command.
    fn complete(&mut self) {
        let req = self.device.remove(0);
        self.input(Input::Done { req, error: None });
    }

    /// The oldest command fails.
    fn fail(&mut self) {
        let req = self.device.remove(0);
        self.input(Input::Done { req, error: Some(IoError::Io) });
    }

    /// The device gives the oldest command back.
    fn give_back(&mut self) {
        let req = self.device.remove(0);
        self.input(Input::Requeue(req));
    }

    fn flush(&mut self, proc: u32) -> u64 {
        self.submit_as(proc, |io| {
            io.op = Op::Flush;
            io.sectors = Sectors(0);
        })
    }

    fn write_with(&mut self, start: u64, flags: Flags) -> u64 {
        self.submit_as(0, |io| {
            *io = Io::write(io.id.0, io.proc, start, 8);
            io.flags = flags;
        })
    }

    fn tick(&mut self) {
        self.input(Input::Tick);
    }

    fn log(&mut self) -> Vec<String> {
        core::mem::take(&mut self.log)
    }

    fn requests(&self) -> usize {
        self.stack.env().requests.len()
    }

    /// Runs until nothing is left; every command takes 1 ms.
    fn run_dry(&mut self) {
        for _ in 0..100_000 {
            if !self.device.is_empty() {
                self.now += Nanos::ms(1);
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
}
