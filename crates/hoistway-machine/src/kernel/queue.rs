//! A device's queue: the schedulers it offers, its settings, and what drive lies behind it.

use super::chain::file_name;
use super::{Lack, System, line};
use crate::MachineError;
use crate::os;
use std::fs;
use std::os::unix::fs::PermissionsExt;
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

impl Diskstats {
    /// Time with a request under way and time of all requests since then, in ms. The kernel counts them in 32 bits
    /// (its iostats.rst): where 32 requests are always under way, their time goes back to 0 every day and a half.
    pub fn times_since(&self, then: &Diskstats) -> [u64; 2] {
        let since = |now: u64, then: u64| now.wrapping_sub(then) & u64::from(u32::MAX);
        [since(self.busy_ms, then.busy_ms), since(self.queue_ms, then.queue_ms)]
    }

    /// Each counter of both, by `f`.
    fn each(&self, other: &Diskstats, f: impl Fn(u64, u64) -> u64) -> Diskstats {
        Diskstats {
            reads: f(self.reads, other.reads),
            read_merges: f(self.read_merges, other.read_merges),
            read_bytes: f(self.read_bytes, other.read_bytes),
            read_ms: f(self.read_ms, other.read_ms),
            writes: f(self.writes, other.writes),
            write_merges: f(self.write_merges, other.write_merges),
            write_bytes: f(self.write_bytes, other.write_bytes),
            write_ms: f(self.write_ms, other.write_ms),
            in_flight: f(self.in_flight, other.in_flight),
            busy_ms: f(self.busy_ms, other.busy_ms),
            queue_ms: f(self.queue_ms, other.queue_ms),
            discards: f(self.discards, other.discards),
            discard_bytes: f(self.discard_bytes, other.discard_bytes),
            flushes: f(self.flushes, other.flushes),
            flush_ms: f(self.flush_ms, other.flush_ms),
        }
    }

    /// Of both devices together.
    pub fn plus(&self, other: &Diskstats) -> Diskstats {
        self.each(other, |a, b| a + b)
    }

    /// Between this reading and a `later` one, if all grew evenly: `part` of the time (0 to 1) has gone by.
    pub fn towards(&self, later: &Diskstats, part: f64) -> Diskstats {
        let between = |a: u64, b: u64| a + (b.saturating_sub(a) as f64 * part).round() as u64;
        let [busy_ms, queue_ms] = later.times_since(self);
        let mut at = self.each(later, between);
        at.busy_ms = self.busy_ms + (busy_ms as f64 * part).round() as u64;
        at.queue_ms = self.queue_ms + (queue_ms as f64 * part).round() as u64;
        at.in_flight = later.in_flight;
        at
    }
}

impl Queue {
    /// The queue of a disk's folder in sysfs.
    pub fn new(system: &System, folder: &Path) -> Result<Queue, MachineError> {
        let dev = folder.join("dev");
        let number = fs::read_to_string(&dev).map_err(os(dev.display().to_string()))?;
        Ok(Queue {
            name: file_name(folder),
            folder: folder.into(),
            number: number.trim().into(),
            system: system.clone(),
        })
    }

    /// Its number, and those of its partitions.
    pub fn numbers(&self) -> Vec<String> {
        let parts = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let parts = parts.filter(|entry| entry.path().join("partition").exists());
        let parts = parts.filter_map(|entry| super::line(&entry.path().join("dev")));
        std::iter::once(self.number.clone()).chain(parts).collect()
    }

    /// The queue of that kernel name.
    pub fn by_name(system: &System, name: &str) -> Result<Queue, MachineError> {
        let entry = system.path(&format!("/sys/block/{name}"));
        let folder = fs::canonicalize(&entry).map_err(os(entry.display().to_string()))?;
        Queue::new(system, &folder)
    }

    /// Schedulers that can be chosen without loading a module.
    pub fn schedulers(&self) -> Result<Vec<String>, MachineError> {
        let text = self.read("queue/scheduler")?;
        Ok(text.split_whitespace().map(|word| word.trim_matches(['[', ']']).into()).collect())
    }

    /// The one in force.
    pub fn scheduler(&self) -> Result<String, MachineError> {
        let text = self.read("queue/scheduler")?;
        let chosen = text.split_whitespace().find(|word| word.starts_with('['));
        // A device without a choice prints `none`.
        Ok(chosen.unwrap_or(text.trim()).trim_matches(['[', ']']).into())
    }

    /// What a scheduler is called here, where hoistway's module may have it under a name of its own.
    pub fn called<'a>(&self, scheduler: &'a str) -> &'a str {
        let offered = self.schedulers().unwrap_or_default();
        super::ours::name_here(scheduler, &offered).unwrap_or(scheduler)
    }

    /// Tunables of the scheduler in force (`queue/iosched/*`), by name.
    pub fn tunables(&self) -> Result<Vec<(String, String)>, MachineError> {
        let folder = self.folder.join("queue/iosched");
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
        // What cannot be written tells of its state.
        let settable = |entry: &fs::DirEntry| {
            entry.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o200 != 0)
        };
        let mut files: Vec<PathBuf> =
            entries.flatten().filter(settable).map(|entry| entry.path()).collect();
        if self.scheduler()? == MQ_DEADLINE {
            files.extend(moved_tunable(&self.folder.join("queue"), ASYNC_DEPTH));
        }
        let row = |file: &PathBuf| Some((file_name(file), line(file)?));
        let mut rows: Vec<(String, String)> = files.iter().filter_map(row).collect();
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
        let queue = self.folder.join("queue");
        moved_tunable(&queue, name).unwrap_or_else(|| queue.join("iosched").join(name))
    }

    /// What drive it is.
    pub fn identity(&self) -> Identity {
        let number = |name: &str| self.attribute(name).and_then(|v| v.parse::<u64>().ok());
        let device = |name: &str| {
            let text = line(&self.folder.join("device").join(name))?.trim().to_string();
            (!text.is_empty()).then_some(text)
        };
        let sectors = line(&self.folder.join("size")).and_then(|v| v.parse::<u64>().ok());
        let rotational = self.attribute("rotational").map(|v| v == "1");
        let model = device("model").or_else(|| device("name"));
        Identity {
            serial_hash: self.serial().map(|serial| hash(model.as_deref(), &serial)),
            model,
            vendor: device("vendor"),
            firmware: device("firmware_rev").or_else(|| device("rev")).or_else(|| device("fwrev")),
            class: class(&self.name, &self.folder, rotational),
            rotational,
            bytes: sectors.unwrap_or(0) * 512,
            hardware_queues: super::chain::folders(&self.folder.join("mq")).len() as u32,
            tags: self.tags(),
            block_bytes: number("logical_block_size"),
            write_cache: self.attribute("write_cache"),
        }
    }

    /// Tags that the driver allocated, per hardware queue.
    pub fn tags(&self) -> Option<u64> {
        line(&self.folder.join("mq/0/nr_tags"))?.parse().ok()
    }

    /// Of these, how many are in use: what `nr_requests` resizes under scheduler `none`, and what stays when
    /// another is chosen. Only debugfs tells; `None` if it cannot be reached.
    pub fn depth(&self) -> Option<u64> {
        super::debug::depth(&self.system, &self.name)
    }

    /// The drive's serial number, which stays within this function's callers here.
    fn serial(&self) -> Option<Vec<u8>> {
        let files = ["serial", "device/serial", "device/wwid", "wwid"];
        let text = files.iter().find_map(|f| line(&self.folder.join(f)).filter(|t| !t.is_empty()));
        if let Some(text) = text {
            return Some(text.trim().as_bytes().to_vec());
        }
        // SCSI and ATA: the page of vital product data has a head of 4 bytes.
        let page = fs::read(self.folder.join("device/vpd_pg80")).ok()?;
        page.get(4..).filter(|serial| !serial.is_empty()).map(<[u8]>::to_vec)
    }

    /// Counters since the machine was started.
    pub fn diskstats(&self) -> Result<Diskstats, MachineError> {
        let text = self.read("stat")?;
        let n: Vec<u64> = text.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let at = |index: usize| n.get(index).copied().unwrap_or(0);
        if n.len() < 11 {
            return Err(MachineError::Refused(format!("{}/stat: '{text}'", self.folder.display())));
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
    pub fn lacks(&self, scheduler: &str) -> Option<Lack> {
        let offered = self.schedulers().unwrap_or_default();
        if super::ours::name_here(scheduler, &offered).is_some() {
            return None;
        }
        let ours = super::ours::remedy(&self.system, scheduler);
        let or = |other: &str| match &ours {
            Some(ours) => format!("{ours}; or {other}"),
            None => other.to_string(),
        };
        let what = format!("scheduler {scheduler}");
        let module = MODULES.iter().find(|(name, ..)| *name == scheduler);
        Some(match module {
            Some((_, module, option)) if has_module(&self.system, |name| name == *module) => {
                Lack::new(
                    what,
                    format!("its module is not loaded ({option}=m)"),
                    format!("modprobe {module}"),
                )
            }
            Some((_, _, option)) => Lack::new(
                what,
                format!(
                    "this kernel does not have it; {} offers {}",
                    self.name,
                    offered.join(", ")
                ),
                or(&format!("needs a kernel with {option}")),
            ),
            None if LEGACY.contains(&scheduler) => Lack::new(
                what,
                "it belongs to the legacy block layer, which Linux 5.0 took out",
                or("compare it in the simulator: --on sim"),
            ),
            None => Lack::new(
                what,
                format!(
                    "no such scheduler in this kernel; {} offers {}",
                    self.name,
                    offered.join(", ")
                ),
                or(
                    "compare it in the simulator (--on sim) or on real storage by our stack (--on engine)",
                ),
            ),
        })
    }

    /// Why a file of `queue/` cannot be set here.
    pub fn lacks_attribute(&self, name: &str) -> Option<Lack> {
        if self.attribute(name).is_some() {
            return None;
        }
        let (why, remedy) = match name {
            "wbt_lat_usec" => {
                ("the kernel has no write-back throttling here", "needs CONFIG_BLK_WBT")
            }
            _ => ("this kernel does not have it", ""),
        };
        Some(Lack::new(format!("{name} of {}", self.name), why, remedy))
    }

    /// Where it reads from.
    pub fn system(&self) -> &System {
        &self.system
    }

    fn read(&self, name: &str) -> Result<String, MachineError> {
        let file = self.folder.join(name);
        let text = fs::read_to_string(&file).map_err(os(file.display().to_string()))?;
        Ok(text.trim_end().into())
    }
}

/// Which disk a folder of sysfs is about, as far as it can become about another: by the kernel's number of what is attached to
/// it, which changes with each attachment and each change of a medium (`diskseq`, Linux 5.15), else by the file
/// of a loop device. Empty: the folder goes with its disk.
pub(super) fn disk_of(folder: &Path) -> String {
    let seq = || line(&folder.join("diskseq")).map(|seq| format!("seq {seq}"));
    let file = || line(&folder.join("loop/backing_file")).map(|file| format!("file {file}"));
    seq().or_else(file).unwrap_or_default()
}

/// Why a kernel of that name, which offers others, has no such scheduler.
pub(crate) fn scheduler_lack(scheduler: &str, kernel: &str, offered: &[String]) -> Lack {
    let what = format!("scheduler {scheduler}");
    let offers = offered.join(", ");
    if let Some((_, _, option)) = MODULES.iter().find(|(name, ..)| *name == scheduler) {
        let why = format!("{kernel} was built without it; it offers {offers}");
        return Lack::new(what, why, format!("needs a source with {option}"));
    }
    let remedy = match super::ours::has(scheduler) {
        true => {
            "`hoistway linux build --with-module` builds one that has it; or compare it in the simulator: --on sim"
        }
        false => "compare it in the simulator: --on sim",
    };
    if LEGACY.contains(&scheduler) {
        let why = "it belongs to the legacy block layer, which Linux 5.0 took out";
        return Lack::new(what, why, remedy);
    }
    let why = format!("{kernel} has no such scheduler; it offers {offers}");
    Lack::new(what, why, remedy)
}

/// mq-deadline's limit of tags for what is not read synchronously.
const ASYNC_DEPTH: &str = "async_depth";
const MQ_DEADLINE: &str = "mq-deadline";

/// The file of a tunable that newer kernels (7.3, not 6.17) keep for the queue, whoever the scheduler is; `None`: it is
/// where the others are.
pub(crate) fn moved_tunable(queue: &Path, name: &str) -> Option<PathBuf> {
    let (old, new) = (queue.join("iosched").join(name), queue.join(name));
    (name == ASYNC_DEPTH && !old.exists() && new.exists()).then_some(new)
}

/// What kind of drive it is, by name, place in sysfs and what the kernel says of it.
fn class(name: &str, folder: &Path, rotational: Option<bool>) -> String {
    let path = folder.to_string_lossy();
    let below = |part: &str| path.contains(part);
    let spins = rotational == Some(true);
    let class = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        n if n.starts_with("nvme") => match line(&folder.join("device/transport")).as_deref() {
            None | Some("pcie") => "nvme",
            Some(_) => "nvme-of",
        },
        n if n.starts_with("mmcblk") => match line(&folder.join("device/type")).as_deref() {
            Some("SD") => "sd-card",
            _ => "mmc",
        },
        n if n.starts_with("vd") => "virtio",
        n if n.starts_with("xvd") => "xen",
        "loop" => "loop",
        "nbd" => "nbd",
        "rbd" => "rbd",
        "ublkb" => "ublk",
        "nullb" => "null",
        "dm-" => "multipath",
        n if n.starts_with("sd") && below("/usb") => "usb",
        n if n.starts_with("sd") && below("/virtio") => "virtio",
        n if n.starts_with("sd") && below("/session") => "iscsi",
        n if n.starts_with("sd") && below("/rport") => "fc",
        n if n.starts_with("sd") && below("ufs") => "ufs",
        n if n.starts_with("sd") && spins => "hdd",
        n if n.starts_with("sd") && below("/ata") => "sata-ssd",
        n if n.starts_with("sd") => "sas-ssd",
        _ => "other",
    };
    class.into()
}

/// SHA-256, in hexadecimal. The model goes in, so that equal short numbers of two makers differ.
fn hash(model: Option<&str>, serial: &[u8]) -> String {
    let mut hash = hmac_sha256::Hash::new();
    hash.update(model.unwrap_or_default().as_bytes());
    hash.update([0]);
    hash.update(serial);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the kernel's modules have this one.
pub(super) fn has_module(system: &System, is_it: impl Fn(&str) -> bool) -> bool {
    let Some(release) = system.text("/proc/sys/kernel/osrelease") else { return false };
    let list = system.path(&format!("/lib/modules/{release}/modules.dep"));
    let list = fs::read_to_string(list).unwrap_or_default();
    let names = list.lines().filter_map(|line| line.split(':').next());
    names
        .filter_map(|path| path.rsplit('/').next())
        .filter_map(|file| Some(file.split_once(".ko")?.0))
        .any(is_it)
}

/// Schedulers of the kernel: name, module, option.
const MODULES: &[(&str, &str, &str)] = &[
    ("mq-deadline", "mq-deadline", "CONFIG_MQ_IOSCHED_DEADLINE"),
    ("kyber", "kyber-iosched", "CONFIG_MQ_IOSCHED_KYBER"),
    ("bfq", "bfq", "CONFIG_IOSCHED_BFQ"),
    ("adios", "adios", "CONFIG_MQ_IOSCHED_ADIOS (outside Linus' tree)"),
];

/// Those of before Linux 5.0.
const LEGACY: &[&str] = &["noop", "deadline", "cfq"];

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk made of files.
    fn disk(name: &str, path: &str, files: &[(&str, &str)]) -> (PathBuf, Queue) {
        let root =
            std::env::temp_dir().join(format!("hoistway-queue-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let folder = root.join("sys/devices").join(path);
        let dev = [("dev", "8:0\n"), ("queue/scheduler", "none [mq-deadline] bfq\n")];
        for (file, text) in dev.iter().chain(files) {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        (root.clone(), Queue::new(&System::below(&root), &folder).unwrap())
    }

    #[test]
    fn times_of_a_device_may_go_back_to_zero_in_between() {
        let at = |busy_ms, queue_ms| Diskstats { busy_ms, queue_ms, ..Diskstats::default() };
        assert_eq!(at(1500, 70).times_since(&at(500, 20)), [1000, 50]);
        assert_eq!(at(700, 99).times_since(&at((1 << 32) - 300, 99)), [1000, 0]);
        // Two devices together, of which one did.
        assert_eq!(at(700 + 9000, 0).times_since(&at((1 << 32) - 300 + 8000, 0)), [2000, 0]);
    }

    #[test]
    fn counters_between_two_readings_grow_evenly() {
        let at = |reads, read_bytes, busy_ms| Diskstats {
            reads,
            read_bytes,
            busy_ms,
            ..Diskstats::default()
        };
        let between = at(100, 4096, (1 << 32) - 10).towards(&at(300, 4096, 30), 0.25);
        assert_eq!(between, at(150, 4096, 1 << 32));
        // Past the border of 32 bits, where the later one has begun again.
        assert_eq!(at(300, 4096, 30).times_since(&between), [30, 0]);
        assert_eq!(at(1, 2, 3).plus(&at(10, 20, 30)), at(11, 22, 33));
    }

    #[test]
    fn a_disk_is_told_by_what_the_kernel_says_of_it() {
        let files = [
            ("queue/rotational", "1\n"),
            ("queue/logical_block_size", "4096\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/iosched/fifo_batch", "16\n"),
            ("size", "1000\n"),
            ("mq/0/nr_tags", "32\n"),
            ("mq/1/nr_tags", "32\n"),
            ("device/model", "WDC WD10EZEX-08W  \n"),
            ("device/vendor", "ATA     \n"),
            ("device/rev", "1A01\n"),
            ("device/vpd_pg80", "\0\u{1}\0\u{4}ABCD"),
        ];
        let (root, queue) = disk("hdd", "pci0/ata1/host0/block/sda", &files);
        let identity = queue.identity();
        assert_eq!(identity.model.as_deref(), Some("WDC WD10EZEX-08W"));
        assert_eq!((identity.class.as_str(), identity.rotational), ("hdd", Some(true)));
        assert_eq!((identity.hardware_queues, identity.tags), (2, Some(32)));
        assert_eq!((identity.bytes, identity.block_bytes), (512_000, Some(4096)));
        let hashed = identity.serial_hash.unwrap();
        assert_eq!(hashed, hash(Some("WDC WD10EZEX-08W"), b"ABCD"));
        assert!(hashed.len() == 64 && !hashed.contains("ABCD"));
        assert_eq!(queue.scheduler().unwrap(), "mq-deadline");
        let row = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(queue.tunables().unwrap(), [row("fifo_batch", "16")]);
        assert!(queue.tunable_file("async_depth").ends_with("queue/iosched/async_depth"));
        // A newer kernel.
        fs::write(queue.attribute_file("async_depth"), "48\n").unwrap();
        assert_eq!(queue.tunables().unwrap(), [row("async_depth", "48"), row("fifo_batch", "16")]);
        assert!(queue.tunable_file("async_depth").ends_with("queue/async_depth"));
        assert!(queue.tunable_file("fifo_batch").ends_with("queue/iosched/fifo_batch"));
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn classes_follow_name_and_place() {
        let class = |path: &str, rotational| {
            let folder = Path::new("/sys/devices").join(path);
            class(&file_name(&folder), &folder, Some(rotational))
        };
        assert_eq!(class("pci0/usb2/2-1/host6/block/sdb", true), "usb");
        assert_eq!(class("pci0/virtio3/host2/block/sda", true), "virtio");
        assert_eq!(class("pci0/virtio1/block/vda", true), "virtio");
        assert_eq!(class("pci0/ata1/host0/block/sda", false), "sata-ssd");
        assert_eq!(class("pci0/host0/port-0:0/block/sda", false), "sas-ssd");
        assert_eq!(class("pci0/nvme/nvme0/nvme0n1", false), "nvme");
        assert_eq!(class("platform/mmc0/block/mmcblk0", false), "mmc");
        assert_eq!(class("virtual/block/loop12", false), "loop");
        assert_eq!(class("virtual/block/dm-2", false), "multipath");
    }

    #[test]
    fn a_scheduler_that_is_missing_comes_with_the_way_to_it() {
        let (root, queue) = disk("lacks", "pci0/block/sda", &[]);
        assert_eq!(queue.lacks("bfq"), None);
        let kyber = || queue.lacks("kyber").unwrap();
        assert_eq!(kyber().remedy, "needs a kernel with CONFIG_MQ_IOSCHED_KYBER");
        for (file, text) in [
            ("proc/sys/kernel/osrelease", "6.12.0\n"),
            (
                "lib/modules/6.12.0/modules.dep",
                "kernel/block/kyber-iosched.ko.xz:\nkernel/x/y.ko: a\n",
            ),
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        assert_eq!(kyber().remedy, "modprobe kyber-iosched");
        assert!(queue.lacks("cfq").unwrap().why.contains("Linux 5.0"));
        let sio = || queue.lacks("sio").unwrap().remedy;
        assert!(sio().starts_with("`hoistway module build` and") && sio().contains("--on engine"));
        let list = root.join("lib/modules/6.12.0/modules.dep");
        fs::write(&list, "updates/hoistway/hoistway.ko:\n").unwrap();
        assert!(sio().starts_with("modprobe hoistway; or"));
        let offers = "none [zoccolo] h-bfq sio\n";
        fs::write(queue.attribute_file("scheduler"), offers).unwrap();
        assert_eq!((queue.lacks("sio"), queue.lacks("deadline-zoccolo")), (None, None));
        assert_eq!(queue.called("deadline-zoccolo"), "zoccolo");
        assert_eq!(queue.lacks("bfq").unwrap().remedy, "needs a kernel with CONFIG_IOSCHED_BFQ");
        assert!(queue.lacks_attribute("wbt_lat_usec").unwrap().remedy.contains("CONFIG_BLK_WBT"));
        let _ = fs::remove_dir_all(root);
    }

    #[test]
    fn sha256_is_the_standards() {
        // FIPS 180-2, appendix B.1.
        let digest = hmac_sha256::Hash::hash(b"abc");
        let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(text.starts_with("ba7816bf8f01cfea414140de5dae2223"));
    }
}
