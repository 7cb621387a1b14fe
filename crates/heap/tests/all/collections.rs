//! The collections against std's, on a heap in plain memory.

use perdura::collections::model::{self, Rng, Run};
use perdura::collections::{Bytes, HashMap, OrderedMap, Pair, Total, Vector};
use perdura::testing::TestHeap;
use perdura::{Error, Result};

/// Runs a check with seeds chosen by proptest, and asserts that no block is left.
fn on_test_heap(cases: u32, check: impl Fn(&mut Run<'_>, u64) -> Result<()>) {
    let config =
        proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&proptest::num::u64::ANY, |seed| {
        let mut heap = TestHeap::new();
        let mut before = heap.image();
        let result = check(
            &mut |body| {
                heap.lane = (heap.lane + 1) % 40;
                let result = heap.run(body);
                if result.is_ok() {
                    before = heap.image();
                } else if heap.image() != before {
                    return Err(Error::Aborted("an abort left something behind".to_owned()));
                }
                result
            },
            seed,
        );
        if let Err(error) = result {
            panic!("seed {seed}: {error}");
        }
        assert_eq!(heap.live(), 0, "seed {seed}: blocks are left");
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn small(rng: &mut Rng) -> u64 {
    let limit = 1 << (2 + rng.below(8));
    rng.below(limit)
}

fn string(rng: &mut Rng) -> Vec<u8> {
    rng.bytes(60)
}

#[test]
fn hash_map_of_words() {
    on_test_heap(24, |run, seed| {
        model::check_hash_map::<u64, u64, true>(run, seed, 250, small, Rng::next)
    });
}

#[test]
fn hash_map_of_words_that_does_not_count() {
    on_test_heap(24, |run, seed| {
        model::check_hash_map::<u64, u64, false>(run, seed, 250, small, Rng::next)
    });
}

#[test]
fn hash_set() {
    on_test_heap(24, |run, seed| {
        model::check_hash_map::<u64, (), true>(run, seed, 250, small, |_| ())
    });
}

#[test]
fn hash_map_of_strings() {
    on_test_heap(24, |run, seed| {
        model::check_hash_map::<Bytes, Bytes<3>, true>(run, seed, 200, string, |rng| {
            rng.bytes(2000)
        })
    });
    on_test_heap(12, |run, seed| {
        model::check_hash_map::<Bytes<4>, [u32; 7], false>(run, seed, 200, string, |rng| {
            [rng.next() as u32; 7]
        })
    });
}

#[test]
fn hash_map_of_pairs() {
    on_test_heap(12, |run, seed| {
        model::check_hash_map::<Pair<u16, Bytes>, [u8; 250], true>(
            run,
            seed,
            150,
            |rng| (rng.below(3) as u16, rng.bytes(20)),
            |rng| [rng.next() as u8; 250],
        )
    });
}

#[test]
fn ordered_map_of_words() {
    on_test_heap(24, |run, seed| {
        model::check_ordered_map::<u64, u64>(run, seed, 250, small, Rng::next)
    });
    on_test_heap(24, |run, seed| {
        model::check_counted_map::<u64, u64>(run, seed, 250, small, Rng::next)
    });
}

#[test]
fn ordered_map_of_strings() {
    on_test_heap(24, |run, seed| {
        model::check_ordered_map::<Bytes, Bytes>(run, seed, 250, string, string)
    });
    on_test_heap(24, |run, seed| {
        model::check_counted_map::<Bytes<3>, ()>(run, seed, 250, string, |_| ())
    });
}

#[test]
fn ordered_map_of_scores() {
    on_test_heap(24, |run, seed| {
        model::check_pair_map::<Total, Bytes, ()>(
            run,
            seed,
            250,
            |rng| (Total(rng.below(8) as f64 - 4.0), rng.bytes(40)),
            |_| (),
        )
    });
}

/// Few keys, so that entries often move to where one is, with values that have blocks of their own.
#[test]
fn ordered_map_of_pairs() {
    on_test_heap(24, |run, seed| {
        model::check_pair_map::<u64, Bytes, Bytes>(
            run,
            seed,
            250,
            |rng| (rng.below(50), rng.bytes(2)),
            |rng| rng.bytes(40),
        )
    });
    on_test_heap(8, |run, seed| {
        model::check_pair_map::<u64, u8, u64>(
            run,
            seed,
            250,
            |rng| (rng.below(500), rng.below(3) as u8),
            Rng::next,
        )
    });
}

#[test]
fn ordered_map_of_large_items() {
    on_test_heap(8, |run, seed| {
        model::check_ordered_map::<[u8; 200], [u8; 256]>(
            run,
            seed,
            200,
            |rng| [small(rng) as u8; 200],
            |rng| [rng.next() as u8; 256],
        )
    });
}

#[test]
fn vector_of_words_and_others() {
    on_test_heap(16, |run, seed| model::check_vector::<u64>(run, seed, 300, Rng::next));
    on_test_heap(16, |run, seed| model::check_vector::<u8>(run, seed, 300, |rng| rng.next() as u8));
    on_test_heap(16, |run, seed| {
        model::check_vector::<[u16; 13]>(run, seed, 300, |rng| [rng.next() as u16; 13])
    });
}

#[test]
fn blob() {
    on_test_heap(24, |run, seed| model::check_blob(run, seed, 150));
}

#[test]
fn vector_with_a_directory() {
    let mut heap = TestHeap::new();
    let vector = Vector::<[u64; 1024]>::create(&mut heap).expect("room");
    for index in 0..1000 {
        vector.push(&mut heap, [index; 1024]).expect("room");
        heap.commit();
    }
    vector.check(&mut heap, &mut |_| Ok(())).expect("it is whole");
    assert_eq!(vector.get(&mut heap, 777).expect("it is whole"), Some([777; 1024]));
    for index in (300..1000).rev() {
        assert_eq!(vector.pop(&mut heap).expect("it is whole"), Some([index; 1024]));
        heap.commit();
    }
    vector.check(&mut heap, &mut |_| Ok(())).expect("it is whole");
    vector.truncate(&mut heap, 0).expect("it is whole");
    vector.push(&mut heap, [1; 1024]).expect("room");
    vector.destroy(&mut heap).expect("it is whole");
    assert_eq!(heap.live(), 0);
}

#[test]
fn keys_in_order_fill_the_leaves() {
    let mut heap = TestHeap::new();
    let map = OrderedMap::<u64, u64>::create(&mut heap).expect("room");
    for key in 0..10_000 {
        map.insert(&mut heap, key, key).expect("room");
        heap.commit();
    }
    map.check(&mut heap, &mut |_| Ok(())).expect("it is whole");
    assert!(heap.live() < 10_000 / 12, "{} nodes", heap.live());
}

#[test]
fn a_hash_map_grows_and_shrinks_with_its_entries() {
    let mut heap = TestHeap::new();
    let map = HashMap::<u64, u64>::create(&mut heap).expect("room");
    for key in 0..200_000 {
        map.insert(&mut heap, key, key).expect("room");
        heap.commit();
    }
    map.check(&mut heap, &mut |_| Ok(())).expect("it is whole");
    for key in 100..200_000 {
        map.remove(&mut heap, key).expect("it is whole");
        heap.commit();
    }
    map.check(&mut heap, &mut |_| Ok(())).expect("it is whole");
    let (mut cursor, mut calls) = (0, 0);
    loop {
        (cursor, _) = map.scan(&mut heap, cursor, 1).expect("it is whole");
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!(calls < 1000, "{calls} calls for 100 entries");
}

/// A part of a map, as one that was made by inserting it: it is checked, compared with std's, and changed.
fn retained_part<V: perdura::Persist + PartialEq + std::fmt::Debug, const COUNTED: bool>(
    size: u64,
    tenths: u64,
    seed: u64,
    value: fn(&mut Rng) -> V,
) {
    let (mut rng, mut heap) = (Rng(seed), TestHeap::new());
    let what = format!("{size} entries, {tenths} tenths kept, seed {seed}");
    let run = &mut |tx: &mut dyn perdura::Tx| {
        let map = OrderedMap::<u64, V, COUNTED>::create(tx)?;
        let mut model = std::collections::BTreeMap::new();
        for _ in 0..size {
            let (key, value) = (rng.below(4 * size), value(&mut rng));
            map.set(tx, key, value)?;
            model.insert(key, value);
        }
        let mut asked = Vec::new();
        let part = map.retained(tx, &mut |key, value| {
            asked.push((key, value));
            Ok(key % 10 < tenths)
        })?;
        assert!(asked.into_iter().eq(model.iter().map(|(key, value)| (*key, *value))), "{what}");
        assert_eq!(map.len(tx)?, model.len() as u64, "{what}");
        map.check(tx, &mut |_| Ok(()))?;
        let before = tx.point();
        let mut left = 2 * size / 3;
        let refused = map.retained(tx, &mut |_, _| {
            left = left.checked_sub(1).ok_or_else(|| Error::Aborted("enough".into()))?;
            Ok(true)
        });
        assert_eq!(refused.is_err(), model.len() as u64 > 2 * size / 3, "{what}");
        tx.undo_to(before)?;
        map.destroy(tx)?;
        model.retain(|key, _| key % 10 < tenths);
        for round in 0..4 {
            part.check(tx, &mut |_| Ok(()))?;
            let entries: Vec<(u64, V)> = part.iter(tx)?.collect::<Result<_>>()?;
            assert!(
                entries.into_iter().eq(model.iter().map(|(key, value)| (*key, *value))),
                "{what}, {round}"
            );
            assert_eq!(part.len(tx)?, model.len() as u64, "{what}, {round}");
            for _ in 0..size / 3 {
                let (key, value) = (rng.below(5 * size), value(&mut rng));
                match rng.below(3 - round % 2) {
                    0 => assert_eq!(part.remove(tx, key)?, model.remove(&key), "{what}"),
                    _ => {
                        assert_eq!(part.insert(tx, key, value)?, model.insert(key, value), "{what}")
                    }
                }
            }
        }
        part.destroy(tx)
    };
    heap.run(run).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(heap.live(), 0, "{what}: blocks are left");
}

#[test]
fn a_part_of_a_map_is_a_map() {
    for (number, size) in [0, 1, 2, 12, 13, 40, 300, 5_000].into_iter().enumerate() {
        for tenths in [0, 1, 5, 9, 10] {
            let seed = 10 * number as u64 + tenths;
            retained_part::<u64, false>(size, tenths, seed, Rng::next);
            retained_part::<u64, true>(size, tenths, seed, Rng::next);
            retained_part::<[u64; 3], true>(size, tenths, seed, |rng| [rng.next(); 3]);
            retained_part::<(), false>(size, tenths, seed, |_| ());
        }
    }
}
