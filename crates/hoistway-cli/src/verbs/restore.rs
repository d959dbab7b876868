//! `hoistway restore`: what killed runs have left is put back.

use crate::common::output::print;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_machine::kernel::{Repair, Repaired, repair};
use serde_json::json;
use std::fmt::Write;

/// `hoistway restore`.
#[derive(Debug, ClapArgs)]
pub struct Restore {
    /// Say what would be put back, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn restore(options: &Restore) -> Result<(), Failure> {
    let found = repair(options.dry_run).map_err(|e| Failure::Environment(e.to_string()))?;
    print(&if options.json {
        as_json(&found, options.dry_run)
    } else {
        text(&found, options.dry_run)
    })?;
    if let Some(folder) = found.refused.iter().find(|refused| refused.is_folder) {
        return Err(Failure::Environment(folder.to_string()));
    }
    let problems = found.runs.iter().map(|run| run.problems.len()).sum::<usize>();
    match problems + found.refused.len() {
        0 => Ok(()),
        problems => Err(Failure::Failed(format!("{problems} things could not be put back"))),
    }
}

fn text(found: &Repair, dry_run: bool) -> String {
    let Repair { runs, refused } = found;
    if runs.is_empty() && refused.is_empty() {
        return "nothing to put back\n".into();
    }
    let mut out = String::new();
    for run in runs {
        let _ = writeln!(out, "{} (process {}){}", run.what, run.pid, state(run));
        let verb = match (run.alive, dry_run) {
            (true, _) => "will put back itself",
            (false, true) => "would put back",
            (false, false) => "put back",
        };
        for change in &run.changes {
            let _ = writeln!(out, "  {verb}: {change}");
        }
        for problem in &run.problems {
            let _ = writeln!(out, "  not put back: {problem}");
        }
        if run.kept && !run.problems.is_empty() {
            let file = run.file.display();
            let _ = writeln!(out, "  kept in mind by {file}: remove that once all is settled");
        }
    }
    for refused in refused {
        let _ = writeln!(out, "refused: {refused}");
    }
    out
}

fn state(run: &Repaired) -> &'static str {
    match (run.alive, run.rebooted) {
        (true, _) => " is at work",
        (false, true) => " ended with the machine: its files and folders are left",
        (false, false) => " was killed",
    }
}

fn as_json(found: &Repair, dry_run: bool) -> String {
    let runs = found.runs.iter().map(|run| {
        json!({
            "what": run.what,
            "pid": run.pid,
            "state_file": run.file.display().to_string(),
            "alive": run.alive,
            "rebooted": run.rebooted,
            "changes": run.changes,
            "problems": run.problems,
            "restored": !run.alive && !dry_run && run.problems.is_empty(),
        })
    });
    let refused = found.refused.iter().map(|refused| {
        json!({
            "state_file": refused.path.display().to_string(),
            "refused": refused.why,
            "restored": false,
        })
    });
    format!("{:#}\n", serde_json::Value::from(runs.chain(refused).collect::<Vec<_>>()))
}
