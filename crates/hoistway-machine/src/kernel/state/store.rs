//! Where state files lie, and which of them are believed.
//!
//! Who can write a state file, or put one there, could make `hoistway restore` do anything that hoistway does. So state
//! lies in folders that only root, or only its user, can change, and each of its files is looked at once it is open:
//! neither its name nor a link to it can be exchanged after that.

use super::super::guard::start_of;
use super::super::{Lack, System};
use super::read::Read;
use crate::MachineError;
use hoistway_files::{Dir, Identity, Limit, Place, PlaceError, input};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most bytes of a state file: that of a run on a hundred devices has a quarter.
pub(super) const LIMIT: Limit = Limit { what: "a state file", bytes: 1 << 20 };

/// Something that is not believed: nothing of it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file, or the folder.
    pub path: PathBuf,
    /// Why, and what to do.
    pub why: String,
    /// It is the folder: none of its files was looked at.
    pub is_folder: bool,
}

/// Where state files are, the one to be tried first for new ones first: a folder that survives a reboot.
pub(in super::super) fn folders() -> Result<Vec<PathBuf>, MachineError> {
    if let Some(folder) = std::env::var_os("HOISTWAY_STATE_DIR") {
        return Ok(vec![folder.into()]);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(vec!["/var/lib/hoistway".into(), "/run/hoistway".into()]);
    }
    // The specification of these folders says that a relative path is to be ignored.
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || named("HOME").or_else(home_of_user).map(|home| home.join(".local/state"));
    match named("XDG_STATE_HOME").or_else(home) {
        Some(state) => Ok(vec![state.join("hoistway")]),
        None => Err(MachineError::Lack(Lack::new(
            "a folder for what is to be put back",
            "neither HOME nor XDG_STATE_HOME names an absolute path, and /etc/passwd has no home of this user",
            "set XDG_STATE_HOME to a folder that only this user can write",
        ))),
    }
}

/// As the list of users has it.
fn home_of_user() -> Option<PathBuf> {
    let limit = Limit { what: "a list of users", bytes: 16 << 20 };
    let text = input::text(Path::new("/etc/passwd"), limit).ok()?;
    home_in(&text, rustix::process::geteuid().as_raw())
}

fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    let homes = passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(user)).then(|| PathBuf::from(fields.get(5).unwrap_or(&"")))
    });
    homes.into_iter().next().filter(|home| home.is_absolute())
}

/// A folder of state files, which is made if it is missing.
pub(super) fn make(folder: &Path) -> Result<Dir, MachineError> {
    Dir::make_own(folder).map_err(|error| match unsafe_folder(folder, &error) {
        Some(Refused { path, why, .. }) => {
            MachineError::Lack(Lack::new(path.display().to_string(), why, ""))
        }
        None => error.into(),
    })
}

/// The same; `None` if there is none.
pub(super) fn open(folder: &Path) -> Result<Option<Dir>, Refused> {
    match Dir::open_own(folder) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == Some(std::io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(unsafe_folder(folder, &error).unwrap_or_else(|| Refused {
            path: folder.into(),
            why: error.to_string(),
            is_folder: true,
        })),
    }
}

/// A folder that somebody else has made or can change; `None`: something else is wrong.
fn unsafe_folder(folder: &Path, error: &PlaceError) -> Option<Refused> {
    let why = match error {
        PlaceError::Shared { path, owner, mode } => {
            let user = rustix::process::geteuid().as_raw();
            let who = if user == 0 { "root".to_string() } else { format!("user {user}") };
            let whose = if path == folder { "it" } else { &path.display().to_string() };
            format!(
                "state that is obeyed must be {who}'s alone, and another user can change {whose} (owner {owner}, \
                 permissions {:o}); remove it if hoistway did not make it, else `chown {user} {shown}` and \
                 `chmod 700 {shown}`",
                mode & 0o7777,
                shown = path.display(),
            )
        }
        PlaceError::Unsafe { path, why } => {
            format!("{}: {why}; remove it, or name a folder without it", path.display())
        }
        _ => return None,
    };
    Some(Refused { path: folder.into(), why, is_folder: true })
}

/// A state file that is believed, open.
#[derive(Debug)]
pub(super) struct OpenedState {
    pub place: Place,
    pub file: File,
    pub read: Read,
    /// Its run is under way. Otherwise the file is locked now.
    pub alive: bool,
    modified: SystemTime,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// To be read.
    Shared,
    /// To be put back.
    Alone,
}

/// State files of a folder, the newest run first: it began with what the older ones had left. And those that are not
/// believed.
pub(super) fn files(system: &System, dir: &Dir, hold: Hold) -> (Vec<OpenedState>, Vec<Refused>) {
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    let names = match dir.names() {
        Ok(names) => names,
        Err(error) => {
            let (path, why) = (dir.path().to_path_buf(), error.to_string());
            return (files, vec![Refused { path, why, is_folder: true }]);
        }
    };
    for name in names.iter().filter(|name| name.as_encoded_bytes().ends_with(b".state")) {
        let place = dir.place(name).map_err(|e| e.to_string());
        match place.and_then(|place| look(system, place, hold)) {
            Ok(found) => files.extend(found),
            Err(why) => {
                let path = dir.path().join(name);
                refused.push(Refused { path, why, is_folder: false });
            }
        }
    }
    files.sort_by_key(|file| std::cmp::Reverse((file.modified, file.place.path())));
    (files, refused)
}

/// `None`: it has gone meanwhile, or its run has only just begun.
fn look(system: &System, place: Place, hold: Hold) -> Result<Option<OpenedState>, String> {
    let remove =
        |why: String| format!("{why}; nothing that it says is done: look at it, and remove it");
    let file = match place.open_writable() {
        Ok(file) => file,
        Err(error) if error.kind() == Some(std::io::ErrorKind::NotFound) => return Ok(None),
        Err(PlaceError::Foreign { is, .. }) => return Err(remove(format!("is {is}"))),
        Err(PlaceError::Io { error, .. }) => return Err(error.to_string()),
        Err(error) => return Err(error.to_string()),
    };
    let meta = file.metadata().map_err(|e| e.to_string())?;
    believable(&meta).map_err(remove)?;
    let alive = !locked(&file, hold);
    // Its process may have ended well meanwhile, and taken it away.
    let now = place.identity().map_err(|e| e.to_string())?;
    if now != Some(Identity::of(&file).map_err(|e| e.to_string())?) {
        return Ok(None);
    }
    let text = text_of(&file).map_err(remove)?;
    if text.is_empty() {
        // Of a process that died before it changed anything.
        return Ok(None);
    }
    let read = Read::parse(system, &text).map_err(remove)?;
    if alive && start_of(system, read.pid).is_none() {
        let (pid, path) = (read.pid, place.path());
        return Err(format!(
            "its process ({pid}) has ended, and another one holds it locked, as `hoistway restore` does: wait until \
             that ends (`fuser {}` tells which it is)",
            path.display()
        ));
    }
    let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Some(OpenedState { place, file, read, alive, modified }))
}

/// The text of a file, if nobody else can have written it.
pub(super) fn text_of(file: &File) -> Result<String, String> {
    believable(&file.metadata().map_err(|e| e.to_string())?)?;
    let bytes = input::bounded(file, LIMIT.bytes).map_err(|e| e.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("has more than {} bytes", LIMIT.bytes))?;
    String::from_utf8(bytes).map_err(|_| "is no text".into())
}

/// Whether nobody else holds it.
fn locked(file: &File, hold: Hold) -> bool {
    let how = match hold {
        Hold::Shared => FlockOperation::NonBlockingLockShared,
        Hold::Alone => FlockOperation::NonBlockingLockExclusive,
    };
    flock(file, how).is_ok()
}

/// Whether only this user, or root, can have written it.
fn believable(meta: &std::fs::Metadata) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    if meta.uid() != user && meta.uid() != 0 {
        return Err(format!("belongs to user {}, not to {user}", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(format!("others can write it (permissions {:o})", meta.mode() & 0o7777));
    }
    if meta.nlink() != 1 {
        return Err(format!("has {} names (hard links)", meta.nlink()));
    }
    if meta.len() > LIMIT.bytes {
        return Err(format!("has {} bytes, more than {}", meta.len(), LIMIT.bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_a_user_is_that_of_the_list() {
        let list = "root:x:0:0:root:/root:/bin/sh\nodd\na:x:7:7::/home/a:/bin/sh\nb:x:8:8::none:\n";
        assert_eq!(home_in(list, 7), Some("/home/a".into()));
        assert_eq!(home_in(list, 0), Some("/root".into()));
        assert_eq!(home_in(list, 8), None, "no absolute path");
        assert_eq!(home_in(list, 9), None);
    }
}
