//! Write-back throttling: few enough buffered writes and discards in flight that reads stay fast.
//!
//! # The problem and the idea
//!
//! The flusher writes as fast as the device takes it; a read behind a full queue of such writes waits
//! for all of them. Writes that nobody waits for are limited to a depth, and the depth follows the
//! reads: halved while the best read of a window is slower than the target, doubled while no read
//! complains. No groups: one state per device.
//!
//! # State
//!
//! `step` scales the depth: with D tags and base = min(depth, D)
//!
//! ```text
//!   step = 0    base
//!   step > 0    1 + ((base - 1) >> step)
//!   step < 0    1 + ((base - 1) << -step), at most 3 D / 4
//! ```
//!
//! From it follow two smaller limits: `normal` is half of it, `background` a quarter. Three counters,
//! each compared with the limit of whoever asks: ordinary writes, writes that free memory (swap), and
//! discards. Who finds its counter at the limit waits, FIFO per counter.
//!
//! # Windows
//!
//! The first limited write opens a window of 100 ms. At its end the smallest read latency (time at the
//! device) of the window decides: above the target one step down, else one step up; no reads but writes
//! is a step up as well; too little of either, five times in a row, leads a step back towards 0. A read
//! that has been with the device for a whole window decides before it is complete.
//!
//! # Weaknesses
//!
//! The limit knows reads only by their fastest: one fast read per window keeps the depth up. Direct
//! writes pass unlimited. A scheduler that delays writes itself (BFQ) makes it superfluous, which is why
//! Linux turns it off there.
//!
//! Source: specs/io-max-throttling.md C.

use super::{Controller, Entry, Gate, Verdict};
use crate::device::Device;
use crate::env::Cx;
use crate::request::{BioId, Dir, Flags, Io, Op, ReqId};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Change, Figure, Gauge, Stage, StageInfo};
use crate::unit::{Instant, Nanos};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "wbt",
        summary: "write-back throttling: buffered writes in flight limited by the latency of reads",
        source: "specs/io-max-throttling.md C",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    gate: Gate::BeforeTag,
    build: &|device| Box::new(Wbt::new(device)),
};

/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
struct WbtConf {
    target: Nanos,
    /// Length at step 0.
    window: Nanos,
    /// At step 0.
    depth: u32,
}

/// Makes what a row says of its change true.
type WbtEffect = fn(&mut Wbt, Instant);

const ROWS: &[Setting<WbtConf, WbtEffect>] = &[
    Tunable::new(
        "target",
        Unit::Micros,
        2_000,
        (0, 10_000_000),
        "Read latency above which writes are held back; 0: off. On a rotational device the \
         default is 75000.",
    )
    .field_then(
        |c| c.target.as_us(),
        |c, v| c.target = Nanos::us(v),
        |w, _| w.target_changed(),
    ),
    Tunable::new(
        "window",
        Unit::Millis,
        100,
        (1, 10_000),
        "Length of a window at step 0; a step down shortens it.",
    )
    .on_change(OnChange::Limits)
    .field_then(|c| c.window.as_ms(), |c, v| c.window = Nanos::ms(v), Wbt::window_changed),
    Tunable::new(
        "depth",
        Unit::Requests,
        16,
        (1, 1024),
        "Writes in flight at step 0, or the device's depth if that is smaller.",
    )
    .field(|c| c.depth.into(), |c, v| c.depth = v as u32),
];
static SETTINGS: Settings<WbtConf, WbtEffect> = Settings::new("wbt", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

/// Default target of a rotational device.
/// Chosen in Linux: about what a read takes on a loaded disk; the 2 ms of `target` are the same for flash.
const TARGET_ROTATIONAL: Nanos = Nanos::ms(75);
/// A task has slept on the dirty limit lately.
const DIRTY_SLEEP_RECENT: Nanos = Nanos::secs(1);
/// A read was issued or completed lately.
const READ_RECENT: Nanos = Nanos::ms(100);
/// So many windows in a row that say nothing lead a step back.
/// Windows without a sign must not freeze a depth that a burst long past has set.
const UNKNOWN_MAX: u32 = 5;
/// A window with reads says something only from so many writes on.
/// A slow read alone may be a drive that wakes up.
const WRITES_MIN: u64 = 3;

/// Which counter an I/O counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteKind {
    Background,
    Reclaim,
    Discard,
}

const CLASSES: [WriteKind; 3] = [WriteKind::Background, WriteKind::Reclaim, WriteKind::Discard];

/// One counter and who waits for it.
#[derive(Debug, Default)]
struct WriteLane {
    inflight: u32,
    waiting: VecDeque<HeldWrite>,
    /// Those at the head may try.
    woken: bool,
}

/// A held bio, and what its limit depends on.
#[derive(Clone, Copy, Debug)]
struct HeldWrite {
    bio: BioId,
    urgency: Urgency,
}

/// Facts that the limit of a submission depends on beside the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// Somebody waits for it.
    High,
    Normal,
    /// The flusher's own.
    Low,
}

/// The limits that follow from a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Depths {
    max: u32,
    normal: u32,
    background: u32,
}

/// Evidence of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Exceeded,
    Fine,
    OnlyWrites,
    Unknown,
}

/// State of one device.
#[derive(Debug)]
pub struct Wbt {
    conf: WbtConf,

    device_depth: u32,
    write_cache: bool,
    step: i32,
    at_maximum: bool,
    depths: Depths,
    lanes: [WriteLane; 3],
    /// By bio slot: the counter it counts in.
    counted: Vec<Option<WriteKind>>,

    /// The watched read, and when it was issued.
    watched: Option<(ReqId, Instant)>,
    last_read: Option<Instant>,
    last_dirty_sleep: Option<Instant>,

    /// End of the window.
    window_end: Option<Instant>,
    window_length: Nanos,
    read_ns_min: Option<u64>,
    writes: u64,
    unknown: u32,

    held: u64,
    scaled_down: u64,
    scaled_up: u64,
}

impl Wbt {
    fn new(device: &Device) -> Wbt {
        let mut conf = SETTINGS.defaults();
        if device.rotational {
            conf.target = TARGET_ROTATIONAL;
        }
        let mut this = Wbt {
            conf,
            device_depth: device.queue_depth,
            write_cache: device.write_cache,
            step: 0,
            at_maximum: false,
            depths: Depths::default(),
            lanes: core::array::from_fn(|_| WriteLane {
                waiting: VecDeque::with_capacity(64),
                ..WriteLane::default()
            }),
            counted: Vec::new(),
            watched: None,
            last_read: None,
            last_dirty_sleep: None,
            window_end: None,
            window_length: conf.window,
            read_ns_min: None,
            writes: 0,
            unknown: 0,
            held: 0,
            scaled_down: 0,
            scaled_up: 0,
        };
        this.compute_depths();
        this
    }

    fn off(&self) -> bool {
        self.conf.target == Nanos::ZERO
    }

    fn compute_depths(&mut self) {
        let (max, at_maximum) = max_depth(self.device_depth, self.conf.depth, self.step);
        self.at_maximum = at_maximum;
        self.depths = match max {
            0..=2 => Depths { max, normal: max, background: 1 },
            _ => Depths { max, normal: max.div_ceil(2), background: max.div_ceil(4) },
        };
        // Whoever waits may try the new limits.
        self.lanes.iter_mut().for_each(|l| l.woken = !l.waiting.is_empty());
    }

    fn dirty_sleep_is_recent(&self, now: Instant) -> bool {
        self.last_dirty_sleep.is_some_and(|at| now.since(at) < DIRTY_SLEEP_RECENT)
    }

    ///
    /// The full depth where somebody waits for the write itself: a sync, memory to be freed, a task asleep
    /// on the dirty limit. A quarter while reads are about, half otherwise.
    fn limit(&self, now: Instant, class: WriteKind, urgency: Urgency) -> u32 {
        let read_is_recent = || self.last_read.is_some_and(|at| now.since(at) < READ_RECENT);
        if self.off() {
            u32::MAX
        } else if class == WriteKind::Discard {
            self.depths.background
        } else if urgency == Urgency::High
            || class == WriteKind::Reclaim
            || self.dirty_sleep_is_recent(now)
        {
            self.depths.max
        } else if urgency == Urgency::Low || read_is_recent() {
            self.depths.background
        } else {
            self.depths.normal
        }
    }

    /// Counts a bio that passes.
    fn count(&mut self, bio: BioId, class: WriteKind) {
        let slot = bio.0.slot as usize;
        if self.counted.len() <= slot {
            // The table of bios grows by doubling, and so does this.
            self.counted.resize((slot + 1).next_power_of_two(), None);
        }
        self.counted[slot] = Some(class);
        self.lanes[class as usize].inflight += 1;
    }

    /// A counted I/O is over: wakes those who wait for its counter if that is worth it.
    fn done(&mut self, now: Instant, class: WriteKind) {
        let limit = match class {
            WriteKind::Discard => self.depths.background,
            // Nobody waits for the writes, and the cache has to be written out some time: let it drain.
            _ if self.write_cache && !self.dirty_sleep_is_recent(now) => 0,
            _ => self.depths.normal,
        };
        let lane = &mut self.lanes[class as usize];
        lane.inflight -= 1;
        let inflight = lane.inflight;
        if inflight > 0 && inflight >= limit {
            return;
        }
        if inflight == 0 || limit - inflight >= self.depths.background / 2 {
            lane.woken = !lane.waiting.is_empty();
        }
    }

    fn open_window(&mut self, now: Instant) {
        (self.read_ns_min, self.writes) = (None, 0);
        self.window_end = Some(now + self.window_length);
    }

    fn in_flight(&self) -> u32 {
        self.lanes.iter().map(|l| l.inflight).sum()
    }

    /// Evidence of the window that ends.
    ///
    /// The *smallest* latency of the window, as in CoDel: it exceeds the target only if there is a standing
    /// queue, while a mean also rises with a burst.
    fn sign(&self, now: Instant) -> Sign {
        if let Some((_, issued)) = self.watched {
            let outstanding = now.since(issued);
            let no_read = self.read_ns_min.is_none();
            if outstanding > self.window_length || (outstanding > self.conf.target && no_read) {
                return Sign::Exceeded;
            }
        }
        match self.read_ns_min {
            Some(read) if self.writes >= WRITES_MIN => {
                if read > self.conf.target.0 {
                    Sign::Exceeded
                } else {
                    Sign::Fine
                }
            }
            _ if self.writes > 0 || self.dirty_sleep_is_recent(now) || self.in_flight() > 0 => {
                Sign::OnlyWrites
            }
            _ => Sign::Unknown,
        }
    }

    fn scale_up(&mut self) {
        if self.at_maximum {
            return;
        }
        self.step -= 1;
        self.unknown = 0;
        self.scaled_up += 1;
        self.compute_depths();
    }

    /// `hard`: a step that was up goes back to 0 at once.
    fn scale_down(&mut self, hard: bool) {
        if self.depths.max == 1 {
            return;
        }
        self.step = if self.step < 0 && hard { 0 } else { self.step + 1 };
        self.unknown = 0;
        self.scaled_down += 1;
        self.compute_depths();
    }

    fn end_window(&mut self, now: Instant) {
        match self.sign(now) {
            Sign::Exceeded => self.scale_down(true),
            Sign::Fine | Sign::OnlyWrites => self.scale_up(),
            Sign::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN_MAX {
                    match self.step {
                        1.. => self.scale_up(),
                        ..=-1 => self.scale_down(false),
                        0 => {}
                    }
                }
            }
        }
        self.window_length = match self.step {
            // floor(16 window / isqrt(256 (step + 1)))
            1.. => Nanos(16 * self.conf.window.0 / ((self.step as u64 + 1) * 256).isqrt()),
            _ => self.conf.window,
        };
        if self.step != 0 || self.in_flight() > 0 {
            self.open_window(now);
        } else {
            self.window_end = None;
        }
    }
}

/// The depth of a step, and whether it may not grow any more.
fn max_depth(device: u32, usual: u32, step: i32) -> (u32, bool) {
    if device == 1 {
        // One command at a time: the other one is the next.
        return (if step > 0 { 1 } else { 2 }, false);
    }
    let base = u64::from(usual.min(device));
    let by = step.unsigned_abs().min(31);
    let depth = if step > 0 { 1 + ((base - 1) >> by) } else { 1 + ((base - 1) << by) };
    let most = u64::from(device) * 3 / 4;
    let at_maximum = step < 0 && depth > most;
    (if at_maximum { most } else { depth } as u32, at_maximum)
}

/// The counter of an I/O; `None`: it is not limited.
fn class(io: &Io) -> Option<WriteKind> {
    let direct = io.flags.any(Flags::SYNC) && io.flags.any(Flags::IDLE);
    match io.op {
        Op::Discard => Some(WriteKind::Discard),
        // Deviation: Linux asks whether the memory reclaimer itself submits; that it writes to swap is
        // what an I/O tells.
        Op::Write if !direct && io.flags.any(Flags::SWAP) => Some(WriteKind::Reclaim),
        Op::Write if !direct => Some(WriteKind::Background),
        _ => None,
    }
}

fn urgency(io: &Io) -> Urgency {
    if io.flags.any(Flags::SYNC | Flags::META | Flags::PRIO) {
        Urgency::High
    } else if io.flags.any(Flags::BACKGROUND) {
        Urgency::Low
    } else {
        Urgency::Normal
    }
}

impl Controller for Wbt {
    fn submit(&mut self, now: Instant, bio: BioId, cx: &mut Cx<'_>) -> Verdict {
        let io = cx.requests.bio(bio);
        if self.off() {
            return Verdict::Pass;
        }
        if io.op == Op::Read {
            self.last_read = Some(now);
            return Verdict::Pass;
        }
        let Some(class) = class(io) else { return Verdict::Pass };
        let urgency = urgency(io);
        if self.window_end.is_none() {
            self.open_window(now);
        }
        let limit = self.limit(now, class, urgency);
        let lane = &mut self.lanes[class as usize];
        if lane.waiting.is_empty() && lane.inflight < limit {
            self.count(bio, class);
            return Verdict::Pass;
        }
        lane.waiting.push_back(HeldWrite { bio, urgency });
        self.held += 1;
        Verdict::Hold
    }

    fn release(&mut self, now: Instant, _cx: &mut Cx<'_>) -> Option<BioId> {
        for class in CLASSES {
            if !self.lanes[class as usize].woken {
                continue;
            }
            if let Some(&HeldWrite { bio, urgency }) = self.lanes[class as usize].waiting.front()
                && self.lanes[class as usize].inflight < self.limit(now, class, urgency)
            {
                self.lanes[class as usize].waiting.pop_front();
                self.count(bio, class);
                return Some(bio);
            }
            // The first that fails stops those behind it.
            self.lanes[class as usize].woken = false;
        }
        None
    }

    fn drain(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<BioId> {
        CLASSES.into_iter().find_map(|class| {
            let HeldWrite { bio, .. } = self.lanes[class as usize].waiting.pop_front()?;
            self.count(bio, class);
            Some(bio)
        })
    }

    fn issue(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if self.watched.is_none() && cx.requests[id].op == Op::Read {
            self.watched = Some((id, now));
        }
    }

    fn requeue(&mut self, _now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        if self.watched.is_some_and(|(watched, _)| watched == id) {
            self.watched = None;
        }
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.requeue(now, id, cx);
        let r = &cx.requests[id];
        if r.op == Op::Read {
            self.last_read = Some(now);
            let ns = now.since(r.issued).0;
            self.read_ns_min = Some(self.read_ns_min.map_or(ns, |min| min.min(ns)));
            return;
        }
        if r.dir() == Dir::Write && r.op != Op::Flush {
            self.writes += 1;
        }
        // Deviation: of a request that another has absorbed Linux counts the end at that moment; here
        // its bios end with the one they belong to now.
        for (bio, _) in cx.requests.bios(id) {
            let counted = self.counted.get_mut(bio.0.slot as usize).and_then(Option::take);
            if let Some(class) = counted {
                self.done(now, class);
            }
        }
    }
}

impl Wbt {
    /// Turned off, it observes nothing any more.
    fn target_changed(&mut self) {
        if self.off() {
            (self.window_end, self.step, self.unknown) = (None, 0, 0);
            self.window_length = self.conf.window;
        }
    }

    /// The window under way ends no later than one that began now.
    fn window_changed(&mut self, now: Instant) {
        self.window_length = self.conf.window;
        self.window_end = self.window_end.map(|end| end.min(now + self.window_length));
    }
}

impl Stage for Wbt {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn changed(&mut self, now: Instant, change: &Change, cx: &mut Cx<'_>) {
        match change {
            Change::DirtySlept(_) => self.last_dirty_sleep = Some(now),
            Change::Device => {
                self.device_depth = cx.device.queue_depth;
                self.write_cache = cx.device.write_cache;
                self.compute_depths();
            }
            _ => {}
        }
    }

    fn timer(&mut self, now: Instant, _cx: &mut Cx<'_>) {
        self.end_window(now);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.window_end
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        if let Some(effect) = SETTINGS.set(&mut self.conf, name, value)?.effect {
            effect(self, now);
        }
        self.compute_depths();
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }

    fn gauges(&self, _now: Instant, _cx: &Cx<'_>, sink: &mut dyn FnMut(Gauge)) {
        let mut gauge = |name, unit, value: i64| sink(Gauge { name, unit, group: None, value });
        gauge("step", "", self.step.into());
        gauge("depth", "requests", if self.off() { -1 } else { self.depths.max.into() });
        gauge("in_flight", "requests", self.in_flight().into());
        let waiting: usize = self.lanes.iter().map(|l| l.waiting.len()).sum();
        gauge("queued", "I/Os", waiting as i64);
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut figure = |name, value: u64| sink(Figure { name, of: None, value: value as i64 });
        figure("held_ios", self.held);
        figure("scaled_down", self.scaled_down);
        figure("scaled_up", self.scaled_up);
    }
}

#[cfg(test)]
mod tests;
