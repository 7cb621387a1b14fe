//! The part of SQLite's binary interface that a VFS needs, as in `sqlite3.h` and `sqlite3ext.h`.
//!
//! It is declared here, not taken from a crate: the extension runs in any SQLite from 3.31 on, and links none.

use std::ffi::{c_char, c_int, c_void};

pub(crate) const OPEN_READONLY: c_int = 0x1;
pub(crate) const OPEN_READWRITE: c_int = 0x2;
pub(crate) const OPEN_CREATE: c_int = 0x4;
pub(crate) const OPEN_MEMORY: c_int = 0x80;
pub(crate) const OPEN_MAIN_DB: c_int = 0x100;
pub(crate) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(crate) const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub(crate) const OPEN_WAL: c_int = 0x80000;

pub(crate) const ACCESS_EXISTS: c_int = 0;

pub(crate) const FCNTL_LOCKSTATE: c_int = 1;
pub(crate) const FCNTL_SIZE_HINT: c_int = 5;
pub(crate) const FCNTL_CHUNK_SIZE: c_int = 6;
pub(crate) const FCNTL_VFSNAME: c_int = 12;
pub(crate) const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub(crate) const FCNTL_PRAGMA: c_int = 14;
pub(crate) const FCNTL_MMAP_SIZE: c_int = 18;
pub(crate) const FCNTL_HAS_MOVED: c_int = 20;
pub(crate) const FCNTL_SYNC: c_int = 21;
pub(crate) const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub(crate) const FCNTL_PDB: c_int = 30;

pub(crate) const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;

/// `sqlite3_file`.
#[repr(C)]
pub(crate) struct File {
    pub(crate) methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 1: neither shared memory for a WAL nor mapped pages.
#[repr(C)]
pub(crate) struct IoMethods {
    pub(crate) version: c_int,
    pub(crate) close: unsafe extern "C" fn(*mut File) -> c_int,
    pub(crate) read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub(crate) write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub(crate) truncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    pub(crate) sync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub(crate) file_size: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    pub(crate) lock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub(crate) unlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub(crate) check_reserved_lock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    pub(crate) file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub(crate) sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    pub(crate) device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
}

type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 1.
#[repr(C)]
pub(crate) struct Vfs {
    pub(crate) version: c_int,
    pub(crate) file_bytes: c_int,
    pub(crate) path_max: c_int,
    pub(crate) next: *mut Vfs,
    pub(crate) name: *const c_char,
    pub(crate) data: *mut c_void,
    pub(crate) open:
        unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    pub(crate) delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub(crate) access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub(crate) full_pathname:
        unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub(crate) dl_open: unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void,
    pub(crate) dl_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char),
    pub(crate) dl_sym: unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol,
    pub(crate) dl_close: unsafe extern "C" fn(*mut Vfs, *mut c_void),
    pub(crate) randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) current_time: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub(crate) last_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
}

/// The functions of SQLite that are called here.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub(crate) vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub(crate) uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    pub(crate) db_filename: unsafe extern "C" fn(*mut c_void, *const c_char) -> *const c_char,
    pub(crate) get_autocommit: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(crate) next_stmt: unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void,
    pub(crate) stmt_busy: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(crate) stmt_readonly: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// The places of these functions in `sqlite3_api_routines`, whose order never changes.
pub(crate) mod routines {
    pub(crate) const GET_AUTOCOMMIT: usize = 60;
    pub(crate) const LIBVERSION_NUMBER: usize = 67;
    pub(crate) const MALLOC: usize = 68;
    pub(crate) const VFS_FIND: usize = 141;
    pub(crate) const VFS_REGISTER: usize = 142;
    pub(crate) const NEXT_STMT: usize = 152;
    pub(crate) const DB_FILENAME: usize = 180;
    pub(crate) const STMT_BUSY: usize = 184;
    pub(crate) const STMT_READONLY: usize = 185;
    pub(crate) const URI_PARAMETER: usize = 189;
}
