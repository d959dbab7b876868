//! Recordings of controllers: what they were asked, and when they let go.

use hoistway::unit::Nanos;
use hoistway_replay::control::Process;
use hoistway_replay::{Mistake, Outcome, Recorded, replay};

fn recording(controller: &str, lines: &str) -> String {
    format!(
        "event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments\n\
         device,,,,,,,,,,controller={controller} release=6.1 rotational=0 created_tick=0 tick_ns=4000000 \
         max_sectors=1024 max_segments=128 tags=64 noweights timers,\n{lines}"
    )
}

#[track_caller]
fn compared(controller: &str, lines: &str) -> Outcome {
    replay(&recording(controller, lines), &Recorded::linux_6_1()).unwrap_or_else(|e| panic!("{e}"))
}

/// Tick 4 of the recording is a multiple of a slice in the kernel's count.
const TICK: u64 = 4_000_000;

/// 12 reads of process 7 at tick 4 under 100 a second: 10 pass at once.
fn twelve_reads() -> String {
    let mut lines = format!("write,{},3,,,,,,,a,io.max DEV riops=100,\n", 3 * TICK);
    for n in 0..12 {
        let answer = if n < 10 { "pass" } else { "hold" };
        lines += &format!("enter,{},4,{n},7,{},8,R,,a,{answer},\n", 4 * TICK, 8 * n);
    }
    lines
}

fn passes(n: u64, tick: u64) -> String {
    format!("pass,{},{tick},{n},,,,,,,,\n", tick * TICK)
}

fn back(n: u64, tick: u64) -> String {
    format!("back,{},{tick},{n},,,,,,,,\n", tick * TICK)
}

#[test]
fn what_io_max_holds_passes_a_tick_after_its_slice() {
    let lines = twelve_reads() + &passes(10, 29) + &back(10, 29) + &passes(11, 29) + &back(11, 29);
    let outcome = compared("io.max", &lines);
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (12, 2));
    let held = Nanos(2 * 25 * TICK);
    let process = Process { number: 7, ios: 12, bytes: [12 * 4096; 2], held: [held; 2] };
    assert_eq!(outcome.processes, [process]);
}

#[test]
fn a_tick_too_late_is_a_difference_and_more_than_a_hundredth_is_not_close() {
    let lines = twelve_reads() + &passes(10, 29) + &back(10, 29) + &passes(11, 30) + &back(11, 30);
    let outcome = compared("io.max", &lines);
    let first = outcome.first.as_ref().expect("it differs");
    assert_eq!((first.line, outcome.differences.holds), (18, 1));
    assert_eq!(first.ours, "bio 11 was held for 100000000 ns and not for 104000000 ns");
    assert_eq!(outcome.apart_ppm(), Some(1_000_000 / 51));
    assert!(!outcome.is_close());
}

#[test]
fn the_worker_may_be_late_but_only_while_it_is_busy() {
    let waits = passes(10, 29) + &back(10, 40) + &passes(11, 40) + &back(11, 40);
    let outcome = compared("io.max", &(twelve_reads() + &waits));
    assert!(outcome.agrees(), "{outcome}");
    let idles = passes(10, 29) + &back(10, 39) + &passes(11, 40) + &back(11, 40);
    let outcome = compared("io.max", &(twelve_reads() + &idles));
    assert_eq!(outcome.differences.holds, 1, "{outcome}");
}

#[test]
fn what_ours_lets_pass_and_linux_holds_is_told_at_once() {
    let lines = twelve_reads().replacen("pass,", "hold,", 1);
    let outcome = compared("io.max", &lines);
    let first = outcome.first.as_ref().expect("it differs");
    assert_eq!((first.line, first.ours.as_str()), (4, "passed at once"));
    assert!(first.state.contains("queued[a] ="), "{}", first.state);
}

#[test]
fn a_bio_that_linux_has_ended_and_ours_still_holds_is_a_difference_and_no_end() {
    // A group with a target misses it; its sibling is given fewer at a time, which Linux has not done.
    let mut lines = "write,2000000000,500,,,,,,,a,io.latency DEV target=100,\n".to_string();
    let mut n = 0;
    let mut at = 2_000_000_000u64;
    for _ in 0..4000 {
        at += 1_000_000;
        let tick = at / TICK;
        for (group, late) in [("a", 0), ("b", 1)] {
            lines += &format!("enter,{at},{tick},{n},{late},8,8,R,,{group},issue={at},\n");
            lines += &format!("pass,{at},{tick},{n},,,,,,,,\n");
            n += 1;
        }
        if n >= 80 {
            for done in [n - 80, n - 79] {
                lines += &format!("over,{at},{tick},{done},,,,,,,,\n");
            }
        }
    }
    let outcome = compared("io.latency", &lines);
    assert!(outcome.differences.holds > 0);
    assert!(outcome.first.as_ref().unwrap().ours.contains("is still held"), "{outcome}");
}

/// Recordings of Linux 6.1 (`data/control`).
#[track_caller]
fn recorded(name: &str) -> Outcome {
    replay(&text(name), &Recorded::linux_6_1()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn text(name: &str) -> String {
    let path = format!("{}/tests/data/control/{name}.csv.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    text
}

#[test]
fn io_max_holds_what_linux_holds_for_as_long() {
    let outcome = recorded("io.max.changes");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (697, 42));
}

/// A sibling's settings are written 31 ticks before the timer's tick, which was set 125 ticks before.
#[test]
fn a_timer_that_is_set_for_the_same_tick_again_fires_as_late_as_before() {
    let outcome = recorded("io.max.timer-kept");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 0);
}

/// The first is over 400 us before the end of its span, with the interrupt of a completion.
#[test]
fn io_cost_wakes_at_the_first_interrupt_in_the_span_of_its_timer() {
    let outcome = recorded("io.cost.wakes");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (47, 2));
}

/// The model is written while I/O waits: Linux leaves its price and the period's timer.
#[test]
fn io_cost_leaves_what_waits_when_its_model_is_written() {
    let outcome = recorded("io.cost.repriced");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 2);
}

/// Two wake timers are due at an interrupt, and another timer stands before one of them: only the other one fires.
#[test]
fn one_wake_timer_of_io_cost_may_fire_and_another_that_is_due_not() {
    let outcome = recorded("io.cost.two-wakes");
    assert!(outcome.agrees(), "{outcome}");
}

/// A weight is written in the middle of a long period: shares follow at once.
#[test]
fn io_cost_shares_follow_a_written_weight_at_once() {
    let outcome = recorded("io.cost.weights");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 2);
}

/// A group is removed while a read of it waits: that goes on with the period.
#[test]
fn io_cost_keeps_what_waits_in_a_group_that_is_removed() {
    let outcome = recorded("io.cost.removed");
    assert!(outcome.agrees(), "{outcome}");
}

/// A group and the one above it are removed: reads and what is written of their pages later wait as before.
#[test]
fn io_max_holds_what_a_removed_group_has_as_before() {
    let outcome = recorded("io.max.removed");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 200);
}

/// Reads of 10 MB/s are queued when the limit becomes 0.1 MB/s: Linux 6.1 lets all pass, since it adds what is overdrawn
/// without a sign. Bytes, then I/Os.
#[test]
fn what_is_overdrawn_when_limits_change_lets_everything_pass() {
    for (name, held) in [("io.max.overdrawn-bytes", 27), ("io.max.overdrawn-ios", 12)] {
        let outcome = recorded(name);
        assert!(outcome.agrees(), "{name}: {outcome}");
        assert_eq!(outcome.counts.held, held, "{name}");
    }
}

/// A removed group leaves the 1 that a retired one keeps behind: its sibling's share is 65,535 of 65,536, by which waits
/// differ by us, or by ms where a bio fits only just.
#[test]
fn a_group_that_leaves_io_cost_leaves_its_least_weight_in_the_sum() {
    let outcome = recorded("io.cost.retired");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (295, 14));
}

/// Two donors, one of which was given so much by the other before that they would keep more than both have by weight.
#[test]
fn donors_of_io_cost_keep_less_than_they_have_by_weight() {
    let outcome = recorded("io.cost.donors");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (361, 5));
}

/// Reads far from each other at the beginning of a microsecond, so many that the next one fits 1,378 us later, and that one a
/// ns before. `next`: ns from its line to that of its going on.
fn read_at_the_edge_of_a_microsecond(next: u64) -> String {
    let tick_3 = 3 * TICK;
    let mut lines = format!("write,{tick_3},3,,,,,,,root,io.cost.qos DEV enable=1,\n");
    let mut read = |n: u64, at: u64, next: u64| {
        let (sector, end) = (n * 1_000_000 + 8, at + next);
        lines += &format!("enter,{at},4,{n},7,{sector},8,R,,a,issue={at},\n");
        lines += &format!("pass,{end},4,{n},,,,,,,,\n");
    };
    for n in 0..93 {
        read(n, 4 * TICK + 2 * n, 1);
    }
    read(93, 4 * TICK + 1_377_999, next);
    recording("io.cost", &lines).replace("rotational=0", "rotational=1")
}

#[test]
fn io_cost_reads_the_clock_behind_the_line_of_a_bio() {
    let outcome = |next| {
        let recording = read_at_the_edge_of_a_microsecond(next);
        replay(&recording, &Recorded::linux_6_1()).unwrap_or_else(|e| panic!("{e}"))
    };
    let read = outcome(1);
    assert!(read.agrees(), "{read}");
    assert_eq!((read.counts.ios, read.counts.held), (94, 0));
    let unread = outcome(0);
    assert_eq!(unread.differences.holds, 1, "without a reading it is too early: {unread}");
}

/// The same in Linux 6.12: what is overdrawn is waited for.
#[test]
fn a_newer_kernel_waits_for_what_is_overdrawn() {
    let outcome = recorded("io.max.6.12.overdrawn");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (501, 12));
}

/// Linux 6.12: an I/O above a rate of I/Os waits until one is allowed at least.
#[test]
fn a_newer_kernel_waits_for_one_io_and_not_for_a_slice() {
    let outcome = recorded("io.max.6.12.waits");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.ios, outcome.counts.held), (300, 158));
}

/// Linux 6.12: flushes of a group cost nothing, so that another one gets more.
#[test]
fn a_newer_kernel_charges_nothing_for_a_flush() {
    let outcome = recorded("io.cost.6.12.flushes");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 200);
}

/// A group is removed and has dirty pages: what is written of them is charged to it.
#[test]
fn io_cost_charges_a_removed_group_as_long_as_it_has_dirty_pages() {
    let outcome = recorded("io.cost.pages");
    assert!(outcome.agrees(), "{outcome}");
}

/// Two bios go on with a period. The task of one runs first, and each of its next 700 bios reads the clock; the other's
/// passes 1412 ns later. Had the processor been idle before that, it would have run earlier.
#[test]
fn a_task_may_run_behind_others_but_only_while_the_processor_is_busy() {
    let outcome = recorded("io.cost.behind-others");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 0);
    let (busy, rest) = (text("io.cost.behind-others"), "pass,80001412,20,386,");
    let (before, _) = busy.split_once(rest).expect("the line is there");
    let idle = format!("{before}pass,80001452,20,386,,,,,,,,\n");
    let outcome = replay(&idle, &Recorded::linux_6_1()).unwrap();
    assert_eq!(outcome.differences.holds, 1, "{outcome}");
}

/// The first line behind the edge of a tick is 2,535 ns behind it: microseconds begin at 2,000 or 3,000 all the same.
#[test]
fn microseconds_begin_where_the_kernels_do() {
    let outcome = recorded("io.cost.few-lines");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 0);
}

/// A task whose bio was given a slot of its group runs behind another one, whose bio queues at their parent first.
#[test]
fn io_latency_gives_slots_to_a_groups_bios_in_the_order_in_which_their_tasks_run() {
    let outcome = recorded("io.latency.tasks");
    assert!(outcome.agrees(), "{outcome}");
    assert!(outcome.counts.held > 1000);
}

/// A group is removed while a read of it waits for a slot; and the groups with targets while one of another group waits.
#[test]
fn io_latency_lets_waiters_go_on_slot_by_slot_when_their_group_goes_or_it_is_off() {
    for (name, held) in [("io.latency.waiters", 76), ("io.latency.off", 92)] {
        let outcome = recorded(name);
        assert!(outcome.agrees(), "{name}: {outcome}");
        assert_eq!(outcome.counts.held, held, "{name}");
    }
}

/// A group with a target goes although the rest of a split read of it comes later.
#[test]
fn what_is_left_of_a_split_bio_does_not_keep_its_group() {
    let outcome = recorded("io.latency.split");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!(outcome.counts.held, 89);
    // As one bio of its own, made behind the removal, it would.
    let text = text("io.latency.split").replace(",RN,,", ",R,,");
    assert!(!replay(&text, &Recorded::linux_6_1()).unwrap().agrees());
}

/// A removed group below another one has the disk's inode: both stay to the end, long behind the last of their pages.
#[test]
fn a_removed_group_that_has_the_inode_stays_and_the_one_above_it() {
    let outcome = recorded("io.latency.inode");
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!(outcome.counts.held, 23);
}

/// A write through the page cache for another group tells that the inode has gone there, and the removed group with it.
#[test]
fn a_removed_group_stays_until_pages_are_written_for_another() {
    let text = text("io.latency.inode");
    let (before, after) = text.split_at(text.find("over,1248332355,").expect("the line is there"));
    let write = "enter,1248332355,312,90000,77,8,8,W,,root,issue=1248332355,\n\
                 pass,1248332355,312,90000,,,,,,,,\nover,1248332355,312,90000,,,,,,,,\n";
    let agrees = |told: &str| {
        let text = [before, told, write, after].concat();
        replay(&text, &Recorded::linux_6_1()).unwrap().agrees()
    };
    assert!(agrees(""), "a direct one");
    assert!(!agrees("buffered,1248332355,312,,77,,,,,,,\n"));
}

/// A timer is set 63 ticks ahead, by another one: the wheel stands at the next tick already.
#[test]
fn a_timer_that_a_timer_sets_is_finer_at_the_edge_of_the_wheels_levels() {
    for name in ["io.max.wheel", "io.max.wheel-processes"] {
        let outcome = recorded(name);
        assert!(outcome.agrees(), "{name}: {outcome}");
        assert!(outcome.counts.held > 0, "{name}");
    }
}

/// Its limits were written before the recording began.
#[test]
fn what_io_max_does_with_a_group_of_an_earlier_scenario_is_not_compared() {
    let lines = twelve_reads().replace(",a,hold,", ",a@3,hold,");
    let outcome = compared("io.max", &(lines + &passes(10, 29) + &back(10, 29)));
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!(outcome.counts.ios, 10);
}

#[test]
fn requests_of_a_controller_may_be_as_many_as_bios() {
    let mut lines = "write,5,0,,,,,,,root,io.cost.qos DEV enable=1,\n".to_string();
    lines += "enter,10,0,1,7,8,8,R,,a,issue=10,\npass,10,0,1,,,,,,,,\ntrack,10,0,1,70000,,,,,,,\n";
    lines += "over,20,0,1,,,,,,,,\ndone,20,0,70000,,,,,,,alloc=10 start=10 issue=10 sectors=8,\n";
    let outcome = compared("io.cost", &lines);
    assert!(outcome.agrees(), "{outcome}");
}

#[test]
fn what_is_no_recording_of_a_controller_is_named() {
    let wrong = |text: &str| replay(text, &Recorded::linux_6_1()).unwrap_err();
    let text = "no decisions of 'wbt' can be compared; there are io.max, io.cost, io.latency";
    assert_eq!(wrong(&recording("wbt", "")), Mistake::Setting(text.into()));
    let odd = recording("io.max", "leave,5,0,,,,,,,,,\n");
    assert_eq!(wrong(&odd), Mistake::Line { line: 3, what: "no such event: 'leave'".into() });
    let back = recording("io.max", "back,5,0,,,,,,,,,\nback,4,0,,,,,,,,,\n");
    assert!(wrong(&back).to_string().starts_with("line 4: time goes back"));
    let read = |ns: u64, sectors: u64| format!("enter,{ns},0,1,7,8,{sectors},R,,a,pass,\n");
    let twice = recording("io.max", &("pass,5,0,1,,,,,,,,\n".to_string() + &read(4, 8)));
    assert_eq!(wrong(&twice).to_string(), "line 3: bio 1 has not entered");
    let held = "write,3,0,,,,,,,a,io.max DEV rbps=1,\n".to_string()
        + &(read(4, 8) + &read(4, 8)).replace("pass", "hold");
    assert_eq!(wrong(&recording("io.max", &held)).to_string(), "line 5: bio 1 comes twice");
    let long = wrong(&recording("io.max", &read(4, 1 << 55)));
    assert!(long.to_string().ends_with("is on no drive"), "{long}");
    let tracked =
        "enter,10,0,1,7,8,8,R,,a,issue=10,\ntrack,10,0,1,7,,,,,,,\ntrack,10,0,1,8,,,,,,,\n";
    let tracked = wrong(&recording("io.cost", tracked)).to_string();
    assert_eq!(tracked, "line 5: bio 1 or request 8 is tracked twice");
    let odd = recording("io.max", "").replace("tick_ns=4000000", "tick_ns=1");
    assert_eq!(wrong(&odd).to_string(), "line 2: no kernel has a tick of 1 ns");
    let odd = recording("io.max", "").replace("tick_ns=4000000", "tick_ns=0");
    assert!(wrong(&odd).to_string().starts_with("line 2: the device line tells of no tick_ns"));
}
