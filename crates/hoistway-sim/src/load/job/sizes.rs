//! Sizes of a job's calls: one, a range, or a list with weights.

use crate::rng::Rng;
use hoistway::quantity;

/// The sizes of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    One(u64),
    /// Up to the second, all alike, in multiples of the first; the second itself need be none.
    Range(u64, u64),
    /// Size and weight; the weights come to `whole`.
    Split {
        parts: Vec<(u64, u64)>,
        whole: u64,
    },
}

impl Sizes {
    /// `4k`, `4k-64k`, or `4k/60:64k/40`.
    pub fn parse(text: &str) -> Result<Sizes, String> {
        let size = |text: &str| match quantity::bytes(text.trim()) {
            Ok(0) => Err("a size of 0".to_string()),
            Ok(n) if n > 1 << 30 => Err(format!("{n}: a call moves at most 1 GiB")),
            Ok(n) => Ok(n),
            Err(e) => Err(e.to_string()),
        };
        if text.contains('/') {
            let part = |part: &str| {
                let (of, weight) = part.split_once('/').ok_or("write SIZE/PERCENT:SIZE/PERCENT")?;
                let weight =
                    weight.trim().parse::<u32>().map_err(|_| format!("'{weight}': percent"))?;
                Ok((size(of)?, u64::from(weight)))
            };
            let parts: Result<Vec<(u64, u64)>, String> = text.split(':').map(part).collect();
            let mut parts = parts?;
            parts.retain(|p| p.1 > 0);
            let whole = parts.iter().map(|p| p.1).sum();
            return match whole {
                0 => Err("no size has a share".into()),
                whole => Ok(Sizes::Split { parts, whole }),
            };
        }
        match text.split_once('-') {
            None => size(text).map(Sizes::One),
            Some((from, to)) => match (size(from)?, size(to)?) {
                (from, to) if from == to => Ok(Sizes::One(from)),
                (from, to) if from < to => Ok(Sizes::Range(from, to)),
                _ => Err("a range goes from the smaller to the larger size".into()),
            },
        }
    }

    pub fn smallest(&self) -> u64 {
        self.all().min().expect("there is one")
    }

    pub fn largest(&self) -> u64 {
        self.all().max().expect("there is one")
    }

    /// The sizes that bound it, or all of them.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        let (ends, parts) = match self {
            Sizes::One(size) => ([*size, *size], &[][..]),
            Sizes::Range(from, to) => ([*from, *to], &[][..]),
            Sizes::Split { parts, .. } => ([parts[0].0; 2], &parts[..]),
        };
        ends.into_iter().chain(parts.iter().map(|p| p.0))
    }

    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Sizes::One(size) => *size,
            Sizes::Range(from, to) => (1 + rng.below(*to)).next_multiple_of(*from).min(*to),
            Sizes::Split { parts, whole } => {
                let mut ball = rng.below(*whole);
                for &(size, weight) in parts {
                    if ball < weight {
                        return size;
                    }
                    ball -= weight;
                }
                unreachable!("the weights come to the whole")
            }
        }
    }

    /// A size of at most `room` bytes, which is at least the smallest: others are drawn again.
    pub fn draw_within(&self, room: u64, rng: &mut Rng) -> u64 {
        let tries = (0..DRAWS).map(|_| self.draw(rng));
        tries.into_iter().find(|&size| size <= room).unwrap_or_else(|| self.smallest())
    }
}

/// Draws before the smallest size is taken, which may have a small share.
const DRAWS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    #[test]
    fn sizes_are_drawn_by_their_shares() {
        let mut rng = stream(1, "sizes");
        let split = Sizes::parse("4k/60:64k/40").unwrap();
        assert_eq!((split.smallest(), split.largest()), (4096, 65536));
        let small = (0..10_000).filter(|_| split.draw(&mut rng) == 4096).count();
        assert!((5750..6250).contains(&small), "{small}");
        let range = Sizes::parse("4k-16k").unwrap();
        let mut seen: Vec<u64> = (0..100).map(|_| range.draw(&mut rng)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [4096, 8192, 12288, 16384]);
        // As fio 3.33: 40, 40 and 20 percent.
        let odd = Sizes::parse("8k-20k").unwrap();
        let draws: Vec<u64> = (0..10_000).map(|_| odd.draw(&mut rng)).collect();
        for (size, share) in [(8192, 4000), (16384, 4000), (20480, 2000)] {
            let n = draws.iter().filter(|&&s| s == size).count();
            assert!(n.abs_diff(share) < 250, "{size}: {n}");
        }
        assert!((0..100).all(|_| odd.draw_within(18_000, &mut rng) <= 16384));
        let rare = Sizes::parse("4k/0:8k/1:1m/9999").unwrap();
        assert_eq!((rare.smallest(), rare.draw_within(8192, &mut rng)), (8192, 8192));
        assert_eq!(Sizes::parse("8k-8k"), Ok(Sizes::One(8192)));
        for bad in ["0", "2g", "4k/0", "4k/60:", "8k-4k", "x", "4k/60:8"] {
            assert!(Sizes::parse(bad).is_err(), "{bad}");
        }
    }
}
