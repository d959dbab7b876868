//! Changes of the scheduler, of `nr_requests` and the end: no policy and no controller puts them off.

use super::*;
use crate::ctl;

fn switch_to(rig: &mut Rig, name: &str) {
    let entry = sched::find(name).expect("in the registry");
    rig.input(Input::SwitchScheduler(entry));
}

fn set(rig: &mut Rig, stage: StageName, name: &str, value: u64) {
    rig.input(Input::Set { stage, name: name.to_string(), value });
}

/// The device answers at once; the clock stands still.
fn answer_all(rig: &mut Rig) {
    for _ in 0..10_000 {
        if rig.device.is_empty() {
            return;
        }
        rig.complete();
    }
    panic!("it does not end");
}

/// A process reads one block after the other under `bfq`, so that the device is kept idle for it, others wait.
fn idling(name: &str) -> Rig {
    let mut rig = rig_of(name, |d| d.queue_depth = 1);
    set(&mut rig, StageName::Scheduler, "slice_idle", 600_000);
    for turn in 0..40 {
        rig.read(8 * turn, 8);
        rig.now += Nanos::us(300);
        rig.complete();
    }
    rig.submit(ProcId(1), |io| *io = Io::read(io.id.0, io.proc, 1 << 20, 8));
    rig.submit(ProcId(2), |io| *io = Io::write(io.id.0, io.proc, 1 << 21, 8));
    rig
}

#[test]
fn idling_puts_off_no_change_of_scheduler() {
    let mut waited = 0;
    for name in ["bfq", "bfq-v1", "bfq-v4", "cfq", "cfq-2.6.30", "cfq-2.6.38"] {
        for profile in [Profile::MultiQueue, Profile::Legacy] {
            let mut rig = rig_of(name, |d| {
                d.profile = profile;
                d.queue_depth = 1;
            });
            set(&mut rig, StageName::Scheduler, "slice_idle", 600_000);
            for turn in 0..40 {
                rig.submit(ProcId(0), |io| {
                    *io = Io::read(io.id.0, io.proc, 8 * turn, 8);
                    io.flags = Flags::UNPLUG;
                });
                rig.now += Nanos::us(300);
                rig.complete();
            }
            for proc in [1, 2] {
                rig.submit(ProcId(proc), |io| {
                    *io = Io::read(io.id.0, io.proc, u64::from(proc) << 20, 8);
                    io.flags = Flags::UNPLUG;
                });
            }
            waited += u32::from(rig.device.is_empty());
            switch_to(&mut rig, "mq-deadline");
            answer_all(&mut rig);
            assert!(!rig.stack.is_changing(), "{name} {profile:?}");
            assert_eq!(rig.stack.scheduler_entry().name, "mq-deadline");
            assert_eq!(rig.finished.len(), 42, "{name} {profile:?}");
        }
    }
    assert!(waited >= 4, "the device was kept idle under {waited} of them");
}

#[test]
fn an_open_plug_and_a_wait_for_a_tag_put_off_no_change() {
    for to in ["none", "bfq"] {
        let mut rig = rig_of("mq-deadline", |d| d.queue_depth = 2);
        rig.input(Input::Plug(ProcId(0)));
        for n in 0..3 {
            rig.read(1000 * n, 8);
        }
        for proc in 1..8 {
            rig.submit(ProcId(proc), |io| {
                *io = Io::write(io.id.0, io.proc, 9000 * u64::from(proc), 8)
            });
        }
        switch_to(&mut rig, to);
        let made = rig.requests();
        rig.submit(ProcId(7), |io| *io = Io::read(io.id.0, io.proc, 77, 8));
        assert_eq!(rig.requests(), made, "nothing new comes into being");
        for _ in 0..made {
            assert!(rig.stack.is_changing());
            rig.complete();
        }
        assert_eq!(rig.stack.scheduler_entry().name, to);
        rig.input(Input::Unplug(ProcId(0)));
        answer_all(&mut rig);
        assert_eq!(rig.finished.len(), 11);
    }
}

#[test]
fn of_many_changes_only_the_last_is_made() {
    let mut rig = rig_of("bfq", |d| d.queue_depth = 1);
    rig.read(0, 8);
    for n in 0..4500 {
        switch_to(&mut rig, ["kyber", "mq-deadline", "none", "bfq"][n % 4]);
        // `none` has no more requests than the device tags, which refuses some.
        let (name, value) = ("nr_requests".to_string(), 1 + n as u64 % 40);
        let _ = rig.stack.handle(rig.now, Input::Set { stage: StageName::Queue, name, value });
        rig.poll();
    }
    switch_to(&mut rig, "kyber");
    set(&mut rig, StageName::Queue, "nr_requests", 17);
    assert_eq!(rig.stack.scheduler_to_come().map(|e| e.name), Some("kyber"));
    rig.complete();
    assert_eq!(rig.stack.scheduler_entry().name, "kyber");
    assert_eq!(rig.stack.env().device.nr_requests, 17);
}

/// The held I/O stays with its controller; it goes to the new scheduler when its time comes.
#[test]
fn what_a_controller_holds_puts_off_no_change_and_goes_to_the_new_scheduler() {
    let mut rig = rig_of("bfq", |_| {});
    rig.stack.install(ctl::find("io.max").expect("in the registry"));
    let group = rig.stack.add_group(rig.now, GroupId::ROOT, "slow");
    rig.poll();
    rig.input(Input::Write { group, file: "io.max".into(), line: "8:0 riops=10".into() });
    for n in 0..20 {
        rig.submit(ProcId(0), |io| {
            *io = Io::read(io.id.0, io.proc, 999 * n, 8);
            io.group = group;
        });
    }
    assert!(rig.device.len() < 20, "some are held");
    switch_to(&mut rig, "kyber");
    answer_all(&mut rig);
    assert_eq!(rig.stack.scheduler_entry().name, "kyber");
    assert!(rig.finished.len() < 20);
    rig.run_dry();
    assert_eq!(rig.finished.len(), 20);
}

#[test]
fn at_the_end_everything_goes_as_fast_as_the_device_takes_it() {
    for entry in ctl::CONTROLLERS {
        let mut rig = idling("bfq");
        rig.stack.install(entry);
        rig.stack.install(ctl::find("io.max").expect("in the registry"));
        let group = rig.stack.add_group(rig.now, GroupId::ROOT, "slow");
        rig.poll();
        rig.input(Input::Write { group, file: "io.max".into(), line: "8:0 riops=2".into() });
        for n in 0..50 {
            rig.submit(ProcId(n % 8), |io| {
                *io = Io::read(io.id.0, io.proc, 4000 * u64::from(n), 8);
                io.group = group;
            });
        }
        switch_to(&mut rig, "kyber");
        let all = rig.last_io() as usize;
        rig.input(Input::End);
        answer_all(&mut rig);
        assert_eq!(rig.finished.len(), all, "{}: the clock stood still", entry.name);
        rig.read(0, 8);
        answer_all(&mut rig);
        assert_eq!(rig.finished.len(), all + 1, "what comes later is served as well");
    }
}

/// Three operations left a request queued for ever: the scheduler withheld it, named no time (the delayed
/// rerun of the multi-queue profile is what it counts on), and nothing else was under way.
#[test]
fn withholding_without_a_time_is_asked_again_in_the_legacy_profile() {
    for after in [105, 0, 600_000] {
        let mut rig = rig_of("deadline", |_| {});
        switch_to(&mut rig, "mq-deadline");
        set(&mut rig, StageName::Scheduler, "base", 0);
        rig.read(0, 8);
        set(&mut rig, StageName::Scheduler, "read_expire", after);
        for _ in 0..1000 {
            if !rig.device.is_empty() {
                break;
            }
            rig.now = rig.wake.expect("something queued and nothing at the device: a deadline");
            rig.tick();
        }
        rig.complete();
        assert_eq!(rig.finished, [1]);
    }
}
