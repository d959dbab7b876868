//! Conformance of `none` and `noop` as far as it concerns the scheduler alone
//! (specs/blk-mq-and-noop.md section 14).

use hoistway::request::Side;
use hoistway::sched::At;
use hoistway::testkit::scenario::{Bench, scenario};
use hoistway::{Device, Flags, GroupId, Io, IoPrio, Op, QueueId, Sectors};

fn find(b: &mut Bench, io: Io) -> Option<(String, Side)> {
    b.find_merge(&io).map(|(id, side)| (b.name(id), side))
}

#[test]
fn noop_serves_in_order_of_arrival() {
    scenario(
        "noop",
        &[],
        "0 w1@500 r1@100 w2@9
         1 x1 -> w1
         2 back:w1 r2@1 x5 -> w1 r1 w2 r2 -",
    );
}

#[test]
fn n2_noop_looks_for_no_front_merge() {
    let mut b = scenario("noop", &[], "0 w1@100 w2@500");
    let io = b.io("w9", 92, 8);
    assert_eq!(find(&mut b, io), None);
}

#[test]
fn n4_n5_noop_joins_neighbours_of_the_list_only() {
    let mut b = scenario("noop", &[], "0 wa@0 wx@900 wb@16");
    let (a, x, bb) = (b.id("wa"), b.id("wx"), b.id("wb"));
    assert_eq!(b.neighbour(a, Side::Back), Some(x));
    assert_eq!(b.neighbour(bb, Side::Front), Some(x));
    assert_eq!(b.neighbour(a, Side::Front), None);
    assert_eq!(b.neighbour(bb, Side::Back), None);
}

#[test]
fn a_request_joined_in_noop_leaves_the_list() {
    scenario("noop", &[], "0 wa@0 wb@8 wx@900 join:wa+wb x3 -> wa wx -");
}

#[test]
fn n4_deadline_names_the_neighbour_by_sector() {
    let mut b = scenario("deadline", &[], "0 wa@0 wx@900 wb@16");
    let io = b.io("w9", 8, 8);
    b.join_bio("wa", io, Side::Back);
    let a = b.id("wa");
    assert_eq!(b.neighbour(a, Side::Back), Some(b.id("wb")));
    b.join("wa", "wb");
    b.run("1 x3 -> wa wx -");
}

/// Requests on the given CPUs of a device with `queues` hardware queues.
fn software_queues(queues: u16, requests: &[(&str, u32)]) -> Bench {
    let mut device = Device::new(Sectors(1 << 30), 32);
    device.hw_queues = queues;
    let mut b = Bench::on(device, "none", &[]);
    for (i, &(name, cpu)) in requests.iter().enumerate() {
        let io = Io { cpu, ..b.io(name, 1000 * i as u64, 8) };
        b.insert(name, io, At::Tail);
    }
    b
}

fn all(b: &mut Bench, queue: u16) -> Vec<String> {
    let mut out = Vec::new();
    loop {
        match b.dispatch_for(queue) {
            end if end == "-" => return out,
            name => out.push(name),
        }
    }
}

#[test]
fn n14_an_idle_queue_is_emptied_cpu_by_cpu() {
    let mut b = software_queues(1, &[("a", 0), ("b", 0), ("c", 1)]);
    assert_eq!(all(&mut b, 0), ["a", "b", "c"]);
}

#[test]
fn n14_a_busy_queue_takes_turns() {
    let mut b = software_queues(1, &[("a", 0), ("b", 0), ("c", 1)]);
    b.env.runs.sent(QueueId(0), false);
    assert_eq!(all(&mut b, 0), ["a", "c", "b"]);
}

#[test]
fn a_busy_queue_goes_on_where_it_stopped() {
    let mut b = software_queues(1, &[("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", 2)]);
    b.env.runs.sent(QueueId(0), false);
    assert_eq!([b.dispatch_for(0), b.dispatch_for(0)], ["a", "c"]);
    let io = Io { cpu: 0, ..b.io("f", 9000, 8) };
    b.insert("f", io, At::Tail);
    assert_eq!(all(&mut b, 0), ["e", "b", "d", "f"]);
}

#[test]
fn a_hardware_queue_serves_its_own_cpus() {
    let mut b = software_queues(2, &[("a", 3), ("b", 2), ("c", 1), ("d", 0), ("e", 7)]);
    assert_eq!(all(&mut b, 1), ["c", "a", "e"]);
    assert_eq!(all(&mut b, 0), ["d", "b"]);
}

#[test]
fn a_requeued_request_of_none_goes_first_and_joins_nothing() {
    let mut b = software_queues(1, &[("a", 0), ("b", 1)]);
    b.run("1 x1 -> a");
    b.give_back("a");
    let io = b.io("z", 8, 8);
    assert_eq!(find(&mut b, io), None);
    b.run("2 x3 -> a b -");
}

#[test]
fn n15_a_bio_is_compared_with_the_newest_eight() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut b = software_queues(1, &names.map(|n| (n, 0)));
    let oldest = b.io("y", 8, 8);
    assert_eq!(find(&mut b, oldest), None);
    let second = b.io("z", 1008, 8);
    assert_eq!(find(&mut b, second), Some(("b".into(), Side::Back)));
    let front = b.io("z", 992, 8);
    assert_eq!(find(&mut b, front), Some(("b".into(), Side::Front)));
}

#[test]
fn a_bio_meets_requests_of_its_own_cpu_only() {
    let mut b = software_queues(1, &[("a", 0), ("b", 1)]);
    let mut io = Io { cpu: 1, ..b.io("z", 8, 8) };
    assert_eq!(find(&mut b, io), None);
    io.cpu = 0;
    assert_eq!(find(&mut b, io), Some(("a".into(), Side::Back)));
    io.cpu = 77;
    assert_eq!(find(&mut b, io), None);
}

#[test]
fn none_joins_equals_only() {
    let mut b = software_queues(1, &[("a", 0)]);
    let io = b.io("z", 8, 8);
    let different = [
        Io { op: Op::Write, ..io },
        Io { prio: IoPrio::be(2), ..io },
        Io { group: GroupId(1), ..io },
        Io { flags: Flags::NOMERGE, ..io },
        Io { flags: Flags::FUA, ..io },
        Io { flags: Flags::PREFLUSH, ..io },
        Io { op: Op::WriteZeroes, ..io },
    ];
    for io in different {
        assert_eq!(find(&mut b, io), None, "{io:?}");
    }
    assert!(find(&mut b, Io { flags: Flags::SYNC, ..io }).is_some());
}

#[test]
fn a_misfit_is_skipped_and_the_next_neighbour_found() {
    // Both end at sector 8; the newer one has another priority.
    let mut b = Bench::new("none", &[]);
    let io = b.io("a", 0, 8);
    b.insert("a", io, At::Tail);
    let io = Io { prio: IoPrio::be(1), ..b.io("b", 0, 8) };
    b.insert("b", io, At::Tail);
    let bio = b.io("z", 8, 8);
    assert_eq!(find(&mut b, bio), Some(("a".into(), Side::Back)));
}
