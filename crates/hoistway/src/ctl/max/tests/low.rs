//! `io.low`: what each state allows, when the device changes its state, who is idle. Ticks of 4 ms, slices
//! of 20 ms.

use super::super::*;
use super::rig::{KIB, Rig};
use crate::unit::QueueId;
use alloc::string::ToString;
use alloc::vec::Vec;

const ROOT: GroupId = GroupId::ROOT;
/// `latency` and `idle` of a group that must not look idle.
const KEEN: &str = "idle=1000000 latency=0";

fn rig() -> Rig {
    Rig::with(1, IoMax::with_low)
}

fn low(rig: &mut Rig, group: GroupId, line: &str) {
    let (now, line) = (rig.now(), format!("8:0 {line}"));
    rig.ctl.write_knob(now, group, "io.low", &line, &mut rig.env.cx()).unwrap();
}

fn at_max(rig: &Rig) -> bool {
    rig.ctl.low.as_ref().unwrap().at_max
}

/// I/Os of a group that have passed.
fn passed(rig: &Rig, group: GroupId) -> usize {
    rig.passed.iter().filter(|p| p.group == group).count()
}

#[test]
fn a_low_device_holds_everybody_to_the_low_limits_and_others_to_little() {
    let mut rig = rig();
    let [a, b] = [rig.group(ROOT, ""), rig.group(ROOT, "")];
    low(&mut rig, a, &format!("rbps=4096000 {KEEN}"));
    // 81 920 bytes per slice; 10 I/Os per second are none in a slice of 20 ms.
    rig.reads(a, 30, 4 * KIB);
    rig.reads(b, 1, 4 * KIB);
    assert_eq!((passed(&rig, a), passed(&rig, b)), (20, 0));
    // The other one gets its tenth of a second, if the device stays LOW so long.
    rig.ctl.low.as_mut().unwrap().looked = u64::MAX / 2;
    rig.run_to(19);
    assert_eq!(passed(&rig, b), 0);
    rig.run_to(20);
    assert_eq!(passed(&rig, b), 1);
    assert!(!at_max(&rig));
}

#[test]
fn the_device_goes_to_max_when_all_have_reached_their_limits_and_then_gives_more_and_more() {
    let mut rig = rig();
    let [a, b] = [rig.group(ROOT, ""), rig.group(ROOT, "")];
    for g in [a, b] {
        low(&mut rig, g, &format!("riops=500 {KEEN}"));
    }
    rig.reads(a, 3000, 4 * KIB);
    rig.run_to(3);
    assert!(!at_max(&rig), "b has not said anything, but what it lacks is not known to be unused");
    rig.reads(b, 3000, 4 * KIB);
    // Ten per slice each, until both have some queued at a look a slice after the settings.
    rig.run_to(6);
    assert!(at_max(&rig));
    // Scale s after s slices: 10 (1 + s / 2).
    let mut per_slice = Vec::new();
    for slice in 0..4 {
        let before = passed(&rig, a);
        let from = rig.tick;
        rig.run_to(from + 5);
        // New submissions make the scale grow.
        rig.reads(a, 1, 4 * KIB);
        rig.reads(b, 1, 4 * KIB);
        per_slice.push(passed(&rig, a) - before);
        assert!(at_max(&rig), "slice {slice}");
    }
    assert!(per_slice.is_sorted() && per_slice[3] > per_slice[0] + 10, "{per_slice:?}");
}

#[test]
fn a_silent_group_does_not_keep_the_device_low() {
    let mut rig = rig();
    let [a, b] = [rig.group(ROOT, ""), rig.group(ROOT, "")];
    low(&mut rig, a, &format!("riops=500 {KEEN}"));
    low(&mut rig, b, "riops=500 idle=1000 latency=0");
    // b has spoken, and is silent for four times its idle time.
    rig.reads(b, 1, 4 * KIB);
    rig.reads(a, 100, 4 * KIB);
    rig.run_to(20);
    assert!(at_max(&rig));
}

#[test]
fn a_group_that_falls_short_takes_the_surplus_back_by_halves() {
    let mut rig = rig();
    let [a, b] = [rig.group(ROOT, ""), rig.group(ROOT, "")];
    for g in [a, b] {
        low(&mut rig, g, &format!("riops=500 {KEEN}"));
        rig.reads(g, 1000, 4 * KIB);
    }
    rig.run_to(6);
    assert!(at_max(&rig));
    // b is served; a has nothing to do and counts as short, since it is not idle by its settings.
    rig.reads(a, 1, 4 * KIB);
    rig.run_to(300);
    let scale = |rig: &Rig| rig.ctl.low.as_ref().unwrap().scale();
    let mut scales = Vec::new();
    while at_max(&rig) {
        let next = rig.tick + 5;
        rig.run_to(next);
        rig.reads(b, 1, 4 * KIB);
        scales.push(scale(&rig));
        assert!(scales.len() < 20, "{scales:?}");
    }
    assert!(scales.windows(2).filter(|w| w[1] > w[0]).count() < 4, "{scales:?}");
    assert_eq!(scales.last(), Some(&0));
    assert_eq!(rig.ctl.low.as_ref().unwrap().upgrades, 1);
}

/// A request of the group that took so long is over.
fn complete(rig: &mut Rig, group: GroupId, ms: u64) {
    let now = rig.now();
    let then = Instant::from_nanos(now.as_nanos() - ms * 1_000_000);
    let io =
        crate::request::Io { group, ..crate::request::Io::read(0, crate::group::ProcId(0), 0, 8) };
    let bio = rig.env.requests.store_bio(io, then);
    rig.env.requests.bio_mut(bio).entered = then;
    let id = rig.env.requests.add(bio, then, then, true, QueueId(0)).unwrap();
    rig.env.requests.get_mut(id).issued = then;
    rig.ctl.complete(now, id, &mut rig.env.cx());
    rig.env.requests.remove(id);
}

#[test]
fn a_group_with_slow_ios_is_not_idle_and_one_with_few_is() {
    for (slow, upgrade) in [(1, true), (3, false)] {
        let mut rig = rig();
        let [a, b] = [rig.group(ROOT, ""), rig.group(ROOT, "")];
        low(&mut rig, a, &format!("riops=500 {KEEN}"));
        low(&mut rig, b, "riops=500 idle=1000000 latency=1000");
        // Of ten I/Os of b so many are slower than a millisecond; none says what is usual.
        for i in 0..10 {
            rig.reads(b, 1, 4 * KIB);
            complete(&mut rig, b, if i < slow { 2 } else { 0 });
        }
        rig.reads(a, 100, 4 * KIB);
        rig.run_to(6);
        assert_eq!(at_max(&rig), upgrade, "{slow} of 10");
    }
}

#[test]
fn base_latencies_are_measured_once_a_second_and_grow_with_the_size() {
    let mut rig = rig();
    let a = rig.group(ROOT, "");
    low(&mut rig, a, &format!("riops=500 {KEEN}"));
    for _ in 0..32 {
        complete(&mut rig, a, 3);
    }
    let bases = |rig: &Rig| rig.ctl.low.as_ref().unwrap().base_latencies();
    // The clock stands far behind the first period: the first completion began one.
    assert_eq!(bases(&rig)[0], [0; 9]);
    rig.run_to(250);
    complete(&mut rig, a, 3);
    assert_eq!(bases(&rig)[0], [3_000_000; 9], "larger sizes are at least as slow");
    assert_eq!(bases(&rig)[1], [0; 9]);
}

#[test]
fn the_file_keeps_inert_settings_and_refuses_nonsense() {
    let mut rig = rig();
    let g = rig.group(ROOT, "");
    let read = |rig: &mut Rig| {
        let mut out = String::new();
        rig.ctl.read_knob(g, "io.low", &rig.env.cx(), &mut out);
        out
    };
    assert_eq!(read(&mut rig), "");
    low(&mut rig, g, "rbps=10485760 wbps=10485760");
    let inert = "8:0 rbps=10485760 wbps=10485760 riops=0 wiops=0 idle=0 latency=max\n";
    assert_eq!(read(&mut rig), inert);
    assert!(!rig.ctl.low_is_active());
    rig.reads(g, 1000, 64 * KIB);
    assert_eq!(rig.passed.len(), 1000, "stored, but without effect");
    low(&mut rig, g, "latency=100 idle=1000");
    assert!(rig.ctl.low_is_active());
    let now = rig.now();
    for line in ["rbps=0", "rbps=1", "idle=-1", "burst=3", "latency", "rbps=5 foo=3"] {
        let line = format!("8:0 {line}");
        let error = rig.ctl.write_knob(now, g, "io.low", &line, &mut rig.env.cx()).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
    let kept = "8:0 rbps=10485760 wbps=10485760 riops=0 wiops=0 idle=1000 latency=100\n";
    assert_eq!(read(&mut rig), kept);
    // Every rate is capped by that of io.max.
    rig.write(g, "riops=10");
    rig.passed.clear();
    rig.reads(g, 10, 4 * KIB);
    assert!(rig.passed.len() < 2, "{}", rig.passed.len());
    low(&mut rig, g, "idle=0");
    assert!(!rig.ctl.low_is_active());
}
