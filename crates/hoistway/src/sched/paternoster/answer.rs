//! What the scheduler says of each latency target: kept, or what stands against it.
//!
//! *Problem.* A target that is missed in silence makes people turn knobs. The causes are few, and each asks for
//! another decision: another drive, throughput, a larger part, fewer requests.
//!
//! *Rule.* In this order: 99 of 100 within the target: *met*. The least time the drive itself has taken lately is
//! above it: *device*. The guard against floods has held the group back, or the budget of what the others may lose
//! has (targets without a number): *share*, the latter with the least mean latency that bound B1 leaves. The price of
//! changes of place has: *place* (likewise). What is left is what the work of the others inside the drive takes, at the
//! valve that costs `loss`: *loss*, with the best p99 there is at it; and with `strict` what it costs to do better.
//!
//! Source: specs/paternoster.md 5.

use super::Paternoster;
use super::lane::Target;
use super::measure::{SectorRate, UNIT};
use crate::group::GroupId;
use crate::rows::Rows;
use crate::target::{Answer, TargetState};
use crate::unit::{Instant, Nanos, Sectors};
use alloc::boxed::Box;

/// Fewer I/Os say nothing about one in a hundred.
const REQUESTS: u64 = 100;
/// Shares are taken over so much service of the drive, in sixteenths of units (8 MiB).
const WINDOW: u64 = 1024 * 16;
/// For so long a hold back counts as the cause.
const LATELY: Nanos = Nanos::secs(1);

/// Notes on one target beside its latencies.
#[derive(Clone, Debug)]
struct Note {
    /// Least time in the drive when nothing else was inside, rising 1/256 a request; 0: it never was alone.
    least: u64,
    /// Units since the window began, and what the drive had served then.
    units: u64,
    since: u64,
    share_permille: u32,
    /// Requests completed since then, and when.
    requests: u64,
    began: Instant,
    per_s: u32,
    /// Mean size of a request.
    block: Sectors,
    /// Moving think time between its requests, at most a second.
    think: Nanos,
    /// When a request of it was held back last, and by what.
    held: [Option<Instant>; 3],
}

/// What holds a request of a target back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldBy {
    /// The guard against floods.
    Part,
    /// It has taken from the others what it may.
    Budget,
    /// The price of a change of place.
    Price,
}

/// Notes of all targets.
#[derive(Debug, Default)]
pub(super) struct Notes {
    of: Rows<GroupId, Option<Box<Note>>>,
    /// Units the drive has served.
    served: u64,
}

impl Notes {
    /// A target is new, changed or gone.
    pub fn reset(&mut self, now: Instant, group: GroupId, exists: bool) {
        if self.of.len() <= group.index() {
            self.of.resize(group.index() + 1, None);
        }
        self.of[group] = exists.then(|| {
            Box::new(Note {
                least: 0,
                units: 0,
                since: self.served,
                share_permille: 0,
                requests: 0,
                began: now,
                per_s: 0,
                block: Sectors(0),
                think: Nanos::ZERO,
                held: [None; 3],
            })
        });
    }

    fn note(&mut self, group: GroupId) -> Option<&mut Note> {
        self.of.get_mut(group)?.as_deref_mut()
    }

    /// Anything has been served.
    pub fn serve(&mut self, units: u64) {
        self.served += units;
    }

    /// A request of the target is over, sent by somebody who had thought for `thought`; `lone`: the time it took, if
    /// nothing else was inside when it was sent.
    pub fn completed(
        &mut self,
        now: Instant,
        group: GroupId,
        lone: Option<Nanos>,
        thought: Nanos,
        units: u64,
    ) {
        let served = self.served;
        let Some(n) = self.note(group) else { return };
        if let Some(Nanos(service)) = lone {
            n.least = if n.least == 0 { service } else { service.min(n.least + n.least / 256) };
        }
        n.think = Nanos((7 * n.think.0 + thought.0.min(1_000_000_000)) / 8);
        n.units += units;
        n.requests += 1;
        let all = served - n.since;
        if all >= WINDOW {
            n.share_permille = permille(n.units, all);
            n.per_s = per_second(n.requests, now.since(n.began));
            n.block = mean_block(n.units, n.requests);
            (n.units, n.since, n.requests, n.began) = (0, served, 0, now);
        }
    }

    /// A request of the target is held back.
    pub fn held(&mut self, now: Instant, group: GroupId, by: HeldBy) {
        if let Some(n) = self.note(group) {
            n.held[by as usize] = Some(now);
        }
    }

    fn state(&self, now: Instant, group: GroupId) -> Option<(&Note, Lately)> {
        let n = self.of.get(group)?.as_deref()?;
        // Before the first window is over, what there is.
        if n.share_permille == 0 && n.per_s == 0 {
            let per_s = per_second(n.requests, now.since(n.began));
            let share = permille(n.units, self.served - n.since);
            return Some((n, Lately { share, per_s, block: mean_block(n.units, n.requests) }));
        }
        Some((n, Lately { share: n.share_permille, per_s: n.per_s, block: n.block }))
    }
}

/// What a target has had lately.
#[derive(Clone, Copy, Debug)]
struct Lately {
    /// Part of the units served, in thousandths.
    share: u32,
    /// Requests a second.
    per_s: u32,
    /// Mean size of one.
    block: Sectors,
}

/// The mean size of so many requests: beside a unit for each, their units are sectors.
fn mean_block(units: u64, requests: u64) -> Sectors {
    Sectors(units.saturating_sub(UNIT * requests) / requests.max(1))
}

fn permille(part: u64, whole: u64) -> u32 {
    (u128::from(part) * 1000 / u128::from(whole.max(1))).min(1000) as u32
}

fn per_second(n: u64, time: Nanos) -> u32 {
    (u128::from(n) * 1_000_000_000 / u128::from(time.0.max(1))).min(u128::from(u32::MAX)) as u32
}

impl Paternoster {
    pub(super) fn answers(&self, now: Instant, sink: &mut dyn FnMut(TargetState)) {
        for (group, target) in self.lane.targets() {
            let Some(l) = self.lane.latencies(group) else { continue };
            let Some((note, had)) = self.notes.state(now, group) else { continue };
            let number = match target {
                Target::Number(t) => Some(t),
                Target::Auto => None,
            };
            let p99 = l.p99();
            let answer = if l.requests < REQUESTS {
                Answer::Unknown
            } else {
                self.answer(now, number, (p99, l.mean()), note, had)
            };
            sink(TargetState {
                group,
                target: number,
                p99,
                mean: l.mean(),
                share_permille: had.share,
                answer,
            });
        }
    }

    fn answer(
        &self,
        now: Instant,
        number: Option<Nanos>,
        (p99, mean): (Nanos, Nanos),
        note: &Note,
        had: Lately,
    ) -> Answer {
        let lately = |by: HeldBy| note.held[by as usize].is_some_and(|at| now.since(at) <= LATELY);
        if number.is_some_and(|x| p99 <= x) {
            return Answer::Met;
        }
        if number.is_some_and(|x| note.least > x.0) {
            return Answer::Device { least: Nanos(note.least) };
        }
        if lately(HeldBy::Part) {
            // It always has more: what it would take is what it takes and what waits behind that.
            let waiting = self.lane.waiting();
            let inside = self.lane.inside.max(1);
            let needs = u64::from(had.share) * u64::from(waiting + inside) / u64::from(inside);
            return Answer::Share {
                needs_permille: needs.min(1000) as u32,
                has_permille: had.share,
                least_mean: None,
            };
        }
        if lately(HeldBy::Budget)
            && let Some(answer) = self.beyond_budget(mean, note, had)
        {
            return answer;
        }
        let Some(_) = number else {
            if !lately(HeldBy::Price) {
                return Answer::Met;
            }
            let cycle = Nanos(self.lane.service.0.max(1)) + note.think;
            let needs_per_s = per_second(1, cycle).max(had.per_s);
            return Answer::Place { needs_per_s, may_per_s: had.per_s };
        };
        let cost_permille = self.strict.cost_permille(self.valve.ceiling().0);
        Answer::Loss { best_p99: p99, cost_permille }
    }

    /// Bound B1: who would move A alone and may take a part of the rate R waits A / (part R) lone latencies at least.
    /// `None` where that is no more than one.
    fn beyond_budget(&self, mean: Nanos, note: &Note, had: Lately) -> Option<Answer> {
        let rate = self.valve.ceiling();
        if rate == SectorRate::UNKNOWN {
            return None;
        }
        // Never alone in the drive: the least that any request of a target took there.
        let lone = if note.least > 0 { Nanos(note.least) } else { self.lane.service_least };
        let (rate, moves) = (u128::from(rate.0), u128::from(had.per_s) * u128::from(had.block.0));
        let cycle = |latency: Nanos| u128::from((latency + note.think).0.max(1));
        let needs = moves * 1000 * cycle(mean) / (cycle(lone) * rate);
        // More than the others may lose only where its weight gives it more.
        let has = (moves * 1000 / rate).max(self.budget.others_loss.into()).max(1);
        let least_mean = Nanos((u128::from(lone.0) * needs / has).min(u64::MAX.into()) as u64);
        (least_mean > lone).then_some(Answer::Share {
            needs_permille: needs.min(1000) as u32,
            has_permille: has.min(1000) as u32,
            least_mean: Some(least_mean),
        })
    }
}
