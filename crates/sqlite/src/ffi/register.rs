//! How SQLite comes to know the VFS: as an extension that it loads, or in a program that links SQLite by rusqlite.

use super::abi::{Api, routines};
use super::vfs;
use crate::codes::{ERROR, OK, OK_LOAD_PERMANENTLY};
use std::ffi::{c_int, c_void};

/// The first SQLite in which a name's parameters are kept as they are read here.
const OLDEST: c_int = 3_031_000;

/// The entry point of an extension that SQLite loads: registers the VFS with the SQLite that has this table of
/// functions. Returns SQLite's result code: the extension stays loaded.
///
/// # Safety
/// `api` is the table that SQLite passes to extensions.
pub unsafe fn load(api: *const *const c_void) -> c_int {
    // SAFETY: SQLite's table has at least these functions, of these types, at these places: they are older than the
    // oldest SQLite that is accepted.
    let api = unsafe {
        let version: unsafe extern "C" fn() -> c_int = routine(api, routines::LIBVERSION_NUMBER);
        if version() < OLDEST {
            return ERROR;
        }
        Api {
            vfs_find: routine(api, routines::VFS_FIND),
            vfs_register: routine(api, routines::VFS_REGISTER),
            malloc: routine(api, routines::MALLOC),
            uri_parameter: routine(api, routines::URI_PARAMETER),
            db_filename: routine(api, routines::DB_FILENAME),
            get_autocommit: routine(api, routines::GET_AUTOCOMMIT),
            next_stmt: routine(api, routines::NEXT_STMT),
            stmt_busy: routine(api, routines::STMT_BUSY),
            stmt_readonly: routine(api, routines::STMT_READONLY),
        }
    };
    match super::guarded(|| vfs::register(api)) {
        OK => OK_LOAD_PERMANENTLY,
        code => code,
    }
}

/// A function of SQLite's table.
///
/// # Safety
/// The table has a function of type `F` at this place.
unsafe fn routine<F: Copy>(api: *const *const c_void, place: usize) -> F {
    // SAFETY: the caller's promise.
    unsafe { *api.add(place).cast::<F>() }
}

/// Registers the VFS `perdura` with the SQLite that this program links by rusqlite, for the life of the process. It
/// does no harm to call it again.
///
/// # Errors
/// SQLite's result code.
#[cfg(feature = "rusqlite")]
pub fn register() -> Result<(), c_int> {
    use rusqlite::ffi;
    use std::ffi::c_char;

    unsafe extern "C" fn vfs_find(name: *const c_char) -> *mut super::abi::Vfs {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_vfs_find(name).cast() }
    }

    unsafe extern "C" fn vfs_register(vfs: *mut super::abi::Vfs, is_default: c_int) -> c_int {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_vfs_register(vfs.cast(), is_default) }
    }

    unsafe extern "C" fn db_filename(
        connection: *mut c_void,
        name: *const c_char,
    ) -> *const c_char {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_db_filename(connection.cast(), name).cast() }
    }

    unsafe extern "C" fn get_autocommit(connection: *mut c_void) -> c_int {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_get_autocommit(connection.cast()) }
    }

    unsafe extern "C" fn next_stmt(connection: *mut c_void, after: *mut c_void) -> *mut c_void {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_next_stmt(connection.cast(), after.cast()).cast() }
    }

    unsafe extern "C" fn stmt_busy(statement: *mut c_void) -> c_int {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_stmt_busy(statement.cast()) }
    }

    unsafe extern "C" fn stmt_readonly(statement: *mut c_void) -> c_int {
        // SAFETY: the caller's promise is SQLite's own.
        unsafe { ffi::sqlite3_stmt_readonly(statement.cast()) }
    }

    // SAFETY: SQLite may be initialised at any time, by any thread.
    let initialised = unsafe { ffi::sqlite3_initialize() };
    if initialised != OK {
        return Err(initialised);
    }
    let api = Api {
        vfs_find,
        vfs_register,
        malloc: ffi::sqlite3_malloc,
        uri_parameter: ffi::sqlite3_uri_parameter,
        db_filename,
        get_autocommit,
        next_stmt,
        stmt_busy,
        stmt_readonly,
    };
    match super::guarded(|| vfs::register(api)) {
        OK => Ok(()),
        code => Err(code),
    }
}
