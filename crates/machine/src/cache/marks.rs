//! Marked lines: a mechanism marks lines, and is called when one of them leaves a cache, or when another core loads
//! one that was dirty in a core's own caches.
//!
//! A mark belongs to a line, not to a copy: a line stays marked, even if no cache has it, until its mark is removed.
//! Marks do not change what the caches do, unless a [`VictimRule`](super::VictimRule) says so.

use super::extras::{Departure, DepartureReason};
use super::hierarchy::{Hierarchy, narrow};
use super::set_cache::Line;
use std::ops::Range;

impl Hierarchy {
    /// Marks a line: from now on [`departures`](Self::departures) lists its copies that leave a cache.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES).
    pub fn mark(&mut self, line: u64) {
        let line = narrow(line).into();
        self.extras().marked.insert(line, ());
    }

    /// Removes the mark of a line. Returns whether it had one.
    pub fn unmark(&mut self, line: u64) -> bool {
        self.extras.as_mut().is_some_and(|extras| extras.marked.remove(&line).is_some())
    }

    /// Removes all marks. Departures already reported stay.
    pub fn clear_marks(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.marked.clear();
        }
    }

    /// Whether a line is marked.
    #[inline]
    pub fn is_marked(&self, line: u64) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.marked.contains_key(&line))
    }

    /// Watches a line: its copies that leave a cache are reported as a marked line's are. Watching changes no
    /// replacement, and is apart from marks: for the mechanism in the place for transactions.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES).
    pub fn watch(&mut self, line: u64) {
        let line = narrow(line).into();
        self.extras().watched.insert(line, ());
    }

    /// Watches a line no longer.
    pub fn unwatch(&mut self, line: u64) {
        if let Some(extras) = &mut self.extras {
            extras.watched.remove(&line);
        }
    }

    /// Whether the departures of a line are reported.
    #[inline]
    pub(super) fn is_reported(&self, line: u64) -> bool {
        self.extras.as_ref().is_some_and(|extras| extras.reports(line))
    }

    /// Copies of marked lines that have left a cache, of every level, oldest first. Unlike [`evicted`](Self::evicted)
    /// they stay here from call to call, until they are [taken](Self::take_departures). [`anywhere`](Self::anywhere)
    /// says whether a line has left all caches.
    #[inline]
    pub fn departures(&self) -> &[Departure] {
        self.extras.as_ref().map_or(&[], |extras| &extras.departures)
    }

    /// Takes the [`departures`](Self::departures).
    pub fn take_departures(&mut self) -> Vec<Departure> {
        self.extras.as_mut().map_or_else(Vec::new, |extras| std::mem::take(&mut extras.departures))
    }

    /// Whether any cache has the line.
    ///
    /// # Panics
    /// If the line is not below [`LINES`](Self::LINES).
    pub fn anywhere(&self, line: u64) -> bool {
        let line = narrow(line);
        self.caches.iter().any(|cache| cache.find(line).is_some())
    }

    /// Reports that the line, if it is marked, is about to leave some levels; private levels are those of `cores`.
    #[inline(always)]
    pub(super) fn note(
        &mut self,
        cores: u64,
        levels: Range<usize>,
        line: Line,
        why: DepartureReason,
    ) {
        if self.is_reported(line.into()) {
            self.note_copies(cores, levels, line, why);
        }
    }

    /// Reports that the line, if it is marked, is about to leave all private levels, and some of the shared ones.
    #[inline(always)]
    pub(super) fn note_everywhere(
        &mut self,
        shared: Range<usize>,
        line: Line,
        why: DepartureReason,
    ) {
        if self.is_reported(line.into()) {
            self.note_copies(1, shared, line, why);
            self.note_copies(self.owners(line), 0..self.private, line, why);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_copies(
        &mut self,
        mut cores: u64,
        levels: Range<usize>,
        line: Line,
        why: DepartureReason,
    ) {
        while cores != 0 {
            let core = cores.trailing_zeros() as usize;
            cores &= cores - 1;
            for level in levels.clone().rev() {
                let cache = self.cache(level, core);
                let Some(slot) = cache.find(line) else { continue };
                let (dirty, core) = (cache.is_dirty(slot), self.owner(level, core));
                // A load by another core does not change a clean copy.
                if dirty || why != DepartureReason::Shared {
                    let departure = Departure { line: line.into(), core, level, dirty, why };
                    self.extras().departures.push(departure);
                }
            }
        }
    }
}
