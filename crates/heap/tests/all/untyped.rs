//! Collections copied by a program that does not know their types equal the originals.

use perdura::collections::untyped::{create, describe, for_each, insert};
use perdura::collections::{Blob, Bytes, HashMap, OrderedMap, Pair, Total, Vector, kind};
use perdura::testing::TestHeap;
use perdura::{Purpose, Root};
use std::collections::BTreeSet;

/// Copies a root's collection. Returns its offset in the new heap.
fn copied(from: &mut TestHeap, root: Root, to: &mut TestHeap) -> u64 {
    let description = describe(from, root).expect("a whole one").expect("a collection");
    assert_eq!(description.kind(), root.kind);
    let mut at = create(to, &description).expect("room");
    for_each(from, &description, root.at, &mut |key, value| {
        at = insert(to, &description, at, &key, &value)?.expect("a new key");
        Ok(())
    })
    .expect("a copy");
    to.commit();
    at
}

/// Asserts that all blocks are the collection's, each once.
fn check(heap: &mut TestHeap, root: Root) {
    let mut seen = BTreeSet::new();
    let known = perdura::collections::check_root(heap, root, &mut |at| {
        assert!(seen.insert(at), "the block at {at:#x} is there twice");
        Ok(())
    });
    assert!(known.expect("a whole collection"));
    assert_eq!(seen, heap.live_blocks().into_iter().collect());
}

/// Short and long ones, with the same beginnings.
fn text(number: u64) -> Vec<u8> {
    let fill = if number.is_multiple_of(3) { 40 } else { number % 20 };
    [vec![b'k'; fill as usize], number.to_be_bytes().to_vec()].concat()
}

fn two() -> (TestHeap, TestHeap) {
    (TestHeap::new(), TestHeap::new())
}

fn hash_maps<const COUNTED: bool>(count: u64) {
    let (mut old, mut new) = two();
    let map = HashMap::<Bytes, Bytes<3>, COUNTED>::create(&mut old).expect("room");
    for number in 0..count {
        map.set(&mut old, &text(number), &text(number * 7)).expect("room");
    }
    let at = copied(&mut old, Root { at: map.at(), kind: kind::HASH_MAP }, &mut new);
    let copy = HashMap::<Bytes, Bytes<3>, COUNTED>::new(at);
    check(&mut new, Root { at, kind: kind::HASH_MAP });
    assert_eq!(copy.len(&mut new).expect("a count"), count);
    for number in 0..count {
        let found = copy.get(&mut new, &text(number)).expect("a look");
        assert_eq!(found, Some(text(number * 7)));
        if number.is_multiple_of(2) {
            assert!(copy.remove(&mut new, &text(number)).expect("a removal").is_some());
        }
    }
    new.commit();
    check(&mut new, Root { at, kind: kind::HASH_MAP });
}

#[test]
fn hash_maps_are_what_they_were() {
    for count in [0, 1, 5, 300] {
        hash_maps::<true>(count);
        hash_maps::<false>(count);
    }
    // Counted in lanes.
    hash_maps::<true>(6000);
}

#[test]
fn ordered_maps_are_what_they_were() {
    for count in [0u64, 1, 8, 9, 200, 5000] {
        let (mut old, mut new) = two();
        let map = OrderedMap::<Pair<Total, Bytes<3>>, u64, true>::create(&mut old).expect("room");
        // In no particular order.
        for number in (0..count).map(|number| number * 7919 % count.max(1)) {
            let score = Total((number / 3) as f64 - 100.5);
            map.set(&mut old, (score, &text(number)), number).expect("room");
        }
        let count = map.len(&mut old).expect("a count");
        let at = copied(&mut old, Root { at: map.at(), kind: kind::ORDERED_MAP }, &mut new);
        let copy = OrderedMap::<Pair<Total, Bytes<3>>, u64, true>::new(at);
        check(&mut new, Root { at, kind: kind::ORDERED_MAP });
        copy.check(&mut new, &mut |_| Ok(())).expect("keys in order");
        assert_eq!(copy.len(&mut new).expect("a count"), count);
        for rank in (0..count).step_by(7) {
            let entry = map.nth(&mut old, rank).expect("an entry").expect("there");
            assert_eq!(copy.nth(&mut new, rank).expect("an entry"), Some(entry.clone()));
            let found = copy.rank(&mut new, (entry.0.0, &entry.0.1)).expect("a rank");
            assert_eq!(found, (rank, true));
        }
        // The copy can be used as any other.
        for number in 0..count {
            copy.set(&mut new, (Total(number as f64 * 0.7), b"new"), number).expect("room");
            if let Some((key, _)) = copy.nth(&mut new, number / 2).expect("an entry") {
                copy.remove(&mut new, (key.0, &key.1)).expect("a removal");
            }
        }
        new.commit();
        copy.check(&mut new, &mut |_| Ok(())).expect("keys in order");
        check(&mut new, Root { at, kind: kind::ORDERED_MAP });
    }
}

#[test]
fn maps_without_counts_or_values_are_what_they_were() {
    let (mut old, mut new) = two();
    let map = OrderedMap::<Bytes, ()>::create(&mut old).expect("room");
    for number in 0..2000 {
        map.set(&mut old, &text(number), ()).expect("room");
    }
    let at = copied(&mut old, Root { at: map.at(), kind: kind::ORDERED_MAP }, &mut new);
    let copy = OrderedMap::<Bytes, ()>::new(at);
    copy.check(&mut new, &mut |_| Ok(())).expect("keys in order");
    for number in 0..2000 {
        assert!(copy.contains(&mut new, &text(number)).expect("a look"));
    }
    check(&mut new, Root { at, kind: kind::ORDERED_MAP });
}

#[test]
fn vectors_and_byte_strings_are_what_they_were() {
    let (mut old, mut new) = two();
    let bytes = Vector::<u8>::create(&mut old).expect("room");
    let large = Vector::<[u64; 3]>::create(&mut old).expect("room");
    let odd = Vector::<[u32; 3]>::create(&mut old).expect("room");
    for number in 0..700u64 {
        bytes.push(&mut old, number as u8).expect("room");
        large.push(&mut old, [number, u64::MAX - number, 0]).expect("room");
        odd.push(&mut old, [number as u32, 1, 2]).expect("room");
    }
    let mut root = |at| copied(&mut old, Root { at, kind: kind::VECTOR }, &mut new);
    let (bytes, large, odd) = (root(bytes.at()), root(large.at()), root(odd.at()));
    for number in 0..700u64 {
        let found = Vector::<u8>::new(bytes).get(&mut new, number).expect("a look");
        assert_eq!(found, Some(number as u8));
        let found = Vector::<[u64; 3]>::new(large).get(&mut new, number).expect("a look");
        assert_eq!(found, Some([number, u64::MAX - number, 0]));
        let found = Vector::<[u32; 3]>::new(odd).get(&mut new, number).expect("a look");
        assert_eq!(found, Some([number as u32, 1, 2]));
    }
    for len in [0usize, 7, 5000, 300_000] {
        let (mut old, mut new) = two();
        let blob = Blob::create(&mut old, Purpose::Value, &vec![b'x'; len]).expect("room");
        let at = copied(&mut old, Root { at: blob.at(), kind: kind::BLOB }, &mut new);
        assert_eq!(Blob::new(at).read(&mut new).expect("bytes"), vec![b'x'; len]);
        check(&mut new, Root { at, kind: kind::BLOB });
    }
}

#[test]
fn rejects_non_collections() {
    let mut heap = TestHeap::new();
    let map = HashMap::<u64, u64>::create(&mut heap).expect("room");
    let (at, other) = (map.at(), kind::ORDERED_MAP);
    assert!(describe(&mut heap, Root { at, kind: 1000 }).expect("a look").is_none());
    assert!(describe(&mut heap, Root { at, kind: other }).is_err());
    let description = describe(&mut heap, Root { at, kind: kind::HASH_MAP }).unwrap().unwrap();
    let wrong = Default::default();
    assert!(insert(&mut heap, &description, at, &wrong, &wrong).is_err());
}
