//! Tests on a drive model in virtual time: host adapter and drive, no host, no scheduler.
//!
//! Every test meets a new drive, so that an answer depends on the test alone. What the block layer does below any
//! scheduler is done here too, because a real drive is only ever seen through it: long commands are split, commands
//! wait for a tag in order of arrival, and requests for a flush that come while one is under way share the next one
//! (specs/drives.md 1.2).

use super::{Action, Latencies, Outcome, Places, Probe, ProbeError, Stream, StreamOutcome, Test};
use crate::drive::{Adapter, Command, DriveFile, DriveOutput};
use hoistway::{Instant, Op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The next flush is issued so long after the last one ended, ns (specs/drives.md 1.2).
const KICK_NS: u64 = 20_000;
/// A test without a limit of its own ends after so many commands.
const COMMANDS_MOST: u64 = 8_000_000;
/// The tag of the flush under way; commands count from 1.
const FLUSH_TAG: u64 = 0;

/// A simulated drive as a probe.
#[derive(Clone, Debug)]
pub struct SimProbe {
    file: DriveFile,
    seed: u64,
    places: u64,
    reaction_ns: u64,
}

impl SimProbe {
    /// Of this drive. The seed is that of the drive's randomness and of random places.
    pub fn new(file: &DriveFile, seed: u64) -> SimProbe {
        SimProbe { file: file.clone(), seed, places: seed, reaction_ns: 0 }
    }

    /// The same with another seed of random places: who asks chooses the places, the drive has its own dice.
    pub fn with_places(self, places: u64) -> SimProbe {
        SimProbe { places, ..self }
    }

    /// The same by a machine that needs so long, ns, for each submitter that goes on after a flush.
    ///
    /// One flush ends the waiting of many, and the machine lets them go on one after the other. Flushes that were asked for
    /// meanwhile are passed on 20 us after the one before (specs/drives.md 1.2): a submitter that comes later than that
    /// waits for one flush more, and what it asks to be flushed for the next. That race is the machine's, not the
    /// drive's, but a tenth of a millisecond of it doubles what a reader among 15 writers waits.
    pub fn with_reaction(self, reaction_ns: u64) -> SimProbe {
        SimProbe { reaction_ns, ..self }
    }
}

impl Probe for SimProbe {
    fn run(&mut self, test: &Test) -> Result<Outcome, ProbeError> {
        Ok(Run::new(self, test).run())
    }
}

/// One place of the depth of one submitter.
#[derive(Debug)]
struct Slot {
    stream: usize,
    /// Its submitter.
    copy: usize,
    begun: u64,
    counts: bool,
    parts: u32,
    bytes: u64,
    since_flush: u32,
}

/// What was seen of a stream.
#[derive(Debug, Default)]
struct Seen {
    commands: Vec<u64>,
    flushes: Vec<u64>,
    bytes: u64,
    bins: Vec<u64>,
}

struct Run<'a> {
    test: &'a Test,
    drive: Adapter,
    command_max: u64,
    now: u64,
    end: u64,
    places: Vec<Vec<Places>>,
    slots: Vec<Slot>,
    /// Slots that submit, by time and number.
    ready: BTreeSet<(u64, usize)>,
    /// Parts of commands that wait for a tag: slot, operation, start, length.
    fifo: VecDeque<(usize, Op, u64, u64)>,
    tag: u64,
    flying: BTreeMap<u64, usize>,
    /// Slots whose flush is under way, and those for the next one.
    flushing: Vec<usize>,
    collected: Vec<usize>,
    /// When the next flush may be issued.
    kick: u64,
    reaction_ns: u64,
    seen: Vec<Seen>,
    counted: u64,
    /// Commands that ended, the warm-up's too.
    ended: u64,
    /// Commands that may count.
    limit: u64,
    /// Ends the warm-up early: a drive without latency would be in it for ever.
    warm: bool,
    /// From when on commands count.
    since: u64,
}

impl<'a> Run<'a> {
    fn new(probe: &SimProbe, test: &'a Test) -> Run<'a> {
        let file = &probe.file;
        let (mut places, mut slots) = (Vec::new(), Vec::new());
        for (number, stream) in test.streams.iter().enumerate() {
            let copies = 0..stream.copies;
            let of = |copy| Places::new(&test.name, number, stream, copy, probe.places);
            places.push(copies.map(of).collect::<Vec<_>>());
            for copy in 0..stream.copies as usize {
                slots.extend((0..stream.depth).map(|_| Slot::new(number, copy)));
            }
        }
        let seen = || Seen { bins: vec![0; super::BINS], ..Seen::default() };
        Run {
            test,
            drive: Adapter::new(file, file.build(probe.seed)),
            command_max: file.device().max_sectors.bytes().0,
            now: 0,
            end: test.warm_up_ns + test.duration_ns,
            ready: (0..slots.len()).map(|slot| (0, slot)).collect(),
            places,
            slots,
            fifo: VecDeque::new(),
            tag: FLUSH_TAG,
            flying: BTreeMap::new(),
            flushing: Vec::new(),
            collected: Vec::new(),
            kick: 0,
            reaction_ns: probe.reaction_ns,
            seen: test.streams.iter().map(|_| seen()).collect(),
            counted: 0,
            ended: 0,
            limit: if test.commands_max == 0 { COMMANDS_MOST } else { test.commands_max },
            warm: test.warm_up_ns == 0,
            since: 0,
        }
    }

    fn run(mut self) -> Outcome {
        while self.now < self.end && self.counted < self.limit {
            if !self.warm && (self.now >= self.test.warm_up_ns || self.ended >= self.limit) {
                (self.warm, self.since) = (true, self.now.min(self.test.warm_up_ns));
            }
            while let Some(&(at, slot)) = self.ready.first()
                && at <= self.now
            {
                self.ready.pop_first();
                self.begin(slot);
            }
            self.pass();
            match self.drive.poll(Instant::from_nanos(self.now)) {
                DriveOutput::Done(c) if c.tag == FLUSH_TAG => self.flushed(),
                DriveOutput::Done(c) => self.done(c.tag),
                DriveOutput::WaitUntil(at) => {
                    let ready = self.ready.first().map(|&(at, _)| at);
                    let kick = (self.flushing.is_empty() && !self.collected.is_empty())
                        .then_some(self.kick);
                    let next = [at.map(Instant::as_nanos), ready, kick].into_iter().flatten().min();
                    // A closed loop always has something to come.
                    self.now = next.map_or(self.end, |at| at.max(self.now)).min(self.end);
                }
            }
        }
        let counted_ns = self.now.saturating_sub(self.since);
        let streams = self.seen.into_iter().map(|mut seen| StreamOutcome {
            commands: Latencies::of(&mut seen.commands),
            flushes: Latencies::of(&mut seen.flushes),
            bytes: seen.bytes,
            bins: super::whole_bins(seen.bins, self.now, self.end),
        });
        Outcome { counted_ns, streams: streams.collect() }
    }

    fn stream(&self, slot: usize) -> &'a Stream {
        &self.test.streams[self.slots[slot].stream]
    }

    /// The slot submits its next command.
    fn begin(&mut self, slot: usize) {
        let stream = self.stream(slot);
        let (number, copy) = (self.slots[slot].stream, self.slots[slot].copy);
        let (start, counts) = self.places[number][copy].draw();
        let op = match stream.action {
            Action::Read => Op::Read,
            Action::Write => Op::Write,
            Action::Discard => Op::Discard,
        };
        let longest = if op == Op::Discard { stream.bytes } else { self.command_max };
        let (mut at, end) = (start, start + stream.bytes);
        let mut parts = 0;
        while at < end {
            let len = longest.min(end - at);
            self.fifo.push_back((slot, op, at, len));
            at += len;
            parts += 1;
        }
        let s = &mut self.slots[slot];
        (s.begun, s.counts, s.parts, s.bytes) = (self.now, counts, parts, stream.bytes);
    }

    /// What waits goes to the drive as far as there is room.
    fn pass(&mut self) {
        let now = Instant::from_nanos(self.now);
        if self.flushing.is_empty() && !self.collected.is_empty() && self.kick <= self.now {
            self.flushing = std::mem::take(&mut self.collected);
            let flush = Command { tag: FLUSH_TAG, op: Op::Flush, start: 0, len: 0, fua: false };
            self.drive.handle(now, flush);
        }
        while self.drive.room()
            && let Some((slot, op, start, len)) = self.fifo.pop_front()
        {
            self.tag += 1;
            self.flying.insert(self.tag, slot);
            self.drive.handle(now, Command { tag: self.tag, op, start, len, fua: false });
        }
    }

    fn done(&mut self, tag: u64) {
        let slot = self.flying.remove(&tag).expect("a drive completes what it got");
        self.slots[slot].parts -= 1;
        if self.slots[slot].parts > 0 {
            return;
        }
        let (number, begun) = (self.slots[slot].stream, self.slots[slot].begun);
        let (bytes, counts) = (self.slots[slot].bytes, self.slots[slot].counts);
        let seen = &mut self.seen[number];
        let bin = u128::from(self.now) * super::BINS as u128 / u128::from(self.end.max(1));
        seen.bins[(bin as usize).min(super::BINS - 1)] += bytes;
        self.ended += 1;
        if self.warm {
            self.counted += 1;
            seen.bytes += bytes;
            if counts {
                seen.commands.push(self.now - begun);
            }
        }
        let every = self.test.streams[number].flush_every;
        self.slots[slot].since_flush += 1;
        if every > 0 && self.slots[slot].since_flush == every {
            let s = &mut self.slots[slot];
            (s.since_flush, s.begun) = (0, self.now);
            self.collected.push(slot);
        } else {
            self.again(slot, begun, 0);
        }
    }

    fn flushed(&mut self) {
        self.kick = self.now + KICK_NS;
        let mut reaction = 0;
        for slot in std::mem::take(&mut self.flushing) {
            reaction += self.reaction_ns;
            let (number, begun) = (self.slots[slot].stream, self.slots[slot].begun);
            if self.warm {
                self.seen[number].flushes.push(self.now - begun);
            }
            self.again(slot, begun, reaction);
        }
    }

    fn again(&mut self, slot: usize, begun: u64, reaction: u64) {
        let stream = self.stream(slot);
        let at = (self.now + stream.pause_ns.max(reaction)).max(begun + stream.interval_ns);
        self.ready.insert((at, slot));
    }
}

impl Slot {
    fn new(stream: usize, copy: usize) -> Slot {
        let (begun, counts, parts, bytes) = (0, true, 0, 0);
        Slot { stream, copy, begun, counts, parts, bytes, since_flush: 0 }
    }
}
