//! Who is next: a winner tree over a fixed set of entities, each of which has at most one time at which
//! it wants to be called.
//!
//! Ties go to the lower number, so the numbers are the order of things at one instant (specs/host.md
//! 1.2): drive, stack timers, journal, processes in order. Setting a time costs one comparison per
//! level; nothing allocates after construction.

use hoistway::Instant;

/// Never.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[derive(Debug)]
pub(super) struct Wheel {
    times: Vec<Instant>,
    /// Winner of each subtree; node 1 is the root, the leaves begin at `times.len()`.
    winners: Vec<u32>,
}

impl Wheel {
    pub fn new(entities: usize) -> Wheel {
        let leaves = entities.next_power_of_two().max(2);
        let mut winners = vec![0; 2 * leaves];
        for (i, w) in winners[leaves..].iter_mut().enumerate() {
            *w = i as u32;
        }
        for node in (1..leaves).rev() {
            winners[node] = winners[2 * node];
        }
        Wheel { times: vec![NEVER; leaves], winners }
    }

    /// The entity that is next, and when.
    #[inline]
    pub fn next(&self) -> (usize, Instant) {
        let winner = self.winners[1] as usize;
        (winner, self.times[winner])
    }

    /// Entity `who` wants to be called at `at`, and at no other time.
    #[inline]
    pub fn set(&mut self, who: usize, at: Instant) {
        if self.times[who] == at {
            return;
        }
        self.times[who] = at;
        let mut node = (self.times.len() + who) / 2;
        while node > 0 {
            let (l, r) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let left = self.times[l as usize] <= self.times[r as usize];
            self.winners[node] = if left { l } else { r };
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn the_earliest_comes_first_and_ties_go_to_the_lower_number() {
        let mut rng = stream(1, "wheel");
        for n in [1usize, 2, 5, 19, 64] {
            let mut wheel = Wheel::new(n);
            let mut plain = vec![NEVER; n];
            for _ in 0..2000 {
                let who = rng.below(n as u64) as usize;
                let at = Instant::from_nanos(rng.below(20));
                wheel.set(who, at);
                plain[who] = at;
                let first = (0..n).min_by_key(|&i| (plain[i], i)).unwrap();
                assert_eq!(wheel.next(), (first, plain[first]));
            }
        }
    }
}
