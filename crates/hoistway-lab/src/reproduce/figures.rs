//! What one experiment gave, over its repetitions: the part of a run that tables need.

use crate::experiment::{Procedure, Source};
use crate::result::startup::Startups;
use crate::result::{Cell, Judge, Rep, Run, Spread};
use crate::stats::{self, Bounded};
use std::collections::BTreeMap;

/// One quantity of one cell.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Drive id.
    pub drive: String,
    /// Configuration id.
    pub config: String,
    /// Workload id, or the name of a phase of one.
    pub workload: String,
    /// Name of the quantity.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Over all repetitions; `None`: too few samples.
    pub value: Option<Bounded>,
    /// Half of the 99 % interval, from three repetitions.
    pub ci99: Option<f64>,
    /// Of each repetition, as far as known exactly.
    pub reps: Vec<f64>,
}

impl Figure {
    /// Mean, extremes and interval of the repetitions.
    pub fn spread(&self) -> Option<Spread> {
        stats::spread(&self.reps)
    }

    /// Standard deviation of the repetitions.
    pub fn sd(&self) -> Option<f64> {
        let n = self.reps.len();
        let mean = self.spread()?.mean;
        let squares = stats::sum(self.reps.iter().map(|y| (y - mean) * (y - mean)));
        (n >= 2).then(|| (squares / (n - 1) as f64).sqrt())
    }

    /// The suite's `conf99`: not a 99 % interval, about four times as wide (specs/statistics.md 4.1).
    pub fn conf99_of_the_suite(&self) -> Option<f64> {
        let n = self.reps.len();
        // Its table of quantiles ends there.
        let freedom = u32::try_from(n.checked_sub(1)?).ok()?.min(30);
        let t = stats::t_quantile(stats::CONFIDENCE, freedom.max(1));
        // Each squared deviation is added 99 times; the result is halved.
        self.sd().map(|sd| t * 99f64.sqrt() * sd / (n as f64).sqrt() / 2.0)
    }
}

/// What one experiment gave.
#[derive(Clone, Debug)]
pub struct Results {
    /// Experiment id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What is measured and against what.
    pub about: String,
    /// The document it repeats.
    pub source: &'static Source,
    /// Repetitions of each run.
    pub reps: u32,
    /// What it judges by, by drive and workload.
    pub judges: BTreeMap<(String, String), Judge>,
    /// Everything, in the order of the run.
    pub figures: Vec<Figure>,
    /// Warnings: cell, text.
    pub flags: Vec<(String, String)>,
    /// Its part of the page: charts and tables.
    pub section: String,
    index: BTreeMap<[String; 4], usize>,
}

impl Results {
    /// Nothing yet.
    #[cfg(test)]
    pub(super) fn empty(id: &str) -> Results {
        Results {
            id: id.into(),
            title: String::new(),
            about: String::new(),
            source: &crate::experiment::SOURCES[0],
            reps: 0,
            judges: BTreeMap::new(),
            figures: Vec::new(),
            flags: Vec::new(),
            section: String::new(),
            index: BTreeMap::new(),
        }
    }

    /// What is kept of a run; `section` is its part of the page.
    pub fn of(
        run: &Run,
        source: &'static Source,
        procedure: Procedure,
        section: String,
    ) -> Results {
        let m = &run.manifest;
        let mut results = Results {
            id: m.experiment.clone(),
            title: m.title.clone(),
            about: m.about.clone(),
            source,
            reps: m.reps,
            judges: BTreeMap::new(),
            figures: Vec::new(),
            flags: run.flags.clone(),
            section,
            index: BTreeMap::new(),
        };
        results.collect(run);
        for cell in &run.cells {
            let same = |c: &&Cell| (&c.drive, &c.workload) == (&cell.drive, &cell.workload);
            let judge = Judge::of(m, run.cells.iter().filter(same));
            results.judges.insert((cell.drive.clone(), cell.workload.clone()), judge);
            results.censored_starts(cell);
            if procedure == Procedure::AsPublished && source.suite {
                results.samples_of_the_suite(cell);
            }
        }
        results
    }

    /// One figure.
    pub fn find(&self, drive: &str, config: &str, workload: &str, metric: &str) -> Option<&Figure> {
        let key = [drive, config, workload, metric].map(str::to_string);
        self.index.get(&key).map(|&i| &self.figures[i])
    }

    fn find_mut(&mut self, cell: &Cell, metric: &str) -> Option<&mut Figure> {
        let key = [&cell.drive, &cell.config, &cell.workload, metric].map(str::to_string);
        self.index.get(&key).map(|&i| &mut self.figures[i])
    }

    fn collect(&mut self, run: &Run) {
        let rows = run.cells.iter().flat_map(|cell| run.rows_of(cell));
        for m in rows.filter(|m| m.source == run.manifest.world) {
            let interval = m.metric.strip_suffix("_ci99");
            let metric = interval.unwrap_or(&m.metric);
            let key = [&*m.drive, &m.config, &m.workload, metric].map(str::to_string);
            let figures = &mut self.figures;
            let at = *self.index.entry(key).or_insert_with(|| {
                figures.push(Figure {
                    drive: m.drive.to_string(),
                    config: m.config.to_string(),
                    workload: m.workload.to_string(),
                    metric: metric.to_string(),
                    unit: m.unit.to_string(),
                    value: None,
                    ci99: None,
                    reps: Vec::new(),
                });
                figures.len() - 1
            });
            let figure = &mut self.figures[at];
            let value = m.value.map(|value| Bounded { value, bound: m.bound });
            match (m.rep, interval) {
                (Some(_), _) => figure.reps.extend(value.and_then(Bounded::exact)),
                (None, Some(_)) => figure.ci99 = m.value,
                (None, None) => figure.value = value,
            }
        }
    }

    /// A mean over starts of which some did not finish is a lower bound.
    fn censored_starts(&mut self, cell: &Cell) {
        let Some(all) = Startups::of(&cell.reps) else { return };
        if let Some(figure) = self.find_mut(cell, "startup_time") {
            figure.value = Some(all.time);
        }
    }

    /// The suite's throughput: mean of the samples of the device, the first discarded (specs/experiments.md
    /// 3.4). A run of fewer than three samples has none.
    fn samples_of_the_suite(&mut self, cell: &Cell) {
        let reps: Vec<f64> = cell.reps.iter().filter_map(sampled).collect();
        let Some(figure) = self.find_mut(cell, "throughput_total") else { return };
        let whole = reps.len() == cell.reps.len();
        let spread = stats::spread(&reps).filter(|_| whole);
        figure.value = spread.map(|s| s.mean.into());
        figure.ci99 = spread.and_then(|s| s.half_width);
        figure.reps = reps;
    }
}

/// Mean of the device's samples but for the first, MB/s.
fn sampled(rep: &Rep) -> Option<f64> {
    let all = &rep.device.intervals;
    let rates: Vec<f64> = all
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(i, sample)| {
            let end = all.get(i + 1).map_or(rep.measured, |next| next.at);
            let length = end.0.saturating_sub(sample.at.0);
            (length > 0).then(|| sample.bytes as f64 * 1e3 / length as f64)
        })
        .collect();
    let n = rates.len();
    (n >= 2).then(|| stats::sum(rates) / n as f64)
}
