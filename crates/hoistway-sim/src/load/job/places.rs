//! Where the next call of a job lies in its region.
//!
//! In sequence each direction has a position of its own, as in fio; `run` calls in a row begin at a random
//! place. At random without a distribution every block is visited once before any is visited again, unless
//! sizes vary or that is not wanted: then places are drawn uniformly. With a distribution, ranks are drawn and
//! spread over the region by a permutation, so that popular blocks are not neighbours; a normal distribution
//! and zones keep their places.

use super::super::order::{Order, Shuffle};
use crate::rng::Rng;

/// Which blocks are popular.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Popularity {
    /// All alike.
    Uniform,
    /// The k-th most popular block with probability proportional to k^-theta.
    Zipf(f64),
    /// A share `1 - h` of the accesses goes to a share `h` of the blocks, and so on inside of it.
    Pareto(f64),
    /// Around the middle, with this standard deviation in percent of the region.
    Normal(f64),
    /// Percent of the accesses, percent of the region, zone behind zone.
    Zones(Vec<(u64, u64)>),
}

impl Popularity {
    /// `random`, `zipf:1.2`, `pareto:0.2`, `normal:20`, `zoned:60/10:30/20:10/70`.
    pub fn parse(text: &str) -> Result<Popularity, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let number = |low: f64, high: f64, without: f64| {
            let n: f64 = rest.parse().map_err(|_| format!("'{rest}' is not a number"))?;
            match n > low && n < high && n != without {
                true => Ok(n),
                false => {
                    Err(format!("{n}: choose a number above {low} and below {high}, not {without}"))
                }
            }
        };
        match kind {
            "random" if rest.is_empty() => Ok(Popularity::Uniform),
            "zipf" => number(0.0, 100.0, 1.0).map(Popularity::Zipf),
            "pareto" => number(0.0, 1.0, -1.0).map(Popularity::Pareto),
            "normal" => number(0.0, 100.000_001, -1.0).map(Popularity::Normal),
            "zoned" => zones(rest).map(Popularity::Zones),
            _ => {
                Err("choose random, zipf:THETA, pareto:H, normal:PERCENT or zoned:ACCESS/SIZE:..."
                    .into())
            }
        }
    }
}

fn zones(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let zone = |part: &str| {
        let (access, size) = part.split_once('/')?;
        Some((access.trim().parse().ok()?, size.trim().parse().ok()?))
    };
    let zones: Option<Vec<(u64, u64)>> = text.split(':').map(zone).collect();
    let sum = |of: fn(&(u64, u64)) -> u64, zones: &[(u64, u64)]| {
        zones.iter().map(of).try_fold(0u64, u64::checked_add)
    };
    zones
        .filter(|z| sum(|p| p.0, z) == Some(100) && sum(|p| p.1, z) == Some(100))
        .filter(|z| z.iter().all(|p| p.1 > 0))
        .ok_or_else(|| "zones are ACCESS/SIZE in whole percent, both summing up to 100".into())
}

/// How random places are found.
#[derive(Debug)]
enum Draw {
    /// Every block once per round: the order, and how far it is.
    Once {
        order: Order,
        next: u64,
    },
    Ranks {
        popularity: Popularity,
        spread: Shuffle,
    },
    /// Blocks are drawn, each time from all.
    Any(Popularity),
}

/// The places of a job's calls.
#[derive(Debug)]
pub(super) struct Places {
    /// Bytes of the region, and of the blocks that random places are multiples of.
    size: u64,
    align: u64,
    draw: Option<Draw>,
    /// Percent of the calls that are at random places.
    random: u64,
    /// Calls in a row from one random place on.
    run: u64,
    in_run: u64,
    /// Bytes left out behind each sequential call.
    hole: i64,
    /// Where the next sequential call of either direction begins.
    at: [u64; 2],
    rng: Rng,
}

/// What places follow from.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub size: u64,
    pub align: u64,
    pub random: u64,
    pub run: u64,
    pub hole: i64,
    pub popularity: Popularity,
    /// Every block once before any comes again.
    pub once: bool,
}

impl Places {
    pub fn new(plan: Plan, mut rng: Rng) -> Places {
        let blocks = (plan.size / plan.align).max(1);
        let draw = (plan.random > 0).then(|| match plan.popularity {
            Popularity::Uniform if plan.once => {
                Draw::Once { order: Order::random(blocks, &mut rng), next: 0 }
            }
            p @ (Popularity::Zipf(_) | Popularity::Pareto(_)) => {
                Draw::Ranks { popularity: p, spread: Shuffle::new(blocks, &mut rng) }
            }
            p => Draw::Any(p),
        });
        let Plan { size, align, random, run, hole, .. } = plan;
        Places { size, align, draw, random, run, in_run: 0, hole, at: [0, 0], rng }
    }

    /// A new pass over the region.
    pub fn restart(&mut self) {
        self.at = [0, 0];
        self.in_run = 0;
    }

    /// The offset of the next call, of `len` bytes, in the region.
    pub fn next(&mut self, write: bool, len: u64) -> u64 {
        let side = usize::from(write);
        let jumps = self.draw.is_some()
            && self.in_run == 0
            && (self.random >= 100 || self.rng.below(100) < self.random);
        if jumps {
            self.in_run = self.run;
            self.at[side] = self.random_block() * self.align;
        }
        if self.draw.is_some() {
            self.in_run = self.in_run.saturating_sub(1);
        }
        // What would cross the end begins anew.
        let mut at = self.at[side];
        if at + len > self.size {
            at = if jumps { (self.size - len) / self.align * self.align } else { 0 };
        }
        self.at[side] = (at + len).saturating_add_signed(self.hole);
        at
    }

    /// Calls in sequence from the current place of a direction, without a jump, at most `most`.
    pub fn stretch(&self, write: bool, len: u64, most: u64) -> u64 {
        if self.draw.is_some() || self.hole != 0 {
            return 1;
        }
        let at = self.at[usize::from(write)];
        let at = if at + len > self.size { 0 } else { at };
        ((self.size - at) / len).clamp(1, most.max(1))
    }

    /// Further calls follow the last one: `n` of them have been taken as well.
    pub fn skip(&mut self, write: bool, len: u64, n: u64) {
        self.at[usize::from(write)] += len * n;
    }

    fn random_block(&mut self) -> u64 {
        let blocks = (self.size / self.align).max(1);
        match self.draw.as_mut().expect("a jump is drawn") {
            Draw::Once { order, next } => {
                let block = order.block(*next);
                *next = (*next + 1) % blocks;
                block
            }
            Draw::Ranks { popularity: Popularity::Zipf(theta), spread } => {
                spread.block(zipf(*theta, blocks, &mut self.rng))
            }
            Draw::Ranks { popularity, spread } => {
                let Popularity::Pareto(h) = popularity else { unreachable!("the other one") };
                let power = libm::log(*h) / libm::log(1.0 - *h);
                let rank = libm::pow(self.rng.unit(), power) * blocks as f64;
                spread.block((rank as u64).min(blocks - 1))
            }
            Draw::Any(Popularity::Normal(percent)) => {
                let at = 0.5 + self.rng.normal() * *percent / 100.0;
                ((at.clamp(0.0, 1.0) * blocks as f64) as u64).min(blocks - 1)
            }
            Draw::Any(Popularity::Zones(zones)) => {
                let mut ball = self.rng.below(100);
                let mut begin = 0;
                for &(access, size) in zones.iter() {
                    if ball < access {
                        let from = blocks * begin / 100;
                        let to = (blocks * (begin + size) / 100).max(from + 1);
                        return (from + self.rng.below(to - from)).min(blocks - 1);
                    }
                    ball -= access;
                    begin += size;
                }
                unreachable!("the accesses come to 100 percent")
            }
            Draw::Any(_) => self.rng.below(blocks),
        }
    }
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

    fn plan(blocks: u64, popularity: Popularity) -> Plan {
        Plan {
            size: blocks * 4096,
            align: 4096,
            random: 100,
            run: 1,
            hole: 0,
            popularity,
            once: true,
        }
    }

    fn draw(plan: Plan, n: usize) -> Vec<u64> {
        let mut places = Places::new(plan, stream(1, "places"));
        (0..n).map(|_| places.next(false, 4096) / 4096).collect()
    }

    #[test]
    fn without_a_distribution_every_block_comes_once_per_round() {
        let mut seen = draw(plan(100, Popularity::Uniform), 200);
        seen.sort_unstable();
        assert!(seen.chunks(2).enumerate().all(|(i, pair)| pair == [i as u64, i as u64]));
        let any = draw(Plan { once: false, ..plan(100, Popularity::Uniform) }, 100);
        let mut once = any.clone();
        once.sort_unstable();
        once.dedup();
        // 100 draws of 100 hit 63 blocks on average.
        assert!((50..76).contains(&once.len()), "{}", once.len());
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
        let share = |picks: &[u64], of: &dyn Fn(u64) -> bool| {
            picks.iter().filter(|&&b| of(b)).count() as f64 / picks.len() as f64
        };
        let zones = Popularity::parse("zoned:60/10:30/20:10/70").unwrap();
        let picks = draw(plan(1000, zones), 20_000);
        assert!((share(&picks, &|b| b < 100) - 0.6).abs() < 0.02);
        assert!((share(&picks, &|b| (100..300).contains(&b)) - 0.3).abs() < 0.02);
        let picks = draw(plan(1000, Popularity::Normal(10.0)), 20_000);
        assert!((share(&picks, &|b| (400..600).contains(&b)) - 0.683).abs() < 0.02);
        // Pareto 0.2: 80 percent of the calls on 20 percent of the blocks.
        let picks = draw(plan(1000, Popularity::Pareto(0.2)), 40_000);
        let mut counts = vec![0u32; 1000];
        picks.iter().for_each(|&b| counts[b as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top: u32 = counts[..200].iter().sum();
        assert!((f64::from(top) / 40_000.0 - 0.8).abs() < 0.02, "{top}");
    }

    #[test]
    fn sequences_wrap_have_holes_and_keep_directions_apart() {
        let sequence = |hole| Plan { random: 0, hole, ..plan(4, Popularity::Uniform) };
        assert_eq!(draw(sequence(0), 6), [0, 1, 2, 3, 0, 1]);
        assert_eq!(draw(sequence(4096), 4), [0, 2, 0, 2]);
        let mut both = Places::new(sequence(0), stream(1, "x"));
        let at: Vec<u64> =
            [false, true, true, false].map(|w| both.next(w, 4096) / 4096).into_iter().collect();
        assert_eq!(at, [0, 0, 1, 1]);
        // Four calls in a row from each random place.
        let runs = draw(Plan { run: 4, ..plan(1_000_000, Popularity::Uniform) }, 400);
        let jumps = runs.windows(2).filter(|w| w[1] != w[0] + 1).count();
        assert_eq!(jumps, 99);
        let half = draw(Plan { random: 50, ..plan(1_000_000, Popularity::Uniform) }, 4000);
        let jumps = half.windows(2).filter(|w| w[1] != w[0] + 1).count();
        assert!((1800..2200).contains(&jumps), "{jumps}");
    }

    #[test]
    fn words_that_say_nothing_are_refused() {
        for text in [
            "zipf",
            "zipf:1",
            "zipf:x",
            "pareto:1",
            "normal:0",
            "zoned:50/50",
            "zoned:100/0",
            "best",
        ] {
            assert!(Popularity::parse(text).is_err(), "{text}");
        }
    }
}
