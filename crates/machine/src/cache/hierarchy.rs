//! Levels of caches: what an access does to them.
//!
//! A line that is found in a level, or fetched from memory, is put into every level above, except
//! into levels of victims; if it was found in a level of victims, it leaves that. A dirty line
//! that is replaced goes into the next level, and out of the last one into `evicted`; a clean one
//! is forgotten, unless the next level holds victims.
//!
//! Dirtiness travels with the line to the level nearest to the core: so the copy nearest to the
//! core is the dirty one, and a store that finds its line there need not look further. (Some
//! processors leave the dirty copy where it was: then the levels in between see other write-backs;
//! an inclusive last level has the same evictions.) With several cores, a load leaves the dirty copy
//! in the shared level, from which other cores can load the line without asking a core.

use super::directory::Directory;
use super::extras::{DepartureReason, Extras, VictimRule};
use super::set_cache::{Cache, HELD, Line, WaySlot};
use super::stats::{CacheStats, LevelStats};
use crate::config::{Holds, Level};
use perdura_memory::reference::SplitMix64;

/// What a core does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Load,
    /// Writes it: the core is the only one that has it afterwards, dirty.
    Store,
}

/// Where an access ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The level that had the line; the number of levels if none had. A line that came from
    /// another core's caches counts as found in the first shared level (the last one if none is
    /// shared).
    pub level: usize,
    /// Cycles in the caches.
    pub cycles: u32,
    /// The line, or the right to change it, came from another core. Such transfers of one line do not overlap.
    pub handed: bool,
}

/// All caches of a machine.
pub struct Hierarchy {
    /// Level after level; the caches of a private level in the order of the cores.
    pub(super) caches: Vec<Cache>,
    pub(super) levels: Vec<LevelPlace>,
    /// Number of private levels. With one core all levels count as private: no other core can have a line.
    pub(super) private: usize,
    pub(super) cores: usize,
    /// For the private caches; unused with one core.
    pub(super) directory: Directory,
    pub(super) transfer_cycles: u32,
    /// See [`forwards_clean`](Self::forwards_clean).
    pub(super) forwards_clean: bool,
    pub(super) evicted: Vec<u64>,
    pub(super) stats: CacheStats,
    /// State that only hardware mechanisms use; made at the first use.
    pub(super) extras: Option<Box<Extras>>,
}

/// A level, and where its caches are.
pub(super) struct LevelPlace {
    pub(super) first: usize,
    /// 1 if every core has its own cache, 0 if all have one.
    pub(super) per_core: usize,
    pub(super) holds: Holds,
    pub(super) latency: u32,
}

impl Hierarchy {
    /// Lines have numbers below this one: 256 GiB.
    pub const LINES: u64 = HELD as u64;

    /// Empty caches for `cores` cores. The caches draw their random numbers from
    /// `SplitMix64::new(seed + n)`, `n` counting the caches level by level and core by core.
    ///
    /// # Panics
    /// If [`MachineConfig::validate`](crate::MachineConfig::validate) would refuse the levels, or
    /// if there is no core.
    pub fn new(levels: &[Level], cores: usize, transfer_cycles: u32, seed: u64) -> Self {
        assert!((1..=64).contains(&cores), "1 to 64 cores");
        assert!(!levels.is_empty(), "a cache at least");
        let alone = cores == 1 || levels[0].shared;
        let (mut caches, mut places, mut private_lines) = (Vec::new(), Vec::new(), 0);
        for level in levels {
            let ways = level.ways as usize;
            assert!((1..=64).contains(&ways), "1 to 64 ways");
            let sets = (level.bytes / 64) as usize / ways;
            assert!(sets > 0, "a cache has a set");
            let own = !level.shared && !alone;
            places.push(LevelPlace {
                first: caches.len(),
                per_core: usize::from(own),
                holds: level.holds,
                latency: level.latency_cycles,
            });
            private_lines += if own { cores * sets * ways } else { 0 };
            for _ in 0..if own { cores } else { 1 } {
                let random = SplitMix64::new(seed.wrapping_add(caches.len() as u64));
                caches.push(Cache::new(level.policy, sets, ways, random));
            }
        }
        Hierarchy {
            caches,
            private: places.iter().filter(|place| alone || place.per_core == 1).count(),
            stats: CacheStats {
                levels: vec![LevelStats::default(); places.len()],
                ..CacheStats::default()
            },
            levels: places,
            directory: Directory::new(private_lines),
            cores: if alone { 1 } else { cores },
            transfer_cycles,
            forwards_clean: true,
            evicted: Vec::new(),
            extras: None,
        }
    }

    /// Whether a core fetches a line that other cores have clean, and no shared level has, from one of them (as with
    /// MESIF's forward state) and not from memory. The default is true.
    pub fn forwards_clean(mut self, forwards: bool) -> Self {
        self.forwards_clean = forwards;
        self
    }

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

    /// Core `core` loads or stores `line`. Dirty lines that left the caches for it are in
    /// [`evicted`](Self::evicted) until the next call.
    ///
    /// A store to a line that others have too takes as long as fetching it from one of them: they are invalidated
    /// through the first shared level, and the core that stores waits for their answers.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES).
    #[inline]
    pub fn access(&mut self, core: usize, line: u64, access: Access) -> Outcome {
        self.evicted.clear();
        let line = narrow(line);
        let (place, cores) = (&self.levels[0], self.cores);
        let nearest = &mut self.caches[place.first + core * place.per_core];
        let Some(slot) = nearest.find(line) else { return self.miss(core, line, access) };
        nearest.touch(slot);
        self.stats.levels[0].hits += 1;
        let mut handed = false;
        if access == Access::Store && !nearest.is_dirty(slot) {
            nearest.set_dirty(slot);
            handed = cores > 1 && self.claim(core, line);
        }
        let cycles = if handed { self.handing_cycles() } else { self.levels[0].latency };
        Outcome { level: 0, cycles, handed }
    }

    /// Cycles to hand a line, or the right to change it, to another core.
    #[inline]
    pub(crate) fn handing_cycles(&self) -> u32 {
        self.levels[self.private.min(self.levels.len() - 1)].latency + self.transfer_cycles
    }

    /// The rest of an access whose nearest cache does not have the line.
    fn miss(&mut self, core: usize, line: Line, access: Access) -> Outcome {
        self.stats.levels[0].misses += 1;
        let mut others = false;
        let mut found = self.look(core, line, 1..self.private);
        if found.is_none() && self.cores > 1 {
            match self.snoop(line) {
                Ok(some) => others = some,
                Err(owner) => return self.transfer(core, owner, line, access),
            }
            found = self.look(core, line, self.private..self.levels.len());
            if found.is_none() && others && self.forwards_clean {
                return self.forward(core, line, access);
            }
        }
        let mut dirty = access == Access::Store;
        let level = found.map_or(self.levels.len(), |(level, _)| level);
        if let Some((level, slot)) = found {
            let victims = self.levels[level].holds == Holds::Victims;
            let shared = level >= self.private;
            let cache = self.cache(level, core);
            // A line that other cores have must not become dirty in this core's own caches; and a
            // core that only reads a line should not have to hand it to others.
            let stays = shared && !dirty && (others || !victims) && cache.is_dirty(slot);
            if stays || !victims {
                cache.touch(slot);
                dirty |= !stays && cache.clean(slot);
            } else {
                self.note(1 << core, level..level + 1, line, DepartureReason::MovedUp);
                dirty |= self.cache(level, core).remove(slot);
            }
        }
        let handed = access == Access::Store && self.cores > 1 && self.claim(core, line);
        self.fill(core, line, level, dirty);
        if level >= self.private && self.cores > 1 {
            self.directory.add(line, core);
        }
        let latency = self.levels[level.min(self.levels.len() - 1)].latency;
        let cycles = if handed { latency.max(self.handing_cycles()) } else { latency };
        Outcome { level, cycles, handed }
    }

    /// The first of some levels that has the line.
    fn look(
        &mut self,
        core: usize,
        line: Line,
        levels: std::ops::Range<usize>,
    ) -> Option<(usize, WaySlot)> {
        for level in levels {
            if let Some(slot) = self.cache(level, core).find(line) {
                self.stats.levels[level].hits += 1;
                return Some((level, slot));
            }
            self.stats.levels[level].misses += 1;
        }
        None
    }

    /// Puts a line into the levels above `level`, the farthest first, so that an inclusive level that
    /// replaces a line for it cannot recall the line itself from the levels above.
    pub(super) fn fill(&mut self, core: usize, line: Line, level: usize, dirty: bool) {
        for level in (0..level).rev() {
            if level > 0 && self.levels[level].holds == Holds::Victims {
                continue;
            }
            if let Some(out) = self.insert(core, level, line, dirty && level == 0) {
                self.leave(core, level, out);
            }
        }
    }

    /// A line was replaced in `level`: it goes to the next level, or out of the caches.
    pub(super) fn leave(&mut self, core: usize, mut level: usize, out: (Line, bool)) {
        let (mut line, mut dirty) = out;
        loop {
            if level > 0 && self.levels[level].holds == Holds::Inclusive {
                dirty |= self.recall(core, level, line);
            }
            self.stats.levels[level].dirty_evictions += u64::from(dirty);
            level += 1;
            let holds = self.levels.get(level).map(|level| level.holds);
            let goes_on = holds.is_some_and(|holds| dirty || holds == Holds::Victims);
            if self.cores > 1 && level <= self.private && !(goes_on && level < self.private) {
                self.forget(core, line);
            }
            if !goes_on {
                if dirty {
                    self.evicted.push(line.into());
                }
                return;
            }
            match self.place(core, level, line, dirty) {
                Some(out) => (line, dirty) = out,
                None => return,
            }
        }
    }

    /// Takes a line out of the levels above an inclusive one. Returns whether it was dirty there.
    fn recall(&mut self, core: usize, inclusive: usize, line: Line) -> bool {
        let (mut dirty, mut copies) = (false, 0);
        let mut take = |cache: &mut Cache, slot: WaySlot| {
            dirty |= cache.remove(slot);
            copies += 1;
        };
        if inclusive < self.private {
            self.note(1 << core, 0..inclusive, line, DepartureReason::Recalled);
            self.each_in(0..inclusive, core, line, &mut take);
        } else {
            self.note_everywhere(self.private..inclusive, line, DepartureReason::Recalled);
            self.each_in(self.private..inclusive, core, line, &mut take);
            self.each_private_copy(self.owners(line), line, &mut take);
            if self.cores > 1 {
                self.directory.remove(line, u64::MAX);
            }
        }
        self.stats.levels[inclusive].back_invalidations += copies;
        dirty
    }

    /// Inserts a line that is not in a cache. Returns the replaced line, and whether that is dirty.
    #[inline(always)]
    fn insert(
        &mut self,
        core: usize,
        level: usize,
        line: Line,
        dirty: bool,
    ) -> Option<(Line, bool)> {
        if self.extras.is_some() {
            return self.insert_watched(core, level, line, dirty);
        }
        self.cache(level, core).insert(line, dirty)
    }

    /// Takes back a line from the level above: into the copy that is there, or as a new one.
    pub(super) fn place(
        &mut self,
        core: usize,
        level: usize,
        line: Line,
        dirty: bool,
    ) -> Option<(Line, bool)> {
        let cache = self.cache(level, core);
        let Some(slot) = cache.find(line) else { return self.insert(core, level, line, dirty) };
        if dirty {
            cache.set_dirty(slot);
        }
        None
    }

    #[inline(always)]
    pub(super) fn cache(&mut self, level: usize, core: usize) -> &mut Cache {
        let place = &self.levels[level];
        &mut self.caches[place.first + core * place.per_core]
    }

    /// Dirty lines that left the caches in the last call, oldest first.
    #[inline]
    pub fn evicted(&self) -> &[u64] {
        &self.evicted
    }

    /// Cleans `line` in all caches, and drops it unless `keeps`. Returns whether it was dirty. Versions of it stay.
    pub fn write_back(&mut self, _core: usize, line: u64, keeps: bool) -> bool {
        self.evicted.clear();
        let mut dirty = false;
        if keeps {
            self.each_copy(narrow(line), |cache, slot| dirty |= cache.clean(slot));
        } else {
            self.take(narrow(line), |cache, slot| dirty |= cache.remove(slot));
        }
        dirty
    }

    /// Drops `line` from all caches, dirty or not: it is being stored past the caches. Versions of it stay.
    pub fn drop_line(&mut self, line: u64) {
        self.evicted.clear();
        self.take(narrow(line), |cache, slot| _ = cache.remove(slot));
    }

    /// Drops `core`'s copy of a line from its nearest cache: it holds what is undone now. If the line was `dirty` before
    /// that was stored, its contents go to the next level, as when it is replaced; otherwise no copy of it is dirty any
    /// more. Dirty lines that leave the caches are in [`evicted`](Self::evicted) until the next call.
    pub fn undo_line(&mut self, core: usize, line: u64, dirty: bool) {
        self.evicted.clear();
        let line = narrow(line);
        if !dirty {
            self.each_copy(line, |cache, slot| _ = cache.clean(slot));
        }
        self.note(1 << core, 0..1, line, DepartureReason::Dropped);
        let nearest = self.cache(0, core);
        if let Some(slot) = nearest.find(line) {
            let dirty = nearest.remove(slot);
            self.leave(core, 0, (line, dirty));
        }
    }

    /// Whether some cache has the line dirty.
    pub fn is_dirty(&mut self, line: u64) -> bool {
        let mut dirty = false;
        self.each_copy(narrow(line), |cache, slot| dirty |= cache.is_dirty(slot));
        dirty
    }

    /// Every dirty line, ascending, without versions.
    pub fn dirty(&self) -> Vec<u64> {
        let lines = self.caches.iter().flat_map(Cache::dirty_lines);
        let mut lines: Vec<u64> = lines.map(u64::from).collect();
        lines.sort_unstable();
        lines
    }

    /// Whether `line` is in a level: in `core`'s own cache if it is private. A version
    /// of it does not count.
    pub fn contains(&self, core: usize, level: usize, line: u64) -> bool {
        let place = &self.levels[level];
        self.caches[place.first + core * place.per_core].find(narrow(line)).is_some()
    }

    /// Resets the statistics.
    pub fn reset_stats(&mut self) {
        let levels = vec![LevelStats::default(); self.levels.len()];
        self.stats = CacheStats { levels, ..CacheStats::default() };
    }

    /// The statistics.
    pub fn stats(&self) -> &CacheStats {
        &self.stats
    }
}

#[inline(always)]
pub(super) fn narrow(line: u64) -> Line {
    assert!(line < Hierarchy::LINES, "the caches know the first 256 GiB of memory only");
    line as Line
}
