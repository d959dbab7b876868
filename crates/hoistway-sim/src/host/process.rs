//! What a process does next: its operation as a sequence of acts (specs/host.md 1 and 2). This file has
//! the stages an operation goes through and those that are over at once; the long ones have files of their
//! own: `read`, `write`, `sync`, `direct` and `journal`.

use super::ahead::Ahead;
use super::block::{BlockIo, BlockStep, Notice};
use super::dirty::Dirtier;
use super::submit::{Pending, Phase};
use super::sync::All;
use super::write::{Step, Writing};
use super::{Act, Advice, FileId, Host, Operation, PAGE, ProcInfo, Ran, STEP, Writeback};
use crate::world::JobError;
use hoistway::{Flags, Instant, Nanos, ProcId, Profile};

/// What a blocked process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    None,
    /// This page of its file.
    Page(u64),
    /// The end of `left` more of the file's write-back bios numbered up to `mark`.
    Writes {
        mark: u64,
        left: u64,
    },
    /// All bios it counts itself.
    Own,
    /// Pages that can be taken back.
    Memory,
    /// This transaction to be on disk.
    Commit(u64),
    /// The ordered data of the transaction being committed.
    Ordered,
    /// What it has asked the flushers for.
    Works,
}

/// A call whose latency is still open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub begun: Instant,
    pub bytes: u64,
}

/// How far a write-out of dirty pages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    Gather,
    Sent,
    /// The commit is over; the data may still be on its way.
    Committed,
    Written,
    Flush,
    FlushSent,
    Done,
}

/// Where a process is in its operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Idle,
    Over,
    Exit,
    Open {
        file: FileId,
        advice: Advice,
    },
    /// Of the pages [from, to).
    DontNeed {
        file: FileId,
        from: u64,
        to: u64,
        sent: bool,
    },
    DropCaches,
    Sleep(Instant),
    Block {
        io: BlockIo,
        begun: Instant,
        step: BlockStep,
    },
    Tell(Notice),
    Read(Reading),
    Write(Writing),
    DirectBegin {
        write: bool,
        offset: u64,
        len: u64,
        begun: Instant,
        sync: bool,
        late: bool,
    },
    DirectGo {
        write: bool,
        offset: u64,
        len: u64,
        begun: Instant,
        sync: bool,
    },
    DirectSent {
        len: u64,
        begun: Instant,
        sync: bool,
    },
    SyncBegin {
        file: u32,
        call: Option<Call>,
        /// fsync, not fdatasync.
        full: bool,
    },
    /// Dirty pages [from, to) go out; a direct call follows if `then` says so.
    WriteOut {
        file: u32,
        from: u64,
        to: u64,
        step: Out,
        call: Option<Call>,
        full: bool,
        then: Option<Direct>,
    },
    SyncAll(All),
    Create(FileId),
    Unlink(FileId),
    JournalRest,
    JournalOrdered {
        at: usize,
    },
    JournalRun,
    JournalCommit,
    JournalDone,
    /// Flusher `index`.
    Flusher {
        index: usize,
    },
    /// It waits for write-back of that file, in the middle of a turn.
    FlusherWaits {
        index: usize,
        file: u32,
    },
}

/// A run of buffered reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Where the current call begins.
    pub offset: u64,
    /// Bytes of a call.
    pub bs: u64,
    /// Calls not over yet, the current one included.
    pub left: u64,
    /// When the current call began.
    pub begun: Instant,
    /// First page of the current call that it has not read.
    pub at: u64,
    /// The current call is under way.
    pub entered: bool,
}

/// A direct call that waits for the write-out of its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct {
    pub write: bool,
    pub offset: u64,
    pub len: u64,
    pub begun: Instant,
    pub sync: bool,
}

impl Stage {
    pub(super) fn of(now: Instant, operation: Operation) -> Stage {
        match operation {
            Operation::Open { file, advice } => Stage::Open { file, advice },
            Operation::DontNeed(file) => {
                Stage::DontNeed { file, from: 0, to: u64::MAX, sent: false }
            }
            Operation::DontNeedPart { file, offset, len } => Stage::DontNeed {
                file,
                from: offset / PAGE,
                to: (offset + len).div_ceil(PAGE),
                sent: false,
            },
            Operation::Read { offset, bs, count } => Stage::Read(Reading {
                offset,
                bs,
                left: count,
                begun: now,
                at: offset / PAGE,
                entered: false,
            }),
            Operation::Write { offset, bs, count, sync } => {
                let (begun, done, entered, next) = (now, 0, false, Step::Copy);
                Stage::Write(Writing { offset, bs, left: count, begun, done, entered, next, sync })
            }
            Operation::Direct { write, offset, len, since, sync } => Stage::DirectBegin {
                write,
                offset,
                len,
                begun: since.unwrap_or(now),
                sync,
                late: false,
            },
            Operation::Fdatasync(file) => {
                Stage::SyncBegin { file: file.0, call: None, full: false }
            }
            Operation::Fsync(file) => Stage::SyncBegin { file: file.0, call: None, full: true },
            Operation::Sync => Stage::SyncAll(All::Begin),
            Operation::Create(file) => Stage::Create(file),
            Operation::Unlink(file) => Stage::Unlink(file),
            Operation::DropCaches => Stage::DropCaches,
            Operation::Sleep(until) => Stage::Sleep(until),
            Operation::Block(io) => Stage::Block { io, begun: now, step: BlockStep::Begin },
            Operation::Tell(notice) => Stage::Tell(notice),
            Operation::Exit => Stage::Exit,
        }
    }

    /// Since when a call has been open.
    pub(super) fn begun(&self) -> Option<Instant> {
        match *self {
            Stage::Read(Reading { begun, entered: true, .. })
            | Stage::Write(Writing { begun, entered: true, .. })
            | Stage::DirectBegin { begun, late: true, .. }
            | Stage::DirectGo { begun, .. }
            | Stage::DirectSent { begun, .. }
            | Stage::Block { begun, io: BlockIo { wait: true, .. }, .. } => Some(begun),
            Stage::SyncBegin { call, .. } => call.map(|c| c.begun),
            Stage::WriteOut { call, then, .. } => call.map(|c| c.begun).or(then.map(|d| d.begun)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub file: u32,
    pub advice: Advice,
    pub ahead: Ahead,
}

#[derive(Debug)]
pub(super) struct Proc {
    pub info: ProcInfo,
    pub stop: Option<Instant>,
    pub open: Option<OpenFile>,
    pub stage: Stage,
    pub wait: Wait,
    /// Bios to submit, how many of them have gone, and how far the current one is.
    pub batch: Vec<Pending>,
    pub next: usize,
    pub phase: Phase,
    pub plugged: bool,
    pub sent_at: Instant,
    /// Bios it counts itself (direct, flush, journal) that are not served yet.
    pub own_left: u32,
    /// Flushers that have not yet done what its sync() asked for.
    pub works_left: u32,
    /// The same of identities that do not act now and have some under way.
    pub away: Vec<(ProcId, u32)>,
    /// Bytes submitted without waiting since the last call that was recorded.
    pub unseen: u64,
    pub blocked_at: Instant,
    pub waited_page: Nanos,
    pub waited_io: Nanos,
    pub waited_submit: Nanos,
    pub waited_throttle: Nanos,
    /// What it has dirtied since it last paused.
    pub dirtier: Dirtier,
    /// A controller's wish: no next call before then.
    pub delay: Instant,
    /// A controller slows its group down.
    pub congested: bool,
}

impl Proc {
    pub fn new(info: ProcInfo, stop: Option<Instant>) -> Proc {
        Proc {
            info,
            stop,
            open: None,
            stage: Stage::Idle,
            wait: Wait::None,
            batch: Vec::with_capacity(8),
            next: 0,
            phase: Phase::Off,
            plugged: false,
            sent_at: Instant::ZERO,
            own_left: 0,
            works_left: 0,
            away: Vec::new(),
            unseen: 0,
            blocked_at: Instant::ZERO,
            waited_page: Nanos::ZERO,
            waited_io: Nanos::ZERO,
            waited_submit: Nanos::ZERO,
            waited_throttle: Nanos::ZERO,
            dirtier: Dirtier::new(),
            delay: Instant::ZERO,
            congested: false,
        }
    }
}

impl Host {
    /// What process `p` does next. To be asked when an operation was begun, at the time the last act
    /// named, when a submission was accepted, and when [`Host::woken`] named it; never otherwise.
    pub fn step(&mut self, now: Instant, p: usize) -> Act {
        loop {
            if let Some(fault) = self.fault.take() {
                return Act::Fault(fault);
            }
            if let Some(act) = self.submitting(now, p) {
                return act;
            }
            let turn = match self.procs[p].stage {
                Stage::Idle => return Act::Finished,
                Stage::Over => {
                    self.procs[p].stage = Stage::Idle;
                    return Act::Finished;
                }
                Stage::Exit => return Act::Exited,
                Stage::Read(reading) => self.read(now, p, reading),
                Stage::Write(writing) => self.write(now, p, writing),
                Stage::Flusher { index } => self.flush(now, p, index),
                Stage::WriteOut { .. } => self.write_out(now, p),
                Stage::Block { io, begun, step } => self.block_io(now, p, io, begun, step),
                Stage::DirectBegin { .. } | Stage::DirectGo { .. } | Stage::DirectSent { .. } => {
                    self.direct(now, p)
                }
                Stage::FlusherWaits { index, file } => self.flusher_waits(now, p, index, file),
                Stage::SyncAll(step) => self.sync_all(now, p, step),
                Stage::JournalRest
                | Stage::JournalOrdered { .. }
                | Stage::JournalRun
                | Stage::JournalCommit
                | Stage::JournalDone => self.commit(now, p),
                _ => self.rare(now, p),
            };
            if let Some(act) = turn {
                return act;
            }
        }
    }

    /// Operations that are over at once, or nearly.
    fn rare(&mut self, now: Instant, p: usize) -> Option<Act> {
        let next = match self.procs[p].stage {
            Stage::Open { file, advice } => {
                self.procs[p].open =
                    Some(OpenFile { file: file.0, advice, ahead: Ahead::default() });
                Stage::Over
            }
            Stage::DontNeed { file, from, to, sent: false } => {
                let to = to.min(self.files[file.0 as usize].cache.pages());
                if self.config.writeback_variant == Writeback::Wb61 {
                    self.ask_file(now, file.0, from, to);
                } else {
                    self.gather_idle(now, p, file.0, from, to, Flags::NONE);
                    self.submit(p, true);
                }
                Stage::DontNeed { file, from, to, sent: true }
            }
            Stage::DontNeed { file, from, to, sent: true } => {
                let cache = &mut self.files[file.0 as usize].cache;
                self.memory.drop_clean(cache, from, to);
                Stage::Over
            }
            Stage::Create(file) | Stage::Unlink(file) => {
                self.empty(now, file.0);
                Stage::Over
            }
            Stage::DropCaches => {
                for f in &mut self.files {
                    let pages = f.cache.pages();
                    self.memory.drop_clean(&mut f.cache, 0, pages);
                }
                Stage::Over
            }
            Stage::Sleep(until) => {
                self.procs[p].stage = Stage::Over;
                return Some(Act::WaitUntil(until.max(now)));
            }
            Stage::Tell(notice) => {
                self.procs[p].stage = Stage::Over;
                return Some(Act::Tell(notice));
            }
            Stage::SyncBegin { file, call, full } => {
                let to = self.files[file as usize].cache.pages();
                let step = Out::Gather;
                self.procs[p].stage =
                    Stage::WriteOut { file, from: 0, to, step, call, full, then: None };
                return Some(Act::WaitUntil(now + Nanos(self.config.sync_call_ns)));
            }
            other => unreachable!("{other:?} has a function of its own"),
        };
        self.procs[p].stage = next;
        None
    }

    /// Cost of a buffered call: 1.5 x + 0.625 x per KiB (host.md 2.1), rounded down. At least 1 ns, so
    /// that no process calls for ever at one instant.
    pub(super) fn call_cost(&self, bs: u64) -> u64 {
        let x = self.copy_ns_per_kib;
        (x * 3 / 2 + x * 5 * bs / (8 * 1024)).max(1)
    }

    /// How many calls of `cost` may be done in one step that begins now.
    pub(super) fn run_length(&self, now: Instant, p: usize, left: u64, cost: u64) -> u64 {
        let mut room = STEP;
        if let Some(stop) = self.procs[p].stop {
            room = room.min(stop.since(now).0);
        }
        left.min((room / cost).max(1))
    }

    /// Before a call: the process has reached its stop time, or a controller has it wait.
    pub(super) fn held_back(&self, now: Instant, p: usize) -> Option<Act> {
        let proc = &self.procs[p];
        if proc.stop.is_some_and(|stop| stop <= now) {
            return Some(Act::Stopped);
        }
        (proc.delay > now).then_some(Act::WaitUntil(proc.delay))
    }

    /// A process found no room in memory: it waits until something may be taken back.
    pub(super) fn wait_for_memory(&mut self, now: Instant, p: usize) -> Option<Act> {
        let waits = self.held() > 0 || self.in_flight() > 0;
        if !waits && self.procs.iter().all(|p| p.batch.is_empty()) {
            self.fault = Some(Box::new(self.no_memory()));
            return None;
        }
        self.ask_reclaim(now);
        Some(self.block(now, p, 0, Wait::Memory))
    }

    pub(super) fn no_memory(&self) -> JobError {
        JobError::Parameter {
            of: "host".into(),
            message: format!("ram = {} holds too few pages for this load", self.config.ram),
        }
    }

    pub(super) fn block(&mut self, now: Instant, p: usize, file: u32, wait: Wait) -> Act {
        match wait {
            Wait::Own | Wait::None | Wait::Commit(_) | Wait::Ordered | Wait::Works => {}
            Wait::Memory => self.memory_waiters.push(p as u32),
            _ => self.files[file as usize].waiters.push(p as u32),
        }
        let proc = &mut self.procs[p];
        proc.wait = wait;
        proc.blocked_at = now;
        Act::Block
    }

    pub(super) fn wait_for_own(&mut self, now: Instant, p: usize) -> Option<Act> {
        (self.procs[p].own_left > 0).then(|| self.block(now, p, 0, Wait::Own))
    }

    pub(super) fn unplug_last(&mut self, p: usize) {
        if self.config.block_profile == Profile::Legacy
            && let Some(last) = self.procs[p].batch.last_mut()
        {
            last.flags |= Flags::UNPLUG;
        }
    }
}

/// A single call that ends now.
pub(super) fn one_call(now: Instant, call: Call) -> Act {
    Act::Ran(Ran {
        first: now - call.begun,
        first_end: now,
        each: Nanos::ZERO,
        calls: 1,
        bytes: call.bytes,
        until: now,
    })
}
