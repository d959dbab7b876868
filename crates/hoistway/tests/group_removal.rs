//! Groups that go away, one after the other and with I/O under way: what they submitted is served all the
//! same.

use hoistway::testkit::stack::Rig;
use hoistway::{Device, GroupId, ProcId, Profile, Sectors, Stack, sched};

/// What a group submitted that is gone counts for its nearest living ancestor, also when that ancestor
/// goes, and the next: bios of the group may still wait for a tag then.
#[test]
fn a_request_of_a_group_whose_ancestors_went_after_it_is_served() {
    for entry in sched::SCHEDULERS {
        // The early releases of BFQ have groups, and run in this profile too.
        if entry.profile != Profile::MultiQueue && !entry.name.starts_with("bfq-v") {
            continue;
        }
        let mut device = Device::new(Sectors(1 << 20), 1);
        (device.nr_requests, device.rotational) = (16, true);
        let mut rig = Rig::of(Stack::new(device, entry, 16));
        rig.procs(GroupId::ROOT, 8);
        let outer = rig.group(GroupId::ROOT, "outer");
        let middle = rig.group(outer, "middle");
        let inner = rig.group(middle, "inner");
        for group in [GroupId::ROOT, outer, middle, inner] {
            submit(&mut rig, group);
        }
        rig.remove(inner);
        rig.remove(middle);
        submit(&mut rig, inner);
        submit(&mut rig, middle);
        rig.remove(outer);
        submit(&mut rig, inner);
        rig.run_dry();
        rig.finished.sort_unstable();
        assert_eq!(rig.finished, [1, 2, 3, 4, 5, 6, 7], "{}", entry.name);
    }
}

/// A process of its own reads for each group, far from the others.
fn submit(rig: &mut Rig, group: GroupId) {
    let nth = rig.last_io();
    rig.submit(ProcId(nth as u32), |io| (io.group, io.start) = (group, Sectors(4096 * nth)));
}
