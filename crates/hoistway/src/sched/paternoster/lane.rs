//! The lane: requests of groups with a latency target, and of the real-time class, which go past the valve.
//!
//! *Problem.* Who has a target is to wait for what is inside the drive, and for nothing else; but a "target" that
//! floods the drive must not starve the rest, and where every change of place costs (disks, cheap flash), a target
//! without a number must not cost more than a little.
//!
//! *Idea.* Earliest deadline first among the lane. A deadline is arrival plus the target; without a number, plus
//! forty times what the drive takes. Two brakes: *pacing* where a change of place has a price, and a *debt* as a
//! guard against floods.
//!
//! *Rule.* Each request of the lane that is sent while greedy ones wait owes two changes of place; greedy work pays
//! `lane_part` of itself. While more than four changes are owed, requests wait up to 500 ms, unless they have a
//! number, or eight of them wait already. For somebody who thinks for long greedy work has paid four times as much.
//!
//! *Guarantees.* A numeric target is never paced. For a lane without a number that asks again at once changes cost
//! at most `lane_part` of the time, for one that thinks four times that, and one change per 500 ms.
//!
//! Source: specs/paternoster.md 3 and 6.

use super::measure::UNIT;
use crate::group::GroupId;
use crate::rows::{Id, Rows};
use crate::table::NIL;
use crate::tree::{Nodes, Tree};
use crate::unit::{Instant, Nanos};
use alloc::boxed::Box;

/// A target without a number waits so many services before it goes ahead of one with a number.
const PATIENCE: u64 = 40;
/// Longest that a price may keep a request of the lane.
pub(super) const PACED_MOST: Nanos = Nanos::ms(500);
/// Longest that a trial of rows may.
pub(super) const TRIAL_MOST: Nanos = Nanos::ms(10);
/// Those who think between their requests may cost so many times `lane_part`: a read each 100 ms costs a disk 15 %.
const THOUGHTFUL: u64 = 4;
/// Changes that may be owed before requests wait.
const OWED_MOST: u64 = 4;
/// So many that wait go in one visit, whatever it costs.
const CROWD: u32 = 8;
/// Who thinks for so many services waits only for what all have cost.
const LONG_THOUGHT: u64 = 8;
/// The part of the device in percent beyond which the lane runs into debt, and its limit in valves.
const PART: u64 = 50;
const DEBT_VALVES: u64 = 4;

/// A group's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// As low as goes without loss.
    Auto,
    Number(Nanos),
}

/// The target in force for a group, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InForce {
    pub owner: GroupId,
    pub target: Target,
}

/// Counts of latencies by eighths of octaves from 1 us on; halved now and then, so that the past fades.
#[derive(Clone, Debug)]
pub(super) struct LatencyHistogram {
    counts: [u32; BUCKETS],
    total: u32,
    mean: u64,
    /// Requests counted since the target was set.
    pub requests: u64,
    /// Units served, in sixteenths.
    pub units: u64,
}

const BUCKETS: usize = 8 * 24;
/// The counts are halved at so many.
const FULL: u32 = 8192;

impl LatencyHistogram {
    fn new() -> LatencyHistogram {
        LatencyHistogram { counts: [0; BUCKETS], total: 0, mean: 0, requests: 0, units: 0 }
    }

    fn add(&mut self, latency: Nanos, units: u64) {
        self.counts[bucket(latency)] += 1;
        self.total += 1;
        self.requests += 1;
        self.units += units;
        self.mean = if self.requests == 1 { latency.0 } else { (15 * self.mean + latency.0) / 16 };
        if self.total >= FULL {
            self.counts.iter_mut().for_each(|c| *c /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    pub fn mean(&self) -> Nanos {
        Nanos(self.mean)
    }

    /// The upper edge of the bucket in which 99 of 100 lie, an eighth of an octave wide; zero before the first.
    pub fn p99(&self) -> Nanos {
        let mut left = u64::from(self.total).div_ceil(100);
        for at in (0..BUCKETS).rev() {
            let here = u64::from(self.counts[at]);
            if left > 0 && here >= left {
                return upper(at);
            }
            left -= here;
        }
        Nanos::ZERO
    }
}

fn bucket(latency: Nanos) -> usize {
    let us8 = (latency.0 / 125).max(8);
    let octave = us8.ilog2() as usize - 3;
    let eighth = (us8 >> octave) as usize - 8;
    (8 * octave + eighth).min(BUCKETS - 1)
}

fn upper(at: usize) -> Nanos {
    let (octave, eighth) = (at / 8, at as u64 % 8);
    Nanos(((eighth + 9) << octave) * 125)
}

/// A request of the lane that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub arrived: Instant,
    /// The last think time of whoever sent it.
    pub thought: Nanos,
    /// Its target has a number.
    pub number: bool,
}

#[derive(Debug)]
pub(super) struct TargetLane {
    /// Own target of each group.
    own: Rows<GroupId, Option<Target>>,
    /// That of the nearest group upward which has one.
    in_force: Rows<GroupId, Option<InForce>>,
    latencies: Rows<GroupId, Option<Box<LatencyHistogram>>>,
    /// Waiting requests by deadline, slots of the request table.
    queue: Tree,
    nodes: Nodes<u64>,
    pub inside: u32,
    /// In the drive: mean, least and largest time.
    pub service: Nanos,
    pub service_least: Nanos,
    pub service_peak: Nanos,
    /// Ahead of its part, in percent of sixteenths of units.
    debt: u64,
    /// Cost of changes of place beyond their part, in percent of sixteenths of units.
    changes: u64,
    /// The same beyond what may be spent on those who think.
    changes_of_all: u64,
    /// Percent of the greedy work that may go into changes.
    pub part: u64,
    pub active: Option<Instant>,
    /// The group whose target was served last, and when; and the same of another before it.
    served: [Option<(GroupId, Instant)>; 2],
}

impl TargetLane {
    pub fn new(requests: usize) -> TargetLane {
        let mut lane = TargetLane {
            own: Rows::new(),
            in_force: Rows::new(),
            latencies: Rows::new(),
            queue: Tree::new(),
            nodes: Nodes::new(requests),
            inside: 0,
            service: Nanos::ZERO,
            service_least: Nanos::ZERO,
            service_peak: Nanos::ZERO,
            debt: 0,
            changes: 0,
            changes_of_all: 0,
            part: 4,
            active: None,
            served: [None; 2],
        };
        lane.add_group(GroupId::ROOT, GroupId::NONE);
        lane
    }

    pub fn add_group(&mut self, group: GroupId, parent: GroupId) {
        let len = self.own.len().max(group.index() + 1);
        self.own.resize(len, None);
        self.latencies.resize(len, None);
        self.in_force.resize(len, None);
        if parent.is_some() {
            self.in_force[group] = self.in_force[parent];
        }
    }

    pub fn own_target(&self, group: GroupId) -> Option<Target> {
        self.own.get(group).copied().flatten()
    }

    /// The target that holds for requests of `group`.
    #[inline]
    pub fn target(&self, group: GroupId) -> Option<InForce> {
        self.in_force.get(group).copied().flatten()
    }

    /// A group's own target changes; `children` names the children of a group.
    pub fn set_target<'a>(
        &mut self,
        group: GroupId,
        target: Option<Target>,
        parent: Option<GroupId>,
        children: &dyn Fn(GroupId) -> &'a [GroupId],
    ) {
        self.own[group] = target;
        self.latencies[group] = target.map(|_| Box::new(LatencyHistogram::new()));
        let above = parent.and_then(|p| self.target(p));
        self.pass_down(group, above, children);
    }

    fn pass_down<'a>(
        &mut self,
        group: GroupId,
        above: Option<InForce>,
        children: &dyn Fn(GroupId) -> &'a [GroupId],
    ) {
        if self.own.len() <= group.index() {
            return;
        }
        let own = self.own[group].map(|target| InForce { owner: group, target });
        let now = own.or(above);
        self.in_force[group] = now;
        for &child in children(group) {
            self.pass_down(child, now, children);
        }
    }

    /// The group goes away.
    pub fn group_gone(&mut self, group: GroupId) {
        if self.own.len() > group.index() {
            self.own[group] = None;
            self.latencies[group] = None;
            self.in_force[group] = None;
        }
    }

    /// Latencies of a group with a target.
    pub fn latencies(&self, group: GroupId) -> Option<&LatencyHistogram> {
        self.latencies.get(group)?.as_deref()
    }

    /// Groups with a target of their own.
    pub fn targets(&self) -> impl Iterator<Item = (GroupId, Target)> + '_ {
        self.own.pairs().filter_map(|(group, target)| target.map(|t| (group, t)))
    }

    pub fn waiting(&self) -> u32 {
        self.queue.len()
    }

    pub fn push(&mut self, slot: u32, arrived: Instant, target: Option<Target>) {
        let patience = match target {
            Some(Target::Number(target)) => target,
            Some(Target::Auto) | None => self.service * PATIENCE,
        };
        // A target of centuries is a deadline that never comes.
        let deadline = arrived.as_nanos().saturating_add(patience.0);
        self.queue.insert(&mut self.nodes, slot, deadline, ());
    }

    pub fn remove(&mut self, slot: u32) {
        self.queue.remove(&mut self.nodes, slot);
    }

    /// The slot of the earliest deadline.
    pub fn first(&self) -> Option<u32> {
        let first = self.queue.first();
        (first != NIL).then_some(first)
    }

    /// The slot behind this one.
    pub fn after(&self, slot: u32) -> Option<u32> {
        let next = self.nodes.next(slot);
        (next != NIL).then_some(next)
    }

    /// The deadline of a request that waits.
    pub fn deadline(&self, slot: u32) -> Instant {
        Instant::from_nanos(self.nodes.key(slot))
    }

    /// The lane has had more than its part: it waits like everybody.
    pub fn over(&self, k: u64) -> bool {
        self.debt > DEBT_VALVES * k * 100
    }

    /// Until when the first request of the lane is to wait because of what a change costs; `None`: not at all.
    pub fn paced(&self, now: Instant, w: &Waiting, change: u64) -> Option<Instant> {
        if change == 0 { None } else { self.paced_beyond(now, w, OWED_MOST * change) }
    }

    /// The same with a limit in sixteenths of units.
    pub fn paced_beyond(&self, now: Instant, w: &Waiting, limit: u64) -> Option<Instant> {
        let until = w.arrived + PACED_MOST;
        let soon = w.thought < self.service_least * LONG_THOUGHT;
        let owed = if soon { self.changes } else { self.changes_of_all };
        (owed > limit * 100 && !w.number && self.waiting() < CROWD && until > now).then_some(until)
    }

    /// When a target other than that of `group` was served last.
    #[inline]
    pub fn other_served(&self, group: GroupId) -> Option<Instant> {
        self.served[0].and_then(|_| self.served_beside(self.target(group).map(|t| t.owner)))
    }

    fn served_beside(&self, own: Option<GroupId>) -> Option<Instant> {
        let others = self.served.iter().flatten().filter(|(whose, _)| Some(*whose) != own);
        others.map(|(_, at)| *at).max()
    }

    /// A request of the lane goes; `greedy`: while others wait.
    #[inline]
    pub fn issued(&mut self, units: u64, change: u64, greedy: bool) {
        self.inside += 1;
        if greedy {
            self.debt += units * (100 - PART);
            self.owes(2 * change);
        }
    }

    /// Greedy work goes.
    #[inline]
    pub fn greedy_issued(&mut self, units: u64) {
        if self.debt | self.changes == 0 {
            return;
        }
        self.debt = self.debt.saturating_sub(units * PART);
        self.pays(units);
    }

    /// Time of changes on a disk, in sixteenths of units.
    pub fn owes(&mut self, units: u64) {
        self.changes += units * 100;
        self.changes_of_all += units * 100;
    }

    /// So much greedy work (sixteenths of units of time) pays its part.
    pub fn pays(&mut self, units: u64) {
        let part = units * self.part;
        self.changes = self.changes.saturating_sub(part);
        self.changes_of_all = self.changes_of_all.saturating_sub(part * THOUGHTFUL);
    }

    /// A request of the lane is over.
    #[inline]
    pub fn completed(&mut self, now: Instant, issued: Instant) {
        self.inside -= 1;
        self.active = Some(now);
        let s = now.since(issued).0;
        self.service = Nanos(match self.service.0 {
            0 => s,
            mean => (15 * mean + s) / 16,
        });
        let least = self.service_least.0;
        self.service_least = Nanos(if least == 0 { s } else { s.min(least + least / 256) });
        let peak = self.service_peak.0;
        self.service_peak = Nanos(s.max(peak - peak / 256));
    }

    /// It was one of that target.
    pub fn served(&mut self, now: Instant, arrived: Instant, owner: GroupId, units: u64) {
        if self.served[0].is_some_and(|(whose, _)| whose != owner) {
            self.served[1] = self.served[0];
        }
        self.served[0] = Some((owner, now));
        if let Some(latencies) = &mut self.latencies[owner] {
            latencies.add(now.since(arrived), units);
        }
    }

    /// In units.
    pub fn debt(&self) -> u64 {
        self.debt / 100 / UNIT
    }

    pub fn changes(&self) -> u64 {
        self.changes / 100 / UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: GroupId = GroupId(1);
    const B: GroupId = GroupId(2);
    const AUTO: Option<Target> = Some(Target::Auto);
    const NUMBER: Option<Target> = Some(Target::Number(Nanos::ms(2)));
    const CHANGE: u64 = 10 * UNIT;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Nanos::us(us)
    }

    /// `A` has a target without a number, `B` one of 2 ms; the drive takes 100 us.
    fn lane() -> TargetLane {
        let mut lane = TargetLane::new(64);
        for (group, target) in [(A, Target::Auto), (B, Target::Number(Nanos::ms(2)))] {
            lane.add_group(group, GroupId::ROOT);
            lane.set_target(group, Some(target), Some(GroupId::ROOT), &|_| &[]);
        }
        serve(&mut lane, 0, A);
        lane
    }

    /// A request goes and is over 100 us later, with nobody else waiting.
    fn serve(lane: &mut TargetLane, from: u64, group: GroupId) {
        lane.issued(UNIT, 0, false);
        lane.completed(at(from + 100), at(from));
        lane.served(at(from + 100), at(from), group, UNIT);
    }

    fn waiting(number: bool) -> Waiting {
        Waiting { arrived: at(0), thought: Nanos::ZERO, number }
    }

    #[test]
    fn the_earliest_deadline_goes_first_and_without_a_number_it_is_40_services_away() {
        let mut lane = lane();
        lane.push(1, at(0), AUTO);
        lane.push(2, at(1_999), NUMBER);
        lane.push(3, at(2_001), NUMBER);
        assert_eq!((lane.deadline(1), lane.deadline(2)), (at(4_000), at(3_999)));
        let order = [lane.first(), lane.after(2), lane.after(1), lane.after(3)];
        assert_eq!(order, [Some(2), Some(1), Some(3), None]);
    }

    /// Two guarantees: a number is never paced, and nobody for longer than 500 ms.
    #[test]
    fn who_owes_more_than_four_changes_waits_500_ms_at_most_unless_there_is_a_number() {
        let mut lane = lane();
        let paced = |lane: &TargetLane, w| lane.paced(at(1_000), &w, CHANGE);
        for _ in 0..2 {
            lane.issued(UNIT, CHANGE, true);
            assert_eq!(paced(&lane, waiting(false)), None, "two changes each");
        }
        lane.issued(UNIT, CHANGE, true);
        assert_eq!(paced(&lane, waiting(false)), Some(at(500_000)));
        assert_eq!(lane.paced(at(500_000), &waiting(false), CHANGE), None);
        assert_eq!(paced(&lane, waiting(true)), None, "a number is kept");
        let thinks = Waiting { thought: Nanos::us(800), ..waiting(false) };
        assert_eq!(paced(&lane, thinks), Some(at(500_000)), "all owe as much");
        lane.greedy_issued(2 * CHANGE * 100 / (THOUGHTFUL * lane.part));
        assert_eq!(paced(&lane, thinks), None, "who thinks for eight services");
        assert!(
            paced(&lane, waiting(false)).is_some(),
            "for who asks at once a quarter of it is paid"
        );
        (0..8).for_each(|slot| lane.push(slot, at(0), AUTO));
        assert_eq!(paced(&lane, waiting(false)), None, "eight go in one visit");
    }

    /// The guarantee on throughput: changes take `lane_part` of the greedy work, no more, for who thinks four times that.
    #[test]
    fn greedy_work_pays_its_part_for_changes() {
        for (thought, times) in [(Nanos::ZERO, 1), (Nanos::us(800), THOUGHTFUL)] {
            let mut lane = lane();
            let w = Waiting { thought, ..waiting(false) };
            let (mut greedy, mut changes) = (0, 0);
            for turn in 0..100_000 {
                if lane.paced(at(1_000), &w, CHANGE).is_none() && turn % 3 == 0 {
                    lane.issued(UNIT, CHANGE, true);
                    changes += 2 * CHANGE;
                }
                lane.greedy_issued(5 * UNIT);
                greedy += 5 * UNIT;
            }
            let most = greedy * times * lane.part / 100 + (OWED_MOST + 2) * CHANGE;
            assert!(changes <= most && changes * 10 >= most * 9, "{changes} of {most}");
        }
    }

    #[test]
    fn a_lane_that_floods_stops_at_half_of_the_device() {
        let (mut lane, valve) = (lane(), 20 * UNIT);
        let (mut own, mut greedy) = (0, 0);
        for _ in 0..10_000 {
            match lane.over(valve) {
                true => {
                    lane.greedy_issued(UNIT);
                    greedy += UNIT;
                }
                false => {
                    lane.issued(UNIT, 0, true);
                    own += UNIT;
                }
            }
        }
        let ahead = DEBT_VALVES * valve * 100 / (100 - PART) + UNIT;
        assert!(own - greedy <= ahead, "{own} against {greedy}");
    }

    #[test]
    fn a_target_holds_for_descendants_until_they_have_one_of_their_own() {
        let (mut lane, child) = (lane(), GroupId(3));
        lane.add_group(child, A);
        assert_eq!(lane.target(child), Some(InForce { owner: A, target: Target::Auto }));
        let number = Target::Number(Nanos::ms(1));
        lane.set_target(child, Some(number), Some(A), &|_| &[]);
        lane.set_target(A, None, Some(GroupId::ROOT), &|g| {
            if g == A { &[GroupId(3)] } else { &[] }
        });
        assert_eq!(lane.target(child), Some(InForce { owner: child, target: number }));
        assert_eq!(lane.target(A), None);
    }

    #[test]
    fn the_99th_percentile_is_an_eighth_of_an_octave_wide() {
        let mut seen = LatencyHistogram::new();
        assert_eq!(seen.p99(), Nanos::ZERO);
        (0..990).for_each(|_| seen.add(Nanos::us(100), UNIT));
        assert!((100_000..=112_500).contains(&seen.p99().0), "{:?}", seen.p99());
        (0..20).for_each(|_| seen.add(Nanos::ms(5), UNIT));
        assert!((5_000_000..=5_625_000).contains(&seen.p99().0), "{:?}", seen.p99());
    }
}
