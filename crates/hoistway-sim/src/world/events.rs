//! The event queue: a fixed set of entities, each of which has at most one time at which it wants to be called.
//!
//! Ties go to the lower number, so the numbers are the order of things at one instant (specs/host.md
//! 1.2): drive, stack timers, journal, processes in order. Time and number share one word. Most processes of most
//! runs wait for I/O and for no time, so those that do are in a heap; nothing allocates after construction.
//!
//! Whoever is called stays the first of the heap until it has said when it wants to be called again: its new key takes
//! the place of the old one, and is not far from it.

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

/// The first entities, drive and timers, change their times with every command: they stand beside the heap.
const APART: usize = 2;

#[derive(Debug)]
pub(super) struct EventQueue {
    /// The key of each entity; `u64::MAX`: it waits for no time.
    keys: Vec<u64>,
    apart: [u64; APART],
    /// Keys of the others, the present ones and some that have been replaced; the first is a present one. A heap of
    /// fan-out four, which has half the levels of a binary one: the children of `n` are `4 n + 1` to `4 n + 4`. They are looked
    /// at together, so the length is one more than a multiple of four; unused places hold `u64::MAX`.
    heap: Vec<u64>,
    /// How many keys it has.
    len: usize,
    /// So many of them have been replaced.
    replaced: usize,
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
            heap: vec![u64::MAX; (entities + entities / 2 + 8).next_multiple_of(4) + 1],
            len: 0,
            replaced: 0,
            bits: bits(entities),
            horizon: horizon(entities),
        }
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
        let key = self.heap[0].min(self.apart[0]).min(self.apart[1]);
        (self.who(key), Instant::from_nanos(key >> self.bits))
    }

    /// The least key of all but entity `who`, which is not apart; or one that is less and has been replaced.
    #[inline]
    fn least_but(&self, who: usize) -> u64 {
        let apart = self.apart[0].min(self.apart[1]);
        match self.heap[..] {
            [first, a, b, c, d, ..] if first == self.keys[who] => apart.min(a).min(b).min(c).min(d),
            [first, ..] => apart.min(first),
            [] => apart,
        }
    }

    /// Nobody but entity `who`, which is not apart, is next before then.
    #[inline]
    pub fn next_but(&self, who: usize) -> Instant {
        Instant::from_nanos(self.least_but(who) >> self.bits)
    }

    /// Entity `who`, which is not apart, would be the next if it were called at `at`. It may be so where this says false.
    #[inline]
    pub fn precedes(&self, who: usize, at: Instant) -> bool {
        self.key(who, at) < self.least_but(who)
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
    #[inline(never)]
    fn change(&mut self, old: u64, key: u64) {
        if old == u64::MAX || self.heap[0] != old {
            self.replaced += usize::from(old != u64::MAX);
            if key != u64::MAX {
                self.push(key);
            }
            return;
        }
        if key == u64::MAX {
            self.drop_first();
        } else {
            self.sink(key);
        }
        while self.replaced > 0 && self.keys[self.who(self.heap[0])] != self.heap[0] {
            self.drop_first();
            self.replaced -= 1;
        }
    }

    fn push(&mut self, key: u64) {
        if self.len == self.heap.len() {
            return self.rebuild();
        }
        let mut at = self.len;
        self.len += 1;
        while at > 0 {
            let above = (at - 1) / 4;
            if self.heap[above] < key {
                break;
            }
            self.heap[at] = self.heap[above];
            at = above;
        }
        self.heap[at] = key;
    }

    /// The heap has the present keys alone.
    #[cold]
    fn rebuild(&mut self) {
        self.heap.fill(u64::MAX);
        let present = self.keys.iter().filter(|&&key| key != u64::MAX);
        (self.len, self.replaced) = (present.clone().count(), 0);
        self.heap.iter_mut().zip(present).for_each(|(place, &key)| *place = key);
        // What is in order is a heap.
        self.heap.sort_unstable();
    }

    /// The first of the heap is gone.
    fn drop_first(&mut self) {
        self.len -= 1;
        let last = std::mem::replace(&mut self.heap[self.len], u64::MAX);
        if self.len > 0 {
            self.sink(last);
        }
    }

    /// `key` takes the place of the first of the heap.
    #[inline]
    fn sink(&mut self, key: u64) {
        let mut at = 0;
        // Mostly few wait for a time, and the unused places behind them need not be compared.
        while 4 * at + 1 < self.len
            && let Some(&[a, b, c, d]) = self.heap.get(4 * at + 1..4 * at + 5)
        {
            let (left, n) = if b < a { (b, 1) } else { (a, 0) };
            let (right, m) = if d < c { (d, 3) } else { (c, 2) };
            let (least, n) = if right < left { (right, m) } else { (left, n) };
            if key <= least {
                break;
            }
            self.heap[at] = least;
            at = 4 * at + 1 + n;
        }
        self.heap[at] = key;
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
                if who >= APART {
                    let other =
                        (0..n).filter(|&i| i != who).min_by_key(|&i| (plain[i], i)).unwrap();
                    let told = events.next_but(who);
                    let other_at = plain[other].min(horizon(n));
                    assert!(told == other_at || told < other_at && events.replaced > 0);
                    let at = Instant::from_nanos(rng.below(20));
                    assert!(!events.precedes(who, at) || (at, who) < (plain[other], other));
                }
                if plain[first] == NEVER {
                    assert_eq!(events.next().1, horizon(n));
                } else {
                    assert_eq!(events.next(), (first, plain[first]));
                }
            }
        }
    }
}
