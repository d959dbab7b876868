//! Buffered writes (specs/host.md 7).
//!
//! A call is copied page by page; after so many pages that became dirty the writer is checked against
//! the dirty limits and may have to pause, in the middle of a call too.

use super::dirty::Verdict;
use super::flusher::Listed;
use super::journal::Change;
use super::process::{Call, Stage, Wait, one_call};
use super::{Act, FileId, Host, PAGE, Ran, STAMP_TICK, SyncKind};
use hoistway::{Instant, Nanos};

/// A run of buffered writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    /// Where the current call begins.
    pub offset: u64,
    /// Bytes of a call.
    pub bs: u64,
    /// Calls not over yet, the current one included.
    pub left: u64,
    /// When the current call began.
    pub begun: Instant,
    /// Bytes of the current call that are copied.
    pub done: u64,
    /// The current call is under way.
    pub entered: bool,
    pub next: Step,
    /// What follows the last call.
    pub sync: SyncKind,
}

/// What a writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Copy,
    /// The check against the dirty limits.
    Check,
    /// It writes so many pages back itself.
    WriteBack(u64),
    /// A pause is over; with `true` the check is repeated.
    Paused(bool),
}

impl Host {
    /// A run of buffered writes (host.md 7).
    pub(super) fn write(&mut self, now: Instant, p: usize, w: Writing) -> Option<Act> {
        if w.left == 0 {
            self.procs[p].stage = Stage::Over;
            return None;
        }
        let file = self.procs[p].open.expect("a load opens its file before it writes").file;
        let next = match w.next {
            Step::Copy => return self.copy(now, p, file, w),
            Step::Check | Step::WriteBack(_) => match self.verdict(now, p, file, w.next) {
                Verdict::Go => Step::Copy,
                Verdict::Write(left) => {
                    let next = Step::WriteBack(left);
                    self.procs[p].stage = Stage::Write(Writing { next, ..w });
                    return None;
                }
                Verdict::Pause { length, again } => {
                    self.procs[p].stage = Stage::Write(Writing { next: Step::Paused(again), ..w });
                    return Some(Act::Throttled(now + length));
                }
            },
            Step::Paused(again) => {
                self.patience_over(p);
                self.paused(now, p, file);
                if again { Step::Check } else { Step::Copy }
            }
        };
        let w = Writing { next, ..w };
        if next == Step::Check || w.done < w.bs {
            self.procs[p].stage = Stage::Write(w);
            return None;
        }
        self.call_over(now, p, file, w)
    }

    fn verdict(&mut self, now: Instant, p: usize, file: u32, step: Step) -> Verdict {
        match step {
            Step::WriteBack(left) => self.write_chunk(now, p, left),
            _ => self.throttle(now, p, file),
        }
    }

    /// The check behind the last page of a call is done.
    fn call_over(&mut self, now: Instant, p: usize, file: u32, w: Writing) -> Option<Act> {
        let call = Call { begun: w.begun, bytes: w.bs };
        if w.sync != SyncKind::No && w.left == 1 {
            self.procs[p].stage = sync_stage(file, w.sync, w.begun, now, w.bs);
            return None;
        }
        let (offset, left) = (w.offset + w.bs, w.left - 1);
        let w = Writing { offset, left, begun: now, done: 0, entered: false, ..w };
        self.procs[p].stage = Stage::Write(w);
        Some(one_call(now, call))
    }

    /// Copies as many calls as may be done in one step, or a part of one.
    fn copy(&mut self, now: Instant, p: usize, file: u32, w: Writing) -> Option<Act> {
        if !w.entered
            && let Some(act) = self.held_back(now, p)
        {
            return Some(act);
        }
        assert!(
            w.bs.is_multiple_of(PAGE) && w.offset.is_multiple_of(PAGE),
            "loads write whole pages"
        );
        let at = (w.offset + w.done) / PAGE;
        let per_call = w.bs / PAGE;
        let room = self.check_room(p);
        let cost = self.call_cost(w.bs);
        let mut end = if w.done == 0 && per_call <= room {
            let calls = self.run_length(now, p, w.left, cost).min(room / per_call);
            at + calls * per_call
        } else {
            at + room.min(per_call - w.done / PAGE)
        };
        let f = &mut self.files[file as usize];
        debug_assert!(w.offset + w.bs * w.left <= f.bytes, "a load writes inside its file");
        let locked = f.cache.find(at, end, |x| x.cached & !x.ready);
        if locked == at {
            self.procs[p].stage = Stage::Write(Writing { entered: true, ..w });
            return Some(self.block(now, p, file, Wait::Page(at)));
        }
        if locked < end {
            end = if locked - at >= per_call && w.done == 0 {
                at + (locked - at) / per_call * per_call
            } else {
                locked
            };
        }
        if !self.dirty(now, p, file, at, end) {
            self.procs[p].stage = Stage::Write(Writing { entered: true, ..w });
            return self.wait_for_memory(now, p);
        }
        let check = self.check_due(p);
        let bytes = (end - at) * PAGE;
        if w.done > 0 || bytes < w.bs {
            let before = if w.done > 0 { self.call_cost(w.done) } else { 0 };
            let done = w.done + bytes;
            let until = now + Nanos(self.call_cost(done).saturating_sub(before));
            let next = if check || done == w.bs { Step::Check } else { Step::Copy };
            self.procs[p].stage = Stage::Write(Writing { done, entered: true, next, ..w });
            return Some(Act::WaitUntil(until));
        }
        self.calls_over(now, p, file, w, bytes / w.bs, check)
    }

    /// `calls` whole calls have been copied; `check`: a check is due behind the last.
    fn calls_over(
        &mut self,
        now: Instant,
        p: usize,
        file: u32,
        w: Writing,
        calls: u64,
        check: bool,
    ) -> Option<Act> {
        let cost = self.call_cost(w.bs);
        let until = now + Nanos(cost * calls);
        let synced = w.sync != SyncKind::No && calls == w.left;
        // The last call is open until its check and its fdatasync are over.
        let report = calls - u64::from(synced || check);
        let (offset, left) = (w.offset + w.bs * report, w.left - report);
        let begun = if report == 0 { w.begun } else { now + Nanos(cost * report) };
        self.procs[p].stage = if check {
            let next = Step::Check;
            Stage::Write(Writing { offset, left, begun, done: w.bs, entered: true, next, ..w })
        } else if synced {
            sync_stage(file, w.sync, begun, until, w.bs)
        } else {
            Stage::Write(Writing { offset, left, begun, entered: false, ..w })
        };
        if report == 0 {
            return Some(Act::WaitUntil(until));
        }
        let first_end = now + Nanos(cost);
        let (first, each) = (first_end - w.begun, Nanos(cost));
        Some(Act::Ran(Ran { first, first_end, each, calls: report, bytes: w.bs, until }))
    }

    /// Makes pages [a, b) dirty; false if there is no memory for one of them.
    fn dirty(&mut self, now: Instant, p: usize, file: u32, a: u64, b: u64) -> bool {
        let group = self.procs[p].info.group;
        let mut at = a;
        while at < b {
            let cache = &self.files[file as usize].cache;
            let from = cache.find(at, b, |w| !w.cached);
            let to = cache.find(from, b, |w| w.cached);
            if from < to && !self.memory.insert(&mut self.files, file, from, to, true, group) {
                return false;
            }
            at = to;
        }
        let f = &mut self.files[file as usize];
        if f.owner.is_none() {
            self.hand_over(now, file, group);
        }
        let f = &mut self.files[file as usize];
        if f.cache.dirty == 0 {
            f.dirtied_at = now;
        }
        let fresh = f.cache.set_dirty(a, b);
        if let Some(dirtied) = &mut self.dirtied {
            dirtied.push((p, FileId(file), a, b));
        }
        let flusher = &mut self.flushers[f.flusher as usize];
        flusher.held += fresh;
        flusher.pace.dirtied(fresh);
        self.dirty += fresh;
        self.procs[p].dirtier.dirtied += fresh;
        self.counts.dirty_max = self.counts.dirty_max.max(self.dirty);
        self.counts.held_max = self.counts.held_max.max(self.dirty + self.out);
        if f.listed == Listed::No {
            self.list(now, file);
        }
        if self.allocates_early() && self.allocate(now, file, a, b).is_some() {
            self.dirtied_fresh(file, a, b);
        }
        self.extend(now, file, b * PAGE);
        let f = &mut self.files[file as usize];
        let tick = now.as_nanos() / STAMP_TICK.0;
        if f.stamped != Some(tick) {
            f.stamped = Some(tick);
            self.join(now, file, Change::Stamp);
        }
        true
    }
}

/// The sync behind a call that began at `begun` and has been copied at `copied`.
fn sync_stage(file: u32, sync: SyncKind, begun: Instant, copied: Instant, bytes: u64) -> Stage {
    let begun = if sync == SyncKind::FullAlone { copied } else { begun };
    let full = sync != SyncKind::Data;
    Stage::SyncBegin { file, call: Some(Call { begun, bytes }), full }
}
