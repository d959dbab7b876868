//! The order in which the blocks of a pass are visited.

use crate::rng::Rng;

/// An order of the blocks 0..n, each exactly once.
#[derive(Debug)]
pub(super) enum Order {
    /// Ascending.
    Ascending,
    /// As listed.
    Listed(Vec<u32>),
    /// The same of at most 2^16 blocks.
    Short(Box<[u16]>),
    /// Computed: a list of a whole device would take hundreds of megabytes per process.
    Computed(Shuffle),
}

impl Order {
    /// A random order of `count` blocks.
    pub fn random(count: u64, rng: &mut Rng) -> Order {
        Order::random_of(count, LISTED, rng)
    }

    /// The same with a list of at most `listed` blocks: where there may be thousands of them.
    pub fn random_of(count: u64, listed: u64, rng: &mut Rng) -> Order {
        if count > listed {
            return Order::Computed(Shuffle::new(count, rng));
        }
        match u16::try_from(count.saturating_sub(1)) {
            Ok(last) if count > 0 => {
                let mut order: Box<[u16]> = (0..=last).collect();
                shuffle(&mut order, rng);
                Order::Short(order)
            }
            _ => {
                let mut order: Vec<u32> = (0..count as u32).collect();
                shuffle(&mut order, rng);
                Order::Listed(order)
            }
        }
    }

    /// The `n`th block.
    pub fn block(&self, n: u64) -> u64 {
        match self {
            Order::Ascending => n,
            Order::Listed(order) => u64::from(order[n as usize]),
            Order::Short(order) => u64::from(order[n as usize]),
            Order::Computed(shuffle) => shuffle.block(n),
        }
    }
}

fn shuffle<T>(order: &mut [T], rng: &mut Rng) {
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// Longest list: 4 Mi blocks, 16 GiB in blocks of 4 KiB and 16 MiB of memory.
const LISTED: u64 = 1 << 22;

/// A pseudo-random permutation of 0..count without a list: a Feistel network over the next even number of
/// bits, applied again until the value falls inside (M. Luby, C. Rackoff, "How to Construct Pseudorandom
/// Permutations from Pseudorandom Functions", SIAM J. Comput. 17(2), 1988; J. Black, P. Rogaway, "Ciphers
/// with Arbitrary Finite Domains", CT-RSA 2002). At least a quarter of the values are inside, so that four
/// applications are needed on average at most.
#[derive(Debug)]
pub(super) struct Shuffle {
    count: u64,
    /// Bits of one half.
    half: u32,
    keys: [u64; 4],
}

impl Shuffle {
    pub fn new(count: u64, rng: &mut Rng) -> Shuffle {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let keys = [rng.bits(), rng.bits(), rng.bits(), rng.bits()];
        Shuffle { count, half: bits.div_ceil(2).max(1), keys }
    }

    pub fn block(&self, n: u64) -> u64 {
        debug_assert!(n < self.count);
        let mut x = n;
        loop {
            x = self.round_trip(x);
            if x < self.count {
                return x;
            }
        }
    }

    fn round_trip(&self, x: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (x >> self.half, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half) | right
    }
}

/// The finaliser of splitmix64.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn a_computed_order_visits_every_block_once() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            let shuffle = Shuffle::new(count, &mut stream(1, "order"));
            let mut seen: Vec<u64> = (0..count).map(|n| shuffle.block(n)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count} blocks");
        }
    }

    #[test]
    fn a_short_list_is_the_same_order_in_half_the_memory() {
        for count in [1u32, 2, 1000, 65_536, 65_537] {
            let (mut rng, mut same) = (stream(1, "order"), stream(1, "order"));
            let order = Order::random(u64::from(count), &mut rng);
            let mut plain: Vec<u32> = (0..count).collect();
            shuffle(&mut plain, &mut same);
            assert!((0..count).all(|n| order.block(n.into()) == u64::from(plain[n as usize])));
            assert_eq!(matches!(order, Order::Short(_)), count <= 65_536);
        }
    }

    #[test]
    fn a_computed_order_is_spread_over_the_whole_and_differs_by_process() {
        let count = LISTED + 1;
        let of = |name: &str| Order::random(count, &mut stream(1, name));
        let (a, b) = (of("load/0"), of("load/1"));
        let equal = (0..10_000).filter(|&n| a.block(n) == b.block(n)).count();
        assert!(equal < 3, "{equal} of 10000 blocks are the same");
        let mut tenths = [0u32; 10];
        (0..10_000).for_each(|n| tenths[(a.block(n) * 10 / count) as usize] += 1);
        // Standard deviation of a tenth: sqrt(10000 * 0.1 * 0.9) = 30; five of them.
        assert!(tenths.iter().all(|&n| n.abs_diff(1000) < 150), "{tenths:?}");
        let follows = (1..10_000).filter(|&n| a.block(n) == a.block(n - 1) + 1).count();
        assert!(follows < 3, "{follows} blocks follow the one before");
    }
}
