//! Cost per request at N busy queues, for every registered scheduler.
//!
//! N processes in one group (best-effort, level 4), each with 4 requests of 4 KiB at its own place, 9
//! reads to 1 sync write, none mergeable; device depth 32, one hardware queue. One turn: dispatch one
//! request, complete the oldest in the device, insert a new one of the completed process; virtual time
//! moves 10 us. For a scheduler that holds requests back until something completes (cfq) the oldest
//! completes first, so it has fewer in the device. The scheduler is called directly with a real context,
//! tracing off. The figure is the median of 20 runs of 10^6 turns, with the fastest beside it.
//!
//! *Premise.* The processes are born a second apart: BFQ puts those born together into one queue, and a
//! bench of 100 busy queues that are one measures something else. A scheduler that counts its queues is
//! asked after each measurement, and the bench fails if they are not N, or not busy.
//!
//! *One at a time* (`--pending 1`): each process has one request, and sends the next when it is complete:
//! what a program that reads synchronously does. Each request then makes its queue busy, and leaves it
//! empty.
//!
//! A turn reuses the completed request's entry of the request table: the table is the stack's, its
//! cost is not the scheduler's. Allocations are counted; one in steady state fails the bench.
//!
//! *Groups* (`--groups`, and the last row of a scheduler that has group weights): 1,000 processes, each in a
//! leaf of its own of a tree of groups of three levels, ten children each, weights 100 to 300.
//!
//! `--instructions` counts the instructions of each turn, by operation, instead of measuring time: the same on a busy
//! machine. *Alone* are those of the scheduler's `prepare`, `insert`, `dispatch` and `complete` and of all they call;
//! `turn` has the bench's too, which makes contexts, requests and calls: about 205, more where it asks more than
//! once. It runs the bench under `valgrind --tool=callgrind`. `--record` writes the table to
//! `benches/instructions.txt`, `--check` compares with it, for continuous integration: an operation more
//! than 8 % or a sum more than 4 % above it fails, and so does a row that the table lacks. Without valgrind, or with
//! another tool chain than the table's, it says so and does nothing. `--check --quick` has the rows of 100 queues alone.
//!
//! `cargo bench -p hoistway --bench sched_cost -- [--quick] [--turns N] [--runs N]
//! [--only SCHEDULER] [--queues N [--pending M] | --groups] [--set TUNABLE=NUMBER]
//! [--instructions | --record | --check]`

#[path = "../tests/common/counting.rs"]
mod counting;
#[path = "support/instructions.rs"]
mod instructions;

use hoistway::request::{Io, Op, ReqId};
use hoistway::sched::{self, At, Dispatch, Entry, Scheduler, Setup};
use hoistway::stage::Change;
use hoistway::{Device, Env, Flags, GroupId, Instant, IoPrio, Nanos, ProcId, QueueId, Sectors};
use instructions::Row;
use std::hint::black_box;

/// Requests of each process: deep, and one at a time.
const DEEP: usize = 4;
const ONE: usize = 1;
/// From the birth of one process to that of the next: no scheduler takes them for one task's.
const BIRTHS: Nanos = Nanos::secs(1);
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
/// Children of each group of the tree, which has three levels below the root.
const CHILDREN: usize = 10;
/// Its leaves.
const LEAVES: usize = CHILDREN * CHILDREN * CHILDREN;
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
    /// Requests of each process.
    pending: usize,
    /// Requests with the device; fewer where most processes would have nothing else.
    depth: usize,
    /// All requests: with the scheduler or with the device.
    made: usize,
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
    fn new(entry: &'static Entry, row: &Row) -> Load {
        let (queues, pending) = (row.queues, row.pending);
        let slots = queues * pending + DEPTH + 1;
        let mut device = Device::new(Sectors(REGION * queues as u64), DEPTH as u32);
        device.profile = entry.profile;
        device.nr_requests = slots as u32;
        let mut env = Env::new(device, slots, slots);
        let setup = Setup { device: &env.device, requests: slots, now: Instant::ZERO };
        let mut sched = (entry.build)(&setup);
        let leaves = if row.tree { grow(&mut env, &mut *sched) } else { vec![GroupId::ROOT] };
        for proc in 0..queues {
            env.procs.add(leaves[proc % leaves.len()], IoPrio::be(4));
        }
        let nobody = ReqId(hoistway::table::Handle { slot: u32::MAX, generation: 0 });
        let mut load = Load {
            env,
            sched,
            now: Instant::ZERO,
            pending,
            depth: if pending > ONE { DEPTH } else { DEPTH.min(queues.div_ceil(2)) },
            made: 0,
            device: [nobody; DEPTH],
            oldest: 0,
            in_device: 0,
            plan: plan(),
            at: (0..queues).map(|proc| (proc * 61 % PLAN) as u16).collect(),
        };
        for proc in 0..queues {
            load.now += BIRTHS;
            load.fire_timer();
            (0..pending).for_each(|_| load.add(proc));
        }
        while load.in_device < load.depth {
            let Some(id) = load.ask() else { break };
            load.device[load.in_device] = id;
            load.in_device += 1;
            if pending > ONE {
                // With fewer pending requests than the device takes, new ones arrive at once.
                let proc = load.env.requests[id].proc.index();
                load.add(proc);
            }
        }
        load
    }

    /// A new request of `proc` in a new entry of the table.
    fn add(&mut self, proc: usize) {
        let planned = next(&self.plan, &mut self.at, proc);
        let start = proc as u64 * REGION + planned.place;
        let mut io = Io::read(0, ProcId(proc as u32), start, LENGTH);
        io.group = self.env.procs.group(ProcId(proc as u32));
        io.op = planned.op;
        io.prio = IoPrio::be(4);
        io.flags = planned.flags;
        io.cpu = proc as u32 % 8;
        let id = self.env.requests.create(io, true, QueueId(0), self.now);
        self.made += 1;
        self.op_insert(id.expect("the table holds all pending requests"));
    }

    #[inline(never)]
    fn op_insert(&mut self, id: ReqId) {
        let mut cx = self.env.cx();
        self.sched.prepare(self.now, id, &mut cx);
        black_box(self.sched.insert(self.now, id, At::Tail, &mut cx));
    }

    /// One request for the device; `None` if there is none before something completes. Idling
    /// schedulers are driven as the stack would: time passes up to their timer.
    fn ask(&mut self) -> Option<ReqId> {
        self.env.closed.clear();
        loop {
            match self.op_dispatch() {
                Dispatch::Issue(id) => return Some(id),
                // What completes may bring the awaited request: sooner than the timer, if one at a time.
                Dispatch::Idle
                    if self.in_device > 0
                        && (self.pending == ONE || self.sched.next_timer().is_none()) =>
                {
                    return None;
                }
                Dispatch::Empty if self.in_device > 0 && self.pending == ONE => return None,
                // A scheduler that gave the device few at first and more later has none left.
                Dispatch::Empty if self.made == self.in_device => return None,
                Dispatch::Idle => self.wait(),
                Dispatch::Empty => panic!("requests are pending, the scheduler says Empty"),
            }
        }
    }

    #[inline(never)]
    fn op_dispatch(&mut self) -> Dispatch {
        self.sched.dispatch(self.now, QueueId(0), &mut self.env.cx())
    }

    #[inline(never)]
    fn op_complete(&mut self, id: ReqId) {
        self.sched.complete(self.now, id, &mut self.env.cx());
    }

    /// What `--instructions` counts.
    #[inline(never)]
    fn counted_turns(&mut self, turns: u64) {
        for _ in 0..turns {
            self.turn();
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

    fn fire_timer(&mut self) {
        if self.sched.next_timer().is_some_and(|at| at <= self.now) {
            self.sched.timer(self.now, &mut self.env.cx());
        }
    }

    /// The bench measures what it says: so many queues, and all of them busy but those whose requests are
    /// with the device. Schedulers without queues of processes have no such figures.
    fn assert_premise(&self, row: &Row) {
        let queues = row.queues as i64;
        self.sched.figures(&mut |figure| match (figure.name, figure.of) {
            ("queues", None) => assert!(
                figure.value >= queues,
                "{}: {} queues where {queues} are measured",
                row.scheduler,
                figure.value
            ),
            ("queues_busy", None) => assert!(
                figure.value >= queues - self.in_device as i64,
                "{}: {} busy queues where {queues} are measured",
                row.scheduler,
                figure.value
            ),
            _ => {}
        });
    }

    fn turn(&mut self) {
        self.now += TURN;
        self.fire_timer();
        let issued = loop {
            match self.ask() {
                Some(id) => break id,
                None => self.complete_oldest(),
            }
        };
        if self.in_device == self.depth {
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
        self.op_complete(done);
        let r = self.env.requests.get_mut(done);
        let proc = r.proc.index();
        let planned = next(&self.plan, &mut self.at, proc);
        r.start = Sectors(proc as u64 * REGION + planned.place);
        r.op = planned.op;
        r.flags = planned.flags;
        self.op_insert(done);
    }
}

/// The tree of groups; its leaves.
fn grow(env: &mut Env, sched: &mut dyn Scheduler) -> Vec<GroupId> {
    let mut level = vec![GroupId::ROOT];
    for _ in 0..3 {
        let mut below = Vec::new();
        for parent in level {
            for n in 0..CHILDREN {
                let group = env.groups.add(parent, "group");
                let (now, weight) = (Instant::ZERO, 100 * (1 + n as u64 % 3));
                sched.changed(now, &Change::GroupAdded(group), &mut env.cx());
                sched
                    .set_group(now, group, "weight", Some(weight), &mut env.cx())
                    .expect("the scheduler has group weights, up to 1000 at least");
                below.push(group);
            }
        }
        level = below;
    }
    level
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
    /// Numbers of queues, with the requests of each process.
    queues: Vec<(usize, usize)>,
    groups: bool,
    what: What,
    quick: bool,
    /// Tunables to be set first.
    set: Vec<(String, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Time,
    Instructions,
    Record,
    Check,
}

fn args() -> Args {
    let queues = vec![(1, DEEP), (100, DEEP), (10_000, DEEP), (100, ONE), (10_000, ONE)];
    let mut pending = None;
    let what = What::Time;
    let mut args = Args {
        runs: 20,
        turns: 1_000_000,
        only: None,
        queues,
        groups: true,
        what,
        quick: false,
        set: vec![],
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("this option needs a value");
        match word.as_str() {
            "--bench" => {}
            "--quick" => (args.runs, args.turns, args.quick) = (5, 200_000, true),
            "--runs" => args.runs = value().parse().expect("--runs takes a number"),
            "--turns" => args.turns = value().parse().expect("--turns takes a number"),
            "--instructions" => args.what = What::Instructions,
            "--record" => args.what = What::Record,
            "--check" => args.what = What::Check,
            "--set" => {
                let text = value();
                let (name, value) = text.split_once('=').expect("--set takes NAME=NUMBER");
                args.set.push((name.into(), value.parse().expect("--set takes NAME=NUMBER")));
            }
            "--groups" => args.queues.clear(),
            "--only" => args.only = Some(value()),
            "--queues" => {
                args.queues = vec![(value().parse().expect("--queues takes a number"), DEEP)];
                args.groups = false;
            }
            "--pending" => {
                let n: usize = value().parse().expect("--pending takes a number");
                assert!((1..=DEEP).contains(&n), "--pending takes 1 to {DEEP}");
                pending = Some(n);
            }
            other => panic!("unknown option {other}; see the head of benches/sched_cost.rs"),
        }
    }
    if let Some(n) = pending {
        args.queues.iter_mut().for_each(|row| row.1 = n);
        args.queues.dedup();
    }
    if args.quick && args.what == What::Check {
        args.queues.retain(|(queues, _)| *queues == 100);
        args.groups = false;
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

/// The rows asked for: schedulers, each with its numbers of queues and the tree.
fn rows(args: &Args) -> Vec<(&'static Entry, Row)> {
    let mut rows = Vec::new();
    for &entry in sched::SCHEDULERS {
        if args.only.as_deref().is_some_and(|only| only != entry.name) {
            continue;
        }
        let scheduler = || entry.name.to_string();
        for &(queues, pending) in &args.queues {
            rows.push((entry, Row { scheduler: scheduler(), queues, pending, tree: false }));
        }
        if args.groups && entry.weighs_groups() {
            let (queues, pending) = (LEAVES, DEEP);
            rows.push((entry, Row { scheduler: scheduler(), queues, pending, tree: true }));
        }
    }
    rows
}

/// Nanoseconds per turn, of the median and of the fastest run, and the allocations of all runs.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall-clock time")]
fn measure(entry: &'static Entry, row: &Row, args: &Args) -> (f64, f64, u64) {
    let mut load = Load::new(entry, row);
    for (name, value) in &args.set {
        load.sched.set(load.now, name, *value, &mut load.env.cx()).expect("the tunable exists");
    }
    (0..warm_up(args.turns, row.queues)).for_each(|_| load.turn());
    let mut taken = Vec::with_capacity(args.runs as usize);
    let before = counting::allocations();
    for _ in 0..args.runs {
        let start = std::time::Instant::now();
        load.counted_turns(args.turns);
        let ns = start.elapsed().as_nanos() as f64 / args.turns as f64;
        taken.push(ns);
    }
    let allocations = counting::allocations() - before;
    load.assert_premise(row);
    taken.sort_by(f64::total_cmp);
    (taken[taken.len() / 2], taken[0], allocations)
}

/// The table of `--instructions`, and what becomes of it. False: a count is over the recorded one.
fn count(args: &Args) -> bool {
    if let Err(why) = instructions::available() {
        println!("skipped: instructions are not counted: {why}");
        return true;
    }
    let check = args.what == What::Check;
    if let Some(why) = instructions::incomparable().filter(|_| check) {
        println!("skipped: instructions are not compared: {why}");
        return true;
    }
    let recorded = if check { instructions::recorded() } else { Default::default() };
    let mut counted = Vec::new();
    let mut good = true;
    println!("{}", instructions::heading());
    for (_, row) in rows(args) {
        let old = recorded.get(&row);
        if check && old.is_none() {
            println!("{}: no row in benches/instructions.txt; --record makes it", row.scheduler);
            good = false;
            continue;
        }
        let counts = instructions::count(&row, &args.set);
        let verdict = match (args.what, old) {
            (What::Check, Some(old)) => match instructions::compare(old, &counts) {
                Ok(told) => told,
                Err(over) => {
                    good = false;
                    format!("MORE: {over}")
                }
            },
            _ => String::new(),
        };
        println!("{} {verdict}", instructions::line(&row, &counts));
        counted.push((row, counts));
    }
    if args.what == What::Record {
        instructions::record(&counted);
    }
    good
}

fn main() {
    let args = args();
    if args.what != What::Time {
        std::process::exit(i32::from(!count(&args)));
    }
    println!("cost per request: insert + dispatch + complete, ns, median of {} runs", args.runs);
    println!("of {} turns, on {}", args.turns, machine());
    println!(
        "{:<18} {:>11} {:>8} {:>6} {:>11} {:>9} {:>12} {:>12}",
        "scheduler",
        "busy queues",
        "requests",
        "groups",
        "ns/request",
        "fastest",
        "requests/s",
        "allocations"
    );
    let mut leaks = false;
    for (entry, row) in rows(&args) {
        let (ns, fastest, allocations) = measure(entry, &row, &args);
        leaks |= allocations > 0;
        println!(
            "{:<18} {:>11} {:>8} {:>6} {ns:>11.1} {fastest:>9.1} {:>12.0} {allocations:>12}",
            entry.name,
            row.queues,
            row.pending,
            if row.tree { "tree" } else { "root" },
            1e9 / ns
        );
    }
    if leaks {
        eprintln!("a scheduler allocated in steady state");
        std::process::exit(1);
    }
}
