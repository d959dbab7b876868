//! Hard disk drives (specs/drives.md section 3).
//!
//! One [`Mechanism`] per actuator decides what the arm does next: it prefers the shortest
//! positioning (seek and rotation, known from the geometry) less a credit for waiting, keeps
//! reading ahead while nothing else is to be done, and writes cached data back between reads. This
//! file is what they have in common: the link, commands that span both, completions in order of
//! time.
//!
//! The consequences are what the model is for: a running sequential stream always has a request
//! that costs nothing, so a lone random reader beside many streams waits until its age outweighs a
//! seek (section 7), and a flush costs one short seek per scattered block.

mod dirty;
mod geometry;
mod mechanism;
mod queue;
mod shingled;

use super::keys::Key;
use super::rate::{Coming, Rate};
use super::{Command, Completion, Drive, DriveFile, DriveOutput, Model, Wrong, reserve};
use geometry::Geometry;
use hoistway::{Instant, Nanos, Op};
use mechanism::{Access, Mechanism};

pub(super) const MODEL: Model = Model {
    name: "hdd",
    summary: "hard disk: zones, seeks, rotation, read-ahead, write cache, reordering",
    keys: HDD_KEYS,
    check,
    build,
};

// Deviation: where the specification states no lower bound and 0 makes no drive (rpm, heads, the
// destaging chunk), the bound is 1.
const HDD_KEYS: &[Key] = &[
    Key::int("actuators", 1, 2, "Independent arm assemblies."),
    Key::int("rpm", 1, 1_000_000, "Revolutions per minute."),
    Key::int("heads", 1, 1000, "Surfaces (per actuator)."),
    Key::int("zones", 2, 10_000, "Recording zones, all with equally many tracks."),
    Key::rate("outer_mb_s", "Sustained rate of the outermost zone (per actuator)."),
    Key::rate("inner_mb_s", "Sustained rate of the innermost zone (per actuator)."),
    Key::ms("track_switch_ms", "From one track to the next; the skew between tracks."),
    Key::ms("seek_track_ms", "Seek over one cylinder."),
    Key::ms("seek_avg_ms", "Mean seek over random pairs."),
    Key::ms("seek_full_ms", "Seek over all cylinders."),
    Key::ms("write_settle_ms", "More for a write after a seek."),
    Key::knots("seek_knots", "Measured seek curve, instead of the formula.").or("the formula"),
    Key::us("cmd_overhead_us", "Controller time per command."),
    Key::int("segments", 0, 100_000, "Segments of the read buffer."),
    Key::kib("segment_kib", "Size of a segment."),
    Key::kib("readahead_kib", "How far the drive reads on after a read."),
    Key::kib("skip_gap_kib", "Gap up to which a read still continues the read-ahead."),
    Key::flag("write_cache", "Writes complete when they are in the buffer."),
    Key::kib("write_buffer_kib", "Size of the write buffer (per actuator)."),
    Key::int(
        "destage_high_pct",
        1,
        100,
        "Share of the buffer from which destaging has no penalty.",
    ),
    Key::ms("destage_idle_ms", "Idle time after which the drive destages."),
    Key::ms("destage_penalty_ms", "Handicap of destaging against waiting commands."),
    Key::kib1("destage_chunk_kib", "Most that one destaging operation writes."),
    Key::ms("age_weight_ms_per_s", "Positioning time that one second of waiting outweighs."),
    Key::ms("age_limit_ms", "Waiting time from which a command goes first; 0 = none."),
    Key::mib(
        "media_cache_mib",
        "Media cache of a drive with shingled bands (per actuator); 0: it has none.",
    )
    .or("0"),
    Key::mib("band_mib", "Size of a shingled band.").or("0"),
    Key::mib("media_cache_used_mib", "What of the cache is in use at first, of all bands alike.")
        .or("0"),
    Key::ms("clean_idle_ms", "Idle time after which bands are cleaned.").or("0"),
];

fn check(file: &DriveFile) -> Result<(), Wrong> {
    let wrong = |key, what: &str| Err(Wrong { table: "hdd", key, what: what.into() });
    if file.bool("hdd", "write_cache") && file.u64("hdd", "write_buffer_kib") < 8 {
        return wrong("write_buffer_kib", "must be at least 8 when write_cache = true");
    }
    let cache = file.u64_or_0("hdd", "media_cache_mib") << 20;
    if cache > 0 {
        check_shingles(file, cache)?;
    }
    if shares(file).into_iter().any(|share| Geometry::new(file, cache + share).is_none()) {
        let what = "makes no drive: a track must hold at least a sector, and a whole read may not \
                    take more than a century; check the rates, rpm, zones and capacity";
        return wrong("outer_mb_s", what);
    }
    Ok(())
}

fn check_shingles(file: &DriveFile, cache: u64) -> Result<(), Wrong> {
    let wrong = |key, what: &str| Err(Wrong { table: "hdd", key, what: what.into() });
    let band = file.u64_or_0("hdd", "band_mib") << 20;
    if band == 0 || band > cache {
        return wrong("band_mib", "must be at least 1 and at most media_cache_mib");
    }
    if file.u64_or_0("hdd", "media_cache_used_mib") << 20 > cache {
        return wrong("media_cache_used_mib", "must be at most media_cache_mib");
    }
    if !file.bool("hdd", "write_cache") || file.host.fua {
        return wrong("media_cache_mib", "needs write_cache = true and [host] fua = false");
    }
    Ok(())
}

fn build(file: &DriveFile, _seed: u64) -> Box<dyn Drive> {
    Box::new(Hdd::new(file))
}

/// First byte of the second actuator.
pub(super) fn border(file: &DriveFile) -> u64 {
    let sector = file.identity.sector_bytes;
    file.identity.capacity_bytes / 2 / sector * sector
}

/// Bytes of each actuator.
fn shares(file: &DriveFile) -> Vec<u64> {
    let capacity = file.identity.capacity_bytes;
    match file.u64("hdd", "actuators") {
        2 => vec![border(file), capacity - border(file)],
        _ => vec![capacity],
    }
}

/// A drive with one or two actuators. Nothing in it is random.
#[derive(Debug)]
struct Hdd {
    overhead: u64,
    border: u64,
    capacity: u64,
    mechanisms: Vec<Mechanism>,
    bus: Bus,
}

/// What the mechanisms share: the link and the commands they work for.
#[derive(Debug)]
struct Bus {
    /// Rates towards the host and towards the drive.
    rates: [Rate; 2],
    full_duplex: bool,
    /// Time at which the link is free, towards the host and towards the drive.
    free: [u64; 2],
    jobs: Vec<HeldCommand>,
    spare: Vec<u32>,
    ended: Coming,
}

/// A command while the drive has it. Up to two parts, one per actuator.
#[derive(Clone, Copy, Debug)]
struct HeldCommand {
    parts: u32,
    completion: Completion,
}

impl Hdd {
    fn new(file: &DriveFile) -> Hdd {
        let capacity = file.identity.capacity_bytes;
        let shares = shares(file);
        let border = shares[0];
        Hdd {
            overhead: (file.f64("hdd", "cmd_overhead_us") * 1e3 + 0.5) as u64,
            border,
            capacity,
            mechanisms: shares.into_iter().map(|share| Mechanism::new(file, share)).collect(),
            bus: Bus {
                rates: [file.link.read_rate, file.link.write_rate].map(|r| Rate::mb_s(r / 1e6)),
                full_duplex: file.link.full_duplex,
                free: [0; 2],
                jobs: Vec::new(),
                spare: Vec::new(),
                ended: Coming::default(),
            },
        }
    }

    /// The mechanism with the earliest event, and its time; `u64::MAX`: none has any.
    #[inline]
    fn next(&self) -> (u64, usize) {
        let first = (self.mechanisms[0].next_event(), 0);
        if self.mechanisms.len() == 1 {
            return first;
        }
        let others = self.mechanisms[1..].iter().map(Mechanism::next_event).zip(1..);
        others.fold(first, |least, other| if other.0 < least.0 { other } else { least })
    }
}

impl Drive for Hdd {
    fn handle(&mut self, now: Instant, command: Command) {
        let now = now.as_nanos();
        loop {
            let (at, n) = self.next();
            if at > now {
                break;
            }
            self.mechanisms[n].advance(at, &mut self.bus);
        }
        let Command { op, start, len, .. } = command;
        let end = start + len;
        let media = matches!(op, Op::Read | Op::Write | Op::WriteZeroes);
        assert!(end <= self.capacity, "a command ends behind the drive");
        assert!(len > 0 || !media, "a command without data");
        let job = self.bus.open(command.tag);
        match op {
            Op::Discard => self.bus.end(job, now + self.overhead, [0, self.overhead, 0]),
            Op::Flush => {
                self.bus.jobs[job as usize].parts = self.mechanisms.len() as u32;
                for mechanism in &mut self.mechanisms {
                    mechanism.flush(now, job, &mut self.bus);
                }
            }
            Op::Read | Op::Write | Op::WriteZeroes => {
                let write = op != Op::Read;
                let access = |start, end| Access { job, write, fua: command.fua, start, end };
                let (first, second) = (start..end.min(self.border), start.max(self.border)..end);
                self.bus.jobs[job as usize].parts =
                    u32::from(!first.is_empty()) + u32::from(!second.is_empty());
                if !first.is_empty() {
                    self.mechanisms[0].access(now, access(first.start, first.end), &mut self.bus);
                }
                if !second.is_empty() {
                    let (from, to) = (second.start - self.border, second.end - self.border);
                    self.mechanisms[1].access(now, access(from, to), &mut self.bus);
                }
            }
        }
    }

    fn poll(&mut self, now: Instant) -> DriveOutput {
        loop {
            let (event, n) = self.next();
            let ended = self.bus.ended.next_at();
            if ended <= event
                && let Some(done) = self.bus.ended.pop_due(now)
            {
                return DriveOutput::Done(done);
            }
            if event > now.as_nanos() {
                let next = event.min(ended);
                return DriveOutput::WaitUntil(
                    (next != u64::MAX).then(|| Instant::from_nanos(next)),
                );
            }
            self.mechanisms[n].advance(event, &mut self.bus);
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(Instant::from_nanos(self.next().0.min(self.bus.ended.next_at())))
    }
}

impl Bus {
    /// With so many commands that are open.
    #[cfg(test)]
    fn for_tests(file: &DriveFile, jobs: u64) -> Bus {
        let mut bus = Hdd::new(file).bus;
        (0..jobs).for_each(|tag| {
            bus.open(tag);
        });
        bus
    }

    fn open(&mut self, tag: u64) -> u32 {
        let none = Nanos::ZERO;
        let completion =
            Completion { tag, at: Instant::ZERO, waiting: none, media: none, transfer: none };
        let job = HeldCommand { parts: 1, completion };
        match self.spare.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = job;
                slot
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        }
    }

    /// A part of a job is over at `at`; its time went into [waiting, media, transfer]. The part
    /// that ends last gives the job's figures.
    fn end(&mut self, job: u32, at: u64, spent: [u64; 3]) {
        let entry = &mut self.jobs[job as usize];
        entry.parts = entry.parts.checked_sub(1).expect("a part ends once");
        let at = Instant::from_nanos(at);
        if at >= entry.completion.at {
            let [waiting, media, transfer] = spent.map(Nanos);
            entry.completion = Completion { at, waiting, media, transfer, ..entry.completion };
        }
        if entry.parts == 0 {
            self.ended.insert(entry.completion);
            self.spare.push(job);
        }
    }

    /// Time of `len` bytes on the link.
    fn dur(&self, write: bool, len: u64) -> u64 {
        self.rates[usize::from(write)].dur(len)
    }

    /// Moves `len` bytes not before `earliest`; returns the end.
    fn transfer(&mut self, write: bool, earliest: u64, len: u64) -> u64 {
        let d = self.dur(write, len);
        let free = &mut self.free[usize::from(write && self.full_duplex)];
        reserve(free, earliest, d)
    }

    /// The end of a transfer that ran beside the medium since `begin`; not before `least`.
    // Deviation: 3.5 step 5 charges the last 4096 bytes only. The whole length is charged from the
    // first byte on, so that data which the read-ahead held already cannot beat the link (8.2, item
    // 6).
    fn overlapped(&mut self, write: bool, begin: u64, len: u64, least: u64) -> u64 {
        let end = self.transfer(write, begin, len).max(least);
        self.free[usize::from(write && self.full_duplex)] = end;
        end
    }
}

#[cfg(test)]
mod tests;
