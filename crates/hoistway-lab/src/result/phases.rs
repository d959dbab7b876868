//! Phases of loads: what each took, over all processes that were in it.
//!
//! A phase begins with the first of its processes and ends with the last. Its rows in `metrics.csv` stand under
//! a workload of their own, [`row_name`]; `total` pools the calls of all phases.

use super::derive::Sink;
use super::{Cell, Rep};
use crate::judge::{self, Compared, Comparison};
use crate::stats::{self, Bounded};
use hoistway::Nanos;
use hoistway_run::{Histogram, PhaseRecord, lowest_of};

/// The row that pools all phases.
pub const TOTAL: &str = "total";

/// With more processes than this a phase has no figures of single ones.
const SINGLE: usize = 16;

/// Limits of the share of calls that took longer, and the metrics' names.
const LIMITS: &[(&str, Nanos)] =
    &[("latency_share_over_2s", Nanos::secs(2)), ("latency_share_over_10s", Nanos::secs(10))];

/// A phase of one repetition.
#[derive(Clone, Debug)]
pub struct Phase<'a> {
    /// Its name.
    pub name: &'a str,
    /// The processes that were in it.
    pub parts: Vec<(&'a str, &'a PhaseRecord)>,
    measured: Nanos,
}

/// The phases of a repetition in order of first appearance; with several of them, `total` behind them.
pub fn phases(rep: &Rep) -> Vec<Phase<'_>> {
    let mut all: Vec<Phase<'_>> = Vec::new();
    for proc in &rep.procs {
        for record in &proc.phases {
            let part = (proc.name.as_str(), record);
            match all.iter_mut().find(|p| p.name == record.name) {
                Some(phase) => phase.parts.push(part),
                None => {
                    let (name, measured) = (record.name.as_str(), rep.measured);
                    all.push(Phase { name, parts: vec![part], measured });
                }
            }
        }
    }
    if all.len() > 1 && all.iter().all(|p| p.name != TOTAL) {
        let parts = all.iter().flat_map(|p| p.parts.iter().copied()).collect();
        all.push(Phase { name: TOTAL, parts, measured: rep.measured });
    }
    all
}

/// The names of a cell's phases, in order of first appearance, `total` last.
pub fn names(cell: &Cell) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let all: Vec<Phase<'_>> = cell.reps.iter().flat_map(phases).collect();
    let (totals, others): (Vec<_>, Vec<_>) = all.iter().partition(|p| p.name == TOTAL);
    for phase in others.into_iter().chain(totals) {
        if !names.iter().any(|n| n == phase.name) {
            names.push(phase.name.to_string());
        }
    }
    names
}

/// The workload under which a phase has its rows: its name alone where only one workload of the run has
/// phases, else `WORKLOAD/PHASE`.
pub fn row_name(cells: &[Cell], cell: &Cell, phase: &str) -> String {
    let has = |c: &&Cell| c.reps.iter().any(|r| r.procs.iter().any(|p| !p.phases.is_empty()));
    let another = cells.iter().filter(has).any(|c| c.workload != cell.workload);
    if another { format!("{}/{phase}", cell.workload) } else { phase.to_string() }
}

impl Phase<'_> {
    /// From the first beginning to the last end, in seconds; a lower bound if either lies outside of the
    /// measured window.
    pub fn time(&self) -> Bounded {
        time_of(self.parts.iter().map(|p| p.1), self.measured)
    }

    /// Bytes of its calls over its time, MB/s.
    fn rate(&self) -> Option<f64> {
        rate(self.parts.iter().map(|p| p.1.bytes).sum(), self.time())
    }

    /// Mean time of a turn in seconds, if some process had several.
    fn turn(&self) -> Option<f64> {
        let turns: u64 = self.parts.iter().map(|p| p.1.turns).sum();
        let spent: u64 = self.parts.iter().map(|p| p.1.spent.0).sum();
        let several = self.parts.iter().any(|p| p.1.turns > 1);
        several.then(|| spent as f64 / 1e9 / turns as f64)
    }

    fn latency(&self) -> Histogram {
        stats::merged(self.parts.iter().map(|p| &p.1.latency))
    }

    /// Name, unit and value of everything of which means over repetitions are taken.
    fn values(&self) -> Vec<(String, &'static str, Option<Bounded>)> {
        let exact = |v: Option<f64>| v.map(Bounded::from);
        let latency = self.latency().mean().map(|ns| ns / 1e6);
        let mut all = vec![
            ("phase_time".to_string(), "s", Some(self.time())),
            ("throughput_total".to_string(), "MB/s", exact(self.rate())),
            ("latency_avg".to_string(), "ms", exact(latency)),
        ];
        if let Some(turn) = self.turn() {
            all.push(("phase_turn_avg".to_string(), "s", exact(Some(turn))));
        }
        if self.name != TOTAL && (2..=SINGLE).contains(&self.parts.len()) {
            for (name, part) in &self.parts {
                let time = time_of([*part], self.measured);
                all.push((format!("phase_time:{name}"), "s", Some(time)));
                all.push((format!("throughput:{name}"), "MB/s", exact(rate(part.bytes, time))));
            }
        }
        all
    }
}

fn time_of<'a>(parts: impl IntoIterator<Item = &'a PhaseRecord>, measured: Nanos) -> Bounded {
    let (mut begin, mut end, mut cut) = (u64::MAX, 0, false);
    for part in parts {
        cut |= part.begin.is_none() || part.end.is_none();
        begin = begin.min(part.begin.map_or(0, |t| t.0));
        end = end.max(part.end.unwrap_or(measured).0);
    }
    let time = end.saturating_sub(begin) as f64 / 1e9;
    if cut { Bounded::above(time) } else { time.into() }
}

/// MB/s; none of a phase without length.
fn rate(bytes: u64, time: Bounded) -> Option<f64> {
    (time.value > 0.0).then(|| bytes as f64 / 1e6 / time.value)
}

/// How long a phase took in each repetition; `None` if one did not reach it.
fn times(cell: &Cell, phase: &str) -> Option<Vec<Bounded>> {
    let time = |rep: &Rep| Some(phases(rep).iter().find(|p| p.name == phase)?.time());
    cell.reps.iter().map(time).collect()
}

impl Sink<'_> {
    /// The rows of the cell's phases, under workloads of their own; and their times beside those under the reference
    /// configuration.
    pub(super) fn phases(&mut self, cells: &[Cell], reference: Option<&str>) -> Vec<Compared> {
        let cell = self.cell;
        let free = cells.iter().find(|c| {
            (&c.drive, &c.workload) == (&cell.drive, &cell.workload)
                && Some(c.config.as_str()) == reference
                && c.config != cell.config
        });
        let mut compared = Vec::new();
        for name in names(cell) {
            let row = row_name(cells, cell, &name);
            let of = |rep: &'_ Rep| phases(rep).into_iter().position(|p| p.name == name);
            let found = |rep| of(rep).map(|i| phases(rep).swap_remove(i));
            let all: Vec<Option<Phase<'_>>> = cell.reps.iter().map(found).collect();
            for (number, phase) in self.each(&all) {
                let Some(phase) = phase else { continue };
                for (metric, unit, value) in phase.values() {
                    self.put_in(&row, &metric, unit, value, Some(number));
                }
                self.calls(&row, &phase.latency(), Some(number));
            }
            self.over(&row, &all);
            if let Some(free) = free {
                let paired = judge::seeds(cell) == judge::seeds(free);
                let [ours, theirs] = [cell, free].map(|cell| times(cell, &name));
                let comparison = Comparison::of(ours.as_deref(), theirs.as_deref(), paired);
                self.ratio(&row, "phase_time_ratio", &comparison);
                compared.push(self.compared(&row, "phase_time", &free.config, comparison));
            }
            self.published(&row);
        }
        compared
    }

    /// Over repetitions; a phase that some of them did not reach has no means.
    fn over(&mut self, row: &str, all: &[Option<Phase<'_>>]) {
        let reached: Vec<_> = all.iter().flatten().map(Phase::values).collect();
        let Some(first) = reached.first() else { return };
        for (metric, unit, _) in first {
            let of = |values: &Vec<(String, &str, Option<Bounded>)>| {
                values.iter().find(|v| v.0 == *metric)?.2
            };
            let column: Option<Vec<Bounded>> = reached.iter().map(of).collect();
            let column = column.filter(|c| c.len() == all.len());
            self.put_means(row, metric, unit, column);
        }
        let latency =
            stats::merged(all.iter().flatten().map(Phase::latency).collect::<Vec<_>>().iter());
        self.calls(row, &latency, None);
    }

    /// What describes the calls of a phase.
    fn calls(&mut self, row: &str, latency: &Histogram, rep: Option<u32>) {
        let max = latency.max().map(|ns| ns as f64 / 1e6);
        self.put_in(row, "latency_max", "ms", max, rep);
        for &(metric, limit) in LIMITS {
            let over: u64 = latency.slots().filter(|s| lowest_of(s.0) > limit.0).map(|s| s.1).sum();
            let share = (latency.count() > 0).then(|| 100.0 * over as f64 / latency.count() as f64);
            self.put_in(row, metric, "percent", share, rep);
        }
        self.put_in(row, "samples", "1", Some(latency.count() as f64), rep);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::result::{Metric, derive, tests};
    use crate::stats::Bound;

    pub(in crate::result) fn part(
        name: &str,
        ms: (Option<u64>, Option<u64>),
        calls_ms: &[u64],
        turns: u64,
    ) -> PhaseRecord {
        let mut latency = Histogram::new();
        calls_ms.iter().for_each(|&t| latency.record(t * 1_000_000));
        PhaseRecord {
            name: name.into(),
            begin: ms.0.map(Nanos::ms),
            end: ms.1.map(Nanos::ms),
            turns,
            spent: Nanos::us(15_625 * turns),
            latency,
            bytes: 500_000,
            ios: calls_ms.len() as u64,
        }
    }

    /// A cell of two repetitions, in which two processes write, and one of them reads.
    fn cell(end: Option<u64>) -> Cell {
        let rep = |seed| {
            let mut rep = tests::rep(seed, 10, "target");
            rep.procs[1].phases = vec![
                part("write", (Some(0), Some(500)), &[1, 3], 1),
                part("read", (Some(500), end), &[2500, 500], 2),
            ];
            rep.procs[2].phases = vec![part("write", (Some(125), Some(250)), &[2], 1)];
            rep
        };
        Cell {
            drive: "plextor-px-256m5s".into(),
            config: "none-none".into(),
            workload: "readers".into(),
            reps: vec![rep(1), rep(2), rep(3)],
        }
    }

    fn row<'a>(metrics: &'a [Metric], workload: &str, metric: &str) -> &'a Metric {
        let found =
            metrics.iter().find(|m| (&*m.workload, &*m.metric, m.rep) == (workload, metric, None));
        found.unwrap_or_else(|| panic!("{workload} {metric}"))
    }

    #[test]
    fn a_phase_lasts_from_its_first_process_to_its_last_and_has_rows_of_its_own() {
        let run = derive(tests::manifest(), vec![cell(Some(1000))]);
        let value = |workload: &str, metric: &str| row(&run.metrics, workload, metric).value;
        assert_eq!(value("write", "phase_time"), Some(0.5));
        assert_eq!(value("write", "phase_time_ci99"), Some(0.0));
        assert_eq!(value("write", "throughput_total"), Some(2.0));
        assert_eq!(value("write", "latency_avg"), Some(2.0));
        assert_eq!(value("write", "latency_max"), Some(3.0));
        assert_eq!(value("write", "phase_time:reader1"), Some(0.125));
        assert_eq!(value("write", "throughput:reader1"), Some(4.0));
        assert_eq!(value("read", "latency_share_over_2s"), Some(50.0));
        assert_eq!(value("read", "latency_share_over_10s"), Some(0.0));
        assert_eq!(value("read", "phase_turn_avg"), Some(0.015625));
        assert_eq!(value("total", "phase_time"), Some(1.0));
        assert_eq!(value("total", "samples"), Some(15.0), "over all repetitions");
        assert_eq!(value("total", "latency_share_over_2s"), Some(20.0));
        assert!(!run.metrics.iter().any(|m| m.workload == "write" && m.metric == "phase_turn_avg"));
    }

    #[test]
    fn the_time_of_a_phase_that_did_not_end_is_a_lower_bound() {
        let run = derive(tests::manifest(), vec![cell(None)]);
        let time = row(&run.metrics, "read", "phase_time");
        assert_eq!((time.value, time.bound), (Some(0.5), Bound::Above));
        assert_eq!(row(&run.metrics, "read", "phase_time_ci99").value, None);
        assert_eq!(row(&run.metrics, "write", "phase_time").bound, Bound::Exact);
        assert_eq!(row(&run.metrics, "total", "phase_time").bound, Bound::Above);
    }

    #[test]
    fn where_two_workloads_have_phases_rows_name_both() {
        let other = Cell { workload: "others".into(), ..cell(Some(1000)) };
        let run = derive(tests::manifest(), vec![cell(Some(1000)), other]);
        assert_eq!(row(&run.metrics, "readers/write", "phase_time").value, Some(0.5));
        assert_eq!(row(&run.metrics, "others/total", "phase_time").value, Some(1.0));
    }
}
