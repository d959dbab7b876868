//! Writing records: blktrace binary and fio iolog version 3.
//!
//! blktrace keeps all of a record, the time to the nanosecond and processes by number: the pid in the file is the number
//! the process has here, or the number at the end of a name such as `fio/1234`. An iolog keeps microseconds, and no process and no marks; its files
//! are the devices.

use crate::blktrace::{self, Event, action, categories, category};
use crate::{Kind, Names, Op, Record};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Writes records as blktrace's binary events.
#[derive(Debug)]
pub struct Blktrace<W: Write> {
    writer: blktrace::Writer<W>,
}

impl<W: Write> Blktrace<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Blktrace<W> {
        Blktrace { writer: blktrace::Writer::new(out) }
    }

    /// A line of text for whoever reads the events.
    pub fn message(&mut self, time: u64, text: &str) -> io::Result<()> {
        let action = action::NOTIFY_MESSAGE | category::NOTIFY;
        self.writer.event(&Event { time, action, ..Event::default() }, text.as_bytes())
    }

    /// One record. A record with a response time is written as an arrival only; a request longer than 4 GiB, which an
    /// event cannot hold, is an error.
    pub fn record(&mut self, record: &Record, names: &Names) -> io::Result<()> {
        let (name, pid) = process(record.process, names);
        if let Some(name) = name {
            self.writer.process(record.time, pid, name)?;
        }
        let what = match record.kind {
            Kind::Arrival => action::QUEUE | category::QUEUE,
            Kind::Complete => action::COMPLETE | category::COMPLETE,
            Kind::Plug => action::PLUG | category::QUEUE,
            Kind::Unplug => action::UNPLUG | category::QUEUE,
        };
        let mut event =
            Event { time: record.time, pid, device: device(record, names), ..Event::default() };
        if record.kind == Kind::Plug || record.kind == Kind::Unplug {
            event.action = what;
            let count = record.len.to_be_bytes();
            let payload = if record.kind == Kind::Unplug { &count[..] } else { &[] };
            return self.writer.event(&event, payload);
        }
        event.action = what | categories(record.op, record.flags) | category::FS;
        event.sector = record.offset / 512;
        event.bytes = u32::try_from(record.len)
            .map_err(|_| io::Error::other("a request is longer than blktrace can hold (4 GiB)"))?;
        self.writer.event(&event, &[])
    }

    /// Writes out what is buffered and gives the file back.
    pub fn finish(self) -> io::Result<W> {
        self.writer.finish()
    }
}

/// Command and pid of a name such as `fio/1234`, or of a bare pid; another name has its number as its pid.
fn process(id: u32, names: &Names) -> (Option<&str>, u32) {
    let name = names.processes.name(id);
    if let Ok(pid) = name.parse() {
        return (None, pid);
    }
    match name.rsplit_once('/').map(|(comm, pid)| (comm, pid.parse())) {
        Some((comm, Ok(pid))) => (Some(comm), pid),
        _ => ((id != 0).then_some(name), id),
    }
}

/// The device number of a name such as `8,16`; others get minors of major 0, by their number.
fn device(record: &Record, names: &Names) -> u32 {
    let name = names.devices.name(record.device);
    let parts = name.split_once(',').map(|(a, b)| (a.parse::<u32>(), b.parse::<u32>()));
    match parts {
        Some((Ok(major), Ok(minor))) if major < 1 << 12 && minor < 1 << 20 => major << 20 | minor,
        _ => record.device & 0xf_ffff,
    }
}

/// Writes records as a fio iolog of version 3, which fio 3.31 and later replays with `read_iolog`.
#[derive(Debug)]
pub struct Iolog<W: Write> {
    out: W,
    opened: BTreeSet<u32>,
    begun: bool,
}

impl<W: Write> Iolog<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Iolog<W> {
        Iolog { out, opened: BTreeSet::new(), begun: false }
    }

    /// One record; completions and plugs are left out. `names.devices` are the files to replay on.
    pub fn record(&mut self, record: &Record, names: &Names) -> io::Result<()> {
        if record.kind != Kind::Arrival {
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            writeln!(self.out, "fio version 3 iolog")?;
        }
        let (time, file) = (record.time / 1000, names.devices.name(record.device));
        if self.opened.insert(record.device) {
            writeln!(self.out, "{time} {file} add\n{time} {file} open")?;
        }
        let action = match record.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::Flush => return writeln!(self.out, "{time} {file} sync 0 0"),
        };
        writeln!(self.out, "{time} {file} {action} {} {}", record.offset, record.len)
    }

    /// Writes out what is buffered and gives the file back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
