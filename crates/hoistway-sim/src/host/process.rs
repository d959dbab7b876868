//! A process of the host: its operation, and what it does next (specs/host.md 1 and 2). Long operations
//! are machines with files of their own; those that are over at once are here.

use super::ahead::Ahead;
use super::block::BlockCall;
use super::cache::PAGE;
use super::calls;
use super::cpus::Computing;
use super::direct::{Direct, Way};
use super::flusher::FlusherThread;
use super::fs::FsThread;
use super::kernel::Kernel;
use super::op::{Act, Advice, BarrierId, FileId, Notice, Operation, ProcInfo};
use super::read::Reading;
use super::sync::{Fsync, SyncAll};
use super::task::{OpStep, OpenFile, Task};
use super::write::Writing;
use hoistway::{Flags, Instant};

/// Where a process is in its operation.
#[derive(Debug)]
enum Stage {
    Idle,
    Over,
    Exit,
    Open {
        file: FileId,
        advice: Advice,
    },
    DontNeed(DontNeed),
    DropCaches,
    Compute(Computing),
    Sleep(Instant),
    Tell(Notice),
    Barrier(BarrierId),
    TurnOver,
    TurnTo {
        file: FileId,
        advice: Advice,
        afresh: bool,
    },
    Empty(FileId),
    Block(BlockCall),
    Read(Reading),
    Write(Writing),
    Direct(Direct),
    Collect,
    Fsync(Fsync),
    SyncAll(SyncAll),
    /// The file system's thread.
    Fs(FsThread),
    /// The worker of a flusher.
    Flusher(FlusherThread),
}

impl Stage {
    fn of(now: Instant, operation: Operation) -> Stage {
        match operation {
            Operation::Open { file, advice } => Stage::Open { file, advice },
            Operation::DontNeed(file) => Stage::DontNeed(DontNeed::new(file.0, 0, u64::MAX)),
            Operation::DontNeedPart { file, offset, len } => {
                let (from, to) = (offset / PAGE, (offset + len).div_ceil(PAGE));
                Stage::DontNeed(DontNeed::new(file.0, from, to))
            }
            Operation::Read { offset, bs, count } => {
                Stage::Read(Reading::new(offset, bs, count, now))
            }
            Operation::Write { offset, bs, count, sync } => {
                Stage::Write(Writing::new(offset, bs, count, sync, now))
            }
            Operation::Direct { write, offset, len, since, sync } => {
                let begun = Some(since.unwrap_or(now));
                Stage::Direct(Direct::new(write, offset, len, begun, Way::Wait { sync }))
            }
            Operation::Queue { write, offset, len, since, room } => {
                let way = Way::Queue { room, full: false };
                Stage::Direct(Direct::new(write, offset, len, since, way))
            }
            Operation::Collect => Stage::Collect,
            Operation::Fdatasync(file) => Stage::Fsync(Fsync::new(file.0, false, None)),
            Operation::Fsync(file) => Stage::Fsync(Fsync::new(file.0, true, None)),
            Operation::Sync => Stage::SyncAll(SyncAll::Begin),
            Operation::Create(file) | Operation::Unlink(file) => Stage::Empty(file),
            Operation::DropCaches => Stage::DropCaches,
            Operation::Compute(length) => Stage::Compute(Computing::new(length)),
            Operation::Sleep(until) => Stage::Sleep(until),
            Operation::Block(io) => Stage::Block(BlockCall::new(io, now)),
            Operation::Tell(notice) => Stage::Tell(notice),
            Operation::Barrier(barrier) => Stage::Barrier(barrier),
            Operation::TurnOver => Stage::TurnOver,
            Operation::TurnTo { file, advice, afresh } => Stage::TurnTo { file, advice, afresh },
            Operation::Exit => Stage::Exit,
        }
    }

    /// What the process does next.
    fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        match self {
            Stage::Idle => OpStep::Act(Act::Finished),
            Stage::Over => {
                *self = Stage::Idle;
                OpStep::Act(Act::Finished)
            }
            // What is under way is waited for: a process that is gone collects nothing.
            Stage::Exit => calls::collect(now, task, k, (0, 1)).unwrap_or(OpStep::Act(Act::Exited)),
            Stage::Collect => calls::collect(now, task, k, (0, 1)).unwrap_or(OpStep::Over),
            Stage::Read(reading) => reading.step(now, task, k),
            Stage::Write(writing) => writing.step(now, task, k),
            Stage::Direct(direct) => direct.step(now, task, k),
            Stage::Block(call) => call.step(now, task, k),
            Stage::Fsync(fsync) => fsync.step(now, task, k),
            Stage::SyncAll(all) => all.step(now, task, k),
            Stage::Fs(thread) => thread.step(now, task, k),
            Stage::Flusher(thread) => thread.step(now, task, k),
            Stage::DontNeed(call) => call.step(now, task, k),
            Stage::Open { file, advice } => {
                let ahead = Ahead::default();
                task.open = Some(OpenFile { file: file.0, advice: *advice, ahead });
                OpStep::Over
            }
            Stage::TurnOver => {
                std::mem::swap(&mut task.open, &mut task.other);
                OpStep::Over
            }
            Stage::TurnTo { file, advice, afresh } => {
                task.turn_to(file.0, *advice, *afresh);
                OpStep::Over
            }
            Stage::Empty(file) => {
                k.empty(now, file.0);
                OpStep::Over
            }
            Stage::DropCaches => {
                k.cache.drop_all_clean();
                k.journal.forget_map();
                OpStep::Over
            }
            Stage::Compute(computing) => computing.step(now, task, k),
            Stage::Sleep(until) => task.last(Act::WaitUntil((*until).max(now))),
            Stage::Tell(notice) => {
                k.notice = *notice;
                task.last(Act::Tell)
            }
            Stage::Barrier(barrier) => {
                task.wait_last(k.barriers.arrive(now, *barrier, task.p, &mut k.sleepers))
            }
        }
    }
}

/// fadvise(dontneed) of the pages [from, to) (host.md 4.3).
#[derive(Debug)]
struct DontNeed {
    file: u32,
    from: u64,
    to: u64,
    at: Leaving,
}

/// How far the dirty pages are.
#[derive(Debug)]
enum Leaving {
    Begin,
    /// They are submitted, from this page on.
    Submit(u64),
    Sent,
}

impl DontNeed {
    fn new(file: u32, from: u64, to: u64) -> DontNeed {
        DontNeed { file, from, to, at: Leaving::Begin }
    }

    /// The caller submits the dirty pages itself, so that whatever holds a bio holds it; it waits for none of them to be
    /// served. A bio at a time: what it has not come to yet a flusher may write.
    fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let (file, from) = (self.file, self.from);
        match self.at {
            Leaving::Begin => {
                self.to = self.to.min(k.cache.pages(file));
                self.at = Leaving::Sent;
                if k.cache.idle_run(file, from, self.to, 1).is_none() {
                    return OpStep::Again;
                }
                if k.fs.writes_alone() {
                    k.journal.ask_commit(now, &mut k.sleepers);
                    return OpStep::Again;
                }
                self.at = Leaving::Submit(from);
                if k.legacy { OpStep::Again } else { OpStep::Act(Act::Plug) }
            }
            Leaving::Submit(at) => {
                if let Some(end) = k.gather_run(now, task, file, (at, self.to), Flags::NONE) {
                    self.at = Leaving::Submit(end);
                    k.submit(task, false);
                    return OpStep::Again;
                }
                k.gathered(now, file);
                self.at = Leaving::Sent;
                if k.legacy { OpStep::Again } else { OpStep::Act(Act::Unplug) }
            }
            Leaving::Sent => {
                k.cache.drop_clean(file, from, self.to);
                OpStep::Over
            }
        }
    }
}

/// There is no memory for a process, and it has nothing under way that could free some.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoMemory;

/// A process and what it is about.
#[derive(Debug)]
#[repr(C)] // As in `Task`.
pub(super) struct Process {
    pub task: Task,
    stage: Stage,
}

impl Process {
    /// Process `p` of a load.
    pub fn new(p: usize, info: ProcInfo, stop: Option<Instant>) -> Process {
        Process { task: Task::new(p, info, stop), stage: Stage::Idle }
    }

    /// Process `p`, the file system's thread.
    pub fn thread(p: usize, info: ProcInfo, thread: FsThread) -> Process {
        Process { task: Task::new(p, info, None), stage: Stage::Fs(thread) }
    }

    /// Process `p`, the worker of flusher `index`.
    pub fn flusher(p: usize, info: ProcInfo, index: usize) -> Process {
        let stage = Stage::Flusher(FlusherThread::new(index));
        Process { task: Task::new(p, info, None), stage }
    }

    /// Gives it its next operation.
    pub fn begin(&mut self, now: Instant, operation: Operation) {
        assert!(matches!(self.stage, Stage::Idle), "one operation of a process at a time");
        self.stage = Stage::of(now, operation);
    }

    /// Since when its oldest unfinished call has been running.
    pub fn call_begun(&self) -> Option<Instant> {
        let of_stage = match &self.stage {
            Stage::Read(reading) => reading.begun(),
            Stage::Write(writing) => writing.begun(),
            Stage::Direct(direct) => direct.begun(),
            Stage::Block(call) => call.begun(),
            Stage::Fsync(fsync) => fsync.begun(),
            _ => None,
        };
        [of_stage, self.task.calls.oldest()].into_iter().flatten().min()
    }

    /// What it does next.
    #[inline]
    pub fn step(&mut self, now: Instant, k: &mut Kernel) -> Result<Act, NoMemory> {
        let Process { task, stage } = self;
        loop {
            if let Some(act) = task.submission.next_act(now, task.p, &task.info, k) {
                return Ok(act);
            }
            // Most steps of most runs are those of readers and writers.
            let step = match &mut *stage {
                Stage::Read(reading) => reading.step(now, task, k),
                Stage::Write(writing) => writing.step(now, task, k),
                Stage::Fsync(fsync) => fsync.step(now, task, k),
                other => other.step(now, task, k),
            };
            match step {
                OpStep::Again => {}
                OpStep::Act(act) => {
                    if std::mem::take(&mut task.over) {
                        *stage = Stage::Over;
                    }
                    return Ok(act);
                }
                OpStep::Over => *stage = Stage::Over,
                OpStep::Sync => {
                    if let Stage::Write(writing) = stage {
                        *stage = Stage::Fsync(writing.sync(task.opened().file));
                    }
                }
                OpStep::NoMemory => return Err(NoMemory),
            }
        }
    }
}
