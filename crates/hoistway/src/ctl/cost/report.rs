//! What is printed and recorded: `io.stat` fields, gauges, figures. Nothing here is read by a decision.

use super::IoCost;
use super::model::{DeviceClass, VUS};
use super::vrate::Now;
use super::weights::CostStat;
use crate::env::Cx;
use crate::group::GroupId;
use crate::rows::Id;
use crate::stage::{Figure, Gauge};
use crate::unit::Instant;
use alloc::string::String;
use core::fmt::{Arguments, Write};

impl IoCost {
    /// Adds the time since the last look to the sums of what goes on.
    pub(super) fn note_times(&mut self, n: GroupId, now: &Now) {
        let node = &mut self.shares[n];
        if !node.timed {
            return;
        }
        node.timed = false;
        let (times, fresh) = (&mut node.times, &mut node.period.fresh);
        for (since, sum) in [
            (&mut times.waiting, &mut fresh.wait_us),
            (&mut times.indebted, &mut fresh.indebt_us),
            (&mut times.delayed, &mut fresh.indelay_us),
        ] {
            if let Some(since) = since {
                *sum += now.us.saturating_sub(core::mem::replace(since, now.us));
                node.timed = true;
            }
        }
    }

    /// Nothing of the group waits any more.
    pub(super) fn waiting_ended(&mut self, n: GroupId, now: &Now) {
        let node = &mut self.shares[n];
        end(&mut node.times.waiting, &mut node.period.fresh.wait_us, now);
    }

    /// Its debt is paid.
    pub(super) fn debt_ended(&mut self, n: GroupId, now: &Now) {
        let node = &mut self.shares[n];
        end(&mut node.times.indebted, &mut node.period.fresh.indebt_us, now);
    }

    /// Its tasks are not delayed any more.
    pub(super) fn delay_ended(&mut self, n: GroupId, now: &Now) {
        let node = &mut self.shares[n];
        end(&mut node.times.delayed, &mut node.period.fresh.indelay_us, now);
    }

    /// 9 step 3: the usage of the period, for an active group and all above it.
    pub(super) fn publish_usage(&mut self, n: GroupId) {
        let node = &mut self.shares[n];
        let used = node.usage - node.period.usage_flushed;
        node.period.usage_flushed = node.usage;
        node.period.usage_us = if used == 0 { 0 } else { used / self.clock.base_rate };
        node.period.fresh.usage_us += node.period.usage_us;
        self.publish_node(n);
    }

    /// Adds what has not been published of one node.
    pub(super) fn publish_node(&mut self, n: GroupId) {
        let fresh = core::mem::take(&mut self.shares[n].period.fresh);
        if fresh == CostStat::default() {
            return;
        }
        let mut at = n;
        while at.is_some() {
            let node = &mut self.shares[at];
            node.stat.add(&fresh);
            at = node.parent;
        }
    }

    pub(super) fn print_stat(&self, _now: Instant, group: GroupId, _cx: &Cx<'_>, out: &mut String) {
        let Some(node) = self.shares.get(group) else { return };
        let root = group == GroupId::ROOT;
        // Nodes come into being with the first I/O.
        if !root && !node.life.exists {
            return;
        }
        if node.slow.tasks.uses() != 0 {
            let (uses, ns) = (node.slow.tasks.uses(), node.slow.tasks.nanos().0);
            put(out, format_args!(" use_delay={uses} delay_nsec={ns}"));
        }
        if !self.enabled {
            return;
        }
        if root {
            let v = self.clock.hundredths();
            put(out, format_args!(" cost.vrate={}.{:02}", v / 100, v % 100));
        }
        let s = &node.stat;
        put(
            out,
            format_args!(
                " cost.usage={} cost.wait={} cost.indebt={} cost.indelay={}",
                s.usage_us, s.wait_us, s.indebt_us, s.indelay_us
            ),
        );
    }

    pub(super) fn record(&self, at: Instant, sink: &mut dyn FnMut(Gauge)) {
        if !self.enabled {
            return;
        }
        let now = self.clock.at(at);
        let mut device = |name, unit, value| sink(Gauge { name, unit, group: None, value });
        device("vrate", "0.01 %", self.clock.hundredths() as i64);
        device("rate", "0.01 %", (self.clock.rate * 10_000 / VUS) as i64);
        device("busy_level", "", self.clock.busy_level);
        device("active_groups", "", self.active.len().into());
        let base = self.clock.base_rate as i64;
        for n in self.active.iter() {
            let node = &self.shares[n];
            let (hwa, hwi) = self.shares.look(n);
            let group = Some(n);
            let mut of = |name, unit, value| sink(Gauge { name, unit, group, value });
            of("hweight_active", "1/65536", hwa as i64);
            of("hweight_inuse", "1/65536", hwi as i64);
            of("budget", "us", node.time.credit(now.v) / base);
            of("debt", "us", node.debt as i64 / base);
            of("delay", "us", node.slow.us as i64);
            of("usage", "us", node.period.usage_us as i64);
            of("waiters", "", node.waiters.len().into());
        }
    }

    pub(super) fn report(&self, sink: &mut dyn FnMut(Figure)) {
        let mut figure = |name, value| sink(Figure { name, of: None, value });
        figure("periods", self.stats.periods as i64);
        figure("bios_held", self.stats.held as i64);
        figure("vrate_hundredths_pct", self.clock.hundredths() as i64);
        figure("busy_level", self.clock.busy_level);
        let class = DeviceClass::ALL.iter().position(|&c| Some(c) == self.params.class);
        figure("device_class", class.map_or(-1, |at| at as i64));
    }
}

fn end(since: &mut Option<u64>, sum: &mut u64, now: &Now) {
    if let Some(since) = since.take() {
        *sum += now.us.saturating_sub(since);
    }
}

/// Appends formatted text.
pub(super) fn put(out: &mut String, text: Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}
