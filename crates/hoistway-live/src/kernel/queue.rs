//! A device's queue: the schedulers it offers, its settings, and what drive lies behind it.

use super::chain::file_name;
use super::{System, line};
use crate::LiveError;
use crate::error::os;
use std::fs;
use std::path::{Path, PathBuf};

/// A queue that schedules.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Its kernel name: `sda`.
    pub name: String,
    /// `/sys/block/NAME`, as sysfs resolves it.
    pub folder: PathBuf,
    /// `8:0`, as cgroup files want it.
    pub number: String,
    system: System,
}

/// What drive it is. What the kernel does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// As the drive calls itself.
    pub model: Option<String>,
    /// Its maker.
    pub vendor: Option<String>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// SHA-256 of its serial number, in hexadecimal: the number itself stays on the machine.
    pub serial_hash: Option<String>,
    /// `hdd`, `sata-ssd`, `sata-hdd`, `nvme`, `mmc`, `usb`, `virtio`, `loop`, ...
    pub class: String,
    /// As the kernel sees it.
    pub rotational: Option<bool>,
    /// Size.
    pub bytes: u64,
    /// Hardware queues.
    pub hardware_queues: u32,
    /// Tags of the driver, per hardware queue.
    pub tags: Option<u64>,
    /// Logical block size.
    pub block_bytes: Option<u64>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
}

/// Counters of a device since the machine was started (`/sys/block/NAME/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diskstats {
    /// Reads that ended.
    pub reads: u64,
    /// Bios that joined another as reads.
    pub read_merges: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of all reads, in ms.
    pub read_ms: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bios that joined another as writes.
    pub write_merges: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time of all writes, in ms.
    pub write_ms: u64,
    /// Requests that are under way.
    pub in_flight: u64,
    /// Time with a request under way, in ms.
    pub busy_ms: u64,
    /// Time of all requests, in ms.
    pub queue_ms: u64,
    /// Discards that ended.
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Flushes that ended; 0 before Linux 5.5.
    pub flushes: u64,
    /// Time of all flushes, in ms.
    pub flush_ms: u64,
}

impl Queue {
    /// The queue of a disk's folder in sysfs.
    pub fn new(system: &System, folder: &Path) -> Result<Queue, LiveError> {
        let dev = folder.join("dev");
        let number = fs::read_to_string(&dev).map_err(os(dev.display().to_string()))?;
        Ok(Queue {
            name: file_name(folder),
            folder: folder.into(),
            number: number.trim().into(),
            system: system.clone(),
        })
    }

    /// The queue of that kernel name.
    pub fn by_name(system: &System, name: &str) -> Result<Queue, LiveError> {
        let entry = system.path(&format!("/sys/block/{name}"));
        let folder = fs::canonicalize(&entry).map_err(os(entry.display().to_string()))?;
        Queue::new(system, &folder)
    }

    /// Schedulers that can be chosen without loading a module.
    pub fn schedulers(&self) -> Result<Vec<String>, LiveError> {
        let text = self.read("queue/scheduler")?;
        Ok(text.split_whitespace().map(|word| word.trim_matches(['[', ']']).into()).collect())
    }

    /// The one in force.
    pub fn scheduler(&self) -> Result<String, LiveError> {
        let text = self.read("queue/scheduler")?;
        let chosen = text.split_whitespace().find(|word| word.starts_with('['));
        // A device without a choice prints `none`.
        Ok(chosen.unwrap_or(text.trim()).trim_matches(['[', ']']).into())
    }

    /// Tunables of the scheduler in force (`queue/iosched/*`), by name.
    pub fn tunables(&self) -> Result<Vec<(String, String)>, LiveError> {
        let folder = self.folder.join("queue/iosched");
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
        let mut rows: Vec<(String, String)> = entries
            .flatten()
            .filter_map(|entry| Some((file_name(&entry.path()), line(&entry.path())?)))
            .collect();
        rows.sort();
        Ok(rows)
    }

    /// A file of `queue/`, such as `nr_requests`; `None` if there is none, or it cannot be read.
    pub fn attribute(&self, name: &str) -> Option<String> {
        line(&self.attribute_file(name))
    }

    /// Its path.
    pub fn attribute_file(&self, name: &str) -> PathBuf {
        self.folder.join("queue").join(name)
    }

    /// The path of a tunable of the scheduler in force.
    pub fn tunable_file(&self, name: &str) -> PathBuf {
        self.folder.join("queue/iosched").join(name)
    }

    /// What drive it is.
    pub fn identity(&self) -> Identity {
        let attribute = |name: &str| self.attribute(name);
        let number = |name: &str| self.attribute(name).and_then(|v| v.parse::<u64>().ok());
        let device = |name: &str| {
            let text = line(&self.folder.join("device").join(name))?.trim().to_string();
            (!text.is_empty()).then_some(text)
        };
        let sectors = line(&self.folder.join("size")).and_then(|v| v.parse::<u64>().ok());
        Identity {
            model: device("model").or_else(|| device("name")),
            vendor: device("vendor"),
            firmware: device("firmware_rev").or_else(|| device("rev")).or_else(|| device("fwrev")),
            serial_hash: None,
            class: "unknown".into(),
            rotational: attribute("rotational").map(|v| v == "1"),
            bytes: sectors.unwrap_or(0) * 512,
            hardware_queues: super::chain::folders(&self.folder.join("mq")).len() as u32,
            tags: self.tags(),
            block_bytes: number("logical_block_size"),
            write_cache: attribute("write_cache"),
        }
    }

    /// Tags of the driver, per hardware queue; what `nr_requests` resizes under scheduler `none`.
    pub fn tags(&self) -> Option<u64> {
        line(&self.folder.join("mq/0/nr_tags"))?.parse().ok()
    }

    /// Counters since the machine was started.
    pub fn diskstats(&self) -> Result<Diskstats, LiveError> {
        let text = self.read("stat")?;
        let n: Vec<u64> = text.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let at = |index: usize| n.get(index).copied().unwrap_or(0);
        if n.len() < 11 {
            return Err(LiveError::Refused(format!("{}/stat: '{text}'", self.folder.display())));
        }
        Ok(Diskstats {
            reads: at(0),
            read_merges: at(1),
            read_bytes: at(2) * 512,
            read_ms: at(3),
            writes: at(4),
            write_merges: at(5),
            write_bytes: at(6) * 512,
            write_ms: at(7),
            in_flight: at(8),
            busy_ms: at(9),
            queue_ms: at(10),
            discards: at(11),
            discard_bytes: at(13) * 512,
            flushes: at(15),
            flush_ms: at(16),
        })
    }

    /// Why a scheduler cannot be chosen here.
    pub fn lacks(&self, scheduler: &str) -> Option<super::Lack> {
        let offered = self.schedulers().unwrap_or_default();
        (!offered.iter().any(|s| s == scheduler)).then(|| {
            super::Lack::new(
                format!("scheduler {scheduler}"),
                format!("{} offers {}", self.name, offered.join(", ")),
                String::new(),
            )
        })
    }

    /// Where it reads from.
    pub fn system(&self) -> &System {
        &self.system
    }

    fn read(&self, name: &str) -> Result<String, LiveError> {
        let file = self.folder.join(name);
        let text = fs::read_to_string(&file).map_err(os(file.display().to_string()))?;
        Ok(text.trim_end().into())
    }
}
