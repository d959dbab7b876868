//! What an I/O controller of the kernel's was asked, and when it let go, fed to ours.
//!
//! *Problem.* A controller answers with time: an I/O is held, for how long, and who is charged. Bytes per second over a
//! run agree long before its decisions do, and the host, the drive and the scheduler have their part in them.
//!
//! *Idea.* The recording says what came when: bios with their groups, completions, settings, groups that went. Ours is
//! told the same at the same instants, and alone decides when a bio goes on. Both instants are compared bio by bio; what
//! Linux did next is taken from the recording whatever ours did (an open loop), so a difference does not spread by way
//! of the load.
//!
//! A recording has the columns of the second form ([`crate`]); `request` is the number of a bio, `ctx` that of the
//! process which submits it:
//!
//! ```text
//!   device   "controller=NAME rotational=R created_tick=N tick_ns=T max_sectors=N max_segments=N tags=N noweights timers"
//!   write    a file of `group` was written: "FILE VALUE", in which DEV stands for the number of the device
//!   enter    a bio meets the controller. io.max: its answer, `pass` or `hold`, or `free` if it was not asked, since no
//!            limit applies; `segments` is 1 if the bio's bytes were counted before. Others: "issue=NS", the instant
//!            from which its latency counts
//!   pass     it goes on; of io.max only for what was held
//!   back     io.max: the worker that has handed it on is free again
//!   track    io.cost: request `ctx` was made for it
//!   join     it joined request `ctx` and does not enter
//!   over     it is over
//!   done     request `request` is over: "alloc=NS start=NS issue=NS sectors=N"
//!   timer    a timer of the controller fired
//!   remove   the group is gone
//!   buffered process `ctx` writes through the page cache
//!   stat     what `io.stat` of the group says
//! ```
//!
//! io.max keeps time in ticks, so an instant is its tick; the kernel counts them from 300 s before it wraps, and slices
//! begin at multiples. What io.max lets go is handed on by one worker, which may wait for a tag with a bio: bios behind
//! it pass later than io.max decided. The lines `back` tell.
//!
//! A group that is removed is there, and all above it, for as long as its pages are written and the disk's inode is
//! attached to it. The recording has no line for that. All that the page cache writes is for the group which has the
//! inode: while no bio tells that another one has it, a removed group that had it stays. Once one does, ours lets the
//! group go behind its last bio; how much later it goes nothing tells. The line `remove` comes with the next bio or
//! completion, so periods of io.cost that end before it may have had the group or not.
//!
//! A bio that is let go passes when its task runs, behind others on the one processor. That is no difference as long as
//! the processor was not idle meanwhile: a task that computes reads the clock, by which virtual time moves, so lines
//! follow each other by a few ns.
//!
//! *Guarantees.* A difference is counted for each bio that does not pass at the same instant. Per process there are the
//! bytes that passed and the time that bios were held, in both ([`Process`]).

mod run;
mod told;

use crate::line::{HEADER_2, Line, number};
use crate::{Mistake, Outcome, version};
use hoistway::unit::{Instant, Nanos};
pub use run::replay;

/// Controllers whose decisions can be compared.
pub const CONTROLLERS: [&str; 3] = ["io.max", "io.cost", "io.latency"];

/// What one process got in both, of the bios it submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number in the recording.
    pub number: u64,
    /// Bios that met the controller.
    pub ios: u64,
    /// Bytes that passed in Linux, and in ours.
    pub bytes: [u64; 2],
    /// How long its bios were held in Linux, and in ours, all together.
    pub held: [Nanos; 2],
}

impl Process {
    /// How far the two are apart in bytes or in time held, whichever is more, in parts of a million of the larger.
    pub fn apart_ppm(&self) -> u64 {
        let of = |[a, b]: [u64; 2]| match a.max(b) {
            0 => 0,
            most => u64::try_from(u128::from(a.abs_diff(b)) * 1_000_000 / u128::from(most))
                .unwrap_or(u64::MAX),
        };
        of(self.bytes).max(of(self.held.map(|held| held.0)))
    }
}

/// Is the text a recording of a controller?
pub fn is_one(recording: &str) -> bool {
    let mut lines = recording.lines();
    lines.next() == Some(HEADER_2)
        && lines
            .next()
            .is_some_and(|line| line.starts_with("device,") && line.contains("controller="))
}

/// What the `device` line tells.
#[derive(Clone, Debug, Default)]
struct Device {
    controller: String,
    /// The kernel's, as 6.12; none: not told.
    release: Option<(u32, u32)>,
    rotational: bool,
    tick: u64,
    tags: u64,
}

impl Device {
    fn read(line: &Line<'_>) -> Result<Device, String> {
        let mut device = Device::default();
        for word in line.result.split_whitespace() {
            match word.split_once('=') {
                Some(("controller", name)) => device.controller = name.to_string(),
                Some(("release", release)) => device.release = Some(version(release)),
                Some(("rotational", n)) => device.rotational = n == "1",
                Some(("tick_ns", n)) => device.tick = number(n)?,
                Some(("tags", n)) => device.tags = number(n)?,
                _ => {}
            }
        }
        match device {
            Device { tick: 0, .. } | Device { tags: 0, .. } => {
                Err("the device line tells of no tick_ns or of no tags".to_string())
            }
            device => Ok(device),
        }
    }
}

/// How the kernel's clocks look to ours.
#[derive(Clone, Copy, Debug)]
struct Clock {
    tick: u64,
    /// Of a clock in ticks: the number of the first.
    first: Option<u64>,
    /// ns from the last edge of a tick to 0 of the clock in ns.
    phase: u64,
}

/// The kernel's ticks wrap, in 32 bits, so long after it has started, in seconds.
const WRAPS_AFTER: u64 = 300;

impl Clock {
    /// io.max reads ticks alone. `lines` are all of the recording.
    fn new(device: &Device, lines: &[(usize, Line<'_>)]) -> Result<Clock, String> {
        if device.controller == "io.max" {
            let per_second = 1_000_000_000 / device.tick;
            let first = (1u64 << 32).checked_sub(WRAPS_AFTER * per_second);
            let first =
                first.ok_or_else(|| format!("no kernel has a tick of {} ns", device.tick))?;
            return Ok(Clock { tick: device.tick, first: Some(first), phase: 0 });
        }
        // The counter of ticks may lag the time, but never leads it.
        let mut phase = u64::MAX;
        for (_, line) in lines.iter().filter(|(_, line)| !line.ns.is_empty()) {
            let edge = number(line.tick)?.saturating_mul(device.tick);
            phase = phase.min(number(line.ns)?.saturating_sub(edge));
        }
        // Of few lines none may lie at the edge of a tick. io.cost counts whole microseconds, which are to begin where those
        // of the kernel do.
        let phase = phase % device.tick / 1000 * 1000;
        Ok(Clock { tick: device.tick, first: None, phase })
    }

    fn at(&self, ns: u64, tick: u64) -> Result<Instant, String> {
        let at = match self.first {
            Some(first) => tick.checked_add(first).and_then(|tick| tick.checked_mul(self.tick)),
            None => Some(ns.saturating_sub(self.phase)),
        };
        at.filter(|&at| at < 1 << 57)
            .map(Instant::from_nanos)
            .ok_or_else(|| format!("tick {tick} is later than any clock"))
    }
}

/// The lines of a recording but the first, with their numbers.
fn lines(recording: &str) -> Result<Vec<(usize, Line<'_>)>, Mistake> {
    let mut all = Vec::new();
    for (n, text) in (1..).zip(recording.lines()).skip(1) {
        all.push((n, Line::split(text).map_err(|what| Mistake::Line { line: n, what })?));
    }
    Ok(all)
}

impl Outcome {
    /// Of a controller: each process got the same within 1 % in bytes and in time held.
    pub fn is_close(&self) -> bool {
        self.apart_ppm().is_some_and(|ppm| ppm <= CLOSE_PPM)
    }

    /// Of a controller: how far apart the process is of which the two are furthest apart.
    pub fn apart_ppm(&self) -> Option<u64> {
        self.processes.iter().map(Process::apart_ppm).max()
    }
}

/// What counts as the same for a process, in parts of a million.
const CLOSE_PPM: u64 = 10_000;
