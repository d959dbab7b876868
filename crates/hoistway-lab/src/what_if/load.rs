//! The load that a target is asked for: one of an experiment, or the usual one.

use super::Wanted;
use crate::experiment::{Experiment, ExperimentError};
use std::fmt::Write;

/// The experiment and workload of `EXPERIMENT/WORKLOAD`; without a workload its first.
///
/// # Errors
///
/// What there is not.
pub fn find_load(text: &str) -> Result<(Experiment, String), ExperimentError> {
    let whole = text.ends_with(".toml") || !text.contains('/');
    let (name, workload) = match text.rsplit_once('/') {
        Some((name, workload)) if !whole => (name, Some(workload)),
        _ => (text, None),
    };
    let experiment = Experiment::load(name)?;
    let workload = workload.map_or_else(|| experiment.default_workloads[0].clone(), str::to_string);
    if experiment.workload(&workload).is_none() {
        let known: Vec<_> = experiment.workloads.iter().map(|w| w.id.as_str()).collect();
        return Err(ExperimentError(format!(
            "{name} has no workload '{workload}'; there are: {}",
            known.join(", ")
        )));
    }
    Ok((experiment, workload))
}

/// Who disturbs the targets where no load is named.
const READERS: u32 = 15;

/// A random reader for each target, beside sequential readers.
///
/// # Errors
///
/// A name that no process can have.
pub fn default_load(wanted: &[Wanted]) -> Result<(Experiment, String), ExperimentError> {
    let mut text = format!(
        "schema = 1\ntitle = \"Latency targets\"\nabout = \"Random readers with latency targets.\"\n\
         drives = [\"plextor-px-256m5s\"]\nconfigs = [\"none-none\"]\nworkloads = [\"readers\"]\nreps = 1\n\
         [host]\nprofile = \"today\"\n\
         [window]\nramp = \"0s\"\nmeasured = \"3s\"\ntarget_interval = \"500ms\"\ndevice_interval = \"1s\"\n\
         [workload.readers]\n\
         summary = \"random 4 KiB readers with the targets beside {READERS} buffered sequential readers\"\n"
    );
    for w in wanted {
        if !w.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            return Err(ExperimentError(format!(
                "'{}' is no name for a process; use letters, digits, - and _",
                w.name
            )));
        }
        let name = &w.name;
        let _ = write!(
            text,
            "[[workload.readers.procs]]\nname = \"{name}\"\ncount = 1\nload = \"reader\"\n\
             pattern = \"rand\"\nbs = \"4k\"\n"
        );
    }
    let _ = write!(
        text,
        "[[workload.readers.procs]]\nname = \"reader\"\ncount = {READERS}\nstagger = \"3us\"\n\
         load = \"reader\"\npattern = \"seq\"\nbs = \"4k\"\n"
    );
    Ok((Experiment::parse("usual", &text)?, "readers".into()))
}
