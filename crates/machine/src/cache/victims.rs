//! What a full set gives up first: lines, marked lines or versions. Within a kind the policy chooses. A version never
//! replaces its own line.

use super::hierarchy::Hierarchy;
use super::set_cache::{EMPTY, HELD, Line};

/// A level's rule for victims. Each kind has a rank: of a full set, the ways of the lowest rank can be replaced, and
/// the cache's policy chooses among them. By default all ranks are equal: the policy chooses freely.
///
/// Random replacement draws a number for each choice, however few ways there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VictimRule {
    /// The rank of lines that are not marked.
    pub lines: u8,
    /// The rank of marked lines.
    pub marked: u8,
    /// The rank of versions.
    pub versions: u8,
    /// Whether only the versions with the set's smallest [`Version`](super::Version) can be replaced.
    pub oldest_version: bool,
}

impl VictimRule {
    /// The rank that a version never replaces. A line fetched by an access must go somewhere: if a whole set has this
    /// rank, it replaces whatever the policy chooses.
    pub const NEVER: u8 = u8::MAX;

    /// Versions are replaced only where there is no line.
    pub const LINES_FIRST: Self =
        VictimRule { lines: 0, marked: 0, versions: 1, oldest_version: false };

    /// Lines are replaced only where there is no version.
    pub const VERSIONS_FIRST: Self =
        VictimRule { lines: 1, marked: 1, versions: 0, oldest_version: false };

    /// The oldest version is replaced first; a line only where there is no version.
    pub const OLDEST_VERSION_FIRST: Self =
        VictimRule { oldest_version: true, ..Self::VERSIONS_FIRST };
}

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
            let here = || self.in_set(number, set);
            let oldest = here().map(|(_, (_, version))| version).min();
            let newer = here().filter(|(_, (_, version))| Some(*version) != oldest);
            ways &= !newer.fold(0, |newer, (way, _)| newer | 1 << way);
        }
        (if ways == 0 { all } else { ways }, lowest < VictimRule::NEVER)
    }
}
