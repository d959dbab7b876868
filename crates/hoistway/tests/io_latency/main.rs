//! io.latency: the conformance scenarios of specs/io-latency.md section 10, and what follows from them.
//!
//! Q = 64; groups are children of the root; times are ms after a zero before which the clock has run for a
//! second. Scenarios 2, 3, 7 and 16 are tests of the arithmetic beside it (`ctl/latency/node.rs`).

mod random;
mod rig;

use hoistway::knob::KnobErrorKind;
use hoistway::trace::{Event, Trace};
use hoistway::{Flags, Nanos};
use rig::{Rig, START_MS};

/// A misses at 100 ms, 600 ms, ... so often; `then` after each.
fn misses(rig: &mut Rig, times: u64, mut then: impl FnMut(&mut Rig, u64)) {
    for k in 0..times {
        rig.window("a", 100 + 500 * k, 0, 1);
        then(rig, k);
    }
}

#[test]
fn s1_the_window_is_16_targets_within_its_bounds() {
    let mut rig = Rig::on(|d| d.rotational = true);
    rig.add("a");
    let mut window = |us| {
        rig.target("a", us);
        rig.stat("a")
    };
    assert_eq!(window(10), " depth=max avg_lat=0 win=100");
    assert_eq!(window(20_000), " depth=max avg_lat=0 win=320");
    assert_eq!(window(100_000), " depth=max avg_lat=0 win=1000");
}

#[test]
fn s4_depth_halves_to_1_and_then_the_delay_is_used() {
    let mut rig = Rig::with("a=5ms c");
    rig.io("c", 1);
    let mut seen = Vec::new();
    misses(&mut rig, 8, |rig, _| {
        rig.io("c", 1);
        seen.push((rig.depth("c"), rig.use_delay("c")));
    });
    let expected = [32, 16, 8, 4, 2, 1, 1, 1].map(|d: u32| d.to_string());
    assert_eq!(seen.iter().map(|s| s.0.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(rig.stat("c"), " use_delay=2 delay_nsec=0 missed=0 total=0 depth=1");
}

#[test]
fn s5_the_delay_is_taken_back_before_the_depth_grows() {
    let mut rig = Rig::with("a=5ms c");
    rig.io("c", 1);
    misses(&mut rig, 8, |rig, _| rig.io("c", 1));
    // 19 steps of 1 to a gap of 64, then 16 of 4 to the base.
    let mut seen = Vec::new();
    for k in 8..43 {
        rig.window("a", 100 + 500 * k, 5, 0);
        rig.io("c", 1);
        seen.push((rig.depth("c"), rig.use_delay("c")));
    }
    assert_eq!(seen[..3], [("1".into(), 1), ("1".into(), 0), ("5".into(), 0)]);
    let depths: Vec<&str> = seen[3..18].iter().map(|s| &*s.0).collect();
    let expected =
        ["9", "13", "17", "21", "25", "29", "33", "37", "41", "45", "49", "53", "57", "61", "64"];
    assert_eq!(depths, expected);
    assert!(seen[18..34].iter().all(|s| s.0 == "64"));
    assert_eq!((rig.cookie(), &*seen[34].0), (1_000_000, "max"));
}

#[test]
fn s5_at_the_base_all_limits_go_at_once() {
    let mut rig = Rig::with("a=5ms c");
    rig.io("c", 1);
    misses(&mut rig, 8, |rig, _| rig.io("c", 1));
    rig.target("a", 6000);
    assert_eq!((rig.use_delay("c"), rig.depth("c")), (2, "1".into()));
    rig.io("c", 1);
    assert_eq!((rig.use_delay("c"), rig.depth("c")), (0, "max".into()));
}

#[test]
fn s6_one_step_per_io_however_far_the_cookie_moved() {
    let mut rig = Rig::with("a=5ms b");
    rig.io("b", 1);
    misses(&mut rig, 3, |_, _| {});
    assert_eq!(rig.cookie(), 999_952);
    rig.io("b", 1);
    assert_eq!(rig.depth("b"), "32");
    rig.io("b", 1);
    assert_eq!(rig.depth("b"), "32");
}

/// The times and samples of the decisions whose name begins so.
fn decisions(rig: &Rig, name: &str) -> Vec<(u64, i64)> {
    let of = |r: &hoistway::trace::Record| match r.event {
        Event::Why(w) if w.what.starts_with(name) => Some((r.at.as_nanos() / 1_000_000, w.b)),
        _ => None,
    };
    rig.env.trace.records().iter().filter_map(of).map(|(at, n)| (at - START_MS, n)).collect()
}

#[test]
fn s8_decisions_are_500_ms_apart_and_cover_all_windows_since_the_last() {
    let mut rig = Rig::with("a=5ms");
    rig.env.trace = Trace::keep(1000);
    for k in 1..=12 {
        rig.window("a", 100 * k, 0, 2);
    }
    assert_eq!(decisions(&rig, "io.latency: cookie down"), [(100, 2), (600, 10), (1100, 10)]);
    assert_eq!(rig.cookie(), 999_952);
}

/// A (5 ms) and B (10 ms), which had so many I/Os each when A's second miss was noticed; C has no target.
fn two_targets(of_a: usize, of_b: usize) -> Rig {
    let mut rig = Rig::with("a=5ms b=10ms c");
    rig.io("c", 1);
    rig.io("b", 1);
    rig.window("a", 100, 0, 2);
    rig.batch("a", of_a - 1, 20_000);
    // B sees the lower cookie while it counts as small, and is counted from now on.
    rig.window("b", 250, of_b - 1, 0);
    rig.window("a", 600, 0, 1);
    rig
}

#[test]
fn s9_looser_and_targetless_siblings_are_reduced_the_victim_is_not() {
    let mut rig = two_targets(60, 40);
    for group in ["a", "b", "c"] {
        rig.io(group, 1);
    }
    assert_eq!([rig.depth("a"), rig.depth("b"), rig.depth("c")], ["max", "32", "32"]);
    rig.io("a", 1);
    assert_eq!(rig.depth("a"), "max", "it has stored the cookie");
}

#[test]
fn s10_a_group_with_a_target_and_little_io_is_spared() {
    let mut rig = two_targets(96, 4);
    rig.io("b", 1);
    rig.io("c", 1);
    assert_eq!([rig.depth("b"), rig.depth("c")], ["max", "32"]);
    rig.io("b", 1);
    assert_eq!(rig.depth("b"), "max", "in this step it is");
    let mut rig = two_targets(96, 7);
    rig.io("b", 1);
    assert_eq!(rig.depth("b"), "32", "7 of 103 are more than 5 %");
}

#[test]
fn s11_a_looser_group_does_not_scale_down_beside_a_stricter_victim() {
    let mut rig = Rig::with("a=5ms b=10ms c");
    rig.window("a", 100, 0, 1);
    rig.window("b", 700, 0, 1);
    assert_eq!(rig.cookie(), 999_984, "only on behalf of A");

    let mut rig = Rig::with("a=5ms b=10ms c");
    rig.io("c", 1);
    // A has I/O too, else it would be spared for being small.
    rig.batch("a", 8, 1);
    rig.window("b", 200, 0, 9);
    rig.window("a", 300, 1, 0);
    rig.window("b", 700, 0, 9);
    assert_eq!(rig.cookie(), 999_968);
    rig.io("a", 1);
    rig.io("c", 1);
    assert_eq!([rig.depth("a"), rig.depth("b"), rig.depth("c")], ["max", "max", "32"]);
}

#[test]
fn s12_the_stricter_victim_takes_over_and_only_it_scales_up() {
    let mut rig = Rig::with("a=5ms b=10ms");
    rig.window("b", 200, 0, 1);
    assert_eq!(rig.cookie(), 999_984);
    rig.window("a", 700, 0, 1);
    assert_eq!(rig.cookie(), 999_968);
    rig.window("b", 1300, 20, 0);
    assert_eq!(rig.cookie(), 999_968, "B is no longer the victim");
    rig.window("a", 1450, 4, 0);
    assert_eq!(rig.cookie(), 999_968, "too few samples; they are kept");
    rig.window("a", 1600, 1, 0);
    assert_eq!(rig.cookie(), 999_972);
    rig.window("a", 2000, 50, 0);
    assert_eq!(rig.cookie(), 999_972, "too soon");
    rig.window("a", 2100, 5, 0);
    assert_eq!(rig.cookie(), 999_976);
}

/// Also: io.latency restores the depth when the victim is quiet.
#[test]
fn s13_a_quiet_victim_is_forgotten_after_5_s_and_the_depth_returns() {
    let mut rig = Rig::with("a=5ms c");
    rig.env.trace = Trace::keep(1000);
    rig.io("c", 1);
    misses(&mut rig, 3, |rig, _| rig.io("c", 1));
    assert_eq!(rig.depth("c"), "8");
    let mut fired = Vec::new();
    let mut cookies = Vec::new();
    for ms in (1200..25_000).step_by(7) {
        rig.at_ms(ms);
        if rig.tick() {
            fired.push(ms);
            cookies.push(rig.cookie());
        }
        rig.io("c", 1);
    }
    assert!(fired.windows(2).all(|w| w[1] - w[0] >= 1000), "{fired:?}");
    let forgotten = decisions(&rig, "io.latency: victim forgotten");
    let at = forgotten[0].0;
    assert!(forgotten.len() == 1 && (6100..7300).contains(&at), "{forgotten:?}");
    // Silence first, then a step of Q/16 per firing to the base.
    let steps: Vec<i64> = cookies.windows(2).map(|w| w[1] - w[0]).filter(|&d| d != 0).collect();
    assert_eq!(steps, [4; 12]);
    assert_eq!((rig.cookie(), rig.depth("c")), (1_000_000, "max".into()));
}

#[test]
fn s14_a_swap_write_passes_and_its_group_pays_with_delay() {
    let mut rig = Rig::with("a=5ms b=10ms c");
    rig.io("c", 1);
    for k in 0..8 {
        rig.window("a", 200 + 500 * k, 0, 4);
        for group in ["b", "c"] {
            rig.io(group, 1);
        }
        // B's window ends: it had 4 I/Os.
        rig.at_ms(400 + 500 * k);
        (0..3).for_each(|_| rig.io("b", 1));
    }
    for group in ["b", "c"] {
        assert_eq!(rig.depth(group), "1", "{group}");
        assert!(rig.submit(group) && !rig.submit(group), "one passes, one waits");
        let before = rig.gauge("delay", group);
        assert!(rig.submit_with(group, Flags::SWAP), "{group}: not limited");
        let swap = rig.last();
        assert_eq!(rig.gauge("inflight", group), 2);
        rig.wait_us(2000);
        rig.complete(swap);
        let grown = rig.gauge("delay", group) - before;
        assert_eq!(grown, if group == "b" { 8_000_000 } else { 0 }, "{group}");
        assert_eq!((rig.gauge("inflight", group), rig.held(group)), (1, 1));
    }
    assert!(rig.use_delay("b") > 0);
    assert_eq!(rig.sleep("b"), Nanos::ms(8));
    assert_eq!(rig.sleep("b"), Nanos::ZERO, "the look is forgotten");
    // With an unlimited depth it is sampled as any other.
    rig.io("a", 1);
    let total = rig.gauge("total", "a");
    assert!(rig.submit_with("a", Flags::META));
    rig.wait_us(100);
    rig.complete(rig.last());
    assert_eq!((rig.gauge("total", "a") - total, rig.gauge("delay", "a")), (1, 0));
}

#[test]
fn s15_an_io_holds_a_slot_in_every_group_of_its_path() {
    let mut rig = Rig::with("w=5ms v w/x w/y");
    rig.io("v", 1);
    rig.io("w/y", 1);
    assert!(rig.submit("w/x"));
    assert_eq!((rig.gauge("inflight", "w/x"), rig.gauge("inflight", "w")), (1, 1));
    rig.complete(rig.last());
    assert_eq!((rig.gauge("inflight", "w/x"), rig.gauge("inflight", "w")), (0, 0));
    rig.window("w/x", 100, 0, 3);
    rig.io("v", 1);
    rig.io("w/y", 1);
    assert_eq!([rig.depth("v"), rig.depth("w/y"), rig.depth("w/x")], ["32", "max", "max"]);
    rig.at_ms(150);
    rig.io("w/x", 10);
    assert_eq!(rig.stat("w"), " missed=0 total=2 depth=max", "the window's own, y's among them");
    assert_eq!(rig.stat("w/x"), " missed=0 total=0 depth=max");
}

/// Means of 200 ms, then of 60 ms, for a target of 100 ms.
fn rotational(means_ms: &[u64], set: &[(&str, u64)]) -> Rig {
    let mut rig = Rig::on(|d| d.rotational = true);
    set.iter().for_each(|&(name, value)| rig.set(name, value));
    rig.add("a=100ms");
    rig.env.trace = Trace::keep(1000);
    for (k, mean) in (1..).zip(means_ms) {
        rig.at_ms(1000 * k - mean);
        let ios: Vec<u64> = (0..6).map(|_| rig.start_free("a")).collect();
        rig.finish_at(1000 * k, &ios);
    }
    rig
}

#[test]
fn s17_on_a_rotational_device_the_last_window_alone_decides() {
    let mut rig = rotational(&[200, 60], &[]);
    assert_eq!(decisions(&rig, "io.latency: cookie down"), [(1000, 6)]);
    assert_eq!(decisions(&rig, "io.latency: cookie up"), [(2000, 6)]);
    assert_eq!(rig.cookie(), 999_988);
}

#[test]
fn the_true_mean_remembers_the_windows_since_the_last_decision() {
    // The second window is too close to the first decision and is judged with the third.
    let means = [200, 200, 60];
    let mut exact = rotational(&means, &[("decision_distance", 1500)]);
    assert_eq!(exact.cookie(), 999_988, "down, then up");
    let mut better = rotational(&means, &[("decision_distance", 1500), ("true_mean", 1)]);
    assert_eq!(better.cookie(), 999_968, "130 ms on average: down twice");
}

#[test]
fn s18_a_changed_target_resets_the_parent() {
    let mut rig = Rig::with("a=5ms b");
    rig.io("b", 1);
    misses(&mut rig, 3, |_, _| {});
    rig.io("b", 1);
    assert_eq!((rig.cookie(), rig.depth("b")), (999_952, "32".into()));
    rig.target("a", 5000);
    assert_eq!(rig.cookie(), 999_952, "the same value changes nothing");
    rig.target("a", 6000);
    assert_eq!((rig.cookie(), rig.depth("b")), (1_000_000, "32".into()));
    rig.io("b", 1);
    assert_eq!(rig.depth("b"), "max");
}

#[test]
fn s19_a_merged_io_holds_no_slot_and_is_not_sampled() {
    let mut rig = Rig::with("a=5ms");
    assert!(rig.submit("a"));
    let (io, (req, group)) = rig.flying.pop_first().unwrap();
    let end = rig.env.requests[req].end();
    let more = hoistway::Io { group, ..hoistway::Io::read(999, rig.proc("a"), end.0, 8) };
    let bio = rig.env.requests.add_bio(more, rig.now).unwrap();
    rig.env.requests.join_bio(req, bio, hoistway::request::Side::Back);
    rig.ctl.merged(rig.now, bio, req, &mut rig.env.cx());
    assert_eq!(rig.gauge("inflight", "a"), 1);
    rig.flying.insert(io, (req, group));
    rig.wait_us(10);
    rig.complete(io);
    assert_eq!((rig.gauge("inflight", "a"), rig.gauge("total", "a")), (0, 1));
}

#[test]
fn s20_without_a_target_nothing_is_limited_or_counted() {
    let mut rig = Rig::with("a b");
    for _ in 0..10_000 {
        assert!(rig.submit("b"));
    }
    assert_eq!((rig.gauge("inflight", "b"), rig.ctl.next_timer()), (0, None));
    // Those are not counted when they end either, and those of after are.
    rig.target("a", 5000);
    assert!(rig.submit("b"));
    assert_eq!(rig.gauge("inflight", "b"), 1);
    assert!(rig.ctl.next_timer().is_some());
    rig.complete_all("b");
    assert_eq!(rig.gauge("inflight", "b"), 0);
}

/// C is at depth 1 with one in flight and `waiting` behind it.
fn squeezed(waiting: usize) -> Rig {
    let mut rig = Rig::with("a=5ms c");
    rig.io("c", 1);
    misses(&mut rig, 7, |rig, _| rig.io("c", 1));
    assert!(rig.submit("c"));
    for _ in 0..waiting {
        assert!(!rig.submit("c"));
    }
    rig
}

#[test]
fn a_slot_goes_to_the_first_waiter_and_a_newcomer_waits_behind_the_last() {
    let mut rig = squeezed(3);
    let first = rig.last() - 3;
    rig.complete(first);
    assert_eq!(rig.released, [first + 1]);
    assert!(!rig.submit("c"));
    for io in 1..=4 {
        rig.complete(first + io);
    }
    assert_eq!(rig.released, [1, 2, 3, 4].map(|n| first + n));
    assert_eq!(rig.gauge("inflight", "c"), 0);
}

/// Scenario 21.
#[test]
fn s21_switched_off_what_waits_goes_on_slot_by_slot() {
    let mut rig = squeezed(5);
    let first = rig.last() - 4;
    rig.write("a", "8:0 target=max").unwrap();
    assert_eq!((rig.released.len(), rig.depth("c")), (0, "1".into()));
    assert!(!rig.ctl.congested(rig.id("c"), &rig.env.cx()));
    rig.complete(first - 1);
    assert_eq!(rig.released, [first]);
    for io in 0..5 {
        rig.complete(first + io);
    }
    assert_eq!((rig.gauge("inflight", "c"), rig.depth("c")), (0, "1".into()));
    // Now it is off: nothing is counted, and the depth stays until it is on again.
    assert!(rig.submit("c") && rig.submit("c"));
    assert_eq!((rig.gauge("inflight", "c"), rig.depth("c")), (0, "1".into()));
    rig.complete_all("c");
    rig.target("a", 5000);
    assert!(rig.submit("c") && rig.submit("c"));
    assert_eq!((rig.gauge("inflight", "c"), rig.depth("c")), (2, "max".into()));
}

/// An I/O that comes while others wait still sees that the cookie is up.
#[test]
fn switched_off_the_next_io_lets_those_before_it_go() {
    let mut rig = squeezed(5);
    let first = rig.last() - 4;
    rig.write("a", "8:0 target=max").unwrap();
    assert!(rig.submit("c"));
    assert_eq!(rig.released, [0, 1, 2, 3, 4, 5].map(|n| first + n));
    rig.complete_all("c");
    assert_eq!(rig.gauge("inflight", "c"), 0);
}

/// Scenario 22.
#[test]
fn s22_what_waits_in_a_removed_group_goes_on_slot_by_slot() {
    let mut rig = squeezed(3);
    let first = rig.last() - 2;
    rig.remove("c");
    assert_eq!(rig.released, []);
    for io in 0..3 {
        rig.complete(first + io - 1);
        assert_eq!(rig.released, (first..=first + io).collect::<Vec<_>>());
    }
    assert!(rig.write("c", "8:0 target=5").is_err());
}

/// Scenario 23: Linux 6.1 knows no group that has had neither I/O nor a target.
#[test]
fn s23_an_unused_group_that_is_removed_changes_nothing() {
    let mut rig = squeezed(1);
    rig.group("b");
    let cookie = rig.cookie();
    rig.remove("b");
    assert_eq!((rig.cookie(), rig.depth("c"), rig.held("c")), (cookie, "1".into(), 1));
    assert!(rig.submit("b"), "what was made in it before may still come");
    assert!(rig.write("b", "8:0 target=5").is_err());
}

/// What was made before the group went, such as the rest of a split bio.
#[test]
fn io_of_a_removed_group_takes_the_slots_of_its_path() {
    let mut rig = Rig::with("a=5ms w w/c w/d");
    rig.io("w/c", 1);
    misses(&mut rig, 7, |rig, _| rig.io("w/c", 1));
    assert_eq!([rig.depth("w"), rig.depth("w/c")], ["1", "max"]);
    assert!(rig.submit("w/c") && !rig.submit("w/c"));
    rig.remove("w/c");
    assert_eq!(rig.held("w/c"), 1, "it waits for a slot of w");
    assert!(!rig.submit("w/c"));
    assert_eq!(rig.gauge("waiters", "w"), 2);
    for _ in 0..3 {
        rig.complete_all("w/c");
    }
    assert_eq!((rig.gauge("inflight", "w"), rig.held("w/c")), (0, 0));
    // The end of a victim lifts what was done for its sake.
    rig.remove("a");
    assert_eq!(rig.cookie(), 1_000_000);
    assert!(rig.submit("w/d") && rig.submit("w/d"), "switched off");
}

#[test]
fn the_io_of_a_dying_task_and_metadata_do_not_wait() {
    let mut rig = squeezed(1);
    assert!(rig.submit_with("c", Flags::META));
    let proc = rig.proc("c");
    rig.env.procs.get_mut(proc).unwrap().alive = false;
    assert!(rig.submit("c"));
    assert_eq!((rig.gauge("inflight", "c"), rig.held("c")), (3, 1));
}

#[test]
fn a_group_under_delay_and_those_below_it_are_congested() {
    let mut rig = Rig::with("a=5ms w w/c");
    rig.io("w/c", 1);
    let congested = |rig: &mut Rig, name| rig.ctl.congested(rig.id(name), &rig.env.cx());
    misses(&mut rig, 6, |rig, _| rig.io("w/c", 1));
    assert!(!congested(&mut rig, "w"), "depth 1 is no delay");
    rig.window("a", 3100, 0, 1);
    rig.io("w/c", 1);
    assert!(congested(&mut rig, "w") && congested(&mut rig, "w/c") && !congested(&mut rig, "a"));
}

#[test]
fn from_boot_nothing_is_decided_in_the_first_500_ms() {
    let mut rig = Rig::new();
    rig.now = hoistway::Instant::ZERO;
    rig.set("from_boot", 1);
    rig.add("a=5ms");
    let io = |rig: &mut Rig, ms| {
        assert!(rig.submit("a"));
        rig.now = hoistway::Instant::ZERO + Nanos::ms(ms);
        rig.complete(rig.last());
        rig.cookie()
    };
    assert_eq!([499, 600].map(|ms| io(&mut rig, ms)), [1_000_000, 999_984]);
}

/// Scenario 14 of specs/groups-and-priorities.md, and the refusals of 6.0 and 6.5.
#[test]
fn lines_are_read_and_printed_as_the_kernels() {
    let mut rig = Rig::with("a");
    assert_eq!(rig.read("a"), "");
    rig.write("a", "8:0 target=10\n").unwrap();
    assert_eq!(rig.read("a"), "8:0 target=10\n");
    for (line, kind, part) in [
        ("8:0 target=10  ", KnobErrorKind::Invalid, "exactly one blank"),
        ("8:0 target=10 ", KnobErrorKind::Invalid, "exactly one blank"),
        ("8:0 target=10  target=20", KnobErrorKind::Invalid, "exactly one blank"),
        ("8:0 latency=10", KnobErrorKind::Invalid, "'latency'"),
        ("8:0 target=20 idle=1", KnobErrorKind::Invalid, "'idle'"),
        ("8:0 target=-1", KnobErrorKind::Invalid, "'-1'"),
        ("8:0 target=", KnobErrorKind::Invalid, "''"),
        ("8:0 target", KnobErrorKind::Invalid, "'target'"),
        ("8:0 max", KnobErrorKind::Invalid, "'max'"),
        ("8:0", KnobErrorKind::Invalid, "8:0"),
        ("8:0 ", KnobErrorKind::Invalid, "blank"),
        ("8:0 target=18446744073709551616", KnobErrorKind::Range, "18446744073709551616"),
        ("8:0 target=18446744073709552", KnobErrorKind::Range, "18446744073709551"),
        ("8:16 target=5", KnobErrorKind::NoDevice, "8:16"),
        ("target=5", KnobErrorKind::Invalid, "target=5"),
    ] {
        let error = rig.write("a", line).unwrap_err();
        assert_eq!(error.kind, kind, "{line:?}");
        assert!(error.what.contains(part), "{line:?}: {}", error.what);
        assert_eq!(rig.read("a"), "8:0 target=10\n", "{line:?} changes nothing");
    }
    rig.write("a", "8:0 target=5 target=20").unwrap();
    assert_eq!(rig.read("a"), "8:0 target=20\n", "the last one counts");
    rig.write("a", "8:0 target=max").unwrap();
    assert_eq!(rig.read("a"), "");
    rig.write("a", "8:0 target=0").unwrap();
    assert_eq!(rig.read("a"), "");
    assert_eq!(rig.write("/", "8:0 target=5").unwrap_err().kind, KnobErrorKind::Unsupported);
}
