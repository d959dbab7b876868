//! Conformance of `kyber` (specs/kyber.md section 8, K-4 to K-17; K-1 to K-3 stand beside the code they are
//! about), and what its control loop promises.

use hoistway::device::Tags;
use hoistway::request::Side;
use hoistway::sched::{At, Depth, Dispatch};
use hoistway::testkit::Rng;
use hoistway::testkit::scenario::{Bench, scenario};
use hoistway::{Device, Flags, Instant, Io, Nanos, Op, ProcId, QueueId, ReqId, Sectors};

const READ: u32 = 0;
const WRITE: u32 = 1;
const DISCARD: u32 = 2;
const OTHER: u32 = 3;
const INITIAL: [i64; 4] = [256, 128, 64, 16];
/// Default targets by measured domain, in ns.
const TARGETS: [u64; 3] = [2_000_000, 10_000_000, 5_000_000_000];

fn op_of(domain: u32) -> Op {
    [Op::Read, Op::Write, Op::Discard, Op::WriteZeroes][domain as usize]
}

fn depth(b: &Bench, domain: u32) -> i64 {
    b.figure("depth", Some(domain))
}

/// A fresh scheduler late enough for any latency to have begun after the clock.
fn kyber() -> Bench {
    let mut b = Bench::new("kyber", &[]);
    b.at_ms(100_000);
    b
}

/// One request comes and goes; its latencies fall into the given buckets of the default target.
fn serve(b: &mut Bench, domain: u32, total: u64, io: u64) {
    let in_bucket = |bucket: u64| Nanos(TARGETS[domain as usize] / 4 * bucket + 1000);
    let bio = Io { op: op_of(domain), ..Io::read(0, ProcId(0), 0, 8) };
    let id = b.create(bio);
    b.prepare(id);
    b.rig.insert(id, At::Tail);
    let issued = b.dispatch();
    assert_eq!(issued, Dispatch::Issue(id), "nothing else waits and a token is free");
    let now = b.now.as_nanos();
    let r = b.env.requests.get_mut(id);
    r.began = Instant::from_nanos(now - in_bucket(total).0);
    r.issued = Instant::from_nanos(now - in_bucket(io).0);
    b.complete(id);
}

fn serve_many(b: &mut Bench, n: usize, domain: u32, total: u64, io: u64) {
    (0..n).for_each(|_| serve(b, domain, total, io));
}

/// Lets the time of the adaptation come.
fn adapt(b: &mut Bench) {
    b.now = b.sched.next_timer().expect("a completion has armed the timer");
    b.timer();
    assert_eq!(b.sched.next_timer(), None, "only a completion arms it again");
}

/// Brings a domain to another depth: each bucket multiplies it by (bucket + 1) / 4, the device being
/// congested. 501 samples, so that no batch ends just there.
fn steer(b: &mut Bench, domain: u32, buckets: &[u64]) {
    for &bucket in buckets {
        serve_many(b, 501, domain, bucket, 7);
        adapt(b);
    }
}

/// `letters1 letters2 ...` at distant places.
fn series(letters: &str, n: u64) -> String {
    (1..=n).map(|i| format!("{letters}{i}@{} ", i * 1000)).collect()
}

fn play(b: &mut Bench, line: &str) {
    let ms = b.now.as_nanos() / 1_000_000;
    b.at_ms(ms);
    b.run(&format!("{ms} {line}"));
}

fn insert_on_cpu(b: &mut Bench, name: &str, cpu: u32, start: u64) {
    let io = Io { cpu, ..b.io(name, start, 8) };
    b.insert(name, io, At::Tail);
}

fn find(b: &mut Bench, io: Io) -> Option<(String, Side)> {
    b.find_merge(&io).map(|(id, side)| (b.name(id), side))
}

#[test]
fn k4_domains_take_turns_in_batches() {
    let mut b = Bench::new("kyber", &[]);
    b.run(&format!("0 {}{}{}", series("r", 40), series("w", 20), series("D", 2)));
    let order: String =
        (0..63).map(|_| b.dispatch_for(0).chars().next().expect("a name is not empty")).collect();
    let want = [("r", 16), ("w", 8), ("D", 1), ("r", 16), ("w", 8), ("D", 1), ("r", 8), ("w", 4)]
        .map(|(what, n)| what.repeat(n))
        .concat();
    assert_eq!(order, want + "-");
}

#[test]
fn k5_a_freed_token_runs_the_queue_that_waits_for_it() {
    let mut b = kyber();
    steer(&mut b, WRITE, &[0, 0, 1]);
    assert_eq!(depth(&b, WRITE), 4);
    play(&mut b, &format!("{} x5 -> w1 w2 w3 w4 ~", series("w", 10)));
    assert_eq!(b.figure("queues_waiting", Some(WRITE)), 1);
    assert_eq!(b.figure("throttled", Some(WRITE)), 2, "once in its turn, once going round");
    assert_eq!(b.env.runs.take(), None);
    b.done("w2");
    assert_eq!(b.env.runs.take(), Some(QueueId(0)));
    assert_eq!(b.figure("queues_waiting", Some(WRITE)), 0);
    play(&mut b, "x2 -> w5 ~");
    assert_eq!(b.figure("outstanding", Some(WRITE)), 4);
}

#[test]
fn k5_no_run_is_asked_for_while_nobody_waits() {
    let mut b = scenario("kyber", &[], "0 w1@100 x2 -> w1 -");
    b.done("w1");
    assert_eq!(b.env.runs.take(), None);
}

#[test]
fn k6_a_domain_without_tokens_is_passed_over() {
    let mut b = kyber();
    steer(&mut b, READ, &[0, 0, 0, 1]);
    assert_eq!(depth(&b, READ), 2);
    play(&mut b, &format!("{}{} x8 -> r1 r2 w1 w2 w3 w4 w5 ~", series("r", 5), series("w", 5)));
    play(&mut b, "done:r1 x2 -> r3 ~");
}

#[test]
fn k7_without_a_token_a_queued_request_stays_open_for_merging() {
    let mut b = kyber();
    steer(&mut b, READ, &[0, 0, 0, 0]);
    assert_eq!(depth(&b, READ), 1);
    play(&mut b, "r1@9000 x1 -> r1");
    play(&mut b, "r2@0 x1 -> ~");
    let io = b.io("r3", 8, 8);
    assert_eq!(find(&mut b, io), Some(("r2".into(), Side::Back)));
    let io = Io { cpu: 1, ..io };
    assert_eq!(find(&mut b, io), None, "another CPU's queue is not looked at");
}

#[test]
fn k7_flushed_requests_are_closed() {
    let mut b = scenario("kyber", &[], "0 r1@9000 r2@0 x1 -> r1");
    let io = b.io("r3", 8, 8);
    assert_eq!(find(&mut b, io), None);
    b.run("0 x2 -> r2 -");
}

#[test]
fn k8_a_bio_is_compared_with_the_newest_eight_of_its_domain() {
    // The writes in between do not count: they are another domain's.
    let mut b = scenario("kyber", &[], &format!("0 {} {}", series("r", 9), series("w", 9)));
    let mut at = |start| {
        let io = b.io("r99", start, 8);
        find(&mut b, io)
    };
    assert_eq!(at(1008), None, "behind the oldest");
    assert_eq!(at(2008), Some(("r2".into(), Side::Back)));
    assert_eq!(at(9000 - 8), Some(("r9".into(), Side::Front)));
}

#[test]
fn reads_and_writes_never_join() {
    let mut b = scenario("kyber", &[], "0 w1@100");
    let io = b.io("r1", 108, 8);
    assert_eq!(find(&mut b, io), None);
    let io = b.io("w2", 108, 8);
    assert_eq!(find(&mut b, io), Some(("w1".into(), Side::Back)));
    assert_eq!(find(&mut b, Io { flags: Flags::FUA, ..io }), None);
}

#[test]
fn k9_under_congestion_who_meets_the_target_shrinks_and_who_misses_it_grows() {
    let mut b = kyber();
    serve_many(&mut b, 500, READ, 6, 5);
    serve_many(&mut b, 500, WRITE, 1, 0);
    adapt(&mut b);
    assert_eq!((depth(&b, READ), depth(&b, WRITE)), (256, 64));
    assert_eq!((depth(&b, DISCARD), depth(&b, OTHER)), (64, 16));
    assert_eq!(b.figure("adjusted", Some(READ)), 0, "clamped to where it was");
    assert_eq!(b.figure("adjusted", Some(WRITE)), 1);
}

#[test]
fn k10_a_percentile_is_kept_for_the_next_congestion_and_used_once() {
    let mut b = kyber();
    serve_many(&mut b, 500, READ, 2, 0);
    serve_many(&mut b, 500, WRITE, 3, 0);
    adapt(&mut b);
    assert_eq!((depth(&b, READ), depth(&b, WRITE)), (256, 128), "nothing is congested");
    serve_many(&mut b, 500, WRITE, 3, 5);
    adapt(&mut b);
    assert_eq!((depth(&b, READ), depth(&b, WRITE)), (192, 128));
    serve_many(&mut b, 500, WRITE, 3, 5);
    adapt(&mut b);
    assert_eq!(depth(&b, READ), 192, "the kept value is used up");
}

#[test]
fn k11_a_domain_that_misses_its_target_grows_without_congestion() {
    let mut b = kyber();
    steer(&mut b, WRITE, &[2, 2, 2, 2]);
    assert_eq!(depth(&b, WRITE), 40);
    serve_many(&mut b, 500, WRITE, 5, 0);
    adapt(&mut b);
    assert_eq!(depth(&b, WRITE), 60);
}

#[test]
fn k12_a_slow_stream_is_judged_by_its_total_latency_only_after_500_samples() {
    let mut b = kyber();
    steer(&mut b, READ, &[0]);
    assert_eq!(depth(&b, READ), 64);
    let samples = |b: &Bench, name| (0..8).map(|k| b.figure(name, Some(k))).sum::<i64>();
    for period in 1..=50 {
        serve_many(&mut b, 10, READ, 7, 0);
        adapt(&mut b);
        // The first look starts a second; ten periods later time makes the device latency ready.
        let io = match period {
            1..=10 => 10 * period,
            11 => 0,
            _ => samples(&b, "io_samples"),
        };
        assert_eq!(samples(&b, "io_samples"), io, "period {period}");
        if period < 50 {
            assert_eq!(samples(&b, "total_samples"), 10 * period);
            assert_eq!(depth(&b, READ), 64, "period {period}");
        }
    }
    assert_eq!((depth(&b, READ), samples(&b, "total_samples")), (128, 0));
}

#[test]
fn k13_one_adaptation_100_ms_after_the_first_completion() {
    let at = |ms| Some(Instant::ZERO + Nanos::ms(ms));
    let mut b = scenario("kyber", &[], "0 r1@100 r2@200 r3@300 x3 done:r1 -> r1 r2 r3");
    assert_eq!(b.sched.next_timer(), at(100));
    b.run("60 done:r2");
    assert_eq!(b.sched.next_timer(), at(100));
    b.at_ms(100);
    b.timer();
    assert_eq!(b.sched.next_timer(), None);
    b.run("130 done:r3");
    assert_eq!(b.sched.next_timer(), at(230));
}

#[test]
fn k13_in_ticks_the_adaptation_comes_with_the_tick_after() {
    for (tick_ms, done_ms, want_ms) in [(10, 0, 110), (10, 3, 110), (10, 9, 110), (4, 3, 104)] {
        let mut b = Bench::new("kyber", &[("timer_in_ticks", 1)]);
        b.env.device.tick = Nanos::ms(tick_ms);
        b.run("0 r1@100 x1 -> r1");
        b.run(&format!("{done_ms} done:r1"));
        assert_eq!(b.sched.next_timer(), Some(Instant::ZERO + Nanos::ms(want_ms)));
    }
}

#[test]
fn the_domain_without_a_target_is_not_measured() {
    let mut b = scenario("kyber", &[], "0 Z1@100 x1 -> Z1");
    b.run("5 done:Z1");
    assert_eq!(b.sched.next_timer(), None);
    assert_eq!(b.figure("outstanding", Some(OTHER)), 0);
}

#[test]
fn k14_a_request_given_back_loses_its_token_and_is_no_sample() {
    let mut b = kyber();
    steer(&mut b, READ, &[0, 0, 0, 0]);
    play(&mut b, "r1@100 r2@200 x2 -> r1 ~");
    let id = b.id("r1");
    b.requeue(id);
    assert_eq!(b.figure("outstanding", Some(READ)), 0);
    assert_eq!(b.env.runs.take(), Some(QueueId(0)), "the token is free for r2");
    b.prepare(id);
    b.rig.insert(id, At::Head);
    assert_eq!((0..8).map(|k| b.figure("io_samples", Some(k))).sum::<i64>(), 0);
    assert_eq!(b.sched.next_timer(), None);
    // r2 was flushed when r1 went; r1 waits behind it, and for a token of its own.
    play(&mut b, "x2 -> r2 ~");
    play(&mut b, "done:r2 x1 -> r1");
}

#[test]
fn a_request_given_back_joins_nothing() {
    let mut b = scenario("kyber", &[], "0 r1@100 x1 back:r1 -> r1");
    let io = b.io("r2", 108, 8);
    assert_eq!(find(&mut b, io), None);
    b.run("0 x1 -> r1");
}

#[test]
fn k15_async_requests_leave_a_quarter_of_the_tags() {
    let mut b = Bench::on(Device::new(Sectors(1 << 30), 128), "kyber", &[]);
    assert_eq!(b.env.device.nr_requests, 256);
    let mut limit = |name: &str, flags: Flags| {
        let io = Io { flags, ..b.io(name, 8, 8) };
        b.depth_limit(&io)
    };
    assert_eq!(limit("w1", Flags::NONE), Depth::Word(48));
    assert_eq!(limit("D1", Flags::NONE), Depth::Word(48));
    for flag in [Flags::SYNC, Flags::FUA, Flags::PREFLUSH] {
        assert_eq!(limit("w1", flag), Depth::Usual);
    }
    assert_eq!(limit("r1", Flags::NONE), Depth::Usual);
    for (tags, most) in [(1, 48), (2, 48), (4, 1), (62, 6), (64, 12)] {
        b.env.device.nr_requests = tags;
        let io = b.io("w1", 8, 8);
        assert_eq!(b.depth_limit(&io), Depth::Word(most));
    }
}

/// Recorded of Linux 7.3 with 62 and 256 tags.
#[test]
fn in_7_3_all_but_synchronous_reads_leave_a_quarter_of_the_tags() {
    for (depth, most) in [(31, 46), (128, 192)] {
        let mut device = Device::new(Sectors(1 << 30), depth);
        device.tags = Tags::Plain;
        let mut b = Bench::on(device, "kyber", &[("base", 1)]);
        let mut limit = |name: &str, flags: Flags| {
            let io = Io { flags, ..b.io(name, 8, 8) };
            b.depth_limit(&io)
        };
        assert_eq!(limit("w1", Flags::NONE), Depth::Word(most));
        assert_eq!(limit("w1", Flags::SYNC), Depth::Word(most));
        assert_eq!(limit("r1", Flags::NONE), Depth::Usual);
    }
}

#[test]
fn k16_an_insertion_at_the_head_passes_its_software_queue_but_not_the_flushed() {
    scenario("kyber", &[], "0 ra@100 rb@200 head:rc@300 x4 -> rc ra rb -");
    scenario("kyber", &[], "0 r0@1 ra@100 rb@200 x1 head:rc@300 x4 -> r0 ra rb rc -");
}

#[test]
fn k17_after_a_shrink_more_may_be_out_than_the_depth() {
    let mut b = kyber();
    steer(&mut b, WRITE, &[2, 2, 2, 2]);
    play(&mut b, &series("w", 32));
    (1..=32).for_each(|i| assert_eq!(b.dispatch_for(0), format!("w{i}")));
    steer(&mut b, WRITE, &[2]);
    assert_eq!((depth(&b, WRITE), b.figure("outstanding", Some(WRITE))), (30, 32));
    play(&mut b, "wx@500000 wy@600000 x1 -> ~");
    // w1 to w32 hold 0 to 31.
    play(&mut b, "done:w32 x1 -> ~");
    play(&mut b, "done:w8 x2 -> wx ~");
    assert_eq!(b.figure("outstanding", Some(WRITE)), 31);
}

#[test]
fn raising_a_depth_runs_the_queues_that_wait() {
    let mut b = kyber();
    steer(&mut b, WRITE, &[0, 0, 0, 0]);
    play(&mut b, "w1@100 w2@200 x2 -> w1 ~");
    // Discards that miss their target congest the device; one slow write has been seen long ago.
    b.now += Nanos::ms(50);
    let (began, id) = (b.now, b.id("w1"));
    b.now += Nanos::secs(2);
    b.env.requests.get_mut(id).began = began;
    b.done("w1");
    assert_eq!(b.env.runs.take(), Some(QueueId(0)), "the freed token");
    play(&mut b, "x2 -> w2 -");
    play(&mut b, "w3@300 x1 -> ~");
    while depth(&b, WRITE) == 1 {
        assert_eq!(b.env.runs.take(), None);
        serve(&mut b, DISCARD, 0, 0);
        adapt(&mut b);
    }
    assert_eq!((depth(&b, WRITE), b.env.runs.take()), (2, Some(QueueId(0))));
    play(&mut b, "x1 -> w3");
}

/// A device with two hardware queues, whose CPUs share the 16 tokens of the domain OTHER.
#[test]
fn tokens_are_device_wide_and_freed_ones_run_the_queues_in_turn() {
    let mut device = Device::new(Sectors(1 << 30), 32);
    device.hw_queues = 2;
    let mut b = Bench::on(device, "kyber", &[]);
    for i in 0..18 {
        insert_on_cpu(&mut b, &format!("Z{i}"), 2 * (i % 3), 1000 * u64::from(i));
        insert_on_cpu(&mut b, &format!("ZZ{i}"), 1, 500 + 1000 * u64::from(i));
    }
    // CPUs 0, 2 and 4 in index order, in order of arrival within each.
    let order: Vec<_> = (0..16).map(|_| b.dispatch_for(0)).collect();
    let want = (0..3).flat_map(|cpu| (0..6).map(move |k| format!("Z{}", 3 * k + cpu)));
    assert_eq!(order, want.take(16).collect::<Vec<_>>());
    assert_eq!((b.dispatch_for(0), b.dispatch_for(1)), ("~".into(), "~".into()));
    assert_eq!(b.figure("queues_waiting", Some(OTHER)), 2);
    for (done, queue, next) in [("Z0", 0, "Z14"), ("Z3", 1, "ZZ0"), ("Z6", 0, "Z17")] {
        b.done(done);
        assert_eq!(b.env.runs.take(), Some(QueueId(queue)));
        assert_eq!(b.env.runs.take(), None);
        assert_eq!(b.dispatch_for(queue), next);
        if done == "Z6" {
            assert_eq!(b.dispatch_for(queue), "-");
        } else {
            assert_eq!(b.dispatch_for(queue), "~");
        }
    }
}

#[test]
fn many_cpus_are_flushed_in_index_order() {
    let mut device = Device::new(Sectors(1 << 30), 32);
    device.hw_queues = 3;
    let mut b = Bench::on(device, "kyber", &[]);
    for cpu in [601, 4, 1, 304, 193, 7] {
        insert_on_cpu(&mut b, &format!("r{cpu}"), cpu, 8000 * u64::from(cpu));
    }
    let order: Vec<_> = (0..7).map(|_| b.dispatch_for(1)).collect();
    assert_eq!(order, ["r1", "r4", "r7", "r193", "r304", "r601", "-"]);
    assert_eq!((b.dispatch_for(0), b.dispatch_for(2)), ("-".into(), "-".into()));
}

#[test]
fn a_new_target_counts_for_later_samples_only() {
    let mut b = kyber();
    serve_many(&mut b, 500, READ, 2, 0);
    b.set("read_lat_nsec", 100_000);
    adapt(&mut b);
    assert_eq!(depth(&b, READ), 256);
    serve_many(&mut b, 500, READ, 2, 2);
    adapt(&mut b);
    assert_eq!(depth(&b, READ), 256, "it misses the new target: it cannot grow beyond its start");
    assert_eq!(b.figure("adjusted", Some(READ)), 0);
    serve_many(&mut b, 500, WRITE, 0, 0);
    serve_many(&mut b, 500, READ, 2, 2);
    adapt(&mut b);
    assert_eq!(depth(&b, WRITE), 32, "the reads say that the device is congested");
}

#[test]
fn draining_needs_no_tokens() {
    let mut b = kyber();
    steer(&mut b, READ, &[0, 0, 0, 0]);
    play(&mut b, "r1@100 r2@200 r3@300 w1@400 x1 -> r1");
    let mut drained = Vec::new();
    while let Some(id) = b.drain() {
        drained.push(b.name(id));
    }
    assert_eq!(drained, ["r2", "r3", "w1"]);
    for name in ["r2", "w1", "r1", "r3"] {
        b.done(name);
    }
    assert_eq!(b.figure("outstanding", Some(READ)), 0);
    play(&mut b, "r4@1 x2 -> r4 -");
}

/// Every period each domain shows 500 samples in buckets drawn at random: depths stay between 1 and their
/// start, never shrink unless the device is congested, and move the way their own latency says.
#[test]
fn depths_stay_in_their_bounds_and_move_in_the_right_direction() {
    let (mut up, mut down) = (0, 0);
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut b = kyber();
        for _ in 0..40 {
            let before: Vec<i64> = (0..4).map(|d| depth(&b, d)).collect();
            let drawn: Vec<(u64, u64)> = (0..3).map(|_| (rng.below(8), rng.below(6))).collect();
            for (domain, &(total, io)) in drawn.iter().enumerate() {
                serve_many(&mut b, 500, domain as u32, total, io);
            }
            adapt(&mut b);
            let congested = drawn.iter().any(|&(_, io)| io >= 4);
            for (domain, &(total, _)) in drawn.iter().enumerate() {
                let (was, is) = (before[domain], depth(&b, domain as u32));
                assert!((1..=INITIAL[domain]).contains(&is));
                match total {
                    0..=2 if congested => assert!(is < was || was == 1, "{total}: {was} -> {is}"),
                    // From a depth below 4 a quarter or two is less than one token.
                    4..=7 => assert!(is > was || was < 4 || was == INITIAL[domain]),
                    _ => assert_eq!(is, was, "bucket {total}, congested {congested}"),
                }
                up += u32::from(is > was);
                down += u32::from(is < was);
            }
            assert_eq!(depth(&b, OTHER), 16, "what is not measured is not adapted");
        }
    }
    assert!(up > 50 && down > 50, "the load moved depths {up} times up and {down} down");
}

/// A device that serves one command every 50 us in order of arrival and takes up to 256; 4 reads and 200
/// writes always wait. Writes may take a second, reads have a target of their own.
fn closed_loop(read_target: Nanos) -> (Nanos, i64) {
    let tunables = [("read_lat_nsec", read_target.0), ("write_lat_nsec", 1_000_000_000)];
    let mut b = Bench::on(Device::new(Sectors(1 << 30), 256), "kyber", &tunables);
    let mut rng = Rng::new(1);
    let mut add = |b: &mut Bench, op: Op| {
        let io = Io { op, ..Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8) };
        let id = b.create(io);
        b.prepare(id);
        b.rig.insert(id, At::Tail);
    };
    (0..4).for_each(|_| add(&mut b, Op::Read));
    (0..200).for_each(|_| add(&mut b, Op::Write));
    let mut device: std::collections::VecDeque<ReqId> = Default::default();
    let mut late = Vec::new();
    let turns = 100_000;
    for turn in 0..turns {
        while device.len() < 256
            && let Dispatch::Issue(id) = b.dispatch()
        {
            b.env.requests.get_mut(id).issued = b.now;
            device.push_back(id);
        }
        b.now += Nanos::us(50);
        if b.sched.next_timer().is_some_and(|at| at <= b.now) {
            b.timer();
        }
        let id = device.pop_front().expect("writes always wait");
        let r = b.env.requests[id];
        if r.op == Op::Read && turn > turns / 2 {
            late.push(b.now.since(r.began));
        }
        b.complete(id);
        add(&mut b, r.op);
    }
    late.sort_unstable();
    (late[late.len() * 9 / 10], depth(&b, WRITE))
}

#[test]
fn writes_are_throttled_until_reads_meet_their_target() {
    // Without control a read waits for all 128 writes: 6.6 ms.
    let (p90, writes) = closed_loop(Nanos::secs(1));
    assert!(p90 >= Nanos::ms(6) && writes == 128, "{p90:?}, {writes}");
    for target in [Nanos::ms(2), Nanos::us(500)] {
        let (p90, writes) = closed_loop(target);
        assert!(p90 <= target, "p90 {p90:?} of a target of {target:?}");
        assert!((1..128).contains(&writes));
    }
}
