//! Buffered writes (specs/host.md 7).
//!
//! A call is copied page by page; after so many pages that became dirty the writer is checked against
//! the dirty limits and may have to pause, in the middle of a call too.

use super::balance::Verdict;
use super::cache::PAGE;
use super::kernel::Kernel;
use super::op::{Act, Ran, SyncKind};
use super::sync::Fsync;
use super::task::{Call, OpStep, Task};
use super::wait::Wait;
use super::wb30;
use hoistway::{Instant, Nanos};

/// What a writer does next.
#[derive(Clone, Copy, Debug)]
enum WriteStage {
    Copy,
    /// The check against the dirty limits.
    Check,
    /// It writes so many pages back itself.
    WriteBack(u64),
    /// A pause is over; with `true` the check is repeated.
    Paused(bool),
    /// The last call is copied: it is synced next.
    Sync,
}

/// A run of buffered writes (host.md 7).
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    /// Where the current call begins.
    offset: u64,
    /// Bytes of a call.
    bs: u64,
    /// Calls not over yet, the current one included.
    left: u64,
    /// When the current call began.
    begun: Instant,
    /// Bytes of the current call that are copied.
    done: u64,
    /// The current call is under way.
    entered: bool,
    next: WriteStage,
    /// What follows the last call.
    sync: SyncKind,
    /// When the call before began, which ends now: it is told with what follows at once.
    ended: Option<Instant>,
}

impl Writing {
    /// `count` calls of `bs` bytes from `offset` on, with `sync` behind the last.
    pub fn new(offset: u64, bs: u64, count: u64, sync: SyncKind, now: Instant) -> Writing {
        let (next, ended) = (WriteStage::Copy, None);
        Writing { offset, bs, left: count, begun: now, done: 0, entered: false, next, sync, ended }
    }

    /// Since when a call has been open.
    pub fn begun(&self) -> Option<Instant> {
        self.entered.then_some(self.begun)
    }

    /// The sync behind the last call ([`OpStep::Sync`]).
    pub fn sync(&self, file: u32) -> Fsync {
        let call = Call { begun: self.begun, bytes: self.bs, write: true };
        Fsync::new(file, self.sync != SyncKind::Data, Some(call))
    }

    /// What the writer does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let file = task.opened().file;
        loop {
            if self.left == 0 {
                return self.tell(now, k).unwrap_or(OpStep::Over);
            }
            match self.next {
                WriteStage::Copy => return self.copy(now, task, k, file),
                WriteStage::Check => match check(now, task, k, file) {
                    Verdict::Go => self.next = WriteStage::Copy,
                    other => return self.obey(now, other),
                },
                WriteStage::WriteBack(left) => match wb30::write_chunk(now, task, k, left) {
                    Verdict::Go => self.next = WriteStage::Copy,
                    other => return self.obey(now, other),
                },
                WriteStage::Paused(again) => {
                    paused(now, task, k, file);
                    self.next = if again { WriteStage::Check } else { WriteStage::Copy };
                    if again {
                        continue;
                    }
                }
                WriteStage::Sync => return OpStep::Sync,
            }
            if self.done == self.bs {
                self.call_over(now);
            }
        }
    }

    /// The writer may not go on at once.
    fn obey(&mut self, now: Instant, verdict: Verdict) -> OpStep {
        match verdict {
            Verdict::Go => OpStep::Again,
            Verdict::Write(left) => {
                self.next = WriteStage::WriteBack(left);
                OpStep::Again
            }
            Verdict::Pause { length, again } => {
                self.next = WriteStage::Paused(again);
                OpStep::Act(Act::Throttled(now + length))
            }
        }
    }

    /// The check behind the last page of a call is done.
    fn call_over(&mut self, now: Instant) {
        if self.sync != SyncKind::No && self.left == 1 {
            return self.sync_behind(now);
        }
        self.ended = Some(self.begun);
        (self.offset, self.left, self.begun) = (self.offset + self.bs, self.left - 1, now);
        (self.done, self.entered, self.next) = (0, false, WriteStage::Copy);
    }

    /// The call that has just ended, if nothing follows that it could be told with.
    fn tell(&mut self, now: Instant, k: &mut Kernel) -> Option<OpStep> {
        let begun = self.ended.take()?;
        Some(OpStep::Act(Call { begun, bytes: self.bs, write: true }.over(now, k)))
    }

    /// The call that is open, which has been copied at `copied`, is synced next.
    fn sync_behind(&mut self, copied: Instant) {
        if self.sync == SyncKind::FullAlone {
            self.begun = copied;
        }
        (self.entered, self.next) = (true, WriteStage::Sync);
    }

    /// Copies as many calls as may be done in one step, or a part of one.
    fn copy(&mut self, now: Instant, task: &mut Task, k: &mut Kernel, file: u32) -> OpStep {
        if !self.entered
            && let Some(act) = task.held_back(now)
        {
            return self.tell(now, k).unwrap_or(OpStep::Act(act));
        }
        let bs = self.bs;
        assert!(
            bs.is_multiple_of(PAGE) && self.offset.is_multiple_of(PAGE),
            "loads write whole pages"
        );
        debug_assert!(
            self.offset + bs * self.left <= k.files[file].bytes,
            "a load writes inside its file"
        );
        let at = (self.offset + self.done) / PAGE;
        let cost = k.costs.call(bs);
        let calls = task.run_length(now, self.left, cost);
        let room = k.writeback.room(task.p, &task.dirtier);
        let end = self.reach(at, calls, room.max(1));
        // A page that is being read is locked until it is there.
        let locked = k.cache.find(file, at, end, |x| x.cached & !x.ready);
        let end = if locked < end { self.whole_calls(at, locked) } else { end };
        let bytes = (end - at) * PAGE;
        let whole = self.done == 0 && bytes >= bs;
        if !whole && let Some(step) = self.tell(now, k) {
            return step;
        }
        if locked == at {
            self.entered = true;
            return OpStep::Act(k.block_on(now, task.p, file, Wait::Page(at)));
        }
        if !k.make_dirty(now, task, file, at, end) {
            // What it has told it tries again.
            return self.tell(now, k).unwrap_or_else(|| {
                self.entered = true;
                k.wait_for_memory(now, task.p)
            });
        }
        let due = k.writeback.due(task.p, &task.dirtier);
        if whole {
            return self.calls_over(now, task, k, cost, bytes / bs, due);
        }
        let before = if self.done > 0 { k.costs.call(self.done) } else { 0 };
        self.done += bytes;
        self.entered = true;
        self.next = if due || self.done == bs { WriteStage::Check } else { WriteStage::Copy };
        let took = k.costs.call(self.done).saturating_sub(before);
        OpStep::Act(Act::WaitUntil(now + Nanos(took)))
    }

    /// The page behind the last one of a step from page `at` on: of at most `calls` calls, and `room` pages
    /// until the next check.
    fn reach(&self, at: u64, calls: u64, room: u64) -> u64 {
        let per_call = self.bs / PAGE;
        if self.done == 0 && per_call <= room {
            at + calls.min(room / per_call) * per_call
        } else {
            at + room.min(per_call - self.done / PAGE)
        }
    }

    /// A step that begins at page `at` and must end at `end` ends behind a whole call, if it has one.
    fn whole_calls(&self, at: u64, end: u64) -> u64 {
        let per_call = self.bs / PAGE;
        if end - at >= per_call && self.done == 0 {
            at + (end - at) / per_call * per_call
        } else {
            end
        }
    }

    /// `calls` whole calls of `cost` ns have been copied; `due`: a check is behind the last.
    fn calls_over(
        &mut self,
        now: Instant,
        task: &mut Task,
        k: &mut Kernel,
        cost: u64,
        calls: u64,
        due: bool,
    ) -> OpStep {
        let until = now + Nanos(cost * calls);
        let synced = self.sync != SyncKind::No && calls == self.left;
        // The last call is open until its check and its fdatasync are over.
        let report = calls - u64::from(synced || due);
        let each = Nanos(cost);
        let (first_end, begun, calls) = match self.ended.take() {
            None => (now + each, self.begun, report),
            Some(begun) => (now, begun, report + 1),
        };
        let first = first_end - begun;
        if report > 0 {
            self.begun = now + Nanos(cost * report);
        }
        self.offset += self.bs * report;
        self.left -= report;
        if due {
            (self.done, self.entered, self.next) = (self.bs, true, WriteStage::Check);
        } else if synced {
            self.sync_behind(until);
        } else {
            self.entered = false;
        }
        if calls == 0 {
            return OpStep::Act(Act::WaitUntil(until));
        }
        let (bytes, write) = (self.bs, true);
        k.ran = Ran { first, first_end, each, calls, bytes, write, until };
        if due && until < k.alone && k.writeback.old.is_none() && k.sleepers.are_quiet() {
            return self.check_ahead(until, task, k);
        }
        OpStep::Act(Act::Ran)
    }

    /// The check behind calls that end at `until`, made now, since nobody acts before.
    fn check_ahead(&mut self, until: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        let file = task.opened().file;
        if let Verdict::Pause { length, again } = check(until, task, k, file) {
            self.next = WriteStage::Paused(again);
            return OpStep::Act(Act::RanThrottled(until + length));
        }
        self.next = WriteStage::Copy;
        self.call_over(until);
        OpStep::Act(Act::Ran)
    }
}

/// The check of a writer that has dirtied as much as it may.
fn check(now: Instant, task: &mut Task, k: &mut Kernel, file: u32) -> Verdict {
    if k.writeback.old.is_some() {
        return wb30::throttle(now, task, k);
    }
    let flusher = k.files[file].flusher as usize;
    let verdict = k.writeback.throttle(now, &mut task.dirtier, flusher, &mut k.sleepers);
    if let Verdict::Pause { length, .. } = verdict {
        task.throttled += length;
    }
    verdict
}

/// A pause is over.
fn paused(now: Instant, task: &mut Task, k: &mut Kernel, file: u32) {
    match &mut k.writeback.old {
        Some(old) => old.patience_over(task.p),
        None => {
            let rate = k.writeback.flushers[k.files[file].flusher as usize].pace.rate;
            task.dirtier.paused(now, rate);
        }
    }
}
