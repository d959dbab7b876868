//! Where something is written, as a descriptor of the folder and a name in it.

use crate::input::what;
use crate::mark::Kind;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

mod draft;
mod folder;
mod identity;

pub use draft::{Draft, Output, may_write, write};
pub use folder::Scratch;
pub use identity::Identity;

/// Why something was not written or removed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// The system refused.
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Something stands there that hoistway did not write.
    Foreign {
        /// Where.
        path: PathBuf,
        /// What it is.
        is: &'static str,
    },
    /// The way there leads through a link, or up, in a folder that somebody else can change.
    Unsafe {
        /// The folder or link.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is not what was made.
    Exchanged {
        /// Where.
        path: PathBuf,
    },
    /// Somebody else than root and this user can change a folder, and so exchange what is in it.
    Shared {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
}

impl PlaceError {
    /// What the system said, where it was the system.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            PlaceError::Io { error, .. } => Some(error.kind()),
            _ => None,
        }
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            PlaceError::Foreign { path, is } => write!(
                f,
                "{}: is {is} that hoistway did not write; choose another name, or remove it first",
                path.display()
            ),
            PlaceError::Unsafe { path, why } => {
                write!(f, "{}: {why}; as root, name a place without it", path.display())
            }
            PlaceError::Exchanged { path } => {
                write!(f, "{}: is not what was made there; left alone", path.display())
            }
            PlaceError::Shared { path, owner, mode } => write!(
                f,
                "{}: another user can change it (owner {owner}, permissions {:o})",
                path.display(),
                mode & 0o7777
            ),
        }
    }
}

impl std::error::Error for PlaceError {}

impl From<PlaceError> for io::Error {
    fn from(error: PlaceError) -> io::Error {
        match error {
            PlaceError::Io { error, .. } => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

/// An open folder.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

/// A name in an open folder.
#[derive(Debug)]
pub struct Place {
    dir: Dir,
    name: OsString,
}

impl Dir {
    /// Opens a folder that exists.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`], [`PlaceError::Unsafe`].
    pub fn open(path: &Path) -> Result<Dir, PlaceError> {
        walk(path, Missing::Refuse, Others::Allowed)
    }

    /// Opens a folder, and makes it and those above it where they are missing.
    ///
    /// # Errors
    ///
    /// As [`Dir::open`].
    pub fn make_all(path: &Path) -> Result<Dir, PlaceError> {
        walk(path, Missing::Make(0o777), Others::Allowed)
    }

    /// Opens a folder that nobody but root and this user can change, at a place where nobody else can put another one.
    ///
    /// # Errors
    ///
    /// As [`Dir::open`], and [`PlaceError::Shared`].
    pub fn open_own(path: &Path) -> Result<Dir, PlaceError> {
        walk(path, Missing::Refuse, Others::Refused)?.checked()
    }

    /// The same; where it or folders above it are missing they are made, for this user alone.
    ///
    /// # Errors
    ///
    /// As [`Dir::open_own`].
    pub fn make_own(path: &Path) -> Result<Dir, PlaceError> {
        walk(path, Missing::Make(0o700), Others::Refused)?.checked()
    }

    /// The same, by the path that the system has for it: absolute, without links and `..`.
    pub fn resolved(mut self) -> Dir {
        let known = std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        if let Ok(path) = known {
            self.path = path;
        }
        self
    }

    /// A folder that is open already, with its path for messages.
    pub fn from_open(fd: OwnedFd, path: PathBuf) -> Dir {
        Dir { fd, path }
    }

    fn checked(self) -> Result<Dir, PlaceError> {
        let stat = self.stat()?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        if is_trusted(stat.st_uid) && !mode.intersects(Mode::WGRP | Mode::WOTH) {
            return Ok(self);
        }
        Err(shared(&self.path, &stat))
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name in it. `name` is one component.
    pub fn place(&self, name: impl AsRef<OsStr>) -> Result<Place, PlaceError> {
        let name = name.as_ref();
        assert!(
            Path::new(name).components().eq([Component::Normal(name)]),
            "one component, not '{}'",
            name.display()
        );
        let fd = self.fd.try_clone().map_err(|error| self.io(error))?;
        Ok(Place { dir: Dir { fd, path: self.path.clone() }, name: name.into() })
    }

    /// What tells it from every other folder.
    pub fn identity(&self) -> Result<Identity, PlaceError> {
        Identity::of(&self.fd).map_err(|e| self.io(e.into()))
    }

    /// Whether somebody else than root and this user can change what is in it.
    pub fn is_shared(&self) -> Result<bool, PlaceError> {
        Ok(is_shared(&self.stat()?))
    }

    /// Its owner and mode.
    pub fn owner_and_mode(&self) -> Result<(u32, u32), PlaceError> {
        let stat = self.stat()?;
        Ok((stat.st_uid, Mode::from_raw_mode(stat.st_mode).bits()))
    }

    /// The names in it.
    pub fn names(&self) -> Result<Vec<OsString>, PlaceError> {
        let dir = rustix::fs::Dir::read_from(&self.fd).map_err(|e| self.io(e.into()))?;
        let mut names = Vec::new();
        for entry in dir {
            let entry = entry.map_err(|e| self.io(e.into()))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(os_string(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// New names in it last, where the file system can promise that.
    pub fn sync(&self) {
        // The descriptor may be one that only marks a place.
        if let Ok(folder) = open_at(&self.fd, OsStr::new("."), OFlags::DIRECTORY) {
            let _ = rustix::fs::fsync(folder);
        }
    }

    fn stat(&self) -> Result<Stat, PlaceError> {
        rustix::fs::fstat(&self.fd).map_err(|e| self.io(e.into()))
    }

    fn io(&self, error: io::Error) -> PlaceError {
        PlaceError::Io { path: self.path.clone(), error }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Place {
    /// A name in a folder that exists.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`], [`PlaceError::Unsafe`]; a path that ends in `..` or is `/` names no place.
    pub fn of(path: &Path) -> Result<Place, PlaceError> {
        Place::below(path, Missing::Refuse)
    }

    /// The same, in a folder that is made where it is missing.
    ///
    /// # Errors
    ///
    /// As [`Place::of`].
    pub fn make(path: &Path) -> Result<Place, PlaceError> {
        Place::below(path, Missing::Make(0o777))
    }

    /// The place that a path leads to in the end: a link that is its last component is followed as those on the way are.
    /// Its folder is [resolved](Dir::resolved).
    ///
    /// # Errors
    ///
    /// As [`Place::of`].
    pub fn followed(path: &Path) -> Result<Place, PlaceError> {
        let mut path = path.to_path_buf();
        for _ in 0..=LINKS_MAX {
            let mut place = Place::of(&path)?;
            let link = place.stat()?.filter(|stat| is(stat, FileType::Symlink));
            let Some(link) = link else {
                place.dir = place.dir.resolved();
                return Ok(place);
            };
            let around = place.dir.stat()?;
            let own = is_trusted(link.st_uid) && is_sticky(&around);
            if rustix::process::geteuid().is_root() && is_shared(&around) && !own {
                return Err(PlaceError::Unsafe { path: place.path(), why: LINK });
            }
            let target = rustix::fs::readlinkat(&place.dir.fd, &place.name, Vec::new());
            path = place.dir.path.join(os_string(target.map_err(|e| place.io(e))?.to_bytes()));
        }
        Err(PlaceError::Io { path, error: Errno::LOOP.into() })
    }

    fn below(path: &Path, missing: Missing) -> Result<Place, PlaceError> {
        let Some(name) = path.file_name() else {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "names no file");
            return Err(PlaceError::Io { path: path.into(), error });
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut dir = walk(parent.unwrap_or(Path::new(".")), missing, Others::Allowed)?;
        if parent.is_none() {
            dir.path = PathBuf::new();
        }
        Ok(Place { dir, name: name.into() })
    }

    /// The path, for messages.
    pub fn path(&self) -> PathBuf {
        self.dir.path.join(&self.name)
    }

    /// The folder.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// What stands there: a file, folder or link; `None` if nothing does.
    pub fn identity(&self) -> Result<Option<Identity>, PlaceError> {
        match identity::look(&self.dir.fd, &self.name) {
            Ok(identity) => Ok(Some(identity)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.io(e)),
        }
    }

    /// What stands there, in words, and the number of its owner; `None` if nothing does.
    pub fn what(&self) -> Result<Option<(&'static str, u32)>, PlaceError> {
        Ok(self.stat()?.map(|stat| (kind(&stat), stat.st_uid)))
    }

    /// Makes a new file. Fails where something stands, be it a link that leads nowhere.
    pub fn create(&self, mode: u32) -> Result<File, PlaceError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(mode);
        let fd = rustix::fs::openat(&self.dir.fd, &self.name, flags | OFlags::CLOEXEC, mode);
        fd.map(File::from).map_err(|e| self.io(e))
    }

    /// Opens what stands there for reading, unless it is a link, a device, a FIFO or a folder.
    pub fn open(&self) -> Result<File, PlaceError> {
        self.open_with(OFlags::RDONLY)
    }

    /// The same, for reading and writing.
    pub fn open_writable(&self) -> Result<File, PlaceError> {
        self.open_with(OFlags::RDWR)
    }

    fn open_with(&self, flags: OFlags) -> Result<File, PlaceError> {
        match self.stat()? {
            Some(stat) if !is(&stat, FileType::RegularFile) => {
                return Err(PlaceError::Foreign { path: self.path(), is: kind(&stat) });
            }
            _ => {}
        }
        // Between the look and the opening it may have become something that waits or follows.
        let fd = open_at(&self.dir.fd, &self.name, flags | OFlags::NONBLOCK);
        let file = File::from(fd.map_err(|e| self.io(e))?);
        let meta = file.metadata().map_err(|error| PlaceError::Io { path: self.path(), error })?;
        if meta.is_file() {
            return Ok(file);
        }
        Err(PlaceError::Foreign { path: self.path(), is: what(&meta.file_type()) })
    }

    /// Opens what a path leads to as storage, a file or a block device, past the page cache if `direct`. Links are followed
    /// as by [`Place::followed`]; a descriptor of this process (`/proc/self/fd/N`) is opened anew.
    ///
    /// # Errors
    ///
    /// [`PlaceError::Io`], [`PlaceError::Foreign`] for a FIFO.
    #[cfg(target_os = "linux")]
    pub fn open_storage(path: &Path, writable: bool, direct: bool) -> Result<File, PlaceError> {
        let mut flags = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::DIRECT, direct);
        if path.parent() == Some(Path::new("/proc/self/fd")) {
            let opened = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
            let io = |error: Errno| PlaceError::Io { path: path.into(), error: error.into() };
            return opened.map(File::from).map_err(io);
        }
        let place = Place::followed(path)?;
        // Whoever opens a FIFO waits for its other end.
        if let Some(stat) = place.stat()?.filter(|stat| is(stat, FileType::Fifo)) {
            return Err(PlaceError::Foreign { path: place.path(), is: kind(&stat) });
        }
        open_at(&place.dir.fd, &place.name, flags).map(File::from).map_err(|e| place.io(e))
    }

    /// Makes a new folder, and opens it.
    pub fn make_dir(&self, mode: u32) -> Result<Dir, PlaceError> {
        rustix::fs::mkdirat(&self.dir.fd, &self.name, Mode::from_raw_mode(mode))
            .map_err(|e| self.io(e))?;
        let dir = self.open_dir()?;
        // Whoever can change the folder around it may have put another there since.
        let (owner, now) = dir.owner_and_mode()?;
        let ours = owner == rustix::process::geteuid().as_raw() && now & !mode & 0o777 == 0;
        if !ours || !dir.names()?.is_empty() {
            return Err(PlaceError::Exchanged { path: self.path() });
        }
        Ok(dir)
    }

    /// Opens the folder that stands there; a link is none.
    pub fn open_dir(&self) -> Result<Dir, PlaceError> {
        let fd = open_at(&self.dir.fd, &self.name, OFlags::DIRECTORY).map_err(|e| self.io(e))?;
        Ok(Dir { fd, path: self.path() })
    }

    /// Whether [`Place::replace`] would find its way free.
    pub fn may_replace(&self, ours: Kind) -> Result<(), PlaceError> {
        let Some(stat) = self.stat()? else { return Ok(()) };
        if !is(&stat, FileType::RegularFile) {
            return Err(PlaceError::Foreign { path: self.path(), is: kind(&stat) });
        }
        let mut head = Vec::new();
        let io = |error| PlaceError::Io { path: self.path(), error };
        self.open()?.take(HEAD).read_to_end(&mut head).map_err(io)?;
        if ours.is(&head) {
            return Ok(());
        }
        Err(PlaceError::Foreign { path: self.path(), is: "a file" })
    }

    /// Writes a file as a whole: nobody ever sees half of it. What stands there is replaced if hoistway wrote it.
    pub fn replace(&self, bytes: &[u8], ours: Kind) -> Result<(), PlaceError> {
        let mut draft = self.draft(ours)?;
        draft.write_all(bytes).map_err(|error| PlaceError::Io { path: self.path(), error })?;
        draft.finish()
    }

    /// Renames what stands here to another name of the same or another folder, over what stands there.
    pub fn rename(&self, to: &Place) -> Result<(), PlaceError> {
        rustix::fs::renameat(&self.dir.fd, &self.name, &to.dir.fd, &to.name).map_err(|e| self.io(e))
    }

    /// Removes a file, or a link but not what it leads to. Where nothing stands, nothing is done.
    pub fn remove_file(&self) -> Result<(), PlaceError> {
        gone(rustix::fs::unlinkat(&self.dir.fd, &self.name, AtFlags::empty()))
            .map_err(|e| self.io(e))
    }

    /// Removes an empty folder. Where nothing stands, nothing is done.
    pub fn remove_dir(&self) -> Result<(), PlaceError> {
        gone(rustix::fs::unlinkat(&self.dir.fd, &self.name, AtFlags::REMOVEDIR))
            .map_err(|e| self.io(e))
    }

    /// Removes a file if it is the one that was made. Where nothing stands, nothing is done.
    pub fn remove_made(&self, made: Identity) -> Result<(), PlaceError> {
        let Some(stat) = self.stat()? else { return Ok(()) };
        let ours = is(&stat, FileType::RegularFile) && is_trusted(stat.st_uid);
        if !ours || !self.identity()?.is_some_and(|now| now.is(&made)) {
            return Err(PlaceError::Exchanged { path: self.path() });
        }
        // Only who can change the folder can exchange it in between, and could have removed that one as well.
        self.remove_file()
    }

    /// Removes a folder and what is in it, if it is the one that was made. Whoever can change the folder around it
    /// cannot lead this elsewhere: all below is reached by descriptors. Stops at what lies on another file system.
    pub fn remove_tree(&self, made: Identity) -> Result<(), PlaceError> {
        let Some(stat) = self.stat()? else { return Ok(()) };
        let exchanged = || PlaceError::Exchanged { path: self.path() };
        if !is(&stat, FileType::Directory) {
            return Err(exchanged());
        }
        let dir = self.open_dir()?;
        let (now, (owner, _)) = (dir.identity()?, dir.owner_and_mode()?);
        if !now.is(&made) || !is_trusted(owner) {
            return Err(exchanged());
        }
        empty(&dir, now.device, DEPTH_MAX)?;
        self.remove_dir()
    }

    fn stat(&self) -> Result<Option<Stat>, PlaceError> {
        match rustix::fs::statat(&self.dir.fd, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.io(e)),
        }
    }

    fn io(&self, error: Errno) -> PlaceError {
        PlaceError::Io { path: self.path(), error: error.into() }
    }
}

/// What to do about a folder that is missing on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Refuse,
    /// With these permissions.
    Make(u32),
}

/// Whether a way may lead through folders that others can change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Allowed,
    /// But for what is root's or this user's under a sticky bit.
    Refused,
}

/// Opens a folder component by component.
fn walk(path: &Path, missing: Missing, others: Others) -> Result<Dir, PlaceError> {
    let wary = rustix::process::geteuid().is_root() || others == Others::Refused;
    let mut left: VecDeque<OsString> = VecDeque::new();
    push(&mut left, path);
    let start = if path.is_absolute() { "/" } else { "." };
    let mut shown = PathBuf::from(if path.is_absolute() { "/" } else { "" });
    let io = |shown: &Path, e: Errno| PlaceError::Io { path: shown.into(), error: e.into() };
    let mut here = open_marker(rustix::fs::CWD, OsStr::new(start)).map_err(|e| io(path, e))?;
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        let around = rustix::fs::fstat(&here).map_err(|e| io(&shown, e))?;
        let refuse = |why| Err(PlaceError::Unsafe { path: shown.join(&name), why });
        if name == ".." {
            if wary && is_shared(&around) && !is_sticky(&around) {
                return refuse("goes up from a folder that another user can change");
            }
            here = open_marker(&here, &name).map_err(|e| io(&shown, e))?;
            shown.push("..");
            continue;
        }
        let alone = others == Others::Allowed || !is_shared(&around);
        if !alone && !is_sticky(&around) {
            return Err(shared(&shown, &around));
        }
        let stat = found(&here, &name, missing).map_err(|e| io(&shown.join(&name), e))?;
        if !alone && !is_trusted(stat.st_uid) {
            return Err(shared(&shown.join(&name), &stat));
        }
        if is(&stat, FileType::Symlink) {
            let own = is_trusted(stat.st_uid) && is_sticky(&around);
            if wary && is_shared(&around) && !own {
                return refuse(LINK);
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(io(&shown.join(&name), Errno::LOOP));
            }
            let target = rustix::fs::readlinkat(&here, &name, Vec::new());
            let target = target.map_err(|e| io(&shown.join(&name), e))?;
            let target = PathBuf::from(os_string(target.to_bytes()));
            if target.is_absolute() {
                here = open_marker(rustix::fs::CWD, OsStr::new("/")).map_err(|e| io(&shown, e))?;
            }
            push(&mut left, &target);
            continue;
        }
        shown.push(&name);
        // It may have become a link since the look: `open_marker` follows none.
        here = open_marker(&here, &name).map_err(|e| io(&shown, e))?;
    }
    // What was walked by marks is now opened, so that it can be listed and synced.
    let fd = open_at(&here, OsStr::new("."), OFlags::DIRECTORY).map_err(|e| io(path, e))?;
    Ok(Dir { fd, path: path.into() })
}

/// What stands in a folder under that name, which may be made.
fn found(dir: &OwnedFd, name: &OsStr, missing: Missing) -> Result<Stat, Errno> {
    let look = || rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    match (look(), missing) {
        (Err(Errno::NOENT), Missing::Make(mode)) => {
            match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => look(),
                Err(e) => Err(e),
            }
        }
        (found, _) => found,
    }
}

fn shared(path: &Path, stat: &Stat) -> PlaceError {
    let mode = Mode::from_raw_mode(stat.st_mode).bits();
    PlaceError::Shared { path: path.into(), owner: stat.st_uid, mode }
}

/// Puts the components of a path before those that are left.
fn push(left: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => left.push_front(name.into()),
            Component::ParentDir => left.push_front("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
}

/// Removes what is in a folder.
fn empty(dir: &Dir, device: u64, depth: u32) -> Result<(), PlaceError> {
    for name in dir.names()? {
        let place = dir.place(&name)?;
        let Some(stat) = place.stat()? else { continue };
        if !is(&stat, FileType::Directory) {
            place.remove_file()?;
            continue;
        }
        let refuse = |why: &str| {
            Err(PlaceError::Io { path: place.path(), error: io::Error::other(why.to_string()) })
        };
        if depth == 0 {
            return refuse("lies deeper than anything that hoistway makes; left alone");
        }
        let inner = match open_below(&dir.fd, &name) {
            Err(Errno::XDEV) => return refuse("something is mounted there"),
            opened => opened.map_err(|e| place.io(e))?,
        };
        let inner = Dir { fd: inner, path: place.path() };
        if inner.identity()?.device != device {
            return refuse("something is mounted there");
        }
        empty(&inner, device, depth - 1)?;
        place.remove_dir()?;
    }
    Ok(())
}

/// Opens a folder of a folder, on the same mount.
fn open_below(dir: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve) {
            // Before Linux 5.6, or under a filter of system calls.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened,
        }
    }
    open_at(dir, name, OFlags::DIRECTORY)
}

/// A descriptor that marks a folder, for which no permission to read is needed.
fn open_marker(dir: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    let mark = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let mark = OFlags::empty();
    open_at(dir, name, mark | OFlags::DIRECTORY)
}

fn open_at(dir: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Whether somebody else than root and this user can change what is in a folder.
fn is_shared(stat: &Stat) -> bool {
    let mode = Mode::from_raw_mode(stat.st_mode);
    let own_group = stat.st_gid == 0 || stat.st_gid == rustix::process::getegid().as_raw();
    !is_trusted(stat.st_uid)
        || mode.contains(Mode::WOTH)
        || (mode.contains(Mode::WGRP) && !own_group)
}

/// Whether names of others in it can be neither removed nor exchanged.
fn is_sticky(stat: &Stat) -> bool {
    is_trusted(stat.st_uid) && Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX)
}

/// Root, this user, and whoever `/` belongs to: that one can exchange everything. (In a namespace of users that does
/// not know root, root's files have another owner, and `/` tells which.)
fn is_trusted(uid: u32) -> bool {
    static TOP: OnceLock<u32> = OnceLock::new();
    let top = || rustix::fs::stat("/").map_or(0, |stat| stat.st_uid);
    uid == 0 || uid == rustix::process::geteuid().as_raw() || uid == *TOP.get_or_init(top)
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::RegularFile => "a file",
        _ => "a device",
    }
}

fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn os_string(bytes: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    OsStr::from_bytes(bytes).into()
}

const LINK: &str = "is a link in a folder that another user can change";

/// How much of a file says who wrote it.
const HEAD: u64 = 4096;

/// Links on one way, as in Linux.
const LINKS_MAX: u32 = 40;

/// Folders within a folder that is removed: more than anything of ours has, and fewer than descriptors allow.
const DEPTH_MAX: u32 = 16;

#[cfg(test)]
mod tests;
