//! One table as Arrow's stream in C: <https://arrow.apache.org/docs/format/CStreamInterface.html>.

use arrow_data::ArrayData;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::Schema;
use arrow_schema::ffi::FFI_ArrowSchema;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// What `errno.h` calls `EIO`.
const EIO: c_int = 5;

/// `struct ArrowArrayStream`. Whoever takes it over moves the fields out and sets `release` to null here.
#[repr(C)]
#[derive(Debug)]
pub struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut FFI_ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut FFI_ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// What a stream owns.
struct Source {
    schema: Schema,
    /// A structure with a field for each column; `None`: it has been taken.
    batch: Option<ArrayData>,
}

// SAFETY: `private_data` is a `Box<Source>`, which is `Send`, and nothing else has its address.
unsafe impl Send for Stream {}

impl Stream {
    /// The stream of one batch. Its buffers are shared, not copied.
    pub fn of(schema: Schema, batch: ArrayData) -> Stream {
        let source = Box::new(Source { schema, batch: Some(batch) });
        Stream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release),
            private_data: Box::into_raw(source).cast(),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: not released yet, and whoever drops it has the only reference.
            unsafe { release(self) }
        }
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: the interface promises a stream that was not released, and calls from one thread at a time.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    match FFI_ArrowSchema::try_from(&source.schema) {
        Ok(schema) => {
            // SAFETY: the interface promises room for a structure, whose old content is nothing to drop.
            unsafe { ptr::write(out, schema) };
            0
        }
        Err(_) => EIO,
    }
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: as in `get_schema`.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    let next = match source.batch.take() {
        Some(batch) => FFI_ArrowArray::new(&batch),
        // A released array is the end of the stream.
        None => FFI_ArrowArray::empty(),
    };
    // SAFETY: as in `get_schema`.
    unsafe { ptr::write(out, next) };
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    c"the schema of the table cannot be told in C".as_ptr()
}

unsafe extern "C" fn release(stream: *mut Stream) {
    // SAFETY: the interface promises a stream that was not released, so that the box is still there.
    let stream = unsafe { &mut *stream };
    stream.release = None;
    // SAFETY: `Stream::of` made it from a box, and it is given back once.
    drop(unsafe { Box::from_raw(stream.private_data.cast::<Source>()) });
    stream.private_data = ptr::null_mut();
}
