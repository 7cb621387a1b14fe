//! The state of what hardware mechanisms use of the caches: versions, marked lines, rules for victims.
//!
//! It is made at the first use. Until then it costs a branch where a line is put into a cache, and where one is
//! taken out; a hit has none. With it, but without a version or a rule, the caches hold the same lines as without it.

use super::hierarchy::Hierarchy;
use super::marks::{Departure, Why};
use super::set_cache::{EMPTY, HELD, Line, Slot};
use super::versions::{HeldVersion, Version};
use super::victims::VictimRule;
use crate::controller::ByNumber;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Extras {
    /// Which version a way holds, by cache, set and way: of each way that has the tag `HELD`.
    pub(super) versions: BTreeMap<(usize, usize, usize), (Line, Version)>,
    pub(super) displaced: Vec<HeldVersion>,
    /// The lines that are marked.
    pub(super) marked: ByNumber<()>,
    pub(super) departures: Vec<Departure>,
    /// Of each level.
    pub(super) rules: Vec<VictimRule>,
}

impl Hierarchy {
    /// The state, made if there is none.
    pub(super) fn extras(&mut self) -> &mut Extras {
        let rules = || vec![VictimRule::default(); self.levels.len()];
        self.extras.get_or_insert_with(|| Box::new(Extras { rules: rules(), ..Extras::default() }))
    }

    /// Which cache a level is, for a core.
    pub(super) fn cache_number(&self, level: usize, core: usize) -> usize {
        let place = &self.levels[level];
        place.first + core * place.per_core
    }

    /// Whose a cache of a level is; 0 of one that all have.
    pub(super) fn owner(&self, level: usize, core: usize) -> usize {
        core * self.levels[level].per_core
    }

    /// Takes in a line that is not in a cache: the level's rule says which ways it may replace, and what leaves is
    /// reported if it is a version or marked. The line that was replaced, and whether that is dirty.
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

    /// Notes what an insertion has replaced. The line, if it is one, and whether it was dirty.
    pub(super) fn replaced(
        &mut self,
        core: usize,
        level: usize,
        (slot, tag, dirty): (Slot, Line, bool),
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
                    let why = Why::Replaced;
                    let departure = Departure { line: number, core: owner, level, dirty, why };
                    extras.departures.push(departure);
                }
                Some((line, dirty))
            }
        }
    }
}
