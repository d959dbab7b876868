//! The block layer's own cgroup files: `io.prio.class` and `io.stat`
//! (specs/groups-and-priorities.md 6.8, 6.9 and section 9).

use super::*;
use crate::knob::KnobErrorKind;
use crate::unit::Class;

fn write(rig: &mut Rig, group: GroupId, file: &str, line: &str) {
    rig.input(Input::Write { group, file: file.into(), line: line.into() });
}

/// The priority under which a read of this priority leaves the gate.
fn prio_of_read(rig: &mut Rig, group: GroupId, prio: IoPrio) -> IoPrio {
    let start = Sectors(1000 * rig.last_io());
    rig.submit(ProcId(0), |io| (io.prio, io.group, io.start) = (prio, group, start));
    let &req = rig.device.last().expect("a read is issued at once");
    rig.stack.request(req).prio
}

#[test]
fn a_priority_policy_lowers_and_only_its_own_group_counts() {
    let mut rig = rig_of("none", |_| {});
    let a = rig.group(GroupId::ROOT, "a");
    let b = rig.group(a, "b");
    write(&mut rig, a, "io.prio.class", "idle\n");
    write(&mut rig, b, "io.prio.class", "restrict-to-be");
    // Scenarios 3 to 6.
    assert_eq!(prio_of_read(&mut rig, b, IoPrio::rt(7)), IoPrio::be(0));
    assert_eq!(prio_of_read(&mut rig, b, IoPrio::rt(1)), IoPrio::be(0));
    assert_eq!(prio_of_read(&mut rig, b, IoPrio::be(5)), IoPrio::be(5));
    assert_eq!(prio_of_read(&mut rig, b, IoPrio::idle()), IoPrio::idle());
    assert_eq!(prio_of_read(&mut rig, a, IoPrio::rt(0)), IoPrio::new(Class::Idle, 0).unwrap());
    write(&mut rig, a, "io.prio.class", "none-to-rt");
    assert_eq!(prio_of_read(&mut rig, a, IoPrio::be(4)), IoPrio::be(4));
    write(&mut rig, a, "io.prio.class", "promote-to-rt");
    assert_eq!(prio_of_read(&mut rig, a, IoPrio::be(4)), IoPrio::rt(4));
    assert_eq!(prio_of_read(&mut rig, a, IoPrio::rt(1)), IoPrio::rt(1));
    write(&mut rig, a, "io.prio.class", "no-change");
    assert_eq!(prio_of_read(&mut rig, a, IoPrio::rt(0)), IoPrio::rt(0));
    let root = prio_of_read(&mut rig, GroupId::ROOT, IoPrio::rt(0));
    assert_eq!(root, IoPrio::rt(0));
}

#[test]
fn files_print_what_was_written_and_refuse_the_rest() {
    let mut rig = rig_of("none", |_| {});
    let a = rig.group(GroupId::ROOT, "a");
    let read = |rig: &mut Rig, file| rig.stack.read_knob(a, file);
    assert_eq!(read(&mut rig, "io.prio.class").as_deref(), Some("no-change\n"));
    write(&mut rig, a, "io.prio.class", "idle");
    let line = |group, file: &str, line: &str| Input::Write {
        group,
        file: file.into(),
        line: line.into(),
    };
    let refusals = [
        (line(a, "io.prio.class", "rt"), KnobErrorKind::Invalid),
        (line(a, "io.prio.class", ""), KnobErrorKind::Invalid),
        (line(a, "io.stat", "0"), KnobErrorKind::Invalid),
        (line(a, "io.nothing", "8:0 x=1"), KnobErrorKind::Unsupported),
    ];
    for (input, kind) in refusals {
        let StackError::Knob { error, .. } = rig.refuse(input) else { panic!("another error") };
        assert_eq!(error.kind, kind);
    }
    assert_eq!(read(&mut rig, "io.prio.class").as_deref(), Some("idle\n"), "the old one stays");
    assert_eq!(read(&mut rig, "io.nothing"), None);
    let error = rig.refuse(line(a, "io.prio.class", "rt")).to_string();
    assert!(error.contains("'rt'") && error.contains("the form is: no-change |"), "{error}");
}

/// Scenario 15, and the rules of 6.9.
#[test]
fn io_stat_counts_bytes_once_and_every_piece_and_adds_descendants() {
    let mut rig = rig_of("none", |d| d.max_discard_sectors = Sectors(1 << 20));
    let a = rig.group(GroupId::ROOT, "a");
    let b = rig.group(a, "b");
    assert_eq!(rig.stack.read_knob(a, "io.stat").as_deref(), Some(""));
    let write = Io { op: Op::Write, group: b, ..Io::read(1, ProcId(0), 0, 2048) };
    rig.input(Input::Submit(write));
    let discard = Io { op: Op::Discard, group: a, ..Io::read(2, ProcId(0), 1 << 20, 16) };
    rig.input(Input::Submit(discard));
    let of = |rig: &mut Rig, g| rig.stack.read_knob(g, "io.stat").unwrap();
    let expected = "8:0 rbytes=0 wbytes=1048576 rios=0 wios=2 dbytes=";
    assert_eq!(of(&mut rig, b), format!("{expected}0 dios=0\n"));
    assert_eq!(of(&mut rig, a), format!("{expected}8192 dios=1\n"));
    assert_eq!(of(&mut rig, GroupId::ROOT), of(&mut rig, a));
}

/// Scenario 16: one bio is at the device, the others wait behind it.
#[test]
fn io_stat_says_what_the_scheduler_says_of_a_target() {
    let mut rig = rig_of("paternoster", |_| {});
    let a = rig.group(GroupId::ROOT, "a");
    assert_eq!(rig.stack.read_knob(a, "io.stat").as_deref(), Some(""));
    write(&mut rig, a, "io.latency", "8:0 target=2000");
    let said = rig.stack.read_knob(a, "io.stat");
    assert_eq!(said.as_deref(), Some("8:0 target=2000 p99=0 answer=unknown\n"));
    write(&mut rig, a, "io.latency", "8:0 target=auto");
    assert!(rig.stack.read_knob(a, "io.stat").unwrap().contains("target=auto"));
    write(&mut rig, a, "io.latency", "8:0 target=0");
    assert_eq!(rig.stack.read_knob(a, "io.stat").as_deref(), Some(""));
}

#[test]
fn metadata_of_a_group_never_joins_its_other_io() {
    for scheduler in ["mq-deadline", "kyber"] {
        let mut rig = rig_of(scheduler, |d| (d.queue_depth, d.nr_requests) = (1, 64));
        rig.read(0, 8);
        let merged = |rig: &mut Rig, start: u64, flags: Flags| {
            let before = rig.stack.counters().merged;
            rig.submit(ProcId(0), |io| {
                *io = Io { op: Op::Write, flags, ..Io::read(io.id.0, io.proc, start, 8) };
            });
            rig.stack.counters().merged - before
        };
        assert_eq!(merged(&mut rig, 1000, Flags::NONE), 0);
        assert_eq!(merged(&mut rig, 1008, Flags::META), 0, "{scheduler}: a meta and a plain write");
        assert_eq!(merged(&mut rig, 992, Flags::SWAP), 0, "{scheduler}: a swap and a plain write");
        assert_eq!(merged(&mut rig, 1016, Flags::META), 1, "{scheduler}: two meta writes");
        rig.run_dry();
    }
}
