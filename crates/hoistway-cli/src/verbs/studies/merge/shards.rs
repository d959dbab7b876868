//! Parts of one grid, run by `hoistway compare --shard` on as many machines as there are, become one run directory.

use super::Merge;
use crate::args::{Args, Command};
use crate::common::asked::simulation;
use crate::common::process::program;
use crate::common::runs::{carry_out, kept_of};
use crate::common::worlds::choose;
use crate::failure::{Failure, directory_failure};
use crate::verbs::compare::{Compare, one_grid};
use clap::Parser;
use hoistway_lab::result::kept::KeptElsewhere;
use hoistway_lab::run::Grid;
use hoistway_lab::words::counted;
use std::path::{Path, PathBuf};

/// The folders, if they are finished runs; `None` if none of them is.
pub fn shards(dirs: &[PathBuf]) -> Result<Option<Vec<(&Path, KeptElsewhere)>>, Failure> {
    let mut parts = Vec::new();
    let mut other = None;
    for dir in dirs {
        match KeptElsewhere::open(dir).map_err(directory_failure)? {
            Some(part) => parts.push((dir.as_path(), part)),
            None => other = Some(dir),
        }
    }
    match (parts.first(), other) {
        (None, _) => Ok(None),
        (Some(_), None) => Ok(Some(parts)),
        (Some((part, _)), Some(other)) => Err(Failure::Usage(format!(
            "{} holds finished runs of a part, and {} is a run directory or a folder; merge either alone",
            part.display(),
            other.display()
        ))),
    }
}

/// Puts the parts together and prints what the whole command would have printed.
pub fn put_together(options: &Merge, parts: &[(&Path, KeptElsewhere)]) -> Result<(), Failure> {
    if options.goal.is_some() || options.against.is_some() || options.apart {
        let what =
            "--for, --against and --apart are about run directories; these are parts of one run";
        return Err(Failure::Usage(what.into()));
    }
    let (first, part) = &parts[0];
    if let Some((other, _)) = parts.iter().find(|(_, other)| other.key() != part.key()) {
        return Err(Failure::Usage(format!(
            "{} and {} are parts of different commands, or of different builds of hoistway: see the file `key` in each",
            first.display(),
            other.display()
        )));
    }
    let compare = command(first, part, options)?;
    let chosen = choose(&compare.common)?;
    let grid = one_grid(&compare, &chosen)?;
    if grid.key(&*chosen.world, &program()).trim_end() != part.key().trim_end() {
        return Err(Failure::Usage(format!(
            "{}: this build of hoistway, or the files that the command names here, are not those of the parts: {}",
            first.display(),
            part.command()
        )));
    }
    let kept = kept_of(&grid, &compare.common, &chosen)?;
    for (dir, part) in parts {
        if let Some(index) = part.copy_to(&kept, grid.len()).map_err(directory_failure)? {
            return Err(Failure::Failed(format!(
                "{}: another part has other bytes for the same run of {}; one of the machines does not compute right",
                dir.display(),
                grid.cell_of(index)
            )));
        }
    }
    let missing: Vec<usize> = (0..grid.len()).filter(|&i| kept.load(i).is_none()).collect();
    if !missing.is_empty() {
        return Err(Failure::Usage(lacking(&grid, &missing, part.command())));
    }
    carry_out(vec![grid], &compare.common, &chosen, &|_| String::new())
}

/// The options of the command, with those of this one.
fn command(dir: &Path, part: &KeptElsewhere, options: &Merge) -> Result<Compare, Failure> {
    let place = dir.join("key").display().to_string();
    let words = simulation(part.command(), &["compare"])
        .map_err(|why| Failure::Usage(format!("{place}: {why}")))?;
    let words = std::iter::once("hoistway".to_string()).chain(words);
    let args = Args::try_parse_from(words)
        .map_err(|e| Failure::Usage(format!("{place}: its command cannot be read: {e}")))?;
    let Command::Compare(mut compare) = args.command else {
        return Err(Failure::Usage(format!("{place}: its command is not `hoistway compare`")));
    };
    if compare.job.flag().is_some() {
        return Err(Failure::Usage(format!(
            "{place}: its command runs fio jobs, which have no parts"
        )));
    }
    let common = &mut compare.common;
    common.out.clone_from(&options.out);
    (common.json, common.wide, common.quiet) = (options.json, options.wide, true);
    Ok(*compare)
}

fn lacking(grid: &Grid, missing: &[usize], command: &str) -> String {
    let mut cells: Vec<String> = missing.iter().map(|&i| grid.cell_of(i)).collect();
    cells.dedup();
    let more = match cells.len() {
        n if n > 3 => format!(" and {} more", n - 3),
        _ => String::new(),
    };
    cells.truncate(3);
    format!(
        "{} of {} are missing: {}{more}. Merge all parts at once, or run what is missing: {command} --shard K/N",
        counted(missing.len(), "run"),
        grid.len(),
        cells.join(", ")
    )
}
