//! Scenarios 18 to 20 of specs/io-max-throttling.md D, and the rules around them.

use super::*;
use crate::group::ProcId;
use crate::testkit::controller;
use crate::unit::Sectors;
use alloc::boxed::Box;

type Rig = controller::Rig<Wbt>;

impl Rig {
    fn wbt(edit: impl FnOnce(&mut Device)) -> Rig {
        let mut device = Device::new(Sectors(1 << 30), 64);
        edit(&mut device);
        Rig::new(device, |d| Box::new(Wbt::new(d)))
    }

    /// A bio at the gate.
    fn arrive(&mut self, op: Op, flags: Flags) -> (BioId, Verdict) {
        let start = 100 * self.bios();
        let io = self.io(crate::group::GroupId::ROOT, op, start, 8, flags);
        self.submit(io)
    }

    fn pass(&mut self, op: Op, flags: Flags) -> ReqId {
        let (bio, verdict) = self.arrive(op, flags);
        assert_eq!(verdict, Verdict::Pass);
        self.issue(bio)
    }

    /// How many of such bios pass at once.
    fn admitted(&mut self, op: Op, flags: Flags) -> u32 {
        let passed = (0..200).filter(|_| self.arrive(op, flags).1 == Verdict::Pass);
        passed.count() as u32
    }

    /// The window that is open ends.
    fn window(&mut self) {
        self.fire_timer();
    }

    fn depths(&mut self, step: i32) -> (u32, u32, u32, bool) {
        self.ctl.step = step;
        self.ctl.compute_depths();
        let d = self.ctl.depths;
        (d.max, d.normal, d.background, self.ctl.at_maximum)
    }
}

const BUFFERED: Flags = Flags::NONE;

#[test]
fn d_18_the_limits_of_each_step() {
    let mut rig = Rig::wbt(|_| {});
    assert_eq!(rig.depths(0), (16, 8, 4, false));
    assert_eq!(rig.depths(1), (8, 4, 2, false));
    assert_eq!(rig.depths(2), (4, 2, 1, false));
    assert_eq!(rig.depths(3), (2, 2, 1, false));
    assert_eq!(rig.depths(4), (1, 1, 1, false));
    assert_eq!(rig.depths(-1), (31, 16, 8, false));
    assert_eq!(rig.depths(-2), (48, 24, 12, true));
    let mut one = Rig::wbt(|d| d.queue_depth = 1);
    assert_eq!((one.depths(0).0, one.depths(3).0), (2, 1));
}

#[test]
fn d_19_a_slow_read_among_writes_halves_the_depth_and_shortens_the_window() {
    let mut rig = Rig::wbt(|_| {});
    let writes: Vec<ReqId> = (0..4).map(|_| rig.pass(Op::Write, BUFFERED)).collect();
    let read = rig.pass(Op::Read, Flags::NONE);
    rig.at(Nanos::us(2_500));
    rig.complete(read);
    writes.into_iter().for_each(|w| rig.complete(w));
    rig.window();
    assert_eq!((rig.now, rig.ctl.step), (Instant::ZERO + Nanos::ms(100), 1));
    let length = rig.ctl.next_timer().unwrap() - rig.now;
    assert_eq!(length, Nanos(1_600_000_000 / 22));
}

#[test]
fn d_20_windows_of_writes_alone_scale_up_to_the_maximum() {
    let mut rig = Rig::wbt(|_| {});
    for step in [-1, -2, -2] {
        let write = rig.pass(Op::Write, BUFFERED);
        rig.complete(write);
        rig.window();
        assert_eq!(rig.ctl.step, step);
    }
}

#[test]
fn a_fast_read_scales_up_and_a_slow_one_goes_back_to_step_0() {
    let mut rig = Rig::wbt(|_| {});
    for (read_us, step) in [(1_900, -1), (2_000, -2), (2_100, 0), (2_100, 1), (1_900, 0)] {
        let begin = rig.now;
        let reqs: Vec<ReqId> = (0..3).map(|_| rig.pass(Op::Write, Flags::SYNC)).collect();
        let read = rig.pass(Op::Read, Flags::NONE);
        rig.now = begin + Nanos::us(read_us);
        rig.complete(read);
        reqs.into_iter().for_each(|w| rig.complete(w));
        rig.window();
        assert_eq!(rig.ctl.step, step, "{read_us} us");
    }
}

#[test]
fn a_read_outstanding_beyond_the_target_counts_before_it_is_complete() {
    let mut rig = Rig::wbt(|_| {});
    rig.pass(Op::Write, BUFFERED);
    rig.at(Nanos::us(97_000));
    let read = rig.pass(Op::Read, Flags::NONE);
    // A second one is not watched.
    rig.at(Nanos::us(99_000));
    rig.pass(Op::Read, Flags::NONE);
    rig.window();
    assert_eq!(rig.ctl.step, 1, "3 ms and no other read is complete");
    // Given back by the device, it is not watched any more; the next issue is.
    let now = rig.now;
    rig.ctl.requeue(now, read, &mut rig.env.cx());
    assert_eq!(rig.ctl.watched, None);
    rig.ctl.issue(now, read, &mut rig.env.cx());
    assert_eq!(rig.ctl.watched, Some((read, now)));
}

#[test]
fn five_silent_windows_lead_a_step_back() {
    let mut rig = Rig::wbt(|_| {});
    rig.ctl.step = 2;
    rig.ctl.compute_depths();
    let now = rig.now;
    rig.ctl.open_window(now);
    let steps: Vec<i32> = core::iter::from_fn(|| {
        rig.window();
        Some(rig.ctl.step)
    })
    .take(10)
    .collect();
    assert_eq!(steps, [2, 2, 2, 2, 1, 1, 1, 1, 1, 0]);
    assert_eq!(rig.ctl.next_timer(), None, "at step 0 with nothing in flight it sleeps");
}

#[test]
fn each_kind_of_write_has_its_limit() {
    let kinds = [
        (Op::Write, BUFFERED, 8),
        (Op::Write, Flags::BACKGROUND, 4),
        (Op::Write, Flags::SYNC, 16),
        (Op::Write, Flags::META, 16),
        (Op::Write, Flags::SWAP, 16),
        (Op::Discard, Flags::NONE, 4),
        (Op::Write, Flags::SYNC | Flags::IDLE, 200),
        (Op::Read, Flags::NONE, 200),
        (Op::Flush, Flags::PREFLUSH, 200),
    ];
    for (op, flags, limit) in kinds {
        let mut rig = Rig::wbt(|_| {});
        assert_eq!(rig.admitted(op, flags), limit, "{op:?} {flags:?}");
    }
    // Beside a read of the last 100 ms a plain write counts as the flusher's.
    let mut rig = Rig::wbt(|_| {});
    rig.arrive(Op::Read, Flags::NONE);
    rig.at(Nanos::us(99_999));
    assert_eq!(rig.admitted(Op::Write, BUFFERED), 4);
    // A task that slept on the dirty limit waits for all of them, for a second.
    let mut rig = Rig::wbt(|_| {});
    let now = rig.now;
    rig.ctl.changed(now, &Change::DirtySlept(ProcId(0)), &mut rig.env.cx());
    rig.at(Nanos::us(999_999));
    assert_eq!(rig.admitted(Op::Write, Flags::BACKGROUND), 16);
    // Off.
    let mut rig = Rig::wbt(|_| {});
    rig.ctl.set(now, "target", 0, &mut rig.env.cx()).unwrap();
    assert_eq!(rig.admitted(Op::Write, BUFFERED), 200);
    assert_eq!(rig.ctl.next_timer(), None);
}

#[test]
fn waiters_go_in_order_when_enough_is_free() {
    let mut rig = Rig::wbt(|_| {});
    let reqs: Vec<ReqId> = (0..8).map(|_| rig.pass(Op::Write, BUFFERED)).collect();
    let waiting: Vec<BioId> = (0..3).map(|_| rig.arrive(Op::Write, BUFFERED).0).collect();
    assert_eq!(rig.release(), None);
    // With a background limit of 4, two free places are worth a wake-up.
    rig.complete(reqs[0]);
    assert_eq!(rig.release(), None);
    rig.complete(reqs[1]);
    assert_eq!(
        [rig.release(), rig.release(), rig.release()],
        [Some(waiting[0]), Some(waiting[1]), None]
    );
}

#[test]
fn behind_a_volatile_cache_waiters_go_when_all_are_written() {
    let mut rig = Rig::wbt(|d| d.write_cache = true);
    let reqs: Vec<ReqId> = (0..8).map(|_| rig.pass(Op::Write, BUFFERED)).collect();
    let (first, verdict) = rig.arrive(Op::Write, BUFFERED);
    assert_eq!(verdict, Verdict::Hold);
    for &req in &reqs[..7] {
        rig.complete(req);
        assert_eq!(rig.release(), None);
    }
    rig.complete(reqs[7]);
    assert_eq!(rig.release(), Some(first));
}

#[test]
fn turning_it_off_releases_all_and_the_default_follows_the_device() {
    let mut rig = Rig::wbt(|d| d.rotational = true);
    assert_eq!(rig.ctl.value("target"), Some(75_000));
    assert_eq!(rig.admitted(Op::Discard, Flags::NONE), 4);
    let now = rig.now;
    rig.ctl.set(now, "target", 0, &mut rig.env.cx()).unwrap();
    let released = core::iter::from_fn(|| rig.release()).count();
    assert_eq!(released, 196);
    for (name, value) in [("target", 10_000_001), ("window", 0), ("depth", 0), ("step", 1)] {
        assert!(rig.ctl.set(now, name, value, &mut rig.env.cx()).is_err(), "{name}");
    }
}
