//! Gives the space of free pages back to the file system, and takes it again before they are used.
//!
//! Invariants: the allocator's callers store nothing to a page while it is released or being released, and nothing
//! relies on the contents of such a page. A page is free only when no record in the log may be applied over it any
//! more (see `space`), so that it may become zero at any time, as if a transaction that aborts had stored zeros to it.
//! The page table has space for all pages of the memory.

use super::layout::ENTRY;
use super::runs::Runs;
use super::space::{FreeSpace, Space, step};
use super::stock::Freed;
use perdura_engine::planted::{self, Bug};
use perdura_memory::{Memory, PAGE};
use std::io;
use std::ops::Range;

/// Bytes released at once: a thread that needs these pages waits meanwhile.
const SLICE: u64 = 4 << 20;

impl Space {
    /// Marks the free pages of a newly opened memory that may have no space in the file; to be called before the first
    /// is taken.
    pub fn note_unsecured<M: Memory + ?Sized>(&self, memory: &M) {
        let mut state = self.state();
        for range in memory.unsecured() {
            let first = range.start.max(self.layout.pages) - self.layout.pages;
            let end = range.end.saturating_sub(self.layout.pages);
            for free in state.runs.take_within(first / PAGE..end.div_ceil(PAGE)) {
                state.released.add(free.start, free.end - free.start);
            }
        }
    }

    /// Gives released pages space again, so that `pages` adjacent ones have some; if they are too scattered for that,
    /// all of them.
    pub(super) fn secure(&self, state: &mut FreeSpace, memory: &dyn Memory, pages: u64) {
        let more = step(state.pages - state.released.pages()).max(pages);
        let longest = state.released.longest();
        let mut found = match longest >= pages {
            // The shortest run that is long enough; of its remaining pages as many as the memory would grow by.
            true => state.released.take(pages).map(|page| page..page + pages),
            false => None,
        };
        if let Some(found) = &mut found {
            let behind = found.end..found.start + more;
            let adjacent = state.released.take_within(behind);
            for part in adjacent {
                if part.start == found.end {
                    found.end = part.end;
                } else {
                    state.released.add(part.start, part.end - part.start);
                }
            }
            let least = found.start..found.start + pages;
            if !self.secure_pages(state, memory, found.clone()) && *found != least {
                // The file system may have space for the needed pages, but not for more.
                state.released.take_within(least.clone());
                self.secure_pages(state, memory, least);
            }
            return;
        }
        // Together with adjacent free pages they may be enough.
        if state.released.pages() + state.runs.longest() >= pages {
            while let Some(run) = state.released.take_longest(1, u64::MAX) {
                if !self.secure_pages(state, memory, run) || state.runs.longest() >= pages {
                    return;
                }
            }
        }
    }

    /// Gives these pages, which are in no set, space in the file, and puts them back among the free ones. Returns
    /// whether they have space.
    fn secure_pages(&self, state: &mut FreeSpace, memory: &dyn Memory, pages: Range<u64>) -> bool {
        let (first, count) = (pages.start, pages.end - pages.start);
        match memory.secure(self.layout.page(first)..self.layout.page(pages.end)) {
            Ok(()) => {
                state.runs.add(first, count);
                (state.secured, state.refusal) = (true, None);
                true
            }
            Err(error) => {
                state.released.add(first, count);
                state.refuse(&error);
                false
            }
        }
    }

    /// Gives the entries of these pages space in the page table.
    pub(super) fn secure_table(&self, memory: &dyn Memory, pages: Range<u64>) -> io::Result<()> {
        let first = self.layout.entry(pages.start) / PAGE * PAGE;
        let end = (self.layout.entry(pages.end - 1) + ENTRY).next_multiple_of(PAGE);
        memory.secure(first..end)
    }

    /// Bytes of free pages that have space in the file, and bytes in limbo.
    pub fn unreleased(&self) -> (u64, u64) {
        let (limbo, pages) = self.stocked();
        let state = self.state();
        (state.runs.pages() * PAGE + pages, state.limbo_bytes + limbo)
    }

    /// Whether pages have been secured since the last call, so that the program needs its space.
    pub fn has_secured(&self) -> bool {
        std::mem::take(&mut self.state().secured)
    }

    /// Releases the longest run of free pages, or a part of it, if it has at least `least` pages. Returns the bytes
    /// released: 0 if there is no such run, or if the memory keeps its space.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn release(&self, memory: &dyn Memory, least: u64) -> io::Result<u64> {
        let pages =
            self.state().start_releasing(|runs| runs.take_longest(least.max(1), SLICE / PAGE));
        pages.map_or(Ok(0), |pages| self.release_pages(memory, pages))
    }

    /// As [`release`](Self::release), but one page of the shortest run: for crash tests, since such a page has most
    /// likely been used.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_one(&self, memory: &dyn Memory) -> io::Result<u64> {
        if planted::has(Bug::ReleasedInLimbo) {
            return self.release_limbo(memory);
        }
        let pages = self.state().start_releasing(|runs| runs.take(1).map(|page| page..page + 1));
        pages.map_or(Ok(0), |pages| self.release_pages(memory, pages))
    }

    /// The planted bug: releases a page that is in limbo.
    fn release_limbo(&self, memory: &dyn Memory) -> io::Result<u64> {
        self.collect_limbo();
        let newest = self.state().limbo.back().map(|retired| retired.freed);
        let Some(Freed::Run { page, pages }) = newest else { return Ok(0) };
        let range = self.layout.page(page)..self.layout.page(page + pages);
        memory.release(range.clone())?;
        memory.secure(range).map(|()| pages * PAGE)
    }

    fn release_pages(&self, memory: &dyn Memory, pages: Range<u64>) -> io::Result<u64> {
        let (first, count) = (pages.start, pages.end - pages.start);
        let released = memory.release(self.layout.page(first)..self.layout.page(pages.end));
        let mut state = self.state();
        state.releasing -= count;
        match released {
            Ok(false) => {
                state.add_run(first, count);
                Ok(0)
            }
            Ok(true) => {
                state.released.add(first, count);
                Ok(count * PAGE)
            }
            Err(error) => {
                // Some of these pages may be without space now.
                state.released.add(first, count);
                Err(error)
            }
        }
    }
}

impl FreeSpace {
    fn start_releasing(
        &mut self,
        choose: impl FnOnce(&mut Runs) -> Option<Range<u64>>,
    ) -> Option<Range<u64>> {
        let pages = choose(&mut self.runs)?;
        self.releasing += pages.end - pages.start;
        Some(pages)
    }
}
