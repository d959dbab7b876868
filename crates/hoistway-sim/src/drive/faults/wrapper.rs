//! The wrapper around a drive model. See the head of the module above.

use super::clock::{Clock, RandomPhases};
use super::{Faults, Saved};
use crate::drive::bucket::Tokens;
use crate::drive::rate::Coming;
use crate::drive::{Command, Completion, Drive, DriveOutput};
use crate::rng::{self, Rng};
use hoistway::{Instant, Nanos, Op};
use std::collections::{BTreeMap, VecDeque};

/// A drive with faults.
#[derive(Debug)]
pub struct Faulty {
    inner: Box<dyn Drive>,
    clock: Clock,
    admission: Admission,
    noise: Option<(Rng, f64)>,
    /// Commands that may not enter yet, by the time at which they may; ties in order of arrival.
    held: VecDeque<(u64, Command)>,
    /// When the commands of the drive and those held arrived, by tag.
    arrived: BTreeMap<u64, u64>,
    coming: Coming,
    /// When the last command entered the model.
    entered: u64,
    /// What the model said last: nothing before that drive time.
    wakes: Option<u64>,
}

impl Faulty {
    /// `drive`, called `name`, with these faults.
    pub fn new(drive: Box<dyn Drive>, faults: &Faults, seed: u64, name: &str) -> Faulty {
        let noise = |sigma| (rng::stream(seed, &format!("drive/{name}/faults/noise")), sigma);
        Faulty {
            inner: drive,
            clock: Clock::new(faults, seed, name),
            admission: Admission::new(faults, seed, name),
            noise: faults.noise.map(noise),
            held: VecDeque::new(),
            arrived: BTreeMap::new(),
            coming: Coming::default(),
            entered: 0,
            wakes: None,
        }
    }

    /// Everything that happens until `now`, in its order.
    fn advance(&mut self, now: u64) {
        while let Some(&(at, command)) = self.held.front()
            && at <= now
        {
            self.held.pop_front();
            self.run_to(at);
            self.enter(at, command);
        }
        self.run_to(now);
    }

    /// Lets the model work until `to`, segment by segment.
    fn run_to(&mut self, to: u64) {
        while self.clock.now.end <= to {
            self.drain(self.clock.now.end);
            self.clock.next();
        }
        self.drain(to);
    }

    /// Takes what the model completes until `to`, which lies in the current segment or at its end.
    fn drain(&mut self, to: u64) {
        let until = Instant::from_nanos(self.clock.now.inner_at(to));
        loop {
            match self.inner.poll(until) {
                DriveOutput::Done(done) => self.done(&done),
                DriveOutput::WaitUntil(at) => {
                    self.wakes = at.map(Instant::as_nanos);
                    return;
                }
            }
        }
    }

    /// The model has received the command; it has been run to that time.
    fn enter(&mut self, at: u64, command: Command) {
        self.entered = at;
        self.inner.handle(Instant::from_nanos(self.clock.now.inner_at(at)), command);
    }

    fn done(&mut self, done: &Completion) {
        // A model that needs no time at all completes in the instant of arrival, whatever drive time rounds to.
        let mut at = self.clock.now.outer_of(done.at.as_nanos()).max(self.entered);
        let service = done.media.0 + done.transfer.0;
        if let Some((rng, sigma)) = &mut self.noise {
            let factor = libm::exp(*sigma * libm::fabs(rng.normal()));
            at += (service as f64 * (factor - 1.0)) as u64;
        }
        let arrived = self.arrived.remove(&done.tag).expect("a drive completes what it got");
        let total = at - arrived;
        // What was lost to faults counts as waiting, the noise as media time.
        let transfer = done.transfer.0.min(total);
        let media = (at - arrived - transfer).min(done.media.0);
        self.coming.insert(Completion {
            tag: done.tag,
            at: Instant::from_nanos(at),
            waiting: Nanos(total - transfer - media),
            media: Nanos(media),
            transfer: Nanos(transfer),
        });
    }
}

impl Drive for Faulty {
    fn handle(&mut self, now: Instant, command: Command) {
        let now = now.as_nanos();
        self.advance(now);
        let known = self.arrived.insert(command.tag, now);
        assert!(known.is_none(), "two commands have the tag {}", command.tag);
        let at = self.admission.of(now, &command);
        if at <= now {
            self.enter(now, command);
        } else {
            let place = self.held.partition_point(|&(other, _)| other <= at);
            self.held.insert(place, (at, command));
        }
    }

    fn poll(&mut self, now: Instant) -> DriveOutput {
        self.advance(now.as_nanos());
        if let Some(done) = self.coming.pop_due(now) {
            return DriveOutput::Done(done);
        }
        let held = self.held.front().map_or(u64::MAX, |&(at, _)| at);
        let model = self.wakes.map_or(u64::MAX, |inner| self.clock.now.outer_of(inner));
        let next = self.coming.next_at().min(held).min(model);
        DriveOutput::WaitUntil((next != u64::MAX).then(|| Instant::from_nanos(next)))
    }
}

/// When a command may enter the drive.
#[derive(Debug)]
struct Admission {
    ios: Option<Tokens>,
    bytes: Option<Tokens>,
    /// The last command that was given credit.
    last: u64,
    cache: Option<Tokens>,
    /// The last write that was given room.
    last_write: u64,
    readonly: Option<ReadOnly>,
}

impl Admission {
    fn new(faults: &Faults, seed: u64, name: &str) -> Admission {
        let tokens = |saved: Saved| Tokens::new(saved.rate, saved.depth);
        Admission {
            ios: faults.credit_ios.map(tokens),
            bytes: faults.credit_bytes.map(tokens),
            last: 0,
            cache: faults.cache.map(tokens),
            last_write: 0,
            readonly: faults.readonly.map(|of| ReadOnly {
                phases: RandomPhases::new(of, seed, name, "readonly"),
                coming: VecDeque::new(),
            }),
        }
    }

    /// Of a command that arrives now.
    fn of(&mut self, now: u64, command: &Command) -> u64 {
        let mut at = now;
        let transfer = matches!(command.op, Op::Read | Op::Write);
        if self.ios.is_some() || self.bytes.is_some() {
            let buckets = [
                (&mut self.ios, u64::from(transfer)),
                (&mut self.bytes, command.len * u64::from(transfer)),
            ];
            at = at.max(self.last);
            for (bucket, n) in &buckets {
                at = bucket.as_ref().map_or(at, |b| b.earliest(at, *n));
            }
            for (bucket, n) in buckets {
                bucket.iter_mut().for_each(|b| b.take(at, n));
            }
            self.last = at;
        }
        let Some(cache) = self.cache.as_mut().filter(|_| command.op == Op::Write) else {
            return if command.op == Op::Read { at } else { self.writable(now, at) };
        };
        at = cache.earliest(at.max(self.last_write), command.len);
        at = self.readonly.as_mut().map_or(at, |r| r.end_of(now, at));
        cache.take(at, command.len);
        self.last_write = at;
        at
    }

    /// The end of the read-only phase in which `at` lies, or `at`.
    fn writable(&mut self, now: u64, at: u64) -> u64 {
        self.readonly.as_mut().map_or(at, |r| r.end_of(now, at))
    }
}

/// Read-only phases. They are asked for times ahead, in any order but never before `now`.
#[derive(Debug)]
struct ReadOnly {
    phases: RandomPhases,
    /// Begin and end of those that are not over.
    coming: VecDeque<(u64, u64)>,
}

impl ReadOnly {
    fn end_of(&mut self, now: u64, at: u64) -> u64 {
        while self.phases.until <= at || self.coming.back().is_none_or(|&(_, end)| end <= at) {
            let begin = self.phases.until;
            self.phases.next();
            if self.phases.on {
                self.coming.push_back((begin, self.phases.until));
            }
        }
        while self.coming.front().is_some_and(|&(_, end)| end <= now) {
            self.coming.pop_front();
        }
        let within = self.coming.iter().find(|&&(begin, end)| begin <= at && at < end);
        within.map_or(at, |&(_, end)| end)
    }
}
