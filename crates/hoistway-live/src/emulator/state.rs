//! What an emulator has made of this machine, kept where `emulate --cleanup` finds it after a crash.
//!
//! One folder per emulator, `/run/hoistway/emulate/PID` (`HOISTWAY_STATE_DIR` in place of `/run/hoistway`), with the
//! folder that is mounted and a file `state` of lines `key value`, which is locked while its process lives: a lock goes
//! with the process however that ends, and a number of a process that was given out anew proves nothing.
//! Lines are written and synced before the thing they name is made.

use crate::error::{LiveError, os};
use crate::kernel::loopdev::{self, Detached, LoopDevice};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where state is kept.
pub(super) fn base() -> PathBuf {
    let folder = std::env::var_os("HOISTWAY_STATE_DIR").map(PathBuf::from);
    folder.unwrap_or_else(|| "/run/hoistway".into()).join("emulate")
}

/// The folder of one emulator, with its lock.
#[derive(Debug)]
pub(super) struct StateFolder {
    folder: PathBuf,
    file: File,
}

impl StateFolder {
    pub fn create() -> Result<StateFolder, LiveError> {
        let base = base();
        let folder = base.join(std::process::id().to_string());
        let what = || folder.display().to_string();
        fs::create_dir_all(&base).map_err(os(what()))?;
        if folder.exists() {
            // Of an earlier process of this number, which is dead.
            clean(&folder)?;
        }
        fs::create_dir(&folder).map_err(os(what()))?;
        fs::create_dir(folder.join("mnt")).map_err(os(what()))?;
        let file = File::create_new(folder.join("state")).map_err(os(what()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(os(what()))?;
        Ok(StateFolder { folder, file })
    }

    pub fn mount_point(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    /// Before it is made, if `--cleanup` is to find it.
    pub fn add(&mut self, key: &str, value: &str) -> Result<(), LiveError> {
        let written = writeln!(self.file, "{key} {value}").and_then(|()| self.file.sync_all());
        written.map_err(os(self.folder.display().to_string()))
    }

    /// Nothing is left to clean up.
    pub fn remove(self) {
        let _ = fs::remove_dir(self.folder.join("mnt"));
        let _ = fs::remove_file(self.folder.join("state"));
        let _ = fs::remove_dir(&self.folder);
    }
}

/// An emulator of this machine, alive or dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its process.
    pub pid: u32,
    /// It lives.
    pub alive: bool,
    /// The drive.
    pub drive: String,
    /// The loop device, once it was attached.
    pub device: Option<PathBuf>,
    folder: PathBuf,
}

/// All emulators that this machine knows of.
pub fn known() -> Vec<Known> {
    let entries = fs::read_dir(base()).into_iter().flatten().flatten();
    let mut list: Vec<Known> = entries.filter_map(|e| look(&e.path())).collect();
    list.sort_by_key(|known| known.pid);
    list
}

fn look(folder: &Path) -> Option<Known> {
    let pid = folder.file_name()?.to_str()?.parse().ok()?;
    let state = read(folder);
    let device = state.get("loop").map(|n| PathBuf::from(format!("/dev/loop{n}")));
    let drive = state.get("drive").cloned().unwrap_or_default();
    Some(Known { pid, alive: is_alive(folder), drive, device, folder: folder.into() })
}

fn read(folder: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder.join("state")).unwrap_or_default();
    let pair = |line: &str| line.split_once(' ').map(|(k, v)| (k.to_string(), v.to_string()));
    text.lines().filter_map(pair).collect()
}

/// Somebody holds the lock.
fn is_alive(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join("state")) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Takes away what dead emulators left; what each left, in words. Living ones are left alone.
///
/// # Errors
///
/// The system's, naming what could not be taken away; the rest is.
pub fn cleanup() -> Result<Vec<String>, LiveError> {
    let (mut said, mut failed) = (Vec::new(), None);
    for known in known().into_iter().filter(|known| !known.alive) {
        match clean(&known.folder) {
            Ok(done) => {
                let what =
                    if done.is_empty() { "nothing but its folder".into() } else { done.join(", ") };
                said.push(format!("{} (process {}): {what}", known.drive, known.pid));
            }
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        None => Ok(said),
        Some(error) => Err(error),
    }
}

fn clean(folder: &Path) -> Result<Vec<String>, LiveError> {
    let (state, mut done) = (read(folder), Vec::new());
    let mount = folder.join("mnt");
    if let Some(number) = state.get("loop").and_then(|n| n.parse().ok()) {
        let backing = state.get("backing").map(PathBuf::from).unwrap_or_default();
        let own = state.get("own").is_some_and(|v| v == "1");
        let device = LoopDevice { number, backing, own };
        match device.detach()? {
            Detached::Gone => done.push(format!("{} detached", device.path().display())),
            Detached::NotOurs if own => loopdev::remove_empty(number),
            Detached::NotOurs => {}
            Detached::Later => {
                let users = device.users().join(", ");
                return Err(LiveError::Refused(format!(
                    "{} is still used ({users}); unmount it, then run this again",
                    device.path().display()
                )));
            }
        }
    }
    match unmount(&mount, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => done.push(format!("{} unmounted", mount.display())),
        Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(os(format!("unmount {}", mount.display()))(error)),
    }
    // What is not empty is not ours to remove.
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(os(folder.display().to_string())(error))
        }
        _ => Ok(()),
    };
    gone(fs::remove_dir(&mount))?;
    gone(fs::remove_file(folder.join("state")))?;
    gone(fs::remove_dir(folder))?;
    Ok(done)
}
