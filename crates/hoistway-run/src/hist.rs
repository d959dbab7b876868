//! The latency histogram: log-linear, integer nanoseconds, bounded relative error (statistics.md 1.1).

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Significant decimal digits 3: the smallest power of two not below 2 * 10^3.
const SUB_BITS: u32 = 11;
const SUB: u64 = 1 << SUB_BITS;
const HALF: u64 = SUB / 2;
/// Bucket rows above the first: values up to 2^42 ns (73 minutes).
const ROWS: u64 = 31;
const SLOTS: usize = ((ROWS + 2) * HALF) as usize;
/// Slots of a page, and pages.
const PAGE: usize = 128;
const PAGES: usize = SLOTS.div_ceil(PAGE);
/// Bits of a count in a page.
const LOW: u32 = u16::BITS;
/// Values that are kept one by one before there are pages: where thousands of processes share a drive, each has few.
const FEW: usize = 256;
/// No count of the page was ever raised.
const NONE: u16 = u16::MAX;

/// Counts of values in nanoseconds, with exact moments beside them.
///
/// Counts lie in pages that exist where something was counted: latencies of one process fill some hundreds
/// of the 33,792 slots, and a simulation may have ten thousands of processes. All pages are one vector,
/// which doubles: a run that is warm does not allocate. The first values are a list. A histogram that was read from a
/// file, or is [finished](Histogram::finished), keeps its slots packed, in less room than their text takes, until
/// something is counted.
#[derive(Clone)]
#[repr(C)] // What each value touches comes first, in two lines of the cache.
pub struct Histogram {
    sum: u128,
    sum_sq: u128,
    count: u64,
    min: u64,
    max: u64,
    /// Empty as long as there are few values. Then, for each page of slots, the number of the page that has its counts,
    /// and behind these numbers the pages, in the order in which they were needed: the low bits of the counts.
    pages: Vec<u16>,
    /// The first values, in the order in which they came: slot and, in the lower half, how often in a row.
    few: Vec<u32>,
    /// The bits above that are not 0, by slot: few latencies are measured so often.
    carries: Vec<(usize, u64)>,
    /// Slots that were read ([`Slots`]); then there are no pages.
    packed: Box<[u8]>,
    overflow: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram {
            few: Vec::new(),
            pages: Vec::new(),
            carries: Vec::new(),
            packed: Box::default(),
            count: 0,
            sum: 0,
            sum_sq: 0,
            min: u64::MAX,
            max: 0,
            overflow: 0,
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.add(ns, 1);
        self.sum += u128::from(ns);
        self.sum_sq += u128::from(ns) * u128::from(ns);
    }

    /// Counts `n` equal values.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.add(ns, n);
        self.sum += u128::from(ns) * u128::from(n);
        self.sum_sq += u128::from(ns) * u128::from(ns) * u128::from(n);
    }

    /// All but the sums.
    #[inline]
    fn add(&mut self, ns: u64, n: u64) {
        let slot = slot_of(ns);
        match self.pages.get(slot / PAGE) {
            Some(&place) if place != NONE && slot < SLOTS => self.add_at(place, slot, n),
            _ => self.add_rare(slot, n),
        }
        self.count += n;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    #[inline]
    fn add_at(&mut self, place: u16, slot: usize, n: u64) {
        let low = &mut self.pages[PAGES + usize::from(place) * PAGE + slot % PAGE];
        let sum = u64::from(*low) + n;
        *low = sum as u16;
        if sum >> LOW > 0 {
            self.carry(slot, sum >> LOW);
        }
    }

    /// Adds to a list of few values, or to a slot without a page.
    #[inline(never)]
    fn add_rare(&mut self, mut slot: usize, n: u64) {
        if slot >= SLOTS {
            slot = SLOTS - 1;
            self.overflow += n;
        }
        if !self.pages.is_empty() {
            return self.add_slot(slot, n);
        }
        if let Some(last) = self.few.last_mut()
            && *last as usize >> LOW == slot
            && n + u64::from(*last as u16) <= u64::from(u16::MAX)
        {
            *last += n as u32;
        } else if n <= u64::from(u16::MAX) && self.few.len() < FEW && self.packed.is_empty() {
            self.few.push((slot << LOW) as u32 | n as u32);
        } else {
            self.unpack();
            self.add_slot(slot, n);
        }
    }

    /// Adds to the count of a slot, whose page comes into being if it is not there.
    fn add_slot(&mut self, slot: usize, n: u64) {
        let mut place = self.pages[slot / PAGE];
        if place == NONE {
            place = ((self.pages.len() - PAGES) / PAGE) as u16;
            self.pages[slot / PAGE] = place;
            self.pages.resize(self.pages.len() + PAGE, 0);
        }
        self.add_at(place, slot, n);
    }

    /// There are pages, with what was packed or in the list.
    #[cold]
    fn unpack(&mut self) {
        self.pages.resize(PAGES, NONE);
        let packed = std::mem::take(&mut self.packed);
        Unpacked { bytes: &packed, slot: 0 }.for_each(|(slot, n)| self.add_slot(slot, n));
        for few in std::mem::take(&mut self.few) {
            self.add_slot(few as usize >> LOW, u64::from(few as u16));
        }
    }

    /// The same in little memory: nothing more is to be counted.
    pub fn finished(&self) -> Histogram {
        let packed = Slots::of(self).bytes.into_boxed_slice();
        let Histogram { count, sum, sum_sq, min, max, overflow, .. } = *self;
        Histogram { packed, count, sum, sum_sq, min, max, overflow, ..Histogram::new() }
    }

    #[cold]
    fn carry(&mut self, slot: usize, n: u64) {
        match self.carries.iter_mut().find(|c| c.0 == slot) {
            Some(carry) => carry.1 += n,
            None => self.carries.push((slot, n)),
        }
    }

    /// The count of a slot but for its low bits.
    fn high(&self, slot: usize) -> u64 {
        self.carries.iter().find(|c| c.0 == slot).map_or(0, |c| c.1 << LOW)
    }

    /// Adds all of `other`, exactly.
    pub fn merge(&mut self, other: &Histogram) {
        if self.pages.is_empty() {
            self.unpack();
        }
        for (slot, n) in other.slots() {
            self.add_slot(slot, n);
        }
        // What was read may be of any size.
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_sq = self.sum_sq.saturating_add(other.sum_sq);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.overflow = self.overflow.saturating_add(other.overflow);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Exact sum of squares.
    pub fn sum_sq(&self) -> u128 {
        self.sum_sq
    }

    /// Exact minimum; `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact maximum; `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Values above the range; they are counted in the last slot.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Mean in nanoseconds; `None` when empty.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation (n - 1) in nanoseconds; `None` below two values. Exact integer sums.
    pub fn sd(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let n = u128::from(self.count);
        // sum_sq - sum^2 / n, kept in integers until the end: no cancellation. Sums beyond 2^64 ns, 584 years, are no
        // measurements.
        let scaled =
            self.sum_sq.saturating_mul(n).saturating_sub(self.sum.saturating_mul(self.sum));
        Some((scaled as f64 / n as f64 / (n - 1) as f64).sqrt())
    }

    /// The value of which `numerator / denominator` of all values are not larger: rank
    /// max(1, ceil(n * p)), the highest value equivalent to its slot, capped at the maximum
    /// (statistics.md 1.2). `None` when empty.
    pub fn quantile(&self, numerator: u64, denominator: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        if numerator == 0 {
            return Some(self.min);
        }
        let rank = (u128::from(self.count) * u128::from(numerator))
            .div_ceil(u128::from(denominator))
            .max(1) as u64;
        let mut seen = 0;
        for (slot, n) in self.slots() {
            seen += n;
            if seen >= rank {
                return Some(highest_of(slot).min(self.max));
            }
        }
        Some(self.max)
    }

    /// Non-empty slots as (index, count).
    pub fn slots(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let places = self.pages.get(..PAGES).unwrap_or_default();
        let there = places.iter().enumerate().filter(|&(_, &place)| place != NONE);
        let paged = there.flat_map(move |(page, &place)| {
            let counts = &self.pages[PAGES + usize::from(place) * PAGE..][..PAGE];
            let whole = move |(slot, &low): (usize, &u16)| (slot, self.high(slot) | u64::from(low));
            (page * PAGE..).zip(counts).map(whole).filter(|&(_, count)| count > 0)
        });
        let mut few: Vec<_> =
            self.few.iter().map(|&few| (few as usize >> LOW, u64::from(few as u16))).collect();
        few.sort_unstable();
        // One slot may stand in the list several times.
        few.dedup_by(|same, first| {
            let equal = same.0 == first.0;
            first.1 += if equal { same.1 } else { 0 };
            equal
        });
        Unpacked { bytes: &self.packed, slot: 0 }.chain(few).chain(paged)
    }

    /// Bytes that it takes beside itself.
    pub fn memory(&self) -> usize {
        4 * self.few.capacity()
            + 2 * self.pages.capacity()
            + 16 * self.carries.capacity()
            + self.packed.len()
    }

    /// Rebuilds a histogram from its slots, in their order, and exact moments; `None`: it cannot be.
    pub fn from_parts(
        slots: &[(usize, u64)],
        sum: u128,
        sum_sq: u128,
        min: u64,
        max: u64,
        overflow: u64,
    ) -> Option<Histogram> {
        let mut packed = Slots::default();
        let all = slots.iter().all(|&(slot, n)| packed.push(slot, n));
        all.then(|| Histogram::from_slots(packed, sum, sum_sq, min, max, overflow))
    }

    /// The same from slots that were read one by one.
    pub fn from_slots(
        slots: Slots,
        sum: u128,
        sum_sq: u128,
        min: u64,
        max: u64,
        overflow: u64,
    ) -> Histogram {
        let (packed, count) = (slots.bytes.into_boxed_slice(), slots.count);
        Histogram { packed, count, sum, sum_sq, min, max, overflow, ..Histogram::new() }
    }
}

/// Slots of a histogram that is being read, packed: the distance to the last slot and the count, seven bits a byte, the
/// lowest first.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    bytes: Vec<u8>,
    /// The least slot that may follow.
    next: usize,
    count: u64,
}

/// More values than any histogram has; with it, sums over histograms stay within 64 bits.
const COUNT_MAX: u64 = 1 << 48;

impl Slots {
    /// The slots of a histogram.
    pub fn of(histogram: &Histogram) -> Slots {
        let mut slots = Slots::default();
        for (slot, n) in histogram.slots() {
            let pushed = slots.push(slot, n);
            assert!(pushed, "slots of a histogram are in order");
        }
        slots
    }

    /// Adds a slot; false: it is none, it is not behind the last one, or it counts more than there ever is.
    #[must_use]
    pub fn push(&mut self, slot: usize, n: u64) -> bool {
        if slot >= SLOTS || slot < self.next || n > COUNT_MAX - self.count {
            return false;
        }
        if n > 0 {
            pack(&mut self.bytes, (slot - self.next) as u64);
            pack(&mut self.bytes, n);
            (self.next, self.count) = (slot + 1, self.count + n);
        }
        true
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Non-empty slots as (index, count).
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        Unpacked { bytes: &self.bytes, slot: 0 }
    }
}

fn pack(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

/// What [`Slots`] packed.
struct Unpacked<'a> {
    bytes: &'a [u8],
    slot: usize,
}

impl Unpacked<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut n, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            n |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return Some(n);
            }
        }
    }
}

impl Iterator for Unpacked<'_> {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<(usize, u64)> {
        let slot = self.slot + self.number()? as usize;
        self.slot = slot + 1;
        Some((slot, self.number()?))
    }
}

/// What was counted, however it is kept.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Histogram { count, sum, sum_sq, min, max, overflow, .. } = self;
        write!(
            f,
            "Histogram {{ count: {count}, sum: {sum}, sum_sq: {sum_sq}, min: {min}, max: {max}, "
        )?;
        write!(f, "overflow: {overflow}, slots: ")?;
        f.debug_list().entries(self.slots()).finish()?;
        f.write_str(" }")
    }
}

/// Equal if the same was counted, in whatever order.
impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        let exact = |h: &Histogram| (h.count, h.sum, h.sum_sq, h.min, h.max, h.overflow);
        exact(self) == exact(other) && self.slots().eq(other.slots())
    }
}

#[inline]
fn slot_of(v: u64) -> usize {
    if v < SUB {
        return v as usize;
    }
    let bucket = u64::from(63 - v.leading_zeros() - SUB_BITS + 1);
    ((bucket + 1) * HALF + ((v >> bucket) - HALF)) as usize
}

/// The lowest value of a slot.
pub fn lowest_of(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < SUB {
        return slot;
    }
    let bucket = slot / HALF - 1;
    (slot - (bucket + 1) * HALF + HALF) << bucket
}

/// The highest value of a slot.
pub fn highest_of(slot: usize) -> u64 {
    lowest_of(slot + 1) - 1
}

/// Sparse (index, count) pairs and the exact moments; sums are texts since they exceed 64 bits.
#[derive(Serialize, Deserialize)]
struct HistogramText {
    count: u64,
    sum: String,
    sum_sq: String,
    min: Option<u64>,
    max: Option<u64>,
    overflow: u64,
    slots: SlotsText,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        HistogramText::of(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
        HistogramText::deserialize(from)?.read().map_err(D::Error::custom)
    }
}

impl HistogramText {
    fn of(h: &Histogram) -> HistogramText {
        HistogramText {
            count: h.count(),
            sum: h.sum().to_string(),
            sum_sq: h.sum_sq().to_string(),
            min: h.min(),
            max: h.max(),
            overflow: h.overflow(),
            slots: SlotsText(Slots::of(h)),
        }
    }

    fn read(self) -> Result<Histogram, String> {
        let moment = |text: &str| {
            text.parse::<u128>().map_err(|_| format!("'{text}' is not a sum of nanoseconds"))
        };
        let (sum, sum_sq) = (moment(&self.sum)?, moment(&self.sum_sq)?);
        let (min, max) = (self.min.unwrap_or(u64::MAX), self.max.unwrap_or(0));
        match self.slots.0 {
            slots if slots.count() == self.count => {
                Ok(Histogram::from_slots(slots, sum, sum_sq, min, max, self.overflow))
            }
            _ => Err("a histogram's slots do not match its count".to_string()),
        }
    }
}

/// `[[3,1],[7,20]]`: packed as soon as it is read.
struct SlotsText(Slots);

impl Serialize for SlotsText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for slot in self.0.iter() {
            list.serialize_element(&slot)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for SlotsText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SlotsText, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = SlotsText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the slots of a histogram")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SlotsText, A::Error> {
                let mut slots = Slots::default();
                while let Some((slot, n)) = list.next_element::<(usize, u64)>()? {
                    if !slots.push(slot, n) {
                        let what = "a histogram whose slots are none, or not in order";
                        return Err(A::Error::custom(what));
                    }
                }
                Ok(SlotsText(slots))
            }
        }
        from.deserialize_seq(List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_many_and_finished_ones_are_the_same_counts() {
        let mut random = 1u64;
        for many in [0, 1, 5, FEW, FEW + 1, 3000] {
            let (mut h, mut plain) = (Histogram::new(), std::collections::BTreeMap::new());
            for _ in 0..many {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (ns, n) = ((random >> 11) % 9_000, 1 + (random >> 40) % 40_000);
                h.record_n(ns, n);
                h.record(ns);
                *plain.entry(slot_of(ns)).or_insert(0) += n + 1;
            }
            let plain: Vec<(usize, u64)> = plain.into_iter().collect();
            assert_eq!(h.slots().collect::<Vec<_>>(), plain);
            assert_eq!(h.few.is_empty(), many == 0 || many > FEW);
            let mut again = h.finished();
            assert_eq!(again, h);
            assert!(again.memory() <= h.memory());
            // What is finished may go on.
            again.record(7);
            h.record(7);
            assert_eq!(again, h);
        }
    }

    #[test]
    fn counts_beyond_32_bits_are_exact() {
        let mut h = Histogram::new();
        h.record_n(1500, u64::from(u32::MAX));
        h.record_n(1500, 1);
        h.record_n(1500, 5 << 40);
        h.record(3);
        let counts: Vec<_> = h.slots().collect();
        assert_eq!(counts, [(3, 1), (1500, (1 << 32) + (5 << 40))]);
        let mut twice = h.clone();
        twice.merge(&h);
        assert_eq!(twice.slots().last(), Some((1500, (2 << 32) + (10 << 40))));
        let back = Histogram::from_parts(&counts, h.sum(), h.sum_sq(), 3, 1500, 0).unwrap();
        assert_eq!(back, h);
        assert!(back.packed.len() <= 16 && back.pages.is_empty(), "{:?}", back.packed);
        // Counting on unpacks it.
        let mut more = back.clone();
        more.record(1500);
        h.record(1500);
        assert_eq!(more, h);
        let mut both = back.clone();
        both.merge(&back);
        assert_eq!(both, twice);
    }

    #[test]
    fn slots_that_cannot_be_are_refused() {
        let from = |slots: &[(usize, u64)]| Histogram::from_parts(slots, 0, 0, 0, 0, 0);
        assert_eq!(from(&[(0, 1), (SLOTS - 1, 127), (SLOTS - 1, 0)]), None);
        assert_eq!(from(&[(5, 1), (5, 1)]), None);
        assert_eq!(from(&[(SLOTS, 1)]), None);
        assert_eq!(from(&[(1, u64::MAX), (2, 1)]), None);
        let all: Vec<_> = (0..SLOTS).map(|slot| (slot, 1 + slot as u64)).collect();
        assert_eq!(from(&all).unwrap().slots().collect::<Vec<_>>(), all);
    }

    #[test]
    fn every_value_lies_in_its_slot_within_a_thousandth() {
        let mut v = 1u64;
        while v < 4_000_000_000_000 {
            let s = slot_of(v);
            assert!(lowest_of(s) <= v && v <= highest_of(s), "{v}");
            assert!((highest_of(s) - lowest_of(s)) as f64 <= v as f64 / 1000.0);
            v = v * 5 / 4 + 1;
        }
        assert_eq!(slot_of(2047), 2047);
        assert_eq!(slot_of(2048), 2048);
    }

    #[test]
    fn quantiles_follow_the_rank_rule() {
        let mut h = Histogram::new();
        for v in 1..=100 {
            h.record(v);
        }
        assert_eq!(h.quantile(50, 100), Some(50));
        assert_eq!(h.quantile(1, 1000), Some(1));
        assert_eq!(h.quantile(0, 1), Some(1));
        assert_eq!(h.quantile(1, 1), Some(100));
        assert_eq!(h.mean(), Some(50.5));
        assert!((h.sd().unwrap() - 29.011491975882016).abs() < 1e-12);
        let parts: Vec<_> = h.slots().collect();
        assert_eq!(Histogram::from_parts(&parts, h.sum(), h.sum_sq(), 1, 100, 0), Some(h));
    }

    #[test]
    fn memory_is_spent_where_something_was_counted() {
        let mut h = Histogram::new();
        (0..1000).for_each(|i| h.record(2_000_000_000 + i * 100_000));
        assert!(h.memory() <= 4 * FEW, "{} bytes", h.memory());
        (0..9000).for_each(|i| h.record(2_000_000_000 + i % 1000 * 100_000));
        let pages = (h.pages.len() - PAGES) / PAGE;
        assert!(pages <= 2, "{pages} pages for latencies of 2.0 to 2.1 s");
        let mut twice = h.clone();
        twice.merge(&h);
        assert_eq!((twice.count(), twice.quantile(1, 2)), (20_000, h.quantile(1, 2)));
    }

    #[test]
    fn a_value_above_the_range_is_counted_not_dropped() {
        let mut h = Histogram::new();
        h.record(u64::MAX / 4);
        assert_eq!((h.count(), h.overflow(), h.max()), (1, 1, Some(u64::MAX / 4)));
        // Also beside pages.
        (0..1000).for_each(|ns| h.record(ns));
        h.record_n(u64::MAX / 2, 3);
        assert_eq!((h.overflow(), h.slots().last()), (4, Some((SLOTS - 1, 4))));
    }
}
