//! Controllers and groups of a job: installing them, writing their files, recording their gauges.

use super::Job;
use super::record::FOREVER;
use super::setup::set_up;
use hoistway::ctl::CONTROLLERS;
use hoistway::stack::StageName;
use hoistway::target::TargetState;
use hoistway::{GroupId, Groups, Input, Instant, Nanos, Stack};
use hoistway_run::{ControlSpec, JobError, Monitor, TargetRecord};

/// Installs the controllers, in the order of the registry, and writes the root's files.
pub(super) fn install(stack: &mut Stack, spec: &ControlSpec) -> Result<(), JobError> {
    for wanted in &spec.controllers {
        if !CONTROLLERS.iter().any(|e| e.name == wanted.name) {
            return Err(JobError::Unknown {
                kind: "controller",
                name: wanted.name.clone(),
                known: CONTROLLERS.iter().map(|e| e.name.to_string()).collect(),
            });
        }
    }
    for entry in CONTROLLERS {
        let Some(wanted) = spec.controllers.iter().find(|c| c.name == entry.name) else {
            continue;
        };
        stack.install(entry);
        for (name, value) in &wanted.set {
            let stage = StageName::Controller(wanted.name.clone());
            let input = Input::Set { stage, name: name.clone(), value: *value };
            set_up(stack, input, &wanted.name)?;
        }
    }
    for (file, line) in &spec.root {
        write(stack, GroupId::ROOT, file, line, "the root group")?;
    }
    Ok(())
}

/// The job's groups, with what is set on them.
pub(super) fn add_groups(stack: &mut Stack, job: &Job<'_>) -> Result<Vec<GroupId>, JobError> {
    let mut groups: Vec<GroupId> = Vec::with_capacity(job.groups.len());
    for spec in &job.groups {
        let parent = match spec.parent {
            None => GroupId::ROOT,
            Some(p) => *groups.get(p).ok_or_else(|| JobError::Parameter {
                of: spec.name.clone(),
                message: format!("its parent, group {p}, does not stand before it"),
            })?,
        };
        let group = stack.add_group(Instant::ZERO, parent, &spec.name);
        for (name, value) in &spec.set {
            let stage = StageName::Scheduler;
            let input = Input::SetGroup { group, stage, name: name.clone(), value: Some(*value) };
            set_up(stack, input, &spec.name)?;
        }
        for (file, line) in &spec.write {
            write(stack, group, file, line, &spec.name)?;
        }
        groups.push(group);
    }
    Ok(groups)
}

fn write(
    stack: &mut Stack,
    group: GroupId,
    file: &str,
    line: &str,
    of: &str,
) -> Result<(), JobError> {
    set_up(stack, Input::Write { group, file: file.into(), line: line.into() }, of)
}

/// The path of a group, `/` for the root.
fn path(groups: &Groups, group: GroupId) -> String {
    let mut parts = Vec::new();
    let mut at = group;
    while let Some(parent) = groups.parent(at) {
        parts.push(groups.name(at));
        at = parent;
    }
    parts.reverse();
    format!("/{}", parts.join("/"))
}

/// What every file of every group prints, where it prints anything.
pub(super) fn files(stack: &mut Stack) -> Vec<(String, String, String)> {
    let knobs: Vec<&'static str> = stack.knobs().map(|k| k.file).collect();
    let groups: Vec<GroupId> =
        std::iter::once(GroupId::ROOT).chain(stack.env().groups.living()).collect();
    let mut all = Vec::new();
    for group in groups {
        let path = path(&stack.env().groups, group);
        for file in &knobs {
            let text = stack.read_knob(group, file).expect("the file was listed");
            if !text.is_empty() {
                all.push((path.clone(), file.to_string(), text));
            }
        }
    }
    all
}

/// How the latency targets stand.
pub(super) fn targets(stack: &mut Stack) -> Vec<TargetRecord> {
    let mut states = Vec::new();
    stack.targets(&mut |state| states.push(state));
    let groups = &stack.env().groups;
    let record = |s: TargetState| TargetRecord {
        group: path(groups, s.group),
        target: s.target,
        p99: s.p99,
        mean: s.mean,
        share_permille: s.share_permille,
        answer: s.answer,
    };
    states.into_iter().map(record).collect()
}

/// Records gauges at regular times.
#[derive(Debug)]
pub(super) struct Gauges {
    every: Nanos,
    next: Option<Instant>,
    series: Vec<Monitor>,
    /// The group of each series.
    keys: Vec<Option<GroupId>>,
}

impl Gauges {
    pub fn new(every: Option<Nanos>) -> Gauges {
        let every = every.filter(|e| e.0 > 0);
        Gauges {
            every: every.unwrap_or_default(),
            next: every.map(|_| Instant::ZERO),
            series: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Time goes on to `now`: records what was true at the times passed since the last call. Nothing
    /// has happened between them and the stack's last event.
    #[inline]
    pub fn record(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(at) = self.next.filter(|&at| at < now) {
            self.sample(at, stack);
            self.next = Some(at + self.every);
        }
    }

    /// Nothing is recorded before the time has gone beyond that.
    #[inline]
    pub fn next(&self) -> Instant {
        self.next.unwrap_or(FOREVER)
    }

    fn sample(&mut self, at: Instant, stack: &mut Stack) {
        let (series, keys) = (&mut self.series, &mut self.keys);
        let time = at.as_nanos() as i64;
        let mut fresh = Vec::new();
        // Gauges come in the same order each time, so each search begins behind the last hit.
        let mut from = 0;
        stack.gauges(&mut |stage, gauge| {
            let n = series.len();
            let found = (0..n).map(|i| (from + i) % n).find(|&i| {
                let s: &Monitor = &series[i];
                keys[i] == gauge.group && s.name == gauge.name && s.stage == stage
            });
            let index = found.unwrap_or_else(|| {
                series.push(Monitor {
                    stage: stage.into(),
                    name: gauge.name.into(),
                    unit: gauge.unit.into(),
                    group: None,
                    points: Vec::new(),
                });
                keys.push(gauge.group);
                fresh.push(n);
                n
            });
            series[index].points.push((time, gauge.value));
            from = index + 1;
        });
        for index in fresh {
            series[index].group = keys[index].map(|g| path(&stack.env().groups, g));
        }
    }

    /// All of them, with times since the beginning of measuring.
    pub fn finish(mut self, begin: Instant) -> Vec<Monitor> {
        let begin = begin.as_nanos() as i64;
        let points = self.series.iter_mut().flat_map(|monitor| &mut monitor.points);
        points.for_each(|(at, _)| *at -= begin);
        self.series
    }
}
