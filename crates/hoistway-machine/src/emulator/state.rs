//! What an emulator has made of this machine, kept where `emulate --cleanup` finds it after a crash.
//!
//! One folder per emulator, `/run/hoistway/emulate/PID` (`HOISTWAY_STATE_DIR` in place of `/run/hoistway`), with the
//! folder that is mounted and a file `state` of lines `key value`, which is locked while its process lives: a lock goes
//! with the process however that ends, and a number of a process that was given out anew proves nothing.
//! Lines are written and synced before the thing they name is made.

use crate::kernel::loopdev::{self, Detached, LoopDevice};
use crate::kernel::{make_state, open_state, read_state};
use crate::{MachineError, os};
use hoistway_files::{Dir, Place};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where state is kept.
pub(super) fn base() -> PathBuf {
    let folder = std::env::var_os("HOISTWAY_STATE_DIR").map(PathBuf::from);
    folder.unwrap_or_else(|| "/run/hoistway".into()).join("emulate")
}

/// The folder of one emulator, with its lock.
#[derive(Debug)]
pub(super) struct StateFolder {
    place: Place,
    folder: Dir,
    file: File,
}

impl StateFolder {
    pub fn create() -> Result<StateFolder, MachineError> {
        let base = make_state(&base())?;
        let place = base.place(std::process::id().to_string())?;
        if place.identity()?.is_some() {
            // Of an earlier process of this number, which is dead.
            clean(&place)?;
        }
        let folder = place.make_dir(0o700)?;
        folder.place(MOUNT)?.make_dir(0o700)?;
        let file = folder.place(STATE)?.create(0o600)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(os(place.path().display().to_string()))?;
        Ok(StateFolder { place, folder, file })
    }

    pub fn mount_point(&self) -> PathBuf {
        self.folder.path().join(MOUNT)
    }

    /// Before it is made, if `--cleanup` is to find it.
    pub fn add(&mut self, key: &str, value: &str) -> Result<(), MachineError> {
        let written = writeln!(self.file, "{key} {value}").and_then(|()| self.file.sync_all());
        written.map_err(os(self.folder.path().display().to_string()))
    }

    /// Nothing is left to clean up.
    pub fn remove(self) {
        // What cannot be removed is for `--cleanup` to tell.
        let _ = remove(&self.place, &self.folder);
    }
}

/// The folder that is mounted, and the file of lines.
const MOUNT: &str = "mnt";
const STATE: &str = "state";

/// What is not empty is not ours to remove.
fn remove(place: &Place, folder: &Dir) -> Result<(), MachineError> {
    folder.place(MOUNT)?.remove_dir()?;
    folder.place(STATE)?.remove_file()?;
    Ok(place.remove_dir()?)
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
}

/// All emulators that this machine knows of, and what is said of them that is not believed.
///
/// # Errors
///
/// Another user can change all that is said of them.
pub fn known() -> Result<(Vec<Known>, Vec<MachineError>), MachineError> {
    let (mut list, mut refused) = (Vec::new(), Vec::new());
    let Some(base) = open_state(&base())? else { return Ok((list, refused)) };
    for name in base.names()? {
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match EmulatorState::read(&base.place(&name)?) {
            Ok(Some(EmulatorState { facts, alive })) => {
                let device = facts.get("loop").map(|n| PathBuf::from(format!("/dev/loop{n}")));
                let drive = facts.get("drive").cloned().unwrap_or_default();
                list.push(Known { pid, alive, drive, device });
            }
            Ok(None) => {}
            Err(error) => refused.push(error),
        }
    }
    list.sort_by_key(|known| known.pid);
    Ok((list, refused))
}

/// What is known of one emulator.
#[derive(Debug, Default)]
struct EmulatorState {
    facts: BTreeMap<String, String>,
    /// Somebody holds the lock.
    alive: bool,
}

impl EmulatorState {
    /// `None`: the folder has gone.
    fn read(place: &Place) -> Result<Option<EmulatorState>, MachineError> {
        if place.identity()?.is_none() {
            return Ok(None);
        }
        let folder = Dir::open_own(&place.path()).map_err(|error| {
            MachineError::Refused(format!("{error}; look at it, and remove it"))
        })?;
        let file = match folder.place(STATE)?.open() {
            Ok(file) => file,
            // It died before it had one.
            Err(error) if error.kind() == Some(std::io::ErrorKind::NotFound) => {
                return Ok(Some(EmulatorState::default()));
            }
            Err(error) => return Err(error.into()),
        };
        let text = read_state(&file).map_err(|why| {
            let file = place.path().join(STATE);
            MachineError::Refused(format!("{}: {why}; look at it, and remove it", file.display()))
        })?;
        let pair = |line: &str| line.split_once(' ').map(|(k, v)| (k.to_string(), v.to_string()));
        let alive = flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK);
        Ok(Some(EmulatorState { facts: text.lines().filter_map(pair).collect(), alive }))
    }

    /// The loop device, if one was attached, or was about to be.
    fn device(&self, mount: &Path) -> Result<Option<LoopDevice>, MachineError> {
        let number = |key: &str| self.facts.get(key).and_then(|n| n.parse().ok());
        let (Some(loop_number), Some(backing)) = (number("loop"), self.facts.get("backing")) else {
            return Ok(None);
        };
        let refuse = |why: &str| Err(MachineError::Refused(format!("{}: {why}", mount.display())));
        let Ok(loop_number) = u32::try_from(loop_number) else { return refuse("no loop device") };
        if Path::new(backing).parent() != Some(mount) {
            return refuse("a drive lies elsewhere");
        }
        let own = self.facts.get("own").is_some_and(|v| v == "1");
        Ok(Some(LoopDevice {
            own,
            ..LoopDevice::known(loop_number, Path::new(backing), number("seq"))
        }))
    }
}

/// Takes away what dead emulators left; what each left, in words. Living ones are left alone.
///
/// # Errors
///
/// The system's, naming what could not be taken away; the rest is.
pub fn cleanup() -> Result<Vec<String>, MachineError> {
    let Some(base) = open_state(&base())? else { return Ok(Vec::new()) };
    let (list, refused) = known()?;
    let (mut said, mut failed) = (Vec::new(), refused.into_iter().next());
    for known in list.into_iter().filter(|known| !known.alive) {
        let place = base.place(known.pid.to_string())?;
        match clean(&place) {
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

fn clean(place: &Place) -> Result<Vec<String>, MachineError> {
    let mut done = Vec::new();
    let Some(state) = EmulatorState::read(place)? else { return Ok(done) };
    let folder = place.open_dir()?;
    let mount = folder.path().join(MOUNT);
    if let Some(device) = state.device(&mount)? {
        match device.detach()? {
            Detached::Gone => done.push(format!("{} detached", device.path().display())),
            Detached::NotOurs if device.own => loopdev::remove_empty(device.number),
            Detached::NotOurs => {}
            Detached::Later => {
                let users = device.users().join(", ");
                return Err(MachineError::Refused(format!(
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
    remove(place, &folder)?;
    Ok(done)
}
