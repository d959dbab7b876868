//! The files of `records/`: raw, never rewritten, exact.

use super::kept::Finished;
use super::{Cell, Monitor, Rep, csv, series_of};
use hoistway::Nanos;
use hoistway::target::Answer;
use hoistway_sim::hist::Histogram;
use hoistway_sim::world::{
    DeviceRecord, Interval, Mark, NamedFigure, PhaseRecord, ProcRecord, Role, TargetRecord,
};
use serde::{Deserialize, Serialize};

/// `histograms.json`.
#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    cells: Vec<CellRecord>,
}

#[derive(Serialize, Deserialize)]
struct CellRecord {
    drive: String,
    config: String,
    workload: String,
    reps: Vec<RepRecord>,
}

#[derive(Serialize, Deserialize)]
struct RepRecord {
    seed: u64,
    measured_ns: u64,
    trace_digest: String,
    procs: Vec<ProcText>,
    device: DeviceText,
    figures: Vec<FigureText>,
    // Absent in older runs, and under schedulers that take none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    targets: Vec<TargetText>,
}

#[derive(Serialize, Deserialize)]
struct TargetText {
    group: String,
    /// Absent: as low as goes without loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_ns: Option<u64>,
    p99_ns: u64,
    mean_ns: u64,
    share_permille: u32,
    answer: String,
    figures: Vec<(String, u64)>,
}

#[derive(Serialize, Deserialize)]
struct ProcText {
    name: String,
    target: bool,
    bytes: u64,
    ios: u64,
    censored_ns: Option<u64>,
    starved_ns: u64,
    latency_ns: HistogramText,
    // Absent in older runs, and of loads that have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counts: Vec<(String, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    phases: Vec<PhaseText>,
}

#[derive(Serialize, Deserialize)]
struct PhaseText {
    name: String,
    begin_ns: Option<u64>,
    end_ns: Option<u64>,
    turns: u64,
    spent_ns: u64,
    bytes: u64,
    ios: u64,
    latency_ns: HistogramText,
}

#[derive(Serialize, Deserialize)]
struct DeviceText {
    read_bytes: u64,
    written_bytes: u64,
    commands: u64,
    flushes: u64,
    sequential: u64,
    merges: u64,
    utilisation: f64,
    depth: f64,
    device_time_ns: HistogramText,
}

#[derive(Serialize, Deserialize)]
struct FigureText {
    name: String,
    of: Option<u32>,
    value: i64,
}

/// Sparse (index, count) pairs and the exact moments; sums are texts since they exceed 64 bits.
#[derive(Serialize, Deserialize)]
struct HistogramText {
    count: u64,
    sum: String,
    sum_sq: String,
    min: Option<u64>,
    max: Option<u64>,
    overflow: u64,
    slots: Vec<(usize, u64)>,
}

impl HistogramText {
    fn of(h: &Histogram) -> HistogramText {
        HistogramText {
            count: h.count(),
            sum: h.sum().to_string(),
            sum_sq: h.sum_sq().to_string(),
            min: h.min(),
            max: h.max(),
            overflow: h.overflow(),
            slots: h.slots().collect(),
        }
    }

    fn read(self) -> Result<Histogram, String> {
        let moment = |text: &str| {
            text.parse::<u128>().map_err(|_| format!("'{text}' is not a sum of nanoseconds"))
        };
        let (sum, sum_sq) = (moment(&self.sum)?, moment(&self.sum_sq)?);
        let (min, max) = (self.min.unwrap_or(u64::MAX), self.max.unwrap_or(0));
        let h = Histogram::from_parts(&self.slots, sum, sum_sq, min, max, self.overflow)
            .filter(|h| h.count() == self.count);
        h.ok_or_else(|| "a histogram's slots do not match its count".to_string())
    }
}

pub(super) fn histograms_json(cells: &[Cell]) -> String {
    let cell = |c: &Cell| CellRecord {
        drive: c.drive.clone(),
        config: c.config.clone(),
        workload: c.workload.clone(),
        reps: c.reps.iter().map(rep_record).collect(),
    };
    let file = File { schema: super::SCHEMA, cells: cells.iter().map(cell).collect() };
    let mut text = serde_json::to_string(&file).expect("no map, and every number is finite");
    text.push('\n');
    text
}

fn rep_record(rep: &Rep) -> RepRecord {
    let proc = |p: &ProcRecord| ProcText {
        name: p.name.clone(),
        target: p.role == Role::Target,
        bytes: p.bytes,
        ios: p.ios,
        censored_ns: p.censored.map(|c| c.0),
        starved_ns: p.starved.0,
        latency_ns: HistogramText::of(&p.latency),
        counts: p.counts.clone(),
        phases: p.phases.iter().map(phase_text).collect(),
    };
    let figure = |f: &NamedFigure| FigureText { name: f.name.clone(), of: f.of, value: f.value };
    let d = &rep.device;
    RepRecord {
        seed: rep.seed,
        measured_ns: rep.measured.0,
        trace_digest: format!("{:016x}", rep.trace_digest),
        procs: rep.procs.iter().map(proc).collect(),
        device: DeviceText {
            read_bytes: d.read_bytes,
            written_bytes: d.written_bytes,
            commands: d.commands,
            flushes: d.flushes,
            sequential: d.sequential,
            merges: d.merges,
            utilisation: d.utilisation,
            depth: d.depth,
            device_time_ns: HistogramText::of(&d.device_time),
        },
        figures: rep.figures.iter().map(figure).collect(),
        targets: rep.targets.iter().map(target_text).collect(),
    }
}

fn target_text(t: &TargetRecord) -> TargetText {
    TargetText {
        group: t.group.clone(),
        target_ns: t.target.map(|t| t.0),
        p99_ns: t.p99.0,
        mean_ns: t.mean.0,
        share_permille: t.share_permille,
        answer: t.answer.name().into(),
        figures: t.answer.figures().into_iter().map(|(n, v)| (n.into(), v)).collect(),
    }
}

fn read_target(t: TargetText) -> Result<TargetRecord, String> {
    let figure = |name: &str| t.figures.iter().find(|f| f.0 == name).map(|f| f.1);
    let answer = Answer::read(&t.answer, figure)
        .ok_or_else(|| format!("'{}' is no answer about a target", t.answer))?;
    Ok(TargetRecord {
        group: t.group,
        target: t.target_ns.map(Nanos),
        p99: Nanos(t.p99_ns),
        mean: Nanos(t.mean_ns),
        share_permille: t.share_permille,
        answer,
    })
}

fn phase_text(p: &PhaseRecord) -> PhaseText {
    PhaseText {
        name: p.name.clone(),
        begin_ns: p.begin.map(|t| t.0),
        end_ns: p.end.map(|t| t.0),
        turns: p.turns,
        spent_ns: p.spent.0,
        bytes: p.bytes,
        ios: p.ios,
        latency_ns: HistogramText::of(&p.latency),
    }
}

fn read_phase(p: PhaseText) -> Result<PhaseRecord, String> {
    Ok(PhaseRecord {
        name: p.name,
        begin: p.begin_ns.map(Nanos),
        end: p.end_ns.map(Nanos),
        turns: p.turns,
        spent: Nanos(p.spent_ns),
        latency: p.latency_ns.read()?,
        bytes: p.bytes,
        ios: p.ios,
    })
}

pub(super) fn read_histograms(text: &str) -> Result<Vec<Cell>, String> {
    let file: File = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let cell = |c: CellRecord| {
        let reps: Result<Vec<Rep>, String> = c.reps.into_iter().map(read_rep).collect();
        Ok(Cell { drive: c.drive, config: c.config, workload: c.workload, reps: reps? })
    };
    file.cells.into_iter().map(cell).collect()
}

fn read_rep(rep: RepRecord) -> Result<Rep, String> {
    let proc = |p: ProcText| {
        Ok(ProcRecord {
            name: p.name,
            role: if p.target { Role::Target } else { Role::Interferer },
            latency: p.latency_ns.read()?,
            bytes: p.bytes,
            ios: p.ios,
            intervals: Vec::new(),
            censored: p.censored_ns.map(Nanos),
            starved: Nanos(p.starved_ns),
            counts: p.counts,
            phases: p.phases.into_iter().map(read_phase).collect::<Result<_, String>>()?,
        })
    };
    let procs: Result<Vec<ProcRecord>, String> = rep.procs.into_iter().map(proc).collect();
    let figure = |f: FigureText| NamedFigure { name: f.name, of: f.of, value: f.value };
    let d = rep.device;
    Ok(Rep {
        seed: rep.seed,
        measured: Nanos(rep.measured_ns),
        procs: procs?,
        device: DeviceRecord {
            read_bytes: d.read_bytes,
            written_bytes: d.written_bytes,
            commands: d.commands,
            flushes: d.flushes,
            sequential: d.sequential,
            merges: d.merges,
            utilisation: d.utilisation,
            depth: d.depth,
            intervals: Vec::new(),
            device_time: d.device_time_ns.read()?,
        },
        marks: Vec::new(),
        trace_digest: u64::from_str_radix(&rep.trace_digest, 16)
            .map_err(|_| format!("trace_digest '{}' is not hexadecimal", rep.trace_digest))?,
        figures: rep.figures.into_iter().map(figure).collect(),
        targets: rep.targets.into_iter().map(read_target).collect::<Result<_, String>>()?,
        monitor: Vec::new(),
        files: Vec::new(),
    })
}

/// A run that is kept until its grid is finished.
#[derive(Serialize, Deserialize)]
struct FinishedText {
    schema: u32,
    rep: RepRecord,
    /// (at, bytes, ios) of the device, then of every process.
    intervals: Vec<Vec<(u64, u64, u64)>>,
    /// (at, process, text, moved)
    marks: Vec<(u64, String, String, u64)>,
    monitor: Vec<MonitorText>,
    files: Vec<(String, String, String)>,
    tunables: Vec<(String, u64)>,
    host: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct MonitorText {
    stage: String,
    name: String,
    unit: String,
    group: Option<String>,
    points: Vec<(i64, i64)>,
}

pub(super) fn finished_json(run: &Finished) -> String {
    let rep = &run.rep;
    let series = |v: &Vec<Interval>| v.iter().map(|i| (i.at.0, i.bytes, i.ios)).collect();
    let all = std::iter::once(&rep.device.intervals).chain(rep.procs.iter().map(|p| &p.intervals));
    let monitor = |m: &Monitor| MonitorText {
        stage: m.stage.clone(),
        name: m.name.clone(),
        unit: m.unit.clone(),
        group: m.group.clone(),
        points: m.points.clone(),
    };
    let mark = |m: &Mark| (m.at.0, m.process.clone(), m.text.clone(), m.moved);
    let text = FinishedText {
        schema: super::SCHEMA,
        rep: rep_record(rep),
        intervals: all.map(series).collect(),
        marks: rep.marks.iter().map(mark).collect(),
        monitor: rep.monitor.iter().map(monitor).collect(),
        files: rep.files.clone(),
        tunables: run.tunables.clone(),
        host: run.host.clone(),
    };
    serde_json::to_string(&text).expect("no map, and every number is finite")
}

pub(super) fn read_finished(text: &str) -> Result<Finished, String> {
    let text: FinishedText = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut rep = read_rep(text.rep)?;
    let series = |v: Vec<(u64, u64, u64)>| {
        let one = |(at, bytes, ios)| Interval { at: Nanos(at), bytes, ios };
        v.into_iter().map(one).collect::<Vec<_>>()
    };
    let mut intervals = text.intervals.into_iter().map(series);
    rep.device.intervals = intervals.next().ok_or("no series of the device")?;
    for proc in &mut rep.procs {
        proc.intervals = intervals.next().ok_or("a process without its series")?;
    }
    let mark = |(at, process, text, moved)| Mark { at: Nanos(at), process, text, moved };
    rep.marks = text.marks.into_iter().map(mark).collect();
    let monitor = |m: MonitorText| Monitor {
        stage: m.stage,
        name: m.name,
        unit: m.unit,
        group: m.group,
        points: m.points,
    };
    rep.monitor = text.monitor.into_iter().map(monitor).collect();
    rep.files = text.files;
    Ok(Finished { rep, tunables: text.tunables, host: text.host })
}

const INTERVALS: &[&str] =
    &["drive", "config", "workload", "rep", "series", "at_ns", "bytes", "ios"];

/// Throughput series: `series` is `device` or `proc:NAME`.
pub(super) fn intervals_csv(cells: &[Cell]) -> String {
    let mut out = String::new();
    csv::push_line(&mut out, INTERVALS.iter().copied());
    each_rep(cells, |cell, number, rep| {
        for (name, intervals) in &series_of(rep) {
            for i in intervals.iter() {
                let (at, bytes, ios) = (i.at.0.to_string(), i.bytes.to_string(), i.ios.to_string());
                let fields =
                    [&cell.drive, &cell.config, &cell.workload, number, name, &at, &bytes, &ios];
                csv::push_line(&mut out, fields);
            }
        }
    });
    out
}

pub(super) fn read_intervals(text: &str, cells: &mut [Cell]) -> Result<(), String> {
    for (line, row) in lines(text, INTERVALS)? {
        let rep = find_rep(cells, &row, line)?;
        let number = |i: usize| whole(&row[i], line);
        let interval = Interval { at: Nanos(number(5)?), bytes: number(6)?, ios: number(7)? };
        if row[4] == "device" {
            rep.device.intervals.push(interval);
            continue;
        }
        let proc = row[4].strip_prefix("proc:");
        let proc = proc.and_then(|name| rep.procs.iter_mut().find(|p| p.name == name));
        let proc = proc.ok_or_else(|| format!("line {line}: no series '{}'", row[4]))?;
        proc.intervals.push(interval);
    }
    Ok(())
}

const MARKS: &[&str] =
    &["drive", "config", "workload", "rep", "at_ns", "process", "text", "device_bytes"];

pub(super) fn marks_csv(cells: &[Cell]) -> String {
    let mut out = String::new();
    csv::push_line(&mut out, MARKS.iter().copied());
    each_rep(cells, |cell, number, rep| {
        for Mark { at, process, text, moved } in &rep.marks {
            let (at, moved) = (at.0.to_string(), moved.to_string());
            let (drive, config, workload) = (&cell.drive, &cell.config, &cell.workload);
            let fields = [drive, config, workload, number, &at, process, text, &moved];
            csv::push_line(&mut out, fields.map(|f: &str| f));
        }
    });
    out
}

pub(super) fn read_marks(text: &str, cells: &mut [Cell]) -> Result<(), String> {
    for (line, row) in lines(text, MARKS)? {
        let (at, moved) = (Nanos(whole(&row[4], line)?), whole(&row[7], line)?);
        let (process, text) = (row[5].clone(), row[6].clone());
        find_rep(cells, &row, line)?.marks.push(Mark { at, process, text, moved });
    }
    Ok(())
}

const MONITOR: &[&str] =
    &["drive", "config", "workload", "rep", "stage", "name", "unit", "group", "at_ns", "value"];

/// Gauges; an empty group is the device.
pub(super) fn monitor_csv(cells: &[Cell]) -> String {
    let mut out = String::new();
    csv::push_line(&mut out, MONITOR.iter().copied());
    each_rep(cells, |cell, number, rep| {
        for m in &rep.monitor {
            for (at, value) in &m.points {
                let (at, value) = (at.to_string(), value.to_string());
                let group = m.group.as_deref().unwrap_or("");
                let place = [&cell.drive, &cell.config, &cell.workload, number];
                let what = [&m.stage, &m.name, &m.unit, group, &at, &value];
                csv::push_line(&mut out, place.into_iter().chain(what));
            }
        }
    });
    out
}

pub(super) fn read_monitor(text: &str, cells: &mut [Cell]) -> Result<(), String> {
    for (line, row) in lines(text, MONITOR)? {
        let number = |i: usize| -> Result<i64, String> {
            row[i].parse().map_err(|_| format!("line {line}: '{}' is not a whole number", row[i]))
        };
        let point = (number(8)?, number(9)?);
        let group = Some(row[7].clone()).filter(|g| !g.is_empty());
        let rep = find_rep(cells, &row, line)?;
        // The points of a gauge stand behind each other.
        let same = |m: &Monitor| (&m.stage, &m.name, &m.group) == (&row[4], &row[5], &group);
        match rep.monitor.last_mut().filter(|m| same(m)) {
            Some(monitor) => monitor.points.push(point),
            None => rep.monitor.push(Monitor {
                stage: row[4].clone(),
                name: row[5].clone(),
                unit: row[6].clone(),
                group,
                points: vec![point],
            }),
        }
    }
    Ok(())
}

const FILES: &[&str] = &["drive", "config", "workload", "rep", "group", "file", "text"];

/// What the cgroup files print at the end.
pub(super) fn files_csv(cells: &[Cell]) -> String {
    let mut out = String::new();
    csv::push_line(&mut out, FILES.iter().copied());
    each_rep(cells, |cell, number, rep| {
        for (group, file, text) in &rep.files {
            let place = [&cell.drive, &cell.config, &cell.workload, number];
            let what: [&str; 3] = [group, file, text];
            csv::push_line(&mut out, place.into_iter().chain(what));
        }
    });
    out
}

pub(super) fn read_files(text: &str, cells: &mut [Cell]) -> Result<(), String> {
    for (line, row) in lines(text, FILES)? {
        let file = (row[4].clone(), row[5].clone(), row[6].clone());
        find_rep(cells, &row, line)?.files.push(file);
    }
    Ok(())
}

fn each_rep(cells: &[Cell], mut each: impl FnMut(&Cell, &str, &Rep)) {
    for cell in cells {
        for (i, rep) in cell.reps.iter().enumerate() {
            each(cell, &(i + 1).to_string(), rep);
        }
    }
}

/// Number and fields of every line behind the header.
fn lines(text: &str, header: &[&str]) -> Result<Vec<(usize, Vec<String>)>, String> {
    let rows = csv::parse(text).map_err(|e| format!("line {e}"))?;
    match rows.first() {
        Some(first) if first == header => {}
        _ => return Err(format!("line 1: the columns must be {}", header.join(","))),
    }
    let numbered: Vec<_> = rows.into_iter().enumerate().skip(1).map(|(i, r)| (i + 1, r)).collect();
    match numbered.iter().find(|(_, row)| row.len() != header.len()) {
        Some((line, _)) => Err(format!("line {line}: {} fields are needed", header.len())),
        None => Ok(numbered),
    }
}

fn find_rep<'a>(cells: &'a mut [Cell], row: &[String], line: usize) -> Result<&'a mut Rep, String> {
    let number = whole(&row[3], line)?;
    let cell = cells
        .iter_mut()
        .find(|c| (&c.drive, &c.config, &c.workload) == (&row[0], &row[1], &row[2]));
    let rep = cell.and_then(|c| c.reps.get_mut(usize::try_from(number.checked_sub(1)?).ok()?));
    rep.ok_or_else(|| format!("line {line}: histograms.json has no such repetition"))
}

fn whole(text: &str, line: usize) -> Result<u64, String> {
    text.parse().map_err(|_| format!("line {line}: '{text}' is not a whole number"))
}
