//! Which tag: the places of a tag set, in words (specs/blk-mq-and-noop.md section 6, "Tag words").
//!
//! A depth limit does not count requests: it hides all but the first places of each word. Who holds
//! those places, and when a place just freed is seen again, decides how long a limited submitter waits,
//! so both are kept exactly as the kernel keeps them.

use crate::device::{Device, Tags, word_places};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// CPUs beyond share the hints of those below; the bound keeps a stray number from filling memory.
const MOST_HINTS: usize = 4096;

/// One word of places, a bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// Not to be had; that goes for places beyond the end too.
    taken: u64,
    /// Taken bits that fall at the next fold: a place just freed is used again only when its word offers
    /// nothing else.
    freed: u64,
}

/// The places of one tag set.
#[derive(Debug)]
pub(super) struct Words {
    size: u32,
    /// Places per word, a power of two up to 64.
    places: u32,
    /// Its logarithm.
    shift: u32,
    /// A depth is one within the whole set (Linux 6.17 and later), not within each word.
    whole: bool,
    round_robin: bool,
    words: Box<[Word]>,
    /// Where each CPU begins to look, and where it began.
    hints: Vec<u32>,
    first_hint: u32,
}

impl Words {
    /// The places of the scheduler tags of one hardware queue.
    pub fn new(device: &Device) -> Words {
        let places = word_places(device.tags_made_for.max(device.nr_requests));
        let round_robin = device.tags_round_robin;
        let first_hint = if round_robin { 0 } else { device.tag_hint % device.nr_requests };
        let (size, count) = (device.nr_requests, device.nr_requests.div_ceil(places));
        let word = |at| Word { taken: !low_bits(places.min(size - at * places)), freed: 0 };
        Words {
            size,
            places,
            shift: places.trailing_zeros(),
            whole: device.tags == Tags::Plain,
            round_robin,
            words: (0..count).map(word).collect(),
            hints: vec![first_hint; 1],
            first_hint,
        }
    }

    /// Takes a place: one of the first `depth` of its word, or any.
    #[inline(always)]
    pub fn get(&mut self, cpu: u32, depth: Option<u32>) -> Option<u32> {
        let cpu = cpu as usize % MOST_HINTS;
        // As most of the time: a free place of the word of the hint, the first.
        if depth.is_none()
            && !self.round_robin
            && let Some(&hint) = self.hints.get(cpu)
            && let at = hint >> self.shift
            && let Some(word) = self.words.get_mut(at as usize)
            && word.taken != u64::MAX
        {
            let tag = (at << self.shift) + word.take_first(!word.taken);
            if tag == hint {
                self.hints[cpu] = self.behind(tag);
            }
            return Some(tag);
        }
        self.search(cpu, depth)
    }

    #[inline(never)]
    fn search(&mut self, cpu: usize, depth: Option<u32>) -> Option<u32> {
        if cpu >= self.hints.len() {
            self.hints.resize(cpu + 1, self.first_hint);
        }
        let hint = self.hints[cpu];
        let found = self.find(hint, depth);
        self.hints[cpu] = match found {
            None => 0,
            Some(tag) if tag == hint || self.round_robin => self.behind(tag),
            Some(_) => hint,
        };
        found
    }

    /// The hint behind a tag.
    fn behind(&self, tag: u32) -> u32 {
        if tag + 2 >= self.size { 0 } else { tag + 1 }
    }

    fn find(&mut self, hint: u32, depth: Option<u32>) -> Option<u32> {
        let (whole, shift) = (self.whole, self.shift);
        let seen = |at: u32| match depth {
            None => u64::MAX,
            Some(d) if whole => low_bits(d.saturating_sub(at << shift)),
            Some(d) => low_bits(d),
        };
        let first = hint >> shift;
        let before = match depth {
            None if !self.round_robin => 0,
            _ => low_bits(hint & (self.places - 1)),
        };
        // Without a depth round robin does not go back within the word of the hint.
        let back = depth.is_some() || !self.round_robin;
        let (low, high) = self.words.split_at_mut(first as usize);
        let (own, high) = high.split_first_mut().expect("a hint is a place");
        if let Some(place) = own.take(seen(first), before, back) {
            return Some((first << shift) + place);
        }
        let behind = (first + 1..)
            .zip(high)
            .find_map(|(at, word)| word.take(seen(at), 0, true).map(|place| (at << shift) + place));
        behind.or_else(|| {
            (0..).zip(low).find_map(|(at, word)| {
                word.take(seen(at), 0, true).map(|place| (at << shift) + place)
            })
        })
    }

    /// The places of word `at` that a submitter of that depth sees.
    fn seen(&self, at: u32, depth: u32) -> u32 {
        let before = at * self.places;
        let places = self.places.min(self.size - before);
        places.min(if self.whole { depth.saturating_sub(before) } else { depth })
    }

    /// How many places a submitter of that depth sees in all.
    pub fn reach(&self, depth: u32) -> u32 {
        (0..self.words.len() as u32).map(|at| self.seen(at, depth)).sum()
    }

    /// Frees a place that `cpu` had asked for; [`Words::freed_by`] follows.
    pub fn put(&mut self, tag: u32) {
        let word = &mut self.words[(tag >> self.shift) as usize];
        let bit = 1 << (tag & (self.places - 1));
        debug_assert!(word.taken & bit != 0 && word.freed & bit == 0, "tag {tag} was in use");
        word.freed |= bit;
    }

    /// The hint of the CPU whose request held the tag: after the waking, which does not see it.
    pub fn freed_by(&mut self, cpu: u32, tag: u32) {
        if !self.round_robin {
            self.hints[cpu as usize % MOST_HINTS] = tag;
        }
    }

    #[cfg(test)]
    pub fn hint(&self, cpu: usize) -> u32 {
        self.hints[cpu]
    }
}

impl Word {
    /// Takes one of the places `seen`, the first that is not `before` and, with `back`, then the first of all.
    #[inline(always)]
    fn take(&mut self, seen: u64, before: u64, back: bool) -> Option<u32> {
        loop {
            let free = !self.taken & seen;
            let ahead = free & !before;
            let bits = if ahead == 0 && back { free } else { ahead };
            if bits != 0 {
                return Some(self.take_first(bits));
            }
            if self.freed == 0 {
                return None;
            }
            // Also when nothing of it will help: the next one to ask sees it.
            self.taken &= !core::mem::take(&mut self.freed);
        }
    }

    /// Takes the first of `free`, which there is.
    #[inline(always)]
    fn take_first(&mut self, free: u64) -> u32 {
        let place = free.trailing_zeros();
        self.taken |= 1 << place;
        place
    }
}

/// The lowest `n` bits.
fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Sectors;

    fn words(tags: u32, edit: impl FnOnce(&mut Device)) -> Words {
        let mut device = Device::new(Sectors(1 << 20), 32);
        device.nr_requests = tags;
        edit(&mut device);
        Words::new(&device)
    }

    fn get(w: &mut Words, n: usize, depth: Option<u32>) -> Vec<u32> {
        (0..n).map_while(|_| w.get(0, depth)).collect()
    }

    fn free(w: &mut Words, tag: u32) {
        w.put(tag);
        w.freed_by(0, tag);
    }

    #[test]
    fn n_23_a_place_just_freed_is_used_again_when_its_word_offers_nothing_else() {
        let mut w = words(128, |_| {});
        assert_eq!(get(&mut w, 3, None), [0, 1, 2]);
        free(&mut w, 0);
        assert_eq!((w.get(0, None), w.hint(0)), (Some(3), 0));
        assert_eq!(get(&mut w, 28, None), Vec::from_iter(4..32));
        assert_eq!((w.get(0, None), w.hint(0)), (Some(0), 1));
    }

    #[test]
    fn n_24_a_depth_of_one_sees_the_first_place_of_each_word() {
        let mut w = words(128, |_| {});
        assert_eq!(get(&mut w, 32, None), Vec::from_iter(0..32));
        assert_eq!(get(&mut w, 9, Some(1)), [32, 64, 96], "though 93 places are free");
        assert_eq!(w.hint(0), 0);
        free(&mut w, 5);
        assert_eq!((w.get(0, Some(1)), w.hint(0)), (None, 0));
        // The failed try has folded the word.
        assert_eq!(w.get(0, None), Some(5));
        free(&mut w, 64);
        assert_eq!(w.get(0, Some(1)), Some(64));
    }

    #[test]
    fn n_25_places_below_the_depth_count_whoever_holds_them() {
        let below = [0, 1, 2, 8, 9, 10, 16, 17, 18, 24, 25, 26];
        let mut w = words(32, |_| {});
        assert_eq!(get(&mut w, 32, Some(3)), below);
        let mut w = words(32, |_| {});
        assert_eq!(get(&mut w, 10, None), Vec::from_iter(0..10), "two words of reads");
        assert_eq!(get(&mut w, 32, Some(3)), below[5..]);
    }

    #[test]
    fn a_limited_submitter_begins_at_the_hint_and_goes_back() {
        let mut w = words(32, |_| {});
        assert_eq!(get(&mut w, 6, None), Vec::from_iter(0..6));
        free(&mut w, 5);
        free(&mut w, 4);
        free(&mut w, 1);
        assert_eq!(w.hint(0), 1);
        // Places 6 and 7 are beyond the depth; the fold shows 1, 4 and 5.
        assert_eq!((w.get(0, Some(6)), w.hint(0)), (Some(1), 2));
        assert_eq!(w.get(0, Some(6)), Some(4));
        free(&mut w, 3);
        assert_eq!(w.hint(0), 3);
        assert_eq!(w.get(0, Some(6)), Some(5));
        // From 3 on only places beyond the depth are left: 3 itself, after the fold.
        assert_eq!(w.get(0, Some(6)), Some(3));
    }

    #[test]
    fn the_last_word_may_be_shorter_and_a_smaller_set_keeps_its_words() {
        let mut w = words(62, |_| {});
        assert_eq!(w.reach(6), 48, "seven words of 8 and one of 6");
        assert_eq!(get(&mut w, 99, None).len(), 62);
        // Made for 256 tags: words of 64, of which 100 tags fill one and a half.
        let mut w = words(100, |d| d.tags_made_for = 256);
        assert_eq!(get(&mut w, 9, Some(2)), [0, 1, 64, 65]);
        // Fewer than four: one word, and a depth of half a word limits nothing.
        assert_eq!(get(&mut words(3, |_| {}), 9, Some(32)), [0, 1, 2]);
    }

    #[test]
    fn a_depth_within_the_whole_set_is_a_number_of_places() {
        let mut w = words(128, |d| d.tags = Tags::Plain);
        assert_eq!(w.reach(48), 48);
        assert_eq!(get(&mut w, 99, Some(40)), Vec::from_iter(0..40));
        free(&mut w, 7);
        assert_eq!(w.get(0, Some(1)), None);
        free(&mut w, 0);
        assert_eq!(w.get(0, Some(1)), Some(0));
    }

    #[test]
    fn a_round_robin_set_goes_on_behind_the_last_tag_given() {
        let mut w = words(32, |d| d.tags_round_robin = true);
        assert_eq!(get(&mut w, 4, None), [0, 1, 2, 3]);
        free(&mut w, 0);
        free(&mut w, 1);
        assert_eq!(w.hint(0), 4);
        assert_eq!(get(&mut w, 27, None), Vec::from_iter(4..31));
        assert_eq!(w.get(0, None), Some(0), "after the last but one comes the first");
    }

    #[test]
    fn a_round_robin_set_does_not_go_back_within_the_word_of_the_hint() {
        let mut w = words(32, |d| d.tags_round_robin = true);
        assert_eq!(get(&mut w, 99, None).len(), 32);
        free(&mut w, 9);
        assert_eq!((w.get(0, None), w.hint(0)), (Some(9), 10));
        free(&mut w, 8);
        assert_eq!((w.get(0, None), w.hint(0)), (None, 0));
        assert_eq!(w.get(0, None), Some(8), "the second try begins at the front");
    }

    #[test]
    fn each_cpu_has_its_own_hint_and_frees_move_that_of_the_submitter() {
        let mut w = words(32, |_| {});
        assert_eq!((w.get(0, None), w.get(7, None)), (Some(0), Some(1)));
        w.put(1);
        w.freed_by(7, 1);
        assert_eq!((w.hint(0), w.hint(7), w.hint(3)), (1, 1, 0));
    }
}
