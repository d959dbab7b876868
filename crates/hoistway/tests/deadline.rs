//! Conformance of `deadline` (specs/deadline.md D, scenarios ), and its rules beyond them.

use hoistway::request::Side;
use hoistway::sched::At;
use hoistway::testkit::scenario::{Bench, scenario};

#[test]
fn a1_a_sweep_starts_at_the_oldest_and_goes_up() {
    scenario(
        "deadline",
        &[],
        "0 r1@500 r2@100 r3@300 r4@900
         1 x5 -> r1 r4 r2 r3 -",
    );
}

#[test]
fn a2_a_write_batch_follows_two_read_batches() {
    let b = scenario(
        "deadline",
        &[("fifo_batch", 2)],
        "0 r1@10 r2@20 r3@30 r4@40 r5@50 r6@60 r7@70 r8@80 w1@1000 w2@1010 w3@1020
         1 x12 -> r1 r2 r3 r4 w1 w2 r5 r6 r7 r8 w3 -",
    );
    assert_eq!((b.figure("starved", None), b.figure("batching", None)), (0, 1));
}

#[test]
fn a3_a_read_expires_one_tick_after_its_deadline() {
    let insertions = "0 r1@500 r2@10 r3@600 r4@700
                      1 x2 -> r1 r3";
    let mut b = scenario("deadline", &[("fifo_batch", 2)], insertions);
    b.run("500 x1 -> r4");
    let mut b = scenario("deadline", &[("fifo_batch", 2)], insertions);
    b.run("501 x2 -> r2 r4");
}

#[test]
fn a4_a_batch_of_writes_is_not_interrupted_by_a_read() {
    scenario(
        "deadline",
        &[],
        "0 w1@100 w2@200
         1 x1 -> w1
         2 r1@50 x2 -> w2 r1",
    );
}

#[test]
fn a5_a_request_inserted_behind_the_sweep_waits_for_the_next() {
    scenario(
        "deadline",
        &[],
        "0 r1@100 r2@200
         1 x1 -> r1
         2 r3@150 r4@120 r5@210 x4 -> r2 r5 r3 r4",
    );
}

#[test]
fn a6_a_sweep_survives_the_end_of_its_batch() {
    for batch in [0, 1] {
        scenario(
            "deadline",
            &[("fifo_batch", batch)],
            "0 r1@100 r2@50 r3@200
             1 x3 -> r1 r3 r2",
        );
    }
}

#[test]
fn a7_without_patience_writes_go_first() {
    scenario(
        "deadline",
        &[("writes_starved", 0), ("fifo_batch", 1)],
        "0 r1@1 r2@2 w5@5 w6@6 x4 -> w5 w6 r1 r2",
    );
}

#[test]
fn a8_a_second_request_at_the_same_sector_pushes_the_first_out() {
    scenario(
        "deadline",
        &[],
        "0 r1@100
         1 r2@100 x3 -> r1 r2 -",
    );
}

#[test]
fn a9_a_read_waits_for_the_rest_of_a_write_batch() {
    let writes: Vec<String> = (0..20).map(|i| format!("w{i}@{}", 100 + 8 * i)).collect();
    let mut b = Bench::new("deadline", &[]);
    b.run(&format!("0 {}", writes.join(" ")));
    b.run(
        "1 x4 -> w0 w1 w2 w3
         2 r1@9 x14 -> w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 r1 w16",
    );
}

#[test]
fn a10_of_two_joined_requests_the_earlier_deadline_stays() {
    // The kept one is older: it keeps its place. With batches of one and everything expired the order of
    // dispatch is the order of the FIFO.
    scenario(
        "deadline",
        &[("fifo_batch", 1)],
        "0 r1@100
         10 r2@50
         20 r3@108 join:r1+r3
         501 x3 -> r1 r2 -",
    );
    // The gone one is older: its place and its deadline go over.
    let gone_is_older = "0 r3@108
                         10 r2@50
                         20 r1@100 join:r1+r3";
    let mut b = scenario("deadline", &[("fifo_batch", 1)], gone_is_older);
    b.run("501 x3 -> r1 r2 -");
}

#[test]
fn a10_the_inherited_deadline_is_the_one_that_expires() {
    // The alias r0 leads the sweep to r4 and r5, past the head of the FIFO. Only an expired head breaks it.
    for (ms, want) in [(500, "r5"), (501, "r1")] {
        let mut b = scenario(
            "deadline",
            &[("fifo_batch", 1)],
            "0 r3@108
             10 r2@50
             20 r1@100 join:r1+r3 r0@200 r4@400 r5@500 r00@200 x2 -> r0 r4",
        );
        b.run(&format!("{ms} x1 -> {want}"));
    }
}

#[test]
fn a11_after_a_write_batch_the_reads_restart_from_their_oldest() {
    scenario(
        "deadline",
        &[("fifo_batch", 2), ("writes_starved", 0)],
        "0 r3@300 r1@100 r2@200 r4@400 r5@500 r6@600
         1 x2 -> r3 r4
         2 w1@50 w2@60
         3 x6 -> w1 w2 r1 r2 r5 r6",
    );
}

#[test]
fn the_highest_sector_ends_a_batch_early() {
    // r2 is the highest; although the batch had room for 14 more, the direction is chosen anew.
    scenario(
        "deadline",
        &[("writes_starved", 1)],
        "0 r1@800 r2@900 r3@10 r4@5 w1@50
         1 x5 -> r1 r2 w1 r3 r4",
    );
}

#[test]
fn a_requeued_request_goes_before_everything() {
    scenario(
        "deadline",
        &[],
        "0 r1@10 r2@20
         1 x1 -> r1
         2 r3@5 back:r1 x4 -> r1 r2 r3 -",
    );
}

#[test]
fn what_was_pushed_out_joins_nothing() {
    let mut b = scenario("deadline", &[], "0 r1@100 r2@100");
    let io = b.io("r3", 108, 8);
    let (r1, r2) = (b.id("r1"), b.id("r2"));
    assert!(!b.may_merge(&io, r1));
    assert!(b.may_merge(&io, r2));
    assert_eq!(b.neighbour(r1, Side::Back), None);
}

#[test]
fn a_front_merge_moves_a_request_in_the_sector_order() {
    let mut b = scenario("deadline", &[], "0 r1@100 r2@50 r3@70+30");
    let io = b.io("r9", 42, 8);
    let found = b.find_merge(&io);
    assert_eq!(found, Some((b.id("r2"), Side::Front)));
    let io = b.io("r9", 30, 20);
    b.join_bio("r2", io, Side::Front);
    let r3 = b.id("r3");
    assert_eq!(b.neighbour(r3, Side::Front), Some(b.id("r2")));
    assert_eq!(b.find_merge(&io), None, "50 is no start any more");
    b.run("1 x4 -> r1 r2 r3 -");
}

#[test]
fn a_front_merge_onto_the_start_of_another_pushes_that_out() {
    let mut b = scenario("deadline", &[], "0 r1@100 r2@50 r3@108");
    let io = b.io("r9", 50, 58);
    b.join_bio("r3", io, Side::Front);
    // r2 was the older one at sector 50; its going out puts the sweep behind it, at r1.
    b.run("1 x4 -> r2 r1 r3 -");
}

#[test]
fn without_front_merges_no_front_is_found() {
    let mut b = scenario("deadline", &[("front_merges", 0)], "0 r1@100");
    let io = b.io("r9", 92, 8);
    assert_eq!(b.find_merge(&io), None);
}

#[test]
fn a_write_finds_no_read_to_join() {
    let mut b = scenario("deadline", &[], "0 r1@100");
    let io = b.io("w9", 92, 8);
    assert_eq!(b.find_merge(&io), None);
}

#[test]
fn the_sweep_goes_on_behind_a_request_that_was_absorbed() {
    scenario(
        "deadline",
        &[],
        "0 r1@100 r2@200 r3@300
         1 x1 -> r1
         2 r0@192 join:r0+r2 x3 -> r3 r0 -",
    );
}

#[test]
fn a_new_expiry_concerns_later_insertions_only() {
    scenario(
        "deadline",
        &[("fifo_batch", 1)],
        "0 r1@500 r2@10 r3@600 set:read_expire=5 x1 -> r1
         499 x1 -> r3
         499 r4@700 r5@1 x1 -> r2",
    );
}

#[test]
fn a_request_at_the_head_needs_no_sweep() {
    let mut b = Bench::new("deadline", &[]);
    let io = b.io("r1", 9, 8);
    b.insert("r1", io, At::Head);
    b.run("0 x2 -> r1 -");
}
