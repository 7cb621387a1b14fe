//! State that only hardware mechanisms use of the caches: versions, marked lines, rules for victims.
//!
//! It is made at the first use. Until then it costs a branch where a line is put into a cache or taken out, and
//! nothing on a hit. As long as there is no version and no rule, the caches hold the same lines as without it.

use super::hierarchy::Hierarchy;
use super::marks::{Departure, DepartureReason};
use super::set_cache::{EMPTY, HELD, Line, WaySlot};
use super::versions::{HeldVersion, Version};
use super::victims::VictimRule;
use crate::controller::ByNumber;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Extras {
    /// Which version a way holds, by cache, set and way: one entry for each way with the tag `HELD`.
    pub(super) versions: BTreeMap<(usize, usize, usize), (Line, Version)>,
    pub(super) displaced: Vec<HeldVersion>,
    /// The lines that are marked.
    pub(super) marked: ByNumber<()>,
    pub(super) departures: Vec<Departure>,
    /// One for each level.
    pub(super) rules: Vec<VictimRule>,
}

impl Hierarchy {
    /// The state, made if there is none.
    pub(super) fn extras(&mut self) -> &mut Extras {
        let rules = || vec![VictimRule::default(); self.levels.len()];
        self.extras.get_or_insert_with(|| Box::new(Extras { rules: rules(), ..Extras::default() }))
    }

    /// The number of a level's cache, for a core.
    pub(super) fn cache_number(&self, level: usize, core: usize) -> usize {
        let place = &self.levels[level];
        place.first + core * place.per_core
    }

    /// The core that a cache of a level belongs to; 0 for a shared cache.
    pub(super) fn owner(&self, level: usize, core: usize) -> usize {
        core * self.levels[level].per_core
    }

    /// Inserts a line that is not in a cache: the level's rule says which ways it may replace, and a replaced version
    /// or marked line is reported. Returns the replaced line, and whether it is dirty.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_watched(
        &mut self,
        core: usize,
        level: usize,
        line: Line,
        dirty: bool,
    ) -> Option<(Line, bool)> {
        let number = self.cache_number(level, core);
        let set = self.caches[number].set_of(line);
        let ways = self.candidates(number, level, set, None).0;
        let out = self.caches[number].insert_among(set, line, dirty, ways);
        self.replaced(core, level, out)
    }

    /// Reports what an insertion has replaced. Returns the line, if it is one, and whether it was dirty.
    pub(super) fn replaced(
        &mut self,
        core: usize,
        level: usize,
        (slot, tag, dirty): (WaySlot, Line, bool),
    ) -> Option<(Line, bool)> {
        let (number, owner) = (self.cache_number(level, core), self.owner(level, core));
        let extras = self.extras();
        match tag {
            EMPTY => None,
            HELD => {
                let held = extras.versions.remove(&(number, slot.set, slot.way));
                let (line, version) = held.expect("the version that a way holds");
                let line = line.into();
                extras.displaced.push(HeldVersion { line, version, level, core: owner });
                None
            }
            line => {
                let number = u64::from(line);
                if extras.marked.contains_key(&number) {
                    let why = DepartureReason::Replaced;
                    let departure = Departure { line: number, core: owner, level, dirty, why };
                    extras.departures.push(departure);
                }
                Some((line, dirty))
            }
        }
    }
}
