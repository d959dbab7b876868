//! The files of the host: where they lie, which of their blocks exist, and their inodes (specs/host.md 3
//! and 7).
//!
//! A file has its place reserved when it is declared, and a block's place in it follows from its page:
//! files that grow at the same time do not interleave. Where the file system moves blocks ([`super::fs`]), a
//! map says where each page lies. Which blocks are allocated is a bit per page, kept
//! for files that have holes only.

use super::cache::PAGE;
use super::config::HostConfig;
use super::layout::Layout;
use super::op::FileId;
use super::owner::Ballot;
use hoistway::{GroupId, Instant};
use hoistway_run::JobError;

/// Largest device that raw loads may use: its map takes 4 bytes for every MiB, here 64 MB.
const RAW_MOST: u64 = 1 << 44;

/// Which blocks of a file exist.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockMap {
    /// A bit per page; empty while the file has never had a hole.
    bits: Vec<u64>,
    holes: u64,
}

impl BlockMap {
    /// Some page has no block.
    #[cfg(test)]
    pub fn has_holes(&self) -> bool {
        self.holes > 0
    }

    /// None of the file's `pages` has a block any more.
    pub fn clear(&mut self, pages: u64) {
        self.bits.clear();
        self.bits.resize(pages.div_ceil(64) as usize, 0);
        self.holes = pages;
    }

    /// True when page `p` has a block.
    pub fn has(&self, p: u64) -> bool {
        self.holes == 0 || self.bits[(p / 64) as usize] >> (p % 64) & 1 == 1
    }

    /// The end of the run of pages from `a` on that have blocks, or have none, as `a`; at most `b`.
    pub fn run_end(&self, a: u64, b: u64) -> u64 {
        if self.holes == 0 {
            return b;
        }
        let kind = self.has(a);
        (a + 1..b).find(|&p| self.has(p) != kind).unwrap_or(b)
    }

    /// Pages [a, b) get blocks; returns how many had none.
    pub fn allocate(&mut self, a: u64, b: u64) -> u64 {
        if self.holes == 0 {
            return 0;
        }
        let mut fresh = 0;
        let mut at = a;
        while at < b {
            let end = b.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
            let word = &mut self.bits[(at / 64) as usize];
            fresh += u64::from((mask & !*word).count_ones());
            *word |= mask;
            at = end;
        }
        self.holes -= fresh;
        fresh
    }
}

/// Processes that wait for something of a file, in the order in which they came. Mostly there is one, for which no
/// other memory is looked at.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    first: Option<u32>,
    /// All others; without the first those that came before it has gone.
    rest: Vec<u32>,
}

impl Waiters {
    /// One more.
    pub fn push(&mut self, p: u32) {
        match self.first {
            None if self.rest.is_empty() => self.first = Some(p),
            _ => self.rest.push(p),
        }
    }

    /// Takes out those of whom `ends` says that their wait is over; `woken` is told of each.
    #[inline]
    pub fn wake<C>(
        &mut self,
        context: &mut C,
        ends: impl Fn(&mut C, u32) -> bool,
        woken: impl Fn(&mut C, u32),
    ) {
        if let Some(p) = self.first
            && ends(context, p)
        {
            self.first = None;
            woken(context, p);
        }
        let mut i = 0;
        while let Some(&p) = self.rest.get(i) {
            if ends(context, p) {
                self.rest.remove(i);
                woken(context, p);
            } else {
                i += 1;
            }
        }
    }
}

/// Where an inode stands with its flusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// Clean.
    No,
    /// On the list of dirty inodes.
    First,
    /// On the list of those with pages left over.
    Again,
    /// Being written by the flusher.
    Turn,
}

/// One file, and its inode.
#[derive(Debug)]
#[repr(C)] // What readers touch comes first, in two lines of the cache.
pub(super) struct File {
    /// Place on the device in bytes.
    pub start: u64,
    pub bytes: u64,
    /// Device page of each page that has a block, once a file system has moved one; empty while the file
    /// is contiguous from `start` on.
    map: Vec<u64>,
    pub blocks: BlockMap,
    /// Processes that wait for its pages or write-back.
    pub waiters: Waiters,
    /// The device itself, which belongs to no file system.
    pub raw: bool,
    /// Where it stands with its flusher.
    pub listed: Listed,
    pub flusher: u32,
    /// The group that dirtied it first.
    pub owner: Option<GroupId>,
    /// Its length so far.
    pub size: u64,
    /// The 4 ms tick of its last time stamp.
    pub stamped: Option<u64>,
    /// Number of the write-back bio emitted last.
    pub write_seq: u64,
    /// Write-back bios that are not served yet.
    pub writing: u64,
    /// Pages under write-back.
    pub out: u64,
    /// Transaction of its last change, and of its last change of length or blocks; 0: none.
    pub changed: u64,
    pub remapped: u64,
    /// When its oldest dirty page became dirty.
    pub dirtied_at: Instant,
    /// Page at which the flusher goes on.
    pub cursor: u64,
    /// The last sync() that has been over it.
    pub synced: u64,
    /// Extents that are in no log tree and no commit (btrfs).
    pub unlogged: u64,
    pub ballot: Ballot,
}

impl File {
    fn new(start: u64, bytes: u64) -> File {
        File {
            start,
            bytes,
            raw: false,
            map: Vec::new(),
            unlogged: 0,
            size: bytes,
            blocks: BlockMap::default(),
            owner: None,
            ballot: Ballot::default(),
            flusher: 0,
            listed: Listed::No,
            cursor: 0,
            out: 0,
            changed: 0,
            remapped: 0,
            synced: 0,
            dirtied_at: Instant::ZERO,
            stamped: None,
            waiters: Waiters::default(),
            write_seq: 0,
            writing: 0,
        }
    }
}

/// Where its pages lie.
impl File {
    /// Its length in pages.
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE)
    }

    /// Place of page `p` on the device in bytes.
    #[inline]
    pub fn place(&self, p: u64) -> u64 {
        match self.map.get(p as usize) {
            Some(page) => page * PAGE,
            None => self.start + p * PAGE,
        }
    }

    /// The end of the run of pages from `a` on that are neighbours on the device, or have no blocks, as
    /// `a`; at most `b`.
    #[inline]
    pub fn run_end(&self, a: u64, b: u64) -> u64 {
        let end = self.blocks.run_end(a, b);
        if self.map.is_empty() || !self.blocks.has(a) {
            return end;
        }
        let first = self.map[a as usize];
        (a + 1..end).find(|&p| self.map[p as usize] != first + (p - a)).unwrap_or(end)
    }

    /// The runs on the device, first byte and length, in which the pages [a, b) lie that have blocks.
    pub fn runs(&self, a: u64, b: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = a;
        core::iter::from_fn(move || {
            while at < b {
                let (from, to) = (at, self.run_end(at, b));
                at = to;
                if self.blocks.has(from) {
                    return Some((self.place(from), (to - from) * PAGE));
                }
            }
            None
        })
    }

    /// Pages [a, b) have blocks from byte `to` of the device on.
    pub fn relocate(&mut self, a: u64, b: u64, to: u64) {
        if self.map.is_empty() {
            let first = self.start / PAGE;
            self.map = (first..first + self.pages()).collect();
        }
        for (p, page) in (a..b).zip(to / PAGE..) {
            self.map[p as usize] = page;
        }
        self.blocks.allocate(a, b);
    }
}

/// All files, and where the next one goes.
#[derive(Debug)]
pub(super) struct Files {
    all: Vec<File>,
    layout: Layout,
    /// The device as one file, once somebody has asked for it.
    device: Option<FileId>,
    /// Files that several loads use, by name.
    shared: Vec<(String, FileId)>,
    /// First byte of the device that no raw sequential load has been given.
    raw_next: u64,
    /// Files whose pieces alternate, the latest of each kind.
    between: Vec<Between>,
}

/// Files of one size whose pieces alternate on the device.
#[derive(Debug)]
struct Between {
    of: u64,
    piece: u64,
    /// Of a file, in whole pieces.
    pages: u64,
    start: u64,
    /// How many of them have been laid out.
    placed: u64,
}

impl Files {
    /// No files, on a device of `capacity` bytes, of which they begin at `start_frac`.
    /// `copy`: the file system keeps a second place for itself, at that distance behind the first.
    pub fn new(
        config: &HostConfig,
        capacity: u64,
        start_frac: f64,
        seed: u64,
        copy: Option<u64>,
    ) -> Files {
        Files {
            all: Vec::new(),
            layout: Layout::new(capacity, start_frac, config.layout_gap_kib, seed, copy),
            device: None,
            shared: Vec::new(),
            raw_next: 0,
            between: Vec::new(),
        }
    }

    /// Number of files.
    pub fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// Bytes of the device.
    pub fn capacity(&self) -> u64 {
        self.layout.capacity()
    }

    /// First byte of the journal.
    pub fn journal(&self) -> u64 {
        self.layout.journal()
    }

    /// What the file system keeps for itself, ascending: first byte and length.
    pub fn reserved(&self) -> &[(u64, u64)] {
        self.layout.reserved()
    }

    /// Where the file area begins, and where it is free behind the files that were laid out.
    pub fn area(&self) -> (u64, u64) {
        self.layout.area()
    }

    /// The device as a file, if somebody reads it as one.
    pub fn whole_device(&self) -> Option<FileId> {
        self.device
    }

    /// Lays a file out behind those before it.
    pub fn place(&mut self, bytes: u64) -> Result<FileId, JobError> {
        let start = self.layout.place(bytes)?;
        Ok(self.push(start, bytes))
    }

    /// Lays out the next of `of` files of `bytes` that were written at the same time: their pieces alternate,
    /// and together they have one place among the files. `piece`: bytes of a piece, a multiple of the page.
    pub fn place_between(&mut self, bytes: u64, of: u64, piece: u64) -> Result<FileId, JobError> {
        let pages = bytes.div_ceil(PAGE).next_multiple_of(piece / PAGE);
        let found =
            self.between.iter_mut().find(|b| (b.of, b.piece, b.pages) == (of, piece, pages));
        let (start, number) = match found {
            Some(between) if between.placed < of => {
                between.placed += 1;
                (between.start, between.placed - 1)
            }
            other => {
                let start = self.layout.place(of * pages * PAGE)?;
                let fresh = Between { of, piece, pages, start, placed: 1 };
                match other {
                    Some(full) => *full = fresh,
                    None => self.between.push(fresh),
                }
                (start, 0)
            }
        };
        let file = self.push(start + number * piece, bytes);
        let (piece_pages, all) = (piece / PAGE, bytes.div_ceil(PAGE));
        for (i, a) in (0..all).step_by(piece_pages as usize).enumerate() {
            let to = start + (i as u64 * of + number) * piece;
            self[file.0].relocate(a, (a + piece_pages).min(all), to);
        }
        Ok(file)
    }

    /// Room for files that [`Files::place_at`] puts into it.
    pub fn reserve(&mut self, bytes: u64) -> Result<u64, JobError> {
        self.layout.place(bytes)
    }

    /// A file at byte `start` of reserved room.
    pub fn place_at(&mut self, start: u64, bytes: u64) -> FileId {
        self.push(start, bytes)
    }

    fn push(&mut self, start: u64, bytes: u64) -> FileId {
        self.all.push(File::new(start, bytes));
        FileId(self.len() - 1)
    }

    /// The file of that name and size, if it has been laid out; another size is an error.
    pub fn find_shared(&self, name: &str, bytes: u64) -> Result<Option<FileId>, JobError> {
        let Some(&(_, file)) = self.shared.iter().find(|(known, _)| known == name) else {
            return Ok(None);
        };
        let size = self[file.0].bytes;
        if size == bytes {
            return Ok(Some(file));
        }
        let message = format!("file {name} has {size} B for one and {bytes} B for another load");
        Err(JobError::Parameter { of: "host".into(), message })
    }

    /// From now on a file can be found by that name.
    pub fn share(&mut self, name: &str, file: FileId) {
        self.shared.push((name.to_string(), file));
    }

    /// Makes the device one file.
    pub fn open_device(&mut self) -> Result<FileId, JobError> {
        let bytes = self.capacity() / PAGE * PAGE;
        if bytes > RAW_MOST {
            return Err(JobError::Parameter {
                of: "host".into(),
                message: format!(
                    "raw loads: the drive has {} GB; choose one of at most {} GB (the map of its page \
                     cache is held in memory)",
                    bytes / 1_000_000_000,
                    RAW_MOST / 1_000_000_000
                ),
            });
        }
        let file = self.push(0, bytes);
        self[file.0].raw = true;
        self.device = Some(file);
        Ok(file)
    }

    /// The next range of the device for a raw sequential load.
    pub fn raw_range(&mut self, bytes: u64) -> Result<u64, JobError> {
        let begin = self.raw_next;
        let left = self.capacity() - begin;
        if bytes > left {
            return Err(JobError::DoesNotFit { needed: bytes, available: left });
        }
        self.raw_next += bytes.next_multiple_of(PAGE).min(left);
        Ok(begin)
    }

    /// Places on the device that files occupy, and the journal: first byte and length.
    pub fn places(&self) -> Vec<(u64, u64)> {
        let files = self.all.iter().map(|f| (f.start, f.bytes.next_multiple_of(PAGE)));
        files.chain(self.layout.reserved().iter().copied()).collect()
    }

    /// All files.
    pub fn iter(&self) -> impl Iterator<Item = &File> {
        self.all.iter()
    }
}

impl std::ops::Index<u32> for Files {
    type Output = File;

    #[inline]
    fn index(&self, file: u32) -> &File {
        &self.all[file as usize]
    }
}

impl std::ops::IndexMut<u32> for Files {
    #[inline]
    fn index_mut(&mut self, file: u32) -> &mut File {
        &mut self.all[file as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_is_woken_first() {
        let mut waiters = Waiters::default();
        let wake = |waiters: &mut Waiters, whom: fn(u32) -> bool| {
            let mut woken = Vec::new();
            waiters.wake(&mut woken, |_, p| whom(p), |woken, p| woken.push(p));
            woken
        };
        (1..5).for_each(|p| waiters.push(p));
        assert_eq!(wake(&mut waiters, |p| p == 1), [1]);
        // Behind those that are there, although the first has gone.
        waiters.push(0);
        assert_eq!(wake(&mut waiters, |p| p % 2 == 0), [2, 4, 0]);
        assert_eq!(wake(&mut waiters, |_| true), [3]);
        assert!(wake(&mut waiters, |_| true).is_empty());
    }

    #[test]
    fn pieces_of_files_written_together_alternate() {
        let config = HostConfig::profile("2010").unwrap();
        let mut files = Files::new(&config, 10 << 30, 0.0, 1, None);
        let bytes = 5 * PAGE;
        let made: Vec<u32> =
            (0..4).map(|_| files.place_between(bytes, 2, 2 * PAGE).unwrap().0).collect();
        let pages = |file: u32| -> Vec<u64> {
            (0..5).map(|p| (files[file].place(p) - files[made[0]].place(0)) / PAGE).collect()
        };
        assert_eq!(pages(made[0]), [0, 1, 4, 5, 8]);
        assert_eq!(pages(made[1]), [2, 3, 6, 7, 10]);
        assert_eq!(files[made[0]].runs(0, 5).count(), 3, "a read of the whole is three bios");
        // The next two lie behind them, with each other.
        let next = pages(made[2])[0];
        assert!(next >= 12);
        assert_eq!(pages(made[3]), [2, 3, 6, 7, 10].map(|p| p + next));
    }

    #[test]
    fn a_block_map_knows_runs_and_holes() {
        let mut map = BlockMap::default();
        assert!(map.has(77) && !map.has_holes());
        assert_eq!((map.run_end(3, 50), map.allocate(0, 10)), (50, 0));
        map.clear(200);
        assert!(map.has_holes() && !map.has(0));
        assert_eq!(map.allocate(60, 130), 70);
        assert_eq!(map.allocate(100, 140), 10);
        assert_eq!(
            (map.run_end(0, 200), map.run_end(60, 200), map.run_end(60, 100)),
            (60, 140, 100)
        );
        assert_eq!(map.run_end(140, 200), 200);
        assert_eq!(map.allocate(0, 200), 120);
        assert!(!map.has_holes() && map.has(199));
    }
}
