//! Which drive and which machine a run is about, as far as its manifest tells.

use crate::config::{WBT, replaces_wbt, throttled};
use crate::result::{DriveInfo, Manifest};

/// The world whose schedulers are the kernel's.
pub const KERNEL: &str = "kernel";
/// The world without a machine.
pub const SIMULATOR: &str = "sim";

/// A drive in a machine. What is not known is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The world it was measured in.
    pub world: String,
    /// Id of the drive in the runs.
    pub drive: String,
    /// Its title.
    pub title: String,
    /// What it tells of itself: the model.
    pub model: Option<String>,
    /// `hdd`, `sata-ssd`, `nvme`, `mmc`, ...
    pub class: Option<String>,
    /// Hash of its serial number.
    pub serial: Option<String>,
    /// It has to seek.
    pub rotational: Option<bool>,
    /// Random reads per second: as measured before a bench, of a simulated drive as its file has them.
    pub random_reads: Option<u64>,
    /// Bytes.
    pub size: Option<String>,
    /// The kernel's name of it (`nvme0n1`).
    pub queue: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The scheduler that was in force before the run.
    pub present_scheduler: Option<String>,
    /// The configuration that this was, in the words of the runs.
    pub present_config: Option<String>,
    /// Tunables in force then, of the scheduler and of its queue, as `a=1 b=2`.
    pub present_tunables: Option<String>,
    /// `v1`, `v2` or `none`.
    pub cgroup: Option<String>,
    /// Processor.
    pub cpu: Option<String>,
    /// The drive file that the runs were made with; empty: several.
    pub parameters: String,
    /// Name and version of the suite.
    pub suite: Option<String>,
    /// The drive is acted out by the processors that the runs took theirs from.
    pub emulated: bool,
}

impl Identity {
    /// Of a drive of a run.
    pub fn of(manifest: &Manifest, drive: &DriveInfo) -> Identity {
        let row = |name: &str| {
            let of_drive = format!("{name}[{}]", drive.id);
            let rows = &manifest.machine;
            let found = rows.iter().find(|r| r.0 == of_drive);
            let found = found.or_else(|| rows.iter().find(|r| r.0 == name));
            found.map(|r| r.1.clone()).filter(|v| !v.is_empty())
        };
        let parameters: toml::Table = drive.parameters.parse().unwrap_or_default();
        let value = |table: &str, key: &str| parameters.get(table)?.get(key).cloned();
        let modelled = value("identity", "rotational").and_then(|v| v.as_bool());
        let bus = value("host", "bus");
        let derived = modelled.and_then(|r| class_of(r, bus.as_ref()?.as_str()?));
        // What a simulated drive would have in a machine, where the runs do not say it.
        let queues = value("host", "hw_queues").and_then(|v| u64::try_from(v.as_integer()?).ok());
        let usual = queues.map(usual_scheduler).filter(|_| manifest.world == SIMULATOR);
        let told = row("present_scheduler").filter(|name| is_plain(name));
        let config = row("present_config").filter(|name| is_plain(name));
        let usual_config = usual.filter(|_| told.is_none()).map(throttled);
        let measured =
            row("measured_random_reads").and_then(|r| r.strip_suffix("/s")?.parse().ok());
        let of_file =
            value("iocost", "rrandiops").and_then(|v| u64::try_from(v.as_integer()?).ok());
        let flag = |text: String| matches!(text.as_str(), "1" | "yes" | "true");
        Identity {
            world: manifest.world.clone(),
            drive: drive.id.clone(),
            title: drive.name.clone(),
            // What the kernel would call a simulated drive is not known.
            model: row("drive_model").filter(|_| manifest.world != SIMULATOR),
            class: row("drive_class").or(derived.map(str::to_string)),
            serial: row("drive_serial_hash"),
            rotational: row("rotational").map(flag).or(modelled),
            random_reads: measured.or(of_file.filter(|_| manifest.world == SIMULATOR)),
            size: row("size"),
            queue: row("queue").filter(|name| is_plain(name)),
            kernel: row("kernel").map(|k| k.trim_start_matches("Linux ").to_string()),
            present_scheduler: told.or(usual.map(str::to_string)),
            present_config: config.or(usual_config),
            present_tunables: row("present_tunables").filter(|all| all.split(' ').all(is_plain)),
            cgroup: row("cgroup"),
            cpu: row("cpu"),
            parameters: drive.parameters.clone(),
            suite: row("suite"),
            emulated: row("emulated").is_some() || rows_name_an_emulator(&manifest.machine),
        }
    }

    /// What tells drives apart: runs with the same are of the same drive in the same machine.
    pub fn key(&self) -> [Option<&str>; 6] {
        [
            Some(self.world.as_str()),
            Some(self.drive.as_str()),
            self.model.as_deref(),
            self.serial.as_deref(),
            self.queue.as_deref(),
            self.kernel.as_deref(),
        ]
    }

    /// Results are of a model, not of a drive.
    pub fn is_simulated(&self) -> bool {
        self.world == SIMULATOR
    }

    /// The margin of what counts as different (specs/statistics.md 4).
    pub fn margin(&self) -> f64 {
        if self.is_simulated() { 0.03 } else { 0.05 }
    }

    /// Was write-back throttling on? `None`: not known.
    pub fn present_wbt(&self) -> Option<bool> {
        let tunables = self.present_tunables.as_deref().unwrap_or_default();
        let value = tunables.split_whitespace().find_map(|t| t.strip_prefix("wbt_lat_usec="));
        // BFQ has switched it off, which says nothing of the others.
        let named = self.present_config.as_deref().filter(|c| !replaces_wbt(c));
        value.map(|v| v != "0").or_else(|| named.map(|c| c.ends_with(WBT)))
    }

    /// What was in force, as configurations are named.
    pub fn present(&self) -> Option<String> {
        let scheduler = self.present_scheduler.as_deref();
        self.present_config.clone().or_else(|| match self.present_wbt() {
            Some(true) => scheduler.map(throttled),
            _ => scheduler.map(str::to_string),
        })
    }

    /// Name for people.
    pub fn name(&self) -> String {
        let name = self.model.as_deref().unwrap_or(&self.title);
        if name.is_empty() { self.drive.clone() } else { name.trim().to_string() }
    }
}

/// A word that stays one in a line of a shell: it ends up in lines to be run as root, and may have come with the run of
/// somebody else.
pub(super) fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || "._-+:!=".contains(c))
}

/// Runs of versions that had no row of their own for it name the emulator's file in the chain of devices.
fn rows_name_an_emulator(rows: &[(String, String)]) -> bool {
    let file = "(backing file /run/hoistway/emulate/";
    rows.iter().any(|(name, value)| name == "chain" && value.contains(file))
}

/// The class of a drive file's drive, in the words that real drives have; `None`: it stands for none of them.
pub fn class_of(rotational: bool, bus: &str) -> Option<&'static str> {
    Some(match (rotational, bus) {
        (_, "usb") => "usb",
        (true, _) => "hdd",
        (_, "sata" | "pata") => "sata-ssd",
        (_, "nvme") => "nvme",
        (_, "emmc") => "mmc",
        (_, "sd") => "sd-card",
        (_, "virtio") => "virtio",
        _ => return None,
    })
}

/// The scheduler that Linux gives a drive when nobody says anything: mq-deadline where there is one hardware queue,
/// none where there are several.
pub fn usual_scheduler(hw_queues: u64) -> &'static str {
    if hw_queues == 1 { "mq-deadline" } else { "none" }
}
