//! The status codes that the C functions return, and a short text for each. A code's number never changes.

use std::ffi::CStr;

/// The call succeeded.
pub const PERDURA_OK: i32 = 0;
/// An invalid argument: an unknown mode, purpose or kind, a misaligned pointer, a text that is not
/// UTF-8, sizes that no pool can have.
pub const PERDURA_ERR_INVALID: i32 = 1;
/// A null pointer, where none is allowed.
pub const PERDURA_ERR_NULL: i32 = 2;
/// The pool, session, map or cursor is closed or deleted, or was never open.
pub const PERDURA_ERR_HANDLE: i32 = 3;
/// The session is in use by another thread, or its transaction was begun by another one.
pub const PERDURA_ERR_THREAD: i32 = 4;
/// A transaction is open, and must be ended first.
pub const PERDURA_ERR_TX_OPEN: i32 = 5;
/// No transaction is open, and one must be begun first.
pub const PERDURA_ERR_NO_TX: i32 = 6;
/// A write in a transaction that only reads.
pub const PERDURA_ERR_READ_ONLY: i32 = 7;
/// The offset is outside of the pool, or this call may not access the bytes there.
pub const PERDURA_ERR_OFFSET: i32 = 8;
/// An earlier call in the transaction failed: the transaction was rolled back, or can only be
/// rolled back.
pub const PERDURA_ERR_ROLLED_BACK: i32 = 9;
/// No room is left: in the pool, on the disk, or in the address space.
pub const PERDURA_ERR_FULL: i32 = 10;
/// The transaction is too large for the pool's log.
pub const PERDURA_ERR_TOO_LARGE: i32 = 11;
/// The limit of open sessions, or of open pools, is reached.
pub const PERDURA_ERR_TOO_MANY: i32 = 12;
/// The pool cannot be closed: sessions of it are open.
pub const PERDURA_ERR_BUSY: i32 = 13;
/// The pool is open elsewhere: in another process, or in this one.
pub const PERDURA_ERR_IN_USE: i32 = 14;
/// There is no such file.
pub const PERDURA_ERR_NOT_FOUND: i32 = 15;
/// The file to create exists already.
pub const PERDURA_ERR_EXISTS: i32 = 16;
/// The operating system denies access.
pub const PERDURA_ERR_PERMISSION: i32 = 17;
/// The file is no pool.
pub const PERDURA_ERR_NOT_A_POOL: i32 = 18;
/// The pool's format is of another version.
pub const PERDURA_ERR_VERSION: i32 = 19;
/// The pool is damaged.
pub const PERDURA_ERR_CORRUPT: i32 = 20;
/// The engine, or the persistence domain, is unknown or not available here.
pub const PERDURA_ERR_UNSUPPORTED: i32 = 21;
/// The memory is weaker than the pool requires: committed transactions would survive the death of
/// the process, for example, but no power cut.
pub const PERDURA_ERR_WEAKER: i32 = 22;
/// The pool was in use by an engine without crash consistency when its process ended: its contents
/// are undefined.
pub const PERDURA_ERR_NOT_CONSISTENT: i32 = 23;
/// The medium, or the operating system, failed.
pub const PERDURA_ERR_IO: i32 = 24;
/// The pool was opened before this process was forked: only the parent may use it.
pub const PERDURA_ERR_FORKED: i32 = 25;
/// A bug of the library made the call fail. If it happened in a session, this session can only be
/// closed.
pub const PERDURA_ERR_PANIC: i32 = 26;
/// Another failure: see the message.
pub const PERDURA_ERR_OTHER: i32 = 27;
/// The root of this name is no map, or a map of another kind or of other types of keys or values.
pub const PERDURA_ERR_TYPE: i32 = 28;
/// The cursor has lost its place: entries were inserted or removed since.
pub const PERDURA_ERR_STALE: i32 = 29;
/// The section would wait for itself: abort it, and run it again if it waited for others.
pub const PERDURA_ERR_DEADLOCK: i32 = 30;

/// The text of each code, at the index that is its number.
const TEXTS: [&CStr; 31] = [
    c"no error",
    c"an invalid argument",
    c"a null pointer",
    c"closed, or never open",
    c"in use by another thread",
    c"a transaction is open",
    c"no transaction is open",
    c"a write in a transaction that only reads",
    c"an offset outside of what may be touched",
    c"the transaction is rolled back",
    c"no room is left",
    c"the transaction is too large for the log",
    c"no further session or pool can be opened",
    c"sessions of the pool are open",
    c"the pool is in use elsewhere",
    c"no such file",
    c"there is a file already",
    c"permission denied",
    c"not a pool",
    c"a pool of another format version",
    c"the pool is damaged",
    c"unknown or unsupported engine or persistence domain",
    c"transactions would outlive less than the pool asks for",
    c"the pool was left without crash consistency",
    c"the medium or the operating system failed",
    c"opened before this process was forked",
    c"the library failed inside",
    c"another failure",
    c"not a map of this kind and these types",
    c"the cursor is stale",
    c"the section would wait for itself",
];

/// The text of a code.
pub(crate) fn text(code: i32) -> &'static CStr {
    let known = usize::try_from(code).ok().and_then(|code| TEXTS.get(code));
    known.copied().unwrap_or(c"no code of this library")
}
