//! The files, byte for byte.

use super::*;
use crate::knob::KnobErrorKind;

const ROOT: GroupId = GroupId::ROOT;

fn fresh() -> Bench {
    let mut b = Bench::new(SSD, "");
    b.c = IoCost::new(&b.env.device);
    b
}

fn kind(b: &mut Bench, file: &str, line: &str) -> KnobErrorKind {
    let group = if file == "io.weight" { GroupId(1) } else { ROOT };
    b.try_write(group, file, line).unwrap_err().kind
}

/// Scenario 7 of specs/groups-and-priorities.md.
#[test]
fn weights_are_of_the_group_or_of_the_device() {
    let mut b = fresh();
    let g = b.top(100);
    assert_eq!(b.read(g, "io.weight"), "default 100\n");
    b.write(g, "io.weight", "8:0 500\n");
    assert_eq!(b.read(g, "io.weight"), "default 100\n8:0 500\n");
    for line in ["8:0 10001", "8:0 0", "0", "default", "x", "-1", "1 2", "8:0 1 2", "8:0", "8:0 -1"]
    {
        assert_eq!(kind(&mut b, "io.weight", line), KnobErrorKind::Invalid, "{line}");
    }
    assert_eq!(kind(&mut b, "io.weight", "8:16 100"), KnobErrorKind::NoDevice);
    assert_eq!(b.read(g, "io.weight"), "default 100\n8:0 500\n");
    b.write(g, "io.weight", "default 10000");
    b.write(g, "io.weight", "8:0 default");
    assert_eq!(b.read(g, "io.weight"), "default 10000\n");
    b.write(g, "io.weight", "1");
    assert_eq!(b.read(g, "io.weight"), "default 1\n");
}

/// Scenarios 10 to 13 of specs/groups-and-priorities.md.
#[test]
fn the_first_write_creates_the_controller_with_the_values_of_its_class() {
    let mut b = fresh();
    assert_eq!(b.read(ROOT, "io.cost.qos") + &b.read(ROOT, "io.cost.model"), "");
    b.write(ROOT, "io.cost.qos", "8:0 enable=1");
    assert_eq!(
        b.read(ROOT, "io.cost.qos"),
        "8:0 enable=1 ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00\n"
    );
    assert_eq!(
        b.read(ROOT, "io.cost.model"),
        "8:0 ctrl=auto model=linear rbps=488636629 rseqiops=8932 rrandiops=8518 wbps=427891549 \
         wseqiops=28755 wrandiops=21940\n"
    );
    b.write(ROOT, "io.cost.qos", "8:0 rpct=95.005 rlat=2500");
    assert_eq!(
        b.read(ROOT, "io.cost.qos"),
        "8:0 enable=1 ctrl=user rpct=95.01 rlat=2500 wpct=0.00 wlat=25000 min=1.00 max=10000.00\n"
    );
    b.write(ROOT, "io.cost.qos", "8:0 enable=0 ctrl=auto");
    b.write(ROOT, "io.cost.qos", "8:0 rpct=95 ctrl=auto");
    let auto =
        "8:0 enable=0 ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00\n";
    assert_eq!(b.read(ROOT, "io.cost.qos"), auto);
    b.write(ROOT, "io.cost.qos", "8:0 ctrl=auto rpct=95");
    assert_eq!(b.read(ROOT, "io.cost.qos"), auto.replace("auto rpct=0.00", "user rpct=95.00"));
    b.write(ROOT, "io.cost.qos", "8:0 min=0.2 max=20000");
    assert!(b.read(ROOT, "io.cost.qos").ends_with("min=1.00 max=10000.00\n"));
}

#[test]
fn a_model_by_hand_and_back() {
    let mut b = fresh();
    b.write(ROOT, "io.cost.model", "8:0 rbps=200000000\trseqiops=8000 rrandiops=0");
    assert_eq!(
        b.read(ROOT, "io.cost.model"),
        "8:0 ctrl=user model=linear rbps=200000000 rseqiops=8000 rrandiops=0 wbps=427891549 \
         wseqiops=28755 wrandiops=21940\n"
    );
    assert!(b.read(ROOT, "io.cost.qos").starts_with("8:0 enable=0 ctrl=auto"));
    b.write(ROOT, "io.cost.model", "8:0 ctrl=auto");
    assert!(b.read(ROOT, "io.cost.model").contains("ctrl=auto model=linear rbps=488636629"));
    b.write(ROOT, "io.cost.model", "8:0 wbps=1 ctrl=auto");
    assert!(b.read(ROOT, "io.cost.model").contains("ctrl=auto model=linear rbps=488636629"));
    b.write(ROOT, "io.cost.model", "8:0 ctrl=user");
    assert!(b.read(ROOT, "io.cost.model").contains("ctrl=user model=linear rbps=488636629"));
}

#[test]
fn a_bad_line_changes_nothing() {
    let mut b = fresh();
    let qos = [
        "8:0 rpct=101",
        "8:0 rpct=100.005",
        "8:0 rpct=-1",
        "8:0 min=-1",
        "8:0 min=",
        "8:0 min=.5",
        "8:0 min=1. max=2",
        "8:0 min=60 max=50",
        "8:0 enable=yes",
        "8:0 ctrl=kernel",
        "8:0 rlat=1.5",
        "8:0 enable=1 foo=1",
        "8:0 enable=1 rlat",
    ];
    for line in qos {
        assert_eq!(kind(&mut b, "io.cost.qos", line), KnobErrorKind::Invalid, "{line}");
    }
    let range = "8:0 rlat=99999999999999999999";
    assert_eq!(kind(&mut b, "io.cost.qos", range), KnobErrorKind::Range);
    for line in ["8:0 model=cubic", "8:0 rbps=x", "8:0 bps=1", "8:0 wbps=5 rbps=max"] {
        assert_eq!(kind(&mut b, "io.cost.model", line), KnobErrorKind::Invalid, "{line}");
    }
    assert_eq!(b.read(ROOT, "io.cost.qos"), "", "the controller was not created");
    b.write(ROOT, "io.cost.qos", "8:0 min=50 max=150");
    let before = b.read(ROOT, "io.cost.qos");
    assert_eq!(kind(&mut b, "io.cost.qos", "8:0 enable=1 min=200"), KnobErrorKind::Invalid);
    assert_eq!(b.read(ROOT, "io.cost.qos"), before);
}

#[test]
fn a_changed_weight_counts_at_once_for_all() {
    let mut b = Bench::new(SSD, "");
    let (a, c) = (b.top(100), b.top(100));
    b.activate(a);
    b.activate(c);
    b.write(a, "io.weight", "300");
    assert_eq!((b.node(a).weights.active, b.node(a).given.in_force), (19_660_800, 19_660_800));
    assert_eq!((b.shares(a).0, b.shares(c).0), (49_152, 16_384));
    // inuse is that of before until the planner raises it.
    assert_eq!(b.node(a).weights.inuse, 6_553_600);
    // Of an inner group.
    let inner = b.top(100);
    let leaf = b.group(inner, 100);
    b.activate(leaf);
    b.write(inner, "io.weight", "400");
    assert_eq!(b.shares(leaf), (32_768, 43_690));
}

#[test]
fn io_stat_shows_vrate_and_hierarchical_usage() {
    let mut b = Bench::new(SSD, "");
    let a = b.top(100);
    let leaf = b.group(a, 100);
    let stat = |b: &mut Bench, g| {
        let mut out = String::new();
        let now = b.now;
        let cx = b.env.cx();
        b.c.stat(now, g, &cx, &mut out);
        out
    };
    b.now = ms(100);
    b.submit(leaf, |io| io.sectors = Sectors(8 * 1000));
    b.until(b.now + Nanos::ms(70));
    // 1000 pages of 1,152,074 and a base of 14,235,181 at 137,438 per us.
    let fields = " cost.usage=8486 cost.wait=0 cost.indebt=0 cost.indelay=0";
    assert_eq!(stat(&mut b, leaf), fields);
    assert_eq!(stat(&mut b, a), fields);
    assert_eq!(stat(&mut b, GroupId::ROOT), format!(" cost.vrate=100.00{fields}"));
    b.node_mut(leaf).slow.tasks.set(Nanos::us(300));
    assert_eq!(stat(&mut b, leaf), format!(" use_delay=-1 delay_nsec=300000{fields}"));
    b.write(ROOT, "io.cost.qos", "8:0 enable=0");
    assert_eq!(stat(&mut b, a), "");
}
