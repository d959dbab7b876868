//! C40 to C42: queues are merged and split.

use super::rig::Rig;
use crate::group::ProcId;
use crate::sched::bfq::idle::HwTag;
use crate::sched::bfq::queue::past::Past;
use crate::sched::bfq::wf2q::ROOT;
use crate::unit::{IoPrio, Nanos};

/// A in service, its last request ending at 1000256; B has one far request pending.
fn near(mut rig: Rig) -> (Rig, ProcId, ProcId) {
    rig.set("queue_merge", 1);
    let [a, b] = rig.procs();
    rig.read(a, 1_000_000, 256);
    rig.issue();
    rig.read(b, 1_002_000, 8);
    assert_ne!(rig.q(a), rig.q(b), "A was the only busy queue");
    (rig, a, b)
}

#[test]
fn c40_interleaved_readers_of_a_disk_share_a_queue() {
    let (mut rig, a, b) = near(Rig::hdd());
    rig.read(b, 1_002_100, 8);
    assert_eq!(rig.q(a), rig.q(b));
    assert!(rig.queue(a).coop.shared);
    assert_eq!((rig.queue(a).life.users, rig.queue(a).rqs.queued), (2, 1));
    rig.sched.check();

    let (mut rig, a, b) = near(Rig::ssd());
    rig.read(b, 1_002_100, 8);
    assert_ne!(rig.q(a), rig.q(b), "never on flash");

    let (mut rig, a, b) = near(Rig::hdd());
    rig.at_ms(150);
    rig.read(b, 1_002_100, 8);
    assert_ne!(rig.q(a), rig.q(b), "A has been served for too long");
}

#[test]
fn c40_readers_further_apart_than_8192_sectors_keep_their_queues() {
    for (distance, merged) in [(8_192, true), (8_193, false)] {
        let (mut rig, a, b) = near(Rig::hdd());
        rig.read(b, 1_000_256 + distance, 8);
        assert_eq!(rig.q(a) == rig.q(b), merged);
    }
}

#[test]
fn c40_the_next_request_of_a_waiting_queue_counts_too() {
    let mut rig = Rig::hdd();
    rig.set("queue_merge", 1);
    let [a, b, c] = rig.procs();
    rig.read(a, 1_000, 256);
    rig.issue();
    rig.read(b, 50_000_000, 8);
    rig.read(c, 90_000_000, 8);
    rig.read(c, 50_008_000, 8);
    assert_eq!(rig.q(c), rig.q(b));
    rig.sched.check();
}

#[test]
fn c41_a_shared_queue_that_turns_seeky_is_split() {
    let (mut rig, a, b) = near(Rig::hdd());
    rig.read(b, 1_002_100, 8);
    rig.queue(a).seek.recall((1 << 20) - 1);
    let q = rig.q(a);
    let now = rig.now;
    rig.sched.expire(now, q, false, super::super::slot::Reason::Timeout, &mut rig.env.cx());
    assert!(rig.queue(a).coop.split_me);
    rig.read(b, 5_000_000, 8);
    assert_ne!(rig.q(a), rig.q(b));
    assert_eq!((rig.queue(b).coop.split_at, rig.queue(b).life.owner), (Past::at(rig.now), b));
    // The last context keeps it.
    rig.read(a, 6_000_000, 8);
    assert_eq!((rig.q(a), rig.queue(a).coop.shared, rig.queue(a).life.owner), (q, false, a));
    rig.sched.check();
}

/// Contexts of the same group and level create queues at those times, each done at once.
fn born<const N: usize>(mut rig: Rig, at_ms: [u64; N]) -> (Rig, [ProcId; N]) {
    rig.set("stable_merge", 1);
    let p = rig.procs();
    for (n, ms) in at_ms.into_iter().enumerate() {
        rig.at_ms(ms);
        rig.fire_timer_if_due();
        rig.read(p[n], (n as u64 + 1) << 24, 8);
    }
    (rig, p)
}

#[test]
fn c42_queues_born_together_on_flash_are_merged_at_once() {
    let (rig, p) = born(Rig::ssd(), [0, 50, 300, 700]);
    let q = p.map(|p| rig.q(p));
    assert_eq!(q[0], q[1]);
    assert!(q[2] != q[0] && q[3] != q[0] && q[3] != q[2]);
    assert_eq!(rig.sched.groups[ROOT].last_created, q[3]);
    rig.sched.check();
    let (mut rig, [a, b]) = born(Rig::ssd(), [0, 50]);
    // Such a queue is not split when it turns seeky.
    rig.queue(a).coop.split_me = true;
    rig.read(b, 1 << 28, 8);
    assert_eq!(rig.q(a), rig.q(b));
}

#[test]
fn c42_of_another_level_they_are_not() {
    let mut rig = Rig::ssd();
    rig.set("stable_merge", 1);
    let (a, b) = (rig.proc(IoPrio::be(4)), rig.proc(IoPrio::be(3)));
    rig.read(a, 1_000, 8);
    rig.read(b, 1 << 24, 8);
    assert_ne!(rig.q(a), rig.q(b));
}

#[test]
fn c42_on_a_disk_they_are_merged_later_unless_idling_pays() {
    for (bound, merged) in [(false, true), (true, false)] {
        let mut rig = Rig::sized(true, 2048);
        rig.sched.ncq.tag = HwTag::Yes;
        let (mut rig, [a, b]) = born(rig, [0, 50]);
        assert_ne!(rig.q(a), rig.q(b));
        rig.at_ms(651);
        rig.queue(b).intensity.bound = bound;
        rig.read(b, (2 << 24) + 8, 8);
        assert_eq!(rig.q(a) == rig.q(b), merged);
        rig.sched.check();
    }
}

#[test]
fn a_queue_restored_after_a_split_keeps_its_think_time_and_raising() {
    let mut rig = Rig::hdd();
    rig.set("low_latency", 1);
    rig.set("queue_merge", 1);
    let [a, b, c] = rig.procs();
    rig.read(a, 1_000, 256);
    rig.issue();
    rig.read(b, 50_000_000, 8);
    rig.read(c, 90_000_000, 8);
    let think = rig.queue(c).think.average.samples();
    assert_eq!(rig.ent(c).wr, 30);
    rig.read(c, 50_008_000, 8);
    assert_eq!(rig.q(c), rig.q(b));
    rig.queue(b).coop.split_me = true;
    rig.now += Nanos::ms(1);
    rig.read(c, 50_009_000, 8);
    assert_ne!(rig.q(c), rig.q(b));
    // One more sample was taken.
    let think = (7 * think + 256) / 8;
    assert_eq!((rig.queue(c).think.average.samples(), rig.ent(c).wr), (think, 30));
    rig.sched.check();
}
