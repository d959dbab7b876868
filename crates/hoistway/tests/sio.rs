//! Conformance of `sio` and `sio-1` (specs/sio.md section 8), a slow obvious model, and the bounds.

use hoistway::request::Side;
use hoistway::sched::{At, Dispatch};
use hoistway::testkit::Rng;
use hoistway::testkit::scenario::{Bench, scenario};
use hoistway::testkit::scheduler::SLOTS;
use hoistway::{Flags, Io, Nanos, Op, ProcId, ReqId};

/// `r3@30000 r4@40000 ...`: distinct places, nothing adjacent.
fn series(letters: &str, numbers: core::ops::RangeInclusive<u64>) -> String {
    numbers.map(|i| format!("{letters}{i}@{} ", i * 10_000)).collect()
}

fn names(letters: &str, numbers: core::ops::RangeInclusive<u64>) -> String {
    numbers.map(|i| format!("{letters}{i} ")).collect()
}

#[test]
fn s1_reads_then_sync_writes_then_async_writes() {
    scenario(
        "sio",
        &[],
        "0 aw1@1000 sw2@2000 r3@3000 r4@4000
         1 x5 -> r3 r4 sw2 aw1 -",
    );
}

#[test]
fn s2_after_three_reads_a_write_goes() {
    let mut b = scenario("sio", &[], &format!("0 {} aw7@7 aw8@800", series("r", 1..=6)));
    b.run("0 x8 -> r1 r2 r3 aw7 r4 r5 r6 aw8");
}

#[test]
fn s3_a_starved_turn_takes_the_sync_write_first() {
    let mut b = scenario("sio", &[], &format!("0 {} aw5@5 sw6@600", series("r", 1..=4)));
    b.run("0 x7 -> r1 r2 r3 sw6 r4 aw5 -");
}

#[test]
fn s4_the_least_favoured_class_expires_first_and_one_request_per_check() {
    let mut b = scenario(
        "sio",
        &[("writes_starved", 1000)],
        &format!("0 aw1@1 sw2@200 {}", series("r", 3..=40)),
    );
    b.run(&format!("20000 x9 -> {}", names("r", 3..=11)));
    b.run("20000 x1 -> aw1");
    b.run(&format!("20000 x8 -> {}", names("r", 12..=19)));
    b.run("20000 x2 -> sw2 r20");
}

#[test]
fn s5_a_request_expires_one_tick_after_its_deadline() {
    for (ms, want) in [(2000, "r11"), (2001, "sw1")] {
        let mut b = Bench::new("sio", &[("writes_starved", 1000), ("sync_read_expire", 600_000)]);
        b.run(&format!("0 sw1@1 {}", series("r", 2..=11)));
        // Nine go before the first look at the deadlines (quirk Q2).
        b.run(&format!("0 x9 -> {}", names("r", 2..=10)));
        b.run(&format!("{ms} x1 -> {want}"));
    }
}

#[test]
fn s5_a_read_is_not_expired_at_500_and_is_at_501() {
    // With fifo_batch = 0 every second dispatch looks. The starved turn would be the write's.
    for (ms, want) in [(500, "sw2"), (501, "r3")] {
        let tunables = [("fifo_batch", 0), ("writes_starved", 0)];
        let mut b = scenario("sio", &tunables, "0 r1@10 r3@3000 sw2@2000 x1 -> r1");
        b.run(&format!("{ms} x1 -> {want}"));
    }
}

#[test]
fn s6_in_sio_1_async_wins_the_check() {
    let mut b = scenario("sio-1", &[], &format!("0 aw1@1 aw2@200 {}", series("r", 3..=40)));
    b.run(&format!("6000 x17 -> {}", names("r", 3..=19)));
    b.run("6000 x1 -> aw1");
}

#[test]
fn s7_asking_an_empty_sio_1_resets_the_batch() {
    let mut b = scenario("sio-1", &[], &format!("0 {}", series("r", 1..=17)));
    b.run(&format!("0 x17 -> {}", names("r", 1..=17)));
    assert_eq!(b.figure("batched", None), 17);
    b.run("0 x1 -> -");
    assert_eq!(b.figure("batched", None), 0);
}

/// Which of the waiting requests counts as expired at `ms`, found by asking with `fifo_batch` = 0.
fn first_expired_at(b: &mut Bench, ms: u64) -> String {
    b.set("fifo_batch", 0);
    b.at_ms(ms);
    b.dispatch_for(0)
}

#[test]
fn s8_the_earlier_deadline_and_its_place_stay() {
    // A read dispatched beforehand makes the next dispatch look at the deadlines.
    let start = "0 r9@900000 x1 -> r9
                 0 aw1@100
                 10 aw2@300
                 20 aw3@92 join:aw3+aw1";
    // 3 took over place and deadline of 1: at 16001 it is expired and 2 is not.
    let mut b = scenario("sio", &[], start);
    let (aw2, aw3) = (b.id("aw2"), b.id("aw3"));
    assert_eq!(b.neighbour(aw3, Side::Back), Some(aw2));
    b.run("15990 sw4@40000");
    assert_eq!(first_expired_at(&mut b, 16_001), "aw3");
    // Expired it must be: a tick earlier the sync write goes first.
    let mut b = scenario("sio", &[], start);
    b.run("15990 sw4@40000");
    assert_eq!(first_expired_at(&mut b, 16_000), "sw4");
}

#[test]
fn s8_the_kept_one_stays_where_it_is_when_it_is_older() {
    let start = "0 r9@900000 x1 -> r9
                 0 aw1@100
                 10 aw2@300
                 20 aw3@308 join:aw2+aw3";
    let mut b = scenario("sio", &[], start);
    let aw2 = b.id("aw2");
    assert_eq!(b.neighbour(aw2, Side::Front), Some(b.id("aw1")));
    assert_eq!(b.neighbour(aw2, Side::Back), None);
    b.run("20 x1 -> aw1");
    b.run("15990 sw4@40000");
    assert_eq!(first_expired_at(&mut b, 16_011), "aw2", "its deadline is still 16010");
}

#[test]
fn s9_neighbours_are_those_of_the_fifo() {
    let mut b = scenario("sio", &[], "0 sw1@0 sw2@1000 sw3@8");
    let (one, two, three) = (b.id("sw1"), b.id("sw2"), b.id("sw3"));
    assert_eq!(b.neighbour(one, Side::Back), Some(two));
    assert_eq!(b.neighbour(three, Side::Front), Some(two));
    assert_eq!(b.neighbour(one, Side::Front), None);
    let io = b.io("sw4", 16, 8);
    b.join_bio("sw3", io, Side::Back);
    assert_eq!(b.neighbour(three, Side::Back), None);
}

#[test]
fn s10_a_new_expiry_concerns_later_insertions_and_only_heads_are_looked_at() {
    let mut b = scenario(
        "sio",
        &[("fifo_batch", 0), ("writes_starved", 0)],
        "0 r0@1 x1 -> r0
         0 r1@1000 set:sync_read_expire=100 r2@2000 sw3@3000",
    );
    // At 200 the second read has expired, but the head has not: the starved write goes.
    b.run("200 x1 -> sw3");
    b.run("200 sw4@9000 x1 -> r1");
    // Now r2 is the head: it goes although a write is due.
    b.run("200 x2 -> r2 sw4");
}

#[test]
fn what_the_device_gave_back_goes_first_and_joins_nothing() {
    let mut b = scenario("sio", &[], "0 sw1@100 x1 -> sw1 \n 1 r2@500 back:sw1");
    let io = b.io("sw9", 108, 8);
    let id = b.id("sw1");
    assert!(!b.may_merge(&io, id));
    assert_eq!(b.neighbour(id, Side::Back), None);
    b.run("1 x3 -> sw1 r2 -");
}

#[test]
fn joining_writes_of_both_classes_moves_the_kept_one_to_the_earlier_deadline() {
    // The async write expires at 4000, the sync one it absorbs at 2000, which stands before sw2.
    let mut b = scenario(
        "sio",
        &[("async_write_expire", 4000)],
        "0 sw1@100 sw2@1000 aw3@92 join:aw3+sw1 x3 -> aw3 sw2 -",
    );
    assert_eq!(b.figure("async_writes_waiting", None), 0);
    b.run("1 r1@5 x2 -> r1 -");
}

#[test]
fn reads_marked_async_wait_in_a_class_of_their_own() {
    let mut b = Bench::new("sio", &[]);
    let io = Io { flags: Flags::RAHEAD, ..b.io("r1", 1000, 8) };
    let ahead = b.create_as(io, false);
    b.ids.insert("ahead".into(), ahead);
    b.rig.insert(ahead, At::Tail);
    assert_eq!(b.figure("async_reads_waiting", None), 1);
    b.run("0 r2@2000 sw3@3000 x4 -> r2 ahead sw3 -");
}

/// `sio` by its text: requests in order of arrival, searched anew for every question.
struct Model {
    /// Id, class (sync before async, read before write), deadline.
    all: Vec<(ReqId, usize, i64)>,
    directions: bool,
    expire: [i64; 4],
    batched: u64,
    starved: u64,
    fifo_batch: u64,
    writes_starved: u64,
}

impl Model {
    fn head(&self, class: usize) -> Option<(ReqId, usize, i64)> {
        self.all.iter().copied().find(|w| w.1 == class)
    }

    fn dispatch(&mut self, tick: i64) -> Option<ReqId> {
        let mut taken = None;
        if self.batched > self.fifo_batch {
            self.batched = 0;
            taken =
                [3, 2, 1, 0].into_iter().find_map(|class| self.head(class).filter(|w| tick > w.2));
        }
        let order = if self.directions && self.starved > self.writes_starved {
            [1, 3, 0, 2]
        } else if self.directions {
            [0, 2, 1, 3]
        } else {
            [0, 1, 2, 3]
        };
        let taken = taken.or_else(|| order.into_iter().find_map(|class| self.head(class)))?;
        self.all.retain(|w| w.0 != taken.0);
        self.batched += 1;
        self.starved = if taken.1 % 2 == 0 { self.starved + 1 } else { 0 };
        Some(taken.0)
    }
}

fn add(b: &mut Bench, io: Io) -> ReqId {
    let id = b.create(io);
    b.rig.insert(id, At::Tail);
    id
}

fn ask(b: &mut Bench) -> Option<ReqId> {
    match b.dispatch() {
        Dispatch::Issue(id) => Some(id),
        Dispatch::Idle | Dispatch::Empty => None,
    }
}

#[test]
fn both_revisions_agree_with_their_model() {
    for name in ["sio", "sio-1"] {
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let directions = name == "sio";
            let (batch, starved) = (rng.below(6), rng.below(4));
            let mut b = Bench::new(name, &[("fifo_batch", batch)]);
            if directions {
                b.set("writes_starved", starved);
            }
            let mut model = Model {
                all: Vec::new(),
                directions,
                expire: if directions { [500, 2000, 4000, 16_000] } else { [500, 0, 5000, 0] },
                batched: 0,
                starved: 0,
                fifo_batch: batch,
                writes_starved: starved,
            };
            for step in 0..3000 {
                // The queue is long and the steps are wide enough for every class to expire.
                b.now += Nanos::us(rng.below(300_000));
                let tick = (b.now.as_nanos() / 1_000_000) as i64;
                if rng.one_in(2) && b.env.requests.len() < SLOTS {
                    let mut io = Io::read(0, ProcId(0), 16 * rng.below(4096), 8);
                    let (write, sync) = (rng.one_in(3), rng.one_in(2));
                    if write {
                        io.op = Op::Write;
                    }
                    let id = b.create_as(io, sync);
                    b.rig.insert(id, At::Tail);
                    let class = usize::from(!sync) * 2 + usize::from(write && directions);
                    model.all.push((id, class, tick + model.expire[class]));
                } else {
                    let got = ask(&mut b);
                    assert_eq!(got, model.dispatch(tick), "{name}, seed {seed}, step {step}");
                    if let Some(id) = got {
                        b.env.requests.remove(id);
                    }
                }
            }
        }
    }
}

/// Writes that wait are served after `writes_starved + 1` reads in a row, plus one that had expired.
#[test]
fn reads_in_a_row_are_bounded_while_writes_wait() {
    for (starved, batch) in [(0, 1), (0, 16), (1, 3), (2, 8), (7, 2)] {
        for expire in [5, 600_000] {
            let tunables =
                [("writes_starved", starved), ("fifo_batch", batch), ("sync_read_expire", expire)];
            let mut b = Bench::new("sio", &tunables);
            let mut rng = Rng::new(starved);
            let (mut row, mut longest) = (0, 0);
            for _ in 0..20 {
                add(&mut b, Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8));
                add(&mut b, Io::write(0, ProcId(0), 16 * rng.below(1 << 20), 8));
            }
            for _ in 0..5000 {
                b.now += Nanos::us(500);
                let id = ask(&mut b).expect("the load never ends");
                let op = b.env.requests[id].op;
                row = if op == Op::Read { row + 1 } else { 0 };
                longest = longest.max(row);
                b.env.requests.remove(id);
                let io = Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8);
                add(&mut b, Io { op, ..io });
            }
            let bound = starved + 1 + u64::from(expire == 5);
            assert!(longest <= bound, "{tunables:?}: {longest} reads in a row, bound {bound}");
            assert!(longest > starved, "{tunables:?}: only {longest}");
        }
    }
}

/// A stream of sync reads that never ends, and async writes: once expired one goes after at most
/// `fifo_batch + 1` others (quirk Q3).
#[test]
fn an_expired_async_write_waits_for_one_batch_of_sync_requests() {
    for (name, expiry) in [("sio", "async_write_expire"), ("sio-1", "async_expire")] {
        for batch in [0, 1, 8, 16] {
            let mut b = Bench::new(name, &[("fifo_batch", batch), (expiry, 50)]);
            if name == "sio" {
                b.set("writes_starved", 1_000_000);
            }
            let mut rng = Rng::new(batch);
            for _ in 0..8 {
                add(&mut b, Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8));
            }
            let mut worst = 0;
            for _ in 0..200 {
                let write = add(&mut b, Io::write(0, ProcId(0), 8, 8));
                let born = b.now;
                let mut others = 0;
                loop {
                    b.now += Nanos::us(700 + rng.below(900));
                    let id = ask(&mut b).expect("the load never ends");
                    b.env.requests.remove(id);
                    if id == write {
                        break;
                    }
                    let whole = |at: hoistway::Instant| at.as_nanos() / 1_000_000;
                    others += u64::from(whole(b.now) > whole(born) + 50);
                    add(&mut b, Io::read(0, ProcId(0), 16 * rng.below(1 << 20), 8));
                }
                worst = worst.max(others);
            }
            assert!(worst <= batch + 1, "{name}: {worst} others went, bound {}", batch + 1);
            assert!(worst >= batch / 2, "{name}: the bound was never near, {worst}");
        }
    }
}
