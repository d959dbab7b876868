//! Where the next call of a job lies: which of its files, where in it, and how long.
//!
//! As fio does it (3.33, observed by its iolog; the program's tests hold the two side by side):
//!
//! - In sequence each direction has a position of its own in each file. Where no call fits any more the file is done;
//!   in a job that fills its time it goes on at the beginning. A hole that leads over the end does so too. On a device
//!   the last call begins before the end of the region, and may end behind it.
//! - At random, every block is visited once: a block is drawn, and if it has been visited the next free one behind it is
//!   taken. A size that would reach into a visited block is cut there. When no block is left the file is done. The
//!   map counts blocks of the direction's smallest size: where the directions differ, so do their maps.
//! - Without a map, with a distribution or with an alignment, blocks are drawn each time from all, without an end.
//! - `run` calls in a row begin at a random place; they look at no map, and what would cross the end is a new place.
//! - Sequential calls between random ones (`random` below 100) are not marked in the map: their blocks come again.
//! - A size that does not fit in front of the end is drawn again.
//!
//! One size, nothing in a row: a permutation of the blocks takes the place of the map. It has the same property and no
//! run of neighbours towards the end of a pass.

use super::super::order::{Order, Shuffle};
use super::popularity::Popularity;
use super::region::Region;
use super::sizes::Sizes;
use super::turns::FileTurns;
use super::visited::Visited;
use crate::rng::Rng;

/// What places follow from. Of pairs the first is for reads.
#[derive(Clone, Debug)]
pub(super) struct PlacePlan {
    pub sizes: [Sizes; 2],
    /// Random places are multiples of it.
    pub align: [u64; 2],
    /// Percent of the calls that are at random places.
    pub random: [u64; 2],
    /// Calls in a row from one random place on, and whether they stay at it.
    pub run: u64,
    pub same: bool,
    /// Bytes left out behind each sequential call; below zero it goes backwards.
    pub hole: i64,
    pub popularity: [Popularity; 2],
    /// How visited blocks are known.
    pub once: Once,
    /// The job goes on until its time is over.
    pub endless: bool,
}

/// How blocks are kept from being visited twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    /// They are not.
    No,
    /// All blocks are alike: a permutation.
    Permuted,
    /// A map of so many blocks.
    Mapped(u64),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedCall {
    /// Number of the file.
    pub file: usize,
    pub offset: u64,
    pub len: u64,
}

/// A file of the job, and how far the job is in it.
#[derive(Debug)]
struct PlacedFile {
    base: u64,
    size: u64,
    /// Bytes of the device behind the region.
    behind: u64,
    /// Where the next sequential call of either direction begins; it may lie outside.
    at: [i64; 2],
    /// Where the last call of either direction began.
    began: [u64; 2],
    order: Option<(Order, u64)>,
    map: Option<Visited>,
    spread: Option<Shuffle>,
}

impl PlacedFile {
    /// Its map, if it has one, made when it is first needed: jobs that are not begun need none.
    fn map(&mut self, plan: &PlacePlan) -> Option<&mut Visited> {
        match plan.once {
            Once::Mapped(blocks) if plan.random != [0, 0] => {
                Some(self.map.get_or_insert_with(|| Visited::new(blocks)))
            }
            _ => None,
        }
    }
}

/// Blocks of a permutation that is kept as a list: 256 KiB of memory. There may be ten thousand jobs.
const LISTED: u64 = 1 << 16;

/// The places of a job's calls.
#[derive(Debug)]
pub(super) struct JobPlaces {
    plan: PlacePlan,
    spots: Vec<PlacedFile>,
    turns: FileTurns,
    in_run: u64,
    /// Blocks of the longest list.
    listed: u64,
    /// For places, and as it was at the beginning of a pass.
    rng: Rng,
    first: Rng,
}

impl JobPlaces {
    pub fn new(plan: PlacePlan, regions: &[Region], turns: FileTurns, mut rng: Rng) -> JobPlaces {
        let ranks = plan.popularity.iter().any(|p| matches!(p, Popularity::Ranks(..)));
        let random = plan.random != [0, 0];
        let listed = LISTED / regions.len() as u64;
        let make = |region: &Region| {
            let (base, size) = (region.base, region.size);
            let blocks = (size / plan.align[0].min(plan.align[1])).max(1);
            let order = (random && plan.once == Once::Permuted)
                .then(|| (Order::random_of(blocks, listed, &mut rng), 0));
            let spread = (random && ranks).then(|| Shuffle::new(blocks, &mut rng));
            PlacedFile {
                base,
                size,
                behind: region.behind,
                at: [0, 0],
                began: [0, 0],
                order,
                map: None,
                spread,
            }
        };
        let spots = regions.iter().map(make).collect();
        JobPlaces { plan, spots, turns, in_run: 0, listed, first: rng.clone(), rng }
    }

    /// Another pass over the same places, in the same order.
    pub fn restart(&mut self) {
        self.turns.restart();
        self.in_run = 0;
        self.rng = self.first.clone();
        for spot in &mut self.spots {
            (spot.at, spot.began) = ([0, 0], [0, 0]);
            if let Some((_, next)) = &mut spot.order {
                *next = 0;
            }
            spot.map = None;
        }
    }

    /// Whose turn it is at the beginning of a pass.
    pub fn first_turn(&mut self) {
        self.turns.restart();
    }

    /// The file whose turn it is; `None`: all are done.
    pub fn file(&mut self) -> Option<usize> {
        self.turns.next(&mut self.rng)
    }

    /// The next call of a direction; `None`: nothing is left. `draws`: for sizes.
    pub fn next(&mut self, write: bool, draws: &mut Rng) -> Option<PlacedCall> {
        let side = usize::from(write);
        // In an endless job every file has a place, once all have been set to their beginnings.
        let mut again = self.plan.endless;
        loop {
            let Some(file) = self.file() else {
                if !std::mem::take(&mut again) {
                    return None;
                }
                self.turns.restart();
                self.spots.iter_mut().for_each(|s| s.at = [0, 0]);
                continue;
            };
            let begins = self.in_run == 0;
            match self.place(file, side) {
                Some((at, jumps)) => {
                    let marks = jumps || !begins;
                    return Some(self.measure(file, side, at, marks, draws));
                }
                None => self.turns.done(file),
            }
        }
    }

    /// How long the call is; the positions behind it. `marks`: its blocks are visited with that.
    fn measure(
        &mut self,
        file: usize,
        side: usize,
        at: u64,
        marks: bool,
        draws: &mut Rng,
    ) -> PlacedCall {
        let sizes = &self.plan.sizes[side];
        let spot = &mut self.spots[file];
        let behind = if self.plan.random[side] == 0 { spot.behind } else { 0 };
        let mut len = sizes.draw_within(spot.size + behind - at, draws);
        if marks && let Some(map) = spot.map(&self.plan) {
            let block = sizes.smallest();
            let visited = map.visit(at / block, len.div_ceil(block));
            if visited > 0 {
                len = len.min(visited * block);
            }
        }
        spot.at[side] = ((at + len) as i64).saturating_add(self.plan.hole);
        spot.began[side] = at;
        PlacedCall { file, offset: spot.base + at, len }
    }

    /// Where in a file the next call of a direction begins, and whether that was drawn.
    fn place(&mut self, file: usize, side: usize) -> Option<(u64, bool)> {
        let random = self.plan.random[side];
        if random == 0 {
            return Some((self.in_sequence(file, side)?, false));
        }
        let in_run = self.in_run > 0;
        let jumps = !in_run && (random >= 100 || self.rng.below(100) < random);
        if jumps {
            self.in_run = self.plan.run;
        }
        self.in_run = self.in_run.saturating_sub(1);
        let next = match (jumps, in_run && self.plan.same) {
            (true, _) => None,
            (false, true) => Some(self.spots[file].began[side]),
            (false, false) => self.in_sequence(file, side),
        };
        match next {
            Some(at) => Some((at, false)),
            None => Some((self.at_random(file, side)?, true)),
        }
    }

    fn in_sequence(&mut self, file: usize, side: usize) -> Option<u64> {
        let (spot, hole) = (&self.spots[file], self.plan.hole);
        let smallest = self.plan.sizes[side].smallest();
        let behind = if self.plan.random[side] == 0 { spot.behind } else { 0 };
        let fits = |at: i64| {
            let at = u64::try_from(at).ok().filter(|&at| at < spot.size)?;
            (at + smallest <= spot.size + behind).then_some(at)
        };
        let at = spot.at[side];
        if let Some(at) = fits(at) {
            return Some(at);
        }
        if at < 0 {
            return fits(spot.size as i64 + hole);
        }
        // With an offset fio does not see a hole lead over the end, nor on a device that goes on. Where the hole ends
        // before the end, and no call fits any more, the file is done.
        let beyond = u64::try_from(at).is_ok_and(|at| at >= spot.size);
        let over = hole > 0 && spot.base == 0 && spot.behind == 0 && beyond;
        // A job of one file goes on in place; of several each has its turn.
        let alone = self.plan.endless && self.turns.in_place();
        (over || alone || self.plan.random[side] > 0 && self.plan.endless).then_some(0)
    }

    fn at_random(&mut self, file: usize, side: usize) -> Option<u64> {
        let (plan, spot) = (&self.plan, &mut self.spots[file]);
        let align = plan.align[side];
        let blocks = spot.size.checked_sub(plan.sizes[side].smallest())? / align + 1;
        if let Some((order, next)) = &mut spot.order {
            if *next == blocks {
                if !plan.endless {
                    return None;
                }
                *order = Order::random_of(blocks, self.listed, &mut self.rng);
                *next = 0;
            }
            *next += 1;
            return Some(order.block(*next - 1) * align);
        }
        let spread = spot.spread.as_ref();
        let block = plan.popularity[side].draw(spot.size, blocks, spread, &mut self.rng);
        let Some(map) = spot.map(plan) else { return Some(block * align) };
        let free = |map: &Visited, block| match map.contains(block) {
            false => Some(block),
            true => map.free_from(block).filter(|&free| free < blocks),
        };
        let block = free(map, block).or_else(|| {
            plan.endless.then(|| {
                map.clear();
                block
            })
        });
        block.map(|block| block * align)
    }

    /// Makes further calls of one size that follow the last one directly, at most `most`; how many.
    pub fn follow(&mut self, write: bool, len: u64, most: u64) -> u64 {
        let side = usize::from(write);
        let [spot] = &mut self.spots[..] else { return 0 };
        if self.plan.random[side] > 0 || self.plan.hole != 0 {
            return 0;
        }
        let calls = (spot.size.saturating_sub(spot.at[side] as u64) / len).min(most);
        spot.at[side] += (len * calls) as i64;
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::FileId;
    use crate::rng::stream;

    fn plan(sizes: &str) -> PlacePlan {
        let sizes = Sizes::parse(sizes).unwrap();
        PlacePlan {
            align: [sizes.smallest(); 2],
            sizes: [sizes.clone(), sizes],
            random: [100, 100],
            run: 1,
            same: false,
            hole: 0,
            popularity: [Popularity::Uniform, Popularity::Uniform],
            once: Once::Permuted,
            endless: false,
        }
    }

    fn region(base: u64, size: u64) -> Region {
        Region { file: FileId(0), base, size, part: false, behind: 0 }
    }

    fn places(plan: PlacePlan, base: u64, size: u64) -> JobPlaces {
        JobPlaces::new(plan, &[region(base, size)], FileTurns::new(1), stream(1, "places"))
    }

    /// Up to `n` calls of reads in blocks of 4 KiB, with their lengths in blocks.
    fn calls(plan: PlacePlan, blocks: u64, n: usize) -> Vec<(u64, u64)> {
        let mut places = places(plan, 0, blocks * 4096);
        let mut draws = stream(2, "draws");
        (0..n)
            .map_while(|_| places.next(false, &mut draws))
            .map(|c| (c.offset / 4096, c.len / 4096))
            .collect()
    }

    fn starts(plan: PlacePlan, blocks: u64, n: usize) -> Vec<u64> {
        calls(plan, blocks, n).into_iter().map(|c| c.0).collect()
    }

    #[test]
    fn every_block_comes_once_and_then_the_pass_is_over() {
        for once in [Once::Permuted, Once::Mapped(100)] {
            let mut seen = starts(PlacePlan { once, ..plan("4k") }, 100, 200);
            assert_ne!(seen[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..100), "{once:?}");
            // With time left it goes round after round.
            let rounds = starts(PlacePlan { once, endless: true, ..plan("4k") }, 100, 200);
            assert_ne!(rounds[..100], rounds[100..], "in another order");
            let mut again = rounds[100..].to_vec();
            again.sort_unstable();
            assert!(again.into_iter().eq(0..100));
        }
        let mut once = starts(PlacePlan { once: Once::No, ..plan("4k") }, 100, 100);
        once.sort_unstable();
        once.dedup();
        // 100 draws of 100 hit 63 blocks on average.
        assert!((50..76).contains(&once.len()), "{}", once.len());
    }

    #[test]
    fn sizes_are_cut_where_blocks_have_been_visited() {
        let plan = PlacePlan { once: Once::Mapped(1000), ..plan("4k/50:32k/50") };
        let all = calls(plan, 1000, 2000);
        let mut seen = vec![0; 1000];
        for (at, len) in &all {
            seen[*at as usize..(at + len) as usize].iter_mut().for_each(|n| *n += 1);
        }
        assert!(seen.iter().all(|&n| n == 1), "each block once");
        assert!(all.iter().any(|c| c.1 > 1 && c.1 < 8), "some are cut");
    }

    #[test]
    fn a_pass_begins_again_in_the_same_order() {
        for once in [Once::Permuted, Once::Mapped(50)] {
            let mut places = places(PlacePlan { once, ..plan("4k") }, 0, 50 * 4096);
            let mut round = || -> Vec<u64> {
                places.restart();
                let mut draws = stream(2, "draws");
                (0..60).map_while(|_| places.next(false, &mut draws)).map(|c| c.offset).collect()
            };
            assert_eq!(round(), round());
        }
    }

    #[test]
    fn sequences_have_an_end_holes_and_a_position_for_each_direction() {
        let sequence = |hole| PlacePlan { random: [0, 0], once: Once::No, hole, ..plan("4k") };
        assert_eq!(starts(sequence(0), 4, 6), [0, 1, 2, 3]);
        let endless = PlacePlan { endless: true, ..sequence(0) };
        assert_eq!(starts(endless, 4, 6), [0, 1, 2, 3, 0, 1]);
        assert_eq!(starts(sequence(4096), 4, 5), [0, 2, 0, 2, 0]);
        // Three calls of 16 KiB, holes of 4: in front of the end there is room for less than another.
        let large = PlacePlan { random: [0, 0], once: Once::No, hole: 4096, ..plan("16k") };
        assert_eq!(starts(large, 16, 9), [0, 5, 10]);
        // Backwards, as fio's example does.
        assert_eq!(starts(sequence(-8192), 4, 7), [0, 2, 1, 0, 2, 1, 0]);
        // On a device a call may end behind the region, and a hole ends the pass there.
        let device = Region { part: true, behind: 1 << 20, ..region(0, 18_000) };
        let over = |plan: PlacePlan| {
            let (rng, mut draws) = (stream(1, "places"), stream(2, "draws"));
            let mut places = JobPlaces::new(plan, &[device], FileTurns::new(1), rng);
            let all = (0..9).map_while(|_| places.next(false, &mut draws)).map(|c| c.offset / 4096);
            all.collect::<Vec<_>>()
        };
        assert_eq!(over(sequence(0)), [0, 1, 2, 3, 4]);
        assert_eq!(over(sequence(4096)), [0, 2, 4]);
        let mut offset = places(sequence(4096), 1 << 20, 4 * 4096);
        let mut draws = stream(2, "draws");
        let all: Vec<u64> = (0..5)
            .map_while(|_| offset.next(false, &mut draws))
            .map(|c| c.offset - (1 << 20))
            .collect();
        assert_eq!(all, [0, 8192]);
        let mut both = places(sequence(0), 0, 4 * 4096);
        let at =
            [false, true, true, false].map(|w| both.next(w, &mut draws).unwrap().offset / 4096);
        assert_eq!(at, [0, 0, 1, 1]);
        // 10 MiB in calls of 3 MiB: the rest is not touched.
        let tail = calls(PlacePlan { random: [0, 0], ..plan("3m") }, 2560, 9);
        assert_eq!(tail, [(0, 768), (768, 768), (1536, 768)]);
        // The last size is drawn again until it fits.
        let split = PlacePlan { random: [0, 0], once: Once::No, ..plan("4k/50:32k/50") };
        let all = calls(split, 1000, 2000);
        assert_eq!(all.iter().map(|c| c.1).sum::<u64>(), 1000);
    }

    #[test]
    fn runs_begin_at_random_and_end_where_the_region_does() {
        let row = |run, once| PlacePlan { run, once, ..plan("4k") };
        let runs = starts(row(4, Once::No), 1_000_000, 400);
        let jumps = runs.windows(2).filter(|w| w[1] != w[0] + 1).count();
        assert_eq!(jumps, 99);
        let same = starts(PlacePlan { same: true, ..row(4, Once::No) }, 1_000_000, 400);
        assert!(same.chunks(4).all(|c| c.iter().all(|b| *b == c[0])) && same[0] != same[4]);
        // What stays are the calls of a row, not sequential ones between random ones.
        let stays = PlacePlan { random: [50, 50], once: Once::No, same: true, ..plan("4k") };
        let stays = starts(stays, 1_000_000, 4000);
        assert!(stays.windows(2).filter(|w| w[1] == w[0] + 1).count() > 1800);
        let half = PlacePlan { random: [50, 50], ..plan("4k") };
        let half = starts(PlacePlan { once: Once::No, ..half }, 1_000_000, 4000);
        let jumps = half.windows(2).filter(|w| w[1] != w[0] + 1).count();
        assert!((1800..2200).contains(&jumps), "{jumps}");
        // Only one direction at random.
        let mut mixed =
            places(PlacePlan { random: [100, 0], once: Once::No, ..plan("4k") }, 0, 1 << 30);
        let mut draws = stream(2, "draws");
        let writes: Vec<u64> =
            (0..5).map(|_| mixed.next(true, &mut draws).unwrap().offset / 4096).collect();
        assert_eq!(writes, [0, 1, 2, 3, 4]);
        assert!(starts(row(8, Once::No), 16, 1000).iter().all(|&b| b < 16));
    }

    #[test]
    fn files_have_their_turns() {
        let regions = [region(0, 8192), region(0, 8192), region(0, 8192)];
        let order = |turns: FileTurns, endless| -> Vec<(usize, u64)> {
            let plan = PlacePlan { random: [0, 0], once: Once::No, endless, ..plan("4k") };
            let mut places = JobPlaces::new(plan, &regions, turns, stream(1, "places"));
            let mut draws = stream(2, "draws");
            (0..8)
                .map_while(|_| places.next(false, &mut draws))
                .map(|c| (c.file, c.offset / 4096))
                .collect()
        };
        let all = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)];
        assert_eq!(order(FileTurns::new(3), false), all);
        assert_eq!(order(FileTurns::new(3), true)[6..], [(0, 0), (1, 0)]);
        let one = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
        assert_eq!(order(FileTurns::new(3).open(1), false), one);
        assert_eq!(order(FileTurns::new(3).open(1), true)[6..], [(0, 0), (0, 1)]);
        let two = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)];
        assert_eq!(order(FileTurns::new(3).open(2), false), two);
        assert_eq!(order(FileTurns::new(3).each(2), false), one);
    }
}
