//! The valve: how much greedy work is inside the drive, and how large its largest piece is.
//!
//! *Problem.* A saturated drive does not go faster with ten times as much inside; it only gets slower for everybody.
//! Where it is just saturated differs by a factor of 1000 between drives, and by load.
//!
//! *Idea.* Try. A *ceiling* is measured with everything open: `k` units inside (a unit is a command or 8 KiB) and
//! uncut requests. Then `k` goes down by quarters, and the cut by halves, as long as the rate stays above
//! `(1 - loss) ceiling`; both settle at the *knee*. Now and then the ceiling is measured again.
//!
//! *State.* What is in force (`k`, `cut`, `row`), what was accepted last (`base`, `cut_base`, `row_base`), the
//! ceiling, the last refusal, and the phase.
//!
//! | phase | in force | question |
//! |---|---|---|
//! | Ceiling | open, uncut | what can the drive do? |
//! | Batch, Again | the same in rows, and without | does a change of stream cost, and how much? |
//! | Down | `k`, `cut_base` | is this still enough? |
//! | Confirm | 4 `base`, the same cut | was it the valve, or the load? |
//! | Cut | `base`, half the cut | are smaller pieces still enough? |
//! | Hold | `base`, `cut_base` | has the load changed? |
//!
//! *Rule.* An *epoch* is at least 10 ms and 96 completions (48 uncut) under one setting; it begins anew while
//! requests from before the last change are still completing. It says something about the valve only if the valve
//! was *held* (somebody waited because of it), and nothing steps down in epochs that flushes limit.
//!
//! *Guarantee.* In the steady state the rate is at least `(1 - loss)` of the uncut ceiling as last measured.
//!
//! *Weaknesses.* The ceiling is as old as the last Hold is long (0.6 to 20 s of epochs). A ceiling epoch lets the
//! drive fill up, which costs a target one bad latency; loads that change faster than an epoch are averages here.
//!
//! Source: specs/paternoster.md 4.

use crate::unit::{Instant, Nanos, Sectors};

/// A unit in the fixed point of all counts of units here.
pub(super) const UNIT: u64 = 16;
/// Wide open, at the start. Deeper than any catalogue drive needs (specs/paternoster.md 4).
const OPEN: u64 = 1024 * UNIT;
/// The first step down; also the least that confirms a refusal.
const FIRST: u64 = 192 * UNIT;
/// Least that a ceiling is measured with later.
const WIDE: u64 = 384 * UNIT;
/// The least valve: below six units a single request of 32 KiB stands alone.
const LEAST: u64 = 6 * UNIT;
/// Cuts: 128 KiB first, 32 KiB at the least. Smaller pieces cost processor time and gain nothing.
const CUT_FIRST: Sectors = Sectors(256);
const CUT_LEAST: Sectors = Sectors(64);
/// No cut.
pub(super) const UNCUT: Sectors = Sectors(u64::MAX);
/// The row that is tried: 320 KiB of one process at a time.
const ROW: u64 = 40 * UNIT;
const EPOCH: Nanos = Nanos::ms(10);
const EPOCH_REQUESTS: u32 = 96;
const EPOCH_REQUESTS_UNCUT: u32 = 48;
/// A pause this long with nothing to do belongs to no epoch.
const PAUSE: Nanos = Nanos::ms(10);
/// Epochs of a Hold, doubled with each backoff.
const HOLD: u32 = 64;
const BACKOFF_MOST: u32 = 5;
/// So many epochs after its last request a numeric target counts as active.
const NUMBER_EPOCHS: u32 = 64;
/// Most that a change of place is believed to cost.
const CHANGE_MOST: u64 = 1024 * UNIT;

/// What is tried at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Ceiling,
    Batch,
    Again,
    Down,
    Confirm,
    Cut,
    Hold,
}

impl Phase {
    pub const ALL: [Phase; 7] = [
        Phase::Ceiling,
        Phase::Batch,
        Phase::Again,
        Phase::Down,
        Phase::Confirm,
        Phase::Cut,
        Phase::Hold,
    ];
}

/// What the valve is to know about the moment of a completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// Requests that wait and that are inside, without this one.
    pub requests: u32,
    /// Least time the drive takes for a request of the lane.
    pub service_least: Nanos,
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Data moved.
    pub sectors: Sectors,
    /// In sixteenths.
    pub units: u64,
    /// Greedy, and reads or writes data: subject to the cut.
    pub cuttable: bool,
}

/// One measurement under one setting.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    start: Instant,
    last: Instant,
    sectors: u64,
    requests: u32,
    /// Requests issued that did not begin where the one before ended.
    rows: u64,
    flush: Nanos,
    /// Somebody waited because of the valve.
    held: bool,
    /// Most greedy units inside.
    peak: u64,
}

impl Epoch {
    /// Sectors per second.
    fn rate(&self) -> u64 {
        let ns = self.last.since(self.start).0.max(1);
        (u128::from(self.sectors) * 1_000_000_000 / u128::from(ns)) as u64
    }

    /// Sectors in a row on average.
    fn row(&self) -> u64 {
        (self.sectors / self.rows.max(1)).max(1)
    }

    fn flush_limited(&self) -> bool {
        self.flush.0 > self.last.since(self.start).0 / 4
    }
}

/// A rate, and the sectors in a row it was reached with.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    rate: u64,
    row: u64,
}

#[derive(Debug)]
pub(super) struct Valve {
    /// In force: units of greedy work inside, largest request, units of one process in a row.
    pub k: u64,
    cut: Sectors,
    pub row: u64,
    /// Accepted last.
    base: u64,
    cut_base: Sectors,
    row_base: u64,
    /// What a change of place costs, in sixteenths of units; 0: nothing.
    pub change: u64,
    phase: Phase,
    /// Sectors per second; 0: not known yet.
    ceiling: u64,
    /// The valve that was too small, and its rate.
    refused: Option<(u64, u64)>,
    /// Moving rate while holding.
    mean: u64,
    /// Epochs to hold.
    calm: u32,
    backoff: u32,
    /// Epochs in a row that were not held and slow, or tried in vain.
    slow: u32,
    pair_due: bool,
    /// A Hold whose mean fell short raises valve and cut in turn.
    raise_cut: bool,
    /// The Ceiling comes from a Hold.
    held_before: bool,
    /// Rates with the row in force and with the other.
    open: Sample,
    other: Sample,
    epoch: Epoch,
    /// Units and requests from before the last change that are still to complete.
    settle_units: u64,
    settle_requests: u32,
    flush_since: Option<Instant>,
    /// Requests of the lane exist: only then is anything cut.
    lane_seen: bool,
    /// Epochs for which a numeric target still counts as active: no epoch is uncut then.
    number: u32,
    /// Set from outside: the valve in units and the cut in KiB; 0: learnt.
    fixed: (u64, u64),
    /// In permille.
    loss: u64,
    last_end: Sectors,
    epochs: u64,
}

impl Valve {
    pub fn new(now: Instant) -> Valve {
        Valve {
            k: OPEN,
            cut: UNCUT,
            row: 0,
            base: FIRST,
            cut_base: UNCUT,
            row_base: 0,
            change: 0,
            phase: Phase::Ceiling,
            ceiling: 0,
            refused: None,
            mean: 0,
            calm: 0,
            backoff: 0,
            slow: 0,
            pair_due: true,
            raise_cut: false,
            held_before: false,
            open: Sample::default(),
            other: Sample::default(),
            epoch: Epoch { start: now, last: now, ..Epoch::default() },
            settle_units: 0,
            settle_requests: 0,
            flush_since: None,
            lane_seen: false,
            number: 0,
            fixed: (0, 0),
            loss: 30,
            last_end: Sectors(u64::MAX),
            epochs: 0,
        }
    }

    pub fn loss(&self) -> u64 {
        self.loss
    }

    /// In permille; counts from the next judgement on.
    pub fn set_loss(&mut self, permille: u64) {
        self.loss = permille;
    }

    /// Thousandths that the drive delivers less than its ceiling, as far as known.
    pub fn short(&self) -> u64 {
        if self.mean == 0 || self.ceiling == 0 {
            return 0;
        }
        let part = u128::from(self.mean) * 1000 / u128::from(self.ceiling);
        1000u64.saturating_sub(part as u64)
    }

    /// What is set from outside: units and KiB.
    pub fn fixed(&self) -> (u64, u64) {
        self.fixed
    }

    pub fn fix_k(&mut self, units: u64) {
        if self.fixed.0 != units {
            self.fixed.0 = units;
            self.learn_anew();
        }
    }

    pub fn fix_cut(&mut self, kib: u64) {
        if self.fixed.1 != kib {
            self.fixed.1 = kib;
            self.learn_anew();
        }
    }

    /// What was learnt under another setting from outside does not hold under this one.
    fn learn_anew(&mut self) {
        (self.ceiling, self.refused, self.mean, self.slow) = (0, None, 0, 0);
        (self.base, self.cut_base, self.held_before) = (FIRST, UNCUT, false);
        self.settle_units = self.settle_units.max(self.k);
        let (k, cut) = self.in_bounds(OPEN, UNCUT);
        (self.phase, self.k, self.cut) = (Phase::Ceiling, k, cut);
    }

    /// What is set from outside goes before what is tried.
    fn in_bounds(&self, k: u64, cut: Sectors) -> (u64, Sectors) {
        let k = if self.fixed.0 > 0 { self.fixed.0 * UNIT } else { k };
        let cut = if self.fixed.1 > 0 { Sectors(self.fixed.1 * 2) } else { cut };
        (k, cut)
    }

    /// A request with a numeric target: for a while nothing is tried that lets large requests into the drive.
    pub fn see_number(&mut self) {
        self.number = NUMBER_EPOCHS;
        let open = matches!(self.phase, Phase::Ceiling | Phase::Batch | Phase::Again);
        if open && self.cut == UNCUT && self.fixed.1 == 0 {
            self.cut = CUT_FIRST;
        }
    }

    /// The largest request to build.
    pub fn cut(&self) -> Sectors {
        self.cut
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn ceiling(&self) -> u64 {
        self.ceiling
    }

    pub fn base(&self) -> (u64, Sectors, u64) {
        (self.base, self.cut_base, self.row_base)
    }

    /// The valve stops somebody.
    pub fn held(&mut self) {
        self.epoch.held = true;
    }

    /// Rows are on trial: what breaks them would spoil the measurement.
    pub fn tries_rows(&self) -> bool {
        let pair = match self.phase {
            Phase::Ceiling => self.pair_due,
            Phase::Batch | Phase::Again => true,
            _ => false,
        };
        pair && self.row > 0
    }

    /// A request goes to the drive, which then has so many greedy units inside.
    pub fn issued(&mut self, start: Sectors, end: Sectors, greedy: u64) {
        self.epoch.rows += u64::from(start != self.last_end);
        self.last_end = end;
        self.epoch.peak = self.epoch.peak.max(greedy);
    }

    /// The first request of the lane: from now on requests are cut.
    pub fn see_lane(&mut self, around: Around) {
        if self.lane_seen {
            return;
        }
        self.lane_seen = true;
        if self.ceiling > 0 && self.phase != Phase::Ceiling {
            self.down_from(self.base.max(FIRST), CUT_FIRST, around);
        }
    }

    pub fn flush_began(&mut self, now: Instant) {
        self.flush_since = Some(now);
    }

    pub fn flush_ended(&mut self, now: Instant) {
        if let Some(since) = self.flush_since.take() {
            let inside = now.since(since.max(self.epoch.start));
            self.epoch.flush += inside;
        }
    }

    /// Something comes after a time with nothing to do.
    pub fn resumed(&mut self, now: Instant) {
        if self.flush_since.is_none() && now.since(self.epoch.last) >= PAUSE {
            self.restart(now);
        }
    }

    /// What completes now was sent under a smaller limit than the valve's own: it is not measured.
    pub fn resumed_after_limit(&mut self, now: Instant) {
        self.restart(now);
    }

    /// Measures anew under the same setting.
    pub fn restart(&mut self, now: Instant) {
        self.epoch = Epoch { start: now, last: now, ..Epoch::default() };
    }

    /// A completion; true when another setting came into force.
    pub fn completed(&mut self, now: Instant, done: Done, around: Around) -> bool {
        let settling = self.settle_units > 0 || self.settle_requests > 0;
        if settling {
            self.settle_units = self.settle_units.saturating_sub(done.units);
            self.settle_requests = self.settle_requests.saturating_sub(1);
        }
        if settling || (done.cuttable && done.sectors > self.cut) {
            self.restart(now);
            return false;
        }
        let e = &mut self.epoch;
        e.sectors += done.sectors.0;
        e.requests += 1;
        e.last = now;
        let least = if self.cut == UNCUT { EPOCH_REQUESTS_UNCUT } else { EPOCH_REQUESTS };
        if e.requests < least || now.since(e.start) < EPOCH {
            return false;
        }
        if let Some(since) = self.flush_since {
            let inside = now.since(since.max(e.start));
            e.flush += inside;
            self.flush_since = Some(now);
        }
        let before = (self.k, self.cut, self.row);
        self.epochs += 1;
        self.judge_epoch(around);
        self.number = self.number.saturating_sub(1);
        self.restart(now);
        before != (self.k, self.cut, self.row)
    }

    /// `part` is enough of `whole`.
    fn enough(&self, part: u64, whole: u64) -> bool {
        u128::from(part) * 1000 >= u128::from(whole) * u128::from(1000 - self.loss)
    }

    /// `other` is better than `one` by more than twice the loss.
    fn better(&self, other: u64, one: u64) -> bool {
        u128::from(other) * 1000 > u128::from(one) * u128::from(1000 + 2 * self.loss)
    }

    fn judge_epoch(&mut self, around: Around) {
        let rate = self.epoch.rate();
        let limited = self.epoch.flush_limited();
        let held = self.epoch.held && !limited;
        let sample = Sample { rate, row: self.epoch.row() };
        match self.phase {
            Phase::Ceiling => {
                self.open = sample;
                if self.pair_due {
                    let other = if self.row_base == 0 { ROW } else { 0 };
                    self.put(Phase::Batch, (self.k, self.cut, other), around);
                } else {
                    self.judge(rate, around);
                }
            }
            Phase::Batch => {
                if self.better(rate, self.open.rate) {
                    self.other = sample;
                    self.put(Phase::Again, (self.k, self.cut, self.row_base), around);
                } else {
                    self.judge(self.open.rate, around);
                }
            }
            Phase::Again => {
                let best = Sample {
                    rate: rate.max(self.open.rate),
                    row: (sample.row + self.open.row) / 2,
                };
                if self.better(self.other.rate, best.rate) {
                    self.change_rows(best);
                    self.judge(self.other.rate, around);
                } else {
                    self.judge(best.rate, around);
                }
            }
            Phase::Down => self.down(rate, held, limited, around),
            Phase::Confirm => self.confirm(rate, around),
            Phase::Cut => self.tried_cut(rate, held, around),
            Phase::Hold if held => self.hold(rate, around),
            Phase::Hold => {}
        }
    }

    /// Rows are worth it, or no longer: the price of a change is what the pair shows.
    fn change_rows(&mut self, one: Sample) {
        if self.row_base > 0 {
            self.row_base = 0;
            self.change = 0;
            return;
        }
        self.row_base = ROW;
        // (B / A - 1) / max(1 / s_A - 1 / s_B, 0.1 / s_A) sectors, which are sixteenths of units.
        let (a, b) = (one, self.other);
        let fewer = 1000u64.saturating_sub(1000 * a.row / b.row.max(1)).max(100);
        let gain = u128::from(b.rate - a.rate) * u128::from(a.row) * 1000;
        let price = gain / (u128::from(a.rate.max(1)) * u128::from(fewer));
        self.change = (price as u64).clamp(1, CHANGE_MOST);
    }

    /// A ceiling has been measured, rows or not.
    fn judge(&mut self, rate: u64, around: Around) {
        self.pair_due = false;
        if self.ceiling == 0 {
            self.ceiling = rate;
            self.base = FIRST;
            self.down_from(FIRST, CUT_FIRST, around);
        } else if let Some((k, refused)) = self.refused {
            self.ceiling = rate;
            if self.enough(refused, rate) {
                self.refused = None;
                self.base = k;
                self.step_down(around);
            } else {
                self.refusal(around);
            }
        } else if core::mem::take(&mut self.held_before) {
            self.judge_hold(rate, around);
        } else {
            self.ceiling = rate;
            self.base = self.base.max(FIRST);
            self.down_from(self.base, CUT_FIRST, around);
        }
    }

    /// Is what was held still at the knee?
    fn judge_hold(&mut self, rate: u64, around: Around) {
        self.ceiling = rate.max(self.mean);
        if self.enough(self.mean, self.ceiling) {
            self.backoff = (self.backoff + 1).min(BACKOFF_MOST);
            self.step_down(around);
            return;
        }
        if self.raise_cut && self.cut_base != UNCUT {
            self.cut_base = doubled(self.cut_base);
        } else {
            self.base = (self.base * 3 / 2).min(OPEN);
        }
        self.raise_cut = !self.raise_cut;
        self.hold_for(4, around);
    }

    fn down(&mut self, rate: u64, held: bool, limited: bool, around: Around) {
        if held && self.enough(rate, self.ceiling) {
            self.slow = 0;
            self.ceiling = self.ceiling.max(rate);
            self.base = self.k;
            self.step_down(around);
        } else if held {
            self.slow = 0;
            self.refused = Some((self.k, rate));
            let k = (4 * self.base).max(FIRST);
            self.put(Phase::Confirm, (k, self.cut, self.row_base), around);
        } else {
            let peak = self.epoch.peak.max(LEAST);
            if !limited && self.k > peak {
                self.base = peak;
                let k = (peak * 3 / 4).max(LEAST);
                self.put(Phase::Down, (k, self.cut, self.row_base), around);
            }
            if self.is_low(rate) {
                self.slow += 1;
                if self.slow >= 4 << self.backoff {
                    self.new_pair(around);
                }
            }
        }
    }

    /// A new pair, because the load does not reach what it did.
    fn new_pair(&mut self, around: Around) {
        self.slow = 0;
        self.backoff = (self.backoff + 1).min(BACKOFF_MOST);
        self.pair_due = true;
        self.refused = None;
        self.measure_ceiling(around);
    }

    fn is_low(&self, rate: u64) -> bool {
        u128::from(rate) * 100 < u128::from(self.ceiling) * 85
    }

    fn confirm(&mut self, rate: u64, around: Around) {
        let Some((_, refused)) = self.refused else {
            return self.hold_for(HOLD, around);
        };
        if self.enough(refused, rate) {
            // The ceiling is old, or it is the cut that costs.
            self.measure_ceiling(around);
        } else {
            self.refusal(around);
        }
    }

    /// The last step was one too many.
    fn refusal(&mut self, around: Around) {
        let (k, _) = self.refused.take().expect("only a refusal leads here");
        if k >= self.base {
            // Not even where it began.
            if self.cut_base == UNCUT {
                self.base = (self.base * 3 / 2).min(OPEN);
            } else {
                self.cut_base = doubled(self.cut_base);
            }
            if self.base >= OPEN {
                return self.hold_for(HOLD << self.backoff, around);
            }
            return self.down_from(self.base, self.cut_base, around);
        }
        if self.worth_cutting(around) {
            let cut = Sectors(self.cut_base.0 / 2);
            self.put(Phase::Cut, (self.base, cut, self.row_base), around);
        } else {
            self.hold_for(HOLD << self.backoff, around);
        }
    }

    /// Is one piece longer than a quarter of what the drive takes for a request of the lane anyway?
    fn worth_cutting(&self, around: Around) -> bool {
        if self.fixed.1 > 0 || self.cut_base == UNCUT || self.cut_base <= CUT_LEAST {
            return false;
        }
        let piece = u128::from(self.cut_base.0) * 1_000_000_000 / u128::from(self.ceiling.max(1));
        piece > u128::from(around.service_least.0 / 4)
    }

    fn tried_cut(&mut self, rate: u64, held: bool, around: Around) {
        if held && self.enough(rate, self.ceiling) {
            self.slow = 0;
            self.cut_base = self.cut;
            self.step_down(around);
        } else if held || self.slow >= 4 {
            self.slow = 0;
            self.hold_for(HOLD << self.backoff, around);
        } else {
            self.slow += 1;
        }
    }

    fn hold(&mut self, rate: u64, around: Around) {
        self.mean = if self.mean == 0 { rate } else { (3 * self.mean + rate) / 4 };
        let low = self.is_low(self.mean);
        let high = u128::from(rate) * 10 > u128::from(self.ceiling) * 11;
        if low || high {
            self.pair_due = true;
            self.calm = self.calm.min(2);
            self.backoff = 0;
        }
        if self.calm == 0 {
            self.held_before = true;
            self.measure_ceiling(around);
        } else {
            self.calm -= 1;
        }
    }

    fn hold_for(&mut self, epochs: u32, around: Around) {
        self.calm = epochs;
        self.mean = 0;
        self.refused = None;
        self.put(Phase::Hold, (self.base, self.cut_base, self.row_base), around);
    }

    fn measure_ceiling(&mut self, around: Around) {
        let k = (4 * self.base).clamp(WIDE, OPEN);
        if self.number > 0 {
            let k = (4 * self.base).clamp(FIRST, OPEN);
            let cut = self.cut_base.max(CUT_FIRST);
            return self.put(Phase::Ceiling, (k, cut, self.row_base), around);
        }
        self.put(Phase::Ceiling, (k, UNCUT, self.row_base), around);
    }

    /// The next smaller valve, if there is one.
    fn step_down(&mut self, around: Around) {
        if self.base <= LEAST || self.fixed.0 > 0 {
            if self.worth_cutting(around) {
                let cut = Sectors(self.cut_base.0 / 2);
                return self.put(Phase::Cut, (self.base, cut, self.row_base), around);
            }
            return self.hold_for(HOLD << self.backoff, around);
        }
        let k = (self.base * 3 / 4).max(LEAST);
        self.put(Phase::Down, (k, self.cut_base, self.row_base), around);
    }

    fn down_from(&mut self, k: u64, cut: Sectors, around: Around) {
        self.base = k;
        self.cut_base = if self.lane_seen { cut } else { UNCUT };
        self.refused = None;
        self.put(Phase::Down, (k, self.cut_base, self.row_base), around);
    }

    /// Another phase; what is from before must complete before it is measured.
    fn put(&mut self, phase: Phase, (k, cut, row): (u64, Sectors, u64), around: Around) {
        let (k, cut) = self.in_bounds(k, cut);
        if k != self.k {
            self.settle_units = self.k.max(k);
        }
        if cut > self.cut || row != self.row {
            self.settle_requests = around.requests;
        }
        (self.phase, self.k, self.cut, self.row) = (phase, k, cut, row);
    }
}

/// The next larger cut.
fn doubled(cut: Sectors) -> Sectors {
    if cut >= CUT_FIRST { UNCUT } else { Sectors(2 * cut.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AROUND: Around = Around { requests: 8, service_least: Nanos::us(100) };

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
            let done = Done { sectors, units: UNIT + sectors.0, cuttable: true };
            self.valve.completed(self.now, done, AROUND);
            self.valve.phase()
        }

        /// Completions until that phase is reached.
        fn until(&mut self, phase: Phase) {
            let reached = (0..200_000).any(|_| self.complete() == phase);
            assert!(reached, "{phase:?} is reached");
        }
    }

    #[test]
    fn the_ceiling_is_measured_uncut_unless_a_number_is_to_be_kept() {
        let mut d = Drive::new();
        d.until(Phase::Hold);
        assert!(d.valve.cut() < UNCUT);
        d.until(Phase::Ceiling);
        assert_eq!(d.valve.cut(), UNCUT);

        let mut d = Drive::new();
        d.valve.see_number();
        assert_eq!(d.valve.cut(), CUT_FIRST, "from the first request on");
        d.until(Phase::Hold);
        for _ in 0..400_000 {
            d.valve.see_number();
            d.complete();
            assert!(d.valve.cut() <= CUT_FIRST);
        }
        // Long after the last one everything is as before.
        d.until(Phase::Hold);
        for _ in 0..8 * NUMBER_EPOCHS * EPOCH_REQUESTS {
            d.complete();
        }
        d.until(Phase::Hold);
        d.until(Phase::Ceiling);
        assert_eq!(d.valve.cut(), UNCUT);
    }

    #[test]
    fn what_is_set_from_outside_stays_and_0_learns_anew() {
        let mut d = Drive::new();
        d.until(Phase::Hold);
        d.valve.fix_k(20);
        d.valve.fix_cut(32);
        for _ in 0..50_000 {
            d.complete();
            assert_eq!((d.valve.k, d.valve.cut()), (20 * UNIT, Sectors(64)));
        }
        d.valve.fix_cut(0);
        d.until(Phase::Hold);
        assert_eq!(d.valve.k, 20 * UNIT, "only the cut is learnt");
        d.valve.fix_k(0);
        assert_eq!((d.valve.phase(), d.valve.k, d.valve.cut()), (Phase::Ceiling, OPEN, UNCUT));
        d.until(Phase::Hold);
        assert_eq!(d.valve.k, LEAST, "this drive needs no more");
    }
}
