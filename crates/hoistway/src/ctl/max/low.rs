//! `io.low`: a best-effort lower limit on top of the throttling of `io.max`
//! (specs/io-max-throttling.md B).
//!
//! A device is LOW or MAX. In LOW every group is throttled to its low limits, so that all get theirs. Once
//! every leaf that has some has reached them, or is idle and does not need them, the device goes to MAX,
//! where a group with low limits may have more of them slice by slice. When a leaf that is not idle falls
//! short of its low limits for a slice, the surplus of all is halved, and at none the device is LOW again.
//!
//! A group is idle if it thinks longer than `idle` between I/Os, says nothing for four times that, or has
//! at most one I/O in five that is slower than usual for its size by more than `latency`.
//!
//! The text gives no exact mode; what it leaves open is marked below. All groups with low limits are looked
//! at once per slice, not at every I/O.

use super::knob::DirRates;
use super::slice::{BPS_MAX, IOPS_MAX, Limit, Rate, SliceClock};
use crate::env::Cx;
use crate::group::GroupId;
use crate::request::{Dir, Request};
use crate::unit::{Instant, Nanos};
use alloc::vec::Vec;

/// Rate of a leaf without low limits in a direction while the device is LOW.
const LEAST: Rate = Rate { bps: 320 * 1024, iops: 10 };
/// Size classes of base latencies: up to 4 KiB, 8 KiB, ... 512 KiB, and all above.
const CLASSES: usize = 9;
/// Base latencies are computed so often, from so many samples or more.
const BASE_PERIOD: Nanos = Nanos::secs(1);
const BASE_SAMPLES: u64 = 32;
/// Base latency of a rotational device; latencies below the second are its cache's.
const BASE_ROTATIONAL: Nanos = Nanos::ms(4);
const CACHED_BELOW: Nanos = Nanos::ms(1);
/// Nobody is silent for longer without being idle.
const SILENT_MAX: Nanos = Nanos::secs(5);
/// The surplus stops growing here (deviation: the text names no bound; it is far above any device).
const SCALE_MAX: u64 = 4096;

/// Contents of a group's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LowSetting {
    /// 0: none.
    pub rates: DirRates,
    /// In us; 0: unset.
    pub idle: u64,
    /// In us; `u64::MAX`: unset.
    pub latency: u64,
}

impl LowSetting {
    pub const DEFAULT: LowSetting =
        LowSetting { rates: [Rate { bps: 0, iops: 0 }; 2], idle: 0, latency: u64::MAX };

    /// Stored settings take effect only if all of them are there.
    fn in_force(&self) -> bool {
        let some = self.rates.iter().any(|r| r.bps != 0 || r.iops != 0);
        some && self.idle != 0 && self.latency != u64::MAX
    }
}

/// One group.
#[derive(Clone, Copy, Debug)]
struct LowGroup {
    setting: LowSetting,
    leaf: bool,
    /// Latest submission or completion.
    active: Option<Instant>,
    /// Latest completion that no submission has followed yet.
    finished: Option<Instant>,
    /// Mean think time in ns.
    think: u64,
    /// I/Os, and those that were too slow, halved every slice.
    ios: u32,
    slow: u32,
    /// Passed since the last look at all groups.
    passed: [(u64, u64); 2],
    /// The tick at which it last reached its low limit, by direction.
    reached: [u64; 2],
}

impl LowGroup {
    const NEW: LowGroup = LowGroup {
        setting: LowSetting::DEFAULT,
        leaf: true,
        active: None,
        finished: None,
        think: 0,
        ios: 0,
        slow: 0,
        passed: [(0, 0); 2],
        reached: [0; 2],
    };

    fn limited(&self, dir: usize) -> bool {
        let rate = self.setting.rates[dir];
        self.setting.in_force() && (rate.bps != 0 || rate.iops != 0)
    }

    /// Does it not need its low limits? `queued`: some of its I/O is held.
    fn idle(&self, now: Instant, queued: bool) -> bool {
        let idle = self.setting.idle.saturating_mul(1000);
        // Deviation: a group whose I/O is held is not silent, however long that lasts.
        let silent = !queued
            && self
                .active
                .is_none_or(|at| now.since(at) > SILENT_MAX.min(Nanos(idle.saturating_mul(4))));
        silent || self.think > idle || (self.ios > 0 && self.slow * 5 < self.ios)
    }
}

/// Sum and number of latencies of a class since the last period, and its base.
#[derive(Clone, Copy, Debug, Default)]
struct LatencyBase {
    sum: u64,
    samples: u64,
    ns: u64,
}

/// State of one device.
#[derive(Debug)]
pub(super) struct Low {
    rotational: bool,
    groups: Vec<LowGroup>,
    /// Groups with low limits in force.
    limited: Vec<GroupId>,
    /// The device is MAX; always if no group has low limits.
    pub at_max: bool,
    scale: u64,
    /// Ticks of the last upgrade, downgrade and look at all groups.
    upgraded: u64,
    downgraded: u64,
    pub looked: u64,
    bases: [[LatencyBase; CLASSES]; 2],
    bases_since: Instant,
    pub upgrades: u64,
    pub downgrades: u64,
}

impl Low {
    pub fn new(rotational: bool) -> Low {
        Low {
            rotational,
            groups: Vec::new(),
            limited: Vec::new(),
            at_max: true,
            scale: 0,
            upgraded: 0,
            downgraded: 0,
            looked: 0,
            bases: [[LatencyBase::default(); CLASSES]; 2],
            bases_since: Instant::ZERO,
            upgrades: 0,
            downgrades: 0,
        }
    }

    /// Is any group limited by it?
    pub fn active(&self) -> bool {
        !self.limited.is_empty()
    }

    /// The surplus, for the monitor.
    pub fn scale(&self) -> u64 {
        self.scale
    }

    /// Base latencies in ns, by direction and size.
    #[cfg(test)]
    pub fn base_latencies(&self) -> [[u64; CLASSES]; 2] {
        self.bases.each_ref().map(|of| of.each_ref().map(|b| b.ns))
    }

    fn group(&mut self, group: GroupId) -> &mut LowGroup {
        let n = group.index() + 1;
        if self.groups.len() < n {
            self.groups.resize(n, LowGroup::NEW);
        }
        &mut self.groups[n - 1]
    }

    pub fn setting(&self, group: GroupId) -> LowSetting {
        self.groups.get(group.index()).map_or(LowSetting::DEFAULT, |g| g.setting)
    }

    /// A new setting; a device with low limits begins LOW.
    pub fn set(&mut self, group: GroupId, setting: LowSetting, clock: &SliceClock) {
        let before = core::mem::replace(&mut self.group(group).setting, setting).in_force();
        match (before, setting.in_force()) {
            (false, true) => self.limited.push(group),
            (true, false) => self.limited.retain(|&g| g != group),
            _ => {}
        }
        if setting.in_force() {
            self.at_max = false;
            self.downgraded = clock.now;
        } else if self.limited.is_empty() {
            self.at_max = true;
        }
    }

    pub fn added(&mut self, group: GroupId, cx: &Cx<'_>) {
        self.group(group).leaf = true;
        if let Some(parent) = cx.groups.parent(group) {
            self.group(parent).leaf = false;
        }
    }

    /// The group is still among its parent's children.
    pub fn removed(&mut self, group: GroupId, cx: &Cx<'_>, clock: &SliceClock) {
        self.set(group, LowSetting::DEFAULT, clock);
        if let Some(parent) = cx.groups.parent(group) {
            self.group(parent).leaf = cx.groups.children(parent).len() <= 1;
        }
    }

    /// The limit in force, `max` being that of `io.max`.
    pub fn limit(&self, node: u32, dir: Dir, max: &Limit, clock: &SliceClock) -> Limit {
        if !self.active() {
            return *max;
        }
        let g = self.groups.get(node as usize).unwrap_or(&LowGroup::NEW);
        let low = if g.setting.in_force() { g.setting.rates[dir as usize] } else { NO_RATE };
        let none = low == NO_RATE;
        let rate = match (self.at_max, none) {
            (false, true) if g.leaf => LEAST,
            (_, true) => return *max,
            (false, false) => Rate { bps: or(low.bps, BPS_MAX), iops: or(low.iops, IOPS_MAX) },
            (true, false) => Rate {
                bps: or(self.scaled(low.bps), BPS_MAX),
                iops: or(self.scaled(low.iops).min(IOPS_MAX), IOPS_MAX),
            },
        };
        let max = max.rate;
        clock.limit(Rate { bps: rate.bps.min(max.bps), iops: rate.iops.min(max.iops) })
    }

    /// `low * (1 + scale / 2)`.
    fn scaled(&self, low: u64) -> u64 {
        low.saturating_add((low / 2).saturating_mul(self.scale))
    }

    /// An I/O arrives.
    pub fn submitted(&mut self, group: GroupId, clock: &SliceClock) {
        let now = clock.instant;
        let g = self.group(group);
        if let Some(finished) = g.finished.take() {
            let think = now.since(finished).0;
            g.think = (g.think * 7 + think) / 8;
        }
        g.active = Some(now);
    }

    /// An I/O passes a node.
    pub fn passed(&mut self, node: u32, dir: Dir, bytes: u64) {
        let (b, ios) = &mut self.group(GroupId(node)).passed[dir as usize];
        (*b, *ios) = (b.saturating_add(bytes), *ios + 1);
    }

    /// A request is over.
    pub fn completed(&mut self, now: Instant, r: &Request, cx: &Cx<'_>) {
        let dir = r.dir();
        if !self.rotational && !self.at_max {
            // Deviation: the text does not say when; at MAX the device is busy and nothing is "base".
            let base = &mut self.bases[dir as usize][size_class(r.sectors.bytes().0)];
            base.sum += now.since(r.issued).0;
            base.samples += 1;
        }
        if now.since(self.bases_since) >= BASE_PERIOD {
            self.bases_since = now;
            self.compute_bases();
        }
        for (bio, io) in cx.requests.bios(r.id) {
            let latency = now.since(cx.requests.entered(bio)).0;
            let class = size_class(io.sectors.bytes().0);
            let base = if self.rotational {
                BASE_ROTATIONAL.0
            } else {
                self.bases[dir as usize][class].ns
            };
            let cached = self.rotational && latency < CACHED_BELOW.0;
            let g = self.group(io.group);
            (g.active, g.finished) = (Some(now), Some(now));
            if !cached {
                let most = base.saturating_add(g.setting.latency.saturating_mul(1000));
                g.ios += 1;
                g.slow += u32::from(latency > most);
            }
        }
    }

    fn compute_bases(&mut self) {
        for classes in &mut self.bases {
            let mut least = 0;
            for base in classes {
                if base.samples >= BASE_SAMPLES {
                    let mean = base.sum / base.samples;
                    base.ns = if base.ns == 0 { mean } else { (base.ns * 7 + mean) / 8 };
                    (base.sum, base.samples) = (0, 0);
                }
                // A larger I/O is not faster.
                base.ns = base.ns.max(least);
                least = base.ns;
            }
        }
    }

    /// Looks at all groups with low limits, at most once per slice: true if the device has just gone to
    /// MAX. `queued`: I/Os held at a group, by direction.
    pub fn look(
        &mut self,
        clock: &SliceClock,
        cx: &Cx<'_>,
        queued: impl Fn(GroupId) -> [u32; 2],
    ) -> bool {
        if !self.active() || clock.now < self.looked + clock.slice {
            return false;
        }
        self.note_reached(clock);
        let slices = (clock.now - self.looked) / clock.slice;
        self.looked = clock.now;
        if self.at_max {
            // Deviation: the surplus does not grow in a slice in which somebody is short. If it grew
            // with time alone, halving would end at 1 and the device never be LOW again.
            if !self.maybe_downgrade(clock, cx, queued) {
                self.scale = (self.scale + slices).min(SCALE_MAX);
            }
            return false;
        }
        let may = clock.now >= self.downgraded + clock.slice
            && self.leaves().all(|leaf| {
                self.path(leaf, cx).any(|g| {
                    let (group, queued) = (&self.groups[g.index()], queued(g));
                    let reached = (0..2).all(|d| !group.limited(d) || queued[d] > 0);
                    reached || group.idle(clock.instant, queued != [0, 0])
                })
            });
        if may {
            (self.at_max, self.scale) = (true, 0);
            self.upgraded = clock.now;
            self.upgrades += 1;
            for i in 0..self.limited.len() {
                let group = self.limited[i];
                self.group(group).reached = [clock.now; 2];
            }
        }
        may
    }

    /// Which groups have reached their low limits since the last look.
    fn note_reached(&mut self, clock: &SliceClock) {
        let ticks = clock.now - self.looked;
        for i in 0..self.limited.len() {
            let group = self.limited[i];
            let g = self.group(group);
            for d in 0..2 {
                let (low, (bytes, ios)) = (g.setting.rates[d], g.passed[d]);
                let enough = |low, passed| low != 0 && passed >= clock.allowed(low, ticks);
                if enough(low.bps, bytes) || enough(low.iops, ios) {
                    g.reached[d] = clock.now;
                }
                g.passed[d] = (0, 0);
            }
            (g.ios, g.slow) = (g.ios / 2, g.slow / 2);
        }
    }

    /// True if some leaf is short: the surplus is halved, and without one the device is LOW.
    fn maybe_downgrade(
        &mut self,
        clock: &SliceClock,
        cx: &Cx<'_>,
        queued: impl Fn(GroupId) -> [u32; 2],
    ) -> bool {
        let slice_ago = |tick: u64| clock.now >= tick + clock.slice;
        if !slice_ago(self.upgraded) {
            return false;
        }
        let short = self.leaves().any(|leaf| {
            let g = &self.groups[leaf.index()];
            let below = self.path(leaf, cx).all(|on_path| {
                let g = &self.groups[on_path.index()];
                (0..2).any(|d| g.limited(d) && slice_ago(g.reached[d]))
            });
            below && !g.idle(clock.instant, queued(leaf) != [0, 0])
        });
        if short {
            self.scale /= 2;
            self.downgrades += 1;
            if self.scale == 0 {
                self.at_max = false;
                self.downgraded = clock.now;
            }
        }
        short
    }

    fn leaves(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.limited.iter().copied().filter(|g| self.groups[g.index()].leaf)
    }

    /// A group and its ancestors, as far as they have low limits in force.
    fn path<'a>(&'a self, group: GroupId, cx: &'a Cx<'_>) -> impl Iterator<Item = GroupId> + 'a {
        let up = core::iter::successors(Some(group), |&g| cx.groups.parent(g));
        up.filter(|g| self.groups.get(g.index()).is_some_and(|g| g.setting.in_force()))
    }
}

const NO_RATE: Rate = Rate { bps: 0, iops: 0 };

/// A rate of 0 is none.
fn or(rate: u64, none: u64) -> u64 {
    if rate == 0 { none } else { rate }
}

/// Up to 4 KiB: 0; each doubling one more; above 512 KiB: 8.
fn size_class(bytes: u64) -> usize {
    let blocks = bytes.div_ceil(4096).max(1);
    (blocks.next_power_of_two().ilog2() as usize).min(CLASSES - 1)
}
