//! Lists of extents: what is stored, and what is a hole.

use super::Extent;
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

/// What a file stores in a range, as [`Backend::extents`](super::Backend::extents); a block device has no
/// holes.
pub(super) fn of_file(
    file: &File,
    block_device: bool,
    start: u64,
    len: u64,
    most: usize,
) -> Result<Vec<Extent>, Errno> {
    if block_device {
        return Ok(vec![Extent { len, hole: false }]);
    }
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
