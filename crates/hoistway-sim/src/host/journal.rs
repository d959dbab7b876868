//! The journal of ext3 and ext4: transactions and the thread that commits them (specs/host.md 11).
//!
//! Every change of an inode joins the *running* transaction. A commit freezes it: later changes begin a
//! new one. The data that must be on disk first (data=ordered) goes first, then one run of metadata
//! blocks, then the commit block, each awaited before the next. One transaction is committed at a time.

use super::config::{DataMode, Fs};
use super::layout::JOURNAL;
use super::process::{Stage, Wait};
use super::submit::{Kind, Pending};
use super::{Act, Host, PAGE};
use hoistway::{Flags, GroupId, Instant, Nanos, Op, Profile};

/// What has changed about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A time stamp.
    Stamp,
    /// Its length.
    Size,
    /// So many bytes were allocated.
    Mapping(u64),
    /// It was created, unlinked or truncated.
    Name,
}

/// Changes that reach the disk together.
#[derive(Debug)]
pub(super) struct Transaction {
    id: u64,
    /// First change.
    since: Instant,
    names: u64,
    allocated: u64,
    /// Write-back bios of newly allocated blocks that are not served (ext4, data=ordered).
    ordered: u64,
    /// Pages dirtied into newly allocated blocks: file, from, to (ext3, data=ordered).
    fresh: Vec<(u32, u64, u64)>,
}

impl Transaction {
    /// Metadata blocks beside the descriptor (host.md 11, assumed).
    fn metadata(&self) -> u64 {
        4 + self.allocated.div_ceil(128 << 20) + self.names.div_ceil(2)
    }
}

/// The journal's state.
#[derive(Debug, Default)]
pub(super) struct Journal {
    running: Option<Transaction>,
    committing: Option<Transaction>,
    /// Transactions begun so far; the newest has this id.
    begun: u64,
    /// All up to this one are on disk.
    pub done: u64,
    /// A commit of the running transaction is asked for.
    wanted: bool,
    /// The commit under way was begun by age alone.
    by_age: bool,
    /// The commit block of the committing transaction has been sent.
    sealed: bool,
    /// Where the next transaction is written, relative to the journal's start.
    cursor: u64,
    began: Instant,
    /// Processes that wait for a transaction to be on disk.
    waiters: Vec<u32>,
    pub commits: u64,
    pub commit_time: Nanos,
    /// Blocks written, commit blocks included.
    pub blocks: u64,
}

impl Journal {
    /// The transaction to wait for when everything so far is to be on disk.
    pub fn newest(&self) -> Option<u64> {
        let open = self.running.as_ref().or(self.committing.as_ref());
        open.map(|t| t.id)
    }

    /// The commit block of transaction `id`, and with it the flush before it, is already sent.
    pub fn sealed(&self, id: u64) -> bool {
        self.sealed && self.committing.as_ref().is_some_and(|t| t.id == id)
    }
}

/// Blocks of a transaction that start its commit: a quarter of the journal.
const FULL: u64 = JOURNAL / PAGE / 4;
/// Most metadata blocks written by one commit (host.md 11, assumed).
const METADATA_MAX: u64 = 1024;

impl Host {
    /// A file changes: it joins the running transaction, whose id is returned.
    pub(super) fn join(&mut self, now: Instant, file: u32, change: Change) -> u64 {
        let journal = &mut self.log;
        let opens = journal.running.is_none();
        if opens {
            journal.begun += 1;
            journal.running = Some(Transaction {
                id: journal.begun,
                since: now,
                names: 0,
                allocated: 0,
                ordered: 0,
                fresh: Vec::new(),
            });
        }
        let t = journal.running.as_mut().expect("made above");
        let f = &mut self.files[file as usize];
        f.changed = t.id;
        match change {
            Change::Stamp => {}
            Change::Size => f.remapped = t.id,
            Change::Mapping(bytes) => {
                f.remapped = t.id;
                t.allocated += bytes;
            }
            Change::Name => {
                f.remapped = t.id;
                t.names += 1;
            }
        }
        let (id, full) = (t.id, t.metadata() > FULL);
        if full {
            self.ask_commit(now);
        } else if opens && let Some(p) = self.journal_at_rest() {
            self.woken.push((p, now + Nanos::secs(self.config.commit_s)));
        }
        id
    }

    fn journal_at_rest(&self) -> Option<usize> {
        self.journal.filter(|&p| matches!(self.procs[p].stage, Stage::JournalRest))
    }

    /// Asks for the commit of the running transaction, if there is one.
    pub(super) fn ask_commit(&mut self, now: Instant) {
        if self.log.running.is_none() || self.log.wanted {
            return;
        }
        self.log.wanted = true;
        if let Some(p) = self.journal_at_rest() {
            self.woken.push((p, now + Nanos(self.config.wake_ns)));
        }
    }

    /// Process `p` waits until transaction `id` is on disk; its commit is asked for.
    pub(super) fn wait_for_commit(&mut self, now: Instant, p: usize, id: u64) -> Option<Act> {
        if id <= self.log.done {
            return None;
        }
        if self.log.running.as_ref().is_some_and(|t| t.id == id) {
            self.ask_commit(now);
        }
        self.log.waiters.push(p as u32);
        Some(self.block(now, p, 0, Wait::Commit(id)))
    }

    /// Newly allocated blocks are being written back: their transaction waits for it, where data is
    /// ordered. Returns its id, 0 if none does.
    pub(super) fn order(&mut self, id: u64) -> u64 {
        match &mut self.log.running {
            Some(t) if t.id == id && self.config.data_mode == DataMode::Ordered => {
                t.ordered += 1;
                id
            }
            _ => 0,
        }
    }

    /// A write-back bio that transaction `id` waits for has been served.
    pub(super) fn ordered_done(&mut self, now: Instant, id: u64) {
        let journal = &mut self.log;
        let all = [&mut journal.running, &mut journal.committing];
        let Some(t) = all.into_iter().flatten().find(|t| t.id == id) else { return };
        t.ordered -= 1;
        let last = t.ordered == 0;
        if last
            && let Some(p) = self.journal
            && self.procs[p].wait == Wait::Ordered
        {
            self.wake(now, p);
        }
    }

    /// Pages [a, b) of a file were dirtied into blocks allocated just now.
    pub(super) fn dirtied_fresh(&mut self, file: u32, a: u64, b: u64) {
        if self.config.data_mode != DataMode::Ordered {
            return;
        }
        let Some(t) = &mut self.log.running else { return };
        match t.fresh.last_mut() {
            Some((last, _, to)) if *last == file && *to == a => *to = b,
            _ => t.fresh.push((file, a, b)),
        }
    }

    /// The journal's thread.
    pub(super) fn commit(&mut self, now: Instant, p: usize) -> Option<Act> {
        match self.procs[p].stage {
            Stage::JournalRest => self.commit_begins(now, p),
            Stage::JournalOrdered { at } => self.commit_ordered(now, p, at),
            Stage::JournalRun => {
                self.procs[p].stage = Stage::JournalCommit;
                self.wait_for_own(now, p)
            }
            Stage::JournalCommit => {
                let order = match (self.config.barriers, self.legacy()) {
                    (false, _) => Flags::NONE,
                    (true, false) => Flags::PREFLUSH | Flags::FUA,
                    (true, true) => Flags::BARRIER,
                };
                let flags = self.journal_flags() | order;
                self.log.sealed = true;
                self.journal_bios(p, 1, flags);
                self.unplug_last(p);
                self.procs[p].stage = Stage::JournalDone;
                self.submit(p, false);
                None
            }
            Stage::JournalDone => {
                if let Some(act) = self.wait_for_own(now, p) {
                    return Some(act);
                }
                self.commit_over(now);
                self.procs[p].stage = Stage::JournalRest;
                match &self.log.running {
                    Some(_) if self.log.wanted => None,
                    Some(t) => {
                        let due = t.since + Nanos::secs(self.config.commit_s);
                        Some(Act::WaitUntil(due.max(now)))
                    }
                    None => Some(Act::Block),
                }
            }
            _ => unreachable!("asked for these stages only"),
        }
    }

    /// Freezes the running transaction, if it is old enough or wanted.
    fn commit_begins(&mut self, now: Instant, p: usize) -> Option<Act> {
        let Some(t) = self.log.running.take() else { return Some(Act::Block) };
        let due = t.since + Nanos::secs(self.config.commit_s);
        if !self.log.wanted && now < due {
            self.log.running = Some(t);
            return Some(Act::WaitUntil(due));
        }
        self.log.by_age = !self.log.wanted;
        self.log.wanted = false;
        self.log.began = now;
        self.log.committing = Some(t);
        self.procs[p].stage = Stage::JournalOrdered { at: 0 };
        None
    }

    /// Step 2: what is left of the ordered data goes out, interval `at` next; then all of it is awaited.
    fn commit_ordered(&mut self, now: Instant, p: usize, at: usize) -> Option<Act> {
        let t = self.log.committing.as_ref().expect("a commit is under way");
        let n = t.fresh.len();
        if let Some(&(file, a, b)) = t.fresh.get(at) {
            self.procs[p].stage = Stage::JournalOrdered { at: at + 1 };
            let flags = self.sync_flags();
            // What is dirty and under write-back at once has been written since its allocation.
            self.gather_idle(now, p, file, a, b, flags);
            if at + 1 == n {
                self.unplug_last(p);
            }
            self.submit(p, true);
            return None;
        }
        if let Some(&(file, ..)) = t.fresh.get(at.wrapping_sub(n)) {
            self.procs[p].stage = Stage::JournalOrdered { at: at + 1 };
            return self.wait_for_writes(now, p, file);
        }
        if t.ordered > 0 {
            return Some(self.block(now, p, 0, Wait::Ordered));
        }
        // The timer's own commits are asynchronous in the legacy layer.
        let blocks = 1 + t.metadata().min(METADATA_MAX);
        let plain = self.legacy() && self.log.by_age;
        let flags = if plain { Flags::NONE } else { self.journal_flags() };
        self.journal_bios(p, blocks, flags);
        self.procs[p].stage = Stage::JournalRun;
        self.submit(p, true);
        None
    }

    fn commit_over(&mut self, now: Instant) {
        let t = self.log.committing.take().expect("a commit is under way");
        self.log.sealed = false;
        self.log.done = t.id;
        self.log.commits += 1;
        self.log.commit_time += now - self.log.began;
        let waiters = core::mem::take(&mut self.log.waiters);
        for p in waiters {
            match self.procs[p as usize].wait {
                Wait::Commit(id) if id > t.id => self.log.waiters.push(p),
                _ => self.wake(now, p as usize),
            }
        }
    }

    fn legacy(&self) -> bool {
        self.config.block_profile == Profile::Legacy
    }

    fn journal_flags(&self) -> Flags {
        if self.legacy() { Flags::SYNC | Flags::NOIDLE } else { JOURNAL_FLAGS }
    }

    /// A run of blocks at the journal's cursor, in two parts where the journal wraps.
    fn journal_bios(&mut self, p: usize, blocks: u64, flags: Flags) {
        self.log.blocks += blocks;
        let mut left = blocks * PAGE;
        while left > 0 {
            let part = left.min(JOURNAL - self.log.cursor).min(self.bio_pages * PAGE);
            self.procs[p].batch.push(Pending {
                kind: Kind::Own,
                op: Op::Write,
                flags,
                group: GroupId::ROOT,
                file: 0,
                first: 0,
                seq: 0,
                order: 0,
                start: self.layout.journal + self.log.cursor,
                len: part,
            });
            self.log.cursor = (self.log.cursor + part) % JOURNAL;
            left -= part;
        }
        self.procs[p].own_left = self.procs[p].batch.len() as u32;
    }

    /// True where blocks are allocated by the write call, not by write-back.
    pub(super) fn allocates_early(&self) -> bool {
        self.config.fs == Fs::Ext3
    }
}

/// Flags of the journal's writes (host.md 11).
const JOURNAL_FLAGS: Flags =
    Flags::from_bits(Flags::SYNC.bits() | Flags::META.bits() | Flags::IDLE.bits());
