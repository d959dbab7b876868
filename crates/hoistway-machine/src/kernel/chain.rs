//! From a block device down to the queues that schedule.
//!
//! A block device of Linux is a partition, a stack of others (dm, md, multipath of NVMe), a loop device on a
//! file, or a disk. Requests are scheduled where they have tags: at devices with hardware queues, whose
//! folder in sysfs has `mq`. A stacked device passes bios on as they come; what its own `queue/scheduler`
//! says, if it has one, does nothing. The exception is request-based device mapper (multipath), which has
//! `mq`, and schedules in place of its paths.
//!
//! Rules, from the top, for a device of `/sys/dev/block`:
//!
//! - with `partition`: the disk it is a part of, which is the folder above;
//! - with `mq`: it schedules. A loop device lies on a file, whose device schedules what the loop device
//!   issues a second time; those queues are listed apart;
//! - with `slaves/*`: each of them (LVM, dm-crypt, md);
//! - below `nvme-subsystem`: its paths, which are hidden disks `nvme0c1n1`;
//! - otherwise nothing schedules: zram, brd, pmem and their like have no tags.
//!
//! A chain may branch: a volume over two disks has two queues. Depth is bounded, since sysfs has no cycles
//! but a made-up tree may.

use super::queue::Queue;
use super::{System, line};
use crate::MachineError;
use crate::os;
use std::fs;
use std::path::{Path, PathBuf};

/// A device of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its kernel name: `dm-0`.
    pub name: String,
    /// What it is, where the name does not say: `crypt`, `lvm vg-home`, `raid1`, `backing file /x`.
    pub what: Option<String>,
    /// What its queue offers, as sysfs prints it, if it schedules.
    pub schedulers: Option<String>,
    /// What lies below it.
    pub below: Vec<Link>,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Those that schedule.
    pub queues: Vec<Queue>,
    /// Those that schedule once more, below a loop device.
    pub again: Vec<Queue>,
    /// Devices at the ends that schedule nothing, with the reason.
    pub silent: Vec<String>,
}

impl Link {
    /// One line per end of the chain: `dm-0 (crypt) -> nvme0n1p2 -> nvme0n1 [none] mq-deadline`.
    pub fn describe(&self) -> Vec<String> {
        let mut own = self.name.clone();
        if let Some(what) = &self.what {
            own += &format!(" ({what})");
        }
        if let Some(schedulers) = &self.schedulers {
            own += &format!(" {schedulers}");
        }
        if self.below.is_empty() {
            return vec![own];
        }
        let below = self.below.iter().flat_map(Link::describe);
        below.map(|rest| format!("{own} -> {rest}")).collect()
    }
}

/// Follows the device with this number (`8:1`).
pub(super) fn follow(
    system: &System,
    number: &str,
    found: &mut Found,
) -> Result<Link, MachineError> {
    let entry = system.path(&format!("/sys/dev/block/{number}"));
    let folder = fs::canonicalize(&entry).map_err(os(format!("{}", entry.display())))?;
    walk(system, &folder, found, DEPTH_MAX, false)
}

fn walk(
    system: &System,
    folder: &Path,
    found: &mut Found,
    depth: u32,
    again: bool,
) -> Result<Link, MachineError> {
    let name = file_name(folder);
    if depth == 0 {
        return Err(MachineError::Refused(format!(
            "{name}: devices lie on each other in a circle"
        )));
    }
    let mut link = Link { name, what: what(folder), schedulers: None, below: Vec::new() };
    if folder.join("partition").exists() {
        let disk = folder.parent().unwrap_or(folder);
        link.below.push(walk(system, disk, found, depth - 1, again)?);
        return Ok(link);
    }
    if folder.join("mq").is_dir() {
        if let Some(number) = backing(system, folder) {
            // The end of the chain, if the backing file's device is none of sysfs (tmpfs, FUSE).
            let entry = system.path(&format!("/sys/dev/block/{number}"));
            if let Ok(below) = fs::canonicalize(entry) {
                link.below.push(walk(system, &below, found, depth - 1, true)?);
            }
        }
        let queue = Queue::new(system, folder)?;
        link.schedulers = queue.attribute("scheduler");
        if again {
            let schedulers = link.schedulers.as_deref().unwrap_or_default();
            link.schedulers = Some(format!("{schedulers} (schedules a second time)"));
        }
        let list = if again { &mut found.again } else { &mut found.queues };
        if !list.iter().any(|q| q.number == queue.number) {
            list.push(queue);
        }
        return Ok(link);
    }
    let below = match slaves(folder) {
        slaves if slaves.is_empty() => paths(system, folder),
        slaves => slaves,
    };
    if below.is_empty() {
        found.silent.push(link.name.clone());
    }
    for device in below {
        link.below.push(walk(system, &device, found, depth - 1, again)?);
    }
    Ok(link)
}

/// What a device is, in a word or two.
fn what(folder: &Path) -> Option<String> {
    if let Some(level) = line(&folder.join("md/level")) {
        return Some(level);
    }
    if let Some(file) = line(&folder.join("loop/backing_file")) {
        return Some(format!("backing file {file}"));
    }
    if is_head(folder) {
        return Some("multipath head, schedules nothing".into());
    }
    let name = line(&folder.join("dm/name"))?;
    let uuid = line(&folder.join("dm/uuid")).unwrap_or_default();
    let kind = uuid.split('-').next().unwrap_or_default();
    Some(match kind {
        "CRYPT" => "crypt".into(),
        "LVM" => format!("lvm {name}"),
        "mpath" => format!("multipath {name}"),
        "" => format!("dm {name}"),
        other => format!("dm {} {name}", other.to_lowercase()),
    })
}

fn slaves(folder: &Path) -> Vec<PathBuf> {
    folders(&folder.join("slaves"))
}

/// The paths of a multipath head of NVMe: `nvme0n1` of subsystem 0 has `nvme0c0n1`, `nvme0c1n1`.
fn paths(system: &System, folder: &Path) -> Vec<PathBuf> {
    if !is_head(folder) {
        return Vec::new();
    }
    let listed = folders(&folder.join("multipath"));
    if !listed.is_empty() {
        return listed;
    }
    let name = file_name(folder);
    let Some((head, number)) = name.rsplit_once('n') else { return Vec::new() };
    let of_head = |path: &PathBuf| {
        let name = file_name(path);
        let rest = name.strip_prefix(head).and_then(|rest| rest.strip_prefix('c'));
        rest.and_then(|rest| rest.split_once('n')).is_some_and(|(controller, n)| {
            n == number && !controller.is_empty() && controller.bytes().all(|b| b.is_ascii_digit())
        })
    };
    folders(&system.path("/sys/block")).into_iter().filter(of_head).collect()
}

fn is_head(folder: &Path) -> bool {
    folder.components().any(|c| c.as_os_str() == "nvme-subsystem")
}

/// The number of the device that holds the backing file of a loop device.
fn backing(system: &System, folder: &Path) -> Option<String> {
    let file = line(&folder.join("loop/backing_file"))?;
    super::volume::number_of_file(system, Path::new(&file))
}

/// What a folder of links points to, in order of their names.
pub(super) fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| fs::canonicalize(path).ok()).collect()
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Deeper than any stack that somebody would build; chosen.
const DEPTH_MAX: u32 = 32;
