//! Random loads with everything that may change, all counts recomputed after every step.

use super::rig::Rig;
use crate::request::{Flags, Op, ReqId, Side};
use crate::sched::cfq::Version;
use crate::sched::{At, Dispatch, Merged, Scheduler};
use crate::stage::{Change, Stage};
use crate::unit::{Instant, IoPrio, Nanos, QueueId};
use crate::{GroupId, ProcId};
use alloc::vec::Vec;

struct Chance(u64);

impl Chance {
    /// Uniform enough in `0..n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

struct Load {
    rig: Rig,
    chance: Chance,
    groups: Vec<GroupId>,
    flying: Vec<ReqId>,
    inserted: u64,
    joined: u64,
    issued: u64,
}

impl Load {
    fn new(version: Version, seed: u64) -> Load {
        let mut rig = Rig::of(version, !seed.is_multiple_of(3));
        let mut groups = alloc::vec![GroupId::ROOT];
        if version != Version::V30 {
            groups.extend([rig.group(500), rig.group(1000)]);
        }
        for i in 0..8 {
            // Levels differ little, so that neighbours meet.
            let prio = if i == 7 { IoPrio::idle() } else { IoPrio::be(4) };
            rig.env.procs.add(groups[i % groups.len()], prio);
        }
        let chance = Chance(seed * 2 + 1);
        Load { rig, chance, groups, flying: Vec::new(), inserted: 0, joined: 0, issued: 0 }
    }

    fn proc(&mut self) -> ProcId {
        // Sometimes nobody.
        match self.chance.below(40) {
            0 => ProcId::NONE,
            n => ProcId((n % 8) as u32),
        }
    }

    fn submit(&mut self) {
        let proc = self.proc();
        let region = self.chance.below(3) * 1_000_000;
        let start = region + 8 * self.chance.below(80);
        let op = if self.chance.below(4) == 0 { Op::Write } else { Op::Read };
        let flags = match self.chance.below(6) {
            0 => Flags::META,
            1 => Flags::SYNC,
            2 => Flags::SYNC | Flags::NOIDLE,
            _ => Flags::NONE,
        };
        let io = self.rig.io(proc, op, start, 8 * (1 + self.chance.below(3)), flags);
        let now = self.rig.now;
        let found = self.rig.sched.find_merge(now, &io, &mut self.rig.env.cx());
        if let Some((id, Side::Front)) = found
            && self.rig.env.requests[id].op == op
            && self.rig.sched.may_merge(now, &io, id, &mut self.rig.env.cx())
        {
            let bio = self.rig.env.requests.add_bio(io, now).unwrap();
            self.rig.env.requests.join_bio(id, bio, Side::Front);
            if !self.join_before(id) {
                self.rig.sched.merged(now, id, Merged::Bio(Side::Front), &mut self.rig.env.cx());
            }
            return;
        }
        let _ = self.rig.sched.depth_limit(now, &io, &mut self.rig.env.cx());
        self.rig.submit(io, At::Tail);
        self.inserted += 1;
    }

    /// After a front merge the request may touch the one before.
    fn join_before(&mut self, gone: ReqId) -> bool {
        let now = self.rig.now;
        let before = self.rig.sched.neighbour(gone, Side::Front, &self.rig.env.cx());
        let Some(kept) = before else { return false };
        let (k, g) = (self.rig.env.requests[kept], self.rig.env.requests[gone]);
        if k.op != g.op || k.end() != g.start {
            return false;
        }
        self.rig.sched.merged(now, kept, Merged::Request(gone), &mut self.rig.env.cx());
        self.rig.env.requests.join(kept, gone);
        self.joined += 1;
        true
    }

    fn finish(&mut self) {
        if !self.flying.is_empty() {
            let at = self.chance.below(self.flying.len() as u64) as usize;
            let id = self.flying.swap_remove(at);
            if self.chance.below(20) == 0 {
                let now = self.rig.now;
                self.rig.sched.requeue(now, id, &mut self.rig.env.cx());
                self.rig.sched.prepare(now, id, &mut self.rig.env.cx());
                self.rig.sched.insert(now, id, At::Head, &mut self.rig.env.cx());
            } else {
                self.rig.complete(id);
            }
        }
    }

    fn dispatch(&mut self) -> bool {
        match self.rig.issue_next() {
            Some(id) => {
                self.issued += 1;
                self.flying.push(id);
                true
            }
            None => false,
        }
    }

    fn change(&mut self) {
        let now = self.rig.now;
        let proc = ProcId(self.chance.below(8) as u32);
        match self.chance.below(5) {
            0 => {
                self.rig.exit(proc);
                self.rig.env.procs.get_mut(proc).unwrap().alive = true;
            }
            1 => {
                let prio = match self.chance.below(6) {
                    0 => IoPrio::rt(4),
                    1 => IoPrio::idle(),
                    n => IoPrio::be(2 + n as u8 % 4),
                };
                self.rig.renice(proc, prio);
            }
            2 => {
                let to = self.groups[self.chance.below(self.groups.len() as u64) as usize];
                let p = self.rig.env.procs.get_mut(proc).unwrap();
                let from = core::mem::replace(&mut p.group, to);
                let change = Change::ProcMoved { proc, from, to };
                self.rig.sched.changed(now, &change, &mut self.rig.env.cx());
            }
            3 => {
                let tunables = self.rig.sched.kernel.entry.tunables;
                let t = &tunables[self.chance.below(tunables.len() as u64) as usize];
                let value = if self.chance.below(2) == 0 { t.default } else { t.min };
                self.rig.set(t.name, value);
            }
            _ => {
                if let Some(&group) = self.groups.get(self.chance.below(3) as usize)
                    && self.groups.len() > 1
                {
                    let weight = 100 + self.chance.below(900);
                    let cx = &mut self.rig.env.cx();
                    self.rig.sched.set_group(now, group, "weight", Some(weight), cx).unwrap();
                }
            }
        }
    }

    fn pass(&mut self, us: u64) {
        let until = self.rig.now + Nanos::us(us);
        while let Some(at) = self.rig.sched.next_timer().filter(|&at| at <= until) {
            self.rig.now = self.rig.now.max(at);
            self.rig.sched.timer(self.rig.now, &mut self.rig.env.cx());
            assert!(self.rig.sched.next_timer().is_none_or(|at| at > self.rig.now));
        }
        self.rig.now = until;
    }

    fn step(&mut self) {
        let us = self.chance.below(1500);
        self.pass(us);
        match self.chance.below(20) {
            0..8 if self.rig.sched.pool.queued < 150 => self.submit(),
            0..13 => drop(self.flying.len() < 24 && self.dispatch()),
            13..19 => self.finish(),
            _ => self.change(),
        }
        self.rig.sched.check();
    }

    fn run_dry(&mut self) {
        let end = self.rig.now + Nanos::secs(3600);
        while !self.rig.env.requests.is_empty() {
            assert!(self.rig.now < end, "requests are stuck: {:?}", self.rig.sched);
            if !self.dispatch() {
                self.finish();
                self.pass(1000);
            }
        }
        let answer = self.rig.sched.dispatch(self.rig.now, QueueId(0), &mut self.rig.env.cx());
        assert_eq!(answer, Dispatch::Empty);
        for proc in 0..8 {
            self.rig.exit(ProcId(proc));
        }
        let cfq = &self.rig.sched;
        cfq.check();
        // What is left are shared queues and that of nobody.
        assert!(cfq.queues.live().filter(|(_, q)| q.sync).count() <= 1, "queues are freed");
        assert!(cfq.queues.live().filter(|(_, q)| !q.sync).all(|(_, q)| q.sharing.users <= 1));
        let [asyncs, syncs] = cfq.pool.in_flight;
        assert_eq!(cfq.pool.listed.len() + asyncs + syncs, 0);
    }
}

#[test]
fn random_loads_keep_all_counts_and_end() {
    for version in [Version::V30, Version::V34, Version::V38] {
        let (mut joined, mut issued, mut merges, mut splits) = (0, 0, 0, 0);
        for seed in 1..=20 {
            let mut load = Load::new(version, seed);
            (0..3000).for_each(|_| load.step());
            load.run_dry();
            joined += load.joined;
            issued += load.issued;
            merges += load.rig.sched.stats.queue_merges;
            splits += load.rig.sched.stats.queue_splits;
            assert!(load.rig.now > Instant::ZERO && load.inserted > 300);
        }
        assert!(issued > 10_000, "{version:?}: {issued}");
        assert!(joined >= 5, "{version:?}: {joined}");
        if version != Version::V30 {
            assert!(merges > 20 && splits > 0, "{version:?}: {merges} merges, {splits} splits");
        }
    }
}
