//! The arguments as data.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
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

fn documented() -> Vec<&'static str> {
    std::iter::once("all").chain(hoistway_lab::reproduce::ids()).collect()
}

/// Drives of the program.
pub fn drives() -> Vec<&'static str> {
    hoistway_sim::drive::DriveFile::ids()
}

/// Configurations: those with a name, and schedulers alone.
pub fn configs() -> Vec<&'static str> {
    hoistway_lab::config::all_names(hoistway::sched::SCHEDULERS).collect()
}

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
    ("Results", &["report", "diff", "merge", "run"]),
    ("Drives and loads", &["calibrate", "emulate", "record", "describe", "replay"]),
    ("Serve storage", &["serve", "ctl", "top"]),
    ("Beside Linux", &["linux", "differ", "replay-decisions", "validate"]),
    ("Research", &["reproduce", "population"]),
    ("Help", &["list", "show", "restore", "completions"]),
];

/// The whole command line; its help lists verbs in groups, which clap has for options only.
pub fn command() -> clap::Command {
    let command = Args::command();
    let width = command.get_subcommands().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let mut verbs = String::new();
    for (group, names) in GROUPS {
        verbs += &format!("{group}:\n");
        // Without the live parts some verbs are not there.
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
    Compare(Compare),
    /// Run an experiment under one configuration, or explain what happened to one process
    Run(RunOne),
    /// Bench every scheduler for a drive within a limit of time: what people feel, what servers need, what it costs
    Bench(crate::bench::Bench),
    /// Recommend a configuration from runs: what it gains and costs, how sure, and the lines to install
    Recommend(crate::recommend::Recommend),
    /// Merge runs of one suite from many machines: a default per class and model of drives
    Merge(crate::merge::Merge),
    /// Measure a drive: a drive file for the simulator, and io.cost's linear model
    Calibrate(Calibrate),
    /// Repeat the experiments of the reference documents, published values beside ours
    Reproduce(Reproduce),
    /// Judge configurations on random drives under random loads: how much throughput they keep, what a target waits
    Population(crate::population::Population),
    /// Find out in the simulator whether latency targets would be kept, and what they cost
    WhatIf(WhatIf),
    /// Print what the load in a block trace is made of: mix, sizes, sequentiality, arrivals, depth, working set
    Describe(crate::describe::Describe),
    /// Recompute the metrics and the report of run directories from their records
    Report(Report),
    /// Compare two run directories: differences in the settings, ratios of the results
    Diff(Diff),
    /// Replay a block trace under several configurations on a simulated drive
    Replay(Box<Replay>),
    /// Feed recorded calls into the kernel's schedulers to ours and compare every decision
    ReplayDecisions(ReplayDecisions),
    /// What needs a real machine.
    #[cfg(all(feature = "live", target_os = "linux"))]
    #[command(flatten)]
    Live(crate::live::Verb),
    /// List schedulers, controllers, drives, experiments, loads and configurations
    List(List),
    /// Show the tunables or parameters of one of them
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
    /// List only this kind
    pub kind: Option<Kind>,
    /// Print JSON
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
    /// Drive models, which drive files give parameters to
    Models,
    /// Experiments
    Experiments,
    /// Workloads of the experiments
    Workloads,
    /// Loads: what one process of a workload does
    Loads,
    /// Configurations: a policy for groups and a scheduler
    Configs,
    /// Ways to reach a server's exports
    #[cfg(all(feature = "live", target_os = "linux"))]
    Fronts,
    /// Storage that a server can export
    #[cfg(all(feature = "live", target_os = "linux"))]
    Targets,
}

/// `hoistway show`.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// Name of a scheduler, controller, drive, model, experiment, load or configuration, or path of a drive file
    pub name: String,
    /// Print the settings of a scheduler or controller as a Markdown table
    #[arg(long)]
    pub markdown: bool,
}

/// `hoistway compare`.
#[derive(Debug, ClapArgs)]
pub struct Compare {
    /// Experiments: names or paths of experiment files, separated by commas, such as
    /// latency-2019,bandwidth-2019 [default: latency-2019]
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: Option<String>,
    #[command(flatten)]
    pub job: JobArgs,
    /// Configurations, such as none-bfq,mq-deadline{fifo_batch=8}; `hoistway list configs` lists them
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Vec<String>,
    #[command(flatten)]
    pub common: Common,
}

/// `hoistway run`.
#[derive(Debug, ClapArgs)]
pub struct RunOne {
    /// Experiment: name, or path of an experiment file; left out with --job
    #[arg(required_unless_present = "from_fio")]
    #[arg(value_parser = Known(experiments), hide_possible_values = true)]
    pub experiment: Option<String>,
    #[command(flatten)]
    pub job: JobArgs,
    /// Configuration [default: the experiment's first]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Option<String>,
    /// Print a timeline of this process instead of tables: its requests, and every scheduling decision about
    /// it with the reason. For one drive, one workload and one repetition; writes no files
    #[arg(long, value_name = "PROCESS")]
    #[arg(conflicts_with_all = ["csv", "json", "dry_run", "out"])]
    pub explain: Option<String>,
    /// Longest timeline to print, in lines [default: 200]
    #[arg(long, value_name = "N", requires = "explain", hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub limit: Option<u32>,
    /// Write every step of the run into this file, a trace in the binary format of blktrace, which `hoistway replay`
    /// repeats to the nanosecond. For one drive, one workload and one repetition
    #[arg(long, value_name = "FILE", conflicts_with_all = ["explain", "dry_run"])]
    #[arg(hide_short_help = true)]
    pub save_trace: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

/// fio jobs in place of an experiment.
#[derive(Debug, ClapArgs)]
pub struct JobArgs {
    /// Run the jobs of this fio job file in place of an experiment
    #[arg(long, value_name = "FILE", group = "from_fio")]
    pub job: Option<PathBuf>,
    /// Run the jobs of this command line of fio, in quotes: '--name=a --rw=randread --size=1g'
    #[arg(long, value_name = "WORDS", group = "from_fio", allow_hyphen_values = true)]
    pub fio: Option<String>,
    /// With --job or --fio: the job that is measured, against all the others; left out, all are measured alike
    #[arg(long, value_name = "JOB", requires = "from_fio", hide_short_help = true)]
    pub target: Option<String>,
    /// With --job or --fio: refuse settings that are not supported instead of warning of them
    #[arg(long, requires = "from_fio", hide_short_help = true)]
    pub strict: bool,
    /// With --job or --fio: normal, or fio-json: what fio prints with --output-format=json
    #[arg(long, value_name = "FORMAT", requires = "from_fio", hide_short_help = true)]
    #[arg(value_parser = ["normal", "fio-json"], conflicts_with_all = ["csv", "json", "dry_run"])]
    pub output_format: Option<String>,
}

impl JobArgs {
    /// The flag that names jobs, if one does.
    pub fn flag(&self) -> Option<&'static str> {
        let job = self.job.as_ref().map(|_| "--job");
        job.or(self.fio.as_ref().map(|_| "--fio"))
    }

    /// Results are to be printed as fio prints them.
    pub fn as_fio(&self) -> bool {
        self.output_format.as_deref() == Some("fio-json")
    }
}

/// What `compare` and `run` share.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Common {
    /// Drives: names, or paths of drive files [default: the experiment's]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Vec<String>,
    /// Give the drives faults, such as pause_every_ms=2s,pause_ms=200ms; `hoistway show faults` lists the keys. They
    /// go before those of the experiment and of the drive file
    #[arg(long, value_name = "LIST", hide_short_help = true)]
    pub faults: Vec<String>,
    /// Workloads of the experiment [default: those that it names]
    #[arg(long, short, value_name = "LIST")]
    pub workload: Vec<String>,
    /// Repetitions of each run [default: the experiment's]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: Option<u32>,
    /// First seed; repetition r uses seed + r - 1
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Measured time of every run, such as 60s [default: the experiment's]
    #[arg(long, value_name = "TIME", conflicts_with = "quick")]
    pub duration: Option<String>,
    /// Switch write-back throttling on, as if every configuration ended in +wbt
    #[arg(long)]
    pub wbt: bool,
    /// Read cgroups from this directory: every folder is a group, its io.* files hold lines in the kernel's
    /// syntax, and cgroup.procs names processes. For configurations that make groups
    #[arg(long, value_name = "DIR")]
    pub groups: Option<PathBuf>,
    /// Measure for a quarter of the time, at least 1 s
    #[arg(long)]
    pub quick: bool,
    /// Where to run: sim (simulator, virtual time), linux or linux:NAME (a Linux kernel of its own, virtual time), engine
    /// (real storage, or drives emulated in real time) or kernel (the kernel's own schedulers). Several worlds are
    /// compared with the first one [default: sim]
    #[arg(long, value_name = "WORLD")]
    pub on: Vec<String>,
    /// For --on linux: raw, or make this file system on the drive: ext4, xfs or btrfs [default: raw]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub fs: Option<String>,
    /// For --on engine and kernel: use scratch files in this directory, deleted at the end
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "device", "drive"])]
    pub target_dir: Option<PathBuf>,
    /// For --on engine: use this file; its contents are overwritten
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "drive"], hide_short_help = true)]
    pub file: Option<PathBuf>,
    /// For --on engine and kernel: use this block device; it is only read, unless --yes-destroy-data names it too
    #[arg(long, value_name = "DEVICE", conflicts_with = "drive")]
    pub device: Option<PathBuf>,
    /// For --target-dir: size of the scratch file as the experiment sees it [default: 16 GiB]. It takes disk
    /// space only where the experiment's files lie
    #[arg(long, value_name = "SIZE", requires = "target_dir", hide_short_help = true)]
    pub size: Option<String>,
    /// Allow this file or device, the one of --file or --device, to lose its data
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub yes_destroy_data: Option<PathBuf>,
    /// Run directory to write [default: runs/EXPERIMENT.WORLD.DIGEST]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Do not reuse what an interrupted run of the same command has finished
    #[arg(long, conflicts_with = "dry_run", hide_short_help = true)]
    pub fresh: bool,
    /// Hold the results against this earlier run directory: prints what has left its band (see --band), and ends with exit
    /// code 1 if something has, or if a cell of the earlier run is missing. For several experiments: a folder with a run
    /// directory for each
    #[arg(long, value_name = "RUN", conflicts_with = "dry_run", hide_short_help = true)]
    pub baseline: Option<PathBuf>,
    /// How far a metric may be off that of --baseline, in per cent; only what differs beyond its 99 % interval counts
    #[arg(long, value_name = "PERCENT", default_value = "5%", hide_short_help = true)]
    pub band: String,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with_all = ["csv", "json", "dry_run"])]
    pub wide: bool,
    /// Print all metrics as CSV instead of tables
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    pub csv: bool,
    /// Print all metrics as JSON instead of tables
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,
    /// Print what would run; run and write nothing
    #[arg(long, conflicts_with = "out")]
    pub dry_run: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

impl Common {
    /// The worlds that are asked for, at least one.
    pub fn worlds(&self) -> Vec<String> {
        match crate::compare::parts(&self.on) {
            given if given.is_empty() => vec!["sim".into()],
            given => given,
        }
    }

    /// The world, where there can be one only: the first.
    pub fn world(&self) -> String {
        self.worlds().remove(0)
    }
}

/// `hoistway what-if`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 every target is kept, 1 one is not, 2 wrong usage, 130 interrupted."
)]
pub struct WhatIf {
    /// Simulated drive: name, or path of a drive file
    #[arg(long, short, value_name = "DRIVE")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: String,
    /// A latency target: NAME=TIME, or NAME=auto for as low as goes without loss of throughput; ,weight=N behind it
    /// gives the group a weight. NAME is a process of the load or a kind of processes. May be repeated
    #[arg(long, short, value_name = "NAME=TIME", required = true)]
    pub target: Vec<String>,
    /// Load: EXPERIMENT/WORKLOAD [default: a random 4 KiB reader for each target beside 15 sequential readers]
    #[arg(long, value_name = "LOAD", conflicts_with = "job")]
    pub load: Option<String>,
    /// Load: the jobs of this fio job file; NAME is a job
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// Keep the targets whatever throughput that costs
    #[arg(long)]
    pub strict: bool,
    /// Percent of the throughput without control that may be lost
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..=99))]
    pub loss: u16,
    /// Measured time of each run [default: 3s, of disks 20s], behind 2 s (10 s) to settle
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Seed of the drive and the load
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: u64,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `hoistway reproduce`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 done, 1 an experiment failed (the others are written), 2 wrong usage, 3 the place \
                        cannot be written, 130 interrupted (the same command continues)."
)]
pub struct Reproduce {
    /// Experiments, or all: every one that repeats a document
    #[arg(required = true, value_name = "ID")]
    #[arg(value_parser = Known(documented), hide_possible_values = true)]
    pub experiments: Vec<String>,
    /// A quarter of all times and at most three repetitions: a first look
    #[arg(long)]
    pub quick: bool,
    /// The documents' own procedure: their durations, repetitions and statistics, faults included
    #[arg(long)]
    pub as_published: bool,
    /// Repetitions of each run [default: the experiment's for this procedure]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: Option<u32>,
    /// Simulations at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Folder to write [default: runs/reproduce.PROCEDURE, with .quick]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Also write the tables as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Print everything as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Run everything again, also what is finished
    #[arg(long, conflicts_with = "dry_run")]
    pub fresh: bool,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "dry_run"])]
    pub wide: bool,
    /// Print what would run; run and write nothing
    #[arg(long, conflicts_with_all = ["json", "markdown", "out"])]
    pub dry_run: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `hoistway replay`.
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// Trace: a file (plain, .gz or .zst), `-` for standard input, or NAME of NAME.blktrace.0, NAME.blktrace.1, ...
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Configurations [default: none,mq-deadline,bfq]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(configs), hide_possible_values = true)]
    pub config: Vec<String>,
    /// Drives: names, or paths of drive files [default: samsung-970-pro]
    #[arg(long, short, value_name = "LIST")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Vec<String>,
    /// Submit at the recorded times, whatever the drive does (the default)
    #[arg(long, conflicts_with = "closed")]
    pub open: bool,
    /// Submit after what an I/O had waited for in the recording
    #[arg(long)]
    pub closed: bool,
    /// With --closed: most I/Os of a process under way [default: as recorded; 1 if the trace has no completions]
    #[arg(long, value_name = "N", requires = "closed")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: Option<u32>,
    /// So many times as fast as recorded: arrivals, or think times with --closed
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// What becomes a process, and a group under configurations that make groups
    #[arg(long, value_name = "WHAT", value_enum, default_value = "process")]
    pub split_by: crate::replay_trace::SplitBy,
    /// Judge by this process (group, device); the others are its interferers [default: by all together]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Only these devices of the trace
    #[arg(long, value_name = "LIST")]
    pub device: Vec<String>,
    /// Only from this time of the trace on, such as 10s
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Only up to this time of the trace
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Only the first N records
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Scale offsets from a device of this size to the drive's [default: offsets beyond the drive wrap]
    #[arg(long, value_name = "SIZE")]
    pub scale: Option<String>,
    /// Count writes as synchronous that the trace does not mark
    #[arg(long)]
    pub sync_writes: bool,
    /// Format of the trace [default: found from its content]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Stop at the first malformed record
    #[arg(long)]
    pub strict: bool,
    /// Stop when so many I/Os wait in open loop: the drive cannot keep up
    #[arg(long, value_name = "N", default_value_t = crate::replay_trace::BACKLOG, hide_short_help = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub backlog: u32,
    /// Read cgroups from this directory, as for compare; cgroup.procs names processes of the trace
    #[arg(long, value_name = "DIR")]
    pub groups: Option<PathBuf>,
    /// Repetitions, each with another seed of the drive
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub reps: u32,
    /// First seed [default: 1]
    #[arg(long, short_alias = 's', value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1 << 62))]
    pub seed: Option<u64>,
    /// Replays at a time [default: number of cores]. Results do not depend on it
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run directory to write [default: runs/replay-TRACE.sim.DIGEST]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Do not reuse what an interrupted replay of the same command has finished
    #[arg(long, hide_short_help = true)]
    pub fresh: bool,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long, hide_short_help = true, conflicts_with_all = ["csv", "json"])]
    pub wide: bool,
    /// Print all metrics as CSV instead of tables
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print all metrics as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Show no progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// `hoistway replay-decisions`.
#[derive(Debug, ClapArgs)]
pub struct ReplayDecisions {
    /// Recordings: CSV files, plain or compressed (.gz), named DRIVE.SCHEDULER.SCENARIO.csv. With --on: scenario files
    /// to record, as of `hoistway differ` [default: the fixed set of 14]
    #[arg(required_unless_present = "on", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Record first: in linux, or linux:NAME (`hoistway linux list`)
    #[arg(long, value_name = "WORLD", conflicts_with_all = ["weight", "low_latency", "buffer_kib"])]
    pub on: Option<String>,
    /// With --on and no FILE: schedulers [default: mq-deadline,kyber,bfq]
    #[arg(
        long,
        short,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "on",
        conflicts_with = "files"
    )]
    pub scheduler: Vec<String>,
    /// With --on: keep the recordings in this folder
    #[arg(long, short, value_name = "DIR", requires = "on")]
    pub out: Option<PathBuf>,
    /// Version of the kernel whose rules decide: value of bfq's tunable `base` [default: what the recording says, or 6.1]
    #[arg(long, value_name = "BASE")]
    pub base: Option<String>,
    /// Value of low_latency in the recordings [default: 0 if SCHEDULER is bfq-ll0, else 1]
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u64).range(0..=1))]
    pub low_latency: Option<u64>,
    /// Weight of a group in the recordings, as GROUP=N; may be repeated
    #[arg(long, value_name = "GROUP=N")]
    pub weight: Vec<String>,
    /// Size in KiB of the block buffers of buffered writes, each of which is a segment [default: 4 for disks, 1 for other
    /// drives]. A recording is of a disk if its device line says so or DRIVE is hdd
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub buffer_kib: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway calibrate`.
#[derive(Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("subject").required(true).args(["target", "drive"]))]
pub struct Calibrate {
    /// A block device, read only unless --write; or a folder, in which a scratch file is made and deleted again
    #[arg(value_name = "DEVICE|DIR", conflicts_with = "drive")]
    pub target: Option<PathBuf>,
    /// Instead of a device a simulated drive: name or path. With --iocost or --fit
    #[arg(long, short, value_name = "DRIVE", requires = "task")]
    #[arg(value_parser = Known(drives), hide_possible_values = true)]
    pub drive: Option<String>,
    /// Measure the six rates of io.cost's linear model of --drive
    #[arg(long, group = "task")]
    pub iocost: bool,
    /// Find the drive file of --drive from its answers alone, as that of a device; shows how good the method is
    #[arg(long, group = "task")]
    pub fit: bool,
    /// Where the drive file is written [default: calibrated.toml]. Beside it stand the answers (.answers.json), with
    /// which an interrupted run goes on, and the fit table (.fit.json)
    #[arg(long, short, value_name = "FILE", conflicts_with = "iocost")]
    pub out: Option<PathBuf>,
    /// Also write the fit as a page of charts: the found drive beside the measured one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iocost", "dry_run"])]
    pub report: Option<PathBuf>,
    /// Short tests: 2 to 3 minutes on flash, 6 on a disk
    #[arg(long, conflicts_with = "iocost")]
    pub quick: bool,
    /// Also the tests that write: in a folder into the scratch file; on a device only with --yes-destroy-data
    #[arg(long, conflicts_with = "iocost")]
    pub write: bool,
    /// The device whose data --write may destroy, spelled as DEVICE
    #[arg(long, value_name = "DEVICE", requires = "write")]
    pub yes_destroy_data: Option<PathBuf>,
    /// What the tests may write at most
    #[arg(long, value_name = "BYTES", default_value = "16GiB")]
    pub write_budget: String,
    /// Size of the scratch file in a folder
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    pub size: String,
    /// The drive model, if you know better
    #[arg(long, value_name = "MODEL", value_parser = ["hdd", "flash", "card", "bucket"])]
    pub model: Option<String>,
    /// The transport, if the kernel does not tell (a loop device, a bridge)
    #[arg(long, value_name = "BUS", value_parser = ["sata", "pata", "nvme", "emmc", "sd", "usb", "virtual"])]
    pub bus: Option<String>,
    /// Print the plan and end
    #[arg(long, conflicts_with = "iocost")]
    pub dry_run: bool,
    /// Of --iocost: length of each round of the six tests; the kernel's script has one of 120s
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub duration: String,
    /// Of --iocost: measure the drive as new, one round of each test. Without this flag the whole drive is written
    /// once before the write tests, and each test is repeated until its result is steady, past SLC caches and burst
    /// credits
    #[arg(long)]
    pub new: bool,
    /// Seed of the drive and of the random offsets
    #[arg(long, short_alias = 's', value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
}

fn formats() -> clap::builder::PossibleValuesParser {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().into()
}

/// `hoistway report`.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// Run directories, or folders of them such as a bench directory
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Also write every chart of the report into this folder, one SVG file each. (For PNG use the buttons in
    /// the report)
    #[arg(long, value_name = "FOLDER")]
    pub svg: Option<PathBuf>,
    /// Print the run in this format instead of tables: html is the report page, markdown its tables to paste
    /// into an issue
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<String>,
    /// Print every column of the tables, however narrow the terminal
    #[arg(long)]
    pub wide: bool,
}

/// `hoistway diff`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 nothing differs, 1 something differs, 2 wrong usage. A measured \
                        quantity differs if the 99 % interval of its ratio excludes 1 and the ratio is off 1 by \
                        more than 3 % (with fewer than three repetitions: if the ratio is). A run that only one \
                        of the directories has counts as a difference."
)]
pub struct Diff {
    /// Old run directory
    #[arg(value_name = "RUN")]
    pub old: PathBuf,
    /// New run directory, compared with the old one
    #[arg(value_name = "RUN")]
    pub new: PathBuf,
    /// Also print what does not differ
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print every column of the table, however narrow the terminal
    #[arg(long)]
    pub wide: bool,
}

#[cfg(test)]
mod tests;
