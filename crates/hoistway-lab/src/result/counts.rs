//! What loads count: frames that were dropped, files that were compiled. Unit and direction come from the
//! load's registry entry; a count is that of all processes together.

use super::derive::Sink;
use super::{Cell, Rep};
use crate::stats::Bounded;
use hoistway_run::Role;
use hoistway_sim::load::{Better, CountDoc, find_count};

/// The counts of a repetition: name and sum over all processes, in order of first appearance.
pub fn counts(rep: &Rep) -> Vec<(&str, u64)> {
    let mut all: Vec<(&str, u64)> = Vec::new();
    for (name, n) in rep.procs.iter().flat_map(|p| &p.counts) {
        match all.iter_mut().find(|c| c.0 == name) {
            Some(count) => count.1 += n,
            None => all.push((name, *n)),
        }
    }
    all
}

/// The counts of a cell, in order of first appearance.
pub fn names(cell: &Cell) -> Vec<&str> {
    let mut names = Vec::new();
    for (name, _) in cell.reps.iter().flat_map(counts) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a count is; of one that no load of this program declares only the name is known.
pub fn of_name(name: &str) -> (&'static str, Better, Option<&'static CountDoc>) {
    let doc = find_count(name);
    doc.map_or(("1", Better::Neither, None), |d| (d.unit, d.better, doc))
}

/// The count that a cell is judged by: the first that is better high or low, of a target where there is one.
pub fn decisive(cell: &Cell) -> Option<&'static CountDoc> {
    let procs = || cell.reps.iter().flat_map(|r| &r.procs);
    let targeted = procs().any(|p| p.role == Role::Target);
    let judged = procs().filter(|p| !targeted || p.role == Role::Target);
    let mut docs = judged.flat_map(|p| &p.counts).filter_map(|(name, _)| find_count(name));
    docs.find(|d| d.better != Better::Neither)
}

/// Its value in a repetition.
pub fn value(rep: &Rep, name: &str) -> Option<f64> {
    counts(rep).iter().find(|c| c.0 == name).map(|c| c.1 as f64)
}

/// What part it is of another count in a repetition, 0 to 1.
pub fn share(rep: &Rep, doc: &CountDoc) -> Option<f64> {
    let whole = value(rep, doc.of?).filter(|&w| w > 0.0)?;
    Some(value(rep, doc.name)? / whole)
}

/// In words: `frames dropped`.
pub fn words(doc: &CountDoc) -> String {
    doc.name.replace('_', " ")
}

/// Name, unit and value of a count in one repetition, and of its share if it is a part of another.
pub fn values(rep: &Rep, name: &str) -> Vec<(String, &'static str, Option<Bounded>)> {
    let all = counts(rep);
    let count = |name: &str| all.iter().find(|c| c.0 == name).map_or(0, |c| c.1) as f64;
    let (unit, _, doc) = of_name(name);
    let mut values = vec![(name.to_string(), unit, Some(count(name).into()))];
    if let Some(whole) = doc.and_then(|d| d.of) {
        let whole = count(whole);
        let share = (whole > 0.0).then(|| Bounded::from(100.0 * count(name) / whole));
        values.push((format!("{name}_share"), "percent", share));
    }
    values
}

impl Sink<'_> {
    /// The rows of what the cell's loads counted.
    pub(super) fn counts(&mut self) {
        let cell = self.cell;
        for name in names(cell) {
            let each: Vec<_> = cell.reps.iter().map(|rep| values(rep, name)).collect();
            for (number, values) in self.each(&each) {
                for (metric, unit, value) in values {
                    self.put_in(&cell.workload, metric, unit, *value, Some(number));
                }
            }
            for (i, (metric, unit, _)) in each[0].iter().enumerate() {
                let column = each.iter().map(|values| values[i].2).collect();
                self.put_means(&cell.workload, metric, unit, column);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::result::{Cell, derive, tests};

    #[test]
    fn a_count_is_summed_over_processes_and_averaged_over_repetitions() {
        let rep = |seed: u64| {
            let mut rep = tests::rep(seed, 10, "target");
            rep.procs[0].counts = vec![("a_of_tests".into(), seed)];
            rep.procs[1].counts = vec![("b_of_tests".into(), 7), ("a_of_tests".into(), 10)];
            rep
        };
        let cell = Cell {
            drive: "plextor-px-256m5s".into(),
            config: "none-none".into(),
            workload: "readers".into(),
            reps: (1..=3).map(rep).collect(),
        };
        let run = derive(tests::manifest(), vec![cell]);
        let rows = run.rows_of(&run.cells[0]);
        let value = |metric: &str, rep| {
            let found = rows.iter().find(|m| m.metric == metric && m.rep == rep);
            found.unwrap_or_else(|| panic!("{metric} {rep:?}")).value
        };
        assert_eq!(value("a_of_tests", Some(3)), Some(13.0));
        assert_eq!(value("a_of_tests", None), Some(12.0));
        assert!(value("a_of_tests_ci99", None).is_some_and(|half| half > 5.0));
        assert_eq!(value("b_of_tests", None), Some(7.0));
    }
}
