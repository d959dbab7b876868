//! Programs of the machine that are run for a build, and what is said when one is missing or fails.

use std::path::PathBuf;
use std::process::Command;

/// Whether a program is to be found. Those of the system's folders count, which a user's PATH often lacks.
pub(crate) fn there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(name).is_file())
}

/// Of programs and the packages of Debian that have them, the packages of those that are missing; `None`: all are there.
pub(crate) fn lacking(programs: &[(&str, &str)]) -> Option<String> {
    let mut packages: Vec<&str> =
        programs.iter().filter(|(name, _)| !there(name)).map(|&(_, package)| package).collect();
    packages.dedup();
    (!packages.is_empty()).then(|| packages.join(" "))
}

/// A command that builds, or asks, for this machine: another one's compiler, or another architecture's settings, are of no use.
pub(crate) fn for_this_machine(command: &mut Command) -> &mut Command {
    for name in ["ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "MAKEFLAGS", "LLVM", "KCFLAGS"] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C")
}

/// The last of the lines a program said, each on its own.
pub(crate) fn last_lines(lines: &[impl AsRef<str>]) -> String {
    let last = lines.len().saturating_sub(12);
    lines[last..].iter().map(|line| format!("\n  {}", line.as_ref())).collect()
}

/// Version and patch level by the head of a kernel's Makefile.
pub(crate) fn series_of(makefile: &str) -> Option<(u32, u32)> {
    let number = |name: &str| {
        let mut lines = makefile.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| key.trim() == name).and_then(|(_, n)| n.trim().parse().ok())
    };
    number("VERSION").zip(number("PATCHLEVEL"))
}
