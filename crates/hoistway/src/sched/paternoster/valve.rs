//! The valve: how much greedy work is inside the drive, and how large its largest piece is.
//!
//! *Problem.* A saturated drive does not go faster with ten times as much inside; it only gets slower for everybody.
//! Where it is just saturated differs by a factor of 1000 between drives, and by load.
//!
//! *Idea.* Try. A *ceiling* is measured with everything open: `k` units inside (a unit is a command or 8 KiB) and
//! uncut requests. Then `k` goes down by quarters, and the cut by halves, as long as the rate stays above
//! `(1 - loss) ceiling`; both settle at the *knee*. Now and then the ceiling is measured again.
//!
//! *State.* The limits in force (`k`, `cut`, `row`), those accepted last (the knee), the ceiling, and the phase with
//! what only that phase knows.
//!
//! | phase | in force | question |
//! |---|---|---|
//! | Ceiling | open, uncut | what can the drive do? |
//! | Batch, Again, Proof | the same in rows, without and with | does a change of stream cost, and how much? |
//! | Down | a smaller `k`, the knee's cut | is this still enough? |
//! | Confirm | 4 `k` of the knee, the same cut | was it the valve, or the load? |
//! | Cut | half the knee's cut, with as much data inside | are smaller pieces still enough? |
//! | Hold | the knee | has the load changed? |
//! | Pairs | the knee and the step in turn | the same where epochs scatter (`valve/scatter.rs`) |
//!
//! *Rule.* It is judged by epochs (`epoch.rs`). An epoch says something about the valve only if the valve was *held*
//! (somebody waited because of it), and nothing steps down in epochs that flushes limit.
//!
//! *Guarantee.* In the steady state the rate is at least `(1 - loss)` of the uncut ceiling as last measured.
//!
//! *Weaknesses.* The ceiling is as old as the last Hold is long (0.6 to 20 s of epochs). A ceiling epoch lets the
//! drive fill up, which costs a target one bad latency; loads that change faster than an epoch are averages here.
//!
//! Source: specs/paternoster.md 4.

mod pairs;
mod rows;
mod scatter;

use super::epoch::{Around, Done, Measured, Meter, RateSample};
use super::measure::{Epochs, Permille, SectorRate, UNIT, Units};
use crate::unit::{Instant, Sectors};
use pairs::{Pairs, Scatter};
use scatter::{ByPairs, Trial};

/// Wide open, at the start. Deeper than any catalogue drive needs (specs/paternoster.md 4).
const OPEN: Units = Units::whole(1024);
/// The first step down; also the least that confirms a refusal.
const FIRST: Units = Units::whole(192);
/// Least that a ceiling is measured with later.
const WIDE: Units = Units::whole(384);
/// The least valve: below six units a single request of 32 KiB stands alone.
const LEAST: Units = Units::whole(6);
/// Cuts: 128 KiB first, 32 KiB at the least. Smaller pieces cost processor time and gain nothing.
const CUT_FIRST: Sectors = Sectors(256);
const CUT_LEAST: Sectors = Sectors(64);
/// No cut.
pub(super) const UNCUT: Sectors = Sectors(u64::MAX);
/// The row that is tried: 320 KiB of one process at a time.
const ROW: Units = Units::whole(40);
/// Epochs of a Hold, doubled with each backoff.
const HOLD: Epochs = Epochs(64);
/// Of a Hold after the knee was raised.
const HOLD_RAISED: Epochs = Epochs(4);
/// Of a Hold whose rate has left the ceiling.
const HOLD_DOUBTED: Epochs = Epochs(2);
const BACKOFF_MOST: u32 = 5;
/// Epochs in a row that say nothing about a step, after which it is given up.
const SLOW: Epochs = Epochs(4);
/// So many epochs after its last request a numeric target counts as active.
const NUMBER_EPOCHS: Epochs = Epochs(64);
/// The trial of the moment, and what only this trial knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one, and service allocates nothing")]
pub(super) enum Phase {
    Ceiling { asked: Asked },
    Batch { asked: Asked, open: RateSample },
    Again { asked: Asked, open: RateSample, other: RateSample },
    Proof { asked: Asked, best: RateSample },
    Down { slow: Epochs },
    Confirm { refused: Refused },
    Cut { slow: Epochs },
    Hold { left: Epochs },
    Pairs { trial: Trial, pairs: Pairs },
}

impl Phase {
    /// Its number in reports.
    pub fn number(&self) -> u64 {
        match self {
            Phase::Ceiling { .. } => 0,
            Phase::Batch { .. } => 1,
            Phase::Again { .. } => 2,
            Phase::Down { .. } => 3,
            Phase::Confirm { .. } => 4,
            Phase::Cut { .. } => 5,
            Phase::Hold { .. } => 6,
            Phase::Pairs { .. } => 7,
            Phase::Proof { .. } => 8,
        }
    }

    /// Everything is open, to see what the drive can do.
    fn is_open(&self) -> bool {
        use Phase::{Again, Batch, Ceiling, Proof};
        matches!(self, Ceiling { .. } | Batch { .. } | Again { .. } | Proof { .. })
    }

    /// Epochs in a row that were not held and slow, or tried in vain.
    fn slow(&self) -> Epochs {
        match *self {
            Phase::Down { slow } | Phase::Cut { slow } => slow,
            _ => Epochs(0),
        }
    }
}

/// Why a ceiling is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing is known of this load.
    New,
    /// A step was refused, and the ceiling may be old.
    Refused(Refused),
    /// A Hold is over.
    Held,
}

/// A valve that was too small, and its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    k: Units,
    rate: SectorRate,
    /// That of four times the knee with the same cut; unknown: not tried.
    wide: SectorRate,
}

/// How greedy work is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Greedy work inside.
    pub k: Units,
    /// The largest request.
    pub cut: Sectors,
    /// Of one process in a row; 0: no rows.
    pub row: Units,
}

/// Set from outside; `None`: learnt.
#[derive(Clone, Copy, Debug, Default)]
struct Fixed {
    k: Option<Units>,
    cut: Option<Sectors>,
}

#[derive(Debug)]
pub(super) struct Valve {
    in_force: Limits,
    /// Accepted last.
    knee: Limits,
    /// Price of a change of place; 0: none.
    change: Units,
    phase: Phase,
    ceiling: SectorRate,
    /// Moving rate of the last Hold.
    mean: SectorRate,
    /// Doublings of the next Hold.
    backoff: u32,
    /// The next ceiling tries rows too.
    pair_due: bool,
    /// A Hold whose mean fell short raises valve and cut in turn.
    raise_cut: bool,
    /// Pieces were too small, and no Hold has gone well since: whole requests stay whole.
    cut_refused: bool,
    /// Requests of the lane exist: only then is anything cut.
    lane_seen: bool,
    /// For how long a numeric target still counts as active: no epoch is uncut then.
    number: Epochs,
    fixed: Fixed,
    loss: Permille,
    meter: Meter,
    /// How far the epochs of Holds lie apart, and what is done about it.
    scatter: Scatter,
    by_pairs: Option<ByPairs>,
}

impl Valve {
    pub fn new(now: Instant) -> Valve {
        Valve {
            in_force: Limits { k: OPEN, cut: UNCUT, row: Units(0) },
            knee: Limits { k: FIRST, cut: UNCUT, row: Units(0) },
            change: Units(0),
            phase: Phase::Ceiling { asked: Asked::New },
            ceiling: SectorRate::UNKNOWN,
            mean: SectorRate::UNKNOWN,
            backoff: 0,
            pair_due: true,
            raise_cut: false,
            cut_refused: false,
            lane_seen: false,
            number: Epochs(0),
            fixed: Fixed::default(),
            loss: Permille(30),
            meter: Meter::new(now),
            scatter: Scatter::default(),
            by_pairs: None,
        }
    }

    pub fn loss(&self) -> Permille {
        self.loss
    }

    /// Counts from the next judgement on.
    pub fn set_loss(&mut self, loss: Permille) {
        self.loss = loss;
    }

    /// Lack of the drive's rate to its ceiling, as far as known.
    pub fn short(&self) -> Permille {
        match self.mean == SectorRate::UNKNOWN || self.ceiling == SectorRate::UNKNOWN {
            true => Permille(0),
            false => self.mean.short_of(self.ceiling),
        }
    }

    /// The valve set from outside; 0: learnt.
    pub fn fixed_k(&self) -> Units {
        self.fixed.k.unwrap_or(Units(0))
    }

    /// The cut set from outside; 0: learnt.
    pub fn fixed_cut(&self) -> Sectors {
        self.fixed.cut.unwrap_or(Sectors(0))
    }

    pub fn fix_k(&mut self, k: Units) {
        let k = Some(k).filter(|k| k.0 > 0);
        if core::mem::replace(&mut self.fixed.k, k) != k {
            self.learn_anew();
        }
    }

    pub fn fix_cut(&mut self, cut: Sectors) {
        let cut = Some(cut).filter(|cut| cut.0 > 0);
        if core::mem::replace(&mut self.fixed.cut, cut) != cut {
            self.learn_anew();
        }
    }

    /// Forgets what was learnt under another setting from outside.
    fn learn_anew(&mut self) {
        (self.ceiling, self.mean) = (SectorRate::UNKNOWN, SectorRate::UNKNOWN);
        (self.knee.k, self.knee.cut) = (FIRST, UNCUT);
        self.by_pairs = None;
        self.meter.settle_units_at_least(self.in_force.k);
        self.phase = Phase::Ceiling { asked: Asked::New };
        self.in_force = self.in_bounds(Limits { k: OPEN, cut: UNCUT, ..self.in_force });
    }

    /// Settings from outside go before what is tried.
    fn in_bounds(&self, limits: Limits) -> Limits {
        Limits {
            k: self.fixed.k.unwrap_or(limits.k),
            cut: self.fixed.cut.unwrap_or(limits.cut),
            ..limits
        }
    }

    /// A request with a numeric target: for a while nothing is tried that lets large requests into the drive.
    pub fn see_number(&mut self) {
        self.number = NUMBER_EPOCHS;
        if self.phase.is_open() && self.in_force.cut == UNCUT && self.fixed.cut.is_none() {
            self.in_force.cut = CUT_FIRST;
        }
        if let Phase::Pairs { pairs, .. } = &mut self.phase {
            pairs.cut_to(CUT_FIRST);
            self.in_force = pairs.limits();
        }
    }

    /// Greedy work that may be inside.
    #[inline]
    pub fn k(&self) -> Units {
        self.in_force.k
    }

    /// The largest request to build.
    #[inline]
    pub fn cut(&self) -> Sectors {
        self.in_force.cut
    }

    /// Work of one process in a row; 0: no rows.
    #[inline]
    pub fn row(&self) -> Units {
        self.in_force.row
    }

    /// Price of a change of place; 0: none.
    #[inline]
    pub fn change(&self) -> Units {
        self.change
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn ceiling(&self) -> SectorRate {
        self.ceiling
    }

    /// The limits accepted last.
    pub fn knee(&self) -> Limits {
        self.knee
    }

    /// The valve stops somebody.
    pub fn held(&mut self) {
        self.meter.held();
    }

    /// Rows are on trial: what breaks them would spoil the measurement.
    pub fn tries_rows(&self) -> bool {
        let pair = match self.phase {
            Phase::Ceiling { .. } => self.pair_due,
            Phase::Batch { .. } | Phase::Again { .. } | Phase::Proof { .. } => true,
            Phase::Pairs { trial: Trial::Rows, .. } => true,
            _ => false,
        };
        pair && self.in_force.row.0 > 0
    }

    /// A request goes to the drive, which then has so many greedy units inside.
    pub fn issued(&mut self, start: Sectors, end: Sectors, greedy: Units) {
        self.meter.issued(start, end, greedy);
    }

    /// The first request of the lane: from now on requests are cut.
    pub fn see_lane(&mut self, around: Around) {
        if self.lane_seen {
            return;
        }
        self.lane_seen = true;
        if self.ceiling > SectorRate::UNKNOWN && !matches!(self.phase, Phase::Ceiling { .. }) {
            let slow = self.phase.slow();
            self.down_from(self.knee.k.max(FIRST), CUT_FIRST, slow, around);
        }
    }

    pub fn flush_began(&mut self, now: Instant) {
        self.meter.flush_began(now);
    }

    pub fn flush_ended(&mut self, now: Instant) {
        self.meter.flush_ended(now);
    }

    /// Something comes after a time with nothing to do.
    pub fn resumed(&mut self, now: Instant) {
        if self.meter.is_paused(now) {
            self.restart(now);
        }
    }

    /// Completions of requests sent under a smaller limit than the valve's own are not measured.
    pub fn resumed_after_limit(&mut self, now: Instant) {
        self.restart(now);
    }

    /// Measures anew under the same limits.
    pub fn restart(&mut self, now: Instant) {
        self.meter.restart(now);
    }

    /// A completion; true when other limits came into force.
    #[inline]
    pub fn completed(&mut self, now: Instant, done: Done, around: Around) -> bool {
        let parts = matches!(self.phase, Phase::Pairs { .. });
        let Some(measured) = self.meter.completed(now, done, self.in_force.cut, parts) else {
            return false;
        };
        let before = self.in_force;
        self.judge_epoch(&measured, around);
        self.number = self.number.less_one();
        before != self.in_force
    }

    #[cold]
    fn judge_epoch(&mut self, measured: &Measured, around: Around) {
        let rate = measured.sample.rate;
        match self.phase {
            Phase::Ceiling { asked } if self.pair_due && !measured.flushing => {
                let phase = Phase::Batch { asked, open: measured.sample };
                self.put(phase, Limits { row: self.other_row(), ..self.in_force }, around);
            }
            Phase::Ceiling { asked } => self.judge(rate, asked, around),
            Phase::Batch { asked, open } => self.other_rows(measured, asked, open, around),
            Phase::Again { asked, open, other } => {
                self.rows_again(measured, asked, open, other, around)
            }
            Phase::Proof { asked, best } => self.rows_proven(measured, asked, best, around),
            Phase::Down { slow } => self.down(measured, slow, around),
            Phase::Confirm { refused } => self.confirm(rate, refused, around),
            Phase::Cut { slow } => self.tried_cut(measured, slow, around),
            // Nobody waited, and the drive is as busy as it can be: the valve is wider than the load, and may stay so.
            Phase::Hold { left }
                if measured.held
                    || (measured.by_valve
                        && !measured.flushed
                        && !rate.is_low_beside(self.ceiling)) =>
            {
                self.hold(measured, left, around)
            }
            Phase::Hold { left } if !measured.flush_limited && rate.is_low_beside(self.ceiling) => {
                self.hold_unreached(left, around)
            }
            Phase::Hold { .. } => {}
            Phase::Pairs { trial, pairs } => self.pair(measured, trial, pairs, around),
        }
    }

    /// A ceiling has been measured, rows or not.
    fn judge(&mut self, rate: SectorRate, asked: Asked, around: Around) {
        self.pair_due = false;
        if self.ceiling == SectorRate::UNKNOWN {
            self.ceiling = rate;
            return self.down_from(FIRST, CUT_FIRST, Epochs(0), around);
        }
        match asked {
            Asked::Refused(refused) => {
                self.ceiling = rate;
                if refused.rate.is_enough_of(rate, self.loss) {
                    self.knee.k = refused.k;
                    self.step_down(around);
                } else if refused.k < self.knee.k
                    && self.knee.cut != UNCUT
                    && !refused.wide.is_enough_of(rate, self.loss)
                {
                    // Not even with the valve wide open: it was the cut.
                    self.refuse_cut();
                    self.down_from(self.knee.k, self.knee.cut, Epochs(0), around);
                } else {
                    self.refusal(refused, around);
                }
            }
            Asked::Held => self.judge_hold(rate, around),
            Asked::New => {
                self.ceiling = rate;
                self.down_from(self.knee.k.max(FIRST), CUT_FIRST, Epochs(0), around);
            }
        }
    }

    /// Is what was held still at the knee?
    fn judge_hold(&mut self, rate: SectorRate, around: Around) {
        self.ceiling = rate.max(self.mean);
        if self.mean.is_enough_of(self.ceiling, self.loss) {
            self.backoff = (self.backoff + 1).min(BACKOFF_MOST);
            self.cut_refused = false;
            return self.step_down(around);
        }
        self.raise(around);
    }

    /// Larger pieces or more of them, in turn.
    fn raise(&mut self, around: Around) {
        if self.raise_cut && self.knee.cut != UNCUT {
            self.refuse_cut();
        } else {
            self.raise_knee();
        }
        self.raise_cut = !self.raise_cut;
        self.hold_for(HOLD_RAISED, around);
    }

    fn refuse_cut(&mut self) {
        self.knee.cut = doubled(self.knee.cut);
        self.cut_refused = true;
    }

    fn raise_knee(&mut self) {
        self.knee.k = (self.knee.k * 3 / 2).min(OPEN);
    }

    fn down(&mut self, measured: &Measured, slow: Epochs, around: Around) {
        let rate = measured.sample.rate;
        if !measured.held {
            return self.down_unheld(measured, slow, around);
        }
        if rate.is_enough_of(self.ceiling, self.loss) {
            self.ceiling = self.ceiling.max(rate);
            self.knee.k = self.in_force.k;
            return self.step_down(around);
        }
        let refused = Refused { k: self.in_force.k, rate, wide: SectorRate::UNKNOWN };
        let k = (self.knee.k * 4).max(FIRST);
        let limits = Limits { k, row: self.knee.row, ..self.in_force };
        self.put(Phase::Confirm { refused }, limits, around);
    }

    /// Nobody waited: the valve is wider than the load, or the load does not reach what it did. Beside flushes the peak says
    /// little, since writers that one flush wakes come together: there it goes down in steps, unless nearly everybody
    /// syncs. Where most goes past the valve, as all do that have just begun, nothing says anything.
    fn down_unheld(&mut self, measured: &Measured, slow: Epochs, around: Around) {
        let (k, peak) = (self.in_force.k, measured.peak.max(LEAST));
        let low = measured.sample.rate.is_low_beside(self.ceiling);
        let needed = match measured.flushed {
            false => Some(peak).filter(|&peak| k > peak),
            true if measured.by_syncs || measured.flush_limited => None,
            true => Some(k).filter(|&k| !low && self.may_step(k)),
        };
        if let Some(k) = needed.filter(|_| measured.by_valve) {
            self.knee.k = k;
            let limits = Limits { k: quarter_less(k), row: self.knee.row, ..self.in_force };
            self.put(Phase::Down { slow }, limits, around);
        }
        if low {
            let slow = slow.one_more();
            self.phase = Phase::Down { slow };
            if slow >= SLOW.doubled(self.backoff) {
                self.new_pair(around);
            }
        }
    }

    /// A new pair, because the load does not reach what it did.
    fn new_pair(&mut self, around: Around) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MOST);
        self.pair_due = true;
        self.measure_ceiling(Asked::New, around);
    }

    fn confirm(&mut self, rate: SectorRate, refused: Refused, around: Around) {
        if refused.rate.is_enough_of(rate, self.loss) {
            // The ceiling is old, or it is the cut that costs.
            let asked = Asked::Refused(Refused { wide: rate, ..refused });
            self.measure_ceiling(asked, around);
        } else if refused.k >= self.knee.k && self.is_as_open(rate) {
            // It was too small where it began already, and more inside is enough: it was the valve, and not the cut.
            self.knee.k = self.in_force.k;
            self.step_down(around);
        } else {
            self.refusal(refused, around);
        }
    }

    /// The rate of the ceiling, and no more: what is far above it was saved up by a metered volume meanwhile.
    fn is_as_open(&self, rate: SectorRate) -> bool {
        rate.is_enough_of(self.ceiling, self.loss) && !rate.is_better_than(self.ceiling, self.loss)
    }

    /// The last step was one too many.
    fn refusal(&mut self, refused: Refused, around: Around) {
        if refused.k < self.knee.k {
            return self.cut_or_hold(around);
        }
        // Not even where it began.
        if self.knee.cut == UNCUT {
            self.raise_knee();
        } else {
            self.refuse_cut();
        }
        if self.knee.k >= OPEN {
            return self.hold_for(HOLD.doubled(self.backoff), around);
        }
        self.down_from(self.knee.k, self.knee.cut, Epochs(0), around);
    }

    /// The valve is as small as it goes: smaller pieces, if they are worth it.
    fn cut_or_hold(&mut self, around: Around) {
        if !self.worth_cutting(around) {
            return self.hold_for(HOLD.doubled(self.backoff), around);
        }
        let limits = self.half_the_cut();
        self.put(Phase::Cut { slow: Epochs(0) }, limits, around);
    }

    /// Half the cut, with as much data inside: a valve below one piece has let a whole one in.
    fn half_the_cut(&self) -> Limits {
        let cut = halved(self.knee.cut);
        Limits { k: self.knee.k.max(piece(cut) * 2), cut, ..self.knee }
    }

    /// Is one piece longer than a quarter of what the drive takes for a request of the lane anyway?
    fn worth_cutting(&self, around: Around) -> bool {
        let whole = self.knee.cut == UNCUT && (self.cut_refused || !self.lane_seen);
        if self.fixed.cut.is_some() || whole || self.knee.cut <= CUT_LEAST {
            return false;
        }
        self.ceiling.time_of(self.knee.cut.min(CUT_FIRST)) > u128::from(around.service_least.0 / 4)
    }

    fn tried_cut(&mut self, measured: &Measured, slow: Epochs, around: Around) {
        if measured.held && measured.sample.rate.is_enough_of(self.ceiling, self.loss) {
            (self.knee.k, self.knee.cut) = (self.in_force.k, self.in_force.cut);
            self.step_down(around);
        } else if measured.held || slow >= SLOW {
            self.hold_for(HOLD.doubled(self.backoff), around);
        } else {
            self.phase = Phase::Cut { slow: slow.one_more() };
        }
    }

    fn hold(&mut self, measured: &Measured, mut left: Epochs, around: Around) {
        let rate = measured.sample.rate;
        self.scatter.add(measured);
        if self.by_pairs.is_none() && self.scatters() {
            return self.begin_pairs(measured, around);
        }
        self.mean = match self.mean {
            SectorRate::UNKNOWN => rate,
            mean => mean.moved_to(rate),
        };
        let left_it = self.mean.is_low_beside(self.ceiling) || rate.is_high_beside(self.ceiling);
        if left_it && self.by_pairs.is_none() {
            self.pair_due = true;
            left = left.min(HOLD_DOUBTED);
            self.backoff = 0;
        }
        if left == Epochs(0) {
            self.hold_over(measured, around);
        } else {
            self.phase = Phase::Hold { left: left.less_one() };
        }
    }

    /// Nobody waits, and the load does not reach what it did: the ceiling is one of another load, or was saved up.
    fn hold_unreached(&mut self, left: Epochs, around: Around) {
        let left = left.min(SLOW.doubled(self.backoff));
        if left == Epochs(0) {
            self.by_pairs = None;
            self.new_pair(around);
        } else {
            self.phase = Phase::Hold { left: left.less_one() };
        }
    }

    fn hold_over(&mut self, measured: &Measured, around: Around) {
        if self.by_pairs.is_some() && self.scatters_still() {
            return self.check(measured, around);
        }
        self.by_pairs = None;
        self.measure_ceiling(Asked::Held, around);
    }

    fn hold_for(&mut self, epochs: Epochs, around: Around) {
        self.mean = SectorRate::UNKNOWN;
        self.scatter.interrupted();
        self.put(Phase::Hold { left: epochs }, self.knee, around);
    }

    fn measure_ceiling(&mut self, asked: Asked, around: Around) {
        self.put(Phase::Ceiling { asked }, self.open(), around);
    }

    /// What a ceiling is measured with.
    fn open(&self) -> Limits {
        let (least, cut) = match self.number > Epochs(0) {
            true => (FIRST, self.knee.cut.max(CUT_FIRST)),
            false => (WIDE, UNCUT),
        };
        let k = (self.knee.k * 4).clamp(least, OPEN);
        Limits { k, cut, row: self.knee.row }
    }

    /// The next smaller valve, if there is one.
    fn step_down(&mut self, around: Around) {
        if !self.may_step(self.knee.k) {
            return self.cut_or_hold(around);
        }
        let limits = Limits { k: quarter_less(self.knee.k), ..self.knee };
        self.put(Phase::Down { slow: Epochs(0) }, limits, around);
    }

    /// Is there a smaller valve than that?
    fn may_step(&self, k: Units) -> bool {
        k > LEAST && self.fixed.k.is_none()
    }

    fn down_from(&mut self, k: Units, cut: Sectors, slow: Epochs, around: Around) {
        self.knee.k = k;
        self.knee.cut = if self.lane_seen { cut } else { UNCUT };
        self.put(Phase::Down { slow }, self.knee, around);
    }

    /// Another phase; what is from before must complete before it is measured.
    fn put(&mut self, phase: Phase, limits: Limits, around: Around) {
        let (old, new) = (self.in_force, self.in_bounds(limits));
        if new.k != old.k {
            self.meter.settle_units(old.k.max(new.k));
        }
        if new.cut > old.cut {
            self.meter.settle_requests(around.requests);
        } else if new.row != old.row {
            self.meter.settle_requests(around.inside);
        }
        (self.phase, self.in_force) = (phase, new);
    }
}

/// The next smaller valve.
fn quarter_less(k: Units) -> Units {
    (k * 3 / 4).max(LEAST)
}

/// A whole piece of that size.
fn piece(cut: Sectors) -> Units {
    Units(UNIT + cut.0)
}

/// The next smaller cut.
fn halved(cut: Sectors) -> Sectors {
    if cut == UNCUT { CUT_FIRST } else { Sectors(cut.0 / 2) }
}

/// The next larger cut.
fn doubled(cut: Sectors) -> Sectors {
    if cut >= CUT_FIRST { UNCUT } else { Sectors(2 * cut.0) }
}

#[cfg(test)]
mod tests;
