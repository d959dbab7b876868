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

/// Name, program that makes it, its arguments, and options of the mount.
type Row = (Format, &'static str, &'static [&'static str], &'static CStr);

/// Nothing is left to do in the background: it would be traffic of nobody. ext4 would otherwise write its inode tables
/// after the mount, from a random moment of the first five seconds on, with a flush after each; that they are not
/// written at all costs nothing on a disk that nobody checks. Data need not be told from none, so that nothing is
/// discarded first.
///
/// The same file system on every run: it would draw its identity, and ext4 the seed of its hashes, from random numbers.
/// mkfs.ext4 takes the last of several `-E`.
const ROWS: &[Row] = &[
    (Format::Raw, "raw", &[], c""),
    (
        Format::Ext4,
        "ext4",
        &[
            "mkfs.ext4",
            "-q",
            "-F",
            "-U",
            "6f697374-7761-7900-8000-000000000001",
            "-E",
            "nodiscard,lazy_itable_init=1,lazy_journal_init=1,hash_seed=6f697374-7761-7900-8000-000000000002",
        ],
        c"noinit_itable",
    ),
    (
        Format::Xfs,
        "xfs",
        &["mkfs.xfs", "-q", "-f", "-K", "-m", "uuid=6f697374-7761-7900-8000-000000000001"],
        c"",
    ),
    (
        Format::Btrfs,
        "btrfs",
        &["mkfs.btrfs", "-q", "-f", "-K", "-U", "6f697374-7761-7900-8000-000000000001"],
        c"",
    ),
];

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
        let mut command = Command::new(program);
        command.args(args);
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
        mount(disk, at, self.name(), MountFlags::empty(), self.row().3)
            .map_err(|e| format!("{} on {disk}: {e}", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_of_ext4_takes_back_an_earlier_one() {
        let args = Format::Ext4.row().2;
        assert_eq!(args.iter().filter(|a| **a == "-E").count(), 1);
        let (program, args) = args.split_first().unwrap();
        let (Ok(_), Ok(_)) =
            (Command::new(program).arg("-V").output(), Command::new("dumpe2fs").arg("-V").output())
        else {
            return println!("skipped: there is no {program} or dumpe2fs (e2fsprogs)");
        };
        let disk = std::env::temp_dir().join(format!("hoistway-ext4-{}", std::process::id()));
        std::fs::File::create(&disk).unwrap().set_len(1 << 30).unwrap();
        let made = Command::new(program).args(args).arg(&disk).output().unwrap();
        let told = Command::new("dumpe2fs").arg(&disk).output().unwrap();
        let _ = std::fs::remove_file(&disk);
        assert!(made.status.success(), "{made:?}");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.contains("6f697374-7761-7900-8000-000000000002"), "the seed: {told}");
        let groups = told.lines().filter(|l| l.contains(": (Blocks ")).count();
        let written = told.lines().filter(|l| l.contains("ITABLE_ZEROED")).count();
        assert!(groups == 8 && written == 0, "{written} of {groups}: {told}");
    }

    #[test]
    fn xfs_of_an_old_kernel_has_what_that_knows() {
        assert_eq!(xfs_options("5.4.291\n").len(), 4);
        assert_eq!(xfs_options("5.10.262"), ["-i", "nrext64=0"]);
        for release in ["5.19.0-rc1", "6.1.192", "7.3.4"] {
            assert!(xfs_options(release).is_empty(), "{release}");
        }
    }
}
