//! Readings of a run's counters: the device's, the processors', the emulated drive's.

use super::{Diskstats, Lateness};
#[cfg(feature = "fuse")]
pub(super) use crate::emulator::lateness;
use hoistway::Instant;

/// Time of all processors, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MachineTime {
    pub busy: u64,
    /// In softirqs and interrupts, among that.
    pub interrupts: u64,
    pub idle: u64,
}

impl MachineTime {
    pub fn now() -> MachineTime {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0) * 10_000_000;
        // user, nice, system, idle, iowait, irq, softirq, in hundredths of a second.
        MachineTime {
            busy: at(0) + at(1) + at(2) + at(5) + at(6),
            interrupts: at(5) + at(6),
            idle: at(3) + at(4),
        }
    }

    pub fn since(&self, then: &MachineTime) -> MachineTime {
        MachineTime {
            busy: self.busy.saturating_sub(then.busy),
            interrupts: self.interrupts.saturating_sub(then.interrupts),
            idle: self.idle.saturating_sub(then.idle),
        }
    }
}

/// A reading of all counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    pub at: Instant,
    pub device: Diskstats,
    /// Commands of the device when the processors' times were read.
    pub commands: u64,
    pub workers: u64,
    pub machine: MachineTime,
    /// Of an emulated drive.
    pub late: Option<Lateness>,
}

/// Without FUSE this program acts out no drive.
#[cfg(not(feature = "fuse"))]
pub(super) fn lateness(_place: &super::Volume) -> Option<Lateness> {
    None
}

pub(super) fn bytes_of(device: &Diskstats) -> u64 {
    device.read_bytes + device.write_bytes
}

pub(super) fn commands_of(device: &Diskstats) -> u64 {
    device.reads + device.writes + device.flushes
}
