//! Offsets, handles and cursors that do not fit the pool: of another pool, of freed objects, or stale.

use super::{is_damage, is_misuse, on_every_engine, options};
use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Vector, kind};
use perdura::{Error, Ptr, Purpose, Result, Root, Tx, TxExt};
use std::ops::Bound::{Excluded, Included};

type Words = OrderedMap<u64, u64>;

fn filled(tx: &mut dyn Tx, keys: impl Iterator<Item = u64>) -> Result<Words> {
    let map = Words::create(tx)?;
    for key in keys {
        map.insert(tx, key, key)?;
    }
    Ok(map)
}

/// Each change next to a cursor, in maps of one node and of many: the cursor is refused, or right.
#[test]
fn a_stale_cursor_is_refused() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        for count in [1, 10, 14, 15, 16, 300, 4000] {
            handle
                .transaction(|tx| {
                    let map = filled(tx, (0..count).map(|key| key * 10))?;
                    let begun = |tx: &mut dyn Tx| {
                        let mut cursor = map.cursor(tx, ..)?;
                        assert_eq!(cursor.next(tx)?, Some((0, 0)));
                        Ok::<_, Error>(cursor)
                    };
                    // Next to it.
                    let mut cursor = begun(tx)?;
                    map.insert(tx, 5, 5)?;
                    is_misuse(&cursor.next(tx));
                    is_misuse(&cursor.prev(tx));
                    map.remove(tx, 5)?;
                    let mut cursor = begun(tx)?;
                    map.remove(tx, 0)?;
                    is_misuse(&cursor.next(tx));
                    map.insert(tx, 0, 0)?;
                    // Values may change.
                    let mut cursor = begun(tx)?;
                    map.insert(tx, 0, 7)?;
                    assert_eq!(cursor.prev(tx)?, Some((0, 7)));
                    map.insert(tx, 0, 0)?;
                    // Everything is removed.
                    let mut cursor = begun(tx)?;
                    map.clear(tx)?;
                    is_misuse(&cursor.next(tx));
                    let mut empty = map.cursor(tx, ..)?;
                    assert_eq!(empty.next(tx)?, None);
                    map.insert(tx, 1, 1)?;
                    is_misuse(&empty.next(tx));
                    let mut cursor = map.cursor(tx, ..)?;
                    map.destroy(tx)?;
                    is_misuse(&cursor.next(tx));
                    is_misuse(&map.get(tx, 1));
                    Ok(())
                })
                .unwrap();
        }
    });
}

/// The map may change far from a cursor, until the cursor's own nodes change; it returns the present entries.
#[test]
fn a_cursor_that_is_not_refused_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let pool = options().create(folder.path().join("pool")).unwrap();
    for seed in 0..60u64 {
        let run = |tx: &mut dyn Tx| {
            let mut state = seed;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let map = filled(tx, (0..400).map(|key| key * 10))?;
            let low = random(2000);
            let high = low + random(2000);
            let mut cursor = map.cursor(tx, low..high)?;
            let mut last = None;
            let (mut stale, mut ended) = (false, false);
            while !stale && !ended {
                if random(4) == 0 {
                    match random(2) {
                        0 => drop(map.insert(tx, random(4000), 1)?),
                        _ => drop(map.remove(tx, random(400) * 10)?),
                    }
                }
                let from = last.map_or(Included(low), Excluded);
                let expected = map.cursor(tx, (from, Excluded(high)))?.next(tx)?;
                match cursor.next(tx) {
                    Ok(entry) => {
                        assert_eq!(entry, expected, "seed {seed}");
                        last = entry.map(|(key, _)| key).or(last);
                        ended = entry.is_none();
                    }
                    Err(error) => {
                        assert!(error.is_misuse(), "seed {seed}: {error:?}");
                        stale = true;
                    }
                }
            }
            map.destroy(tx)
        };
        pool.session().unwrap().transaction(|tx| run(tx)).unwrap();
    }
}

#[test]
fn a_cursor_outlives_its_transaction_as_long_as_it_fits() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let map = handle.transaction(|tx| filled(tx, 0..100)).unwrap();
        let mut cursor = handle.read(|tx| map.cursor(tx, ..)).unwrap();
        for key in 0..5 {
            assert_eq!(handle.read(|tx| cursor.next(tx)).unwrap(), Some((key, key)));
        }
        let mut other = pool.session().unwrap();
        assert_eq!(other.read(|tx| cursor.next(tx)).unwrap(), Some((5, 5)));
        other.transaction(|tx| map.remove(tx, 6)).unwrap();
        is_misuse(&handle.read(|tx| cursor.next(tx)));
        other.transaction(|tx| map.destroy(tx)).unwrap();
        // Other objects may be there by now.
        let many = |tx: &mut dyn Tx| {
            (0..200).try_for_each(|_| tx.new_bytes(Purpose::General, &[0x7B; 250]).map(drop))
        };
        other.transaction(|tx| many(tx)).unwrap();
        is_misuse(&handle.read(|tx| cursor.next(tx)));
        is_misuse(&handle.read(|tx| map.get(tx, 7)));
    });
}

#[test]
fn objects_of_another_pool_are_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| options().create(folder.path().join(name)).unwrap());
    let make = |tx: &mut dyn Tx| {
        let hash = HashMap::<Bytes, u64>::create(tx)?;
        hash.insert(tx, b"key", 1)?;
        let vector = Vector::<u64>::create(tx)?;
        vector.push(tx, 1)?;
        let blob = Blob::create(tx, Purpose::Value, &[1; 100])?;
        Ok((hash, filled(tx, 0..50)?, vector, blob))
    };
    let (hash, ordered, vector, blob) = a.session().unwrap().transaction(|tx| make(tx)).unwrap();
    let cursor = |tx: &mut dyn Tx| ordered.cursor(tx, ..);
    let mut cursor = a.session().unwrap().read(|tx| cursor(tx)).unwrap();
    let tries = &mut |tx: &mut dyn Tx| {
        is_misuse(&hash.get(tx, b"key"));
        is_misuse(&ordered.get(tx, 1));
        is_misuse(&vector.get(tx, 0));
        is_misuse(&cursor.next(tx));
        Ok(())
    };
    let mut on_b = b.session().unwrap();
    // In an empty pool, by handles and by offsets alone;
    on_b.transaction(|tx| {
        tries(tx)?;
        is_misuse(&HashMap::<Bytes, u64>::new(hash.at()).get(tx, b"key"));
        is_misuse(&Words::new(ordered.at()).insert(tx, 1, 1));
        is_misuse(&Vector::<u64>::new(vector.at()).push(tx, 1));
        is_misuse(&blob.len(tx));
        is_misuse(&blob.set(tx, b"new"));
        is_misuse(&blob.free(tx));
        is_misuse(&tx.usable(blob.at()));
        Ok(())
    })
    .unwrap();
    // in one that has the same collections in the same places;
    assert_eq!(on_b.transaction(|tx| make(tx)).unwrap().0.at(), hash.at());
    on_b.transaction(|tx| tries(tx)).unwrap();
    // and where there are other objects.
    let folder = tempfile::tempdir().unwrap();
    let c = options().create(folder.path().join("c")).unwrap();
    let mut on_c = c.session().unwrap();
    let many = |tx: &mut dyn Tx| {
        (0..300).try_for_each(|_| tx.new_bytes(Purpose::General, &[0x6B; 64]).map(drop))
    };
    on_c.transaction(|tx| many(tx)).unwrap();
    on_c.transaction(|tx| {
        tries(tx)?;
        is_misuse(&HashMap::<Bytes, u64>::new(hash.at()).get(tx, b"key"));
        is_misuse(&Words::new(ordered.at()).insert(tx, 1, 1));
        is_misuse(&Vector::<u64>::new(vector.at()).push(tx, 1));
        Ok(())
    })
    .unwrap();
    assert_eq!(a.session().unwrap().read(|tx| hash.get(tx, b"key")).unwrap(), Some(1));
}

#[test]
fn offsets_that_fit_nothing_are_no_damage() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let at = handle.transaction(|tx| tx.new_bytes(Purpose::General, &[1; 100])).unwrap();
        for bad in [0, 8, at + 8, at + 64, at + (1 << 19), 1 << 45, u64::MAX - 7, u64::MAX] {
            is_misuse(&handle.transaction(|tx| tx.free(bad)));
            is_misuse(&handle.transaction(|tx| tx.usable(bad)));
        }
        for bad in [1 << 45, u64::MAX - 7, u64::MAX] {
            is_misuse(&handle.transaction(|tx| tx.read(Ptr::<u64>::new(bad))));
            is_misuse(&handle.transaction(|tx| tx.write(Ptr::<[u8; 100]>::new(bad), [0; 100])));
            is_misuse(&handle.transaction(|tx| tx.write_word(bad, 1)));
            is_misuse(&handle.transaction(|tx| HashMap::<u64, u64>::new(bad).get(tx, 1)));
            is_misuse(&handle.transaction(|tx| Blob::new(bad).read(tx)));
        }
        is_misuse(&handle.transaction(|tx| tx.free(at).and_then(|()| tx.free(at))));
        handle.transaction(|tx| tx.free(at)).unwrap();
        is_misuse(&handle.transaction(|tx| tx.free(at)));
    });
}

/// The pointers of an intact header are the pool's own: a wrong one is damage.
#[test]
fn damage_inside_of_a_collection_is_damage() {
    on_every_engine(|pool| {
        let mut handle = pool.session().unwrap();
        let (hash, ordered, vector) = handle
            .transaction(|tx| {
                let hash = HashMap::<u64, Bytes>::create(tx)?;
                let (ordered, vector) = (filled(tx, 0..100)?, Vector::<u64>::create(tx)?);
                for key in 0..100 {
                    hash.insert(tx, key, &[7; 100])?;
                    vector.push(tx, key)?;
                }
                tx.set_root("hash", Root { at: hash.at(), kind: kind::HASH_MAP })?;
                Ok((hash, ordered, vector))
            })
            .unwrap();
        // Pointers in headers: to free space, to outside of the pool, to the middle of an object.
        for pointer in [8, 1 << 45, u64::MAX - 7, hash.at() + 8] {
            let tried = handle.transaction(|tx| {
                for (header, word) in [(hash.at(), 4), (ordered.at(), 1), (vector.at(), 4)] {
                    tx.write_word(header + word * 8, pointer)?;
                }
                is_damage(&hash.for_each(tx, &mut |_, _| Ok(())));
                is_damage(&ordered.get(tx, 5));
                if pointer >= 1 << 45 {
                    is_damage(&vector.get(tx, 0));
                }
                is_damage(&vector.destroy(tx));
                tx.abort::<()>("as it was")
            });
            assert!(matches!(tried, Err(Error::Aborted(_))), "{pointer:#x}: {tried:?}");
        }
        // A byte string's.
        let tried = handle.transaction(|tx| {
            let slot = hash.slot(tx, 1)?.expect("an entry");
            tx.write_word(slot.at() + 8, (1 << 40) << 8 | 0xFF)?;
            is_damage(&hash.get(tx, 1));
            is_damage(&hash.remove(tx, 1));
            tx.abort::<()>("as it was")
        });
        assert!(matches!(tried, Err(Error::Aborted(_))), "{tried:?}");
    });
}
