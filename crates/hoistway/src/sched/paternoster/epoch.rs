//! Epochs: how fast the drive is under one setting of the valve.
//!
//! *Problem.* A rate says something about a setting only if all of it was reached under that setting, and if it is
//! that of a busy drive.
//!
//! *Rule.* An epoch is at least 10 ms and 96 completions (48 uncut). It begins anew while requests from before the last
//! change are still completing, for each request larger than the cut, and after a pause. A *part* of one, for pairs
//! (`valve/pairs.rs`), is a quarter of it; or 10 ms, if four requests have completed.
//!
//! *Guarantee.* What is measured began and ended under the limits in force.
//!
//! *Weakness.* A load that changes faster than an epoch is an average here.
//!
//! Source: specs/paternoster.md 4.

use super::measure::{SectorRate, UNIT, Units};
use super::valve::UNCUT;
use crate::unit::{Instant, Nanos, Sectors};

const EPOCH: Nanos = Nanos::ms(10);
const REQUESTS: u32 = 96;
const REQUESTS_UNCUT: u32 = 48;
/// Parts of an epoch, and what is enough for one that takes long.
const PARTS: u32 = 4;
const PART_LONG: Nanos = Nanos::ms(10);
const PART_REQUESTS: u32 = 4;
/// A pause this long with nothing to do belongs to no epoch.
const PAUSE: Nanos = Nanos::ms(10);

/// Surroundings of a completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// Requests that wait and that are inside, without this one.
    pub requests: u32,
    /// Those of them that are inside.
    pub inside: u32,
    /// Least time the drive takes for a request of the lane.
    pub service_least: Nanos,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// Past the valve, or without data.
    Past,
    /// Greedy, and subject to the cut.
    Greedy,
    /// The same, a sync write.
    SyncWrite,
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Data moved.
    pub sectors: Sectors,
    pub units: Units,
    pub passage: Passage,
}

/// A rate, and the sectors in a row it was reached with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RateSample {
    pub rate: SectorRate,
    pub row: u64,
}

impl RateSample {
    /// The faster rate of two samples of the same limits, and their mean row.
    pub fn best_of(self, other: RateSample) -> RateSample {
        RateSample { rate: self.rate.max(other.rate), row: (self.row + other.row) / 2 }
    }
}

/// Result of an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub sample: RateSample,
    /// Somebody waited because of the valve, and flushes did not limit the drive.
    pub held: bool,
    /// Flushes took more than a quarter of it from other work.
    pub flush_limited: bool,
    /// They took more than a twentieth.
    pub flushing: bool,
    /// They ran for more than a quarter of it, whatever went on beside them.
    pub flushed: bool,
    /// Most greedy work inside.
    pub peak: Units,
    /// Most of what it moved went through the valve.
    pub by_valve: bool,
    /// Most of it were sync writes.
    pub by_syncs: bool,
    /// All work that completed, and in which time.
    pub units: Units,
    pub time: Nanos,
}

/// One measurement under one setting.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    start: Instant,
    last: Instant,
    sectors: Sectors,
    /// What went past the valve.
    past: Sectors,
    /// What was written with sync.
    sync: Sectors,
    requests: u32,
    /// Requests issued that did not begin where the one before ended.
    rows: u64,
    flush: Nanos,
    /// Completed while one ran.
    beside_flushes: Sectors,
    held: bool,
    peak: Units,
}

impl Epoch {
    /// As long as a part of an epoch.
    fn is_part(&self, least: u32) -> bool {
        let time = self.last.since(self.start);
        let usual = PARTS * self.requests >= least && time * u64::from(PARTS) >= EPOCH;
        usual || (self.requests >= PART_REQUESTS && time >= PART_LONG)
    }

    #[cold]
    fn measured(&self) -> Measured {
        let rate = SectorRate::of(self.sectors, self.start, self.last);
        let row = (self.sectors.0 / self.rows.max(1)).max(1);
        let time = self.last.since(self.start);
        // A volume that always has a flush under way is as fast as one without: lost is what is not done meanwhile.
        let done = u128::from(time.0) * u128::from(self.beside_flushes.0);
        let lost = self.flush.0.saturating_sub((done / u128::from(self.sectors.0.max(1))) as u64);
        let flush_limited = lost > time.0 / 4;
        Measured {
            sample: RateSample { rate, row },
            held: self.held && !flush_limited,
            flush_limited,
            flushing: lost > time.0 / 20,
            flushed: self.flush > time / 4,
            peak: self.peak,
            by_valve: 2 * self.past.0 <= self.sectors.0,
            by_syncs: 2 * self.sync.0 > self.sectors.0,
            units: Units(UNIT * u64::from(self.requests) + self.sectors.0),
            time,
        }
    }
}

#[derive(Debug)]
pub(super) struct Meter {
    epoch: Epoch,
    flush_since: Option<Instant>,
    last_end: Sectors,
    /// From before the last change, and still to complete.
    old_units: Units,
    old_requests: u32,
}

impl Meter {
    pub fn new(now: Instant) -> Meter {
        Meter {
            epoch: Epoch { start: now, last: now, ..Epoch::default() },
            flush_since: None,
            last_end: Sectors(u64::MAX),
            old_units: Units(0),
            old_requests: 0,
        }
    }

    /// Begins an epoch.
    pub fn restart(&mut self, now: Instant) {
        self.epoch = Epoch { start: now, last: now, ..Epoch::default() };
    }

    /// So much work of the limits before is to complete first.
    pub fn settle_units(&mut self, units: Units) {
        self.old_units = units;
    }

    pub fn settle_units_at_least(&mut self, units: Units) {
        self.old_units = self.old_units.max(units);
    }

    /// So many requests of the limits before are to complete first.
    pub fn settle_requests(&mut self, requests: u32) {
        self.old_requests = requests;
    }

    /// Somebody waits because of the valve.
    #[inline]
    pub fn held(&mut self) {
        self.epoch.held = true;
    }

    #[inline]
    pub fn issued(&mut self, start: Sectors, end: Sectors, greedy: Units) {
        self.epoch.rows += u64::from(start != self.last_end);
        self.last_end = end;
        self.epoch.peak = self.epoch.peak.max(greedy);
    }

    pub fn flush_began(&mut self, now: Instant) {
        self.flush_since = Some(now);
    }

    pub fn flush_ended(&mut self, now: Instant) {
        if let Some(since) = self.flush_since.take() {
            self.epoch.flush += now.since(since.max(self.epoch.start));
        }
    }

    /// The drive had nothing to do for long.
    #[inline]
    pub fn is_paused(&self, now: Instant) -> bool {
        self.flush_since.is_none() && now.since(self.epoch.last) >= PAUSE
    }

    /// A completion under that cut; the epoch (or the part of one) that it ends, and the next one begins.
    #[inline]
    pub fn completed(
        &mut self,
        now: Instant,
        done: Done,
        cut: Sectors,
        parts: bool,
    ) -> Option<Measured> {
        let settling = self.old_units.0 > 0 || self.old_requests > 0;
        if settling {
            self.old_units = self.old_units.saturating_sub(done.units);
            self.old_requests = self.old_requests.saturating_sub(1);
        }
        if settling || (done.passage != Passage::Past && done.sectors > cut) {
            self.restart(now);
            return None;
        }
        let e = &mut self.epoch;
        e.sectors.0 += done.sectors.0;
        match done.passage {
            Passage::Past => e.past.0 += done.sectors.0,
            Passage::SyncWrite => e.sync.0 += done.sectors.0,
            Passage::Greedy => {}
        }
        if self.flush_since.is_some() {
            e.beside_flushes.0 += done.sectors.0;
        }
        e.requests += 1;
        e.last = now;
        let least = if cut == UNCUT { REQUESTS_UNCUT } else { REQUESTS };
        let whole = e.requests >= least && now.since(e.start) >= EPOCH;
        let over = whole || (parts && e.is_part(least));
        if !over {
            return None;
        }
        if let Some(since) = self.flush_since {
            e.flush += now.since(since.max(e.start));
            self.flush_since = Some(now);
        }
        let measured = e.measured();
        self.restart(now);
        Some(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Sectors = Sectors(256);
    const DONE: Done =
        Done { sectors: Sectors(64), units: Units::whole(5), passage: Passage::Greedy };

    fn at(us: u64) -> Instant {
        Instant::ZERO + Nanos::us(us)
    }

    /// Completions each 200 us from `from` on; the time and the result of the first epoch that ends.
    fn run(meter: &mut Meter, from: u64, cut: Sectors) -> (u64, Measured) {
        let one = |n: u64| Some((n, meter.completed(at(from + 200 * n), DONE, cut, false)?));
        (1..10_000).find_map(one).expect("an epoch ends")
    }

    #[test]
    fn an_epoch_is_96_completions_or_48_uncut_and_at_least_10_ms() {
        assert_eq!(run(&mut Meter::new(at(0)), 0, CUT).0, 96);
        let (n, measured) = run(&mut Meter::new(at(0)), 0, UNCUT);
        assert_eq!(n, 50, "10 ms are over");
        assert_eq!(measured.sample.rate, SectorRate(64 * 5_000));
    }

    #[test]
    fn a_part_is_a_quarter_of_an_epoch_or_10_ms_with_four_requests() {
        let parts = |each: u64| {
            let mut meter = Meter::new(at(0));
            (1..100).find(|n| meter.completed(at(each * n), DONE, CUT, true).is_some())
        };
        assert_eq!(parts(200), Some(24));
        assert_eq!(parts(50), Some(50), "2.5 ms are over");
        assert_eq!(parts(2_000), Some(5), "10 ms are over");
        assert_eq!(parts(9_000), Some(4));
    }

    #[test]
    fn what_is_from_before_a_change_is_not_measured() {
        let mut meter = Meter::new(at(0));
        meter.settle_units(Units::whole(10));
        meter.settle_requests(3);
        assert_eq!(run(&mut meter, 0, CUT).0, 3 + 96, "units are through after two");
        let mut meter = Meter::new(at(0));
        meter.settle_units(Units::whole(51));
        assert_eq!(run(&mut meter, 0, CUT).0, 11 + 96);
    }

    #[test]
    fn a_request_larger_than_the_cut_begins_anew_unless_it_is_not_subject_to_it() {
        let mut meter = Meter::new(at(0));
        let large = Done { sectors: Sectors(512), ..DONE };
        for n in 0..90 {
            meter.completed(at(200 * n), DONE, CUT, false);
        }
        meter.completed(at(18_000), large, CUT, false);
        assert_eq!(run(&mut meter, 18_000, CUT).0, 96);
        meter.completed(at(90_000), Done { passage: Passage::Past, ..large }, CUT, false);
        assert_eq!(run(&mut meter, 90_000, CUT).0, 95);
    }

    #[test]
    fn a_flush_that_keeps_nobody_from_going_on_does_not_limit() {
        let mut meter = Meter::new(at(0));
        meter.held();
        meter.flush_began(at(0));
        let measured = run(&mut meter, 0, CUT).1;
        assert!(measured.held && measured.flushed && !measured.flush_limited && !measured.flushing);
    }

    #[test]
    fn an_epoch_with_a_quarter_of_flushes_is_not_held() {
        for (flushed, limited) in [(4_000, false), (6_000, true)] {
            let mut meter = Meter::new(at(0));
            meter.held();
            meter.flush_began(at(0));
            meter.flush_ended(at(flushed));
            let measured = run(&mut meter, 0, CUT).1;
            assert_eq!((measured.flush_limited, measured.held), (limited, !limited));
        }
    }
}
