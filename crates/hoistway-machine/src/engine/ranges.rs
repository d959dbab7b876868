//! A set of byte ranges.

/// Disjoint ranges in ascending order, from a byte to the one behind the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds [from, to).
    pub fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        let touching = |&(a, b): &(u64, u64)| a <= to && from <= b;
        let first = self.0.iter().position(touching);
        match first {
            None => {
                let at = self.0.partition_point(|&(a, _)| a < from);
                self.0.insert(at, (from, to));
            }
            Some(first) => {
                let last = self.0.iter().rposition(touching).expect("the first is one");
                from = from.min(self.0[first].0);
                to = to.max(self.0[last].1);
                self.0.splice(first..=last, [(from, to)]);
            }
        }
    }

    /// What of [from, to) is not in the set.
    pub fn missing(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut at, mut missing) = (from, Vec::new());
        for &(a, b) in self.0.iter().filter(|&&(_, b)| b > from) {
            if a >= to {
                break;
            }
            if a > at {
                missing.push((at, a));
            }
            at = at.max(b);
        }
        if at < to {
            missing.push((at, to));
        }
        missing
    }

    /// Bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(a, b)| b - a).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_tell_what_is_missing() {
        let mut ranges = Ranges::default();
        ranges.add(10, 20);
        ranges.add(40, 50);
        ranges.add(30, 30);
        assert_eq!(ranges.missing(0, 100), [(0, 10), (20, 40), (50, 100)]);
        assert_eq!(ranges.missing(12, 45), [(20, 40)]);
        assert_eq!(ranges.missing(12, 18), []);
        assert_eq!(ranges.missing(20, 30), [(20, 30)]);
        ranges.add(20, 25);
        assert_eq!((ranges.0.len(), ranges.bytes()), (2, 25));
        ranges.add(5, 60);
        assert_eq!(ranges, Ranges(vec![(5, 60)]));
        ranges.add(0, 1);
        ranges.add(100, 101);
        assert_eq!(ranges.0, [(0, 1), (5, 60), (100, 101)]);
    }
}
