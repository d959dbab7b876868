//! The page cache: per file a bit map of page states, in words of 64 pages, and one memory for all files
//! (specs/host.md 4).

use hoistway::GroupId;
use hoistway::list::{Links, List};
use hoistway::table::NIL;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// 64 aligned pages of a file, one bit per page: the unit of reclaim. One cache line, since a run over
/// two million pages misses the processor's cache once per word.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Word {
    /// In the cache: being read, or up to date.
    pub cached: u64,
    /// Up to date.
    pub ready: u64,
    /// Carries the read-ahead marker.
    pub marker: u64,
    /// Read by somebody since it was inserted.
    pub used: u64,
    /// Dirty.
    pub dirty: u64,
    /// Under write-back.
    pub out: u64,
    /// Has a block on the device.
    pub mapped: u64,
    /// A page was read again since insertion: a second chance in reclaim.
    pub hot: bool,
    /// The group that brought its first page in.
    pub group: GroupId,
}

/// Cached pages of one file.
#[derive(Clone, Debug)]
pub(super) struct FileCache {
    words: Vec<Word>,
    /// Number of the file's first word among all words of all files.
    base: u32,
    pages: u64,
    /// Dirty pages.
    pub dirty: u64,
    /// All dirty pages lie in [lo, hi).
    dirty_lo: u64,
    dirty_hi: u64,
    /// Pages without a block.
    unmapped: u64,
}

/// Words of [a, b) with the mask of its pages in each.
fn spans(a: u64, b: u64) -> impl Iterator<Item = (usize, u64)> {
    let mut at = a;
    core::iter::from_fn(move || {
        if at >= b {
            return None;
        }
        let word = at / 64;
        let end = b.min((word + 1) * 64);
        let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
        at = end;
        Some((word as usize, mask))
    })
}

impl FileCache {
    /// Number of pages of the file.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The first page of [from, to) whose bit is set in what `pick` makes of its word; `to` if none.
    pub fn find(&self, from: u64, to: u64, pick: impl Fn(&Word) -> u64) -> u64 {
        for (i, mask) in spans(from, to) {
            let hit = pick(&self.words[i]) & mask;
            if hit != 0 {
                return i as u64 * 64 + u64::from(hit.trailing_zeros());
            }
        }
        to
    }

    /// True when the bit of page `p` is set in what `pick` makes of its word.
    pub fn is(&self, p: u64, pick: impl Fn(&Word) -> u64) -> bool {
        pick(&self.words[(p / 64) as usize]) >> (p % 64) & 1 == 1
    }

    /// Owners of the pages [a, b), with the number of pages of each.
    pub fn groups(&self, a: u64, b: u64) -> impl Iterator<Item = (GroupId, u64)> + '_ {
        spans(a, b).map(|(i, mask)| (self.words[i].group, u64::from(mask.count_ones())))
    }

    /// Number of cached pages directly before `p`, at most `limit`.
    pub fn present_before(&self, p: u64, limit: u64) -> u64 {
        let mut n = 0;
        while n < limit && n < p && self.is(p - n - 1, |w| w.cached) {
            n += 1;
        }
        n
    }

    /// Sets the marker.
    pub fn mark(&mut self, p: u64) {
        self.words[(p / 64) as usize].marker |= 1 << (p % 64);
    }

    /// Clears the marker.
    pub fn unmark(&mut self, p: u64) {
        self.words[(p / 64) as usize].marker &= !(1 << (p % 64));
    }

    /// Pages have arrived.
    pub fn set_ready(&mut self, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            self.words[i].ready |= mask;
        }
    }

    /// Pages are read by a process.
    pub fn touch(&mut self, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            let w = &mut self.words[i];
            w.hot |= w.used & mask != 0;
            w.used |= mask;
        }
    }

    /// Makes cached, up to date pages dirty; returns how many were clean.
    pub fn set_dirty(&mut self, a: u64, b: u64) -> u64 {
        let mut fresh = 0;
        for (i, mask) in spans(a, b) {
            let w = &mut self.words[i];
            fresh += u64::from((mask & !w.dirty).count_ones());
            w.dirty |= mask;
        }
        if self.dirty == 0 {
            (self.dirty_lo, self.dirty_hi) = (a, b);
        } else {
            self.dirty_lo = self.dirty_lo.min(a);
            self.dirty_hi = self.dirty_hi.max(b);
        }
        self.dirty += fresh;
        fresh
    }

    /// The first run of dirty pages in [from, to), at most `limit` pages long.
    pub fn dirty_run(&self, from: u64, to: u64, limit: u64) -> Option<(u64, u64)> {
        if self.dirty == 0 {
            return None;
        }
        let (from, to) = (from.max(self.dirty_lo), to.min(self.dirty_hi));
        let a = self.find(from, to, |w| w.dirty);
        if a >= to {
            return None;
        }
        Some((a, self.find(a, to.min(a + limit), |w| !w.dirty)))
    }

    /// The first run of dirty pages in [from, to) that are not under write-back, at most `limit` long.
    pub fn idle_run(&self, from: u64, to: u64, limit: u64) -> Option<(u64, u64)> {
        if self.dirty == 0 {
            return None;
        }
        let (from, to) = (from.max(self.dirty_lo), to.min(self.dirty_hi));
        let a = self.find(from, to, |w| w.dirty & !w.out);
        if a >= to {
            return None;
        }
        Some((a, self.find(a, to.min(a + limit), |w| !w.dirty | w.out)))
    }

    /// The first page of [from, to) that was dirtied again while it is under write-back. Looks only
    /// where dirty pages lie: a writer that syncs each block must not pay for the length of its file.
    pub fn rewritten(&self, from: u64, to: u64) -> Option<u64> {
        if self.dirty == 0 {
            return None;
        }
        let (from, to) = (from.max(self.dirty_lo), to.min(self.dirty_hi));
        let page = self.find(from, to, |w| w.dirty & w.out);
        (page < to).then_some(page)
    }

    /// Dirty pages go to the device: clean, but under write-back.
    pub fn start_write(&mut self, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            let w = &mut self.words[i];
            debug_assert_eq!(w.dirty & mask, mask);
            w.dirty &= !mask;
            w.out |= mask;
        }
        self.dirty -= b - a;
    }

    /// No page has a block any more.
    pub fn unmap(&mut self) {
        self.words.iter_mut().for_each(|w| w.mapped = 0);
        self.unmapped = self.pages;
    }

    /// All pages have blocks.
    pub fn whole(&self) -> bool {
        self.unmapped == 0
    }

    /// Pages get blocks; returns how many had none.
    pub fn map(&mut self, a: u64, b: u64) -> u64 {
        let mut fresh = 0;
        for (i, mask) in spans(a, b) {
            let w = &mut self.words[i];
            fresh += u64::from((mask & !w.mapped).count_ones());
            w.mapped |= mask;
        }
        self.unmapped -= fresh;
        fresh
    }

    /// Dirty pages are clean although nobody has written them: their file is gone.
    pub fn discard_dirty(&mut self) {
        if self.dirty > 0 {
            for (i, mask) in spans(self.dirty_lo, self.dirty_hi) {
                self.words[i].dirty &= !mask;
            }
            self.dirty = 0;
        }
    }

    /// Write-back of pages has ended.
    pub fn end_write(&mut self, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            self.words[i].out &= !mask;
        }
    }
}

/// One pool of pages for all files, and the order in which chunks are reclaimed.
#[derive(Debug)]
pub(super) struct Memory {
    /// Most pages the cache may hold.
    limit: u64,
    cached: u64,
    /// First-in-first-out list of the words with a cached page.
    links: Links,
    fifo: List,
    /// File of each word.
    owner: Vec<u32>,
    /// Pages read ahead and dropped unread.
    pub dropped_unread: u64,
    /// Pages taken back to make room.
    pub reclaimed: u64,
    /// What was dropped, for somebody who holds the pages' contents: file, first page of the word, mask.
    pub dropped: Option<Vec<(u32, u64, u64)>>,
}

/// Pages taken back at a time.
const BATCH: u64 = 256;

impl Memory {
    pub fn new(limit: u64) -> Memory {
        Memory {
            limit,
            cached: 0,
            links: Links::new(0),
            fifo: List::new(),
            owner: Vec::new(),
            dropped_unread: 0,
            reclaimed: 0,
            dropped: None,
        }
    }

    /// The cache of a new file, empty.
    pub fn add_file(&mut self, file: u32, pages: u64) -> FileCache {
        let words = pages.div_ceil(64) as usize;
        let base = self.owner.len() as u32;
        self.owner.resize(self.owner.len() + words, file);
        self.links.grow(self.owner.len());
        FileCache {
            words: vec![Word { mapped: u64::MAX, ..Word::default() }; words],
            base,
            pages,
            dirty: 0,
            dirty_lo: 0,
            dirty_hi: 0,
            unmapped: 0,
        }
    }

    /// Inserts the absent pages [a, b): being read, or (`ready`) up to date. False when there is no room
    /// and nothing can be taken back.
    pub fn insert(
        &mut self,
        files: &mut [super::File],
        file: u32,
        a: u64,
        b: u64,
        ready: bool,
        group: GroupId,
    ) -> bool {
        if self.cached + (b - a) > self.limit && !self.make_room(files, b - a) {
            return false;
        }
        let cache = &mut files[file as usize].cache;
        self.cached += b - a;
        for (i, mask) in spans(a, b) {
            let w = &mut cache.words[i];
            debug_assert_eq!(w.cached & mask, 0);
            if w.cached == 0 {
                w.group = group;
            }
            w.cached |= mask;
            w.used &= !mask;
            if ready {
                w.ready |= mask;
                // Whoever wrote it has used it.
                w.used |= mask;
            }
            let id = cache.base + i as u32;
            if !self.links.linked(id) {
                self.fifo.push_back(&mut self.links, id);
            }
        }
        true
    }

    /// Drops the clean up-to-date pages of [a, b).
    pub fn drop_clean(&mut self, cache: &mut FileCache, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            self.drop_word(cache, i, mask);
        }
    }

    fn drop_word(&mut self, cache: &mut FileCache, i: usize, mask: u64) -> u64 {
        let w = &mut cache.words[i];
        let gone = w.ready & !w.dirty & !w.out & mask;
        if gone == 0 {
            return 0;
        }
        self.dropped_unread += u64::from((gone & !w.used).count_ones());
        w.cached &= !gone;
        w.ready &= !gone;
        w.marker &= !gone;
        w.used &= !gone;
        let n = u64::from(gone.count_ones());
        self.cached -= n;
        if let Some(dropped) = &mut self.dropped {
            let word = cache.base + i as u32;
            dropped.push((self.owner[word as usize], i as u64 * 64, gone));
        }
        if w.cached == 0 {
            w.hot = false;
            self.fifo.remove(&mut self.links, cache.base + i as u32);
        }
        n
    }

    /// Takes back chunks from the head of the list, at least `BATCH` pages and as many as `need`.
    fn make_room(&mut self, files: &mut [super::File], need: u64) -> bool {
        let mut freed = 0;
        // One round in which hot chunks lose their mark, and one in which they go.
        for _ in 0..2 * self.fifo.len() {
            if freed >= BATCH && self.cached + need <= self.limit {
                break;
            }
            let id = self.fifo.head();
            if id == NIL {
                break;
            }
            let cache = &mut files[self.owner[id as usize] as usize].cache;
            let i = (id - cache.base) as usize;
            if cache.words[i].hot {
                cache.words[i].hot = false;
            } else {
                freed += self.drop_word(cache, i, u64::MAX);
            }
            if self.links.linked(id) {
                self.fifo.remove(&mut self.links, id);
                self.fifo.push_back(&mut self.links, id);
            }
        }
        self.reclaimed += freed;
        self.cached + need <= self.limit
    }

    /// Pages in the cache.
    pub fn cached(&self) -> u64 {
        self.cached
    }
}
