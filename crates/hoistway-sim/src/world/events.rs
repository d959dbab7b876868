//! The event queue: a tournament tree over a fixed set of entities, each of which has at most one time at
//! which it wants to be called.
//!
//! Ties go to the lower number, so the numbers are the order of things at one instant (specs/host.md
//! 1.2): drive, stack timers, journal, processes in order. Time and number share one word, so setting a
//! time costs three minima per level of four, and the only branch is whether a subtree's first has changed;
//! nothing allocates after construction.

use hoistway::Instant;

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

/// Children of a node: half a line of the cache, and half the levels of a binary tree.
const WAYS: usize = 4;

#[derive(Debug)]
pub(super) struct EventQueue {
    /// Keys of four neighbours, from the leaves up to the root: the least of a node is one of its parent's.
    nodes: Vec<[u64; WAYS]>,
    /// Least key of the root.
    first: u64,
    /// Where each level but the leaves' begins.
    levels: Vec<usize>,
    bits: u32,
    horizon: Instant,
}

impl EventQueue {
    pub fn new(entities: usize) -> EventQueue {
        assert!(entities <= MOST, "the world checks the number of processes");
        let (mut nodes, mut levels, mut width) = (0, Vec::new(), entities);
        loop {
            width = width.div_ceil(WAYS).max(1);
            nodes += width;
            if width == 1 {
                break;
            }
            levels.push(nodes);
        }
        let (bits, horizon) = (bits(entities), horizon(entities));
        EventQueue { nodes: vec![[u64::MAX; WAYS]; nodes], first: u64::MAX, levels, bits, horizon }
    }

    /// The entity that is next, and when; nobody ever if the time is the horizon.
    #[inline]
    pub fn next(&self) -> (usize, Instant) {
        let key = self.first;
        ((key & ((1 << self.bits) - 1)) as usize, Instant::from_nanos(key >> self.bits))
    }

    /// Entity `who` wants to be called at `at`, and at no other time.
    #[inline]
    pub fn set(&mut self, who: usize, at: Instant) {
        let never = at >= self.horizon;
        let key = if never { u64::MAX } else { at.as_nanos() << self.bits | who as u64 };
        let mut leaf = who;
        let mut levels = self.levels.iter();
        let mut begin = 0;
        let mut key = key;
        loop {
            let node = &mut self.nodes[begin + leaf / WAYS];
            if node[leaf % WAYS] == key {
                return;
            }
            node[leaf % WAYS] = key;
            let [a, b, c, d] = *node;
            key = a.min(b).min(c.min(d));
            match levels.next() {
                Some(&next) => (begin, leaf) = (next, leaf / WAYS),
                None => break,
            }
        }
        self.first = key;
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
