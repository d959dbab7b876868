//! What runs write, so that what they read can be checked.
//!
//! Every sector of 512 bytes says which sector it is and which write it belongs to (its *stamp*); the
//! rest of it follows from both. So a sector that was lost, torn, put in another place or brought back
//! from an earlier time is found by whoever reads it.

/// Which write a sector holds. The lowest values are states instead.
pub(super) type Stamp = u32;

/// No second possibility.
pub(super) const NONE: Stamp = 0;
/// Nobody knows what is there.
pub(super) const UNKNOWN: Stamp = 1;
/// Zeroes: never written.
pub(super) const ZERO: Stamp = 2;
/// Each sector of the page is of another write, or zero.
pub(super) const MIXED: Stamp = 3;
/// Written before the runs.
pub(super) const PREPARED: Stamp = 4;
/// The first write of a run.
pub(super) const FIRST: Stamp = 16;

/// Bytes of a sector.
const SECTOR: usize = 512;
const WORDS: usize = SECTOR / 8;

/// Fills whole sectors that begin at byte `place` of the device.
pub(super) fn fill(bytes: &mut [u8], place: u64, stamp: Stamp) {
    debug_assert!(place.is_multiple_of(512) && bytes.len().is_multiple_of(SECTOR));
    let first = place / 512;
    for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
        for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&word_of(sector, stamp, i).to_le_bytes());
        }
    }
}

/// Checks whole sectors that begin at byte `place` of the device: each must hold one of the writes that
/// are `allowed`.
pub(super) fn check(bytes: &[u8], place: u64, allowed: &[Stamp]) -> Result<(), String> {
    if allowed.contains(&UNKNOWN) {
        return Ok(());
    }
    let first = place / 512;
    for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
        if !holds(bytes, sector, allowed) {
            return Err(complaint(bytes, sector, allowed));
        }
    }
    Ok(())
}

fn holds(bytes: &[u8], sector: u64, allowed: &[Stamp]) -> bool {
    let stamp = word(bytes, 1) as Stamp;
    let written = stamp >= PREPARED
        && (allowed.contains(&stamp) || allowed.contains(&MIXED))
        && (0..WORDS).all(|i| word(bytes, i) == word_of(sector, stamp, i));
    let zero = allowed.iter().any(|&a| a == ZERO || a == MIXED);
    written || (zero && bytes.iter().all(|&b| b == 0))
}

/// In words that tell a lost write from a damaged sector.
fn complaint(bytes: &[u8], sector: u64, allowed: &[Stamp]) -> String {
    let (found, stamp) = (word(bytes, 0), word(bytes, 1) as Stamp);
    let whole = |sector| (0..WORDS).all(|i| word(bytes, i) == word_of(sector, stamp, i));
    let what = if bytes.iter().all(|&b| b == 0) {
        "zeroes".to_string()
    } else if whole(sector) {
        format!("write {stamp}")
    } else if whole(found) {
        format!("write {stamp} of sector {found}")
    } else {
        "damaged data".to_string()
    };
    let words = |&a: &Stamp| match a {
        NONE => None,
        ZERO => Some("zeroes".to_string()),
        MIXED => Some("any write of this run".to_string()),
        PREPARED => Some("what was laid out before the run".to_string()),
        stamp => Some(format!("write {stamp}")),
    };
    let mut wanted: Vec<String> = allowed.iter().filter_map(words).collect();
    wanted.dedup();
    let wanted = wanted.join(" or ");
    format!("sector {sector} of the device holds {what}; it must hold {wanted}")
}

fn word(bytes: &[u8], i: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes are eight bytes"))
}

/// Word `i` of a sector: the sector, the stamp, then a sequence that both decide.
#[inline]
fn word_of(sector: u64, stamp: Stamp, i: usize) -> u64 {
    match i {
        0 => sector,
        1 => u64::from(stamp),
        _ => {
            let seed = (sector ^ u64::from(stamp) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            seed.wrapping_add((i as u64).wrapping_mul(0xd1b5_4a32_d192_ed03))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wrong_data_is_told_apart() {
        let place = 77 * 512;
        let mut page = vec![0; 4096];
        assert_eq!(check(&page, place, &[ZERO, NONE, NONE, NONE]), Ok(()));
        assert_eq!(check(&page, place, &[UNKNOWN]), Ok(()));
        let told = |page: &[u8], allowed: &[Stamp]| check(page, place, allowed).unwrap_err();
        assert!(told(&page, &[20]).contains("sector 77 of the device holds zeroes"));
        fill(&mut page, place, 20);
        assert_eq!(check(&page, place, &[19, 20]), Ok(()));
        assert_eq!(check(&page, place, &[MIXED]), Ok(()));
        assert!(told(&page, &[21]).contains("holds write 20; it must hold write 21"));
        assert!(told(&page, &[PREPARED]).contains("laid out before"));
        fill(&mut page[1024..1536], 5 * 512, 20);
        assert!(told(&page, &[20]).contains("sector 79 of the device holds write 20 of sector 5"));
        fill(&mut page, place, 20);
        for bit in [0, 70, 8 * 511, 8 * 4095 + 7] {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&page, place, &[20]).is_err() && check(&page, place, &[MIXED]).is_err());
            page[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(check(&page, place, &[20]), Ok(()));
    }
}
