//! What pointers of the caller are read and written with: each use of one is here, or is the stack itself
//! (`guard.rs`).
//!
//! Each function takes the caller's promise that the pointer is good for what it says, as the functions of
//! the interface do.

use crate::guard::Failure;
use crate::types::{HW_TEXT, hw_code};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

/// A size above is no version of a struct but a mistake.
const MOST_SIZE: usize = 4096;

/// A struct of plain numbers that begins with its size.
///
/// # Safety
///
/// `repr(C)`, its first field is a `u32`, and every pattern of bits without padding is one of its values, or the
/// struct is written only ([`put_sized`]).
pub unsafe trait Sized32: Copy {
    /// The size of its first version.
    const FIRST: usize;
}

// SAFETY: numbers only, without padding (`layout` in tests/header.rs), the first is its size.
unsafe impl Sized32 for crate::types::hw_device {
    const FIRST: usize = 56;
}

// SAFETY: as above.
unsafe impl Sized32 for crate::types::hw_io {
    const FIRST: usize = 56;
}

// SAFETY: as above.
unsafe impl Sized32 for crate::types::hw_counters {
    const FIRST: usize = 72;
}

// SAFETY: written only.
unsafe impl Sized32 for crate::types::hw_tunable {
    const FIRST: usize = 72;
}

/// The pointer can be used for a `T` as far as can be seen.
#[inline]
pub fn check<T>(at: *const T, what: &'static str) -> Result<(), Failure> {
    if at.is_null() || !at.is_aligned() {
        return Err(Failure::new(hw_code::HW_E_NULL, what));
    }
    Ok(())
}

fn wrong_size() -> Failure {
    Failure::new(
        hw_code::HW_E_SIZE,
        "the size field of a struct is to be sizeof that struct, set by the program that is compiled \
         with hoistway.h",
    )
}

/// Reads a struct whose caller may know fewer fields, or more as long as those are zero.
#[inline]
pub unsafe fn get_sized<T: Sized32>(at: *const T, what: &'static str) -> Result<T, Failure> {
    check(at, what)?;
    // SAFETY: the caller's struct begins with its size.
    let size = unsafe { at.cast::<u32>().read() } as usize;
    if size == size_of::<T>() {
        // SAFETY: the caller says that there are so many bytes, and any bytes are a `T`.
        return Ok(unsafe { at.read() });
    }
    if !(T::FIRST..=MOST_SIZE).contains(&size) {
        return Err(wrong_size());
    }
    // SAFETY: the caller says that there are `size` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size) };
    if bytes.iter().skip(size_of::<T>()).any(|&b| b != 0) {
        return Err(Failure::new(
            hw_code::HW_E_SIZE,
            "a field that this library does not know is not zero: it is older than the header",
        ));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are within both; zeroes and any bytes are a `T`.
    unsafe {
        value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(at.cast(), known);
        Ok(value.assume_init())
    }
}

/// Writes as much of a struct as its caller knows; the size field stays.
pub unsafe fn put_sized<T: Sized32>(
    at: *mut T,
    value: &T,
    what: &'static str,
) -> Result<(), Failure> {
    check(at, what)?;
    // SAFETY: the caller's struct begins with its size.
    let size = unsafe { at.cast::<u32>().read() } as usize;
    if !(T::FIRST..=MOST_SIZE).contains(&size) {
        return Err(wrong_size());
    }
    let known = size.min(size_of::<T>()) - size_of::<u32>();
    // SAFETY: both have `known` bytes behind their size.
    unsafe {
        let to = at.cast::<u8>().add(size_of::<u32>());
        let from = std::ptr::from_ref(value).cast::<u8>().add(size_of::<u32>());
        to.copy_from_nonoverlapping(from, known);
    }
    Ok(())
}

/// Writes one value.
#[inline]
pub unsafe fn put<T>(at: *mut T, value: T, what: &'static str) -> Result<(), Failure> {
    check(at, what)?;
    // SAFETY: the caller says that it can be written.
    unsafe { at.write(value) };
    Ok(())
}

/// Room for events or pieces.
#[inline]
pub unsafe fn room<'a, T>(
    at: *mut T,
    count: u32,
    what: &'static str,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    /// What one call fills at most, so that a slice never exceeds the address space.
    const MOST: u32 = 1 << 20;
    if count == 0 {
        return Ok(&mut []);
    }
    check(at, what)?;
    // SAFETY: the caller has room for `count` of them and no other use for it during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), count.min(MOST) as usize) })
}

/// A text of the caller.
pub unsafe fn text<'a>(at: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    check(at, what)?;
    // SAFETY: the caller says that it ends with a zero byte, and changes it not during the call.
    let bytes = unsafe { CStr::from_ptr(at) }.to_bytes();
    if bytes.len() > HW_TEXT as usize {
        return Err(Failure::new(hw_code::HW_E_TEXT, "a text is longer than HW_TEXT"));
    }
    std::str::from_utf8(bytes).map_err(|_| Failure::new(hw_code::HW_E_TEXT, "a text is not UTF-8"))
}

/// A text, or the empty one for NULL.
pub unsafe fn optional_text<'a>(at: *const c_char) -> Result<&'a str, Failure> {
    if at.is_null() {
        return Ok("");
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { text(at, "") }
}

/// Writes a text as `snprintf` does: cut to `room` bytes with the zero at the end, at the border of a
/// character. Its whole length without the zero.
pub unsafe fn put_text(to: *mut c_char, room: usize, text: &str) -> usize {
    if to.is_null() || room == 0 {
        return text.len();
    }
    let cut = boundary(text, room - 1);
    // SAFETY: the caller has `room` bytes, and `cut` is below.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), cut);
        to.add(cut).write(0);
    }
    text.len()
}

/// As `str::floor_char_boundary`, which is younger than the oldest compiler that is supported.
fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}
