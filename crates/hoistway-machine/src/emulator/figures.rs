//! How late an emulated drive is, for whoever measures on it: a file `figures` beside the drive's, read on demand.
//!
//! An emulator that is late is not the drive any more. Only its own process knows, and whoever measures needs it for
//! the span of one run, so counts since the start are told, of which the reader takes the difference of two readings.

use crate::kernel::{Lateness, Volume};
use std::fs;

/// Name of the file; no drive has it.
pub(super) const FILE: &str = "figures";

pub(super) fn text(told: &Lateness) -> String {
    format!("modelled_ns {}\nlate_ns {}\n", told.modelled_ns, told.late_ns)
}

fn parse(text: &str) -> Option<Lateness> {
    let of = |name: &str| {
        let rows = text.lines().filter_map(|line| line.split_once(' '));
        rows.filter(|(key, _)| *key == name).find_map(|(_, n)| n.parse().ok())
    };
    Some(Lateness { modelled_ns: of("modelled_ns")?, late_ns: of("late_ns")? })
}

/// Of all drives of a place; `None`: not all of its storage is acted out, or an emulator is gone.
pub(crate) fn lateness(place: &Volume) -> Option<Lateness> {
    let mut sum = Lateness::default();
    for file in super::drive_files(place)? {
        let one = parse(&fs::read_to_string(file.with_file_name(FILE)).ok()?)?;
        sum.modelled_ns += one.modelled_ns;
        sum.late_ns += one.late_ns;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_and_the_difference_taken() {
        let then = Lateness { modelled_ns: 100, late_ns: 7 };
        let now = Lateness { modelled_ns: 460, late_ns: 19 };
        assert_eq!(parse(&text(&now)), Some(now));
        assert_eq!(now.since(&then), Lateness { modelled_ns: 360, late_ns: 12 });
        assert_eq!(parse("modelled_ns 460\n"), None);
    }
}
