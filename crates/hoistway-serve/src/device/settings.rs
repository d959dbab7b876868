//! Settings of a device: scheduler, controllers, tunables, groups.

use super::core::Core;
use crate::error::ServeError;
use hoistway::sched::{self, Entry};
use hoistway::setting::TunableError;
use hoistway::stack::{StackError, StageName};
use hoistway::{GroupId, Input, Instant, Nanos, Output, Stack, ctl};

/// How the stack of a device is set up.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// The scheduler. The live engine uses the multi-queue surroundings for every one.
    pub scheduler: &'static Entry,
    /// Tunables of the scheduler.
    pub set: Vec<(String, u64)>,
    /// Tunables of the block layer (`nr_requests`, ...).
    pub queue: Vec<(String, u64)>,
    /// Controllers with their tunables.
    pub controllers: Vec<(String, Vec<(String, u64)>)>,
    /// How clients' sockets are served.
    pub sockets: SocketWay,
    /// How long closing may take before it gives the storage up.
    pub stop_limit: Nanos,
    /// How long I/O may wait while the device has nothing to do before that is told; zero: it never is.
    pub stall_limit: Nanos,
    /// Who is told, in one line, on the thread of the device. Nobody by default; how often it happened is
    /// in [`DeviceStats`](super::DeviceStats) in any case.
    pub tell: fn(&str),
}

/// How the sockets of clients are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketWay {
    /// By io_uring where the kernel has what that needs (Linux 6.1) and allows it, else by epoll.
    Best,
    /// By epoll, and a system call for each piece that is read or written.
    Epoll,
}

/// Longer than a flush of what a busy disk's cache holds, shorter than what supervisors of services
/// wait before they kill (90 s).
const STOP_LIMIT: Nanos = Nanos::secs(60);
/// Far beyond what schedulers wait on purpose with their own settings, idling and expiry times included.
const STALL_LIMIT: Nanos = Nanos::secs(5);

impl DeviceOptions {
    /// That scheduler, all else default.
    pub fn new(scheduler: &'static Entry) -> DeviceOptions {
        DeviceOptions {
            scheduler,
            set: Vec::new(),
            queue: Vec::new(),
            controllers: Vec::new(),
            sockets: SocketWay::Best,
            stop_limit: STOP_LIMIT,
            stall_limit: STALL_LIMIT,
            tell: |_| {},
        }
    }

    pub(super) fn apply(&self, stack: &mut Stack) -> Result<(), ServeError> {
        for (name, _) in &self.controllers {
            let entry =
                ctl::find(name).ok_or_else(|| ServeError::NoSuchController(name.clone()))?;
            stack.install(entry);
        }
        let queue = self.queue.iter().map(|s| (StageName::Queue, s));
        let scheduler = self.set.iter().map(|s| (StageName::Scheduler, s));
        let controllers = self
            .controllers
            .iter()
            .flat_map(|(of, set)| set.iter().map(move |s| (StageName::Controller(of.clone()), s)));
        for (stage, (name, value)) in queue.chain(scheduler).chain(controllers) {
            stack.handle(Instant::ZERO, Input::Set { stage, name: name.clone(), value: *value })?;
            while !matches!(stack.poll(Instant::ZERO), Output::WaitUntil(_)) {}
        }
        Ok(())
    }
}

impl Default for DeviceOptions {
    /// `none`.
    fn default() -> DeviceOptions {
        DeviceOptions::new(sched::find("none").expect("the registry has none"))
    }
}

/// A group of tenants and what is set on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Its name, unique on the device.
    pub name: String,
    /// Its settings.
    pub set: Vec<GroupSetting>,
}

/// One setting of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSetting {
    /// Who reads it: the scheduler in force or a controller.
    pub stage: StageName,
    /// Name of the tunable.
    pub name: String,
    /// Its value.
    pub value: u64,
}

impl GroupSpec {
    /// A group without settings.
    pub fn new(name: &str) -> GroupSpec {
        GroupSpec { name: name.into(), set: Vec::new() }
    }

    /// The same with that weight (1 to 1000; 100 is the weight of a group without).
    pub fn weight(mut self, value: u64) -> GroupSpec {
        let (stage, name) = (StageName::Scheduler, "weight".into());
        self.set.push(GroupSetting { stage, name, value });
        self
    }

    /// The same with a latency target in microseconds. A scheduler that takes targets (`paternoster`) gets it;
    /// under others io.latency keeps it by holding its siblings back, which must be installed then
    /// ([`DeviceOptions::controllers`]). [`LATENCY_AUTO`] is for such schedulers alone.
    pub fn latency_us(self, value: u64) -> GroupSpec {
        self.controlled(LATENCY, "target", value)
    }

    /// The same with one of the limits of io.max: `rbps`, `wbps` (bytes per second), `riops`, `wiops`
    /// (I/Os per second); the controller must be installed ([`DeviceOptions::controllers`]).
    pub fn limit(self, name: &str, value: u64) -> GroupSpec {
        self.controlled("io.max", name, value)
    }

    fn controlled(mut self, controller: &str, name: &str, value: u64) -> GroupSpec {
        let stage = StageName::Controller(controller.into());
        self.set.push(GroupSetting { stage, name: name.into(), value });
        self
    }
}

/// A latency target without a number: as low as goes without loss of throughput.
pub const LATENCY_AUTO: u64 = 0;
/// The controller of latency targets, and the file of a group where schedulers take them.
const LATENCY: &str = "io.latency";

impl GroupSetting {
    /// It is the latency target.
    pub fn is_latency(&self) -> bool {
        self.stage == StageName::Controller(LATENCY.into()) && self.name == "target"
    }
}

/// The controller that shares by weights, as some schedulers do.
const COST: &str = "io.cost";

/// A group that exists.
#[derive(Clone, Debug)]
pub(crate) struct GroupRecord {
    pub id: GroupId,
    pub spec: GroupSpec,
}

impl Core {
    /// Adds a group below the root; or gives the one of that name, whose settings then change. Also
    /// returns what has no effect under the scheduler in force, as sentences.
    pub fn set_group(&mut self, spec: &GroupSpec) -> Result<(GroupId, Vec<String>), ServeError> {
        if spec.name.is_empty() {
            return Err(ServeError::BadName(spec.name.clone()));
        }
        let at = match self.groups.iter().position(|g| g.spec.name == spec.name) {
            Some(at) => at,
            None => {
                let now = self.now();
                let id = self.stack.add_group(now, GroupId::ROOT, &spec.name);
                self.drain();
                self.groups.push(GroupRecord { id, spec: GroupSpec::new(&spec.name) });
                self.groups.len() - 1
            }
        };
        let id = self.groups[at].id;
        let mut idle = Vec::new();
        for setting in &spec.set {
            idle.extend(self.set_on_group(id, setting)?);
            let known = &mut self.groups[at].spec.set;
            known.retain(|s| (&s.stage, &s.name) != (&setting.stage, &setting.name));
            known.push(setting.clone());
        }
        Ok((id, idle))
    }

    fn set_on_group(
        &mut self,
        group: GroupId,
        setting: &GroupSetting,
    ) -> Result<Option<String>, ServeError> {
        let GroupSetting { stage, name, value } = setting.clone();
        let entry = self.stack.scheduler_entry();
        if setting.is_latency() && entry.knobs.iter().any(|k| k.file == LATENCY) {
            return self.set_target(group, value).map(|()| None);
        }
        let scheduler = stage == StageName::Scheduler;
        let shared = scheduler && name == "weight" && self.has_controller(COST);
        if shared {
            // One weight for everybody who shares by weights.
            let stage = StageName::Controller(COST.into());
            let value = Some(value);
            self.try_input(Input::SetGroup { group, stage, name: name.clone(), value })?;
        }
        if scheduler && !entry.group_tunables.iter().any(|t| t.name == name) {
            if shared {
                return Ok(None);
            }
            return Ok(Some(format!(
                "{name} = {value} of a group has no effect under {}",
                entry.name
            )));
        }
        let input = Input::SetGroup { group, stage, name, value: Some(value) };
        self.try_input(input).map(|()| None).map_err(ServeError::Stack)
    }

    /// Tells the scheduler of a latency target, as a shell would.
    fn set_target(&mut self, group: GroupId, us: u64) -> Result<(), ServeError> {
        let device = self.stack.env().device.number;
        let line = match us {
            LATENCY_AUTO => format!("{device} target=auto"),
            us => format!("{device} target={us}"),
        };
        self.try_input(Input::Write { group, file: LATENCY.into(), line })
            .map_err(ServeError::Stack)
    }

    fn has_controller(&self, name: &str) -> bool {
        self.stack.controllers().any(|(entry, _)| entry.name == name)
    }

    /// Sets a tunable. Refused for the scheduler while another one is on its way: it would be lost.
    pub fn set(&mut self, stage: StageName, name: &str, value: u64) -> Result<(), ServeError> {
        if stage == StageName::Scheduler && self.switching.is_some() {
            let message = "another scheduler is about to take over; set its tunables when it has";
            return Err(ServeError::Refused(message.into()));
        }
        self.try_input(Input::Set { stage, name: name.into(), value }).map_err(ServeError::Stack)
    }

    /// Another scheduler takes over as soon as what is under way is done; meanwhile new I/O waits.
    pub fn switch_scheduler(
        &mut self,
        entry: &'static Entry,
        set: &[(String, u64)],
    ) -> Result<(), ServeError> {
        for (name, value) in set {
            let known = hoistway::setting::check(entry.tunables, entry.name, name, *value);
            known.map_err(|e: TunableError| ServeError::Stack(StackError::Tunable(e)))?;
        }
        self.try_input(Input::SwitchScheduler(entry))?;
        self.switching = Some(set.to_vec());
        self.settle_switch();
        Ok(())
    }

    /// The new scheduler is there: it is told what was set.
    pub(super) fn settle_switch(&mut self) {
        if self.switching.is_none() {
            return;
        }
        if self.stack.is_changing() {
            return;
        }
        let set = self.switching.take().expect("it was there just now");
        for (name, value) in set {
            self.set(StageName::Scheduler, &name, value)
                .expect("the tunables were checked against the scheduler's own table");
        }
        for group in self.groups.clone() {
            let of_scheduler =
                |s: &&GroupSetting| s.stage == StageName::Scheduler || s.is_latency();
            for setting in group.spec.set.iter().filter(of_scheduler) {
                // A weight outside this scheduler's range keeps its default there; a target that neither it
                // nor a controller takes waits for one that does.
                let _ = self.set_on_group(group.id, setting);
            }
        }
    }
}
