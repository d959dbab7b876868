//! The worker thread that carries on what gate 1 held (specs/io-max-throttling.md A.8.4).
//!
//! The task that submitted such a bio has gone on long ago. All that a controller of gate 1 releases in
//! one instant is a batch: the worker opens a plug section of its own, lets the bios enter the stack one
//! after the other, as a task would submit them, and closes the section. Contiguous bios that follow each
//! other so become one request. Where a task would have to wait (a tag, gate 2, a change of the
//! scheduler) the worker waits, its plug emptied, and what was released later waits behind it.

use super::*;
use crate::trace::Event;

/// Work for the worker.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A bio goes on there.
    Bio(BioId, PathStep),
    /// The end of a batch.
    End,
}

/// The worker.
#[derive(Debug, Default)]
pub(super) struct Worker {
    steps: VecDeque<Step>,
    /// The bio on its way. Set between two turns of the stack: the worker waits with it.
    current: Option<BioId>,
    pub plug: Plug,
}

impl Worker {
    /// A bio has a request, has joined one, or is held again: if it was the worker's, that goes on.
    pub fn done_with(&mut self, bio: BioId) {
        if self.current == Some(bio) {
            self.current = None;
        }
    }

    /// The rest of a split I/O follows its first piece.
    pub fn follow(&mut self, piece: BioId, rest: BioId) {
        if self.current == Some(piece) {
            self.current = Some(rest);
        }
    }
}

impl Stack {
    /// Collects what gate 1 releases, and lets the worker do its next step; false if there was neither.
    pub(super) fn worker_step(&mut self) -> bool {
        if self.collect_batches() {
            return true;
        }
        if self.worker.current.is_some() {
            return false;
        }
        match self.worker.steps.pop_front() {
            None => return false,
            Some(Step::Bio(bio, stage)) => {
                self.worker.current = Some(bio);
                self.worker.plug.open = true;
                self.enter(bio, stage);
            }
            Some(Step::End) => {
                self.worker.plug.open = false;
                self.flush_plug(Context::Worker, false);
            }
        }
        true
    }

    /// One batch per controller.
    fn collect_batches(&mut self) -> bool {
        let mut any = false;
        for (i, c) in self.controllers.iter_mut().enumerate() {
            if c.entry.gate != Gate::BeforeMerge {
                break;
            }
            let before = self.worker.steps.len();
            while let Some(bio) = c.release(self.ending, self.now, &mut self.env.cx()) {
                self.env.trace.emit(self.now, Event::Released { bio: bio.0.slot });
                self.worker.steps.push_back(Step::Bio(bio, PathStep::Gate1(i + 1)));
            }
            if self.worker.steps.len() > before {
                self.worker.steps.push_back(Step::End);
                any = true;
            }
        }
        any
    }
}
