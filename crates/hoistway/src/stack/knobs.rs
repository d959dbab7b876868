//! cgroup files: a line written to a file of a group goes to the stage that has this file, and reading
//! asks it (specs/groups-and-priorities.md section 6). `io.prio.class` and `io.stat` are the block
//! layer's own.

use super::*;
use crate::knob::{Knob, KnobError, KnobOf, is_blank};
use crate::request::Dir;
use crate::stage::Gauge;
use crate::target::TargetState;
use crate::unit::Class;
use alloc::format;
use alloc::string::ToString;
use core::fmt::Write;

/// The files of the block layer itself.
pub static QUEUE_KNOBS: &[Knob] = &[
    Knob {
        file: "io.prio.class",
        of: KnobOf::All,
        form: "no-change | none-to-rt | restrict-to-be | idle | promote-to-rt",
        doc: "What the group does to the priority of its I/O. Policies of ancestors are not combined \
              (specs/groups-and-priorities.md 6.8).",
    },
    Knob {
        file: "io.stat",
        of: KnobOf::All,
        form: "(read only)",
        doc: "Bytes and I/Os of the group and its descendants, and what the controllers say of it \
              (specs/groups-and-priorities.md 6.9).",
    },
];

/// `io.prio.class` of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PrioPolicy {
    #[default]
    NoChange,
    NoneToRt,
    RestrictToBe,
    Idle,
    PromoteToRt,
}

impl PrioPolicy {
    const ALL: [(&'static str, PrioPolicy); 5] = [
        ("no-change", PrioPolicy::NoChange),
        ("none-to-rt", PrioPolicy::NoneToRt),
        ("restrict-to-be", PrioPolicy::RestrictToBe),
        ("idle", PrioPolicy::Idle),
        ("promote-to-rt", PrioPolicy::PromoteToRt),
    ];

    fn name(self) -> &'static str {
        PrioPolicy::ALL.iter().find(|p| p.1 == self).expect("every policy has a name").0
    }

    /// The priority of an I/O under this policy: the lower one of its own and the policy's, as numbers.
    pub(super) fn apply(self, prio: IoPrio) -> IoPrio {
        let at_least = |class: u16| IoPrio::from_word(prio.word().max(class << 13));
        match self {
            PrioPolicy::NoChange => prio,
            // Acts on I/O without a class only, and every I/O has one since its task's is derived.
            PrioPolicy::NoneToRt => at_least(1),
            PrioPolicy::RestrictToBe => at_least(2),
            PrioPolicy::Idle => at_least(3),
            PrioPolicy::PromoteToRt if prio.class() == Class::Rt => prio,
            PrioPolicy::PromoteToRt => IoPrio::rt(4),
        }
    }
}

/// I/O submitted by a group itself, without its descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStat {
    /// Bytes read.
    pub rbytes: u64,
    /// Bytes written.
    pub wbytes: u64,
    /// Reads.
    pub rios: u64,
    /// Writes, flushes among them.
    pub wios: u64,
    /// Bytes discarded.
    pub dbytes: u64,
    /// Discards.
    pub dios: u64,
}

impl IoStat {
    fn add(&mut self, other: &IoStat) {
        self.rbytes += other.rbytes;
        self.wbytes += other.wbytes;
        self.rios += other.rios;
        self.wios += other.wios;
        self.dbytes += other.dbytes;
        self.dios += other.dios;
    }
}

impl Stack {
    /// Every file that a write may name now: the block layer's, the scheduler's, the controllers'.
    pub fn knobs(&self) -> impl Iterator<Item = &'static Knob> + '_ {
        let controllers = self.controllers.iter().flat_map(|c| c.entry.knobs);
        QUEUE_KNOBS.iter().chain(self.entry.knobs).chain(controllers)
    }

    pub(super) fn write_knob(
        &mut self,
        group: GroupId,
        file: &str,
        line: &str,
    ) -> Result<(), StackError> {
        let refused = |form: &'static str, error: KnobError| StackError::Knob {
            file: file.into(),
            line: line.trim_end().into(),
            form,
            error,
        };
        self.check_group(group)?;
        let Some(knob) = self.knobs().find(|k| k.file == file) else {
            let known: Vec<_> = self.knobs().map(|k| k.file).collect();
            let what = format!("no installed stage has this file; there are {}", known.join(", "));
            return Err(refused("", KnobError::unsupported(what)));
        };
        let root = group == GroupId::ROOT;
        if root && knob.of == KnobOf::Groups || !root && knob.of == KnobOf::Root {
            let what =
                if root { "the root has no such file" } else { "only the root has this file" };
            return Err(refused(knob.form, KnobError::unsupported(what)));
        }
        let (now, mut cx) = (self.now, self.env.cx());
        let result = match file {
            "io.prio.class" => self.set_prio_class(group, line),
            "io.stat" => Err(KnobError::invalid("io.stat is read only")),
            _ if self.entry.knobs.iter().any(|k| k.file == file) => {
                self.scheduler.write_knob(now, group, file, line, &mut cx)
            }
            _ => (self.controllers.iter_mut())
                .find(|c| c.entry.knobs.iter().any(|k| k.file == file))
                .expect("some stage has the file")
                .stage
                .write_knob(now, group, file, line, &mut cx),
        };
        self.ask_legacy_run();
        result.map_err(|error| refused(knob.form, error))
    }

    /// What reading a file of a group prints, as the kernel prints it. `None` if no installed stage has
    /// the file.
    pub fn read_knob(&mut self, group: GroupId, file: &str) -> Option<String> {
        self.knobs().find(|k| k.file == file)?;
        let mut out = String::new();
        match file {
            "io.prio.class" => {
                out.push_str(self.prio_class(group).name());
                out.push('\n');
            }
            "io.stat" => self.print_stat(group, &mut out),
            _ => {
                let cx = self.env.cx();
                if self.entry.knobs.iter().any(|k| k.file == file) {
                    self.scheduler.read_knob(group, file, &cx, &mut out);
                }
                for c in &self.controllers {
                    if c.entry.knobs.iter().any(|k| k.file == file) {
                        c.stage.read_knob(group, file, &cx, &mut out);
                    }
                }
            }
        }
        Some(out)
    }

    /// Gauges for a monitor: those of the scheduler and of every controller.
    pub fn gauges(&mut self, sink: &mut dyn FnMut(&'static str, Gauge)) {
        let (now, cx) = (self.now, self.env.cx());
        self.scheduler.gauges(now, &cx, &mut |g| sink(self.entry.name, g));
        for c in &self.controllers {
            c.stage.gauges(now, &cx, &mut |g| sink(c.entry.name, g));
        }
    }

    /// How the latency targets stand that the scheduler takes.
    pub fn targets(&mut self, sink: &mut dyn FnMut(TargetState)) {
        let (now, cx) = (self.now, self.env.cx());
        self.scheduler.targets(now, &cx, sink);
    }

    /// Does a controller slow the tasks of this group down, so that their read-ahead is cut?
    pub fn congested(&mut self, group: GroupId) -> bool {
        if self.controllers.is_empty() {
            return false;
        }
        let cx = self.env.cx();
        self.controllers.iter().any(|c| c.stage.congested(group, &cx))
    }

    /// The installed controllers, in the order of asking, with their registry entries.
    pub fn controllers(&self) -> impl Iterator<Item = (&'static ctl::Entry, &dyn Controller)> + '_ {
        self.controllers.iter().map(|c| (c.entry, &*c.stage))
    }

    /// I/O submitted by the group itself.
    pub fn io_stat(&self, group: GroupId) -> IoStat {
        self.stats.get(group.index()).copied().unwrap_or_default()
    }

    pub(super) fn prio_class(&self, group: GroupId) -> PrioPolicy {
        self.prio_classes.get(group.index()).copied().unwrap_or_default()
    }

    fn set_prio_class(&mut self, group: GroupId, line: &str) -> Result<(), KnobError> {
        let word = line.trim_matches(is_blank);
        let Some(&(_, policy)) = PrioPolicy::ALL.iter().find(|p| p.0 == word) else {
            return Err(KnobError::invalid(format!("no priority policy '{word}'")));
        };
        if self.prio_classes.len() <= group.index() {
            self.prio_classes.resize(group.index() + 1, PrioPolicy::NoChange);
        }
        self.prio_classes[group.index()] = policy;
        Ok(())
    }

    /// Counts a bio that has left gate 1. The later pieces of a split I/O count as I/Os, not bytes.
    #[inline(always)]
    pub(super) fn count(&mut self, io: &Io, first: bool) {
        let index = io.group.index();
        let bytes = if first { io.sectors.bytes().0 } else { 0 };
        let (op, dir) = (io.op, io.op.dir());
        if self.stats.len() <= index {
            self.stats.resize(index + 1, IoStat::default());
        }
        let s = &mut self.stats[index];
        let (total, ios) = match (op, dir) {
            (Op::Discard, _) => (&mut s.dbytes, &mut s.dios),
            (_, Dir::Read) => (&mut s.rbytes, &mut s.rios),
            (_, Dir::Write) => (&mut s.wbytes, &mut s.wios),
        };
        *total += bytes;
        *ios += 1;
    }

    fn print_stat(&mut self, group: GroupId, out: &mut String) {
        let mut sum = IoStat::default();
        let mut todo = alloc::vec![group];
        while let Some(g) = todo.pop() {
            sum.add(&self.io_stat(g));
            todo.extend(self.env.groups.children(g));
        }
        if group == GroupId::ROOT {
            // The device as a whole, groups that are gone included.
            sum = IoStat::default();
            self.stats.iter().for_each(|s| sum.add(s));
        }
        let mut fields = String::new();
        if sum.rbytes | sum.wbytes | sum.rios | sum.wios != 0 {
            write!(
                fields,
                " rbytes={} wbytes={} rios={} wios={} dbytes={} dios={}",
                sum.rbytes, sum.wbytes, sum.rios, sum.wios, sum.dbytes, sum.dios
            )
            .expect("a string takes everything");
        }
        let (now, cx) = (self.now, self.env.cx());
        for c in &self.controllers {
            c.stage.stat(now, group, &cx, &mut fields);
        }
        self.scheduler.targets(now, &cx, &mut |t| {
            if t.group == group {
                print_target(&t, &mut fields);
            }
        });
        if !fields.is_empty() {
            out.push_str(&self.env.device.number.to_string());
            out.push_str(&fields);
            out.push('\n');
        }
    }
}

/// A latency target that the scheduler takes: times in us as in `io.latency`, the answer and its figures.
fn print_target(t: &TargetState, fields: &mut String) {
    let target = t.target.map_or("auto".to_string(), |target| target.as_us().to_string());
    let (p99, answer) = (t.p99.as_us(), t.answer.name());
    write!(fields, " target={target} p99={p99} answer={answer}")
        .expect("a string takes everything");
    for (name, value) in t.answer.figures() {
        write!(fields, " {name}={value}").expect("a string takes everything");
    }
}
