//! `hoistway differ`: random scenarios in Linux itself, each recorded call compared with the scheduler or controller of
//! ours.

use crate::common::output::{Folder, check_folder, print};
use crate::common::process::stop_flag;
use crate::common::terminal;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway::sched::{self, module_name, of_module};
use hoistway_files::input::{self, Limit};
use hoistway_files::{Dir, Kind, Scratch};
use hoistway_lab::differ::{
    self, ComparedScenario, NotCompared, Recorder as _, generate, known, suite,
};
use hoistway_lab::words::counted;
use hoistway_machine::MachineError;
use hoistway_machine::linux::actor::scenario::{Scenario, ScenarioError};
use hoistway_machine::linux::{self, Kernel, record};
use hoistway_replay::Recorded;
use hoistway_replay::control::CONTROLLERS;
use hoistway_sim::drive::DriveFile;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Schedulers that have a counterpart in the kernel.
const SCHEDULERS: [&str; 3] = ["mq-deadline", "kyber", "bfq"];

/// `hoistway differ`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 every answer is the same, or differs as listed; 1 some differ, a scenario failed or stood \
                  still, or the kernel reported a fault of itself; 2 wrong usage; 3 no kernel is built (hoistway linux \
                  build). Of a controller 1 means that a process was held, or got bytes, otherwise by more than 1 %. \
                  Interrupted, the same command goes on."
)]
pub struct Differ {
    /// Schedulers mq-deadline, kyber, bfq [default: these], controllers io.max, io.cost, io.latency; all of the module by its
    /// names (h-mq-deadline, cfq, paternoster)
    #[arg(long, short, value_name = "LIST", value_delimiter = ',')]
    pub scheduler: Vec<String>,
    /// Random scenarios of each
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub scenarios: u64,
    /// Number of the first of them, to repeat one
    #[arg(long, alias = "from", value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 40))]
    pub first: u64,
    /// Seed of the scenarios
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub seed: u64,
    /// The kernel: linux, or linux:NAME (`hoistway linux list`)
    #[arg(long, value_name = "WORLD", default_value = "linux")]
    pub on: String,
    /// Run these scenarios instead of random ones
    #[arg(long, value_name = "FILE")]
    pub scenario: Vec<PathBuf>,
    /// Rules of our bfq and mq-deadline, as of their tunable `base` [default: those of the kernel's release]
    #[arg(long, value_name = "BASE")]
    pub base: Option<String>,
    /// Folder for what differs: the small scenario and its recording
    #[arg(long, short, value_name = "DIR", default_value = "runs/differ")]
    pub out: PathBuf,
    /// Do not reduce a scenario that differs to a small one
    #[arg(long)]
    pub as_found: bool,
    /// Keep the recordings of scenarios that agree, too
    #[arg(long)]
    pub keep: bool,
    /// Do not go on where an interrupted run of the same command has stopped
    #[arg(long)]
    pub fresh: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// `hoistway linux-actor`.
#[derive(Debug, ClapArgs)]
pub struct LinuxActor {
    /// Scenarios
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Process 1 of a guest.
pub fn act(options: &LinuxActor) -> Result<(), Failure> {
    if std::process::id() != 1 {
        let text = "linux-actor is what `hoistway differ` starts in a guest by itself";
        return Err(Failure::Usage(text.into()));
    }
    // User-mode Linux adds a word of its own to the arguments of process 1.
    let files: Vec<PathBuf> = options.files.iter().filter(|f| f.is_absolute()).cloned().collect();
    linux::actor::run(&files)
}

/// Boots a kernel for each batch.
struct Guests<'a> {
    recorder: record::Recorder<'a>,
    stop: &'a AtomicBool,
    /// What kernels reported of themselves.
    reports: Vec<String>,
}

impl differ::Recorder for Guests<'_> {
    fn record(&mut self, scenarios: &[Scenario]) -> Result<Vec<String>, NotCompared> {
        let Some(first) = scenarios.first() else { return Ok(Vec::new()) };
        let drive = DriveFile::load(&first.drive)
            .map_err(|e| NotCompared { at: None, what: e.to_string() })?;
        let mut watch = || !self.stop.load(Ordering::Relaxed);
        let mut say = |what: &str| eprintln!("warning: {what}");
        let before = self.reports.len();
        let recordings =
            self.recorder.record(&drive, scenarios, &mut watch, &mut say, &mut self.reports);
        for report in &self.reports[before..] {
            say(&format!("the kernel reported: {report}"));
        }
        recordings.map_err(|e| NotCompared { at: Some(e.at), what: e.error.to_string() })
    }
}

/// What one scheduler came to.
#[derive(Default)]
struct Tally {
    scenarios: u64,
    agree: u64,
    lines: u64,
    dispatches: u64,
    /// Front merges where several requests begin at the sector, and the recording decided.
    twins: u64,
    /// Numbers of the scenarios of a controller that differ by no more than 1 % for any process.
    close: Vec<u64>,
    /// Bios that met a controller, and those it held.
    ios: u64,
    held: u64,
    /// Listed differences, by name.
    known: BTreeMap<&'static str, u64>,
    /// Files of what differs otherwise.
    found: Vec<PathBuf>,
    /// Settings that this kernel did not take, by name.
    left_out: BTreeMap<String, u64>,
    /// What the kernel reported of itself, and how often.
    reports: BTreeMap<String, u64>,
}

/// What the guests of one command share.
struct Host {
    kernel: Kernel,
    program: PathBuf,
    /// For what passes between host and guest.
    folder: Scratch,
    stop: Arc<AtomicBool>,
    /// What is said when it is interrupted.
    interrupted: &'static str,
}

impl Host {
    fn new(on: &str, interrupted: &'static str) -> Result<Host, Failure> {
        let kernel = kernel(on)?;
        let stop = stop_flag()?;
        let program = std::env::current_exe()
            .map_err(|e| Failure::Environment(format!("this program's own file: {e}")))?;
        let folder = Scratch::new("differ").map_err(|e| Failure::Environment(e.to_string()))?;
        Ok(Host { kernel, program, folder, stop, interrupted })
    }

    fn guests(&self, seed: u64) -> Guests<'_> {
        let Host { kernel, program, folder, stop, .. } = self;
        let folder = folder.path();
        let recorder = record::Recorder { kernel, seed, program, folder };
        Guests { recorder, stop, reports: Vec::new() }
    }

    fn failure(&self, what: String) -> Failure {
        if self.stop.load(Ordering::Relaxed) {
            return Failure::Interrupted(self.interrupted.into());
        }
        Failure::Failed(what)
    }
}

pub fn differ(options: &Differ) -> Result<(), Failure> {
    let schedulers = known_schedulers(&options.scheduler)?;
    check_folder(OUT, Some(&options.out), is_ours)?;
    let host = Host::new(&options.on, "interrupted; the same command goes on from there")?;
    has_ours(&host.kernel, &schedulers)?;
    let out = Folder::open(OUT, &options.out, is_ours)?;
    let mut work = Work { options, host: &host, guests: host.guests(options.seed), out: &out };
    let all: Result<Vec<(String, Tally)>, Failure> =
        schedulers.iter().map(|s| Ok((s.clone(), work.scheduler(s)?))).collect();
    let (all, kernel) = (all?, &host.kernel);
    print(&if options.json { json(&all, kernel, options) } else { text(&all, kernel, options) })?;
    match all.iter().all(|(_, tally)| tally.found.is_empty() && tally.reports.is_empty()) {
        true => Ok(()),
        false => Err(Failure::No),
    }
}

/// For `replay-decisions --on`: names and recordings of these scenarios, or of the standing ones; each in a boot of its
/// own, so that none depends on another. In `out` they are files too.
pub fn record(
    on: &str,
    schedulers: &[String],
    files: &[PathBuf],
    out: Option<&Path>,
) -> Result<Vec<(String, String)>, Failure> {
    let schedulers = known_schedulers(schedulers)?;
    let mut scenarios: Vec<(String, Scenario)> = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        scenarios.push((name, read_scenario(file)?));
    }
    if files.is_empty() {
        if let Some(c) = schedulers.iter().find(|s| CONTROLLERS.contains(&s.as_str())) {
            let text = format!("there are no standing scenarios of {c}; give a file of one");
            return Err(Failure::Usage(text));
        }
        let standing = |s: &String| suite::suite(s).into_iter().map(|(n, s)| (n.to_string(), s));
        scenarios = schedulers.iter().flat_map(standing).collect();
    }
    check_folder(OUT, out, |_| false)?;
    let host = Host::new(on, "interrupted; nothing was compared")?;
    has_ours(&host.kernel, &schedulers)?;
    let out = out.map(|out| Folder::open(OUT, out, |_| false)).transpose()?;
    let mut guests = host.guests(1);
    let mut all = Vec::new();
    for (name, scenario) in scenarios {
        let recording = guests.record(std::slice::from_ref(&scenario));
        let recording = recording.map_err(|e| host.failure(e.what))?.pop().unwrap_or_default();
        let name = format!("{}.{name}.csv.gz", scenario.scheduler);
        let file = match &out {
            Some(folder) => {
                folder.write(&name, &packed(&recording), Kind::Named)?;
                folder.path().join(&name).display().to_string()
            }
            None => name,
        };
        all.push((file, recording));
    }
    Ok(all)
}

/// Scenarios are as long as people write them.
const SCENARIO: Limit = Limit { what: "a scenario", bytes: 4 << 20 };

fn read_scenario(file: &Path) -> Result<Scenario, Failure> {
    let wrong = |e: ScenarioError| Failure::Usage(format!("{}: {e}", file.display()));
    let text = input::text(file, SCENARIO).map_err(|e| Failure::Usage(e.to_string()))?;
    text.parse::<Scenario>().map_err(wrong)
}

/// A recording, compressed.
fn packed(recording: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let written = out.write_all(recording.as_bytes()).and_then(|()| out.finish());
    written.expect("a vector takes every byte")
}

const OUT: &str = "--out";

/// Whether an earlier version has compared into a folder: it begins the files of its progress with its number.
fn is_ours(dir: &Dir) -> bool {
    let mut all = SCHEDULERS.into_iter().chain(of_our_module()).chain(CONTROLLERS);
    all.any(|s| dir.holds(&progress_file(s), Kind::Begins(&[b"0."])))
}

fn progress_file(scheduler: &str) -> String {
    format!("{scheduler}.progress")
}

fn kernel(on: &str) -> Result<Kernel, Failure> {
    let name = match on.split_once(':') {
        None if on == "linux" => None,
        Some(("linux", name)) => Some(name),
        _ => return Err(Failure::Usage(format!("--on: '{on}' is not linux or linux:NAME"))),
    };
    linux::find(name).map_err(|e| Failure::Environment(e.to_string()))
}

/// Schedulers of the module, by its names.
fn of_our_module() -> impl Iterator<Item = &'static str> {
    sched::SCHEDULERS.iter().filter_map(|entry| module_name(entry))
}

/// Refuses a kernel that was built without ours of these names.
fn has_ours(kernel: &Kernel, schedulers: &[String]) -> Result<(), Failure> {
    let lacks = |s: &&String| of_module(s).is_some() && !kernel.module.contains(s);
    match schedulers.iter().find(lacks) {
        Some(lacking) => Err(Failure::Environment(format!(
            "kernel {} was built without {lacking}; `hoistway linux build --with-module` builds one that has it",
            kernel.name
        ))),
        None => Ok(()),
    }
}

/// Those asked for, or all.
fn known_schedulers(asked: &[String]) -> Result<Vec<String>, Failure> {
    if asked.is_empty() {
        return Ok(SCHEDULERS.map(str::to_string).into());
    }
    let known =
        |s: &str| SCHEDULERS.contains(&s) || of_module(s).is_some() || CONTROLLERS.contains(&s);
    match asked.iter().find(|s| !known(s)) {
        Some(other) => Err(Failure::Usage(format!(
            "--scheduler: the kernel has no '{other}' to compare with; there are {}, {}, and with the module {}",
            SCHEDULERS.join(", "),
            CONTROLLERS.join(", "),
            of_our_module().collect::<Vec<_>>().join(", ")
        ))),
        None => Ok(asked.to_vec()),
    }
}

struct Work<'a> {
    options: &'a Differ,
    host: &'a Host,
    guests: Guests<'a>,
    out: &'a Folder<'a>,
}

impl Work<'_> {
    fn settings(&self) -> Result<Recorded, Failure> {
        let mut settings = Recorded::linux_6_1();
        match &self.options.base {
            Some(base) => {
                settings.set_base(base).map_err(|e| Failure::Usage(format!("--base: {e}")))?;
            }
            None => settings.set_release(&self.host.kernel.release),
        }
        Ok(settings)
    }

    fn scheduler(&mut self, scheduler: &str) -> Result<Tally, Failure> {
        let settings = self.settings()?;
        let (given, size) = (self.given(scheduler)?, differ::batch(scheduler));
        let (first, count) = if self.options.scenario.is_empty() {
            (self.options.first, self.options.scenarios)
        } else {
            (0, given.len() as u64)
        };
        let bar = self.bar(scheduler, count);
        let mut progress = Ledger::open(self.options, &self.host.kernel, scheduler, &given);
        progress.resume(count);
        let mut tally = std::mem::take(&mut progress.tally);
        bar.set_position(tally.scenarios);
        while tally.scenarios < count {
            let from = first + tally.scenarios;
            let batch: Vec<Scenario> = if given.is_empty() {
                let to = (from / size * size + size).min(first.saturating_add(count));
                (from..to)
                    .map(|n| generate::scenario(scheduler, self.options.seed, n, size))
                    .collect()
            } else {
                vec![given[from as usize].clone()]
            };
            let compared = differ::compare(&mut self.guests, &batch, &settings).map_err(|e| {
                let found = e.at.and_then(|at| Some((from + at as u64, batch.get(at)?)));
                let which = found.map_or(String::new(), |(n, s)| self.which(scheduler, n, s));
                let what = e.what;
                self.host.failure(format!("{what}\n{which}{}", progress.told(&tally)))
            })?;
            for (n, one) in (from..).zip(compared) {
                self.note(&mut tally, scheduler, n, one, &settings)?;
                bar.set_position(tally.scenarios);
            }
            for report in self.guests.reports.drain(..) {
                *tally.reports.entry(report).or_default() += 1;
            }
            progress.save(&tally, self.out)?;
        }
        bar.finish_and_clear();
        Ok(tally)
    }

    /// A scenario that was not compared: its number, and how to run it alone or to pass it over. A line.
    fn which(&self, scheduler: &str, number: u64, scenario: &Scenario) -> String {
        if !self.options.scenario.is_empty() {
            return format!("it was this scenario:\n{scenario}");
        }
        let Differ { seed, on, .. } = self.options;
        let command = format!("hoistway differ -s {scheduler} --seed {seed} --on {on} --first");
        format!(
            "it was scenario {number}: '{command} {number} -n 1' runs it alone, '{command} {}' those behind it\n",
            number + 1
        )
    }

    fn given(&self, scheduler: &str) -> Result<Vec<Scenario>, Failure> {
        let read = |file: &PathBuf| read_scenario(file);
        let all = self.options.scenario.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
        Ok(all.into_iter().filter(|s| s.scheduler == scheduler).collect())
    }

    fn note(
        &mut self,
        tally: &mut Tally,
        scheduler: &str,
        number: u64,
        one: ComparedScenario,
        settings: &Recorded,
    ) -> Result<(), Failure> {
        tally.scenarios += 1;
        tally.lines += one.outcome.counts.lines;
        tally.dispatches += one.outcome.counts.dispatches;
        tally.twins += one.outcome.counts.twins;
        tally.ios += one.outcome.counts.ios;
        tally.held += one.outcome.counts.held;
        for (name, n) in &one.outcome.left_out {
            *tally.left_out.entry(name.clone()).or_default() += n;
        }
        let name = format!("{scheduler}-{}-{number}", self.options.seed);
        let found = one.differs() && one.known().is_none();
        if self.options.keep && !found {
            keep(self.out, &name, &one)?;
        }
        if one.outcome.agrees() {
            tally.agree += 1;
            return Ok(());
        }
        if !one.differs() {
            tally.close.push(number);
            return Ok(());
        }
        if let Some(known) = one.known() {
            *tally.known.entry(known.name).or_default() += 1;
            return Ok(());
        }
        let mut small = one;
        if !self.options.as_found {
            // To cut it down takes many guests, of which any may fail.
            keep(self.out, &name, &small)?;
            let stop = &self.host.stop;
            let mut go_on = |_: &ComparedScenario| !stop.load(Ordering::Relaxed);
            small = differ::smallest(&mut self.guests, small, settings, &mut go_on)
                .map_err(|e| self.host.failure(e))?;
        }
        tally.found.push(keep(self.out, &name, &small)?);
        Ok(())
    }

    fn bar(&self, scheduler: &str, count: u64) -> indicatif::ProgressBar {
        let template = "{msg} {pos}/{len} scenarios [{bar:40}] {eta} left";
        let bar = terminal::bar(self.options.quiet, count as usize, template);
        bar.set_message(scheduler.to_string());
        bar
    }
}

/// Scenario, recording and the difference, in files of that name; the path of the last.
fn keep(folder: &Folder<'_>, name: &str, found: &ComparedScenario) -> Result<PathBuf, Failure> {
    let put = |ending: &str, bytes: &[u8]| {
        let file = format!("{name}.{ending}");
        folder.write(&file, bytes, Kind::Named).map(|()| folder.path().join(file))
    };
    put("scenario", found.scenario.to_string().as_bytes())?;
    let recording = put("csv.gz", &packed(&found.recording))?;
    match found.outcome.agrees() {
        true => Ok(recording),
        false => put("txt", difference(found).as_bytes()),
    }
}

/// The first difference with what came before it.
fn difference(found: &ComparedScenario) -> String {
    let Some(d) = &found.outcome.first else { return String::new() };
    let mut out = format!("{}\nrecorded up to line {}:\n", found.scenario, d.line);
    let lines: Vec<&str> = found.recording.lines().take(d.line).collect();
    lines[lines.len().saturating_sub(15)..].iter().for_each(|line| out += &format!("  {line}\n"));
    let _ = writeln!(out, "ours: {}\nstate of ours:", d.ours);
    d.state.lines().for_each(|line| out += &format!("  {line}\n"));
    if !found.outcome.processes.is_empty() {
        let counts = found.outcome.differences.kinds();
        let counts = counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}"));
        let _ = writeln!(out, "differences: {}", counts.collect::<Vec<_>>().join(", "));
        out +=
            "process: bios, bytes that passed in Linux and in ours, ns held in Linux and in ours\n";
        for p in &found.outcome.processes {
            let ([a, b], [c, d]) = (p.bytes, p.held);
            let _ =
                writeln!(out, "  {}: {} bios, {a} and {b}, {} and {}", p.number, p.ios, c.0, d.0);
        }
    }
    out
}

fn text(all: &[(String, Tally)], kernel: &Kernel, options: &Differ) -> String {
    let mut out = format!("Linux {} in virtual time, seed {}\n", kernel.release, options.seed);
    for (scheduler, t) in all {
        let what = match CONTROLLERS.contains(&scheduler.as_str()) {
            true => format!("{} bios, {} of them held", t.ios, t.held),
            false => format!("{} lines, {} dispatches", t.lines, t.dispatches),
        };
        let _ = writeln!(
            out,
            "{scheduler}: {}, {what}: {} agree on every line",
            counted(t.scenarios, "scenario"),
            t.agree
        );
        if !t.close.is_empty() {
            let numbers: Vec<String> = t.close.iter().map(u64::to_string).collect();
            let _ = writeln!(
                out,
                "  {} differ, within 1 % for every process: {} (--first N -n 1 --keep)",
                t.close.len(),
                numbers.join(", ")
            );
        }
        if t.twins > 0 {
            let n = t.twins;
            let _ = writeln!(
                out,
                "  {n} front merges into one of several requests at one sector: the recording said which"
            );
        }
        for k in known::KNOWN.iter().filter(|k| k.scheduler == scheduler) {
            if let Some(n) = t.known.get(k.name) {
                let whose = if k.ours { "ours" } else { "the recording's" };
                let _ = writeln!(
                    out,
                    "  {n} differ as listed: {} ({}; {whose}; {})",
                    k.name, k.rule, k.specification
                );
            }
        }
        for (name, n) in &t.left_out {
            let _ = writeln!(
                out,
                "  {name} was left out {}: this kernel does not have it, or does not take it",
                counted(*n, "time")
            );
        }
        for report in &t.found {
            let _ = writeln!(out, "  differs: {}", report.display());
        }
        for (report, n) in &t.reports {
            let _ = writeln!(out, "  the kernel reported {}: {report}", counted(*n, "time"));
        }
    }
    out
}

fn json(all: &[(String, Tally)], kernel: &Kernel, options: &Differ) -> String {
    let one = |(scheduler, t): &(String, Tally)| {
        serde_json::json!({
            "scheduler": scheduler, "scenarios": t.scenarios, "lines": t.lines, "dispatches": t.dispatches,
            "agree": t.agree, "close": t.close.len(), "close_scenarios": t.close, "ios": t.ios, "held": t.held, "twins": t.twins, "known": t.known, "left_out": t.left_out,
            "differ": t.found, "reports": t.reports,
        })
    };
    let value = serde_json::json!({
        "schema": 1, "kernel": kernel.name, "release": kernel.release, "seed": options.seed,
        "schedulers": all.iter().map(one).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// What an interrupted run has done, in a file of the output folder.
struct Ledger {
    file: PathBuf,
    head: String,
    tally: Tally,
    fresh: bool,
}

impl Ledger {
    /// Of scenarios that were `given`, or of random ones.
    fn open(options: &Differ, kernel: &Kernel, scheduler: &str, given: &[Scenario]) -> Ledger {
        let mut head = format!(
            "{} {} {} {} {:?} {:?} {}",
            env!("CARGO_PKG_VERSION"),
            kernel.digest,
            scheduler,
            options.seed,
            options.scenario,
            options.base,
            options.as_found
        );
        if options.first > 0 {
            let _ = write!(head, " from {}", options.first);
        }
        // A file of a scenario may be another one by now.
        given.iter().for_each(|scenario| {
            let _ = write!(head, " {:?}", scenario.to_string());
        });
        let file = options.out.join(progress_file(scheduler));
        Ledger { file, head, tally: Tally::default(), fresh: options.fresh }
    }

    /// Takes up what an interrupted run of so many scenarios has left.
    fn resume(&mut self, count: u64) {
        if !self.fresh
            && let Ok(text) = fs::read_to_string(&self.file)
        {
            self.read(&text, count);
        }
    }

    /// What remains of a run that ends with an error.
    fn told(&self, t: &Tally) -> String {
        match t.scenarios {
            0 => "nothing was compared".into(),
            n => format!(
                "{} compared, and the same command goes on from there",
                counted(n, "scenario")
            ),
        }
    }

    /// A file of another command is passed over, and so is one of a finished or longer run.
    fn read(&mut self, text: &str, most: u64) {
        let Some((head, rest)) = text.split_once('\n') else { return };
        let mut lines = rest.lines();
        let numbers: Vec<u64> =
            lines.next().unwrap_or("").split(' ').filter_map(|n| n.parse().ok()).collect();
        let [scenarios, agree, read, dispatches, twins, ios, held] = numbers[..] else {
            return;
        };
        if head != self.head || scenarios >= most {
            return;
        }
        self.tally = Tally {
            scenarios,
            agree,
            lines: read,
            dispatches,
            twins,
            ios,
            held,
            ..Tally::default()
        };
        for line in lines {
            match line.split_once(' ') {
                Some(("found", path)) => self.tally.found.push(path.into()),
                Some(("close", n)) => self.tally.close.extend(n.parse::<u64>()),
                Some((what @ ("left-out" | "report"), rest)) => {
                    let Tally { left_out, reports, .. } = &mut self.tally;
                    let map = if what == "report" { reports } else { left_out };
                    if let Some((n, name)) = rest.split_once(' ') {
                        map.insert(name.into(), n.parse().unwrap_or(0));
                    }
                }
                Some((n, name)) => {
                    let known = known::KNOWN.iter().find(|k| k.name == name);
                    let n = n.parse().unwrap_or(0);
                    known.into_iter().for_each(|k| {
                        self.tally.known.insert(k.name, n);
                    });
                }
                None => {}
            }
        }
    }

    fn save(&self, t: &Tally, out: &Folder<'_>) -> Result<(), Failure> {
        let mut text = format!(
            "{}\n{} {} {} {} {} {} {}\n",
            self.head, t.scenarios, t.agree, t.lines, t.dispatches, t.twins, t.ios, t.held
        );
        t.close.iter().for_each(|n| text += &format!("close {n}\n"));
        t.known.iter().for_each(|(name, n)| text += &format!("{n} {name}\n"));
        t.left_out.iter().for_each(|(name, n)| text += &format!("left-out {n} {name}\n"));
        t.reports.iter().for_each(|(line, n)| text += &format!("report {n} {line}\n"));
        t.found.iter().for_each(|path| text += &format!("found {}\n", path.display()));
        let name = self.file.file_name().expect("it was made from a name").to_string_lossy();
        out.write(&name, text.as_bytes(), Kind::Named)
    }
}

/// What the kernel's side refused is the machine's fault.
impl From<MachineError> for Failure {
    fn from(e: MachineError) -> Failure {
        Failure::Failed(e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches as _;

    fn options(args: &[&str]) -> Differ {
        let command = Differ::augment_args(clap::Command::new("differ"));
        let words = std::iter::once("differ").chain(args.iter().copied());
        Differ::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    fn kernel() -> Kernel {
        Kernel {
            name: "6.1".into(),
            release: "6.1.0".into(),
            image: PathBuf::new(),
            config: PathBuf::new(),
            digest: "d".into(),
            source: String::new(),
            patches: Vec::new(),
            module: Vec::new(),
        }
    }

    /// How many scenarios a run of so many finds done.
    fn done(options: &Differ, given: &[Scenario], count: u64) -> u64 {
        let mut progress = Ledger::open(options, &kernel(), "bfq", given);
        progress.resume(count);
        progress.tally.scenarios
    }

    #[test]
    fn an_interrupted_run_goes_on_and_a_finished_one_begins_anew() {
        let out = std::env::temp_dir().join(format!("hoistway-progress-{}", std::process::id()));
        let folder = out.to_str().unwrap();
        let place = Folder::open(OUT, &out, is_ours).unwrap();
        let random = options(&["--out", folder]);
        let save = |options: &Differ, given: &[Scenario], scenarios| {
            let tally = Tally { scenarios, ..Tally::default() };
            Ledger::open(options, &kernel(), "bfq", given).save(&tally, &place).unwrap();
        };
        save(&random, &[], 20);
        assert_eq!((done(&random, &[], 100), done(&random, &[], 20)), (20, 0));
        let left_out = BTreeMap::from([("async_depth".to_string(), 3)]);
        let reports = BTreeMap::from([("BUG: KASAN: wild access in f".to_string(), 2)]);
        let tally = Tally {
            scenarios: 20,
            left_out: left_out.clone(),
            reports: reports.clone(),
            close: vec![7, 19],
            ..Tally::default()
        };
        Ledger::open(&random, &kernel(), "bfq", &[]).save(&tally, &place).unwrap();
        let mut progress = Ledger::open(&random, &kernel(), "bfq", &[]);
        progress.resume(100);
        assert_eq!((progress.tally.scenarios, progress.tally.left_out), (20, left_out));
        assert_eq!((progress.tally.close, progress.tally.reports), (vec![7, 19], reports));
        assert_eq!(done(&options(&["--out", folder, "--fresh"]), &[], 100), 0);
        assert_eq!(done(&options(&["--out", folder, "--seed", "2"]), &[], 100), 0);
        // One scenario of a file: when it has run, the run is over, however many random ones are usual.
        let text =
            "scheduler bfq\ndrive null-block\nlength 100\nprocess end=100 span=65536 depth=2\n";
        let (one, other): (Scenario, Scenario) =
            (text.parse().unwrap(), text.replace("=2", "=3").parse().unwrap());
        let file = options(&["--out", folder, "--scenario", "a.scenario"]);
        save(&file, &[one.clone(), one.clone()], 1);
        assert_eq!(done(&file, &[one.clone(), one.clone()], 2), 1);
        assert_eq!(done(&file, &[one.clone(), other], 2), 0, "the file has changed");
        save(&file, std::slice::from_ref(&one), 1);
        assert_eq!(done(&file, std::slice::from_ref(&one), 1), 0);
        let _ = fs::remove_dir_all(&out);
    }
}
