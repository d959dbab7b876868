//! What is benched: a simulated drive, and what is assumed of drives before they are measured.

use super::plan::{BenchSubject, Rates};
use super::suite;
use crate::config::throttled;
use crate::recommend::identity;
use hoistway::Nanos;
use hoistway_sim::drive::DriveFile;

/// Rates by class: MB/s of sequential reads and writes that a drive of the class has at least about. For
/// plans; nothing is judged by them.
const CLASSES: &[(&str, u64, u64)] = &[
    ("hdd", 120, 110),
    ("sata-ssd", 500, 400),
    ("nvme", 2500, 1500),
    ("mmc", 150, 50),
    ("sd-card", 40, 15),
    ("usb", 100, 30),
    ("virtio", 500, 300),
];

/// What is assumed of a drive of a class, or of any.
pub fn rates_of(class: &str) -> Rates {
    let known = CLASSES.iter().find(|c| c.0 == class);
    let (read, write) = known.map_or((300, 200), |c| (c.1, c.2));
    Rates { read: read * 1_000_000, write: write * 1_000_000 }
}

/// A drive on which runs cost nothing but their time.
pub fn simulated(drive: &DriveFile) -> BenchSubject {
    // Test devices answer at once; no plan needs more than a fast NVMe's rate.
    let most = 10_000_000_000;
    BenchSubject {
        drive: drive.clone(),
        rates: Rates { read: drive.iocost.rbps.min(most), write: drive.iocost.wbps.min(most) },
        overhead: Nanos::ZERO,
        real: false,
        wears: false,
        prepares: false,
    }
}

/// The class of a simulated drive, in the words that real ones have.
pub fn class_of(drive: &DriveFile) -> &'static str {
    identity::class_of(drive.identity.rotational, &drive.host.bus).unwrap_or("other")
}

/// The scheduler that Linux gives a simulated drive when nobody says anything.
pub fn usual_scheduler(drive: &DriveFile) -> &'static str {
    identity::usual_scheduler(drive.host.hw_queues.into())
}

/// Random reads per second that no disk reaches, with two heads and a deep queue.
pub const DISK_MAX: u64 = 2_000;

/// A drive as it reads, whatever it calls itself: many virtual disks call themselves rotational, and what is planned
/// for a disk wastes the time of a bench on them. With a line about it where that differs.
pub fn as_it_reads(drive: &DriveFile, random_reads: u64) -> (DriveFile, Option<String>) {
    let mut drive = drive.clone();
    if !drive.identity.rotational || random_reads <= DISK_MAX {
        return (drive, None);
    }
    drive.identity.rotational = false;
    let what = "it calls itself rotational, and reads";
    (drive, Some(format!("{what} {random_reads} times per second at random: planned as flash")))
}

/// Rows for the manifests of every bench.
pub fn suite_rows(level: &str) -> Vec<(String, String)> {
    vec![("suite".into(), suite::name()), ("bench".into(), level.into())]
}

/// What the manifests say of a simulated drive: the rows that a real one has.
pub fn rows_of(drive: &DriveFile) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_string(), value);
    vec![
        row("drive_model", drive.name.clone()),
        row("drive_class", class_of(drive).into()),
        row("rotational", u8::from(drive.identity.rotational).to_string()),
        row("size", drive.identity.capacity_bytes.to_string()),
        row("hardware_queues", drive.host.hw_queues.to_string()),
        row("present_scheduler", usual_scheduler(drive).into()),
        row("present_config", throttled(usual_scheduler(drive))),
    ]
}
