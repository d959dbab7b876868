//! Several worlds side by side: `compare --on linux --on sim`.
//!
//! Every world runs the same grid, with the same seeds, and writes its own run directory. The first one named is what
//! the others are compared with, by the quantities and the limits of [`hoistway_lab::validate`].

use super::Compare;
use crate::common::baseline;
use crate::common::beside::{SPARE, json, queues, table, verdict, versions};
use crate::common::grid::{Source, grid, load, plan};
use crate::common::lists::chosen;
use crate::common::modules::simulator_only;
use crate::common::options::Common;
use crate::common::output::{Folder, check_folder, print};
use crate::common::results::repetitions;
use crate::common::runs::{forget, note, preview, run_keeping};
use crate::common::table::limit;
use crate::common::worlds::{choose, leave_out};
use crate::failure::Failure;
use hoistway_files::Dir;
use hoistway_lab::grid::USUAL;
use hoistway_lab::result::{Run, holds_runs, metrics_csv};
use hoistway_lab::validate::rows;
use hoistway_lab::words::shell_word;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The runs of a world, one per experiment, and where they were written.
type OfWorld = (Vec<Run>, Vec<PathBuf>);

/// `compare` in several worlds.
pub fn compare(options: &Compare, worlds: &[String]) -> Result<(), Failure> {
    if let Some(flag) = options.job.flag() {
        let what = format!("{flag}: one world at a time; name one with --on");
        return Err(Failure::Usage(what));
    }
    simulator_only(&options.common)?;
    let named = options.experiment.clone().unwrap_or_else(|| USUAL.into());
    baseline::refuse(&options.common, "several worlds")?;
    let names = chosen(&[named], &[], "experiment")?;
    let out = options.common.out.as_deref();
    let is_ours = |dir: &Dir| holds_runs(dir, true);
    check_folder("--out", out, is_ours)?;
    if let (Some(out), false) = (out, options.common.dry_run) {
        Folder::open("--out", out, is_ours)?;
    }
    let (mut all, mut kept): (Vec<OfWorld>, Vec<_>) = (Vec::new(), Vec::new());
    for world in worlds {
        let common = of_world(&options.common, world);
        let picked = choose(&common)?;
        let mut grids = Vec::new();
        for name in &names {
            let source = Source { verb: "compare", name: &shell_word(name) };
            grids.push(grid(&plan(load(name)?, &options.config, &common, &picked, &source))?);
        }
        if common.dry_run {
            for grid in &mut grids {
                leave_out(&*picked.world, grid)?;
                print(&preview(grid, &*picked.world)?)?;
            }
            continue;
        }
        all.push(run_keeping(&mut grids, &common, &picked, &mut kept)?);
    }
    forget(&kept)?;
    if options.common.dry_run { Ok(()) } else { report(options, worlds, &all) }
}

/// What one of the worlds is asked for.
fn of_world(common: &Common, world: &str) -> Common {
    let fs = common.fs.clone().filter(|_| world.starts_with("linux"));
    let folder = world.replace(':', "-");
    let out = common.out.as_ref().map(|out| out.join(folder));
    Common { on: vec![world.to_string()], fs, out, ..common.clone() }
}

fn report(options: &Compare, worlds: &[String], all: &[OfWorld]) -> Result<(), Failure> {
    let names: Vec<&str> = worlds.iter().map(String::as_str).collect();
    let (reference, others) = names.split_first().expect("there are several worlds");
    if options.common.csv {
        let runs: Vec<&Run> = all.iter().flat_map(|(runs, _)| runs).collect();
        print(&metrics_csv(&runs))?;
    }
    let (first, behind) = all.split_first().expect("there are several worlds");
    let mut text = String::new();
    let mut documents = Vec::new();
    for (at, run) in first.0.iter().enumerate() {
        let beside: Vec<&Run> = behind.iter().map(|(runs, _)| &runs[at]).collect();
        let rows = rows(run, &beside);
        let quick = if run.manifest.quick { ", quick: a quarter of the time" } else { "" };
        let (title, reps) = (&run.manifest.title, run.manifest.reps);
        let _ = writeln!(text, "{title}; {}{quick}\n", repetitions(reps));
        text.push_str(&table(&rows, reference, others).fit(limit(options.common.wide), SPARE));
        let _ = writeln!(text, "(! beyond the limit)\n{}", verdict(&rows, others));
        let notes: Vec<String> =
            versions(run, &beside).into_iter().chain(queues(run, &beside)).collect();
        notes.iter().for_each(|note| text.push_str(&format!("! {note}\n\n")));
        documents.push(json(&rows, reference, others, &notes));
    }
    if options.common.json {
        let mut all = documents;
        let one = serde_json::json!({ "schema": 1, "experiments": &all });
        let value = if all.len() == 1 { all.remove(0) } else { one };
        print(&format!("{value:#}\n"))?;
    }
    if options.common.csv || options.common.json {
        let mut runs = all.iter().flat_map(|(runs, dirs)| runs.iter().zip(dirs));
        return runs.try_for_each(|(run, dir)| note(run, dir));
    }
    for dir in all.iter().flat_map(|(_, dirs)| dirs) {
        let _ = writeln!(text, "report: {}", dir.join("report.html").display());
    }
    print(&text)
}
