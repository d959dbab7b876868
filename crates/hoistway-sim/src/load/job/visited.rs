//! Which blocks of a region a pass has visited.
//!
//! A tree of words: a bit of the lowest level is a block, a bit of a higher level says that all 64 bits below it are
//! set. The next free block is found in as many steps as there are levels, also when almost all are taken, as at the
//! end of every pass. One bit per block, and an eighth of a percent more: 32 MiB for a terabyte in blocks of 4 KiB, of
//! which the system gives only the pages that are touched.

/// The blocks 0..n, each visited or not.
#[derive(Debug)]
pub(super) struct Visited {
    blocks: u64,
    levels: Vec<Vec<u64>>,
}

impl Visited {
    /// None of `blocks` is visited.
    pub fn new(blocks: u64) -> Visited {
        let mut levels = Vec::new();
        let mut bits = blocks.max(1);
        loop {
            let words = bits.div_ceil(64);
            let mut level = vec![0u64; words as usize];
            // What is behind the end counts as visited, so that the last word can be full.
            if !bits.is_multiple_of(64) {
                level[words as usize - 1] = u64::MAX << (bits % 64);
            }
            levels.push(level);
            if words == 1 {
                return Visited { blocks, levels };
            }
            bits = words;
        }
    }

    /// All are free again.
    pub fn clear(&mut self) {
        *self = Visited::new(self.blocks);
    }

    pub fn contains(&self, block: u64) -> bool {
        self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// The first free block from `block` on, and behind the last one from the beginning.
    pub fn free_from(&self, block: u64) -> Option<u64> {
        self.free_behind(block).or_else(|| self.free_behind(0))
    }

    fn free_behind(&self, block: u64) -> Option<u64> {
        let mut at = block;
        for level in 0..self.levels.len() {
            let free = !*self.levels[level].get((at / 64) as usize)? & (u64::MAX << (at % 64));
            if free == 0 {
                at = at / 64 + 1;
                continue;
            }
            let down = |at: u64, level: &Vec<u64>| {
                at * 64 + u64::from((!level[at as usize]).trailing_zeros())
            };
            let found = at / 64 * 64 + u64::from(free.trailing_zeros());
            return Some(self.levels[..level].iter().rev().fold(found, down));
        }
        None
    }

    /// Visits blocks from `first` on, at most `most`, up to one that has been visited; how many.
    pub fn visit(&mut self, first: u64, most: u64) -> u64 {
        let mut done = 0;
        while done < most && first + done < self.blocks {
            let at = first + done;
            let (word, bit) = ((at / 64) as usize, at % 64);
            let free = u64::from((self.levels[0][word] >> bit).trailing_zeros()).min(64 - bit);
            let n = free.min(most - done);
            if n == 0 {
                break;
            }
            self.levels[0][word] |= (u64::MAX >> (64 - n)) << bit;
            self.fill_up(word as u64);
            done += n;
            if n < 64 - bit {
                break;
            }
        }
        done
    }

    /// A word of the lowest level has changed.
    fn fill_up(&mut self, mut word: u64) {
        for level in 1..self.levels.len() {
            if self.levels[level - 1][word as usize] != u64::MAX {
                return;
            }
            self.levels[level][(word / 64) as usize] |= 1 << (word % 64);
            word /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    /// Beside a plain list, over sizes at and around the borders of words and levels.
    #[test]
    fn it_agrees_with_a_list() {
        for blocks in [1u64, 2, 63, 64, 65, 127, 4095, 4096, 4097, 9000] {
            let mut rng = stream(blocks, "visited");
            let mut tree = Visited::new(blocks);
            let mut list = vec![false; blocks as usize];
            while list.contains(&false) {
                let from = rng.below(blocks);
                let free = |from: usize| list[from..].iter().position(|v| !v).map(|i| from + i);
                let expected = free(from as usize).or_else(|| free(0)).map(|b| b as u64);
                assert_eq!(tree.free_from(from), expected, "{blocks} from {from}");
                let (first, most) = (rng.below(blocks), 1 + rng.below(200));
                let run = list[first as usize..].iter().take(most as usize);
                let run = run.take_while(|v| !**v).count();
                assert_eq!(tree.visit(first, most), run as u64, "{blocks} at {first}, {most}");
                list[first as usize..first as usize + run].fill(true);
                assert!((0..blocks).all(|b| tree.contains(b) == list[b as usize]));
            }
            assert_eq!((tree.free_from(0), tree.visit(0, 5)), (None, 0));
            tree.clear();
            assert_eq!(tree.free_from(blocks - 1), Some(blocks - 1));
        }
    }
}
