//! Writing dirty pages out and waiting for them: fdatasync, fsync, sync, and the head of a direct call
//! (specs/host.md 6 and 10).

use super::config::{Fs, Writeback};
use super::flusher::Work;
use super::process::{Direct, Out, Stage, Wait, one_call};
use super::submit::{Kind, Pending};
use super::{Act, Host};
use hoistway::{Flags, Instant, Op, Profile};

/// How far a sync() is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum All {
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

impl Host {
    /// Puts the dirty pages of [from, to) into the batch; stops at a page still under write-back and
    /// returns it.
    fn gather(&mut self, now: Instant, p: usize, file: u32, from: u64, to: u64) -> Option<u64> {
        let cache = &self.files[file as usize].cache;
        cache.dirty_run(from, to, 1)?;
        let busy = cache.rewritten(from, to);
        self.gather_idle(now, p, file, from, busy.unwrap_or(to), self.sync_flags());
        busy
    }

    /// Puts the dirty pages of [from, to) that are not under write-back into the batch.
    pub(super) fn gather_idle(
        &mut self,
        now: Instant,
        p: usize,
        file: u32,
        from: u64,
        to: u64,
        flags: Flags,
    ) {
        let mut at = from;
        // Deviation: the owner's group pays also without group write-back, as the specification's
        // section 13 says of fsync; the caller's priority goes with it.
        let group = self.files[file as usize].owner.unwrap_or(self.procs[p].info.group);
        while let Some((a, b)) = self.files[file as usize].cache.idle_run(at, to, self.bio_pages) {
            let bio = self.write_bio(now, file, a, b, flags, group);
            self.procs[p].batch.push(bio);
            at = b;
        }
        if self.files[file as usize].cache.dirty == 0 {
            self.unlist(file);
        }
        self.round_over(now, file);
    }

    /// Flags of writes somebody waits for.
    pub(super) fn sync_flags(&self) -> Flags {
        match self.config.block_profile {
            Profile::MultiQueue => Flags::SYNC,
            Profile::Legacy => Flags::SYNC | Flags::NOIDLE,
        }
    }

    /// Writes dirty pages out and waits for them, then commits or flushes (host.md 10.1 and 10.2).
    pub(super) fn write_out(&mut self, now: Instant, p: usize) -> Option<Act> {
        let Stage::WriteOut { file, from, to, step, call, full, then } = self.procs[p].stage else {
            unreachable!("asked for this stage only")
        };
        let stage = |from, step| Stage::WriteOut { file, from, to, step, call, full, then };
        match step {
            Out::Gather => match self.gather(now, p, file, from, to) {
                None => {
                    self.unplug_last(p);
                    self.procs[p].stage = stage(from, Out::Sent);
                    self.submit(p, true);
                    None
                }
                // A page is both dirty and under write-back: what is gathered goes first.
                Some(busy) if !self.procs[p].batch.is_empty() => {
                    self.procs[p].stage = stage(busy, Out::Gather);
                    self.submit(p, true);
                    None
                }
                Some(busy) => {
                    self.procs[p].stage = stage(busy, Out::Gather);
                    self.wait_for_writes(now, p, file)
                }
            },
            // Deviation: the text has one order for all legacy kernels; before 2.6.32 fsync asked for the
            // commit while the data was on its way and waited for the data last.
            Out::Sent if self.config.commit_beside_data && then.is_none() => {
                let (_, commit) = self.after_data(file, full);
                self.procs[p].stage = stage(from, Out::Committed);
                commit.and_then(|id| self.wait_for_commit(now, p, id))
            }
            Out::Committed => {
                self.procs[p].stage = stage(from, Out::Done);
                self.wait_for_writes(now, p, file)
            }
            Out::Sent => {
                self.procs[p].stage = stage(from, Out::Written);
                self.wait_for_writes(now, p, file)
            }
            Out::Written => {
                let (next, commit) =
                    if then.is_some() { (Out::Done, None) } else { self.after_data(file, full) };
                self.procs[p].stage = stage(from, next);
                commit.and_then(|id| self.wait_for_commit(now, p, id))
            }
            Out::Flush => {
                self.flush_bio(p);
                self.procs[p].stage = stage(from, Out::FlushSent);
                self.submit(p, false);
                None
            }
            Out::FlushSent => {
                self.procs[p].stage = stage(from, Out::Done);
                self.wait_for_own(now, p)
            }
            Out::Done => {
                self.procs[p].stage = match then {
                    Some(Direct { write, offset, len, begun, sync }) => {
                        Stage::DirectGo { write, offset, len, begun, sync }
                    }
                    None => Stage::Over,
                };
                call.map(|call| one_call(now, call))
            }
        }
    }

    /// What follows when the data of a file is with the device: the transaction to wait for, and whether
    /// a flush of its own comes then.
    fn after_data(&self, file: u32, full: bool) -> (Out, Option<u64>) {
        let f = &self.files[file as usize];
        let id = if full { f.changed } else { f.remapped };
        let open = id > self.log.done;
        let flushes = self.config.barriers && self.config.fs == Fs::Ext4;
        match (open, flushes) {
            // The flush of a commit already sealed may have come before the data.
            (true, true) if self.log.sealed(id) => (Out::Flush, Some(id)),
            (true, _) => (Out::Done, Some(id)),
            (false, true) => (Out::Flush, None),
            (false, false) => (Out::Done, None),
        }
    }

    fn flush_bio(&mut self, p: usize) {
        let group = self.procs[p].info.group;
        self.procs[p].batch.push(Pending {
            kind: Kind::Own,
            op: Op::Flush,
            flags: Flags::PREFLUSH | Flags::SYNC,
            group,
            file: 0,
            first: 0,
            seq: 0,
            order: 0,
            start: 0,
            len: 0,
        });
        self.procs[p].own_left = 1;
    }

    /// Waits for the write-back bios of a file that are in flight now; not at all if there are none.
    pub(super) fn wait_for_writes(&mut self, now: Instant, p: usize, file: u32) -> Option<Act> {
        let f = &self.files[file as usize];
        let (mark, left) = (f.write_seq, f.writing);
        (left > 0).then(|| self.block(now, p, file, Wait::Writes { mark, left }))
    }

    /// sync() (host.md 10.3).
    pub(super) fn sync_all(&mut self, now: Instant, p: usize, step: All) -> Option<Act> {
        let files = self.files.len() as u32;
        let legacy = self.config.writeback_variant == Writeback::Wb30;
        let (next, act) = match step {
            All::Begin if legacy => (All::Write(0), None),
            All::Begin => (All::Wait(0), self.ask_all(now, p)),
            All::Write(file) if file < files => {
                let pages = self.files[file as usize].cache.pages();
                self.gather_idle(now, p, file, 0, pages, Flags::NONE);
                self.unplug_last(p);
                self.submit(p, true);
                (All::Write(file + 1), None)
            }
            All::Write(_) => (All::Commit, None),
            All::Wait(file) if file < files => {
                (All::Wait(file + 1), self.wait_for_writes(now, p, file))
            }
            // The old kernels commit before they wait; the modern ones wait first.
            All::Wait(_) if legacy => {
                self.procs[p].stage = Stage::Over;
                return None;
            }
            All::Wait(_) => (All::Commit, None),
            All::Commit => match self.log.newest() {
                Some(id) if legacy => (All::Wait(0), self.wait_for_commit(now, p, id)),
                None if legacy => (All::Wait(0), None),
                Some(id) => {
                    self.procs[p].stage = Stage::Over;
                    return self.wait_for_commit(now, p, id);
                }
                None => (All::Flush, None),
            },
            All::Flush if self.config.barriers => {
                self.flush_bio(p);
                self.submit(p, false);
                (All::FlushSent, None)
            }
            All::Flush => (All::FlushSent, None),
            All::FlushSent => {
                self.procs[p].stage = Stage::Over;
                return self.wait_for_own(now, p);
            }
        };
        self.procs[p].stage = Stage::SyncAll(next);
        act
    }

    /// Asks all flushers for what is dirty now and waits for their answers.
    fn ask_all(&mut self, now: Instant, p: usize) -> Option<Act> {
        self.syncs += 1;
        let work = Work::Sync { before: now, id: self.syncs, proc: p };
        for i in 0..self.flushers.len() {
            self.ask(now, i, work);
        }
        self.procs[p].works_left = self.flushers.len() as u32;
        Some(self.block(now, p, 0, Wait::Works))
    }

    /// A flusher has written what process `p` asked for.
    pub(super) fn work_done(&mut self, now: Instant, p: usize) {
        let proc = &mut self.procs[p];
        proc.works_left -= 1;
        if proc.works_left == 0 && proc.wait == Wait::Works {
            self.wake(now, p);
        }
    }
}
