//! What is measured of a client while it is served: counts, bytes, how long its I/Os took and how
//! long they waited for the scheduler, how many it had at a time.
//!
//! An I/O costs a few additions to counters of its client, and nothing is allocated but each
//! client's first of a kind. Sums over clients are made by whoever asks: when a client leaves, its
//! measures are added to those of its export and group, so that none of them ever shrinks.

use hoistway::{GroupId, Instant, Nanos, Op};

/// Slots per doubling: a slot is at most a sixteenth wide, so its middle is at most 3.2 % off.
const PARTS: u64 = 16;
/// Grain of the finest slots.
const GRAIN_BITS: u32 = 6;
/// Values up to 2^37 ns (137 s) are told apart; larger ones are in the last slot.
const SLOTS: usize = (PARTS + PARTS * 27) as usize;

/// Counts of times by log-linear slots. A slot holds the times above the bound of the slot before,
/// up to its own; every power of two ns from 64 ns to 2^37 ns is such a bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Empty until the first value.
    counts: Vec<u64>,
}

impl LatencyHistogram {
    /// Counts one time.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        if self.counts.is_empty() {
            self.counts.resize(SLOTS, 0);
        }
        self.counts[slot_of(time.0).min(SLOTS - 1)] += 1;
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &LatencyHistogram) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
            return;
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// Slots that are not empty, in ascending order: their upper bound in ns, and how many times.
    pub fn slots(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(slot, n)| (top(slot), *n))
    }
}

/// Bounds belong to the slot below them, so that counting up to a power of two is exact.
#[inline]
fn slot_of(ns: u64) -> usize {
    let v = ns.saturating_sub(1) >> GRAIN_BITS;
    if v < PARTS {
        return v as usize;
    }
    let row = u64::from(63 - PARTS.trailing_zeros() - v.leading_zeros());
    (row * PARTS + (v >> row)) as usize
}

/// Upper bound of a slot in ns; it belongs to the slot.
fn top(slot: usize) -> u64 {
    let slot = slot as u64 + 1;
    let row = (slot / PARTS).saturating_sub(1);
    (slot - row * PARTS) << row << GRAIN_BITS
}

/// What is measured of one kind of I/O.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpCounters {
    /// I/Os that are over, failed ones included.
    pub count: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Bytes of those that did not fail; those of flushes are none.
    pub bytes: u64,
    /// Sum of the times they took.
    pub time: Nanos,
    /// The times: from the turn of the engine that took the I/O until its answer is on its way out.
    pub times: LatencyHistogram,
}

/// What is measured of a client, or of all clients of an export in a group. Everything but
/// `outstanding` only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// By kind of I/O: the number of [`Op`].
    pub ops: [OpCounters; OPS.len()],
    /// Sum of the times reads and writes waited until they were handed to the device.
    pub wait: Nanos,
    /// These times.
    pub waits: LatencyHistogram,
    /// Integral of `outstanding` over time, in ns times I/Os: over the time it took, the mean
    /// number.
    pub depth: Nanos,
    /// I/Os taken that are not over.
    pub outstanding: u32,
    /// Up to when `depth` reaches.
    at: Instant,
}

/// Kinds of I/O by their number, with the name each has outside.
pub const OPS: [(Op, &str); 5] = [
    (Op::Read, "read"),
    (Op::Write, "write"),
    (Op::Discard, "discard"),
    (Op::Flush, "flush"),
    (Op::WriteZeroes, "write_zeroes"),
];

/// When things happened to an I/O that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct IoTimes {
    pub taken: Instant,
    /// [`Instant::ZERO`]: never handed to the device by itself.
    pub issued: Instant,
    pub over: Instant,
}

impl IoCounters {
    /// An I/O was taken.
    #[inline]
    pub(super) fn take(&mut self, now: Instant) {
        self.advance(now);
        self.outstanding += 1;
    }

    /// An I/O is over.
    #[inline]
    pub(super) fn over(&mut self, op: Op, len: u64, times: IoTimes, served: bool) {
        self.advance(times.over);
        self.outstanding -= 1;
        let of = &mut self.ops[op as usize];
        of.count += 1;
        if !served {
            of.errors += 1;
        } else if op != Op::Flush {
            of.bytes += len;
        }
        let time = times.over.since(times.taken);
        of.time += time;
        of.times.record(time);
        if matches!(op, Op::Read | Op::Write) && times.issued != Instant::ZERO {
            let wait = times.issued.since(times.taken);
            self.wait += wait;
            self.waits.record(wait);
        }
    }

    /// The clocks of a turn's beginning and of its answers may be told in either order.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        self.depth += Nanos(now.since(self.at).0 * u64::from(self.outstanding));
        self.at = self.at.max(now);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &IoCounters) {
        for (mine, theirs) in self.ops.iter_mut().zip(&other.ops) {
            mine.count += theirs.count;
            mine.errors += theirs.errors;
            mine.bytes += theirs.bytes;
            mine.time += theirs.time;
            mine.times.add(&theirs.times);
        }
        self.wait += other.wait;
        self.waits.add(&other.waits);
        self.depth += other.depth;
        self.outstanding += other.outstanding;
    }
}

/// What the clients of an export that left a group have had done.
#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    by: Vec<(String, GroupId, IoCounters)>,
}

impl Departed {
    /// A client leaves; `export` is empty for a client of this process.
    pub fn add(&mut self, export: &str, group: GroupId, measure: &IoCounters) {
        match self.by.iter_mut().find(|(e, g, _)| e == export && *g == group) {
            Some((.., sum)) => sum.add(measure),
            None => self.by.push((export.into(), group, measure.clone())),
        }
    }

    pub fn into_sums(self) -> impl Iterator<Item = (String, GroupId, IoCounters)> {
        self.by.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_its_slot_within_a_sixteenth_and_powers_of_two_are_bounds() {
        let mut ns = 1u64;
        while ns <= 1 << 37 {
            for ns in [ns - 1, ns, ns + 1] {
                let slot = slot_of(ns);
                let below = if slot == 0 { 0 } else { top(slot - 1) };
                assert!(
                    ns <= top(slot) && (ns > below || slot == 0),
                    "{ns}: {below}..{}",
                    top(slot)
                );
                assert!(ns < 1024 || (top(slot) - below) * PARTS <= ns, "{ns} in slot {slot}");
            }
            ns = ns * 9 / 8 + 1;
        }
        for bits in GRAIN_BITS..=37 {
            assert_eq!(top(slot_of(1 << bits)), 1 << bits);
        }
        assert_eq!(slot_of(1 << 37), SLOTS - 1);
    }

    #[test]
    fn longer_times_than_there_are_slots_for_are_in_the_last_one() {
        let mut spread = LatencyHistogram::default();
        spread.record(Nanos(u64::MAX));
        spread.record(Nanos(0));
        assert_eq!(spread.slots().collect::<Vec<_>>(), [(64, 1), (1 << 37, 1)]);
    }

    #[test]
    fn the_integral_of_the_depth_is_the_sum_of_the_times() {
        let mut m = IoCounters::default();
        let at = |us| Instant::ZERO + Nanos::us(us);
        m.take(at(10));
        m.take(at(20));
        let times = |taken, issued, over| IoTimes { taken, issued, over };
        m.over(Op::Read, 4096, times(at(10), at(15), at(50)), true);
        m.over(Op::Write, 8192, times(at(20), at(40), at(120)), false);
        assert_eq!((m.depth, m.outstanding), (Nanos::us(40 + 100), 0));
        assert_eq!((m.ops[0].count, m.ops[0].errors, m.ops[0].bytes), (1, 0, 4096));
        assert_eq!((m.ops[1].count, m.ops[1].errors, m.ops[1].bytes), (1, 1, 0));
        assert_eq!(m.wait, Nanos::us(5 + 20));
        let mut both = m.clone();
        both.add(&m);
        assert_eq!((both.ops[1].time, both.depth), (Nanos::us(200), Nanos::us(280)));
        assert_eq!(both.waits.slots().map(|(_, n)| n).sum::<u64>(), 4);
    }
}
