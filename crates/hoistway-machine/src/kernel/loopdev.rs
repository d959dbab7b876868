//! Loop devices: attaching a file to a fresh one, and taking it away again.
//!
//! A device made here is a new one (`LOOP_CTL_ADD` under a number nobody uses), and detaching removes it
//! (`LOOP_CTL_REMOVE`): a loop device keeps the settings of its queue after it was detached, and the next
//! one to attach a file to it would find them. Only where the kernel refuses to add one is a free device
//! of the machine taken, which then keeps its number.
//!
//! Attaching is one step (`LOOP_CONFIGURE`, Linux 5.8): no reader ever sees the device half made.
//! Detaching checks first that it is the same attachment, by the name of its file and by `diskseq`, the number that the
//! kernel gives to each attachment of the machine (Linux 5.15; before that by the name alone): a device that was
//! detached and attached again, be it to the same file, is left alone. While it is open for that nobody else can do so.

use crate::{MachineError, os};
use rustix::io::Errno;
use std::ffi::c_int;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";
// From linux/loop.h, the interface for programs.
const LOOP_CLR_FD: u64 = 0x4C01;
const LOOP_GET_STATUS64: u64 = 0x4C05;
const LOOP_CONFIGURE: u64 = 0x4C0A;
const LOOP_CTL_ADD: u64 = 0x4C80;
const LOOP_CTL_REMOVE: u64 = 0x4C81;
const LOOP_CTL_GET_FREE: u64 = 0x4C82;
const READ_ONLY: u32 = 1;
const PARTITIONS: u32 = 8;
const DIRECT_IO: u32 = 16;
/// First number that is tried, behind those that machines make at boot and that `losetup -f` hands out.
const FIRST: u32 = 64;
const LAST: u32 = 1023;

#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// How a file is attached.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Bytes of a logical block: 512 to 4096.
    pub block: u32,
    /// Past the page cache of the file, with as many requests under way as the device has tags.
    pub direct: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Look for a partition table.
    pub partitions: bool,
}

impl Default for LoopOptions {
    fn default() -> LoopOptions {
        LoopOptions { block: 512, direct: true, read_only: false, partitions: false }
    }
}

/// An attached loop device. It stays attached until [`detach`](LoopDevice::detach).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// Its number.
    pub number: u32,
    /// The file, as the kernel names it.
    pub backing: PathBuf,
    /// It was made for this, and goes with it.
    pub own: bool,
    /// The kernel's number of this attachment, where it has one.
    pub seq: Option<u64>,
}

/// What became of a device that was to be detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// Nothing is attached to it any more.
    Gone,
    /// Somebody uses it; the kernel detaches it when the last one closes it.
    Later,
    /// It has another file by now, or none: nothing was done.
    NotOurs,
}

impl LoopDevice {
    /// Attaches a file.
    ///
    /// # Errors
    ///
    /// The system's: no rights, no loop driver, no free device.
    pub fn attach(file: &Path, options: LoopOptions) -> Result<LoopDevice, MachineError> {
        LoopDevice::attach_known(file, options, |_| Ok(()))
    }

    /// The same; `before` is told each device that is tried before the file is attached to it.
    ///
    /// # Errors
    ///
    /// The system's, and what `before` answers.
    pub fn attach_known(
        file: &Path,
        options: LoopOptions,
        mut before: impl FnMut(&LoopDevice) -> Result<(), MachineError>,
    ) -> Result<LoopDevice, MachineError> {
        let what = |what: &str| format!("{what} for {}", file.display());
        let backing = OpenOptions::new().read(true).write(!options.read_only).open(file);
        let backing = backing.map_err(os(file.display().to_string()))?;
        let named = file.canonicalize().map_err(os(file.display().to_string()))?;
        let control = control()?;
        // Others attach at the same time; who comes late takes the next number.
        let mut number = FIRST;
        loop {
            let own = match add(&control, number) {
                Ok(()) => true,
                Err(Errno::EXIST) if number < LAST => {
                    number += 1;
                    continue;
                }
                Err(_) => {
                    number = free(&control).map_err(os(what("a free loop device")))?;
                    false
                }
            };
            let mut device = LoopDevice { number, backing: named.clone(), own, seq: None };
            before(&device)?;
            match configure(number, &backing, options) {
                Ok(seq) => {
                    device.seq = seq;
                    return Ok(device);
                }
                Err(error) => {
                    device.remove();
                    match Errno::from_io_error(&error) {
                        Some(Errno::BUSY) if number < LAST => number += 1,
                        _ => {
                            let name = format!("/dev/loop{number}");
                            return Err(os(what(&format!("attach {name}")))(error));
                        }
                    }
                }
            }
        }
    }

    /// One that was attached by an earlier process of ours.
    pub(crate) fn known(number: u32, backing: &Path, seq: Option<u64>) -> LoopDevice {
        LoopDevice { number, backing: backing.into(), own: number >= FIRST, seq }
    }

    /// The device.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/loop{}", self.number))
    }

    /// Its name in /sys/block.
    pub fn name(&self) -> String {
        format!("loop{}", self.number)
    }

    /// Who holds it: file systems mounted from it and devices that lie on it.
    pub fn users(&self) -> Vec<String> {
        users_of(self.number)
    }

    /// Detaches it, and removes it if it was made for this.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn detach(&self) -> Result<Detached, MachineError> {
        let path = self.path();
        let what = || format!("detach {}", path.display());
        {
            let device = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Detached::NotOurs);
                }
                device => device.map_err(os(what()))?,
            };
            if !self.is_attached() {
                return Ok(Detached::NotOurs);
            }
            match ioctl(device.as_raw_fd(), LOOP_CLR_FD, 0) {
                // Somebody was faster.
                Ok(_) | Err(Errno::NXIO) => {}
                Err(error) => return Err(os(what())(error)),
            }
        }
        // The kernel clears it when the last one closes it, which was us unless there are others.
        if !self.is_cleared() {
            return Ok(Detached::Later);
        }
        self.remove();
        Ok(Detached::Gone)
    }

    /// Whether it is attached as it was by us.
    pub(super) fn is_attached(&self) -> bool {
        let seq = diskseq(self.number);
        backing_file(self.number).as_ref() == Some(&self.backing)
            && (self.seq.is_none() || seq.is_none() || self.seq == seq)
    }

    /// Closing may finish a moment after the last `close` (a scan by udev).
    fn is_cleared(&self) -> bool {
        for _ in 0..100 {
            if backing_file(self.number).is_none() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        false
    }

    /// Removes the empty device, if it is ours. Somebody who looks at it just now (udev) delays that.
    fn remove(&self) {
        if !self.own {
            return;
        }
        let Ok(control) = control() else { return };
        for _ in 0..100 {
            match ioctl(control.as_raw_fd(), LOOP_CTL_REMOVE, u64::from(self.number)) {
                Err(Errno::BUSY) => std::thread::sleep(std::time::Duration::from_millis(5)),
                _ => return,
            }
        }
    }
}

/// The file of a loop device, as the kernel names it; `None`: nothing is attached.
pub fn backing_file(number: u32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file")).ok()?;
    let name = text.trim_end_matches('\n');
    // What the kernel adds when the file was deleted is no part of its name.
    Some(PathBuf::from(name.strip_suffix(" (deleted)").unwrap_or(name)))
}

/// Device and inode of the file of a loop device, whatever its name is by now. `None`: nothing is attached, or this user
/// may not ask.
pub(crate) fn backing_inode(number: u32) -> Option<(u64, u64)> {
    let device = File::open(format!("/dev/loop{number}")).ok()?;
    // SAFETY: plain numbers and arrays of them, for all of which zero is a value.
    let mut info: LoopInfo64 = unsafe { zeroed() };
    ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info as u64).ok()?;
    Some((info.device, info.inode))
}

/// Removes what is left of a device of ours that was detached while somebody used it.
pub fn remove_empty(number: u32) {
    let device = LoopDevice { number, backing: PathBuf::new(), own: true, seq: None };
    let there = Path::new("/sys/block").join(device.name()).exists();
    if number >= FIRST && there && backing_file(number).is_none() {
        device.remove();
    }
}

pub(crate) fn users_of(number: u32) -> Vec<String> {
    let device = format!("/dev/loop{number}");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let (place, rest) = line.split_once(" - ")?;
        let source = rest.split(' ').nth(1)?;
        let ours = source == device || source.strip_prefix(&device)?.starts_with('p');
        ours.then(|| place.split(' ').nth(4).map(|at| format!("mounted on {at}")))?
    });
    let mut users: Vec<String> = mounted.collect();
    let holders = fs::read_dir(format!("/sys/block/loop{number}/holders"));
    let holders = holders.into_iter().flatten().flatten();
    users.extend(holders.map(|h| format!("part of {}", h.file_name().to_string_lossy())));
    users
}

fn control() -> Result<File, MachineError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(CONTROL)
        .map_err(os(format!("{CONTROL} (needs root and the loop driver: `modprobe loop`)")))
}

fn add(control: &File, number: u32) -> Result<(), Errno> {
    ioctl(control.as_raw_fd(), LOOP_CTL_ADD, u64::from(number)).map(drop)
}

fn free(control: &File) -> Result<u32, Errno> {
    ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE, 0).map(|n| n as u32)
}

/// The number of what is attached to a device; `None`: the kernel does not count (before Linux 5.15).
pub(super) fn diskseq(number: u32) -> Option<u64> {
    fs::read_to_string(format!("/sys/block/loop{number}/diskseq")).ok()?.trim().parse().ok()
}

/// Attaches, and tells the number of the attachment.
fn configure(number: u32, backing: &File, options: LoopOptions) -> io::Result<Option<u64>> {
    let path = format!("/dev/loop{number}");
    let device = OpenOptions::new().read(true).write(!options.read_only).open(path)?;
    // SAFETY: plain numbers and arrays of them, for all of which zero is a value.
    let mut config: LoopConfig = unsafe { zeroed() };
    config.fd = backing.as_raw_fd() as u32;
    config.block_size = options.block;
    let flag = |on: bool, bit| if on { bit } else { 0 };
    config.info.flags = flag(options.direct, DIRECT_IO)
        | flag(options.read_only, READ_ONLY)
        | flag(options.partitions, PARTITIONS);
    ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config as u64)?;
    Ok(diskseq(number))
}

fn ioctl(fd: RawFd, request: u64, argument: u64) -> Result<c_int, Errno> {
    // SAFETY: the requests of this file take a number, or the address of a `LoopConfig` that lives
    // through the call and is laid out as linux/loop.h says.
    let result = unsafe { libc::ioctl(fd, request as _, argument) };
    if result < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_interface() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
        assert_eq!(std::mem::offset_of!(LoopInfo64, flags), 52);
    }

    #[test]
    fn a_file_is_attached_and_taken_away_and_nothing_is_left() {
        if let Err(error) = control() {
            eprintln!("skipped: {error}");
            return;
        }
        let file = std::env::temp_dir().join(format!("hoistway-loopdev-{}", std::process::id()));
        File::create(&file).unwrap().set_len(8 << 20).unwrap();
        let options = LoopOptions { direct: false, block: 4096, ..LoopOptions::default() };
        let device = LoopDevice::attach(&file, options).unwrap();
        let queue = format!("/sys/block/{}/queue/logical_block_size", device.name());
        assert_eq!(fs::read_to_string(queue).unwrap().trim(), "4096");
        assert_eq!(backing_file(device.number), Some(file.canonicalize().unwrap()));
        let other = LoopDevice { backing: "/somebody/else".into(), ..device.clone() };
        assert_eq!(other.detach().unwrap(), Detached::NotOurs);
        assert_eq!(device.seq, diskseq(device.number));
        if let Some(seq) = device.seq {
            let other = LoopDevice { seq: Some(seq - 1), ..device.clone() };
            assert_eq!(
                other.detach().unwrap(),
                Detached::NotOurs,
                "attached to the same file again"
            );
        }
        assert_eq!(device.detach().unwrap(), Detached::Gone);
        assert_eq!(device.detach().unwrap(), Detached::NotOurs);
        if device.own {
            assert!(!Path::new("/sys/block").join(device.name()).exists());
        }
        fs::remove_file(&file).unwrap();
    }
}
