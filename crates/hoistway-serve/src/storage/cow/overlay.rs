//! The file of an overlay: a header, the map of the blocks it holds, the blocks in their places.
//!
//! ```text
//!   0       header: magic, version, block size, size, what is known of the base, checksum
//!   4096    map: one bit per block, least significant bit first
//!   ...     blocks, from a multiple of 1 MiB on, each at its own offset; sparse
//! ```
//!
//! Numbers are little-endian. A bit is only written once the block behind it is on stable storage
//! (`sync`), and never cleared: after a crash at any point the map is right, and holds everything that
//! was flushed.

use super::bits::{Bits, PAGE, PAGE_BITS};
use crate::error::{ServeError, os};
use crate::storage::file;
use hoistway_files::Place;
use rustix::fs::{FlockOperation, fdatasync, flock, fsync};
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// An overlay that was opened, with the map it holds.
#[derive(Debug)]
pub(super) struct OpenedOverlay {
    pub file: File,
    pub bits: Bits,
    /// Where the blocks begin.
    pub data: u64,
    /// Holes can be punched: what is trimmed takes no room.
    pub punches: bool,
}

/// Where the map begins.
pub(super) const MAP: u64 = HEADER as u64;
const HEADER: usize = 4096;
const MAGIC: &[u8; 16] = b"hoistway overlay";
const VERSION: u64 = 1;
/// The blocks begin at a multiple of this.
const ALIGN: u64 = 1 << 20;

/// What an overlay must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OverlayShape {
    pub size: u64,
    pub block: u32,
    /// Modification time of the base, if it is a file: seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl OverlayShape {
    /// That of a base with so many bytes.
    pub fn of(base: &Path, size: u64, block: u32) -> Result<OverlayShape, ServeError> {
        let of = |m: Metadata| if m.is_file() { (m.mtime(), m.mtime_nsec()) } else { (0, 0) };
        let modified = std::fs::metadata(base).map(of);
        let modified = modified.map_err(os(base.display().to_string()))?;
        Ok(OverlayShape { size, block, modified })
    }

    fn blocks(&self) -> u64 {
        self.size / u64::from(self.block)
    }

    fn data(&self) -> u64 {
        (MAP + self.blocks().div_ceil(PAGE_BITS) * PAGE as u64).next_multiple_of(ALIGN)
    }

    fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        let (seconds, nanos) = self.modified;
        let fields = [VERSION, self.size, self.block.into(), seconds as u64, nanos as u64];
        for (place, field) in header[16..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(&header[..HEADER - 8]);
        header[HEADER - 8..].copy_from_slice(&sum.to_le_bytes());
        header
    }
}

/// Why an overlay is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverlayError {
    /// Another server has it open.
    InUse,
    /// It is another kind of file.
    NoOverlay,
    /// Its header is not what was written, or of another version.
    Damaged,
    /// It was made for another base.
    OtherBase {
        /// Bytes of the base it was made for, and bytes per block.
        made_for: (u64, u64),
        /// Those of the base it is to lie over.
        base: (u64, u64),
    },
    /// The base was written since.
    BaseModified,
    /// It is shorter than it was made.
    CutShort,
}

impl OverlayError {
    fn of(self, path: &Path) -> ServeError {
        ServeError::Overlay { path: path.into(), error: self }
    }
}

impl fmt::Display for OverlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OverlayError::InUse => "another server uses this overlay",
            OverlayError::NoOverlay => "is not an overlay; name a file that does not exist yet",
            OverlayError::Damaged => "the header of this overlay is damaged, or of another version",
            OverlayError::OtherBase { made_for: (size, block), base: (base, base_block) } => {
                return write!(
                    f,
                    "an overlay for {size} bytes in blocks of {block}; the base has {base} in blocks \
                     of {base_block}"
                );
            }
            OverlayError::BaseModified => {
                "the base has been modified since the overlay was made: it no longer fits"
            }
            OverlayError::CutShort => "the overlay has been cut short",
        })
    }
}

impl std::error::Error for OverlayError {}

/// FNV-1a, 64 bits: against accidents, not against people.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Opens the overlay, or makes a fresh one where there is no file, or an empty one.
///
/// # Errors
///
/// When it is in use, is no overlay, or is one of another base or of this base as it was before.
pub(super) fn open(path: &Path, shape: &OverlayShape) -> Result<OpenedOverlay, ServeError> {
    let name = || path.display().to_string();
    let place = Place::of(path)?;
    let file = if place.what()?.is_none() { place.create(0o666) } else { place.open_writable() }?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(OverlayError::InUse.of(path));
    }
    let mut bits = Bits::new(shape.blocks());
    if file.metadata().map_err(os(name()))?.len() == 0 {
        create(&file, &place, shape).map_err(os(name()))?;
    } else {
        check(&file, path, shape)?;
        load(&file, shape, &mut bits).map_err(os(name()))?;
    }
    let punches = file::punches(&file, shape.data() + shape.size);
    Ok(OpenedOverlay { file, bits, data: shape.data(), punches })
}

/// The header comes last: a file without one is empty, or is refused.
fn create(file: &File, place: &Place, shape: &OverlayShape) -> io::Result<()> {
    file.set_len(shape.data() + shape.size)?;
    fdatasync(file)?;
    file.write_all_at(&shape.header(), 0)?;
    fdatasync(file)?;
    fsync(place.dir())?;
    Ok(())
}

fn check(file: &File, path: &Path, shape: &OverlayShape) -> Result<(), ServeError> {
    let mut header = [0; HEADER];
    let whole = file.read_exact_at(&mut header, 0).is_ok();
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
    if !whole || &header[..16] != MAGIC {
        return Err(OverlayError::NoOverlay.of(path));
    }
    if number(HEADER - 8) != checksum(&header[..HEADER - 8]) || number(16) != VERSION {
        return Err(OverlayError::Damaged.of(path));
    }
    if (number(24), number(32)) != (shape.size, shape.block.into()) {
        let (made_for, base) = ((number(24), number(32)), (shape.size, shape.block.into()));
        return Err(OverlayError::OtherBase { made_for, base }.of(path));
    }
    if header != shape.header() {
        return Err(OverlayError::BaseModified.of(path));
    }
    let length = file.metadata().map_err(os(path.display().to_string()))?.len();
    if length < shape.data() + shape.size {
        return Err(OverlayError::CutShort.of(path));
    }
    Ok(())
}

/// Reads the map, as far as there is one: it is as sparse as the blocks.
fn load(file: &File, shape: &OverlayShape, bits: &mut Bits) -> io::Result<()> {
    let pages = shape.blocks().div_ceil(PAGE_BITS);
    let (mut at, end) = (MAP, MAP + pages * PAGE as u64);
    while at < end {
        let extents = crate::storage::holes::of_file(file, at, end - at, 64)?;
        for extent in extents {
            if !extent.hole {
                // Holes begin and end where the file system likes.
                let first = (at - MAP) / PAGE as u64;
                let last = (at + extent.len - MAP).div_ceil(PAGE as u64);
                for page in first..last {
                    let mut bytes = [0; PAGE];
                    file.read_exact_at(&mut bytes, MAP + page * PAGE as u64)?;
                    bits.load(page as usize, &bytes);
                }
            }
            at += extent.len;
        }
    }
    Ok(())
}
