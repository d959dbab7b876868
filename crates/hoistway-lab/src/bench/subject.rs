//! What is benched: a simulated drive, and what is assumed of drives before they are measured.

use super::plan::{Rates, Subject};
use super::suite;
use hoistway::Nanos;
use hoistway_sim::drive::DriveFile;

/// Rates by class: MB/s of sequential reads and writes that a drive of the class has at least about. For
/// plans; nothing is judged by them.
const CLASSES: &[(&str, u64, u64)] = &[
    ("hdd", 120, 110),
    ("sata-ssd", 500, 400),
    ("nvme", 2500, 1500),
    ("mmc", 150, 50),
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
pub fn simulated(drive: &DriveFile) -> Subject {
    // Test devices answer at once; no plan needs more than a fast NVMe's rate.
    let most = 10_000_000_000;
    Subject {
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
    match (drive.identity.rotational, drive.host.bus.as_str()) {
        (true, _) => "hdd",
        (_, "nvme") => "nvme",
        (_, "sata") => "sata-ssd",
        (_, "usb") => "usb",
        (_, "emmc" | "sd") => "mmc",
        (_, "virtio") => "virtio",
        _ => "other",
    }
}

/// The scheduler that Linux gives a drive when nobody says anything: mq-deadline where there is one hardware queue,
/// none where there are several.
pub fn usual_scheduler(drive: &DriveFile) -> &'static str {
    if drive.host.hw_queues == 1 { "mq-deadline" } else { "none" }
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
    ]
}
