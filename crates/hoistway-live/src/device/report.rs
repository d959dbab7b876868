//! What a device tells about itself while it serves, and what may be changed from outside by name:
//! the side of the engine that an operator sees.

use super::core::{Core, TenantId};
use super::counters::{IoCounters, OPS};
use super::settings::GroupSetting;
use super::{Device, Group};
use crate::error::LiveError;
use hoistway::stack::{QUEUE_TUNABLES, StageName};
use hoistway::tunable::Tunable;
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
}

/// The name of [`Group::ROOT`], unless a group has it.
pub const ROOT_NAME: &str = "root";

impl Device {
    /// What the device does now and for whom.
    pub fn report(&self) -> Result<DeviceReport, LiveError> {
        self.control(|core| core.report())
    }

    /// The group of that name; `root` is everybody who is in no other.
    pub fn group(&self, name: &str) -> Result<Option<Group>, LiveError> {
        let name = name.to_string();
        self.control(move |core| core.group(&name).map(Group))
    }

    /// The name of a group.
    pub fn group_name(&self, group: Group) -> Result<String, LiveError> {
        self.control(move |core| core.group_name(group.0))
    }

    /// Tunables that [`set`](Device::set) takes now, with the stage that reads each: the
    /// scheduler's, the block layer's, the controllers'.
    pub fn tunables(&self) -> Result<Vec<(StageName, &'static Tunable)>, LiveError> {
        self.control(|core| core.tunables())
    }

    /// Writes a line to a cgroup file of a group, as a shell would.
    ///
    /// # Errors
    ///
    /// When no installed stage has the file or it refuses the line; nothing changed then.
    pub fn write_knob(&self, group: Group, file: &str, line: &str) -> Result<(), LiveError> {
        let (file, line) = (file.to_string(), line.to_string());
        self.control(move |core| {
            core.try_input(Input::Write { group: group.0, file, line }).map_err(LiveError::Stack)
        })?
    }

    /// What reading a cgroup file of a group prints; `None` if no installed stage has it.
    pub fn read_knob(&self, group: Group, file: &str) -> Result<Option<String>, LiveError> {
        let file = file.to_string();
        self.control(move |core| core.stack.read_knob(group.0, &file))
    }

    /// Names of the cgroup files there are now.
    pub fn knobs(&self) -> Result<Vec<&'static str>, LiveError> {
        self.control(|core| core.stack.knobs().map(|k| k.file).collect())
    }
}

impl Core {
    pub(crate) fn info(&mut self, id: TenantId, info: ConnectionInfo) {
        if let Some(tenant) = self.tenant_mut(id) {
            tenant.info = Some(info);
        }
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        let known = self.groups.iter().find(|g| g.spec.name == name).map(|g| g.id);
        known.or((name == ROOT_NAME).then_some(GroupId::ROOT))
    }

    pub(super) fn group_name(&self, id: GroupId) -> String {
        let known = self.groups.iter().find(|g| g.id == id);
        known.map_or(ROOT_NAME, |g| &g.spec.name).to_string()
    }

    fn tunables(&self) -> Vec<(StageName, &'static Tunable)> {
        let scheduler = self.stack.scheduler_entry().tunables.iter();
        let controllers = self.stack.controllers().flat_map(|(entry, _)| {
            let stage = StageName::Controller(entry.name.to_string());
            entry.tunables.iter().map(move |t| (stage.clone(), t))
        });
        let mut all: Vec<_> = scheduler.map(|t| (StageName::Scheduler, t)).collect();
        all.extend(QUEUE_TUNABLES.iter().map(|t| (StageName::Queue, t)));
        all.extend(controllers);
        all
    }

    pub(super) fn report(&self) -> DeviceReport {
        let scheduler = self.stack.scheduler_entry();
        let value = |t: &Tunable| Some((t.name, self.stack.scheduler().value(t.name)?));
        let changing = self.switching.is_some() || self.stack.is_changing();
        let groups = self.groups.iter();
        let mut clients: Vec<_> = self.labelled().collect();
        clients.sort_by_key(|c| c.connection);
        DeviceReport {
            scheduler: scheduler.name,
            changing,
            waits_for: changing.then(|| self.waits_for()),
            tunables: scheduler.tunables.iter().filter_map(value).collect(),
            nr_requests: self.stack.env().device.nr_requests,
            controllers: self.stack.controllers().map(|(entry, _)| entry.name).collect(),
            groups: groups
                .map(|g| GroupReport { name: g.spec.name.clone(), set: g.spec.set.clone() })
                .collect(),
            clients,
        }
    }

    fn labelled(&self) -> impl Iterator<Item = ClientReport> + '_ {
        self.tenants().filter_map(|tenant| {
            let info = tenant.info.as_ref()?;
            Some(ClientReport {
                connection: info.connection,
                export: info.export.clone(),
                group: self.group_name(tenant.group),
                prio: tenant.prio,
                peer: info.peer.clone(),
                done: IoTotals::of(&tenant.measure),
                outstanding: tenant.measure.outstanding.into(),
            })
        })
    }
}
