//! The methods of an open file.

use super::abi::{self, Api, File, IoMethods};
use super::guarded;
use crate::codes::{IOERR, NOTFOUND, OK, Result};
use crate::connection::{OpenDatabase, Statements};
use crate::journal::Journal;
use crate::pragma::{self, Answer};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// What a file is.
pub(super) enum Opened {
    Database(Box<OpenDatabase>),
    Journal(Journal),
}

/// A file of ours, in the memory that SQLite gives it.
#[repr(C)]
pub(super) struct OurFile {
    base: File,
    state: *mut FileState,
}

/// The rest of the file.
struct FileState {
    opened: Opened,
    /// The name in SQLite's memory, as it was opened; only compared.
    name: *const c_char,
    api: Api,
    /// Where SQLite says which of its connections uses the file.
    connection: *const *mut c_void,
}

/// The running statements of the connection.
struct Running(Api, *mut c_void);

impl Running {
    /// Calls `each` with the statements that run, until it returns false.
    fn each(&self, mut each: impl FnMut(*mut c_void) -> bool) {
        let Running(api, connection) = self;
        let mut statement = ptr::null_mut();
        while !connection.is_null() {
            // SAFETY: SQLite has called us for this connection, whose mutex this thread holds; its statements are
            // there meanwhile.
            let is_running = unsafe {
                statement = (api.next_stmt)(*connection, statement);
                !statement.is_null() && (api.stmt_busy)(statement) != 0
            };
            if statement.is_null() || is_running && !each(statement) {
                return;
            }
        }
    }
}

impl Statements for Running {
    fn is_writing(&self) -> bool {
        let mut is_writing = false;
        self.each(|statement| {
            // SAFETY: a statement of the connection.
            is_writing = unsafe { (self.0.stmt_readonly)(statement) == 0 };
            !is_writing
        });
        is_writing
    }

    fn is_transaction(&self) -> bool {
        let Running(api, connection) = self;
        // SAFETY: SQLite has called us for this connection.
        if connection.is_null() || unsafe { (api.get_autocommit)(*connection) } == 0 {
            return false;
        }
        let mut count = 0;
        self.each(|_| {
            count += 1;
            count < 2
        });
        count == 1
    }
}

static METHODS: IoMethods = IoMethods {
    version: 1,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
};

/// Fills the file with what was opened.
///
/// # Safety
/// `file` points to memory for an [`OurFile`].
pub(super) unsafe fn fill(file: *mut File, opened: Opened, name: *const c_char, api: Api) {
    let state = Box::new(FileState { opened, name, api, connection: ptr::null() });
    let filled = OurFile { base: File { methods: &METHODS }, state: Box::into_raw(state) };
    // SAFETY: the caller's promise.
    unsafe { file.cast::<OurFile>().write(filled) };
}

impl FileState {
    fn running(&self) -> Running {
        let connection = match self.connection.is_null() {
            true => ptr::null_mut(),
            // SAFETY: a field of SQLite's object that this file belongs to, and that outlives it.
            false => unsafe { *self.connection },
        };
        Running(self.api, connection)
    }
}

/// The state of a file of ours.
///
/// # Safety
/// `file` was filled by [`fill`] and is not closed, and no other thread uses it.
unsafe fn state<'a>(file: *mut File) -> &'a mut FileState {
    // SAFETY: the caller's promise.
    unsafe { &mut *(*file.cast::<OurFile>()).state }
}

/// Runs the body on the file, unless the process is a child that was forked.
///
/// # Safety
/// As [`state`].
unsafe fn on(
    file: *mut File,
    database: impl FnOnce(&mut OpenDatabase, &Running) -> Result,
    journal: impl FnOnce(&mut Journal) -> Result,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let state = unsafe { state(file) };
        let running = state.running();
        match &mut state.opened {
            Opened::Database(open) if open.is_forked() => Err(IOERR),
            Opened::Database(open) => database(open, &running),
            Opened::Journal(open) => journal(open),
        }
    })
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    let mut code = OK;
    let caught = guarded(|| {
        // SAFETY: SQLite closes a file once; the box is the one that `fill` made.
        let mut state = unsafe { Box::from_raw((*file.cast::<OurFile>()).state) };
        // SAFETY: the file is SQLite's, and has no methods from here on.
        unsafe { (*file).methods = ptr::null() };
        if let Opened::Database(open) = &mut state.opened {
            code = open.close();
        }
        Ok(())
    });
    if caught == OK { code } else { caught }
}

unsafe extern "C" fn read(file: *mut File, to: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite's buffer has `len` bytes.
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len as usize) };
    // SAFETY: the caller is SQLite.
    unsafe {
        on_with(
            file,
            to,
            |open, running, to| open.read(to, at as u64, running),
            |journal, to| journal.read(to, at as u64),
        )
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite's buffer has `len` bytes.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len as usize) };
    // SAFETY: the caller is SQLite.
    unsafe {
        on(file, |open, _| open.write(from, at as u64), |journal| journal.write(from, at as u64))
    }
}

/// As [`on`], with a value that either body uses.
///
/// # Safety
/// As [`state`].
unsafe fn on_with<T>(
    file: *mut File,
    with: T,
    database: impl FnOnce(&mut OpenDatabase, &Running, T) -> Result,
    journal: impl FnOnce(&mut Journal, T) -> Result,
) -> c_int {
    let with = std::cell::Cell::new(Some(with));
    let take = || with.take().ok_or(IOERR);
    // SAFETY: the caller's promise.
    unsafe {
        on(file, |open, running| database(open, running, take()?), |open| journal(open, take()?))
    }
}

unsafe extern "C" fn truncate(file: *mut File, length: i64) -> c_int {
    let length = length as u64;
    // SAFETY: the caller is SQLite.
    unsafe { on(file, |open, _| open.truncate(length), |journal| journal.truncate(length)) }
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: the caller is SQLite.
    unsafe {
        on(
            file,
            |open, _| {
                open.sync();
                Ok(())
            },
            |_| Ok(()),
        )
    }
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    let set = |length: u64| {
        // SAFETY: SQLite passes a place for the size.
        unsafe { *size = length as i64 };
        Ok(())
    };
    // SAFETY: the caller is SQLite.
    unsafe { on(file, |open, _| set(open.length()), |journal| set(journal.length())) }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: the caller is SQLite.
    unsafe { on(file, |open, running| open.lock(level, running), |_| Ok(())) }
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: the caller is SQLite.
    unsafe { on(file, |open, _| open.unlock(level), |_| Ok(())) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, result: *mut c_int) -> c_int {
    let set = |is_reserved: bool| {
        // SAFETY: SQLite passes a place for the answer.
        unsafe { *result = c_int::from(is_reserved) };
        Ok(())
    };
    // SAFETY: the caller is SQLite.
    unsafe { on(file, |open, _| set(open.is_reserved()), |_| set(false)) }
}

unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    512
}

unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    abi::IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn file_control(
    file: *mut File,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    if operation == abi::FCNTL_PDB {
        // In a shared cache it comes again for each connection, without the lock that other calls have, so that another
        // thread may use the state.
        // SAFETY: the caller is SQLite; the field was set before the file was shared, and is not changed after that.
        let known = unsafe { (&raw const (*(*file.cast::<OurFile>()).state).connection).read() };
        if known.cast_mut().cast() == argument {
            return OK;
        }
        return guarded(|| {
            // SAFETY: the caller is SQLite; the argument points to a field of an object that outlives the file.
            let (state, connection) = unsafe { (state(file), *argument.cast::<*mut c_void>()) };
            state.connection = argument.cast();
            // SAFETY: the connection's mutex is this thread's.
            let main = unsafe { (state.api.db_filename)(connection, c"main".as_ptr()) };
            let is_main = main.is_null() || main == state.name;
            match &mut state.opened {
                Opened::Database(open) if !open.is_forked() => {
                    open.join(connection.addr(), is_main)
                }
                _ => {}
            }
            Ok(())
        });
    }
    // SAFETY: the caller is SQLite.
    let api = unsafe { state(file).api };
    // SAFETY: the caller is SQLite; what the argument points to depends on the operation, as documented.
    unsafe { on(file, |open, _| control(open, api, operation, argument), |_| Err(NOTFOUND)) }
}

/// A file control of a database.
///
/// # Safety
/// The argument is what SQLite documents for the operation.
unsafe fn control(
    open: &mut OpenDatabase,
    api: Api,
    operation: c_int,
    argument: *mut c_void,
) -> Result {
    let set = |value: c_int| {
        // SAFETY: these operations' argument is a place for a number.
        unsafe { *argument.cast::<c_int>() = value };
        Ok(())
    };
    match operation {
        // Room is made by the commit; a hint costs nothing.
        abi::FCNTL_SIZE_HINT | abi::FCNTL_CHUNK_SIZE => Ok(()),
        abi::FCNTL_SYNC => {
            open.end_phase_one();
            Ok(())
        }
        abi::FCNTL_COMMIT_PHASETWO => open.commit(),
        abi::FCNTL_LOCKSTATE => set(open.level()),
        abi::FCNTL_POWERSAFE_OVERWRITE => set(1),
        abi::FCNTL_HAS_MOVED => set(c_int::from(open.has_failed())),
        abi::FCNTL_MMAP_SIZE => {
            // Pages are not mapped, whatever was asked for.
            // SAFETY: the argument is a place for a 64-bit number.
            unsafe { *argument.cast::<i64>() = 0 };
            Ok(())
        }
        abi::FCNTL_VFSNAME => {
            // SAFETY: the argument is a place for a text that SQLite frees.
            unsafe { *argument.cast::<*mut c_char>() = text(api, "perdura") };
            Ok(())
        }
        abi::FCNTL_PRAGMA => {
            // SAFETY: the argument is an array: a place for the answer, the pragma's name, and its value or null.
            unsafe {
                let texts = argument.cast::<*mut c_char>();
                let read = |index: usize| {
                    let text: *mut c_char = *texts.add(index);
                    (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
                };
                let name = read(1).unwrap_or_default();
                match pragma::answer(open, &name, read(2).as_deref()) {
                    Answer::Pass => Err(NOTFOUND),
                    Answer::Text(answer) => {
                        *texts = self::text(api, &answer);
                        Ok(())
                    }
                }
            }
        }
        _ => Err(NOTFOUND),
    }
}

/// A text in SQLite's memory; null if there is none.
fn text(api: Api, text: &str) -> *mut c_char {
    let bytes = text.as_bytes();
    // SAFETY: as many bytes are allocated as are written.
    unsafe {
        let new = (api.malloc)(bytes.len() as c_int + 1).cast::<u8>();
        if !new.is_null() {
            ptr::copy_nonoverlapping(bytes.as_ptr(), new, bytes.len());
            *new.add(bytes.len()) = 0;
        }
        new.cast()
    }
}
