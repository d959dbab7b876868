//! Pieces of work that do not depend on each other, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What `work` gives for 0 to `count` - 1, in the order of the numbers, whatever the threads do. Behind a failure, and once
/// `stop` is set, no more is begun: what is missing then is `None`.
pub(crate) fn in_order<T: Send, E: Send>(
    count: usize,
    threads: usize,
    stop: &AtomicBool,
    work: &(dyn Fn(usize) -> Result<T, E> + Sync),
) -> Vec<Option<Result<T, E>>> {
    let slots: Vec<Mutex<Option<Result<T, E>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let turns = || {
        while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(index) else { return };
            let done = work(index);
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
            *slot.lock().expect("no thread panics while it holds the lock") = Some(done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(turns);
        }
    });
    slots.into_iter().map(|slot| slot.into_inner().expect("no thread panicked")).collect()
}
