//! Tests on a real device or file: direct I/O by io_uring, one thread, real depth.
//!
//! All submitters of all streams share one ring; a place of the depth is a slot with a buffer of its own. What ends is
//! seen at once, since the thread waits in the ring, and the next command of the slot goes out in the same turn. Times
//! are taken right before the submission and right after the wait, so the machine's own path counts with the drive's, as
//! for any process.
//!
//! *Rest*: a simulated drive is new for every test. A real one still works on what the last test wrote: a disk with a full
//! write buffer takes no more for seconds. So after a test that wrote the caches are flushed, and the drive has a moment
//! for what it does when idle, before the next test begins.
//!
//! *Memory*: a buffer belongs to the kernel from the submission of a command to its completion; the slot's state says
//! which. A run ends when nothing is under way, also on an error, and the process ends itself if the ring fails so that
//! nobody can tell what the kernel still writes to.

use hoistway_serve::system::Buffer;
use hoistway_serve::system::Clock;
use hoistway_sim::probe::{
    Action, BINS, Latencies, Outcome, Places, Probe, ProbeError, Stream, StreamOutcome, Test,
    whole_bins,
};
use hoistway_sim::rng;
use io_uring::{IoUring, opcode, types};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the thread waits at most before it looks whether it shall stop, ns.
const LOOK_NS: u64 = 100_000_000;

/// A device or file as a probe.
#[derive(Debug)]
pub struct RealProbe<'a> {
    file: File,
    seed: u64,
    stop: &'a AtomicBool,
    /// Bytes that may still be written.
    budget: u64,
    pattern: Buffer,
    /// The last test wrote.
    busy: bool,
}

/// Of rest after a flush.
const REST: std::time::Duration = std::time::Duration::from_millis(300);

/// Incompressible bytes that writes take their data from.
const PATTERN: usize = 4 << 20;

impl<'a> RealProbe<'a> {
    /// On a file that was opened for direct I/O. `budget`: bytes that all tests together may write.
    pub fn new(file: File, seed: u64, budget: u64, stop: &'a AtomicBool) -> RealProbe<'a> {
        let pattern = incompressible(PATTERN, seed);
        RealProbe { file, seed, stop, budget, pattern, busy: false }
    }

    /// Until nothing of earlier tests is left to do.
    fn rest(&mut self) -> Result<(), ProbeError> {
        if std::mem::take(&mut self.busy) {
            self.file.sync_data().map_err(|e| failed("flush between two tests", &e))?;
            std::thread::sleep(REST);
        }
        Ok(())
    }
}

/// Random bytes: a drive that compresses must not shine.
pub(super) fn incompressible(len: usize, seed: u64) -> Buffer {
    let mut buffer = Buffer::zeroed(len);
    let mut rng = rng::stream(seed, "probe/data");
    for chunk in buffer.chunks_mut(8) {
        chunk.copy_from_slice(&rng.bits().to_le_bytes()[..chunk.len()]);
    }
    buffer
}

impl Probe for RealProbe<'_> {
    fn run(&mut self, test: &Test) -> Result<Outcome, ProbeError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        self.rest()?;
        self.busy = test.writes();
        let mut run = TestRun::new(self, test)?;
        let asked = run.run();
        let outcome = run.outcome();
        self.budget = outcome.1;
        asked.map(|()| outcome.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Waits,
    Command,
    Flush,
}

/// One place of the depth of one submitter.
#[derive(Debug)]
struct ProbeSlot {
    stream: usize,
    copy: usize,
    state: SlotState,
    begun: u64,
    counts: bool,
    since_flush: u32,
    buffer: Buffer,
}

#[derive(Debug, Default)]
struct Seen {
    commands: Vec<u64>,
    flushes: Vec<u64>,
    bytes: u64,
    bins: Vec<u64>,
}

struct TestRun<'a> {
    test: &'a Test,
    file: &'a File,
    stop: &'a AtomicBool,
    ring: IoUring,
    clock: Clock,
    end: u64,
    /// Time of the whole test.
    length: u64,
    places: Vec<Vec<Places>>,
    slots: Vec<ProbeSlot>,
    ready: BTreeSet<(u64, usize)>,
    under_way: usize,
    seen: Vec<Seen>,
    counted: u64,
    budget: u64,
    /// Slots that write, and those of them for which no budget is left.
    writers: usize,
    resting: usize,
    /// When the test was over.
    ended: u64,
}

fn failed(what: &str, e: &io::Error) -> ProbeError {
    ProbeError::Failed(format!("{what}: {e}"))
}

impl<'a> TestRun<'a> {
    fn new(probe: &'a RealProbe<'_>, test: &'a Test) -> Result<TestRun<'a>, ProbeError> {
        let (mut places, mut slots) = (Vec::new(), Vec::new());
        for (number, stream) in test.streams.iter().enumerate() {
            let of = |copy| Places::new(&test.name, number, stream, copy, probe.seed);
            places.push((0..stream.copies).map(of).collect::<Vec<_>>());
            for copy in 0..stream.copies as usize {
                for _ in 0..stream.depth {
                    slots.push(ProbeSlot::new(number, copy, stream, &probe.pattern));
                }
            }
        }
        let writes = |s: &&ProbeSlot| test.streams[s.stream].action == Action::Write;
        let writers = slots.iter().filter(writes).count();
        let entries = (slots.len() as u32).next_power_of_two().max(8);
        let ring = IoUring::new(entries).map_err(|e| {
            failed("io_uring is not available (see /proc/sys/kernel/io_uring_disabled)", &e)
        })?;
        // The kernel runs flushes by threads of the ring, four for each processor unless told: fifteen writers on a
        // laptop would flush by eights. Kernels before 5.15 know no such setting and keep that limit.
        let every = slots.len() as u32 + 1;
        match ring.submitter().register_iowq_max_workers(&mut [every, every]) {
            Err(e) if e.raw_os_error() != Some(libc::EINVAL) => {
                return Err(failed("threads of the ring for flushes", &e));
            }
            _ => {}
        }
        let seen = || Seen { bins: vec![0; BINS], ..Seen::default() };
        Ok(TestRun {
            test,
            file: &probe.file,
            stop: probe.stop,
            ring,
            clock: Clock::new(),
            end: test.warm_up_ns + test.duration_ns,
            length: test.warm_up_ns + test.duration_ns,
            ready: (0..slots.len()).map(|slot| (0, slot)).collect(),
            places,
            slots,
            under_way: 0,
            seen: test.streams.iter().map(|_| seen()).collect(),
            counted: 0,
            budget: probe.budget,
            writers: writers.max(1),
            resting: 0,
            ended: 0,
        })
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// The test, and then until nothing is under way.
    fn run(&mut self) -> Result<(), ProbeError> {
        let limit = if self.test.commands_max == 0 { u64::MAX } else { self.test.commands_max };
        let mut result = Ok(());
        while result.is_ok() && self.now() < self.end && self.counted < limit {
            if self.stop.load(Ordering::Relaxed) {
                result = Err(ProbeError::Interrupted);
                break;
            }
            self.submit_ready();
            if self.resting == self.writers {
                break;
            }
            result = self.turn();
        }
        self.ended = self.now().min(self.end);
        while self.under_way > 0 {
            // What ends now is not counted: it is later than the end.
            self.end = self.end.min(self.ended);
            self.wait(LOOK_NS);
            let reaped = self.reap();
            result = result.and(reaped);
            self.ready.clear();
        }
        result
    }

    fn submit_ready(&mut self) {
        loop {
            let now = self.now();
            let Some(&(at, slot)) = self.ready.first() else { return };
            if at > now {
                return;
            }
            self.ready.pop_first();
            self.begin(slot, now);
        }
    }

    fn turn(&mut self) -> Result<(), ProbeError> {
        let now = self.now();
        let ready = self.ready.first().map_or(u64::MAX, |&(at, _)| at);
        self.wait(ready.min(self.end).saturating_sub(now).min(LOOK_NS));
        self.reap()
    }

    /// Submits what was pushed and waits for a completion or so long.
    fn wait(&mut self, ns: u64) {
        let time = types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
        let args = types::SubmitArgs::new().timespec(&time);
        let want = usize::from(self.under_way > 0 || ns > 0);
        match self.ring.submitter().submit_with_args(want, &args) {
            Ok(_) => {}
            Err(e) => {
                let known = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
                if !known.contains(&e.raw_os_error().unwrap_or(0)) {
                    // The kernel may still write into the buffers, and nobody could tell until when.
                    eprintln!("io_uring_enter: {e}");
                    std::process::abort();
                }
            }
        }
    }

    fn begin(&mut self, slot: usize, now: u64) {
        let (number, copy) = (self.slots[slot].stream, self.slots[slot].copy);
        let stream = &self.test.streams[number];
        let (start, counts) = self.places[number][copy].draw();
        let fd = types::Fd(self.file.as_raw_fd());
        let s = &mut self.slots[slot];
        (s.begun, s.counts, s.state) = (now, counts, SlotState::Command);
        let len = stream.bytes as u32;
        let entry = match stream.action {
            Action::Read => opcode::Read::new(fd, s.buffer.as_mut_ptr(), len).offset(start).build(),
            Action::Write => {
                // Without budget the slot rests; when all rest, the test is over.
                let Some(left) = self.budget.checked_sub(stream.bytes) else {
                    s.state = SlotState::Waits;
                    self.resting += 1;
                    return;
                };
                self.budget = left;
                opcode::Write::new(fd, s.buffer.as_ptr(), len).offset(start).build()
            }
            Action::Discard => {
                // Deallocates on a device and punches a hole in a file.
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, stream.bytes).offset(start).mode(mode).build()
            }
        };
        self.push(entry.user_data(slot as u64));
    }

    fn push(&mut self, entry: io_uring::squeue::Entry) {
        // SAFETY: the buffer belongs to a slot that lives until nothing is under way (`run`), and a slot in state
        // `Command` is not touched before its completion; the file is open as long.
        let full = unsafe { self.ring.submission().push(&entry).is_err() };
        assert!(!full, "the ring has a place for every slot");
        self.under_way += 1;
    }

    fn reap(&mut self) -> Result<(), ProbeError> {
        let mut result = Ok(());
        loop {
            let next = self.ring.completion().next();
            let Some(entry) = next else { return result };
            let now = self.now();
            self.under_way -= 1;
            let slot = entry.user_data() as usize;
            let done = self.done(slot, entry.result(), now);
            result = result.and(done);
        }
    }

    fn done(&mut self, slot: usize, code: i32, now: u64) -> Result<(), ProbeError> {
        let state = std::mem::replace(&mut self.slots[slot].state, SlotState::Waits);
        let (number, begun) = (self.slots[slot].stream, self.slots[slot].begun);
        let stream = &self.test.streams[number];
        if code < 0 {
            let error = io::Error::from_raw_os_error(-code);
            return Err(failed(&format!("test {}", self.test.name), &error));
        }
        let data = state == SlotState::Command && stream.action != Action::Discard;
        if data && code as u64 != stream.bytes {
            let what = format!("test {}: {code} of {} bytes", self.test.name, stream.bytes);
            return Err(ProbeError::Failed(what));
        }
        if now >= self.end {
            return Ok(());
        }
        let counted = now >= self.test.warm_up_ns;
        let seen = &mut self.seen[number];
        if state == SlotState::Flush {
            if counted {
                seen.flushes.push(now - begun);
            }
            self.again(slot, begun, now);
            return Ok(());
        }
        let bin = u128::from(now) * BINS as u128 / u128::from(self.length.max(1));
        seen.bins[(bin as usize).min(BINS - 1)] += stream.bytes;
        if counted {
            self.counted += 1;
            seen.bytes += stream.bytes;
            if self.slots[slot].counts {
                seen.commands.push(now - begun);
            }
        }
        let s = &mut self.slots[slot];
        s.since_flush += 1;
        if stream.flush_every > 0 && s.since_flush == stream.flush_every {
            (s.since_flush, s.begun, s.state) = (0, now, SlotState::Flush);
            let fd = types::Fd(self.file.as_raw_fd());
            let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
            self.push(sync.user_data(slot as u64));
        } else {
            self.again(slot, begun, now);
        }
        Ok(())
    }

    fn again(&mut self, slot: usize, begun: u64, now: u64) {
        let stream = &self.test.streams[self.slots[slot].stream];
        self.ready.insert(((now + stream.pause_ns).max(begun + stream.interval_ns), slot));
    }

    /// The answer, and the budget that is left.
    fn outcome(self) -> (Outcome, u64) {
        let counted_ns = self.ended.saturating_sub(self.test.warm_up_ns);
        let streams = self.seen.into_iter().map(|mut seen| StreamOutcome {
            commands: Latencies::of(&mut seen.commands),
            flushes: Latencies::of(&mut seen.flushes),
            bytes: seen.bytes,
            bins: whole_bins(seen.bins, self.ended, self.length),
        });
        (Outcome { counted_ns, streams: streams.collect() }, self.budget)
    }
}

impl ProbeSlot {
    fn new(stream: usize, copy: usize, of: &Stream, pattern: &Buffer) -> ProbeSlot {
        let len = match of.action {
            Action::Discard => 0,
            Action::Read | Action::Write => of.bytes as usize,
        };
        let mut buffer = Buffer::zeroed(len);
        if of.action == Action::Write {
            for chunk in buffer.chunks_mut(pattern.len()) {
                chunk.copy_from_slice(&pattern[..chunk.len()]);
            }
        }
        let (state, begun, counts, since_flush) = (SlotState::Waits, 0, true, 0);
        ProbeSlot { stream, copy, state, begun, counts, since_flush, buffer }
    }
}
