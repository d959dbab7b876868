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

use super::text::{self, Found, LineParser, billionths, number, sectors, within, words};
use super::{Completions, Context, Fit, Format};
use crate::error::Fault;
use crate::{Op, Record};

pub(crate) static FIU: Format = Format {
    name: "fiu",
    summary: "FIU (SyLab) traces of SNIA",
    columns: "ts (ns) pid process lba (512-byte) size (512-byte blocks) W|R major minor md5",
    completions: Completions::No,
    window: 256,
    detect: text::fits::<Fiu>,
    parser: text::lines::<Fiu>,
};

pub(crate) static DISKSIM: Format = Format {
    name: "disksim",
    summary: "DiskSim's ASCII traces",
    columns: "arrival (ms, float) device block (512-byte) size (blocks) flags (hex, bit 0 = read)",
    completions: Completions::No,
    window: 0,
    detect: |head| {
        let pointed = |line: &[u8]| words::<8>(line).is_some_and(|(w, _)| w[0].contains(&b'.'));
        if text::whole_lines(head).all(pointed) { text::fits::<DiskSim>(head) } else { Fit::No }
    },
    parser: text::lines::<DiskSim>,
};

pub(crate) static MQSIM: Format = Format {
    name: "mqsim",
    summary: "MQSim's and SSDsim's ASCII traces",
    columns: "arrival (ns) device lba (sectors) size (sectors) type (0 write|1 read)",
    completions: Completions::No,
    window: 0,
    detect: text::fits::<MqSim>,
    parser: text::lines::<MqSim>,
};

#[derive(Default)]
struct Fiu {
    name: Vec<u8>,
}

impl LineParser for Fiu {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        // A process's name may have spaces in it, so the columns after it are counted from the end.
        let few = Fault::new("line", "has too few columns");
        let mut words = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        let mut front = || words.next().ok_or(few);
        let (time, pid) = (front()?, front()?);
        let mut back = || words.next_back().ok_or(few);
        let (_md5, minor, major, op, size, lba) =
            (back()?, back()?, back()?, back()?, back()?, back()?);
        r.time = number(time, "ts")?;
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
struct DiskSim;

impl LineParser for DiskSim {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [time, device, block, size, flags] = five(line)?;
        // Billionths of a millisecond are picoseconds.
        r.time = billionths(time, "arrival")? / 1000;
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
struct MqSim;

impl LineParser for MqSim {
    fn line(&mut self, line: &[u8], context: &mut Context, r: &mut Record) -> Result<Found, Fault> {
        let [time, device, lba, size, kind] = five(line)?;
        r.time = number(time, "arrival")?;
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

fn five(line: &[u8]) -> Result<[&[u8]; 5], Fault> {
    match words::<5>(line) {
        Some((words, 5)) => Ok(words),
        Some(_) => Err(Fault::new("line", "has too few columns")),
        None => Err(Fault::new("line", "has too many columns")),
    }
}
