//! `kyber`, admission by device-wide tokens (Linux 4.12 and later; specs/kyber.md).
//!
//! *Problem.* A fast device with many hardware queues needs no sorting and bears no lock across CPUs, but
//! a deep queue of writes or discards inside it makes every read wait.
//!
//! *Idea.* Requests wait in per-CPU software queues, split into four *domains* by what they do. A request
//! leaves for the device only with a token of its domain. Tokens are few, and their number per domain
//! follows latency histograms: when the device looks congested, domains that meet their target get fewer,
//! domains that miss it get more.
//!
//! *State.* Per domain a depth, the token numbers held (`tokens`) and the histograms (`latency`). Per
//! hardware queue the domain in turn, its batch, a list of *flushed* requests per domain (taken out of the
//! software queues, so that nothing merges into them any more) and a mark per domain for which it waits.
//!
//! *Rule.* A run takes up to a batch from the domain in turn, then goes round the domains; a domain without a
//! free token is passed over. Only with a token in hand the software queues are flushed. A freed token
//! runs a queue that waits for one.
//!
//! *Control.* 100 ms after a completion: congested if the 90th percentile of a domain's device latency misses
//! its target (bucket b >= 4 of 8, a bucket being a quarter of the target). Then every domain, and otherwise
//! only one that misses its target itself, gets depth := depth * (p + 1) / 4, p being the bucket of the
//! 99th percentile of its total latency.
//!
//! *Guarantees.* 1 <= depth <= initial depth. A depth grows only when its domain misses its own target and
//! shrinks only when the device is congested. At most `depth` requests of a domain are out, except for a
//! while after a shrink.
//!
//! *Weaknesses.* Sync and async writes share a domain. Nobody is told from anybody else: no processes, groups
//! or priorities. A depth of 1 comes back only if its latency is worse than 1.75 times the target.
//! An empty flush counts as a write that has been in the device since the clock began, as it does in the kernel: beside
//! fsyncs the device always looks congested, and writes that meet their target are throttled until one is out at a time.
//! With fewer than 500 completions per second total latencies are looked at late (see `latency`).

mod latency;
mod tokens;

use self::latency::{BAD, BUCKETS, Latencies, LatencyKind};
use self::tokens::Tokens;
use super::software_queue::newest_match;
use super::{At, Depth, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use crate::device::Profile;
use crate::env::Cx;
use crate::list::{Links, List};
use crate::request::{Io, Op, ReqId, Side};
use crate::setting::{OnChange, Setting, Settings, Tunable, TunableError, Unit, listed};
use crate::stage::{Decision, Figure, Role, Stage, StageInfo};
use crate::table::{Handle, NIL};
use crate::unit::{Instant, Nanos, QueueId};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "kyber",
        summary: "tokens per kind of request, their number steered by latency targets",
        source: "specs/kyber.md (Linux 6.1)",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[Decision::new("depth", Role::Aside)],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Own,
    sorted: false,
    direct: false,
    tag_percent_min: Some(ASYNC_PERCENT),
    tags_min: 0,
    replaces_wbt: false,
    build: &|setup| Box::new(Kyber::new(setup)),
};

const ROWS: &[Setting<Kyber>] = &[
    target("read_lat_nsec", 2_000_000, "Target latency of reads.")
        .field(|k| k.latencies[READ].target().0, |k, v| k.latencies[READ].aim(Nanos(v))),
    target("write_lat_nsec", 10_000_000, "Target latency of writes, sync and async alike.")
        .field(|k| k.latencies[WRITE].target().0, |k, v| k.latencies[WRITE].aim(Nanos(v))),
    target(
        "discard_lat_nsec",
        5_000_000_000,
        "Target latency of discards (Linux has no knob for it).",
    )
    .field(|k| k.latencies[DISCARD].target().0, |k, v| k.latencies[DISCARD].aim(Nanos(v))),
    Tunable::switch(
        "timer_in_ticks",
        false,
        "Depths are adapted at a tick of the kernel, up to a tick late, instead of after \
         100 ms exactly: to compare with a real kernel.",
    )
    .on_change(OnChange::LaterSamples)
    .field(|k| k.timer_in_ticks.into(), |k, v| k.timer_in_ticks = v != 0),
    Tunable::switch(
        "flush_samples",
        true,
        "What belongs to flushes and takes no token counts in the latencies of writes, as in the \
         kernel: data steps, and empty flushes as writes that have been in the device for ever.",
    )
    .on_change(OnChange::LaterSamples)
    .field(|k| k.flush_samples.into(), |k, v| k.flush_samples = v != 0),
    Tunable::choice(
        "base",
        &["6.1", "7.3"],
        0,
        "Whose decisions: which requests may have three quarters of the tags at most. 6.1: the \
         asynchronous ones. 7.3: all but synchronous reads.",
    )
    .on_change(OnChange::Decides)
    .field(|k| k.limits_sync_writes.into(), |k, v| k.limits_sync_writes = v != 0),
];
static SETTINGS: Settings<Kyber> = Settings::new("kyber", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

const fn target(name: &'static str, default: u64, doc: &'static str) -> Tunable {
    Tunable::new(name, Unit::Nanos, default, (0, u64::MAX), doc).on_change(OnChange::LaterSamples)
}

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;
/// Everything else; not measured.
const OTHER: usize = 3;
const DOMAINS: usize = 4;
/// Domains 0 to 2 have targets.
const MEASURED: usize = OTHER;

/// Initial and largest number of tokens by domain (section 2).
/// Even fast drives are saturated well below their depth; more only lengthens the queue inside, where
/// nobody can choose. The steps say who goes first: reads, writes, discards, the rest.
const TOKENS: [u32; DOMAINS] = [256, 128, 64, 16];
/// Requests in a row by domain (section 2).
/// Reads get twice the turns of writes; one discard can hold a drive for long, so one at a time.
const BATCH: [u32; DOMAINS] = [16, 8, 1, 1];
/// Percentage of the scheduler tags that async requests may take (section 2).
/// A flood of write-back must leave a quarter of the tags to those who wait for their I/O.
const ASYNC_PERCENT: u32 = 75;
/// From a completion to the adaptation it causes (section 2).
const PERIOD: Nanos = Nanos::ms(100);
/// Percentiles of device latency (is the device congested?) and of total latency (section 2).
/// Two questions. Whether users suffer is in the tail of the total, so p99. Whether the *device* is
/// congested must not be answered by an outlier such as a garbage collection, so p90.
const IO_PERCENT: u32 = 90;
const TOTAL_PERCENT: u32 = 99;

/// The request holds no token.
const NO_TOKEN: u16 = u16::MAX;

/// Facts about the request in one slot.
#[derive(Clone, Copy, Debug)]
struct KyberSlot {
    id: ReqId,
    cpu: u32,
    queue: u16,
    token: u16,
    domain: u8,
    /// The device gave it back; nothing joins it any more.
    returned: bool,
}

/// One hardware queue.
#[derive(Clone, Debug)]
struct KyberQueue {
    /// Requests in its software queues and flushed lists.
    waiting: u32,
    cur_domain: usize,
    batching: u32,
    flushed: [List; DOMAINS],
    /// By 64 CPUs of this queue and by domain: a bit for each software queue that is not empty.
    pending: Vec<[u64; DOMAINS]>,
    /// Waits for a token of that domain.
    wants: [bool; DOMAINS],
}

impl KyberQueue {
    /// A request of that domain waits here.
    #[inline]
    fn has(&self, domain: usize) -> bool {
        !self.flushed[domain].is_empty() || self.pending.iter().any(|word| word[domain] != 0)
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct Kyber {
    timer_in_ticks: bool,
    flush_samples: bool,
    limits_sync_writes: bool,
    hw_queues: u32,
    links: Links,
    slots: Vec<KyberSlot>,
    /// By CPU and domain, for the CPUs seen so far.
    cpus: Vec<[List; DOMAINS]>,
    queues: Vec<KyberQueue>,
    tokens: [Tokens; DOMAINS],
    latencies: [Latencies; MEASURED],
    adapt_at: Option<Instant>,
    /// By domain: hardware queues that wait for a token. Most tokens come back with nobody waiting, and a device may
    /// have many queues.
    wanting: [u32; DOMAINS],
    /// By domain: the hardware queue after the one a freed token ran last.
    turn: [usize; DOMAINS],
    /// By domain: refused tokens, changed depths.
    throttled: [u64; DOMAINS],
    adjusted: [u64; MEASURED],
}

impl Kyber {
    /// An empty scheduler with all tokens free and all tunables at their defaults.
    pub fn new(setup: &Setup<'_>) -> Kyber {
        let vacant = KyberSlot {
            id: ReqId(Handle { slot: NIL, generation: 0 }),
            cpu: 0,
            queue: 0,
            token: NO_TOKEN,
            domain: 0,
            returned: false,
        };
        let queue = KyberQueue {
            waiting: 0,
            cur_domain: READ,
            batching: 0,
            flushed: [List::new(); DOMAINS],
            pending: vec![[0; DOMAINS]],
            wants: [false; DOMAINS],
        };
        let mut kyber = Kyber {
            timer_in_ticks: false,
            flush_samples: true,
            limits_sync_writes: false,
            hw_queues: setup.device.hw_queues.into(),
            links: Links::new(setup.requests),
            slots: vec![vacant; setup.requests],
            cpus: vec![[List::new(); DOMAINS]; setup.device.hw_queues.into()],
            queues: vec![queue; setup.device.hw_queues.into()],
            tokens: TOKENS.map(Tokens::new),
            latencies: core::array::from_fn(|_| Latencies::new(Nanos::ZERO)),
            adapt_at: None,
            wanting: [0; DOMAINS],
            turn: [0; DOMAINS],
            throttled: [0; DOMAINS],
            adjusted: [0; MEASURED],
        };
        SETTINGS.apply_defaults(&mut kyber);
        kyber
    }

    /// The hardware queue of a CPU, and the CPU's number among those of that queue.
    fn place_of(&self, cpu: u32) -> (usize, usize) {
        // A division is dearer than the rest of an insertion, and many devices have one queue.
        if self.hw_queues == 1 {
            (0, cpu as usize)
        } else {
            ((cpu % self.hw_queues) as usize, (cpu / self.hw_queues) as usize)
        }
    }

    /// Makes room for what a CPU submits for the first time.
    #[cold]
    fn grow(&mut self, cpu: u32) {
        self.cpus.resize(cpu as usize + 1, [List::new(); DOMAINS]);
        for queue in &mut self.queues {
            let words = cpu as usize / 64 + 1;
            queue.pending.resize(words.max(queue.pending.len()), [0; DOMAINS]);
        }
    }

    /// "Try(d)": the next request of that domain for that hardware queue, with its token.
    #[inline(always)]
    fn try_domain(&mut self, queue: usize, domain: usize) -> Option<ReqId> {
        if !self.queues[queue].has(domain) {
            return None;
        }
        // The token comes first: without one the software queues keep their requests open for merging.
        let Some(token) = self.tokens[domain].take() else {
            self.throttled[domain] += 1;
            self.want(queue, domain);
            return None;
        };
        self.queues[queue].batching += 1;
        // What took a token waits for none; if it needs another it will say so.
        self.unwant(queue, domain);
        let slot = self.pop(queue, domain);
        slot.token = token;
        Some(slot.id)
    }

    /// Goes round the domains behind the one in turn.
    #[inline(never)]
    fn next_domain(&mut self, queue: usize) -> Dispatch {
        self.queues[queue].batching = 0;
        let mut domain = self.queues[queue].cur_domain;
        for _ in 0..DOMAINS {
            domain = (domain + 1) % DOMAINS;
            if let Some(id) = self.try_domain(queue, domain) {
                self.queues[queue].cur_domain = domain;
                return Dispatch::Issue(id);
            }
        }
        Dispatch::Idle
    }

    /// The hardware queue waits for a token of that domain.
    fn want(&mut self, queue: usize, domain: usize) {
        let waits = core::mem::replace(&mut self.queues[queue].wants[domain], true);
        self.wanting[domain] += u32::from(!waits);
    }

    /// It no longer waits for one; returns whether it did.
    #[inline]
    fn unwant(&mut self, queue: usize, domain: usize) -> bool {
        let waited = core::mem::take(&mut self.queues[queue].wants[domain]);
        self.wanting[domain] -= u32::from(waited);
        waited
    }

    /// Takes the head of the flushed list, which is filled from the software queues if it is empty.
    #[inline(always)]
    fn pop(&mut self, queue: usize, domain: usize) -> &mut KyberSlot {
        if self.queues[queue].flushed[domain].is_empty() {
            self.flush(queue, domain);
        }
        let hw = &mut self.queues[queue];
        hw.waiting -= 1;
        let slot = hw.flushed[domain].pop_front(&mut self.links);
        &mut self.slots[slot.expect("the caller saw a request of this domain") as usize]
    }

    /// Moves the lists of all software queues with requests of that domain, in index order.
    #[inline(never)]
    fn flush(&mut self, queue: usize, domain: usize) {
        let hw = &mut self.queues[queue];
        for (word, pending) in hw.pending.iter_mut().enumerate() {
            let mut bits = core::mem::take(&mut pending[domain]);
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                let cpu = index * self.hw_queues as usize + queue;
                hw.flushed[domain].append(&mut self.links, &mut self.cpus[cpu][domain]);
                bits &= bits - 1;
            }
        }
    }

    /// The token of a request that is over or was given back; a queue that waits for one is run.
    #[inline(always)]
    fn release(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let slot = &mut self.slots[id.index()];
        let token = core::mem::replace(&mut slot.token, NO_TOKEN);
        // Drained requests have none.
        if slot.id != id || token == NO_TOKEN {
            return;
        }
        let domain = usize::from(slot.domain);
        self.tokens[domain].release(token);
        if self.wanting[domain] > 0 {
            self.wake_one(domain, cx);
        }
    }

    /// Runs the next hardware queue that waits for that domain. A queue that is marked has a request of
    /// the domain, so the token is taken sooner or later and its release runs the next queue.
    #[inline(never)]
    fn wake_one(&mut self, domain: usize, cx: &mut Cx<'_>) {
        let queues = self.queues.len();
        for i in 0..queues {
            let queue = if self.turn[domain] + i < queues {
                self.turn[domain] + i
            } else {
                self.turn[domain] + i - queues
            };
            if self.unwant(queue, domain) {
                self.turn[domain] = if queue + 1 == queues { 0 } else { queue + 1 };
                cx.run(QueueId(queue as u16));
                return;
            }
        }
    }

    /// The two steps of the timer: is the device congested, and what follows for each domain.
    fn adapt(&mut self, now: Instant, cx: &mut Cx<'_>) {
        let mut congested = false;
        for latencies in &mut self.latencies {
            let p90 = latencies.percentile(now, LatencyKind::Io, IO_PERCENT);
            congested |= p90.is_some_and(|bucket| bucket >= BAD);
        }
        for domain in 0..MEASURED {
            let latencies = &mut self.latencies[domain];
            let fresh = latencies.percentile(now, LatencyKind::Total, TOTAL_PERCENT);
            let p99 = if congested {
                let saved = latencies.saved_p99.take();
                fresh.or(saved)
            } else {
                latencies.saved_p99 = fresh.or(latencies.saved_p99);
                fresh
            };
            if let Some(p99) = p99
                && (congested || p99 >= BAD)
            {
                self.resize(now, domain, p99, cx);
            }
        }
    }

    fn resize(&mut self, now: Instant, domain: usize, p99: u8, cx: &mut Cx<'_>) {
        let tokens = &mut self.tokens[domain];
        let before = tokens.depth();
        if !tokens.resize(p99) {
            return;
        }
        self.adjusted[domain] += 1;
        cx.trace.why(now, "depth", domain as u32, before.into(), tokens.depth().into());
        if tokens.depth() > before {
            for queue in 0..self.queues.len() {
                if self.unwant(queue, domain) {
                    cx.run(QueueId(queue as u16));
                }
            }
        }
    }

    /// A request is over at `now`.
    fn sample(&mut self, now: Instant, domain: usize, id: ReqId, cx: &Cx<'_>) {
        if domain >= MEASURED {
            return;
        }
        let r = &cx.requests[id];
        self.latencies[domain].add(now.since(r.began), now.since(r.issued));
        // An armed timer is never later than what this completion would ask for.
        if self.adapt_at.is_none() {
            self.adapt_at = Some(self.adaptation_after(now, cx.device.tick));
        }
    }

    /// When the adaptation comes that a completion at `now` asks for.
    fn adaptation_after(&self, now: Instant, tick: Nanos) -> Instant {
        if !self.timer_in_ticks {
            return now + PERIOD;
        }
        let tick = tick.0.max(1);
        let edges = now.as_nanos() / tick + PERIOD.0.div_ceil(tick) + 1;
        Instant::from_nanos(edges * tick)
    }
}

impl Scheduler for Kyber {
    fn limits_reads(&self, _cx: &Cx<'_>) -> bool {
        false
    }

    fn knows_procs(&self) -> bool {
        false
    }

    /// Three quarters of each word of tags (section 5).
    fn depth_limit(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Depth {
        let sync = cx.device.is_sync(io.op, io.flags);
        if io.op == Op::Flush || (sync && (io.op == Op::Read || !self.limits_sync_writes)) {
            return Depth::Usual;
        }
        // Deviation: at least one, or an async request could never exist where a word is one tag.
        Depth::Word((cx.device.tag_word() * ASYNC_PERCENT / 100).max(1))
    }

    #[inline(always)]
    fn insert(&mut self, _now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        let r = &cx.requests[id];
        let (cpu, domain) = (r.cpu, domain_of(r.op));
        if cpu as usize >= self.cpus.len() {
            self.grow(cpu);
        }
        let (queue, index) = self.place_of(cpu);
        let returned = at == At::Head;
        self.slots[id.index()] = KyberSlot {
            id,
            cpu,
            queue: queue as u16,
            token: NO_TOKEN,
            domain: domain as u8,
            returned,
        };
        let list = &mut self.cpus[cpu as usize][domain];
        if returned {
            list.push_front(&mut self.links, id.slot());
        } else {
            list.push_back(&mut self.links, id.slot());
        }
        let hw = &mut self.queues[queue];
        hw.pending[index / 64][domain] |= 1 << (index % 64);
        hw.waiting += 1;
        Run::Usual
    }

    #[inline(always)]
    fn dispatch(&mut self, _now: Instant, queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        let queue = usize::from(queue.0);
        let hw = &self.queues[queue];
        if hw.waiting == 0 {
            return Dispatch::Empty;
        }
        let domain = hw.cur_domain;
        if hw.batching < BATCH[domain]
            && let Some(id) = self.try_domain(queue, domain)
        {
            return Dispatch::Issue(id);
        }
        self.next_domain(queue)
    }

    #[inline(always)]
    fn complete(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.sample(now, self.slots[id.index()].domain.into(), id, cx);
        self.release(id, cx);
    }

    fn complete_bypassed(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if self.flush_samples {
            self.sample(now, domain_of(cx.requests[id].op), id, cx);
        }
    }

    /// Quirk: to the kernel an empty flush is a write, and one that was never issued is one that was issued when the
    /// clock began. Its I/O latency is beyond every target.
    fn complete_unsent(&mut self, now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        if self.flush_samples {
            self.sample(now, WRITE, id, cx);
        }
    }

    fn requeue(&mut self, _now: Instant, id: ReqId, cx: &mut Cx<'_>) {
        self.release(id, cx);
    }

    /// Without tokens: the device takes over everything at once.
    fn drain(&mut self, _now: Instant, _cx: &mut Cx<'_>) -> Option<ReqId> {
        let queue = self.queues.iter().position(|hw| hw.waiting > 0)?;
        let domain = (0..DOMAINS).find(|&d| self.queues[queue].has(d));
        let domain = domain.expect("waiting counts the lists");
        let id = self.pop(queue, domain).id;
        if !self.queues[queue].has(domain) {
            // A mark stands for a request that waits.
            self.unwant(queue, domain);
        }
        Some(id)
    }

    fn may_merge(&mut self, _now: Instant, _io: &Io, into: ReqId, _cx: &mut Cx<'_>) -> bool {
        !self.slots[into.index()].returned
    }

    fn find_merge(&mut self, _now: Instant, io: &Io, cx: &mut Cx<'_>) -> Option<(ReqId, Side)> {
        let list = &self.cpus.get(io.cpu as usize)?[domain_of(io.op)];
        let open = |slot: u32| !self.slots[slot as usize].returned;
        let (slot, side) = newest_match(list, &self.links, cx.requests, io, open)?;
        Some((self.slots[slot as usize].id, side))
    }

    /// Only a request about to be inserted can be absorbed here: kyber names no neighbours. One that
    /// waits is taken out all the same.
    fn merged(&mut self, _now: Instant, _kept: ReqId, what: Merged, _cx: &mut Cx<'_>) {
        let Merged::Request(gone) = what else { return };
        let KyberSlot { id, cpu, queue, domain, .. } = self.slots[gone.index()];
        if id != gone || !self.links.linked(gone.slot()) {
            return;
        }
        let (queue, domain) = (usize::from(queue), usize::from(domain));
        let (_, index) = self.place_of(cpu);
        let hw = &mut self.queues[queue];
        let list = &mut self.cpus[cpu as usize][domain];
        if list.iter(&self.links).any(|slot| slot == gone.slot()) {
            list.remove(&mut self.links, gone.slot());
            if list.is_empty() {
                hw.pending[index / 64][domain] &= !(1 << (index % 64));
            }
        } else {
            hw.flushed[domain].remove(&mut self.links, gone.slot());
        }
        hw.waiting -= 1;
        if !self.queues[queue].has(domain) {
            self.unwant(queue, domain);
        }
    }
}

impl Stage for Kyber {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn timer(&mut self, now: Instant, cx: &mut Cx<'_>) {
        if self.adapt_at.is_some_and(|at| at <= now) {
            self.adapt_at = None;
            self.adapt(now, cx);
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.adapt_at
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        SETTINGS.set(self, name, value).map(drop)
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(self, name)
    }

    /// `of` is the domain (0 read, 1 write, 2 discard, 3 other), of a histogram 8 times the domain plus the
    /// bucket, of `cur_domain` and `batching` the hardware queue.
    fn figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, of: usize, value| sink(Figure { name, of: Some(of as u32), value });
        for (domain, tokens) in self.tokens.iter().enumerate() {
            put("depth", domain, tokens.depth().into());
            put("outstanding", domain, tokens.outstanding().into());
            let waiting = self.queues.iter().filter(|hw| hw.wants[domain]).count();
            put("queues_waiting", domain, waiting as i64);
            put("throttled", domain, self.throttled[domain] as i64);
        }
        for (domain, latencies) in self.latencies.iter().enumerate() {
            put("adjusted", domain, self.adjusted[domain] as i64);
            for (name, kind) in
                [("total_samples", LatencyKind::Total), ("io_samples", LatencyKind::Io)]
            {
                for (bucket, &n) in latencies.histogram(kind).iter().enumerate() {
                    put(name, BUCKETS * domain + bucket, n.into());
                }
            }
        }
        for (queue, hw) in self.queues.iter().enumerate() {
            put("cur_domain", queue, hw.cur_domain as i64);
            put("batching", queue, hw.batching.into());
        }
    }
}

fn domain_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
        Op::Flush | Op::WriteZeroes => OTHER,
    }
}
