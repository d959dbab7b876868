//! From a directory or a device to the queues that schedule what is done there.

use super::chain::{Found, Link, file_name, folders, follow};
use super::queue::Queue;
use super::{Lack, System};
use crate::LiveError;
use crate::error::os;
use std::fs;
use std::path::{Path, PathBuf};

/// What a run is to be done on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceTarget {
    /// Files below a directory.
    Dir(PathBuf),
    /// A block device.
    Device(PathBuf),
}

/// Where it is.
#[derive(Clone, Debug)]
pub struct Place {
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
}

/// Finds the queues that schedule below a directory or device.
pub fn resolve(target: &PlaceTarget) -> Result<Place, LiveError> {
    resolve_in(&System::real(), target)
}

/// The same on another tree of files.
pub fn resolve_in(system: &System, target: &PlaceTarget) -> Result<Place, LiveError> {
    match target {
        PlaceTarget::Dir(dir) => resolve_dir(system, dir),
        PlaceTarget::Device(device) => resolve_device(system, device),
    }
}

impl Place {
    /// The chain in words, one line per queue.
    pub fn describe(&self) -> String {
        let path = self.path.display();
        let head = match &self.file_system {
            Some(kind) => format!("{path} ({kind}) -> "),
            None => String::new(),
        };
        let lines = self.chain.iter().flat_map(Link::describe);
        let lines: Vec<String> = lines.map(|line| format!("{head}{line}")).collect();
        lines.join("\n")
    }

    /// Whether its file system refuses writes.
    pub fn read_only(&self) -> bool {
        self.mount_options.as_deref().is_some_and(|o| o.split(',').any(|word| word == "ro"))
    }

    /// Who else uses the device: where it or a part of it is mounted, swap, devices that lie on it.
    pub fn in_use(&self) -> Vec<String> {
        Vec::new()
    }
}

fn resolve_dir(system: &System, dir: &Path) -> Result<Place, LiveError> {
    let path = fs::canonicalize(system_path(system, dir)).map_err(os(dir.display().to_string()))?;
    if !path.is_dir() {
        return Err(LiveError::Refused(format!("{}: not a directory", dir.display())));
    }
    let path = plain(system, &path);
    let mounts = Mount::all(system)?;
    let mount = Mount::of(&mounts, &path)
        .ok_or_else(|| LiveError::Refused(format!("{}: no mount holds it", path.display())))?;
    let numbers = mount.numbers(system)?;
    let mut found = Found::default();
    let chain = numbers.iter().map(|number| follow(system, number, &mut found));
    let chain = chain.collect::<Result<Vec<Link>, LiveError>>()?;
    check(&found, &path)?;
    Ok(Place {
        path,
        is_dir: true,
        chain,
        queues: found.queues,
        again: found.again,
        file_system: Some(mount.kind.clone()),
        mount_options: Some(mount.options.clone()),
        mount_point: Some(mount.point.clone()),
    })
}

fn resolve_device(system: &System, device: &Path) -> Result<Place, LiveError> {
    let number = number_of_device(system, device)?;
    let mut found = Found::default();
    let chain = vec![follow(system, &number, &mut found)?];
    check(&found, device)?;
    Ok(Place {
        path: fs::canonicalize(device).unwrap_or_else(|_| device.into()),
        is_dir: false,
        chain,
        queues: found.queues,
        again: found.again,
        file_system: None,
        mount_options: None,
        mount_point: None,
    })
}

fn check(found: &Found, path: &Path) -> Result<(), LiveError> {
    if found.queues.is_empty() {
        return Err(LiveError::Lack(Lack::new(
            path.display().to_string(),
            format!("nothing schedules here: {} has no tags to schedule", found.silent.join(", ")),
            "choose a directory or device on a disk",
        )));
    }
    Ok(())
}

/// A mount, as a line of `/proc/self/mountinfo`.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub number: String,
    pub point: PathBuf,
    pub options: String,
    pub kind: String,
    pub source: String,
    pub super_options: String,
}

impl Mount {
    pub fn all(system: &System) -> Result<Vec<Mount>, LiveError> {
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
            number: left.get(2)?.to_string(),
            point: unescape(left.get(4)?).into(),
            options: left.get(5)?.to_string(),
            kind: right.next()?.to_string(),
            source: unescape(right.next()?),
            super_options: right.next().unwrap_or_default().to_string(),
        })
    }

    /// The mount that holds a path: of the longest point, the last.
    pub fn of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
        let held = mounts.iter().filter(|m| path.starts_with(&m.point));
        held.max_by_key(|m| m.point.components().count())
    }

    /// The mount that holds what is written to an overlay.
    fn upper(&self, system: &System) -> Result<Option<Mount>, LiveError> {
        let upper = self.super_options.split(',').find_map(|o| o.strip_prefix("upperdir="));
        let Some(upper) = upper.filter(|_| self.kind == "overlay") else { return Ok(None) };
        // Within a container the folder of the machine is not to be seen.
        let Ok(path) = fs::canonicalize(system_path(system, Path::new(upper))) else {
            return Ok(None);
        };
        let mounts = Mount::all(system)?;
        let below = Mount::of(&mounts, &plain(system, &path)).filter(|m| m.point != self.point);
        Ok(below.cloned())
    }

    /// The devices it lies on.
    fn numbers(&self, system: &System) -> Result<Vec<String>, LiveError> {
        if self.kind == "btrfs" {
            return btrfs(system, &self.source);
        }
        if !self.number.starts_with("0:") {
            return Ok(vec![self.number.clone()]);
        }
        if let Some(below) = self.upper(system)? {
            return below.numbers(system);
        }
        Err(LiveError::Lack(Lack::new(
            format!("{} ({})", self.point.display(), self.kind),
            "nothing schedules here: the file system lies on no block device",
            "choose a directory on a disk",
        )))
    }
}

/// Members of the btrfs that has this device.
fn btrfs(system: &System, source: &str) -> Result<Vec<String>, LiveError> {
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

/// `MAJ:MIN` of a device node.
fn number_of_device(system: &System, device: &Path) -> Result<String, LiveError> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    if !system.is_real() {
        let name = file_name(device);
        let text = system.text(&format!("/sys/class/block/{name}/dev"));
        return text.ok_or_else(|| LiveError::NotADisk(device.into()));
    }
    let meta = fs::metadata(device).map_err(os(device.display().to_string()))?;
    if !meta.file_type().is_block_device() {
        return Err(LiveError::Refused(format!("{}: not a block device", device.display())));
    }
    let number = meta.rdev();
    Ok(format!("{}:{}", libc::major(number), libc::minor(number)))
}

/// `MAJ:MIN` of the file system that holds a file, if that is a device.
pub(super) fn number_of_file(system: &System, file: &Path) -> Option<String> {
    let mounts = Mount::all(system).ok()?;
    let path = fs::canonicalize(system_path(system, file)).ok()?;
    let mount = Mount::of(&mounts, &plain(system, &path))?;
    mount.numbers(system).ok()?.into_iter().next()
}

fn system_path(system: &System, path: &Path) -> PathBuf {
    if system.is_real() { path.into() } else { system.path(&path.to_string_lossy()) }
}

/// The path as the machine of the tree sees it.
fn plain(system: &System, path: &Path) -> PathBuf {
    match path.strip_prefix(system.path("/")) {
        Ok(rest) if !system.is_real() => Path::new("/").join(rest),
        _ => path.into(),
    }
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
