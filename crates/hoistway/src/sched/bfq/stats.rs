//! Counts for reports (specs/bfq.md section 12).

use super::Bfq;
use super::budget::Reason;
use super::wf2q::ROOT;
use crate::sched::Figure;
use crate::unit::Nanos;

/// Counts since the scheduler came into force.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// Slots by reason of expiry.
    pub slots: [u64; 5],
    pub time_charges: u64,
    /// Sectors charged for time beyond the service received.
    pub time_charged: u64,
    pub idle_armed: u64,
    pub idle_useful: u64,
    pub idled: Nanos,
    pub injected_async: u64,
    pub injected_waker: u64,
    pub injected_woken: u64,
    pub injected_general: u64,
    pub wakers: u64,
    pub preempted_hole: u64,
    pub preempted_rank: u64,
    pub preempted_pointless: u64,
    pub raised_interactive: u64,
    pub raised_soft: u64,
    pub raising_ended: u64,
    pub merges: u64,
    pub stable_merges: u64,
    pub splits: u64,
}

impl Bfq {
    pub(super) fn all_figures(&self, sink: &mut dyn FnMut(Figure)) {
        let mut put = |name, value: u64| sink(Figure { name, of: None, value: value as i64 });
        let s = &self.stats;
        for (name, n) in Reason::NAMES.iter().zip(s.slots) {
            put(name, n);
        }
        put("time_charges", s.time_charges);
        put("time_charged_sectors", s.time_charged);
        put("idle_timer_armed", s.idle_armed);
        put("idle_timer_useful", s.idle_useful);
        put("idle_time_ns", s.idled.0);
        put("injected_of_same_process", s.injected_async);
        put("injected_of_waker", s.injected_waker);
        put("injected_of_woken", s.injected_woken);
        put("injected_general", s.injected_general);
        put("wakers_found", s.wakers);
        put("preempted_for_service_hole", s.preempted_hole);
        put("preempted_for_class_or_weight", s.preempted_rank);
        put("preempted_because_idling_is_pointless", s.preempted_pointless);
        put("raised_interactive", s.raised_interactive);
        put("raised_soft_real_time", s.raised_soft);
        put("raising_ended", s.raising_ended);
        put("large_bursts", self.burst.seen);
        put("queues_merged", s.merges);
        put("queues_merged_at_creation", s.stable_merges);
        put("queues_split", s.splits);
        put("peak_rate_sectors_per_s", (self.rate.peak * 1_000_000) >> 16);
        put("rate_intervals_accepted", self.rate.accepted);
        put("rate_intervals_rejected", self.rate.rejected);
        put("max_budget_sectors", self.max_budget);
        put("queues", self.queues.iter().filter(|q| q.live).count() as u64);
        put("queues_busy", self.fair.census.tot_busy().into());
        put("queues_busy_raised", self.fair.census.wr_busy.into());
        put("virtual_time_best_effort", self.fair.nodes[ROOT as usize].trees[1].v.0);
        put("weight_sum_best_effort", self.fair.nodes[ROOT as usize].trees[1].wsum);
        for group in &self.groups {
            let of = Some(group.group.0);
            let mut put = |name, value: u64| sink(Figure { name, of, value: value as i64 });
            put("group_requests_served", group.requests_served);
            put("group_sectors_served", group.sectors_served);
        }
    }
}
