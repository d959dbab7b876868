//! FUSE: every export as a file, so that `losetup`, `mkfs` and `mount` can put any Linux file system on a
//! device of ours.
//!
//! Threads read the kernel's requests (`tree`), put them into the inbox of a file (`inbox`) and go on reading; the
//! owner thread of the device picks them up as those of one of its sessions (`file`) and answers the
//! kernel when they are done.

pub mod attach;
mod file;
mod inbox;
mod range;
mod tree;

use crate::device::{ConnectionInfo, Device, Message};
use crate::error::{ServeError, os};
use crate::front::{Attached, Attachment, Export, Front, FrontOption};
use crate::system::thread::io_flusher;
use crate::system::wall_clock;
use attach::{DEVICE, MountPoint};
use file::{File, FileIdentity};
use fuser::{Config, Session, SessionACL};
use inbox::FuseInbox;
use rustix::process::{getgid, getuid};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tree::{Entry, Tree};

/// FUSE in the registry.
pub static FRONT: Front = Front {
    name: "fuse",
    summary: "files of a folder, for losetup, mkfs and mount",
    usage: "--fuse FOLDER",
    missing: || match std::fs::exists(DEVICE) {
        Ok(true) => None,
        _ => Some(format!("{DEVICE}: `modprobe fuse`; in a container `--device /dev/fuse`")),
    },
    options: &[
        FrontOption {
            name: "fuse",
            value: "FOLDER",
            help: "Show the exports as files of this folder, by FUSE: for losetup, mkfs and mount",
        },
        FrontOption {
            name: "fuse-allow-other",
            value: "",
            help: "Let other users look into that folder, as far as the files' mode (0600) lets them",
        },
    ],
    attach: Some(|request| {
        let folder = PathBuf::from(&request.options["fuse"]);
        let options = FuseOptions { allow_other: request.options.contains_key("fuse-allow-other") };
        let (ended, place) = (request.ended, folder.clone());
        let mount = Mount::start(request.exports, &folder, options, move || ended(&place))?;
        let of = |export: &Export| (export.name.clone(), mount.file(&export.name));
        Ok(vec![Attached {
            places: request.exports.iter().map(of).collect(),
            notes: mount.note().map(String::from).into_iter().collect(),
            variable: Some("fuse"),
            attachment: Box::new(mount),
        }])
    }),
};

/// How exports are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct FuseOptions {
    /// Other users than the server's may look (`allow_other`), as far as the files' mode lets them: root,
    /// where the server is not root's. Needs `user_allow_other` in /etc/fuse.conf then.
    pub allow_other: bool,
}

/// Exports as files of a folder. When it is dropped it is unmounted, or [severed](Attachment::sever) if
/// somebody uses it.
pub struct Mount {
    attached: MountPoint,
    inboxes: Vec<Arc<FuseInbox>>,
    devices: Vec<Device>,
    note: Option<String>,
    /// What runs the session; `None` when it is over, or nothing of ours is mounted any more.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How often it is looked whether the session has noticed that it is over: 2 s.
pub const NOTICE: u32 = 2000;
const LOOK: Duration = Duration::from_millis(1);
/// Threads that read the kernel's requests: more than one, since each copies what is written.
const READERS: usize = 2;

impl Mount {
    /// Shows every export as a file of its name in `folder`, which must be there and empty. Its users are
    /// this user's processes; files have mode 0600, of read-only exports 0400. `ended` is called when
    /// the folder was unmounted, by whomever.
    ///
    /// # Errors
    ///
    /// When a name cannot be a file's, an export does not fit its device, the folder cannot be mounted on,
    /// or the kernel has no FUSE.
    pub fn start(
        exports: &[Export],
        folder: &Path,
        options: FuseOptions,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Mount, ServeError> {
        let born = wall_clock();
        let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
        let (folder, note) = attach::prepare(folder)?;
        let mut entries: Vec<Entry> = Vec::with_capacity(exports.len());
        let mut files = Vec::with_capacity(exports.len());
        for (index, export) in exports.iter().enumerate() {
            check_name(&export.name, &entries)?;
            let (view, block) = (export.view()?, export.device.facts().block);
            let inbox = Arc::new(FuseInbox::new().map_err(os("eventfd"))?);
            let perm = if view.read_only { 0o400 } else { 0o600 };
            let identity = FileIdentity { ino: Tree::inode(index), uid, gid, perm, born };
            let info = ConnectionInfo {
                connection: super::connection_number(),
                export: export.name.clone(),
                peer: format!("fuse {}", folder.join(&export.name).display()),
            };
            entries.push(Entry {
                name: export.name.clone(),
                inbox: Arc::clone(&inbox),
                size: view.size,
                block: block.into(),
                read_only: view.read_only,
            });
            files.push(File::new(inbox, view, block, identity, info));
        }
        let inboxes = entries.iter().map(|e| Arc::clone(&e.inbox)).collect();
        let (connection, attached) = attach::attach(folder, options.allow_other)?;
        let tree = Tree { entries, uid, gid, born };
        let thread = match serve(tree, connection, files, exports, ended) {
            Ok(thread) => thread,
            Err(error) => {
                attached.sever();
                return Err(error);
            }
        };
        let devices = exports.iter().map(|e| e.device.clone()).collect();
        Ok(Mount { attached, inboxes, devices, note, thread: Mutex::new(Some(thread)) })
    }

    /// The folder, absolute and without links.
    pub fn folder(&self) -> &Path {
        &self.attached.folder
    }

    /// The file of an export.
    pub fn file(&self, export: &str) -> PathBuf {
        self.attached.folder.join(export)
    }

    /// Something a user should know: that a dead mount was found and removed.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().expect("nobody panics while holding the lock")
    }
}

impl Attachment for Mount {
    fn place(&self) -> PathBuf {
        self.attached.folder.clone()
    }

    fn detach(&self) -> Result<bool, ServeError> {
        let mut thread = self.lock();
        if over(&mut thread, 0) {
            return Ok(true);
        }
        let what = || format!("unmount {}", self.folder().display());
        let detached = self.attached.detach().map_err(os(what()))?;
        // Gone from here, it may still be seen elsewhere (another mount namespace, a lazy unmount).
        Ok(detached && over(&mut thread, NOTICE))
    }

    fn users(&self) -> Vec<String> {
        self.attached.users()
    }

    fn sever(&self) -> Result<(), ServeError> {
        let mut thread = self.lock();
        if over(&mut thread, 0) {
            return Ok(());
        }
        self.inboxes.iter().for_each(|inbox| inbox.close());
        self.devices.iter().for_each(Device::start_close);
        let mut result = Ok(());
        for device in &self.devices {
            result = result.and(device.close());
        }
        self.attached.sever();
        if !over(&mut thread, NOTICE) {
            // The connection could not be cut. It ends with this process; until then all is refused.
            *thread = None;
        }
        result
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.detach().unwrap_or(false) {
            // Who wants to know how it ended severs it before.
            let _ = self.sever();
        }
    }
}

/// True if the session is over, or ends while it is looked for so many times.
pub fn over(thread: &mut Option<JoinHandle<()>>, mut looks: u32) -> bool {
    while thread.as_ref().is_some_and(|t| !t.is_finished()) {
        if looks == 0 {
            return false;
        }
        looks -= 1;
        thread::sleep(LOOK);
    }
    if let Some(thread) = thread.take() {
        let _ = thread.join();
    }
    true
}

/// Shakes hands with the kernel, sends the files to their devices and starts to read requests.
fn serve(
    tree: Tree,
    connection: OwnedFd,
    files: Vec<File>,
    exports: &[Export],
    ended: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServeError> {
    let mut config = Config::default();
    config.n_threads = Some(READERS);
    config.clone_fd = true;
    // The kernel decides who may look; its own loop devices ask in nobody's name.
    let session = Session::from_fd(tree, connection, SessionACL::All, config);
    let session = session.map_err(os("FUSE"))?;
    for (file, export) in files.into_iter().zip(exports) {
        export.device.send(Message::Session(Box::new(file)))?;
    }
    let run = move || {
        io_flusher();
        // It ends when the folder is unmounted or the connection severed; there is nobody to hear
        // of any other end but those who get errors from their files.
        let _ = session.run();
        ended();
    };
    thread::Builder::new().name("hoistway-fuse".into()).spawn(run).map_err(os("thread"))
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("folder", &self.folder()).finish_non_exhaustive()
    }
}

/// A name that can be a file's, and that no other export has.
fn check_name(name: &str, others: &[Entry]) -> Result<(), ServeError> {
    let refused = |why: &str| {
        let message = format!("export '{name}' cannot be a file: {why}; give it another name");
        Err(ServeError::Refused(message))
    };
    match name {
        "" => refused("its name is empty"),
        "." | ".." => refused("that name is taken in every folder"),
        _ if name.contains(['/', '\0']) => refused("its name has a slash or a zero byte"),
        _ if name.len() > 255 => refused("its name has more than 255 bytes"),
        _ if others.iter().any(|e| e.name == name) => Err(ServeError::BadName(name.into())),
        _ => Ok(()),
    }
}
