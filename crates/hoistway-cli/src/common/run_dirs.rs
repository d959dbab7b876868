//! Run directories that are named.

use crate::failure::Failure;
use hoistway_lab::result::Run;
use std::path::{Path, PathBuf};

/// The run in a directory.
pub fn read(dir: &Path) -> Result<Run, Failure> {
    if !dir.join("run.toml").exists() {
        let what = format!("{} is not a run directory (it has no run.toml)", dir.display());
        return Err(Failure::Usage(what));
    }
    Run::read(dir).map_err(|e| Failure::Usage(e.to_string()))
}

/// A run directory itself, or those directly below a folder, by name.
pub fn directories(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    // What a run writes is hidden until it is whole.
    let hidden =
        |dir: &Path| dir.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    let is_run = |dir: &Path| !hidden(dir) && dir.join("run.toml").exists();
    if path.join("run.toml").exists() {
        return Ok(vec![path.to_path_buf()]);
    }
    if path.is_file() {
        return Err(Failure::Usage(format!(
            "{0} is a file; a run directory is needed: `hoistway replay {0}` makes one from a trace, `hoistway compare \
             --job {0}` from a fio job",
            path.display()
        )));
    }
    let entries =
        std::fs::read_dir(path).map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))?;
    let mut found: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| is_run(p)).collect();
    found.sort();
    if found.is_empty() {
        let what = "is neither a run directory (it has no run.toml) nor a folder of some";
        return Err(Failure::Usage(format!("{} {what}", path.display())));
    }
    Ok(found)
}

/// The same, or those of the folders in a folder: of several benches.
pub fn directories_below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let error = match directories(path) {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let entries = std::fs::read_dir(path).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    folders.sort();
    let below: Vec<PathBuf> = folders
        .iter()
        .filter(|f| f.is_dir())
        .filter_map(|f| directories(f).ok())
        .flatten()
        .collect();
    if below.is_empty() { Err(error) } else { Ok(below) }
}
