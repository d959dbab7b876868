//! The choice: limits, criteria in order, ties; and how often it would come out the same.
//!
//! The choice itself looks at estimates alone, so that it is one plain function of the rounds:
//!
//! 1. Out goes whoever breaks a limit, and whoever was not measured in everything that counts. A limit on
//!    throughput, or on what others lose, is broken where that is no chance (one-sided 95 %), and in any case at twice
//!    what it gives away; one on latency as soon as the estimate is beyond it.
//! 2. By each criterion in order, those remain that are within its tolerance of the best. Where the present
//!    configuration falls out, only those remain that are better than it by more than the margin: nobody
//!    is asked to change for less.
//! 3. Of those that remain the present configuration stays; else the simplest is taken.
//!
//! Whether it stands is asked with intervals ([`super::advice`]). How stable it is says the bootstrap over
//! rounds (Efron 1979): the rounds are drawn anew, with replacement, and the part of the draws with the same
//! choice is the *sureness*. Up to five rounds all draws are gone through; beyond, 2000 of a fixed seed.

use super::compare::{Score, ScoreDifference};
use super::field::{Field, Quantity};
use super::goal::{Aspect, Goal, Limit};
use crate::stats::{Bound, Bounded, sum};

/// Draws where there are too many for all.
const DRAWS: usize = 2000;
/// All draws are gone through up to this many rounds: 5^5 = 3125.
const ALL_DRAWS: usize = 5;

/// A limit with the scores that it is about.
#[derive(Clone, Debug)]
pub struct LimitScores {
    /// The limit.
    pub limit: Limit,
    /// Aspects it looks at.
    pub aspects: Vec<Aspect>,
    /// By configuration, for [`Limit::Below`] and [`Limit::Others`] by workload, by round.
    pub scores: Vec<Option<Vec<Vec<Score>>>>,
    /// By configuration: so far beyond the limit may be chance, in scores.
    pub leeway: Vec<f64>,
    /// The limit is tighter by this, in scores: 0 but where it is asked what hangs by it.
    pub shift: f64,
}

/// A criterion with the scores that it is about.
#[derive(Clone, Debug)]
pub struct CriterionScores {
    /// In words.
    pub name: &'static str,
    /// Aspects it looks at.
    pub aspects: Vec<Aspect>,
    /// How much worse than the best is as good, in scores.
    pub tolerance: f64,
    /// By configuration, by round.
    pub scores: Vec<Option<Vec<Score>>>,
}

/// A goal made ready for a field.
#[derive(Clone, Debug)]
pub struct PreparedGoal {
    /// Limits that can be checked.
    pub limits: Vec<LimitScores>,
    /// Criteria that were measured.
    pub criteria: Vec<CriterionScores>,
    /// How simple each configuration is, the least the simplest.
    pub ranks: Vec<u32>,
    /// The present configuration.
    pub base: Option<usize>,
    /// What counts as different, in scores.
    pub margin: f64,
    /// Rounds.
    pub rounds: usize,
}

/// Why a configuration is not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceReason {
    /// It is the choice.
    Chosen,
    /// Not everything that counts was measured.
    Incomplete,
    /// It breaks this limit.
    Limit(usize),
    /// It is not near enough to the best by this criterion.
    Criterion(usize),
    /// As good, but another is there already or is simpler.
    Tie,
}

/// What the choice comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The configuration; `None`: none keeps the limits.
    pub config: Option<usize>,
    /// Why each of them is or is not.
    pub reasons: Vec<ChoiceReason>,
}

impl PreparedGoal {
    /// A goal on a field.
    pub fn new(goal: &Goal, field: &Field, base: Option<usize>, ranks: Vec<u32>) -> PreparedGoal {
        let has = |aspect: Aspect| field.has(aspect);
        let configs = || 0..field.configs.len();
        let margin = libm::log1p(field.identity.margin());
        let limits = goal.limits.iter().filter_map(|limit| {
            let aspects = match limit {
                Limit::Keeps { aspect, .. } => {
                    vec![*aspect].into_iter().filter(|&a| has(a)).collect()
                }
                Limit::Below(_) => below_aspects(goal, &has),
                Limit::Others { .. } => others_aspects(field, base),
            };
            let scores = configs().map(|c| limit_scores(field, limit, &aspects, c, base)).collect();
            let limit = limit.clone();
            let leeway = vec![0.0; field.configs.len()];
            let shift = 0.0;
            (!aspects.is_empty()).then_some(LimitScores { limit, aspects, scores, leeway, shift })
        });
        let criteria = goal.criteria.iter().filter_map(|criterion| {
            let aspects = criterion.measured(&has);
            let part = aspects.iter().any(|a| a.is_part());
            let tolerance = match criterion.tolerance {
                Some(t) if part => t,
                Some(t) => libm::log1p(t).max(margin),
                None => margin,
            };
            let scores = configs().map(|c| field.scores(c, &aspects)).collect();
            let name = criterion.name;
            (!aspects.is_empty()).then_some(CriterionScores { name, aspects, tolerance, scores })
        });
        let mut plan = PreparedGoal {
            limits: limits.collect(),
            criteria: criteria.collect(),
            ranks,
            base,
            margin,
            rounds: 0,
        };
        plan.rounds = plan.all_scores().map(|s| s.len()).min().unwrap_or(0);
        let rounds = plan.rounds;
        plan.all_scores().for_each(|s| s.truncate(rounds));
        let complete: Vec<usize> = configs().filter(|&c| plan.complete(c)).collect();
        plan.limits.iter_mut().for_each(|l| l.find_leeway(&complete, rounds));
        plan
    }

    /// Scores by round, of everything that counts.
    fn all_scores(&mut self) -> impl Iterator<Item = &mut Vec<Score>> {
        let limits = self.limits.iter_mut().flat_map(|l| l.scores.iter_mut().flatten().flatten());
        limits.chain(self.criteria.iter_mut().flat_map(|c| c.scores.iter_mut().flatten()))
    }

    /// Was everything measured that counts?
    pub fn complete(&self, config: usize) -> bool {
        self.limits.iter().all(|l| l.scores[config].is_some())
            && self.criteria.iter().all(|c| c.scores[config].is_some())
    }

    /// The choice by these rounds, without those `left_out`.
    pub fn choose(&self, rounds: &[usize], left_out: &[usize]) -> Choice {
        let mut reasons = vec![ChoiceReason::Tie; self.ranks.len()];
        let all = (0..self.ranks.len()).filter(|c| !left_out.contains(c));
        let (complete, not): (Vec<usize>, Vec<usize>) = all.partition(|&c| self.complete(c));
        not.iter().for_each(|&c| reasons[c] = ChoiceReason::Incomplete);
        let mut left = complete.clone();
        for (i, limit) in self.limits.iter().enumerate() {
            left.retain(|&c| {
                let excess = limit.excess(c, &complete, rounds) + limit.shift;
                let broken = excess > limit.leeway[c];
                if broken && reasons[c] == ChoiceReason::Tie {
                    reasons[c] = ChoiceReason::Limit(i);
                }
                !broken
            });
        }
        for (i, criterion) in self.criteria.iter().enumerate() {
            let score = |c: usize| criterion.mean(c, rounds);
            let Some(best) = left.iter().map(|&c| score(c)).min_by(f64::total_cmp) else { break };
            let near = |c: usize| score(c) <= best + criterion.tolerance;
            let base = self.base.filter(|b| left.contains(b) && !near(*b)).map(score);
            let stays = |c: usize| near(c) && base.is_none_or(|b| score(c) < b - self.margin);
            left.retain(|&c| {
                let stays = stays(c);
                if !stays {
                    reasons[c] = ChoiceReason::Criterion(i);
                }
                stays
            });
        }
        let present = self.base.filter(|b| left.contains(b));
        let config = present.or_else(|| left.iter().copied().min_by_key(|&c| (self.ranks[c], c)));
        if let Some(config) = config {
            reasons[config] = ChoiceReason::Chosen;
        }
        Choice { config, reasons }
    }

    /// The choice by all rounds.
    pub fn choice(&self) -> Choice {
        self.choose(&(0..self.rounds).collect::<Vec<_>>(), &[])
    }

    /// How often each configuration (last: none) is the choice when the rounds are drawn anew, 0 to 1.
    pub fn stability(&self) -> Vec<f64> {
        let mut counts = vec![0u32; self.ranks.len() + 1];
        let n = self.rounds;
        let mut draw = |rounds: &[usize]| {
            let chosen = self.choose(rounds, &[]).config;
            counts[chosen.unwrap_or(self.ranks.len())] += 1;
        };
        if n <= ALL_DRAWS {
            for number in 0..n.pow(n as u32) {
                let digit = |i: u32| number / n.pow(i) % n;
                draw(&(0..n as u32).map(digit).collect::<Vec<_>>());
            }
        } else {
            let mut random = Draws::new();
            for _ in 0..DRAWS {
                draw(&(0..n).map(|_| random.below(n)).collect::<Vec<_>>());
            }
        }
        let all: u32 = counts.iter().sum();
        counts.into_iter().map(|c| f64::from(c) / f64::from(all.max(1))).collect()
    }
}

/// Aspects of a limit on latency: of the first criterion that takes percentiles.
fn below_aspects(goal: &Goal, has: &dyn Fn(Aspect) -> bool) -> Vec<Aspect> {
    let tails = goal.criteria.iter().find(|c| c.tails);
    tails.map_or_else(Vec::new, |c| c.measured(has))
}

/// Aspects of a limit on what others lose: where somebody waits, if it is known for how long under the present
/// configuration.
fn others_aspects(field: &Field, base: Option<usize>) -> Vec<Aspect> {
    match base.is_some_and(|base| waits(field, base).next().is_some()) {
        true => vec![Aspect::Beside],
        false => Vec::new(),
    }
}

/// Of each workload where somebody waits: his wait, and throughput. Not those in which the present configuration's wait
/// was cut off: how long the others would have been without loss there is not known.
fn waits(field: &Field, base: usize) -> impl Iterator<Item = (&Quantity, &Quantity)> {
    let waits = field.told(Aspect::Startup).chain(field.told(Aspect::Interactive));
    let beside =
        |wait: &Quantity| field.told(Aspect::Beside).find(move |q| q.place == wait.place.as_str());
    let whole = move |wait: &Quantity, beside: &Quantity| {
        let exact = |v: &Bounded| v.bound == Bound::Exact && v.value > 0.0;
        let moved = beside.values[base].as_ref().is_some_and(|v| v.iter().all(|v| v.value > 0.0));
        moved && wait.values[base].as_ref().is_some_and(|v| v.iter().all(exact))
    };
    waits.filter_map(move |w| Some((w, beside(w)?))).filter(move |(w, b)| whole(w, b))
}

/// What the others keep ([`Limit::Others`]), by workload and round, as scores; the present configuration's are 0.
fn others_scores(field: &Field, base: usize, config: usize) -> Option<Vec<Vec<Score>>> {
    let of = |(wait, beside): (&Quantity, &Quantity)| -> Option<Vec<Score>> {
        let column = |q: &Quantity, c: usize| q.values[c].clone();
        let ours = column(wait, config)?.into_iter().zip(column(beside, config)?);
        let theirs = column(wait, base)?.into_iter().zip(column(beside, base)?);
        let score = |((wait, moved), (wait_now, moved_now)): ((Bounded, Bounded), _)| {
            let (wait_now, moved_now): (Bounded, Bounded) = (wait_now, moved_now);
            // A longer wait is another criterion's business.
            let part = (wait.value / wait_now.value).min(1.0);
            let kept = 1.0 - part * (1.0 - moved.value / moved_now.value);
            Score { value: -libm::log(kept.max(NOTHING)), at_least: false }
        };
        Some(ours.zip(theirs).map(score).collect())
    };
    waits(field, base).map(of).collect()
}

/// Less than this part of what the others moved is nothing: logarithms need something.
const NOTHING: f64 = 1e-6;

fn limit_scores(
    field: &Field,
    limit: &Limit,
    aspects: &[Aspect],
    config: usize,
    base: Option<usize>,
) -> Option<Vec<Vec<Score>>> {
    match limit {
        Limit::Keeps { .. } => field.scores(config, aspects).map(|s| vec![s]),
        Limit::Below(_) => {
            let told = aspects.iter().flat_map(|&a| field.told(a));
            told.map(|q| q.scores(config)).collect()
        }
        Limit::Others { .. } => others_scores(field, base?, config),
    }
}

fn mean(scores: &[Score], rounds: &[usize]) -> f64 {
    sum(rounds.iter().map(|&r| scores[r].value)) / rounds.len() as f64
}

impl LimitScores {
    /// By how much the limit is broken, in scores; 0 or below: it is kept.
    pub fn excess(&self, config: usize, among: &[usize], rounds: &[usize]) -> f64 {
        let own = self.scores[config].as_ref().expect("only complete ones are asked for");
        match self.limit {
            Limit::Below(ns) => {
                let limit = libm::log(ns as f64 / 1e6);
                let worst = own.iter().map(|s| mean(s, rounds)).max_by(f64::total_cmp);
                worst.map_or(0.0, |w| w - limit)
            }
            Limit::Others { part } => {
                let worst = own.iter().map(|s| mean(s, rounds)).max_by(f64::total_cmp);
                worst.map_or(0.0, |w| w + libm::log(part))
            }
            Limit::Keeps { part, .. } => {
                let of = |c: usize| mean(&self.scores[c].as_ref().expect("complete")[0], rounds);
                let best = among.iter().map(|&c| of(c)).min_by(f64::total_cmp);
                best.map_or(0.0, |best| of(config) - best + libm::log(part))
            }
        }
    }

    /// Finds what may be chance: one-sided 95 % beside the best, and never more than the limit itself gives away.
    fn find_leeway(&mut self, complete: &[usize], rounds: usize) {
        let (part, found): (f64, Vec<(usize, f64)>) = match self.limit {
            Limit::Below(_) => return,
            Limit::Keeps { part, .. } => {
                let Some(best) = self.best(complete, rounds) else { return };
                let scores = |c: usize| self.scores[c].as_ref().map(|s| s[0].as_slice());
                let of = |&c: &usize| {
                    Some((c, ScoreDifference::of(scores(c)?, scores(best)?)?.leeway()?))
                };
                (part, complete.iter().filter_map(of).collect())
            }
            Limit::Others { part } => {
                let of = |&c: &usize| Some((c, self.worst(c, rounds)?.leeway()?));
                (part, complete.iter().filter_map(of).collect())
            }
        };
        for (config, leeway) in found {
            self.leeway[config] = leeway.min(-libm::log(part));
        }
    }

    /// Of a limit by workload the worst one, beside the present configuration's 0.
    fn worst(&self, config: usize, rounds: usize) -> Option<ScoreDifference> {
        let zero = vec![Score { value: 0.0, at_least: false }; rounds];
        let each = self.scores[config].as_ref()?.iter();
        let each = each.filter_map(|scores| ScoreDifference::of(scores, &zero));
        each.max_by(|a, b| a.mean.total_cmp(&b.mean))
    }

    /// Who keeps most.
    pub fn best(&self, among: &[usize], rounds: usize) -> Option<usize> {
        let all: Vec<usize> = (0..rounds).collect();
        let of = |c: usize| mean(&self.scores[c].as_ref().expect("complete")[0], &all);
        among.iter().copied().min_by(|&a, &b| of(a).total_cmp(&of(b)))
    }
}

impl CriterionScores {
    fn mean(&self, config: usize, rounds: &[usize]) -> f64 {
        mean(self.scores[config].as_ref().expect("only complete ones are asked for"), rounds)
    }
}

/// Numbers of the bootstrap: splitmix64 of a fixed seed, so that the same runs give the same bytes.
struct Draws(u64);

impl Draws {
    fn new() -> Draws {
        Draws(0x7265_636f_6d6d_656e)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * n as u128) >> 64) as usize
    }
}
