//! I/O that was started by another thread and is not over yet.

use crate::system::Buffer;
use rustix::io::Errno;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Where the owner thread leaves the result.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<PendingState>,
    changed: Condvar,
    window: Arc<Window>,
}

#[derive(Debug, Default)]
struct PendingState {
    result: Option<io::Result<Buffer>>,
    waker: Option<Waker>,
}

impl Slot {
    /// Waits for a place in the window.
    pub fn new(window: &Arc<Window>) -> Arc<Slot> {
        window.enter();
        let window = Arc::clone(window);
        Arc::new(Slot { state: Mutex::default(), changed: Condvar::new(), window })
    }

    pub fn is_over(&self) -> bool {
        self.lock().result.is_some()
    }

    /// The result, if there is one.
    pub fn take(&self) -> Option<io::Result<Buffer>> {
        self.lock().result.take()
    }

    fn finish(&self, result: Result<(), Errno>, buffer: Buffer) {
        let mut state = self.lock();
        state.result = Some(result.map(|()| buffer).map_err(io::Error::from));
        let waker = state.waker.take();
        drop(state);
        self.window.leave();
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().expect("nobody panics while holding the lock")
    }
}

/// The right to answer, once. Dropped without an answer (the device is closed), the answer is
/// ESHUTDOWN: nobody waits for ever.
#[derive(Debug)]
pub(crate) struct Reply(Option<Arc<Slot>>);

impl Reply {
    pub fn to(slot: &Arc<Slot>) -> Reply {
        Reply(Some(Arc::clone(slot)))
    }

    pub fn finish(mut self, result: Result<(), Errno>, buffer: Buffer) {
        if let Some(slot) = self.0.take() {
            slot.finish(result, buffer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.finish(Err(Errno::SHUTDOWN), Buffer::empty());
        }
    }
}

/// An I/O that was started: wait for it, or await it. If dropped, the I/O goes on and its result is
/// lost.
#[derive(Debug)]
#[must_use = "an I/O that nobody waits for may fail unseen"]
pub struct Pending {
    pub(super) slot: Arc<Slot>,
}

impl Pending {
    /// Waits until it is over; gives the buffer back.
    ///
    /// # Errors
    ///
    /// That of the device, for this very I/O: EINVAL for a range that is misaligned or beyond the end,
    /// ENOSPC for a write beyond the end or to a full file system, EPERM on a read-only device, and so
    /// on; ESHUTDOWN when the device was closed.
    pub fn wait(self) -> io::Result<Buffer> {
        let mut state = self.slot.lock();
        loop {
            match state.result.take() {
                Some(result) => return result,
                None => {
                    let changed = self.slot.changed.wait(state);
                    state = changed.expect("nobody panics while holding the lock");
                }
            }
        }
    }

    /// True when it is over: `wait` will not wait.
    pub fn is_over(&self) -> bool {
        self.slot.is_over()
    }
}

impl Future for Pending {
    type Output = io::Result<Buffer>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.slot.lock();
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// How many I/Os of one client may be under way.
#[derive(Debug)]
pub(crate) struct Window {
    used: Mutex<usize>,
    freed: Condvar,
    size: usize,
}

impl Window {
    pub fn new(size: usize) -> Arc<Window> {
        Arc::new(Window { used: Mutex::new(0), freed: Condvar::new(), size })
    }

    fn enter(&self) {
        let mut used = self.used.lock().expect("nobody panics while holding the lock");
        while *used == self.size {
            used = self.freed.wait(used).expect("nobody panics while holding the lock");
        }
        *used += 1;
    }

    fn leave(&self) {
        *self.used.lock().expect("nobody panics while holding the lock") -= 1;
        self.freed.notify_one();
    }
}
