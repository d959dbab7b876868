//! The border itself: who may enter, what happens to errors and to panics.

use crate::types::hw_code;
use hoistway::{Instant, Stack};
use std::any::Any;
use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// A device's queue with its scheduler and its controllers. Used by one thread at a time.
#[derive(Debug)]
pub struct hw_stack {
    /// A thread is inside.
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

/// What is behind the guard.
#[derive(Debug)]
pub(crate) struct Inner {
    pub stack: Stack,
    /// The latest time of the stack: events are taken at it.
    pub now: Instant,
    /// Processes with an open plug section, by number.
    pub plugged: Vec<bool>,
    /// The text of the last error.
    error: CString,
    /// The core has panicked.
    poisoned: bool,
}

/// Why a call is refused.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: hw_code,
    pub text: Cow<'static, str>,
}

impl Failure {
    pub fn new(code: hw_code, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, text: text.into() }
    }
}

pub(crate) type Answer = Result<i32, Failure>;

/// The answer of a call that has nothing to count.
pub(crate) const OK: Answer = Ok(hw_code::HW_OK as i32);

impl hw_stack {
    /// A stack made in Rust, with whatever scheduler or controllers, for use through the C interface. To be freed
    /// by `hw_stack_free`.
    pub fn into_raw(stack: Stack) -> *mut hw_stack {
        hw_stack::boxed(Inner::new(stack))
    }

    pub(crate) fn boxed(inner: Inner) -> *mut hw_stack {
        let (busy, inner) = (AtomicBool::new(false), UnsafeCell::new(inner));
        Box::into_raw(Box::new(hw_stack { busy, inner }))
    }

    /// `f` with what is inside, unless another thread is there or the core has failed. What `f` refuses becomes
    /// the stack's error, what it panics with poisons it.
    ///
    /// # Safety
    ///
    /// `at` is NULL or a stack that lives.
    pub(crate) unsafe fn enter(at: *const hw_stack, f: impl FnOnce(&mut Inner) -> Answer) -> i32 {
        if at.is_null() {
            return hw_code::HW_E_NULL as i32;
        }
        // SAFETY: it lives, and only parts that threads may share are touched before the flag is set.
        let stack = unsafe { &*at };
        if stack.busy.swap(true, Ordering::Acquire) {
            return hw_code::HW_E_THREAD as i32;
        }
        // SAFETY: whoever set the flag is alone inside until it is cleared.
        let inner = unsafe { &mut *stack.inner.get() };
        let answer = inner.guarded(f);
        stack.busy.store(false, Ordering::Release);
        answer
    }
}

impl Inner {
    pub fn new(stack: Stack) -> Inner {
        let (now, plugged, error) = (Instant::ZERO, Vec::new(), CString::default());
        Inner { stack, now, plugged, error, poisoned: false }
    }

    fn guarded(&mut self, f: impl FnOnce(&mut Inner) -> Answer) -> i32 {
        if self.poisoned {
            return hw_code::HW_E_PANIC as i32;
        }
        // The state may be torn after a panic; nobody looks at it again but `drop`.
        let run = AssertUnwindSafe(|| match f(self) {
            Ok(answer) => answer,
            Err(failure) => self.refuse(failure),
        });
        match catch_unwind(run) {
            Ok(answer) => answer,
            Err(panic) => self.poison(&*panic),
        }
    }

    /// Keeps the text; the code.
    #[cold]
    pub fn refuse(&mut self, failure: Failure) -> i32 {
        self.error = c_text(&failure.text);
        failure.code as i32
    }

    #[cold]
    fn poison(&mut self, panic: &(dyn Any + Send)) -> i32 {
        self.poisoned = true;
        let what = panic_text(panic);
        self.error = c_text(&format!(
            "hoistway has failed, which is a bug of it: {what}. This stack does nothing more; free it, and \
             please report the text"
        ));
        hw_code::HW_E_PANIC as i32
    }
}

/// For what needs no stack: a panic becomes a code.
pub(crate) fn guarded(f: impl FnOnce() -> Answer) -> i32 {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => failure.code as i32,
        Err(_) => hw_code::HW_E_PANIC as i32,
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it gave no reason")
}

/// Without zero bytes, which end a text in C.
pub(crate) fn c_text(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|&b| b != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The text of the last error of this stack, empty before the first. Valid until the next call with the stack.
/// NULL for no stack, or while another thread is in a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_error(stack: *const hw_stack) -> *const c_char {
    let none = std::ptr::null();
    if stack.is_null() {
        return none;
    }
    // SAFETY: it lives; as in `enter`.
    let stack = unsafe { &*stack };
    if stack.busy.swap(true, Ordering::Acquire) {
        return none;
    }
    // SAFETY: whoever set the flag is alone inside.
    let text = unsafe { &*stack.inner.get() }.error.as_ptr();
    stack.busy.store(false, Ordering::Release);
    text
}

/// Frees a stack. NULL does nothing; a stack that another thread uses is left alone: HW_E_THREAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_stack_free(stack: *mut hw_stack) -> i32 {
    if stack.is_null() {
        return hw_code::HW_OK as i32;
    }
    // SAFETY: it lives; as in `enter`.
    if unsafe { &*stack }.busy.swap(true, Ordering::Acquire) {
        return hw_code::HW_E_THREAD as i32;
    }
    guarded(|| {
        // SAFETY: made by `into_raw`, freed once, and nobody is inside.
        drop(unsafe { Box::from_raw(stack) });
        OK
    })
}
