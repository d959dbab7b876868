//! Arguments of the verbs that need a real machine.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as ClapArgs, Command, FromArgMatches, Subcommand};
use hoistway_live::front::FRONTS;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve exports over NBD, with an I/O scheduler in front of the storage
    Serve(Box<Serve>),
    /// Show or change the settings of a running server
    Ctl(Ctl),
    /// Show throughput, latency and fair share per client, and the state of the scheduler
    Top(Top),
    /// Record a block trace of this machine's devices, to describe and replay
    Record(super::record::Record),
    /// Act out a drive in real time, as a block device of this machine
    #[cfg(feature = "fuse")]
    Emulate(super::emulate::Emulate),
    /// Compare the kernel's schedulers with ours on emulated drives: the same load in several worlds, in turns
    #[cfg(feature = "fuse")]
    Validate(super::validate::Validate),
    /// Build and list kernels that run in virtual time, for `--on linux`
    Linux(super::linux::Linux),
    /// Find where a scheduler of ours decides otherwise than Linux's: random scenarios in Linux in virtual time
    Differ(super::differ::Differ),
    /// Carry out scenarios in a guest: what `differ` starts by itself
    #[command(hide = true)]
    LinuxActor(super::differ::LinuxActor),
    /// Put back what killed runs on this machine have left: schedulers, cgroups, mounts, files
    Restore(super::restore::Restore),
    /// Carry out processes of a job: what `--on kernel` starts by itself
    #[command(hide = true)]
    KernelWorker(KernelWorker),
    /// Carry out a task in a kernel of its own: what `--on linux` starts there by itself
    #[command(hide = true)]
    LinuxGuest(LinuxGuest),
}

/// `hoistway linux-guest`.
#[derive(Debug, ClapArgs)]
pub struct LinuxGuest {
    /// The folder in common, and the task
    #[arg(required = true, value_name = "FOLDER")]
    pub args: Vec<String>,
}

/// `hoistway kernel-worker`.
#[derive(Debug, ClapArgs)]
pub struct KernelWorker {
    /// The order, and the numbers of the processes
    #[arg(required = true, value_name = "ORDER")]
    pub args: Vec<String>,
}

/// `hoistway serve`.
#[derive(Debug, ClapArgs)]
pub struct Serve {
    #[arg(long, short, value_name = "EXPORT", help = super::serve::spec::export_help())]
    pub export: Vec<String>,
    /// Unix socket to listen on. Not needed where systemd or libnbd passes a socket
    #[arg(long, short = 'U', value_name = "PATH")]
    pub socket: Vec<PathBuf>,
    /// TCP port to listen on, for this machine only
    #[arg(long, short, value_name = "PORT")]
    pub port: Vec<u16>,
    #[command(flatten)]
    pub options: super::serve::spec::ServeOptions,
    /// Options of the front-ends this program was built with.
    #[command(flatten)]
    pub fronts: FrontArgs,
    /// Refuse writes to all exports
    #[arg(long, short_alias = 'r')]
    pub read_only: bool,
    /// TOML file with the same options
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Start the server, run this shell command with $uri, $unixsocket and $fuse set, then stop
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// Print only warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of front-ends, by name; the value of a switch is empty.
#[derive(Clone, Debug, Default)]
pub struct FrontArgs {
    /// Those that were given.
    pub given: BTreeMap<String, String>,
}

impl ClapArgs for FrontArgs {
    fn augment_args(command: Command) -> Command {
        let options = FRONTS.iter().flat_map(|front| front.options);
        options.fold(command, |command, option| {
            let arg = Arg::new(option.name).long(option.name).help(option.help);
            command.arg(match option.value {
                "" => arg.action(ArgAction::SetTrue),
                value => arg.action(ArgAction::Set).value_name(value),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        FrontArgs::augment_args(command)
    }
}

impl FromArgMatches for FrontArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FrontArgs, clap::Error> {
        let mut args = FrontArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in FRONTS.iter().flat_map(|front| front.options) {
            if matches.value_source(option.name) == Some(ValueSource::CommandLine) {
                let value = match option.value {
                    "" => String::new(),
                    _ => matches.get_one::<String>(option.name).cloned().unwrap_or_default(),
                };
                self.given.insert(option.name.into(), value);
            }
        }
        Ok(())
    }
}

/// `hoistway top`.
#[derive(Debug, ClapArgs)]
pub struct Top {
    /// Control socket of the server, as given to `hoistway serve --control`
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// Time between two frames, such as 1s or 200ms
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: String,
    /// One line per client or per group
    #[arg(long, value_name = "WHAT", default_value = "client", value_parser = ["client", "group"])]
    pub by: String,
    /// Sort by: throughput, iops, p99, share or name
    #[arg(long, value_name = "KEY", default_value = "throughput",
          value_parser = ["throughput", "iops", "p99", "share", "name"])]
    pub sort: String,
    /// Stop after that many frames
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// One frame, as --count 1
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// One JSON object per frame instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `hoistway ctl`.
#[derive(Debug, ClapArgs)]
pub struct Ctl {
    /// Control socket of the server, as given to `hoistway serve --control`
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,
    /// The device of this export; needed if the server has several
    #[arg(long, short, value_name = "NAME", global = true)]
    pub export: Option<String>,
    /// The command.
    #[command(subcommand)]
    pub command: CtlCommand,
}

/// Commands for a running server.
#[derive(Clone, Debug, Subcommand)]
pub enum CtlCommand {
    /// List devices, exports, groups and clients, with their I/O totals
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the weight of a group
    SetWeight {
        /// Its name
        group: String,
        /// 1 to 1000
        weight: u64,
    },
    /// Set a tunable of the scheduler, the block layer (nr_requests, ...) or a controller
    Set {
        /// Such as slice_idle=0 or nr_requests=64
        #[arg(value_name = "NAME=VALUE")]
        setting: String,
    },
    /// Write a line to a cgroup file of a group, such as: write gold io.max '8:0 rbps=10000000'
    Write {
        /// Its name; root is the group of everybody in no other group
        group: String,
        /// Such as io.max
        file: String,
        /// In the kernel's syntax
        line: String,
    },
    /// Print a cgroup file of a group
    Read {
        /// Its name; root is the group of everybody in no other group
        group: String,
        /// Such as io.stat
        file: String,
    },
    /// Print Prometheus metrics
    Metrics,
    /// Print a live timeline of a client or group: its requests, and each decision of the scheduler with its
    /// reason
    Explain {
        /// Number of a client, as list shows it, or name of a group
        #[arg(value_name = "CLIENT|GROUP")]
        of: String,
        /// Stop after so many lines
        #[arg(long, value_name = "N", default_value_t = 200)]
        limit: u64,
        /// Stop after this time, such as 5s or 300ms
        #[arg(long = "duration", alias = "for", value_name = "TIME", default_value = "5s")]
        span: String,
    },
    /// Read the sizes of files and block devices again; new connections do so by themselves
    Resize,
    /// Switch to another scheduler; no request is lost
    Scheduler {
        /// Such as bfq{low_latency=0}
        scheduler: String,
    },
}
