//! The settings that are tried.

use std::fmt;

/// The scheduler with targets.
const SCHEDULER: &str = "slo-paternoster";

/// What stays as it is during a run. What is not set is learnt, or as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Greedy work inside the drive, in units, and the largest greedy request in KiB.
    Valve(u64, u64),
    /// Percent of the greedy work that targets may cost in changes of place.
    LanePart(u64),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Valve(valve, cut) => write!(f, "valve={valve},cut={cut}"),
            Setting::LanePart(percent) => write!(f, "lane_part={percent}"),
        }
    }
}

impl Setting {
    /// The configuration: targets may take what they want, so that the others' loss is the setting's.
    pub fn config(&self) -> String {
        format!("{SCHEDULER}{{{self},others_loss=1000}}")
    }
}

/// As far as a request may go anyhow.
const UNCUT: u64 = 65_536;

const FLASH: &[Setting] = &[
    Setting::Valve(8, 32),
    Setting::Valve(8, 128),
    Setting::Valve(14, 32),
    Setting::Valve(14, 128),
    Setting::Valve(24, 32),
    Setting::Valve(24, 128),
    Setting::Valve(40, 32),
    Setting::Valve(40, 128),
    Setting::Valve(64, 32),
    Setting::Valve(64, 128),
    Setting::Valve(96, 32),
    Setting::Valve(96, 128),
    Setting::Valve(160, 32),
    Setting::Valve(160, 128),
    Setting::Valve(40, UNCUT),
    Setting::Valve(256, UNCUT),
];

/// Beside streams a disk has no valve: what counts is how often the head goes away from them. Beside random readers it has.
const DISK: &[Setting] = &[
    Setting::LanePart(0),
    Setting::LanePart(1),
    Setting::LanePart(2),
    Setting::LanePart(3),
    Setting::LanePart(4),
    Setting::LanePart(6),
    Setting::LanePart(8),
    Setting::LanePart(12),
    Setting::LanePart(16),
    Setting::LanePart(24),
    Setting::LanePart(32),
    Setting::LanePart(50),
    Setting::Valve(8, UNCUT),
    Setting::Valve(24, UNCUT),
    Setting::Valve(64, UNCUT),
    Setting::Valve(160, UNCUT),
];

/// Those for a drive.
pub(super) fn of(rotational: bool) -> &'static [Setting] {
    if rotational { DISK } else { FLASH }
}
