//! Invariants for any levels, policies, cores and accesses: the dirty lines are those of a set without
//! caches, no version is lost or invented, and no marked line leaves unreported.

use crate::level;
use perdura_machine::cache::{
    Access, Departure, DepartureReason, HeldVersion, Hierarchy, Outcome, Policy, Version,
    VictimRule,
};
use perdura_machine::config::{Holds, Level};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const CORES: usize = 4;
const LINES: u64 = 40;
const TRANSFER: u32 = 1000;

#[derive(Clone, Debug)]
enum Step {
    Access(usize, u64, bool),
    WriteBack(usize, u64, bool),
    Drop(u64),
    Put(usize, usize, u64, u64),
    DropVersion(usize, usize, u64, u64),
    Mark(u64, bool),
    Rule(usize, VictimRule),
}

fn ordinary() -> impl Strategy<Value = Step> {
    let (core, line) = (0..CORES, 0..LINES);
    let access = (core.clone(), line.clone(), any::<bool>())
        .prop_map(|(core, line, store)| Step::Access(core, line, store));
    let write_back = (core, line.clone(), any::<bool>())
        .prop_map(|(core, line, keeps)| Step::WriteBack(core, line, keeps));
    prop_oneof![20 => access, 2 => write_back, 1 => line.prop_map(Step::Drop)]
}

/// Steps that only mechanisms do.
fn extra() -> impl Strategy<Value = Step> {
    let version = (0..CORES, 0usize..5, 0..LINES, 0u64..4);
    let put =
        version.clone().prop_map(|(core, at, line, number)| Step::Put(core, at, line, number));
    let drop =
        version.prop_map(|(core, at, line, number)| Step::DropVersion(core, at, line, number));
    let mark = (0..LINES, any::<bool>()).prop_map(|(line, marks)| Step::Mark(line, marks));
    let rank = proptest::sample::select(vec![0, 1, 2, VictimRule::NEVER]);
    let rule = (0usize..5, [rank.clone(), rank.clone(), rank], any::<bool>());
    let rule = rule.prop_map(|(at, [lines, marked, versions], oldest_version)| {
        Step::Rule(at, VictimRule { lines, marked, versions, oldest_version })
    });
    prop_oneof![4 => put, 1 => drop, 3 => mark, 1 => rule]
}

fn policies() -> impl Strategy<Value = Policy> {
    let named = Policy::NAMED.map(|own| own.policy);
    proptest::sample::select([&named[..], &["H00_M1_R2_U1".parse().unwrap()]].concat())
}

fn levels() -> impl Strategy<Value = Vec<Level>> {
    let holds =
        proptest::sample::select(vec![Holds::Inclusive, Holds::NonInclusive, Holds::Victims]);
    // Small ones, so that every level replaces lines; sometimes one that replaces none.
    let ways = prop_oneof![10 => 1u32..6, 1 => 16u32..20];
    let one = (1u64..5, ways, policies(), holds)
        .prop_map(|(sets, ways, policy, holds)| Level { holds, ..level(sets, ways, policy) });
    (proptest::collection::vec(one, 1..5), 0usize..5).prop_map(|(mut levels, private)| {
        for (n, level) in levels.iter_mut().enumerate() {
            level.shared = n >= private;
            level.latency_cycles = 10 * (n as u32 + 1);
        }
        if levels[0].holds == Holds::Victims {
            levels[0].holds = Holds::NonInclusive;
        }
        levels
    })
}

/// The caches, and the expected set of dirty lines.
struct Watched {
    levels: Vec<Level>,
    cores: usize,
    caches: Hierarchy,
    dirty: BTreeSet<u64>,
    /// Lines that a core has stored and had in its own caches, dirty, ever since.
    owners: BTreeMap<u64, usize>,
    accesses: u64,
    versions: BTreeSet<HeldVersion>,
    marked: BTreeSet<u64>,
}

impl Watched {
    fn new(levels: Vec<Level>, cores: usize, seed: u64) -> Self {
        let caches = Hierarchy::new(&levels, cores, TRANSFER, seed);
        let (dirty, owners) = (BTreeSet::new(), BTreeMap::new());
        let (versions, marked) = (BTreeSet::new(), BTreeSet::new());
        Watched { levels, cores, caches, dirty, owners, accesses: 0, versions, marked }
    }

    fn step(&mut self, step: &Step) {
        let before = self.marked_copies();
        match *step {
            Step::Access(core, line, store) => self.access(core % self.cores, line, store),
            Step::WriteBack(core, line, keeps) => {
                self.owners.remove(&line);
                let was = self.caches.write_back(core % self.cores, line, keeps);
                assert_eq!(was, self.dirty.remove(&line), "write_back of {line}");
                assert!(keeps || !self.anywhere(line), "{line} was dropped");
            }
            Step::Drop(line) => {
                self.caches.drop_line(line);
                self.dirty.remove(&line);
                self.owners.remove(&line);
                assert!(!self.anywhere(line), "{line} was dropped");
            }
            Step::Put(core, at, line, number) => {
                let held = self.held(core, at, line, number);
                let HeldVersion { core, level, version, .. } = held;
                let put = self.caches.put_version(core, level, line, version);
                assert!(put || !self.versions.contains(&held), "{held:?} is there");
                if put {
                    self.versions.insert(held);
                }
                self.evicted();
            }
            Step::DropVersion(core, at, line, number) => {
                let held = self.held(core, at, line, number);
                let HeldVersion { core, level, version, .. } = held;
                let was = self.caches.drop_version(core, level, line, version);
                assert_eq!(was, self.versions.remove(&held), "{held:?}");
            }
            Step::Mark(line, marks) => {
                if marks {
                    self.caches.mark(line)
                } else {
                    _ = self.caches.unmark(line)
                };
            }
            Step::Rule(at, rule) => self.caches.set_victim_rule(at % self.levels.len(), rule),
        }
        if matches!(step, Step::WriteBack(..) | Step::Drop(_)) {
            assert!(self.caches.evicted().is_empty(), "nothing left for it");
        }
        self.left(&before, step);
        if let Step::Mark(line, marks) = *step {
            if marks {
                self.marked.insert(line)
            } else {
                self.marked.remove(&line)
            };
        }
        for held in self.caches.take_displaced() {
            assert!(self.versions.remove(&held), "{held:?} left, but was not there");
        }
        assert_eq!(self.caches.versions(), self.versions.iter().copied().collect::<Vec<_>>());
        assert_eq!(self.caches.dirty(), self.dirty.iter().copied().collect::<Vec<_>>());
        let has = |core, line| (0..self.private()).any(|at| self.caches.contains(core, at, line));
        let gone = |(&line, &core): (&u64, &usize)| (!has(core, line)).then_some(line);
        let gone: Vec<u64> = self.owners.iter().filter_map(gone).collect();
        gone.iter().for_each(|line| _ = self.owners.remove(line));
        self.inclusive();
    }

    /// A version in a cache that there is.
    fn held(&self, core: usize, at: usize, line: u64, number: u64) -> HeldVersion {
        let level = at % self.levels.len();
        HeldVersion { line, version: Version(number), level, core: core % self.cores_of(level) }
    }

    /// Caches that a level has.
    fn cores_of(&self, level: usize) -> usize {
        if self.levels[level].shared { 1 } else { self.cores }
    }

    /// Where marked lines are: line, core, level.
    fn marked_copies(&self) -> BTreeSet<(u64, usize, usize)> {
        let places = (0..self.levels.len())
            .flat_map(|level| (0..self.cores_of(level)).map(move |core| (core, level)));
        let all =
            places.flat_map(|(core, level)| self.marked.iter().map(move |&l| (l, core, level)));
        all.filter(|&(line, core, level)| self.caches.contains(core, level, line)).collect()
    }

    /// Each copy of a marked line that is gone was reported; each reported copy was there, or came during the step.
    fn left(&mut self, before: &BTreeSet<(u64, usize, usize)>, step: &Step) {
        let after = self.marked_copies();
        let (mut gone, mut nearest) = (BTreeSet::new(), 0);
        for Departure { line, core, level, why, .. } in self.caches.take_departures() {
            assert!(self.marked.contains(&line), "{line} is not marked");
            let private = !self.levels[level].shared;
            match (why, step) {
                (DepartureReason::Shared, Step::Access(by, at, false)) => {
                    assert!(private && core != by % self.cores && line == *at);
                    assert!(before.contains(&(line, core, level)), "{line} was not there");
                    continue;
                }
                (DepartureReason::Stored, Step::Access(by, at, true)) => {
                    assert!(private && core != by % self.cores && line == *at);
                }
                (DepartureReason::MovedUp, Step::Access(_, at, _)) => assert_eq!(line, *at),
                (DepartureReason::Dropped, Step::WriteBack(_, at, false) | Step::Drop(at)) => {
                    assert_eq!(line, *at)
                }
                (
                    DepartureReason::Replaced | DepartureReason::Recalled,
                    Step::Access(..) | Step::Put(..),
                ) => {}
                _ => panic!("{line} left level {level} of {core} by {step:?}: {why:?}"),
            }
            nearest += usize::from(level == 0);
            let came = level > 0 || matches!(step, Step::Access(_, at, _) if *at == line);
            assert!(came || before.contains(&(line, core, level)), "{line} was not there");
            gone.insert((line, core, level));
        }
        assert!(before.difference(&after).all(|copy| gone.contains(copy)), "unseen by {step:?}");
        assert_eq!(nearest, before.difference(&after).filter(|copy| copy.2 == 0).count());
    }

    /// Dirty lines that have left.
    fn evicted(&mut self) {
        for line in self.caches.evicted() {
            assert!(self.dirty.remove(line), "{line} left, but was not dirty");
        }
    }

    fn private(&self) -> usize {
        self.levels.iter().take_while(|level| !level.shared).count()
    }

    /// Whether cores besides `core` have the line in their own caches.
    fn others_have(&self, core: usize, line: u64) -> bool {
        let mut others = (0..self.cores).filter(|&other| other != core);
        others.any(|other| (0..self.private()).any(|at| self.caches.contains(other, at, line)))
    }

    fn access(&mut self, core: usize, line: u64, store: bool) {
        let seen = (0..self.levels.len()).find(|&level| self.caches.contains(core, level, line));
        let (transfers, forwards) = (self.caches.stats().transfers, self.caches.stats().forwards);
        let dirty_elsewhere = self.owners.get(&line).is_some_and(|&owner| owner != core);
        // A core may have got it dirty from a level of victims: then it is no owner here.
        let can_be_elsewhere = self.dirty.contains(&line) && self.others_have(core, line);
        let others = self.others_have(core, line);
        let access = if store { Access::Store } else { Access::Load };
        let outcome = self.caches.access(core, line, access);
        self.accesses += 1;
        let transferred = self.caches.stats().transfers > transfers;
        assert!(transferred || !dirty_elsewhere, "core {core} has missed what another stored");
        assert!(!transferred || can_be_elsewhere, "core {core} got {line} from nowhere");
        let forwarded = self.caches.stats().forwards > forwards;
        assert!(!forwarded || others && seen.is_none(), "core {core} got {line} from nowhere");
        assert!(
            forwarded || transferred || seen.is_some() || !others,
            "memory, though a core has {line}"
        );
        let claimed = store && others;
        assert_eq!(outcome.handed, transferred || claimed, "core {core}, line {line}");
        self.lands(seen, transferred || forwarded, claimed, outcome.level, outcome.cycles);
        if store {
            self.dirty.insert(line);
            self.owners.insert(line, core);
        } else if transferred {
            self.owners.remove(&line);
        }
        self.evicted();
        assert!(self.caches.contains(core, 0, line), "the core has it now");
        assert!(!store || !self.others_have(core, line), "core {core} has stored {line}");
    }

    /// The access ended where the line was seen, and cost what that costs.
    fn lands(&self, seen: Option<usize>, fetched: bool, claimed: bool, level: usize, cycles: u32) {
        let last = self.levels.len() - 1;
        let latency = |level: usize| self.levels[level].latency_cycles;
        let shared = self.levels.iter().position(|level| level.shared).unwrap_or(last);
        let handing = latency(shared) + TRANSFER;
        if fetched {
            assert!(seen.is_none_or(|level| self.levels[level].shared), "it was in its own cache");
            assert_eq!((level, cycles), (shared, handing));
        } else {
            let expected = seen.unwrap_or(last + 1);
            let found = latency(expected.min(last));
            let cost = if claimed { found.max(handing) } else { found };
            assert_eq!((level, cycles), (expected, cost));
        }
        let stats = self.caches.stats();
        let ended: u64 = stats.levels.iter().map(|level| level.hits).sum();
        // A transfer has missed the last level too where that is the core's own.
        let beside = if self.levels[last].shared { stats.transfers } else { 0 };
        assert_eq!(ended + stats.levels[last].misses + beside, self.accesses);
    }

    fn anywhere(&self, line: u64) -> bool {
        let mut levels = 0..self.levels.len();
        levels.any(|level| (0..self.cores).any(|core| self.caches.contains(core, level, line)))
    }

    /// What is above an inclusive level is in it.
    fn inclusive(&self) {
        let inclusive = |&level: &usize| self.levels[level].holds == Holds::Inclusive;
        for level in (1..self.levels.len()).filter(inclusive) {
            for (core, line) in (0..self.cores).flat_map(|c| (0..LINES).map(move |l| (c, l))) {
                let above = (0..level).any(|above| self.caches.contains(core, above, line));
                let here = self.caches.contains(core, level, line);
                assert!(!above || here, "{line} of core {core} is not in level {level}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_dirty_line_is_lost_or_made_up(
        levels in levels(),
        cores in 1..=CORES,
        seed in any::<u64>(),
        steps in proptest::collection::vec(ordinary(), 1..300),
    ) {
        let mut watched = Watched::new(levels, cores, seed);
        steps.iter().for_each(|step| watched.step(step));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nor_is_a_version_and_no_marked_line_leaves_unseen(
        levels in levels(),
        cores in 1..=CORES,
        seed in any::<u64>(),
        steps in proptest::collection::vec(prop_oneof![3 => ordinary(), 1 => extra()], 1..300),
    ) {
        let mut watched = Watched::new(levels, cores, seed);
        steps.iter().for_each(|step| watched.step(step));
    }

    #[test]
    fn marks_change_nothing_of_what_caches_do(
        levels in levels(),
        cores in 1..=CORES,
        seed in any::<u64>(),
        steps in proptest::collection::vec(ordinary(), 1..300),
    ) {
        let [mut plain, mut marked] = [(); 2].map(|()| Hierarchy::new(&levels, cores, TRANSFER, seed));
        (0..LINES).step_by(3).for_each(|line| marked.mark(line));
        for step in steps {
            let apply = |caches: &mut Hierarchy| match step {
                Step::Access(core, line, store) => {
                    let access = if store { Access::Store } else { Access::Load };
                    Some(caches.access(core % cores, line, access))
                }
                Step::WriteBack(core, line, keeps) => {
                    let dirty = caches.write_back(core % cores, line, keeps);
                    Some(Outcome { handed: dirty, ..Outcome::default() })
                }
                Step::Drop(line) => {
                    caches.drop_line(line);
                    None
                }
                _ => unreachable!("ordinary steps only"),
            };
            prop_assert_eq!(apply(&mut plain), apply(&mut marked));
            prop_assert_eq!(plain.evicted(), marked.evicted());
            prop_assert_eq!(plain.dirty(), marked.dirty());
        }
        prop_assert_eq!(plain.stats(), marked.stats());
        prop_assert!(plain.departures().is_empty());
    }
}
