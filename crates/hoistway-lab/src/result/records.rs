//! The other files of `records/`: raw, never rewritten, exact. What is read must stand in the order in which it was
//! written, so that reading takes a time in proportion to the length.

use super::room::Room;
use super::{Cell, Rep, csv, series_of};
use hoistway::Nanos;
use hoistway_run::{Interval, Mark, Monitor};
use std::io::{self, BufRead, Write};

const INTERVALS: &[&str] =
    &["drive", "config", "workload", "rep", "series", "at_ns", "bytes", "ios"];

/// Throughput series: `series` is `device` or `proc:NAME`.
pub(super) fn intervals_csv(cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    table(out, INTERVALS, cells, |out, cell, number, rep| {
        for (name, intervals) in &series_of(rep) {
            for i in intervals.iter() {
                let (at, bytes, ios) = (i.at.0.to_string(), i.bytes.to_string(), i.ios.to_string());
                let fields =
                    [&cell.drive, &cell.config, &cell.workload, number, name, &at, &bytes, &ios];
                csv::push_line(out, fields);
            }
        }
    })
}

pub(super) fn read_intervals(
    source: &mut dyn BufRead,
    cells: &mut [Cell],
    room: &Room,
) -> Result<(), String> {
    let (mut lines, mut at) = (RecordRows::new(source, INTERVALS)?, Cursor::new(cells));
    while let Some((line, row)) = lines.next()? {
        let number = |i: usize| whole(&row[i], line);
        let interval = Interval { at: Nanos(number(5)?), bytes: number(6)?, ios: number(7)? };
        room.interval(&interval).map_err(|what| format!("line {line}: {what}"))?;
        at.series(row, line)?.push(interval);
    }
    for rep in cells.iter_mut().flat_map(|cell| &mut cell.reps) {
        rep.device.intervals.shrink_to_fit();
        rep.procs.iter_mut().for_each(|proc| proc.intervals.shrink_to_fit());
    }
    Ok(())
}

const MARKS: &[&str] =
    &["drive", "config", "workload", "rep", "at_ns", "process", "text", "device_bytes"];

pub(super) fn marks_csv(cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    table(out, MARKS, cells, |out, cell, number, rep| {
        for Mark { at, process, text, moved } in &rep.marks {
            let (at, moved) = (at.0.to_string(), moved.to_string());
            let (drive, config, workload) = (&cell.drive, &cell.config, &cell.workload);
            let fields = [drive, config, workload, number, &at, process, text, &moved];
            csv::push_line(out, fields.map(|f: &str| f));
        }
    })
}

pub(super) fn read_marks(
    source: &mut dyn BufRead,
    cells: &mut [Cell],
    room: &Room,
) -> Result<(), String> {
    let (mut lines, mut place) = (RecordRows::new(source, MARKS)?, Cursor::new(cells));
    while let Some((line, row)) = lines.next()? {
        let (at, moved) = (Nanos(whole(&row[4], line)?), whole(&row[7], line)?);
        let (process, text) = (row[5].clone(), row[6].clone());
        let bytes = 2 * (size_of::<Mark>() + TEXTS) + process.len() + text.len();
        room.take(bytes).map_err(|what| format!("line {line}: {what}"))?;
        place.rep(row, line)?.marks.push(Mark { at, process, text, moved });
    }
    Ok(())
}

/// What the texts of a row take beside their letters.
const TEXTS: usize = 64;

const MONITOR: &[&str] =
    &["drive", "config", "workload", "rep", "stage", "name", "unit", "group", "at_ns", "value"];

/// Gauges; an empty group is the device.
pub(super) fn monitor_csv(cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    table(out, MONITOR, cells, |out, cell, number, rep| {
        for m in &rep.monitor {
            for (at, value) in &m.points {
                let (at, value) = (at.to_string(), value.to_string());
                let group = m.group.as_deref().unwrap_or("");
                let place = [&cell.drive, &cell.config, &cell.workload, number];
                let what = [&m.stage, &m.name, &m.unit, group, &at, &value];
                csv::push_line(out, place.into_iter().chain(what));
            }
        }
    })
}

pub(super) fn read_monitor(
    source: &mut dyn BufRead,
    cells: &mut [Cell],
    room: &Room,
) -> Result<(), String> {
    let (mut lines, mut place) = (RecordRows::new(source, MONITOR)?, Cursor::new(cells));
    while let Some((line, row)) = lines.next()? {
        let number = |i: usize| -> Result<i64, String> {
            row[i].parse().map_err(|_| format!("line {line}: '{}' is not a whole number", row[i]))
        };
        let point = (number(8)?, number(9)?);
        let group = Some(row[7].clone()).filter(|g| !g.is_empty());
        let rep = place.rep(row, line)?;
        // The points of a gauge stand behind each other.
        let same = |m: &Monitor| (&m.stage, &m.name, &m.group) == (&row[4], &row[5], &group);
        let known = rep.monitor.last_mut().filter(|m| same(m));
        let letters: usize = row[4..8].iter().map(String::len).sum();
        let names = if known.is_some() { 0 } else { 2 * (size_of::<Monitor>() + TEXTS) + letters };
        room.take(2 * size_of_val(&point) + names)
            .map_err(|what| format!("line {line}: {what}"))?;
        match known {
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
pub(super) fn files_csv(cells: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    table(out, FILES, cells, |out, cell, number, rep| {
        for (group, file, text) in &rep.files {
            let place = [&cell.drive, &cell.config, &cell.workload, number];
            let what: [&str; 3] = [group, file, text];
            csv::push_line(out, place.into_iter().chain(what));
        }
    })
}

pub(super) fn read_files(
    source: &mut dyn BufRead,
    cells: &mut [Cell],
    room: &Room,
) -> Result<(), String> {
    let (mut lines, mut place) = (RecordRows::new(source, FILES)?, Cursor::new(cells));
    while let Some((line, row)) = lines.next()? {
        let file = (row[4].clone(), row[5].clone(), row[6].clone());
        let letters: usize = row[4..].iter().map(String::len).sum();
        let bytes = 2 * (size_of_val(&file) + TEXTS) + letters;
        room.take(bytes).map_err(|what| format!("line {line}: {what}"))?;
        place.rep(row, line)?.files.push(file);
    }
    Ok(())
}

/// A table with lines of each repetition, by their cell and their number; they are written as they are made.
pub(super) fn table(
    out: &mut dyn Write,
    columns: &[&str],
    cells: &[Cell],
    mut lines: impl FnMut(&mut String, &Cell, &str, &Rep),
) -> io::Result<()> {
    let mut text = String::new();
    csv::push_line(&mut text, columns.iter().copied());
    for cell in cells {
        for (number, rep) in (1..).zip(&cell.reps) {
            lines(&mut text, cell, &usize::to_string(&number), rep);
            out.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    out.write_all(text.as_bytes())
}

/// Rows of a file behind its header.
struct RecordRows<R> {
    rows: csv::Rows<R>,
    row: Vec<String>,
}

impl<R: BufRead> RecordRows<R> {
    fn new(source: R, header: &[&str]) -> Result<RecordRows<R>, String> {
        let (mut rows, mut row) = (csv::Rows::new(source), Vec::new());
        let read = rows.next(&mut row).map_err(|e| format!("line {e}"))?;
        match read.is_some() && row == header {
            true => Ok(RecordRows { rows, row }),
            false => Err(format!("line 1: the columns must be {}", header.join(","))),
        }
    }

    /// The next row and its number.
    fn next(&mut self) -> Result<Option<(usize, &[String])>, String> {
        let columns = self.row.len();
        match self.rows.next(&mut self.row).map_err(|e| format!("line {e}"))? {
            Some(line) if self.row.len() != columns => {
                Err(format!("line {line}: {columns} fields are needed"))
            }
            Some(line) => Ok(Some((line, &self.row))),
            None => Ok(None),
        }
    }
}

/// A place among the cells, which rows name in their order.
struct Cursor<'a> {
    cells: &'a mut [Cell],
    cell: usize,
    /// From 0.
    rep: usize,
    proc: usize,
}

impl Cursor<'_> {
    fn new(cells: &mut [Cell]) -> Cursor<'_> {
        Cursor { cells, cell: 0, rep: 0, proc: 0 }
    }

    /// The repetition that a row is of.
    fn rep(&mut self, row: &[String], line: usize) -> Result<&mut Rep, String> {
        let wrong =
            || format!("line {line}: histograms.json has no such repetition behind the last one");
        let number = whole(&row[3], line)?.checked_sub(1).ok_or_else(wrong)? as usize;
        let is = |c: &Cell| (&c.drive, &c.config, &c.workload) == (&row[0], &row[1], &row[2]);
        let ahead = self.cells[self.cell..].iter().position(is).ok_or_else(wrong)?;
        if ahead > 0 {
            (self.cell, self.rep, self.proc) = (self.cell + ahead, 0, 0);
        }
        if number > self.rep {
            (self.rep, self.proc) = (number, 0);
        }
        let rep = self.cells[self.cell].reps.get_mut(self.rep);
        rep.filter(|_| number == self.rep).ok_or_else(wrong)
    }

    /// The series that a row is of.
    fn series(&mut self, row: &[String], line: usize) -> Result<&mut Vec<Interval>, String> {
        self.rep(row, line)?;
        let rep = &mut self.cells[self.cell].reps[self.rep];
        if row[4] == "device" {
            return Ok(&mut rep.device.intervals);
        }
        let ahead = row[4]
            .strip_prefix("proc:")
            .and_then(|name| rep.procs[self.proc..].iter().position(|p| p.name == name));
        self.proc +=
            ahead.ok_or_else(|| format!("line {line}: no such series behind the last one"))?;
        Ok(&mut rep.procs[self.proc].intervals)
    }
}

fn whole(text: &str, line: usize) -> Result<u64, String> {
    text.parse().map_err(|_| format!("line {line}: '{text}' is not a whole number"))
}
