//! btrfs in the form that its I/O takes: copy-on-write of data and trees (specs/host.md 14).
//!
//! Nothing is overwritten. Data goes to the next free run behind an allocation cursor that moves upwards
//! through the device, so writes in any order leave as sequential ones, and a file overwritten at random
//! is read back in pieces. The blocks it held before become free with the next commit of the trees: until
//! then what a crash would bring back still refers to them.
//!
//! ```text
//! fsync    data, wait; nodes of the log tree, wait; superblock (pre-flush, FUA), wait
//! commit   every 30 s: the transaction's data under way, wait; nodes of the trees, wait; superblocks, wait
//! ```
//!
//! The log tree is why an fsync does not commit everything: it holds what changed of the synced files alone.
//! One log is written at a time, and who comes meanwhile shares the next one. An overwrite has no fast path:
//! its blocks are new, so that even fdatasync writes log and superblock.
//!
//! Weaknesses of the model: nodes have no content and no place in a tree, their number follows from what
//! changed; reading a file costs no node; checksums cost time only.
//!
//! Source: O. Rodeh, J. Bacik, C. Mason, "BTRFS: The Linux B-Tree Filesystem", ACM TOS 9(3), 2013;
//! specs/host.md 14.

use super::super::bio::{Pending, pieces};
use super::super::cache::PAGE;
use super::super::file::{File, Files};
use super::super::kernel::Kernel;
use super::super::layout::JOURNAL;
use super::super::op::Act;
use super::super::task::{OpStep, Task};
use super::super::wait::Wait;
use super::begin_commit;
use hoistway::{Flags, GroupId, Instant, Op};
use std::collections::BTreeMap;

/// Bytes of a node.
const NODE: u64 = 16 << 10;
/// Distance of the two copies of the trees on a rotating disk (host.md 14).
pub(in super::super) const COPY: u64 = 1 << 30;
/// Places of the superblock and of its copy.
const SUPERBLOCKS: [u64; 2] = [64 << 10, 64 << 20];
/// Most nodes that one commit writes, so that it fits into their area twice [assumed].
const NODES_MAX: u64 = JOURNAL / NODE / 2;

/// Free runs of the device, and where the next data goes.
#[derive(Debug, Default)]
struct Free {
    /// First byte, byte behind the last.
    runs: BTreeMap<u64, u64>,
    cursor: u64,
}

impl Free {
    /// Takes at most `most` bytes of the next free run; `None` if there is none on the whole device.
    fn take(&mut self, most: u64) -> Option<(u64, u64)> {
        let around = self.runs.range(..=self.cursor).next_back().filter(|run| *run.1 > self.cursor);
        let next = around.or_else(|| self.runs.range(self.cursor..).next());
        let (start, end) = next.or_else(|| self.runs.iter().next()).map(|run| (*run.0, *run.1))?;
        // Where the search has begun anew, the run lies wholly before the cursor.
        let from = if start < self.cursor && self.cursor < end { self.cursor } else { start };
        let to = end.min(from + most);
        self.runs.remove(&start);
        if start < from {
            self.runs.insert(start, from);
        }
        if to < end {
            self.runs.insert(to, end);
        }
        self.cursor = to;
        Some((from, to - from))
    }

    /// A run is free again.
    fn give(&mut self, mut start: u64, mut end: u64) {
        if let Some((&a, &b)) = self.runs.range(..=start).next_back()
            && b == start
        {
            self.runs.remove(&a);
            start = a;
        }
        if let Some(b) = self.runs.remove(&end) {
            end = b;
        }
        self.runs.insert(start, end);
    }

    /// A run is in use.
    fn reserve(&mut self, start: u64, end: u64) {
        let touched: Vec<(u64, u64)> = self
            .runs
            .range(..end)
            .rev()
            .take_while(|run| *run.1 > start)
            .map(|run| (*run.0, *run.1))
            .collect();
        for (a, b) in touched {
            self.runs.remove(&a);
            if a < start {
                self.runs.insert(a, start);
            }
            if b > end {
                self.runs.insert(end, b);
            }
        }
    }
}

/// Who writes the log tree and who waits for it.
#[derive(Debug, Default)]
struct Logs {
    /// A log is being written, or its writer has been woken to do so.
    busy: bool,
    leader: Option<usize>,
    /// Who shares the one being written.
    sharing: Vec<u32>,
    /// Who came meanwhile.
    late: Vec<u32>,
    /// Changed extents that the next one holds.
    extents: u64,
}

/// What btrfs remembers.
#[derive(Debug)]
pub(in super::super) struct Btrfs {
    /// Trees are written twice.
    twice: bool,
    /// Made when the first data is placed, since files are laid out until then.
    free: Option<Free>,
    /// Runs given up in the running and in the committing transaction.
    freed: Vec<(u64, u64)>,
    freeing: Vec<(u64, u64)>,
    /// Where the next nodes go, relative to their area.
    nodes_at: u64,
    log: Logs,
    /// Log trees written, and blocks of 4 KiB in them, superblocks included.
    pub logs: u64,
    pub log_blocks: u64,
}

/// Where data was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Placed {
    pub start: u64,
    pub pages: u64,
    /// It does not continue the extent of the page before it.
    pub extent: bool,
}

impl Btrfs {
    /// Of a new file system.
    pub fn new(rotational: bool) -> Btrfs {
        Btrfs {
            twice: rotational,
            free: None,
            freed: Vec::new(),
            freeing: Vec::new(),
            nodes_at: 0,
            log: Logs::default(),
            logs: 0,
            log_blocks: 0,
        }
    }

    /// All that no file and no tree occupies; the cursor behind the files that were laid out.
    fn survey(files: &Files) -> Free {
        let (begin, next) = files.area();
        let mut free = Free { runs: BTreeMap::new(), cursor: next };
        free.give(begin, files.capacity() / PAGE * PAGE);
        for &(start, len) in files.reserved() {
            free.reserve(start, start + len);
        }
        SUPERBLOCKS.into_iter().for_each(|at| free.reserve(at, at + PAGE));
        for f in files.iter().filter(|f| !f.raw) {
            for (start, len) in f.runs(0, f.pages()) {
                free.reserve(start, start + len);
            }
        }
        free
    }

    /// Pages [a, b) of a file get new blocks, as many of them as the next free run holds; `None` if the
    /// device is full.
    pub fn place(&mut self, files: &mut Files, file: u32, a: u64, b: u64) -> Option<Placed> {
        let free = self.free.get_or_insert_with(|| Btrfs::survey(files));
        let (start, len) = free.take((b - a) * PAGE)?;
        let pages = len / PAGE;
        let f = &mut files[file];
        self.freed.extend(f.runs(a, a + pages));
        let extent = a == 0 || !f.blocks.has(a - 1) || f.place(a - 1) + PAGE != start;
        f.relocate(a, a + pages, start);
        Some(Placed { start, pages, extent })
    }

    /// The blocks of all pages of a file are given up.
    pub fn emptied(&mut self, f: &File) {
        self.freed.extend(f.runs(0, f.pages()));
    }

    /// All but so many bytes is in use.
    #[cfg(test)]
    pub fn leave_free(&mut self, bytes: u64) {
        let free = self.free.as_mut().expect("data has been placed");
        free.runs = BTreeMap::from([(free.cursor, free.cursor + bytes)]);
    }

    /// What has been given up so far is free when the commit that begins now is over.
    fn freeze(&mut self) {
        self.freeing.append(&mut self.freed);
    }

    fn commit_over(&mut self) {
        if let Some(free) = &mut self.free {
            self.freeing.drain(..).for_each(|(start, len)| free.give(start, start + len));
        }
    }

    /// The place of the next nodes in their area.
    fn next_nodes(&mut self, nodes: u64) -> (u64, u64) {
        let len = nodes * NODE;
        if self.nodes_at + len > JOURNAL {
            self.nodes_at = 0;
        }
        let at = self.nodes_at;
        self.nodes_at += len;
        (at, len)
    }
}

fn btrfs(k: &mut Kernel) -> &mut Btrfs {
    match &mut k.fs {
        super::FileSystem::Btrfs(fs) => fs,
        _ => unreachable!("asked on btrfs only"),
    }
}

fn flags(k: &Kernel) -> Flags {
    if k.legacy { Flags::SYNC | Flags::NOIDLE } else { Flags::SYNC | Flags::META }
}

/// Nodes at their cursor, one copy or two.
fn push_nodes(task: &mut Task, k: &mut Kernel, nodes: u64, group: GroupId) {
    let (flags, areas) = (flags(k), k.files.reserved().to_vec());
    let fs = btrfs(k);
    let (at, len) = fs.next_nodes(nodes);
    let copies = if fs.twice { areas.len() } else { 1 };
    for (area, _) in &areas[..copies] {
        for (start, len) in pieces(area + at, len, k.bio_pages * PAGE) {
            task.submission.push(Pending::own(Op::Write, flags, group, start, len));
        }
    }
    task.own.left = task.submission.len() as u32;
    k.unplug_last(task);
    k.submit(task, true);
}

/// The superblock; what was written before it is on disk before it is. With `copy` its copy too.
fn push_superblock(task: &mut Task, k: &Kernel, copy: bool, group: GroupId) {
    let order = match (k.config.barriers, k.legacy) {
        (false, _) => Flags::NONE,
        (true, false) => Flags::PREFLUSH | Flags::FUA,
        (true, true) => Flags::BARRIER,
    };
    let [first, second] = SUPERBLOCKS;
    let flags = flags(k);
    task.submission.push(Pending::own(Op::Write, flags | order, group, first, PAGE));
    if copy && second + PAGE <= k.files.capacity() {
        task.submission.push(Pending::own(Op::Write, flags, group, second, PAGE));
    }
    task.own.left = task.submission.len() as u32;
    k.unplug_last(task);
    k.submit(task, false);
}

/// How far the commit of the trees is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum TreeCommit {
    /// None is under way.
    Rest,
    /// The transaction's data that is under way.
    Data,
    /// The nodes are submitted.
    Nodes,
    /// They are on disk.
    Super,
    /// The superblocks are submitted.
    Sealed,
}

impl TreeCommit {
    /// What the thread does next.
    pub fn step(&mut self, now: Instant, task: &mut Task, k: &mut Kernel) -> OpStep {
        match *self {
            TreeCommit::Rest => match begin_commit(now, k) {
                Some(step) => step,
                None => {
                    btrfs(k).freeze();
                    *self = TreeCommit::Data;
                    OpStep::Again
                }
            },
            TreeCommit::Data if k.journal.committing().awaits_data() => {
                k.sleepers.block(now, task.p, Wait::Ordered);
                OpStep::Act(Act::Block)
            }
            TreeCommit::Data => {
                let nodes = k.journal.committing().nodes().min(NODES_MAX);
                k.journal.blocks += nodes * NODE / PAGE;
                push_nodes(task, k, nodes, GroupId::ROOT);
                *self = TreeCommit::Nodes;
                OpStep::Again
            }
            TreeCommit::Nodes => {
                *self = TreeCommit::Super;
                OpStep::wait(k.wait_for_own(now, task))
            }
            TreeCommit::Super => {
                k.journal.blocks += SUPERBLOCKS.len() as u64;
                push_superblock(task, k, true, GroupId::ROOT);
                *self = TreeCommit::Sealed;
                OpStep::Again
            }
            TreeCommit::Sealed => {
                if let Some(act) = k.wait_for_own(now, task) {
                    return OpStep::Act(act);
                }
                btrfs(k).commit_over();
                k.journal.commit_over(now, &mut k.sleepers);
                *self = TreeCommit::Rest;
                OpStep::Again
            }
        }
    }
}

/// How far the log of an fsync is, whose data is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum TreeLog {
    Ask,
    /// It waits for somebody else's log.
    Late,
    Write,
    /// The nodes are submitted.
    Nodes,
    /// They are on disk.
    Super,
    /// The superblock is submitted.
    Sealed,
}

impl TreeLog {
    /// What the caller of an fsync of `file` does next; `None` once the file is in a log on disk.
    pub fn step(
        &mut self,
        now: Instant,
        task: &mut Task,
        k: &mut Kernel,
        file: u32,
    ) -> Option<OpStep> {
        match *self {
            TreeLog::Ask => {
                let extents = core::mem::take(&mut k.files[file].unlogged);
                let log = &mut btrfs(k).log;
                log.extents += extents;
                if core::mem::replace(&mut log.busy, true) {
                    log.late.push(task.p as u32);
                    *self = TreeLog::Late;
                    k.sleepers.block(now, task.p, Wait::Log(0));
                    return Some(OpStep::Act(Act::Block));
                }
                log.leader = Some(task.p);
                *self = TreeLog::Write;
            }
            TreeLog::Late if btrfs(k).log.leader == Some(task.p) => *self = TreeLog::Write,
            TreeLog::Late => return None,
            TreeLog::Write => {
                let fs = btrfs(k);
                let nodes = 2 + core::mem::take(&mut fs.log.extents).div_ceil(100);
                let nodes = nodes.min(NODES_MAX);
                fs.logs += 1;
                fs.log_blocks += nodes * NODE / PAGE + 1;
                push_nodes(task, k, nodes, task.info.group);
                *self = TreeLog::Nodes;
            }
            TreeLog::Nodes => {
                *self = TreeLog::Super;
                return Some(OpStep::wait(k.wait_for_own(now, task)));
            }
            TreeLog::Super => {
                push_superblock(task, k, false, task.info.group);
                *self = TreeLog::Sealed;
            }
            TreeLog::Sealed => {
                if let Some(act) = k.wait_for_own(now, task) {
                    return Some(OpStep::Act(act));
                }
                log_over(now, k);
                return None;
            }
        }
        Some(OpStep::Again)
    }
}

/// A log is on disk: who shared it goes on, and the first of those who came meanwhile writes the next.
fn log_over(now: Instant, k: &mut Kernel) {
    let log = &mut btrfs(k).log;
    let shared = core::mem::take(&mut log.sharing);
    log.sharing = core::mem::take(&mut log.late);
    log.busy = !log.sharing.is_empty();
    log.leader = log.busy.then(|| log.sharing.remove(0) as usize);
    let leader = log.leader;
    for p in shared {
        k.sleepers.wake(now, p as usize);
    }
    if let Some(p) = leader {
        k.sleepers.wake(now, p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_takes_the_next_free_run_and_begins_anew_at_the_end() {
        let mut free = Free { runs: BTreeMap::new(), cursor: 40 };
        free.give(0, 100);
        free.reserve(50, 60);
        assert_eq!(free.take(100), Some((40, 10)), "up to what is in use");
        assert_eq!((free.take(15), free.take(100)), (Some((60, 15)), Some((75, 25))));
        assert_eq!(free.take(30), Some((0, 30)), "from the beginning");
        // Given back behind the cursor it is not used before the cursor comes round.
        free.give(40, 50);
        free.give(10, 20);
        assert_eq!((free.take(5), free.take(100)), (Some((30, 5)), Some((35, 15))));
        assert_eq!((free.take(100), free.take(1)), (Some((10, 10)), None));
    }

    #[test]
    fn neighbouring_free_runs_are_one() {
        let mut free = Free::default();
        free.give(10, 20);
        free.give(30, 40);
        free.give(20, 30);
        assert_eq!(free.runs.into_iter().collect::<Vec<_>>(), [(10, 40)]);
        let mut free = Free::default();
        free.give(0, 100);
        for (a, b) in [(10, 20), (30, 40)] {
            free.reserve(a, b);
        }
        free.reserve(15, 35);
        assert_eq!(free.runs.into_iter().collect::<Vec<_>>(), [(0, 10), (40, 100)]);
    }
}
