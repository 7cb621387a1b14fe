//! What has gone wrong, and which version this is.

use crate::codes;
use crate::fail;
use std::ffi::{c_char, c_int};

/// The library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn perdura_version() -> *const c_char {
    // The `\0` makes it a text for C.
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A short text for a code. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_error_text(code: c_int) -> *const c_char {
    codes::text(code).as_ptr()
}

/// What went wrong in this thread's last call that failed, and what to do about it. The text is
/// good until the thread's next call that fails; empty if none has.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_last_error() -> *const c_char {
    fail::last_message()
}

/// The code of this thread's last call that failed; PERDURA_OK if none has.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_last_code() -> c_int {
    fail::last_code()
}
