//! What happens in a guest while the calls into its scheduler are recorded: processes, groups, and what is changed on
//! the way. A scenario is a text, a line for each part, so that it can be read, cut down by hand and kept as a test.
//!
//! ```text
//! scheduler mq-deadline
//! drive plextor-px-256m5s
//! length 1500
//! group a 300
//! process start=0 end=1500 group=a prio=be4 load=read order=random bytes=4096 depth=4 base=0 span=1073741824 think=10
//! at 700 set read_expire 100
//! at 800 weight a 50
//! at 850 device-weight a 200
//! at 900 prio 0 rt2
//! at 950 move 0 root
//! at 980 remove a
//! ```
//!
//! A scenario of a controller begins with `controller io.max` in place of the scheduler (there is none) and writes the
//! files of groups; `DEV` stands for the number of the disk:
//!
//! ```text
//! at 0 write a io.max DEV rbps=1048576 wiops=max
//! at 0 write root io.cost.qos DEV enable=1
//! ```
//!
//! Times are ms since the scenario begins, `think` is in µs, places and sizes in bytes. Processes are known by their
//! number, from 0.

use hoistway::sched::{self, Entry};
use hoistway::setting::TunableError;
use hoistway::unit::{Class, IoPrio};
use std::fmt;
use std::str::FromStr;

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The scheduler, by the kernel's name, or the controller.
    pub scheduler: String,
    /// The drive: a name of the catalogue, or a file.
    pub drive: String,
    /// When the last process ends, in ms.
    pub length: u64,
    /// Groups, parents first, with their weights.
    pub groups: Vec<(String, Option<u32>)>,
    /// Processes.
    pub processes: Vec<Process>,
    /// What is changed, in the order of time.
    pub changes: Vec<Change>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// When it is born and when it stops, in ms.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Its group; `None`: the root.
    pub group: Option<String>,
    /// Its priority; `NONE`: never set.
    pub prio: IoPrio,
    /// What it does.
    pub load: Load,
    /// Where.
    pub order: IoOrder,
    /// Bytes of an I/O.
    pub bytes: u64,
    /// I/Os at a time.
    pub depth: u32,
    /// First byte of its region.
    pub base: u64,
    /// Bytes of its region.
    pub span: u64,
    /// Pause before each I/O, in µs.
    pub think: u64,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Direct reads.
    Read,
    /// Direct writes.
    Write,
    /// Direct reads and writes by turns that a random stream chooses.
    Mixed,
    /// Writes through the page cache; every so many are written back by fdatasync (0: never).
    Buffered(u32),
    /// Direct reads, one every so many ms.
    Periodic(u64),
    /// So many processes one after the other, each of which reads four times and ends.
    Children(u32),
}

/// Where the I/O of a process goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOrder {
    /// One after the other.
    Sequential,
    /// Anywhere in the region.
    Random,
    /// One after the other with so many bytes from begin to begin.
    Stride(u64),
}

/// A change on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, in ms.
    pub at: u64,
    /// What.
    pub what: What,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A tunable of the scheduler.
    Set(String, u64),
    /// The weight of a group.
    Weight(String, u32),
    /// The weight of a group for this device; 0: none of its own.
    DeviceWeight(String, u32),
    /// The priority of a process.
    Prio(usize, IoPrio),
    /// The group of a process; `None`: the root.
    Move(usize, Option<String>),
    /// A group is removed; its processes go to the root before.
    Remove(String),
    /// A file of a group is written; `None`: of the root.
    Write(Option<String>, String, String),
}

/// What stands for the number of the disk in a value that is written.
pub const DEV: &str = "DEV";

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_of_controller() { "controller" } else { "scheduler" };
        writeln!(f, "{kind} {}\ndrive {}\nlength {}", self.scheduler, self.drive, self.length)?;
        for (group, weight) in &self.groups {
            match weight {
                Some(weight) => writeln!(f, "group {group} {weight}")?,
                None => writeln!(f, "group {group}")?,
            }
        }
        self.processes.iter().try_for_each(|p| writeln!(f, "process {p}"))?;
        self.changes.iter().try_for_each(|c| writeln!(f, "at {} {}", c.at, c.what))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "start={} end={}", self.start, self.end)?;
        if let Some(group) = &self.group {
            write!(f, " group={group}")?;
        }
        if self.prio != IoPrio::NONE {
            write!(f, " prio={}", prio_text(self.prio))?;
        }
        match self.load {
            Load::Read => f.write_str(" load=read")?,
            Load::Write => f.write_str(" load=write")?,
            Load::Mixed => f.write_str(" load=mixed")?,
            Load::Buffered(every) => write!(f, " load=buffered:{every}")?,
            Load::Periodic(ms) => write!(f, " load=periodic:{ms}")?,
            Load::Children(n) => write!(f, " load=children:{n}")?,
        }
        match self.order {
            IoOrder::Sequential => f.write_str(" order=sequential")?,
            IoOrder::Random => f.write_str(" order=random")?,
            IoOrder::Stride(bytes) => write!(f, " order=stride:{bytes}")?,
        }
        write!(
            f,
            " bytes={} depth={} base={} span={} think={}",
            self.bytes, self.depth, self.base, self.span, self.think
        )
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Set(name, value) => write!(f, "set {name} {value}"),
            What::Weight(group, weight) => write!(f, "weight {group} {weight}"),
            What::DeviceWeight(group, weight) => write!(f, "device-weight {group} {weight}"),
            What::Prio(process, prio) => write!(f, "prio {process} {}", prio_text(*prio)),
            What::Move(process, group) => {
                write!(f, "move {process} {}", group.as_deref().unwrap_or(ROOT))
            }
            What::Remove(group) => write!(f, "remove {group}"),
            What::Write(group, file, value) => {
                write!(f, "write {} {file} {value}", group.as_deref().unwrap_or(ROOT))
            }
        }
    }
}

const ROOT: &str = "root";

fn prio_text(prio: IoPrio) -> String {
    match prio.class() {
        Class::None => "none".to_string(),
        Class::Rt => format!("rt{}", prio.level()),
        Class::Be => format!("be{}", prio.level()),
        Class::Idle => "idle".to_string(),
    }
}

fn prio(text: &str) -> Result<IoPrio, String> {
    let wrong =
        || format!("no such priority: '{text}'; there are rt0 to rt7, be0 to be7, idle, none");
    let level = |text: &str| text.parse().ok().filter(|&n| n < 8).ok_or_else(wrong);
    match text {
        "none" => Ok(IoPrio::NONE),
        "idle" => Ok(IoPrio::idle()),
        _ => match (text.strip_prefix("rt"), text.strip_prefix("be")) {
            (Some(n), _) => Ok(IoPrio::rt(level(n)?)),
            (_, Some(n)) => Ok(IoPrio::be(level(n)?)),
            _ => Err(wrong()),
        },
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

fn group(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match text.split('/').all(|part| !part.is_empty() && part.chars().all(good)) {
        true => Ok(text.to_string()),
        false => Err(format!("'{text}' is not the path of a group, such as a/b")),
    }
}

fn place(text: &str) -> Result<Option<String>, String> {
    if text == ROOT { Ok(None) } else { group(text).map(Some) }
}

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioError {
    /// One of its lines is wrong.
    Line {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Its lines do not go together; how.
    Whole(String),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioError::Line { number, what } => write!(f, "line {number}: {what}"),
            ScenarioError::Whole(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Scenario, ScenarioError> {
        let at = |number| move |what| ScenarioError::Line { number, what };
        let mut scenario = Scenario {
            scheduler: String::new(),
            drive: String::new(),
            length: 0,
            groups: Vec::new(),
            processes: Vec::new(),
            changes: Vec::new(),
        };
        let mut lines_of_changes = Vec::new();
        for (n, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                scenario.line(line).map_err(at(n))?;
                lines_of_changes.resize(scenario.changes.len(), n);
            }
        }
        scenario.check().map_err(ScenarioError::Whole)?;
        for (&n, change) in lines_of_changes.iter().zip(&scenario.changes) {
            scenario.check_tunable(change).map_err(at(n))?;
        }
        Ok(scenario)
    }
}

impl Scenario {
    /// What is recorded is a controller's; there is no scheduler.
    pub fn is_of_controller(&self) -> bool {
        self.scheduler.starts_with("io.")
    }

    /// The scheduler of ours: the kernel's own have its names, and the module's have other ones.
    fn entry(&self) -> Option<&'static Entry> {
        sched::of_module(&self.scheduler).or_else(|| sched::find(&self.scheduler))
    }

    /// Whether groups have weights under this scheduler.
    pub fn weighs_groups(&self) -> bool {
        self.entry().is_some_and(Entry::weighs_groups)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["controller", name] if !name.starts_with("io.") => {
                return Err(format!("'{name}' is no controller; its name begins with 'io.'"));
            }
            ["scheduler" | "controller", name] => self.scheduler = name.to_string(),
            ["drive", name] => self.drive = name.to_string(),
            ["length", ms] => self.length = number(ms)?,
            ["group", path] => self.groups.push((group(path)?, None)),
            ["group", path, weight] => self.groups.push((group(path)?, Some(number(weight)?))),
            ["process", ref words @ ..] => self.processes.push(process(words)?),
            ["at", ms, ref words @ ..] => {
                self.changes.push(Change { at: number(ms)?, what: what(words)? });
            }
            _ => return Err(format!("'{line}' is no part of a scenario")),
        }
        Ok(())
    }

    /// A tunable is one that ours has, with a value in its range: what it does is compared. A kernel need not have it.
    fn check_tunable(&self, change: &Change) -> Result<(), String> {
        let What::Set(name, value) = &change.what else { return Ok(()) };
        if self.is_of_controller() {
            let text = "a controller has no tunables; there is 'write GROUP FILE VALUE'";
            return Err(format!("'set {name}': {text}"));
        }
        let entry = self
            .entry()
            .ok_or_else(|| format!("'set {name}': no scheduler '{}'", self.scheduler))?;
        let known = hoistway::setting::check(entry.tunables, entry.name, name, *value);
        known.map(|_| ()).map_err(|e| {
            let names = entry.tunables.iter().map(|t| t.name);
            let near = match e {
                TunableError::Unknown { .. } => hoistway::setting::nearest(name, names),
                _ => None,
            };
            format!("{e}{}", near.map_or(String::new(), |n| format!("; did you mean '{n}'?")))
        })
    }

    /// What no single line shows.
    fn check(&self) -> Result<(), String> {
        let known = |path: &str| {
            let known = self.groups.iter().any(|(p, _)| p == path);
            if known { Ok(()) } else { Err(format!("group '{path}' has no line")) }
        };
        for (path, _) in &self.groups {
            if let Some((parent, _)) = path.rsplit_once('/') {
                known(parent)?;
            }
        }
        for p in &self.processes {
            p.group.as_deref().map_or(Ok(()), known)?;
            if p.bytes == 0 || p.bytes % 512 != 0 || p.span < p.bytes || p.depth == 0 {
                return Err(format!(
                    "'{p}': bytes are a multiple of 512 and fit into span; depth is 1 or more"
                ));
            }
        }
        for change in &self.changes {
            match &change.what {
                What::Weight(g, _) | What::DeviceWeight(g, _) | What::Remove(g) => known(g)?,
                What::Move(_, g) => g.as_deref().map_or(Ok(()), known)?,
                What::Write(g, ..) => g.as_deref().map_or(Ok(()), known)?,
                What::Set(..) | What::Prio(..) => {}
            }
            if let What::Move(p, _) | What::Prio(p, _) = change.what
                && p >= self.processes.len()
            {
                return Err(format!("process {p} has no line"));
            }
        }
        match self {
            s if s.scheduler.is_empty() => {
                Err("no line 'scheduler NAME' or 'controller NAME'".to_string())
            }
            s if s.drive.is_empty() => Err("no line 'drive NAME'".to_string()),
            _ => Ok(()),
        }
    }
}

fn process(words: &[&str]) -> Result<Process, String> {
    let mut p = Process {
        start: 0,
        end: 0,
        group: None,
        prio: IoPrio::NONE,
        load: Load::Read,
        order: IoOrder::Random,
        bytes: 4096,
        depth: 1,
        base: 0,
        span: 0,
        think: 0,
    };
    for word in words {
        let (name, value) =
            word.split_once('=').ok_or_else(|| format!("'{word}' is not NAME=VALUE"))?;
        match name {
            "start" => p.start = number(value)?,
            "end" => p.end = number(value)?,
            "group" => p.group = place(value)?,
            "prio" => p.prio = prio(value)?,
            "load" => p.load = load(value)?,
            "order" => p.order = order(value)?,
            "bytes" => p.bytes = number(value)?,
            "depth" => p.depth = number(value)?,
            "base" => p.base = number(value)?,
            "span" => p.span = number(value)?,
            "think" => p.think = number(value)?,
            _ => return Err(format!("a process has no '{name}'")),
        }
    }
    Ok(p)
}

fn load(text: &str) -> Result<Load, String> {
    match text.split_once(':') {
        None if text == "read" => Ok(Load::Read),
        None if text == "write" => Ok(Load::Write),
        None if text == "mixed" => Ok(Load::Mixed),
        Some(("buffered", n)) => Ok(Load::Buffered(number(n)?)),
        Some(("periodic", n)) => Ok(Load::Periodic(number(n)?)),
        Some(("children", n)) => Ok(Load::Children(number(n)?)),
        _ => Err(format!("no such load: '{text}'")),
    }
}

fn order(text: &str) -> Result<IoOrder, String> {
    match text.split_once(':') {
        None if text == "sequential" => Ok(IoOrder::Sequential),
        None if text == "random" => Ok(IoOrder::Random),
        Some(("stride", n)) => Ok(IoOrder::Stride(number(n)?)),
        _ => Err(format!("no such order: '{text}'")),
    }
}

fn what(words: &[&str]) -> Result<What, String> {
    match *words {
        ["set", name, value] => Ok(What::Set(name.to_string(), number(value)?)),
        ["weight", path, weight] => Ok(What::Weight(group(path)?, number(weight)?)),
        ["device-weight", path, weight] => Ok(What::DeviceWeight(group(path)?, number(weight)?)),
        ["prio", p, value] => Ok(What::Prio(number(p)?, prio(value)?)),
        ["move", p, path] => Ok(What::Move(number(p)?, place(path)?)),
        ["remove", path] => Ok(What::Remove(group(path)?)),
        ["write", path, file, ref value @ ..] if !value.is_empty() => {
            let value = value.join(" ");
            let plain = |text: &str| !text.contains([',', '/']) && !text.starts_with('.');
            match plain(file) && plain(&value) {
                true => Ok(What::Write(place(path)?, file.to_string(), value)),
                false => Err(format!("'{file} {value}' is no file of a group and its value")),
            }
        }
        _ => Err(format!("'{}' changes nothing", words.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
scheduler bfq
drive plextor-px-256m5s
length 1500
group a 300
group a/b
process start=0 end=1500 group=a/b prio=be4 load=read order=random bytes=4096 depth=4 base=0 span=1073741824 think=10
process start=20 end=700 load=buffered:8 order=stride:8192 bytes=4096 depth=1 base=4096 span=65536 think=0
process start=20 end=700 prio=idle load=periodic:5 order=sequential bytes=512 depth=1 base=0 span=65536 think=0
at 700 set slice_idle_us 100
at 800 weight a 50
at 850 device-weight a 200
at 900 prio 0 rt2
at 950 move 0 root
at 980 remove a/b
";

    #[test]
    fn a_scenario_is_printed_as_it_was_read() {
        let scenario: Scenario = TEXT.parse().unwrap();
        assert_eq!(scenario.to_string(), TEXT);
        assert_eq!(scenario.processes[1].load, Load::Buffered(8));
        assert_eq!(scenario.changes[3].what, What::Prio(0, IoPrio::rt(2)));
    }

    #[test]
    fn a_scenario_of_a_controller_writes_files_of_groups() {
        let text = "controller io.max\ndrive x\nlength 90\ngroup a\nprocess start=0 end=90 group=a load=read \
                    order=random bytes=4096 depth=1 base=0 span=8192 think=0\nat 5 write a io.max DEV rbps=max\n\
                    at 6 write root io.cost.qos DEV enable=1\n";
        let scenario: Scenario = text.parse().unwrap();
        assert_eq!(scenario.to_string(), text);
        let write = What::Write(Some("a".into()), "io.max".into(), "DEV rbps=max".into());
        assert_eq!((scenario.is_of_controller(), &scenario.changes[0].what), (true, &write));
        let wrong =
            text.replace("write a io.max", "write a ../io.max").parse::<Scenario>().unwrap_err();
        let wrong = wrong.to_string();
        assert!(wrong.contains("no file of a group"), "{wrong}");
        let wrong = text.replace("controller io.max", "controller bfq").parse::<Scenario>();
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "line 1: 'bfq' is no controller; its name begins with 'io.'"
        );
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let error = |text: &str| text.parse::<Scenario>().unwrap_err().to_string();
        let wrong = |from: &str, to: &str| error(&TEXT.replace(from, to));
        assert_eq!(wrong("length 1500", "length long"), "line 3: 'long' is not a number");
        assert_eq!(wrong("group a/b\n", ""), "group 'a/b' has no line");
        assert_eq!(wrong("prio 0 rt2", "prio 3 rt2"), "process 3 has no line");
        assert_eq!(wrong("prio 0 rt2", "prio 0 rt8").lines().count(), 1);
        assert!(wrong("bytes=512", "bytes=500").contains("multiple of 512"));
        assert_eq!(
            wrong("slice_idle_us 100", "slice_idle_uss 100"),
            "line 9: bfq has no tunable 'slice_idle_uss'; `hoistway show bfq` lists them; did you mean 'slice_idle_us'?"
        );
        let low_latency = wrong("slice_idle_us 100", "low_latency 2");
        assert!(
            low_latency.starts_with("line 9: low_latency = 2 is outside 0..=1"),
            "{low_latency}"
        );
        // It comes before the line that says whose tunable it is.
        let late = error(&format!("at 1 set fifo_batch 3\n{TEXT}"));
        assert!(late.starts_with("line 1: bfq has no tunable 'fifo_batch'"), "{late}");
        let text = "controller io.max\ndrive x\nlength 9\nat 5 set low_latency 1\n";
        let of_controller = error(text);
        assert!(
            of_controller.starts_with("line 4: 'set low_latency': a controller has no tunables")
        );
    }
}
