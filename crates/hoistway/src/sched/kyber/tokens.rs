//! The tokens of one domain: numbers 0 .. depth-1, device-wide (specs/kyber.md section 5, "Get token").

/// Words of numbers; their size is fixed by the initial depth, so that there are always four.
const WORDS: u32 = 4;

/// Which numbers are held, and how many there are.
///
/// A token is granted iff a number *below the depth* is free. Numbers at or above a depth that has shrunk do
/// not count any more although requests still hold them, so for a while more than `depth` requests may
/// be out (scenario K-17).
///
/// Numbered, in words, with a hint: in the kernel a bitmap over several cache lines, from which processors
/// take and to which they return without a common counter. That is why a shrunk depth ignores held
/// numbers instead of counting them.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    max: u32,
    depth: u32,
    /// log2 of the numbers per word.
    shift: u32,
    /// Where the next search begins.
    hint: u32,
    held: [u64; WORDS as usize],
    outstanding: u32,
}

impl Tokens {
    /// `max` tokens, all free; at most 256, a power of two.
    pub const fn new(max: u32) -> Tokens {
        assert!(max.is_power_of_two() && max >= WORDS && max <= 64 * WORDS);
        let shift = (max / WORDS).trailing_zeros();
        Tokens { max, depth: max, shift, hint: 0, held: [0; WORDS as usize], outstanding: 0 }
    }

    pub fn depth(&self) -> u32 {
        self.depth
    }

    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Takes a free number, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<u16> {
        // A hint the depth has shrunk below counts as 0 (in the kernel: a random number below the depth).
        let hint = if self.hint < self.depth { self.hint } else { 0 };
        let mut word = hint >> self.shift;
        let mut free = self.free(word);
        if free == 0 {
            let Some(other) = self.search_on(word) else {
                self.hint = 0;
                return None;
            };
            word = other;
            free = self.free(word);
        }
        let number = (word << self.shift) + free.trailing_zeros();
        self.hint = if number != hint {
            hint
        } else if hint + 1 >= self.depth - 1 {
            0
        } else {
            hint + 1
        };
        // Marks the lowest free number as held.
        self.held[word as usize] |= free & free.wrapping_neg();
        self.outstanding += 1;
        Some(number as u16)
    }

    /// The free numbers of a word, as its bits.
    #[inline]
    fn free(&self, word: u32) -> u64 {
        let numbers = (self.depth - (word << self.shift)).min(1 << self.shift);
        !self.held[word as usize] & (u64::MAX >> (64 - numbers))
    }

    /// The first word behind `from`, and round again, that has a free number.
    #[inline(never)]
    fn search_on(&self, from: u32) -> Option<u32> {
        let words = self.depth.div_ceil(1 << self.shift);
        (from + 1..words).chain(0..from).find(|&word| self.free(word) != 0)
    }

    /// Gives a number back.
    #[inline]
    pub fn release(&mut self, number: u16) {
        let number = u32::from(number);
        let bit = self.bit(number);
        let word = &mut self.held[(number >> self.shift) as usize];
        assert!(*word & bit != 0, "token {number} is released once");
        *word &= !bit;
        self.outstanding -= 1;
        if number < self.depth {
            self.hint = number;
        }
    }

    /// depth * (p + 1) / 4, rounded down, between 1 and the initial depth; true if it changed.
    ///
    /// In proportion: at half the target half the depth suffices, at twice the target it takes double.
    pub fn resize(&mut self, p: u8) -> bool {
        let depth = ((self.depth * (u32::from(p) + 1)) >> 2).clamp(1, self.max);
        core::mem::replace(&mut self.depth, depth) != depth
    }

    fn bit(&self, number: u32) -> u64 {
        1 << (number & ((1 << self.shift) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at_depth(max: u32, depth: u32) -> Tokens {
        Tokens { depth, ..Tokens::new(max) }
    }

    #[test]
    fn k3_a_depth_is_multiplied_by_quarters_and_clamped() {
        let cases = [
            (256, 256, 3, 256),
            (128, 128, 0, 32),
            (256, 100, 2, 75),
            (256, 100, 4, 125),
            (128, 10, 7, 20),
            (128, 100, 7, 128),
            (256, 1, 0, 1),
            (256, 3, 0, 1),
            // Small depths stick (section 6).
            (256, 1, 6, 1),
            (256, 1, 7, 2),
            (256, 2, 4, 2),
            (256, 2, 5, 3),
        ];
        for (max, depth, p, want) in cases {
            let mut tokens = at_depth(max, depth);
            assert_eq!(tokens.resize(p), depth != want);
            assert_eq!(tokens.depth(), want, "depth {depth}, p99 in bucket {p}");
        }
    }

    #[test]
    fn numbers_come_in_ascending_order_and_run_out() {
        let mut tokens = at_depth(16, 5);
        let taken: Vec<_> = (0..6).map(|_| tokens.take()).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), Some(3), Some(4), None]);
        tokens.release(3);
        assert_eq!((tokens.take(), tokens.take(), tokens.outstanding()), (Some(3), None, 5));
    }

    #[test]
    fn the_search_begins_in_the_word_of_the_hint() {
        // Words of four numbers. All are out; 9 comes back first, then 2: the hint is 2.
        let mut tokens = Tokens::new(16);
        (0..16).for_each(|n| assert_eq!(tokens.take(), Some(n)));
        tokens.release(9);
        tokens.release(2);
        assert_eq!(tokens.take(), Some(2));
        // The hint moved on to 3, its word is full, the next words follow cyclically.
        assert_eq!(tokens.take(), Some(9));
        tokens.release(1);
        tokens.release(14);
        assert_eq!(tokens.take(), Some(14), "the word of the number released last");
        // 14 was exactly the hint and 15 is depth - 1: back to 0.
        assert_eq!(tokens.take(), Some(1));
    }

    #[test]
    fn a_number_above_a_shrunk_depth_is_no_hint() {
        let mut tokens = Tokens::new(16);
        (0..16).for_each(|_| assert!(tokens.take().is_some()));
        assert!(tokens.resize(1));
        assert_eq!(tokens.depth(), 8);
        tokens.release(12);
        assert_eq!(tokens.take(), None);
        tokens.release(5);
        assert_eq!(tokens.take(), Some(5));
        assert_eq!(tokens.outstanding(), 15, "more are out than the depth");
    }

    #[test]
    fn k17_after_a_shrink_only_a_number_below_the_depth_is_granted() {
        let mut tokens = at_depth(128, 40);
        (0..32).for_each(|n| assert_eq!(tokens.take(), Some(n)));
        assert!(tokens.resize(2));
        assert_eq!((tokens.depth(), tokens.take()), (30, None));
        tokens.release(31);
        assert_eq!(tokens.take(), None);
        tokens.release(7);
        assert_eq!((tokens.take(), tokens.outstanding()), (Some(7), 31));
    }

    /// The number taken and the hint afterwards; all `held` are out.
    fn take_at(depth: u32, hint: u32, held: &[u32]) -> (Option<u16>, u32) {
        let mut tokens = Tokens { hint, ..at_depth(16, depth) };
        held.iter().for_each(|&n| tokens.held[(n / 4) as usize] |= 1 << (n % 4));
        (tokens.take(), tokens.hint)
    }

    #[test]
    fn the_hint_moves_on_when_it_was_free_and_begins_anew_at_the_end() {
        assert_eq!(take_at(16, 4, &[]), (Some(4), 5));
        assert_eq!(take_at(16, 5, &[]), (Some(4), 5), "another of its word was free: it stays");
        assert_eq!(take_at(16, 13, &[12]), (Some(13), 14));
        assert_eq!(take_at(16, 14, &[12, 13]), (Some(14), 0), "15 is depth - 1");
        assert_eq!(take_at(1, 0, &[]), (Some(0), 0));
        assert_eq!(take_at(8, 8, &[]), (Some(0), 1), "a hint that is no number counts as 0");
        assert_eq!(take_at(8, 5, &[0, 1, 2, 3, 4, 5, 6, 7]), (None, 0));
    }

    #[test]
    fn a_released_number_is_the_next_hint_if_it_is_below_the_depth() {
        for (number, hint) in [(7, 7), (8, 3), (9, 3)] {
            let mut tokens = Tokens { hint: 3, outstanding: 1, ..at_depth(16, 8) };
            tokens.held[usize::from(number) / 4] = 1 << (number % 4);
            tokens.release(number);
            assert_eq!(tokens.hint, hint);
        }
    }

    #[test]
    fn any_order_of_release_keeps_numbers_unique() {
        let mut tokens = Tokens::new(64);
        let mut held: Vec<u16> = Vec::new();
        let mut x = 1u32;
        for _ in 0..20_000 {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            match (x >> 16) % 5 {
                0..=2 => {
                    let below = (0..tokens.depth as u16).any(|n| !held.contains(&n));
                    let got = tokens.take();
                    assert_eq!(
                        got.is_some(),
                        below,
                        "granted iff a number below the depth is free"
                    );
                    if let Some(n) = got {
                        assert!(u32::from(n) < tokens.depth && !held.contains(&n));
                        held.push(n);
                    }
                }
                3 if !held.is_empty() => {
                    let at = (x >> 20) as usize % held.len();
                    tokens.release(held.swap_remove(at));
                }
                _ => {
                    tokens.resize(((x >> 20) % 8) as u8);
                    assert!((1..=64).contains(&tokens.depth()));
                }
            }
            assert_eq!(tokens.outstanding() as usize, held.len());
        }
    }
}
