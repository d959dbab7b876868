//! The queue of the loop device is made like the drive's: what the block layer above sees of it.
//!
//! The order matters. With scheduler `none` a write to `nr_requests` resizes the tags of the driver itself, which stay
//! when a scheduler is chosen later: so `none` comes first, and the present scheduler comes back last.

use crate::MachineError;
use crate::kernel::loopdev::LoopDevice;
use hoistway_sim::drive::DriveFile;
use std::fs;
use std::path::PathBuf;

/// One property of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// Name of the file in /sys/block/NAME/queue, or what there is no file for.
    pub name: &'static str,
    /// As the drive has it.
    pub wanted: String,
    /// As it is.
    pub found: String,
    /// What stands between the two, and what it means; empty if they are the same.
    pub note: String,
}

impl QueueRow {
    /// It is as the drive's.
    pub fn holds(&self) -> bool {
        self.wanted == self.found
    }
}

/// What the kernel makes of a disk's read-ahead when nobody says anything: 128 KiB.
const READ_AHEAD_KIB: u64 = 128;

/// Sets what can be set, and says how it stands. `carried`: bytes that FUSE carries in one piece.
///
/// # Errors
///
/// Another read-ahead is in force than was written: sequential readers would be another load.
pub(super) fn set_up(
    device: &LoopDevice,
    drive: &DriveFile,
    carried: u64,
) -> Result<Vec<QueueRow>, MachineError> {
    let queue = Files(PathBuf::from(format!("/sys/block/{}/queue", device.name())));
    let seen = drive.device();
    let mut rows = Vec::new();
    let before = queue.scheduler();
    let _ = queue.write("scheduler", "none");
    rows.push(depth(&queue, drive.host.queue_depth));
    if let Some(before) = before.filter(|name| name != "none") {
        let _ = queue.write("scheduler", &before);
    }
    rows.push(queue.set("rotational", u8::from(seen.rotational).to_string(), || {
        "Linux before 6.11, or as built, refuses it; schedulers that look at it take the other kind".into()
    }));
    // The default of write-back throttling depends on that flag: -1 asks for it anew.
    let _ = queue.write("wbt_lat_usec", "-1");
    rows.push(largest(&queue, seen.max_sectors.0 / 2, carried));
    rows.push(queue.set("write_cache", cache(seen.write_cache).into(), || {
        "flushes are sent, and cost what the model says".into()
    }));
    rows.push(discard(&queue, seen.max_discard_sectors.0 * 512));
    rows.push(queue.see(
        "logical_block_size",
        drive.identity.sector_bytes.to_string(),
        String::new(),
    ));
    let fua = "the block layer follows such a write by a flush".to_string();
    rows.push(queue.see("fua", u8::from(seen.fua).to_string(), fua));
    let queues = queue.hardware_queues();
    rows.push(QueueRow {
        name: "hardware queues",
        wanted: drive.host.hw_queues.to_string(),
        found: queues.to_string(),
        note: note(u64::from(drive.host.hw_queues) == queues, "the loop driver has one".into()),
    });
    // Last: a write to `max_sectors_kb` makes it twice that (Linux 6.18).
    let ahead = queue.set("read_ahead_kb", READ_AHEAD_KIB.to_string(), String::new);
    if !ahead.holds() {
        return Err(MachineError::Refused(format!(
            "{}: read_ahead_kb is {} although {READ_AHEAD_KIB} was written: {}",
            device.name(),
            ahead.found,
            ahead.note
        )));
    }
    rows.insert(2, ahead);
    Ok(rows)
}

fn cache(on: bool) -> &'static str {
    if on { "write back" } else { "write through" }
}

fn note(same: bool, text: String) -> String {
    if same { String::new() } else { text }
}

/// The tags of the driver, which is none but `nr_requests` while there is no scheduler.
fn depth(queue: &Files, wanted: u32) -> QueueRow {
    let had = queue.read("nr_requests").parse().unwrap_or(0);
    let _ = queue.write("nr_requests", &wanted.min(had).to_string());
    let found = queue.read("nr_requests");
    let same = found == wanted.to_string();
    let text = match wanted < had {
        true => "the kernel allows no fewer; the emulator holds the others back itself".into(),
        false => format!(
            "the loop driver has no more tags (its parameter hw_queue_depth: {had}, read at boot)"
        ),
    };
    QueueRow { name: "queue depth", wanted: wanted.to_string(), found, note: note(same, text) }
}

/// The largest request, which must reach the drive in one piece.
fn largest(queue: &Files, wanted: u64, carried: u64) -> QueueRow {
    let hard: u64 = queue.read("max_hw_sectors_kb").parse().unwrap_or(wanted);
    let value = wanted.min(carried / 1024).min(hard);
    let _ = queue.write("max_sectors_kb", &value.to_string());
    let found = queue.read("max_sectors_kb");
    let text = format!(
        "{} KiB is what FUSE carries in one piece, {hard} KiB the loop driver's limit",
        carried / 1024
    );
    let same = found == wanted.to_string();
    QueueRow { name: "max_sectors_kb", wanted: wanted.to_string(), found, note: note(same, text) }
}

fn discard(queue: &Files, wanted: u64) -> QueueRow {
    let hard: u64 = queue.read("discard_max_hw_bytes").parse().unwrap_or(0);
    let value = wanted.min(hard);
    queue.set("discard_max_bytes", value.to_string(), String::new)
}

/// The files of one queue.
struct Files(PathBuf);

impl Files {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).map(|t| t.trim().to_string()).unwrap_or_default()
    }

    fn write(&self, name: &str, value: &str) -> std::io::Result<()> {
        fs::write(self.0.join(name), value)
    }

    /// The scheduler in force.
    fn scheduler(&self) -> Option<String> {
        let text = self.read("scheduler");
        let name = text.split_whitespace().find_map(|w| w.strip_prefix('[')?.strip_suffix(']'));
        name.map(String::from)
    }

    fn set(
        &self,
        name: &'static str,
        wanted: String,
        meaning: impl FnOnce() -> String,
    ) -> QueueRow {
        let written = self.write(name, &wanted);
        let found = self.read(name);
        let text = match written {
            Err(error) => format!("not set ({error}); {}", meaning()),
            Ok(()) => format!("the kernel keeps its own value; {}", meaning()),
        };
        let text = text.trim_end_matches("; ").to_string();
        QueueRow { note: note(found == wanted, text), name, wanted, found }
    }

    fn see(&self, name: &'static str, wanted: String, meaning: String) -> QueueRow {
        let found = self.read(name);
        QueueRow { note: note(found == wanted, meaning), name, wanted, found }
    }

    fn hardware_queues(&self) -> u64 {
        let folder = self.0.parent().map(|p| p.join("mq"));
        let entries = folder.and_then(|f| fs::read_dir(f).ok());
        entries.map_or(0, |e| e.flatten().count() as u64)
    }
}
