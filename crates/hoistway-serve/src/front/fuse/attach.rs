//! Where a file system is attached: checking the folder, mounting, unmounting, and who is in the way.
//!
//! `fuser` can mount as well, but gives the mount up after one attempt at unmounting that fails, and with
//! it the way to wait for its users.

use crate::error::{ServeError, os};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount,
    fsopen, mount, unmount,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use rustix::process::{getgid, getuid};
use std::ffi::CString;
use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What mounts are made of.
pub(super) const DEVICE: &str = "/dev/fuse";
/// Dead mounts that may lie on each other.
const LAYERS: u32 = 16;
/// The helper with the right to mount for others, of libfuse 3 and 2.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];
/// Users that are named.
const NAMED: usize = 8;

/// A folder something is mounted on.
#[derive(Debug)]
pub struct MountPoint {
    /// Absolute, without links.
    pub folder: PathBuf,
    /// The helper that mounted it, where we may not.
    helper: Option<&'static str>,
    /// Number of the connection below /sys/fs/fuse/connections.
    connection: u32,
}

/// Checks the folder; also removes what servers that crashed left there, and says so.
pub fn prepare(folder: &Path) -> Result<(PathBuf, Option<String>), ServeError> {
    let refused = |what: &str| Err(ServeError::Refused(format!("{}: {what}", folder.display())));
    let mut cleaned = None;
    for _ in 0..LAYERS {
        match fs::metadata(folder) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => {
                bury(folder)?;
                cleaned = Some(format!(
                    "{}: the server that was mounted there is gone; its dead mount was removed",
                    folder.display()
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return refused("there is no such folder; make it with mkdir");
            }
            Err(error) => return Err(os(folder.display().to_string())(error)),
            Ok(found) if !found.is_dir() => return refused("is not a folder"),
            Ok(found) => {
                // Root is not led elsewhere by a link that somebody else could put there.
                hoistway_files::Dir::open(folder)?;
                let folder = folder.canonicalize().map_err(os(folder.display().to_string()))?;
                if is_mount_point(&folder, &found) {
                    return refused(
                        "something is mounted there already; unmount it or choose another folder",
                    );
                }
                let mut entries =
                    fs::read_dir(&folder).map_err(os(folder.display().to_string()))?;
                if entries.next().is_some() {
                    return refused("is not empty; what is in it would be hidden");
                }
                return Ok((folder, cleaned));
            }
        }
    }
    refused("dead mounts lie on each other there; unmount them by hand (umount -l)")
}

fn is_mount_point(folder: &Path, found: &fs::Metadata) -> bool {
    let above = fs::metadata(folder.join(".."));
    above.is_ok_and(|above| above.dev() != found.dev() || above.ino() == found.ino())
}

/// Takes a dead mount away, used or not: whoever uses it gets nothing but errors.
fn bury(folder: &Path) -> Result<(), ServeError> {
    match unmount(folder, UnmountFlags::DETACH) {
        Err(Errno::PERM) => help_unmount(folder, true),
        other => other.map_err(io::Error::from),
    }
    .map_err(os(format!("{}: the dead mount there cannot be removed", folder.display())))
}

/// Mounts on a folder that was prepared; the file is the connection to the kernel.
pub fn attach(folder: PathBuf, others: bool) -> Result<(OwnedFd, MountPoint), ServeError> {
    let device =
        fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(DEVICE);
    let device =
        device.map_err(os("/dev/fuse (modprobe fuse; in a container: --device /dev/fuse)"))?;
    let others = if others { ",allow_other" } else { "" };
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{others}",
        device.as_raw_fd(),
        getuid().as_raw(),
        getgid().as_raw(),
    );
    let options = CString::new(options).expect("numbers and words have no zero byte");
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NOATIME;
    let (device, helper) = match mount("hoistway", &folder, "fuse.hoistway", flags, &*options) {
        Ok(()) => (OwnedFd::from(device), None),
        Err(Errno::PERM) => help_mount(&folder, others)?,
        Err(error) => return Err(os(format!("mount on {}", folder.display()))(error)),
    };
    let connection = connection_of(&folder).unwrap_or(0);
    Ok((device, MountPoint { folder, helper, connection }))
}

/// The minor number of the mount, from the table of mounts: a `stat` would wait for the server.
fn connection_of(folder: &Path) -> Option<u32> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let place = escaped(&folder.to_string_lossy());
    let line = table.lines().rev().find(|l| l.split(' ').nth(4) == Some(&place))?;
    line.split(' ').nth(2)?.split_once(':')?.1.parse().ok()
}

/// As the table of mounts writes it.
fn escaped(path: &str) -> String {
    path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// Lets the helper mount; it sends the connection through a socket whose number it finds in its
/// environment.
fn help_mount(folder: &Path, others: &str) -> Result<(OwnedFd, Option<&'static str>), ServeError> {
    let what = || format!("mount on {} without being root", folder.display());
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(os("socketpair"))?;
    // Without the flag to close it on exec: the helper inherits it.
    let theirs = rustix::io::dup(&theirs).map_err(os("dup"))?;
    let options = format!("fsname=hoistway,subtype=hoistway,default_permissions{others}");
    for helper in HELPERS {
        let run = Command::new(helper)
            .args(["-o", &options, "--"])
            .arg(folder)
            .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .output();
        let output = match run {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(os(what()))?,
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(os(what())(io::Error::other(said.trim().to_string())));
        }
        return Ok((receive(&ours).map_err(os(what()))?, Some(helper)));
    }
    let missing = "fusermount3 is not installed (package fuse3)";
    Err(os(what())(io::Error::new(io::ErrorKind::NotFound, missing)))
}

/// Takes a descriptor out of a socket.
fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut beside, flags)?;
    let fd = beside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| io::Error::other("the helper sent no connection"))
}

fn help_unmount(folder: &Path, lazy: bool) -> io::Result<()> {
    for helper in HELPERS {
        let how: &[&str] = if lazy { &["-u", "-z", "--"] } else { &["-u", "--"] };
        match Command::new(helper).args(how).arg(folder).stdin(Stdio::null()).output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
                let busy = said.contains("busy");
                let kind = if busy { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
                return Err(io::Error::new(kind, said));
            }
        }
    }
    Err(Errno::PERM.into())
}

/// Ends a connection by its number, wherever it is mounted: in the namespace of a container, or nowhere any more.
fn abort(connection: u32) -> io::Result<()> {
    let file = format!("{connection}/abort");
    if fs::write(Path::new("/sys/fs/fuse/connections").join(&file), "1").is_ok() {
        return Ok(());
    }
    // Minimal systems do not mount it; a mount that nobody sees will do.
    let control = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&control)?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let control = fsmount(&control, flags, MountAttrFlags::empty())?;
    let open = OFlags::WRONLY | OFlags::CLOEXEC;
    let abort = openat(&control, &file, open, Mode::empty())?;
    rustix::io::write(&abort, b"1")?;
    Ok(())
}

impl MountPoint {
    /// Unmounts; false if somebody uses it.
    pub fn detach(&self) -> io::Result<bool> {
        let result = match self.helper {
            None => unmount(&self.folder, UnmountFlags::NOFOLLOW).map_err(io::Error::from),
            Some(_) => help_unmount(&self.folder, false),
        };
        match result {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            // Somebody was faster.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Cuts the connection, whoever uses it, and takes the mount away.
    pub fn sever(&self) {
        // MNT_FORCE ends the connection: all requests fail, all readers of the device go home.
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        if self.helper.is_none() && unmount(&self.folder, flags).is_ok() {
            return;
        }
        // We may not, or it is not there any more but still used: lazily unmounted by somebody.
        if self.connection > 0 {
            let _ = abort(self.connection);
        }
        if self.helper.is_some() {
            let _ = help_unmount(&self.folder, true);
        }
    }

    /// Who uses it: loop devices and processes, as far as we can see. Never looks into the folder.
    pub fn users(&self) -> Vec<String> {
        let mut users = self.loop_devices();
        users.extend(self.processes());
        if users.len() > NAMED {
            let more = users.len() - NAMED;
            users.truncate(NAMED);
            users.push(format!("{more} more"));
        }
        users
    }

    fn loop_devices(&self) -> Vec<String> {
        let mut users = Vec::new();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let path = entry.path().join("loop/backing_file");
            let Ok(file) = fs::read_to_string(path) else { continue };
            if !Path::new(file.trim_end()).starts_with(&self.folder) {
                continue;
            }
            let device = format!("/dev/{}", entry.file_name().to_string_lossy());
            let mounted = mounts.lines().find(|line| {
                line.split_once(" - ")
                    .is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&device))
            });
            let place = mounted.and_then(|line| line.split(' ').nth(4));
            users.push(match place {
                Some(place) => format!("{device}, mounted on {place}"),
                None => device,
            });
        }
        users
    }

    /// Files, working directories and roots; reading a link does not follow it.
    fn processes(&self) -> Vec<String> {
        let mut users = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let path = entry.path();
            let number = entry.file_name().to_string_lossy().parse::<u32>();
            let Ok(number) = number else { continue };
            let files = fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
            let mut links = files.map(|f| f.path()).chain([path.join("cwd"), path.join("root")]);
            if links.any(|l| fs::read_link(l).is_ok_and(|to| to.starts_with(&self.folder))) {
                let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
                users.push(format!("process {number} ({})", name.trim_end()));
            }
        }
        users
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_cannot_be_mounted_on_are_refused() {
        let base = std::env::temp_dir().join(format!("hoistway-attach-{}", std::process::id()));
        let (full, empty, file) = (base.join("full"), base.join("empty"), base.join("full/file"));
        fs::create_dir_all(&full).unwrap();
        fs::create_dir_all(&empty).unwrap();
        fs::write(&file, "x").unwrap();
        let error = |path: &Path| prepare(path).unwrap_err().to_string();
        assert!(error(&base.join("none")).contains("no such folder"));
        assert!(error(&full).contains("not empty"));
        assert!(error(&file).contains("not a folder"));
        assert!(error(Path::new("/proc")).contains("mounted there already"));
        assert!(error(Path::new("/")).contains("mounted there already"));
        assert_eq!(prepare(&empty).unwrap(), (empty.canonicalize().unwrap(), None));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn names_in_the_table_of_mounts_are_escaped() {
        assert_eq!(escaped("/a b\\c\td"), "/a\\040b\\134c\\011d");
        let proc_ = connection_of(Path::new("/proc"));
        assert!(proc_.is_some(), "/proc is mounted on every Linux");
        assert_eq!(connection_of(Path::new("/no/such/mount")), None);
    }
}
