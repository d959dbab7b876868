//! Memory that the coordinator of a run and its workers share: when it starts, what each process is about, and a ring
//! of records per process.
//!
//! Recording a call costs a process a few stores, no system call: a worker that wrote to a pipe would be measured
//! writing to a pipe. What was recorded outlives a worker that is killed in the middle of a call.
//!
//! ```text
//!   header   start, barriers                     written by the coordinator, barriers by workers
//!   slot p   state, begin of the open call       written by process p
//!            written / read                      positions in its ring
//!            complaint                           why it failed
//!            ring                                RING records of 64 bytes
//! ```
//!
//! Each ring has one writer and one reader. A process that finds its ring full waits until the coordinator has read; at
//! one reading in 20 ms that takes 1.6 million calls per second.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Records of a ring.
const RING: u64 = 1 << 15;
/// Bytes of a complaint.
const COMPLAINT: usize = 1008;
/// Barriers of a job at most.
pub const BARRIERS: usize = 64;

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It gets ready.
    Starting,
    /// It waits for the start, or runs.
    Ready,
    /// A target that has done its last call.
    Over,
    /// Its load has ended.
    Exited,
    /// It could not go on; its complaint says why.
    Failed,
}

const STATES: [WorkerState; 5] = [
    WorkerState::Starting,
    WorkerState::Ready,
    WorkerState::Over,
    WorkerState::Exited,
    WorkerState::Failed,
];

/// One record; what it means is the business of [`super::wire`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Raw {
    pub kind: u32,
    pub extra: u32,
    pub numbers: [u64; 3],
    pub text: [u8; 32],
}

#[repr(C)]
struct Barrier {
    arrived: AtomicU32,
    round: AtomicU32,
}

#[repr(C)]
struct Header {
    /// Nanoseconds of the monotonic clock; 0: not decided yet.
    start: AtomicU64,
    barriers: [Barrier; BARRIERS],
}

#[repr(C, align(64))]
struct SharedSlot {
    state: AtomicU32,
    complaint_len: AtomicU32,
    /// Since when a call is open, in nanoseconds since the start, plus 1; 0: none is.
    began: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    complaint: [u8; COMPLAINT],
    ring: [Raw; RING as usize],
}

/// The shared memory, mapped.
#[derive(Debug)]
pub struct SharedMemory {
    memory: NonNull<u8>,
    len: usize,
    procs: usize,
    file: OwnedFd,
}

// SAFETY: what is not atomic is written by one side only, before an atomic store that the other side loads (rings and
// complaints).
unsafe impl Send for SharedMemory {}
// SAFETY: as above; the callers of `push`, `take` and `complain` are one per process and side.
unsafe impl Sync for SharedMemory {}

const HEADER: usize = std::mem::size_of::<Header>().next_multiple_of(64);

fn len_of(procs: usize) -> usize {
    HEADER + procs * std::mem::size_of::<SharedSlot>()
}

impl SharedMemory {
    /// A new one, all zero.
    pub fn new(procs: usize) -> io::Result<SharedMemory> {
        let file = memfd_create("hoistway-board", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len_of(procs) as u64)?;
        SharedMemory::map(file, procs)
    }

    /// One that another process has made.
    pub fn open(path: &str, procs: usize) -> io::Result<SharedMemory> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() != len_of(procs) as u64 {
            return Err(io::Error::other("the board is of another version of the program"));
        }
        SharedMemory::map(file.into(), procs)
    }

    fn map(file: OwnedFd, procs: usize) -> io::Result<SharedMemory> {
        let (len, protection) = (len_of(procs), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that nobody truncates.
        let memory = unsafe {
            mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file.as_fd(), 0)?
        };
        let memory = NonNull::new(memory.cast()).expect("mmap returns no null");
        Ok(SharedMemory { memory, len, procs, file })
    }

    /// How another process opens it while this one lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping is at least as long, aligned to a page, and any bytes are a header.
        unsafe { self.memory.cast::<Header>().as_ref() }
    }

    fn slot(&self, p: usize) -> NonNull<SharedSlot> {
        assert!(p < self.procs, "a process of the job");
        // SAFETY: within the mapping by the assertion; the offset is a multiple of the alignment.
        unsafe { self.memory.add(HEADER + p * std::mem::size_of::<SharedSlot>()).cast() }
    }

    /// A field of a slot that both sides use at a time.
    fn atomics(&self, p: usize) -> (&AtomicU32, &AtomicU32, &AtomicU64, &AtomicU64, &AtomicU64) {
        let slot = self.slot(p).as_ptr();
        // SAFETY: references to atomics of the mapping, which lives as long as `self`; no reference to the rest of
        // the slot is made.
        unsafe {
            (
                &(*slot).state,
                &(*slot).complaint_len,
                &(*slot).began,
                &(*slot).written,
                &(*slot).read,
            )
        }
    }

    /// When the run starts, in nanoseconds of the monotonic clock.
    pub fn start(&self) -> Option<u64> {
        Some(self.header().start.load(Ordering::Acquire)).filter(|&ns| ns > 0)
    }

    /// Everybody starts then.
    pub fn set_start(&self, ns: u64) {
        self.header().start.store(ns, Ordering::Release);
    }

    pub fn state(&self, p: usize) -> WorkerState {
        let n = self.atomics(p).0.load(Ordering::Acquire);
        STATES.get(n as usize).copied().unwrap_or(WorkerState::Failed)
    }

    pub fn set_state(&self, p: usize, state: WorkerState) {
        let n = STATES.iter().position(|&s| s == state).expect("all are in the list");
        self.atomics(p).0.store(n as u32, Ordering::Release);
    }

    /// When the open call of a process began, since the start.
    pub fn began(&self, p: usize) -> Option<u64> {
        self.atomics(p).2.load(Ordering::Acquire).checked_sub(1)
    }

    #[inline]
    pub fn set_began(&self, p: usize, at: Option<u64>) {
        self.atomics(p).2.store(at.map_or(0, |at| at + 1), Ordering::Release);
    }

    /// Why a process failed.
    pub fn complaint(&self, p: usize) -> String {
        let len = self.atomics(p).1.load(Ordering::Acquire) as usize;
        let slot = self.slot(p).as_ptr();
        // SAFETY: the bytes were written before the length was stored, and once.
        let bytes = unsafe { (*slot).complaint };
        String::from_utf8_lossy(&bytes[..len.min(COMPLAINT)]).into_owned()
    }

    /// The process cannot go on.
    pub fn complain(&self, p: usize, why: &str) {
        let len = why.len().min(COMPLAINT);
        let slot = self.slot(p).as_ptr();
        // SAFETY: within the array, by its only writer; nobody reads it before the length is stored.
        unsafe {
            let place = (&raw mut (*slot).complaint).cast::<u8>();
            std::ptr::copy_nonoverlapping(why.as_ptr(), place, len);
        }
        self.atomics(p).1.store(len as u32, Ordering::Release);
        self.set_state(p, WorkerState::Failed);
    }

    /// Adds a record of process `p`, by that process. False: the ring is full.
    #[inline]
    pub fn push(&self, p: usize, record: Raw) -> bool {
        let (_, _, _, written, read) = self.atomics(p);
        let at = written.load(Ordering::Relaxed);
        if at - read.load(Ordering::Acquire) >= RING {
            return false;
        }
        let slot = self.slot(p).as_ptr();
        // SAFETY: in bounds; the reader does not look at this place before `written` has passed it.
        unsafe { (&raw mut (*slot).ring[(at % RING) as usize]).write(record) };
        written.store(at + 1, Ordering::Release);
        true
    }

    /// Takes what process `p` has recorded since the last call, by the coordinator.
    pub fn take(&self, p: usize, mut each: impl FnMut(Raw)) {
        let (_, _, _, written, read) = self.atomics(p);
        let (mut at, to) = (read.load(Ordering::Relaxed), written.load(Ordering::Acquire));
        let slot = self.slot(p).as_ptr();
        while at < to {
            // SAFETY: in bounds; the writer does not touch this place before `read` has passed it.
            each(unsafe { (&raw const (*slot).ring[(at % RING) as usize]).read() });
            at += 1;
        }
        read.store(at, Ordering::Release);
    }

    /// Waits until `parties` processes have come to a barrier.
    pub fn barrier(&self, number: usize, parties: u32) -> io::Result<()> {
        let barrier = self.header().barriers.get(number);
        let Barrier { arrived, round } =
            barrier.ok_or_else(|| io::Error::other(format!("barrier {number}: too many")))?;
        let mine = round.load(Ordering::Acquire);
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 >= parties {
            arrived.store(0, Ordering::Release);
            round.fetch_add(1, Ordering::AcqRel);
            futex::wake(round, futex::Flags::empty(), u32::MAX >> 1)?;
            return Ok(());
        }
        while round.load(Ordering::Acquire) == mine {
            match futex::wait(round, futex::Flags::empty(), mine, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; references into it do not outlive `self`.
        // A failure would leave memory mapped, which ends with the process.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_side_reads() {
        let coordinator = SharedMemory::new(2).unwrap();
        let worker = SharedMemory::open(&coordinator.path(), 2).unwrap();
        assert_eq!((worker.start(), coordinator.state(1)), (None, WorkerState::Starting));
        coordinator.set_start(77);
        worker.set_state(1, WorkerState::Ready);
        worker.set_began(1, Some(0));
        assert_eq!((worker.start(), coordinator.state(1)), (Some(77), WorkerState::Ready));
        assert_eq!((coordinator.began(1), coordinator.began(0)), (Some(0), None));
        worker.complain(0, "no such file");
        assert_eq!(coordinator.complaint(0), "no such file");
        assert_eq!(coordinator.state(0), WorkerState::Failed);
        assert!(SharedMemory::open(&coordinator.path(), 3).is_err());
    }

    #[test]
    fn a_ring_keeps_order_and_refuses_what_does_not_fit() {
        let shared = SharedMemory::new(1).unwrap();
        let record = |n| Raw { numbers: [n, 0, 0], ..Raw::default() };
        let mut next = 0;
        for round in 0..3 {
            let mut pushed = 0;
            while shared.push(0, record(round * RING + pushed)) {
                pushed += 1;
            }
            assert_eq!(pushed, RING);
            shared.take(0, |raw| {
                assert_eq!(raw.numbers[0], next);
                next += 1;
            });
        }
        assert_eq!(next, 3 * RING);
    }

    #[test]
    fn nobody_passes_a_barrier_before_all_have_come() {
        let shared = SharedMemory::new(1).unwrap();
        let passed = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        shared.barrier(3, 3).unwrap();
                        passed.fetch_add(1, Ordering::SeqCst);
                        shared.barrier(4, 3).unwrap();
                    }
                });
            }
            for round in 0..100 {
                assert_eq!(passed.load(Ordering::SeqCst), round * 2);
                shared.barrier(3, 3).unwrap();
                shared.barrier(4, 3).unwrap();
            }
        });
        assert!(shared.barrier(BARRIERS, 1).is_err());
    }
}
