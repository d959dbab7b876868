//! An I/O that passes leaves what the whole path leaves.

use super::random::random_device;
use super::*;
use crate::testkit::Rng;

/// The same inputs for two stacks; one may pass.
struct Pair {
    passing: Rig,
    whole: Rig,
    rng: Rng,
    io: u64,
    /// I/Os that passed in a plug section and without one, those that passed back, and flushes that passed.
    passed: [u32; 4],
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let rig = || {
            let mut rng = Rng::new(seed);
            let mut rig = rig_of("none", |d| random_device(d, false, &mut rng));
            *rig.stack.trace_mut() = crate::trace::Trace::digest_only();
            rig
        };
        Pair { passing: rig(), whole: rig(), rng: Rng::new(seed + 1000), io: 0, passed: [0; 4] }
    }

    fn both(&mut self, input: &Input) {
        for rig in [&mut self.passing, &mut self.whole] {
            rig.input(input.clone());
        }
    }

    fn step(&mut self) {
        let now = self.whole.now + Nanos::us(self.rng.below(2) * self.rng.below(3000));
        (self.passing.now, self.whole.now) = (now, now);
        let proc = ProcId(self.rng.below(8) as u32);
        match self.rng.below(16) {
            0 => self.both(&Input::Plug(proc)),
            1 | 2 => self.both(&Input::Unplug(proc)),
            3 => self.both(&Input::Tick),
            // More than there are submissions, or nothing would pass any longer.
            4..=10 => self.answer(),
            kind => {
                self.io += 1;
                let (start, len) = (self.rng.below(600) * 8, 8 * (1 + self.rng.below(40)));
                let mut io = Io::read(self.io, proc, start, len);
                io.cpu = proc.0;
                match kind {
                    11 => return self.flush(Io { op: Op::Flush, sectors: Sectors(0), ..io }),
                    12 => (io.op, io.flags) = (Op::Write, Flags::FUA | Flags::PREFLUSH),
                    13 => (io.op, io.flags) = (Op::Write, Flags::SYNC),
                    _ => {}
                }
                self.alone(io);
            }
        }
    }

    /// A plug section of one I/O, but where one is open; or the I/O without one.
    fn alone(&mut self, io: Io) {
        let section = [Input::Plug(io.proc), Input::Submit(io), Input::Unplug(io.proc)];
        let (stack, now) = (&mut self.passing.stack, self.passing.now);
        let (kind, passed, inputs) = match self.rng.below(2) {
            0 => (0, stack.pass(now, &io), &section[..]),
            _ => (1, stack.pass_alone(now, &io), &section[1..2]),
        };
        if let Some(req) = passed {
            self.passed[kind] += 1;
            self.passing.device.push(req);
            inputs.iter().for_each(|input| self.whole.input(input.clone()));
        } else {
            inputs.iter().for_each(|input| self.both(input));
        }
    }

    fn flush(&mut self, io: Io) {
        let io = Io { flags: Flags::PREFLUSH | Flags::SYNC, ..io };
        if self.passing.stack.pass_flush(self.passing.now, &io) {
            self.passed[3] += 1;
            self.whole.input(Input::Submit(io));
        } else {
            self.both(&Input::Submit(io));
        }
    }

    fn answer(&mut self) {
        let n = self.whole.device.len() as u64;
        if n == 0 {
            return;
        }
        let at = self.rng.below(n) as usize;
        let req = self.whole.device.remove(at);
        assert_eq!(self.passing.device.remove(at), req);
        let whole = Input::Done { req, error: None };
        match self.passing.stack.pass_back(self.passing.now, req) {
            None => self.both(&whole),
            Some(io) => {
                self.passed[2] += 1;
                self.whole.input(whole);
                assert_eq!(self.whole.finished.last(), Some(&io.0));
            }
        }
    }

    fn compare(&self) {
        let state = |rig: &Rig| {
            let s = &rig.stack;
            assert!(s.outputs.is_empty());
            format!(
                "{:?}",
                (
                    (&s.env, s.env.trace.digest(), &s.stats, s.counters, s.now, s.wake, s.held),
                    (&s.state, &s.queues, &s.tag_sets, &s.room, &s.reruns, &s.flush),
                    (&s.agenda, &s.frozen, &s.scheduler),
                )
            )
        };
        assert_eq!(state(&self.passing), state(&self.whole));
    }
}

#[test]
fn what_passes_leaves_what_the_whole_path_leaves() {
    let mut passed = [0; 4];
    for seed in 0..600 {
        let mut pair = Pair::new(seed);
        for n in 0..300 {
            pair.step();
            if n % 50 == 0 {
                pair.compare();
            }
        }
        pair.compare();
        passed.iter_mut().zip(pair.passed).for_each(|(all, n)| *all += n);
    }
    let flushes = passed[3];
    assert!(passed[..3].iter().all(|&n| n >= 450) && flushes >= 60, "{passed:?}");
}
