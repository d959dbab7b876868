//! A scheduler that lives outside Hoistway's tree: a queue per process, served in turn for a `quantum` of
//! requests each.
//!
//! Nothing of Hoistway knows it. A job of the simulator and a served device take its [`ENTRY`], and since that
//! declares what its decisions are, `hoistway_lab::explain` tells them.

use hoistway::sched::{At, Dispatch, Entry, Merged, QueueUse, Run, Scheduler, Search, Service};
use hoistway::setting::{Setting, Settings, Tunable, TunableError, Unit, listed};
use hoistway::stage::{Decision, Role, Stage, StageInfo};
use hoistway::{Cx, Instant, ProcId, Profile, QueueId, ReqId};
use std::collections::VecDeque;

/// The registry entry.
pub static ENTRY: Entry = Entry {
    stage: StageInfo {
        name: "round-robin",
        summary: "a queue per process, some requests of each in turn",
        source: "this file",
        tunables: &TUNABLES,
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[
            Decision::new("queue of process", Role::QueueOfProcess),
            Decision::new("turn ends", Role::ServiceEnds).counting("request", ""),
        ],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Elevator,
    sorted: false,
    direct: false,
    tag_percent_min: Some(100),
    tags_min: 0,
    replaces_wbt: false,
    build: &|_| Box::new(RoundRobin::new()),
};

/// What is set.
#[derive(Debug, Default)]
struct Conf {
    quantum: u64,
}

const ROWS: &[Setting<Conf>] = &[Tunable::new(
    "quantum",
    Unit::Requests,
    4,
    (1, 1_000),
    "Requests of a process before the next one has its turn.",
)
.field(|c| c.quantum, |c, v| c.quantum = v)];
static SETTINGS: Settings<Conf> = Settings::new("round-robin", ROWS);
static TUNABLES: [Tunable; ROWS.len()] = listed(ROWS);

#[derive(Debug)]
struct Queue {
    proc: ProcId,
    waiting: VecDeque<ReqId>,
}

#[derive(Debug)]
struct RoundRobin {
    conf: Conf,
    queues: Vec<Queue>,
    /// Whose turn it is, and how many requests it has had.
    turn: usize,
    served: u64,
    /// Requests the device gave back go first.
    returned: VecDeque<ReqId>,
}

impl RoundRobin {
    fn new() -> RoundRobin {
        let (queues, returned) = (Vec::new(), VecDeque::new());
        RoundRobin { conf: SETTINGS.defaults(), queues, turn: 0, served: 0, returned }
    }

    fn queue_of(&mut self, now: Instant, proc: ProcId, cx: &mut Cx<'_>) -> &mut Queue {
        let known = self.queues.iter().position(|q| q.proc == proc);
        let at = known.unwrap_or_else(|| {
            let number = self.queues.len();
            self.queues.push(Queue { proc, waiting: VecDeque::new() });
            cx.trace.why(now, "queue of process", number as u32, proc.0.into(), 1);
            number
        });
        &mut self.queues[at]
    }

    fn end_turn(&mut self, now: Instant, what: &'static str, cx: &mut Cx<'_>) {
        if self.served > 0 {
            cx.trace.why(now, what, self.turn as u32, self.served as i64, 0);
        }
        self.served = 0;
        self.turn = (self.turn + 1) % self.queues.len();
    }
}

impl Scheduler for RoundRobin {
    fn insert(&mut self, now: Instant, id: ReqId, at: At, cx: &mut Cx<'_>) -> Run {
        match at {
            At::Head => self.returned.push_front(id),
            At::Tail => {
                let proc = cx.requests[id].proc;
                self.queue_of(now, proc, cx).waiting.push_back(id);
            }
        }
        Run::Usual
    }

    fn dispatch(&mut self, now: Instant, _queue: QueueId, cx: &mut Cx<'_>) -> Dispatch {
        if let Some(id) = self.returned.pop_front() {
            return Dispatch::Issue(id);
        }
        if self.queues.iter().all(|q| q.waiting.is_empty()) {
            return Dispatch::Empty;
        }
        if self.served >= self.conf.quantum {
            self.end_turn(now, "turn ends: it had its quantum", cx);
        }
        loop {
            if let Some(id) = self.queues[self.turn].waiting.pop_front() {
                self.served += 1;
                return Dispatch::Issue(id);
            }
            self.end_turn(now, "turn ends: nothing waits", cx);
        }
    }

    fn merged(&mut self, _now: Instant, _kept: ReqId, what: Merged, _cx: &mut Cx<'_>) {
        if let Merged::Request(gone) = what {
            self.queues.iter_mut().for_each(|q| q.waiting.retain(|&id| id != gone));
        }
    }

    fn queues(&self, sink: &mut dyn FnMut(QueueUse)) {
        for (at, queue) in self.queues.iter().enumerate() {
            let (proc, in_service) = (queue.proc, self.served > 0 && at == self.turn);
            sink(QueueUse { proc, sync: true, queue: at as u32, in_service });
        }
    }
}

impl Stage for RoundRobin {
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
        SETTINGS.set(&mut self.conf, name, value).map(drop)
    }

    fn value(&self, name: &str) -> Option<u64> {
        SETTINGS.value(&self.conf, name)
    }
}
