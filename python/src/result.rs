//! A run directory in memory, for Python.

use crate::errors;
use crate::table::Table;
use crate::tables;
use hoistway_lab::report::FORMATS;
use hoistway_lab::result::{Run, metrics_csv};
use pyo3::prelude::*;
use std::path::PathBuf;

/// What compare, run, replay and load give: everything that a run directory holds, in memory.
///
/// metrics, series, histograms, marks, monitor and runs are tables with a row per observation. They are made when they are
/// asked for.
#[pyclass(frozen, module = "hoistway", name = "Result")]
#[derive(Debug)]
pub struct Results {
    pub run: Run,
}

#[pymethods]
impl Results {
    /// A row per metric. value is in the unit of the column unit, and missing where there were too few samples. rep counts
    /// from 1 and is missing for a metric over all repetitions. bound: "" for the value itself, ">" or "<" for a bound.
    #[getter]
    fn metrics(&self) -> Table {
        tables::metrics(&self.run)
    }

    /// Throughput over time. name is "device" or "proc:NAME"; t_ns counts from the beginning of measuring; bytes and ios
    /// completed in the interval of length_ns; mb_s is 10^6 bytes per second.
    #[getter]
    fn series(&self) -> Table {
        tables::series(&self.run)
    }

    /// Latencies of each process: a row per slot that has counted something, from low_ns to high_ns, both included.
    #[getter]
    fn histograms(&self) -> Table {
        tables::histograms(&self.run)
    }

    /// What loads noted: text is "start", "done" or another mark; t_ns counts from the beginning of measuring;
    /// moved_bytes is what the device had moved by then.
    #[getter]
    fn marks(&self) -> Table {
        tables::marks(&self.run)
    }

    /// Gauges of schedulers and controllers over time, of the first repetition; group is missing for the device's own.
    /// t_ns is negative before measuring begins.
    #[getter]
    fn monitor(&self) -> Table {
        tables::monitor(&self.run)
    }

    /// A row per repetition of a cell: measured_ns, and digest, which is equal where every step of two runs was.
    #[getter]
    fn runs(&self) -> Table {
        tables::runs(&self.run)
    }

    /// Warnings: (drive/config/workload, text).
    #[getter]
    fn warnings(&self) -> Vec<(String, String)> {
        self.run.flags.clone()
    }

    /// Id of the experiment.
    #[getter]
    fn experiment(&self) -> &str {
        &self.run.manifest.experiment
    }

    /// Title of the experiment.
    #[getter]
    fn title(&self) -> &str {
        &self.run.manifest.title
    }

    /// The command that repeats it.
    #[getter]
    fn command(&self) -> &str {
        &self.run.manifest.command
    }

    /// First seed; repetition r, counted from 0, uses seed + r.
    #[getter]
    fn seed(&self) -> u64 {
        self.run.manifest.seed
    }

    /// Repetitions of each cell.
    #[getter]
    fn reps(&self) -> u32 {
        self.run.manifest.reps
    }

    /// Ids of the drives, in the order asked for.
    #[getter]
    fn drives(&self) -> Vec<&str> {
        self.run.manifest.drives.iter().map(|d| d.id.as_str()).collect()
    }

    /// Names of the configurations, in the order asked for.
    #[getter]
    fn configs(&self) -> Vec<&str> {
        self.run.manifest.configs.iter().map(|c| c.id.as_str()).collect()
    }

    /// Ids of the workloads, in the order asked for.
    #[getter]
    fn workloads(&self) -> Vec<&str> {
        self.run.manifest.workloads.iter().map(|w| w.id.as_str()).collect()
    }

    /// Writes a run directory, as the command line does. An older one there is replaced, and files of others beside it stay.
    fn save(&self, py: Python<'_>, directory: PathBuf) -> PyResult<()> {
        let html = &self.html(py);
        py.detach(|| self.run.write(&directory, html)).map_err(errors::directory)
    }

    /// The report: one page with charts, tables and what was run.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| hoistway_lab::report::html::render(&self.run))
    }

    /// The report in another format: "html", "markdown", "control", "control-matrix" or "control-svg".
    fn report(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        let known = FORMATS.iter().find(|f| f.name == format);
        let unknown = || errors::wrong(format!("no format '{format}'; there are: {}", names()));
        let format = known.ok_or_else(unknown)?;
        Ok(py.detach(|| (format.render)(&self.run)))
    }

    /// The text of metrics.csv: nine significant digits.
    fn csv(&self) -> String {
        metrics_csv(&[&self.run])
    }

    fn _repr_html_(&self, py: Python<'_>) -> String {
        let page = self.html(py).replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe srcdoc=\"{page}\" style=\"width:100%;height:40em;border:0\"></iframe>")
    }

    fn __repr__(&self) -> String {
        let m = &self.run.manifest;
        format!(
            "<hoistway.Result {}: {} drives x {} configurations x {} workloads x {} repetitions>",
            m.experiment,
            m.drives.len(),
            m.configs.len(),
            m.workloads.len(),
            m.reps
        )
    }
}

/// Reads a run directory that the command line, save or hoistway in another version of the same layout has written.
///
/// Metrics are derived afresh from the records.
#[pyfunction]
pub fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Results> {
    let run = py.detach(|| Run::read(&directory)).map_err(errors::directory)?;
    Ok(Results { run })
}
