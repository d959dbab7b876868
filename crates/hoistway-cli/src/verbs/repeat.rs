//! `hoistway repeat`: a run once more, from the command in its run.toml, and whether the same bytes come out.

use crate::common::asked::simulation;
use crate::common::output::print;
use crate::common::process::stop_flag;
use crate::common::run_dirs::read;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_files::Scratch;
use hoistway_lab::result::Run;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `hoistway repeat`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Run it in the folder in which the run was made, if its command names files of yours. Exit codes: 0 the \
                        same bytes, 1 other bytes, 2 wrong usage."
)]
pub struct Repeat {
    /// Run directory of the simulator
    #[arg(value_name = "RUN")]
    pub dir: PathBuf,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn repeat(options: &Repeat) -> Result<(), Failure> {
    let run = read(&options.dir)?;
    let words = repeatable(&run).map_err(|why| {
        Failure::Usage(format!("{}: {why}", options.dir.join("run.toml").display()))
    })?;
    let scratch = Scratch::new("repeat").map_err(|e| Failure::Environment(e.to_string()))?;
    let anew = scratch.path().join("run");
    run_again(&words, options.jobs, &anew)?;
    let files = compared(&options.dir, &anew)?;
    let same = files.iter().all(|(_, same)| *same);
    print(&match options.json {
        true => json(&run, &files),
        false => text(&run, &files),
    })?;
    if same { Ok(()) } else { Err(Failure::No) }
}

/// The words of the command behind `hoistway`, if they ask for nothing but a simulation.
fn repeatable(run: &Run) -> Result<Vec<String>, String> {
    let manifest = &run.manifest;
    if manifest.world != "sim" {
        return Err(format!(
            "only runs of the simulator are repeated, and this is one of the world {}",
            manifest.world
        ));
    }
    simulation(&manifest.command, &["compare", "run", "replay"])
}

/// The command, into a directory of its own.
fn run_again(words: &[String], jobs: Option<u16>, out: &Path) -> Result<(), Failure> {
    // Ctrl-C reaches the child, too; this process stays to remove what was made.
    stop_flag()?;
    let program = std::env::current_exe()
        .map_err(|e| Failure::Environment(format!("this program's own file: {e}")))?;
    let mut command = Command::new(program);
    command.args(words).arg("--quiet").arg("--out").arg(out).stdout(Stdio::null());
    if let Some(jobs) = jobs {
        command.arg("--jobs").arg(jobs.to_string());
    }
    let ended = command
        .status()
        .map_err(|e| Failure::Environment(format!("this program once more: {e}")))?;
    match ended.code() {
        Some(0) => Ok(()),
        Some(2) => Err(Failure::Usage("the run could not begin again".into())),
        Some(130) | None => Err(Failure::Interrupted("nothing was compared".into())),
        Some(_) => Err(Failure::Failed("the run did not end well this time".into())),
    }
}

/// The files of both directories by name, and whether they are equal.
fn compared(old: &Path, new: &Path) -> Result<Vec<(String, bool)>, Failure> {
    let failed = |e: io::Error| Failure::Environment(format!("{}: {e}", old.display()));
    let mut names = names_of(new, "").map_err(failed)?;
    names.extend(names_of(&new.join("records"), "records/").map_err(failed)?);
    // What only the old one has are records; beside them somebody may keep notes.
    names.extend(names_of(&old.join("records"), "records/").map_err(failed)?);
    let equal = |name: &String| Ok((name.clone(), same(&old.join(name), &new.join(name))?));
    names.iter().map(equal).collect::<io::Result<_>>().map_err(failed)
}

/// The files of a folder.
fn names_of(folder: &Path, before: &str) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.insert(format!("{before}{}", entry.file_name().to_string_lossy()));
        }
    }
    Ok(names)
}

/// Whether two files have the same bytes; one that is not there equals none.
fn same(old: &Path, new: &Path) -> io::Result<bool> {
    let (Some(old), Some(new)) = (opened(old)?, opened(new)?) else { return Ok(false) };
    if old.metadata()?.len() != new.metadata()?.len() {
        return Ok(false);
    }
    let (old, new) = (BufReader::new(old), BufReader::new(new));
    for (a, b) in old.bytes().zip(new.bytes()) {
        if a? != b? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn opened(path: &Path) -> io::Result<Option<File>> {
    match std::fs::metadata(path) {
        // Opening a pipe would wait for a writer.
        Ok(it) if it.is_file() => File::open(path).map(Some),
        Ok(_) => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn text(run: &Run, files: &[(String, bool)]) -> String {
    let mut out = format!("{}\n", run.manifest.command);
    let others: Vec<&str> =
        files.iter().filter(|(_, same)| !same).map(|(name, _)| name.as_str()).collect();
    if others.is_empty() {
        let _ = writeln!(out, "same bytes: {} files", files.len());
        return out;
    }
    let _ = writeln!(
        out,
        "other bytes: {} of {} files: {}",
        others.len(),
        files.len(),
        others.join(", ")
    );
    if others.iter().all(|name| !name.starts_with("records/")) {
        out += "The records are the same; what is computed from them differs (`hoistway report` computes it anew).\n";
    } else {
        out += "Run the command with --out DIR, and `hoistway diff` says what differs.\n";
    }
    let now = env!("CARGO_PKG_VERSION");
    if run.manifest.version != now {
        let _ = writeln!(out, "It was made by version {}; this is {now}.", run.manifest.version);
    }
    out
}

fn json(run: &Run, files: &[(String, bool)]) -> String {
    let files: Vec<_> = files
        .iter()
        .map(|(name, same)| serde_json::json!({ "name": name, "same": same }))
        .collect();
    let same = files.iter().all(|file| file["same"] == true);
    let told = serde_json::json!({
        "schema": 1,
        "command": run.manifest.command,
        "version": run.manifest.version,
        "same": same,
        "files": files,
    });
    format!("{told:#}\n")
}
