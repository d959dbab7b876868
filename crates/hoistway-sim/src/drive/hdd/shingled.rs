//! Shingled recording that the drive manages itself (specs/drives.md 3.8): a media cache, bands, and their cleaning.
//!
//! A track of a *band* overlaps the one before it, so a band can only be written from its start to its end. Writes
//! that do not do that are appended to the *media cache*, a log on the outermost tracks. *Cleaning* merges a band
//! with what the cache holds of it: the band is read, the pieces are fetched, the band is written. It happens when
//! the drive is idle, and before the next write once the cache is full. A drive that was idle long enough is as fast
//! as any other; one that never is writes a few blocks a second.
//!
//! Simplified: what is overwritten in the cache is room again at once; a read of several pieces costs a fixed time
//! for each; read-ahead takes no notice of pieces.
//!
//! Source: Aghayev and Desnoyers, "Skylight - a window on shingled disk operation", FAST 2015.

use crate::drive::DriveFile;
use std::collections::{BTreeMap, BTreeSet};

/// What a shingled drive keeps account of. Places are bytes of the actuator; places in the log count from its start.
#[derive(Debug, Default)]
pub(super) struct Shingles {
    band: u64,
    /// Size of the media cache, which lies before byte 0.
    pub cache: u64,
    /// Idle time after which the drive cleans.
    pub idle: u64,
    /// Bytes behind the last one.
    capacity: u64,
    /// Bytes of the cache in use, `old` included.
    used: u64,
    /// Of them from before the run: a like part of every band from `old_next` on.
    old: u64,
    old_next: u64,
    /// Next byte of the log.
    log: u64,
    /// What the cache holds since the run began: start -> (end, place in the log).
    pieces: BTreeMap<u64, (u64, u64)>,
    /// Bands that are to be cleaned.
    bands: BTreeSet<u64>,
    /// The band cleaned last: the sweep goes on behind it.
    swept: u64,
    /// Rows of writes each of which began where the one before had ended: end, bytes. Least recent first.
    rows: Vec<(u64, u64)>,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePlace {
    /// Into its band, at most to this byte.
    Band(u64),
    /// To this byte of the log, at most so many bytes.
    Log(u64, u64),
    /// Nowhere before this band is clean.
    Full(u64),
}

/// A cleaning: the band's bytes, and what of it is fetched from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cleaning {
    pub start: u64,
    pub end: u64,
    pub pieces: u64,
    pub bytes: u64,
}

/// Rows of writes that are told apart.
const ROWS: usize = 8;
/// A piece of what the cache held before the run.
const OLD_PIECE: u64 = 4096;

impl Shingles {
    /// `None`: the drive is not shingled. `idle` in ns.
    pub fn new(file: &DriveFile, capacity: u64, idle: u64) -> Option<Shingles> {
        let bytes = |key| file.u64_or_0("hdd", key) << 20;
        let cache = bytes("media_cache_mib");
        (cache > 0).then(|| {
            let old = bytes("media_cache_used_mib");
            Shingles {
                band: bytes("band_mib"),
                cache,
                idle,
                capacity,
                used: old,
                old,
                ..Shingles::default()
            }
        })
    }

    /// Where the write [start, end) goes.
    pub fn place(&self, start: u64, end: u64) -> WritePlace {
        let border = (start / self.band + 1) * self.band;
        if self.rows.iter().any(|&(to, bytes)| to == start && bytes >= self.band) {
            return WritePlace::Band(border.min(end));
        }
        let room = self.cache - self.used;
        match self.next_band() {
            Some(band) if room < (end - start).min(OLD_PIECE) => WritePlace::Full(band),
            // To the end of the log at most: it goes on at its beginning.
            _ => WritePlace::Log(self.log, room.min(self.cache - self.log)),
        }
    }

    /// [start, end) was written into its band.
    pub fn banded(&mut self, start: u64, end: u64) {
        self.forget(start, end);
        self.follow(start, end);
        let band = start / self.band;
        let whole = end.is_multiple_of(self.band) || end == self.capacity;
        let rest = self.pieces_of(band).next().is_some();
        // Behind `end` the band is destroyed until it is written to its end.
        if whole && !rest {
            self.bands.remove(&band);
        } else {
            self.bands.insert(band);
        }
    }

    /// [start, end) was appended to the log.
    pub fn logged(&mut self, start: u64, end: u64) {
        self.forget(start, end);
        self.follow(start, end);
        self.used += end - start;
        let mut at = start;
        while at < end {
            let band = at / self.band;
            let to = ((band + 1) * self.band).min(end);
            self.bands.insert(band);
            self.keep(at, to, self.log + (at - start));
            at = to;
        }
        self.log = (self.log + (end - start)) % self.cache;
    }

    /// The first piece of the read [start, end) and how many there are: its place in the log, if it is there.
    pub fn read(&self, start: u64, end: u64) -> (Option<u64>, u64) {
        let (mut at, mut count, mut first) = (start, 0, None);
        for (from, to, log) in self.overlapping(start, end) {
            if from > at {
                count += 1;
            }
            if from <= start {
                first = Some(log + (start - from));
            }
            count += 1;
            at = to;
        }
        (first, count + u64::from(at < end))
    }

    /// The band that would be cleaned next: what was there before the run first, as the end of the log is.
    pub fn next_band(&self) -> Option<u64> {
        if self.old > 0 {
            return Some(self.old_next);
        }
        self.bands.range(self.swept..).next().or_else(|| self.bands.first()).copied()
    }

    /// A band becomes clean. What is written to it meanwhile is in the cache.
    pub fn clean(&mut self, band: u64) -> Cleaning {
        let start = band * self.band;
        let end = (start + self.band).min(self.capacity);
        let (mut pieces, mut bytes) = (0, 0);
        for (from, to, _) in self.overlapping(start, end) {
            pieces += 1;
            bytes += to - from;
        }
        self.forget(start, end);
        self.bands.remove(&band);
        self.swept = band + 1;
        if band == self.old_next && self.old > 0 {
            let left = self.capacity.div_ceil(self.band) - self.old_next;
            let part = self.old.div_ceil(left);
            (self.old, self.used) = (self.old - part, self.used - part);
            self.old_next += 1;
            pieces += part.div_ceil(OLD_PIECE);
            bytes += part;
        }
        Cleaning { start, end, pieces, bytes }
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let before = self.pieces.range(..start).next_back().filter(move |p| p.1.0 > start);
        before.into_iter().chain(self.pieces.range(start..end)).map(|(&a, &(b, log))| (a, b, log))
    }

    fn pieces_of(&self, band: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.overlapping(band * self.band, (band + 1) * self.band)
    }

    /// The cache no longer holds [start, end).
    fn forget(&mut self, start: u64, end: u64) {
        loop {
            let Some((a, b, log)) = self.overlapping(start, end).next() else { return };
            self.pieces.remove(&a);
            self.used -= b.min(end) - a.max(start);
            if a < start {
                self.pieces.insert(a, (start, log));
            }
            if b > end {
                self.pieces.insert(end, (b, log + (end - a)));
            }
        }
    }

    /// The cache holds [start, end) at `log`: more of the piece before it, if that goes on there, in the same band.
    fn keep(&mut self, start: u64, end: u64, log: u64) {
        if let Some((&a, piece)) = self.pieces.range_mut(..start).next_back()
            && (piece.0, piece.1 + (start - a)) == (start, log)
            && a / self.band == start / self.band
        {
            piece.0 = end;
            return;
        }
        self.pieces.insert(start, (end, log));
    }

    fn follow(&mut self, start: u64, end: u64) {
        let row = self.rows.iter().position(|r| r.0 == start).map(|n| self.rows.remove(n));
        if row.is_none() && self.rows.len() == ROWS {
            self.rows.remove(0);
        }
        self.rows.push((end, row.map_or(0, |r| r.1) + (end - start)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn shingles(used: u64) -> Shingles {
        Shingles {
            band: 4 * MIB,
            cache: 8 * MIB,
            capacity: 40 * MIB,
            used,
            old: used,
            ..Shingles::default()
        }
    }

    #[test]
    fn blocks_go_to_the_log_until_it_is_full_and_reads_find_them_there() {
        let mut s = shingles(0);
        for n in 0..1024 {
            let at = n * 9 % 1024 * 8192;
            assert_eq!(s.place(at, at + 4096), WritePlace::Log(n * 4096, 8 * MIB - n * 4096));
            s.logged(at, at + 4096);
        }
        assert_eq!(s.read(9 * 8192, 9 * 8192 + 4096), (Some(4096), 1));
        assert_eq!(s.read(9 * 8192, 9 * 8192 + 16384), (Some(4096), 4));
        assert_eq!(s.read(4096, 8192), (None, 1));
        assert_eq!(s.used, 4 * MIB);
        // Written again: no more room is taken.
        s.logged(0, 4096);
        assert_eq!(s.used, 4 * MIB);
        s.used = 8 * MIB;
        assert_eq!(s.place(20 * MIB, 20 * MIB + 4096), WritePlace::Full(0));
        s.used = 4 * MIB;
        let band = Cleaning { start: 0, end: 4 * MIB, pieces: 512, bytes: 2 * MIB };
        assert_eq!((s.clean(0), s.used), (band, 2 * MIB));
        assert_eq!(s.next_band(), Some(1));
    }

    #[test]
    fn who_writes_in_order_for_a_band_writes_into_the_next_ones() {
        let mut s = shingles(0);
        for n in 0..8 {
            let at = n * MIB / 2;
            assert!(matches!(s.place(at, at + MIB / 2), WritePlace::Log(..)));
            s.logged(at, at + MIB / 2);
        }
        // One piece: the log holds it in one row.
        assert_eq!(s.pieces.len(), 1);
        assert_eq!(s.place(4 * MIB, 10 * MIB), WritePlace::Band(8 * MIB));
        s.banded(4 * MIB, 6 * MIB);
        assert!(s.bands.contains(&1), "half of it is destroyed");
        s.banded(6 * MIB, 8 * MIB);
        assert!(!s.bands.contains(&1));
        assert_eq!(s.used, 4 * MIB);
    }

    #[test]
    fn what_was_there_before_goes_band_by_band() {
        let mut s = shingles(8 * MIB);
        assert_eq!(s.place(0, 4096), WritePlace::Full(0));
        let mut bytes = 0;
        for band in 0..10 {
            assert_eq!(s.next_band(), Some(band));
            bytes += s.clean(band).bytes;
        }
        assert_eq!((bytes, s.used, s.next_band()), (8 * MIB, 0, None));
    }
}
