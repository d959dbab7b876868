//! Configurations of I/O control: `policy-scheduler` as in specs/experiments.md 2, or a bare scheduler,
//! with tunables in braces: `mq-deadline{fifo_batch=8,front_merges=0}`.

use crate::quantity::tunable_value;
use hoistway::IoPrio;
use hoistway::sched::{self, Entry};
use hoistway::stack::QUEUE_TUNABLES;
use hoistway::tunable::{TunableError, check};
use hoistway_sim::drive::keys::nearest;
use hoistway_sim::world::SchedulerSpec;
use std::fmt;

/// A configuration with a policy of its own.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The scheduler.
    pub scheduler: &'static str,
    /// Priority of the target; `None`: never set.
    pub target_prio: Option<IoPrio>,
    /// Every process is alone in a group below the root, all weights at their default.
    pub groups: bool,
    /// Set if the scheduler has such a tunable, and unless the braces say otherwise.
    pub set_if_known: &'static [(&'static str, u64)],
    /// The controller it needs, if that does not exist yet.
    pub needs: Option<&'static str>,
}

/// Every named configuration, in the order of listing.
pub static NAMED: &[Named] = &[
    Named {
        name: "none-none",
        summary: "no I/O control: the reference",
        scheduler: "none",
        target_prio: None,
        groups: false,
        set_if_known: &[],
        needs: None,
    },
    Named {
        name: "none-bfq",
        summary: "BFQ, the target in the real-time class",
        scheduler: "bfq",
        // The class alone, as ionice sets it: level 4.
        target_prio: Some(IoPrio::rt(4)),
        groups: false,
        set_if_known: &[("low_latency", 0)],
        needs: None,
    },
    Named {
        name: "prop-bfq",
        summary: "BFQ, a group of weight 100 per process, the target in the real-time class",
        scheduler: "bfq",
        target_prio: Some(IoPrio::rt(4)),
        groups: true,
        set_if_known: &[("low_latency", 0)],
        needs: None,
    },
    missing("lat-none", "io.latency, target 10 us", "none", "io.latency"),
    missing("cost-none", "io.cost, equal weights", "none", "io.cost"),
    missing("max-none", "io.max, equal limits", "none", "io.max"),
    missing("low-none", "blk-throttle low limits", "none", "blk-throttle low"),
];

const fn missing(
    name: &'static str,
    summary: &'static str,
    scheduler: &'static str,
    needs: &'static str,
) -> Named {
    Named {
        name,
        summary,
        scheduler,
        target_prio: None,
        groups: false,
        set_if_known: &[],
        needs: Some(needs),
    }
}

/// Schedulers of specs/experiments.md 2, whether they exist yet or not.
const PLANNED: &[&str] =
    &["none", "noop", "deadline", "mq-deadline", "bfq", "sio", "cfq", "kyber", "deadline-zoccolo"];

/// A configuration that can run.
#[derive(Clone, Debug)]
pub struct Config {
    /// As given, without blanks.
    pub id: String,
    /// The part before the braces.
    pub base: String,
    /// One line.
    pub summary: String,
    /// The scheduler.
    pub scheduler: &'static Entry,
    /// What is set on it, in order.
    pub set: Vec<(String, u64)>,
    /// What is set on the block layer, in order.
    pub queue: Vec<(String, u64)>,
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
    /// It exists in the catalogue, but a part of it is not built yet.
    NotYet {
        /// What was asked for.
        name: String,
        /// The part.
        needs: String,
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
                meant(f, nearest)?;
                write!(f, " (`hoistway list configs` lists them)")
            }
            ConfigError::NotYet { name, needs } => {
                write!(f, "{name} is not available yet: needs {needs}")
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
        Config::parse_with(text, sched::SCHEDULERS)
    }

    /// The same with schedulers of one's own.
    pub fn parse_with(text: &str, known: &[&'static Entry]) -> Result<Config, ConfigError> {
        let id: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (base, settings) = split_braces(&id)?;
        let named = NAMED.iter().find(|n| n.name == base);
        if let Some(Named { name, needs: Some(needs), .. }) = named {
            let needs = match *needs {
                part if part.contains(' ') => part.to_string(),
                controller => format!("the {controller} controller"),
            };
            return Err(ConfigError::NotYet { name: name.to_string(), needs });
        }
        let scheduler = named.map_or(base, |n| n.scheduler);
        let Some(&entry) = known.iter().find(|e| e.name == scheduler) else {
            return Err(unknown(base, scheduler, known));
        };
        let mut config = Config {
            base: base.to_string(),
            summary: named.map_or(entry.summary, |n| n.summary).to_string(),
            scheduler: entry,
            set: Vec::new(),
            queue: Vec::new(),
            target_prio: named.and_then(|n| n.target_prio).unwrap_or(IoPrio::NONE),
            groups: named.is_some_and(|n| n.groups),
            id: id.clone(),
        };
        for &(name, value) in named.map_or(&[][..], |n| n.set_if_known) {
            if entry.tunables.iter().any(|t| t.name == name) {
                config.set.push((name.to_string(), value));
            }
        }
        for setting in settings {
            config.add(setting)?;
        }
        Ok(config)
    }

    /// Adds one `name=value` of the braces.
    fn add(&mut self, setting: &str) -> Result<(), ConfigError> {
        let syntax = |what: String| ConfigError::Syntax { text: self.id.clone(), what };
        let Some((name, value)) = setting.split_once('=') else {
            return Err(syntax(format!("'{setting}' has no '='; write name=value")));
        };
        let queue = QUEUE_TUNABLES.iter().any(|t| t.name == name);
        let table = if queue { QUEUE_TUNABLES } else { self.scheduler.tunables };
        let stage = self.scheduler.name;
        let tunable_error = |error| {
            let known = self.scheduler.tunables.iter().chain(QUEUE_TUNABLES).map(|t| t.name);
            let nearest = match error {
                TunableError::Unknown { .. } => nearest(name, known).map(str::to_string),
                _ => None,
            };
            ConfigError::Tunable { text: self.id.clone(), error, nearest }
        };
        let Some(tunable) = table.iter().find(|t| t.name == name) else {
            return Err(tunable_error(TunableError::Unknown { name: name.into(), stage }));
        };
        let value = tunable_value(tunable, value).map_err(syntax)?;
        check(table, stage, name, value).map_err(tunable_error)?;
        let list = if queue { &mut self.queue } else { &mut self.set };
        list.retain(|(known, _)| known != name);
        list.push((name.to_string(), value));
        Ok(())
    }

    /// What a job needs to know of it.
    pub fn scheduler_spec(&self) -> SchedulerSpec {
        SchedulerSpec {
            name: self.scheduler.name.to_string(),
            set: self.set.clone(),
            queue: self.queue.clone(),
        }
    }
}

/// Is this the base name of a configuration of the catalogue, whether it is built or not?
pub fn is_known(base: &str) -> bool {
    all_names(sched::SCHEDULERS).any(|n| n == base)
}

/// Every name that a configuration may begin with.
pub fn all_names(known: &[&'static Entry]) -> impl Iterator<Item = &'static str> + Clone {
    let more = known.iter().map(|e| e.name).filter(|n| !PLANNED.contains(n));
    let more: Vec<&'static str> = more.collect();
    NAMED.iter().map(|n| n.name).chain(PLANNED.iter().copied()).chain(more)
}

fn unknown(base: &str, scheduler: &str, known: &[&'static Entry]) -> ConfigError {
    if PLANNED.contains(&scheduler) {
        return ConfigError::NotYet {
            name: base.to_string(),
            needs: format!("the {scheduler} scheduler"),
        };
    }
    let nearest = nearest(base, all_names(known)).map(str::to_string);
    ConfigError::Unknown { name: base.to_string(), nearest }
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
    use hoistway::sched::{Scheduler, Search, Setup};
    use hoistway::tunable::{Tunable, Unit};

    fn unbuilt(_: &Setup<'_>) -> Box<dyn Scheduler> {
        unreachable!("configurations are only parsed here")
    }

    const fn tunable(name: &'static str, unit: Unit, max: u64) -> Tunable {
        Tunable { name, unit, default: 1, min: 0, max, doc: "For tests." }
    }

    const fn entry(name: &'static str, profile: Profile, tunables: &'static [Tunable]) -> Entry {
        Entry {
            name,
            summary: "for tests",
            source: "none",
            profile,
            search: Search::Elevator,
            sorted: false,
            direct: false,
            tag_percent_min: None,
            tunables,
            group_tunables: &[],
            knobs: &[],
            build: unbuilt,
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
            ("lat-none", "lat-none is not available yet: needs the io.latency controller"),
            ("max-none", "needs the io.max controller"),
            ("kyber", "not available yet: needs the kyber scheduler"),
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
