//! `hoistway merge`: runs of one suite from many machines, per class and model of drives; parts of one comparison.

mod shards;

use super::recommend::{goals, rules};
use crate::common::known::Known;
use crate::common::output::{self, Folder, print};
use crate::common::run_dirs::directories;
use crate::common::table::{Table, limit};
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_files::{Dir, Kind};
use hoistway_lab::merge::{Bench, Group, MACHINES_MIN, Merged, merge as put_together};
use hoistway_lab::recommend::goal::Aspect;
use hoistway_lab::recommend::{Advice, Goal, Recommendation, RunSource};
use hoistway_lab::report::merged as page;
use hoistway_lab::result::{Run, Together};
use hoistway_lab::words::counted;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// `hoistway merge`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "A machine is one unit, however many rounds it measured; fewer than 3 machines are no evidence. \
                        Exit codes: 0 done, 2 wrong usage: not run directories, or not of one suite and version (see --apart)."
)]
pub struct Merge {
    /// Bench directories, run directories, or folders of them: what each machine sent. Or the folders that `hoistway
    /// compare --shard` printed: parts of one run directory
    #[arg(required = true, value_name = "RUN-DIR")]
    pub dirs: Vec<PathBuf>,
    /// What is asked for: desktop, server, throughput, share, or 'latency<TIME' [default: desktop]
    #[arg(long = "for", value_name = "GOAL")]
    #[arg(value_parser = Known(goals), hide_possible_values = true)]
    pub goal: Option<String>,
    /// The configuration to compare with [default: what is in force on most machines]
    #[arg(long, value_name = "CONFIG")]
    pub against: Option<String>,
    /// Show runs of different suites or versions apart instead of refusing them
    #[arg(long)]
    pub apart: bool,
    /// Write the report: a page (FILE.html), or a folder with the page, the udev rules and the scripts. Of parts: the run
    /// directory
    #[arg(long, short, value_name = "FILE|DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with = "json")]
    pub wide: bool,
}

pub fn merge(options: &Merge) -> Result<(), Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
    if let Some(parts) = shards::shards(&options.dirs)? {
        return shards::put_together(options, &parts);
    }
    let goal = Goal::parse(options.goal.as_deref().unwrap_or("desktop")).map_err(|e| usage(&e))?;
    match options.out.as_deref() {
        Some(out) if is_page(out) => output::check(OUT, Some(out), Kind::Marked)?,
        out => output::check_folder(OUT, out, is_ours)?,
    }
    let mut benches = Vec::new();
    let together = Together::default();
    for path in &options.dirs {
        read(path, &mut benches, &together)?;
    }
    let all = put_together(&benches, &goal, options.against.as_deref(), options.apart)
        .map_err(|e| usage(&e))?;
    let text = match options.json {
        true => json(&all),
        false => all.iter().map(|m| text(m, options.wide)).collect::<Vec<_>>().join("\n"),
    };
    print(&text)?;
    match &options.out {
        Some(out) => write(&all, out),
        None => Ok(()),
    }
}

/// The benches at a path: a run directory, a folder of them, or a folder of such folders.
fn read(path: &Path, benches: &mut Vec<Bench>, together: &Together) -> Result<(), Failure> {
    let deeper = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        let folders = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir());
        let mut folders: Vec<PathBuf> = folders.filter(|p| directories(p).is_ok()).collect();
        folders.sort();
        folders
    };
    let dirs = match directories(path) {
        Ok(dirs) => dirs,
        Err(e) => {
            let folders = deeper();
            if folders.is_empty() {
                return Err(e);
            }
            return folders.iter().try_for_each(|f| read(f, benches, together));
        }
    };
    let source = |dir: &PathBuf| {
        let run = Run::read_among(dir, together).map_err(|e| Failure::Usage(e.to_string()))?;
        Ok(RunSource { name: dir.display().to_string(), run })
    };
    let sources = dirs.iter().map(source).collect::<Result<Vec<_>, Failure>>()?;
    benches.push(Bench { name: path.display().to_string(), sources });
    Ok(())
}

/// `--out` names a page, not a folder.
fn is_page(out: &Path) -> bool {
    out.extension().is_some_and(|e| e == "html")
}

/// Whether an earlier version has merged into a folder.
fn is_ours(dir: &Dir) -> bool {
    dir.holds(REPORT, Kind::Marked)
}

const OUT: &str = "--out";
/// The page in a folder.
const REPORT: &str = "report.html";

fn write(all: &[Merged], out: &Path) -> Result<(), Failure> {
    let html = page::render(all);
    if is_page(out) {
        output::write(OUT, out, &html, Kind::Marked)?;
        eprintln!("report: {}", out.display());
        return Ok(());
    }
    let folder = Folder::open(OUT, out, is_ours)?;
    folder.write(REPORT, html.as_bytes(), Kind::Marked)?;
    eprintln!("report: {}", out.join(REPORT).display());
    for (n, merged) in (1..).zip(all) {
        let (files, cannot) = merged.files();
        cannot.iter().for_each(|why| eprintln!("no rule: {why}"));
        if files.is_empty() {
            continue;
        }
        // Defaults of several suites would contradict each other.
        let own = if all.len() == 1 { None } else { Some(folder.folder(n.to_string())?) };
        rules::write_files(&files, own.as_ref().unwrap_or(&folder))?;
    }
    Ok(())
}

fn text(m: &Merged, wide: bool) -> String {
    let mut out =
        format!("{}, for {}: {}\n\n", m.suite, m.goal.name, counted(m.machines.len(), "drive"));
    let headings =
        ["drives", "machines", "models", "default", "how sure", "instead of", "what it changes"];
    let mut table = Table::new(&headings, 1);
    for group in &m.groups {
        table.row(page::summary(group).to_vec());
    }
    out.push_str(&table.fit(limit(wide), &["models", "what it changes"]));
    let _ = writeln!(out, "(fewer than {MACHINES_MIN} machines are no evidence)");
    for group in &m.groups {
        let Some(advice) = &group.advice else { continue };
        let _ = write!(out, "\n{}\n", details(group, advice, wide));
    }
    out.push_str(&notes(m));
    out
}

/// The configurations of a group, over the one compared with.
fn details(group: &Group, advice: &Advice, wide: bool) -> String {
    let base = &advice.field.configs[advice.base];
    let mut out = format!("{}, {}", group.name(), counted(group.machines.len(), "machine"));
    if !group.kernels.is_empty() {
        let _ = write!(out, ", Linux {}", group.kernels.join(", "));
    }
    if let Recommendation::NotEnough { why, more } = &advice.answer {
        let _ = write!(out, "\nnot enough data: {why} ({} more)", counted(*more, "machine"));
    }
    for q in advice.not_judged() {
        let (what, place) = (q.aspect.words(), &q.place);
        let _ = write!(
            out,
            "\nnot judged: {what} in {place}: the processors that emulate a drive were the limit"
        );
    }
    let (headings, rows) = page::configurations(group, advice);
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings, 1);
    rows.into_iter().for_each(|r| table.row(r));
    let spare = [Aspect::Processor, Aspect::SyncTail, Aspect::InteractiveTail, Aspect::Beside];
    out.push('\n');
    out.push_str(&table.fit(limit(wide), &spare.map(Aspect::words)));
    let _ = writeln!(
        out,
        "(over {base}'s, 99 % interval over machines; better, worse: machines that are sure of it by themselves; ruled out: those where it breaks a limit)"
    );
    for (machine, why) in &group.left_out {
        let _ = writeln!(out, "left out    machine {}: {why}", machine + 1);
    }
    out
}

fn notes(m: &Merged) -> String {
    let mut out = String::new();
    for why in m.files().1 {
        let _ = writeln!(out, "no rule     {why}");
    }
    for (n, machine) in (1..).zip(&m.machines) {
        for copy in &machine.copies {
            let _ = writeln!(
                out,
                "copy        {copy} holds the same records as {} and counts once",
                machine.benches[0]
            );
        }
        if machine.benches.len() > 1 {
            let sure = if machine.certain {
                ""
            } else {
                " (no serial number: the same model, size, processor and kernel)"
            };
            let _ = writeln!(out, "one drive   machine {n}: {}{sure}", machine.benches.join(", "));
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

fn json(all: &[Merged]) -> String {
    let group = |g: &Group| {
        let advice = g.advice.as_ref();
        let name = |c: usize| advice.map(|a| a.field.configs[c].clone());
        let rows = advice.map(|a| {
            let row = |c: usize| {
                let effects = a.effects(c).into_iter().map(|(aspect, x)| {
                    let (ratio, low, high) = page::figures(aspect, &x);
                    serde_json::json!({ "what": aspect.words(), "over": ratio, "low": low, "high": high })
                });
                let tally = g.tallies.get(c).copied().unwrap_or_default();
                serde_json::json!({
                    "config": a.field.configs[c], "effects": effects.collect::<Vec<_>>(),
                    "machines_better": tally.better, "machines_worse": tally.worse,
                    "machines_rule_out": tally.ruled_out,
                })
            };
            (0..a.field.configs.len()).map(row).collect::<Vec<_>>()
        });
        serde_json::json!({
            "drives": g.name(), "machines": g.machines.len(), "kernels": g.kernels, "models": g.models,
            "lack": g.lack,
            "answer": advice.map(|a| a.answer.word()),
            "default": advice.and_then(|a| a.answer.config()).and_then(name),
            "against": advice.and_then(|a| name(a.base)),
            "sureness": advice.map(|a| a.sureness.word()),
            "same_in_draws": advice.map(Advice::same),
            "left_out": g.left_out.iter().map(|(m, why)| serde_json::json!({ "machine": m + 1, "why": why })).collect::<Vec<_>>(),
            "configs": rows,
        })
    };
    let merged = |m: &Merged| {
        let machine = |x: &hoistway_lab::merge::Machine| {
            serde_json::json!({
                "benches": x.benches, "copies": x.copies, "model": x.identity.name(), "class": x.identity.class,
                "kernel": x.identity.kernel, "serial_hash": x.identity.serial,
            })
        };
        let (files, cannot) = m.files();
        serde_json::json!({
            "suite": m.suite.name, "world": m.suite.world, "version": m.suite.version, "goal": m.goal.name,
            "machines": m.machines.iter().map(machine).collect::<Vec<_>>(),
            "groups": m.groups.iter().map(group).collect::<Vec<_>>(),
            "files": files.iter().map(|f| serde_json::json!({ "path": f.path, "text": f.text })).collect::<Vec<_>>(),
            "cannot": cannot,
        })
    };
    let value =
        serde_json::json!({ "schema": 1, "suites": all.iter().map(merged).collect::<Vec<_>>() });
    format!("{value:#}\n")
}
