//! BFQ decides as the kernel's does: recordings of every call that Linux 6.1 made into its BFQ, in
//! exact virtual time, are fed to ours, and every merge verdict, dispatch and expiry must be the same.
//!
//! The recordings are of a 250 GB flash model with 16 places, kernel tick 10 ms, requests up to 512 KiB.
//! Scenarios: eight sequential readers of best-effort levels 0 to 7; four groups of weights 100 to 400,
//! each with a sequential reader of depth 8; four readers and four writers of depth 4; 16 random readers
//! that start together; 15 sequential readers of depth 4.

use flate2::read::GzDecoder;
use hoistway::sched::bfq::replay::{Agreement, Recorded, replay};
use hoistway::{Nanos, Sectors};
use std::fs::File;
use std::io::Read;
use std::path::Path;

fn agree(name: &str, low_latency: u64) -> Agreement {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let file = File::open(path.join(format!("tags16.{name}.csv.gz"))).unwrap();
    let mut recording = String::new();
    GzDecoder::new(file).read_to_string(&mut recording).unwrap();
    let recorded = Recorded {
        rotational: false,
        tick: Nanos::ms(10),
        max_sectors: Sectors(1024),
        tunables: &[("base", 0), ("first_think", 1), ("low_latency", low_latency)],
        weights: &[("a", 300), ("b", 100), ("w0", 100), ("w1", 200), ("w2", 300), ("w3", 400)],
    };
    match replay(&recording, &recorded) {
        Ok(agreement) => agreement,
        Err(difference) => panic!("{name}: {difference}"),
    }
}

#[test]
fn eight_levels_without_low_latency_decide_as_the_kernel() {
    let a = agree("bfq-ll0.ioprio_st", 0);
    assert_eq!((a.inserted, a.dispatches, a.expiries), (7_770, 18_956, 3_138));
}

#[test]
fn four_weighted_groups_decide_as_the_kernel() {
    let a = agree("bfq-ll0.cgw_d8_st", 0);
    assert_eq!((a.inserted, a.dispatches, a.expiries), (10_256, 31_894, 80));
}

#[test]
fn eight_levels_with_low_latency_decide_as_the_kernel() {
    let a = agree("bfq.ioprio_st", 1);
    assert_eq!((a.inserted, a.dispatches, a.expiries), (6_982, 16_051, 2_578));
}

#[test]
fn readers_and_writers_with_low_latency_decide_as_the_kernel() {
    let a = agree("bfq.mixed_rw_st", 1);
    assert_eq!((a.inserted, a.dispatches, a.expiries), (15_577, 32_704, 3_066));
    assert!(a.merged > 0);
}

#[test]
fn sixteen_random_readers_in_one_stably_merged_queue_decide_as_the_kernel() {
    let a = agree("bfq.rand15", 1);
    assert_eq!((a.inserted, a.dispatches, a.expiries), (7_472, 7_472, 58));
}

#[test]
fn fifteen_sequential_readers_with_low_latency_decide_as_the_kernel() {
    let a = agree("bfq.seq_d4_st", 1);
    assert_eq!((a.inserted, a.dispatches, a.expiries), (12_566, 26_300, 3_306));
}

#[test]
fn a_recording_that_differs_in_one_decision_is_told_by_its_line() {
    let recording = "event,ns,tick,request,ctx,sector,sectors,op,level,group,result\n\
                     merge,60180212,6,,,0,256,R,0,root,0\n\
                     insert,60180468,6,1,0,0,256,R,0,root,\n\
                     dispatch,60180468,6,,,,,,,,\n";
    let recorded = Recorded {
        rotational: false,
        tick: Nanos::ms(10),
        max_sectors: Sectors(1024),
        tunables: &[("base", 0)],
        weights: &[],
    };
    let difference = replay(recording, &recorded).unwrap_err();
    assert_eq!((difference.line, &*difference.ours), (4, "dispatched 1"));
    let good = recording.replace("dispatch,60180468,6,,", "dispatch,60180468,6,1,");
    assert_eq!(replay(&good, &recorded).unwrap().dispatches, 1);
}
