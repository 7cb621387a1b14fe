//! Maps: what they do, and what they say to arguments and handles that cannot be.

use crate::SIZE;
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

pub(crate) const KINDS: [i32; 2] = [PERDURA_HASH_MAP, PERDURA_ORDERED_MAP];
const TYPES: [i32; 4] =
    [0, PERDURA_U64_KEYS, PERDURA_U64_VALUES, PERDURA_U64_KEYS | PERDURA_U64_VALUES];

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

    fn has(&self, map: perdura_map, key: &[u8]) -> (i32, i32) {
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

    /// All that a hash map has, by a scan of a few at a time.
    pub(crate) fn scan(&self, map: perdura_map) -> (i32, Vec<(Vec<u8>, Vec<u8>)>) {
        let (mut cursor, mut all) = (0, Vec::new());
        loop {
            // SAFETY: a word, a function, and what it takes.
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
pub(crate) unsafe fn owned(entry: &perdura_entry) -> (Vec<u8>, Vec<u8>) {
    // SAFETY: the library's promise.
    unsafe {
        let bytes = |at: *const c_void, len| std::slice::from_raw_parts(at.cast::<u8>(), len);
        (bytes(entry.key, entry.key_len).to_vec(), bytes(entry.value, entry.value_len).to_vec())
    }
}

unsafe extern "C" fn collect(all: *mut c_void, entry: *const perdura_entry) {
    // SAFETY: what `scan` passes, and the library.
    unsafe { (*all.cast::<Vec<_>>()).push(owned(&*entry)) };
}

#[test]
fn maps_do_what_they_say() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    for (kind, name) in KINDS.into_iter().zip([c"hash", c"order"]) {
        let map = c.map(name, kind);
        assert_eq!(c.map(name, kind), map, "the same the second time");
        assert_eq!(c.open_map(name, kind), (PERDURA_OK, map));
        let long = vec![7; 5000];
        for (key, value) in [(&b"a"[..], &b"1"[..]), (b"", &long), (&long, b""), (b"\0b", b"2")] {
            assert_eq!(c.get(map, key), (PERDURA_OK, None));
            assert_eq!(c.has(map, key), (PERDURA_OK, 0));
            assert_eq!(c.remove(map, key), (PERDURA_OK, 0));
            assert_eq!(c.put(map, key, value), (PERDURA_OK, 0));
            assert_eq!(c.put(map, key, value), (PERDURA_OK, 1));
            assert_eq!(c.has(map, key), (PERDURA_OK, 1));
            assert_eq!(c.get(map, key), (PERDURA_OK, Some(value.to_vec())));
        }
        assert_eq!(c.len(map), (PERDURA_OK, 4));
        assert_eq!(c.remove(map, b"a"), (PERDURA_OK, 1));
        assert_eq!(c.len(map), (PERDURA_OK, 3));
        assert_eq!(perdura_map_clear(c.session, map), PERDURA_OK);
        assert_eq!(c.len(map), (PERDURA_OK, 0));
        assert_eq!(c.delete(name, kind, 0), (PERDURA_OK, 1));
        assert_eq!(c.delete(name, kind, 0), (PERDURA_OK, 1), "and again: it is gone");
        assert_eq!(c.open_map(name, kind), (PERDURA_OK, perdura_map::default()));
    }
    c.commit();
    c.close();
}

#[test]
fn a_value_has_a_length_whatever_the_room() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    c.put(map, b"key", b"a value");
    let mut to = [b'-'; 9];
    let mut found = 9;
    for (room, copied) in [(0, "---------"), (3, "a v------"), (9, "a value--")] {
        let at = if room == 0 { null_mut() } else { to.as_mut_ptr().cast() };
        let mut value = perdura_buffer { to: at, room, len: 9 };
        // SAFETY: as many bytes, and an int.
        let code = unsafe {
            perdura_map_get(c.session, map, b"key".as_ptr().cast(), 3, &mut value, &mut found)
        };
        assert_eq!((code, found, value.len), (PERDURA_OK, 1, 7));
        assert_eq!(std::str::from_utf8(&to), Ok(copied));
    }
    c.commit();
    c.close();
}

#[test]
fn words_are_keys_and_values() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let (seven, eight) = (7u64.to_ne_bytes(), 8u64.to_ne_bytes());
    for kind in KINDS {
        for (types, name) in TYPES.into_iter().zip([c"0", c"1", c"2", c"3"]) {
            let map = c.map(name, kind | types);
            assert_eq!(c.put(map, &seven, &eight), (PERDURA_OK, 0));
            assert_eq!(c.get(map, &seven), (PERDURA_OK, Some(eight.to_vec())));
            assert_eq!(c.remove(map, &seven), (PERDURA_OK, 1));
            assert_eq!(c.delete(name, kind | types, 0), (PERDURA_OK, 1));
        }
    }
    c.map(c"words", PERDURA_HASH_MAP | TYPES[3]);
    c.commit();
    let invalid = PERDURA_ERR_INVALID;
    let words = || c.map(c"words", PERDURA_HASH_MAP | TYPES[3]);
    c.fails(|| c.put(words(), b"short", &eight).0, invalid, "a key of 5 bytes");
    c.fails(|| c.put(words(), &seven, b"").0, invalid, "a value of 0 bytes");
    c.fails(|| c.get(words(), b"").0, invalid, "uint64_t keys: pass 8 bytes");
    c.close();
}

#[test]
fn null_pointers() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    let order = c.map(c"order", PERDURA_ORDERED_MAP);
    c.commit();
    let (s, none, hash) = (c.session, PERDURA_ERR_NULL, PERDURA_HASH_MAP);
    let (name, key) = (c"map".as_ptr(), b"k".as_ptr().cast());
    let (mut found, mut to, mut bytes, mut word, mut other) =
        (0, perdura_map::default(), [0u8; 8], 0, perdura_cursor::default());
    let buffer = |to: *mut u8| perdura_buffer { to: to.cast(), room: 8, len: 0 };
    let mut good = buffer(bytes.as_mut_ptr());
    let no_key = perdura_bound { key: null(), key_len: 1, how: PERDURA_INCLUDED };
    // SAFETY: null pointers are what is tested.
    unsafe {
        c.fails(|| perdura_map_open(s, null(), hash, &mut to), none, "name is null");
        c.fails(|| perdura_map_open(s, name, hash, null_mut()), none, "map is null");
        c.fails(|| perdura_map_open_or_create(s, null(), hash, &mut to), none, "name is null");
        c.fails(|| perdura_map_open_or_create(s, name, hash, null_mut()), none, "map is null");
        c.fails(|| perdura_map_delete(s, null(), hash, 0, null_mut()), none, "name is null");
        c.fails(|| perdura_map_get(s, map, null(), 1, &mut good, &mut found), none, "key is null");
        c.fails(|| perdura_map_get(s, map, key, 1, null_mut(), &mut found), none, "value is null");
        let mut bad = buffer(null_mut());
        c.fails(|| perdura_map_get(s, map, key, 1, &mut bad, &mut found), none, "value->to is");
        c.fails(|| perdura_map_get(s, map, key, 1, &mut good, null_mut()), none, "found is null");
        c.fails(|| perdura_map_put(s, map, null(), 1, key, 1, null_mut()), none, "key is null");
        c.fails(|| perdura_map_put(s, map, key, 1, null(), 1, null_mut()), none, "value is null");
        c.fails(|| perdura_map_remove(s, map, null(), 1, null_mut()), none, "key is null");
        c.fails(|| perdura_map_contains(s, map, null(), 1, &mut found), none, "key is null");
        c.fails(|| perdura_map_len(s, map, null_mut()), none, "len is null");
        let scan = |cursor, each| perdura_map_scan(s, map, cursor, 1, each, null_mut());
        c.fails(|| scan(null_mut(), Some(collect)), none, "cursor is null");
        c.fails(|| scan(&mut word, None), none, "each is null: pass a function");
        let open = |low, to| perdura_cursor_open(s, order, low, null(), to);
        c.fails(|| open(null(), null_mut()), none, "cursor is null");
        c.fails(|| open(&raw const no_key, &mut other), none, "key is null");
        let next = || {
            expect(open(null(), &raw mut other), PERDURA_OK, "");
            perdura_cursor_next(s, other, null_mut())
        };
        c.fails(next, none, "entry is null");
        // These need not be there.
        c.begin(PERDURA_WRITE);
        expect(perdura_map_put(s, map, null(), 0, null(), 0, null_mut()), PERDURA_OK, "");
        expect(perdura_map_remove(s, map, null(), 0, null_mut()), PERDURA_OK, "");
        expect(perdura_map_delete(s, name, hash, 0, null_mut()), PERDURA_OK, "");
        c.commit();
    }
    c.close();
}

#[test]
fn lengths_that_overflow() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    c.commit();
    let at = b"12345678".as_ptr().cast();
    for len in [usize::MAX, isize::MAX as usize, isize::MAX as usize + 1, SIZE as usize + 1] {
        // SAFETY: such lengths are refused before any byte is read.
        let put =
            |key, value| unsafe { perdura_map_put(c.session, map, at, key, at, value, null_mut()) };
        let says = "more than the pool can have: pass its length";
        c.fails(|| put(len, 1), PERDURA_ERR_INVALID, &format!("a key of {len} bytes, {says}"));
        c.fails(|| put(1, len), PERDURA_ERR_INVALID, &format!("a value of {len} bytes, {says}"));
    }
    // One that the pool could have, and has no room for.
    let large = vec![1; SIZE as usize];
    c.fails(|| c.put(map, b"key", &large).0, PERDURA_ERR_FULL, "the pool is full");
    // A room that is larger than it is harms nothing: no more is written than the value has.
    let (mut to, mut found) = ([0u8; 1], 0);
    let mut value = perdura_buffer { to: to.as_mut_ptr().cast(), room: usize::MAX, len: 9 };
    c.begin(PERDURA_WRITE);
    c.put(map, b"1", b"x");
    // SAFETY: as many bytes as the value has, and an int.
    let code = unsafe { perdura_map_get(c.session, map, at, 1, &mut value, &mut found) };
    assert_eq!((code, found, value.len, to), (PERDURA_OK, 1, 1, *b"x"));
    c.commit();
    c.close();
}

#[test]
fn kinds_and_names_that_cannot_be() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    c.map(c"map", PERDURA_HASH_MAP);
    let mine = c.alloc(64);
    expect(c.set_root(c"mine", mine, 1000), PERDURA_OK, "");
    c.commit();
    let (invalid, wrong) = (PERDURA_ERR_INVALID, PERDURA_ERR_TYPE);
    for kind in [0, 1, 4, PERDURA_HASH_MAP | 64, -1, i32::MAX] {
        c.fails(|| c.try_map(c"new", kind).0, invalid, "pass PERDURA_HASH_MAP or");
        c.fails(|| c.delete(c"map", kind, 0).0, invalid, "pass PERDURA_HASH_MAP or");
    }
    for kind in [PERDURA_HASH_MAP | PERDURA_U64_KEYS, PERDURA_HASH_MAP | PERDURA_U64_VALUES] {
        c.fails(|| c.try_map(c"map", kind).0, wrong, "open it with the types");
        c.fails(|| c.open_map(c"map", kind).0, wrong, "open it with the types");
        c.fails(|| c.delete(c"map", kind, 0).0, wrong, "open it with the types");
    }
    c.fails(|| c.try_map(c"map", PERDURA_ORDERED_MAP).0, wrong, "of the kind 2, not 3");
    c.fails(|| c.try_map(c"mine", PERDURA_HASH_MAP).0, wrong, "of the kind 1000, not 2");
    c.fails(|| c.delete(c"mine", PERDURA_HASH_MAP, 0).0, wrong, "of the kind 1000, not 2");
    c.fails(|| c.try_map(c"", PERDURA_HASH_MAP).0, invalid, "1 to 255 bytes");
    c.fails(|| c.try_map(c"\xFF", PERDURA_HASH_MAP).0, invalid, "no UTF-8 text");
    // A map is not a root of the program's own, and its header no object of it.
    c.begin(PERDURA_READ);
    let (code, at, kind) = c.root(c"map");
    assert_eq!((code, kind), (PERDURA_OK, PERDURA_HASH_MAP as u32));
    c.commit();
    c.fails(|| c.set_root(c"map", mine, 1000), invalid, "perdura_map_delete");
    c.fails(|| c.set_root(c"map", 0, 0), invalid, "perdura_map_delete");
    c.fails(|| c.write(at, b"12345678"), PERDURA_ERR_OFFSET, "a collection's header");
    c.fails(|| perdura_free(c.session, at), PERDURA_ERR_OFFSET, "a collection's header");
    // Nothing is ordered in a hash map.
    let mut cursor = perdura_cursor { id: 9 };
    let map = c.open_map_alone(c"map", PERDURA_HASH_MAP);
    // SAFETY: no bounds, and a cursor.
    let open = || unsafe { perdura_cursor_open(c.session, map, null(), null(), &raw mut cursor) };
    c.fails(open, wrong, "use perdura_map_scan");
    c.begin(PERDURA_WRITE);
    let order = c.map(c"order", PERDURA_ORDERED_MAP);
    c.commit();
    c.fails(|| c.scan(order).0, wrong, "perdura_cursor_open");
    c.close();
}

impl Fixture {
    /// In a transaction of its own.
    fn open_map_alone(&self, name: &CStr, kind: i32) -> perdura_map {
        self.begin(PERDURA_READ);
        let (code, map) = self.open_map(name, kind);
        expect(code, PERDURA_OK, "");
        self.commit();
        map
    }

    /// What each function says of the map.
    fn each_refuses(&self, map: perdura_map, code: i32, says: &str) {
        let length = || self.len(map).0;
        self.fails(length, code, says);
        self.fails(|| self.get(map, b"k").0, code, says);
        self.fails(|| self.put(map, b"k", b"v").0, code, says);
        self.fails(|| self.remove(map, b"k").0, code, says);
        self.fails(|| self.has(map, b"k").0, code, says);
        self.fails(|| perdura_map_clear(self.session, map), code, says);
        self.fails(|| self.scan(map).0, code, says);
        let mut cursor = perdura_cursor { id: 9 };
        // SAFETY: no bounds, and a cursor.
        let open =
            || unsafe { perdura_cursor_open(self.session, map, null(), null(), &raw mut cursor) };
        self.fails(open, code, says);
        assert_eq!(cursor.id, 0);
    }
}

#[test]
fn handles_that_are_no_map() {
    let (c, elsewhere) = (Fixture::new(SIZE), Fixture::new(SIZE));
    let handle = PERDURA_ERR_HANDLE;
    for kind in KINDS {
        c.begin(PERDURA_WRITE);
        let map = c.map(c"map", kind);
        let block = c.alloc(64);
        expect(c.set_root(c"block", block, 1000), PERDURA_OK, "");
        c.commit();
        c.each_refuses(perdura_map::default(), handle, "the map is none: open one first");
        elsewhere.each_refuses(map, handle, "another pool's");
        for at in [8, map.at + 8, map.at ^ 1, block, SIZE, u64::MAX] {
            c.each_refuses(perdura_map { at, ..map }, handle, "open it by its name");
        }
        let other = if kind == KINDS[0] { KINDS[1] } else { KINDS[0] };
        c.each_refuses(perdura_map { kind: other, ..map }, handle, "open it by its name");
        c.each_refuses(perdura_map { kind: 77, ..map }, PERDURA_ERR_INVALID, "the kind 77");
        let words = perdura_map { kind: kind | PERDURA_U64_VALUES, ..map };
        c.fails(|| c.len(words).0, PERDURA_ERR_TYPE, "open it with the types");
        // Deleted, by this session or by another.
        let other = Fixture { session: session_of(c.pool), ..Fixture::of(&c) };
        c.begin(PERDURA_READ);
        assert_eq!(c.len(map), (PERDURA_OK, 0));
        c.commit();
        other.begin(PERDURA_WRITE);
        assert_eq!(other.delete(c"map", kind, 0), (PERDURA_OK, 1));
        other.commit();
        c.each_refuses(map, handle, "was deleted");
        other.each_refuses(map, handle, "was deleted");
        // Made by what was rolled back, of which it may still look like one.
        c.begin(PERDURA_WRITE);
        let never = c.map(c"never", kind);
        expect(c.put(never, b"k", b"v").0, PERDURA_OK, "");
        c.abort();
        c.each_refuses(never, handle, "rolled back");
        other.each_refuses(never, handle, "rolled back");
        expect(perdura_session_close(other.session), PERDURA_OK, "");
    }
    // Of a session that is closed, and outside of a transaction.
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    expect(perdura_session_close(c.session), PERDURA_OK, "");
    expect(c.put(map, b"k", b"v").0, handle, "the session is closed");
    expect(c.try_map(c"map", PERDURA_HASH_MAP).0, handle, "the session is closed");
    let c = Fixture { session: session_of(c.pool), ..c };
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    c.commit();
    expect(c.put(map, b"k", b"v").0, PERDURA_ERR_NO_TX, "begin one first");
    expect(c.open_map(c"map", PERDURA_HASH_MAP).0, PERDURA_ERR_NO_TX, "begin one first");
    c.close();
    elsewhere.close();
}

#[test]
fn readers_change_no_map() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    c.commit();
    let calls: [&dyn Fn() -> i32; 5] = [
        &|| c.try_map(c"new", PERDURA_HASH_MAP).0,
        &|| c.put(map, b"k", b"v").0,
        &|| c.remove(map, b"k").0,
        &|| perdura_map_clear(c.session, map),
        &|| c.delete(c"map", PERDURA_HASH_MAP, 0).0,
    ];
    for call in calls {
        c.begin(PERDURA_READ);
        expect(call(), PERDURA_ERR_READ_ONLY, "begin it with PERDURA_WRITE");
        expect(perdura_commit(c.session), PERDURA_ERR_ROLLED_BACK, "");
    }
    // What is there may be opened.
    c.begin(PERDURA_READ);
    assert_eq!(c.map(c"map", PERDURA_HASH_MAP), map);
    c.commit();
    c.close();
}

#[test]
fn a_large_map_is_deleted_in_parts() {
    let c = Fixture::new(SIZE);
    for kind in KINDS {
        for batch in 0..20u64 {
            c.begin(PERDURA_WRITE);
            let map = c.map(c"map", kind);
            for number in 0..100 {
                c.put(map, &(batch * 100 + number).to_be_bytes(), &[1; 40]);
            }
            c.commit();
        }
        let (mut parts, mut done, mut before) = (0, 0, 2001);
        while done == 0 {
            c.begin(PERDURA_WRITE);
            let code;
            (code, done) = c.delete(c"map", kind, 200);
            expect(code, PERDURA_OK, "");
            let (_, map) = c.open_map(c"map", kind);
            let len = if map.at == 0 { 0 } else { c.len(map).1 };
            assert!(len < before && (done == 0 || map.at == 0), "{len} of {before}");
            before = len;
            c.commit();
            parts += 1;
        }
        assert!(parts > 5, "{parts} parts");
    }
    c.close();
}

/// What `remove_each` removes from.
struct Removing<'a>(&'a Fixture, perdura_map, usize);

unsafe extern "C" fn remove_each(context: *mut c_void, entry: *const perdura_entry) {
    // SAFETY: what the test passes, and the library.
    let (removing, (key, _)) = unsafe { (&mut *context.cast::<Removing<'_>>(), owned(&*entry)) };
    let (code, found) = removing.0.remove(removing.1, &key);
    expect(code, PERDURA_OK, "");
    removing.2 += found as usize;
}

#[test]
fn a_scan_gives_all_while_the_map_changes() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_HASH_MAP);
    let mut all = BTreeMap::new();
    for number in 0..1000u32 {
        let (key, value) = (number.to_string().into_bytes(), vec![1; number as usize % 50]);
        c.put(map, &key, &value);
        all.insert(key, value);
    }
    let (code, found) = c.scan(map);
    expect(code, PERDURA_OK, "");
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), all);
    // The function uses the session itself: the map shrinks under the scan.
    let (mut removing, mut cursor) = (Removing(&c, map, 0), 0);
    loop {
        let context = (&raw mut removing).cast();
        // SAFETY: a word, a function, and what it takes.
        let code = unsafe {
            perdura_map_scan(c.session, map, &mut cursor, 10, Some(remove_each), context)
        };
        expect(code, PERDURA_OK, "");
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((removing.2, c.len(map)), (1000, (PERDURA_OK, 0)));
    // Any number is a place to go on from.
    for mut cursor in [1, 77, u64::MAX] {
        // SAFETY: a word, a function, and what it takes.
        let code = unsafe {
            let all = (&raw mut all).cast();
            perdura_map_scan(c.session, map, &mut cursor, u64::MAX, Some(collect), all)
        };
        assert_eq!((code, cursor), (PERDURA_OK, 0));
    }
    c.commit();
    c.close();
}

#[test]
fn maps_made_while_a_reader_had_a_snapshot_are_found_by_it_later() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let (old, block) = (c.map(c"old", PERDURA_HASH_MAP), c.alloc(64 << 10));
    expect(c.set_root(c"block", block, 1000), PERDURA_OK, "");
    c.commit();
    // Long enough a read that no writer waits for it.
    c.begin(PERDURA_READ);
    expect(c.read(block, &mut vec![0; 64 << 10]), PERDURA_OK, "");
    std::thread::scope(|s| {
        s.spawn(|| {
            let other = Fixture { session: session_of(c.pool), ..Fixture::of(&c) };
            other.begin(PERDURA_WRITE);
            other.map(c"new", PERDURA_HASH_MAP);
            other.commit();
            expect(perdura_session_close(other.session), PERDURA_OK, "");
        });
    });
    assert_eq!(c.len(old), (PERDURA_OK, 0));
    assert_eq!(c.open_map(c"new", PERDURA_HASH_MAP).1.at, 0, "not in its snapshot");
    c.commit();
    let new = c.open_map_alone(c"new", PERDURA_HASH_MAP);
    c.begin(PERDURA_WRITE);
    assert_eq!(c.put(new, b"key", b"value"), (PERDURA_OK, 0));
    c.commit();
    c.close();
}
