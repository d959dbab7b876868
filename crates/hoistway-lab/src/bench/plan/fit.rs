//! Which parts fit the limits, and the plan that follows.

use super::super::pace::{self, Pace};
use super::super::{files, suite::Part};
use super::{
    Able, BenchPlan, BenchPlanError, BenchRequest, BenchSubject, Estimate, PLANNED, PlannedPart,
    ROUNDS_MAX, ROUNDS_MIN, as_budget, as_flag, of_part,
};
use crate::config::Config;
use crate::experiment::{Experiment, Options};
use crate::run::{Grid, RunError};
use hoistway::Nanos;
use hoistway_sim::world::Job;

/// What a plan must keep to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub limit: Nanos,
    pub writes: u64,
    pub rounds: u64,
}

/// Parts that fit the limits.
pub(super) struct FittingParts {
    pub parts: Vec<PartCost>,
    left_out: Vec<(Part, String)>,
    /// How long runs are.
    pub pace: Pace,
    /// Bytes of the files of the parts.
    pub files: u64,
    prepare: Nanos,
    /// What three rounds of the first part take, if not even they fit.
    pub least: Option<Nanos>,
}

/// What a part takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartCost {
    part: Part,
    configs: usize,
    measured: Nanos,
    /// One run.
    run: Nanos,
    /// One run.
    written: u64,
    read: u64,
    files: u64,
}

impl FittingParts {
    pub fn find(
        subject: &BenchSubject,
        able: &Able<'_>,
        pace: Pace,
        bounds: Bounds,
    ) -> Result<FittingParts, BenchPlanError> {
        let Bounds { limit, rounds, .. } = bounds;
        let mut fit = FittingParts {
            parts: Vec::new(),
            left_out: Vec::new(),
            pace,
            files: 0,
            prepare: Nanos::ZERO,
            least: None,
        };
        let (mut round, mut written) = (0, 0);
        // What all parts so far would take, those left out too: time, bytes written, files.
        let mut all = (0, 0, 0);
        for (part, able) in able {
            let configs = match able {
                Ok(configs) => configs,
                Err(why) => {
                    fit.left_out.push((*part, why.clone()));
                    continue;
                }
            };
            let cost = PartCost::of(part, configs, subject, pace)?;
            // Files are reused from run to run.
            let files = fit.files.max(cost.files);
            let prepare = match subject.prepares {
                true => Nanos(over(files, subject.rates.write)),
                false => Nanos::ZERO,
            };
            let runs = cost.configs as u64;
            let more = round + runs * cost.run.0;
            let wrote = written + runs * cost.written;
            let made = if subject.prepares { files } else { 0 };
            let (time, bytes) = (prepare.0 + rounds * more, made + rounds * wrote);
            let beyond = (time > limit.0 / 100 * PLANNED, bytes > bounds.writes);
            // More of a limit goes to what is more important first.
            all = (all.0 + runs * cost.run.0, all.1 + runs * cost.written, all.2.max(cost.files));
            if beyond.0 || beyond.1 {
                let prepare = if subject.prepares { over(all.2, subject.rates.write) } else { 0 };
                let made = if subject.prepares { all.2 } else { 0 };
                let enough = Nanos((prepare + rounds * all.0) / PLANNED * 100 + 100);
                if beyond.0 {
                    fit.least.get_or_insert(enough);
                } else {
                    fit.files = if fit.parts.is_empty() { made } else { fit.files };
                }
                let why = match beyond {
                    (true, _) => "not enough time".to_string(),
                    _ => format!("it would write too much, at {}", rate(subject.rates.write)),
                };
                let mut flags = String::new();
                if enough > limit {
                    flags += &format!(" --time {}", as_flag(enough));
                }
                if made + rounds * all.1 > bounds.writes {
                    flags += &format!(" --write-budget {}", as_budget(made + rounds * all.1));
                }
                fit.left_out.push((*part, format!("{why};{flags} includes it")));
            } else {
                (round, written) = (more, wrote);
                (fit.files, fit.prepare) = (files, prepare);
                fit.parts.push(cost);
            }
        }
        Ok(fit)
    }

    fn round(&self) -> (u64, u64, u64) {
        self.parts.iter().fold((0, 0, 0), |(time, read, written), c| {
            let n = c.configs as u64;
            (time + n * c.run.0, read + n * c.read, written + n * c.written)
        })
    }

    /// As many as fit, at most those of the level.
    pub fn rounds(&self, most: u32, limit: Nanos, writes_limit: u64) -> u32 {
        let (time, _, written) = self.round();
        let by_time = (limit.0 / 100 * PLANNED).saturating_sub(self.prepare.0) / time.max(1);
        let by_writes = writes_limit.saturating_sub(self.files).checked_div(written);
        let all = by_time.min(by_writes.unwrap_or(u64::MAX)).min(u64::from(most));
        (all as u32).max(ROUNDS_MIN)
    }

    pub fn plan(self, request: &BenchRequest, subject: &BenchSubject, bounds: Bounds) -> BenchPlan {
        let (time, read, written) = self.round();
        let n = bounds.rounds;
        let made = if subject.prepares { self.files } else { 0 };
        let estimate = Estimate {
            time_ns: self.prepare.0 + n * time,
            prepare_ns: self.prepare.0,
            read: n * read,
            written: made + n * written,
            files: self.files,
        };
        let mut grids: Vec<Grid> = Vec::new();
        let mut parts = Vec::new();
        for cost in &self.parts {
            let id = cost.part.experiment;
            let at = grids.iter().position(|g| g.experiment.id == id).unwrap_or_else(|| {
                grids.push(grid(&cost.part, request, subject));
                grids.len() - 1
            });
            let grid = &mut grids[at];
            measure(&mut grid.experiment, cost.part.workload, cost.measured);
            grid.workloads.push(cost.part.workload.into());
            let workload = grid.workloads.len() - 1;
            let PartCost { part, configs, measured, run, .. } = *cost;
            parts.push(PlannedPart { part, grid: at, workload, configs, measured, run });
        }
        for (at, grid) in grids.iter_mut().enumerate() {
            grid.command = command(grid, parts.iter().filter(|p| p.grid == at));
        }
        BenchPlan {
            level: request.level,
            limit: bounds.limit,
            pace: self.pace,
            writes_limit: bounds.writes,
            rounds: n as u32,
            fitted: n as u32,
            most: n as u32,
            parts,
            left_out: self.left_out,
            grids,
            estimate,
            seed: request.seed,
        }
    }
}

/// The experiment's grid, without workloads, and with room for every round there may ever be.
fn grid(part: &Part, request: &BenchRequest, subject: &BenchSubject) -> Grid {
    Grid {
        experiment: pace::experiment(part),
        drives: vec![subject.drive.clone()],
        workloads: Vec::new(),
        configs: of_part(part, request).to_vec(),
        reps: ROUNDS_MAX,
        seed: request.seed,
        options: Options::default(),
        command: String::new(),
    }
}

/// What repeats a grid: a command for each measured time.
fn command<'a>(grid: &Grid, parts: impl Iterator<Item = &'a PlannedPart>) -> String {
    let mut by_time: Vec<(Nanos, Vec<&str>)> = Vec::new();
    for planned in parts {
        match by_time.iter_mut().find(|(t, _)| *t == planned.measured) {
            Some((_, all)) => all.push(planned.part.workload),
            None => by_time.push((planned.measured, vec![planned.part.workload])),
        }
    }
    let ids: Vec<&str> = grid.configs.iter().map(|c| c.id.as_str()).collect();
    let (id, ids) = (&grid.experiment.id, ids.join(","));
    let each = by_time.iter().map(|(measured, workloads)| {
        let (workloads, ms) = (workloads.join(","), measured.as_ms());
        format!("hoistway compare {id} --workload {workloads} --config '{ids}' --duration {ms}ms")
    });
    each.collect::<Vec<_>>().join(" && ")
}

/// `400 MB/s`.
fn rate(bytes: u64) -> String {
    format!("{} MB/s", bytes.div_ceil(1_000_000))
}

/// Time in which `bytes` pass at `rate`, ns.
fn over(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1))) as u64
}

/// A run of a part, of the measured time that the experiment gives it.
pub(super) fn job<'a>(
    experiment: &Experiment,
    part: &Part,
    config: &Config,
    subject: &'a BenchSubject,
) -> Result<Job<'a>, RunError> {
    let workload = experiment.workload(part.workload).expect("the suite names workloads");
    experiment
        .job(&subject.drive, workload, config, 1, &Options::default())
        .map_err(|error| RunError::Job { cell: part.experiment.into(), error })
}

/// Gives a workload of an experiment its measured time.
fn measure(experiment: &mut Experiment, workload: &str, measured: Nanos) {
    let found = experiment.workloads.iter_mut().find(|w| w.id == workload);
    found.expect("the suite names workloads").measured = Some(measured);
}

impl PartCost {
    fn of(
        part: &Part,
        configs: &[Config],
        subject: &BenchSubject,
        pace: Pace,
    ) -> Result<PartCost, BenchPlanError> {
        let mut experiment = pace::experiment(part);
        let measured = pace.measured(part, &job(&experiment, part, &configs[0], subject)?);
        measure(&mut experiment, part.workload, measured);
        let job = job(&experiment, part, &configs[0], subject)?;
        let busy = pace.lasts(part, &job).0;
        let through = |rate: u64| (u128::from(rate) * u128::from(busy) / 1_000_000_000) as u64;
        let files = files::bytes(&job)
            .map_err(|error| RunError::Job { cell: part.experiment.into(), error })?;
        // Dirty pages are written out before the next run begins.
        let drain =
            if part.writes && subject.prepares { over(files, subject.rates.write) } else { 0 };
        Ok(PartCost {
            part: *part,
            configs: configs.len(),
            measured,
            run: Nanos(pace.takes(part, &job).0 + subject.overhead.0 + drain),
            written: if part.writes { through(subject.rates.write) } else { 0 },
            read: through(subject.rates.read),
            files,
        })
    }
}
