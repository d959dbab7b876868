//! Several worlds side by side: the tables of `compare --on linux --on sim` and of `validate`.

use crate::common::results::comparison_json;
use crate::common::table::{Table, cell};
use hoistway_lab::result::{ConfigInfo, DriveInfo, Run};
use hoistway_lab::stats::{Bounded, Ratio};
use hoistway_lab::validate::{LIMIT, LIMIT_BFQ, ValidationRow};
use hoistway_sim::drive::DriveFile;
use std::fmt::Write as _;

/// Says that the simulated host is of another version than the kernel beside it, since differences are then the fault of
/// neither.
pub fn versions(first: &Run, others: &[&Run]) -> Option<String> {
    let runs = || std::iter::once(first).chain(others.iter().copied());
    let release = runs().find_map(|run| value(&run.manifest.machine, "linux"))?;
    let sim = &runs().find(|run| run.manifest.world == "sim")?.manifest;
    older(release, &sim.host, &sim.configs)
}

fn value<'a>(of: &'a [(String, String)], key: &str) -> Option<&'a str> {
    of.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
}

/// `release` of Linux beside a simulated `host`.
fn older(release: &str, host: &[(String, String)], configs: &[ConfigInfo]) -> Option<String> {
    let mut rules = hoistway_replay::Recorded::linux_6_1();
    rules.set_release(release);
    let (mut has, mut remedy) = (Vec::new(), Vec::new());
    if let Some(profile) = value(host, "profile").filter(|&profile| profile != "today") {
        has.push(format!("the host of profile \"{profile}\""));
        remedy.push("a copy of the experiment with profile = \"today\"".to_string());
    }
    let base = value(host, "bfq_base").filter(|&base| base != rules.base());
    let usual = |c: &&ConfigInfo| c.scheduler == "bfq" && !c.id.contains("base=");
    if let (Some(base), Some(config)) = (base, configs.iter().find(usual)) {
        has.push(format!("BFQ's rules of base={base}"));
        remedy.push(format!("{}{{base={}}}", config.id, rules.base()));
    }
    let (has, remedy) = (has.join(" and "), remedy.join(" and "));
    (!has.is_empty()).then(|| {
        format!(
            "sim has {has}, but the kernel is Linux {release}: differences may be those of the versions; \
             to compare like with like, run {remedy}"
        )
    })
}

/// Says that a drive has more hardware queues in the simulator than in a guest, whose one processor has one: each queue
/// of a scheduler brings tags of its own.
pub fn queues(first: &Run, others: &[&Run]) -> Option<String> {
    let runs = || std::iter::once(first).chain(others.iter().copied());
    runs().find(|run| value(&run.manifest.machine, "linux").is_some())?;
    let sim = &runs().find(|run| run.manifest.world == "sim")?.manifest;
    more_queues(&sim.host, &sim.drives)
}

fn more_queues(host: &[(String, String)], drives: &[DriveInfo]) -> Option<String> {
    let cpus = value(host, "cpus").and_then(|n| n.parse::<u16>().ok()).filter(|&n| n > 0);
    let has = |drive: &DriveInfo| {
        let file = DriveFile::parse(&drive.id, &drive.parameters).ok()?;
        let queues = file.host.hw_queues.min(cpus.unwrap_or(u16::MAX));
        (queues > 1).then(|| format!("{queues} hardware queues of {}", drive.id))
    };
    let has: Vec<String> = drives.iter().filter_map(has).collect();
    (!has.is_empty()).then(|| {
        format!(
            "sim has {}, the kernel's guest has one, as it has one processor: a scheduler has tags for each queue; to \
             compare like with like, run a copy of the experiment with cpus = 1 below [host]",
            has.join(" and ")
        )
    })
}

/// What goes first from a table that is too wide.
pub const SPARE: &[&str] = &["unit"];

/// Columns of names in front of the figures.
const NAMES: usize = 5;

/// The rows as a table.
pub fn table(all: &[ValidationRow], reference: &str, others: &[&str]) -> Table {
    let headings = headings(reference, others);
    let names: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&names, NAMES);
    all.iter().for_each(|row| table.row(cells(row)));
    table
}

/// `0.97 (0.93 to 1.02)`; few runs that scatter have no bounds that would tell anything.
fn ratio(r: &Ratio) -> String {
    let mean = format!("{}{:.2}", r.bound.sign(), r.mean);
    let low = |x: f64| if x < 0.1 { "<0.1".to_string() } else { format!("{x:.2}") };
    let high = |x: f64| if x > 10.0 { ">10".to_string() } else { format!("{x:.2}") };
    mean + &r.interval.map_or_else(String::new, |(l, h)| format!(" ({} to {})", low(l), high(h)))
}

fn held(row: &ValidationRow, other: usize) -> &'static str {
    match row.holds(other) {
        Some(true) => "",
        Some(false) => " !",
        None => "",
    }
}

fn cells(row: &ValidationRow) -> Vec<String> {
    let mut cells = vec![
        row.drive.clone(),
        row.workload.clone(),
        row.config.clone(),
        row.quantity.clone(),
        row.unit.into(),
        cell(row.reference),
    ];
    for (at, other) in row.others.iter().enumerate() {
        cells.push(cell(other.value));
        let text = other.ratio.as_ref().map_or_else(|| "-".into(), ratio);
        cells.push(text + held(row, at));
    }
    cells
}

fn headings(reference: &str, others: &[&str]) -> Vec<String> {
    let mut all: Vec<String> =
        ["drive", "workload", "config", "quantity", "unit", reference].map(String::from).into();
    for world in others {
        all.extend([world.to_string(), format!("{world}/{reference} (99 %)")]);
    }
    all
}

/// How many rows are within their limits, world by world.
pub fn verdict(all: &[ValidationRow], others: &[&str]) -> String {
    let mut out = String::new();
    for (at, world) in others.iter().enumerate() {
        let judged: Vec<bool> = all.iter().filter_map(|row| row.holds(at)).collect();
        let good = judged.iter().filter(|held| **held).count();
        let _ = writeln!(
            out,
            "{world}: {good} of {} within the limit ({:.0} %, BFQ {:.0} %)",
            judged.len(),
            LIMIT * 100.0,
            LIMIT_BFQ * 100.0
        );
    }
    out
}

/// The rows as a table of Markdown.
#[cfg(all(feature = "live", target_os = "linux"))]
pub fn markdown(all: &[ValidationRow], reference: &str, others: &[&str]) -> String {
    let headings = headings(reference, others);
    let mut out = format!("| {} |\n|", headings.join(" | "));
    for at in 0..headings.len() {
        out.push_str(if at < NAMES { "---|" } else { "---:|" });
    }
    out.push('\n');
    for row in all {
        let _ = writeln!(out, "| {} |", cells(row).join(" | "));
    }
    out
}

/// The rows as JSON; the mean in the world that is compared with has that world's name.
pub fn json(
    all: &[ValidationRow],
    reference: &str,
    others: &[&str],
    notes: &[String],
) -> serde_json::Value {
    let bounded = |v: Option<Bounded>| {
        v.map(|v| serde_json::json!({ "value": v.value, "bound": v.bound.sign() }))
    };
    let row = |row: &ValidationRow| {
        let beside = row.others.iter().zip(others).enumerate().map(|(at, (other, world))| {
            let mut of = comparison_json(other);
            of["world"] = (*world).into();
            of["value"] = bounded(other.value).into();
            of["holds"] = row.holds(at).into();
            of
        });
        serde_json::json!({
            "drive": row.drive, "workload": row.workload, "config": row.config,
            "quantity": row.quantity, "unit": row.unit, reference: bounded(row.reference),
            "limit": row.limit, "others": beside.collect::<Vec<_>>(),
        })
    };
    serde_json::json!({
        "schema": 1,
        "rows": all.iter().map(row).collect::<Vec<_>>(),
        "warnings": notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_era_or_other_rules_than_the_kernels_are_told() {
        let host = |profile: &str, base: &str| {
            [("profile", profile), ("bfq_base", base)].map(|(k, v)| (k.to_string(), v.to_string()))
        };
        let config = |id: &str, scheduler: &str| ConfigInfo {
            id: id.into(),
            scheduler: scheduler.into(),
            summary: String::new(),
            tunables: Vec::new(),
        };
        let told = older("6.12.117", &host("2019", "5.3"), &[config("none-bfq", "bfq")]).unwrap();
        assert!(told.contains("profile \"2019\" and BFQ's rules of base=5.3"), "{told}");
        assert!(told.ends_with("profile = \"today\" and none-bfq{base=6.12}"), "{told}");
        let today = host("today", "hoistway");
        assert!(
            older("6.1.192", &today, &[config("bfq", "bfq")])
                .unwrap()
                .ends_with("run bfq{base=6.1}")
        );
        assert_eq!(
            older("6.1.192", &today, &[config("bfq{base=6.1}", "bfq"), config("kyber", "kyber")]),
            None
        );
    }
    #[test]
    fn more_hardware_queues_than_the_guest_has_are_told() {
        let host = |cpus: &str| [("cpus".to_string(), cpus.to_string())];
        let nvme = DriveFile::load("samsung-970-pro").unwrap();
        let info = |file: &DriveFile| DriveInfo {
            id: file.id.clone(),
            name: file.name.clone(),
            model: String::new(),
            parameters: file.table.to_string(),
        };
        let sata = DriveFile::load("plextor-px-256m5s").unwrap();
        let drives = [info(&sata), info(&nvme)];
        let told = more_queues(&host("0"), &drives).unwrap();
        assert!(told.starts_with("sim has 8 hardware queues of samsung-970-pro, "), "{told}");
        assert!(more_queues(&host("4"), &drives).unwrap().starts_with("sim has 4 "));
        assert_eq!(more_queues(&host("1"), &drives), None);
        assert_eq!(more_queues(&host("0"), &drives[..1]), None);
    }
}
