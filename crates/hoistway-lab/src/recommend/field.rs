//! From run directories to one table per drive: what every configuration scores in every round.
//!
//! A round is a repetition: the same seeds, or the same turn of an interleaved bench, under every
//! configuration. Runs of several experiments on the same drive stand side by side; their rounds belong
//! together by number. What a workload tells is its kind's ([`Aspect`]); a target alone on the drive
//! (`alone`) tells nothing of configurations.
//!
//! Where the processors were busy all the time, they were the limit. Of a real drive that counts: the person asks about this
//! machine, which has these processors, and what a scheduler costs of them is a reason for or against it. An emulated drive
//! is acted out by the same processors, which a real one would not take. Where it did not keep up, the workload is *set
//! aside* for all configurations, shown with its mark and not compared, since a comparison needs both sides and a choice
//! all of them.
//! Whether it kept up says the emulator itself, by how much later than its model it answered ([`LATE_MAX`]); only where it
//! does not tell is it taken from the processors. A wait that differs by more than any of that can explain is compared
//! all the same.

use super::compare::{Score, ScoreDifference};
use super::goal::Aspect;
use super::identity::{Identity, is_plain};
use crate::experiment::Weights;
use crate::result::control::alone_workload;
use crate::result::replayed;
use crate::result::share::Shares;
use crate::result::{Cell, Judge, Kind, Manifest, Rep, Run, WorkloadInfo, rep_value, target};
use crate::stats::{Bound, Bounded, Percentile, sum};
use hoistway::Nanos;
use std::collections::BTreeSet;

/// Name of the figure of a run that tells the processor time per request, nanoseconds.
pub const PROCESSOR_FIGURE: &str = "machine_cpu_ns_per_request";

/// Names of the figures that tell what the processors did: busy and idle, nanoseconds of all of them.
const BUSY_FIGURES: [&str; 2] = ["machine_cpu_ns", "machine_idle_ns"];

/// More than this part of the processors' time busy: they are the limit (as the conditions of a run on the kernel have it).
pub const BUSY_MAX: f64 = 0.9;

/// Names of the figures that tell how late an emulated drive was: its time by the model and what came on top, ns.
const LATE_FIGURES: [&str; 2] = ["drive_modelled_ns", "drive_late_ns"];

/// An emulated drive that is later than this, as a part of its time by the model, is another drive (as the conditions
/// of a run on the kernel have it). A fifth of a wait is what goals take for the same.
pub const LATE_MAX: f64 = 0.2;

/// A wait on an emulated drive that did not keep up is taken to be wrong by less than this, times how long the drive
/// took over its model: waits that differ by more do so for another reason.
const DISTORTION: f64 = 10.0;
/// The same where the emulator does not tell how late it was.
const UNTOLD: f64 = 9.0;

/// Half a run has at least so many intervals of the throughput's series.
const HALF_MIN: usize = 2;

/// A run and where it was read.
#[derive(Clone, Debug)]
pub struct RunSource {
    /// The directory, as given.
    pub name: String,
    /// What it holds.
    pub run: Run,
}

/// One thing that one workload tells, of every configuration.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Experiment and workload, such as `latency-2019/readers`.
    pub place: String,
    /// What it is.
    pub aspect: Aspect,
    /// Values by configuration and round, in the unit of `metrics.csv`; `None`: not measured.
    pub values: Vec<Option<Vec<Bounded>>>,
    /// The same of the first and the second half of each run; empty: the runs do not tell.
    pub halves: [Vec<Option<Vec<Bounded>>>; 2],
}

/// What the machine had to do in one workload under one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Strain {
    /// Experiment and workload.
    pub place: String,
    /// The configuration.
    pub config: String,
    /// Part of the processors' time that they were busy, mean over the rounds; `None`: the runs do not tell.
    pub busy: Option<f64>,
    /// How much later than its model an emulated drive answered, as a part of the model's time.
    pub late: Option<f64>,
}

/// Everything known of one drive.
#[derive(Clone, Debug)]
pub struct Field {
    /// The drive and the machine.
    pub identity: Identity,
    /// Where it comes from.
    pub sources: Vec<String>,
    /// Configurations in the order of the runs.
    pub configs: Vec<String>,
    /// Everything told.
    pub quantities: Vec<Quantity>,
    /// What tells of the processors that emulate the drive, and is not compared.
    pub set_aside: Vec<Quantity>,
    /// What the runs warn of, with the runs that do.
    pub warnings: Vec<(String, Vec<String>)>,
    /// What the machine had to do, of runs that tell.
    pub strains: Vec<Strain>,
    /// What the workloads had in them.
    pub trials: Vec<Trial>,
    /// What a round is: a machine, where many are put together.
    pub unit: Unit,
    /// What the runs were made by, with and when.
    pub made: Made,
    /// Replayed traces that the drive cannot carry under any configuration: how far it falls behind tells nothing.
    pub overloaded: Vec<String>,
}

/// What the rounds of a field are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Rounds of runs.
    #[default]
    Round,
    /// Machines.
    Machine,
}

/// What runs were made by, with and when, each sorted. As they tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Versions of hoistway.
    pub versions: BTreeSet<String>,
    /// Days; none of runs that tell none, as those of the simulator, which are the same every day.
    pub days: BTreeSet<String>,
    /// The commands that repeat the runs: of a bench one, else one for each run.
    pub commands: BTreeSet<String>,
}

/// What a workload had in it that not every workload has.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Experiment and workload.
    pub place: String,
    /// Somebody wrote.
    pub wrote: bool,
    /// Somebody was measured beside the others.
    pub target: bool,
    /// Weights by process.
    pub weights: Weights,
    /// Commands of the device per second, of the run that had most.
    pub commands: u64,
    /// How long it was measured at least; `None`: it ends by itself.
    pub measured: Option<Nanos>,
}

impl Unit {
    /// Its noun.
    pub fn noun(self) -> &'static str {
        match self {
            Unit::Round => "round",
            Unit::Machine => "machine",
        }
    }
}

impl Made {
    fn add(&mut self, manifest: &Manifest) {
        let row = |name: &str| manifest.machine.iter().find(|r| r.0 == name).map(|r| r.1.clone());
        self.versions.extend(Some(manifest.version.clone()).filter(|v| is_plain(v)));
        self.days.extend(row("date").filter(|day| is_plain(day)));
        let command = row("bench_command").unwrap_or_else(|| manifest.command.clone());
        self.commands.extend(Some(command).filter(|c| is_command(c)));
    }

    /// Together with others.
    pub(crate) fn extend(&mut self, others: &Made) {
        self.versions.extend(others.versions.iter().cloned());
        self.days.extend(others.days.iter().cloned());
        self.commands.extend(others.commands.iter().cloned());
    }
}

/// A command of this program that may be shown to be run: it may have come with the run of somebody else, and is no
/// other one however it is read.
fn is_command(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._-+:=,/{}'%~".contains(c);
    text.starts_with("hoistway ") && text.chars().all(plain)
}

impl Strain {
    /// Had the processors no rest?
    pub fn is_bound(&self) -> bool {
        self.busy.is_some_and(|busy| busy > BUSY_MAX)
    }

    /// Was the emulated drive too late to be that drive?
    pub fn is_late(&self) -> bool {
        self.late.is_some_and(|late| late > LATE_MAX)
    }

    /// Does it say nothing of an emulated drive? Where the emulator tells how late it was, that says whether it kept
    /// up; where it does not, processors without rest may not have.
    pub fn hides_the_drive(&self) -> bool {
        if self.late.is_some() { self.is_late() } else { self.is_bound() }
    }

    /// So many times what it was may a wait have been here on the drive itself, either way.
    fn distortion(&self) -> f64 {
        DISTORTION * (1.0 + self.late.unwrap_or(UNTOLD))
    }
}

impl Quantity {
    /// Scores by round of a configuration; `None`: not measured.
    pub fn scores(&self, config: usize) -> Option<Vec<Score>> {
        let values = self.values[config].as_ref()?;
        values.iter().map(|&v| score(self.aspect, v)).collect()
    }

    /// Two configurations beside each other here.
    pub fn compare(&self, ours: usize, theirs: usize) -> Option<ScoreDifference> {
        ScoreDifference::of(&self.scores(ours)?, &self.scores(theirs)?)
    }

    /// The largest of the configurations' means over the smallest.
    pub fn spread(&self) -> f64 {
        let means = (0..self.values.len()).filter_map(|c| Some(self.mean(c)?.value));
        let (low, high) =
            means.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        if low > 0.0 && low.is_finite() { high / low } else { 1.0 }
    }

    /// Mean over the rounds.
    pub fn mean(&self, config: usize) -> Option<Bounded> {
        Bounded::mean(self.values[config].as_ref()?)
    }
}

/// The score of a value; `None` of what has no logarithm.
fn score(aspect: Aspect, v: Bounded) -> Option<Score> {
    let value = match aspect {
        a if a.is_part() => v.value,
        _ if v.value <= 0.0 => return None,
        a if a.rises() => -libm::log(v.value),
        _ => libm::log(v.value),
    };
    value.is_finite().then_some(Score { value, at_least: v.bound != Bound::Exact })
}

/// Of a replay: its repetitions have one load.
const ONE_TRACE: &str = "one recorded load was replayed: repetitions vary the drive alone, and how much the load varies \
                         from day to day is not known";

impl Field {
    /// The fields of all runs, one per drive, in the order of first appearance.
    pub fn of(sources: &[RunSource]) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for source in sources {
            for drive in &source.run.manifest.drives {
                let identity = Identity::of(&source.run.manifest, drive);
                let at = fields.iter().position(|f| f.identity.key() == identity.key());
                let at = at.unwrap_or_else(|| {
                    fields.push(Field::empty(identity));
                    fields.len() - 1
                });
                fields[at].add(source, &drive.id);
            }
        }
        fields.iter_mut().for_each(Field::align);
        fields.iter_mut().for_each(Field::set_aside);
        fields
    }

    fn empty(identity: Identity) -> Field {
        Field {
            identity,
            sources: Vec::new(),
            configs: Vec::new(),
            quantities: Vec::new(),
            set_aside: Vec::new(),
            warnings: Vec::new(),
            strains: Vec::new(),
            trials: Vec::new(),
            unit: Unit::Round,
            made: Made::default(),
            overloaded: Vec::new(),
        }
    }

    fn add(&mut self, source: &RunSource, drive: &str) {
        let manifest = &source.run.manifest;
        self.sources.push(source.name.clone());
        for config in &manifest.configs {
            if !self.configs.contains(&config.id) {
                self.configs.push(config.id.clone());
            }
        }
        for (_, text) in manifest.machine.iter().filter(|(name, _)| name == "warning") {
            self.warn(text, std::slice::from_ref(&source.name));
        }
        self.made.add(manifest);
        let replayed = manifest.host.iter().any(|(name, _)| name == "trace.records");
        if replayed {
            self.warn(ONE_TRACE, std::slice::from_ref(&source.name));
        }
        for workload in &manifest.workloads {
            let here = |c: &&Cell| (c.drive.as_str(), &c.workload) == (drive, &workload.id);
            let cells: Vec<&Cell> = source.run.cells.iter().filter(here).collect();
            if replayed && cells.iter().all(|cell| replayed::overloaded(cell)) {
                self.overloaded.push(workload.id.clone());
                continue;
            }
            let Some(kind) = kind_of(manifest, workload, &cells) else { continue };
            for aspect in Aspect::ALL.into_iter().filter(|a| a.of(kind)) {
                self.quantities.extend(self.quantity(manifest, workload, &cells, aspect));
            }
            let place = || format!("{}/{}", manifest.experiment, workload.id);
            let reps = || cells.iter().flat_map(|c| &c.reps);
            self.trials.push(Trial {
                place: place(),
                wrote: reps().any(|r| r.device.written_bytes > 0),
                target: reps().any(|r| target(r).is_some()),
                weights: workload.weights.clone(),
                commands: reps().map(commands).max().unwrap_or(0),
                measured: reps().map(|r| r.measured).min().filter(|_| kind != Kind::Startup),
            });
            self.strains.extend(cells.iter().filter_map(|cell| {
                let (busy, late) = (busy_share(&cell.reps), late_share(&cell.reps));
                let config = cell.config.clone();
                (busy.is_some() || late.is_some()).then(|| Strain {
                    place: place(),
                    config,
                    busy,
                    late,
                })
            }));
        }
    }

    /// Notes a warning; one that several runs have is one.
    pub(crate) fn warn(&mut self, text: &str, runs: &[String]) {
        let at = self.warnings.iter().position(|w| w.0 == text).unwrap_or_else(|| {
            self.warnings.push((text.to_string(), Vec::new()));
            self.warnings.len() - 1
        });
        for run in runs.iter().filter(|r| !self.warnings[at].1.contains(r)).collect::<Vec<_>>() {
            self.warnings[at].1.push(run.clone());
        }
    }

    /// What a workload's cells tell; `None`: nothing.
    fn quantity(
        &self,
        manifest: &Manifest,
        workload: &WorkloadInfo,
        cells: &[&Cell],
        aspect: Aspect,
    ) -> Option<Quantity> {
        let seeds = common_seeds(cells);
        let mut values: Vec<Option<Vec<Bounded>>> = vec![None; self.configs.len()];
        let mut halves = [values.clone(), values.clone()];
        for cell in cells {
            let at = self.configs.iter().position(|c| *c == cell.config)?;
            let reps = cell.reps.iter().filter(|r| seeds.contains(&r.seed));
            let each = reps.map(|rep| value(aspect, manifest, workload, rep));
            values[at] = each.collect::<Option<Vec<_>>>().filter(|v| !v.is_empty());
            for (late, half) in [false, true].into_iter().zip(&mut halves) {
                let reps = cell.reps.iter().filter(|r| seeds.contains(&r.seed));
                let each = reps.map(|rep| half_of(aspect, rep, late));
                half[at] = each.collect::<Option<Vec<_>>>().filter(|v| !v.is_empty());
            }
        }
        // A half beside a whole compares nothing.
        let told = |half: &Vec<Option<Vec<Bounded>>>| {
            half.iter().zip(&values).all(|(h, v)| h.is_some() == v.is_some())
        };
        if !halves.iter().all(told) {
            halves = [Vec::new(), Vec::new()];
        }
        let tail = matches!(aspect, Aspect::InteractiveTail | Aspect::SyncTail);
        let whole = cells.len() == values.iter().flatten().count();
        let any = values.iter().any(Option::is_some);
        // Percentiles of some configurations beside means of others compare nothing.
        let useful = if tail { whole && any } else { any };
        let place = format!("{}/{}", manifest.experiment, workload.id);
        useful.then_some(Quantity { place, aspect, values, halves })
    }

    /// Quantities of runs that came before others lack the configurations that these brought.
    fn align(&mut self) {
        let configs = self.configs.len();
        for q in &mut self.quantities {
            q.values.resize(configs, None);
            q.halves.iter_mut().filter(|h| !h.is_empty()).for_each(|h| h.resize(configs, None));
        }
    }

    /// The same with the first or the second half of the runs, where they tell; `None`: nothing tells.
    pub fn half(&self, late: bool) -> Option<Field> {
        let mut field = self.clone();
        let mut told = false;
        for q in field.quantities.iter_mut().filter(|q| !q.halves[0].is_empty()) {
            told = true;
            q.values = q.halves[usize::from(late)].clone();
        }
        told.then_some(field)
    }

    /// The shortest time that any of the runs was measured that do not end by themselves.
    pub fn shortest(&self) -> Option<Nanos> {
        self.trials.iter().filter_map(|t| t.measured).min()
    }

    /// Takes out what tells nothing of an emulated drive. Processor time stays: it is theirs anyway. So does a wait that
    /// differs by more than processors can make of it.
    fn set_aside(&mut self) {
        if !self.identity.emulated {
            return;
        }
        let strains = &self.strains;
        let hidden = |place: &str| {
            let here = strains.iter().filter(|s| s.place == place && s.hides_the_drive());
            here.map(Strain::distortion).reduce(f64::max)
        };
        let tells = |q: &Quantity| match hidden(&q.place) {
            None => true,
            Some(_) if q.aspect == Aspect::Processor => true,
            Some(distortion) => q.aspect.is_wait() && q.spread() > distortion,
        };
        let all = std::mem::take(&mut self.quantities);
        let (kept, aside) = all.into_iter().partition(tells);
        (self.quantities, self.set_aside) = (kept, aside);
    }

    /// Did any run write?
    pub fn wrote(&self) -> bool {
        self.trials.iter().any(|t| t.wrote)
    }

    /// Was it told, and nothing of it may be compared?
    pub fn lost(&self, aspect: Aspect) -> bool {
        !self.has(aspect) && self.set_aside.iter().any(|q| q.aspect == aspect)
    }

    /// Is it told by any workload?
    pub fn has(&self, aspect: Aspect) -> bool {
        self.quantities.iter().any(|q| q.aspect == aspect)
    }

    /// The quantities of an aspect.
    pub fn told(&self, aspect: Aspect) -> impl Iterator<Item = &Quantity> {
        let has = move |place: &str| {
            self.quantities.iter().any(|q| q.aspect == aspect && q.place == place)
        };
        let tells = move |q: &&Quantity| {
            q.aspect == aspect || aspect.mean() == Some(q.aspect) && !has(&q.place)
        };
        self.quantities.iter().filter(tells)
    }

    /// Scores by round of a configuration: the mean over the aspects of the means over their workloads.
    /// `None` unless all of them were measured.
    pub fn scores(&self, config: usize, aspects: &[Aspect]) -> Option<Vec<Score>> {
        let of_aspect = |&aspect: &Aspect| -> Option<Vec<Score>> {
            let each: Option<Vec<_>> = self.told(aspect).map(|q| q.scores(config)).collect();
            mean_of(&each?)
        };
        let each: Option<Vec<_>> = aspects.iter().map(of_aspect).collect();
        mean_of(&each?)
    }

    /// Two configurations beside each other over these aspects.
    pub fn compare(
        &self,
        ours: usize,
        theirs: usize,
        aspects: &[Aspect],
    ) -> Option<ScoreDifference> {
        ScoreDifference::of(&self.scores(ours, aspects)?, &self.scores(theirs, aspects)?)
    }
}

/// Throughput of the first or the second half of a run; `None`: it has too few intervals, or ends by itself.
fn half_of(aspect: Aspect, rep: &Rep, late: bool) -> Option<Bounded> {
    if !matches!(aspect, Aspect::Throughput | Aspect::Beside | Aspect::Shared) {
        return None;
    }
    let all = &rep.device.intervals;
    let length = all.get(1)?.at.0 - all[0].at.0;
    let whole = usize::try_from(rep.measured.0 / length.max(1)).ok()?.min(all.len());
    let half = whole / 2;
    if half < HALF_MIN || rep.marks.iter().any(|m| m.text == "start") {
        return None;
    }
    let part = if late { &all[half..2 * half] } else { &all[..half] };
    let bytes: u64 = part.iter().map(|i| i.bytes).sum();
    let seconds = (length * half as u64) as f64 / 1e9;
    Some(Bounded::from(bytes as f64 / 1e6 / seconds))
}

/// Commands per second.
fn commands(rep: &Rep) -> u64 {
    let measured = u128::from(rep.measured.0.max(1));
    (u128::from(rep.device.commands) * 1_000_000_000 / measured) as u64
}

/// Part of the processors' time that was busy; `None`: the runs do not tell.
fn busy_share(reps: &[Rep]) -> Option<f64> {
    let [busy, idle] = totals(reps, BUSY_FIGURES)?;
    (busy + idle > 0.0).then(|| busy / (busy + idle))
}

/// How much later than its model an emulated drive was, as a part of the model's time; `None`: the runs do not tell.
fn late_share(reps: &[Rep]) -> Option<f64> {
    let [modelled, late] = totals(reps, LATE_FIGURES)?;
    (modelled > 0.0).then(|| late / modelled)
}

/// Figures of all repetitions together.
fn totals(reps: &[Rep], names: [&str; 2]) -> Option<[f64; 2]> {
    let all = |name: &str| -> Option<f64> {
        let of = |rep: &Rep| rep.figures.get(name).map(|value| value as f64);
        Some(sum(reps.iter().map(of).collect::<Option<Vec<_>>>()?))
    };
    Some([all(names[0])?, all(names[1])?])
}

/// Round by round. `None` of nothing.
fn mean_of(each: &[Vec<Score>]) -> Option<Vec<Score>> {
    let rounds = each.iter().map(Vec::len).min()?;
    let mean = |round: usize| Score {
        value: sum(each.iter().map(|s| s[round].value)) / each.len() as f64,
        at_least: each.iter().any(|s| s[round].at_least),
    };
    Some((0..rounds).map(mean).collect())
}

/// What a workload stands for: what its experiment says, or what it is judged by.
fn kind_of(manifest: &Manifest, workload: &WorkloadInfo, cells: &[&Cell]) -> Option<Kind> {
    alone_workload(&workload.id)?;
    let judged = || Kind::of_judge(Judge::of(manifest, cells.iter().copied()));
    workload.kind.or_else(judged)
}

/// Seeds that every cell has, in the order of the first.
fn common_seeds(cells: &[&Cell]) -> Vec<u64> {
    let Some(first) = cells.first() else { return Vec::new() };
    let everywhere = |seed: &u64| cells.iter().all(|c| c.reps.iter().any(|r| r.seed == *seed));
    first.reps.iter().map(|r| r.seed).filter(everywhere).collect()
}

/// The value of a repetition.
fn value(
    aspect: Aspect,
    manifest: &Manifest,
    workload: &WorkloadInfo,
    rep: &Rep,
) -> Option<Bounded> {
    match aspect {
        Aspect::Startup => rep_value(rep, "startup_time"),
        Aspect::Interactive | Aspect::Sync => rep_value(rep, "latency_avg"),
        Aspect::InteractiveTail | Aspect::SyncTail => {
            let target = target(rep)?;
            let cut: Vec<_> = target.censored.into_iter().collect();
            let p99 = Percentile::find("p99").expect("p99 is one of them");
            p99.of(&target.latency, &cut).map(|ns| Bounded::from(ns as f64 / 1e6))
        }
        Aspect::Throughput | Aspect::Beside | Aspect::Shared => rep_value(rep, "throughput_total"),
        Aspect::Share => {
            let shares = Shares::of(manifest, workload, std::slice::from_ref(rep))?;
            shares.worst_met().map(|met| Bounded::from(1.0 - met.min(1.0)))
        }
        Aspect::Processor => {
            rep.figures.get(PROCESSOR_FIGURE).map(|value| Bounded::from(value as f64))
        }
    }
}
