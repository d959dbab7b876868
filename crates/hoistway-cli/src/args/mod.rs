//! The arguments as data.

use crate::verbs;
use clap::{CommandFactory, Parser, Subcommand};

/// Compare Linux's I/O schedulers and controllers in a deterministic simulator or on real storage, and serve
/// storage through them.
#[derive(Debug, Parser)]
#[command(name = "hoistway", version, arg_required_else_help = true, infer_long_args = false)]
#[command(
    after_help = "Start with `hoistway compare`; `hoistway VERB --help` has the rest. Exit codes: 0 done, 1 failed, \
                  2 wrong usage, 3 environment, 130 interrupted."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs by what somebody wants.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Which scheduler", &["compare", "bench", "recommend", "what-if"]),
    ("Results", &["report", "diff", "repeat", "merge", "run"]),
    ("Drives and loads", &["calibrate", "emulate", "record", "describe", "replay"]),
    ("Serve storage", &["serve", "ctl", "top"]),
    ("Beside Linux", &["module", "linux", "differ", "replay-decisions", "validate"]),
    ("Research", &["reproduce", "population", "oracle"]),
    ("Help", &["list", "show", "restore", "completions"]),
];

/// The whole command line; its help lists verbs in groups, which clap has for options only.
pub fn command() -> clap::Command {
    let command = Args::command();
    let width = command.get_subcommands().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let mut verbs = String::new();
    for (group, names) in GROUPS {
        verbs += &format!("{group}:\n");
        // Without some of the features some verbs are not there.
        for verb in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            verbs += &format!("  {:width$}  {about}\n", verb.get_name());
        }
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{verbs}\nOptions:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run experiments under several configurations and compare the results
    Compare(Box<verbs::compare::Compare>),
    /// Recompute the metrics and the report of run directories from their records
    Report(verbs::report::Report),
    /// Run the command of a run directory again: the same bytes, or what differs
    Repeat(verbs::repeat::Repeat),
    /// Compare two run directories: differences in the settings, ratios of the results
    Diff(verbs::diff::Diff),
    /// What is more than the first result.
    #[cfg(feature = "studies")]
    #[command(flatten)]
    Study(verbs::studies::Study),
    /// What needs a real machine.
    #[cfg(all(feature = "live", target_os = "linux"))]
    #[command(flatten)]
    Live(verbs::live::Verb),
    /// List schedulers, controllers, drives, experiments, loads and configurations
    List(verbs::list::List),
    /// Show the tunables or parameters of one of them
    Show(verbs::show::Show),
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[cfg(test)]
mod tests;
