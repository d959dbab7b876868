//! Groups that go away, one after the other and with I/O under way: what they submitted is served all the
//! same.

use hoistway::sched;
use hoistway::{
    Device, GroupId, Input, Instant, Io, IoPrio, Nanos, Output, ProcId, Sectors, Stack,
};

/// A stack, and the requests its device holds.
struct Rig {
    stack: Stack,
    now: Instant,
    device: Vec<hoistway::ReqId>,
    finished: Vec<u64>,
    wake: Option<Instant>,
}

impl Rig {
    fn new(scheduler: &str) -> Rig {
        let entry = sched::find(scheduler).unwrap();
        let mut device = Device::new(Sectors(1 << 20), 1);
        device.nr_requests = 16;
        device.rotational = true;
        let mut stack = Stack::new(device, entry, 16);
        for _ in 0..8 {
            stack.add_proc(GroupId::ROOT, IoPrio::NONE);
        }
        Rig { stack, now: Instant::ZERO, device: vec![], finished: vec![], wake: None }
    }

    fn submit(&mut self, id: u64, group: GroupId) {
        let io = Io { group, ..Io::read(id, ProcId(id as u32), 4096 * id, 8) };
        self.stack.handle(self.now, Input::Submit(io)).unwrap();
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.stack.poll(self.now) {
                Output::Issue { req, .. } => self.device.push(req),
                Output::Finished { io, .. } => self.finished.push(io.0),
                Output::WaitUntil(at) => return self.wake = at,
                Output::Accepted { .. } | Output::Delay { .. } => {}
            }
        }
    }

    fn run_dry(&mut self) {
        for _ in 0..1000 {
            if self.device.is_empty() {
                let Some(at) = self.wake else { return };
                self.now = self.now.max(at);
                self.stack.handle(self.now, Input::Tick).unwrap();
            } else {
                self.now += Nanos::ms(1);
                let req = self.device.remove(0);
                self.stack.handle(self.now, Input::Done { req, error: None }).unwrap();
            }
            self.drain();
        }
        panic!("it does not come to rest");
    }

    fn remove(&mut self, group: GroupId) {
        self.stack.remove_group(self.now, group);
        self.drain();
    }
}

/// What a group submitted that is gone counts for its nearest living ancestor, also when that ancestor
/// goes, and the next: bios of the group may still wait for a tag then.
#[test]
fn a_request_of_a_group_whose_ancestors_went_after_it_is_served() {
    for entry in sched::SCHEDULERS {
        if entry.profile != hoistway::Profile::MultiQueue && !entry.name.starts_with("bfq") {
            continue;
        }
        let mut rig = Rig::new(entry.name);
        let outer = rig.stack.add_group(rig.now, GroupId::ROOT, "outer");
        let middle = rig.stack.add_group(rig.now, outer, "middle");
        let inner = rig.stack.add_group(rig.now, middle, "inner");
        for (i, group) in [GroupId::ROOT, outer, middle, inner].into_iter().enumerate() {
            rig.submit(i as u64, group);
        }
        rig.remove(inner);
        rig.remove(middle);
        rig.submit(4, inner);
        rig.submit(5, middle);
        rig.remove(outer);
        rig.submit(6, inner);
        rig.run_dry();
        rig.finished.sort_unstable();
        assert_eq!(rig.finished, [0, 1, 2, 3, 4, 5, 6], "{}", entry.name);
    }
}
