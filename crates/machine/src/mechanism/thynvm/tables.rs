//! The tables in the home device, and recovery from them.
//!
//! The first line holds the number of finished epochs and that of the epoch up to which entries are dead. Then come two
//! copies of the table of blocks and two of the table of pages, eight entries in a line; an epoch's number says which
//! copies count. An entry has the number of the epoch that it was stored for, so that those of a former life do not count.

use super::super::mutant::Mutant;
use super::super::{Home, epoch_number};
use super::mutants::{BELIEVE, BLOCKS, DEAD, PAGES};
use perdura_memory::LINE;
use std::ops::Range;

/// Bits of a physical address (x86-64, 3.5 of Dual-Page Checkpointing).
const ADDRESS_BITS: u32 = 48;
/// Bits that name a block of the table of blocks.
pub const BLOCK_INDEX_BITS: u32 = ADDRESS_BITS - LINE.trailing_zeros();
/// Bits that name a page of the table of pages.
pub const PAGE_INDEX_BITS: u32 = ADDRESS_BITS - 4096u32.trailing_zeros();

/// Entries that share a line.
pub(super) const ENTRIES: u64 = 8;

const EPOCHS: u64 = (1 << 30) - 1;

/// One of the three places of a page or of an entry's block. A block's `Home` is its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Home = 0,
    First = 1,
    Second = 2,
}

/// Where everything is among the mechanism's lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) header: u64,
    /// Lines of a page.
    pub(super) page: u64,
    pub(super) entries: u64,
}

impl Layout {
    /// Of a program with `program` lines. A table of blocks is not larger than the program.
    pub(super) fn new(program: u64, page: u64, entries: u64) -> Self {
        Layout { header: program, page, entries: entries.min(program) }
    }

    pub(super) fn pages(self) -> u64 {
        self.header.div_ceil(self.page)
    }

    pub(super) fn page_of(self, line: u64) -> usize {
        (line / self.page) as usize
    }

    /// The number of a line in its page.
    pub(super) fn index(self, line: u64) -> u64 {
        line % self.page
    }

    /// The program's lines of a page; the last may be shorter.
    pub(super) fn lines(self, page: usize) -> Range<u64> {
        let first = page as u64 * self.page;
        first..(first + self.page).min(self.header)
    }

    /// The line of a copy of the table of blocks that has an entry.
    pub(super) fn block_entry(self, copy: u64, entry: u64) -> u64 {
        self.header + 1 + copy * self.entries.div_ceil(ENTRIES) + entry / ENTRIES
    }

    /// The line of a copy of the table of pages that has a page's entry.
    pub(super) fn page_entry(self, copy: u64, page: u64) -> u64 {
        self.block_entry(2, 0) + copy * self.pages().div_ceil(ENTRIES) + page / ENTRIES
    }

    fn page_pool(self) -> u64 {
        self.page_entry(2, 0).next_multiple_of(self.page)
    }

    fn block_pool(self) -> u64 {
        self.page_pool() + 2 * self.pages() * self.page
    }

    /// The line after the last.
    pub(super) fn end(self) -> u64 {
        // Room for any first page boundary.
        self.block_pool() + 2 * self.entries + self.page
    }

    /// A line of a page that is at `place`.
    pub(super) fn in_page(self, place: Place, line: u64) -> u64 {
        let number = match place {
            Place::Home => return line,
            Place::First => 0,
            Place::Second => 1,
        };
        self.page_pool() + (line / self.page * 2 + number) * self.page + line % self.page
    }

    /// The place of an entry's block; `None` if it is in its page.
    pub(super) fn in_block(self, place: Place, entry: u64) -> Option<u64> {
        match place {
            Place::Home => None,
            Place::First => Some(self.block_pool() + 2 * entry),
            Place::Second => Some(self.block_pool() + 2 * entry + 1),
        }
    }
}

/// An entry's word: a block's line, the epoch that it is for, the place.
pub(super) fn block_word(line: u64, epoch: u64, place: Place) -> u64 {
    line << 32 | page_word(epoch, place)
}

/// A page's word.
pub(super) fn page_word(epoch: u64, place: Place) -> u64 {
    (epoch & EPOCHS) << 2 | place as u64
}

fn epoch_of(word: u64) -> u64 {
    word >> 2 & EPOCHS
}

fn place_of(word: u64) -> Place {
    match word & 3 {
        1 => Place::First,
        2 => Place::Second,
        _ => Place::Home,
    }
}

/// Brings every line home, and makes all entries dead.
pub(super) fn recover(home: &mut Home<'_>, layout: Layout, left_out: &dyn Fn(Mutant) -> bool) {
    let header = home.line(layout.header);
    let (finished, dead) = (header[0], header[1]);
    let unfinished = u64::from(left_out(BELIEVE));
    let (copy, valid) = ((finished + unfinished) % 2, dead + 1..=finished + unfinished);
    let word = |home: &Home<'_>, line: u64, entry: u64| home.line(line)[(entry % ENTRIES) as usize];
    let mut last = finished;
    for page in 0..layout.pages() {
        let words = [0, 1].map(|copy| word(home, layout.page_entry(copy, page), page));
        last = words.iter().fold(last, |last, word| last.max(epoch_of(*word)));
        let word = words[copy as usize];
        if place_of(word) == Place::Home || !valid.contains(&epoch_of(word)) {
            continue;
        }
        let lines = layout.lines(page as usize);
        for line in lines.start..lines.end - u64::from(left_out(PAGES)) {
            home.put(line, &home.line(layout.in_page(place_of(word), line)));
        }
    }
    for entry in 0..layout.entries {
        let words = [0, 1].map(|copy| word(home, layout.block_entry(copy, entry), entry));
        last = words.iter().fold(last, |last, word| last.max(epoch_of(*word)));
        let word = words[copy as usize];
        let at = layout.in_block(place_of(word), entry).filter(|_| valid.contains(&epoch_of(word)));
        if let Some(at) = at.filter(|_| !(left_out(BLOCKS) && entry % 4 == 3)) {
            home.put(word >> 32, &home.line(at));
        }
    }
    if !left_out(DEAD) {
        epoch_number::make_dead(home, layout.header, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 3 and 3.5 of Dual-Page Checkpointing: 42 bits for a cache line, 36 for a page. The table of its own
    /// derivative pages, of 76,800 entries of 37 bits, has room for 67,657 of 42 bits.
    #[test]
    fn entries_have_as_many_bits_as_the_paper_has() {
        assert_eq!((BLOCK_INDEX_BITS, PAGE_INDEX_BITS), (42, 36));
        let table = 76_800 * 37 / 8;
        assert_eq!((table, table * 8 / BLOCK_INDEX_BITS), (355_200, 67_657));
    }

    #[test]
    fn nothing_overlaps() {
        for (program, page, entries) in
            [(128, 4, 24), (131, 64, 1000), (1, 1, 1), (1 << 20, 64, 76_800)]
        {
            let layout = Layout::new(program, page, entries);
            let last_page = layout.pages() - 1;
            let ends = [
                layout.header,
                layout.block_entry(0, 0),
                layout.block_entry(0, layout.entries - 1) + 1,
                layout.block_entry(1, layout.entries - 1) + 1,
                layout.page_entry(0, last_page) + 1,
                layout.page_entry(1, last_page) + 1,
                layout.in_page(Place::First, 0) + 1,
                layout.in_page(Place::Second, program - 1) + 1,
                layout.in_block(Place::First, 0).expect("a place") + 1,
                layout.in_block(Place::Second, layout.entries - 1).expect("a place") + 1,
                layout.end() + 1,
            ];
            assert!(ends.is_sorted_by(|one, next| one < next), "{ends:?}");
            assert_eq!(layout.in_page(Place::First, 0) % page, 0);
        }
    }

    #[test]
    fn words_have_what_was_put_into_them() {
        for place in [Place::Home, Place::First, Place::Second] {
            let word = block_word(77, 1234, place);
            assert_eq!((word >> 32, epoch_of(word), place_of(word)), (77, 1234, place));
        }
    }
}
