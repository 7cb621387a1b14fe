//! Maps: the effects of their functions.

use crate::SIZE;
use crate::map_calls::{KINDS, collect, owned};
use crate::pool::{Fixture, expect, session_of};
use perdura_c::*;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;

const TYPES: [i32; 4] =
    [0, PERDURA_U64_KEYS, PERDURA_U64_VALUES, PERDURA_U64_KEYS | PERDURA_U64_VALUES];

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

/// The map of `remove_each`.
struct Removing<'a>(&'a Fixture, perdura_map, usize);

unsafe extern "C" fn remove_each(context: *mut c_void, entry: *const perdura_entry) {
    // SAFETY: the arguments are the test's and the library's.
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
        // SAFETY: a word, a function, and its argument.
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
        // SAFETY: a word, a function, and its argument.
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

#[test]
fn a_map_is_found_by_a_session_that_looked_before_its_commit() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let old = c.map(c"old", PERDURA_HASH_MAP);
    c.commit();
    let other = Fixture { session: session_of(c.pool), ..Fixture::of(&c) };
    let looked = |name, at| {
        other.begin(PERDURA_READ);
        assert_eq!(other.len(old), (PERDURA_OK, 0));
        let (code, map) = other.open_map(name, PERDURA_HASH_MAP);
        assert_eq!((code, map.at), (PERDURA_OK, at));
        if at != 0 {
            assert_eq!(other.len(map), (PERDURA_OK, 0));
        }
        other.commit();
    };
    c.begin(PERDURA_WRITE);
    let new = c.map(c"new", PERDURA_HASH_MAP);
    std::thread::scope(|s| {
        s.spawn(|| looked(c"new", 0));
    });
    c.commit();
    looked(c"new", new.at);
    expect(perdura_session_close(other.session), PERDURA_OK, "");
    c.close();
}
