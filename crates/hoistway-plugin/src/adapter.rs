//! A guest behind the trait of schedulers: numbers in place of requests, and every answer checked.

use crate::guest::{Guest, Request};
use hoistway::sched::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service, Setup};
use hoistway::setting::{self, Tunable, TunableError};
use hoistway::stage::{Stage, StageInfo};
use hoistway::{Cx, Instant, Profile, QueueId, ReqId, Sectors};
use hoistway_run::end_run;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a registry entry says of a guest.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name in configurations.
    pub name: String,
    /// One line.
    pub summary: String,
    /// Where it is from; for what may change under its name, with a digest.
    pub source: String,
    /// What messages call it.
    pub who: String,
    /// Its settings; their places are the rows of [`Guest::set`].
    pub tunables: Vec<Tunable>,
}

/// An entry whose instances are guests. It lives as long as the process: jobs refer to it.
pub fn entry<G: Guest + 'static>(
    of: Description,
    make: impl Fn() -> G + Send + Sync + 'static,
) -> &'static Entry {
    let stage: &'static StageInfo = Box::leak(Box::new(StageInfo {
        name: of.name.leak(),
        summary: of.summary.leak(),
        source: of.source.leak(),
        tunables: of.tunables.leak(),
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    }));
    let who: Arc<str> = of.who.into();
    let build = move |setup: &Setup<'_>| -> Box<dyn Scheduler> {
        Box::new(Adapter::new(stage, who.clone(), make(), setup.requests))
    };
    Box::leak(Box::new(Entry {
        stage: *stage,
        profile: Profile::MultiQueue,
        service: Service::Requests,
        search: Search::Elevator,
        sorted: false,
        direct: false,
        tag_percent_min: Some(100),
        tags_min: 0,
        replaces_wbt: false,
        build: Box::leak(Box::new(build)),
    }))
}

/// A guest for one device in one run.
#[derive(Debug)]
struct Adapter<G> {
    stage: &'static StageInfo,
    who: Arc<str>,
    guest: G,
    /// What is set, in the order of the rows.
    values: Vec<u64>,
    /// Requests that wait, by their numbers.
    waiting: BTreeMap<u64, ReqId>,
    /// The request in each slot, with its number.
    slots: Vec<Option<(ReqId, u64)>>,
    /// Numbers given.
    given: u64,
}

impl<G: Guest> Adapter<G> {
    fn new(stage: &'static StageInfo, who: Arc<str>, mut guest: G, requests: usize) -> Adapter<G> {
        let values: Vec<u64> = stage.tunables.iter().map(|t| t.default).collect();
        (0..).zip(&values).for_each(|(row, value)| guest.set(row, *value));
        let (waiting, slots) = (BTreeMap::new(), vec![None; requests]);
        Adapter { stage, who, guest, values, waiting, slots, given: 0 }
    }

    /// The number of a request that was inserted here.
    fn number(&self, id: ReqId) -> Option<u64> {
        self.slots[id.index()].and_then(|(of, number)| (of == id).then_some(number))
    }

    /// A request no longer waits; its number, if it did.
    fn take(&mut self, id: ReqId) -> Option<u64> {
        let number = self.number(id)?;
        self.waiting.remove(&number).map(|_| number)
    }
}

/// A request with that first sector and length, as a guest is told of it.
fn told(number: u64, id: ReqId, (from, length): (Sectors, Sectors), cx: &Cx<'_>) -> Request {
    let r = &cx.requests[id];
    Request {
        number,
        process: r.proc.0,
        op: r.op as u32,
        flags: if r.sync { Request::SYNC } else { 0 },
        prio: r.prio.word().into(),
        sector: from.0,
        sectors: u32::try_from(length.0).unwrap_or(u32::MAX),
    }
}

impl<G: Guest> Scheduler for Adapter<G> {
    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        // One that the device gave back keeps its number.
        let number = self.number(id).unwrap_or(self.given + 1);
        self.given = self.given.max(number);
        self.slots[id.index()] = Some((id, number));
        self.waiting.insert(number, id);
        let r = &cx.requests[id];
        let mut request = told(number, id, (r.start, r.sectors), cx);
        if at == At::Head {
            request.flags |= Request::RETURNED;
        }
        self.guest.insert(now.as_nanos(), &request);
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        if self.waiting.is_empty() {
            return Dispatch::Empty;
        }
        let answer = self.guest.dispatch(now.as_nanos());
        if answer == 0 {
            return Dispatch::Idle;
        }
        match self.waiting.remove(&answer) {
            Some(id) => Dispatch::Issue(id),
            None => end_run(format!(
                "{}: dispatch: answered {}, and no such request waits",
                self.who, answer as i64
            )),
        }
    }

    fn drain(&mut self, now: Instant, cx: &mut Cx<'_>) -> Option<ReqId> {
        if let Dispatch::Issue(id) = self.dispatch(now, QueueId(0), cx) {
            return Some(id);
        }
        // What it holds back goes, the oldest first.
        let (&number, &id) = self.waiting.first_key_value()?;
        self.waiting.remove(&number);
        self.guest.gone(now.as_nanos(), number);
        Some(id)
    }

    fn complete(&mut self, now: Instant, id: ReqId, _cx: &mut Cx<'_>) {
        let Some(number) = self.number(id) else { return };
        self.slots[id.index()] = None;
        self.guest.done(now.as_nanos(), number);
    }

    fn merged(&mut self, now: Instant, kept: ReqId, what: Merged, cx: &mut Cx<'_>) {
        let now = now.as_nanos();
        let r = &cx.requests[kept];
        let mut span = (r.start, r.sectors);
        if let Merged::Request(gone) = what {
            let other = &cx.requests[gone];
            span = (span.0.min(other.start), span.1 + other.sectors);
            if let Some(number) = self.take(gone) {
                self.slots[gone.index()] = None;
                self.guest.gone(now, number);
            }
        }
        if let Some(number) = self.number(kept).filter(|number| self.waiting.contains_key(number)) {
            self.guest.grown(now, &told(number, kept, span, cx));
        }
    }
}

impl<G: Guest> Stage for Adapter<G> {
    fn info(&self) -> &'static StageInfo {
        self.stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        setting::check(self.stage.tunables, self.stage.name, name, value)?;
        let row = self.stage.tunables.iter().position(|t| t.name == name);
        let row = row.expect("it was found");
        self.values[row] = value;
        self.guest.set(row as u32, value);
        Ok(())
    }

    fn value(&self, name: &str) -> Option<u64> {
        let row = self.stage.tunables.iter().position(|t| t.name == name);
        row.map(|row| self.values[row])
    }
}
