//! `--rules DIR`: the files to install, and two scripts.

use crate::Failure;
use hoistway_lab::recommend::install::{Lines, SystemFile};
use hoistway_lab::recommend::{Advice, Match};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes udev forget rules that are gone, and look at the drives anew.
pub const RELOAD: &str = "udevadm control --reload";

/// Writes the files of every drive that has an answer.
pub fn write(all: &[Advice], by: Match, folder: &Path) -> Result<(), Failure> {
    let mut files: Vec<SystemFile> = Vec::new();
    for advice in all {
        let Some(config) = advice.answer.config() else { continue };
        let lines: Lines = advice.lines(config, by);
        for file in lines.files {
            if !files.iter().any(|f| f.path == file.path) {
                files.push(file);
            }
        }
    }
    if files.is_empty() {
        eprintln!("no rules written: there is nothing to install");
        return Ok(());
    }
    write_files(&files, folder)
}

/// Writes files and scripts, and checks what can be checked here.
pub fn write_files(files: &[SystemFile], folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, e: std::io::Error| {
        Failure::Environment(format!(
            "{}: {e}; choose a writable place with --rules",
            path.display()
        ))
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let put = |name: &str, text: &str| -> Result<PathBuf, Failure> {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
        Ok(path)
    };
    for file in files {
        let path = put(name_of(&file.path), &file.text)?;
        if file.path.ends_with(".rules") {
            eprintln!("{}: {}", path.display(), verified(&path));
        }
    }
    put("install.sh", &script(files, true))?;
    put("undo.sh", &script(files, false))?;
    eprintln!("rules: {} (install.sh, undo.sh)", folder.display());
    Ok(())
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A script that copies the files to their places, or takes them away.
fn script(files: &[SystemFile], install: bool) -> String {
    let mut out = String::from("#!/bin/sh\n# Made by hoistway recommend. Run as root.\nset -eu\n");
    if install {
        out.push_str("cd \"$(dirname \"$0\")\"\n");
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
