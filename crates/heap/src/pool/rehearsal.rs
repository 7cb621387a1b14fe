//! Findings of a rehearsed opening for the real one.

use crate::alloc::layout::{Use, taken};
use crate::superblock::Superblock;
use perdura_memory::{Memory, Noting, PAGE};
use std::ops::Range;

/// A pool's file that can be opened.
pub(super) struct Rehearsed {
    pub(super) superblock: Superblock,
    /// The ranges that must have space in the file: everything except free pages to which recovery stores nothing, and
    /// the page table's entries for pages that do not exist.
    pub(super) needed: Vec<Range<u64>>,
}

/// The ranges that must have space, ascending, of a memory on which the opening was rehearsed.
pub(super) fn needed<M: Memory>(memory: &Noting<M>, superblock: &Superblock) -> Vec<Range<u64>> {
    let layout = superblock.layout;
    let pages = layout.pages_in(memory.len());
    let mut needed = Ranges(Vec::new());
    let is_untouched = |range: &Range<u64>| {
        (range.start / PAGE..range.end / PAGE).all(|page| !memory.was_stored_to(page))
    };
    match superblock.spare_table(pages).filter(is_untouched) {
        Some(spare) => {
            needed.add(0..spare.start);
            needed.add(spare.end..layout.pages);
        }
        None => needed.add(0..layout.pages),
    }
    let mut page = 0;
    while page < pages {
        let entry = layout.entry(page);
        let words = [memory.load(entry), memory.load(entry + 8)];
        let (len, used) = match Use::from_word(words[0]) {
            Some(Use::Free) => (1, false),
            Some(Use::Slots(..)) => (1, taken(words) != 0),
            Some(Use::Run(run)) => (run.min(pages - page), true),
            // The real opening would have refused it.
            None => (1, true),
        };
        if used || memory.was_stored_to(layout.page(page) / PAGE) {
            needed.add(layout.page(page)..layout.page(page + len));
        }
        page += len;
    }
    // Bytes after the last whole page do not belong to the allocator.
    needed.add(layout.page(pages)..memory.len().max(layout.page(pages)));
    needed.0
}

struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range after all others.
    fn add(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.0.push(range),
        }
    }
}
