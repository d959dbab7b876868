//! How fast a place is, about, in three seconds: so that a plan knows what a run will read and write.
//!
//! Four threads (one on a disk that seeks) read, and before that write, a file of 256 MiB past the page cache in pieces of
//! 1 MiB, and 16 threads read 4 KiB of it at random, each for half a second. On a device that may not be written only
//! reads are measured, from its beginning. The figures are upper bounds for plans: a drive's cache takes most of such a
//! file. Nothing is judged by them.

use super::files::{FileAt, FileStore};
use crate::MachineError;
use crate::os;
use hoistway::{Instant, Nanos};
use hoistway_serve::system::Buffer;
use hoistway_serve::system::Clock;
use hoistway_sim::rng::{Rng, stream};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What a place carries, about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Bytes per second, read in order.
    pub read: u64,
    /// Bytes per second, written in order; `None`: it may not be written.
    pub write: Option<u64>,
    /// Random reads of 4 KiB per second.
    pub random_reads: u64,
}

/// Bytes of the file, or of the part of the device that is read.
const SIZE: u64 = 256 << 20;
/// Bytes of a call in order.
const PIECE: u64 = 1 << 20;
/// Bytes of a random read.
const PAGE: u64 = 4096;
/// How long each of the three is measured.
const TIME: Nanos = Nanos::ms(500);
/// Threads that read or write in order where nothing has to seek, and that read at random.
const STREAMS: u64 = 4;
const READERS: u64 = 16;

/// One kind of call.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Write,
    Read,
    Random,
}

/// Measures; `free`: bytes that a file may take.
pub(super) fn probe(
    store: &FileStore,
    capacity: u64,
    free: u64,
    rotational: bool,
) -> Result<Probed, MachineError> {
    let size = SIZE.min(capacity).min(free) / PIECE * PIECE;
    let streams = if rotational { 1 } else { STREAMS };
    if size < streams * PIECE {
        let what = "too little space to measure what the place carries".to_string();
        return Err(MachineError::Os { what, error: std::io::ErrorKind::StorageFull.into() });
    }
    let place = match store {
        FileStore::Folder(folder) => {
            let path = folder.path.join("probe");
            FileAt { path, base: 0, bytes: size, exists: true, raw: false }
        }
        FileStore::Device { .. } => store.block(capacity),
    };
    let measured = measure(store, &place, size, streams);
    if !store.is_device() && store.has(&place) {
        store.remove(&place).map_err(os(place.path.display().to_string()))?;
    }
    measured
}

fn measure(
    store: &FileStore,
    place: &FileAt,
    size: u64,
    streams: u64,
) -> Result<Probed, MachineError> {
    let name = || place.path.display().to_string();
    let writable = store.writable();
    let plain = if writable { store.make(place)? } else { store.open(place, false)? };
    // Some file systems have no direct I/O; then the cache is a part of what is measured.
    let file = store.open(place, true).unwrap_or(plain);
    let rate = |kind| carried(&file, size, streams, kind).map_err(os(name()));
    let mut write = None;
    if writable {
        // All of it, so that there is something to read.
        whole(&file, size).map_err(os(name()))?;
        write = Some(rate(Kind::Write)?);
    }
    let read = rate(Kind::Read)?;
    Ok(Probed { read, write, random_reads: rate(Kind::Random)? / PAGE })
}

fn whole(file: &File, size: u64) -> std::io::Result<()> {
    let data = noise(0);
    for at in (0..size).step_by(PIECE as usize) {
        file.write_all_at(&data, at)?;
    }
    file.sync_data()
}

/// Bytes per second.
fn carried(file: &File, size: u64, streams: u64, kind: Kind) -> std::io::Result<u64> {
    let threads = if let Kind::Random = kind { READERS } else { streams };
    let clock = Clock::new();
    let end = clock.now() + TIME;
    let work = |n: u64| one(file, size, (n, threads), kind, &clock, end);
    let moved: std::io::Result<u64> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        let joined = all.into_iter().map(|t| t.join().expect("a thread that cannot panic"));
        joined.sum()
    });
    let moved = moved?;
    if let Kind::Write = kind {
        file.sync_data()?;
    }
    let took = clock.now().as_nanos().max(1);
    Ok((u128::from(moved) * 1_000_000_000 / u128::from(took)) as u64)
}

/// What one thread moves: its part of the file over and over, or places anywhere.
fn one(
    file: &File,
    size: u64,
    (n, threads): (u64, u64),
    kind: Kind,
    clock: &Clock,
    end: Instant,
) -> std::io::Result<u64> {
    let mut data = noise(n);
    let mut rng: Rng = stream(n, "probe");
    let pieces = size / PIECE / threads.min(size / PIECE);
    let (mut moved, mut turn) = (0, 0);
    while clock.now() < end {
        let at = (n * pieces + turn % pieces) * PIECE;
        moved += match kind {
            Kind::Write => file.write_all_at(&data, at).map(|()| PIECE)?,
            Kind::Read => file.read_exact_at(&mut data, at).map(|()| PIECE)?,
            Kind::Random => {
                let at = rng.below(size / PAGE) * PAGE;
                file.read_exact_at(&mut data[..PAGE as usize], at).map(|()| PAGE)?
            }
        };
        turn += 1;
    }
    Ok(moved)
}

/// Nothing on the way can compress it.
fn noise(n: u64) -> Buffer {
    let mut data = Buffer::zeroed(PIECE as usize);
    let mut rng = stream(n, "probe/data");
    for word in data.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.bits().to_ne_bytes());
    }
    data
}

#[cfg(test)]
mod tests {
    use super::super::files::Folder;
    use super::*;

    #[test]
    fn a_folder_is_measured_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("hoistway-probe-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let own = Folder::planned(folder.clone());
        own.open(hoistway_files::Dir::open(&folder).unwrap());
        let store = FileStore::Folder(own);
        let found = probe(&store, 1 << 30, 16 << 20, false).unwrap();
        assert!(found.read > 0 && found.write.is_some_and(|w| w > 0) && found.random_reads > 0);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        assert!(probe(&store, 1 << 30, 1 << 20, false).is_err(), "no space");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
