//! The page cache: the state of every cached page of every file, as bits in words of 64 pages, under one
//! limit for all files (specs/host.md 4).
//!
//! Only what is cached takes memory: words live in blocks of [`WORDS`], given to a file when it has a page
//! in them and taken back with the last one. A run with thousands of files thus needs memory for what its
//! host could hold, not for what its files could.

use hoistway::GroupId;
use hoistway::list::{Links, List};
use hoistway::table::NIL;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Words of a block: 1 MiB of a file. Smaller blocks would cost more for the map of a file, larger ones
/// more for pages that lie apart.
const WORDS: usize = 4;

/// Pages taken back at a time: reclaim is a walk over many chunks, which must not be begun for each page.
const BATCH: u64 = 256;

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
    used: u64,
    /// Dirty.
    pub dirty: u64,
    /// Under write-back.
    pub out: u64,
    /// A page was read again since insertion: a second chance in reclaim.
    hot: bool,
    /// The group that brought its first page in.
    group: GroupId,
}

impl Word {
    fn is_blank(&self) -> bool {
        self.cached | self.ready | self.marker | self.used | self.dirty | self.out == 0
    }
}

static BLANK: Word = Word {
    cached: 0,
    ready: 0,
    marker: 0,
    used: 0,
    dirty: 0,
    out: 0,
    hot: false,
    group: GroupId::ROOT,
};

/// What the cache knows of one file.
#[derive(Clone, Debug)]
#[repr(align(64))] // One line of the cache instead of two halves.
struct FileMap {
    /// Block of each [`WORDS`] words, `NIL` where nothing is cached.
    blocks: Vec<u32>,
    pages: u64,
    /// Dirty pages.
    dirty: u64,
    /// All dirty pages lie in [lo, hi).
    dirty_lo: u64,
    dirty_hi: u64,
}

impl FileMap {
    /// The part of [from, to) in which dirty pages may lie; `None` if there are none.
    fn dirty_part(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        (self.dirty > 0).then(|| (from.max(self.dirty_lo), to.min(self.dirty_hi)))
    }
}

/// Whose a block is.
#[derive(Clone, Copy, Debug)]
struct Home {
    file: u32,
    /// Number of its first word in the file.
    first: u32,
}

/// The page cache of the host.
#[derive(Debug)]
pub(super) struct PageCache {
    files: Vec<FileMap>,
    /// The words of all blocks; block `b` has those from `b * WORDS` on.
    words: Vec<Word>,
    homes: Vec<Home>,
    /// Blocks that no file has.
    spare: Vec<u32>,
    /// Most pages the cache may hold.
    limit: u64,
    cached: u64,
    /// First-in-first-out list of the words with a cached page.
    links: Links,
    fifo: List,
    /// Pages read ahead and dropped unread.
    pub dropped_unread: u64,
    /// Pages taken back to make room.
    pub reclaimed: u64,
    /// What was dropped, for somebody who holds the pages' contents: file, first page of the word, mask.
    pub dropped: Option<Vec<(u32, u64, u64)>>,
}

/// Words of [a, b) with the mask of its pages in each.
#[inline]
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

/// Set bits. Masks are runs, mostly, and a run is counted without the many steps of a processor that need not have an
/// instruction for it.
#[inline]
fn ones(mask: u64) -> u64 {
    let run = mask >> (mask.trailing_zeros() & 63);
    if run & run.wrapping_add(1) == 0 {
        return u64::from(64 - run.leading_zeros());
    }
    u64::from(mask.count_ones())
}

impl PageCache {
    /// An empty cache that may hold `limit` pages.
    pub fn new(limit: u64) -> PageCache {
        PageCache {
            files: Vec::new(),
            words: Vec::new(),
            homes: Vec::new(),
            spare: Vec::new(),
            limit,
            cached: 0,
            links: Links::new(0),
            fifo: List::new(),
            dropped_unread: 0,
            reclaimed: 0,
            dropped: None,
        }
    }

    /// The next file, of so many pages.
    pub fn add_file(&mut self, pages: u64) {
        let blocks = pages.div_ceil(64).div_ceil(WORDS as u64) as usize;
        self.files.push(FileMap {
            blocks: vec![NIL; blocks],
            pages,
            dirty: 0,
            dirty_lo: 0,
            dirty_hi: 0,
        });
    }

    /// Number of pages of a file, cached or not.
    pub fn pages(&self, file: u32) -> u64 {
        self.files[file as usize].pages
    }

    /// Dirty pages of a file.
    pub fn dirty(&self, file: u32) -> u64 {
        self.files[file as usize].dirty
    }

    /// Pages in the cache.
    pub fn cached(&self) -> u64 {
        self.cached
    }

    #[inline]
    fn word(&self, map: &FileMap, i: usize) -> &Word {
        match map.blocks[i / WORDS] {
            NIL => &BLANK,
            block => &self.words[block as usize * WORDS + i % WORDS],
        }
    }

    /// Number of a word among all, if it has a block.
    #[inline]
    fn place(&self, file: u32, i: usize) -> Option<usize> {
        match self.files[file as usize].blocks[i / WORDS] {
            NIL => None,
            block => Some(block as usize * WORDS + i % WORDS),
        }
    }

    /// The same; gives the file a block if it has none there.
    #[inline]
    fn own_place(&mut self, file: u32, i: usize) -> usize {
        match self.place(file, i) {
            Some(place) => place,
            None => self.give_block(file, i) * WORDS + i % WORDS,
        }
    }

    #[inline(never)]
    fn give_block(&mut self, file: u32, i: usize) -> usize {
        let home = Home { file, first: (i / WORDS * WORDS) as u32 };
        let block = match self.spare.pop() {
            Some(block) => {
                self.homes[block as usize] = home;
                block
            }
            None => {
                if self.homes.is_empty() {
                    self.reserve();
                }
                self.homes.push(home);
                self.words.resize(self.homes.len() * WORDS, BLANK);
                self.links.grow(self.words.len());
                self.homes.len() as u32 - 1
            }
        };
        self.files[file as usize].blocks[i / WORDS] = block;
        block as usize
    }

    /// Room for the blocks that files read in sequence fill memory with, or for all of them: so that a run
    /// that is warm does not allocate. Pages that lie apart may need more.
    fn reserve(&mut self) {
        let all: usize = self.files.iter().map(|f| f.blocks.len()).sum();
        let blocks = all.min((self.limit / 64) as usize / WORDS + self.files.len());
        self.homes.reserve(blocks);
        self.spare.reserve(blocks);
        self.words.reserve(blocks * WORDS);
        self.links.grow(blocks * WORDS);
    }

    /// Takes a block back if nothing is in it any more.
    fn release(&mut self, place: usize) {
        let block = place / WORDS;
        let words = &mut self.words[block * WORDS..(block + 1) * WORDS];
        if words.iter().all(Word::is_blank) {
            words.fill(BLANK);
            let Home { file, first } = self.homes[block];
            self.files[file as usize].blocks[first as usize / WORDS] = NIL;
            self.spare.push(block as u32);
        }
    }

    /// The first page of [from, to) whose bit is set in what `pick` makes of its word; `to` if none.
    #[inline]
    pub fn find(&self, file: u32, from: u64, to: u64, pick: impl Fn(&Word) -> u64) -> u64 {
        let map = &self.files[file as usize];
        let mut at = from;
        while at < to {
            let hit = pick(self.word(map, (at / 64) as usize)) >> (at % 64);
            if hit != 0 {
                return to.min(at + u64::from(hit.trailing_zeros()));
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }

    /// True when the bit of page `p` is set in what `pick` makes of its word.
    #[inline]
    pub fn is(&self, file: u32, p: u64, pick: impl Fn(&Word) -> u64) -> bool {
        let map = &self.files[file as usize];
        pick(self.word(map, (p / 64) as usize)) >> (p % 64) & 1 == 1
    }

    /// The word of page `p`, and its bit.
    #[inline]
    pub fn at(&self, file: u32, p: u64) -> (&Word, u64) {
        let map = &self.files[file as usize];
        (self.word(map, (p / 64) as usize), 1 << (p % 64))
    }

    /// Owners of the pages [a, b), with the number of pages of each.
    pub fn groups(&self, file: u32, a: u64, b: u64) -> impl Iterator<Item = (GroupId, u64)> + '_ {
        let map = &self.files[file as usize];
        spans(a, b).map(|(i, mask)| (self.word(map, i).group, u64::from(mask.count_ones())))
    }

    /// Number of cached pages directly before `p`, at most `limit`.
    pub fn present_before(&self, file: u32, p: u64, limit: u64) -> u64 {
        let map = &self.files[file as usize];
        let most = limit.min(p);
        let mut n = 0;
        while n < most {
            let (i, bit) = ((p - n - 1) / 64, (p - n - 1) % 64);
            let cached = self.word(map, i as usize).cached;
            let run = u64::from((cached << (63 - bit)).leading_ones());
            n += run;
            if run <= bit {
                break;
            }
        }
        n.min(most)
    }

    /// Sets the marker.
    pub fn mark(&mut self, file: u32, p: u64) {
        let place = self.own_place(file, (p / 64) as usize);
        self.words[place].marker |= 1 << (p % 64);
    }

    /// Clears the marker.
    pub fn unmark(&mut self, file: u32, p: u64) {
        if let Some(place) = self.place(file, (p / 64) as usize) {
            self.words[place].marker &= !(1 << (p % 64));
        }
    }

    /// Pages have arrived.
    #[inline]
    pub fn set_ready(&mut self, file: u32, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            let place = self.own_place(file, i);
            self.words[place].ready |= mask;
        }
    }

    /// Pages are read by a process.
    #[inline]
    pub fn touch(&mut self, file: u32, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            let place = self.own_place(file, i);
            let w = &mut self.words[place];
            w.hot |= w.used & mask != 0;
            w.used |= mask;
        }
    }

    /// Makes pages dirty, and up to date where they are absent; returns how many were clean, `None` if there is no
    /// memory for one of them.
    #[inline(always)] // Of each step of each writer.
    pub fn dirty_pages(&mut self, file: u32, a: u64, b: u64, group: GroupId) -> Option<u64> {
        let room = self.cached + (b - a) <= self.limit;
        if !room && !self.insert_ready(file, a, b, group) {
            return None;
        }
        let mut fresh = b - a;
        for (i, mask) in spans(a, b) {
            let place = self.own_place(file, i);
            let w = &mut self.words[place];
            let (absent, dirty) = (mask & !w.cached, mask & w.dirty);
            w.dirty |= mask;
            if dirty != 0 {
                fresh -= ones(dirty);
            }
            if room && absent != 0 {
                self.cached += ones(absent);
                self.add_to_word(place, absent, true, group);
            }
        }
        let map = &mut self.files[file as usize];
        if map.dirty == 0 {
            (map.dirty_lo, map.dirty_hi) = (a, b);
        } else {
            map.dirty_lo = map.dirty_lo.min(a);
            map.dirty_hi = map.dirty_hi.max(b);
        }
        map.dirty += fresh;
        Some(fresh)
    }

    /// Inserts the absent pages of [a, b), which nobody has to read; false if there is no memory for one of them.
    #[cold]
    fn insert_ready(&mut self, file: u32, a: u64, b: u64, group: GroupId) -> bool {
        // What makes room may take pages back anywhere: run by run.
        let mut at = a;
        while at < b {
            let from = self.find(file, at, b, |w| !w.cached);
            let to = self.find(file, from, b, |w| w.cached);
            if from < to && !self.insert(file, from, to, true, group) {
                return false;
            }
            at = to;
        }
        true
    }

    /// True when a page of [from, to) is dirty.
    pub fn any_dirty(&self, file: u32, from: u64, to: u64) -> bool {
        let map = &self.files[file as usize];
        let all = map.dirty > 0 && from <= map.dirty_lo && map.dirty_hi <= to;
        all || self.first_dirty(file, from, to).is_some()
    }

    /// The first dirty page of [from, to).
    pub fn first_dirty(&self, file: u32, from: u64, to: u64) -> Option<u64> {
        let (from, to) = self.files[file as usize].dirty_part(from, to)?;
        let page = self.find(file, from, to, |w| w.dirty);
        (page < to).then_some(page)
    }

    /// The first run of dirty pages in [from, to) that are not under write-back, at most `limit` long.
    pub fn idle_run(&self, file: u32, from: u64, to: u64, limit: u64) -> Option<(u64, u64)> {
        let (from, to) = self.files[file as usize].dirty_part(from, to)?;
        let a = self.find(file, from, to, |w| w.dirty & !w.out);
        (a < to).then(|| (a, self.find(file, a, to.min(a + limit), |w| !w.dirty | w.out)))
    }

    /// The first page of [from, to) that was dirtied again while it is under write-back. Looks only
    /// where dirty pages lie: a writer that syncs each block must not pay for the length of its file.
    pub fn rewritten(&self, file: u32, from: u64, to: u64) -> Option<u64> {
        let (from, to) = self.files[file as usize].dirty_part(from, to)?;
        let page = self.find(file, from, to, |w| w.dirty & w.out);
        (page < to).then_some(page)
    }

    /// Dirty pages go to the device: clean, but under write-back.
    pub fn start_write(&mut self, file: u32, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            let place = self.own_place(file, i);
            let w = &mut self.words[place];
            debug_assert_eq!(w.dirty & mask, mask);
            w.dirty &= !mask;
            w.out |= mask;
        }
        self.files[file as usize].dirty -= b - a;
    }

    /// Write-back of pages has ended.
    pub fn end_write(&mut self, file: u32, a: u64, b: u64) {
        for (i, mask) in spans(a, b) {
            if let Some(place) = self.place(file, i) {
                let w = &mut self.words[place];
                w.out &= !mask;
                if w.cached == 0 {
                    self.release(place);
                }
            }
        }
    }

    /// Dirty pages are clean although nobody has written them: their file is gone. Returns how many.
    pub fn discard_dirty(&mut self, file: u32) -> u64 {
        let map = &mut self.files[file as usize];
        let (dirty, from, to) = (map.dirty, map.dirty_lo, map.dirty_hi);
        if dirty > 0 {
            map.dirty = 0;
            for (i, mask) in spans(from, to) {
                if let Some(place) = self.place(file, i) {
                    self.words[place].dirty &= !mask;
                }
            }
        }
        dirty
    }

    /// Inserts the absent pages [a, b): being read, or (`ready`) up to date. False when there is no room
    /// and nothing can be taken back.
    pub fn insert(&mut self, file: u32, a: u64, b: u64, ready: bool, group: GroupId) -> bool {
        if self.cached + (b - a) > self.limit && !self.make_room(b - a) {
            return false;
        }
        self.cached += b - a;
        for (i, mask) in spans(a, b) {
            let place = self.own_place(file, i);
            self.add_to_word(place, mask, ready, group);
        }
        true
    }

    /// The same for the absent pages from `a` on, up to `b` or the first that is there; the page behind them.
    pub fn insert_absent(
        &mut self,
        file: u32,
        a: u64,
        b: u64,
        ready: bool,
        group: GroupId,
    ) -> Option<u64> {
        if self.cached + (b - a) > self.limit {
            // How many they are decides how much is taken back.
            let b = self.find(file, a, b, |w| w.cached);
            return self.insert(file, a, b, ready, group).then_some(b);
        }
        let mut end = a;
        for (i, mask) in spans(a, b) {
            let place = self.own_place(file, i);
            let there = self.words[place].cached & mask;
            // Below the first that is there.
            let absent = mask & (there & there.wrapping_neg()).wrapping_sub(1);
            if absent != 0 {
                self.add_to_word(place, absent, ready, group);
                end += ones(absent);
            }
            if there != 0 {
                break;
            }
        }
        self.cached += end - a;
        Some(end)
    }

    /// Inserts absent pages of one word.
    #[inline]
    fn add_to_word(&mut self, place: usize, mask: u64, ready: bool, group: GroupId) {
        let w = &mut self.words[place];
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
        if !self.links.linked(place as u32) {
            self.fifo.push_back(&mut self.links, place as u32);
        }
    }

    /// Drops the clean up-to-date pages of [a, b).
    pub fn drop_clean(&mut self, file: u32, a: u64, b: u64) {
        let mut at = a;
        while let Some((from, to)) = self.next_block(file, at, b) {
            for (i, mask) in spans(from, to) {
                // The block goes back with its last page.
                if let Some(place) = self.place(file, i) {
                    self.drop_word(place, mask);
                }
            }
            at = to;
        }
    }

    /// The part of [a, b) in the first block that it has a part of. The device as a file has many blocks,
    /// of which few exist: a look at each of its words would cost more than the I/O behind it.
    fn next_block(&self, file: u32, a: u64, b: u64) -> Option<(u64, u64)> {
        const PAGES: u64 = WORDS as u64 * 64;
        if a >= b {
            return None;
        }
        let first = a / PAGES;
        let blocks = &self.files[file as usize].blocks[first as usize..b.div_ceil(PAGES) as usize];
        let block = first + blocks.iter().position(|&block| block != NIL)? as u64;
        Some((a.max(block * PAGES), b.min((block + 1) * PAGES)))
    }

    /// Drops all clean up-to-date pages of all files.
    pub fn drop_all_clean(&mut self) {
        for file in 0..self.files.len() as u32 {
            self.drop_clean(file, 0, self.pages(file));
        }
    }

    fn drop_word(&mut self, place: usize, mask: u64) -> u64 {
        let w = &mut self.words[place];
        let gone = w.ready & !w.dirty & !w.out & mask;
        if gone == 0 {
            return 0;
        }
        let unread = gone & !w.used;
        if unread != 0 {
            self.dropped_unread += ones(unread);
        }
        w.cached &= !gone;
        w.ready &= !gone;
        w.marker &= !gone;
        w.used &= !gone;
        let n = ones(gone);
        self.cached -= n;
        if let Some(dropped) = &mut self.dropped {
            let Home { file, first } = self.homes[place / WORDS];
            dropped.push((file, (u64::from(first) + (place % WORDS) as u64) * 64, gone));
        }
        if w.cached == 0 {
            w.hot = false;
            self.fifo.remove(&mut self.links, place as u32);
            self.release(place);
        }
        n
    }

    /// Takes back chunks from the head of the list, at least `BATCH` pages and as many as `need`.
    fn make_room(&mut self, need: u64) -> bool {
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
            let w = &mut self.words[id as usize];
            if w.hot {
                // Read twice: more likely to be read a third time than what a stream has passed by.
                w.hot = false;
            } else {
                freed += self.drop_word(id as usize, u64::MAX);
            }
            if self.links.linked(id) {
                self.fifo.remove(&mut self.links, id);
                self.fifo.push_back(&mut self.links, id);
            }
        }
        self.reclaimed += freed;
        self.cached + need <= self.limit
    }

    /// Bytes that the state of the pages takes, for tests of what a run needs.
    #[cfg(test)]
    pub fn state_bytes(&self) -> usize {
        let maps: usize = self.files.iter().map(|f| f.blocks.len() * size_of::<u32>()).sum();
        maps + self.words.len() * size_of::<Word>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(limit: u64, files: &[u64]) -> PageCache {
        let mut cache = PageCache::new(limit);
        files.iter().for_each(|&pages| cache.add_file(pages));
        cache
    }

    #[test]
    fn pages_are_found_across_words_blocks_and_holes() {
        let mut c = cache(10_000, &[5000]);
        assert!(c.insert(0, 60, 70, true, GroupId::ROOT));
        assert!(c.insert(0, 700, 701, true, GroupId::ROOT));
        assert_eq!(c.find(0, 0, 5000, |w| w.cached), 60);
        assert_eq!(c.find(0, 60, 5000, |w| !w.cached), 70);
        assert_eq!(c.find(0, 70, 5000, |w| w.cached), 700);
        assert_eq!(c.find(0, 701, 5000, |w| w.cached), 5000);
        assert!(c.is(0, 69, |w| w.ready) && !c.is(0, 4999, |w| w.ready));
        assert_eq!((c.cached(), c.pages(0)), (11, 5000));
    }

    #[test]
    fn the_run_before_a_page_is_counted_over_word_borders_up_to_the_limit() {
        let mut c = cache(10_000, &[1000]);
        assert!(c.insert(0, 50, 200, true, GroupId::ROOT));
        assert_eq!(c.present_before(0, 200, 1000), 150);
        assert_eq!(c.present_before(0, 200, 32), 32);
        assert_eq!(c.present_before(0, 100, 1000), 50);
        assert_eq!(c.present_before(0, 201, 1000), 0);
        assert_eq!(c.present_before(0, 50, 1000), 0);
        assert!(c.insert(0, 0, 50, true, GroupId::ROOT));
        assert_eq!(c.present_before(0, 128, 1000), 128);
    }

    #[test]
    fn a_block_goes_back_with_its_last_page_and_serves_another_file() {
        let mut c = cache(1000, &[1000, 1000]);
        assert!(c.insert(0, 0, 100, true, GroupId::ROOT));
        let bytes = c.state_bytes();
        c.drop_clean(0, 0, 99);
        assert!(c.insert(1, 300, 301, true, GroupId(3)));
        assert_eq!(c.words.len(), 2 * WORDS);
        c.drop_clean(0, 99, 100);
        assert_eq!(c.files[0].blocks, vec![NIL; 4]);
        assert!(c.insert(1, 700, 701, true, GroupId(3)));
        assert_eq!((c.words.len(), c.state_bytes() - bytes), (2 * WORDS, WORDS * 64));
        assert_eq!(c.groups(1, 700, 701).collect::<Vec<_>>(), [(GroupId(3), 1)]);
        assert!(!c.is(1, 701, |w| w.ready));
    }

    #[test]
    fn clean_pages_are_dropped_across_blocks_that_do_not_exist() {
        let mut c = cache(10_000, &[100_000]);
        let runs = [(0, 10), (250, 260), (5000, 5001), (99_990, 100_000)];
        for (a, b) in runs {
            assert!(c.insert(0, a, b, true, GroupId::ROOT));
        }
        c.drop_clean(0, 5, 252);
        assert_eq!((c.cached(), c.find(0, 0, 300, |w| !w.cached)), (24, 5));
        assert!(c.is(0, 252, |w| w.cached) && !c.is(0, 251, |w| w.cached));
        c.drop_clean(0, 5001, 99_990);
        assert_eq!(c.cached(), 24);
        c.drop_clean(0, 0, 99_999);
        assert_eq!(c.find(0, 0, 100_000, |w| w.cached), 99_999);
        c.drop_clean(0, 0, 100_000);
        assert_eq!((c.cached(), c.next_block(0, 0, 100_000)), (0, None));
    }

    #[test]
    fn pages_made_dirty_are_inserted_where_they_are_absent() {
        let mut c = cache(200, &[1000]);
        assert!(c.insert(0, 10, 20, true, GroupId::ROOT));
        assert_eq!(c.dirty_pages(0, 5, 15, GroupId(3)), Some(10));
        assert_eq!((c.cached(), c.dirty(0), c.find(0, 0, 30, |w| w.ready)), (15, 10, 5));
        assert_eq!(c.dirty_pages(0, 0, 130, GroupId(3)), Some(120));
        assert_eq!((c.cached(), c.dirty(0)), (130, 130));
        let owners: Vec<_> = c.groups(0, 60, 130).collect();
        assert_eq!(owners, [(GroupId::ROOT, 4), (GroupId(3), 64), (GroupId(3), 2)]);
        // Clean pages give way, dirty ones do not.
        assert!(c.insert(0, 900, 970, true, GroupId::ROOT));
        assert_eq!(c.dirty_pages(0, 130, 200, GroupId(3)), Some(70));
        assert_eq!((c.cached(), c.dirty(0)), (200, 200));
        assert_eq!(c.dirty_pages(0, 200, 201, GroupId(3)), None);
    }

    #[test]
    fn ones_are_counted_in_runs_and_in_any_mask() {
        let masks = [0, 1, u64::MAX, 1 << 63, 0xff00, 0x8000_0000_0000_0001, 0b1011_0110];
        for mask in masks {
            assert_eq!(ones(mask), u64::from(mask.count_ones()), "{mask:x}");
        }
    }

    #[test]
    fn pages_under_write_back_outlive_the_drop_of_their_file() {
        let mut c = cache(1000, &[1000]);
        assert!(c.insert(0, 0, 10, true, GroupId::ROOT));
        assert_eq!(c.dirty_pages(0, 0, 10, GroupId::ROOT), Some(10));
        c.start_write(0, 0, 4);
        assert_eq!(c.discard_dirty(0), 6);
        c.drop_clean(0, 0, 1000);
        assert_eq!(c.cached(), 4);
        c.end_write(0, 0, 4);
        c.drop_clean(0, 0, 1000);
        assert_eq!((c.cached(), c.spare.len()), (0, 1));
    }

    #[test]
    fn the_state_of_many_files_takes_memory_for_what_the_host_can_hold() {
        // A thousand files of 500 MiB; 64 MiB of memory, read through three times over.
        let (files, limit) = (1000, 13_926);
        let mut c = cache(limit, &vec![128_000; files]);
        for round in 0..128 {
            for file in 0..files as u32 {
                let (a, b) = (round * 64, round * 64 + 64);
                assert!(c.insert(file, a, b, true, GroupId::ROOT));
            }
        }
        assert!(c.cached() <= limit);
        let per_file = c.state_bytes() / files;
        assert!(per_file < 2500, "{per_file} B per file");
    }

    #[test]
    fn reclaim_takes_the_oldest_chunk_and_gives_a_reread_one_a_second_chance() {
        let mut c = cache(512, &[10_000]);
        assert!(c.insert(0, 0, 512, true, GroupId::ROOT));
        // Written once counts as used; read again it is hot.
        c.touch(0, 0, 64);
        assert!(c.insert(0, 1000, 1001, true, GroupId::ROOT));
        assert!(c.is(0, 0, |w| w.cached), "hot");
        assert!(!c.is(0, 64, |w| w.cached), "the oldest that was not");
        assert_eq!(c.reclaimed, 256);
    }
}
