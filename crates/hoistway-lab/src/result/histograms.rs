//! `histograms.json`, and the records of one run that is kept: JSON, exact.

use super::kept::FinishedRun;
use super::room::{Meter, Room, Together};
use super::{Cell, Rep};
use hoistway_run::{Interval, Mark, Monitor, put_series, series};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read, Write};

/// `histograms.json`, as it is written; [`FileSeed`] reads it.
#[derive(Serialize)]
struct File<'a> {
    schema: u32,
    cells: &'a [Cell],
}

pub(super) fn histograms_json(cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &File { schema: super::SCHEMA, cells })?;
    out.write_all(b"\n")
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
            let Some(mut rep) = list.next_element::<Rep>()? else { return Ok(reps) };
            self.0.rep(&rep).map_err(A::Error::custom)?;
            tighten(&mut rep);
            self.0.share_names(&mut rep.figures);
            reps.push(rep);
        }
    }
}

/// A list that was read has grown by doubling; a grid has thousands of these.
fn tighten(rep: &mut Rep) {
    rep.procs.shrink_to_fit();
    for proc in &mut rep.procs {
        proc.intervals.shrink_to_fit();
        proc.phases.shrink_to_fit();
    }
}

/// A run that is kept until its grid is finished.
#[derive(Serialize, Deserialize)]
struct FinishedText<'a> {
    schema: u32,
    rep: Cow<'a, Rep>,
    /// Of the device, then of every process.
    intervals: Vec<Cow<'a, [Interval]>>,
    marks: Cow<'a, [Mark]>,
    monitor: Cow<'a, [Monitor]>,
    files: Cow<'a, [(String, String, String)]>,
    tunables: Cow<'a, [(String, u64)]>,
    host: Cow<'a, [(String, String)]>,
}

pub(super) fn finished_json(run: &FinishedRun, out: &mut dyn Write) -> io::Result<()> {
    let rep = &run.rep;
    let intervals = series(&rep.device, &rep.procs).into_iter().map(Cow::from).collect();
    let text = FinishedText {
        schema: super::SCHEMA,
        rep: Cow::Borrowed(rep),
        intervals,
        marks: Cow::from(&rep.marks),
        monitor: Cow::from(&rep.monitor),
        files: Cow::from(&rep.files),
        tunables: Cow::from(&run.tunables),
        host: Cow::from(&run.host),
    };
    Ok(serde_json::to_writer(out, &text)?)
}

/// Reads what [`finished_json`] wrote.
pub(super) fn read_finished(source: impl Read) -> Result<FinishedRun, String> {
    let room = Room::new(&Together::default());
    let mut text = Vec::new();
    Meter::new(source, &room).read_to_end(&mut text).map_err(|e| e.to_string())?;
    let text: FinishedText<'_> = serde_json::from_slice(&text).map_err(|e| room.why(&e))?;
    let mut rep = text.rep.into_owned();
    let series = text.intervals.into_iter().map(Cow::into_owned).collect();
    put_series(series, &mut rep.device, &mut rep.procs).map_err(|e| e.to_string())?;
    rep.marks = text.marks.into_owned();
    rep.monitor = text.monitor.into_owned();
    rep.files = text.files.into_owned();
    tighten(&mut rep);
    Ok(FinishedRun { rep, tunables: text.tunables.into_owned(), host: text.host.into_owned() })
}
