//! Files and block devices: how they are opened, and what is known about them.
//!
//! Requests go through io_uring where the kernel lets us, else through a pool of threads; which way was
//! taken is part of the facts, and a fallback is a warning.

use super::{
    Backend, Facts, Opened, Target, TargetError, TargetKey, TargetKind, threads::Threads,
    uring::Uring,
};
use crate::error::{ServeError, os};
use hoistway::{Device, Sectors};
use hoistway_files::{Place, PlaceError};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, SeekFrom, StatxFlags, fallocate, ioctl_blksszget, seek,
    statx,
};
use std::fs::File;
use std::path::Path;

/// Files and block devices in the registry.
pub(super) static TARGET: TargetKind = TargetKind {
    name: "file",
    syntax: "file:PATH",
    summary: "a file or block device, by io_uring where the kernel allows it, else by threads",
    keys: &[
        TargetKey { name: "direct", value: "", help: "bypass the page cache" },
        TargetKey { name: "way", value: "io_uring|threads", help: "how requests reach the kernel" },
    ],
    parse: |text| {
        let way = text.key("way").map_or(Ok(Way::Best), Way::named)?;
        let options =
            FileOptions { direct: text.key("direct").is_some(), read_only: text.read_only, way };
        Ok(Target::File { path: text.rest.into(), options })
    },
};

/// How a file or block device is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Past the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Open for reading only.
    pub read_only: bool,
    /// How requests reach the kernel.
    pub way: Way,
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// io_uring; threads, with a warning, where the kernel forbids it.
    #[default]
    Best,
    /// io_uring or an error.
    IoUring,
    /// A pool of threads.
    Threads,
}

/// The ways that can be asked for, by name.
static WAYS: &[(&str, Way)] = &[("io_uring", Way::IoUring), ("threads", Way::Threads)];

impl Way {
    fn named(name: &str) -> Result<Way, TargetError> {
        let known = WAYS.iter().find(|(known, _)| *known == name).map(|(_, way)| *way);
        known.ok_or_else(|| {
            let names: Vec<_> = WAYS.iter().map(|(name, _)| *name).collect();
            TargetError::BadValue { key: "way", value: name.into(), wanted: names.join(" or ") }
        })
    }
}

/// Commands under way at once (chosen: what SATA and virtual disks take, times four).
pub(super) const DEPTH: u32 = 128;

/// Opens a file or block device.
///
/// # Errors
///
/// When it cannot be had, is in use, or has no size.
pub fn open(path: &Path, options: &FileOptions) -> Result<Opened, ServeError> {
    let file = open_file(path, options)?;
    let shape = FileShape::of(&file, path, options)?;
    let (backend, reach, warning) = backend(file, options.way, shape.block_device)?;
    let mut device = Device::new(Sectors(shape.size / 512), DEPTH);
    device.rotational = shape.rotational;
    // The kernel's own cache counts as a volatile cache: a flush is an fdatasync, forced unit access
    // a write with RWF_DSYNC.
    device.write_cache = true;
    device.fua = true;
    if shape.discard {
        device.max_discard_sectors = Sectors(1 << 22);
        device.discard_granularity = Sectors(u64::from(shape.block).max(4096) / 512);
    }
    let cached = if options.direct { "direct" } else { "buffered" };
    let facts = Facts {
        size: shape.size,
        block: shape.block,
        read_only: options.read_only,
        discard: shape.discard,
        // A block device may not be able to punch a hole; it can always write zeroes.
        discard_zeroes: shape.discard && !shape.block_device,
        rotational: shape.rotational,
        page_cache: !options.direct,
        persistent: true,
        summary: format!("{}, {cached}, {reach}", path.display()),
        warning: join(shape.warning, warning),
    };
    Ok(Opened { backend, device, facts })
}

fn open_file(path: &Path, options: &FileOptions) -> Result<File, ServeError> {
    let how = match (options.direct, options.read_only) {
        (true, true) => " (direct, read-only)",
        (true, false) => " (direct)",
        (false, true) => " (read-only)",
        (false, false) => "",
    };
    // Whoever could exchange a link on the way could let clients write to any file.
    let opened = Place::open_storage(path, !options.read_only, options.direct);
    opened.map_err(|error| match error {
        PlaceError::Io { error, .. } => {
            // A name that is mistyped is more frequent than a disk that is to be made.
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let hint =
                if missing { ", which must exist (`truncate -s 8G FILE` makes one)" } else { "" };
            os(format!("open {}{how}{hint}", path.display()))(error)
        }
        other => other.into(),
    })
}

pub(super) type Built = (Box<dyn Backend>, &'static str, Option<String>);

/// The backend of an open file, how it is reached, and a warning if that is the slower way.
pub(super) fn backend(file: File, way: Way, block_device: bool) -> Result<Built, ServeError> {
    let threads = |file| -> Result<Box<dyn Backend>, ServeError> {
        Ok(Box::new(Threads::new(file, block_device).map_err(os("thread pool"))?))
    };
    if way == Way::Threads {
        return Ok((threads(file)?, "thread pool", None));
    }
    match Uring::new(file, DEPTH, block_device) {
        Ok(uring) => Ok((Box::new(uring), "io_uring", None)),
        Err((_, error)) if way == Way::IoUring => Err(os("io_uring")(error)),
        Err((file, error)) => {
            let warning = format!(
                "io_uring is not available ({error}; kernel.io_uring_disabled?): a pool of threads \
                 is used, which is slower"
            );
            Ok((threads(file)?, "thread pool", Some(warning)))
        }
    }
}

/// What the file is.
#[derive(Debug)]
struct FileShape {
    size: u64,
    block: u32,
    block_device: bool,
    rotational: bool,
    discard: bool,
    warning: Option<String>,
}

impl FileShape {
    fn of(file: &File, path: &Path, options: &FileOptions) -> Result<FileShape, ServeError> {
        let name = || path.display().to_string();
        let mask = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
        let stat = statx(file, "", AtFlags::EMPTY_PATH, mask).map_err(os(name()))?;
        let block_device = match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            _ => return Err(ServeError::NotADisk(path.into())),
        };
        let mut block = 512;
        if block_device {
            block = ioctl_blksszget(file).map_err(os(name()))?.max(512);
        } else if options.direct {
            block = stat.stx_dio_offset_align.max(512);
        }
        let bytes = seek(file, SeekFrom::End(0)).map_err(os(name()))?;
        let size = bytes / u64::from(block) * u64::from(block);
        if size == 0 {
            return Err(ServeError::NotADisk(path.into()));
        }
        let warning = (size != bytes).then(|| {
            let rest = bytes - size;
            format!(
                "{}: the last {rest} of {bytes} bytes are not served (blocks of {block})",
                name()
            )
        });
        Ok(FileShape {
            size,
            block,
            block_device,
            rotational: block_device && rotational(stat.stx_rdev_major, stat.stx_rdev_minor),
            discard: !options.read_only && (block_device || punches(file, bytes)),
            warning,
        })
    }
}

/// A hole behind the end of a file is allowed where holes are, and changes nothing.
pub(super) fn punches(file: &File, end: u64) -> bool {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, mode, end.next_multiple_of(4096), 4096).is_ok()
}

/// Of the disk itself, or of the disk a partition lies on.
pub fn rotational(major: u32, minor: u32) -> bool {
    let folder = format!("/sys/dev/block/{major}:{minor}");
    let paths = ["queue/rotational", "../queue/rotational"];
    let text = paths.iter().find_map(|p| std::fs::read_to_string(format!("{folder}/{p}")).ok());
    text.is_some_and(|t| t.trim() == "1")
}

pub(super) fn join(a: Option<String>, b: Option<String>) -> Option<String> {
    match (a, b) {
        (Some(a), Some(b)) => Some(format!("{a}; {b}")),
        (a, b) => a.or(b),
    }
}
