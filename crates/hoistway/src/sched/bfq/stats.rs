//! Counts for reports, each with a unit and a description (specs/bfq.md section 12): of the device, of
//! every group, and with `queue_statistics` of every queue.

use super::Bfq;
use super::ids::{Id, QueueNo, Rows};
use super::wf2q::{BE, ROOT};
use crate::stage::{Figure, FigureDoc};
use crate::unit::{Instant, Nanos};

/// Counts since the scheduler came into force that only the device as a whole has.
#[derive(Clone, Debug, Default)]
pub(super) struct BfqStats {
    pub time_charges: u64,
    pub injected_async: u64,
    pub injected_waker: u64,
    pub injected_woken: u64,
    pub injected_general: u64,
    pub wakers: u64,
    pub preempted_hole: u64,
    pub preempted_rank: u64,
    pub preempted_pointless: u64,
    pub raising_ended: u64,
    pub stable_merges: u64,
    /// By queue, if `queue_statistics` is on; else empty.
    pub queues: Rows<QueueNo, Tally>,
}

/// Counts of a queue, or of the queues of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub requests: u64,
    pub sectors: u64,
    /// Sectors charged for time beyond the service received.
    pub time_charged: u64,
    pub in_service: Nanos,
    /// Sectors granted in all slots.
    pub budgets: u64,
    /// Slots by reason of expiry.
    pub slots: [u64; 5],
    pub idle_armed: u64,
    pub idle_useful: u64,
    pub idled: Nanos,
    pub injected: u64,
    pub raised_interactive: u64,
    pub raised_soft: u64,
    pub merges: u64,
    pub splits: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.time_charged += other.time_charged;
        self.in_service += other.in_service;
        self.budgets += other.budgets;
        for (slots, n) in self.slots.iter_mut().zip(other.slots) {
            *slots += n;
        }
        self.idle_armed += other.idle_armed;
        self.idle_useful += other.idle_useful;
        self.idled += other.idled;
        self.injected += other.injected;
        self.raised_interactive += other.raised_interactive;
        self.raised_soft += other.raised_soft;
        self.merges += other.merges;
        self.splits += other.splits;
    }
}

/// The counts of a [`Tally`]: the name without prefix and with unit, unit, value, description.
macro_rules! tallied {
    ($($name:literal $unit:literal $value:expr, $doc:literal;)*) => {
        const OF_QUEUES: &[FigureDoc] = &[$(FigureDoc {
            name: concat!("queue_", $name), unit: $unit, of: "queue", doc: $doc,
        }),*];
        const OF_GROUPS: &[FigureDoc] = &[$(FigureDoc {
            name: concat!("group_", $name), unit: $unit, of: "group", doc: $doc,
        }),*];
        const OF_ALL: &[FigureDoc] = &[$(FigureDoc {
            name: $name, unit: $unit, of: "device", doc: $doc,
        }),*];
        const VALUES: &[fn(&Tally) -> u64] = &[$($value),*];
    };
}

tallied! {
    "requests_served" "requests" |t| t.requests, "Requests sent to the device.";
    "sectors_served" "sectors" |t| t.sectors, "Sectors of these requests.";
    "time_charged_sectors" "sectors" |t| t.time_charged,
        "Sectors charged for the time of slow slots, beyond those served.";
    "time_in_service_ns" "ns" |t| t.in_service.0, "Length of all slots, idling included.";
    "budget_granted_sectors" "sectors" |t| t.budgets, "Sum of the budgets at the starts of all slots.";
    "slots_expired_too_idle" "slots" |t| t.slots[0], "Slots that ended because waiting was in vain.";
    "slots_expired_timeout" "slots" |t| t.slots[1], "Slots that ended by their time limit.";
    "slots_expired_exhausted" "slots" |t| t.slots[2], "Slots that ended with the budget used up.";
    "slots_expired_no_more_requests" "slots" |t| t.slots[3],
        "Slots that ended because there was nothing more to serve and waiting would not pay.";
    "slots_expired_preempted" "slots" |t| t.slots[4], "Slots that ended because another queue took over.";
    "idle_timer_armed" "" |t| t.idle_armed, "How often the device was kept idle for a next request.";
    "idle_timer_useful" "" |t| t.idle_useful, "How often that request came in time.";
    "idle_time_ns" "ns" |t| t.idled.0, "Time the device was kept idle.";
    "injected_requests" "requests" |t| t.injected,
        "Requests served while the device was waiting for another queue.";
    "raised_interactive" "" |t| t.raised_interactive,
        "How often the weight was raised as that of an interactive queue.";
    "raised_soft_real_time" "" |t| t.raised_soft,
        "How often the weight was raised as that of a soft real-time queue.";
    "queues_merged" "" |t| t.merges, "Contexts that went on with a shared queue; counted where they came from.";
    "queues_split" "" |t| t.splits, "Contexts that left a shared queue.";
}

/// Figures that only a queue has, then only a group, then only the device.
const ONLY_QUEUE: &[FigureDoc] = &[
    doc("queue_process", "", "queue", "Number of the process whose queue it is; -1: shared."),
    doc("queue_weight", "", "queue", "Weight in force, raising included."),
    doc("queue_max_budget_sectors", "sectors", "queue", "Budget that the feedback has arrived at."),
];
const ONLY_GROUP: &[FigureDoc] =
    &[doc("group_weight", "", "group", "Weight in force among its siblings; none for the root.")];
const ONLY_DEVICE: &[FigureDoc] = &[
    doc("time_charges", "slots", "device", "Slots that were charged for their time."),
    doc(
        "injected_of_same_process",
        "requests",
        "device",
        "Injected: async ones of the process waited for.",
    ),
    doc(
        "injected_of_waker",
        "requests",
        "device",
        "Injected: of the queue that wakes the one waited for.",
    ),
    doc(
        "injected_of_woken",
        "requests",
        "device",
        "Injected: of a queue that the one waited for wakes.",
    ),
    doc(
        "injected_general",
        "requests",
        "device",
        "Injected: of any queue, as far as the limit allows.",
    ),
    doc("wakers_found", "", "device", "How often a queue was found to wake another."),
    doc(
        "preempted_for_service_hole",
        "slots",
        "device",
        "Preempted by a queue that recovers its hole.",
    ),
    doc(
        "preempted_for_class_or_weight",
        "slots",
        "device",
        "Preempted by a higher class or weight.",
    ),
    doc(
        "preempted_because_idling_is_pointless",
        "slots",
        "device",
        "Preempted because waiting for the queue in service would not pay.",
    ),
    doc("raising_ended", "", "device", "How often raising was ended."),
    doc("large_bursts", "", "device", "Bursts of queues too large to be raised."),
    doc(
        "queues_merged_at_creation",
        "",
        "device",
        "Queues merged because they were born together.",
    ),
    doc("peak_rate_sectors_per_s", "sectors/s", "device", "Estimated peak rate."),
    doc("rate_intervals_accepted", "", "device", "Intervals that moved the estimate."),
    doc("rate_intervals_rejected", "", "device", "Intervals that did not count."),
    doc("max_budget_sectors", "sectors", "device", "Largest budget, from the peak rate or as set."),
    doc("queues", "", "device", "Queues that exist."),
    doc("queues_busy", "", "device", "Queues with requests, or in service."),
    doc("queues_busy_raised", "", "device", "Those of them whose weight is raised."),
    doc(
        "virtual_time_best_effort",
        "2^-22 sectors/weight",
        "device",
        "Virtual time of the root, best effort.",
    ),
    doc("weight_sum_best_effort", "", "device", "Sum of the weights tracked there."),
];

const fn doc(
    name: &'static str,
    unit: &'static str,
    of: &'static str,
    doc: &'static str,
) -> FigureDoc {
    FigureDoc { name, unit, of, doc }
}

/// All of them, for `hoistway show bfq` and the documents.
pub(super) static FIGURES: &[&[FigureDoc]] =
    &[OF_ALL, ONLY_DEVICE, ONLY_GROUP, OF_GROUPS, ONLY_QUEUE, OF_QUEUES];

impl Bfq {
    /// Counts something of a queue: for it and for its group. The device's counts are the sum of those.
    #[inline]
    pub(super) fn tally(&mut self, q: QueueNo, count: impl Fn(&mut Tally)) {
        count(&mut self.groups[self.fair.ents[q].node].tally);
        if let Some(tally) = self.stats.queues.get_mut(q) {
            count(tally);
        }
    }

    /// The wait for a queue is over.
    pub(super) fn tally_idling(&mut self, now: Instant, q: QueueNo) {
        let length = now.since(self.serving.idle_since);
        self.tally(q, |t| t.idled += length);
    }

    /// From now on each queue is counted by itself, or no longer.
    pub(super) fn restart_queue_statistics(&mut self) {
        self.stats.queues.clear();
        if self.conf.queue_statistics {
            self.stats.queues.resize(self.queues.len(), Tally::default());
        }
    }

    pub(super) fn all_figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, of, value: i64| sink(Figure { name, of, value });
        let tally = |put: &mut dyn FnMut(&'static str, Option<u32>, i64),
                     docs: &'static [FigureDoc],
                     of,
                     t: &Tally| {
            for (doc, value) in docs.iter().zip(VALUES) {
                put(doc.name, of, value(t) as i64);
            }
        };
        tally(&mut put, OF_ALL, None, &self.groups.tally());
        for (doc, value) in ONLY_DEVICE.iter().zip(self.device_values()) {
            put(doc.name, None, value as i64);
        }
        for (group, node) in self.groups.iter().zip(self.fair.nodes.iter()) {
            if group.removed {
                continue;
            }
            let of = Some(group.group.0);
            if node.entity.is_some() {
                put(ONLY_GROUP[0].name, of, self.fair.ents[node.entity].weight.into());
            }
            tally(&mut put, OF_GROUPS, of, &group.tally);
        }
        for (q, t) in self.stats.queues.pairs() {
            let (queue, e) = (&self.queues[q], &self.fair.ents[q]);
            if queue.live {
                let owner = if queue.life.owner.is_none() { -1 } else { queue.life.owner.0.into() };
                let own = [owner, e.weight.into(), queue.slot.max_budget as i64];
                for (doc, value) in ONLY_QUEUE.iter().zip(own) {
                    put(doc.name, Some(q.0), value);
                }
                tally(&mut put, OF_QUEUES, Some(q.0), t);
            }
        }
    }

    /// In the order of [`ONLY_DEVICE`].
    fn device_values(&self) -> [u64; ONLY_DEVICE.len()] {
        let s = &self.stats;
        let tree = &self.fair.nodes[ROOT].trees[BE];
        [
            s.time_charges,
            s.injected_async,
            s.injected_waker,
            s.injected_woken,
            s.injected_general,
            s.wakers,
            s.preempted_hole,
            s.preempted_rank,
            s.preempted_pointless,
            s.raising_ended,
            self.burst.seen,
            s.stable_merges,
            (self.rate.peak * 1_000_000) >> 16,
            self.rate.accepted,
            self.rate.rejected,
            self.budgets.max,
            self.queues.live().count() as u64,
            self.fair.census.tot_busy().into(),
            self.fair.census.wr_busy.max(0).unsigned_abs().into(),
            tree.v.0,
            tree.wsum,
        ]
    }
}
