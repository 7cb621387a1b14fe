//! Lanes, which tell apart sessions that are open at the same time, and the counts of large maps, which have a part
//! for each lane.

use crate::family::Family;
use perdura::collections::model::Rng;
use perdura::collections::{HashMap, check_root, destroy_root_some, kind};
use perdura::testing::{ScatteredTx, TestHeap};
use perdura::tx::Root;
use perdura::{AnyHeap, AnySession, Error, Format, Result, Tx};
use std::collections::BTreeMap;

const LIMIT: u64 = 8 << 20;

/// Entries from which on a map counts in lanes.
const MANY: u64 = 4096;

type Map = HashMap<u64, u64>;

fn create(engine: Family) -> Box<dyn AnyHeap> {
    engine.in_ram(Format { limit: LIMIT, log: None, id: 1, requires: None, checksums: false })
}

fn lane(session: &mut AnySession) -> u32 {
    session.transaction(|tx| Ok(tx.lane())).expect("a lane")
}

fn sessions_differ(engine: Family) {
    let heap = create(engine);
    let (mut first, mut second) = (heap.session().unwrap(), heap.session().unwrap());
    let (a, b) = (lane(&mut first), lane(&mut second));
    assert_ne!(a, b, "{}", engine.name);
    assert_eq!(a, lane(&mut first), "{}: a session stays in its lane", engine.name);
    let mut third = heap.session().unwrap();
    let c = lane(&mut third);
    assert!(c != a && c != b, "{}", engine.name);
    drop(first);
    assert_eq!(lane(&mut heap.session().unwrap()), a, "{}: lanes are used again", engine.name);
}

#[test]
fn sessions_that_are_open_together_have_lanes_of_their_own() {
    for engine in Family::all() {
        sessions_differ(engine);
    }
}

/// Inserts and removes random keys of its own. Returns the number of entries left.
fn toggle(heap: &dyn AnyHeap, map: Map, seed: u64) -> u64 {
    let (mut session, mut rng) = (heap.session().unwrap(), Rng(seed));
    let mut left = 0u64;
    for step in 0..3000 {
        // Grows, and shrinks again, to less than the lanes hold.
        let inserts = if step < 1800 { 9 } else { 1 };
        let key = rng.below(2000) * 2 + seed;
        let inserted = rng.below(10) < inserts;
        let change = session.transaction(|tx| match inserted {
            true => Ok(u64::from(map.set(tx, key, key)?)),
            false => Ok(u64::from(map.remove(tx, key)?.is_some()).wrapping_neg()),
        });
        left = left.wrapping_add(change.unwrap());
    }
    left
}

fn counts_add_up(engine: Family) {
    let heap = create(engine);
    let mut session = heap.session().unwrap();
    let map = session
        .transaction(|tx| {
            let map = Map::create(tx)?;
            map.use_lanes(tx)?;
            Ok(map)
        })
        .unwrap();
    let left: u64 = std::thread::scope(|threads| {
        let heap = &*heap;
        let all: Vec<_> =
            (0..2).map(|seed| threads.spawn(move || toggle(heap, map, seed))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    session
        .read(|tx| {
            assert_eq!(map.len(tx)?, left, "{}", engine.name);
            map.check(tx, &mut |_| Ok(()))
        })
        .unwrap();
}

#[test]
fn counts_of_two_threads_add_up() {
    for engine in Family::rolling_back() {
        counts_add_up(engine);
    }
}

/// A large map, filled from several lanes.
fn large(heap: &mut TestHeap) -> Map {
    let map = heap.run(&mut |tx| Map::create_seeded(tx, 3)).unwrap();
    fill(heap, map, 0..MANY + 904);
    map
}

fn fill(heap: &mut TestHeap, map: Map, keys: std::ops::Range<u64>) {
    for key in keys {
        heap.lane = key as u32 % 40;
        assert!(heap.run(&mut |tx| map.set(tx, key, key * 3)).unwrap());
    }
}

fn drain(heap: &mut TestHeap, map: Map, keys: std::ops::Range<u64>) {
    for key in keys {
        heap.lane = key as u32 % 7;
        assert_eq!(heap.run(&mut |tx| map.remove(tx, key)).unwrap(), Some(key * 3));
    }
}

/// Checks that the map is intact, has this many entries, and owns every block.
fn check(heap: &mut TestHeap, map: Map, entries: u64) {
    let mut blocks = Vec::new();
    let mut visit = |at| {
        blocks.push(at);
        Ok(())
    };
    assert!(check_root(heap, Root { at: map.at(), kind: kind::HASH_MAP }, &mut visit).unwrap());
    blocks.sort_unstable();
    assert_eq!(blocks, heap.live_blocks(), "each block has one owner");
    assert_eq!(map.len(heap).unwrap(), entries);
    assert_eq!(map.is_empty(heap).unwrap(), entries == 0);
}

#[test]
fn large_maps_have_lanes_and_small_ones_have_none() {
    let heap = &mut TestHeap::new();
    let map = large(heap);
    assert!(map.has_lanes(heap).unwrap());
    check(heap, map, 5000);
    drain(heap, map, 0..4950);
    assert!(!map.has_lanes(heap).unwrap());
    check(heap, map, 50);
    fill(heap, map, 0..4950);
    assert!(map.has_lanes(heap).unwrap());
    heap.run(&mut |tx| map.clear(tx)).unwrap();
    assert!(!map.has_lanes(heap).unwrap());
    check(heap, map, 0);
    heap.run(&mut |tx| map.destroy(tx)).unwrap();
    assert_eq!(heap.live(), 0);
}

#[test]
fn maps_with_lanes_are_destroyed_with_them() {
    let heap = &mut TestHeap::new();
    let map = large(heap);
    let root = Root { at: map.at(), kind: kind::HASH_MAP };
    while !heap.run(&mut |tx| destroy_root_some(tx, root, 300)).unwrap() {
        map.check(heap, &mut |_| Ok(())).unwrap();
    }
    assert_eq!(heap.live(), 0);
}

#[test]
fn lanes_are_moved_with_their_map() {
    let heap = &mut TestHeap::new();
    let map = large(heap);
    let before = heap.peek(map.at() + 24);
    heap.run(&mut |tx| {
        let tx: &mut dyn Tx = &mut ScatteredTx::new(tx, 4096, true);
        let mut cursor = 0;
        loop {
            cursor = map.compact_some(tx, cursor, 100, &mut |_, _| Ok(()))?;
            if cursor == 0 {
                return Ok(());
            }
        }
    })
    .unwrap();
    assert_ne!(heap.peek(map.at() + 24), before);
    check(heap, map, 5000);
    drain(heap, map, 0..5000);
    check(heap, map, 0);
}

/// Gives a large map the header that it had before lanes existed: one count, and no flag for lanes in the tag.
fn make_old(heap: &mut TestHeap, map: Map) {
    heap.run(&mut |tx| {
        let (entries, lanes) = (map.len(tx)?, tx.read_word(map.at() + 24)?);
        let other = Map::create(tx)?;
        let tag = tx.read_word(other.at())?;
        other.destroy(tx)?;
        tx.free(lanes)?;
        tx.write_word(map.at(), tag)?;
        tx.write_word(map.at() + 24, entries)
    })
    .unwrap();
}

#[test]
fn a_large_map_of_an_older_program_is_read_and_changed() {
    let heap = &mut TestHeap::new();
    let map = large(heap);
    make_old(heap, map);
    check(heap, map, 5000);
    drain(heap, map, 4990..5000);
    assert!(!map.has_lanes(heap).unwrap(), "a removal makes none");
    check(heap, map, 4990);
    fill(heap, map, 5000..5200);
    assert!(map.has_lanes(heap).unwrap(), "an insertion does");
    check(heap, map, 5190);
    make_old(heap, map);
    drain(heap, map, 0..4990);
    check(heap, map, 200);
}

#[test]
fn an_older_program_takes_a_map_with_lanes_for_another_type() {
    let heap = &mut TestHeap::new();
    let map = large(heap);
    let laned = heap.peek(map.at());
    make_old(heap, map);
    // A program without lanes compares the tag with the one it knows.
    assert_ne!(heap.peek(map.at()), laned);
    fill(heap, map, 5000..5200);
    assert_eq!(heap.peek(map.at()), laned);
    let other = HashMap::<u64, u64, false>::new(map.at()).len(heap);
    assert!(matches!(other, Err(Error::WrongType { .. })));
}

#[test]
fn damaged_lanes_are_an_error() {
    let mut rng = Rng(1);
    for round in 0..300 {
        let heap = &mut TestHeap::new();
        let map = heap
            .run(&mut |tx| {
                let map = Map::create(tx)?;
                map.use_lanes(tx)?;
                (0..40).try_for_each(|key| map.set(tx, key, key).map(drop))?;
                Ok(map)
            })
            .unwrap();
        let lanes = heap.peek(map.at() + 24);
        let at = [map.at() + 24, lanes + rng.below(32) * 64 + 8 * rng.below(2)][round % 2];
        let was = heap.peek(at);
        heap.damage(at, [rng.next(), 0, was ^ 1 << rng.below(64)][round % 3]);
        if heap.peek(at) == was {
            continue;
        }
        let found = map.check(heap, &mut |_| Ok(()));
        assert!(matches!(found, Err(Error::Corrupt { .. })), "round {round}: {found:?}");
        for key in 0..40 {
            let _ = heap.run(&mut |tx| map.set(tx, 100 + key, 1).map(drop));
            let _: Result<()> = heap.run(&mut |tx| map.remove(tx, key).map(drop));
        }
        let _ = heap.run(&mut |tx| map.destroy(tx));
    }
}

#[test]
fn the_fullness_of_maps_with_lanes_is_that_of_others() {
    for lanes in [1, 31] {
        let heap = &mut TestHeap::new();
        let map = heap.run(&mut |tx| Map::create_seeded(tx, 3)).unwrap();
        let buckets = |heap: &TestHeap| heap.peek(map.at() + 16);
        let mut model = BTreeMap::new();
        let mut rng = Rng(lanes);
        for _ in 0..20_000 {
            let key = rng.next();
            heap.lane = rng.below(lanes) as u32;
            heap.run(&mut |tx| map.set(tx, key, 1)).unwrap();
            model.insert(key, 1);
        }
        // Four sixths of seven slots.
        let fullness = 20_000 * 600 / (buckets(heap) * 7);
        assert!((395..415).contains(&fullness), "{} buckets with {lanes} lanes", buckets(heap));
        for (&key, _) in model.iter().skip(100) {
            heap.lane = rng.below(lanes) as u32;
            heap.run(&mut |tx| map.remove(tx, key)).unwrap();
        }
        assert!(buckets(heap) < 200, "{} buckets for 100 entries", buckets(heap));
    }
}
