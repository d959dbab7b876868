//! Flash drives: SATA SSD, NVMe, eMMC (specs/drives.md section 4).
//!
//! The drive is a set of resources, each a time from which it is free: the controller, the link (one
//! or two directions), every channel, every die. A command reserves what it needs when it is taken;
//! its completion is known from then on, so that there is one event per command and not one per
//! flash operation. Order of taking: [`arbiter`]. Dies, buffer and programs: [`array`], [`releases`].
//!
//! *Dispatch gate*: a command is taken only while controller and link are reserved for no more than
//! `dispatch_window_us`; what waits behind it can still be reordered. The moments at which the gate
//! opens need no wake from outside: nothing but a new command could change what happens then, so they
//! are worked off, each at its own time, before the next command or completion. `WaitUntil` names the
//! end of the reservation that closes the gate, before which nothing can complete.
//!
//! *Flush*: not a transfer, so it takes effect on arrival: pending bytes go to the dies; then the tables
//! are made safe, which costs a fixed part (`flush_us`) and a part for every page written since the last
//! flush: its entry of the map, 8 bytes, goes to a log of flash pages. Writes that wait in the drive are
//! not complete and need not be covered.

mod arbiter;
mod array;
mod releases;

use super::keys::Key;
use super::rate::{Coming, Rate, us};
use super::{Command, Drive, DriveFile, DriveOutput, Model, Wrong, reserve};
use crate::rng::{self, Rng};
use arbiter::{Arbiter, Queued};
use array::Array;
use hoistway::{Instant, Op};

/// What one entry of the map covers, and its size in the log.
const MAPPED: u64 = 4096;
const ENTRY: u64 = 8;

/// The entry in the list of models.
pub const MODEL: Model = Model {
    name: "flash",
    summary: "SATA SSD, NVMe drive, eMMC: dies, channels, write buffer, garbage collection",
    keys: FLASH_KEYS,
    check,
    build: |file, seed| Box::new(Flash::new(&FlashParams::from_file(file), seed, &file.id)),
};

/// Keys of `[flash]`.
pub const FLASH_KEYS: &[Key] = &[
    Key::word("cells", &["slc", "mlc", "tlc", "qlc"], "Kind of cells, for display."),
    Key::int("channels", 1, 1 << 16, "Channels."),
    Key::int("dies", 1, 1 << 16, "Units that read independently; a multiple of the channels."),
    Key::int("page_kib", 1, 1 << 20, "A page: what one array read delivers."),
    Key::int("stripe_kib", 1, 1 << 20, "Consecutive bytes on one die."),
    Key::int("program_unit_kib", 1, 1 << 20, "What one program writes."),
    Key::int("block_kib", 1, 1 << 30, "What one erase frees."),
    Key::int("write_buffer_kib", 1, 1 << 30, "Write buffer."),
    Key::us("read_us", "Array read of a page."),
    Key::us("program_us", "Program of a unit."),
    Key::us("erase_us", "Erase of a block."),
    Key::us("suspend_us", "A read waits no longer for a program; 0: until its end."),
    Key::us("cmd_read_us", "Controller time per read."),
    Key::us("cmd_write_us", "Controller time per write."),
    Key::us("pipeline_us", "Latency added to every command."),
    Key::us("write_ack_us", "Latency added to every write."),
    Key::us("flush_us", "Mapping tables and journal of a flush."),
    Key::us("prefetch_us", "Array time that sequential reads hide."),
    Key::us("dispatch_window_us", "Reserved time above which the drive takes no command."),
    Key::rate("channel_mb_s", "Rate of a channel."),
    Key::word("flush_blocks", &["all", "none"], "What waits for the end of a flush."),
    Key::flag("plp", "Power-loss protection: a flush need not wait for programs."),
    Key::kib("seq_quantum_kib", "Turn of a sequential stream; 0: order of arrival."),
    Key::num("quantum_jitter", 0.0, 1.0, "Relative spread of the quantum."),
    Key::num("read_jitter", 0.0, 1.0, "Relative spread of the array read time."),
    Key::event_ms("hiccup_interval_ms", "Mean time between pauses of the controller; 0: none."),
    Key::us("hiccup_us", "Mean length of such a pause."),
    Key::mib("slc_cache_mib", "Bytes that are programmed in SLC mode first; 0: none."),
    Key::us("slc_program_us", "Program of a unit in SLC mode."),
    Key::num("slc_fold_mb_s", 0.0, 1e6, "Rate at which idle time empties the SLC cache."),
    Key::num("overprovision_pct", 0.0, 1e6, "Spare capacity, for display."),
    Key::mib("clean_pool_mib", "Erased blocks at most."),
    Key::num("wa_seq", 1.0, 1e6, "Write amplification of sequential writes, pool empty."),
    Key::num("wa_rand", 1.0, 1e6, "Write amplification of random writes, pool empty."),
    Key::num("idle_reclaim_mb_s", 0.0, 1e6, "Rate at which idle time fills the pool."),
    Key::us("discard_base_us", "A discard."),
    Key::us("discard_us_per_gib", "The same, per GiB."),
];

/// What the keys alone cannot say.
fn check(file: &DriveFile) -> Result<(), Wrong> {
    let wrong = |key, what| Err(Wrong { table: "flash", key, what });
    let kib = |key| file.u64("flash", key);
    if kib("dies") % kib("channels") != 0 {
        let channels = kib("channels");
        return wrong(
            "dies",
            format!("dies = {} is not a multiple of channels = {channels}", kib("dies")),
        );
    }
    // Half the buffer must hold the longest piece beside an unfinished unit.
    if kib("write_buffer_kib") < 2 * kib("program_unit_kib") {
        let what = format!(
            "write_buffer_kib = {} does not hold two program units of {} KiB",
            kib("write_buffer_kib"),
            kib("program_unit_kib")
        );
        return wrong("write_buffer_kib", what);
    }
    Ok(())
}

/// `[flash]` and `[link]` in ns, bytes, and 10^6 bytes/s.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the keys of the drive file, see FLASH_KEYS")]
pub struct FlashParams {
    pub link_mb_s: f64,
    pub link_write_mb_s: f64,
    pub full_duplex: bool,
    pub channels: u64,
    pub dies: u64,
    pub page: u64,
    pub stripe: u64,
    pub program_unit: u64,
    pub block: u64,
    pub write_buffer: u64,
    pub read: u64,
    pub program: u64,
    pub erase: u64,
    pub suspend: u64,
    pub cmd_read: u64,
    pub cmd_write: u64,
    pub pipeline: u64,
    pub write_ack: u64,
    pub flush: u64,
    pub prefetch: u64,
    pub dispatch_window: u64,
    pub channel_mb_s: f64,
    pub flush_blocks_all: bool,
    pub plp: bool,
    pub seq_quantum: u64,
    pub quantum_jitter: f64,
    pub read_jitter: f64,
    pub hiccup_interval: f64,
    pub hiccup: f64,
    pub slc_cache: u64,
    pub slc_program: u64,
    pub slc_fold_mb_s: f64,
    pub clean_pool: u64,
    pub wa_seq: f64,
    pub wa_rand: f64,
    pub idle_reclaim_mb_s: f64,
    pub discard_base: u64,
    pub discard_per_gib: f64,
}

impl FlashParams {
    /// From a checked file.
    pub fn from_file(file: &DriveFile) -> FlashParams {
        let kib = |key| file.u64("flash", key) << 10;
        let mib = |key| file.u64("flash", key) << 20;
        let num = |key| file.f64("flash", key);
        let time = |key| us(file.f64("flash", key));
        FlashParams {
            link_mb_s: file.link.read_rate / 1e6,
            link_write_mb_s: file.link.write_rate / 1e6,
            full_duplex: file.link.full_duplex,
            channels: file.u64("flash", "channels"),
            dies: file.u64("flash", "dies"),
            page: kib("page_kib"),
            stripe: kib("stripe_kib"),
            program_unit: kib("program_unit_kib"),
            block: kib("block_kib"),
            write_buffer: kib("write_buffer_kib"),
            read: time("read_us"),
            program: time("program_us"),
            erase: time("erase_us"),
            suspend: time("suspend_us"),
            cmd_read: time("cmd_read_us"),
            cmd_write: time("cmd_write_us"),
            pipeline: time("pipeline_us"),
            write_ack: time("write_ack_us"),
            flush: time("flush_us"),
            prefetch: time("prefetch_us"),
            dispatch_window: time("dispatch_window_us"),
            channel_mb_s: num("channel_mb_s"),
            flush_blocks_all: file.str("flash", "flush_blocks") == "all",
            plp: file.bool("flash", "plp"),
            seq_quantum: kib("seq_quantum_kib"),
            quantum_jitter: num("quantum_jitter"),
            read_jitter: num("read_jitter"),
            hiccup_interval: num("hiccup_interval_ms") * 1e6,
            hiccup: num("hiccup_us") * 1e3,
            slc_cache: mib("slc_cache_mib"),
            slc_program: time("slc_program_us"),
            slc_fold_mb_s: num("slc_fold_mb_s"),
            clean_pool: mib("clean_pool_mib"),
            wa_seq: num("wa_seq"),
            wa_rand: num("wa_rand"),
            idle_reclaim_mb_s: num("idle_reclaim_mb_s"),
            discard_base: time("discard_base_us"),
            discard_per_gib: num("discard_us_per_gib") * 1e3,
        }
    }
}

/// A flash drive.
#[derive(Debug)]
pub struct Flash {
    params: FlashParams,
    read_rate: Rate,
    write_rate: Rate,
    /// dur(4096) on the link: what is left of a read when its last page has arrived.
    last_transfer: u64,

    arbiter: Arbiter,
    array: Array,
    /// Controller.
    fw: u64,
    /// Link, read side (both if half duplex) and write side.
    link: [u64; 2],
    /// An active flush blocks all until then.
    blocked_until: u64,
    /// Bytes written since the last flush.
    unflushed: u64,
    hiccups: Option<Hiccups>,
    /// When the head of the queue can be taken; `u64::MAX`: nothing waits.
    gate: u64,
    /// Nothing that waits completes before.
    gate_bound: u64,
    /// Waiting commands: reads, writes, discards.
    waiting: [u32; 3],
    coming: Coming,
}

impl Flash {
    /// The drive called `name`.
    pub fn new(params: &FlashParams, seed: u64, name: &str) -> Flash {
        let read_rate = Rate::mb_s(params.link_mb_s);
        Flash {
            read_rate,
            write_rate: Rate::mb_s(params.link_write_mb_s),
            last_transfer: read_rate.dur(4096),
            arbiter: Arbiter::new(params.seq_quantum, params.quantum_jitter, seed, name),
            array: Array::new(params, seed, name),
            fw: 0,
            link: [0; 2],
            blocked_until: 0,
            unflushed: 0,
            hiccups: Hiccups::new(params, seed, name),
            gate: u64::MAX,
            gate_bound: u64::MAX,
            waiting: [0; 3],
            coming: Coming::default(),
            params: params.clone(),
        }
    }

    /// Takes commands at all moments up to `now` at which the gate opened.
    #[inline]
    fn advance(&mut self, now: u64) {
        while self.gate <= now {
            self.take(self.gate);
        }
        self.array.advance(now);
    }

    /// Takes commands at `now` while the gate is open.
    fn take(&mut self, now: u64) {
        self.prepare(now);
        while let Some(head) = self.arbiter.head() {
            let kind = kind(head.command.op);
            if let Some((gate, bound)) = self.shut(now, kind) {
                (self.gate, self.gate_bound) = (gate, bound);
                return;
            }
            let queued = self.arbiter.pop().expect("the head was there");
            self.waiting[kind] -= 1;
            self.carry_out(now, &queued);
        }
        (self.gate, self.gate_bound) = (u64::MAX, u64::MAX);
    }

    /// Before a command is taken.
    #[inline]
    fn prepare(&mut self, now: u64) {
        self.array.advance(now);
        if let Some(hiccups) = &mut self.hiccups {
            hiccups.advance(now, &mut self.fw);
        }
    }

    /// The gate is closed for commands of this kind: until when, and before when none of those that wait completes.
    #[inline]
    fn shut(&self, now: u64, kind: usize) -> Option<(u64, u64)> {
        if now < self.blocked_until {
            return Some((self.blocked_until, self.blocked_until));
        }
        let busy = self.fw.max(match kind {
            READ => self.link[0],
            WRITE => self.link[self.write_side()],
            _ => 0,
        });
        if busy <= now + self.params.dispatch_window {
            return None;
        }
        let gate = busy - self.params.dispatch_window;
        // Commands of another kind behind the head need not wait for what it waits for.
        let alike = self.waiting.iter().enumerate().all(|(k, &n)| k == kind || n == 0);
        Some((gate, if alike { busy } else { gate }))
    }

    #[inline]
    fn carry_out(&mut self, now: u64, queued: &Queued) {
        match queued.command.op {
            Op::Read => self.read(now, queued),
            Op::Write => self.write(now, queued),
            // Deviation: writing zeroes deallocates, as drives of this kind do.
            Op::Discard | Op::WriteZeroes => self.discard(now, queued),
            Op::Flush => unreachable!("a flush takes effect on arrival"),
        }
    }

    fn write_side(&self) -> usize {
        usize::from(self.params.full_duplex)
    }

    /// specs/drives.md 4.3.
    fn read(&mut self, now: u64, queued: &Queued) {
        let Command { tag, start, len, .. } = queued.command;
        let t0 = reserve(&mut self.fw, now, self.params.cmd_read);
        let (mut first, mut last) = self.array.read(t0, start, len);
        if queued.sequential {
            first = first.saturating_sub(self.params.prefetch);
            last = last.saturating_sub(self.params.prefetch);
        }
        let transfer = self.read_rate.dur(len);
        let moved = reserve(&mut self.link[0], t0, transfer);
        let at = moved.max(first + transfer).max(last + self.last_transfer) + self.params.pipeline;
        self.coming.push(tag, queued.arrived, now, at, transfer);
    }

    /// specs/drives.md 4.4.
    fn write(&mut self, now: u64, queued: &Queued) {
        let Command { tag, len, fua, .. } = queued.command;
        let side = self.write_side();
        let mut t = reserve(&mut self.fw, now, self.params.cmd_write);
        self.array.observe(queued.sequential, len);
        self.unflushed += len;
        let mut left = len;
        while left > 0 {
            let piece = left.min(self.params.write_buffer / 2);
            let moved = reserve(&mut self.link[side], t, self.write_rate.dur(piece));
            t = self.array.accept(now, moved, piece);
            left -= piece;
        }
        let mut at = t + self.params.write_ack;
        if fua && !self.params.plp {
            self.array.program_pending(now);
            at = at.max(self.array.last_program_end());
        }
        let transfer = self.write_rate.dur(len);
        self.coming.push(tag, queued.arrived, now, at + self.params.pipeline, transfer);
    }

    /// specs/drives.md 4.6.
    fn discard(&mut self, now: u64, queued: &Queued) {
        const GIB: f64 = 1_073_741_824.0;
        let Command { tag, len, .. } = queued.command;
        let time =
            self.params.discard_base as f64 + self.params.discard_per_gib * (len as f64 / GIB);
        let at = reserve(&mut self.fw, now, (time + 0.5) as u64);
        self.array.discard(now, len);
        self.coming.push(tag, queued.arrived, now, at, 0);
    }

    /// Writing the map entries of what was written since the last flush.
    ///
    /// Deviation: the text has a fixed part alone. A page-mapped drive keeps the entries of new pages in
    /// memory and has to write them before it may answer; an entry is the pair of page numbers, 8 bytes
    /// (DFTL, Gupta, Kim and Urgaonkar, ASPLOS 2009, section 4), and the log is one sequence of pages.
    fn map_log(&self) -> u64 {
        let entries = self.unflushed.div_ceil(MAPPED);
        let nanos = u128::from(entries * ENTRY) * u128::from(self.params.program);
        (nanos / u128::from(self.params.page)) as u64
    }

    /// specs/drives.md 4.6.
    fn flush(&mut self, now: u64, tag: u64) {
        let at = if self.params.plp {
            now + self.params.flush
        } else {
            self.array.program_pending(now);
            self.array.programs_end().max(now) + self.params.flush + self.map_log()
        };
        self.unflushed = 0;
        if self.params.flush_blocks_all {
            self.blocked_until = self.blocked_until.max(at);
        }
        self.coming.push(tag, now, now, at, 0);
    }
}

impl Drive for Flash {
    fn handle(&mut self, now: Instant, command: Command) {
        let now = now.as_nanos();
        self.advance(now);
        let in_order = self.params.seq_quantum == 0 && matches!(command.op, Op::Read | Op::Write);
        if in_order && self.gate == u64::MAX {
            // Nothing is ahead of it.
            self.prepare(now);
            if self.shut(now, kind(command.op)).is_none() {
                let queued = self.arbiter.in_order(now, command);
                return self.carry_out(now, &queued);
            }
        }
        match command.op {
            Op::Flush => {
                self.flush(now, command.tag);
                if self.gate == u64::MAX {
                    return;
                }
            }
            Op::Read | Op::Write => self.arbiter.push_transfer(now, command),
            Op::Discard | Op::WriteZeroes => self.arbiter.push_other(now, command),
        }
        if command.op != Op::Flush {
            self.waiting[kind(command.op)] += 1;
            if self.waiting[kind(command.op)] == 1 {
                self.gate_bound = self.gate_bound.min(self.gate);
            }
        }
        // In order of arrival a new command does not change the head for which the gate is closed.
        if self.gate == u64::MAX || self.params.seq_quantum > 0 || command.op == Op::Flush {
            self.take(now);
        }
    }

    fn poll(&mut self, now: Instant) -> DriveOutput {
        self.advance(now.as_nanos());
        if let Some(done) = self.coming.pop_due(now) {
            return DriveOutput::Done(done);
        }
        let next = self.coming.next_at().min(self.gate_bound);
        DriveOutput::WaitUntil((next != u64::MAX).then(|| Instant::from_nanos(next)))
    }

    fn due(&self) -> Option<Instant> {
        Some(Instant::from_nanos(self.coming.next_at().min(self.gate_bound)))
    }
}

const READ: usize = 0;
const WRITE: usize = 1;

/// Which resources a command needs: [`READ`], [`WRITE`], or 2 for those that need no link.
#[inline]
fn kind(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard | Op::WriteZeroes | Op::Flush => 2,
    }
}

/// Pauses of the controller for housekeeping: exponential intervals, exponential lengths. They act
/// only through the controller's free time, so they are drawn when a command is to be taken.
#[derive(Debug)]
struct Hiccups {
    rng: Rng,
    interval: f64,
    length: f64,
    next: u64,
}

impl Hiccups {
    fn new(params: &FlashParams, seed: u64, name: &str) -> Option<Hiccups> {
        if params.hiccup_interval <= 0.0 {
            return None;
        }
        let mut rng = rng::stream(seed, &format!("drive/{name}/hiccup"));
        let next = rng.exponential(params.hiccup_interval) as u64;
        Some(Hiccups { rng, interval: params.hiccup_interval, length: params.hiccup, next })
    }

    fn advance(&mut self, now: u64, fw: &mut u64) {
        while self.next <= now {
            let length = self.rng.exponential(self.length) as u64;
            reserve(fw, self.next, length);
            // At least 1 ns, so that the loop ends.
            self.next += 1 + self.rng.exponential(self.interval) as u64;
        }
    }
}
