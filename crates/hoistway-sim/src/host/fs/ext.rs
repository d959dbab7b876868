//! ext3 and ext4: the thread that commits the journal's transactions (specs/host.md 11).
//!
//! The data that must be on disk first (data=ordered) goes first, then one run of metadata blocks, then
//! the commit block, each awaited before the next: a commit block on disk says that all before it is too.

use super::super::bio::{Pending, pieces};
use super::super::cache::PAGE;
use super::super::config::Fs;
use super::super::kernel::Kernel;
use super::super::op::Act;
use super::super::task::{OpStep, Task};
use super::super::wait::Wait;
use super::begin_commit;
use hoistway::{Flags, GroupId, Instant, Op};

/// Flags of the journal's writes (host.md 11).
const JOURNAL_FLAGS: Flags =
    Flags::from_bits(Flags::SYNC.bits() | Flags::META.bits() | Flags::IDLE.bits());

/// How far the thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Commit {
    /// No commit is under way.
    Rest,
    /// What is left of the ordered data: so many of its intervals have been written, then awaited.
    Data(usize),
    /// The block that says where the journal's blocks are is being read.
    Map,
    /// The run of metadata blocks is submitted.
    Run,
    /// It is on disk.
    Seal,
    /// The commit block is submitted.
    Sealed,
}

impl Commit {
    /// What the thread does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        match *self {
            Commit::Rest => self.rest(now, k),
            Commit::Data(at) => self.data(now, task, k, at),
            Commit::Map => match k.wait_for_own(now, task) {
                Some(act) => OpStep::Act(act),
                None => self.run(task, k),
            },
            Commit::Run => {
                *self = Commit::Seal;
                OpStep::wait(k.wait_for_own(now, task))
            }
            Commit::Seal => {
                let order = match (k.config.barriers, k.legacy) {
                    (false, _) => Flags::NONE,
                    (true, false) => Flags::PREFLUSH | Flags::FUA,
                    (true, true) => Flags::BARRIER,
                };
                k.journal.seal();
                push_blocks(task, k, 1, flags(k) | order);
                k.unplug_last(task);
                k.submit(task, false);
                *self = Commit::Sealed;
                OpStep::Again
            }
            Commit::Sealed => {
                if let Some(act) = k.wait_for_own(now, task) {
                    return OpStep::Act(act);
                }
                k.journal.commit_over(now, &mut k.sleepers);
                *self = Commit::Rest;
                self.rest(now, k)
            }
        }
    }

    /// Freezes the running transaction, if it is old enough or wanted.
    fn rest(&mut self, now: Instant, k: &mut Kernel) -> OpStep {
        begin_commit(now, k).unwrap_or_else(|| {
            *self = Commit::Data(0);
            OpStep::Again
        })
    }

    /// Writes interval `at` of the ordered data; behind the last one all of it is awaited.
    fn data(&mut self, now: Instant, task: &mut Task, k: &mut Kernel, at: usize) -> OpStep {
        let t = k.journal.committing();
        let n = t.fresh().len();
        *self = Commit::Data(at + 1);
        if let Some(&(file, a, b)) = t.fresh().get(at) {
            // What is dirty and under write-back at once has been written since its allocation.
            k.gather_idle(now, task, file, a, b, k.sync_flags());
            if at + 1 == n {
                k.unplug_last(task);
            }
            k.submit(task, true);
            return OpStep::Again;
        }
        if let Some(&(file, ..)) = t.fresh().get(at - n) {
            return OpStep::wait(k.wait_for_writes(now, task.p, file));
        }
        if t.awaits_data() {
            *self = Commit::Data(at);
            k.sleepers.block(now, task.p, Wait::Ordered);
            return OpStep::Act(Act::Block);
        }
        if has_map(k) && k.journal.learns_its_map() {
            let start = k.files.journal() - MAP_BEFORE;
            task.submission.push(Pending::own(Op::Read, Flags::META, GroupId::ROOT, start, PAGE));
            task.own.left = 1;
            k.submit(task, false);
            *self = Commit::Map;
            return OpStep::Again;
        }
        self.run(task, k)
    }

    /// Submits descriptor and metadata blocks.
    fn run(&mut self, task: &mut Task, k: &mut Kernel) -> OpStep {
        let blocks = k.journal.committing().run_blocks();
        // The timer's own commits are asynchronous in the legacy layer: nobody waits for them.
        let plain = k.legacy && k.journal.by_age();
        push_blocks(task, k, blocks, if plain { Flags::NONE } else { flags(k) });
        *self = Commit::Run;
        k.submit(task, true);
        OpStep::Again
    }
}

/// A file system from this size on has a journal of 1 GiB (mkfs.ext4 since 2016), whose eight extents do not fit into
/// its inode: a block of their own lists them, directly before the journal.
const MAPPED_FROM: u64 = 128 << 30;
/// From that block to the journal's first.
const MAP_BEFORE: u64 = 2 * PAGE;

fn has_map(k: &Kernel) -> bool {
    k.config.fs == Fs::Ext4 && !k.legacy && k.files.capacity() >= MAPPED_FROM
}

fn flags(k: &Kernel) -> Flags {
    if k.legacy { Flags::SYNC | Flags::NOIDLE } else { JOURNAL_FLAGS }
}

/// A run of blocks at the journal's cursor.
fn push_blocks(task: &mut Task, k: &mut Kernel, blocks: u64, flags: Flags) {
    let journal = k.files.journal();
    for (start, len) in k.journal.append(blocks) {
        for (start, len) in pieces(journal + start, len, k.bio_pages * PAGE) {
            task.submission.push(Pending::own(Op::Write, flags, GroupId::ROOT, start, len));
        }
    }
    task.own.left = task.submission.len() as u32;
}
