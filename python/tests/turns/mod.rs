//! The scheduler `Turns` of `test_scheduler.py`, in Rust.

use hoistway::sched::{At, Dispatch, Entry, Merged, Run, Scheduler, Search, Service};
use hoistway::setting::{Setting, Settings, Tunable, TunableError, Unit, listed};
use hoistway::stage::{Stage, StageInfo};
use hoistway::{Cx, Instant, ProcId, Profile, QueueId, ReqId};
use std::collections::VecDeque;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "rust-turns",
        summary: "a queue per process, some requests of each in turn",
        source: "this file",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: Some(100),
    tags_min: 0,
    replaces_wbt: false,
    build: &|_| {
        let quantum = SETTINGS.defaults();
        let (queues, returned) = (Vec::new(), VecDeque::new());
        Box::new(Turns { quantum, queues, turn: 0, served: 0, returned })
    },
};

const ROWS: &[Setting<u64>] =
    &[Tunable::new("quantum", Unit::Count, 4, (1, 1_000), "").field(|q| *q, |q, v| *q = v)];
static SETTINGS: Settings<u64> = Settings::new("rust-turns", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

#[derive(Debug)]
struct Turns {
    quantum: u64,
    queues: Vec<(ProcId, VecDeque<ReqId>)>,
    turn: usize,
    served: u64,
    returned: VecDeque<ReqId>,
}

impl Turns {
    fn next(&mut self) {
        self.served = 0;
        self.turn = (self.turn + 1) % self.queues.len();
    }
}

impl Scheduler for Turns {
    fn insert(&mut self, _now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        if at == At::Head {
            self.returned.push_front(id);
            return Run::Usual;
        }
        let proc = cx.requests[id].proc;
        let known = self.queues.iter().position(|q| q.0 == proc);
        let at = known.unwrap_or_else(|| {
            self.queues.push((proc, VecDeque::new()));
            self.queues.len() - 1
        });
        self.queues[at].1.push_back(id);
        Run::Usual
    }

    fn dispatch(&mut self, _now: Instant, _queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        if let Some(id) = self.returned.pop_front() {
            return Dispatch::Issue(id);
        }
        if self.queues.iter().all(|q| q.1.is_empty()) {
            return Dispatch::Empty;
        }
        if self.served >= self.quantum {
            self.next();
        }
        loop {
            if let Some(id) = self.queues[self.turn].1.pop_front() {
                self.served += 1;
                return Dispatch::Issue(id);
            }
            self.next();
        }
    }

    fn merged(&mut self, _now: Instant, _kept: ReqId, what: Merged, _cx: &mut Cx<'_>) {
        if let Merged::Request(gone) = what {
            self.queues.iter_mut().for_each(|q| q.1.retain(|&id| id != gone));
            self.returned.retain(|&id| id != gone);
        }
    }
}

impl Stage for Turns {
    fn info(&self) -> &'static StageInfo {
        &ENTRY.stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        SETTINGS.set(&mut self.quantum, name, value).map(drop)
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.quantum, name)
    }
}
