//! Offsets of a trace into a drive of another size.
//!
//! *Wrap* keeps distances and sequential runs and puts what lies beyond the end at the beginning again; distant regions
//! may fall on each other. *Scale* keeps the order of places across the drive and multiplies every offset, which breaks
//! sequential runs when the factor is not 1 (the requests keep their lengths), so it is for traces of random access.

/// How offsets are brought into a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Modulo the drive's size.
    Wrap,
    /// By drive / this size in bytes: that of the recorded device.
    Scale(u64),
}

impl Fit {
    /// Offset and length on a drive of `size` bytes with sectors of `sector` bytes: the offset rounded down, the end
    /// rounded up, the whole cut to the drive. `None` if the drive has no whole sector.
    pub fn apply(self, offset: u64, len: u64, size: u64, sector: u64) -> Option<(u64, u64)> {
        let sector = sector.max(1);
        let size = size - size % sector;
        if size == 0 {
            return None;
        }
        let place = match self {
            Fit::Wrap => offset % size,
            // At most size - 1, since a trace's offset may be beyond what its device was said to have.
            Fit::Scale(of) => {
                let scaled = u128::from(offset) * u128::from(size) / u128::from(of.max(1));
                let place = u64::try_from(scaled.min(u128::from(size) - 1));
                let place = place.expect("less than the drive's size");
                place - place % sector
            }
        };
        let first = place - place % sector;
        let len = len.min(size);
        let end = place.saturating_add(len).div_ceil(sector).saturating_mul(sector);
        let len = (end - first).min(size);
        // A request across the end goes before it, whole.
        Some((first.min(size - len), len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_wrap_or_scale_and_stay_within_the_drive() {
        let at = |fit: Fit, offset, len| fit.apply(offset, len, 10_000, 512).unwrap();
        assert_eq!(at(Fit::Wrap, 512, 1024), (512, 1024));
        assert_eq!(at(Fit::Wrap, 9728 + 512, 512), (512, 512));
        // Not on a sector: rounded outwards.
        assert_eq!(at(Fit::Wrap, 700, 512), (512, 1024));
        // Across the end: before it.
        assert_eq!(at(Fit::Wrap, 9216, 1024), (8704, 1024));
        assert_eq!(at(Fit::Wrap, 0, 1 << 40), (0, 9728));
        assert_eq!(at(Fit::Scale(97_280), 9728, 512), (512, 512));
        assert_eq!(at(Fit::Scale(97_280), u64::MAX, 512), (9216, 512));
        assert_eq!(Fit::Wrap.apply(0, 512, 100, 512), None);
    }
}
