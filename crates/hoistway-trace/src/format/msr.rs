//! MSR Cambridge (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, no header.
//!
//! Times are Windows file times (100 ns since 1601), offset and size bytes, the response time in 100 ns. The device is
//! `HOSTNAME.DISKNUMBER`, as the files are named.
//!
//! Narayanan, Donnelly, Rowstron, "Write Off-Loading", FAST 2008.

use super::text::{self, Found, LineParser, columns, number};
use super::{Completions, Context, Format};
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
    detect: text::fits::<Msr>,
    parser: text::lines::<Msr>,
};

/// 1980 and 2200 in 100 ns since 1601: a column that is no file time is outside.
const TICKS: std::ops::RangeInclusive<u64> = 119_600_064_000_000_000..=189_027_072_000_000_000;

#[derive(Default)]
struct Msr {
    name: Vec<u8>,
}

impl LineParser for Msr {
    #[inline]
    fn line(
        &mut self,
        line: &[u8],
        context: &mut Context,
        record: &mut Record,
    ) -> Result<Found, Fault> {
        let [time, host, disk, kind, offset, size, response] = columns::<7>(line, b',')?;
        let time = number(time, "Timestamp")?;
        if !TICKS.contains(&time) {
            return Err(Fault::new("Timestamp", "is no file time (100 ns since 1601)"));
        }
        number(disk, "DiskNumber")?;
        record.time = time * 100;
        record.op = match kind {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            _ => return Err(Fault::new("Type", "is neither Read nor Write")),
        };
        record.offset = text::offset(Some(number(offset, "Offset")?), "Offset")?;
        record.len = text::length(Some(number(size, "Size")?), "Size")?;
        record.response = number(response, "ResponseTime")?.checked_mul(100);
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'.');
        self.name.extend_from_slice(disk);
        record.device = context.names.devices.intern(&self.name);
        Ok(Found::Record)
    }
}
