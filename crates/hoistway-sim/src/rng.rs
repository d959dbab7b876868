//! Named random streams: one seed per run, split by purpose, so that a new consumer does not shift the
//! old ones. xoshiro256++ seeded by splitmix64 (drives.md 1); values are the same on every platform.

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// One stream.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

/// The stream called `name` of the run seeded with `seed`.
pub fn stream(seed: u64, name: &str) -> Rng {
    // FNV-1a over the name, then splitmix64 over the combination.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut mixer = SplitMix64::seed_from_u64(seed ^ hash.rotate_left(32));
    Rng(Xoshiro256PlusPlus::seed_from_u64(mixer.next_u64()))
}

impl Rng {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [lo, hi).
    pub fn range(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * self.unit()
    }

    /// Uniform in 0..n (n > 0), by 128-bit multiplication.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// One of a list that is not empty.
    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Standard normal (Box-Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let r = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        r * libm::cos(core::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_independent_of_each_other_and_repeat() {
        let draw = |name: &str| (0..4).map(|_| stream(1, name).bits()).collect::<Vec<_>>();
        assert_eq!(draw("drive/seek"), draw("drive/seek"));
        assert_ne!(draw("drive/seek"), draw("layout"));
        let mut r = stream(7, "x");
        assert!((0..1000).all(|_| r.below(3) < 3));
    }
}
