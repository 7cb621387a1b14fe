//! Transactions, and what is done in them.

use super::call;
use super::pointers::{self, Out};
use crate::fail::Result;
use crate::sessions::Session;
use crate::types::*;
use crate::{memory, sessions};
use std::ffi::{c_char, c_int, c_void};

/// Puts the result of `body` where C wants it. A wrong pointer to that place is a failure inside
/// the transaction, as others are.
pub(super) fn give<T: Copy>(
    session: perdura_session,
    to: Result<Out<T>>,
    body: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<()> {
    sessions::run(session.id, |session| {
        let to = to?;
        to.put(body(session)?);
        Ok(())
    })
}

/// Begins a transaction: `PERDURA_READ` or `PERDURA_WRITE`. Waits for the transactions that must finish first.
/// The thread that begins it must end it, and has no other one open on the pool meanwhile.
///
/// A call that fails inside a transaction leaves it to be rolled back: what follows in it fails
/// too, perdura_commit included, until perdura_commit, perdura_submit or perdura_abort ends it.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_begin(session: perdura_session, mode: c_int) -> c_int {
    call(|| {
        let mode = memory::mode(mode);
        sessions::run(session.id, |session| session.begin(mode?))
    })
}

/// Begins a section, in a pool of the engine `atlas`: perdura_lock takes locks of the program in it, and what is
/// written between the first lock and the end of the section is there whole or not at all after a power cut, together
/// with what the section has seen of others. It is written in place at once, so that who has the lock next sees it.
/// Data belongs to one lock, or to transactions.
///
/// A section is ended as a transaction is: by perdura_commit, perdura_submit or perdura_abort, which release its
/// locks. A call that fails in it leaves it with its locks, to be rolled back.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_begin_section(session: perdura_session) -> c_int {
    call(|| sessions::run(session.id, |session| session.begin_section()))
}

/// Takes the lock with this number, which the program chooses, for the open section, after waiting for the section
/// that has it. PERDURA_ERR_DEADLOCK if it would wait for itself, also by way of others: abort the section, and run
/// it again if it waited for others.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_lock(session: perdura_session, lock: u64) -> c_int {
    call(|| sessions::run(session.id, |session| session.lock(lock)))
}

/// Releases a lock of the open section before its end. From then on others may see what the section has written, so
/// that it cannot be rolled back any more: if it fails or is aborted after it has written, nothing is committed to the
/// pool until it is opened again, which undoes the section and all that followed it.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_unlock(session: perdura_session, lock: u64) -> c_int {
    call(|| sessions::run(session.id, |session| session.unlock(lock)))
}

/// Commits, and returns when that is durable: what PERDURA_OK acknowledges outlives what
/// perdura_pool_info says. After an error the transaction has changed nothing, except after
/// PERDURA_ERR_IO: it may or may not be there when the pool is opened again.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_commit(session: perdura_session) -> c_int {
    call(|| sessions::run(session.id, |session| session.commit()))
}

/// Commits logically: others see it, and what commits later is durable later. The ticket, if
/// `ticket` is not NULL, is for the durable commit.
///
/// # Safety
/// `ticket` is NULL or points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_submit(
    session: perdura_session,
    ticket: *mut perdura_ticket,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::optional(ticket, "ticket", 0) };
        sessions::run(session.id, |session| {
            let (to, ticket) = (to?, session.submit()?);
            to.iter().for_each(|to| to.put(ticket.0));
            Ok(())
        })
    })
}

/// Rolls the transaction back: nothing has happened.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_abort(session: perdura_session) -> c_int {
    call(|| sessions::run(session.id, |session| session.abort()))
}

/// Returns when the commit with this ticket, and every one before it on the pool, is durable. Any
/// session of the pool may wait, between its transactions.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_wait(session: perdura_session, ticket: perdura_ticket) -> c_int {
    call(|| sessions::run(session.id, |session| session.wait(ticket)))
}

/// Sets `durable` to 1 if the commit with this ticket is known to be durable, else to 0.
///
/// # Safety
/// `durable` points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_is_durable(
    session: perdura_session,
    ticket: perdura_ticket,
    durable: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(durable, "durable", 0) };
        give(session, to, |session| Ok(i32::from(session.is_durable(ticket)?)))
    })
}

/// Copies `len` bytes at `at` to `to`. A transaction sees its own writes.
///
/// # Safety
/// `to` points to `len` bytes that nothing else uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_read(
    session: perdura_session,
    at: perdura_offset,
    to: *mut c_void,
    len: usize,
) -> c_int {
    call(|| {
        sessions::run(session.id, |session| {
            session.check_inside(at, len as u64)?;
            // SAFETY: the caller's promise; a pool can hold `len` bytes.
            let to = unsafe { pointers::bytes_mut(to, len) }?;
            memory::read(session, at, to)
        })
    })
}

/// Copies `len` bytes from `from` to `at`. They must lie in one object that perdura_alloc gave.
///
/// # Safety
/// `from` points to `len` bytes that do not change meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_write(
    session: perdura_session,
    at: perdura_offset,
    from: *const c_void,
    len: usize,
) -> c_int {
    call(|| {
        sessions::run(session.id, |session| {
            session.check_inside(at, len as u64)?;
            // SAFETY: the caller's promise; a pool can hold `len` bytes.
            let from = unsafe { pointers::bytes(from, len, "from") }?;
            memory::write(session, at, from)
        })
    })
}

/// As perdura_write, for an object that this very transaction has allocated: it may then bypass
/// the log, which is faster for large ones. `at` is a multiple of 8, and the bytes up to the next
/// multiple of 8 after the end may be overwritten too.
///
/// # Safety
/// As perdura_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_write_fresh(
    session: perdura_session,
    at: perdura_offset,
    from: *const c_void,
    len: usize,
) -> c_int {
    call(|| {
        sessions::run(session.id, |session| {
            session.check_inside(at, len as u64)?;
            // SAFETY: the caller's promise; a pool can hold `len` bytes.
            let from = unsafe { pointers::bytes(from, len, "from") }?;
            memory::write_fresh(session, at, from)
        })
    })
}

/// Reads the word at `at`, a multiple of 8.
///
/// # Safety
/// `value` points to a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_read_u64(
    session: perdura_session,
    at: perdura_offset,
    value: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(value, "value", 0) };
        give(session, to, |session| memory::read_word(session, at))
    })
}

/// Writes the word at `at`, a multiple of 8, in an object that perdura_alloc gave.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_write_u64(
    session: perdura_session,
    at: perdura_offset,
    value: u64,
) -> c_int {
    call(|| sessions::run(session.id, |session| memory::write_word(session, at, value)))
}

/// Allocates at least `len` bytes for a purpose (`PERDURA_GENERAL`, `PERDURA_KEY`,
/// `PERDURA_VALUE`, `PERDURA_LOG`): objects of one purpose share pages, so that what is written
/// together is flushed together. They are aligned to 8, from 33 bytes on to 64. What is in them is
/// undefined: fill them before anything refers to them. If the transaction is rolled back, they
/// were never allocated.
///
/// # Safety
/// `at` points to an offset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_alloc(
    session: perdura_session,
    purpose: c_int,
    len: u64,
    at: *mut perdura_offset,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(at, "at", 0) };
        give(session, to, |session| memory::alloc(session, purpose, len))
    })
}

/// Frees the object that perdura_alloc gave at `at`.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_free(session: perdura_session, at: perdura_offset) -> c_int {
    call(|| sessions::run(session.id, |session| memory::free(session, at, None)))
}

/// Says how many bytes the object at `at` has: what was asked for, rounded up.
///
/// # Safety
/// `bytes` points to a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_usable_size(
    session: perdura_session,
    at: perdura_offset,
    bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(bytes, "bytes", 0) };
        give(session, to, |session| memory::usable(session, at))
    })
}

/// Looks up the named root. `at` is 0 if there is none. `kind`, which may be NULL, is what
/// perdura_root_set was given.
///
/// # Safety
/// `name` is a text, `at` points to an offset, `kind` is NULL or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_root_get(
    session: perdura_session,
    name: *const c_char,
    at: *mut perdura_offset,
    kind: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (at, to_kind, name) = unsafe {
            (Out::new(at, "at", 0), Out::optional(kind, "kind", 0), pointers::text(name, "name"))
        };
        sessions::run(session.id, |session| {
            let (at, to_kind, name) = (at?, to_kind?, name?);
            if let Some(root) = memory::root(session, name)? {
                at.put(root.at);
                to_kind.iter().for_each(|to| to.put(root.kind));
            }
            Ok(())
        })
    })
}

/// Sets the named root, with which the next run finds its data; removes it if `at` is 0. What it
/// referred to before stays allocated. `kind` says what is there: a number of the program's own,
/// from `PERDURA_FIRST_KIND` on. A name has 1 to 255 bytes of UTF-8.
///
/// # Safety
/// `name` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_root_set(
    session: perdura_session,
    name: *const c_char,
    at: perdura_offset,
    kind: u32,
) -> c_int {
    call(|| {
        sessions::run(session.id, |session| {
            // SAFETY: the caller's promise.
            let name = unsafe { pointers::text(name, "name") }?;
            memory::set_root(session, name, at, kind)
        })
    })
}
