//! An emulated drive: the simulator's model of it on the wall clock, over memory or a sparse file.
//!
//! The model says when a command is done; the data is moved at that moment. How far the machine keeps
//! up is measured for every command: the model's service time against the one achieved.

use super::memory::Memory;
use super::{
    Backend, Command, Done, ExtentsAnswer, Facts, Opened, Target, TargetError, TargetKey,
    TargetKind, holes, image,
};
use crate::error::{ServeError, os};
use crate::system::Part;
use crate::system::{Clock, timespec};
use hoistway::{Instant, Nanos, Op, Sectors};
use hoistway_run::Histogram;
use hoistway_sim::drive::{self, Adapter, DriveFile, DriveOutput};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Emulated drives in the registry.
pub(super) static TARGET: TargetKind = TargetKind {
    name: "emulate",
    syntax: "emulate:DRIVE[:SIZE]",
    summary: "a drive of `hoistway list drives`, or of a drive file, as slow as its model says",
    keys: &[
        TargetKey {
            name: "data",
            value: "FILE",
            help: "sparse file for the data, new or of the drive's size, else memory",
        },
        TargetKey { name: "seed", value: "N", help: "seed of the model" },
    ],
    parse: |text| {
        let (drive, size) = match text.rest.rsplit_once(':') {
            // A path may have a colon, too: a size begins with a digit.
            Some((drive, size)) if size.starts_with(|c: char| c.is_ascii_digit()) => {
                (drive, Some(text.bytes(size)?))
            }
            _ => (text.rest, None),
        };
        let drive = DriveFile::load(drive).map_err(|e| TargetError::Drive(e.to_string()))?;
        let seed = text.key("seed").map_or(Ok(1), |seed| {
            let (key, wanted) = ("seed", "a whole number".to_string());
            let error = TargetError::BadValue { key, value: seed.into(), wanted };
            seed.parse().map_err(|_| error)
        })?;
        let file = text.key("data").map(Into::into);
        Ok(Target::Emulated(Box::new(Emulation { drive, size, file, seed })))
    },
};

/// Which drive, and where its data is.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// The drive.
    pub drive: DriveFile,
    /// Bytes served, from the beginning of the drive; `None`: all of it.
    pub size: Option<u64>,
    /// A file for the data, new or of the right size; `None`: memory.
    pub file: Option<PathBuf>,
    /// Seed of the model's randomness.
    pub seed: u64,
}

impl Emulation {
    /// The whole drive, in memory, with seed 1.
    pub fn new(drive: DriveFile) -> Emulation {
        Emulation { drive, size: None, file: None, seed: 1 }
    }
}

/// How well the machine keeps up with the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmulationFigures {
    /// Commands served.
    pub commands: u64,
    /// Mean service time of the model.
    pub modelled_mean: Nanos,
    /// Mean service time achieved.
    pub achieved_mean: Nanos,
    /// Median of the lateness: achieved less modelled.
    pub late_p50: Nanos,
    /// 99th percentile of the lateness.
    pub late_p99: Nanos,
}

impl EmulationFigures {
    /// Hardly a command was late by more than a twentieth of the mean service time, and 100 us.
    pub fn kept_up(&self) -> bool {
        self.late_p99 <= Nanos(self.modelled_mean.0 / 20).max(Nanos::us(100))
    }
}

#[derive(Debug)]
struct Emulated {
    adapter: Adapter,
    store: Store,
    /// Commands in the drive, by the low 32 bits of the tag.
    commands: Vec<Option<EmulatedCommand>>,
    /// Lists for the parts of later commands.
    spare: Vec<Vec<Part>>,
    wake: Option<Instant>,
    /// Something was handed to the adapter since it was last asked.
    touched: bool,
    modelled: u128,
    late: Histogram,
}

#[derive(Debug)]
struct EmulatedCommand {
    command: Command,
    parts: Vec<Part>,
    issued: Instant,
}

pub(super) fn open(emulation: &Emulation) -> Result<Opened, ServeError> {
    open_if(emulation, || check_speed(&emulation.drive))
}

/// Opens a drive that has passed [`check_speed`].
pub fn open_checked(emulation: &Emulation) -> Result<Opened, ServeError> {
    open_if(emulation, || Ok(()))
}

/// What is wrong on every machine is told first; what this one cannot do at the moment behind it.
fn open_if(
    emulation: &Emulation,
    admit: impl FnOnce() -> Result<(), ServeError>,
) -> Result<Opened, ServeError> {
    let drive = &emulation.drive;
    let whole = drive.identity.capacity_bytes;
    let size = emulation.size.unwrap_or(whole);
    if size == 0 || size > whole || !size.is_multiple_of(drive.identity.sector_bytes) {
        let (drive, sector) = (drive.id.to_string(), drive.identity.sector_bytes);
        return Err(TargetError::DriveSize { drive, size, whole, sector }.into());
    }
    let mut device = drive.device();
    device.capacity = Sectors(size / 512);
    let (store, place) = match &emulation.file {
        None => {
            admit()?;
            (Store::Memory(Memory::new(size).map_err(os("memory for the drive"))?), "memory".into())
        }
        Some(path) => (Store::File(image::open(path, size, admit)?), path.display().to_string()),
    };
    let facts = Facts {
        size,
        block: drive.identity.sector_bytes as u32,
        read_only: false,
        discard: device.max_discard_sectors.0 > 0,
        discard_zeroes: device.max_discard_sectors.0 > 0,
        rotational: device.rotational,
        page_cache: false,
        persistent: emulation.file.is_some(),
        summary: format!("emulated {} over {place}", drive.name),
        warning: None,
    };
    let backend = Box::new(Emulated {
        adapter: Adapter::new(drive, drive.build(emulation.seed)),
        store,
        commands: Vec::new(),
        spare: Vec::new(),
        wake: None,
        touched: false,
        modelled: 0,
        late: Histogram::new(),
    });
    Ok(Opened { backend, device, facts })
}

impl Emulated {
    fn finish(&mut self, now: Instant, done: drive::Completion) -> Done {
        let pending = self.commands[(done.tag & 0xffff_ffff) as usize].take();
        let EmulatedCommand { command, mut parts, issued } =
            pending.expect("a drive answers each once");
        self.modelled += u128::from((done.at - issued).0);
        self.late.record(now.since(done.at).0);
        let result = self.store.carry_out(command, &mut parts);
        parts.clear();
        self.spare.push(parts);
        Done { tag: done.tag, result }
    }
}

impl Backend for Emulated {
    fn issue(&mut self, now: Instant, command: Command, parts: &[Part]) {
        let slot = (command.tag & 0xffff_ffff) as usize;
        if self.commands.len() <= slot {
            self.commands.resize_with(slot + 1, || None);
        }
        let mut list = self.spare.pop().unwrap_or_default();
        list.extend_from_slice(parts);
        let pending = EmulatedCommand { command, parts: list, issued: now };
        let before = self.commands[slot].replace(pending);
        assert!(before.is_none(), "tags are unique among commands under way");
        self.adapter.handle(now, command);
        self.touched = true;
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<Done>) {
        if !self.touched && self.wake.is_none_or(|at| at > now) {
            return;
        }
        self.touched = false;
        loop {
            match self.adapter.poll(now) {
                DriveOutput::Done(completion) => {
                    let answer = self.finish(now, completion);
                    done.push(answer);
                }
                DriveOutput::WaitUntil(at) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        // Asked for anew before every wait, after the last `poll` of the turn.
        self.wake
    }

    fn extents(&self, start: u64, len: u64, most: usize) -> ExtentsAnswer {
        match &self.store {
            Store::Memory(memory) => ExtentsAnswer::Now(Ok(memory.extents(start, len, most))),
            Store::File(file) => holes::look_up(file, false, start, len, most),
        }
    }

    fn emulation(&self) -> Option<EmulationFigures> {
        let commands = self.late.count();
        let mean = |sum: u128| Nanos((sum / u128::from(commands.max(1))) as u64);
        Some(EmulationFigures {
            commands,
            modelled_mean: mean(self.modelled),
            achieved_mean: mean(self.modelled + self.late.sum()),
            late_p50: Nanos(self.late.quantile(1, 2).unwrap_or(0)),
            late_p99: Nanos(self.late.quantile(99, 100).unwrap_or(0)),
        })
    }
}

/// Where the data is.
#[derive(Debug)]
enum Store {
    Memory(Memory),
    File(File),
}

impl Store {
    fn carry_out(&mut self, command: Command, parts: &mut [Part]) -> Result<(), Errno> {
        match self {
            Store::Memory(memory) => memory.carry_out(&command, parts.iter().copied()),
            Store::File(file) => {
                let mut at = command.start;
                for part in parts.iter_mut() {
                    let len = part.len() as u64;
                    let moved = match command.op {
                        Op::Read => file.read_exact_at(part.bytes_mut(), at),
                        _ => file.write_all_at(part.bytes(), at),
                    };
                    moved.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
                    at += len;
                }
                super::threads::without_data(file, command)?;
            }
        }
        Ok(())
    }
}

/// Refuses a drive that serves random reads faster, or more precisely, than this machine can act it out.
pub fn check_speed(drive: &DriveFile) -> Result<(), ServeError> {
    let refuse = |drive_figure: String, machine_figure: String| {
        Err(ServeError::TooFast { drive: drive.id.clone(), drive_figure, machine_figure })
    };
    let carried = requests_per_second(drive);
    let served = drive.iocost.rrandiops;
    if served > carried {
        return refuse(
            format!("{served} random reads per second"),
            format!("{carried} on one core"),
        );
    }
    let (late, read) = (wake_up_lateness(), single_read(drive));
    let allowed = Nanos(read.0 / 20).max(Nanos::us(100));
    if late > allowed {
        return refuse(
            format!("a random read in {} us", read.as_us()),
            format!("wake-ups {} us late (median), {} us allowed", late.as_us(), allowed.as_us()),
        );
    }
    Ok(())
}

/// What one core carries of this model: the model's own work and the copy of the data.
fn requests_per_second(drive: &DriveFile) -> u64 {
    const READS: u64 = 5_000;
    let mut adapter = Adapter::new(drive, drive.build(1));
    let clock = Clock::new();
    let mut now = Instant::ZERO;
    let (mut sent, mut served, mut source, mut copy) = (0, 0, vec![1u8; 4096], vec![0u8; 4096]);
    let began = clock.now();
    while served < READS {
        while adapter.room() && sent < READS {
            adapter.handle(now, scattered_read(drive, sent));
            sent += 1;
        }
        match adapter.poll(now) {
            DriveOutput::Done(_) => {
                copy.copy_from_slice(&source);
                std::mem::swap(&mut source, &mut copy);
                served += 1;
            }
            DriveOutput::WaitUntil(at) => now = at.expect("commands are under way"),
        }
    }
    std::hint::black_box(&source);
    let spent = clock.now().since(began).0.max(1);
    (u128::from(READS) * 1_000_000_000 / u128::from(spent)) as u64
}

/// How long the model takes for one random read on its own.
fn single_read(drive: &DriveFile) -> Nanos {
    single_command(drive, Op::Read)
}

/// How long the model takes for one random 4 KiB command on its own (mean of 20).
pub fn single_command(drive: &DriveFile, op: Op) -> Nanos {
    const READS: u64 = 20;
    let mut adapter = Adapter::new(drive, drive.build(1));
    let (mut now, mut sum) = (Instant::ZERO, Nanos::ZERO);
    for n in 0..READS {
        let issued = now;
        adapter.handle(now, drive::Command { op, ..scattered_read(drive, n) });
        loop {
            match adapter.poll(now) {
                DriveOutput::Done(done) => break sum += done.at - issued,
                DriveOutput::WaitUntil(at) => now = at.expect("a command is under way"),
            }
        }
    }
    sum / READS
}

fn scattered_read(drive: &DriveFile, n: u64) -> drive::Command {
    let blocks = drive.identity.capacity_bytes / 4096;
    // A multiplicative hash (Knuth): spread over the drive, and the same on every run.
    let block = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks;
    drive::Command { tag: n, op: Op::Read, start: block * 4096, len: 4096, fua: false }
}

/// Median of how late this machine wakes a thread that sleeps for 100 us.
fn wake_up_lateness() -> Nanos {
    crate::system::thread::precise_timers();
    let clock = Clock::new();
    let nap = Nanos::us(100);
    let mut late: Vec<u64> = (0..31)
        .map(|_| {
            let began = clock.now();
            let _ = rustix::thread::nanosleep(&timespec(nap));
            clock.now().since(began).0.saturating_sub(nap.0)
        })
        .collect();
    late.sort_unstable();
    Nanos(late[late.len() / 2])
}
