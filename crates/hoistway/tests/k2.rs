//! Conformance of `k2` (specs/k2.md section 10, K2-1 to K2-16), and its bound.

use hoistway::group::CpuPolicy;
use hoistway::request::Side;
use hoistway::sched::{At, Dispatch};
use hoistway::testkit::Rng;
use hoistway::testkit::scenario::{Bench, scenario};
use hoistway::{Flags, Input, Instant, Io, IoPrio, Op, Output, ProcId, Sectors, Stack};

/// As published.
const AS_CODED: (&str, u64) = ("base", 0);
const EIGHT: (&str, u64) = ("rt_levels", 1);
const PAPER: (&str, u64) = ("k2_version", 1);

fn k2(tunables: &[(&str, u64)]) -> Bench {
    Bench::new("k2", tunables)
}

fn figure(b: &mut Bench, name: &str) -> i64 {
    b.figure(name, None)
}

fn insert(b: &mut Bench, name: &str, start: u64, prio: IoPrio, at: At) {
    let io = Io { prio, ..b.rig.io(ProcId(0), Op::Read, start, 8, Flags::NONE) };
    b.insert(name, io, at);
}

fn order(b: &mut Bench, n: usize) -> Vec<String> {
    (0..n).map(|_| b.dispatch_for(0)).collect()
}

/// K2-1.
#[test]
fn one_class_is_first_in_first_out() {
    scenario("k2", &[], "0 be1@900 be2@100 be3@500 x4 -> be1 be2 be3 -");
}

/// K2-2.
#[test]
fn real_time_goes_first_and_idle_is_as_good_as_the_rest() {
    scenario("k2", &[], "0 be1@900 id1@100 n1@500 rt1@300 x5 -> rt1 be1 id1 n1 -");
}

/// K2-3, quirk Q1.
#[test]
fn all_real_time_levels_are_one_unless_asked_for() {
    for (tunables, want) in [(&[][..], ["a", "b", "c"]), (&[EIGHT][..], ["b", "c", "a"])] {
        let mut b = k2(tunables);
        for (name, level, start) in [("a", 7, 100), ("b", 0, 300), ("c", 4, 500)] {
            insert(&mut b, name, start, IoPrio::rt(level), At::Tail);
        }
        assert_eq!(order(&mut b, 3), want, "{tunables:?}");
    }
}

/// K2-4.
#[test]
fn a_process_of_a_real_time_policy_has_the_middle_level() {
    let mut b = k2(&[EIGHT]);
    let proc = b.rig.env.procs.get_mut(ProcId(0)).unwrap();
    (proc.prio, proc.policy) = (IoPrio::NONE, CpuPolicy::RealTime);
    insert(&mut b, "a", 100, IoPrio::rt(5), At::Tail);
    insert(&mut b, "b", 300, IoPrio::NONE, At::Tail);
    insert(&mut b, "c", 500, IoPrio::rt(3), At::Tail);
    assert_eq!(order(&mut b, 3), ["c", "b", "a"]);
}

/// K2-5.
#[test]
fn at_the_limit_a_completion_asks_for_the_next() {
    let mut b = k2(&[("max_inflight", 2)]);
    b.run("0 be1@100 be2@300 be3@500 x3 -> be1 be2 ~");
    assert_eq!(figure(&mut b, "inflight"), 2);
    assert!(!b.sched.has_work(), "no delayed rerun");
    assert!(!b.kicked());
    b.run("1 done:be1");
    assert_eq!(figure(&mut b, "inflight"), 1);
    assert!(b.kicked());
    b.run("1 x1 -> be3");
}

/// K2-6.
#[test]
fn below_the_limit_a_completion_asks_for_nothing() {
    let mut b = k2(&[("max_inflight", 4)]);
    b.run("0 be1@100 be2@300 be3@500 x3 -> be1 be2 be3");
    b.run("1 done:be1");
    assert!(!b.kicked());
}

/// K2-7.
#[test]
fn one_run_after_two_completions_fills_up_to_the_limit() {
    let mut b = k2(&[AS_CODED, ("max_inflight", 2)]);
    b.run("0 be1@100 be2@300 be3@500 be4@700 be5@900 x3 -> be1 be2 ~");
    b.run("1 done:be1");
    assert!(b.kicked());
    b.run("1 done:be2");
    assert!(!b.kicked());
    b.run("1 x3 -> be3 be4 ~");
}

/// K2-8.
#[test]
fn a_real_time_request_waits_for_one_at_most() {
    scenario(
        "k2",
        &[("max_inflight", 1)],
        "0 be1@100 x1 -> be1
         1 be2@300 be3@500 rt1@700 x1 -> ~
         2 done:be1 x2 -> rt1 ~
         3 done:rt1 x1 -> be2",
    );
}

/// K2-9.
#[test]
fn the_head_is_the_tail() {
    scenario("k2", &[], "0 be1@100 head:be2@300 x2 -> be1 be2");
}

/// K2-10, quirk Q2; and what mends it.
#[test]
fn a_request_given_back_counts_twice_as_coded() {
    let tables = [
        "0 be1@100 x1 -> be1
         1 be2@300 back:be1 x2 -> be2 ~
         2 done:be2 x1 -> be1
         3 done:be1",
        "0 be1@100 x1 -> be1
         1 be2@300 back:be1 x2 -> be2 be1
         2 done:be2 done:be1",
    ];
    for (base, left) in [(0, 1), (1, 0)] {
        let mut b = scenario("k2", &[("base", base), ("max_inflight", 2)], tables[base as usize]);
        assert_eq!(figure(&mut b, "inflight"), left, "base {base}");
    }
}

/// The end of K2-10: so many requests given back that nothing moves any more, until the rules change.
#[test]
fn requests_given_back_stop_the_drive_as_coded() {
    let mut b = scenario(
        "k2",
        &[AS_CODED, ("max_inflight", 2)],
        "0 be1@100 x1 -> be1
         1 back:be1 x1 -> be1
         2 back:be1 x1 -> ~",
    );
    b.kicked();
    b.run("3 set:base=1");
    assert!(b.kicked());
    b.run("3 x1 -> be1");
}

/// K2-11, quirk Q3; and what mends it.
#[test]
fn a_raised_limit_waits_for_an_insertion_as_coded() {
    for base in [0, 1] {
        let mut b = k2(&[("base", base), ("max_inflight", 2)]);
        b.run("0 be1@100 be2@300 be3@500 be4@700 x3 -> be1 be2 ~");
        b.kicked();
        b.run("1 set:max_inflight=4");
        assert_eq!(b.kicked(), base == 1);
        if base == 0 {
            b.run("2 done:be1 done:be2");
            assert!(!b.kicked());
            b.run("3 be5@900 x3 -> be3 be4 be5");
        } else {
            b.run("1 x2 -> be3 be4");
        }
    }
}

/// Quirk Q4.
#[test]
fn no_request_goes_out_while_the_limit_is_nothing() {
    for base in [0, 1] {
        let mut b = k2(&[("base", base)]);
        b.run("0 be1@100 be2@300 x1 -> be1");
        b.run("1 set:max_inflight=0 x1 -> ~");
        b.run("2 done:be1 x1 -> ~");
        b.kicked();
        b.run("3 set:max_inflight=1");
        assert_eq!(b.kicked(), base == 1, "as coded nothing asks");
        b.run("3 x1 -> be2");
    }
}

/// K2-12.
#[test]
fn a_lowered_limit_is_reached_by_completions() {
    let mut b = k2(&[AS_CODED, ("max_inflight", 4)]);
    b.run("0 be1@100 be2@300 be3@500 be4@700 be5@900 x5 -> be1 be2 be3 be4 ~");
    b.run("1 set:max_inflight=2");
    b.run("2 done:be1 done:be2");
    assert!(!b.kicked());
    b.run("3 done:be3");
    assert!(b.kicked());
    b.run("3 x2 -> be5 -");
}

/// A stack over `k2` that keeps what it is asked to issue.
fn stack(tunables: &[(&str, u64)]) -> Stack {
    let mut device = hoistway::Device::new(Sectors(1 << 20), 32);
    device.nr_requests = 32;
    device.write_cache = true;
    let entry = hoistway::sched::find("k2").unwrap();
    let mut stack = Stack::new(device, entry, 64);
    assert!(issued(&mut stack).is_empty());
    stack.add_proc(hoistway::GroupId::ROOT, IoPrio::be(4));
    for &(name, value) in tunables {
        let stage = hoistway::stack::StageName::Scheduler;
        let input = Input::Set { stage, name: name.into(), value };
        stack.handle(Instant::ZERO, input).unwrap();
        assert!(issued(&mut stack).is_empty());
    }
    stack
}

/// Everything issued: request, start, sectors.
fn issued(stack: &mut Stack) -> Vec<(hoistway::ReqId, u64, u64)> {
    let mut all = Vec::new();
    loop {
        match stack.poll(Instant::ZERO) {
            Output::Issue { req, .. } => {
                let r = &stack.env().requests[req];
                all.push((req, r.start.0, r.sectors.0));
            }
            Output::WaitUntil(_) => return all,
            _ => {}
        }
    }
}

fn write(stack: &mut Stack, id: u64, start: u64) -> Vec<(hoistway::ReqId, u64, u64)> {
    bio(stack, Io { op: Op::Write, ..Io::read(id, ProcId(0), start, 8) })
}

fn bio(stack: &mut Stack, io: Io) -> Vec<(hoistway::ReqId, u64, u64)> {
    let io = Io { flags: io.flags | Flags::UNPLUG, prio: IoPrio::be(4), ..io };
    stack.handle(Instant::ZERO, Input::Submit(io)).unwrap();
    issued(stack)
}

/// K2-13 and K2-14: through the stack, whose search it is. A first request keeps the drive, so that the others wait.
#[test]
fn bios_join_by_cache_hash_and_the_own_look_up() {
    let mut s = stack(&[("max_inflight", 1)]);
    let first = write(&mut s, 1, 9000)[0].0;
    for (id, start) in [(2, 100), (3, 108), (4, 92), (5, 500), (6, 492)] {
        assert!(write(&mut s, id, start).is_empty());
    }
    // Reads do not join writes, nor does anything join what is out.
    assert!(bio(&mut s, Io::read(7, ProcId(0), 484, 8)).is_empty());
    assert!(write(&mut s, 8, 9008).is_empty());
    let mut got = Vec::new();
    let mut out = first;
    for _ in 0..4 {
        s.handle(Instant::ZERO, Input::Done { req: out, error: None }).unwrap();
        let next = issued(&mut s);
        assert_eq!(next.len(), 1);
        out = next[0].0;
        got.push((next[0].1, next[0].2));
    }
    assert_eq!(got, [(92, 24), (492, 16), (484, 8), (9008, 8)]);
}

/// K2 never joins two requests at their insertion: (100, 8) and (116, 8) with (108, 8) between remain two.
#[test]
fn requests_do_not_join_each_other() {
    let mut b = k2(&[]);
    b.run("0 w1@100 w2@116");
    let io = b.io("w3", 108, 8);
    b.join_bio("w1", io, Side::Back);
    let id = b.id("w1");
    assert_eq!(b.neighbour(id, Side::Back), None);
    b.run("0 x3 -> w1 w2 -");
}

/// K2-15, quirk Q6: through the stack, whose flush it is.
#[test]
fn a_flush_lets_one_more_out_if_it_counts() {
    for count in [0, 1] {
        let mut s = stack(&[("max_inflight", 2), ("count_bypassed", count)]);
        assert_eq!(write(&mut s, 1, 100).len() + write(&mut s, 2, 300).len(), 2);
        assert!(write(&mut s, 3, 500).is_empty());
        let flush = Io {
            op: Op::Flush,
            flags: Flags::PREFLUSH,
            sectors: Sectors(0),
            ..Io::read(4, ProcId(0), 0, 8)
        };
        let command = bio(&mut s, flush);
        assert_eq!(command.len(), 1, "the flush itself passes by");
        s.handle(Instant::ZERO, Input::Done { req: command[0].0, error: None }).unwrap();
        let more: Vec<u64> = issued(&mut s).iter().map(|i| i.1).collect();
        assert_eq!(more, if count == 1 { vec![500] } else { vec![] });
    }
}

/// K2-16, and the rest of section 8.
#[test]
fn the_paper_s_version_merges_nothing_and_reads_the_process_alone() {
    let mut b = k2(&[PAPER, ("max_inflight", 2)]);
    assert!(b.sched.has_work(), "although nothing waits");
    b.run("0 x1 -> -");
    b.run("0 be1@100 rt1@300 x2 -> be1 rt1");
    assert!(!b.sched.has_work());

    let mut s = stack(&[PAPER, ("max_inflight", 1)]);
    let first = write(&mut s, 1, 9000)[0].0;
    assert!(write(&mut s, 2, 100).is_empty() && write(&mut s, 3, 108).is_empty());
    s.handle(Instant::ZERO, Input::Done { req: first, error: None }).unwrap();
    assert_eq!(issued(&mut s)[0].2, 8);
}

/// The guarantee: when a real-time request comes, at most `max_inflight` requests and the real-time requests before it
/// are completed before it goes out.
#[test]
fn a_real_time_request_waits_for_the_limit_at_most() {
    let mut rng = Rng::new(5);
    for limit in [1, 3, 8] {
        let mut b = k2(&[("max_inflight", limit)]);
        let (mut out, mut n) = (Vec::new(), 0);
        // Name of the waiting real-time request, and how many may still be issued before it.
        let mut waits: Vec<(String, u64)> = Vec::new();
        for _ in 0..4000 {
            match rng.below(4) {
                0 | 1 if b.ids.len() < 200 => {
                    n += 1;
                    let real_time = rng.one_in(4);
                    let name = format!("{n}");
                    let prio =
                        if real_time { IoPrio::rt(rng.below(8) as u8) } else { IoPrio::be(4) };
                    insert(&mut b, &name, 1000 * n, prio, At::Tail);
                    if real_time {
                        waits.push((name, waits.len() as u64));
                    }
                }
                2 => {
                    if let Dispatch::Issue(id) = b.dispatch() {
                        assert!((out.len() as u64) < limit);
                        let name = b.name(id);
                        if let Some(at) = waits.iter().position(|w| w.0 == name) {
                            waits.remove(at);
                        }
                        for w in &mut waits {
                            assert!(w.1 > 0, "{name} goes before {}, which is older", w.0);
                            w.1 -= 1;
                        }
                        out.push(name);
                    }
                }
                _ => {
                    if let Some(name) = out.pop() {
                        b.done(&name);
                    }
                }
            }
        }
    }
}
