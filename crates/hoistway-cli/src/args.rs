//! The arguments as data.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use hoistway_lab::report::FORMATS;
use std::ffi::OsStr;
use std::path::PathBuf;

/// Any text; completion scripts know these names. What is accepted is decided where it is read: paths, lists
/// and names with settings in braces are more than the names.
#[derive(Clone)]
pub struct Known(pub fn() -> Vec<&'static str>);

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let not_text = || clap::Error::new(clap::error::ErrorKind::InvalidUtf8).with_cmd(command);
        value.to_str().map(str::to_string).ok_or_else(not_text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

fn experiments() -> Vec<&'static str> {
    hoistway_lab::experiment::Experiment::ids().collect()
}

fn drives() -> Vec<&'static str> {
    hoistway_sim::drive::DriveFile::ids()
}

/// Configurations: those with a name, and schedulers alone.
pub fn configs() -> Vec<&'static str> {
    hoistway_lab::config::all_names(hoistway::sched::SCHEDULERS).collect()
}

/// Linux's I/O schedulers and controllers in a deterministic lab.
#[derive(Debug, Parser)]
#[command(name = "hoistway", version, arg_required_else_help = true, infer_long_args = false)]
#[command(
    after_help = "Start with `hoistway compare`. Exit codes: 0 done, 1 failed, 2 wrong usage, \
                        3 environment, 130 interrupted."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compare configurations in an experiment
    Compare(Compare),
    /// Run an experiment under one configuration
    Run(RunOne),
    /// Compute metrics and report of run directories afresh from their records
    Report(Report),
    /// Compare two run directories: what was run, and ratios of what was measured
    Diff(Diff),
    /// Feed recorded kernel decisions to BFQ and compare every one
    ReplayDecisions(ReplayDecisions),
    /// Measure a drive for a controller's model
    Calibrate(Calibrate),
    /// What needs a real machine.
    #[cfg(all(feature = "live", target_os = "linux"))]
    #[command(flatten)]
    Live(crate::live::Verb),
    /// List what there is
    List(List),
    /// Show one thing: its tunables or parameters
    Show(Show),
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// `hoistway list`.
#[derive(Debug, ClapArgs)]
pub struct List {
    /// Only this kind
    pub kind: Option<Kind>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// I/O schedulers
    Schedulers,
    /// I/O controllers
    Controllers,
    /// Drive files
    Drives,
    /// Drive models
    Models,
    /// Experiments
    Experiments,
    /// Workloads of the experiments
    Workloads,
    /// Loads that workloads are made of
    Loads,
    /// Configurations of I/O control
    Configs,
    /// Ways to reach a server's exports
    #[cfg(all(feature = "live", target_os = "linux"))]
    Fronts,
}

/// `hoistway show`.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// A scheduler, controller, drive, model, experiment, load or configuration; or a drive file's path
    pub name: String,
}

/// `hoistway compare`.
#[derive(Debug, ClapArgs)]
pub struct Compare {
    /// Experiments, or paths of experiment files, such as latency-2019,bandwidth-2019
    #[arg(default_value = "latency-2019")]
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: String,
    /// Configurations, such as none-bfq,mq-deadline{fifo_batch=8}
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

/// `hoistway run`.
#[derive(Debug, ClapArgs)]
pub struct RunOne {
    /// Experiment, or path of an experiment file
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: String,
    /// Configuration; the experiment's first if not given
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Option<String>,
    /// Print the story of this process instead: its requests, and every decision about it with the
    /// reason. One drive, one workload, one repetition; writes nothing
    #[arg(long, value_name = "PROCESS")]
    #[arg(conflicts_with_all = ["csv", "json", "dry_run", "out"])]
    pub explain: Option<String>,
    /// Lines of the story; 200 if not given
    #[arg(long, value_name = "N", requires = "explain", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub limit: Option<u32>,
    #[command(flatten)]
    pub common: Common,
}

/// What `compare` and `run` share.
#[derive(Debug, ClapArgs)]
pub struct Common {
    /// Drives: names or paths
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Vec<String>,
    /// Workloads of the experiment
    #[arg(long, short, value_name = "LIST")]
    pub workload: Vec<String>,
    /// Repetitions
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: Option<u32>,
    /// First seed; repetition r uses seed + r - 1
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Threads; all cores if not given. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Measured time of every run, such as 60s
    #[arg(long, value_name = "TIME", conflicts_with = "quick")]
    pub duration: Option<String>,
    /// Write-back throttling on, as if every configuration ended in +wbt
    #[arg(long)]
    pub wbt: bool,
    /// Groups from a directory: every folder is a group, its io.* files hold lines in the kernel's own
    /// syntax, cgroup.procs names processes. For configurations that make groups
    #[arg(long, value_name = "DIR")]
    pub groups: Option<PathBuf>,
    /// A quarter of the measured time, not below 1 s
    #[arg(long)]
    pub quick: bool,
    /// Where it runs: sim (virtual time), engine (real storage, or drives emulated on the wall clock)
    #[arg(long, value_name = "WORLD", default_value = "sim")]
    pub on: String,
    /// For --on engine: a scratch file in this directory, gone at the end
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "device", "drive"])]
    pub target_dir: Option<PathBuf>,
    /// For --on engine: this file, whose contents are overwritten
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "drive"])]
    pub file: Option<PathBuf>,
    /// For --on engine: this block device, only read unless --yes-destroy-data names it too
    #[arg(long, value_name = "DEVICE", conflicts_with = "drive")]
    pub device: Option<PathBuf>,
    /// For --target-dir: size of the device that the scratch file is, 16 GiB if not given. It takes room
    /// only where the experiment's files lie
    #[arg(long, value_name = "SIZE", requires = "target_dir", hide_short_help = true)]
    pub size: Option<String>,
    /// This file or device, the one of --file or --device, may lose its data
    #[arg(long, value_name = "PATH")]
    pub yes_destroy_data: Option<PathBuf>,
    /// Run directory; runs/EXPERIMENT.WORLD.DIGEST if not given
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Run everything again, also what an interrupted run of the same command has finished
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub fresh: bool,
    /// Every column of the tables, however wide the terminal
    #[arg(long, hide_short_help = true, conflicts_with_all = ["csv", "json", "dry_run"])]
    pub wide: bool,
    /// All metrics as CSV on stdout
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    pub csv: bool,
    /// All metrics as JSON on stdout
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,
    /// Print what would run, and write nothing
    #[arg(long, conflicts_with = "out")]
    pub dry_run: bool,
    /// No progress bar
    #[arg(long)]
    pub quiet: bool,
}

/// `hoistway replay-decisions`.
#[derive(Debug, ClapArgs)]
pub struct ReplayDecisions {
    /// Recordings: CSV, plain or gzip (.gz), named DRIVE.SCHEDULER.SCENARIO.csv
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Whose rules decide: bfq's tunable base
    #[arg(long, value_name = "BASE", default_value = "6.1")]
    pub base: String,
    /// Whether they were made with low_latency; if not given, 0 if SCHEDULER is bfq-ll0
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u64).range(0..=1))]
    pub low_latency: Option<u64>,
    /// Weight of a group, as GROUP=N; may be repeated
    #[arg(long, value_name = "GROUP=N")]
    pub weight: Vec<String>,
    /// Block buffers of buffered writes, a segment each; if not given, 4 for a disk, 1 for other drives. A
    /// disk is told by the device line, or by DRIVE being hdd
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer_kib: Option<u32>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway calibrate`.
#[derive(Debug, ClapArgs)]
pub struct Calibrate {
    /// The six rates of io.cost's linear model
    #[arg(long, required = true)]
    pub iocost: bool,
    /// Simulated drive: name or path
    #[arg(long, short, value_name = "DRIVE")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: String,
    /// Length of each round of the six tests; the kernel's script has one of 120s
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub duration: String,
    /// A new drive: one round of each test. Otherwise the drive is written once as a whole before the write
    /// tests, and each test repeated until it is steady, which leaves SLC caches and burst credits behind
    #[arg(long)]
    pub new: bool,
    /// Seed of the drive and of the random places
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long)]
    pub quiet: bool,
}

fn formats() -> clap::builder::PossibleValuesParser {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().into()
}

/// `hoistway report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// Run directories
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Write every chart of the report into this folder too, one SVG file each. (As PNG: the buttons in the
    /// report itself)
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Print the run in this format instead of the tables: html is the page itself, markdown its tables, to
    /// paste into an issue
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<String>,
    /// Every column of the tables, however wide the terminal
    #[arg(long)]
    pub wide: bool,
}

/// `hoistway diff`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 nothing differs, 1 something does, 2 wrong usage. Differing is a \
                        measured quantity whose 99 % interval excludes 1 and whose ratio is beyond 3 % \
                        (below three repetitions: a ratio beyond 3 %), or a cell in one run alone."
)]
pub struct Diff {
    /// Run directory
    #[arg(value_name = "RUN")]
    pub old: PathBuf,
    /// Run directory to compare with it
    #[arg(value_name = "RUN")]
    pub new: PathBuf,
    /// Print what does not differ, too
    #[arg(long)]
    pub all: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Every column of the table, however wide the terminal
    #[arg(long)]
    pub wide: bool,
}
