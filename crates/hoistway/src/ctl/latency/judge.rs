//! Judging: what a parent says of its children, and what a child makes of it.

use super::IoLatency;
use super::node::{BASE, LatencyStat, UNLIMITED};
use crate::env::Cx;
use crate::table::NIL;
use crate::unit::Instant;

impl IoLatency {
    /// The cookie of the group's parent is another than at its last I/O (4.2). True if waiters may fit now.
    #[cold]
    pub(super) fn cookie_moved(&mut self, now: Instant, at: usize, cx: &mut Cx<'_>) -> bool {
        let parent = self.nodes[self.nodes[at].parent as usize].scale;
        let percent = self.conf.small_group_percent;
        let node = &mut self.nodes[at];
        let down = parent.cookie < node.seen;
        node.seen = parent.cookie;
        if down && node.target.0 > 0 {
            // A victim never throttles one whose target is stricter, or two victims would bring each
            // other down to 1. A small group is hardly the cause, more often the victim itself is; one
            // sample is always granted, since 5 % of a short window rounds to none.
            let as_strict = parent.target.0 == 0 || node.target <= parent.target;
            let small = node.n_last <= (percent * parent.n_total / 100).max(1);
            if as_strict || small {
                return false;
            }
        }
        let group = at as u32;
        // The depth cannot fall further, and metadata and swap ignore it: the tasks pay instead.
        if down && node.depth == 1 {
            node.delay.use_more();
            let uses = node.delay.uses();
            cx.trace.why(now, "io.latency: delay used once more", group, uses, 0);
            return false;
        }
        if parent.cookie == BASE {
            node.delay.clear();
            node.depth = UNLIMITED;
            cx.trace.why(now, "io.latency: no limit", group, 0, 0);
            return true;
        }
        let more = node.change_depth(down, cx.device.nr_requests);
        cx.trace.why(now, "io.latency: depth", group, node.depth.into(), node.delay.uses());
        more
    }

    /// A window of the group is over (section 6).
    #[cold]
    pub(super) fn judge(&mut self, now: Instant, at: usize, cx: &mut Cx<'_>) {
        let (set, requests) = (self.conf, cx.device.nr_requests);
        let node = &mut self.nodes[at];
        let (target, rotational) = (node.target, node.rotational);
        let window = core::mem::take(&mut node.stat);
        if rotational {
            node.average(window.mean());
        }
        let parent = node.parent as usize;
        let fine = window.good(rotational, target, &set);
        if fine && self.nodes[parent].scale.cookie == BASE {
            return;
        }
        let node = &mut self.nodes[at];
        // In Linux the mean of several windows is 0 (8.1): it adds up a field that was folded before.
        let sum = if set.true_mean { window.sum } else { 0 };
        node.cum.add(LatencyStat { sum, ..window });
        // Windows are shorter than the distance of decisions: judged by the last one alone, a lucky
        // window would let the siblings go.
        let (cum, before) = (node.cum, core::mem::replace(&mut node.n_last, node.cum.samples));
        let scale = &mut self.nodes[parent].scale;
        scale.n_total = scale.n_total - before + cum.samples;
        // A step must have time to show its effect, or the depths swing like a saw.
        if scale.last.is_some_and(|t| t >= now || now - t < set.decision_distance()) {
            return;
        }
        let group = at as u32;
        if fine && cum.good(rotational, target, &set) {
            if cum.samples < set.good_samples {
                return;
            }
            if scale.group == group {
                scale.last = Some(now);
                scale.up(requests);
                self.counts.ups += 1;
                let cookie = scale.cookie as i64;
                cx.trace.why(now, "io.latency: cookie up", group, cookie, cum.samples as i64);
            }
        } else if scale.target.0 == 0 || scale.target >= target {
            scale.last = Some(now);
            if scale.group == NIL || scale.target > target {
                (scale.target, scale.group) = (target, group);
            }
            scale.down(requests);
            self.counts.downs += 1;
            if !scale.listed && scale.cookie < BASE {
                scale.listed = true;
                self.lowered.push(parent as u32);
            }
            let cookie = scale.cookie as i64;
            cx.trace.why(now, "io.latency: cookie down", group, cookie, cum.samples as i64);
        }
        self.nodes[at].cum = LatencyStat::default();
    }

    /// Parents whose victim is quiet (section 7).
    ///
    /// A victim that has stopped cannot report that it is well; its siblings must not stay throttled.
    pub(super) fn look_at_parents(&mut self, now: Instant, cx: &mut Cx<'_>) {
        let (give_up, requests) = (self.conf.give_up(), cx.device.nr_requests);
        let (nodes, ups) = (&mut self.nodes, &mut self.counts.ups);
        self.lowered.retain(|&parent| {
            let scale = &mut nodes[parent as usize].scale;
            if scale.cookie < BASE && scale.last.is_none_or(|t| t < now) {
                if scale.group == NIL {
                    scale.up(requests);
                    *ups += 1;
                    let cookie = scale.cookie as i64;
                    cx.trace.why(now, "io.latency: cookie up, nobody misses", parent, cookie, 0);
                } else if scale.last.is_none_or(|t| now - t >= give_up) {
                    let quiet = scale.group.into();
                    scale.group = NIL;
                    cx.trace.why(now, "io.latency: victim forgotten", parent, quiet, 0);
                }
            }
            scale.listed = scale.cookie < BASE;
            scale.listed
        });
    }
}
