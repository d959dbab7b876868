//! What the recording has to tell, since neither a controller nor the drive decides it: when within its span a wake
//! timer of io.cost fires, and when the task of a bio that io.latency gave a slot runs and goes on.

use super::run::{READING, Replay};
use crate::Mistake;
use crate::line::{Line, number};
use hoistway::Device;
use hoistway::ctl::cost::IoCost;
use hoistway::ctl::latency::IoLatency;
use hoistway::ctl::{Controller, Entry};
use hoistway::group::GroupId;
use hoistway::request::{BioId, Op};
use hoistway::unit::{Instant, Sectors};
use std::collections::{BTreeMap, BTreeSet};

/// A controller of ours, of which some are told.
pub(super) enum Ctl {
    Cost(Box<IoCost>),
    Latency(Box<IoLatency>),
    Other(Box<dyn Controller>),
}

impl Ctl {
    pub fn new(entry: &Entry, device: &Device) -> Ctl {
        match entry.stage.name {
            "io.cost" => {
                let mut cost = IoCost::new(device);
                cost.tell_wakes();
                Ctl::Cost(Box::new(cost))
            }
            "io.latency" => {
                let mut latency = IoLatency::new(device);
                latency.tell_climbs();
                Ctl::Latency(Box::new(latency))
            }
            _ => Ctl::Other((entry.build)(device)),
        }
    }
}

impl std::ops::Deref for Ctl {
    type Target = dyn Controller;

    fn deref(&self) -> &(dyn Controller + 'static) {
        match self {
            Ctl::Cost(cost) => &**cost,
            Ctl::Latency(latency) => &**latency,
            Ctl::Other(other) => &**other,
        }
    }
}

impl std::ops::DerefMut for Ctl {
    fn deref_mut(&mut self) -> &mut (dyn Controller + 'static) {
        match self {
            Ctl::Cost(cost) => &mut **cost,
            Ctl::Latency(latency) => &mut **latency,
            Ctl::Other(other) => &mut **other,
        }
    }
}

/// io.cost's wake timers.
impl Replay {
    /// io.cost's wake timers fire somewhere in their span, at the first interrupt that finds no other timer in their
    /// way: the recording says when. Of those whose span it is the one fires whose bios pass there; one that no line
    /// tells of fires at the end of its span. `rest` begins with the present line.
    pub(super) fn fire_told(&mut self, now: Instant, rest: &[(usize, Line<'_>)]) {
        loop {
            let period = self.ctl.next_timer().filter(|&due| due < now);
            // The period's line may be some ns late.
            let period = period.filter(|&due| {
                now.since(due).0 >= READING || !self.soon(rest, |l| l.result == PERIOD_TIMER)
            });
            let wake = self.wakes().into_iter().map(|(n, [_, end])| (end, n)).min();
            let wake = wake.filter(|&(end, _)| end < now && now.since(end).0 >= READING);
            match (period, wake) {
                (Some(due), wake) if wake.is_none_or(|(end, _)| due < end) => {
                    let at = due.max(self.now.1);
                    self.ctl.timer(at, &mut self.env.cx());
                    self.release(at);
                }
                (_, Some((end, n))) => self.wake(end.max(self.now.1), n),
                (_, None) => return,
            }
        }
    }

    /// A line of the present moment is like that.
    fn soon(&self, rest: &[(usize, Line<'_>)], like: impl Fn(&Line<'_>) -> bool) -> bool {
        moment(rest).any(like)
    }

    fn wakes(&self) -> Vec<(GroupId, [Instant; 2])> {
        match &self.ctl {
            Ctl::Cost(cost) => cost.wakes(),
            _ => Vec::new(),
        }
    }

    fn wake(&mut self, at: Instant, n: GroupId) {
        if let Ctl::Cost(cost) = &mut self.ctl {
            cost.wake(at, n, &mut self.env.cx());
        }
        self.release(at);
    }

    /// The recording tells of a timer of io.cost's.
    pub(super) fn timer_told(&mut self, line: &Line<'_>, rest: &[(usize, Line<'_>)]) {
        let now = self.now.1;
        if line.result == PERIOD_TIMER {
            if self.ctl.next_timer().is_some_and(|due| due <= now) {
                self.ctl.timer(now, &mut self.env.cx());
            }
            return;
        }
        let passing: Vec<GroupId> = moment(rest)
            .filter(|l| l.event == "pass")
            .filter_map(|l| self.bios.get(&l.request().ok()??))
            .filter(|bio| bio.came.0 + READING <= self.now.0)
            .map(|bio| self.env.requests.bio(bio.id).group)
            .collect();
        let due = self.wakes().into_iter().filter(|(_, [from, _])| from.since(now).0 < READING);
        let first = due.min_by_key(|(n, [_, end])| (!passing.contains(n), *end));
        if let Some((n, _)) = first {
            self.wake(now, n);
        }
    }
}

/// What later lines tell of earlier ones.
impl Replay {
    /// Only bios of io.latency go on by themselves, and only its groups go while their bios are under way.
    pub(super) fn look_ahead(&mut self, lines: &[(usize, Line<'_>)]) -> Result<(), Mistake> {
        let latency = matches!(self.ctl, Ctl::Latency(_));
        let through_cache = through_cache(lines)?;
        let mut parts = BTreeMap::new();
        for (at, line) in lines {
            let mut note = || {
                match line.event {
                    "enter" if latency => self.note_making(line, &mut parts)?,
                    "pass" if latency => self.passes.extend(line.request()?.map(|n| (n, *at))),
                    _ => {}
                }
                match line.event {
                    "enter" => self.note_page(*at, line, &through_cache),
                    _ => Ok(()),
                }
            };
            note().map_err(|what| Mistake::Line { line: *at, what })?;
        }
        Ok(())
    }

    /// A bio that is split keeps its group, and what is left of it comes once there is a request for the part before;
    /// then it is stamped anew (Linux 6.1). Parts are not to be merged. `parts`: by process, where the part ends that
    /// came last, and when its bio was made.
    fn note_making<'a>(
        &mut self,
        line: &Line<'a>,
        parts: &mut BTreeMap<&'a str, (Sectors, u64)>,
    ) -> Result<(), String> {
        let Some(n) = line.request()? else { return Ok(()) };
        let (start, sectors) = line.extent()?;
        let before = parts.remove(line.ctx).filter(|&(end, _)| end == start);
        let stamp = line.figure("issue")?.unwrap_or(0);
        let made = before.map_or(stamp, |(_, made)| made);
        self.made.insert(n, made);
        if line.op.contains(NOT_MERGED) {
            parts.insert(line.ctx, (start + sectors, made));
        }
        Ok(())
    }

    /// The page cache writes for the group to which the disk's inode is attached.
    fn note_page(
        &mut self,
        at: usize,
        line: &Line<'_>,
        through_cache: &BTreeSet<&str>,
    ) -> Result<(), String> {
        let data = line.kind()?.op == Op::Write && line.extent()?.1 > Sectors(0);
        let changes = self.inode_of.last().is_none_or(|(_, group)| group != line.group);
        if data && changes && through_cache.contains(line.ctx) {
            self.inode_of.push((at, line.group.to_string()));
        }
        Ok(())
    }

    /// Does the inode belong to one of these groups at that line, and then to none of others?
    pub(super) fn inode_stays(&self, at: usize, of: impl Fn(&str) -> bool) -> bool {
        let later = self.inode_of.partition_point(|&(from, _)| from < at);
        let owner = later.checked_sub(1).unwrap_or(later);
        self.inode_of
            .get(owner..)
            .is_some_and(|rest| !rest.is_empty() && rest.iter().all(|(_, group)| of(group)))
    }
}

/// io.latency's bios that were given a slot and wait for their tasks to run.
impl Replay {
    /// Tasks that were woken run before time goes on, in the order of the processor's scheduler: one whose bio passes
    /// behind one that comes at the same moment ran behind its task.
    pub(super) fn climb_told(&mut self, line: &Line<'_>) -> Result<(), String> {
        let climbers = match &self.ctl {
            Ctl::Latency(latency) => latency.climbers(),
            _ => return Ok(()),
        };
        if climbers.is_empty() {
            return Ok(());
        }
        let now = number(line.ns)? < self.now.0 + READING;
        let before = match (line.event, line.request()?) {
            ("enter" | "pass", Some(n)) if now => self.passes.get(&n).copied(),
            ("track" | "join" | "done", _) if now => Some(0),
            _ => None,
        };
        let mut all: Vec<(usize, BioId)> =
            climbers.into_iter().map(|id| (self.passes_at(id), id)).collect();
        all.sort_by_key(|&(at, _)| at);
        for (at, id) in all {
            if before.is_none_or(|before| at <= before) {
                self.climb_on(id);
            }
        }
        Ok(())
    }

    /// One that does not pass comes last.
    fn passes_at(&self, id: BioId) -> usize {
        let n = self.numbers.get(&id.0.slot);
        n.and_then(|n| self.passes.get(n)).copied().unwrap_or(usize::MAX)
    }

    fn climb_on(&mut self, id: BioId) {
        let now = self.now.1;
        if let Ctl::Latency(latency) = &mut self.ctl {
            latency.climb_on(now, id, &mut self.env.cx());
        }
        self.release(now);
    }
}

/// Begins the operation of a write that nobody waits for.
const ASYNC: char = 'A';

/// In the operation of a bio that is not to be merged.
const NOT_MERGED: char = 'N';

/// Processes that write through the page cache: a line says so, or they flush, or nobody waits for some of their writes.
fn through_cache<'a>(lines: &[(usize, Line<'a>)]) -> Result<BTreeSet<&'a str>, Mistake> {
    let mut all = BTreeSet::new();
    for (at, line) in lines {
        let flushes = || line.extent().map(|(_, sectors)| sectors == Sectors(0));
        let tells = match line.event {
            "buffered" => true,
            "enter" if line.op.starts_with(ASYNC) => true,
            "enter" => flushes().map_err(|what| Mistake::Line { line: *at, what })?,
            _ => false,
        };
        if tells {
            all.insert(line.ctx);
        }
    }
    Ok(all)
}

/// The function of the timer that ends io.cost's periods.
const PERIOD_TIMER: &str = "ioc_timer_fn";

/// The lines of the present moment; the first is the present one.
fn moment<'a, 'b>(rest: &'b [(usize, Line<'a>)]) -> impl Iterator<Item = &'b Line<'a>> {
    let at = |line: &Line<'_>| number(line.ns).ok();
    let now = rest.first().and_then(|(_, line)| at(line)).unwrap_or(0);
    rest.iter()
        .map(|(_, line)| line)
        .take_while(move |l| at(l).is_some_and(|at| at < now + READING))
}
