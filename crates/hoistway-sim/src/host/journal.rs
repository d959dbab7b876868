//! Transactions: which changes of a file system reach the disk together (specs/host.md 11).
//!
//! Every change of an inode joins the *running* transaction. A commit freezes it: later changes begin a
//! new one. One transaction is committed at a time, by the thread of the file system ([`super::fs`]): ext3 and
//! ext4 write it to their journal, btrfs its trees, nilfs2 its log. That many callers who sync
//! at once share one commit is the point of it: the cost of a commit is its flushes, hardly its blocks.
//!
//! Source: S. Tweedie, "Journaling the Linux ext2fs Filesystem", 1998; specs/host.md 11.

use super::cache::PAGE;
use super::config::{DataMode, Fs, HostConfig};
use super::file::File;
use super::kernel::TICK;
use super::layout::JOURNAL;
use super::wait::{Sleepers, Wait};
use hoistway::{Instant, Nanos};

/// What has changed about an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InodeChange {
    /// A time stamp.
    Stamp,
    /// Its length.
    Size,
    /// So many bytes were allocated.
    Mapping(u64),
    /// Blocks were replaced by new ones, which begin so many extents (copy-on-write).
    Extents(u64),
    /// It was created, unlinked or truncated.
    Name,
}

/// Changes that reach the disk together.
#[derive(Debug)]
pub(super) struct Transaction {
    id: u64,
    /// First change.
    since: Instant,
    /// From then on whoever changes an inode has it committed at once.
    old_from: Instant,
    /// Inodes that changed.
    inodes: u64,
    names: u64,
    allocated: u64,
    /// Extents that are new.
    extents: u64,
    /// Write-back bios of newly allocated blocks that are not served (ext4, data=ordered).
    ordered: u64,
    /// Pages dirtied into newly allocated blocks: file, from, to (ext3, data=ordered).
    fresh: Vec<(u32, u64, u64)>,
}

impl Transaction {
    /// Metadata blocks beside the descriptor (host.md 11). A change of a time stamp or of a length stays in the
    /// table of inodes, whose blocks hold 16; what is allocated or created changes bitmaps and a group descriptor.
    fn metadata(&self) -> u64 {
        let bitmaps = self.allocated.div_ceil(GROUP);
        let extents = u64::from(self.allocated > EXTENTS_IN_INODE * GROUP);
        let names = if self.names > 0 { 1 + self.names.div_ceil(2) } else { 0 };
        let descriptor = u64::from(bitmaps + names > 0);
        self.inodes.div_ceil(INODES_IN_BLOCK) + bitmaps + extents + names + descriptor
    }

    /// Blocks written in one run before the commit block.
    pub fn run_blocks(&self) -> u64 {
        1 + self.metadata().min(METADATA_MAX)
    }

    /// Nodes of a commit of trees (host.md 14, assumed): their roots and what leads to them, and one leaf
    /// for each 50 extents and for each name.
    pub fn nodes(&self) -> u64 {
        8 + self.extents.div_ceil(50) + self.names
    }

    /// Files created, unlinked or truncated.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Pages that the commit itself has to write first: file, from, to.
    pub fn fresh(&self) -> &[(u32, u64, u64)] {
        &self.fresh
    }

    /// Data that the flushers write is still on its way.
    pub fn awaits_data(&self) -> bool {
        self.ordered > 0
    }
}

/// Inodes of 256 bytes in a block.
const INODES_IN_BLOCK: u64 = 16;
/// What one bitmap of blocks covers, and the longest extent.
const GROUP: u64 = 128 << 20;
/// Extents that need no block of their own.
const EXTENTS_IN_INODE: u64 = 4;
/// Blocks of a transaction that start its commit: a quarter of the journal, so that there is room for the
/// next one while this one is not yet in its place.
const FULL: u64 = JOURNAL / PAGE / 4;
/// Timers of jbd2 run out at multiples of this.
const SECOND: Nanos = Nanos::secs(1);
/// Most metadata blocks written by one commit (host.md 11, assumed).
const METADATA_MAX: u64 = 1024;

/// The journal's state.
#[derive(Debug)]
pub(super) struct Journal {
    /// The thread's process, and whether it has nothing to do.
    thread: Option<usize>,
    pub resting: bool,
    /// data=ordered: a commit must not make blocks reachable whose data is not on disk, or a crash shows
    /// what somebody else had deleted from them.
    ordered: bool,
    /// Age at which a transaction is committed.
    age: Nanos,
    /// Its timer runs out at a whole second of the clock, so that the timers of a machine wake it together.
    rounded: bool,
    running: Option<Transaction>,
    committing: Option<Transaction>,
    /// Transactions begun so far; the newest has this id.
    begun: u64,
    /// All up to this one are on disk.
    done: u64,
    /// A commit of the running transaction is asked for.
    wanted: bool,
    /// The commit under way was begun by age alone.
    by_age: bool,
    /// The commit block of the committing transaction has been sent.
    sealed: bool,
    /// Where its blocks are is in memory.
    mapped: bool,
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
    /// An empty journal.
    pub fn new(config: &HostConfig) -> Journal {
        Journal {
            thread: None,
            resting: true,
            // btrfs has no other mode.
            ordered: config.data_mode == DataMode::Ordered || config.fs == Fs::Btrfs,
            age: Nanos::secs(config.commit_s()),
            rounded: config.commit_rounded(),
            running: None,
            committing: None,
            begun: 0,
            done: 0,
            wanted: false,
            by_age: false,
            sealed: false,
            mapped: config.journal_mapped,
            cursor: 0,
            began: Instant::ZERO,
            waiters: Vec::new(),
            commits: 0,
            commit_time: Nanos::ZERO,
            blocks: 0,
        }
    }

    /// Process `p` is the thread that commits.
    pub fn set_thread(&mut self, p: usize) {
        self.thread = Some(p);
    }

    /// The process of the thread.
    pub fn thread(&self) -> Option<usize> {
        self.thread
    }

    fn at_rest(&self) -> Option<usize> {
        self.thread.filter(|_| self.resting)
    }

    /// The transaction to wait for when everything so far is to be on disk.
    pub fn newest(&self) -> Option<u64> {
        let open = self.running.as_ref().or(self.committing.as_ref());
        open.map(|t| t.id)
    }

    /// All transactions up to this one are on disk.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The commit block of transaction `id`, and with it the flush before it, is already sent.
    pub fn sealed(&self, id: u64) -> bool {
        self.sealed && self.committing.as_ref().is_some_and(|t| t.id == id)
    }

    /// A time stamp of an inode adds nothing: it has joined the running transaction, which is not old.
    #[inline]
    pub fn has_joined(&self, now: Instant, f: &File) -> bool {
        self.running.as_ref().is_some_and(|t| f.changed == t.id && now < t.old_from)
    }

    /// An inode changes: it joins the running transaction, whose id is returned.
    pub fn join(
        &mut self,
        now: Instant,
        f: &mut File,
        change: InodeChange,
        sleepers: &mut Sleepers,
    ) -> u64 {
        let opens = self.running.is_none();
        if opens {
            self.begun += 1;
        }
        let old_from = self.old_from(now);
        let t = self.running.get_or_insert_with(|| Transaction {
            id: self.begun,
            since: now,
            old_from,
            inodes: 0,
            names: 0,
            allocated: 0,
            extents: 0,
            ordered: 0,
            fresh: Vec::new(),
        });
        t.inodes += u64::from(f.changed != t.id);
        f.changed = t.id;
        match change {
            InodeChange::Stamp => {}
            InodeChange::Size => f.remapped = t.id,
            InodeChange::Mapping(bytes) => {
                f.remapped = t.id;
                t.allocated += bytes;
            }
            InodeChange::Extents(n) => {
                f.remapped = t.id;
                t.extents += n;
            }
            InodeChange::Name => {
                f.remapped = t.id;
                t.names += 1;
            }
        }
        let id = t.id;
        if t.metadata() > FULL || now >= t.old_from {
            self.ask_commit(now, sleepers);
        } else if opens && let Some(p) = self.at_rest() {
            sleepers.call_at(p, self.expiry(now));
        }
        id
    }

    /// Asks for the commit of the running transaction, if there is one.
    pub fn ask_commit(&mut self, now: Instant, sleepers: &mut Sleepers) {
        if self.running.is_none() || self.wanted {
            return;
        }
        self.wanted = true;
        if let Some(p) = self.at_rest() {
            sleepers.rouse(now, p);
        }
    }

    /// The thread has something to do beside transactions.
    pub fn rouse(&mut self, now: Instant, sleepers: &mut Sleepers) {
        if let Some(p) = self.at_rest() {
            self.resting = false;
            sleepers.rouse(now, p);
        }
    }

    /// Somebody waits for a transaction.
    pub fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Process `p` waits until transaction `id` is on disk, and its commit is asked for; false if it is.
    pub fn wait_for(&mut self, now: Instant, p: usize, id: u64, sleepers: &mut Sleepers) -> bool {
        if id <= self.done {
            return false;
        }
        if self.running.as_ref().is_some_and(|t| t.id == id) {
            self.ask_commit(now, sleepers);
        }
        self.waiters.push(p as u32);
        sleepers.block(now, p, Wait::Commit(id));
        true
    }

    /// Newly allocated blocks are being written back: their transaction waits for it, where data is
    /// ordered. Returns its id, 0 if none does.
    pub fn order(&mut self, id: u64) -> u64 {
        match &mut self.running {
            Some(t) if t.id == id && self.ordered => {
                t.ordered += 1;
                id
            }
            _ => 0,
        }
    }

    /// A write-back bio that transaction `id` waits for has been served.
    pub fn ordered_done(&mut self, now: Instant, id: u64, sleepers: &mut Sleepers) {
        let all = [&mut self.running, &mut self.committing];
        let Some(t) = all.into_iter().flatten().find(|t| t.id == id) else { return };
        t.ordered -= 1;
        if t.ordered == 0
            && let Some(p) = self.thread
            && sleepers.wait(p) == Wait::Ordered
        {
            sleepers.wake(now, p);
        }
    }

    /// Pages [a, b) of a file were dirtied into blocks allocated just now.
    pub fn dirtied_fresh(&mut self, file: u32, a: u64, b: u64) {
        if !self.ordered {
            return;
        }
        let Some(t) = &mut self.running else { return };
        match t.fresh.last_mut() {
            Some((last, _, to)) if *last == file && *to == a => *to = b,
            _ => t.fresh.push((file, a, b)),
        }
    }

    /// When the running transaction is to be committed: now, if that is wanted, else by its age; `None`
    /// if there is nothing to commit.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let t = self.running.as_ref()?;
        Some(if self.wanted { now } else { self.expiry(t.since) })
    }

    /// When a transaction is committed by its age whose first change came at `since`. A second that is whole already is
    /// rounded up, too, as jbd2 does: the age is over 5 to 6 s after the change, never after exactly 5.
    fn expiry(&self, since: Instant) -> Instant {
        let due = since + self.age;
        match self.rounded {
            true => due + (SECOND - Nanos(due.as_nanos() % SECOND.0)),
            false => due,
        }
    }

    /// Whoever changes an inode so long after a transaction's first change, at `since`, has it committed at once, where
    /// timers are rounded. Ages are counted in ticks, as all timers of a kernel are.
    fn old_from(&self, since: Instant) -> Instant {
        match self.rounded {
            true => Instant::from_nanos((since + self.age).as_nanos() / TICK.0 * TICK.0),
            false => Instant::from_nanos(u64::MAX),
        }
    }

    /// The running transaction is frozen: its commit begins.
    pub fn freeze(&mut self, now: Instant) {
        self.committing = self.running.take();
        self.by_age = !self.wanted;
        self.wanted = false;
        self.began = now;
        self.resting = false;
    }

    /// Where the journal's blocks are is not in memory; from now on it is.
    pub fn learns_its_map(&mut self) -> bool {
        !core::mem::replace(&mut self.mapped, true)
    }

    /// Cached metadata is dropped.
    pub fn forget_map(&mut self) {
        self.mapped = false;
    }

    /// The transaction being committed.
    pub fn committing(&self) -> &Transaction {
        self.committing.as_ref().expect("a commit is under way")
    }

    /// Nobody waits for the commit under way: its timer began it.
    pub fn by_age(&self) -> bool {
        self.by_age
    }

    /// The commit block is sent.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// The place of the next `blocks` blocks relative to the journal's start, in two parts where the
    /// journal wraps: first byte and length.
    pub fn append(&mut self, blocks: u64) -> [(u64, u64); 2] {
        self.blocks += blocks;
        let len = blocks * PAGE;
        let first = len.min(JOURNAL - self.cursor);
        let parts = [(self.cursor, first), (0, len - first)];
        self.cursor = (self.cursor + len) % JOURNAL;
        parts
    }

    /// The committing transaction is on disk: who waits for it goes on.
    pub fn commit_over(&mut self, now: Instant, sleepers: &mut Sleepers) {
        let t = self.committing.take().expect("a commit is under way");
        self.sealed = false;
        self.done = t.id;
        self.commits += 1;
        self.commit_time += now - self.began;
        self.resting = true;
        let waiters = core::mem::take(&mut self.waiters);
        for p in waiters {
            match sleepers.wait(p as usize) {
                Wait::Commit(id) if id > t.id => self.waiters.push(p),
                _ => sleepers.wake(now, p as usize),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::file::Files;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Nanos::ms(ms)
    }

    /// A journal, its thread (process 0) and two others, and a file.
    fn journal() -> (Journal, Sleepers, Files) {
        let config = HostConfig::profile("2019").unwrap();
        let mut sleepers = Sleepers::new(Nanos::us(1));
        (0..3).for_each(|_| sleepers.add());
        let mut journal = Journal::new(&config);
        journal.set_thread(0);
        let mut files = Files::new(&config, 1 << 40, 0.0, 1, None);
        files.place(PAGE).unwrap();
        (journal, sleepers, files)
    }

    #[test]
    fn a_commit_by_age_waits_for_a_whole_second_on_ext4() {
        let due = |set: &[(&str, toml::Value)], first: u64| {
            let (_, mut s, mut files) = journal();
            let mut config = HostConfig::profile("2019").unwrap();
            set.iter().for_each(|(name, value)| config.set(name, value).unwrap());
            let mut j = Journal::new(&config);
            j.set_thread(0);
            j.join(at(first), &mut files[0], InodeChange::Stamp, &mut s);
            let due = j.due(at(first));
            assert_eq!(s.take_woken(), due.map(|due| (0, due)));
            due
        };
        assert_eq!(due(&[], 1), Some(at(6000)));
        assert_eq!(due(&[], 999), Some(at(6000)));
        assert_eq!(due(&[], 1000), Some(at(7000)), "never exactly its age");
        assert_eq!(due(&[("commit_s", 1.into())], 300), Some(at(2000)));
        assert_eq!(due(&[("commit_rounded", false.into())], 300), Some(at(5300)));
        for fs in ["ext3", "btrfs"] {
            let set = [("fs", fs.into()), ("commit_s", 5.into())];
            assert_eq!(due(&set, 300), Some(at(5300)), "{fs}");
        }
    }

    #[test]
    fn who_changes_an_inode_of_an_old_transaction_has_it_committed_at_once() {
        let (mut j, mut s, mut files) = journal();
        let change = |j: &mut Journal, s: &mut Sleepers, files: &mut Files, now: Instant| {
            j.join(now, &mut files[0], InodeChange::Stamp, s);
            (j.due(now), s.take_woken())
        };
        let timer = Some(at(6000));
        assert_eq!(change(&mut j, &mut s, &mut files, at(2)), (timer, Some((0, at(6000)))));
        // Ages are counted in ticks of 4 ms: begun in the first one, it is old from the tick at 5 s on.
        assert_eq!(change(&mut j, &mut s, &mut files, at(4999)), (timer, None));
        let now = at(5000);
        let roused = Some((0, now + Nanos::us(1)));
        assert_eq!(change(&mut j, &mut s, &mut files, now), (Some(now), roused));
        // Once is enough.
        assert_eq!(change(&mut j, &mut s, &mut files, at(5001)), (Some(at(5001)), None));
        j.freeze(now);
        assert!(!j.by_age());
    }

    #[test]
    fn without_rounding_the_timer_alone_commits_by_age() {
        let (_, mut s, mut files) = journal();
        let mut config = HostConfig::profile("2019").unwrap();
        config.set("commit_rounded", &false.into()).unwrap();
        let mut j = Journal::new(&config);
        j.set_thread(0);
        j.join(at(0), &mut files[0], InodeChange::Stamp, &mut s);
        assert_eq!(s.take_woken(), Some((0, at(5000))));
        j.join(at(5000), &mut files[0], InodeChange::Stamp, &mut s);
        assert_eq!((j.due(at(5000)), s.take_woken()), (Some(at(5000)), None));
        j.freeze(at(5000));
        assert!(j.by_age());
    }

    #[test]
    fn changes_share_a_transaction_until_it_is_frozen() {
        let (mut j, mut s, mut files) = journal();
        let f = &mut files[0];
        assert_eq!(j.join(at(0), f, InodeChange::Stamp, &mut s), 1);
        assert_eq!((f.changed, f.remapped), (1, 0));
        // The first change sets the timer.
        assert_eq!((s.take_woken(), s.take_woken()), (Some((0, at(6000))), None));
        assert_eq!(j.join(at(1), f, InodeChange::Size, &mut s), 1);
        assert_eq!((f.remapped, j.due(at(1))), (1, Some(at(6000))));
        assert!(j.wait_for(at(2), 1, 1, &mut s));
        assert_eq!((j.due(at(2)), s.take_woken()), (Some(at(2)), Some((0, at(2) + Nanos::us(1)))));
        j.freeze(at(2));
        assert!(!j.by_age());
        assert_eq!(j.join(at(3), f, InodeChange::Name, &mut s), 2);
        assert!(j.wait_for(at(3), 2, 2, &mut s));
        j.commit_over(at(4), &mut s);
        // Process 1's transaction is on disk, process 2's is not, and is wanted.
        assert_eq!((s.wait(1), s.wait(2)), (Wait::None, Wait::Commit(2)));
        assert_eq!((j.done(), j.newest(), j.due(at(4))), (1, Some(2), Some(at(4))));
        assert!(!j.wait_for(at(4), 1, 1, &mut s));
    }

    #[test]
    fn a_commit_holds_the_blocks_that_changed() {
        // Its run, the descriptor included, after so many files changed so.
        let run = |files: usize, changes: &[InodeChange]| {
            let (mut j, mut s, mut all) = journal();
            (1..files).for_each(|_| assert!(all.place(PAGE).is_ok()));
            for f in 0..files {
                for &change in changes {
                    j.join(at(0), &mut all[f as u32], change, &mut s);
                }
            }
            j.freeze(at(1));
            j.committing().run_blocks()
        };
        let (stamp, name) = (InodeChange::Stamp, InodeChange::Name);
        let mapping = |mib: u64| InodeChange::Mapping(mib << 20);
        // As Linux 6.1 writes them: overwrites, the first fsync of a new file, a new file of 18 groups.
        assert_eq!((run(1, &[stamp; 3]), run(7, &[stamp]), run(16, &[stamp])), (2, 2, 2));
        assert_eq!((run(17, &[stamp]), run(1, &[InodeChange::Size])), (3, 2));
        assert_eq!(run(1, &[name, mapping(1)]), 6);
        assert_eq!(run(1, &[name, mapping(18 * 128)]), 24);
        // An extent of its own for each 128 MiB, and four of them fit into the inode.
        assert_eq!((run(1, &[mapping(512)]), run(1, &[mapping(513)])), (7, 9));
        assert_eq!(run(3000, &[name]), 1 + METADATA_MAX);
    }

    #[test]
    fn ordered_data_is_counted_for_its_own_transaction() {
        let (mut j, mut s, mut files) = journal();
        let id = j.join(at(0), &mut files[0], InodeChange::Mapping(PAGE), &mut s);
        assert_eq!((j.order(id), j.order(id + 1)), (id, 0));
        j.freeze(at(1));
        assert!(j.committing().awaits_data());
        s.block(at(1), 0, Wait::Ordered);
        j.ordered_done(at(2), id, &mut s);
        assert_eq!((s.wait(0), j.committing().awaits_data()), (Wait::None, false));
    }

    #[test]
    fn blocks_are_written_around_the_journal() {
        let (mut j, _, _) = journal();
        let blocks = JOURNAL / PAGE - 3;
        assert_eq!(j.append(blocks), [(0, blocks * PAGE), (0, 0)]);
        assert_eq!(j.append(5), [(blocks * PAGE, 3 * PAGE), (0, 2 * PAGE)]);
        assert_eq!(j.append(1), [(2 * PAGE, PAGE), (0, 0)]);
        assert_eq!(j.blocks, blocks + 6);
    }

    #[test]
    fn neighbouring_fresh_pages_are_one_interval() {
        let (mut j, mut s, mut files) = journal();
        j.join(at(0), &mut files[0], InodeChange::Mapping(PAGE), &mut s);
        j.dirtied_fresh(0, 0, 5);
        j.dirtied_fresh(0, 5, 7);
        j.dirtied_fresh(0, 9, 10);
        j.freeze(at(1));
        assert_eq!(j.committing().fresh(), [(0, 0, 7), (0, 9, 10)]);
    }
}
