//! Conformance of `deadline-zoccolo` (specs/deadline.md D, scenarios B-1 to B-13), its other switches, a slow
//! obvious model of all of them together, and the bounds.

use hoistway::request::Side;
use hoistway::sched::{At, Dispatch};
use hoistway::testkit::Rng;
use hoistway::testkit::scenario::Bench;
use hoistway::testkit::scheduler::SLOTS;
use hoistway::{
    Class, Device, Flags, Instant, Io, IoPrio, Nanos, Op, ProcId, QueueId, ReqId, Sectors,
};

const NAME: &str = "deadline-zoccolo";
const PRESETS: u64 = 7;

fn on_device(rotational: bool, tunables: &[(&str, u64)]) -> Bench {
    let mut device = Device::new(Sectors(1 << 30), 32);
    device.rotational = rotational;
    Bench::on(device, NAME, tunables)
}

/// A disk; `patch-full` without its minimum batch time.
fn disk(tunables: &[(&str, u64)]) -> Bench {
    let mut b = on_device(true, &[("batch_min_time", 0)]);
    for &(name, value) in tunables {
        b.set(name, value);
    }
    b
}

fn series(letter: &str, numbers: core::ops::RangeInclusive<u64>, step: u64) -> String {
    numbers.map(|i| format!("{letter}{i}@{} ", i * step)).collect()
}

#[test]
fn b1_levels_go_by_urgency() {
    disk(&[]).run(
        "0 aw@10 sw@20 r@30 rt@40 idr@50 rtaw@60 rtsw@70
         1 x8 -> rt sw r rtsw aw idr rtaw -",
    );
}

#[test]
fn by_sync_priorities_do_not_count() {
    disk(&[("preset", 3)]).run(
        "0 aw@10 sw@20 r@30 rt@40 idr@50 rtaw@60 rtsw@70
         1 x8 -> sw r rt idr rtsw aw rtaw -",
    );
}

#[test]
fn b2_a_batch_for_an_expired_request_begins_before_it() {
    for (jump, want) in [(1, "r6 r7 r8 r9"), (0, "r8 r9 r10 r1")] {
        let mut b = disk(&[("fifo_batch", 6), ("back_jump", jump)]);
        b.run(&format!("0 r8@800 {}{}", series("r", 1..=7, 100), series("r", 9..=10, 100)));
        b.run(&format!("600 x4 -> {want}"));
    }
}

#[test]
fn b2_the_jump_ends_at_the_lowest_sector() {
    disk(&[("fifo_batch", 12)]).run(
        "0 r3@300 r1@100 r2@200 r4@400
         600 x4 -> r1 r2 r3 r4",
    );
}

#[test]
fn b2_an_unexpired_start_is_not_moved() {
    let mut b = disk(&[("fifo_batch", 6)]);
    b.run(&format!("0 r8@800 {}", series("r", 1..=7, 100)));
    b.run("500 x2 -> r8 r1");
}

#[test]
fn b3_a_sweep_of_sync_requests_passes_the_turn_of_the_async_ones() {
    let insertions = format!("0 {} w1@50 w2@150 w3@250 w4@350", series("r", 1..=10, 100));
    let mut b = disk(&[("fifo_batch", 2), ("continue_if_more_important", 0)]);
    b.run(&insertions);
    b.run("1 x14 -> r1 r2 r3 r4 w1 w2 r5 r6 r7 r8 w3 w4 r9 r10");
    let mut b = disk(&[("fifo_batch", 2)]);
    b.run(&insertions);
    b.run("1 x14 -> r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 w1 w2 w3 w4");
}

#[test]
fn b4_an_expired_async_request_takes_its_turn() {
    let mut b = disk(&[("fifo_batch", 2)]);
    b.run("0 w1@50 w2@60");
    b.run(&format!("5200 {}", series("r", 1..=10, 100)));
    b.run("5201 x9 -> r1 r2 r3 r4 w1 w2 r5 r6 r7");
}

#[test]
fn b5_a_batch_lasts_for_its_minimum_time() {
    let mut b = disk(&[
        ("batch_min_time", 20),
        ("fifo_batch", 2),
        ("async_starved", 1),
        ("continue_if_more_important", 0),
    ]);
    b.run(&format!("0 {} w1@5", series("r", 1..=8, 100)));
    b.run(
        "0 x1 -> r1
         5 x1 -> r2
         10 x1 -> r3
         19 x1 -> r4
         20 x1 -> w1",
    );
}

#[test]
fn b6_a_real_time_read_ends_the_extension_but_not_the_batch() {
    let tunables = [("batch_min_time", 20), ("fifo_batch", 2)];
    let mut b = disk(&tunables);
    b.run(&format!("0 {}", series("r", 1..=6, 100)));
    b.run(
        "1 x1 -> r1
         3 x1 -> r2
         5 x1 -> r3
         6 rtx1@5
         7 x1 -> rtx1
         8 x1 -> r4
         9 x1 -> r5",
    );
    let mut b = disk(&tunables);
    b.run(&format!("0 {}", series("r", 1..=6, 100)));
    b.run("1 x1 -> r1 \n 2 rtx1@5 x3 -> r2 rtx1 r3");
}

#[test]
fn b7_without_a_spindle_reads_go_as_they_came_and_writes_sorted() {
    on_device(false, &[("batch_min_time", 0)]).run(
        "0 r1@500 r2@100 r3@300 r4@50 w1@500 w2@100 w3@700
         1 x8 -> r1 r2 r3 r4 w1 w3 w2 -",
    );
    // With a spindle, or with the switch off, reads are sorted too.
    for (rotational, switch) in [(true, 1), (false, 0)] {
        on_device(rotational, &[("nonrot_fifo_reads", switch), ("batch_min_time", 0)]).run(
            "0 r1@500 r2@100 r3@300 r4@50 w1@500 w2@100 w3@700
             1 x8 -> r1 r2 r3 w1 w3 r4 w2 -",
        );
    }
}

#[test]
fn b7_a_batch_without_a_spindle_holds_reads_only_or_writes_only() {
    let mut b = on_device(false, &[("batch_min_time", 0), ("fifo_batch", 2)]);
    // All are sync. The read r1 goes on with r2, then r3; the writes wait for their turn in the FIFO.
    b.run(
        "0 r1@500 sw1@900 r2@100 sw2@600 r3@300 sw3@700
         1 x7 -> r1 r2 r3 sw1 sw2 sw3 -",
    );
}

#[test]
fn b8_a_short_queue_is_swept_from_the_lowest_sector() {
    let insertions = "0 r1@500 r2@100 r3@300 r4@900";
    let mut b = disk(&[("short_sweep", 1)]);
    b.run(insertions);
    b.run("1 x4 -> r2 r3 r1 r4");
    let mut b = disk(&[("short_sweep", 1), ("fifo_batch", 3)]);
    b.run(insertions);
    b.run("1 x4 -> r1 r4 r2 r3");
}

#[test]
fn b9_when_all_have_expired_the_level_is_swept_as_a_whole() {
    for (switch, want) in [(1, "r5 r2 r3 r1 r4"), (0, "r1 r4 r2 r3 r5")] {
        let mut b = disk(&[("expired_sweep", switch), ("back_jump", 0), ("fifo_batch", 2)]);
        b.run(&format!("0 r1@500 r2@100 r3@300 r4@900 r5@50 \n 600 x5 -> {want}"));
        assert_eq!(b.figure("sweep_left", None), 0);
    }
}

#[test]
fn b9_a_request_absorbed_during_a_sweep_counts() {
    let mut b = disk(&[("expired_sweep", 1), ("fifo_batch", 2)]);
    b.run("0 r1@500 r2@100 r3@508 r4@900 \n 600 x1 -> r2");
    assert_eq!(b.figure("sweep_left", None), 3);
    b.run("600 join:r1+r3");
    assert_eq!(b.figure("sweep_left", None), 2);
    b.run("600 x3 -> r1 r4 -");
    assert_eq!(b.figure("sweep_left", None), 0);
}

#[test]
fn b10_a_young_async_request_waits_and_says_until_when() {
    let mut b = disk(&[("async_delay", 5)]);
    b.run("0 w1@100 x1 -> ~");
    assert_eq!(b.sched.next_timer(), Some(Instant::ZERO + Nanos::ms(5)));
    b.run("4 x1 -> ~");
    b.at_ms(5);
    b.timer();
    assert_eq!(b.env.runs.take(), Some(QueueId(0)), "the timer asks for the run");
    assert_eq!(b.sched.next_timer(), None);
    b.run("5 x2 -> w1 -");
}

#[test]
fn b10_a_shorter_delay_asks_for_a_run() {
    let mut b = disk(&[("async_delay", 500)]);
    b.run("0 w1@100 x1 -> ~ \n 3 set:async_delay=2");
    assert_eq!(b.env.runs.take(), Some(QueueId(0)));
    b.run("3 x1 -> w1");
}

#[test]
fn b10_draining_waits_for_nothing() {
    let mut b = disk(&[("async_delay", 500)]);
    b.run("0 w1@100 r1@5 w2@200");
    let mut names = Vec::new();
    while let Some(id) = b.drain() {
        names.push(b.name(id));
    }
    assert_eq!(names, ["r1", "w1", "w2"]);
}

#[test]
fn b10_a_young_async_request_costs_the_sync_ones_no_patience() {
    let mut b = disk(&[("async_delay", 50), ("fifo_batch", 1), ("async_starved", 0)]);
    b.run(
        "0 w1@100 r1@900 r2@800 r3@700
         10 x1 -> r1
         10 x1 -> r2",
    );
    assert_eq!(b.figure("starved", None), 0);
    b.run("50 x2 -> w1 r3");
}

#[test]
fn b11_patience_is_counted_in_sync_batches() {
    for (starved, want) in [
        (2, "r1 r2 r3 r4 w1 w2 r5 r6 r7 r8 w3 r9 r10 r11 r12"),
        (3, "r1 r2 r3 r4 r5 r6 w1 w2 r7 r8 r9 r10 r11 r12 w3"),
    ] {
        let mut b = disk(&[
            ("async_starved", starved),
            ("continue_if_more_important", 0),
            ("fifo_batch", 2),
        ]);
        b.run(&format!("0 {} w1@50 w2@150 w3@250", series("r", 1..=12, 100)));
        b.run(&format!("1 x15 -> {want}"));
    }
}

#[test]
fn b12_real_time_reads_starve_everything_else() {
    disk(&[("fifo_batch", 1)]).run(
        "0 w@9 b@10
         1 rt1@999 x1 -> rt1
         2 rt2@998 x1 -> rt2
         3 rt3@997 x1 -> rt3
         4 rt4@996 x1 -> rt4
         5 rt5@995 x1 -> rt5
         6 x2 -> b w",
    );
}

/// Scenarios A-1 to A-6, A-9 and A-11: neither equal sectors nor another name of a tunable occur in them.
#[test]
fn b13_the_preset_original_is_deadline() {
    let tables: [(u64, &str); 7] = [
        (16, "0 r1@500 r2@100 r3@300 r4@900 \n 1 x5 -> r1 r4 r2 r3 -"),
        (
            2,
            "0 r1@10 r2@20 r3@30 r4@40 r5@50 r6@60 r7@70 r8@80 w1@1000 w2@1010 w3@1020
             1 x12 -> r1 r2 r3 r4 w1 w2 r5 r6 r7 r8 w3 -",
        ),
        (2, "0 r1@500 r2@10 r3@600 r4@700 \n 1 x2 -> r1 r3 \n 500 x1 -> r4"),
        (2, "0 r1@500 r2@10 r3@600 r4@700 \n 1 x2 -> r1 r3 \n 501 x2 -> r2 r4"),
        (16, "0 w1@100 w2@200 \n 1 x1 -> w1 \n 2 r1@50 x2 -> w2 r1"),
        (16, "0 r1@100 r2@200 \n 1 x1 -> r1 \n 2 r3@150 r4@120 r5@210 x4 -> r2 r5 r3 r4"),
        (1, "0 r1@100 r2@50 r3@200 \n 1 x3 -> r1 r3 r2"),
    ];
    let writes: String = (0..20).map(|i| format!("w{i}@{} ", 100 + 8 * i)).collect();
    let a9 = format!(
        "0 {writes} \n 1 x4 -> w0 w1 w2 w3
         2 r1@9 x14 -> w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 r1 w16"
    );
    let a11 = "0 r3@300 r1@100 r2@200 r4@400 r5@500 r6@600 set:async_starved=0
               1 x2 -> r3 r4
               2 w1@50 w2@60
               3 x6 -> w1 w2 r1 r2 r5 r6";
    // `cleanup` was the same without a change in behaviour; the device does not matter to either.
    for (preset, rotational) in [(0, true), (0, false), (1, true)] {
        for (batch, table) in tables.into_iter().chain([(16, a9.as_str()), (2, a11)]) {
            on_device(rotational, &[("preset", preset), ("fifo_batch", batch)]).run(table);
        }
    }
}

#[test]
fn a_preset_sets_all_others_and_what_follows_wins() {
    let mut b = disk(&[("fifo_batch", 3), ("async_delay", 9), ("preset", 6)]);
    let all = ["classify", "async_starved", "fifo_batch", "batch_min_time", "async_delay"];
    let values = |b: &Bench| all.map(|name| b.sched.value(name).unwrap());
    assert_eq!(values(&b), [2, 3, 16, 20, 3]);
    b.set("async_starved", 7);
    assert_eq!(values(&b), [2, 7, 16, 20, 3]);
    b.set("preset", 4);
    assert_eq!(values(&b), [1, 3, 16, 0, 0]);
    let switches = [
        "continue_if_more_important",
        "nonrot_fifo_reads",
        "back_jump",
        "short_sweep",
        "expired_sweep",
        "front_merges",
        "nonrot_fifo_batch_one",
    ];
    for (preset, want) in [
        (0, [0, 0, 0, 0, 0, 1, 0]),
        (1, [0, 0, 0, 0, 0, 1, 0]),
        (2, [1, 0, 0, 0, 0, 1, 0]),
        (3, [1, 0, 0, 0, 0, 1, 0]),
        (4, [1, 0, 0, 0, 0, 1, 0]),
        (5, [1, 1, 1, 0, 0, 1, 0]),
        (6, [1, 1, 1, 1, 1, 1, 0]),
    ] {
        b.set("preset", preset);
        assert_eq!(switches.map(|name| b.sched.value(name).unwrap()), want, "preset {preset}");
    }
}

#[test]
fn without_a_spindle_batches_of_one_can_be_asked_for() {
    // All have expired, so every batch begins at the oldest; only a longer one goes on upwards.
    for (rotational, want) in [(false, "r1 r2 sw1 r3"), (true, "r1 sw1 r3 r2")] {
        let mut b = on_device(
            rotational,
            &[
                ("nonrot_fifo_batch_one", 1),
                ("nonrot_fifo_reads", 0),
                ("batch_min_time", 0),
                ("sync_expire", 10),
                ("back_jump", 0),
            ],
        );
        b.run(&format!("0 r1@500 r2@100 sw1@600 r3@800 \n 20 x4 -> {want}"));
    }
}

#[test]
fn equal_sectors_coexist() {
    disk(&[]).run("0 r1@100 r2@100 sw1@100 x4 -> r1 r2 sw1 -");
}

#[test]
fn a_bio_joins_only_its_own_level_and_direction() {
    let mut b = disk(&[]);
    b.run("0 sw1@100 aw1@300 r1@300 sw2@300");
    let mut front = |name: &str, start| {
        let io = b.io(name, start, 8);
        b.find_merge(&io).map(|(id, side)| {
            assert_eq!(side, Side::Front);
            b.name(id)
        })
    };
    assert_eq!(front("sw9", 92), Some("sw1".into()));
    assert_eq!(front("aw9", 92), None, "the write there is a sync one");
    assert_eq!(front("r9", 92), None);
    assert_eq!(front("aw9", 292), Some("aw1".into()));
    assert_eq!(front("sw9", 292), Some("sw2".into()), "behind a read at the same sector");
    assert_eq!(front("r9", 292), Some("r1".into()));
    assert_eq!(front("rt9", 292), None, "a real-time read is of another level");
    b.set("front_merges", 0);
    let io = b.io("sw9", 92, 8);
    assert_eq!(b.find_merge(&io), None);
}

#[test]
fn a_back_merge_into_another_level_is_vetoed() {
    let mut b = disk(&[]);
    b.run("0 sw1@100 aw1@300");
    let mut may = |name: &str, into: &str| {
        let (io, id) = (b.io(name, 108, 8), b.id(into));
        b.may_merge(&io, id)
    };
    assert!(may("sw9", "sw1") && may("aw9", "aw1"));
    assert!(!may("aw9", "sw1") && !may("sw9", "aw1"));
    assert!(!may("idsw9", "sw1"), "idle");
    b.set("classify", 0);
    let (io, id) = (b.io("sw9", 308, 8), b.id("aw1"));
    assert!(b.may_merge(&io, id), "both are writes");
}

#[test]
fn a_front_merge_moves_a_request_in_the_sector_order() {
    let mut b = disk(&[("short_sweep", 1)]);
    b.run("0 r1@100 r2@50 r3@70+30");
    let io = b.io("r9", 10, 60);
    b.join_bio("r3", io, Side::Front);
    let (r2, r3) = (b.id("r2"), b.id("r3"));
    assert_eq!(b.neighbour(r2, Side::Front), Some(r3));
    assert_eq!(b.neighbour(r3, Side::Front), None);
    b.run("1 x4 -> r3 r2 r1 -");
}

#[test]
fn the_sweep_goes_on_behind_a_request_that_was_absorbed() {
    disk(&[]).run(
        "0 r1@100 r2@200 r3@300
         1 x1 -> r1
         2 r0@192 join:r0+r2 x3 -> r3 r0 -",
    );
}

#[test]
fn the_earlier_deadline_and_the_greater_age_stay() {
    let mut b = disk(&[("async_delay", 100)]);
    b.run("0 w3@108 \n 90 w1@100 join:w1+w3 \n 99 x1 -> ~ \n 100 x1 -> w1");
}

#[test]
fn what_the_device_gave_back_goes_first_and_joins_nothing() {
    let mut b = disk(&[]);
    b.run("0 r1@100 r2@200 x1 -> r1");
    b.run("1 rt1@50 back:r1");
    let (io, id) = (b.io("r9", 108, 8), b.id("r1"));
    assert!(!b.may_merge(&io, id));
    b.run("1 x4 -> r1 r2 rt1 -");
}

/// A request as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waiting {
    id: ReqId,
    level: usize,
    read: bool,
    start: u64,
    /// Order of arrival.
    seq: u64,
    arrived: i64,
    deadline: i64,
}

/// The algorithm by its text (specs/deadline.md B6): a heap of requests, searched anew for every question.
#[derive(Clone, Debug, Default)]
struct Model {
    // Settings.
    classify: u64,
    expire: [i64; 3],
    async_starved: u64,
    fifo_batch: u64,
    goes_on: bool,
    nonrot_reads: bool,
    min_time: i64,
    back_jump: bool,
    short_sweep: bool,
    expired_sweep: bool,
    async_delay: i64,
    // State.
    all: Vec<Waiting>,
    seq: u64,
    next: Option<Waiting>,
    batching: u64,
    batch_start: i64,
    starved: u64,
    sweep: Option<(usize, usize)>,
}

impl Model {
    fn insert(&mut self, tick: i64, id: ReqId, io: &Io) {
        let read = io.op == Op::Read;
        let sync = read || io.flags.any(Flags::SYNC);
        let level = match self.classify {
            0 => 1 + usize::from(!read),
            1 => 1 + usize::from(!sync),
            _ => match (io.prio.class(), read, sync) {
                (Class::Rt, true, _) => 0,
                (Class::Idle, ..) | (_, _, false) => 2,
                _ => 1,
            },
        };
        self.seq += 1;
        let deadline = tick + self.expire[level];
        let (start, seq) = (io.start.0, self.seq);
        self.all.push(Waiting { id, level, read, start, seq, arrived: tick, deadline });
    }

    fn fifo(&self, level: usize) -> Vec<Waiting> {
        self.all.iter().copied().filter(|w| w.level == level).collect()
    }

    /// The sector order of a batch that begins with a request like `like`.
    fn sorted(&self, like: &Waiting) -> Vec<Waiting> {
        let mut some = self.fifo(like.level);
        if self.nonrot_reads {
            some.retain(|w| w.read == like.read);
        }
        some.sort_by_key(|w| (w.start, w.seq));
        some
    }

    fn send(&mut self, w: Waiting) -> ReqId {
        let order = if self.nonrot_reads && w.read { self.fifo(w.level) } else { self.sorted(&w) };
        let at = order.iter().position(|o| *o == w).unwrap();
        let alike = |o: &&Waiting| !self.nonrot_reads || o.read == w.read;
        self.next = order[at + 1..].iter().find(alike).copied();
        self.all.retain(|o| o.id != w.id);
        self.batching += 1;
        if let Some((level, left)) = self.sweep
            && level == w.level
        {
            self.sweep = (left > 1).then_some((level, left - 1));
        }
        w.id
    }

    fn start(&mut self, tick: i64, level: usize) -> Waiting {
        let fifo = self.fifo(level);
        let (head, tail) = (fifo[0], *fifo.last().unwrap());
        let sorted = self.sorted(&head);
        let as_they_came = self.nonrot_reads && head.read;
        let sweeping = self.sweep.is_some_and(|(of, _)| of == level);
        if self.expired_sweep && !sweeping && !as_they_came && tick > tail.deadline {
            self.sweep = Some((level, fifo.len()));
            return sorted[0];
        }
        let expired = tick > head.deadline && !sweeping;
        let restart = match self.next {
            None => true,
            Some(next) if self.goes_on => next.level > level || expired,
            Some(next) => next.level != level || expired,
        };
        if !restart {
            return self.next.unwrap();
        }
        if as_they_came {
            return head;
        }
        let at = sorted.iter().position(|w| *w == head).unwrap();
        if sweeping || (!expired && self.short_sweep && (fifo.len() as u64) < self.fifo_batch) {
            sorted[0]
        } else if expired && self.back_jump {
            sorted[at.saturating_sub(self.fifo_batch as usize / 3)]
        } else {
            head
        }
    }

    fn dispatch(&mut self, tick: i64) -> Option<ReqId> {
        if let Some(next) = self.next {
            let rt = self.all.iter().any(|w| w.level == 0) && next.level != 0;
            if self.batching < self.fifo_batch || (tick - self.batch_start < self.min_time && !rt) {
                return Some(self.send(next));
            }
        }
        let eligible = self.fifo(2).first().is_some_and(|w| tick - w.arrived >= self.async_delay);
        let level = if !self.fifo(0).is_empty() {
            0
        } else if !self.fifo(1).is_empty() {
            let old = self.starved;
            self.starved += u64::from(eligible);
            1 + usize::from(eligible && old >= self.async_starved)
        } else if eligible {
            2
        } else {
            return None;
        };
        if level == 2 {
            self.starved = 0;
        }
        let start = self.start(tick, level);
        self.batching = 0;
        self.batch_start = tick;
        Some(self.send(start))
    }
}

fn add(b: &mut Bench, io: Io) -> ReqId {
    let id = b.create(io);
    b.rig.insert(id, At::Tail);
    id
}

fn random_io(rng: &mut Rng, places: u64) -> Io {
    let mut io = Io::read(0, ProcId(0), 16 * rng.below(places), 8);
    if rng.one_in(2) {
        io.op = Op::Write;
        io.flags = if rng.one_in(2) { Flags::SYNC } else { Flags::NONE };
    }
    io.prio = match rng.below(12) {
        0 => IoPrio::rt(0),
        1 => IoPrio::idle(),
        2 => IoPrio::NONE,
        _ => IoPrio::be(4),
    };
    io
}

/// Every switch on or off at random, on both kinds of device.
#[test]
fn it_agrees_with_its_model_under_every_mixture_of_switches() {
    let (mut idle, mut swept) = (0, 0);
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let rotational = rng.one_in(2);
        let expire = [20 + rng.below(100), 50 + rng.below(400), 200 + rng.below(2000)];
        let mut on = || rng.one_in(2);
        let [goes_on, fifo_reads, back_jump, short_sweep, expired_sweep, one] =
            [on(), on(), on(), on(), on(), on()];
        let classify = rng.below(3);
        let (batch, starved) = (rng.below(9), rng.below(4));
        let min_time = [0, 15, 60][rng.below(3) as usize];
        let delay = [0, 0, 40, 300][rng.below(4) as usize];
        let tunables = [
            ("classify", classify),
            ("rt_expire", expire[0]),
            ("sync_expire", expire[1]),
            ("async_expire", expire[2]),
            ("async_starved", starved),
            ("fifo_batch", batch),
            ("continue_if_more_important", goes_on.into()),
            ("nonrot_fifo_reads", fifo_reads.into()),
            ("batch_min_time", min_time),
            ("back_jump", back_jump.into()),
            ("short_sweep", short_sweep.into()),
            ("expired_sweep", expired_sweep.into()),
            ("async_delay", delay),
            ("nonrot_fifo_batch_one", one.into()),
        ];
        let mut b = on_device(rotational, &tunables);
        let mut model = Model {
            classify,
            expire: expire.map(|ms| ms as i64),
            async_starved: starved,
            fifo_batch: if one && !rotational { 1 } else { batch },
            goes_on,
            nonrot_reads: fifo_reads && !rotational,
            min_time: min_time as i64,
            back_jump,
            short_sweep,
            expired_sweep,
            async_delay: delay as i64,
            ..Model::default()
        };
        for step in 0..2500 {
            b.now += Nanos::us(rng.below(12_000));
            let tick = (b.now.as_nanos() / 1_000_000) as i64;
            // Long phases of filling and of emptying.
            let filling = (step / 150) % 2 == 0;
            if rng.below(10) < if filling { 6 } else { 3 } && b.env.requests.len() < SLOTS / 2 {
                let io = random_io(&mut rng, 128);
                let id = add(&mut b, io);
                model.insert(tick, id, &io);
                continue;
            }
            let waiting = !model.all.is_empty();
            let want = model.dispatch(tick);
            let got = b.dispatch();
            let context = format!("seed {seed}, step {step}: {tunables:?}");
            match got {
                Dispatch::Issue(id) => {
                    assert_eq!(Some(id), want, "{context}");
                    b.env.requests.remove(id);
                }
                Dispatch::Idle => {
                    assert!(want.is_none() && waiting, "{context}");
                    let at = (model.fifo(2)[0].arrived + model.async_delay) as u64;
                    assert_eq!(b.sched.next_timer(), Some(Instant::ZERO + Nanos::ms(at)));
                    idle += 1;
                }
                Dispatch::Empty => assert!(!waiting, "{context}"),
            }
            assert_eq!(b.figure("starved", None) as u64, model.starved, "{context}");
            let left = model.sweep.map_or(0, |(_, left)| left as i64);
            assert_eq!(b.figure("sweep_left", None), left, "{context}");
            swept += u32::from(left > 0);
        }
    }
    assert!(idle > 50 && swept > 500, "the mixture was too tame: {idle} idle, {swept} swept");
}

/// A load that never ends: half sync, half async; what was served is replaced. Calls `seen` for each.
fn saturated(
    b: &mut Bench,
    seed: u64,
    turns: u64,
    mut seen: impl FnMut(&Bench, ReqId, bool, Nanos),
) {
    let mut rng = Rng::new(seed);
    let mut born = vec![Instant::ZERO; SLOTS];
    let mut place = |b: &mut Bench, sync: bool, places: u64| {
        let mut io = Io::write(0, ProcId(0), 16 * rng.below(places), 8);
        match (sync, rng.one_in(2)) {
            (true, true) => io.op = Op::Read,
            (true, false) => io.flags = Flags::SYNC,
            (false, _) => {}
        }
        let id = add(b, io);
        born[id.index()] = b.now;
        (id, born[id.index()])
    };
    let mut since = vec![Instant::ZERO; SLOTS];
    for i in 0..80 {
        let (id, at) = place(b, i % 2 == 0, 1 << 20);
        since[id.index()] = at;
    }
    for _ in 0..turns {
        b.now += Nanos::us(500);
        let Dispatch::Issue(id) = b.dispatch() else {
            panic!("the load never ends");
        };
        let sync = b.env.requests[id].sync;
        seen(b, id, sync, b.now.since(since[id.index()]));
        b.env.requests.remove(id);
        // New ones come low, where a pure sweep would take them first.
        let (id, at) = place(b, sync, 64);
        since[id.index()] = at;
    }
}

/// After `async_starved` sync batches with async requests waiting comes an async one.
#[test]
fn sync_requests_in_a_row_are_bounded_while_async_ones_wait() {
    for rotational in [true, false] {
        for preset in [0, 5, 6] {
            for (starved, batch) in [(0, 1), (0, 16), (1, 3), (2, 16), (5, 2)] {
                let tunables = [
                    ("preset", preset),
                    ("classify", 1),
                    ("async_starved", starved),
                    ("fifo_batch", batch),
                    ("continue_if_more_important", 0),
                    ("batch_min_time", 0),
                    ("async_delay", 0),
                ];
                let mut b = on_device(rotational, &tunables);
                let (mut row, mut longest) = (0, 0);
                saturated(&mut b, starved + batch, 10_000, |_, _, sync, _| {
                    row = if sync { row + 1 } else { 0 };
                    longest = longest.max(row);
                });
                let bound = (starved + 1) * batch;
                assert!(longest <= bound, "{tunables:?}: {longest} in a row, bound {bound}");
                assert!(longest >= starved, "{tunables:?}: only {longest}");
            }
        }
    }
}

/// With `n` requests of a level waiting, an expired one waits for at most `n` batches of its own level (each
/// that begins while the head is expired serves that head), each preceded by at most `async_starved` sync
/// batches and followed by one async batch, and for the running one. `continue_if_more_important` does
/// not matter to expired requests; a batch lasts `fifo_batch` requests or `batch_min_time`.
#[test]
fn an_expired_request_waits_for_a_bounded_time_under_every_preset_without_sweeps() {
    for rotational in [true, false] {
        for preset in 0..PRESETS - 1 {
            for (starved, batch) in [(0, 1), (1, 4), (2, 16)] {
                let tunables = [
                    ("preset", preset),
                    ("classify", 1),
                    ("async_starved", starved),
                    ("fifo_batch", batch),
                    ("sync_expire", 20),
                    ("async_expire", 40),
                ];
                let mut b = on_device(rotational, &tunables);
                let turn = Nanos::us(500);
                let min_time = Nanos::ms(b.sched.value("batch_min_time").unwrap());
                let longest = (turn * batch.max(1)).max(min_time) + turn;
                let rounds = [2, starved + 2].map(|n| longest * (40 * n.max(2) + 1));
                saturated(&mut b, 7, 10_000, |_, _, sync, waited| {
                    let late = usize::from(!sync);
                    let limit = Nanos::ms([20, 40][late] + 1) + rounds[late];
                    assert!(waited <= limit, "{tunables:?}: {waited:?} > {limit:?}");
                });
            }
        }
    }
}
