//! The machines of one class or one model of drives together.

use super::{MACHINES_MIN, Machine, MergeError};
use crate::recommend::choose::ChoiceReason;
use crate::recommend::compare::Verdict;
use crate::recommend::field::{Made, Quantity, Unit};
use crate::recommend::{Advice, Field, Goal, Identity};
use crate::stats::{Bound, Bounded, sum};
use crate::words::counted;
use std::collections::{BTreeMap, BTreeSet};

/// What the drives of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// Their class.
    Class(String),
    /// Their model.
    Model(String),
}

/// The machines of a class or a model.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they have in common.
    pub of: Of,
    /// Which they are.
    pub machines: Vec<usize>,
    /// Machines that lack a configuration that most have: which, and what.
    pub left_out: Vec<(usize, String)>,
    /// Kernels, sorted.
    pub kernels: Vec<String>,
    /// Models, sorted.
    pub models: Vec<String>,
    /// What they come to; `None`: too few, see `lack`.
    pub advice: Option<Advice>,
    /// Why there is no evidence.
    pub lack: Option<String>,
    /// By configuration: on how many machines it is surely better or worse than the one compared with.
    pub tallies: Vec<Tally>,
}

/// Machines by their own verdict on a configuration, by the goal's first criterion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Surely better.
    pub better: u32,
    /// Surely worse.
    pub worse: u32,
    /// Neither.
    pub neither: u32,
    /// It breaks a limit of the goal there.
    pub ruled_out: u32,
}

/// All groups, classes first.
pub(super) fn of(
    machines: &[Machine],
    goal: &Goal,
    against: Option<&str>,
) -> Result<Vec<Group>, MergeError> {
    let mut members: BTreeMap<Of, Vec<usize>> = BTreeMap::new();
    for (i, machine) in machines.iter().enumerate() {
        let class = machine.identity.class.clone().unwrap_or_else(|| "unknown".into());
        members.entry(Of::Class(class)).or_default().push(i);
        members.entry(Of::Model(machine.identity.name())).or_default().push(i);
    }
    members.into_iter().map(|(of, all)| Group::new(of, all, machines, goal, against)).collect()
}

impl Group {
    fn new(
        of: Of,
        all: Vec<usize>,
        machines: &[Machine],
        goal: &Goal,
        against: Option<&str>,
    ) -> Result<Group, MergeError> {
        let texts = |get: &dyn Fn(&Identity) -> Option<String>| -> Vec<String> {
            let set: BTreeSet<String> =
                all.iter().filter_map(|&m| get(&machines[m].identity)).collect();
            set.into_iter().collect()
        };
        let kernels = texts(&|i| i.kernel.clone());
        let models = texts(&|i| Some(i.name()));
        let (configs, kept, left_out) = common(&all, machines);
        let mut group = Group {
            of,
            machines: kept,
            left_out,
            kernels,
            models,
            advice: None,
            lack: None,
            tallies: Vec::new(),
        };
        if group.machines.len() < MACHINES_MIN {
            let n = group.machines.len();
            group.lack = Some(format!("{n} of at least {MACHINES_MIN} machines"));
            return Ok(group);
        }
        let field = group.field(machines, &configs);
        match Advice::of(field, goal, against) {
            Ok(advice) => {
                group.tallies = group.tally(machines, goal, &advice);
                group.advice = Some(advice);
            }
            Err(e) => return Err(MergeError(format!("{}: {e}", group.name()))),
        }
        Ok(group)
    }

    /// In words.
    pub fn name(&self) -> String {
        match &self.of {
            Of::Class(class) => format!("class {class}"),
            Of::Model(model) => model.clone(),
        }
    }

    /// Does it get a rule of its own? A class with an answer; a model whose answer is another than its class's.
    pub fn is_default(&self, all: &[Group]) -> bool {
        let answer = |g: &Group| {
            let advice = g.advice.as_ref()?;
            advice.answer.config().map(|c| advice.field.configs[c].clone())
        };
        let Some(own) = answer(self) else { return false };
        let classes = || {
            let class = |g: &&Group| matches!(g.of, Of::Class(_));
            all.iter()
                .filter(class)
                .filter(|g| self.machines.iter().all(|m| g.machines.contains(m)))
        };
        match self.of {
            Of::Class(_) => true,
            Of::Model(_) => classes().all(|c| answer(c).as_ref() != Some(&own)),
        }
    }

    /// Why its answer gets no rule: it is not sure enough, or machines of the group rule it out.
    pub fn no_rule(&self) -> Option<String> {
        let advice = self.advice.as_ref()?;
        let config = advice.answer.config()?;
        let out = self.tallies.get(config).map_or(0, |t| t.ruled_out);
        let machines = counted(self.machines.len(), "machine");
        advice.not_for_good().or_else(|| {
            (out > 0).then(|| format!("{out} of {machines} rule it out by a limit of the goal"))
        })
    }

    /// One field in which the rounds are machines.
    fn field(&self, machines: &[Machine], configs: &[String]) -> Field {
        let members: Vec<&Machine> = self.machines.iter().map(|&m| &machines[m]).collect();
        let mut quantities: Vec<Quantity> = Vec::new();
        for quantity in members.iter().flat_map(|m| &m.fields).flat_map(|f| &f.quantities) {
            let known = |q: &Quantity| (&q.place, q.aspect) == (&quantity.place, quantity.aspect);
            if quantities.iter().any(known) {
                continue;
            }
            let column = |config: &String| -> Option<Vec<Bounded>> {
                members.iter().map(|m| pooled(m, quantity, config, configs)).collect()
            };
            let values: Vec<_> = configs.iter().map(column).collect();
            if values.iter().any(Option::is_some) {
                let (place, aspect) = (quantity.place.clone(), quantity.aspect);
                quantities.push(Quantity { place, aspect, values, halves: Default::default() });
            }
        }
        let mut field = Field {
            identity: self.identity(&members),
            sources: members.iter().flat_map(|m| m.benches.clone()).collect(),
            configs: configs.to_vec(),
            quantities,
            set_aside: self.set_aside(&members, configs.len()),
            warnings: Vec::new(),
            unit: Unit::Machine,
            overloaded: Vec::new(),
            made: Made::default(),
            trials: members.iter().flat_map(|m| &m.fields).flat_map(|f| f.trials.clone()).collect(),
            strains: members
                .iter()
                .flat_map(|m| &m.fields)
                .flat_map(|f| f.strains.clone())
                .collect(),
        };
        members.iter().flat_map(|m| &m.fields).for_each(|f| field.made.extend(&f.made));
        for (text, runs) in members.iter().flat_map(|m| &m.fields).flat_map(|f| &f.warnings) {
            field.warn(text, runs);
        }
        field
    }

    /// What any member could not compare; that there was something, not its values.
    fn set_aside(&self, members: &[&Machine], configs: usize) -> Vec<Quantity> {
        let mut all: Vec<Quantity> = Vec::new();
        for q in members.iter().flat_map(|m| &m.fields).flat_map(|f| &f.set_aside) {
            if !all.iter().any(|known| (&known.place, known.aspect) == (&q.place, q.aspect)) {
                let (place, aspect) = (q.place.clone(), q.aspect);
                let (values, halves) = (vec![None; configs], Default::default());
                all.push(Quantity { place, aspect, values, halves });
            }
        }
        all
    }

    /// What is common to all members.
    fn identity(&self, members: &[&Machine]) -> Identity {
        let first = &members[0].identity;
        let same = |get: &dyn Fn(&Identity) -> Option<String>| {
            let value = get(first)?;
            members.iter().all(|m| get(&m.identity).as_ref() == Some(&value)).then_some(value)
        };
        let rotational = first.rotational;
        let rotational =
            rotational.filter(|_| members.iter().all(|m| m.identity.rotational == rotational));
        Identity {
            world: first.world.clone(),
            drive: same(&|i| Some(i.drive.clone())).unwrap_or_default(),
            title: self.name(),
            model: same(&|i| i.model.clone()).filter(|_| matches!(self.of, Of::Model(_))),
            class: same(&|i| i.class.clone()),
            rotational,
            random_reads: members.iter().map(|m| m.identity.random_reads).min().flatten(),
            kernel: Some(self.kernels.join(", ")).filter(|k| !k.is_empty()),
            present_scheduler: usual(members, &|i| i.present_scheduler.as_deref()),
            present_config: usual(members, &|i| i.present_config.as_deref()),
            suite: same(&|i| i.suite.clone()),
            emulated: members.iter().any(|m| m.identity.emulated),
            cgroup: same(&|i| i.cgroup.clone()),
            ..Identity::default()
        }
    }

    fn tally(&self, machines: &[Machine], goal: &Goal, advice: &Advice) -> Vec<Tally> {
        let base = &advice.field.configs[advice.base];
        let Some(criterion) = advice.plan.criteria.first() else { return Vec::new() };
        let fields = || self.machines.iter().map(|&m| &machines[m].fields);
        // What each machine would be told by itself, in its first bench that tells.
        let told = |field: &Field| Advice::of(field.clone(), goal, Some(base)).ok();
        let own: Vec<Option<Advice>> = fields().map(|f| f.iter().find_map(told)).collect();
        let of = |config: &String| {
            let mut tally = Tally::default();
            for (fields, own) in fields().zip(&own) {
                let verdict = fields.iter().find_map(|f| {
                    let at = |name: &String| f.configs.iter().position(|c| c == name);
                    let c = f.compare(at(config)?, at(base)?, &criterion.aspects)?;
                    Some(c.verdict(libm::log1p(f.identity.margin())))
                });
                match verdict {
                    Some(Verdict::Better) => tally.better += 1,
                    Some(Verdict::Worse) => tally.worse += 1,
                    _ => tally.neither += 1,
                }
                let reason = own.as_ref().and_then(|a| {
                    let at = a.field.configs.iter().position(|c| c == config)?;
                    Some(a.choice.reasons[at])
                });
                tally.ruled_out += u32::from(matches!(reason, Some(ChoiceReason::Limit(_))));
            }
            tally
        };
        advice.field.configs.iter().map(of).collect()
    }
}

/// What most machines have; of as many, the first by name.
fn usual(members: &[&Machine], get: &dyn Fn(&Identity) -> Option<&str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for present in members.iter().filter_map(|m| get(&m.identity)) {
        *counts.entry(present).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|c| c.1 == most).map(|c| c.0.to_string())
}

/// Configurations that at least half of the machines have, the machines with a bench of all of them, and the others with
/// what they lack.
fn common(all: &[usize], machines: &[Machine]) -> (Vec<String>, Vec<usize>, Vec<(usize, String)>) {
    let has =
        |m: usize, config: &String| machines[m].fields.iter().any(|f| f.configs.contains(config));
    let mut configs: Vec<String> = Vec::new();
    for config in all.iter().flat_map(|&m| &machines[m].fields).flat_map(|f| &f.configs) {
        let n = all.iter().filter(|&&m| has(m, config)).count();
        if 2 * n >= all.len() && !configs.contains(config) {
            configs.push(config.clone());
        }
    }
    let lacking = |m: usize| {
        let none: Vec<String> = configs.iter().filter(|c| !has(m, c)).cloned().collect();
        match none.is_empty() {
            true => format!("has {} in no one bench", configs.join(", ")),
            false => format!("lacks {}", none.join(", ")),
        }
    };
    let whole = |&&m: &&usize| machines[m].fields.iter().any(|f| is_whole(f, &configs));
    let (kept, out): (Vec<usize>, Vec<usize>) = all.iter().partition(whole);
    let left_out = out.into_iter().map(|m| (m, lacking(m))).collect();
    (configs, kept, left_out)
}

/// Does a bench have all of them? Those of others are not put beside each other: a drive drifts from one to the next.
fn is_whole(field: &Field, configs: &[String]) -> bool {
    configs.iter().all(|c| field.configs.contains(c))
}

/// What a machine has of a quantity: the geometric mean over the rounds of all its benches that have these
/// configurations and the quantity; of parts, the mean.
fn pooled(
    machine: &Machine,
    quantity: &Quantity,
    config: &String,
    configs: &[String],
) -> Option<Bounded> {
    let mut values: Vec<Bounded> = Vec::new();
    for field in machine.fields.iter().filter(|f| is_whole(f, configs)) {
        let at = field.configs.iter().position(|c| c == config)?;
        let same = |q: &&Quantity| (&q.place, q.aspect) == (&quantity.place, quantity.aspect);
        let Some(found) = field.quantities.iter().find(same) else { continue };
        values.extend(found.values[at].as_ref()?);
    }
    if values.is_empty() {
        return None;
    }
    if quantity.aspect.is_part() || values.iter().any(|v| v.value <= 0.0) {
        return Bounded::mean(&values);
    }
    let logs = sum(values.iter().map(|v| libm::log(v.value))) / values.len() as f64;
    let cut = values.iter().any(|v| v.bound != Bound::Exact);
    let bound = if cut { Bound::Above } else { Bound::Exact };
    Some(Bounded { value: libm::exp(logs), bound })
}
