//! `hoistway show NAME`: one object of a registry in full.

mod settings;

use crate::common::output::print;
use crate::common::table::Table;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use hoistway::knob::{Knob, KnobOf};
use hoistway::setting::nearest;
use hoistway::{Profile, ctl, sched};
use hoistway_files::input::{self, Limit};
use hoistway_lab::config::{Config, ConfigError, Member, NAMED};
use hoistway_lab::experiment::Experiment;
use hoistway_sim::drive::keys::{Key, ValueType};
use hoistway_sim::drive::{DriveFile, MODELS, Model, faults};
use hoistway_sim::host::HostConfig;
use hoistway_sim::load::LOADS;
use std::path::Path;

/// `hoistway show`.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// Name of a scheduler, controller, drive, model, experiment, load or configuration, or path of a drive file
    pub name: String,
    /// Print the settings of a scheduler or controller as a Markdown table
    #[arg(long)]
    pub markdown: bool,
}

pub fn show(args: &Show) -> Result<(), Failure> {
    let name = args.name.as_str();
    let found = find(name)?;
    if args.markdown && name == faults::TABLE {
        return print(&keys_markdown(faults::FAULT_KEYS));
    }
    if args.markdown && found.is_some() {
        return match settings::markdown(name) {
            Some(text) => print(&text),
            None => Err(Failure::Usage(format!(
                "--markdown prints the settings of a scheduler or controller, or `faults`, and '{name}' is none of \
                 them (`hoistway list schedulers`, `hoistway list controllers`)"
            ))),
        };
    }
    if let Some(text) = found {
        return print(&text);
    }
    let known = known_names();
    let hint = match nearest(name, known.iter().copied()) {
        Some(n) => format!("; did you mean '{n}'?"),
        None => String::new(),
    };
    Err(Failure::Usage(format!("there is no '{name}'{hint} (`hoistway list` lists everything)")))
}

fn find(name: &str) -> Result<Option<String>, Failure> {
    if name.contains('/') || name.ends_with(".toml") {
        return file(name).map(Some);
    }
    if let Some(entry) = sched::find(name) {
        return Ok(Some(scheduler(entry)));
    }
    if let Some(entry) = ctl::find(name) {
        let head = format!("{}: {}\nspecification: {}\n", entry.name, entry.summary, entry.source);
        let settings = settings::text(("tunable", entry.tunables), entry.group_tunables);
        return Ok(Some(head + &settings + &knobs(entry.knobs)));
    }
    if DriveFile::ids().contains(&name) {
        let drive = DriveFile::load(name).map_err(|e| Failure::Failed(e.to_string()))?;
        return Ok(Some(show_drive(&drive)));
    }
    if let Some(model) = Model::find(name) {
        return Ok(Some(show_model(model)));
    }
    if name == faults::TABLE {
        let summary = "what goes wrong with a simulated drive: table [faults] of drive files and experiments, --faults";
        return Ok(Some(show_keys(name, summary, faults::FAULT_KEYS)));
    }
    if Experiment::ids().any(|id| id == name) {
        let experiment = Experiment::load(name).map_err(|e| Failure::Failed(e.to_string()))?;
        // As a comment, so that the output is a valid experiment file.
        return Ok(Some(format!("# {name}\n{}", experiment.text)));
    }
    if let Some(load) = LOADS.iter().find(|l| l.name == name) {
        let mut table = Table::new(&["parameter", "default", ""], 3);
        for p in load.params {
            table.row(vec![p.name.into(), p.default.into(), p.doc.into()]);
        }
        let mut text = format!("{}: {}\n\n{}", load.name, load.summary, table.render());
        if !load.counts.is_empty() {
            let mut table = Table::new(&["counts", "unit", "better", ""], 4);
            for c in load.counts {
                table.row([c.name, c.unit, c.better.name(), c.doc].map(String::from).into());
            }
            text.push_str(&format!("\n{}", table.render()));
        }
        return Ok(Some(text));
    }
    if let Ok(host) = HostConfig::profile(name) {
        let mut table = Table::new(&["host parameter", "value", "may be", ""], 4);
        host.documented().for_each(|row| table.row(row.into()));
        return Ok(Some(format!("{name}: a host profile\n\n{}", table.render())));
    }
    match Config::parse(name) {
        Ok(config) => Ok(Some(show_config(&config))),
        Err(ConfigError::Unknown { .. }) if sched::why_missing(name).is_none() => Ok(None),
        Err(error) => Err(Failure::Usage(error.to_string())),
    }
}

const FILE: Limit = Limit { what: "an experiment or drive file", bytes: 4 << 20 };

/// A file by path: an experiment if it has workloads, else a drive.
fn file(path: &str) -> Result<String, Failure> {
    let text = input::text(Path::new(path), FILE).map_err(|e| Failure::Usage(e.to_string()))?;
    if text.lines().any(|l| l.trim_start().starts_with("[workload")) {
        return match Experiment::parse(path, &text) {
            Ok(experiment) => Ok(experiment.text),
            Err(e) => Err(Failure::Usage(e.to_string())),
        };
    }
    match DriveFile::load(path) {
        Ok(drive) => Ok(show_drive(&drive)),
        Err(e) => Err(Failure::Usage(e.to_string())),
    }
}

fn known_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = sched::SCHEDULERS.iter().map(|e| e.name).collect();
    names.extend(ctl::CONTROLLERS.iter().map(|e| e.name));
    names.extend(DriveFile::ids());
    names.extend(MODELS.iter().map(|m| m.name));
    names.push(faults::TABLE);
    names.extend(Experiment::ids());
    names.extend(LOADS.iter().map(|l| l.name));
    names.extend(NAMED.iter().map(|n| n.name));
    names.extend(HostConfig::profiles());
    names
}

fn scheduler(entry: &sched::Entry) -> String {
    let profile = match entry.profile {
        Profile::Legacy => "single-queue (2.6.30 to 2.6.34)",
        Profile::MultiQueue => "multi-queue (blk-mq, 6.1)",
    };
    let mut out = format!(
        "{}: {}\nspecification: {}\nblock layer: {profile}\n",
        entry.name, entry.summary, entry.source
    );
    out.push_str(&settings::text(("tunable", entry.tunables), entry.group_tunables));
    out + &knobs(entry.knobs) + &figures(entry)
}

/// The cgroup files of a stage, with the form of their lines.
fn knobs(list: &[Knob]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["cgroup file", "of", "line", ""], 4);
    for k in list {
        let of = match k.of {
            KnobOf::Root => "the root",
            KnobOf::Groups => "groups",
            KnobOf::All => "all",
        };
        table.row(vec![k.file.into(), of.into(), k.form.into(), k.doc.into()]);
    }
    format!("\n{}", table.render())
}

/// What the scheduler counts, if it says so.
fn figures(entry: &sched::Entry) -> String {
    let mut table = Table::new(&["figure", "of", "unit", ""], 4);
    for doc in entry.figures.iter().copied().flatten() {
        table.row(vec![doc.name.into(), doc.of.into(), doc.unit.into(), doc.doc.into()]);
    }
    match entry.figures.is_empty() {
        true => String::new(),
        false => format!("\n{}", table.render()),
    }
}

fn show_config(config: &Config) -> String {
    let mut out = format!("{}: {}\n", config.id, config.summary);
    let settings: Vec<String> = config
        .set
        .iter()
        .chain(&config.queue)
        .chain(&config.given)
        .chain(config.controllers.iter().flat_map(|c| &c.set))
        .map(|(n, v)| format!("{n} = {v}"))
        .collect();
    if !settings.is_empty() {
        out.push_str(&format!("sets: {}\n", settings.join(", ")));
    }
    if config.groups {
        out.push_str("groups: every process is alone in one below the root\n");
    }
    if let Some(policy) = config.policy.filter(|p| !p.options.is_empty()) {
        out.push_str(&settings::text(("option, in braces", policy.options), &[]));
        out.push_str("\nwritten to the cgroup files, on the Plextor PX-256M5S:\n");
        for (who, member) in
            [("/", Member::Root), ("/target", Member::Target), ("others", Member::Interferer)]
        {
            let drive = DriveFile::load("plextor-px-256m5s").ok();
            for (file, line) in drive.iter().flat_map(|d| config.lines(d, member)) {
                out.push_str(&format!("  {who} {file}: {line}\n"));
            }
        }
    }
    for controller in &config.controllers {
        if let Some(entry) = ctl::find(&controller.name) {
            out.push_str(&format!("\n{}: {}\n", entry.name, entry.summary));
            out.push_str(&settings::text(("tunable", entry.tunables), &[]));
            out.push_str(&knobs(entry.knobs));
        }
    }
    out.push('\n');
    out + &scheduler(config.scheduler)
}

fn show_drive(drive: &DriveFile) -> String {
    let mut out = format!("# {}: {}\n", drive.id, drive.name);
    match DriveFile::embedded(&drive.id) {
        // With the origin of each value in its comment.
        Some(text) => out.push_str(text),
        None => out.push_str(&drive.table.to_string()),
    }
    out
}

fn show_model(model: &Model) -> String {
    show_keys(model.name, model.summary, model.keys)
}

fn show_keys(name: &str, summary: &str, keys: &[Key]) -> String {
    let mut table = Table::new(&["key", "values", "if missing", ""], 4);
    for key in keys {
        let missing = key.default.unwrap_or("required");
        table.row(vec![key.name.into(), values(key), missing.into(), key.doc.into()]);
    }
    format!("{name}: {summary}\n\n{}", table.render())
}

/// The table of a reference page.
fn keys_markdown(keys: &[Key]) -> String {
    let mut text = String::from("| key | values | if missing | |\n|---|---|---|---|\n");
    for key in keys {
        let missing = key.default.unwrap_or("required");
        text.push_str(&format!("| `{}` | {} | {missing} | {} |\n", key.name, values(key), key.doc));
    }
    text
}

fn values(key: &Key) -> String {
    match key.kind {
        ValueType::Int { min, max } => format!("{min}..={max}"),
        ValueType::Num { min, max } => format!("{min}..={max}"),
        ValueType::Off { min, max } => format!("0, {min}..={max}"),
        ValueType::Bool => "true, false".into(),
        ValueType::Text => "text".into(),
        ValueType::Word(words) => words.join(", "),
        ValueType::Knots => "[[cylinders, ms], ...]".into(),
    }
}
