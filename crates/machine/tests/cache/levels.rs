//! A line in several levels and several cores, step by step.

use crate::level;
use perdura_machine::cache::{Access, CacheStats, Hierarchy, Outcome, Policy};
use perdura_machine::config::{Holds, Level};

const A: u64 = 100;
const B: u64 = 200;
const C: u64 = 300;
const D: u64 = 400;
const TRANSFER: u32 = 60;

/// One set of LRU that costs `latency_cycles`.
fn set(ways: u32, latency_cycles: u32, holds: Holds) -> Level {
    Level { latency_cycles, holds, ..level(1, ways, Policy::Lru) }
}

fn shared(level: Level) -> Level {
    Level { shared: true, ..level }
}

fn alone(levels: &[Level]) -> Hierarchy {
    Hierarchy::new(levels, 1, TRANSFER, 1)
}

/// The level at which a load by core 0 ends.
fn load(caches: &mut Hierarchy, line: u64) -> usize {
    caches.access(0, line, Access::Load).level
}

fn store(caches: &mut Hierarchy, line: u64) -> usize {
    caches.access(0, line, Access::Store).level
}

/// An access that ended at this level.
fn at(level: usize, cycles: u32) -> Outcome {
    Outcome { level, cycles, handed: false }
}

/// An access to which another core handed the line, or the right to change it.
fn handed(level: usize, cycles: u32) -> Outcome {
    Outcome { handed: true, ..at(level, cycles) }
}

#[test]
fn an_access_costs_the_level_where_it_ends() {
    let l1 = set(1, 4, Holds::NonInclusive);
    let mut caches = alone(&[l1, set(2, 14, Holds::NonInclusive), set(4, 44, Holds::Inclusive)]);
    let mut load = |line| caches.access(0, line, Access::Load);
    for line in [A, B, C] {
        assert_eq!(load(line), at(3, 44), "a miss in all costs the last");
    }
    assert_eq!(load(C), at(0, 4));
    assert_eq!(load(B), at(1, 14));
    assert_eq!(load(A), at(2, 44));
    let stats = caches.stats().clone();
    let counts = |level: usize| (stats.levels[level].hits, stats.levels[level].misses);
    assert_eq!([counts(0), counts(1), counts(2)], [(1, 5), (1, 4), (1, 3)]);
}

/// A is used all the time in the first level, so it is the least recently used line of the second.
fn hot_above(holds: Holds) -> Hierarchy {
    let mut caches = alone(&[set(2, 4, Holds::NonInclusive), set(2, 14, holds)]);
    store(&mut caches, A);
    load(&mut caches, B);
    assert_eq!(load(&mut caches, A), 0);
    load(&mut caches, C);
    caches
}

#[test]
fn an_inclusive_level_takes_lines_from_above_with_their_dirt() {
    let mut caches = hot_above(Holds::Inclusive);
    assert_eq!(caches.evicted(), [A]);
    assert_eq!(caches.stats().levels[1].back_invalidations, 1);
    assert_eq!(caches.stats().levels[1].dirty_evictions, 1);
    assert_eq!(caches.stats().levels[0].dirty_evictions, 0);
    assert!(caches.dirty().is_empty());
    assert_eq!(load(&mut caches, A), 2);
}

#[test]
fn a_level_that_is_not_inclusive_leaves_them_there() {
    let mut caches = hot_above(Holds::NonInclusive);
    assert!(caches.evicted().is_empty());
    assert_eq!(caches.dirty(), [A]);
    assert_eq!(load(&mut caches, A), 0);
    assert!(!caches.contains(0, 1, A), "the second level had replaced it");
    load(&mut caches, B);
    load(&mut caches, D);
    assert!(caches.contains(0, 1, A), "written back to where it no longer was");
    assert_eq!(caches.stats().levels[0].dirty_evictions, 1);
}

#[test]
fn a_victim_level_takes_what_is_replaced_above_and_gives_it_back() {
    let mut caches = alone(&[set(1, 4, Holds::NonInclusive), set(2, 14, Holds::Victims)]);
    store(&mut caches, A);
    assert!(!caches.contains(0, 1, A), "it is not filled from memory");
    load(&mut caches, B);
    assert!(caches.contains(0, 1, A));
    assert_eq!(store(&mut caches, C), 2);
    assert!(caches.contains(0, 1, B), "clean victims come in too");
    assert_eq!(load(&mut caches, A), 1);
    assert!(caches.contains(0, 0, A) && !caches.contains(0, 1, A), "up and out");
    assert!(caches.contains(0, 1, B) && caches.contains(0, 1, C), "in its place");
    assert_eq!(caches.dirty(), [A, C]);
    load(&mut caches, D);
    assert!(caches.evicted().is_empty(), "B went, and was clean");
    load(&mut caches, B);
    assert_eq!(caches.evicted(), [C]);
}

#[test]
fn memory_fills_the_level_above_a_victim_level() {
    // As on Skylake-SP: lines replaced in the second level go to the last one.
    let l2 = set(2, 14, Holds::Inclusive);
    let mut caches = alone(&[set(1, 4, Holds::NonInclusive), l2, set(2, 50, Holds::Victims)]);
    for line in [A, B] {
        store(&mut caches, line);
        assert!(caches.contains(0, 1, line) && !caches.contains(0, 2, line));
    }
    load(&mut caches, C);
    assert!(caches.contains(0, 2, A) && !caches.contains(0, 1, A));
    assert_eq!(load(&mut caches, A), 2);
    assert!(caches.contains(0, 1, A) && !caches.contains(0, 2, A));
    assert_eq!(caches.dirty(), [A, B]);
}

#[test]
fn sets_need_not_be_a_power_of_two() {
    // 19.25 MiB of 11 ways: 28672 sets.
    let sets = 28_672;
    let big = Level { bytes: 19 * 1_048_576 + 262_144, ..level(sets, 11, Policy::Lru) };
    assert_eq!(big.bytes, sets * 11 * 64);
    let mut caches = alone(&[big]);
    (0..11).for_each(|n| assert_eq!(store(&mut caches, 7 + n * sets), 1));
    (8..8 + sets - 1).for_each(|line| assert_eq!(load(&mut caches, line), 1));
    assert_eq!(load(&mut caches, 7), 0, "other sets have not taken its place");
    store(&mut caches, 7 + 11 * sets);
    assert_eq!(caches.evicted(), [7 + sets], "the twelfth of a set takes the oldest one's");
}

/// Private levels of two ways and four, then a shared one.
fn together(last: Holds) -> Hierarchy {
    let l2 = set(4, 14, Holds::Inclusive);
    let last = shared(set(16, 44, last));
    Hierarchy::new(&[set(2, 4, Holds::NonInclusive), l2, last], 3, TRANSFER, 1)
}

const KINDS: [Holds; 3] = [Holds::Inclusive, Holds::NonInclusive, Holds::Victims];

#[test]
fn a_store_leaves_the_line_to_one_core() {
    for kind in KINDS {
        let mut caches = together(kind);
        (0..3).for_each(|core| _ = caches.access(core, A, Access::Load));
        assert_eq!(caches.access(1, A, Access::Store), handed(0, 44 + TRANSFER));
        assert_eq!(caches.stats().invalidations, 2);
        let has = |core| caches.contains(core, 0, A) || caches.contains(core, 1, A);
        assert_eq!([has(0), has(1), has(2)], [false, true, false]);
        assert_eq!(caches.dirty(), [A]);
    }
}

#[test]
fn a_load_fetches_what_another_core_has_dirty() {
    for kind in KINDS {
        let mut caches = together(kind);
        caches.access(0, A, Access::Store);
        let fetched = caches.access(1, A, Access::Load);
        assert_eq!(fetched, handed(2, 44 + TRANSFER));
        assert!(caches.contains(0, 0, A) && caches.contains(1, 0, A) && caches.contains(1, 1, A));
        assert!(caches.contains(0, 2, A), "dirty in the shared level");
        assert_eq!(caches.dirty(), [A]);
        assert_eq!(caches.access(2, A, Access::Load), at(2, 44));
        assert_eq!((caches.stats().transfers, caches.stats().invalidations), (1, 0));
        let stored = caches.access(0, A, Access::Store);
        assert_eq!((stored.level, caches.stats().invalidations), (0, 2));
        assert!(caches.write_back(2, A, true), "dirty once, in core 0's own");
        assert!(caches.dirty().is_empty() && caches.contains(0, 0, A));
        assert!(!caches.write_back(0, A, true));
    }
}

#[test]
fn a_store_takes_what_another_core_has_dirty() {
    for kind in KINDS {
        let mut caches = together(kind);
        caches.access(0, A, Access::Store);
        let taken = caches.access(1, A, Access::Store);
        assert_eq!(taken, handed(2, 44 + TRANSFER));
        assert_eq!((caches.stats().transfers, caches.stats().invalidations), (1, 1));
        assert!(!caches.contains(0, 0, A) && !caches.contains(0, 1, A));
        assert_eq!(caches.dirty(), [A]);
    }
}

#[test]
fn without_a_shared_level_a_fetched_line_is_written_to_memory() {
    let mut caches = Hierarchy::new(&[set(2, 4, Holds::NonInclusive)], 2, TRANSFER, 1);
    caches.access(0, A, Access::Store);
    let fetched = caches.access(1, A, Access::Load);
    assert_eq!(fetched, handed(0, 4 + TRANSFER));
    assert_eq!(caches.evicted(), [A]);
    assert!(caches.dirty().is_empty());
}

#[test]
fn a_victim_level_keeps_dirt_that_more_than_one_core_reads() {
    let mut caches = together(Holds::Victims);
    caches.access(0, A, Access::Store);
    caches.access(1, A, Access::Load);
    caches.access(2, A, Access::Load);
    assert!(caches.contains(0, 2, A), "others have it: it must not be dirty in core 2's own");
    // Cores 0 and 1 replace theirs; core 2 stores.
    for core in [0, 1] {
        (1..=4).for_each(|n| _ = caches.access(core, A + n, Access::Load));
    }
    assert_eq!(caches.access(2, A, Access::Store).level, 0);
    assert_eq!(caches.stats().invalidations, 0);
    assert_eq!(caches.dirty(), [A]);
}

#[test]
fn a_dirty_line_moves_up_whole_where_no_other_core_has_it() {
    let mut caches = together(Holds::Victims);
    caches.access(0, A, Access::Store);
    (1..=4).for_each(|n| _ = caches.access(0, A + n, Access::Load));
    assert!(caches.contains(0, 2, A) && !caches.contains(0, 1, A));
    assert_eq!(caches.access(1, A, Access::Load), at(2, 44));
    assert!(!caches.contains(0, 2, A));
    assert_eq!(caches.access(2, A, Access::Load).cycles, 44 + TRANSFER, "core 1 has it dirty");
}

#[test]
fn a_dirty_line_of_a_shared_level_can_be_read_without_a_transfer() {
    for kind in [Holds::Inclusive, Holds::NonInclusive] {
        let mut caches = together(kind);
        caches.access(0, A, Access::Store);
        (1..=4).for_each(|n| _ = caches.access(0, A + n, Access::Load));
        assert!(!caches.contains(0, 1, A), "written back to the shared level");
        for core in [1, 2, 0] {
            assert_eq!(caches.access(core, A, Access::Load), at(2, 44));
        }
        caches.access(1, A, Access::Store);
        assert_eq!((caches.stats().transfers, caches.stats().invalidations), (0, 2));
        assert_eq!(caches.dirty(), [A]);
    }
}

#[test]
fn an_inclusive_shared_level_takes_lines_from_every_core() {
    let last = shared(set(2, 44, Holds::Inclusive));
    let mut caches = Hierarchy::new(&[set(2, 4, Holds::NonInclusive), last], 3, TRANSFER, 1);
    (0..3).for_each(|core| _ = caches.access(core, A, Access::Load));
    caches.access(0, B, Access::Load);
    caches.access(1, C, Access::Load);
    assert!((0..3).all(|core| !caches.contains(core, 0, A)));
    assert_eq!(caches.stats().levels[1].back_invalidations, 3);
}

#[test]
fn write_back_cleans_and_keeps_or_drops() {
    for keeps in [true, false] {
        let mut caches = alone(&[set(2, 4, Holds::NonInclusive), set(4, 14, Holds::Inclusive)]);
        store(&mut caches, A);
        load(&mut caches, B);
        assert!(caches.write_back(0, A, keeps));
        assert!(!caches.write_back(0, A, keeps) && !caches.write_back(0, B, true));
        assert_eq!(load(&mut caches, A), if keeps { 0 } else { 2 });
        store(&mut caches, A);
        assert_eq!(caches.dirty(), [A], "it can become dirty again");
        caches.drop_line(A);
        assert!(caches.dirty().is_empty());
        assert_eq!(load(&mut caches, A), 2);
    }
}

#[test]
fn a_seed_means_the_same_for_ever() {
    let run = |seed| {
        let mut caches = Hierarchy::new(&[level(4, 4, Policy::Random)], 1, 0, seed);
        (0..2000u64).map(|n| load(&mut caches, n * n % 31)).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn counts_are_written_as_json() {
    let mut caches = alone(&[set(1, 4, Holds::NonInclusive)]);
    store(&mut caches, A);
    load(&mut caches, B);
    let expected = r#"{"levels":[{"hits":0,"misses":2,"dirty_evictions":1,"back_invalidations":0}],"transfers":0,"forwards":0,"invalidations":0}"#;
    assert_eq!(serde_json::to_string(caches.stats()).unwrap(), expected);
    assert_eq!(CacheStats::default().levels.len(), 0);
}

#[test]
#[should_panic(expected = "the first 256 GiB")]
fn a_line_beyond_what_tags_can_say_is_refused() {
    load(&mut alone(&[set(1, 4, Holds::NonInclusive)]), Hierarchy::LINES);
}

#[test]
fn a_victim_level_gives_up_what_it_has_clean_or_what_is_stored() {
    let mut caches = together(Holds::Victims);
    (0..2).for_each(|core| _ = caches.access(core, A, Access::Load));
    (1..=4).for_each(|n| _ = caches.access(0, A + n, Access::Load));
    assert!(caches.contains(0, 2, A), "core 0 replaced it, core 1 has it still");
    assert_eq!(caches.access(2, A, Access::Load).level, 2);
    assert!(!caches.contains(0, 2, A));

    caches.access(0, B, Access::Store);
    caches.access(1, B, Access::Load);
    assert_eq!(caches.access(2, B, Access::Store).level, 2);
    assert!(!caches.contains(0, 2, B), "though others had it");
    assert_eq!(caches.dirty(), [B]);
}

#[test]
fn a_transfer_is_a_use_of_the_shared_copy() {
    let last = shared(set(2, 44, Holds::Inclusive));
    let mut caches = Hierarchy::new(&[set(2, 4, Holds::NonInclusive), last], 2, TRANSFER, 1);
    caches.access(0, A, Access::Store);
    caches.access(0, B, Access::Load);
    caches.access(1, A, Access::Load);
    caches.access(1, C, Access::Load);
    assert!(caches.contains(0, 1, A) && !caches.contains(0, 1, B));
}
