//! MSR Cambridge (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, no header.
//!
//! Times are Windows file times (100 ns since 1601), offset and size bytes, the response time in 100 ns. The device is
//! `HOSTNAME.DISKNUMBER`, as the files are named.
//!
//! Narayanan, Donnelly, Rowstron, "Write Off-Loading", FAST 2008.

use super::header::{BYTES, Column, Columns};
use super::text::{self, Found, LineParser, TIME_MAX, number};
use super::{Completions, Context, Format, recognise};
use crate::error::Fault;
use crate::{Op, Record};

pub(crate) static FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge CSV",
    columns: "Timestamp (100 ns since 1601),Hostname,DiskNumber,Type (Read|Write),Offset (bytes),Size (bytes),\
              ResponseTime (100 ns)",
    completions: Completions::Response,
    // Chosen: a disk holds fewer requests than this back.
    window: 256,
    trial: recognise::trial::<Msr>,
    refusal: None,
    parser: text::lines::<Msr>,
};

/// 1980 and 2100 in 100 ns since 1601: a column that is no file time is outside.
const TICKS: std::ops::RangeInclusive<u64> = 119_600_064_000_000_000..=157_469_184_000_000_000;

const COLUMNS: [Column; 7] = [
    Column { name: "Timestamp", called: &["timestamp", "time", "ts"], units: &["100ns"] },
    Column { name: "Hostname", called: &["hostname", "host"], units: &[] },
    Column { name: "DiskNumber", called: &["disknumber", "disk", "diskid"], units: &[] },
    Column { name: "Type", called: &["type", "iotype", "op", "opcode", "rw"], units: &[] },
    Column { name: "Offset", called: &["offset"], units: BYTES },
    Column { name: "Size", called: &["size", "length", "len"], units: BYTES },
    Column { name: "ResponseTime", called: &["responsetime", "response"], units: &["100ns"] },
];

#[derive(Default)]
struct Msr {
    columns: Columns<7>,
    name: Vec<u8>,
}

impl LineParser for Msr {
    #[inline]
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.columns.commas(line).and_then(|cells| record(cells, &mut self.name, context, r))
        {
            Err(fault) => self.columns.header_of_commas(&COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(line.split(|b| *b == b','), 7..=7)
    }
}

#[inline]
fn record(
    cells: [&[u8]; 7],
    name: &mut Vec<u8>,
    context: &mut Context,
    r: &mut Record,
) -> Result<Found, Fault> {
    let [time, host, disk, kind, offset, size, response] = cells;
    let time = number(time, "Timestamp")?;
    if !TICKS.contains(&time) {
        return Err(Fault::new("Timestamp", "is no file time (100 ns since 1601)"));
    }
    number(disk, "DiskNumber")?;
    r.time = time * 100;
    r.op = match kind.trim_ascii() {
        b"Read" | b"read" => Op::Read,
        b"Write" | b"write" => Op::Write,
        _ => return Err(Fault::new("Type", "is neither Read nor Write")),
    };
    r.offset = text::offset(Some(number(offset, "Offset")?), "Offset")?;
    r.len = text::length(Some(number(size, "Size")?), "Size")?;
    r.response = number(response, "ResponseTime")?.checked_mul(100).filter(|ns| *ns <= TIME_MAX);
    name.clear();
    name.extend_from_slice(host.trim_ascii());
    name.push(b'.');
    name.extend_from_slice(disk.trim_ascii());
    r.device = context.names.devices.intern(name);
    Ok(Found::Record)
}
