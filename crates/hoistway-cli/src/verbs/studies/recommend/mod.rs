//! `hoistway recommend`: one configuration from runs, how sure it is, and the lines to install.

mod json;
mod markdown;
pub mod rules;
mod text;
mod words;

use crate::common::known::Known;
use crate::common::output::print;
use crate::common::run_dirs::directories_below;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway_lab::recommend::{Advice, GOALS, Goal, Match, RunSource, recommend as advise};
use hoistway_lab::result::{Run, Together};
use std::path::PathBuf;
use text::Shown;

/// Every goal at once.
const ALL: &str = "all";

pub fn goals() -> Vec<&'static str> {
    [&GOALS[..], &[ALL]].concat()
}

/// `hoistway recommend`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 the answer stands (also \"no difference\"), 1 there is not enough data, nothing \
                        keeps the limits, or --rules could not write all of it, 2 wrong usage."
)]
pub struct Recommend {
    /// Run directories, or folders of them such as a bench directory
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// What is asked for: desktop, server, throughput, share, or 'latency<TIME', such as 'latency<5ms'; all: a table of
    /// all drives by goals
    #[arg(long = "for", value_name = "GOAL", default_value = "desktop")]
    #[arg(value_parser = Known(goals), hide_possible_values = true)]
    pub goal: String,
    /// The configuration that is in force now [default: what the runs say of the machine, else the simplest]
    #[arg(long, value_name = "CONFIG")]
    pub present: Option<String>,
    /// What the udev rule is for: this model, or every drive of this class
    #[arg(long, value_name = "WHAT", default_value = "model", value_parser = ["model", "class"])]
    pub rule_for: String,
    /// Write the udev rule and what belongs to it into this folder, with scripts that install and undo it: all that was
    /// measured, or nothing
    #[arg(long, value_name = "DIR")]
    pub rules: Option<PathBuf>,
    /// With --rules: a service that gets a weight, a latency target or limits, where the recommendation has some
    #[arg(long, value_name = "NAME[=WEIGHT]", requires = "rules", hide_short_help = true)]
    pub service: Vec<String>,
    /// Print every workload
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print a page in Markdown, to paste
    #[arg(long, conflicts_with_all = ["json", "all"])]
    pub markdown: bool,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with = "json")]
    pub wide: bool,
}

impl Recommend {
    fn by(&self) -> Match {
        if self.rule_for == "class" { Match::Class } else { Match::Model }
    }

    fn shown(&self) -> Shown {
        Shown { workloads: self.all, wide: self.wide, by: self.by() }
    }
}

pub fn recommend(options: &Recommend) -> Result<(), Failure> {
    let usage = |e: &dyn std::fmt::Display| Failure::Usage(e.to_string());
    if options.goal == ALL {
        return matrix(options);
    }
    let goal = Goal::parse(&options.goal).map_err(|e| usage(&e))?;
    rules::check(options.rules.as_deref())?;
    let sources = read(&options.runs)?;
    let all = advise(&sources, &goal, options.present.as_deref()).map_err(|e| usage(&e))?;
    let text = match (options.json, options.markdown) {
        (true, _) => json::json(&all, options.by()),
        (_, true) => markdown::pages(&all, options.by()),
        _ => text::text(&all, options.shown()),
    };
    print(&text)?;
    if let Some(folder) = &options.rules {
        rules::write(&all, options.by(), &options.service, folder)?;
    }
    if stand(&all) { Ok(()) } else { Err(Failure::No) }
}

/// `--for all`: a row for each drive, a column for each goal. A goal that the runs do not tell of is left out.
fn matrix(options: &Recommend) -> Result<(), Failure> {
    if options.rules.is_some() {
        let what = "--rules installs the answer to one goal: name it with --for";
        return Err(Failure::Usage(what.into()));
    }
    let sources = read(&options.runs)?;
    let (mut goals, mut untold) = (Vec::new(), Vec::new());
    for name in GOALS {
        let goal = Goal::parse(name).map_err(|e| Failure::Usage(e.to_string()))?;
        match advise(&sources, &goal, options.present.as_deref()) {
            Ok(all) => goals.push((name.to_string(), all)),
            Err(error) => untold.push((name, error.to_string())),
        }
    }
    if let ([], Some((_, error))) = (&goals[..], untold.first()) {
        return Err(Failure::Usage(error.clone()));
    }
    let table = markdown::matrix(&goals);
    let each = goals.iter().map(|(name, all)| (name.as_str(), json::value(all, options.by())));
    let text = match (options.json, options.markdown) {
        (true, _) => json::goals(each),
        (_, true) => table.markdown(),
        _ => table.fit(crate::common::table::limit(options.wide), &[]),
    };
    untold.iter().for_each(|(name, error)| eprintln!("left out: {name}: {error}"));
    print(&text)?;
    if goals.iter().all(|(_, all)| stand(all)) { Ok(()) } else { Err(Failure::No) }
}

/// Is there an answer for every drive? What the exit code says, of `bench` too.
pub fn stand(all: &[Advice]) -> bool {
    all.iter().all(|a| a.answer.config().is_some())
}

/// The runs of these directories and folders of directories.
pub fn read(paths: &[PathBuf]) -> Result<Vec<RunSource>, Failure> {
    let (mut sources, together) = (Vec::new(), Together::default());
    for path in paths {
        for dir in directories_below(path)? {
            let run =
                Run::read_among(&dir, &together).map_err(|e| Failure::Usage(e.to_string()))?;
            sources.push(RunSource { name: dir.display().to_string(), run });
        }
    }
    Ok(sources)
}

/// Prints what is recommended from these directories, for whoever has just made them.
pub fn show(advice: &[Advice], wide: bool) -> String {
    text::text(advice, Shown { workloads: false, wide, by: Match::Model })
}
