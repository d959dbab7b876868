//! A backend below another one: takes any number of commands and hands on as many as it bears.

use crate::storage::{Backend, Command, Done};
use crate::system::Part;
use crate::system::Slab;
use hoistway::{Instant, Op};
use rustix::io::Errno;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Lower {
    // First: nothing is under way any more when the rest is dropped.
    pub backend: Box<dyn Backend>,
    /// Commands it takes at once.
    depth: usize,
    /// Who a command under way is for, by the number in its tag.
    under_way: Slab<Owner>,
    waiting: VecDeque<(Command, Vec<Part>, Owner)>,
    done: Vec<Done>,
}

/// Who a command below is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A command from above, by its slot.
    Work(u32),
    /// The run that makes things durable.
    Sync,
}

impl Lower {
    pub fn new(backend: Box<dyn Backend>, depth: u32) -> Lower {
        Lower {
            backend,
            depth: depth as usize,
            under_way: Slab::with_capacity(0),
            waiting: VecDeque::new(),
            done: Vec::new(),
        }
    }

    pub fn submit(
        &mut self,
        now: Instant,
        owner: Owner,
        (op, start, len): (Op, u64, u64),
        parts: Vec<Part>,
    ) {
        let command = Command { tag: 0, op, start, len, fua: false };
        self.waiting.push_back((command, parts, owner));
        self.start(now);
    }

    fn start(&mut self, now: Instant) {
        while self.under_way.len() < self.depth
            && let Some((mut command, parts, owner)) = self.waiting.pop_front()
        {
            command.tag = self.under_way.insert(owner).into();
            self.backend.issue(now, command, &parts);
        }
    }

    /// Adds what is done, and starts what waited for that.
    pub fn poll(&mut self, now: Instant, results: &mut Vec<(Owner, Result<(), Errno>)>) {
        let mut done = std::mem::take(&mut self.done);
        self.backend.poll(now, &mut done);
        for Done { tag, result } in done.drain(..) {
            let owner = self.under_way.remove(tag as u32);
            results.push((owner.expect("a backend answers each command once"), result));
        }
        self.done = done;
        self.start(now);
    }
}
