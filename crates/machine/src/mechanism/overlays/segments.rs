//! An overlay: which lines of its page it has, and in which slots of its segment; and the segments that are free.
//!
//! Segments have a sixteenth of a page's lines, or one line if that is more, and twice as many up to a whole page. One for
//! a whole page has each line at its own place; in a smaller one a line's pointer names its slot.

use crate::Ps;
use perdura_memory::LINE;

/// Lines of a page of 4 KB.
const PAGE_LINES: u32 = (4096 / LINE) as u32;
/// Slots of the largest segment with pointers.
const SLOTS: u32 = PAGE_LINES / 2;
/// Bits of a pointer to a slot.
const POINTER_BITS: u32 = SLOTS.trailing_zeros();
/// Bits of an overlay's entry: a pointer for each line of the page, and which slots are taken.
pub const OVERLAY_ENTRY_BITS: u32 = PAGE_LINES * POINTER_BITS + SLOTS;

/// Pointers in words: 64 of five bits.
pub(super) const POINTER_WORDS: usize = (PAGE_LINES * POINTER_BITS / u64::BITS) as usize;

/// Where a segment is: its size is a page's shifted right by `class`; its first line, counted from the pool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) class: u32,
    pub(super) first: u64,
}

/// How many classes of segments pages of this many lines have.
pub(super) fn classes(page: u64) -> u32 {
    page.trailing_zeros().min(4) + 1
}

/// The free segments.
pub(super) struct Segments {
    page: u64,
    free: Vec<Vec<u64>>,
    /// The first line that no segment has had yet.
    end: u64,
}

impl Segments {
    pub(super) fn new(page: u64) -> Self {
        Segments { page, free: vec![Vec::new(); classes(page) as usize], end: 0 }
    }

    /// Takes the smallest segment with room for `lines` lines. A page is divided if there is none.
    pub(super) fn take(&mut self, lines: u32) -> Segment {
        let fits = |class: &u32| self.page >> class >= u64::from(lines);
        let class = (0..classes(self.page)).rev().find(fits).unwrap_or(0);
        let free = &mut self.free[class as usize];
        if free.is_empty() {
            let size = self.page >> class;
            free.extend((0..1 << class).rev().map(|it: u64| self.end + it * size));
            self.end += self.page;
        }
        Segment { class, first: free.pop().unwrap_or_default() }
    }

    pub(super) fn give_back(&mut self, segment: Segment) {
        self.free[segment.class as usize].push(segment.first);
    }
}

/// An overlay.
#[derive(Clone, Debug)]
pub(super) struct Overlay {
    page: u64,
    /// `None` when it is given up.
    segment: Option<Segment>,
    page_lines: u64,
    /// The lines of the page that it has.
    lines: u64,
    pointers: [u8; PAGE_LINES as usize],
    /// Slots that are taken.
    taken: u32,
    /// When copies from an outgrown segment are durable.
    pub(super) copied: Ps,
}

impl Overlay {
    pub(super) fn new(page: u64, (segment, page_lines): (Segment, u64)) -> Self {
        let pointers = [0; PAGE_LINES as usize];
        let (segment, copied) = (Some(segment), Ps(0));
        Overlay { page, segment, page_lines, lines: 0, pointers, taken: 0, copied }
    }

    pub(super) fn page(&self) -> u64 {
        self.page
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// The numbers in the page of the lines that it has.
    pub(super) fn indices(&self) -> impl Iterator<Item = u64> + use<> {
        let lines = self.lines;
        (0..64).filter(move |index| lines >> index & 1 == 1)
    }

    /// The first line of its segment.
    pub(super) fn first_line(&self) -> u64 {
        self.segment.map_or(0, |segment| segment.first)
    }

    /// Slots of its segment.
    pub(super) fn slots(&self) -> u64 {
        self.segment.map_or(0, |segment| self.page_lines >> segment.class)
    }

    /// The slot of a line of the page, if it has that.
    pub(super) fn slot(&self, index: u64) -> Option<u64> {
        (self.lines >> index & 1 == 1).then(|| match self.segment {
            Some(Segment { class: 0, .. }) => index,
            _ => u64::from(self.pointers[index as usize]),
        })
    }

    /// Takes a slot for a line, for which there is room.
    pub(super) fn add(&mut self, index: u64) {
        if self.lines >> index & 1 == 1 {
            return;
        }
        self.lines |= 1 << index;
        if self.slots() < self.page_lines {
            let slot = self.taken.trailing_ones();
            self.pointers[index as usize] = slot as u8;
            self.taken |= 1 << slot;
        }
    }

    /// Its lines are to be in another segment, in the same slots unless that has room for the page. Returns the one that
    /// it had.
    pub(super) fn move_to(&mut self, segment: Segment) -> Option<Segment> {
        self.segment.replace(segment)
    }

    /// It has no segment any more. Returns the one that it had.
    pub(super) fn give_up(&mut self) -> Option<Segment> {
        self.segment.take()
    }

    /// Its segment, the slots of it that are taken, and the pointers of its page's lines.
    pub(super) fn parts(&self) -> (Segment, u32, [u64; POINTER_WORDS]) {
        let segment = self.segment.unwrap_or(Segment { class: 0, first: 0 });
        let mut pointers = [0; POINTER_WORDS];
        for (index, pointer) in self.pointers.iter().enumerate() {
            put_pointer(&mut pointers, index, *pointer);
        }
        (segment, self.taken, pointers)
    }
}

fn put_pointer(words: &mut [u64; POINTER_WORDS], index: usize, pointer: u8) {
    let bit = index * POINTER_BITS as usize;
    let (word, shift) = (bit / 64, bit % 64);
    words[word] |= u64::from(pointer) << shift;
    if shift + POINTER_BITS as usize > 64 {
        words[word + 1] |= u64::from(pointer) >> (64 - shift);
    }
}

/// A line's pointer in an entry's words.
pub(super) fn pointer(words: &[u64; POINTER_WORDS], index: u64) -> u64 {
    let bit = index as usize * POINTER_BITS as usize;
    let (word, shift) = (bit / 64, bit % 64);
    let mut pointer = words[word] >> shift;
    if shift + POINTER_BITS as usize > 64 {
        pointer |= words[word + 1] << (64 - shift);
    }
    pointer & u64::from(SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3.5 of Dual-Page Checkpointing: 64 pointers of five bits and a vector of 32.
    #[test]
    fn an_entry_has_as_many_bits_as_the_paper_has() {
        assert_eq!((POINTER_BITS, SLOTS, OVERLAY_ENTRY_BITS), (5, 32, 352));
        assert_eq!(POINTER_WORDS as u32 * u64::BITS + SLOTS, OVERLAY_ENTRY_BITS);
    }

    #[test]
    fn the_smallest_segment_that_fits_is_taken() {
        let mut segments = Segments::new(64);
        let sizes: Vec<_> = [1, 4, 5, 8, 9, 32, 33, 64]
            .map(|lines| 64 >> segments.take(lines).class)
            .into_iter()
            .collect();
        assert_eq!(sizes, [4, 4, 8, 8, 16, 32, 64, 64]);
        assert_eq!([1, 2, 4, 64].map(classes), [1, 2, 3, 5]);
        let mut small = Segments::new(4);
        let taken = [(); 5].map(|()| small.take(1).first);
        assert_eq!(taken, [0, 1, 2, 3, 4]);
        small.give_back(Segment { class: 2, first: 2 });
        assert_eq!((small.take(1).first, small.take(2).first), (2, 8));
    }
}
