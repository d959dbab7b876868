//! The event queue: a fixed set of entities, each of which has at most one time at which it wants to be called.
//!
//! Ties go to the lower number, so the numbers are the order of things at one instant (specs/host.md
//! 1.2): drive, stack timers, journal, processes in order. Time and number share one word. Most processes of most
//! runs wait for I/O and for no time, so those that do are in a heap; nothing allocates after construction.

use hoistway::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Never. Runs are shorter.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX >> WHO);

/// Bits of a number, if that is enough: 65,536 entities, and 2^48 ns, 78 hours, of simulated time. More
/// entities take bits of the time.
const WHO: u32 = 16;

/// Most entities: 21 bits leave 2^43 ns, 2.4 hours.
pub(super) const MOST: usize = 1 << 21;

/// Bits of a number among so many entities.
fn bits(entities: usize) -> u32 {
    entities.next_power_of_two().trailing_zeros().max(WHO)
}

/// With so many entities this time and any later one counts as never.
pub(super) fn horizon(entities: usize) -> Instant {
    Instant::from_nanos(u64::MAX >> bits(entities))
}

/// The first entities, drive and timers, change their times with every command: they stand beside the heap.
const APART: usize = 2;

#[derive(Debug)]
pub(super) struct EventQueue {
    /// The key of each entity; `u64::MAX`: it waits for no time.
    keys: Vec<u64>,
    apart: [u64; APART],
    /// Keys of the others, the present ones and some that have been replaced; the first is a present one.
    heap: BinaryHeap<Reverse<u64>>,
    bits: u32,
    horizon: Instant,
}

impl EventQueue {
    pub fn new(entities: usize) -> EventQueue {
        assert!(entities <= MOST, "the world checks the number of processes");
        EventQueue {
            keys: vec![u64::MAX; entities],
            apart: [u64::MAX; APART],
            // With a rebuilt heap in it there is room for half as many more.
            heap: BinaryHeap::with_capacity(entities + entities / 2 + 8),
            bits: bits(entities),
            horizon: horizon(entities),
        }
    }

    /// The least key of the heap.
    #[inline]
    fn first(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |&Reverse(key)| key)
    }

    #[inline]
    fn who(&self, key: u64) -> usize {
        (key & ((1 << self.bits) - 1)) as usize
    }

    #[inline]
    fn key(&self, who: usize, at: Instant) -> u64 {
        if at >= self.horizon { u64::MAX } else { at.as_nanos() << self.bits | who as u64 }
    }

    /// The entity that is next, and when; nobody ever if the time is the horizon.
    #[inline]
    pub fn next(&self) -> (usize, Instant) {
        let key = self.first().min(self.apart[0]).min(self.apart[1]);
        (self.who(key), Instant::from_nanos(key >> self.bits))
    }

    /// Entity `who`, called at `at`, would be the next.
    #[inline]
    pub fn precedes(&self, who: usize, at: Instant) -> bool {
        self.key(who, at) < self.first().min(self.apart[0]).min(self.apart[1])
    }

    /// Entity `who` wants to be called at `at`, and at no other time.
    #[inline]
    pub fn set(&mut self, who: usize, at: Instant) {
        let key = self.key(who, at);
        if let Some(apart) = self.apart.get_mut(who) {
            *apart = key;
            return;
        }
        let old = std::mem::replace(&mut self.keys[who], key);
        if old != key {
            self.change(old, key);
        }
    }

    /// An entity has another key: the heap knows it, and begins with one that is in force.
    fn change(&mut self, old: u64, key: u64) {
        if key != u64::MAX {
            if self.heap.len() == self.heap.capacity() {
                self.heap.clear();
                self.heap.extend(self.keys.iter().filter(|&&k| k != u64::MAX).map(|&k| Reverse(k)));
            } else {
                self.heap.push(Reverse(key));
            }
        }
        if old != u64::MAX {
            while self.heap.peek().is_some_and(|&Reverse(k)| self.keys[self.who(k)] != k) {
                self.heap.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn the_earliest_comes_first_and_ties_go_to_the_lower_number() {
        let mut rng = stream(1, "events");
        // The last has wider numbers.
        for n in [1usize, 2, 5, 19, 64, 70_000] {
            let mut events = EventQueue::new(n);
            let mut plain = vec![NEVER; n];
            for _ in 0..if n > 64 { 200 } else { 2000 } {
                let who = rng.below(n as u64) as usize;
                let at = rng.below(20);
                let at = if at == 19 { NEVER } else { Instant::from_nanos(at) };
                events.set(who, at);
                plain[who] = at;
                let first = (0..n).min_by_key(|&i| (plain[i], i)).unwrap();
                if plain[first] == NEVER {
                    assert_eq!(events.next().1, horizon(n));
                } else {
                    assert_eq!(events.next(), (first, plain[first]));
                }
            }
        }
    }
}
