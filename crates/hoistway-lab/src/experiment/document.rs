//! What an experiment repeats: `[document]` names the document, what was measured in it, and the two
//! procedures of `hoistway reproduce`.
//!
//! The file's own `[window]` and `reps` stay what `compare` runs. A procedure says what differs from them:
//!
//! - `[document.sound]`: a ramp until the load is steady, a measured time and repetitions that give an
//!   interval. Default: the file's own window.
//! - `[document.as-published]`: durations and repetitions of the document, faults included
//!   (specs/experiments.md section 8). Default: the file's own window.

use super::file::{measured, read_longer};
use super::source::{Result, Section};
use super::{Experiment, Longer};
use crate::experiment::file::REPS_MAX;
use hoistway::Nanos;

/// A reference document (specs/experiments.md, head), or the benchmark suite's own tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its short name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// It was measured with the S suite, whose statistics differ (specs/statistics.md 4.1).
    pub suite: bool,
}

/// Every document.
pub const SOURCES: &[Source] = &[
    Source { name: "R0", title: "2019 article: BFQ against io.latency", suite: true },
    Source { name: "R1", title: "2019 slides: BFQ against io.latency and io.cost", suite: true },
    Source { name: "R2", title: "2010-2012 BFQ result page", suite: true },
    Source { name: "R3", title: "2018 slides: control on a fast SSD", suite: true },
    Source { name: "R4", title: "2009 thread: sync/async deadline patch", suite: false },
    Source { name: "S", title: "further tests of the S suite", suite: true },
];

impl Source {
    /// The document whose file of this name is the source of published values: `001_007797704118b08f.txt` is R1's.
    pub fn of_file(file: &str) -> Option<&'static Source> {
        let number: u32 = file.strip_suffix(".txt")?.split('_').next()?.parse().ok()?;
        SOURCES.iter().find(|d| d.name == format!("R{number}"))
    }
}

/// The table `[document]`.
#[derive(Clone, Debug)]
pub struct Document {
    /// Which one.
    pub source: &'static Source,
    /// What it measured on; empty: the experiment's defaults. The same for the two below.
    pub drives: Vec<String>,
    /// Configurations.
    pub configs: Vec<String>,
    /// Workloads.
    pub workloads: Vec<String>,
    /// Runs end by themselves, and the measured time is a limit: a quick reproduction keeps it.
    pub ends_itself: bool,
    /// What differs from the window in the sound procedure.
    pub sound: Changes,
    /// What differs from it in the document's own.
    pub as_published: Changes,
}

/// How an experiment is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Steady state, intervals.
    Sound,
    /// Durations, repetitions and statistics of the document.
    AsPublished,
}

impl Procedure {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Procedure::Sound => "sound",
            Procedure::AsPublished => "as-published",
        }
    }
}

/// What differs from the experiment's window and repetitions.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    reps: Option<u32>,
    head_start: Option<Nanos>,
    ramp: Option<Nanos>,
    measured: Option<Nanos>,
    target_interval: Option<Nanos>,
    device_interval: Option<Nanos>,
    longer: Vec<Longer>,
}

/// `target`: some process is the target.
pub(super) fn read(top: &Section<'_>, target: bool) -> Result<Option<Document>> {
    let Some(s) = top.opt_section("document")? else { return Ok(None) };
    s.only(&["source", "drives", "configs", "workloads", "ends_itself", "sound", "as-published"])?;
    let name = s.text("source")?;
    let Some(source) = SOURCES.iter().find(|d| d.name == name) else {
        let known: Vec<&str> = SOURCES.iter().map(|d| d.name).collect();
        let what = format!("no document '{name}'; there are: {}", known.join(", "));
        return Err(s.wrong("source", what));
    };
    let list = |key: &str| match s.table.contains_key(key) {
        true => s.texts(key),
        false => Ok(Vec::new()),
    };
    let changes = |key: &str| match s.opt_section(key)? {
        Some(section) => read_changes(&section, target),
        None => Ok(Changes::default()),
    };
    Ok(Some(Document {
        source,
        drives: list("drives")?,
        configs: list("configs")?,
        workloads: list("workloads")?,
        ends_itself: s.opt_flag("ends_itself")?.unwrap_or(false),
        sound: changes("sound")?,
        as_published: changes("as-published")?,
    }))
}

fn read_changes(section: &Section<'_>, target: bool) -> Result<Changes> {
    section.only(&[
        "reps",
        "head_start",
        "ramp",
        "measured",
        "target_interval",
        "device_interval",
        "longer",
    ])?;
    let head_start = section.opt_time("head_start")?;
    if head_start.is_some() && !target {
        return Err(
            section.wrong("head_start", "head_start is about the target, and there is none")
        );
    }
    let interval = |key: &str| match section.opt_time(key)? {
        Some(t) if t < Nanos::us(100) => {
            Err(section.wrong(key, format!("{key} must be at least 100us")))
        }
        t => Ok(t),
    };
    let given = section.table.contains_key("measured");
    Ok(Changes {
        reps: section.opt_number("reps", 1, u64::from(REPS_MAX))?.map(|n| n as u32),
        head_start,
        ramp: section.opt_time("ramp")?,
        measured: given.then(|| measured(section)).transpose()?,
        target_interval: interval("target_interval")?,
        device_interval: interval("device_interval")?,
        longer: read_longer(section, target)?,
    })
}

impl Experiment {
    /// The experiment with the drives, configurations and workloads of its document, and with the window
    /// and repetitions of a procedure. `None`: it belongs to no document.
    pub fn of_document(&self, procedure: Procedure) -> Option<Experiment> {
        let document = self.document.as_ref()?;
        let mut e = self.clone();
        let replace = |list: &mut Vec<String>, by: &Vec<String>| {
            if !by.is_empty() {
                list.clone_from(by);
            }
        };
        replace(&mut e.drives, &document.drives);
        replace(&mut e.configs, &document.configs);
        replace(&mut e.default_workloads, &document.workloads);
        e.change(match procedure {
            Procedure::Sound => &document.sound,
            Procedure::AsPublished => &document.as_published,
        });
        e.procedure = Some(procedure);
        Some(e)
    }

    fn change(&mut self, changes: &Changes) {
        let c = changes;
        self.reps = c.reps.unwrap_or(self.reps);
        self.window.ramp = c.ramp.unwrap_or(self.window.ramp);
        self.window.target_interval = c.target_interval.unwrap_or(self.window.target_interval);
        self.window.device_interval = c.device_interval.unwrap_or(self.window.device_interval);
        if let Some(head_start) = c.head_start {
            self.head_start = head_start;
            self.longer.iter_mut().for_each(|l| l.head_start = None);
        }
        // A measured time here is meant for every case that it does not list itself.
        if let Some(measured) = c.measured {
            self.window.measured = measured;
            self.longer.iter_mut().for_each(|l| l.measured = None);
            self.workloads.iter_mut().for_each(|w| w.measured = None);
        }
        self.longer.splice(0..0, c.longer.iter().cloned());
    }
}
