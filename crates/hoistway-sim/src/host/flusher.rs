//! The flusher: the worker that writes dirty pages back (specs/host.md 9.1).
//!
//! It has a list of inodes with dirty pages, oldest first, and three kinds of work, in this order: what
//! somebody asked for (sync, fadvise), the periodic write-back of old pages, and the background
//! write-back while more than a share of memory is dirty. It works in *turns*: one inode, from where the
//! last turn ended, up to a quota of about half a second's worth of pages; what is left waits on a
//! second list until the first is empty. It submits like any process and waits where the block layer
//! makes it wait; nothing else limits write-back.

use super::dirty::{Pace, SHARE_BITS};
use super::process::{Stage, Wait};
use super::submit::{Kind, Pending};
use super::{Act, Host, ProcInfo, Writeback};
use hoistway::list::List;
use hoistway::table::NIL;
use hoistway::{Flags, GroupId, Instant, Nanos, Op, Profile};
use std::collections::VecDeque;

/// Where an inode stands with its flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// Clean.
    No,
    /// On the list of dirty inodes.
    First,
    /// On the list of those with pages left over.
    Again,
    /// In its turn.
    Turn,
}

/// What somebody asked a flusher for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// The dirty pages [from, to) of one file, asynchronously.
    File { file: u32, from: u64, to: u64 },
    /// All inodes dirtied up to then, for the sync() with this number of this process.
    Sync { before: Instant, id: u64, proc: usize },
}

/// What a turn is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Asked,
    Sync,
    Periodic,
    Background,
}

/// One inode being written.
#[derive(Clone, Copy, Debug)]
struct Turn {
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

/// One flusher: of the whole file system, or of one group.
#[derive(Debug)]
pub(super) struct Flusher {
    pub proc: usize,
    pub group: GroupId,
    first: List,
    pub again: List,
    works: VecDeque<Work>,
    /// When it next looks for old pages.
    pub periodic: Option<Instant>,
    /// Looking for old pages is under way.
    pub ageing: bool,
    /// A process waits for memory.
    pub reclaim: bool,
    pub resting: bool,
    turn: Option<Turn>,
    /// Turns in a row that found nothing to write.
    barren: u32,
    pub pace: Pace,
    /// Pages of its inodes that are dirty or under write-back.
    pub held: u64,
    /// Those under write-back.
    pub out: u64,
    /// Its part of recent write-back, in 1/65536.
    pub share: u64,
    /// Pages written since the shares were last computed.
    pub written: u64,
    /// Pages written by cause, for the record.
    pub pages: [u64; 4],
}

/// What a flusher does next.
enum Pick {
    Turn(Turn),
    /// All that is left is under write-back.
    Wait(u32),
    Rest,
}

/// Smallest and largest step of a quota in pages.
const QUOTA_UNIT: u64 = 1024;

/// Pages of one turn (host.md 9.1).
pub(super) fn quota(bw: u64, limit: u64) -> u64 {
    ((bw / 2).min(limit / 8) + QUOTA_UNIT) / QUOTA_UNIT * QUOTA_UNIT
}

impl Flusher {
    /// Number of inodes with dirty pages.
    pub fn inodes(&self) -> u32 {
        self.first.len() + self.again.len()
    }

    /// The first of its list.
    pub fn oldest(&self) -> u32 {
        self.first.head()
    }
}

impl Host {
    /// Adds flushers: the first of all is everything's, any other one `info.group`'s inodes'. They come
    /// behind the journal. In one call, since each has the same share of the device at first: asking
    /// for it one by one would be quadratic in the number of groups.
    pub fn add_flushers(&mut self, infos: impl IntoIterator<Item = ProcInfo>) {
        for info in infos {
            self.add_flusher(info);
        }
        let share = (1 << SHARE_BITS) / self.flushers.len().max(1) as u64;
        self.flushers.iter_mut().for_each(|f| f.share = share);
    }

    fn add_flusher(&mut self, info: ProcInfo) {
        let p = self.add_proc(info, None);
        assert!(self.journal.is_some_and(|j| j < p), "flushers come behind the journal");
        let index = self.flushers.len();
        self.procs[p].stage = Stage::Flusher { index };
        self.flushers.push(Flusher {
            proc: p,
            group: info.group,
            first: List::new(),
            again: List::new(),
            works: VecDeque::new(),
            periodic: None,
            ageing: false,
            reclaim: false,
            resting: true,
            turn: None,
            barren: 0,
            pace: Pace::new(),
            held: 0,
            out: 0,
            share: 0,
            written: 0,
            pages: [0; 4],
        });
        // Ids of groups are dense, so a table by id finds a flusher at once.
        let group = info.group.index();
        if self.flusher_of.len() <= group {
            self.flusher_of.resize(group + 1, None);
        }
        self.flusher_of[group].get_or_insert(index as u32);
    }

    /// The flusher of a group's inodes; the first one where the group has none.
    pub(super) fn flusher_of(&self, group: GroupId) -> u32 {
        self.flusher_of.get(group.index()).copied().flatten().unwrap_or(0)
    }

    /// Wakes a flusher that rests.
    pub(super) fn rouse(&mut self, now: Instant, i: usize) {
        let f = &mut self.flushers[i];
        if f.resting {
            f.resting = false;
            self.woken.push((f.proc, now + Nanos(self.config.wake_ns)));
        }
    }

    /// A writer found too much dirty.
    pub(super) fn ask_background(&mut self, now: Instant, i: usize) {
        let listed = !(self.flushers[i].first.is_empty() && self.flushers[i].again.is_empty());
        if listed && self.dirty > self.thresholds.background {
            self.rouse(now, i);
        }
    }

    /// A process waits for memory: all flushers write, however little is dirty.
    pub(super) fn ask_reclaim(&mut self, now: Instant) {
        for i in 0..self.flushers.len() {
            self.flushers[i].reclaim = true;
            self.rouse(now, i);
        }
    }

    /// Asks for the write-back of a file's dirty pages [from, to).
    pub(super) fn ask_file(&mut self, now: Instant, file: u32, from: u64, to: u64) {
        let f = &self.files[file as usize];
        if f.cache.idle_run(from, to, 1).is_some() {
            let i = f.flusher as usize;
            self.ask(now, i, Work::File { file, from, to });
        }
    }

    pub(super) fn ask(&mut self, now: Instant, i: usize, work: Work) {
        self.flushers[i].works.push_back(work);
        self.rouse(now, i);
    }

    /// A clean inode became dirty: it goes to the end of its flusher's list.
    pub(super) fn list(&mut self, now: Instant, file: u32) {
        let f = &mut self.files[file as usize];
        if f.listed != Listed::No {
            return;
        }
        f.listed = Listed::First;
        let interval = Nanos::ms(10) * self.config.dirty_writeback_centisecs;
        let flusher = &mut self.flushers[f.flusher as usize];
        flusher.first.push_back(&mut self.inode_links, file);
        if flusher.periodic.is_none() {
            let due = now + interval;
            flusher.periodic = Some(due);
            if flusher.resting {
                self.woken.push((flusher.proc, due));
            }
        }
    }

    /// An inode has become clean.
    pub(super) fn unlist(&mut self, file: u32) {
        let f = &mut self.files[file as usize];
        let flusher = &mut self.flushers[f.flusher as usize];
        match f.listed {
            Listed::First => flusher.first.remove(&mut self.inode_links, file),
            Listed::Again => flusher.again.remove(&mut self.inode_links, file),
            Listed::No | Listed::Turn => return,
        }
        f.listed = Listed::No;
    }

    /// What the worker of flusher `i`, process `p`, does next.
    pub(super) fn flush(&mut self, now: Instant, p: usize, i: usize) -> Option<Act> {
        if self.config.writeback_variant == Writeback::Wb30 {
            return self.flush_old(now, p, i);
        }
        if self.flushers[i].turn.is_some() {
            return self.emit(now, p, i);
        }
        self.flushers[i].resting = false;
        match self.pick(now, i) {
            Pick::Turn(turn) => {
                self.begin_turn(turn, i);
                None
            }
            Pick::Wait(file) => {
                self.flushers[i].barren = 0;
                let mark = self.files[file as usize].write_seq;
                Some(self.block(now, p, file, Wait::Writes { mark, left: 1 }))
            }
            Pick::Rest => {
                let f = &mut self.flushers[i];
                f.resting = true;
                f.barren = 0;
                f.reclaim = false;
                Some(f.periodic.map_or(Act::Rest, Act::WaitUntil))
            }
        }
    }

    fn begin_turn(&mut self, turn: Turn, i: usize) {
        self.unlist(turn.file);
        self.files[turn.file as usize].listed = Listed::Turn;
        self.flushers[i].turn = Some(turn);
    }

    /// The next turn: asked for, then periodic, then background.
    fn pick(&mut self, now: Instant, i: usize) -> Pick {
        while let Some(&work) = self.flushers[i].works.front() {
            match work {
                Work::File { file, from, to } => {
                    self.flushers[i].works.pop_front();
                    let end = to.min(self.files[file as usize].cache.pages());
                    return Pick::Turn(Turn { at: from, end, ..self.turn(file, Cause::Asked, i) });
                }
                Work::Sync { before, id, proc } => {
                    let due = |f: &super::File| f.dirtied_at <= before && f.synced < id;
                    if let Some(file) = self.find_listed(i, due) {
                        self.files[file as usize].synced = id;
                        return Pick::Turn(self.turn(file, Cause::Sync, i));
                    }
                    self.flushers[i].works.pop_front();
                    self.work_done(now, proc);
                }
            }
        }
        if let Some(file) = self.aged(now, i) {
            return Pick::Turn(self.turn(file, Cause::Periodic, i));
        }
        self.take_up(i);
        let f = &mut self.flushers[i];
        let file = f.first.head();
        let over = self.dirty > self.thresholds.background || f.reclaim;
        if file == NIL || !over {
            return Pick::Rest;
        }
        if f.barren > f.first.len() + f.again.len() && self.files[file as usize].writing > 0 {
            return Pick::Wait(file);
        }
        Pick::Turn(self.turn(file, Cause::Background, i))
    }

    /// The second list becomes the first when that is empty.
    pub(super) fn take_up(&mut self, i: usize) {
        let f = &mut self.flushers[i];
        if f.first.is_empty() {
            core::mem::swap(&mut f.first, &mut f.again);
            let mut file = f.first.head();
            while file != NIL {
                self.files[file as usize].listed = Listed::First;
                file = self.inode_links.next(file);
            }
        }
    }

    /// An inode that is old enough for the periodic write-back, when that is due.
    fn aged(&mut self, now: Instant, i: usize) -> Option<u32> {
        let f = &mut self.flushers[i];
        let due = f.periodic.is_some_and(|due| due <= now);
        if !due && !f.ageing {
            return None;
        }
        f.ageing = true;
        let expire = Nanos::ms(10) * self.config.dirty_expire_centisecs;
        if let Some(file) = self.find_listed(i, |f| f.dirtied_at + expire <= now) {
            return Some(file);
        }
        let f = &mut self.flushers[i];
        f.ageing = false;
        let listed = !(f.first.is_empty() && f.again.is_empty());
        let interval = Nanos::ms(10) * self.config.dirty_writeback_centisecs;
        f.periodic = listed.then_some(now + interval);
        None
    }

    /// The first inode of flusher `i` with dirty pages that fits.
    pub(super) fn find_listed(&self, i: usize, fits: impl Fn(&super::File) -> bool) -> Option<u32> {
        for list in [self.flushers[i].first, self.flushers[i].again] {
            let mut file = list.head();
            while file != NIL {
                if fits(&self.files[file as usize]) {
                    return Some(file);
                }
                file = self.inode_links.next(file);
            }
        }
        None
    }

    fn turn(&self, file: u32, cause: Cause, i: usize) -> Turn {
        let f = &self.files[file as usize];
        let (at, wrap) = match cause {
            Cause::Asked | Cause::Sync => (0, None),
            _ => (f.cursor, Some(f.cursor)),
        };
        let left = match cause {
            Cause::Asked | Cause::Sync => u64::MAX,
            _ => quota(self.flushers[i].pace.bw, self.thresholds.limit),
        };
        Turn { file, cause, left, done: 0, at, end: f.cache.pages(), wrap, open: false }
    }

    /// The turn's next bio, or its end.
    fn emit(&mut self, now: Instant, p: usize, i: usize) -> Option<Act> {
        let mut turn = self.flushers[i].turn.expect("asked during a turn");
        if !turn.open && self.config.block_profile == Profile::MultiQueue {
            self.flushers[i].turn = Some(Turn { open: true, ..turn });
            return Some(Act::Plug);
        }
        if turn.cause == Cause::Sync
            && let Some(act) = self.wait_for_busy(now, p, i, turn)
        {
            return Some(act);
        }
        let f = &mut self.files[turn.file as usize];
        let limit = self.bio_pages.min(turn.left);
        let run = loop {
            if limit == 0 {
                break None;
            }
            match f.cache.idle_run(turn.at, turn.end, limit) {
                Some(run) => break Some(run),
                None => match turn.wrap.take() {
                    Some(wrap) => (turn.at, turn.end) = (0, wrap),
                    None => break None,
                },
            }
        };
        let Some((a, b)) = run else {
            return self.end_turn(now, i, turn);
        };
        turn.at = b;
        turn.left = turn.left.saturating_sub(b - a);
        turn.done += b - a;
        self.flushers[i].pages[turn.cause as usize] += b - a;
        self.flushers[i].turn = Some(turn);
        let flusher = &mut self.flushers[i];
        if flusher.out == 0 {
            flusher.pace.restart(now);
        }
        let flags = match turn.cause {
            Cause::Asked => Flags::NONE,
            Cause::Sync => Flags::SYNC,
            Cause::Periodic | Cause::Background => Flags::BACKGROUND,
        };
        let group = flusher.group;
        let bio = self.write_bio(now, turn.file, a, b, flags, group);
        self.procs[p].batch.push(bio);
        self.submit(p, false);
        None
    }

    /// The next dirty page of a turn that leaves none out is under write-back: the plug is emptied and
    /// that write awaited.
    fn wait_for_busy(&mut self, now: Instant, p: usize, i: usize, turn: Turn) -> Option<Act> {
        let cache = &self.files[turn.file as usize].cache;
        let (at, _) = cache.dirty_run(turn.at, turn.end, 1)?;
        if !cache.is(at, |w| w.out) {
            return None;
        }
        self.flushers[i].turn = Some(Turn { at, open: false, ..turn });
        // With the section closed the wait comes at the next question.
        self.procs[p].stage = Stage::FlusherWaits { index: i, file: turn.file };
        turn.open.then_some(Act::Unplug).or_else(|| self.flusher_waits(now, p, i, turn.file))
    }

    pub(super) fn flusher_waits(
        &mut self,
        now: Instant,
        p: usize,
        index: usize,
        file: u32,
    ) -> Option<Act> {
        self.procs[p].stage = Stage::Flusher { index };
        self.wait_for_writes(now, p, file)
    }

    fn end_turn(&mut self, now: Instant, i: usize, turn: Turn) -> Option<Act> {
        let f = &mut self.files[turn.file as usize];
        let flusher = &mut self.flushers[i];
        flusher.turn = None;
        flusher.reclaim &= turn.cause != Cause::Background;
        flusher.barren = if turn.done > 0 { 0 } else { flusher.barren + 1 };
        if matches!(turn.cause, Cause::Periodic | Cause::Background) {
            f.cursor = if turn.at >= f.cache.pages() { 0 } else { turn.at };
        }
        f.listed = Listed::No;
        self.round_over(now, turn.file);
        let f = &mut self.files[turn.file as usize];
        if f.cache.dirty > 0 {
            if turn.left == 0 {
                f.listed = Listed::Again;
                let flusher = &mut self.flushers[f.flusher as usize];
                flusher.again.push_back(&mut self.inode_links, turn.file);
            } else {
                // Deviation: what is dirty behind a turn that came to its end was dirtied during it, or
                // is under write-back. It counts as dirtied now: else the periodic work of an inode that
                // is always being written would never end.
                f.dirtied_at = now;
                self.list(now, turn.file);
            }
        }
        turn.open.then_some(Act::Unplug)
    }

    /// Pages [a, b) go under write-back; the bio that writes them.
    pub(super) fn write_bio(
        &mut self,
        now: Instant,
        file: u32,
        a: u64,
        b: u64,
        flags: Flags,
        group: GroupId,
    ) -> Pending {
        if self.flushers.len() > 1 {
            self.count_owners(file, a, b);
        }
        let order = match self.allocate(now, file, a, b) {
            Some(id) => self.order(id),
            None => 0,
        };
        let f = &mut self.files[file as usize];
        f.cache.start_write(a, b);
        f.out += b - a;
        f.writing += 1;
        f.write_seq += 1;
        self.flushers[f.flusher as usize].out += b - a;
        self.dirty -= b - a;
        self.out += b - a;
        Pending {
            kind: Kind::Write,
            op: Op::Write,
            flags,
            group,
            file,
            first: a,
            seq: f.write_seq,
            order,
            start: f.start + a * super::PAGE,
            len: (b - a) * super::PAGE,
        }
    }

    /// A write-back bio of [a, b) has been served.
    pub(super) fn written(&mut self, now: Instant, file: u32, a: u64, b: u64) {
        let f = &mut self.files[file as usize];
        f.cache.end_write(a, b);
        f.writing -= 1;
        f.out -= b - a;
        self.out -= b - a;
        let i = f.flusher as usize;
        let flusher = &mut self.flushers[i];
        flusher.held -= b - a;
        flusher.out -= b - a;
        flusher.written += b - a;
        flusher.pace.written(b - a);
        self.update_pace(now, i);
    }
}
