//! The functions of maps, called from Rust as C calls them.

use crate::pool::{Fixture, expect};
use perdura_c::*;
use std::ffi::{CStr, c_void};

pub(crate) const KINDS: [i32; 2] = [PERDURA_HASH_MAP, PERDURA_ORDERED_MAP];

/// A key and its value.
pub(crate) type Entry = (Vec<u8>, Vec<u8>);

impl Fixture {
    pub(crate) fn try_map(&self, name: &CStr, kind: i32) -> (i32, perdura_map) {
        let mut map = perdura_map { pool: 9, at: 9, kind: 9 };
        // SAFETY: a text and a map.
        let code =
            unsafe { perdura_map_open_or_create(self.session, name.as_ptr(), kind, &mut map) };
        (code, map)
    }

    /// In the open transaction.
    pub(crate) fn map(&self, name: &CStr, kind: i32) -> perdura_map {
        let (code, map) = self.try_map(name, kind);
        expect(code, PERDURA_OK, "");
        map
    }

    pub(crate) fn open_map(&self, name: &CStr, kind: i32) -> (i32, perdura_map) {
        let mut map = perdura_map { pool: 9, at: 9, kind: 9 };
        // SAFETY: a text and a map.
        let code = unsafe { perdura_map_open(self.session, name.as_ptr(), kind, &mut map) };
        (code, map)
    }

    /// The code, and whether the key was there.
    pub(crate) fn put(&self, map: perdura_map, key: &[u8], value: &[u8]) -> (i32, i32) {
        let (mut found, to) = (9, value.as_ptr().cast());
        // SAFETY: as many bytes, and an int.
        let code = unsafe {
            let key = (key.as_ptr().cast(), key.len());
            perdura_map_put(self.session, map, key.0, key.1, to, value.len(), &mut found)
        };
        (code, found)
    }

    pub(crate) fn get(&self, map: perdura_map, key: &[u8]) -> (i32, Option<Vec<u8>>) {
        let (mut to, mut found) = (vec![0; 10_000], 9);
        let mut value = perdura_buffer { to: to.as_mut_ptr().cast(), room: to.len(), len: 9 };
        // SAFETY: as many bytes, and an int.
        let code = unsafe {
            let (key, len) = (key.as_ptr().cast(), key.len());
            perdura_map_get(self.session, map, key, len, &mut value, &mut found)
        };
        to.truncate(value.len);
        (code, (found == 1).then_some(to))
    }

    pub(crate) fn remove(&self, map: perdura_map, key: &[u8]) -> (i32, i32) {
        let mut found = 9;
        // SAFETY: as many bytes, and an int.
        let code = unsafe {
            perdura_map_remove(self.session, map, key.as_ptr().cast(), key.len(), &mut found)
        };
        (code, found)
    }

    pub(crate) fn has(&self, map: perdura_map, key: &[u8]) -> (i32, i32) {
        let mut found = 9;
        // SAFETY: as many bytes, and an int.
        let code = unsafe {
            perdura_map_contains(self.session, map, key.as_ptr().cast(), key.len(), &mut found)
        };
        (code, found)
    }

    pub(crate) fn len(&self, map: perdura_map) -> (i32, u64) {
        let mut len = 9;
        // SAFETY: a word.
        (unsafe { perdura_map_len(self.session, map, &mut len) }, len)
    }

    pub(crate) fn delete(&self, name: &CStr, kind: i32, budget: u64) -> (i32, i32) {
        let mut done = 9;
        // SAFETY: a text and an int.
        let code =
            unsafe { perdura_map_delete(self.session, name.as_ptr(), kind, budget, &mut done) };
        (code, done)
    }

    /// In a transaction of its own.
    pub(crate) fn open_map_alone(&self, name: &CStr, kind: i32) -> perdura_map {
        self.begin(PERDURA_READ);
        let (code, map) = self.open_map(name, kind);
        expect(code, PERDURA_OK, "");
        self.commit();
        map
    }

    /// All that a hash map has, by a scan of a few at a time.
    pub(crate) fn scan(&self, map: perdura_map) -> (i32, Vec<Entry>) {
        let (mut cursor, mut all) = (0, Vec::new());
        loop {
            // SAFETY: a word, a function, and its argument.
            let code = unsafe {
                let all = (&raw mut all).cast();
                perdura_map_scan(self.session, map, &mut cursor, 3, Some(collect), all)
            };
            if code != PERDURA_OK || cursor == 0 {
                return (code, all);
            }
        }
    }
}

/// The bytes of an entry.
pub(crate) unsafe fn owned(entry: &perdura_entry) -> Entry {
    // SAFETY: the library's promise.
    unsafe {
        let bytes = |at: *const c_void, len| std::slice::from_raw_parts(at.cast::<u8>(), len);
        (bytes(entry.key, entry.key_len).to_vec(), bytes(entry.value, entry.value_len).to_vec())
    }
}

pub(crate) unsafe extern "C" fn collect(all: *mut c_void, entry: *const perdura_entry) {
    // SAFETY: the arguments are those of `scan` and the library.
    unsafe { (*all.cast::<Vec<_>>()).push(owned(&*entry)) };
}
