//! Random runs: what is taken is given back, nothing is lost, and nobody overtakes in his group.

use super::rig::Rig;
use hoistway::Flags;
use hoistway::testkit::Rng;
use std::collections::BTreeMap;

const GROUPS: [&str; 9] = ["a", "b", "c", "w", "w/x", "w/y", "w/x/p", "w/x/q", "v"];

struct Run {
    rig: Rig,
    rng: Rng,
    /// I/Os that may be overtaken by none but the free: by group, in order of submission.
    lanes: BTreeMap<&'static str, Vec<u64>>,
    /// The same, in order of being let in.
    entered: BTreeMap<&'static str, Vec<u64>>,
    lane_of: BTreeMap<u64, &'static str>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rig = Rig::on(|d| d.nr_requests = [1, 2, 8, 64, 1023][seed as usize % 5]);
        GROUPS.iter().for_each(|g| rig.group(g));
        rig.set("decision_distance", 20);
        rig.set("window_min", 5);
        rig.set("timer", 50);
        rig.set("give_up", 0);
        let (lanes, entered) = (BTreeMap::new(), BTreeMap::new());
        Run { rig, rng: Rng::new(seed), lanes, entered, lane_of: BTreeMap::new() }
    }

    fn step(&mut self) {
        self.rig.wait_us(self.rng.below(2000));
        self.rig.tick();
        let group = GROUPS[self.rng.below(9) as usize];
        match self.rng.below(40) {
            0 => {
                let us = [0, 1, 500, 3000, 10_000][self.rng.below(5) as usize];
                self.rig.target(group, us);
            }
            1..=14 => self.complete_one(),
            15 => {
                self.rig.submit_with(group, Flags::META);
            }
            _ if self.rig.held(group) < 5 => {
                let passed = self.rig.submit(group);
                let io = self.rig.last();
                self.lanes.entry(group).or_default().push(io);
                self.lane_of.insert(io, group);
                // One that was held and came back in the same moment is in `released`.
                if passed && self.rig.released.last() != Some(&io) {
                    self.entered.entry(group).or_default().push(io);
                }
            }
            _ => self.complete_one(),
        }
        self.note_released();
        self.check();
    }

    fn complete_one(&mut self) {
        let n = self.rig.flying.len() as u64;
        if n > 0 {
            let at = self.rng.below(n) as usize;
            let io = *self.rig.flying.keys().nth(at).unwrap();
            self.rig.complete(io);
        }
    }

    fn note_released(&mut self) {
        for io in std::mem::take(&mut self.rig.released) {
            if let Some(group) = self.lane_of.get(&io) {
                self.entered.entry(group).or_default().push(io);
            }
        }
    }

    /// A group with waiters has something in flight, so that they are not forgotten.
    fn check(&mut self) {
        for group in GROUPS {
            if self.rig.depth_known(group) && self.rig.gauge("waiters", group) > 0 {
                assert!(self.rig.gauge("inflight", group) > 0, "{group}");
            }
        }
    }

    fn finish(mut self, seed: u64) -> u64 {
        while !self.rig.flying.is_empty() {
            self.rig.wait_us(100);
            self.complete_one();
            self.note_released();
        }
        for group in GROUPS {
            assert_eq!(self.rig.held(group), 0, "seed {seed}: {group}");
            if self.rig.depth_known(group) {
                assert_eq!(self.rig.gauge("inflight", group), 0, "seed {seed}: {group}");
            }
        }
        for (group, ios) in &self.lanes {
            let entered = &self.entered[group];
            let wrong = ios.iter().zip(entered).position(|(a, b)| a != b);
            assert_eq!(wrong.map(|at| ios[at]), None, "seed {seed}: {group}: overtaken");
            assert_eq!(ios.len(), entered.len(), "seed {seed}: {group}");
        }
        let mut held = 0;
        self.rig.ctl.figures(&mut |f| {
            if f.name == "ios_held" {
                held = f.value as u64;
            }
        });
        held
    }
}

#[test]
fn slots_balance_and_groups_keep_their_order_over_random_runs() {
    let mut held = 0;
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for _ in 0..2500 {
            run.step();
        }
        held += run.finish(seed);
    }
    assert!(held > 5_000, "the runs are about waiting: {held}");
}
