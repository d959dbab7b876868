//! The runs behind an answer: what each is, and what it measured.

use super::{OTHERS, SCHEDULER, WhatIfQuestion, is};
use crate::config::DEVICE;
use crate::run::{RunError, guarded, in_order};
use crate::world::{Sim, World};
use hoistway::{Instant, Nanos};
use hoistway_run::{GroupSpec, Histogram, JobError, Outcome, ProcRecord, Role, TargetRecord};
use hoistway_sim::world::Job;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a load is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The processes of a target alone on the drive, without control.
    Alone(usize),
    /// Under one of [`OTHERS`].
    Other(&'static str),
    /// Under the scheduler with the targets.
    Targets,
    /// The same with a fixed valve (units) and largest request (KiB).
    Fixed {
        /// Greedy work inside the drive.
        valve: u64,
        /// Largest greedy request.
        cut_kib: u64,
    },
    /// The same with other numbers: each target times so many thousandths.
    Scaled {
        /// Thousandths.
        permille: u64,
        /// Throughput gives way to them.
        strict: bool,
    },
}

impl Way {
    /// The configuration.
    pub fn config(&self, question: &WhatIfQuestion) -> String {
        match self {
            Way::Scaled { strict: true, .. } => format!("{SCHEDULER}{{strict=1}}"),
            Way::Scaled { .. } => SCHEDULER.into(),
            way => way.name(question),
        }
    }

    /// Its numbers are those of the targets times so many thousandths.
    pub fn permille(&self) -> u64 {
        if let Way::Scaled { permille, .. } = self { *permille } else { 1000 }
    }

    /// Its name in tables.
    pub fn name(&self, question: &WhatIfQuestion) -> String {
        match self {
            Way::Alone(n) => format!("{} alone", question.wanted[*n].name),
            Way::Other(config) => (*config).to_string(),
            Way::Targets if question.strict => format!("{SCHEDULER}{{strict=1}}"),
            Way::Targets => SCHEDULER.into(),
            Way::Fixed { valve, cut_kib } => format!("{SCHEDULER}{{valve={valve},cut={cut_kib}}}"),
            Way::Scaled { permille, .. } => {
                let of = |w: &super::Wanted| {
                    let target = w.target.map(|t| super::scaled(t, *permille));
                    super::Wanted { target, weight: None, ..w.clone() }.text()
                };
                let targets: Vec<_> = question.wanted.iter().map(of).collect();
                format!("{} {}", self.config(question), targets.join(" "))
            }
        }
    }
}

/// What a target's processes saw.
#[derive(Clone, Debug)]
pub struct Measured {
    /// 99th percentile; an I/O that did not end counts with the time it had waited.
    pub p99: Nanos,
    /// Mean of the same.
    pub mean: Nanos,
    /// I/Os.
    pub ios: u64,
    /// What they moved.
    pub bytes: u64,
    /// What they moved, MB/s.
    pub mb_s: f64,
}

/// One run, reduced.
#[derive(Clone, Debug)]
pub struct Point {
    /// What was run.
    pub way: Way,
    /// What the drive moved, MB/s.
    pub total: f64,
    /// What the processes without a target moved, MB/s.
    pub others: f64,
    /// By target; `None`: it had no I/O, or did not take part.
    pub targets: Vec<Option<Measured>>,
    /// What the scheduler says of the targets.
    pub states: Vec<TargetRecord>,
}

impl WhatIfQuestion {
    /// Runs each way on up to `threads` threads; in the order given.
    ///
    /// # Errors
    ///
    /// The first that cannot run, or that it was stopped.
    pub fn points(
        &self,
        ways: &[Way],
        threads: usize,
        stop: &AtomicBool,
        over: &(dyn Fn() + Sync),
    ) -> Result<Vec<Point>, RunError> {
        let interrupted = || RunError::Interrupted { kept: 0, total: ways.len() };
        let work = |n: usize| {
            let way = &ways[n];
            let name = || format!("{}/{}/{}", self.drive.id, way.name(self), self.workload);
            let point = guarded(name, || self.point(way, stop)).unwrap_or_else(Err);
            over();
            point
        };
        let points = in_order(ways.len(), threads, stop, &work);
        if stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        // A run is missing only behind one that failed, whose error comes first.
        points.into_iter().map(|point| point.unwrap_or_else(|| Err(interrupted()))).collect()
    }

    fn point(&self, way: &Way, stop: &AtomicBool) -> Result<Point, RunError> {
        let cell = || format!("{}/{}/{}", self.drive.id, way.name(self), self.workload);
        let outcome = self.job(way).and_then(|job| {
            let mut watch = |_: Instant| !stop.load(Ordering::Relaxed);
            Sim.run(&job, &mut watch)
        });
        match outcome {
            Ok(outcome) => Ok(self.reduce(way, &outcome)),
            Err(JobError::Interrupted) => Err(RunError::Interrupted { kept: 0, total: 1 }),
            Err(error) => Err(RunError::Job { cell: cell(), error }),
        }
    }

    /// What is run.
    pub fn job(&self, way: &Way) -> Result<Job<'_>, JobError> {
        match way {
            Way::Alone(n) => {
                let mut job = self.base(OTHERS[0])?;
                job.procs.retain(|p| is(p, &self.wanted[*n].name));
                Ok(job)
            }
            Way::Other(config) => {
                let mut job = self.base(config)?;
                if !job.control.controllers.is_empty() {
                    self.add_groups(&mut job, 1000);
                }
                Ok(job)
            }
            Way::Targets if self.strict => self.with_targets(&[("strict", 1)], 1000),
            Way::Targets => self.with_targets(&[], 1000),
            Way::Fixed { valve, cut_kib } => {
                self.with_targets(&[("valve", *valve), ("cut", *cut_kib)], 1000)
            }
            Way::Scaled { permille, strict } => {
                self.with_targets(&[("strict", u64::from(*strict))], *permille)
            }
        }
    }

    fn with_targets(&self, set: &[(&str, u64)], permille: u64) -> Result<Job<'_>, JobError> {
        let mut job = self.base(SCHEDULER)?;
        let set = set.iter().map(|(name, value)| ((*name).to_string(), *value));
        job.scheduler.set.extend(set);
        self.add_groups(&mut job, permille);
        Ok(job)
    }

    /// A group for each target, one for each other process.
    fn add_groups(&self, job: &mut Job<'_>, permille: u64) {
        let latency = |n: usize| {
            let mut wanted = self.wanted[n].clone();
            wanted.target = wanted.target.map(|t| super::scaled(t, permille));
            let knows_auto = job.scheduler.entry.name == SCHEDULER;
            // io.latency wants a number: one that no drive meets makes it as low as it can.
            if wanted.target.is_none() && !knows_auto {
                wanted.target = Some(LOWEST);
            }
            ("io.latency".to_string(), wanted.line())
        };
        let controllers = &job.control.controllers;
        let takes = job.scheduler.entry.name == SCHEDULER
            || controllers.iter().any(|c| c.name == "io.latency");
        let weighs = job.scheduler.entry.name == SCHEDULER
            || controllers.iter().any(|c| c.name == "io.cost");
        let mut groups: Vec<GroupSpec> = Vec::new();
        for (n, wanted) in self.wanted.iter().enumerate() {
            let mut group = GroupSpec { name: wanted.name.clone(), ..GroupSpec::default() };
            if takes {
                group.write.push(latency(n));
            }
            if let Some(weight) = wanted.weight.filter(|_| weighs) {
                group.write.push(("io.weight".into(), format!("{DEVICE} {weight}")));
            }
            groups.push(group);
        }
        for proc in &mut job.procs {
            proc.group =
                Some(self.wanted.iter().position(|w| is(proc, &w.name)).unwrap_or_else(|| {
                    groups.push(GroupSpec { name: proc.name.clone(), ..GroupSpec::default() });
                    groups.len() - 1
                }));
        }
        job.groups = groups;
    }

    fn reduce(&self, way: &Way, outcome: &Outcome) -> Point {
        let rate = |bytes: u64| bytes as f64 * 1e3 / outcome.measured.0.max(1) as f64;
        let others = outcome.procs.iter().filter(|p| p.role == Role::Interferer).map(|p| p.bytes);
        let target = |n: usize| {
            let of_group = |p: &&ProcRecord| {
                p.name == self.wanted[n].name || super::kind(&p.name) == self.wanted[n].name
            };
            measured(outcome.procs.iter().filter(of_group), &rate)
        };
        Point {
            way: way.clone(),
            total: rate(outcome.device.read_bytes + outcome.device.written_bytes),
            others: rate(others.sum()),
            targets: (0..self.wanted.len()).map(target).collect(),
            states: outcome.targets.clone(),
        }
    }
}

/// What io.latency gets for a target without a number, as `lat-none` does.
const LOWEST: Nanos = Nanos::us(10);

fn measured<'a>(
    procs: impl Iterator<Item = &'a ProcRecord>,
    rate: &dyn Fn(u64) -> f64,
) -> Option<Measured> {
    let (mut all, mut bytes) = (Histogram::new(), 0);
    for proc in procs {
        all.merge(&proc.latency);
        proc.censored.iter().for_each(|waited| all.record(waited.0));
        bytes += proc.bytes;
    }
    let p99 = Nanos(all.quantile(99, 100)?);
    let mean = Nanos(all.mean()? as u64);
    Some(Measured { p99, mean, ios: all.count(), bytes, mb_s: rate(bytes) })
}

/// Part of the throughput without control, in thousandths.
pub(super) fn kept_permille(total: f64, uncontrolled: f64) -> u32 {
    if uncontrolled <= 0.0 { 1000 } else { (total / uncontrolled * 1000.0).round() as u32 }
}
