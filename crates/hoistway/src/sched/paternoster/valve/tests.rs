use super::super::epoch::Passage;
use super::super::measure::UNIT;
use super::*;
use crate::unit::Nanos;
use alloc::vec;

fn is_hold(phase: &Phase) -> bool {
    matches!(phase, Phase::Hold { .. })
}

fn is_ceiling(phase: &Phase) -> bool {
    matches!(phase, Phase::Ceiling { .. })
}

const AROUND: Around = Around { requests: 8, inside: 8, service_least: Nanos::us(100) };

/// A drive that is as fast whatever the valve: one request each 200 us, of at most 64 sectors.
struct Drive {
    valve: Valve,
    now: Instant,
}

impl Drive {
    fn new() -> Drive {
        let mut valve = Valve::new(Instant::ZERO);
        valve.see_lane(AROUND);
        Drive { valve, now: Instant::ZERO }
    }

    /// One completion; the phase after it.
    fn complete(&mut self) -> Phase {
        self.now += Nanos::us(200);
        self.valve.held();
        let sectors = Sectors(64).min(self.valve.cut());
        let done = Done { sectors, units: Units(UNIT + sectors.0), passage: Passage::Greedy };
        self.valve.completed(self.now, done, AROUND);
        self.valve.phase()
    }

    /// Completions until that phase is reached.
    fn until(&mut self, reached: fn(&Phase) -> bool) {
        assert!((0..200_000).any(|_| reached(&self.complete())), "{:?}", self.valve.phase());
    }
}

#[test]
fn the_ceiling_is_measured_uncut_unless_a_number_is_to_be_kept() {
    let mut d = Drive::new();
    d.until(is_hold);
    assert!(d.valve.cut() < UNCUT);
    d.until(is_ceiling);
    assert_eq!(d.valve.cut(), UNCUT);

    let mut d = Drive::new();
    d.valve.see_number();
    assert_eq!(d.valve.cut(), CUT_FIRST, "from the first request on");
    d.until(is_hold);
    for _ in 0..400_000 {
        d.valve.see_number();
        d.complete();
        assert!(d.valve.cut() <= CUT_FIRST);
    }
    // Long after the last one everything is as before.
    d.until(is_hold);
    for _ in 0..8 * 64 * 96 {
        d.complete();
    }
    d.until(is_hold);
    d.until(is_ceiling);
    assert_eq!(d.valve.cut(), UNCUT);
}

#[test]
fn what_is_set_from_outside_stays_and_0_learns_anew() {
    let mut d = Drive::new();
    d.until(is_hold);
    d.valve.fix_k(Units::whole(20));
    d.valve.fix_cut(Sectors(64));
    for _ in 0..50_000 {
        d.complete();
        assert_eq!((d.valve.k(), d.valve.cut()), (Units::whole(20), Sectors(64)));
    }
    d.valve.fix_cut(Sectors(0));
    d.until(is_hold);
    assert_eq!(d.valve.k(), Units::whole(20), "only the cut is learnt");
    d.valve.fix_k(Units(0));
    assert!(is_ceiling(&d.valve.phase()));
    assert_eq!((d.valve.k(), d.valve.cut()), (OPEN, UNCUT));
    d.until(is_hold);
    assert_eq!(d.valve.k(), LEAST, "this drive needs no more");
}

/// An epoch under the limits in force, each request 64 sectors; `past`: it goes past the valve.
fn epoch(valve: &mut Valve, now: &mut Instant, each: Nanos, past: bool) {
    let phase = valve.phase();
    for _ in 0..20_000 {
        *now += each;
        let sectors = Sectors(64).min(valve.cut());
        let passage = if past { Passage::Past } else { Passage::Greedy };
        let done = Done { sectors, units: Units(UNIT + sectors.0), passage };
        valve.completed(*now, done, AROUND);
        if valve.phase() != phase {
            return;
        }
    }
    assert_eq!(valve.phase(), phase);
}

#[test]
fn what_goes_past_the_valve_says_nothing_about_its_width() {
    let k = |past| {
        let (mut valve, mut now) = (Valve::new(Instant::ZERO), Instant::ZERO);
        valve.see_lane(AROUND);
        for _ in 0..4 {
            epoch(&mut valve, &mut now, Nanos::us(200), past);
        }
        assert!(matches!(valve.phase(), Phase::Down { .. }), "{:?}", valve.phase());
        valve.k()
    };
    assert_eq!(k(true), FIRST, "nobody asked for less");
    assert_eq!(k(false), LEAST, "nothing greedy was inside");
}

/// A valve of 24 units is refused where it began; then four times as much has that rate.
fn confirmed_at(percent: u64) -> Valve {
    let (mut valve, mut now) = (Valve::new(Instant::ZERO), Instant::ZERO);
    valve.see_lane(AROUND);
    valve.ceiling = SectorRate(64 * 10_000);
    valve.knee = Limits { k: Units::whole(24), cut: CUT_FIRST, row: Units(0) };
    valve.in_force = Limits { k: FIRST, ..valve.knee };
    let (k, rate) = (Units::whole(24), SectorRate(64 * 5_000));
    let refused = Refused { k, rate, wide: SectorRate::UNKNOWN };
    valve.phase = Phase::Confirm { refused };
    epoch(&mut valve, &mut now, Nanos(10_000_000 / percent), false);
    valve
}

#[test]
fn a_valve_that_was_too_small_where_it_began_is_told_from_a_cut_that_was() {
    let valve = confirmed_at(100);
    assert_eq!((valve.knee.k, valve.knee.cut), (FIRST, CUT_FIRST), "more inside is enough");
    for percent in [90, 120] {
        // Less than the ceiling: the pieces are too small. More: credit that was saved up says nothing.
        let valve = confirmed_at(percent);
        assert_eq!((valve.knee.k, valve.knee.cut), (Units::whole(24), UNCUT), "{percent}");
    }
}

/// A valve of 144 units below a knee of 192 was refused at 94 %; four times the knee with the same cut had `wide` % of the
/// ceiling that is measured then.
fn after_refusal(wide: u64) -> Valve {
    let (mut valve, mut now) = (Valve::new(Instant::ZERO), Instant::ZERO);
    valve.see_lane(AROUND);
    let rate = |percent| SectorRate(64 * 100 * percent);
    (valve.pair_due, valve.ceiling) = (false, rate(100));
    valve.knee = Limits { k: FIRST, cut: CUT_FIRST, row: Units(0) };
    valve.in_force = valve.open();
    let refused = Refused { k: quarter_less(FIRST), rate: rate(94), wide: rate(wide) };
    valve.phase = Phase::Ceiling { asked: Asked::Refused(refused) };
    epoch(&mut valve, &mut now, Nanos::us(100), false);
    valve
}

#[test]
fn pieces_that_are_too_small_however_wide_the_valve_become_larger() {
    let valve = after_refusal(96);
    assert!(matches!(valve.phase, Phase::Down { .. }), "{:?}", valve.phase);
    assert_eq!((valve.knee.k, valve.knee.cut), (FIRST, UNCUT));
    let valve = after_refusal(99);
    assert!(matches!(valve.phase, Phase::Cut { .. }), "it was the valve: {:?}", valve.phase);
    assert_eq!((valve.knee.k, valve.knee.cut), (FIRST, CUT_FIRST));
}

/// A Hold under these limits, at the end of a search.
fn holding(limits: Limits, left: Epochs) -> Valve {
    let mut valve = Valve::new(Instant::ZERO);
    valve.see_lane(AROUND);
    (valve.pair_due, valve.ceiling) = (false, SectorRate(64 * 10_000));
    (valve.in_force, valve.knee, valve.phase) = (limits, limits, Phase::Hold { left });
    valve
}

/// Completions with nobody waiting, at so many % of the ceiling, until another phase comes; how many.
fn unheld(valve: &mut Valve, percent: u64) -> Option<u64> {
    let (mut now, phase) = (Instant::ZERO, core::mem::discriminant(&valve.phase));
    (1..100_000).find(|_| {
        now += Nanos(10_000_000 / percent);
        let done = Done { sectors: Sectors(64), units: Units(UNIT + 64), passage: Passage::Greedy };
        valve.completed(now, done, AROUND);
        core::mem::discriminant(&valve.phase) != phase
    })
}

#[test]
fn a_hold_wider_than_a_load_that_fills_the_drive_ends() {
    let mut valve = holding(Limits { k: OPEN, cut: UNCUT, row: Units(0) }, HOLD_RAISED);
    assert!(unheld(&mut valve, 96).is_some());
    assert!(matches!(valve.phase, Phase::Ceiling { asked: Asked::Held }), "{:?}", valve.phase);
}

#[test]
fn a_ceiling_that_nobody_reaches_is_measured_anew_and_less_often_each_time() {
    let mut valve = holding(Limits { k: FIRST, cut: CUT_FIRST, row: Units(0) }, HOLD);
    let first = unheld(&mut valve, 35).expect("credit that was saved up is no ceiling");
    assert!(matches!(valve.phase, Phase::Ceiling { asked: Asked::New }), "{:?}", valve.phase);
    valve.phase = Phase::Hold { left: HOLD };
    assert!(unheld(&mut valve, 35).is_some_and(|n| n > first));
}

/// A search on the way down; a flush runs for half of the time beside other work, and nobody waits.
#[test]
fn beside_flushes_a_valve_that_is_too_wide_closes_in_steps() {
    let mut valve = holding(Limits { k: FIRST, cut: CUT_FIRST, row: Units(0) }, HOLD);
    valve.phase = Phase::Down { slow: Epochs(0) };
    let (mut now, mut seen) = (Instant::ZERO, vec![FIRST]);
    for n in 0..10_000 {
        now += Nanos::us(100);
        match n % 2 {
            0 => valve.flush_began(now),
            _ => valve.flush_ended(now),
        }
        let done = Done { sectors: Sectors(64), units: Units(UNIT + 64), passage: Passage::Greedy };
        valve.issued(Sectors(n), Sectors(n), Units::whole(20));
        valve.completed(now, done, AROUND);
        if seen.last() != Some(&valve.k()) {
            seen.push(valve.k());
        }
    }
    assert!(seen.len() > 4, "{seen:?}");
    assert!(seen.windows(2).all(|w| w[1] == quarter_less(w[0])), "{seen:?}");
}

#[test]
fn smaller_pieces_are_tried_with_as_much_data_inside_and_from_whole_requests_too() {
    for (k, cut, half, inside) in [
        (Units::whole(6), CUT_FIRST, CUT_FIRST.0 / 2, Units::whole(18)),
        (Units::whole(40), CUT_FIRST, CUT_FIRST.0 / 2, Units::whole(40)),
        (Units::whole(6), UNCUT, CUT_FIRST.0, Units::whole(34)),
    ] {
        let mut valve = holding(Limits { k, cut, row: Units(0) }, HOLD);
        valve.cut_or_hold(AROUND);
        assert_eq!((valve.cut().0, valve.k()), (half, inside));
    }
}
