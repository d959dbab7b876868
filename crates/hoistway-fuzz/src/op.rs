//! A case: a device, a scheduler, controllers, and operations with their times; and its text.
//!
//! Operations name processes, groups and commands by number, modulo how many there are when they run, so
//! that every list of operations means something, whatever was cut out of it.

use hoistway::stack::{IoError, StageName};
use hoistway::unit::Class;
use hoistway::{Flags, Instant, IoPrio, Op as IoOp};
use std::fmt;

/// What a script says of the device and its surroundings: name, value where it says nothing, largest value.
pub const FIELDS: &[(&str, u64, u64)] = &[
    ("legacy", 0, 1),
    ("procs", 8, 64),
    ("room", 64, 4096),
    ("capacity", 1 << 22, 1 << 40),
    ("queues", 1, 16),
    ("depth", 8, 1024),
    ("nr_requests", 0, 2048),
    ("max_sectors", 1024, 1 << 17),
    ("max_segments", 128, 1 << 16),
    ("chunk", 0, 1 << 20),
    ("discard", 0, 1 << 22),
    ("grain", 8, 1 << 16),
    ("rotational", 0, 1),
    ("write_cache", 0, 1),
    ("fua", 0, 1),
    ("alone", 0, 1),
    ("nomerges", 0, 2),
    ("overask", 0, 1),
    ("plug_lifo", 0, 1),
    ("fifo_tags", 0, 1),
    ("plain_tags", 0, 1),
    ("round_robin", 0, 1),
    ("scsi", 0, 1),
    ("tick_us", 4000, 1_000_000),
    ("kick_us", 20, 1_000_000),
    ("actuators", 1, 4),
    // How long the device takes for a command, and in which order it answers, once the load has stopped.
    ("service_us", 300, 10_000_000),
    ("order", 0, u64::MAX),
    // A stand-still longer than this is a finding, whatever the policies say; 0: no such rule.
    ("still_ms", 0, u64::MAX / 1_000_000),
];

/// One run: everything that decides what happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The scheduler at the beginning.
    pub scheduler: String,
    /// The controllers, in order of installation.
    pub controllers: Vec<String>,
    /// In the order of [`FIELDS`].
    fields: [u64; FIELDS.len()],
    /// What happens.
    pub steps: Vec<Step>,
}

impl Case {
    /// Nothing happens under `scheduler`.
    pub fn new(scheduler: &str) -> Case {
        let mut fields = [0; FIELDS.len()];
        fields.iter_mut().zip(FIELDS).for_each(|(value, field)| *value = field.1);
        Case { scheduler: scheduler.into(), controllers: Vec::new(), fields, steps: Vec::new() }
    }

    fn place(name: &str) -> Option<usize> {
        FIELDS.iter().position(|f| f.0 == name)
    }

    /// A field; panics if there is none of this name.
    pub fn get(&self, name: &str) -> u64 {
        self.fields[Case::place(name).expect("the name is one of FIELDS")]
    }

    /// Sets a field; panics if there is none of this name.
    pub fn set(&mut self, name: &str, value: u64) {
        self.fields[Case::place(name).expect("the name is one of FIELDS")] = value;
    }
}

/// One operation and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When; not before the step before.
    pub at: Instant,
    /// What.
    pub op: Op,
}

/// An I/O to submit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Submission {
    /// Who; `None`: nobody ([`hoistway::ProcId::NONE`]).
    pub proc: Option<u32>,
    /// Who pays; `None`: the group of the process.
    pub group: Option<u32>,
    /// `None`: the priority of the process.
    pub prio: Option<IoPrio>,
    pub op: IoOp,
    pub start: u64,
    pub sectors: u64,
    pub segments: u32,
    pub flags: Flags,
    pub cpu: u32,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Submit(Submission),
    Plug(u32),
    Unplug(u32),
    Sleep(u32),
    /// The device answers one of the commands it has, by age.
    Done {
        nth: u32,
        error: Option<IoError>,
    },
    /// The device gives one back.
    Requeue(u32),
    /// A tick nobody asked for.
    Tick,
    /// The caller slept until now and let what was due pass.
    Late,
    Set {
        stage: StageName,
        name: String,
        value: u64,
    },
    SetGroup {
        group: u32,
        stage: StageName,
        name: String,
        value: Option<u64>,
    },
    Write {
        group: u32,
        file: String,
        line: String,
    },
    Switch(String),
    AddGroup(u32),
    RemoveGroup(u32),
    Move {
        proc: u32,
        group: u32,
    },
    AddProc {
        group: u32,
        prio: IoPrio,
    },
    Exit(u32),
    Prio {
        proc: u32,
        prio: IoPrio,
    },
    /// CPU scheduling: 0 ordinary, 1 real-time, 2 idle.
    Nice {
        proc: u32,
        policy: u32,
        nice: i8,
    },
    Rotational(bool),
    DirtySlept(u32),
}

const FLAGS: &[(&str, Flags)] = &[
    ("SYNC", Flags::SYNC),
    ("META", Flags::META),
    ("PRIO", Flags::PRIO),
    ("NOIDLE", Flags::NOIDLE),
    ("IDLE", Flags::IDLE),
    ("RAHEAD", Flags::RAHEAD),
    ("UNPLUG", Flags::UNPLUG),
    ("BARRIER", Flags::BARRIER),
    ("PREFLUSH", Flags::PREFLUSH),
    ("FUA", Flags::FUA),
    ("NOMERGE", Flags::NOMERGE),
    ("BACKGROUND", Flags::BACKGROUND),
    ("SWAP", Flags::SWAP),
];

const OPS: &[(&str, IoOp)] = &[
    ("read", IoOp::Read),
    ("write", IoOp::Write),
    ("discard", IoOp::Discard),
    ("flush", IoOp::Flush),
    ("zeroes", IoOp::WriteZeroes),
];

const ERRORS: &[(&str, IoError)] =
    &[("io", IoError::Io), ("invalid", IoError::Invalid), ("unsupported", IoError::NotSupported)];

fn word<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|e| e.1 == *value).expect("every value has its word").0
}

fn stage_word(stage: &StageName) -> &str {
    match stage {
        StageName::Queue => "queue",
        StageName::Scheduler => "scheduler",
        StageName::Controller(name) => name,
    }
}

fn prio_word(prio: IoPrio) -> String {
    match prio.class() {
        Class::None => "none".into(),
        Class::Rt => format!("rt{}", prio.level()),
        Class::Be => format!("be{}", prio.level()),
        Class::Idle => format!("idle{}", prio.level()),
    }
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = word(OPS, &self.op);
        write!(f, "submit {kind} {}+{}", self.start, self.sectors)?;
        match self.proc {
            Some(proc) => write!(f, " proc={proc}")?,
            None => f.write_str(" proc=nobody")?,
        }
        write!(f, " segments={} cpu={}", self.segments, self.cpu)?;
        if let Some(group) = self.group {
            write!(f, " group={group}")?;
        }
        if let Some(prio) = self.prio {
            write!(f, " prio={}", prio_word(prio))?;
        }
        let set: Vec<&str> = FLAGS.iter().filter(|e| self.flags.any(e.1)).map(|e| e.0).collect();
        if set.is_empty() { Ok(()) } else { write!(f, " flags={}", set.join("+")) }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Submit(io) => io.fmt(f),
            Op::Plug(proc) => write!(f, "plug {proc}"),
            Op::Unplug(proc) => write!(f, "unplug {proc}"),
            Op::Sleep(proc) => write!(f, "sleep {proc}"),
            Op::Done { nth, error: None } => write!(f, "done {nth}"),
            Op::Done { nth, error: Some(e) } => write!(f, "fail {nth} {}", word(ERRORS, e)),
            Op::Requeue(nth) => write!(f, "requeue {nth}"),
            Op::Tick => f.write_str("tick"),
            Op::Late => f.write_str("late"),
            Op::Set { stage, name, value } => {
                write!(f, "set {} {name} {value}", stage_word(stage))
            }
            Op::SetGroup { group, stage, name, value } => {
                write!(f, "set-group {group} {} {name} ", stage_word(stage))?;
                match value {
                    Some(value) => value.fmt(f),
                    None => f.write_str("default"),
                }
            }
            Op::Write { group, file, line } => write!(f, "write {group} {file} {line}"),
            Op::Switch(name) => write!(f, "switch {name}"),
            Op::AddGroup(parent) => write!(f, "add-group {parent}"),
            Op::RemoveGroup(group) => write!(f, "remove-group {group}"),
            Op::Move { proc, group } => write!(f, "move {proc} {group}"),
            Op::AddProc { group, prio } => write!(f, "add-proc {group} {}", prio_word(*prio)),
            Op::Exit(proc) => write!(f, "exit {proc}"),
            Op::Prio { proc, prio } => write!(f, "prio {proc} {}", prio_word(*prio)),
            Op::Nice { proc, policy, nice } => write!(f, "nice {proc} {policy} {nice}"),
            Op::Rotational(on) => write!(f, "rotational {}", u8::from(*on)),
            Op::DirtySlept(proc) => write!(f, "dirty-slept {proc}"),
        }
    }
}

/// The script: read back by [`Case::parse`].
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scheduler {}", self.scheduler)?;
        if !self.controllers.is_empty() {
            writeln!(f, "controllers {}", self.controllers.join(" "))?;
        }
        for (field, value) in FIELDS.iter().zip(self.fields) {
            if value != field.1 {
                writeln!(f, "{} {value}", field.0)?;
            }
        }
        for step in &self.steps {
            writeln!(f, "[{:>12}] {}", step.at.as_nanos(), step.op)?;
        }
        Ok(())
    }
}

impl Case {
    /// Reads a script. Empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    ///
    /// The line and what is wrong with it.
    pub fn parse(text: &str) -> Result<Case, String> {
        let mut case = Case::new("none");
        let mut last = 0;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let read = match line.strip_prefix('[') {
                Some(rest) => case.read_step(rest, &mut last),
                None => case.read_header(line),
            };
            read.map_err(|what| format!("line {}: {what}", number + 1))?;
        }
        Ok(case)
    }

    fn read_header(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "scheduler" => {
                hoistway::sched::find(value).ok_or(format!("no scheduler '{value}'"))?;
                self.scheduler = value.into();
            }
            "controllers" => {
                for name in value.split_whitespace() {
                    hoistway::ctl::find(name).ok_or(format!("no controller '{name}'"))?;
                    self.controllers.push(name.into());
                }
            }
            _ => {
                let at = Case::place(key).ok_or(format!("'{key}' is no field of a script"))?;
                let value = number(value)?;
                let most = FIELDS[at].2;
                if value > most {
                    return Err(format!("{key} {value} is above {most}"));
                }
                self.fields[at] = value;
            }
        }
        Ok(())
    }

    fn read_step(&mut self, rest: &str, last: &mut u64) -> Result<(), String> {
        let (at, op) = rest.split_once(']').ok_or("a time ends with ']'")?;
        let at = number(at.trim())?;
        if at < *last {
            return Err(format!("time {at} lies before that of the line above, {last}"));
        }
        *last = at;
        self.steps.push(Step { at: Instant::from_nanos(at), op: parse_op(op.trim_start())? });
        Ok(())
    }
}

/// The words of a line, asked for one by one.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn text(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or(format!("{what} is missing"))
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let text = self.text(what)?;
        text.parse().map_err(|_| format!("{what} '{text}' is no number of its range"))
    }

    fn end(&mut self) -> Result<(), String> {
        self.0.next().map_or(Ok(()), |more| Err(format!("'{more}' is too much")))
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number of its range"))
}

fn parse_prio(text: &str) -> Result<IoPrio, String> {
    let split = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let class = match &text[..split] {
        "none" => Class::None,
        "rt" => Class::Rt,
        "be" => Class::Be,
        "idle" => Class::Idle,
        _ => {
            return Err(format!(
                "no priority '{text}'; write none, rt0 to rt7, be0 ... or idle0 ..."
            ));
        }
    };
    let level = if split == text.len() { 0 } else { number(&text[split..])? };
    IoPrio::new(class, level).ok_or(format!("no priority '{text}'"))
}

fn parse_stage(text: &str) -> StageName {
    match text {
        "queue" => StageName::Queue,
        "scheduler" => StageName::Scheduler,
        name => StageName::Controller(name.into()),
    }
}

fn find<T: Copy>(table: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let words = || table.iter().map(|e| e.0).collect::<Vec<_>>().join(", ");
    table
        .iter()
        .find(|e| e.0 == text)
        .map(|e| e.1)
        .ok_or_else(|| format!("no '{text}' here; there are: {}", words()))
}

fn parse_op(text: &str) -> Result<Op, String> {
    let mut w = Words(text.split_whitespace());
    let op = match w.text("operation")? {
        "submit" => return parse_submission(w).map(Op::Submit),
        "write" => {
            let (group, file) = (w.number("group")?, w.text("file")?.to_string());
            // The line as it stands: blanks count in some files.
            let at = text.find(&file).expect("it was just read") + file.len();
            let line = text[at..].strip_prefix(' ').unwrap_or("").to_string();
            return Ok(Op::Write { group, file, line });
        }
        "plug" => Op::Plug(w.number("process")?),
        "unplug" => Op::Unplug(w.number("process")?),
        "sleep" => Op::Sleep(w.number("process")?),
        "done" => Op::Done { nth: w.number("command")?, error: None },
        "fail" => {
            let nth = w.number("command")?;
            Op::Done { nth, error: Some(find(ERRORS, w.text("error")?)?) }
        }
        "requeue" => Op::Requeue(w.number("command")?),
        "tick" => Op::Tick,
        "late" => Op::Late,
        "set" => Op::Set {
            stage: parse_stage(w.text("stage")?),
            name: w.text("tunable")?.into(),
            value: w.number("value")?,
        },
        "set-group" => Op::SetGroup {
            group: w.number("group")?,
            stage: parse_stage(w.text("stage")?),
            name: w.text("tunable")?.into(),
            value: match w.text("value")? {
                "default" => None,
                text => Some(number(text)?),
            },
        },
        "switch" => Op::Switch(w.text("scheduler")?.into()),
        "add-group" => Op::AddGroup(w.number("parent")?),
        "remove-group" => Op::RemoveGroup(w.number("group")?),
        "move" => Op::Move { proc: w.number("process")?, group: w.number("group")? },
        "add-proc" => {
            Op::AddProc { group: w.number("group")?, prio: parse_prio(w.text("priority")?)? }
        }
        "exit" => Op::Exit(w.number("process")?),
        "prio" => Op::Prio { proc: w.number("process")?, prio: parse_prio(w.text("priority")?)? },
        "nice" => Op::Nice {
            proc: w.number("process")?,
            policy: w.number("policy")?,
            nice: w.number("nice value")?,
        },
        "rotational" => Op::Rotational(w.number::<u8>("0 or 1")? != 0),
        "dirty-slept" => Op::DirtySlept(w.number("process")?),
        other => return Err(format!("no operation '{other}'")),
    };
    w.end()?;
    Ok(op)
}

fn parse_submission(mut w: Words<'_>) -> Result<Submission, String> {
    let op = find(OPS, w.text("kind of I/O")?)?;
    let range = w.text("start+sectors")?;
    let (start, sectors) = range.split_once('+').ok_or(format!("'{range}' is no start+sectors"))?;
    let mut io = Submission {
        proc: None,
        group: None,
        prio: None,
        op,
        start: number(start)?,
        sectors: number(sectors)?,
        segments: 1,
        flags: Flags::NONE,
        cpu: 0,
    };
    for token in w.0 {
        let (key, value) = token.split_once('=').ok_or(format!("'{token}' is no key=value"))?;
        match key {
            "proc" if value == "nobody" => io.proc = None,
            "proc" => io.proc = Some(number(value)?),
            "segments" => io.segments = number(value)?,
            "cpu" => io.cpu = number(value)?,
            "group" => io.group = Some(number(value)?),
            "prio" => io.prio = Some(parse_prio(value)?),
            "flags" => {
                for flag in value.split('+') {
                    io.flags |= find(FLAGS, flag)?;
                }
            }
            _ => return Err(format!("no '{key}' in a submission")),
        }
    }
    Ok(io)
}
