//! The settings that are tried.

use std::fmt;

/// The scheduler with targets.
const SCHEDULER: &str = "slo-paternoster";

/// What stays as it is during a run. What is not set is learnt, or as usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedSetting {
    /// Greedy work inside the drive, in units, and the largest greedy request in KiB.
    Valve(u64, u64),
    /// Percent of the greedy work that targets may cost in changes of place.
    LanePart(u64),
}

impl fmt::Display for FixedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FixedSetting::Valve(valve, cut) => write!(f, "valve={valve},cut={cut}"),
            FixedSetting::LanePart(percent) => write!(f, "lane_part={percent}"),
        }
    }
}

impl FixedSetting {
    /// The configuration: targets may take what they want, so that the others' loss is the setting's.
    pub fn config(&self) -> String {
        format!("{SCHEDULER}{{{self},others_loss=1000}}")
    }
}

/// As far as a request may go anyhow.
const UNCUT: u64 = 65_536;

const FLASH: &[FixedSetting] = &[
    FixedSetting::Valve(8, 32),
    FixedSetting::Valve(8, 128),
    FixedSetting::Valve(14, 32),
    FixedSetting::Valve(14, 128),
    FixedSetting::Valve(24, 32),
    FixedSetting::Valve(24, 128),
    FixedSetting::Valve(40, 32),
    FixedSetting::Valve(40, 128),
    FixedSetting::Valve(64, 32),
    FixedSetting::Valve(64, 128),
    FixedSetting::Valve(96, 32),
    FixedSetting::Valve(96, 128),
    FixedSetting::Valve(160, 32),
    FixedSetting::Valve(160, 128),
    FixedSetting::Valve(40, UNCUT),
    FixedSetting::Valve(256, UNCUT),
];

/// Beside streams a disk has no valve: what counts is how often the head goes away from them. Beside random readers it has.
const DISK: &[FixedSetting] = &[
    FixedSetting::LanePart(0),
    FixedSetting::LanePart(1),
    FixedSetting::LanePart(2),
    FixedSetting::LanePart(3),
    FixedSetting::LanePart(4),
    FixedSetting::LanePart(6),
    FixedSetting::LanePart(8),
    FixedSetting::LanePart(12),
    FixedSetting::LanePart(16),
    FixedSetting::LanePart(24),
    FixedSetting::LanePart(32),
    FixedSetting::LanePart(50),
    FixedSetting::Valve(8, UNCUT),
    FixedSetting::Valve(24, UNCUT),
    FixedSetting::Valve(64, UNCUT),
    FixedSetting::Valve(160, UNCUT),
];

/// Those for a drive.
pub(super) fn of(rotational: bool) -> &'static [FixedSetting] {
    if rotational { DISK } else { FLASH }
}
