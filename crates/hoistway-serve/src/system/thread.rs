//! What threads of this crate ask of the kernel's CPU scheduler.

use std::num::NonZeroU64;

/// Asks the kernel to wake this thread when it said, and not up to 50 us later.
pub fn precise_timers() {
    // Where it is refused, wake-ups are late by the kernel's default of 50 us, which is measured.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Asks the kernel not to interrupt a running client each time a request arrives: it then sends all it
/// has, and is answered in one piece. For devices that answer at once, where the processors are the
/// bottleneck and every wake-up costs more than the request itself.
pub fn prefer_batches() {
    // SAFETY: it concerns this thread's own policy and takes no memory of ours.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    // A policy somebody chose (real time, idle) stays.
    if policy == libc::c_long::from(libc::SCHED_OTHER) {
        set_policy(libc::SCHED_BATCH, 0);
    }
}

/// Asks for a policy of this thread. The kernel's call itself: musl's function of that name only says ENOSYS, and its
/// structure is another one than glibc's. What is refused is left as it was.
fn set_policy(policy: libc::c_int, priority: libc::c_int) {
    // SAFETY: it concerns this thread's own policy; the kernel reads one int, which lives through the call.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
}

/// A write beyond the process's limit on file sizes is to be an error (EFBIG) of that write, and not
/// SIGXFSZ and the end of everybody. For each thread that writes; io_uring's own block it already.
pub fn errors_instead_of_signals() {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set it is given; the mask is this thread's own.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Tells the kernel that its way to get memory back may lead through this thread (it writes what a file
/// system on a device of ours keeps dirty), so that no allocation of this thread waits for that. Threads
/// it starts inherit it. Where it is refused (it needs CAP_SYS_RESOURCE, Linux 5.6) all works until memory
/// is short.
#[cfg(any(feature = "fuse", feature = "ublk"))]
pub fn io_flusher() {
    /// From prctl(2); `libc` has no name for it.
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: it concerns this thread's own flags and takes no memory of ours.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// Asks the kernel to run this thread before ordinary ones: it is a drive to them, which does not wait for
/// a processor. Threads it starts inherit it.
#[cfg(feature = "fuse")]
pub fn urgent() {
    // Where it is refused, answers are late when processors are busy, which is measured.
    set_policy(libc::SCHED_FIFO, 1);
}
