//! Public traces in CSV: Alibaba, Tencent, SPC (UMass, Financial, WebSearch) and SYSTOR '17.
//!
//! ```text
//!   alibaba  device_id,opcode,offset,length,timestamp               bytes, bytes, us since 1970
//!   tencent  Timestamp,Offset,Size,IOType,VolumeID                  s since 1970, sectors, sectors, 0 read 1 write
//!   spc      ASU,LBA,Size,Opcode,Timestamp[,...]                    512-byte blocks, bytes, s
//!   systor   Timestamp,Response,IOType,LUN,Offset,Size (header)     s since 1970, s, bytes, bytes
//! ```
//!
//! Each refuses what its columns cannot hold: dates outside 1990 to 2100, offsets beyond 1 EiB, lengths beyond 4 GiB. A
//! file with columns in another order so is an error from its first line.
//!
//! Sources: README of alibaba/block-traces; README of SNIA IOTTA "Tencent Block Storage" (Zhang and others, ATC 2020);
//! SPC Trace File Format Specification 1.0.1; README of SNIA IOTTA "SYSTOR '17" (Lee and others, 2017).

use super::header::{BYTES, Column, Columns, SECTORS};
use super::text::{self, Found, LineParser, billionths, number, sectors, within};
use super::{Completions, Context, Format, Parser, Step, recognise};
use crate::error::{Error, Fault};
use crate::input::Input;
use crate::{Op, Record};

pub(crate) static ALIBABA: Format = Format {
    name: "alibaba",
    summary: "Alibaba block traces 2020, io_traces.csv",
    columns: "device_id,opcode (R|W),offset (bytes),length (bytes),timestamp (us since 1970)",
    completions: Completions::No,
    window: 256,
    trial: recognise::trial::<Alibaba>,
    refusal: None,
    parser: text::lines::<Alibaba>,
};

pub(crate) static TENCENT: Format = Format {
    name: "tencent",
    summary: "Tencent CBS 2018; arrivals of one second are spread evenly over it",
    columns: "Timestamp (s since 1970),Offset (sectors),Size (sectors),IOType (0 read|1 write),VolumeID",
    completions: Completions::No,
    window: 0,
    trial: recognise::trial::<TencentLine>,
    refusal: None,
    parser: |_| Ok(Box::<Tencent>::default()),
};

pub(crate) static SPC: Format = Format {
    name: "spc",
    summary: "SPC traces of the UMass repository: Financial, WebSearch",
    columns: "ASU,LBA (512-byte blocks),Size (bytes),Opcode (r|w),Timestamp (s), optional fields",
    completions: Completions::No,
    window: 256,
    trial: recognise::trial::<Spc>,
    refusal: None,
    parser: text::lines::<Spc>,
};

pub(crate) static SYSTOR: Format = Format {
    name: "systor",
    summary: "SYSTOR '17 LUN traces",
    columns: "header line; Timestamp (s since 1970),Response (s),IOType (R|W, blank: other),LUN,Offset (bytes),\
              Size (bytes)",
    completions: Completions::Response,
    window: 256,
    trial: recognise::trial::<Systor>,
    refusal: None,
    parser: text::lines::<Systor>,
};

/// Seconds since 1970 of 1990 and 2100.
const DATES: std::ops::RangeInclusive<u64> = 631_152_000..=4_102_444_800;

fn read_or_write(text: &[u8], field: &'static str) -> Result<Op, Fault> {
    match text.trim_ascii() {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        _ => Err(Fault::new(field, "is neither R nor W")),
    }
}

#[derive(Default)]
struct Alibaba(Columns<5>);

const ALIBABA_COLUMNS: [Column; 5] = [
    Column { name: "device_id", called: &["deviceid", "device", "volume", "volumeid"], units: &[] },
    Column { name: "opcode", called: &["opcode", "op", "type", "iotype", "rw"], units: &[] },
    Column { name: "offset", called: &["offset"], units: BYTES },
    Column { name: "length", called: &["length", "size", "len"], units: BYTES },
    Column { name: "timestamp", called: &["timestamp", "time", "ts"], units: &["us"] },
];

impl LineParser for Alibaba {
    #[inline]
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.0.commas(line).and_then(|cells| Alibaba::record(cells, context, r)) {
            Err(fault) => self.0.header_of_commas(&ALIBABA_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(line.split(|b| *b == b','), 5..=5)
    }
}

impl Alibaba {
    #[inline]
    fn record(cells: [&[u8]; 5], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [device, op, offset, len, time] = cells;
        number(device, "device_id")?;
        r.op = read_or_write(op, "opcode")?;
        r.offset = text::offset(Some(number(offset, "offset")?), "offset")?;
        r.len = text::length(Some(number(len, "length")?), "length")?;
        let micros = number(time, "timestamp")?;
        let fault = Fault::new("timestamp", "is no date in us since 1970");
        within(micros / 1_000_000, DATES, fault)?;
        r.time = micros * 1000;
        r.device = context.names.devices.intern(device.trim_ascii());
        Ok(Found::Record)
    }
}

#[derive(Debug, Default)]
struct TencentLine(Columns<5>);

const TENCENT_COLUMNS: [Column; 5] = [
    Column { name: "Timestamp", called: &["timestamp", "time", "ts"], units: &["s", "sec"] },
    Column { name: "Offset", called: &["offset"], units: SECTORS },
    Column { name: "Size", called: &["size", "length", "len"], units: SECTORS },
    Column { name: "IOType", called: &["iotype", "type", "op", "opcode", "rw"], units: &[] },
    Column { name: "VolumeID", called: &["volumeid", "volume", "deviceid", "device"], units: &[] },
];

impl LineParser for TencentLine {
    const NUMBERS_ONLY: bool = true;

    #[inline]
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.0.commas(line).and_then(|cells| TencentLine::record(cells, context, r)) {
            Err(fault) => self.0.header_of_commas(&TENCENT_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(line.split(|b| *b == b','), 5..=5)
    }
}

impl TencentLine {
    #[inline]
    fn record(cells: [&[u8]; 5], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [time, offset, size, op, volume] = cells;
        let fault = Fault::new("Timestamp", "is no date in s since 1970");
        let seconds = within(number(time, "Timestamp")?, DATES, fault)?;
        r.time = seconds * 1_000_000_000;
        r.offset = text::offset(sectors(offset, "Offset")?, "Offset")?;
        r.len = text::length(sectors(size, "Size")?, "Size")?;
        r.op = match op.trim_ascii() {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(Fault::new("IOType", "is neither 0 (read) nor 1 (write)")),
        };
        number(volume, "VolumeID")?;
        r.device = context.names.devices.intern(volume.trim_ascii());
        Ok(Found::Record)
    }
}

/// Whole seconds only: the lines of a second are held until it is over, and the k-th of n is put at k/n of it. That keeps
/// order and rate, and makes arrivals smoother than they were: bursts within a second are lost.
struct Tencent {
    lines: text::Lines<TencentLine>,
    held: std::vec::IntoIter<Record>,
    next: Vec<Record>,
    ended: bool,
}

/// Records of one second that are held; 2^18 take 17 MB. What comes beyond that within the same second is spread over
/// it anew, and the records go out at no earlier time than those before them.
const SECOND_MAX: usize = 1 << 18;

impl Default for Tencent {
    fn default() -> Self {
        let lines = text::Lines::default();
        Tencent { lines, held: Vec::new().into_iter(), next: Vec::new(), ended: false }
    }
}

impl Tencent {
    fn spread(&mut self, following: Option<Record>) {
        let mut now = std::mem::take(&mut self.next);
        let n = now.len() as u64;
        for (k, record) in (0_u64..).zip(&mut now) {
            record.time += k * 1_000_000_000 / n;
        }
        self.held = now.into_iter();
        self.next.extend(following);
    }
}

impl Parser for Tencent {
    fn next(
        &mut self,
        input: &mut Input,
        context: &mut Context,
        record: &mut Record,
    ) -> Result<Step, Error> {
        loop {
            if let Some(held) = self.held.next() {
                *record = held;
                return Ok(Step::Record);
            }
            if self.ended {
                return Ok(Step::End);
            }
            let mut read = Record::default();
            match self.lines.next(input, context, &mut read)? {
                Step::Record => {
                    let same = self.next.first().is_none_or(|f| f.time == read.time);
                    if same && self.next.len() < SECOND_MAX {
                        self.next.push(read);
                    } else {
                        self.spread(Some(read));
                    }
                }
                Step::End => {
                    self.ended = true;
                    if !self.next.is_empty() {
                        self.spread(None);
                    }
                }
                other => return Ok(other),
            }
        }
    }
}

#[derive(Default)]
struct Spc(Columns<5>);

const SPC_COLUMNS: [Column; 5] = [
    Column { name: "ASU", called: &["asu"], units: &[] },
    Column { name: "LBA", called: &["lba"], units: SECTORS },
    Column { name: "Size", called: &["size", "length", "len"], units: BYTES },
    Column { name: "Opcode", called: &["opcode", "op", "type", "iotype", "rw"], units: &[] },
    Column { name: "Timestamp", called: &["timestamp", "time", "ts"], units: &["s", "sec"] },
];

impl LineParser for Spc {
    #[inline]
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        // Optional fields may follow the fifth.
        let end = memchr::memchr_iter(b',', line).nth(4).unwrap_or(line.len());
        let own = matches!(self.0, Columns::Own);
        let cells = self.0.commas(if own { &line[..end] } else { line });
        match cells.and_then(|cells| Spc::record(cells, context, r)) {
            Err(fault) => self.0.header_of_commas(&SPC_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(line.split(|b| *b == b','), 5..=12)
    }
}

impl Spc {
    #[inline]
    fn record(cells: [&[u8]; 5], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [asu, lba, size, op, time] = cells.map(<[u8]>::trim_ascii);
        within(number(asu, "ASU")?, 0..=65_535, Fault::new("ASU", "is more than 65535"))?;
        r.offset = text::offset(sectors(lba, "LBA")?, "LBA")?;
        r.len = text::length(Some(number(size, "Size")?), "Size")?;
        r.op = read_or_write(op, "Opcode")?;
        r.time = text::time(Some(billionths(time, "Timestamp")?), "Timestamp")?;
        r.device = context.names.devices.intern(asu);
        Ok(Found::Record)
    }
}

#[derive(Default)]
struct Systor(Columns<6>);

const SYSTOR_COLUMNS: [Column; 6] = [
    Column { name: "Timestamp", called: &["timestamp", "time", "ts"], units: &["s", "sec"] },
    Column { name: "Response", called: &["response", "responsetime"], units: &["s", "sec"] },
    Column { name: "IOType", called: &["iotype", "type", "op", "opcode", "rw"], units: &[] },
    Column { name: "LUN", called: &["lun", "lunid", "device", "deviceid"], units: &[] },
    Column { name: "Offset", called: &["offset"], units: BYTES },
    Column { name: "Size", called: &["size", "length", "len"], units: BYTES },
];

impl LineParser for Systor {
    #[inline]
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.0.commas(line).and_then(|cells| Systor::record(cells, context, r)) {
            Err(fault) => self.0.header_of_commas(&SYSTOR_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(line.split(|b| *b == b','), 6..=6)
    }
}

impl Systor {
    #[inline]
    fn record(cells: [&[u8]; 6], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [time, response, op, lun, offset, size] = cells;
        r.time = billionths(time, "Timestamp")?;
        let fault = Fault::new("Timestamp", "is no date in s since 1970");
        within(r.time / 1_000_000_000, DATES, fault)?;
        // Blank where the completion was not seen.
        if !response.trim_ascii().is_empty() {
            r.response = Some(billionths(response, "Response")?);
        }
        if op.trim_ascii().is_empty() {
            return Ok(Found::Unwanted);
        }
        r.op = read_or_write(op, "IOType")?;
        r.offset = text::offset(Some(number(offset, "Offset")?), "Offset")?;
        r.len = text::length(Some(number(size, "Size")?), "Size")?;
        number(lun, "LUN")?;
        r.device = context.names.devices.intern(lun.trim_ascii());
        Ok(Found::Record)
    }
}
