//! The lines of a recording.

use hoistway::group::ProcId;
use hoistway::request::{Flags, Io, IoId, Op};
use hoistway::unit::{Class, IoPrio, Sectors};

/// The first line of every recording.
pub const HEADER: &str = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result";

/// The first line of a recording of the second form, which has the segments too.
pub const HEADER_2: &str =
    "event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments";

/// Numbers in a recording are below these: requests, contexts, and everything else.
const REQUESTS: u64 = 1 << 24;
const CONTEXTS: u64 = 1 << 16;
const NUMBERS: u64 = 1 << 56;
/// Sectors of any drive: 2^57 bytes.
const SECTORS: u64 = 1 << 48;

/// One line, split into its columns.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub event: &'a str,
    pub ns: &'a str,
    pub tick: &'a str,
    pub request: &'a str,
    pub ctx: &'a str,
    pub sector: &'a str,
    pub sectors: &'a str,
    pub op: &'a str,
    pub level: &'a str,
    pub group: &'a str,
    pub result: &'a str,
    /// Empty in the first form.
    pub segments: &'a str,
}

/// What a `device` line tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLine<'a> {
    pub rotational: bool,
    pub created_tick: u64,
    /// The same by the clock that ours inside the kernel read; older recordings do not tell it.
    pub created_ns: Option<u64>,
    pub noweights: bool,
    pub scheduler: Option<&'a str>,
    pub release: Option<&'a str>,
    pub tick_ns: Option<u64>,
    pub max_sectors: Option<u64>,
    pub max_segments: Option<u64>,
    pub tags: Option<u64>,
    pub depth: Option<u64>,
    /// Timers that fire are told of.
    pub timers: bool,
    /// The scheduler is ours in the kernel, and what else it hears is told of too.
    pub inside: bool,
}

impl<'a> Line<'a> {
    pub fn split(text: &'a str) -> Result<Line<'a>, String> {
        let columns: Vec<&str> = text.split(',').collect();
        let [
            event,
            ns,
            tick,
            request,
            ctx,
            sector,
            sectors,
            op,
            level,
            group,
            result,
            ref rest @ ..,
        ] = columns[..]
        else {
            return Err(format!("'{text}' has not the columns of the first line"));
        };
        let segments = match rest {
            [] => "",
            [segments] => segments,
            _ => return Err(format!("'{text}' has more columns than the first line")),
        };
        Ok(Line {
            event,
            ns,
            tick,
            request,
            ctx,
            sector,
            sectors,
            op,
            level,
            group,
            result,
            segments,
        })
    }

    /// The I/O of a `merge` or `insert` line: who issues it and into which group is up to the caller, and so
    /// are its segments.
    pub fn io(&self, max_sectors: u64) -> Result<Io, String> {
        let (start, sectors) = self.extent()?;
        if !(1..=max_sectors).contains(&sectors.0) {
            return Err(format!("{} sectors; a request has 1 to {max_sectors}", sectors.0));
        }
        Ok(Io { start, sectors, prio: self.prios()?.1, ..self.kind()? })
    }

    /// Where an I/O begins, and its length.
    pub fn extent(&self) -> Result<(Sectors, Sectors), String> {
        let (start, len) = (number(self.sector)?, number(self.sectors)?);
        match start + len {
            end if end <= SECTORS => Ok((Sectors(start), Sectors(len))),
            end => Err(format!("sector {end} is on no drive")),
        }
    }

    /// Segments of the second form, of which the kernel counts 16 bits.
    pub fn segments(&self) -> Result<u32, String> {
        let segments = number(self.segments)?;
        let few = u16::try_from(segments);
        few.map(u32::from)
            .map_err(|_| format!("{segments} segments; a request has {} at most", u16::MAX))
    }

    /// Operation and flags alone.
    pub fn kind(&self) -> Result<Io, String> {
        let (kind, never) = match self.op.strip_suffix('N') {
            Some(kind) => (kind, Flags::NOMERGE),
            None => (self.op, Flags::NONE),
        };
        let (kind, meta) = match kind.strip_suffix('M') {
            Some(kind) => (kind, Flags::META),
            None => (kind, Flags::NONE),
        };
        let (op, flags) = match kind {
            "R" => (Op::Read, Flags::NONE),
            "RS" => (Op::Read, Flags::SYNC),
            "W" => (Op::Write, Flags::SYNC),
            "A" => (Op::Write, Flags::NONE),
            "D" => (Op::Discard, Flags::NONE),
            "O" => (Op::WriteZeroes, Flags::NONE),
            "F" => (Op::Flush, Flags::NONE),
            _ => return Err(format!("no such operation: '{}'", self.op)),
        };
        Ok(Io { op, flags: flags | meta | never, id: IoId(0), ..Io::read(0, ProcId::NONE, 0, 8) })
    }

    /// The words `name=NUMBER` of the result.
    pub fn figure(&self, name: &str) -> Result<Option<u64>, String> {
        let word =
            self.result.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        word.map(number).transpose()
    }

    /// Whether the result has this word.
    pub fn says(&self, word: &str) -> bool {
        self.result.split_whitespace().any(|w| w == word)
    }

    /// Is it an asynchronous write?
    pub fn is_async(&self) -> bool {
        self.op.starts_with('A')
    }

    /// The priority of the process and that of the I/O.
    pub fn prios(&self) -> Result<(IoPrio, IoPrio), String> {
        match self.level.split_once('|') {
            Some((process, bio)) => Ok((prio(process)?, prio(bio)?)),
            None => prio(self.level).map(|p| (p, p)),
        }
    }

    /// The number of a context.
    pub fn ctx(&self) -> Result<usize, String> {
        below(self.ctx, CONTEXTS)
    }

    /// Of a controller: the request that a bio is in, in the same column.
    pub fn in_request(&self) -> Result<usize, String> {
        below(self.ctx, REQUESTS)
    }

    /// The number of a request, `None` if there is none.
    pub fn request(&self) -> Result<Option<usize>, String> {
        if self.request.is_empty() { Ok(None) } else { below(self.request, REQUESTS).map(Some) }
    }

    /// The components of the group's path, none for the root.
    pub fn group(&self) -> Result<Vec<&'a str>, String> {
        path(self.group)
    }

    /// `name=value` of a `set` line.
    pub fn setting(&self) -> Result<(&'a str, u64), String> {
        let wrong = || format!("'{}' is not name=value", self.result);
        let (name, value) = self.result.split_once('=').ok_or_else(wrong)?;
        Ok((name, number(value)?))
    }

    pub fn device(&self) -> Result<DeviceLine<'a>, String> {
        let mut told = DeviceLine::default();
        for word in self.result.split_whitespace() {
            match word.split_once('=') {
                Some(("rotational", "0")) => told.rotational = false,
                Some(("rotational", "1")) => told.rotational = true,
                Some(("created_tick", tick)) => told.created_tick = number(tick)?,
                Some(("created_ns", ns)) => told.created_ns = Some(number(ns)?),
                Some(("scheduler", name)) => told.scheduler = Some(name),
                Some(("release", release)) => told.release = Some(release),
                Some(("tick_ns", ns)) => told.tick_ns = Some(number(ns)?),
                Some(("max_sectors", n)) => told.max_sectors = Some(number(n)?),
                Some(("max_segments", n)) => told.max_segments = Some(number(n)?),
                Some(("tags", n)) => told.tags = Some(number(n)?),
                Some(("depth", n)) => told.depth = Some(number(n)?),
                None if word == "noweights" => told.noweights = true,
                None if word == "timers" => told.timers = true,
                None if word == "inside" => told.inside = true,
                _ => return Err(format!("'{word}' tells nothing about a device")),
            }
        }
        Ok(told)
    }
}

/// The components of a path below the root.
pub fn path(text: &str) -> Result<Vec<&str>, String> {
    if text == "root" {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = text.split('/').collect();
    if parts.iter().any(|p| p.is_empty()) {
        return Err(format!("'{text}' is not the path of a group, such as p/x"));
    }
    Ok(parts)
}

pub fn number(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number, or too large");
    text.parse().ok().filter(|&n| n < NUMBERS).ok_or_else(wrong)
}

/// A number that stands for something there are fewer than `bound` of.
fn below(text: &str, bound: u64) -> Result<usize, String> {
    match number(text)? {
        n if n < bound => Ok(n as usize),
        n => Err(format!("{n} is not below {bound}")),
    }
}

fn prio(level: &str) -> Result<IoPrio, String> {
    let (class, level) = match level {
        "" => return Ok(IoPrio::NONE),
        "idle" => return Ok(IoPrio::idle()),
        _ => match level.strip_prefix("rt") {
            Some(level) => (Class::Rt, level),
            None => (Class::Be, level),
        },
    };
    match (class, number(level)?) {
        (Class::Rt, n @ 0..8) => Ok(IoPrio::rt(n as u8)),
        (_, n @ 0..8) => Ok(IoPrio::be(n as u8)),
        (_, n) => Err(format!("no such level: {n}")),
    }
}
