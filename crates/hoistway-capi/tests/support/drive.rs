//! The load that Rust, C (`tests/programs/drive.c`) and Go (`tests/programs/go/main.go`) drive alike: reads,
//! and one write in sixteen, of four processes at random places that never touch, at most 64 open. Each driver prints the
//! order in which requests were issued as a number, and what it has counted.
//!
//! One by one: each turn submits if there is room, otherwise completes the oldest request, otherwise waits.
//! In batches: up to 32 inputs are decided upon before the first is made, completions first.

use hoistway::{
    Device, GroupId, Input, Instant, Io, IoPrio, Output, ProcId, ReqId, Sectors, Stack,
};
use std::collections::VecDeque;

/// Inputs of a batch.
const BATCH: usize = 32;
/// I/Os that are open at most.
const OPEN: u64 = 64;

/// What a run leaves: equal in all languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub order: u64,
    pub issued: u64,
    pub finished: u64,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Told { order, issued, finished } = self;
        write!(f, "order {order:016x} issued {issued} finished {finished}")
    }
}

struct Drive {
    stack: Stack,
    procs: [ProcId; 4],
    random: u64,
    now: u64,
    next: u64,
    open: u64,
    /// `u64::MAX`: never.
    wait: u64,
    device: VecDeque<ReqId>,
    told: Told,
}

impl Drive {
    fn new(scheduler: &str) -> Drive {
        let entry = hoistway::sched::find(scheduler).expect("a registry name");
        let mut stack = Stack::new(Device::new(Sectors(1 << 30), 32), entry, 256);
        let procs = [(); 4].map(|()| stack.add_proc(GroupId::ROOT, IoPrio::NONE));
        Drive {
            stack,
            procs,
            random: 88_172_645_463_325_252,
            now: 0,
            next: 0,
            open: 0,
            wait: u64::MAX,
            device: VecDeque::with_capacity(64),
            told: Told { order: 0, issued: 0, finished: 0 },
        }
    }

    fn submission(&mut self) -> Input {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (x, proc) = (self.random, self.procs[(self.next & 3) as usize]);
        let sector = (x % (1 << 26)) * 16;
        let io = match x >> 60 {
            0 => Io::write(self.next, proc, sector, 8),
            _ => Io::read(self.next, proc, sector, 8),
        };
        self.next += 1;
        self.open += 1;
        Input::Submit(Io { prio: IoPrio::be(4), ..io })
    }

    fn done(&mut self) -> Option<Input> {
        self.device.pop_front().map(|req| Input::Done { req, error: None })
    }

    /// Time goes to the next wait.
    fn tick(&mut self) -> Input {
        if self.wait != u64::MAX {
            self.now = self.now.max(self.wait);
        }
        Input::Tick
    }

    fn make(&mut self, now: u64, input: Input) {
        let now = Instant::from_nanos(now);
        self.stack.handle(now, input).expect("a good input");
        loop {
            match self.stack.poll(now) {
                Output::Issue { req, .. } => {
                    let sector = self.stack.request(req).start.0;
                    self.told.order = self.told.order.wrapping_mul(31).wrapping_add(sector);
                    self.told.issued += 1;
                    self.device.push_back(req);
                }
                Output::Finished { .. } => {
                    self.told.finished += 1;
                    self.open -= 1;
                }
                Output::Accepted { .. } | Output::Delay { .. } => {}
                Output::WaitUntil(at) => {
                    self.wait = at.map_or(u64::MAX, Instant::as_nanos);
                    return;
                }
            }
        }
    }

    fn turn(&mut self, total: u64) {
        self.now += 1000;
        let input = if self.open < OPEN && self.next < total {
            self.submission()
        } else {
            match self.done() {
                Some(input) => input,
                None => self.tick(),
            }
        };
        self.make(self.now, input);
    }

    fn batch(&mut self, total: u64, inputs: &mut Vec<(u64, Input)>) {
        while inputs.len() < BATCH / 2
            && let Some(input) = self.done()
        {
            self.now += 1000;
            inputs.push((self.now, input));
        }
        while inputs.len() < BATCH && self.open < OPEN && self.next < total {
            self.now += 1000;
            let input = self.submission();
            inputs.push((self.now, input));
        }
        if inputs.is_empty() {
            self.now += 1000;
            let input = self.tick();
            inputs.push((self.now, input));
        }
        for (now, input) in inputs.drain(..) {
            self.make(now, input);
        }
    }
}

/// Drives `total` I/Os through a scheduler, with the core's own interface.
#[inline(never)]
pub fn drive(scheduler: &str, total: u64, batches: bool) -> Told {
    let mut drive = Drive::new(scheduler);
    let mut inputs = Vec::with_capacity(BATCH);
    while drive.told.finished < total {
        match batches {
            true => drive.batch(total, &mut inputs),
            false => drive.turn(total),
        }
    }
    drive.told
}
