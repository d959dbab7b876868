//! Conformance of `mq-deadline` (specs/deadline.md D, scenarios C-1 to C-13), and its rules beyond them.

use hoistway::request::Side;
use hoistway::sched::Depth;
use hoistway::stage::Change;
use hoistway::testkit::scenario::{Bench, scenario};
use hoistway::testkit::scheduler::SLOTS;
use hoistway::{Device, Sectors};

const RT: Option<u32> = Some(0);
const BE: Option<u32> = Some(1);

#[test]
fn c1_a_level_waits_for_the_more_important_ones_in_flight() {
    scenario(
        "mq-deadline",
        &[],
        "0 be1@100 rt1@900 id1@5
         1 x2 -> rt1 ~
         2 done:rt1 x2 -> be1 ~
         3 done:be1 x2 -> id1 -",
    );
}

#[test]
fn c2_an_aged_request_passes_the_more_important_ones() {
    scenario(
        "mq-deadline",
        &[],
        "0 be1@100 rt0@0 rt1@10 rt2@20 rt3@30 rt4@40
         9999 x1 -> rt0
         10000 x2 -> be1 rt1
         10001 x1 -> rt2",
    );
}

#[test]
fn c3_a_write_batch_follows_two_read_batches() {
    scenario(
        "mq-deadline",
        &[("fifo_batch", 2)],
        "0 r0@0 r1@10 r2@20 r3@30 r4@40 r5@50 r6@60 r7@70 w0@1000 w1@1010 w2@1020 w3@1030
         1 x12 -> r0 r1 r2 r3 w0 w1 r4 r5 r6 r7 w2 w3",
    );
}

#[test]
fn c4_a_read_expires_at_its_deadline() {
    scenario(
        "mq-deadline",
        &[("fifo_batch", 1)],
        "0 r1@500 r2@10 r3@600
         1 x1 -> r1
         500 x2 -> r2 r3",
    );
}

#[test]
fn c5_after_a_write_batch_the_read_sweep_resumes() {
    scenario(
        "mq-deadline",
        &[("fifo_batch", 2), ("writes_starved", 0)],
        "0 r3@300 r1@100 r2@200 r4@400 r5@500 r6@600
         1 x2 -> r3 r4
         2 w1@50 w2@60
         3 x8 -> w1 w2 r5 r6 r1 r2 - -",
    );
}

#[test]
fn c6_an_insertion_at_the_head_goes_first() {
    scenario(
        "mq-deadline",
        &[],
        "0 r1@50
         5 head:h1@70
         6 x2 -> h1 r1",
    );
}

#[test]
fn c7_a_request_in_flight_blocks_the_lower_level() {
    scenario(
        "mq-deadline",
        &[],
        "0 rt1@10
         1 x1 -> rt1
         2 be1@20
         3 x1 -> ~
         4 done:rt1 x1 -> be1",
    );
}

#[test]
fn c8_a_refused_aged_look_leaves_its_traces() {
    let mut b = scenario(
        "mq-deadline",
        &[("fifo_batch", 1)],
        "0 be1@10 be2@20 bw1@100
         0 x2 -> be1 be2
         0 done:be1 done:be2 rt1@500",
    );
    assert_eq!((b.figure("starved", None), b.figure("last_dir", None)), (2, 0));
    b.run("1 x1 -> rt1");
    assert_eq!(b.figure("starved", None), 0, "the look at best-effort chose the write");
    assert_eq!((b.figure("batching", None), b.figure("last_dir", None)), (1, 0));
}

#[test]
fn c9_a_young_continuation_hides_an_aged_request() {
    scenario(
        "mq-deadline",
        &[],
        "0 rt0@0 rt1@10 rt2@20 rt3@30 be1@1000 be2@2000
         9000 be3@1500
         10000 x4 -> be1 rt0 rt1 rt2",
    );
}

#[test]
fn c10_of_two_aged_levels_the_more_important_is_asked_first() {
    scenario(
        "mq-deadline",
        &[],
        "0 id1@5 be1@100
         10000 x2 -> be1 id1",
    );
}

#[test]
fn c11_the_counters_follow_a_merge_to_the_end() {
    let mut b = scenario("mq-deadline", &[], "0 be1@100 be2@300 be3@108 join:be1+be3");
    let counters = |b: &Bench| {
        ["inserted", "merged", "completed", "queued", "dispatched", "owned_by_driver"]
            .map(|name| b.figure(name, BE))
    };
    assert_eq!(counters(&b), [3, 1, 1, 2, 0, 0]);
    b.run("1 x3 -> be1 be2 -");
    assert_eq!(counters(&b), [3, 1, 1, 2, 2, 2]);
    b.run("2 done:be1 done:be2");
    assert_eq!(counters(&b), [3, 1, 3, 0, 2, 0]);
}

#[test]
fn c12_a_requeued_request_is_not_counted_twice_and_goes_first() {
    let mut b = scenario(
        "mq-deadline",
        &[],
        "0 be1@500 be2@10
         1 x1 -> be1
         2 back:be1",
    );
    assert_eq!(b.figure("inserted", BE), 2);
    b.run("3 x2 -> be1 be2");
    assert_eq!(b.figure("owned_by_driver", BE), 2);
    b.run("4 done:be1 done:be2");
    assert_eq!((b.figure("queued", BE), b.figure("owned_by_driver", BE)), (0, 0));
}

#[test]
fn c13_writes_are_limited_and_reads_are_not() {
    let mut b = Bench::new("mq-deadline", &[]);
    assert_eq!(b.env.device.nr_requests, 64);
    assert_eq!(b.sched.value("async_depth"), Some(64));
    let (read, write) = (b.io("r", 0, 8), b.io("w", 0, 8));
    // Words of 16: by default the whole of each, then parts, rounded up.
    for (depth, of_16) in [(64, 16), (48, 12), (47, 12), (1, 1)] {
        b.set("async_depth", depth);
        let limit = b.depth_limit(&write);
        assert_eq!(limit, Depth::Word(of_16), "async_depth {depth}");
    }
    assert_eq!(b.depth_limit(&read), Depth::Usual);
}

#[test]
fn the_depth_of_writes_follows_nr_requests() {
    let mut b = Bench::new("mq-deadline", &[("async_depth", 48)]);
    b.change(Change::Device);
    assert_eq!(b.sched.value("async_depth"), Some(48), "another property changed");
    b.env.device.nr_requests = 100;
    b.change(Change::Device);
    assert_eq!(b.sched.value("async_depth"), Some(100));
    b.set("async_depth_default", 1);
    assert_eq!(b.sched.value("async_depth"), Some(75));
    b.env.device.nr_requests = 1;
    b.change(Change::Device);
    assert_eq!(b.sched.value("async_depth"), Some(1));
}

#[test]
fn a_shared_head_list_goes_before_every_level() {
    let insertions = "0 rt1@10 head:id1@70 head:be1@5";
    scenario("mq-deadline", &[], insertions).run("1 x2 -> rt1 ~");
    scenario("mq-deadline", &[("shared_at_head", 1)], insertions).run("1 x4 -> be1 id1 rt1 -");
}

#[test]
fn no_class_counts_as_best_effort() {
    let b = scenario("mq-deadline", &[], "0 r1@10 be1@20 rt1@30");
    assert_eq!((b.figure("queued", BE), b.figure("queued", RT)), (2, 1));
}

#[test]
fn requests_at_the_same_sector_go_out_in_order_of_arrival() {
    scenario(
        "mq-deadline",
        &[],
        "0 r1@100 r2@100 r3@100
         1 x4 -> r1 r2 r3 -",
    );
}

#[test]
fn front_merges_are_looked_for_in_the_level_of_the_bio() {
    let mut b = scenario("mq-deadline", &[], "0 rt1@100 be1@200");
    let mut find = |name: &str, start| {
        let io = b.io(name, start, 8);
        b.find_merge(&io).map(|(id, side)| (b.name(id), side))
    };
    assert_eq!(find("rt9", 92), Some(("rt1".into(), Side::Front)));
    assert_eq!(find("be9", 92), None);
    assert_eq!(find("r9", 192), Some(("be1".into(), Side::Front)));
    assert_eq!(find("w9", 192), None);
    b.set("front_merges", 0);
    let io = b.io("rt8", 92, 8);
    assert_eq!(b.find_merge(&io), None);
}

#[test]
fn a_request_absorbed_before_its_insertion_is_counted_and_gone() {
    let mut b = scenario("mq-deadline", &[], "0 be1@100");
    let io = b.io("be2", 108, 8);
    let id = b.create(io);
    b.ids.insert("be2".into(), id);
    b.prepare(id);
    b.join("be1", "be2");
    let names = ["inserted", "merged", "completed", "queued"];
    assert_eq!(names.map(|n| b.figure(n, BE)), [2, 1, 1, 1]);
    b.run("1 x2 -> be1 -");
}

#[test]
fn a_long_tick_rounds_expiries_up_and_times_down() {
    // 10 ms ticks, as the kernel runs of the reference had. 95 ms are 10 ticks: a request inserted in
    // tick 0 expires when tick 10 begins, at 100 ms.
    let mut b = Bench::new("mq-deadline", &[]);
    let entry = hoistway::sched::find("mq-deadline").unwrap();
    b.env.device.tick = hoistway::Nanos::ms(10);
    let setup = hoistway::sched::Setup {
        device: &b.env.device,
        requests: SLOTS,
        now: hoistway::Instant::ZERO,
    };
    b.sched = (entry.build)(&setup);
    b.set("fifo_batch", 1);
    b.set("read_expire", 95);
    assert_eq!(b.sched.value("read_expire"), Some(95));
    b.run(
        "9 r1@500 r2@10 r3@600 r4@700 x1 -> r1
         99 x1 -> r3
         100 x1 -> r2",
    );
}

#[test]
fn levels_and_directions_may_be_drained_at_once() {
    let mut b = scenario("mq-deadline", &[], "0 id1@10 be1@20 rt1@30 bw1@5 head:id2@7");
    let mut out = Vec::new();
    while let Some(id) = b.drain() {
        out.push(b.name(id));
    }
    assert_eq!(out, ["rt1", "be1", "bw1", "id2", "id1"]);
}

#[test]
fn the_depth_of_a_shallow_device_is_its_own() {
    let b = Bench::on(Device::new(Sectors(1 << 20), 1), "mq-deadline", &[]);
    assert_eq!(b.sched.value("async_depth"), Some(2));
}

/// A lowered expiry moves the deadlines of those that wait; the reference's arithmetic takes them to come
/// from the future and withholds them although the device is idle.
#[test]
fn a_lowered_expiry_strands_nobody_except_by_the_arithmetic_of_the_reference() {
    for (base, first) in [(1, 1), (0, 4900)] {
        let mut b = common_bench(base);
        b.set("write_expire", 5000);
        let id = b.insert_write(0);
        b.set("write_expire", 100);
        let served =
            (0..10_000).find(|&ms| b.dispatch_at(1 + ms) == Some(id)).expect("it is served");
        assert_eq!(1 + served, first, "base {base}");
    }
}

struct Lone {
    env: hoistway::Env,
    sched: Box<dyn hoistway::sched::Scheduler>,
    now: hoistway::Instant,
}

fn common_bench(base: u64) -> Lone {
    use hoistway::{Device, Env, Instant, IoPrio, Nanos, Sectors, sched};
    let mut device = Device::new(Sectors(1 << 20), 8);
    device.tick = Nanos::ms(1);
    let mut env = Env::new(device, 16, 16);
    env.procs.add(hoistway::GroupId::ROOT, IoPrio::be(4));
    let setup = sched::Setup { device: &env.device, requests: 16, now: Instant::ZERO };
    let sched = (sched::find("mq-deadline").unwrap().build)(&setup);
    let mut lone = Lone { env, sched, now: Instant::ZERO };
    lone.set("base", base);
    lone
}

impl Lone {
    fn set(&mut self, name: &str, value: u64) {
        self.sched.set(self.now, name, value, &mut self.env.cx()).unwrap();
    }

    fn insert_write(&mut self, start: u64) -> hoistway::ReqId {
        use hoistway::{Io, ProcId, QueueId, sched::At};
        let io = Io { prio: hoistway::IoPrio::be(4), ..Io::write(0, ProcId(0), start, 8) };
        let id = self.env.requests.create(io, false, QueueId(0), self.now).unwrap();
        self.sched.insert(self.now, id, At::Tail, &mut self.env.cx());
        id
    }

    fn dispatch_at(&mut self, ms: u64) -> Option<hoistway::ReqId> {
        use hoistway::{Instant, Nanos, QueueId, sched::Dispatch};
        let now = Instant::ZERO + Nanos::ms(ms);
        match self.sched.dispatch(now, QueueId(0), &mut self.env.cx()) {
            Dispatch::Issue(id) => Some(id),
            _ => None,
        }
    }
}
