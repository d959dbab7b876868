//! What the whole stack costs per I/O, without controllers: submit, issue, done, finished.
//!
//! 32 outstanding 256 KiB reads of 16 processes, each at its own place, nothing mergeable; virtual time
//! moves 1 us per turn. Prints the median of the rounds in ns per I/O, and the fastest.
//!
//! *Premise*, asserted after each round: no read joined another request; a scheduler that counts its queues
//! has one for each process, printed as `queues`, and merged none. The processes send their first reads a
//! second apart, since BFQ puts those born together into one queue.

use hoistway::{
    Device, GroupId, Input, Instant, Io, IoPrio, Nanos, Output, ProcId, ReqId, Sectors, Stack,
};
use std::collections::VecDeque;

const TURNS: u64 = 1_000_000;
const PROCS: u64 = 16;
/// Outstanding I/Os.
const DEPTH: u64 = 32;
/// From the first read of one process to that of the next: no scheduler takes them for one task's.
const BIRTHS: Nanos = Nanos::secs(1);

/// One stack under load.
struct Load {
    stack: Stack,
    now: Instant,
    device: VecDeque<ReqId>,
    submitted: u64,
    issued: u64,
    finished: u64,
}

impl Load {
    fn new(scheduler: &str, hw_queues: u16) -> Load {
        let entry = hoistway::sched::find(scheduler).expect("a registry name");
        let mut device = Device::new(Sectors(1 << 32), 1023);
        device.profile = entry.profile;
        device.hw_queues = hw_queues;
        device.nr_requests = 0;
        let mut stack = Stack::new(device, entry, 64);
        for _ in 0..PROCS {
            stack.add_proc(GroupId::ROOT, IoPrio::NONE);
        }
        let (now, device) = (Instant::ZERO, VecDeque::new());
        let mut load = Load { stack, now, device, submitted: 0, issued: 0, finished: 0 };
        for _ in 0..PROCS {
            load.now += BIRTHS;
            load.turn(0);
        }
        load
    }

    /// The next process submits a read; no more than `most` stay outstanding.
    fn turn(&mut self, most: u64) {
        self.now += Nanos::us(1);
        let (number, proc) = (self.submitted, self.submitted % PROCS);
        let start = proc << 24 | (number / PROCS % 8000) << 11;
        let mut io = Io::read(number, ProcId(proc as u32), start, 512);
        io.cpu = proc as u32;
        io.segments = 64;
        self.submitted += 1;
        let mut wake = self.handle(Input::Submit(io));
        while self.submitted - self.finished > most {
            // A scheduler that idles with nothing in the device is waited for.
            let input = match self.device.pop_front() {
                Some(req) => Input::Done { req, error: None },
                None => {
                    self.now = self.now.max(wake.expect("held requests are timed"));
                    Input::Tick
                }
            };
            wake = self.handle(input);
        }
    }

    /// The time until which nothing happens by itself.
    fn handle(&mut self, input: Input) -> Option<Instant> {
        self.stack.handle(self.now, input).expect("a valid I/O, a live request");
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => {
                    self.issued += 1;
                    self.device.push_back(req);
                }
                Output::Finished { .. } => self.finished += 1,
                Output::WaitUntil(at) => return at,
                Output::Accepted { .. } | Output::Delay { .. } => {}
            }
        }
    }

    /// The bench measures what it says. The queues of the scheduler, if it counts them.
    fn assert_premise(&mut self, scheduler: &str) -> Option<i64> {
        while self.finished < self.submitted {
            self.turn(0);
        }
        assert_eq!(self.issued, self.submitted, "{scheduler}: reads were joined");
        let mut queues = None;
        self.stack.scheduler().figures(&mut |figure| match (figure.name, figure.of) {
            ("queues", None) => queues = Some(figure.value),
            ("queues_merged", None) => {
                assert_eq!(figure.value, 0, "{scheduler}: queues were merged");
            }
            _ => {}
        });
        if let Some(queues) = queues {
            assert!(queues >= PROCS as i64, "{scheduler}: {queues} queues of {PROCS} processes");
        }
        queues
    }
}

/// Nanoseconds per I/O of the median and of the fastest round, and the scheduler's queues.
#[allow(clippy::disallowed_methods)] // A benchmark is about the wall clock.
fn measure(scheduler: &str, hw_queues: u16) -> (f64, f64, Option<i64>) {
    let quick = std::env::args().any(|a| a == "--quick");
    let (rounds, turns) = if quick { (3, TURNS / 10) } else { (11, TURNS) };
    let mut taken = Vec::new();
    let mut queues = None;
    for _ in 0..rounds {
        let mut load = Load::new(scheduler, hw_queues);
        let begin = std::time::Instant::now();
        (0..turns).for_each(|_| load.turn(DEPTH - 1));
        taken.push(begin.elapsed().as_nanos() as f64 / turns as f64);
        queues = load.assert_premise(scheduler);
    }
    taken.sort_by(f64::total_cmp);
    (taken[taken.len() / 2], taken[0], queues)
}

fn main() {
    println!(
        "{:<18} {:>9} {:>7} {:>12} {:>9}",
        "scheduler", "hw queues", "queues", "ns per I/O", "fastest"
    );
    for entry in hoistway::sched::SCHEDULERS {
        let hw_queues: &[u16] = if entry.direct { &[1, 8] } else { &[1] };
        for &n in hw_queues {
            let (ns, fastest, queues) = measure(entry.name, n);
            let queues = queues.map_or("-".to_string(), |n| n.to_string());
            println!("{:<18} {n:>9} {queues:>7} {ns:>12.1} {fastest:>9.1}", entry.name);
        }
    }
}
