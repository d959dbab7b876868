//! Where choices come from: a seed, or the bytes of libFuzzer.

/// A stream of choices.
pub trait Source {
    /// A number below `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64;

    /// True once in `n` times.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T
    where
        Self: Sized,
    {
        of[self.below(of.len() as u64) as usize]
    }

    /// From `min` to `max`, all magnitudes alike: what lies near the lower end is as likely as what lies
    /// near the upper one.
    fn magnitude(&mut self, min: u64, max: u64) -> u64 {
        let span = max - min;
        let bits = u64::BITS - span.leading_zeros();
        let within = match self.below(u64::from(bits) + 1) {
            0 => 0,
            64 => u64::MAX,
            n => (1 << n) - 1,
        };
        match within.min(span) {
            u64::MAX => self.below(u64::MAX),
            most => min + self.below(most + 1),
        }
    }
}

/// xorshift64*, seeded through one step of splitmix64 so that neighbouring seeds have nothing in common.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(mix(seed) | 1)
    }
}

/// One step of splitmix64.
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Source for Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n
    }
}

/// Bytes as choices: as many as the number of alternatives needs, 0 behind the end.
#[derive(Clone, Debug)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { rest: bytes }
    }

    /// Every byte was used.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl Source for Bytes<'_> {
    fn below(&mut self, n: u64) -> u64 {
        let need = (u64::BITS - (n - 1).leading_zeros()).div_ceil(8) as usize;
        let (taken, rest) = self.rest.split_at(need.min(self.rest.len()));
        self.rest = rest;
        taken.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)) % n
    }
}
