//! `histograms.json`, and the records of one run that is kept: JSON, exact.

use super::kept::Finished;
use super::room::{Meter, Room, Together};
use super::{Cell, Monitor, Rep};
use hoistway::Nanos;
use hoistway::target::Answer;
use hoistway_sim::hist::{Histogram, Slots};
use hoistway_sim::world::{
    DeviceRecord, Interval, Mark, NamedFigure, PhaseRecord, ProcRecord, Role, TargetRecord,
};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io::{BufReader, Read};

/// `histograms.json`, as it is written; [`FileSeed`] reads it.
#[derive(Serialize)]
struct File {
    schema: u32,
    cells: Vec<CellRecord>,
}

#[derive(Serialize)]
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
    slots: SlotsText,
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
            slots: SlotsText(Slots::of(h)),
        }
    }

    fn read(self) -> Result<Histogram, String> {
        let moment = |text: &str| {
            text.parse::<u128>().map_err(|_| format!("'{text}' is not a sum of nanoseconds"))
        };
        let (sum, sum_sq) = (moment(&self.sum)?, moment(&self.sum_sq)?);
        let (min, max) = (self.min.unwrap_or(u64::MAX), self.max.unwrap_or(0));
        match self.slots.0 {
            slots if slots.count() == self.count => {
                Ok(Histogram::from_slots(slots, sum, sum_sq, min, max, self.overflow))
            }
            _ => Err("a histogram's slots do not match its count".to_string()),
        }
    }
}

/// `[[3,1],[7,20]]`: packed as soon as it is read.
struct SlotsText(Slots);

impl Serialize for SlotsText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        for slot in self.0.iter() {
            list.serialize_element(&slot)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for SlotsText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SlotsText, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = SlotsText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the slots of a histogram")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SlotsText, A::Error> {
                let mut slots = Slots::default();
                while let Some((slot, n)) = list.next_element::<(usize, u64)>()? {
                    if !slots.push(slot, n) {
                        let what = "a histogram whose slots are none, or not in order";
                        return Err(A::Error::custom(what));
                    }
                }
                Ok(SlotsText(slots))
            }
        }
        from.deserialize_seq(List)
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
/// Reads `histograms.json`, one repetition after the other, as far as there is room; the source is metered.
pub(super) fn read_histograms(source: impl Read, room: &Room) -> Result<Vec<Cell>, String> {
    let mut text = serde_json::Deserializer::from_reader(source);
    let cells = FileSeed(room).deserialize(&mut text).and_then(|cells| text.end().map(|()| cells));
    cells.map_err(|e| room.why(&e))
}

/// The file.
struct FileSeed<'a>(&'a Room);
/// Its cells, one, and the repetitions of one.
struct CellsSeed<'a>(&'a Room);
struct CellSeed<'a>(&'a Room);
struct RepsSeed<'a>(&'a Room);

impl<'de> DeserializeSeed<'de> for FileSeed<'_> {
    type Value = Vec<Cell>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Cell>, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FileSeed<'_> {
    type Value = Vec<Cell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the records of a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Cell>, A::Error> {
        let (mut cells, mut schema) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match &key[..] {
                "schema" => schema = Some(map.next_value::<u32>()?),
                "cells" => cells = Some(map.next_value_seed(CellsSeed(self.0))?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        schema.ok_or_else(|| A::Error::missing_field("schema"))?;
        cells.ok_or_else(|| A::Error::missing_field("cells"))
    }
}

impl<'de> DeserializeSeed<'de> for CellsSeed<'_> {
    type Value = Vec<Cell>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Cell>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for CellsSeed<'_> {
    type Value = Vec<Cell>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of cells")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Cell>, A::Error> {
        let mut cells = Vec::new();
        while let Some(cell) = list.next_element_seed(CellSeed(self.0))? {
            self.0.cell(&cell).map_err(A::Error::custom)?;
            cells.push(cell);
        }
        Ok(cells)
    }
}

impl<'de> DeserializeSeed<'de> for CellSeed<'_> {
    type Value = Cell;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Cell, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for CellSeed<'_> {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cell")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell, A::Error> {
        let (mut names, mut reps) = ([None, None, None], None);
        const NAMES: [&str; 3] = ["drive", "config", "workload"];
        while let Some(key) = map.next_key::<String>()? {
            match NAMES.iter().position(|name| *name == key) {
                Some(i) => names[i] = Some(map.next_value::<String>()?),
                None if key == "reps" => reps = Some(map.next_value_seed(RepsSeed(self.0))?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let [drive, config, workload] = names;
        let name =
            |i: usize, name: Option<String>| name.ok_or_else(|| A::Error::missing_field(NAMES[i]));
        Ok(Cell {
            drive: name(0, drive)?,
            config: name(1, config)?,
            workload: name(2, workload)?,
            reps: reps.ok_or_else(|| A::Error::missing_field("reps"))?,
        })
    }
}

impl<'de> DeserializeSeed<'de> for RepsSeed<'_> {
    type Value = Vec<Rep>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Rep>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RepsSeed<'_> {
    type Value = Vec<Rep>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of repetitions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Rep>, A::Error> {
        let mut reps = Vec::new();
        loop {
            self.0.begin_rep();
            let Some(rep) = list.next_element::<RepRecord>()? else { return Ok(reps) };
            let rep = read_rep(rep).map_err(A::Error::custom)?;
            self.0.rep(&rep).map_err(A::Error::custom)?;
            reps.push(rep);
        }
    }
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

/// Reads what [`finished_json`] wrote.
pub(super) fn read_finished(source: impl Read) -> Result<Finished, String> {
    let room = Room::new(&Together::default());
    let source = BufReader::new(Meter::new(source, &room));
    let text: FinishedText = serde_json::from_reader(source).map_err(|e| room.why(&e))?;
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
