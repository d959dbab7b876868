//! BFQ decides as the kernel's does: recordings of every call that Linux 6.1 made into its BFQ, in
//! exact virtual time, are fed to ours, and every merge verdict, dispatch and expiry must be the same.
//!
//! `tests/data/README.md` tells what was recorded.

use flate2::read::GzDecoder;
use hoistway_replay::{Counts, Mistake, Outcome, Recorded, replay};
use std::fs::File;
use std::io::Read;
use std::path::Path;

fn unpacked(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let file = File::open(path.join(format!("{name}.csv.gz"))).unwrap();
    let mut recording = String::new();
    GzDecoder::new(file).read_to_string(&mut recording).unwrap();
    recording
}

/// Every line agrees; insertions, dispatches, expiries.
#[track_caller]
fn agrees(name: &str, figures: (u64, u64, u64)) -> Counts {
    let recording = unpacked(name);
    let outcome = replay(&recording, &Recorded::named(name)).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.agrees(), "{name}: {outcome}");
    let counts = outcome.counts;
    assert_eq!(counts.lines as usize, recording.lines().count());
    assert_eq!((counts.inserted, counts.dispatches, counts.expiries), figures);
    counts
}

// A flash drive with 16 places.

#[test]
fn eight_levels_without_low_latency() {
    agrees("tags16.bfq-ll0.ioprio_st", (7_770, 18_956, 3_138));
}

#[test]
fn four_weighted_groups() {
    agrees("tags16.bfq-ll0.cgw_d8_st", (10_256, 31_894, 80));
}

#[test]
fn eight_levels_with_low_latency() {
    agrees("tags16.bfq.ioprio_st", (6_982, 16_051, 2_578));
}

#[test]
fn readers_and_writers_with_low_latency() {
    let counts = agrees("tags16.bfq.mixed_rw_st", (15_577, 32_704, 3_066));
    assert!(counts.merged > 0);
}

#[test]
fn sixteen_random_readers_in_one_stably_merged_queue() {
    agrees("tags16.bfq.rand15", (7_472, 7_472, 58));
}

#[test]
fn fifteen_sequential_readers_with_low_latency() {
    agrees("tags16.bfq.seq_d4_st", (12_566, 26_300, 3_306));
}

// A disk and a flash drive with 32 places.

#[test]
fn priorities_and_classes_that_change() {
    agrees("hdd.bfq-ll0.prios", (2_762, 9_646, 128));
}

#[test]
fn buffered_writers() {
    agrees("hdd.bfq.async", (1_091, 4_119, 452));
}

#[test]
fn all_classes() {
    let counts = agrees("hdd.bfq.classes", (2_042, 6_215, 586));
    assert_eq!(counts.timers, 144);
}

#[test]
fn interleaved_readers_whose_queues_merge_and_split() {
    agrees("hdd.bfq.coop", (1_331, 3_231, 1_230));
}

#[test]
fn ends_and_forks_of_short_processes() {
    agrees("hdd.bfq.exits", (989, 2_867, 629));
}

#[test]
fn sixty_four_processes() {
    agrees("hdd.bfq.many64", (5_344, 20_684, 123));
}

#[test]
fn periodic_readers() {
    agrees("hdd.bfq.softrt", (2_059, 3_667, 849));
}

#[test]
fn an_application_that_starts_beside_a_burst() {
    agrees("hdd.bfq.startup", (1_125, 1_314, 1_149));
}

#[test]
fn groups_to_depth_three() {
    agrees("hdd.bfq.tree", (2_021, 5_775, 457));
}

#[test]
fn tunables_written_while_it_runs_on_a_disk() {
    agrees("hdd.bfq.tunables", (1_312, 3_116, 510));
}

#[test]
fn groups_left_weighed_and_removed() {
    agrees("ssd.bfq.moves", (16_536, 48_624, 439));
}

#[test]
fn tunables_written_while_it_runs_on_flash() {
    agrees("ssd.bfq.tunables", (20_328, 58_285, 5_580));
}

// The reader.

const HEAD: &str = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result\n";

fn of(lines: &str) -> Outcome {
    replay(&format!("{HEAD}{lines}"), &Recorded::linux_6_1()).unwrap_or_else(|e| panic!("{e}"))
}

/// Of 6.12: a process sleeps for a tag after it has offered a write of the root's pages (specs/bfq.md, Q27).
#[test]
fn pages_of_the_root_written_by_a_process_of_a_group() {
    let name = "hdd.bfq.root-pages";
    let mut recorded = Recorded::named(name);
    recorded.set_base("6.12").unwrap();
    let outcome = replay(&unpacked(name), &recorded).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!((outcome.counts.inserted, outcome.counts.dispatches), (1_532, 1_845));
}

/// Of the module in 6.1: requests that ADIOS keeps closed to merging until it has learned.
#[test]
fn requests_closed_to_merging() {
    agrees("flash.adios.learned", (306, 306, 0));
}

#[test]
fn a_difference_is_told_by_its_line_and_the_rest_is_compared() {
    let good = "merge,60180212,6,,,0,256,R,0,root,0\n\
                insert,60180468,6,1,0,0,256,R,0,root,\n\
                dispatch,60180468,6,1,,,,,,,\n\
                complete,62180468,6,1,,,,,,,\n\
                insert,62280468,6,2,0,256,256,R,0,root,\n\
                dispatch,62280468,6,2,,,,,,,\n";
    assert!(of(good).agrees());
    let outcome = of(&good.replace("dispatch,60180468,6,1", "dispatch,60180468,6,"));
    let first = outcome.first.unwrap();
    assert_eq!((first.line, &*first.ours), (4, "dispatched 1"));
    assert!(first.state.contains(" owner 0 users 1"), "{}", first.state);
    assert_eq!((outcome.differences.dispatches, outcome.differences.total()), (1, 1));
    assert_eq!(outcome.counts.dispatches, 2, "the comparison goes on");
}

/// A buffered write of `sectors` in block buffers beside one of `more`: are the two joined?
fn joined(drive: &str, buffer_kib: Option<u32>, sectors: u64, more: u64) -> bool {
    let lines = format!(
        "insert,60180468,6,1,0,0,{sectors},A,0,root,\n\
         insert,60180468,6,2,0,{sectors},{more},A,0,root,merged\n"
    );
    let mut recorded = Recorded::named(drive);
    recorded.buffer_kib = buffer_kib;
    let outcome = replay(&format!("{HEAD}{lines}"), &recorded).unwrap();
    outcome.differences.insertions == 0
}

#[test]
fn buffered_writes_have_a_segment_per_block_buffer_of_the_drive() {
    assert!(joined("ssd.bfq.async", None, 510, 2), "256 buffers of 1 KiB");
    assert!(!joined("ssd.bfq.async", None, 512, 2), "257 buffers");
    assert!(joined("hdd.bfq.async", None, 512, 512), "128 buffers of 4 KiB");
    assert!(!joined("hdd.bfq.async", Some(1), 512, 2));
    assert!(joined("ssd.bfq.async", Some(4), 512, 512));
}

#[test]
fn a_write_that_began_with_less_than_a_page_was_buffered() {
    let direct = "merge,60180468,6,,0,0,512,W,0,root,0\n\
                  insert,60180468,6,1,0,0,512,W,0,root,\n\
                  insert,60180468,6,2,0,512,8,W,0,root,merged\n";
    assert_eq!(of(direct).differences.insertions, 0, "65 pages");
    let buffered = direct.replacen("0,512,W", "0,2,W", 1);
    assert_eq!(of(&buffered).differences.insertions, 1, "more than 256 buffers of 1 KiB");
}

#[test]
fn a_head_insertion_and_metadata_are_served_first() {
    let outcome = of("insert,60180468,6,1,0,0,8,R,0,root,\n\
                      insert,60180468,6,2,0,8000,8,RM,0,root,\n\
                      insert,60180468,6,3,0,9000,8,R,0,root,head\n\
                      dispatch,60180468,6,3,,,,,,,\n\
                      dispatch,60180468,6,2,,,,,,,\n\
                      dispatch,60180468,6,1,,,,,,,\n");
    assert!(outcome.agrees(), "{outcome}");
}

#[test]
fn the_device_line_tells_the_drive_and_whether_weights_are_told() {
    let start = "device,0,0,,,,,,,,rotational=1 created_tick=2 noweights\n";
    let groups = "insert,30000000,3,1,0,0,8,R,,a,\n\
                  insert,30000000,3,2,1,900000000,8,R,,b,\n\
                  dispatch,30000000,3,1,,,,,,,\n\
                  expire,30000000,3,,,,,,,,preempted\n";
    let text = |weights: &str| of(&format!("{start}{weights}{groups}")).first.unwrap().ours;
    // b weighs no more than a, so it does not take over; told otherwise it does.
    assert_eq!(text(""), "no slot ended");
    let told = "set,20000000,2,,,,,,,,low_latency=0\nweight,20000000,2,,,,,,,b,900\n";
    let preempts = "insert,30000000,3,1,0,0,8,R,,a,\n\
                    dispatch,30000000,3,1,,,,,,,\n\
                    insert,30000000,3,2,1,900000000,8,R,,b,\n";
    let outcome = of(&format!("{start}{told}{preempts}dispatch,30000000,3,2,,,,,,,\n"));
    assert!(outcome.first.unwrap().ours.starts_with("a slot ended that did not: preempted"));
}

#[test]
fn a_line_that_no_recording_has_is_an_error() {
    let insert = "insert,60180468,6,1,0,0,256,R,0,root,\n";
    let cases = [
        ("insert,1\n".to_string(), 2, "has not the columns"),
        ("insert,1,x,1,0,0,8,R,0,root,\n".to_string(), 2, "'x' is not a number"),
        ("sleep,1,0,,,,,,,,\n".to_string(), 2, "no such event: 'sleep'"),
        ("insert,1,0,1,0,0,0,R,0,root,\n".to_string(), 2, "0 sectors"),
        ("insert,1,0,1,0,0,8,T,0,root,\n".to_string(), 2, "no such operation: 'T'"),
        ("insert,1,0,99999999999,0,0,8,R,0,root,\n".to_string(), 2, "is not below"),
        ("insert,1,0,1,0,0,8,R,rt8,root,\n".to_string(), 2, "no such level: 8"),
        ("insert,1,0,1,0,0,8,R,0,p//x,\n".to_string(), 2, "not the path of a group"),
        ("insert,1,0,1,0,0,8,R,0,root,tail\n".to_string(), 2, "does not end with 'tail'"),
        ("set,1,0,,,,,,,,slice_idle\n".to_string(), 2, "is not name=value"),
        ("set,1,0,,,,,,,,slice=1\n".to_string(), 2, "slice"),
        ("weight,1,0,,,,,,,a,0\n".to_string(), 2, "outside 1..=1000"),
        ("remove,1,0,,,,,,,root,\n".to_string(), 2, "the root group is not removed"),
        ("device,0,0,,,,,,,,rotational=2\n".to_string(), 2, "tells nothing about a device"),
        (format!("{insert}device,60180468,6,,,,,,,,rotational=1\n"), 3, "is the second line"),
        (format!("{insert}dispatch,60180000,6,1,,,,,,,\n"), 3, "time goes back"),
        (format!("{insert}complete,60180469,6,1,,,,,,,\n"), 3, "is not at the device"),
    ];
    for (lines, line, message) in cases {
        match replay(&format!("{HEAD}{lines}"), &Recorded::linux_6_1()) {
            Err(Mistake::Line { line: at, what }) => {
                assert_eq!(at, line, "{lines}{what}");
                assert!(what.contains(message), "{lines}{what}");
            }
            other => panic!("{lines}: {other:?}"),
        }
    }
    let not = replay("event,ns\n", &Recorded::linux_6_1()).unwrap_err();
    assert!(not.to_string().starts_with("line 1: not a recording"), "{not}");
    let mut odd = Recorded::linux_6_1();
    odd.set_weight("w0", 0);
    assert!(matches!(replay(HEAD, &odd), Err(Mistake::Setting(_))));
    assert!(odd.set_base("2.6").unwrap_err().to_string().contains("6.1, "));
}
