//! Which versions the caches hold, by cache and set.

use super::set_cache::{Line, WaySlot};
use crate::by_number::ByNumber;

/// Which version of a line: a number chosen by the mechanism. For replacement rules, a smaller number is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u64);

/// A version, and the way of its set that holds it.
#[derive(Clone, Copy)]
pub(super) struct VersionInWay {
    pub(super) way: usize,
    pub(super) line: Line,
    pub(super) version: Version,
}

/// The versions of all caches. A fill of any set looks here for that set's, so they are found by set at once.
#[derive(Default)]
pub(super) struct VersionsBySet(ByNumber<Vec<VersionInWay>>);

impl VersionsBySet {
    /// The versions in a set of a cache.
    #[inline]
    pub(super) fn of(&self, cache: usize, set: usize) -> &[VersionInWay] {
        if self.0.is_empty() {
            return &[];
        }
        self.0.get(&key(cache, set)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn insert(&mut self, cache: usize, set: usize, held: VersionInWay) {
        self.0.entry(key(cache, set)).or_default().push(held);
    }

    /// Takes the version out that a way holds.
    pub(super) fn remove(&mut self, cache: usize, slot: WaySlot) -> Option<(Line, Version)> {
        let here = self.0.get_mut(&key(cache, slot.set))?;
        let at = here.iter().position(|held| held.way == slot.way)?;
        let VersionInWay { line, version, .. } = here.swap_remove(at);
        Some((line, version))
    }

    /// All of them, with the number of their cache, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, VersionInWay)> {
        let sets = self.0.iter();
        sets.flat_map(|(key, here)| here.iter().map(move |&held| ((key >> 32) as usize, held)))
    }
}

fn key(cache: usize, set: usize) -> u64 {
    (cache as u64) << 32 | set as u64
}
