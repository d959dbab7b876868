//! Seeded runs of everything at once: what goes in comes out once, and the stack comes to rest.

use super::*;
use crate::device::{RunAtCompletion, TagWait};
use crate::testkit::Rng;
use crate::unit::Class;

struct Run {
    rig: Rig,
    rng: Rng,
    legacy: bool,
    /// Legacy barriers instead of flush sequences (no kernel had both).
    barriers: bool,
    groups: Vec<GroupId>,
    /// The latest I/O of each process: until it is accepted the process stands still.
    latest: [Option<u64>; 8],
}

impl Run {
    fn new(entry: &'static Entry, seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let legacy = !entry.direct && rng.one_in(3);
        let mut rig = rig_of(entry.name, |d| random_device(d, legacy, &mut rng));
        let groups =
            (0..2).map(|i| rig.stack.add_group(Instant::ZERO, GroupId::ROOT, ["a", "b"][i]));
        let mut groups: Vec<GroupId> = groups.collect();
        groups.push(GroupId::ROOT);
        let barriers = legacy && rng.one_in(2);
        Run { rig, rng, legacy, barriers, groups, latest: [None; 8] }
    }

    fn step(&mut self) {
        self.rig.now += Nanos::us(self.rng.below(3000));
        let proc = ProcId(self.rng.below(8) as u32);
        match self.rng.below(14) {
            0 if !self.legacy => self.rig.input(Input::Plug(proc)),
            1 => self.rig.input(Input::Unplug(proc)),
            2 => self.rig.input(Input::Sleep(proc)),
            3..=6 if !self.rig.device.is_empty() => self.answer(),
            7 => {
                if let Some(at) = self.rig.wake {
                    self.rig.now = self.rig.now.max(at);
                    self.rig.tick();
                }
            }
            8 => self.change(proc),
            _ => self.submit(proc),
        }
    }

    /// The device serves, fails or returns some command.
    fn answer(&mut self) {
        let at = self.rng.below(self.rig.device.len() as u64) as usize;
        let req = self.rig.device.remove(at);
        let input = match self.rng.below(12) {
            0 => Input::Requeue(req),
            1 => Input::Done { req, error: Some(IoError::Io) },
            _ => Input::Done { req, error: None },
        };
        self.rig.input(input);
    }

    /// Something changes beside the path of I/O.
    fn change(&mut self, proc: ProcId) {
        let now = self.rig.now;
        match self.rng.below(12) {
            0 => {
                let to = sched::SCHEDULERS[self.rng.below(sched::SCHEDULERS.len() as u64) as usize];
                if !(to.direct && self.legacy) {
                    self.rig.input(Input::SwitchScheduler(to));
                }
            }
            1 => {
                let requests = 4 + self.rng.below(60);
                self.set("nr_requests", requests);
            }
            2 if self.rng.one_in(4) => {
                let tags = self.rng.below(2);
                self.set("tags", tags);
            }
            2 => {
                let level = self.rng.below(3);
                self.set("nomerges", level);
            }
            3..=6 => {
                let class = [Class::Rt, Class::Be, Class::Idle][self.rng.below(3) as usize];
                let prio = IoPrio::new(class, self.rng.below(8) as u8).expect("a valid priority");
                let set = |env: &mut Env| {
                    env.procs.get_mut(proc).expect("one of the eight").prio = prio;
                };
                self.rig.stack.change(now, Change::ProcPriority(proc), set);
                self.rig.poll();
            }
            _ => {
                let to = self.groups[self.rng.below(3) as usize];
                let from = self.rig.stack.env().procs.group(proc);
                let set = |env: &mut Env| {
                    env.procs.get_mut(proc).expect("one of the eight").group = to;
                };
                self.rig.stack.change(now, Change::ProcMoved { proc, from, to }, set);
                self.rig.poll();
            }
        }
    }

    /// May be refused: `none` has no more requests than the device has tags.
    fn set(&mut self, name: &str, value: u64) {
        let set = Input::Set { stage: StageName::Queue, name: name.into(), value };
        let answer = self.rig.stack.handle(self.rig.now, set);
        assert!(matches!(answer, Ok(()) | Err(StackError::Tunable(_))));
        self.rig.poll();
    }

    fn submit(&mut self, proc: ProcId) {
        let at = proc.index();
        if self.latest[at].is_some_and(|io| !self.rig.accepted.contains(&io)) {
            return;
        }
        let procs = &self.rig.stack.env().procs;
        let (prio, group) = (procs.prio(proc), procs.group(proc));
        // Small and often adjacent; in the multi-queue profile sometimes above the limits.
        let large = !self.legacy && self.rng.one_in(10);
        let len = if large { 8 + self.rng.below(500) } else { 8 * (1 + self.rng.below(4)) };
        let start = self.rng.below(600) * 8;
        let kind = self.rng.below(12);
        let barrier = self.barriers && kind == 8;
        let flags = match kind {
            7 => Flags::SYNC,
            8 if barrier => Flags::BARRIER,
            8 if !self.legacy || !self.barriers => Flags::SYNC | Flags::PREFLUSH | Flags::FUA,
            6 if !self.barriers => Flags::FUA,
            5 => Flags::UNPLUG,
            _ => Flags::NONE,
        };
        let pure_flush = kind == 9 && !self.barriers;
        let id = self.rig.last_io() + 1;
        if barrier {
            self.rig.barriers.push(id);
        }
        self.rig.submit(proc, |io| {
            *io = match kind {
                0..=5 => Io::read(io.id.0, io.proc, start, len),
                _ => Io::write(io.id.0, io.proc, start, len),
            };
            (io.cpu, io.flags, io.prio, io.group) = (proc.0, flags, prio, group);
            if pure_flush {
                (io.op, io.sectors) = (Op::Flush, Sectors(0));
            } else if kind >= 10 {
                io.op = if kind == 10 { Op::Discard } else { Op::WriteZeroes };
            }
        });
        self.latest[at] = Some(id);
    }

    fn end(mut self, name: &str) {
        for proc in 0..8 {
            self.rig.input(Input::Unplug(ProcId(proc)));
        }
        self.rig.run_dry();
        let mut over = core::mem::take(&mut self.rig.finished);
        over.extend(self.rig.failed.iter().map(|f| f.0));
        over.sort_unstable();
        let all: Vec<u64> = (1..=self.rig.last_io()).collect();
        assert_eq!(over, all, "{name}: {:#?}", self.rig.stack);
        let mut accepted = self.rig.accepted.clone();
        accepted.sort_unstable();
        assert_eq!(accepted, all, "{name}");
        assert_eq!((self.rig.requests(), self.rig.stack.in_flight()), (0, 0), "{name}");
        assert_eq!(self.rig.stack.splits.len(), 0, "{name}");
    }
}

pub(super) fn random_device(d: &mut Device, legacy: bool, rng: &mut Rng) {
    if legacy {
        d.profile = Profile::Legacy;
        d.nr_requests = 4 + rng.below(40) as u32;
    } else {
        d.profile = Profile::MultiQueue;
        d.hw_queues = 1 + rng.below(3) as u16;
        d.max_sectors = Sectors(64 + rng.below(200));
        d.max_segments = 4 + rng.below(20) as u32;
        d.chunk_sectors = Sectors([0, 0, 128][rng.below(3) as usize]);
    }
    d.queue_depth = 1 + rng.below(8) as u32;
    d.rotational = rng.one_in(2);
    d.write_cache = rng.one_in(2);
    d.fua = rng.one_in(2);
    d.flush_nonqueued = rng.one_in(2);
    d.overask = rng.one_in(2);
    d.none_plug_lifo = rng.one_in(2);
    d.max_discard_sectors = Sectors(8 + rng.below(100));
    if rng.one_in(3) {
        d.tag_wait = TagWait::Fifo;
    }
    d.tags_round_robin = rng.one_in(3);
    d.scsi = rng.one_in(2);
    if rng.one_in(3) {
        d.run_at_completion = RunAtCompletion::Scsi;
    }
    d.delayed_rerun = rng.one_in(2);
}

#[test]
fn everything_submitted_is_finished_once_under_every_scheduler() {
    for seed in 0..250 {
        for (i, entry) in sched::SCHEDULERS.iter().enumerate() {
            let mut run = Run::new(entry, seed * 31 + i as u64);
            for _ in 0..350 {
                run.step();
            }
            run.end(&alloc::format!("{} seed {seed}", entry.name));
        }
    }
}

#[test]
fn equal_seeds_give_equal_traces() {
    for entry in sched::SCHEDULERS {
        let digest = || {
            let mut run = Run::new(entry, 77);
            *run.rig.stack.trace_mut() = crate::trace::Trace::digest_only();
            for _ in 0..1000 {
                run.step();
            }
            (run.rig.stack.env().trace.digest(), run.rig.stack.env().trace.count())
        };
        assert_eq!(digest(), digest(), "{}", entry.name);
        assert!(digest().1 > 500);
    }
}
