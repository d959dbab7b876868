//! Numbers of queues, processes' contexts and requests. Groups have their own, [`crate::group::GroupId`].

use crate::group::ProcId;
use crate::rows::ids;

ids! {
    /// A queue.
    QueueNo;
    /// State of a process.
    CtxNo;
    /// A request, by its slot in the request table.
    RqNo;
}

impl CtxNo {
    /// The context of a process; requests of nobody share the first.
    pub fn of(proc: ProcId) -> CtxNo {
        CtxNo(if proc == ProcId::NONE { 0 } else { proc.0 + 1 })
    }

    /// Process of the context.
    pub fn proc(self) -> ProcId {
        if self.0 == 0 { ProcId::NONE } else { ProcId(self.0 - 1) }
    }
}

/// As a decision of the trace names it.
impl From<QueueNo> for i64 {
    fn from(q: QueueNo) -> i64 {
        q.0.into()
    }
}

impl From<CtxNo> for i64 {
    fn from(ctx: CtxNo) -> i64 {
        ctx.0.into()
    }
}
