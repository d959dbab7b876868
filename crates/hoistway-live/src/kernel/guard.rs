//! Changes of the machine that are put back.
//!
//! A [`Guard`] belongs to one piece of work. Each change goes through it: it remembers what was there (in
//! memory and in a [state file](super::repair)), then makes the change. [`Guard::restore`], or the end of
//! the guard's life by return, error or panic, puts everything back in reverse order. Signals need nothing
//! of their own: the program's handler asks the work to end, and the guard goes with it. What `kill -9`
//! leaves is put back by `hoistway restore`.
//!
//! **A queue is put back as a whole.** Its settings depend on each other: choosing a scheduler makes its
//! tunables anew and sets `nr_requests` and `wbt_lat_usec`; under scheduler `none` a write to `nr_requests`
//! resizes the driver's tags, which then stay when a scheduler is chosen, and a write to it resets what
//! schedulers derive from it. So the first write to any file of a queue remembers all of them, and they are
//! put back in this order: the driver's tags (by way of `none`), the scheduler, `nr_requests`, tunables, the
//! files that were written. Until a look finds all as it was, at most a few times over.
//!
//! **Two at the same time** would each take the other's settings for the ones to put back. A queue belongs to
//! one process at a time: a lock on its folder in sysfs, which the kernel drops when the process ends.
//!
//! Not remembered are changes of things that the guard itself has made: files of its cgroups, the queue of its
//! loop device. They go away with them.

use super::queue::Queue;
use super::state::{self, Change, StateFile};
use super::{Lack, System, line, put};
use crate::LiveError;
use crate::error::os;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

mod undo;

pub(super) use undo::put_back;

/// Changes of the machine, until it ends.
#[derive(Debug)]
pub struct Guard {
    system: System,
    folders: Vec<PathBuf>,
    state: StateFile,
    changes: Vec<Change>,
    locks: Vec<Lock>,
    done: bool,
}

impl Guard {
    /// For a piece of work, in a few words that people will read: `compare latency-2019`.
    pub fn begin(what: &str) -> Result<Guard, LiveError> {
        Guard::new(&System::real(), state::folders(), what)
    }

    /// The same on another tree of files, with its state file in that folder.
    pub fn begin_in(system: &System, folder: &Path, what: &str) -> Result<Guard, LiveError> {
        Guard::new(system, vec![folder.into()], what)
    }

    fn new(system: &System, folders: Vec<PathBuf>, what: &str) -> Result<Guard, LiveError> {
        let state = StateFile::create(system, &folders, what)?;
        let system = system.clone();
        Ok(Guard { system, folders, state, changes: Vec::new(), locks: Vec::new(), done: false })
    }

    /// Takes a queue for this process and remembers its settings. Writing to one of its files does the same.
    pub fn hold(&mut self, queue: &Queue) -> Result<(), LiveError> {
        self.hold_folder(&queue.folder)
    }

    /// Writes a value to a file of the kernel (sysfs, cgroup) and says what is in force then.
    pub fn write(&mut self, file: &Path, value: &str) -> Result<String, LiveError> {
        match queue_of(file) {
            Some((folder, name)) if !self.own_loop(&folder) => {
                self.hold_folder(&folder)?;
                if name == "nr_requests" && self.resizes_unseen(&folder) {
                    self.wrote(&folder, TAGS)?;
                }
                self.wrote(&folder, &name)?;
            }
            Some(_) => {}
            None if self.own_cgroup(file) => {}
            None => self.remember_file(file, value)?,
        }
        put(file, value)?;
        Ok(line(file).unwrap_or_default())
    }

    /// Makes a folder or a cgroup (a folder in the file system of cgroups). A folder goes with all that is
    /// in it then.
    pub fn make_dir(&mut self, folder: &Path) -> Result<(), LiveError> {
        let parent = folder.parent().unwrap_or(Path::new("/"));
        if fs::symlink_metadata(folder).is_ok() {
            return Err(LiveError::Refused(format!("{}: exists already", folder.display())));
        }
        if parent.join("cgroup.procs").exists() {
            self.remember(Change::Cgroup { path: folder.into() })?;
            return fs::create_dir(folder).map_err(os(folder.display().to_string()));
        }
        self.remember(Change::Folder { path: folder.into(), made: None })?;
        fs::create_dir(folder).map_err(os(folder.display().to_string()))?;
        let meta = fs::symlink_metadata(folder).map_err(os(folder.display().to_string()))?;
        let made = Some((meta.dev(), meta.ino()));
        self.remember(Change::Folder { path: folder.into(), made })
    }

    /// A file is about to be made; it must not exist yet.
    pub fn made_file(&mut self, file: &Path) -> Result<(), LiveError> {
        if fs::symlink_metadata(file).is_ok() {
            return Err(LiveError::Refused(format!("{}: exists already", file.display())));
        }
        self.remember(Change::NewFile { path: file.into() })
    }

    /// Something is about to be mounted there.
    pub fn mounted(&mut self, at: &Path) -> Result<(), LiveError> {
        self.remember(Change::Mount { at: at.into() })
    }

    /// This loop device is about to be attached to that file.
    pub fn attached_loop(&mut self, device: &Path, backing: &Path) -> Result<(), LiveError> {
        let backing = fs::canonicalize(backing).map_err(os(backing.display().to_string()))?;
        self.remember(Change::Loop { device: device.into(), backing })
    }

    /// A process was started that must not outlive the work.
    pub fn started(&mut self, pid: u32) -> Result<(), LiveError> {
        match undo::start_of(&self.system, pid) {
            Some(started) => self.remember(Change::Process { pid, started }),
            None => Ok(()),
        }
    }

    /// What is to be put back, in words.
    pub fn changes(&self) -> Vec<String> {
        let shown = self.changes.iter().filter(|change| !matches!(change, Change::Wrote { .. }));
        shown.map(Change::describe).collect()
    }

    /// Puts one queue back as it was, and goes on holding it: between two runs, so that none inherits what
    /// another has set.
    pub fn reset(&mut self, queue: &Queue) -> Result<(), LiveError> {
        let own = |c: &&Change| match c {
            Change::Queue { folder, .. } | Change::Wrote { folder, .. } => *folder == queue.folder,
            _ => false,
        };
        let own: Vec<Change> = self.changes.iter().filter(own).cloned().collect();
        let (_, problems) = put_back(&self.system, &own);
        if problems.is_empty() {
            return Ok(());
        }
        Err(LiveError::Refused(format!("not put back: {}", problems.join("; "))))
    }

    /// Puts everything back; what could not be is told, and kept for `hoistway restore`.
    pub fn restore(&mut self) -> Result<(), Vec<String>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        let (left, problems) = put_back(&self.system, &changes);
        self.state.finish(&self.system, &left);
        self.locks.clear();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn wrote(&mut self, folder: &Path, file: &str) -> Result<(), LiveError> {
        let wrote = Change::Wrote { folder: folder.into(), file: file.into() };
        if self.changes.contains(&wrote) { Ok(()) } else { self.remember(wrote) }
    }

    /// Whether a write to `nr_requests` resizes tags that nobody can count.
    fn resizes_unseen(&self, folder: &Path) -> bool {
        let none = setting(&self.system, folder, "scheduler").as_deref() == Some("none");
        none && super::debug::depth(&self.system, &super::chain::file_name(folder)).is_none()
    }

    fn remember(&mut self, change: Change) -> Result<(), LiveError> {
        assert!(!self.done, "a change after everything was put back");
        self.state.add(&change)?;
        state::supersede(&mut self.changes, change);
        Ok(())
    }

    fn hold_folder(&mut self, folder: &Path) -> Result<(), LiveError> {
        let held = |c: &Change| matches!(c, Change::Queue { folder: f, .. } if f == folder);
        if self.changes.iter().any(held) {
            return Ok(());
        }
        let queue = Queue::new(&self.system, folder)?;
        let lock = Lock::take(&queue.folder.join("queue")).map_err(|why| {
            let owner = state::changed_by(&self.system, &self.folders, folder, true);
            let owner =
                owner.map_or(String::new(), |o| format!(" (process {}: {})", o.pid, o.what));
            let why = format!("another hoistway is at work on this device{owner}: {why}");
            LiveError::Lack(Lack::new(&queue.name, why, "wait until it ends"))
        })?;
        if let Some(left) = state::changed_by(&self.system, &self.folders, folder, false) {
            let why = format!(
                "its settings are not its own: '{}' (process {}) was killed",
                left.what, left.pid
            );
            return Err(LiveError::Lack(Lack::new(
                &queue.name,
                why,
                "run `hoistway restore` first",
            )));
        }
        let inode = fs::metadata(queue.folder.join("queue"));
        let inode = inode.map_err(os(queue.folder.display().to_string()))?.ino();
        let old = snapshot(&self.system, &queue.folder);
        let Queue { name, number, folder, .. } = queue;
        self.remember(Change::Queue { name, number, inode, folder, old })?;
        self.locks.push(lock);
        Ok(())
    }

    fn remember_file(&mut self, file: &Path, value: &str) -> Result<(), LiveError> {
        let name = super::chain::file_name(file);
        let text = fs::read_to_string(file).map_err(os(file.display().to_string()))?;
        if name == "cgroup.subtree_control" {
            let on: Vec<&str> = text.split_whitespace().collect();
            let added = value.split_whitespace().filter_map(|word| word.strip_prefix('+'));
            let added: Vec<String> =
                added.filter(|c| !on.contains(c)).map(str::to_string).collect();
            if added.is_empty() {
                return Ok(());
            }
            return self.remember(Change::Enabled { path: file.into(), controllers: added });
        }
        let key = value.split_whitespace().next().unwrap_or_default();
        if file.parent().is_some_and(|p| p.join("cgroup.procs").exists()) && key.contains(':') {
            let old = text.lines().find(|line| line.split(' ').next() == Some(key));
            let old = old.map(str::to_string);
            let same = |c: &Change| matches!(c, Change::Keyed { path, key: k, .. } if path == file && k == key);
            if self.changes.iter().any(same) {
                return Ok(());
            }
            return self.remember(Change::Keyed { path: file.into(), key: key.into(), old });
        }
        let same = |c: &Change| matches!(c, Change::File { path, .. } if path == file);
        if self.changes.iter().any(same) {
            return Ok(());
        }
        self.remember(Change::File { path: file.into(), old: text.trim_end().into() })
    }

    fn own_cgroup(&self, file: &Path) -> bool {
        self.changes.iter().any(|c| matches!(c, Change::Cgroup { path } if file.starts_with(path)))
    }

    fn own_loop(&self, folder: &Path) -> bool {
        let name = super::chain::file_name(folder);
        let own = |c: &Change| matches!(c, Change::Loop { device, .. } if super::chain::file_name(device) == name);
        self.changes.iter().any(own)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(problems) = self.restore() {
            for problem in problems {
                eprintln!("warning: not put back: {problem}");
            }
        }
    }
}

/// All settings of a queue that can be written, and the driver's tags, by name.
pub(super) fn snapshot(system: &System, folder: &Path) -> Vec<(String, String)> {
    let mut names = vec![TAGS.to_string()];
    for part in ["", "iosched"] {
        let entries = fs::read_dir(folder.join("queue").join(part)).into_iter().flatten().flatten();
        let writable = entries.filter(|entry| {
            let writable = |meta: fs::Metadata| meta.permissions().mode() & 0o200 != 0;
            entry.metadata().is_ok_and(|meta| meta.is_file() && writable(meta))
        });
        let name = |entry: fs::DirEntry| Path::new(part).join(entry.file_name());
        names.extend(writable.map(|entry| name(entry).to_string_lossy().into_owned()));
    }
    names.sort();
    // What cannot be read, as wbt_lat_usec of a kernel without it, cannot be put back, nor written.
    let row = |name: String| Some((name.clone(), setting(system, folder, &name)?));
    names.into_iter().filter_map(row).collect()
}

/// One of them, now.
pub(super) fn setting(system: &System, folder: &Path, name: &str) -> Option<String> {
    match name {
        TAGS => {
            let allocated = || line(&folder.join("mq/0/nr_tags"));
            let depth = super::debug::depth(system, &super::chain::file_name(folder));
            depth.map(|depth| depth.to_string()).or_else(allocated)
        }
        "scheduler" => Some(undo::chosen(&line(&folder.join("queue/scheduler"))?)),
        name => line(&folder.join("queue").join(name)),
    }
}

/// The disk's folder and the name below `queue`, of a file of a queue.
fn queue_of(file: &Path) -> Option<(PathBuf, String)> {
    let text = file.to_str()?;
    let (disk, name) = text.rsplit_once("/queue/")?;
    let disk = fs::canonicalize(disk).ok()?;
    disk.join("queue/scheduler").exists().then(|| (disk, name.to_string()))
}

/// A queue that belongs to this process, while one of these exists.
#[derive(Debug)]
struct Lock {
    folder: PathBuf,
}

/// What this process holds, and how often: a guard may begin within another.
static HELD: Mutex<BTreeMap<PathBuf, (File, usize)>> = Mutex::new(BTreeMap::new());

impl Lock {
    fn take(folder: &Path) -> Result<Lock, std::io::Error> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(folder) {
            Some((_, count)) => *count += 1,
            None => {
                let file = File::open(folder)?;
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
                held.insert(folder.into(), (file, 1));
            }
        }
        Ok(Lock { folder: folder.into() })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = held.get_mut(&self.folder) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.folder);
            }
        }
    }
}

/// The row of a snapshot that holds the driver's tags.
const TAGS: &str = "(tags)";

#[cfg(test)]
mod tests;
