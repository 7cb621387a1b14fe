//! What a full set gives up first: lines, marked lines or versions. Within a kind the policy chooses. A version never
//! replaces its own line.

use super::extras::{Departure, DepartureReason, HeldVersion, VictimRule};
use super::hierarchy::Hierarchy;
use super::set_cache::{EMPTY, HELD, Line, WaySlot};

impl Hierarchy {
    /// From now on the caches of a level replace by `rule`.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn set_victim_rule(&mut self, level: usize, rule: VictimRule) {
        self.extras().rules[level] = rule;
    }

    /// The ways of a set that can be replaced, a bit each, at least one; and whether a version may replace them: false
    /// if everything there must stay. The line `of`, whose version is put, must stay.
    pub(super) fn candidates(
        &self,
        number: usize,
        level: usize,
        set: usize,
        of: Option<Line>,
    ) -> (u64, bool) {
        let tags = self.caches[number].tags(set);
        let all = u64::MAX >> (64 - tags.len());
        let rule = self.extras.as_ref().map_or(VictimRule::default(), |extras| extras.rules[level]);
        if rule == VictimRule::default() && of.is_none() {
            return (all, true);
        }
        let rank_of = |tag: Line| match tag {
            HELD => rule.versions,
            line if of == Some(line) => VictimRule::NEVER,
            line if rule.marked != rule.lines && self.is_marked(line.into()) => rule.marked,
            _ => rule.lines,
        };
        let (mut lowest, mut ways) = (VictimRule::NEVER, 0);
        for (way, &tag) in tags.iter().enumerate().filter(|(_, tag)| **tag != EMPTY) {
            let rank = rank_of(tag);
            if rank < lowest {
                (lowest, ways) = (rank, 0);
            }
            ways |= u64::from(rank == lowest) << way;
        }
        if rule.oldest_version {
            let here = self.in_set(number, set);
            let oldest = here.iter().map(|held| held.version).min();
            let newer = here.iter().filter(|held| Some(held.version) != oldest);
            ways &= !newer.fold(0, |newer, held| newer | 1 << held.way);
        }
        (if ways == 0 { all } else { ways }, lowest < VictimRule::NEVER)
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
                let held = extras.versions.remove(number, slot);
                let (line, version) = held.expect("the version that a way holds");
                let line = line.into();
                extras.displaced.push(HeldVersion { line, version, level, core: owner });
                None
            }
            line => {
                let number = u64::from(line);
                if extras.reports(number) {
                    let why = DepartureReason::Replaced;
                    let departure = Departure { line: number, core: owner, level, dirty, why };
                    extras.departures.push(departure);
                }
                Some((line, dirty))
            }
        }
    }
}
