//! What there is to choose from.

use crate::column::{Words, flags, texts, u32s, u64s};
use crate::errors;
use crate::scheduler::registry;
use crate::table::Table;
use hoistway::setting::{Tunable, Unit, nearest};
use hoistway_lab::experiment::Experiment;
use hoistway_sim::drive::DriveFile;
use pyo3::prelude::*;

/// The simulated drives that are built in: name, title, model, rotational, queue_depth (commands at a time), hw_queues,
/// capacity_bytes.
#[pyfunction]
pub fn drives() -> PyResult<Table> {
    let load = |id: &str| DriveFile::load(id).map_err(errors::wrong);
    let all = DriveFile::ids().into_iter().map(load).collect::<PyResult<Vec<_>>>()?;
    let mut model = Words::default();
    all.iter().for_each(|d| model.push(&d.model));
    let rotational: Vec<bool> = all.iter().map(|d| d.identity.rotational).collect();
    Ok(Table::of(vec![
        texts("name", &all.iter().map(|d| d.id.as_str()).collect::<Vec<_>>()),
        texts("title", &all.iter().map(|d| d.name.as_str()).collect::<Vec<_>>()),
        model.finish("model"),
        flags("rotational", &rotational),
        u32s("queue_depth", all.iter().map(|d| d.host.queue_depth).collect()),
        u32s("hw_queues", all.iter().map(|d| d.host.hw_queues.into()).collect()),
        u64s("capacity_bytes", all.iter().map(|d| d.identity.capacity_bytes).collect()),
    ]))
}

/// The settings of the schedulers, or of one: scheduler, setting, unit ("" for a plain number; "switch": 0 or 1; "choice":
/// the value is the index of a word of choices), default, min, max, choices, about.
#[pyfunction]
#[pyo3(signature = (scheduler = None))]
pub fn settings(scheduler: Option<&str>) -> PyResult<Table> {
    let registry = registry();
    let all = registry.schedulers();
    if let Some(name) = scheduler.filter(|name| all.iter().all(|e| e.name != *name)) {
        let known = all.iter().map(|e| e.name);
        let hint = match nearest(name, known.clone()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
        };
        return Err(errors::wrong(format!("no scheduler '{name}'; {hint}")));
    }
    let mut of = Words::default();
    let mut rows: Vec<&Tunable> = Vec::new();
    for entry in all.iter().filter(|e| scheduler.is_none_or(|name| name == e.name)) {
        of.push_times(entry.name, entry.tunables.len());
        rows.extend(entry.tunables);
    }
    let choices = |row: &&Tunable| match row.unit {
        Unit::Choice(words) => words.join(","),
        _ => String::new(),
    };
    let mut unit = Words::default();
    rows.iter().for_each(|row| unit.push(unit_name(row.unit)));
    Ok(Table::of(vec![
        of.finish("scheduler"),
        texts("setting", &rows.iter().map(|r| r.name).collect::<Vec<_>>()),
        unit.finish("unit"),
        u64s("default", rows.iter().map(|r| r.default).collect()),
        u64s("min", rows.iter().map(|r| r.min).collect()),
        u64s("max", rows.iter().map(|r| r.max).collect()),
        texts("choices", &rows.iter().map(choices).collect::<Vec<_>>()),
        texts("about", &rows.iter().map(|r| r.doc).collect::<Vec<_>>()),
    ]))
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Switch => "switch",
        Unit::Choice(_) => "choice",
        unit => unit.suffix(),
    }
}

/// The schedulers that are built in, and classes that were made known by scheduler: name, summary.
#[pyfunction]
pub fn schedulers() -> Table {
    let registry = registry();
    let all = registry.schedulers();
    Table::of(vec![
        texts("name", &all.iter().map(|e| e.name).collect::<Vec<_>>()),
        texts("summary", &all.iter().map(|e| e.summary).collect::<Vec<_>>()),
    ])
}

/// The experiments that are built in: name, title, reps (repetitions of each run), drives, configs and workloads (the
/// defaults, with commas between).
#[pyfunction]
pub fn experiments() -> PyResult<Table> {
    let load = |id: &str| Experiment::load(id).map_err(errors::wrong);
    let all = Experiment::ids().map(load).collect::<PyResult<Vec<_>>>()?;
    let joined = |list: fn(&Experiment) -> &Vec<String>| {
        all.iter().map(|e| list(e).join(",")).collect::<Vec<_>>()
    };
    Ok(Table::of(vec![
        texts("name", &all.iter().map(|e| e.id.as_str()).collect::<Vec<_>>()),
        texts("title", &all.iter().map(|e| e.title.as_str()).collect::<Vec<_>>()),
        u32s("reps", all.iter().map(|e| e.reps).collect()),
        texts("drives", &joined(|e| &e.drives)),
        texts("configs", &joined(|e| &e.configs)),
        texts("workloads", &joined(|e| &e.default_workloads)),
    ]))
}
