//! What the whole stack costs per I/O, without controllers: submit, issue, done, finished.
//!
//! 32 outstanding 256 KiB reads of 16 processes, each at its own place, nothing mergeable; virtual time
//! moves 1 us per turn. Prints the fastest of the rounds in ns per I/O.

use hoistway::{
    Device, GroupId, Input, Instant, Io, IoPrio, Nanos, Output, ProcId, Sectors, Stack,
};
use std::collections::VecDeque;

const TURNS: u64 = 1_000_000;

#[allow(clippy::disallowed_methods)] // A benchmark is about the wall clock.
fn measure(scheduler: &str, hw_queues: u16) -> f64 {
    let entry = hoistway::sched::find(scheduler).expect("a registry name");
    let mut best = f64::MAX;
    let quick = std::env::args().any(|a| a == "--quick");
    for _ in 0..if quick { 2 } else { 10 } {
        let mut device = Device::new(Sectors(1 << 32), 1023);
        device.profile = entry.profile;
        device.hw_queues = hw_queues;
        device.nr_requests = 0;
        let mut stack = Stack::new(device, entry, 64);
        for _ in 0..16 {
            stack.add_proc(GroupId::ROOT, IoPrio::NONE);
        }
        let mut now = Instant::ZERO;
        let mut device: VecDeque<hoistway::ReqId> = VecDeque::new();
        let mut finished = 0;
        let begin = std::time::Instant::now();
        for turn in 0..TURNS {
            now += Nanos::us(1);
            let proc = ProcId((turn % 16) as u32);
            let mut io = Io::read(turn, proc, (turn % 16) << 24 | (turn / 16 % 8000) << 11, 512);
            io.cpu = proc.0;
            io.segments = 64;
            stack.handle(now, Input::Submit(io)).expect("a valid I/O");
            let mut wake = drain(&mut stack, now, &mut device, &mut finished);
            while turn + 1 - finished >= 32 {
                // A scheduler that idles with nothing in the device is waited for.
                let input = match device.pop_front() {
                    Some(req) => Input::Done { req, error: None },
                    None => {
                        now = now.max(wake.expect("held requests are timed"));
                        Input::Tick
                    }
                };
                stack.handle(now, input).expect("a live request");
                wake = drain(&mut stack, now, &mut device, &mut finished);
            }
        }
        assert!(finished > TURNS - 400);
        best = best.min(begin.elapsed().as_nanos() as f64 / TURNS as f64);
    }
    best
}

fn drain(
    stack: &mut Stack,
    now: Instant,
    device: &mut VecDeque<hoistway::ReqId>,
    finished: &mut u64,
) -> Option<Instant> {
    loop {
        match stack.poll(now) {
            Output::Issue { req, .. } => device.push_back(req),
            Output::Finished { .. } => *finished += 1,
            Output::WaitUntil(at) => return at,
            Output::Accepted { .. } | Output::Delay { .. } => {}
        }
    }
}

fn main() {
    println!("{:<14} {:>9} {:>12}", "scheduler", "hw queues", "ns per I/O");
    for entry in hoistway::sched::SCHEDULERS {
        let queues: &[u16] = if entry.direct { &[1, 8] } else { &[1] };
        for &n in queues {
            println!("{:<14} {:>9} {:>12.1}", entry.name, n, measure(entry.name, n));
        }
    }
}
