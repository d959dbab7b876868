//! Numbers of queues, entities, nodes and requests.

use crate::group::ProcId;
use crate::request::ReqId;
pub(super) use crate::rows::{Id, Rows};

crate::rows::ids! {
    /// A queue. Its entity has the same number.
    QueueNo;
    /// An entity of the fair queue: a queue, or a group as its parent sees it.
    EntityNo;
    /// The scheduler of a group; that of the root is 0.
    NodeNo;
    /// A request, by its slot in the request table.
    RqNo;
}

impl Id for ProcId {
    const NONE: ProcId = ProcId::NONE;

    fn new(number: u32) -> ProcId {
        ProcId(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

impl From<QueueNo> for EntityNo {
    #[inline]
    fn from(q: QueueNo) -> EntityNo {
        EntityNo(q.0)
    }
}

impl EntityNo {
    /// The queue whose entity it is; the caller knows that it is none of a group.
    #[inline]
    pub fn queue(self) -> QueueNo {
        QueueNo(self.0)
    }
}

impl From<ReqId> for RqNo {
    #[inline]
    fn from(id: ReqId) -> RqNo {
        RqNo(id.slot())
    }
}

/// As a decision of the trace names it.
impl From<QueueNo> for i64 {
    fn from(q: QueueNo) -> i64 {
        q.0.into()
    }
}
