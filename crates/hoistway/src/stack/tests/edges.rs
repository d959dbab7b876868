//! Rare paths: refusals, errors, requeues, barriers, changes while I/O is under way.

use super::scenarios::plugged;
use super::*;

fn cached(scheduler: &str, edit: impl FnOnce(&mut Device)) -> Rig {
    rig_of(scheduler, |d| {
        d.write_cache = true;
        d.rotational = false;
        d.flush_kick_delay = Nanos::ZERO;
        edit(d);
    })
}

fn switch(rig: &mut Rig, to: &str) {
    rig.input(Input::SwitchScheduler(sched::find(to).unwrap()));
}

fn set_queue(rig: &mut Rig, name: &str, value: u64) {
    rig.input(Input::Set { stage: StageName::Queue, name: name.into(), value });
}

#[test]
fn what_cannot_be_is_refused_with_a_message_and_changes_nothing() {
    let mut rig = rig_of("mq-deadline", |_| {});
    let io = Io::read(1, ProcId(0), 0, 8);
    let cases = [
        (Io { start: Sectors(u64::MAX - 3), ..io }, StackError::BadIo(IoId(1))),
        (Io { sectors: Sectors(0), ..io }, StackError::BadIo(IoId(1))),
        (Io { op: Op::Discard, ..io }, StackError::BadIo(IoId(1))),
        (Io { op: Op::Write, flags: Flags::BARRIER, ..io }, StackError::BadIo(IoId(1))),
        (Io { proc: ProcId(99), ..io }, StackError::NoSuchProcess(ProcId(99))),
        (Io { group: GroupId(9), ..io }, StackError::NoSuchGroup(GroupId(9))),
    ];
    for (io, error) in cases {
        assert_eq!(rig.refuse(Input::Submit(io)), error);
    }
    assert_eq!(rig.refuse(Input::Plug(ProcId::NONE)), StackError::NoSuchProcess(ProcId::NONE));
    rig.input(Input::Unplug(ProcId::NONE));
    rig.input(Input::Sleep(ProcId::NONE));
    assert_eq!((rig.requests(), rig.stack.counters().submitted), (0, 0));
    let message = format!("{}", StackError::NoSuchProcess(ProcId(99)));
    assert_eq!(message, "process 99 is unknown; add it with add_proc first");

    let mut legacy = rig_of("noop", |_| {});
    let large = Io::read(1, ProcId(0), 0, 1032);
    assert_eq!(legacy.refuse(Input::Submit(large)), StackError::BadIo(IoId(1)));
    let none = sched::find("none").unwrap();
    let refused = legacy.refuse(Input::SwitchScheduler(none));
    assert_eq!(refused, StackError::WrongProfile("none"));
    rig.read(0, 8);
    rig.run_dry();
    assert_eq!(rig.finished, [1]);
}

#[test]
fn nobody_may_submit() {
    for entry in sched::SCHEDULERS {
        let mut rig = rig_of(entry.name, |_| {});
        rig.submit(ProcId(u32::MAX), |_| {});
        rig.run_dry();
        assert_eq!(rig.finished, [1], "{}", entry.name);
    }
}

#[test]
fn changes_that_wait_for_each_other_are_all_made_in_order() {
    let mut rig = rig_of("mq-deadline", |_| {});
    rig.read(0, 8);
    switch(&mut rig, "bfq");
    set_queue(&mut rig, "nr_requests", 32);
    rig.run_dry();
    assert_eq!(rig.stack.scheduler_entry().name, "bfq");
    assert_eq!(rig.stack.env().device.nr_requests, 32);

    // `none` is bound to the 32 driver tags, also while it is still to come.
    rig.read(0, 8);
    switch(&mut rig, "none");
    let set = Input::Set { stage: StageName::Queue, name: "nr_requests".into(), value: 33 };
    assert!(matches!(rig.refuse(set), StackError::Tunable(_)));
    switch(&mut rig, "mq-deadline");
    rig.run_dry();
    assert_eq!(rig.stack.scheduler_entry().name, "mq-deadline");
    assert_eq!(rig.stack.env().device.nr_requests, 64);

    let mut legacy = rig_of("noop", |d| d.nr_requests = 32);
    switch(&mut legacy, "deadline");
    assert_eq!(legacy.stack.env().device.nr_requests, 32, "the pools belong to the device");
}

#[test]
fn a_scheduler_that_takes_over_from_none_has_all_its_tags() {
    let mut rig = rig_of("none", |d| d.hw_queues = 16);
    switch(&mut rig, "mq-deadline");
    assert_eq!(rig.stack.env().device.nr_requests, 64);
    assert!(rig.stack.env().requests.capacity() >= 16 * 64 + 2);
}

#[test]
fn a_submitter_that_waits_for_a_change_does_not_hold_its_plug_back() {
    let mut rig = rig_of("mq-deadline", |_| {});
    rig.input(Input::Plug(ProcId(0)));
    rig.read(0, 8);
    switch(&mut rig, "none");
    rig.read(1000, 8);
    rig.run_dry();
    assert_eq!(rig.stack.scheduler_entry().name, "none");
    rig.input(Input::Unplug(ProcId(0)));
    rig.run_dry();
    assert_eq!(rig.finished, [1, 2]);
}

#[test]
fn a_plug_flushed_before_a_busy_device_leaves_one_in_the_residual_list() {
    let mut rig = cached("none", |d| d.flush_nonqueued = true);
    rig.flush(ProcId(1));
    rig.input(Input::Plug(ProcId(0)));
    for start in [1000, 2000, 3000] {
        rig.read(start, 8);
    }
    rig.input(Input::Unplug(ProcId(0)));
    assert_eq!(rig.log(), ["F"]);
    rig.read(1008, 8);
    rig.read(2008, 8);
    assert_eq!(rig.stack.counters().merged, 1, "only the second waits in a software queue");
    rig.complete();
    assert_eq!(rig.log(), ["R(1000,8)", "R(2000,16)", "R(3000,8)", "R(1008,8)"]);
    rig.run_dry();
    assert_eq!(rig.finished.len(), 6);
}

#[test]
fn none_hands_a_plug_over_newest_first_if_told_to() {
    for lifo in [false, true] {
        let mut rig = rig_of("none", |d| d.none_plug_lifo = lifo);
        rig.input(Input::Plug(ProcId(0)));
        for start in [1000, 2000, 3000] {
            rig.read(start, 8);
        }
        rig.input(Input::Unplug(ProcId(0)));
        let mut order = ["R(1000,8)", "R(2000,8)", "R(3000,8)"];
        if lifo {
            order.reverse();
        }
        assert_eq!(rig.log(), order);
    }
}

#[test]
fn n_14_a_busy_queue_takes_turns_until_its_run_ends() {
    let mut rig = cached("none", |d| {
        d.queue_depth = 64;
        d.flush_nonqueued = true;
    });
    rig.flush(ProcId(7));
    rig.read(0, 8);
    for i in 1..=20 {
        for cpu in 0..2 {
            rig.submit(ProcId(cpu), |io| {
                *io = Io::read(io.id.0, io.proc, u64::from(cpu) * 100_000 + i * 1000, 8);
                io.cpu = cpu;
            });
        }
    }
    rig.log();
    rig.complete();
    let log = rig.log();
    assert_eq!(log.len(), 41);
    for i in 1..=20 {
        assert_eq!(log[2 * i - 1], format!("R({},8)", i * 1000));
        assert_eq!(log[2 * i], format!("R({},8)", 100_000 + i * 1000));
    }
}

#[test]
fn what_is_given_back_stays_before_a_barrier_that_waits() {
    for draining in [false, true] {
        let mut rig = cached("noop", |d| d.queue_depth = 2);
        rig.write(0, 8);
        rig.write(100, 8);
        if draining {
            rig.device.rotate_left(1);
            rig.complete();
        }
        write_with(&mut rig, 300, Flags::BARRIER);
        rig.write(400, 8);
        rig.log();
        rig.give_back();
        assert_eq!(rig.log(), ["W(0,8)"]);
        rig.run_dry();
        assert_eq!(rig.log(), ["F", "W(300,8)", "F", "W(400,8)"]);
        assert_eq!(rig.finished.len(), 4);
    }
}

#[test]
fn an_empty_barrier_drains_and_flushes() {
    for cache in [true, false] {
        let mut rig = cached("deadline", |d| d.write_cache = cache);
        rig.write(0, 8);
        rig.submit(ProcId(0), |io| {
            *io = Io::write(io.id.0, io.proc, 0, 0);
            io.flags = Flags::BARRIER;
        });
        rig.write(100, 8);
        assert_eq!(rig.log(), ["W(0,8)"]);
        rig.run_dry();
        assert_eq!(rig.log(), if cache { &["F", "W(100,8)"][..] } else { &["W(100,8)"] });
        assert_eq!(rig.finished, [1, 2, 3]);
    }
}

#[test]
fn every_step_of_a_barrier_may_be_given_back() {
    for fua in [false, true] {
        let mut rig = cached("noop", |d| d.fua = fua);
        write_with(&mut rig, 300, Flags::BARRIER);
        let mut steps = Vec::new();
        while !rig.device.is_empty() {
            steps.extend(rig.log());
            rig.give_back();
            assert_eq!(rig.log(), [steps.last().unwrap().clone()]);
            rig.complete();
        }
        let expected = if fua { &["F", "WF(300,8)"][..] } else { &["F", "W(300,8)", "F"] };
        assert_eq!(steps, expected);
        assert_eq!(rig.finished, [1]);
    }
}

#[test]
fn a_barrier_fails_with_any_of_its_steps_and_lets_the_next_go() {
    for failing in 0..3 {
        let mut rig = cached("noop", |_| {});
        write_with(&mut rig, 300, Flags::BARRIER);
        let next = rig.write(400, 8);
        for _ in 0..failing {
            rig.complete();
        }
        rig.fail();
        assert_eq!(rig.failed, [(1, IoError::Io)], "step {failing}");
        rig.run_dry();
        assert_eq!(rig.requests(), 0);
        assert_eq!(rig.finished, [next]);
    }
}

#[test]
fn every_step_of_a_flush_sequence_may_be_given_back() {
    for scheduler in ["none", "bfq"] {
        for fua in [false, true] {
            let mut rig = cached(scheduler, |d| d.fua = fua);
            write_with(&mut rig, 300, Flags::PREFLUSH | Flags::FUA);
            let mut steps = Vec::new();
            while !rig.device.is_empty() {
                steps.extend(rig.log());
                rig.give_back();
                assert_eq!(rig.log(), [steps.last().unwrap().clone()]);
                rig.complete();
            }
            let expected = if fua { &["F", "WF(300,8)"][..] } else { &["F", "W(300,8)", "F"] };
            assert_eq!(steps, expected);
            assert_eq!(rig.finished, [1]);
        }
        // A FUA write that needs no flush.
        let mut rig = cached(scheduler, |d| d.fua = true);
        write_with(&mut rig, 300, Flags::FUA);
        rig.give_back();
        rig.complete();
        assert_eq!(rig.log(), ["WF(300,8)", "WF(300,8)"]);
        assert_eq!(rig.finished, [1]);
    }
}

#[test]
fn a_failed_flush_fails_all_that_wait_for_it_and_no_other() {
    let mut rig = cached("mq-deadline", |_| {});
    rig.flush(ProcId(0));
    let shared =
        [rig.flush(ProcId(1)), write_with(&mut rig, 300, Flags::PREFLUSH), rig.flush(ProcId(2))];
    rig.complete();
    let later = rig.flush(ProcId(3));
    rig.fail();
    assert_eq!(rig.failed, shared.map(|io| (io, IoError::Io)));
    rig.run_dry();
    assert_eq!(rig.finished, [1, later]);
    assert_eq!(rig.requests(), 0);
}

#[test]
fn a_failed_data_step_ends_the_sequence() {
    let mut rig = cached("none", |_| {});
    let commit = write_with(&mut rig, 300, Flags::PREFLUSH | Flags::FUA);
    let other = rig.flush(ProcId(1));
    rig.complete();
    rig.fail();
    assert_eq!(rig.failed, [(commit, IoError::Io)]);
    assert_eq!(rig.log(), ["F", "W(300,8)", "F"], "the other flush no longer waits for the data");
    rig.run_dry();
    assert_eq!(rig.finished, [other]);
}

#[test]
fn data_steps_that_share_a_flush_keep_their_order_and_lose_their_flag() {
    let mut rig = cached("none", |_| {});
    rig.flush(ProcId(0));
    for start in [300, 200, 100] {
        write_with(&mut rig, start, Flags::PREFLUSH);
    }
    rig.complete();
    rig.log();
    rig.complete();
    assert_eq!(rig.log(), ["W(300,8)", "W(200,8)", "W(100,8)"]);
    for &req in &rig.device {
        assert!(!rig.stack.request(req).flags.any(Flags::PREFLUSH));
    }
}

#[test]
fn an_error_reaches_every_bio_of_a_request_and_a_split_io_once() {
    let mut rig = plugged("mq-deadline");
    let merged = [rig.write(100, 8), rig.write(108, 8), rig.write(92, 8)];
    rig.complete();
    rig.fail();
    let mut failed: Vec<u64> = rig.failed.iter().map(|f| f.0).collect();
    failed.sort_unstable();
    assert_eq!(failed, merged);

    let mut rig = rig_of("none", |_| {});
    let io = rig.read(0, 3000);
    rig.complete();
    rig.fail();
    assert!(rig.failed.is_empty(), "a piece is still with the device");
    rig.complete();
    assert_eq!((rig.failed, rig.finished.len()), ([(io, IoError::Io)].to_vec(), 0));
}

#[test]
fn a_merged_bio_unplugs_the_legacy_device() {
    let mut rig = rig_of("noop", |_| {});
    rig.write(0, 8);
    rig.submit(ProcId(0), |io| {
        *io = Io::write(io.id.0, io.proc, 8, 8);
        io.flags = Flags::UNPLUG;
    });
    assert_eq!(rig.log(), ["W(0,16)"]);
}

#[test]
fn a_bio_is_cut_at_chunks_and_at_its_segments() {
    let mut rig = rig_of("none", |d| d.chunk_sectors = Sectors(64));
    rig.read(60, 100);
    assert_eq!(rig.log(), ["R(60,4)", "R(64,64)", "R(128,32)"]);

    let mut rig = rig_of("none", |d| {
        d.max_segments = 4;
        d.queue_depth = 1023;
    });
    for (sectors, segments) in [(64, 16), (10, 9), (6, 5), (9, 5), (1000, u32::MAX), (8, 0)] {
        rig.submit(ProcId(0), |io| {
            *io = Io::read(io.id.0, io.proc, 0, sectors);
            io.segments = segments;
        });
        let issued: Vec<Request> = rig.device.iter().map(|&r| *rig.stack.request(r)).collect();
        assert!(issued.iter().all(|r| (1..=4).contains(&r.segments)), "{sectors}/{segments}");
        rig.run_dry();
        let read: u64 = issued.iter().map(|r| r.sectors.0).sum();
        assert_eq!(read, sectors);
    }
    assert_eq!(rig.finished.len(), 6);
}

#[test]
fn a_split_write_flushes_before_and_behind_each_piece() {
    let mut rig = cached("none", |_| {});
    let io = rig.submit(ProcId(0), |io| {
        *io = Io::write(io.id.0, io.proc, 0, 2000);
        io.flags = Flags::PREFLUSH | Flags::FUA;
    });
    rig.run_dry();
    // The flush behind the first piece is the one before the second.
    assert_eq!(rig.log(), ["F", "W(0,1024)", "F", "W(1024,976)", "F"]);
    assert_eq!(rig.finished, [io]);
}

#[test]
fn nomerges_leaves_the_one_hit_cache_or_nothing() {
    for (level, requests) in [(0, 3), (1, 4), (2, 5)] {
        let mut rig = plugged("mq-deadline");
        set_queue(&mut rig, "nomerges", level);
        rig.write(100, 8);
        rig.write(108, 8);
        rig.write(500, 8);
        // The cache is the first request: this one is found through the hash only.
        rig.write(508, 8);
        assert_eq!(rig.requests(), requests, "nomerges = {level}");
    }
}

/// Two places at the device, which the reads of the first queue always want. A scheduler gives any queue whatever is next, so the
/// first queue would take each place that becomes free; the flush waits on the list of the last one.
#[test]
fn a_flush_of_another_queue_gets_a_place_at_a_full_device() {
    for scheduler in ["none", "mq-deadline", "kyber", "paternoster"] {
        let mut rig = rig_of(scheduler, |d| {
            (d.hw_queues, d.queue_depth) = (4, 2);
            d.rotational = false;
            d.write_cache = true;
            d.flush_nonqueued = true;
        });
        let read = |rig: &mut Rig, n: u64| {
            rig.submit(ProcId(n as u32 % 4), |io| {
                *io = Io::read(io.id.0, io.proc, n * 4096, 8);
            })
        };
        for n in 0..8 {
            read(&mut rig, n);
        }
        let flush = rig.submit(ProcId(5), |io| {
            (io.op, io.sectors, io.cpu) = (Op::Flush, Sectors(0), 3);
        });
        let mut ended = 0;
        while !rig.over(flush) {
            assert!(ended < 40, "{scheduler}: {ended} reads have passed it");
            rig.at(Nanos::us(100 * (ended + 1))).complete();
            ended += 1;
            read(&mut rig, 8 + ended);
        }
    }
}
