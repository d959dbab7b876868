//! The loop in virtual time. Here, and nowhere else in the simulator, is a clock: it jumps to whoever is
//! next.

use super::events::NEVER;
use super::machine::{DEVICE, Machine, Platform, request_of};
use super::{Job, NoRecorder, Recorder, Step};
use crate::drive::{Adapter, Command, DriveOutput};
use crate::host::{Host, Operation, Ran};
use crate::load::Load;
use hoistway::{Instant, Nanos, ReqId, Stack};
use hoistway_run::{JobError, Outcome};

/// How often `watch` is asked.
const WATCH_TIME: Nanos = Nanos::ms(10);
const WATCH_EVENTS: u64 = 50_000;

/// A drive model, loads that take no time of their own, and somebody who may listen.
#[derive(Debug)]
struct Virtual<R> {
    adapter: Adapter,
    loads: Vec<Box<dyn Load>>,
    /// The adapter was given something since it was last asked.
    touched: bool,
    recorder: R,
}

impl<R: Recorder> Virtual<R> {
    fn listens(&self) -> bool {
        R::LISTENS
    }
}

impl<R: Recorder> Platform for Virtual<R> {
    #[inline]
    fn issue(&mut self, now: Instant, command: Command, req: ReqId, stack: &Stack) {
        if R::LISTENS {
            let proc = stack.request(req).proc;
            self.recorder.step(now, Step::Issue { proc, command });
        }
        self.adapter.handle(now, command);
        self.touched = true;
    }

    #[inline]
    fn step(&mut self, now: Instant, step: Step<'_>) {
        self.recorder.step(now, step);
    }

    #[inline]
    fn next(&mut self, now: Instant, p: usize) -> Option<Operation> {
        Some(self.loads[p].next(now))
    }

    fn closing(&self, now: Instant, p: usize) -> Vec<(&'static str, u64)> {
        self.loads[p].closing(now)
    }

    #[inline]
    fn ran(&mut self, _now: Instant, _p: usize, _ran: &Ran, _host: &Host) -> bool {
        true
    }
}

/// Runs a job to its end. `watch` is called about every 10 ms of simulated time or 50,000 events with
/// the simulated time; `false` interrupts the run.
pub fn run(job: &Job<'_>, watch: &mut dyn FnMut(Instant) -> bool) -> Result<Outcome, JobError> {
    run_recorded(job, watch, NoRecorder)
}

/// The same; `recorder` hears of every step.
pub fn run_recorded(
    job: &Job<'_>,
    watch: &mut dyn FnMut(Instant) -> bool,
    recorder: impl Recorder,
) -> Result<Outcome, JobError> {
    let adapter = Adapter::new(&job.drive, job.drive.build(job.seed));
    let platform = |loads, _: &Host| Ok(Virtual { adapter, loads, touched: false, recorder });
    let mut machine = Machine::new(job, job.drive.device(), platform)?;
    if machine.platform.listens() {
        machine.introduce(job);
    }
    machine.pause = Instant::ZERO + WATCH_TIME;
    let mut events = 0;
    loop {
        if machine.platform.touched {
            machine.ask_drive();
        }
        let (who, at) = machine.due();
        if machine.advance(at) {
            return Ok(machine.outcome(job).0);
        }
        events += 1;
        if at >= machine.pause || events >= WATCH_EVENTS {
            events = 0;
            machine.pause = at.max(machine.pause) + WATCH_TIME;
            if !watch(at) {
                return Err(JobError::Interrupted);
            }
        }
        match who {
            DEVICE => machine.platform.touched = true,
            _ => machine.go(who)?,
        }
    }
}

impl<R: Recorder> Machine<Virtual<R>> {
    /// Takes what the drive has served, until it has nothing more to say.
    #[inline(always)]
    fn ask_drive(&mut self) {
        self.platform.touched = false;
        loop {
            if let Some(at) = self.platform.adapter.due()
                && at > self.now
            {
                self.platform.touched = false;
                self.events.set(DEVICE, at);
                return;
            }
            match self.platform.adapter.poll(self.now) {
                DriveOutput::Done(done) => {
                    let req = request_of(done.tag);
                    if R::LISTENS {
                        let (proc, command) = (self.stack().request(req).proc, self.command(req));
                        self.platform.recorder.step(self.now, Step::Done { proc, command });
                    }
                    self.served(req, None);
                }
                DriveOutput::WaitUntil(at) => {
                    self.platform.touched = false;
                    self.events.set(DEVICE, at.unwrap_or(NEVER));
                    return;
                }
            }
        }
    }
}
