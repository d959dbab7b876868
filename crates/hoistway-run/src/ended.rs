//! A run that its scheduler has ended.

use std::panic::resume_unwind;

/// What a scheduler ended its run for: the payload with which [`end_run`] unwinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerFault(pub String);

/// Ends the run in which a scheduler finds itself: for schedulers that people load at run time, and that answer wrongly. It
/// unwinds with a [`SchedulerFault`], without the message of a panic. The lab catches that, reports it as the error of the
/// cell, and goes on with the others; who runs a stack without the lab has to catch it.
pub fn end_run(what: String) -> ! {
    resume_unwind(Box::new(SchedulerFault(what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_catches_it_has_what_was_said() {
        let caught = std::panic::catch_unwind(|| end_run("it answered 7".into())).unwrap_err();
        assert_eq!(
            caught.downcast_ref::<SchedulerFault>(),
            Some(&SchedulerFault("it answered 7".into()))
        );
    }
}
