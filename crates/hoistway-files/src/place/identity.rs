//! Which file or folder it is, whatever its name.

use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::AsFd;

/// What tells a file or folder from every other: device, inode, and when it was made.
///
/// An inode's number goes to another file once its own is gone, and a device has another number once the machine was
/// started anew. The time of birth, which nobody can set, tells those apart; not every file system keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the device.
    pub device: u64,
    /// Number of the inode on it.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970; `None`: its file system does not tell.
    pub born: Option<i64>,
}

impl Identity {
    /// What an open file or folder is.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn of(open: impl AsFd) -> Result<Identity, Errno> {
        look(open, OsStr::new(""))
    }

    /// Whether both are of the same thing. Of two with times of birth the devices may differ: their numbers change
    /// with the order in which a machine finds its disks.
    pub fn is(&self, other: &Identity) -> bool {
        self.inode == other.inode
            && match (self.born, other.born) {
                (Some(this), Some(that)) => this == that,
                _ => self.device == other.device,
            }
    }
}

/// What stands in a folder under that name; the folder itself, or an open file, if there is none. Links are not
/// followed.
#[cfg(target_os = "linux")]
pub(super) fn look(dir: impl AsFd, name: &OsStr) -> Result<Identity, Errno> {
    use rustix::fs::{StatxFlags, makedev, statx};
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let stat = match statx(&dir, name, how, StatxFlags::BASIC_STATS | StatxFlags::BTIME) {
        // A filter of system calls that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => return plain(dir, name),
        stat => stat?,
    };
    let born = (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| {
        let seconds = stat.stx_btime.tv_sec.saturating_mul(1_000_000_000);
        seconds.saturating_add(i64::from(stat.stx_btime.tv_nsec))
    });
    Ok(Identity {
        device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        born,
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn look(dir: impl AsFd, name: &OsStr) -> Result<Identity, Errno> {
    plain(dir, name)
}

// The fields of `Stat` have other types on other systems.
#[allow(clippy::unnecessary_cast)]
fn plain(dir: impl AsFd, name: &OsStr) -> Result<Identity, Errno> {
    let stat = match name.is_empty() {
        true => rustix::fs::fstat(dir)?,
        false => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?,
    };
    Ok(Identity { device: stat.st_dev as u64, inode: stat.st_ino as u64, born: None })
}
