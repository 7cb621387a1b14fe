//! The tables of overlays in the home device, and recovery from them.
//!
//! The first line holds the number of finished epochs and that of the epoch up to which entries are dead. Then come two
//! tables, of which an epoch's number says which one counts, with a line for each of the epoch's overlays; then the pool
//! of segments. An entry has the number of its epoch: so a table ends where that does not match.

use super::super::mutant::Mutant;
use super::super::{Home, epoch_number};
use super::mutants::{BELIEVE, DEAD, RECOVER};
use super::segments::{Overlay, POINTER_WORDS, Segment, classes, pointer};
use perdura_memory::image::LineWords;
use std::ops::Range;

/// Where everything is among the mechanism's lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) header: u64,
    /// Lines of a page.
    pub(super) page: u64,
}

impl Layout {
    /// Of a program with `program` lines.
    pub(super) fn new(program: u64, page: u64) -> Self {
        Layout { header: program, page }
    }

    pub(super) fn pages(self) -> u64 {
        self.header.div_ceil(self.page)
    }

    /// The line of an entry in one of the two tables.
    pub(super) fn entry(self, table: u64, index: u64) -> u64 {
        self.header + 1 + table * self.pages() + index
    }

    /// The first line of the pool.
    pub(super) fn pool(self) -> u64 {
        self.entry(2, 0).next_multiple_of(self.page)
    }

    /// The line after the last. Each page may have two overlays, and one that moves has two segments; a divided page
    /// stays so.
    pub(super) fn end(self) -> u64 {
        let segments = 2 * self.pages() + 1;
        let divided = (0..classes(self.page)).map(|class| segments.div_ceil(1 << class));
        self.pool() + divided.sum::<u64>() * self.page
    }
}

/// An overlay's entry: page and epoch; the segment, and which of its slots are taken; the lines; the pointers.
pub(super) fn entry(overlay: &Overlay, epoch: u64) -> LineWords {
    let (segment, taken, pointers) = overlay.parts();
    let place = segment.first << 3 | u64::from(segment.class);
    let (page, place) = (overlay.page() << 32 | epoch, place << 32 | u64::from(taken));
    let mut words = [page, place, overlay.lines(), 0, 0, 0, 0, 0];
    words[3..].copy_from_slice(&pointers);
    words
}

/// An overlay as the home device has it.
pub(super) struct StoredOverlay {
    pub(super) page: u64,
    pub(super) epoch: u64,
    pub(super) segment: Segment,
    pub(super) lines: u64,
    pointers: [u64; POINTER_WORDS],
}

impl StoredOverlay {
    pub(super) fn of(words: &LineWords) -> Self {
        let place = words[1] >> 32;
        let mut pointers = [0; POINTER_WORDS];
        pointers.copy_from_slice(&words[3..]);
        StoredOverlay {
            page: words[0] >> 32,
            epoch: words[0] & u64::from(u32::MAX),
            segment: Segment { class: (place & 7) as u32, first: place >> 3 },
            lines: words[2],
            pointers,
        }
    }

    pub(super) fn slot(&self, index: u64) -> Option<u64> {
        let slot = if self.segment.class == 0 { index } else { pointer(&self.pointers, index) };
        (self.lines >> index & 1 == 1).then_some(slot)
    }
}

/// Copies the overlays of the last checkpoint into their pages, and makes all entries dead.
pub(super) fn recover(home: &mut Home<'_>, layout: Layout, left_out: &dyn Fn(Mutant) -> bool) {
    let header = home.line(layout.header);
    let (dead, finished) = (header[1], header[0] + u64::from(left_out(BELIEVE)));
    let mut last = header[0];
    for table in 0..2 {
        for index in 0..layout.pages() {
            let overlay = StoredOverlay::of(&home.line(layout.entry(table, index)));
            last = last.max(overlay.epoch);
            if overlay.epoch != finished || finished <= dead {
                continue;
            }
            let left_out = u32::from(left_out(RECOVER));
            let count = overlay.lines.count_ones() - left_out;
            let indices: Range<u64> = 0..64;
            let slots = indices.filter_map(|index| Some((index, overlay.slot(index)?)));
            for (index, slot) in slots.take(count as usize) {
                let from = layout.pool() + overlay.segment.first + slot;
                home.put(overlay.page * layout.page + index, &home.line(from));
            }
        }
    }
    if !left_out(DEAD) {
        epoch_number::make_dead(home, layout.header, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines get the first free slots, keep them in a larger segment, and have places of their own in the largest; and the
    /// entry in the home device says the same.
    #[test]
    fn slots_are_found_again() {
        let mut overlay = Overlay::new(77, (Segment { class: 1, first: 640 }, 64));
        for index in [63, 0, 12, 13, 25, 38, 51].into_iter().chain(14..24) {
            overlay.add(index);
            overlay.add(63);
        }
        let check = |overlay: &Overlay| {
            let stored = StoredOverlay::of(&entry(overlay, 9));
            assert_eq!((stored.page, stored.epoch, stored.lines), (77, 9, overlay.lines()));
            assert_eq!(stored.segment, overlay.parts().0);
            for index in 0..64 {
                assert_eq!(stored.slot(index), overlay.slot(index), "{index}");
            }
        };
        check(&overlay);
        assert_eq!([63, 0, 12, 5].map(|it| overlay.slot(it)), [Some(0), Some(1), Some(2), None]);
        overlay.move_to(Segment { class: 0, first: 64 });
        check(&overlay);
        assert_eq!([63, 0, 12, 5].map(|it| overlay.slot(it)), [Some(63), Some(0), Some(12), None]);
    }
}
