//! What is on the guest's disk: nothing, or a file system, made by the host's own program for it.

use rustix::mount::{MountFlags, mount};
use std::ffi::CStr;
use std::process::Command;

/// A way to use the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Files are the ranges of the disk that the simulated host gives them.
    #[default]
    Raw,
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

/// Name, program that makes it, and its arguments.
type Row = (Format, &'static str, &'static [&'static str]);

/// Nothing is left to do in the background: it would be traffic of nobody. Data need not be told from none, so that
/// nothing is discarded first.
const ROWS: &[Row] = &[
    (Format::Raw, "raw", &[]),
    (
        Format::Ext4,
        "ext4",
        &["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
    ),
    (Format::Xfs, "xfs", &["mkfs.xfs", "-q", "-f", "-K"]),
    (Format::Btrfs, "btrfs", &["mkfs.btrfs", "-q", "-f", "-K"]),
];

/// The same file system on every run: it would draw its identity, and ext4 the seed of its hashes, from random numbers.
const IDENTITY: &str = "6f697374-7761-7900-8000-000000000001";

/// What XFS must not have for a kernel that does not know it: today's programs make it by themselves.
fn xfs_options(release: &str) -> &'static [&'static str] {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let release: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match release {
        (0..5, _) | (5, 0..10) => &["-m", "bigtime=0,inobtcount=0", "-i", "nrext64=0"],
        (5, 10..19) => &["-i", "nrext64=0"],
        _ => &[],
    }
}

impl Format {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Format> {
        ROWS.iter().map(|row| row.0)
    }

    /// The format of that name.
    pub fn find(name: &str) -> Option<Format> {
        ROWS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The program that makes it, which the host must have.
    pub fn program(self) -> Option<&'static str> {
        self.row().2.first().copied()
    }

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.0 == self).expect("every format has a row")
    }

    /// Makes it on a disk, and mounts it.
    pub(super) fn make(self, disk: &str, at: &str) -> Result<(), String> {
        let Some((program, args)) = self.row().2.split_first() else {
            return Err("a disk without a file system cannot be mounted".into());
        };
        let identity: &[&str] = match self {
            Format::Ext4 => {
                &["-U", IDENTITY, "-E", "hash_seed=6f697374-7761-7900-8000-000000000002"]
            }
            Format::Xfs => &["-m", "uuid=6f697374-7761-7900-8000-000000000001"],
            _ => &["-U", IDENTITY],
        };
        let mut command = Command::new(program);
        command.args(args).args(identity);
        if self == Format::Xfs
            && let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease")
        {
            command.args(xfs_options(&release));
        }
        let done = command.arg(disk).output();
        let done = done.map_err(|e| format!("{program}: {e}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("{program} {disk}: {}: {}", done.status, said.trim()));
        }
        mount(disk, at, self.name(), MountFlags::empty(), None::<&CStr>)
            .map_err(|e| format!("{} on {disk}: {e}", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xfs_of_an_old_kernel_has_what_that_knows() {
        assert_eq!(xfs_options("5.4.291\n").len(), 4);
        assert_eq!(xfs_options("5.10.262"), ["-i", "nrext64=0"]);
        for release in ["5.19.0-rc1", "6.1.192", "7.3.4"] {
            assert!(xfs_options(release).is_empty(), "{release}");
        }
    }
}
