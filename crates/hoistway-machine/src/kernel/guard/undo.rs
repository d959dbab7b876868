//! Putting changes back, the last first.
//!
//! What was changed is told by more than its path: others may have put something else there since. So the folder around
//! it is opened, by a way without links of others; what stands in it is compared with what was noted; and what is then
//! done is done below the descriptor that was looked at.

use super::super::loopdev::{self, Detached, LoopDevice};
use super::super::mounts::Mount;
use super::super::queue::disk_of;
use super::super::state::{Made, NotedChange};
use super::super::{System, line, put};
use super::settings::{DiskFolder, Settings};
use hoistway_files::{Dir, Identity, Place, PlaceError};
use rustix::fs::{AtFlags, FsWord, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Puts changes back. Returns the places of those that could not be but may be later, and what went wrong in words.
pub(in super::super) fn put_back(
    system: &System,
    changes: &[NotedChange],
) -> (Vec<usize>, Vec<String>) {
    let mut left = Vec::new();
    let mut problems = Vec::new();
    for (at, change) in changes.iter().enumerate().rev() {
        match undo(system, change, changes) {
            Ok(()) => {}
            Err(Problem::Gone(why)) => problems.push(why),
            Err(Problem::Later(why)) => {
                problems.push(format!("{}: {why}", change.describe()));
                left.push(at);
                if let NotedChange::Queue { folder, .. } = change {
                    left.extend(wrote(changes, folder).map(|(at, _)| at));
                }
            }
        }
    }
    left.sort_unstable();
    (left, problems)
}

enum Problem {
    /// There is nothing left to put back.
    Gone(String),
    /// Another try may succeed.
    Later(String),
}

impl From<String> for Problem {
    fn from(why: String) -> Problem {
        Problem::Later(why)
    }
}

fn undo(system: &System, change: &NotedChange, all: &[NotedChange]) -> Result<(), Problem> {
    match change {
        NotedChange::Queue { name, inode, folder, disk, old, .. } => {
            let known = NotedQueue { name, inode: *inode, disk: disk.as_deref(), old };
            queue(system, folder, &known, all)
        }
        NotedChange::Wrote { .. } => Ok(()),
        NotedChange::File { path, old } => {
            let Some((dir, file)) = kernel_file(system, path, CGROUPS)? else {
                return Err(Problem::Gone(format!("{}: has gone", path.display())));
            };
            match line(&file) {
                Some(now) if now == *old => Ok(()),
                _ => put(&file, old).map_err(|e| Problem::Later(named(&e, &dir))),
            }
        }
        NotedChange::Keyed { path, key, old } => {
            let Some((dir, file)) = kernel_file(system, path, CGROUPS)? else {
                return Err(Problem::Gone(format!("{}: has gone", path.display())));
            };
            keyed(&file, key, old.as_deref()).map_err(|e| Problem::Later(named(&e, &dir)))
        }
        NotedChange::Enabled { path, controllers } => {
            let Some((dir, file)) = kernel_file(system, path, CGROUPS)? else { return Ok(()) };
            let on = line(&file).unwrap_or_default();
            for controller in controllers.iter().filter(|c| on.split(' ').any(|o| o == *c)) {
                put(&file, &format!("-{controller}")).map_err(|e| named(&e, &dir))?;
            }
            Ok(())
        }
        NotedChange::Cgroup { path, made } => cgroup(system, path, *made),
        NotedChange::Folder { path, made } => remove_made(path, made.as_ref(), MadeKind::Folder),
        NotedChange::NewFile { path, made } => remove_made(path, made.as_ref(), MadeKind::File),
        NotedChange::Mount { at, id } => Ok(unmount_from(system, at, *id)?),
        NotedChange::Loop { device, backing, seq } => detach(device, backing, *seq),
        NotedChange::Process { pid, started } => Ok(end(system, *pid, *started)?),
    }
}

/// Files of a queue that were written, with their places.
fn wrote<'a>(
    changes: &'a [NotedChange],
    folder: &'a Path,
) -> impl Iterator<Item = (usize, &'a str)> + 'a {
    changes.iter().enumerate().filter_map(move |(at, change)| match change {
        NotedChange::Wrote { folder: of, file } if of == folder => Some((at, file.as_str())),
        _ => None,
    })
}

/// What was noted of a queue.
struct NotedQueue<'a> {
    name: &'a str,
    inode: u64,
    disk: Option<&'a str>,
    old: &'a [(String, String)],
}

fn queue(
    system: &System,
    folder: &Path,
    known: &NotedQueue<'_>,
    all: &[NotedChange],
) -> Result<(), Problem> {
    let NotedQueue { name, old, .. } = *known;
    let gone = |why: &str| Err(Problem::Gone(format!("{name}: {why}")));
    let Some(dir) = kernel_folder(system, folder, &[SYSFS])? else {
        return gone("has gone; nothing to put back");
    };
    let through = through(&dir);
    match fs::metadata(through.join("queue")) {
        Ok(now) if now.ino() == known.inode => {}
        Ok(_) => return gone("is another device now; left alone"),
        Err(_) => return gone("has gone; nothing to put back"),
    }
    let scheduler = old.iter().find(|(key, _)| key == "scheduler").map_or("?", |(_, old)| old);
    let now = disk_of(&through);
    match known.disk {
        Some(then) if then == now => {}
        None if !ATTACHED_ANEW.iter().any(|driver| name.starts_with(driver)) => {}
        Some(_) => {
            return gone(&format!(
                "what is attached there now is not what was; left alone (its scheduler was {scheduler})"
            ));
        }
        None => {
            return gone(&format!(
                "this file, of an earlier hoistway, does not say what was attached there; left alone (its scheduler \
                 was {scheduler})"
            ));
        }
    }
    let wrote = wrote(all, folder).map(|(_, file)| file).collect();
    let disk = DiskFolder { name: name.into(), folder: through };
    let settled = Settings::new(system, &disk, old, &wrote).put_back();
    settled.map_err(|why| Problem::Later(named(&why, &dir)))
}

/// Devices that stay when something else is attached to them.
const ATTACHED_ANEW: [&str; 2] = ["loop", "nbd"];

/// An open folder of a file system of the kernel; `None`: there is none any more.
fn kernel_folder(system: &System, folder: &Path, kinds: &[FsWord]) -> Result<Option<Dir>, String> {
    let dir = match Dir::open(folder) {
        Ok(dir) => dir,
        Err(error) if error.kind() == Some(io::ErrorKind::NotFound) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let kind = rustix::fs::fstatfs(&dir).map_err(|e| e.to_string())?.f_type;
    // Made-up machines are made of plain files.
    match !system.is_real() || kinds.contains(&kind) {
        true => Ok(Some(dir)),
        false => Err(format!("{}: is no folder of the kernel", folder.display())),
    }
}

/// The same around a file, and the file's path below the descriptor.
fn kernel_file(
    system: &System,
    path: &Path,
    kinds: &[FsWord],
) -> Result<Option<(Dir, PathBuf)>, String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("names no file".into());
    };
    let Some(dir) = kernel_folder(system, folder, kinds)? else { return Ok(None) };
    let file = through(&dir).join(name);
    Ok(fs::symlink_metadata(&file).is_ok().then_some((dir, file)))
}

/// A path that leads through the descriptor, wherever the folder is by now.
fn through(dir: &Dir) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd()).into()
}

/// An error with the folder's name in place of its descriptor.
fn named(error: &impl ToString, dir: &Dir) -> String {
    let descriptor = through(dir);
    error.to_string().replace(&*descriptor.to_string_lossy(), &dir.path().to_string_lossy())
}

fn keyed(path: &Path, key: &str, old: Option<&str>) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let now = text.lines().find(|line| line.split(' ').next() == Some(key));
    if now == old {
        return Ok(());
    }
    let name = super::super::chain::file_name(path);
    let off = match name.as_str() {
        "io.cost.qos" => "enable=0 ctrl=auto",
        "io.cost.model" => "ctrl=auto",
        "io.max" => "rbps=max wbps=max riops=max wiops=max",
        "io.latency" => "target=0",
        "io.weight" | "io.bfq.weight" => "default",
        // blkio.*_device: 0 takes the line away.
        _ => "0",
    };
    let line = old.map_or_else(|| format!("{key} {off}"), str::to_string);
    put(path, &line).map_err(|e| e.to_string())
}

/// Ends a cgroup: who is still in it goes to its parent.
fn cgroup(system: &System, path: &Path, made: Option<Identity>) -> Result<(), Problem> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let Some(dir) = kernel_folder(system, parent, CGROUPS)? else { return Ok(()) };
    let (above, place) = (through(&dir), dir.place(name).map_err(|e| e.to_string())?);
    let mut error = String::new();
    for _ in 0..TRIES {
        match (place.identity().map_err(|e| e.to_string())?, made) {
            (None, _) => return Ok(()),
            (Some(now), Some(made)) if !now.is(&made) => {
                let why = "is not the cgroup that was made; left alone";
                return Err(Problem::Gone(format!("{}: {why}", path.display())));
            }
            _ => {}
        }
        let members = line(&above.join(name).join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            // One that ends meanwhile is no error.
            let _ = put(&above.join("cgroup.procs"), pid);
        }
        match place.remove_dir() {
            Ok(()) => return Ok(()),
            Err(e) => error = e.to_string(),
        }
        // Processes that have ended stay members until the kernel is done with them.
        sleep(PAUSE);
    }
    Err(Problem::Later(error))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MadeKind {
    Folder,
    File,
}

/// Removes a file, or a folder and what is in it, but nothing that lies on another file system.
fn remove_made(path: &Path, made: Option<&Made>, what: MadeKind) -> Result<(), Problem> {
    let unseen = || {
        let why = "is not to be seen: its file system is not mounted, or a folder above it was moved; bring it back and \
                   try again, or remove the state file if it is gone";
        Err(Problem::Later(why.into()))
    };
    let place = match Place::of(path) {
        Ok(place) => place,
        Err(error) if error.kind() == Some(io::ErrorKind::NotFound) => {
            return if made.is_some() { unseen() } else { Ok(()) };
        }
        Err(error) => return Err(Problem::Later(error.to_string())),
    };
    let said = |error: PlaceError| Problem::Later(error.to_string());
    let Some(made) = made else { return remove_wished(&place, what) };
    if place.identity().map_err(said)?.is_none() {
        let around = place.dir().identity().map_err(said)?;
        return match made.around {
            Some(then) if around.is(&then) => Ok(()),
            // An earlier hoistway noted no more than this.
            None if around.device == made.own.device => Ok(()),
            _ => unseen(),
        };
    }
    let removed = match what {
        MadeKind::Folder => place.remove_tree(made.own),
        MadeKind::File => place.remove_made(made.own),
    };
    removed.map_err(said)
}

/// The process died between the note and what it was about, or just after: it is empty. One of somebody else's is none
/// of ours.
fn remove_wished(place: &Place, what: MadeKind) -> Result<(), Problem> {
    let said = |error: &dyn ToString| Problem::Later(error.to_string());
    let user = rustix::process::geteuid().as_raw();
    match what {
        MadeKind::Folder => match place.open_dir() {
            Ok(dir) if dir.owner_and_mode().map_err(|e| said(&e))?.0 == user => {
                place.remove_dir().map_err(|e| said(&e))
            }
            _ => Ok(()),
        },
        MadeKind::File => match place.open() {
            Ok(file) => {
                let meta = file.metadata().map_err(|e| said(&e))?;
                let identity = Identity::of(&file).map_err(|e| said(&e))?;
                match (meta.uid() == user && meta.nlink() == 1, meta.len()) {
                    (true, 0) => place.remove_made(identity).map_err(|e| said(&e)),
                    (true, _) => {
                        let why = "holds data, and it was not noted which file was made; look at it, and remove it";
                        Err(Problem::Later(why.into()))
                    }
                    (false, _) => Ok(()),
                }
            }
            _ => Ok(()),
        },
    }
}

/// The kernel's number of the mount that a path leads to: one that is never given out again (Linux 6.8), or as
/// `/proc/self/mountinfo` has it.
pub(super) fn mount_id(dir: impl AsFd, name: &Path) -> Option<u64> {
    let (unique, how) = (StatxFlags::from_bits_retain(MNT_ID_UNIQUE), AtFlags::SYMLINK_NOFOLLOW);
    let known = unique | StatxFlags::MNT_ID;
    let found = rustix::fs::statx(dir, name, how, known).ok()?;
    (found.stx_mask & known.bits() != 0).then_some(found.stx_mnt_id)
}

fn unmount_from(system: &System, at: &Path, id: Option<u64>) -> Result<(), String> {
    let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return Ok(()) };
    let mut error = String::new();
    for _ in 0..TRIES {
        let mounts = Mount::all(system).map_err(|e| e.to_string())?;
        if !mounts.iter().any(|mount| mount.point == at) {
            return Ok(());
        }
        let dir = Dir::open(parent).map_err(|e| e.to_string())?;
        if id.is_none() || mount_id(&dir, Path::new(name)) != id {
            return Err(format!(
                "it is not known to be what was mounted; left alone (`umount {}` if it is)",
                at.display()
            ));
        }
        // A name that something is mounted on can be neither moved nor removed: it still leads there.
        match unmount(through(&dir).join(name), UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            Err(e) => error = e.to_string(),
        }
        sleep(PAUSE);
    }
    Err(error)
}

fn detach(device: &Path, backing: &Path, seq: Option<u64>) -> Result<(), Problem> {
    let name = super::super::chain::file_name(device);
    let number = name.strip_prefix("loop").and_then(|number| number.parse().ok());
    let number: u32 = number.ok_or("is no loop device".to_string())?;
    if loopdev::backing_file(number).as_deref() != Some(backing) {
        return Ok(());
    }
    let shown = device.display();
    let now = loopdev::diskseq(number);
    if now != seq {
        return match seq {
            None => Err(Problem::Later(format!(
                "it was not noted whether it was attached, and by whom; left alone (`losetup -d {shown}` if by hoistway)"
            ))),
            Some(_) => {
                Err(Problem::Gone(format!("{shown}: was attached anew meanwhile; left alone")))
            }
        };
    }
    let attached = LoopDevice::known(number, backing, seq);
    let mut error = String::new();
    for _ in 0..TRIES {
        match attached.detach() {
            Ok(Detached::Gone | Detached::NotOurs) => return Ok(()),
            Ok(Detached::Later) => error = "is still used".into(),
            Err(e) => error = e.to_string(),
        }
        sleep(PAUSE);
    }
    Err(Problem::Later(error))
}

/// When a process was started, in ticks since boot; `None` if it has ended.
pub(in super::super) fn start_of(system: &System, pid: u32) -> Option<u64> {
    let text = system.text(&format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn end(system: &System, pid: u32, started: u64) -> Result<(), String> {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let held = match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
        Ok(held) => Some(held),
        Err(Errno::SRCH) => return Ok(()),
        // Before Linux 5.3, or under a filter of system calls.
        Err(_) => None,
    };
    // Looked at once it is held: whoever has the number later is not hit.
    if start_of(system, pid) != Some(started) {
        return Ok(());
    }
    let owner = fs::metadata(system.path(&format!("/proc/{pid}"))).map(|meta| meta.uid());
    let user = rustix::process::geteuid().as_raw();
    if let Some(owner) = owner.ok().filter(|owner| *owner != user) {
        return Err(format!("is of user {owner}, and none that hoistway started; left alone"));
    }
    let killed = match &held {
        Some(held) => rustix::process::pidfd_send_signal(held, Signal::KILL),
        None => rustix::process::kill_process(number, Signal::KILL),
    };
    match killed {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(error.to_string()),
    }
    for _ in 0..TRIES {
        if start_of(system, pid) != Some(started) {
            return Ok(());
        }
        sleep(PAUSE);
    }
    Err("does not end".into())
}

/// The numbers of file systems in linux/magic.h.
const SYSFS: FsWord = 0x6265_6572;
const CGROUPS: &[FsWord] = &[0x0027_e0eb, 0x6367_7270];

/// `STATX_MNT_ID_UNIQUE` of linux/stat.h.
const MNT_ID_UNIQUE: u32 = 0x4000;

/// How long somebody else may be in the way: 2 s. Chosen.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);
