//! Experiments: what runs against what, for how long, and what is measured. Each is one small TOML file
//! that can be copied, edited and shared; those of `experiments/` are embedded.
//!
//! An experiment has a *target* that is measured and *workloads* that disturb it; without a target the
//! workload itself is measured. A run is one workload under one configuration on one drive with one seed
//! ([`Experiment::job`]).

pub(crate) mod bounds;
mod control;
mod document;
mod file;
mod source;

pub use control::{FileRule, Idle, Listed, TreeGroup, idle_files, read_directory, who_heeds};
pub use document::{Document, Procedure, SOURCES, Source};
pub use source::ExperimentError;

use crate::config::Config;
use crate::registry::Registry;
use crate::result::{Judge, Kind};
use control::GroupPlan;
use hoistway::setting::nearest;
use hoistway::{IoPrio, Nanos, Profile};
use hoistway_files::input::{self, Limit, ReadError};
use hoistway_run::{JobError, ProcSpec, Role, TraceMode, Window};
use hoistway_sim::drive::DriveFile;
use hoistway_sim::host::HostConfig;
use hoistway_sim::load::{LOADS, params};
use hoistway_sim::world::Job;
use std::borrow::Cow;
use std::path::Path;

/// Id and text of every file of `experiments/`, sorted by id.
pub const EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// Version of the format.
pub const SCHEMA: u64 = 1;

/// One experiment, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// File name without `.toml`.
    pub id: String,
    /// Title for people.
    pub title: String,
    /// One paragraph: what is measured and against what.
    pub about: String,
    /// What configurations are judged by; `None`: what the records of each workload have ([`Judge::of`]).
    pub judge: Option<Judge>,
    /// With [`Judge::Share`]: weights by process or kind of processes; the others weigh 100.
    pub weights: Weights,
    /// With [`Judge::Share`]: what the target is to receive at least, bytes per second.
    pub guarantee: Option<u64>,
    /// Name of the host's profile (specs/host.md 1.4).
    pub host_profile: String,
    /// Host parameters that differ from the profile.
    pub host: Vec<(String, toml::Value)>,
    /// Keys of `[faults]`, for every drive it runs on.
    pub faults: Vec<(String, toml::Value)>,
    /// The interferers start so long before the target; zero without one.
    pub head_start: Nanos,
    /// When measuring begins and ends, if nothing else is said.
    pub window: Window,
    /// Cases with another measured time or head start; the first that fits and names it holds.
    pub longer: Vec<Longer>,
    /// Lines for the files of the groups that configurations make.
    pub files: Vec<FileRule>,
    /// A tree of groups of its own, for configurations that make groups.
    pub tree: Vec<TreeGroup>,
    /// The process that is measured; `None`: measured is what all processes move together.
    pub target: Option<ProcTemplate>,
    /// Every workload, in the order of the file's names.
    pub workloads: Vec<Workload>,
    /// Default drives.
    pub drives: Vec<String>,
    /// Default configurations.
    pub configs: Vec<String>,
    /// Default workloads.
    pub default_workloads: Vec<String>,
    /// Default number of repetitions.
    pub reps: u32,
    /// The document it repeats; `None`: the question is the project's own.
    pub document: Option<Document>,
    /// It has been changed to this procedure ([`Experiment::of_document`]).
    pub procedure: Option<Procedure>,
    /// The file, for the manifest and `hoistway show`.
    pub text: String,
}

/// Weights by process or kind of processes.
pub type Weights = Vec<(String, u64)>;

/// A case with another measured time or head start.
#[derive(Clone, Debug)]
pub struct Longer {
    /// Only on spinning (or not spinning) drives.
    pub rotational: Option<bool>,
    /// Only under these configurations (names before the braces); empty: under all.
    pub configs: Vec<String>,
    /// The measured time, if it differs.
    pub measured: Option<Nanos>,
    /// The head start, if it differs.
    pub head_start: Option<Nanos>,
}

/// What disturbs the target, or is measured itself.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Short id, such as `readers`.
    pub id: String,
    /// One line.
    pub summary: String,
    /// What it stands for, for `hoistway recommend`; `None`: what it is judged by.
    pub kind: Option<Kind>,
    /// Another target than the experiment's.
    pub target: Option<ProcTemplate>,
    /// Another measured time than the window's.
    pub measured: Option<Nanos>,
    /// The target starts so long before the others; what is their head start elsewhere passes behind that,
    /// before measuring begins. Zero: they start first.
    pub lead: Nanos,
    /// The processes beside the target.
    pub procs: Vec<ProcTemplate>,
}

/// One or several processes alike.
#[derive(Clone, Debug)]
pub struct ProcTemplate {
    /// Their name; several are numbered from 0.
    pub name: String,
    /// How many.
    pub count: u32,
    /// Their starts are so far apart.
    pub stagger: Nanos,
    /// I/O class and level that the file gives them, as `ionice` would; `None`: what the configuration gives.
    pub prio: Option<IoPrio>,
    /// Registry name of the load.
    pub load: String,
    /// Its parameters.
    pub params: toml::Table,
}

impl ProcTemplate {
    /// One line: how many, what they are called, what they do.
    fn words(&self) -> String {
        let mut words = format!("{} x {}: {}", self.count, self.name, self.load);
        for (name, value) in &self.params {
            words += &format!(" {name}={value}");
        }
        if self.stagger > Nanos::ZERO {
            words += &format!(" stagger={} ms", self.stagger.0 as f64 / 1e6);
        }
        if let Some(prio) = self.prio {
            words += &format!(" prio={prio:?}");
        }
        words
    }
}

/// Experiments are written by hand; those of job files and population files are not read from a file.
const EXPERIMENT_FILE: Limit = Limit { what: "an experiment file", bytes: 4 << 20 };

/// What the command line changes about every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A quarter of head start, ramp and measured time, not below 1 s (specs/experiments.md 8).
    pub quick: bool,
    /// Another measured time.
    pub duration: Option<Nanos>,
    /// Keep so many trace records; `None`: the digest alone.
    pub trace: Option<usize>,
}

impl Experiment {
    /// Ids of the embedded experiments, sorted.
    pub fn ids() -> impl Iterator<Item = &'static str> + Clone {
        EMBEDDED.iter().map(|&(id, _)| id)
    }

    /// An embedded experiment by id, or a file by path (contains `/` or ends in `.toml`).
    pub fn load(id_or_path: &str) -> Result<Experiment, ExperimentError> {
        Experiment::load_with(id_or_path, Registry::shipped())
    }

    /// The same, where configurations may name the schedulers of a registry.
    pub fn load_with(id_or_path: &str, registry: &Registry) -> Result<Experiment, ExperimentError> {
        if id_or_path.contains('/') || id_or_path.ends_with(".toml") {
            let text = input::text(Path::new(id_or_path), EXPERIMENT_FILE).map_err(|e| {
                ExperimentError(match e {
                    ReadError::Io { error, .. } => format!(
                        "{id_or_path}: cannot be read: {error}; give an id or the path of a file"
                    ),
                    other => other.to_string(),
                })
            })?;
            return Experiment::parse_with(id_or_path, &text, registry);
        }
        match EMBEDDED.iter().find(|&&(id, _)| id == id_or_path) {
            Some((id, text)) => {
                Experiment::parse_with(&format!("experiments/{id}.toml"), text, registry)
            }
            None => {
                let hint = nearest(id_or_path, registry.experiment_ids())
                    .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
                Err(ExperimentError(format!(
                    "no experiment '{id_or_path}'{hint} (`hoistway list experiments` lists them; a \
                     path contains '/' or ends in .toml)"
                )))
            }
        }
    }

    /// An experiment from its text; `label` stands in messages, and its last part without `.toml` is
    /// the id.
    pub fn parse(label: &str, text: &str) -> Result<Experiment, ExperimentError> {
        Experiment::parse_with(label, text, Registry::shipped())
    }

    /// The same, where configurations may name the schedulers of a registry.
    pub fn parse_with(
        label: &str,
        text: &str,
        registry: &Registry,
    ) -> Result<Experiment, ExperimentError> {
        let stem = Path::new(label).file_stem();
        let id = stem.map_or_else(|| label.to_string(), |s| s.to_string_lossy().into_owned());
        file::read(id, label, text, registry)
    }

    /// A workload by id.
    pub fn workload(&self, id: &str) -> Option<&Workload> {
        self.workloads.iter().find(|w| w.id == id)
    }

    /// The processes of a workload with their loads and when they are measured, in one line: what decides its results
    /// beside drive, configuration and host.
    pub fn processes_of(&self, workload: &Workload) -> String {
        let target = workload.target.as_ref().or(self.target.as_ref());
        let mut parts: Vec<String> = Vec::new();
        parts.extend(target.map(|t| format!("target {}", t.words())));
        parts.extend(workload.procs.iter().map(ProcTemplate::words));
        let ms = |t: Nanos| t.0 as f64 / 1e6;
        let measured = workload.measured.unwrap_or(self.window.measured);
        parts.push(format!(
            "head start {} ms, ramp {} ms, measured {} ms",
            ms(self.head_start),
            ms(self.window.ramp),
            ms(measured)
        ));
        parts.join("; ")
    }

    /// The processes of a workload, by name, with the weights that the experiment gives them. A name of
    /// one process goes before that of its kind.
    pub fn weights_of(&self, workload: &str) -> Weights {
        let Some(workload) = self.workload(workload) else { return Vec::new() };
        let target = workload.target.as_ref().or(self.target.as_ref()).map(|t| (t, Role::Target));
        let others = workload.procs.iter().map(|p| (p, Role::Interferer));
        let mut all = Vec::new();
        for (template, role) in target.into_iter().chain(others) {
            for spec in template.specs(role, IoPrio::NONE, Nanos::ZERO) {
                let given = |name: &str| self.weights.iter().find(|w| w.0 == name).map(|w| w.1);
                if let Some(weight) = given(&spec.name).or_else(|| given(&template.name)) {
                    all.push((spec.name, weight));
                }
            }
        }
        all
    }

    /// Puts the processes into the groups of a directory ([`read_directory`]).
    ///
    /// # Errors
    ///
    /// A name that no process of any workload has, nor its kind.
    pub fn set_groups(
        &mut self,
        (tree, listed): (Vec<TreeGroup>, Vec<Listed>),
    ) -> Result<(), ExperimentError> {
        for Listed { place, name } in &listed {
            self.check_process(name).map_err(|what| ExperimentError(format!("{place}: {what}")))?;
        }
        self.tree = tree;
        Ok(())
    }

    /// Is there a process, or a kind of processes, of that name in any workload?
    fn check_process(&self, name: &str) -> Result<(), String> {
        let targets = self.workloads.iter().filter_map(|w| w.target.as_ref()).chain(&self.target);
        let all = targets.chain(self.workloads.iter().flat_map(|w| &w.procs));
        let is = |t: &ProcTemplate| {
            let number = name.strip_prefix(t.name.as_str()).and_then(|n| n.parse::<u32>().ok());
            let numbered = t.count > 1 && number.is_some_and(|n| n < t.count);
            t.name == name || numbered && format!("{}{}", t.name, number.unwrap_or(0)) == name
        };
        if all.clone().any(is) {
            return Ok(());
        }
        let mut known: Vec<&str> = all.map(|t| t.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let hint = match nearest(name, known.iter().copied()) {
            Some(n) => format!("did you mean '{n}'?"),
            None => {
                format!("there are: {}; several of a kind are numbered from 0", known.join(", "))
            }
        };
        Err(format!("no workload of {} has a process '{name}'; {hint}", self.id))
    }

    /// The drive with the experiment's faults.
    ///
    /// # Errors
    ///
    /// Faults of the drive file and the experiment that do not go together.
    pub fn on(&self, drive: &DriveFile) -> Result<DriveFile, ExperimentError> {
        if self.faults.is_empty() {
            return Ok(drive.clone());
        }
        drive
            .with_faults(&self.faults)
            .map_err(|e| ExperimentError(format!("{} on {}: {e}", self.id, drive.id)))
    }

    /// The window of a run.
    pub fn window(
        &self,
        drive: &DriveFile,
        workload: &Workload,
        config: &Config,
        options: &Options,
    ) -> Window {
        let case = self.case(drive, config, |l| l.measured);
        let mut window = self.window;
        window.measured = workload.measured.or(case).unwrap_or(window.measured);
        if let Some(duration) = options.duration {
            window.measured = duration;
        }
        if options.quick {
            window.ramp = quarter(window.ramp);
            // Of a limit a quarter would cut off what is measured.
            let whole = self.is_whole();
            window.measured = if whole { window.measured } else { quarter(window.measured) };
        }
        window
    }

    /// Runs end by themselves, and what they do is published as a whole: a quick reproduction does not
    /// cut it.
    fn is_whole(&self) -> bool {
        self.procedure.and(self.document.as_ref()).is_some_and(|d| d.ends_itself)
    }

    /// The first case that fits and has that value.
    fn case(
        &self,
        drive: &DriveFile,
        config: &Config,
        value: impl Fn(&Longer) -> Option<Nanos>,
    ) -> Option<Nanos> {
        let fits = |l: &&Longer| {
            l.rotational.is_none_or(|r| r == drive.identity.rotational)
                && (l.configs.is_empty() || l.configs.contains(&config.base))
        };
        self.longer.iter().filter(fits).find_map(value)
    }

    /// By how much the interferers start before the target.
    fn head_start(&self, drive: &DriveFile, config: &Config, options: &Options) -> Nanos {
        let usual = self.case(drive, config, |l| l.head_start).unwrap_or(self.head_start);
        if options.quick { quarter(usual) } else { usual }
    }

    /// Everything that decides one run.
    pub fn job<'a>(
        &self,
        drive: &'a DriveFile,
        workload: &Workload,
        config: &Config,
        seed: u64,
        options: &Options,
    ) -> Result<Job<'a>, JobError> {
        let mut host = HostConfig::profile(&self.host_profile)?;
        for (name, value) in &self.host {
            host.set(name, value)?;
        }
        // A scheduler lives in the block layer it was written for.
        let profile = match config.scheduler.profile {
            Profile::Legacy => "legacy",
            Profile::MultiQueue => "multi-queue",
        };
        host.set("block_profile", &toml::Value::from(profile))?;
        let head_start = self.head_start(drive, config, options);
        let mut window = self.window(drive, workload, config, options);
        let lead = if options.quick { quarter(workload.lead) } else { workload.lead };
        // Whoever starts first waits for the other, and the load has the same time to settle.
        let mut target_start = head_start;
        if lead > Nanos::ZERO {
            target_start = Nanos::ZERO;
            window.ramp = Nanos(window.ramp.0 + lead.0 + head_start.0);
        }
        let target = workload.target.as_ref().or(self.target.as_ref());
        let mut procs = target
            .map(|t| t.specs(Role::Target, config.target_prio, target_start))
            .unwrap_or_default();
        let mut kinds: Vec<String> = procs.iter().map(|p| p.name.clone()).collect();
        for template in &workload.procs {
            procs.extend(template.specs(Role::Interferer, IoPrio::NONE, lead));
            kinds.resize(procs.len(), template.name.clone());
        }
        if options.quick && !self.is_whole() {
            procs.iter_mut().for_each(quarter_work);
        }
        let plan = GroupPlan { config, drive, rules: &self.files, tree: &self.tree, kinds: &kinds };
        let (control, groups) = plan.make(&mut procs);
        Ok(Job {
            drive: Cow::Borrowed(drive),
            host,
            scheduler: config.scheduler_spec(),
            control,
            groups,
            procs,
            window,
            seed,
            trace: options.trace.map_or(TraceMode::Digest, TraceMode::Keep),
        })
    }
}

/// A quarter, not below 1 s; nothing is made longer than it was (specs/experiments.md 8).
fn quarter(t: Nanos) -> Nanos {
    Nanos(t.0.min((t.0 / 4).max(Nanos::secs(1).0)))
}

/// A process that does so much and exits does a quarter of it.
fn quarter_work(proc: &mut ProcSpec) {
    let Some(load) = LOADS.iter().find(|l| l.name == proc.load) else { return };
    for param in load.params.iter().filter(|p| load.work.contains(&p.name)) {
        let usual = || toml::Value::from(param.default);
        let value = proc.params.get(param.name).cloned().unwrap_or_else(usual);
        // What is no quantity is refused when the load is built.
        let part = match (params::quantity(&value), params::duration(&value)) {
            (Ok(n), _) => toml::Value::Integer((n / 4).max(1) as i64),
            (_, Ok(ns)) => toml::Value::String(format!("{}ns", (ns / 4).max(1))),
            _ => continue,
        };
        proc.params.insert(param.name.to_string(), part);
    }
}

impl ProcTemplate {
    /// The processes; `usual` is the priority that the configuration gives, and the file has the last word.
    fn specs(&self, role: Role, usual: IoPrio, start: Nanos) -> Vec<ProcSpec> {
        let prio = self.prio.unwrap_or(usual);
        let spec = |i: u32| ProcSpec {
            name: if self.count == 1 { self.name.clone() } else { format!("{}{i}", self.name) },
            role,
            group: None,
            prio,
            start: Nanos(start.0 + self.stagger.0 * u64::from(i)),
            load: self.load.clone(),
            params: self.params.clone(),
        };
        (0..self.count).map(spec).collect()
    }
}

#[cfg(test)]
mod tests;
