//! Files of a process, open: buffered, past the cache, and as a range that is synced.

use super::super::files::{FileAt, FileStore};
use hoistway_sim::host::Advice;
use rustix::fs::{Advice as FileAdvice, fadvise};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// A file that a process has open.
#[derive(Debug)]
pub struct Open {
    /// Its number at the host.
    pub id: usize,
    /// Its descriptor, with read-ahead of its own.
    pub file: File,
    /// Where it begins in the descriptor.
    pub base: u64,
}

/// All files of a job, as one process uses them.
#[derive(Debug)]
pub struct Descriptors {
    store: FileStore,
    places: Vec<FileAt>,
    block: FileAt,
    /// Past the cache, by number.
    direct: Vec<Option<File>>,
    block_direct: Option<File>,
    /// Parts of a device that are synced as files, and what is asked for its cached pages.
    mapped: Vec<Option<Mapping>>,
}

impl Descriptors {
    pub fn new(store: FileStore, places: Vec<FileAt>, capacity: u64) -> Descriptors {
        let block = store.block(capacity);
        let direct = places.iter().map(|_| None).collect();
        let mapped = places.iter().map(|_| None).collect();
        Descriptors { store, places, block, direct, block_direct: None, mapped }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Opens a file afresh.
    pub fn open(&self, id: usize, advice: Advice) -> Result<Open, String> {
        let place = &self.places[id];
        let file = self.store.open(place, false).map_err(|e| e.to_string())?;
        let advice = match advice {
            Advice::Normal => FileAdvice::Normal,
            Advice::Sequential => FileAdvice::Sequential,
            Advice::Random => FileAdvice::Random,
        };
        fadvise(&file, 0, None, advice).map_err(|e| self.failed(id, "posix_fadvise", e))?;
        Ok(Open { id, file, base: place.base })
    }

    /// Its descriptor past the cache.
    pub fn direct(&mut self, id: usize) -> Result<&File, String> {
        let (slot, place) = (&mut self.direct[id], &self.places[id]);
        opened(slot, &self.store, place)
    }

    /// Where I/O past the file system goes.
    pub fn block(&mut self) -> Result<&File, String> {
        opened(&mut self.block_direct, &self.store, &self.block)
    }

    /// Starts write-back of the dirty pages of a part and drops the clean ones; `None`: of all of it.
    pub fn dont_need(&self, id: usize, part: Option<(u64, u64)>) -> Result<(), String> {
        let place = &self.places[id];
        if !self.store.has(place) {
            return Ok(());
        }
        let file = self.store.open(place, false).map_err(|e| e.to_string())?;
        let (offset, len) = part.unwrap_or((0, place.bytes));
        fadvise(&file, place.base + offset, NonZeroU64::new(len), FileAdvice::DontNeed)
            .map_err(|e| self.failed(id, "posix_fadvise", e))
    }

    /// fsync (`full`) or fdatasync of a file; on a device, of its range.
    /// `file`: a descriptor of it, if the process has one.
    pub fn sync(&mut self, id: usize, full: bool, file: Option<&File>) -> Result<(), String> {
        if self.store.is_device() {
            let mapping = self.mapping(id)?;
            return mapping.sync().map_err(|e| self.failed(id, "msync", e));
        }
        let sync = |file: &File| if full { file.sync_all() } else { file.sync_data() };
        let synced = match file {
            Some(file) => sync(file),
            None => sync(&self.store.open(&self.places[id], false).map_err(|e| e.to_string())?),
        };
        synced.map_err(|e| self.failed(id, "fsync", e))
    }

    /// Writes what is dirty of a file, as a sync of it does, and waits; without a flush of the drive's cache.
    pub fn write_out(&self, id: usize, file: Option<&File>) -> Result<(), String> {
        let place = &self.places[id];
        let opened;
        let file = match file {
            Some(file) => file,
            None => {
                opened = self.store.open(place, false).map_err(|e| e.to_string())?;
                &opened
            }
        };
        // All three together: the writes are those of a sync, not of write-back.
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // A file may have grown; 0: to its end.
        let len = if self.store.is_device() { place.bytes } else { 0 };
        // SAFETY: it takes no memory, and the descriptor is open.
        let done = unsafe {
            libc::sync_file_range(file.as_raw_fd(), place.base as i64, len as i64, flags)
        };
        match done {
            0 => Ok(()),
            _ => Err(self.failed(id, "sync_file_range", std::io::Error::last_os_error())),
        }
    }

    /// How many bytes of a file, from `offset` on and at most `len`, are in the page cache without a gap. Asking starts
    /// no read-ahead.
    pub fn cached(&mut self, id: usize, offset: u64, len: u64) -> Result<u64, String> {
        let mapping = self.mapping(id)?;
        mapping.cached(offset, len).map_err(|e| self.failed(id, "mincore", e))
    }

    /// A file as memory, whole.
    fn mapping(&mut self, id: usize) -> Result<&Mapping, String> {
        if self.mapped[id].is_none() {
            let mapping = Mapping::of(&self.store, &self.places[id]);
            self.mapped[id] = Some(mapping.map_err(|e| self.failed(id, "mmap", e))?);
        }
        Ok(self.mapped[id].as_ref().expect("it was just made"))
    }

    /// sync() of the file system, or of the device.
    pub fn sync_all(&self) -> Result<(), String> {
        self.store.sync().map_err(|e| e.to_string())
    }

    /// Makes a file, or empties it.
    pub fn create(&mut self, id: usize) -> Result<(), String> {
        let place = self.on_folder(id, "create")?;
        let made = self.store.make(place).map_err(|e| e.to_string())?;
        made.set_len(0).map_err(|e| self.failed(id, "create", e))
    }

    /// Deletes it.
    pub fn unlink(&mut self, id: usize) -> Result<(), String> {
        let place = self.on_folder(id, "unlink")?;
        self.store.remove(place).map_err(|e| self.failed(id, "unlink", e))?;
        self.direct[id] = None;
        self.mapped[id] = None;
        Ok(())
    }

    fn on_folder(&self, id: usize, what: &str) -> Result<&FileAt, String> {
        match self.store {
            FileStore::Folder(_) => Ok(&self.places[id]),
            FileStore::Device { .. } => Err(format!("{what}: there are no files on a device")),
        }
    }

    fn failed(&self, id: usize, what: &str, error: impl std::fmt::Display) -> String {
        format!("{}: {what}: {error}", self.places[id].path.display())
    }
}

/// What a call on a file that is open says when it fails. The name is the kernel's, so that it is true of a file that was
/// moved or removed meanwhile, too.
pub fn call_failed(
    file: &impl AsRawFd,
    what: &str,
    len: u64,
    at: u64,
    error: &std::io::Error,
) -> String {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let name = name.map_or_else(|_| "the storage".into(), |path| path.display().to_string());
    format!("{name}: {what} of {len} bytes at {at}: {error}")
}

fn opened<'a>(
    slot: &'a mut Option<File>,
    store: &FileStore,
    place: &FileAt,
) -> Result<&'a File, String> {
    if slot.is_none() {
        *slot = Some(store.open(place, true).map_err(|e| format!("{e} (direct I/O)"))?);
    }
    Ok(slot.as_ref().expect("it was just opened"))
}

const PAGE: u64 = 4096;

/// A range of a device, or a file. fsync of a device writes all that is dirty of it; msync of a mapping writes the range and then
/// flushes the drive's cache, which is what fdatasync of a file does.
#[derive(Debug)]
struct Mapping {
    memory: NonNull<std::ffi::c_void>,
    len: usize,
}

// SAFETY: the memory is never read or written through the mapping.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(store: &FileStore, place: &FileAt) -> Result<Mapping, String> {
        let file = store.open(place, false).map_err(|e| e.to_string())?;
        let (len, flags) = (place.bytes as usize, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice; nobody reads through it.
        let memory = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, file.as_fd(), place.base)
        };
        let memory = memory.map_err(|e| e.to_string())?;
        Ok(Mapping { memory: NonNull::new(memory).expect("mmap returns no null"), len })
    }

    /// Bytes from `offset` on, at most `len`, whose pages are in the cache.
    fn cached(&self, offset: u64, len: u64) -> std::io::Result<u64> {
        let from = offset / PAGE * PAGE;
        let to = (offset + len).min(self.len as u64);
        if from >= to {
            return Ok(0);
        }
        let mut there = vec![0_u8; (to - from).div_ceil(PAGE) as usize];
        // SAFETY: the range lies within the mapping, and there is a byte for each of its pages.
        let done = unsafe {
            let at = self.memory.as_ptr().cast::<u8>().add(from as usize);
            libc::mincore(at.cast(), (to - from) as usize, there.as_mut_ptr())
        };
        if done != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let pages = there.iter().take_while(|page| **page & 1 != 0).count() as u64;
        Ok((from + pages * PAGE).min(to).saturating_sub(offset))
    }

    fn sync(&self) -> rustix::io::Result<()> {
        // SAFETY: the mapping is ours and lives.
        unsafe { msync(self.memory.as_ptr(), self.len, MsyncFlags::SYNC) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length; a failure leaves address space taken.
        let _ = unsafe { munmap(self.memory.as_ptr(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::files::Folder;
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_was_just_written_is_cached_up_to_the_end_of_the_file() {
        let name = format!("hoistway-cached-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        file.unwrap().write_all_at(&vec![1; 3 * 4096 + 100], 0).unwrap();
        let bytes = 3 * 4096 + 100;
        let place = FileAt { path: path.clone(), base: 0, bytes, exists: true, raw: false };
        let folder = Folder::planned(std::env::temp_dir());
        folder.open(hoistway_files::Dir::open(&std::env::temp_dir()).unwrap());
        let store = FileStore::Folder(folder);
        let mut files = Descriptors::new(store, vec![place], 1 << 30);
        assert_eq!(files.cached(0, 0, 4096), Ok(4096));
        assert_eq!(files.cached(0, 5000, 1 << 20), Ok(bytes - 5000));
        assert_eq!(files.cached(0, 1 << 20, 4096), Ok(0));
        std::fs::remove_file(path).unwrap();
    }
}
