//! What flush commands mean for the others: what they cost and who pays, sync writes that go together, and the pause
//! of the writers behind a flush.
//!
//! *Problem.* A flush stops or slows everybody, and nobody is charged for it: who syncs in a loop gets several times its
//! share, and streams pay. On drives whose flushes run alone, programs that sync in turn keep the drive flushing
//! all the time: whoever reads gets in only between two of them.
//!
//! *Idea.* The price of a flush is the work that the drive would have served in its time, less what it did serve. It is
//! charged to those who asked for the command. Sync writes that wait for each other share one command.
//!
//! *Rules.* The price: rate outside of flushes x duration x the part that flushes of late have lost, in equal parts to
//! the leaves of the askers. On a disk: the time since the last completion.
//! Where flushes are dear, sync writes of groups without a weight of their own wait in one list while they owe: they
//! owe `1 - PART` of the price of each of their flushes, other work pays `PART` of itself. The list goes as a whole
//! when nothing is owed, when no other greedy request waits or is inside, or when its oldest has waited eight mean
//! flushes, 20 ms at the least and 500 at most.
//! Flushes that follow each other at once hide what they cost: the little that is done between two of them waited for
//! the first. Then sync writes are held once for as long, to see it; again ever more rarely.
//! After a flush greedy sync writes are held for 5 % of the time between flushes, at most 8 ms, if the lane was active
//! lately and if one of its requests fits into that. Longer holds would cost throughput, shorter ones gain nothing.
//!
//! *Guarantees.* Flushes of groups without a weight cost the others `PART` of the time, or, where eight flushes of
//! waiting are not enough, a ninth of it for each command of a release (two at most), and those commands. Writers keep
//! at least 95 % of each flush cycle, and looks that show nothing cost them a sixteenth of the time at most.
//!
//! *Weakness.* A flush that writes back what was written before is work too: the price is more than what it stops. The
//! bound on the wait limits what comes of that.
//!
//! Source: specs/paternoster.md 7.

use super::measure::{Permille, UNIT, Units};
use crate::list::List;
use crate::unit::{Instant, Nanos};

/// Of the work of the others, what flushes of groups without a weight may cost.
const PART: Permille = Permille(50);
/// Rates are taken over at least so long.
const RATE_WINDOW: Nanos = Nanos::ms(5);
/// The longest wait for the price of flushes, in mean flushes, and its bounds.
const OWED_FLUSHES: u64 = 8;
const OWED_LEAST: Nanos = Nanos::ms(20);
const OWED_MOST: Nanos = Nanos::ms(500);
/// Flushes that take more than four fifths of the time hide what the drive does without them.
const BLIND: u64 = 4;
/// Then sync writes wait once to see it, and again after so many times as long, doubled so often.
const LOOK_AGAIN: u64 = 16;
const LOOKS_BACKOFF: u32 = 4;
/// It is worth it for others than who syncs, if they have this part of what is moved.
const OTHERS: u64 = 8;
/// Below so much lost work a flush is not worth waiting for.
const CHEAP: u64 = 6 * UNIT;

/// Of a cycle.
const HOLD_PERCENT: u64 = 5;
/// Never longer: a cycle is also the idle time between two flushes, and a twentieth of an hour is no moment.
const HOLD_MOST: Nanos = Nanos::ms(8);
/// The lane counts as active for two cycles and this.
const SLACK: Nanos = Nanos::ms(1);

/// What a flush costs.
#[derive(Debug, Default)]
pub(super) struct Price {
    /// Sixteenths of units served in all, and those of greedy work other than sync writes.
    served: u64,
    served_others: u64,
    /// When the running flush began, and what had been served by then.
    since: Option<(Instant, u64)>,
    /// The window of the rate: its begin, what had been served by then, and the time of flushes in it.
    from: Instant,
    from_served: u64,
    in_flush: Nanos,
    /// The same and that of others, with what was served beside flushes.
    from_all: u64,
    from_others: u64,
    /// When the window is over; while a flush runs it is not.
    due: Instant,
    /// Moving mean of sixteenths of units a millisecond outside of flushes.
    rate: u64,
    /// What could have been served in the time of the last flushes, and what was, each flush with 7/8 of the weight of the
    /// next. Their difference keeps its sign until it is charged: cut off at 0 for each flush, scatter would be a price.
    could: u64,
    did: u64,
    /// Flushes counted in the same way, in thousandths.
    counted: u64,
    /// Moving mean of how long one takes.
    took: Nanos,
    /// Work lost to the flush that ended last.
    lost: Units,
    /// In thousandths of sixteenths of units.
    owed: u64,
    look: Look,
}

/// Sync writes are held once, to see what the drive does without flushes.
#[derive(Debug, Default)]
struct Look {
    until: Option<Instant>,
    /// The next one, at the earliest.
    again: Instant,
    /// How often its wait has been doubled.
    backoff: u32,
}

impl Price {
    /// A request is over.
    #[inline]
    pub fn served(&mut self, now: Instant, units: Units, others: bool) {
        self.served += units.0;
        self.served_others += if others { units.0 } else { 0 };
        if now >= self.due {
            self.measure(now);
        }
    }

    #[cold]
    fn measure(&mut self, now: Instant) {
        let window = self.outside(now);
        if window >= RATE_WINDOW {
            let work = u128::from(self.served - self.from_served) * 1_000_000;
            if !self.is_blind(now) {
                self.rate = moved(self.rate, (work / u128::from(window.0)) as u64);
            }
            self.begin_window(now);
        }
        self.due = self.from + RATE_WINDOW + self.in_flush;
    }

    fn begin_window(&mut self, now: Instant) {
        (self.from, self.from_served, self.in_flush) = (now, self.served, Nanos::ZERO);
        (self.from_all, self.from_others) = (self.served, self.served_others);
    }

    /// Of the window.
    fn outside(&self, now: Instant) -> Nanos {
        now.since(self.from).saturating_sub(self.in_flush)
    }

    /// What was served between two flushes in the window may have waited for the first.
    fn is_blind(&self, now: Instant) -> bool {
        self.in_flush > self.outside(now) * BLIND
    }

    /// Flushes have hidden for long what the drive does without them.
    fn look_if_blind(&mut self, now: Instant) {
        let (all, others) = (self.served - self.from_all, self.served_others - self.from_others);
        let due = self.in_flush >= OWED_LEAST && now >= self.look.again;
        if due && self.is_blind(now) && others * OTHERS > all {
            let wait = self.wait_most();
            self.look.until = Some(now + wait);
            self.look.again = now + wait * (LOOK_AGAIN << self.look.backoff);
            self.look.backoff = (self.look.backoff + 1).min(LOOKS_BACKOFF);
            // What was seen so far says nothing: the first window of the look counts alone.
            self.rate = 0;
            self.begin_window(now);
            self.due = self.from + RATE_WINDOW;
        }
    }

    /// Sync writes wait until then.
    pub fn looks(&self, now: Instant) -> Option<Instant> {
        self.look.until.filter(|&until| until > now)
    }

    fn began(&mut self, now: Instant) {
        self.since = Some((now, self.served));
        self.due = Instant::from_nanos(u64::MAX);
    }

    /// When the flush that is over began.
    fn ended(&mut self, now: Instant) -> Option<Instant> {
        let (at, served) = self.since.take()?;
        let (took, did) = (now.since(at), self.served - served);
        // What was served meanwhile belongs to no window.
        self.in_flush += took;
        self.due = self.from + RATE_WINDOW + self.in_flush;
        self.from_served += did;
        self.took = Nanos(moved(self.took.0, took.0));
        let could = (u128::from(self.rate) * u128::from(took.0) / 1_000_000) as u64;
        self.could = self.could * 7 / 8 + could;
        self.did = self.did * 7 / 8 + did;
        self.counted = self.counted * 7 / 8 + 1000;
        let part = 1000u64.saturating_sub(1000 * self.did / self.could.max(1));
        self.lost = Units(could * part / 1000);
        self.look_if_blind(now);
        Some(at)
    }

    /// Work lost to the flush that ended last, for each of so many askers.
    pub fn each(&self, askers: u32) -> Units {
        self.lost / u64::from(askers.max(1))
    }

    /// Sync writes owe for a flush.
    pub fn owe(&mut self, price: Units) {
        self.owed += price.0 * (1000 - PART.0);
    }

    /// Other work goes.
    #[inline]
    pub fn pay(&mut self, work: Units) {
        self.owed = self.owed.saturating_sub(work.0 * PART.0);
    }

    pub fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// The longest that a sync write waits for that.
    pub fn wait_most(&self) -> Nanos {
        (self.took * OWED_FLUSHES).clamp(OWED_LEAST, OWED_MOST)
    }

    /// A flush loses a quarter of its time, and more than a few small requests.
    pub fn is_dear(&self) -> bool {
        let lost = self.could.saturating_sub(self.did);
        1000 * lost > CHEAP * self.counted && 4 * lost > self.could
    }
}

/// A moving mean, an eighth of the way; 0: there was none.
fn moved(mean: u64, fresh: u64) -> u64 {
    if mean == 0 { fresh } else { (7 * mean + fresh) / 8 }
}

/// Sync writes that wait until flushes are paid for.
#[derive(Debug)]
pub(super) struct SyncWrites {
    pub list: List,
    /// Of them, how many still go now.
    pub going: u32,
}

impl SyncWrites {
    pub fn new() -> SyncWrites {
        SyncWrites { list: List::new(), going: 0 }
    }
}

#[derive(Debug, Default)]
pub(super) struct Flushes {
    pub price: Price,
    /// How long the drive had the last one since the completion before it.
    pub alone: Nanos,
    ended: Option<Instant>,
    /// Moving mean of the time between ends.
    pub cycle: Nanos,
    /// Greedy sync writes are held until then.
    hold: Option<Instant>,
    pub count: u64,
    pub holds: u64,
}

impl Flushes {
    pub fn began(&mut self, now: Instant) {
        self.price.began(now);
    }

    /// One is over, and the last completion was at `completed`. `exclusive`: nothing else runs beside one here. `lane`: when it
    /// was active, and the least time that one of its requests takes. True when writers are held from now on.
    pub fn ended(
        &mut self,
        now: Instant,
        completed: Instant,
        exclusive: bool,
        (lane_active, service_least): (Option<Instant>, Nanos),
    ) -> bool {
        let began = self.price.ended(now);
        self.alone = now.since(began.map_or(completed, |began| began.max(completed)));
        self.count += 1;
        if let Some(last) = self.ended.replace(now) {
            let cycle = now.since(last).0;
            self.cycle =
                Nanos(if self.cycle.0 == 0 { cycle } else { (15 * self.cycle.0 + cycle) / 16 });
        }
        let hold = Nanos(self.cycle.0 * HOLD_PERCENT / 100).min(HOLD_MOST);
        let lately = self.cycle * 2 + SLACK;
        let active = lane_active.is_some_and(|at| now.since(at) <= lately);
        let worth = service_least.0 > 0 && hold >= service_least;
        self.hold = (exclusive && active && worth).then(|| now + hold);
        self.holds += u64::from(self.hold.is_some());
        self.hold.is_some()
    }

    /// Until when greedy sync writes are held.
    pub fn hold(&self, now: Instant) -> Option<Instant> {
        self.hold.filter(|&until| until > now)
    }

    /// The hold is over.
    pub fn release(&mut self) {
        self.hold = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn rare_flushes_hold_nobody_for_long() {
        let (mut f, mut now) = (Flushes::default(), Instant::ZERO);
        for _ in 0..3 {
            now += Nanos::secs(3600);
            f.began(now);
            now += Nanos::ms(2);
            assert!(f.ended(now, now, true, (Some(now), Nanos::us(100))) || f.count == 1);
        }
        assert_eq!(f.hold(now), Some(now + HOLD_MOST));
        assert_eq!(f.hold(now + HOLD_MOST), None);
    }

    /// 100 units a millisecond outside of flushes of 4 ms, and a part of that beside them.
    fn price(beside: u64) -> Price {
        let (mut price, mut now) = (Price::default(), Instant::ZERO);
        for _ in 0..50 {
            for _ in 0..20 {
                now += Nanos::ms(1);
                price.served(now, Units::whole(100), true);
            }
            price.began(now);
            for _ in 0..4 {
                now += Nanos::ms(1);
                price.served(now, Units::whole(beside), true);
            }
            price.ended(now);
        }
        price
    }

    #[test]
    fn a_flush_costs_what_the_drive_would_have_served() {
        let (alone, beside) = (price(0), price(75));
        assert!(alone.each(1).in_whole().abs_diff(400) <= 2, "{:?}", alone.each(1));
        assert!(alone.each(4).in_whole().abs_diff(100) <= 1, "in equal parts");
        assert!(beside.each(1).in_whole().abs_diff(100) <= 2, "{:?}", beside.each(1));
        assert_eq!(price(100).each(1), Units(0), "it stops nobody");
        assert!(alone.is_dear() && !price(80).is_dear());
    }

    /// Flushes of 4 ms that follow each other 20 us apart, for so long, with 40 units served in each by who syncs or by others;
    /// while sync writes are held, others are served 100 units a millisecond. When they were held.
    fn back_to_back(
        price: &mut Price,
        mut now: Instant,
        for_ms: u64,
        others: bool,
    ) -> Vec<Instant> {
        let (end, mut looks) = (now + Nanos::ms(for_ms), Vec::new());
        while now < end {
            if let Some(until) = price.looks(now) {
                looks.push(now);
                while now < until {
                    now += Nanos::ms(1);
                    price.served(now, Units::whole(100), true);
                }
            }
            price.began(now);
            now += Nanos::ms(4);
            price.served(now, Units::whole(40), others);
            price.ended(now);
            now += Nanos::us(20);
        }
        looks
    }

    #[test]
    fn behind_flushes_that_never_stop_sync_writes_are_held_once_to_see_the_price() {
        let mut p = Price::default();
        let looks = back_to_back(&mut p, Instant::ZERO, 100, true);
        assert_eq!(looks.len(), 1, "{looks:?}");
        assert!(p.is_dear(), "400 units could be served in the time of 40");
        let mut p = Price::default();
        let looks = back_to_back(&mut p, Instant::ZERO, 10_000, true);
        let gaps: Vec<Nanos> = looks.windows(2).map(|w| w[1].since(w[0])).collect();
        assert!(gaps.windows(2).all(|w| w[1] > w[0]), "less and less often: {gaps:?}");
        assert!(p.wait_most() * looks.len() as u64 * 16 < Nanos::secs(10) * 2, "{looks:?}");
        let mut p = Price::default();
        assert_eq!(back_to_back(&mut p, Instant::ZERO, 10_000, false), [], "for whom?");
    }

    #[test]
    fn what_is_owed_is_paid_by_a_twentieth_of_other_work_and_no_wait_is_longer_than_500_ms() {
        let mut p = price(0);
        p.owe(Units::whole(100));
        p.pay(Units::whole(1_899));
        assert!(p.is_owed());
        p.pay(Units::whole(1));
        assert!(!p.is_owed());
        assert_eq!(p.wait_most(), Nanos::ms(32));
        p.took = Nanos::us(10);
        assert_eq!(p.wait_most(), OWED_LEAST);
        p.took = Nanos::secs(1);
        assert_eq!(p.wait_most(), OWED_MOST);
    }
}
