//! The same inputs for callers of whom nobody knows whether they keep the rules: what [`Stack::handle`] asserts is
//! an error here. The two inputs that each I/O takes have a way of their own, so that a border to another
//! language need not make an [`Input`](super::Input) of them.

use super::{IoError, Stack, StackError};
use crate::request::{Io, ReqId};
use crate::unit::Instant;

impl Stack {
    /// The time of the last call.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Whether an input may come at this time: what [`Stack::handle`], [`Stack::change`] and the like assert.
    ///
    /// # Errors
    ///
    /// The outputs of the call before were not drained, or `now` is earlier than at that call.
    #[inline]
    pub fn ready(&self, now: Instant) -> Result<(), StackError> {
        if !self.drained {
            return Err(StackError::Undrained);
        }
        if now < self.now {
            return Err(StackError::TimeWentBack { now, before: self.now });
        }
        Ok(())
    }

    /// [`Input::Submit`](super::Input::Submit).
    ///
    /// # Errors
    ///
    /// As [`Stack::ready`] and [`Stack::handle`].
    // Inlined so that the I/O is made where the path takes it.
    #[inline(always)]
    pub fn try_submit(&mut self, now: Instant, io: Io) -> Result<(), StackError> {
        self.ready(now)?;
        self.go_to(now);
        let result = self.submit(&io);
        self.end_of_io();
        result
    }

    /// [`Input::Done`](super::Input::Done).
    ///
    /// # Errors
    ///
    /// As [`Stack::ready`] and [`Stack::handle`].
    #[inline(always)]
    pub fn try_done(
        &mut self,
        now: Instant,
        req: ReqId,
        error: Option<IoError>,
    ) -> Result<(), StackError> {
        self.ready(now)?;
        self.go_to(now);
        let result = self.done(req, error);
        self.end_of_io();
        result
    }
}
