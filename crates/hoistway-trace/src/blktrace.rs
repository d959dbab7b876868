//! blktrace's binary format, raw: events with their payloads, read and written.
//!
//! ```text
//!   0  magic     u32  0x65617400 | version 7, in the byte order of the machine that recorded
//!   4  sequence  u32
//!   8  time      u64  ns
//!  16  sector    u64  512 bytes
//!  24  bytes     u32
//!  28  action    u32  low 16 bits: what; high 16: categories
//!  32  pid       u32
//!  36  device    u32  major << 20 | minor
//!  40  cpu       u32
//!  44  error     u16
//!  46  pdu_len   u16  bytes of payload that follow
//! ```
//!
//! An event of a cgroup (bit 8 of the action) has the cgroup's number as the first 8 bytes of its payload. Numbers in
//! payloads of unplugs and splits are big-endian, whatever the machine.
//!
//! [`Reader`](crate::Reader) turns these into records; whoever needs what a record leaves out (plugs by CPU, merges,
//! payloads) uses [`parse`] or [`Writer`] directly.

use crate::{Flags, Op};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Bytes of an event without its payload.
pub const EVENT: usize = 48;
/// Magic number with the version.
pub const MAGIC: u32 = 0x6561_7407;

/// Actions: the low bits of [`Event::action`].
#[allow(missing_docs)]
pub mod action {
    pub const NOTIFY_PROCESS: u32 = 0;
    pub const NOTIFY_TIMESTAMP: u32 = 1;
    pub const NOTIFY_MESSAGE: u32 = 2;
    pub const QUEUE: u32 = 1;
    pub const BACKMERGE: u32 = 2;
    pub const FRONTMERGE: u32 = 3;
    pub const GETRQ: u32 = 4;
    pub const SLEEPRQ: u32 = 5;
    pub const REQUEUE: u32 = 6;
    pub const ISSUE: u32 = 7;
    pub const COMPLETE: u32 = 8;
    pub const PLUG: u32 = 9;
    pub const UNPLUG: u32 = 10;
    pub const UNPLUG_TIMER: u32 = 11;
    pub const INSERT: u32 = 12;
    pub const SPLIT: u32 = 13;
    pub const BOUNCE: u32 = 14;
    pub const REMAP: u32 = 15;
    pub const ABORT: u32 = 16;
    pub const DRIVER: u32 = 17;
    /// Set in the low 16 bits if the payload begins with a cgroup's number.
    pub const CGROUP: u32 = 1 << 8;
}

/// Categories: the high 16 bits of [`Event::action`], here in their place.
#[allow(missing_docs)]
pub mod category {
    pub const READ: u32 = 1 << 16;
    pub const WRITE: u32 = 2 << 16;
    pub const FLUSH: u32 = 4 << 16;
    pub const SYNC: u32 = 8 << 16;
    pub const QUEUE: u32 = 0x10 << 16;
    pub const REQUEUE: u32 = 0x20 << 16;
    pub const ISSUE: u32 = 0x40 << 16;
    pub const COMPLETE: u32 = 0x80 << 16;
    pub const FS: u32 = 0x100 << 16;
    pub const PC: u32 = 0x200 << 16;
    pub const NOTIFY: u32 = 0x400 << 16;
    pub const AHEAD: u32 = 0x800 << 16;
    pub const META: u32 = 0x1000 << 16;
    pub const DISCARD: u32 = 0x2000 << 16;
    pub const DRIVER: u32 = 0x4000 << 16;
    pub const FUA: u32 = 0x8000 << 16;
}

/// An event without its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Event {
    pub sequence: u32,
    /// ns.
    pub time: u64,
    /// 512 bytes.
    pub sector: u64,
    pub bytes: u32,
    /// One of [`action`], with categories of [`category`].
    pub action: u32,
    pub pid: u32,
    /// `major << 20 | minor`.
    pub device: u32,
    pub cpu: u32,
    pub error: u16,
    /// Bytes of payload that follow.
    pub payload: u16,
}

/// What lies at the beginning of these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// An event; its payload of `payload` bytes follows the [`EVENT`] bytes.
    Event(Event),
    /// Fewer bytes than an event has.
    Short,
    /// No magic number, or another version.
    NoMagic,
}

impl Event {
    /// The action without categories and marks.
    pub fn what(&self) -> u32 {
        self.action & 0xff
    }

    /// Whether all of these categories are set.
    pub fn is(&self, categories: u32) -> bool {
        self.action & categories == categories
    }

    /// The operation and its marks by the categories. `None` for pass-through commands, drivers' data and
    /// notifications.
    pub fn op(&self) -> Option<(Op, Flags)> {
        use category as c;
        if self.action & (c::NOTIFY | c::PC | c::DRIVER) != 0 {
            return None;
        }
        let flush = self.is(c::FLUSH);
        let op = match () {
            () if self.is(c::DISCARD) => Op::Discard,
            () if flush && self.bytes == 0 => Op::Flush,
            () if self.is(c::WRITE) => Op::Write,
            () => Op::Read,
        };
        let flags = Flags::NONE
            .with_if(self.is(c::SYNC), Flags::SYNC)
            .with_if(self.is(c::META), Flags::META)
            .with_if(self.is(c::AHEAD), Flags::AHEAD)
            .with_if(self.is(c::FUA), Flags::FUA)
            .with_if(flush && op == Op::Write, Flags::PREFLUSH);
        Some((op, flags))
    }
}

/// The categories of an operation with marks, as the kernel sets them.
pub fn categories(op: Op, flags: Flags) -> u32 {
    use category as c;
    let op = match op {
        Op::Read => c::READ,
        Op::Write => c::WRITE,
        Op::Flush => c::WRITE | c::FLUSH,
        Op::Discard => c::WRITE | c::DISCARD,
    };
    let pairs = [
        (Flags::SYNC, c::SYNC),
        (Flags::META, c::META),
        (Flags::AHEAD, c::AHEAD),
        (Flags::FUA, c::FUA),
        (Flags::PREFLUSH, c::FLUSH),
    ];
    pairs.iter().filter(|(f, _)| flags.has(*f)).fold(op, |sum, (_, c)| sum | c)
}

/// `major,minor` of a device number.
pub fn device_name(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}

/// The event at the beginning of `bytes`, in either byte order.
#[inline]
pub fn parse(bytes: &[u8]) -> Parsed {
    let Some(b) = bytes.first_chunk::<EVENT>() else { return Parsed::Short };
    let at = |i: usize| [b[i], b[i + 1], b[i + 2], b[i + 3]];
    let wide = |i: usize| b[i..i + 8].try_into().expect("eight bytes");
    let narrow = |i: usize| [b[i], b[i + 1]];
    let big = match u32::from_le_bytes(at(0)) {
        MAGIC => false,
        m if m.swap_bytes() == MAGIC => true,
        _ => return Parsed::NoMagic,
    };
    let u32_at = |i| if big { u32::from_be_bytes(at(i)) } else { u32::from_le_bytes(at(i)) };
    let u64_at = |i| if big { u64::from_be_bytes(wide(i)) } else { u64::from_le_bytes(wide(i)) };
    let u16_at =
        |i| if big { u16::from_be_bytes(narrow(i)) } else { u16::from_le_bytes(narrow(i)) };
    Parsed::Event(Event {
        sequence: u32_at(4),
        time: u64_at(8),
        sector: u64_at(16),
        bytes: u32_at(24),
        action: u32_at(28),
        pid: u32_at(32),
        device: u32_at(36),
        cpu: u32_at(40),
        error: u16_at(44),
        payload: u16_at(46),
    })
}

/// Writes events, little-endian. `blkparse -i FILE` reads the result, and so does `fio --read_iolog`.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    sequence: u32,
    /// Processes whose name has been written.
    named: BTreeSet<u32>,
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, which should be buffered.
    pub fn new(out: W) -> Writer<W> {
        Writer { out, sequence: 0, named: BTreeSet::new() }
    }

    /// One event with its payload; sequence and payload length are set here.
    pub fn event(&mut self, event: &Event, payload: &[u8]) -> io::Result<()> {
        let len = u16::try_from(payload.len())
            .map_err(|_| io::Error::other("a payload is at most 65535 bytes long"))?;
        self.sequence = self.sequence.wrapping_add(1);
        let mut b = [0; EVENT];
        b[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        b[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        b[8..16].copy_from_slice(&event.time.to_le_bytes());
        b[16..24].copy_from_slice(&event.sector.to_le_bytes());
        b[24..28].copy_from_slice(&event.bytes.to_le_bytes());
        b[28..32].copy_from_slice(&event.action.to_le_bytes());
        b[32..36].copy_from_slice(&event.pid.to_le_bytes());
        b[36..40].copy_from_slice(&event.device.to_le_bytes());
        b[40..44].copy_from_slice(&event.cpu.to_le_bytes());
        b[44..46].copy_from_slice(&event.error.to_le_bytes());
        b[46..48].copy_from_slice(&len.to_le_bytes());
        self.out.write_all(&b)?;
        self.out.write_all(payload)
    }

    /// The name of a process, before its first event: once for each pid. Names are 15 bytes at most, as the kernel's.
    pub fn process(&mut self, time: u64, pid: u32, name: &str) -> io::Result<()> {
        if !self.named.insert(pid) {
            return Ok(());
        }
        let mut payload = [0; 16];
        let cut = (0..=name.len().min(15)).rev().find(|n| name.is_char_boundary(*n));
        let cut = cut.expect("0 is a boundary");
        payload[..cut].copy_from_slice(&name.as_bytes()[..cut]);
        let action = action::NOTIFY_PROCESS | category::NOTIFY;
        self.event(&Event { time, action, pid, ..Event::default() }, &payload)
    }

    /// Writes out what is buffered and gives the file back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
