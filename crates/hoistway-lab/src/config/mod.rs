//! Configurations of I/O control: `policy-scheduler` as in specs/experiments.md 2, or a bare scheduler,
//! with tunables in braces: `mq-deadline{fifo_batch=8,front_merges=0}`, `lat-none{target=5ms}`; `+wbt`
//! behind the name turns write-back throttling on.

mod policy;

pub use policy::{DEVICE, FileLine, Member, POLICIES, Policy};

use crate::registry::Registry;
use hoistway::sched::{Entry, find_or_twin, twin};
use hoistway::setting::nearest;
use hoistway::setting::{Tunable, TunableError, check};
use hoistway::stack::{QUEUE_KNOBS, QUEUE_TUNABLES};
use hoistway::{IoPrio, Nanos, ctl};
use hoistway_run::{ControllerSpec, SchedulerSpec};
use hoistway_sim::drive::DriveFile;
use std::fmt;

/// A canonical configuration, as the published comparisons name them.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
}

/// The configurations of specs/experiments.md 2, in the order of listing. Any policy may stand before
/// any scheduler: `lat-mq-deadline`, `cost-bfq`.
pub static NAMED: &[Named] = &[
    Named { name: "none-none", summary: "no I/O control: the reference" },
    Named { name: "none-bfq", summary: "BFQ, the target in the real-time class" },
    Named {
        name: "prop-bfq",
        summary: "BFQ, a group of weight 100 per process, the target in the real-time class",
    },
    Named { name: "lat-none", summary: "io.latency, the target's group wants 10 us" },
    Named { name: "cost-none", summary: "io.cost, equal weights, QoS by kind of drive" },
    Named { name: "max-none", summary: "io.max, a sixteenth of the drive per group" },
    Named {
        name: "slo-paternoster",
        summary: "paternoster, the target's group has a latency target: as low as goes without loss",
    },
    Named { name: "low-none", summary: "io.low, a sixteenth of the drive per group, best effort" },
];

/// BFQ raises weights for so long at most (docs/specs/bfq.md).
pub const RAISING: Nanos = Nanos::secs(25);

/// Behind a configuration's name: write-back throttling is on.
pub const WBT: &str = "+wbt";

/// The scheduler that a configuration names, settings or not, switches write-back throttling off while it is there.
pub fn replaces_wbt(config: &str) -> bool {
    let name = config.split(['{', '+']).next().unwrap_or_default();
    find_or_twin(name).is_some_and(|entry| entry.replaces_wbt)
}

/// A scheduler as it is when it is chosen in a kernel that throttles write-back (CONFIG_BLK_WBT_MQ, on by default):
/// with [`WBT`], but for those that switch throttling off.
pub fn throttled(scheduler: &str) -> String {
    match replaces_wbt(scheduler) {
        true => scheduler.to_string(),
        false => format!("{scheduler}{WBT}"),
    }
}

/// A configuration that can run.
#[derive(Clone, Debug)]
pub struct Config {
    /// As given, without blanks.
    pub id: String,
    /// The part before the braces, without `+wbt`.
    pub base: String,
    /// One line.
    pub summary: String,
    /// The policy; a bare scheduler has none.
    pub policy: Option<&'static Policy>,
    /// The scheduler.
    pub scheduler: &'static Entry,
    /// What is set on it, in order.
    pub set: Vec<(String, u64)>,
    /// What is set on the block layer, in order.
    pub queue: Vec<(String, u64)>,
    /// The controllers, and what is set on them.
    pub controllers: Vec<ControllerSpec>,
    /// What was given for the policy.
    pub given: Vec<(String, u64)>,
    /// Priority of the target; [`IoPrio::NONE`] if never set.
    pub target_prio: IoPrio,
    /// Every process is alone in a group below the root.
    pub groups: bool,
}

/// Why a configuration cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such configuration or scheduler.
    Unknown {
        /// What was asked for.
        name: String,
        /// What may be meant.
        nearest: Option<String>,
    },
    /// Braces or what is between them.
    Syntax {
        /// The configuration.
        text: String,
        /// What is wrong and what to write.
        what: String,
    },
    /// A tunable of that configuration.
    Tunable {
        /// The configuration.
        text: String,
        /// What is wrong.
        error: TunableError,
        /// What may be meant.
        nearest: Option<String>,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meant = |f: &mut fmt::Formatter<'_>, nearest: &Option<String>| match nearest {
            Some(n) => write!(f, "; did you mean '{n}'?"),
            None => Ok(()),
        };
        match self {
            ConfigError::Unknown { name, nearest } => {
                write!(f, "no configuration '{name}'")?;
                if let Some(why) = hoistway::sched::why_missing(name) {
                    return write!(f, ": {why}");
                }
                meant(f, nearest)?;
                write!(f, " (`hoistway list configs` lists them)")
            }
            ConfigError::Syntax { text, what } => write!(f, "configuration '{text}': {what}"),
            ConfigError::Tunable { text, error, nearest } => {
                write!(f, "configuration '{text}': {error}")?;
                meant(f, nearest)
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a configuration; schedulers are those of the registry.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        Registry::shipped().config(text)
    }

    /// The same with schedulers of one's own.
    pub fn parse_with(text: &str, known: &[&'static Entry]) -> Result<Config, ConfigError> {
        let id: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (rest, wbt) = match id.strip_suffix(WBT) {
            Some(rest) => (rest, true),
            None => (id.as_str(), false),
        };
        let (base, settings) = split_braces(rest)?;
        let (policy, entry) = parts_of(base, known).ok_or_else(|| ConfigError::Unknown {
            name: base.to_string(),
            nearest: meant(base, known)
                .or_else(|| nearest(base, all_names(known)).map(str::to_string)),
        })?;
        let wants_weights = policy.is_some_and(|p| p.weights);
        if wants_weights && !entry.weighs_groups() {
            let what = format!(
                "{} does not share by the weights of groups; prop needs a scheduler that does, \
                 such as bfq",
                entry.name
            );
            return Err(ConfigError::Syntax { text: id.clone(), what });
        }
        if let Some(file) = policy.and_then(|p| p.file)
            && !entry.knobs.iter().any(|k| k.file == file)
        {
            let what = format!(
                "{} has no {file} of its own; slo needs a scheduler that does, such as paternoster",
                entry.name
            );
            return Err(ConfigError::Syntax { text: id.clone(), what });
        }
        let named = NAMED.iter().find(|n| n.name == base).map(|n| n.summary.to_string());
        let general = || match policy {
            Some(p) => format!("{}; {}", p.summary, entry.summary),
            None => entry.summary.to_string(),
        };
        let installed = policy.map_or(&[][..], |p| p.controllers).iter().copied();
        let controllers = installed.chain(wbt.then_some("wbt"));
        let mut config = Config {
            base: base.to_string(),
            summary: named.unwrap_or_else(general)
                + if wbt { "; write-back throttling" } else { "" },
            policy,
            scheduler: entry,
            set: Vec::new(),
            queue: Vec::new(),
            controllers: controllers
                .map(|name| ControllerSpec { name: name.to_string(), set: Vec::new() })
                .collect(),
            given: Vec::new(),
            // The class alone, as ionice sets it: level 4.
            target_prio: match policy {
                Some(p) if p.target_rt && !entry.direct => IoPrio::rt(4),
                _ => IoPrio::NONE,
            },
            groups: policy.is_some_and(|p| p.groups),
            id: id.clone(),
        };
        // Off in the latency and bandwidth tests, which name a policy (specs/experiments.md 2).
        if policy.is_some() && entry.tunables.iter().any(|t| t.name == "low_latency") {
            config.set.push(("low_latency".to_string(), 0));
        }
        for setting in settings {
            config.add(setting)?;
        }
        Ok(config)
    }

    /// Adds one `name=value` of the braces: for the policy, a controller, the scheduler or the block
    /// layer, whoever knows it first.
    fn add(&mut self, setting: &str) -> Result<(), ConfigError> {
        let syntax = |what: String| ConfigError::Syntax { text: self.id.clone(), what };
        let Some((name, value)) = setting.split_once('=') else {
            return Err(syntax(format!("'{setting}' has no '='; write name=value")));
        };
        let has = |table: &[Tunable]| table.iter().any(|t| t.name == name);
        let options = self.policy.map_or(&[][..], |p| p.options);
        let mut controllers = self.controllers.iter().map(|c| entry_of(&c.name));
        let (stage, table, place) = if has(options) {
            ("the policy", options, Recipient::Policy)
        } else if let Some((i, e)) = controllers.by_ref().enumerate().find(|(_, e)| has(e.tunables))
        {
            (e.name, e.tunables, Recipient::Controller(i))
        } else if has(QUEUE_TUNABLES) {
            ("queue", QUEUE_TUNABLES, Recipient::Queue)
        } else {
            (self.scheduler.name, self.scheduler.tunables, Recipient::Scheduler)
        };
        let tunable_error = |error| {
            let controllers = self.controllers.iter().flat_map(|c| entry_of(&c.name).tunables);
            let all = self.scheduler.tunables.iter().chain(QUEUE_TUNABLES).chain(options);
            let known = all.chain(controllers).map(|t| t.name);
            let nearest = match error {
                TunableError::Unknown { .. } => nearest(name, known).map(str::to_string),
                _ => None,
            };
            ConfigError::Tunable { text: self.id.clone(), error, nearest }
        };
        let Some(tunable) = table.iter().find(|t| t.name == name) else {
            return Err(tunable_error(TunableError::Unknown { name: name.into(), stage }));
        };
        let value = tunable.parse(value).map_err(|e| syntax(e.into()))?;
        check(table, stage, name, value).map_err(tunable_error)?;
        let list = match place {
            Recipient::Policy => &mut self.given,
            Recipient::Controller(i) => &mut self.controllers[i].set,
            Recipient::Queue => &mut self.queue,
            Recipient::Scheduler => &mut self.set,
        };
        list.retain(|(known, _)| known != name);
        list.push((name.to_string(), value));
        Ok(())
    }

    /// BFQ, with whatever settings.
    pub fn is_bfq(&self) -> bool {
        matches!(self.scheduler.name, "bfq" | "h-bfq")
    }

    /// BFQ that raises the weight of what has just started.
    pub fn raises(&self) -> bool {
        let off = |(name, value): &(String, u64)| name == "low_latency" && *value == 0;
        self.is_bfq() && !self.set.iter().any(off)
    }

    /// What a job needs to know of the scheduler.
    pub fn scheduler_spec(&self) -> SchedulerSpec {
        SchedulerSpec { entry: self.scheduler, set: self.set.clone(), queue: self.queue.clone() }
    }

    /// The lines that the policy writes to a member's files.
    pub fn lines(&self, drive: &DriveFile, member: Member) -> Vec<FileLine> {
        self.policy.map_or_else(Vec::new, |p| (p.lines)(&self.given, drive, member))
    }

    /// Does a stage of this configuration have that cgroup file?
    pub fn has_file(&self, file: &str) -> bool {
        let controllers = self.controllers.iter().flat_map(|c| entry_of(&c.name).knobs);
        let mut all = self.scheduler.knobs.iter().chain(QUEUE_KNOBS).chain(controllers);
        all.any(|k| k.file == file)
    }
}

/// Where a setting of the braces goes.
enum Recipient {
    Policy,
    Controller(usize),
    Queue,
    Scheduler,
}

fn entry_of(name: &str) -> &'static ctl::Entry {
    ctl::find(name).expect("policies name controllers of the registry")
}

/// Policy and scheduler of a name: `POLICY-SCHEDULER`, or a scheduler alone.
fn parts_of(
    base: &str,
    known: &[&'static Entry],
) -> Option<(Option<&'static Policy>, &'static Entry)> {
    // Ours beside the kernel's own of the same name go by the name of the kernel module.
    let scheduler =
        |name: &str| known.iter().copied().find(|e| e.name == name).or_else(|| twin(name));
    if let Some(entry) = scheduler(base) {
        return Some((None, entry));
    }
    let (policy, name) = base.split_once('-')?;
    let policy = POLICIES.iter().find(|p| p.name == policy)?;
    Some((Some(policy), scheduler(name)?))
}

/// Other names of policies: those of their controllers, and of the files of cgroups.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("cost", &["io.cost", "iocost", "io-cost"]),
    ("lat", &["io.latency", "iolatency", "io-latency", "latency"]),
    ("max", &["io.max", "iomax", "io-max", "throttle"]),
    ("low", &["io.low", "iolow", "io-low"]),
    ("prop", &["weight", "io.weight", "proportional"]),
];

/// The configuration that a controller's name stands for, alone (`io.cost`) or beside a scheduler in
/// either order (`iocost-bfq`, `bfq-io.cost`).
fn meant(base: &str, known: &[&'static Entry]) -> Option<String> {
    let lower = base.to_lowercase();
    let policies = SPELLINGS.iter().flat_map(|&(p, all)| all.iter().map(move |&s| (p, s)));
    let policies = policies.chain(POLICIES.iter().map(|p| (p.name, p.name)));
    let mut found = policies.filter_map(|(policy, spelling)| {
        let rest = match (lower.strip_prefix(spelling), lower.strip_suffix(spelling)) {
            (Some(rest), _) => rest.trim_start_matches(['-', '+']),
            (_, Some(rest)) => rest.trim_end_matches(['-', '+']),
            _ => return None,
        };
        let scheduler = match rest {
            "" if policy == "prop" => "bfq",
            "" => "none",
            rest => rest,
        };
        let name = format!("{policy}-{scheduler}");
        parts_of(&name, known).map(|_| name)
    });
    found.next()
}

/// Does a configuration have this base name?
pub fn is_known(base: &str, known: &[&'static Entry]) -> bool {
    parts_of(base, known).is_some()
}

/// Does any stage of any configuration have this cgroup file?
pub fn is_file(file: &str, known: &[&'static Entry]) -> bool {
    let schedulers = known.iter().flat_map(|e| e.knobs);
    let controllers = ctl::CONTROLLERS.iter().flat_map(|e| e.knobs);
    QUEUE_KNOBS.iter().chain(schedulers).chain(controllers).any(|k| k.file == file)
}

/// The canonical names, then the bare schedulers.
pub fn all_names(known: &[&'static Entry]) -> impl Iterator<Item = &'static str> + Clone {
    let schedulers: Vec<&'static str> = known.iter().map(|e| e.name).collect();
    NAMED.iter().map(|n| n.name).chain(schedulers)
}

/// Name and settings of `name{a=1,b=2}`.
fn split_braces(text: &str) -> Result<(&str, Vec<&str>), ConfigError> {
    let wrong = |what: &str| ConfigError::Syntax { text: text.into(), what: what.into() };
    let Some((base, rest)) = text.split_once('{') else {
        return match text.contains('}') {
            true => Err(wrong("'}' without '{'")),
            false => Ok((text, Vec::new())),
        };
    };
    let inner =
        rest.strip_suffix('}').ok_or_else(|| wrong("'{' is not closed; write name{a=1}"))?;
    if inner.contains(['{', '}']) {
        return Err(wrong("braces inside braces"));
    }
    if inner.is_empty() {
        return Err(wrong("nothing between the braces; write name{a=1} or leave them out"));
    }
    Ok((base, inner.split(',').collect()))
}

/// Splits at commas outside braces; blanks around the parts are dropped, empty parts kept (they are
/// refused as names later).
pub fn split_list(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0usize;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("the list begins with one part").push(c);
        }
    }
    parts.iter().map(|p| p.trim().to_string()).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hoistway::Profile;
    use hoistway::sched::{Scheduler, Search, Service, Setup};
    use hoistway::setting::{Tunable, Unit};
    use hoistway::stage::StageInfo;

    fn unbuilt(_: &Setup<'_>) -> Box<dyn Scheduler> {
        unreachable!("configurations are only parsed here")
    }

    const fn tunable(name: &'static str, unit: Unit, max: u64) -> Tunable {
        Tunable::new(name, unit, 1, (0, max), "For tests.")
    }

    const fn entry(name: &'static str, profile: Profile, tunables: &'static [Tunable]) -> Entry {
        Entry {
            stage: StageInfo {
                name,
                summary: "for tests",
                source: "none",
                tunables,
                group_tunables: &[],
                knobs: &[],
                figures: &[],
                decisions: &[],
            },
            profile,
            service: Service::Requests,
            search: Search::Elevator,
            sorted: false,
            direct: false,
            tag_percent_min: None,
            tags_min: 0,
            replaces_wbt: false,
            build: &unbuilt,
        }
    }

    static NONE: Entry = entry("none", Profile::MultiQueue, &[]);
    static DEADLINE: Entry = entry("deadline", Profile::Legacy, &[]);
    static MQ: Entry = entry(
        "mq-deadline",
        Profile::MultiQueue,
        &[
            tunable("fifo_batch", Unit::Count, 64),
            tunable("read_expire", Unit::Millis, 60_000),
            tunable("order", Unit::Choice(&["fifo", "sector"]), 1),
        ],
    );
    static BFQ: Entry =
        entry("bfq", Profile::MultiQueue, &[tunable("low_latency", Unit::Switch, 1)]);
    /// A registry for tests that do not run anything.
    pub(crate) static ENTRIES: &[&Entry] = &[&NONE, &DEADLINE, &MQ, &BFQ];

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(text, ENTRIES)
    }

    #[test]
    fn lists_split_at_commas_outside_braces() {
        assert_eq!(split_list("a{b=1,c=2}, d,e{f=3}"), ["a{b=1,c=2}", "d", "e{f=3}"]);
        assert_eq!(split_list("a,,b"), ["a", "", "b"]);
    }

    #[test]
    fn none_bfq_puts_the_target_into_the_real_time_class() {
        let c = parse("none-bfq").unwrap();
        assert_eq!((c.scheduler.name, c.target_prio), ("bfq", IoPrio::rt(4)));
        assert_eq!(c.set, [("low_latency".to_string(), 0)]);
        assert_eq!(parse("bfq").unwrap().target_prio, IoPrio::NONE);
        assert_eq!(parse("none-none").unwrap().scheduler.name, "none");
        let c = parse("none-bfq{low_latency=1}").unwrap();
        assert_eq!(c.set, [("low_latency".to_string(), 1)], "the braces win");
    }

    #[test]
    fn tunables_stand_in_braces_with_units_and_words() {
        let c =
            parse("mq-deadline{fifo_batch=8, read_expire=2s,order=sector,nr_requests=64}").unwrap();
        let set: Vec<_> = c.set.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        assert_eq!(set, [("fifo_batch", 8), ("read_expire", 2000), ("order", 1)]);
        assert_eq!(c.queue, [("nr_requests".to_string(), 64)]);
        assert_eq!(c.id, "mq-deadline{fifo_batch=8,read_expire=2s,order=sector,nr_requests=64}");
        assert_eq!(c.base, "mq-deadline");
    }

    #[test]
    fn every_mistake_is_named() {
        let cases = [
            ("mq-deadlin", "did you mean 'mq-deadline'?"),
            ("lat-kyber", "no configuration 'lat-kyber'"),
            ("cfq-2.6.33", "choose cfq-2.6.32, cfq (2.6.34) or cfq-2.6.38"),
            ("io.cost", "did you mean 'cost-none'?"),
            ("iocost-bfq", "did you mean 'cost-bfq'?"),
            ("bfq-io.latency", "did you mean 'lat-bfq'?"),
            ("IO.MAX", "did you mean 'max-none'?"),
            ("weight", "did you mean 'prop-bfq'?"),
            ("prop-none", "none does not share by the weights of groups"),
            ("max-none{rbps=10Mbit}", "'10Mbit' is not a rate"),
            ("lat-none{target=0}", "target = 0 is outside 1..="),
            ("mq-deadline{fifo_bach=8}", "did you mean 'fifo_batch'?"),
            ("mq-deadline{fifo_batch=65}", "fifo_batch = 65 is outside 0..=64"),
            ("mq-deadline{order=sideways}", "choose one of fifo, sector"),
            ("mq-deadline{fifo_batch}", "write name=value"),
            ("mq-deadline{fifo_batch=8", "is not closed"),
            ("mq-deadline}", "'}' without '{'"),
            ("mq-deadline{}", "nothing between the braces"),
            ("none{nr_requests=1}", "nr_requests = 1 is outside"),
            ("", "no configuration ''"),
        ];
        for (text, expected) in cases {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
