//! The requests of one start-up, generated from a profile (specs/experiments.md 6.2).
//!
//! Everything that the profile counts or gives as a share is dealt from a shuffled deck of exactly that
//! composition instead of being thrown anew for every request: the order is random, the sums are those
//! of the trace for every seed, and repetitions differ less.

use super::profile::Profile;
use crate::rng::Rng;
use hoistway::Nanos;
use std::collections::BTreeMap;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// Data: R.
    Data,
    /// Metadata that somebody waits for: RM.
    Meta,
    /// Metadata read ahead: RA.
    Ahead,
}

/// One request of a start-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the process in the profile.
    pub actor: usize,
    /// What is read.
    pub kind: ReadKind,
    /// Bytes.
    pub len: u64,
    /// It goes on where the last request of its process ended.
    pub follows: bool,
    /// Computing before it, on the processor of the trace.
    pub think: Nanos,
}

/// The start-up without places.
pub fn generate(profile: &Profile, rng: &mut Rng) -> Vec<Request> {
    let reads = synchronous(profile, rng);
    let mut bursts = burst_lengths(&reads, profile, rng);
    let total = reads.len() as u64 + bursts.iter().sum::<u64>();
    let turns = turns(profile);
    let mut chain: Vec<Request> = Vec::with_capacity(total as usize);
    let (mut turn, mut begun) = (0, vec![false; profile.actors.len()]);
    for (mut read, burst) in reads.into_iter().zip(bursts.drain(..)) {
        // A turn ends with the share of its process; none is skipped.
        if turn + 1 < turns.len() && chain.len() as f64 >= turns[turn].1 * total as f64 {
            turn += 1;
        }
        read.actor = turns[turn].0;
        read.follows &= std::mem::replace(&mut begun[read.actor], true);
        chain.push(read);
        let ahead = Request {
            kind: ReadKind::Ahead,
            len: BLOCK,
            follows: true,
            think: Nanos::ZERO,
            ..read
        };
        chain.extend((0..burst).map(|_| ahead));
    }
    chain
}

/// Data and metadata reads in their random order, not yet given to processes.
fn synchronous(profile: &Profile, rng: &mut Rng) -> Vec<Request> {
    let n = profile.reads + profile.metas;
    let kinds = [(ReadKind::Data, profile.reads as u64), (ReadKind::Meta, profile.metas as u64)];
    let kinds = deck(&kinds, n, rng);
    let follow = profile.follow_percent;
    let follows = deck(&[(true, follow), (false, 100 - follow)], n, rng);
    let classes: Vec<_> = profile.sizes.iter().map(|&(lo, hi, share)| ((lo, hi), share)).collect();
    let mut sizes = deck(&classes, profile.reads, rng).into_iter();
    let thinks = deck(&[(Think::Short, 90), (Think::Long, 9), (Think::Pause, 1)], n, rng);
    let mut read = |i: usize| {
        let len = match kinds[i] {
            ReadKind::Data => {
                let (lo, hi) = sizes.next().expect("the deck holds a size for every data read");
                (lo + 4 * rng.below((hi - lo) / 4 + 1)) * 1024
            }
            _ => BLOCK,
        };
        let think = Nanos(thinks[i].draw(rng) as u64);
        Request { actor: 0, kind: kinds[i], len, follows: follows[i], think }
    };
    (0..n).map(&mut read).collect()
}

/// Computing before a read, in nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Think {
    Short,
    Long,
    Pause,
}

impl Think {
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Think::Short => rng.exponential(150e3),
            Think::Long => rng.exponential(1.5e6),
            Think::Pause => rng.range(20e6, 100e6),
        }
    }
}

/// For every read the length of the burst behind it; only metadata reads that jump have one.
fn burst_lengths(reads: &[Request], profile: &Profile, rng: &mut Rng) -> Vec<u64> {
    let jumps = reads.iter().filter(|r| r.kind == ReadKind::Meta && !r.follows).count();
    let with = profile.bursts.min(jumps) as u64;
    let mut has = deck(&[(true, with), (false, jumps as u64 - with)], jumps, rng).into_iter();
    let mut full = deck(&[(true, 80), (false, 20)], with as usize, rng).into_iter();
    let mut length = |r: &Request| {
        let jump = r.kind == ReadKind::Meta && !r.follows;
        if !jump || has.next() != Some(true) {
            return 0;
        }
        if full.next() == Some(true) { BURST } else { 1 + rng.below(BURST - 1) }
    };
    reads.iter().map(&mut length).collect()
}

/// Who acts after whom, with the share of all requests that is done when the turn ends. Everybody has a
/// turn, the large shares have more, and nobody follows himself.
fn turns(profile: &Profile) -> Vec<(usize, f64)> {
    let shares: Vec<u64> = profile.actors.iter().map(|a| a.share).collect();
    let count = profile.handovers + 1;
    assert!(count >= shares.len(), "every process of a profile acts");
    let mut left = vec![1u64; shares.len()];
    for _ in shares.len()..count {
        // One more than anybody else has is as many as can be kept apart.
        let next = (0..shares.len())
            .filter(|&i| (0..shares.len()).any(|j| j != i && left[j] >= left[i]))
            .max_by_key(|&i| (shares[i] / left[i], std::cmp::Reverse(i)));
        left[next.expect("whoever has fewest turns may have one more")] += 1;
    }
    let (parts, whole) = (left.clone(), shares.iter().sum::<u64>() as f64);
    let (mut turns, mut done) = (Vec::with_capacity(count), 0.0);
    while turns.len() < count {
        for i in 0..shares.len() {
            if left[i] > 0 {
                left[i] -= 1;
                done += shares[i] as f64 / parts[i] as f64 / whole;
                turns.push((i, done));
            }
        }
    }
    turns
}

/// Places on a drive of `capacity` bytes: regions of 128 MiB hold everything; a request that cannot go
/// on where the last one ended, because that was read before, jumps instead.
pub fn place(chain: &mut [Request], profile: &Profile, capacity: u64, rng: &mut Rng) -> Vec<u64> {
    let blocks = (capacity - REGION) / BLOCK + 1;
    let regions: Vec<u64> = (0..profile.regions).map(|_| rng.below(blocks) * BLOCK).collect();
    let mut map = Map { capacity, regions, used: BTreeMap::new() };
    let mut last: Vec<Option<Spot>> = vec![None; profile.actors.len()];
    let mut starts = Vec::with_capacity(chain.len());
    for i in 0..chain.len() {
        let burst = chain[i + 1..].iter().take_while(|r| r.kind == ReadKind::Ahead).count() as u64;
        let request = &mut chain[i];
        let len = request.len;
        // A read and the burst behind it find their room together.
        let room = if request.kind == ReadKind::Ahead { len } else { len + burst * BLOCK };
        let before = last[request.actor];
        let next = before.filter(|s| request.follows && map.free(s.end, room));
        let (start, region) = match next {
            Some(spot) => (spot.end, spot.region),
            None => {
                request.follows = false;
                map.jump(before, room, rng)
            }
        };
        map.used.insert(start, start + len);
        last[request.actor] = Some(Spot { start, end: start + len, region });
        starts.push(start);
    }
    starts
}

/// Where a process has read last.
#[derive(Clone, Copy, Debug)]
struct Spot {
    start: u64,
    end: u64,
    region: usize,
}

struct Map {
    capacity: u64,
    /// First bytes, the most visited first.
    regions: Vec<u64>,
    /// What has been read: start to end.
    used: BTreeMap<u64, u64>,
}

impl Map {
    fn free(&self, start: u64, len: u64) -> bool {
        let before = self.used.range(..start + len).next_back();
        start + len <= self.capacity && before.is_none_or(|(_, &end)| end <= start)
    }

    /// With probability 0.3 32 to 128 MiB away inside the region, else anywhere in another one.
    fn jump(&self, before: Option<Spot>, len: u64, rng: &mut Rng) -> (u64, usize) {
        for _ in 0..TRIES {
            let near = before.filter(|_| rng.unit() < 0.3);
            let (start, region) = match near {
                Some(spot) => (self.near(spot, rng), spot.region),
                None => self.far(before, rng),
            };
            let inside = start + len <= self.regions[region] + REGION;
            if inside && self.free(start, len) {
                return (start, region);
            }
        }
        panic!("{TRIES} places of {len} bytes in {} regions are taken", self.regions.len())
    }

    fn near(&self, spot: Spot, rng: &mut Rng) -> u64 {
        let base = self.regions[spot.region];
        // A run of sequential reads may have left its region.
        let at = (spot.start - base) % REGION;
        let exponent = rng.range(5.0, 7.0);
        let by = (libm::exp2(exponent) * (1u64 << 20) as f64) as u64 / BLOCK * BLOCK;
        // Where one direction leads out of the region, the other is taken, or the way round.
        let up = rng.below(2) == 0;
        base + match (up, at + by < REGION, at >= by) {
            (true, true, _) | (false, true, false) => at + by,
            (_, _, true) => at - by,
            _ => (at + by) % REGION,
        }
    }

    /// Another region, the k-th with a weight of 1/k, and a uniform place in it.
    fn far(&self, before: Option<Spot>, rng: &mut Rng) -> (u64, usize) {
        let weight = |i: usize| match before {
            Some(spot) if spot.region == i => 0.0,
            _ => 1.0 / (i + 1) as f64,
        };
        let all: f64 = (0..self.regions.len()).map(weight).sum();
        let mut point = rng.unit() * all;
        let mut region = 0;
        for i in 0..self.regions.len() {
            if weight(i) > 0.0 {
                region = i;
                if point < weight(i) {
                    break;
                }
                point -= weight(i);
            }
        }
        (self.regions[region] + rng.below(REGION / BLOCK) * BLOCK, region)
    }
}

/// `n` cards in random order, their kinds in the given proportions; what is left by rounding down goes
/// to the largest remainders.
fn deck<T: Copy>(parts: &[(T, u64)], n: usize, rng: &mut Rng) -> Vec<T> {
    let whole = parts.iter().map(|p| p.1).sum::<u64>().max(1);
    let share = |i: usize| n as u64 * parts[i].1;
    let mut counts: Vec<u64> = (0..parts.len()).map(|i| share(i) / whole).collect();
    let mut by_rest: Vec<usize> = (0..parts.len()).collect();
    by_rest.sort_by_key(|&i| std::cmp::Reverse(share(i) % whole));
    let missing = n - counts.iter().sum::<u64>() as usize;
    by_rest.into_iter().take(missing).for_each(|i| counts[i] += 1);
    let mut cards: Vec<T> = Vec::with_capacity(n);
    for (part, count) in parts.iter().zip(counts) {
        cards.extend((0..count).map(|_| part.0));
    }
    for i in (1..cards.len()).rev() {
        cards.swap(i, rng.below(i as u64 + 1) as usize);
    }
    cards
}

/// A block of the file system.
pub const BLOCK: u64 = 4096;
/// Length of a region.
pub const REGION: u64 = 128 << 20;
/// Blocks that a full burst reads ahead.
const BURST: u64 = 31;
/// Places that a jump tries; the regions are more than half free, so that 2^-1000 bounds the chance that
/// all are taken.
const TRIES: u32 = 1000;
