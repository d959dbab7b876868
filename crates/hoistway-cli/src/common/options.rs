//! Options that several verbs have.

use crate::common::known::{Known, drives};
use clap::Args as ClapArgs;
use hoistway_lab::grid::parts;
use std::path::PathBuf;

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
    /// Load a scheduler from this file, a WebAssembly module; its name is that of the file without .wasm. It is compared with
    /// the others unless a configuration names it. For the simulator; may be given several times
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub scheduler: Vec<PathBuf>,
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
        match parts(&self.on) {
            given if given.is_empty() => vec!["sim".into()],
            given => given,
        }
    }

    /// The world, where there can be one only: the first.
    pub fn world(&self) -> String {
        self.worlds().remove(0)
    }
}
