//! `hoistway report`: what is computed from the records of runs, afresh.

use crate::args::Report;
use crate::results::results;
use crate::table::limit;
use crate::{Failure, print};
use hoistway_lab::report::{self, FORMATS};
use hoistway_lab::result::Run;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub fn report(options: &Report) -> Result<(), Failure> {
    // All are read before anything is written.
    let runs: Vec<(&PathBuf, Run)> =
        options.dirs.iter().map(|dir| Ok((dir, read(dir)?))).collect::<Result<_, Failure>>()?;
    let mut out = String::new();
    for (dir, run) in &runs {
        let page = report::html::render(run);
        run.write_derived(dir, &page).map_err(|e| Failure::Failed(e.to_string()))?;
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
        for (dir, run) in &runs {
            // Charts of several runs have the same names.
            let own = dir.file_name().filter(|_| several);
            let folder = own.map_or_else(|| folder.clone(), |name| folder.join(name));
            let count = write_charts(run, &folder)?;
            // With a format, stdout is that file.
            match options.format {
                Some(_) => eprintln!("{count} charts: {}", folder.display()),
                None => writeln!(out, "{count} charts: {}", folder.display()).expect("a string"),
            }
        }
    }
    print(&out)
}

fn read(dir: &Path) -> Result<Run, Failure> {
    if !dir.join("run.toml").is_file() {
        let what = "is not a run directory (it has no run.toml)";
        return Err(Failure::Usage(format!("{} {what}", dir.display())));
    }
    Run::read(dir).map_err(|e| Failure::Failed(e.to_string()))
}

/// Every chart of a run as a file; how many.
fn write_charts(run: &Run, folder: &Path) -> Result<usize, Failure> {
    let failed = |path: &Path, e: std::io::Error| {
        Failure::Environment(format!("{}: {e}; choose a writable place with --svg", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let charts = report::export::svg(run);
    for (name, text) in &charts {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
    }
    Ok(charts.len())
}
