//! Maps: their functions' errors for invalid arguments and handles.

use crate::SIZE;
use crate::map_calls::{KINDS, collect};
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;
use std::ptr::{null, null_mut};

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
    // SAFETY: the test passes null pointers, which the library refuses.
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
    /// The answer of each function about the map.
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
        // Made by a transaction that was rolled back: its bytes may still look like a map's.
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
    // The existing one may be opened.
    c.begin(PERDURA_READ);
    assert_eq!(c.map(c"map", PERDURA_HASH_MAP), map);
    c.commit();
    c.close();
}
