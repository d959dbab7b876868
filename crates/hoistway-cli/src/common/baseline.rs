//! `--baseline`: a run held against an earlier one, for builds that test a change by themselves.
//!
//! A quantity has left its band if it differs as `hoistway diff` understands it (the 99 % interval of the ratio excludes 1) and the mean
//! ratio is off 1 by more than the band. Better and worse both count: a baseline that is no longer true protects nobody. A cell of the
//! baseline that this run does not have counts too, since a test that is no longer run cannot fail.

use crate::common::options::Common;
use crate::common::run_dirs;
use crate::common::table::{Table, cell, limit, told_apart};
use crate::failure::Failure;
use hoistway_lab::diff::{PairedQuantity, diff as compare, without_choice};
use hoistway_lab::judge;
use hoistway_lab::result::{Run, number_text};
use hoistway_lab::run::Grid;
use hoistway_lab::stats::Finding;
use hoistway_lab::world::Sim;
use hoistway_sim::load::Better;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Runs of before, one for each experiment of the command.
#[derive(Debug)]
pub struct Baseline {
    place: PathBuf,
    runs: Vec<Run>,
    /// As a fraction of the old value.
    band: f64,
}

/// What came out of the comparison.
#[derive(Debug)]
pub struct Judgement {
    pub text: String,
    /// Everything is within its band.
    pub holds: bool,
}

/// Widest band: a value may grow tenfold.
const WIDEST: f64 = 9.0;

/// The baseline must not be overwritten by the run that is held against it.
pub fn keep(common: &Common, dir: &Path) -> Result<(), Failure> {
    let Some(place) = &common.baseline else { return Ok(()) };
    let inner = dir.file_name().map(|name| place.join(name));
    let same = |a: &Path| a.canonicalize().ok().is_some_and(|a| dir.canonicalize().ok() == Some(a));
    if !same(place) && !inner.is_some_and(|inner| same(&inner)) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: the results of this run would replace its own baseline; choose another place with --out",
        dir.display()
    )))
}

/// For what does not end in a run that could be held against one.
pub fn refuse(common: &Common, what: &str) -> Result<(), Failure> {
    match common.baseline {
        None => Ok(()),
        Some(_) => Err(Failure::Usage(format!("--baseline does not go with {what}"))),
    }
}

impl Baseline {
    /// Reads it, before anything runs.
    pub fn read(common: &Common, grids: &[Grid]) -> Result<Option<Baseline>, Failure> {
        let Some(place) = &common.baseline else { return Ok(None) };
        let band = band(&common.band)?;
        let mut runs = Vec::new();
        for grid in grids {
            let inner = place.join(&grid.experiment.id);
            let dir = if inner.join("run.toml").is_file() { &inner } else { place };
            let run = run_dirs::read(dir)?;
            if run.manifest.experiment != grid.experiment.id {
                return Err(Failure::Usage(format!(
                    "--baseline {}: a run of {}, not of {}; name a run of the same experiment, or for several a folder with \
                     a run directory for each",
                    dir.display(),
                    run.manifest.experiment,
                    grid.experiment.id
                )));
            }
            runs.push(run);
        }
        Ok(Some(Baseline { place: place.clone(), runs, band }))
    }

    /// Holds the runs against it; `unchosen`: where the scheduler had no choice.
    pub fn judge(&self, runs: &[(&Run, &Path)], unchosen: &[Unchosen], wide: bool) -> Judgement {
        let mut text = String::new();
        let headings =
            ["drive", "workload", "config", "metric", "baseline", "now", "unit", "ratio", "is"];
        let mut table = Table::new(&headings, 4);
        let (mut out, mut all, mut gone, mut open) = (0, 0, 0, 0);
        for (old, (new, _)) in self.runs.iter().zip(runs) {
            let found = compare(old, new);
            for cell in &found.only_old {
                gone += 1;
                let _ = writeln!(text, "- {cell}: in the baseline, and not in this run");
            }
            all += found.quantities.len();
            open += found.quantities.iter().filter(|q| cut_off(q)).count();
            for q in found.quantities.iter().filter(|q| q.left(self.band)) {
                out += 1;
                table.row(row(q));
            }
        }
        if out > 0 {
            text.push_str(&table.fit(limit(wide), &["unit"]));
        }
        let _ = write!(
            text,
            "baseline {}: {out} of {all} quantities left the band of {} %",
            self.place.display(),
            number_text(self.band * 100.0)
        );
        if gone > 0 {
            let _ = write!(text, ", {gone} cells are missing");
        }
        if open > 0 {
            let _ = write!(
                text,
                ", {open} are cut off and tell nothing (a longer --duration lets them finish)"
            );
        }
        text.push('\n');
        text.push_str(&no_choice(unchosen));
        Judgement { text, holds: out == 0 && gone == 0 }
    }
}

/// Cells of an experiment in which the scheduler had next to no choice.
#[derive(Debug)]
pub struct Unchosen {
    cells: Vec<String>,
    all: usize,
    /// The run did not count choices, and the same was simulated once.
    simulated: bool,
}

/// Where the schedulers of a run had no choice. A world that does not tell is simulated, one repetition.
pub fn unchosen(grid: &mut Grid, run: &Run, threads: usize) -> Result<Unchosen, Failure> {
    let all = run.cells.len();
    if let Some(cells) = without_choice(run) {
        return Ok(Unchosen { cells, all, simulated: false });
    }
    let reps = std::mem::replace(&mut grid.reps, 1);
    let found = grid.run(&Sim, threads, &*crate::common::process::stop_flag()?, &|_| {});
    grid.reps = reps;
    let cells = without_choice(&found.map_err(crate::failure::run_failure)?).unwrap_or_default();
    Ok(Unchosen { cells, all, simulated: true })
}

/// Cells that are named; the others are counted.
const NAMED: usize = 6;

fn no_choice(unchosen: &[Unchosen]) -> String {
    let mut out = String::new();
    for Unchosen { cells, all, simulated } in unchosen.iter().filter(|u| !u.cells.is_empty()) {
        let named = &cells[..cells.len().min(NAMED)];
        let rest = match cells.len() - named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let how = if *simulated { " (simulated: this world does not tell)" } else { "" };
        let _ = writeln!(
            out,
            "! no choice{how}: in {} of {all} cells hardly ever two requests waited, so that a change of the scheduler cannot show: \
             {}{rest}; `compare scheduler-patch` has loads that leave a choice",
            cells.len(),
            named.join(", ")
        );
    }
    out
}

/// Values on both sides, and no telling whether they differ: bounds.
fn cut_off(q: &PairedQuantity) -> bool {
    let c = &q.comparison;
    c.finding == Finding::Unknown && c.value.is_some() && c.reference.is_some()
}

fn row(q: &PairedQuantity) -> Vec<String> {
    let c = &q.comparison;
    vec![
        q.drive.clone(),
        q.workload.clone(),
        q.config.clone(),
        q.metric.into(),
        cell(c.reference),
        cell(c.value),
        q.unit.into(),
        told_apart(c),
        verdict(q).into(),
    ]
}

/// Which way it went, where the metric has a better side.
fn verdict(q: &PairedQuantity) -> &'static str {
    let better = judge::better(q.metric);
    match q.comparison.finding.differs() && better != Better::Neither {
        false => "changed",
        true if q.comparison.is_better(better) => "better",
        true => "worse",
    }
}

/// `5%`, `5 %` or `5`: per cent.
fn band(text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let wrong = || {
        let what = format!("--band: '{text}' is no number of per cent from 0 to 900; write 5%");
        Failure::Usage(what)
    };
    let percent: f64 = number.parse().map_err(|_| wrong())?;
    let band = percent / 100.0;
    if band.is_finite() && (0.0..=WIDEST).contains(&band) { Ok(band) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_in_per_cent() {
        for (text, fraction) in [("5%", 0.05), ("12.5 %", 0.125), ("0", 0.0), ("900%", 9.0)] {
            assert!((band(text).ok().unwrap() - fraction).abs() < 1e-12, "{text}");
        }
        for text in ["", "%", "x", "-1", "901", "nan", "inf"] {
            assert!(band(text).is_err(), "{text}");
        }
    }
}
