//! Cursors over ordered maps: ranges in both directions, and cursors that are stale or were never open.

use crate::SIZE;
use crate::map_calls::{Entry, owned};
use crate::pool::{Fixture, expect, session_of};
use crate::random::Random;
use perdura_c::*;
use std::collections::BTreeMap;
use std::ops::Bound;

const NO_ENTRY: perdura_entry =
    perdura_entry { key: std::ptr::null(), key_len: 0, value: std::ptr::null(), value_len: 0 };

fn bound(bound: Bound<&[u8]>) -> perdura_bound {
    let (key, how) = match bound {
        Bound::Included(key) => (key, PERDURA_INCLUDED),
        Bound::Excluded(key) => (key, PERDURA_EXCLUDED),
        Bound::Unbounded => (&b""[..], PERDURA_UNBOUNDED),
    };
    perdura_bound { key: key.as_ptr().cast(), key_len: key.len(), how }
}

impl Fixture {
    fn cursor(&self, map: perdura_map, low: Bound<&[u8]>, high: Bound<&[u8]>) -> perdura_cursor {
        let (low, high, mut cursor) = (bound(low), bound(high), perdura_cursor { id: 9 });
        // SAFETY: bounds, and a cursor.
        let code = unsafe { perdura_cursor_open(self.session, map, &low, &high, &mut cursor) };
        expect(code, PERDURA_OK, "");
        cursor
    }

    fn all(&self, map: perdura_map) -> perdura_cursor {
        self.cursor(map, Bound::Unbounded, Bound::Unbounded)
    }

    fn step(&self, cursor: perdura_cursor, forward: bool) -> (i32, Option<Entry>) {
        let mut entry = perdura_entry { key_len: 9, ..NO_ENTRY };
        // SAFETY: an entry, which is good until the next step.
        unsafe {
            let code = match forward {
                true => perdura_cursor_next(self.session, cursor, &mut entry),
                false => perdura_cursor_prev(self.session, cursor, &mut entry),
            };
            (code, (!entry.key.is_null()).then(|| owned(&entry)))
        }
    }

    fn rest(&self, cursor: perdura_cursor, forward: bool) -> Vec<Entry> {
        let one = || match self.step(cursor, forward) {
            (PERDURA_OK, entry) => entry,
            (code, _) => panic!("{code}"),
        };
        std::iter::from_fn(one).collect()
    }
}

#[test]
fn ranges_are_those_of_a_tree() {
    let c = Fixture::new(SIZE);
    let mut random = Random::new(7);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_ORDERED_MAP);
    let mut model = BTreeMap::new();
    let key = |random: &mut Random| {
        let short = random.below(300).to_string().into_bytes();
        // Some are alike for longer than the bytes that a map keeps in place.
        if random.below(3) == 0 { [&b"the same first bytes "[..], &short].concat() } else { short }
    };
    for round in 0..300 {
        for _ in 0..3 {
            let (key, value) = (key(&mut random), vec![round as u8; random.below(40) as usize]);
            if random.below(4) == 0 {
                let found = i32::from(model.remove(&key).is_some());
                assert_eq!(c.remove(map, &key), (PERDURA_OK, found));
            } else {
                let found = i32::from(model.insert(key.clone(), value.clone()).is_some());
                assert_eq!(c.put(map, &key, &value), (PERDURA_OK, found));
            }
        }
        let (one, other) = (key(&mut random), key(&mut random));
        let (low, high) = (one.clone().min(other.clone()), one.max(other));
        let ends = |key| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
        let low = random.pick(&ends(&low[..]));
        let high = random.pick(&ends(&high[..]));
        if matches!((low, high), (Bound::Excluded(a), Bound::Excluded(b)) if a == b) {
            continue;
        }
        let mut expected: Vec<Entry> =
            model.range::<[u8], _>((low, high)).map(|(k, v)| (k.clone(), v.clone())).collect();
        let cursor = c.cursor(map, low, high);
        assert_eq!(c.rest(cursor, true), expected, "{low:?} to {high:?}");
        assert_eq!(c.step(cursor, true), (PERDURA_OK, None), "and stays at the end");
        expected.reverse();
        assert_eq!(c.rest(cursor, false), expected, "and back");
        let from_end = c.cursor(map, low, high);
        expect(perdura_cursor_to_end(c.session, from_end), PERDURA_OK, "");
        assert_eq!(c.rest(from_end, false), expected, "from the end");
        for cursor in [cursor, from_end] {
            expect(perdura_cursor_close(c.session, cursor), PERDURA_OK, "");
        }
    }
    c.commit();
    c.close();
}

#[test]
fn words_are_ordered_by_value() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_ORDERED_MAP | PERDURA_U64_KEYS | PERDURA_U64_VALUES);
    for number in [300u64, 2, u64::MAX, 1 << 40] {
        c.put(map, &number.to_ne_bytes(), &number.to_ne_bytes());
    }
    let keys: Vec<_> = c.rest(c.all(map), true).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [2, 300, 1 << 40, u64::MAX].map(u64::to_ne_bytes));
    let two = 2u64.to_ne_bytes();
    let above = c.cursor(map, Bound::Excluded(&two), Bound::Unbounded);
    assert_eq!(c.rest(above, true).len(), 3);
    // Nothing lies between ends that are the wrong way round.
    let none = c.cursor(map, Bound::Excluded(&keys[2]), Bound::Included(&two));
    assert_eq!(c.step(none, true), (PERDURA_OK, None));
    c.commit();
    c.close();
}

#[test]
fn stale_cursors_say_so() {
    let c = Fixture::new(SIZE);
    c.begin(PERDURA_WRITE);
    let map = c.map(c"map", PERDURA_ORDERED_MAP);
    for number in 0..500u32 {
        c.put(map, &number.to_be_bytes(), b"value");
    }
    c.commit();
    let key = 250u32.to_be_bytes();
    let changes: [(&dyn Fn() -> i32, i32); 4] = [
        (&|| c.remove(map, &key).0, PERDURA_ERR_STALE),
        (&|| c.put(map, &[&key[..], b"+"].concat(), b"value").0, PERDURA_ERR_STALE),
        (&|| perdura_map_clear(c.session, map), PERDURA_ERR_STALE),
        (&|| c.delete(c"map", PERDURA_ORDERED_MAP, 0).0, PERDURA_ERR_HANDLE),
    ];
    for (change, code) in changes {
        for forward in [true, false] {
            let changed = || {
                let cursor = c.cursor(map, Bound::Included(&key), Bound::Unbounded);
                assert!(c.step(cursor, true).1.is_some());
                expect(change(), PERDURA_OK, "");
                let (code, entry) = c.step(cursor, forward);
                assert_eq!(entry, None);
                code
            };
            let says = if code == PERDURA_ERR_STALE { "from the last key on" } else { "deleted" };
            c.fails(changed, code, says);
        }
    }
    // A value is no place.
    c.begin(PERDURA_WRITE);
    let cursor = c.all(map);
    for number in 0..500u32 {
        c.put(map, &number.to_be_bytes(), &[7; 100]);
        let (code, entry) = c.step(cursor, true);
        assert_eq!((code, entry), (PERDURA_OK, Some((number.to_be_bytes().into(), vec![7; 100]))));
    }
    c.commit();
    c.close();
}

/// Cursors that are used after changes at random give entries that are there, or say that they are
/// stale.
#[test]
fn changes_at_random_harm_no_cursor() {
    let c = Fixture::new(SIZE);
    let mut random = Random::new(11);
    let mut stale = 0;
    for _ in 0..300 {
        c.begin(PERDURA_WRITE);
        let map = c.map(c"map", PERDURA_ORDERED_MAP);
        let cursor = c.all(map);
        loop {
            let key = random.below(400).to_be_bytes();
            match random.below(8) {
                0 => _ = c.put(map, &key, &[1; 30]),
                1 => _ = c.remove(map, &key),
                2 if random.below(20) == 0 => _ = perdura_map_clear(c.session, map),
                _ => {}
            }
            match c.step(cursor, random.below(4) > 0) {
                (PERDURA_OK, Some((key, _))) => assert!(c.get(map, &key).1.is_some()),
                (PERDURA_OK, None) => break c.commit(),
                (code, _) => {
                    expect(code, PERDURA_ERR_STALE, "");
                    stale += 1;
                    break c.abort();
                }
            }
        }
        // Something to walk over.
        c.begin(PERDURA_WRITE);
        for _ in 0..10 {
            c.put(map_of(&c), &random.below(400).to_be_bytes(), b"more");
        }
        c.commit();
    }
    assert!((20..280).contains(&stale), "{stale} of 300");
    c.close();
}

fn map_of(c: &Fixture) -> perdura_map {
    c.map(c"map", PERDURA_ORDERED_MAP)
}

#[test]
fn cursors_that_are_not_open() {
    let c = Fixture::new(SIZE);
    let handle = PERDURA_ERR_HANDLE;
    let says = "open one in this transaction";
    c.begin(PERDURA_WRITE);
    let map = map_of(&c);
    c.put(map, b"key", b"value");
    let cursor = c.all(map);
    c.commit();
    // With its transaction it has ended.
    expect(c.step(cursor, true).0, PERDURA_ERR_NO_TX, "begin one first");
    for id in [0, 1, cursor.id, cursor.id + 1, u64::MAX] {
        let old = perdura_cursor { id };
        c.fails(|| c.step(old, true).0, handle, says);
        c.fails(|| c.step(old, false).0, handle, says);
        c.fails(|| perdura_cursor_to_end(c.session, old), handle, says);
        c.fails(|| perdura_cursor_close(c.session, old), handle, says);
    }
    let twice = || {
        let cursor = c.all(map);
        expect(perdura_cursor_close(c.session, cursor), PERDURA_OK, "");
        perdura_cursor_close(c.session, cursor)
    };
    c.fails(twice, handle, says);
    // Another session's, while that one's transaction is open.
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|s| {
        let c = &c;
        s.spawn(move || {
            let session = session_of(c.pool);
            let other = Fixture { session, ..Fixture::of(c) };
            other.begin(PERDURA_READ);
            tell.send(other.all(map)).unwrap();
            ended.recv().unwrap();
            other.commit();
            expect(perdura_session_close(session), PERDURA_OK, "");
        });
        let others = told.recv().unwrap();
        c.begin(PERDURA_READ);
        expect(c.step(others, true).0, handle, says);
        c.abort();
        end.send(()).unwrap();
    });
    let what_bounds = || {
        let (mut cursor, low) = (perdura_cursor { id: 9 }, bound(Bound::Unbounded));
        let low = perdura_bound { how: 3, ..low };
        // SAFETY: a bound, and a cursor.
        unsafe { perdura_cursor_open(c.session, map, &low, std::ptr::null(), &mut cursor) }
    };
    c.fails(what_bounds, PERDURA_ERR_INVALID, "low->how is 3: set PERDURA_UNBOUNDED,");
    let too_many = || {
        (0..1024).for_each(|_| _ = c.all(map));
        let mut cursor = perdura_cursor { id: 9 };
        let none = std::ptr::null();
        // SAFETY: no bounds, and a cursor.
        unsafe { perdura_cursor_open(c.session, map, none, none, &mut cursor) }
    };
    c.fails(too_many, PERDURA_ERR_TOO_MANY, "1024 cursors are open in the transaction");
    c.close();
}
