//! Barriers: points that no process passes before all have come (specs/experiments.md, W7).
//!
//! Who comes early sleeps and is woken by the last, as by pthread_barrier_wait; the last goes on at once. A
//! barrier is made anew with each round. A process that exits without coming keeps the others for ever:
//! loads of one barrier come to it equally often.

use super::op::{Act, BarrierId};
use super::wait::{Sleepers, Wait};
use hoistway::Instant;

#[derive(Debug)]
struct Barrier {
    name: String,
    /// How many have joined.
    parties: usize,
    /// Who has come and sleeps.
    waiting: Vec<usize>,
}

/// All barriers of the host.
#[derive(Debug, Default)]
pub(super) struct Barriers(Vec<Barrier>);

impl Barriers {
    /// One more process takes part in the barrier of that name.
    pub fn join(&mut self, name: &str) -> BarrierId {
        let found = self.0.iter().position(|b| b.name == name);
        let at = found.unwrap_or_else(|| {
            self.0.push(Barrier { name: name.to_string(), parties: 0, waiting: Vec::new() });
            self.0.len() - 1
        });
        self.0[at].parties += 1;
        BarrierId(at as u32)
    }

    /// How many have joined so far.
    pub fn parties(&self, barrier: BarrierId) -> u64 {
        self.0[barrier.0 as usize].parties as u64
    }

    /// The same of every barrier.
    pub fn all_parties(&self) -> Vec<u32> {
        self.0.iter().map(|barrier| barrier.parties as u32).collect()
    }

    /// Process `p` has come. It sleeps unless it is the last, who wakes the others.
    pub fn arrive(
        &mut self,
        now: Instant,
        barrier: BarrierId,
        p: usize,
        sleepers: &mut Sleepers,
    ) -> Option<Act> {
        let barrier = &mut self.0[barrier.0 as usize];
        if barrier.waiting.len() + 1 < barrier.parties {
            barrier.waiting.push(p);
            sleepers.block(now, p, Wait::Barrier);
            // No I/O is waited for: nobody starts the device's queue for it.
            return Some(Act::Rest);
        }
        barrier.waiting.drain(..).for_each(|other| sleepers.wake(now, other));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway::Nanos;

    #[test]
    fn the_last_of_each_round_wakes_the_others() {
        let at = |us| Instant::ZERO + Nanos::us(us);
        let mut sleepers = Sleepers::new(Nanos::us(2));
        let mut barriers = Barriers::default();
        (0..4).for_each(|_| sleepers.add());
        let ids: Vec<BarrierId> = (0..3).map(|_| barriers.join("a")).collect();
        let other = barriers.join("b");
        assert!(ids.iter().all(|&id| id == ids[0] && id != other));
        for round in 0..2 {
            let now = at(10 + round * 10);
            for p in [2, 0] {
                let act = barriers.arrive(now, ids[0], p, &mut sleepers);
                assert!(matches!(act, Some(Act::Rest)));
                assert_eq!((sleepers.wait(p), sleepers.take_woken()), (Wait::Barrier, None));
            }
            // Alone at its own: nobody to wait for.
            assert!(barriers.arrive(now, other, 3, &mut sleepers).is_none());
            let later = now + Nanos::us(5);
            assert!(barriers.arrive(later, ids[0], 1, &mut sleepers).is_none());
            let woken = [sleepers.take_woken(), sleepers.take_woken(), sleepers.take_woken()];
            let then = later + Nanos::us(2);
            assert_eq!(woken, [Some((0, then)), Some((2, then)), None]);
        }
        assert_eq!(sleepers.waited(2), (Nanos::ZERO, Nanos::ZERO), "no I/O was waited for");
    }
}
