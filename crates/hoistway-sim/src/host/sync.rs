//! Writing dirty pages out and waiting for them: fdatasync, fsync, sync, and the head of a direct call
//! (specs/host.md 6 and 10).

use super::bio::Pending;
use super::config::Fs;
use super::fs::FileSystem;
use super::fs::btrfs::TreeLog;
use super::fs::nilfs2;
use super::kernel::Kernel;
use super::op::Act;
use super::task::{Call, OpStep, Task};
use super::wait::Wait;
use super::writeback::SyncWork;
use hoistway::{Flags, Instant, Op};

/// The dirty pages [from, to) of a file go out.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteOut {
    file: u32,
    from: u64,
    to: u64,
}

impl WriteOut {
    /// Of the pages [from, to).
    pub fn new(file: u32, from: u64, to: u64) -> WriteOut {
        WriteOut { file, from, to }
    }

    /// Puts the next pages into the batch, or waits where a page is both dirty and under write-back: what
    /// it holds now must be written after what is on its way. `None` once all are submitted.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> Option<OpStep> {
        let busy = self.gather(now, task, k);
        let Some(busy) = busy else {
            k.unplug_last(task);
            k.submit(task, true);
            return None;
        };
        self.from = busy;
        if task.submission.is_empty() {
            return Some(OpStep::wait(k.wait_for_writes(now, task.p, self.file)));
        }
        // What is gathered goes first.
        k.submit(task, true);
        Some(OpStep::Again)
    }

    /// Puts dirty pages into the batch; stops at a page still under write-back and returns it.
    fn gather(&self, now: Instant, task: &mut Task, k: &mut Kernel) -> Option<u64> {
        let WriteOut { file, from, to } = *self;
        if !k.cache.any_dirty(file, from, to) {
            return None;
        }
        let busy = if k.files[file].out > 0 { k.cache.rewritten(file, from, to) } else { None };
        k.gather_idle(now, task, file, from, busy.unwrap_or(to), k.sync_flags());
        busy
    }
}

/// How far an fsync is.
#[derive(Clone, Copy, Debug)]
enum SyncStage {
    /// The call is made.
    Begin,
    Out(WriteOut),
    /// All data is submitted.
    Sent,
    /// The file's log (nilfs2).
    AskLog,
    /// The data is on disk; the log of what changed is not (btrfs).
    Log(TreeLog),
    /// The commit is over; the data may still be on its way.
    Committed,
    /// The data is with the device.
    Written,
    Flush,
    FlushSent,
    Done,
}

/// fdatasync or fsync of a file (host.md 10.1 and 10.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct Fsync {
    file: u32,
    /// fsync, not fdatasync.
    full: bool,
    /// Whose latency it counts into.
    call: Option<Call>,
    at: SyncStage,
}

impl Fsync {
    /// fsync (`full`) or fdatasync, on its own or as the end of a call.
    pub fn new(file: u32, full: bool, call: Option<Call>) -> Fsync {
        Fsync { file, full, call, at: SyncStage::Begin }
    }

    /// Since when the call that it ends has been open.
    pub fn begun(&self) -> Option<Instant> {
        self.call.map(|c| c.begun)
    }

    /// Writes the data out and waits for it, then commits or flushes.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let file = self.file;
        match &mut self.at {
            SyncStage::Begin => {
                self.at = match k.fs.writes_alone() {
                    true => SyncStage::AskLog,
                    false => SyncStage::Out(WriteOut::new(file, 0, k.cache.pages(file))),
                };
                OpStep::Act(Act::WaitUntil(now + k.costs.sync_call))
            }
            SyncStage::Out(out) => {
                let step = out.step(now, task, k);
                step.unwrap_or_else(|| {
                    self.at = SyncStage::Sent;
                    OpStep::Again
                })
            }
            // Deviation: the text has one order for all legacy kernels; before 2.6.32 fsync asked for the
            // commit while the data was on its way and waited for the data last.
            SyncStage::Sent if k.config.commit_beside_data && matches!(k.fs, FileSystem::Ext) => {
                self.at = SyncStage::Committed;
                let (_, commit) = self.after_data(k);
                OpStep::wait(commit.and_then(|id| k.wait_for_commit(now, task.p, id)))
            }
            SyncStage::Committed => {
                self.at = SyncStage::Done;
                OpStep::wait(k.wait_for_writes(now, task.p, file))
            }
            SyncStage::Sent => {
                self.at = SyncStage::Written;
                OpStep::wait(k.wait_for_writes(now, task.p, file))
            }
            SyncStage::AskLog => {
                self.at = SyncStage::Done;
                OpStep::wait(nilfs2::ask(now, task.p, k, file))
            }
            SyncStage::Log(log) => log.step(now, task, k, file).unwrap_or_else(|| {
                self.at = SyncStage::Done;
                OpStep::Again
            }),
            SyncStage::Written if matches!(k.fs, FileSystem::Btrfs(_)) && !k.files[file].raw => {
                self.at = SyncStage::Log(TreeLog::Ask);
                OpStep::Again
            }
            SyncStage::Written => {
                let (next, commit) = self.after_data(k);
                self.at = next;
                OpStep::wait(commit.and_then(|id| k.wait_for_commit(now, task.p, id)))
            }
            SyncStage::Flush => {
                push_flush(task);
                self.at = SyncStage::FlushSent;
                k.submit(task, false);
                OpStep::Again
            }
            SyncStage::FlushSent => {
                self.at = SyncStage::Done;
                OpStep::wait(k.wait_for_own(now, task))
            }
            SyncStage::Done => {
                let act = self.call.map(|call| call.over(now, k));
                task.wait_last(act)
            }
        }
    }

    /// What follows when the data of the file is with the device: the transaction to wait for, and whether
    /// a flush of its own comes then.
    fn after_data(&self, k: &Kernel) -> (SyncStage, Option<u64>) {
        let f = &k.files[self.file];
        // fdatasync may leave out what is not needed to read the data back: time stamps.
        let id = if self.full { f.changed } else { f.remapped };
        let open = id > k.journal.done();
        // The device as a file flushes like ext4: nothing else says that its data is on disk.
        let flushes = k.config.barriers && (k.config.fs != Fs::Ext3 || f.raw);
        match (open, flushes) {
            // The flush of a commit already sealed may have come before the data.
            (true, true) if k.journal.sealed(id) => (SyncStage::Flush, Some(id)),
            (true, _) => (SyncStage::Done, Some(id)),
            (false, true) => (SyncStage::Flush, None),
            (false, false) => (SyncStage::Done, None),
        }
    }
}

/// One empty flush.
pub(super) fn push_flush(task: &mut Task) {
    let flags = Flags::PREFLUSH | Flags::SYNC;
    task.submission.push(Pending::own(Op::Flush, flags, task.info.group, 0, 0));
    task.own.left = 1;
}

/// sync(): everything dirtied so far, of all files (host.md 10.3). How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncAll {
    Begin,
    /// Its own asynchronous writes (legacy), this file next.
    Write(u32),
    /// The wait for what is under way, this file next.
    Wait(u32),
    Commit,
    /// The commit and the last writes are over.
    Flush,
    FlushSent,
}

impl SyncAll {
    /// What the caller of sync() does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let files = k.files.len();
        let legacy = k.writeback.old.is_some();
        let (next, act) = match *self {
            // All that is dirty is in the commit.
            SyncAll::Begin if k.fs.writes_alone() => (SyncAll::Commit, None),
            SyncAll::Begin if legacy => (SyncAll::Write(0), None),
            SyncAll::Begin => (SyncAll::Wait(0), Some(ask_all(now, task.p, k))),
            SyncAll::Write(file) if file < files => {
                let pages = k.cache.pages(file);
                k.gather_idle(now, task, file, 0, pages, Flags::NONE);
                k.unplug_last(task);
                k.submit(task, true);
                (SyncAll::Write(file + 1), None)
            }
            SyncAll::Write(_) => (SyncAll::Commit, None),
            SyncAll::Wait(file) if file < files => {
                (SyncAll::Wait(file + 1), k.wait_for_writes(now, task.p, file))
            }
            // The old kernels commit before they wait; the modern ones wait first.
            SyncAll::Wait(_) if legacy => return OpStep::Over,
            SyncAll::Wait(_) => (SyncAll::Commit, None),
            SyncAll::Commit => match k.journal.newest() {
                Some(id) if legacy => (SyncAll::Wait(0), k.wait_for_commit(now, task.p, id)),
                None if legacy => (SyncAll::Wait(0), None),
                Some(id) => return task.wait_last(k.wait_for_commit(now, task.p, id)),
                None => (SyncAll::Flush, None),
            },
            SyncAll::Flush if k.config.barriers => {
                push_flush(task);
                k.submit(task, false);
                (SyncAll::FlushSent, None)
            }
            SyncAll::Flush => (SyncAll::FlushSent, None),
            SyncAll::FlushSent => {
                let act = k.wait_for_own(now, task);
                return task.wait_last(act);
            }
        };
        *self = next;
        OpStep::wait(act)
    }
}

/// Asks all flushers for what is dirty now and waits for their answers.
fn ask_all(now: Instant, p: usize, k: &mut Kernel) -> Act {
    k.syncs += 1;
    let work = SyncWork { before: now, id: k.syncs, proc: p };
    let flushers = k.writeback.flushers.len();
    for i in 0..flushers {
        k.writeback.ask(now, i, work, &mut k.sleepers);
    }
    k.sleepers.block(now, p, Wait::Works(flushers as u32));
    Act::Block
}
