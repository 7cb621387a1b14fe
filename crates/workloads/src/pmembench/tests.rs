use super::ctree::CTree;
use super::hashmap_tx::HashmapTx;
use super::{PmdkMap, Then};
use crate::random::{Random, splitmix64};
use perdura::testing::TestHeap;
use std::collections::BTreeMap;

fn pairs<M: PmdkMap>(heap: &mut TestHeap, map: M) -> (Vec<(u64, u64)>, Vec<u64>) {
    let (mut pairs, mut blocks) = (Vec::new(), Vec::new());
    let visit = &mut |at| {
        blocks.push(at);
        Ok(())
    };
    let pair = &mut |key, value| {
        pairs.push((key, value));
        Ok(())
    };
    map.check(heap, visit, pair).expect("a sound map");
    pairs.sort_unstable();
    blocks.sort_unstable();
    (pairs, blocks)
}

/// Random insertions, removals and look-ups have the same results as on a map of the standard library.
fn as_the_model<M: PmdkMap>(key_of: fn(&mut Random) -> u64) {
    let (mut heap, mut model, mut random) = (TestHeap::new(), BTreeMap::new(), Random::new(7, 0));
    let map = M::create(&mut heap).expect("a map");
    for step in 0..6_000u64 {
        // It grows for a while, and shrinks then.
        let key = key_of(&mut random);
        let then = if random.below(6_000) > step {
            let new = model.insert(key, step).is_none();
            let (was_new, then) = map.insert(&mut heap, key, step).expect("an insertion");
            assert_eq!(was_new, new);
            then
        } else {
            let (removed, then) = map.remove(&mut heap, key).expect("a removal");
            assert_eq!(removed, model.remove(&key));
            then
        };
        if let Then::Rebuild(buckets) = then {
            map.rebuild(&mut heap, buckets).expect("another table");
        }
        heap.commit();
        let asked = key_of(&mut random);
        assert_eq!(map.get(&mut heap, asked).expect("a look-up"), model.get(&asked).copied());
        if step % 500 == 0 {
            let (found, blocks) = pairs(&mut heap, map);
            assert_eq!(found, model.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(blocks, heap.live_blocks(), "a leak");
        }
    }
}

#[test]
fn the_crit_bit_tree_is_as_the_model() {
    as_the_model::<CTree>(|random| random.between(1, 40) << random.below(56));
}

#[test]
fn the_hash_map_is_as_the_model() {
    as_the_model::<HashmapTx>(|random| splitmix64(random.below(1_500)));
}

/// Words of the structures are changed one by one: the check must notice, or find the same keys.
fn damage_is_noticed<M: PmdkMap>() {
    let (mut heap, mut random) = (TestHeap::new(), Random::new(9, 0));
    let map = M::create(&mut heap).expect("a map");
    for _ in 0..40 {
        let key = random.word() | 1;
        map.insert(&mut heap, key, key ^ 1).expect("an insertion");
    }
    heap.commit();
    let (whole, blocks) = pairs(&mut heap, map);
    let mut noticed = 0;
    for at in blocks.iter().flat_map(|block| (0..3).map(move |index| block + index * 8)) {
        let was = heap.peek(at);
        heap.damage(at, was ^ 1 << random.below(63));
        let mut found = Vec::new();
        let verdict = map.check(&mut heap, &mut |_| Ok(()), &mut |key, value| {
            found.push((key, value));
            Ok(())
        });
        found.sort_unstable();
        noticed += u32::from(verdict.is_err() || found != whole);
        heap.damage(at, was);
    }
    assert!(noticed as usize > blocks.len() * 2, "{noticed} of {}", blocks.len() * 3);
}

#[test]
fn damage_of_maps_is_noticed() {
    damage_is_noticed::<CTree>();
    damage_is_noticed::<HashmapTx>();
}
