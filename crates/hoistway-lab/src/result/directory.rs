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

use super::kept::{compress, plain};
use super::room::{self, Meter, Room, Together};
use super::{Cell, Manifest, Metric, Name, Rep, Run, csv, derive, histograms, records};
use crate::words::unquoted;
use flate2::read::GzDecoder;
use hoistway_files::input::{self, Limit, ReadError};
use hoistway_files::{Dir, Kind, Place, PlaceError};
use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

mod exchange;

pub use exchange::holds_runs;

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
    /// A file is none, or longer than its kind may be.
    Refused(ReadError),
    /// There is something of others in the place of the directory, or on the way there.
    InTheWay(PlaceError),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            DirectoryError::Content { path, what } => write!(f, "{}: {what}", path.display()),
            DirectoryError::Refused(error) => error.fmt(f),
            DirectoryError::InTheWay(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DirectoryError {}

impl From<ReadError> for DirectoryError {
    fn from(error: ReadError) -> DirectoryError {
        match error {
            ReadError::Io { path, error } => DirectoryError::Io { path, error },
            other => DirectoryError::Refused(other),
        }
    }
}

impl From<PlaceError> for DirectoryError {
    fn from(error: PlaceError) -> DirectoryError {
        match error {
            PlaceError::Io { path, error } => DirectoryError::Io { path, error },
            error => DirectoryError::InTheWay(error),
        }
    }
}

type DirectoryResult<T> = std::result::Result<T, DirectoryError>;

/// A manifest has a few KiB for each drive, configuration and workload.
const MANIFEST: Limit = Limit { what: "the manifest of a run", bytes: 4 << 20 };

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

/// Writes a file of the records: none of them is in memory as a whole.
type RecordWriter = fn(&[Cell], &mut dyn Write) -> io::Result<()>;

/// Writes a file as it comes, compressed if its name says so.
fn put_written(
    dir: &Dir,
    name: &str,
    ours: Kind,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> DirectoryResult<()> {
    let place = dir.place(name)?;
    let mut draft = BufWriter::new(place.draft(ours)?);
    let io = |error| PlaceError::Io { path: place.path(), error };
    match name.ends_with(".gz") {
        true => compress(&mut draft, write),
        false => write(&mut draft),
    }
    .map_err(io)?;
    Ok(draft.into_inner().map_err(|e| io(e.into_error()))?.finish()?)
}

impl Run {
    /// Reads a run directory; metrics are derived afresh from the records.
    pub fn read(dir: &Path) -> DirectoryResult<Run> {
        Run::read_among(dir, &Together::default())
    }

    /// The same, where the memory of all runs that are read has one limit.
    pub fn read_among(dir: &Path, together: &Together) -> DirectoryResult<Run> {
        let manifest_path = dir.join(MANIFEST_FILE);
        let text = input::text(&manifest_path, MANIFEST)?;
        together.manifest(text.len()).map_err(|what| content(&manifest_path, what))?;
        let manifest: Manifest = toml::from_str(&text).map_err(|e| {
            let line = 1 + text[..e.span().map_or(0, |s| s.start)].matches('\n').count();
            content(&manifest_path, format!("line {line}: {}", unquoted(e.message())))
        })?;
        if manifest.schema != super::SCHEMA {
            let what = format!(
                "schema {} is not the {} that this version reads; use the version that wrote it ({})",
                manifest.schema,
                super::SCHEMA,
                manifest.version
            );
            return Err(content(&manifest_path, what));
        }
        Ok(derive(manifest, read_cells(dir, together)?))
    }

    /// Is there nothing at `dir`, an empty folder, or an older run?
    ///
    /// # Errors
    ///
    /// [`DirectoryError::InTheWay`] of whatever else, a link too.
    pub fn may_write(dir: &Path) -> DirectoryResult<()> {
        match Place::of(dir) {
            // It is made with those above it.
            Err(e) if e.kind() == Some(io::ErrorKind::NotFound) => Ok(()),
            place => Ok(exchange::check(&place?)?),
        }
    }

    /// Writes everything. What an older run has written there is replaced; what somebody has put beside it stays. Files
    /// are made in a folder beside it that is renamed at the end, so nobody ever sees half a run.
    pub fn write(&self, dir: &Path, html: &str) -> DirectoryResult<()> {
        let place = Place::make(dir)?;
        exchange::check(&place)?;
        let (part, folder) = place.new_beside("part", |part| part.make_dir(0o777))?;
        let made = folder.identity()?;
        let outcome = self.write_into(&folder, html);
        let outcome = outcome.and_then(|()| Ok(exchange::exchange(&place, &part, &folder)?));
        if outcome.is_err() {
            // The error that led here is the one to report.
            let _ = part.remove_tree(made);
        }
        outcome
    }

    fn write_into(&self, dir: &Dir, html: &str) -> DirectoryResult<()> {
        let put = |dir: &Dir, name: &str, bytes: &[u8]| -> DirectoryResult<()> {
            Ok(dir.place(name)?.replace(bytes, Kind::New)?)
        };
        let manifest = toml::to_string(&self.manifest)
            .map_err(|e| content(&dir.path().join(MANIFEST_FILE), e.to_string()))?;
        put(dir, MANIFEST_FILE, manifest.as_bytes())?;
        let records = dir.place(RECORDS)?.make_dir(0o777)?;
        let tables: [(&str, RecordWriter); 5] = [
            ("histograms.json.gz", histograms::histograms_json),
            ("intervals.csv.gz", records::intervals_csv),
            ("marks.csv", records::marks_csv),
            ("monitor.csv.gz", records::monitor_csv),
            ("files.csv", records::files_csv),
        ];
        for (name, table) in tables {
            put_written(&records, name, Kind::New, |out| table(&self.cells, out))?;
        }
        self.derived_into(dir, html)
    }

    /// Whether [`Run::write_derived`] would find its way free.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::InTheWay`] where something of others bears the name of a derived file.
    pub fn may_write_derived(dir: &Path) -> DirectoryResult<()> {
        let dir = Dir::open(dir)?;
        for name in DERIVED {
            dir.place(name)?.may_replace(Kind::Named)?;
        }
        Ok(dir.may_change()?)
    }

    /// Writes what is computed from the records: `metrics.csv`, `series.csv.gz`, `report.html`.
    pub fn write_derived(&self, dir: &Path, html: &str) -> DirectoryResult<()> {
        self.derived_into(&Dir::open(dir)?, html)
    }

    fn derived_into(&self, dir: &Dir, html: &str) -> DirectoryResult<()> {
        let [metrics, series, report] = DERIVED;
        put_written(dir, metrics, Kind::Named, |out| write_metrics(&[self], out))?;
        put_written(dir, series, Kind::Named, |out| self.series_csv(out))?;
        // What an older version wrote would be out of date beside it.
        let old = dir.place(OLD_SERIES)?;
        if old.may_replace(Kind::Named).is_ok() {
            old.remove_file()?;
        }
        Ok(dir.place(report)?.replace(html.as_bytes(), Kind::Named)?)
    }

    /// Throughput over time of every process and the device, in MB/s.
    fn series_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        records::table(out, SERIES_COLUMNS, &self.cells, |out, cell, number, rep| {
            self.push_series(out, cell, number, rep);
        })
    }

    fn push_series(&self, out: &mut String, cell: &Cell, number: &str, rep: &Rep) {
        let experiment = &self.manifest.experiment;
        let place: [&str; 5] = [experiment, &cell.drive, &cell.config, &cell.workload, number];
        for monitor in &rep.monitor {
            let key = monitor.key();
            for (at, value) in &monitor.points {
                let (at, value) = (at.to_string(), value.to_string());
                let what = [&at, &key, &monitor.unit, &value];
                csv::push_line(out, place.into_iter().chain(what.map(String::as_str)));
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
                csv::push_line(out, place.into_iter().chain([&*at, name, "MB/s", &rate]));
            }
        }
    }
}

/// `metrics.csv` of these runs, with its header.
pub fn metrics_csv(runs: &[&Run]) -> String {
    let text = plain(|out| write_metrics(runs, out));
    String::from_utf8(text).expect("it was written as text")
}

/// The same, cell by cell: a grid of thousands of runs has megabytes of it.
fn write_metrics(runs: &[&Run], out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    csv::push_line(&mut text, METRIC_COLUMNS.iter().copied());
    for run in runs {
        for cell in &run.cells {
            run.rows_of(cell).iter().for_each(|m| push_metric(&mut text, m));
            out.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    // Without a row, the header.
    out.write_all(text.as_bytes())
}

fn push_metric(text: &mut String, m: &Metric) {
    let value = m.value.map_or_else(String::new, number_text);
    let rep = m.rep.map_or_else(String::new, |r| r.to_string());
    let (cell, of) = ([&m.drive, &m.config, &m.workload], [&*m.metric, m.unit, &value, &rep]);
    let names = std::iter::once(&m.experiment).chain(cell).map(Name::as_str);
    csv::push_line(text, names.chain(of).chain([m.source.as_str(), m.bound.sign()]));
}

/// A number with at most nine significant digits and no exponent.
pub fn number_text(value: f64) -> String {
    let rounded: f64 = format!("{value:.8e}").parse().unwrap_or(value);
    format!("{rounded}")
}

fn read_cells(dir: &Path, together: &Together) -> DirectoryResult<Vec<Cell>> {
    let room = Room::new(together);
    let (path, source) = record(dir, "histograms.json", &room)?;
    let read = histograms::read_histograms(source, &room);
    let mut cells = read.map_err(|what| content(&path, what))?;
    let mut add = |name: &str, read: Reader| -> DirectoryResult<()> {
        room.begin_file();
        let (path, mut source) = record(dir, name, &room)?;
        read(&mut source, &mut cells, &room).map_err(|what| content(&path, what))
    };
    add("intervals.csv", records::read_intervals)?;
    add("marks.csv", records::read_marks)?;
    add("monitor.csv", records::read_monitor)?;
    add("files.csv", records::read_files)?;
    Ok(cells)
}

/// Adds a file of the records to the cells.
type Reader = fn(&mut dyn BufRead, &mut [Cell], &Room) -> std::result::Result<(), String>;

/// A file of the records, compressed or not, and where it is.
fn record<'a>(
    dir: &Path,
    name: &str,
    room: &'a Room,
) -> DirectoryResult<(PathBuf, Box<dyn BufRead + 'a>)> {
    let limit = Limit { what: "the records of a run", bytes: room::TEXT_MAX };
    let path = dir.join("records").join(format!("{name}.gz"));
    let (path, source): (PathBuf, Box<dyn Read>) = match input::sized(&path, limit) {
        Ok(file) => (path, Box::new(GzDecoder::new(BufReader::new(file)))),
        Err(error) if error.is_missing() => {
            let plain = path.with_extension("");
            let file = input::sized(&plain, limit)?;
            (plain, Box::new(file))
        }
        Err(error) => return Err(error.into()),
    };
    Ok((path, Box::new(BufReader::new(Meter::new(source, room)))))
}

/// The name of a folder beside `dir`, hidden.
pub(super) fn beside_name(dir: &Path, what: &str) -> PathBuf {
    let name = dir.file_name().map_or_else(|| "run".into(), |n| n.to_string_lossy().into_owned());
    dir.with_file_name(format!(".{name}.{what}"))
}

fn content(path: &Path, what: impl Into<String>) -> DirectoryError {
    DirectoryError::Content { path: path.into(), what: what.into() }
}

const MANIFEST_FILE: &str = "run.toml";
const RECORDS: &str = "records";
const DERIVED: [&str; 3] = ["metrics.csv", "series.csv.gz", "report.html"];
const OLD_SERIES: &str = "series.csv";
