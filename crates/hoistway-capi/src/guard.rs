//! The border itself: who may enter, what happens to errors and to panics.

use crate::types::hw_code;
use hoistway::Stack;
use std::any::Any;
use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};

/// A device's queue with its scheduler and its controllers. Used by one thread at a time.
#[derive(Debug)]
pub struct hw_stack {
    /// Who may enter: one of the words below.
    state: AtomicU8,
    inner: UnsafeCell<Inner>,
}

/// Nobody is inside.
const FREE: u8 = 0;
/// A thread is inside.
const INSIDE: u8 = 1;
/// The core has panicked: nobody enters any more.
const FAILED: u8 = 2;

/// What is behind the guard.
#[derive(Debug)]
pub(crate) struct Inner {
    pub stack: Stack,
    /// Processes with an open plug section, by number.
    pub plugged: Vec<bool>,
    /// The text of the last error.
    error: CString,
}

/// Why a call is refused: in a box, so that an answer fits into registers.
#[derive(Debug)]
pub(crate) struct Failure(Box<(hw_code, Cow<'static, str>)>);

impl Failure {
    #[cold]
    pub fn new(code: hw_code, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure(Box::new((code, text.into())))
    }

    pub fn code(&self) -> hw_code {
        self.0.0
    }

    pub fn text(&self) -> &str {
        &self.0.1
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
        let (state, inner) = (AtomicU8::new(FREE), UnsafeCell::new(inner));
        Box::into_raw(Box::new(hw_stack { state, inner }))
    }

    /// `f` with what is inside, unless another thread is there or the core has failed. What `f` refuses becomes
    /// the stack's error, what it panics with poisons it.
    ///
    /// # Safety
    ///
    /// `at` is NULL or a stack that lives.
    #[inline]
    pub(crate) unsafe fn enter(at: *const hw_stack, f: impl FnOnce(&mut Inner) -> Answer) -> i32 {
        if at.is_null() {
            return hw_code::HW_E_NULL as i32;
        }
        // SAFETY: it lives, and only parts that threads may share are touched before the flag is set.
        let stack = unsafe { &*at };
        let before = stack.state.swap(INSIDE, Ordering::Acquire);
        if before != FREE {
            return stack.turned_away(before);
        }
        // SAFETY: whoever has changed the state from another word is alone inside.
        let inner = unsafe { &mut *stack.inner.get() };
        // What is inside may be torn after a panic; only its error is looked at again, and it is dropped.
        let run = AssertUnwindSafe(|| match f(inner) {
            Ok(answer) => answer,
            Err(failure) => inner.refuse(failure),
        });
        match catch_unwind(run) {
            Ok(answer) => {
                stack.state.store(FREE, Ordering::Release);
                answer
            }
            Err(panic) => stack.fail(&*panic),
        }
    }

    #[cold]
    fn turned_away(&self, before: u8) -> i32 {
        if before == INSIDE {
            return hw_code::HW_E_THREAD as i32;
        }
        self.state.store(FAILED, Ordering::Release);
        hw_code::HW_E_PANIC as i32
    }

    /// The thread inside has panicked.
    #[cold]
    fn fail(&self, panic: &(dyn Any + Send)) -> i32 {
        let what = panic_text(panic);
        let text = format!(
            "hoistway has failed, which is a bug of it: {what}. This stack does nothing more; free it, and \
             please report the text"
        );
        // SAFETY: this thread is alone inside until it sets the state.
        unsafe { &mut *self.inner.get() }.error = c_text(&text);
        self.state.store(FAILED, Ordering::Release);
        hw_code::HW_E_PANIC as i32
    }
}

impl Inner {
    pub fn new(stack: Stack) -> Inner {
        Inner { stack, plugged: Vec::new(), error: CString::default() }
    }

    /// Keeps the text; the code.
    #[cold]
    pub fn refuse(&mut self, failure: Failure) -> i32 {
        self.error = c_text(failure.text());
        failure.code() as i32
    }
}

/// For what needs no stack: a panic becomes a code.
pub(crate) fn guarded(f: impl FnOnce() -> Answer) -> i32 {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => failure.code() as i32,
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
    let before = stack.state.swap(INSIDE, Ordering::Acquire);
    if before == INSIDE {
        return none;
    }
    // SAFETY: as in `enter`.
    let text = unsafe { &*stack.inner.get() }.error.as_ptr();
    stack.state.store(before, Ordering::Release);
    text
}

/// Frees a stack. NULL does nothing; a stack that another thread uses is left alone: HW_E_THREAD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_stack_free(stack: *mut hw_stack) -> i32 {
    if stack.is_null() {
        return hw_code::HW_OK as i32;
    }
    // SAFETY: it lives; as in `enter`.
    if unsafe { &*stack }.state.swap(INSIDE, Ordering::Acquire) == INSIDE {
        return hw_code::HW_E_THREAD as i32;
    }
    guarded(|| {
        // SAFETY: made by `into_raw`, freed once, and nobody is inside.
        drop(unsafe { Box::from_raw(stack) });
        OK
    })
}
