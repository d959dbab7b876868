//! A controller alone: groups, bios at the gate, a clock.

use crate::ctl::{Controller, Verdict};
use crate::device::Device;
use crate::env::Env;
use crate::group::{GroupId, ProcId};
use crate::knob::KnobError;
use crate::request::{BioId, Flags, Io, Op, ReqId};
use crate::stage::{Change, Gauge};
use crate::unit::{Instant, IoPrio, Nanos, QueueId};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// One controller and its surroundings.
#[derive(Debug)]
pub struct Rig<C: ?Sized + Controller = dyn Controller> {
    /// Bios, requests, processes, groups, trace.
    pub env: Env,
    /// Subject of the test.
    pub ctl: Box<C>,
    /// The time of the next call.
    pub now: Instant,
    /// Bios that were held and go on, in order.
    pub released: Vec<BioId>,
    next_io: u64,
}

impl<C: ?Sized + Controller> Rig<C> {
    /// A device, no group and no process yet.
    pub fn new(device: Device, build: impl FnOnce(&Device) -> Box<C>) -> Rig<C> {
        let ctl = build(&device);
        let env = Env::new(device, 20_000, 20_000);
        Rig { env, ctl, now: Instant::ZERO, released: Vec::new(), next_io: 0 }
    }

    /// Moves the clock, which fires no timer.
    #[track_caller]
    pub fn at(&mut self, since_start: Nanos) {
        let at = Instant::ZERO + since_start;
        assert!(at >= self.now, "time goes forward");
        self.now = at;
    }

    /// Lets time pass up to that instant, included: timers fire when they are due.
    #[track_caller]
    pub fn run_until(&mut self, end: Instant) {
        assert!(end >= self.now, "time goes forward");
        while let Some(due) = self.ctl.next_timer().filter(|&due| due <= end) {
            self.now = due.max(self.now);
            self.fire_timer_if_due();
        }
        self.now = end;
    }

    /// Goes on to the timer, which must be armed.
    #[track_caller]
    pub fn fire_timer(&mut self) {
        self.now = self.ctl.next_timer().expect("armed");
        self.fire_timer_if_due();
    }

    /// Fires the timer if it is due at the present time; true if it was.
    #[track_caller]
    pub fn fire_timer_if_due(&mut self) -> bool {
        let due = self.ctl.next_timer().is_some_and(|at| at <= self.now);
        if due {
            self.ctl.timer(self.now, &mut self.env.cx());
            assert!(self.ctl.next_timer().is_none_or(|at| at > self.now), "in the future");
            self.collect();
        }
        due
    }

    /// Sets a tunable to a value in its range.
    #[track_caller]
    pub fn set(&mut self, name: &str, value: u64) {
        self.ctl.set(self.now, name, value, &mut self.env.cx()).expect("a valid value");
        self.collect();
    }

    /// A group with one process.
    pub fn group(&mut self, parent: GroupId, name: &str) -> (GroupId, ProcId) {
        let group = self.env.groups.add(parent, name);
        self.change(Change::GroupAdded(group));
        (group, self.env.procs.add(group, IoPrio::NONE))
    }

    /// A group goes away.
    pub fn remove(&mut self, group: GroupId) {
        self.change(Change::GroupRemoved(group));
        self.env.groups.remove(group);
        self.collect();
    }

    /// Tells of a change that is in the environment already.
    pub fn change(&mut self, change: Change) {
        self.ctl.changed(self.now, &change, &mut self.env.cx());
    }

    /// Writes a line to a file of a group.
    pub fn write(&mut self, group: GroupId, file: &str, line: &str) -> Result<(), KnobError> {
        let result = self.ctl.write_knob(self.now, group, file, line, &mut self.env.cx());
        self.collect();
        result
    }

    /// Text that reading a file of a group prints.
    pub fn read(&mut self, group: GroupId, file: &str) -> String {
        let mut out = String::new();
        self.ctl.read_knob(group, file, &self.env.cx(), &mut out);
        out
    }

    /// The controller's fields of a group's `io.stat`.
    pub fn stat(&mut self, group: GroupId) -> String {
        let mut out = String::new();
        self.ctl.stat(self.now, group, &self.env.cx(), &mut out);
        out
    }

    /// A figure that a monitor would record; `None` if it is not told now.
    pub fn gauge(&mut self, name: &str, group: Option<GroupId>) -> Option<i64> {
        let mut found = None;
        self.ctl.gauges(self.now, &self.env.cx(), &mut |g: Gauge| {
            if g.name == name && g.group == group {
                found = Some(g.value);
            }
        });
        found
    }

    /// I/Os made so far.
    pub fn bios(&self) -> u64 {
        self.next_io
    }

    /// An I/O of a group that nobody has seen yet.
    pub fn io(&mut self, group: GroupId, op: Op, start: u64, sectors: u64, flags: Flags) -> Io {
        self.next_io += 1;
        Io { op, group, flags, ..Io::read(self.next_io, ProcId(0), start, sectors) }
    }

    /// A bio at the gate; what the controller then releases is in `released`.
    pub fn submit(&mut self, io: Io) -> (BioId, Verdict) {
        let bio = self.env.requests.store_bio(io, self.now);
        let verdict = self.ctl.submit(self.now, bio, &mut self.env.cx());
        self.collect();
        (bio, verdict)
    }

    /// A bio that passed becomes a request and goes to the device.
    pub fn issue(&mut self, bio: BioId) -> ReqId {
        let requests = &mut self.env.requests;
        let id = requests.add(bio, self.now, self.now, true, QueueId(0)).expect("room");
        requests.get_mut(id).issued = self.now;
        self.ctl.issue(self.now, id, &mut self.env.cx());
        id
    }

    /// The device has served it.
    pub fn complete(&mut self, id: ReqId) {
        self.ctl.complete(self.now, id, &mut self.env.cx());
        self.env.requests.remove(id);
        self.collect();
    }

    /// The next of the bios that went on, which is told once.
    pub fn release(&mut self) -> Option<BioId> {
        self.collect();
        (!self.released.is_empty()).then(|| self.released.remove(0))
    }

    /// Asks the controller until it lets nothing more go on, as the stack does after every event.
    fn collect(&mut self) {
        while let Some(bio) = self.ctl.release(self.now, &mut self.env.cx()) {
            self.released.push(bio);
        }
    }
}
