//! What else went on while a run was measured.
//!
//! A figure of a real machine holds for the machine as it was. Whatever may have moved it is noted: I/O of
//! others on the device ([`others`](super::others)), processors that were busy or taken by a hypervisor, throttling for
//! heat, how the processors' frequency is governed, battery, swap. Each is a row of the manifest; beyond a limit it is a flag
//! too, which reports print. A limit says when a difference of a few per cent is no longer to be trusted; all are
//! chosen.

use super::others::{Moved, Others, Processes, foreign, lazy_init};
use super::queue::{Diskstats, Queue};
use super::volume::Volume;
use super::{System, line};
use crate::engine::Processors;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a run moved itself, to be taken from the device's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes.
    pub moved: Moved,
    /// The processes that did; this one is always the run's.
    pub processes: Vec<u32>,
}

/// From the beginning of a run to its end.
#[derive(Debug)]
pub struct Watch {
    system: System,
    queues: Vec<(Queue, Diskstats)>,
    processes: Processes,
    processors: Option<Processors>,
    throttled: u64,
    memory_us: Option<u64>,
    swapped: Option<u64>,
    clock: hoistway_serve::Clock,
}

/// How late an emulated drive is, counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Time of all commands by the model, ns.
    pub modelled_ns: u64,
    /// By how much they were answered later than the model says, ns.
    pub late_ns: u64,
}

impl Lateness {
    /// What came since.
    pub fn since(&self, then: &Lateness) -> Lateness {
        Lateness {
            modelled_ns: self.modelled_ns.saturating_sub(then.modelled_ns),
            late_ns: self.late_ns.saturating_sub(then.late_ns),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// For the manifest, by name.
    pub rows: Vec<(String, String)>,
    /// What makes the run doubtful, in words.
    pub flags: Vec<String>,
}

impl Watch {
    /// Begins.
    pub fn begin(place: &Volume) -> Watch {
        let system = place.system().clone();
        let queues = place.queues.iter();
        let queues = queues.filter_map(|q| Some((q.clone(), q.diskstats().ok()?)));
        Watch {
            processes: Processes::now(&system),
            queues: queues.collect(),
            processors: Processors::now(),
            throttled: throttled(&system),
            memory_us: memory_us(&system),
            swapped: swapped(&system),
            clock: hoistway_serve::Clock::new(),
            system,
        }
    }

    /// Ends. `ours` tells what the run itself has moved, where it is known; it is asked after the device, so that what
    /// is under way counts as the run's.
    pub fn end(self, ours: impl FnOnce() -> Option<Traffic>) -> Conditions {
        let mut found = Conditions::default();
        let span_ns = self.clock.now().as_nanos().max(1);
        self.others(ours, &mut found);
        let stolen = self.processors.zip(Processors::now());
        if let Some(stolen) = stolen.map(|(then, now)| now.stolen_since(&then)) {
            found.note("stolen_time", format!("{:.1} %", stolen * 100.0));
            found.flag(stolen > STOLEN_MAX, || {
                format!("{:.1} % of the processors' time went to other machines", stolen * 100.0)
            });
        }
        let throttled = throttled(&self.system).saturating_sub(self.throttled);
        found.flag(throttled > 0, || {
            format!("the processors were throttled for heat {throttled} times")
        });
        if let Some((then, now)) = self.memory_us.zip(memory_us(&self.system)) {
            let share = now.saturating_sub(then) as f64 * 1e3 / span_ns as f64;
            // No flag: a load that drops its pages from the cache and reads them again counts as waiting for
            // memory, on a machine with plenty of it.
            found.note("memory_pressure", format!("{:.1} %", share * 100.0));
        }
        if let Some((then, now)) = self.swapped.zip(swapped(&self.system)) {
            let pages = now.saturating_sub(then);
            found.note("swapped_pages", pages.to_string());
            found.flag(pages > SWAPPED_MAX, || {
                format!("memory was short: {pages} pages went to swap or came from it")
            });
        }
        standing(&self.system, &mut found);
        for (queue, _) in &self.queues {
            heat(queue, &mut found);
        }
        found
    }

    fn others(&self, ours: impl FnOnce() -> Option<Traffic>, found: &mut Conditions) {
        let mut device = Moved::default();
        let mut ios = 0;
        for (queue, then) in &self.queues {
            let Ok(now) = queue.diskstats() else {
                found.flag(true, || format!("{} has gone", queue.name));
                continue;
            };
            ios += (now.reads + now.writes).saturating_sub(then.reads + then.writes);
            device.read += now.read_bytes.saturating_sub(then.read_bytes);
            device.written += now.write_bytes.saturating_sub(then.write_bytes);
        }
        found.note("device_ios", ios.to_string());
        found.note("device_bytes", device.bytes().to_string());
        let Some(mut ours) = ours() else { return };
        let now = Processes::now(&self.system);
        let own = std::process::id();
        let here = now.of(own, &self.processes);
        ours.moved.read += here.read;
        ours.moved.written += here.written;
        ours.processes.push(own);
        let devices = self.queues.iter().flat_map(|(queue, _)| queue.numbers()).collect();
        let others = now.since(&self.processes, &self.system, &ours.processes, &devices);
        let foreign = foreign(device, ours.moved, others.moved, self.queues.len() == 1);
        let all = device.bytes().max(1) as f64;
        let percent = |bytes: u64| 100.0 * bytes as f64 / all;
        let bytes = foreign.bytes();
        let rest = device.bytes().saturating_sub(ours.moved.bytes()).saturating_sub(bytes);
        found.note("other_io", format!("{:.1} %", percent(bytes)));
        // Journal, metadata, what was dirty before: the run's or not, nobody can tell.
        found.note("unaccounted_io", format!("{:.1} %", percent(rest)));
        found.flag(bytes as f64 / all > OTHERS_MAX && bytes > OTHERS_BYTES, || {
            format!(
                "{:.1} % of the device's traffic ({:.1} MB) was not the run's{}",
                percent(bytes),
                bytes as f64 / 1e6,
                self.whose(&others, bytes)
            )
        });
    }

    /// Who it may have been.
    fn whose(&self, others: &Others, bytes: u64) -> String {
        match &others.most {
            Some((name, most)) if *most > bytes / 2 => format!(" (most of it: {name})"),
            _ if lazy_init(&self.system) => {
                " (the kernel is setting up a new ext4 file system: ext4lazyinit; wait until it has ended)".into()
            }
            _ => String::new(),
        }
    }
}

impl Conditions {
    /// What stands without a run: governor, battery; to be said before one begins.
    pub fn now(place: &Volume) -> Conditions {
        let mut found = Conditions::default();
        standing(place.system(), &mut found);
        found
    }

    /// What the processors did while measuring went on, ns of all of them.
    pub(super) fn processors(&mut self, busy: u64, idle: u64) {
        let share = busy as f64 / (busy + idle).max(1) as f64;
        self.note("processors_busy", format!("{:.1} %", share * 100.0));
        self.flag(share > BUSY_MAX, || {
            format!(
                "the processors were busy {:.1} % of the time: what was measured is their limit as much as the drive's",
                share * 100.0
            )
        });
    }

    /// How late an emulated drive answered while measuring went on, beside the times of its model; ns.
    pub(super) fn emulated_drive(&mut self, modelled: u64, late: u64) {
        let share = late as f64 / modelled.max(1) as f64;
        self.note("emulated_drive_late", format!("{:.1} %", share * 100.0));
        self.flag(share > LATE_MAX, || {
            format!(
                "the emulated drive answered {:.1} % later than its model says: this machine does not keep up with it",
                share * 100.0
            )
        });
    }

    fn note(&mut self, name: &str, value: String) {
        self.rows.push((name.into(), value));
    }

    fn flag(&mut self, is: bool, text: impl FnOnce() -> String) {
        if is {
            self.flags.push(text());
        }
    }
}

/// How the machine is set up: frequencies of processors, source of power.
fn standing(system: &System, found: &mut Conditions) {
    let governors = of_each(&system.path("/sys/devices/system/cpu"), "cpufreq/scaling_governor");
    if !governors.is_empty() {
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        governors.iter().for_each(|g| *counted.entry(g).or_default() += 1);
        let text: Vec<String> = counted.iter().map(|(g, n)| format!("{n} x {g}")).collect();
        found.note("governor", text.join(", "));
        let slow = counted.contains_key("powersave") && !active(system);
        found.flag(slow, || {
            "the frequency governor is 'powersave': processors stay at their lowest frequency"
                .into()
        });
    }
    if let Some(battery) = battery(system) {
        found.note("power", if battery { "battery" } else { "mains" }.into());
        found.flag(battery, || {
            "the machine runs on battery: drive and processors save power".into()
        });
    }
}

/// Drivers that choose frequencies themselves also have a governor of that name, which is their usual one.
fn active(system: &System) -> bool {
    let driver = of_each(&system.path("/sys/devices/system/cpu"), "cpufreq/scaling_driver");
    driver.iter().any(|driver| matches!(driver.as_str(), "intel_pstate" | "amd-pstate-epp"))
}

/// Whether the machine runs on battery; `None` where nothing tells of power.
fn battery(system: &System) -> Option<bool> {
    let folder = system.path("/sys/class/power_supply");
    let mut known = None;
    for supply in super::chain::folders(&folder) {
        match line(&supply.join("type")).as_deref() {
            // Of a laptop's several sockets one is enough.
            Some("Mains" | "USB") if line(&supply.join("online")).as_deref() == Some("1") => {
                return Some(false);
            }
            Some("Mains") => known = Some(true),
            Some("Battery")
                if line(&supply.join("status")).as_deref() == Some("Discharging")
                    && line(&supply.join("scope")).as_deref() != Some("Device") =>
            {
                known = Some(true);
            }
            _ => {}
        }
    }
    known
}

/// Temperature of the drive, where it tells, against its own limit.
fn heat(queue: &Queue, found: &mut Conditions) {
    let hwmon = |folder: PathBuf| super::chain::folders(&folder);
    let mut monitors = hwmon(queue.folder.join("device/hwmon"));
    // NVMe: a folder of the controller itself, `hwmon3`.
    let device = fs::read_dir(queue.folder.join("device")).into_iter().flatten().flatten();
    monitors.extend(device.map(|e| e.path()).filter(|p| {
        p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("hwmon"))
            && p.join("temp1_input").exists()
    }));
    for monitor in monitors {
        let milli = |name: &str| line(&monitor.join(name))?.parse::<i64>().ok();
        let Some(now) = milli("temp1_input") else { continue };
        found.note("drive_temperature", format!("{} C", now / 1000));
        let limit = milli("temp1_max").filter(|&limit| limit > 0);
        found.flag(limit.is_some_and(|limit| now >= limit), || {
            format!("{} is {} C hot, at its limit: it may throttle", queue.name, now / 1000)
        });
    }
}

/// How often processors were slowed down for heat since the machine was started.
fn throttled(system: &System) -> u64 {
    let folder = system.path("/sys/devices/system/cpu");
    let counts = of_each(&folder, "thermal_throttle/core_throttle_count");
    let package = of_each(&folder, "thermal_throttle/package_throttle_count");
    counts.iter().chain(&package).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// Time that some task waited for memory, in us since the machine was started.
fn memory_us(system: &System) -> Option<u64> {
    let text = system.text("/proc/pressure/memory")?;
    let some = text.lines().find(|line| line.starts_with("some"))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

/// Pages that went to swap or came from it since the machine was started.
fn swapped(system: &System) -> Option<u64> {
    let text = system.text("/proc/vmstat")?;
    let of = |name: &str| {
        let rows = text.lines().filter_map(|line| line.split_once(' '));
        rows.filter(|(key, _)| *key == name).find_map(|(_, n)| n.parse::<u64>().ok())
    };
    Some(of("pswpin")? + of("pswpout")?)
}

/// A file of each processor.
fn of_each(folder: &Path, file: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    folders.sort();
    let is_cpu = |path: &PathBuf| {
        let name = super::chain::file_name(path);
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    folders.iter().filter(|f| is_cpu(f)).filter_map(|f| line(&f.join(file))).collect()
}

/// More than this of the processors' time taken away.
const STOLEN_MAX: f64 = 0.05;

/// More than this of the processors' time busy: whoever gets a processor late is late whatever the drive does.
/// `recommend` has the same limit.
const BUSY_MAX: f64 = 0.9;

/// Later than this, as a part of its time by the model, an emulated drive is not the drive. A fifth is what a goal of
/// `recommend` counts as the same of a wait; it has the same limit.
const LATE_MAX: f64 = 0.2;

/// More pages than this swapped: 1 MiB of 4 KiB pages.
const SWAPPED_MAX: u64 = 256;

/// More than this of the device's traffic of others, and more bytes than a file system's own.
const OTHERS_MAX: f64 = 0.05;
const OTHERS_BYTES: u64 = 1 << 20;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine made of files.
    pub struct Tree(pub PathBuf);

    impl Tree {
        pub fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let root =
                std::env::temp_dir().join(format!("hoistway-cond-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            let tree = Tree(root);
            files.iter().for_each(|(path, text)| tree.put(path, text));
            tree
        }

        pub fn put(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn battery_governor_and_heat_are_flagged() {
        let tree = Tree::new(
            "laptop",
            &[
                ("sys/class/power_supply/AC/type", "Mains\n"),
                ("sys/class/power_supply/AC/online", "0\n"),
                ("sys/class/power_supply/BAT0/type", "Battery\n"),
                ("sys/class/power_supply/BAT0/status", "Discharging\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq\n"),
                ("sys/devices/system/cpu/cpufreq/scaling_governor", "not a processor\n"),
                ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
                ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"),
                ("proc/pressure/memory", "some avg10=0.00 total=100\nfull avg10=0.00 total=7\n"),
            ],
        );
        let system = System::below(&tree.0);
        let mut found = Conditions::default();
        standing(&system, &mut found);
        assert_eq!(found.flags.len(), 2, "{:?}", found.flags);
        assert!(found.rows.contains(&("governor".into(), "1 x powersave".into())));
        assert!(found.rows.contains(&("power".into(), "battery".into())));
        assert_eq!((throttled(&system), memory_us(&system)), (7, Some(100)));
        tree.put("sys/class/power_supply/AC/online", "1\n");
        tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
        let mut found = Conditions::default();
        standing(&system, &mut found);
        assert_eq!(found.flags, Vec::<String>::new());
    }

    #[test]
    fn an_emulated_drive_may_be_late_by_a_fifth() {
        let mut found = Conditions::default();
        found.emulated_drive(1_000, 190);
        assert_eq!(found.rows, [("emulated_drive_late".into(), "19.0 %".into())]);
        assert_eq!(found.flags, Vec::<String>::new());
        found.emulated_drive(1_000, 900);
        assert!(found.flags[0].starts_with("the emulated drive answered 90.0 % later than"));
    }

    #[test]
    fn swap_is_a_flag_and_pressure_a_row() {
        let pressure = "some avg10=0.00 total=1\nfull avg10=0.00 total=0\n";
        let files = [
            ("proc/vmstat", "nr_free_pages 9\npswpin 100\npswpout 200\n"),
            ("proc/pressure/memory", pressure),
        ];
        let tree = Tree::new("swap", &files);
        let system = System::below(&tree.0);
        let begin = || Watch {
            queues: Vec::new(),
            processes: Processes::default(),
            processors: None,
            throttled: 0,
            memory_us: memory_us(&system),
            swapped: swapped(&system),
            clock: hoistway_serve::Clock::new(),
            system: system.clone(),
        };
        let watch = begin();
        tree.put("proc/pressure/memory", "some avg10=0.00 total=900000000\n");
        let found = watch.end(|| None);
        assert!(found.rows.iter().any(|(name, _)| name == "memory_pressure"));
        assert_eq!(found.flags, Vec::<String>::new());
        let watch = begin();
        tree.put("proc/vmstat", "nr_free_pages 9\npswpin 100\npswpout 900\n");
        assert_eq!(
            watch.end(|| None).flags,
            ["memory was short: 700 pages went to swap or came from it"]
        );
    }

    #[test]
    fn processors_without_a_rest_are_flagged() {
        let mut found = Conditions::default();
        found.processors(89, 11);
        assert_eq!(found.flags, Vec::<String>::new());
        assert_eq!(found.rows, [("processors_busy".into(), "89.0 %".into())]);
        found.processors(970, 30);
        assert!(found.flags[0].starts_with("the processors were busy 97.0 % of the time: "));
    }

    #[test]
    fn traffic_of_others_is_what_the_run_did_not_move() {
        let stat = "sys/devices/virtual/block/vdb";
        let tree = Tree::new(
            "others",
            &[
                (&format!("{stat}/dev"), "253:16\n"),
                (&format!("{stat}/stat"), "10 0 80 0 0 0 0 0 0 0 0\n"),
                ("proc/77/io", "read_bytes: 0\nwrite_bytes: 0\n"),
                ("proc/77/comm", "rsync\n"),
                ("proc/77/stat", "77 (rsync) S 1\n"),
                ("proc/77/fd/3", "a file on the device"),
            ],
        );
        let device = rustix::fs::stat(&tree.0).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        tree.put(&format!("{stat}/dev"), &format!("{major}:{minor}\n"));
        let system = System::below(&tree.0);
        let queue = Queue::new(&system, &tree.0.join(stat)).unwrap();
        let begin = || Watch {
            queues: vec![(queue.clone(), queue.diskstats().unwrap())],
            processes: Processes::now(&system),
            processors: None,
            throttled: 0,
            memory_us: None,
            swapped: swapped(&system),
            clock: hoistway_serve::Clock::new(),
            system: system.clone(),
        };
        let ours = |read: u64, written: u64| {
            Some(Traffic { moved: Moved { read, written }, processes: vec![5] })
        };
        let watch = begin();
        // 40000 sectors of 512 B more: 20.48 MB.
        tree.put(&format!("{stat}/stat"), "110 0 40080 0 0 0 0 0 0 0 0\n");
        let found = watch.end(|| ours(10_240_000, 0));
        assert!(found.rows.contains(&("device_bytes".into(), "20480000".into())));
        assert!(found.rows.contains(&("other_io".into(), "50.0 %".into())));
        assert_eq!(found.flags, ["50.0 % of the device's traffic (10.2 MB) was not the run's"]);
        let watch = begin();
        assert_eq!(watch.end(|| ours(0, 0)).flags, Vec::<String>::new());
        // As much is written, half of it by a journal; then by somebody else, too.
        let watch = begin();
        tree.put(&format!("{stat}/stat"), "110 0 40080 0 100 0 40000 0 0 0 0\n");
        let found = watch.end(|| ours(0, 10_240_000));
        assert_eq!(found.flags, Vec::<String>::new());
        assert!(found.rows.contains(&("unaccounted_io".into(), "50.0 %".into())), "{found:?}");
        let watch = begin();
        tree.put(&format!("{stat}/stat"), "110 0 40080 0 200 0 80000 0 0 0 0\n");
        tree.put("proc/77/io", "read_bytes: 0\nwrite_bytes: 5120000\n");
        assert_eq!(
            watch.end(|| ours(0, 10_240_000)).flags,
            [
                "25.0 % of the device's traffic (5.1 MB) was not the run's (most of it: rsync, process 77)"
            ]
        );
    }
}
