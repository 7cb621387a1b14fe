//! Coherence between the private caches of cores, as MESI has it: a core that has a line dirty
//! is the only one that has it.
//!
//! Nobody keeps a directory: who wants to know looks into the sets concerned, the farthest
//! private level first, and no further where an inclusive one lacks the line. With one core
//! nothing of this happens.

use super::hierarchy::{Access, Hierarchy, Outcome};
use super::set_cache::{Cache, Line, Slot};
use crate::config::Holds;

impl Hierarchy {
    /// Whether cores besides `core` have the line; if one has it dirty, that core.
    pub(super) fn snoop(&mut self, core: usize, line: Line) -> Result<bool, usize> {
        let mut some = false;
        for other in (0..self.cores).filter(|&other| other != core) {
            let mut dirty = false;
            some |= self.each_private_copy(other, line, |cache, slot| {
                dirty |= cache.is_dirty(slot);
            });
            if dirty {
                return Err(other);
            }
        }
        Ok(some)
    }

    /// Makes `core` the only one that has the line. If it is dirty in a shared level, that ends:
    /// it is about to be dirty in `core`'s own.
    pub(super) fn claim(&mut self, core: usize, line: Line) {
        for other in (0..self.cores).filter(|&other| other != core) {
            let some = self.each_private_copy(other, line, |cache, slot| {
                cache.remove(slot);
            });
            self.stats.invalidations += u64::from(some);
        }
        self.each_shared_copy(line, |cache, slot| {
            cache.clean(slot);
        });
    }

    /// Fetches a line that `owner` has dirty. Loaded, both have it, and it is dirty in the first
    /// shared level; without one it is written to memory, as in MESI.
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
            Access::Store => self.claim(core, line),
            Access::Load => {
                self.each_private_copy(owner, line, |cache, slot| {
                    cache.clean(slot);
                });
                if shared == levels {
                    self.evicted.push(line.into());
                } else if let Some(out) = self.cache(shared, core).place(line, true) {
                    self.leave(core, shared, out);
                }
            }
        }
        self.fill(core, line, shared, access == Access::Store);
        let level = shared.min(levels - 1);
        Outcome { level, cycles: self.levels[level].latency + self.transfer_cycles }
    }

    /// Every copy of the line in any cache.
    pub(super) fn each_copy(&mut self, line: Line, mut each: impl FnMut(&mut Cache, Slot)) {
        if self.each_shared_copy(line, &mut each) {
            for core in 0..self.cores {
                self.each_private_copy(core, line, &mut each);
            }
        }
    }

    /// Every copy of the line in a core's own caches. Whether there was one.
    fn each_private_copy(
        &mut self,
        core: usize,
        line: Line,
        each: impl FnMut(&mut Cache, Slot),
    ) -> bool {
        self.each_in(0..self.private, core, line, each).0
    }

    /// Every copy of the line in the shared caches. Whether there can be others above them.
    fn each_shared_copy(&mut self, line: Line, each: impl FnMut(&mut Cache, Slot)) -> bool {
        self.each_in(self.private..self.levels.len(), 0, line, each).1
    }

    /// Every copy in some levels: whether there was one, and whether levels above can have one.
    fn each_in(
        &mut self,
        levels: std::ops::Range<usize>,
        core: usize,
        line: Line,
        mut each: impl FnMut(&mut Cache, Slot),
    ) -> (bool, bool) {
        let mut some = false;
        for level in levels.rev() {
            let cache = self.cache(level, core);
            if let Some(slot) = cache.find(line) {
                each(cache, slot);
                some = true;
            } else if self.levels[level].holds == Holds::Inclusive {
                return (some, false);
            }
        }
        (some, true)
    }
}
