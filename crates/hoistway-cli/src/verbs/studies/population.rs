//! `hoistway population`: configurations on random drives under random loads.

use crate::common::known::Known;
use crate::common::lists::chosen;
use crate::common::output::{self, print};
use crate::common::process::{program, stop_flag, threads};
use crate::common::table::{Table, three};
use crate::common::terminal;
use crate::failure::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use hoistway_files::Kind;
use hoistway_lab::config::Config;
use hoistway_lab::population::summary::{self, MEASURES, Measure, PART_NAMES, PARTS};
use hoistway_lab::population::{
    Case, Finished, Half, PopulationError, PopulationPlan, Question, REFERENCE, quantiles,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What is compared when nothing else is said.
const USUAL: &[&str] = &["none-bfq", "prop-bfq", "mq-deadline", "kyber", "lat-none", "cost-none"];

/// `hoistway population`.
#[derive(Debug, ClapArgs)]
pub struct Population {
    /// Cases: a random drive under a random load each
    #[arg(long, value_name = "N", default_value_t = 200)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub cases: u32,
    /// Seed of the population and of its runs
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Which numbers the cases have: design (even, to tune by), report (odd, to judge by) or all
    #[arg(long, value_name = "HALF", value_enum, default_value = "all")]
    pub half: HalfArg,
    /// Configurations beside none-none, against which everything is told
    /// [default: none-bfq,prop-bfq,mq-deadline,kyber,lat-none,cost-none]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(crate::common::known::configs), hide_possible_values = true)]
    pub config: Vec<String>,
    /// Run only the case of this number, and print its figures
    #[arg(long, value_name = "K", conflicts_with_all = ["cases", "half", "worst"])]
    pub case: Option<u32>,
    /// Name so many of the worst cases by each measure
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub worst: u16,
    /// Of this configuration [default: the last of them]
    #[arg(long, value_name = "CONFIG")]
    pub of: Option<String>,
    /// Print the drive file of case K and run nothing
    #[arg(long, value_name = "K", conflicts_with_all = ["case", "print_load"])]
    pub print_drive: Option<u32>,
    /// Print the load of case K as an experiment file and run nothing
    #[arg(long, value_name = "K", conflicts_with = "case")]
    pub print_load: Option<u32>,
    #[command(flatten)]
    pub kept: KeptCases,
}

/// Where finished cases are kept, how they are run, and in which form they are told.
#[derive(Debug, ClapArgs)]
pub struct KeptCases {
    /// Keep finished cases in this folder, and go on from those that are there; tables are written to it as well
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print every row as CSV instead of tables
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print everything as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `--half`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HalfArg {
    /// Every number
    All,
    /// Even numbers
    Design,
    /// Odd numbers
    Report,
}

impl HalfArg {
    pub(super) fn half(self) -> Half {
        match self {
            HalfArg::All => Half::All,
            HalfArg::Design => Half::Design,
            HalfArg::Report => Half::Report,
        }
    }
}

pub fn population(options: &Population) -> Result<(), Failure> {
    if let Some(number) = options.print_drive {
        return print(&Case::draw(options.seed, number).drive_text);
    }
    if let Some(number) = options.print_load {
        return print(&Case::draw(options.seed, number).experiment.text);
    }
    let configs = configs(&options.config, USUAL)?;
    let names: Vec<String> = configs.iter().map(|c| c.id.clone()).collect();
    let of = judged(options, &names)?;
    let numbers = match options.case {
        Some(number) => vec![number],
        None => options.half.half().numbers(options.cases),
    };
    let key = format!("{}\nseed {}\n", program(), options.seed);
    let keep = options.kept.out.clone().map(|dir| (dir, key));
    let plan = PopulationPlan { seed: options.seed, numbers, configs, keep };
    let stop = stop_flag()?;
    let bar = terminal::bar(
        options.kept.quiet,
        plan.numbers.len(),
        "{pos}/{len} cases [{bar:40}] {eta} left",
    );
    let done = plan.run(threads(options.kept.jobs), &stop, &|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let cases = done.map_err(|e| failure(e, options.kept.out.as_deref()))?;
    let mut shown = vec![REFERENCE.to_string()];
    shown.extend(names);
    if let Some(dir) = &options.kept.out {
        write(dir, &cases, &shown, options)?;
    }
    if options.kept.csv {
        return print(&summary::csv(&cases, &shown));
    }
    if options.kept.json {
        return print(&format!("{:#}\n", summary::json(&cases, &shown, options.seed)));
    }
    match options.case {
        Some(_) => print(&one(&cases[0], &shown)),
        None => print(&text(&cases, &shown, &of, usize::from(options.worst))),
    }
}

/// Those beside the reference.
pub(super) fn configs(given: &[String], usual: &[&str]) -> Result<Vec<Config>, Failure> {
    let usual: Vec<String> = usual.iter().map(|c| (*c).to_string()).collect();
    let mut all: Vec<Config> = Vec::new();
    for text in chosen(given, &usual, "configuration")? {
        let config = Config::parse(&text).map_err(|e| Failure::Usage(e.to_string()))?;
        if all.iter().any(|c| c.id == config.id) {
            return Err(Failure::Usage(format!("configuration '{}' is given twice", config.id)));
        }
        if config.id != REFERENCE {
            all.push(config);
        }
    }
    Ok(all)
}

/// Whose worst cases are named.
fn judged(options: &Population, names: &[String]) -> Result<String, Failure> {
    match &options.of {
        None => Ok(names.last().cloned().unwrap_or_else(|| REFERENCE.into())),
        Some(of) if of == REFERENCE || names.contains(of) => Ok(of.clone()),
        Some(of) => {
            let known = names.join(", ");
            Err(Failure::Usage(format!("--of {of}: it does not run; there are: {known}")))
        }
    }
}

fn failure(error: PopulationError, out: Option<&Path>) -> Failure {
    match error {
        PopulationError::Config(e) => Failure::Usage(e.to_string()),
        PopulationError::Keep { what } => Failure::Environment(what),
        PopulationError::InTheWay { what } => Failure::Usage(format!("--out {what}")),
        PopulationError::Interrupted => Failure::Interrupted(match out {
            Some(dir) => format!(
                "interrupted; finished cases are in {}, and the same command goes on from there",
                dir.display()
            ),
            None => "interrupted; nothing was written".into(),
        }),
        error => Failure::Failed(error.to_string()),
    }
}

fn write(
    dir: &Path,
    cases: &[Finished],
    shown: &[String],
    options: &Population,
) -> Result<(), Failure> {
    // It holds the cases, and so is ours.
    let file = |name: &str, text: &str| output::write("--out", &dir.join(name), text, Kind::Named);
    file("population.csv", &summary::csv(cases, shown))?;
    file("population.json", &format!("{:#}\n", summary::json(cases, shown, options.seed)))
}

/// Everything about the population.
fn text(cases: &[Finished], shown: &[String], of: &str, worst: usize) -> String {
    let weights = cases.iter().filter(|c| c.question == Question::Weights).count();
    let latency = cases.len() - weights;
    let mut out = format!("{} cases: {latency} of latency, {weights} of weights\n", cases.len());
    for measure in MEASURES {
        if let Some(table) = distribution(cases, shown, measure) {
            let _ = write!(out, "\n{}\n{table}", measure.title);
        }
    }
    let _ = write!(out, "\n{of} by class of drive\n{}", classes(cases, of));
    let demands = summary::demands(cases, of);
    if !demands.is_empty() {
        let mut table =
            Table::new(&[&format!("{of} over this population"), "is", "demanded", ""], 1);
        for d in demands {
            let met = if d.met() { "met" } else { "not met" };
            let limit = format!("{} {}", if d.at_most { "<=" } else { ">=" }, three(d.limit));
            table.row(vec![d.what.clone(), three(d.is), limit, met.into()]);
        }
        let _ = write!(out, "\n{}", table.render());
    }
    for measure in MEASURES.iter().filter(|_| worst > 0) {
        let list = summary::worst(cases, of, measure, worst);
        if list.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{of}, worst by {}", measure.title);
        for (case, value) in list {
            let Finished { number, class, around, load, .. } = case;
            let value = three(value);
            let _ = writeln!(out, "  case {number:<5} {value:>7}  {class} ({around}): {load}");
        }
    }
    out
}

fn distribution(cases: &[Finished], shown: &[String], measure: &Measure) -> Option<String> {
    let mut table = Table::new(&[&["configuration", "cases"], &PART_NAMES[..]].concat(), 1);
    let mut any = false;
    for config in shown {
        let values = summary::distribution(cases, config, measure);
        let parts = quantiles(&values, &PARTS);
        if parts.is_empty() {
            continue;
        }
        any = true;
        let head = [config.clone(), values.len().to_string()];
        table.row(head.into_iter().chain(parts.into_iter().map(three)).collect());
    }
    any.then(|| table.render())
}

/// A line per class: throughput and latency.
fn classes(cases: &[Finished], of: &str) -> String {
    let heads = ["class", "cases", "kept: p5", "median", "mean over lone: median", "p90", "max"];
    let mut table = Table::new(&heads, 1);
    for (class, cases) in summary::by_class(cases) {
        let values = |measure: usize, parts: &[f64]| {
            let values = summary::distribution(&cases, of, &MEASURES[measure]);
            match quantiles(&values, parts) {
                found if found.is_empty() => vec!["-".to_string(); parts.len()],
                found => found.into_iter().map(three).collect(),
            }
        };
        let head = vec![class.to_string(), cases.len().to_string()];
        let parts = [values(0, &[0.05, 0.5]), values(2, &[0.5, 0.9, 1.0])].concat();
        table.row([head, parts].concat());
    }
    table.render()
}

/// One case in full.
fn one(case: &Finished, shown: &[String]) -> String {
    let mut out = format!(
        "case {}: {} drive around {}\n{}\n\n",
        case.number, case.class, case.around, case.load
    );
    let heads = [
        "configuration",
        "MB/s",
        "kept %",
        "others %",
        "mean ms",
        "p99",
        "max",
        "mean/lone",
        "p99/lone",
        "share error",
    ];
    let mut table = Table::new(&heads, 1);
    let ms = |t: Option<f64>| t.map_or_else(|| "-".into(), |t| three(t / 1e6));
    if let Some(alone) = case.runs.get("alone") {
        let mut row = vec!["alone".into(), three(alone.total / 1e6), "-".into(), "-".into()];
        row.extend([ms(alone.mean), ms(alone.p99), ms(alone.max)]);
        row.extend(vec!["-".to_string(); 3]);
        table.row(row);
    }
    for config in shown {
        let (Some(run), Some(worth)) = (case.runs.get(config), case.worth(config)) else {
            continue;
        };
        let number = |v: Option<f64>| v.map_or_else(|| "-".into(), three);
        table.row(vec![
            config.clone(),
            three(run.total / 1e6),
            three(100.0 * worth.total),
            three(100.0 * worth.others),
            ms(run.mean),
            ms(run.p99),
            ms(run.max),
            number(worth.mean),
            number(worth.p99),
            number(worth.share_error),
        ]);
    }
    out.push_str(&table.render());
    out
}
