use super::{Committed, Echo, Master, Step, Version, master};
use crate::random::Random;
use perdura::testing::TestHeap;

const BYTES: usize = 64;

fn committed(done: perdura::Result<Option<Committed>>) -> Committed {
    done.expect("room").expect("no conflict")
}

/// A reader of an old snapshot goes on to see it.
#[test]
fn snapshots_stay_as_they_were() {
    let mut heap = TestHeap::new();
    let store = Master::create(&mut heap, BYTES).expect("an empty heap");
    let mut marks = 0_u64;
    for puts in [vec![1, 2, 3], vec![2], vec![9, 2]] {
        let seen = store.snapshot(&mut heap).expect("a read");
        let done = committed(store.commit(&mut heap, seen, &puts));
        assert_eq!(done.snapshot, seen + 1);
        marks = marks.wrapping_add(done.marks);
        heap.commit();
    }
    let mut get = |number, snapshot| {
        let found = store.get(&mut heap, number, snapshot).expect("sound versions");
        found.map(|version| (version.snapshot, version.ordinal))
    };
    assert_eq!(
        [0, 1, 2, 3].map(|snapshot| get(2, snapshot)),
        [None, Some((1, 0)), Some((2, 1)), Some((3, 2))]
    );
    assert_eq!((get(9, 2), get(9, 3), get(1, 3)), (None, Some((3, 0)), Some((1, 0))));
    let (cursor, found) = store.scan(&mut heap, 0, 100).expect("sound versions");
    assert_eq!((cursor, found.len()), (0, 4));
    let mut sum = 0_u64;
    for (number, versions) in found {
        for version in versions {
            sum = sum.wrapping_add(master::mark(number, version));
        }
    }
    assert_eq!(sum, marks);
}

/// The first to commit wins, and the other one's batch leaves nothing.
#[test]
fn a_newer_version_is_a_conflict() {
    let mut heap = TestHeap::new();
    let store = Master::create(&mut heap, BYTES).expect("an empty heap");
    committed(store.commit(&mut heap, 0, &[1, 2]));
    committed(store.commit(&mut heap, 1, &[2]));
    heap.commit();
    let before = heap.live_blocks();
    assert_eq!(store.commit(&mut heap, 1, &[5, 1, 2]).expect("a read"), None);
    heap.commit();
    assert_eq!(heap.live_blocks(), before);
    assert_eq!(store.get(&mut heap, 5, u64::MAX).expect("a read"), None);
    assert_eq!(committed(store.commit(&mut heap, 1, &[5, 1])).inserted, 1);
}

#[test]
fn damage_is_an_error() {
    let mut heap = TestHeap::new();
    let store = Master::create(&mut heap, BYTES).expect("an empty heap");
    for seen in 0..4 {
        committed(store.commit(&mut heap, seen, &[1, seen + 10]));
    }
    heap.commit();
    let sound = store.scan(&mut heap, 0, 100).expect("sound versions").1;
    assert_eq!(sound.iter().map(|(_, versions)| versions.len()).sum::<usize>(), 8);
    let (mut blocks, mut noticed) = (Vec::new(), 0);
    let root = perdura::Tx::root(&mut heap, "bench.echo").expect("a read").expect("the root");
    master::check_blocks(&mut heap, root.at, &mut |at| {
        blocks.push(at);
        Ok(())
    })
    .expect("sound blocks");
    let mut reached = blocks.clone();
    reached.sort_unstable();
    assert_eq!(reached, heap.live_blocks(), "each block is reached, once");
    for version in &blocks[blocks.len() - 8..] {
        for word in 0..(16 + BYTES as u64) / 8 {
            let at = version + word * 8;
            let old = heap.peek(at);
            heap.damage(at, old ^ 1 << 17);
            let scanned = store.scan(&mut heap, 0, 100);
            noticed += u64::from(!scanned.is_ok_and(|(_, found)| found == sound));
            heap.damage(at, old);
        }
    }
    assert_eq!(noticed, 8 * (16 + BYTES as u64) / 8);
}

#[test]
fn batches_are_as_whisper_has_them() {
    let echo = Echo::new(1_000, BYTES, 8).expect("valid parameters");
    let mut random = Random::new(7, 0);
    let (mut puts, mut gets, mut new) = (0_u32, 0_u32, 0_u32);
    for _ in 0..5_000 {
        let steps = echo.draw(&mut random, &[]);
        let of_batch = steps.iter().filter(|step| matches!(step, Step::Put(_))).count();
        assert!(of_batch == 8 && matches!(steps.last(), Some(Step::Put(_))));
        puts += 8;
        gets += (steps.len() - of_batch) as u32;
        new += steps.iter().filter(|step| matches!(step, Step::Put(1_000..))).count() as u32;
    }
    let share = f64::from(puts) / f64::from(puts + gets);
    assert!((share - 0.8).abs() < 0.01, "{share}");
    let share = f64::from(new) / f64::from(puts);
    assert!((share - 0.3).abs() < 0.01, "{share}");
}

#[test]
fn refuses_what_it_cannot_run_on() {
    for (keys, bytes, puts) in [(0, 64, 8), (1, 0, 8), (1, 60, 8), (1, 64, 0), (1, 2 << 20, 8)] {
        assert!(Echo::new(keys, bytes, puts).is_err(), "{keys} {bytes} {puts}");
    }
    let older = Version { snapshot: 1, ordinal: 0 };
    assert_ne!(master::mark(1, older), master::mark(2, older));
}
