//! Work that takes time: without the interpreter's lock, ended by Ctrl-C, telling how far it is.

use crate::errors;
use hoistway_lab::run::{Progress, RunError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);
/// Looks between two calls of `progress`.
const TELL: u32 = 4;

/// How far work is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Far {
    /// 0 to 1.
    pub part: f64,
    /// Runs that are over.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
}

impl From<Progress> for Far {
    fn from(p: Progress) -> Far {
        let part = p.passed.0 as f64 / p.whole.0.max(1) as f64;
        Far { part: part.min(1.0), done: p.done, total: p.total }
    }
}

/// Does the work on a thread of its own, without the lock. It is to end when the flag is set, and tells how far it is.
/// The caller's thread looks for signals and calls `progress(part, done, total)`; an exception of either ends the work.
pub fn carry_out<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&AtomicBool, &(dyn Fn(Far) + Sync)) -> Result<T, RunError> + Send,
) -> PyResult<T> {
    let (stop, last) = (AtomicBool::new(false), Mutex::new(Far::default()));
    let (over, mut ended) = channel();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let tell = |far| *last.lock().expect("nobody panics with the lock") = far;
            let result = work(&stop, &tell);
            // Only a caller that is gone does not hear it.
            let _ = over.send(());
            drop(over);
            result
        });
        let (mut exception, mut told, mut looks) = (None, None, 0);
        loop {
            let hears = &mut ended;
            let state = py.detach(move || hears.recv_timeout(LOOK));
            let waiting = state == Err(RecvTimeoutError::Timeout);
            looks += 1;
            let far = *last.lock().expect("nobody panics with the lock");
            let due = looks % TELL == 0 || !waiting;
            let mut look = || -> PyResult<()> {
                py.check_signals()?;
                if let Some(progress) = progress.filter(|_| due && told != Some(far)) {
                    told = Some(far);
                    progress.call1((far.part, far.done, far.total))?;
                }
                Ok(())
            };
            if exception.is_none()
                && let Err(error) = look()
            {
                stop.store(true, Ordering::Relaxed);
                exception = Some(error);
            }
            if !waiting {
                break;
            }
        }
        let result = py.detach(|| worker.join());
        match (exception, result) {
            (Some(error), _) => Err(error),
            (None, Ok(result)) => result.map_err(errors::run),
            (None, Err(_)) => Err(PyRuntimeError::new_err(
                "the work broke off; this is an error in hoistway, and what it was is on stderr",
            )),
        }
    })
}

/// So many simulations at a time as wanted, or one per core.
pub fn threads(jobs: Option<u16>) -> PyResult<usize> {
    match jobs {
        Some(n @ 1..=1024) => Ok(usize::from(n)),
        Some(n) => Err(errors::wrong(format!("--jobs: {n} is not in 1..=1024"))),
        None => Ok(std::thread::available_parallelism().map_or(1, |n| n.get())),
    }
}
