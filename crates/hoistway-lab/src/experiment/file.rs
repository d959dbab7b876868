//! Reading an experiment file, strictly: unknown and missing keys are errors.

use super::bounds;
use super::control::{read_rules, read_tree};
use super::document;
use super::source::{ParsedFile, Result, Section};
use super::{Experiment, Longer, ProcTemplate, SCHEMA, Weights, Workload};
use crate::config;
use crate::registry::Registry;
use crate::result::{Judge, Kind};
use hoistway::quantity;
use hoistway::setting::nearest;
use hoistway::{IoPrio, Nanos};
use hoistway_files::input::PROCESSES_MAX;
use hoistway_run::Window;
use hoistway_sim::drive::{DriveFile, faults};
use hoistway_sim::load::{Better, LOADS};

/// Most repetitions.
pub(crate) const REPS_MAX: u32 = 10_000;
/// Longest text of a parameter: each process has its own.
const PARAM_MAX: usize = 4096;

pub(super) fn read(id: String, label: &str, text: &str, registry: &Registry) -> Result<Experiment> {
    let source = ParsedFile::parse(label, text, registry)?;
    let top = source.top();
    top.only(&[
        "schema",
        "title",
        "about",
        "judge",
        "share",
        "drives",
        "configs",
        "workloads",
        "reps",
        "host",
        "faults",
        "window",
        "files",
        "group",
        "target",
        "workload",
        "document",
    ])?;
    top.number("schema", SCHEMA, SCHEMA)?;
    let host = top.section("host")?;
    let workloads = read_workloads(&top.section("workload")?)?;
    let target = top.opt_section("target")?.map(|t| read_proc(&t, true)).transpose()?;
    let measured = target.is_some() || workloads.iter().any(|w| w.target.is_some());
    if target.is_none()
        && let Some(w) = workloads.iter().find(|w| w.target.is_none() && w.procs.is_empty())
    {
        let what = format!("workload '{}' has no process; add [[workload.{}.procs]]", w.id, w.id);
        return Err(top.wrong(&format!("workload.{}", w.id), what));
    }
    let nobody = |w: &&Workload| w.lead > Nanos::ZERO && w.target.is_none() && target.is_none();
    if let Some(w) = workloads.iter().find(nobody) {
        let what = "lead is about the target, and this workload has none";
        return Err(top.wrong(&format!("workload.{}.lead", w.id), what));
    }
    let judge = read_judge(&top, target.as_ref(), &workloads)?;
    let (weights, guarantee) = read_share(&top, judge)?;
    let (window, head_start, longer) = read_window(&top.section("window")?, measured)?;
    let experiment = Experiment {
        id,
        title: top.text("title")?.to_string(),
        about: top.text("about")?.split_whitespace().collect::<Vec<_>>().join(" "),
        judge,
        weights,
        guarantee,
        host_profile: host.text("profile")?.to_string(),
        host: host
            .table
            .iter()
            .filter(|(k, _)| *k != "profile")
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        faults: read_faults(&top)?,
        head_start,
        window,
        longer,
        files: read_rules(&top)?,
        tree: read_tree(&top)?,
        target,
        workloads,
        drives: top.texts("drives")?,
        configs: top.texts("configs")?,
        default_workloads: top.texts("workloads")?,
        reps: top.number("reps", 1, u64::from(REPS_MAX))? as u32,
        document: document::read(&top, measured)?,
        procedure: None,
        text: text.to_string(),
    };
    check_names(&top, &experiment)?;
    for (i, group) in experiment.tree.iter().enumerate() {
        for (j, name) in group.procs.iter().enumerate() {
            let at = format!("group[{i}].procs[{j}]");
            experiment.check_process(name).map_err(|what| top.wrong(&at, what))?;
        }
    }
    check_weights(&top, &experiment)?;
    bounds::check(&top, &experiment)?;
    check_host(&host, &experiment)?;
    Ok(experiment)
}

/// Keys of `[faults]`; they are those of drive files.
fn read_faults(top: &Section<'_>) -> Result<Vec<(String, toml::Value)>> {
    let Some(section) = top.opt_section("faults")? else { return Ok(Vec::new()) };
    let keys: Vec<&str> = faults::FAULT_KEYS.iter().map(|k| k.name).collect();
    section.only(&keys)?;
    let given: Vec<_> = section.table.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let any = DriveFile::load("null-block").expect("an embedded drive");
    match any.with_faults(&given) {
        Ok(_) => Ok(given),
        Err(e) => {
            let key = given.iter().map(|(k, _)| k.as_str()).find(|k| e.0.contains(k));
            Err(section.wrong(key.unwrap_or_default(), e.0))
        }
    }
}

/// What the experiment judges by; what every workload must have for that.
fn read_judge(
    top: &Section<'_>,
    target: Option<&ProcTemplate>,
    workloads: &[Workload],
) -> Result<Option<Judge>> {
    let Some(word) = top.opt_text("judge")? else { return Ok(None) };
    let Some(judge) = Judge::find(word) else {
        let known = Judge::ALL.into_iter().map(Judge::name);
        return Err(top.wrong("judge", unknown("quantity to judge by", word, known)));
    };
    let lacks = |w: &&Workload| {
        let target = w.target.as_ref().or(target);
        match judge {
            // The latency of a program of several processes is nobody's.
            Judge::Latency => target.is_none_or(|t| t.count > 1),
            Judge::Startup => target.is_none_or(|t| !TIMED.contains(&t.load.as_str())),
            Judge::Count => target.is_none_or(|t| !counts(&t.load)),
            Judge::Share | Judge::Throughput => false,
        }
    };
    if let Some(w) = workloads.iter().find(lacks) {
        let needs = match judge {
            Judge::Startup => "a target with load 'app_start', 'boot' or 'git_grep'".to_string(),
            Judge::Count => "a target whose load counts something (hoistway list loads)".into(),
            _ => "a target of one process".to_string(),
        };
        let what = format!("judge = '{word}' needs {needs}, and workload '{}' has none", w.id);
        return Err(top.wrong("judge", what));
    }
    Ok(Some(judge))
}

/// Weights and guarantee of `[share]`.
fn read_share(top: &Section<'_>, judge: Option<Judge>) -> Result<(Weights, Option<u64>)> {
    let Some(section) = top.opt_section("share")? else { return Ok((Vec::new(), None)) };
    if judge != Some(Judge::Share) {
        return Err(top.wrong("share", "[share] is for experiments with judge = \"share\""));
    }
    section.only(&["weights", "guarantee"])?;
    let mut weights = Vec::new();
    if let Some(given) = section.opt_section("weights")? {
        for name in given.table.keys() {
            weights.push((name.clone(), given.number(name, 1, 10_000)?));
        }
    }
    let rate = |text| quantity::rate(text).map_err(|e| section.wrong("guarantee", e.to_string()));
    let guarantee = section.opt_text("guarantee")?.map(rate).transpose()?;
    match guarantee {
        Some(0) => Err(section.wrong("guarantee", "guarantee must be above 0")),
        Some(_) if !weights.is_empty() => {
            let what = "either weights or a guarantee say what the target is entitled to";
            Err(section.wrong("guarantee", what))
        }
        guarantee => Ok((weights, guarantee)),
    }
}

/// Weights are of processes that exist; a guarantee is somebody's.
fn check_weights(top: &Section<'_>, experiment: &Experiment) -> Result<()> {
    let kinds: Vec<&str> = {
        let own = experiment.workloads.iter().flat_map(|w| w.target.iter().chain(&w.procs));
        experiment.target.iter().chain(own).map(|p| p.name.as_str()).collect()
    };
    for (name, _) in &experiment.weights {
        if experiment.check_process(name).is_err() {
            let what = unknown("process or kind of processes", name, kinds.iter().copied());
            return Err(top.wrong(&format!("share.weights.{name}"), what));
        }
    }
    let without = |w: &&Workload| w.target.is_none() && experiment.target.is_none();
    match experiment.workloads.iter().find(without) {
        Some(w) if experiment.guarantee.is_some() => {
            let what = format!("the guarantee is the target's, and workload '{}' has none", w.id);
            Err(top.wrong("share.guarantee", what))
        }
        _ => Ok(()),
    }
}

/// Registry names of the loads that tell how long something took, by the marks `start` and `done`.
const TIMED: [&str; 3] = ["app_start", "boot", "git_grep"];

/// The load counts something that is better high or low.
fn counts(load: &str) -> bool {
    let entry = LOADS.iter().find(|l| l.name == load);
    entry.is_some_and(|l| l.counts.iter().any(|c| c.better != Better::Neither))
}

/// `target`: some process is the target. Without one there is nobody to wait for.
fn read_window(section: &Section<'_>, target: bool) -> Result<(Window, Nanos, Vec<Longer>)> {
    section.only(&[
        "head_start",
        "ramp",
        "measured",
        "grace",
        "target_interval",
        "device_interval",
        "longer",
    ])?;
    let interval = |key: &str| -> Result<Nanos> {
        let t = section.time(key)?;
        if t < Nanos::us(100) {
            return Err(section.wrong(key, format!("{key} must be at least 100us")));
        }
        Ok(t)
    };
    let mut of_target = ["head_start", "grace"].into_iter();
    if let Some(key) = of_target.find(|k| !target && section.table.contains_key(*k)) {
        let what =
            format!("{key} is about the target, and there is none; measuring begins after ramp");
        return Err(section.wrong(key, what));
    }
    let window = Window {
        ramp: section.opt_time("ramp")?.unwrap_or(Nanos::ZERO),
        measured: measured(section)?,
        grace: if target { section.time("grace")? } else { Nanos::ZERO },
        target_interval: interval("target_interval")?,
        device_interval: interval("device_interval")?,
    };
    let longer = read_longer(section, target)?;
    Ok((window, section.opt_time("head_start")?.unwrap_or(Nanos::ZERO), longer))
}

/// The cases of `[[longer]]`.
pub(super) fn read_longer(section: &Section<'_>, target: bool) -> Result<Vec<Longer>> {
    let mut longer = Vec::new();
    for case in section.sections("longer")? {
        case.only(&["rotational", "configs", "measured", "head_start"])?;
        let configs = match case.table.contains_key("configs") {
            true => case.texts("configs")?,
            false => Vec::new(),
        };
        for (i, name) in configs.iter().enumerate() {
            if !config::is_known(name, case.schedulers()) {
                let known = config::all_names(case.schedulers());
                let at = format!("configs[{i}]");
                return Err(case.wrong(&at, unknown("configuration", name, known)));
            }
        }
        let rotational = case.opt_flag("rotational")?;
        let head_start = case.opt_time("head_start")?;
        if head_start.is_some() && !target {
            let what = "head_start is about the target, and there is none";
            return Err(case.wrong("head_start", what));
        }
        // One of the two there must be.
        let given = case.table.contains_key("measured") || head_start.is_none();
        let measured = given.then(|| measured(&case)).transpose()?;
        longer.push(Longer { rotational, configs, measured, head_start });
    }
    Ok(longer)
}

/// The key `measured`: above 0, at most a day.
pub(super) fn measured(section: &Section<'_>) -> Result<Nanos> {
    let t = section.time("measured")?;
    if t == Nanos::ZERO {
        return Err(section.wrong("measured", "measured must be above 0 and at most 24h"));
    }
    Ok(t)
}

fn read_workloads(section: &Section<'_>) -> Result<Vec<Workload>> {
    let mut workloads = Vec::new();
    for id in section.table.keys() {
        let w = section.section(id)?;
        w.only(&["summary", "kind", "target", "measured", "lead", "procs"])?;
        let mut procs = Vec::new();
        for p in w.sections("procs")? {
            procs.push(read_proc(&p, false)?);
        }
        let target = w.opt_section("target")?.map(|t| read_proc(&t, true)).transpose()?;
        let mut names: Vec<&str> = procs.iter().map(|p| p.name.as_str()).collect();
        names.push("target");
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|p| p[0] == p[1]) {
            let what = format!("two kinds of processes are named '{}'; give each a name", twice[0]);
            return Err(w.wrong("procs", what));
        }
        workloads.push(Workload {
            id: id.clone(),
            summary: w.text("summary")?.to_string(),
            kind: kind(&w)?,
            measured: w.table.contains_key("measured").then(|| measured(&w)).transpose()?,
            lead: w.opt_time("lead")?.unwrap_or(Nanos::ZERO),
            target,
            procs,
        });
    }
    if workloads.is_empty() {
        return Err(section.wrong("", "no workload; add a table [workload.NAME]"));
    }
    Ok(workloads)
}

/// The key `kind`.
fn kind(workload: &Section<'_>) -> Result<Option<Kind>> {
    let Some(word) = workload.opt_text("kind")? else { return Ok(None) };
    let known = Kind::ALL.into_iter().map(Kind::name);
    match Kind::find(word) {
        Some(kind) => Ok(Some(kind)),
        None => Err(workload.wrong("kind", unknown("kind of workloads", word, known))),
    }
}

fn read_proc(section: &Section<'_>, target: bool) -> Result<ProcTemplate> {
    // What is not ours belongs to the load.
    const OURS: &[&str] = &["name", "count", "stagger", "prio", "load"];
    let params: toml::Table = section
        .table
        .iter()
        .filter(|(k, _)| !OURS.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let several = ["name", "stagger"].into_iter();
    if target && let Some(key) = several.into_iter().find(|k| section.table.contains_key(*k)) {
        let what =
            format!("the target is one program, whose processes start together; it has no '{key}'");
        return Err(section.wrong(key, what));
    }
    let name = if target { "target" } else { section.text("name")? };
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(
            section.wrong("name", format!("name '{name}' must be letters, digits, - and _"))
        );
    }
    check_load(section, &params)?;
    if let Some((key, _)) = params.iter().find(|(_, v)| v.to_string().len() > PARAM_MAX) {
        return Err(section.wrong(key, format!("{key} is longer than {PARAM_MAX} letters")));
    }
    Ok(ProcTemplate {
        name: name.to_string(),
        count: section.opt_number("count", 1, PROCESSES_MAX)?.unwrap_or(1) as u32,
        stagger: section.opt_time("stagger")?.unwrap_or(Nanos::ZERO),
        prio: read_prio(section)?,
        load: section.text("load")?.to_string(),
        params,
    })
}

/// The key `prio`: class and level as `ionice` takes them. A class alone means level 4, as with `ionice -c`.
fn read_prio(section: &Section<'_>) -> Result<Option<IoPrio>> {
    let Some(text) = section.opt_text("prio")? else { return Ok(None) };
    let wrong = || {
        let what = "a class alone (\"rt\", \"be\", \"idle\", \"none\") or with a level 0 to 7 (\"rt/0\", \"be/7\")";
        section.wrong("prio", format!("prio = \"{text}\" must be {what}"))
    };
    let (class, level) = match text.split_once('/') {
        None => (text, None),
        Some((class, level)) => {
            let digit = level.parse::<u8>().ok().filter(|l| *l <= 7 && level.len() == 1);
            (class, Some(digit.ok_or_else(wrong)?))
        }
    };
    match (class, level) {
        ("rt", level) => Ok(Some(IoPrio::rt(level.unwrap_or(4)))),
        ("be", level) => Ok(Some(IoPrio::be(level.unwrap_or(4)))),
        // The idle class has no levels.
        ("idle", None) => Ok(Some(IoPrio::idle())),
        ("none", None) => Ok(Some(IoPrio::NONE)),
        _ => Err(wrong()),
    }
}

/// The load must exist and have these parameters; their values are checked when it is built.
fn check_load(section: &Section<'_>, params: &toml::Table) -> Result<()> {
    let load = section.text("load")?;
    let Some(entry) = LOADS.iter().find(|l| l.name == load) else {
        let known = LOADS.iter().map(|l| l.name);
        return Err(section.wrong("load", unknown("load", load, known)));
    };
    let known = entry.params.iter().map(|p| p.name);
    match params.keys().find(|k| !known.clone().any(|n| n == k.as_str())) {
        None => Ok(()),
        Some(key) => {
            let kind = format!("parameter of load '{load}'");
            Err(section.wrong(key, unknown(&kind, key, known)))
        }
    }
}

/// The defaults, and what a document measured, must name things that exist.
fn check_names(top: &Section<'_>, experiment: &Experiment) -> Result<()> {
    let e = experiment;
    check_lists(top, e, "", &e.default_workloads, &e.configs)?;
    match &e.document {
        Some(d) => check_lists(top, e, "document.", &d.workloads, &d.configs),
        None => Ok(()),
    }
}

/// `place`: the path of the table they are in, with its dot.
fn check_lists(
    top: &Section<'_>,
    experiment: &Experiment,
    place: &str,
    workloads: &[String],
    configs: &[String],
) -> Result<()> {
    for (i, name) in workloads.iter().enumerate() {
        if experiment.workload(name).is_none() {
            let known = experiment.workloads.iter().map(|w| w.id.as_str());
            let at = format!("{place}workloads[{i}]");
            return Err(top.wrong(&at, unknown("workload", name, known)));
        }
    }
    for (i, name) in configs.iter().enumerate() {
        let base = name.split('{').next().unwrap_or(name);
        if !config::is_known(base, top.schedulers()) {
            let known = config::all_names(top.schedulers());
            let at = format!("{place}configs[{i}]");
            return Err(top.wrong(&at, unknown("configuration", base, known)));
        }
    }
    Ok(())
}

/// The host's parameters are checked by the host.
fn check_host(host: &Section<'_>, experiment: &Experiment) -> Result<()> {
    use hoistway_sim::host::HostConfig;
    let mut config = HostConfig::profile(&experiment.host_profile)
        .map_err(|e| host.wrong("profile", e.to_string()))?;
    for (name, value) in &experiment.host {
        config.set(name, value).map_err(|e| host.wrong(name, e.to_string()))?;
    }
    Ok(())
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(n) => format!("no {kind} '{name}'; did you mean '{n}'?"),
        None => format!("no {kind} '{name}'; there are: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
