//! The verbs that need a real machine (feature `live`, Linux).

use super::{ctl, differ, linux, module, record, restore, serve, top};
#[cfg(feature = "fuse")]
use super::{emulate, validate};
use crate::failure::Failure;
use clap::{Args as ClapArgs, Subcommand};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve exports over NBD, with an I/O scheduler in front of the storage
    Serve(Box<serve::args::Serve>),
    /// Show or change the settings of a running server
    Ctl(ctl::Ctl),
    /// Show throughput, latency and fair share per client, and the state of the scheduler
    Top(top::Top),
    /// Record a block trace of this machine's devices, to describe and replay
    Record(record::Record),
    /// Act out a drive in real time, as a block device of this machine
    #[cfg(feature = "fuse")]
    Emulate(emulate::Emulate),
    /// Compare the kernel's schedulers with ours on emulated drives: the same load in several worlds, in turns
    #[cfg(feature = "fuse")]
    Validate(validate::Validate),
    /// Build and list kernels that run in virtual time, for `--on linux`
    Linux(linux::Linux),
    /// Build our schedulers as a module of this machine's kernel, install and remove it
    Module(module::Module),
    /// Find where a scheduler of ours decides otherwise than Linux's: random scenarios in Linux in virtual time
    Differ(differ::Differ),
    /// Carry out scenarios in a guest: what `differ` starts by itself
    #[command(hide = true)]
    LinuxActor(differ::LinuxActor),
    /// Put back what killed runs on this machine have left: schedulers, cgroups, mounts, files
    Restore(restore::Restore),
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

/// Carries out a verb.
pub fn run(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Serve(options) => serve::serve(options),
        Verb::Ctl(options) => ctl::ctl(options),
        Verb::Top(options) => top::top(options),
        Verb::Record(options) => record::record(options),
        #[cfg(feature = "fuse")]
        Verb::Emulate(options) => emulate::emulate(options),
        #[cfg(feature = "fuse")]
        Verb::Validate(options) => validate::validate(options),
        Verb::Linux(options) => linux::linux(options),
        Verb::Module(options) => module::module(options),
        Verb::Differ(options) => differ::differ(options),
        Verb::LinuxActor(options) => differ::act(options),
        Verb::Restore(options) => restore::restore(options),
        Verb::KernelWorker(options) => {
            hoistway_machine::kernel::work(&options.args).map_err(|e| Failure::Usage(e.to_string()))
        }
        Verb::LinuxGuest(options) => {
            hoistway_machine::linux::guest(&options.args).map_err(|e| Failure::Usage(e.to_string()))
        }
    }
}
