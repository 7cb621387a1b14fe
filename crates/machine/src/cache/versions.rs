//! Versions: further copies of a line in a cache, each in a way of the line's set (as in Gopal et al., "Speculative
//! versioning cache", HPCA 1998).
//!
//! The caches keep a version's number and its way; what it means is up to the mechanism. No access, write-back
//! or drop of its line finds it, other cores do not ask for it, no inclusive level recalls it or has it too; it is not
//! dirty, and no statistics count it. It ages as an unused line does, and is replaced as a line is, within the
//! level's [`VictimRule`](super::VictimRule). Then [`Hierarchy::displaced`] lists it, once, and the mechanism drops
//! it, puts it into the next level, or writes it to the device.

use super::extras::HeldVersion;
use super::hierarchy::{Hierarchy, narrow};
use super::set_cache::{HELD, Line, WaySlot};
use super::version_table::{Version, VersionInWay};

impl Hierarchy {
    /// Puts a version of a line into a level (`core`'s cache of it, if it is private), as the policy puts a new line.
    /// A version that is there already counts as used, and is not put twice.
    ///
    /// If the set is full, a line or a version is replaced by the level's rule, but not the version's own line. A
    /// replaced line leaves as in any access: [`evicted`](Self::evicted), which this call clears first, lists it if it
    /// was dirty and left the last level. A replaced version is in [`displaced`](Self::displaced).
    ///
    /// Returns whether the version is there now: it is not if nothing in the set may be replaced.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES), or there is no such core or level.
    pub fn put_version(&mut self, core: usize, level: usize, line: u64, version: Version) -> bool {
        self.evicted.clear();
        let (line, number) = (narrow(line), self.cache_number(level, core));
        if let Some(slot) = self.slot_of(number, line, version) {
            self.caches[number].touch(slot);
            return true;
        }
        let set = self.caches[number].set_of(line);
        // Makes the state, from which `candidates` reads the rule.
        self.extras();
        let (ways, replaceable) = self.candidates(number, level, set, Some(line));
        if !replaceable && self.caches[number].empty_ways(set) == 0 {
            return false;
        }
        let (slot, tag, dirty) = self.caches[number].insert_among(set, HELD, false, ways);
        let out = self.replaced(core, level, (slot, tag, dirty));
        let held = VersionInWay { way: slot.way, line, version };
        self.extras().versions.insert(number, set, held);
        if let Some(out) = out {
            self.leave(core, level, out);
        }
        true
    }

    /// Drops a version from a level: its way is empty. Returns whether it was there.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES), or there is no such core or level.
    pub fn drop_version(&mut self, core: usize, level: usize, line: u64, version: Version) -> bool {
        let (line, number) = (narrow(line), self.cache_number(level, core));
        let Some(slot) = self.slot_of(number, line, version) else { return false };
        self.caches[number].remove(slot);
        self.extras().versions.remove(number, slot);
        true
    }

    /// Drops a version from every cache that has it.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES).
    pub fn drop_version_everywhere(&mut self, line: u64, version: Version) {
        let line = narrow(line);
        for number in 0..self.caches.len() {
            if let Some(slot) = self.slot_of(number, line, version) {
                self.caches[number].remove(slot);
                self.extras().versions.remove(number, slot);
            }
        }
    }

    /// Drops, from all caches, the versions for which `keep` is false, and returns how many. `keep` sees them in no
    /// order.
    pub fn retain_versions(&mut self, keep: impl Fn(&HeldVersion) -> bool) -> usize {
        let gone: Vec<HeldVersion> = self.held().filter(|held| !keep(held)).collect();
        for HeldVersion { line, version, level, core } in &gone {
            self.drop_version(*core, *level, *line, *version);
        }
        gone.len()
    }

    /// The nearest level that has a version, among `core`'s own and the shared ones.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES), or there is no such core.
    pub fn level_of_version(&self, core: usize, line: u64, version: Version) -> Option<usize> {
        (0..self.levels.len()).find(|&level| {
            self.slot_of(self.cache_number(level, core), narrow(line), version).is_some()
        })
    }

    /// The versions of a line in a level (`core`'s cache of it, if it is private), oldest first.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES), or there is no such core or level.
    pub fn versions_of(&self, core: usize, level: usize, line: u64) -> Vec<Version> {
        let (line, number) = (narrow(line), self.cache_number(level, core));
        let here = self.in_set(number, self.caches[number].set_of(line)).iter();
        let mut versions: Vec<Version> =
            here.filter(|held| held.line == line).map(|held| held.version).collect();
        versions.sort_unstable();
        versions
    }

    /// All versions in all caches, by line and version.
    pub fn versions(&self) -> Vec<HeldVersion> {
        let mut all: Vec<HeldVersion> = self.held().collect();
        all.sort_unstable();
        all
    }

    /// Versions that were replaced, oldest first, until they are [taken](Self::take_displaced). Versions dropped by the
    /// mechanism are not among them.
    #[inline]
    pub fn displaced(&self) -> &[HeldVersion] {
        self.extras.as_ref().map_or(&[], |extras| &extras.displaced)
    }

    /// Takes the [`displaced`](Self::displaced) versions.
    pub fn take_displaced(&mut self) -> Vec<HeldVersion> {
        self.extras.as_mut().map_or_else(Vec::new, |extras| std::mem::take(&mut extras.displaced))
    }

    /// The versions in a set.
    #[inline]
    pub(super) fn in_set(&self, number: usize, set: usize) -> &[VersionInWay] {
        self.extras.as_ref().map_or(&[], |extras| extras.versions.of(number, set))
    }

    fn slot_of(&self, number: usize, line: Line, version: Version) -> Option<WaySlot> {
        let set = self.caches[number].set_of(line);
        let here = self.in_set(number, set).iter();
        let mut its = here.filter(|held| held.line == line && held.version == version);
        its.next().map(|held| WaySlot { set, way: held.way })
    }

    fn held(&self) -> impl Iterator<Item = HeldVersion> {
        let versions = self.extras.iter().flat_map(|extras| extras.versions.all());
        versions.map(|(number, VersionInWay { line, version, .. })| {
            let level = self.levels.partition_point(|place| place.first <= number) - 1;
            HeldVersion {
                line: line.into(),
                version,
                level,
                core: number - self.levels[level].first,
            }
        })
    }
}
