//! A model-based fuzzer of the pure stack ([`hoistway::Stack`]).
//!
//! A [`Case`] is a device, a scheduler, controllers, and a list of operations with their times: I/O of
//! processes in nested groups that come and go, every setting over its whole range, changes of scheduler
//! and of `nr_requests`, errors, requeues, ticks that are early or late, completions in any order. It is
//! made from a seed ([`make::case`]) or from the bytes of libFuzzer ([`make::case_of_bytes`]), run by
//! [`run`], and read from and printed as a script.
//!
//! What is demanded after every event:
//!
//! - what waits has something to wait for: a command at the device, a deadline in the future, or a task
//!   that collects it in an open plug section;
//! - the device stands still no longer than the policies in force promise ([`bounds`]), so once the load
//!   stops everything drains in bounded time;
//! - every I/O is accepted once and finished once, merged ones too; each of its sectors is served once if
//!   it succeeds; nothing is issued twice, beyond the device or its limits, or beside a command that runs
//!   alone; flushes, FUA and barriers are where they belong ([`ledger`]);
//! - the counters of the stack are those of the book.
//!
//! And two runs of a case have equal digests.
//!
//! [`files`] has what any bytes in the files of users may lead to.

pub mod bounds;
pub mod files;
pub mod ledger;
pub mod make;
pub mod op;
pub mod shrink;
pub mod source;
pub mod world;

use hoistway::trace::{Record, Trace};
pub use ledger::Broken;
pub use op::Case;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
pub use world::{Outcome, World};

/// A case that broke a rule, or panicked.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Which rule. A panic is a rule by its place and message.
    pub broken: Broken,
    /// The step at which it showed; the number of steps: while it drained.
    pub step: usize,
    /// Events before it.
    pub events: u64,
}

thread_local! {
    /// Where and why this thread panicked; `None`: panics are not ours to catch now.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Panics inside [`run`] are noted, not printed; all others are printed as ever.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = PANIC.with_borrow_mut(|note| {
                let Some(note) = note else { return false };
                let place = info.location().map_or(String::new(), |at| format!("{at}"));
                let payload = info.payload();
                let message = (payload.downcast_ref::<&str>().map(|s| s.to_string()))
                    .or_else(|| payload.downcast_ref::<String>().cloned());
                *note = (place, message.unwrap_or_default());
                true
            });
            if !noted {
                before(info);
            }
        }));
    });
}

/// Runs a case to its end.
///
/// # Errors
///
/// The first rule it broke; a panic of the stack is one.
pub fn run(case: &Case) -> Result<Outcome, Failure> {
    run_with(case, Trace::digest_only()).0
}

/// Runs a case and keeps what the stack did.
pub fn run_traced(case: &Case) -> (Result<Outcome, Failure>, Vec<Record>) {
    run_with(case, Trace::keep(1 << 20))
}

fn run_with(case: &Case, trace: Trace) -> (Result<Outcome, Failure>, Vec<Record>) {
    note_panics();
    PANIC.set(Some((String::new(), String::new())));
    let mut world = None;
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        world.insert(World::new(case, trace)).run(&case.steps)
    }));
    let (place, message) = PANIC.take().unwrap_or_default();
    let records = world.as_mut().map(World::take_records).unwrap_or_default();
    let broken = match result {
        Ok(Ok(outcome)) => return (Ok(outcome), records),
        Ok(Err(broken)) => broken,
        Err(_) => {
            // Numbers differ between the runs of a case that shrinks; the rest of a message does not.
            let kind: String = message.chars().filter(|c| !c.is_ascii_digit()).collect();
            let file = place.split(':').next().unwrap_or_default();
            Broken {
                rule: format!("no panic: {file}: {}", kind.lines().next().unwrap_or_default()),
                what: format!("{message}\n{place}"),
            }
        }
    };
    let (step, events) = world.map_or((0, 0), |w| (w.at, w.events()));
    (Err(Failure { broken, step, events }), records)
}

/// Runs a case twice and compares.
///
/// # Errors
///
/// As [`run`], and for digests that differ.
pub fn run_twice(case: &Case) -> Result<Outcome, Failure> {
    let first = run(case)?;
    let again = run(case)?;
    if first == again {
        return Ok(first);
    }
    let what = format!("{first:?}\n{again:?}");
    let broken = Broken { rule: "equal cases have equal traces".into(), what };
    Err(Failure { broken, step: case.steps.len(), events: first.events })
}
