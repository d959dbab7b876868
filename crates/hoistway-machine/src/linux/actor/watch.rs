//! Whether a scenario still goes on.
//!
//! A scheduler may keep requests for ever, and whoever waits for them would wait for ever too. The guest's own clock tells:
//! it runs on while all sleep, at no cost of the host's time, so that a limit by it is the same on every machine. Each
//! scenario is a process of its own, for one that waits for the disk can neither look at the clock nor be killed.

use super::load;
use super::scenario::Scenario;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;

/// Counts what the disk has done (Documentation/block/stat.rst).
const STATISTICS: &str = "/sys/block/hw0/stat";
/// From one look to the next, in s.
const LOOK: i64 = 60;
/// Looks in a row at which nothing has been done: no controller holds an I/O of a scenario so long.
const LOOKS: u32 = 10;
/// The columns of I/Os that are over: reads, writes, discards, flushes.
const OVER: [usize; 4] = [0, 4, 11, 15];
/// The column of I/Os at the drive.
const AT_THE_DRIVE: usize = 8;

/// Waits for the process that carries out a scenario; its exit status. `Ok(Err(why))`: it stands still.
pub fn wait_for(pid: libc::pid_t, scenario: &Scenario) -> io::Result<Result<i32, String>> {
    let end = load::clock() + last_event(scenario) * 1_000_000;
    let id = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let child = pidfd_open(id, PidfdFlags::empty())?;
    let timeout = Timespec { tv_sec: LOOK, tv_nsec: 0 };
    let mut still = Still::default();
    while poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&timeout))? == 0 {
        let text = std::fs::read_to_string(STATISTICS)?;
        if load::clock() > end && still.look(&text) {
            return Ok(Err(told(&text)));
        }
    }
    let mut status = 0;
    // SAFETY: `status` lives.
    match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ if libc::WIFEXITED(status) => Ok(Ok(libc::WEXITSTATUS(status))),
        _ => Err(io::Error::other(format!("it was killed by signal {}", libc::WTERMSIG(status)))),
    }
}

/// When the last process has begun its last I/O and the last change is made, in ms.
fn last_event(scenario: &Scenario) -> u64 {
    let ends = scenario.processes.iter().map(|p| p.end);
    let changes = scenario.changes.iter().map(|c| c.at);
    ends.chain(changes).chain([scenario.length]).max().unwrap_or(0)
}

/// What was seen of the disk.
#[derive(Debug, Default)]
struct Still {
    over: [u64; 4],
    looks: u32,
}

impl Still {
    /// Nothing has been done for as long as may be.
    fn look(&mut self, statistics: &str) -> bool {
        let over = OVER.map(|column| number(statistics, column));
        self.looks = if over == self.over { self.looks + 1 } else { 0 };
        self.over = over;
        self.looks >= LOOKS
    }
}

fn number(statistics: &str, column: usize) -> u64 {
    statistics.split_whitespace().nth(column).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn told(statistics: &str) -> String {
    let seconds = LOOK * i64::from(LOOKS);
    let drive = match number(statistics, AT_THE_DRIVE) {
        0 => "none: the scheduler or controller keeps what waits".to_string(),
        n => n.to_string(),
    };
    format!("no I/O has ended for {seconds} s of its time, and the drive has {drive}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_when_nothing_ends_at_many_looks_in_a_row() {
        let line = |reads: u64, flushes: u64| {
            format!("{reads} 0 8 1 2 0 16 3 0 4 5 0 0 0 0 {flushes} 6\n")
        };
        let mut still = Still::default();
        assert!(!still.look(&line(7, 0)));
        assert!((1..LOOKS).all(|_| !still.look(&line(7, 0))));
        // A flush is something.
        assert!(!still.look(&line(7, 1)));
        assert!((1..LOOKS).all(|_| !still.look(&line(7, 1))));
        assert!(still.look(&line(7, 1)));
    }

    #[test]
    fn who_keeps_the_requests_is_told() {
        assert!(told("7 0 8 1 2 0 16 3 0 4 5").ends_with("keeps what waits"));
        assert!(told("7 0 8 1 2 0 16 3 5 4 5").ends_with("the drive has 5"));
    }

    #[test]
    fn time_counts_from_the_last_thing_that_is_to_happen() {
        let text =
            "scheduler k2\ndrive x\nlength 100\nprocess end=250 span=65536\nat 300 prio 0 rt2\n";
        let mut scenario: Scenario = text.parse().unwrap();
        assert_eq!(last_event(&scenario), 300);
        scenario.changes.clear();
        assert_eq!(last_event(&scenario), 250);
        scenario.processes.clear();
        assert_eq!(last_event(&scenario), 100);
    }
}
