//! `what_if`: whether latency targets would be kept.

use crate::compare::{Names, Source, names};
use crate::errors;
use crate::work::{Far, carry_out, threads};
use hoistway_lab::what_if::{Wanted, WhatIfQuestion, default_load, find_load, json, measured_time};
use hoistway_sim::drive::DriveFile;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;

/// Targets: names with their times, or texts as on the command line.
#[derive(FromPyObject)]
pub enum Targets {
    #[pyo3(transparent, annotation = "dict of str")]
    Times(BTreeMap<String, String>),
    #[pyo3(transparent, annotation = "list of str")]
    Texts(Names),
}

impl Targets {
    fn read(self) -> PyResult<Vec<Wanted>> {
        let texts = match self {
            Targets::Times(times) => times.into_iter().map(|(n, t)| format!("{n}={t}")).collect(),
            Targets::Texts(Names::One(text)) => vec![text],
            Targets::Texts(several) => names(Some(several)),
        };
        let wanted = texts.iter().map(|text| Wanted::parse(text));
        let wanted = wanted.collect::<Result<_, _>>();
        wanted.map_err(|e| errors::wrong(format!("--target: {e}")))
    }
}

/// Whether latency targets would be kept on a drive, and at what price: a dictionary, what "hoistway what-if --json" prints.
///
/// targets: {"gold": "1ms"}, or "gold=1ms,weight=400"; "auto" in place of a time is as low as goes without loss of
/// throughput. load: "EXPERIMENT/WORKLOAD", or an Experiment, whose first workload runs [a random 4 KiB reader for each
/// target beside 15 sequential readers]. strict: keep the targets whatever that costs. loss: percent of the throughput that
/// may be lost. duration: measured time of each run. progress, jobs and Ctrl-C: as in compare.
#[pyfunction]
#[pyo3(signature = (drive, targets, *, load = None, strict = false, loss = 3, duration = None, seed = 1, jobs = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
pub fn what_if<'py>(
    py: Python<'py>,
    drive: &str,
    targets: Targets,
    load: Option<Source<'py>>,
    strict: bool,
    loss: u16,
    duration: Option<&str>,
    seed: u64,
    jobs: Option<u16>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    if loss > 99 {
        return Err(errors::wrong(format!("--loss: {loss} is not in 0..=99")));
    }
    let wanted = targets.read()?;
    let drive = DriveFile::load(drive).map_err(errors::wrong)?;
    let of_load = |e| errors::wrong(format!("--load: {e}"));
    let (experiment, workload) = match load {
        Some(Source::Object(object)) => {
            let experiment = object.inner.clone();
            let workload = experiment.default_workloads[0].clone();
            (experiment, workload)
        }
        Some(Source::Name(name)) => find_load(&name).map_err(of_load)?,
        Some(Source::Path(path)) => find_load(&path.to_string_lossy()).map_err(of_load)?,
        None => default_load(&wanted).map_err(|e| errors::wrong(format!("--target: {e}")))?,
    };
    let duration =
        measured_time(duration).map_err(|e| errors::wrong(format!("--duration: {e}")))?;
    let question = WhatIfQuestion {
        experiment,
        workload,
        drive,
        wanted,
        strict,
        loss_permille: u32::from(loss) * 10,
        duration,
        seed,
    };
    question.check().map_err(errors::wrong)?;
    let threads = threads(jobs)?;
    let text = carry_out(py, progress.as_ref(), |stop, tell| {
        let progress = |done: usize, total: usize| {
            tell(Far { part: done as f64 / total.max(1) as f64, done, total });
        };
        let basis = question.basis(threads, stop, &progress)?;
        let report = question.answer(basis, threads, stop, &progress)?;
        Ok(json(&question, &report).to_string())
    })?;
    let json = py.import("json")?.call_method1("loads", (text,))?;
    Ok(json.cast_into::<PyDict>()?)
}
