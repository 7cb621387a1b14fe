//! Tests for every set, on a heap that notices every access outside a live block.

use super::{KeySet, toggle, value_of};
use crate::random::Random;
use perdura::testing::TestHeap;
use perdura::{Error, Result};
use std::collections::BTreeSet;

fn heap_with<K: KeySet>(entries: u64) -> (TestHeap, K) {
    let mut heap = TestHeap::default();
    let set = K::create(&mut heap, entries, 2 * entries).expect("an empty set");
    heap.commit();
    (heap, set)
}

/// The blocks and the keys of a set that must be whole.
fn contents<K: KeySet>(heap: &mut TestHeap, set: K) -> Result<(BTreeSet<u64>, BTreeSet<u64>)> {
    let (mut blocks, mut keys) = (BTreeSet::new(), BTreeSet::new());
    set.check(
        heap,
        &mut |at| {
            assert!(blocks.insert(at), "the block at {at:#x} is there twice");
            Ok(())
        },
        &mut |key, value| {
            assert!(keys.insert(key), "the key {key} is there twice");
            assert_eq!(value, value_of(key), "key {key}");
            Ok(())
        },
    )?;
    Ok((blocks, keys))
}

fn assert_is<K: KeySet>(heap: &mut TestHeap, set: K, model: &BTreeSet<u64>) {
    let (blocks, keys) = contents(heap, set).expect("a whole set");
    assert_eq!(&keys, model);
    assert_eq!(blocks.into_iter().collect::<Vec<_>>(), heap.live_blocks(), "a leak");
}

fn flip<K: KeySet>(heap: &mut TestHeap, set: K, model: &mut BTreeSet<u64>, key: u64) {
    let inserted = set.toggle(heap, key).expect("a whole set");
    heap.commit();
    assert_eq!(inserted, model.insert(key), "key {key}");
    if !inserted {
        model.remove(&key);
    }
}

/// Toggles random keys.
pub(crate) fn as_the_model<K: KeySet>(seed: u64, entries: u64, operations: u64) {
    let (mut heap, set) = heap_with::<K>(entries);
    let (mut model, mut random) = (BTreeSet::new(), Random::new(seed, 0));
    for index in 0..operations {
        flip(&mut heap, set, &mut model, random.below(2 * entries));
        if index.is_multiple_of(operations / 16) {
            assert_is(&mut heap, set, &model);
        }
    }
    assert_is(&mut heap, set, &model);
}

/// Inserts this many scattered keys, and deletes them again.
pub(crate) fn fills_and_empties<K: KeySet>(seed: u64, entries: u64) {
    let (mut heap, set) = heap_with::<K>(entries);
    let empty = heap.live();
    let mut model = BTreeSet::new();
    for key in super::shuffled(entries) {
        flip(&mut heap, set, &mut model, key);
    }
    assert_is(&mut heap, set, &model);
    let mut keys: Vec<u64> = model.iter().copied().collect();
    let mut random = Random::new(seed, 0);
    while !keys.is_empty() {
        let key = keys.swap_remove(random.below(keys.len() as u64) as usize);
        flip(&mut heap, set, &mut model, key);
        if keys.len().is_multiple_of(entries as usize / 8) {
            assert_is(&mut heap, set, &model);
        }
    }
    assert_eq!(heap.live(), empty, "something is left");
}

/// Damages random words: no panic, no hang, and most damage is noticed.
pub(crate) fn damage_is_an_error<K: KeySet>(seed: u64, entries: u64, rounds: u64) {
    let (mut heap, set) = heap_with::<K>(entries);
    let mut random = Random::new(seed, 0);
    let keys: Vec<u64> = (0..entries).map(|key| 2 * key).collect();
    toggle(&mut heap, set, &keys).expect("a whole set");
    heap.commit();
    let blocks = heap.live_blocks();
    let mut noticed = 0;
    for _ in 0..rounds {
        let block = blocks[random.below(blocks.len() as u64) as usize];
        let other = blocks[random.below(blocks.len() as u64) as usize];
        let len = perdura::Tx::usable(&mut heap, block).expect("a live block");
        let at = block + random.below(len.min(64) / 8) * 8;
        let old = heap.peek(at);
        let damage = [0, 1, random.word(), other, block, old ^ 1 << random.below(64)];
        heap.damage(at, damage[random.below(6) as usize]);
        let tried =
            (0..8).try_for_each(|_| set.toggle(&mut heap, random.below(2 * entries)).map(drop));
        heap.abort();
        assert!(
            matches!(tried, Ok(()) | Err(Error::Corrupt { .. } | Error::Misuse { .. })),
            "{tried:?}"
        );
        let checked = set.check(&mut heap, &mut |_| Ok(()), &mut |_, _| Ok(()));
        assert!(
            matches!(checked, Ok(()) | Err(Error::Corrupt { .. } | Error::Misuse { .. })),
            "{checked:?}"
        );
        noticed += u64::from(checked.is_err());
        heap.damage(at, old);
    }
    assert!(noticed > rounds / 8, "{noticed} of {rounds} noticed");
    assert!(contents(&mut heap, set).is_ok());
}
