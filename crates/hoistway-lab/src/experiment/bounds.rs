//! How large an experiment may be. Memory and time of runs are products of numbers that are small by themselves; each
//! product has a limit, and what is beyond is refused before anything runs.

use super::source::Section;
use super::{Experiment, ExperimentError, ProcTemplate, Procedure};
use hoistway::Nanos;
use hoistway_files::input::{FILES_MAX, PROCESSES_MAX};

/// Most processes of runs that are under way at the same time, but for a run alone: some GB.
pub(crate) const AT_ONCE_MAX: u64 = 200_000;
/// Most files that processes of a workload use by name (`file`), counted for each process: each has a place of its own in it.
pub(crate) const USES_MAX: u64 = 1_000_000;
/// Most runs of a grid: drives x workloads x configurations x repetitions.
pub(crate) const RUNS_MAX: u64 = 10_000;
/// Most processes in all runs of a grid; each has a record of one to two kB.
pub(crate) const RECORDS_MAX: u64 = 250_000;
/// Most intervals of all throughput series of a grid, of 24 bytes each.
pub(crate) const INTERVALS_MAX: u64 = 8_000_000;
/// Longest time of any kind.
pub(crate) const TIME_MAX: Nanos = Nanos::secs(86_400);

/// What the runs of a grid come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Runs.
    pub runs: u64,
    /// Processes in all of them.
    pub records: u64,
    /// Intervals in all of them.
    pub intervals: u64,
}

impl Size {
    /// Adds a cell: so many repetitions of so many processes, measured in such intervals.
    pub fn add(&mut self, reps: u64, procs: u64, measured: Nanos, [target, device]: [Nanos; 2]) {
        let each = |interval: Nanos| measured.0 / interval.0.max(1);
        let intervals = procs.saturating_mul(each(target)).saturating_add(each(device));
        self.runs = self.runs.saturating_add(reps);
        self.records = self.records.saturating_add(reps.saturating_mul(procs));
        self.intervals = self.intervals.saturating_add(reps.saturating_mul(intervals));
    }

    /// The first limit that is passed: the key that the product is about, and what is wrong.
    pub fn beyond(&self) -> Option<(&'static str, String)> {
        let said = |what: &str, n: u64, max: u64| format!("{n} {what}, at most {max}");
        match self {
            s if s.runs > RUNS_MAX => Some(("reps", said("runs", s.runs, RUNS_MAX))),
            s if s.records > RECORDS_MAX => {
                Some(("reps", said("processes in all runs", s.records, RECORDS_MAX)))
            }
            s if s.intervals > INTERVALS_MAX => {
                let what = "intervals in all runs";
                Some(("window.target_interval", said(what, s.intervals, INTERVALS_MAX)))
            }
            _ => None,
        }
    }
}

/// Holds the products of a file against their limits.
pub(super) fn check(top: &Section<'_>, e: &Experiment) -> Result<(), ExperimentError> {
    for workload in &e.workloads {
        let own = workload.target.as_ref().or(e.target.as_ref()).map_or(0, |t| u64::from(t.count));
        let mut procs = own;
        let mut files = Files::default();
        if let Some(target) = workload.target.as_ref().or(e.target.as_ref()) {
            let place = match workload.target {
                Some(_) => format!("workload.{}.target", workload.id),
                None => "target".into(),
            };
            files.add(target).map_err(|(key, what)| top.wrong(&format!("{place}.{key}"), what))?;
        }
        for (i, template) in workload.procs.iter().enumerate() {
            let at = |key: &str| format!("workload.{}.procs[{i}].{key}", workload.id);
            procs += u64::from(template.count);
            if procs > PROCESSES_MAX {
                let (id, count) = (&workload.id, template.count);
                let what = format!(
                    "count = {count}: with them workload '{id}' has {procs} processes, at most {PROCESSES_MAX}"
                );
                return Err(top.wrong(&at("count"), what));
            }
            files.add(template).map_err(|(key, what)| top.wrong(&at(key), what))?;
            let last = template.stagger.0.saturating_mul(u64::from(template.count - 1));
            if last > TIME_MAX.0 {
                let what = format!(
                    "the last of {} processes {} ns apart would start {} s late, at most {} s",
                    template.count,
                    template.stagger.0,
                    last / 1_000_000_000,
                    TIME_MAX.0 / 1_000_000_000
                );
                return Err(top.wrong(&at("stagger"), what));
            }
        }
    }
    check_size(top, e, "")?;
    for (procedure, place) in
        [(Procedure::Sound, "document.sound."), (Procedure::AsPublished, "document.as-published.")]
    {
        if let Some(changed) = e.of_document(procedure) {
            check_size(top, &changed, place)?;
        }
    }
    Ok(())
}

/// What the processes of a workload have of files.
#[derive(Clone, Copy, Debug, Default)]
struct Files {
    own: u64,
    used: u64,
}

impl Files {
    /// Adds those of some processes; the key that is to blame where they are too many, and what is wrong.
    fn add(&mut self, template: &ProcTemplate) -> Result<(), (&'static str, String)> {
        let (count, params) = (u64::from(template.count), &template.params);
        let files = params.get("files").and_then(toml::Value::as_integer);
        let each = files.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        self.own = self.own.saturating_add(each.saturating_mul(count));
        if self.own > FILES_MAX {
            let what = format!(
                "files = {each} for each of {count} processes: with them the workload has {} files, at most {FILES_MAX}",
                self.own
            );
            return Err(("files", what));
        }
        let names = params.get("file").and_then(toml::Value::as_array).map_or(0, Vec::len) as u64;
        self.used = self.used.saturating_add(names.saturating_mul(count));
        if self.used > USES_MAX {
            let what = format!(
                "file: {names} files, each used by {count} processes: with them the workload has {} uses of files, at most \
                 {USES_MAX}",
                self.used
            );
            return Err(("file", what));
        }
        Ok(())
    }
}

/// Of one run. How many drives, configurations and repetitions there are the command line may change: the grid has the
/// limit of all runs ([`Grid::too_large`](crate::run::Grid::too_large)).
fn check_size(top: &Section<'_>, e: &Experiment, place: &str) -> Result<(), ExperimentError> {
    let intervals = [e.window.target_interval, e.window.device_interval];
    for workload in &e.workloads {
        let mut one = Size::default();
        let measured = workload.measured.unwrap_or(e.window.measured);
        one.add(1, e.processes(workload), measured, intervals);
        if let Some((key, what)) = one.beyond() {
            let (id, procs) = (&workload.id, e.processes(workload));
            let what = format!(
                "a run of workload '{id}', {procs} processes for {} s with an interval each {} us, has {what}",
                measured.0 / 1_000_000_000,
                e.window.target_interval.0 / 1000
            );
            return Err(top.wrong(&path(place, key), what));
        }
    }
    Ok(())
}

/// The path of a key; the procedures of a document have those of the window among their own.
fn path(place: &str, key: &str) -> String {
    let key = if place.is_empty() { key } else { key.trim_start_matches("window.") };
    format!("{place}{key}")
}

impl Experiment {
    /// Processes of a run of this workload.
    pub(crate) fn processes(&self, workload: &super::Workload) -> u64 {
        let target = workload.target.as_ref().or(self.target.as_ref());
        target.into_iter().chain(&workload.procs).map(|p| u64::from(p.count)).sum()
    }
}
