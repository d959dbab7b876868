//! The data of an emulated drive: sparse memory with a limit, or a sparse file.

use super::stripes::Stripes;
use crate::{MachineError, os};
use hoistway::Op;
use hoistway_sim::drive::Command;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Where the data is. Threads share it.
#[derive(Debug)]
pub(super) enum Store {
    Memory(Stripes),
    /// Zero where nothing was written, as sparse files are.
    File(File),
}

impl Store {
    pub fn memory(size: u64, limit: u64) -> Result<Store, MachineError> {
        let memory = Stripes::new(size, limit);
        Ok(Store::Memory(memory.map_err(os("address space for the drive's data"))?))
    }

    /// A file that is made where there is none, or has the drive's size already.
    pub fn file(path: &Path, size: u64) -> Result<Store, MachineError> {
        Ok(Store::File(hoistway_serve::storage::open_image(path, size, || Ok(()))?))
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
                hoistway_serve::storage::without_data(file, command).map_err(io::Error::from)
            }
        }
    }

    /// Bytes of memory that were written, or of the file.
    pub fn used(&self) -> u64 {
        match self {
            Store::Memory(memory) => memory.used(),
            Store::File(file) => file.metadata().map_or(0, |m| m.blocks() * 512),
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
        let error = Store::file(&path, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("another program has locked it"), "{error}");
        drop(store);
        let store = Store::file(&path, 1 << 20).unwrap();
        assert_eq!(read(&store, 4999, 5), b"\0abc\0");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn files_that_are_no_store_are_left_alone() {
        let folder = std::env::temp_dir().join(format!("hoistway-no-store-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("precious");
        std::fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, folder.join("link")).unwrap();
        std::os::unix::fs::symlink(folder.join("new"), folder.join("nowhere")).unwrap();
        std::fs::create_dir(folder.join("folder")).unwrap();
        let same = folder.join("same");
        std::fs::write(&same, vec![1; 8192]).unwrap();
        std::fs::hard_link(&same, folder.join("hard")).unwrap();
        for (name, why) in [
            ("precious", "it is no store of this drive"),
            ("link", "is a link"),
            ("nowhere", "is a link"),
            ("folder", "is a folder"),
            ("hard", "has 2 names"),
        ] {
            let error = Store::file(&folder.join(name), 8192).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        assert_eq!(std::fs::read(&same).unwrap(), vec![1; 8192]);
        assert!(!folder.join("new").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
