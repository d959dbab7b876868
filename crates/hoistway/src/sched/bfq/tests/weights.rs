//! The files of group weights (specs/groups-and-priorities.md 6.2).

use super::rig::Rig;
use crate::group::GroupId;
use crate::knob::KnobErrorKind;
use crate::sched::bfq::ids::Id;
use crate::stage::Stage;
use crate::unit::IoPrio;
use alloc::string::String;

struct Group {
    rig: Rig,
    group: GroupId,
}

impl Group {
    fn new(keep: u64) -> Group {
        let mut rig = Rig::ssd();
        rig.set("keep_device_weight", keep);
        let group = rig.env.groups.add(GroupId::ROOT, "g");
        Group { rig, group }
    }

    fn write(&mut self, file: &str, line: &str) -> Result<(), KnobErrorKind> {
        let Rig { env, sched: bfq, now, .. } = &mut self.rig;
        bfq.write_knob(*now, self.group, file, line, &mut env.cx()).map_err(|e| e.kind)
    }

    fn read(&mut self, file: &str) -> String {
        let mut out = String::new();
        self.rig.sched.read_knob(self.group, file, &self.rig.env.cx(), &mut out);
        out
    }

    /// The group has I/O: what was written comes into force.
    fn enqueue(&mut self) {
        let proc = self.rig.env.procs.add(self.group, IoPrio::be(4));
        self.rig.read(proc, 1_000, 8);
    }

    /// The weight that counts from the next enqueue on.
    fn weight(&self) -> u32 {
        let node = self.rig.sched.groups.nodes[self.group.index()];
        let up = self.rig.sched.fair.nodes[node].entity;
        assert!(up.is_some());
        self.rig.sched.fair.ents[up].new_weight
    }
}

const FILE: &str = "io.bfq.weight";

#[test]
fn a_weight_is_written_in_each_accepted_form() {
    let mut g = Group::new(1);
    assert_eq!(g.read(FILE), "default 100\n");
    let lines = [("300", 300), ("default 1\n", 1), ("0x10", 16), ("010", 8), (" 1000 ", 1000)];
    for (line, weight) in lines {
        assert_eq!(g.write(FILE, line), Ok(()), "{line:?}");
        assert_eq!(g.weight(), weight, "{line:?}");
    }
    assert_eq!(g.read(FILE), "default 1000\n");
    assert_eq!(g.write(FILE, "8:0 250"), Ok(()));
    assert_eq!((g.weight(), &*g.read(FILE)), (250, "default 1000\n8:0 250\n"));
}

#[test]
fn a_wrong_line_is_refused_and_changes_nothing() {
    use KnobErrorKind::*;
    let mut g = Group::new(1);
    g.write(FILE, "200").unwrap();
    g.write(FILE, "8:0 300").unwrap();
    let before = g.read(FILE);
    let lines = [
        ("", Invalid),
        ("weight", Invalid),
        ("default", Invalid),
        ("default weight", Invalid),
        ("default 0x10", Invalid),
        ("default100", Invalid),
        ("-1", Invalid),
        ("1 2", Invalid),
        ("0x", Invalid),
        ("09", Invalid),
        ("8:0", Invalid),
        ("8:0 x", Invalid),
        ("8:0 0x10", Invalid),
        ("sda:1 100", Invalid),
        ("0", Range),
        ("1001", Range),
        ("default 0", Range),
        ("8:0 0", Range),
        ("8:0 1001", Range),
        ("99999999999999999999", Range),
        ("8:16 100", NoDevice),
    ];
    for (line, kind) in lines {
        assert_eq!(g.write(FILE, line), Err(kind), "{line:?}");
    }
    assert_eq!((g.weight(), g.read(FILE)), (300, before));
    assert_eq!(g.write("blkio.bfq.weight", "8:0 100"), Err(Invalid));
    assert_eq!(g.write("blkio.bfq.weight", "default 100"), Err(Invalid));
    assert_eq!(g.write("blkio.bfq.weight_device", "100"), Err(Invalid));
    g.group = GroupId::ROOT;
    assert_eq!(g.write(FILE, "100"), Err(Unsupported));
}

#[test]
fn the_weight_for_the_device_goes_before_the_general_one_until_it_is_taken_away() {
    let mut g = Group::new(1);
    g.write(FILE, "8:0 300").unwrap();
    g.write(FILE, "200").unwrap();
    assert_eq!((g.weight(), &*g.read(FILE)), (300, "default 200\n8:0 300\n"));
    g.write(FILE, "8:0 default").unwrap();
    assert_eq!((g.weight(), &*g.read(FILE)), (200, "default 200\n"));
}

#[test]
fn in_the_reference_the_general_weight_takes_the_other_away_which_goes_without_effect() {
    let mut g = Group::new(0);
    g.write(FILE, "200").unwrap();
    g.write(FILE, "8:0 300").unwrap();
    g.enqueue();
    g.write(FILE, "8:0 default").unwrap();
    // Quirk Q16: the weight in force stays.
    assert_eq!((g.weight(), &*g.read(FILE)), (300, "default 200\n"));
    g.write(FILE, "200").unwrap();
    assert_eq!(g.weight(), 200);
    g.write(FILE, "8:0 300").unwrap();
    g.write(FILE, "250").unwrap();
    assert_eq!((g.weight(), &*g.read(FILE)), (250, "default 250\n"));
}

#[test]
fn in_the_reference_a_weight_that_was_never_in_force_is_forgotten_with_default() {
    let mut g = Group::new(0);
    g.write(FILE, "8:0 1000").unwrap();
    g.write(FILE, "8:0 default").unwrap();
    assert_eq!(g.weight(), 100);
    g.enqueue();
    assert_eq!(g.weight(), 100);
}

#[test]
fn in_the_reference_what_a_group_begins_with_is_in_force_before_its_first_request() {
    let mut g = Group::new(0);
    g.write(FILE, "200").unwrap();
    g.write(FILE, "300").unwrap();
    g.write(FILE, "8:0 default").unwrap();
    assert_eq!(g.weight(), 300);
    // Known to the device by that line: what is written now waits.
    g.write(FILE, "400").unwrap();
    g.write(FILE, "8:0 default").unwrap();
    assert_eq!(g.weight(), 300);
}

#[test]
fn in_the_reference_a_line_about_the_device_makes_the_groups_above_known_too() {
    let mut g = Group::new(0);
    let above = g.group;
    g.write(FILE, "200").unwrap();
    g.group = g.rig.env.groups.add(above, "below");
    g.write(FILE, "8:0 default").unwrap();
    g.group = above;
    g.write(FILE, "400").unwrap();
    g.write(FILE, "8:0 default").unwrap();
    assert_eq!(g.weight(), 200);
}

#[test]
fn the_files_of_cgroup_v1_are_the_two_halves() {
    let mut g = Group::new(1);
    g.write("blkio.bfq.weight", "400").unwrap();
    assert_eq!((g.weight(), &*g.read("blkio.bfq.weight")), (400, "400\n"));
    assert_eq!(g.read("blkio.bfq.weight_device"), "");
    g.write("blkio.bfq.weight_device", "8:0 500").unwrap();
    assert_eq!((g.weight(), &*g.read("blkio.bfq.weight_device")), (500, "8:0 500\n"));
    assert_eq!(g.read(FILE), "default 400\n8:0 500\n");
    g.write("blkio.bfq.weight_device", "8:0 default").unwrap();
    assert_eq!(g.weight(), 400);
}

#[test]
fn a_removed_group_has_no_weight_and_its_parent_keeps_its_own() {
    let mut g = Group::new(1);
    g.write(FILE, "300").unwrap();
    let parent = g.group;
    g.group = g.rig.env.groups.add(parent, "child");
    g.rig.env.groups.remove(g.group);
    assert_eq!(g.write(FILE, "500"), Err(KnobErrorKind::Unsupported));
    g.group = parent;
    assert_eq!(g.weight(), 300);
}
