//! The tables of a run: a row per observation.

use crate::column::{Column, Words, flags, i64s, optional_f64s, optional_u32s, texts, u32s, u64s};
use crate::table::Table;
use hoistway_lab::result::{Cell, Rep, Run, series_of};
use hoistway_run::{Role, highest_of, lowest_of};

/// The columns that say of which run a row is.
#[derive(Default)]
struct Keys {
    experiment: Words,
    drive: Words,
    config: Words,
    workload: Words,
    rep: Vec<u32>,
    seed: Vec<u64>,
}

impl Keys {
    /// So many rows of that repetition, counted from 1.
    fn push(&mut self, run: &Run, cell: &Cell, rep: u32, rows: usize) {
        let seed = cell.reps[rep as usize - 1].seed;
        self.experiment.push_times(&run.manifest.experiment, rows);
        self.drive.push_times(&cell.drive, rows);
        self.config.push_times(&cell.config, rows);
        self.workload.push_times(&cell.workload, rows);
        self.rep.resize(self.rep.len() + rows, rep);
        self.seed.resize(self.seed.len() + rows, seed);
    }

    fn with(self, others: impl IntoIterator<Item = Column>) -> Table {
        let mut columns = vec![
            self.experiment.finish("experiment"),
            self.drive.finish("drive"),
            self.config.finish("config"),
            self.workload.finish("workload"),
            u32s("rep", self.rep),
            u64s("seed", self.seed),
        ];
        columns.extend(others);
        Table::of(columns)
    }
}

/// Every repetition with its cell and its number from 1.
fn reps(run: &Run) -> impl Iterator<Item = (&Cell, u32, &Rep)> {
    run.cells
        .iter()
        .flat_map(|cell| (1..).zip(&cell.reps).map(move |(number, rep)| (cell, number, rep)))
}

pub fn metrics(run: &Run) -> Table {
    let mut words: [Words; 8] = Default::default();
    let (mut value, mut rep) = (Vec::new(), Vec::new());
    for m in run.cells.iter().flat_map(|cell| run.rows_of(cell)) {
        let [experiment, drive, config, workload, metric, unit, source, bound] = &mut words;
        experiment.push(&m.experiment);
        drive.push(&m.drive);
        config.push(&m.config);
        workload.push(&m.workload);
        metric.push(&m.metric);
        unit.push(m.unit);
        source.push(&m.source);
        bound.push(m.bound.sign());
        value.push(m.value);
        rep.push(m.rep);
    }
    let [experiment, drive, config, workload, metric, unit, source, bound] = words;
    Table::of(vec![
        experiment.finish("experiment"),
        drive.finish("drive"),
        config.finish("config"),
        workload.finish("workload"),
        metric.finish("metric"),
        unit.finish("unit"),
        optional_f64s("value", &value),
        optional_u32s("rep", &rep),
        source.finish("source"),
        bound.finish("bound"),
    ])
}

pub fn series(run: &Run) -> Table {
    let (mut keys, mut names) = (Keys::default(), Words::default());
    let (mut at, mut length) = (Vec::new(), Vec::new());
    let (mut bytes, mut ios, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    for (cell, number, rep) in reps(run) {
        for (name, intervals) in series_of(rep) {
            let before = at.len();
            for (i, interval) in intervals.iter().enumerate() {
                // The length is the distance to the next one, as in series.csv.
                let end = intervals.get(i + 1).map_or(rep.measured, |next| next.at);
                let ns = end.0.saturating_sub(interval.at.0);
                if ns == 0 {
                    continue;
                }
                at.push(interval.at.0);
                length.push(ns);
                bytes.push(interval.bytes);
                ios.push(interval.ios);
                rate.push(Some(interval.bytes as f64 * 1e3 / ns as f64));
            }
            names.push_times(&name, at.len() - before);
            keys.push(run, cell, number, at.len() - before);
        }
    }
    keys.with([
        names.finish("name"),
        u64s("t_ns", at),
        u64s("length_ns", length),
        u64s("bytes", bytes),
        u64s("ios", ios),
        optional_f64s("mb_s", &rate),
    ])
}

pub fn histograms(run: &Run) -> Table {
    let (mut keys, mut process, mut target) = (Keys::default(), Words::default(), Vec::new());
    let (mut low, mut high, mut count) = (Vec::new(), Vec::new(), Vec::new());
    for (cell, number, rep) in reps(run) {
        for proc in &rep.procs {
            let before = count.len();
            for (slot, n) in proc.latency.slots() {
                low.push(lowest_of(slot));
                high.push(highest_of(slot));
                count.push(n);
            }
            let rows = count.len() - before;
            process.push_times(&proc.name, rows);
            target.resize(target.len() + rows, proc.role == Role::Target);
            keys.push(run, cell, number, rows);
        }
    }
    keys.with([
        process.finish("process"),
        flags("target", &target),
        u64s("low_ns", low),
        u64s("high_ns", high),
        u64s("count", count),
    ])
}

pub fn marks(run: &Run) -> Table {
    let (mut keys, mut process, mut text) = (Keys::default(), Words::default(), Words::default());
    let (mut at, mut moved) = (Vec::new(), Vec::new());
    for (cell, number, rep) in reps(run) {
        keys.push(run, cell, number, rep.marks.len());
        for mark in &rep.marks {
            process.push(&mark.process);
            text.push(&mark.text);
            at.push(mark.at.0);
            moved.push(mark.moved);
        }
    }
    keys.with([
        process.finish("process"),
        text.finish("text"),
        u64s("t_ns", at),
        u64s("moved_bytes", moved),
    ])
}

pub fn monitor(run: &Run) -> Table {
    let (mut keys, mut stage, mut name) = (Keys::default(), Words::default(), Words::default());
    let (mut unit, mut group) = (Words::default(), Words::optional());
    let (mut at, mut value) = (Vec::new(), Vec::new());
    for (cell, number, rep) in reps(run) {
        for gauge in &rep.monitor {
            let rows = gauge.points.len();
            keys.push(run, cell, number, rows);
            stage.push_times(&gauge.stage, rows);
            name.push_times(&gauge.name, rows);
            unit.push_times(&gauge.unit, rows);
            group.push_optional(gauge.group.as_deref(), rows);
            at.extend(gauge.points.iter().map(|p| p.0));
            value.extend(gauge.points.iter().map(|p| p.1));
        }
    }
    keys.with([
        stage.finish("stage"),
        name.finish("name"),
        group.finish("group"),
        unit.finish("unit"),
        i64s("t_ns", at),
        i64s("value", value),
    ])
}

pub fn runs(run: &Run) -> Table {
    let (mut keys, mut measured, mut digest) = (Keys::default(), Vec::new(), Vec::new());
    for (cell, number, rep) in reps(run) {
        keys.push(run, cell, number, 1);
        measured.push(rep.measured.0);
        digest.push(format!("{:016x}", rep.trace_digest));
    }
    keys.with([u64s("measured_ns", measured), texts("digest", &digest)])
}
