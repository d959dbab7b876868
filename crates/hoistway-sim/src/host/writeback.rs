//! Dirty pages: how many there are, whose inodes hold them, which flusher writes them, and what a writer
//! is told when there are too many (specs/host.md 8, 9 and 13).
//!
//! Each flusher has a list of inodes with dirty pages, oldest first, and a second one of those with pages
//! left over from a turn, which is taken up when the first is empty: one large file must not keep all
//! others from the disk.

use super::balance::{Dirtier, EVERY_ABOVE, FlusherPace, SHARE_BITS, Thresholds, UPDATE, Verdict};
use super::config::{HostConfig, Writeback as Variant};
use super::file::{File, Files, Listed};
use super::op::ProcInfo;
use super::wait::Sleepers;
use super::wb30::Old;
use hoistway::list::{Links, List};
use hoistway::table::NIL;
use hoistway::{GroupId, Instant, Nanos};
use std::collections::VecDeque;

/// What a sync() asks a flusher for: all inodes dirtied up to then.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyncWork {
    pub before: Instant,
    /// Number of the sync(), and its process.
    pub id: u64,
    pub proc: usize,
}

/// One flusher: of the whole file system, or of one group.
#[derive(Debug)]
pub(super) struct Flusher {
    pub proc: usize,
    pub group: GroupId,
    first: List,
    again: List,
    pub works: VecDeque<SyncWork>,
    /// When it next looks for old pages.
    periodic: Option<Instant>,
    /// Looking for old pages is under way.
    ageing: bool,
    /// A process waits for memory.
    pub reclaim: bool,
    resting: bool,
    pub pace: FlusherPace,
    /// Pages of its inodes that are dirty or under write-back.
    pub held: u64,
    /// Those under write-back.
    pub out: u64,
    /// Its part of recent write-back, in 1/65536.
    share: u64,
    /// Pages written since the shares were last computed.
    written: u64,
}

impl Flusher {
    fn new(proc: usize, group: GroupId) -> Flusher {
        Flusher {
            proc,
            group,
            first: List::new(),
            again: List::new(),
            works: VecDeque::new(),
            periodic: None,
            ageing: false,
            reclaim: false,
            resting: true,
            pace: FlusherPace::new(),
            held: 0,
            out: 0,
            share: 0,
            written: 0,
        }
    }

    /// Number of inodes with dirty pages.
    pub fn inodes(&self) -> u32 {
        self.first.len() + self.again.len()
    }

    /// Number of those whose turn comes before that of any left over.
    pub fn in_turn(&self) -> u32 {
        self.first.len()
    }

    /// The first of its list.
    pub fn oldest(&self) -> u32 {
        self.first.head()
    }

    /// It has begun to work.
    pub fn works_on(&mut self) {
        self.resting = false;
    }

    /// It has nothing to do; when it next has to look for old pages.
    pub fn rest(&mut self) -> Option<Instant> {
        self.resting = true;
        self.reclaim = false;
        self.periodic
    }

    /// True while it has to look for old pages: since its timer has run out, until none is left.
    pub fn looks_for_old(&mut self, now: Instant) -> bool {
        self.ageing |= self.periodic.is_some_and(|due| due <= now);
        self.ageing
    }

    /// No page is old any more; it looks again after `interval`, if it has any inode.
    pub fn none_is_old(&mut self, now: Instant, interval: Nanos) {
        self.ageing = false;
        self.periodic = (self.inodes() > 0).then_some(now + interval);
    }

    /// The old flusher's pass is over. Its timer goes on only from where it had run out.
    pub fn pass_over(&mut self, now: Instant, interval: Nanos) {
        self.ageing = false;
        if self.periodic.is_some_and(|due| due <= now) {
            self.periodic = (self.inodes() > 0).then_some(now + interval);
        }
    }
}

/// All write-back of the host.
#[derive(Debug)]
pub(super) struct WritebackState {
    pub thresholds: Thresholds,
    /// Dirty pages, and pages under write-back.
    pub dirty: u64,
    pub out: u64,
    pub flushers: Vec<Flusher>,
    /// By group: its flusher.
    by_group: Vec<Option<u32>>,
    /// When the flushers' shares were computed last.
    shares_at: Instant,
    /// Places of the files in the flushers' lists.
    links: Links,
    /// Between two looks for old pages, and the age at which a page is old.
    pub interval: Nanos,
    pub expire: Nanos,
    /// The writers' own write-back of 2.6.30, where that rules.
    pub old: Option<Old>,
    pub dirty_max: u64,
    pub held_max: u64,
    pub owner_changes: u64,
    pub pauses: u64,
    pub pause_time: Nanos,
}

impl WritebackState {
    /// Nothing is dirty of `dirtyable` pages of memory.
    pub fn new(config: &HostConfig, dirtyable: u64) -> WritebackState {
        let centisecs = |n: u64| Nanos::ms(10) * n;
        WritebackState {
            thresholds: Thresholds::new(dirtyable, config),
            dirty: 0,
            out: 0,
            flushers: Vec::new(),
            by_group: Vec::new(),
            shares_at: Instant::ZERO,
            links: Links::new(0),
            interval: centisecs(config.dirty_writeback_centisecs),
            expire: centisecs(config.dirty_expire_centisecs),
            old: (config.writeback_variant == Variant::Wb30)
                .then(|| Old::new(config.ram, config.cpus)),
            dirty_max: 0,
            held_max: 0,
            owner_changes: 0,
            pauses: 0,
            pause_time: Nanos::ZERO,
        }
    }

    /// There are so many files.
    pub fn make_room(&mut self, files: u32) {
        self.links.grow(files as usize);
    }

    /// Adds a flusher, process `p`: the first is everything's, any other one `info.group`'s inodes'.
    pub fn add_flusher(&mut self, p: usize, info: &ProcInfo) -> usize {
        let index = self.flushers.len();
        self.flushers.push(Flusher::new(p, info.group));
        // Ids of groups are dense, so a table by id finds a flusher at once.
        let group = info.group.index();
        if self.by_group.len() <= group {
            self.by_group.resize(group + 1, None);
        }
        self.by_group[group].get_or_insert(index as u32);
        index
    }

    /// All flushers have the same share of the device.
    pub fn share_alike(&mut self) {
        let share = (1 << SHARE_BITS) / self.flushers.len().max(1) as u64;
        self.flushers.iter_mut().for_each(|f| f.share = share);
    }

    /// The flusher of a group's inodes; the first one where the group has none.
    fn flusher_of(&self, group: GroupId) -> u32 {
        self.by_group.get(group.index()).copied().flatten().unwrap_or(0)
    }

    /// Pages dirty or under write-back.
    pub fn held(&self) -> u64 {
        self.dirty + self.out
    }

    // What becomes dirty, and clean.

    /// `fresh` pages of an inode became dirty.
    pub fn dirtied(&mut self, f: &File, fresh: u64) {
        let flusher = &mut self.flushers[f.flusher as usize];
        flusher.held += fresh;
        flusher.pace.dirtied(fresh);
        self.dirty += fresh;
        self.dirty_max = self.dirty_max.max(self.dirty);
        self.held_max = self.held_max.max(self.held());
    }

    /// Dirty pages of an inode are clean without having been written.
    pub fn discarded(&mut self, f: &File, pages: u64) {
        self.dirty -= pages;
        self.flushers[f.flusher as usize].held -= pages;
    }

    /// Dirty pages of an inode go to the device.
    pub fn sent(&mut self, f: &mut File, pages: u64) {
        f.out += pages;
        f.writing += 1;
        f.write_seq += 1;
        self.flushers[f.flusher as usize].out += pages;
        self.dirty -= pages;
        self.out += pages;
    }

    /// A write-back bio of an inode has been served.
    pub fn written(&mut self, now: Instant, f: &mut File, pages: u64) {
        f.writing -= 1;
        f.out -= pages;
        self.out -= pages;
        let i = f.flusher as usize;
        let flusher = &mut self.flushers[i];
        flusher.held -= pages;
        flusher.out -= pages;
        flusher.written += pages;
        flusher.pace.written(pages);
        self.update_pace(now, i);
    }

    // The flushers' lists.

    /// A clean inode became dirty: it goes to the end of its flusher's list.
    pub fn list(&mut self, now: Instant, file: u32, files: &mut Files, sleepers: &mut Sleepers) {
        let f = &mut files[file];
        if f.listed != Listed::No {
            return;
        }
        f.listed = Listed::First;
        let flusher = &mut self.flushers[f.flusher as usize];
        flusher.first.push_back(&mut self.links, file);
        if flusher.periodic.is_none() {
            let due = now + self.interval;
            flusher.periodic = Some(due);
            if flusher.resting {
                sleepers.call_at(flusher.proc, due);
            }
        }
    }

    /// An inode has become clean, or is taken off for a turn.
    pub fn unlist(&mut self, file: u32, f: &mut File) {
        let flusher = &mut self.flushers[f.flusher as usize];
        match f.listed {
            Listed::First => flusher.first.remove(&mut self.links, file),
            Listed::Again => flusher.again.remove(&mut self.links, file),
            Listed::No | Listed::Turn => return,
        }
        f.listed = Listed::No;
    }

    /// An inode with pages left over waits until the others have had their turn.
    pub fn postpone(&mut self, file: u32, f: &mut File) {
        self.unlist(file, f);
        f.listed = Listed::Again;
        self.flushers[f.flusher as usize].again.push_back(&mut self.links, file);
    }

    /// The second list of flusher `i` becomes the first when that is empty.
    pub fn take_up(&mut self, i: usize, files: &mut Files) {
        let f = &mut self.flushers[i];
        if f.first.is_empty() {
            core::mem::swap(&mut f.first, &mut f.again);
            let mut file = f.first.head();
            while file != NIL {
                files[file].listed = Listed::First;
                file = self.links.next(file);
            }
        }
    }

    /// The first inode of flusher `i` with dirty pages that fits.
    pub fn find_listed(
        &self,
        i: usize,
        files: &Files,
        fits: impl Fn(&File) -> bool,
    ) -> Option<u32> {
        for list in [self.flushers[i].first, self.flushers[i].again] {
            let mut file = list.head();
            while file != NIL {
                if fits(&files[file]) {
                    return Some(file);
                }
                file = self.links.next(file);
            }
        }
        None
    }

    /// The inode becomes `group`'s, with all `dirty` pages and those under write-back.
    pub fn hand_over(
        &mut self,
        now: Instant,
        file: u32,
        group: GroupId,
        dirty: u64,
        files: &mut Files,
        sleepers: &mut Sleepers,
    ) {
        let f = &mut files[file];
        let was = f.listed;
        self.unlist(file, f);
        let to = self.flusher_of(group);
        let held = dirty + f.out;
        let old = &mut self.flushers[f.flusher as usize];
        old.held -= held;
        old.out -= f.out;
        let new = &mut self.flushers[to as usize];
        new.held += held;
        new.out += f.out;
        f.owner = Some(group);
        f.flusher = to;
        if matches!(was, Listed::First | Listed::Again) {
            self.list(now, file, files, sleepers);
        }
    }

    // Asking the flushers.

    /// Wakes flusher `i` if it rests.
    pub fn rouse(&mut self, now: Instant, i: usize, sleepers: &mut Sleepers) {
        let f = &mut self.flushers[i];
        if f.resting {
            f.resting = false;
            sleepers.rouse(now, f.proc);
        }
    }

    /// Asks flusher `i` for work.
    pub fn ask(&mut self, now: Instant, i: usize, work: SyncWork, sleepers: &mut Sleepers) {
        self.flushers[i].works.push_back(work);
        self.rouse(now, i, sleepers);
    }

    /// A process waits for memory: all flushers write, however little is dirty.
    pub fn ask_reclaim(&mut self, now: Instant, sleepers: &mut Sleepers) {
        for i in 0..self.flushers.len() {
            self.flushers[i].reclaim = true;
            self.rouse(now, i, sleepers);
        }
    }

    /// More is dirty than the background level, or of flusher `i` than its part of it: a flusher that is held up goes
    /// on below the level, since others have less than their parts (host.md 9.1).
    pub fn over_background(&self, i: usize) -> bool {
        let f = &self.flushers[i];
        let background = self.thresholds.background;
        self.dirty > background || f.held - f.out > (background * f.share) >> SHARE_BITS
    }

    /// A writer found too much dirty.
    fn ask_background(&mut self, now: Instant, i: usize, sleepers: &mut Sleepers) {
        let f = &self.flushers[i];
        if f.resting && f.inodes() > 0 && self.over_background(i) {
            self.rouse(now, i, sleepers);
        }
    }

    // Throttling.

    /// Pages that process `p` may dirty until it is checked.
    pub fn room(&self, p: usize, dirtier: &Dirtier) -> u64 {
        match &self.old {
            Some(old) => old.room(p),
            None if self.held() > self.thresholds.limit => {
                EVERY_ABOVE.saturating_sub(dirtier.dirtied)
            }
            None => dirtier.every.saturating_sub(dirtier.dirtied),
        }
    }

    /// Process `p`, which has just dirtied pages, is to be checked.
    pub fn due(&self, p: usize, dirtier: &Dirtier) -> bool {
        if self.old.is_some() { dirtier.due } else { self.room(p, dirtier) == 0 }
    }

    /// The check of a writer that has dirtied pages of an inode of flusher `i` (host.md 8.1).
    #[inline(always)] // Of each step of each writer that is slowed.
    pub fn throttle(
        &mut self,
        now: Instant,
        dirtier: &mut Dirtier,
        i: usize,
        sleepers: &mut Sleepers,
    ) -> Verdict {
        let held = self.held();
        let Thresholds { background, limit, freerun, .. } = self.thresholds;
        if self.dirty > background || held > freerun {
            self.ask_background(now, i, sleepers);
        }
        if held <= freerun {
            // The root of the distance: as many writers as that may each use up their pages between two
            // checks, and the limit still holds.
            let every = 1 << ((limit - held).ilog2() / 2);
            *dirtier = Dirtier { dirtied: 0, since: now, every, due: false };
            return Verdict::Go;
        }
        self.update_pace(now, i);
        let position = self.position(i);
        let f = &self.flushers[i];
        let verdict = dirtier.check(now, &f.pace, position, f.held);
        if let Verdict::Pause { length, .. } = verdict {
            self.pauses += 1;
            self.pause_time += length;
        }
        verdict
    }

    /// The position factor of flusher `i` in 1/1024: of all held pages, and where there are several
    /// flushers the smaller of that and the one of its own pages beside its share. Else a group that
    /// writes to a slow corner of the device could fill the memory of all.
    fn position(&self, i: usize) -> u64 {
        let all = self.thresholds.position(self.held());
        if self.flushers.len() == 1 {
            return all;
        }
        let f = &self.flushers[i];
        all.min(self.thresholds.scaled(f.share).position(f.held))
    }

    /// The estimates of flusher `i` and the shares of all, where due.
    #[inline]
    fn update_pace(&mut self, now: Instant, i: usize) {
        if self.flushers[i].pace.due(now) || now.since(self.shares_at) >= UPDATE {
            self.update_due(now, i);
        }
    }

    #[inline(never)]
    fn update_due(&mut self, now: Instant, i: usize) {
        if self.flushers[i].pace.due(now) {
            let position = self.position(i);
            let below = self.held() < self.thresholds.setpoint;
            self.flushers[i].pace.update(now, position, below);
        }
        if now.since(self.shares_at) < UPDATE {
            return;
        }
        self.shares_at = now;
        let all: u64 = self.flushers.iter().map(|f| f.written).sum();
        if all == 0 {
            return;
        }
        // Half of an equal share at least, so that whoever has written nothing so far may begin.
        let least = (1 << SHARE_BITS) / (2 * self.flushers.len() as u64);
        for f in &mut self.flushers {
            let now = (f.written << SHARE_BITS) / all;
            f.share = (f.share * 7 / 8 + now / 8).max(least);
            f.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::{IoPrio, ProcId};

    /// Two flushers, of the root and of group 1, and three files.
    fn writeback() -> (WritebackState, Files, Sleepers) {
        let config = HostConfig::profile("2019").unwrap();
        let mut w = WritebackState::new(&config, 100_000);
        let mut files = Files::new(&config, 1 << 40, 0.0, 1, None);
        let mut sleepers = Sleepers::new(Nanos::us(1));
        for _ in 0..3 {
            files.place(4096 * 100).unwrap();
            sleepers.add();
        }
        w.make_room(3);
        for (p, group) in [(0, GroupId::ROOT), (1, GroupId(1))] {
            let prio = IoPrio::be(4);
            assert_eq!(w.add_flusher(p, &ProcInfo { id: ProcId(9), group, prio, cpu: 0 }), p);
        }
        w.share_alike();
        (w, files, sleepers)
    }

    #[test]
    fn inodes_wait_in_order_and_leftovers_behind_them() {
        let (mut w, mut files, mut s) = writeback();
        let now = Instant::ZERO + Nanos::secs(1);
        for file in [2, 0, 1] {
            w.list(now, file, &mut files, &mut s);
        }
        // The flusher rests: the first inode set its timer.
        assert_eq!((s.take_woken(), s.take_woken()), (Some((0, now + Nanos::secs(5))), None));
        assert_eq!((w.flushers[0].oldest(), w.flushers[0].inodes()), (2, 3));
        w.postpone(2, &mut files[2]);
        assert_eq!(w.find_listed(0, &files, |_| true), Some(0));
        w.unlist(0, &mut files[0]);
        w.unlist(1, &mut files[1]);
        assert_eq!((w.flushers[0].oldest(), files[2].listed), (NIL, Listed::Again));
        w.take_up(0, &mut files);
        assert_eq!((w.flushers[0].oldest(), files[2].listed), (2, Listed::First));
    }

    #[test]
    fn an_inode_changes_flusher_with_all_its_pages() {
        let (mut w, mut files, mut s) = writeback();
        w.dirtied(&files[0], 10);
        w.list(Instant::ZERO, 0, &mut files, &mut s);
        w.sent(&mut files[0], 4);
        assert_eq!((w.dirty, w.out, w.held(), w.dirty_max), (6, 4, 10, 10));
        w.hand_over(Instant::ZERO, 0, GroupId(1), 6, &mut files, &mut s);
        let held = |i: usize| (w.flushers[i].held, w.flushers[i].out, w.flushers[i].inodes());
        assert_eq!((held(0), held(1)), ((0, 0, 0), (10, 4, 1)));
        // A group without a flusher uses the root's.
        w.hand_over(Instant::ZERO, 0, GroupId(7), 6, &mut files, &mut s);
        assert_eq!((w.flushers[0].held, files[0].owner), (10, Some(GroupId(7))));
        w.written(Instant::ZERO, &mut files[0], 4);
        w.discarded(&files[0], 6);
        assert_eq!((w.held(), w.flushers[0].held, files[0].writing), (0, 0, 0));
    }
}
