//! One bit per block: is it in the overlay?

/// Blocks that are in the overlay. What was never set takes no memory: the words begin as untouched
/// zeroes of the system.
#[derive(Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: u64,
}

/// Bits per page.
pub(super) const PAGE_BITS: u64 = 8 * PAGE as u64;
/// Bytes that are stored at once.
pub(super) const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

impl Bits {
    pub fn new(len: u64) -> Bits {
        Bits { words: vec![0; len.div_ceil(PAGE_BITS) as usize * WORDS], len }
    }

    /// Sets the bits from `from` up to `to`.
    pub fn set(&mut self, from: u64, to: u64) {
        assert!(from <= to && to <= self.len, "the range lies in the device");
        let mut at = from;
        while at < to {
            let stop = to.min((at / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (stop - at))) << (at % 64);
            self.words[(at / 64) as usize] |= mask;
            at = stop;
        }
    }

    /// Is the bit `from` set, and where does that end (at `to` at the latest)?
    pub fn run(&self, from: u64, to: u64) -> (bool, u64) {
        assert!(from < to && to <= self.len, "the range lies in the device");
        let word = |at: u64| self.words[(at / 64) as usize];
        let set = word(from) >> (from % 64) & 1 == 1;
        let mut at = from;
        while at < to {
            // Ones where the kind changes.
            let others = if set { !word(at) } else { word(at) } >> (at % 64);
            if others != 0 {
                return (set, to.min(at + u64::from(others.trailing_zeros())));
            }
            at = (at / 64 + 1) * 64;
        }
        (set, to)
    }

    /// The bytes of a page, least significant bit first.
    pub fn page(&self, page: usize, into: &mut [u8]) {
        for (word, bytes) in self.words[page * WORDS..].iter().zip(into.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Takes the bytes of a page; bits behind the end do not count.
    pub fn load(&mut self, page: usize, bytes: &[u8]) {
        for (word, bytes) in self.words[page * WORDS..].iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_sim::rng::stream;

    #[test]
    fn runs_are_those_of_a_slow_model() {
        let len = 1000;
        let (mut bits, mut model) = (Bits::new(len), vec![false; len as usize]);
        let mut random = stream(1, "bits");
        let mut below = |n: u64| random.below(n);
        for _ in 0..40 {
            let from = below(len);
            let to = (from + below(70)).min(len);
            bits.set(from, to);
            model[from as usize..to as usize].fill(true);
            for _ in 0..50 {
                let from = below(len);
                let to = from + 1 + below(len - from);
                let kind = model[from as usize];
                let run = model[from as usize..to as usize].iter().take_while(|b| **b == kind);
                assert_eq!(bits.run(from, to), (kind, from + run.count() as u64));
            }
        }
        let mut page = [0; PAGE];
        bits.page(0, &mut page);
        let mut copy = Bits::new(len);
        copy.load(0, &page);
        assert_eq!(copy.words, bits.words);
    }
}
