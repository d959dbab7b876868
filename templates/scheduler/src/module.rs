//! The module around the scheduler: its exports, and an allocator. A module has one thread, and hoistway calls one function
//! at a time, so nothing here is ever borrowed twice.

use crate::ABOUT;
use crate::rr::RoundRobin;
use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::UnsafeCell;

/// What one thread has alone.
struct Own<T>(UnsafeCell<T>);

// SAFETY: there are no other threads.
unsafe impl<T> Sync for Own<T> {}

static SCHEDULER: Own<RoundRobin> = Own(UnsafeCell::new(RoundRobin::NEW));

#[expect(clippy::mut_from_ref, reason = "each export asks once, and no export calls another")]
fn scheduler() -> &'static mut RoundRobin {
    // SAFETY: as above.
    unsafe { &mut *SCHEDULER.0.get() }
}

#[unsafe(no_mangle)]
extern "C" fn about() -> u64 {
    (ABOUT.as_ptr() as u64) << 32 | ABOUT.len() as u64
}

#[unsafe(no_mangle)]
extern "C" fn set(row: u32, value: u64) {
    if row == 0 {
        scheduler().quantum = value;
    }
}

#[unsafe(no_mangle)]
extern "C" fn insert(
    _now: u64,
    number: u64,
    process: u32,
    _op: u32,
    flags: u32,
    _prio: u32,
    _sector: u64,
    _sectors: u32,
) {
    scheduler().insert(number, process, flags & 2 != 0);
}

#[unsafe(no_mangle)]
extern "C" fn dispatch(_now: u64) -> u64 {
    scheduler().dispatch().unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn gone(_now: u64, number: u64) {
    scheduler().gone(number);
}

/// A free list for each power of two, over memory that only grows.
struct Lists {
    free: [usize; 32],
    next: usize,
    end: usize,
}

const PAGE: usize = 65_536;

#[global_allocator]
static ALLOCATOR: Own<Lists> = Own(UnsafeCell::new(Lists { free: [0; 32], next: 0, end: 0 }));

/// What a request of this layout takes: 2 to this power, which is a multiple of its alignment.
fn class(layout: Layout) -> usize {
    layout.size().max(layout.align()).max(16).next_power_of_two().trailing_zeros() as usize
}

// SAFETY: what is handed out is fresh memory or memory that was given back in the same class, and has the size and the
// alignment of its class; see `Own` for threads.
unsafe impl GlobalAlloc for Own<Lists> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: nobody else has the lists; a free block holds the address of the next one.
        let lists = unsafe { &mut *self.0.get() };
        let class = class(layout);
        let size = 1 << class;
        let first = lists.free[class] as *mut usize;
        if !first.is_null() {
            // SAFETY: `dealloc` put it there.
            lists.free[class] = unsafe { *first };
            return first.cast();
        }
        if lists.end == 0 {
            // Below lie the stack and what is static.
            lists.end = wasm32::memory_size(0) * PAGE;
            lists.next = lists.end;
        }
        let start = lists.next.next_multiple_of(size);
        if start + size > lists.end {
            let pages = (start + size - lists.end).div_ceil(PAGE);
            if wasm32::memory_grow(0, pages) == usize::MAX {
                return core::ptr::null_mut();
            }
            lists.end += pages * PAGE;
        }
        lists.next = start + size;
        start as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`; the block is ours again, and has room for an address.
        unsafe {
            let lists = &mut *self.0.get();
            let class = class(layout);
            *block.cast::<usize>() = lists.free[class];
            lists.free[class] = block as usize;
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    wasm32::unreachable()
}
