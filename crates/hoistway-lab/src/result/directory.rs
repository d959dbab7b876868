//! The run directory: written as a whole or not at all, and read back exactly.
//!
//! ```text
//! run.toml                  the manifest
//! records/histograms.json.gz   per cell and repetition: processes, device, figures
//! records/intervals.csv.gz     throughput series
//! records/marks.csv            marks of the loads
//! records/monitor.csv.gz       gauges of schedulers and controllers over time
//! records/files.csv            what the cgroup files print at the end
//! metrics.csv  series.csv.gz  report.html     derived
//! ```
//!
//! What grows with the number of runs and their length is compressed; of records, the same name without
//! `.gz` is read as well.

use super::kept::{compressed, expanded};
use super::{Cell, Manifest, Metric, Rep, Run, csv, derive, records};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a run directory cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The file system says no.
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// A file does not hold what it should.
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is something else in the place of the directory.
    InTheWay {
        /// The place.
        path: PathBuf,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            DirectoryError::Content { path, what } => write!(f, "{}: {what}", path.display()),
            DirectoryError::InTheWay { path } => write!(
                f,
                "{} exists and is not a run directory; choose another place with --out",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DirectoryError {}

type Result<T> = std::result::Result<T, DirectoryError>;

/// Header of `metrics.csv`; the first seven columns are those of the published table.
pub const METRIC_COLUMNS: &[&str] = &[
    "experiment",
    "drive",
    "config",
    "workload",
    "metric",
    "unit",
    "value",
    "rep",
    "source",
    "bound",
];

const SERIES_COLUMNS: &[&str] =
    &["experiment", "drive", "config", "workload", "rep", "t_ns", "name", "unit", "value"];

impl Run {
    /// Reads a run directory; metrics are derived afresh from the records.
    pub fn read(dir: &Path) -> Result<Run> {
        let manifest_path = dir.join("run.toml");
        let manifest: Manifest = toml::from_str(&read(&manifest_path)?)
            .map_err(|e| content(&manifest_path, e.to_string().trim().replace('\n', " ")))?;
        if manifest.schema != super::SCHEMA {
            let what = format!(
                "schema {} is not the {} that this version reads; use the version that wrote it ({})",
                manifest.schema,
                super::SCHEMA,
                manifest.version
            );
            return Err(content(&manifest_path, what));
        }
        Ok(derive(manifest, read_cells(dir)?))
    }

    /// Is there nothing at `dir`, an empty folder, or an older run?
    pub fn may_write(dir: &Path) -> Result<()> {
        let free = match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_none() || dir.join("run.toml").is_file(),
            Err(e) => e.kind() == io::ErrorKind::NotFound,
        };
        if free { Ok(()) } else { Err(DirectoryError::InTheWay { path: dir.into() }) }
    }

    /// Writes everything; what stood there before is replaced as a whole. Files are made in a folder
    /// beside it that is renamed at the end, so nobody ever sees half a run.
    pub fn write(&self, dir: &Path, html: &str) -> Result<()> {
        Run::may_write(dir)?;
        let temporary = beside(dir, "part");
        let outcome = self.write_into(&temporary, html).and_then(|()| replace(dir, &temporary));
        if outcome.is_err() {
            // Best effort: the error that led here is the one to report.
            let _ = fs::remove_dir_all(&temporary);
        }
        outcome
    }

    fn write_into(&self, dir: &Path, html: &str) -> Result<()> {
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(|e| io_error(dir, e))?;
        }
        let records = dir.join("records");
        fs::create_dir_all(&records).map_err(|e| io_error(&records, e))?;
        let manifest = toml::to_string(&self.manifest)
            .map_err(|e| content(&dir.join("run.toml"), e.to_string()))?;
        write(&dir.join("run.toml"), &manifest)?;
        write_gz(&records.join("histograms.json.gz"), &records::histograms_json(&self.cells))?;
        write_gz(&records.join("intervals.csv.gz"), &records::intervals_csv(&self.cells))?;
        write(&records.join("marks.csv"), &records::marks_csv(&self.cells))?;
        write_gz(&records.join("monitor.csv.gz"), &records::monitor_csv(&self.cells))?;
        write(&records.join("files.csv"), &records::files_csv(&self.cells))?;
        self.write_derived(dir, html)
    }

    /// Writes what is computed from the records: `metrics.csv`, `series.csv.gz`, `report.html`.
    pub fn write_derived(&self, dir: &Path, html: &str) -> Result<()> {
        let file = |name: &str, bytes: &[u8]| -> Result<()> {
            let part = dir.join(format!("{name}.part"));
            fs::write(&part, bytes).map_err(|e| io_error(&part, e))?;
            fs::rename(&part, dir.join(name)).map_err(|e| io_error(&dir.join(name), e))
        };
        file("metrics.csv", metrics_csv(&self.metrics).as_bytes())?;
        file("series.csv.gz", &compressed(self.series_csv().as_bytes()))?;
        // What an older version wrote would be out of date beside it.
        let _ = fs::remove_file(dir.join("series.csv"));
        file("report.html", html.as_bytes())
    }

    /// Throughput over time of every process and the device, in MB/s.
    fn series_csv(&self) -> String {
        let mut out = String::new();
        csv::push_line(&mut out, SERIES_COLUMNS.iter().copied());
        for cell in &self.cells {
            for (i, rep) in cell.reps.iter().enumerate() {
                self.push_series(&mut out, cell, i + 1, rep);
            }
        }
        out
    }

    fn push_series(&self, out: &mut String, cell: &Cell, number: usize, rep: &Rep) {
        let number = number.to_string();
        for monitor in &rep.monitor {
            let key = monitor.key();
            for (at, value) in &monitor.points {
                let (at, value) = (at.to_string(), value.to_string());
                let place =
                    [&self.manifest.experiment, &cell.drive, &cell.config, &cell.workload, &number];
                let what = [&at, &key, &monitor.unit, &value];
                csv::push_line(out, place.into_iter().chain(what).map(String::as_str));
            }
        }
        for (name, intervals) in &super::series_of(rep) {
            for (i, interval) in intervals.iter().enumerate() {
                // The length is the distance to the next one; the last partial interval is not kept.
                let end = intervals.get(i + 1).map_or(rep.measured, |next| next.at);
                let length = end.0.saturating_sub(interval.at.0);
                if length == 0 {
                    continue;
                }
                let rate = number_text(interval.bytes as f64 * 1e3 / length as f64);
                let at = interval.at.0.to_string();
                csv::push_line(
                    out,
                    [
                        &self.manifest.experiment,
                        &cell.drive,
                        &cell.config,
                        &cell.workload,
                        &number,
                        &at,
                        name,
                        "MB/s",
                        &rate,
                    ],
                );
            }
        }
    }
}

/// `metrics.csv` with its header.
pub fn metrics_csv(metrics: &[Metric]) -> String {
    let mut out = String::new();
    csv::push_line(&mut out, METRIC_COLUMNS.iter().copied());
    for m in metrics {
        let value = m.value.map_or_else(String::new, number_text);
        let rep = m.rep.map_or_else(String::new, |r| r.to_string());
        csv::push_line(
            &mut out,
            [
                m.experiment.as_str(),
                &m.drive,
                &m.config,
                &m.workload,
                &m.metric,
                &m.unit,
                &value,
                &rep,
                &m.source,
                m.bound.sign(),
            ],
        );
    }
    out
}

/// A number with at most nine significant digits and no exponent.
pub fn number_text(value: f64) -> String {
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    format!("{rounded}")
}

fn read_cells(dir: &Path) -> Result<Vec<Cell>> {
    let (path, text) = record(dir, "histograms.json")?;
    let mut cells = records::read_histograms(&text).map_err(|what| content(&path, what))?;
    let mut add = |name: &str, read: Reader| -> Result<()> {
        let (path, text) = record(dir, name)?;
        read(&text, &mut cells).map_err(|what| content(&path, what))
    };
    add("intervals.csv", records::read_intervals)?;
    add("marks.csv", records::read_marks)?;
    add("monitor.csv", records::read_monitor)?;
    add("files.csv", records::read_files)?;
    Ok(cells)
}

/// Adds a file of the records to the cells.
type Reader = fn(&str, &mut [Cell]) -> std::result::Result<(), String>;

/// A file of the records, compressed or not, and where it is.
fn record(dir: &Path, name: &str) -> Result<(PathBuf, String)> {
    let path = dir.join("records").join(format!("{name}.gz"));
    match fs::read(&path) {
        Ok(bytes) => {
            let text = expanded(&bytes).map_err(|e| io_error(&path, e))?;
            Ok((path, text))
        }
        Err(_) => {
            let plain = path.with_extension("");
            let text = read(&plain)?;
            Ok((plain, text))
        }
    }
}

/// A folder beside `dir`, hidden, of this process.
fn beside(dir: &Path, what: &str) -> PathBuf {
    beside_name(dir, &format!("{what}-{}", std::process::id()))
}

/// A folder beside `dir`, hidden.
pub(super) fn beside_name(dir: &Path, what: &str) -> PathBuf {
    let name = dir.file_name().map_or_else(|| "run".into(), |n| n.to_string_lossy().into_owned());
    dir.with_file_name(format!(".{name}.{what}"))
}

/// Puts `new` in the place of `dir`.
fn replace(dir: &Path, new: &Path) -> Result<()> {
    if !dir.exists() {
        return fs::rename(new, dir).map_err(|e| io_error(dir, e));
    }
    let old = beside(dir, "old");
    fs::rename(dir, &old).map_err(|e| io_error(dir, e))?;
    if let Err(e) = fs::rename(new, dir) {
        // Put the old one back; the error that led here is the one to report.
        let _ = fs::rename(&old, dir);
        return Err(io_error(dir, e));
    }
    fs::remove_dir_all(&old).map_err(|e| io_error(&old, e))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| io_error(path, e))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|e| io_error(path, e))
}

fn write_gz(path: &Path, text: &str) -> Result<()> {
    fs::write(path, compressed(text.as_bytes())).map_err(|e| io_error(path, e))
}

pub(super) fn io_error(path: &Path, error: io::Error) -> DirectoryError {
    DirectoryError::Io { path: path.into(), error }
}

fn content(path: &Path, what: impl Into<String>) -> DirectoryError {
    DirectoryError::Content { path: path.into(), what: what.into() }
}
