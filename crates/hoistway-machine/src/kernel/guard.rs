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

use super::loopdev::{LoopDevice, LoopOptions};
use super::queue::{Queue, disk_of};
use super::state::{self, Made, NotedChange, StateFile};
use super::{Lack, System, line, put};
use crate::MachineError;
use crate::os;
use hoistway_files::{Dir, Identity, Place};
use rustix::fs::{FlockOperation, flock};
use settings::{DiskFolder, setting, snapshot};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

mod settings;
mod undo;

pub(super) use settings::TAGS;
pub(super) use undo::{put_back, start_of};

/// Changes of the machine, until it ends.
#[derive(Debug)]
pub struct Guard {
    system: System,
    folders: Vec<PathBuf>,
    state: StateFile,
    changes: Vec<NotedChange>,
    locks: Vec<Lock>,
    done: bool,
}

impl Guard {
    /// For a piece of work, in a few words that people will read: `compare latency-2019`.
    pub fn begin(what: &str) -> Result<Guard, MachineError> {
        Guard::new(&System::real(), state::folders()?, what)
    }

    /// The same on another tree of files, with its state file in that folder.
    pub fn begin_in(system: &System, folder: &Path, what: &str) -> Result<Guard, MachineError> {
        Guard::new(system, vec![folder.into()], what)
    }

    fn new(system: &System, folders: Vec<PathBuf>, what: &str) -> Result<Guard, MachineError> {
        let state = StateFile::create(system, &folders, what)?;
        let system = system.clone();
        Ok(Guard { system, folders, state, changes: Vec::new(), locks: Vec::new(), done: false })
    }

    /// Takes a queue for this process and remembers its settings. Writing to one of its files does the same.
    pub fn hold(&mut self, queue: &Queue) -> Result<(), MachineError> {
        self.hold_folder(&queue.folder)
    }

    /// Writes a value to a file of the kernel (sysfs, cgroup) and says what is in force then.
    pub fn write(&mut self, file: &Path, value: &str) -> Result<String, MachineError> {
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

    /// Makes a folder, for this user alone, which goes with all that is in it then.
    pub fn make_dir(&mut self, place: &Place) -> Result<Dir, MachineError> {
        let path = self.unused(place)?;
        self.remember(NotedChange::Folder { path: path.clone(), made: None })?;
        let dir = place.make_dir(0o700)?;
        let made = Made { own: dir.identity()?, around: Some(place.dir().identity()?) };
        self.remember(NotedChange::Folder { path, made: Some(made) })?;
        Ok(dir)
    }

    /// Makes a file, for this user alone.
    pub fn make_file(&mut self, place: &Place) -> Result<File, MachineError> {
        let path = self.unused(place)?;
        self.remember(NotedChange::NewFile { path: path.clone(), made: None })?;
        let file = place.create(0o600)?;
        let own = Identity::of(&file).map_err(os(path.display().to_string()))?;
        let made = Made { own, around: Some(place.dir().identity()?) };
        self.remember(NotedChange::NewFile { path, made: Some(made) })?;
        Ok(file)
    }

    /// Makes a cgroup.
    pub fn make_group(&mut self, group: &Path) -> Result<(), MachineError> {
        let place = Place::of(group)?;
        let path = self.unused(&place)?;
        self.remember(NotedChange::Cgroup { path: path.clone(), made: None })?;
        fs::create_dir(&path).map_err(os(path.display().to_string()))?;
        let made = place.identity()?;
        self.remember(NotedChange::Cgroup { path, made })
    }

    /// Mounts something on a folder, by `mount`.
    pub fn mount(
        &mut self,
        at: &Path,
        mount: impl FnOnce() -> Result<(), MachineError>,
    ) -> Result<(), MachineError> {
        self.remember(NotedChange::Mount { at: at.into(), id: None })?;
        mount()?;
        let id = undo::mount_id(rustix::fs::CWD, at);
        self.remember(NotedChange::Mount { at: at.into(), id })
    }

    /// Attaches a file to a loop device.
    pub fn attach_loop(
        &mut self,
        file: &Path,
        options: LoopOptions,
    ) -> Result<LoopDevice, MachineError> {
        let change = |device: &LoopDevice| NotedChange::Loop {
            device: device.path(),
            backing: device.backing.clone(),
            seq: device.seq,
        };
        let device = LoopDevice::attach_known(file, options, |tried| self.remember(change(tried)))?;
        self.remember(change(&device))?;
        Ok(device)
    }

    /// The path of a place where nothing stands.
    fn unused(&self, place: &Place) -> Result<PathBuf, MachineError> {
        match place.identity()? {
            None => Ok(place.path()),
            Some(_) => {
                let path = place.path();
                Err(MachineError::Refused(format!("{}: exists already", path.display())))
            }
        }
    }

    /// A process was started that must not outlive the work.
    pub fn started(&mut self, pid: u32) -> Result<(), MachineError> {
        match undo::start_of(&self.system, pid) {
            Some(started) => self.remember(NotedChange::Process { pid, started }),
            None => Ok(()),
        }
    }

    /// What is to be put back, in words.
    pub fn changes(&self) -> Vec<String> {
        let shown =
            self.changes.iter().filter(|change| !matches!(change, NotedChange::Wrote { .. }));
        shown.map(NotedChange::describe).collect()
    }

    /// Puts one queue back as it was, and goes on holding it: between two runs, so that none inherits what
    /// another has set.
    pub fn reset(&mut self, queue: &Queue) -> Result<(), MachineError> {
        let own = |c: &&NotedChange| match c {
            NotedChange::Queue { folder, .. } | NotedChange::Wrote { folder, .. } => {
                *folder == queue.folder
            }
            _ => false,
        };
        let own: Vec<NotedChange> = self.changes.iter().filter(own).cloned().collect();
        let (_, problems) = put_back(&self.system, &own);
        if problems.is_empty() {
            return Ok(());
        }
        Err(MachineError::Refused(format!("not put back: {}", problems.join("; "))))
    }

    /// Puts everything back; what could not be is told, and kept for `hoistway restore`.
    pub fn restore(&mut self) -> Result<(), Vec<String>> {
        if std::mem::replace(&mut self.done, true) {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        let (left, mut problems) = put_back(&self.system, &changes);
        if let Err(error) = self.state.finish(&left, changes.len()) {
            problems.push(format!("the state file: {error}"));
        }
        self.locks.clear();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn wrote(&mut self, folder: &Path, file: &str) -> Result<(), MachineError> {
        let wrote = NotedChange::Wrote { folder: folder.into(), file: file.into() };
        if self.changes.contains(&wrote) { Ok(()) } else { self.remember(wrote) }
    }

    /// Whether a write to `nr_requests` resizes tags that nobody can count.
    fn resizes_unseen(&self, folder: &Path) -> bool {
        let disk = DiskFolder::at(folder);
        let none = setting(&self.system, &disk, "scheduler").as_deref() == Some("none");
        none && super::debug::depth(&self.system, &disk.name).is_none()
    }

    fn remember(&mut self, change: NotedChange) -> Result<(), MachineError> {
        assert!(!self.done, "a change after everything was put back");
        if self.changes.contains(&change) {
            return Ok(());
        }
        if let Err(why) = state::check(&self.system, &change) {
            return Err(MachineError::Refused(format!("{}: {why}", change.describe())));
        }
        self.state.add(&change)?;
        state::supersede(&mut self.changes, change);
        Ok(())
    }

    fn hold_folder(&mut self, folder: &Path) -> Result<(), MachineError> {
        let held =
            |c: &NotedChange| matches!(c, NotedChange::Queue { folder: f, .. } if f == folder);
        if self.changes.iter().any(held) {
            return Ok(());
        }
        let queue = Queue::new(&self.system, folder)?;
        let lock =
            Lock::take(&queue.folder.join("queue")).map_err(|why| self.taken(&queue, &why))?;
        if let Some(left) = self.changed_by(&queue, false)? {
            let why = format!(
                "its settings are not its own: '{}' (process {}) was killed, as {} says",
                left.what,
                left.pid,
                left.file.display()
            );
            return Err(MachineError::Lack(Lack::new(
                &queue.name,
                why,
                "run `hoistway restore` first",
            )));
        }
        let inode = fs::metadata(queue.folder.join("queue"));
        let inode = inode.map_err(os(queue.folder.display().to_string()))?.ino();
        let disk = Some(disk_of(&queue.folder));
        let old = snapshot(&self.system, &DiskFolder::at(&queue.folder));
        let Queue { name, number, folder, .. } = queue;
        self.remember(NotedChange::Queue { name, number, inode, folder, disk, old })?;
        self.locks.push(lock);
        Ok(())
    }

    /// Why a queue is not to be had.
    fn taken(&self, queue: &Queue, why: &std::io::Error) -> MachineError {
        let owner = match self.changed_by(queue, true) {
            Ok(owner) => owner,
            Err(error) => return error,
        };
        let lock = queue.folder.join("queue");
        let (why, remedy) = match owner {
            Some(owner) => {
                let who = format!("process {}: {}", owner.pid, owner.what);
                let why = format!("another hoistway is at work on this device ({who}): {why}");
                (why, "wait until it ends".to_string())
            }
            None => {
                let why = format!("another program holds the lock on {}: {why}", lock.display());
                (why, format!("`fuser {}` tells which", lock.display()))
            }
        };
        MachineError::Lack(Lack::new(&queue.name, why, remedy))
    }

    fn changed_by(
        &self,
        queue: &Queue,
        alive: bool,
    ) -> Result<Option<state::Repaired>, MachineError> {
        state::changed_by(&self.system, &self.folders, &queue.folder, alive).map_err(|refused| {
            let why = "may hold what this device was set to, and is not believed";
            let remedy = format!("settle that first: {}", refused.why);
            MachineError::Lack(Lack::new(refused.path.display().to_string(), why, remedy))
        })
    }

    fn remember_file(&mut self, file: &Path, value: &str) -> Result<(), MachineError> {
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
            return self.remember(NotedChange::Enabled { path: file.into(), controllers: added });
        }
        let key = value.split_whitespace().next().unwrap_or_default();
        if file.parent().is_some_and(|p| p.join("cgroup.procs").exists()) && key.contains(':') {
            let old = text.lines().find(|line| line.split(' ').next() == Some(key));
            let old = old.map(str::to_string);
            let same = |c: &NotedChange| matches!(c, NotedChange::Keyed { path, key: k, .. } if path == file && k == key);
            if self.changes.iter().any(same) {
                return Ok(());
            }
            return self.remember(NotedChange::Keyed { path: file.into(), key: key.into(), old });
        }
        let same = |c: &NotedChange| matches!(c, NotedChange::File { path, .. } if path == file);
        if self.changes.iter().any(same) {
            return Ok(());
        }
        self.remember(NotedChange::File { path: file.into(), old: text.trim_end().into() })
    }

    fn own_cgroup(&self, file: &Path) -> bool {
        let own = |c: &NotedChange| matches!(c, NotedChange::Cgroup { path, .. } if file.starts_with(path));
        self.changes.iter().any(own)
    }

    fn own_loop(&self, folder: &Path) -> bool {
        let name = super::chain::file_name(folder);
        let Some(number) = name.strip_prefix("loop").and_then(|n| n.parse().ok()) else {
            return false;
        };
        let own = |c: &NotedChange| match c {
            NotedChange::Loop { device, backing, seq } => {
                super::chain::file_name(device) == name
                    && LoopDevice::known(number, backing, *seq).is_attached()
            }
            _ => false,
        };
        self.changes.iter().any(own)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(problems) = self.restore() {
            for problem in problems {
                // It quotes files of the machine, and names that others have chosen.
                eprintln!("warning: not put back: {}", hoistway_files::shown::text(&problem));
            }
        }
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

#[cfg(test)]
mod tests;
