//! What C and Rust share of a queue: memory of the shim's, all atomics, so that the shim may read it without the lock.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

/// `struct hw_view`.
#[derive(Debug)]
#[repr(C)]
pub struct View {
    /// Where the stack was when the shim entered, and the registers that a call keeps; the first members, for assembly
    /// writes them.
    stack: AtomicU64,
    kept: [AtomicU64; 5],
    /// The core, a [`crate::queue::Queue`]; null before it is built and after it has ended.
    pub(crate) core: AtomicPtr<c_void>,
    /// When `hw_timer` must be called, ns; `u64::MAX`: not at all.
    pub(crate) next_timer: AtomicU64,
    /// Hardware queues of which a run was asked for; the shim takes them.
    pub(crate) runs: AtomicU64,
    /// Hardware queues for which asking would find something new.
    pub(crate) fresh: AtomicU64,
    /// Requests that wait in the scheduler.
    pub(crate) waiting: AtomicU32,
    /// The largest request to build, in sectors.
    pub(crate) max_sectors: AtomicU32,
    /// 1: `hw_depth` may answer a read with a limit; 0: it need not be asked.
    pub(crate) limits_reads: AtomicU32,
    unused: AtomicU32,
}

impl View {
    /// A view of no queue.
    pub const fn new() -> View {
        View {
            stack: AtomicU64::new(0),
            kept: [const { AtomicU64::new(0) }; 5],
            core: AtomicPtr::new(null_mut()),
            next_timer: AtomicU64::new(u64::MAX),
            runs: AtomicU64::new(0),
            fresh: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            max_sectors: AtomicU32::new(0),
            limits_reads: AtomicU32::new(0),
            unused: AtomicU32::new(0),
        }
    }

    /// Requests that wait in the scheduler.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    /// Whether asking for hardware queue `queue` would find something new.
    pub fn is_fresh(&self, queue: u16) -> bool {
        self.fresh.load(Relaxed) & (1 << (queue & 63)) != 0
    }

    /// Hardware queues of which a run was asked for; they are taken.
    pub fn take_runs(&self) -> u64 {
        self.runs.swap(0, Relaxed)
    }

    /// When the timer must be called, ns.
    pub fn next_timer(&self) -> u64 {
        self.next_timer.load(Relaxed)
    }

    /// The largest request to build, in sectors.
    pub fn max_sectors(&self) -> u32 {
        self.max_sectors.load(Relaxed)
    }
}

impl View {
    /// Whether a read is asked for a limit.
    pub fn limits_reads(&self) -> bool {
        self.limits_reads.load(Relaxed) != 0
    }
}

impl Default for View {
    fn default() -> View {
        View::new()
    }
}
