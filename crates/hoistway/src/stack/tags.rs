//! Tags of the multi-queue profile and the waits for them (specs/blk-mq-and-noop.md section 6).

use super::Waiter;
use crate::device::TagWait;
use alloc::collections::VecDeque;

/// Number of wait lists of a tag set.
const LISTS: usize = 8;

/// One set of tags: the scheduler tags of a hardware queue, or (`none`) the driver tags of the device.
///
/// `Kernel`: a freed tag is not reserved for anybody. Waiters are woken in batches from eight lists in
/// turn, retry, and may find that a running submitter took it first.
#[derive(Debug)]
pub(super) struct TagSet {
    size: u32,
    used: u32,
    mode: TagWait,
    batch: u32,
    credit: u32,
    next_wait: usize,
    next_wake: usize,
    /// Waiters on lists, plus woken ones that have not run yet.
    waiting: u32,
    lists: [VecDeque<Waiter>; LISTS],
}

impl TagSet {
    /// A set of `size` tags; `direct`: no scheduler divides them; `percent_min`: the smallest share of a
    /// word the scheduler may use.
    pub fn new(size: u32, mode: TagWait, direct: bool, percent_min: Option<u32>) -> TagSet {
        TagSet {
            size,
            used: 0,
            mode,
            batch: wake_batch(size, direct, percent_min),
            credit: 0,
            next_wait: 0,
            next_wake: 0,
            waiting: 0,
            lists: core::array::from_fn(|_| VecDeque::with_capacity(16)),
        }
    }

    /// Takes a tag if one is free and fewer than `limit` are taken.
    pub fn take(&mut self, limit: u32) -> bool {
        let free = self.used < self.size.min(limit);
        self.used += u32::from(free);
        free
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

    /// Frees a tag; the waiters to wake go to `woken`.
    pub fn free(&mut self, woken: &mut VecDeque<Waiter>) {
        self.used -= 1;
        if self.waiting == 0 {
            return;
        }
        if self.mode == TagWait::Fifo {
            // The stack walks the list and lets each limit decide.
            return;
        }
        self.credit += 1;
        if self.credit >= self.batch {
            self.credit -= self.batch;
            for _ in 0..LISTS {
                let list = self.next_wake;
                self.next_wake = (list + 1) % LISTS;
                if !self.lists[list].is_empty() {
                    let n = (self.batch as usize).min(self.lists[list].len());
                    woken.extend(self.lists[list].drain(..n));
                    break;
                }
            }
        }
        if self.used == 0 {
            // No tag is left whose release could wake anybody. With limits that follow the kernel's
            // this is unreachable while somebody sleeps; a scheduler that answers a smaller one
            // (AtMost(1) to many) must still not strand its waiters.
            for list in &mut self.lists {
                woken.extend(list.drain(..));
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

    pub fn has_waiters(&self) -> bool {
        self.waiting > 0
    }
}

/// batch = clamp(effective / 8, 1, 8). The tags form words of w = the largest power of two <= 64 with
/// 4 w <= tags; effective = the tags themselves without a scheduler, else the sum over the words of
/// min(bits in the word, smallest per-word limit the scheduler may use).
fn wake_batch(tags: u32, direct: bool, percent_min: Option<u32>) -> u32 {
    let effective = if direct {
        tags
    } else {
        let word = word_bits(tags);
        let limit = percent_min.map_or(1, |percent| word * percent / 100);
        (0..tags.div_ceil(word)).map(|i| (tags - i * word).min(word).min(limit)).sum()
    };
    (effective / 8).clamp(1, 8)
}

fn word_bits(tags: u32) -> u32 {
    let mut word = 64;
    while word > 1 && 4 * word > tags {
        word /= 2;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_batches_are_those_of_the_specification() {
        let none = [(16, 2), (31, 3), (32, 4), (64, 8), (1023, 8)];
        for (tags, batch) in none {
            assert_eq!(wake_batch(tags, true, None), batch, "none, {tags} tags");
        }
        // kyber: floor(0.75 w) per word. (The text names 5 for 62 tags; its own formula gives 6.)
        for (tags, batch) in [(32, 3), (64, 6), (256, 8)] {
            assert_eq!(wake_batch(tags, false, Some(75)), batch, "kyber, {tags} tags");
        }
        assert_eq!(wake_batch(256, false, None), 1);
    }

    #[test]
    fn n_22_waiters_are_woken_by_credit_from_lists_in_turn() {
        let w = |n| Waiter::for_test(n);
        let mut set = TagSet::new(16, TagWait::Kernel, true, None);
        while set.take(u32::MAX) {}
        for n in 0..3 {
            let list = set.draw_list();
            set.sleep(list, w(n));
        }
        let mut woken = VecDeque::new();
        set.free(&mut woken);
        assert!(woken.is_empty());
        assert!(set.take(u32::MAX), "a running task may take the freed tag");
        set.free(&mut woken);
        assert_eq!(woken.len(), 1);
        assert_eq!(woken[0], w(0));
        assert_eq!((set.next_wake, set.credit), (1, 0));
        assert_eq!(set.draw_list(), 3);
        assert!(set.take(u32::MAX));
        assert_eq!(set.next_wait, 4);
    }
}
