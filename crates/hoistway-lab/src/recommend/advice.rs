//! The answer: what the choice comes to when intervals are asked whether it stands.
//!
//! - **Change to X**: X is surely better than the present configuration in what it is chosen for.
//! - **Keep**: the present one is the choice, and no other can be better by more than what counts.
//! - **No difference**: the same, and nothing measured differs either way.
//! - **None**: no configuration keeps the limits of the goal.
//! - **Not decided**: what the goal is about was all set aside, since the processors that emulate the drive were the limit.
//! - **Not enough data**: fewer than three rounds; or the interval that decides still holds the opposite;
//!   or the rounds drawn anew give another choice in more than a fifth of the draws.

use super::choose::{Choice, ChoiceReason, PreparedGoal};
use super::compare::{ROUNDS_MIN, ScoreDifference, Verdict};
use super::doubt::{self, Doubt};
use super::field::{Field, Quantity, RunSource, Strain, Trial};
use super::goal::{self, Aspect, Goal, GoalError, Limit};
use super::identity::{KERNEL, SIMULATOR};
use super::install::{self, Install, Tried};
use super::processor::Decisions;
use crate::experiment::Weights;
use crate::stats::Bounded;
use crate::words::counted;
use std::collections::BTreeSet;

/// At least so often the same choice among rounds drawn anew.
const LIKELY: f64 = 0.8;
/// From here on it is called sure.
const SURE: f64 = 0.95;

/// Files for every boot are written for an answer that is at least this sure.
pub const RULES: Sureness = Sureness::Likely;

/// What is recommended for one drive.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The goal.
    pub goal: Goal,
    /// Everything measured.
    pub field: Field,
    /// The goal on it.
    pub plan: PreparedGoal,
    /// What comes out.
    pub answer: Recommendation,
    /// The choice by all rounds, also where there is not enough data.
    pub choice: Choice,
    /// The configuration everything is compared with.
    pub base: usize,
    /// Why that one.
    pub base_is: BaseIs,
    /// How often each configuration (last: none) is the choice among rounds drawn anew.
    pub stability: Vec<f64>,
    /// How sure.
    pub sureness: Sureness,
    /// What the choice hangs by beside chance.
    pub hangs_by: Vec<Doubt>,
    /// Configurations that would be the choice but for limits, and the first limit that each breaks.
    pub rejected: Vec<(usize, usize)>,
    /// The next best, and where it lost.
    pub runner_up: Option<(usize, ChoiceReason)>,
    /// What each configuration takes to install.
    pub installs: Vec<Install>,
}

/// What comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recommendation {
    /// Change to this configuration.
    Change(usize),
    /// The present configuration is best.
    Keep(usize),
    /// Nothing differs; this one stays, or is the simplest.
    NoDifference(usize),
    /// Nothing keeps the limits; this one comes nearest.
    Nothing(usize),
    /// What the goal is about tells of the processors that emulate the drive, not of the drive.
    Processors,
    /// So many rounds more are needed.
    NotEnough {
        /// Rounds to add.
        more: usize,
        /// What is not known, in words.
        why: String,
    },
}

impl Recommendation {
    /// The configuration to use; `None`: nothing is recommended.
    pub fn config(&self) -> Option<usize> {
        match *self {
            Recommendation::Change(c)
            | Recommendation::Keep(c)
            | Recommendation::NoDifference(c) => Some(c),
            Recommendation::Nothing(_)
            | Recommendation::Processors
            | Recommendation::NotEnough { .. } => None,
        }
    }

    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Recommendation::Change(_) => "change",
            Recommendation::Keep(_) => "keep",
            Recommendation::NoDifference(_) => "no difference",
            Recommendation::Nothing(_) => "nothing",
            Recommendation::Processors => "not decided",
            Recommendation::NotEnough { .. } => "not enough data",
        }
    }
}

/// Why a configuration is the one compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseIs {
    /// It was in force on the machine.
    Present,
    /// It was named on the command line.
    Asked,
    /// This one was in force and was not measured.
    NotMeasured(String),
    /// This one was in force, and differs only in the throttling of writes; nothing was written.
    Like(String),
    /// Nothing is known of a present one.
    Unknown,
}

/// How sure an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sureness {
    /// It may be another.
    Doubtful,
    /// The same in 80 % of the draws, or sure but for warnings or what it hangs by.
    Likely,
    /// The same in 95 % of the draws.
    Sure,
}

impl Sureness {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Sureness::Doubtful => "doubtful",
            Sureness::Likely => "likely",
            Sureness::Sure => "sure",
        }
    }
}

/// Answers, one per drive of the runs.
///
/// # Errors
///
/// The runs have nothing that the goal is about, or the configuration named as present is not among them.
pub fn recommend(
    sources: &[RunSource],
    goal: &Goal,
    present: Option<&str>,
) -> Result<Vec<Advice>, GoalError> {
    let fields = Field::of(sources);
    fields.into_iter().map(|field| Advice::of(field, goal, present)).collect()
}

impl Advice {
    /// What a field comes to for a goal; `present`: the configuration to compare with, if one is named.
    ///
    /// # Errors
    ///
    /// As of [`recommend`].
    pub fn of(field: Field, goal: &Goal, present: Option<&str>) -> Result<Advice, GoalError> {
        let told = goal.needs().iter().any(|&a| field.has(a));
        if !told && !goal.needs().iter().any(|&a| field.lost(a)) {
            return Err(lacking(&field, goal));
        }
        let installs: Vec<Install> = field.configs.iter().map(|c| Install::of(c)).collect();
        let ranks: Vec<u32> = installs.iter().map(Install::rank).collect();
        let plan = PreparedGoal::new(goal, &field, None, ranks.clone());
        let (base, base_is) = base(&field, &plan, &installs, present)?;
        // Some limits are about what the present one gives.
        let plan = PreparedGoal::new(goal, &field, Some(base), ranks);
        let choice = plan.choice();
        let stability = plan.stability();
        let runner_up = runner_up(&plan, &choice);
        let hangs_by = doubt::all(goal, &field, &plan, &choice, &installs);
        let rejected = doubt::rejected(&plan, &choice);
        let mut advice = Advice {
            goal: goal.clone(),
            field,
            plan,
            answer: Recommendation::NoDifference(base),
            choice,
            base,
            base_is,
            stability,
            sureness: Sureness::Doubtful,
            hangs_by,
            rejected,
            runner_up,
            installs,
        };
        advice.answer = if told { advice.judge() } else { Recommendation::Processors };
        advice.sureness = advice.sureness();
        Ok(advice)
    }

    /// Two configurations beside each other by a criterion.
    pub fn by_criterion(&self, i: usize, ours: usize, theirs: usize) -> Option<ScoreDifference> {
        let scores = &self.plan.criteria[i].scores;
        ScoreDifference::of(scores[ours].as_ref()?, scores[theirs].as_ref()?)
    }

    /// What counts as different of an aspect, in scores.
    pub fn margin(&self, aspect: Aspect) -> f64 {
        if aspect.is_part() { self.field.identity.margin() } else { self.plan.margin }
    }

    /// A configuration beside the present one, aspect by aspect.
    pub fn effects(&self, config: usize) -> Vec<(Aspect, ScoreDifference)> {
        let compare = |a: Aspect| Some((a, self.field.compare(config, self.base, &[a])?));
        Aspect::ALL.into_iter().filter(|&a| self.field.has(a)).filter_map(compare).collect()
    }

    /// Workloads in which a configuration is surely better (or worse) than the present one.
    pub fn places(&self, config: usize, wanted: Verdict) -> Vec<(&Quantity, ScoreDifference)> {
        let all = self.field.quantities.iter();
        let compared = all.filter_map(|q| Some((q, q.compare(config, self.base)?)));
        compared.filter(|(q, c)| c.verdict(self.margin(q.aspect)) == wanted).collect()
    }

    /// How often the choice comes out, 0 to 1.
    pub fn same(&self) -> f64 {
        self.stability[self.choice.config.unwrap_or(self.field.configs.len())]
    }

    fn judge(&self) -> Recommendation {
        let n = self.plan.rounds;
        if n < ROUNDS_MIN {
            let why = format!("{n} rounds; fewer than {ROUNDS_MIN} never decide");
            return Recommendation::NotEnough { more: ROUNDS_MIN - n, why };
        }
        let Some(chosen) = self.choice.config else { return self.nothing() };
        let open = match chosen == self.base {
            true => self.rivals(),
            false => self.change(chosen),
        };
        if let Some((more, why)) = open {
            return Recommendation::NotEnough { more, why };
        }
        if self.same() < LIKELY {
            let why = format!(
                "drawn anew, the rounds give {} in {:.0} % of the draws only",
                self.field.configs[chosen],
                100.0 * self.same()
            );
            return Recommendation::NotEnough { more: n, why };
        }
        if chosen != self.base {
            return Recommendation::Change(chosen);
        }
        if self.all_alike() {
            Recommendation::NoDifference(chosen)
        } else {
            Recommendation::Keep(chosen)
        }
    }

    /// No configuration keeps the limits: surely?
    fn nothing(&self) -> Recommendation {
        let all: Vec<usize> = (0..self.plan.rounds).collect();
        let complete: Vec<usize> =
            (0..self.field.configs.len()).filter(|&c| self.plan.complete(c)).collect();
        let worst = |c: usize| {
            let each = self.plan.limits.iter().map(|l| l.excess(c, &complete, &all));
            each.max_by(f64::total_cmp).unwrap_or(0.0)
        };
        let nearest = complete.iter().copied().min_by(|&a, &b| worst(a).total_cmp(&worst(b)));
        let Some(nearest) = nearest else {
            let why = "no configuration was measured in everything that counts".to_string();
            return Recommendation::NotEnough { more: self.plan.rounds, why };
        };
        if self.same() < LIKELY {
            let why = format!("{} is near the limits", self.field.configs[nearest]);
            return Recommendation::NotEnough { more: self.plan.rounds, why };
        }
        Recommendation::Nothing(nearest)
    }

    /// Is the change to `chosen` not yet sure? Rounds to add, and why.
    fn change(&self, chosen: usize) -> Option<(usize, String)> {
        let name = |c: usize| self.field.configs[c].as_str();
        let open = |c: ScoreDifference, what: &str, margin: f64| {
            let why = format!(
                "whether {} differs from {} {what} is not told yet",
                name(chosen),
                name(self.base)
            );
            (c.verdict(margin) != Verdict::Better).then(|| (c.more(margin), why))
        };
        match self.choice.reasons[self.base] {
            ChoiceReason::Criterion(i) => {
                let c = self.by_criterion(i, chosen, self.base)?;
                open(c, &format!("in {}", self.plan.criteria[i].name), self.criterion_margin(i))
            }
            ChoiceReason::Limit(i) => {
                let limit = &self.plan.limits[i];
                match limit.limit {
                    Limit::Keeps { .. } => {
                        let complete: Vec<usize> = (0..self.field.configs.len())
                            .filter(|&c| self.plan.complete(c))
                            .collect();
                        let best = limit.best(&complete, self.plan.rounds)?;
                        let scores = |c: usize| limit.scores[c].as_ref().map(|s| s[0].as_slice());
                        let c = ScoreDifference::of(scores(best)?, scores(self.base)?)?;
                        let told = c.verdict(self.plan.margin) == Verdict::Better;
                        let why =
                            format!("whether {} loses throughput is not told yet", name(self.base));
                        (!told).then(|| (c.more(self.plan.margin), why))
                    }
                    Limit::Below(ns) => self.not_surely_below(i, chosen, ns),
                    // It cannot lose anything against itself.
                    Limit::Others { .. } => None,
                }
            }
            // The present one was not measured in everything: it lost nothing, so there is nothing to prove.
            ChoiceReason::Incomplete | ChoiceReason::Tie | ChoiceReason::Chosen => None,
        }
    }

    /// Is it open whether a configuration keeps a limit on latency? By the upper end of the interval.
    fn not_surely_below(&self, limit: usize, config: usize, ns: u64) -> Option<(usize, String)> {
        let bound = libm::log(ns as f64 / 1e6);
        let each = self.plan.limits[limit].scores[config].as_ref()?;
        let flat = |n: usize| vec![super::compare::Score { value: bound, at_least: false }; n];
        let open =
            each.iter().filter_map(|s| ScoreDifference::of(s, &flat(s.len()))).find_map(|c| {
                let sure = c.interval().is_some_and(|(_, high)| high < 0.0);
                (!sure).then(|| c.more_to_tell_sign())
            });
        let why =
            format!("the interval of {}'s latency holds the limit", self.field.configs[config]);
        open.map(|more| (more, why))
    }

    /// What counts as different in a criterion, in scores.
    fn criterion_margin(&self, i: usize) -> f64 {
        let part = self.plan.criteria[i].aspects.iter().any(|a| a.is_part());
        if part { self.field.identity.margin() } else { self.plan.margin }
    }

    /// The present one is the choice: could another be better by what counts? Rounds to add, and why.
    fn rivals(&self) -> Option<(usize, String)> {
        let limits = self.plan.limits.iter().enumerate();
        let latency = limits.filter_map(|(i, l)| match l.limit {
            Limit::Below(ns) => self.not_surely_below(i, self.base, ns),
            Limit::Keeps { .. } | Limit::Others { .. } => None,
        });
        let rivals = (0..self.field.configs.len()).filter(|&c| {
            let reason = self.choice.reasons[c];
            c != self.base && !matches!(reason, ChoiceReason::Incomplete | ChoiceReason::Limit(_))
        });
        let open = rivals.filter_map(|c| {
            let i = (0..self.plan.criteria.len()).find(|&i| self.could_displace(c, i))?;
            let criterion = &self.plan.criteria[i];
            let more = self.by_criterion(i, c, self.base)?.more_to_exclude(criterion.tolerance);
            let name = &self.field.configs[c];
            Some((more, format!("whether {name} is better in {} is not told yet", criterion.name)))
        });
        latency.chain(open).max_by_key(|(more, _)| *more)
    }

    /// Could a configuration be better than the present one by more than the tolerance of criterion `i`, and has it
    /// not fallen behind before that?
    fn could_displace(&self, config: usize, i: usize) -> bool {
        let behind = |j: usize| {
            let c = self.by_criterion(j, config, self.base);
            c.is_some_and(|c| c.mean > self.plan.criteria[j].tolerance)
        };
        if (0..i).any(behind) {
            return false;
        }
        // What was cut off itself cannot be shown to be better by any number of rounds.
        let c = self.by_criterion(i, config, self.base).filter(|c| !c.at_least);
        c.is_some_and(|c| !c.no_better(self.plan.criteria[i].tolerance))
    }

    /// Was everything measured under this configuration that counts?
    pub fn complete(&self, config: usize) -> bool {
        self.choice.reasons[config] != ChoiceReason::Incomplete
    }

    /// Is it as good as the present one in everything measured, by what counts and by what differs?
    pub fn alike(&self, config: usize) -> bool {
        let within = |i: usize| {
            let c = self.by_criterion(i, config, self.base);
            c.is_some_and(|c| {
                (c.at_least && c.at_most) || c.no_worse(self.plan.criteria[i].tolerance)
            })
        };
        self.complete(config)
            && self.places(config, Verdict::Better).is_empty()
            && self.places(config, Verdict::Worse).is_empty()
            && (0..self.plan.criteria.len()).all(within)
    }

    /// Where a configuration breaks a limit on latency worst: workload and mean, ms.
    pub fn worst(&self, config: usize) -> Option<(&Quantity, Bounded)> {
        let below = self.plan.limits.iter().find(|l| matches!(l.limit, Limit::Below(_)))?;
        let told = below.aspects.iter().flat_map(|&a| self.field.told(a));
        let means = told.filter_map(|q| Some((q, q.mean(config)?)));
        means.max_by(|a, b| a.1.value.total_cmp(&b.1.value))
    }

    /// Does nothing measured differ from the present one, either way?
    fn all_alike(&self) -> bool {
        let others = (0..self.field.configs.len()).filter(|&c| c != self.base && self.complete(c));
        others.into_iter().all(|c| self.alike(c))
    }

    /// What a configuration keeps of what a limit is about: a part, or for a limit on latency milliseconds.
    pub fn kept(&self, config: usize, limit: usize) -> f64 {
        let all: Vec<usize> = (0..self.plan.rounds).collect();
        let complete: Vec<usize> =
            (0..self.field.configs.len()).filter(|&c| self.plan.complete(c)).collect();
        let scores = &self.plan.limits[limit];
        let excess = scores.excess(config, &complete, &all);
        match scores.limit {
            Limit::Keeps { part, .. } | Limit::Others { part } => part * libm::exp(-excess),
            Limit::Below(ns) => ns as f64 / 1e6 * libm::exp(excess),
        }
    }

    /// Configurations that the goal does without although somebody waits half as long under them, or less, than under
    /// what it takes.
    pub fn gains_a_lot(&self) -> Vec<usize> {
        let Some(taken) = self.answer.config() else { return Vec::new() };
        let halved = |&c: &usize| {
            let waits = Aspect::ALL.into_iter().filter(|a| a.is_wait());
            let better = |aspect: Aspect| self.field.compare(c, taken, &[aspect]);
            waits.filter_map(better).any(|x| {
                x.verdict(self.plan.margin) == Verdict::Better && x.mean < -core::f64::consts::LN_2
            })
        };
        let ruled_out = |&c: &usize| {
            matches!(self.choice.reasons[c], ChoiceReason::Limit(_) | ChoiceReason::Criterion(_))
        };
        (0..self.field.configs.len()).filter(ruled_out).filter(halved).collect()
    }

    /// Limits of which it is not told yet whether the choice keeps them.
    pub fn doubts(&self) -> Vec<&Limit> {
        let Some(chosen) = self.choice.config else { return Vec::new() };
        let all: Vec<usize> = (0..self.plan.rounds).collect();
        let complete: Vec<usize> =
            (0..self.field.configs.len()).filter(|&c| self.plan.complete(c)).collect();
        let open = |l: &&super::choose::LimitScores| {
            let safe = match l.limit {
                Limit::Below(_) => true,
                Limit::Keeps { .. } => l.best(&complete, self.plan.rounds) == Some(chosen),
                Limit::Others { .. } => chosen == self.base,
            };
            !safe && l.excess(chosen, &complete, &all) > -l.leeway[chosen]
        };
        self.plan.limits.iter().filter(open).map(|l| &l.limit).collect()
    }

    /// Runs that count here and left the processors no rest.
    pub fn processor_bound(&self) -> Vec<&Strain> {
        let counts = self.plan.criteria.iter().flat_map(|c| &c.aspects);
        let counts = counts.chain(self.plan.limits.iter().flat_map(|l| &l.aspects));
        let counts: Vec<Aspect> = counts.copied().collect();
        let here = |strain: &&Strain| {
            let config = self.field.configs.iter().position(|c| *c == strain.config);
            let told = |q: &&Quantity| q.place == strain.place && counts.contains(&q.aspect);
            strain.is_bound()
                && config.is_some_and(|c| self.complete(c))
                && self.field.quantities.iter().any(|q| told(&q))
        };
        self.field.strains.iter().filter(here).collect()
    }

    /// What decisions would cost, where the runs took no time for them.
    pub fn decisions(&self) -> Option<Decisions> {
        let most = self.field.trials.iter().map(|t| t.commands).max().unwrap_or(0);
        let measured = (0..self.installs.len()).filter(|&c| self.complete(c));
        let of = || Decisions::of(most, measured.map(|c| &self.installs[c]));
        self.field.identity.is_simulated().then(of)
    }

    /// Would the processor time of decisions speak against the choice, which was not measured?
    pub fn decisions_doubt(&self) -> bool {
        let scheduler = self.choice.config.and_then(|c| self.installs[c].scheduler());
        self.choice.config.is_some() && self.decisions().is_some_and(|d| d.speak_against(scheduler))
    }

    /// Waits that are compared although the emulated drive did not keep up, with how many times they differ.
    pub fn coarse(&self) -> Vec<(&Quantity, f64)> {
        let counts = self.goal.aspects();
        let strains = &self.field.strains;
        let hidden =
            |q: &&Quantity| strains.iter().any(|s| s.place == q.place && s.hides_the_drive());
        let here = |q: &&Quantity| self.field.identity.emulated && counts.contains(&q.aspect);
        let all = self.field.quantities.iter().filter(here).filter(hidden);
        all.map(|q| (q, q.spread())).collect()
    }

    /// What this goal is about and was not judged, since it tells of the machine that emulates the drive.
    pub fn not_judged(&self) -> Vec<&Quantity> {
        let counts = self.goal.aspects();
        self.field.set_aside.iter().filter(|q| counts.contains(&q.aspect)).collect()
    }

    /// Limits of the goal of which everything was set aside.
    pub fn open_limits(&self) -> Vec<&Limit> {
        let judged = |limit: &Limit| self.plan.limits.iter().any(|l| l.limit == *limit);
        let lost = |limit: &Limit| match limit {
            Limit::Keeps { aspect, .. } => self.field.lost(*aspect),
            Limit::Below(_) => self.goal.needs().iter().any(|&a| self.field.lost(a)),
            Limit::Others { .. } => self.field.lost(Aspect::Beside),
        };
        self.goal.limits.iter().filter(|l| !judged(l) && lost(l)).collect()
    }

    /// Writes were throttled on the machine (in most they are), and not in what everything is compared with: a wait
    /// beside writers is longer there than it would be.
    pub fn lacks_throttling(&self) -> bool {
        let throttles = self.installs[self.base].throttles();
        let on = self.field.identity.present_wbt() == Some(true);
        self.base_is != BaseIs::Asked && self.field.wrote() && on && !throttles
    }

    /// What is recommended is in force already.
    pub fn is_in_force(&self, config: usize) -> bool {
        config == self.base && matches!(self.base_is, BaseIs::Present | BaseIs::Like(_))
    }

    fn sureness(&self) -> Sureness {
        let drawn = match self.same() {
            s if s >= SURE => Sureness::Sure,
            s if s >= LIKELY => Sureness::Likely,
            _ => Sureness::Doubtful,
        };
        let warned = !self.field.warnings.is_empty()
            || !self.doubts().is_empty()
            || !self.hangs_by.is_empty()
            || !self.coarse().is_empty()
            || !self.processor_bound().is_empty()
            || self.lacks_throttling()
            || self.decisions_doubt()
            || !self.not_judged().is_empty();
        match (&self.answer, drawn) {
            (Recommendation::NotEnough { .. } | Recommendation::Processors, _) => {
                Sureness::Doubtful
            }
            (_, Sureness::Sure) if warned => Sureness::Likely,
            (_, Sureness::Likely) if warned => Sureness::Doubtful,
            (_, drawn) => drawn,
        }
    }
}

/// The choice without the chosen one, and why that one was not it.
fn runner_up(plan: &PreparedGoal, choice: &Choice) -> Option<(usize, ChoiceReason)> {
    let chosen = choice.config?;
    let rounds: Vec<usize> = (0..plan.rounds).collect();
    let second = plan.choose(&rounds, &[chosen]).config?;
    Some((second, choice.reasons[second]))
}

/// The configuration to compare with, and why that one.
fn base(
    field: &Field,
    plan: &PreparedGoal,
    installs: &[Install],
    present: Option<&str>,
) -> Result<(usize, BaseIs), GoalError> {
    let complete = |&c: &usize| plan.complete(c);
    if let Some(name) = present {
        let named = field.configs.iter().position(|c| c == name);
        return match named {
            Some(c) if plan.complete(c) => Ok((c, BaseIs::Asked)),
            Some(_) => {
                Err(GoalError(format!("{name} was not measured in everything that counts here")))
            }
            None => Err(GoalError(format!(
                "the runs have no configuration '{name}'; there are: {}",
                field.configs.join(", ")
            ))),
        };
    }
    let all = || (0..installs.len()).filter(complete);
    let simplest = all().min_by_key(|&c| (plan.ranks[c], c)).unwrap_or(0);
    let identity = &field.identity;
    let Some(present) = identity.present() else { return Ok((simplest, BaseIs::Unknown)) };
    if let Some(c) = all().find(|&c| field.configs[c] == present) {
        return Ok((c, BaseIs::Present));
    }
    // Without settings of its own: a scheduler as it is when chosen.
    let wbt = identity.present_wbt().unwrap_or(false);
    let plain = |wbt: bool| {
        let scheduler = identity.present_scheduler.as_deref()?;
        all().find(|&c| installs[c].is_plain(scheduler, wbt))
    };
    Ok(match (plain(wbt), plain(!wbt)) {
        (Some(c), _) => (c, BaseIs::Present),
        (None, Some(c)) if !field.wrote() => (c, BaseIs::Like(present)),
        (None, Some(c)) => (c, BaseIs::NotMeasured(present)),
        (None, None) => (simplest, BaseIs::NotMeasured(present)),
    })
}

fn lacking(field: &Field, goal: &Goal) -> GoalError {
    let mut told: Vec<&str> = Vec::new();
    for q in &field.quantities {
        if !told.contains(&q.aspect.words()) {
            told.push(q.aspect.words());
        }
    }
    if field.quantities.is_empty() && !field.overloaded.is_empty() {
        return GoalError(format!(
            "{} cannot carry {} under any of these configurations, and how far it falls behind tells nothing; replay \
             slower (--speed 0.5) or one after another (--closed), or choose another drive",
            field.identity.name(),
            field.overloaded.join(", ")
        ));
    }
    let needs: Vec<&str> = goal.needs().iter().map(|a| a.words()).collect();
    let told = if told.is_empty() {
        "nothing that configurations are compared by".into()
    } else {
        told.join(", ")
    };
    GoalError(format!(
        "goal {} is about {}, and the runs on {} tell {told}; choose another goal ({}) or add runs",
        goal.name,
        needs.join(" and "),
        field.identity.name(),
        goal::GOALS.join(", ")
    ))
}

impl Advice {
    /// Was it measured on the kernel's own schedulers?
    pub fn is_kernel(&self) -> bool {
        self.field.identity.world == KERNEL
    }

    /// The lines that install a configuration on this machine, and their undo.
    pub fn lines(&self, config: usize, by: install::Match) -> install::Lines {
        let mut lines = self.installs[config].lines(&self.field.identity, by, &self.tried());
        let made_from = self.evidence(config);
        lines.files.iter_mut().for_each(|file| file.text.insert_str(0, &made_from));
        lines
    }

    /// What a configuration is installed for: comments at the head of each file.
    fn evidence(&self, config: usize) -> String {
        let (field, id) = (&self.field, &self.field.identity);
        let name = |c: usize| install::pattern(&field.configs[c]);
        let against = match config == self.base {
            true => String::new(),
            false => format!(" instead of {}", name(self.base)),
        };
        let sure = format!("{} ({:.0} % of draws)", self.sureness.word(), 100.0 * self.same());
        let places: BTreeSet<&str> = field.quantities.iter().map(|q| q.place.as_str()).collect();
        let list = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut from = format!(
            "{} of {}",
            counted(self.plan.rounds, field.unit.noun()),
            counted(places.len(), "workload")
        );
        from += &match (id.world.as_str(), &id.kernel) {
            (SIMULATOR, _) => ", simulated".to_string(),
            (KERNEL, Some(kernel)) => format!(", Linux {}", install::pattern(kernel)),
            (world, _) => format!(", world {}", install::pattern(world)),
        };
        from += &format!(", by hoistway {}", list(&field.made.versions));
        if !field.made.days.is_empty() {
            from += &format!(", on {}", list(&field.made.days));
        }
        format!(
            "# Made by hoistway {} for goal {}: {}{against}, {sure}.\n# Measured: {from}.\n",
            env!("CARGO_PKG_VERSION"),
            install::pattern(&self.goal.name),
            name(config),
        )
    }

    /// Why a configuration is not to be installed for good; `None`: it is.
    pub fn not_for_good(&self) -> Option<String> {
        let sure = format!("{} ({:.0} % of draws)", self.sureness.word(), 100.0 * self.same());
        match self.answer.config() {
            None => Some("there is no answer".into()),
            Some(_) if self.sureness < RULES => Some(format!(
                "the answer is {sure}, and a rule for every boot needs one that is {}",
                RULES.word()
            )),
            Some(_) => None,
        }
    }

    /// What the runs that count here had in them.
    fn tried(&self) -> Tried {
        let counts = self.goal.aspects();
        let here = |t: &&Trial| {
            let told = |q: &Quantity| q.place == t.place && counts.contains(&q.aspect);
            self.field.quantities.iter().any(told)
        };
        let trials: Vec<&Trial> = self.field.trials.iter().filter(here).collect();
        // Of groups by weight tells who was measured by what he gets of his share.
        let shared = counts.contains(&Aspect::Share);
        let weights = trials.iter().filter(|_| shared).flat_map(|t| t.weights.iter().cloned());
        let weights: Weights = weights.collect();
        Tried {
            wrote: self.field.wrote(),
            target: trials.iter().any(|t| t.target),
            weights: install::by_weight(&weights),
        }
    }
}
