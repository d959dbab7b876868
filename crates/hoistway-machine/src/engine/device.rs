//! Who a block device is, and who uses it.

use crate::{MachineError, os};
use rustix::fs::{FileType, major, minor, stat};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceIdentity {
    /// Its folder in sysfs.
    folder: PathBuf,
    /// For results: model, or the kernel's name.
    pub id: String,
    pub title: String,
    pub sector: u64,
    pub rotational: bool,
}

/// Looks a device up in sysfs.
pub(crate) fn identify(path: &Path) -> Result<DeviceIdentity, MachineError> {
    let name = path.display().to_string();
    let stat = stat(path).map_err(|e| {
        MachineError::Refused(format!("--device {name}: {}", std::io::Error::from(e)))
    })?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        let what = format!("--device {name}: is not a block device; files are named by --file");
        return Err(MachineError::Refused(what));
    }
    let number = format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{number}"));
    let folder = folder.map_err(os(format!("/sys/dev/block/{number}")))?;
    let kernel = folder.file_name().map_or(name, |n| n.to_string_lossy().into_owned());
    // A partition's queue and model are those of its disk.
    let disk = match folder.join("partition").exists() {
        true => folder.parent().map_or_else(|| folder.clone(), Path::to_path_buf),
        false => folder.clone(),
    };
    let text = |file: &str| read_to_string(disk.join(file)).map(|t| t.trim().to_string());
    let model = text("device/model").ok().filter(|m| !m.is_empty());
    let number = |file: &str| text(file).ok().and_then(|t| t.parse::<u64>().ok());
    let title = match &model {
        Some(model) => format!("{model} ({kernel})"),
        None => kernel.clone(),
    };
    Ok(DeviceIdentity {
        id: model.unwrap_or(kernel),
        title,
        sector: number("queue/logical_block_size").unwrap_or(512).clamp(512, 4096),
        rotational: number("queue/rotational") == Some(1),
        folder,
    })
}

/// Refuses a device that is mounted, swapped to, or part of another device; or one of whose partitions is.
pub(crate) fn check_unused(device: &DeviceIdentity, name: &str) -> Result<(), MachineError> {
    let mounts = read_to_string("/proc/self/mountinfo").map_err(os("/proc/self/mountinfo"))?;
    // Without swap the kernel may not have the file.
    let swaps = read_to_string("/proc/swaps").unwrap_or_default();
    for folder in parts(&device.folder) {
        let number = read_to_string(folder.join("dev")).map(|t| t.trim().to_string());
        let number = number.map_err(os(folder.join("dev").display().to_string()))?;
        let part =
            folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let refuse = |how: String| {
            let part = if folder == device.folder { String::new() } else { format!(" its {part}") };
            Err(MachineError::Refused(format!("--device {name}:{part} {how}; nothing was touched")))
        };
        if let Some(place) = mounted(&mounts, &number) {
            return refuse(format!("is mounted at {place}"));
        }
        if swapped(&swaps, &number) {
            return refuse("is used for swapping".into());
        }
        let holders = std::fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
        let holders: Vec<_> =
            holders.map(|h| h.file_name().to_string_lossy().into_owned()).collect();
        if !holders.is_empty() {
            return refuse(format!("is part of {}", holders.join(", ")));
        }
    }
    Ok(())
}

/// The device and its partitions.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let partitions = inside.filter(|p| p.join("partition").exists());
    [folder.to_path_buf()].into_iter().chain(partitions).collect()
}

/// Where device `number` (`8:0`) is mounted, by a line of mountinfo; some file systems (btrfs) have numbers
/// of their own, so the source counts too.
fn mounted(mounts: &str, number: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let (own, _root, place) = (front.next()?, front.next()?, front.next()?);
        let source = back.split(' ').nth(1)?;
        (own == number || device_number(source).as_deref() == Some(number))
            .then(|| place.to_string())
    })
}

fn swapped(swaps: &str, number: &str) -> bool {
    let names = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.into_iter().any(|name| device_number(name).as_deref() == Some(number))
}

/// The number of the block device of that name.
fn device_number(name: &str) -> Option<String> {
    if !name.starts_with('/') {
        return None;
    }
    let stat = stat(name).ok()?;
    let block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    block.then(|| format!("{}:{}", major(stat.st_rdev), minor(stat.st_rdev)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number() {
        let text = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                    30 22 0:25 / /proc rw - proc proc rw\n\
                    31 22 7:3 / /mnt/a\\040b rw shared:2 master:1 - xfs /dev/loop3 rw\n";
        assert_eq!(mounted(text, "254:0").as_deref(), Some("/"));
        assert_eq!(mounted(text, "7:3").as_deref(), Some("/mnt/a\\040b"));
        assert_eq!(mounted(text, "7:4"), None);
        assert!(!swapped("Filename Type Size Used Priority\n", "7:3"));
        assert!(!swapped("Filename Type Size Used Priority\n/swapfile file 1 0 -2\n", "7:3"));
    }

    #[test]
    fn the_disk_of_the_root_file_system_is_refused_if_it_is_one() {
        let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let root = text.lines().find(|l| l.split(' ').nth(4) == Some("/")).unwrap();
        let source = root.split_once(" - ").unwrap().1.split(' ').nth(1).unwrap();
        if device_number(source).is_none() {
            return println!("skipped: / is not on a block device of its own ({source})");
        }
        let identity = identify(Path::new(source)).unwrap();
        let error = check_unused(&identity, source).unwrap_err().to_string();
        assert!(error.contains("is mounted at"), "{error}");
    }
}
