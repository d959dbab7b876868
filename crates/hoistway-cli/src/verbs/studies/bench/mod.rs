//! `hoistway bench`: which scheduler for this drive, within a limit of time.

#[cfg(all(feature = "live", target_os = "linux"))]
mod kernel;
mod setting;
mod text;

use super::recommend::stand;
use crate::common::known::Known;
use crate::common::output::print;
use crate::common::process::{program, stop_flag, threads};
use crate::common::terminal;
use crate::failure::{Failure, directory_failure, run_failure};
use clap::Args as ClapArgs;
use hoistway::Nanos;
use hoistway_lab::bench::outcome::outcome_json;
use hoistway_lab::bench::plan::{self, BenchPlan, BenchPlanError, Depends, Level, ROUNDS_MAX};
use hoistway_lab::bench::run::{self, BenchCallbacks, BenchPlace, BenchProgress, Ended, Outcome};
use hoistway_lab::bench::setting::{BenchAsked, Setting};
use hoistway_lab::bench::{record, subject};
use hoistway_lab::recommend::{Advice, Goal, RunSource, recommend as advise};
use hoistway_lab::registry::Registry;
use hoistway_lab::result::Run;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `hoistway bench`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 done, and the answer stands, 1 a run failed, or the data do not suffice for an answer, \
                        2 wrong usage, 3 the machine or the place does not allow it, 130 interrupted (the same command \
                        goes on)."
)]
pub struct Bench {
    /// Directory or block device of this machine, under the kernel's own schedulers
    #[arg(value_name = "PLACE", conflicts_with = "drive")]
    pub place: Option<PathBuf>,
    /// Simulated drives: names, or paths of drive files, separated by commas; all: every drive there is
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(crate::common::known::drives), hide_possible_values = true)]
    pub drive: Vec<String>,
    /// An answer in 5 minutes (the default)
    #[arg(long, group = "level")]
    pub quick: bool,
    /// The whole suite in 20 minutes
    #[arg(long, group = "level")]
    pub standard: bool,
    /// The whole suite with long runs and many rounds, in 2 hours
    #[arg(long, group = "level")]
    pub full: bool,
    /// Time for all of it; of simulated drives, processor time for each [default: the level's]
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Bytes that may be written to real storage [default: 32 GiB, 128 GiB, 1 TiB by level]
    #[arg(long, value_name = "SIZE")]
    pub write_budget: Option<String>,
    /// Rounds, at least 3 for an answer; more than a finished bench has add to it [default: as many as the time allows]
    #[arg(long, short_alias = 'r', value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(ROUNDS_MAX)))]
    pub rounds: Option<u32>,
    /// Configurations [default: every scheduler there is]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(crate::common::known::configs), hide_possible_values = true)]
    pub config: Vec<String>,
    /// First seed; round r has seed + r - 1
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// What is recommended at the end: desktop, server, throughput, share, or 'latency<TIME'
    #[arg(long = "for", value_name = "GOAL", default_value = "desktop")]
    pub goal: String,
    /// Allow this device, the one that is benched, to lose its data: without it workloads that write are left out
    #[arg(long, value_name = "DEVICE", hide_short_help = true)]
    pub yes_destroy_data: Option<PathBuf>,
    /// Folder to write; of several drives, a folder for each is made in it [default: runs/bench.WORLD.PLACE.LEVEL]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run everything again, also what is finished
    #[arg(long, conflicts_with = "dry_run")]
    pub fresh: bool,
    /// Print the plan; run, change and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every column of the table, however narrow the terminal
    #[arg(long, hide_short_help = true)]
    pub wide: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

impl Bench {
    fn level(&self) -> Level {
        match (self.standard, self.full) {
            (true, _) => Level::Standard,
            (_, true) => Level::Full,
            _ => Level::Quick,
        }
    }

    fn asked(&self) -> BenchAsked {
        BenchAsked {
            place: self.place.clone(),
            level: self.level(),
            time: self.time.clone(),
            writes: self.write_budget.clone(),
            rounds: self.rounds,
            configs: self.config.clone(),
            seed: self.seed,
            destroy: self.yes_destroy_data.clone(),
            registry: Registry::default(),
        }
    }
}

pub fn bench(options: &Bench) -> Result<(), Failure> {
    let goal = Goal::parse(&options.goal).map_err(|e| Failure::Usage(e.to_string()))?;
    if !options.drive.is_empty() && options.yes_destroy_data.is_some() {
        let what = "--yes-destroy-data: a simulated drive has no data to lose; leave it out";
        return Err(Failure::Usage(what.into()));
    }
    // All are planned before anything runs.
    let settings = setting::choose(options)?;
    let several = settings.len() > 1;
    let mut benches = Vec::new();
    for setting in settings {
        let request = options.asked().request(&setting).map_err(Failure::Usage)?;
        let check = |job: &hoistway_sim::world::Job<'_>| setting.check(job);
        let plan = plan::plan(&request, &setting.subject, &check).map_err(no_plan)?;
        let depends = match setting.assumed {
            true => plan::depends(&request, &setting.subject, &check).map_err(no_plan)?,
            false => Vec::new(),
        };
        let out = match &options.out {
            Some(out) if several => out.join(&setting.name),
            Some(out) => out.clone(),
            None => setting.usual_place(options.level()),
        };
        if options.out.is_some() && !options.dry_run {
            record::may_write(&out).map_err(directory_failure)?;
        }
        benches.push(Planned { setting, plan, depends, out });
    }
    if options.dry_run {
        return print(&dry_run(options, &benches));
    }
    let mut done = Vec::new();
    for planned in &benches {
        done.push(one(options, &goal, planned)?);
    }
    if options.json {
        let all: Vec<Value> = done.iter().map(|d| d.json.clone()).collect();
        print(&format!("{:#}\n", if several { Value::from(all) } else { all[0].clone() }))?;
    } else if several {
        print(&format!("\n{}", text::answers(&done)))?;
    }
    if done.iter().all(|d| d.stands) { Ok(()) } else { Err(Failure::No) }
}

/// A bench that is planned.
struct Planned {
    setting: Setting,
    plan: BenchPlan,
    /// Parts that run only if the drive writes at some rates.
    depends: Vec<Depends>,
    out: PathBuf,
}

/// A bench that is done.
pub struct Done {
    /// The drive.
    pub name: String,
    /// Its answers; none where the runs do not tell what is asked.
    pub advice: Vec<Advice>,
    /// An answer stands.
    pub stands: bool,
    /// Everything about it.
    pub json: Value,
}

fn dry_run(options: &Bench, benches: &[Planned]) -> String {
    if options.json {
        let one = |b: &Planned| text::plan_json(&b.plan, &b.depends, &b.setting);
        let all: Vec<Value> = benches.iter().map(one).collect();
        return format!("{:#}\n", if all.len() > 1 { Value::from(all) } else { all[0].clone() });
    }
    let one = |b: &Planned| text::plan(&b.plan, &b.depends, &b.setting);
    let all: Vec<String> = benches.iter().map(one).collect();
    all.join("\n") + "nothing was run, changed or written\n"
}

/// Carries one bench out.
fn one(options: &Bench, goal: &Goal, planned: &Planned) -> Result<Done, Failure> {
    let Planned { setting, plan, depends, out } = planned;
    eprint!("{}", text::plan(plan, depends, setting));
    if !setting.root {
        let what = "nothing was run: choosing schedulers needs root; run the command with sudo";
        return Err(Failure::Environment(what.into()));
    }
    let outcome = run_plan(options, plan, setting, out)?;
    if !options.json {
        print(&text::outcome(plan, &outcome, out, crate::common::table::limit(options.wide)))?;
    }
    let (advice, why) = recommend(options, goal, &outcome)?;
    let (kept, all) = outcome.kept;
    if outcome.ended == Ended::Interrupted {
        return Err(Failure::Interrupted(format!(
            "interrupted; {} complete rounds are in {}, {kept} of {all} runs are kept, and the same command goes on \
             from there",
            outcome.rounds,
            out.display()
        )));
    }
    let json = outcome_json(plan, &outcome, out, &advice, why.as_deref());
    let stands = !advice.is_empty() && stand(&advice);
    Ok(Done { name: setting.name.clone(), advice, stands, json })
}

fn no_plan(error: BenchPlanError) -> Failure {
    match error {
        BenchPlanError::Run(error) => run_failure(error),
        BenchPlanError::Environment(what) => Failure::Environment(what),
        error => Failure::Usage(error.to_string()),
    }
}

fn run_plan(
    options: &Bench,
    plan: &BenchPlan,
    setting: &Setting,
    out: &Path,
) -> Result<Outcome, Failure> {
    let threads = threads(options.jobs);
    let stop = stop_flag()?;
    let program = program();
    let mut rows = subject::suite_rows(options.level().name());
    rows.push(("bench_command".into(), options.asked().command(setting)));
    rows.extend(setting.rows.iter().cloned());
    let place = BenchPlace {
        out,
        program: &program,
        target: &setting.target,
        fresh: options.fresh,
        rows: &rows,
    };
    let bar = terminal::bar(options.quiet, 0, "[{bar:40}] {msg}");
    let told = |text: &str| bar.suspend(|| eprintln!("{text}"));
    // Real storage is measured on the wall clock; nothing that is simulated sees it.
    #[expect(clippy::disallowed_methods, reason = "the limit of time is one of the wall clock")]
    let begun = Instant::now();
    let clock = || begun.elapsed().as_secs_f64();
    let progress = |p: BenchProgress| {
        bar.set_length(p.total as u64);
        bar.set_position(p.done as u64);
        let left = p.left.map_or_else(String::new, |s| {
            format!(", {} left", plan::duration(Nanos((s * 1e9) as u64)))
        });
        bar.set_message(format!(
            "round {} of {}, run {} of {}{left}",
            p.round, p.rounds, p.done, p.total
        ));
    };
    let callbacks = BenchCallbacks { clock: &clock, progress: &progress, told: &told };
    let outcome = run::run(plan, &*setting.world, threads, &place, &stop, &callbacks);
    bar.finish_and_clear();
    outcome.map_err(run_failure)
}

/// What follows from it, as `hoistway recommend` says it, or why nothing does.
fn recommend(
    options: &Bench,
    goal: &Goal,
    outcome: &Outcome,
) -> Result<(Vec<Advice>, Option<String>), Failure> {
    if outcome.runs.is_empty() {
        return Ok((Vec::new(), None));
    }
    let source = |(dir, run): &(PathBuf, Run)| RunSource {
        name: dir.display().to_string(),
        run: run.clone(),
    };
    let sources: Vec<RunSource> = outcome.runs.iter().map(source).collect();
    let (advice, why) = match advise(&sources, goal, None) {
        Ok(advice) => (advice, None),
        // What was measured does not tell what is asked: the table stands all the same.
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    if !options.json {
        print(&match &why {
            None => format!("\n{}", super::recommend::show(&advice, options.wide)),
            Some(why) => format!("\nno recommendation: {why}\n"),
        })?;
    }
    Ok((advice, why))
}
