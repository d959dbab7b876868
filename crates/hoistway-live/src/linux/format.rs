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
        let done = Command::new(program).args(args).args(identity).arg(disk).output();
        let done = done.map_err(|e| format!("{program}: {e}"))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("{program} {disk}: {}: {}", done.status, said.trim()));
        }
        mount(disk, at, self.name(), MountFlags::empty(), None::<&CStr>)
            .map_err(|e| format!("{} on {disk}: {e}", self.name()))
    }
}
