//! The flusher's worker, which writes dirty pages back (specs/host.md 9.1).
//!
//! Three kinds of work, in this order: what somebody asked for (sync), the periodic write-back of
//! old pages, and the background write-back while more than a share of memory is dirty. It works in
//! *turns*: one inode, from where the last turn ended, up to a quota of about half a second's worth of
//! pages. It submits like any process and waits where the block layer makes it wait; nothing else limits
//! write-back.

use super::file::{File, Listed};
use super::kernel::Kernel;
use super::op::Act;
use super::task::{OpStep, Task};
use super::wait::Wait;
use super::wb30;
use super::writeback::SyncWork;
use hoistway::table::NIL;
use hoistway::{Flags, Instant, Nanos};

/// What a turn is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Sync,
    Periodic,
    Background,
}

/// One inode being written.
#[derive(Clone, Copy, Debug)]
struct InodeTurn {
    file: u32,
    cause: Cause,
    /// Pages it may still write.
    left: u64,
    /// Pages written so far.
    done: u64,
    at: u64,
    end: u64,
    /// After the end it goes on from 0 to here.
    wrap: Option<u64>,
    /// Its plug section is open.
    open: bool,
}

/// What a flusher does next.
enum Pick {
    Turn(InodeTurn),
    /// All that is left is under write-back.
    Wait(u32),
    Rest,
}

/// A round of background turns: how many are left of the inodes that were dirty at its beginning.
#[derive(Clone, Copy, Debug)]
struct Pass {
    left: u32,
    began: Instant,
}

/// After this a pass ends with the turn that is under way (host.md 9.1). A slow drive makes each turn longer than
/// that, so that the level is looked at after every one; a drive that takes hundreds of commands does not.
const PASS: Nanos = Nanos::ms(100);

/// Smallest and largest step of a quota in pages: 4 MiB, so that a disk has something to order.
const QUOTA_UNIT: u64 = 1024;

/// Pages of one turn (host.md 9.1): half a second's worth, so that each of several files gets on within
/// seconds, and no more than an eighth of what may be dirty.
fn quota(bw: u64, limit: u64) -> u64 {
    ((bw / 2).min(limit / 8) + QUOTA_UNIT) / QUOTA_UNIT * QUOTA_UNIT
}

/// The worker of one flusher.
#[derive(Debug)]
pub(super) struct FlusherThread {
    /// Number of its flusher.
    index: usize,
    turn: Option<InodeTurn>,
    /// Its turn goes on when this file's write-back that is under way has ended.
    waits: Option<u32>,
    /// Turns in a row that found nothing to write.
    barren: u32,
    pass: Option<Pass>,
}

impl FlusherThread {
    /// The worker of flusher `index`, at rest.
    pub fn new(index: usize) -> FlusherThread {
        FlusherThread { index, turn: None, waits: None, barren: 0, pass: None }
    }

    /// What the worker does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        if k.fs.writes_alone() {
            return self.hand_over(now, k);
        }
        if k.writeback.old.is_some() {
            return wb30::flush(now, task, k, self.index);
        }
        if let Some(file) = self.waits.take() {
            return OpStep::wait(k.wait_for_writes(now, task.p, file));
        }
        if let Some(turn) = self.turn {
            return self.emit(now, task, k, turn);
        }
        k.writeback.flushers[self.index].works_on();
        match self.pick(now, k) {
            Pick::Turn(turn) => {
                let f = &mut k.files[turn.file];
                k.writeback.unlist(turn.file, f);
                f.listed = Listed::Turn;
                self.turn = Some(turn);
                OpStep::Again
            }
            Pick::Wait(file) => {
                self.barren = 0;
                let mark = k.files[file].write_seq;
                OpStep::Act(k.block_on(now, task.p, file, Wait::Writes { mark, left: 1 }))
            }
            Pick::Rest => {
                self.barren = 0;
                let due = k.writeback.flushers[self.index].rest();
                OpStep::Act(due.map_or(Act::Rest, Act::WaitUntil))
            }
        }
    }

    /// Only the file system's thread can write: it is asked to.
    fn hand_over(&self, now: Instant, k: &mut Kernel) -> OpStep {
        let w = &mut k.writeback;
        let (background, interval) = (w.thresholds.background, w.interval);
        let flusher = &mut w.flushers[self.index];
        let asked = !flusher.works.is_empty() || flusher.reclaim;
        flusher.works.clear();
        flusher.none_is_old(now, interval);
        let due = flusher.rest();
        if asked || w.dirty > background {
            k.journal.ask_commit(now, &mut k.sleepers);
        }
        OpStep::Act(due.map_or(Act::Rest, Act::WaitUntil))
    }

    /// The next turn: asked for, then periodic, then background.
    fn pick(&mut self, now: Instant, k: &mut Kernel) -> Pick {
        let i = self.index;
        while let Some(&SyncWork { before, id, proc }) = k.writeback.flushers[i].works.front() {
            self.pass = None;
            let due = |f: &File| f.dirtied_at <= before && f.synced < id;
            if let Some(file) = k.writeback.find_listed(i, &k.files, due) {
                k.files[file].synced = id;
                return Pick::Turn(self.turn(k, file, Cause::Sync));
            }
            k.writeback.flushers[i].works.pop_front();
            work_done(now, k, proc);
        }
        if let Some(file) = self.aged(now, k) {
            self.pass = None;
            return Pick::Turn(self.turn(k, file, Cause::Periodic));
        }
        self.pick_background(now, k)
    }

    /// The next inode of the pass. Only between two passes it matters how much is dirty, so that one writes far
    /// below that level where the drive takes all that it has.
    fn pick_background(&mut self, now: Instant, k: &mut Kernel) -> Pick {
        let i = self.index;
        k.writeback.take_up(i, &mut k.files);
        let f = &k.writeback.flushers[i];
        let file = f.oldest();
        let pass = self.pass.take().filter(|p| p.left > 0 && now.since(p.began) <= PASS);
        let over = k.writeback.over_background(i) || f.reclaim;
        if file == NIL || (pass.is_none() && !over) {
            return Pick::Rest;
        }
        if self.barren > f.inodes() && k.files[file].writing > 0 {
            return Pick::Wait(file);
        }
        let Pass { left, began } = pass.unwrap_or(Pass { left: f.in_turn(), began: now });
        self.pass = Some(Pass { left: left - 1, began });
        Pick::Turn(self.turn(k, file, Cause::Background))
    }

    /// An inode that is old enough for the periodic write-back, when that is due.
    fn aged(&self, now: Instant, k: &mut Kernel) -> Option<u32> {
        let w = &mut k.writeback;
        if !w.flushers[self.index].looks_for_old(now) {
            return None;
        }
        let (expire, interval) = (w.expire, w.interval);
        let found = w.find_listed(self.index, &k.files, |f| f.dirtied_at + expire <= now);
        if found.is_none() {
            w.flushers[self.index].none_is_old(now, interval);
        }
        found
    }

    fn turn(&self, k: &Kernel, file: u32, cause: Cause) -> InodeTurn {
        let cursor = k.files[file].cursor;
        let (at, wrap, left) = match cause {
            Cause::Sync => (0, None, u64::MAX),
            Cause::Periodic | Cause::Background => {
                let bw = k.writeback.flushers[self.index].pace.bandwidth;
                (cursor, Some(cursor), quota(bw, k.writeback.thresholds.limit))
            }
        };
        InodeTurn { file, cause, left, done: 0, at, end: k.cache.pages(file), wrap, open: false }
    }

    /// The turn's next bio, or its end.
    fn emit(
        &mut self,
        now: Instant,
        task: &mut Task,
        k: &mut Kernel,
        mut turn: InodeTurn,
    ) -> OpStep {
        if !turn.open && !k.legacy {
            self.turn = Some(InodeTurn { open: true, ..turn });
            return OpStep::Act(Act::Plug);
        }
        if turn.cause == Cause::Sync
            && let Some(step) = self.wait_for_busy(now, task, k, turn)
        {
            return step;
        }
        let limit = k.bio_pages.min(turn.left);
        let run = loop {
            if limit == 0 {
                break None;
            }
            match k.cache.idle_run(turn.file, turn.at, turn.end, limit) {
                Some(run) => break Some(run),
                None => match turn.wrap.take() {
                    Some(wrap) => (turn.at, turn.end) = (0, wrap),
                    None => break None,
                },
            }
        };
        let Some((a, b)) = run else {
            return self.end_turn(now, k, turn);
        };
        let flusher = &mut k.writeback.flushers[self.index];
        if flusher.out == 0 {
            flusher.pace.restart(now);
        }
        let flags = match turn.cause {
            Cause::Sync => Flags::SYNC,
            Cause::Periodic | Cause::Background => Flags::BACKGROUND,
        };
        let group = flusher.group;
        let bio = k.start_write(now, turn.file, (a, b), flags, group);
        let b = bio.end();
        turn.at = b;
        turn.left = turn.left.saturating_sub(b - a);
        turn.done += b - a;
        self.turn = Some(turn);
        task.submission.push(bio);
        k.submit(task, false);
        OpStep::Again
    }

    /// The next dirty page of a turn that leaves none out is under write-back: the plug is emptied and
    /// that write awaited.
    fn wait_for_busy(
        &mut self,
        now: Instant,
        task: &Task,
        k: &mut Kernel,
        turn: InodeTurn,
    ) -> Option<OpStep> {
        let at = k.cache.first_dirty(turn.file, turn.at, turn.end)?;
        if !k.cache.is(turn.file, at, |w| w.out) {
            return None;
        }
        self.turn = Some(InodeTurn { at, open: false, ..turn });
        if turn.open {
            // With the section closed the wait comes at the next question.
            self.waits = Some(turn.file);
            return Some(OpStep::Act(Act::Unplug));
        }
        k.wait_for_writes(now, task.p, turn.file).map(OpStep::Act)
    }

    fn end_turn(&mut self, now: Instant, k: &mut Kernel, turn: InodeTurn) -> OpStep {
        self.turn = None;
        self.barren = if turn.done > 0 { 0 } else { self.barren + 1 };
        k.writeback.flushers[self.index].reclaim &= turn.cause != Cause::Background;
        let pages = k.cache.pages(turn.file);
        let f = &mut k.files[turn.file];
        if matches!(turn.cause, Cause::Periodic | Cause::Background) {
            f.cursor = if turn.at >= pages { 0 } else { turn.at };
        }
        f.listed = Listed::No;
        k.round_over(now, turn.file);
        if k.cache.dirty(turn.file) > 0 {
            let f = &mut k.files[turn.file];
            if turn.left == 0 {
                k.writeback.postpone(turn.file, f);
            } else {
                // Deviation: what is dirty behind a turn that came to its end was dirtied during it, or
                // is under write-back. It counts as dirtied now: else the periodic work of an inode that
                // is always being written would never end.
                f.dirtied_at = now;
                k.writeback.list(now, turn.file, &mut k.files, &mut k.sleepers);
            }
        }
        if turn.open { OpStep::Act(Act::Unplug) } else { OpStep::Again }
    }
}

/// A flusher has written what process `p` asked for by sync().
fn work_done(now: Instant, k: &mut Kernel, p: usize) {
    if let Wait::Works(left) = k.sleepers.wait_mut(p) {
        *left -= 1;
        if *left == 0 {
            k.sleepers.wake(now, p);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_14_a_quota_is_half_a_second_in_steps_of_4_mib() {
        assert_eq!(quota(25_600, 356_515), 13_312);
        assert_eq!(quota(0, 356_515), 1024);
        // A fast device: an eighth of the limit.
        assert_eq!(quota(1 << 40, 8 * 5000), 5120);
    }
}
