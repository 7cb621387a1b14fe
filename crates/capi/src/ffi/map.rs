//! Maps: found by their names, used in transactions.

use super::call;
use super::pointers::{self, Buffer, Out};
use super::transaction::give;
use crate::codes::PERDURA_ERR_NULL;
use crate::fail::{Fail, Result};
use crate::maps::{self, Entry, Step};
use crate::sessions::{self, Session};
use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

const NO_ENTRY: perdura_entry =
    perdura_entry { key: std::ptr::null(), key_len: 0, value: std::ptr::null(), value_len: 0 };

/// The entry for C, good for as long as `entry` is there and does not change.
fn shown(entry: &Entry) -> perdura_entry {
    perdura_entry {
        key: entry.key.as_ptr().cast(),
        key_len: entry.key.len(),
        value: entry.value.as_ptr().cast(),
        value_len: entry.value.len(),
    }
}

/// Runs `body` with the key, and says whether that was there.
///
/// # Safety
/// `key` and `found` are as [`perdura_map_put`] wants them.
unsafe fn with_key(
    session: perdura_session,
    key: *const c_void,
    key_len: usize,
    found: *mut c_int,
    body: impl FnOnce(&mut Session, &[u8]) -> Result<bool>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let found = unsafe { Out::optional(found, "found", 0) };
    sessions::run(session.id, |session| {
        let found = found?;
        // SAFETY: the caller's promise.
        let key = unsafe { pointers::item(key, key_len, "key", session.limit()) }?;
        let was_there = body(session, key)?;
        found.iter().for_each(|found| found.put(was_there.into()));
        Ok(())
    })
}

/// Opens the map with this name, if there is one; `map->at` is 0 if there is none. Programs in
/// Rust open the same maps. `kind` is what the map was made with: `PERDURA_HASH_MAP` or
/// `PERDURA_ORDERED_MAP`, to which `PERDURA_U64_KEYS`, `PERDURA_U64_VALUES` or both are added where
/// keys or values are uint64_t: these are passed as 8 bytes.
///
/// # Safety
/// `name` is a text, `map` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_open(
    session: perdura_session,
    name: *const c_char,
    kind: c_int,
    map: *mut perdura_map,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (to, name) =
            unsafe { (Out::new(map, "map", perdura_map::default()), pointers::text(name, "name")) };
        give(session, to, |session| Ok(maps::open(session, name?, kind)?.unwrap_or_default()))
    })
}

/// Opens the map with this name; makes an empty one if there is none. A name has 1 to 255 bytes of
/// UTF-8, and is found by perdura_root_get too.
///
/// # Safety
/// As perdura_map_open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_open_or_create(
    session: perdura_session,
    name: *const c_char,
    kind: c_int,
    map: *mut perdura_map,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (to, name) =
            unsafe { (Out::new(map, "map", perdura_map::default()), pointers::text(name, "name")) };
        give(session, to, |session| maps::open_or_create(session, name?, kind))
    })
}

/// Frees the map with this name: about `budget` of its entries, or all of them if that is 0. A map
/// with more entries than one transaction can free (PERDURA_ERR_TOO_LARGE) is deleted by several of
/// them; until the last it is a smaller map. `done`, which may be NULL, is set to 1 if no map with
/// this name is left, else to 0.
///
/// # Safety
/// `name` is a text, `done` is NULL or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_delete(
    session: perdura_session,
    name: *const c_char,
    kind: c_int,
    budget: u64,
    done: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (done, name) =
            unsafe { (Out::optional(done, "done", 0), pointers::text(name, "name")) };
        sessions::run(session.id, |session| {
            let (done, name) = (done?, name?);
            let budget = if budget == 0 { u64::MAX } else { budget };
            let is_gone = maps::delete_some(session, name, kind, budget)?;
            done.iter().for_each(|done| done.put(is_gone.into()));
            Ok(())
        })
    })
}

/// Copies a key's value to `value->to`, but no more than `value->room` bytes of it; `value->len` is
/// the length that it has. With a room of 0 only that is asked for. `found` is set to 1 if the key
/// is there, else to 0.
///
/// # Safety
/// `key` points to `key_len` bytes that do not change meanwhile; `value` points to a buffer whose
/// `to` points to `room` bytes that nothing else uses meanwhile; `found` points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_get(
    session: perdura_session,
    map: perdura_map,
    key: *const c_void,
    key_len: usize,
    value: *mut perdura_buffer,
    found: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (value, to) = unsafe { (Buffer::new(value, "value"), Out::new(found, "found", 0)) };
        let get = |session: &mut Session, key: &[u8]| {
            let value = value?;
            to.and_then(|_| maps::get(session, map, key, &mut |bytes| value.fill(bytes)))
        };
        // SAFETY: the caller's promise.
        unsafe { with_key(session, key, key_len, found, get) }
    })
}

/// Sets a key's value. `found`, which may be NULL, is set to 1 if the key was there before, else
/// to 0.
///
/// # Safety
/// `key` and `value` point to `key_len` and `value_len` bytes that do not change meanwhile;
/// `found` is NULL or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_put(
    session: perdura_session,
    map: perdura_map,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    found: *mut c_int,
) -> c_int {
    call(|| {
        let put = |session: &mut Session, key: &[u8]| {
            // SAFETY: the caller's promise.
            let value = unsafe { pointers::item(value, value_len, "value", session.limit()) }?;
            maps::put(session, map, key, value)
        };
        // SAFETY: the caller's promise.
        unsafe { with_key(session, key, key_len, found, put) }
    })
}

/// Removes a key and its value. `found`, which may be NULL, is set to 1 if it was there, else to 0.
///
/// # Safety
/// `key` points to `key_len` bytes that do not change meanwhile; `found` is NULL or points to an
/// int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_remove(
    session: perdura_session,
    map: perdura_map,
    key: *const c_void,
    key_len: usize,
    found: *mut c_int,
) -> c_int {
    let remove = |session: &mut Session, key: &[u8]| maps::remove(session, map, key);
    // SAFETY: the caller's promise.
    call(|| unsafe { with_key(session, key, key_len, found, remove) })
}

/// Sets `found` to 1 if the key is there, else to 0.
///
/// # Safety
/// As perdura_map_remove.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_contains(
    session: perdura_session,
    map: perdura_map,
    key: *const c_void,
    key_len: usize,
    found: *mut c_int,
) -> c_int {
    let contains = |session: &mut Session, key: &[u8]| maps::contains(session, map, key);
    // SAFETY: the caller's promise.
    call(|| unsafe { with_key(session, key, key_len, found, contains) })
}

/// Says how many entries there are. An ordered map is walked for it.
///
/// # Safety
/// `len` points to a word.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_len(
    session: perdura_session,
    map: perdura_map,
    len: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(len, "len", 0) };
        give(session, to, |session| maps::len(session, map))
    })
}

/// Removes all entries. perdura_map_delete can do the same in several transactions.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_map_clear(session: perdura_session, map: perdura_map) -> c_int {
    call(|| sessions::run(session.id, |session| maps::clear(session, map)))
}

/// Calls `each` with some entries of a hash map, and sets `cursor` to where to go on: begin with 0,
/// and stop when it is 0 again. What is in the map from the first call to the last is given at
/// least once, whatever is inserted and removed in between, also by other transactions and by
/// `each`, which may use the session. A call gives at least `count` entries, unless there are fewer
/// in the next 16 * `count` buckets.
///
/// # Safety
/// `cursor` points to a word; `each` is a function that takes `context` and returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_scan(
    session: perdura_session,
    map: perdura_map,
    cursor: *mut u64,
    count: u64,
    each: perdura_each,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let taken = unsafe { Out::taking(cursor, "cursor", 0) };
        let (each, found) = sessions::run(session.id, |session| {
            let (to, from) = taken?;
            let each = each.ok_or_else(|| {
                Fail::new(PERDURA_ERR_NULL, "the argument each is null: pass a function")
            })?;
            let (next, found) = maps::scan(session, map, from, count)?;
            to.put(next);
            Ok((each, found))
        })?;
        // The session is free by now, so that `each` may use it.
        for entry in &found {
            // SAFETY: the caller's promise; the entry is good until the function returns.
            unsafe { each(context, &shown(entry)) };
        }
        Ok(())
    })
}

/// Opens a cursor on an ordered map, before the first entry whose key is in the range; a bound
/// that is NULL is none. Byte strings are ordered by their bytes, uint64_t by their value. The
/// cursor ends with the transaction, if it is not closed before.
///
/// # Safety
/// `low` and `high` are NULL, or point to a bound whose key is as perdura_map_get wants it;
/// `cursor` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_open(
    session: perdura_session,
    map: perdura_map,
    low: *const perdura_bound,
    high: *const perdura_bound,
    cursor: *mut perdura_cursor,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { Out::new(cursor, "cursor", perdura_cursor::default()) };
        give(session, to, |session| {
            let limit = session.limit();
            // SAFETY: the caller's promise.
            let range = unsafe {
                [pointers::bound(low, "low", limit)?, pointers::bound(high, "high", limit)?]
            };
            Ok(perdura_cursor { id: maps::cursor(session, map, range)? })
        })
    })
}

/// Moves behind the last entry of the range, from where perdura_cursor_prev goes on.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_cursor_to_end(session: perdura_session, cursor: perdura_cursor) -> c_int {
    call(|| sessions::run(session.id, |session| maps::to_end(session, cursor.id)))
}

/// Gives the entry behind the cursor, and moves behind it; `entry->key` is NULL at the end of the
/// range. What `entry` points to is good until the next call with this cursor and until the
/// transaction ends. Insertions and removals in the map can make the cursor stale, which is
/// PERDURA_ERR_STALE; other values for keys that are there do not.
///
/// # Safety
/// `entry` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_next(
    session: perdura_session,
    cursor: perdura_cursor,
    entry: *mut perdura_entry,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { step(session, cursor, entry, Step::Next) })
}

/// Gives the entry before the cursor, and moves before it; `entry->key` is NULL at the beginning of
/// the range. Otherwise as perdura_cursor_next.
///
/// # Safety
/// `entry` points to one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_cursor_prev(
    session: perdura_session,
    cursor: perdura_cursor,
    entry: *mut perdura_entry,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { step(session, cursor, entry, Step::Prev) })
}

/// # Safety
/// As [`perdura_cursor_next`].
unsafe fn step(
    session: perdura_session,
    cursor: perdura_cursor,
    entry: *mut perdura_entry,
    step: Step,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let to = unsafe { Out::new(entry, "entry", NO_ENTRY) };
    sessions::run(session.id, |session| {
        let to = to?;
        maps::step(session, cursor.id, step, &mut |entry| to.put(shown(entry))).map(drop)
    })
}

/// Closes a cursor, for transactions that open many: at most 1024 can be open in one.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_cursor_close(session: perdura_session, cursor: perdura_cursor) -> c_int {
    call(|| sessions::run(session.id, |session| maps::close(session, cursor.id)))
}
