//! Processors that computations share (specs/host.md 2.3).
//!
//! With `n` processors and `m` running computations each progresses at the rate min(1, n/m): processor sharing, the
//! limit of a time-sliced scheduler with a short slice. All running computations progress alike, so one counter is
//! enough, the *work* that any of them has been given since the beginning: a computation of length d that starts at
//! work W is over when the counter reaches W + d. Whenever m changes, every end is computed anew.
//!
//! Work is counted in 2^-32 ns, so that n/m of a nanosecond is lost at most 2^-32 ns to rounding each time m changes;
//! ends are rounded up, so that nobody is called before its work is done.
//!
//! Weaknesses: no priorities between processes, no cost of switching, and what system calls cost (host.md 2.1) is not
//! part of the competition.

use super::kernel::Kernel;
use super::op::Act;
use super::task::{OpStep, Task};
use super::wait::Sleepers;
use hoistway::{Instant, Nanos};

/// Fractional bits of work.
const FRACTION: u32 = 32;

/// The processors of the host.
#[derive(Debug)]
pub(super) struct Cpus {
    /// How many; 0: every process has its own.
    n: u64,
    /// Processes that compute, with the work at which they are done.
    running: Vec<(usize, u128)>,
    work: u128,
    /// Up to when `work` is counted.
    at: Instant,
}

impl Cpus {
    /// `n` processors; 0: one for every process.
    pub fn new(n: u64) -> Cpus {
        Cpus { n, running: Vec::new(), work: 0, at: Instant::ZERO }
    }

    /// Process `p` begins to compute for `length`. Returns what it does meanwhile.
    fn start(&mut self, now: Instant, p: usize, length: Nanos, sleepers: &mut Sleepers) -> Act {
        if self.n == 0 {
            return Act::WaitUntil(now + length);
        }
        self.advance(now);
        self.running.push((p, self.work + (u128::from(length.0) << FRACTION)));
        self.call_all(now, sleepers);
        Act::Rest
    }

    /// True when the computation of process `p` is over, which then computes no more.
    fn is_over(&mut self, now: Instant, p: usize, sleepers: &mut Sleepers) -> bool {
        let Some(i) = self.running.iter().position(|&(q, _)| q == p) else { return true };
        self.advance(now);
        let over = self.running[i].1 <= self.work;
        if over {
            self.running.remove(i);
        }
        self.call_all(now, sleepers);
        over
    }

    fn advance(&mut self, now: Instant) {
        let passed = u128::from(now.since(self.at).0) << FRACTION;
        self.at = now;
        let (n, m) = (u128::from(self.n), self.running.len() as u128);
        self.work += if m <= n { passed } else { passed * n / m };
    }

    /// When each would be over if nothing changed.
    fn call_all(&self, now: Instant, sleepers: &mut Sleepers) {
        let n = u128::from(self.n);
        let m = (self.running.len() as u128).max(n);
        for &(p, end) in &self.running {
            let left = end.saturating_sub(self.work) * m;
            let time = left.div_ceil(n << FRACTION);
            sleepers.recall_at(p, now + Nanos(time as u64));
        }
    }
}

/// One computation of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Computing {
    length: Nanos,
    begun: bool,
}

impl Computing {
    /// It takes `length` on a processor of its own.
    pub fn new(length: Nanos) -> Computing {
        Computing { length, begun: false }
    }

    /// What the process does next.
    pub fn step(&mut self, now: Instant, task: &Task, k: &mut Kernel) -> OpStep {
        if !std::mem::replace(&mut self.begun, true) {
            return OpStep::Act(k.cpus.start(now, task.p, self.length, &mut k.sleepers));
        }
        match k.cpus.is_over(now, task.p, &mut k.sleepers) {
            true => OpStep::Over,
            false => OpStep::Act(Act::Rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Nanos::us(us)
    }

    /// Runs computations (start, length) in us to their ends, in ns.
    fn ends(n: u64, jobs: &[(u64, u64)]) -> Vec<u64> {
        let (mut cpus, mut sleepers) = (Cpus::new(n), Sleepers::new(Nanos(1400)));
        let mut calls: Vec<(Instant, usize)> = Vec::new();
        let mut ends = vec![0; jobs.len()];
        let mut starts: Vec<usize> = (0..jobs.len()).collect();
        loop {
            let start = starts.first().map(|&p| at(jobs[p].0));
            let call = calls.iter().min().copied();
            match (start, call) {
                (None, None) => return ends,
                (Some(t), c) if c.is_none_or(|c| t < c.0) => {
                    let p = starts.remove(0);
                    let act = cpus.start(t, p, Nanos::us(jobs[p].1), &mut sleepers);
                    if let Act::WaitUntil(end) = act {
                        ends[p] = end.as_nanos();
                    }
                }
                (_, Some((t, p))) => {
                    calls.retain(|&(_, q)| q != p);
                    if cpus.is_over(t, p, &mut sleepers) {
                        ends[p] = t.as_nanos();
                    }
                }
                _ => unreachable!("a start without a call is the case above"),
            }
            while let Some((p, t)) = sleepers.take_woken() {
                calls.retain(|&(_, q)| q != p);
                calls.push((t, p));
            }
        }
    }

    #[test]
    fn without_a_number_every_process_has_its_own() {
        assert_eq!(ends(0, &[(0, 10), (0, 10), (5, 10)]), [10_000, 10_000, 15_000]);
    }

    #[test]
    fn one_processor_is_shared_equally() {
        // Alone until 10, then half each: the first has 10 left and ends at 30, when the second has had 10 of 20.
        assert_eq!(ends(1, &[(0, 20), (10, 20)]), [30_000, 40_000]);
    }

    #[test]
    fn two_processors_serve_three_at_two_thirds() {
        assert_eq!(ends(2, &[(0, 20), (0, 20), (0, 20)]), [30_000, 30_000, 30_000]);
        // Thirds are not whole nanoseconds: rounded up.
        assert_eq!(ends(2, &[(0, 1), (0, 1), (0, 2)]), [1500, 1500, 2500]);
        assert_eq!(ends(3, &[(0, 1), (0, 1), (0, 1), (0, 1)]), [1334; 4]);
    }
}
