//! What an answer hangs by. Rounds drawn anew tell how much chance there is in the figures; a figure that is the same in
//! every round may still lie so near a limit that a longer run, another seed or another level of the bench puts it on
//! the other side. Then two benches of one drive contradict each other, and both were sure. So the choice is made again:
//!
//! - *near a limit*: with each limit of the goal, and each tolerance of a criterion, tighter and looser by a part of
//!   what it gives away (`LIMIT`, `TOLERANCE`);
//! - *moved by time*: with the throughput of the first and of the second half of the runs alone;
//! - *short*: BFQ raises the weight of what has just started for up to [`RAISING`]. On a disk, where that costs most, a
//!   shorter run shows nothing else, so it cannot be sure of a choice for BFQ, nor of one that BFQ lost by a limit;
//! - *untried*: BFQ without that raising ([`CALM`]) is what its documentation advises where throughput counts. A quick
//!   bench tries only the one that raises, and what is chosen in its place may lose to the other: it did on the disks of
//!   two laptops, for every goal but shares;
//! - *no disk*: the drive says that it rotates, as virtual disks do, and reads faster than any disk. Schedulers believe it:
//!   BFQ waits for those who have just read, and write-back throttling takes another target;
//! - *left out*: workloads of the suite that the goal is about, for which a bench had no time. A shorter bench has chosen
//!   what a longer one rules out.
//!
//! Where any of these gives another choice, the answer is not sure. What it hangs by is said, with the other choice.

use super::choose::{Choice, ChoiceReason, PreparedGoal};
use super::field::Field;
use super::goal::{Goal, Limit};
use super::install::Install;
use crate::bench::subject::DISK_MAX;
use crate::bench::suite::{Part, SUITE};
pub use crate::config::RAISING;
use hoistway::Nanos;

/// A limit is tried tighter and looser by this part of what it gives away: 90 % as 95 and as 85 %.
const LIMIT: f64 = 0.5;
/// A limit on latency gives nothing away: it is tried a tenth lower and higher.
const BELOW: f64 = 0.1;
/// A tolerance is tried smaller and larger by this part of it: 20 % as 15 and as 25 %.
const TOLERANCE: f64 = 0.25;

/// BFQ that raises nothing.
pub const CALM: &str = "bfq{low_latency=0}";

/// What an answer hangs by.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// What it is.
    pub kind: DoubtKind,
    /// The choice that it would be; `None`: none.
    pub instead: Option<usize>,
}

/// Kinds of doubts.
#[derive(Clone, Debug, PartialEq)]
pub enum DoubtKind {
    /// With this limit.
    Limit(Limit),
    /// With this tolerance, in scores, of criterion number i.
    Tolerance(usize, f64),
    /// With the first (`false`) or the second half of the runs alone.
    Half(bool),
    /// With runs that are longer than this.
    Short(Nanos),
    /// With this configuration, which was not tried.
    Untried(&'static str),
    /// With a drive that does not say that it rotates: it reads so often per second at random.
    NoDisk(u64),
    /// With these workloads of the bench, for which there was no time.
    LeftOut(Vec<String>),
}

/// Everything that the choice hangs by.
pub(super) fn all(
    goal: &Goal,
    field: &Field,
    plan: &PreparedGoal,
    choice: &Choice,
    installs: &[Install],
) -> Vec<Doubt> {
    let mut doubts = near(plan, choice);
    for late in [false, true] {
        let Some(half) = field.half(late) else { continue };
        let other = PreparedGoal::new(goal, &half, plan.base, plan.ranks.clone()).choice();
        doubts.extend(other_choice(choice, &other, DoubtKind::Half(late)));
    }
    doubts.extend(short(field, plan, choice, installs));
    doubts.extend(untried(goal, plan, choice, installs));
    doubts.extend(no_disk(field));
    doubts.extend(left_out(goal, field));
    doubts
}

/// Limits and tolerances that a little less or more of makes another choice.
fn near(plan: &PreparedGoal, choice: &Choice) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    for (i, limit) in plan.limits.iter().enumerate() {
        let (shift, tighter, looser) = match limit.limit {
            Limit::Keeps { aspect, part } => {
                let of = |factor: f64| Limit::Keeps { aspect, part: libm::pow(part, factor) };
                (-LIMIT * libm::log(part), of(1.0 - LIMIT), of(1.0 + LIMIT))
            }
            Limit::Others { part } => {
                let of = |factor: f64| Limit::Others { part: libm::pow(part, factor) };
                (-LIMIT * libm::log(part), of(1.0 - LIMIT), of(1.0 + LIMIT))
            }
            Limit::Below(ns) => {
                let of = |factor: f64| Limit::Below((ns as f64 * factor) as u64);
                (libm::log1p(BELOW), of(1.0 / (1.0 + BELOW)), of(1.0 + BELOW))
            }
        };
        for (shift, with) in [(shift, tighter), (-shift, looser)] {
            let mut tried = plan.clone();
            tried.limits[i].shift = shift;
            doubts.extend(other_choice(choice, &tried.choice(), DoubtKind::Limit(with)));
        }
    }
    for (i, criterion) in plan.criteria.iter().enumerate() {
        for factor in [1.0 - TOLERANCE, 1.0 + TOLERANCE] {
            let mut tried = plan.clone();
            tried.criteria[i].tolerance = criterion.tolerance * factor;
            let kind = DoubtKind::Tolerance(i, criterion.tolerance * factor);
            doubts.extend(other_choice(choice, &tried.choice(), kind));
        }
    }
    doubts
}

/// Runs on a disk that saw nothing but a BFQ that raises, where the choice hangs by it.
fn short(
    field: &Field,
    plan: &PreparedGoal,
    choice: &Choice,
    installs: &[Install],
) -> Option<Doubt> {
    let measured = field.shortest().filter(|&t| t < RAISING)?;
    if field.identity.rotational != Some(true) {
        return None;
    }
    let raises = |c: &usize| installs[*c].raises();
    let instead = match choice.config.filter(raises) {
        // Without its raising it would not be there.
        Some(chosen) => {
            let rounds: Vec<usize> = (0..plan.rounds).collect();
            plan.choose(&rounds, &[chosen]).config
        }
        None => Some(rejected(plan, choice).into_iter().map(|(c, _)| c).find(raises)?),
    };
    Some(Doubt { kind: DoubtKind::Short(measured), instead })
}

/// Where only a BFQ was tried that spends throughput on what has just started: if it lost, or was chosen for a goal that
/// puts nobody's start first. Shares are not about that.
fn untried(
    goal: &Goal,
    plan: &PreparedGoal,
    choice: &Choice,
    installs: &[Install],
) -> Option<Doubt> {
    let bfq = |c: &usize| plan.complete(*c) && installs[*c].is_bfq();
    let lost =
        |c: usize| matches!(choice.reasons[c], ChoiceReason::Limit(_) | ChoiceReason::Criterion(_));
    let all = || (0..installs.len()).filter(bfq);
    let open = match choice.config.filter(|&c| installs[c].is_bfq()) {
        Some(_) => matches!(goal.name.as_str(), "server" | "throughput"),
        None => choice.config.is_some() && all().any(lost),
    };
    let raising_alone = all().all(|c| installs[c].raises());
    let doubt = Doubt { kind: DoubtKind::Untried(CALM), instead: None };
    (goal.name != "share" && open && raising_alone).then_some(doubt)
}

/// What calls itself a disk and is none.
fn no_disk(field: &Field) -> Option<Doubt> {
    let reads = field.identity.random_reads.filter(|&reads| reads > DISK_MAX)?;
    let doubt = Doubt { kind: DoubtKind::NoDisk(reads), instead: None };
    (field.identity.rotational == Some(true)).then_some(doubt)
}

/// Workloads of the suite that a bench did not run.
fn left_out(goal: &Goal, field: &Field) -> Option<Doubt> {
    field.identity.suite.as_ref()?;
    let asked = goal.aspects();
    let about = |part: &&Part| part.tells().iter().any(|aspect| asked.contains(aspect));
    // Also what ran and is not judged: of an emulated drive that did not keep up.
    let ran = |place: &String| field.trials.iter().any(|t| t.place == *place);
    let missing: Vec<String> =
        SUITE.iter().filter(about).map(Part::place).filter(|place| !ran(place)).collect();
    let some = !missing.is_empty();
    some.then_some(Doubt { kind: DoubtKind::LeftOut(missing), instead: None })
}

fn other_choice(choice: &Choice, other: &Choice, kind: DoubtKind) -> Option<Doubt> {
    (other.config != choice.config).then_some(Doubt { kind, instead: other.config })
}

/// Configurations that would be the choice but for limits, with the first limit that they break.
pub(super) fn rejected(plan: &PreparedGoal, choice: &Choice) -> Vec<(usize, usize)> {
    let without = |c: usize| {
        let mut tried = plan.clone();
        // None is broken by this one.
        tried.limits.iter_mut().for_each(|l| l.leeway[c] = f64::INFINITY);
        tried.choice().config == Some(c)
    };
    let reasons = choice.reasons.iter().enumerate();
    let of = |(c, reason): (usize, &ChoiceReason)| match reason {
        ChoiceReason::Limit(i) => without(c).then_some((c, *i)),
        _ => None,
    };
    reasons.filter_map(of).collect()
}
