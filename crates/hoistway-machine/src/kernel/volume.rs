//! From a directory or a device to the queues that schedule what is done there.

use super::chain::{Found, Link, file_name, follow};
use super::mounts::Mount;
use super::queue::Queue;
use super::{Lack, System};
use crate::MachineError;
use crate::os;
use hoistway_files::Dir;
use hoistway_serve::ServeError;
use std::fs;
use std::path::{Path, PathBuf};

/// What a run is to be done on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeTarget {
    /// Files below a directory.
    Dir(PathBuf),
    /// A block device.
    Device(PathBuf),
}

/// A directory or device, and the queues that schedule what is done there.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The directory or device, without links.
    pub path: PathBuf,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The devices from the top; several for a file system on several devices.
    pub chain: Vec<Link>,
    /// The queues that schedule.
    pub queues: Vec<Queue>,
    /// Queues below a loop device, which schedule a second time.
    pub again: Vec<Queue>,
    /// Kind of file system, of a directory: `ext4`.
    pub file_system: Option<String>,
    /// Options of the mount, of a directory: `rw,relatime`.
    pub mount_options: Option<String>,
    /// Where the file system is mounted, of a directory.
    pub mount_point: Option<PathBuf>,
    /// Of an overlay: the file system that takes what is written to it, `ext4 /`.
    pub upper: Option<String>,
    system: System,
}

/// Finds the queues that schedule below a directory or device.
pub fn resolve(target: &VolumeTarget) -> Result<Volume, MachineError> {
    resolve_in(&System::real(), target)
}

/// The same on another tree of files.
pub fn resolve_in(system: &System, target: &VolumeTarget) -> Result<Volume, MachineError> {
    match target {
        VolumeTarget::Dir(dir) => resolve_dir(system, dir),
        VolumeTarget::Device(device) => resolve_device(system, device),
    }
}

impl Volume {
    /// The chain in words, one line per queue.
    pub fn describe(&self) -> String {
        let path = self.path.display();
        let head = match (&self.file_system, &self.upper) {
            (Some(kind), Some(upper)) => format!("{path} ({kind} on {upper}) -> "),
            (Some(kind), None) => format!("{path} ({kind}) -> "),
            (None, _) => String::new(),
        };
        let lines = self.chain.iter().flat_map(Link::describe);
        let lines: Vec<String> = lines.map(|line| format!("{head}{line}")).collect();
        lines.join("\n")
    }

    /// Opens the directory, `named` as it was when it was looked up: from here on nobody can put another in its place.
    pub(crate) fn open_dir(&self, named: &Path) -> Result<Dir, MachineError> {
        let dir = Dir::open(named)?.resolved();
        if dir.path() == self.path {
            return Ok(dir);
        }
        let what = "was exchanged while it was looked at";
        Err(MachineError::Refused(format!("{}: {what}", named.display())))
    }

    /// Whether its file system refuses writes.
    pub fn read_only(&self) -> bool {
        self.mount_options.as_deref().is_some_and(|o| o.split(',').any(|word| word == "ro"))
    }

    /// Who uses the device or a part of it: where it is mounted, swap, devices that lie on it. Whoever writes to it
    /// would destroy their data.
    pub fn in_use(&self) -> Vec<String> {
        let folders = self.chain.iter().filter_map(|link| {
            fs::canonicalize(self.system.path(&format!("/sys/class/block/{}", link.name))).ok()
        });
        folders.flat_map(|folder| uses(&self.system, &folder)).collect()
    }

    /// Where it was looked up.
    pub fn system(&self) -> &System {
        &self.system
    }
}

/// Uses of a device and, of a disk, of its partitions.
fn uses(system: &System, folder: &Path) -> Vec<String> {
    let mut parts = vec![folder.to_path_buf()];
    let below = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    parts.extend(below.filter(|path| path.join("partition").exists()));
    parts.sort();
    let mounts = Mount::all(system).unwrap_or_default();
    let swaps = system.text("/proc/swaps").unwrap_or_default();
    let mut uses = Vec::new();
    for part in parts {
        let name = file_name(&part);
        let number = super::line(&part.join("dev")).unwrap_or_default();
        for mount in &mounts {
            // btrfs and bcachefs have numbers of their own.
            let source = || mount.source.split(':').any(|s| file_name(Path::new(s)) == name);
            if mount.number == number || (mount.source.starts_with("/dev/") && source()) {
                uses.push(format!("{name} is mounted at {}", mount.point.display()));
            }
        }
        let swap = |line: &&str| line.split(' ').next() == Some(&format!("/dev/{name}"));
        if swaps.lines().skip(1).find(swap).is_some() {
            uses.push(format!("{name} is swap"));
        }
        for holder in super::chain::folders(&part.join("holders")) {
            uses.push(format!("{name} is a part of {}", file_name(&holder)));
        }
    }
    uses
}

fn resolve_dir(system: &System, dir: &Path) -> Result<Volume, MachineError> {
    let path = fs::canonicalize(system_path(system, dir)).map_err(os(dir.display().to_string()))?;
    if !path.is_dir() {
        return Err(MachineError::Refused(format!("{}: not a directory", dir.display())));
    }
    let path = plain(system, &path);
    let mounts = Mount::all(system)?;
    let mount = Mount::of(system, &mounts, &path)
        .ok_or_else(|| MachineError::Refused(format!("{}: no mount holds it", path.display())))?;
    let numbers = mount.numbers(system)?;
    let mut found = Found::default();
    let chain = numbers.iter().map(|number| follow(system, number, &mut found));
    let chain = chain.collect::<Result<Vec<Link>, MachineError>>()?;
    check(&found, &path)?;
    Ok(Volume {
        path,
        is_dir: true,
        chain,
        queues: found.queues,
        again: found.again,
        file_system: Some(mount.kind.clone()),
        mount_options: Some(mount.options.clone()),
        mount_point: Some(mount.point.clone()),
        upper: mount
            .upper(system)?
            .map(|below| format!("{} {}", below.kind, below.point.display())),
        system: system.clone(),
    })
}

fn resolve_device(system: &System, named: &Path) -> Result<Volume, MachineError> {
    let device = &match system.is_real() {
        true => settled(named)?,
        false => named.to_path_buf(),
    };
    let number = number_of_device(system, device)?;
    let mut found = Found::default();
    let chain = vec![follow(system, &number, &mut found)?];
    check(&found, device)?;
    Ok(Volume {
        path: device.clone(),
        is_dir: false,
        chain,
        queues: found.queues,
        again: found.again,
        file_system: None,
        mount_options: None,
        mount_point: None,
        upper: None,
        system: system.clone(),
    })
}

/// A device's path without links, of which none is followed that somebody else could lead elsewhere.
pub(crate) fn settled(device: &Path) -> Result<PathBuf, MachineError> {
    Ok(hoistway_files::Place::followed(device)?.path())
}

fn check(found: &Found, path: &Path) -> Result<(), MachineError> {
    if found.queues.is_empty() {
        return Err(MachineError::Lack(Lack::new(
            path.display().to_string(),
            format!(
                "nothing schedules here: {} takes I/O as it comes, without tags to schedule",
                found.silent.join(", ")
            ),
            "choose a directory or device on a disk",
        )));
    }
    Ok(())
}

/// `MAJ:MIN` of a device node.
pub(super) fn number_of_device(system: &System, device: &Path) -> Result<String, MachineError> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    if !system.is_real() {
        let name = file_name(device);
        let text = system.text(&format!("/sys/class/block/{name}/dev"));
        return text.ok_or_else(|| ServeError::NotADisk(device.into()).into());
    }
    let meta = fs::metadata(device).map_err(os(device.display().to_string()))?;
    if !meta.file_type().is_block_device() {
        return Err(MachineError::Refused(format!("{}: not a block device", device.display())));
    }
    let number = meta.rdev();
    Ok(format!("{}:{}", libc::major(number), libc::minor(number)))
}

/// `MAJ:MIN` of the file system that holds a file, if that is a device.
pub(super) fn number_of_file(system: &System, file: &Path) -> Option<String> {
    let mounts = Mount::all(system).ok()?;
    let path = fs::canonicalize(system_path(system, file)).ok()?;
    let mount = Mount::of(system, &mounts, &plain(system, &path))?;
    mount.numbers(system).ok()?.into_iter().next()
}

pub(super) fn system_path(system: &System, path: &Path) -> PathBuf {
    if system.is_real() { path.into() } else { system.path(&path.to_string_lossy()) }
}

/// The path as the machine of the tree sees it.
pub(super) fn plain(system: &System, path: &Path) -> PathBuf {
    match path.strip_prefix(system.path("/")) {
        Ok(rest) if !system.is_real() => Path::new("/").join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests;
