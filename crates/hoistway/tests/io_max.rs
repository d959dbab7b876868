//! `io.max` inside the stack: scenarios 15 and 22 of specs/io-max-throttling.md D, the worker that carries
//! batches on, and the lines of the file.

use hoistway::ctl::{self, Controller, Entry, Gate, Verdict};
use hoistway::knob::KnobErrorKind;
use hoistway::setting::TunableError;
use hoistway::stack::{StackError, StageName};
use hoistway::stage::{Stage, StageInfo};
use hoistway::testkit::stack::Rig;
use hoistway::{BioId, Cx, Device, GroupId, Input, Instant, IoPrio, Nanos, Op, ProcId, Sectors};
use std::ops::{Deref, DerefMut};

const TICK_MS: u64 = 4;

/// A stack with one group under io.max.
struct Bench {
    rig: Rig,
    group: GroupId,
}

impl Deref for Bench {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

impl Bench {
    /// One group with the line written at the beginning; the device completes nothing by itself.
    fn new(scheduler: &str, line: &str, edit: impl FnOnce(&mut Device)) -> Bench {
        let mut rig = Rig::new(scheduler, |d| {
            d.rotational = false;
            edit(d);
        });
        rig.stack.install(ctl::find("io.max").unwrap());
        let group = rig.group(GroupId::ROOT, "a");
        rig.procs(group, 1);
        rig.procs(GroupId::ROOT, 1);
        let stage = StageName::Controller("io.max".into());
        rig.input(Input::Set { stage, name: "tick_timers".into(), value: 1 });
        let mut bench = Bench { rig, group };
        if !line.is_empty() {
            bench.limit(line);
        }
        bench
    }

    fn line(&self, line: &str) -> Input {
        Input::Write { group: self.group, file: "io.max".into(), line: format!("8:0 {line}\n") }
    }

    fn limit(&mut self, line: &str) {
        let line = self.line(line);
        self.rig.input(line);
    }

    /// What was issued: in which tick, first sector, sectors.
    fn issued(&self) -> Vec<(u64, u64, u64)> {
        let tick = |at: Instant| at.as_nanos() / 1_000_000 / TICK_MS;
        self.rig.issued.iter().map(|i| (tick(i.at), i.start, i.sectors)).collect()
    }

    fn read_file(&mut self) -> String {
        self.rig.stack.read_knob(self.group, "io.max").unwrap()
    }

    fn io(&mut self, proc: u32, op: Op, start: u64, sectors: u64) -> u64 {
        self.rig.submit(ProcId(proc), |io| {
            (io.op, io.start, io.sectors) = (op, Sectors(start), Sectors(sectors));
        })
    }

    /// Lets time pass up to a tick, included.
    fn run_to(&mut self, tick: u64) {
        self.rig.run_until(Instant::ZERO + Nanos::ms(tick * TICK_MS));
    }

    fn done(&mut self, at: usize) {
        self.rig.answer(at, None);
    }

    fn gauge(&mut self, name: &str) -> i64 {
        let group = self.group;
        self.rig.gauge("io.max", name, Some(group)).unwrap()
    }
}

/// Scenario 15: bytes are charged once, I/Os once per piece.
#[test]
fn a_split_io_counts_its_bytes_once_and_each_piece_as_an_io() {
    // 2 MiB and one I/O per slice.
    let mut b = Bench::new("none", "rbps=20971520 riops=10", |_| {});
    b.io(0, Op::Read, 0, 2 * 1024);
    assert_eq!(b.issued(), [(0, 0, 1024)]);
    assert_eq!(b.accepted, [1], "the rest waits without its submitter");
    b.run_to(30);
    assert_eq!(b.issued()[1..], [(25, 1024, 1024)]);
    assert_eq!(b.gauge("allowed"), 1 << 20);
    let stat = b.stack.io_stat(b.group);
    assert_eq!((stat.rbytes, stat.rios), (1 << 20, 2));
}

/// Scenario 22: what one timer releases is merged in the worker's plug.
#[test]
fn contiguous_ios_of_a_batch_become_one_request() {
    for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
        // Nothing fits before 128 KiB have been saved for each.
        let mut b = Bench::new(scheduler, "rbps=2000", |_| {});
        for i in 0..4 {
            b.io(0, Op::Read, 256 * i, 256);
        }
        assert_eq!((b.accepted.len(), b.issued().len()), (4, 0));
        assert_eq!(b.gauge("queued"), 4);
        b.run_to(10);
        b.limit("rbps=max");
        assert_eq!(b.issued(), [(10, 0, 1024)], "{scheduler}");
        assert_eq!(b.stack.counters().merged, 3);
        b.done(0);
        assert_eq!(b.finished, [1, 2, 3, 4]);
    }
}

/// A request of 128 KiB in the plug is sent when the next is added, which does not join it.
#[test]
fn a_batch_of_large_distant_ios_is_sent_one_by_one_and_small_ones_at_the_end() {
    for (lifo, small) in [(false, [1, 2, 3]), (true, [3, 2, 1])] {
        let mut b = Bench::new("none", "rbps=2000", |d| d.none_plug_lifo = lifo);
        for i in 1..=3 {
            b.io(0, Op::Read, 100_000 * i, 256);
        }
        b.limit("rbps=max");
        let starts: Vec<u64> = b.issued().iter().map(|i| i.1 / 100_000).collect();
        assert_eq!(starts, [1, 2, 3]);
        let mut b = Bench::new("none", "riops=10", |d| d.none_plug_lifo = lifo);
        b.io(0, Op::Read, 0, 8);
        b.rig.issued.clear();
        for i in 1..=3 {
            b.io(0, Op::Read, 100_000 * i, 8);
        }
        b.limit("riops=max");
        let starts: Vec<u64> = b.issued().iter().map(|i| i.1 / 100_000).collect();
        assert_eq!(starts, small);
    }
}

#[test]
fn a_worker_that_waits_for_a_tag_holds_up_later_batches() {
    let mut b = Bench::new("none", "riops=50", |d| {
        d.queue_depth = 2;
        d.nr_requests = 2;
    });
    // The device is full with I/O of the root.
    b.io(1, Op::Read, 900_000, 8);
    b.io(1, Op::Read, 910_000, 8);
    // The fifth waits for a tag; of those behind it five pass per slice.
    for i in 0..15 {
        b.io(0, Op::Read, 1000 * i, 8);
    }
    let waits = b.stack.counters().tag_waits;
    b.run_to(60);
    assert_eq!(b.gauge("queued"), 0, "all have passed io.max");
    assert_eq!(b.issued().len(), 2);
    // One more task at most waits for a tag: the worker. The others of its batches stand behind it.
    assert_eq!(b.stack.counters().tag_waits, waits + 1);
    for _ in 0..40 {
        if !b.device.is_empty() {
            b.done(0);
        }
    }
    let mut starts: Vec<u64> = b.issued().iter().skip(2).map(|i| i.1 / 1000).collect();
    assert_eq!(starts.len(), 15);
    // Five were let through with their submitters, who wait themselves; the worker keeps the order.
    starts.retain(|&s| s >= 5);
    assert_eq!(starts, (5..15).collect::<Vec<u64>>());
    b.run_to(100);
    assert_eq!(b.finished.len(), 17);
}

/// A controller of gate 2 that holds everything until it is opened.
#[derive(Debug, Default)]
struct Door {
    waiting: std::collections::VecDeque<BioId>,
    open: bool,
}

static DOOR: Entry = Entry {
    stage: StageInfo {
        name: "door",
        summary: "holds everything until it is opened",
        source: "this file",
        tunables: &[hoistway::setting::Tunable::new(
            "open",
            hoistway::setting::Unit::Switch,
            0,
            (0, 1),
            "",
        )],
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    gate: Gate::BeforeTag,
    build: &|_| Box::new(Door::default()),
};

impl Controller for Door {
    fn submit(&mut self, _: Instant, bio: BioId, _: &mut Cx<'_>) -> Verdict {
        if self.open {
            return Verdict::Pass;
        }
        self.waiting.push_back(bio);
        Verdict::Hold
    }

    fn release(&mut self, _: Instant, _: &mut Cx<'_>) -> Option<BioId> {
        if self.open { self.waiting.pop_front() } else { None }
    }
}

impl Stage for Door {
    fn info(&self) -> &'static StageInfo {
        &DOOR.stage
    }

    fn set(&mut self, _: Instant, _: &str, value: u64, _: &mut Cx<'_>) -> Result<(), TunableError> {
        self.open = value == 1;
        Ok(())
    }

    fn value(&self, _: &str) -> Option<u64> {
        Some(u64::from(self.open))
    }

    fn set_group(
        &mut self,
        _: Instant,
        _: GroupId,
        name: &str,
        _: Option<u64>,
        _: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        Err(TunableError::Unknown { name: name.into(), stage: "door" })
    }
}

#[test]
fn a_worker_that_waits_at_the_second_gate_holds_up_later_batches() {
    let mut b = Bench::new("none", "riops=10", |_| {});
    b.stack.install(&DOOR);
    for i in 0..4 {
        b.io(0, Op::Read, 1000 * i, 8);
    }
    b.run_to(100);
    assert_eq!(b.gauge("queued"), 0);
    // The first stands there with its submitter, the second with the worker; two more behind it.
    assert_eq!(b.accepted, [2, 3, 4]);
    let stage = StageName::Controller("door".into());
    b.input(Input::Set { stage, name: "open".into(), value: 1 });
    let starts: Vec<u64> = b.issued().iter().map(|i| i.1 / 1000).collect();
    assert_eq!(starts, [0, 1, 2, 3]);
    assert_eq!(b.accepted, [2, 3, 4, 1]);
}

#[test]
fn the_file_prints_what_was_written_and_keeps_it_when_a_line_is_refused() {
    let mut b = Bench::new("none", "", |_| {});
    let read = |b: &mut Bench| b.read_file();
    assert_eq!(read(&mut b), "");
    b.limit("rbps=2097152 wiops=120");
    assert_eq!(read(&mut b), "8:0 rbps=2097152 wbps=max riops=max wiops=120\n");
    b.limit("wiops=max");
    let kept = "8:0 rbps=2097152 wbps=max riops=max wiops=max\n";
    assert_eq!(read(&mut b), kept);
    use KnobErrorKind::{Invalid, NoDevice, Range};
    let refused = [
        ("8:0 rbps=0", Range, "rbps=0"),
        ("8:0 rbps=1", Invalid, "rbps=1"),
        ("8:0 rbps=5 foo=3", Invalid, "no key 'foo'"),
        ("8:0 rbps", Invalid, "no '='"),
        ("8:0 rbps=-5", Invalid, "not a decimal number"),
        ("8:0 rbps=", Invalid, "not a decimal number"),
        ("8:0 rbps=18446744073709551616", Range, "above 2^64 - 1"),
        ("8:16 rbps=5", NoDevice, "8:16"),
        ("rbps=5", Invalid, ""),
        ("8:0", Invalid, ""),
    ];
    for (line, kind, what) in refused {
        let (group, file) = (b.group, "io.max".to_string());
        let input = Input::Write { group, file, line: line.into() };
        let error = b.refuse(input);
        let text = error.to_string();
        let StackError::Knob { error, form, .. } = error else { panic!("{error:?}") };
        assert_eq!(error.kind, kind, "{line}");
        assert!(text.contains(what) && text.contains(form), "{text}");
        assert_eq!(read(&mut b), kept, "{line}");
    }
    // Rates of I/Os are 32 bits wide: more is no limit.
    b.limit("rbps=max riops=4294967295");
    assert_eq!(read(&mut b), "");
    b.limit("riops=4294967294");
    assert_eq!(read(&mut b), "8:0 rbps=max wbps=max riops=4294967294 wiops=max\n");
    let root =
        Input::Write { group: GroupId::ROOT, file: "io.max".into(), line: "8:0 rbps=5".into() };
    assert!(matches!(
        b.refuse(root),
        StackError::Knob { error, .. } if error.kind == KnobErrorKind::Unsupported
    ));
}

#[test]
fn the_rates_are_tunables_of_a_group_too() {
    let mut b = Bench::new("none", "", |_| {});
    let set = |b: &Bench, name: &str, value| Input::SetGroup {
        group: b.group,
        stage: StageName::Controller("io.max".into()),
        name: name.into(),
        value,
    };
    let input = set(&b, "riops", Some(100));
    b.input(input);
    assert_eq!(b.read_file(), "8:0 rbps=max wbps=max riops=100 wiops=max\n");
    for (name, value) in [("riops", Some(1)), ("wiops", Some(1 << 32)), ("depth", None)] {
        let input = set(&b, name, value);
        assert!(matches!(b.refuse(input), StackError::Tunable(_)));
    }
    let input = set(&b, "riops", None);
    b.input(input);
    assert_eq!(b.read_file(), "");
}

#[test]
fn a_removed_groups_ios_wait_as_before_and_its_later_ones_behind_them() {
    let mut b = Bench::new("none", "riops=100", |_| {});
    let parent = b.group;
    let child = b.rig.group(parent, "c");
    let proc = b.stack.add_proc(child, IoPrio::NONE).0;
    let line = Input::Write { group: child, file: "io.max".into(), line: "8:0 riops=10".into() };
    b.input(line);
    for i in 0..3 {
        b.io(proc, Op::Read, 1000 * i, 8);
    }
    b.run_to(3);
    assert_eq!(b.issued().len(), 1);
    b.remove(child);
    b.io(proc, Op::Read, 4000, 8);
    b.run_to(20);
    assert_eq!(b.issued().len(), 1);
    // One per slice.
    b.run_to(30);
    assert_eq!(b.issued().len(), 2);
    b.run_to(110);
    assert_eq!(b.issued().len(), 4);
}

#[test]
fn throttled_time_is_the_time_with_something_queued() {
    let mut b = Bench::new("none", "riops=10", |_| {});
    b.io(0, Op::Read, 0, 8);
    b.run_to(10);
    b.io(0, Op::Read, 1000, 8);
    b.run_to(20);
    assert_eq!((b.gauge("queued"), b.gauge("throttled")), (1, 40));
    b.run_to(90);
    assert_eq!((b.gauge("queued"), b.gauge("throttled")), (0, 60));
}

#[test]
fn what_the_root_submits_is_never_limited() {
    let mut b = Bench::new("none", "riops=2", |_| {});
    for i in 0..20 {
        b.io(1, Op::Write, 1000 * i, 8);
    }
    assert_eq!(b.issued().len(), 20);
}

#[test]
fn entries_of_both_gates_stand_in_the_order_of_the_path() {
    let gates: Vec<Gate> = ctl::CONTROLLERS.iter().map(|e| e.gate).collect();
    assert!(gates.is_sorted());
}
