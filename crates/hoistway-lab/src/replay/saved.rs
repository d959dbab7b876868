//! Traces of our own: every step of the processes of a run, in the binary format of blktrace.
//!
//! `blkparse -i NAME` reads `NAME.blktrace.0` as it reads any other: Q, D, C, P and U with sector, length, pid and rwbs. What
//! blktrace has no field for, and a replay to the nanosecond needs, stands where its readers pass it over:
//!
//! ```text
//!   Q            20 bytes behind the record (its pdu): version 1, op, flags (2), priority (2), padding (2), group, CPU,
//!                segments (4 each), little endian
//!   m (message)  "hoistway 1 DRIVE SEED CONFIG"               first of all
//!                "hoistway host PROFILE", "hoistway host-set NAME VALUE"   the host, for what of it is in the block layer
//!                "hoistway group ID PARENT NAME"              groups, in order of their numbers
//!                "hoistway proc ID GROUP PRIO ROLE NAME"      processes, in order; PRIO is the kernel's word; ROLE is
//!                                                             target, other or host
//!                "hoistway sleep ID", "... exit ID", "... dirty-slept ID"
//!                "hoistway end"                               when the run was over
//! ```
//!
//! A pid is the number of the process plus one. All records stand under CPU 0, so that one file has them in order.

use hoistway::{Class, Flags, GroupId, Instant, IoPrio, Op, ProcId};
use hoistway_files::{Kind, Output, PlaceError, input};
use hoistway_run::{JobError, Role};
use hoistway_sim::drive::Command;
use hoistway_sim::host::HostConfig;
use hoistway_sim::world::replay::{Arrival, Deed, Feed, Member};
use hoistway_sim::world::{Job, Recorder, Step};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

const MAGIC: u32 = 0x6561_7407;
const HEADER: usize = 48;
const PDU: usize = 20;
/// 8:0 as the kernel writes it.
const DEVICE: u32 = 8 << 20;

const QUEUE: u32 = 1;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const PLUG: u32 = 9;
const UNPLUG: u32 = 10;
const MESSAGE: u32 = 2;

/// Categories, as bits of the action's upper half.
mod category {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 1 << 1;
    pub const FLUSH: u32 = 1 << 2;
    pub const SYNC: u32 = 1 << 3;
    pub const QUEUE: u32 = 1 << 4;
    pub const ISSUE: u32 = 1 << 6;
    pub const COMPLETE: u32 = 1 << 7;
    pub const FS: u32 = 1 << 8;
    pub const NOTIFY: u32 = 1 << 10;
    pub const AHEAD: u32 = 1 << 11;
    pub const META: u32 = 1 << 12;
    pub const DISCARD: u32 = 1 << 13;
    pub const FUA: u32 = 1 << 15;
}

/// Writes the steps of a run.
#[derive(Debug)]
pub struct Saver<W: Write> {
    out: W,
    sequence: u32,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

/// One record.
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
}

/// How traces that this program writes begin: blktrace's own have no message in front.
pub const OURS: Kind = Kind::Begins(&[&[
    // Magic, sequence, time, sector, bytes, action.
    0x07, 0x74, 0x61, 0x65, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 4,
]]);

impl Saver<BufWriter<Output>> {
    /// A file that appears when it is finished; `drive`, `seed` and `config` say of what run.
    ///
    /// # Errors
    ///
    /// What the file system says, or that something of others stands there.
    pub fn create(path: &Path, drive: &str, seed: u64, config: &str) -> Result<Self, PlaceError> {
        let out = BufWriter::with_capacity(1 << 16, Output::begin(path, OURS)?);
        Ok(Saver::new(out, drive, seed, config))
    }
}

impl<W: Write> Saver<W> {
    /// Writes to `out`.
    pub fn new(out: W, drive: &str, seed: u64, config: &str) -> Saver<W> {
        let mut saver = Saver { out, sequence: 0, failed: None };
        saver.message(Instant::ZERO, 0, &format!("hoistway 1 {drive} {seed} {config}"));
        saver
    }

    /// The host of the run: what of it differs from its profile.
    pub fn host(&mut self, host: &HostConfig) {
        self.message(Instant::ZERO, 0, &format!("hoistway host {}", host.profile_name()));
        let Ok(usual) = HostConfig::profile(host.profile_name()) else { return };
        for ([name, value, ..], [_, default, ..]) in host.documented().zip(usual.documented()) {
            if value != default {
                self.message(Instant::ZERO, 0, &format!("hoistway host-set {name} {value}"));
            }
        }
    }

    /// The run was over at `end`.
    ///
    /// # Errors
    ///
    /// The first error of all writes.
    pub fn finish(mut self, end: Instant) -> io::Result<W> {
        self.message(end, 0, "hoistway end");
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn message(&mut self, now: Instant, pid: u32, text: &str) {
        let action = MESSAGE | category::NOTIFY << 16;
        let event = Event { time: now.as_nanos(), action, pid, ..Event::default() };
        self.event(event, text.as_bytes());
    }

    fn event(&mut self, e: Event, pdu: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = [0u8; HEADER];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&e.time.to_le_bytes());
        bytes[16..24].copy_from_slice(&e.sector.to_le_bytes());
        bytes[24..28].copy_from_slice(&e.bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&e.action.to_le_bytes());
        bytes[32..36].copy_from_slice(&e.pid.to_le_bytes());
        bytes[36..40].copy_from_slice(&DEVICE.to_le_bytes());
        // CPU and error are 0.
        bytes[46..48].copy_from_slice(&(pdu.len() as u16).to_le_bytes());
        let written = self.out.write_all(&bytes).and_then(|()| self.out.write_all(pdu));
        self.failed = written.err();
    }

    fn command(&mut self, now: Instant, proc: ProcId, c: Command, action: u32) {
        let flags = if c.fua { Flags::FUA } else { Flags::NONE };
        let event = Event {
            time: now.as_nanos(),
            sector: c.start / 512,
            bytes: u32::try_from(c.len).unwrap_or(u32::MAX),
            action: action | categories(c.op, flags) << 16,
            pid: pid(proc),
        };
        self.event(event, &[]);
    }
}

/// Nobody has no number.
fn pid(proc: ProcId) -> u32 {
    proc.0.wrapping_add(1)
}

fn categories(op: Op, flags: Flags) -> u32 {
    let of_op = match op {
        Op::Read => category::READ,
        Op::Write | Op::WriteZeroes => category::WRITE,
        Op::Discard => category::WRITE | category::DISCARD,
        Op::Flush => category::WRITE | category::FLUSH,
    };
    let marks = [
        (Flags::SYNC, category::SYNC),
        (Flags::RAHEAD, category::AHEAD),
        (Flags::META, category::META),
        (Flags::FUA, category::FUA),
        (Flags::PREFLUSH, category::FLUSH),
    ];
    let set = marks.iter().filter(|(flag, _)| flags.any(*flag));
    set.fold(of_op | category::FS, |all, (_, bit)| all | bit)
}

/// The kernel's word of a priority.
fn word(prio: IoPrio) -> u16 {
    (prio.class() as u16) << 13 | u16::from(prio.level())
}

fn prio_of(word: u16) -> Option<IoPrio> {
    let class = match word >> 13 {
        0 => Class::None,
        1 => Class::Rt,
        2 => Class::Be,
        3 => Class::Idle,
        _ => return None,
    };
    IoPrio::new(class, (word & 7) as u8)
}

const OPS: [Op; 5] = [Op::Read, Op::Write, Op::Discard, Op::Flush, Op::WriteZeroes];

impl<W: Write> Recorder for Saver<W> {
    fn step(&mut self, now: Instant, step: Step<'_>) {
        match step {
            Step::Group { id, parent, name } => {
                self.message(now, 0, &format!("hoistway group {} {} {name}", id.0, parent.0));
            }
            Step::Proc { id, group, prio, role, name } => {
                let role = match role {
                    Some(Role::Target) => "target",
                    Some(Role::Interferer) => "other",
                    None => "host",
                };
                let (id, group, prio) = (id.0, group.0, word(prio));
                self.message(now, 0, &format!("hoistway proc {id} {group} {prio} {role} {name}"));
                // The record by which readers of blktrace know a pid's name.
                let mut comm = [0u8; 16];
                let short = name.as_bytes();
                let most = short.len().min(comm.len() - 1);
                comm[..most].copy_from_slice(&short[..most]);
                let (time, action) = (now.as_nanos(), category::NOTIFY << 16);
                self.event(Event { time, action, pid: id + 1, ..Event::default() }, &comm);
            }
            Step::Plug(p) => {
                let time = now.as_nanos();
                // blkparse leaves out what is of no category.
                let action = PLUG | category::QUEUE << 16;
                self.event(Event { time, action, pid: pid(p), ..Event::default() }, &[]);
            }
            Step::Unplug(p) => {
                let time = now.as_nanos();
                // blkparse wants a count, which the host does not know.
                let pdu = 0u64.to_be_bytes();
                let action = UNPLUG | category::QUEUE << 16;
                self.event(Event { time, action, pid: pid(p), ..Event::default() }, &pdu);
            }
            Step::Sleep(p) => self.message(now, pid(p), &format!("hoistway sleep {}", p.0)),
            Step::Exit(p) => self.message(now, pid(p), &format!("hoistway exit {}", p.0)),
            Step::DirtySlept(p) => {
                self.message(now, pid(p), &format!("hoistway dirty-slept {}", p.0));
            }
            Step::Submit(io) => {
                let mut pdu = [0u8; PDU];
                pdu[0] = 1;
                pdu[1] = io.op as u8;
                pdu[2..4].copy_from_slice(&io.flags.bits().to_le_bytes());
                pdu[4..6].copy_from_slice(&word(io.prio).to_le_bytes());
                pdu[8..12].copy_from_slice(&io.group.0.to_le_bytes());
                pdu[12..16].copy_from_slice(&io.cpu.to_le_bytes());
                pdu[16..20].copy_from_slice(&io.segments.to_le_bytes());
                let event = Event {
                    time: now.as_nanos(),
                    sector: io.start.0,
                    bytes: u32::try_from(io.sectors.0 * 512).unwrap_or(u32::MAX),
                    action: QUEUE | (category::QUEUE | categories(io.op, io.flags)) << 16,
                    pid: pid(io.proc),
                };
                self.event(event, &pdu);
            }
            Step::Issue { proc, command } => {
                self.command(now, proc, command, ISSUE | category::ISSUE << 16);
            }
            Step::Done { proc, command } => {
                self.command(now, proc, command, COMPLETE | category::COMPLETE << 16);
            }
        }
    }
}

/// A process of the run.
#[derive(Clone, Debug)]
struct Saved {
    name: String,
    group: u32,
    prio: IoPrio,
    role: Option<Role>,
}

/// Reads the steps of a run.
#[derive(Debug)]
pub struct SavedFeed {
    source: BufReader<File>,
    read: u64,
    origin: [String; 3],
    /// Profile of the host, and what differs from it.
    host: (Option<String>, Vec<(String, String)>),
    /// Path of each group, the root first.
    groups: Vec<String>,
    procs: Vec<Saved>,
    /// The first step, read to find the end of the head.
    first: Option<Arrival>,
    steps: u64,
    /// By recorded number: the group in the job.
    group_map: Vec<Option<usize>>,
    /// By recorded number of a process: its group and priority in the job.
    members: Vec<Member>,
}

impl SavedFeed {
    /// Opens a file; the error says why it is none of ours.
    ///
    /// # Errors
    ///
    /// What the file system says, and what is not as [`Saver`] writes it.
    pub fn open(path: &Path) -> Result<SavedFeed, String> {
        let (file, _) = input::open(path, super::TRACE).map_err(|e| e.to_string())?;
        let mut feed = SavedFeed {
            source: BufReader::with_capacity(1 << 16, file),
            read: 0,
            origin: Default::default(),
            host: (None, Vec::new()),
            groups: vec![String::new()],
            procs: Vec::new(),
            first: None,
            steps: 0,
            group_map: Vec::new(),
            members: Vec::new(),
        };
        feed.head().map_err(|what| format!("{}: {what}", path.display()))?;
        Ok(feed)
    }

    fn head(&mut self) -> Result<(), String> {
        let none = || "not a trace that `hoistway run --save-trace` wrote".to_string();
        let Some((event, pdu)) = self.event()? else { return Err(none()) };
        let text = (event.action == MESSAGE | category::NOTIFY << 16).then_some(pdu);
        let text = text.and_then(|pdu| String::from_utf8(pdu).ok()).ok_or_else(none)?;
        let words: Vec<&str> = text.splitn(5, ' ').collect();
        let ["hoistway", "1", drive, seed, config] = words[..] else { return Err(none()) };
        self.origin = [drive, seed, config].map(str::to_string);
        self.first = self.step()?;
        Ok(())
    }

    /// Drive, seed and configuration of the run.
    pub fn origin(&self) -> [String; 3] {
        self.origin.clone()
    }

    /// Profile of the run's host, and what differs from it; `None` if the trace does not say.
    pub fn host(&self) -> Option<(&str, &[(String, String)])> {
        self.host.0.as_deref().map(|profile| (profile, &self.host.1[..]))
    }

    /// Name and role of the processes of the run's job.
    pub fn roles(&self) -> Vec<(String, Role)> {
        self.procs.iter().filter_map(|p| Some((p.name.clone(), p.role?))).collect()
    }

    /// The run's processes take their places in `job`: those of the job by their names, threads of the host in the group
    /// of the same path, the root if there is none.
    pub fn place(&mut self, job: &Job<'_>) {
        let mut paths: Vec<String> = Vec::new();
        for group in &job.groups {
            let above = group.parent.map_or(String::new(), |p| paths[p].clone());
            paths.push(format!("{above}/{}", group.name));
        }
        let find = |path: &String| paths.iter().position(|p| p == path);
        self.group_map = self.groups.iter().map(find).collect();
        let map = &self.group_map;
        let member = |saved: &Saved| {
            let proc = job.procs.iter().find(|p| saved.role.is_some() && p.name == saved.name);
            let group = match proc {
                Some(proc) => proc.group,
                None => map[saved.group as usize],
            };
            let given = proc.map(|p| p.prio).filter(|&p| p != IoPrio::NONE);
            Member {
                name: saved.name.clone(),
                group,
                prio: given.unwrap_or(saved.prio),
                counted: saved.role.is_some(),
            }
        };
        self.members = self.procs.iter().map(member).collect();
    }

    /// What the manifest says of the trace.
    pub fn facts(&self, path: &Path) -> Vec<(String, String)> {
        let [drive, seed, config] = &self.origin;
        let rows = [
            ("trace", path.display().to_string()),
            ("trace.format", "hoistway".to_string()),
            ("trace.of", format!("{drive} {config}, seed {seed}")),
            ("trace.records", self.steps.to_string()),
            ("trace.malformed", "0".to_string()),
            ("replay.loop", "open, every step of a run".to_string()),
        ];
        rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    /// The next record; `None` at the end.
    fn event(&mut self) -> Result<Option<(Event, Vec<u8>)>, String> {
        let mut bytes = [0u8; HEADER];
        let at = self.read;
        let failed = |e: io::Error| format!("byte {at}: {e}");
        match self.source.read(&mut bytes[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => self.source.read_exact(&mut bytes[1..]).map_err(failed)?,
            Err(e) => return Err(failed(e)),
        }
        let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("4 bytes"));
        let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
        if u32_at(0) != MAGIC {
            return Err(format!("byte {at}: no record of blktrace begins here"));
        }
        let len = u16::from_le_bytes([bytes[46], bytes[47]]);
        let mut pdu = vec![0; usize::from(len)];
        self.source.read_exact(&mut pdu).map_err(failed)?;
        self.read += (HEADER + pdu.len()) as u64;
        let event = Event {
            time: u64_at(8),
            sector: u64_at(16),
            bytes: u32_at(24),
            action: u32_at(28),
            pid: u32_at(32),
        };
        Ok(Some((event, pdu)))
    }

    /// The next step of a process.
    fn step(&mut self) -> Result<Option<Arrival>, String> {
        loop {
            let at = self.read;
            let Some((event, pdu)) = self.event()? else { return Ok(None) };
            let of = |deed| Arrival {
                at: Instant::from_nanos(event.time),
                proc: event.pid.wrapping_sub(1),
                deed,
                ..Arrival::default()
            };
            if event.action == MESSAGE | category::NOTIFY << 16 {
                let text = String::from_utf8_lossy(&pdu).into_owned();
                let deed = self.message(&text).ok_or_else(|| {
                    format!("byte {at}: '{text}' is no message of `hoistway run --save-trace`")
                })?;
                match deed {
                    None => continue,
                    Some(Deed::End) => return Ok(Some(Arrival { proc: 0, ..of(Deed::End) })),
                    Some(deed) => return Ok(Some(of(deed))),
                }
            }
            if event.action >> 16 & category::NOTIFY != 0 {
                // The name of a pid.
                continue;
            }
            match event.action & 0xffff {
                PLUG => return Ok(Some(of(Deed::Plug))),
                UNPLUG => return Ok(Some(of(Deed::Unplug))),
                QUEUE => {
                    let io = submission(&event, &pdu, of(Deed::Submit));
                    let io = io.filter(|io| (io.proc as usize) < self.procs.len());
                    let what =
                        || format!("byte {at}: an I/O without what hoistway writes behind it");
                    return io.ok_or_else(what).map(Some);
                }
                // What the drive did follows from the rest.
                ISSUE | COMPLETE => {}
                other => return Err(format!("byte {at}: action {other} is none of ours")),
            }
        }
    }

    /// Carries out a message; `None`: not understood. Inside: what a process does, if the message says that.
    fn message(&mut self, text: &str) -> Option<Option<Deed>> {
        if let Some(rest) = text.strip_prefix("hoistway host-set ") {
            let (name, value) = rest.split_once(' ')?;
            self.host.1.push((name.to_string(), value.to_string()));
            return Some(None);
        }
        let words: Vec<&str> = text.splitn(7, ' ').collect();
        match words[..] {
            ["hoistway", "host", profile] => {
                self.host.0 = Some(profile.to_string());
                Some(None)
            }
            ["hoistway", "group", id, parent, name] => {
                let parent = self.groups.get(parent.parse::<usize>().ok()?)?;
                let path = format!("{parent}/{name}");
                (id.parse::<usize>().ok()? == self.groups.len()).then(|| self.groups.push(path))?;
                Some(None)
            }
            ["hoistway", "proc", id, group, prio, role, name] => {
                let role = match role {
                    "target" => Some(Role::Target),
                    "other" => Some(Role::Interferer),
                    _ => None,
                };
                let saved = Saved {
                    name: name.to_string(),
                    group: group
                        .parse()
                        .ok()
                        .filter(|&g: &u32| (g as usize) < self.groups.len())?,
                    prio: prio_of(prio.parse().ok()?)?,
                    role,
                };
                if !self.group_map.is_empty() {
                    // Made while the run went on: it is where whoever made it is.
                    self.members.push(Member {
                        name: saved.name.clone(),
                        group: self.group_map[saved.group as usize],
                        prio: saved.prio,
                        counted: false,
                    });
                }
                (id.parse::<usize>().ok()? == self.procs.len()).then(|| self.procs.push(saved))?;
                Some(None)
            }
            ["hoistway", "sleep", _] => Some(Some(Deed::Sleep)),
            ["hoistway", "exit", _] => Some(Some(Deed::Exit)),
            ["hoistway", "dirty-slept", _] => Some(Some(Deed::DirtySlept)),
            ["hoistway", "end"] => Some(Some(Deed::End)),
            _ => None,
        }
    }
}

/// An I/O, with what stands behind its record.
fn submission(event: &Event, pdu: &[u8], of: Arrival) -> Option<Arrival> {
    if pdu.len() != PDU || pdu[0] != 1 {
        return None;
    }
    let u16_at = |i: usize| u16::from_le_bytes([pdu[i], pdu[i + 1]]);
    let u32_at = |i: usize| u32::from_le_bytes(pdu[i..i + 4].try_into().expect("4 bytes"));
    Some(Arrival {
        op: OPS.into_iter().find(|&op| op as u8 == pdu[1])?,
        flags: Flags::from_bits(u16_at(2)),
        prio: prio_of(u16_at(4))?,
        group: Some(GroupId(u32_at(8))),
        cpu: Some(u32_at(12)),
        segments: u32_at(16),
        start: event.sector,
        sectors: u64::from(event.bytes) / 512,
        ..of
    })
}

impl Feed for SavedFeed {
    fn next(&mut self) -> Result<Option<Arrival>, JobError> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None => self.step().map_err(super::trace_error)?,
        };
        let Some(mut arrival) = next else { return Ok(None) };
        self.steps += 1;
        // Group and priority of the process, unless the run gave this I/O others.
        if let Some(saved) = self.procs.get(arrival.proc as usize) {
            let usual = if saved.prio == IoPrio::NONE { IoPrio::be(4) } else { saved.prio };
            if arrival.prio == usual {
                arrival.prio = IoPrio::NONE;
            }
            arrival.group = match arrival.group {
                Some(group) if group.0 == saved.group => None,
                Some(group) => {
                    let place = self.group_map.get(group.index()).copied().flatten();
                    Some(place.map_or(GroupId::ROOT, |g| GroupId(g as u32 + 1)))
                }
                None => None,
            };
        }
        Ok(Some(arrival))
    }

    fn introduce(&mut self, number: u32) -> Member {
        self.members[number as usize].clone()
    }

    fn progress(&self) -> u64 {
        self.read
    }

    fn at_once(&self) -> u32 {
        self.members.len() as u32
    }
}
