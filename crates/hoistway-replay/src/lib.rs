//! Decision replay: a recording of every call into a scheduler of the kernel's (BFQ, mq-deadline, kyber) is fed to
//! ours, and each merge verdict, insertion, dispatched request, timer and expiry is compared.
//!
//! A recording is a table of comma-separated lines, `event,ns,tick,request,ctx,sector,sectors,op,level,
//! group,result`, in the order of the calls:
//!
//! ```text
//!   device     second line, if any: "rotational=R created_tick=N [noweights]"
//!   merge      a bio is offered for merging; result 1 = merged (ctx empty: no context yet)
//!   insert     request `request` is prepared and inserted; result `merged` = absorbed, `head` = at the head
//!   dispatch   the scheduler is asked; `request` is its answer, empty = nothing
//!   complete   the device has served `request`
//!   timer      the idle timer fired
//!   expire     follows the event that caused it: "reason slow=0 service=s max_budget=b start=v finish=v"
//!   exit       process `ctx` ends
//!   set        a tunable was written: "name=value"
//!   weight     the general weight of `group` was written; devweight: that for this device (0 = default)
//!   remove     `group` was removed
//! ```
//!
//! `ns` is the time of the call, `tick` the tick counter, which may lag the time. `op`: R, W (a synchronous
//! write), A (an asynchronous one), each with a suffix M for metadata. `level`: 0 to 7 (best effort), `rtN`,
//! `idle`, empty (never set), or `PROCESS|BIO` where the I/O has another one than its process. Groups are
//! paths below the root, such as `p/x`.
//!
//! That is the first form, of BFQ alone. The second is of any of the three and is made by wrapping the scheduler's
//! operations, so it has calls and answers only: no `expire`. A column `segments` comes last, and
//!
//! ```text
//!   device     always there: "scheduler=NAME release=R rotational=R created_tick=N created_ns=N tick_ns=T max_sectors=N
//!              max_segments=N tags=N depth=N noweights timers"; release is the kernel's, such as 6.12; depth the drive's;
//!              without `timers` none are recorded, and ours fire when they are due
//!   merge      `request` is the one that the bio joined, where that is known
//!   limit      a tag is asked for; the result is how many places of a word it may be among, 0 = all
//!   complete   "start=NS issue=NS end=NS": when it had its tag, when the driver had it, when it was over
//!   sample     a request that never was the scheduler's (a step of a flush) is over, and it is told: as complete
//!   timer      any timer of the scheduler fired
//!   requeue    the device gave `request` back; it is inserted again, at the head
//!   left-out   a setting that this kernel does not have, or refuses as not supported: "name=value"; nothing was written
//! ```
//!
//! Of ours inside the kernel (`inside` at the end of the device line) all that the module tells its scheduler is there:
//!
//! ```text
//!   insert     "start=NS alloc=NS" follow: when it had its tag and was asked for, where that is not the instant of the call
//!   proc       process `ctx` has that level and is in `group` from now on
//!   flush      a flush command "began" or "ended"
//!   sample     "unsent" follows: a flush that a process asked for is over
//! ```
//!
//! `op` is also RS (a read with the flag of synchronous writes), D (discard) and O (others), with a suffix N where nothing may join. `ns` is exact.
//!
//! Around the scheduler stands the merge search (specs/blk-mq-and-noop.md section 3) and nothing
//! else: the recording says what came when. After a difference the comparison goes on: the request that
//! was recorded and ours exchange their numbers, so that later differences are counted too.
//!
//! ```
//! use hoistway_replay::{Recorded, replay};
//! let recording = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result\n\
//!                  merge,60180212,6,,,0,256,R,0,root,0\n\
//!                  insert,60180468,6,1,0,0,256,R,0,root,\n\
//!                  dispatch,60180468,6,1,,,,,,,\n";
//! let outcome = replay(recording, &Recorded::linux_6_1()).unwrap();
//! assert!(outcome.agrees());
//! assert_eq!(outcome.counts.dispatches, 1);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod control;
mod inside;
mod line;
mod names;
mod run;
mod search;
mod subject;

use hoistway::sched::{self, bfq, kyber, mq_deadline};
use hoistway::setting::{Tunable, Unit};
use hoistway::unit::{Nanos, Sectors};
use std::collections::BTreeMap;
use std::fmt;

/// The settings a recording was made with, as far as it does not tell them itself.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Spinning disk. A `device` line overrides it.
    pub rotational: bool,
    /// Length of a tick.
    pub tick: Nanos,
    /// Largest request built by merging.
    pub max_sectors: Sectors,
    /// Most scatter-gather segments of a request.
    pub max_segments: u32,
    /// Size of a block buffer in KiB: a buffered write has one segment per buffer. `None`: 4 on a spinning
    /// disk, 1 on others.
    pub buffer_kib: Option<u32>,
    /// Tunables of BFQ, in the order they are set.
    pub tunables: Vec<(String, u64)>,
    /// The value of mq-deadline's `base`.
    pub mq_deadline_base: u64,
    /// The value of kyber's `base`.
    pub kyber_base: u64,
    /// Weights by group path; other groups have the default.
    pub weights: Vec<(String, u64)>,
    /// Weights of recordings that do not write them; dropped by `noweights`.
    pub usual_weights: Vec<(String, u64)>,
}

/// Weights of the groups in recordings that do not tell them.
const WEIGHTS: [(&str, u64); 6] =
    [("a", 300), ("b", 100), ("w0", 100), ("w1", 200), ("w2", 300), ("w3", 400)];

/// No rules have that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBase {
    /// What was asked for.
    pub word: String,
    /// The names there are.
    pub known: &'static [&'static str],
}

impl fmt::Display for UnknownBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no such base: '{}'; there are {}", self.word, self.known.join(", "))
    }
}

impl std::error::Error for UnknownBase {}

impl Recorded {
    /// How the recordings of Linux 6.1 were made: a tick of 10 ms, requests up to 512 KiB and 256 segments, a
    /// clock that stands still while a call lasts (hence `first_think`), group weights 100 to 400, flash
    /// unless the recording says otherwise.
    pub fn linux_6_1() -> Recorded {
        let tunables = [("base", 0), ("first_think", 1)];
        let mut recorded = Recorded {
            rotational: false,
            tick: Nanos::ms(10),
            max_sectors: Sectors(1024),
            max_segments: 256,
            buffer_kib: None,
            tunables: tunables.map(|(name, value)| (name.to_string(), value)).into(),
            mq_deadline_base: 0,
            kyber_base: 0,
            weights: Vec::new(),
            usual_weights: WEIGHTS.map(|(name, weight)| (name.to_string(), weight)).into(),
        };
        recorded.set_base("6.1").expect("6.1 is a base");
        recorded
    }

    /// The same, with what the name of the file tells (`DRIVE.SCHEDULER.SCENARIO.csv.gz`): `low_latency` = 0
    /// if the scheduler is `bfq-ll0`, a spinning disk if the drive is `hdd`.
    pub fn named(file: &str) -> Recorded {
        let mut recorded = Recorded::linux_6_1();
        recorded.set("low_latency", u64::from(!file.split('.').any(|part| part == "bfq-ll0")));
        recorded.rotational = file.split('.').any(|part| part == "hdd");
        recorded
    }

    /// Whose rules are to decide: a word of BFQ's tunable `base`, such as 6.1. mq-deadline and kyber have the same word,
    /// or changed nothing since the one before it.
    ///
    /// # Errors
    /// No such word.
    pub fn set_base(&mut self, word: &str) -> Result<(), UnknownBase> {
        let known = bases(bfq::ENTRY.tunables);
        let at = place(known, word).ok_or_else(|| UnknownBase { word: word.into(), known })?;
        self.set("base", at);
        let words = bases(mq_deadline::ENTRY.tunables);
        let before = if word == "7.3" { "6.12" } else { "6.1" };
        self.mq_deadline_base = place(words, word).or(place(words, before)).unwrap_or(0);
        self.kyber_base = place(bases(kyber::ENTRY.tunables), word).unwrap_or(0);
        Ok(())
    }

    /// The word of BFQ's `base` that is set.
    pub fn base(&self) -> &'static str {
        let value = self.tunables.iter().find(|(name, _)| name == "base").map_or(0, |&(_, at)| at);
        bases(bfq::ENTRY.tunables).get(value as usize).copied().unwrap_or_default()
    }

    /// The rules of a release of the kernel, such as 6.12.57, are to decide.
    pub fn set_release(&mut self, release: &str) {
        let version = version(release);
        let word = match version {
            (7, 3..) | (8.., _) => "7.3",
            (6, 12..) | (7, _) => "6.12",
            (6, 2..) => "6.2+",
            _ => "6.1",
        };
        self.set_base(word).expect("it is a base");
        if version >= DISPATCH_POSITION {
            self.mq_deadline_base = place(bases(mq_deadline::ENTRY.tunables), "6.12").unwrap_or(0);
        }
    }

    /// Sets a tunable of the scheduler, in place of its earlier value if it has one.
    pub fn set(&mut self, name: &str, value: u64) {
        put(&mut self.tunables, name, value);
    }

    /// Sets the weight of a group, in place of its earlier one if it has one.
    pub fn set_weight(&mut self, group: &str, weight: u64) {
        put(&mut self.weights, group, weight);
    }

    /// The settings of a scheduler.
    fn settings(&self, scheduler: &str) -> Vec<(String, u64)> {
        let named = |name: &str, value| (name.to_string(), value);
        match scheduler {
            "mq-deadline" => vec![named("base", self.mq_deadline_base)],
            "kyber" => vec![named("base", self.kyber_base), named("timer_in_ticks", 1)],
            // Ours inside the kernel is as it is made: what it has been told stands in the recording.
            name if sched::of_module(name).is_some() => Vec::new(),
            _ => self.tunables.clone(),
        }
    }

    /// Weights at the beginning of a recording that does not tell them.
    fn all_weights(&self) -> Vec<(String, u64)> {
        let mut all = self.usual_weights.clone();
        self.weights.iter().for_each(|(group, weight)| put(&mut all, group, *weight));
        all
    }
}

/// Since then mq-deadline goes on from a sector and not from a request.
const DISPATCH_POSITION: (u32, u32) = (6, 5);

/// The first two numbers of a release such as 6.12.57 or 6.13-rc1.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-']).map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The words of a scheduler's tunable `base`.
fn bases(tunables: &[Tunable]) -> &'static [&'static str] {
    match tunables.iter().find(|t| t.name == "base").map(|t| t.unit) {
        Some(Unit::Choice(words)) => words,
        _ => &[],
    }
}

fn place(words: &[&str], word: &str) -> Option<u64> {
    words.iter().position(|&w| w == word).map(|at| at as u64)
}

/// The release of the kernel that a recording says it is of.
pub fn release(recording: &str) -> Option<String> {
    let device = recording.lines().nth(1).filter(|line| line.starts_with("device,"))?;
    line::Line::split(device).ok()?.device().ok()?.release.map(str::to_string)
}

/// Settings that the kernel of a recording did not take, by name, and how often.
fn left_out(recording: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in recording.lines().filter(|line| line.starts_with(LEFT_OUT)) {
        if let Ok(line) = line::Line::split(line) {
            let name = line.result.split(['=', ' ']).next().unwrap_or_default();
            *all.entry(name.to_string()).or_default() += 1;
        }
    }
    all
}

/// The event of a line that says so.
pub(crate) const LEFT_OUT: &str = "left-out";

fn put(list: &mut Vec<(String, u64)>, name: &str, value: u64) {
    match list.iter_mut().find(|entry| entry.0 == name) {
        Some(entry) => entry.1 = value,
        None => list.push((name.to_string(), value)),
    }
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines, the first included.
    pub lines: u64,
    /// Bios offered for merging.
    pub offered: u64,
    /// Bios that joined a request, of those.
    pub merged: u64,
    /// Requests inserted.
    pub inserted: u64,
    /// Calls of dispatch.
    pub dispatches: u64,
    /// Slots that ended.
    pub expiries: u64,
    /// Timers that fired.
    pub timers: u64,
    /// Questions for a limit of tags.
    pub limits: u64,
    /// Front merges into one of several requests that begin at the same sector, where the kernel took another one: ours
    /// is made to take that one too.
    pub twins: u64,
    /// Of a controller: bios that met it.
    pub ios: u64,
    /// Bios that it held, of those.
    pub held: u64,
}

/// How many lines differ, by the kind of decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Bios that were merged in one of the two only.
    pub merges: u64,
    /// Requests absorbed at insertion in one of the two only.
    pub insertions: u64,
    /// Another request was dispatched, or none, or one too many.
    pub dispatches: u64,
    /// A slot ended in one of the two only, or with other figures.
    pub expiries: u64,
    /// A timer fired where ours was not due, or ours was due where none fired.
    pub timers: u64,
    /// Another limit of tags.
    pub limits: u64,
    /// Of a controller: a bio was held in one of the two only, or a setting was refused.
    pub verdicts: u64,
    /// Of a controller: a bio went on at another instant.
    pub holds: u64,
    /// Of a controller: another charge at the end.
    pub charges: u64,
}

impl Differences {
    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.kinds().iter().map(|(_, n)| n).sum()
    }

    /// Name and number of each kind.
    pub fn kinds(&self) -> [(&'static str, u64); 9] {
        [
            ("merges", self.merges),
            ("insertions", self.insertions),
            ("dispatches", self.dispatches),
            ("expiries", self.expiries),
            ("timers", self.timers),
            ("limits", self.limits),
            ("verdicts", self.verdicts),
            ("holds", self.holds),
            ("charges", self.charges),
        ]
    }
}

/// The first line that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the line, from 1.
    pub line: usize,
    /// The line of the recording.
    pub recorded: String,
    /// What this BFQ did instead.
    pub ours: String,
    /// The state of this BFQ's queues at that moment.
    pub state: String,
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The weights it began with, by group path; others may be written on the way.
    pub weights: Vec<(String, u64)>,
    /// What was compared.
    pub counts: Counts,
    /// How much of it differs.
    pub differences: Differences,
    /// The first difference, if there is one. What follows it may be its consequence.
    pub first: Option<Difference>,
    /// The line at which the comparison had to end, since the two had drifted too far apart.
    pub given_up: Option<usize>,
    /// Of a controller: what each process got.
    pub processes: Vec<control::Process>,
    /// Settings that the kernel does not have or refused as not supported, by name, and how often it was tried: no part
    /// of the comparison.
    pub left_out: BTreeMap<String, u64>,
}

impl Outcome {
    /// Every line agrees.
    pub fn agrees(&self) -> bool {
        self.first.is_none()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            None => write!(f, "all {} lines agree", self.counts.lines),
            Some(d) => write!(
                f,
                "line {} differs: recorded '{}', ours: {}\n{}{:?}",
                d.line, d.recorded, d.ours, d.state, self.differences
            ),
        }
    }
}

/// Why a recording cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The line is not one of a recording, or cannot follow those before it.
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A setting was refused.
    Setting(String),
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Line { line, what } => write!(f, "line {line}: {what}"),
            Mistake::Setting(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Mistake {}

/// Feeds a recording to a fresh scheduler or controller of ours and compares all decisions.
///
/// # Errors
/// The text is not a recording, or a setting is refused. That decisions differ is no error.
pub fn replay(recording: &str, recorded: &Recorded) -> Result<Outcome, Mistake> {
    if control::is_one(recording) {
        return control::replay(recording);
    }
    run::replay(recording, recorded)
}
