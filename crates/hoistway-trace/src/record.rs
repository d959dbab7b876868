//! One record of a trace, the same for every format.

use std::fmt;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Op {
    /// Data comes from the device.
    #[default]
    Read,
    /// Data goes to the device.
    Write,
    /// The device's volatile cache is written out; length 0.
    Flush,
    /// Blocks are given back (discard, trim).
    Discard,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

    /// `read`, `write`, `flush`, `discard`.
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard"][self as usize]
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Marks of a request. Formats that do not carry a mark leave it out: an absent `SYNC` on a write of a CSV
/// trace means "not said".
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// Somebody waits for it.
    pub const SYNC: Flags = Flags(1);
    /// Metadata of a file system.
    pub const META: Flags = Flags(2);
    /// Read-ahead.
    pub const AHEAD: Flags = Flags(4);
    /// Forced unit access: past the volatile cache.
    pub const FUA: Flags = Flags(8);
    /// The volatile cache is flushed before this write.
    pub const PREFLUSH: Flags = Flags(16);

    /// Whether all of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// `other` if `yes`.
    #[must_use]
    pub fn with_if(self, yes: bool, other: Flags) -> Flags {
        if yes { self.with(other) } else { self }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("S", Flags::SYNC), ("M", Flags::META), ("A", Flags::AHEAD)];
        let more = [("F", Flags::FUA), ("P", Flags::PREFLUSH)];
        all.iter().chain(&more).filter(|(_, x)| self.has(*x)).try_for_each(|(c, _)| f.write_str(c))
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// A request entered the block layer.
    #[default]
    Arrival,
    /// The device has served it, after merging: the range may cover several arrivals. Delivered with
    /// [`Options::completions`](crate::Options::completions), where the format has them as records of their own.
    Complete,
    /// The process begins to hold its requests back. With [`Options::plugs`](crate::Options::plugs).
    Plug,
    /// The process lets them go; `len` is their number.
    Unplug,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// Nanoseconds since the first record of the trace, or since [`Options::from`](crate::Options::from).
    pub time: u64,
    /// First byte on the device.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Nanoseconds from arrival to completion, where the format has it in the same line.
    pub response: Option<u64>,
    /// Who asked: number in [`Names::processes`](crate::Names::processes). 0, named `-`, if the format does not say.
    pub process: u32,
    /// The asker's cgroup: number in [`Names::groups`](crate::Names::groups). 0, named `-`, if the format does not say.
    pub group: u32,
    /// Number in [`Names::devices`](crate::Names::devices). 0, named `-`, if the format does not say.
    pub device: u32,
    /// Read, write, flush or discard.
    pub op: Op,
    /// Marks.
    pub flags: Flags,
    /// Arrival, unless more was asked for.
    pub kind: Kind,
}
