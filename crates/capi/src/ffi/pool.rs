//! Pools and sessions.

use super::call;
use super::pointers::{self, Out};
use crate::fail::Result;
use crate::pools::{self, How};
use crate::sessions;
use crate::types::*;
use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

/// Fills the options with the defaults. `size` is their sizeof.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_options_init(options: *mut perdura_options, size: usize) -> c_int {
    call(|| {
        let (engine, domain) = (std::ptr::null(), std::ptr::null());
        let defaults = perdura_options {
            struct_size: size,
            size: 0,
            log_size: 0,
            engine,
            domain,
            flags: 0,
            must_outlive: 0,
        };
        // SAFETY: the caller's promise.
        unsafe { pointers::put_sized(options, "options", size, &defaults) }
    })
}

/// Makes a new pool in a file that is not there yet. `options` may be NULL.
///
/// # Safety
/// `path` is a text; `options` is as perdura_options_init left it but for its fields; `pool`
/// points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_pool_create(
    path: *const c_char,
    options: *const perdura_options,
    pool: *mut perdura_pool,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { open(How::Create, path, options, pool) })
}

/// Opens a pool, and recovers it first if it was not closed. One process at a time may have a
/// pool open, and only once. A pool that was closed opens with any engine; after a crash the
/// recovery of the engine that wrote it runs first. `options` may be NULL.
///
/// # Safety
/// As perdura_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_pool_open(
    path: *const c_char,
    options: *const perdura_options,
    pool: *mut perdura_pool,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { open(How::Open, path, options, pool) })
}

/// Opens the pool if the file is there, makes it if not. `options` may be NULL.
///
/// # Safety
/// As perdura_pool_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_pool_open_or_create(
    path: *const c_char,
    options: *const perdura_options,
    pool: *mut perdura_pool,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { open(How::OpenOrCreate, path, options, pool) })
}

/// # Safety
/// As [`perdura_pool_create`].
unsafe fn open(
    how: How,
    path: *const c_char,
    options: *const perdura_options,
    pool: *mut perdura_pool,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let (pool, path, wanted) = unsafe {
        let pool = Out::new(pool, "pool", perdura_pool::default())?;
        (pool, pointers::path(path)?, pointers::wanted(options)?)
    };
    pool.put(perdura_pool { id: pools::open(how, path, &wanted)? });
    Ok(())
}

/// Closes a pool whose sessions are all closed, and reports whether its medium has failed. A pool
/// that is never closed is recovered when it is opened again: no commit is lost.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_pool_close(pool: perdura_pool) -> c_int {
    call(|| pools::close(pool.id))
}

/// Makes everything committed durable in place and empties the log, so that what was freed can
/// be used again and the next opening has nothing to recover.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_pool_checkpoint(pool: perdura_pool) -> c_int {
    call(|| pools::checkpoint(pool.id))
}

/// Says what the pool is. `size` is the sizeof of `info`.
///
/// # Safety
/// `info` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_pool_info(
    pool: perdura_pool,
    info: *mut perdura_info,
    size: usize,
) -> c_int {
    call(|| {
        let shared = pools::get(pool.id)?;
        let (about, recovery) = (shared.pool.info(), shared.pool.recovery());
        let filled = perdura_info {
            struct_size: size.min(size_of::<perdura_info>()),
            engine: text(&about.engine),
            domain: text(&about.domain.to_string()),
            durability: text(&about.durability),
            survives: about.survives as u32,
            sessions: shared.sessions.load(Ordering::Relaxed),
            file_bytes: about.bytes,
            limit_bytes: about.limit,
            log_bytes: about.log_bytes,
            used_bytes: about.used_bytes,
            free_bytes: about.free_bytes,
            replayed: recovery.replayed,
            rolled_back: recovery.rolled_back,
            discarded: recovery.discarded,
            pinned_bytes: about.pinned_bytes,
            oldest_transaction_ms: about
                .oldest_transaction
                .map_or(0, |age| age.as_millis().try_into().unwrap_or(u64::MAX)),
        };
        // SAFETY: the caller's promise.
        unsafe { pointers::put_sized(info, "info", size, &filled) }
    })
}

/// As much of a text as fits, with a zero byte at its end.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut fits = text.len().min(N - 1);
    while !text.is_char_boundary(fits) {
        fits -= 1;
    }
    let mut to = [0; N];
    for (to, &from) in to.iter_mut().zip(&text.as_bytes()[..fits]) {
        *to = from as c_char;
    }
    to
}

/// Opens a session: one for each thread that uses the pool.
///
/// # Safety
/// `session` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_session_open(
    pool: perdura_pool,
    session: *mut perdura_session,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(session, "session", perdura_session::default()) }?;
        to.put(perdura_session { id: sessions::open(pool.id)? });
        Ok(())
    })
}

/// Closes a session; a transaction that is open is rolled back. Any thread may close it, for
/// instance when the one that used it has died.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_session_close(session: perdura_session) -> c_int {
    call(|| sessions::close(session.id))
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn texts_end_within_their_arrays() {
        assert_eq!(text::<4>("abc"), [97, 98, 99, 0]);
        assert_eq!(text::<4>("abcd"), [97, 98, 99, 0]);
        assert_eq!(text::<4>("abä"), [97, 98, 0, 0], "no half characters");
    }
}
