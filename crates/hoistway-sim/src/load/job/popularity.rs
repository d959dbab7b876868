//! Which blocks of a region are popular.
//!
//! Zipf, Pareto and normal give a *rank*; ranks are spread over the region by a permutation, so that popular blocks
//! are not neighbours. A centre puts the first rank at a place of its own. Zones keep their places.

use super::super::order::Shuffle;
use crate::rng::Rng;
use hoistway::quantity;

/// How likely blocks are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Popularity {
    /// All alike.
    Uniform,
    /// By rank.
    Ranks(Ranks, Option<f64>),
    /// Percent of the accesses and where they go, zone behind zone.
    Zones(Vec<(u64, Length)>),
}

/// The probability of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ranks {
    /// The k-th most popular block with probability proportional to k^-theta.
    Zipf(f64),
    /// A share `1 - h` of the accesses goes to a share `h` of the blocks, and so on inside of it.
    Pareto(f64),
    /// Around the middle rank: the mean of twelve uniform ranks, a standard deviation of a twelfth of all, and a uniform
    /// deviation of this many percent. fio's own shape, which has no other parameter.
    Normal(f64),
}

/// Length of a zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    Percent(u64),
    Bytes(u64),
}

impl Length {
    fn bytes(self, size: u64) -> u64 {
        match self {
            Length::Percent(n) => (u128::from(size) * u128::from(n) / 100) as u64,
            Length::Bytes(n) => n,
        }
    }
}

impl Popularity {
    /// `random`, `zipf:1.2`, `zipf:1.2:0.25`, `pareto:0.2`, `normal:20`, `zoned:60/10:30/20:10/70`,
    /// `zoned_abs:60/1g:40/4g`.
    pub fn parse(text: &str) -> Result<Popularity, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (first, centre) = match rest.split_once(':') {
            Some((first, centre)) => (first, Some(centre)),
            None => (rest, None),
        };
        let number = |low: f64, high: f64, without: f64| {
            let n: f64 = first.parse().map_err(|_| format!("'{first}' is not a number"))?;
            match n >= low && n < high && n != without {
                true => Ok(n),
                false => {
                    Err(format!("{n}: choose a number from {low} to below {high}, not {without}"))
                }
            }
        };
        let ranks = match kind {
            "random" if rest.is_empty() => return Ok(Popularity::Uniform),
            "zoned" => return zones(rest, false),
            "zoned_abs" => return zones(rest, true),
            "zipf" => Ranks::Zipf(number(0.0, 100.0, 1.0)?),
            "pareto" => Ranks::Pareto(number(0.0, 1.0, 0.0)?),
            "normal" => Ranks::Normal(number(0.0, 100.0, -1.0)?),
            _ => {
                let kinds = "random, zipf:THETA, pareto:H, normal:PERCENT, zoned:ACCESS/SIZE:... or zoned_abs:...";
                return Err(format!("choose {kinds}"));
            }
        };
        let centre = centre.map(|text| match text.parse::<f64>() {
            Ok(n) if (0.0..=1.0).contains(&n) => Ok(n),
            _ => Err(format!("centre '{text}': choose a number from 0 to 1")),
        });
        Ok(Popularity::Ranks(ranks, centre.transpose()?))
    }

    /// Whether it can be drawn from in a region of `size` bytes.
    pub fn check(&self, size: u64) -> Result<(), String> {
        let Popularity::Zones(zones) = self else { return Ok(()) };
        let whole: u64 = zones.iter().map(|z| z.1.bytes(size)).sum();
        match whole > size {
            true => Err(format!("the zones come to {whole} bytes, the region has {size}")),
            false => Ok(()),
        }
    }

    /// A block of `blocks` in a region of `size` bytes; `spread` is a permutation of the blocks.
    pub fn draw(&self, size: u64, blocks: u64, spread: Option<&Shuffle>, rng: &mut Rng) -> u64 {
        let (ranks, centre) = match self {
            Popularity::Uniform => return rng.below(blocks),
            Popularity::Zones(zones) => return in_zone(zones, size, blocks, rng),
            Popularity::Ranks(ranks, centre) => (ranks, centre),
        };
        let spread = spread.expect("ranks are spread");
        let block = within(spread, ranks.draw(blocks, rng), blocks);
        match centre {
            None => block,
            // All move along, so that the first rank comes there.
            Some(centre) => {
                let first = ((centre * blocks as f64) as u64).min(blocks - 1);
                (block + blocks - within(spread, 0, blocks) + first) % blocks
            }
        }
    }
}

/// A permutation of the first `blocks` blocks made of one of at least as many: what leads out of them is led on, and
/// comes back since the permutation goes in circles. The blocks of a direction with larger calls are fewer.
fn within(spread: &Shuffle, rank: u64, blocks: u64) -> u64 {
    let mut block = spread.block(rank);
    while block >= blocks {
        block = spread.block(block);
    }
    block
}

impl Ranks {
    fn draw(self, n: u64, rng: &mut Rng) -> u64 {
        match self {
            Ranks::Zipf(theta) => zipf(theta, n, rng),
            Ranks::Pareto(h) => {
                let power = libm::log(h) / libm::log(1.0 - h);
                let rank = libm::pow(rng.unit(), power) * n as f64;
                (rank as u64).min(n - 1)
            }
            Ranks::Normal(percent) => {
                let middle = (0..12).map(|_| rng.unit()).sum::<f64>() / 12.0;
                let at = middle + (rng.unit() - 0.5) * percent / 100.0;
                // What leaves one end comes in at the other.
                (((at - libm::floor(at)) * n as f64) as u64).min(n - 1)
            }
        }
    }
}

fn zones(text: &str, absolute: bool) -> Result<Popularity, String> {
    let mut zones = Vec::new();
    for part in text.split(':') {
        let (access, length) =
            part.split_once('/').ok_or_else(|| format!("'{part}': write ACCESS/SIZE"))?;
        let access: u64 =
            access.trim().parse().map_err(|_| format!("'{access}': percent of the accesses"))?;
        let length = match absolute {
            true => quantity::bytes(length.trim()).map(Length::Bytes).map_err(|e| e.to_string())?,
            false => Length::Percent(
                length.trim().parse().map_err(|_| format!("'{length}': percent of the region"))?,
            ),
        };
        zones.push((access, length));
    }
    let sum = |of: fn(&(u64, Length)) -> u64| zones.iter().map(of).try_fold(0u64, u64::checked_add);
    if sum(|z| z.0) != Some(100) {
        return Err("the accesses of zones come to 100 percent".into());
    }
    let bytes = sum(|z| z.1.bytes(100));
    if bytes.is_none_or(|n| !absolute && n > 100) {
        return Err("the sizes of zones come to at most 100 percent".into());
    }
    if zones.iter().any(|z| z.0 > 0 && z.1.bytes(100) == 0) {
        return Err("a zone with accesses has a size".into());
    }
    Ok(Popularity::Zones(zones))
}

fn in_zone(zones: &[(u64, Length)], size: u64, blocks: u64, rng: &mut Rng) -> u64 {
    let mut ball = rng.below(100);
    let mut begin = 0;
    let block = |byte: u64| (u128::from(byte) * u128::from(blocks) / u128::from(size)) as u64;
    for &(access, length) in zones {
        let end = begin + length.bytes(size);
        if ball < access {
            let from = block(begin).min(blocks - 1);
            let to = block(end).clamp(from + 1, blocks);
            return from + rng.below(to - from);
        }
        ball -= access;
        begin = end;
    }
    unreachable!("the accesses come to 100 percent")
}

/// A rank below `n`, the k-th (from 1) with probability proportional to k^-theta, by rejection-inversion: no
/// sum over all ranks is needed (W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996).
fn zipf(theta: f64, n: u64, rng: &mut Rng) -> u64 {
    // H(x), the integral of x^-theta, and its inverse.
    let s = 1.0 - theta;
    let h = |x: f64| (libm::pow(x, s) - 1.0) / s;
    let inverse = |y: f64| libm::pow((1.0 + y * s).max(0.0), 1.0 / s);
    let mass = |k: f64| libm::pow(k, -theta);
    let (low, high) = (h(1.5) - 1.0, h(n as f64 + 0.5));
    loop {
        let u = high + rng.unit() * (low - high);
        let x = inverse(u);
        let k = libm::floor(x + 0.5).clamp(1.0, n as f64);
        if u >= h(k + 0.5) - mass(k) {
            return k as u64 - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    fn picks(text: &str, blocks: u64, n: usize) -> Vec<u64> {
        let popularity = Popularity::parse(text).unwrap();
        let size = blocks * 4096;
        popularity.check(size).unwrap();
        let mut rng = stream(3, "popularity");
        let spread = Shuffle::new(blocks, &mut rng);
        (0..n).map(|_| popularity.draw(size, blocks, Some(&spread), &mut rng)).collect()
    }

    /// The other direction's calls are smaller, and its blocks more: theirs is the permutation.
    #[test]
    fn blocks_of_larger_calls_lie_in_the_region_too() {
        let mut rng = stream(3, "popularity");
        let spread = Shuffle::new(60, &mut rng);
        for text in ["zipf:1.2", "zipf:1.2:0.25", "pareto:0.2", "normal:10"] {
            let popularity = Popularity::parse(text).unwrap();
            let draw = |_| popularity.draw(60 * 4096, 45, Some(&spread), &mut rng);
            assert!((0..2000).map(draw).all(|block| block < 45), "{text}");
        }
    }

    fn share(picks: &[u64], of: impl Fn(u64) -> bool) -> f64 {
        picks.iter().filter(|&&b| of(b)).count() as f64 / picks.len() as f64
    }

    /// How often each block comes, the most frequent first.
    fn counts(picks: &[u64], blocks: usize) -> Vec<u32> {
        let mut counts = vec![0u32; blocks];
        picks.iter().for_each(|&b| counts[b as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn zipf_ranks_have_their_probabilities() {
        let (n, theta, draws) = (1000u64, 1.2, 200_000);
        let mut rng = stream(3, "zipf");
        let mut counts = vec![0u32; n as usize];
        (0..draws).for_each(|_| counts[zipf(theta, n, &mut rng) as usize] += 1);
        let sum: f64 = (1..=n).map(|k| libm::pow(k as f64, -theta)).sum();
        for k in [1u64, 2, 10, 100] {
            let expected = f64::from(draws) * libm::pow(k as f64, -theta) / sum;
            let got = f64::from(counts[k as usize - 1]);
            // Five standard deviations of a Poisson count.
            assert!((got - expected).abs() < 5.0 * expected.sqrt(), "{k}: {got} of {expected}");
        }
    }

    #[test]
    fn the_other_distributions_put_calls_where_they_say() {
        let zoned = picks("zoned:60/10:30/20:10/70", 1000, 20_000);
        assert!((share(&zoned, |b| b < 100) - 0.6).abs() < 0.02);
        assert!((share(&zoned, |b| (100..300).contains(&b)) - 0.3).abs() < 0.02);
        // What no zone names is not touched.
        let part = picks("zoned_abs:60/1m:40/2m", 1024, 20_000);
        assert!((share(&part, |b| b < 256) - 0.6).abs() < 0.02);
        assert_eq!(share(&part, |b| b >= 768), 0.0);
        // Pareto 0.2: 80 percent of the calls on 20 percent of the blocks.
        let pareto = counts(&picks("pareto:0.2", 1000, 40_000), 1000);
        let top: u32 = pareto[..200].iter().sum();
        assert!((f64::from(top) / 40_000.0 - 0.8).abs() < 0.02, "{top}");
        // Normal: a third of the calls on the middle sd of the ranks, which lie anywhere. Figures of fio 3.33.
        let normal = picks("normal:1", 4096, 40_960);
        let mut sum = 0.0;
        let within = |n: &u32| {
            sum += f64::from(*n);
            sum < 0.3829 * 40_960.0
        };
        let blocks = counts(&normal, 4096).into_iter().take_while(within).count();
        assert!((300..360).contains(&blocks), "{blocks}");
        assert!((share(&normal, |b| b < 2048) - 0.5).abs() < 0.1);
    }

    #[test]
    fn a_centre_is_where_the_first_rank_lies() {
        let zipf = picks("zipf:1.2:0.25", 4096, 20_000);
        assert!((share(&zipf, |b| b == 1024) - 0.215).abs() < 0.02);
        assert!((share(&picks("pareto:0.2:1", 4096, 20_000), |b| b == 4095) - 0.315).abs() < 0.02);
        // The second is not its neighbour.
        assert!(share(&zipf, |b| b == 1025) < 0.05);
    }

    #[test]
    fn words_that_say_nothing_are_refused() {
        for text in [
            "zipf",
            "zipf:1",
            "zipf:x",
            "zipf:1.2:2",
            "pareto:1",
            "pareto:0",
            "normal:100",
            "zoned:50/50",
            "zoned:100/0",
            "zoned:50/60:50/60",
            "zoned_abs:100/x",
            "best",
        ] {
            assert!(Popularity::parse(text).is_err(), "{text}");
        }
        let zones = Popularity::parse("zoned_abs:50/12m:50/12m").unwrap();
        assert!(zones.check(16 << 20).is_err() && zones.check(24 << 20).is_ok());
    }
}
