//! `adios`, the Adaptive Deadline I/O Scheduler of several desktop distributions (3.1.9 and 3.2.0, for Linux 6.12 to
//! 6.19; specs/adios.md).
//!
//! *Problem.* A read that a user waits for stands behind hundreds of milliseconds of writes in the drive. Fixed limits in
//! requests do not help: what a request costs differs between drives by a factor of a hundred, and between a read and
//! a discard by as much.
//!
//! *Idea.* Learn what each kind of request takes (`model`), and draw requests in *batches* whose predicted time fills a
//! window of 16 ms (22 ms on disks). Inside the batch reads leave before writes; between batches a soft deadline and a bias
//! decide which of both goes on.
//!
//! *State.* Two trees by deadline (reads; everything else), the deadlines rounded down to 1.05 ms so that arrivals of one
//! moment stay in order. Two pages of four queues, by kind: the batch that is handed out, and the next. A FIFO for
//! everything while nothing is learned yet, one for head insertions, and one for what waits behind a barrier. In one word
//! how many requests are out and what they are predicted to take.
//!
//! *Rule.* FIFOs first, then the current page; the next page is drawn when it is empty and the device has less than a
//! fifth of a window left (`bq_refill_below_ratio`). Drawing takes the head of the tree that the bias asks for, reads or
//! others; a head that is not the more urgent one is charged to the bias, by prediction times a weight.
//!
//! *Guarantees.* Whatever waits is handed out: a page that is empty is refilled whatever is in flight, and no rule holds a
//! request back for time alone. Per kind at most so many requests are in one batch.
//!
//! *Weaknesses.* Nobody is told from anybody else: no processes, groups or priorities. Reads do not carry the SYNC flag
//! and count as asynchronous (Q1). In 3.1.9 each discard is a barrier that everything behind it waits for, and that
//! itself does not wait for completions (Q3). Samples of one kind teach the models of others (Q7). Both FIFOs can starve
//! the rest. The window bounds the drawing and not the device (Q15).
//!
//! Sources: specs/adios.md; the answers of the original's decision logic in `crates/hoistway-replay/tests/data/adios`.

mod model;
mod tunables;

use self::model::{KINDS, Models, ServiceSample, Shrink};
use self::tunables::{SETTINGS, TUNABLES};
use super::{At, Dispatch, Entry, Merged, Open, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::{Links, List};
use crate::request::{Flags, Io, Op, ReqId, Request};
use crate::setting::TunableError;
use crate::stage::{Decision, Figure, Role, Stage, StageInfo};
use crate::table::{Handle, NIL};
use crate::tree::{Nodes, Tree};
use crate::unit::{Instant, Nanos, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "adios",
        summary: "batches that fill a window of predicted latency, learned per kind of request",
        source: "specs/adios.md (ADIOS 3.1.9 and 3.2.0)",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[
            Decision::new("batch drawn", Role::Aside),
            Decision::new("behind a barrier", Role::Aside),
        ],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: None,
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(Adios::new(setup)),
};

/// Kinds of requests.
const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
const OTHER: usize = 3;

/// Deadlines are compared in units of 2^20 ns: requests of one moment keep their order of arrival.
const GRAIN: u64 = (1 << 20) - 1;
/// From the first sample after an update of the models to the next update.
const PERIOD: Nanos = Nanos::ms(100);
/// The window on disks: a seek costs more than on flash, so a batch must be longer to hold as many requests.
const ROTATIONAL_WINDOW_NS: u64 = 22_000_000;
const WINDOW_NS: u64 = 16_000_000;
/// Batch order: reads before writes, or by sector.
const ELEVATOR: u64 = 1;
/// Bit of `compliance_flags`: deadlines without the prediction.
const NO_PREDICTION: u64 = 1;

/// Weights of the priorities -20 to 19: each step is worth about a quarter, as a nice level of the CPU scheduler is.
const WEIGHTS: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
/// Priority of the tree of writes, as an index into the weights: 0.
const WRITE_PRIORITY: u64 = 20;
/// Settings in force.
#[derive(Clone, Copy, Debug, Default)]
struct AdiosConf {
    window_ns: u64,
    refill_percent: u64,
    latency_limit_ns: u64,
    batch_order: u64,
    compliance: u64,
    batch_limit: [u64; KINDS],
    target_ns: [u64; KINDS],
    shrink: Shrink,
    read_priority: u64,
    /// Last written to `reset_bq_stats`.
    reset: bool,
    /// 3.2.0 instead of 3.1.9.
    newer: bool,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdiosPlace {
    /// Not here: not inserted yet, or handed out.
    Nowhere,
    HeadFifo,
    PlainFifo,
    /// Behind a barrier, or one.
    Held,
    /// In the tree of that number.
    Tree(u8),
    /// In that queue of that page.
    Page(u8, u8),
    /// Its barrier is over and it enters a tree.
    Released,
}

/// Facts about the request in one slot. Size and prediction are those of its insertion (Q10).
#[derive(Clone, Copy, Debug)]
struct AdiosSlot {
    id: ReqId,
    kind: u8,
    place: AdiosPlace,
    /// It was inserted, so it has a share of what is in flight.
    managed: bool,
    bytes: u64,
    predicted: u64,
    deadline: u64,
}

/// A batch.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    queues: [List; KINDS],
    counts: [u64; KINDS],
    order: u64,
}

impl Page {
    fn is_empty(&self) -> bool {
        self.queues.iter().all(List::is_empty)
    }

    fn len(&self) -> i64 {
        self.queues.iter().map(|q| i64::from(q.len())).sum()
    }
}

/// Requests handed out or about to be, and what they are predicted to take: one word, as in the original, of which the
/// sum has the upper 48 bits and wraps.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight(u64);

impl InFlight {
    fn add(&mut self, count: u64, predicted: u64) {
        self.0 = self.0.wrapping_add((predicted << 16).wrapping_add(count));
    }

    fn take(&mut self, predicted: u64) {
        self.0 = self.0.wrapping_sub((predicted << 16).wrapping_add(1));
    }

    fn count(self) -> u64 {
        self.0 & 0xffff
    }

    fn predicted(self) -> u64 {
        self.0 >> 16
    }
}

/// Counts for reports.
#[derive(Clone, Copy, Debug, Default)]
struct AdiosCounters {
    batches: u64,
    stopped_by_limit: u64,
    stopped_by_window: u64,
    stopped_without_base: u64,
    barriers: u64,
    /// Largest batch: in all, and by kind.
    largest: u64,
    largest_of: [u64; KINDS],
}

impl AdiosCounters {
    fn forget_largest(&mut self) {
        (self.largest, self.largest_of) = (0, [0; KINDS]);
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct Adios {
    conf: AdiosConf,
    rotational: bool,
    tick: Nanos,
    slots: Vec<AdiosSlot>,
    links: Links,
    nodes: Nodes<u64>,
    trees: [Tree; 2],
    head_fifo: List,
    plain_fifo: List,
    held: List,
    /// Something is held back behind a barrier.
    holding: bool,
    /// Requests that were held back are being inserted again, up to the next barrier.
    releasing: bool,
    pages: [Page; 2],
    page: usize,
    /// Above zero: writes have been favoured.
    bias: i64,
    in_flight: InFlight,
    /// Both reads and writes have a model.
    learned: bool,
    models: Models,
    update_at: Option<Instant>,
    /// The completion before, while the device was busy since.
    last_done: Option<Instant>,
    /// Where the last completed request began; 0: nowhere.
    last_pos: u64,
    /// Where the last request handed out ended.
    head: u64,
    /// The second queue of a batch in sector order is taken from its end.
    down: bool,
    /// For sorting a batch: sector, place, slot.
    scratch: Vec<(u64, u32, u32)>,
    counters: AdiosCounters,
}

impl Adios {
    /// An empty scheduler that has learned nothing.
    pub fn new(setup: &Setup<'_>) -> Adios {
        let vacant = AdiosSlot {
            id: ReqId(Handle { slot: NIL, generation: 0 }),
            kind: 0,
            place: AdiosPlace::Nowhere,
            managed: false,
            bytes: 0,
            predicted: 0,
            deadline: 0,
        };
        let tick = Nanos(setup.device.tick.0.max(1));
        let mut adios = Adios {
            conf: AdiosConf::default(),
            rotational: setup.device.rotational,
            tick,
            slots: vec![vacant; setup.requests],
            links: Links::new(setup.requests),
            nodes: Nodes::new(setup.requests),
            trees: [Tree::new(), Tree::new()],
            head_fifo: List::new(),
            plain_fifo: List::new(),
            held: List::new(),
            holding: false,
            releasing: false,
            pages: [Page::default(); 2],
            page: 0,
            bias: 0,
            in_flight: InFlight::default(),
            learned: false,
            models: Models::new(setup.now.as_nanos() / tick.0, tick),
            update_at: None,
            last_done: None,
            last_pos: 0,
            head: 0,
            down: false,
            scratch: Vec::with_capacity(setup.requests),
            counters: AdiosCounters::default(),
        };
        SETTINGS.apply_defaults(&mut adios);
        // There is no knob for the rest.
        adios.conf.batch_limit[OTHER] = 1;
        // The models that the defaults of their settings have put down are none.
        adios.models = Models::new(setup.now.as_nanos() / tick.0, tick);
        adios
    }

    /// Predicted time that a batch may fill.
    fn window(&self) -> u64 {
        match (self.conf.window_ns, self.rotational) {
            (0, true) => ROTATIONAL_WINDOW_NS,
            (0, false) => WINDOW_NS,
            (given, _) => given,
        }
    }

    /// Order of the batches drawn from now on.
    ///
    /// Deviation: on other drives than rotational ones the kernel refuses to set another order; here it has no effect.
    fn order(&self) -> u64 {
        if self.rotational { self.conf.batch_order } else { 0 }
    }

    fn ticks(&self, now: Instant) -> u64 {
        now.as_nanos() / self.tick.0
    }

    fn slot(&mut self, id: ReqId) -> &mut AdiosSlot {
        &mut self.slots[id.index()]
    }

    fn is_here(&self, id: ReqId) -> bool {
        let slot = &self.slots[id.index()];
        slot.id == id && slot.managed
    }

    /// Everything queued behind it waits for it (5.4 b).
    fn is_barrier(&self, op: Op) -> bool {
        op == Op::Flush || op == Op::Discard && !self.conf.newer
    }

    /// Step T: into a tree, at the tail of its group.
    fn enter_tree(&mut self, id: ReqId, r: &Request) {
        let began = r.began.as_nanos();
        let (target, by_prediction) =
            (self.conf.target_ns, self.conf.compliance & NO_PREDICTION == 0);
        let slot = &mut self.slots[id.index()];
        let kind = usize::from(slot.kind);
        slot.deadline = began;
        // The literal flag: reads do not carry it, whoever waits for them (Q1).
        if !r.flags.any(Flags::SYNC) {
            let predicted = if by_prediction { slot.predicted } else { 0 };
            slot.deadline = began.wrapping_add(target[kind]).wrapping_add(predicted);
        }
        let tree = usize::from(kind != READ);
        slot.place = AdiosPlace::Tree(tree as u8);
        self.trees[tree].insert(&mut self.nodes, id.slot(), slot.deadline & !GRAIN, ());
    }

    /// Takes a request out of its tree, if it is in one.
    fn leave_tree(&mut self, id: ReqId) -> bool {
        let AdiosPlace::Tree(tree) = self.slots[id.index()].place else { return false };
        self.trees[usize::from(tree)].remove(&mut self.nodes, id.slot());
        self.slot(id).place = AdiosPlace::Nowhere;
        true
    }

    fn trees_empty(&self) -> bool {
        self.trees.iter().all(Tree::is_empty)
    }

    /// 5.7: which end of the second queue is nearer to the head.
    fn turn(&mut self, cx: &Cx<'_>) {
        if !self.rotational {
            return;
        }
        let page = &self.pages[self.page];
        let queue = &page.queues[1];
        self.down = page.order == ELEVATOR && !queue.is_empty() && {
            let start = |slot| cx.requests.at(slot).start.0;
            self.head > u64::midpoint(start(queue.head()), start(queue.tail()))
        };
    }

    /// 5.5 step 1: the FIFOs. The plain one goes first, against the documented order (Q2).
    fn next_of_fifos(&mut self, cx: &Cx<'_>) -> Option<ReqId> {
        let fifo =
            if self.plain_fifo.is_empty() { &mut self.head_fifo } else { &mut self.plain_fifo };
        let slot = fifo.pop_front(&mut self.links)?;
        if fifo.is_empty() {
            self.turn(cx);
        }
        Some(self.slots[slot as usize].id)
    }

    /// 5.5 step 2: the current batch, or the next one.
    fn next_of_batch(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        let back = 1 - self.page;
        let empty = self.pages[self.page].is_empty();
        let low = u128::from(self.window()) * u128::from(self.conf.refill_percent) / 100;
        let ahead = self.in_flight.predicted();
        if self.pages[back].is_empty()
            && !self.trees_empty()
            && (empty || ahead == 0 || u128::from(ahead) < low)
        {
            self.draw(now, back, cx);
        }
        if empty && !self.pages[back].is_empty() {
            self.page = back;
            self.turn(cx);
        }
        let page = &mut self.pages[self.page];
        let (at, queue) = page.queues.iter_mut().enumerate().find(|(_, q)| !q.is_empty())?;
        let last = page.order == ELEVATOR && at == 1 && self.down;
        let slot = if last { queue.tail() } else { queue.head() };
        queue.remove(&mut self.links, slot);
        Some(self.slots[slot as usize].id)
    }

    /// 5.6: the next batch, into page `into`.
    fn draw(&mut self, now: Instant, into: usize, cx: &mut Cx<'_>) {
        let order = self.order();
        self.pages[into].counts = [0; KINDS];
        self.pages[into].order = order;
        let ahead = self.in_flight.predicted();
        let (mut sum, mut n) = (0_u64, 0_u64);
        while let Some((tree, charged)) = self.choose() {
            let want = usize::from(self.bias < 0);
            let id = self.slots[self.trees[tree].first() as usize].id;
            let AdiosSlot { kind, predicted, deadline, .. } = self.slots[id.index()];
            let kind = usize::from(kind);
            if n > 0
                && self.is_full(into, kind, ahead.saturating_add(sum).saturating_add(predicted))
            {
                break;
            }
            if charged {
                self.charge(want, predicted);
            }
            self.leave_tree(id);
            cx.close(id);
            let queue = match order {
                ELEVATOR if kind != OTHER => {
                    usize::from(deadline != cx.requests[id].began.as_nanos())
                }
                _ => kind,
            };
            let page = &mut self.pages[into];
            page.queues[queue].push_back(&mut self.links, id.slot());
            page.counts[kind] += 1;
            self.slots[id.index()].place = AdiosPlace::Page(into as u8, queue as u8);
            sum = sum.wrapping_add(predicted);
            n += 1;
        }
        if order == ELEVATOR && self.pages[into].counts[WRITE] > 1 {
            self.sort(into, cx);
        }
        self.in_flight.add(n, sum);
        let c = &mut self.counters;
        c.batches += 1;
        c.largest = c.largest.max(n);
        for (most, count) in c.largest_of.iter_mut().zip(self.pages[into].counts) {
            *most = (*most).max(count);
        }
        cx.trace.why(now, "batch drawn", 0, n as i64, sum as i64);
    }

    /// The tree to draw from next, and whether the bias pays for it.
    fn choose(&self) -> Option<(usize, bool)> {
        let want = usize::from(self.bias < 0);
        let deadline = |tree: usize| self.slots[self.trees[tree].first() as usize].deadline;
        match (self.trees[0].is_empty(), self.trees[1].is_empty()) {
            (true, true) => None,
            (false, false) => Some((want, deadline(want) > deadline(1 - want))),
            (empty, _) => Some((usize::from(empty), want == usize::from(empty))),
        }
    }

    /// May the batch not take one more of that kind, which would make it that long?
    fn is_full(&mut self, into: usize, kind: usize, length: u64) -> bool {
        let window = self.window();
        let c = &mut self.counters;
        let why = if self.models.of[kind].base == 0 {
            &mut c.stopped_without_base
        } else if self.pages[into].counts[kind] >= self.conf.batch_limit[kind] {
            &mut c.stopped_by_limit
        } else if length > window {
            &mut c.stopped_by_window
        } else {
            return false;
        };
        *why += 1;
        true
    }

    fn charge(&mut self, want: usize, predicted: u64) {
        let sign = if want == 1 { 1 } else { -1 };
        if predicted == 0 {
            self.bias = sign;
            return;
        }
        let priority = if want == 1 { WRITE_PRIORITY } else { self.conf.read_priority };
        let weighted = predicted.wrapping_mul(WEIGHTS[priority as usize] as u64) >> 10;
        self.bias = self.bias.wrapping_add(sign * weighted as i64);
    }

    /// The second queue of a batch by sector.
    fn sort(&mut self, page: usize, cx: &Cx<'_>) {
        let queue = &mut self.pages[page].queues[1];
        self.scratch.clear();
        while let Some(slot) = queue.pop_front(&mut self.links) {
            let place = self.scratch.len() as u32;
            self.scratch.push((cx.requests.at(slot).start.0, place, slot));
        }
        self.scratch.sort_unstable();
        for &(_, _, slot) in &self.scratch {
            queue.push_back(&mut self.links, slot);
        }
    }

    /// 5.5 step 3: the barrier is next, and what stands behind it up to the next one goes back to the trees.
    fn release(&mut self) {
        let slot = self.held.pop_front(&mut self.links);
        let slot = slot.expect("a barrier holds at least itself back");
        let entry = &mut self.slots[slot as usize];
        entry.place = AdiosPlace::PlainFifo;
        self.in_flight.add(1, entry.predicted);
        self.plain_fifo.push_back(&mut self.links, slot);
        self.releasing = true;
        self.counters.barriers += 1;
    }

    /// The next request that the barrier released; `None`: the next is a barrier, or nothing is held back.
    fn next_released(&mut self, cx: &Cx<'_>) -> Option<u32> {
        let slot = self.held.head();
        if slot != NIL && !self.is_barrier(cx.requests.at(slot).op) {
            return Some(slot);
        }
        self.releasing = false;
        self.holding = !self.held.is_empty();
        None
    }

    /// Something is handed out.
    fn leaves(&mut self, id: ReqId, cx: &Cx<'_>) {
        self.slot(id).place = AdiosPlace::Nowhere;
        if self.rotational {
            self.head = cx.requests[id].end().0;
        }
    }

    /// Lessons of a completion (5.9, steps 2 to 6).
    fn observe(&mut self, now: Instant, r: &Request, slot: AdiosSlot, busy: bool) {
        let kind = usize::from(slot.kind);
        if kind == OTHER {
            if self.rotational {
                self.last_pos = 0;
            }
            return;
        }
        let since = self.last_done.unwrap_or(r.issued);
        self.last_done = busy.then_some(now);
        if r.issued == Instant::ZERO || slot.bytes == 0 || now < since {
            return;
        }
        // The time since the completion before, while the device was busy: a service time.
        let latency = (now - since).0;
        let too_long = latency > self.conf.latency_limit_ns;
        if too_long && !self.conf.newer {
            return;
        }
        let mut weight = 1;
        if self.rotational {
            let at = r.start.0;
            if self.last_pos > 0 {
                let far = at.abs_diff(self.last_pos);
                weight += u64::from(u64::BITS - far.leading_zeros());
            }
            self.last_pos = at;
        }
        if too_long {
            return;
        }
        let (tick, shrink) = (self.ticks(now), self.conf.shrink);
        let wraps = !self.conf.newer;
        let sample =
            ServiceSample { bytes: slot.bytes, latency, predicted: slot.predicted, weight };
        self.models.learn(kind, sample, wraps, tick, &shrink);
        let at = now + PERIOD;
        self.update_at = Some(self.update_at.map_or(at, |armed| armed.min(at)));
    }

    /// Loads the model of a kind by hand.
    fn load(&mut self, now: Instant, kind: usize, base: u64, slope: u64) {
        let tick = self.ticks(now);
        self.models.load(kind, base, slope, tick);
    }

    /// Values written stand in the model already; as a load it begins anew from there.
    fn load_as_it_stands(&mut self, now: Instant, kind: usize) {
        let (base, slope) = (self.models.of[kind].base, self.models.of[kind].slope);
        self.load(now, kind, base, slope);
        self.models.empty_pool();
    }
}

impl Scheduler for Adios {
    fn prepare(&mut self, _now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        let slot = self.slot(id);
        slot.id = id;
        slot.managed = false;
        slot.place = AdiosPlace::Nowhere;
    }

    fn opens_all(&self) -> bool {
        false
    }

    fn open(&self, id: ReqId, cx: &Cx<'_>) -> Open {
        let released = self.slots[id.index()].place == AdiosPlace::Released;
        let to_a_tree = self.learned && !self.holding && !self.is_barrier(cx.requests[id].op);
        if released || to_a_tree { Open::Full } else { Open::Closed }
    }

    fn knows_procs(&self) -> bool {
        false
    }

    fn insert(&mut self, _now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let r = &cx.requests[id];
        if self.slots[id.index()].place == AdiosPlace::Released {
            self.enter_tree(id, r);
            return Run::Usual;
        }
        let kind = match r.op {
            Op::Read => READ,
            Op::Write => WRITE,
            Op::Discard => DISCARD,
            Op::Flush | Op::WriteZeroes => OTHER,
        };
        let bytes = r.sectors.bytes().0;
        let mut predicted = self.models.of[kind].predict(bytes);
        if self.conf.newer {
            predicted = predicted.min(self.conf.latency_limit_ns);
        }
        let op = r.op;
        let place = AdiosPlace::Nowhere;
        let slot =
            AdiosSlot { id, kind: kind as u8, place, managed: true, bytes, predicted, deadline: 0 };
        self.slots[id.index()] = slot;
        if !self.learned || at == At::Head {
            let (fifo, place) = match at {
                At::Head => (&mut self.head_fifo, AdiosPlace::HeadFifo),
                At::Tail => (&mut self.plain_fifo, AdiosPlace::PlainFifo),
            };
            fifo.push_back(&mut self.links, id.slot());
            self.slot(id).place = place;
            self.in_flight.add(1, predicted);
            // From the next request on, also of the same plug.
            self.learned |= [READ, WRITE].iter().all(|&k| self.models.of[k].base > 0);
            return Run::Usual;
        }
        self.holding |= self.is_barrier(op);
        if self.holding {
            self.slot(id).place = AdiosPlace::Held;
            self.held.push_back(&mut self.links, id.slot());
            return Run::Usual;
        }
        self.enter_tree(id, &cx.requests[id]);
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        loop {
            let next = self.next_of_fifos(cx).or_else(|| self.next_of_batch(now, cx));
            if let Some(id) = next {
                self.leaves(id, cx);
                return Dispatch::Issue(id);
            }
            if !self.holding {
                return Dispatch::Empty;
            }
            self.release();
            if self.next_released(cx).is_some() {
                return Dispatch::Idle;
            }
        }
    }

    fn reinsert(&mut self, _now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if !self.releasing {
            return None;
        }
        let slot = self.next_released(cx)?;
        self.held.remove(&mut self.links, slot);
        let entry = &mut self.slots[slot as usize];
        entry.place = AdiosPlace::Released;
        Some(entry.id)
    }

    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        // Deviation: the end of a pure flush, which is never inserted, is not told (Q16).
        if !self.is_here(id) {
            return;
        }
        let slot = self.slots[id.index()];
        self.slot(id).managed = false;
        self.in_flight.take(slot.predicted);
        let busy = self.in_flight.count() != 0;
        self.observe(now, &cx.requests[id], slot, busy);
    }

    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        !self.holding && matches!(self.slots[into.index()].place, AdiosPlace::Tree(_))
    }

    fn merged(&mut self, _now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        match what {
            // The prediction stays, and with it usually the group; its place there is lost (Q10).
            Merged::Bio(_) => {
                if self.leave_tree(kept) {
                    self.enter_tree(kept, &cx.requests[kept]);
                }
            }
            Merged::Request(gone) => {
                self.leave_tree(gone);
                self.slot(gone).managed = false;
            }
        }
    }
}

impl Stage for Adios {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn timer(&mut self, now: Instant, _cx: &mut Cx<'_>) {
        self.update_at = None;
        let (tick, shrink) = (self.ticks(now), self.conf.shrink);
        (0..KINDS).for_each(|kind| self.models.update(kind, tick, &shrink));
    }

    fn next_timer(&self) -> Option<Instant> {
        self.update_at
    }

    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        if let Some(effect) = SETTINGS.set(self, name, value)?.effect {
            effect(self, now);
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(self, name)
    }

    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        for (kind, model) in self.models.of.iter().enumerate() {
            let mut put = |name, value| sink(Figure { name, of: Some(kind as u32), value });
            put("base_ns", model.base as i64);
            put("slope_ns_per_kib", model.slope as i64);
            put("small_latency_ns", model.small.0 as i64);
            put("small_samples", model.small.1 as i64);
            put("large_latency_ns", model.large.0 as i64);
            put("large_bytes", model.large.1 as i64);
            put("updated_tick", model.updated as i64);
            put("largest_batch_of_kind", self.counters.largest_of[kind] as i64);
        }
        let mut put = |name, value| sink(Figure { name, of: None, value });
        put("learned", self.learned.into());
        put("bias", self.bias);
        put("predicted_in_flight_ns", self.in_flight.predicted() as i64);
        put("in_flight", self.in_flight.count() as i64);
        put("head_fifo", self.head_fifo.len().into());
        put("plain_fifo", self.plain_fifo.len().into());
        put("reads_waiting", self.trees[0].len().into());
        put("others_waiting", self.trees[1].len().into());
        put("page_0", self.pages[0].len());
        put("page_1", self.pages[1].len());
        put("holding", self.holding.into());
        put("page", self.page as i64);
        put("down", self.down.into());
        put("head_sector", self.head as i64);
        let c = &self.counters;
        put("batches", c.batches as i64);
        put("batches_stopped_by_limit", c.stopped_by_limit as i64);
        put("batches_stopped_by_window", c.stopped_by_window as i64);
        put("batches_stopped_without_base", c.stopped_without_base as i64);
        put("barriers_released", c.barriers as i64);
        put("largest_batch", c.largest as i64);
    }
}
