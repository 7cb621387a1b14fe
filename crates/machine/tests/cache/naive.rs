//! One core's levels under LRU, compared with a model that knows whether a line is dirty, but not in which
//! level: lists of lines, most recent first, and one set of dirty lines.

use crate::level;
use perdura_machine::cache::{Access, Hierarchy, Policy};
use perdura_machine::config::Holds;
use perdura_memory::reference::SplitMix64;
use std::collections::BTreeSet;

struct Naive {
    levels: Vec<NaiveLevel>,
    dirty: BTreeSet<u64>,
    evicted: Vec<u64>,
}

struct NaiveLevel {
    holds: Holds,
    ways: usize,
    sets: Vec<Vec<u64>>,
}

impl NaiveLevel {
    fn set(&mut self, line: u64) -> &mut Vec<u64> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn has(&self, line: u64) -> bool {
        self.sets.iter().flatten().any(|&other| other == line)
    }

    fn remove(&mut self, line: u64) {
        self.set(line).retain(|&other| other != line);
    }
}

impl Naive {
    fn access(&mut self, line: u64, store: bool) -> usize {
        self.evicted.clear();
        let last = self.levels.len();
        let found = (0..last).find(|&level| self.levels[level].has(line)).unwrap_or(last);
        if found < last {
            let level = &mut self.levels[found];
            level.remove(line);
            if found == 0 || level.holds != Holds::Victims {
                level.set(line).insert(0, line);
            }
        }
        if store {
            self.dirty.insert(line);
        }
        // It enters the levels above the one where it was found, the farthest first; the copy nearest to
        // the core, which enters last, counts as dirty.
        let was_dirty = self.dirty.remove(&line);
        for level in (0..found).rev() {
            if level == 0 || self.levels[level].holds != Holds::Victims {
                self.insert(level, line);
            }
        }
        if was_dirty {
            self.dirty.insert(line);
        }
        found
    }

    fn insert(&mut self, level: usize, line: u64) {
        let ways = self.levels[level].ways;
        let set = self.levels[level].set(line);
        set.insert(0, line);
        if set.len() > ways {
            let out = set.pop().unwrap();
            self.leave(level, out);
        }
    }

    fn leave(&mut self, from: usize, line: u64) {
        if self.levels[from].holds == Holds::Inclusive {
            self.levels[..from].iter_mut().for_each(|level| level.remove(line));
        }
        let nearest = !self.levels[..from].iter().any(|level| level.has(line));
        let dirty = nearest && self.dirty.contains(&line);
        let Some(next) = self.levels.get(from + 1) else {
            if dirty {
                self.dirty.remove(&line);
                self.evicted.push(line);
            }
            return;
        };
        if (dirty || next.holds == Holds::Victims) && !next.has(line) {
            self.insert(from + 1, line);
        }
    }
}

/// Which kinds of levels follow the first one.
fn compare(kinds: &[Holds], seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut real = vec![level(2, 2, Policy::Lru)];
    for (n, &holds) in kinds.iter().enumerate() {
        let mut level = level(1 + random.below(6), 1 + random.below(5) as u32, Policy::Lru);
        (level.holds, level.shared) = (holds, n == 1);
        real.push(level);
    }
    for n in 2..real.len() {
        real[n].shared |= real[n - 1].shared;
    }
    let mut naive = Naive {
        levels: real
            .iter()
            .map(|level| NaiveLevel {
                holds: level.holds,
                ways: level.ways as usize,
                sets: vec![Vec::new(); (level.bytes / 64 / u64::from(level.ways)) as usize],
            })
            .collect(),
        dirty: BTreeSet::new(),
        evicted: Vec::new(),
    };
    let mut caches = Hierarchy::new(&real, 1, 0, seed);
    for n in 0..2000 {
        let (line, store) = (random.below(60), random.below(3) == 0);
        let access = if store { Access::Store } else { Access::Load };
        let level = caches.access(0, line, access).level;
        let expected = naive.access(line, store);
        let context = format!("{kinds:?}, seed {seed}, access {n} of {line}");
        assert_eq!(level, expected, "{context}");
        assert_eq!(caches.evicted(), naive.evicted, "{context}");
        assert!(caches.dirty().iter().eq(&naive.dirty), "{context}");
    }
}

#[test]
fn levels_do_what_lists_do() {
    let kinds = [Holds::Inclusive, Holds::NonInclusive, Holds::Victims];
    for seed in 0..10 {
        compare(&[], seed);
        for first in kinds {
            compare(&[first], seed);
            for second in kinds {
                compare(&[first, second], seed);
                kinds.iter().for_each(|&third| compare(&[first, second, third], seed));
            }
        }
    }
}
