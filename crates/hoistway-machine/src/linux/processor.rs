//! One processor for a guest and the thread that serves its drive.
//!
//! **Problem.** A system call of a guest's process is a stop under ptrace: the process stops, the kernel (a process, too)
//! wakes, and the other way round; a command is two switches more, to the thread that serves the drive and back. Never
//! do two of them work at a time. On several processors each of these switches wakes an idle processor, which takes
//! longer than what is then done there: a cell took 10.0 s of which 3 s were work, and 6.3 s on one processor.
//!
//! **Rule.** The thread takes a processor before it starts the guest, which inherits it: of those that it may use the one
//! with the fewest guests of this program; of these the one it is running on, or else the first. At the end it has back
//! what it had.
//!
//! **Weakness.** Others do not know of it: two programs that run a guest each may choose the same processor, if they begin
//! on the same.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::{Mutex, PoisonError};

/// Guests of this program on each processor.
static GUESTS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A processor that was taken; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Processor {
    number: usize,
    /// What the thread may use again then.
    before: CpuSet,
}

impl Processor {
    /// Takes one for this thread. `None`: the system does not allow it, and all goes on as it is, only slower.
    pub fn take() -> Option<Processor> {
        let before = sched_getaffinity(None).ok()?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&n| before.is_set(n)).collect();
        let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        guests.resize(CpuSet::MAX_CPU, 0);
        let number = choose(&allowed, &guests, sched_getcpu())?;
        let mut only = CpuSet::new();
        only.set(number);
        sched_setaffinity(None, &only).ok()?;
        guests[number] += 1;
        Some(Processor { number, before })
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        GUESTS.lock().unwrap_or_else(PoisonError::into_inner)[self.number] -= 1;
        // Processors may have been taken from us meanwhile; then the system has set what is left.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn choose(allowed: &[usize], guests: &[u32], here: usize) -> Option<usize> {
    allowed.iter().copied().min_by_key(|&n| (guests[n], n != here, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_processor_is_taken_and_among_equals_the_own() {
        assert_eq!(choose(&[0, 1, 3], &[0, 0, 0, 0], 1), Some(1));
        assert_eq!(choose(&[0, 1, 3], &[0, 1, 0, 0], 1), Some(0));
        assert_eq!(choose(&[1, 3], &[0, 2, 0, 1], 1), Some(3));
        assert_eq!(choose(&[], &[0], 0), None);
    }

    #[test]
    fn what_was_taken_is_given_back() {
        let count = |set: CpuSet| set.count();
        let before = count(sched_getaffinity(None).unwrap());
        let Some(taken) = Processor::take() else { return println!("skipped: not allowed here") };
        assert_eq!(count(sched_getaffinity(None).unwrap()), 1);
        assert_eq!(sched_getcpu(), taken.number);
        drop(taken);
        assert_eq!(count(sched_getaffinity(None).unwrap()), before);
    }
}
