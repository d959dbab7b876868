//! What a device has done so far and for whom, for whoever watches it: `hoistway top`, metrics.
//!
//! Everything is cumulative: several readers may each take differences of their own.

use super::Device;
use super::core::Core;
use super::counters::IoCounters;
use super::report::DeviceReport;
use super::report::{device_report, group_name, waits_for};
use super::tenants::Tenant;
use super::watchdog::Stall;
use crate::error::ServeError;
use crate::storage::EmulationFigures;
use hoistway::stack::Counters;
use hoistway::{Class, GroupId, IoPrio, Nanos, ProcId};

/// A device at one moment.
#[derive(Clone, Debug)]
pub struct DeviceStats {
    /// Since it was opened.
    pub time: Nanos,
    /// Scheduler, tunables, groups and clients.
    pub report: DeviceReport,
    /// What is measured of each client, in the order of `report.clients`.
    pub client_stats: Vec<ClientStats>,
    /// Sums over the clients of an export in a group, those that left included; only `outstanding`
    /// may fall. Clients of this process have an export without a name.
    pub sums: Vec<GroupSum>,
    /// Weights in force of the groups below the root, in the order of `report.groups`; `None` where
    /// nobody knows weights.
    pub weights: Vec<Option<u64>>,
    /// Tunables of the scheduler that are not at their defaults.
    pub changed: Vec<(&'static str, u64)>,
    /// What the stack has done.
    pub counters: Counters,
    /// Requests that exist, those with the device included.
    pub requests: u32,
    /// Requests with the device.
    pub in_flight: u32,
    /// Connections whose queue is being served; where processes share a queue, several.
    pub in_service: Vec<u64>,
    /// Figures of the scheduler and gauges of scheduler and controllers.
    pub state: Vec<StateFigure>,
    /// How well the machine keeps up with the model, of an emulated drive.
    pub emulation: Option<EmulationFigures>,
    /// I/O that stands still now: there is some, and the device has had nothing to do for as long as
    /// [`DeviceOptions::stall_limit`](super::DeviceOptions::stall_limit) allows.
    pub stall: Option<Stall>,
    /// How often that happened.
    pub stalls: u64,
}

/// What is measured of a client.
#[derive(Clone, Debug)]
pub struct ClientStats {
    /// Weight among the clients of its group; in the root group, among them and the groups. `None`:
    /// nobody knows weights there, or its class is served before or after all others.
    pub weight: Option<u64>,
    /// What it has had done.
    pub counters: IoCounters,
}

/// What is measured of the clients of an export in a group.
#[derive(Clone, Debug)]
pub struct GroupSum {
    /// Name of the export.
    pub export: String,
    /// Name of the group.
    pub group: String,
    /// Clients there are now.
    pub clients: u32,
    /// What they have had done.
    pub counters: IoCounters,
}

/// One figure of a scheduler or controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFigure {
    /// Whose: the name of the scheduler or controller.
    pub stage: &'static str,
    /// What it is, with unit if `unit` is empty.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Whose it is; `None`: the device's.
    pub group: Option<String>,
    /// A number that belongs to it: a level, domain or hardware queue of the scheduler.
    pub of: Option<u32>,
    /// A state, and no count that only grows; of figures of a scheduler that is not known.
    pub gauge: bool,
    /// The value.
    pub value: i64,
}

impl Device {
    /// What it has done so far and for whom.
    pub fn stats(&self) -> Result<DeviceStats, ServeError> {
        self.control(device_stats)
    }
}

pub(super) fn device_stats(core: &mut Core) -> DeviceStats {
    let now = core.now();
    for tenant in core.tenants.iter_mut() {
        tenant.counters.advance(now);
    }
    let report = device_report(core);
    let scheduler = core.stack.scheduler_entry();
    let default = |name: &str| scheduler.tunables.iter().find(|t| t.name == name);
    let changed = report.tunables.iter().copied();
    let in_flight = core.stack.in_flight();
    DeviceStats {
        time: now.since(hoistway::Instant::ZERO),
        client_stats: client_stats(core),
        sums: group_sums(core),
        weights: report.groups.iter().map(|g| group_weight(core, &g.name)).collect(),
        changed: changed.filter(|(n, v)| default(n).is_none_or(|t| t.default != *v)).collect(),
        counters: core.stack.counters(),
        requests: core.stack.env().requests.len() as u32,
        in_flight,
        in_service: in_service(core),
        state: state_figures(core),
        emulation: core.backend().emulation(),
        stall: stall(core),
        stalls: core.watchdog.stalls(),
        report,
    }
}

/// By number of the connection, as in the report.
fn client_stats(core: &Core) -> Vec<ClientStats> {
    let connection = |t: &Tenant| t.info.as_ref().map(|l| l.connection);
    let mut labelled: Vec<_> = core.tenants.iter().filter(|t| t.info.is_some()).collect();
    labelled.sort_by_key(|t| connection(t));
    let of = |tenant: &Tenant| ClientStats {
        weight: client_weight(core, tenant.prio),
        counters: tenant.counters.clone(),
    };
    labelled.into_iter().map(of).collect()
}

fn group_sums(core: &Core) -> Vec<GroupSum> {
    let mut sums: Vec<(String, GroupId, IoCounters, u32)> =
        core.departed.clone().into_sums().map(|(e, g, m)| (e, g, m, 0)).collect();
    for tenant in core.tenants.iter() {
        let export = tenant.export();
        let known = sums.iter_mut().find(|(e, g, ..)| e == export && *g == tenant.group);
        match known {
            Some((.., sum, clients)) => {
                sum.add(&tenant.counters);
                *clients += 1;
            }
            None => sums.push((export.into(), tenant.group, tenant.counters.clone(), 1)),
        }
    }
    sums.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let sum = |(export, group, measure, clients)| {
        let group = group_name(core, group);
        GroupSum { export, group, clients, counters: measure }
    };
    sums.into_iter().map(sum).collect()
}

/// The weight in force of a group below the root.
fn group_weight(core: &mut Core, name: &str) -> Option<u64> {
    let group = core.groups.iter().find(|g| g.spec.name == name)?.clone();
    if knows_weights(core) {
        let mut weight = None;
        core.stack.scheduler().figures(&mut |figure| {
            if figure.name == "group_weight" && figure.of == Some(group.id.0) {
                weight = u64::try_from(figure.value).ok();
            }
        });
        let set = group.spec.set.iter().find(|s| s.name == "weight").map(|s| s.value);
        return weight.or(set).or(Some(100));
    }
    // "default 100", then lines for devices of which there is but this one.
    let text = core.stack.read_knob(group.id, "io.weight")?;
    text.split_whitespace().last()?.parse().ok()
}

/// The scheduler shares the device among groups by weight.
fn knows_weights(core: &Core) -> bool {
    core.stack.scheduler_entry().weighs_groups()
}

/// Weight of a client among those of its group.
fn client_weight(core: &Core, prio: IoPrio) -> Option<u64> {
    let prio = if prio == IoPrio::NONE { IoPrio::be(4) } else { prio };
    if let Some(weight) = core.stack.scheduler().weight_of(prio) {
        return Some(weight);
    }
    match prio.class() {
        Class::Be if knows_weights(core) || has_file(core, "io.weight") => Some(100),
        _ => None,
    }
}

fn has_file(core: &Core, file: &str) -> bool {
    core.stack.knobs().any(|k| k.file == file)
}

pub(super) fn in_service(core: &Core) -> Vec<u64> {
    let mut procs: Vec<ProcId> = Vec::new();
    core.stack.scheduler().queues(&mut |q| {
        if q.in_service {
            procs.push(q.proc);
        }
    });
    let mine = core.tenants.iter().filter(|t| procs.contains(&t.proc));
    let mut connections: Vec<_> =
        mine.filter_map(|t| t.info.as_ref()).map(|l| l.connection).collect();
    connections.sort_unstable();
    connections
}

/// The device's figures of the scheduler, and all gauges.
fn state_figures(core: &mut Core) -> Vec<StateFigure> {
    let mut state = Vec::new();
    let stage = core.stack.scheduler_entry().name;
    let docs = core.stack.scheduler_entry().figures;
    let doc = |name: &str| docs.iter().copied().flatten().find(|d| d.name == name);
    core.stack.scheduler().figures(&mut |figure| {
        let doc = doc(figure.name);
        // Those of queues and groups are too many.
        if figure.of.is_none() || doc.is_none() {
            let (name, of, value) = (figure.name, figure.of, figure.value);
            let unit = doc.map_or("", |d| d.unit);
            state.push(StateFigure { stage, name, unit, group: None, of, gauge: false, value });
        }
    });
    let mut gauges = Vec::new();
    core.stack.gauges(&mut |stage, gauge| gauges.push((stage, gauge)));
    // What a scheduler tells as a figure and as a gauge is one sample: scrapers refuse two.
    let told = |f: &StateFigure| {
        gauges.iter().any(|(of, g)| (*of, g.name, g.group) == (f.stage, f.name, None))
    };
    state.retain(|f: &StateFigure| !told(f));
    state.extend(gauges.into_iter().map(|(stage, g)| {
        let group = g.group.map(|id| group_name(core, id));
        let (name, unit, value) = (g.name, g.unit, g.value);
        StateFigure { stage, name, unit, group, of: None, gauge: true, value }
    }));
    state
}

/// What stands still now, from the limit of the watchdog on.
pub(super) fn stall(core: &Core) -> Option<Stall> {
    let since = core.watchdog.stalled_since()?;
    let (lasts, unfinished) = (core.now().since(since), core.unfinished() as u64);
    (unfinished > 0).then(|| Stall { lasts, unfinished, reason: waits_for(core) })
}
