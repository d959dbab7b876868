//! The event queue: a tournament tree over a fixed set of entities, each of which has at most one time at
//! which it wants to be called.
//!
//! Ties go to the lower number, so the numbers are the order of things at one instant (specs/host.md
//! 1.2): drive, stack timers, journal, processes in order. Time and number share one word, so setting a
//! time costs a minimum per level and no branch that could be guessed wrong; nothing allocates after
//! construction.

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

#[derive(Debug)]
pub(super) struct EventQueue {
    /// Least key of each subtree; node 1 is the root, the leaves begin in the middle.
    keys: Vec<u64>,
    bits: u32,
    horizon: Instant,
}

impl EventQueue {
    pub fn new(entities: usize) -> EventQueue {
        assert!(entities <= MOST, "the world checks the number of processes");
        let leaves = entities.next_power_of_two().max(2);
        let (bits, horizon) = (bits(entities), horizon(entities));
        EventQueue { keys: vec![u64::MAX; 2 * leaves], bits, horizon }
    }

    /// The entity that is next, and when; nobody ever if the time is the horizon.
    #[inline]
    pub fn next(&self) -> (usize, Instant) {
        let key = self.keys[1];
        ((key & ((1 << self.bits) - 1)) as usize, Instant::from_nanos(key >> self.bits))
    }

    /// Entity `who` wants to be called at `at`, and at no other time.
    #[inline]
    pub fn set(&mut self, who: usize, at: Instant) {
        let never = at >= self.horizon;
        let key = if never { u64::MAX } else { at.as_nanos() << self.bits | who as u64 };
        let mut node = self.keys.len() / 2 + who;
        if self.keys[node] == key {
            return;
        }
        self.keys[node] = key;
        while node > 1 {
            node /= 2;
            self.keys[node] = self.keys[2 * node].min(self.keys[2 * node + 1]);
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
