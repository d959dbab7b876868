//! Opening scratch files, files and devices, and refusing those that must not be touched.

use super::pattern::{MIXED, ZERO, check};
use super::storage::Disk;
use super::{device, users};
use crate::kernel;
use crate::{MachineError, os};
use hoistway_files::{Dir, Identity, Place};
use hoistway_serve::storage::{FileOptions, rotational};
use hoistway_sim::drive::DriveFile;
use rustix::fs::{FlockOperation, OFlags, SeekFrom, flock, fstat, fstatvfs, seek};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of a scratch file if nothing else is said: above it files have their usual size
/// (experiments.md 3.1).
const SCRATCH: u64 = 16 << 30;
/// Smallest disk: the host's journal alone takes 128 MiB behind its middle.
const LEAST: u64 = 300 << 20;
/// Sectors looked at in a file that might be ours.
const SAMPLES: usize = 1000;

/// A file that nobody else sees and of which nothing is left, whatever happens.
pub(super) fn scratch(dir: &Path, size: Option<u64>) -> Result<Disk, MachineError> {
    let name = dir.display().to_string();
    let size = size.unwrap_or(SCRATCH) / 4096 * 4096;
    if size < LEAST {
        let what = format!("--size: {size} bytes; choose at least {} MB", LEAST / 1_000_000);
        return Err(MachineError::Refused(what));
    }
    let folder = std::fs::metadata(dir).is_ok_and(|m| m.is_dir());
    if !folder {
        return Err(MachineError::Refused(format!("{name}: is not a directory")));
    }
    let place =
        Dir::open(dir)?.place(format!("{}scratch-{}", kernel::SCRATCH, std::process::id()))?;
    let file = place.create(0o600)?;
    // From here on it is gone when the last descriptor is closed.
    place.remove_made(Identity::of(&file).map_err(os(name.clone()))?)?;
    file.set_len(size).map_err(os(name.clone()))?;
    let mut disk = of_file(file, name, size)?;
    disk.blank = true;
    Ok(disk)
}

/// A file that exists: empty, left by an earlier run, or given up by its owner.
pub(super) fn file(path: &Path, destroy: Option<&Path>) -> Result<Disk, MachineError> {
    let name = path.display().to_string();
    let meta = std::fs::metadata(path).map_err(|e| {
        MachineError::Refused(format!("--file {name}: {e}; make one with `truncate -s 16G {name}`"))
    })?;
    if !meta.is_file() {
        let what = format!("--file {name}: is not a file; devices are named by --device");
        return Err(MachineError::Refused(what));
    }
    let size = meta.len() / 4096 * 4096;
    if size < LEAST {
        return Err(MachineError::Refused(format!(
            "--file {name}: {size} bytes; make it at least {} MB with `truncate -s SIZE`",
            LEAST / 1_000_000
        )));
    }
    let file = open_named(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            return Err(MachineError::Refused(format!(
                "--file {name}: another program has locked it"
            )));
        }
        other => other.map_err(os(name.clone()))?,
    }
    let users = users::of(&file).map_err(os(name.clone()))?;
    if !users.is_empty() {
        return Err(MachineError::Refused(format!(
            "--file {name}: is in use by {}; nothing was touched",
            users.join("; ")
        )));
    }
    let (leave, empty) =
        (allowed(path, destroy)?, is_empty(&file, size).map_err(os(name.clone()))?);
    if !leave && !empty && !is_ours(&file, size).map_err(os(name.clone()))? {
        return Err(MachineError::Refused(format!(
            "--file {name}: holds data that no run has written; name it once more with \
             --yes-destroy-data {name} if all of it may be lost"
        )));
    }
    let mut disk = of_file(file, name, size)?;
    disk.blank = empty;
    Ok(disk)
}

/// Opens a file for reading and writing. Who named it may have named a link; root follows none that others can put there.
fn open_named(path: &Path) -> Result<File, MachineError> {
    let place = Place::of(path)?;
    let is_link = place.what()?.is_some_and(|(is, _)| is == "a link");
    if !is_link || (place.dir().is_shared()? && rustix::process::geteuid().is_root()) {
        return Ok(place.open_writable()?);
    }
    let path = std::fs::canonicalize(path).map_err(os(path.display().to_string()))?;
    Ok(Place::of(&path)?.open_writable()?)
}

/// A block device that nobody uses.
pub(super) fn device(path: &Path, destroy: Option<&Path>) -> Result<Disk, MachineError> {
    let name = path.display().to_string();
    let path = &kernel::settled(path)?;
    let leave = allowed(path, destroy)?;
    let identity = device::identify(path)?;
    device::check_unused(&identity, &name)?;
    let mut open = OpenOptions::new();
    open.read(true).write(leave);
    open.custom_flags((OFlags::EXCL | OFlags::DIRECT).bits() as i32);
    let file = open.open(path).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::BUSY) => MachineError::Refused(format!("--device {name}: is in use")),
        _ => os(name.clone())(e),
    })?;
    let size = seek(&file, SeekFrom::End(0)).map_err(os(name.clone()))? / 4096 * 4096;
    if size < LEAST {
        let what = format!("--device {name}: {size} bytes; at least {} MB", LEAST / 1_000_000);
        return Err(MachineError::Refused(what));
    }
    let options = FileOptions { direct: true, read_only: !leave, ..FileOptions::default() };
    let drive = drive_of(&identity.id, &identity.title, size, identity.sector, identity.rotational);
    Ok(Disk {
        path: path.clone(),
        name,
        file,
        _lock: None,
        options,
        drive,
        blank: false,
        free: None,
        warning: None,
    })
}

/// Was this very thing given up? Another one is a mistake that must not pass.
pub(crate) fn allowed(path: &Path, destroy: Option<&Path>) -> Result<bool, MachineError> {
    let Some(destroy) = destroy else { return Ok(false) };
    let same = match (std::fs::canonicalize(path), std::fs::canonicalize(destroy)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if same {
        return Ok(true);
    }
    let (destroy, path) = (destroy.display(), path.display());
    let what =
        format!("--yes-destroy-data {destroy} is not the target, {path}; nothing was touched");
    Err(MachineError::Refused(what))
}

/// A regular file as a disk, past the page cache if its file system allows it.
fn of_file(file: File, name: String, size: u64) -> Result<Disk, MachineError> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let direct = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(&path);
    let warning = match &direct {
        Ok(_) => None,
        Err(e) => Some(format!(
            "{name}: no direct I/O here ({e}): requests go through the kernel's own page cache, and what \
             is measured is not the storage alone"
        )),
    };
    let stat = fstat(&file).map_err(os(name.clone()))?;
    let space = fstatvfs(&file).map_err(os(name.clone()))?;
    let held = stat.st_blocks as u64 * 512;
    let free = Some(space.f_bavail.saturating_mul(space.f_frsize) + held);
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let last = Path::new(&name).file_name().map_or(name.as_str().into(), |n| n.to_string_lossy());
    let drive = drive_of(&last, &name, size, 512, rotational(major, minor));
    let options = FileOptions { direct: direct.is_ok(), ..FileOptions::default() };
    // A direct descriptor also writes the layout past the page cache; the other one holds the lock.
    let (file, lock) = match direct {
        Ok(direct) => (direct, Some(file)),
        Err(_) => (file, None),
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok(Disk { path, name, file, _lock: lock, options, drive, blank: false, free, warning })
}

/// Nothing is stored in it.
fn is_empty(file: &File, size: u64) -> io::Result<bool> {
    match seek(file, SeekFrom::Data(0)) {
        Ok(at) => Ok(at >= size),
        Err(Errno::NXIO) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Wherever something is stored, it is what a run has written: sectors spread over all of it.
fn is_ours(file: &File, size: u64) -> io::Result<bool> {
    let (mut at, mut sector) = (0, [0u8; 512]);
    let step = (size / SAMPLES as u64 / 512).max(1) * 512;
    while at < size {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(at) => at / 512 * 512,
            Err(Errno::NXIO) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        if at >= size {
            break;
        }
        file.read_exact_at(&mut sector, at)?;
        if check(&sector, at, &[MIXED, ZERO]).is_err() {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

/// The storage as experiments see a drive. Its coefficients for io.cost are those of the kernel's built-in
/// class for such devices; nothing was measured.
pub(crate) fn drive_of(
    id: &str,
    title: &str,
    size: u64,
    sector: u64,
    rotational: bool,
) -> DriveFile {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let id: String = id.chars().map(clean).collect::<String>().to_lowercase();
    let id = id.trim_matches(['-', '.']);
    let id = if id.is_empty() { "target" } else { id };
    let cost = if rotational { HDD } else { SSD };
    let [rbps, rseqiops, rrandiops, wbps, wseqiops, wrandiops] = cost;
    let title: String =
        title.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect();
    let text = format!(
        "schema = 1\nname = \"{title}\"\nmodel = \"bucket\"\n\
         [identity]\ncapacity_bytes = {size}\nsector_bytes = {sector}\nrotational = {rotational}\n\
         year = 0\n\
         [host]\nbus = \"virtual\"\nqueue_depth = 128\nhw_queues = 1\nmax_request_kib = 1280\n\
         flush_nonqueued = false\nfua = true\ncopy_ns_per_kib = 0\n\
         [link]\nrate_mb_s = 1000000\nduplex = \"full\"\n\
         [bucket]\niops = 0\niops_burst = 1\nbytes_mb_s = 0\nbytes_burst_kib = 1\nread_us = 0\n\
         write_us = 0\nflush_us = 0\nsigma = 0\nio_unit_kib = 1\nmerge_sequential = false\nparallel = 1\n\
         [baseline]\nfile_start_frac = 0\nreadahead_window_kib = 256\nfile_mib = 500\n\
         [iocost]\nrbps = {rbps}\nrseqiops = {rseqiops}\nrrandiops = {rrandiops}\nwbps = {wbps}\n\
         wseqiops = {wseqiops}\nwrandiops = {wrandiops}\n"
    );
    let mut drive = DriveFile::parse(&format!("{id}.toml"), &text)
        .expect("the text has every key with a value in range");
    drive.model = "storage".into();
    // What the manifest shows: only what is true of the storage.
    drive.table.remove("bucket");
    drive.table.remove("link");
    drive
}

/// Classes `hdd` and `ssd_dfl` of the kernel (specs/io-cost.md 4.4): rbps, rseqiops, rrandiops, and the same
/// of writes.
const HDD: [u64; 6] = [174_019_176, 41_708, 370, 178_075_866, 42_705, 378];
const SSD: [u64; 6] = [488_636_629, 8_932, 8_518, 427_891_549, 28_755, 21_940];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_a_drive_to_experiments() {
        let drive = drive_of("My Disk \"1\"", "a \"b\"\n\\c", 1 << 40, 4096, true);
        assert_eq!((drive.id.as_str(), drive.name.as_str()), ("my-disk--1", "a bc"));
        assert_eq!((drive.identity.capacity_bytes, drive.identity.sector_bytes), (1 << 40, 4096));
        assert!(drive.identity.rotational && drive.iocost.rrandiops == 370);
        assert!(!drive.table.contains_key("bucket"));
        assert_eq!(drive_of("///", "x", 1 << 30, 512, false).id, "target");
    }
}
