//! What a device tells about itself while it serves, and what may be changed from outside by name:
//! the side of the engine that an operator sees.

use super::core::Core;
use super::counters::{IoCounters, OPS};
use super::settings::GroupSetting;
use super::stats::in_service;
use super::{Device, Group};
use crate::error::ServeError;
use hoistway::setting::Tunable;
use hoistway::stack::{QUEUE_TUNABLES, StageName};
use hoistway::target::TargetState;
use hoistway::{GroupId, Input, IoPrio, Op};

/// Who a tenant is: a connection from outside.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionInfo {
    pub connection: u64,
    pub export: String,
    pub peer: String,
}

/// I/Os that are over, since the client came. Those that failed count in `errors` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTotals {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes; zeroes that were asked for without their bytes are among `others`.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes, discards, zeroes.
    pub others: u64,
    /// I/Os that failed.
    pub errors: u64,
}

impl IoTotals {
    fn of(measure: &IoCounters) -> IoTotals {
        let mut tally = IoTotals::default();
        for (of, (op, _)) in measure.ops.iter().zip(OPS) {
            let served = of.count - of.errors;
            tally.errors += of.errors;
            match op {
                Op::Read => (tally.reads, tally.read_bytes) = (served, of.bytes),
                Op::Write => (tally.writes, tally.written_bytes) = (served, of.bytes),
                _ => tally.others += served,
            }
        }
        tally
    }
}

/// A connection that is being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientReport {
    /// Its number, unique in the server.
    pub connection: u64,
    /// Name of the export it chose.
    pub export: String,
    /// Name of its group.
    pub group: String,
    /// Its priority; [`IoPrio::NONE`]: best-effort 4.
    pub prio: IoPrio,
    /// The other end: `unix uid=1000 pid=4711` or `tcp 127.0.0.1:40000`.
    pub peer: String,
    /// What it has had done.
    pub done: IoTotals,
    /// I/Os it waits for now, those the scheduler does not know yet included.
    pub outstanding: u64,
}

/// A group on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Its name.
    pub name: String,
    /// What was set on it by name; lines of its files are not among them.
    pub set: Vec<GroupSetting>,
}

/// A device while it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// How the sockets of clients are served: `io_uring` or `epoll`.
    pub sockets: &'static str,
    /// The scheduler in force.
    pub scheduler: &'static str,
    /// A change of scheduler or of `nr_requests` waits for what is under way.
    pub changing: bool,
    /// For whom and what it waits.
    pub waits_for: Option<String>,
    /// Tunables of the scheduler with the values in force, in its own units.
    pub tunables: Vec<(&'static str, u64)>,
    /// Requests that may exist.
    pub nr_requests: u32,
    /// The controllers, in the order of asking.
    pub controllers: Vec<&'static str>,
    /// The groups below the root.
    pub groups: Vec<GroupReport>,
    /// The connections, by number.
    pub clients: Vec<ClientReport>,
    /// The latency targets that the scheduler takes, and how each stands.
    pub targets: Vec<TargetReport>,
}

/// A latency target of a group on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetReport {
    /// Name of the group.
    pub group: String,
    /// How it stands.
    pub state: TargetState,
}

/// The name of [`Group::ROOT`], unless a group has it.
pub const ROOT_NAME: &str = "root";

impl Device {
    /// What the device does now and for whom.
    pub fn report(&self) -> Result<DeviceReport, ServeError> {
        self.control(device_report)
    }

    /// The group of that name; `root` is everybody who is in no other.
    pub fn group(&self, name: &str) -> Result<Option<Group>, ServeError> {
        let name = name.to_string();
        self.control(move |core| group_named(core, &name).map(Group))
    }

    /// The name of a group.
    pub fn group_name(&self, group: Group) -> Result<String, ServeError> {
        self.control(move |core| group_name(core, group.0))
    }

    /// Tunables that [`set`](Device::set) takes now, with the stage that reads each: the
    /// scheduler's, the block layer's, the controllers'.
    pub fn tunables(&self) -> Result<Vec<(StageName, &'static Tunable)>, ServeError> {
        self.control(|core| tunables_of(core))
    }

    /// Writes a line to a cgroup file of a group, as a shell would.
    ///
    /// # Errors
    ///
    /// When no installed stage has the file or it refuses the line; nothing changed then.
    pub fn write_knob(&self, group: Group, file: &str, line: &str) -> Result<(), ServeError> {
        let (file, line) = (file.to_string(), line.to_string());
        self.control(move |core| {
            core.try_input(Input::Write { group: group.0, file, line }).map_err(ServeError::Stack)
        })?
    }

    /// What reading a cgroup file of a group prints; `None` if no installed stage has it.
    pub fn read_knob(&self, group: Group, file: &str) -> Result<Option<String>, ServeError> {
        let file = file.to_string();
        self.control(move |core| core.stack.read_knob(group.0, &file))
    }

    /// Names of the cgroup files there are now.
    pub fn knobs(&self) -> Result<Vec<&'static str>, ServeError> {
        self.control(|core| core.stack.knobs().map(|k| k.file).collect())
    }
}

fn group_named(core: &Core, name: &str) -> Option<GroupId> {
    let known = core.groups.iter().find(|g| g.spec.name == name).map(|g| g.id);
    known.or((name == ROOT_NAME).then_some(GroupId::ROOT))
}

pub(super) fn group_name(core: &Core, id: GroupId) -> String {
    let known = core.groups.iter().find(|g| g.id == id);
    known.map_or(ROOT_NAME, |g| &g.spec.name).to_string()
}

fn tunables_of(core: &Core) -> Vec<(StageName, &'static Tunable)> {
    let scheduler = core.stack.scheduler_entry().tunables.iter();
    let controllers = core.stack.controllers().flat_map(|(entry, _)| {
        let stage = StageName::Controller(entry.name.to_string());
        entry.tunables.iter().map(move |t| (stage.clone(), t))
    });
    let mut all: Vec<_> = scheduler.map(|t| (StageName::Scheduler, t)).collect();
    all.extend(QUEUE_TUNABLES.iter().map(|t| (StageName::Queue, t)));
    all.extend(controllers);
    all
}

fn target_reports(core: &mut Core) -> Vec<TargetReport> {
    let mut states = Vec::new();
    core.stack.targets(&mut |state| states.push(state));
    let named = |state: TargetState| TargetReport { group: group_name(core, state.group), state };
    states.into_iter().map(named).collect()
}

pub(super) fn device_report(core: &mut Core) -> DeviceReport {
    let targets = target_reports(core);
    let core = &*core;
    let scheduler = core.stack.scheduler_entry();
    let value = |t: &Tunable| Some((t.name, core.stack.scheduler().value(t.name)?));
    let changing = core.switching.is_some() || core.stack.is_changing();
    let groups = core.groups.iter();
    let mut clients: Vec<_> = client_reports(core).collect();
    clients.sort_by_key(|c| c.connection);
    DeviceReport {
        sockets: if core.socket_ring { "io_uring" } else { "epoll" },
        scheduler: scheduler.name,
        changing,
        waits_for: changing.then(|| waits_for(core)),
        tunables: scheduler.tunables.iter().filter_map(value).collect(),
        nr_requests: core.stack.env().device.nr_requests,
        controllers: core.stack.controllers().map(|(entry, _)| entry.name).collect(),
        groups: groups
            .map(|g| GroupReport { name: g.spec.name.clone(), set: g.spec.set.clone() })
            .collect(),
        clients,
        targets,
    }
}

fn client_reports(core: &Core) -> impl Iterator<Item = ClientReport> + '_ {
    core.tenants.iter().filter_map(|tenant| {
        let info = tenant.info.as_ref()?;
        Some(ClientReport {
            connection: info.connection,
            export: info.export.clone(),
            group: group_name(core, tenant.group),
            prio: tenant.prio,
            peer: info.peer.clone(),
            done: IoTotals::of(&tenant.counters),
            outstanding: tenant.counters.outstanding.into(),
        })
    })
}

/// For whom and what the I/O that is there waits, in one line.
pub(super) fn waits_for(core: &Core) -> String {
    let mut parts = Vec::new();
    let in_flight = core.stack.in_flight();
    if in_flight > 0 {
        parts.push(format!("{} at the device", counted(u64::from(in_flight), "request")));
    }
    let queued = (core.stack.env().requests.len() as u32).saturating_sub(in_flight);
    let scheduler = core.stack.scheduler_entry().name;
    if queued > 0 {
        let requests = counted(queued.into(), "request");
        let awaited = in_service(core);
        parts.push(match &awaited[..] {
            [] => format!("{scheduler} holds {requests} back"),
            clients => {
                let list: Vec<_> = clients.iter().map(u64::to_string).collect();
                let who = if clients.len() == 1 { "client" } else { "clients" };
                format!(
                    "{scheduler} holds {requests} back, the turn is that of {who} {}",
                    list.join(", ")
                )
            }
        });
    }
    let outside =
        if core.stack.env().requests.is_empty() { core.unfinished() } else { core.tenants.held() };
    if outside > 0 {
        let controllers: Vec<_> = core.stack.controllers().map(|(e, _)| e.name).collect();
        let at = if core.stack.is_changing() {
            "until the change is made".to_string()
        } else if controllers.is_empty() {
            "for a free request".into()
        } else {
            format!("for a free request or {}", controllers.join(", "))
        };
        let verb = if outside == 1 { "waits" } else { "wait" };
        parts.push(format!("{} {verb} {at}", counted(outside as u64, "I/O")));
    }
    parts.push(match core.next_deadline() {
        Some(at) => {
            let ms = at.since(core.now()).0 as f64 / 1e6;
            format!("the next timer is due in {ms:.1} ms")
        }
        None => "no timer is set".into(),
    });
    parts.join("; ")
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
