//! A scheduler from outside the registry that works for a while, and then breaks off.

use hoistway::sched::{At, Dispatch, Entry, Run, Scheduler, Search, Service};
use hoistway::setting::TunableError;
use hoistway::stage::{Stage, StageInfo};
use hoistway::{Cx, Instant, Profile, QueueId, ReqId};
use std::collections::VecDeque;

/// The entry.
pub(crate) static BREAKS: Entry = Entry {
    stage: StageInfo {
        name: "breaks",
        summary: "for tests",
        source: "none",
        tunables: &[],
        group_tunables: &[],
        knobs: &[],
        figures: &[],
        decisions: &[],
    },
    profile: Profile::MultiQueue,
    service: Service::Requests,
    search: Search::Own,
    sorted: false,
    replaces_wbt: false,
    direct: false,
    tag_percent_min: None,
    tags_min: 0,
    build: &|_| Box::new(Breaks { waiting: VecDeque::new(), left: 100 }),
};

/// First in, first out.
#[derive(Debug)]
struct Breaks {
    waiting: VecDeque<ReqId>,
    /// Decisions until it breaks off.
    left: u32,
}

impl Scheduler for Breaks {
    fn insert(&mut self, _now: Instant, id: ReqId, at: At, _cx: &mut Cx<'_>) -> Run {
        match at {
            At::Head => self.waiting.push_front(id),
            At::Tail => self.waiting.push_back(id),
        }
        Run::Usual
    }

    fn dispatch(&mut self, _now: Instant, _queue: QueueId, _cx: &mut Cx<'_>) -> Dispatch {
        self.left = self.left.checked_sub(1).expect("a scheduler of somebody else breaks off");
        self.waiting.pop_front().map_or(Dispatch::Empty, Dispatch::Issue)
    }
}

impl Stage for Breaks {
    fn info(&self) -> &'static StageInfo {
        &BREAKS.stage
    }

    fn set(
        &mut self,
        _now: Instant,
        name: &str,
        _value: u64,
        _cx: &mut Cx<'_>,
    ) -> Result<(), TunableError> {
        Err(TunableError::Unknown { name: name.into(), stage: BREAKS.name })
    }

    fn value(&self, _name: &str) -> Option<u64> {
        None
    }
}
