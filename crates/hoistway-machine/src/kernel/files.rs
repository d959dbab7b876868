//! The files of a job, for real: in a folder of ours, or as places on a device.
//!
//! In a folder each file of the host is a file, of the same size; the file system decides where it lies. It is written
//! once with data that does not compress, and kept as long as the runs go on. Files that loads make and delete
//! themselves begin each run as not existing. I/O past the file system ([`Operation::Block`]) goes to one large sparse
//! file, of which only the places are written that loads name.
//!
//! Files of the folder are reached through its descriptor: whoever owns the folder around it can move ours away and put
//! another, or a link, in its place, at any time of a run.
//!
//! On a device a file is the range that the simulated host gives it: what the page cache, read-ahead and write-back do
//! is done on the device's own mapping. Nothing can be created or deleted there.
//!
//! [`Operation::Block`]: hoistway_sim::host::Operation::Block

use crate::engine::ranges::Ranges;
use crate::{MachineError, os};
use hoistway_files::Dir;
use hoistway_serve::system::Buffer;
use hoistway_sim::host::LaidOut;
use hoistway_sim::rng::stream;
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, fadvise, fallocate};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Where the files of jobs are.
#[derive(Clone, Debug)]
pub enum FileStore {
    /// In a folder that is ours.
    Folder(Folder),
    /// On a block device, which may be written to or not.
    Device {
        /// The device.
        path: PathBuf,
        /// Its data may be lost.
        writable: bool,
    },
}

/// [`FileStore`] as another process is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileStoreAddress {
    /// A folder.
    Folder {
        /// Where it was made, for messages.
        path: PathBuf,
        /// The open folder, wherever it is now.
        open: String,
    },
    /// A block device.
    Device {
        /// The device.
        path: PathBuf,
        /// Its data may be lost.
        writable: bool,
    },
}

/// A folder that is ours, once it is made.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Where it is to be, for messages.
    pub path: PathBuf,
    made: Arc<OnceLock<Dir>>,
}

impl Folder {
    /// One that is still to be made.
    pub fn planned(path: PathBuf) -> Folder {
        Folder { path, made: Arc::default() }
    }

    /// Now it is.
    pub fn open(&self, dir: Dir) {
        self.made.set(dir).expect("a folder is made once");
    }

    fn dir(&self) -> &Dir {
        self.made.get().expect("it is made before there are files in it")
    }
}

/// A file of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAt {
    /// What is opened, for messages; in a folder its last component.
    pub path: PathBuf,
    /// Where the file begins in it.
    pub base: u64,
    /// Its bytes.
    pub bytes: u64,
    /// It is there before the run begins.
    pub exists: bool,
    /// It is the device itself.
    pub raw: bool,
}

impl FileStore {
    /// How another process reaches it while this one lives.
    pub fn encode(&self) -> FileStoreAddress {
        match self {
            FileStore::Folder(folder) => {
                let descriptor = folder.dir().as_fd().as_raw_fd();
                FileStoreAddress::Folder {
                    path: folder.path.clone(),
                    open: format!("/proc/{}/fd/{descriptor}", std::process::id()),
                }
            }
            FileStore::Device { path, writable } => {
                FileStoreAddress::Device { path: path.clone(), writable: *writable }
            }
        }
    }

    /// The reverse, in another process.
    pub fn decode(reach: &FileStoreAddress) -> Result<FileStore, String> {
        match reach {
            FileStoreAddress::Folder { path, open } => {
                let opened = File::open(open).map_err(|e| format!("{}: {e}", path.display()))?;
                let folder = Folder::planned(path.clone());
                folder.open(Dir::from_open(OwnedFd::from(opened), path.clone()));
                Ok(FileStore::Folder(folder))
            }
            FileStoreAddress::Device { path, writable } => {
                Ok(FileStore::Device { path: path.clone(), writable: *writable })
            }
        }
    }

    /// It is a device.
    pub fn is_device(&self) -> bool {
        matches!(self, FileStore::Device { .. })
    }

    /// Loads may write.
    pub fn writable(&self) -> bool {
        !matches!(self, FileStore::Device { writable: false, .. })
    }

    /// Where the files of a layout are, in order of their ids.
    pub fn places(&self, layout: &[LaidOut], capacity: u64) -> Vec<FileAt> {
        let place = |(i, f): (usize, &LaidOut)| {
            let (bytes, exists, raw) = (f.bytes, f.exists, f.raw);
            match self {
                FileStore::Folder(_) if raw => {
                    FileAt { bytes, exists, raw, ..self.block(capacity) }
                }
                FileStore::Folder(folder) => {
                    let name = match exists {
                        true => format!("file{i}-{bytes}"),
                        false => format!("made{i}"),
                    };
                    FileAt { path: folder.path.join(name), base: 0, bytes, exists, raw }
                }
                FileStore::Device { path, .. } => {
                    FileAt { path: path.clone(), base: f.start, bytes, exists, raw }
                }
            }
        };
        layout.iter().enumerate().map(place).collect()
    }

    /// Where I/O past the file system goes.
    pub fn block(&self, capacity: u64) -> FileAt {
        let path = match self {
            FileStore::Folder(folder) => folder.path.join(format!("device-{capacity}")),
            FileStore::Device { path, .. } => path.clone(),
        };
        FileAt { path, base: 0, bytes: capacity, exists: true, raw: true }
    }

    /// Opens a file of it.
    pub fn open(&self, place: &FileAt, direct: bool) -> Result<File, MachineError> {
        let access = if self.writable() { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = if direct { access | OFlags::DIRECT } else { access };
        self.open_with(place, flags).map_err(os(place.path.display().to_string()))
    }

    /// Opens a file for writing; in a folder it is made where it is missing.
    pub fn make(&self, place: &FileAt) -> Result<File, MachineError> {
        let flags = if self.is_device() { OFlags::RDWR } else { OFlags::RDWR | OFlags::CREATE };
        self.open_with(place, flags).map_err(os(place.path.display().to_string()))
    }

    fn open_with(&self, place: &FileAt, flags: OFlags) -> io::Result<File> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
        let opened = match self {
            FileStore::Folder(folder) => {
                let name = place.path.file_name().unwrap_or_default();
                rustix::fs::openat(folder.dir(), name, flags | OFlags::NOFOLLOW, mode)
            }
            FileStore::Device { .. } => rustix::fs::open(&place.path, flags, mode),
        };
        Ok(opened?.into())
    }

    /// Whether a file is there.
    pub fn has(&self, place: &FileAt) -> bool {
        match self {
            FileStore::Folder(folder) => {
                let name = place.path.file_name().unwrap_or_default();
                rustix::fs::statat(folder.dir(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
            }
            FileStore::Device { .. } => place.path.exists(),
        }
    }

    /// Removes a file of a folder.
    pub fn remove(&self, place: &FileAt) -> io::Result<()> {
        let FileStore::Folder(folder) = self else {
            return Err(io::Error::other("there are no files on a device"));
        };
        let name = place.path.file_name().unwrap_or_default();
        Ok(rustix::fs::unlinkat(folder.dir(), name, AtFlags::empty())?)
    }

    /// Writes all that is dirty: of the file system, since syncing thousands of files one by one takes minutes, or of the
    /// device.
    pub fn sync(&self) -> Result<(), MachineError> {
        match self {
            FileStore::Folder(folder) => {
                rustix::fs::syncfs(folder.dir()).map_err(os(folder.path.display().to_string()))
            }
            FileStore::Device { path, .. } => {
                let name = path.display().to_string();
                File::open(path).and_then(|device| device.sync_all()).map_err(os(name))
            }
        }
    }
}

/// What has been written so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Filled {
    /// On the device, or in the file that stands for it.
    ranges: Ranges,
    /// Files.
    files: Vec<PathBuf>,
}

/// What files are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Bytes that do not compress.
    Random,
    /// Zeroes, on a disk that does not tell them from what was never written; on the disk itself there is nothing to
    /// write then.
    Zero,
}

/// Bytes written at a time.
const STEP: usize = 1 << 20;

impl Filled {
    /// Bytes that [`Filled::fill`] would write; from now on they count as written.
    pub fn assume(&mut self, store: &FileStore, places: &[FileAt], blocks: &[(u64, u64)]) -> u64 {
        let before = self.ranges.bytes();
        let mut files = 0;
        for (path, from, to) in wanted(places, blocks, store) {
            match path {
                None => self.ranges.add(from, to),
                Some(path) if self.files.iter().any(|f| f == path) => {}
                Some(path) => {
                    self.files.push(path.into());
                    files += to - from;
                }
            }
        }
        files + self.ranges.bytes() - before
    }

    /// Writes what is missing of the files that exist, and of the places that are reached past the file system.
    /// `watch` is asked now and then; false: it was interrupted, and false is returned.
    pub fn fill(
        &mut self,
        store: &FileStore,
        places: &[FileAt],
        blocks: &[(u64, u64)],
        capacity: u64,
        data: Fill,
        watch: &mut dyn FnMut() -> bool,
    ) -> Result<bool, MachineError> {
        if !store.writable() || (data == Fill::Zero && store.is_device()) {
            return Ok(true);
        }
        let mut wrote = false;
        let rng = (data == Fill::Random).then(|| stream(0, "fill"));
        let mut writer = Writer { buffer: Buffer::zeroed(STEP), rng, watch };
        for (path, from, to) in wanted(places, blocks, store) {
            match path {
                None => {
                    let block = store.block(capacity);
                    let made = filled_later(store, &block)?;
                    for (from, to) in self.ranges.missing(from, to) {
                        if !writer.write(&made, &block.path, from, to)? {
                            return Ok(false);
                        }
                        self.ranges.add(from, to);
                        wrote = true;
                    }
                }
                Some(path) if self.files.iter().any(|f| f == path) => {}
                Some(path) => {
                    let place =
                        FileAt { path: path.into(), base: 0, bytes: to, exists: true, raw: false };
                    let made = filled_later(store, &place)?;
                    // In one piece, if the file system can. Where it cannot allocate, writing does.
                    let _ = fallocate(&made, FallocateFlags::empty(), 0, to);
                    if !writer.write(&made, path, from, to)? {
                        return Ok(false);
                    }
                    self.files.push(path.into());
                    wrote = true;
                }
            }
        }
        if wrote {
            store.sync()?;
        }
        Ok(true)
    }
}

/// What must hold data: ranges of the device (`None`) or files, from a byte to the one behind the last, whole pages.
fn wanted<'a>(
    places: &'a [FileAt],
    blocks: &'a [(u64, u64)],
    store: &'a FileStore,
) -> impl Iterator<Item = (Option<&'a Path>, u64, u64)> {
    let files = places.iter().filter(|p| p.exists && !p.raw).map(move |p| match store {
        FileStore::Folder(_) => (Some(p.path.as_path()), 0, p.bytes),
        FileStore::Device { .. } => (None, p.base, p.base + p.bytes),
    });
    let blocks = blocks.iter().map(|&(start, len)| (None, start, start + len));
    files.chain(blocks).map(|(path, from, to)| (path, from / PAGE * PAGE, page_up(to)))
}

fn page_up(at: u64) -> u64 {
    at.next_multiple_of(PAGE)
}

const PAGE: u64 = 4096;

/// Opens a file for filling; a file of a folder is made. Past the page cache, if the file system can.
fn filled_later(store: &FileStore, place: &FileAt) -> Result<File, MachineError> {
    let name = || place.path.display().to_string();
    let file = store.make(place)?;
    if !store.is_device() && file.metadata().map_err(os(name()))?.len() < place.bytes {
        file.set_len(place.bytes).map_err(os(name()))?;
    }
    Ok(store.open(place, true).unwrap_or(file))
}

struct Writer<'a> {
    buffer: Buffer,
    rng: Option<hoistway_sim::rng::Rng>,
    watch: &'a mut dyn FnMut() -> bool,
}

impl Writer<'_> {
    /// Random bytes, or zeroes; false: interrupted.
    fn write(
        &mut self,
        file: &File,
        path: &Path,
        from: u64,
        to: u64,
    ) -> Result<bool, MachineError> {
        let mut at = from;
        while at < to {
            if !(self.watch)() {
                return Ok(false);
            }
            let piece = &mut self.buffer[..(to - at).min(STEP as u64) as usize];
            if let Some(rng) = &mut self.rng {
                for word in piece.chunks_exact_mut(8) {
                    word.copy_from_slice(&rng.bits().to_ne_bytes());
                }
            }
            file.write_all_at(piece, at).map_err(os(path.display().to_string()))?;
            at += piece.len() as u64;
        }
        Ok(true)
    }
}

/// Drops what the page cache holds of a file and is clean.
pub(super) fn drop_cached(file: &File) {
    // Advice cannot fail on a file of a disk; on others there is nothing to drop.
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// Before a run: what earlier ones have made is gone, what they left dirty is written, and nothing is cached.
pub(super) fn settle(
    store: &FileStore,
    places: &[FileAt],
    capacity: u64,
) -> Result<(), MachineError> {
    let block = store.block(capacity);
    let device = store.is_device();
    if store.writable() {
        store.sync()?;
    }
    for place in if device { std::slice::from_ref(&block) } else { places } {
        let name = || place.path.display().to_string();
        if !device && !place.exists && store.has(place) {
            store.remove(place).map_err(os(name()))?;
        }
        if !store.has(place) {
            continue;
        }
        drop_cached(&store.open(place, false)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(start: u64, bytes: u64, exists: bool) -> LaidOut {
        LaidOut { start, bytes, exists, raw: false, in_pieces: false }
    }

    fn opened(dir: &Path) -> FileStore {
        let folder = Folder::planned(dir.into());
        folder.open(Dir::open(dir).unwrap());
        FileStore::Folder(folder)
    }

    #[test]
    fn a_folder_that_was_moved_is_still_the_one() {
        let dir = std::env::temp_dir().join(format!("hoistway-moved-{}", std::process::id()));
        let (own, moved, other) = (dir.join("own"), dir.join("moved"), dir.join("other"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        let victim = dir.join("victim");
        std::fs::write(&victim, "precious").unwrap();
        let store = opened(&own);
        let places = store.places(&[laid_out(0, 8192, true), laid_out(0, 0, false)], 1 << 24);
        // Whoever owns the folder around ours puts links where our files would be.
        std::fs::rename(&own, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &own).unwrap();
        for place in &places {
            let link = other.join(place.path.file_name().unwrap());
            std::os::unix::fs::symlink(&victim, link).unwrap();
        }
        let worker = FileStore::decode(&store.encode()).unwrap();
        let mut filled = Filled::default();
        assert!(filled.fill(&store, &places, &[], 1 << 24, Fill::Random, &mut || true).unwrap());
        worker.make(&places[1]).unwrap().write_all_at(b"x", 0).unwrap();
        worker.open(&places[0], false).unwrap().write_all_at(b"y", 0).unwrap();
        settle(&store, &places, 1 << 24).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 2, "the links are as they were");
        let left: Vec<_> = std::fs::read_dir(&moved).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].metadata().unwrap().len(), 8192);
        // Nor is a link followed that is in our folder.
        std::os::unix::fs::symlink(&victim, moved.join("made1")).unwrap();
        assert!(worker.make(&places[1]).is_err() && worker.open(&places[1], false).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn files_of_a_folder_are_files_and_of_a_device_ranges() {
        let layout = [laid_out(1 << 20, 8192, true), laid_out(2 << 20, 4096, false)];
        let planned = FileStore::Folder(Folder::planned("/x".into()));
        let folder = planned.places(&layout, 1 << 30);
        assert_eq!((folder[0].path.to_str(), folder[0].base), (Some("/x/file0-8192"), 0));
        assert_eq!((folder[1].path.to_str(), folder[1].exists), (Some("/x/made1"), false));
        let device = FileStore::Device { path: "/dev/x".into(), writable: false };
        let places = device.places(&layout, 1 << 30);
        assert_eq!((places[1].path.to_str(), places[1].base), (Some("/dev/x"), 2 << 20));
        let mut filled = Filled::default();
        assert_eq!(filled.assume(&device, &places, &[]), 8192);
        let overlapping = [((1 << 20) + 4096, 8192), (5, 1)];
        assert_eq!(filled.assume(&device, &places, &overlapping), 4096 + 4096);
        assert_eq!(filled.assume(&planned, &folder, &[]), 8192);
    }

    #[test]
    fn files_are_written_once_with_data_that_does_not_repeat() {
        let dir = std::env::temp_dir().join(format!("hoistway-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let store = opened(&dir);
        let layout = [laid_out(0, 1 << 20, true), laid_out(1 << 20, 4096, false)];
        let places = store.places(&layout, 1 << 24);
        let mut filled = Filled::default();
        let mut fill = |watch: &mut dyn FnMut() -> bool| {
            let blocks = [(8192, 4096)];
            filled.fill(&store, &places, &blocks, 1 << 24, Fill::Random, watch).unwrap()
        };
        assert!(!fill(&mut || false));
        assert!(fill(&mut || true));
        let mut asked = 0;
        assert!(fill(&mut || {
            asked += 1;
            true
        }));
        assert_eq!(asked, 0, "nothing is written twice");
        let bytes = std::fs::read(&places[0].path).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
        let mut pages: Vec<&[u8]> = bytes.chunks(4096).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), 256);
        let block = std::fs::read(store.block(1 << 24).path).unwrap();
        assert!(block.len() == 1 << 24 && block[8192] != block[8193] || block[8194] != block[8195]);
        std::fs::write(&places[1].path, b"x").unwrap();
        settle(&store, &places, 1 << 24).unwrap();
        assert!(!places[1].path.exists() && places[0].path.exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
