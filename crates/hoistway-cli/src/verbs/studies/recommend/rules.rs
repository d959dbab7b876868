//! `--rules DIR`: the files to install, and two scripts.

use crate::common::output::{Folder, check_folder};
use crate::failure::Failure;
use hoistway_files::{Dir, Kind};
use hoistway_lab::recommend::install::{Asks, Lines, MODULE_AT_BOOT, Step, SystemFile, USUAL};
use hoistway_lab::recommend::{Advice, Match};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes udev forget rules that are gone, and look at the drives anew.
pub const RELOAD: &str = "udevadm control --reload";

/// What installs recommendations: files, and lines for the scripts.
#[derive(Debug, Default)]
struct Package {
    files: Vec<SystemFile>,
    install: Vec<String>,
    undo: Vec<String>,
    /// A file would hold two answers: which of them came first is chance, so neither is written.
    contested: bool,
}

/// A service of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    name: String,
    weight: Option<u64>,
}

/// Writes what installs the recommendation of every drive that has one: all of it, or nothing of that drive. Nothing at
/// all where two drives ask for two answers in one file.
pub fn write(all: &[Advice], by: Match, services: &[String], folder: &Path) -> Result<(), Failure> {
    let services: Vec<Service> =
        services.iter().map(|text| Service::parse(text)).collect::<Result<_, _>>()?;
    let mut package = Package::default();
    let mut refused = Vec::new();
    for advice in all {
        let Some(config) = advice.answer.config() else { continue };
        let added = match advice.not_for_good() {
            Some(why) => Err(why),
            None => package.add(&advice.lines(config, by), &services),
        };
        if let Err(why) = added {
            let (drive, config) = (advice.field.identity.name(), &advice.field.configs[config]);
            refused.push(format!("{drive}: {config} is not installed, nor a part of it: {why}"));
        }
    }
    if package.contested {
        refused.push("no rules written".into());
    } else if !package.files.is_empty() || !package.install.is_empty() {
        put(&package, &Folder::open(FLAG, folder, is_ours)?)?;
    } else if refused.is_empty() {
        eprintln!("no rules written: there is nothing to install");
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(refused.join("\n"))),
    }
}

impl Service {
    fn parse(text: &str) -> Result<Service, Failure> {
        let (name, weight) = match text.split_once('=') {
            Some((name, weight)) => (name, Some(weight)),
            None => (text, None),
        };
        let wrong = |what: &str| Failure::Usage(format!("--service {text}: {what}"));
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
        if name.is_empty() || !name.chars().all(plain) || name.starts_with(['-', '.']) {
            return Err(wrong(
                "write the name of a unit, and behind = its weight, such as web.service=300",
            ));
        }
        let weight = weight.map(str::parse).transpose();
        let weight = weight.map_err(|_| wrong("a weight is a whole number, such as 300"))?;
        let typed = [".service", ".slice", ".scope"].iter().any(|end| name.ends_with(end));
        let name = if typed { name.to_string() } else { format!("{name}.service") };
        Ok(Service { name, weight })
    }
}

impl Package {
    /// Adds everything of a recommendation, or nothing and says why.
    fn add(&mut self, lines: &Lines, services: &[Service]) -> Result<(), String> {
        let lacks = lines.lacks(!services.is_empty());
        if !lacks.is_empty() {
            return Err(lacks.join("; "));
        }
        all_told(lines, services)?;
        let mut package = Package { files: lines.files.clone(), ..Package::default() };
        for step in &lines.steps {
            match step.asks {
                Asks::Nothing => {}
                Asks::Service(weight) => package.tell(step, weight, services)?,
                Asks::Program => {
                    let named = services.iter().filter(|s| s.weight.is_none());
                    package.files.extend(named.map(|s| real_time(&s.name)));
                }
            }
        }
        for file in &package.files {
            let other = |f: &&SystemFile| f.path == file.path && rules_of(f) != rules_of(file);
            if self.files.iter().any(|f| other(&f)) {
                self.contested = true;
                return Err(format!(
                    "{} would hold two answers; ask for each drive by itself",
                    file.path
                ));
            }
        }
        for file in package.files {
            if !self.files.iter().any(|f| f.path == file.path) {
                self.files.push(file);
            }
        }
        self.install.extend(package.install);
        self.undo.extend(package.undo);
        Ok(())
    }

    /// Lines for each service that a step is about.
    fn tell(
        &mut self,
        step: &Step,
        weight: Option<u64>,
        services: &[Service],
    ) -> Result<(), String> {
        let named: Vec<&Service> = services.iter().filter(|s| s.weight == weight).collect();
        // What weighs as much as everybody else need not be named.
        if named.is_empty() && weight != Some(USUAL) {
            let weight =
                weight.map_or_else(String::new, |w| format!(" of weight {w}: --service NAME={w}"));
            return Err(format!("no service is named{weight}"));
        }
        for service in named {
            let of = |line: &String| line.replace("SERVICE", &service.name);
            self.install.extend(step.lines.iter().map(of));
            self.undo.extend(step.undo.iter().map(of));
        }
        match self.install.iter().any(|line| line.contains("/dev/DEVICE")) {
            true => Err("the name of the device is not known (a simulated drive has none)".into()),
            false => Ok(()),
        }
    }
}

/// Refuses services that no step is about.
fn all_told(lines: &Lines, services: &[Service]) -> Result<(), String> {
    let told = |s: &Service| {
        let about = |step: &Step| match step.asks {
            Asks::Nothing => false,
            Asks::Service(weight) => s.weight == weight,
            Asks::Program => s.weight.is_none(),
        };
        lines.steps.iter().any(about)
    };
    let Some(idle) = services.iter().find(|s| !told(s)) else { return Ok(()) };
    let weights: Vec<String> = lines.weights().iter().map(u64::to_string).collect();
    Err(match weights.is_empty() {
        true => format!("--service {}: it has nothing to tell a service", idle.name),
        false => format!(
            "--service {}: name its weight, one of those that were measured: {}",
            idle.name,
            weights.join(", ")
        ),
    })
}

/// The text without its comments, which tell when and by what it was measured.
fn rules_of(file: &SystemFile) -> String {
    file.text.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n")
}

fn real_time(service: &str) -> SystemFile {
    SystemFile {
        path: format!("/etc/systemd/system/{service}.d/50-hoistway.conf"),
        text: "# Made by hoistway recommend. Undo: delete this file, then systemctl daemon-reload. It holds from the next \
               start of the service on.\n[Service]\nIOSchedulingClass=realtime\nIOSchedulingPriority=4\n"
            .into(),
    }
}

/// Writes files and scripts of rules alone.
pub fn write_files(files: &[SystemFile], folder: &Folder<'_>) -> Result<(), Failure> {
    put(&Package { files: files.to_vec(), ..Package::default() }, folder)
}

/// Whether rules may be written into a folder, for whoever asks before the work.
pub fn check(folder: Option<&Path>) -> Result<(), Failure> {
    check_folder(FLAG, folder, is_ours)
}

/// Whether an earlier version has written rules into a folder.
fn is_ours(dir: &Dir) -> bool {
    dir.holds("install.sh", Kind::Marked)
}

const FLAG: &str = "--rules";

/// Before anything is put in place.
const MODULE: &str = "modinfo -n hoistway >/dev/null 2>&1 || {\n  \
     echo 'first: hoistway module build && hoistway module install' >&2\n  exit 1\n}\n";

/// Writes files and scripts, and checks what can be checked here.
fn put(package: &Package, folder: &Folder<'_>) -> Result<(), Failure> {
    let files = &package.files;
    let put = |name: &str, text: &str| -> Result<PathBuf, Failure> {
        folder.write(name, text.as_bytes(), Kind::Marked)?;
        Ok(folder.path().join(name))
    };
    for file in files {
        let path = put(name_of(&file.path), &file.text)?;
        if file.path.ends_with(".rules") {
            eprintln!("{}: {}", path.display(), verified(&path));
        }
    }
    put("install.sh", &script(package, true))?;
    put("undo.sh", &script(package, false))?;
    eprintln!("rules: {} (install.sh, undo.sh)", folder.path().display());
    Ok(())
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A script that copies the files to their places, or takes them away.
fn script(package: &Package, install: bool) -> String {
    let files = &package.files;
    let mut out = String::from("#!/bin/sh\n# Made by hoistway recommend. Run as root.\nset -eu\n");
    if install {
        out.push_str("cd \"$(dirname \"$0\")\"\n");
        if files.iter().any(|f| f.path == MODULE_AT_BOOT) {
            out.push_str(MODULE);
        }
    }
    for file in files {
        let _ = match install {
            true => writeln!(out, "install -D -m 644 {} {}", name_of(&file.path), file.path),
            false => writeln!(out, "rm -f {}", file.path),
        };
    }
    if files.iter().any(|f| f.path.ends_with(".hwdb")) {
        out.push_str("systemd-hwdb update\n");
    }
    let _ = writeln!(out, "{RELOAD}");
    if files.iter().any(|f| f.path.starts_with("/etc/systemd/system/")) {
        out.push_str("systemctl daemon-reload\n");
    }
    for line in if install { &package.install } else { &package.undo } {
        let _ = writeln!(out, "{line}");
    }
    match install {
        true => {
            for file in files.iter().filter(|f| f.path.starts_with("/etc/modules-load.d/")) {
                for module in file.text.lines().filter(|l| !l.starts_with('#')) {
                    let _ = writeln!(out, "modprobe {module}");
                }
            }
            out.push_str("udevadm trigger --subsystem-match=block --action=change\n");
        }
        false => out.push_str(
            "echo 'Drives keep the scheduler that they have now until the next boot, or until it is written into sysfs.'\n",
        ),
    }
    out
}

/// What `udevadm verify` says of a file of rules.
fn verified(path: &Path) -> String {
    // Since systemd 254; older ones know no such verb.
    let known = Command::new("udevadm").args(["verify", "--help"]).output();
    if !known.is_ok_and(|o| o.status.success()) {
        return "not checked: udevadm has no verify (systemd 254 has)".into();
    }
    match Command::new("udevadm").arg("verify").arg(path).output() {
        Ok(o) if o.status.success() => "udevadm verify finds nothing wrong".into(),
        Ok(o) => format!("udevadm verify: {}", String::from_utf8_lossy(&o.stdout).trim()),
        Err(e) => format!("not checked: udevadm: {e}"),
    }
}
