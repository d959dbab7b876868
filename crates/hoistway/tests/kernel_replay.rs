//! BFQ decides as the kernel's does: recordings of every call that Linux 6.1 made into its BFQ, in
//! exact virtual time, are fed to ours, and every merge verdict, dispatch and expiry must be the same.
//!
//! The recordings are of a 250 GB flash model with 16 places, kernel tick 10 ms, requests up to 512 KiB.
//! Scenarios: eight sequential readers of best-effort levels 0 to 7; four groups of weights 100 to 400,
//! each with a sequential reader of depth 8; four readers and four writers of depth 4; 16 random readers
//! that start together; 15 sequential readers of depth 4.

use flate2::read::GzDecoder;
use hoistway::sched::bfq::replay::{Agreement, Cause, Recorded, replay};
use std::fs::File;
use std::io::Read;
use std::path::Path;

fn agree(name: &str) -> Agreement {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let name = format!("tags16.{name}.csv.gz");
    let file = File::open(path.join(&name)).unwrap();
    let mut recording = String::new();
    GzDecoder::new(file).read_to_string(&mut recording).unwrap();
    match replay(&recording, &Recorded::named(&name)) {
        Ok(agreement) => agreement,
        Err(difference) => panic!("{name}: {difference}"),
    }
}

#[test]
fn eight_levels_without_low_latency_decide_as_the_kernel() {
    let a = agree("bfq-ll0.ioprio_st");
    assert_eq!((a.inserted, a.dispatches, a.expiries), (7_770, 18_956, 3_138));
}

#[test]
fn four_weighted_groups_decide_as_the_kernel() {
    let a = agree("bfq-ll0.cgw_d8_st");
    assert_eq!((a.inserted, a.dispatches, a.expiries), (10_256, 31_894, 80));
}

#[test]
fn eight_levels_with_low_latency_decide_as_the_kernel() {
    let a = agree("bfq.ioprio_st");
    assert_eq!((a.inserted, a.dispatches, a.expiries), (6_982, 16_051, 2_578));
}

#[test]
fn readers_and_writers_with_low_latency_decide_as_the_kernel() {
    let a = agree("bfq.mixed_rw_st");
    assert_eq!((a.inserted, a.dispatches, a.expiries), (15_577, 32_704, 3_066));
    assert!(a.merged > 0);
}

#[test]
fn sixteen_random_readers_in_one_stably_merged_queue_decide_as_the_kernel() {
    let a = agree("bfq.rand15");
    assert_eq!((a.inserted, a.dispatches, a.expiries), (7_472, 7_472, 58));
}

#[test]
fn fifteen_sequential_readers_with_low_latency_decide_as_the_kernel() {
    let a = agree("bfq.seq_d4_st");
    assert_eq!((a.inserted, a.dispatches, a.expiries), (12_566, 26_300, 3_306));
}

#[test]
fn a_recording_that_differs_in_one_decision_is_told_by_its_line() {
    let recording = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result\n\
                     merge,60180212,6,,,0,256,R,0,root,0\n\
                     insert,60180468,6,1,0,0,256,R,0,root,\n\
                     dispatch,60180468,6,,,,,,,,\n";
    let recorded = Recorded::linux_6_1(true);
    let difference = replay(recording, &recorded).unwrap_err();
    assert_eq!(difference.cause, Cause::Decision);
    assert_eq!((difference.line, &*difference.ours), (4, "dispatched 1"));
    let good = recording.replace("dispatch,60180468,6,,", "dispatch,60180468,6,1,");
    assert_eq!(replay(&good, &recorded).unwrap().dispatches, 1);
}

#[test]
fn a_line_that_no_recording_has_is_told_apart_from_a_difference() {
    let head = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result\n";
    let insert = "insert,60180468,6,1,0,0,256,R,0,root,\n";
    let cases = [
        ("event,ns\n".to_string(), 1, "not a recording"),
        (format!("{head}insert,1\n"), 2, "has not the columns"),
        (format!("{head}insert,1,x,1,0,0,8,R,0,root,\n"), 2, "'x' is not a number"),
        (format!("{head}sleep,1,0,,,,,,,,\n"), 2, "no such event: 'sleep'"),
        (format!("{head}insert,1,0,1,0,0,0,R,0,root,\n"), 2, "0 sectors"),
        (format!("{head}insert,1,0,1,0,0,8,T,0,root,\n"), 2, "no such operation: 'T'"),
        (format!("{head}insert,1,0,99999999999,0,0,8,R,0,root,\n"), 2, "is not below"),
        (format!("{head}{insert}dispatch,60180467,6,1,,,,,,,\n"), 3, "time goes back"),
        (format!("{head}{insert}complete,60180469,6,1,,,,,,,\n"), 3, "is not at the device"),
    ];
    for (recording, line, message) in cases {
        let e = replay(&recording, &Recorded::linux_6_1(true)).unwrap_err();
        assert_eq!((e.cause, e.line), (Cause::Unreadable, line), "{recording}{}", e.ours);
        assert!(e.ours.contains(message), "{}", e.ours);
    }
    let mut odd = Recorded::linux_6_1(true);
    odd.set_weight("w0", 0);
    let e = replay(head, &odd).unwrap_err();
    assert_eq!((e.cause, e.line), (Cause::Setting, 0), "{}", e.ours);
}
