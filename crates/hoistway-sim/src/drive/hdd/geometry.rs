//! Where a byte lies, when it passes under the head, and how long a seek takes (specs/drives.md 3.1
//! and 3.2).
//!
//! The *media clock* P(lba) is the time a perfect sequential read from byte 0 would need. Tracks
//! are skewed by the track switch, so the angle of a byte is P mod one revolution: the media time
//! of a range is the difference of two clocks, and a rotation wait is one remainder.

use crate::drive::DriveFile;
use crate::drive::rate::Divisor;

/// Geometry and times of one actuator.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    /// One revolution in ns.
    pub rev: u64,
    by_rev: Divisor,
    /// One revolution and a track switch in ns.
    track_ns: u64,
    tracks_per_zone: u64,
    heads: u64,
    zones: Vec<Zone>,
    /// By the upper bits of a byte's number: the zone of the first byte with these.
    guide: Vec<u32>,
    guide_shift: u32,
    pub seek: Seek,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    start: u64,
    track_bytes: u64,
    /// ns of rotation per byte.
    ns_per_byte: f64,
    /// Sustained rate in bytes per ns.
    rate: f64,
}

/// A byte's place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MediaPos {
    /// Media clock in ns.
    pub clock: u64,
    /// The clock modulo one revolution.
    pub angle: u64,
    /// Cylinder.
    pub cyl: u64,
}

/// A rotation wait of this much less than a revolution is none: the buffer hides it.
const SLACK_NS: u64 = 20_000;

/// Reading a whole drive takes less than 146 years (2^62 ns), so that clocks fit with room to add.
const CLOCK_MAX: u128 = 1 << 62;

impl Geometry {
    /// `None` if the figures make no drive: no byte, tracks below one sector, or centuries to read.
    pub fn new(file: &DriveFile, capacity: u64) -> Option<Geometry> {
        if capacity == 0 {
            return None;
        }
        let f = |key| file.f64("hdd", key);
        let (zone_count, heads) = (file.u64("hdd", "zones"), file.u64("hdd", "heads"));
        let rev = (60e9 / f("rpm")) as u64;
        let track_ns = rev + ns(f("track_switch_ms"));
        let (outer, inner) = (f("outer_mb_s") * 1e-3, f("inner_mb_s") * 1e-3);
        let mut zones: Vec<Zone> = (0..zone_count)
            .map(|z| {
                let rate = outer - (outer - inner) * z as f64 / (zone_count - 1) as f64;
                let track_bytes = (rate * track_ns as f64 / 512.0) as u64 * 512;
                let ns_per_byte = rev as f64 / track_bytes as f64;
                Zone { start: 0, track_bytes, ns_per_byte, rate }
            })
            .collect();
        if zones.iter().any(|z| z.track_bytes == 0) {
            return None;
        }
        let ring: u128 = zones.iter().map(|z| u128::from(z.track_bytes)).sum();
        let tracks_per_zone = u128::from(capacity).div_ceil(ring);
        if tracks_per_zone * u128::from(zone_count + 1) * u128::from(track_ns) > CLOCK_MAX
            || tracks_per_zone * ring > CLOCK_MAX
        {
            return None;
        }
        let tracks_per_zone = tracks_per_zone as u64;
        let mut start = 0;
        for zone in &mut zones {
            zone.start = start;
            start += tracks_per_zone * zone.track_bytes;
        }
        let cylinders = (tracks_per_zone * zone_count / heads).max(2);
        let seek = Seek::new(file, cylinders);
        let by_rev = Divisor::new(rev);
        // Mostly no zone begins between two entries.
        let shift = (u64::BITS - start.leading_zeros()).saturating_sub(zones.len().ilog2() + 3);
        let in_zone = |lba| zones.partition_point(|z| z.start <= lba) - 1;
        let guide = (0..=start >> shift).map(|n| in_zone(n << shift) as u32).collect();
        Some(Geometry {
            rev,
            by_rev,
            track_ns,
            tracks_per_zone,
            heads,
            guide,
            guide_shift: shift,
            zones,
            seek,
        })
    }

    fn zone(&self, lba: u64) -> usize {
        // Behind the last entry lies nothing but the end of the last zone.
        let entry = (lba >> self.guide_shift) as usize;
        let mut zone = self.guide.get(entry).or(self.guide.last()).map_or(0, |&z| z as usize);
        while self.zones.get(zone + 1).is_some_and(|next| next.start <= lba) {
            zone += 1;
        }
        zone
    }

    pub fn place(&self, lba: u64) -> MediaPos {
        self.place_in(self.zone(lba), lba)
    }

    /// Where a range begins and ends, mostly in one zone.
    pub fn places(&self, start: u64, end: u64) -> (MediaPos, MediaPos) {
        let first = self.zone(start);
        let ends = self.zones.get(first + 1).is_none_or(|next| end < next.start);
        let last = if ends { first } else { self.zone(end) };
        (self.place_in(first, start), self.place_in(last, end))
    }

    fn place_in(&self, z: usize, lba: u64) -> MediaPos {
        let zone = &self.zones[z];
        let offset = lba - zone.start;
        let track = offset / zone.track_bytes;
        let rest = offset - track * zone.track_bytes;
        let tracks = z as u64 * self.tracks_per_zone + track;
        let clock = tracks * self.track_ns + whole(real(rest) * zone.ns_per_byte);
        self.at_clock(clock, tracks / self.heads)
    }

    /// The place with this clock, which lies in this cylinder.
    pub fn at_clock(&self, clock: u64, cyl: u64) -> MediaPos {
        MediaPos { clock, angle: self.angle(clock), cyl }
    }

    /// The angle of a clock or an instant.
    pub fn angle(&self, t: u64) -> u64 {
        self.by_rev.div_rem(t).1
    }

    /// Sustained rate at a byte, in bytes per ns.
    pub fn rate(&self, lba: u64) -> f64 {
        self.zones[self.zone(lba)].rate
    }

    /// From a time at angle `phase` the byte at `angle` comes under the head after this time, and after whole turns
    /// more.
    #[cfg(test)]
    pub fn rotation(&self, angle: u64, phase: u64) -> u64 {
        self.hidden(self.ahead(angle, phase))
    }

    /// The same without what the buffer hides.
    #[inline]
    pub fn ahead(&self, angle: u64, phase: u64) -> u64 {
        if angle >= phase { angle - phase } else { angle + self.rev - phase }
    }

    /// A wait that the buffer hides is none.
    #[inline]
    pub fn hidden(&self, wait: u64) -> u64 {
        if wait + SLACK_NS > self.rev { 0 } else { wait }
    }

    /// Seek and the wait behind it, for a byte that comes round `wait` after the arm starts, which is less than a
    /// revolution.
    #[inline]
    pub fn position(&self, seek: u64, wait: u64) -> u64 {
        if seek <= wait {
            return seek + self.hidden(wait - seek);
        }
        let passed = self.by_rev.div_rem(seek - wait).1;
        seek + if passed < SLACK_NS { 0 } else { self.rev - passed }
    }

    /// The angles whose rotation from `phase` takes no longer than `longest`.
    #[inline]
    pub fn arc(&self, phase: u64, longest: u64) -> Arc {
        // What has just passed, by less than the slack, waits for nothing.
        let passed = SLACK_NS - 1;
        let from = if phase >= passed { phase - passed } else { phase + self.rev - passed };
        let last = from.saturating_add(longest.saturating_add(passed));
        match last.checked_sub(self.rev) {
            None => Arc { from, width: last - from },
            Some(last) if last < from => Arc { from, width: last.wrapping_sub(from) },
            Some(_) => Arc { from: 0, width: u64::MAX },
        }
    }
}

/// Angles side by side: those that lie no further than `width` behind `from`. Where they go across angle 0 the width is taken
/// modulo 2^64, so that one wrapping subtraction serves both cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    from: u64,
    width: u64,
}

impl Arc {
    #[inline]
    pub fn holds(&self, angle: u64) -> bool {
        angle.wrapping_sub(self.from) <= self.width
    }
}

/// Milliseconds of a drive file as whole ns.
pub(super) fn ns(ms: f64) -> u64 {
    (ms * 1e6 + 0.5) as u64
}

/// A time or a distance to be reckoned with. Of a signed number that is one instruction, of another one seven.
#[inline]
pub(super) fn real(n: u64) -> f64 {
    n as i64 as f64
}

/// The way back, rounded down; for the same reason only up to 2^63.
#[inline]
pub(super) fn whole(x: f64) -> u64 {
    x as i64 as u64
}

/// Seek time over a distance.
#[derive(Clone, Debug)]
pub(super) struct Seek {
    /// Shortest seek in ns (seek over one cylinder), and rounded down.
    track: f64,
    pub least: u64,
    root: f64,
    linear: f64,
    /// (square root of the distance, ns); empty: the formula.
    knots: Vec<(f64, f64)>,
}

impl Seek {
    fn new(file: &DriveFile, cylinders: u64) -> Seek {
        let f = |key| file.f64("hdd", key) * 1e6;
        let (t1, ta, tf) = (f("seek_track_ms"), f("seek_avg_ms"), f("seek_full_ms"));
        let n = cylinders as f64;
        let mut root = (-10.0 * t1 + 15.0 * ta - 5.0 * tf) / (3.0 * n.sqrt());
        let mut linear = (7.0 * t1 - 15.0 * ta + 8.0 * tf) / (3.0 * n);
        if root < 0.0 {
            (root, linear) = (0.0, (tf - t1) / (n - 1.0));
        }
        let knots: Vec<(f64, f64)> = file
            .knots("hdd", "seek_knots")
            .unwrap_or_default()
            .into_iter()
            .map(|(d, ms)| (d.sqrt(), ms * 1e6))
            .collect();
        let track = knots.first().map_or(t1, |k| k.1);
        Seek { track, least: track as u64, root, linear, knots }
    }

    /// Time in ns over `d` cylinders.
    pub fn time(&self, d: u64) -> u64 {
        if d == 0 {
            return 0;
        }
        if !self.knots.is_empty() {
            return self.interpolated(d) as u64;
        }
        let d = real(d - 1);
        let t = self.track + self.root * d.sqrt() + self.linear * d;
        // Not f64::max, which takes five instructions for what is not a number.
        whole(if t < self.track { self.track } else { t })
    }

    /// Outside the knots the nearest one's time holds.
    fn interpolated(&self, d: u64) -> f64 {
        let x = (d as f64).sqrt();
        let above = self.knots.partition_point(|k| k.0 < x);
        if above == 0 {
            return self.knots[0].1;
        }
        let (x0, y0) = self.knots[above - 1];
        match self.knots.get(above) {
            None => y0,
            Some(&(x1, y1)) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng;

    fn hitachi() -> (DriveFile, Geometry) {
        let file = DriveFile::load("hitachi-hts727550a9e364").unwrap();
        let geometry = Geometry::new(&file, file.identity.capacity_bytes).unwrap();
        (file, geometry)
    }

    #[test]
    fn the_media_clock_grows_and_reaches_the_zones_rates() {
        let (file, g) = hitachi();
        let capacity = file.identity.capacity_bytes;
        let (mut last, step) = (0, 1 << 20);
        for mib in 1..20_000 {
            let clock = g.place(mib * step).clock;
            assert!(clock > last);
            last = clock;
        }
        for (lba, wanted) in [(0, 124e6), (capacity - (200 << 20), 62e6)] {
            let took = g.place(lba + (100 << 20)).clock - g.place(lba).clock;
            let rate = (100u64 << 20) as f64 * 1e9 / took as f64;
            assert!((rate / wanted - 1.0).abs() < 0.01, "{rate}");
        }
    }

    #[test]
    fn an_arc_holds_what_comes_round_in_time_and_places_are_those_of_each_end() {
        let (file, g) = hitachi();
        let mut r = rng::stream(1, "arcs");
        for _ in 0..100_000 {
            let [angle, phase] = std::array::from_fn(|_| r.below(g.rev));
            // Often at the edges of the slack.
            let longest = [0, 1, g.rotation(angle, phase), r.below(2 * g.rev), u64::MAX];
            for longest in longest.into_iter().flat_map(|l| [l, l.saturating_sub(1)]) {
                let holds = g.arc(phase, longest).holds(angle);
                assert_eq!(holds, g.rotation(angle, phase) <= longest);
            }
            let seek = r.below(4 * g.rev);
            let wait = g.ahead(angle, phase);
            for seek in [seek, wait, wait + g.rev] {
                let then = seek + g.rotation(angle, g.angle(phase + seek));
                assert_eq!(g.position(seek, wait), then);
            }
            let start = r.below(file.identity.capacity_bytes);
            let end = start + r.below(file.identity.capacity_bytes - start);
            assert_eq!(g.zone(start), g.zones.partition_point(|z| z.start <= start) - 1);
            assert_eq!(g.places(start, end), (g.place(start), g.place(end)));
        }
        for before in [0, 1, SLACK_NS - 1, SLACK_NS, SLACK_NS + 1] {
            let angle = g.rev - 1 - before;
            assert_eq!(g.arc(g.rev - 1, 0).holds(angle), g.rotation(angle, g.rev - 1) == 0);
        }
    }

    /// specs/drives.md 8.2, item 4.
    #[test]
    fn the_mean_position_over_random_pairs_is_the_average_seek_and_half_a_turn() {
        for id in ["hitachi-hts727550a9e364", "hdd-nearline-16tb", "maxtor-7l250s0"] {
            let file = DriveFile::load(id).unwrap();
            let capacity = file.identity.capacity_bytes;
            let g = Geometry::new(&file, capacity).unwrap();
            let mut r = rng::stream(1, "pairs");
            let (mut sum, pairs) = (0.0, 200_000);
            for _ in 0..pairs {
                let (a, b) = (g.place(r.below(capacity)), g.place(r.below(capacity)));
                let seek = g.seek.time(a.cyl.abs_diff(b.cyl));
                sum += (seek + g.rotation(b.angle, g.angle(r.below(1 << 40) + seek))) as f64;
            }
            let wanted = file.f64("hdd", "seek_avg_ms") * 1e6 + g.rev as f64 / 2.0;
            let mean = sum / f64::from(pairs);
            assert!((mean / wanted - 1.0).abs() < 0.03, "{id}: {mean} instead of {wanted}");
        }
    }

    #[test]
    fn knots_replace_the_formula() {
        let text = DriveFile::embedded("hitachi-hts727550a9e364").unwrap();
        let with = text.replace("[hdd]", "[hdd]\nseek_knots = [[1, 2], [4, 4], [10000, 18.5]]");
        let file = DriveFile::parse("k.toml", &with).unwrap();
        let g = Geometry::new(&file, file.identity.capacity_bytes).unwrap();
        let t = |d| g.seek.time(d);
        assert_eq!((t(0), t(1), t(4), t(1_000_000)), (0, 2_000_000, 4_000_000, 18_500_000));
        assert!(t(2) > 2_800_000 && t(2) < 2_840_000, "sqrt(2) of the way from 1 to 2");
    }
}
