//! Tags of the multi-queue profile and the waits for them (specs/blk-mq-and-noop.md section 6).

use super::Waiter;
use super::words::Words;
use crate::device::{Device, TagWait};
use crate::request::BioId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Number of wait lists of a tag set. One list would be one hot lock, and waking all on each freed tag a stampede; not
/// first come, first served: a task that runs may take a tag before one that has to be woken, which keeps processors
/// busy and may starve a sleeper for a while.
const LISTS: usize = 8;

/// One set of tags: the scheduler tags of a hardware queue, or (`none`) the driver tags of the device.
///
/// `Kernel`: a freed tag is not reserved for anybody. Waiters are woken in batches from eight lists in
/// turn, retry, and may find that a running submitter took it first.
///
/// Nobody sleeps for ever: whoever sleeps found at least `8 * batch` tags taken (or `batch` is 1). Each of
/// them gives a credit when it is freed; a waking costs `batch` credits and makes as many new holders as
/// it wakes, fewer only if it empties a list. While one list holds a sleeper at most seven others were
/// emptied, so holders and credits together never fall below `8 * batch - 7 * (batch - 1)`: another
/// waking is always to come.
#[derive(Debug)]
pub(super) struct TagSet {
    pool: TagPool,
    mode: TagWait,
    /// The smallest depth seen or announced; `None`: all tags may be had.
    least: Option<u32>,
    batch: u32,
    credit: u32,
    next_wait: usize,
    next_wake: usize,
    /// Waiters on lists, plus woken ones that have not run yet.
    waiting: u32,
    lists: [VecDeque<Waiter>; LISTS],
}

/// Which tags are free.
#[derive(Debug)]
enum TagPool {
    /// Nothing limits anybody: which tag it is does not matter.
    Counted {
        size: u32,
        used: u32,
    },
    Numbered(Words),
}

/// The number of a tag; 0 for all of a pool that is only counted.
pub(super) type Tag = u32;

impl TagSet {
    /// The tags of `device`. `direct`: driver tags, which no scheduler divides; `percent_min`: the
    /// smallest share of a word the scheduler may use.
    pub fn new(device: &Device, direct: bool, percent_min: Option<u32>) -> TagSet {
        let least = match percent_min {
            _ if direct => None,
            Some(100) => None,
            None => Some(1),
            Some(percent) => Some((device.tag_word() * percent / 100).max(1)),
        };
        let pool = match least {
            None => TagPool::Counted { size: device.nr_requests, used: 0 },
            Some(_) => TagPool::Numbered(Words::new(device)),
        };
        let mut set = TagSet {
            pool,
            mode: device.tag_wait,
            least,
            batch: 0,
            credit: 0,
            next_wait: 0,
            next_wake: 0,
            waiting: 0,
            lists: core::array::from_fn(|_| VecDeque::with_capacity(16)),
        };
        set.batch = set.wake_batch();
        set
    }

    /// batch = clamp(effective / 8, 1, 8); effective = the tags that the most limited submitter can have.
    fn wake_batch(&self) -> u32 {
        let effective = match (&self.pool, self.least) {
            (TagPool::Numbered(words), Some(least)) => words.reach(least),
            (TagPool::Numbered(_), None) => unreachable!("only limits need numbers"),
            (&TagPool::Counted { size, .. }, _) => size,
        };
        (effective / 8).clamp(1, 8)
    }

    /// Takes a tag for a task on `cpu`, if one is free that `depth` allows.
    #[inline(always)]
    pub fn take(&mut self, cpu: u32, depth: Option<u32>) -> Option<Tag> {
        if let (Some(depth), Some(least)) = (depth, self.least)
            && depth < least
        {
            // A smaller part than the scheduler's registry line announces: with the old batch the
            // last sleepers could wait for wakings that never come.
            self.least = Some(depth);
            self.batch = self.wake_batch();
        }
        match &mut self.pool {
            TagPool::Numbered(words) => words.get(cpu, depth),
            TagPool::Counted { size, used } => {
                let free = *used < *size;
                *used += u32::from(free);
                free.then_some(0)
            }
        }
    }

    /// The list the next sleeper goes to; moves on even if it need not sleep after all.
    pub fn draw_list(&mut self) -> usize {
        let list = self.next_wait;
        self.next_wait = (list + 1) % LISTS;
        list
    }

    pub fn sleep(&mut self, list: usize, waiter: Waiter) {
        let list = match self.mode {
            TagWait::Kernel => list,
            TagWait::Fifo => 0,
        };
        self.lists[list].push_back(waiter);
        self.waiting += 1;
    }

    /// A woken waiter has run; it may sleep again.
    pub fn ran(&mut self) {
        self.waiting -= 1;
    }

    /// Frees a tag that a task on `cpu` had taken; the waiters to wake go to `woken`.
    #[inline(always)]
    pub fn free(&mut self, cpu: u32, tag: Tag, woken: &mut VecDeque<Waiter>) {
        match &mut self.pool {
            TagPool::Numbered(words) => words.put(tag),
            TagPool::Counted { used, .. } => *used -= 1,
        }
        // `Fifo`: the stack walks the list and lets each limit decide.
        if self.waiting > 0 && self.mode == TagWait::Kernel {
            self.credit += 1;
            if self.credit >= self.batch {
                self.credit -= self.batch;
                self.wake(woken);
            }
        }
        if let TagPool::Numbered(words) = &mut self.pool {
            words.freed_by(cpu, tag);
        }
    }

    /// Frees a tag of a set that nobody waits for.
    #[inline(always)]
    pub fn free_unawaited(&mut self, cpu: u32, tag: Tag) {
        debug_assert!(self.waiting == 0);
        match &mut self.pool {
            TagPool::Numbered(words) => {
                words.put(tag);
                words.freed_by(cpu, tag);
            }
            TagPool::Counted { used, .. } => *used -= 1,
        }
    }

    /// Wakes the oldest of the next list that has any.
    fn wake(&mut self, woken: &mut VecDeque<Waiter>) {
        for _ in 0..LISTS {
            let list = self.next_wake;
            self.next_wake = (list + 1) % LISTS;
            if !self.lists[list].is_empty() {
                let batch = (0..self.batch).map_while(|_| self.lists[list].pop_front());
                batch.for_each(|waiter| woken.push_back(waiter));
                return;
            }
        }
    }

    /// Fifo: takes the first waiter at or behind `from`, with its place.
    pub fn fifo(&mut self, from: usize) -> Option<Waiter> {
        debug_assert!(self.mode == TagWait::Fifo);
        self.lists[0].remove(from)
    }

    /// Fifo: puts a refused waiter back into its place.
    pub fn fifo_put_back(&mut self, at: usize, waiter: Waiter) {
        self.lists[0].insert(at, waiter);
    }

    pub fn is_fifo(&self) -> bool {
        self.mode == TagWait::Fifo
    }

    /// All waiters leave, woken ones that have not run yet excepted: they wait for something else.
    pub fn take_waiters(&mut self, out: &mut Vec<BioId>) {
        for list in &mut self.lists {
            self.waiting -= list.len() as u32;
            out.extend(list.drain(..).map(|waiter| waiter.bio));
        }
    }

    pub fn has_waiters(&self) -> bool {
        self.waiting > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Sectors;

    fn set(tags: u32, direct: bool, percent_min: Option<u32>) -> TagSet {
        let mut device = Device::new(Sectors(1 << 20), 32);
        device.nr_requests = tags;
        TagSet::new(&device, direct, percent_min)
    }

    fn take(set: &mut TagSet) -> Option<Tag> {
        set.take(0, None)
    }

    #[test]
    fn wake_batches_are_those_of_the_specification() {
        for (tags, batch) in [(16, 2), (31, 3), (32, 4), (64, 8), (1023, 8)] {
            assert_eq!(set(tags, true, None).batch, batch, "none, {tags} tags");
        }
        for (tags, batch) in [(4, 1), (32, 3), (62, 6), (64, 6), (256, 8)] {
            assert_eq!(set(tags, false, Some(75)).batch, batch, "kyber, {tags} tags");
        }
        for (tags, batch) in [(64, 1), (256, 1), (512, 1), (2048, 4)] {
            assert_eq!(set(tags, false, None).batch, batch, "bfq, {tags} tags");
        }
    }

    #[test]
    fn n_22_waiters_are_woken_by_credit_from_lists_in_turn() {
        let w = |n| Waiter::for_test(n);
        let mut set = set(16, true, None);
        while take(&mut set).is_some() {}
        for n in 0..3 {
            let list = set.draw_list();
            set.sleep(list, w(n));
        }
        let mut woken = VecDeque::new();
        set.free(0, 0, &mut woken);
        assert!(woken.is_empty());
        assert!(take(&mut set).is_some(), "a running task may take the freed tag");
        set.free(0, 0, &mut woken);
        assert_eq!(woken.len(), 1);
        assert_eq!(woken[0], w(0));
        assert_eq!((set.next_wake, set.credit), (1, 0));
        assert_eq!(set.draw_list(), 3);
        assert!(take(&mut set).is_some());
        assert_eq!(set.next_wait, 4);
    }

    /// A scheduler that announces three quarters of a word and gives one tag.
    #[test]
    fn a_depth_below_the_announced_one_strands_nobody() {
        let mut set = set(256, false, Some(75));
        assert_eq!(set.batch, 8);
        let mut held: VecDeque<Tag> = (0..4).map(|_| set.take(0, Some(1)).unwrap()).collect();
        let mut asleep = 0;
        for n in 0..20 {
            assert_eq!(set.take(0, Some(1)), None);
            let list = set.draw_list();
            set.sleep(list, Waiter::for_test(n));
            asleep += 1;
        }
        let mut woken = VecDeque::new();
        while let Some(tag) = held.pop_front() {
            set.free(0, tag, &mut woken);
            while woken.pop_front().is_some() {
                set.ran();
                held.push_back(set.take(0, Some(1)).unwrap());
                asleep -= 1;
            }
        }
        assert_eq!(asleep, 0);
    }
}
