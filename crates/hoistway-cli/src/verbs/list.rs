//! `hoistway list`: what there is, read from the registries.

use crate::common::output::print;
use crate::common::table::Table;
use crate::failure::Failure;
use clap::{Args as ClapArgs, ValueEnum};
use hoistway::{ctl, sched};
use hoistway_lab::config::{NAMED, POLICIES};
use hoistway_lab::experiment::Experiment;
use hoistway_sim::drive::{DriveFile, MODELS};
use hoistway_sim::load::LOADS;

/// `hoistway list`.
#[derive(Debug, ClapArgs)]
pub struct List {
    /// List only this kind
    pub kind: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// I/O schedulers
    Schedulers,
    /// I/O controllers
    Controllers,
    /// Drive files
    Drives,
    /// Drive models, which drive files give parameters to
    Models,
    /// Experiments
    Experiments,
    /// Workloads of the experiments
    Workloads,
    /// Loads: what one process of a workload does
    Loads,
    /// Configurations: a policy for groups and a scheduler
    Configs,
    /// Ways to reach a server's exports
    #[cfg(all(feature = "live", target_os = "linux"))]
    Fronts,
    /// Storage that a server can export
    #[cfg(all(feature = "live", target_os = "linux"))]
    Targets,
}

const KINDS: &[(Kind, &str)] = &[
    (Kind::Schedulers, "schedulers"),
    (Kind::Controllers, "controllers"),
    (Kind::Drives, "drives"),
    (Kind::Models, "models"),
    (Kind::Experiments, "experiments"),
    (Kind::Workloads, "workloads"),
    (Kind::Loads, "loads"),
    (Kind::Configs, "configs"),
    #[cfg(all(feature = "live", target_os = "linux"))]
    (Kind::Fronts, "fronts"),
    #[cfg(all(feature = "live", target_os = "linux"))]
    (Kind::Targets, "targets"),
];

pub fn list(options: &List) -> Result<(), Failure> {
    let wanted = KINDS.iter().filter(|(kind, _)| options.kind.is_none_or(|k| k == *kind));
    let mut sections = Vec::new();
    for &(kind, name) in wanted {
        sections.push((name, rows(kind)?));
    }
    if options.json {
        let object = |(name, summary): &(String, String)| serde_json::json!({ "name": name, "summary": summary });
        let mut all = serde_json::Map::from_iter([("schema".to_string(), 1.into())]);
        for (name, rows) in &sections {
            all.insert(name.to_string(), rows.iter().map(object).collect());
        }
        return print(&format!("{:#}\n", serde_json::Value::Object(all)));
    }
    let mut out = String::new();
    for (name, rows) in &sections {
        if !out.is_empty() {
            out.push('\n');
        }
        let mut table = Table::new(&[name, ""], 2);
        for (name, summary) in rows {
            table.row(vec![name.clone(), summary.clone()]);
        }
        out.push_str(&if rows.is_empty() { format!("{name}: none yet\n") } else { table.render() });
    }
    print(&out)
}

/// Name and one line of everything of a kind.
fn rows(kind: Kind) -> Result<Vec<(String, String)>, Failure> {
    let broken = |e: String| Failure::Failed(e);
    let pair = |name: &str, summary: &str| (name.to_string(), summary.to_string());
    Ok(match kind {
        Kind::Schedulers => sched::SCHEDULERS.iter().map(|e| pair(e.name, e.summary)).collect(),
        Kind::Controllers => ctl::CONTROLLERS.iter().map(|e| pair(e.name, e.summary)).collect(),
        Kind::Models => MODELS.iter().map(|m| pair(m.name, m.summary)).collect(),
        Kind::Loads => LOADS.iter().map(|l| pair(l.name, l.summary)).collect(),
        #[cfg(all(feature = "live", target_os = "linux"))]
        Kind::Fronts => {
            let fronts = hoistway_serve::front::FRONTS.iter();
            let row = |f: &&hoistway_serve::front::Front| {
                let missing = (f.missing)().map(|m| format!("; missing here: {m}"));
                let missing = missing.unwrap_or_default();
                pair(f.name, &format!("{} (serve {}){missing}", f.summary, f.usage))
            };
            fronts.map(row).collect()
        }
        #[cfg(all(feature = "live", target_os = "linux"))]
        Kind::Targets => {
            let targets = hoistway_serve::storage::TARGETS.iter();
            targets.map(|t| pair(t.syntax, t.summary)).collect()
        }
        Kind::Drives => {
            let mut rows = Vec::new();
            for id in DriveFile::ids() {
                match DriveFile::load(id) {
                    Ok(d) => rows.push((id.to_string(), format!("{} ({})", d.name, d.model))),
                    Err(e) => return Err(broken(e.to_string())),
                }
            }
            rows
        }
        Kind::Experiments => {
            let mut rows = Vec::new();
            for id in Experiment::ids() {
                let e = Experiment::load(id).map_err(|e| broken(e.to_string()))?;
                rows.push((id.to_string(), e.title));
            }
            rows
        }
        Kind::Workloads => {
            let mut rows = Vec::new();
            for id in Experiment::ids() {
                let e = Experiment::load(id).map_err(|e| broken(e.to_string()))?;
                for w in e.workloads {
                    rows.push((w.id, format!("{} ({id})", w.summary)));
                }
            }
            rows
        }
        Kind::Configs => {
            let mut rows = Vec::new();
            rows.extend(NAMED.iter().map(|n| pair(n.name, n.summary)));
            let policies: Vec<&str> = POLICIES.iter().map(|p| p.name).collect();
            rows.push((
                "POLICY-SCHEDULER".into(),
                format!("any of {} before any scheduler", policies.join(", ")),
            ));
            rows.push(pair("NAME+wbt", "the same with write-back throttling"));
            let bare = |e: &&sched::Entry| pair(e.name, &format!("{}, alone", e.name));
            rows.extend(sched::SCHEDULERS.iter().map(bare));
            rows
        }
    })
}
