//! `hoistway module`: the schedulers as a module of the machine's kernel.

use crate::common::output::print;
use crate::failure::{Failure, machine_failure};
use clap::{Args as ClapArgs, Subcommand};
use hoistway_machine::module::{self, BuiltModule, Choice, ModuleOptions};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// `hoistway module`.
#[derive(Debug, ClapArgs)]
pub struct Module {
    /// What to do.
    #[command(subcommand)]
    pub command: ModuleCommand,
}

/// What to do with modules.
#[derive(Debug, Subcommand)]
pub enum ModuleCommand {
    /// Build the module for the running kernel, or for another one
    Build(BuildModule),
    /// Put the module in place, signed where this machine asks for it, and load it
    Install {
        /// The kernel [default: the running one]
        #[arg(long, value_name = "RELEASE")]
        kernel: Option<String>,
        /// The module that was built with the same --only [default: the one with all schedulers]
        #[arg(long, value_name = "NAME,...")]
        only: Option<String>,
    },
    /// Unload the module and take it away: the undo of install
    Remove {
        /// The kernel [default: the running one]
        #[arg(long, value_name = "RELEASE")]
        kernel: Option<String>,
    },
    /// List the kernels for which the module is built, installed or loaded, and the devices that use it
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the core alone, which fits any kernel, for a package
    Core {
        /// Source tree of hoistway [default: this folder]
        #[arg(long, value_name = "DIR")]
        tree: Option<PathBuf>,
        /// The schedulers it has [default: all]
        #[arg(long, value_name = "NAME,...")]
        only: Option<String>,
        /// Where to write the object
        #[arg(short, long, value_name = "FILE", required_unless_present = "dkms")]
        out: Option<PathBuf>,
        /// Write it, or the package's, into this folder, with a dkms.conf: /usr/src/hoistway-VERSION
        #[arg(long, value_name = "DIR", conflicts_with = "out")]
        dkms: Option<PathBuf>,
    },
}

/// `hoistway module build`.
#[derive(Debug, ClapArgs)]
pub struct BuildModule {
    /// Folder that modules are built against [default: that of the running kernel's headers]
    #[arg(long, value_name = "DIR")]
    pub kernel_dir: Option<PathBuf>,
    /// The kernel's source, a tree or tarball, for block/*.h [default: the distribution's package]
    #[arg(long, value_name = "SOURCE")]
    pub kernel_source: Option<PathBuf>,
    /// The core, an object that was made before [default: the package's, or made of --tree]
    #[arg(long, value_name = "FILE")]
    pub core: Option<PathBuf>,
    /// The schedulers it has; the module is called after them [default: all]
    #[arg(long, value_name = "NAME,...", conflicts_with = "core")]
    pub only: Option<String>,
    /// Source tree of hoistway, to compile the core of [default: this folder]
    #[arg(long, value_name = "DIR", conflicts_with = "core")]
    pub tree: Option<PathBuf>,
    /// Write the module there, where nothing stands [default: the cache, for `install`]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

pub fn module(options: &Module) -> Result<(), Failure> {
    match &options.command {
        ModuleCommand::Build(options) => build(options),
        ModuleCommand::Install { kernel, only } => install(kernel.as_deref(), &choice(only)?),
        ModuleCommand::Remove { kernel } => remove(kernel.as_deref()),
        ModuleCommand::List { json } => list(*json),
        ModuleCommand::Core { tree, only, out, dkms } => {
            core(tree.as_deref(), &choice(only)?, out.as_deref(), dkms.as_deref())
        }
    }
}

fn choice(only: &Option<String>) -> Result<Choice, Failure> {
    only.as_deref().map_or(Ok(Choice::default()), Choice::parse).map_err(machine_failure)
}

fn build(args: &BuildModule) -> Result<(), Failure> {
    let options = ModuleOptions {
        kernel_dir: args.kernel_dir.clone(),
        kernel_source: args.kernel_source.clone(),
        core: args.core.clone(),
        only: choice(&args.only)?,
        source: args.tree.clone(),
        kasan: false,
        out: args.out.clone(),
    };
    let built =
        module::build(&options, &mut |what| eprintln!("{what}")).map_err(machine_failure)?;
    print(&text(&built))
}

fn text(built: &BuiltModule) -> String {
    let BuiltModule { path, release, core, bytes } = built;
    let mut out = format!("{}  for Linux {release}, {} KiB\n", path.display(), bytes / 1024);
    if let Some(core) = core {
        let _ = writeln!(
            out,
            "  largest frame {} bytes of {}; {} branches through thunks, {} landing places",
            core.frame.0,
            module::FRAME_LIMIT,
            core.thunks,
            core.landing
        );
    }
    out
}

fn core(
    source: Option<&Path>,
    only: &Choice,
    out: Option<&Path>,
    dkms: Option<&Path>,
) -> Result<(), Failure> {
    let (facts, out) = match (out, dkms) {
        (Some(out), _) => {
            (module::write_core(source.unwrap_or(Path::new(".")), only, out).map(Some), out)
        }
        (_, Some(folder)) => (module::write_dkms(source, only, folder), folder),
        _ => unreachable!("one of them is required"),
    };
    let frame = facts.map_err(machine_failure)?.map_or_else(String::new, |facts| {
        let (bytes, function) = facts.frame;
        format!("  largest frame {bytes} bytes ({function})")
    });
    print(&format!("{}{frame}\n", out.display()))
}

fn install(kernel: Option<&str>, only: &Choice) -> Result<(), Failure> {
    let installed = module::install(kernel, only).map_err(machine_failure)?;
    let mut out = format!("{}\n", installed.path.display());
    if let Some(key) = installed.signed {
        let _ = writeln!(out, "  signed with {}", key.display());
    }
    if installed.loaded {
        let name = installed.example;
        let _ =
            writeln!(out, "  loaded; choose with: echo {name} > /sys/block/DEVICE/queue/scheduler");
    }
    out += "  undo: hoistway module remove\n";
    print(&out)
}

fn remove(kernel: Option<&str>) -> Result<(), Failure> {
    match module::remove(kernel).map_err(machine_failure)? {
        true => print("the module is gone\n"),
        false => print("there was no module in place\n"),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let modules = module::list().map_err(machine_failure)?;
    if json {
        let all: Vec<Value> = modules
            .iter()
            .map(|m| {
                json!({
                    "release": m.release,
                    "built": m.built,
                    "installed": m.installed,
                    "loaded": m.loaded,
                    "used": m.used.iter().map(|(d, s)| json!({"device": d, "scheduler": s})).collect::<Vec<_>>(),
                })
            })
            .collect();
        return print(&format!("{:#}\n", Value::from(all)));
    }
    if modules.is_empty() {
        eprintln!("no module is built; `hoistway module build` builds one");
    }
    let mut out = String::new();
    for m in &modules {
        let words: [(&str, Vec<&str>); 3] = [
            ("built", m.built.iter().filter_map(|path| stem(path)).collect()),
            ("installed", m.installed.iter().filter_map(|path| stem(path)).collect()),
            ("loaded", m.loaded.iter().map(String::as_str).collect()),
        ];
        let words: Vec<String> =
            words.iter().filter_map(|(word, names)| said(word, names)).collect();
        let _ = writeln!(out, "{}  {}", m.release, words.join(", "));
        for (device, scheduler) in &m.used {
            let _ = writeln!(out, "  {device}  {scheduler}");
        }
    }
    print(&out)
}

/// The name of a module by its file, compressed or not.
fn stem(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.split(".ko").next()
}

/// "loaded", and what, where that is not the module with all.
fn said(word: &str, names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        ["hoistway"] => Some(word.into()),
        names => Some(format!("{word} {}", names.join(" "))),
    }
}
