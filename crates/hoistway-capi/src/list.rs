//! What there is: version, codes in words, schedulers, controllers, settings. None of it needs a stack, and
//! all of it may be called by several threads at once. The texts live as long as the program.

use crate::guard::{Answer, Failure, OK, guarded};
use crate::memory::{put_sized, text};
use crate::texts;
use crate::types::{HW_ABI, hw_code, hw_tunable};
use std::ffi::c_char;

/// The library's version, "MAJOR.MINOR.PATCH".
#[unsafe(no_mangle)]
pub extern "C" fn hw_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The library's HW_ABI, to be compared with that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn hw_abi() -> u32 {
    HW_ABI
}

/// A code in words.
#[unsafe(no_mangle)]
pub extern "C" fn hw_code_text(code: i32) -> *const c_char {
    let text = match code {
        0.. => c"done",
        -1 => c"a pointer is null or not aligned",
        -2 => c"the size field of a struct is unknown",
        -3 => c"a text is not UTF-8, or too long",
        -4 => c"a number is outside its range",
        -5 => c"there is nothing of that name",
        -6 => c"the value is not what the setting or file takes",
        -7 => c"the time goes back, or is beyond HW_TIME_END",
        -8 => c"events wait; poll until HW_WAIT first",
        -9 => c"the device does not take this I/O",
        -10 => c"the request is not with the device",
        -11 => c"there is no such process",
        -12 => c"there is no such group",
        -13 => c"it is still in use",
        -14 => c"another thread is in a call with this stack",
        -15 => c"the stack can have no more of them",
        -16 => c"hoistway has failed; free the stack",
        _ => c"there is no such code",
    };
    text.as_ptr()
}

/// The name of a scheduler, by its number from 0; NULL behind the last.
#[unsafe(no_mangle)]
pub extern "C" fn hw_scheduler_name(index: u32) -> *const c_char {
    texts::scheduler_at(index)
}

/// The name of a controller, by its number from 0; NULL behind the last.
#[unsafe(no_mangle)]
pub extern "C" fn hw_controller_name(index: u32) -> *const c_char {
    texts::controller_at(index)
}

/// A scheduler, controller or `queue` in one line; NULL if there is none of that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_summary(stage: *const c_char) -> *const c_char {
    let mut found = std::ptr::null();
    guarded(|| {
        // SAFETY: as in `hw_submit`.
        found = texts::summary(unsafe { text(stage, "stage is NULL") }?);
        OK
    });
    found
}

unsafe fn fill(stage: *const c_char, of_groups: bool, index: u32, to: *mut hw_tunable) -> Answer {
    // SAFETY: as in `hw_submit`.
    let stage = unsafe { text(stage, "stage is NULL") }?;
    let found = texts::tunable(stage, of_groups, index);
    let found = found.map_err(|()| Failure::new(hw_code::HW_E_NAME, "there is no such stage"))?;
    let Some(found) = found else { return OK };
    // SAFETY: as in `hw_submit`.
    unsafe { put_sized(to, &found, "tunable is NULL") }?;
    Ok(1)
}

/// A setting of a scheduler, of a controller or of `queue`, by its number from 0: 1 if `tunable` was filled, 0
/// behind the last. `tunable->size` is set by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_tunable_of(
    stage: *const c_char,
    index: u32,
    tunable: *mut hw_tunable,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    guarded(|| unsafe { fill(stage, false, index, tunable) })
}

/// The same of the settings that groups have (hw_set_group).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hw_group_tunable_of(
    stage: *const c_char,
    index: u32,
    tunable: *mut hw_tunable,
) -> i32 {
    // SAFETY: as in `hw_submit`.
    guarded(|| unsafe { fill(stage, true, index, tunable) })
}
