//! The journal's thread: periodic commits of what changed (specs/host.md 11).

use super::layout::JOURNAL;
use super::process::Stage;
use super::submit::{Kind, Pending};
use super::{Act, Host, PAGE};
use hoistway::{Flags, GroupId, Instant, Nanos, Op, Profile};

impl Host {
    /// An inode changes: it joins the running transaction, which is committed when it is old enough.
    pub(super) fn change(&mut self, now: Instant) {
        if self.running.is_some() {
            return;
        }
        self.running = Some(now);
        if let Some(journal) = self.journal
            && matches!(self.procs[journal].stage, Stage::JournalRest)
        {
            self.woken.push((journal, now + Nanos::secs(self.config.commit_s)));
        }
    }

    /// The journal's thread: a commit when the running transaction is old enough (host.md 11).
    pub(super) fn commit(&mut self, now: Instant, p: usize) -> Option<Act> {
        let legacy = self.config.block_profile == Profile::Legacy;
        let flags = if legacy { Flags::SYNC | Flags::NOIDLE } else { JOURNAL_FLAGS };
        match self.procs[p].stage {
            Stage::JournalRest => {
                assert!(self.running.take().is_some(), "the journal is woken by a change");
                self.commit_began = now;
                // Freeze; nothing is ordered before it, since no blocks are allocated. The timer's own
                // commits are asynchronous in the legacy layer.
                let flags = if legacy { Flags::NONE } else { flags };
                self.journal_bios(p, (1 + METADATA_BLOCKS) * PAGE, flags);
                self.procs[p].stage = Stage::JournalRun;
                self.submit(p, true);
                None
            }
            Stage::JournalRun => {
                self.procs[p].stage = Stage::JournalCommit;
                self.wait_for_own(now, p)
            }
            Stage::JournalCommit => {
                let order = match (self.config.barriers, legacy) {
                    (false, _) => Flags::NONE,
                    (true, false) => Flags::PREFLUSH | Flags::FUA,
                    (true, true) => Flags::BARRIER,
                };
                self.journal_bios(p, PAGE, flags | order);
                self.unplug_last(p);
                self.procs[p].stage = Stage::JournalDone;
                self.submit(p, false);
                None
            }
            Stage::JournalDone => {
                if let Some(act) = self.wait_for_own(now, p) {
                    return Some(act);
                }
                self.counts.commits += 1;
                self.counts.commit_time += now - self.commit_began;
                self.procs[p].stage = Stage::JournalRest;
                match self.running {
                    Some(since) => {
                        let due = since + Nanos::secs(self.config.commit_s);
                        Some(Act::WaitUntil(due.max(now)))
                    }
                    None => Some(Act::Block),
                }
            }
            _ => unreachable!("asked for these stages only"),
        }
    }

    /// A run at the journal's cursor, in two parts where the journal wraps.
    fn journal_bios(&mut self, p: usize, len: u64, flags: Flags) {
        let mut left = len;
        while left > 0 {
            let part = left.min(JOURNAL - self.journal_cursor);
            self.procs[p].batch.push(Pending {
                kind: Kind::Own,
                op: Op::Write,
                flags,
                group: GroupId::ROOT,
                file: 0,
                first: 0,
                seq: 0,
                start: self.layout.journal + self.journal_cursor,
                len: part,
            });
            self.journal_cursor = (self.journal_cursor + part) % JOURNAL;
            left -= part;
        }
        self.procs[p].own_left = self.procs[p].batch.len() as u32;
    }
}

/// Metadata blocks of a transaction that changes only inodes (host.md 11).
const METADATA_BLOCKS: u64 = 4;
/// Flags of the journal's writes (host.md 11).
const JOURNAL_FLAGS: Flags =
    Flags::from_bits(Flags::SYNC.bits() | Flags::META.bits() | Flags::IDLE.bits());
