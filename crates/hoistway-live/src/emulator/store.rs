//! The data of an emulated drive: sparse memory with a limit, or a sparse file.

use super::stripes::Stripes;
use crate::error::{LiveError, os};
use hoistway::Op;
use hoistway_sim::drive::Command;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the data is. Threads share it.
#[derive(Debug)]
pub(super) enum Store {
    Memory(Stripes),
    /// Zero where nothing was written, as sparse files are.
    File(File),
}

impl Store {
    pub fn memory(size: u64, limit: u64) -> Result<Store, LiveError> {
        let memory = Stripes::new(size, limit);
        Ok(Store::Memory(memory.map_err(os("address space for the drive's data"))?))
    }

    /// A file that is made where there is none, and gets the drive's size.
    pub fn file(path: &Path, size: u64) -> Result<Store, LiveError> {
        let name = || path.display().to_string();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(os(name()))?;
        let before = file.metadata().map_err(os(name()))?.len();
        if before > size {
            return Err(LiveError::Refused(format!(
                "{}: has {before} bytes, more than the {size} of the drive; it would be cut off",
                path.display()
            )));
        }
        file.set_len(size).map_err(os(name()))?;
        Ok(Store::File(file))
    }

    /// A read of that range will come soon.
    pub fn expect(&self, at: u64, len: u64) {
        if let Store::File(file) = self {
            let len = std::num::NonZeroU64::new(len);
            // A hint: without it the read waits for the file when its time has come.
            let _ = rustix::fs::fadvise(file.as_fd(), at, len, rustix::fs::Advice::WillNeed);
        }
    }

    /// Hands the bytes of a range to `give`, without a copy where they lie in one piece.
    pub fn read(
        &self,
        at: u64,
        len: u64,
        scratch: &mut Vec<u8>,
        give: impl FnOnce(io::Result<&[u8]>),
    ) {
        match self {
            Store::Memory(memory) => memory.read(at, len, scratch, |bytes| give(Ok(bytes))),
            Store::File(file) => {
                if scratch.len() < len as usize {
                    scratch.resize(len as usize, 0);
                }
                let into = &mut scratch[..len as usize];
                match file.read_exact_at(into, at) {
                    Ok(()) => give(Ok(into)),
                    Err(error) => give(Err(error)),
                }
            }
        }
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Store::Memory(memory) => memory.write(at, bytes),
            Store::File(file) => file.write_all_at(bytes, at),
        }
    }

    /// The range reads as zeroes and takes no room.
    pub fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        match self {
            Store::Memory(memory) => {
                memory.zero(at, len);
                Ok(())
            }
            Store::File(file) => {
                let command = Command { tag: 0, op: Op::Discard, start: at, len, fua: false };
                crate::storage::without_data(file, command).map_err(io::Error::from)
            }
        }
    }

    /// Bytes of memory that were written, or of the file.
    pub fn used(&self) -> u64 {
        match self {
            Store::Memory(memory) => memory.used(),
            Store::File(file) => {
                use std::os::unix::fs::MetadataExt;
                file.metadata().map_or(0, |m| m.blocks() * 512)
            }
        }
    }

    /// At the end: what a file holds is to survive this machine.
    pub fn close(&self) -> io::Result<()> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::File(file) => file.sync_all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &Store, at: u64, len: u64) -> Vec<u8> {
        let mut got = Vec::new();
        store.read(at, len, &mut Vec::new(), |bytes| got = bytes.unwrap().to_vec());
        got
    }

    #[test]
    fn memory_holds_as_much_as_it_may_and_no_more() {
        let store = Store::memory(1 << 30, 128 << 10).unwrap();
        store.write(0, &[7; 65536]).unwrap();
        store.write(1 << 20, &[8; 10]).unwrap();
        assert_eq!(store.used(), 128 << 10);
        let full = store.write(2 << 20, &[9; 10]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        store.write(10, &[6; 4]).unwrap();
        assert_eq!(read(&store, 8, 8), [7, 7, 6, 6, 6, 6, 7, 7]);
        assert_eq!(read(&store, 2 << 20, 4), [0; 4]);
        store.discard(0, 1 << 20).unwrap();
        store.write(2 << 20, &[9; 10]).unwrap();
        assert_eq!(read(&store, (1 << 20) - 2, 4), [0, 0, 8, 8]);
    }

    #[test]
    fn a_file_holds_the_same_and_is_not_cut_off() {
        let path = std::env::temp_dir().join(format!("hoistway-store-{}", std::process::id()));
        let store = Store::file(&path, 1 << 20).unwrap();
        store.write(5000, b"abc").unwrap();
        assert_eq!(read(&store, 4999, 5), b"\0abc\0");
        store.close().unwrap();
        let error = Store::file(&path, 1 << 19).unwrap_err().to_string();
        assert!(error.contains("cut off"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}
