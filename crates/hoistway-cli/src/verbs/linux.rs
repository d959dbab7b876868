//! `hoistway linux`: kernels that run in virtual time, built and known.

use crate::common::output::print;
use crate::common::terminal::say_again;
use crate::failure::{Failure, machine_failure};
use clap::{Args as ClapArgs, Subcommand};
use hoistway_machine::MachineError;
use hoistway_machine::linux::build::{self, Built, Options};
use hoistway_machine::linux::kernels::{self, Contents, Kernel};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `hoistway linux`.
#[derive(Debug, ClapArgs)]
pub struct Linux {
    /// What to do.
    #[command(subcommand)]
    pub command: LinuxCommand,
}

/// What to do with kernels.
#[derive(Debug, Subcommand)]
pub enum LinuxCommand {
    /// Build a kernel that runs in virtual time, with all I/O schedulers, for --on linux
    Build(Build),
    /// List the kernels that are built
    List(ListKernels),
    /// Remove a kernel that is built
    Remove {
        /// The kernel
        name: String,
    },
}

/// `hoistway linux build`.
#[derive(Debug, ClapArgs)]
pub struct Build {
    /// Source tree, tarball, or package of the distribution such as linux-source-6.1 [default: the newest package]
    #[arg(long, value_name = "SOURCE")]
    pub source: Option<String>,
    /// Apply this patch first (patch -p1); may be given several times
    #[arg(long, value_name = "FILE")]
    pub patch: Vec<PathBuf>,
    /// Take the options of its configuration from this file too; may be given several times
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Build the schedulers of hoistway in, as its kernel module has them (in a source tree of hoistway)
    #[arg(long)]
    pub with_module: bool,
    /// What to call it [default: by its version, such as 6.1; with the module 6.1-hoistway]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Keep the source tree that was built (about 2 GB)
    #[arg(long)]
    pub keep_tree: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway linux list`.
#[derive(Debug, ClapArgs)]
pub struct ListKernels {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn linux(options: &Linux) -> Result<(), Failure> {
    match &options.command {
        LinuxCommand::Build(options) => build(options),
        LinuxCommand::List(options) => list(options),
        LinuxCommand::Remove { name } => kernels::remove(name).map_err(machine_failure),
    }
}

fn build(args: &Build) -> Result<(), Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::Environment(format!("signal handler: {e}")))?;
    let options = Options {
        source: args.source.clone(),
        patches: args.patch.clone(),
        configs: args.config.clone(),
        with_module: args.with_module,
        name: args.name.clone(),
        keep_tree: args.keep_tree,
    };
    let mut progress = StepLine { terminal: std::io::stderr().is_terminal(), step: String::new() };
    let built = build::build(&options, &mut |what| {
        progress.tell(what);
        !stopped.load(Ordering::Relaxed)
    });
    progress.end();
    match built {
        Ok(built) => report(args, &built),
        Err(_) if stopped.load(Ordering::Relaxed) => Err(Failure::Interrupted(
            "the build was given up; no kernel was left half built".into(),
        )),
        Err(error) => Err(machine_failure(error)),
    }
}

/// One line on a terminal; elsewhere a line per step.
struct StepLine {
    terminal: bool,
    step: String,
}

impl StepLine {
    fn tell(&mut self, what: &str) {
        let step = what.split(',').next().unwrap_or(what);
        if self.terminal {
            say_again(what);
        } else if step != self.step {
            eprintln!("{step}");
        }
        self.step = step.to_string();
    }

    fn end(&self) {
        if self.terminal {
            say_again("");
        }
    }
}

fn report(args: &Build, built: &Built) -> Result<(), Failure> {
    let contents = built.kernel.contents().map_err(machine_failure)?;
    if args.json {
        let mut value = as_json(&built.kernel, &contents);
        value["reused"] = built.reused.into();
        value["missing"] = built.missing.clone().into();
        return print(&format!("{value:#}\n"));
    }
    let how = match built.reused {
        true => "is there already".to_string(),
        false => format!("built in {} s", built.took.as_ms() / 1000),
    };
    eprintln!("{} ({how})", built.kernel.image.display());
    for option in &built.missing {
        eprintln!("warning: this source has no CONFIG_{option}");
    }
    print(&text(&built.kernel, &contents))
}

fn list(options: &ListKernels) -> Result<(), Failure> {
    let kernels = kernels::list().map_err(machine_failure)?;
    let contents: Result<Vec<Contents>, MachineError> =
        kernels.iter().map(Kernel::contents).collect();
    let contents = contents.map_err(machine_failure)?;
    let both = kernels.iter().zip(&contents);
    if options.json {
        let all: Vec<Value> = both.map(|(kernel, contents)| as_json(kernel, contents)).collect();
        return print(&format!("{:#}\n", Value::from(all)));
    }
    if kernels.is_empty() {
        eprintln!("no kernel is built; `hoistway linux build` builds one");
    }
    print(&both.map(|(kernel, contents)| text(kernel, contents)).collect::<String>())
}

fn text(kernel: &Kernel, contents: &Contents) -> String {
    let mut out = String::new();
    let words = |list: &[&str]| if list.is_empty() { "none".into() } else { list.join(", ") };
    let _ = writeln!(out, "{}  Linux {}, from {}", kernel.name, kernel.release, kernel.source);
    if !kernel.patches.is_empty() {
        let _ = writeln!(out, "  patches       {}", kernel.patches.join(", "));
    }
    let _ = writeln!(out, "  schedulers    none, {}", words(&contents.schedulers));
    if !kernel.module.is_empty() {
        let _ = writeln!(out, "  hoistway's    {}", kernel.module.join(", "));
    }
    let _ = writeln!(out, "  controllers   {}", words(&contents.controllers));
    let _ = writeln!(out, "  file systems  {}", words(&contents.file_systems));
    if let Some(hz) = contents.hz {
        let _ = writeln!(out, "  ticks         {hz} per second");
    }
    out
}

fn as_json(kernel: &Kernel, contents: &Contents) -> Value {
    json!({
        "name": kernel.name,
        "release": kernel.release,
        "image": kernel.image.display().to_string(),
        "digest": kernel.digest,
        "source": kernel.source,
        "patches": kernel.patches,
        "schedulers": contents.schedulers,
        "module": kernel.module,
        "controllers": contents.controllers,
        "file_systems": contents.file_systems,
        "hz": contents.hz,
    })
}
