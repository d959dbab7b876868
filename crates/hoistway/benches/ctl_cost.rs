//! Cost per request of every registered controller, enabled but not binding.
//!
//! One turn: a bio of a random group is submitted, becomes a request, is issued, and the oldest of 32
//! requests completes; virtual time moves 10 us. The controller is called directly with a real context,
//! tracing off, its timer when due. What the request table costs (a bio and a request made and removed)
//! is measured alone and subtracted. The figure is the smallest difference of the runs.
//!
//! Trees: 1,000 and 100,000 children of the root, and a chain of 64 with 16 leaves. Allocations are
//! counted; one in steady state fails the bench.
//!
//! `cargo bench -p hoistway --bench ctl_cost -- [--quick] [--only CONTROLLER]`

#[path = "../tests/common/counting.rs"]
mod counting;

use hoistway::ctl::{CONTROLLERS, Controller, Entry, Verdict};
use hoistway::stage::Change;
use hoistway::{
    Device, Env, GroupId, Instant, Io, IoPrio, Nanos, Op, ProcId, QueueId, ReqId, Sectors,
};
use std::collections::VecDeque;
use std::hint::black_box;

/// Requests in flight.
const DEPTH: usize = 32;
/// Virtual time per turn.
const TURN: Nanos = Nanos::us(10);

/// The lines that turn a controller on without a limit that binds: group (root or each leaf), file, body.
fn lines(name: &str) -> &'static [(Who, &'static str, &'static str)] {
    match name {
        "io.latency" => &[(Who::Leaf, "io.latency", "target=10000000")],
        "io.max" => &[(
            Who::Leaf,
            "io.max",
            "rbps=1000000000000 wbps=1000000000000 riops=1000000000 wiops=1000000000",
        )],
        "io.low" => &[(
            Who::Leaf,
            "io.low",
            "rbps=1000000000000 wbps=1000000000000 riops=1000000000 wiops=1000000000 \
             idle=1000000 latency=0",
        )],
        "io.cost" => &[
            (
                Who::Root,
                "io.cost.qos",
                "enable=1 ctrl=user rpct=0 rlat=5000 wpct=0 wlat=5000 min=100 max=100",
            ),
            (
                Who::Root,
                "io.cost.model",
                "ctrl=user model=linear rbps=100000000000 rseqiops=10000000 rrandiops=10000000 \
                 wbps=100000000000 wseqiops=10000000 wrandiops=10000000",
            ),
        ],
        _ => &[],
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Root,
    Leaf,
}

/// A tree of groups; I/O comes from its leaves.
#[derive(Clone, Copy)]
struct Tree {
    name: &'static str,
    /// Groups one below the other, above the leaves.
    chain: u32,
    leaves: u32,
}

const TREES: [Tree; 3] = [
    Tree { name: "1,000 groups", chain: 0, leaves: 1_000 },
    Tree { name: "depth 64", chain: 63, leaves: 16 },
    Tree { name: "100,000 groups", chain: 0, leaves: 100_000 },
];

struct Load {
    env: Env,
    ctl: Option<Box<dyn Controller>>,
    leaves: Vec<GroupId>,
    now: Instant,
    flying: VecDeque<ReqId>,
    random: u64,
    /// Where the next I/O of each leaf begins.
    turn: u64,
}

impl Load {
    fn new(entry: Option<&'static Entry>, tree: Tree) -> Load {
        let device = Device::new(Sectors(1 << 40), 1023);
        let mut env = Env::new(device, DEPTH + 1, DEPTH + 1);
        let mut ctl = entry.map(|e| (e.build)(&env.device));
        let now = Instant::ZERO;
        if let (Some("wbt"), Some(ctl)) = (entry.map(|e| e.name), &mut ctl) {
            // Deep enough for every write of the load.
            ctl.set(now, "depth", 1024, &mut env.cx()).expect("within its range");
        }
        let mut add = |env: &mut Env, parent, name: &str| {
            let group = env.groups.add(parent, name);
            env.procs.add(group, IoPrio::NONE);
            if let Some(ctl) = &mut ctl {
                ctl.changed(now, &Change::GroupAdded(group), &mut env.cx());
            }
            group
        };
        let bottom = (0..tree.chain).fold(GroupId::ROOT, |at, _| add(&mut env, at, "c"));
        let leaves: Vec<GroupId> = (0..tree.leaves).map(|_| add(&mut env, bottom, "l")).collect();
        for &(who, file, body) in entry.map_or(&[][..], |e| lines(e.name)) {
            let ctl = ctl.as_mut().expect("there are lines for it");
            let groups: &[GroupId] = if who == Who::Root { &[GroupId::ROOT] } else { &leaves };
            let line = format!("{} {body}", env.device.number);
            for &group in groups {
                ctl.write_knob(now, group, file, &line, &mut env.cx()).expect("a valid line");
            }
        }
        Load { env, ctl, leaves, now, flying: VecDeque::with_capacity(64), random: 1, turn: 0 }
    }

    fn turn(&mut self) {
        self.now += TURN;
        self.turn += 1;
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let group = self.leaves[((self.random >> 33) % self.leaves.len() as u64) as usize];
        // Process n belongs to group n + 1.
        let proc = ProcId(group.0 - 1);
        let mut io = Io::read(self.turn, proc, self.turn * 64, 8);
        io.group = group;
        if self.random >> 63 == 1 {
            io.op = Op::Write;
        }
        let (now, env) = (self.now, &mut self.env);
        let bio = env.requests.add_bio(io, now).expect("one more than in flight");
        if let Some(ctl) = &mut self.ctl {
            if ctl.next_timer().is_some_and(|at| at <= now) {
                ctl.timer(now, &mut env.cx());
            }
            let verdict = ctl.submit(now, bio, &mut env.cx());
            assert!(verdict == Verdict::Pass, "the limits do not bind");
            black_box(ctl.delay(now, proc, &mut env.cx()));
        }
        let req = env.requests.add(bio, now, now, true, QueueId(0)).expect("a free slot");
        env.requests.get_mut(req).issued = now;
        if let Some(ctl) = &mut self.ctl {
            ctl.issue(now, req, &mut env.cx());
        }
        self.flying.push_back(req);
        if self.flying.len() > DEPTH {
            let req = self.flying.pop_front().expect("just filled");
            if let Some(ctl) = &mut self.ctl {
                ctl.complete(now, req, &mut env.cx());
                black_box(ctl.release(now, &mut env.cx()));
            }
            env.requests.remove(req);
        }
    }

    /// Nanoseconds per turn.
    #[allow(clippy::disallowed_methods)] // A benchmark is about the wall clock.
    fn measure(&mut self, turns: u64) -> f64 {
        let begin = std::time::Instant::now();
        for _ in 0..turns {
            self.turn();
        }
        begin.elapsed().as_nanos() as f64 / turns as f64
    }
}

fn figure(entry: &'static Entry, tree: Tree, turns: u64, runs: u32) -> f64 {
    let mut bare = Load::new(None, tree);
    let mut load = Load::new(Some(entry), tree);
    // Every group has been seen, every table has its size.
    let warm = (20 * u64::from(tree.leaves)).clamp(turns, 4 * turns);
    load.measure(warm);
    bare.measure(turns);
    let before = counting::allocations();
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..runs {
        best = (best.0.min(bare.measure(turns)), best.1.min(load.measure(turns)));
    }
    let new = counting::allocations() - before;
    assert_eq!(new, 0, "{} allocates in steady state ({})", entry.name, tree.name);
    best.1 - best.0
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let only = args.iter().position(|a| a == "--only").and_then(|i| args.get(i + 1));
    let (turns, runs) =
        if args.iter().any(|a| a == "--quick") { (100_000, 3) } else { (1_000_000, 10) };
    println!(
        "{:<12} {:>16} {:>16} {:>16}",
        "ns/request", TREES[0].name, TREES[1].name, TREES[2].name
    );
    for entry in CONTROLLERS {
        if only.is_none_or(|name| name == entry.name) {
            let [a, b, c] = TREES.map(|tree| figure(entry, tree, turns, runs));
            println!("{:<12} {a:>16.1} {b:>16.1} {c:>16.1}", entry.name);
        }
    }
}
