//! Which command a flash drive takes next: detection of sequential streams and deficit round robin
//! over them (specs/drives.md 4.2).
//!
//! The preference for sequential reads inside the drive, which makes a lone random reader wait for
//! a whole round, is exactly this arbitration: a stream's turn lasts a quantum, the turn of all
//! other commands together a sixteenth of it.

use crate::drive::Command;
use crate::rng::{self, Rng};
use hoistway::Op;
use std::collections::VecDeque;

/// Stream slots.
const SLOTS: usize = 63;
/// Classes: the others, and one per slot.
const CLASSES: usize = SLOTS + 1;
/// Hash buckets of the search by next byte: twice the slots keeps chains near one entry.
const BUCKETS: usize = 128;
/// No slot.
const NIL: u8 = 0xff;
/// The least quantum of class 0 (specs/drives.md 4.2).
const OTHERS_QUANTUM_MIN: u64 = 64 << 10;

/// A command that waits in the drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub command: Command,
    pub arrived: u64,
    pub sequential: bool,
}

/// The waiting commands and their order.
#[derive(Debug)]
pub(super) struct Arbiter {
    /// Bytes per turn; 0: order of arrival.
    quantum: u64,
    jitter: f64,
    rng: Rng,
    streams: Streams,
    /// Per class; in order of arrival all are in the first.
    queues: Vec<VecDeque<Queued>>,
    /// Classes with waiting commands, the head has its turn.
    ring: VecDeque<u8>,
    /// Bytes left of the turn.
    credit: [i64; CLASSES],
}

impl Arbiter {
    pub fn new(quantum: u64, jitter: f64, seed: u64, name: &str) -> Arbiter {
        Arbiter {
            quantum,
            jitter,
            rng: rng::stream(seed, &format!("drive/{name}/quantum")),
            streams: Streams::new(),
            queues: vec![VecDeque::new(); if quantum == 0 { 1 } else { CLASSES }],
            ring: VecDeque::with_capacity(CLASSES),
            credit: [0; CLASSES],
        }
    }

    /// A read or write arrives.
    #[inline]
    pub fn push_transfer(&mut self, now: u64, command: Command) {
        if self.quantum == 0 {
            let queued = self.in_order(now, command);
            self.queues[0].push_back(queued);
            return;
        }
        let (start, end) = (command.start, command.start + command.len);
        let queued = Queued { command, arrived: now, sequential: false };
        if let Some(slot) = self.streams.advance(start, end) {
            self.enqueue(slot + 1, Queued { sequential: true, ..queued });
        } else {
            let queues = &self.queues;
            let taken = self.streams.take_over(end, |slot| queues[slot + 1].is_empty());
            if let Some(slot) = taken {
                self.credit[slot + 1] = 0;
            }
            self.enqueue(0, queued);
        }
    }

    /// The same of a drive that takes commands in their order; whoever asks puts it in the queue, or takes it.
    #[inline]
    pub fn in_order(&mut self, now: u64, command: Command) -> Queued {
        let (start, end) = (command.start, command.start + command.len);
        let sequential = self.streams.advance(start, end).is_some();
        if !sequential {
            self.streams.take_over(end, |_| true);
        }
        Queued { command, arrived: now, sequential }
    }

    /// Any other command arrives: it waits among the others and belongs to no stream.
    pub fn push_other(&mut self, now: u64, command: Command) {
        let queued = Queued { command, arrived: now, sequential: false };
        if self.quantum == 0 { self.queues[0].push_back(queued) } else { self.enqueue(0, queued) }
    }

    fn enqueue(&mut self, class: usize, queued: Queued) {
        let pending = !self.queues[class].is_empty();
        self.queues[class].push_back(queued);
        if pending {
            return;
        }
        if class == 0 || self.credit[class] <= 0 {
            self.renew(class);
            self.ring.push_back(class as u8);
        } else {
            self.ring.push_front(class as u8);
        }
    }

    /// A new quantum replaces what is left: the overdraft of the last whole command is forgiven, so
    /// turns are longer than the quantum by half a command on average (specs/drives.md section 7).
    fn renew(&mut self, class: usize) {
        self.credit[class] = if class == 0 {
            (self.quantum / 16).max(OTHERS_QUANTUM_MIN) as i64
        } else if self.jitter > 0.0 {
            let factor = self.rng.range(1.0 - self.jitter, 1.0 + self.jitter);
            (self.quantum as f64 * factor) as i64
        } else {
            self.quantum as i64
        };
    }

    /// The next command, without taking it.
    #[inline]
    pub fn head(&self) -> Option<&Queued> {
        if self.quantum == 0 {
            return self.queues[0].front();
        }
        self.queues[usize::from(*self.ring.front()?)].front()
    }

    /// Takes the next command.
    #[inline]
    pub fn pop(&mut self) -> Option<Queued> {
        if self.quantum == 0 {
            return self.queues[0].pop_front();
        }
        let class = usize::from(*self.ring.front()?);
        let queued = self.queues[class].pop_front().expect("a class in the ring has commands");
        if matches!(queued.command.op, Op::Read | Op::Write) {
            self.credit[class] -= queued.command.len as i64;
        }
        if self.queues[class].is_empty() {
            self.ring.pop_front();
        } else if self.credit[class] <= 0 {
            self.renew(class);
            self.ring.rotate_left(1);
        }
        Some(queued)
    }
}

/// 63 sequential streams, found by the byte at which they go on.
#[derive(Debug)]
struct Streams {
    /// The byte after the stream's last command.
    next: [u64; SLOTS],
    /// First slot of each bucket; newest first.
    bucket: [u8; BUCKETS],
    /// The next slot of the same bucket.
    chain: [u8; SLOTS],
    /// Order of use: a ring through the slots with `SLOTS` as its head; `newer[SLOTS]` is the
    /// oldest, `older[SLOTS]` the newest.
    newer: [u8; SLOTS + 1],
    older: [u8; SLOTS + 1],
    /// Slots that belong to no stream yet are not in any bucket.
    hashed: [bool; SLOTS],
}

impl Streams {
    fn new() -> Streams {
        let around = |step: usize| std::array::from_fn(|i| ((i + step) % (SLOTS + 1)) as u8);
        Streams {
            next: [0; SLOTS],
            bucket: [NIL; BUCKETS],
            chain: [NIL; SLOTS],
            newer: around(1),
            older: around(SLOTS),
            hashed: [false; SLOTS],
        }
    }

    #[inline]
    fn bucket_of(next: u64) -> usize {
        (next.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.ilog2())) as usize
    }

    /// The stream that goes on at `start` moves on to `end`.
    #[inline]
    fn advance(&mut self, start: u64, end: u64) -> Option<usize> {
        let mut slot = self.bucket[Self::bucket_of(start)];
        while slot != NIL {
            if self.next[usize::from(slot)] == start {
                let slot = usize::from(slot);
                self.place(slot, end);
                return Some(slot);
            }
            slot = self.chain[usize::from(slot)];
        }
        None
    }

    /// The least recently used slot that is `free` becomes a stream that goes on at `end`.
    #[inline]
    fn take_over(&mut self, end: u64, free: impl Fn(usize) -> bool) -> Option<usize> {
        let mut slot = usize::from(self.newer[SLOTS]);
        while slot != SLOTS {
            if free(slot) {
                self.place(slot, end);
                return Some(slot);
            }
            slot = usize::from(self.newer[slot]);
        }
        None
    }

    /// Gives `slot` its next byte and makes it the newest.
    #[inline]
    fn place(&mut self, slot: usize, next: u64) {
        if self.hashed[slot] {
            let bucket = Self::bucket_of(self.next[slot]);
            if usize::from(self.bucket[bucket]) == slot {
                self.bucket[bucket] = self.chain[slot];
            } else {
                let mut before = usize::from(self.bucket[bucket]);
                while usize::from(self.chain[before]) != slot {
                    before = usize::from(self.chain[before]);
                }
                self.chain[before] = self.chain[slot];
            }
        }
        let bucket = Self::bucket_of(next);
        self.next[slot] = next;
        self.chain[slot] = self.bucket[bucket];
        self.bucket[bucket] = slot as u8;
        self.hashed[slot] = true;

        let (older, newer) = (self.older[slot], self.newer[slot]);
        self.newer[usize::from(older)] = newer;
        self.older[usize::from(newer)] = older;
        let newest = self.older[SLOTS];
        self.newer[usize::from(newest)] = slot as u8;
        self.older[slot] = newest;
        self.newer[slot] = SLOTS as u8;
        self.older[SLOTS] = slot as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(start: u64, len: u64) -> Command {
        Command { tag: start, op: Op::Read, start, len, fua: false }
    }

    fn order(arbiter: &mut Arbiter) -> Vec<u64> {
        std::iter::from_fn(|| arbiter.pop()).map(|q| q.command.tag).collect()
    }

    /// The same slots as a list searched from its newest end.
    #[test]
    fn streams_equal_a_plain_list() {
        let mut streams = Streams::new();
        let mut list: Vec<(u64, usize)> = (0..SLOTS).map(|i| (u64::MAX, i)).collect();
        let mut r = rng::stream(3, "test/streams");
        for _ in 0..20_000 {
            let start = r.below(90) * 4096;
            let end = start + (1 + r.below(3)) * 4096;
            let known = list.iter().rposition(|&(next, _)| next == start);
            let found = streams.advance(start, end);
            // Two streams may meet at one byte; then either may go on.
            assert_eq!(found.is_some(), known.is_some());
            let slot = found.unwrap_or_else(|| {
                let oldest = list[0].1;
                assert_eq!(streams.take_over(end, |_| true), Some(oldest));
                oldest
            });
            let place = list.iter().position(|&(_, s)| s == slot).unwrap();
            if found.is_some() {
                assert_eq!(list[place].0, start);
            }
            list.remove(place);
            list.push((end, slot));
        }
    }

    #[test]
    fn without_a_quantum_the_order_is_that_of_arrival() {
        let mut arbiter = Arbiter::new(0, 0.0, 1, "t");
        for start in [0, 1 << 30, 4096, 7 << 20] {
            arbiter.push_transfer(0, read(start, 4096));
        }
        assert!(arbiter.queues[0][2].sequential && !arbiter.queues[0][1].sequential);
        assert_eq!(order(&mut arbiter), [0, 1 << 30, 4096, 7 << 20]);
    }

    #[test]
    fn a_turn_lasts_a_quantum_and_the_others_come_once_per_round() {
        let mut arbiter = Arbiter::new(128 << 10, 0.0, 1, "t");
        let (a, b, k) = (0u64, 1u64 << 30, 64u64 << 10);
        // The first command of each stream makes it known.
        arbiter.push_transfer(0, read(a, k));
        arbiter.push_transfer(0, read(b, k));
        assert_eq!(order(&mut arbiter), [a, b]);
        for i in 1..5 {
            arbiter.push_transfer(0, read(a + i * k, k));
        }
        for i in 1..5 {
            arbiter.push_transfer(0, read(b + i * k, k));
        }
        arbiter.push_transfer(0, read(5 << 30, 4096));
        let expected = [
            a + k,
            a + 2 * k,
            b + k,
            b + 2 * k,
            5 << 30,
            a + 3 * k,
            a + 4 * k,
            b + 3 * k,
            b + 4 * k,
        ];
        assert_eq!(order(&mut arbiter), expected);
    }

    #[test]
    fn an_interrupted_turn_goes_on_at_the_head() {
        let mut arbiter = Arbiter::new(256 << 10, 0.0, 1, "t");
        let k = 64u64 << 10;
        arbiter.push_transfer(0, read(0, k));
        assert_eq!(order(&mut arbiter), [0]);
        arbiter.push_transfer(0, read(k, k));
        arbiter.push_transfer(0, read(9 << 30, 4096));
        assert_eq!(arbiter.pop().unwrap().command.tag, k);
        arbiter.push_transfer(0, read(2 * k, k));
        assert_eq!(order(&mut arbiter), [2 * k, 9 << 30]);
    }
}
