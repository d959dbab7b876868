//! The stack, the drive behind it, and the clock of a replay.

use super::NEVER;
use crate::drive::{Adapter, Command, DriveOutput};
use crate::world::Job;
use crate::world::control::{Gauges, add_groups, install};
use crate::world::machine::{command_of, request_of, tag_of};
use crate::world::record::{DeviceStats, Served};
use crate::world::step::{Recorder, Step};
use hoistway::stack::{IoError, StackError};
use hoistway::stage::Change;
use hoistway::{GroupId, Input, Instant, Io, IoId, IoPrio, Op, Output, ProcId, Profile, ReqId};
use hoistway::{Sectors, Stack};
use hoistway_run::JobError;

/// Whoever the I/Os belong to.
pub(super) trait Owner {
    /// The submission is over.
    fn accepted(&mut self, now: Instant, io: IoId);

    /// The I/O is.
    fn finished(&mut self, now: Instant, io: IoId, error: Option<IoError>);

    /// A controller has the process start nothing before `until`.
    fn delayed(&mut self, proc: ProcId, until: Instant);
}

#[derive(Debug)]
pub(super) struct Core<R> {
    pub now: Instant,
    pub stack: Stack,
    pub recorder: R,
    pub stats: DeviceStats,
    pub monitor: Gauges,
    monitored: bool,
    /// The drive takes discards.
    pub discards: bool,
    /// The adapter was given something since it was last asked.
    pub touched: bool,
    pub timeline: u64,
    adapter: Adapter,
    drive_at: Instant,
    tick_at: Instant,
    /// What the commands at the device were when issued, by request slot.
    sequential: Vec<bool>,
    legacy: bool,
    max_sectors: Sectors,
}

impl<R: Recorder> Core<R> {
    /// The stack with controllers and groups; the groups in the job's order.
    pub fn new(
        job: &Job<'_>,
        mut stack: Stack,
        mut recorder: R,
    ) -> Result<(Core<R>, Vec<GroupId>), JobError> {
        install(&mut stack, &job.control)?;
        let groups = add_groups(&mut stack, job)?;
        if R::LISTENS {
            let all = &stack.env().groups;
            for id in all.living() {
                let parent = all.parent(id).expect("only the root has none");
                recorder.step(Instant::ZERO, Step::Group { id, parent, name: all.name(id) });
            }
        }
        let device = &stack.env().device;
        let core = Core {
            now: Instant::ZERO,
            recorder,
            stats: DeviceStats::open_ended(&job.window),
            monitor: Gauges::new(job.control.monitor),
            monitored: job.control.monitor.is_some(),
            discards: device.max_discard_sectors.0 > 0,
            touched: false,
            timeline: SEED,
            adapter: Adapter::new(&job.drive, job.drive.build(job.seed)),
            drive_at: NEVER,
            tick_at: NEVER,
            sequential: vec![false; stack.env().requests.capacity()],
            legacy: device.profile == Profile::Legacy,
            max_sectors: device.max_sectors,
            stack,
        };
        Ok((core, groups))
    }

    pub fn add_proc(&mut self, group: GroupId, prio: IoPrio, name: &str) -> ProcId {
        let id = self.stack.add_proc(group, prio);
        self.recorder.step(self.now, Step::Proc { id, group, prio, role: None, name });
        id
    }

    /// Longest bio.
    #[inline]
    pub fn most_sectors(&self, op: Op) -> u64 {
        if self.legacy && op != Op::Discard { self.max_sectors.0 } else { u64::MAX }
    }

    /// When drive or stack are due.
    #[inline]
    pub fn next(&self) -> Instant {
        self.drive_at.min(self.tick_at)
    }

    /// Time goes on to `at`.
    #[inline]
    pub fn advance(&mut self, at: Instant) {
        debug_assert!(at >= self.now, "time never goes back");
        if self.monitored {
            self.monitor.record(at, &mut self.stack);
        }
        self.now = at;
    }

    /// Carries out what drive or stack are due to do at `at`; false if neither is.
    #[inline]
    pub fn due(&mut self, at: Instant, owner: &mut impl Owner) -> bool {
        if self.drive_at == at {
            self.touched = true;
        } else if self.tick_at == at {
            self.input(Input::Tick, owner);
        } else {
            return false;
        }
        true
    }

    /// Takes what the drive has served, until it has nothing more to say.
    #[inline]
    pub fn ask_drive(&mut self, owner: &mut impl Owner) {
        loop {
            if let Some(at) = self.adapter.due()
                && at > self.now
            {
                self.touched = false;
                self.drive_at = at.min(NEVER);
                return;
            }
            match self.adapter.poll(self.now) {
                DriveOutput::Done(done) => self.served(request_of(done.tag), owner),
                DriveOutput::WaitUntil(at) => {
                    self.touched = false;
                    self.drive_at = at.unwrap_or(NEVER);
                    return;
                }
            }
        }
    }

    fn served(&mut self, req: ReqId, owner: &mut impl Owner) {
        let r = self.stack.request(req);
        if R::LISTENS {
            let step = Step::Done { proc: r.proc, command: command_of(r) };
            self.recorder.step(self.now, step);
        }
        let served = Served {
            op: r.op,
            bytes: r.sectors.bytes().0,
            issued: r.issued,
            sequential: self.sequential[req.index()],
        };
        self.timeline = mix(self.timeline, r.start.0, self.now);
        self.stats.done(self.now, &served);
        if let Some(io) = self.stack.pass_back(self.now, req) {
            return owner.finished(self.now, io, None);
        }
        if let Err(error) = self.stack.try_done(self.now, req, None) {
            refuses(&error);
        }
        self.drain(owner);
    }

    /// Tells the stack something that it cannot refuse, and carries out what it says.
    pub fn input(&mut self, input: Input, owner: &mut impl Owner) {
        if let Err(error) = self.stack.handle(self.now, input) {
            refuses(&error);
        }
        self.drain(owner);
    }

    /// Submits an I/O of the recording. True: it met nobody, and was accepted and issued on the way; otherwise
    /// [`Core::submit_whole`] is to follow.
    #[inline]
    pub fn submit(&mut self, io: &Io) -> bool {
        if R::LISTENS {
            self.recorder.step(self.now, Step::Submit(io));
        }
        let passed = self.stack.pass_alone(self.now, io);
        if let Some(req) = passed {
            let Io { op, start, sectors, .. } = *io;
            let (tag, start, len) = (tag_of(req), start.bytes().0, sectors.bytes().0);
            // Forced unit access does not pass alone.
            self.issue(io.proc, Command { tag, op, start, len, fua: false }, req);
        }
        passed.is_some()
    }

    #[inline]
    pub fn submit_whole(&mut self, io: Io, owner: &mut impl Owner) -> Result<(), JobError> {
        let (op, start, sectors) = (io.op, io.start, io.sectors);
        let result = self.stack.try_submit(self.now, io);
        self.drain(owner);
        result.map_err(|error| refused(op, start, sectors, error))
    }

    pub fn change(&mut self, change: Change, owner: &mut impl Owner) {
        self.stack.change(self.now, change, |_| {});
        self.drain(owner);
    }

    /// A process exits.
    pub fn exit(&mut self, id: ProcId, owner: &mut impl Owner) {
        self.stack.change(self.now, Change::ProcExited(id), |env| {
            if let Some(proc) = env.procs.get_mut(id) {
                proc.alive = false;
            }
        });
        self.drain(owner);
    }

    #[inline(always)]
    fn drain(&mut self, owner: &mut impl Owner) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => {
                    let r = self.stack.request(req);
                    self.issue(r.proc, command_of(r), req);
                }
                Output::Accepted { io } => owner.accepted(self.now, io),
                Output::Finished { io, result } => owner.finished(self.now, io, result.err()),
                Output::Delay { proc, until } => owner.delayed(proc, until),
                Output::WaitUntil(at) => {
                    self.tick_at = at.unwrap_or(NEVER);
                    return;
                }
            }
        }
    }

    #[inline]
    fn issue(&mut self, proc: ProcId, command: Command, req: ReqId) {
        if R::LISTENS {
            self.recorder.step(self.now, Step::Issue { proc, command });
        }
        self.sequential[req.index()] =
            self.stats.issue(self.now, command.op, command.start, command.len);
        self.timeline = mix(self.timeline, command.start ^ command.len << 1 ^ 1, self.now);
        self.adapter.handle(self.now, command);
        self.touched = true;
    }
}

#[cold]
fn refuses(error: &StackError) -> ! {
    panic!("the stack refuses what the world must never say: {error:?}");
}

#[cold]
fn refused(
    op: Op,
    Sectors(start): Sectors,
    Sectors(sectors): Sectors,
    error: StackError,
) -> JobError {
    let message = format!("{op:?} of {sectors} sectors at {start} is refused: {error}");
    JobError::Parameter { of: "trace".into(), message }
}

/// Beginning of the digest.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// One more event in the digest of the drive's timeline.
#[inline]
fn mix(digest: u64, what: u64, at: Instant) -> u64 {
    let word = what.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at.as_nanos();
    (digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
}
