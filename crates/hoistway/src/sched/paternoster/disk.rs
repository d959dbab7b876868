//! Rotational drives: the same tags, lane, price and pacing, with slices, and time as the unit of service.
//!
//! *Problem.* On a disk a change between streams costs as much as a megabyte, so fairness by requests means seeking
//! all the time; and a request of a stream costs a tenth of a random one, so service is not size.
//!
//! *Idea.* A leaf that streams is served for a *slice* of time. What the disk took is charged at completion. The
//! lane interrupts a slice when it has paid for the way there and back, or when its deadline comes.
//!
//! *Rule.* A slice is 20 services long, 400 to 800 ms, times weight over mean weight; four requests of it are
//! inside; when it runs dry the disk stays idle for twice its think time, at most 8 ms. It drains before the next is
//! chosen. While a request of the lane is inside, nothing of a stream is sent. Random requests go 31 at a time, so
//! that the drive can order them; beside them a target that has spent its budget waits for the turn of its leaf.
//!
//! *Weaknesses.* The drive reorders what is inside, so weights of random processes hold only roughly; a target without
//! a number waits up to 500 ms beside streams.
//!
//! Source: specs/paternoster.md 8.

use super::Paternoster;
use super::answer::HeldBy;
use super::fair::LeafId;
use super::issue::Next;
use super::lane::Waiting;
use super::measure::{UNIT, Units};
use crate::env::Cx;
use crate::unit::{Instant, Nanos};

/// Disk time of one unit of service.
const UNIT_TIME: Nanos = Nanos::us(64);
const SLICE_LEAST: Nanos = Nanos::ms(400);
const SLICE_MOST: Nanos = Nanos::ms(800);
const SLICE_SERVICES: u64 = 20;
/// Sixteen random reads: work that a group with a weight of its own keeps a claim to.
pub(super) const CLAIM: Units = Units::whole(16 * 128);
/// Requests of a stream inside.
const STREAM_DEPTH: u32 = 4;
/// Random requests inside: one less than a disk's queue. With four while a stream waits hogs beside a writer delivered
/// half of what they can.
const RANDOM_DEPTH: u32 = 31;
/// Random requests beside one of the lane. With 21 of them a disk that orders what is inside delivers 93 % of what it can,
/// with these 95 to 96 %, and the lane waits as long (32 random readers and a target). Their size is no matter: 44 units
/// were four of 64 KiB, at 81 %.
const BESIDE_LANE: u32 = 29;
/// Whoever thinks longer is not waited for.
const THINK_LONG: Nanos = Nanos::ms(3);
const WAIT_MOST: Nanos = Nanos::ms(8);
const WAIT_SLACK: Nanos = Nanos::us(200);
/// Assumed price of a change of place.
const CHANGE: u64 = 128 * UNIT;
/// A visit of the lane costs three times its own time: the way there and the way back.
const VISIT_COST: u64 = 3;

/// The turn of a leaf that streams.
#[derive(Clone, Copy, Debug)]
struct DiskSlice {
    leaf: LeafId,
    budget: Nanos,
    used: Nanos,
    began: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Disk {
    slice: Option<DiskSlice>,
    /// Requests of the lane that still go in this visit.
    visit: u32,
}

impl Disk {
    pub fn is_slicing(&self) -> bool {
        self.slice.is_some()
    }

    pub fn reset(&mut self) {
        self.slice = None;
        self.visit = 0;
    }
}

/// Service in a time of the disk, in sixteenths of units.
pub(super) fn service(time: Nanos) -> u64 {
    time.0 * UNIT / UNIT_TIME.0
}

impl Paternoster {
    #[inline(never)]
    pub(super) fn next_of_disk<'a>(&mut self, now: Instant, cx: &Cx<'a>) -> Option<Next<'a>> {
        self.end_slice(now);
        if let Some(slot) = self.lane.first() {
            if self.lane_goes(now, slot, cx) {
                self.disk.visit = match self.disk.visit {
                    0 => self.lane.waiting() - 1,
                    n => n - 1,
                };
                return Some(Next::Lane(slot));
            }
            // The others are held for a leader: behind a request that waits for its time nothing would go at all.
            if let Some(slot) = self.leader_behind(slot).or_else(|| self.due_behind(now, slot)) {
                return Some(Next::Lane(slot));
            }
        }
        if self.fair.waiting() > 0
            && !self.leader_holds(now)
            && let Some((leaf, chosen)) = self.disk_choice(now)
        {
            let requests = cx.requests;
            let r = requests.at(self.fair.head(leaf));
            return Some(Next::Greedy { leaf, r, chosen });
        }
        None
    }

    /// May the first request of the lane go now? If not, a time is named at which it may.
    fn lane_goes(&mut self, now: Instant, slot: u32, cx: &Cx<'_>) -> bool {
        if self.slots[slot as usize].lead.is_some() {
            return true;
        }
        let slicing = self.disk.is_slicing();
        // No slice is lost to it, but a drive that serves one request at a time would serve every other one for it.
        if !slicing && self.disk.visit == 0 && self.fair.waiting() > 0 && self.spent(slot, cx) {
            self.note_held(now, slot, HeldBy::Budget, cx);
            return false;
        }
        let streams = slicing || self.fair.streams() > 0;
        if !streams || self.disk.visit > 0 {
            self.disk.visit = if streams { self.disk.visit } else { 0 };
            return true;
        }
        let w = self.waiting_of(slot);
        match self.disk_wait(now, slot, &w) {
            Some(until) if self.inside > 0 || self.fair.waiting() > 0 || slicing => {
                self.wake_by(until);
                false
            }
            _ => true,
        }
    }

    /// A request of a process that leads, behind this one of the lane.
    fn leader_behind(&self, slot: u32) -> Option<u32> {
        if !self.begin.is_served() {
            return None;
        }
        let mut behind = core::iter::successors(self.lane.after(slot), |&s| self.lane.after(s));
        behind.find(|&s| self.slots[s as usize].lead.is_some())
    }

    /// A request with a numeric target behind this one of the lane, if it is time for it.
    fn due_behind(&self, now: Instant, slot: u32) -> Option<u32> {
        let behind = self.number_behind(slot)?;
        self.disk_wait(now, behind, &self.waiting_of(behind)).is_none().then_some(behind)
    }

    fn disk_wait(&self, now: Instant, slot: u32, w: &Waiting) -> Option<Instant> {
        if w.number {
            let ahead = self.lane.service_peak + self.lane.service;
            let due = self.lane.deadline(slot).as_nanos().saturating_sub(ahead.0);
            let due = Instant::from_nanos(due);
            return (due > now).then_some(due);
        }
        self.lane.paced_beyond(now, w, CHANGE)
    }

    /// Which leaf's request goes; `None`: nothing for now.
    fn disk_choice(&mut self, now: Instant) -> Option<(LeafId, bool)> {
        if let Some(slice) = self.disk.slice {
            if self.lane.inside > 0 {
                return None;
            }
            let leaf = self.fair.leaf(slice.leaf);
            let spent = slice.used >= slice.budget;
            if spent || leaf.inside >= STREAM_DEPTH {
                return None;
            }
            if !leaf.fifo.is_empty() {
                return Some((slice.leaf, false));
            }
            return None;
        }
        let leaf = self.fair.smallest()?;
        let greedy_inside = self.inside - self.lane.inside;
        if self.fair.leaf(leaf).is_stream() {
            if self.inside > 0 {
                return None;
            }
            self.begin_slice(now, leaf);
            return Some((leaf, true));
        }
        let most = if self.lane.inside > 0 { BESIDE_LANE } else { RANDOM_DEPTH };
        (greedy_inside < most).then_some((leaf, true))
    }

    fn begin_slice(&mut self, now: Instant, leaf: LeafId) {
        let base = (self.lane.service * SLICE_SERVICES).clamp(SLICE_LEAST, SLICE_MOST);
        let (weight, mean) = self.fair.share_of(leaf);
        let budget = u128::from(base.0) * u128::from(weight) / u128::from(mean);
        let budget = Nanos(budget as u64).max(base / 8).min(base * 4);
        self.disk.slice = Some(DiskSlice { leaf, budget, used: Nanos::ZERO, began: now });
    }

    /// Ends the slice when it is used up and drained, or nobody is worth waiting for; names the time of the wait.
    fn end_slice(&mut self, now: Instant) {
        let Some(slice) = &mut self.disk.slice else { return };
        let leaf = self.fair.leaf(slice.leaf);
        if leaf.inside > 0 {
            return;
        }
        if !leaf.fifo.is_empty() {
            if slice.used >= slice.budget {
                if self.fair.others_wait(slice.leaf) {
                    self.disk.slice = None;
                } else {
                    slice.used = Nanos::ZERO;
                }
            }
            return;
        }
        let until =
            leaf.idle_since().unwrap_or(slice.began) + (leaf.think * 2 + WAIT_SLACK).min(WAIT_MOST);
        if slice.used >= slice.budget || leaf.think >= THINK_LONG || until <= now || !leaf.sync {
            self.disk.slice = None;
        } else {
            self.wake_by(until);
        }
    }

    /// Time is the service here: what the disk took since the last completion, or since the request was sent.
    #[inline(never)]
    pub(super) fn completed_disk(&mut self, took: Nanos, slot: u32) {
        let s = self.slots[slot as usize];
        let time_units = service(took);
        self.fair.charge(s.leaf, time_units.saturating_sub(u64::from(s.units)), false);
        if s.lane {
            if self.disk.is_slicing() && s.lead.is_none() {
                self.lane.owes(time_units * VISIT_COST);
            }
            return;
        }
        self.lane.pays(time_units);
        if let Some(slice) = &mut self.disk.slice
            && slice.leaf == s.leaf
        {
            slice.used += took;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::env::Env;
    use crate::group::{GroupId, ProcId};
    use crate::request::{Io, ReqId};
    use crate::sched::{At, Dispatch, Scheduler, Setup};
    use crate::stage::{Change, Stage};
    use crate::unit::{IoPrio, QueueId, Sectors};
    use alloc::vec::Vec;

    /// A disk that takes as long as a test says.
    struct Rig {
        env: Env,
        sched: Paternoster,
        now: Instant,
        inside: Vec<ReqId>,
        next: u64,
        /// Where each process goes on.
        ends: [u64; 5],
    }

    impl Rig {
        fn new() -> Rig {
            let mut device = Device::new(Sectors(1 << 30), 32);
            device.rotational = true;
            let mut env = Env::new(device, 128, 128);
            let setup = Setup { device: &env.device, requests: 128, now: Instant::ZERO };
            let mut sched = Paternoster::new(&setup);
            // Nobody goes first because it has just begun.
            sched.set(Instant::ZERO, "begin", 0, &mut env.cx()).unwrap();
            for _ in 0..4 {
                env.procs.add(GroupId::ROOT, IoPrio::be(4));
            }
            Rig { env, sched, now: Instant::ZERO, inside: Vec::new(), next: 0, ends: [0; 5] }
        }

        /// The next piece of the stream of that process.
        fn read_on(&mut self, proc: u32) {
            let start = (u64::from(proc) << 24) + self.ends[proc as usize];
            self.ends[proc as usize] += 256;
            self.next += 1;
            let mut io = Io::read(self.next, ProcId(proc), start, 256);
            (io.group, io.prio) = (self.env.procs.group(ProcId(proc)), IoPrio::be(4));
            let id = self.env.requests.create(io, true, QueueId(0), self.now).expect("a slot");
            self.sched.insert(self.now, id, At::Tail, &mut self.env.cx());
        }

        /// A process in a group of its own with a target without a number.
        fn target(&mut self) -> ProcId {
            let group = self.env.groups.add(GroupId::ROOT, "target");
            let cx = &mut self.env.cx();
            self.sched.changed(self.now, &Change::GroupAdded(group), cx);
            let line = "8:0 target=auto";
            self.sched.write_knob(self.now, group, "io.latency", line, cx).expect("a target");
            self.env.procs.add(group, IoPrio::be(4))
        }

        /// Processes whose requests the disk gets now.
        fn dispatch(&mut self) -> Vec<ProcId> {
            let mut sent = Vec::new();
            while let Dispatch::Issue(id) =
                self.sched.dispatch(self.now, QueueId(0), &mut self.env.cx())
            {
                self.env.requests.get_mut(id).issued = self.now;
                sent.push(self.env.requests[id].proc);
                self.inside.push(id);
            }
            sent
        }

        /// The oldest request inside is over after so long.
        fn complete(&mut self, took: Nanos) -> ProcId {
            self.now += took;
            let id = self.inside.remove(0);
            let proc = self.env.requests[id].proc;
            self.sched.complete(self.now, id, &mut self.env.cx());
            self.env.requests.remove(id);
            proc
        }

        /// Two processes stream, 20 requests deep; who was served for each of `n` requests.
        fn stream(&mut self, n: usize, took: Nanos) -> Vec<u32> {
            for proc in [0, 1] {
                (0..20).for_each(|_| self.read_on(proc));
            }
            let mut all = Vec::new();
            while all.len() < n {
                self.dispatch();
                let proc = self.complete(took);
                self.read_on(proc.0);
                all.push(proc.0);
            }
            all
        }
    }

    /// Lengths of runs of equal neighbours.
    fn runs(all: &[u32]) -> Vec<usize> {
        all.chunk_by(|a, b| a == b).map(<[u32]>::len).collect()
    }

    #[test]
    fn streams_take_turns_of_at_least_400_ms() {
        let all = Rig::new().stream(2_000, Nanos::ms(2));
        let runs = runs(&all[200..]);
        // What is inside when a slice is used up goes too.
        let whole = &runs[1..runs.len() - 1];
        let slice = (SLICE_LEAST.0 / 2_000_000) as usize;
        let fits = |n: &usize| (slice..=slice + STREAM_DEPTH as usize).contains(n);
        assert!(whole.len() > 4 && whole.iter().all(fits), "{runs:?}");
    }

    /// A process that begins on a disk.
    fn beginning() -> Rig {
        let mut rig = Rig::new();
        rig.sched.set(Instant::ZERO, "begin", 4000, &mut rig.env.cx()).unwrap();
        rig
    }

    /// Reads that led, of 100 that take 7 ms each, so far apart and with such a pause between them.
    fn led(rig: &mut Rig, apart: u64, pause: Nanos) -> u64 {
        let before = rig.sched.begin.count;
        for _ in 0..100 {
            rig.read_on(0);
            rig.ends[0] += apart;
            // Behind a read that led others are held, its own too.
            while rig.dispatch().is_empty() {
                rig.now += Nanos::ms(1);
            }
            rig.complete(Nanos::ms(7));
            rig.now += pause;
        }
        rig.sched.begin.count - before
    }

    #[test]
    fn who_asks_now_and_then_does_not_lead_like_a_start_up() {
        assert_eq!(led(&mut beginning(), 10_000, Nanos::ms(5)), 100, "a start-up");
        let mut rig = beginning();
        let asks = led(&mut rig, 10_000, Nanos::ms(43));
        // A sixteenth of four seconds: for each its 7 ms and the 8 ms for which others are held behind it.
        assert!((15..=20).contains(&asks), "{asks}");
        assert_eq!(led(&mut rig, 10_000, Nanos::us(500)), 0, "it has fallen behind its own pace");
    }

    #[test]
    fn who_reads_on_in_one_place_leads_for_a_sixteenth() {
        let streams = led(&mut beginning(), 0, Nanos::us(10));
        // 4 MiB until it is seen; a sixteenth of four seconds is 36 reads.
        assert!((34..=38).contains(&streams), "{streams}");
    }

    /// Ten reads at once in ten places are no start-up: what has begun leads with the first four of them.
    #[test]
    fn who_does_not_wait_for_what_it_reads_does_not_lead() {
        let mut rig = beginning();
        for _ in 0..10 {
            rig.read_on(0);
            rig.ends[0] += 10_000;
        }
        assert_eq!(rig.sched.begin.count, 4);
    }

    #[test]
    fn streams_that_wait_have_equal_time() {
        let all = Rig::new().stream(4_000, Nanos::ms(1));
        let of = |proc| all.iter().filter(|&&p| p == proc).count();
        let slice = (SLICE_MOST.0 / 1_000_000) as usize + STREAM_DEPTH as usize;
        assert!(of(0).abs_diff(of(1)) <= slice, "{} and {}", of(0), of(1));
    }

    #[test]
    fn four_requests_of_a_stream_are_inside_and_none_of_another() {
        let mut rig = Rig::new();
        rig.stream(400, Nanos::ms(2));
        for _ in 0..400 {
            rig.dispatch();
            let procs: Vec<ProcId> =
                rig.inside.iter().map(|&id| rig.env.requests[id].proc).collect();
            assert!(procs.len() <= STREAM_DEPTH as usize, "{procs:?}");
            assert!(procs.iter().all(|p| *p == procs[0]), "{procs:?}");
            let proc = rig.complete(Nanos::ms(2));
            rig.read_on(proc.0);
        }
    }

    /// A disk that serves one request at a time would serve every other one for a target that asks again at once.
    #[test]
    fn beside_random_work_a_target_that_has_spent_its_budget_has_its_share() {
        let mut rig = Rig::new();
        let target = rig.target();
        let mut served = [0; 5];
        let random = |rig: &mut Rig, proc: u32| {
            rig.ends[proc as usize] += 10_000;
            rig.read_on(proc);
        };
        for proc in [0, 0, 1, 1, 2, 2, 3, 3, target.0] {
            random(&mut rig, proc);
        }
        for _ in 0..1000 {
            let Dispatch::Issue(id) = rig.sched.dispatch(rig.now, QueueId(0), &mut rig.env.cx())
            else {
                panic!("the disk is idle though nine requests wait");
            };
            rig.env.requests.get_mut(id).issued = rig.now;
            rig.inside.push(id);
            let proc = rig.complete(Nanos::ms(8));
            served[proc.0 as usize] += 1;
            random(&mut rig, proc.0);
        }
        assert!(served.iter().all(|n| (180..=230).contains(n)), "{served:?}");
    }
}
