//! What is mounted where, and which devices a file system lies on.

use super::chain::folders;
use super::volume::{number_of_device, plain, system_path};
use super::{Lack, System};
use crate::MachineError;
use crate::os;
use std::fs;
use std::path::{Path, PathBuf};

/// A mount, as a line of `/proc/self/mountinfo`.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub id: u64,
    pub number: String,
    pub point: PathBuf,
    pub options: String,
    pub kind: String,
    pub source: String,
    pub super_options: String,
}

impl Mount {
    /// All that this process sees.
    pub fn all(system: &System) -> Result<Vec<Mount>, MachineError> {
        let file = system.path("/proc/self/mountinfo");
        let text = fs::read_to_string(&file).map_err(os(file.display().to_string()))?;
        Ok(text.lines().filter_map(Mount::parse).collect())
    }

    fn parse(line: &str) -> Option<Mount> {
        // id parent 8:1 root point options optional... - kind source super-options
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        Some(Mount {
            id: left.first()?.parse().ok()?,
            number: left.get(2)?.to_string(),
            point: unescape(left.get(4)?).into(),
            options: left.get(5)?.to_string(),
            kind: right.next()?.to_string(),
            source: unescape(right.next()?),
            super_options: right.next().unwrap_or_default().to_string(),
        })
    }

    /// The mount that holds a path. The kernel knows; where it does not tell (before Linux 5.8, and in made-up
    /// trees) it is the one with the longest point, of several there the last. A mount that hides another one
    /// deeper below it would be missed by that.
    pub fn of<'a>(system: &System, mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
        let told = id_of(system, path).and_then(|id| mounts.iter().find(|m| m.id == id));
        let longest = || {
            let held = mounts.iter().filter(|m| path.starts_with(&m.point));
            held.max_by_key(|m| m.point.components().count())
        };
        told.or_else(longest)
    }

    /// The mount that holds what is written to an overlay.
    pub fn upper(&self, system: &System) -> Result<Option<Mount>, MachineError> {
        let upper = self.super_options.split(',').find_map(|o| o.strip_prefix("upperdir="));
        let Some(upper) = upper.filter(|_| self.kind == "overlay") else { return Ok(None) };
        // Within a container the folder of the machine is not to be seen.
        let Ok(path) = fs::canonicalize(system_path(system, Path::new(upper))) else {
            return Ok(None);
        };
        let mounts = Mount::all(system)?;
        let below = Mount::of(system, &mounts, &plain(system, &path));
        Ok(below.filter(|m| m.point != self.point).cloned())
    }

    /// The devices it lies on.
    pub fn numbers(&self, system: &System) -> Result<Vec<String>, MachineError> {
        match self.kind.as_str() {
            "btrfs" => return btrfs(system, &self.source),
            // `/dev/sda1:/dev/sdb1`
            "bcachefs" => {
                let devices = self.source.split(':');
                return devices.map(|d| number_of_device(system, Path::new(d))).collect();
            }
            _ => {}
        }
        if !self.number.starts_with("0:") {
            let mut numbers = vec![self.number.clone()];
            numbers.extend(self.beside(system));
            return Ok(numbers);
        }
        if let Some(below) = self.upper(system)? {
            return below.numbers(system);
        }
        let (why, remedy) = nothing(&self.kind);
        Err(MachineError::Lack(Lack::new(
            format!("{} ({})", self.point.display(), self.kind),
            format!("nothing schedules here: {why}"),
            remedy,
        )))
    }

    /// Devices beside the first that XFS keeps its log or its real-time files on.
    fn beside(&self, system: &System) -> Vec<String> {
        let named = self.super_options.split(',').filter_map(|option| {
            let (key, device) = option.split_once('=')?;
            matches!(key, "logdev" | "rtdev").then_some(device)
        });
        named.filter_map(|device| number_of_device(system, Path::new(device)).ok()).collect()
    }
}

/// Why a file system without a device has no scheduler, and what to do instead.
fn nothing(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => {
            ("its files lie in memory", "choose a directory on a disk")
        }
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "afs" | "9p" | "virtiofs" | "lustre" => (
            "its files lie with a server, whose devices schedule",
            "run hoistway on the machine that has the disks",
        ),
        "overlay" => (
            "the file system below the overlay is not to be seen from here, as in a container",
            "choose a directory of a volume that is mounted into the container, or run hoistway outside",
        ),
        "zfs" => (
            "ZFS opens its devices itself and has an I/O scheduler of its own above theirs",
            "name a device of the pool: --device (see `zpool status`)",
        ),
        kind if kind.starts_with("fuse") => (
            "only the program behind this file system knows where its files lie",
            "name the directory or device it works on",
        ),
        _ => ("the file system lies on no block device", "choose a directory on a disk"),
    }
}

/// Members of the btrfs that has this device.
fn btrfs(system: &System, source: &str) -> Result<Vec<String>, MachineError> {
    let own = number_of_device(system, Path::new(source))?;
    for file_system in folders(&system.path("/sys/fs/btrfs")) {
        let devices = folders(&file_system.join("devices"));
        let numbers: Vec<String> =
            devices.iter().filter_map(|d| super::line(&d.join("dev"))).collect();
        if numbers.contains(&own) {
            return Ok(numbers);
        }
    }
    Ok(vec![own])
}

fn id_of(system: &System, path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    if !system.is_real() {
        return None;
    }
    let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

/// `\040` and its like in mountinfo.
fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let code = octal.and_then(|o| std::str::from_utf8(o).ok());
        match code.and_then(|o| u8::from_str_radix(o, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_sources_are_unescaped() {
        let line = "36 35 98:0 /mnt1 /mnt\\0402\\134 rw,noatime master:1 shared:2 - ext3 /dev/my\\040root \
                    rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.id, mount.number.as_str()), (36, "98:0"));
        assert_eq!(mount.point, Path::new("/mnt 2\\"));
        assert_eq!((mount.kind.as_str(), mount.source.as_str()), ("ext3", "/dev/my root"));
        assert_eq!(mount.super_options, "rw,errors=continue");
        assert_eq!(unescape("a\\"), "a\\");
        assert_eq!(unescape("\\04"), "\\04");
        assert!(Mount::parse("36 35 98:0").is_none());
    }
}
