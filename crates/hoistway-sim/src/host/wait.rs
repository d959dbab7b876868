//! Who sleeps, on what, since when, and who goes on: the host's wait queue (specs/host.md 2.1), and the processors that
//! those who go on share, if they are few ([`Turns`]; 2.4).

use hoistway::{Instant, Nanos};

/// What a blocked process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    None,
    /// This page of its file.
    Page(u64),
    /// The end of `left` more of the file's write-back bios numbered up to `mark`.
    Writes {
        mark: u64,
        left: u64,
    },
    /// All bios it counts itself.
    Own,
    /// So many of its asynchronous calls that it can collect.
    Calls(u32),
    /// Pages that can be taken back.
    Memory,
    /// This transaction to be on disk.
    Commit(u64),
    /// The file system's log: this write of it (nilfs2), or the one that is shared (btrfs).
    Log(u64),
    /// The ordered data of the transaction being committed.
    Ordered,
    /// The others of a barrier.
    Barrier,
    /// So many flushers that have not yet done what its sync() asked for.
    Works(u32),
}

#[derive(Clone, Copy, Debug)]
struct Sleeper {
    wait: Wait,
    since: Instant,
    /// Time waited for pages, and for other I/O.
    page: Nanos,
    io: Nanos,
}

/// All processes of the host, by number, as sleepers.
#[derive(Debug)]
pub(super) struct Sleepers {
    all: Vec<Sleeper>,
    /// Those that go on, and when.
    woken: Vec<(usize, Instant)>,
    /// Those that wait for memory.
    for_memory: Vec<u32>,
    /// From what a process waits for until it runs.
    wake_time: Nanos,
    turns: Option<Turns>,
}

/// Processors that serve one woken process after another.
///
/// One event may wake many processes: a flush all that synced meanwhile. With a processor for each they would all call
/// again at the same instant. With few, the first goes on at once and the others when a processor is free, in the order
/// in which they were woken. What a process takes of a processor then is one time for all.
#[derive(Debug)]
pub(super) struct Turns {
    /// When each processor is free.
    free: Vec<Instant>,
    /// What a woken process takes of one.
    length: Nanos,
}

impl Turns {
    /// `None` where nobody waits for a processor: none are counted, or nothing takes time.
    pub fn new(cpus: u64, length: Nanos) -> Option<Turns> {
        let free = vec![Instant::ZERO; cpus as usize];
        (cpus > 0 && length > Nanos::ZERO).then_some(Turns { free, length })
    }

    /// When a process goes on that is ready at `ready`.
    fn take(&mut self, ready: Instant) -> Instant {
        let first = self.free.iter_mut().min().expect("there is a processor");
        let at = ready.max(*first);
        *first = at + self.length;
        at
    }
}

impl Sleepers {
    /// None yet.
    pub fn new(wake_time: Nanos) -> Sleepers {
        let (all, woken, for_memory) = (Vec::new(), Vec::new(), Vec::new());
        Sleepers { all, woken, for_memory, wake_time, turns: None }
    }

    /// They share processors.
    pub fn with_turns(self, turns: Option<Turns>) -> Sleepers {
        Sleepers { turns, ..self }
    }

    /// The next process.
    pub fn add(&mut self) {
        let (page, io) = (Nanos::ZERO, Nanos::ZERO);
        self.all.push(Sleeper { wait: Wait::None, since: Instant::ZERO, page, io });
    }

    /// What process `p` waits for.
    pub fn wait(&self, p: usize) -> Wait {
        self.all[p].wait
    }

    /// The same, to be counted down.
    pub fn wait_mut(&mut self, p: usize) -> &mut Wait {
        &mut self.all[p].wait
    }

    /// Time that process `p` has waited for pages, and for other I/O.
    pub fn waited(&self, p: usize) -> (Nanos, Nanos) {
        (self.all[p].page, self.all[p].io)
    }

    /// Process `p` begins to wait.
    pub fn block(&mut self, now: Instant, p: usize, wait: Wait) {
        if wait == Wait::Memory {
            self.for_memory.push(p as u32);
        }
        let sleeper = &mut self.all[p];
        (sleeper.wait, sleeper.since) = (wait, now);
    }

    /// What process `p` waits for has come.
    pub fn wake(&mut self, now: Instant, p: usize) {
        let sleeper = &mut self.all[p];
        let waited = now - sleeper.since;
        match sleeper.wait {
            Wait::Page(_) => sleeper.page += waited,
            Wait::Barrier => {}
            _ => sleeper.io += waited,
        }
        sleeper.wait = Wait::None;
        self.rouse(now, p);
    }

    /// Wakes the processes that wait for memory: some may be free now.
    #[inline]
    pub fn wake_for_memory(&mut self, now: Instant) {
        while let Some(p) = self.for_memory.pop() {
            self.wake(now, p as usize);
        }
    }

    /// A worker that had nothing to do goes on.
    pub fn rouse(&mut self, now: Instant, p: usize) {
        let ready = now + self.wake_time;
        let at = self.turns.as_mut().map_or(ready, |turns| turns.take(ready));
        self.woken.push((p, at));
    }

    /// A worker that has nothing to do goes on then.
    pub fn call_at(&mut self, p: usize, at: Instant) {
        self.woken.push((p, at));
    }

    /// The same for a process that may have been called for another time, which is forgotten.
    pub fn recall_at(&mut self, p: usize, at: Instant) {
        self.woken.retain(|&(other, _)| other != p);
        self.woken.push((p, at));
    }

    /// Nobody has been woken whom the caller does not know of, and whoever is goes on later than at once.
    pub fn are_quiet(&self) -> bool {
        self.woken.is_empty() && self.wake_time > Nanos::ZERO
    }

    /// Takes a process that goes on, and when; the latest first.
    #[inline]
    pub fn take_woken(&mut self) -> Option<(usize, Instant)> {
        self.woken.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_woken_together_take_turns_on_few_processors() {
        let at = |us| Instant::ZERO + Nanos::us(us);
        let turns = Turns::new(2, Nanos::us(30));
        let mut s = Sleepers::new(Nanos::us(1)).with_turns(turns);
        for p in 0..5 {
            s.add();
            s.block(at(0), p, Wait::Own);
        }
        for p in 0..4 {
            s.wake(at(9), p);
        }
        let mut woken: Vec<_> = std::iter::from_fn(|| s.take_woken()).collect();
        woken.reverse();
        assert_eq!(woken, [(0, at(10)), (1, at(10)), (2, at(40)), (3, at(40))]);
        // Both are busy until 70.
        s.wake(at(50), 4);
        assert_eq!(s.take_woken(), Some((4, at(70))));
        assert!(Turns::new(0, Nanos::us(30)).is_none() && Turns::new(2, Nanos::ZERO).is_none());
    }

    #[test]
    fn a_sleeper_is_woken_after_the_wake_time_and_its_wait_is_counted() {
        let at = |us| Instant::ZERO + Nanos::us(us);
        let mut s = Sleepers::new(Nanos::us(2));
        s.add();
        s.add();
        s.block(at(10), 0, Wait::Page(7));
        s.block(at(10), 1, Wait::Memory);
        assert_eq!((s.wait(0), s.take_woken()), (Wait::Page(7), None));
        s.wake(at(15), 0);
        assert_eq!(s.take_woken(), Some((0, at(17))));
        s.wake_for_memory(at(20));
        assert_eq!(s.take_woken(), Some((1, at(22))));
        s.wake_for_memory(at(30));
        assert_eq!((s.take_woken(), s.wait(1)), (None, Wait::None));
        assert_eq!(s.waited(0), (Nanos::us(5), Nanos::ZERO));
        assert_eq!(s.waited(1), (Nanos::ZERO, Nanos::us(10)));
    }
}
