//! Time of a decision: one `dispatch` and one `insert`, at 16 processes with 128 requests waiting, by the round robin of
//! templates/scheduler behind the adapter: as a module with its steps counted, and compiled in. The median of batches, which
//! other programs of the machine seldom disturb.
//!
//! `cargo bench -p hoistway-plugin -- FILE.wasm`; `cargo module` in templates/scheduler makes the file.

#[path = "../../../templates/scheduler/src/rr.rs"]
#[allow(dead_code)]
mod rr;

extern crate alloc;

use hoistway::sched::{At, Dispatch, Entry, Setup};
use hoistway::{Device, Env, GroupId, Instant, Io, IoPrio, Nanos, ProcId, QueueId, ReqId, Sectors};
use hoistway_plugin::{Guest, Request, load, native};
use rr::RoundRobin;

const ABOUT: &str = include_str!("../../../templates/scheduler/src/about.toml");
const PROCS: u32 = 16;
const WAITING: usize = 128;
const BATCH: usize = 64;
const BATCHES: usize = 20_000;

#[derive(Debug)]
struct Native(RoundRobin);

impl Guest for Native {
    fn set(&mut self, _row: u32, value: u64) {
        self.0.quantum = value;
    }

    fn insert(&mut self, _now: u64, r: &Request) {
        self.0.insert(r.number, r.process, r.flags & Request::RETURNED != 0);
    }

    fn dispatch(&mut self, _now: u64) -> u64 {
        self.0.dispatch().unwrap_or(0)
    }

    fn gone(&mut self, _now: u64, number: u64) {
        self.0.gone(number);
    }
}

/// ns of a decision, and a digest of the order.
#[expect(clippy::disallowed_methods, reason = "a bench is about time")]
fn decision(entry: &'static Entry) -> (f64, u64) {
    let slots = WAITING + BATCH;
    let mut env = Env::new(Device::new(Sectors(1 << 30), 32), slots, slots);
    for _ in 0..PROCS {
        env.procs.add(GroupId::ROOT, IoPrio::NONE);
    }
    let setup = Setup { device: &env.device, requests: slots, now: Instant::ZERO };
    let mut sched = (entry.build)(&setup);
    let (mut now, mut made, mut order) = (Instant::ZERO, 0_u64, 0_u64);
    let mut create = |env: &mut Env, now| {
        made += 1;
        let proc = ProcId((made * 7 % u64::from(PROCS)) as u32);
        env.requests.create(Io::read(0, proc, made * 16, 8), true, QueueId(0), now).unwrap()
    };
    for _ in 0..WAITING {
        let id = create(&mut env, now);
        sched.insert(now, id, At::Tail, &mut env.cx());
    }
    let mut times = Vec::with_capacity(BATCHES);
    let mut issued: Vec<ReqId> = Vec::with_capacity(BATCH);
    for _ in 0..BATCHES {
        now += Nanos::us(10);
        let new: Vec<ReqId> = (0..BATCH).map(|_| create(&mut env, now)).collect();
        let began = std::time::Instant::now();
        for id in new {
            let Dispatch::Issue(out) = sched.dispatch(now, QueueId(0), &mut env.cx()) else {
                panic!("{WAITING} wait");
            };
            issued.push(out);
            sched.insert(now, id, At::Tail, &mut env.cx());
        }
        times.push(began.elapsed().as_nanos() as f64 / BATCH as f64);
        for id in issued.drain(..) {
            order = order.wrapping_mul(31).wrapping_add(env.requests[id].start.0);
            sched.complete(now, id, &mut env.cx());
            env.requests.remove(id);
        }
    }
    times.sort_by(f64::total_cmp);
    (times[BATCHES / 2], order)
}

fn main() {
    let modules = std::env::args().skip(1).filter(|a| a.ends_with(".wasm"));
    let compiled_in = native("rr", ABOUT, || Native(RoundRobin::NEW)).unwrap();
    let mut all = vec![("native".to_string(), compiled_in)];
    all.extend(modules.map(|path| (path.clone(), load(path.as_ref()).unwrap())));
    for _ in 0..3 {
        for (name, entry) in &all {
            let (ns, order) = decision(entry);
            println!("{name}: {ns:.0} ns a decision, order {order:016x}");
        }
    }
}
