//! What always holds, whatever the levels, policies, cores and accesses are: the dirty lines are
//! those of a set that knows nothing of caches.

use crate::level;
use perdura_machine::cache::{Access, Hierarchy, Policy};
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
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (core, line) = (0..CORES, 0..LINES);
    let access = (core.clone(), line.clone(), any::<bool>())
        .prop_map(|(core, line, store)| Step::Access(core, line, store));
    let write_back = (core, line.clone(), any::<bool>())
        .prop_map(|(core, line, keeps)| Step::WriteBack(core, line, keeps));
    let step = prop_oneof![20 => access, 2 => write_back, 1 => line.prop_map(Step::Drop)];
    proptest::collection::vec(step, 1..300)
}

fn policies() -> impl Strategy<Value = Policy> {
    let names = ["lru", "tree-plru", "bimodal", "random", "quad-age", "H00_M1_R2_U1"];
    proptest::sample::select(names.map(|name| name.parse::<Policy>().unwrap()).to_vec())
}

fn levels() -> impl Strategy<Value = Vec<Level>> {
    let holds =
        proptest::sample::select(vec![Holds::Inclusive, Holds::NonInclusive, Holds::Victims]);
    // Small ones, so that every level replaces lines; now and then one that replaces none.
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

/// The caches beside the set of dirty lines.
struct Watched {
    levels: Vec<Level>,
    cores: usize,
    caches: Hierarchy,
    dirty: BTreeSet<u64>,
    /// Lines that a core has stored and had in its own caches, dirty, ever since.
    owners: BTreeMap<u64, usize>,
    accesses: u64,
}

impl Watched {
    fn step(&mut self, step: &Step) {
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
        }
        if !matches!(step, Step::Access(..)) {
            assert!(self.caches.evicted().is_empty(), "nothing left for it");
        }
        assert_eq!(self.caches.dirty(), self.dirty.iter().copied().collect::<Vec<_>>());
        let has = |core, line| (0..self.private()).any(|at| self.caches.contains(core, at, line));
        let gone = |(&line, &core): (&u64, &usize)| (!has(core, line)).then_some(line);
        let gone: Vec<u64> = self.owners.iter().filter_map(gone).collect();
        gone.iter().for_each(|line| _ = self.owners.remove(line));
        self.inclusive();
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
        for line in self.caches.evicted() {
            assert!(self.dirty.remove(line), "{line} left, but was not dirty");
        }
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
        steps in steps(),
    ) {
        let caches = Hierarchy::new(&levels, cores, TRANSFER, seed);
        let mut watched = Watched { levels, cores, caches, dirty: BTreeSet::new(), owners: BTreeMap::new(), accesses: 0 };
        steps.iter().for_each(|step| watched.step(step));
    }
}
