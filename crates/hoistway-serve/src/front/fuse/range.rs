//! Byte ranges on a device of blocks: which blocks a range touches, which of them only in part, and who
//! may change them at the same time.
//!
//! A block of which only some bytes are written is read, changed and written back. Between the read and
//! the write nobody else may change the block, or his bytes would be lost: such a range is *claimed*
//! alone, every other change in common. What is claimed in common may overlap, as writes under way at a
//! disk may. Claims are granted in the order of asking, so that nobody waits for ever.

/// A range of bytes, cut at the borders of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// First byte.
    pub start: u64,
    /// Behind the last byte; never before `start`.
    pub end: u64,
    /// Bytes per block.
    pub block: u64,
}

impl Span {
    /// First byte of the first block touched.
    pub fn outer_start(self) -> u64 {
        self.start / self.block * self.block
    }

    /// Behind the last block touched.
    pub fn outer_end(self) -> u64 {
        self.end.next_multiple_of(self.block)
    }

    /// The blocks that are touched as a whole; empty ranges begin where they end.
    pub fn inner(self) -> (u64, u64) {
        let first = self.start.next_multiple_of(self.block);
        (first, (self.end / self.block * self.block).max(first))
    }

    /// The first bytes of the blocks that are touched in part: none, one, or the first and the last.
    pub fn partial(self) -> [Option<u64>; 2] {
        let (first, last) = (self.outer_start(), self.end / self.block * self.block);
        if self.start == self.end {
            return [None; 2];
        }
        let head = !self.start.is_multiple_of(self.block);
        let same = head && first == last;
        let tail = !same && !self.end.is_multiple_of(self.block);
        [head.then_some(first), tail.then_some(last)]
    }

    /// It begins and ends at borders.
    pub fn is_aligned(self) -> bool {
        self.start.is_multiple_of(self.block) && self.end.is_multiple_of(self.block)
    }
}

/// Who changes what at the moment. A claim is known by its owner's number.
#[derive(Debug, Default)]
pub(super) struct Claims {
    held: Vec<Claim>,
    waiting: Vec<Claim>,
    /// Claims among both that are alone.
    alone: usize,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    owner: u32,
    start: u64,
    end: u64,
    alone: bool,
}

impl Claim {
    fn excludes(&self, other: &Claim) -> bool {
        (self.alone || other.alone) && self.start < other.end && other.start < self.end
    }
}

impl Claims {
    /// Claims the blocks of a span; true if they may be changed now, else `release` says when.
    pub fn claim(&mut self, owner: u32, span: Span, alone: bool) -> bool {
        let claim = Claim { owner, start: span.outer_start(), end: span.outer_end(), alone };
        self.alone += usize::from(alone);
        // The usual case: nobody is alone, so nobody is in the way.
        let free = self.alone == 0
            || !self.held.iter().chain(&self.waiting).any(|other| other.excludes(&claim));
        let list = if free { &mut self.held } else { &mut self.waiting };
        list.push(claim);
        free
    }

    /// Gives a claim up; adds the owners whose turn has come to `granted`, in the order of asking.
    pub fn release(&mut self, owner: u32, granted: &mut Vec<u32>) {
        let Some(at) = self.held.iter().position(|c| c.owner == owner) else { return };
        let gone = self.held.swap_remove(at);
        self.alone -= usize::from(gone.alone);
        let mut at = 0;
        while at < self.waiting.len() {
            let claim = self.waiting[at];
            // Only whom it excluded can be free now.
            let mut before = self.held.iter().chain(&self.waiting[..at]);
            if !gone.excludes(&claim) || before.any(|other| other.excludes(&claim)) {
                at += 1;
            } else {
                self.waiting.remove(at);
                self.held.push(claim);
                granted.push(claim.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_sim::rng::stream;

    fn span(start: u64, end: u64) -> Span {
        Span { start, end, block: 512 }
    }

    #[test]
    fn a_span_knows_whole_blocks_and_parts_of_blocks() {
        let cases = [
            // start, end: outer, inner, partial blocks
            ((0, 1024), (0, 1024), (0, 1024), [None, None]),
            ((1, 1024), (0, 1024), (512, 1024), [Some(0), None]),
            ((0, 1023), (0, 1024), (0, 512), [None, Some(512)]),
            ((1, 1023), (0, 1024), (512, 512), [Some(0), Some(512)]),
            ((5, 9), (0, 512), (512, 512), [Some(0), None]),
            ((512, 700), (512, 1024), (512, 512), [None, Some(512)]),
            ((700, 1024), (512, 1024), (1024, 1024), [Some(512), None]),
            ((100, 5000), (0, 5120), (512, 4608), [Some(0), Some(4608)]),
            ((512, 512), (512, 512), (512, 512), [None, None]),
            ((100, 100), (0, 512), (512, 512), [None, None]),
        ];
        for ((start, end), outer, inner, partial) in cases {
            let s = span(start, end);
            assert_eq!((s.outer_start(), s.outer_end()), outer, "{s:?}");
            assert_eq!(s.inner(), inner, "{s:?}");
            assert_eq!(s.partial(), partial, "{s:?}");
        }
    }

    #[test]
    fn whoever_changes_part_of_a_block_is_alone_there() {
        let mut claims = Claims::default();
        let mut granted = Vec::new();
        assert!(claims.claim(1, span(0, 1024), false));
        assert!(claims.claim(2, span(512, 2048), false), "in common");
        assert!(!claims.claim(3, span(600, 700), true), "2 writes there");
        assert!(claims.claim(4, span(2048, 2050), true), "nobody is there");
        assert!(!claims.claim(5, span(512, 1024), false), "3 came before");
        assert!(claims.claim(6, span(0, 512), false), "3 is elsewhere");
        claims.release(1, &mut granted);
        assert!(granted.is_empty(), "2 still writes");
        claims.release(2, &mut granted);
        assert_eq!(granted, [3]);
        granted.clear();
        claims.release(3, &mut granted);
        assert_eq!(granted, [5]);
        for owner in [4, 5, 6] {
            claims.release(owner, &mut granted);
        }
        assert!(claims.held.is_empty() && claims.waiting.is_empty());
        assert_eq!(claims.alone, 0);
    }

    /// Random claims against the rule itself: no two held claims exclude each other, each claim is
    /// granted once and in the end all are.
    #[test]
    fn claims_exclude_each_other_and_all_are_granted() {
        let mut random = stream(7, "claims");
        let mut random = move |below: u64| random.below(below);
        for _ in 0..50 {
            let mut claims = Claims::default();
            let mut held: Vec<u32> = Vec::new();
            let mut granted = Vec::new();
            let mut seen = 0;
            for owner in 0..200 {
                let start = random(20 * 512);
                let s = span(start, start + 1 + random(3000));
                if claims.claim(owner, s, !s.is_aligned()) {
                    held.push(owner);
                    seen += 1;
                }
                while held.len() > 8 || (owner == 199 && !held.is_empty()) {
                    let gone = held.swap_remove(random(held.len() as u64) as usize);
                    claims.release(gone, &mut granted);
                    seen += granted.len();
                    held.append(&mut granted);
                    for (n, a) in claims.held.iter().enumerate() {
                        assert!(!claims.held[..n].iter().any(|b| a.excludes(b)));
                    }
                }
            }
            assert_eq!(seen, 200);
            assert!(claims.waiting.is_empty());
        }
    }
}
