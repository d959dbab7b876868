//! Lists of extents: what is stored, and what is a hole.

use super::{DeferredLookup, Extent, ExtentsAnswer};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;

/// Adds to a list of extents, joining neighbours of one kind; false when the list is full.
pub(crate) fn push_extent(list: &mut Vec<Extent>, extent: Extent, most: usize) -> bool {
    if extent.len == 0 {
        return true;
    }
    let full = list.len() == most;
    match list.last_mut() {
        Some(last) if last.hole == extent.hole => last.len += extent.len,
        _ if full => return false,
        _ => list.push(extent),
    }
    true
}

/// Asks a file what it stores, as [`Backend::extents`](super::Backend::extents); a block device has no
/// holes. The file system may have to read its own tables first.
pub(super) fn look_up(
    file: &File,
    block_device: bool,
    start: u64,
    len: u64,
    most: usize,
) -> ExtentsAnswer {
    if block_device {
        return ExtentsAnswer::Now(Ok(vec![Extent { len, hole: false }]));
    }
    match file.try_clone() {
        Ok(file) => {
            ExtentsAnswer::Later(DeferredLookup::new(move || of_file(&file, start, len, most)))
        }
        Err(error) => ExtentsAnswer::Now(Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
    }
}

/// What a file stores in a range.
pub(super) fn of_file(
    file: &File,
    start: u64,
    len: u64,
    most: usize,
) -> Result<Vec<Extent>, Errno> {
    let (mut from, end, mut list) = (start, start + len, Vec::new());
    while from < end {
        // ENXIO: no data until the end of the file.
        let data = match seek(file, SeekFrom::Data(from)) {
            Ok(data) => data.min(end),
            Err(Errno::NXIO) => end,
            Err(error) => return Err(error),
        };
        let hole = Extent { len: data - from, hole: true };
        let stop =
            if data < end { seek(file, SeekFrom::Hole(data))?.clamp(data, end) } else { end };
        let stored = Extent { len: stop - data, hole: false };
        if !push_extent(&mut list, hole, most) || !push_extent(&mut list, stored, most) {
            break;
        }
        from = stop;
    }
    Ok(list)
}
