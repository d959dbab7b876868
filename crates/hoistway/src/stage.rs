//! What schedulers and controllers have in common: settings, files of groups, figures, changes of their
//! surroundings, and time.
//!
//! A stage is whatever stands in the path of an I/O and decides something about it. What it decides is the
//! matter of [`Scheduler`](crate::sched::Scheduler) and [`Controller`](crate::ctl::Controller); all that a
//! caller wants to know of it besides is here, so that listing, setting, recording and waking are written
//! once for both.

use crate::env::Cx;
use crate::group::{GroupId, ProcId};
use crate::knob::{Knob, KnobError};
use crate::setting::{Tunable, TunableError};
use crate::unit::Instant;
use alloc::format;
use alloc::string::{String, ToString};

/// A scheduler or a controller, apart from its decisions.
///
/// The contract of time: `timer(now)` is called when `next_timer() <= now`, never later than needed;
/// afterwards `next_timer()` lies in the future or is `None`.
pub trait Stage: core::fmt::Debug + Send {
    /// Its entry in the registry.
    fn info(&self) -> &'static StageInfo;

    /// Sets a tunable; on an error nothing changes.
    fn set(
        &mut self,
        now: Instant,
        name: &str,
        value: u64,
        cx: &mut Cx<'_>,
    ) -> Result<(), TunableError>;

    /// The value of a tunable in force; `None` if there is no such tunable.
    fn value(&self, name: &str) -> Option<u64>;

    /// Sets a tunable of a group; `None` goes back to the default.
    fn set_group(
        &mut self,
        _now: Instant,
        _group: GroupId,
        name: &str,
        _value: Option<u64>,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        Err(TunableError::Unknown { name: name.to_string(), stage: self.info().name })
    }

    /// Writes one line to a file of a group, as into the kernel's cgroup file (the files of
    /// [`StageInfo::knobs`] only); applied completely or not at all.
    fn write_knob(
        &mut self,
        _now: Instant,
        _group: GroupId,
        file: &str,
        _line: &str,
        _cx: &mut Cx<'_>,
    ) -> Result<(), KnobError> {
        Err(KnobError::unsupported(format!("no file '{file}'")))
    }

    /// Appends what reading that file prints, newlines included; nothing for a device at its defaults
    /// where the kernel prints nothing.
    fn read_knob(&self, _group: GroupId, _file: &str, _cx: &Cx<'_>, _out: &mut String) {}

    /// Something outside the path of an I/O has changed; the context shows the new state.
    fn changed(&mut self, _now: Instant, _change: &Change, _cx: &mut Cx<'_>) {}

    /// The time `next_timer` named has come.
    fn timer(&mut self, _now: Instant, _cx: &mut Cx<'_>) {}

    /// When `timer` must be called; `None`: not at all.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Gauges that a monitor records over time: vrate, shares, depths, debts.
    fn gauges(&self, _now: Instant, _cx: &Cx<'_>, _sink: &mut dyn FnMut(Gauge)) {}

    /// Figures for reports; [`StageInfo::figures`] says what they are.
    fn figures(&self, _sink: &mut dyn FnMut(Figure)) {}
}

/// Entry of a stage in its registry.
#[derive(Clone, Copy, Debug)]
pub struct StageInfo {
    /// Name on the command line; the kernel's where there is one.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The specification and papers it is written from.
    pub source: &'static str,
    /// Tunables of the device.
    pub tunables: &'static [Tunable],
    /// Tunables of a group.
    pub group_tunables: &'static [Tunable],
    /// The cgroup files it understands.
    pub knobs: &'static [Knob],
    /// Meanings of its figures, in tables one after the other.
    pub figures: &'static [&'static [FigureDoc]],
    /// What its decisions in the trace are about; those that are not listed are a [`Role::Reason`].
    pub decisions: &'static [Decision],
}

impl StageInfo {
    /// Decision behind a reason in the trace, by its text ([`Why::what`](crate::trace::Why)).
    pub fn decision(&self, what: &str) -> Decision {
        let name = what.split_once(": ").map_or(what, |(name, _)| name);
        let known = self.decisions.iter().find(|d| d.name == name);
        known.copied().unwrap_or(Decision::new("", Role::Reason))
    }
}

/// A decision of a stage, as it stands in the trace: which subject and figures it has, so that a reader of the
/// trace can put it into words without knowing the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The text in the trace, up to a colon and a blank if it has them; behind those stands why.
    pub name: &'static str,
    /// Its role.
    pub role: Role,
    /// Units of the figures, where the role leaves that open (`sectors`, `requests`); empty: none.
    pub units: [&'static str; 2],
}

impl Decision {
    /// A decision whose figures are what the role says.
    pub const fn new(name: &'static str, role: Role) -> Decision {
        Decision { name, role, units: ["", ""] }
    }

    /// The same with figures that count `a` and `b`.
    pub const fn counting(self, a: &'static str, b: &'static str) -> Decision {
        Decision { units: [a, b], ..self }
    }
}

/// Meaning of a decision. Unless it says otherwise, its subject is a queue of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Why the next request goes to the device at this moment.
    Reason,
    /// Something that sends no request to the device.
    Aside,
    /// Something about a queue; the figures count what the declaration says.
    OfQueue,
    /// A process (first figure) uses the queue for sync (second figure 1) or other requests (0).
    QueueOfProcess,
    /// The queue was merged into another (first figure), by a process (second figure, with
    /// [`Service::Budgets`](crate::sched::Service)).
    QueuesMerged,
    /// The queue is new: a process (second figure) has left the shared one (first figure).
    SplitOff,
    /// The queue is served from now on; first figure: its budget in sectors.
    InService,
    /// The queue is served no longer. Figures: the service it received, and the next budget.
    ServiceEnds,
    /// The queue is empty and the device kept idle for it, for at most the first figure in ns.
    Idles,
    /// The same, the first figure in ticks.
    IdlesTicks,
    /// Its weight is raised by a factor (first figure), for at most the second in ns.
    Raised,
    /// Raising ends, after a service (first figure) in sectors.
    RaisingEnds,
    /// Its weight is raised for the first figure in sectors.
    Boosted,
    /// It takes the device from the queue in service (first figure).
    Preempts,
    /// It is served while another (first figure) is waited for; second figure: requests in the device.
    Injected,
    /// It is woken by another (first figure).
    WakerFound,
    /// The queue was shared and is split.
    QueueSplit,
}

/// Something outside the path of a request has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A group was added.
    GroupAdded(GroupId),
    /// A group is going away; it is still in the tree during the call.
    GroupRemoved(GroupId),
    /// A process changed its group.
    ProcMoved {
        /// Which.
        proc: ProcId,
        /// Old group.
        from: GroupId,
        /// New group.
        to: GroupId,
    },
    /// A process changed its priority.
    ProcPriority(ProcId),
    /// A process has exited.
    ProcExited(ProcId),
    /// A property of the device changed (`nr_requests`, rotational, actuators).
    Device,
    /// The process slept because too many pages were dirty (write-back throttling asks).
    DirtySlept(ProcId),
}

/// A figure a stage keeps about itself, for reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Name with unit, such as `slots_expired_timeout` or `peak_rate_sectors_per_s`.
    pub name: &'static str,
    /// Owner of the figure: a queue, level or group number of the stage; `None` for the whole.
    pub of: Option<u32>,
    /// The value.
    pub value: i64,
}

/// Meaning of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureDoc {
    /// The name of the figure.
    pub name: &'static str,
    /// Unit of the value; empty for a plain count.
    pub unit: &'static str,
    /// Its owner: `device`, `group`, `queue`, ...
    pub of: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

/// A quantity for the record of a stage over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// Its name: `vrate`, `depth`, `use_delay`, ...
    pub name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Group it belongs to; `None`: the device.
    pub group: Option<GroupId>,
    /// The value.
    pub value: i64,
}
