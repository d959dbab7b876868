//! What the page's worker calls: it makes [`room`] for a question, writes it there, and [`ask`]s; the answer has
//! [`answer_len`] bytes.
//!
//! There are no threads where this runs. The locks are there because statics need them, and nobody waits for one.

use crate::session::{Complaint, Session};
use std::sync::{Mutex, MutexGuard, Once};

static QUESTION: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static ANSWER: Mutex<String> = Mutex::new(String::new());
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().expect("a panic ends the module, not just the call that holds the lock")
}

/// Memory for a question of `len` bytes, until the next call.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn room(len: usize) -> *mut u8 {
    let mut question = lock(&QUESTION);
    question.clear();
    question.resize(len, 0);
    question.as_mut_ptr()
}

/// Answers the question that stands in [`room`]; the answer, JSON in UTF-8, stays until the next call.
///
/// A failed assertion of a run ends the module. What it said is the answer then, at [`answer`].
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn ask() -> *const u8 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        if cfg!(target_family = "wasm") {
            std::panic::set_hook(Box::new(|panic| broke_off(&panic.to_string())));
        }
    });
    lock(&ANSWER).clear();
    let question = std::mem::take(&mut *lock(&QUESTION));
    let said = lock(&SESSION).get_or_insert_default().answer(&question);
    *lock(&ANSWER) = said;
    answer()
}

/// Where the answer is.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn answer() -> *const u8 {
    lock(&ANSWER).as_ptr()
}

/// Length of the answer in bytes.
#[cfg_attr(target_family = "wasm", unsafe(no_mangle))]
pub extern "C" fn answer_len() -> usize {
    lock(&ANSWER).len()
}

fn broke_off(what: &str) {
    let text = format!("the run broke off: {what}; this is an error in hoistway");
    let said = Err::<(), _>(Complaint { text, field: None });
    // A panic within the answer's own lock is not told; the worker says that the module ended.
    if let Ok(mut answer) = ANSWER.try_lock() {
        *answer = crate::session::said(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_cannot_be_read_is_answered() {
        room(7);
        ask();
        let said = lock(&ANSWER).clone();
        assert!(said.starts_with(r#"{"error":{"text":"the question cannot be read: "#), "{said}");
        assert_eq!(answer_len(), said.len());
        broke_off("index out of bounds");
        assert!(lock(&ANSWER).contains("broke off: index out of bounds"));
    }
}
