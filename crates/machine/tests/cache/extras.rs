//! Versions, marked lines and rules for victims, on one core under LRU, against lists: each set is a list of lines
//! and versions, most recent first, and the one to go is the last of those that the rule allows.

use crate::{level, single_set};
use perdura_machine::cache::{
    Access, Departure, DepartureReason, HeldVersion, Hierarchy, Policy, Version, VictimRule,
};
use perdura_machine::config::{Holds, Level};
use perdura_memory::reference::SplitMix64;
use std::collections::BTreeSet;

/// What a way has: a line, or a version of one.
type Entry = (u64, Option<u64>);

struct ListLevel {
    holds: Holds,
    ways: usize,
    rule: VictimRule,
    sets: Vec<Vec<Entry>>,
}

#[derive(Default)]
struct Lists {
    levels: Vec<ListLevel>,
    /// The line's copy nearest to the core is dirty.
    dirty: BTreeSet<u64>,
    marked: BTreeSet<u64>,
    evicted: Vec<u64>,
    displaced: Vec<HeldVersion>,
    departures: Vec<Departure>,
}

impl Lists {
    fn set(&mut self, level: usize, line: u64) -> &mut Vec<Entry> {
        let sets = &mut self.levels[level].sets;
        let at = line % sets.len() as u64;
        &mut sets[at as usize]
    }

    fn has(&mut self, level: usize, line: u64) -> bool {
        self.set(level, line).contains(&(line, None))
    }

    fn take(&mut self, level: usize, line: u64, why: DepartureReason) {
        if self.has(level, line) {
            self.note(level, line, why);
            self.set(level, line).retain(|&entry| entry != (line, None));
        }
    }

    /// A line is about to leave, or has left, a level.
    fn note(&mut self, level: usize, line: u64, why: DepartureReason) {
        if self.marked.contains(&line) {
            let dirty = self.is_dirty(level, line);
            self.departures.push(Departure { line, core: 0, level, dirty, why });
        }
    }

    fn is_dirty(&mut self, level: usize, line: u64) -> bool {
        self.dirty.contains(&line) && !(0..level).any(|above| self.has(above, line))
    }

    fn access(&mut self, line: u64, store: bool) {
        self.evicted.clear();
        let last = self.levels.len();
        let found = (0..last).find(|&level| self.has(level, line)).unwrap_or(last);
        if found < last && (found == 0 || self.levels[found].holds != Holds::Victims) {
            self.set(found, line).retain(|&entry| entry != (line, None));
            self.set(found, line).insert(0, (line, None));
        } else if found < last {
            self.take(found, line, DepartureReason::MovedUp);
        }
        // A line on its way is in no level: its copies count as clean until it is in the nearest one.
        let dirty = self.dirty.remove(&line) || store;
        for level in (0..found).rev() {
            if level == 0 || self.levels[level].holds != Holds::Victims {
                assert!(self.insert(level, (line, None)), "a line is never refused");
            }
        }
        if dirty {
            self.dirty.insert(line);
        }
    }

    /// Returns whether there was a place for it.
    fn insert(&mut self, level: usize, entry: Entry) -> bool {
        let ListLevel { ways, rule, .. } = self.levels[level];
        let set = self.set(level, entry.0).clone();
        if set.len() < ways {
            self.set(level, entry.0).insert(0, entry);
            return true;
        }
        let oldest = set.iter().filter_map(|entry| entry.1).min();
        let rank = |other: &Entry| match other {
            (_, Some(version)) if rule.oldest_version && Some(*version) != oldest => None,
            (_, Some(_)) => Some(rule.versions),
            (line, None) if entry.1.is_some() && *line == entry.0 => Some(VictimRule::NEVER),
            (line, None) if self.marked.contains(line) => Some(rule.marked),
            _ => Some(rule.lines),
        };
        let lowest = set.iter().filter_map(rank).min().unwrap();
        if lowest == VictimRule::NEVER && entry.1.is_some() {
            return false;
        }
        let out = set.iter().rposition(|other| rank(other) == Some(lowest)).unwrap();
        let (line, version) = self.set(level, entry.0).remove(out);
        self.set(level, entry.0).insert(0, entry);
        match version {
            Some(version) => {
                let version = Version(version);
                self.displaced.push(HeldVersion { line, version, level, core: 0 });
            }
            None => self.leave(level, line),
        }
        true
    }

    fn leave(&mut self, from: usize, line: u64) {
        self.note(from, line, DepartureReason::Replaced);
        if self.levels[from].holds == Holds::Inclusive {
            (0..from).rev().for_each(|level| self.take(level, line, DepartureReason::Recalled));
        }
        let dirty = self.is_dirty(from, line);
        let Some(next) = self.levels.get(from + 1).map(|next| next.holds) else {
            if dirty {
                self.dirty.remove(&line);
                self.evicted.push(line);
            }
            return;
        };
        if (dirty || next == Holds::Victims) && !self.has(from + 1, line) {
            // The line is in no level in between, so it cannot replace itself.
            self.insert(from + 1, (line, None));
        }
    }

    fn drop_line(&mut self, line: u64) {
        self.evicted.clear();
        // Its copies are all there while they are noted.
        (0..self.levels.len())
            .rev()
            .for_each(|level| self.take(level, line, DepartureReason::Dropped));
        self.dirty.remove(&line);
    }

    fn versions(&self) -> Vec<HeldVersion> {
        let mut all = Vec::new();
        for (level, lists) in self.levels.iter().enumerate() {
            for &(line, version) in lists.sets.iter().flatten() {
                let held = |v| HeldVersion { line, version: Version(v), level, core: 0 };
                all.extend(version.map(held));
            }
        }
        all.sort_unstable();
        all
    }
}

fn rule(random: &mut SplitMix64) -> VictimRule {
    let ranks = [0, 0, 1, 2, VictimRule::NEVER];
    let mut rank = || ranks[random.below(ranks.len() as u64) as usize];
    let (lines, marked, versions) = (rank(), rank(), rank());
    VictimRule { lines, marked, versions, oldest_version: random.below(2) == 0 }
}

fn compare(kinds: &[Holds], seed: u64) {
    let mut random = SplitMix64::new(seed);
    let first = level(2, 3, Policy::Lru);
    let rest = kinds.iter().map(|&holds| {
        let (sets, ways) = (1 + random.below(6), 1 + random.below(5) as u32);
        Level { holds, ..level(sets, ways, Policy::Lru) }
    });
    let levels: Vec<_> = std::iter::once(first).chain(rest).collect();
    let mut caches = Hierarchy::new(&levels, 1, 0, seed);
    let list = |level: &Level| ListLevel {
        holds: level.holds,
        ways: level.ways as usize,
        rule: VictimRule::default(),
        sets: vec![Vec::new(); (level.bytes / 64 / u64::from(level.ways)) as usize],
    };
    let mut lists = Lists { levels: levels.iter().map(list).collect(), ..Lists::default() };
    for n in 0..1500 {
        let context = format!("{kinds:?}, seed {seed}, step {n}");
        let (line, number) = (random.below(40), random.below(6));
        let (at, version) = (random.below(levels.len() as u64) as usize, Version(number));
        match random.below(40) {
            0..=19 => {
                let store = random.below(3) == 0;
                caches.access(0, line, if store { Access::Store } else { Access::Load });
                lists.access(line, store);
            }
            20..=27 => {
                let put = caches.put_version(0, at, line, version);
                lists.evicted.clear();
                let entry = (line, Some(number));
                if lists.set(at, line).contains(&entry) {
                    lists.set(at, line).retain(|&other| other != entry);
                    lists.set(at, line).insert(0, entry);
                    assert!(put, "{context}");
                } else {
                    assert_eq!(put, lists.insert(at, entry), "{context}");
                }
            }
            28..=29 => {
                let entry = (line, Some(number));
                let here = lists.set(at, line).contains(&entry);
                lists.set(at, line).retain(|&other| other != entry);
                assert_eq!(caches.drop_version(0, at, line, version), here, "{context}");
            }
            30..=32 => {
                caches.mark(line);
                lists.marked.insert(line);
            }
            33..=34 => assert_eq!(caches.unmark(line), lists.marked.remove(&line)),
            35 => {
                caches.drop_line(line);
                lists.drop_line(line);
            }
            36 => {
                let dirty = lists.dirty.contains(&line);
                assert_eq!(caches.write_back(0, line, false), dirty, "{context}");
                lists.drop_line(line);
            }
            37 => {
                lists.evicted.clear();
                assert_eq!(caches.write_back(0, line, true), lists.dirty.remove(&line));
            }
            38 => {
                lists.levels[at].rule = rule(&mut random);
                caches.set_victim_rule(at, lists.levels[at].rule);
            }
            _ => {
                let before = lists.versions().len();
                for set in lists.levels.iter_mut().flat_map(|level| &mut level.sets) {
                    set.retain(|entry| entry.1 != Some(number));
                }
                let dropped = caches.retain_versions(|held| held.version != version);
                assert_eq!(dropped, before - lists.versions().len(), "{context}");
            }
        }
        assert_eq!(caches.evicted(), lists.evicted, "{context}");
        assert_eq!(caches.displaced(), lists.displaced, "{context}");
        assert_eq!(caches.departures(), lists.departures, "{context}");
        assert!(caches.dirty().iter().eq(&lists.dirty), "{context}");
        assert_eq!(caches.versions(), lists.versions(), "{context}");
        let anywhere = (0..levels.len()).any(|level| lists.has(level, line));
        assert_eq!(caches.anywhere(line), anywhere, "{context}");
        assert_eq!(caches.is_marked(line), lists.marked.contains(&line), "{context}");
        let entry = (line, Some(number));
        let nearest = (0..levels.len()).find(|&level| lists.set(level, line).contains(&entry));
        assert_eq!(caches.level_of_version(0, line, version), nearest, "{context}");
        for level in 0..levels.len() {
            assert_eq!(caches.contains(0, level, line), lists.has(level, line), "{context}");
        }
        let of_line = lists.set(at, line).iter().filter(|entry| entry.0 == line);
        let mut versions: Vec<_> = of_line.filter_map(|entry| entry.1.map(Version)).collect();
        versions.sort_unstable();
        assert_eq!(caches.versions_of(0, at, line), versions, "{context}");
        if random.below(8) == 0 {
            assert_eq!(caches.take_displaced(), std::mem::take(&mut lists.displaced));
            assert_eq!(caches.take_departures(), std::mem::take(&mut lists.departures));
        }
    }
}

#[test]
fn versions_marks_and_rules_are_what_lists_have() {
    let kinds = [Holds::Inclusive, Holds::NonInclusive, Holds::Victims];
    for seed in 0..10 {
        compare(&[], seed);
        for first in kinds {
            compare(&[first], seed);
            for second in kinds {
                compare(&[first, second], seed);
            }
        }
    }
}

/// Two cores with a cache of `ways` each, and a shared one of eight, a set each.
fn two_cores(ways: u32, holds: Holds) -> Hierarchy {
    let shared = Level { shared: true, holds, ..level(1, 8, Policy::Lru) };
    Hierarchy::new(&[level(1, ways, Policy::Lru), shared], 2, 60, 1)
}

const A: u64 = 100;
const B: u64 = 200;

fn left(core: usize, level: usize, dirty: bool, why: DepartureReason) -> Departure {
    Departure { line: A, core, level, dirty, why }
}

#[test]
fn a_version_takes_room_and_nothing_else_finds_it() {
    let mut caches = two_cores(2, Holds::Inclusive);
    caches.access(0, A, Access::Store);
    assert!(caches.put_version(0, 0, A, Version(7)));
    assert_eq!(caches.access(1, A, Access::Store).level, 1, "from the line, not from the version");
    caches.drop_line(A);
    let held = HeldVersion { line: A, version: Version(7), level: 0, core: 0 };
    assert_eq!(caches.versions(), [held], "neither taken nor dropped with the line");
    assert!(!caches.anywhere(A) && caches.dirty().is_empty());
    assert_eq!(caches.access(0, A, Access::Load).level, 2, "a miss in all");
    assert!(!caches.write_back(0, A, false), "it is not dirty");
    assert_eq!(caches.level_of_version(1, A, Version(7)), None, "it is core 0's");
    // A has left way 0 again. B and one more line fill the set.
    caches.access(0, B, Access::Load);
    assert!(caches.displaced().is_empty());
    caches.access(0, B + 1, Access::Load);
    assert_eq!(caches.take_displaced(), [held]);
    assert!(caches.versions().is_empty() && caches.displaced().is_empty());
    assert!(caches.put_version(held.core, held.level + 1, held.line, held.version));
    assert_eq!(caches.level_of_version(1, A, Version(7)), Some(1), "both can see the shared level");
    assert_eq!(caches.stats().levels[0].dirty_evictions, 0, "versions are not counted");
}

#[test]
fn a_version_does_not_replace_its_own_line_nor_what_a_rule_keeps() {
    let mut caches = two_cores(1, Holds::NonInclusive);
    caches.access(0, A, Access::Store);
    assert!(!caches.put_version(0, 0, A, Version(1)), "its line has the only way");
    assert!(caches.put_version(0, 0, B, Version(1)));
    assert!(caches.contains(0, 1, A) && caches.dirty() == [A], "A is written back");
    caches.set_victim_rule(0, VictimRule { versions: VictimRule::NEVER, ..Default::default() });
    assert!(!caches.put_version(0, 0, A, Version(2)), "kept");
    caches.access(0, A, Access::Load);
    assert_eq!(caches.displaced().len(), 1, "but a line must go somewhere");
}

#[test]
fn a_rule_says_what_goes_first() {
    let goes = |rule: VictimRule| {
        let mut caches = single_set(4, Policy::Lru, 1);
        caches.access(0, 1, Access::Load);
        caches.mark(2);
        caches.access(0, 2, Access::Load);
        caches.put_version(0, 0, 3, Version(9));
        caches.put_version(0, 0, 3, Version(8));
        caches.access(0, 1, Access::Load);
        caches.set_victim_rule(0, rule);
        (0..4).for_each(|n| _ = caches.access(0, 10 + n, Access::Load));
        let lines = caches.departures().iter().map(|departure| departure.line);
        (lines.collect::<Vec<_>>(), caches.displaced().iter().map(|v| v.version.0).collect())
    };
    let marked: Vec<u64> = vec![2];
    assert_eq!(goes(VictimRule::default()), (marked.clone(), vec![9, 8]));
    assert_eq!(goes(VictimRule::LINES_FIRST), (marked.clone(), vec![]));
    assert_eq!(goes(VictimRule::VERSIONS_FIRST), (marked.clone(), vec![9, 8]));
    assert_eq!(goes(VictimRule::OLDEST_VERSION_FIRST), (marked, vec![8, 9]));
    let kept = VictimRule { marked: VictimRule::NEVER, ..VictimRule::VERSIONS_FIRST };
    assert_eq!(goes(kept), (vec![], vec![9, 8]));
}

#[test]
fn conflicts_on_marked_lines() {
    let mut caches = two_cores(2, Holds::Inclusive);
    caches.mark(A);
    caches.access(0, A, Access::Store);
    caches.access(1, A, Access::Load);
    assert_eq!(caches.take_departures(), [left(0, 0, true, DepartureReason::Shared)]);
    caches.access(1, A, Access::Store);
    assert_eq!(caches.take_departures(), [left(0, 0, false, DepartureReason::Stored)]);
    caches.access(0, A, Access::Store);
    assert_eq!(caches.take_departures(), [left(1, 0, true, DepartureReason::Stored)]);
    // Eight others, through the other core, push it out of the shared level.
    (0..8).for_each(|n| _ = caches.access(1, B + n, Access::Load));
    let recalled =
        [left(0, 1, false, DepartureReason::Replaced), left(0, 0, true, DepartureReason::Recalled)];
    assert_eq!(caches.take_departures(), recalled);
    assert!(!caches.anywhere(A) && caches.is_marked(A));
    caches.clear_marks();
    caches.access(0, A, Access::Store);
    caches.drop_line(A);
    assert!(caches.departures().is_empty());
}
