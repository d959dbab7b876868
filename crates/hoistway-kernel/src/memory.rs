//! Memory of the kernel's, and the end of a panic. Only for the kernel: a host has its own.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::Write;

unsafe extern "C" {
    fn hw_alloc(size: usize, align: usize) -> *mut u8;
    fn hw_free(at: *mut u8);
    fn hw_panic(text: *const u8, len: usize) -> !;
}

struct Kernel;

// SAFETY: hw_alloc answers null, or memory of that size and alignment which is nobody else's until hw_free.
unsafe impl GlobalAlloc for Kernel {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: it takes any size and alignment.
        unsafe { hw_alloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, _layout: Layout) {
        // SAFETY: `at` came from `alloc` and is given back once.
        unsafe { hw_free(at) }
    }
}

#[global_allocator]
static KERNEL: Kernel = Kernel;

/// A line of the log: what does not fit is left out.
struct Line {
    text: [u8; 240],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        let n = s.len().min(self.text.len() - self.used);
        self.text[self.used..self.used + n].copy_from_slice(&s.as_bytes()[..n]);
        self.used += n;
        Ok(())
    }
}

/// Also where memory has run out: without `std` that is a panic.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut line = Line { text: [0; 240], used: 0 };
    // A line that is full is all that can go wrong.
    let _ = write!(line, "{info}");
    // SAFETY: the text outlives the call, which does not return.
    unsafe { hw_panic(line.text.as_ptr(), line.used) }
}
