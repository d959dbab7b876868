//! Several calls of a scheduler in one.
//!
//! A kernel drives a scheduler through a pointer, for each request anew, and its instructions are counted. Each step here is
//! made of calls of [`Scheduler`] and [`Stage`](crate::stage::Stage) in the order of the stack. Every scheduler has its own
//! copy, so what it leaves at its default costs nothing, and a context is made for who looks at it.

use super::{At, Dispatch, Open, Scheduler};
use crate::env::Env;
use crate::request::ReqId;
use crate::unit::{Instant, QueueId};

/// What a scheduler wants from then on, after any call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// When `timer` must be called, ns; `u64::MAX`: not at all.
    pub timer: u64,
    /// Reads are asked for a limit.
    pub limits_reads: bool,
}

/// What has become of a request that entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The wish.
    pub wish: Wish,
    /// Which merges it is open to.
    pub open: Open,
    /// It has been inserted.
    pub inserted: bool,
}

/// The surroundings of a request that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// Where it is inserted.
    pub at: At,
    /// The kernel's tables of what may be joined are in use ([`super::Search::Elevator`]).
    pub tables: bool,
    /// Nothing waits that it could join.
    pub alone: bool,
}

/// The steps; every [`Scheduler`] has them.
pub trait Steps {
    /// The wish, without any other call.
    fn wish(&self, env: &mut Env) -> Wish;

    /// `prepare`, `open` and, unless it may be merged before that, `insert`.
    fn enter(&mut self, now: Instant, id: ReqId, how: Entrance, env: &mut Env) -> Entered;

    /// `insert`.
    fn take_in(&mut self, now: Instant, id: ReqId, at: At, env: &mut Env) -> Wish;

    /// `dispatch`.
    fn give(&mut self, now: Instant, queue: QueueId, env: &mut Env) -> (Dispatch, Wish);

    /// `complete`; the request is gone. And the largest request from then on, in sectors.
    fn end(&mut self, now: Instant, id: ReqId, env: &mut Env) -> (u32, Wish);

    /// The largest request to build, in sectors.
    fn size(&self, env: &Env) -> u32;
}

/// The kernel's smallest limit, a page.
const SIZE_LEAST: u64 = 8;

impl<S: Scheduler> Steps for S {
    #[inline]
    fn wish(&self, env: &mut Env) -> Wish {
        let timer = self.next_timer().map_or(u64::MAX, Instant::as_nanos);
        Wish { timer, limits_reads: self.limits_reads(&env.cx()) }
    }

    fn enter(&mut self, now: Instant, id: ReqId, how: Entrance, env: &mut Env) -> Entered {
        self.prepare(now, id, &mut env.cx());
        let open = match how.at == At::Tail && how.tables {
            true => self.open(id, &env.cx()),
            false => Open::Closed,
        };
        let inserted = how.alone || open != Open::Full;
        if inserted {
            self.insert(now, id, how.at, &mut env.cx());
        }
        Entered { wish: self.wish(env), open, inserted }
    }

    fn take_in(&mut self, now: Instant, id: ReqId, at: At, env: &mut Env) -> Wish {
        self.insert(now, id, at, &mut env.cx());
        self.wish(env)
    }

    fn give(&mut self, now: Instant, queue: QueueId, env: &mut Env) -> (Dispatch, Wish) {
        let found = self.dispatch(now, queue, &mut env.cx());
        (found, self.wish(env))
    }

    fn end(&mut self, now: Instant, id: ReqId, env: &mut Env) -> (u32, Wish) {
        self.complete(now, id, &mut env.cx());
        env.requests.remove_bare(id);
        (self.size(env), self.wish(env))
    }

    #[inline]
    fn size(&self, env: &Env) -> u32 {
        let limit = env.device.max_sectors;
        self.max_sectors(limit).min(limit).0.max(SIZE_LEAST) as u32
    }
}
