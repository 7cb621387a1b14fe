//! The VFS itself: names, opening, and what is passed on to the VFS that was there before.

use super::abi::{self, Api, File, Vfs};
use super::file::{Opened, OurFile, fill};
use super::guarded;
use crate::codes::{CANTOPEN, NOMEM, OK, Result};
use crate::connection::{OpenDatabase, Opening};
use crate::journal::Journal;
use crate::open::{self, Creation};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// The VFS's name.
pub(super) const NAME: &CStr = c"perdura";
const PATH_MAX: c_int = 4096;

/// What the VFS has in its `pAppData`.
struct VfsData {
    api: Api,
    /// SQLite's usual VFS, for temporary files, time and extensions.
    base: *mut Vfs,
}

/// Registers the VFS with the SQLite that has these functions; it stays for the life of the process.
pub(super) fn register(api: Api) -> Result {
    // SAFETY: a name that ends, and null for the usual VFS.
    let (there, base) = unsafe { ((api.vfs_find)(NAME.as_ptr()), (api.vfs_find)(ptr::null())) };
    if !there.is_null() {
        return Ok(());
    }
    if base.is_null() {
        return Err(CANTOPEN);
    }
    // SAFETY: SQLite's registered VFS.
    let base_bytes = unsafe { (*base).file_bytes };
    let data = Box::leak(Box::new(VfsData { api, base }));
    let vfs = Box::leak(Box::new(Vfs {
        version: 1,
        file_bytes: base_bytes.max(size_of::<OurFile>() as c_int),
        path_max: PATH_MAX,
        next: ptr::null_mut(),
        name: NAME.as_ptr(),
        data: ptr::from_mut(data).cast(),
        open,
        delete,
        access,
        full_pathname,
        dl_open,
        dl_error,
        dl_sym,
        dl_close,
        randomness,
        sleep,
        current_time,
        last_error,
    }));
    // SAFETY: the VFS is never freed.
    match unsafe { (api.vfs_register)(vfs, 0) } {
        OK => Ok(()),
        code => Err(code),
    }
}

/// # Safety
/// `vfs` is one that [`register`] made.
unsafe fn data<'a>(vfs: *mut Vfs) -> &'a VfsData {
    // SAFETY: the caller's promise; it is never freed.
    unsafe { &*(*vfs).data.cast::<VfsData>() }
}

/// # Safety
/// `name` is a text that ends.
unsafe fn path(name: *const c_char) -> PathBuf {
    // SAFETY: the caller's promise.
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the VFS is ours.
    let &VfsData { api, base } = unsafe { data(vfs) };
    let journals = abi::OPEN_MAIN_JOURNAL | abi::OPEN_SUPER_JOURNAL;
    let is_ours = flags & (abi::OPEN_MAIN_DB | journals | abi::OPEN_WAL) != 0;
    if name.is_null() || !is_ours {
        // A temporary file.
        // SAFETY: the arguments are SQLite's, and the file has room for the usual VFS's.
        return unsafe { ((*base).open)(base, name, file, flags, out) };
    }
    // SAFETY: SQLite closes a file whose methods are set, even if opening it fails.
    unsafe { (*file).methods = ptr::null() };
    guarded(|| {
        if flags & abi::OPEN_WAL != 0 {
            return Err(CANTOPEN);
        }
        if flags & journals != 0 {
            // SAFETY: SQLite's memory for a file.
            unsafe { fill(file, Opened::Journal(Journal::default()), name, api) };
            return Ok(());
        }
        let parameter = |key: &CStr| {
            // SAFETY: the name of a main database is followed by its parameters.
            unsafe {
                let text = (api.uri_parameter)(name, key.as_ptr());
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        // SAFETY: a text of SQLite.
        let (pool, database) = open::split(&unsafe { path(name) })?;
        let how = Creation {
            create: flags & abi::OPEN_CREATE != 0,
            size: parameter(c"size"),
            log: parameter(c"log"),
            engine: parameter(c"engine"),
        };
        let mut pool = Some(open::open(&pool, &how)?);
        let is_on = |key| parameter(key).is_some_and(|text| open::is_on(&text));
        let unlocked = is_on(c"nolock") || is_on(c"immutable");
        let is_writable = pool.as_ref().is_some_and(|pool| !pool.read_only);
        let read_only = flags & abi::OPEN_READWRITE == 0 || unlocked || !is_writable;
        let opening = Opening { create: how.create, read_only, unlocked };
        let opened = match &pool {
            Some(pool) => OpenDatabase::new(pool.clone(), &database, opening),
            None => Err(NOMEM),
        };
        // If it failed, this was perhaps the only use of the pool.
        open::close(&mut pool);
        let opened = Opened::Database(Box::new(opened?));
        let access = if read_only { abi::OPEN_READONLY } else { abi::OPEN_READWRITE };
        // SAFETY: SQLite's memory for a file, and a place for flags or null.
        unsafe {
            fill(file, opened, name, api);
            if !out.is_null() {
                *out =
                    flags & !(abi::OPEN_READONLY | abi::OPEN_READWRITE) | access | abi::OPEN_MEMORY;
            }
        }
        Ok(())
    })
}

/// Calls a method of SQLite's usual VFS.
macro_rules! pass_on {
    ($vfs:ident, $method:ident($($argument:expr),*)) => {{
        // SAFETY: the VFS is ours, and the arguments are SQLite's for the method.
        unsafe {
            let base = data($vfs).base;
            ((*base).$method)(base, $($argument),*)
        }
    }};
}

/// SQLite deletes only journals, which leave nothing here.
unsafe extern "C" fn delete(_: *mut Vfs, _: *const c_char, _: c_int) -> c_int {
    OK
}

/// Of files SQLite asks only whether a database has a journal or a log. None has, whatever lies beside the pool.
unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    if flags != abi::ACCESS_EXISTS {
        // A folder for temporary files.
        return pass_on!(vfs, access(name, flags, result));
    }
    // SAFETY: a place for the answer.
    unsafe { *result = 0 };
    OK
}

unsafe extern "C" fn full_pathname(
    _: *mut Vfs,
    name: *const c_char,
    len: c_int,
    to: *mut c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: a text of SQLite.
        let path = full(&unsafe { path(name) })?;
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() >= len as usize {
            return Err(CANTOPEN);
        }
        // SAFETY: `to` has `len` bytes.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
            *to.add(bytes.len()) = 0;
        }
        Ok(())
    })
}

/// The path with links resolved as far as it exists, so that one database has one name.
fn full(path: &Path) -> Result<PathBuf> {
    let whole = std::path::absolute(path).map_err(|_| CANTOPEN)?;
    if let Ok(found) = whole.canonicalize() {
        return Ok(found);
    }
    let (Some(parent), Some(name)) = (whole.parent(), whole.file_name()) else { return Ok(whole) };
    Ok(parent.canonicalize().map_or_else(|_| whole.clone(), |parent| parent.join(name)))
}

unsafe extern "C" fn dl_open(vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    pass_on!(vfs, dl_open(name))
}

unsafe extern "C" fn dl_error(vfs: *mut Vfs, len: c_int, to: *mut c_char) {
    pass_on!(vfs, dl_error(len, to))
}

unsafe extern "C" fn dl_sym(
    vfs: *mut Vfs,
    library: *mut c_void,
    name: *const c_char,
) -> Option<unsafe extern "C" fn()> {
    pass_on!(vfs, dl_sym(library, name))
}

unsafe extern "C" fn dl_close(vfs: *mut Vfs, library: *mut c_void) {
    pass_on!(vfs, dl_close(library))
}

unsafe extern "C" fn randomness(vfs: *mut Vfs, len: c_int, to: *mut c_char) -> c_int {
    pass_on!(vfs, randomness(len, to))
}

unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    pass_on!(vfs, sleep(microseconds))
}

unsafe extern "C" fn current_time(vfs: *mut Vfs, to: *mut f64) -> c_int {
    pass_on!(vfs, current_time(to))
}

unsafe extern "C" fn last_error(vfs: *mut Vfs, len: c_int, to: *mut c_char) -> c_int {
    pass_on!(vfs, last_error(len, to))
}
