//! What it takes to install a configuration on a machine, and to take it back: lines for now (sysfs), files for
//! every boot (udev rule, module, hwdb entry), and lines for the service that is to be served (systemd,
//! `ionice`).
//!
//! A rule is matched narrowly: by the model that was measured, or, where one asks for a class or no model is
//! known, by kind of drive. Every line has its undo. What Linux does not have is said instead of written.

mod iocost;
mod service;
mod udev;

pub use service::{USUAL, bfq_weight, property_for_bfq};
pub use udev::Match;

pub(super) use service::by_weight;
pub(super) use udev::pattern;

use super::identity::{Identity, KERNEL};
use crate::config::Config;
use hoistway::sched::{find, module_name};
use hoistway_sim::drive::DriveFile;

/// Schedulers that Linux has, the module each needs, and those of its tunables that have our names, units and
/// meanings.
const SCHEDULERS: &[(&str, Option<&str>, &[&str])] = &[
    ("none", None, &[]),
    (
        "mq-deadline",
        Some("mq-deadline"),
        &[
            "read_expire",
            "write_expire",
            "writes_starved",
            "fifo_batch",
            "front_merges",
            "async_depth",
            "prio_aging_expire",
        ],
    ),
    ("kyber", Some("kyber-iosched"), &["read_lat_nsec", "write_lat_nsec"]),
    (
        "bfq",
        Some("bfq"),
        &[
            "fifo_expire_async",
            "fifo_expire_sync",
            "back_seek_max",
            "back_seek_penalty",
            "slice_idle",
            "slice_idle_us",
            "max_budget",
            "timeout_sync",
            "strict_guarantees",
            "low_latency",
        ],
    ),
];

/// Settings of a queue that Linux has under the same name.
const QUEUE: &[&str] =
    &["nr_requests", "nomerges", "rq_affinity", "max_sectors_kb", "read_ahead_kb"];

/// hoistway's own module, which has the schedulers that Linux does not have (docs/guide/module.md).
const MODULE: &str = "hoistway";
const MODULE_IN: [&str; 2] = ["hoistway module build", "hoistway module install"];
/// What loads it at boot.
pub const MODULE_AT_BOOT: &str = "/etc/modules-load.d/hoistway.conf";
const MODULE_OUT: &str = "hoistway module remove";

/// Registry name of write-back throttling.
const WBT: &str = "wbt";

/// Tunables that Linux's scheduler of this name has; `None`: Linux has no such scheduler.
pub fn kernel_tunables(scheduler: &str) -> Option<&'static [&'static str]> {
    SCHEDULERS.iter().find(|s| s.0 == scheduler).map(|s| s.2)
}

/// A configuration, as far as its name tells how to install it.
#[derive(Clone, Debug)]
pub struct Install {
    /// Its name.
    pub id: String,
    /// What the name means; `None`: it is nothing that this program knows.
    config: Option<Config>,
}

/// A file to put into the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemFile {
    /// Its place.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

/// Lines of a shell, with their undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What they do.
    pub title: String,
    /// The lines.
    pub lines: Vec<String>,
    /// What takes them back.
    pub undo: Vec<String>,
    /// What they need to know.
    pub asks: Asks,
}

/// What lines need to know before they can be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    /// Nothing but the drive.
    #[default]
    Nothing,
    /// The name of a service, in place of `SERVICE`; the weight that it was measured with.
    Service(Option<u64>),
    /// A program that runs, or the name of its service.
    Program,
}

/// What of a configuration the runs tried, as far as it has to be known to install that and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// They wrote: they tell of write-back throttling.
    pub wrote: bool,
    /// They had a target, which some configurations put into a class of its own.
    pub target: bool,
    /// The weights of those who shared, the least first, each with the names of those who had it.
    pub weights: Vec<(u64, String)>,
}

/// Everything that installs a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// What the files match, in words.
    pub matched: String,
    /// Until the next boot.
    pub now: Option<Step>,
    /// Files that do the same at every boot.
    pub files: Vec<SystemFile>,
    /// More until the next boot: of a controller, or for whoever is to be served.
    pub steps: Vec<Step>,
    /// What is not installed, and why.
    pub cannot: Vec<String>,
    /// What to know.
    pub notes: Vec<String>,
}

impl Lines {
    /// Weights that services can have.
    pub fn weights(&self) -> Vec<u64> {
        let of = |step: &Step| match step.asks {
            Asks::Service(weight) => weight,
            Asks::Nothing | Asks::Program => None,
        };
        self.steps.iter().filter_map(of).collect()
    }

    /// Why the files alone do not install what was measured; empty: they do. With `named`, what a service has to be
    /// told is told.
    pub fn lacks(&self, named: bool) -> Vec<String> {
        let mut all = self.cannot.clone();
        let weights: Vec<String> = self.weights().iter().map(u64::to_string).collect();
        let services = self.steps.iter().any(|s| s.asks == Asks::Service(None));
        if !named && !weights.is_empty() {
            all.push(format!(
                "weights belong to services: name each with --service NAME=WEIGHT (measured: {})",
                weights.join(", ")
            ));
        } else if !named && services {
            all.push("it belongs to a service: name it with --service NAME".into());
        }
        if self.steps.iter().any(|s| s.asks == Asks::Program) && !named {
            all.push(
                "the real-time class belongs to a program: name its service with --service NAME"
                    .into(),
            );
        }
        if self.files.is_empty() && all.is_empty() {
            all.push("there is nothing to install".into());
        }
        all
    }
}

impl Install {
    /// Of a configuration's name.
    pub fn of(id: &str) -> Install {
        Install { id: id.to_string(), config: Config::parse(id).ok() }
    }

    /// The scheduler, where the name is known.
    pub fn scheduler(&self) -> Option<&str> {
        self.config.as_ref().map(|c| c.scheduler.name)
    }

    /// Write-back is throttled, or the scheduler does without.
    pub fn throttles(&self) -> bool {
        self.config.as_ref().is_some_and(|c| has_wbt(c) || c.scheduler.replaces_wbt)
    }

    /// BFQ, with whatever settings.
    pub fn is_bfq(&self) -> bool {
        self.config.as_ref().is_some_and(Config::is_bfq)
    }

    /// BFQ that raises the weight of what has just started.
    pub fn raises(&self) -> bool {
        self.config.as_ref().is_some_and(Config::raises)
    }

    /// How simple: what Linux does by itself first, then schedulers by their size, then what must be told about
    /// programs and groups.
    pub fn rank(&self) -> u32 {
        let Some(config) = &self.config else { return 1000 };
        let order = ["none", "mq-deadline", "kyber", "bfq"];
        let scheduler =
            order.iter().position(|s| *s == config.scheduler.name).unwrap_or(order.len());
        let own = u32::from(!self.is_bare(config));
        let set = (config.set.len() + config.queue.len()) as u32;
        // Most kernels throttle write-back by themselves.
        let controllers = config.controllers.iter().filter(|c| c.name != WBT).count() as u32;
        let wbt = u32::from(has_wbt(config));
        2 * scheduler as u32 + wbt + 10 * set.min(9) + 100 * own + 200 * controllers
    }

    /// The scheduler as it is when it is chosen, with or without write-back throttling, and nothing else. BFQ
    /// switches that off by itself.
    pub fn is_plain(&self, scheduler: &str, wbt: bool) -> bool {
        let Some(config) = &self.config else { return self.id == scheduler };
        let others = config.controllers.iter().filter(|c| c.name != WBT).count();
        let nothing = config.set.is_empty() && config.queue.is_empty() && others == 0;
        let throttled = scheduler == "bfq" || has_wbt(config) == wbt;
        config.scheduler.name == scheduler && nothing && throttled && self.is_bare(config)
    }

    /// No policy, or one that changes nothing here: `none` looks at no priorities.
    fn is_bare(&self, config: &Config) -> bool {
        config.policy.is_none() || config.base == "none-none"
    }

    /// What installs it on that drive's machine as it was tried.
    pub fn lines(&self, identity: &Identity, by: Match, tried: &Tried) -> Lines {
        let Some(config) = &self.config else {
            let why = format!("{} is no configuration that this version knows", self.id);
            return Lines { cannot: vec![why], ..Lines::default() };
        };
        let Some((scheduler, module)) = scheduler_of(config) else {
            let why = format!(
                "Linux has no scheduler {}; `hoistway serve` has it for storage that it exports",
                config.scheduler.name
            );
            return Lines { cannot: vec![why], ..Lines::default() };
        };
        let mut lines = Lines::default();
        let mut set = vec![("scheduler".to_string(), scheduler.to_string())];
        // Ours has all of ours.
        let tunables = kernel_tunables(scheduler);
        for (name, value) in &config.set {
            match tunables.is_none_or(|known| known.contains(&name.as_str())) {
                true => set.push((format!("iosched/{name}"), value.to_string())),
                false => lines.cannot.push(format!("Linux's {scheduler} has no tunable {name}")),
            }
        }
        for (name, value) in &config.queue {
            match QUEUE.contains(&name.as_str()) {
                true => set.push((name.clone(), value.to_string())),
                false => lines.cannot.push(format!("a queue in Linux has no setting {name}")),
            }
        }
        let throttles = identity.present_wbt();
        let replaces = config.scheduler.replaces_wbt;
        if has_wbt(config) && throttles != Some(true) {
            // -1: what the kernel takes for this kind of drive.
            set.push(("wbt_lat_usec".to_string(), "-1".to_string()));
        } else if !has_wbt(config) && throttles == Some(true) && !replaces && tried.wrote {
            // It was measured without, and the kernel switches it on.
            set.push(("wbt_lat_usec".to_string(), "0".to_string()));
        } else if !has_wbt(config) && throttles == Some(true) && !replaces {
            lines.notes.push(
                "write-back throttling stays on: the runs wrote nothing, so they say nothing about it"
                    .into(),
            );
        }
        lines.now = Some(now(identity, &set, module));
        udev::rule(identity, by, &set, &mut lines);
        if module == Some(MODULE) {
            lines.notes.push(
                "hoistway's module is for one release of the kernel: build and install it again after an update; without \
                 it a drive keeps the scheduler that the kernel chooses"
                    .into(),
            );
        }
        // Without a rule nobody needs the module at boot.
        if let Some(module) = module.filter(|_| !lines.files.is_empty()) {
            let path = match module {
                MODULE => MODULE_AT_BOOT.to_string(),
                module => format!("/etc/modules-load.d/hoistway-{module}.conf"),
            };
            let text = format!(
                "# Made by hoistway recommend: {scheduler} must be there when the udev rule chooses it.\n{module}\n"
            );
            lines.files.push(SystemFile { path, text });
        }
        let label = format!("{}.toml", identity.drive);
        let drive = DriveFile::parse(&label, &identity.parameters).ok();
        iocost::add(config, identity, drive.as_ref(), by, &mut lines);
        service::add(config, identity, drive.as_ref(), tried, &mut lines);
        lines
    }
}

/// What a kernel calls the scheduler, and the module that has it. `None`: there is no such module.
fn scheduler_of(config: &Config) -> Option<(&'static str, Option<&'static str>)> {
    let kernels = SCHEDULERS.iter().find(|s| s.0 == config.scheduler.name);
    let kernels = kernels.map(|&(name, module, _)| (name, module));
    // What was added at run time is not in the module.
    let ours = || find(config.scheduler.name).and_then(module_name);
    kernels.or_else(|| Some((ours()?, Some(MODULE))))
}

fn has_wbt(config: &Config) -> bool {
    config.controllers.iter().any(|c| c.name == WBT)
}

/// The block device's name, or a word to replace.
pub(super) fn queue_of(identity: &Identity) -> String {
    identity.queue.clone().unwrap_or_else(|| "DEVICE".into())
}

/// What to write into sysfs, and what was there.
fn now(identity: &Identity, set: &[(String, String)], module: Option<&str>) -> Step {
    let folder = format!("/sys/block/{}/queue", queue_of(identity));
    let write = |name: &str, value: &str| format!("echo {value} > {folder}/{name}");
    // Where it was measured under the kernel it is there.
    let new = module == Some(MODULE) && identity.world != KERNEL;
    let mut lines: Vec<String> = match new {
        true => MODULE_IN.map(str::to_string).to_vec(),
        false => module.iter().map(|m| format!("modprobe {m}")).collect(),
    };
    lines.extend(set.iter().map(|(name, value)| write(name, value)));
    let mut undo = Vec::new();
    match &identity.present_scheduler {
        Some(scheduler) => {
            undo.push(write("scheduler", scheduler));
            let tunables = identity.present_tunables.as_deref().unwrap_or_default();
            let pairs = tunables.split_whitespace().filter_map(|t| t.split_once('='));
            // What belongs to the queue rather than to the scheduler stands beside it.
            let own = |name: &str| name == "wbt_lat_usec" || QUEUE.contains(&name);
            let (queue, tunables): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| own(name));
            undo.extend(tunables.iter().map(|(n, v)| write(&format!("iosched/{n}"), v)));
            // Choosing a scheduler sets nr_requests anew.
            let changed = |n: &str| n == "nr_requests" || set.iter().any(|(name, _)| name == n);
            undo.extend(queue.iter().filter(|(n, _)| changed(n)).map(|(n, v)| write(n, v)));
        }
        None => undo.push(write("scheduler", "WHAT-WAS-THERE")),
    }
    // What was there is not known of everything.
    for (name, _) in set.iter().filter(|(n, _)| n != "scheduler" && !n.starts_with("iosched/")) {
        let file = format!("{folder}/{name}");
        if !undo.iter().any(|line| line.ends_with(&file)) {
            undo.push(match name.as_str() {
                "wbt_lat_usec" => write(name, "-1"),
                _ => format!("# {file}: write back what it printed before"),
            });
        }
    }
    if new {
        undo.push(MODULE_OUT.to_string());
    }
    let which = match identity.queue {
        Some(_) => "",
        None => " (DEVICE is the drive's name in /sys/block, such as sda)",
    };
    let title = format!("now, until the next boot{which}");
    Step { title, lines, undo, asks: Asks::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(world: &str) -> Identity {
        Identity {
            world: world.into(),
            class: Some("hdd".into()),
            present_scheduler: Some("mq-deadline".into()),
            ..Identity::default()
        }
    }

    fn lines(id: &str, world: &str) -> Lines {
        Install::of(id).lines(&on(world), Match::Model, &Tried::default())
    }

    #[test]
    fn what_linux_lacks_and_the_module_has_comes_with_the_module_and_its_undo() {
        let told = lines("paternoster{loss=50}", "sim");
        let now = told.now.clone().unwrap();
        assert_eq!(
            now.lines,
            [
                "hoistway module build",
                "hoistway module install",
                "echo paternoster > /sys/block/DEVICE/queue/scheduler",
                "echo 50 > /sys/block/DEVICE/queue/iosched/loss",
            ]
        );
        let back = "echo mq-deadline > /sys/block/DEVICE/queue/scheduler";
        assert_eq!(now.undo, [back, "hoistway module remove"]);
        let conf = told.files.iter().find(|f| f.path == "/etc/modules-load.d/hoistway.conf");
        assert!(conf.unwrap().text.ends_with("\nhoistway\n"));
        assert!(told.cannot.is_empty() && told.notes.iter().any(|n| n.contains("after an update")));
    }

    #[test]
    fn where_it_was_measured_the_module_is_there_and_stays() {
        let now = lines("deadline-zoccolo", "kernel").now.unwrap();
        let chosen = "echo zoccolo > /sys/block/DEVICE/queue/scheduler";
        assert_eq!(now.lines, ["modprobe hoistway", chosen]);
        assert!(now.undo.iter().all(|l| !l.contains("remove")), "{:?}", now.undo);
    }

    #[test]
    fn the_kernel_s_own_need_no_module_of_ours() {
        let now = lines("kyber", "sim").now.unwrap();
        assert_eq!(now.lines[0], "modprobe kyber-iosched");
        let told = lines("prop-paternoster", "sim");
        assert!(told.cannot.iter().any(|w| w.contains("io.hoistway.weight")), "{:?}", told.cannot);
    }
}
