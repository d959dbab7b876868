//! Requests for extents, once the scheduler has issued them.
//!
//! Where the answer is in memory it is there at once. A file system may have to read the storage for it, and
//! no owner thread waits for that: a thread of its own asks, one request after another, and the owner
//! thread serves everybody else meanwhile. It is started with the first such request.

use crate::storage::{DeferredLookup, Extent};
use crate::system::EventFd;
use hoistway::IoId;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A request that was answered.
#[derive(Debug)]
pub(super) struct Answered {
    /// Of its command.
    pub tag: u64,
    pub io: IoId,
    pub result: Result<Vec<Extent>, Errno>,
}

/// The requests of a device.
#[derive(Debug)]
pub(super) struct Lookups {
    shared: Arc<SharedAnswers>,
    worker: Option<LookupWorker>,
    /// Answers that were known at once.
    known: Vec<Answered>,
    /// Requests the thread has not answered, or whose answers were not taken.
    deferred: usize,
}

#[derive(Debug)]
struct SharedAnswers {
    /// Signalled when there are answers.
    wakeup: EventFd,
    answered: Mutex<Vec<Answered>>,
}

#[derive(Debug)]
struct LookupWorker {
    jobs: Sender<LookupJob>,
    thread: JoinHandle<()>,
}

struct LookupJob {
    tag: u64,
    io: IoId,
    lookup: DeferredLookup,
}

impl Lookups {
    pub fn new() -> io::Result<Lookups> {
        let shared =
            Arc::new(SharedAnswers { wakeup: EventFd::new()?, answered: Mutex::default() });
        Ok(Lookups { shared, worker: None, known: Vec::new(), deferred: 0 })
    }

    /// The answer is there.
    pub fn known(&mut self, tag: u64, io: IoId, result: Result<Vec<Extent>, Errno>) {
        self.known.push(Answered { tag, io, result });
    }

    /// The answer may take its time. The stack's tags bound how many of them there are.
    pub fn defer(&mut self, tag: u64, io: IoId, lookup: DeferredLookup) {
        if self.worker.is_none() {
            self.worker = LookupWorker::start(Arc::clone(&self.shared)).ok();
        }
        let job = LookupJob { tag, io, lookup };
        match &self.worker {
            Some(worker) if worker.jobs.send(job).is_ok() => self.deferred += 1,
            // No memory for a thread.
            _ => self.known(tag, io, Err(Errno::NOMEM)),
        }
    }

    /// Adds what was answered since the last time.
    pub fn take(&mut self, answered: &mut Vec<Answered>) {
        answered.append(&mut self.known);
        if self.deferred > 0 {
            self.shared.wakeup.clear();
            let before = answered.len();
            answered.append(&mut self.shared.lock());
            self.deferred -= answered.len() - before;
        }
    }

    /// There is nothing to take, and nothing will be.
    pub fn is_idle(&self) -> bool {
        self.known.is_empty() && self.deferred == 0
    }

    /// There is something to take now.
    pub fn is_ready(&self) -> bool {
        !self.known.is_empty()
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.wakeup.as_fd()
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        // A thread that the storage holds up is left behind, as the storage is.
        if let Some(LookupWorker { jobs, thread }) = self.worker.take()
            && self.deferred == 0
        {
            drop(jobs);
            let _ = thread.join();
        }
    }
}

impl SharedAnswers {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Answered>> {
        self.answered.lock().expect("nobody panics while holding the lock")
    }
}

impl LookupWorker {
    fn start(shared: Arc<SharedAnswers>) -> io::Result<LookupWorker> {
        let (jobs, queue) = channel::<LookupJob>();
        let thread = thread::Builder::new().name("hoistway-extents".into()).spawn(move || {
            for LookupJob { tag, io, lookup } in queue {
                let result = lookup.ask();
                shared.lock().push(Answered { tag, io, result });
                shared.wakeup.signal();
            }
        })?;
        Ok(LookupWorker { jobs, thread })
    }
}
