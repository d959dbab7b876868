//! What the scheduler says of each latency target: kept, or what stands against it.
//!
//! *Problem.* A target that is missed in silence makes people turn knobs. The causes are few, and each asks for
//! another decision: another drive, throughput, a larger part, fewer requests.
//!
//! *Rule.* In this order: 99 of 100 within the target: *met*. The least time the drive itself has taken lately is
//! above it: *device*. The guard against floods has held the group back: *share*. The price of changes of place has:
//! *place* (targets without a number only). What is left is what the work of the others inside the drive takes, at
//! the valve that costs `loss`: *loss*, with the best p99 there is at it; and with `strict` what it costs to do
//! better.
//!
//! Source: specs/paternoster.md 5.

use super::Paternoster;
use super::lane::Target;
use crate::group::GroupId;
use crate::rows::Rows;
use crate::target::{Answer, TargetState};
use crate::unit::{Instant, Nanos};
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
    /// Moving think time between its requests, at most a second.
    think: Nanos,
    /// When the guard held a request of it back, and when the price of a change did.
    over: Option<Instant>,
    paced: Option<Instant>,
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
                think: Nanos::ZERO,
                over: None,
                paced: None,
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
            (n.units, n.since, n.requests, n.began) = (0, served, 0, now);
        }
    }

    /// The guard holds a request of the target back.
    pub fn over(&mut self, now: Instant, group: GroupId) {
        if let Some(n) = self.note(group) {
            n.over = Some(now);
        }
    }

    /// The price of a change does.
    pub fn paced(&mut self, now: Instant, group: GroupId) {
        if let Some(n) = self.note(group) {
            n.paced = Some(now);
        }
    }

    fn state(&self, now: Instant, group: GroupId) -> Option<(&Note, u32, u32)> {
        let n = self.of.get(group)?.as_deref()?;
        let all = self.served - n.since;
        // Before the first window is over, what there is.
        let first = n.share_permille == 0 && n.per_s == 0;
        let share = if first { permille(n.units, all) } else { n.share_permille };
        let per_s = if first { per_second(n.requests, now.since(n.began)) } else { n.per_s };
        Some((n, share, per_s))
    }
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
            let Some((note, share_permille, per_s)) = self.notes.state(now, group) else {
                continue;
            };
            let number = match target {
                Target::Number(t) => Some(t),
                Target::Auto => None,
            };
            let p99 = l.p99();
            let answer = if l.requests < REQUESTS {
                Answer::Unknown
            } else {
                self.answer(now, number, p99, note, (share_permille, per_s))
            };
            sink(TargetState {
                group,
                target: number,
                p99,
                mean: l.mean(),
                share_permille,
                answer,
            });
        }
    }

    fn answer(
        &self,
        now: Instant,
        number: Option<Nanos>,
        p99: Nanos,
        note: &Note,
        (share, per_s): (u32, u32),
    ) -> Answer {
        let lately = |at: Option<Instant>| at.is_some_and(|at| now.since(at) <= LATELY);
        if number.is_some_and(|x| p99 <= x) {
            return Answer::Met;
        }
        if number.is_some_and(|x| note.least > x.0) {
            return Answer::Device { least: Nanos(note.least) };
        }
        if lately(note.over) {
            // It always has more: what it would take is what it takes and what waits behind that.
            let waiting = self.lane.waiting();
            let inside = self.lane.inside.max(1);
            let needs = u64::from(share) * u64::from(waiting + inside) / u64::from(inside);
            return Answer::Share { needs_permille: needs.min(1000) as u32, has_permille: share };
        }
        let Some(_) = number else {
            if !lately(note.paced) {
                return Answer::Met;
            }
            let cycle = Nanos(self.lane.service.0.max(1)) + note.think;
            let needs_per_s = per_second(1, cycle).max(per_s);
            return Answer::Place { needs_per_s, may_per_s: per_s };
        };
        let cost_permille = self.strict.cost_permille(self.valve.ceiling().0);
        Answer::Loss { best_p99: p99, cost_permille }
    }
}
