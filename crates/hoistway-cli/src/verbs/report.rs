//! `hoistway report`: what is computed from the records of runs, afresh.

use crate::common::output::{Folder, check_folder, print};
use crate::common::results::results;
use crate::common::run_dirs::directories_below;
use crate::common::table::limit;
use crate::failure::{Failure, directory_failure};
use clap::Args as ClapArgs;
use hoistway_files::{Dir, Kind};
use hoistway_lab::report::{self, FORMATS};
use hoistway_lab::result::Run;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn formats() -> clap::builder::PossibleValuesParser {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().into()
}

/// `hoistway report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// Run directories, or folders of them such as a bench directory
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Also write every chart of the report into this folder, one SVG file each. (For PNG use the buttons in
    /// the report)
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Print the run in this format instead of tables: html is the report page, markdown its tables to paste
    /// into an issue
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<String>,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long)]
    pub wide: bool,
}

pub fn report(options: &Report) -> Result<(), Failure> {
    check_folder("--svg", options.svg.as_deref(), is_ours)?;
    // All are read before anything is written.
    let dirs: Vec<Vec<PathBuf>> =
        options.dirs.iter().map(|dir| directories_of(dir)).collect::<Result<_, Failure>>()?;
    let dirs = dirs.into_iter().flatten();
    let runs: Vec<(PathBuf, Run)> =
        dirs.map(|dir| Ok((dir.clone(), read(&dir)?))).collect::<Result<_, Failure>>()?;
    for (dir, _) in &runs {
        Run::may_write_derived(dir).map_err(directory_failure)?;
    }
    let mut out = String::new();
    for (dir, run) in &runs {
        let page = report::html::render(run);
        run.write_derived(dir, &page).map_err(directory_failure)?;
        match FORMATS.iter().find(|f| Some(f.name) == options.format.as_deref()) {
            Some(format) => out.push_str(&(format.render)(run)),
            None => {
                out.push_str(&results(run, limit(options.wide)));
                let _ = writeln!(out, "\nreport: {}", dir.join("report.html").display());
            }
        }
    }
    if let Some(folder) = &options.svg {
        let several = runs.len() > 1;
        let all = Folder::open("--svg", folder, is_ours)?;
        for (dir, run) in &runs {
            // Charts of several runs have the same names, and so have the runs of several benches.
            let alike =
                runs.iter().filter(|(other, _)| other.file_name() == dir.file_name()).count();
            let bench = dir.parent().and_then(Path::file_name).filter(|_| alike > 1);
            let own = dir.file_name().filter(|_| several);
            let mut into = None;
            for name in bench.into_iter().chain(own) {
                into = Some(into.as_ref().unwrap_or(&all).folder(name)?);
            }
            let into = into.as_ref().unwrap_or(&all);
            let (count, folder) = (write_charts(run, into)?, into.path());
            // With a format, stdout is that file.
            match options.format {
                Some(_) => eprintln!("{count} charts: {}", folder.display()),
                None => writeln!(out, "{count} charts: {}", folder.display()).expect("a string"),
            }
        }
    }
    print(&out)
}

/// A run directory, or those in a folder.
fn directories_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    directories_below(path).map_err(|_| {
        let what = "is not a run directory (it has no run.toml), nor a folder of some";
        Failure::Usage(format!("{} {what}", path.display()))
    })
}

fn read(dir: &Path) -> Result<Run, Failure> {
    Run::read(dir).map_err(|e| Failure::Usage(e.to_string()))
}

/// Every chart of a run as a file; how many.
fn write_charts(run: &Run, folder: &Folder<'_>) -> Result<usize, Failure> {
    let charts = report::export::svg(run);
    for (name, text) in &charts {
        folder.write(name, text.as_bytes(), CHART)?;
    }
    Ok(charts.len())
}

/// A chart, as this version begins it, and as an earlier one did.
const CHART: Kind = Kind::Begins(&[
    b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- Made by hoistway -->",
    b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg role=\"img\" viewBox=\"0 0 ",
]);

/// Whether an earlier version has written charts into a folder, and nobody anything else.
fn is_ours(dir: &Dir) -> bool {
    let names = dir.names().unwrap_or_default();
    names.iter().all(|name| {
        let name = name.to_str().unwrap_or_default();
        name.ends_with(".svg") && dir.holds(name, CHART)
    })
}
