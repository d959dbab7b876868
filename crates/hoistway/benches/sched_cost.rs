//! Cost per request at N busy queues, for every registered scheduler.
//!
//! N processes in one group (best-effort, level 4), each with 4 requests of 4 KiB pending at its
//! own place, 9 reads to 1 sync write, none mergeable; device depth 32, one hardware queue. One
//! turn: dispatch one request, complete the oldest in the device, insert a new one of the completed
//! process; virtual time moves 10 us. For a scheduler that holds requests back until something
//! completes (cfq) the oldest completes first, so it has fewer in the device. The scheduler is called directly with a real context, tracing
//! off. The figure is the fastest of 20 runs of 10^6 turns.
//!
//! A turn reuses the completed request's entry of the request table: the table is the stack's, its
//! cost is not the scheduler's. Allocations are counted; one in steady state fails the bench.
//!
//! `--instructions` counts the instructions of a turn instead of measuring time: stable on a busy
//! machine. It runs the bench under `valgrind --tool=callgrind`, twice per line, and divides the
//! difference.
//!
//! `cargo bench -p hoistway --bench sched_cost -- [--quick] [--turns N] [--runs N]
//! [--only SCHEDULER] [--queues N] [--instructions]`

#[path = "../tests/common/counting.rs"]
mod counting;

use hoistway::request::{Io, Op, ReqId};
use hoistway::sched::{self, At, Dispatch, Entry, Scheduler, Setup};
use hoistway::{Device, Env, Flags, GroupId, Instant, IoPrio, Nanos, ProcId, QueueId, Sectors};
use std::hint::black_box;

/// Requests each process has pending.
const PENDING: usize = 4;
/// Requests with the device.
const DEPTH: usize = 32;
/// Virtual time per turn.
const TURN: Nanos = Nanos::us(10);
/// Length of a request: 4 KiB.
const LENGTH: u64 = 8;
/// Prepared requests, walked round and round; each process begins elsewhere. Few enough to stay in
/// the cache, so that the figures do not count the bench's own misses. Prime, so that a place is
/// not always read or always written when it comes round again.
const PLAN: usize = 1021;
/// Size of a process's region.
const REGION: u64 = 1 << 20;

/// A request to come.
#[derive(Clone, Copy)]
struct Planned {
    /// Start sector in the process's region.
    place: u64,
    op: Op,
    flags: Flags,
}

/// One scheduler under load.
struct Load {
    env: Env,
    sched: Box<dyn Scheduler>,
    now: Instant,
    /// A ring of `in_device` requests.
    device: [ReqId; DEPTH],
    oldest: usize,
    in_device: usize,
    /// The requests to come, prepared outside the timed part.
    plan: Vec<Planned>,
    /// How far each process has come in it.
    at: Vec<u16>,
}

impl Load {
    fn new(entry: &'static Entry, queues: usize) -> Load {
        let slots = queues * PENDING + DEPTH + 1;
        let mut device = Device::new(Sectors(REGION * queues as u64), DEPTH as u32);
        device.profile = entry.profile;
        device.nr_requests = slots as u32;
        let mut env = Env::new(device, slots, slots);
        for _ in 0..queues {
            env.procs.add(GroupId::ROOT, IoPrio::be(4));
        }
        let setup = Setup { device: &env.device, requests: slots, now: Instant::ZERO };
        let sched = (entry.build)(&setup);
        let nobody = ReqId(hoistway::table::Handle { slot: u32::MAX, generation: 0 });
        let mut load = Load {
            env,
            sched,
            now: Instant::ZERO,
            device: [nobody; DEPTH],
            oldest: 0,
            in_device: 0,
            plan: plan(),
            at: (0..queues).map(|proc| (proc * 61 % PLAN) as u16).collect(),
        };
        for _ in 0..PENDING {
            (0..queues).for_each(|proc| load.add(proc));
        }
        while load.in_device < DEPTH {
            // With fewer pending requests than the device takes, new ones arrive at once.
            let Some(id) = load.ask() else { break };
            load.device[load.in_device] = id;
            load.in_device += 1;
            let proc = load.env.requests[id].proc.index();
            load.add(proc);
        }
        load
    }

    /// A new request of `proc` in a new entry of the table.
    fn add(&mut self, proc: usize) {
        let planned = next(&self.plan, &mut self.at, proc);
        let start = proc as u64 * REGION + planned.place;
        let mut io = Io::read(0, ProcId(proc as u32), start, LENGTH);
        io.op = planned.op;
        io.prio = IoPrio::be(4);
        io.flags = planned.flags;
        io.cpu = proc as u32 % 8;
        let id = self.env.requests.create(io, true, QueueId(0), self.now);
        self.insert(id.expect("the table holds all pending requests"));
    }

    fn insert(&mut self, id: ReqId) {
        let mut cx = self.env.cx();
        self.sched.prepare(self.now, id, &mut cx);
        black_box(self.sched.insert(self.now, id, At::Tail, &mut cx));
    }

    /// One request for the device; `None` if there is none before something completes. Idling
    /// schedulers are driven as the stack would: time passes up to their timer.
    fn ask(&mut self) -> Option<ReqId> {
        loop {
            match self.sched.dispatch(self.now, QueueId(0), &mut self.env.cx()) {
                Dispatch::Issue(id) => return Some(id),
                Dispatch::Idle if self.in_device > 0 && self.sched.next_timer().is_none() => {
                    return None;
                }
                Dispatch::Idle => self.wait(),
                Dispatch::Empty => panic!("requests are pending, the scheduler says Empty"),
            }
        }
    }

    #[cold]
    fn wait(&mut self) {
        match self.sched.next_timer() {
            Some(at) => {
                self.now = self.now.max(at);
                self.sched.timer(self.now, &mut self.env.cx());
            }
            // Held back although nothing is in the device: time alone must do.
            None => self.now += Nanos::ms(3),
        }
    }

    fn turn(&mut self) {
        self.now += TURN;
        if self.sched.next_timer().is_some_and(|at| at <= self.now) {
            self.sched.timer(self.now, &mut self.env.cx());
        }
        let issued = loop {
            match self.ask() {
                Some(id) => break id,
                None => self.complete_oldest(),
            }
        };
        if self.in_device == DEPTH {
            self.complete_oldest();
        }
        let mut at = self.oldest + self.in_device;
        at -= if at >= DEPTH { DEPTH } else { 0 };
        self.device[at] = issued;
        self.in_device += 1;
    }

    /// A new request of its process takes its place.
    fn complete_oldest(&mut self) {
        let done = self.device[self.oldest];
        self.oldest = (self.oldest + 1) % DEPTH;
        self.in_device -= 1;
        self.sched.complete(self.now, done, &mut self.env.cx());
        let r = self.env.requests.get_mut(done);
        let proc = r.proc.index();
        let planned = next(&self.plan, &mut self.at, proc);
        r.start = Sectors(proc as u64 * REGION + planned.place);
        r.op = planned.op;
        r.flags = planned.flags;
        self.insert(done);
    }
}

/// The next request of a process.
fn next(plan: &[Planned], at: &mut [u16], proc: usize) -> Planned {
    let at = &mut at[proc];
    let planned = plan[usize::from(*at)];
    *at = if usize::from(*at) + 1 == PLAN { 0 } else { *at + 1 };
    planned
}

/// Random places in a process's own region, 64 KiB apart so that nothing is adjacent; every tenth
/// request a write.
fn plan() -> Vec<Planned> {
    let mut x = 0x2545_F491_4F6C_DD1Du64;
    let mut plan = Vec::with_capacity(PLAN);
    for i in 0..PLAN {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let place = (x >> 20) % (REGION / 128) * 128;
        // Sync writes carry the flag that makes them so.
        let (op, flags) =
            if i % 10 == 9 { (Op::Write, Flags::SYNC) } else { (Op::Read, Flags::NONE) };
        plan.push(Planned { place, op, flags });
    }
    plan
}

struct Args {
    runs: u32,
    turns: u64,
    only: Option<String>,
    queues: Vec<usize>,
    instructions: bool,
}

fn args() -> Args {
    let queues = vec![1, 100, 10_000];
    let mut args = Args { runs: 20, turns: 1_000_000, only: None, queues, instructions: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("this option needs a value");
        match word.as_str() {
            "--bench" => {}
            "--quick" => (args.runs, args.turns) = (5, 200_000),
            "--runs" => args.runs = value().parse().expect("--runs takes a number"),
            "--turns" => args.turns = value().parse().expect("--turns takes a number"),
            "--instructions" => args.instructions = true,
            "--only" => args.only = Some(value()),
            "--queues" => args.queues = vec![value().parse().expect("--queues takes a number")],
            other => panic!("unknown option {other}; see the head of benches/sched_cost.rs"),
        }
    }
    args
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| "unknown machine".into(), |(_, n)| n.trim().to_string())
}

/// Turns before the timed part.
fn warm_up(turns: u64, queues: usize) -> u64 {
    (turns / 2).max(20 * queues as u64)
}

/// Instructions per turn, the bench's own included.
fn instructions(name: &str, queues: usize) -> f64 {
    let count = |turns: u64| {
        let words = ["--only", name, "--runs", "1", "--turns", &turns.to_string(), "--queues"];
        let out = std::process::Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().expect("the bench knows its own file"))
            .args(words)
            .arg(queues.to_string())
            .output()
            .expect("--instructions needs valgrind");
        let text = String::from_utf8_lossy(&out.stderr);
        let total = text.lines().find_map(|l| l.split_once("Collected :"));
        let (_, total) = total.unwrap_or_else(|| panic!("valgrind counted nothing: {text}"));
        total.trim().parse::<f64>().expect("a count of instructions")
    };
    let (short, long) = (20_000, 120_000);
    let turns = long + warm_up(long, queues) - short - warm_up(short, queues);
    (count(long) - count(short)) / turns as f64
}

/// Nanoseconds per turn of the fastest run, and the allocations of all runs.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall-clock time")]
fn measure(entry: &'static Entry, queues: usize, args: &Args) -> (f64, u64) {
    let mut load = Load::new(entry, queues);
    (0..warm_up(args.turns, queues)).for_each(|_| load.turn());
    let before = counting::allocations();
    let mut fastest = f64::INFINITY;
    for _ in 0..args.runs {
        let start = std::time::Instant::now();
        for _ in 0..args.turns {
            load.turn();
        }
        let ns = start.elapsed().as_nanos() as f64 / args.turns as f64;
        fastest = fastest.min(ns);
    }
    (fastest, counting::allocations() - before)
}

/// The table of `--instructions`.
fn count(args: &Args) {
    println!("{:<20} {:>12} {:>12}", "scheduler", "busy queues", "instructions");
    for entry in sched::SCHEDULERS {
        if args.only.as_deref().is_none_or(|only| only == entry.name) {
            for &queues in &args.queues {
                let n = instructions(entry.name, queues);
                println!("{:<20} {queues:>12} {n:>12.0}", entry.name);
            }
        }
    }
}

fn main() {
    let args = args();
    if args.instructions {
        return count(&args);
    }
    println!("cost per request: insert + dispatch + complete, ns, fastest of {} runs", args.runs);
    println!("of {} turns, on {}", args.turns, machine());
    println!(
        "{:<20} {:>12} {:>12} {:>16} {:>12}",
        "scheduler", "busy queues", "ns/request", "requests/s", "allocations"
    );
    let mut leaks = false;
    for entry in sched::SCHEDULERS {
        if args.only.as_deref().is_some_and(|only| only != entry.name) {
            continue;
        }
        for &queues in &args.queues {
            let (ns, allocations) = measure(entry, queues, &args);
            leaks |= allocations > 0;
            println!(
                "{:<20} {queues:>12} {ns:>12.1} {:>16.0} {allocations:>12}",
                entry.name,
                1e9 / ns
            );
        }
    }
    if leaks {
        eprintln!("a scheduler allocated in steady state");
        std::process::exit(1);
    }
}
