//! Traces of columns separated by spaces: FIU (SyLab), DiskSim and MQSim.
//!
//! ```text
//!   fiu      ts pid process lba size W|R major minor md5            ns, -, -, 512-byte sector, 512-byte blocks
//!   disksim  arrival device block size flags                        ms with a point, -, 512-byte, blocks, bit 0 = read
//!   mqsim    arrival device lba size type                           ns, -, sectors, sectors, 1 read 0 write
//! ```
//!
//! DiskSim and MQSim (and SSDsim, whose columns are MQSim's) look alike. What tells them apart is the point in DiskSim's
//! arrival time; a DiskSim trace of whole milliseconds must be named with `--format disksim`.
//!
//! Sources: README of SNIA IOTTA 390-413 (FIU); DiskSim 4.0 reference manual, "Input Workload Specification"; README
//! of MQSim's traces.

use super::header::{Column, Columns, SECTORS};
use super::text::{self, Found, LineParser, billionths, number, sectors, within};
use super::{Completions, Context, Format, recognise};
use crate::error::Fault;
use crate::{Op, Record};

pub(crate) static FIU: Format = Format {
    name: "fiu",
    summary: "FIU (SyLab) traces of SNIA",
    columns: "ts (ns) pid process lba (512-byte) size (512-byte blocks) W|R major minor md5",
    completions: Completions::No,
    window: 256,
    trial: recognise::trial::<Fiu>,
    refusal: None,
    parser: text::lines::<Fiu>,
};

pub(crate) static DISKSIM: Format = Format {
    name: "disksim",
    summary: "DiskSim's ASCII traces",
    columns: "arrival (ms, float) device block (512-byte) size (blocks) flags (hex, bit 0 = read)",
    completions: Completions::No,
    window: 0,
    trial: recognise::trial::<DiskSim>,
    refusal: None,
    parser: text::lines::<DiskSim>,
};

pub(crate) static MQSIM: Format = Format {
    name: "mqsim",
    summary: "MQSim's and SSDsim's ASCII traces",
    columns: "arrival (ns) device lba (sectors) size (sectors) type (0 write|1 read)",
    completions: Completions::No,
    window: 0,
    trial: recognise::trial::<MqSim>,
    refusal: None,
    parser: text::lines::<MqSim>,
};

#[derive(Default)]
struct Fiu {
    columns: Columns<9>,
    name: Vec<u8>,
}

const fn column(name: &'static str, called: &'static [&'static str]) -> Column {
    Column { name, called, units: &[] }
}

const FIU_COLUMNS: [Column; 9] = [
    Column { name: "ts", called: &["ts", "timestamp", "time"], units: &["ns"] },
    column("pid", &["pid"]),
    column("process", &["process", "comm", "name"]),
    Column { name: "lba", called: &["lba"], units: SECTORS },
    Column { name: "size", called: &["size"], units: SECTORS },
    column("W|R", &["w|r", "op", "rw", "type"]),
    column("major", &["major"]),
    column("minor", &["minor"]),
    column("md5", &["md5", "hash"]),
];

impl LineParser for Fiu {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.record(line, context, r) {
            Err(fault) => self.columns.header_of_words(&FIU_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(text::split_words(line), 9..=12)
    }
}

impl Fiu {
    fn record(
        &mut self,
        line: &[u8],
        context: &mut Context,
        r: &mut Record,
    ) -> Result<Found, Fault> {
        match self.columns {
            Columns::Own => {}
            Columns::Contradicted(fault) => return Err(fault),
            // A process's name may have spaces in it, so columns cannot be counted from both ends in any order.
            Columns::Named { .. } => {
                return Err(Fault::new("header", "has the columns in another order than FIU's"));
            }
        }
        let few = Fault::new("line", "has too few columns");
        let mut words = text::split_words(line);
        let mut front = || words.next().ok_or(few);
        let (time, pid) = (front()?, front()?);
        let mut back = || words.next_back().ok_or(few);
        let (_md5, minor, major, op, size, lba) =
            (back()?, back()?, back()?, back()?, back()?, back()?);
        r.time = text::time(Some(number(time, "ts")?), "ts")?;
        number(pid, "pid")?;
        r.op = match op {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Fault::new("column 6", "is neither W nor R")),
        };
        r.offset = text::offset(sectors(lba, "lba")?, "lba")?;
        r.len = text::length(sectors(size, "size")?, "size")?;
        number(major, "major")?;
        number(minor, "minor")?;
        self.name.clear();
        for word in words {
            if !self.name.is_empty() {
                self.name.push(b' ');
            }
            self.name.extend_from_slice(word);
        }
        if self.name.is_empty() {
            return Err(few);
        }
        self.name.push(b'/');
        self.name.extend_from_slice(pid);
        r.process = context.names.processes.intern(&self.name);
        self.name.clear();
        self.name.extend_from_slice(major);
        self.name.push(b',');
        self.name.extend_from_slice(minor);
        r.device = context.names.devices.intern(&self.name);
        Ok(Found::Record)
    }
}

/// Device numbers of the simulators; a larger one is another column.
const DEVICES: std::ops::RangeInclusive<u64> = 0..=65_535;
const NO_DEVICE: Fault = Fault::new("device", "is more than 65535; are the columns in this order?");

#[derive(Default)]
struct DiskSim(Columns<5>);

const DISKSIM_COLUMNS: [Column; 5] = [
    Column { name: "arrival", called: &["arrival", "time", "timestamp"], units: &["ms"] },
    column("device", &["device", "dev", "deviceno", "deviceid"]),
    Column { name: "block", called: &["block", "blkno", "blockno", "lba"], units: SECTORS },
    Column { name: "size", called: &["size", "bcount"], units: &["blocks", "sectors"] },
    column("flags", &["flags"]),
];

impl LineParser for DiskSim {
    const NUMBERS_ONLY: bool = true;

    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.0.words(line).and_then(|words| DiskSim::record(words, context, r)) {
            Err(fault) => self.0.header_of_words(&DISKSIM_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(text::split_words(line), 5..=5)
    }

    /// Times without a point are MQSim's.
    fn telling(line: &[u8]) -> bool {
        text::split_words(line).next().is_some_and(|time| time.contains(&b'.'))
    }
}

impl DiskSim {
    fn record(words: [&[u8]; 5], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [time, device, block, size, flags] = words;
        // Billionths of a millisecond are picoseconds.
        r.time = text::time(Some(billionths(time, "arrival")? / 1000), "arrival")?;
        within(number(device, "device")?, DEVICES, NO_DEVICE)?;
        r.offset = text::offset(sectors(block, "block")?, "block")?;
        r.len = text::length(sectors(size, "size")?, "size")?;
        let hex = std::str::from_utf8(flags).ok().map(|f| f.trim_start_matches("0x"));
        let flags = hex.and_then(|f| u32::from_str_radix(f, 16).ok());
        let flags = flags.ok_or(Fault::new("flags", "is no hexadecimal number"))?;
        r.op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        r.device = context.names.devices.intern(device);
        Ok(Found::Record)
    }
}

#[derive(Default)]
struct MqSim(Columns<5>);

const MQSIM_COLUMNS: [Column; 5] = [
    Column { name: "arrival", called: &["arrival", "arrivaltime", "time"], units: &["ns"] },
    column("device", &["device", "deviceno", "deviceid", "devicenumber"]),
    Column { name: "lba", called: &["lba", "lsn", "startlba", "address"], units: SECTORS },
    Column { name: "size", called: &["size", "length", "requestsize"], units: SECTORS },
    column("type", &["type", "op", "rw"]),
];

impl LineParser for MqSim {
    const NUMBERS_ONLY: bool = true;

    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        match self.0.words(line).and_then(|words| MqSim::record(words, context, r)) {
            Err(fault) => self.0.header_of_words(&MQSIM_COLUMNS, line, fault),
            found => found,
        }
    }

    fn shaped(line: &[u8]) -> bool {
        text::table_row(text::split_words(line), 5..=5)
    }
}

impl MqSim {
    fn record(words: [&[u8]; 5], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [time, device, lba, size, kind] = words;
        r.time = text::time(Some(number(time, "arrival")?), "arrival")?;
        within(number(device, "device")?, DEVICES, NO_DEVICE)?;
        r.offset = text::offset(sectors(lba, "lba")?, "lba")?;
        r.len = text::length(sectors(size, "size")?, "size")?;
        r.op = match kind {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return Err(Fault::new("type", "is neither 0 (write) nor 1 (read)")),
        };
        r.device = context.names.devices.intern(device);
        Ok(Found::Record)
    }
}
