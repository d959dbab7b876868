//! Scenarios N-1 to N-22 of specs/blk-mq-and-noop.md section 14, as far as they concern the stack, and
//! what is like them.

use super::*;
use crate::device::RunAtCompletion;

pub(super) fn plugged(scheduler: &str) -> Rig {
    // A full device: what is submitted stays in the scheduler.
    let mut rig = rig_of(scheduler, |d| {
        d.queue_depth = 1;
        d.nr_requests = 128;
    });
    rig.submit(ProcId(7), |io| *io = Io::read(io.id.0, io.proc, 1 << 29, 8));
    rig.at(Nanos::ms(5)).tick();
    assert_eq!(rig.device.len(), 1);
    rig.log();
    rig
}

#[test]
fn n_1_and_n_2_noop_merges_at_the_back_by_hash_and_at_the_front_by_the_one_hit_cache() {
    let mut rig = plugged("noop");
    rig.write(100, 8);
    rig.write(108, 8);
    rig.write(92, 8);
    assert_eq!(rig.requests(), 2);
    rig.write(500, 8);
    rig.write(508, 8);
    assert_eq!(rig.requests(), 3, "back merge through the hash");
    rig.write(84, 8);
    assert_eq!(rig.requests(), 4, "the cache is the other request and noop has no front look-up");
    rig.run_dry();
    assert_eq!(rig.log(), ["W(92,24)", "W(500,16)", "W(84,8)"]);
}

#[test]
fn n_2_deadline_finds_the_front_merge() {
    let mut rig = plugged("deadline");
    rig.write(100, 8);
    rig.write(500, 8);
    rig.write(508, 8);
    rig.write(92, 8);
    assert_eq!(rig.requests(), 3);
}

#[test]
fn n_3_a_request_at_its_limit_never_merges_again() {
    let mut rig = plugged("noop");
    rig.write(0, 1020);
    rig.write(1020, 8);
    assert_eq!(rig.requests(), 3);
    rig.write(2000, 4);
    // 1020 ends at 1028 now belongs to the second; the first stays alone.
    rig.submit(ProcId(0), |io| {
        *io = Io::write(io.id.0, io.proc, 1020, 4);
    });
    assert_eq!(rig.requests(), 5);
}

#[test]
fn n_4_deadline_joins_two_requests_that_a_bio_connects() {
    let mut rig = plugged("deadline");
    rig.write(0, 8);
    rig.write(16, 8);
    rig.write(8, 8);
    assert_eq!(rig.requests(), 2);
    assert_eq!(rig.stack.counters().joined, 1);
    rig.run_dry();
    assert_eq!(rig.log(), ["W(0,24)"]);
    assert_eq!(rig.finished.len(), 4);
}

#[test]
fn n_5_noop_joins_only_neighbours_of_its_list() {
    let mut rig = plugged("noop");
    rig.write(0, 8);
    rig.write(900, 8);
    rig.write(16, 8);
    rig.write(8, 8);
    assert_eq!(rig.requests(), 4);
    rig.run_dry();
    assert_eq!(rig.log(), ["W(0,16)", "W(900,8)", "W(16,8)"]);
}

#[test]
fn n_6_priorities_must_agree_in_the_multi_queue_profile_only() {
    let submit = |rig: &mut Rig| {
        for (start, level) in [(0, 4), (8, 2)] {
            rig.submit(ProcId(0), |io| {
                *io = Io::read(io.id.0, io.proc, start, 8);
                io.prio = IoPrio::be(level);
            });
        }
    };
    let mut rig = plugged("mq-deadline");
    submit(&mut rig);
    assert_eq!(rig.requests(), 3);
    let mut rig = plugged("deadline");
    submit(&mut rig);
    assert_eq!(rig.requests(), 2);
    rig.complete();
    let id = rig.device[0];
    assert_eq!(rig.stack.request(id).prio, IoPrio::be(2), "the better of the two");
}

#[test]
fn n_7_the_legacy_plug_opens_after_3_ms_or_at_the_fourth_request_or_at_once() {
    let mut rig = rig_of("noop", |_| {});
    rig.write(0, 8);
    assert!(rig.log.is_empty());
    rig.at(Nanos::ms(3)).tick();
    assert_eq!(rig.log(), ["W(0,8)"]);

    let mut rig = rig_of("noop", |_| {});
    rig.at(Nanos::ms(1));
    for i in 0..3 {
        rig.write(100 * i, 8);
    }
    assert!(rig.log.is_empty());
    rig.write(1000, 8);
    assert_eq!(rig.log.len(), 4);

    let mut rig = rig_of("noop", |_| {});
    rig.submit(ProcId(0), |io| io.flags = Flags::UNPLUG);
    assert_eq!(rig.log.len(), 1);

    let mut rig = rig_of("noop", |d| d.rotational = false);
    rig.write(0, 8);
    assert_eq!(rig.log.len(), 1, "a non-rotational device with tags is never plugged");
}

#[test]
fn n_8_a_batcher_may_pass_the_full_pool_for_20_ms() {
    let mut rig = rig_of("noop", |d| {
        d.queue_depth = 1;
        d.nr_requests = 128;
    });
    for i in 0..127 {
        rig.write(100 * i, 8);
    }
    assert_eq!(rig.accepted.len(), 127);
    let q = rig.submit(ProcId(1), |io| *io = Io::write(io.id.0, io.proc, 1_000_000, 8));
    assert!(rig.accepted.contains(&q), "the one that marks the pool full becomes the batcher");
    let p = rig.write(50_000, 8);
    assert!(!rig.accepted.contains(&p));
    for i in 0..31 {
        rig.submit(ProcId(1), |io| *io = Io::write(io.id.0, io.proc, 2_000_000 + 100 * i, 8));
    }
    assert_eq!(rig.accepted.len(), 127 + 32);
    let more = rig.submit(ProcId(1), |io| *io = Io::write(io.id.0, io.proc, 3_000_000, 8));
    assert!(!rig.accepted.contains(&more), "32 requests are a batch");
    let sync = rig.read(4_000_000, 8);
    assert!(rig.accepted.contains(&sync), "the sync pool is another one");
    rig.run_dry();
    assert_eq!(rig.finished.len() as u64, rig.last_io());
}

#[test]
fn n_9_congestion_marks() {
    assert_eq!(Legacy::congestion_marks(128), (113, 103));
    assert_eq!(Legacy::congestion_marks(4), (4, 3));
}

#[test]
fn n_10_the_pool_follows_the_depth() {
    let nr = |scheduler: &str, depth: u32| {
        rig_of(scheduler, |d| d.queue_depth = depth).stack.env().device.nr_requests
    };
    assert_eq!(nr("mq-deadline", 32), 64);
    assert_eq!(nr("none", 32), 32);
    assert_eq!(nr("mq-deadline", 1023), 256);
    assert_eq!(nr("mq-deadline", 1), 2);
}

#[test]
fn n_12_with_overask_one_request_too_many_waits_in_the_residual_list() {
    for overask in [true, false] {
        let mut rig = rig_of("mq-deadline", |d| {
            d.queue_depth = 2;
            d.overask = overask;
        });
        rig.input(Input::Plug(ProcId(0)));
        for i in [10, 20, 30, 40] {
            rig.read(100 * i, 8);
        }
        rig.input(Input::Unplug(ProcId(0)));
        assert_eq!(rig.log(), ["R(1000,8)", "R(2000,8)"]);
        // The fourth can still merge in any case, the third only if it has not left the scheduler.
        rig.read(4008, 8);
        rig.read(3008, 8);
        assert_eq!(rig.requests(), 4);
        assert_eq!(rig.accepted.len(), if overask { 5 } else { 6 });
        rig.complete();
        assert_eq!(rig.log(), [if overask { "R(3000,8)" } else { "R(3000,16)" }]);
    }
}

#[test]
fn n_13_the_busy_indicator_decays() {
    let q = QueueId(0);
    let mut runs = crate::env::Runs::new(1);
    runs.sent(q, false);
    runs.sent(q, true);
    assert!(runs.busy(q));
    runs.sent(q, true);
    assert!(!runs.busy(q));
}

#[test]
fn n_16_a_plug_holds_32_requests_and_is_flushed_behind_a_large_one() {
    let mut rig = rig_of("none", |d| d.queue_depth = 64);
    rig.input(Input::Plug(ProcId(0)));
    for i in 0..32 {
        rig.read(1000 * i, 8);
    }
    assert!(rig.log.is_empty());
    rig.read(100_000, 8);
    assert_eq!(rig.log().len(), 32);
    rig.input(Input::Unplug(ProcId(0)));
    assert_eq!(rig.log(), ["R(100000,8)"]);

    rig.input(Input::Plug(ProcId(0)));
    rig.read(0, 256);
    rig.read(5000, 8);
    assert_eq!(rig.log(), ["R(0,256)"]);
    rig.read(5008, 8);
    rig.input(Input::Sleep(ProcId(0)));
    assert_eq!(rig.log(), ["R(5000,16)"], "merged in the plug");
}

#[test]
fn n_17_fsyncs_share_a_flush() {
    let mut rig = rig_of("none", |d| {
        d.write_cache = true;
        d.flush_kick_delay = Nanos::ZERO;
    });
    let journal = |rig: &mut Rig, start: u64| {
        rig.submit(ProcId(0), |io| {
            *io = Io::write(io.id.0, io.proc, start, 8);
            io.flags = Flags::SYNC | Flags::PREFLUSH | Flags::FUA;
        })
    };
    journal(&mut rig, 0);
    assert_eq!(rig.log(), ["F"]);
    rig.at(Nanos::ms(1));
    journal(&mut rig, 100);
    journal(&mut rig, 200);
    assert!(rig.log.is_empty());
    rig.at(Nanos::ms(5)).complete();
    assert_eq!(rig.log(), ["W(0,8)"], "no flush while data of a sequence is in flight");
    rig.at(Nanos::ms(8)).complete();
    assert_eq!(rig.log(), ["F"], "one flush for all three");
    assert!(rig.finished.is_empty());
    rig.at(Nanos::ms(13)).complete();
    assert_eq!(rig.finished, [1]);
    let mut data = rig.log();
    data.sort();
    assert_eq!(data, ["W(100,8)", "W(200,8)"]);
    rig.run_dry();
    assert_eq!(rig.finished.len(), 3);
}

#[test]
fn a_device_without_a_cache_completes_a_flush_at_once() {
    let mut rig = rig_of("none", |_| {});
    rig.submit(ProcId(0), |io| {
        io.op = Op::Flush;
        io.sectors = Sectors(0);
    });
    assert_eq!((rig.accepted.len(), rig.finished.len(), rig.log.len()), (1, 1, 0));
}

#[test]
fn a_flush_that_follows_a_completion_lets_waiting_commands_go_first() {
    let mut rig = rig_of("none", |d| {
        d.write_cache = true;
        d.flush_nonqueued = true;
    });
    let flush = |rig: &mut Rig, proc| {
        rig.submit(ProcId(proc), |io| {
            io.op = Op::Flush;
            io.sectors = Sectors(0);
        })
    };
    flush(&mut rig, 0);
    assert_eq!(rig.log(), ["F"]);
    flush(&mut rig, 1);
    rig.read(0, 8);
    assert!(rig.log.is_empty(), "nothing passes a flush that runs alone");
    rig.at(Nanos::ms(2)).complete();
    assert_eq!(rig.log(), ["R(0,8)"]);
    assert_eq!(rig.wake, Some(Instant::ZERO + Nanos::ms(2) + Nanos::us(20)));
    rig.at(Nanos::ms(2) + Nanos::us(20)).tick();
    assert_eq!(rig.log(), ["F"]);
    rig.run_dry();
    assert_eq!(rig.finished.len(), 3);
}

#[test]
fn to_kyber_an_empty_flush_is_a_write_that_has_been_in_the_device_for_ever() {
    let samples = |rig: &Rig| {
        let mut of_writes = Vec::new();
        rig.stack.scheduler().figures(&mut |f| {
            if matches!(f.name, "total_samples" | "io_samples")
                && f.of.is_some_and(|of| of / 8 == 1)
            {
                of_writes.push(f.value);
            }
        });
        of_writes
    };
    for counted in [true, false] {
        let mut rig = rig_of("kyber", |d| {
            d.write_cache = true;
            d.flush_nonqueued = true;
        });
        let (name, value) = ("flush_samples".to_string(), counted.into());
        rig.input(Input::Set { stage: StageName::Scheduler, name, value });
        rig.at(Nanos::secs(10));
        rig.submit(ProcId(0), |io| {
            io.op = Op::Flush;
            io.sectors = Sectors(0);
        });
        rig.at(Nanos::secs(10) + Nanos::ms(3)).complete();
        assert_eq!(rig.finished.len(), 1);
        // 3 ms of a target of 10 in all, and the whole of the clock in the device.
        let n = i64::from(counted);
        assert_eq!(samples(&rig), [0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]);
    }
}

#[test]
fn n_18_a_barrier_drains_flushes_writes_and_flushes() {
    let mut rig = rig_of("noop", |d| {
        d.write_cache = true;
        d.queue_depth = 2;
        d.rotational = false;
    });
    rig.write(0, 8);
    rig.write(100, 8);
    rig.write(200, 8);
    rig.submit(ProcId(0), |io| {
        *io = Io::write(io.id.0, io.proc, 300, 8);
        io.flags = Flags::BARRIER;
    });
    rig.write(400, 8);
    rig.run_dry();
    assert_eq!(rig.log(), ["W(0,8)", "W(100,8)", "W(200,8)", "F", "W(300,8)", "F", "W(400,8)"]);
    assert_eq!(rig.finished.len(), 5);
}

#[test]
fn n_20_a_discard_is_split_so_that_pieces_end_aligned() {
    let mut rig = rig_of("none", |d| {
        d.max_discard_sectors = Sectors(100);
        d.discard_granularity = Sectors(8);
    });
    rig.submit(ProcId(0), |io| {
        *io = Io::write(io.id.0, io.proc, 4, 200);
        io.op = Op::Discard;
    });
    assert_eq!(rig.log(), ["D(4,92)", "D(96,96)", "D(192,12)"]);
    rig.run_dry();
    assert_eq!(rig.finished, [1]);
}

#[test]
fn a_large_read_is_split_at_the_limit_and_finishes_once() {
    let mut rig = rig_of("none", |_| {});
    let io = rig.read(0, 2500);
    assert_eq!(rig.log(), ["R(0,1024)", "R(1024,1024)", "R(2048,452)"]);
    assert_eq!(rig.accepted, [io]);
    rig.run_dry();
    assert_eq!(rig.finished, [io]);
}

#[test]
fn n_21_a_completion_alone_does_not_run_the_queue() {
    let mut rig = rig_of("mq-deadline", |d| d.tick = Nanos::ms(10));
    let rt = |rig: &mut Rig, start| {
        rig.submit(ProcId(0), |io| {
            *io = Io::read(io.id.0, io.proc, start, 8);
            io.prio = IoPrio::rt(4);
        });
    };
    rt(&mut rig, 0);
    assert_eq!(rig.log(), ["R(0,8)"]);
    rig.submit(ProcId(1), |io| *io = Io::read(io.id.0, io.proc, 1000, 8));
    rig.submit(ProcId(2), |io| *io = Io::read(io.id.0, io.proc, 2000, 8));
    assert!(rig.log.is_empty());
    assert_eq!(rig.wake, Some(Instant::ZERO + Nanos::ms(20)));
    rig.at(Nanos::ms(2)).complete();
    assert!(rig.log.is_empty());
    rig.at(Nanos::us(2010));
    rt(&mut rig, 5000);
    assert_eq!(rig.log(), ["R(5000,8)"]);
    rig.at(Nanos::ms(4)).complete();
    assert!(rig.log.is_empty());
    rig.at(Nanos::ms(20)).tick();
    assert_eq!(rig.log(), ["R(1000,8)", "R(2000,8)"]);
}

#[test]
fn n_21_who_closes_a_plug_may_leave_the_delayed_rerun_pending() {
    let wake_after = |keeps: bool| {
        let mut rig = rig_of("mq-deadline", |d| {
            d.tick = Nanos::ms(10);
            d.plug_keeps_rerun = keeps;
        });
        let rt = |rig: &mut Rig, start| {
            rig.submit(ProcId(0), |io| {
                *io = Io::read(io.id.0, io.proc, start, 8);
                io.prio = IoPrio::rt(4);
            });
        };
        rt(&mut rig, 0);
        rig.submit(ProcId(1), |io| *io = Io::read(io.id.0, io.proc, 1000, 8));
        assert_eq!(rig.wake, Some(Instant::ZERO + Nanos::ms(20)));
        rig.at(Nanos::ms(2)).complete();
        rig.at(Nanos::ms(15));
        rig.input(Input::Plug(ProcId(0)));
        rt(&mut rig, 5000);
        rig.input(Input::Unplug(ProcId(0)));
        assert_eq!(rig.log(), ["R(0,8)", "R(5000,8)"]);
        rig.wake
    };
    assert_eq!(wake_after(false), Some(Instant::ZERO + Nanos::ms(30)), "the run replaces it");
    assert_eq!(wake_after(true), Some(Instant::ZERO + Nanos::ms(20)));
}

/// Two RT reads in flight, best-effort reads held back for them.
fn rt_before_be(edit: impl FnOnce(&mut Device)) -> Rig {
    let mut rig = rig_of("mq-deadline", |d| {
        d.tick = Nanos::ms(10);
        edit(d);
    });
    for (proc, start) in [(0, 0), (1, 5000)] {
        rig.submit(ProcId(proc), |io| {
            *io = Io::read(io.id.0, io.proc, start, 8);
            io.prio = IoPrio::rt(4);
        });
    }
    rig.submit(ProcId(2), |io| *io = Io::read(io.id.0, io.proc, 1000, 8));
    rig.submit(ProcId(3), |io| *io = Io::read(io.id.0, io.proc, 2000, 8));
    assert_eq!(rig.log(), ["R(0,8)", "R(5000,8)"]);
    rig
}

fn before_5_10(d: &mut Device) {
    d.run_at_completion = RunAtCompletion::Scsi;
    d.delayed_rerun = false;
}

#[test]
fn before_5_10_scsi_runs_the_queues_at_every_completion() {
    // After 10 s mq-deadline lets the best-effort reads pass, as soon as it is asked.
    let after_one = |scsi: bool, device: fn(&mut Device)| {
        let mut rig = rt_before_be(|d| {
            device(d);
            d.scsi = scsi;
            d.delayed_rerun = false;
        });
        assert_eq!(rig.wake, None, "no delayed rerun");
        rig.at(Nanos::secs(11)).complete();
        rig.log()
    };
    assert_eq!(after_one(true, before_5_10), ["R(1000,8)", "R(2000,8)"]);
    assert!(after_one(false, before_5_10).is_empty(), "NVMe never did");
    assert!(after_one(true, |_| {}).is_empty(), "nor SCSI from 5.10 on");
}

#[test]
fn without_the_delayed_rerun_an_idle_device_is_not_left_with_requests_withheld() {
    let mut rig = rt_before_be(before_5_10);
    rig.at(Nanos::ms(2)).complete();
    assert!(rig.log().is_empty() && rig.wake.is_none(), "an RT read is in flight");
    rig.at(Nanos::ms(3)).complete();
    assert_eq!(rig.log(), ["R(1000,8)", "R(2000,8)"]);
    rig.run_dry();
    assert_eq!(rig.finished.len(), 4);
}

#[test]
fn a_submitter_waits_for_a_tag_and_goes_on() {
    for wait in [crate::device::TagWait::Kernel, crate::device::TagWait::Fifo] {
        let mut rig = rig_of("none", |d| {
            d.queue_depth = 4;
            d.tag_wait = wait;
        });
        for i in 0..6u32 {
            rig.submit(ProcId(i), |io| *io = Io::read(io.id.0, io.proc, 1000 * u64::from(i), 8));
        }
        assert_eq!(rig.accepted, [1, 2, 3, 4]);
        rig.complete();
        assert_eq!(rig.accepted, [1, 2, 3, 4, 5]);
        rig.run_dry();
        assert_eq!(rig.finished.len(), 6);
    }
}

#[test]
fn a_freed_kyber_token_runs_the_queue_that_waits_for_it() {
    let mut rig = rig_of("kyber", |d| d.queue_depth = 128);
    for i in 0..20 {
        rig.submit(ProcId(0), |io| {
            *io = Io { op: Op::WriteZeroes, ..Io::write(io.id.0, io.proc, 1000 * i, 8) };
        });
    }
    assert_eq!(rig.log().len(), 16, "the tokens of that domain");
    rig.at(Nanos::us(100)).complete();
    assert_eq!(rig.log(), ["Z(16000,8)"], "at once, not with the delayed rerun");
    rig.run_dry();
    assert_eq!(rig.finished.len(), 20);
}

#[test]
fn under_kyber_async_writes_leave_a_quarter_of_the_tags() {
    let mut rig = rig_of("kyber", |d| d.queue_depth = 128);
    assert_eq!(rig.stack.env().device.nr_requests, 256);
    let write = |rig: &mut Rig, start, flags| {
        rig.submit(ProcId(1), |io| *io = Io { flags, ..Io::write(io.id.0, io.proc, start, 8) })
    };
    for i in 0..192 {
        let io = write(&mut rig, 1000 * i, Flags::NONE);
        assert!(rig.accepted.contains(&io), "48 of each of four words");
    }
    let waits = write(&mut rig, 500, Flags::NONE);
    assert!(!rig.accepted.contains(&waits), "the last 16 of each word are for others");
    let sync = write(&mut rig, 2500, Flags::SYNC);
    let read = rig.read(3500, 8);
    assert!(rig.accepted.contains(&sync) && rig.accepted.contains(&read));
    rig.run_dry();
    assert_eq!(rig.finished.len(), 195);
}

/// What a waiter may have is decided when it first asks. Four writers fill what `async_depth` leaves them;
/// raising the tunable afterwards lets newcomers in, while those that wait go on as they began.
#[test]
fn a_sleeper_keeps_the_depth_it_came_with() {
    for wait in [crate::device::TagWait::Kernel, crate::device::TagWait::Fifo] {
        let mut rig = rig_of("mq-deadline", |d| {
            d.queue_depth = 8;
            d.tag_wait = wait;
        });
        let write = |rig: &mut Rig, proc: u32| {
            let start = 1000 * (1 + u64::from(proc));
            rig.submit(ProcId(proc), |io| *io = Io::write(io.id.0, io.proc, start, 8))
        };
        let stage = StageName::Scheduler;
        rig.input(Input::Set { stage: stage.clone(), name: "async_depth".into(), value: 4 });
        let first: Vec<u64> = (0..4).map(|p| write(&mut rig, p)).collect();
        assert_eq!(rig.accepted, first, "one place of each of four words");
        let waits = write(&mut rig, 4);
        rig.input(Input::Set { stage, name: "async_depth".into(), value: 16 });
        let more = write(&mut rig, 5);
        assert!(rig.accepted.contains(&more) && !rig.accepted.contains(&waits));
        // `more` is not in one of the four first places: its end lets nobody in.
        let at = rig.device.iter().position(|&id| rig.stack.request(id).proc == ProcId(5));
        let req = rig.device.remove(at.expect("room for all eight"));
        rig.input(Input::Done { req, error: None });
        assert!(!rig.accepted.contains(&waits), "{wait:?}");
        rig.complete();
        assert!(rig.accepted.contains(&waits), "{wait:?}");
        rig.run_dry();
        assert_eq!(rig.finished.len(), 6);
    }
}

/// How many writes find a tag when `async_depth` is 2 of 16, or as changed before.
fn writes_admitted(changes: &[(&str, u64)]) -> usize {
    let mut rig = rig_of("mq-deadline", |d| d.queue_depth = 8);
    for &(name, value) in changes {
        rig.input(Input::Set { stage: StageName::Queue, name: name.into(), value });
    }
    let (stage, name) = (StageName::Scheduler, "async_depth".into());
    rig.input(Input::Set { stage, name, value: 2 });
    for proc in 0..8 {
        let start = 1000 * (1 + u64::from(proc));
        rig.submit(ProcId(proc), |io| *io = Io::write(io.id.0, io.proc, start, 8));
    }
    let admitted = rig.accepted.len();
    rig.run_dry();
    assert_eq!(rig.finished.len(), 8);
    admitted
}

#[test]
fn a_depth_is_one_of_each_word_or_of_the_whole_set() {
    assert_eq!(writes_admitted(&[]), 4, "the first of each of four words of 4");
    assert_eq!(writes_admitted(&[("tags", 1)]), 2);
    assert_eq!(writes_admitted(&[("tags", 1), ("tags", 0)]), 4);
}

#[test]
fn fewer_requests_keep_the_words_and_more_make_new_ones() {
    assert_eq!(writes_admitted(&[("nr_requests", 8)]), 2, "two words of 4 are left");
    assert_eq!(writes_admitted(&[("nr_requests", 8), ("nr_requests", 16)]), 4);
    assert_eq!(writes_admitted(&[("nr_requests", 64)]), 4, "four words of 16");
}

#[test]
fn flushes_and_forced_writes_may_have_any_tag() {
    let mut rig = rig_of("mq-deadline", |d| {
        d.queue_depth = 8;
        d.write_cache = true;
    });
    let (stage, name) = (StageName::Scheduler, "async_depth".into());
    rig.input(Input::Set { stage, name, value: 4 });
    let write = |rig: &mut Rig, proc: u32, flags| {
        let start = 1000 * (1 + u64::from(proc));
        rig.submit(ProcId(proc), |io| *io = Io { flags, ..Io::write(io.id.0, io.proc, start, 8) })
    };
    for proc in 0..4 {
        write(&mut rig, proc, Flags::NONE);
    }
    let plain = write(&mut rig, 4, Flags::NONE);
    let forced = write(&mut rig, 5, Flags::FUA);
    assert!(!rig.accepted.contains(&plain) && rig.accepted.contains(&forced));
    rig.run_dry();
    assert_eq!(rig.finished.len(), 6);
}

#[test]
fn a_requeued_command_is_issued_again() {
    for scheduler in sched::SCHEDULERS {
        let mut rig = rig_of(scheduler.name, |d| d.rotational = false);
        rig.read(0, 8);
        let req = rig.device.pop().unwrap();
        rig.input(Input::Requeue(req));
        assert_eq!(rig.log(), ["R(0,8)", "R(0,8)"], "{}", scheduler.name);
        rig.run_dry();
        assert_eq!(rig.finished, [1]);
    }
}

#[test]
fn a_bad_io_is_refused_and_changes_nothing() {
    let mut rig = rig_of("none", |_| {});
    let io = Io::read(1, ProcId(0), (1 << 30) - 4, 8);
    let refused = rig.stack.handle(rig.now, Input::Submit(io));
    assert_eq!(refused, Err(StackError::BadIo(IoId(1))));
    rig.poll();
    let stale = ReqId(crate::table::Handle { slot: 0, generation: 7 });
    let refused = rig.stack.handle(rig.now, Input::Done { req: stale, error: None });
    assert_eq!(refused, Err(StackError::StaleRequest(stale)));
    rig.poll();
    let stage = StageName::Scheduler;
    let set = Input::Set { stage, name: "no_such".into(), value: 1 };
    assert!(matches!(rig.stack.handle(rig.now, set), Err(StackError::Tunable(_))));
}

#[test]
fn the_scheduler_is_switched_when_the_last_request_is_gone() {
    let mut rig = rig_of("mq-deadline", |d| d.queue_depth = 2);
    for i in 0..4 {
        rig.read(1000 * i, 8);
    }
    rig.input(Input::SwitchScheduler(sched::find("none").unwrap()));
    let late = rig.read(50_000, 8);
    assert!(!rig.accepted.contains(&late), "new bios wait before the merge step");
    assert_eq!(rig.stack.scheduler_entry().name, "mq-deadline");
    rig.run_dry();
    assert_eq!(rig.stack.scheduler_entry().name, "none");
    assert_eq!(rig.stack.env().device.nr_requests, 2);
    assert_eq!(rig.finished.len(), 5);
}
