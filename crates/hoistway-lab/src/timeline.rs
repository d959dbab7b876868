//! The timeline of a run in Chrome's JSON for traces, which [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` show.
//!
//! A request is a slice twice: in the track of its process while it waits in the scheduler, and in the track of its hardware
//! queue while the drive has it. The second has the scheduler's reason as an argument, where it told one. A process or
//! hardware queue with several requests at a time has several tracks, so that no two slices of a track overlap. Slots of
//! service are slices of a third kind, and other decisions are instants with their figures.
//!
//! Times are those of the run, from its beginning; the marks `measuring begins` and `measuring ends` are the window.

use hoistway::request::Op;
use hoistway::sched::Entry;
use hoistway::stage::{Decision, Role};
use hoistway::trace::{Event, Record, Why};
use hoistway::{Instant, ProcId, Sectors};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// What a timeline is about.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// The command that makes the run again.
    pub command: &'a str,
    /// Names of the processes by their ids.
    pub names: BTreeMap<u32, String>,
    /// The scheduler, which says what its decisions are.
    pub scheduler: &'static Entry,
    /// The measured window.
    pub window: (Instant, Instant),
}

/// The groups of tracks, as viewers number processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TrackGroup {
    Waiting = 1,
    Drive = 2,
    Decisions = 3,
}

/// A request that waits or is served.
#[derive(Clone, Copy, Debug)]
struct Open {
    since: Instant,
    /// Its track.
    track: u32,
    lane: usize,
    /// Whose the track is: a process, or a hardware queue.
    owner: u32,
    proc: ProcId,
    start: Sectors,
    sectors: Sectors,
    op: Option<Op>,
    reason: Option<&'static str>,
}

/// Writes the timeline of a trace that was kept from the beginning of the run.
///
/// # Errors
///
/// What `out` says.
pub fn write(records: &[Record], about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer {
        about,
        out,
        tracks: 0,
        lanes: BTreeMap::new(),
        waiting: BTreeMap::new(),
        flying: BTreeMap::new(),
        slots: BTreeMap::new(),
        reason: None,
        now: Instant::ZERO,
    };
    writer.head()?;
    for record in records {
        writer.now = record.at;
        writer.event(&record.event)?;
    }
    writer.end()
}

struct Writer<'a> {
    about: &'a About<'a>,
    out: &'a mut dyn Write,
    /// Tracks made so far.
    tracks: u32,
    /// The tracks of a process or hardware queue, and whether each is taken.
    lanes: BTreeMap<(TrackGroup, u32), Vec<(u32, bool)>>,
    waiting: BTreeMap<u32, Open>,
    flying: BTreeMap<u32, Open>,
    /// When the queue was set in service.
    slots: BTreeMap<u32, Instant>,
    /// The last reason about no queue, which belongs to the next request that is issued at once.
    reason: Option<(Instant, &'static str)>,
    now: Instant,
}

/// The track of slots and decisions.
const DECISIONS: u32 = 0;

impl Writer<'_> {
    fn head(&mut self) -> io::Result<()> {
        let (version, command) = (env!("CARGO_PKG_VERSION"), quoted(self.about.command));
        write!(
            self.out,
            "{{\"otherData\":{{\"generator\":\"Made by hoistway {version}\",\"command\":{command}}},\
             \"displayTimeUnit\":\"ns\",\"traceEvents\":["
        )?;
        let groups = [
            (TrackGroup::Waiting, "requests in the scheduler"),
            (TrackGroup::Drive, "requests at the drive"),
            (TrackGroup::Decisions, self.about.scheduler.name),
        ];
        for (at, (group, name)) in groups.into_iter().enumerate() {
            let pid = group as u32;
            // No comma stands before the first event.
            let comma = if at == 0 { "" } else { "," };
            write!(
                self.out,
                "{comma}\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":{}}}}}",
                quoted(name)
            )?;
        }
        self.name_track(TrackGroup::Decisions, DECISIONS, "service and decisions")?;
        let (begin, end) = self.about.window;
        for (at, name) in [(begin, "measuring begins"), (end, "measuring ends")] {
            let at = us(at);
            write!(
                self.out,
                ",\n{{\"ph\":\"i\",\"s\":\"g\",\"name\":\"{name}\",\"ts\":{at},\"pid\":3,\"tid\":{DECISIONS}}}"
            )?;
        }
        Ok(())
    }

    fn name_track(&mut self, group: TrackGroup, track: u32, name: &str) -> io::Result<()> {
        let (pid, name) = (group as u32, quoted(name));
        write!(
            self.out,
            ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{track},\"args\":{{\"name\":{name}}}}},\
             \n{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{pid},\"tid\":{track},\"args\":{{\"sort_index\":{track}}}}}"
        )
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match *event {
            Event::Inserted { req, proc, start, sectors } => {
                let open = self.open(TrackGroup::Waiting, proc.0, (proc, start, sectors))?;
                self.waiting.insert(req, open);
            }
            Event::Joined { kept, gone } => {
                if let Some(open) = self.waiting.remove(&gone) {
                    self.close(
                        TrackGroup::Waiting,
                        gone,
                        open,
                        &format!(",\"merged into\":{kept}"),
                    )?;
                }
            }
            Event::Issued { req, queue, proc, op, start, sectors } => {
                let reason = self.reason.take().filter(|&(at, _)| at == self.now);
                if let Some(open) = self.waiting.remove(&req) {
                    let open = Open { op: Some(op), start, sectors, ..open };
                    self.close(TrackGroup::Waiting, req, open, "")?;
                }
                let open = self.open(TrackGroup::Drive, queue.0.into(), (proc, start, sectors))?;
                let reason = reason.map(|(_, what)| what);
                self.flying.insert(req, Open { op: Some(op), reason, ..open });
            }
            Event::Requeued { req } => {
                if let Some(open) = self.flying.remove(&req) {
                    self.close(TrackGroup::Drive, req, open, ",\"given back\":true")?;
                    let what = (open.proc, open.start, open.sectors);
                    let again = self.open(TrackGroup::Waiting, open.proc.0, what)?;
                    self.waiting.insert(req, again);
                }
            }
            Event::Done { req } => {
                if let Some(open) = self.flying.remove(&req) {
                    self.close(TrackGroup::Drive, req, open, "")?;
                }
            }
            Event::Why(why) => self.why(&why)?,
            _ => {}
        }
        Ok(())
    }

    /// A slice begins in the first free track of its owner.
    fn open(
        &mut self,
        group: TrackGroup,
        owner: u32,
        (proc, start, sectors): (ProcId, Sectors, Sectors),
    ) -> io::Result<Open> {
        let lanes = self.lanes.entry((group, owner)).or_default();
        let free = lanes.iter().position(|&(_, taken)| !taken);
        let lane = free.unwrap_or(lanes.len());
        if free.is_none() {
            self.tracks += 1;
            lanes.push((self.tracks, false));
        }
        lanes[lane].1 = true;
        let track = lanes[lane].0;
        if free.is_none() {
            let name = match group {
                TrackGroup::Waiting => self.name(owner),
                _ => format!("hardware queue {owner}"),
            };
            let name = if lane == 0 { name } else { format!("{name} ({})", lane + 1) };
            self.name_track(group, track, &name)?;
        }
        let (since, op, reason) = (self.now, None, None);
        Ok(Open { since, track, lane, owner, proc, start, sectors, op, reason })
    }

    /// It ends, with more arguments.
    fn close(&mut self, group: TrackGroup, req: u32, open: Open, more: &str) -> io::Result<()> {
        if let Some(lanes) = self.lanes.get_mut(&(group, open.owner)) {
            lanes[open.lane].1 = false;
        }
        let op = match open.op {
            Some(Op::Read) => "read ",
            Some(Op::Write) => "write ",
            Some(Op::Flush) => "flush ",
            Some(Op::Discard) => "discard ",
            Some(Op::WriteZeroes) => "write zeroes ",
            None => "",
        };
        let size = open.sectors.0 * 512;
        let size = match size % 1024 {
            0 => format!("{} KiB", size / 1024),
            _ => format!("{size} B"),
        };
        let mut args = format!("\"request\":{req},\"sector\":{}", open.start.0);
        if group == TrackGroup::Drive {
            let _ = write!(args, ",\"process\":{}", quoted(&self.name(open.proc.0)));
        }
        if let Some(reason) = open.reason {
            let _ = write!(args, ",\"reason\":{}", quoted(reason));
        }
        let (pid, at, took) = (group as u32, us(open.since), ns(self.now - open.since));
        let track = open.track;
        write!(
            self.out,
            ",\n{{\"ph\":\"X\",\"name\":\"{op}{size}\",\"ts\":{at},\"dur\":{took},\"pid\":{pid},\"tid\":{track},\
             \"args\":{{{args}{more}}}}}"
        )
    }

    fn why(&mut self, why: &Why) -> io::Result<()> {
        let decision: Decision = self.about.scheduler.decision(why.what);
        match decision.role {
            Role::Reason => self.reason = Some((self.now, why.what)),
            Role::InService => drop(self.slots.insert(why.of, self.now)),
            Role::ServiceEnds => {
                if let Some(since) = self.slots.remove(&why.of) {
                    let (at, took) = (us(since), ns(self.now - since));
                    let (what, a) = (quoted(why.what), why.a);
                    let unit = decision.units[0];
                    let unit = if unit.is_empty() { "sectors" } else { unit };
                    return write!(
                        self.out,
                        ",\n{{\"ph\":\"X\",\"name\":\"queue {}\",\"ts\":{at},\"dur\":{took},\"pid\":3,\"tid\":{DECISIONS},\
                         \"args\":{{\"ended by\":{what},\"served, {unit}\":{a}}}}}",
                        why.of
                    );
                }
            }
            _ => {}
        }
        let (at, name) = (us(self.now), quoted(why.what));
        write!(
            self.out,
            ",\n{{\"ph\":\"i\",\"s\":\"t\",\"name\":{name},\"ts\":{at},\"pid\":3,\"tid\":{DECISIONS},\
             \"args\":{{\"of\":{},\"first figure\":{},\"second figure\":{}}}}}",
            why.of, why.a, why.b
        )
    }

    /// What is open at the end of the trace ends with it.
    fn end(&mut self) -> io::Result<()> {
        for (group, open) in [
            (TrackGroup::Waiting, std::mem::take(&mut self.waiting)),
            (TrackGroup::Drive, std::mem::take(&mut self.flying)),
        ] {
            for (req, open) in open {
                self.close(group, req, open, ",\"not finished\":true")?;
            }
        }
        writeln!(self.out, "\n]}}")
    }

    fn name(&self, proc: u32) -> String {
        self.about.names.get(&proc).cloned().unwrap_or_else(|| format!("process {proc}"))
    }
}

/// Microseconds with the nanoseconds behind the point.
fn us(at: Instant) -> String {
    format!("{}.{:03}", at.as_nanos() / 1_000, at.as_nanos() % 1_000)
}

fn ns(time: hoistway::Nanos) -> String {
    format!("{}.{:03}", time.0 / 1_000, time.0 % 1_000)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
