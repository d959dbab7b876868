//! How long the policies in force may let the device stand still although I/O waits: the bounds, each with
//! its reason.
//!
//! Every stand-still ends with a command at the device, every command ends, and the number of commands that
//! a set of I/Os can become is finite. So these bounds also bound the time in which everything drains once
//! the load stops: ([I/Os + pieces + flushes] * (stand-still + service)).

use hoistway::sched::Scheduler;
use hoistway::{GroupId, Nanos, Profile, Sectors, Stack};

/// One summand.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The stage, or the setting of it.
    pub who: String,
    /// How long.
    pub time: Nanos,
    /// Why that is promised.
    pub why: &'static str,
}

/// A scheduler, how many ns it withholds for, and why.
type Row = (&'static str, fn(&dyn Scheduler) -> u64, &'static str);

/// Time for which a scheduler withholds requests from an idle device, by its tunables, and the reason. One
/// that is not listed never does.
const SCHEDULERS: &[Row] = &[
    (
        "bfq",
        |s| match (s.value("slice_idle_us").unwrap_or(0) * US, s.value("strict_guarantees")) {
            (0, Some(0)) => 0,
            (idle, _) => idle.max(20 * MS),
        },
        "the queue in service may be waited for until its idle timer ends: slice_idle, or 20 ms if its weight \
         is raised; then another is chosen",
    ),
    (
        "deadline-zoccolo",
        |s| ms(s, "async_delay"),
        "async requests younger than async_delay are not chosen",
    ),
    (
        "paternoster",
        |_| 16 * MS,
        "others are held for 8 ms while a process that has just begun thinks; then a stream on a disk may be waited for, \
         or sync writes held behind a flush, for 8 ms",
    ),
    ("bfq-v1", |s| ms(s, "slice_idle"), IDLES),
    (
        "bfq-v4",
        |s| 3 * ms(s, "slice_idle"),
        "the queue in service may be waited for until its idle timer ends: slice_idle, or three times that if its \
         weight is raised; then another is chosen",
    ),
    ("cfq", |s| ms(s, "slice_idle") + ms(s, "group_idle"), IDLES),
    ("cfq-2.6.30", |s| ms(s, "slice_idle"), IDLES),
    ("cfq-2.6.32", |s| ms(s, "slice_idle"), IDLES),
    ("cfq-2.6.38", |s| ms(s, "slice_idle") + ms(s, "group_idle"), IDLES),
];

const IDLES: &str = "the queue in service (cfq: then its group) may be waited for until its idle timer ends; then \
                     another is chosen";

fn ms(scheduler: &dyn Scheduler, tunable: &str) -> u64 {
    scheduler.value(tunable).unwrap_or(0) * MS
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SEC: u64 = 1_000_000_000;

/// What was asked of the stack so far, as far as a bound depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// The largest I/O.
    pub largest: Sectors,
    /// All of them.
    pub ios: u64,
    pub sectors: Sectors,
    /// The largest limits of `io.max` and `io.low` that were in force: bytes and I/Os per second.
    pub rates: (u64, u64),
    /// The least limits of `io.max` of groups that were removed, 0: none; what they hold waits by them.
    pub left: (u64, u64),
    /// The deepest level of a group that was removed.
    pub left_level: u32,
    /// I/Os that pass a controller on credit (metadata, swap), and their sectors.
    pub on_credit: (u64, Sectors),
    /// The slowest models of `io.cost` that were in force, reads and writes.
    pub slowest: [Option<Model>; 2],
    /// Its longest period that was in force.
    pub period: Nanos,
    /// `mq-deadline` decided as the kernel's: what it withheld then stays withheld.
    pub from_the_future: bool,
    /// The longest `slice_idle` under a `base` of BFQ that leaves waits as they were begun.
    pub kept_wait: Nanos,
}

/// Pages and I/Os per second of a model of `io.cost`, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    pages: u64,
    ios: u64,
}

impl Model {
    /// A price of 0 rates counts as none.
    fn price(self, sectors: Sectors, ios: u64) -> u128 {
        let each = |n: u64, rate: u64| u128::from(n) * u128::from(SEC) / u128::from(rate);
        // Each I/O may end with a page that it uses in part.
        each(sectors.0 / 8 + 2 * ios, self.pages) + each(ios, self.ios)
    }

    fn slower(self, other: Model) -> Model {
        Model { pages: self.pages.min(other.pages), ios: self.ios.min(other.ios) }
    }
}

impl Load {
    /// A group is about to be removed.
    pub fn note_removal(&mut self, stack: &mut Stack, group: GroupId) {
        let (bytes, ios) = least(&limits(stack, group, "io.max"));
        self.left = (lesser(self.left.0, bytes), lesser(self.left.1, ios));
        self.left_level = self.left_level.max(stack.env().groups.level(group));
    }

    /// Takes notice of the settings in force: what was begun under them may outlast them.
    pub fn note(&mut self, stack: &mut Stack) {
        let (entry, value) = (stack.scheduler_entry(), |name| stack.scheduler().value(name));
        let own = entry.tunables.iter().find(|t| t.name == "base").map(|t| t.default);
        let kernels = value("base") != own;
        self.from_the_future |= kernels && entry.name == "mq-deadline";
        if entry.name == "bfq" && kernels {
            let wait = Nanos(value("slice_idle_us").unwrap_or(0) * US);
            self.kept_wait = self.kept_wait.max(wait);
        }
        let names: Vec<&str> = stack.controllers().map(|c| c.0.name).collect();
        if names.contains(&"io.cost") {
            self.note_models(stack);
        }
        let files: &[&str] = match () {
            _ if names.contains(&"io.low") => &["io.max", "io.low"],
            _ if names.contains(&"io.max") => &["io.max"],
            _ => &[],
        };
        for (bytes, ios) in files.iter().flat_map(|file| rates(stack, file)) {
            self.rates = (self.rates.0.max(bytes), self.rates.1.max(ios));
        }
    }

    fn note_models(&mut self, stack: &mut Stack) {
        let text = stack.read_knob(GroupId::ROOT, "io.cost.model").unwrap_or_default();
        let value = |key: &str| {
            let token =
                text.split_whitespace().find_map(|t| t.strip_prefix(key)?.strip_prefix('='));
            // 0: that part of a price is nothing.
            token.and_then(|v| v.parse().ok()).filter(|&v: &u64| v > 0).unwrap_or(u64::MAX)
        };
        for (slowest, dir) in self.slowest.iter_mut().zip(["r", "w"]) {
            let ios = value(&format!("{dir}seqiops")).min(value(&format!("{dir}randiops")));
            let model = Model { pages: value(&format!("{dir}bps")).div_ceil(4096), ios };
            *slowest = Some(slowest.map_or(model, |s| s.slower(model)));
        }
        let period = stack.controllers().find_map(|c| c.1.value("period_max"));
        self.period = self.period.max(Nanos(period.unwrap_or(0) * US));
    }
}

/// The summands now, after this load.
pub fn stand_still(stack: &mut Stack, load: &Load) -> Vec<Bound> {
    let mut bounds = vec![surroundings(stack)];
    bounds.extend(scheduler(stack));
    if load.kept_wait > Nanos::ZERO && stack.scheduler_entry().name == "bfq" {
        bounds.push(Bound {
            who: "bfq with another base than hoistway".into(),
            time: load.kept_wait,
            why: "a wait lasts as long as slice_idle was when it began",
        });
    }
    if load.from_the_future && stack.scheduler_entry().name == "mq-deadline" {
        bounds.push(Bound {
            who: "mq-deadline with another base than hoistway".into(),
            time: Nanos(600 * SEC),
            why: "a request is from the future by as much as its expiry was lowered, at most by all of it",
        });
    }
    let names: Vec<&str> = stack.controllers().map(|c| c.0.name).collect();
    for name in names {
        bounds.extend(match name {
            "io.max" | "io.low" => Some(max(stack, name, load)),
            "io.cost" => Some(cost(stack, load)),
            // Depth limits of at least one: they wait for completions, never for time.
            _ => None,
        });
    }
    bounds
}

/// The block layer itself.
fn surroundings(stack: &Stack) -> Bound {
    let device = &stack.env().device;
    let tick = device.tick.0;
    let time = match device.profile {
        Profile::Legacy => 3 * MS + tick,
        Profile::MultiQueue => (3 * MS).div_ceil(tick) * tick + 2 * tick,
    };
    Bound {
        who: "block layer".into(),
        time: Nanos(time + device.flush_kick_delay.0),
        why: "the device plug (legacy) is released after 3 ms, a withheld queue runs again after 3 ms in \
              whole ticks, a flush follows a completion after the kick delay",
    }
}

fn scheduler(stack: &Stack) -> Option<Bound> {
    let name = stack.scheduler_entry().name;
    let row = SCHEDULERS.iter().find(|row| row.0 == name)?;
    // Timers of schedulers born in ticks end with one, and begin with one.
    let time = row.1(stack.scheduler()) + 2 * stack.env().device.tick.0;
    Some(Bound { who: name.into(), time: Nanos(time), why: row.2 })
}

/// Limits of a group: bytes or I/Os per second, 0 where there is none.
fn limits(stack: &mut Stack, group: GroupId, file: &str) -> Vec<(u64, u64)> {
    let text = stack.read_knob(group, file).unwrap_or_default();
    let pairs = text.split_whitespace().filter_map(|token| token.split_once('='));
    let limit = |(key, value): (&str, &str)| match (key, value.parse()) {
        ("rbps" | "wbps", Ok(rate)) => Some((rate, 0)),
        ("riops" | "wiops", Ok(rate)) => Some((0, rate)),
        _ => None,
    };
    pairs.filter_map(limit).collect()
}

/// Those of all living groups.
fn rates(stack: &mut Stack, file: &str) -> Vec<(u64, u64)> {
    let groups: Vec<GroupId> = stack.env().groups.living().collect();
    groups.into_iter().flat_map(|group| limits(stack, group, file)).collect()
}

/// The least limits, 0 where there is none.
fn least(all: &[(u64, u64)]) -> (u64, u64) {
    let least = |rates: &mut dyn Iterator<Item = u64>| rates.filter(|&r| r > 0).min().unwrap_or(0);
    (least(&mut all.iter().map(|r| r.0)), least(&mut all.iter().map(|r| r.1)))
}

/// The lesser of two limits, 0: none.
fn lesser(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

fn max(stack: &mut Stack, name: &str, load: &Load) -> Bound {
    let (bytes, ios) = least(&rates(stack, "io.max"));
    let (bytes, ios) = (lesser(bytes, load.left.0), lesser(ios, load.left.1));
    let unlimited = |rate: u64| if rate == 0 { u64::MAX } else { rate };
    let (mut bytes, mut ios) = (unlimited(bytes), unlimited(ios));
    if name == "io.low" {
        let low = least(&rates(stack, "io.low"));
        let low = (unlimited(low.0), unlimited(low.1));
        let groups: Vec<GroupId> = stack.env().groups.living().collect();
        let set = |g: GroupId| stack.read_knob(g, "io.low").is_some_and(|text| !text.is_empty());
        if groups.into_iter().any(set) {
            // Without a limit of its own a group is held to these while others miss theirs.
            bytes = bytes.min(low.0).min(320 << 10);
            ios = ios.min(low.1).min(10);
        }
    }
    let groups = &stack.env().groups;
    let levels = groups.living().map(|g| groups.level(g)).max().unwrap_or(0);
    let levels = levels.max(load.left_level).max(1);
    let seconds = |amount: u64, rate: u64| u128::from(amount) * u128::from(SEC) / u128::from(rate);
    let slice = stack.controllers().find(|c| c.0.name == name).and_then(|c| c.1.value("slice"));
    let slice = slice.unwrap_or(1000) * MS;
    // A change of a limit carries over what its slice, of at most a second, had granted in advance.
    let advance = |rate: u64, one: u64, all: u64| rate.saturating_add(one).min(all);
    let largest = load.largest.bytes().0;
    let advance_bytes = advance(load.rates.0, largest, load.sectors.bytes().0);
    // A piece of a split I/O is at least a sector.
    let advance_ios = advance(load.rates.1, 1, load.ios + load.sectors.0);
    let one = seconds(largest + advance_bytes, bytes)
        + seconds(1 + advance_ios, ios)
        + u128::from(3 * slice);
    // The kernel's timer wheel is late by one unit of its resolution: 8 ticks in 63, 64 in 504, and so on.
    let one = one + one / 7;
    Bound {
        who: name.into(),
        time: Nanos(u64::try_from(one * u128::from(levels)).unwrap_or(u64::MAX)),
        why: "at every level an I/O waits until its size fits the limit, from the end of the one before, \
              behind what was granted in advance under another limit, rounded up to slices and to the \
              resolution of the timer wheel",
    }
}

fn cost(stack: &mut Stack, load: &Load) -> Bound {
    // Every I/O that joined a request may have done so on credit.
    let merged = stack.counters().merged;
    let credit = Sectors(load.on_credit.1.0 + merged * load.largest.0);
    let ios = 1 + load.on_credit.0 + merged;
    let price = |model: Model| model.price(Sectors(load.largest.0 + credit.0), ios);
    let price = load.slowest.iter().flatten().map(|&m| price(m)).max().unwrap_or(0);
    let qos = stack.read_knob(GroupId::ROOT, "io.cost.qos").unwrap_or_default();
    let least = qos.split_whitespace().find_map(|t| t.strip_prefix("min=")?.parse().ok());
    let percent = least.unwrap_or(1.0f64).max(1.0) as u128;
    let groups = stack.env().groups.len() as u128;
    // A quarter more: vtime that came too early is taken back by a slower rate.
    let time = price * 100 / percent * groups * 5 / 4 + 4 * u128::from(load.period.0);
    Bound {
        who: "io.cost".into(),
        time: Nanos(u64::try_from(time).unwrap_or(u64::MAX)),
        why: "of the groups that wait one has its share of the modelled device, at least the number of groups \
              in parts of it, at the least vrate; its next I/O waits for its price and for what passed on \
              credit, under the model in force when it came; shares of groups that have gone idle return \
              after two periods",
    }
}
