//! Recordings of ours inside the kernel: what the module tells its scheduler beside the operations of an elevator, in the
//! order and with the numbers of `hoistway_kernel::queue::Queue`.

use crate::line::Line;
use crate::run::Replay;
use hoistway::group::{GroupId, ProcId};
use hoistway::request::ReqId;
use hoistway::sched::{At, FlushCommand};
use hoistway::stage::Change;
use hoistway::unit::{Instant, IoPrio, Sectors};

/// What only such a recording has.
#[derive(Debug)]
pub struct Inside {
    /// Numbers of processes that have exited: the module uses them again.
    free: Vec<ProcId>,
    /// The largest request, in force.
    cut: Sectors,
}

impl Inside {
    pub fn new(cut: Sectors) -> Inside {
        Inside { free: Vec::new(), cut }
    }
}

/// The path as far as its groups are alive: one that was removed is called `NAME~NUMBER`.
pub fn living<'a, 'b>(path: &'a [&'b str]) -> &'a [&'b str] {
    let alive = path.iter().position(|name| name.contains('~')).unwrap_or(path.len());
    &path[..alive]
}

impl Replay {
    /// The number of one that is new.
    fn meets(&mut self, prio: IoPrio) -> ProcId {
        let free = self.inside.as_mut().and_then(|inside| inside.free.pop());
        let Some(id) = free else { return self.env.procs.add(GroupId::ROOT, prio) };
        let p = self.env.procs.get_mut(id).expect("it was given out before");
        (p.alive, p.prio, p.group) = (true, prio, GroupId::ROOT);
        id
    }

    /// A process has this priority and is in this group from now on.
    pub(crate) fn proc_line(&mut self, now: Instant, line: &Line<'_>) -> Result<(), String> {
        let at = line.ctx()?;
        let prio = line.prios()?.0;
        if self.procs.len() <= at {
            self.procs.resize(at + 1, None);
        }
        let id = match self.procs[at] {
            Some(id) => id,
            None => self.meets(prio),
        };
        self.procs[at] = Some(id);
        let group = self.known(now, &line.group()?)?;
        self.proc_is(now, id, prio, group);
        Ok(())
    }

    fn proc_is(&mut self, now: Instant, id: ProcId, prio: IoPrio, to: GroupId) {
        let p = self.env.procs.get_mut(id).expect("it is known");
        let (was, from) = (p.prio, p.group);
        (p.prio, p.group) = (prio, to);
        if was != prio {
            self.changed(now, Change::ProcPriority(id));
        }
        if from != to {
            self.changed(now, Change::ProcMoved { proc: id, from, to });
        }
    }

    /// Its number is free again.
    pub(crate) fn gone(&mut self, id: ProcId) {
        if let Some(inside) = &mut self.inside {
            inside.free.push(id);
        }
    }

    /// Processes that had I/O in a group, and none since they left it, are its parent's once it goes.
    pub(crate) fn leave(&mut self, now: Instant, group: GroupId) {
        let parent = self.env.groups.parent(group).unwrap_or(GroupId::ROOT);
        for id in (0..self.env.procs.len() as u32).map(ProcId) {
            let p = self.env.procs.get(id).expect("it is counted");
            if p.alive && p.group == group {
                self.proc_is(now, id, p.prio, parent);
            }
        }
    }

    /// A flush command of the kernel's.
    pub(crate) fn flush(&mut self, now: Instant, line: &Line<'_>) -> Result<(), String> {
        let what = match line.result {
            "began" => FlushCommand::Began,
            "ended" => FlushCommand::Ended,
            other => return Err(format!("a flush command has not '{other}'")),
        };
        let (sched, mut cx) = self.scheduler();
        if sched.hears_flushes() {
            sched.flush(now, what, &mut cx);
        }
        Ok(())
    }

    /// The instants of a request before it was inserted.
    pub(crate) fn begin(&mut self, id: ReqId, line: &Line<'_>) -> Result<(), String> {
        let (start, alloc) = (line.figure("start")?, line.figure("alloc")?);
        let r = self.env.requests.get_mut(id);
        r.began = start.map_or(r.began, Instant::from_nanos);
        r.alloc = alloc.map_or(r.alloc, Instant::from_nanos);
        Ok(())
    }

    /// One that the device gave back comes again: inside, that is when the scheduler hears of both.
    pub(crate) fn comes_again(&mut self, now: Instant, id: ReqId, at: At) {
        let inside = self.inside.is_some();
        let (sched, mut cx) = self.scheduler();
        if inside {
            sched.requeue(now, id, &mut cx);
        }
        sched.prepare(now, id, &mut cx);
        sched.insert(now, id, if inside { At::Head } else { at }, &mut cx);
    }

    /// A flush that a process asked for is over (`unsent`), or a step of one that the device has served.
    pub(crate) fn bypassed(&mut self, end: Instant, id: ReqId, unsent: bool) {
        let (sched, mut cx) = self.scheduler();
        match unsent {
            true => sched.complete_unsent(end, id, &mut cx),
            false => sched.complete_bypassed(end, id, &mut cx),
        }
    }

    /// The largest request that merging may build.
    pub(crate) fn cut(&self) -> Sectors {
        self.inside.as_ref().map_or(self.env.device.max_sectors, |inside| inside.cut)
    }

    /// The module looks at it after completions and settings.
    pub(crate) fn settle_cut(&mut self) {
        let limit = self.env.device.max_sectors;
        let most = self.subject.scheduler().max_sectors(limit).min(limit).max(Sectors(8));
        if let Some(inside) = &mut self.inside {
            inside.cut = most;
        }
    }

    /// Who issues the I/O of a line without a context: inside, a process that is nobody.
    pub(crate) fn nobody(&self) -> ProcId {
        if self.inside.is_some() { ProcId(0) } else { ProcId::NONE }
    }
}
