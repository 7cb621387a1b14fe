//! The VFS `perdura` as an extension that SQLite loads. It links no SQLite: it uses that of the program.
//!
//! A crate of its own, so that programs that link the VFS do not build a shared library too.

use std::ffi::{c_char, c_int, c_void};

/// SQLite calls this when it has loaded the extension. The VFS is there from then on, for all connections of the
/// process.
///
/// # Safety
/// For SQLite only: `api` is its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_perduravfs_init(
    _connection: *mut c_void,
    _message: *mut *mut c_char,
    api: *const *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { perdura_sqlite::load(api) }
}
