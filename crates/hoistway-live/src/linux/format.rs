//! What is on the guest's disk: nothing, or a file system, made by the host's own program for it.

use rustix::mount::{MountFlags, mount};
use std::ffi::CStr;
use std::path::Path;
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

/// What XFS is to consist of for a kernel that does not know all that today's programs make: a file of xfsprogs.
/// Kernels from 6.1 on get what these programs make by themselves.
fn xfs_features(release: &str) -> Option<String> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    let release: (u32, u32) = (numbers.next()?, numbers.next()?);
    let known = [(5, 15), (5, 10), (5, 4)].into_iter().find(|known| *known <= release);
    let (major, minor) = known.filter(|_| release < (6, 1))?;
    Some(format!("/usr/share/xfsprogs/mkfs/lts_{major}.{minor}.conf"))
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
            let features = xfs_features(&release).filter(|file| Path::new(file).exists());
            features.iter().for_each(|file| _ = command.args(["-c", &format!("options={file}")]));
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
    fn xfs_of_an_old_kernel_is_what_that_knows() {
        let name = |release| xfs_features(release).map(|file| file[25..].to_string());
        assert_eq!(name("5.4.291\n").as_deref(), Some("lts_5.4.conf"));
        assert_eq!(name("5.9.0-rc1").as_deref(), Some("lts_5.4.conf"));
        assert_eq!(name("5.10.262").as_deref(), Some("lts_5.10.conf"));
        assert_eq!(name("6.0.1").as_deref(), Some("lts_5.15.conf"));
        assert_eq!((name("6.1.192"), name("7.3.4"), name("4.19.1")), (None, None, None));
    }
}
