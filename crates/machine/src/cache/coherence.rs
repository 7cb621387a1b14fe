//! Coherence between the private caches of cores, as MESI has it: a core that has a line dirty
//! is the only one that has it.
//!
//! The directory says which cores have a line; a look into their sets says where, the farthest
//! level first, and no further where an inclusive one lacks the line. With one core nothing of
//! this happens.

use super::extras::DepartureReason;
use super::hierarchy::{Access, Hierarchy, Outcome, narrow};
use super::set_cache::{Cache, Line, WaySlot};
use crate::config::Holds;
use std::ops::Range;

impl Hierarchy {
    /// The cores that may have the line in their own caches, a bit each.
    #[inline(always)]
    pub(super) fn owners(&self, line: Line) -> u64 {
        if self.cores > 1 { self.directory.cores_with(line) } else { 1 }
    }

    /// For a core that lacks the line: whether others have it, or `Err` with the core that has it dirty.
    pub(super) fn snoop(&mut self, line: Line) -> Result<bool, usize> {
        let owners = self.owners(line);
        // A core that has it dirty is the only one that has it.
        if owners.is_power_of_two() {
            let mut dirty = false;
            self.each_private_copy(owners, line, |cache, slot| dirty |= cache.is_dirty(slot));
            if dirty {
                return Err(owners.trailing_zeros() as usize);
            }
        }
        Ok(owners != 0)
    }

    /// Whether another core has the line dirty in its own caches.
    pub(crate) fn is_dirty_elsewhere(&mut self, core: usize, line: u64) -> bool {
        self.snoop(narrow(line)).is_err_and(|owner| owner != core)
    }

    /// Makes `core` the only one that has the line, and cleans it in the shared levels: it is about to
    /// be dirty in `core`'s own caches. Returns whether others had it.
    pub(super) fn claim(&mut self, core: usize, line: Line) -> bool {
        let others = self.owners(line) & !(1 << core);
        if others != 0 {
            self.note(others, 0..self.private, line, DepartureReason::Stored);
            self.each_private_copy(others, line, |cache, slot| _ = cache.remove(slot));
            self.directory.remove(line, others);
            self.stats.invalidations += u64::from(others.count_ones());
        }
        self.each_shared_copy(line, |cache, slot| _ = cache.clean(slot));
        others != 0
    }

    /// Fetches a line that only other cores' own caches have, all of them clean, from one of them.
    pub(super) fn forward(&mut self, core: usize, line: Line, access: Access) -> Outcome {
        self.stats.forwards += 1;
        let handed = access == Access::Store && self.claim(core, line);
        self.fill(core, line, self.private, handed);
        self.directory.add(line, core);
        let level = self.private.min(self.levels.len() - 1);
        Outcome { level, cycles: self.handing_cycles(), handed }
    }

    /// Fetches a line that `owner` has dirty. After a load both have it, and it is dirty in the first
    /// shared level; if there is no shared level, it is written to memory, as in MESI.
    pub(super) fn transfer(
        &mut self,
        core: usize,
        owner: usize,
        line: Line,
        access: Access,
    ) -> Outcome {
        self.stats.transfers += 1;
        let (shared, levels) = (self.private, self.levels.len());
        if shared < levels {
            let cache = self.cache(shared, core);
            if let Some(slot) = cache.find(line) {
                cache.touch(slot);
            }
        }
        match access {
            Access::Store => _ = self.claim(core, line),
            Access::Load => {
                self.note(1 << owner, 0..self.private, line, DepartureReason::Shared);
                self.each_private_copy(1 << owner, line, |cache, slot| _ = cache.clean(slot));
                if shared == levels {
                    self.evicted.push(line.into());
                } else if let Some(out) = self.place(core, shared, line, true) {
                    self.leave(core, shared, out);
                }
            }
        }
        self.fill(core, line, shared, access == Access::Store);
        self.directory.add(line, core);
        let level = shared.min(levels - 1);
        Outcome { level, cycles: self.handing_cycles(), handed: true }
    }

    /// A private level of `core` has given up the line: removes the directory's entry, unless another private level of
    /// `core` has it.
    pub(super) fn forget(&mut self, core: usize, line: Line) {
        let mut levels = (0..self.private).rev();
        if !levels.any(|level| self.cache(level, core).find(line).is_some()) {
            self.directory.remove(line, 1 << core);
        }
    }

    /// Takes the line out of all caches: `each` removes it from one.
    pub(super) fn take(&mut self, line: Line, each: impl FnMut(&mut Cache, WaySlot)) {
        self.note_everywhere(self.private..self.levels.len(), line, DepartureReason::Dropped);
        self.each_copy(line, each);
        if self.cores > 1 {
            self.directory.remove(line, u64::MAX);
        }
    }

    /// Every copy of the line in any cache.
    pub(super) fn each_copy(&mut self, line: Line, mut each: impl FnMut(&mut Cache, WaySlot)) {
        self.each_private_copy(self.owners(line), line, &mut each);
        self.each_shared_copy(line, each);
    }

    /// Every copy of the line in these cores' own caches.
    pub(super) fn each_private_copy(
        &mut self,
        mut cores: u64,
        line: Line,
        mut each: impl FnMut(&mut Cache, WaySlot),
    ) {
        while cores != 0 {
            let core = cores.trailing_zeros() as usize;
            self.each_in(0..self.private, core, line, &mut each);
            cores &= cores - 1;
        }
    }

    /// Every copy of the line in the shared caches.
    fn each_shared_copy(&mut self, line: Line, each: impl FnMut(&mut Cache, WaySlot)) {
        self.each_in(self.private..self.levels.len(), 0, line, each);
    }

    /// Every copy of the line in some levels, private ones being `core`'s.
    pub(super) fn each_in(
        &mut self,
        levels: Range<usize>,
        core: usize,
        line: Line,
        mut each: impl FnMut(&mut Cache, WaySlot),
    ) {
        for level in levels.rev() {
            let cache = self.cache(level, core);
            if let Some(slot) = cache.find(line) {
                each(cache, slot);
            } else if self.levels[level].holds == Holds::Inclusive {
                return;
            }
        }
    }
}
